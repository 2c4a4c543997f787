/* test_personalized_pagerank.c - scores against Gaussian elimination, and what push promises. */
#include "walk_graphs.h"

Suite *personalized_pagerank_suite(void);

static const char name[] = "personalized_pagerank";

enum { SYM, ROW, COL };
static const char *const forms[] = { "sym", "row", "col" };
static const char *const danglings[] = { "leak", "self", "source", "uniform" };

/* alpha (I - (1 - alpha) T)^-1 by Gauss and Jordan; t (n, n) is overwritten by the inverse's scale. */
static void invert(double *t, int64_t n, double alpha, double *s)
{
    for (int64_t i = 0; i < n * n; i++) {
        t[i] = (i % (n + 1) == 0) - (1 - alpha) * t[i];
        s[i] = i % (n + 1) == 0 ? alpha : 0;
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k; i < n; i++)
            pivot = fabs(t[i * n + k]) > fabs(t[pivot * n + k]) ? i : pivot;
        for (int64_t j = 0; j < n; j++) {
            double x = t[k * n + j], y = s[k * n + j];
            t[k * n + j] = t[pivot * n + j];
            s[k * n + j] = s[pivot * n + j];
            t[pivot * n + j] = x;
            s[pivot * n + j] = y;
        }
        const double d = t[k * n + k];
        for (int64_t j = 0; j < n; j++) {
            t[k * n + j] /= d;
            s[k * n + j] /= d;
        }
        for (int64_t i = 0; i < n; i++) {
            const double f = t[i * n + k];
            for (int64_t j = 0; j < n && i != k; j++) {
                t[i * n + j] -= f * t[k * n + j];
                s[i * n + j] -= f * s[k * n + j];
            }
        }
    }
}

/* The definition, one source at a time: dead ends are given the row that `dangling` says. */
static double *truth(const graph *g, double alpha, int form, int dangling)
{
    const int64_t n = g->e.num_nodes;
    const size_t size = (size_t)(n * n) * sizeof(double);
    double *a = dense(g), *t = malloc(size), *s = malloc(size), *out = malloc(size), row[64] = { 0 }, col[64] = { 0 };
    for (int64_t i = 0; i < n * n && form == SYM; i++) {
        double other = a[i % n * n + i / n];
        if (other > a[i])
            a[i] = other;
    }
    for (int64_t i = 0; i < n * n; i++) {
        row[i / n] += a[i];
        col[i % n] += a[i];
    }
    for (int64_t source = 0; source < n; source++) {
        for (int64_t i = 0; i < n * n; i++) { /* of col the transpose, whose rows are walks */
            int64_t u = i / n, v = i % n;
            double w = form == COL ? a[v * n + u] : a[i], d = form == COL ? col[u] : row[u];
            t[i] = d > 0 ? (form == SYM ? (w > 0 ? w / sqrt(row[u] * row[v]) : 0) : w / d)
                   : (dangling == 1 && u == v) || (dangling == 2 && v == source) ? 1
                   : dangling == 3                                               ? 1 / (double)n
                                                                                 : 0;
        }
        invert(t, n, alpha, s);
        for (int64_t v = 0; v < n; v++)
            out[form == COL ? v * n + source : source * n + v] = s[source * n + v];
    }
    free(a);
    free(t);
    free(s);
    return out;
}

static const char *query_of(char text[200], double alpha, int form, int dangling, const char *more)
{
    snprintf(text, 200, "dtype=float64&alpha=%g&normalization=%s&dangling=%s&%s", alpha, forms[form], danglings[dangling],
             more);
    return text;
}

