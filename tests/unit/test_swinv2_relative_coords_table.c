/* test_swinv2_relative_coords_table.c - exact thirds, the formula, windows of one, dtypes, bad input. */
#include "ask.h"

#include <math.h>

Suite *swinv2_relative_coords_table_suite(void);

static const char name[] = "swinv2_relative_coords_table";

static double coordinate(double d, double size) { return d == 0 ? 0 : copysign(log2(1 + 8 * fabs(d) / (size - 1)) / 3, d); }

START_TEST(formula)
{
    static const struct {
        const char *query;
        int h, w;
        double by_h, by_w;
    } cases[] = {
        { "window_size=8,8", 8, 8, 8, 8 },
        { "window_size=4,6", 4, 6, 4, 6 },
        { "window_size=3,5&pretrained_window_size=4,7", 3, 5, 4, 7 },
        { "window_size=16,2&pretrained_window_size=2,16", 16, 2, 2, 16 },
        { "window_size=1,5&pretrained_window_size=1,3", 1, 5, 1, 3 },
    };
    char query[200];
    for (size_t n = 0; n < LEN(cases); n++) {
        const int h = cases[n].h, w = cases[n].w;
        snprintf(query, sizeof query, "%s&dtype=float64", cases[n].query);
        posenc_answer a = ask(name, query);
        const posenc_tensor *t = &a.result.tensor[0];
        ck_assert(t->rank == 3 && t->shape[0] == 2 * h - 1 && t->shape[1] == 2 * w - 1 && t->shape[2] == 2);
        for (int y = 0; y < 2 * h - 1; y++)
            for (int x = 0; x < 2 * w - 1; x++) {
                const int64_t at = 2 * ((int64_t)y * (2 * w - 1) + x);
                ck_assert(fabs(nth(&a, 0, at) - coordinate(y - (h - 1), cases[n].by_h)) <= 1e-15);
                ck_assert(fabs(nth(&a, 0, at + 1) - coordinate(x - (w - 1), cases[n].by_w)) <= 1e-15);
            }
        posenc_answer_fini(&a);
    }
}
END_TEST

/* With a side of 9, coordinates are log2(1 + |d|) / 3: thirds where 1 + |d| is a power of two. */
START_TEST(thirds)
{
    posenc_answer a = ask(name, "window_size=8,1&pretrained_window_size=9,9&dtype=float64");
    ck_assert(nth(&a, 0, 2 * 7) == 0 && nth(&a, 0, 2 * 8) == 1.0 / 3 && nth(&a, 0, 2 * 10) == 2.0 / 3);
    ck_assert(nth(&a, 0, 2 * 14) == 1 && nth(&a, 0, 0) == -1 && nth(&a, 0, 2 * 6) == -1.0 / 3);
    posenc_answer_fini(&a);
}
END_TEST

/* 0 where Microsoft's code divides 0 by 0; the other side is scaled all the same. */
START_TEST(window_of_one)
{
    posenc_answer a = ask(name, "window_size=1,1"), b = ask(name, "window_size=1,3");
    expect(&a, 0, 3, (int64_t[]){ 1, 1, 2 }, (double[]){ 0, 0 });
    expect(&a, 1, 2, (int64_t[]){ 1, 1 }, (double[]){ 0 });
    const double end = (float)(log2(9) / 3), middle = (float)(log2(5) / 3);
    expect(&b, 0, 3, (int64_t[]){ 1, 5, 2 }, (double[]){ 0, -end, 0, -middle, 0, 0, 0, middle, 0, end });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(index_is_swins)
{
    posenc_answer a = ask(name, "window_size=3,5&pretrained_window_size=8,8"),
                  b = ask("swin_relative_position_index", "window_size=3,5");
    ck_assert(a.result.tensor[1].dtype == PE_int64);
    ck_assert_uint_eq(posenc_tensor_size(&a.result.tensor[1]), posenc_tensor_size(&b.result.tensor[0]));
    ck_assert_mem_eq(a.result.tensor[1].data, b.result.tensor[0].data, posenc_tensor_size(&b.result.tensor[0]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    expect_same(name, "window_size=3,5&pretrained_window_size=0,0", "window_size=3,5");
}
END_TEST

static const refusal bad[] = {
    { "", "window_size", 0 },
    { "window_size=8", "window_size", 0 },
    { "window_size=8,0", "window_size[1]", 0 },
    { "window_size=8,8.5", "window_size[1]", 0 },
    { "window_size=8,8&pretrained_window_size=8", "pretrained_window_size", 0 },
    { "window_size=8,8&pretrained_window_size=8,1", "pretrained_window_size[1]", 0 },
    { "window_size=8,8&pretrained_window_size=0,8", "pretrained_window_size[0]", 0 },
    { "window_size=8,8&pretrained_window_size=8,0", "pretrained_window_size[1]", 0 },
    { "window_size=8,8&pretrained_window_size=8,2.5", "pretrained_window_size[1]", 0 },
    { "window_size=8,8&pretrained_window_size=1,1", "pretrained_window_size[0] pretrained_window_size[1]", 0 },
    { "window_size=8,8&pretrained_window_size=-8,8", "pretrained_window_size[0]", 0 },
    { "window_size=1048576,1048576", "index", .status = PE_LIMIT },
    { "window_size=8,8&mode=cr", "mode", 0 },
    { "window_size=8&pretrained_window_size=8", "window_size pretrained_window_size", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *swinv2_relative_coords_table_suite(void)
{
    Suite *s = suite_create("swinv2_relative_coords_table");
    TCase *t = tcase_create("swinv2_relative_coords_table");
    tcase_add_test(t, formula);
    tcase_add_test(t, thirds);
    tcase_add_test(t, window_of_one);
    tcase_add_test(t, index_is_swins);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
