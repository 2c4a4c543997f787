/* test_local_degree_profile.c - degrees of neighbours by hand and by another way of counting. */
#include "walk_graphs.h"

Suite *local_degree_profile_suite(void);

static const char name[] = "local_degree_profile";

static void expect(posenc_answer a, const double *want)
{
    for (int64_t i = 0; i < 5 * size_of(&a, "encoding", 0); i++)
        ck_assert_msg(get(&a, "encoding", i) == want[i], "[%d, %d] is %g, want %g", (int)i / 5, (int)i % 5,
                      get(&a, "encoding", i), want[i]);
    posenc_answer_fini(&a);
}

START_TEST(by_hand)
{
    graph *g = path(4); /* and 4 alone */
    g->e.num_nodes = 5;
    expect(ask(name, g, "dtype=float64"),
           (const double[]){ 1, 2, 2, 2, 0, 2, 1, 2, 1.5, 0.5, 2, 1, 2, 1.5, 0.5, 1, 2, 2, 2, 0, 0, 0, 0, 0, 0 });
    add(g, 0, 0); /* its own neighbour */
    posenc_answer a = ask(name, g, "dtype=float64"), b = ask(name, g, "dtype=float64&self_loops=drop");
    ck_assert_double_eq(get(&a, "encoding", 0), 2);
    ck_assert_double_eq(get(&a, "encoding", 4), 0);
    ck_assert_double_eq(get(&a, "encoding", 8), 2);
    ck_assert_double_eq(get(&b, "encoding", 0), 1);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    g = path(3);
    g->e.directed = true; /* out-degrees 1 1 0 */
    expect(ask_once(name, g, ""), (const double[]){ 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 });
    expect(ask_once(name, new_graph(0), ""), NULL);
}
END_TEST

START_TEST(equal_degrees_have_no_spread)
{
    graph *g = new_graph(9);
    for (int64_t i = 0; i < 9; i++) /* 9 nodes of degree 7 in one ring of parallel edges: no rounding is left */
        for (int k = 0; k < 7; k++)
            add(g, i, (i + 1) % 9);
    posenc_answer a = ask_once(name, g, "dtype=float64");
    for (int64_t i = 0; i < 9; i++) {
        ck_assert_double_eq(get(&a, "encoding", 5 * i + 3), 14);
        ck_assert_double_eq(get(&a, "encoding", 5 * i + 4), 0);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(arc_by_arc)
{
    for (int k = 0; k < 40; k++) {
        graph *g = scatter(1 + any(20), any(60), k & 1, k & 2);
        const int64_t n = g->e.num_nodes, m = g->e.nedges;
        double d[20] = { 0 };
        for (int64_t i = 0; i < m; i++) {
            d[g->s[i]]++;
            d[g->t[i]] += !g->e.directed && g->s[i] != g->t[i];
        }
        posenc_answer a = ask(name, g, "dtype=float64");
        for (int64_t u = 0; u < n; u++) {
            double low = 1e9, high = 0, sum = 0, squares = 0;
            for (int64_t i = 0; i < 2 * m; i++) {
                int64_t e = i % m, x = i < m ? g->s[e] : g->t[e], y = i < m ? g->t[e] : g->s[e];
                if (x != u || (i >= m && (g->e.directed || x == y)))
                    continue;
                low = d[y] < low ? d[y] : low;
                high = d[y] > high ? d[y] : high;
                sum += d[y];
                squares += d[y] * d[y];
            }
            const double c = d[u] > 0 ? d[u] : 1, variance = squares / c - sum / c * (sum / c);
            const double want[] = { d[u], d[u] > 0 ? low : 0, high, sum / c, sqrt(variance > 1e-12 ? variance : 0) };
            for (int64_t j = 0; j < 5; j++)
                ck_assert_double_eq_tol(get(&a, "encoding", 5 * u + j), want[j], 1e-12);
        }
        posenc_answer_fini(&a);
        free(g);
    }
}
END_TEST

START_TEST(batches_and_faults)
{
    static const char *const names[] = { "encoding", NULL };
    graph *g = scatter(20, 50, true, true), *h = scatter(9, 12, true, true);
    as_if_alone(name, g, h, "", names);
    h->w[3] = -1;
    fails(name, h, "", PE_INVALID, "graph.edge_weight[3]");
    fails(name, g, "max_degree=3", PE_INVALID, "max_degree");
    graph *b = both(g, h);
    posenc_answer a = ask(name, b, "");
    ck_assert_double_eq(get(&a, "status", 0), 0);
    ck_assert_double_eq(get(&a, "status", 1), 400);
    ck_assert_double_nan(get(&a, "encoding", 5 * 20));
    ck_assert(!isnan(get(&a, "encoding", 5 * 19)));
    posenc_answer_fini(&a);
    free(b);
    free(g);
    free(h);
}
END_TEST

START_TEST(no_memory_and_no_time)
{
    static const char *const queries[] = { "", "self_loops=drop" };
    graph *g = scatter(30, 60, true, true), *h = scatter(9, 15, true, true), *b = both(g, h);
    for (size_t i = 0; i < PE_LEN(queries); i++) {
        survives_without_memory(name, g, queries[i]);
        survives_without_memory(name, b, queries[i]);
        stops_anywhere(name, b, queries[i]);
    }
    free(g);
    free(h);
    free(b);
}
END_TEST

Suite *local_degree_profile_suite(void)
{
    Suite *s = suite_create("local_degree_profile");
    TCase *c = tcase_create("local_degree_profile");
    tcase_add_test(c, by_hand);
    tcase_add_test(c, equal_degrees_have_no_spread);
    tcase_add_test(c, arc_by_arc);
    tcase_add_test(c, batches_and_faults);
    tcase_add_test(c, no_memory_and_no_time);
    suite_add_tcase(s, c);
    return s;
}