START_TEST(the_definition)
{
    static const double alphas[] = { 0.02, 0.15, 0.6, 1 };
    char q[200];
    for (int k = 0; k < 120; k++) {
        graph *g = scatter(1 + any(14), any(30), k & 1, k & 2);
        const int form = k % 3, dangling = (int)any(form == SYM ? 2 : 4);
        const double alpha = alphas[any(4)];
        const int64_t n = g->e.num_nodes;
        double *want = truth(g, alpha, form, dangling);
        posenc_answer full = ask(name, g, query_of(q, alpha, form, dangling, "output=full")),
                      diag = ask(name, g, query_of(q, alpha, form, dangling, "output=diag")),
                      last = ask(
                          name, g,
                          query_of(q, alpha, form, dangling, n > 1 ? "output=rows&sources=1,0" : "output=rows&sources=0,0"));
        ck_assert_int_eq(size_of(&diag, "scores", 1), 1);
        for (int64_t i = 0; i < n * n; i++) {
            double have = get(&full, "scores", i);
            ck_assert_double_eq_tol(have, want[i], 1e-13);
            ck_assert(have >= 0 && have <= 1);
            ck_assert_msg(have > 0 ? want[i] != 0 : fabs(want[i]) < 1e-15, "%s: [%d] is %g, want %g", q, (int)i, have,
                          want[i]);
            if (i / n == i % n)
                ck_assert_double_eq(get(&diag, "scores", i / n), have);
            if (i / n < 1)
                ck_assert_double_eq(get(&last, "scores", n + i), have);
        }
        posenc_answer_fini(&full);
        posenc_answer_fini(&diag);
        posenc_answer_fini(&last);
        free(want);
        free(g);
    }
}
END_TEST

START_TEST(invariants)
{
    graph *g = scatter(30, 80, false, true);
    posenc_answer row = ask(name, g, "normalization=row&dangling=self&dtype=float64"),
                  col = ask(name, g, "normalization=col&dangling=self&dtype=float64"), sym = ask(name, g, "dtype=float64"),
                  one = ask(name, g, "alpha=1&normalization=row");
    for (int64_t i = 0; i < 30; i++) {
        double across = 0, down = 0;
        for (int64_t j = 0; j < 30; j++) {
            across += get(&row, "scores", 30 * i + j);
            down += get(&col, "scores", 30 * j + i);
            ck_assert_double_eq_tol(get(&row, "scores", 30 * i + j), get(&col, "scores", 30 * j + i), 1e-15);
            ck_assert_double_eq_tol(get(&sym, "scores", 30 * i + j), get(&sym, "scores", 30 * j + i), 1e-15);
            ck_assert_double_eq(get(&one, "scores", 30 * i + j), i == j);
        }
        ck_assert_double_eq_tol(across, 1, 1e-14);
        ck_assert_double_eq_tol(down, 1, 1e-14);
    }
    posenc_answer_fini(&row);
    posenc_answer_fini(&col);
    posenc_answer_fini(&sym);
    posenc_answer_fini(&one);
    free(g);
}
END_TEST

/* ---- the k largest ---- */

START_TEST(ties_stand_by_id)
{
    static const double star_ids[] = { 0, 2, 3, 0, 1, 3 };
    posenc_answer a = ask_once(name, star(8), "output=topk&k=3&dtype=float64");
    for (int64_t i = 0; i < 3; i++) /* all leaves are alike */
        ck_assert_double_eq(get(&a, "ids", i), (double)(i + 1));
    for (int64_t i = 0; i < 3; i++) {
        ck_assert_double_eq(get(&a, "ids", 3 + i), star_ids[i]);
        ck_assert_double_eq(get(&a, "ids", 6 + i), star_ids[3 + i]);
    }
    posenc_answer_fini(&a);
    a = ask_once(name, cycle(101), "output=topk&k=6&alpha=0.2&normalization=row"); /* rounding differs, left and right */
    for (int64_t i = 0; i < 101; i++)
        for (int64_t j = 0; j < 6; j += 2) {
            int64_t low = (i + 101 - j / 2 - 1) % 101, high = (i + j / 2 + 1) % 101;
            ck_assert_double_eq(get(&a, "ids", 6 * i + j), (double)(low < high ? low : high));
            ck_assert_double_eq(get(&a, "ids", 6 * i + j + 1), (double)(low < high ? high : low));
        }
    posenc_answer_fini(&a);
    graph *g = path(2); /* 2 and 3 apart: zeros count, by id; then there is no node left */
    g->e.num_nodes = 4;
    for (int pass = 0; pass < 2; pass++) {
        a = ask(name, g, pass ? "output=topk&k=5&eps=1e-3" : "output=topk&k=5");
        static const double ids[] = { 1, 2, 3, -1, -1, 0, 2, 3, -1, -1, 0, 1, 3, -1, -1 };
        for (int64_t i = 0; i < 15; i++) {
            ck_assert_double_eq(get(&a, "ids", i), ids[i]);
            ck_assert((get(&a, "scores", i) > 0) == (i == 0 || i == 5));
        }
        posenc_answer_fini(&a);
    }
    free(g);
}
END_TEST

