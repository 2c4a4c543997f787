/* test_attention_temperature.c - steps of each form, at and around their edges. */
#include "ask.h"

#include <math.h>

Suite *attention_temperature_suite(void);

static posenc_answer answer_of(const char *query) { return ask("attention_temperature", query); }

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
    ck_assert_int_eq(posenc_tensor_count(tensor_of(&a, "scale")), cases[_i].n);
    for (int64_t i = 0; i < cases[_i].n; i++)
        ck_assert_msg(fabs(named(&a, "scale", i) / cases[_i].want[i] - 1) < 1e-8, "%s: [%d] is %.17g, want %.17g", query,
                      (int)i, named(&a, "scale", i), cases[_i].want[i]);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(tokens)
{
    posenc_answer a = answer_of("form=llama4&floor_scale=2&input_ids=[[9,9,9],[9,9,9]]");
    ck_assert(tensor_of(&a, "scale")->rank == 2 && tensor_of(&a, "positions")->dtype == PE_int64);
    ck_assert(named(&a, "scale", 0) == 1 && named(&a, "scale", 3) == 1 && named(&a, "scale", 1) > 1.06);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
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

START_TEST(bad_input) { refuses("attention_temperature", &bad[_i]); }
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
