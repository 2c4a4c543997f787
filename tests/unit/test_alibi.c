/* test_alibi.c - slopes of twelve heads, the four forms, masks, slices, bfloat16 as Falcon has it, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("alibi", query); }

/* "12 heads: the slopes fall below those of 16" is how the list for other numbers is often got wrong. */
static const double twelve[] = { 0.5,       0.25,       0.125,      0.0625,     0.03125,    0.015625,
                                 0.0078125, 0.00390625, 0.70710678, 0.35355339, 0.17677670, 0.08838835 };

START_TEST(slopes_of_twelve_heads)
{
    posenc_answer a = answer_of("num_heads=12&dtype=float64");
    ck_assert_int_eq(a.result.ntensors, 1); /* without lengths only the slopes */
    ck_assert_str_eq(a.result.tensor[0].name, "slopes");
    for (int h = 0; h < 12; h++)
        ck_assert_double_eq_tol(at(&a, h), twelve[h], 5e-9);
    posenc_answer_fini(&a);
}
END_TEST

/* MPT takes the slopes of the next power of two, first the odd and then the even ones: the same order. */
START_TEST(other_numbers_in_the_order_of_mpt)
{
    static const int numbers[] = { 3, 5, 6, 12, 40, 71, 112 };
    char query[96];
    const int n = numbers[_i];
    int up = 1;
    while (up < n)
        up *= 2;
    snprintf(query, sizeof query, "num_heads=%d&form=mpt&seq_length=3&dtype=float64", n);
    posenc_answer a = answer_of(query);
    for (int h = 0; h < n; h++) {
        int rung = h < up / 2 ? 2 * h + 1 : 2 * (h - up / 2);
        double want = pow(2, -8.0 * (rung + 1) / up);
        ck_assert_double_eq_tol(posenc_tensor_get(&a.result.tensor[1], h), want, 1e-15);
        ck_assert_double_eq_tol(at(&a, 3 * h), -2 * want, 4e-15);
        ck_assert(at(&a, 3 * h + 2) == 0 && !signbit(at(&a, 3 * h + 2)));
    }
    posenc_answer_fini(&a);
}
END_TEST

