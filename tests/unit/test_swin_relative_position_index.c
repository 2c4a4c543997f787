/* test_swin_relative_position_index.c - the published matrix, displacements for windows of any shape, bad input. */
#include "ask.h"

Suite *swin_relative_position_index_suite(void);

static const char name[] = "swin_relative_position_index";

START_TEST(published)
{
    posenc_answer a = ask(name, "window_size=2,2");
    expect(&a, 0, 2, (int64_t[]){ 4, 4 }, (double[]){ 4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4 });
    ck_assert(a.result.tensor[0].dtype == PE_int64);
    posenc_answer_fini(&a);
}
END_TEST

/* The index is the number of the displacement, and nothing else: read back, it is that. */
START_TEST(displacements)
{
    static const int sizes[][2] = { { 1, 1 }, { 1, 5 }, { 5, 1 }, { 3, 4 }, { 7, 7 }, { 4, 12 } };
    const int h = sizes[_i][0], w = sizes[_i][1];
    char query[64];
    snprintf(query, sizeof query, "window_size=%d,%d", h, w);
    posenc_answer a = ask(name, query);
    ck_assert(a.result.tensor[0].shape[0] == h * w && a.result.tensor[0].shape[1] == h * w);
    for (int i = 0; i < h * w; i++)
        for (int j = 0; j < h * w; j++) {
            const int index = (int)nth(&a, 0, (int64_t)i * h * w + j);
            ck_assert_int_eq(index / (2 * w - 1) - (h - 1), i / w - j / w);
            ck_assert_int_eq(index % (2 * w - 1) - (w - 1), i % w - j % w);
        }
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "", "window_size", 0 },
    { "window_size=7", "window_size", 0 },
    { "window_size=7,7,7", "window_size", 0 },
    { "window_size=7,0", "window_size[1]", 0 },
    { "window_size=-7,7", "window_size[0]", 0 },
    { "window_size=7.5,7", "window_size[0]", 0 },
    { "window_size=7,2000000", "window_size[1]", 0 },
    { "window_size=1048576,1048576", "index", .status = PE_LIMIT },
    { "window_size=7,7&class_token=true", "class_token", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *swin_relative_position_index_suite(void)
{
    Suite *s = suite_create("swin_relative_position_index");
    TCase *t = tcase_create("swin_relative_position_index");
    tcase_add_test(t, published);
    tcase_add_loop_test(t, displacements, 0, 6);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
