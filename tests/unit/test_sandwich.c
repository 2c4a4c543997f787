/* test_sandwich.c - the sum of cosines, small distances without cancellation, later keys either way, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("sandwich", query); }

/* The formula as written, with the cosines of the C library. */
static double formula(int heads, int h, int hidden, double d)
{
    double sum = 0;
    for (int j = 1; j <= hidden / 2; j++)
        sum += cos(d * pow(10000, -2.0 * j / hidden));
    return (sum - hidden / 2.0) / (8.0 * h / heads);
}

START_TEST(both_sides)
{
    static const int sizes[][2] = { { 5, 5 }, { 2, 6 }, { 6, 2 } };
    const int q = sizes[_i][0], k = sizes[_i][1];
    char query[128];
    snprintf(query, sizeof query,
             "num_heads=3&query_length=%d&key_length=%d&hidden_size=64&bidirectional=true&dtype=float64", q, k);
    posenc_answer a = answer_of(query);
    for (int h = 0; h < 3; h++)
        for (int i = 0; i < q; i++)
            for (int j = 0; j < k; j++)
                ck_assert_double_eq_tol(nth(&a, 0, (h * q + i) * k + j), formula(3, h + 1, 64, abs(i - j + k - q)), 1e-13);
    posenc_answer_fini(&a);
}
END_TEST

/* Later keys: above the diagonal of the block as NeMo has it, or later by position. */
START_TEST(later_keys)
{
    posenc_answer a = answer_of("num_heads=1&query_length=2&key_length=6&hidden_size=10&dtype=float64"),
                  b = answer_of("num_heads=1&query_length=2&key_length=6&hidden_size=10&dtype=float64&future=by_position");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 6; j++) {
            int d = i + 4 - j;
            double nemo = j > i ? 0 : formula(1, 1, 10, abs(d)), honest = d < 0 ? 0 : formula(1, 1, 10, d);
            ck_assert_double_eq_tol(nth(&a, 0, i * 6 + j), nemo, 1e-14);
            ck_assert_double_eq_tol(nth(&b, 0, i * 6 + j), honest, 1e-14);
            ck_assert(d || !signbit(nth(&b, 0, i * 6 + j)));
        }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Two channels, one frequency 10^-4: cos(x) - 1 for x = 10^-4 d keeps all its digits; the plain sum loses half of them. */
START_TEST(nothing_cancels)
{
    posenc_answer a = answer_of("num_heads=1&query_length=4&key_length=4&hidden_size=2&dtype=float64");
    for (int d = 1; d < 4; d++) {
        double x = 1e-4 * d, want = (-x * x / 2 + x * x * x * x / 24 - x * x * x * x * x * x / 720) / 8;
        ck_assert_double_eq_tol(nth(&a, 0, d * 4) / want, 1, 1e-15);
    }
    ck_assert(fabs(formula(1, 1, 2, 1) / nth(&a, 0, 4) - 1) > 1e-12);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty)
{
    static const char *const queries[] = { "num_heads=1&query_length=0&key_length=6&hidden_size=10",
                                           "num_heads=1&query_length=6&key_length=0&hidden_size=10" };
    posenc_answer a = answer_of(queries[_i]);
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 0);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "query_length=2&key_length=2&hidden_size=4", "num_heads" },
    { "num_heads=0&query_length=2&key_length=2&hidden_size=4", "num_heads" },
    { "num_heads=2&key_length=2&hidden_size=4", "query_length" },
    { "num_heads=2&query_length=2&hidden_size=4", "key_length" },
    { "num_heads=2&query_length=2&key_length=2", "hidden_size" },
    { "num_heads=2&query_length=2&key_length=2&hidden_size=5", "hidden_size" },
    { "num_heads=2&query_length=2&key_length=2&hidden_size=0", "hidden_size" },
    { "num_heads=1024&query_length=2&key_length=2&hidden_size=1024&dtype=float16", "hidden_size" },
    { "num_heads=2&query_length=2&key_length=2&hidden_size=4&bidirectional=true&future=by_position", "future" },
};

START_TEST(bad_input) { refuses("sandwich", &bad[_i]); }
END_TEST

Suite *sandwich_suite(void);
Suite *sandwich_suite(void)
{
    Suite *s = suite_create("sandwich");
    TCase *t = tcase_create("sandwich");
    tcase_add_loop_test(t, both_sides, 0, 3);
    tcase_add_test(t, later_keys);
    tcase_add_test(t, nothing_cancels);
    tcase_add_loop_test(t, empty, 0, 2);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
