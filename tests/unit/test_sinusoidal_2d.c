/* test_sinusoidal_2d.c - the order of axes, rows and sines in every known implementation, coordinates, rules. */
#include "ask.h"

#include <math.h>

Suite *sinusoidal_2d_suite(void);

static posenc_answer answer_of(const char *query) { return ask("sinusoidal_2d", query); }

static double element(const posenc_answer *a, int64_t row, int64_t column)
{
    const posenc_tensor *t = &a->result.tensor[0];
    return posenc_tensor_get(t, row * t->shape[t->rank - 1] + column);
}

static void ck_shape(const posenc_answer *a, int rank, int64_t s0, int64_t s1, int64_t s2)
{
    const posenc_tensor *t = &a->result.tensor[0];
    const int64_t want[3] = { s0, s1, s2 };
    ck_assert_int_eq(a->result.ntensors, 1);
    ck_assert_str_eq(t->name, "table");
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], want[i]);
}

/* ---- orders ---- */

enum { HEIGHT = 3, WIDTH = 5, DIM = 16 };

/* Channel k of the point (y, x) in each implementation, written out from its own code. */
static double sine(double v, int band, int bands) { return sin(v * pow(10000, -(double)band / bands)); }
static double cosine(double v, int band, int bands) { return cos(v * pow(10000, -(double)band / bands)); }

static double column_first(int y, int x, int k) /* MAE, RT-DETR of transformers 4.56 */
{
    const double v = k < 8 ? x : y;
    return k % 8 < 4 ? sine(v, k % 4, 4) : cosine(v, k % 4, 4);
}

static double row_first(int y, int x, int k) { return column_first(x, y, k); } /* transformers 5.x */

static double timm(int y, int x, int k)
{
    const double v = k % 8 < 4 ? y : x;
    return k < 8 ? sine(v, k % 4, 4) : cosine(v, k % 4, 4);
}

static double timm_reversed(int y, int x, int k) { return timm(x, y, k); }

static double multidim(int y, int x, int k)
{
    const double v = k < 8 ? y : x;
    return k % 2 ? cosine(v, k % 8 / 2, 4) : sine(v, k % 8 / 2, 4);
}

static double tensor2tensor(int y, int x, int k) /* log(10000) / (timescales - 1) */
{
    const double v = k < 8 ? y : x;
    return k % 8 < 4 ? sine(v, k % 4, 3) : cosine(v, k % 4, 3);
}

static const struct {
    const char *query;
    double (*of)(int y, int x, int k);
    bool by_column; /* the points column by column */
    bool grid;      /* two axes */
} orders[] = {
    { "preset=mae", column_first, false, false },
    { "preset=vit_mae", row_first, false, false },
    { "preset=aimv2", row_first, false, false },
    { "preset=rt_detr", row_first, false, false },
    { "preset=rt_detr_legacy", column_first, true, false },
    { "preset=timm", timm, false, false },
    { "preset=timm&interleave_sin_cos=true", row_first, false, false },
    { "preset=timm&reverse_coord=true", timm_reversed, true, false },
    { "preset=timm&reverse_coord=true&interleave_sin_cos=true", column_first, true, false },
    { "preset=multidim", multidim, false, true },
    { "preset=tensor2tensor", tensor2tensor, false, true },
    { "preset=mae&axis_order=h_first", row_first, false, false },
    { "", row_first, false, false },
    { "flatten=false&row_order=w_major", row_first, true, true },
};

START_TEST(order)
{
    char query[200];
    snprintf(query, sizeof query, "height=%d&width=%d&embed_dim=%d%s%s", HEIGHT, WIDTH, DIM, *orders[_i].query ? "&" : "",
             orders[_i].query);
    posenc_answer a = answer_of(query);
    const bool by_column = orders[_i].by_column;
    if (orders[_i].grid)
        ck_shape(&a, 3, by_column ? WIDTH : HEIGHT, by_column ? HEIGHT : WIDTH, DIM);
    else
        ck_shape(&a, 2, HEIGHT * WIDTH, DIM, 0);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int k = 0; k < DIM; k++) {
                double got = element(&a, by_column ? x * HEIGHT + y : y * WIDTH + x, k), want = orders[_i].of(y, x, k);
                ck_assert_msg(fabs(got - want) < 2e-7, "%s [%d][%d][%d]: %.9g, not %.9g", query, y, x, k, got, want);
            }
    posenc_answer_fini(&a);
}
END_TEST

