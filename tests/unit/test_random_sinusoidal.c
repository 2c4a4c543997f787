/* test_random_sinusoidal.c - the formula, drawing and replaying, the kernel that it stands for, bad input. */
#include "ask.h"

#include "core/random.h"

#include <math.h>

START_TEST(formula)
{
    static const double x[3][2] = { { 0.1, 0.2 }, { 0.5, -3 }, { 7, 1.25 } }, w[2][3] = { { 1, -2, 0.5 }, { 3, 0.25, 10 } },
                        b[3] = { 0, 1, -6 };
    posenc_answer a = ask("random_sinusoidal", "coords=[[0.1,0.2],[0.5,-3],[7,1.25]]&matrix=[[1,-2,0.5],[3,0.25,10]]"
                                               "&phase=[0,1,-6]&dtype=float64");
    ck_assert_int_eq(a.result.ntensors, 1);
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 3, 3 });
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 3; j++) {
            double angle = x[i][0] * w[0][j] + x[i][1] * w[1][j] + b[j];
            ck_assert(fabs(at(&a, 3 * i + j) - sqrt(2.0 / 3) * cos(angle)) <= 1e-15 * (1 + fabs(angle)));
        }
    posenc_answer_fini(&a);
}
END_TEST

/* m = 2 has gain 1, exactly, and m = 8 has 1/2: then the element is the cosine, right to the last bit or so. */
START_TEST(gain)
{
    posenc_answer a = ask("random_sinusoidal", "positions=0,1e6&matrix=[[1,2]]&phase=[0,0]&dtype=float64"),
                  b = ask("random_sinusoidal",
                          "positions=0&matrix=[[1,1,1,1,1,1,1,1]]&phase=[0,0,0,0,0,0,0,0]&dtype=float64"),
                  c = ask("random_sinusoidal", "positions=0&matrix=[[1,1,1]]&phase=[0,0,0]&dtype=float64");
    ck_assert(at(&a, 0) == 1 && fabs(at(&a, 2) - cos(1e6)) <= 1.2e-16 && fabs(at(&a, 3) - cos(2e6)) <= 1.2e-16);
    ck_assert(at(&b, 7) == 0.5);
    ck_assert(at(&c, 0) == 0.81649658092772603273); /* sqrt(2/3), rounded once */
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(drawing)
{
    posenc_answer a = ask("random_sinusoidal", "coords=[[1,2,3],[4,5,6.5]]&m=21&sigma=0.3&seed=5");
    const posenc_tensor *w = tensor_of(&a, "matrix"), *b = tensor_of(&a, "phase");
    char again[8000] = "coords=[[1,2,3],[4,5,6.5]]&m=21&matrix=", *end = again + sizeof again;
    expect_shape(w, 2, (int64_t[]){ 3, 21 });
    expect_shape(b, 1, (int64_t[]){ 21 });
    ck_assert(w->dtype == PE_float64 && b->dtype == PE_float64);
    for (int64_t i = 0; i < 63; i++) {
        double z;
        pe_random_normal(5, 0, (uint64_t)i, 1, &z);
        ck_assert(posenc_tensor_get(w, i) == 0.3 * z);
    }
    for (int64_t i = 0; i < 21; i++) {
        double u, v = posenc_tensor_get(b, i);
        pe_random_uniform(5, 1, (uint64_t)i, 1, &u);
        ck_assert(fabs(v - 6.283185307179586 * u) <= 2e-15 && v >= 0 && v < 6.2831853071795868);
    }
    char *p = put_tensor(again + strlen(again), end, w);
    posenc_answer half, full;
    snprintf(p, (size_t)(end - p), "&seed=5"); /* the phases are drawn as before */
    half = ask("random_sinusoidal", again);
    p += snprintf(p, (size_t)(end - p), "&phase=");
    put_tensor(p, end, b);
    full = ask("random_sinusoidal", again);
    ck_assert(half.result.ntensors == 2 && full.result.ntensors == 1);
    ck_assert_mem_eq(a.result.tensor[0].data, half.result.tensor[0].data, 42 * 4);
    ck_assert_mem_eq(a.result.tensor[0].data, full.result.tensor[0].data, 42 * 4);
    posenc_answer_fini(&a);
    posenc_answer_fini(&half);
    posenc_answer_fini(&full);
}
END_TEST

/* Dot products are exp(-sigma^2 d^2 / 2), whatever the position: within five standard deviations, 1 / sqrt(m) each. */
START_TEST(kernel)
{
    enum { M = 20000, N = 12 };
    posenc_answer a = ask("random_sinusoidal", "num_positions=12&offset=1000&m=20000&sigma=0.4&seed=11&dtype=float64");
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < N; k++) {
            double dot = 0, d = 0.4 * (double)(i - k);
            for (int64_t j = 0; j < M; j++)
                dot += at(&a, i * M + j) * at(&a, k * M + j);
            ck_assert_msg(fabs(dot - exp(-d * d / 2)) < 5 / sqrt(M), "%d, %d: %g", (int)i, (int)k, dot);
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(sources)
{
    posenc_answer a = ask("random_sinusoidal", "num_positions=3&offset=4&m=4&sigma=1&seed=2"),
                  b = ask("random_sinusoidal", "coords=[[4],[5],[6]]&m=4&sigma=1&seed=2"),
                  c = ask("random_sinusoidal",
                          "input_ids=[[7,7,1]]&padding_idx=1&past_key_values_length=3&m=4&sigma=1&seed=2"),
                  d = ask_json("random_sinusoidal", "{\"positions\": [], \"m\": 4, \"sigma\": 1, \"seed\": 2}");
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 12 * 4);
    expect_shape(tensor_of(&c, "embedding"), 3, (int64_t[]){ 1, 3, 4 });
    const int64_t *at = tensor_of(&c, "positions")->data;
    ck_assert(at[0] == 5 && at[1] == 6 && at[2] == 1);
    ck_assert_mem_eq((float *)a.result.tensor[0].data + 4, c.result.tensor[0].data, 8 * 4);
    expect_shape(tensor_of(&d, "embedding"), 2, (int64_t[]){ 0, 4 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
}
END_TEST

START_TEST(keys)
{
    expect_key("random_sinusoidal", "num_positions=3&m=4&sigma=0.1&seed=2");
    expect_same("random_sinusoidal", "positions=1&matrix=[[1,2]]&phase=[1,2]", "positions=1&matrix=[[1,2]]&phase=[1,2]&m=2");
}
END_TEST

static const refusal bad[] = {
    { "m=4&sigma=1&seed=1", "num_positions", "one of" },
    { "num_positions=3&sigma=1&seed=1", "m", "required" },
    { "num_positions=3&m=4&seed=1", "sigma", "required" },
    { "num_positions=3&m=4&sigma=1", "seed", "required" },
    { "num_positions=3&m=0&sigma=1&seed=1", "m", "1 .." },
    { "num_positions=3&m=4&sigma=0&seed=1", "sigma", "1e-30" },
    { "num_positions=3&m=4&sigma=1&seed=-1", "seed", "0 .." },
    { "num_positions=3&m=4&sigma=1&seed=1&padding_idx=1", "padding_idx", "input_ids" },
    { "num_positions=3&coords=[[1]]&m=4&sigma=1&seed=1", "coords", "either" },
    { "coords=1&m=4&sigma=1&seed=1", "coords", "[..., in]" },
    { "coords=[[1e101]]&m=4&sigma=1&seed=1", "coords[0][0]", "1e100" },
    { "num_positions=3&matrix=[[1,2]]&phase=[1,2]&seed=1", "seed", "drawing" },
    { "num_positions=3&matrix=[[1,2]]&phase=[1,2]&sigma=1", "sigma", "drawing" },
    { "num_positions=3&matrix=[[1,2]]&phase=[1,2,3]", "phase", "[2]" },
    { "num_positions=3&matrix=[[1,2]]&phase=[1,2]&m=3", "matrix phase", "[1, 3]" },
    { "num_positions=3&matrix=[[1,2],[3,4]]&phase=[1,2]", "matrix", "[1, m]" },
    { "num_positions=3&matrix=[1,2]&phase=[1,2]", "matrix", "[1, m]" },
    { "num_positions=3&matrix=[[]]&phase=[]", "matrix", "at least one" },
    { "num_positions=3&phase=[1e101]&sigma=1&seed=1", "phase[0]", "1e100" },
};

START_TEST(refusals) { refuses("random_sinusoidal", &bad[_i]); }
END_TEST

START_TEST(stops)
{
    expect_stop("random_sinusoidal", "num_positions=20000&m=64&sigma=1&seed=1");
    expect_stop("random_sinusoidal", "num_positions=1&m=1000000&sigma=1&seed=1");
}
END_TEST

Suite *random_sinusoidal_suite(void);
Suite *random_sinusoidal_suite(void)
{
    Suite *s = suite_create("random_sinusoidal");
    TCase *t = tcase_create("random_sinusoidal");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, formula);
    tcase_add_test(t, gain);
    tcase_add_test(t, drawing);
    tcase_add_test(t, kernel);
    tcase_add_test(t, sources);
    tcase_add_test(t, keys);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
