/* test_laplacian_matrix.c - entries by definition, sinks, loops, batches, rows, what is refused. */
#include "spectra.h"

Suite *laplacian_matrix_suite(void);

static const char name[] = "laplacian_matrix";

START_TEST(by_definition)
{
    graph *g = tangle(14, 12, true, false);
    double want[14 * 14];
    for (int sym = 0; sym < 2; sym++) {
        plain_laplacian(g, sym, want);
        posenc_answer a = ask(name, g, sym ? "dtype=float64" : "normalization=none&dtype=float64");
        ck_assert_int_eq(size(&a, "matrix", 0), 14);
        for (int i = 0; i < 14 * 14; i++) {
            ck_assert_double_eq_tol(get(&a, "matrix", i), want[i], 1e-15 * 16);
            ck_assert(get(&a, "matrix", i) == get(&a, "matrix", i % 14 * 14 + i / 14)); /* symmetric to the last bit */
        }
        posenc_answer_fini(&a);
    }
    posenc_answer a = ask(name, g, "normalization=rw&dtype=float64");
    for (int i = 0; i < 14; i++) {
        double sum = 0;
        for (int j = 0; j < 14; j++)
            sum += get(&a, "matrix", i * 14 + j);
        ck_assert_double_eq_tol(sum, 0, 1e-15);
        ck_assert(get(&a, "matrix", i * 15) == 1);
    }
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* 0 -> 1 (weight 4), 0 -> 2, 1 -> 2, and 3 alone: out-degrees 5, 1, 0, 0. */
START_TEST(arcs_as_they_are)
{
    graph *g = directed(new_graph(4));
    add_weight(g, 0, 1, 4);
    add(g, 0, 2);
    add(g, 1, 2);
    const double none[16] = { 5, -4, -1, 0, 0, 1, -1, 0 };
    const double rw[16] = { 1, -0.8, -0.2, 0, 0, 1, -1, 0, 0, 0, 1, 0, 0, 0, 0, 1 };
    double sym[16] = { 1, -4 / sqrt(5), 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1 };
    const double *want[] = { none, rw, sym };
    const char *query[] = { "normalization=none&dtype=float64", "normalization=rw&dtype=float64", "dtype=float64" };
    for (int k = 0; k < 3; k++) {
        posenc_answer a = ask(name, g, query[k]);
        for (int i = 0; i < 16; i++)
            ck_assert_double_eq_tol(get(&a, "matrix", i), want[k][i], 1e-15);
        posenc_answer_fini(&a);
    }
    posenc_answer a = ask(name, g, "isolated=zero&dtype=float64");
    ck_assert(get(&a, "matrix", 10) == 0 && get(&a, "matrix", 15) == 0 && get(&a, "matrix", 0) == 1);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

START_TEST(loops_and_weights)
{
    graph *g = new_graph(3);
    add(g, 0, 1);
    add(g, 1, 1);
    add_weight(g, 1, 2, 0);
    posenc_answer a = ask(name, g, "normalization=none&dtype=float64"),
                  b = ask(name, g, "normalization=none&self_loops=keep&dtype=float64"),
                  c = ask(name, g, "self_loops=keep&dtype=float64");
    ck_assert(warned(&a, "1 edge of weight 0"));
    for (int i = 0; i < 9; i++) /* a loop cancels in D - A */
        ck_assert(get(&a, "matrix", i) == get(&b, "matrix", i));
    ck_assert(get(&c, "matrix", 4) == 0.5);
    ck_assert_double_eq_tol(get(&c, "matrix", 1), -sqrt(0.5), 1e-15);
    ck_assert(get(&c, "matrix", 8) == 1);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    free(g);

    g = path(3); /* weights of any size leave sym as it is */
    posenc_answer one = ask(name, g, "dtype=float64");
    const double weights[] = { 0.1, 1e-9, 1e30, 1e300, 1e-300 };
    for (size_t k = 0; k < LEN(weights); k++) {
        g->w[0] = g->w[1] = weights[k];
        g->e.weight = g->w;
        posenc_answer w = ask(name, g, "dtype=float64");
        for (int i = 0; i < 9; i++)
            ck_assert_double_eq_tol(get(&w, "matrix", i), get(&one, "matrix", i), 4e-16);
        posenc_answer_fini(&w);
    }
    posenc_answer_fini(&one);
    g->w[0] = g->w[1] = 1e300;
    refused(name, g, "normalization=none", PE_INVALID, "graph.edge_weight", "float64");
    g->w[0] = -1;
    refused(name, g, "", PE_INVALID, "graph.edge_weight[0]", "allow_negative");
    g->w[1] = 1;
    posenc_answer negative = ask(name, g, "normalization=none&allow_negative=true&dtype=float64");
    ck_assert(get(&negative, "matrix", 1) == 1 && get(&negative, "matrix", 0) == 1 && get(&negative, "matrix", 4) == 2);
    posenc_answer_fini(&negative);
    free(g);
}
END_TEST

START_TEST(some_rows)
{
    graph *g = tangle(20, 9, false, false);
    posenc_answer all = ask(name, g, ""), some = ask(name, g, "nodes=7,3,7");
    ck_assert_int_eq(size(&some, "matrix", 0), 3);
    ck_assert_int_eq(size(&some, "matrix", 1), 20);
    const float *x = pe_tensor(&all.result, "matrix")->data, *y = pe_tensor(&some.result, "matrix")->data;
    ck_assert_mem_eq(y, x + 7 * 20, 20 * sizeof *x);
    ck_assert_mem_eq(y + 20, x + 3 * 20, 20 * sizeof *x);
    ck_assert_mem_eq(y + 40, x + 7 * 20, 20 * sizeof *x);
    posenc_answer_fini(&all);
    posenc_answer_fini(&some);
    refused(name, g, "nodes=1,20", PE_INVALID, "nodes[1]", "0 .. 19");
    refused(name, g, "nodes=1.5", PE_INVALID, "nodes[0]", "0 .. 19");
    free(g);
}
END_TEST

START_TEST(many_graphs)
{
    graph *part[] = { tangle(5, 2, true, true), directed(new_graph(0)), tangle(3, 1, false, true) };
    graph *g = batch(part, 3);
    posenc_answer b = ask(name, g, "dtype=float64");
    ck_assert_int_eq(size(&b, "matrix", 0), 25 + 9);
    const double ptr[] = { 0, 25, 25, 34 };
    for (int i = 0; i < 4; i++)
        ck_assert(get(&b, "matrix_ptr", i) == ptr[i]);
    for (int k = 0; k < 3; k++) {
        posenc_answer a = ask(name, part[k], "dtype=float64");
        for (int64_t i = 0; i < size(&a, "matrix", 0) * size(&a, "matrix", 1); i++)
            ck_assert(get(&a, "matrix", i) == get(&b, "matrix", (int64_t)ptr[k] + i));
        posenc_answer_fini(&a);
        free(part[k]);
    }
    posenc_answer_fini(&b);
    refused(name, g, "nodes=1", PE_INVALID, "nodes", "flattened");
    g->e.weight = g->w;
    g->w[0] = -1; /* listed first: graph 2's, as batch() lists backwards within a graph */
    int bad = g->s[0] >= 5 ? 2 : 0;
    b = ask(name, g, "dtype=float64");
    for (int i = 0; i < 3; i++)
        ck_assert(get(&b, "status", i) == (i == bad ? 400 : 0));
    for (int i = 0; i < 34; i++)
        ck_assert(isnan(get(&b, "matrix", i)) == (i < 25 ? bad == 0 : bad == 2));
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

START_TEST(too_large)
{
    const posenc_edges e = { .num_nodes = 100000 };
    graph *g = new_graph(100000);
    g->e = e;
    refused(name, g, "", PE_LIMIT, "graph.num_nodes", "40000000000 bytes");
    refused(name, g, "", PE_LIMIT, "graph.num_nodes", "nodes=");
    posenc_answer a = ask(name, g, "nodes=99999");
    ck_assert(get(&a, "matrix", 99999) == 1 && get(&a, "matrix", 0) == 0);
    posenc_answer_fini(&a);
    g->e.num_nodes = 2147483646;
    refused(name, g, "dtype=float64", PE_LIMIT, "graph.num_nodes", "nodes=");
    g->e.num_nodes = 0;
    a = ask(name, g, "");
    ck_assert_int_eq(size(&a, "matrix", 0), 0);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

Suite *laplacian_matrix_suite(void)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, by_definition);
    tcase_add_test(t, arcs_as_they_are);
    tcase_add_test(t, loops_and_weights);
    tcase_add_test(t, some_rows);
    tcase_add_test(t, many_graphs);
    tcase_add_test(t, too_large);
    suite_add_tcase(s, t);
    return s;
}
