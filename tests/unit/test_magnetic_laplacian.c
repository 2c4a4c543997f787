/* test_magnetic_laplacian.c - closed forms, the definition by another solver, both conventions, phases, what is promised
 * about relabelled and reversed graphs. */
#include "spectra.h"

Suite *magnetic_laplacian_suite(void);

static const char name[] = "magnetic_laplacian";

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* H by definition into re, im (n, n). */
static void hermitian(const graph *g, double q, bool mean, bool sym, double *re, double *im)
{
    int64_t n = g->e.num_nodes;
    double *a = calloc((size_t)(n * n), sizeof *a), *d = calloc((size_t)n, sizeof *d);
    for (int64_t j = 0; j < g->e.nedges; j++) {
        a[g->s[j] * n + g->t[j]] += g->w[j];
        if (!g->e.directed)
            a[g->t[j] * n + g->s[j]] += g->w[j];
    }
    for (int64_t u = 0; u < n; u++)
        for (int64_t v = 0; v < n; v++) {
            double x = a[u * n + v], y = a[v * n + u], s = mean ? (x + y) / 2 : fmax(x, y);
            re[u * n + v] = -s * cos(2 * PI * q * (x - y));
            im[u * n + v] = -s * sin(2 * PI * q * (x - y));
            d[u] += s;
        }
    for (int64_t u = 0; u < n; u++) {
        for (int64_t v = 0; v < n && sym; v++) {
            re[u * n + v] /= d[u] > 0 && d[v] > 0 ? sqrt(d[u]) * sqrt(d[v]) : 1;
            im[u * n + v] /= d[u] > 0 && d[v] > 0 ? sqrt(d[u]) * sqrt(d[v]) : 1;
        }
        re[u * n + u] += sym ? 1 : d[u];
    }
    free(a);
    free(d);
}

/* Eigenvalues of H by Jacobi on the real matrix of twice the size. */
static void eigenvalues(int n, const double *re, const double *im, double *values)
{
    int m = 2 * n;
    double *a = malloc((size_t)(m * m) * sizeof *a), *all = malloc((size_t)m * sizeof *all),
           *vectors = malloc((size_t)(m * m) * sizeof *vectors);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int at = i % n * n + j % n;
            a[i * m + j] = i / n == j / n ? re[at] : i < n ? -im[at] : im[at];
        }
    jacobi(m, a, all, vectors);
    for (int i = 0; i < n; i++)
        values[i] = all[2 * i];
    free(a);
    free(all);
    free(vectors);
}

/* Columns first .. of the answer: eigenvalues as given, H v = lambda v, orthonormal, ascending. */
static void sound(posenc_answer *a, const double *re, const double *im, const double *values, int first, double tolerance)
{
    int64_t n = size(a, "eigenvectors_real", 0), k = size(a, "eigenvectors_real", 1), m = 0;
    const double *x = pe_tensor(&a->result, "eigenvectors_real")->data,
                 *y = pe_tensor(&a->result, "eigenvectors_imag")->data;
    while (m < k && !isnan(get(a, "eigenvalues", m)))
        m++;
    ck_assert_int_eq(m, n - first < k ? n - first : k);
    for (int64_t i = 0; i < m; i++) {
        double lambda = get(a, "eigenvalues", i);
        ck_assert_double_eq_tol(lambda, values[first + i], tolerance);
        for (int64_t u = 0; u < n; u++) {
            double r = 0, s = 0;
            for (int64_t v = 0; v < n; v++) {
                r += re[u * n + v] * x[v * k + i] - im[u * n + v] * y[v * k + i];
                s += re[u * n + v] * y[v * k + i] + im[u * n + v] * x[v * k + i];
            }
            ck_assert_double_eq_tol(r, lambda * x[u * k + i], tolerance);
            ck_assert_double_eq_tol(s, lambda * y[u * k + i], tolerance);
        }
        for (int64_t j = 0; j <= i; j++) {
            double r = 0, s = 0;
            for (int64_t v = 0; v < n; v++) {
                r += x[v * k + i] * x[v * k + j] + y[v * k + i] * y[v * k + j];
                s += x[v * k + i] * y[v * k + j] - y[v * k + i] * x[v * k + j];
            }
            ck_assert_double_eq_tol(r, i == j, 1e-11);
            ck_assert_double_eq_tol(s, 0, 1e-11);
        }
        ck_assert_double_le(get(a, "residuals", i), 1e-9);
    }
}

