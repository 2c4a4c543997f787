/* test_chunk_position_ids.c - every token is in a window, rows and bounds agree, both last windows, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("chunk_position_ids", query); }

enum { WINDOW, POSITION, GLOBAL, START, OFFSET };

static int64_t cell(const posenc_answer *a, int tensor, int64_t i)
{
    return ((const int64_t *)a->result.tensor[tensor].data)[i];
}
static int64_t count(const posenc_answer *a, int tensor) { return a->result.tensor[tensor].shape[0]; }

START_TEST(by_hand)
{
    static const int window[] = { 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2 }, position[] = { 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2 },
                     global[] = { 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6 };
    posenc_answer a = answer_of("seq_length=7&window=4&stride=2"), b = answer_of("seq_length=7&window=4&overlap=2");
    ck_assert_int_eq(count(&a, WINDOW), 11);
    ck_assert_int_eq(count(&a, START), 3);
    for (int i = 0; i < 11; i++) {
        ck_assert_int_eq(cell(&a, WINDOW, i), window[i]);
        ck_assert_int_eq(cell(&a, POSITION, i), position[i]);
        ck_assert_int_eq(cell(&a, GLOBAL, i), global[i]);
    }
    ck_assert_str_eq(a.request.digest, b.request.digest); /* the same cut in the words of tokenizers */
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* All sizes up to some: no token is left out, no window is empty or too long, rows are consistent. */
START_TEST(all_small_cuts)
{
    char query[160];
    for (int n = 0; n <= 12; n++)
        for (int w = 1; w <= 5; w++)
            for (int s = 1; s <= w; s++) {
                snprintf(query, sizeof query, "seq_length=%d&window=%d&stride=%d&offset=3&last_window=%s", n, w, s,
                         _i ? "full" : "short");
                posenc_answer a = answer_of(query);
                const int64_t windows = count(&a, START);
                bool seen[12] = { 0 };
                ck_assert_int_eq(count(&a, OFFSET), windows + 1);
                ck_assert_int_eq(cell(&a, OFFSET, windows), count(&a, WINDOW));
                ck_assert_int_eq(windows, n == 0 ? 0 : n <= w ? 1 : (int)ceil((n - w) / (double)s) + 1);
                for (int64_t k = 0; k < windows; k++) {
                    const int64_t first = cell(&a, OFFSET, k), tokens = cell(&a, OFFSET, k + 1) - first;
                    ck_assert(tokens >= 1 && tokens <= w);
                    ck_assert(tokens == w || (k == windows - 1 && (!_i || n < w)));
                    ck_assert(k == 0 || cell(&a, START, k) > cell(&a, START, k - 1));
                    for (int64_t i = first; i < first + tokens; i++) {
                        ck_assert_int_eq(cell(&a, WINDOW, i), k);
                        ck_assert_int_eq(cell(&a, POSITION, i), 3 + i - first);
                        ck_assert_int_eq(cell(&a, GLOBAL, i), cell(&a, START, k) + i - first);
                        seen[cell(&a, GLOBAL, i)] = true;
                    }
                }
                for (int i = 0; i < n; i++)
                    ck_assert(seen[i]);
                posenc_answer_fini(&a);
            }
}
END_TEST

START_TEST(apart)
{
    posenc_answer a = answer_of("seq_length=1030&window=512"); /* no overlap unless asked for */
    ck_assert_int_eq(count(&a, WINDOW), 1030);
    ck_assert_int_eq(count(&a, START), 3);
    ck_assert_int_eq(cell(&a, START, 2), 1024);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "window=4", "seq_length" },
    { "seq_length=4", "window" },
    { "seq_length=-1&window=4", "seq_length" },
    { "seq_length=4&window=0", "window" },
    { "seq_length=9&window=4&stride=5", "stride" }, /* would leave tokens out */
    { "seq_length=9&window=4&stride=0", "stride" },
    { "seq_length=9&window=4&overlap=4", "overlap" },
    { "seq_length=9&window=4&overlap=2&stride=2", "overlap" },
    { "seq_length=9&window=4&last_window=drop", "last_window" },
};

START_TEST(too_large)
{
    posenc_arena *arena = posenc_arena_new(1 << 20);
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert(!posenc_request_init(&r, "chunk_position_ids", arena, &err));
    ck_assert(!posenc_request_parse(&r, "seq_length=1000000000000&window=100000000000&stride=1", &err));
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_LIMIT);
    posenc_arena_free(arena);
}
END_TEST

START_TEST(bad_input) { refuses("chunk_position_ids", &bad[_i]); }
END_TEST

Suite *chunk_position_ids_suite(void);
Suite *chunk_position_ids_suite(void)
{
    Suite *s = suite_create("chunk_position_ids");
    TCase *t = tcase_create("chunk_position_ids");
    tcase_add_test(t, by_hand);
    tcase_add_loop_test(t, all_small_cuts, 0, 2);
    tcase_add_test(t, apart);
    tcase_add_test(t, too_large);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