START_TEST(sources_choose_rows)
{
    graph *g = scatter(25, 70, true, false);
    posenc_answer all = ask(name, g, "output=topk&k=4&normalization=row"),
                  some = ask(name, g, "output=topk&k=4&normalization=row&sources=24,3,3");
    static const int64_t rows[] = { 24, 3, 3 };
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 4; j++) {
            ck_assert_double_eq(get(&some, "ids", 4 * i + j), get(&all, "ids", 4 * rows[i] + j));
            ck_assert_double_eq(get(&some, "scores", 4 * i + j), get(&all, "scores", 4 * rows[i] + j));
        }
    posenc_answer_fini(&all);
    posenc_answer_fini(&some);
    free(g);
}
END_TEST

/* ---- push ---- */

START_TEST(push_keeps_its_bounds)
{
    char q[200];
    int rough = 0;
    for (int k = 0; k < 90; k++) {
        graph *g = scatter(2 + any(20), any(60), k & 1, k & 2);
        const int form = k % 3, dangling = (int)any(form == SYM ? 2 : 4);
        const double eps = k % 4 ? 1e-2 : 1e-5;
        const int64_t n = g->e.num_nodes;
        double *want = truth(g, 0.15, form, dangling), *a = dense(g), d[64] = { 0 }, mean = 0;
        int64_t arcs = 0;
        for (int64_t i = 0; i < n * n; i++) {
            d[i / n] += a[i];
            mean += a[i];
            arcs += a[i] > 0;
        }
        char more[32];
        snprintf(more, sizeof more, "eps=%g", eps);
        posenc_answer p = ask(name, g, query_of(q, 0.15, form, dangling, more));
        for (int64_t i = 0; i < n * n; i++) {
            const double off = want[i] - get(&p, "scores", i), bound = get(&p, "error_bound", i / n);
            ck_assert_double_ge(off, -1e-13);
            ck_assert_double_le(off, bound + 1e-13);
            rough += off > 1e-12;
            if (g->e.directed || dangling || form == COL)
                continue;
            const double du = d[i / n] > 0 ? d[i / n] * (double)arcs / mean : 1,
                         dv = d[i % n] > 0 ? d[i % n] * (double)arcs / mean : 1;
            ck_assert_double_le(off, eps * (form == SYM ? sqrt(du * dv) : dv) + 1e-13);
        }
        posenc_answer_fini(&p);
        free(want);
        free(a);
        free(g);
    }
    ck_assert_int_gt(rough, 1000); /* it did stop early */
}
END_TEST

START_TEST(scales_of_weights)
{
    static const double scales[] = { 1e-9, 1e30, 1e-300, 1e300 };
    graph *g = scatter(20, 50, false, true);
    for (int form = 0; form < 3; form++)
        for (size_t s = 0; s < 4; s++) {
            char q[200];
            graph *h = new_graph(20);
            for (int64_t i = 0; i < g->e.nedges; i++)
                add_weight(h, g->s[i], g->t[i], g->w[i] * scales[s]);
            posenc_answer a = ask(name, g, query_of(q, 0.15, form, 0, "output=full")),
                          b = ask(name, h, query_of(q, 0.15, form, 0, "output=full")),
                          x = ask(name, g, query_of(q, 0.15, form, 0, "eps=1e-3")),
                          y = ask_once(name, h, query_of(q, 0.15, form, 0, "eps=1e-3"));
            for (int64_t i = 0; i < 400; i++) {
                ck_assert_double_eq_tol(get(&a, "scores", i), get(&b, "scores", i), 1e-14);
                ck_assert_double_eq_tol(get(&x, "scores", i), get(&y, "scores", i), 1e-2);
            }
            posenc_answer_fini(&a);
            posenc_answer_fini(&b);
            posenc_answer_fini(&x);
            posenc_answer_fini(&y);
        }
    free(g);
}
END_TEST

/* ---- refusals and batches ---- */