START_TEST(directed_cycles)
{
    static const struct {
        int n;
        double q;
    } cases[] = { { 3, 0.25 }, { 5, 0.2 }, { 7, 0.1 }, { 8, 0.25 }, { 12, 0.5 }, { 40, 0.01 }, { 201, 0.2 }, { 333, 0.25 } };
    for (size_t c = 0; c < LEN(cases); c++) {
        int n = cases[c].n;
        double want[400];
        char query[128];
        snprintf(query, sizeof query, "k=12&skip=none&dtype=float64&q=%g", cases[c].q);
        for (int j = 0; j < n; j++)
            want[j] = 1 - cos(2 * PI * ((double)j / n - cases[c].q));
        qsort(want, (size_t)n, sizeof *want, ascending);
        graph *g = directed(cycle(n));
        posenc_answer a = ask(name, g, query);
        double *re = calloc((size_t)(n * n), sizeof *re), *im = calloc((size_t)(n * n), sizeof *im);
        hermitian(g, cases[c].q, true, true, re, im);
        sound(&a, re, im, want, 0, 1e-9);
        for (int j = 0; j < n && j < 12; j++)
            ck_assert_double_eq_tol(get(&a, "eigenvalues", j), want[j], 1e-12);
        if (cases[c].q * n == rint(cases[c].q * n)) /* the turns around the cycle are whole */
            ck_assert(get(&a, "eigenvalues", 0) == 0);
        posenc_answer_fini(&a);
        free(re);
        free(im);
        free(g);
    }
}
END_TEST

START_TEST(by_definition)
{
    enum { N = 30 };
    static double re[N * N], im[N * N], values[N];
    for (int round = 0; round < 16; round++) {
        const bool sym = round & 1, mean = round & 2, weighted = round & 4;
        graph *g = tangle(N, 25, weighted, true);
        char query[200];
        snprintf(query, sizeof query, "k=40&skip=none&q=%s&symmetrize=%s&normalization=%s&dtype=float64",
                 round & 8 ? "0.07" : "0.25", mean ? "mean" : "max", sym ? "sym" : "none");
        posenc_answer a = ask(name, g, query);
        hermitian(g, round & 8 ? 0.07 : 0.25, mean, sym, re, im);
        eigenvalues(N, re, im, values);
        sound(&a, re, im, values, 0, 1e-11);
        all_finite(&a, "eigenvalues residuals");
        posenc_answer_fini(&a);
        free(g);
    }
}
END_TEST

