/* test_rel_bias_resize.c - geometric grids by hand, bicubic against vit_resize, class rows, spellings of sizes, bad input.
 */
#include "ask.h"

#include <math.h>

static double old(int64_t i) { return (double)(i * i * 7 % 101 - 50) / 16; }

/* The answer for a table of n rows and one head. */
static posenc_answer rows(const char *encoding, const char *name, int64_t n, const char *rest)
{
    char *query = malloc((size_t)n * 24 + 300);
    int used = sprintf(query, "dtype=float64&%s&%s=[", rest, name);
    for (int64_t i = 0; i < n; i++)
        used += sprintf(query + used, "%s[%.9g]", i ? "," : "", old(i));
    sprintf(query + used, "]");
    posenc_answer a = ask(encoding, query);
    free(query);
    return a;
}

static posenc_answer resized(int64_t n, const char *rest) { return rows("rel_bias_resize", "table", n, rest); }

/* 3x3 -> 5x5: q ends at 1.5, old offsets 0, +-1, +-2.5; new offsets 3 and 4 lie beyond and are the last old ones. */
START_TEST(short_geometric_grid)
{
    static const double place[] = { 0, 0, 1.0 / 3, 1, 2, 3, 4 - 1.0 / 3, 4, 4 };
    posenc_answer a = resized(25, "window_size=3,3&new_window_size=5,5&method=geometric");
    ck_assert(a.result.tensor[0].shape[0] == 81 && a.result.tensor[0].shape[1] == 1);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 9; x++) {
            const int64_t i = (int64_t)place[y], j = (int64_t)place[x], i1 = i < 4 ? i + 1 : 4, j1 = j < 4 ? j + 1 : 4;
            const double s = place[y] - (double)i, t = place[x] - (double)j;
            double want = (1 - s) * ((1 - t) * old(i * 5 + j) + t * old(i * 5 + j1)) +
                          s * ((1 - t) * old(i1 * 5 + j) + t * old(i1 * 5 + j1));
            ck_assert_msg(fabs(at(&a, y * 9 + x) - want) < 1e-5, "%d %d: %.17g, want %.17g", y, x, at(&a, y * 9 + x), want);
        }
    ck_assert(at(&a, 40) == old(12)); /* no offset stays no offset */
    posenc_answer_fini(&a);
}
END_TEST

