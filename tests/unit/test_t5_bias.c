/* test_t5_bias.c - a table whose numbers name their place, dtypes, both forms of input, bad input. */
#include "ask.h"

Suite *t5_bias_suite(void);

static const char name[] = "t5_bias";
#define TABLE "num_buckets=4&max_distance=4&table=[[0,100,200],[1,101,201],[2,102,202],[3,103,203]]"

START_TEST(gathers)
{
    posenc_answer a = ask(name, "query_length=2&key_length=7&past_seen_tokens=5&bidirectional=false&" TABLE);
    /* distances 5 .. -1, then 6 .. 0: buckets of 0 1 2 3 4 5 6 are 0 1 2 3 3 3 3 (2 sqrt(2) < 3) */
    static const double row[2][7] = { { 3, 3, 3, 2, 1, 0, 0 }, { 3, 3, 3, 3, 2, 1, 0 } };
    double want[3 * 14];
    for (int h = 0; h < 3; h++)
        for (int i = 0; i < 14; i++)
            want[14 * h + i] = 100 * h + row[i / 7][i % 7];
    expect(&a, 0, 3, (int64_t[]){ 3, 2, 7 }, want);
    ck_assert(a.result.tensor[0].dtype == PE_float32);
    posenc_answer_fini(&a);
}
END_TEST

/* bias[h, ...] is table[bucket[...], h], for every width of element and both forms. */
START_TEST(as_the_buckets)
{
    static const char *const dtypes[] = { "float64", "float32", "float16", "bfloat16" }, *const forms[] = {
        "query_length=9&key_length=14&past_seen_tokens=3", "relative_position=-9,-3,0,1,2,3,4,5,100,-100"
    };
    char query[400];
    for (int f = 0; f < 2; f++) {
        snprintf(query, sizeof query, "%s&num_buckets=4&max_distance=4", forms[f]);
        posenc_answer b = ask("t5_bucket", query);
        const posenc_tensor *bucket = &b.result.tensor[0];
        snprintf(query, sizeof query, "%s&dtype=%s&%s", forms[f], dtypes[_i], TABLE);
        posenc_answer a = ask(name, query);
        const posenc_tensor *bias = &a.result.tensor[0];
        const int64_t n = posenc_tensor_count(bucket);
        ck_assert_int_eq(bias->rank, bucket->rank + 1);
        ck_assert_int_eq(bias->shape[0], 3);
        ck_assert_int_eq(posenc_tensor_count(bias), 3 * n);
        for (int64_t i = 0; i < 3 * n; i++)
            ck_assert(posenc_tensor_get(bias, i) == 100 * (double)(i / n) + posenc_tensor_get(bucket, i % n));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

START_TEST(rounds_once)
{
    posenc_answer a = ask(name, "relative_position=0,-1&bidirectional=false&num_buckets=2&max_distance=2&dtype=bfloat16&"
                                "table=[[257.0000001],[0.1]]"); /* 257 is a tie in bfloat16, 257.0000001 is over it */
    expect(&a, 0, 2, (int64_t[]){ 1, 2 }, (double[]){ 258, 0.10009765625 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(nothing)
{
    posenc_answer a = ask(name, "query_length=0&key_length=6&" TABLE);
    expect(&a, 0, 3, (int64_t[]){ 3, 0, 6 }, NULL);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "query_length=3", "table", 0 },
    { TABLE, "query_length", 0 },
    { "query_length=3&table=[[1,2],[3,4]]", "table", 0 },
    { "query_length=3&num_buckets=4&max_distance=4&table=[1,2,3,4]", "table", 0 },
    { "query_length=3&num_buckets=4&max_distance=4&table=[[],[],[],[]]", "table", 0 },
    { "query_length=3&num_buckets=4&max_distance=4&table=[[1],[2],[3],[70000]]&dtype=float16", "table[3][0]", 0 },
    { "query_length=3&num_buckets=4&max_distance=4&table=[[1],[2],[-1e39],[4]]", "table[2][0]", 0 },
    { "query_length=3&num_buckets=4&max_distance=1&table=[[1],[2],[3],[4]]", "max_distance", 0 },
    { "query_length=3&num_buckets=2&max_distance=4&table=[[1],[2]]", "num_buckets", 0 },
    { "query_length=3&relative_position=1&" TABLE, "relative_position", 0 },
    { "query_length=3&variant=cpmant&" TABLE, "variant", 0 },
    { "relative_position=0.5&num_buckets=4&max_distance=1&table=[[1]]", "relative_position[0] max_distance table", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *t5_bias_suite(void)
{
    Suite *s = suite_create("t5_bias");
    TCase *t = tcase_create("t5_bias");
    tcase_add_test(t, gathers);
    tcase_add_loop_test(t, as_the_buckets, 0, 4);
    tcase_add_test(t, rounds_once);
    tcase_add_test(t, nothing);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
