/* test_rope_nd.c - axes, grids and lists by formulas of their own; the splits of known models; rules. */
#include "ask.h"

#include <math.h>

Suite *rope_nd_suite(void);

static posenc_answer answer_of(const char *query) { return ask("rope_nd", query); }

static double cell(const posenc_answer *a, int tensor, int64_t row, int64_t column)
{
    const posenc_tensor *t = &a->result.tensor[tensor];
    ck_assert_int_lt(row, t->shape[0]);
    ck_assert_int_lt(column, t->shape[1]);
    return posenc_tensor_get(t, row * t->shape[1] + column);
}

enum { COS = 1, SIN };

/* The interleaved columns of one axis from `first` on. */
static void check_axis(const posenc_answer *a, int64_t row, int first, int dim, double coordinate, double theta)
{
    for (int j = 0; j < dim / 2; j++) {
        const double angle = coordinate * pow(theta, -2.0 * j / dim);
        for (int copy = 0; copy < 2; copy++) {
            ck_assert_msg(fabs(cell(a, COS, row, first + 2 * j + copy) - cos(angle)) < 1e-14, "row %d pair %d", (int)row, j);
            ck_assert_msg(fabs(cell(a, SIN, row, first + 2 * j + copy) - sin(angle)) < 1e-14, "row %d pair %d", (int)row, j);
        }
    }
}

START_TEST(lists_of_places)
{
    posenc_answer a = answer_of("axes_dim=2,6,4&dtype=float64&ids=[[0,0,0],[3,-2,0.5],[7,100000,1]]");
    const double ids[3][3] = { { 0, 0, 0 }, { 3, -2, 0.5 }, { 7, 100000, 1 } };
    ck_assert_int_eq(a.result.tensor[COS].shape[1], 12);
    for (int n = 0; n < 2; n++) {
        check_axis(&a, n, 0, 2, ids[n][0], 10000);
        check_axis(&a, n, 2, 6, ids[n][1], 10000);
        check_axis(&a, n, 8, 4, ids[n][2], 10000);
    }
    /* sin(100000 * 10000^(-1/3)) and, by the exact frequency, 16 digits of it */
    ck_assert(fabs(cell(&a, SIN, 2, 4) - sin(100000 * cbrt(1e-4))) < 1e-11);
    posenc_answer_fini(&a);
}
END_TEST

/* HunyuanVideo: theta 256, time, height, width row by row. */
START_TEST(grids)
{
    posenc_answer a = answer_of("axes_dim=4,6,6&rope_theta=256&temporal_size=2&height=3&width=4&dtype=float64");
    ck_assert_int_eq(a.result.tensor[COS].shape[0], 24);
    for (int n = 0; n < 24; n++) {
        check_axis(&a, n, 0, 4, n / 12, 256);
        check_axis(&a, n, 4, 6, n / 4 % 3, 256);
        check_axis(&a, n, 10, 6, n % 4, 256);
    }
    posenc_answer_fini(&a);
}
END_TEST

/* CogVideoX: a quarter of the head for time, 3/8 for each of height and width, spread over a crop. */
START_TEST(split_of_the_head)
{
    posenc_answer a = answer_of("head_dim=16&temporal_size=2&height=2&width=4&crops_coords=[[0,2],[4,10]]&dtype=float64"),
                  b = answer_of("axes_dim=4,6,6&temporal_size=2&height=2&width=4&crops_coords=[[0,2],[4,10]]&dtype=float64"),
                  open = answer_of("head_dim=16&temporal_size=2&height=2&width=4&crops_coords=[[0,2],[4,10]]&dtype=float64"
                                   "&crop_end=open"),
                  two = answer_of("head_dim=16&height=2&width=2");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    const double rows[] = { 0, 2 }, columns[] = { 2, 2 + 5.5 / 3, 2 + 11.0 / 3, 7.5 };
    for (int n = 0; n < 16; n++) {
        check_axis(&a, n, 0, 4, n / 8, 10000);
        check_axis(&a, n, 4, 6, rows[n / 4 % 2], 10000);
        check_axis(&a, n, 10, 6, columns[n % 4], 10000);
        check_axis(&open, n, 10, 6, 2 + 2 * (n % 4), 10000);
    }
    ck_assert(strstr(two.request.params_json, "\"axes_dim\":[8,8]") != NULL);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&open);
    posenc_answer_fini(&two);
}
END_TEST

