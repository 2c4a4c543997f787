/* test_random_fourier.c - every source of coordinates and every order, drawing and replaying, bad input. */
#include "ask.h"

#include "core/random.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925;

/* One value close to what libm makes of an angle that is right to a few ulp. */
static void expect_near(double got, double want, double angle)
{
    ck_assert_msg(fabs(got - want) <= 1e-15 + 1e-15 * fabs(angle), "%.17g, want %.17g", got, want);
}

START_TEST(matrix_given)
{
    static const double x[3][2] = { { 0.1, 0.2 }, { 0.5, -3 }, { 7, 1.25 } }, b[2][3] = { { 1, -2, 0.5 }, { 3, 0.25, 10 } };
    for (int flip = 0; flip < 2; flip++) {
        char query[300];
        snprintf(query, sizeof query,
                 "coords=[[0.1,0.2],[0.5,-3],[7,1.25]]&matrix=[[1,-2,0.5],[3,0.25,10]]&dtype=float64&flip_sin_to_cos=%s",
                 flip ? "true" : "false");
        posenc_answer a = ask("random_fourier", query);
        ck_assert_int_eq(a.result.ntensors, 1);
        expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 3, 6 });
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 3; j++) {
                double angle = two_pi * (x[i][0] * b[0][j] + x[i][1] * b[1][j]);
                expect_near(at(&a, 6 * i + (flip ? 3 : 0) + j), sin(angle), angle);
                expect_near(at(&a, 6 * i + (flip ? 0 : 3) + j), cos(angle), angle);
            }
        posenc_answer_fini(&a);
    }
}
END_TEST

/* Whole turns are whole turns, however many. */
START_TEST(whole_turns)
{
    posenc_answer a = ask("random_fourier", "coords=[[123456789,3],[1000003,0.5]]&matrix=[[2],[0.5]]&dtype=float64");
    ck_assert(fabs(at(&a, 0)) < 1e-15 && at(&a, 1) == -1); /* 3/2 turns */
    ck_assert(fabs(at(&a, 2) - 1) < 1e-15);                /* 1/4 turn */
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(coords_of_any_rank)
{
    posenc_answer a = ask("random_fourier", "coords=[[[0.1],[0.2]],[[0.3],[0.4]]]&matrix=[[1,2,3]]"),
                  b = ask("random_fourier", "coords=[[0.1],[0.2],[0.3],[0.4]]&matrix=[[1,2,3]]"),
                  c = ask("random_fourier", "coords=[0.4]&matrix=[[1,2,3]]");
    expect_shape(tensor_of(&a, "embedding"), 3, (int64_t[]){ 2, 2, 6 });
    expect_shape(tensor_of(&c, "embedding"), 1, (int64_t[]){ 6 });
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 24 * 4);
    ck_assert_mem_eq((float *)b.result.tensor[0].data + 18, c.result.tensor[0].data, 6 * 4);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    a = ask_json("random_fourier", "{\"coords\": {\"dtype\": \"float32\", \"shape\": [0, 2], \"data\": \"\"}, \"m\": 3, "
                                   "\"sigma\": 1, \"seed\": 1}");
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 0, 6 });
    expect_shape(tensor_of(&a, "matrix"), 2, (int64_t[]){ 2, 3 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(noise_levels)
{
    static const double t[] = { 0.01, 0.5, 1, 50 }, w[] = { 16, -3.5, 0.25 };
    for (int linear = 0; linear < 2; linear++) {
        char query[200];
        snprintf(query, sizeof query, "timesteps=0.01,0.5,1,50&weight=[16,-3.5,0.25]&dtype=float64%s",
                 linear ? "&log=false" : "");
        posenc_answer a = ask("random_fourier", query);
        expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 4, 6 });
        for (int64_t i = 0; i < 4; i++)
            for (int64_t j = 0; j < 3; j++) {
                double angle = two_pi * w[j] * (linear ? t[i] : log(t[i]));
                expect_near(at(&a, 6 * i + j), sin(angle), angle);
                expect_near(at(&a, 6 * i + 3 + j), cos(angle), angle);
            }
        posenc_answer_fini(&a);
    }
    posenc_answer a = ask("random_fourier", "timesteps=0,-2&weight=[1]&log=false");
    ck_assert(at(&a, 0) == 0 && at(&a, 1) == 1);
    posenc_answer_fini(&a);
}
END_TEST

