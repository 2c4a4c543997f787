/* test_hierarchical.c - positions of units in their parents, sinusoids and tables, sums and concatenation, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("hierarchical", query); }

static int64_t position(const posenc_answer *a, int64_t i) { return ((const int64_t *)a->result.tensor[1].data)[i]; }

/* Element k of the sinusoid of width d. */
static double sinusoid(double p, int k, int d)
{
    double w = pow(10000, -(double)(k / 2 * 2) / d);
    return k % 2 ? cos(p * w) : sin(p * w);
}

/* Seven words in four sentences of two paragraphs, numbered through; the same numbered inside their parents. */
#define THROUGH "[[10,11,12,13,14,15,16],[4,4,5,6,6,6,7],[1,1,1,2,2,2,2]]"
#define WITHIN "[[0,1,0,0,1,2,0],[0,0,1,0,0,0,1],[1,1,1,2,2,2,2]]"
static const int inside[3][7] = { { 0, 1, 0, 0, 1, 2, 0 }, { 0, 0, 1, 0, 0, 0, 1 }, { 1, 1, 1, 2, 2, 2, 2 } };

START_TEST(positions_start_anew_in_each_parent)
{
    posenc_answer a = answer_of("token_level_ids=" THROUGH "&level_dims=4,4,4"),
                  b = answer_of("token_level_ids=" WITHIN "&numbering=within_parent&level_dims=4,4,4");
    for (int i = 0; i < 21; i++)
        ck_assert_int_eq(position(&a, i), inside[i / 7][i % 7]);
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 7 * 4 * sizeof(float));
    ck_assert_mem_eq(a.result.tensor[1].data, b.result.tensor[1].data, 21 * sizeof(int64_t));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(sums)
{
    static const double weight[] = { 1, -0.5, 0.25 };
    posenc_answer a = answer_of("token_level_ids=" THROUGH "&level_dims=6,6,6&level_weights=1,-0.5,0.25&dtype=float64");
    for (int n = 0; n < 7; n++)
        for (int k = 0; k < 6; k++) {
            double want = 0;
            for (int l = 0; l < 3; l++)
                want += weight[l] * sinusoid(inside[l][n], k, 6);
            ck_assert_double_eq_tol(at(&a, n * 6 + k), want, 1e-15);
        }
    posenc_answer_fini(&a);
}
END_TEST

/* Widths may differ, and a learned level stands beside sinusoids; an odd one too. */
START_TEST(concatenation)
{
    static const double table[2][3] = { { 1, 2, 3 }, { -4, 5, 0.5 } };
    posenc_answer a = answer_of("token_level_ids=" THROUGH "&level_dims=4,3,2&combine=concat&table_1=[[1,2,3],[-4,5,0.5]]&"
                                "level_weights=1,2,1&level_encodings=sinusoidal,learned,sinusoidal&dtype=float64");
    ck_assert_int_eq(a.result.tensor[0].shape[1], 9);
    for (int n = 0; n < 7; n++)
        for (int k = 0; k < 9; k++) {
            double want = k < 4   ? sinusoid(inside[0][n], k, 4)
                          : k < 7 ? 2 * table[inside[1][n]][k - 4]
                                  : sinusoid(inside[2][n], k - 7, 2);
            ck_assert_double_eq_tol(at(&a, n * 9 + k), want, 1e-15);
        }
    posenc_answer_fini(&a);
}
END_TEST