START_TEST(refusals)
{
    static const struct {
        const char *query, *fields;
    } bad[] = {
        { "alpha=0", "alpha" },
        { "alpha=1.5", "alpha" },
        { "eps=0", "eps" },
        { "output=rows", "sources" },
        { "output=rows&sources=5", "sources[0]" },
        { "output=rows&sources=0,1.5,-1", "sources[2]" },
        { "output=topk&sources=0,1.5,9", "sources[1] sources[2]" },
        { "output=full&sources=1", "sources" },
        { "output=diag&k=4", "k" },
        { "output=topk&k=0", "k" },
        { "dangling=source", "dangling" },
        { "dangling=uniform&normalization=sym", "dangling" },
        { "normalization=row&on_directed=error", "on_directed" },
    };
    graph *g = cycle(5);
    for (size_t i = 0; i < PE_LEN(bad); i++)
        fails(name, g, bad[i].query, PE_INVALID, bad[i].fields);
    g->e.directed = true;
    fails(name, g, "on_directed=error", PE_INVALID, "graph.directed");
    posenc_answer a = ask(name, g, "output=diag");
    ck_assert(warned(&a, "directed"));
    posenc_answer_fini(&a);
    g->e.num_nodes = 30000;
    fails(name, g, "output=full", PE_LIMIT, "output eps");
    a = ask(name, g, "output=topk&sources=29999");
    ck_assert_double_eq(get(&a, "ids", 0), 0);
    posenc_answer_fini(&a);
    g->e.num_nodes = 0;
    g->e.nedges = 0;
    fails(name, g, "output=rows&sources=0", PE_INVALID, "sources[0]");
    a = ask_once(name, g, "");
    ck_assert_int_eq(size_of(&a, "scores", 0), 0);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(too_large_to_be_exact)
{
    enum { N = 60000, M = 300000 };
    int64_t *s = malloc(2 * M * sizeof *s);
    ck_assert_ptr_nonnull(s);
    for (int64_t i = 0; i < 2 * M; i++)
        s[i] = any(N);
    const posenc_edges e = { .num_nodes = N, .nedges = M, .source = s, .target = s + M, .directed = true };
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode(name, "output=topk&normalization=row", &e, &a, NULL, &err), PE_LIMIT);
    ck_assert_str_eq(err.fault[0].field, "eps");
    ck_assert_int_eq(posenc_encode(name, "output=topk&normalization=row&eps=0.1&k=1", &e, &a, NULL, NULL), PE_OK);
    posenc_answer_fini(&a);
    free(s);
}
END_TEST

static posenc_status first_fault(const posenc_edges *e, const char *query, const char *field)
{
    posenc_answer a;
    posenc_error err = { 0 };
    const posenc_status st = posenc_encode(name, query, e, &a, NULL, &err);
    ck_assert_msg(st && !strcmp(err.fault[0].field, field), "%s: %s", query, err.fault[0].field);
    return st;
}

/* A push ends, but not soon where eps is small and rows are many, or one row alone has to reach all nodes over and over. */
START_TEST(too_much_to_push)
{
    enum { N = 60000, M = 300000 };
    int64_t *s = malloc(2 * M * sizeof *s);
    ck_assert_ptr_nonnull(s);
    for (int64_t i = 0; i < 2 * M; i++)
        s[i] = any(N - 1); /* the last node is a dead end */
    posenc_edges e = { .num_nodes = N, .nedges = M, .source = s, .target = s + M };
    ck_assert_int_eq(first_fault(&e, "output=diag&eps=1e-9", "eps"), PE_LIMIT);
    ck_assert_int_eq(first_fault(&e, "output=topk&eps=1e-9&normalization=col", "eps"), PE_LIMIT);
    e.directed = true;
    ck_assert_int_eq(
        first_fault(&e, "output=topk&eps=0.1&normalization=row&dangling=uniform&alpha=0.0001&sources=1", "dangling"),
        PE_LIMIT);
    free(s);
}
END_TEST

/* What the number of nodes alone makes too long is said before anything is computed. */
START_TEST(refused_when_planned)
{
    const posenc_edges e = { .num_nodes = 1000000 };
    static const struct {
        const char *query;
        bool fits;
    } asked[] = {
        { "output=topk", false },
        { "output=diag&normalization=row", false },
        { "output=topk&eps=1e-2", true },
        { "output=topk&sources=1,2,3", true },
    };
    for (size_t i = 0; i < PE_LEN(asked); i++) {
        posenc_arena *a = posenc_arena_new(1 << 28);
        posenc_request r;
        posenc_error err = { 0 };
        ck_assert(!posenc_request_init(&r, name, a, &err) && !posenc_request_parse(&r, asked[i].query, &err));
        ck_assert(!posenc_graph_build(&e, a, &r.graph, &err));
        ck_assert_int_eq(posenc_resolve(&r, &err), asked[i].fits ? PE_OK : PE_LIMIT);
        ck_assert_str_eq(err.fault[0].field, asked[i].fits ? "" : "eps");
        posenc_arena_free(a);
    }
}
END_TEST

