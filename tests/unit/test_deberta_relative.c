/* test_deberta_relative.c - every boundary against powers of whole numbers, both codes' ends, bad input. */
#include "ask.h"

Suite *deberta_relative_suite(void);

static const char name[] = "deberta_relative";

__extension__ typedef unsigned __int128 wide;

static wide power(wide base, int64_t n)
{
    wide p = 1;
    while (n-- > 0)
        p *= base;
    return p;
}

/* Without logarithms: the least j with n^k m^j <= d^j m^k, k = m - 1, d = M - 1. */
static int64_t by_powers(int64_t n, int64_t m, int64_t d)
{
    const int64_t k = m - 1;
    int64_t j = 0;
    if (n <= m)
        return n;
    while (k && power((wide)n, k) * power((wide)m, j) > power((wide)d, j) * power((wide)m, k))
        j++;
    return m + j;
}

/* Products stay below 2^128: distances up to `last`. */
static const struct {
    int64_t buckets, most, last;
} settings[] = {
    { 4, 16, 200 }, { 16, 64, 63 },   { 8, 17, 60 },    { 8, 65, 300 }, { 8, 257, 2000 }, { 4, 33, 3000 }, { 6, 82, 5000 },
    { 10, 81, 80 }, { 16, 129, 128 }, { 16, 513, 512 }, { 12, 28, 27 }, { 12, 343, 342 }, { 2, 100, 300 }, { 3, 100, 300 },
};

START_TEST(boundaries)
{
    const int64_t last = settings[_i].last, m = settings[_i].buckets / 2, d = settings[_i].most - 1;
    char query[200];
    for (int clamp = 0; clamp < 2; clamp++) {
        snprintf(query, sizeof query, "query_length=%d&key_length=%d&position_buckets=%d&max_relative_positions=%d&clamp=%s",
                 (int)last + 1, (int)last + 1, (int)settings[_i].buckets, (int)d + 1, clamp ? "true" : "false");
        posenc_answer a = ask(name, query);
        for (int64_t i = 0; i <= last; i += last / 2)
            for (int64_t j = 0; j <= last; j++) {
                const int64_t n = llabs(i - j), want = by_powers(clamp && n > d ? d : n, m, d);
                const double got = nth(&a, 0, i * (last + 1) + j);
                ck_assert_msg(got == (double)(i < j ? -want : want), "%s: %d, %d is %g, want %d", query, (int)i, (int)j, got,
                              (int)want);
                ck_assert(!clamp || llabs((int64_t)got) <= (d < 2 * m - 1 ? d : 2 * m - 1));
            }
        posenc_answer_fini(&a);
    }
}
END_TEST

/* DeBERTa v3, and that the two codes part at max_relative_positions. */
START_TEST(published)
{
    posenc_answer a = ask(name, "relative_position=-600,-512,-511,-129,-128,0,128,129,130,256,511,512,600&"
                                "position_buckets=256&max_relative_positions=512");
    expect(&a, 0, 1, (int64_t[]){ 13 }, (double[]){ -270, -256, -255, -129, -128, 0, 128, 129, 130, 192, 255, 256, 270 });
    posenc_answer_fini(&a);
    a = ask(name, "relative_position=-600,-512,-511,511,512,600&position_buckets=256&max_relative_positions=512&clamp=true");
    expect(&a, 0, 1, (int64_t[]){ 6 }, (double[]){ -255, -255, -255, 255, 255, 255 });
    posenc_answer_fini(&a);
}
END_TEST

/* Boundaries that are met exactly: float64 puts them one bucket further (32/1025). */
START_TEST(exact_boundaries)
{
    posenc_answer a = ask(name, "relative_position=64,65,256,257,4096,4097&position_buckets=32&max_relative_positions=1025");
    expect(&a, 0, 1, (int64_t[]){ 6 }, (double[]){ 21, 22, 26, 27, 36, 37 });
    posenc_answer_fini(&a);
}
END_TEST

/* 1e-12 from a boundary, of 27539975393 steps: right only when more bits are taken. Values by 600 bits. */
START_TEST(near_boundaries)
{
    posenc_answer a = ask(name, "position_buckets=65536&max_relative_positions=32770&relative_position="
                                "4515082629639079,4515082629639080,467267935538842,467267935538843,-3237848384447190");
    expect(&a, 0, 1, (int64_t[]){ 5 }, (double[]){ 27540008161, 27540008162, 25104502585, 25104502586, -27182978929 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(no_buckets)
{
    static const char *const queries[] = { "query_length=2&key_length=3", "query_length=2&key_length=3&position_buckets=0",
                                           "query_length=2&key_length=3&position_buckets=256",
                                           "query_length=2&key_length=3&max_relative_positions=512" };
    for (size_t i = 0; i < LEN(queries); i++) {
        posenc_answer a = ask(name, queries[i]);
        expect(&a, 0, 2, (int64_t[]){ 2, 3 }, (double[]){ 0, -1, -2, 1, 0, -1 });
        posenc_answer_fini(&a);
    }
    posenc_answer a = ask(name, "query_length=2&key_length=3&past_seen_tokens=1");
    expect(&a, 0, 2, (int64_t[]){ 2, 3 }, (double[]){ 1, 0, -1, 2, 1, 0 });
    posenc_answer_fini(&a);
}
END_TEST

/* Where clamping leaves near distances only, there is no logarithm to take. */
START_TEST(clamped_near)
{
    posenc_answer a = ask(name, "relative_position=-9,-3,0,2,3,9&position_buckets=8&max_relative_positions=4&clamp=true"),
                  b = ask(name, "relative_position=-9,9&position_buckets=8&max_relative_positions=5&clamp=true");
    expect(&a, 0, 1, (int64_t[]){ 6 }, (double[]){ -3, -3, 0, 2, 3, 3 });
    expect(&b, 0, 1, (int64_t[]){ 2 }, (double[]){ -4, 4 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "", "query_length", 0 },
    { "query_length=3&position_buckets=1&max_relative_positions=9", "position_buckets", 0 },
    { "query_length=3&position_buckets=8&max_relative_positions=5", "max_relative_positions", 0 },
    { "query_length=3&position_buckets=8&max_relative_positions=1", "max_relative_positions", 0 },
    { "query_length=3&position_buckets=-2", "position_buckets", 0 },
    { "query_length=3&position_buckets=99999", "position_buckets", 0 },
    { "query_length=3&clamp=true", "clamp", 0 },
    { "query_length=3&clamp=true&position_buckets=8", "clamp", 0 },
    { "relative_position=1,0.5", "relative_position[1]", 0 },
    { "relative_position=1&key_length=3", "relative_position", 0 },
    { "query_length=3&max_position=9", "max_position", 0 },
    { "relative_position=0.5&position_buckets=1&max_relative_positions=9", "relative_position[0] position_buckets", 0 },
};

START_TEST(bad_input) { refuses(name, &bad[_i]); }
END_TEST

Suite *deberta_relative_suite(void)
{
    Suite *s = suite_create("deberta_relative");
    TCase *t = tcase_create("deberta_relative");
    tcase_add_loop_test(t, boundaries, 0, (int)LEN(settings));
    tcase_add_test(t, published);
    tcase_add_test(t, exact_boundaries);
    tcase_add_test(t, near_boundaries);
    tcase_add_test(t, no_buckets);
    tcase_add_test(t, clamped_near);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
