/* test_rope_2d_mixed.c - angles of both axes, layers, layouts, the two views of heads, rules. */
#include "ask.h"

#include <math.h>

Suite *rope_2d_mixed_suite(void);

#define FREQS "freqs=[[[1,0.125],[0.5,-2]],[[0.25,3],[-1,0.75]]]"
static const double freqs[2][2][2] = { { { 1, 0.125 }, { 0.5, -2 } }, { { 0.25, 3 }, { -1, 0.75 } } };

static posenc_answer answer_of(const char *query) { return ask("rope_2d_mixed", query); }

START_TEST(angles)
{
    posenc_answer a = answer_of(FREQS "&height=3&width=4&head_view=per_head&dtype=float64"),
                  b = answer_of(FREQS "&height=3&width=4&head_view=per_head&dtype=float64&axis_order=h_first");
    const posenc_tensor *t = &a.result.tensor[0];
    ck_assert_int_eq(t->rank, 3);
    ck_assert_int_eq(t->shape[0], 2);
    ck_assert_int_eq(t->shape[1], 12);
    ck_assert_int_eq(t->shape[2], 2);
    for (int h = 0; h < 2; h++)
        for (int n = 0; n < 12; n++)
            for (int j = 0; j < 2; j++) {
                const double x = n % 4, y = n / 4;
                const double angle = x * freqs[0][h][j] + y * freqs[1][h][j];
                const double other = y * freqs[0][h][j] + x * freqs[1][h][j];
                ck_assert(fabs(nth(&a, 0, (h * 12 + n) * 2 + j) - cos(angle)) < 1e-15);
                ck_assert(fabs(nth(&a, 1, (h * 12 + n) * 2 + j) - sin(angle)) < 1e-15);
                ck_assert(fabs(nth(&b, 1, (h * 12 + n) * 2 + j) - sin(other)) < 1e-15);
            }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* rope-vit's stand-alone attention reads [heads, places] as [places, heads]: row n of head h is row 2n + h of the two
 * tables one after the other. With one head, or with layers, nothing moves. */
START_TEST(views_of_heads)
{
    posenc_answer own = answer_of(FREQS "&height=2&width=3&head_view=per_head"), peer = answer_of(FREQS "&height=2&width=3"),
                  layered = answer_of("freqs=[[[[1,0.125],[0.5,-2]]],[[[0.25,3],[-1,0.75]]]]&height=2&width=3"),
                  one = answer_of("freqs=[[[1,0.125]],[[0.25,3]]]&height=2&width=3"),
                  same = answer_of("freqs=[[[1,0.125]],[[0.25,3]]]&height=2&width=3&head_view=per_head");
    const float *o = own.result.tensor[1].data, *p = peer.result.tensor[1].data;
    for (int h = 0; h < 2; h++)
        for (int n = 0; n < 6; n++)
            ck_assert_mem_eq(p + (h * 6 + n) * 2, o + (2 * n + h) * 2, 2 * sizeof(float));
    ck_assert_int_eq(layered.result.tensor[1].rank, 4);
    ck_assert_int_eq(layered.result.tensor[1].shape[0], 1);
    ck_assert_mem_eq(layered.result.tensor[1].data, o, 24 * sizeof(float));
    ck_assert_mem_eq(one.result.tensor[1].data, same.result.tensor[1].data, 12 * sizeof(float));
    posenc_answer_fini(&own);
    posenc_answer_fini(&peer);
    posenc_answer_fini(&layered);
    posenc_answer_fini(&one);
    posenc_answer_fini(&same);
}
END_TEST

START_TEST(lists_and_layouts)
{
    posenc_answer a = answer_of(FREQS "&height=2&width=2&head_view=per_head"),
                  list = answer_of(FREQS "&positions_xy=[[0,0],[1,0],[0,1],[1,1]]&head_view=per_head"),
                  half = answer_of(FREQS "&height=2&width=2&head_view=per_head&layout=half"),
                  timm = answer_of(FREQS "&height=2&width=2&head_view=per_head&layout=interleaved"),
                  none = answer_of(FREQS "&height=0&width=2");
    ck_assert_mem_eq(a.result.tensor[1].data, list.result.tensor[1].data, 16 * sizeof(float));
    ck_assert_int_eq(timm.result.tensor[0].shape[2], 4);
    for (int row = 0; row < 8; row++)
        for (int j = 0; j < 4; j++) {
            ck_assert(nth(&half, 1, row * 4 + j) == nth(&a, 1, row * 2 + j % 2));
            ck_assert(nth(&timm, 1, row * 4 + j) == nth(&a, 1, row * 2 + j / 2));
        }
    ck_assert_int_eq(none.result.tensor[0].shape[1], 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&list);
    posenc_answer_fini(&half);
    posenc_answer_fini(&timm);
    posenc_answer_fini(&none);
}
END_TEST

/* Products that cancel, and angles far beyond float64's 2 pi: sin(1e15 + 1) to the last digits. */
START_TEST(exact_sums)
{
    posenc_answer a = answer_of("freqs=[[[1e15,1e15]],[[1,-1e15]]]&positions_xy=[[1,1]]&dtype=float64");
    ck_assert(fabs(nth(&a, 1, 0) - sin(1e15 + 1)) < 1e-15);
    ck_assert(nth(&a, 1, 1) == 0 && nth(&a, 0, 1) == 1);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "height=2&width=2", "freqs" },
    { FREQS, "height width" },
    { FREQS "&height=2", "width" },
    { FREQS "&height=-1&width=2", "height" },
    { "freqs=[[[1]],[[1]],[[1]]]&height=2&width=2", "freqs" },
    { "freqs=[[1],[1]]&height=2&width=2", "freqs" },
    { "freqs=[[[1]],[[1e40]]]&height=2&width=2", "freqs[1][0][0]" },
    { FREQS "&height=2&width=2&num_heads=3", "num_heads" },
    { FREQS "&height=2&width=2&head_dim=8", "head_dim" },
    { FREQS "&height=2&width=2&positions_xy=[[0,0]]", "positions_xy" },
    { FREQS "&positions_xy=[[0,0,0]]", "positions_xy" },
    { FREQS "&height=2&width=2&layout=half_per_axis", "layout" },
    { FREQS "&height=2&width=2&head_view=none", "head_view" },
    { FREQS "&height=2&width=2&rope_theta=10", "rope_theta" },
};

START_TEST(bad_input) { refuses("rope_2d_mixed", &bad[_i]); }
END_TEST

Suite *rope_2d_mixed_suite(void)
{
    Suite *s = suite_create("rope_2d_mixed");
    TCase *t = tcase_create("rope_2d_mixed");
    tcase_add_test(t, angles);
    tcase_add_test(t, views_of_heads);
    tcase_add_test(t, lists_and_layouts);
    tcase_add_test(t, exact_sums);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