/* 7 -> 12 by 1: 1 + q + ... + q^5 = 11 has q = 1.2397... within the bounds: the ends meet to the 1e-6 of q. */
START_TEST(geometric_ends_meet)
{
    posenc_answer a = resized(13, "window_size=7,1&new_window_size=12,1");
    double q = 1.2, sum = 0;
    for (int i = 0; i < 60; i++) { /* Newton's way, not halving */
        double f = -11, g = 0, power = 1;
        for (int k = 0; k < 6; k++) {
            f += power;
            g += k * power / q;
            power *= q;
        }
        q -= f / g;
    }
    double known[7] = { 0 };
    for (int k = 0; k < 6; k++)
        known[k + 1] = sum += pow(q, k);
    ck_assert_double_eq_tol(known[6], 11, 1e-9);
    for (int d = -11; d <= 11; d++) {
        int k = 0;
        while (k < 5 && known[k + 1] < abs(d) - 1e-9)
            k++;
        double t = (abs(d) - known[k]) / (known[k + 1] - known[k]), near = old(d < 0 ? 6 - k : 6 + k),
               far = old(d < 0 ? 5 - k : 7 + k);
        ck_assert_double_eq_tol(at(&a, 11 + d), near + t * (far - near), 2e-4);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(smaller_geometric_grid) /* q ends at 1.01, and the old grid reaches further than the new one */
{
    posenc_answer a = resized(9, "window_size=5,1&new_window_size=3,1");
    ck_assert(at(&a, 2) == old(4) && at(&a, 1) == old(3) && at(&a, 3) == old(5));
    ck_assert_double_eq_tol(at(&a, 4), old(5) + (old(6) - old(5)) / 1.01, 1e-5);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(bicubic_is_vit_resize)
{
    static const struct {
        const char *own, *vit;
        int64_t n, cells;
    } cases[] = {
        { "method=bicubic&window_size=3,3&new_window_size=5,5", "antialias=false&new_size=9,9", 25, 81 },
        { "method=bicubic&window_size=2,4&new_window_size=4,3", "antialias=false&old_size=3,7&new_size=7,5", 21, 35 },
        { "method=bicubic_antialias&window_size=3,3&new_window_size=5,5", "antialias=true&new_size=9,9", 25, 81 },
        { "method=bicubic_antialias&window_size=5,5&new_window_size=2,2", "antialias=true&new_size=3,3", 81, 9 },
        { "method=bicubic_antialias&new_shape=49,1", "antialias=true&new_size=7,7", 16, 49 }, /* LeViT: any square */
    };
    char rest[100];
    snprintf(rest, sizeof rest, "num_prefix_tokens=0&%s", cases[_i].vit);
    posenc_answer a = resized(cases[_i].n, cases[_i].own), b = rows("vit_resize", "posemb", cases[_i].n, rest);
    ck_assert_int_eq(a.result.tensor[0].shape[0], cases[_i].cells);
    for (int64_t i = 0; i < cases[_i].cells; i++)
        ck_assert(at(&a, i) == at(&b, i));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(class_rows)
{
    static const char *const methods[] = { "geometric", "bicubic", "bicubic_antialias" };
    char rest[100];
    snprintf(rest, sizeof rest, "window_size=3,3&new_window_size=4,4&method=%s", methods[_i]);
    posenc_answer a = resized(28, rest), b = resized(25, rest);
    ck_assert_int_eq(a.result.tensor[0].shape[0], 52);
    for (int i = 0; i < 49; i++)
        ck_assert(at(&a, i) == at(&b, i));
    for (int i = 0; i < 3; i++)
        ck_assert(at(&a, 49 + i) == old(25 + i));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    snprintf(rest, sizeof rest, "window_size=3,3&new_window_size=3,3&method=%s", methods[_i]);
    a = resized(28, rest);
    for (int i = 0; i < 28; i++)
        ck_assert(at(&a, i) == old(i));
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(spellings)
{
    static const char *const queries[] = { "window_size=3,3&new_window_size=4,4",
                                           "new_window_size=4,4",
                                           "new_shape=52,1",
                                           "new_window_size=4,4&new_shape=52,1",
                                           "window_size=3,3&new_shape=52,1",
                                           "window_size=3,3&new_window_size=4,4&new_shape=52,1" };
    posenc_answer a = resized(28, queries[0]), b = resized(28, queries[_i]);
    ck_assert_int_eq(b.result.tensor[0].shape[0], 52);
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 52 * sizeof(double));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

#define TABLE "table=[[0],[1],[2],[3],[4],[5],[6],[7],[8]]"

static const refusal bad[] = {
    { "new_window_size=3,3", "table" },
    { TABLE, "new_window_size" },
    { TABLE "&new_window_size=3", "new_window_size" },
    { TABLE "&new_window_size=3,0", "new_window_size[1]" },
    { TABLE "&new_window_size=3,2.5", "new_window_size[1]" },
    { TABLE "&new_window_size=3,5000", "new_window_size[1]" },
    { TABLE "&new_window_size=3,3&window_size=3,3", "table" },
    { TABLE "&new_window_size=3,3&window_size=2", "window_size" },
    { TABLE "&new_window_size=3,3&new_shape=25,2", "new_shape[1]" },
    { TABLE "&new_window_size=3,3&new_shape=26,1", "new_shape[0]" },
    { TABLE "&new_window_size=3,3&window_size=2,2&new_shape=28,1", "new_shape[0]" },
    { TABLE "&new_shape=26,1", "new_shape[0]" },
    { TABLE "&new_shape=16,1&method=geometric", "method" },
    { TABLE "&new_window_size=3,3&method=linear", "method" },
    { "table=[[1],[2]]&new_window_size=3,3", "window_size" },
    { "table=[1,2,3,4]&new_window_size=3,3", "table" },
    { "table=[[1e39]]&new_window_size=3,3", "table[0][0]" },
    { "table=[[65505]]&new_window_size=1,1&dtype=float16", "table[0][0]" },
};

START_TEST(bad_input) { refuses("rel_bias_resize", &bad[_i]); }
END_TEST

Suite *rel_bias_resize_suite(void);
Suite *rel_bias_resize_suite(void)
{
    Suite *s = suite_create("rel_bias_resize");
    TCase *t = tcase_create("rel_bias_resize");
    tcase_add_test(t, short_geometric_grid);
    tcase_add_test(t, geometric_ends_meet);
    tcase_add_test(t, smaller_geometric_grid);
    tcase_add_loop_test(t, bicubic_is_vit_resize, 0, 5);
    tcase_add_loop_test(t, class_rows, 0, 3);
    tcase_add_loop_test(t, spellings, 0, 6);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
