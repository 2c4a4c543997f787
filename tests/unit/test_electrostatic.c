/* test_electrostatic.c - the definition with a pseudo-inverse by another solver; isolated nodes; units; components. */
#include "estimates.h"

Suite *electrostatic_suite(void);

static const char name[] = "electrostatic";

/* The ten columns by definition, into want (n, 10). */
static void define(const graph *g, double *want)
{
    int n = (int)g->e.num_nodes;
    size_t bytes = (size_t)(n * n) * sizeof(double);
    double *l = malloc(bytes), *vectors = malloc(bytes), *v = calloc(1, bytes), *walk = calloc(1, bytes),
           *values = malloc(bytes);
    plain_laplacian(g, false, l);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            walk[i * n + j] = i != j && l[i * n + i] > 0 ? -l[i * n + j] / l[i * n + i] : 0;
    jacobi(n, l, values, vectors);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n && values[k] > 1e-9; i++)
            for (int j = 0; j < n; j++)
                v[i * n + j] += vectors[k * n + i] * vectors[k * n + j] / values[k];
    for (int j = 0; j < n; j++) {
        double own = v[j * n + j];
        for (int i = 0; i < n; i++)
            v[i * n + j] -= own;
    }
    for (int u = 0; u < n; u++) {
        double *w = want + u * 10;
        memset(w, 0, 10 * sizeof *w);
        for (int side = 0; side < 2; side++) { /* charges at u, then potentials at u */
            double least = INFINITY, most = -INFINITY, sum = 0, squares = 0;
            for (int i = 0; i < n; i++) {
                double x = side ? v[u * n + i] : v[i * n + u];
                least = fmin(least, x);
                most = fmax(most, x);
                sum += x / n;
                w[8 + side] += side ? walk[u * n + i] * x : walk[i * n + u] * x;
            }
            for (int i = 0; i < n; i++)
                squares += pow((side ? v[u * n + i] : v[i * n + u]) - sum, 2);
            w[4 * side] = least;
            w[4 * side + 1] = most;
            w[4 * side + 2] = sum;
            w[4 * side + 3] = n > 1 ? sqrt(squares / (n - 1)) : 0;
        }
    }
    free(l);
    free(vectors);
    free(v);
    free(walk);
    free(values);
}

static void as_defined(graph *g, double tolerance)
{
    int64_t n = g->e.num_nodes;
    double *want = malloc((size_t)(n * 10 + 1) * sizeof *want);
    define(g, want);
    posenc_answer a = ask(name, g, "dtype=float64");
    all_finite(&a, "");
    for (int64_t i = 0; i < n * 10; i++)
        ck_assert_msg(fabs(get(&a, "encoding", i) - want[i]) <= tolerance * (1 + fabs(want[i])),
                      "node %d column %d: %.15g, want %.15g", (int)(i / 10), (int)(i % 10), get(&a, "encoding", i), want[i]);
    posenc_answer_fini(&a);
    free(want);
    free(g);
}

START_TEST(by_definition)
{
    as_defined(tangle(23, 14, false, false), 1e-12);
    as_defined(tangle(40, 90, true, false), 1e-12);
    as_defined(complete(11), 1e-12);
    as_defined(path(150), 1e-10);
    as_defined(path(2), 1e-14);
    graph *g = tangle(30, 20, true, false); /* and three other components, one of a node */
    g->e.num_nodes = 37;
    for (int i = 30; i < 33; i++)
        add_weight(g, i, i < 32 ? i + 1 : 30, 0.5);
    add_weight(g, 33, 34, 3);
    as_defined(g, 1e-12);
}
END_TEST

