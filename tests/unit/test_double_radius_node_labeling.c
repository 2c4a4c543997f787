/* test_double_radius_node_labeling.c - labels against distances in the graph without the other node; their order; refusals.
 */
#include "paths.h"

Suite *double_radius_node_labeling_suite(void);

#define NAME "double_radius_node_labeling"

/* The graph without node x, as distances: Floyd and Warshall after its edges are taken away. */
static double *without(const net *g, int64_t x)
{
    net *h = net_new(g->e.num_nodes);
    for (int64_t a = 0; a < g->e.nedges; a++)
        if (g->s[a] != x && g->t[a] != x)
            net_add(h, g->s[a], g->t[a], 1);
    double *d = net_floyd(h, false);
    net_free(h);
    return d;
}

START_TEST(labels_of_random_graphs)
{
    net *g = net_er(40, 40 + 15 * _i, false, false, (uint64_t)_i + 1);
    double *from_src = without(g, 31), *from_dst = without(g, 4);
    posenc_answer a = net_ask(NAME, g, "src=4&dst=31"), b = net_ask(NAME, g, "src=31&dst=4");
    net_same(&a, &b);
    for (int64_t v = 0; v < 40; v++) {
        const double s = from_src[4 * 40 + v], t = from_dst[31 * 40 + v];
        double want = 0;
        if (v == 4 || v == 31)
            want = 1;
        else if (!isinf(s) && !isinf(t)) /* 1 + min + (d//2) (d//2 + d%2 - 1) */
            want = 1 + fmin(s, t) + floor((s + t) / 2) * (floor((s + t) / 2) + fmod(s + t, 2) - 1);
        ck_assert_msg(net_value(&a, "labels", v) == want, "node %d: %g, want %g", (int)v, net_value(&a, "labels", v), want);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(from_src);
    free(from_dst);
    net_free(g);
}
END_TEST

/* The table of the paper: (1,1) 2, (1,2) 3, (1,3) 4, (2,2) 5, (1,4) 6, (2,3) 7, on a ring whose pair has a chord. */
START_TEST(labels_of_the_paper)
{
    static const struct {
        int s, t, label;
    } cases[] = { { 1, 1, 2 }, { 1, 2, 3 }, { 1, 3, 4 }, { 2, 2, 5 }, { 1, 4, 6 }, { 2, 3, 7 }, { 1, 5, 8 }, { 2, 4, 9 } };
    for (size_t i = 0; i < LEN(cases); i++) {
        net *g = net_path(cases[i].s + cases[i].t + 1); /* src at one end, dst at the other */
        char query[60];
        snprintf(query, sizeof query, "src=0&dst=%d", cases[i].s + cases[i].t);
        posenc_answer a = net_ask(NAME, g, query);
        ck_assert_int_eq((int)net_value(&a, "labels", cases[i].s), cases[i].label);
        posenc_answer_fini(&a);
        net_free(g);
    }
}
END_TEST

/* A node behind src is not reached from dst once src is gone; isolated ones neither; loops and weights do not count. */
START_TEST(unreached_nodes_and_noise)
{
    net *g = net_path(4);
    g->e.num_nodes = 5;
    g->w[2] = -7.5;
    net_add(g, 1, 1, 1);
    net_add(g, 1, 2, 2);
    posenc_answer a = net_ask(NAME, g, "src=1&dst=3");
    net_values(&a, "labels", 5, (const double[]){ 0, 1, 2, 1, 0 });
    posenc_answer_fini(&a);
    g->e.directed = true; /* taken as an edge */
    a = net_ask(NAME, g, "src=3&dst=1&self_loops=keep");
    net_values(&a, "labels", 5, (const double[]){ 0, 1, 2, 1, 0 });
    ck_assert_int_eq(a.result.nwarnings, 1);
    posenc_answer_fini(&a);
    net_refused(NAME, g, "src=1&dst=3&on_directed=error", PE_INVALID, "graph.directed");
    net_free(g);
}
END_TEST

START_TEST(pairs_of_a_batch)
{
    net *part[] = { net_cycle(5), net_path(2), net_path(1), net_er(30, 60, false, false, 3) };
    net *g = net_batch(part, 4);
    posenc_answer all = net_ask(NAME, g, "src=0&dst=1");
    net_values(&all, "status", 4, (const double[]){ 0, 0, 400, 0 });
    for (int i = 0; i < 4; i++) {
        if (i == 2) {
            ck_assert(net_value(&all, "labels", 7) == -1);
            continue;
        }
        posenc_answer one = net_ask(NAME, part[i], "src=0&dst=1");
        ck_assert_mem_eq((int64_t *)net_tensor(&all, "labels")->data + g->ptr[i], net_tensor(&one, "labels")->data,
                         posenc_tensor_size(net_tensor(&one, "labels")));
        posenc_answer_fini(&one);
    }
    posenc_answer_fini(&all);
    for (int i = 0; i < 4; i++)
        net_free(part[i]);
    net_free(g);
}
END_TEST

/* A ring of 10^6 nodes: labels beyond 2^32. */
START_TEST(large_ring)
{
    net *g = net_cycle(1000000);
    posenc_answer a = net_ask(NAME, g, "src=0&dst=1");
    const double h = 499999; /* node 2: 999998 steps from 0 without 1, and 1 from 1: d = 999999 is odd */
    ck_assert(net_value(&a, "labels", 2) == 1 + 1 + h * h);
    posenc_answer_fini(&a);
    net_free(g);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *query, *fields;
    } cases[] = { { "", "src dst" },        { "src=0", "dst" },           { "src=1&dst=1", "dst" }, { "src=0&dst=5", "dst" },
                  { "src=7&dst=0", "src" }, { "src=5&dst=6", "src dst" }, { "src=-1&dst=0", "src" } };
    net *g = net_path(5);
    for (size_t i = 0; i < LEN(cases); i++)
        net_refused(NAME, g, cases[i].query, PE_INVALID, cases[i].fields);
    net_free(g);
    g = net_new(0);
    net_refused(NAME, g, "src=0&dst=1", PE_INVALID, "src dst");
    net_free(g);
}
END_TEST

Suite *double_radius_node_labeling_suite(void)
{
    Suite *s = suite_create(NAME);
    TCase *t = tcase_create(NAME);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, labels_of_random_graphs, 0, 4);
    tcase_add_test(t, labels_of_the_paper);
    tcase_add_test(t, unreached_nodes_and_noise);
    tcase_add_test(t, pairs_of_a_batch);
    tcase_add_test(t, large_ring);
    tcase_add_test(t, refusals);
    suite_add_tcase(s, t);
    return s;
}
