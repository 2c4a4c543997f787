/* test_kerple.c - both kernels, clamps, weights, scores, ALiBi's slopes, fewer queries than keys, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("kerple", query); }

static double clamp(double v, double least, double most) { return v < least ? least : v > most ? most : v; }

START_TEST(logarithm)
{
    static const double p[] = { 0.5, 1.5, 0.001, 3 }, a[] = { 0.2, 0.9, 0.5, -1 };
    posenc_answer r = answer_of("variant=log&query_length=3&key_length=7&p=0.5,1.5,0.001,3&a=0.2,0.9,0.5,-1&dtype=float64");
    ck_assert_int_eq(r.result.ntensors, 1);
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 7; j++) {
                double d = fmax(i + 4 - j, 0), want = -fmax(p[h], 0.01) * log1p(fmax(a[h], 0.01) * d);
                ck_assert_double_eq_tol(nth(&r, 0, (h * 3 + i) * 7 + j), want, 1e-15);
            }
    posenc_answer_fini(&r);
}
END_TEST

/* What NeMo's KERPLERelativePositionEmbedding gives in float64 with these b, a and p; queries are the last two of four. */
START_TEST(nemo)
{
    static const double want[2][7] = { { -0.15136663780680398, -0.11157177565710488, 0, -0.11157177565710488,
                                         -0.17988950632669001, -0.15136663780680398, -0.11157177565710488 },
                                       { -3.0671142908615847, -1.6479184330021646, 0, -1.6479184330021646,
                                         -4.0294267912926003, -3.0671142908615847, -1.6479184330021646 } };
    posenc_answer r = answer_of("variant=log&query_length=2&key_length=4&p=0.5,1.5&a=0.25,2&distance_power=0.5,1.75&eps=0&"
                                "bidirectional=true&dtype=float64"),
                  causal = answer_of("variant=log&query_length=2&key_length=4&p=0.5,1.5&a=0.25,2&distance_power=0.5,1.75&"
                                     "dtype=float64"),
                  clamped = answer_of("variant=log&query_length=1&key_length=4&p=1&a=1&distance_power=7&dtype=float64");
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < 7; i++)
            ck_assert_double_eq_tol(nth(&r, 0, h * 8 + i), want[h][i], 1e-15);
        ck_assert(nth(&causal, 0, h * 8 + 2) == 0 && nth(&causal, 0, h * 8 + 3) == 0);
        ck_assert(nth(&causal, 0, h * 8) == nth(&r, 0, h * 8));
    }
    ck_assert_double_eq_tol(nth(&clamped, 0, 0), -log1p(9), 1e-15);
    posenc_answer_fini(&r);
    posenc_answer_fini(&causal);
    posenc_answer_fini(&clamped);
}
END_TEST

/* Both sides of every kernel, and more queries than keys. */
START_TEST(bidirectional)
{
    posenc_answer r = answer_of("variant=power&query_length=5&key_length=3&bias_p=1.5&wei_a=0.25&bidirectional=true&"
                                "dtype=float64");
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 3; j++) {
            const double d = abs(i - 2 - j);
            ck_assert_double_eq_tol(nth(&r, 0, i * 3 + j), -pow(d, 1.5), 1e-14);
            ck_assert_double_eq_tol(nth(&r, 1, i * 3 + j), exp(-0.25 * d), 1e-15);
        }
    posenc_answer_fini(&r);
}
END_TEST

/* Powers over 2 count as 2, parameters below eps as eps; the weight is 1 at distance 0 and for later keys. */
START_TEST(powers_and_weights)
{
    static const double bp[] = { 0.5, 1.25, 2.5 }, ba[] = { 0.2, 0.001, 1 }, wp[] = { -3, 0.5, 4 },
                        wa[] = { 0.1, 0.3, 0.02 };
    posenc_answer r = answer_of(
        "variant=power&query_length=9&key_length=9&bias_p=0.5,1.25,2.5&bias_a=0.2,0.001,1&wei_p=-3,0.5,4&"
        "wei_a=0.1,0.3,0.02&eps=0.05&dtype=float64");
    ck_assert_str_eq(r.result.tensor[0].name, "bias");
    ck_assert_str_eq(r.result.tensor[1].name, "weight");
    for (int h = 0; h < 3; h++)
        for (int i = 0; i < 9; i++)
            for (int j = 0; j < 9; j++) {
                int64_t e = (h * 9 + i) * 9 + j;
                double d = fmax(i - j, 0);
                double bias = -fmax(ba[h], 0.05) * pow(d, clamp(bp[h], 0.05, 2)),
                       weight = exp(-fmax(wa[h], 0.05) * pow(d, clamp(wp[h], 0.05, 2)));
                ck_assert_double_eq_tol(nth(&r, 0, e), bias, 2e-14);
                ck_assert_double_eq_tol(nth(&r, 1, e), weight, 1e-15);
                ck_assert(d > 0 || (nth(&r, 0, e) == 0 && !signbit(nth(&r, 0, e)) && nth(&r, 1, e) == 1));
            }
    posenc_answer_fini(&r);
}
END_TEST

