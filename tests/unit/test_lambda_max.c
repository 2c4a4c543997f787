/* test_lambda_max.c - closed forms, graphs of one and two nodes, bipartite components, large graphs. */
#include "spectra.h"

Suite *lambda_max_suite(void);

static const char name[] = "lambda_max";

static double top(graph *g, const char *query)
{
    posenc_answer a = ask(name, g, query);
    double value = get(&a, "lambda_max", 0);
    ck_assert_double_le(get(&a, "residuals", 0), 1e-8 * (1 + value));
    posenc_answer_fini(&a);
    free(g);
    return value;
}

static graph *star(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 1; i < n; i++)
        add(g, 0, i);
    return g;
}

START_TEST(tiny)
{
    ck_assert(top(new_graph(0), "") == 0);
    ck_assert(top(new_graph(1), "") == 0);
    ck_assert(top(new_graph(1), "normalization=none") == 0);
    ck_assert(top(new_graph(2), "") == 0);
    ck_assert(top(path(2), "dtype=float64") == 2);
    ck_assert(top(path(2), "normalization=none&dtype=float64") == 2);
    ck_assert(top(path(2), "normalization=rw&dtype=float64") == 2);
    ck_assert(top(new_graph(3), "isolated=one") == 1);
    ck_assert(top(new_graph(3), "isolated=one&normalization=none") == 0);
    graph *g = new_graph(2);
    add_weight(g, 0, 1, 0.1);
    ck_assert(top(g, "normalization=none&dtype=float64") == 0.2);
    g = new_graph(2);
    add_weight(g, 0, 1, 1e-9);
    ck_assert(top(g, "dtype=float64") == 2);
    g = new_graph(1);
    add(g, 0, 0);
    ck_assert(top(g, "self_loops=keep&isolated=one") == 0); /* 1 - 1/1 */
}
END_TEST

START_TEST(closed_forms)
{
    ck_assert(top(path(30), "dtype=float64") == 2); /* bipartite: exactly */
    ck_assert(top(cycle(400), "normalization=rw&dtype=float64") == 2);
    ck_assert(top(star(500), "dtype=float64") == 2);
    ck_assert_double_eq_tol(top(star(500), "normalization=none&dtype=float64"), 500, 1e-10);
    ck_assert_double_eq_tol(top(cycle(9), "dtype=float64"), 1 - cos(8 * PI / 9), 1e-14);
    ck_assert_double_eq_tol(top(cycle(401), "dtype=float64"), 1 - cos(400 * PI / 401), 1e-13);
    ck_assert_double_eq_tol(top(cycle(401), "normalization=none&dtype=float64"), 2 - 2 * cos(400 * PI / 401), 1e-12);
    ck_assert_double_eq_tol(top(path(300), "normalization=none&dtype=float64"), 2 + 2 * cos(PI / 300), 1e-12);
    ck_assert_double_eq_tol(top(complete(150), "dtype=float64"), 150.0 / 149, 1e-13);
    ck_assert_double_eq_tol(top(complete(150), "normalization=none&dtype=float64"), 150, 1e-11);
    graph *g = path(2); /* a loop of weight 1 at one end: A = [[1, 1], [1, 0]], I - D^-1/2 A D^-1/2 has trace 3/2 and 0 */
    add(g, 0, 0);
    ck_assert_double_eq_tol(top(g, "self_loops=keep&dtype=float64"), 1.5, 1e-15);
}
END_TEST

START_TEST(any_matrix)
{
    double l[1600], values[40], *vectors = malloc(sizeof l);
    for (int round = 0; round < 4; round++) {
        graph *g = tangle(40, 30, round & 2, false);
        const bool sym = round & 1;
        plain_laplacian(g, sym, l);
        jacobi(40, l, values, vectors);
        ck_assert_double_eq_tol(top(g, sym ? "dtype=float64" : "normalization=none&dtype=float64"), values[39],
                                1e-13 * (1 + values[39]));
    }
    free(vectors);
}
END_TEST

/* The largest of the components; weights of any size; alone and in a batch. */
START_TEST(components)
{
    graph *g = new_graph(8);
    for (int i = 0; i < 3; i++)
        add(g, i, (i + 1) % 3);
    add_weight(g, 3, 4, 10);
    for (int i = 5; i < 8; i++)
        add_weight(g, i, i < 7 ? i + 1 : 5, 2);
    posenc_answer a = ask(name, g, "normalization=none&dtype=float64"), b = ask(name, g, "dtype=float64");
    ck_assert(get(&a, "lambda_max", 0) == 20);
    ck_assert(get(&b, "lambda_max", 0) == 2);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    g = cycle(5);
    for (int i = 0; i < 5; i++)
        g->w[i] = 1e30;
    g->e.weight = g->w;
    ck_assert_double_eq_tol(top(g, "normalization=none&dtype=float64") / 1e30, 2 - 2 * cos(4 * PI / 5), 1e-14);
    as_if_alone(name, "normalization=none", false, NULL, "lambda_max");
    as_if_alone(name, "dtype=float64", true, NULL, "lambda_max");
    as_if_alone(name, "", false, NULL, "residuals");
}
END_TEST

START_TEST(large_graphs)
{
    static const char *const queries[] = { "dtype=float64", "normalization=none&dtype=float64" };
    large g = large_graph(20001, 60000);
    for (size_t i = 0; i < LEN(queries); i++) {
        posenc_answer a;
        posenc_error err = { 0 };
        ck_assert_int_eq(posenc_encode(name, queries[i], &g.e, &a, NULL, &err), PE_OK);
        double value = get(&a, "lambda_max", 0);
        ck_assert_double_le(get(&a, "residuals", 0), 1e-8);
        ck_assert(i ? value > 8 && value < 60 : value > 1.3 && value < 2);
        posenc_answer_fini(&a);
    }
    free(g.memory);
}
END_TEST

START_TEST(refusals)
{
    graph *g = directed(path(5));
    refused(name, g, "on_directed=error", PE_INVALID, "graph.directed", "symmetrize");
    posenc_answer a = ask(name, g, "dtype=float64");
    ck_assert(get(&a, "lambda_max", 0) == 2 && warned(&a, "directed"));
    posenc_answer_fini(&a);
    g->w[2] = -1;
    g->e.weight = g->w;
    refused(name, g, "", PE_INVALID, "graph.edge_weight[2]", "0 or more");
    g->w[2] = 1e300;
    refused(name, g, "normalization=none", PE_INVALID, "graph.edge_weight", "float64");
    refused(name, g, "tol=0", PE_INVALID, "tol", "1e-14");
    free(g);
}
END_TEST

Suite *lambda_max_suite(void)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, tiny);
    tcase_add_test(t, closed_forms);
    tcase_add_test(t, any_matrix);
    tcase_add_test(t, components);
    tcase_add_test(t, large_graphs);
    tcase_add_test(t, refusals);
    suite_add_tcase(s, t);
    return s;
}
