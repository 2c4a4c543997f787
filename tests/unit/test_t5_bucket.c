/* test_t5_bucket.c - every boundary against powers of whole numbers, both forms of input, variants, bad input. */
#include "ask.h"

Suite *t5_bucket_suite(void);

static const char name[] = "t5_bucket";

__extension__ typedef unsigned __int128 wide;

static wide power(wide base, int64_t n)
{
    wide p = 1;
    while (n-- > 0)
        p *= base;
    return p;
}

/* The definition, without logarithms: n is j steps of k along from m to d when n^k >= d^j m^(k - j). */
static int64_t by_powers(int64_t n, int64_t per_direction, int64_t d)
{
    const int64_t m = per_direction / 2, k = per_direction - m;
    int64_t j = 0;
    if (n < m)
        return n;
    while (j + 1 < k && (n >= d || power((wide)n, k) >= power((wide)d, j + 1) * power((wide)m, k - j - 1)))
        j++;
    return m + j;
}

/* k log2(d) stays below 128. */
static const struct {
    int64_t per_direction, max_distance;
} settings[] = {
    { 16, 128 },  { 16, 256 }, { 2, 10 },   { 16, 20 },   { 16, 64 },     { 3, 81 },    { 3, 10000 },
    { 4, 200 },   { 6, 81 },   { 7, 27 },   { 7, 300 },   { 9, 128 },     { 17, 27 },   { 17, 343 },
    { 18, 243 },  { 19, 65 },  { 20, 320 }, { 20, 1000 }, { 8, 1000 },    { 8, 65536 }, { 12, 65536 },
    { 20, 2000 }, { 23, 12 },  { 32, 200 }, { 2, 2 },     { 10, 100000 }, { 24, 243 },  { 36, 32 },
};

START_TEST(boundaries)
{
    const int64_t per = settings[_i].per_direction, d = settings[_i].max_distance, last = d + 40;
    char query[200];
    snprintf(query, sizeof query,
             "query_length=1&key_length=%d&past_seen_tokens=%d&bidirectional=false&num_buckets=%d&"
             "max_distance=%d",
             (int)last + 1, (int)last, (int)per, (int)d);
    posenc_answer a = ask(name, query);
    for (int64_t n = 0; n <= last; n++)
        ck_assert_msg(nth(&a, 0, last - n) == (double)by_powers(n, per, d), "%d/%d at %d: %g, want %d", (int)per, (int)d,
                      (int)n, nth(&a, 0, last - n), (int)by_powers(n, per, d));
    posenc_answer_fini(&a);
    snprintf(query, sizeof query, "query_length=%d&key_length=%d&num_buckets=%d&max_distance=%d", (int)last + 1,
             (int)last + 1, 2 * (int)per, (int)d);
    posenc_answer b = ask(name, d <= 1000 ? query : "query_length=1");
    for (int64_t i = 0; i <= last && d <= 1000; i++)
        for (int64_t j = 0; j <= last; j++)
            ck_assert(nth(&b, 0, i * (last + 1) + j) == (double)(by_powers(llabs(j - i), per, d) + (j > i ? per : 0)));
    posenc_answer_fini(&b);
}
END_TEST

/* Boundaries that are met exactly, which arithmetic in float64 (20/320, 7/27, 32/100), in float32 (17/27, 48/81) or with a
 * reciprocal in float32 (6/81, 4/800) puts one bucket lower. */
START_TEST(exact_boundaries)
{
    static const struct {
        const char *query;
        int64_t distance, bucket;
    } known[] = {
        { "num_buckets=20&max_distance=320", 20, 12 },  { "num_buckets=20&max_distance=320", 40, 14 },
        { "num_buckets=20&max_distance=320", 160, 18 }, { "num_buckets=7&max_distance=27", 9, 5 },
        { "num_buckets=32&max_distance=100", 40, 24 },  { "num_buckets=17&max_distance=27", 12, 11 },
        { "num_buckets=17&max_distance=27", 18, 14 },   { "num_buckets=48&max_distance=81", 36, 32 },
        { "num_buckets=48&max_distance=81", 54, 40 },   { "num_buckets=6&max_distance=81", 9, 4 },
        { "num_buckets=6&max_distance=81", 27, 5 },     { "num_buckets=4&max_distance=800", 40, 3 },
    };
    for (size_t i = 0; i < LEN(known); i++) {
        char query[200];
        snprintf(query, sizeof query, "bidirectional=false&relative_position=%d,%d&%s", -(int)known[i].distance,
                 1 - (int)known[i].distance, known[i].query);
        posenc_answer a = ask(name, query);
        expect(&a, 0, 1, (int64_t[]){ 2 }, (double[]){ (double)known[i].bucket, (double)known[i].bucket - 1 });
        posenc_answer_fini(&a);
    }
}
END_TEST

