/* test_shaw_relative_index.c - each variant by hand, the place of the queries, the cache, bad input. */
#include "ask.h"

Suite *shaw_relative_index_suite(void);

static const char name[] = "shaw_relative_index";

START_TEST(tensor2tensor)
{
    posenc_answer a = ask(name, "query_length=4&key_length=4&max_relative_position=2");
    expect(&a, 0, 2, (int64_t[]){ 4, 4 }, (double[]){ 2, 3, 4, 4, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 1, 2 });
    ck_assert(a.result.tensor[0].dtype == PE_int64);
    posenc_answer_fini(&a);
    /* the queries are the last of the keys: positions 2 and 3 of 4 */
    a = ask(name, "query_length=2&key_length=4&max_relative_position=2");
    expect(&a, 0, 2, (int64_t[]){ 2, 4 }, (double[]){ 0, 1, 2, 3, 0, 0, 1, 2 });
    posenc_answer_fini(&a);
    a = ask(name, "query_length=2&key_length=4&max_relative_position=2&past_seen_tokens=0");
    expect(&a, 0, 2, (int64_t[]){ 2, 4 }, (double[]){ 2, 3, 4, 4, 1, 2, 3, 4 });
    posenc_answer_fini(&a);
    a = ask(name, "query_length=2&key_length=2&max_relative_position=0");
    expect(&a, 0, 2, (int64_t[]){ 2, 2 }, (double[]){ 0, 0, 0, 0 });
    posenc_answer_fini(&a);
    expect_same(name, "query_length=2&key_length=4&max_relative_position=2",
                "query_length=2&key_length=4&max_relative_position=2&past_seen_tokens=2");
    expect_same(name, "query_length=4&max_relative_position=2", "query_length=4&key_length=4&max_relative_position=2");
}
END_TEST

/* The last row, whatever query_length is. */
START_TEST(cache)
{
    posenc_answer a = ask(name, "query_length=6&key_length=4&max_relative_position=2&cache=true");
    expect(&a, 0, 2, (int64_t[]){ 1, 4 }, (double[]){ 0, 0, 1, 2 });
    posenc_answer_fini(&a);
    expect_same(name, "key_length=4&max_relative_position=2&cache=true",
                "query_length=1&key_length=4&max_relative_position=2&past_seen_tokens=3");
    a = ask(name, "key_length=4&variant=bert_relative_key&max_position_embeddings=4&cache=true");
    expect(&a, 0, 2, (int64_t[]){ 1, 4 }, (double[]){ 6, 5, 4, 3 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(variants)
{
    posenc_answer a = ask(name, "variant=speecht5&query_length=4&max_length=2");
    expect(&a, 0, 2, (int64_t[]){ 4, 4 }, (double[]){ 2, 1, 0, 0, 3, 2, 1, 0, 3, 3, 2, 1, 3, 3, 3, 2 });
    posenc_answer_fini(&a);
    a = ask(name, "variant=wav2vec2_bert&query_length=4&left_max_position_embeddings=2&right_max_position_embeddings=1");
    expect(&a, 0, 2, (int64_t[]){ 4, 4 }, (double[]){ 2, 3, 3, 3, 1, 2, 3, 3, 0, 1, 2, 3, 0, 0, 1, 2 });
    posenc_answer_fini(&a);
    a = ask(name, "variant=bert_relative_key&query_length=3&key_length=4&max_position_embeddings=5");
    expect(&a, 0, 2, (int64_t[]){ 3, 4 }, (double[]){ 4, 3, 2, 1, 5, 4, 3, 2, 6, 5, 4, 3 });
    posenc_answer_fini(&a);
}
END_TEST

/* Listed distances are in the order of the variant: query - key where it has that. */
START_TEST(lists)
{
    posenc_answer a = ask(name, "relative_position=-9007199254740992,-2,0,1,9&max_relative_position=3"),
                  b = ask(name, "relative_position=-9,-2,0,1,9&variant=speecht5&max_length=3"),
                  c = ask(name, "relative_position=-2,0,2&variant=bert_relative_key&max_position_embeddings=3");
    expect(&a, 0, 1, (int64_t[]){ 5 }, (double[]){ 0, 1, 3, 4, 6 });
    expect(&b, 0, 1, (int64_t[]){ 5 }, (double[]){ 0, 1, 3, 4, 5 });
    expect(&c, 0, 1, (int64_t[]){ 3 }, (double[]){ 0, 2, 4 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

#define BERT "variant=bert_relative_key&max_position_embeddings=4&"

static const refusal bad[] = {
    { "query_length=4", "max_relative_position", 0 },
    { "max_relative_position=2", "query_length", 0 },
    { "query_length=4&max_relative_position=-1", "max_relative_position", 0 },
    { "query_length=5&key_length=4&max_relative_position=2", "query_length", 0 },
    { "query_length=4&max_length=4&max_relative_position=2", "max_length", 0 },
    { "query_length=4&variant=speecht5", "max_length", 0 },
    { "query_length=4&variant=speecht5&max_length=0", "max_length", 0 },
    { "query_length=4&variant=speecht5&max_relative_position=2", "max_relative_position max_length", 0 },
    { "query_length=4&variant=wav2vec2_bert", "left_max_position_embeddings right_max_position_embeddings", 0 },
    { "query_length=5&" BERT, "max_position_embeddings", 0 },
    { "query_length=1&key_length=5&" BERT, "max_position_embeddings", 0 },
    { "query_length=1&past_seen_tokens=4&key_length=1&" BERT, "max_position_embeddings", 0 },
    { "relative_position=3,-4&" BERT, "relative_position[1]", 0 },
    { "relative_position=1&cache=true&max_relative_position=2", "cache", 0 },
    { "cache=true&query_length=3&max_relative_position=2", "key_length", 0 },
    { "cache=true&key_length=0&max_relative_position=2", "key_length", 0 },
    { "cache=true&key_length=3&past_seen_tokens=2&max_relative_position=2", "past_seen_tokens", 0 },
    { "relative_position=1.5&max_relative_position=2", "relative_position[0]", 0 },
    { "query_length=4&variant=t5&max_relative_position=2", "variant", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

/* The largest that BERT's table has rows for. */
START_TEST(last_row)
{
    posenc_answer a = ask(name, "query_length=4&" BERT), b = ask(name, "query_length=0&key_length=9&" BERT);
    ck_assert(nth(&a, 0, 3) == 0 && nth(&a, 0, 12) == 6);
    expect(&b, 0, 2, (int64_t[]){ 0, 9 }, NULL);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

Suite *shaw_relative_index_suite(void)
{
    Suite *s = suite_create("shaw_relative_index");
    TCase *t = tcase_create("shaw_relative_index");
    tcase_add_test(t, tensor2tensor);
    tcase_add_test(t, cache);
    tcase_add_test(t, variants);
    tcase_add_test(t, lists);
    tcase_add_test(t, last_row);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
