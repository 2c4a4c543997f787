/* test_timm_relative_log_coords.c - both modes by their formula, dtypes, bad input. */
#include "ask.h"

#include <math.h>

Suite *timm_relative_log_coords_suite(void);

static const char name[] = "timm_relative_log_coords";

START_TEST(cr)
{
    posenc_answer a = ask(name, "window_size=4,5&mode=cr&dtype=float64"), b = ask(name, "window_size=4,5&mode=cr");
    ck_assert_int_eq(a.result.ntensors, 1);
    for (int y = -3; y <= 3; y++)
        for (int x = -4; x <= 4; x++) {
            const int64_t at = 2 * ((y + 3) * 9 + x + 4);
            const double v = copysign(log1p(abs(y)), y), u = copysign(log1p(abs(x)), x);
            ck_assert(fabs(nth(&a, 0, at) - v) <= 3e-16 && fabs(nth(&a, 0, at + 1) - u) <= 3e-16);
            ck_assert(nth(&b, 0, at) == (float)v && nth(&b, 0, at + 1) == (float)u);
        }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    expect_same(name, "window_size=4,5&mode=cr&pretrained_window_size=0,0", "window_size=4,5&mode=cr");
}
END_TEST

START_TEST(swin_is_swinv2s)
{
    static const char *const queries[] = { "window_size=8,8&pretrained_window_size=6,6", "window_size=3,7&dtype=float16",
                                           "window_size=1,4&dtype=float64&pretrained_window_size=0,0" };
    for (size_t i = 0; i < LEN(queries); i++) {
        posenc_answer a = ask(name, queries[i]), b = ask("swinv2_relative_coords_table", queries[i]);
        ck_assert_uint_eq(posenc_tensor_size(&a.result.tensor[0]), posenc_tensor_size(&b.result.tensor[0]));
        ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, posenc_tensor_size(&b.result.tensor[0]));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    posenc_answer a = ask(name, "window_size=2,2&mode=swin&dtype=float64"); /* the ends: log2(9) / 3 */
    ck_assert(nth(&a, 0, 0) == -nth(&a, 0, 17) && fabs(nth(&a, 0, 17) - 1.0566416671474375) <= 3e-16);
    posenc_answer_fini(&a);
}
END_TEST

/* 0, where timm's code divides 0 by 0. */
START_TEST(window_of_one)
{
    posenc_answer a = ask(name, "window_size=1,1"), b = ask(name, "window_size=1,1&mode=cr");
    expect(&a, 0, 3, (int64_t[]){ 1, 1, 2 }, (double[]){ 0, 0 });
    expect(&b, 0, 3, (int64_t[]){ 1, 1, 2 }, (double[]){ 0, 0 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "", "window_size", 0 },
    { "window_size=8,8,8", "window_size", 0 },
    { "window_size=8.5,8", "window_size[0]", 0 },
    { "window_size=8,8&mode=rw", "mode", 0 },
    { "window_size=8,8&mode=cr&pretrained_window_size=6,6", "pretrained_window_size", 0 },
    { "window_size=8,8&pretrained_window_size=1,6", "pretrained_window_size[0]", 0 },
    { "window_size=8,8&pretrained_window_size=6", "pretrained_window_size", 0 },
    { "window_size=8,8&class_token=true", "class_token", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *timm_relative_log_coords_suite(void)
{
    Suite *s = suite_create("timm_relative_log_coords");
    TCase *t = tcase_create("timm_relative_log_coords");
    tcase_add_test(t, cr);
    tcase_add_test(t, swin_is_swinv2s);
    tcase_add_test(t, window_of_one);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
