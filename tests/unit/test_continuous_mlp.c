/* test_continuous_mlp.c - layers by hand, activations against known values, every source of inputs, bad input. */
#include "ask.h"

#include <math.h>

/* f(v) by a network that is f alone: w0 = 1, w1 = 1. */
static double activation_at(const char *name, const char *v)
{
    char query[200];
    snprintf(query, sizeof query, "dtype=float64&positions=%s&w0=[[1]]&w1=[[1]]&activation=%s", v, name);
    posenc_answer a = ask("continuous_mlp", query);
    double y = at(&a, 0);
    posenc_answer_fini(&a);
    return y;
}

static const struct {
    const char *activation, *v;
    double want;
} known[] = {
    { "relu", "2.5", 2.5 },
    { "relu", "-2.5", 0 },
    { "relu", "0", 0 },
    { "silu", "1", 0.73105857863000487926 },
    { "silu", "-1", -0.26894142136999512075 },
    { "silu", "-50", -9.6437492398195889147e-21 },
    { "silu", "-700", -6.9017735806318395997e-302 },
    { "silu", "1000", 1000 },
    { "silu", "0", 0 },
    { "gelu", "1", 0.84134474606854294859 },
    { "gelu", "-1", -0.15865525393145705141 },
    { "gelu", "0.5", 0.34573123063700655182 },
    { "gelu", "-8", -4.9767684594174272988e-15 }, /* no cancellation: 1 + erf would leave 1 digit */
    { "gelu", "9.5", 9.5 },
    { "gelu", "-40", 0 },
    { "gelu", "0", 0 },
    { "gelu_tanh", "1", 0.84119199060827670478 },
    { "gelu_tanh", "-1", -0.15880800939172329522 },
    { "gelu_tanh", "0.5", 0.34571400982514392204 },
    { "gelu_tanh", "-200", 0 },
    { "gelu_tanh", "200", 200 },
    { "tanh", "0.5", 0.46211715726000975850 },
    { "tanh", "-30", -1 },
    { "tanh", "1e-9", 1e-9 },
    { "sine", "0.5", 0.47942553860420300027 },
    { "sine", "-1000000", 0.34999350217129295212 },
};

START_TEST(activations)
{
    double got = activation_at(known[_i].activation, known[_i].v);
    ck_assert_msg(fabs(got - known[_i].want) <= 4e-16 * fabs(known[_i].want), "%s(%s) is %.17g", known[_i].activation,
                  known[_i].v, got);
}
END_TEST

/* Three layers, one without a bias, against plain loops. */
START_TEST(layers)
{
    static const double w0[3] = { 1, -0.5, 2 }, b0[3] = { 0.1, 0.2, -0.3 }, w1[2][3] = { { 1, 2, 3 }, { -1, 0.5, 0.25 } },
                        w2[4][2] = { { 1, 0 }, { 0, 1 }, { 1, 1 }, { 2, -3 } }, b2[4] = { 0, 1, 2, 3 },
                        t[] = { -2, 0, 0.75, 100 };
    posenc_answer a = ask("continuous_mlp",
                          "positions=-2,0,0.75,100&w0=[[1],[-0.5],[2]]&b0=[0.1,0.2,-0.3]&w1=[[1,2,3],[-1,0.5,"
                          "0.25]]&w2=[[1,0],[0,1],[1,1],[2,-3]]&b2=[0,1,2,3]&activation=tanh&dtype=float64");
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 4, 4 });
    for (int64_t i = 0; i < 4; i++) {
        double x[3], y[2];
        for (int k = 0; k < 3; k++)
            x[k] = tanh(b0[k] + w0[k] * t[i]);
        for (int k = 0; k < 2; k++)
            y[k] = tanh(w1[k][0] * x[0] + w1[k][1] * x[1] + w1[k][2] * x[2]);
        for (int64_t k = 0; k < 4; k++)
            ck_assert(fabs(at(&a, 4 * i + k) - (b2[k] + w2[k][0] * y[0] + w2[k][1] * y[1])) <= 2e-15);
    }
    posenc_answer_fini(&a);
}
END_TEST