/* Segment anything: centres of pixels, x before y, channels first. */
START_TEST(grid)
{
    static const double b[2][2] = { { 0.5, -1 }, { 2, 0.75 } };
    posenc_answer a = ask("random_fourier",
                          "height=3&width=70&matrix=[[0.5,-1],[2,0.75]]&dtype=float64&compute_dtype=float64");
    expect_shape(tensor_of(&a, "embedding"), 3, (int64_t[]){ 4, 3, 70 });
    for (int64_t y = 0; y < 3; y++)
        for (int64_t x = 0; x < 70; x++)
            for (int64_t j = 0; j < 2; j++) {
                double u = 2 * ((double)x + 0.5) / 70 - 1, v = 2 * ((double)y + 0.5) / 3 - 1;
                double angle = two_pi * (u * b[0][j] + v * b[1][j]);
                expect_near(at(&a, (j * 3 + y) * 70 + x), sin(angle), angle);
                expect_near(at(&a, ((2 + j) * 3 + y) * 70 + x), cos(angle), angle);
            }
    posenc_answer_fini(&a);
}
END_TEST

/* A grid is the points at its centres. */
START_TEST(points)
{
    posenc_answer g = ask("random_fourier", "height=2&width=4&matrix=[[0.3],[0.7]]&dtype=float64"),
                  p = ask("random_fourier", "points=[[[0.5,0.5],[1.5,0.5]],[[2.5,1.5],[3.5,1.5]]]&image_size=2,4"
                                            "&matrix=[[0.3],[0.7]]&dtype=float64");
    static const int64_t cell[] = { 0, 1, 6, 7 };
    expect_shape(tensor_of(&p, "embedding"), 3, (int64_t[]){ 2, 2, 2 });
    for (int64_t i = 0; i < 4; i++) {
        ck_assert(at(&p, 2 * i) == at(&g, cell[i]));
        ck_assert(at(&p, 2 * i + 1) == at(&g, 8 + cell[i]));
    }
    posenc_answer_fini(&g);
    posenc_answer_fini(&p);
}
END_TEST

START_TEST(without_matrix)
{
    posenc_answer a = ask("random_fourier", "mode=basic&coords=[[0.25,0.1]]&flip_sin_to_cos=true&dtype=float64");
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 1, 4 });
    expect_near(at(&a, 0), 0, 2);
    expect_near(at(&a, 1), cos(two_pi * 0.1), 1);
    expect_near(at(&a, 2), 1, 2);
    expect_near(at(&a, 3), sin(two_pi * 0.1), 1);
    posenc_answer_fini(&a);
    a = ask("random_fourier", "mode=positional&coords=[[0.25,0.1]]&sigma=10&m=3&dtype=float64"); /* each coordinate whole */
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 1, 12 });
    for (int64_t k = 0; k < 2; k++)
        for (int64_t j = 0; j < 3; j++) {
            double angle = two_pi * pow(10, (double)j / 3) * (k ? 0.1 : 0.25);
            expect_near(at(&a, 6 * k + j), sin(angle), angle);
            expect_near(at(&a, 6 * k + 3 + j), cos(angle), angle);
        }
    posenc_answer_fini(&a);
}
END_TEST

static const struct {
    const char *query, *matrix;
    int64_t in, m;
    double sigma;
} drawn[] = {
    { "coords=[[0.1,0.2,0.3],[1,2,3]]&m=40&sigma=2.5&seed=77", "matrix", 3, 40, 2.5 },
    { "timesteps=0.1,0.5&embedding_size=300&seed=77", "weight", 1, 300, 16 },
    { "timesteps=0.1,0.5&embedding_size=300&seed=77&scale=3&log=false", "weight", 1, 300, 3 },
    { "height=5&width=3&num_pos_feats=17&seed=77", "matrix", 2, 17, 1 },
    { "points=[[1,2],[0,0]]&image_size=4,8&num_pos_feats=17&seed=77&scale=0.5", "matrix", 2, 17, 0.5 },
};

