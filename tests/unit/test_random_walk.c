/* test_random_walk.c - return probabilities against powers of P, closed forms, and what peers are wrong about. */
#include "walk_graphs.h"

Suite *random_walk_suite(void);

static const char name[] = "random_walk";

/* diag(P^t), t = 1 .. steps, by plain products: (n, steps). */
static double *powers(const graph *g, int64_t steps)
{
    const int64_t n = g->e.num_nodes;
    double *p = dense(g), *m = calloc((size_t)(n * n), sizeof *m), *next = calloc((size_t)(n * n), sizeof *next),
           *out = calloc((size_t)(n * steps), sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        double d = 0;
        for (int64_t j = 0; j < n; j++)
            d += p[i * n + j];
        for (int64_t j = 0; j < n && d > 0; j++)
            p[i * n + j] /= d;
        m[i * n + i] = 1;
    }
    for (int64_t t = 0; t < steps; t++) {
        memset(next, 0, (size_t)(n * n) * sizeof *next);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n; k++)
                for (int64_t j = 0; j < n && m[i * n + k] != 0; j++)
                    next[i * n + j] += m[i * n + k] * p[k * n + j];
        double *swap = m;
        m = next;
        next = swap;
        for (int64_t i = 0; i < n; i++)
            out[i * steps + t] = m[i * n + i];
    }
    free(p);
    free(m);
    free(next);
    return out;
}

static void as_powers(graph *g, int64_t steps)
{
    char query[80];
    snprintf(query, sizeof query, "walk_length=%d&dtype=float64", (int)steps);
    posenc_answer a = ask(name, g, query);
    double *want = powers(g, steps);
    for (int64_t i = 0; i < g->e.num_nodes * steps; i++) {
        double have = get(&a, "encoding", i);
        ck_assert_double_ge(have, 0);
        ck_assert_double_le(have, 1);
        ck_assert_double_eq_tol(have, want[i], 1e-13);
        ck_assert((want[i] == 0) == (have == 0));
    }
    free(want);
    free(g);
    posenc_answer_fini(&a);
}

START_TEST(powers_of_p)
{
    for (int i = 0; i < 60; i++) /* by panels: few nodes */
        as_powers(scatter(1 + any(30), any(70), i & 1, i & 2), 1 + any(12));
    as_powers(grid(25, 23), 7); /* by balls: over 512 nodes and sparse */
    as_powers(scatter(560, 500, true, true), 6);
    as_powers(scatter(560, 500, false, true), 6);
    as_powers(cycle(600), 5);
}
END_TEST

/* ---- complaints about peers ---- */