/* Allegro: equal thirds, a half layout for each, coordinates divided by a scale. */
START_TEST(scales_and_layouts)
{
    posenc_answer a = answer_of("axes_dim=4,4&height=3&width=3&interpolation_scale=2,4&dtype=float64"),
                  b = answer_of("axes_dim=4,4&height=3&width=3&interpolation_scale=2,4&dtype=float64&layout=half_per_axis"),
                  c = answer_of(
                      "axes_dim=4,4&height=3&width=3&interpolation_scale=2,4&dtype=float64&layout=half_unduplicated");
    static const int per_axis[] = { 0, 2, 1, 3, 4, 6, 5, 7 };
    ck_assert_int_eq(c.result.tensor[COS].shape[1], 4);
    for (int n = 0; n < 9; n++) {
        check_axis(&a, n, 0, 4, n / 3 / 2.0, 10000);
        check_axis(&a, n, 4, 4, n % 3 / 4.0, 10000);
        for (int k = 0; k < 8; k++) {
            ck_assert(cell(&b, SIN, n, per_axis[k]) == cell(&a, SIN, n, k));
            ck_assert(cell(&c, COS, n, k / 2) == cell(&a, COS, n, k));
        }
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

/* With float32 the angle is the float32 product of float32 factors. */
START_TEST(float32)
{
    posenc_answer a = answer_of("axes_dim=6&ids=[[12345]]&compute_dtype=float32"), b = answer_of("axes_dim=6&ids=[[12345]]");
    const float w = 1 / (float)pow(10000, (double)(float)(1.0 / 3)), angle = 12345 * w;
    ck_assert(posenc_tensor_get(&a.result.tensor[0], 1) == (double)w);
    ck_assert(cell(&a, SIN, 0, 2) == (double)(float)sin((double)angle));
    ck_assert(fabs(cell(&b, SIN, 0, 2) - sin(12345 * cbrt(1e-4))) < 6e-8);
    ck_assert(cell(&a, SIN, 0, 2) != cell(&b, SIN, 0, 2));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* What diffusers gives for the last place of a grid of 2 by 2 by 2: CosmosRotaryPosEmbed of 16 channels, rope_scale 2, 1, 4;
 * LTXVideoRotaryPosEmbed of 12 channels at video coordinates 1/4, 1/4, 1/2, frequencies pi/2 and 10000 pi/2. */
START_TEST(cosmos_and_ltx)
{
    static const double cosmos[] = { 0.8414709568023682, 0.07928674668073654,  0.006299563683569431, 0.0005000000237487257,
                                     0.8414709568023682, 0.009999833069741726, 0.8414709568023682,   0.0024999973829835653 },
                        ltx[] = { -0.7071067690849304,     -0.7071067690849304,     0,
                                  -0.00029961924883536994, -0.00029961924883536994, 0 };
    posenc_answer a = answer_of("axes_dim=8,4,4&axes_theta=25198.420997897465,10000,160000&temporal_size=2&height=2&width=2&"
                                "layout=half&compute_dtype=float32"),
                  b = answer_of("axes_dim=4,4,4&ids=[[-0.78539816339744828,-0.78539816339744828,0]]&rope_theta=1e-8&"
                                "pair_order=alternate&dtype=float64");
    for (int k = 0; k < 16; k++)
        ck_assert(fabs(cell(&a, SIN, 7, k) - cosmos[k % 8]) < 6e-8);
    for (int k = 0; k < 12; k++)
        ck_assert(fabs(cell(&b, SIN, 0, k) - ltx[k / 2]) < 1e-3); /* their angle of 7854 is a float32 */
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST
START_TEST(without_places)
{
    posenc_answer a = answer_of("axes_dim=2,4&rope_theta=16&dtype=float64"), b = answer_of(strchr(a.request.key, ' ') + 1),
                  none = answer_of("axes_dim=2,4&height=0&width=7");
    ck_assert_int_eq(a.result.ntensors, 1);
    const double *w = a.result.tensor[0].data;
    ck_assert(w[0] == 1 && w[1] == 1 && w[2] == 0.25);
    ck_assert_str_eq(a.request.key, b.request.key);
    ck_assert_int_eq(none.result.tensor[COS].shape[0], 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&none);
}
END_TEST

static const refusal bad[] = {
    { "", "axes_dim" },
    { "head_dim=16", "axes_dim" },
    { "head_dim=16&ids=[[1]]", "axes_dim" },
    { "head_dim=24&temporal_size=1&height=1&width=1", "head_dim" },
    { "head_dim=6&height=1&width=1", "head_dim" },
    { "axes_dim=4,4&axes_theta=100", "axes_theta" },
    { "axes_dim=4,4&axes_theta=100,100&rope_theta=7", "rope_theta" },
    { "axes_dim=4,4&axes_theta=100,1e-13&compute_dtype=float32", "axes_theta[1]" },
    { "axes_dim=4,4&axes_theta=100,1e-9&dtype=float16", "axes_theta[1]" },
    { "axes_dim=4,6&pair_order=alternate", "axes_dim[1]" },
    { "axes_dim=4,4&pair_order=alternate&layout=half_per_axis", "pair_order" },
    { "axes_dim=4,5", "axes_dim[1]" },
    { "axes_dim=4,2.5", "axes_dim[1] head_dim" },
    { "axes_dim=0,2", "axes_dim[0]" },
    { "axes_dim=2,2,2,2,2,2,2,2,2", "axes_dim" },
    { "axes_dim=65536,2", "axes_dim" },
    { "axes_dim=4,4&head_dim=10", "head_dim" },
    { "axes_dim=4,4&ids=[[1,2,3]]", "ids" },
    { "axes_dim=4,4&ids=[1,2]", "ids" },
    { "axes_dim=4,4&ids=[[1,1e17]]", "ids[0][1]" },
    { "axes_dim=4,4&ids=[[1,2]]&height=2&width=2", "ids" },
    { "axes_dim=4,4&height=2", "width" },
    { "axes_dim=4,4,4&temporal_size=2&width=2", "height" },
    { "axes_dim=4,4,4&height=2&width=2", "axes_dim" },
    { "axes_dim=4,4&temporal_size=1&height=2&width=2", "axes_dim" },
    { "axes_dim=4,4&height=-2&width=2", "height" },
    { "axes_dim=4,4&crops_coords=[[0,0],[2,2]]", "crops_coords" },
    { "axes_dim=4,4&height=2&width=2&crops_coords=[[0],[2]]", "crops_coords" },
    { "axes_dim=4,4&height=2&width=2&crops_coords=[0,2]", "crops_coords" },
    { "axes_dim=4,4&height=2&width=2&crop_end=open", "crop_end" },
    { "axes_dim=4,4&interpolation_scale=2", "interpolation_scale" },
    { "axes_dim=4,4&interpolation_scale=2,0", "interpolation_scale[1]" },
    { "axes_dim=4,4&rope_theta=0", "rope_theta" },
    { "axes_dim=4,4&rope_theta=1e-6&dtype=float16", "rope_theta" },
    { "axes_dim=4,4&rope_theta=1e-30&compute_dtype=float32", "rope_theta" },
    { "axes_dim=4,4&theta=10", "theta" },
};

START_TEST(bad_input) { refuses("rope_nd", &bad[_i]); }
END_TEST

START_TEST(too_large)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("rope_nd", "axes_dim=2,2,2&temporal_size=2147483648&height=2147483648&width=2147483648",
                                   NULL, &a, NULL, &err),
                     PE_LIMIT);
}
END_TEST

Suite *rope_nd_suite(void)
{
    Suite *s = suite_create("rope_nd");
    TCase *t = tcase_create("rope_nd");
    tcase_add_test(t, lists_of_places);
    tcase_add_test(t, grids);
    tcase_add_test(t, split_of_the_head);
    tcase_add_test(t, scales_and_layouts);
    tcase_add_test(t, float32);
    tcase_add_test(t, cosmos_and_ltx);
    tcase_add_test(t, without_places);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, too_large);
    suite_add_tcase(s, t);
    return s;
}