/* The sinusoid of a single level is that of `sinusoidal`, bit by bit. */
START_TEST(one_level)
{
    posenc_answer a = answer_of(
                      "token_level_ids=[[0,1,2,3,4,5,6,7]]&level_dims=16&layout=split&flip_sin_to_cos=true&max_period=500"),
                  b;
    posenc_error err = { 0 };
    ck_assert(!posenc_encode("sinusoidal",
                             "embedding_dim=16&num_positions=8&layout=split&flip_sin_to_cos=true&max_period=500", NULL, &b,
                             NULL, &err));
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 8 * 16 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* What only repeats other parameters leaves no trace. */
START_TEST(one_key)
{
    posenc_answer a = answer_of("token_level_ids=[[0,1],[0,0]]&level_dims=2,2&table_1=[[1,2]]"),
                  b = answer_of("token_level_ids=[[0,1],[0,0]]&level_dims=2,2&table_1=[[1,2]]&level_weights=1,1&"
                                "level_encodings=sinusoidal,learned");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = answer_of("token_level_ids=[[],[]]&level_dims=2,2");
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 0);
    posenc_answer_fini(&a);
}
END_TEST

#define IDS "token_level_ids=[[0,1,2],[0,0,1]]"
static const refusal bad[] = {
    { "level_dims=4", "token_level_ids" },
    { IDS, "level_dims" },
    { "token_level_ids=[0,1]&level_dims=4", "token_level_ids" },
    { "token_level_ids=[[0],[0],[0],[0],[0],[0],[0],[0],[0]]&level_dims=4,4,4,4,4,4,4,4,4", "token_level_ids" },
    { "token_level_ids=[[0,-1]]&level_dims=4", "token_level_ids[0][1]" },
    { "token_level_ids=[[0,1.5]]&level_dims=4", "token_level_ids[0][1]" },
    { "token_level_ids=[[1,0]]&level_dims=4", "token_level_ids[0][1]" },
    { "token_level_ids=[[0,0,1],[0,1,2]]&level_dims=4,4", "token_level_ids[0][1]" }, /* coarse before fine */
    { IDS "&level_dims=4", "level_dims" },
    { IDS "&level_dims=4,0", "level_dims[1]" },
    { IDS "&level_dims=4,4.5", "level_dims[1]" },
    { IDS "&level_dims=4,6", "level_dims[1]" },
    { IDS "&level_dims=4,5&combine=concat", "level_dims[1]" },
    { IDS "&level_dims=4,4&level_weights=1", "level_weights" },
    { IDS "&level_dims=4,4&level_weights=1,inf", "level_weights[1]" },
    { IDS "&level_dims=4,4&level_weights=1,7e4&dtype=float16", "level_weights[1]" },
    { IDS "&level_dims=4,4&level_encodings=sinusoidal", "level_encodings" },
    { IDS "&level_dims=4,4&level_encodings=sinusoidal,learned", "level_encodings[1]" },
    { IDS "&level_dims=4,4&level_encodings=sinusoidal,rope", "level_encodings[1]" },
    { IDS "&level_dims=4,4&level_encodings=sinusoidal,sinusoidal,sinusoidal", "level_encodings[2]" },
    { IDS "&level_dims=2,2&level_encodings=sinusoidal,sinusoidal&table_1=[[1,2],[3,4]]", "level_encodings[1]" },
    { IDS "&level_dims=2,2&table_1=[[1,2,3],[3,4,5]]", "table_1" },
    { IDS "&level_dims=2,2&table_1=[[1,2]]", "table_1" }, /* the second sentence has no row */
    { IDS "&level_dims=2,2&table_2=[[1,2]]", "table_2" },
    { IDS "&level_dims=2,2&table_1=[[1,2],[1e300,4]]", "table_1" },
    { IDS "&level_dims=4,4&max_period=0.5", "max_period" },
    { "token_level_ids=[[0]]&level_dims=2&table_0=[[1,2]]&layout=split", "layout" },
};

START_TEST(bad_input) { refuses("hierarchical", &bad[_i]); }
END_TEST

Suite *hierarchical_suite(void);
Suite *hierarchical_suite(void)
{
    Suite *s = suite_create("hierarchical");
    TCase *t = tcase_create("hierarchical");
    tcase_add_test(t, positions_start_anew_in_each_parent);
    tcase_add_test(t, sums);
    tcase_add_test(t, concatenation);
    tcase_add_test(t, one_level);
    tcase_add_test(t, one_key);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
