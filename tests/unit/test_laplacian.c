/* test_laplacian.c - eigenvectors of graphs whose spectrum is known, and what is promised about bytes. */
#include "core/params.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *laplacian_suite(void);

#define PI 3.14159265358979323846

/* ---- graphs and answers ---- */

enum { MAX_NODES = 1200, MAX_EDGES = 8000 };

typedef struct graph {
    posenc_edges e;
    int64_t s[MAX_EDGES], t[MAX_EDGES], ptr[MAX_EDGES];
    double w[MAX_EDGES];
} graph;

static graph *new_graph(int64_t n)
{
    graph *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    g->e = (posenc_edges){ .num_nodes = n, .source = g->s, .target = g->t };
    return g;
}

static void add(graph *g, int64_t u, int64_t v)
{
    g->w[g->e.nedges] = 1;
    g->s[g->e.nedges] = u;
    g->t[g->e.nedges++] = v;
}

static void add_weight(graph *g, int64_t u, int64_t v, double w)
{
    g->e.weight = g->w;
    add(g, u, v);
    g->w[g->e.nedges - 1] = w;
}

static graph *path(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 0; i + 1 < n; i++)
        add(g, i, i + 1);
    return g;
}

static graph *cycle(int64_t n)
{
    graph *g = path(n);
    add(g, n - 1, 0);
    return g;
}

static graph *complete(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            add(g, i, j);
    return g;
}

static graph *star(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 1; i < n; i++)
        add(g, 0, i);
    return g;
}

static graph *hypercube(int d)
{
    graph *g = new_graph(1 << d);
    for (int64_t i = 0; i < 1 << d; i++)
        for (int b = 0; b < d; b++)
            if (!(i >> b & 1))
                add(g, i, i | 1 << b);
    return g;
}

static graph *grid(int64_t a, int64_t b)
{
    graph *g = new_graph(a * b);
    for (int64_t i = 0; i < a * b; i++) {
        if (i % b + 1 < b)
            add(g, i, i + 1);
        if (i + b < a * b)
            add(g, i, i + b);
    }
    return g;
}

static uint64_t state = 1;
static int64_t any(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* A connected graph without symmetries to speak of. */
static graph *tangle(int64_t n, int64_t more)
{
    graph *g = new_graph(n);
    for (int64_t i = 1; i < n; i++)
        add(g, i, any(i));
    for (int64_t i = 0; i < more; i++) {
        int64_t u = any(n), v = any(n);
        bool there = u == v;
        for (int64_t j = 0; j < g->e.nedges; j++)
            there = there || (g->s[j] == u && g->t[j] == v) || (g->s[j] == v && g->t[j] == u);
        if (!there)
            add(g, u, v);
    }
    return g;
}

static posenc_answer ask(const graph *g, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[512];
    posenc_status st = posenc_encode("laplacian", query, &g->e, &a, NULL, &err);
    ck_assert_msg(!st, "%s: %s", query, posenc_error_text(&err, text, sizeof text));
    return a;
}

/* The answer of a graph that is needed once. */
static posenc_answer ask_once(graph *g, const char *query)
{
    posenc_answer a = ask(g, query);
    free(g);
    return a;
}

static double get(posenc_answer *a, const char *name, int64_t i)
{
    const posenc_tensor *t = pe_tensor(&a->result, name);
    ck_assert_msg(t != NULL, "no output %s", name);
    ck_assert_int_lt(i, posenc_tensor_count(t));
    return posenc_tensor_get(t, i);
}

static int64_t size(posenc_answer *a, const char *name, int axis) { return pe_tensor(&a->result, name)->shape[axis]; }

static bool warned(const posenc_answer *a, const char *part)
{
    for (int i = 0; i < a->result.nwarnings; i++)
        if (strstr(a->result.warning[i], part))
            return true;
    return false;
}

static void same_bytes(const posenc_answer *a, const posenc_answer *b)
{
    ck_assert_int_eq(a->result.ntensors, b->result.ntensors);
    for (int i = 0; i < a->result.ntensors; i++) {
        const posenc_tensor *x = &a->result.tensor[i], *y = &b->result.tensor[i];
        ck_assert_uint_eq(posenc_tensor_size(x), posenc_tensor_size(y));
        ck_assert_msg(!memcmp(x->data, y->data, posenc_tensor_size(x)), "%s differs", x->name);
    }
}

static void fails(const graph *g, const char *query, posenc_status want, const char *field)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("laplacian", query, &g->e, &a, NULL, &err), want);
    ck_assert_uint_gt(err.n, 0);
    ck_assert_str_eq(err.fault[0].field, field);
}