/* The complaint: tables of ViT-MAE's own code and of the function in transformers 5.x have their halves swapped. */
START_TEST(halves_are_swapped)
{
    posenc_answer old = answer_of("preset=mae&height=14&width=14&embed_dim=64"),
                  new = answer_of("preset=vit_mae&height=14&width=14&embed_dim=64");
    double apart = 0;
    for (int r = 0; r < 196; r++)
        for (int k = 0; k < 64; k++) {
            ck_assert(element(&old, r, k) == element(&new, r, (k + 32) % 64));
            apart = fmax(apart, fabs(element(&old, r, k) - element(&new, r, k)));
        }
    ck_assert(apart > 1.9);
    ck_assert(element(&old, 1, 0) == (double)(float)sin(1) && element(&new, 1, 0) == 0); /* row 0, column 1 */
    posenc_answer_fini(&old);
    posenc_answer_fini(&new);
}
END_TEST

/* The complaint: RT-DETR 4.56 laid its grid out column by column over an image laid out row by row. */
START_TEST(column_by_column)
{
    posenc_answer old = answer_of("preset=rt_detr_legacy&height=4&width=6&embed_dim=16&compute_dtype=float64"),
                  new = answer_of("preset=rt_detr&height=4&width=6&embed_dim=16");
    int moved = 0;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 6; x++)
            for (int k = 0; k < 16; k++) {
                ck_assert(element(&old, x * 4 + y, k) == element(&new, y * 6 + x, (k + 8) % 16));
                moved += element(&old, y * 6 + x, k) != element(&new, y * 6 + x, (k + 8) % 16);
            }
    ck_assert_int_gt(moved, 100);
    posenc_answer_fini(&old);
    posenc_answer_fini(&new);
}
END_TEST

