/* test_no_rope_layers.c - the pattern of SmolLM3 and Llama 4, given patterns, bad input. */
#include "ask.h"

Suite *no_rope_layers_suite(void);

static const struct {
    const char *query, *want;
} patterns[] = {
    { "num_hidden_layers=10", "1110111011" },
    { "num_hidden_layers=10&no_rope_layer_interval=4", "1110111011" },
    { "num_hidden_layers=7&no_rope_layer_interval=2", "1010101" },
    { "num_hidden_layers=3&no_rope_layer_interval=1", "000" },
    { "num_hidden_layers=3&no_rope_layer_interval=9", "111" },
    { "num_hidden_layers=4&no_rope_layers=0,1,1,0", "0110" },
    { "num_hidden_layers=2&no_rope_layers=0,1,1,0", "01" },
    { "no_rope_layers=1,0,0", "100" },
};

START_TEST(pattern)
{
    posenc_answer a;
    ck_assert_int_eq(posenc_encode("no_rope_layers", patterns[_i].query, NULL, &a, NULL, NULL), PE_OK);
    const posenc_tensor *t = &a.result.tensor[0];
    ck_assert_int_eq(t->dtype, PE_int64);
    ck_assert_int_eq(t->shape[0], (int64_t)strlen(patterns[_i].want));
    for (int64_t i = 0; i < t->shape[0]; i++)
        ck_assert_msg(((const int64_t *)t->data)[i] == patterns[_i].want[i] - '0', "%s: [%d]", patterns[_i].query, (int)i);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "", "num_hidden_layers" },
    { "num_hidden_layers=0", "num_hidden_layers" },
    { "num_hidden_layers=4&no_rope_layer_interval=0", "no_rope_layer_interval" },
    { "num_hidden_layers=4&no_rope_layers=1,0,1", "no_rope_layers" },
    { "num_hidden_layers=4&no_rope_layers=1,0,2,0", "no_rope_layers[2]" },
    { "num_hidden_layers=4&no_rope_layers=1,0.5,1,0", "no_rope_layers[1]" },
    { "num_hidden_layers=4&no_rope_layers=1,0,1,0&no_rope_layer_interval=4", "no_rope_layer_interval" },
};

START_TEST(bad_input) { refuses("no_rope_layers", &bad[_i]); }
END_TEST

Suite *no_rope_layers_suite(void)
{
    Suite *s = suite_create("no_rope_layers");
    TCase *t = tcase_create("no_rope_layers");
    tcase_add_loop_test(t, pattern, 0, (int)LEN(patterns));
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
