/* test_heat_kernel.c - closed forms on both ways of computing, the definition by another solver, the null space, units. */
#include "estimates.h"

Suite *heat_kernel_suite(void);

static const char name[] = "heat_kernel";

/* Every node of a cycle: (1/n) sum over j of exp(-t lambda_j). */
START_TEST(cycles)
{
    static const int sizes[] = { 3, 17, 200, 401, 900 }; /* the last two by expansion */
    static const double times[] = { 0, 1e-10, 0.25, 1, 7, 100, 2000 };
    for (size_t c = 0; c < LEN(sizes); c++) {
        int n = sizes[c];
        graph *g = cycle(n);
        for (int round = 0; round < 4; round++) {
            const bool sym = round & 1, all = round & 2;
            char query[200];
            snprintf(query, sizeof query,
                     "kernel_times=0,1e-10,0.25,1,7,100,2000&normalization=%s&exclude_zero=%s&dtype=float64",
                     sym ? "sym" : "none", all ? "false" : "true");
            posenc_answer a = ask(name, g, query);
            for (int t = 0; t < 7; t++) {
                double want = 0;
                for (int j = !all; j < n; j++)
                    want += exp(-times[t] * (sym ? 1 : 2) * (1 - cos(2 * PI * j / n))) / n;
                for (int v = 0; v < n; v += n / 3)
                    ck_assert_double_eq_tol(get(&a, "encoding", v * 7 + t), want, 1e-12);
            }
            posenc_answer_fini(&a);
        }
        free(g);
    }
}
END_TEST

START_TEST(by_definition)
{
    enum { N = 36 };
    static double l[N * N], values[N], vectors[N * N];
    for (int round = 0; round < 4; round++) {
        const bool sym = round & 1, all = round & 2;
        graph *g = tangle(N, 20, true, false);
        plain_laplacian(g, sym, l);
        jacobi(N, l, values, vectors);
        char query[200];
        snprintf(query, sizeof query, "kernel_times=4,0.5&normalization=%s&exclude_zero=%s&dtype=float64&space_dim=3",
                 sym ? "rw" : "none", all ? "false" : "true");
        posenc_answer a = ask(name, g, query);
        for (int v = 0; v < N; v++)
            for (int t = 0; t < 2; t++) {
                double time = t ? 0.5 : 4, want = 0;
                for (int i = !all; i < N; i++)
                    want += pow(time, 1.5) * exp(-time * values[i]) * vectors[i * N + v] * vectors[i * N + v];
                ck_assert_double_eq_tol(get(&a, "encoding", v * 2 + t), want, 1e-12 * (1 + want));
            }
        posenc_answer_fini(&a);
        free(g);
    }
}
END_TEST

/* Two triangles and a node alone: 1/3 of what is left out, nothing of the other component. A path keeps the shares of
 * degrees in sym. The expansion agrees with all eigenpairs where a star hangs on a long path. */
