/* test_position_ids.c - each family's convention on its own example, past tokens, the size of the table, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("position_ids", query); }

static const struct {
    const char *query;
    int rank, n, ids[12], row[12];
} cases[] = {
    /* the first real token is padding_idx + 1, padding is padding_idx: 514 rows for 512 tokens */
    { "variant=roberta&input_ids=[5,6,7,8,1,1]", 1, 6, { 2, 3, 4, 5, 1, 1 }, { 2, 3, 4, 5, 1, 1 } },
    { "variant=roberta&input_ids=[[5,6,7,8,1,1],[1,1,0,2,1,3]]&num_positions=6",
      2,
      12,
      { 2, 3, 4, 5, 1, 1, 1, 1, 2, 3, 1, 4 },
      { 2, 3, 4, 5, 1, 1, 1, 1, 2, 3, 1, 4 } },
    /* XLNet-like padding 5, and GPT-like padding 0, shift everything */
    { "variant=roberta&input_ids=[5,9,9]&padding_idx=5", 1, 3, { 5, 6, 7 }, { 5, 6, 7 } },
    { "variant=roberta&input_ids=[0,9,9]&padding_idx=0", 1, 3, { 0, 1, 2 }, { 0, 1, 2 } },
    /* past tokens count before masking: padding stays at padding_idx */
    { "variant=m2m100&input_ids=[7,1,8]&past_key_values_length=10", 1, 3, { 12, 1, 13 }, { 12, 1, 13 } },
    /* OPT: padding reads row 1, on either side */
    { "variant=opt&attention_mask=[[0,0,1,1,1],[1,1,1,0,0]]",
      2,
      10,
      { -1, -1, 0, 1, 2, 0, 1, 2, -1, -1 },
      { 1, 1, 2, 3, 4, 2, 3, 4, 1, 1 } },
    { "variant=opt&attention_mask=[[0,1,1,1],[1,1,1,1]]&past_key_values_length=3", 2, 2, { 2, 3 }, { 4, 5 } },
    { "variant=bart&seq_length=3", 1, 3, { 0, 1, 2 }, { 2, 3, 4 } },
    { "variant=bart&seq_length=2&past_key_values_length=7&offset=0", 1, 2, { 7, 8 }, { 7, 8 } },
    /* left padding: the first real token is 0 */
    { "variant=gpt2&attention_mask=[[0,0,1,1],[1,1,1,1]]", 2, 8, { 1, 1, 0, 1, 0, 1, 2, 3 }, { 1, 1, 0, 1, 0, 1, 2, 3 } },
    { "variant=gpt2&attention_mask=[0,0,1,1]&pad_position_value=-1", 1, 4, { -1, -1, 0, 1 }, { -1, -1, 0, 1 } },
    { "variant=gpt2&attention_mask=[0,0,1,1,1]&past_key_values_length=4", 1, 1, { 2 }, { 2 } },
    { "variant=gpt2&seq_length=2&past_key_values_length=5", 1, 2, { 5, 6 }, { 5, 6 } },
    { "variant=gpt2&attention_mask=[1,0]&past_key_values_length=2", 1, 0, { 0 }, { 0 } },
    { "variant=roberta&input_ids=[[],[]]", 2, 0, { 0 }, { 0 } },
    { "variant=bart&seq_length=0", 1, 0, { 0 }, { 0 } },
};

START_TEST(conventions)
{
    posenc_answer a = answer_of(cases[_i].query);
    const posenc_tensor *t = a.result.tensor;
    ck_assert_int_eq(a.result.ntensors, 2);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(t[k].dtype, PE_int64);
        ck_assert_int_eq(t[k].rank, cases[_i].rank);
        ck_assert_int_eq(posenc_tensor_count(&t[k]), cases[_i].n);
    }
    for (int i = 0; i < cases[_i].n; i++) {
        ck_assert_int_eq(((const int64_t *)t[0].data)[i], cases[_i].ids[i]);
        ck_assert_int_eq(((const int64_t *)t[1].data)[i], cases[_i].row[i]);
    }
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "input_ids=[1]", "variant", "required" },
    { "variant=bert&input_ids=[1]", "variant", "one of" },
    { "variant=roberta", "input_ids", "required" },
    { "variant=opt", "attention_mask", "required" },
    { "variant=bart", "seq_length", "required" },
    { "variant=gpt2", "seq_length", "attention_mask" },
    { "variant=gpt2&seq_length=2&attention_mask=[1,1]", "seq_length", "either" },
    { "variant=roberta&input_ids=[1]&attention_mask=[1]", "attention_mask", "variant" },
    { "variant=roberta&input_ids=[1]&offset=2", "offset", "variant" },
    { "variant=opt&attention_mask=[1]&padding_idx=1", "padding_idx", "variant" },
    { "variant=bart&seq_length=3&pad_position_value=0", "pad_position_value", "variant" },
    { "variant=roberta&input_ids=[1.5]", "input_ids[0]", "integer" },
    { "variant=roberta&input_ids=[[[1]]]", "input_ids", "[B, L]" },
    { "variant=opt&attention_mask=[[1,0],[1,3]]", "attention_mask[1][1]", "0 or 1" },
    { "variant=opt&attention_mask=[1,0]&past_key_values_length=3", "past_key_values_length", "at most 2" },
    { "variant=roberta&input_ids=[5,6,7]&padding_idx=-1", "padding_idx", "integer" },
    /* three tokens and padding 3 need rows 0 .. 6 */
    { "variant=roberta&input_ids=[5,6,7]&padding_idx=3&num_positions=5", "num_positions", "at least 7 rows" },
    { "variant=bart&seq_length=1025&num_positions=1026", "num_positions", "at least 1027 rows" },
    { "variant=gpt2&attention_mask=[0,1,1]&num_positions=1", "num_positions", "at least 2 rows" },
};

START_TEST(bad_input) { refuses("position_ids", &bad[_i]); }
END_TEST

Suite *position_ids_suite(void);
Suite *position_ids_suite(void)
{
    Suite *s = suite_create("position_ids");
    TCase *t = tcase_create("position_ids");
    tcase_add_loop_test(t, conventions, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