START_TEST(batches)
{
    graph *g = scatter(12, 30, true, true), *h = scatter(7, 12, true, true), *b = both(g, h);
    static const char *const names[] = { "scores", NULL }, *const few[] = { "scores", "ids", "error_bound", NULL };
    as_if_alone(name, g, h, "normalization=row&dangling=uniform", names);
    as_if_alone(name, g, h, "output=topk&eps=1e-3", few);
    as_if_alone(name, g, h, "output=diag&normalization=col", names);
    posenc_answer a = ask(name, b, "normalization=row"), r = ask(name, b, "normalization=row&output=rows&sources=13,2,18"),
                  x = ask(name, h, "normalization=row");
    ck_assert_int_eq(size_of(&a, "scores", 0), 144 + 49);
    ck_assert_double_eq(get(&a, "offsets", 1), 144);
    ck_assert_double_eq(get(&a, "offsets", 2), 193);
    static const double at[] = { 0, 7, 19, 26 };
    for (int64_t i = 0; i < 4; i++)
        ck_assert_double_eq(get(&r, "offsets", i), at[i]);
    for (int64_t v = 0; v < 7; v++) {
        ck_assert_double_eq(get(&r, "scores", v), get(&x, "scores", 7 + v));
        ck_assert_double_eq(get(&r, "scores", 19 + v), get(&x, "scores", 42 + v));
    }
    for (int64_t v = 0; v < 12; v++)
        ck_assert_double_eq(get(&r, "scores", 7 + v), get(&a, "scores", 24 + v));
    posenc_answer_fini(&a);
    posenc_answer_fini(&r);
    posenc_answer_fini(&x);
    b->w[0] = -1; /* the first graph fails */
    static const char *const queries[] = { "normalization=row", "normalization=row&output=rows&sources=13,2,18&eps=0.01",
                                           "output=topk&normalization=row&eps=0.01", "output=diag" };
    for (size_t i = 0; i < PE_LEN(queries); i++) {
        a = ask(name, b, queries[i]);
        ck_assert_double_eq(get(&a, "status", 0), 400);
        ck_assert_double_eq(get(&a, "status", 1), 0);
        ck_assert_double_nan(get(&a, "scores", i == 1 ? 7 : 0));
        ck_assert(!isnan(get(&a, "scores", i == 0 ? 144 : i == 1 ? 6 : i == 2 ? 60 : 12)));
        if (i == 0)
            ck_assert_double_eq(get(&a, "offsets", 2), 193);
        if (i == 1)
            ck_assert(isnan(get(&a, "error_bound", 1)) && !isnan(get(&a, "error_bound", 0)));
        if (i == 2)
            ck_assert_double_eq(get(&a, "ids", 3), -1);
        posenc_answer_fini(&a);
    }
    free(g);
    free(h);
    free(b);
}
END_TEST

START_TEST(relabelling_permutes)
{
    graph *g = scatter(30, 70, true, true);
    int64_t p[30];
    shuffle(p, 30);
    posenc_answer a = ask(name, g, "normalization=row&dangling=uniform"),
                  b = ask_once(name, relabelled(g, p), "normalization=row&dangling=uniform");
    for (int64_t i = 0; i < 900; i++)
        ck_assert_double_eq_tol(get(&a, "scores", i), get(&b, "scores", 30 * p[i / 30] + p[i % 30]), 1e-6);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

START_TEST(no_memory_and_no_time)
{
    static const char *const queries[] = { "normalization=row&dangling=uniform",
                                           "output=topk&eps=0.01&normalization=col&dangling=source",
                                           "output=rows&sources=3,1" };
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

Suite *personalized_pagerank_suite(void)
{
    Suite *s = suite_create("personalized_pagerank");
    TCase *c = tcase_create("personalized_pagerank");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, the_definition);
    tcase_add_test(c, invariants);
    tcase_add_test(c, ties_stand_by_id);
    tcase_add_test(c, sources_choose_rows);
    tcase_add_test(c, push_keeps_its_bounds);
    tcase_add_test(c, scales_of_weights);
    tcase_add_test(c, refusals);
    tcase_add_test(c, too_much_to_push);
    tcase_add_test(c, refused_when_planned);
    tcase_add_test(c, too_large_to_be_exact);
    tcase_add_test(c, batches);
    tcase_add_test(c, relabelling_permutes);
    tcase_add_test(c, no_memory_and_no_time);
    suite_add_tcase(s, c);
    return s;
}
