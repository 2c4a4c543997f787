/* test_degree.c - degrees by hand, and the words of the peers. */
#include "walk_graphs.h"

Suite *degree_suite(void);

static const char name[] = "degree";

static void expect(posenc_answer a, const char *output, const double *want)
{
    for (int64_t i = 0; i < size_of(&a, output, 0); i++)
        ck_assert_msg(get(&a, output, i) == want[i], "%s[%d] is %g, want %g", output, (int)i, get(&a, output, i), want[i]);
    posenc_answer_fini(&a);
}

/* 0 -> 1 twice, 0 -> 2, 2 -> 0, a loop at 2; 3 alone */
static graph *arcs(void)
{
    graph *g = new_graph(4);
    g->e.directed = true;
    add_weight(g, 0, 1, 0.5);
    add_weight(g, 0, 1, 0.25);
    add_weight(g, 0, 2, 3);
    add_weight(g, 2, 0, 1);
    add_weight(g, 2, 2, 10);
    return g;
}

START_TEST(directed)
{
    graph *g = arcs();
    const double out[] = { 3, 0, 2, 0 }, in[] = { 1, 2, 2, 0 }, total[] = { 4, 2, 4, 0 }, once[] = { 2, 0, 2, 0 };
    expect(ask(name, g, ""), "out_degree", out);
    expect(ask(name, g, ""), "in_degree", in);
    expect(ask(name, g, ""), "degree", total);
    expect(ask(name, g, "mode=in"), "degree", in);
    expect(ask(name, g, "mode=out"), "degree", out);
    expect(ask(name, g, "duplicate_edges=max"), "out_degree", once);
    expect(ask(name, g, "weighted=true&dtype=float64"), "degree", (const double[]){ 4.75, 0.75, 24, 0 });
    expect(ask(name, g, "weighted=true&mode=in&dtype=float64&self_loops=drop"), "degree", (const double[]){ 1, 0.75, 3, 0 });
    expect(ask(name, g, "weighted=true"), "in_degree", in);
    expect(ask(name, g, "normalized=true&dtype=float64"), "degree", (const double[]){ 4. / 3, 2. / 3, 4. / 3, 0 });
    fails(name, g, "duplicate_edges=error", PE_INVALID, "graph.edge_index[1][0]");
    free(g);
}
END_TEST

START_TEST(undirected)
{
    graph *g = path(3);
    add(g, 0, 0);
    const double plain[] = { 2, 2, 1 };
    expect(ask(name, g, ""), "degree", plain);
    expect(ask(name, g, "mode=in"), "degree", plain);
    expect(ask(name, g, ""), "in_degree", plain);
    expect(ask(name, g, "loops_twice=true"), "degree", (const double[]){ 3, 2, 1 }); /* networkx */
    expect(ask(name, g, "loops_twice=true"), "in_degree", plain);
    expect(ask(name, g, "self_loops=drop&normalized=true"), "degree", (const double[]){ 0.5, 1, 0.5 });
    free(g);
    g = new_graph(1);
    expect(ask_once(name, g, "normalized=true"), "degree", (const double[]){ 1 }); /* networkx */
    expect(ask_once(name, new_graph(0), "normalized=true"), "degree", NULL);
}
END_TEST

START_TEST(largest_degree)
{
    graph *g = star(7);
    expect(ask(name, g, "max_degree=3"), "degree", (const double[]){ 3, 1, 1, 1, 1, 1, 1 });
    expect(ask(name, g, "max_degree=3"), "out_degree", (const double[]){ 3, 1, 1, 1, 1, 1, 1 });
    expect(ask(name, g, "max_degree=0"), "in_degree", (const double[]){ 0, 0, 0, 0, 0, 0, 0 });
    expect(ask(name, g, "max_degree=6&exceeding=error"), "degree", (const double[]){ 6, 1, 1, 1, 1, 1, 1 });
    fails(name, g, "max_degree=5&exceeding=error", PE_INVALID, "max_degree");
    fails(name, g, "exceeding=error", PE_INVALID, "exceeding");
    fails(name, g, "max_degree=-1", PE_INVALID, "max_degree");
    fails(name, g, "mode=both", PE_INVALID, "mode");
    free(g);
}
END_TEST

