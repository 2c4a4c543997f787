/* test_fourier_grid.c - bands and coordinates by formulas of their own, the order of axes, rules. */
#include "ask.h"

#include <math.h>

Suite *fourier_grid_suite(void);

static const double pi = 3.14159265358979323846;

static posenc_answer answer_of(const char *query) { return ask("fourier_grid", query); }

/* Of a grid of 3 rows and 5 columns with 3 bands. */
typedef struct meaning {
    const char *query;
    double row[3], column[5], band[3], unit;
    bool column_first;
} meaning;

static const meaning meanings[] = {
    { "max_res=32", { -1, 0, 1 }, { -1, -0.5, 0, 0.5, 1 }, { 1, 4, 16 }, pi, false },
    { "max_res=32&linear_bands=true", { -1, 0, 1 }, { -1, -0.5, 0, 0.5, 1 }, { 1, 8.5, 16 }, pi, false },
    { "max_res=32&grid_indexing=xy", { -1, 0, 1 }, { -1, -0.5, 0, 0.5, 1 }, { 1, 4, 16 }, pi, true },
    { "max_res=32&ref_feat_shape=6,5", { -2, 0, 2 }, { -1, -0.5, 0, 0.5, 1 }, { 1, 4, 16 }, pi, false },
    { "in_pixels=false&temperature=1000", { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 0.1, 0.01 }, 1, false },
    { "in_pixels=false&temperature=1000&grid_offset=0.5&ref_feat_shape=6,10",
      { 1, 3, 5 },
      { 1, 3, 5, 7, 9 },
      { 1, 0.1, 0.01 },
      1,
      false },
    { "in_pixels=false&temperature=1000&grid_type=centered&normalize_coords=max",
      { -0.8, -0.4, 0 },
      { -0.8, -0.4, 0, 0.4, 0.8 },
      { 1, 0.1, 0.01 },
      1,
      false },
    { "grid_type=centered&max_res=32", { -2.0 / 3, 0, 2.0 / 3 }, { -0.8, -0.4, 0, 0.4, 0.8 }, { 1, 4, 16 }, pi, false },
};

START_TEST(meaning_of_parameters)
{
    const meaning *m = &meanings[_i];
    char query[300];
    snprintf(query, sizeof query, "height=3&width=5&num_bands=3&include_grid=true&dtype=float64&%s", m->query);
    posenc_answer a = answer_of(query);
    const double *grid = a.result.tensor[0].data, *sines = a.result.tensor[1].data, *cosines = a.result.tensor[2].data;
    static const int64_t shape[] = { 3, 5, 2, 3 };
    ck_assert_str_eq(a.result.tensor[0].name, "grid");
    ck_assert_int_eq(a.result.tensor[0].shape[3], 1);
    ck_assert_mem_eq(a.result.tensor[1].shape, shape, sizeof shape);
    for (int n = 0; n < 15; n++)
        for (int axis = 0; axis < 2; axis++) {
            const double c = (axis == 0) != m->column_first ? m->row[n / 5] : m->column[n % 5];
            ck_assert(fabs(grid[2 * n + axis] - c) < 1e-15);
            for (int k = 0; k < 3; k++) {
                const double angle = c * m->band[k] * m->unit;
                ck_assert_msg(fabs(sines[(2 * n + axis) * 3 + k] - sin(angle)) < 3e-14, "%s: %d %d %d", m->query, n, axis,
                              k);
                ck_assert(fabs(cosines[(2 * n + axis) * 3 + k] - cos(angle)) < 3e-14);
            }
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(outputs_and_ends)
{
    posenc_answer a = answer_of("height=1&width=1"), none = answer_of("height=0&width=3&include_grid=true");
    ck_assert_int_eq(a.result.ntensors, 2); /* no grid unless asked for */
    ck_assert_int_eq(a.result.tensor[0].shape[3], 64);
    ck_assert_int_eq(none.result.tensor[0].shape[0], 0);
    /* one place stands at -1, as torch.linspace; sin(-pi) is not off by pi rounded to float64 */
    ck_assert(fabs(posenc_tensor_get(&a.result.tensor[0], 0)) < 1e-31 && posenc_tensor_get(&a.result.tensor[1], 0) == -1);
    posenc_answer one = answer_of("height=1&width=1&num_bands=1&in_pixels=false&grid_offset=1.5&dtype=float64");
    ck_assert(fabs(((const double *)one.result.tensor[0].data)[0] - sin(1.5)) < 1e-16);
    posenc_answer_fini(&a);
    posenc_answer_fini(&none);
    posenc_answer_fini(&one);
}
END_TEST

/* timm's bands, by torch: 2 ** linspace(0, log2(224) - 1, 8) * pi in float32; the last one is 351.8584 (exactly: 112 pi,
 * 351.858377). */
START_TEST(float32)
{
    posenc_answer a = answer_of("height=1&width=2&num_bands=8&compute_dtype=float32"),
                  b = answer_of("height=1&width=2&num_bands=8");
    double off = 0;
    for (int i = 0; i < 32; i++)
        off = fmax(off, fabs(posenc_tensor_get(&a.result.tensor[0], i) - posenc_tensor_get(&b.result.tensor[0], i)));
    ck_assert(off > 1e-6 && off < 2e-4);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "width=3", "height" },
    { "height=3", "width" },
    { "height=-1&width=3", "height" },
    { "height=3&width=3&num_bands=0", "num_bands" },
    { "height=3&width=3&max_res=0", "max_res" },
    { "height=3&width=3&temperature=100", "temperature" },
    { "height=3&width=3&in_pixels=false&max_res=16", "max_res" },
    { "height=3&width=3&in_pixels=false&linear_bands=true", "linear_bands" },
    { "height=3&width=3&in_pixels=false&temperature=0", "temperature" },
    { "height=3&width=3&in_pixels=false&temperature=1e-30&compute_dtype=float32", "temperature" },
    { "height=3&width=3&grid_offset=0.5", "grid_offset" },
    { "height=3&width=3&normalize_coords=max", "normalize_coords" },
    { "height=3&width=3&ref_feat_shape=3", "ref_feat_shape" },
    { "height=3&width=3&ref_feat_shape=3,3.5", "ref_feat_shape[1]" },
    { "height=3&width=3&grid_indexing=yx", "grid_indexing" },
    { "height=3&width=70000&in_pixels=false&include_grid=true&dtype=float16", "width" },
    { "height=3&width=3&bands=4", "bands" },
};

START_TEST(bad_input) { refuses("fourier_grid", &bad[_i]); }
END_TEST

START_TEST(too_large)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("fourier_grid", "height=2147483648&width=2147483648", NULL, &a, NULL, &err), PE_LIMIT);
}
END_TEST

Suite *fourier_grid_suite(void)
{
    Suite *s = suite_create("fourier_grid");
    TCase *t = tcase_create("fourier_grid");
    tcase_add_loop_test(t, meaning_of_parameters, 0, (int)LEN(meanings));
    tcase_add_test(t, outputs_and_ends);
    tcase_add_test(t, float32);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, too_large);
    suite_add_tcase(s, t);
    return s;
}
