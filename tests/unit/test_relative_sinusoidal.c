/* test_relative_sinusoidal.c - order of positions, clamping, the shift that models do by reshaping, rules. */
#include "ask.h"

#include <math.h>

Suite *relative_sinusoidal_suite(void);

static posenc_answer answer_of(const char *query) { return ask("relative_sinusoidal", query); }

static double element(const posenc_answer *a, int64_t row, int64_t column)
{
    const posenc_tensor *t = &a->result.tensor[0];
    return posenc_tensor_get(t, row * t->shape[1] + column);
}

/* ---- rows ---- */

static const struct {
    const char *query;
    int rows, first; /* positions first, first - 1, ... */
    bool interleaved;
} tables[] = {
    { "preset=transformer_xl&key_length=7", 7, 6, false },
    { "preset=xlnet&query_length=5&key_length=9", 14, 9, false }, /* 9 .. -4 */
    { "preset=xlnet&query_length=5&key_length=9&attn_type=bi", 14, 9, false },
    { "preset=xlnet&query_length=5&key_length=9&attn_type=uni", 10, 9, false }, /* 9 .. 0 */
    { "preset=xlnet&key_length=9&attn_type=uni", 10, 9, false },
    { "preset=conformer&length=6", 11, 5, true }, /* 5 .. -5 */
    { "preset=conformer&length=1", 1, 0, true },
    { "preset=transformer_xl&layout=interleaved&key_length=3", 3, 2, true },
    { "key_length=4", 4, 3, false },
    { "preset=conformer&length=0", 0, 0, true },
    { "key_length=0", 0, 0, false },
};