/* Beyond the dense solver. */
START_TEST(iterated)
{
    enum { N = 150 };
    static double re[N * N], im[N * N], values[N];
    graph *g = tangle(N, 400, true, true);
    posenc_answer a = ask(name, g, "k=6&skip=none&dtype=float64"),
                  b = ask(name, g, "k=6&skip=none&normalization=none&dtype=float64");
    hermitian(g, 0.25, true, true, re, im);
    eigenvalues(N, re, im, values);
    sound(&a, re, im, values, 0, 1e-8);
    hermitian(g, 0.25, true, false, re, im);
    eigenvalues(N, re, im, values);
    sound(&b, re, im, values, 0, 1e-7);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

static void same_as_laplacian(const graph *g, const char *mine, const char *other)
{
    posenc_answer a = ask(name, g, mine), b = ask("laplacian", g, other);
    int64_t n = size(&b, "eigenvectors", 0), k = size(&b, "eigenvectors", 1);
    for (int64_t i = 0; i < k; i++)
        if (!isnan(get(&b, "eigenvalues", i)))
            ck_assert_double_eq_tol(get(&a, "eigenvalues", i), get(&b, "eigenvalues", i), 1e-13);
    for (int64_t i = 0; i < n * k; i++) {
        ck_assert_double_eq_tol(get(&a, "eigenvectors_real", i), get(&b, "eigenvectors", i), 1e-11);
        ck_assert(get(&a, "eigenvectors_imag", i) == 0);
    }
    for (int64_t i = 0; i < k; i++)
        ck_assert(get(&a, "determined", i) == get(&b, "determined", i));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}

START_TEST(real_where_it_is_real)
{
    graph *g = tangle(25, 20, true, true);
    same_as_laplacian(g, "q=0&symmetrize=max&k=10&dtype=float64", "k=10&dtype=float64");
    same_as_laplacian(g, "q=0&symmetrize=max&k=30&skip=none&normalization=none&dtype=float64",
                      "k=30&skip=none&normalization=none&dtype=float64");
    free(g);
    g = tangle(40, 10, false, false); /* undirected: whatever q is */
    same_as_laplacian(g, "q=0.3&k=12&dtype=float64", "k=12&dtype=float64");
    free(g);
    g = complete(9); /* one eigenvalue, eight times */
    same_as_laplacian(g, "k=8&dtype=float64", "k=8&dtype=float64");
    g->e.directed = true;
    posenc_answer a = ask(name, g, "k=9&skip=none&q=0&dtype=float64");
    ck_assert_double_eq_tol(get(&a, "eigenvalues", 8), 9.0 / 8, 1e-14);
    posenc_answer_fini(&a);
    free(g);
    g = directed(path(2)); /* mean: half of each weight, the same sym */
    a = ask(name, g, "k=2&skip=none&q=0&normalization=none&dtype=float64");
    ck_assert(get(&a, "eigenvalues", 0) == 0 && fabs(get(&a, "eigenvalues", 1) - 1) < 1e-15);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* A tree is balanced: the eigenvalues of the real Laplacian, and phases along its arcs. */
START_TEST(trees)
{
    graph *g = directed(path(5));
    const double want[] = { 0, 1 - sqrt(0.5), 1, 1 + sqrt(0.5), 2 };
    for (int round = 0; round < 2; round++) {
        posenc_answer a = ask(
            name, g, round ? "k=5&skip=none&symmetrize=max&q=0.25&dtype=float64" : "k=5&skip=none&q=0.13&dtype=float64");
        for (int i = 0; i < 5; i++)
            ck_assert_double_eq_tol(get(&a, "eigenvalues", i), want[i], 1e-14);
        ck_assert(get(&a, "eigenvalues", 0) == 0);
        /* the null vector: sqrt(d) times a phase that falls by q a step; the pivot (an inner node) is real */
        for (int v = 0; v + 1 < 5; v++) {
            double x = get(&a, "eigenvectors_real", v * 5), y = get(&a, "eigenvectors_imag", v * 5);
            double s = get(&a, "eigenvectors_real", v * 5 + 5), t = get(&a, "eigenvectors_imag", v * 5 + 5);
            double angle = 2 * PI * (round ? 0.25 : 0.13), size_of = hypot(x, y) * hypot(s, t);
            ck_assert_double_eq_tol((x * s + y * t) / size_of, cos(angle), 1e-14);
            ck_assert_double_eq_tol((x * t - y * s) / size_of, -sin(angle), 1e-14);
        }
        posenc_answer_fini(&a);
    }
    free(g);
}
END_TEST

START_TEST(relative_q)
{
    graph *g = directed(cycle(6)); /* 6 one-way arcs and one edge in both directions: min(6, 6) */
    add(g, 0, 3);
    add(g, 3, 0);
    posenc_answer a = ask(name, g, "k=6&q=0.3&q_absolute=false&dtype=float64"), b = ask(name, g, "k=6&q=0.05&dtype=float64");
    for (int i = 0; i < 5; i++)
        ck_assert_double_eq_tol(get(&a, "eigenvalues", i), get(&b, "eigenvalues", i), 1e-13);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    g = directed(new_graph(3)); /* nothing one-way: q is divided by 1 */
    add(g, 0, 1);
    add(g, 1, 0);
    a = ask(name, g, "k=2&q=0.3&q_absolute=false");
    ck_assert(get(&a, "eigenvalues", 0) == 1 && get(&a, "eigenvalues", 1) == 2);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* All arcs reversed: the conjugate vectors. Another labelling: the same rows elsewhere. */
START_TEST(reversed_and_relabelled)
{
    graph *g = tangle(24, 40, true, true), *h = new_graph(24);
    int64_t names[24];
    h->e.directed = true;
    for (int64_t j = 0; j < g->e.nedges; j++)
        add_weight(h, g->t[j], g->s[j], g->w[j]);
    for (int i = 0; i < 24; i++)
        names[i] = (i * 7 + 5) % 24;
    graph *other = relabelled(g, names);
    const char *query = "k=10&skip=none&q=0.1&dtype=float64";
    posenc_answer a = ask(name, g, query), b = ask(name, h, query), c = ask(name, other, query);
    int determined = 0;
    for (int i = 0; i < 10; i++) {
        if (get(&a, "determined", i) == 0)
            continue;
        determined++;
        ck_assert_double_eq_tol(get(&a, "eigenvalues", i), get(&c, "eigenvalues", i), 1e-13);
        for (int v = 0; v < 24; v++) {
            double x = get(&a, "eigenvectors_real", v * 10 + i), y = get(&a, "eigenvectors_imag", v * 10 + i);
            ck_assert_double_eq_tol(get(&b, "eigenvectors_real", v * 10 + i), x, 1e-9);
            ck_assert_double_eq_tol(get(&b, "eigenvectors_imag", v * 10 + i), -y, 1e-9);
            ck_assert_double_eq_tol(get(&c, "eigenvectors_real", names[v] * 10 + i), x, 1e-9);
            ck_assert_double_eq_tol(get(&c, "eigenvectors_imag", names[v] * 10 + i), y, 1e-9);
        }
    }
    ck_assert_int_ge(determined, 8);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    free(g);
    free(h);
    free(other);
}
END_TEST

START_TEST(selection)
{
    graph *g = directed(new_graph(9)); /* a 3-cycle, a 4-cycle with whole turns at q = 1/4, a pair without edges */
    for (int i = 0; i < 3; i++)
        add(g, i, (i + 1) % 3);
    for (int i = 0; i < 4; i++)
        add(g, 3 + i, 3 + (i + 1) % 4);
    posenc_answer none = ask(name, g, "k=12&skip=none&pad_value=nan&dtype=float64"),
                  zero = ask(name, g, "k=3&skip=all_zero&dtype=float64"), three = ask(name, g, "k=3&k_excl=3&dtype=float64"),
                  each = ask(name, g, "k=2&skip=per_component&dtype=float64"),
                  isolated = ask(name, g, "k=9&skip=none&isolated=zero&dtype=float64");
    double want[9] = { 0, 1 - cos(2 * PI / 12), 1, 1, 1, 1, 1, 1 + sin(2 * PI / 3), 2 };
    for (int i = 0; i < 9; i++)
        ck_assert_double_eq_tol(get(&none, "eigenvalues", i), want[i], 1e-13);
    for (int i = 9; i < 12; i++)
        ck_assert(isnan(get(&none, "eigenvalues", i)) && isnan(get(&none, "eigenvectors_real", i)));
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq_tol(get(&zero, "eigenvalues", i), want[1 + i], 1e-13);
        ck_assert_double_eq_tol(get(&three, "eigenvalues", i), want[3 + i], 1e-13);
        ck_assert(get(&isolated, "eigenvalues", i) == 0);
    }
    ck_assert(get(&zero, "multiplicity_cut", 0) == 1 && get(&none, "multiplicity_cut", 0) == 0);
    ck_assert_double_eq_tol(get(&each, "eigenvalues", 0), 1, 1e-13);
    ck_assert_double_eq_tol(get(&each, "eigenvalues", 1), 1 + sin(2 * PI / 3), 1e-13);
    ck_assert_double_eq_tol(get(&each, "eigenvalues", 3 * 2 + 1), 1, 1e-13);
    ck_assert(isnan(get(&each, "eigenvalues", 8 * 2)) && get(&each, "eigenvectors_real", 8 * 2) == 0);
    posenc_answer_fini(&none);
    posenc_answer_fini(&zero);
    posenc_answer_fini(&three);
    posenc_answer_fini(&each);
    posenc_answer_fini(&isolated);

    static const char *const same[][2] = { { "k=2&k_excl=0", "k=2&skip=none" },
                                           { "k=2&k_excl=1", "k=2" },
                                           { "k=2&k_excl=1&skip=first", "k=2&skip=first" } };
    for (size_t i = 0; i < LEN(same); i++) {
        posenc_answer x = ask(name, g, same[i][0]), y = ask(name, g, same[i][1]);
        ck_assert_str_eq(x.request.digest, y.request.digest);
        posenc_answer_fini(&x);
        posenc_answer_fini(&y);
    }
    refused(name, g, "k_excl=2&skip=none", PE_INVALID, "skip", "k_excl");
    refused(name, g, "k_excl=0&skip=first", PE_INVALID, "skip", "k_excl");
    refused(name, g, "k=9&padding=false", PE_INVALID, "k", "at most 8");
    refused(name, g, "q=0.6", PE_INVALID, "q", "0.5");
    refused(name, g, "normalization=rw", PE_INVALID, "normalization", "sym");
    free(g);
}
END_TEST

START_TEST(weights)
{
    static const double sizes[] = { 0.1, 1e-9, 1e30, 1e-300 };
    graph *g = directed(cycle(4));
    for (size_t i = 0; i < LEN(sizes); i++) {
        for (int j = 0; j < 4; j++)
            g->w[j] = sizes[i];
        g->e.weight = g->w;
        posenc_answer a = ask(name, g, "k=5&skip=none&dtype=float64"),
                      b = ask(name, g, "k=4&skip=none&normalization=none&dtype=float64");
        all_finite(&a, "eigenvalues residuals");
        double turn = fmod(0.25 * sizes[i], 1);
        ck_assert_double_eq_tol(get(&a, "eigenvalues", 3),
                                fmax(1 - cos(2 * PI * (0.5 - turn)), 1 - cos(2 * PI * (0.25 - turn))), 1e-12);
        ck_assert_double_eq_tol(get(&b, "eigenvalues", 3) / sizes[i], get(&a, "eigenvalues", 3), 1e-12);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    for (int j = 0; j < 4; j++)
        g->w[j] = 1e200;
    refused(name, g, "", PE_INVALID, "graph.edge_weight", "2^100");
    posenc_answer a = ask(name, g, "q=0&k=4&skip=none");
    ck_assert_double_eq_tol(get(&a, "eigenvalues", 3), 2, 1e-6);
    posenc_answer_fini(&a);
    g->w[1] = g->w[2] = 1e-200; /* around node 2 */
    refused(name, g, "q=0", PE_INVALID, "graph.edge_weight", "2^900");
    g->w[1] = -1;
    refused(name, g, "", PE_INVALID, "graph.edge_weight[1]", "0 or more");
    free(g);
    g = directed(cycle(3)); /* a loop counts in the degree: H_00 is 2 - 1 of 2 */
    add(g, 0, 0);
    a = ask(name, g, "k=3&skip=none&self_loops=keep&dtype=float64");
    posenc_answer b = ask(name, g, "k=3&skip=none&dtype=float64");
    double sum[2] = { 0 };
    for (int i = 0; i < 3; i++) {
        sum[0] += get(&a, "eigenvalues", i);
        sum[1] += get(&b, "eigenvalues", i);
    }
    ck_assert_double_eq_tol(sum[0], 2.5, 1e-13);
    ck_assert_double_eq_tol(sum[1], 3, 1e-13);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

START_TEST(batches)
{
    static const char *const of_nodes[] = { "eigenvectors_real", "eigenvectors_imag" };
    static const char *const once[] = { "eigenvalues", "residuals" };
    for (int i = 0; i < 2; i++) {
        as_if_alone(name, "k=6&q=0.2&pad_value=7", true, of_nodes[i], once[i]);
        as_if_alone(name, "k=6&skip=per_component&dtype=float64", true, of_nodes[i], "residuals");
        as_if_alone(name, "k=4&skip=none", false, of_nodes[i], "determined");
    }
}
END_TEST

START_TEST(large_graph_of_arcs)
{
    large g = large_graph(30000, 30000);
    g.e.directed = true;
    posenc_answer a;
    posenc_error err = { 0 };
    char text[500];
    ck_assert_msg(!posenc_encode(name, "k=3&skip=none&q=0.1&dtype=float64", &g.e, &a, NULL, &err), "%s",
                  posenc_error_text(&err, text, sizeof text));
    for (int i = 0; i < 3; i++) {
        ck_assert_double_le(get(&a, "residuals", i), 1e-9);
        ck_assert(get(&a, "eigenvalues", i) > 1e-4 && get(&a, "eigenvalues", i) < 0.5);
    }
    posenc_answer_fini(&a);
    free(g.memory);
}
END_TEST

Suite *magnetic_laplacian_suite(void)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, directed_cycles);
    tcase_add_test(t, by_definition);
    tcase_add_test(t, iterated);
    tcase_add_test(t, real_where_it_is_real);
    tcase_add_test(t, trees);
    tcase_add_test(t, relative_q);
    tcase_add_test(t, reversed_and_relabelled);
    tcase_add_test(t, selection);
    tcase_add_test(t, weights);
    tcase_add_test(t, batches);
    tcase_add_test(t, large_graph_of_arcs);
    suite_add_tcase(s, t);
    return s;
}
