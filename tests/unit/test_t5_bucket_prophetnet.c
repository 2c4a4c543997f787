/* test_t5_bucket_prophetnet.c - both streams against t5_bucket, the published row of 16/20, bad input. */
#include "ask.h"

Suite *t5_bucket_prophetnet_suite(void);

static const char name[] = "t5_bucket_prophetnet";

/* 16/20: buckets of distances 0 .. 19 as compute_all_stream_relative_buckets has them. */
static const double published[20] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11, 12, 12, 13, 14, 14, 15, 15 };

START_TEST(streams)
{
    posenc_answer a = ask(name, "num_buckets=16&max_distance=20&position_ids=3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,"
                                "20,21,22");
    const posenc_tensor *stream = &a.result.tensor[0], *predict = &a.result.tensor[1];
    ck_assert(stream->dtype == PE_int32 && predict->dtype == PE_int32);
    ck_assert(stream->shape[0] == 20 && stream->shape[1] == 20 && predict->shape[0] == 20 && predict->shape[1] == 40);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++) {
            const double at = i > j ? published[i - j] : 0;
            ck_assert(posenc_tensor_get(stream, 20 * i + j) == at);
            ck_assert(posenc_tensor_get(predict, 40 * i + 20 + j) == at);
            ck_assert(posenc_tensor_get(predict, 40 * i + j) ==
                      (i + 1 > j ? i + 1 < j + 20 ? published[i + 1 - j] : 15 : 0));
        }
    posenc_answer_fini(&a);
}
END_TEST

/* Positions in any order, negative and far. */
START_TEST(any_positions)
{
    static const int64_t at[] = { 5, -7, 100, 5, 4503599627370496, 0 };
    posenc_answer a = ask(name, "position_ids=5,-7,100,5,4503599627370496,0");
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            char query[200];
            const long long distance = at[j] - at[i];
            snprintf(query, sizeof query, "bidirectional=false&relative_position=%lld,%lld", distance, distance - 1);
            posenc_answer b = ask("t5_bucket", query);
            ck_assert(nth(&a, 0, 6 * i + j) == nth(&b, 0, 0));
            ck_assert(nth(&a, 1, 12 * i + j) == nth(&b, 0, 1));
            ck_assert(nth(&a, 1, 12 * i + 6 + j) == nth(&b, 0, 0));
            posenc_answer_fini(&b);
        }
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "", "position_ids", 0 },
    { "position_ids=1,2.5", "position_ids[1]", 0 },
    { "position_ids=1,1e17", "position_ids[1]", 0 },
    { "position_ids=1,2&num_buckets=1", "num_buckets", 0 },
    { "position_ids=1,2&max_distance=16", "max_distance", 0 },
    { "position_ids=1,2&bidirectional=true", "bidirectional", 0 },
    { "position_ids=1,2.5&num_buckets=1", "num_buckets position_ids[1]", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *t5_bucket_prophetnet_suite(void)
{
    Suite *s = suite_create("t5_bucket_prophetnet");
    TCase *t = tcase_create("t5_bucket_prophetnet");
    tcase_add_test(t, streams);
    tcase_add_test(t, any_positions);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