/* T5's own settings, as published: bidirectional 32/128. */
START_TEST(t5)
{
    posenc_answer a = ask(name, "relative_position=-1000000,-91,-90,-64,-63,-46,-45,-32,-31,-23,-22,-16,-15,-12,-11,-8,"
                                "-7,-1,0,1,7,8,11,12,90,91,128,1000000");
    expect(&a, 0, 1, (int64_t[]){ 28 }, (double[]){ 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9,  9,
                                                    8,  8,  7,  1,  0,  17, 23, 24, 24, 25, 30, 31, 31, 31 });
    ck_assert(a.result.tensor[0].dtype == PE_int64);
    posenc_answer_fini(&a);
    a = ask(name, "bidirectional=false&relative_position=-1000000,-113,-112,-16,-15,0,1,1000000");
    expect(&a, 0, 1, (int64_t[]){ 8 }, (double[]){ 31, 31, 30, 16, 15, 0, 0, 0 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(grid_and_list)
{
    posenc_answer a = ask(name, "query_length=3&key_length=5&past_seen_tokens=2&num_buckets=8&max_distance=6"),
                  b = ask(name, "relative_position=-2,-1,0,1,2,-3,-2,-1,0,1,-4,-3,-2,-1,0&num_buckets=8&max_distance=6");
    ck_assert_int_eq(a.result.tensor[0].rank, 2);
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 15);
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 15 * 8);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    expect_same(name, "query_length=3&past_seen_tokens=2", "query_length=3&key_length=5&past_seen_tokens=2");
    expect_same(name, "key_length=5&past_seen_tokens=2", "query_length=3&key_length=5&past_seen_tokens=2");
    expect_same(name, "query_length=7", "query_length=7&key_length=7");
}
END_TEST

START_TEST(far_away)
{
    posenc_answer a = ask(name, "relative_position=-9007199254740992,9007199254740992&max_distance=9007199254740992&"
                                "num_buckets=65536");
    expect(&a, 0, 1, (int64_t[]){ 2 }, (double[]){ 32767, 65535 });
    posenc_answer_fini(&a);
    a = ask(name, "query_length=2&key_length=2&past_seen_tokens=4503599627370496");
    expect(&a, 0, 2, (int64_t[]){ 2, 2 }, (double[]){ 15, 15, 15, 15 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(nothing)
{
    posenc_answer a = ask(name, "query_length=0&key_length=5"), b = ask(name, "query_length=1000000000&key_length=0");
    expect(&a, 0, 2, (int64_t[]){ 0, 5 }, NULL);
    expect(&b, 0, 2, (int64_t[]){ 1000000000, 0 }, NULL);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(variants_leave_no_trace)
{
    expect_same(name, "query_length=9&variant=cpmant", "query_length=9&num_buckets=512&max_distance=2048");
    expect_same(name, "query_length=9&variant=layoutlm_1d", "query_length=9");
    expect_same(name, "query_length=9&variant=layoutlm_2d", "query_length=9&num_buckets=64&max_distance=256");
    expect_same(name, "query_length=9&variant=wavlm", "query_length=9&num_buckets=320&max_distance=800");
    expect_same(name, "query_length=9&variant=wavlm&num_buckets=64&bidirectional=false",
                "query_length=9&num_buckets=64&max_distance=800&bidirectional=false");
}
END_TEST

static const refusal bad[] = {
    { "", "query_length", 0 },
    { "query_length=4&relative_position=1,2", "relative_position", 0 },
    { "key_length=4&relative_position=1,2", "relative_position", 0 },
    { "past_seen_tokens=4&relative_position=1,2", "past_seen_tokens", 0 },
    { "relative_position=1,2.5", "relative_position[1]", 0 },
    { "relative_position=1,1e300", "relative_position[1]", 0 },
    { "relative_position=1,nan", "relative_position[1]", 0 },
    { "query_length=-1", "query_length", 0 },
    { "query_length=3.5", "query_length", 0 },
    { "query_length=2000000000", "query_length", 0 },
    { "key_length=3&past_seen_tokens=4", "past_seen_tokens", 0 },
    { "query_length=3&past_seen_tokens=4503599627370496", "past_seen_tokens", 0 },
    { "query_length=3&num_buckets=0", "num_buckets", 0 },
    { "query_length=3&num_buckets=1", "num_buckets", 0 },
    { "query_length=3&num_buckets=3", "num_buckets", 0 },
    { "query_length=3&num_buckets=1&bidirectional=false", "num_buckets", 0 },
    { "query_length=3&num_buckets=70000", "num_buckets", 0 },
    { "query_length=3&max_distance=0", "max_distance", 0 },
    { "query_length=3&max_distance=8", "max_distance", 0 },
    { "query_length=3&max_distance=16&bidirectional=false", "max_distance", 0 },
    { "query_length=3&variant=bert", "variant", 0 },
    { "query_length=3&buckets=32", "buckets", 0 },
    { "relative_position=0.5&max_distance=8", "relative_position[0] max_distance", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

/* The smallest that is not refused. */
START_TEST(least)
{
    posenc_answer a = ask(name, "relative_position=-3,-2,-1,0,1,2,3&num_buckets=4&max_distance=2"),
                  b = ask(name, "relative_position=-3,-2,-1,0,1,2,3&num_buckets=2&max_distance=2&bidirectional=false");
    expect(&a, 0, 1, (int64_t[]){ 7 }, (double[]){ 1, 1, 1, 0, 3, 3, 3 });
    expect(&b, 0, 1, (int64_t[]){ 7 }, (double[]){ 1, 1, 1, 0, 0, 0, 0 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

Suite *t5_bucket_suite(void)
{
    Suite *s = suite_create("t5_bucket");
    TCase *t = tcase_create("t5_bucket");
    tcase_add_loop_test(t, boundaries, 0, (int)LEN(settings));
    tcase_add_test(t, exact_boundaries);
    tcase_add_test(t, t5);
    tcase_add_test(t, grid_and_list);
    tcase_add_test(t, far_away);
    tcase_add_test(t, nothing);
    tcase_add_test(t, variants_leave_no_trace);
    tcase_add_test(t, least);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
