/* test_dynamic_position_bias.c - the network on both inputs, layer norms, sizes of queries and keys, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("dynamic_position_bias", query); }

static double silu(double x) { return x / (1 + exp(-x)); }

static double input(int distance, bool logs)
{
    return !logs ? distance : distance < 0 ? -log1p(-distance) : log1p(distance);
}

/* One hidden layer of two units, three heads. */
START_TEST(one_hidden_layer)
{
    static const int sizes[][2] = { { 4, 4 }, { 2, 5 }, { 5, 2 } };
    const int q = sizes[_i / 2][0], k = sizes[_i / 2][1], logs = _i % 2;
    char query[256];
    snprintf(query, sizeof query,
             "query_length=%d&key_length=%d&log_distance=%s&weight_0=[[0.5],[-0.25]]&bias_0=[0.1,0.2]&"
             "weight_1=[[1,2],[3,-1],[0.5,0]]&bias_1=[0.3,0,-1]&dtype=float64",
             q, k, logs ? "true" : "false");
    posenc_answer a = answer_of(query);
    ck_assert_int_eq(a.result.tensor[0].shape[0], 3);
    for (int i = 0; i < q; i++)
        for (int j = 0; j < k; j++) {
            double x = input(i - j + k - q, logs), u = silu(0.5 * x + 0.1), v = silu(-0.25 * x + 0.2);
            double want[] = { u + 2 * v + 0.3, 3 * u - v, 0.5 * u - 1 };
            for (int h = 0; h < 3; h++)
                ck_assert_double_eq_tol(nth(&a, 0, (h * q + i) * k + j), want[h], 1e-15 * 16);
        }
    posenc_answer_fini(&a);
}
END_TEST

/* Two hidden layers, both with a norm; the first without norm_bias, as in x-transformers. */
START_TEST(norms)
{
    static const double w0[] = { 1, -2, 0.5 }, g0[] = { 1, 0.5, 2 }, w1[2][3] = { { 1, 0, -1 }, { 0.5, 2, 1 } },
                        g1[] = { 1.5, -1 }, c1[] = { 0.25, 0.5 };
    posenc_answer a = answer_of(
        "query_length=1&key_length=4&weight_0=[[1],[-2],[0.5]]&norm_weight_0=[1,0.5,2]&"
        "weight_1=[[1,0,-1],[0.5,2,1]]&norm_weight_1=[1.5,-1]&norm_bias_1=[0.25,0.5]&weight_2=[[1,2]]&"
        "norm_eps=0.125&dtype=float64");
    for (int j = 0; j < 4; j++) {
        double y[3], z[2], mean = 0, var = 0;
        for (int o = 0; o < 3; o++)
            mean += (y[o] = w0[o] * (3 - j)) / 3;
        for (int o = 0; o < 3; o++)
            var += (y[o] - mean) * (y[o] - mean) / 3;
        for (int o = 0; o < 3; o++)
            y[o] = silu((y[o] - mean) / sqrt(var + 0.125) * g0[o]);
        for (int o = 0; o < 2; o++)
            z[o] = w1[o][0] * y[0] + w1[o][1] * y[1] + w1[o][2] * y[2];
        mean = (z[0] + z[1]) / 2;
        var = ((z[0] - mean) * (z[0] - mean) + (z[1] - mean) * (z[1] - mean)) / 2;
        for (int o = 0; o < 2; o++)
            z[o] = silu((z[o] - mean) / sqrt(var + 0.125) * g1[o] + c1[o]);
        ck_assert_double_eq_tol(nth(&a, 0, j), z[0] + 2 * z[1], 1e-14);
    }
    posenc_answer_fini(&a);
}
END_TEST

/* One bias a distance: the last row of a larger matrix is that of one query. */
START_TEST(rows_of_a_larger_matrix)
{
    posenc_answer a = answer_of("query_length=1&key_length=7&weight_0=[[0.5],[-0.25]]&weight_1=[[1,2]]"),
                  b = answer_of("query_length=7&key_length=7&weight_0=[[0.5],[-0.25]]&weight_1=[[1,2]]");
    ck_assert_mem_eq(a.result.tensor[0].data, (const float *)b.result.tensor[0].data + 42, 7 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = answer_of("query_length=0&key_length=7&weight_0=[[0.5],[-0.25]]&weight_1=[[1,2]]");
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 0);
    posenc_answer_fini(&a);
}
END_TEST

#define L "query_length=4&key_length=4&"
static const refusal bad[] = {
    { L "weight_1=[[1,2]]", "weight_0" },
    { L "weight_0=[[1],[2]]", "weight_1" },
    { "query_length=4&weight_0=[[1],[2]]&weight_1=[[1,2]]", "key_length" },
    { "key_length=4&weight_0=[[1],[2]]&weight_1=[[1,2]]", "query_length" },
    { L "weight_0=[[1,2]]&weight_1=[[1]]", "weight_0" },
    { L "weight_0=[1,2]&weight_1=[[1,2]]", "weight_0" },
    { L "weight_0=[[1],[2]]&weight_1=[[1]]", "weight_1" },
    { L "weight_0=[[1],[2]]&weight_1=[[1,2]]&weight_3=[[1]]", "weight_3" },
    { L "weight_0=[[1],[2]]&weight_1=[[1,2]]&bias_0=[1]", "bias_0" },
    { L "weight_0=[[1],[2]]&weight_1=[[1,2]]&bias_2=[1]", "bias_2" },
    { L "weight_0=[[1],[2]]&weight_1=[[1,2]]&norm_weight_1=[1]", "norm_weight_1" },
    { L "weight_0=[[1],[2]]&weight_1=[[1,2]]&norm_bias_0=[1,2]", "norm_bias_0" },
    { L "weight_0=[[1],[2]]&weight_1=[[1,2]]&norm_weight_0=[1,2]&norm_eps=0", "norm_eps" },
    { L "weight_0=[[1],[2]]&weight_1=[[9000,9000]]&dtype=float16", "weight_1[0]" },
    { L "weight_0=[[1e200],[2]]&weight_1=[[1,2]]", "weight_0[0]" },
};

START_TEST(bad_input) { refuses("dynamic_position_bias", &bad[_i]); }
END_TEST

Suite *dynamic_position_bias_suite(void);
Suite *dynamic_position_bias_suite(void)
{
    Suite *s = suite_create("dynamic_position_bias");
    TCase *t = tcase_create("dynamic_position_bias");
    tcase_add_loop_test(t, one_hidden_layer, 0, 6);
    tcase_add_test(t, norms);
    tcase_add_test(t, rows_of_a_larger_matrix);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