START_TEST(cosines_first)
{
    static const char *const layouts[] = { "interleaved", "split", "blocks" };
    for (size_t i = 0; i < LEN(layouts); i++) {
        char query[200];
        snprintf(query, sizeof query, "height=3&width=2&embed_dim=16&layout=%s", layouts[i]);
        posenc_answer a = answer_of(query);
        strcat(query, "&flip_sin_to_cos=true");
        posenc_answer b = answer_of(query);
        const int half = i == 0 ? 1 : i == 1 ? 4 : 8; /* columns that change places */
        for (int r = 0; r < 6; r++)
            for (int k = 0; k < 16; k++)
                ck_assert(element(&a, r, k) == element(&b, r, k ^ half));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

/* ---- widths that the axes cannot share ---- */

START_TEST(cut) /* 10 channels: two axes of 6, less the last two columns */
{
    posenc_answer a = answer_of("preset=multidim&height=3&width=4&embed_dim=10"),
                  b = answer_of("preset=multidim&height=3&width=4&embed_dim=12");
    ck_shape(&a, 3, 3, 4, 10);
    for (int r = 0; r < 12; r++)
        for (int k = 0; k < 10; k++)
            ck_assert(element(&a, r, k) == element(&b, r, k));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(rest_is_zero) /* 15 div 4 = 3 timescales: 12 columns */
{
    posenc_answer a = answer_of("preset=tensor2tensor&height=3&width=4&embed_dim=15");
    for (int r = 0; r < 12; r++) {
        for (int k = 12; k < 15; k++)
            ck_assert(element(&a, r, k) == 0);
        ck_assert(fabs(element(&a, r, 3) - cos(r / 4)) < 1e-7 && fabs(element(&a, r, 7) - sin(r % 4 / 100.0)) < 1e-7);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(one_timescale) /* tensor2tensor divides by 0 here */
{
    posenc_answer a = answer_of("preset=tensor2tensor&height=2&width=2&embed_dim=5"),
                  b = answer_of("preset=tensor2tensor&height=2&width=2&embed_dim=3");
    static const double want[4][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } };
    for (int r = 0; r < 4; r++) {
        ck_assert(fabs(element(&a, r, 0) - sin(want[r][0])) < 1e-7 && fabs(element(&a, r, 2) - sin(want[r][1])) < 1e-7);
        ck_assert(fabs(element(&a, r, 1) - cos(want[r][0])) < 1e-7 && element(&a, r, 4) == 0);
        for (int k = 0; k < 3; k++)
            ck_assert(element(&b, r, k) == 0);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- coordinates ---- */

START_TEST(scaled)
{
    posenc_answer a = answer_of("preset=diffusers&height=4&width=6&embed_dim=8&interpolation_scale=2&dtype=float64"),
                  b = answer_of(
                      "preset=diffusers&height=4&width=6&embed_dim=8&interpolation_scale=2&dtype=float64&grid_dtype="
                      "float64");
    double apart = 0;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 6; x++) {
            const float step = (float)x / (float)(6.0 / 16);
            const double narrow = (double)(step / 2), exact = x * 16.0 / 6 / 2;
            ck_assert(fabs(element(&a, y * 6 + x, 0) - sin(narrow)) < 1e-15);
            ck_assert(fabs(element(&b, y * 6 + x, 0) - sin(exact)) < 1e-15);
            ck_assert(fabs(element(&b, y * 6 + x, 7) - cos(y * 16.0 / 4 / 2 / 100)) < 1e-15);
            apart = fmax(apart, fabs(element(&a, y * 6 + x, 0) - element(&b, y * 6 + x, 0)));
        }
    ck_assert(apart > 1e-8 && apart < 1e-6);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(right_to_the_last_bit)
{
    posenc_answer a = answer_of("height=1000&width=3&embed_dim=8&dtype=float64");
    for (int y = 0; y < 1000; y += 37) { /* w = 1 and 1/100 */
        const long double v = (long double)y / 100;
        ck_assert(fabsl((long double)element(&a, 3 * y, 1) - sinl(v)) < 0x1p-53L);
        ck_assert(fabsl((long double)element(&a, 3 * y, 2) - cosl((long double)y)) < 0x1p-53L);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(rounded_once)
{
    static const char *const dtypes[] = { "float32", "float16", "bfloat16" };
    posenc_answer exact = answer_of("height=9&width=7&embed_dim=24&temperature=100&dtype=float64");
    for (size_t d = 0; d < LEN(dtypes); d++) {
        char query[100], narrow[8];
        snprintf(query, sizeof query, "height=9&width=7&embed_dim=24&temperature=100&dtype=%s", dtypes[d]);
        posenc_answer a = answer_of(query);
        posenc_tensor one = { .dtype = a.result.tensor[0].dtype, .data = narrow };
        for (int i = 0; i < 63 * 24; i++) {
            posenc_convert(one.dtype, narrow, (const double *)exact.result.tensor[0].data + i, 1);
            ck_assert(posenc_tensor_get(&one, 0) == posenc_tensor_get(&a.result.tensor[0], i));
        }
        posenc_answer_fini(&a);
    }
    posenc_answer_fini(&exact);
}
END_TEST

/* ---- rows before the points, empty grids ---- */

static const struct {
    const char *query;
    int before;
} tokens[] = {
    { "preset=mae&cls_token=true", 1 },
    { "preset=vit_mae&cls_token=true", 1 },
    { "preset=diffusers&cls_token=true", 0 }, /* extra_tokens is what it adds */
    { "preset=diffusers&cls_token=true&extra_tokens=2", 2 },
    { "cls_token=true&extra_tokens=0", 0 },
    { "cls_token=false&extra_tokens=0", 0 },
};

START_TEST(extra_rows)
{
    char query[200];
    snprintf(query, sizeof query, "height=2&width=3&embed_dim=8&%s", tokens[_i].query);
    posenc_answer a = answer_of(query);
    ck_shape(&a, 2, 6 + tokens[_i].before, 8, 0);
    for (int r = 0; r < tokens[_i].before; r++)
        for (int k = 0; k < 8; k++)
            ck_assert(element(&a, r, k) == 0);
    ck_assert(element(&a, tokens[_i].before, 2) == 1);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = answer_of("height=0&width=5&embed_dim=8"),
                  b = answer_of("height=3&width=0&embed_dim=8&cls_token=true"),
                  c = answer_of("height=0&width=16777216&embed_dim=8&flatten=false&base_size=4&dtype=float64");
    ck_shape(&a, 2, 0, 8, 0);
    ck_shape(&b, 2, 1, 8, 0);
    ck_shape(&c, 3, 0, 16777216, 8);
    for (int k = 0; k < 8; k++)
        ck_assert(element(&b, 0, k) == 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

/* ---- digests ---- */

static const char *const spellings[][2] = {
    { "preset=mae", "layout=split&axis_order=w_first" },
    { "preset=vit_mae", "" },
    { "preset=aimv2", "preset=rt_detr" },
    { "preset=diffusers", "axis_order=w_first&base_size=16&grid_dtype=float32" },
    { "preset=timm", "layout=blocks&compute_dtype=float32" },
    { "preset=timm&interleave_sin_cos=true", "layout=split&compute_dtype=float32&grid_dtype=float32" },
    { "reverse_coord=true", "axis_order=w_first&row_order=w_major" },
    { "reverse_coord=false&interleave_sin_cos=false", "layout=blocks" },
    { "preset=multidim", "layout=interleaved&odd_dim=round_up_truncate&flatten=false&compute_dtype=float32" },
    { "preset=rt_detr_legacy", "preset=timm&reverse_coord=true&interleave_sin_cos=true" },
    { "preset=tensor2tensor", "odd_dim=zero_pad&freq_form=exp&compute_dtype=float32&flatten=false&downscale_freq_shift=1&"
                              "min_timescale=1&max_timescale=10000" },
    { "cls_token=true", "cls_token=true&extra_tokens=1" },
};

/* Either spelling has one digest, and the readable key is a request of that digest. */
START_TEST(one_digest)
{
    char digest[2][65];
    for (int i = 0; i < 2; i++) {
        char query[300];
        snprintf(query, sizeof query, "height=2&width=3&embed_dim=8%s%s", *spellings[_i][i] ? "&" : "", spellings[_i][i]);
        posenc_answer a = answer_of(query), again = answer_of(strchr(a.request.key, ' ') + 1);
        ck_assert_str_eq(a.request.digest, again.request.digest);
        memcpy(digest[i], a.request.digest, 65);
        posenc_answer_fini(&a);
        posenc_answer_fini(&again);
    }
    ck_assert_str_eq(digest[0], digest[1]);
}
END_TEST

/* ---- bad input ---- */

static const refusal bad[] = {
    { "width=4&embed_dim=16", "height" },
    { "height=4&embed_dim=16", "width" },
    { "height=4&width=4", "embed_dim" },
    { "height=-1&width=4&embed_dim=16", "height" },
    { "height=16777217&width=4&embed_dim=16", "height" },
    { "height=4&width=2.5&embed_dim=16", "width" },
    { "height=4&width=4&embed_dim=0", "embed_dim" },
    { "height=4&width=4&embed_dim=18", "embed_dim" },
    { "height=4&width=4&embed_dim=6&preset=mae", "embed_dim" },
    { "height=4&width=4&embed_dim=16&preset=beit", "preset" },
    { "height=4&width=4&embed_dim=16&odd_dim=sin_extra", "odd_dim" },
    { "height=4&width=4&embed_dim=16&temperature=0", "temperature" },
    { "height=4&width=4&embed_dim=16&temperature=nan", "temperature" },
    { "height=4&width=4&embed_dim=16&interpolation_scale=0", "interpolation_scale" },
    { "height=4&width=4&embed_dim=16&interpolation_scale=-1", "interpolation_scale" },
    { "height=4&width=4&embed_dim=16&base_size=0", "base_size" },
    { "height=4&width=4&embed_dim=16&extra_tokens=2", "extra_tokens" },
    { "height=4&width=4&embed_dim=16&preset=multidim&cls_token=true", "cls_token" },
    { "height=4&width=4&embed_dim=16&layout=interleaved&interleave_sin_cos=true", "interleave_sin_cos" },
    { "height=4&width=4&embed_dim=16&layout=split&interleave_sin_cos=false", "interleave_sin_cos" },
    { "height=4&width=4&embed_dim=16&axis_order=h_first&reverse_coord=true", "reverse_coord" },
    { "height=4&width=4&embed_dim=16&row_order=w_major&reverse_coord=false", "reverse_coord" },
    { "height=4&width=4&embed_dim=16&downscale_freq_shift=4", "downscale_freq_shift" },
    { "height=4&width=4&embed_dim=16&compute_dtype=float32&grid_dtype=float64", "grid_dtype" },
    { "height=4&width=4&embed_dim=16&compute_dtype=float32&temperature=1e40", "temperature" },
    { "height=4&width=4&embed_dim=16&compute_dtype=float32&min_timescale=1e38", "min_timescale" },
    { "height=4&width=4&embed_dim=16&temperature=1e-100&downscale_freq_shift=3.9", "temperature" },
    { "height=4&width=4&embed_dim=16&grid_size=4", "grid_size" },
};

START_TEST(bad_input) { refuses("sinusoidal_2d", &bad[_i]); }
END_TEST

START_TEST(all_faults_at_once)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("sinusoidal_2d", "height=4&width=4&embed_dim=18&extra_tokens=2&downscale_freq_shift=50",
                                   NULL, &a, NULL, &err),
                     PE_INVALID);
    ck_assert_uint_eq(err.n, 3);
}
END_TEST

START_TEST(too_large)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(
        posenc_encode("sinusoidal_2d", "height=16777216&width=16777216&embed_dim=1048576", NULL, &a, NULL, &err), PE_LIMIT);
    ck_assert_str_eq(err.fault[0].reason, "LIMIT_EXCEEDED");
}
END_TEST

static posenc_status stop_later(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops)
{
    posenc_answer a;
    for (int polls = 0; polls < 5; polls++) {
        int left = polls;
        posenc_context ctx = { .stop = stop_later, .user = &left };
        posenc_error err = { 0 };
        ck_assert_int_eq(
            posenc_encode("sinusoidal_2d", "height=500&width=500&embed_dim=64&cls_token=true", NULL, &a, &ctx, &err),
            PE_CANCELLED);
    }
}
END_TEST

Suite *sinusoidal_2d_suite(void)
{
    Suite *s = suite_create("sinusoidal_2d");
    TCase *t = tcase_create("sinusoidal_2d");
    tcase_add_loop_test(t, order, 0, (int)LEN(orders));
    tcase_add_test(t, halves_are_swapped);
    tcase_add_test(t, column_by_column);
    tcase_add_test(t, cosines_first);
    tcase_add_test(t, cut);
    tcase_add_test(t, rest_is_zero);
    tcase_add_test(t, one_timescale);
    tcase_add_test(t, scaled);
    tcase_add_test(t, right_to_the_last_bit);
    tcase_add_test(t, rounded_once);
    tcase_add_loop_test(t, extra_rows, 0, (int)LEN(tokens));
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, one_digest, 0, (int)LEN(spellings));
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, all_faults_at_once);
    tcase_add_test(t, too_large);
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
