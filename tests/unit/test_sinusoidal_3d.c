/* test_sinusoidal_3d.c - the share of channels among one to seven axes, frames of a video, rules. */
#include "ask.h"

#include <math.h>

Suite *sinusoidal_3d_suite(void);

static posenc_answer answer_of(const char *query) { return ask("sinusoidal_3d", query); }

static double element(const posenc_answer *a, int64_t row, int64_t column)
{
    const posenc_tensor *t = &a->result.tensor[0];
    return posenc_tensor_get(t, row * t->shape[t->rank - 1] + column);
}

static void ck_shape(const posenc_answer *a, int rank, const int64_t *want)
{
    const posenc_tensor *t = &a->result.tensor[0];
    ck_assert_str_eq(t->name, "table");
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], want[i]);
}

static double rung(int i, double n) { return pow(10000, -i / n); }

/* ---- sizes ---- */

START_TEST(multidim) /* 20 channels: 8 for each axis, less the last 4 columns */
{
    posenc_answer a = answer_of("preset=multidim&sizes=2,3,4&embed_dim=20");
    ck_shape(&a, 4, (const int64_t[]){ 2, 3, 4, 20 });
    for (int r = 0; r < 24; r++) {
        const int at[3] = { r / 12, r / 4 % 3, r % 4 };
        for (int k = 0; k < 20; k++) {
            const double v = at[k / 8] * rung(k % 8 / 2, 4);
            ck_assert(fabs(element(&a, r, k) - (k % 2 ? cos(v) : sin(v))) < 2e-7);
        }
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(tensor2tensor) /* 17 channels: 2 timescales for each of 4 axes, and a column of zeros */
{
    posenc_answer a = answer_of("preset=tensor2tensor&sizes=2,1,3,4&embed_dim=17&max_timescale=100");
    ck_shape(&a, 5, (const int64_t[]){ 2, 1, 3, 4, 17 });
    for (int r = 0; r < 24; r++) {
        const int at[4] = { r / 12, 0, r / 4 % 3, r % 4 };
        for (int k = 0; k < 16; k++) {
            const double v = k % 2 ? at[k / 4] / 100.0 : at[k / 4];
            ck_assert(fabs(element(&a, r, k) - (k % 4 < 2 ? sin(v) : cos(v))) < 1e-7);
        }
        ck_assert(element(&a, r, 16) == 0);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(blocks) /* sines of three axes, then cosines */
{
    posenc_answer a = answer_of("sizes=2,3,4&embed_dim=18&layout=blocks&dtype=float64");
    for (int r = 0; r < 24; r++) {
        const int at[3] = { r / 12, r / 4 % 3, r % 4 };
        for (int k = 0; k < 18; k++) {
            const double v = at[k % 9 / 3] * rung(k % 3, 3);
            ck_assert(fabs(element(&a, r, k) - (k < 9 ? sin(v) : cos(v))) < 1e-15);
        }
    }
    posenc_answer_fini(&a);
}
END_TEST

/* One axis is sinusoidal, two are sinusoidal_2d, and of seven each is the one axis again. */
START_TEST(any_number_of_axes)
{
    posenc_answer one, two, seven = answer_of("sizes=1,2,1,3,1,1,2&embed_dim=56&dtype=float64"),
                            a = answer_of("sizes=5&embed_dim=8&dtype=float64"),
                            b = answer_of("sizes=5,4&embed_dim=16&dtype=float64");
    ck_assert_int_eq(
        posenc_encode("sinusoidal", "embedding_dim=8&num_positions=5&layout=split&dtype=float64", NULL, &one, NULL, NULL),
        PE_OK);
    ck_assert_int_eq(posenc_encode("sinusoidal_2d", "height=5&width=4&embed_dim=16&dtype=float64", NULL, &two, NULL, NULL),
                     PE_OK);
    ck_shape(&a, 2, (const int64_t[]){ 5, 8 });
    ck_assert_mem_eq(a.result.tensor[0].data, one.result.tensor[0].data, 5 * 8 * sizeof(double));
    ck_shape(&b, 3, (const int64_t[]){ 5, 4, 16 });
    ck_assert_mem_eq(b.result.tensor[0].data, two.result.tensor[0].data, 20 * 16 * sizeof(double));
    ck_shape(&seven, 8, (const int64_t[]){ 1, 2, 1, 3, 1, 1, 2, 56 });
    for (int r = 0; r < 12; r++) {
        const int at[7] = { 0, r / 6, 0, r / 2 % 3, 0, 0, r % 2 };
        for (int k = 0; k < 56; k++)
            ck_assert(element(&seven, r, k) == element(&a, at[k / 8], k % 8));
    }
    posenc_answer_fini(&one);
    posenc_answer_fini(&two);
    posenc_answer_fini(&seven);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = answer_of("sizes=16777216,16777216,0,16777216,16777216,16777216,16777216&embed_dim=14&dtype=bfloat16&"
                                "odd_dim=zero_pad") /* no element, so that no product overflows */,
                  b = answer_of("temporal_size=0&spatial_size=3,4&embed_dim=16");
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 0);
    ck_shape(&b, 3, (const int64_t[]){ 0, 12, 16 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- frames ---- */

/* [time | column | row], d/4, 3d/8 and 3d/8 channels; coordinates divided in float32, angles in float64. */
START_TEST(frames)
{
    posenc_answer a = answer_of("preset=diffusers&temporal_size=3&spatial_size=5,2&embed_dim=32&spatial_interpolation_scale="
                                "1.875&temporal_interpolation_scale=3&dtype=float64");
    ck_shape(&a, 3, (const int64_t[]){ 3, 10, 32 });
    for (int r = 0; r < 30; r++) {
        const double time = (double)((float)(r / 10) / 3.0f), column = (double)((float)(r % 5) / 1.875f),
                     row = (double)((float)(r / 5 % 2) / 1.875f);
        for (int k = 0; k < 32; k++) {
            const int part = k < 8 ? 0 : k < 20 ? 1 : 2, c = k - (int[]){ 0, 8, 20 }[part], n = part ? 6 : 4;
            const double v = (double[]){ time, column, row }[part] * rung(c % n, n);
            ck_assert(fabs(element(&a, r, k) - (c < n ? sin(v) : cos(v))) < 1e-15);
        }
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(blocks_of_frames) /* the same columns, the sines of all axes first */
{
    posenc_answer a = answer_of("temporal_size=2&spatial_size=3,4&embed_dim=32"),
                  b = answer_of("temporal_size=2&spatial_size=3,4&embed_dim=32&layout=blocks");
    static const int begin[] = { 0, 8, 20 }, half[] = { 4, 6, 6 }, sine[] = { 0, 4, 10 };
    for (int r = 0; r < 24; r++)
        for (int part = 0; part < 3; part++)
            for (int c = 0; c < half[part]; c++) {
                ck_assert(element(&a, r, begin[part] + c) == element(&b, r, sine[part] + c));
                ck_assert(element(&a, r, begin[part] + half[part] + c) == element(&b, r, 16 + sine[part] + c));
            }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- digests ---- */

static const char *const spellings[][2] = {
    { "sizes=2,3&embed_dim=9&preset=multidim",
      "sizes=2,3&embed_dim=9&layout=interleaved&odd_dim=round_up_truncate&compute_dtype=float32" },
    { "sizes=2,3&embed_dim=9&preset=tensor2tensor",
      "sizes=2,3&embed_dim=9&odd_dim=zero_pad&freq_form=exp&compute_dtype=float32&downscale_freq_shift=1&min_timescale=1&"
      "max_timescale=10000" },
    { "temporal_size=2&spatial_size=3,4&embed_dim=16&preset=diffusers",
      "temporal_size=2&spatial_size=3,4&embed_dim=16&grid_dtype=float32" },
};

START_TEST(one_digest)
{
    posenc_answer a = answer_of(spellings[_i][0]), b = answer_of(spellings[_i][1]),
                  c = answer_of(strchr(a.request.key, ' ') + 1);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    ck_assert_str_eq(a.request.digest, c.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

/* ---- bad input ---- */

static const refusal bad[] = {
    { "sizes=2,3", "embed_dim" },
    { "embed_dim=12", "sizes" },
    { "sizes=&embed_dim=12", "sizes" },
    { "sizes=1,1,1,1,1,1,1,1&embed_dim=16", "sizes" },
    { "sizes=2,2.5&embed_dim=16", "sizes[1]" },
    { "sizes=2,-1&embed_dim=16", "sizes[1]" },
    { "sizes=2,16777217&embed_dim=16", "sizes[1]" },
    { "sizes=2,3,4&embed_dim=16", "embed_dim" },
    { "sizes=2,3,4&embed_dim=12&temporal_size=2", "temporal_size" },
    { "sizes=2,3,4&embed_dim=12&spatial_size=2,2", "spatial_size" },
    { "sizes=2,3,4&embed_dim=12&spatial_interpolation_scale=2", "spatial_interpolation_scale" },
    { "sizes=2,3,4&embed_dim=12&temporal_interpolation_scale=2", "temporal_interpolation_scale" },
    { "sizes=2,3,4&embed_dim=12&preset=diffusers", "preset" },
    { "temporal_size=2&spatial_size=3,4&embed_dim=16&preset=multidim&odd_dim=error", "preset" },
    { "temporal_size=2&embed_dim=16", "spatial_size" },
    { "spatial_size=3,4&embed_dim=16", "temporal_size" },
    { "temporal_size=2&spatial_size=3&embed_dim=16", "spatial_size" },
    { "temporal_size=2&spatial_size=3,4,5&embed_dim=16", "spatial_size" },
    { "temporal_size=2&spatial_size=3,0.5&embed_dim=16", "spatial_size[1]" },
    { "temporal_size=2&spatial_size=3,4&embed_dim=24", "embed_dim" },
    { "temporal_size=2&spatial_size=3,4&embed_dim=16&odd_dim=zero_pad", "odd_dim" },
    { "temporal_size=2&spatial_size=3,4&embed_dim=16&spatial_interpolation_scale=0", "spatial_interpolation_scale" },
    { "temporal_size=2&spatial_size=3,4&embed_dim=16&downscale_freq_shift=2", "downscale_freq_shift" },
    { "sizes=2,3,4&embed_dim=12&compute_dtype=float32&grid_dtype=float64", "grid_dtype" },
    { "sizes=2,3,4&embed_dim=12&compute_dtype=float32&temperature=1e-40", "temperature" },
};

START_TEST(bad_input) { refuses("sinusoidal_3d", &bad[_i]); }
END_TEST

START_TEST(too_large)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("sinusoidal_3d", "sizes=16777216,16777216,16777216&embed_dim=12", NULL, &a, NULL, &err),
                     PE_LIMIT);
}
END_TEST

static posenc_status stop_later(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops)
{
    posenc_answer a;
    for (int polls = 0; polls < 5; polls++) {
        int left = polls;
        posenc_context ctx = { .stop = stop_later, .user = &left };
        ck_assert_int_eq(posenc_encode("sinusoidal_3d", "sizes=30,100,100&embed_dim=60", NULL, &a, &ctx, NULL),
                         PE_CANCELLED);
    }
}
END_TEST

Suite *sinusoidal_3d_suite(void)
{
    Suite *s = suite_create("sinusoidal_3d");
    TCase *t = tcase_create("sinusoidal_3d");
    tcase_add_test(t, multidim);
    tcase_add_test(t, tensor2tensor);
    tcase_add_test(t, blocks);
    tcase_add_test(t, any_number_of_axes);
    tcase_add_test(t, empty);
    tcase_add_test(t, frames);
    tcase_add_test(t, blocks_of_frames);
    tcase_add_loop_test(t, one_digest, 0, (int)LEN(spellings));
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, too_large);
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