/* Every pair of the two-sided forms, fewer, as many and more queries than keys. */
START_TEST(pairs)
{
    static const int sizes[][2] = { { 5, 5 }, { 1, 6 }, { 3, 7 }, { 6, 2 }, { 1, 1 } };
    const int q = sizes[_i / 2][0], k = sizes[_i / 2][1], symmetric = _i % 2;
    char query[128];
    snprintf(query, sizeof query, "num_heads=4&dtype=float64&query_length=%d&key_length=%d&form=%s", q, k,
             symmetric ? "symmetric" : "causal_relative");
    posenc_answer a = answer_of(query);
    ck_assert_int_eq(a.result.tensor[0].rank, 3);
    for (int h = 0; h < 4; h++)
        for (int i = 0; i < q; i++)
            for (int j = 0; j < k; j++) {
                int query_position = i + (k > q ? k - q : 0), key_position = j + (q > k ? q - k : 0);
                int distance = query_position - key_position;
                double want = symmetric ? -abs(distance) : distance > 0 ? -distance : 0;
                double got = at(&a, (h * q + i) * k + j);
                ck_assert(got == want / (double)(1 << 2 * (h + 1)) && (want != 0 || !signbit(got)));
            }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(key_positions)
{
    posenc_answer a = answer_of("num_heads=8&seq_length=600"), b = answer_of("num_heads=8&key_length=600");
    for (int h = 0; h < 8; h++)
        for (int j = 0; j < 600; j++)
            ck_assert(at(&a, h * 600 + j) == (double)((float)j / (float)(1 << (h + 1))));
    ck_assert_str_eq(a.request.digest, b.request.digest); /* two spellings of one request */
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* BLOOM: (cumsum(mask) - 1) * mask, the heads of a sequence before those of the next. */
START_TEST(masks)
{
    static const int want[2][5] = { { 0, 0, 0, 1, 2 }, { 0, 1, 0, 2, 0 } };
    posenc_answer a = answer_of("num_heads=2&attention_mask=[[0,0,1,1,1],[1,1,0,1,0]]&seq_length=5&dtype=float64"),
                  b = answer_of("num_heads=2&attention_mask=[0,0,1,1,1]");
    ck_assert_int_eq(a.result.tensor[0].shape[0], 4);
    ck_assert_int_eq(b.result.tensor[0].shape[0], 2);
    for (int s = 0; s < 2; s++)
        for (int h = 0; h < 2; h++)
            for (int j = 0; j < 5; j++) {
                ck_assert(at(&a, (2 * s + h) * 5 + j) == want[s][j] / (h ? 256.0 : 16.0));
                ck_assert(s || at(&a, h * 5 + j) == at(&b, h * 5 + j));
            }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static double bfloat16(double v) /* 8 significant bits, ties to even */
{
    int e;
    double m = frexp(v, &e);
    return ldexp(rint(m * 256), e - 8);
}

/* Falcon: slope, position and product are bfloat16: position 257 counts as 256. */
START_TEST(falcon)
{
    posenc_answer a = answer_of("num_heads=71&seq_length=700&slope_dtype=bfloat16"),
                  s = answer_of("num_heads=71&dtype=float64");
    int differ = 0;
    for (int h = 0; h < 71; h++)
        for (int j = 0; j < 700; j++) {
            double exact = at(&s, h) * j, want = bfloat16(bfloat16(at(&s, h)) * bfloat16(j));
            ck_assert(at(&a, h * 700 + j) == want);
            differ += want != bfloat16(exact);
        }
    ck_assert_int_gt(differ, 1000); /* the roundings on the way do matter */
    ck_assert(at(&a, 257) == at(&a, 256));
    posenc_answer_fini(&a);
    posenc_answer_fini(&s);
}
END_TEST

/* A tensor-parallel rank has its slice of the global list, not a list of its own. */
START_TEST(slices)
{
    static const char *const forms[] = { "key_position", "mpt", "causal_relative", "symmetric" };
    char query[128];
    snprintf(query, sizeof query, "num_heads=12&seq_length=5&form=%s", forms[_i]);
    posenc_answer a = answer_of(query);
    strcat(query, "&head_start=6&head_count=4");
    posenc_answer b = answer_of(query);
    const size_t head = (_i < 2 ? 5 : 25) * sizeof(float);
    ck_assert_int_eq(b.result.tensor[0].shape[0], 4);
    ck_assert_mem_eq((char *)a.result.tensor[0].data + 6 * head, b.result.tensor[0].data, 4 * head);
    ck_assert_mem_eq((char *)a.result.tensor[1].data + 6 * 4, b.result.tensor[1].data, 4 * 4);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(empty)
{
    static const char *const queries[] = { "num_heads=3&seq_length=0",
                                           "num_heads=3&form=symmetric&query_length=0&key_length=4",
                                           "num_heads=3&form=causal_relative&query_length=4&key_length=0",
                                           "num_heads=3&attention_mask=[]" };
    posenc_answer a = answer_of(queries[_i]);
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[0]), 0);
    ck_assert_int_eq(a.result.ntensors, 2);
    posenc_answer_fini(&a);
}
END_TEST

/* The largest float16 bias is finite, one more position is refused: 2^-4 * 2^20 = 65536. */
START_TEST(float16_is_finite)
{
    posenc_answer a = answer_of("num_heads=2&seq_length=1000000&dtype=float16&form=mpt");
    ck_assert(at(&a, 0) == -62496);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "num_heads=0", "num_heads" },
    { "num_heads=-1&seq_length=4", "num_heads" },
    { "seq_length=4", "num_heads" },
    { "num_heads=4&form=bloom", "form" },
    { "num_heads=4&seq_length=-1", "seq_length" },
    { "num_heads=4&seq_length=4&key_length=4", "seq_length" },
    { "num_heads=4&query_length=4", "query_length" },
    { "num_heads=4&form=mpt&query_length=4&key_length=4", "query_length" },
    { "num_heads=4&form=mpt&attention_mask=[1,1]", "attention_mask" },
    { "num_heads=4&attention_mask=[1,2]", "attention_mask[1]" },
    { "num_heads=4&attention_mask=[[[1]]]", "attention_mask" },
    { "num_heads=4&attention_mask=[1,1]&key_length=3", "key_length" },
    { "num_heads=4&attention_mask=[1,1]&seq_length=3", "seq_length" },
    { "num_heads=4&alibi_bias_max=0", "alibi_bias_max" },
    { "num_heads=4&head_start=4", "head_start" },
    { "num_heads=4&head_start=1&head_count=4", "head_count" },
    { "num_heads=2&seq_length=1060000&dtype=float16", "seq_length" },
    { "num_heads=2&seq_length=70000&slope_dtype=float16", "seq_length" },
};

START_TEST(bad_input) { refuses("alibi", &bad[_i]); }
END_TEST

START_TEST(too_large)
{
    posenc_arena *arena = posenc_arena_new(1 << 20);
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert(!posenc_request_init(&r, "alibi", arena, &err));
    ck_assert(!posenc_request_parse(&r, "num_heads=1048576&form=symmetric&seq_length=1000000000", &err));
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_LIMIT);
    posenc_arena_free(arena);
}
END_TEST

Suite *alibi_suite(void);
Suite *alibi_suite(void)
{
    Suite *s = suite_create("alibi");
    TCase *t = tcase_create("alibi");
    tcase_add_test(t, slopes_of_twelve_heads);
    tcase_add_loop_test(t, other_numbers_in_the_order_of_mpt, 0, 7);
    tcase_add_loop_test(t, pairs, 0, 10);
    tcase_add_test(t, key_positions);
    tcase_add_test(t, masks);
    tcase_add_test(t, falcon);
    tcase_add_loop_test(t, slices, 0, 4);
    tcase_add_loop_test(t, empty, 0, 4);
    tcase_add_test(t, float16_is_finite);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, too_large);
    suite_add_tcase(s, t);
    return s;
}