/* Orthonormal columns, small residuals, ascending values. */
static void sound(posenc_answer *a, bool orthonormal)
{
    int64_t n = size(a, "eigenvectors", 0), k = size(a, "eigenvectors", 1), m = 0;
    while (m < k && !isnan(get(a, "eigenvalues", m)))
        m++;
    for (int64_t i = 0; i < m; i++) {
        ck_assert_double_le(get(a, "residuals", i), 1e-9);
        if (i)
            ck_assert_double_le(get(a, "eigenvalues", i - 1), get(a, "eigenvalues", i));
        for (int64_t j = 0; j <= i && orthonormal; j++) {
            double dot = 0;
            for (int64_t v = 0; v < n; v++)
                dot += get(a, "eigenvectors", v * k + i) * get(a, "eigenvectors", v * k + j);
            ck_assert_double_eq_tol(dot, i == j, 1e-12);
        }
    }
}

/* ---- closed forms ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void spectrum(graph *g, const char *query, double *want, int64_t n)
{
    posenc_answer a = ask_once(g, query);
    qsort(want, (size_t)n, sizeof *want, ascending);
    for (int64_t i = 0; i < n && i < size(&a, "eigenvectors", 1); i++)
        ck_assert_double_eq_tol(get(&a, "eigenvalues", i), want[i], 1e-12);
    sound(&a, true);
    posenc_answer_fini(&a);
}

START_TEST(closed_forms)
{
    const char *all = "k=64&skip=none&dtype=float64", *plain = "k=64&skip=none&normalization=none&dtype=float64";
    double w[64];
    for (int i = 0; i < 17; i++)
        w[i] = 1 - cos(PI * i / 16);
    spectrum(path(17), all, w, 17);
    for (int i = 0; i < 17; i++)
        w[i] = 2 - 2 * cos(PI * i / 17);
    spectrum(path(17), plain, w, 17);
    for (int i = 0; i < 20; i++)
        w[i] = 1 - cos(2 * PI * i / 20);
    spectrum(cycle(20), all, w, 20);
    for (int i = 0; i < 9; i++)
        w[i] = i ? 9.0 / 8 : 0;
    spectrum(complete(9), all, w, 9);
    for (int i = 0; i < 9; i++)
        w[i] = i ? 9 : 0;
    spectrum(complete(9), plain, w, 9);
    for (int i = 0; i < 10; i++)
        w[i] = i == 0 ? 0 : i == 9 ? 2 : 1;
    spectrum(star(10), all, w, 10);
    for (int i = 0; i < 32; i++)
        w[i] = 2.0 * __builtin_popcount((unsigned)i) / 5;
    spectrum(hypercube(5), all, w, 32);
    for (int i = 0; i < 48; i++)
        w[i] = 4 - 2 * cos(PI * (i / 8) / 6) - 2 * cos(PI * (i % 8) / 8);
    spectrum(grid(6, 8), plain, w, 48);
}
END_TEST

/* ---- what users have complained about elsewhere ---- */