/* K2: L^+ = [[1, -1], [-1, 1]] / 4, V = [[0, -1/2], [-1/2, 0]]. */
START_TEST(closed_forms)
{
    graph *g = path(2);
    posenc_answer a = ask(name, g, "dtype=float64");
    const double want[10] = { -0.5, 0, -0.25, sqrt(0.125), -0.5, 0, -0.25, sqrt(0.125), -0.5, -0.5 };
    for (int i = 0; i < 20; i++)
        ck_assert_double_eq_tol(get(&a, "encoding", i), want[i % 10], 1e-15);
    posenc_answer_fini(&a);
    free(g);
    g = cycle(30); /* all nodes alike */
    a = ask(name, g, "dtype=float64");
    for (int i = 10; i < 300; i++)
        ck_assert_double_eq_tol(get(&a, "encoding", i), get(&a, "encoding", i % 10), 1e-12);
    ck_assert_double_eq_tol(get(&a, "encoding", 2), -(900 - 1) / (12.0 * 30), 1e-12); /* (L^+)_jj = (n^2 - 1) / 12 n */
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* An isolated atom: no NaN anywhere, and the neighbourhood columns of the others are what they are without it. */
START_TEST(isolated_nodes)
{
    graph *g = tangle(12, 8, false, false);
    posenc_answer a = ask(name, g, "dtype=float64");
    g->e.num_nodes = 13;
    posenc_answer b = ask(name, g, "dtype=float64");
    all_finite(&b, "");
    for (int v = 0; v < 12; v++)
        for (int k = 8; k < 10; k++)
            ck_assert(get(&a, "encoding", v * 10 + k) == get(&b, "encoding", v * 10 + k));
    double most = 0;
    for (int v = 0; v < 12; v++)
        most = fmin(most, get(&a, "encoding", v * 10 + 2)); /* minus the diagonal */
    ck_assert_double_eq_tol(get(&b, "encoding", 124), most, 1e-15);
    for (int k = 0; k < 4; k++)
        ck_assert(get(&b, "encoding", 120 + k) == 0);
    ck_assert(get(&b, "encoding", 128) == 0 && get(&b, "encoding", 129) == 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    for (int n = 0; n < 4; n++) {
        g = new_graph(n);
        a = ask(name, g, "");
        ck_assert_int_eq(size(&a, "encoding", 0), n);
        ck_assert_int_eq(size(&a, "encoding", 1), 10);
        for (int i = 0; i < 10 * n; i++)
            ck_assert(get(&a, "encoding", i) == 0);
        posenc_answer_fini(&a);
        free(g);
    }
}
END_TEST

START_TEST(units_and_edges)
{
    static const double sizes[] = { 0.1, 1e-9, 1e30, 1e-300 };
    graph *g = tangle(9, 5, false, false);
    posenc_answer one = ask(name, g, "dtype=float64");
    for (size_t i = 0; i < LEN(sizes); i++) {
        for (int64_t j = 0; j < g->e.nedges; j++)
            g->w[j] = sizes[i];
        g->e.weight = g->w;
        posenc_answer a = ask(name, g, "dtype=float64");
        for (int v = 0; v < 90; v++)
            ck_assert_double_eq_tol(get(&a, "encoding", v) * sizes[i], get(&one, "encoding", v), 1e-13);
        posenc_answer_fini(&a);
    }
    posenc_answer_fini(&one);
    refused(name, g, "", PE_INVALID, "graph.edge_weight", "float64");
    g->w[2] = -1;
    refused(name, g, "", PE_INVALID, "graph.edge_weight[2]", "0 or more");
    free(g);
    g = directed(path(4));
    refused(name, g, "on_directed=error", PE_INVALID, "graph.directed", "symmetrize");
    posenc_answer a = ask(name, g, "dtype=float64"), b = ask(name, g, "compat_graphgps=true&dtype=float64");
    ck_assert(warned(&a, "directed"));
    for (int i = 0; i < 4; i++)
        ck_assert(get(&b, "encoding", 10 * i + 5) == get(&b, "encoding", 10 * i + 1));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    g = path(3); /* a loop of weight 2 at the middle: degree 4 in D^-1 A, nothing in L */
    add_weight(g, 1, 1, 2);
    a = ask(name, g, "dtype=float64");
    b = ask(name, g, "self_loops=keep&dtype=float64");
    for (int k = 0; k < 8; k++)
        ck_assert_double_eq_tol(get(&a, "encoding", 10 + k), get(&b, "encoding", 10 + k), 1e-15);
    ck_assert_double_eq_tol(get(&b, "encoding", 19), get(&a, "encoding", 19) / 2, 1e-15);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    as_if_alone(name, "", false, "encoding", "status");
    as_if_alone(name, "dtype=float64", true, "encoding", NULL);
}
END_TEST

START_TEST(relabelled_graph)
{
    graph *g = tangle(31, 30, true, false);
    int64_t names[31];
    for (int i = 0; i < 31; i++)
        names[i] = (i * 12 + 3) % 31;
    graph *h = relabelled(g, names);
    posenc_answer a = ask(name, g, "dtype=float64"), b = ask(name, h, "dtype=float64");
    for (int i = 0; i < 310; i++)
        ck_assert_double_eq_tol(get(&a, "encoding", i), get(&b, "encoding", names[i / 10] * 10 + i % 10), 1e-13);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    free(h);
}
END_TEST

/* Weights so far apart that sums overflow on the way: refused, not NaN. */
START_TEST(sums_that_overflow)
{
    graph *g = new_graph(12);
    static const int from[] = { 11, 0, 3, 3, 7, 9, 3, 2, 3, 0, 9 }, to[] = { 3, 10, 2, 9, 1, 3, 5, 10, 1, 5, 11 };
    static const double w[] = { 1, 5, 4, 1e20, 0x1p-53, 1.7e308, 6, 3, 1e-160, 1, 3 };
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        add_weight(g, from[i], to[i], w[i]);
    refused(name, directed(g), "dtype=float64", PE_INVALID, "graph.edge_weight", "");
    free(g);
}
END_TEST

/* ---- estimates ---- */

/* What is no mean: maxima are 0, minima bounds from above, and known where every node is a landmark. */
static void extremes(const graph *g, const char *query, bool all)
{
    posenc_answer a = ask(name, g, query), b = ask(name, g, "dtype=float64");
    for (int64_t v = 0; v < g->e.num_nodes; v++) {
        const double column = get(&a, "encoding", 10 * v), error = get(&a, "standard_error", 10 * v);
        ck_assert(get(&a, "encoding", 10 * v + 1) == 0 && get(&a, "encoding", 10 * v + 5) == 0);
        ck_assert(get(&a, "standard_error", 10 * v + 1) == 0 && get(&a, "standard_error", 10 * v + 5) == 0);
        ck_assert_double_ge(get(&a, "encoding", 10 * v + 4), get(&b, "encoding", 10 * v + 4) - 1e-9);
        ck_assert_double_ge(column, get(&b, "encoding", 10 * v) - 6 * error - 1e-9);
        ck_assert_double_ge(get(&a, "standard_error", 10 * v + 4), 0);
        if (all)
            ck_assert_double_eq_tol(get(&a, "encoding", 10 * v + 4), get(&b, "encoding", 10 * v + 4), 1e-9);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}

START_TEST(estimates)
{
    graph *g = tangle(60, 80, true, false);
    as_far_as_it_says(name, g, "self_loops=drop", 10, 1u << 2 | 1u << 3 | 1u << 7 | 1u << 8 | 1u << 9);
    extremes(g, "method=probe&num_probes=512&dtype=float64", true);
    extremes(g, "method=probe&num_probes=16&dtype=float64", false);
    add_weight(g, 5, 5, 1.5); /* a loop, and other components */
    g->e.num_nodes = 64;
    add_weight(g, 60, 61, 2);
    add_weight(g, 61, 62, 1);
    as_far_as_it_says(name, g, "self_loops=keep", 10, 1u << 2 | 1u << 3 | 1u << 7);
    extremes(g, "method=probe&num_probes=512&dtype=float64", true);
    refused(name, g, "method=probe&num_probes=20", PE_INVALID, "num_probes", "multiple of 8");
    refused(name, g, "seed=3", PE_INVALID, "seed", "method");
    free(g);
    as_if_alone(name, "method=probe&num_probes=16", false, "standard_error", "status");
    as_if_alone(name, "method=probe&num_probes=16", true, "encoding", NULL);
    g = path(2); /* currents through one edge have one size */
    posenc_answer a = ask(name, g, "method=probe&num_probes=16&dtype=float64"), b = ask(name, g, "dtype=float64");
    for (int i = 0; i < 20; i++) {
        if (i % 10 == 3 || i % 10 == 7) /* these have two signs */
            continue;
        ck_assert_double_eq_tol(get(&a, "encoding", i), get(&b, "encoding", i), 1e-12);
        ck_assert_double_eq_tol(get(&a, "standard_error", i), 0, 1e-12);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

/* Triangles, one with a leaf, on threads of 10^-k: potentials within a triangle keep their digits, or it is refused. */
START_TEST(weights_far_apart)
{
    int answered = 0, turned_down = 0;
    for (int k = 0; k <= 300; k += k < 20 ? 1 : 40)
        for (int leaf = 0; leaf < 2; leaf++) {
            graph *g = new_graph(leaf ? 4 : 6);
            for (int i = 0; i < (leaf ? 3 : 6); i++)
                add_weight(g, i, i / 3 * 3 + (i + 1) % 3, 0.75);
            add_weight(g, 0, 3, pow(10, -k));
            posenc_answer a;
            posenc_error err = { 0 };
            const posenc_status st = posenc_encode(name, "dtype=float64", &g->e, &a, NULL, &err);
            if (st) {
                ck_assert_int_eq(st, PE_INVALID);
                ck_assert_str_eq(err.fault[0].field, "graph.edge_weight");
                turned_down++;
            } else if (k >= 10) { /* at node 1: a charge at 1 or 2, the currents to the neighbours by hand */
                const double n = leaf ? 4 : 6, rest = n - 3, direct = 0.75;
                /* out of node 1: (1 + rest) / n of it is to leave at 0, 1 / n at 2 */
                const double to0 = -(2 * (1 + rest) + 1) / (3 * direct * n), to2 = -(2 + (1 + rest)) / (3 * direct * n);
                const double want = 0.75 / (1.5 + pow(10, -k)) * to0 + 0.5 * to2;
                ck_assert_double_eq_tol(get(&a, "encoding", 10 * 1 + 8), want, 1e-6);
                answered++;
            }
            if (!st)
                posenc_answer_fini(&a);
            free(g);
        }
    ck_assert_int_gt(answered, 5);
    ck_assert_int_gt(turned_down, 5);
}
END_TEST

Suite *electrostatic_suite(void)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, by_definition);
    tcase_add_test(t, closed_forms);
    tcase_add_test(t, isolated_nodes);
    tcase_add_test(t, units_and_edges);
    tcase_add_test(t, relabelled_graph);
    tcase_add_test(t, sums_that_overflow);
    tcase_add_test(t, estimates);
    tcase_add_test(t, weights_far_apart);
    suite_add_tcase(s, t);
    return s;
}
