/* test_beit_relative_position_index.c - the class token's indices, the rest against Swin's, bad input. */
#include "ask.h"

Suite *beit_relative_position_index_suite(void);

static const char name[] = "beit_relative_position_index";

START_TEST(one_place)
{
    posenc_answer a = ask(name, "window_size=1,1&class_token=true");
    expect(&a, 0, 2, (int64_t[]){ 2, 2 }, (double[]){ 3, 1, 2, 0 });
    posenc_answer_fini(&a);
}
END_TEST

/* N = (2h - 1)(2w - 1): row 0 is N, column 0 is N + 1, their meeting N + 2. */
START_TEST(class_token)
{
    posenc_answer a = ask(name, "window_size=3,4&class_token=true"),
                  b = ask("swin_relative_position_index", "window_size=3,4"),
                  c = ask(name, "window_size=3,4&class_token=false");
    ck_assert(a.result.tensor[0].shape[0] == 13 && a.result.tensor[0].shape[1] == 13);
    ck_assert(nth(&a, 0, 0) == 37);
    for (int i = 0; i < 12; i++) {
        ck_assert(nth(&a, 0, 1 + i) == 35);
        ck_assert(nth(&a, 0, 13 * (1 + i)) == 36);
        for (int j = 0; j < 12; j++)
            ck_assert(nth(&a, 0, 13 * (1 + i) + 1 + j) == nth(&b, 0, 12 * i + j));
    }
    ck_assert_uint_eq(posenc_tensor_size(&b.result.tensor[0]), posenc_tensor_size(&c.result.tensor[0]));
    ck_assert_mem_eq(b.result.tensor[0].data, c.result.tensor[0].data, posenc_tensor_size(&b.result.tensor[0]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(default_of_class_token)
{
    expect_same(name, "window_size=2,3", "window_size=2,3&class_token=true");
    posenc_answer a = ask(name, "window_size=2,3"), b = ask(name, "window_size=2,3&class_token=false");
    ck_assert_int_ne(a.result.tensor[0].shape[0], b.result.tensor[0].shape[0]);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "", "window_size", 0 },
    { "window_size=3", "window_size", 0 },
    { "window_size=0,3", "window_size[0]", 0 },
    { "window_size=3,3.5", "window_size[1]", 0 },
    { "window_size=3,3&class_token=1", "class_token", 0 },
    { "window_size=1048576,1048576", "index", .status = PE_LIMIT },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *beit_relative_position_index_suite(void)
{
    Suite *s = suite_create("beit_relative_position_index");
    TCase *t = tcase_create("beit_relative_position_index");
    tcase_add_test(t, one_place);
    tcase_add_test(t, class_token);
    tcase_add_test(t, default_of_class_token);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
