/* test_time2vec.c - the two places of the linear channel, shapes of layers, time before rounding, results too large. */
#include "ask.h"

#include <math.h>

#define WEIGHTS "&w0=[[0.5]]&b0=[-0.25]&w=[[1,-2.5,100]]&b=[0,0.5,-3]"
static const double w0 = 0.5, b0 = -0.25, w[] = { 1, -2.5, 100 }, b[] = { 0, 0.5, -3 };

START_TEST(channels)
{
    static const double t[] = { 0, 0.25, -3.5, 1200 };
    for (int last = 0; last < 2; last++)
        for (int cosine = 0; cosine < 2; cosine++) {
            char query[300];
            snprintf(query, sizeof query,
                     "timestamps=0,0.25,-3.5,1200&dtype=float64&linear_position=%s&activation=%s" WEIGHTS,
                     last ? "last" : "first", cosine ? "cosine" : "sine");
            posenc_answer a = ask("time2vec", query);
            expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 4, 4 });
            for (int64_t i = 0; i < 4; i++) {
                ck_assert(at(&a, 4 * i + (last ? 3 : 0)) == w0 * t[i] + b0);
                for (int64_t k = 0; k < 3; k++) {
                    double angle = w[k] * t[i] + b[k], want = cosine ? cos(angle) : sin(angle);
                    ck_assert(fabs(at(&a, 4 * i + !last + k) - want) <= 3e-16);
                }
            }
            posenc_answer_fini(&a);
        }
}
END_TEST

/* Every shape of a linear layer's weight is one row of numbers. */
START_TEST(shapes)
{
    posenc_answer a = ask("time2vec", "timestamps=1,2" WEIGHTS),
                  c = ask("time2vec",
                          "timestamps=1,2&w0=0.5&b0=[[-0.25]]&w=[[1],[-2.5],[100]]&b=[[0,0.5,-3]]&embedding_dim=4"),
                  d = ask_json("time2vec", "{\"timestamps\": [1, 2], \"w0\": [0.5], \"b0\": [1], \"w\": [], \"b\": []}");
    ck_assert_mem_eq(a.result.tensor[0].data, c.result.tensor[0].data, 8 * 4);
    expect_shape(tensor_of(&d, "embedding"), 2, (int64_t[]){ 2, 1 });
    ck_assert(at(&d, 0) == 1.5 && at(&d, 1) == 2);
    posenc_answer_fini(&a);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    a = ask_json("time2vec", "{\"timestamps\": [], \"w0\": [0.5], \"b0\": [1], \"w\": [1], \"b\": [2]}");
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 0, 2 });
    posenc_answer_fini(&a);
}
END_TEST

/* Two moments a millisecond apart, 1.7e9 seconds after the epoch; the linear channel is exact. */
START_TEST(origin)
{
    posenc_answer a = ask("time2vec", "timestamps=1700000000.25,1700000000&time_origin=1700000000&time_unit=0.25"
                                      "&dtype=float64" WEIGHTS),
                  c = ask("time2vec", "timestamps_iso=2023-11-14T22:13:20.25Z,2023-11-14T22:13:20Z"
                                      "&time_origin_iso=2023-11-14T22:13:20Z&time_unit=0.25&dtype=float64" WEIGHTS);
    ck_assert(at(&a, 0) == w0 + b0 && at(&a, 4) == b0);
    ck_assert_mem_eq(a.result.tensor[0].data, c.result.tensor[0].data, 8 * 8);
    posenc_answer_fini(&a);
    posenc_answer_fini(&c);
    /* a product that needs more than 53 bits cancels against the bias: 3 * (2^53 - 1) - (3 * 2^53 - 4) = 1 */
    a = ask("time2vec", "timestamps=9007199254740991&w0=3&b0=-27021597764222972&w=[1]&b=[0]&dtype=float64");
    ck_assert(at(&a, 0) == 1);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(too_large)
{
    static const refusal large[] = {
        { "timestamps=1,70000&dtype=float16&w0=1&b0=0&w=[1]&b=[1]", "dtype", "element 2 of embedding, which is 70000" },
        { "timestamps=1e18&dtype=float32&w0=1e30&b0=0&w=[1]&b=[1]", "dtype", "a type that holds" },
        { "timestamps=1e18&dtype=bfloat16&w0=1e30&b0=0&w=[1]&b=[1]", "dtype", "a type that holds" },
    };
    for (size_t i = 0; i < LEN(large); i++)
        refuses("time2vec", &large[i]);
    posenc_answer a = ask("time2vec", "timestamps=65519&dtype=float16&w0=1&b0=0&w=[1]&b=[1]"); /* rounds to the largest */
    ck_assert(at(&a, 0) == 65504);
    posenc_answer_fini(&a);
    a = ask("time2vec", "timestamps=1e18&dtype=float64&w0=1e100&b0=1e100&w=[1e100]&b=[1e100]");
    ck_assert(isfinite(at(&a, 0)) && fabs(at(&a, 1)) <= 1);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "w0=1&b0=1&w=[1]&b=[1]", "timestamps", "required" },
    { "timestamps=1&b0=1&w=[1]&b=[1]", "w0", "required" },
    { "timestamps=1&w0=1&b0=1&w=[1]", "b", "required" },
    { "timestamps=1&w0=[1,2]&b0=1&w=[1]&b=[1]", "w0", "one element" },
    { "timestamps=1&w0=1&b0=[]&w=[1]&b=[1]", "b0", "one element" },
    { "timestamps=1&w0=1&b0=1&w=[[1,2],[3,4]]&b=[1,2,3,4]", "w", "[1, n]" },
    { "timestamps=1&w0=1&b0=1&w=[1,2]&b=[1]", "b", "as w" },
    { "timestamps=1&w0=1&b0=1&w=[1,2]&b=[1,2]&embedding_dim=2", "embedding_dim", "3: the linear channel" },
    { "timestamps=1&w0=1&b0=1&w=[1,1e101]&b=[1,2]", "w[1]", "1e100" },
    { "timestamps=1&w0=1&b0=1&w=[1]&b=[1]&activation=tanh", "activation", "sine, cosine" },
    { "timestamps=1&w0=1&b0=1&w=[1]&b=[1]&linear_position=middle", "linear_position", "first, last" },
    { "timestamps=1&w0=1&b0=1&w=[1]&b=[1]&time_unit=0", "time_unit", "1e-30" },
    { "timestamps_iso=2024-02-30&w0=1&b0=1&w=[1]&b=[1]", "timestamps_iso[0]", "ISO" },
};

START_TEST(refusals) { refuses("time2vec", &bad[_i]); }
END_TEST

START_TEST(stops)
{
    static char query[400000];
    size_t n = (size_t)snprintf(query, sizeof query, "w0=1&b0=1&timestamps=0");
    for (int i = 0; i < 2000; i++)
        n += (size_t)snprintf(query + n, sizeof query - n, ",%d", i);
    for (int pass = 0; pass < 2; pass++) {
        n += (size_t)snprintf(query + n, sizeof query - n, pass ? "]&b=[0" : "&w=[0");
        for (int i = 0; i < 5000; i++)
            n += (size_t)snprintf(query + n, sizeof query - n, ",%d", i);
    }
    snprintf(query + n, sizeof query - n, "]");
    expect_stop("time2vec", query);
}
END_TEST

Suite *time2vec_suite(void);
Suite *time2vec_suite(void)
{
    Suite *s = suite_create("time2vec");
    TCase *t = tcase_create("time2vec");
    tcase_add_test(t, channels);
    tcase_add_test(t, shapes);
    tcase_add_test(t, origin);
    tcase_add_test(t, too_large);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