/* The matrix is the documented stream, and given back it gives the same bytes. */
START_TEST(drawing)
{
    posenc_answer a = ask("random_fourier", drawn[_i].query);
    const posenc_tensor *t = tensor_of(&a, drawn[_i].matrix);
    const int64_t in = drawn[_i].in, m = drawn[_i].m;
    const bool row = !strcmp(drawn[_i].matrix, "weight");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->dtype, PE_float64);
    expect_shape(t, row ? 1 : 2, row ? &m : (int64_t[]){ in, m });
    char again[20000], *end = again + sizeof again, *p = again;
    for (const char *q = drawn[_i].query; *q;) { /* without what only drawing needs */
        size_t n = strcspn(q, "&");
        if (strncmp(q, "seed=", 5) && strncmp(q, "sigma=", 6) && strncmp(q, "scale=", 6))
            p += snprintf(p, (size_t)(end - p), "%.*s&", (int)n, q);
        q += n + (q[n] != 0);
    }
    for (int64_t i = 0; i < in * m; i++) {
        double z;
        pe_random_normal(77, 0, (uint64_t)i, 1, &z);
        ck_assert(posenc_tensor_get(t, i) == drawn[_i].sigma * z);
    }
    p += snprintf(p, (size_t)(end - p), "%s=", drawn[_i].matrix);
    put_tensor(p, end, t);
    posenc_answer b = ask("random_fourier", again);
    ck_assert_int_eq(b.result.ntensors, 1);
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, posenc_tensor_size(&a.result.tensor[0]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Each peer's float32, one operation at a time; libm's float64 functions, rounded, are the float32 ones but for a rare tie.
 */
START_TEST(float32_steps)
{
    const float tau = 6.28318530717958647692f, pi = 3.14159265358979323846f;
    posenc_answer a = ask("random_fourier", "coords=[[0.1,30.7]]&matrix=[[1.1],[0.3]]&compute_dtype=float32&dtype=float64");
    float p = tau * 0.1f, q = tau * 30.7f, angle = p * 1.1f;
    angle = angle + q * 0.3f;
    ck_assert(at(&a, 0) == (double)(float)sin((double)angle));
    ck_assert(at(&a, 1) == (double)(float)cos((double)angle));
    posenc_answer_fini(&a);
    a = ask("random_fourier", "timesteps=0.37&weight=[16.3]&compute_dtype=float32&dtype=float64");
    angle = (float)log((double)0.37f) * 16.3f;
    angle = angle * 2 * pi;
    ck_assert(at(&a, 0) == (double)(float)sin((double)angle));
    posenc_answer_fini(&a);
    a = ask("random_fourier", "mode=positional&coords=[[0.37]]&sigma=10&m=3&compute_dtype=float32&dtype=float64");
    p = (float)pow(10, (double)(2.0f / 3.0f));
    p = tau * p;
    angle = p * 0.37f;
    ck_assert(at(&a, 2) == (double)(float)sin((double)angle));
    posenc_answer_fini(&a);
    a = ask("random_fourier", "mode=basic&coords=[[30.7]]&compute_dtype=float32&dtype=float64");
    ck_assert(at(&a, 1) == (double)(float)cos((double)(tau * 30.7f)));
    posenc_answer_fini(&a);
    /* segment-anything: also where the request does not say it */
    a = ask("random_fourier", "points=[[10.5,20]]&image_size=600,1024&matrix=[[1.7],[-2.3]]&dtype=float64");
    posenc_answer g = ask("random_fourier", "height=3&width=7&matrix=[[1.7],[-2.3]]&dtype=float64"),
                  e = ask("random_fourier", "height=3&width=7&matrix=[[1.7],[-2.3]]&dtype=float64&compute_dtype=float64");
    p = 10.5f / 1024, q = 20.0f / 600;
    p = (2 * p - 1) * 1.7f, q = (2 * q - 1) * -2.3f;
    angle = tau * (p + q);
    ck_assert(at(&a, 0) == (double)(float)sin((double)angle));
    p = 5.5f / 7, q = 2.5f / 3;
    p = (2 * p - 1) * 1.7f, q = (2 * q - 1) * -2.3f;
    angle = tau * (p + q);
    ck_assert(at(&g, 2 * 7 + 5) == (double)(float)sin((double)angle));
    ck_assert(at(&g, 21 + 2 * 7 + 5) == (double)(float)cos((double)angle));
    ck_assert(memcmp(g.result.tensor[0].data, e.result.tensor[0].data, 42 * 8) != 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&g);
    posenc_answer_fini(&e);
}
END_TEST

/* dtype is the last rounding: it does not change what is drawn. Another seed does. */
START_TEST(seeds)
{
    posenc_answer a = ask("random_fourier", "height=2&width=2&num_pos_feats=8&seed=1"),
                  b = ask("random_fourier", "height=2&width=2&num_pos_feats=8&seed=1&dtype=float16"),
                  c = ask("random_fourier", "height=2&width=2&num_pos_feats=8&seed=9007199254740991");
    ck_assert_mem_eq(tensor_of(&a, "matrix")->data, tensor_of(&b, "matrix")->data, 16 * 8);
    ck_assert(memcmp(tensor_of(&a, "matrix")->data, tensor_of(&c, "matrix")->data, 16 * 8) != 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(keys)
{
    expect_key("random_fourier", "height=4&width=6&num_pos_feats=8&seed=3");
    expect_key("random_fourier", "timesteps=0.1,0.5&embedding_size=4&seed=3&log=false");
    expect_same("random_fourier", "timesteps=0.5&embedding_size=4&seed=3",
                "timesteps=0.5&embedding_size=4&seed=3&scale=16&log=true");
    expect_same("random_fourier", "height=4&width=6&num_pos_feats=8&seed=3",
                "height=4&width=6&num_pos_feats=8&seed=3&scale=1");
    expect_same("random_fourier", "timesteps=0.5&weight=[1,2]&embedding_size=2", "timesteps=0.5&weight=[1,2]");
    expect_same("random_fourier", "height=4&width=6&num_pos_feats=8&seed=3",
                "height=4&width=6&num_pos_feats=8&seed=3&compute_dtype=float32");
    expect_same("random_fourier", "coords=[[1]]&matrix=[[1,2]]&m=2", "coords=[[1]]&matrix=[[1,2]]");
}
END_TEST

static const refusal bad[] = {
    { "", "coords", "one of coords" },
    { "mode=basic", "coords", "with this mode" },
    { "m=4&sigma=1&seed=1", "coords", "one of coords" },
    { "coords=[[1]]&timesteps=1&m=4&sigma=1&seed=1", "timesteps", "one of" },
    { "coords=[[1]]&points=[[1,1]]&m=4&sigma=1&seed=1", "points", "one of" },
    { "height=2&width=2&points=[[1,1]]&image_size=2,2&num_pos_feats=4&seed=1", "points image_size", "one of" },
    { "coords=[[1]]&height=2&width=2&m=4&sigma=1&seed=1", "height", "one of" },
    { "coords=[[1]]&sigma=1&seed=1", "m", "required" },
    { "coords=[[1]]&m=4&seed=1", "sigma", "required" },
    { "coords=[[1]]&m=4&sigma=1", "seed", "required" },
    { "coords=[[1]]&m=4&sigma=0&seed=1", "sigma", "1e-30" },
    { "coords=[[1]]&m=4&sigma=-1&seed=1", "sigma", "1e-30" },
    { "coords=[[1]]&m=0&sigma=1&seed=1", "m", "1 .." },
    { "coords=[[1]]&m=4&sigma=1&seed=-1", "seed", "0 .." },
    { "coords=[[1]]&m=4&scale=1&sigma=1&seed=1", "scale", "sigma" },
    { "coords=[[1]]&num_pos_feats=4&sigma=1&seed=1", "num_pos_feats", "a grid or points" },
    { "coords=[[1]]&m=4&sigma=1&seed=1&log=true", "log", "timesteps" },
    { "coords=[[1]]&weight=[1]", "weight", "called matrix" },
    { "coords=[[1]]&image_size=3,4&m=4&sigma=1&seed=1", "image_size", "points" },
    { "coords=1&m=4&sigma=1&seed=1", "coords", "[..., in]" },
    { "coords=[[1e101]]&m=4&sigma=1&seed=1", "coords[0][0]", "1e100" },
    { "coords=[[1,2]]&matrix=[[1,2]]", "matrix", "[in, m]" },
    { "coords=[[1,2]]&matrix=[1,2]", "matrix", "[in, m]" },
    { "coords=[[1,2]]&matrix=[[1],[2]]&m=3", "matrix", "[in, m]" },
    { "coords=[[1]]&matrix=[[1e200]]", "matrix[0][0]", "1e100" },
    { "coords=[[1]]&matrix=[[1]]&seed=1", "seed", "drawing" },
    { "coords=[[1]]&matrix=[[1]]&sigma=1", "sigma", "drawing" },
    { "timesteps=0.5,0&weight=[1]", "timesteps[1]", "log=false" },
    { "timesteps=-1&weight=[1]", "timesteps[0]", "log=false" },
    { "timesteps=0.5&matrix=[[1]]", "matrix", "called weight" },
    { "timesteps=0.5&weight=[[1]]", "weight", "[embedding_size]" },
    { "timesteps=0.5&weight=[1]&embedding_size=2", "weight", "[embedding_size]" },
    { "timesteps=0.5&m=4&seed=1&embedding_size=4", "m", "coords" },
    { "timesteps=0.5&embedding_size=4&seed=1&scale=0", "scale", "1e-30" },
    { "height=2&num_pos_feats=4&seed=1", "width", "beside height" },
    { "width=2&num_pos_feats=4&seed=1", "height", "beside width" },
    { "height=0&width=2&num_pos_feats=4&seed=1", "height", "1 .." },
    { "height=2&width=2&matrix=[[1,2]]", "matrix", "[2, num_pos_feats]" },
    { "points=[[1,1]]&num_pos_feats=4&seed=1", "image_size", "beside points" },
    { "points=[[1,1,1]]&image_size=2,2&num_pos_feats=4&seed=1", "points", "[..., 2]" },
    { "points=[[1,1]]&image_size=2&num_pos_feats=4&seed=1", "image_size", "height and width" },
    { "points=[[1,1]]&image_size=2,2.5&num_pos_feats=4&seed=1", "image_size[1]", "whole" },
    { "points=[[1,1]]&image_size=2,0&num_pos_feats=4&seed=1", "image_size[1]", "1 .." },
    { "mode=basic&coords=[[1]]&m=4", "m", "gaussian, positional" },
    { "mode=basic&coords=[[1]]&matrix=[[1]]", "matrix", "gaussian" },
    { "mode=positional&coords=[[1]]&sigma=2", "m", "required" },
    { "mode=positional&coords=[[1]]&m=2", "sigma", "required" },
    { "mode=positional&coords=[[1]]&m=2&sigma=2&seed=1", "seed", "gaussian" },
    { "coords=[[1e16]]&matrix=[[1]]&compute_dtype=float32", "coords[0][0]", "1e15" },
    { "coords=[[1]]&matrix=[[1e16]]&compute_dtype=float32", "matrix[0][0]", "1e15" },
    { "coords=[[1]]&m=2&sigma=1e16&seed=1&compute_dtype=float32", "sigma", "1e15" },
    { "height=2&width=2&num_pos_feats=2&scale=1e16&seed=1", "scale", "1e15" },
    { "points=[[1e16,1]]&image_size=2,2&num_pos_feats=2&seed=1", "points[0][0]", "1e15" },
    { "timesteps=1e16&weight=[1]&compute_dtype=float32", "timesteps[0]", "1e15" },
    { "timesteps=1e-40&weight=[1]&compute_dtype=float32", "timesteps[0]", "1e-37" },
    { "mode=fourier&coords=[[1]]", "mode", "gaussian, basic, positional" },
};

START_TEST(refusals) { refuses("random_fourier", &bad[_i]); }
END_TEST

START_TEST(stops)
{
    expect_stop("random_fourier", "height=512&width=512&num_pos_feats=64&seed=1");
    expect_stop("random_fourier", "coords=[[1,2]]&m=100000&sigma=1&seed=1");
    expect_stop("random_fourier", "mode=positional&coords=[[1,2]]&m=500000&sigma=2");
}
END_TEST

Suite *random_fourier_suite(void);
Suite *random_fourier_suite(void)
{
    Suite *s = suite_create("random_fourier");
    TCase *t = tcase_create("random_fourier");
    tcase_add_test(t, matrix_given);
    tcase_add_test(t, whole_turns);
    tcase_add_test(t, coords_of_any_rank);
    tcase_add_test(t, noise_levels);
    tcase_add_test(t, grid);
    tcase_add_test(t, points);
    tcase_add_test(t, without_matrix);
    tcase_add_loop_test(t, drawing, 0, (int)LEN(drawn));
    tcase_add_test(t, float32_steps);
    tcase_add_test(t, seeds);
    tcase_add_test(t, keys);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
