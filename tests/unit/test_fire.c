/* test_fire.c - the network on normalized distances, threshold, given positions, bounds of weights, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("fire", query); }

#define NET "w1=[[1],[-0.5],[2]]&b1=[0.1,0.5,-1]&w2=[[1,0.5,-1],[0.25,-1,2]]&b2=[0.5,-0.1]"

/* The formula as written. */
static double formula(int h, double query, double key, double c, double threshold, double eps)
{
    static const double w1[] = { 1, -0.5, 2 }, b1[] = { 0.1, 0.5, -1 }, w2[][3] = { { 1, 0.5, -1 }, { 0.25, -1, 2 } },
                        b2[] = { 0.5, -0.1 };
    double x = log1p(fabs(c * (query - key))) / (log1p(fabs(c * fmax(query, threshold))) + eps), sum = b2[h];
    for (int m = 0; m < 3; m++)
        sum += w2[h][m] * fmax(w1[m] * x + b1[m], 0);
    return sum;
}

/* 80 columns: more than one block. */
START_TEST(ranges)
{
    posenc_answer a = answer_of("seq_length=80&c=0.3&L=-10&L_multiplier=2&eps=0.001&dtype=float64&" NET);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 80; i++)
            for (int j = 0; j < 80; j++)
                ck_assert_double_eq_tol(nth(&a, 0, (h * 80 + i) * 80 + j), formula(h, i, j, 0.3, 20, 0.001), 1e-14);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(positions)
{
    static const double at_[] = { 0, 3, 3.5, 40, 1000 };
    posenc_answer a = answer_of("positions=0,3,3.5,40,1000&dtype=float64&" NET);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 5; j++)
                ck_assert_double_eq_tol(nth(&a, 0, (h * 5 + i) * 5 + j), formula(h, at_[i], at_[j], 0.1, 512, 1e-6), 1e-14);
    posenc_answer_fini(&a);
}
END_TEST

/* Beyond the threshold the bias of a fixed fraction of the way is that of any length: the interpolation. */
START_TEST(interpolates)
{
    posenc_answer a = answer_of("positions=0,1000&c=1000&L=1&eps=1e-30&dtype=float64&" NET),
                  b = answer_of("positions=0,100000&c=1000&L=1&eps=1e-30&dtype=float64&" NET);
    ck_assert_double_eq_tol(nth(&a, 0, 2), nth(&b, 0, 2), 1e-15); /* the first key, seen from the last query: x = 1 */
    ck_assert_double_eq_tol(nth(&a, 0, 2), 0.5 + 1.1 - 1, 1e-15);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = answer_of("seq_length=0&" NET);
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 0);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { NET, "seq_length" },
    { "seq_length=-1&" NET, "seq_length" },
    { "seq_length=3&positions=1,2&" NET, "positions" },
    { "positions=-1,2&" NET, "positions[0]" },
    { "seq_length=3&num_heads=3&" NET, "w2" },
    { "seq_length=3&mlp_width=4&" NET, "w1" },
    { "seq_length=3&eps=0&" NET, "eps" },
    { "seq_length=3&c=inf&" NET, "c" },
    { "seq_length=3&w1=[1]&b1=[1]&w2=[[1]]&b2=[1]", "w1" },
    { "seq_length=3&w1=[[1]]&b1=[1,2]&w2=[[1]]&b2=[1]", "b1" },
    { "seq_length=3&w1=[[1]]&b1=[1]&w2=[[1,2]]&b2=[1]", "w2" },
    { "seq_length=3&w1=[[1]]&b1=[1]&w2=[[1]]&b2=[1,2]", "b2" },
    { "seq_length=3&w1=[[1]]&b1=[1]&w2=[[1]]", "b2" },
    { "seq_length=3&w1=[[1]]&b1=[1]&w2=[[1],[7e4]]&b2=[1,2]&dtype=float16", "w2[1]" },
    { "seq_length=3&w1=[[1e300]]&b1=[1e300]&w2=[[1e300]]&b2=[1]&dtype=float64", "w2[0]" },
};

START_TEST(bad_input) { refuses("fire", &bad[_i]); }
END_TEST

Suite *fire_suite(void);
Suite *fire_suite(void)
{
    Suite *s = suite_create("fire");
    TCase *t = tcase_create("fire");
    tcase_add_test(t, ranges);
    tcase_add_test(t, positions);
    tcase_add_test(t, interpolates);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
