/* test_timestep.c - the columns, the two conventions in use, float32 step by step, widths that have no ladder. */
#include "ask.h"

#include <math.h>

static const struct {
    const char *query;
    int64_t d;
    bool flip;
    double n, scale, base;
} cases[] = {
    { "embedding_dim=8", 8, false, 3, 1, 10000 },
    { "embedding_dim=8&flip_sin_to_cos=true&downscale_freq_shift=0", 8, true, 4, 1, 10000 },
    { "embedding_dim=8&downscale_freq_shift=0.5&scale=-3", 8, false, 3.5, -3, 10000 },
    { "embedding_dim=8&max_period=100", 8, false, 3, 1, 100 },
    { "embedding_dim=8&max_period=0.25", 8, false, 3, 1, 0.25 },
    { "embedding_dim=7&downscale_freq_shift=0&flip_sin_to_cos=true", 7, true, 3, 1, 10000 },
    { "embedding_dim=7&downscale_freq_shift=-1", 7, false, 4, 1, 10000 },
    { "embedding_dim=5", 5, false, 1, 1, 10000 },
    { "embedding_dim=2&downscale_freq_shift=0", 2, false, 1, 1, 10000 },
    { "embedding_dim=1", 1, false, 1, 1, 10000 },
};

START_TEST(columns)
{
    static const double steps[] = { 0, 1, -0.5, 250, 999.25 };
    char query[200];
    snprintf(query, sizeof query, "%s&timesteps=0,1,-0.5,250,999.25&dtype=float64", cases[_i].query);
    posenc_answer a = ask("timestep", query);
    const int64_t d = cases[_i].d, h = d / 2;
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 5, d });
    for (int64_t r = 0; r < 5; r++)
        for (int64_t k = 0; k < d; k++) {
            const bool sine = (k < h) != cases[_i].flip;
            const double w = pow(cases[_i].base, -(double)(k % (h ? h : 1)) / cases[_i].n);
            const double angle = steps[r] * cases[_i].scale * w, want = k == 2 * h ? 0 : sine ? sin(angle) : cos(angle);
            ck_assert_msg(fabs(at(&a, r * d + k) - want) <= 1e-15 + 4e-16 * fabs(angle), "%s: row %d column %d", query,
                          (int)r, (int)k);
            if (r == 0)
                ck_assert(at(&a, k) == (k == 2 * h || sine ? 0 : 1));
        }
    posenc_answer_fini(&a);
}
END_TEST

/* The commonest mistake of a port: the shift of the other convention moves every channel but the first. */
START_TEST(two_conventions)
{
    posenc_answer ddpm = ask("timestep", "timesteps=500&embedding_dim=320"),
                  sd = ask("timestep", "timesteps=500&embedding_dim=320&flip_sin_to_cos=true&downscale_freq_shift=0"),
                  port = ask("timestep", "timesteps=500&embedding_dim=320&flip_sin_to_cos=true");
    int moved = 0;
    for (int64_t k = 0; k < 160; k++) {
        ck_assert(at(&ddpm, k) == at(&port, 160 + k));
        moved += at(&sd, k) != at(&port, k);
    }
    ck_assert(at(&sd, 0) == at(&port, 0) && moved > 150);
    posenc_answer_fini(&ddpm);
    posenc_answer_fini(&sd);
    posenc_answer_fini(&port);
}
END_TEST