START_TEST(pair_with_padding)
{
    posenc_answer a = ask_once(path(2), "k=3&dtype=float64");
    ck_assert_double_eq_tol(get(&a, "eigenvectors", 0), sqrt(0.5), 1e-15);
    ck_assert_double_eq_tol(get(&a, "eigenvectors", 3), -sqrt(0.5), 1e-15);
    for (int i = 1; i < 3; i++) {
        ck_assert_double_eq(get(&a, "eigenvectors", i), 0);
        ck_assert_double_eq(get(&a, "eigenvectors", 3 + i), 0);
        ck_assert_double_nan(get(&a, "eigenvalues", i));
        ck_assert_double_nan(get(&a, "residuals", i));
        ck_assert_double_eq(get(&a, "determined", i), 0);
    }
    ck_assert_double_eq_tol(get(&a, "eigenvalues", 0), 2, 1e-15);
    ck_assert_double_eq(get(&a, "determined", 0), 0); /* the two ends are alike */
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(small_and_empty)
{
    posenc_answer a = ask_once(new_graph(0), "k=4");
    ck_assert_int_eq(size(&a, "eigenvectors", 0), 0);
    ck_assert_double_nan(get(&a, "eigenvalues", 3));
    ck_assert_double_eq(get(&a, "num_components", 0), 0);
    posenc_answer_fini(&a);
    a = ask_once(new_graph(1), "k=2&pad_value=nan");
    ck_assert_double_nan(get(&a, "eigenvectors", 0));
    ck_assert_double_nan(get(&a, "eigenvalues", 0));
    posenc_answer_fini(&a);
    a = ask_once(new_graph(3), "k=2");
    ck_assert_double_eq(get(&a, "eigenvalues", 0), 1);
    ck_assert_double_eq(get(&a, "eigenvalues", 1), 1);
    ck_assert_double_eq(get(&a, "num_zero", 0), 0);
    ck_assert_double_eq(get(&a, "num_components", 0), 3);
    for (int64_t j = 0; j < 2; j++) {
        double sum = 0;
        for (int64_t v = 0; v < 3; v++)
            sum += get(&a, "eigenvectors", 2 * v + j);
        ck_assert_double_eq(sum, 1);
    }
    posenc_answer_fini(&a);
    a = ask_once(new_graph(3), "k=2&isolated=zero");
    ck_assert_double_eq(get(&a, "eigenvalues", 1), 0);
    ck_assert_double_eq(get(&a, "num_zero", 0), 3);
    ck_assert(warned(&a, "only trivial vectors"));
    posenc_answer_fini(&a);
    a = ask_once(new_graph(3), "k=2&normalization=none");
    ck_assert_double_eq(get(&a, "eigenvalues", 1), 0);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(directed_path)
{
    graph *g = path(5);
    g->e.directed = true;
    posenc_answer a = ask(g, "k=5&skip=none&dtype=float64");
    static const double want[] = { 0, 0.29289321881345254, 1, 1.7071067811865475, 2 };
    for (int i = 0; i < 5; i++)
        ck_assert_double_eq_tol(get(&a, "eigenvalues", i), want[i], 1e-14);
    ck_assert(warned(&a, "directed"));
    posenc_answer_fini(&a);
    fails(g, "k=2&on_directed=error", PE_INVALID, "graph.directed");
    free(g);
}
END_TEST

START_TEST(isolated_atom_spoils_nothing)
{
    graph *g = cycle(6);
    posenc_answer a = ask(g, "k=4&dtype=float64");
    g->e.num_nodes = 7;
    posenc_answer b = ask(g, "k=4&dtype=float64"), c = ask(g, "k=4&dtype=float64&isolated=zero"),
                  d = ask(g, "k=4&dtype=float64&normalization=rw");
    for (int64_t i = 0; i < 28; i++)
        ck_assert(isfinite(get(&b, "eigenvectors", i)) && isfinite(get(&c, "eigenvectors", i)) &&
                  isfinite(get(&d, "eigenvectors", i)));
    for (int64_t i = 0; i < 6; i++)
        for (int64_t j = 0; j < 2; j++)
            ck_assert_double_eq(get(&a, "eigenvectors", 4 * i + j), get(&b, "eigenvectors", 4 * i + j));
    ck_assert_double_eq(get(&b, "num_zero", 0), 1);
    ck_assert_double_eq(get(&c, "num_zero", 0), 2);
    ck_assert_double_eq(get(&c, "eigenvalues", 0), 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    free(g);
}
END_TEST

START_TEST(rings_around_a_hundred)
{
    for (int n = 99; n <= 101; n++) {
        char query[64];
        snprintf(query, sizeof query, "k=%d&dtype=float64", n - 1);
        posenc_answer a = ask_once(cycle(n), query);
        for (int i = 1; i < n; i++)
            ck_assert_double_eq_tol(get(&a, "eigenvalues", i - 1), 1 - cos(2 * PI * ((i + 1) / 2) / n), 1e-12);
        sound(&a, true);
        posenc_answer_fini(&a);
        a = ask_once(cycle(n), "k=8&dtype=float64");
        sound(&a, true);
        ck_assert_double_eq(get(&a, "multiplicity_cut", 0), 0);
        posenc_answer_fini(&a);
        a = ask_once(cycle(n), "k=7");
        ck_assert_double_eq(get(&a, "multiplicity_cut", 0), 1);
        ck_assert_double_eq(get(&a, "determined", 0), 0);
        ck_assert(warned(&a, "divides a repeated eigenvalue"));
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(kept_loops)
{
    graph *g = path(4);
    add(g, 1, 1);
    posenc_answer a = ask(g, "k=1&dtype=float64"), b = ask(g, "k=1&dtype=float64&self_loops=keep");
    posenc_answer c = ask(g, "k=4&skip=none&dtype=float64&self_loops=keep"),
                  d = ask(g, "k=3&normalization=none&dtype=float64&self_loops=keep");
    ck_assert_double_eq_tol(get(&a, "eigenvalues", 0), 0.5, 1e-14);
    ck_assert_double_eq_tol(get(&b, "eigenvalues", 0), 0.46415125, 1e-8);
    ck_assert_double_eq(get(&c, "eigenvalues", 0), 0);
    ck_assert_double_eq_tol(get(&c, "eigenvectors", 4), sqrt(3.0 / 7), 1e-15);
    ck_assert_double_eq_tol(get(&d, "eigenvalues", 0), 2 - sqrt(2), 1e-14); /* D - A does not see loops */
    sound(&c, true);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    free(g);
    g = new_graph(2);
    add(g, 1, 1);
    a = ask(g, "k=2&skip=none&self_loops=keep"); /* a lone loop: 0; an isolated node: 1 */
    ck_assert_double_eq(get(&a, "eigenvalues", 0), 0);
    ck_assert_double_eq(get(&a, "eigenvalues", 1), 1);
    ck_assert_double_eq(get(&a, "eigenvectors", 2), 1);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

START_TEST(signed_graphs)
{
    graph *g = new_graph(4);
    add_weight(g, 0, 1, -1);
    add_weight(g, 1, 2, 1);
    add_weight(g, 2, 3, -1);
    add_weight(g, 3, 0, 1);
    fails(g, "k=2", PE_INVALID, "graph.edge_weight[0]");
    posenc_answer a = ask(g, "k=4&skip=none&allow_negative=true&dtype=float64"); /* balanced: the 4-cycle, signs changed */
    static const double want[] = { 0, 1, 1, 2 };
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(get(&a, "eigenvalues", i), want[i], 1e-14);
    ck_assert_double_eq(get(&a, "num_zero", 0), 1);
    ck_assert_double_lt(get(&a, "eigenvectors", 0) * get(&a, "eigenvectors", 4), 0);
    sound(&a, true);
    posenc_answer_fini(&a);
    g->w[3] = -1;
    a = ask(g, "k=4&skip=all_zero&allow_negative=true&dtype=float64"); /* unbalanced: no null space */
    ck_assert_double_eq(get(&a, "num_zero", 0), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(get(&a, "eigenvalues", i), 1 + (i < 2 ? -1 : 1) * sqrt(0.5), 1e-14);
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

START_TEST(zero_weights)
{
    graph *g = path(4);
    add_weight(g, 3, 0, 0);
    posenc_answer a = ask(g, "k=2&dtype=float64"), b = ask_once(path(4), "k=2&dtype=float64");
    same_bytes(&a, &b);
    ck_assert(warned(&a, "1 edge of weight 0 left out"));
    ck_assert_int_eq(b.result.nwarnings, 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
}
END_TEST

/* ---- parameters ---- */

START_TEST(selection)
{
    graph *g = new_graph(8); /* a path of 5, a triangle: two zeros */
    for (int i = 0; i < 4; i++)
        add(g, i, i + 1);
    add(g, 5, 6);
    add(g, 6, 7);
    add(g, 7, 5);
    posenc_answer first = ask(g, "k=3&dtype=float64"), none = ask(g, "k=4&skip=none&dtype=float64"),
                  zero = ask(g, "k=3&skip=all_zero&dtype=float64"), freqs = ask(g, "max_freqs=4&dtype=float64");
    ck_assert_double_eq(get(&first, "num_zero", 0), 2);
    ck_assert_double_eq(get(&first, "eigenvalues", 0), 0);
    ck_assert_double_eq(get(&none, "eigenvalues", 1), 0);
    ck_assert_double_eq_tol(get(&zero, "eigenvalues", 0), 1 - sqrt(0.5), 1e-14);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 3; j++)
            ck_assert_double_eq(get(&first, "eigenvectors", 3 * i + j), get(&none, "eigenvectors", 4 * i + j + 1));
    same_bytes(&none, &freqs);
    ck_assert_str_eq(none.request.digest, freqs.request.digest);
    posenc_answer_fini(&first);
    posenc_answer_fini(&none);
    posenc_answer_fini(&zero);
    posenc_answer_fini(&freqs);

    posenc_answer each = ask(g, "k=3&skip=per_component&dtype=float64"), five = ask_once(path(5), "k=3&dtype=float64"),
                  three = ask_once(cycle(3), "k=3&dtype=float64");
    for (int64_t i = 0; i < 24; i++) {
        ck_assert_double_eq(get(&each, "eigenvectors", i),
                            i < 15 ? get(&five, "eigenvectors", i) : get(&three, "eigenvectors", i - 15));
        double have = get(&each, "eigenvalues", i),
               want = i < 15 ? get(&five, "eigenvalues", i % 3) : get(&three, "eigenvalues", i % 3);
        ck_assert(have == want || (isnan(have) && isnan(want)));
    }
    posenc_answer_fini(&each);
    posenc_answer_fini(&five);
    posenc_answer_fini(&three);

    fails(g, "k=3&max_freqs=3", PE_INVALID, "max_freqs");
    fails(g, "max_freqs=3&skip=first", PE_INVALID, "skip");
    fails(g, "k=8&padding=false", PE_INVALID, "k");
    fails(g, "k=3&skip=per_component&eigval_layout=vector", PE_INVALID, "eigval_layout");
    fails(g, "laplacian_norm=sym", PE_INVALID, "laplacian_norm");
    posenc_answer ok = ask(g, "k=7&padding=false"), trivial = ask(g, "max_freqs=1");
    ck_assert_int_eq(ok.result.nwarnings, 0);
    ck_assert(warned(&trivial, "only trivial vectors"));
    posenc_answer_fini(&ok);
    posenc_answer_fini(&trivial);
    free(g);
}
END_TEST

START_TEST(layouts)
{
    posenc_answer a = ask_once(path(4), "k=2&eigval_layout=per_node"), b = ask_once(path(4), "k=2&return_eigval=false");
    ck_assert_int_eq(size(&a, "eigenvalues", 0), 4);
    ck_assert_double_eq(get(&a, "eigenvalues", 1), get(&a, "eigenvalues", 7));
    ck_assert_ptr_null(pe_tensor(&b.result, "eigenvalues"));
    ck_assert_ptr_nonnull(pe_tensor(&b.result, "residuals"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(norms)
{
    static const char *const words[] = { "L1", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft" };
    graph *g = tangle(12, 6);
    posenc_answer unit = ask(g, "k=4&skip=none&dtype=float64");
    for (size_t i = 0; i < PE_LEN(words); i++) {
        char query[80];
        snprintf(query, sizeof query, "k=4&skip=none&dtype=float64&eigvec_norm=%s", words[i]);
        posenc_answer a = ask(g, query);
        for (int j = 0; j < 4; j++) {
            double l1 = 0, max = 0, soft = 0, all = 0, lambda = get(&unit, "eigenvalues", j), root = j ? sqrt(lambda) : 1;
            for (int v = 0; v < 12; v++) {
                double x = fabs(get(&unit, "eigenvectors", 4 * v + j));
                l1 += x;
                max = x > max ? x : max;
                soft += exp(x) * x;
                all += exp(x);
            }
            for (int v = 0; v < 12; v++) {
                double x = get(&unit, "eigenvectors", 4 * v + j);
                const double want[] = { x / l1, x / max, x * PI / (2 * max * root), asin(x / max) / root,
                                        x / (soft / all * root) };
                ck_assert_double_eq_tol(get(&a, "eigenvectors", 4 * v + j), want[i], 1e-13);
            }
        }
        posenc_answer_fini(&a);
    }
    posenc_answer rw = ask(g, "k=4&normalization=rw&dtype=float64&skip=none");
    for (int j = 0; j < 4; j++) {
        double norm = 0;
        ck_assert_double_eq_tol(get(&rw, "eigenvalues", j), get(&unit, "eigenvalues", j), 1e-14);
        ck_assert_double_le(get(&rw, "residuals", j), 1e-13);
        for (int v = 0; v < 12; v++)
            norm += pow(get(&rw, "eigenvectors", 4 * v + j), 2);
        ck_assert_double_eq_tol(norm, 1, 1e-14);
    }
    ck_assert_double_eq_tol(get(&rw, "eigenvectors", 0), sqrt(1.0 / 12), 1e-14);
    posenc_answer_fini(&rw);
    posenc_answer_fini(&unit);
    free(g);
}
END_TEST

START_TEST(random_signs)
{
    graph *g = tangle(30, 10);
    posenc_answer a = ask(g, "k=16&dtype=float64"), b = ask(g, "k=16&sign=random&seed=1&dtype=float64"),
                  c = ask(g, "k=16&sign=random&seed=1&dtype=float64"), d = ask(g, "k=16&sign=random&seed=2&dtype=float64");
    same_bytes(&b, &c);
    int flips = 0, differ = 0;
    for (int j = 0; j < 16; j++) {
        double s = get(&b, "eigenvectors", j) / get(&a, "eigenvectors", j);
        ck_assert(s == 1 || s == -1);
        flips += s < 0;
        differ += get(&b, "eigenvectors", j) != get(&d, "eigenvectors", j);
    }
    ck_assert(flips > 2 && flips < 14 && differ > 2);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    free(g);
}
END_TEST

/* ---- promises ---- */

START_TEST(order_of_edges_does_not_show)
{
    graph *g = tangle(60, 40), *h = new_graph(60);
    for (int64_t i = 0; i < g->e.nedges; i++)
        add_weight(g, g->s[i], g->t[i], 1), g->e.nedges--;
    for (int64_t i = 0; i < g->e.nedges; i++)
        g->w[i] = (double)(1 + any(5)) / 3;
    for (int64_t i = g->e.nedges - 1; i >= 0; i--)
        add_weight(h, g->t[i], g->s[i], g->w[i]);
    posenc_answer a = ask(g, "k=8"), b = ask(h, "k=8");
    same_bytes(&a, &b);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&b);
    for (int64_t i = 0; i < g->e.nedges; i++)
        add_weight(h, g->s[i], g->t[i], g->w[i]);
    b = ask(h, "k=8");
    same_bytes(&a, &b);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    free(h);
}
END_TEST

static void relabelled(graph *g, const char *query, int64_t *determined)
{
    const int64_t n = g->e.num_nodes;
    int64_t p[MAX_NODES];
    for (int64_t i = 0; i < n; i++) {
        int64_t j = any(i + 1);
        p[i] = p[j];
        p[j] = i;
    }
    graph *h = new_graph(n);
    for (int64_t i = 0; i < g->e.nedges; i++)
        add_weight(h, p[g->t[i]], p[g->s[i]], g->w[i]);
    posenc_answer a = ask(g, query), b = ask(h, query);
    int64_t k = size(&a, "eigenvectors", 1);
    for (int64_t j = 0; j < k; j++) {
        ck_assert_double_eq(get(&a, "determined", j), get(&b, "determined", j));
        if (get(&a, "determined", j) == 0)
            continue;
        ++*determined;
        for (int64_t v = 0; v < n; v++)
            ck_assert_double_eq_tol(get(&a, "eigenvectors", v * k + j), get(&b, "eigenvectors", p[v] * k + j), 1e-6);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(h);
    free(g);
}

START_TEST(relabelling_permutes_rows)
{
    int64_t determined = 0;
    for (int i = 0; i < 30; i++)
        relabelled(tangle(8 + any(30), any(10)), "k=6&dtype=float64", &determined);
    ck_assert_int_gt(determined, 90);
    relabelled(grid(5, 9), "k=10&dtype=float64", &determined);
    relabelled(star(9), "k=8&dtype=float64&skip=none", &determined);
    relabelled(hypercube(4), "k=15&dtype=float64", &determined);
    relabelled(complete(7), "k=6&dtype=float64&normalization=none", &determined);
    int64_t before = determined;
    graph *g = tangle(20, 8); /* a copy of it beside it, and a ring: clusters over components */
    for (int64_t i = 0, m = g->e.nedges; i < m; i++)
        add(g, g->s[i] + 20, g->t[i] + 20);
    for (int64_t i = 0; i < 9; i++)
        add(g, 40 + i, 40 + (i + 1) % 9);
    g->e.num_nodes = 50; /* and an isolated node */
    relabelled(g, "k=20&dtype=float64&skip=none", &determined);
    ck_assert_int_ge(determined, before);
    g = tangle(40, 30);
    for (int64_t i = 0, m = g->e.nedges; i < m; i++) {
        g->e.weight = g->w;
        g->w[i] = 0.1 * (double)(1 + any(9));
    }
    relabelled(g, "k=12&dtype=float64", &determined);
}
END_TEST

/* Every graph of a batch has the bytes that it has alone. */
START_TEST(batch_is_its_members)
{
    graph *member[] = { path(5), new_graph(0), cycle(9), new_graph(1), star(6), tangle(25, 10), complete(8) },
          *all = new_graph(0);
    enum { G = 7 };
    for (int i = 0; i < G; i++) {
        for (int64_t j = 0; j < member[i]->e.nedges; j++)
            add(all, member[i]->s[j] + all->e.num_nodes, member[i]->t[j] + all->e.num_nodes);
        all->e.num_nodes += member[i]->e.num_nodes;
        all->ptr[i + 1] = all->e.num_nodes;
    }
    all->e.ptr = all->ptr;
    all->e.ngraphs = G;
    posenc_answer a = ask(all, "k=4&pad_value=7");
    ck_assert_int_eq(size(&a, "eigenvalues", 0), G);
    ck_assert_int_eq(size(&a, "status", 0), G);
    for (int i = 0; i < G; i++) {
        posenc_answer b = ask(member[i], "k=4&pad_value=7");
        for (int t = 0; t < a.result.ntensors; t++) {
            const posenc_tensor *x = &a.result.tensor[t], *y = &b.result.tensor[t];
            size_t bytes = posenc_tensor_size(y), at = (size_t)i * bytes;
            if (t == 0)
                at = (size_t)(all->ptr[i] * 4) * posenc_dtype_size(x->dtype);
            ck_assert_msg(!bytes || !memcmp((char *)x->data + at, y->data, bytes), "graph %d: %s differs", i, x->name);
        }
        posenc_answer_fini(&b);
        free(member[i]);
    }
    ck_assert(warned(&a, "of 7 graphs"));
    posenc_answer_fini(&a);
    free(all);
}
END_TEST

START_TEST(one_bad_graph)
{
    graph *g = new_graph(9);
    add_weight(g, 0, 1, 1);
    add_weight(g, 1, 2, 1);
    add_weight(g, 3, 4, -1);
    add_weight(g, 4, 5, 1);
    add_weight(g, 6, 7, 1);
    add_weight(g, 7, 8, 1);
    for (int i = 0; i < 4; i++)
        g->ptr[i] = 3 * i;
    g->e.ptr = g->ptr;
    g->e.ngraphs = 3;
    posenc_answer a = ask(g, "k=2&pad_value=5&dtype=float64");
    static const int32_t status[] = { 0, 400, 0 };
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(get(&a, "status", i), status[i]);
        ck_assert_int_eq(isnan(get(&a, "eigenvalues", 2 * i)), status[i] != 0);
    }
    for (int i = 0; i < 6; i++) {
        ck_assert_double_eq(get(&a, "eigenvectors", 6 + i), 5);
        ck_assert_double_eq(get(&a, "eigenvectors", i), get(&a, "eigenvectors", 12 + i));
    }
    ck_assert(warned(&a, "graph 1: graph.edge_weight: 0 or more; or allow_negative=true"));
    ck_assert(warned(&a, "no numbers for 1 of 3 graphs"));
    posenc_answer_fini(&a);
    free(g);
}
END_TEST

/* Components that are not the whole graph, larger than any dense limit that a solver may have. */
START_TEST(larger_graph)
{
    graph *g = grid(30, 36);
    g->e.num_nodes += 2;
    add(g, 1080, 1081);
    static const char *const words[] = { "auto", "dense", "shift_invert", "chebyshev" };
    posenc_answer a[4];
    for (int i = 0; i < 4; i++) {
        char query[80];
        snprintf(query, sizeof query, "k=5&skip=all_zero&dtype=float64&solver=%s", words[i]);
        a[i] = ask(g, query);
        sound(&a[i], true);
        ck_assert_double_eq(get(&a[i], "num_zero", 0), 2);
        for (int64_t j = 0; j < 5; j++) {
            ck_assert_double_eq_tol(get(&a[i], "eigenvalues", j), get(&a[0], "eigenvalues", j), 1e-9);
            for (int64_t v = 0; v < 1082; v++)
                ck_assert_double_eq_tol(get(&a[i], "eigenvectors", 5 * v + j), get(&a[0], "eigenvectors", 5 * v + j), 1e-6);
        }
    }
    for (int i = 0; i < 4; i++)
        posenc_answer_fini(&a[i]);
    free(g);
}
END_TEST

static posenc_status stop_at_once(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(cancelled)
{
    graph *g = grid(20, 21);
    posenc_status st = PE_CANCELLED;
    for (int polls = 0; st; polls++) {
        int left = polls;
        posenc_context ctx = { .stop = stop_at_once, .user = &left };
        posenc_answer a;
        posenc_error err = { 0 };
        st = posenc_encode("laplacian", "k=4", &g->e, &a, &ctx, &err);
        ck_assert(st == PE_OK || st == PE_CANCELLED);
        posenc_answer_fini(&a);
        ck_assert_int_lt(polls, 100000);
        polls += polls / 8;
    }
    free(g);
}
END_TEST

/* Weights far from 1: the spectrum of none scales with them; its vectors, sym and rw do not see them but for signs, since
 * the order of colours may depend on weights. */
START_TEST(scaled_weights)
{
    static const double factors[] = { 1e-9, 1e-170, 1e-310, 1e30, 1e150 };
    static const char *const queries[] = { "k=4&dtype=float64&skip=none&normalization=none",
                                           "k=4&dtype=float64&skip=none&normalization=sym",
                                           "k=4&dtype=float64&skip=none&normalization=rw" };
    for (size_t q = 0; q < 3; q++) {
        graph *one = new_graph(4), *other = new_graph(4);
        for (int i = 0; i < 3; i++) {
            add_weight(one, i, i + 1, 1);
            add_weight(other, i, i + 1, factors[_i]);
        }
        posenc_answer a = ask(one, queries[q]), b = ask(other, queries[q]);
        for (int j = 0; j < 4; j++) {
            double want = get(&a, "eigenvalues", j) * (q == 0 ? factors[_i] : 1);
            ck_assert_double_le(fabs(get(&b, "eigenvalues", j) - want), 1e-12 * (q == 0 ? factors[_i] : 1));
            ck_assert_double_le(get(&b, "residuals", j), 1e-12 * (q == 0 ? factors[_i] : 1));
        }
        for (int i = 0; i < 16; i++)
            ck_assert_double_le(fabs(fabs(get(&a, "eigenvectors", i)) - fabs(get(&b, "eigenvectors", i))), 1e-12);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
        free(one);
        free(other);
    }
}
END_TEST

/* Degrees that no float64 can divide by one another: refused, where the matrix has their quotients. */
START_TEST(degrees_far_apart)
{
    static const int64_t from[] = { 1, 3, 1, 3 }, to[] = { 3, 9, 4, 4 };
    static const double w[] = { 1e15, 1e-300, 1e150, 5 };
    static const char *const asked[][2] = { { "laplacian", "k=3" },
                                            { "laplacian", "k=3&normalization=rw" },
                                            { "heat_kernel", "kernel_times=1&normalization=sym" },
                                            { "lambda_max", "" },
                                            { "magnetic_laplacian", "k=3" } };
    const posenc_edges e = { .num_nodes = 12, .nedges = 4, .source = from, .target = to, .weight = w };
    posenc_answer a;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        posenc_error err = { 0 };
        const posenc_status st = posenc_encode(asked[i][0], asked[i][1], &e, &a, NULL, &err);
        ck_assert_msg(st == PE_INVALID && !strcmp(err.fault[0].field, "graph.edge_weight"), "%s %s: %s", asked[i][0],
                      asked[i][1], posenc_status_name(st));
    }
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("laplacian", "k=3&normalization=none", &e, &a, NULL, &err), PE_OK);
    posenc_answer_fini(&a);
}
END_TEST

/* The vectors of sym are right to rounding; D^-1/2 times them is not. */
START_TEST(rw_is_held_to_its_tolerance)
{
    static const int64_t from[] = { 0, 1, 2 }, to[] = { 1, 2, 3 };
    static const double w[] = { 1e-12, 1e12, 1e12 };
    const posenc_edges e = { .num_nodes = 4, .nedges = 3, .source = from, .target = to, .weight = w };
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("laplacian", "k=4&skip=none&normalization=rw", &e, &a, NULL, &err), PE_NO_CONVERGENCE);
    ck_assert_str_eq(err.fault[0].field, "normalization");
    err = (posenc_error){ 0 };
    ck_assert_int_eq(posenc_encode("laplacian", "k=4&skip=none&normalization=sym", &e, &a, NULL, &err), PE_OK);
    posenc_answer_fini(&a);
}
END_TEST

Suite *laplacian_suite(void)
{
    Suite *s = suite_create("laplacian");
    TCase *c = tcase_create("numbers");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, closed_forms);
    tcase_add_test(c, degrees_far_apart);
    tcase_add_test(c, rw_is_held_to_its_tolerance);
    tcase_add_test(c, pair_with_padding);
    tcase_add_test(c, small_and_empty);
    tcase_add_test(c, directed_path);
    tcase_add_test(c, isolated_atom_spoils_nothing);
    tcase_add_test(c, rings_around_a_hundred);
    tcase_add_test(c, kept_loops);
    tcase_add_test(c, signed_graphs);
    tcase_add_test(c, zero_weights);
    suite_add_tcase(s, c);
    c = tcase_create("parameters");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, selection);
    tcase_add_test(c, layouts);
    tcase_add_test(c, norms);
    tcase_add_test(c, random_signs);
    suite_add_tcase(s, c);
    c = tcase_create("promises");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, order_of_edges_does_not_show);
    tcase_add_test(c, relabelling_permutes_rows);
    tcase_add_test(c, batch_is_its_members);
    tcase_add_test(c, one_bad_graph);
    tcase_add_loop_test(c, scaled_weights, 0, 5);
    tcase_add_test(c, larger_graph);
    tcase_add_test(c, cancelled);
    suite_add_tcase(s, c);
    return s;
}
