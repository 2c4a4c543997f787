/* test_svd.c - the product of the halves is A; singular values by another solver; padding, flips, repeated values, batches.
 */
#include "spectra.h"

Suite *svd_suite(void);

static const char name[] = "svd";

static double *adjacency(const graph *g)
{
    int64_t n = g->e.num_nodes;
    double *a = calloc((size_t)(n * n + 1), sizeof *a);
    for (int64_t j = 0; j < g->e.nedges; j++) {
        a[g->s[j] * n + g->t[j]] += g->w[j];
        if (!g->e.directed && g->s[j] != g->t[j])
            a[g->t[j] * n + g->s[j]] += g->w[j];
    }
    return a;
}

/* All n singular values asked for: the halves' product is A, columns of each half are orthogonal with squares sigma, which
 * are the roots of the eigenvalues of A^T A. */
static void sound(const graph *g, double tolerance)
{
    int n = (int)g->e.num_nodes;
    char query[64];
    snprintf(query, sizeof query, "k=%d&dtype=float64", n);
    double *a = adjacency(g), *square = calloc((size_t)(n * n), sizeof *square),
           *vectors = malloc((size_t)(n * n) * sizeof *vectors), *values = malloc((size_t)n * sizeof *values);
    posenc_answer e = ask(name, g, query);
    all_finite(&e, "");
    const double *x = pe_tensor(&e.result, "encoding")->data;
    ck_assert_int_eq(size(&e, "encoding", 1), 2 * n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0, left = 0, right = 0;
            for (int k = 0; k < n; k++) {
                sum += x[i * 2 * n + k] * x[j * 2 * n + n + k];
                left += x[k * 2 * n + i] * x[k * 2 * n + j];
                right += x[k * 2 * n + n + i] * x[k * 2 * n + n + j];
                square[i * n + j] += a[k * n + i] * a[k * n + j];
            }
            ck_assert_double_eq_tol(sum, a[i * n + j], tolerance);
            ck_assert_double_eq_tol(left, i == j ? get(&e, "singular_values", i) : 0, tolerance);
            ck_assert_double_eq_tol(right, i == j ? get(&e, "singular_values", i) : 0, tolerance);
        }
    jacobi(n, square, values, vectors);
    for (int i = 0; i < n; i++) {
        double want = values[n - 1 - i] > 0 ? sqrt(values[n - 1 - i]) : 0;
        ck_assert_double_eq_tol(get(&e, "singular_values", i), want, 1e-6 + tolerance);
        if (want > 0.01)
            ck_assert_double_eq_tol(get(&e, "singular_values", i), want, tolerance * 100);
        ck_assert_double_le(get(&e, "residuals", i), 1e-8);
    }
    posenc_answer_fini(&e);
    free(a);
    free(square);
    free(vectors);
    free(values);
}