START_TEST(as_sinusoidal)
{
    posenc_answer a = ask("timestep", "timesteps=0,7,999.5,-3&embedding_dim=33&downscale_freq_shift=0&dtype=float64"),
                  b = ask("sinusoidal",
                          "positions=0,7,999.5,-3&embedding_dim=33&layout=split&odd_dim=zero_pad&dtype=float64");
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 4 * 33 * 8);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(scaled_times)
{
    posenc_answer a = ask("timestep", "timesteps=0.5,0.25&embedding_dim=64&scale=1000"),
                  b = ask("timestep", "timesteps=500,250&embedding_dim=64");
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 2 * 64 * 4);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* get_timestep_embedding in float32, one operation at a time. */
START_TEST(float32_steps)
{
    static const float steps[] = { 999, 16777216, 0.1f };
    posenc_answer a = ask("timestep",
                          "timesteps=999,16777217,0.1&embedding_dim=64&scale=3&compute_dtype=float32&dtype=float64");
    posenc_answer exact = ask("timestep", "timesteps=999,16777217,0.1&embedding_dim=64&scale=3&dtype=float64");
    int differ = 0;
    for (int64_t r = 0; r < 3; r++)
        for (int64_t i = 0; i < 32; i++) {
            float exponent = (float)-log(10000) * (float)i;
            exponent = exponent / 31.0f;
            float product = steps[r] * (float)exp((double)exponent), angle = 3.0f * product;
            ck_assert(at(&a, r * 64 + i) == (double)(float)sin((double)angle));
            ck_assert(at(&a, r * 64 + 32 + i) == (double)(float)cos((double)angle));
            differ += fabs(at(&a, r * 64 + i) - at(&exact, r * 64 + i)) > 1e-5;
        }
    ck_assert_int_gt(differ, 10); /* the convention shows */
    posenc_answer_fini(&a);
    posenc_answer_fini(&exact);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = ask_json("timestep", "{\"timesteps\": [], \"embedding_dim\": 6}");
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 0, 6 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(dtypes)
{
    posenc_answer a = ask("timestep", "timesteps=0.5&embedding_dim=2&downscale_freq_shift=0&dtype=float16"),
                  b = ask("timestep", "timesteps=0.5&embedding_dim=2&downscale_freq_shift=0&dtype=bfloat16");
    ck_assert_uint_eq(((uint16_t *)a.result.tensor[0].data)[0], 0x37ac); /* 0.479425... in 11 bits */
    ck_assert_uint_eq(((uint16_t *)b.result.tensor[0].data)[0], 0x3ef5);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(presets) /* those of sinusoidal; a preset leaves no trace, and what is given wins */
{
    expect_same("timestep", "timesteps=1,2&embedding_dim=8&preset=ddpm",
                "timesteps=1,2&embedding_dim=8&compute_dtype=float32");
    expect_same("timestep", "timesteps=1,2&embedding_dim=8&preset=stable_diffusion",
                "timesteps=1,2&embedding_dim=8&flip_sin_to_cos=true&downscale_freq_shift=0&compute_dtype=float32");
    expect_same("timestep",
                "timesteps=1,2&embedding_dim=8&preset=stable_diffusion&compute_dtype=float64&flip_sin_to_cos=false",
                "timesteps=1,2&embedding_dim=8&downscale_freq_shift=0");
    static const char *const words[] = { "ddpm", "stable_diffusion" };
    for (size_t i = 0; i < LEN(words); i++) {
        posenc_answer a = ask("timestep", posenc_text("timesteps=0,1,37&embedding_dim=8&preset=%s", words[i]).s),
                      b = ask("sinusoidal", posenc_text("positions=0,1,37&embedding_dim=8&preset=%s", words[i]).s);
        ck_assert_mem_eq(tensor_of(&a, "embedding")->data, tensor_of(&b, "table")->data, 3 * 8 * sizeof(float));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

START_TEST(keys)
{
    expect_key("timestep", "timesteps=0,0.1,999&embedding_dim=7&compute_dtype=float32&flip_sin_to_cos=true");
    expect_same("timestep", "timesteps=1,2&embedding_dim=8", "timesteps=1,2.0&embedding_dim=8&scale=1&max_period=1e4");
}
END_TEST

static const refusal bad[] = {
    { "timesteps=1", "embedding_dim", "required" },
    { "embedding_dim=8", "timesteps", "required" },
    { "timesteps=1&embedding_dim=0", "embedding_dim", "1 .. 1048576" },
    { "timesteps=1,nan&embedding_dim=8", "timesteps[1]", "finite" },
    { "timesteps=1,2,1e300&embedding_dim=8", "timesteps[2]", "finite" },
    { "timesteps=1&embedding_dim=2", "downscale_freq_shift", "below half the width, 1" }, /* diffusers: NaN */
    { "timesteps=1&embedding_dim=3", "downscale_freq_shift", "below half the width, 1" },
    { "timesteps=1&embedding_dim=8&downscale_freq_shift=4", "downscale_freq_shift", "below half the width, 4" },
    { "timesteps=1&embedding_dim=8&max_period=0", "max_period", "finite number" },
    { "timesteps=1&embedding_dim=8&max_period=1e-90&downscale_freq_shift=3.5", "max_period", "2^900" },
    { "timesteps=1&embedding_dim=8&scale=1e60&compute_dtype=float32", "scale", "2^120" },
    { "timesteps=1&embedding_dim=8&max_period=1e50&compute_dtype=float32", "max_period", "1e-36" },
    { "timesteps=1&embedding_dim=8&layout=split", "layout", "" },
    { "timesteps=1&embedding_dim=8&compute_dtype=float16", "compute_dtype", "float64, float32" },
};

START_TEST(refusals) { refuses("timestep", &bad[_i]); }
END_TEST

START_TEST(stops)
{
    char query[20000] = "embedding_dim=65536&timesteps=0";
    for (size_t n = strlen(query), i = 0; i < 400; i++)
        n += (size_t)snprintf(query + n, sizeof query - n, ",%zu", i);
    expect_stop("timestep", query);
}
END_TEST

Suite *timestep_suite(void);
Suite *timestep_suite(void)
{
    Suite *s = suite_create("timestep");
    TCase *t = tcase_create("timestep");
    tcase_add_loop_test(t, columns, 0, (int)LEN(cases));
    tcase_add_test(t, two_conventions);
    tcase_add_test(t, as_sinusoidal);
    tcase_add_test(t, scaled_times);
    tcase_add_test(t, float32_steps);
    tcase_add_test(t, empty);
    tcase_add_test(t, dtypes);
    tcase_add_test(t, presets);
    tcase_add_test(t, keys);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