START_TEST(positions)
{
    char query[200];
    snprintf(query, sizeof query, "embedding_dim=8&%s", tables[_i].query);
    posenc_answer a = answer_of(query);
    ck_assert_str_eq(a.result.tensor[0].name, "table");
    ck_assert_int_eq(a.result.tensor[0].shape[0], tables[_i].rows);
    ck_assert_int_eq(a.result.tensor[0].shape[1], 8);
    for (int r = 0; r < tables[_i].rows; r++)
        for (int k = 0; k < 8; k++) {
            const int pair = tables[_i].interleaved ? k / 2 : k % 4;
            const double angle = (tables[_i].first - r) * pow(10, -pair);
            const double want = (tables[_i].interleaved ? k % 2 : k / 4) ? cos(angle) : sin(angle);
            ck_assert_msg(fabs(element(&a, r, k) - want) < 5e-7, "%s [%d][%d]: %.9g, not %.9g", query, r, k,
                          element(&a, r, k), want);
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(clamped)
{
    posenc_answer a = answer_of("preset=xlnet&embedding_dim=4&query_length=6&key_length=6&clamp_len=3&dtype=float64&"
                                "compute_dtype=float64"),
                  b = answer_of("preset=transformer_xl&embedding_dim=4&key_length=6&clamp_len=2&dtype=float64&"
                                "compute_dtype=float64");
    for (int r = 0; r < 12; r++) {
        const int position = 6 - r > 3 ? 3 : 6 - r < -3 ? -3 : 6 - r;
        ck_assert(fabs(element(&a, r, 0) - sin(position)) < 1e-15);
    }
    for (int r = 0; r < 6; r++)
        ck_assert(fabs(element(&b, r, 0) - sin(5 - r > 2 ? 2 : 5 - r)) < 1e-15);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(mirrored) /* offsets of both signs: sines odd and cosines even, bit by bit */
{
    posenc_answer a = answer_of("preset=conformer&embedding_dim=16&length=40");
    for (int r = 0; r < 79; r++)
        for (int k = 0; k < 16; k += 2) {
            ck_assert(element(&a, r, k) == -element(&a, 78 - r, k));
            ck_assert(element(&a, r, k + 1) == element(&a, 78 - r, k + 1));
        }
    for (int k = 0; k < 16; k++)
        ck_assert(element(&a, 39, k) == k % 2);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(rounded_once)
{
    posenc_answer exact = answer_of("embedding_dim=32&key_length=500&dtype=float64"),
                  a = answer_of("embedding_dim=32&key_length=500&dtype=float16"),
                  b = answer_of("embedding_dim=32&key_length=500");
    for (int i = 0; i < 500 * 32; i++) {
        char narrow[8];
        const posenc_tensor one = { .dtype = PE_float16, .data = narrow };
        const double v = posenc_tensor_get(&exact.result.tensor[0], i);
        posenc_convert(PE_float16, narrow, &v, 1);
        ck_assert(posenc_tensor_get(&one, 0) == posenc_tensor_get(&a.result.tensor[0], i));
        ck_assert((double)(float)v == posenc_tensor_get(&b.result.tensor[0], i));
    }
    posenc_answer_fini(&exact);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- the index ---- */

/* Transformer-XL's _rel_shift: a column of padding in front, reshaped to (R + 1, Q), the first row dropped. Gives the column
 * of the score that (q, k) ends up with; it may come from another row's, where the score is masked. */
static int padded_shift(int queries, int rows, int q, int k)
{
    const int flat = q * rows + k + queries, column = flat % (rows + 1); /* of the padded (Q, R + 1) */
    return flat / (rows + 1) == q ? column - 1 : -1;
}

/* XLNet's rel_shift: reshaped to (R, Q), the first row dropped, reshaped to (Q, R - 1). */
static int dropped_shift(int queries, int rows, int q, int k)
{
    const int flat = q * (rows - 1) + k + queries;
    return flat / rows == q ? flat % rows : -1;
}

static const struct {
    const char *query;
    int queries, keys, rows;
    int (*shift)(int queries, int rows, int q, int k);
} shifts[] = {
    { "preset=transformer_xl&query_length=4&key_length=4", 4, 4, 4, padded_shift },
    { "preset=transformer_xl&query_length=3&key_length=8", 3, 8, 8, padded_shift },
    { "preset=xlnet&query_length=5&key_length=9", 5, 9, 14, dropped_shift },
    { "preset=xlnet&query_length=6&key_length=6", 6, 6, 12, dropped_shift },
    { "preset=conformer&length=5", 5, 5, 9, padded_shift },
    { "preset=conformer&length=1", 1, 1, 1, padded_shift },
};

START_TEST(index_is_the_shift)
{
    char query[200];
    snprintf(query, sizeof query, "embedding_dim=2&%s", shifts[_i].query);
    posenc_answer a = answer_of(query);
    const int nq = shifts[_i].queries, nk = shifts[_i].keys;
    ck_assert_int_eq(a.result.ntensors, 2);
    const posenc_tensor *t = &a.result.tensor[1];
    ck_assert_str_eq(t->name, "index");
    ck_assert_int_eq(t->dtype, PE_int64);
    ck_assert(t->rank == 2 && t->shape[0] == nq && t->shape[1] == nk);
    ck_assert_int_eq(a.result.tensor[0].shape[0], shifts[_i].rows);
    for (int q = 0; q < nq; q++)
        for (int k = 0; k < nk; k++) {
            const int64_t row = ((const int64_t *)t->data)[q * nk + k];
            ck_assert_int_eq(row, shifts[_i].shift(nq, shifts[_i].rows, q, k));
            if (row >= 0) /* the row of the distance from query nk - nq + q to key k */
                ck_assert(fabs(element(&a, row, 0) - sin(nk - nq + q - k)) < 1e-6);
            else
                ck_assert_int_gt(k, nk - nq + q);
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(later_keys_have_no_row)
{
    posenc_answer a = answer_of("embedding_dim=2&attn_type=uni&query_length=3&key_length=4");
    static const int64_t want[] = { 3, 4, -1, -1, 2, 3, 4, -1, 1, 2, 3, 4 };
    ck_assert_mem_eq(a.result.tensor[1].data, want, sizeof want);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(without_index)
{
    static const char *const queries[] = { "key_length=4", "key_length=4&query_length=2&with_index=false",
                                           "preset=conformer&length=1000000&with_index=false" };
    for (size_t i = 0; i < LEN(queries); i++) {
        char query[200];
        snprintf(query, sizeof query, "embedding_dim=2&%s", queries[i]);
        posenc_answer a = answer_of(query);
        ck_assert_int_eq(a.result.ntensors, 1);
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(nothing)
{
    posenc_answer a = answer_of("embedding_dim=2&query_length=1073741824&key_length=0"),
                  b = answer_of("embedding_dim=2&attn_type=bi&query_length=0&key_length=0");
    ck_assert_int_eq(a.result.tensor[1].shape[0], 1073741824);
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[1]), 0);
    ck_assert_int_eq(b.result.tensor[0].shape[0], 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- digests ---- */

static const char *const spellings[][2] = {
    { "preset=transformer_xl&key_length=4", "layout=split&freq_form=pow&compute_dtype=float32&key_length=4" },
    { "preset=xlnet&key_length=4&query_length=2",
      "attn_type=bi&freq_form=pow&compute_dtype=float32&key_length=4&query_length=2&clamp_len=-1" },
    { "preset=conformer&length=3", "attn_type=symmetric&layout=interleaved&compute_dtype=float32&length=3" },
    { "key_length=4&clamp_len=0", "key_length=4" },
};

START_TEST(one_digest)
{
    char digest[2][65];
    for (int i = 0; i < 2; i++) {
        char query[300];
        snprintf(query, sizeof query, "embedding_dim=8&%s", spellings[_i][i]);
        posenc_answer a = answer_of(query), again = answer_of(strchr(a.request.key, ' ') + 1);
        ck_assert_str_eq(a.request.digest, again.request.digest);
        memcpy(digest[i], a.request.digest, 65);
        posenc_answer_fini(&a);
        posenc_answer_fini(&again);
    }
    ck_assert_str_eq(digest[0], digest[1]);
}
END_TEST

/* ---- bad input ---- */

static const refusal bad[] = {
    { "key_length=4", "embedding_dim" },
    { "embedding_dim=8", "key_length" },
    { "embedding_dim=7&key_length=4", "embedding_dim" },
    { "embedding_dim=0&key_length=4", "embedding_dim" },
    { "embedding_dim=8&key_length=-1", "key_length" },
    { "embedding_dim=8&key_length=1.5", "key_length" },
    { "embedding_dim=8&key_length=4&length=4", "length" },
    { "embedding_dim=8&preset=xlnet&key_length=4", "query_length" },
    { "embedding_dim=8&preset=xlnet&query_length=4", "key_length" },
    { "embedding_dim=8&preset=xlnet&query_length=4&key_length=4&attn_type=both", "attn_type" },
    { "embedding_dim=8&preset=conformer", "length" },
    { "embedding_dim=8&preset=conformer&length=4&key_length=4", "key_length" },
    { "embedding_dim=8&preset=conformer&length=4&query_length=4", "query_length" },
    { "embedding_dim=8&preset=conformer&length=4&clamp_len=-2", "clamp_len" },
    { "embedding_dim=8&preset=transformerxl&key_length=4", "preset" },
    { "embedding_dim=8&key_length=4&max_period=0", "max_period" },
    { "embedding_dim=8&key_length=4&max_period=1e40&compute_dtype=float32", "max_period" },
    { "embedding_dim=8&key_length=4&max_period=1e-35&compute_dtype=float32", "max_period" },
    { "embedding_dim=8&key_length=4&mem_len=4", "mem_len" },
};

START_TEST(bad_input) { refuses("relative_sinusoidal", &bad[_i]); }
END_TEST

static posenc_status stop_later(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops) /* in the table, and in the index */
{
    static const char *const queries[] = { "embedding_dim=64&key_length=30000",
                                           "embedding_dim=2&preset=conformer&length=3000" };
    posenc_answer a;
    for (size_t i = 0; i < LEN(queries); i++)
        for (int polls = 0; polls < 4; polls++) {
            int left = polls;
            posenc_context ctx = { .stop = stop_later, .user = &left };
            ck_assert_int_eq(posenc_encode("relative_sinusoidal", queries[i], NULL, &a, &ctx, NULL), PE_CANCELLED);
        }
}
END_TEST

Suite *relative_sinusoidal_suite(void)
{
    Suite *s = suite_create("relative_sinusoidal");
    TCase *t = tcase_create("relative_sinusoidal");
    tcase_add_loop_test(t, positions, 0, (int)LEN(tables));
    tcase_add_test(t, clamped);
    tcase_add_test(t, mirrored);
    tcase_add_test(t, rounded_once);
    tcase_add_loop_test(t, index_is_the_shift, 0, (int)LEN(shifts));
    tcase_add_test(t, later_keys_have_no_row);
    tcase_add_test(t, without_index);
    tcase_add_test(t, nothing);
    tcase_add_loop_test(t, one_digest, 0, (int)LEN(spellings));
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
