/* test_beit_relative_position_bias.c - every pair by its offset, resampled tables, the class token, bad input. */
#include "ask.h"

enum { HEADS = 2 };

static double old(int64_t i) { return (double)(i * i * 7 % 101 - 50) / 16; }

static posenc_answer rows(const char *encoding, const char *name, int64_t n, const char *rest)
{
    char *query = malloc((size_t)n * 40 + 300);
    int used = sprintf(query, "dtype=float64&%s&%s=[", rest, name);
    for (int64_t i = 0; i < n; i++)
        used += sprintf(query + used, "%s[%.9g,%.9g]", i ? "," : "", old(HEADS * i), old(HEADS * i + 1));
    sprintf(query + used, "]");
    posenc_answer a = ask(encoding, query);
    free(query);
    return a;
}

static const struct {
    int h, w, new_h, new_w;
} windows[] = { { 3, 3, 3, 3 }, { 2, 3, 2, 3 }, { 1, 1, 1, 1 }, { 3, 3, 4, 5 }, { 2, 4, 3, 1 }, { 4, 4, 2, 2 } };

START_TEST(pairs)
{
    const int h = windows[_i].h, w = windows[_i].w, nh = windows[_i].new_h, nw = windows[_i].new_w;
    const int offsets = (2 * h - 1) * (2 * w - 1), n = nh * nw + 1;
    for (int cubic = 0; cubic < 2; cubic++) {
        const char *word = cubic ? "bicubic" : "bilinear";
        char rest[200];
        snprintf(rest, sizeof rest, "antialias=false&num_prefix_tokens=0&old_size=%d,%d&new_size=%d,%d&interpolation=%s",
                 2 * h - 1, 2 * w - 1, 2 * nh - 1, 2 * nw - 1, word);
        posenc_answer grid = rows("vit_resize", "posemb", offsets, rest);
        snprintf(rest, sizeof rest, "window_size=%d,%d&new_window_size=%d,%d&interpolation=%s", h, w, nh, nw, word);
        posenc_answer a = rows("beit_relative_position_bias", "table", offsets + 3, rest);
        const posenc_tensor *t = &a.result.tensor[0];
        ck_assert(t->rank == 3 && t->shape[0] == HEADS && t->shape[1] == n && t->shape[2] == n);
        for (int head = 0; head < HEADS; head++)
            for (int q = 0; q < n; q++)
                for (int k = 0; k < n; k++) {
                    double want;
                    if (!q || !k)
                        want = old(HEADS * (offsets + (!q && !k ? 2 : q ? 1 : 0)) + head);
                    else
                        want = at(&grid, HEADS * (((q - 1) / nw - (k - 1) / nw + nh - 1) * (2 * nw - 1) + (q - 1) % nw -
                                                  (k - 1) % nw + nw - 1) +
                                             head);
                    ck_assert_msg(at(&a, (head * n + q) * n + k) == want, "%s: head %d, %d to %d", rest, head, q, k);
                }
        posenc_answer_fini(&grid);
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(own_window_by_default)
{
    posenc_answer a = rows("beit_relative_position_bias", "table", 18, "window_size=2,3"),
                  b = rows("beit_relative_position_bias", "table", 18,
                           "window_size=2,3&new_window_size=2,3&interpolation=bilinear");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

#define TABLE "table=[[1],[2],[3],[4],[5],[6]]"

static const refusal bad[] = {
    { "window_size=1,2", "table" },
    { TABLE, "window_size" },
    { TABLE "&window_size=2,2", "table" },
    { TABLE "&window_size=1", "window_size" },
    { TABLE "&window_size=0,2", "window_size[0]" },
    { TABLE "&window_size=1,2&new_window_size=1.5,2", "new_window_size[0]" },
    { TABLE "&window_size=1,2&new_window_size=1,2,3", "new_window_size" },
    { TABLE "&window_size=1,2&interpolation=nearest", "interpolation" },
    { "table=[1,2,3,4,5,6]&window_size=1,2", "table" },
    { "table=[[1],[2],[3],[4],[5],[65505]]&window_size=1,2&dtype=float16", "table[5][0]" },
};

START_TEST(bad_input) { refuses("beit_relative_position_bias", &bad[_i]); }
END_TEST

Suite *beit_relative_position_bias_suite(void);
Suite *beit_relative_position_bias_suite(void)
{
    Suite *s = suite_create("beit_relative_position_bias");
    TCase *t = tcase_create("beit_relative_position_bias");
    tcase_add_loop_test(t, pairs, 0, (int)LEN(windows));
    tcase_add_test(t, own_window_by_default);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