/* The order of a sum is the one that is documented: bias, then inputs in ascending order. */
START_TEST(order)
{
    posenc_answer a = ask("continuous_mlp", "coords=[[1,1,1]]&w0=[[-1,1e-16,1]]&b0=[1]&dtype=float64"),
                  b = ask("continuous_mlp", "coords=[[1,1,1]]&w0=[[1e-16,-1,1]]&b0=[1]&dtype=float64");
    ck_assert(at(&a, 0) == 1 && at(&b, 0) == 1);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    a = ask("continuous_mlp", "coords=[[1,1]]&w0=[[-1,1e-16]]&b0=[1]&dtype=float64"); /* (1 - 1) + 1e-16 */
    b = ask("continuous_mlp", "coords=[[1,1]]&w0=[[1e-16,-1]]&b0=[1]&dtype=float64"); /* (1 + 1e-16) - 1 */
    ck_assert(at(&a, 0) == 1e-16 && at(&b, 0) == 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(sources)
{
    static const char net[] = "&w0=[[2],[-1]]&b0=[1,0]";
    char query[300];
    static const char *const same[] = { "num_positions=3&offset=5",
                                        "positions=5,6,7",
                                        "coords=[[5],[6],[7]]",
                                        "timestamps=1005,1006,1007&time_origin=1000",
                                        "timestamps=2.5,3,3.5&time_unit=0.5",
                                        "timestamps_iso=1970-01-01T00:00:05Z,1970-01-01T00:00:06Z,1970-01-01T00:00:07Z",
                                        "input_ids=[9,9,9]&past_key_values_length=5" };
    static const float want[] = { 11, -5, 13, -6, 15, -7 };
    for (size_t i = 0; i < LEN(same); i++) {
        snprintf(query, sizeof query, "%s%s", same[i], net);
        posenc_answer a = ask("continuous_mlp", query);
        expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 3, 2 });
        ck_assert_mem_eq(a.result.tensor[0].data, want, sizeof want);
        posenc_answer_fini(&a);
    }
    posenc_answer a = ask("continuous_mlp", "attention_mask=[[1,1],[0,1]]&w0=[[1]]"), b;
    expect_shape(tensor_of(&a, "embedding"), 3, (int64_t[]){ 2, 2, 1 });
    expect_shape(tensor_of(&a, "positions"), 2, (int64_t[]){ 2, 2 });
    ck_assert(at(&a, 1) == 1 && at(&a, 3) == 0);
    posenc_answer_fini(&a);
    a = ask("continuous_mlp", "coords=[[[1,2],[3,4]]]&w0=[[10,1]]");
    expect_shape(tensor_of(&a, "embedding"), 3, (int64_t[]){ 1, 2, 1 });
    ck_assert(at(&a, 0) == 12 && at(&a, 1) == 34);
    posenc_answer_fini(&a);
    b = ask("continuous_mlp", "num_positions=0&w0=[[1],[2]]");
    expect_shape(tensor_of(&b, "embedding"), 2, (int64_t[]){ 0, 2 });
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(omega)
{
    posenc_answer a = ask("continuous_mlp",
                          "positions=0.3&w0=[[2]]&b0=[0.1]&w1=[[1]]&activation=sine&omega=30&dtype=float64");
    ck_assert(fabs(at(&a, 0) - sin(30 * (0.1 + 2 * 0.3))) <= 2e-15);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(too_large)
{
    static const refusal large[] = {
        { "positions=1,100&w0=[[1000]]&dtype=float16", "dtype", "element 1 of embedding, which is 100000" },
        { "positions=1&w0=[[1e50]]", "dtype", "a type that holds" },
    };
    for (size_t i = 0; i < LEN(large); i++)
        refuses("continuous_mlp", &large[i]);
    posenc_answer a = ask("continuous_mlp", "positions=1&w0=[[1e60]]&w1=[[1e-60]]&dtype=float16");
    ck_assert(at(&a, 0) == 1);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "positions=1", "w0", "required" },
    { "w0=[[1]]", "num_positions", "one of" },
    { "positions=1&timestamps=1&w0=[[1]]", "timestamps", "one of" },
    { "positions=1&coords=[[1]]&w0=[[1]]", "coords", "one of" },
    { "positions=1&time_origin=3&w0=[[1]]", "time_origin", "timestamps" },
    { "positions=1&time_unit=3&w0=[[1]]", "time_unit", "timestamps" },
    { "positions=1&time_origin_iso=2024-01-01&w0=[[1]]", "time_origin_iso", "timestamps" },
    { "timestamps=1&offset=3&w0=[[1]]", "offset", "num_positions" },
    { "positions=1&padding_idx=0&w0=[[1]]", "padding_idx", "input_ids" },
    { "positions=1&w0=[[1,2]]", "w0", "[out, 1]" },
    { "positions=1&w0=[1]", "w0", "[out, 1]" },
    { "coords=[[1,2]]&w0=[[1]]", "w0", "[out, 2]" },
    { "coords=1&w0=[[1]]", "coords", "[..., in]" },
    { "positions=1&w0=[[1]]&b0=[1,2]", "b0", "[1], as w0" },
    { "positions=1&w0=[[1],[2]]&w1=[[1]]", "w1", "[out, 2]" },
    { "positions=1&w0=[[1]]&w2=[[1]]", "w2", "the layers before" },
    { "positions=1&w0=[[1]]&b1=[1]", "b1", "the weight" },
    { "positions=1&w0=[[1e61]]", "w0[0][0]", "1e60" },
    { "positions=1&w0=[[1]]&b0=[1e61]", "b0[0]", "1e60" },
    { "coords=[[1e61]]&w0=[[1]]", "coords[0][0]", "1e60" },
    { "coords=[[1e60]]&w0=[[1e60]]&w1=[[1e60]]&w2=[[1e60]]&w3=[[1e60]]&dtype=float64", "w3", "1e280" },
    { "positions=1&w0=[[1]]&omega=2", "omega", "activation=sine" },
    { "positions=1&w0=[[1]]&activation=swish", "activation", "relu, silu" },
};

START_TEST(refusals) { refuses("continuous_mlp", &bad[_i]); }
END_TEST

/* Whatever the activation makes of one value, a poll is never far: 64 hidden values a position. */
START_TEST(stops)
{
    static const char *const names[] = { "relu", "silu", "gelu", "gelu_tanh", "tanh", "sine" };
    for (size_t k = 0; k < LEN(names); k++) {
        char query[4000];
        size_t n = (size_t)snprintf(query, sizeof query, "num_positions=%d&activation=%s&w0=[", k ? 10000 : 1000000,
                                    names[k]);
        for (int i = 0; i < 64; i++)
            n += (size_t)snprintf(query + n, sizeof query - n, "%s[%g]", i ? "," : "", 0.0005 * i);
        n += (size_t)snprintf(query + n, sizeof query - n, "]&w1=[[");
        for (int i = 0; i < 64; i++)
            n += (size_t)snprintf(query + n, sizeof query - n, "%s%d", i ? "," : "", i);
        snprintf(query + n, sizeof query - n, "]]");
        expect_stop("continuous_mlp", query);
    }
}
END_TEST

Suite *continuous_mlp_suite(void);
Suite *continuous_mlp_suite(void)
{
    Suite *s = suite_create("continuous_mlp");
    TCase *t = tcase_create("continuous_mlp");
    tcase_add_loop_test(t, activations, 0, (int)LEN(known));
    tcase_add_test(t, layers);
    tcase_add_test(t, order);
    tcase_add_test(t, sources);
    tcase_add_test(t, omega);
    tcase_add_test(t, too_large);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