/* A weight alone has no bias; a power alone has factor 1. */
START_TEST(parts)
{
    posenc_answer w = answer_of("variant=power&query_length=1&key_length=4&wei_p=1,2&dtype=float64"),
                  b = answer_of("variant=power&query_length=1&key_length=4&bias_p=1,2&dtype=float64");
    ck_assert_int_eq(w.result.ntensors, 1);
    ck_assert_str_eq(w.result.tensor[0].name, "weight");
    ck_assert_str_eq(b.result.tensor[0].name, "bias");
    for (int j = 0; j < 4; j++) {
        ck_assert_double_eq_tol(nth(&w, 0, j), exp(-(3 - j)), 1e-15);
        ck_assert_double_eq_tol(nth(&w, 0, 4 + j), exp(-(3 - j) * (3 - j)), 1e-15);
        ck_assert(nth(&b, 0, j) == -(3 - j) && nth(&b, 0, 4 + j) == -(3 - j) * (3 - j));
    }
    posenc_answer_fini(&w);
    posenc_answer_fini(&b);
}
END_TEST

/* scores * weight + bias, also with an axis of sequences. */
START_TEST(scores)
{
    static const double s[] = { 1, -2, 0.5, 4, 3, 0.25, -1, 2, 8, 1, -0.5, 1, 2, 2, -4, 0 };
    char query[512], list[256] = "";
    for (int i = 0, n = 0; i < 16; i++)
        n += snprintf(list + n, sizeof list - (size_t)n, "%s%g%s",
                      i % 8 == 0   ? (i ? ",[[[" : "[[[")
                      : i % 4 == 0 ? "[["
                      : i % 2 == 0 ? "["
                                   : "",
                      s[i],
                      i % 8 == 7   ? "]]]"
                      : i % 4 == 3 ? "]],"
                      : i % 2 == 1 ? "],"
                                   : ",");
    snprintf(query, sizeof query, "variant=power&bias_a=0.5,0.25&wei_a=1,2&scores=[%s]&dtype=float64", list);
    posenc_answer r = answer_of(query);
    ck_assert_int_eq(r.result.ntensors, 3);
    ck_assert_str_eq(r.result.tensor[2].name, "scores_out");
    ck_assert_int_eq(r.result.tensor[2].rank, 4);
    for (int e = 0; e < 16; e++) {
        int h = e / 4 % 2, d = e % 4 == 2;
        ck_assert_double_eq_tol(nth(&r, 2, e), s[e] * exp(-(h + 1) * d) - (h ? 0.25 : 0.5) * d, 1e-15);
    }
    posenc_answer_fini(&r);
}
END_TEST

/* The original: slopes of ALiBi, 2^-8 raised to eps as every parameter. */
START_TEST(slopes)
{
    static const double want[] = { 0.25, 0.0625, 0.015625, 0.01 };
    posenc_answer r = answer_of("variant=power&use_alibi_slopes=true&num_heads=4&query_length=1&key_length=6&dtype=float64");
    for (int h = 0; h < 4; h++)
        for (int j = 0; j < 6; j++)
            ck_assert(nth(&r, 0, h * 6 + j) == -want[h] * (5 - j));
    posenc_answer_fini(&r);
}
END_TEST

START_TEST(empty)
{
    static const char *const queries[] = { "variant=log&p=1&a=1&query_length=0&key_length=5",
                                           "variant=log&p=1&a=1&query_length=5&key_length=0" };
    posenc_answer r = answer_of(queries[_i]);
    ck_assert_int_eq(posenc_tensor_count(&r.result.tensor[0]), 0);
    posenc_answer_fini(&r);
}
END_TEST

#define L "&query_length=4&key_length=4"
static const refusal bad[] = {
    { "p=1&a=1" L, "variant" },
    { "variant=log&p=1" L, "a" },
    { "variant=log&p=1&a=1&bias_a=1" L, "bias_a" },
    { "variant=log&p=1,2&a=1" L, "a" },
    { "variant=log&p=1,2&a=1,2,3&num_heads=3" L, "p" },
    { "variant=log&p=1&a=1&query_length=4", "key_length" },
    { "variant=log&p=1&a=1&key_length=4", "query_length" },
    { "variant=log&p=1&a=1&eps=-1" L, "eps" },
    { "variant=log&p=1&a=1&eps=2.5" L, "eps" },
    { "variant=log&p=1,1e101&a=1,1" L, "p[1]" },
    { "variant=log&p=1,1e5&a=1,1&dtype=float16" L, "p[1]" },
    { "variant=power" L, "bias_a" },
    { "variant=power&p=1" L, "p" },
    { "variant=power&use_alibi_slopes=true" L, "num_heads" },
    { "variant=power&use_alibi_slopes=true&bias_a=1" L, "bias_a" },
    { "variant=power&use_alibi_slopes=true&num_heads=1&bias_p=1" L, "bias_p" },
    { "variant=power&bias_a=1e5&dtype=float16" L, "bias_a[0]" },
    { "variant=power&bias_a=1&scores=[[1,2],[3,4]]", "scores" },
    { "variant=power&bias_a=1,2&scores=[[[1,2],[3,4]]]", "bias_a" },
    { "variant=power&bias_a=1&scores=[[[1,2],[3,4]]]&key_length=3", "scores" },
    { "variant=power&bias_a=1&scores=[[[1,2],[3,40000]]]&dtype=float16", "scores[0][1][1]" },
};

START_TEST(bad_input) { refuses("kerple", &bad[_i]); }
END_TEST

Suite *kerple_suite(void);
Suite *kerple_suite(void)
{
    Suite *s = suite_create("kerple");
    TCase *t = tcase_create("kerple");
    tcase_add_test(t, logarithm);
    tcase_add_test(t, powers_and_weights);
    tcase_add_test(t, nemo);
    tcase_add_test(t, bidirectional);
    tcase_add_test(t, parts);
    tcase_add_test(t, scores);
    tcase_add_test(t, slopes);
    tcase_add_loop_test(t, empty, 0, 2);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