START_TEST(weights_and_zeros)
{
    graph *g = path(3);
    add_weight(g, 0, 2, 0);
    posenc_answer a = ask(name, g, "");
    ck_assert(warned(&a, "1 edge of weight 0"));
    expect(a, "degree", (const double[]){ 1, 2, 1 });
    g->w[2] = -1;
    fails(name, g, "", PE_INVALID, "graph.edge_weight[2]");
    g->w[2] = 1;
    add_weight(g, 2, 0, 5); /* both directions, once each: weights differ, numbers do not */
    fails(name, g, "", PE_INVALID, "graph.edge_index[1][2]");
    expect(ask(name, g, "symmetrize=max"), "degree", (const double[]){ 2, 2, 2 });
    expect(ask(name, g, "symmetrize=mean"), "degree", (const double[]){ 2, 2, 2 });
    expect(ask(name, g, "symmetrize=mean&weighted=true"), "degree", (const double[]){ 4, 2, 4 });
    expect(ask(name, g, "symmetrize=sum"), "degree", (const double[]){ 3, 2, 3 });
    add_weight(g, 2, 0, 5);
    fails(name, g, "symmetrize=mean", PE_INVALID, "symmetrize");
    free(g);
}
END_TEST

START_TEST(narrow_dtypes)
{
    enum { N = 70000 };
    int64_t *s = calloc(2 * N, sizeof *s);
    ck_assert_ptr_nonnull(s);
    for (int64_t i = 1; i < N; i++)
        s[N + i - 1] = i;
    const posenc_edges e = { .num_nodes = N, .nedges = N - 1, .source = s, .target = s + N };
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode(name, "dtype=float16", &e, &a, NULL, &err), PE_INVALID);
    ck_assert_str_eq(err.fault[0].field, "dtype");
    ck_assert_int_eq(posenc_encode(name, "dtype=float16&normalized=true", &e, &a, NULL, NULL), PE_OK);
    ck_assert_double_eq(get(&a, "degree", 0), 1);
    ck_assert_double_eq(get(&a, "out_degree", 0), N - 1);
    posenc_answer_fini(&a);
    free(s);
}
END_TEST

START_TEST(batches)
{
    static const char *const names[] = { "degree", "in_degree", "out_degree", NULL };
    graph *g = scatter(20, 50, true, true), *h = scatter(9, 12, true, true);
    as_if_alone(name, g, h, "normalized=true&weighted=true", names);
    h->w[0] = -1;
    graph *b = both(g, h);
    posenc_answer a = ask(name, b, "");
    ck_assert_double_eq(get(&a, "status", 1), 400);
    ck_assert_double_nan(get(&a, "degree", 20));
    ck_assert_double_eq(get(&a, "in_degree", 28), -1);
    ck_assert_double_ge(get(&a, "in_degree", 19), 0);
    posenc_answer_fini(&a);
    free(b);
    free(g);
    free(h);
}
END_TEST

START_TEST(no_memory_and_no_time)
{
    static const char *const queries[] = { "weighted=true", "" };
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

Suite *degree_suite(void)
{
    Suite *s = suite_create("degree");
    TCase *c = tcase_create("degree");
    tcase_add_test(c, directed);
    tcase_add_test(c, undirected);
    tcase_add_test(c, largest_degree);
    tcase_add_test(c, weights_and_zeros);
    tcase_add_test(c, narrow_dtypes);
    tcase_add_test(c, batches);
    tcase_add_test(c, no_memory_and_no_time);
    suite_add_tcase(s, c);
    return s;
}
