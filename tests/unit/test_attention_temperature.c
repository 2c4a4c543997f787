/* test_attention_temperature.c - steps of each form, at and around their edges. */
#include "posenc.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

Suite *attention_temperature_suite(void);

#define LEN(a) (sizeof(a) / sizeof(a)[0])

static posenc_answer answer_of(const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[900];
    ck_assert_msg(posenc_encode("attention_temperature", query, NULL, &a, NULL, &err) == PE_OK, "%s: %s", query,
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

static const posenc_tensor *tensor(const posenc_answer *a, const char *name)
{
    for (int i = 0; i < a->result.ntensors; i++)
        if (!strcmp(a->result.tensor[i].name, name))
            return &a->result.tensor[i];
    return NULL;
}

static double element(const posenc_answer *a, const char *name, int64_t i)
{
    const posenc_tensor *t = tensor(a, name);
    ck_assert_msg(t && i < posenc_tensor_count(t), "no %s[%d]", name, (int)i);
    return posenc_tensor_get(t, i);
}

static const struct {
    const char *query;
    int64_t n;
    double want[6];
} cases[] = {
    { "original_max_position_embeddings=8192&positions=0,8191,8192,16383,16384,1000000",
      6,
      { 1, 1, 1.0693147180559946, 1.0693147180559946, 1.109861228866811, 1.4812184355372417 } },
    { "original_max_position_embeddings=4096&llama_4_scaling_beta=0&positions=0,1e9", 2, { 1, 1 } },
    { "form=llama4&positions=0,8190,8191,16382,16383",
      5,
      { 1, 1, 1.0693147180559946, 1.0693147180559946, 1.109861228866811 } },
    { "form=llama4&floor_scale=10&attn_scale=2&positions=8,8.5,9,19", 4, { 1, 1, 2.386294361119891, 3.1972245773362196 } },
    { "form=logn&original_max_position_embeddings=2048&positions=0,2046,2047,2048,4095,65535",
      6,
      { 1, 1, 1, 1.0000640266, 12.0 / 11, 16.0 / 11 } },
    /* float64 rounds the sum with 1 up to 2: the step is still the first */
    { "form=llama4&floor_scale=1&attn_scale=1&positions=0.99999999999999989,1",
      2,
      { 1.6931471805599454, 2.0986122886681098 } },
    { "original_max_position_embeddings=4&input_ids=[[9,9,9]]&past_key_values_length=2", 3, { 1, 1, 1.0693147180559946 } },
    { "original_max_position_embeddings=4&num_positions=2&offset=3", 2, { 1, 1.0693147180559946 } },
};

START_TEST(values)
{
    char query[300];
    snprintf(query, sizeof query, "%s&dtype=float64", cases[_i].query);
    posenc_answer a = answer_of(query);
    ck_assert_int_eq(posenc_tensor_count(tensor(&a, "scale")), cases[_i].n);
    for (int64_t i = 0; i < cases[_i].n; i++)
        ck_assert_msg(fabs(element(&a, "scale", i) / cases[_i].want[i] - 1) < 1e-8, "%s: [%d] is %.17g, want %.17g", query,
                      (int)i, element(&a, "scale", i), cases[_i].want[i]);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(tokens)
{
    posenc_answer a = answer_of("form=llama4&floor_scale=2&input_ids=[[9,9,9],[9,9,9]]");
    ck_assert(tensor(&a, "scale")->rank == 2 && tensor(&a, "positions")->dtype == PE_int64);
    ck_assert(element(&a, "scale", 0) == 1 && element(&a, "scale", 3) == 1 && element(&a, "scale", 1) > 1.06);
    posenc_answer_fini(&a);
}
END_TEST

static const struct {
    const char *query, *field;
} bad[] = {
    { "positions=1", "original_max_position_embeddings" },
    { "form=logn&positions=1", "original_max_position_embeddings" },
    { "original_max_position_embeddings=8192", "num_positions" },
    { "original_max_position_embeddings=1&positions=1", "original_max_position_embeddings" },
    { "original_max_position_embeddings=8&positions=3,-1", "positions[1]" },
    { "original_max_position_embeddings=8&num_positions=3&offset=-1", "offset" },
    { "original_max_position_embeddings=8&positions=3&floor_scale=7", "floor_scale" },
    { "form=llama4&positions=3&llama_4_scaling_beta=7", "llama_4_scaling_beta" },
    { "form=llama4&positions=3&floor_scale=0", "floor_scale" },
    { "form=llama5&positions=3&original_max_position_embeddings=8", "form" },
};

START_TEST(bad_input)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[900];
    ck_assert_msg(posenc_encode("attention_temperature", bad[_i].query, NULL, &a, NULL, &err) == PE_INVALID, "%s is taken",
                  bad[_i].query);
    ck_assert_msg(err.n == 1 && !strcmp(err.fault[0].field, bad[_i].field), "%s: %s", bad[_i].query,
                  posenc_error_text(&err, text, sizeof text));
}
END_TEST

Suite *attention_temperature_suite(void)
{
    Suite *s = suite_create("attention_temperature");
    TCase *t = tcase_create("attention_temperature");
    tcase_add_loop_test(t, values, 0, (int)LEN(cases));
    tcase_add_test(t, tokens);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
