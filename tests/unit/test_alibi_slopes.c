/* test_alibi_slopes.c - exact powers, the order for other numbers of heads, slices, dtypes, bad input. */
#include "ask.h"

static posenc_answer answer_of(const char *query) { return ask("alibi_slopes", query); }

START_TEST(powers_of_two_are_exact)
{
    posenc_answer a = answer_of("num_heads=8&dtype=float64"), b = answer_of("num_heads=16&dtype=float64");
    const double *x = a.result.tensor[0].data, *y = b.result.tensor[0].data;
    double want = 1;
    for (int h = 0; h < 8; h++) {
        want /= 2;
        ck_assert(x[h] == want);
        ck_assert(y[2 * h + 1] == want);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(other_numbers)
{
    static const int numbers[] = { 1, 3, 6, 12, 71, 112 };
    char query[64];
    int n = numbers[_i], k = 1;
    while (2 * k <= n)
        k *= 2;
    snprintf(query, sizeof query, "num_heads=%d&dtype=float64", n);
    posenc_answer a = answer_of(query);
    snprintf(query, sizeof query, "num_heads=%d&dtype=float64", k);
    posenc_answer b = answer_of(query);
    snprintf(query, sizeof query, "num_heads=%d&dtype=float64", 2 * k);
    posenc_answer c = answer_of(query);
    const double *x = a.result.tensor[0].data, *y = b.result.tensor[0].data, *z = c.result.tensor[0].data;
    ck_assert_int_eq(a.result.tensor[0].shape[0], n);
    for (int h = 0; h < n; h++)
        ck_assert(x[h] == (h < k ? y[h] : z[2 * (h - k)]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(slices)
{
    posenc_answer a = answer_of("num_heads=12"), b = answer_of("num_heads=12&head_start=3&head_count=6"),
                  c = answer_of("num_heads=12&head_start=9");
    ck_assert_mem_eq((const float *)a.result.tensor[0].data + 3, b.result.tensor[0].data, 6 * sizeof(float));
    ck_assert_int_eq(c.result.tensor[0].shape[0], 3);
    ck_assert_mem_eq((const float *)a.result.tensor[0].data + 9, c.result.tensor[0].data, 3 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(rounded_first)
{
    posenc_answer a = answer_of("num_heads=12&dtype=bfloat16"),
                  b = answer_of("num_heads=12&slope_dtype=bfloat16&dtype=float64");
    for (int h = 0; h < 12; h++)
        ck_assert(posenc_tensor_get(&a.result.tensor[0], h) == posenc_tensor_get(&b.result.tensor[0], h));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(largest_bias)
{
    posenc_answer a = answer_of("num_heads=4&alibi_bias_max=16&dtype=float64");
    for (int h = 0; h < 4; h++)
        ck_assert(posenc_tensor_get(&a.result.tensor[0], h) == 1.0 / (double)(1LL << 4 * (h + 1)));
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "", "num_heads" },
    { "num_heads=0", "num_heads" },
    { "num_heads=-3", "num_heads" },
    { "num_heads=2.5", "num_heads" },
    { "num_heads=99999999999", "num_heads" },
    { "num_heads=8&alibi_bias_max=0", "alibi_bias_max" },
    { "num_heads=8&alibi_bias_max=nan", "alibi_bias_max" },
    { "num_heads=8&slope_dtype=int8", "slope_dtype" },
    { "num_heads=8&head_start=8", "head_start" },
    { "num_heads=8&head_start=4&head_count=5", "head_count" },
    { "num_heads=8&heads=5", "heads" },
};

START_TEST(bad_input) { refuses("alibi_slopes", &bad[_i]); }
END_TEST

Suite *alibi_slopes_suite(void);
Suite *alibi_slopes_suite(void)
{
    Suite *s = suite_create("alibi_slopes");
    TCase *t = tcase_create("alibi_slopes");
    tcase_add_test(t, powers_of_two_are_exact);
    tcase_add_loop_test(t, other_numbers, 0, 6);
    tcase_add_test(t, slices);
    tcase_add_test(t, rounded_first);
    tcase_add_test(t, largest_bias);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
