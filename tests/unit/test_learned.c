/* test_learned.c - which row each position reads, tables that are too short, dtypes, bad input. */
#include "ask.h"

#define TABLE "table=[[0,0.5],[1,1.5],[2,2.5],[3,3.5],[4,4.5],[5,5.5],[6,6.5]]"

/* What each source reads; rows of TABLE begin with their number. */
static const struct {
    const char *query;
    int rank, n;
    int want[12];
} cases[] = {
    { "num_positions=4", 1, 4, { 0, 1, 2, 3 } },
    { "num_positions=7", 1, 7, { 0, 1, 2, 3, 4, 5, 6 } },
    { "num_positions=3&offset=2", 1, 3, { 2, 3, 4 } }, /* BART: arange + 2 */
    { "num_positions=0", 1, 0, { 0 } },
    { "positions=6,0,0,3", 1, 4, { 6, 0, 0, 3 } },
    { "input_ids=[[5,6,7,8,1,1]]&padding_idx=1", 2, 6, { 2, 3, 4, 5, 1, 1 } }, /* RoBERTa */
    { "input_ids=[5,6,7,8,1,1]&padding_idx=1", 1, 6, { 2, 3, 4, 5, 1, 1 } },
    { "input_ids=[[5,1,7],[1,1,9]]&padding_idx=1", 2, 6, { 2, 1, 3, 1, 1, 2 } }, /* padding inside and first */
    { "input_ids=[[5,0,7],[0,0,9]]&padding_idx=0", 2, 6, { 1, 0, 2, 0, 0, 1 } }, /* another id shifts all */
    { "input_ids=[[5,1,7]]", 2, 3, { 0, 1, 2 } },
    { "input_ids=[[5,1,7]]&num_positions=7", 2, 3, { 0, 1, 2 } },
    { "attention_mask=[[0,0,1,1,1],[1,1,1,1,1]]", 2, 10, { 1, 1, 0, 1, 2, 0, 1, 2, 3, 4 } }, /* GPT-2, padding left */
    { "attention_mask=[[1,1,0,0]]&padding_idx=1", 2, 4, { 2, 3, 1, 1 } },                    /* OPT */
    { "input_ids=[[5,6,1]]&padding_idx=1&past_key_values_length=3", 2, 3, { 5, 6, 1 } },     /* M2M100 */
};

START_TEST(rows_read)
{
    char query[300], text[500];
    posenc_answer a;
    posenc_error err = { 0 };
    snprintf(query, sizeof query, TABLE "&%s", cases[_i].query);
    ck_assert_msg(!posenc_encode("learned", query, NULL, &a, NULL, &err), "%s", posenc_error_text(&err, text, sizeof text));
    const posenc_tensor *t = a.result.tensor;
    const bool tokens = strstr(query, "input_ids") || strstr(query, "attention_mask");
    ck_assert_str_eq(t->name, "embedding");
    ck_assert(t->rank == cases[_i].rank + 1 && t->shape[t->rank - 1] == 2);
    ck_assert_int_eq(posenc_tensor_count(t), 2 * cases[_i].n);
    ck_assert_int_eq(a.result.ntensors, tokens ? 2 : 1);
    for (int i = 0; i < cases[_i].n; i++) {
        ck_assert_msg(posenc_tensor_get(t, 2 * i) == cases[_i].want[i], "%s: place %d reads row %g", query, i,
                      posenc_tensor_get(t, 2 * i));
        ck_assert(posenc_tensor_get(t, 2 * i + 1) == cases[_i].want[i] + 0.5);
        ck_assert(!tokens || ((const int64_t *)t[1].data)[i] == cases[_i].want[i]);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(dtypes)
{
    static const struct {
        const char *dtype;
        double want;
    } each[] = { { "float32", 0x1.99999ap-4 }, { "float64", 0.1 }, { "float16", 0x1.998p-4 }, { "bfloat16", 0x1.9ap-4 } };
    char query[100];
    posenc_answer a;
    snprintf(query, sizeof query, "table=[[0.1],[65504]]&num_positions=2&dtype=%s", each[_i].dtype);
    ck_assert_int_eq(posenc_encode("learned", query, NULL, &a, NULL, NULL), PE_OK);
    ck_assert(posenc_tensor_get(&a.result.tensor[0], 0) == each[_i].want);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "num_positions=4", "table", "required" },
    { TABLE, "num_positions", "one of" },
    { TABLE "&num_positions=8", "table", "at least 8 rows" },
    { TABLE "&num_positions=6&offset=2", "table", "at least 8 rows" },
    { TABLE "&num_positions=2&offset=-1", "offset", "0 or more" },
    { TABLE "&positions=0,7,9,2", "table", "at least 10 rows" },
    { TABLE "&positions=0,1.5", "positions[1]", "a row of table" },
    { TABLE "&positions=0,1,-1", "positions[2]", "a row of table" },
    { TABLE "&positions=1&num_positions=2", "positions", "one of" },
    { TABLE "&input_ids=[[5,6,7,8,9,2]]&padding_idx=1", "table", "at least 8 rows" },
    { TABLE "&input_ids=[[7,7]]&padding_idx=7", "table", "at least 8 rows" },
    { TABLE "&input_ids=[[5,6]]&padding_idx=1&past_key_values_length=4", "table", "at least 8 rows" },
    { TABLE "&input_ids=[[5,6,7]]&num_positions=2", "num_positions", "at least 3 rows" },
    { TABLE "&input_ids=[[5,6,7]]&num_positions=8", "num_positions", "at most 7" },
    { TABLE "&input_ids=[[5.5]]", "input_ids[0][0]", "integer" },
    { TABLE "&attention_mask=[[2]]", "attention_mask[0][0]", "0 or 1" },
    { TABLE "&input_ids=[[5,6]]&attention_mask=[[1]]", "attention_mask", "shape" },
    { TABLE "&num_positions=4&padding_idx=1", "padding_idx", "absent, or" },
    { TABLE "&num_positions=4&past_key_values_length=1", "past_key_values_length", "0" },
    { "table=[1,2]&num_positions=2", "table", "[L, D]" },
    { "table=[[65505]]&num_positions=1&dtype=float16", "table[0][0]", "at most 65504" },
};

START_TEST(bad_input) { refuses("learned", &bad[_i]); }
END_TEST

Suite *learned_suite(void);
Suite *learned_suite(void)
{
    Suite *s = suite_create("learned");
    TCase *t = tcase_create("learned");
    tcase_add_loop_test(t, rows_read, 0, (int)LEN(cases));
    tcase_add_loop_test(t, dtypes, 0, 4);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