START_TEST(weights_keep_to_probabilities)
{
    graph *g = scatter(100, 1000, true, true);
    posenc_answer a = ask_once(name, g, "walk_length=20");
    for (int64_t i = 0; i < 2000; i++) {
        ck_assert_double_ge(get(&a, "encoding", i), 0);
        ck_assert_double_le(get(&a, "encoding", i), 1);
    }
    posenc_answer_fini(&a);
    static const double want[] = { 0.5, 0.75, 0.75, 0.5 };
    g = path(4);
    for (int i = 0; i < 3; i++)
        g->w[i] = 0.1;
    g->e.weight = g->w;
    a = ask_once(name, g, "walk_length=2"); /* PyG: 2 */
    for (int i = 0; i < 4; i++) {
        ck_assert_double_eq(get(&a, "encoding", 2 * i), 0);
        ck_assert_double_eq(get(&a, "encoding", 2 * i + 1), want[i]);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(duplicate_edges)
{
    graph *g = path(4);
    add(g, 0, 1); /* P[1, 0] = 2/3; PyG overwrites below 2,000 nodes: 1/2 */
    posenc_answer a = ask(name, g, "walk_length=3"), b = ask(name, g, "walk_length=3&duplicate_edges=max");
    ck_assert_double_eq(get(&a, "encoding", 0), 0);
    ck_assert_double_eq_tol(get(&a, "encoding", 1), 2.0 / 3, 1e-7);
    ck_assert_double_eq(get(&a, "encoding", 2), 0);
    ck_assert_double_eq(get(&b, "encoding", 1), 0.5);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    fails(name, g, "walk_length=3&duplicate_edges=error", PE_INVALID, "graph.edge_index[1][3]");
    free(g);
}
END_TEST

/* ---- invariants ---- */

START_TEST(closed_forms)
{
    posenc_answer a = ask_once(name, complete(6), "walk_length=9&dtype=float64");
    for (int64_t i = 0; i < 6; i++)
        for (int64_t t = 1; t <= 9; t++) /* 1/n + (1 - 1/n) (-1 / (n - 1))^t */
            ck_assert_double_eq_tol(get(&a, "encoding", 9 * i + t - 1), 1.0 / 6 + 5.0 / 6 * pow(-0.2, (double)t), 1e-15);
    posenc_answer_fini(&a);
    a = ask_once(name, star(9), "walk_length=6&dtype=float64");
    for (int64_t t = 1; t <= 6; t++) {
        ck_assert_double_eq(get(&a, "encoding", t - 1), t % 2 ? 0 : 1);
        ck_assert_double_eq(get(&a, "encoding", 6 * 4 + t - 1), t % 2 ? 0 : 0.125);
    }
    posenc_answer_fini(&a);
    a = ask_once(name, cycle(600), "walk_length=16&dtype=float64"); /* as on a line: C(t, t/2) / 2^t */
    const double line[] = { 0, 1. / 2, 0, 3. / 8, 0, 5. / 16, 0, 35. / 128, 0, 63. / 256, 0, 231. / 1024 };
    for (int64_t i = 0; i < 600; i++)
        for (int64_t t = 0; t < 12; t++)
            ck_assert_double_eq(get(&a, "encoding", 16 * i + t), line[t]);
    posenc_answer_fini(&a);
}
END_TEST

/* Sums of thousands of terms around a hub stay within what the documentation says: 1 at the hub, 1 / leaves at a leaf. */
START_TEST(hubs_within_the_bound)
{
    enum { LEAVES = 3000, STEPS = 5 };
    posenc_answer a = ask_once(name, star(LEAVES + 1), "walk_length=5&dtype=float64");
    for (int64_t v = 0; v <= LEAVES; v++)
        for (int t = 1; t <= STEPS; t++) {
            const double want = t % 2 ? 0 : v ? 1.0 / LEAVES : 1, bound = (t * (LEAVES + 2.0) + LEAVES + 4) * 0x1p-53;
            ck_assert_double_le(fabs(get(&a, "encoding", v * STEPS + t - 1) - want), want * bound);
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(bipartite_and_trace)
{
    graph *g = grid(5, 7);
    posenc_answer a = ask(name, g, "walk_length=11&dtype=float64");
    double *want = powers(g, 11);
    for (int64_t t = 0; t < 11; t++) {
        double trace = 0, sum = 0;
        for (int64_t i = 0; i < 35; i++) {
            sum += get(&a, "encoding", 11 * i + t);
            trace += want[11 * i + t];
            if (t % 2 == 0)
                ck_assert_double_eq(get(&a, "encoding", 11 * i + t), 0);
        }
        ck_assert_double_eq_tol(sum, trace, 1e-12);
    }
    free(want);
    free(g);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(loops_and_dead_ends)
{
    graph *g = new_graph(5); /* 0 -> 1 -> 2, a loop at 0; 3 and 4 alone */
    g->e.directed = true;
    add(g, 0, 0);
    add(g, 0, 1);
    add(g, 1, 2);
    posenc_answer a = ask(name, g, "walk_length=3"), b = ask(name, g, "walk_length=3&self_loops=drop");
    static const double want[] = { 0.5, 0.25, 0.125 };
    for (int64_t i = 0; i < 15; i++) {
        ck_assert_double_eq(get(&a, "encoding", i), i < 3 ? want[i] : 0);
        ck_assert_double_eq(get(&b, "encoding", i), 0);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    a = ask_once(name, new_graph(0), "walk_length=3");
    ck_assert_int_eq(size_of(&a, "encoding", 0), 0);
    ck_assert_int_eq(size_of(&a, "encoding", 1), 3);
    posenc_answer_fini(&a);
    a = ask_once(name, new_graph(0), "walk_length=3&method=probe");
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(scales_of_weights)
{
    static const double scales[] = { 1e-9, 0.1, 1e30, 1e300, 1e-320 };
    graph *g = scatter(20, 40, false, true);
    posenc_answer a = ask(name, g, "walk_length=8&dtype=float64");
    for (size_t s = 0; s < 4; s++) {
        graph *h = new_graph(20);
        for (int64_t i = 0; i < g->e.nedges; i++)
            add_weight(h, g->s[i], g->t[i], g->w[i] * scales[s]);
        posenc_answer b = ask_once(name, h, "walk_length=8&dtype=float64");
        for (int64_t i = 0; i < 160; i++)
            ck_assert_double_eq_tol(get(&a, "encoding", i), get(&b, "encoding", i), 1e-13);
        posenc_answer_fini(&b);
    }
    posenc_answer_fini(&a);
    free(g);
    g = new_graph(3); /* degrees farther apart than float64 reaches: 0 - 1 is nothing to 1, and all to 0 */
    add_weight(g, 0, 1, scales[4]);
    add_weight(g, 1, 2, 1e300);
    a = ask(name, g, "walk_length=4&dtype=float64");
    posenc_answer b = ask_once(name, g, "walk_length=4&dtype=float64&method=probe");
    static const double want[] = { 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1 };
    for (int64_t i = 0; i < 12; i++) {
        ck_assert_double_eq_tol(get(&a, "encoding", i), want[i], 1e-15);
        ck_assert(isfinite(get(&b, "encoding", i)) && isfinite(get(&b, "standard_error", i)));
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- parameters ---- */

START_TEST(columns)
{
    graph *g = scatter(12, 30, false, false);
    posenc_answer a = ask(name, g, "walk_length=6&dtype=float64"), b = ask(name, g, "ksteps=5,2,2&dtype=float64"),
                  c = ask(name, g, "ksteps=1,2,3,4,5,6&dtype=float64"),
                  d = ask(name, g, "ksteps=4,1&space_dim=3&dtype=float64");
    for (int64_t i = 0; i < 12; i++) {
        ck_assert_double_eq(get(&b, "encoding", 3 * i), get(&a, "encoding", 6 * i + 4));
        ck_assert_double_eq(get(&b, "encoding", 3 * i + 2), get(&a, "encoding", 6 * i + 1));
        ck_assert_double_eq(get(&d, "encoding", 2 * i), get(&a, "encoding", 6 * i + 3) * 8); /* 4^1.5 */
        ck_assert_double_eq(get(&d, "encoding", 2 * i + 1), get(&a, "encoding", 6 * i));
    }
    same_bytes(&a, &c);
    ck_assert_str_eq(a.request.digest, c.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    free(g);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *query, *fields;
    } bad[] = {
        { "", "walk_length" },
        { "walk_length=0", "walk_length" },
        { "walk_length=1025", "walk_length" },
        { "walk_length=3&ksteps=1,2", "ksteps" },
        { "ksteps=1,2.5,0.5", "ksteps[2]" },
        { "ksteps=1,2.5", "ksteps[1]" },
        { "walk_length=3&num_probes=8", "num_probes" },
        { "walk_length=3&method=probe&num_probes=1", "num_probes" },
        { "walk_length=3&seed=1", "seed" },
        { "walk_length=1000&space_dim=64&dtype=float16", "space_dim" },
        { "walk_length=3&space_dim=-1", "space_dim" },
        { "walk_length=3&on_directed=error", "on_directed" },
    };
    graph *g = cycle(5);
    for (size_t i = 0; i < PE_LEN(bad); i++)
        fails(name, g, bad[i].query, PE_INVALID, bad[i].fields);
    add_weight(g, 0, 2, -1);
    fails(name, g, "walk_length=3", PE_INVALID, "graph.edge_weight[5]");
    g->w[5] = 2;
    add_weight(g, 2, 0, 1);
    fails(name, g, "walk_length=3", PE_INVALID, "graph.edge_index[1][5]");
    posenc_answer a = ask(name, g, "walk_length=3&symmetrize=sum");
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* Balls fill up at once, and there are too many nodes for panels: refused before it begins, with the way out. */
START_TEST(too_large_to_be_exact)
{
    enum { N = 60000, M = 400000 };
    int64_t *s = malloc(2 * M * sizeof *s);
    ck_assert_ptr_nonnull(s);
    for (int64_t i = 0; i < M; i++) {
        s[i] = any(N);
        s[M + i] = any(N);
    }
    const posenc_edges e = { .num_nodes = N, .nedges = M, .source = s, .target = s + M, .directed = true };
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode(name, "walk_length=200", &e, &a, NULL, &err), PE_LIMIT);
    ck_assert_str_eq(err.fault[0].field, "method");
    ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "method=probe"));
    free(s);
}
END_TEST

/* ---- estimates ---- */

START_TEST(probes)
{
    for (int i = 0; i < 2; i++) {
        graph *g = scatter(60, 240, i, true);
        posenc_answer a = ask(name, g, "walk_length=8&dtype=float64"),
                      b = ask(name, g, "walk_length=8&dtype=float64&method=probe&num_probes=2000&seed=3"),
                      c = ask(name, g, "walk_length=8&dtype=float64&method=probe&num_probes=2000&seed=4"),
                      d = ask(name, g, "walk_length=8&dtype=float64&method=probe&num_probes=500&seed=3");
        double squares = 0, n = 0, few = 0, many = 0;
        int differ = 0;
        for (int64_t k = 0; k < 480; k++) {
            double have = get(&b, "encoding", k), want = get(&a, "encoding", k), error = get(&b, "standard_error", k);
            ck_assert(have >= 0 && have <= 1);
            if (k % 8 < 2) {
                ck_assert_double_eq_tol(have, want, 1e-15);
                ck_assert_double_eq(error, 0);
                continue;
            }
            ck_assert_double_le(fabs(have - want), 6 * error + 1e-12);
            if (error > 1e-9) {
                squares += (have - want) * (have - want) / error / error;
                n++;
            }
            differ += have != get(&c, "encoding", k);
            many += error;
            few += get(&d, "standard_error", k);
        }
        ck_assert_double_gt(n, 300);
        ck_assert_double_le(squares / n, 1.5); /* the standard error is one */
        ck_assert_double_ge(squares / n, 0.5);
        ck_assert_double_eq_tol(few / many, 2, 0.2);
        ck_assert_int_gt(differ, 300);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
        posenc_answer_fini(&c);
        posenc_answer_fini(&d);
        free(g);
    }
    posenc_answer a = ask_once(name, grid(5, 5), "walk_length=7&method=probe&num_probes=9");
    for (int64_t i = 0; i < 175; i++)
        if (i % 7 % 2 == 0) /* odd steps in a bipartite graph */
            ck_assert(get(&a, "encoding", i) == 0 && get(&a, "standard_error", i) == 0);
    posenc_answer_fini(&a);
}
END_TEST

/* ---- promises ---- */

START_TEST(order_and_company_do_not_show)
{
    static const char *const names[] = { "encoding", NULL }, *const two[] = { "encoding", "standard_error", NULL };
    graph *g = scatter(40, 90, true, true), *h = scatter(17, 30, true, true);
    int64_t p[40];
    as_if_alone(name, g, h, "walk_length=9", names);
    as_if_alone(name, g, h, "walk_length=9&method=probe", two);
    for (int64_t i = 0; i < 40; i++)
        p[i] = i;
    graph *same = relabelled(g, p);
    posenc_answer a = ask(name, g, "walk_length=9"), b = ask_once(name, same, "walk_length=9");
    same_bytes(&a, &b);
    posenc_answer_fini(&b);
    shuffle(p, 40);
    b = ask_once(name, relabelled(g, p), "walk_length=9");
    for (int64_t i = 0; i < 40; i++)
        for (int64_t t = 0; t < 9; t++)
            ck_assert_double_eq_tol(get(&a, "encoding", 9 * i + t), get(&b, "encoding", 9 * p[i] + t), 1e-6);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    free(h);
}
END_TEST

START_TEST(one_bad_graph)
{
    graph *g = cycle(3), *h = cycle(4), *b;
    h->w[2] = -1;
    b = both(g, h);
    posenc_answer a = ask(name, b, "walk_length=2&method=probe");
    ck_assert_double_eq(get(&a, "status", 0), 0);
    ck_assert_double_eq(get(&a, "status", 1), 400);
    ck_assert_double_eq(get(&a, "encoding", 1), 0.5);
    ck_assert_double_nan(get(&a, "encoding", 6));
    ck_assert_double_nan(get(&a, "standard_error", 13));
    ck_assert(warned(&a, "graph 1: graph.edge_weight: 0 or more"));
    ck_assert(!warned(&a, "allow_negative"));
    posenc_answer_fini(&a);
    free(g);
    free(h);
    free(b);
}
END_TEST

START_TEST(zero_weights)
{
    graph *g = path(3);
    add_weight(g, 0, 2, 0);
    posenc_answer a = ask_once(name, g, "walk_length=2"), b = ask_once(name, path(3), "walk_length=2");
    same_bytes(&a, &b);
    ck_assert(warned(&a, "1 edge of weight 0 left out"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(no_memory_and_no_time)
{
    static const char *const queries[] = { "walk_length=5", "walk_length=5&method=probe&num_probes=4" };
    graph *g = scatter(30, 60, true, true), *h = scatter(9, 15, true, true), *b = both(g, h);
    for (size_t i = 0; i < PE_LEN(queries); i++) {
        survives_without_memory(name, g, queries[i]);
        survives_without_memory(name, b, queries[i]);
        stops_anywhere(name, b, queries[i]);
    }
    graph *far = grid(25, 23);
    survives_without_memory(name, far, "walk_length=5");
    survives_without_memory(name, far, "walk_length=5&method=probe&num_probes=4");
    stops_anywhere(name, far, "ksteps=40");
    free(far);
    free(g);
    free(h);
    free(b);
}
END_TEST

Suite *random_walk_suite(void)
{
    Suite *s = suite_create("random_walk");
    TCase *c = tcase_create("random_walk");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, powers_of_p);
    tcase_add_test(c, weights_keep_to_probabilities);
    tcase_add_test(c, duplicate_edges);
    tcase_add_test(c, closed_forms);
    tcase_add_test(c, hubs_within_the_bound);
    tcase_add_test(c, bipartite_and_trace);
    tcase_add_test(c, loops_and_dead_ends);
    tcase_add_test(c, scales_of_weights);
    tcase_add_test(c, columns);
    tcase_add_test(c, refusals);
    tcase_add_test(c, too_large_to_be_exact);
    tcase_add_test(c, probes);
    tcase_add_test(c, order_and_company_do_not_show);
    tcase_add_test(c, one_bad_graph);
    tcase_add_test(c, zero_weights);
    tcase_add_test(c, no_memory_and_no_time);
    suite_add_tcase(s, c);
    return s;
}
