/* test_cope.c - counting of gates, interpolation between rows, the last row, leading axes, masked logits, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("cope", query); }

/* Gates of 1/2 (logit 0): five keys are 2.5, 2, 1.5, 1, 0.5 away; a table of one channel says what is read. */
START_TEST(half_open)
{
    static const double want[] = { 25, 20, 15, 10, 5 };
    posenc_answer a = answer_of("query=[[1]]&attn_logits=[[0,0,0,0,0]]&pos_emb=[[0],[10],[20],[30]]&dtype=float64"),
                  b = answer_of("query=[[1]]&attn_logits=[[0,0,0,0,0]]&pos_emb=[[0],[10]]&max_pos=2&dtype=float64");
    for (int j = 0; j < 5; j++) {
        ck_assert(nth(&a, 0, j) == want[j]);
        ck_assert(nth(&b, 0, j) == fmin(want[j], 10)); /* no farther than the last row */
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Masked keys open no gate; wide open ones count as tokens do. */
START_TEST(masked)
{
    posenc_answer a = answer_of(
        "query=[[1]]&attn_logits=[[1e4,1e4,1e4,-1e38,-1e38]]&pos_emb=[[7],[10],[20],[40]]&dtype=float64");
    static const double want[] = { 40, 20, 10, 7, 7 };
    for (int j = 0; j < 5; j++)
        ck_assert(nth(&a, 0, j) == want[j]);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(formula)
{
    static const double q[2][3] = { { 1, -0.5, 0.25 }, { 2, 0.5, -1 } },
                        e[4][3] = { { 0.1, 0.2, 0.3 }, { -1, 0.5, 2 }, { 0, 1, -3 }, { 4, 1, 2 } },
                        l[2][4] = { { 0.3, -1, 2, 0.7 }, { 5, -2, 1, -0.4 } };
    posenc_answer a = answer_of("query=[[[1,-0.5,0.25]],[[2,0.5,-1]]]&attn_logits=[[[0.3,-1,2,0.7]],[[5,-2,1,-0.4]]]&"
                                "pos_emb=[[0.1,0.2,0.3],[-1,0.5,2],[0,1,-3],[4,1,2]]&dtype=float64");
    ck_assert_int_eq(a.result.tensor[0].rank, 3);
    for (int i = 0; i < 2; i++) {
        double p = 0;
        for (int j = 3; j >= 0; j--) {
            p += 1 / (1 + exp(-l[i][j]));
            int below = (int)p;
            double w = p - below, want = 0;
            for (int c = 0; c < 3; c++)
                want += q[i][c] * ((1 - w) * e[below][c] + w * e[below + 1][c]);
            ck_assert_double_eq_tol(nth(&a, 0, 4 * i + j), want, 1e-14);
        }
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty)
{
    static const char *const queries[] = { "query=[[1]]&attn_logits=[[]]&pos_emb=[[1]]",
                                           "query=[[],[]]&attn_logits=[[1],[2]]&pos_emb=[[]]" };
    posenc_answer a = answer_of(queries[_i]);
    for (int64_t i = 0; i < posenc_tensor_count(&a.result.tensor[0]); i++)
        ck_assert(nth(&a, 0, i) == 0); /* no channel: an empty sum */
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), _i ? 2 : 0);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "attn_logits=[[1]]&pos_emb=[[1]]", "query" },
    { "query=[[1]]&pos_emb=[[1]]", "attn_logits" },
    { "query=[[1]]&attn_logits=[[1]]", "pos_emb" },
    { "query=[1]&attn_logits=[1]&pos_emb=[[1]]", "query" },
    { "query=[[1]]&attn_logits=[[1],[2]]&pos_emb=[[1]]", "attn_logits" },
    { "query=[[1]]&attn_logits=[[[1]]]&pos_emb=[[1]]", "attn_logits" },
    { "query=[[1]]&attn_logits=[[1]]&pos_emb=[[1,2]]", "pos_emb" },
    { "query=[[1]]&attn_logits=[[1]]&pos_emb=[[1],[2]]&max_pos=3", "pos_emb" },
    { "query=[[1]]&attn_logits=[[1]]&pos_emb=[[1]]&max_pos=0", "max_pos" },
    { "query=[[1000]]&attn_logits=[[1]]&pos_emb=[[1000]]&dtype=float16", "query" },
    { "query=[[1e200]]&attn_logits=[[1]]&pos_emb=[[1e200]]&dtype=float64", "query" },
};

START_TEST(bad_input) { refuses("cope", &bad[_i]); }
END_TEST

Suite *cope_suite(void);
Suite *cope_suite(void)
{
    Suite *s = suite_create("cope");
    TCase *t = tcase_create("cope");
    tcase_add_test(t, half_open);
    tcase_add_test(t, masked);
    tcase_add_test(t, formula);
    tcase_add_loop_test(t, empty, 0, 2);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