START_TEST(null_space)
{
    graph *g = new_graph(7);
    for (int i = 0; i < 6; i++)
        add(g, i, i / 3 * 3 + (i + 1) % 3);
    posenc_answer a = ask(name, g, "kernel_times=1,5&dtype=float64"),
                  b = ask(name, g, "kernel_times=1,5&exclude_zero=false&dtype=float64"),
                  s = ask(name, g, "kernel_times=1,5&normalization=sym&dtype=float64");
    for (int t = 0; t < 2; t++) {
        double time = t ? 5 : 1;
        for (int v = 0; v < 6; v++) {
            ck_assert_double_eq_tol(get(&a, "encoding", v * 2 + t), 2.0 / 3 * exp(-3 * time), 1e-16);
            ck_assert_double_eq_tol(get(&b, "encoding", v * 2 + t), 1.0 / 3 + 2.0 / 3 * exp(-3 * time), 1e-15);
        }
        ck_assert(get(&a, "encoding", 12 + t) == 0);
        ck_assert(get(&b, "encoding", 12 + t) == 1);
        ck_assert_double_eq_tol(get(&s, "encoding", 12 + t), exp(-time), 1e-16); /* isolated=one: no null vector */
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&s);
    free(g);

    g = path(5);
    const double share[] = { 1.0 / 8, 2.0 / 8, 2.0 / 8, 2.0 / 8, 1.0 / 8 };
    a = ask(name, g, "kernel_times=1000&normalization=sym&exclude_zero=false&dtype=float64");
    for (int v = 0; v < 5; v++)
        ck_assert_double_eq_tol(get(&a, "encoding", v), share[v], 1e-14);
    posenc_answer_fini(&a);
    free(g);

    g = path(300);
    for (int64_t i = 1; i < 100; i++)
        add(g, 299, i);
    a = ask(name, g, "kernel_times=0.5,3&exclude_zero=false&dtype=float64");
    static double l[300 * 300], values[300], vectors[300 * 300];
    plain_laplacian(g, false, l);
    jacobi(300, l, values, vectors);
    for (int v = 0; v < 300; v++)
        for (int t = 0; t < 2; t++) {
            double want = 0;
            for (int i = 0; i < 300; i++)
                want += exp(-(t ? 3 : 0.5) * values[i]) * vectors[i * 300 + v] * vectors[i * 300 + v];
            ck_assert_double_eq_tol(get(&a, "encoding", v * 2 + t), want, 1e-11);
        }
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

START_TEST(units_and_edges)
{
    static const double sizes[] = { 0.1, 1e-9, 1e30, 1e300, 1e-300 };
    graph *g = tangle(8, 4, false, false);
    posenc_answer one = ask(name, g, "kernel_times=2&normalization=sym&dtype=float64");
    for (size_t i = 0; i < LEN(sizes); i++) {
        for (int64_t j = 0; j < g->e.nedges; j++)
            g->w[j] = sizes[i];
        g->e.weight = g->w;
        posenc_answer a = ask(name, g, "kernel_times=2&normalization=sym&dtype=float64"),
                      b = ask(name, g, "kernel_times=1&dtype=float64");
        for (int v = 0; v < 8; v++) {
            ck_assert_double_eq_tol(get(&a, "encoding", v), get(&one, "encoding", v), 1e-14);
            if (sizes[i] > 1)
                ck_assert(get(&b, "encoding", v) == 0);
            else if (sizes[i] < 1e-8)
                ck_assert_double_eq_tol(get(&b, "encoding", v), 7.0 / 8, 1e-7);
        }
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    posenc_answer_fini(&one);
    refused(name, g, "", PE_INVALID, "kernel_times", "");
    refused(name, g, "kernel_times=1,-1", PE_INVALID, "kernel_times[1]", "0");
    refused(name, g, "kernel_times=1,1e6&space_dim=64", PE_INVALID, "kernel_times[1]", "dtype");
    refused(name, g, "kernel_times=1e3&space_dim=4&dtype=float16", PE_INVALID, "kernel_times[0]", "dtype");
    g->w[3] = -1;
    refused(name, g, "kernel_times=1", PE_INVALID, "graph.edge_weight[3]", "0 or more");
    free(g);
    g = directed(path(4));
    refused(name, g, "kernel_times=1&on_directed=error", PE_INVALID, "graph.directed", "symmetrize");
    free(g);
    g = new_graph(0);
    posenc_answer a = ask(name, g, "kernel_times=1,2");
    ck_assert_int_eq(size(&a, "encoding", 0), 0);
    ck_assert_int_eq(size(&a, "encoding", 1), 2);
    posenc_answer_fini(&a);
    free(g);
    large big = large_graph(6000, 0); /* too large for all eigenpairs, too long for the polynomial */
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode(name, "kernel_times=1e9", &big.e, &a, NULL, &err), PE_LIMIT);
    ck_assert_str_eq(err.fault[0].field, "kernel_times");
    ck_assert(strstr(err.fault[0].allowed, "864000000 bytes") != NULL);
    free(big.memory);
    as_if_alone(name, "kernel_times=0.5,3", false, "encoding", "status");
    as_if_alone(name, "kernel_times=2&normalization=sym&dtype=float64", true, "encoding", NULL);
}
END_TEST

START_TEST(relabelled_graph)
{
    graph *g = tangle(31, 30, true, false);
    int64_t names[31];
    for (int i = 0; i < 31; i++)
        names[i] = (i * 12 + 3) % 31;
    graph *h = relabelled(g, names);
    posenc_answer a = ask(name, g, "kernel_times=1,3&dtype=float64"), b = ask(name, h, "kernel_times=1,3&dtype=float64");
    for (int i = 0; i < 62; i++)
        ck_assert_double_eq_tol(get(&a, "encoding", i), get(&b, "encoding", names[i / 2] * 2 + i % 2), 1e-14);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    free(h);
}
END_TEST

/* ---- estimates ---- */

START_TEST(estimates)
{
    graph *g = tangle(40, 60, true, false);
    as_far_as_it_says(name, g, "kernel_times=0.1,1,4", 3, 7);
    as_far_as_it_says(name, g, "kernel_times=0.5,2&normalization=sym&exclude_zero=false&space_dim=2", 2, 3);
    /* nine times are spread in two turns, and each as if it were alone; t = 0 is known */
    posenc_answer a = ask(name, g, "kernel_times=0,1,2,3,4,5,6,7,8&method=probe&num_probes=9&seed=5&dtype=float64"),
                  b = ask(name, g, "kernel_times=8&method=probe&num_probes=9&seed=5&dtype=float64"),
                  c = ask(name, g, "kernel_times=8&method=probe&num_probes=9&seed=6&dtype=float64");
    double off = 0;
    for (int v = 0; v < 40; v++) {
        ck_assert_double_eq_tol(get(&a, "encoding", 9 * v), 1 - 1.0 / 40, 1e-15);
        ck_assert(get(&a, "standard_error", 9 * v) == 0);
        ck_assert_double_eq_tol(get(&a, "encoding", 9 * v + 8), get(&b, "encoding", v), 1e-14);
        off += fabs(get(&b, "encoding", v) - get(&c, "encoding", v));
    }
    ck_assert_double_gt(off, 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    g->e.num_nodes = 42; /* and two nodes alone, which are known */
    a = ask(name, g, "kernel_times=1&normalization=sym&method=probe&dtype=float64");
    ck_assert(get(&a, "standard_error", 41) == 0 && get(&a, "standard_error", 0) > 0);
    ck_assert_double_eq_tol(get(&a, "encoding", 41), exp(-1), 1e-15);
    posenc_answer_fini(&a);
    refused(name, g, "kernel_times=1&num_probes=8", PE_INVALID, "num_probes", "method");
    refused(name, g, "kernel_times=1&method=probe&num_probes=1", PE_INVALID, "num_probes", "2");
    refused(name, g, "kernel_times=1e9&method=probe", PE_LIMIT, "kernel_times", "normalization=sym");
    free(g);
    as_if_alone(name, "kernel_times=0.5,3&method=probe&num_probes=11", false, "standard_error", "status");
    as_if_alone(name, "kernel_times=0.5,3&method=probe&num_probes=11", true, "encoding", NULL);
}
END_TEST

/* Two triangles on a thread of 10^-k: what is left of the slow pair after a time is told right, or the time is refused. */
START_TEST(weights_far_apart)
{
    int answered = 0, turned_down = 0;
    for (int k = 0; k <= 300; k += k < 20 ? 2 : 40)
        for (int late = 0; late < 3; late++) {
            const double thread = pow(10, -k), slow = 2.0 / 3 * thread, time = late == 0 ? 1 : late == 1 ? 1e4 : 1e9;
            graph *g = new_graph(6);
            for (int i = 0; i < 6; i++)
                add_weight(g, i, i / 3 * 3 + (i + 1) % 3, 0.75);
            add_weight(g, 0, 3, thread);
            char query[200];
            snprintf(query, sizeof query, "kernel_times=%g&exclude_zero=false&dtype=float64", time);
            posenc_answer a;
            posenc_error err = { 0 };
            const posenc_status st = posenc_encode(name, query, &g->e, &a, NULL, &err);
            if (st) {
                ck_assert_int_eq(st, PE_INVALID);
                ck_assert_str_eq(err.fault[0].field, "kernel_times[0]");
                ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "weights"));
                turned_down++;
            } else if (k >= 4 && time >= 1e4) { /* the fast pairs are gone, and the slow one is that of two lumps */
                for (int v = 0; v < 6; v++)
                    ck_assert_double_eq_tol(get(&a, "encoding", v), (1 + exp(-time * slow)) / 6, 1e-4 + thread);
                answered++;
            }
            if (!st)
                posenc_answer_fini(&a);
            free(g);
        }
    ck_assert_int_gt(answered, 10);
    ck_assert_int_gt(turned_down, 3);
}
END_TEST

Suite *heat_kernel_suite(void)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, cycles);
    tcase_add_test(t, by_definition);
    tcase_add_test(t, null_space);
    tcase_add_test(t, units_and_edges);
    tcase_add_test(t, relabelled_graph);
    tcase_add_test(t, estimates);
    tcase_add_test(t, weights_far_apart);
    suite_add_tcase(s, t);
    return s;
}