START_TEST(by_definition)
{
    graph *some[] = { tangle(20, 25, true, false),
                      tangle(20, 30, true, true),
                      tangle(15, 4, false, true),
                      complete(7),
                      path(8),
                      cycle(9),
                      directed(cycle(6)),
                      new_graph(3),
                      directed(path(5)),
                      tangle(70, 300, true, true) };
    for (size_t i = 0; i < LEN(some); i++) {
        sound(some[i], 1e-12 * (i == 9 ? 100 : 1));
        free(some[i]);
    }
    graph *g = path(4); /* loops are kept */
    add_weight(g, 2, 2, 3);
    sound(g, 1e-13);
    posenc_answer a = ask(name, g, "k=1&dtype=float64"), b = ask(name, g, "k=1&self_loops=drop&dtype=float64");
    ck_assert_double_gt(get(&a, "singular_values", 0), 3);
    ck_assert_double_eq_tol(get(&b, "singular_values", 0), 2 * cos(PI / 5), 1e-14);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

/* One arc of weight 9: sigma 9, u = e_0, v = e_1. A pair: 1, 1. */
START_TEST(small_ones)
{
    graph *g = directed(new_graph(3));
    add_weight(g, 0, 1, 9);
    posenc_answer a = ask(name, g, "k=5&dtype=float64");
    ck_assert(get(&a, "singular_values", 0) == 9 || fabs(get(&a, "singular_values", 0) - 9) < 1e-14);
    for (int i = 0; i < 30; i++) /* [U 3 | V 3 | 0 0 0 0] */
        ck_assert_double_eq_tol(get(&a, "encoding", i), i == 0 || i == 13 ? 3 : 0, 1e-14);
    ck_assert(get(&a, "singular_values", 1) == 0 && get(&a, "singular_values", 2) == 0);
    ck_assert(isnan(get(&a, "singular_values", 3)) && isnan(get(&a, "residuals", 4)));
    ck_assert(get(&a, "determined", 0) == 1 && get(&a, "determined", 3) == 0);
    posenc_answer_fini(&a);
    refused(name, g, "k=4&padding=false", PE_INVALID, "k", "at most 3");
    refused(name, g, "k=0", PE_INVALID, "k", "4096");
    refused(name, g, "seed=3", PE_INVALID, "seed", "random_flip");
    g->w[0] = -9;
    refused(name, g, "", PE_INVALID, "graph.edge_weight[0]", "0 or more");
    free(g);
    g = new_graph(0);
    a = ask(name, g, "k=2");
    ck_assert_int_eq(size(&a, "encoding", 0), 0);
    ck_assert_int_eq(size(&a, "encoding", 1), 4);
    ck_assert(isnan(get(&a, "singular_values", 0)));
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

START_TEST(flips)
{
    graph *g = tangle(16, 14, true, true);
    posenc_answer a = ask(name, g, "k=9&dtype=float64");
    int flipped = 0;
    for (int seed = 0; seed < 4; seed++) {
        char query[64];
        snprintf(query, sizeof query, "k=9&random_flip=true&seed=%d&dtype=float64", seed);
        posenc_answer b = ask(name, g, query), again = ask(name, g, query);
        same_bytes(&b, &again);
        for (int k = 0; k < 9; k++) {
            double sign = 0;
            for (int v = 0; v < 16; v++)
                for (int half = 0; half < 2; half++) {
                    double x = get(&a, "encoding", v * 18 + half * 9 + k), y = get(&b, "encoding", v * 18 + half * 9 + k);
                    sign = x == 0 ? sign : y / x;
                    ck_assert(y == x * sign || x == 0);
                }
            flipped += sign < 0;
        }
        posenc_answer_fini(&b);
        posenc_answer_fini(&again);
    }
    ck_assert_int_gt(flipped, 6);
    ck_assert_int_lt(flipped, 30);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

START_TEST(relabelled_and_repeated)
{
    graph *g = tangle(22, 30, true, true);
    int64_t names[22];
    for (int i = 0; i < 22; i++)
        names[i] = (i * 9 + 4) % 22;
    graph *h = relabelled(g, names);
    posenc_answer a = ask(name, g, "k=6&dtype=float64"), b = ask(name, h, "k=6&dtype=float64");
    for (int k = 0; k < 6; k++) {
        ck_assert(get(&a, "determined", k) == 1);
        for (int v = 0; v < 22; v++)
            for (int half = 0; half < 12; half += 6)
                ck_assert_double_eq_tol(get(&a, "encoding", v * 12 + half + k),
                                        get(&b, "encoding", names[v] * 12 + half + k), 1e-10);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    free(h);
    g = directed(cycle(6)); /* a permutation: six times 1, the columns are arcs */
    a = ask(name, g, "k=6&dtype=float64");
    for (int k = 0; k < 6; k++) {
        ck_assert_double_eq_tol(get(&a, "singular_values", k), 1, 1e-14);
        int at = -1;
        for (int v = 0; v < 6; v++)
            if (fabs(get(&a, "encoding", v * 12 + k)) > 0.5)
                at = v;
        ck_assert_double_eq_tol(get(&a, "encoding", at * 12 + k), 1, 1e-14);
        ck_assert_double_eq_tol(get(&a, "encoding", (at + 1) % 6 * 12 + 6 + k), 1, 1e-14);
    }
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* The columns of `a` divided by `by`, against those of `one`: of a determined pair of columns, both halves with one sign. */
static void same_but_for_unit(posenc_answer *one, posenc_answer *a, double by)
{
    for (int column = 0; column < 4; column++) {
        int top = column; /* the largest entry of the left half */
        for (int v = column; v < 9 * 8; v += 8)
            top = fabs(get(one, "encoding", v)) > fabs(get(one, "encoding", top)) ? v : top;
        const double sign = get(one, "encoding", top) * get(a, "encoding", top) < 0 ? -1 : 1;
        for (int v = column; v < 9 * 8 && get(one, "determined", column) != 0; v += 4)
            ck_assert_double_eq_tol(sign * get(a, "encoding", v) / by, get(one, "encoding", v), 1e-11);
    }
}

/* Another unit of weights. A power of two rounds nothing: the same columns, signs and all. Others change the bits of the
 * weights, and with them the order of colours, which may choose another pivot and so another sign. */
START_TEST(units)
{
    static const double sizes[] = { 0x1p-30, 0x1p100, 0x1p900, 0.1, 1e-9, 1e30, 1e300, 1e-300 };
    enum { POWERS = 3 };
    graph *g = tangle(9, 5, false, true);
    posenc_answer one = ask(name, g, "k=4&dtype=float64");
    for (size_t i = 0; i < LEN(sizes); i++) {
        for (int64_t j = 0; j < g->e.nedges; j++)
            g->w[j] = sizes[i];
        g->e.weight = g->w;
        posenc_answer a = ask(name, g, "k=4&dtype=float64");
        for (int v = 0; v < 9 * 8 && i < POWERS; v++)
            ck_assert_double_eq(get(&a, "encoding", v) / sqrt(sizes[i]), get(&one, "encoding", v));
        same_but_for_unit(&one, &a, sqrt(sizes[i]));
        posenc_answer_fini(&a);
    }
    posenc_answer_fini(&one);
    for (int64_t j = 0; j < g->e.nedges; j++)
        g->w[j] = 1e300;
    refused(name, g, "", PE_INVALID, "graph.edge_weight", "float64");
    g->w[0] = 1e-300; /* nothing beside the others */
    posenc_answer a = ask(name, g, "k=4&dtype=float64");
    all_finite(&a, "");
    posenc_answer_fini(&a);
    free(g);
    as_if_alone(name, "k=5", true, "encoding", "singular_values");
    as_if_alone(name, "k=14&dtype=float64&random_flip=true&seed=3", false, "encoding", "determined");
    as_if_alone(name, "k=2", true, NULL, "residuals");
}
END_TEST

START_TEST(large_graph_of_arcs)
{
    large g = large_graph(30000, 90000);
    g.e.directed = true;
    posenc_answer a;
    posenc_error err = { 0 };
    char text[500];
    ck_assert_msg(!posenc_encode(name, "k=4&dtype=float64", &g.e, &a, NULL, &err), "%s",
                  posenc_error_text(&err, text, sizeof text));
    for (int i = 0; i < 4; i++) {
        ck_assert_double_le(get(&a, "residuals", i), 1e-8);
        ck_assert(get(&a, "singular_values", i) > 2 && get(&a, "singular_values", i) < 8);
    }
    posenc_answer_fini(&a);
    free(g.memory);
}
END_TEST

Suite *svd_suite(void)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, by_definition);
    tcase_add_test(t, small_ones);
    tcase_add_test(t, flips);
    tcase_add_test(t, relabelled_and_repeated);
    tcase_add_test(t, units);
    tcase_add_test(t, large_graph_of_arcs);
    suite_add_tcase(s, t);
    return s;
}
