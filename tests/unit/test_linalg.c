/* Eigenpairs against closed forms; the two iterative solvers and the dense one against each other.
 * POSENC_TEST_SLOW=1 adds the graphs of 20,000 nodes. */
#include "linalg/ldl.h"
#include "linalg/linalg.h"
#include "linalg/minimum_fill.h"
#include "linalg/relabel.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Suite *linalg_suite(void);

static const double PI = 3.14159265358979323846;

/* ---- graphs -------------------------------------------------------------------------------------------------- */

typedef struct graph {
    pe_component c;
    int64_t *ptr;
    int32_t *col;
    double *weight, *degree, *kernel;
} graph;

/* Edges (u, v) and weights (NULL: 1) to a component; edges are listed once. */
static graph build(int64_t n, int64_t m, const int32_t *u, const int32_t *v, const double *w, bool normalized, bool kernel)
{
    graph g = { 0 };
    int64_t *next = calloc((size_t)n, sizeof *next);
    g.ptr = calloc((size_t)n + 1, sizeof *g.ptr);
    g.col = calloc((size_t)(2 * m) + 1, sizeof *g.col);
    g.weight = calloc((size_t)(2 * m) + 1, sizeof *g.weight);
    g.degree = calloc((size_t)n, sizeof *g.degree);
    g.kernel = calloc((size_t)n, sizeof *g.kernel);
    for (int64_t e = 0; e < m; e++) {
        g.ptr[u[e] + 1]++;
        g.ptr[v[e] + 1]++;
    }
    for (int64_t i = 0; i < n; i++) {
        g.ptr[i + 1] += g.ptr[i];
        next[i] = g.ptr[i];
    }
    for (int64_t e = 0; e < m; e++)
        for (int side = 0; side < 2; side++) {
            int32_t a = side ? v[e] : u[e], b = side ? u[e] : v[e];
            int64_t p = next[a]++;
            for (; p > g.ptr[a] && g.col[p - 1] > b; p--) { /* insertion keeps columns ascending */
                g.col[p] = g.col[p - 1];
                g.weight[p] = g.weight[p - 1];
            }
            g.col[p] = b;
            g.weight[p] = w ? w[e] : 1;
        }
    double square = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t p = g.ptr[i]; p < g.ptr[i + 1]; p++)
            g.degree[i] += fabs(g.weight[p]);
        g.kernel[i] = normalized ? sqrt(g.degree[i]) : 1;
        square += g.kernel[i] * g.kernel[i];
    }
    for (int64_t i = 0; i < n; i++)
        g.kernel[i] /= sqrt(square);
    free(next);
    g.c = (pe_component){ .n = n,
                          .ptr = g.ptr,
                          .col = g.col,
                          .weight = w ? g.weight : NULL,
                          .degree = g.degree,
                          .normalized = normalized,
                          .kernel = kernel ? g.kernel : NULL };
    return g;
}

static void graph_free(graph *g)
{
    free(g->ptr);
    free(g->col);
    free(g->weight);
    free(g->degree);
    free(g->kernel);
}

enum { PATH, RING, STAR, COMPLETE, BIPARTITE, CUBE, GRID };

/* Sizes: nodes (path, ring, complete), leaves, nodes of one side, dimension, rows (columns: one more). */
static graph make(int kind, int64_t size, bool normalized, const double *weight)
{
    int64_t most = kind == COMPLETE || kind == BIPARTITE ? size * size
                   : kind == CUBE                        ? size << size
                                                         : 4 * (size + 1) * (size + 1);
    int32_t *u = calloc((size_t)most, sizeof *u), *v = calloc((size_t)most, sizeof *v);
    int64_t m = 0, n = size;
#define EDGE(a, b) (u[m] = (int32_t)(a), v[m++] = (int32_t)(b))
    switch (kind) {
    case PATH:
    case RING:
        for (int64_t i = 0; i + 1 < size; i++)
            EDGE(i, i + 1);
        if (kind == RING)
            EDGE(0, size - 1);
        break;
    case STAR:
        n = size + 1;
        for (int64_t i = 1; i <= size; i++)
            EDGE(0, i);
        break;
    case COMPLETE:
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = i + 1; j < size; j++)
                EDGE(i, j);
        break;
    case BIPARTITE:
        n = 2 * size;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < size; j++)
                EDGE(i, size + j);
        break;
    case CUBE:
        n = INT64_C(1) << size;
        for (int64_t i = 0; i < n; i++)
            for (int64_t b = 0; b < size; b++)
                if (!(i >> b & 1))
                    EDGE(i, i | INT64_C(1) << b);
        break;
    default:
        n = size * (size + 1);
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j <= size; j++) {
                if (j < size)
                    EDGE(i * (size + 1) + j, i * (size + 1) + j + 1);
                if (i + 1 < size)
                    EDGE(i * (size + 1) + j, (i + 1) * (size + 1) + j);
            }
    }
#undef EDGE
    graph g = build(n, m, u, v, weight, normalized, true);
    free(u);
    free(v);
    return g;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All eigenvalues but the kernel's, ascending; NULL where there is no formula. malloc'ed. */
static double *formula(int kind, int64_t size, bool normalized, int64_t *count)
{
    int64_t n = kind == STAR        ? size + 1
                : kind == BIPARTITE ? 2 * size
                : kind == CUBE      ? INT64_C(1) << size
                : kind == GRID      ? size * (size + 1)
                                    : size;
    double *all = calloc((size_t)n, sizeof *all);
    double s = (double)size;
    for (int64_t i = 0; i < n; i++)
        switch (kind) {
        case PATH: all[i] = normalized ? 1 - cos(PI * (double)i / (s - 1)) : 2 - 2 * cos(PI * (double)i / s); break;
        case RING: all[i] = (normalized ? 1 : 2) * (1 - cos(2 * PI * (double)i / s)); break;
        case STAR: all[i] = i == 0 ? 0 : i == n - 1 ? (normalized ? 2 : s + 1) : 1; break;
        case COMPLETE: all[i] = i == 0 ? 0 : normalized ? s / (s - 1) : s; break;
        case BIPARTITE: all[i] = i == 0 ? 0 : i == n - 1 ? (normalized ? 2 : 2 * s) : normalized ? 1 : s; break;
        case CUBE: all[i] = 2 * (double)__builtin_popcountll((unsigned long long)i) / (normalized ? s : 1); break;
        default:
            if (normalized) {
                free(all);
                return NULL;
            }
            all[i] = 4 - 2 * cos(PI * (double)(i / (size + 1)) / s) - 2 * cos(PI * (double)(i % (size + 1)) / (s + 1));
        }
    qsort(all, (size_t)n, sizeof *all, ascending);
    memmove(all, all + 1, (size_t)(n - 1) * sizeof *all);
    *count = n - 1;
    return all;
}

/* ---- checks -------------------------------------------------------------------------------------------------- */

static double scale(const pe_component *c)
{
    double most = 0;
    for (int64_t i = 0; i < c->n; i++)
        most = c->degree[i] > most ? c->degree[i] : most;
    return c->normalized ? 2 : 2 * most;
}

static double dot(int64_t n, const double *x, const double *y)
{
    long double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += (long double)x[i] * y[i];
    return (double)s;
}

/* ||L x - lambda x||, written independently of the library's operator. */
static double residual(const pe_component *c, const double *x, double lambda)
{
    long double square = 0;
    for (int64_t i = 0; i < c->n; i++) {
        double diagonal = c->diagonal ? c->diagonal[i] : c->normalized ? 1 : c->degree[i];
        long double y = diagonal * x[i] - (long double)lambda * x[i];
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            double w = c->weight ? c->weight[p] : 1;
            y -= (c->normalized ? w / sqrt(c->degree[i] * c->degree[c->col[p]]) : w) * (long double)x[c->col[p]];
        }
        square += y * y;
    }
    return sqrt((double)square);
}

static void check_pairs(const pe_component *c, const pe_pairs *p, double tol)
{
    double s = scale(c);
    ck_assert_int_eq(p->n, c->n);
    for (int64_t i = 0; i < p->count; i++) {
        const double *x = p->vectors + i * c->n;
        ck_assert_double_le(p->residuals[i], tol * s);
        ck_assert_double_le(residual(c, x, p->values[i]), tol * s + 1e-14 * s);
        if (i > 0)
            ck_assert_double_ge(p->values[i], p->values[i - 1]);
        if (c->kernel)
            ck_assert_double_le(fabs(dot(c->n, x, c->kernel)), 1e-13);
        for (int64_t j = 0; j <= i; j++)
            ck_assert_double_le(fabs(dot(c->n, x, p->vectors + j * c->n) - (i == j)), 1e-13);
    }
    ck_assert_double_ge(p->next, p->values[p->count - 1]);
}

static pe_pairs solve(const pe_component *c, int64_t want, int64_t extra, pe_solver solver)
{
    pe_pairs p;
    posenc_error err = { 0 };
    posenc_status st = pe_component_pairs(c, want, extra, 1e-10, 0, solver, false, &p, NULL, &err);
    ck_assert_msg(st == PE_OK, "status %d: %s", (int)st, err.fault[0].allowed);
    return p;
}

/* Completes the cluster: the count the header promises for these eigenvalues. */
static int64_t expected_count(const double *all, int64_t n, int64_t want, int64_t extra)
{
    int64_t count = want < n ? want : n;
    while (count < n && count < want + extra && all[count] - all[count - 1] < 1e-9 * fmax(1, all[count - 1]))
        count++;
    return count;
}

/* ---- dense --------------------------------------------------------------------------------------------------- */

static void check_dense(int64_t n, const double *a, double relative)
{
    double *v = malloc((size_t)(n * n) * sizeof *v), *values = malloc((size_t)n * sizeof *values), most = 0;
    memcpy(v, a, (size_t)(n * n) * sizeof *v);
    ck_assert_int_eq(pe_sym_dense(n, v, values, NULL, NULL), PE_OK);
    for (int64_t i = 0; i < n * n; i++)
        most = fmax(most, fabs(a[i]));
    for (int64_t i = 0; i < n; i++) {
        const double *x = v + i * n;
        if (i > 0)
            ck_assert_double_ge(values[i], values[i - 1]);
        for (int64_t j = 0; j <= i; j++)
            ck_assert_double_le(fabs(dot(n, x, v + j * n) - (i == j)), 1e-13);
        for (int64_t r = 0; r < n; r++)
            ck_assert_double_le(fabs(dot(n, a + r * n, x) - values[i] * x[r]), relative * (double)n * most);
    }
    free(v);
    free(values);
}

START_TEST(dense_small)
{
    ck_assert_int_eq(pe_sym_dense(0, NULL, NULL, NULL, NULL), PE_OK);
    check_dense(1, (double[]){ -3 }, 1e-15);
    check_dense(2, (double[]){ 0, 0, 0, 0 }, 1e-15);
    check_dense(2, (double[]){ 2, 1, 1, 2 }, 1e-15);
    check_dense(3, (double[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 1e-15);
    check_dense(3, (double[]){ 1e300, 1e299, 0, 1e299, -1e300, 1e298, 0, 1e298, 1e300 }, 1e-15);
    check_dense(3, (double[]){ 1e-300, 1e-301, 0, 1e-301, -1e-300, 1e-302, 0, 1e-302, 1e-300 }, 1e-15);
    check_dense(4, (double[]){ 1, 1e-200, 0, 0, 1e-200, 1, 1e-200, 0, 0, 1e-200, 1, 1e-200, 0, 0, 1e-200, 1 }, 1e-15);
    double a[4] = { NAN, 0, 0, 1 }, values[2];
    posenc_error err = { 0 };
    ck_assert_int_eq(pe_sym_dense(2, a, values, NULL, &err), PE_NO_CONVERGENCE);
}
END_TEST

/* Path matrices of all small sizes (tails of every length), a graded one, one of rank 1. */
START_TEST(dense_sizes)
{
    for (int64_t n = 1; n <= 70; n += n < 20 ? 1 : 7) {
        double *a = calloc((size_t)(n * n), sizeof *a), *values = malloc((size_t)n * sizeof *values);
        for (int64_t i = 0; i < n; i++) {
            a[i * n + i] = 2;
            if (i + 1 < n)
                a[i * n + i + 1] = a[(i + 1) * n + i] = -1;
        }
        check_dense(n, a, 1e-15);
        ck_assert_int_eq(pe_sym_dense(n, a, values, NULL, NULL), PE_OK);
        for (int64_t i = 0; i < n; i++)
            ck_assert_double_le(fabs(values[i] - (2 - 2 * cos(PI * (double)(i + 1) / (double)(n + 1)))), 1e-14);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                a[i * n + j] = ldexp(1.0 + (double)((i * j + i + j) % 7), (int)(-3 * (i + j)));
        check_dense(n, a, 1e-15);
        for (int64_t i = 0; i < n * n; i++)
            a[i] = 1;
        check_dense(n, a, 1e-15);
        free(a);
        free(values);
    }
}
END_TEST

/* ---- pairs --------------------------------------------------------------------------------------------------- */

typedef struct known {
    int kind;
    int64_t size, want, extra;
    bool slow;
} known;

static const known cases[] = {
    { PATH, 2, 1, 4, false },       { PATH, 3, 8, 4, false },        { PATH, 40, 8, 8, false },
    { PATH, 500, 8, 8, false },     { RING, 5, 3, 4, false },        { RING, 501, 7, 8, false },
    { RING, 600, 16, 0, false },    { STAR, 6, 2, 9, false },        { STAR, 700, 8, 20, false },
    { COMPLETE, 7, 3, 9, false },   { COMPLETE, 180, 8, 12, false }, { BIPARTITE, 90, 4, 500, false },
    { BIPARTITE, 90, 4, 6, false }, { CUBE, 9, 4, 64, false },       { CUBE, 8, 12, 64, false },
    { CUBE, 10, 12, 64, false },    { GRID, 20, 8, 8, false },       { GRID, 24, 24, 8, false },
    { PATH, 20000, 32, 8, true },   { RING, 20000, 9, 8, true },     { GRID, 141, 8, 8, true },
    { GRID, 141, 32, 8, true },     { STAR, 2000, 8, 64, true },     { COMPLETE, 400, 8, 64, true },
};

static bool skipped(const known *k)
{
    const char *slow = getenv("POSENC_TEST_SLOW");
    return k->slow && (!slow || !*slow || strcmp(slow, "0") == 0);
}

/* Every case, every solver, both normalisations: eigenvalues, counts, next, orthonormality, residuals. */
static void closed_form(const known *k, bool normalized, pe_solver solver)
{
    int64_t total = 0;
    graph g = make(k->kind, k->size, normalized, NULL);
    double *all = formula(k->kind, k->size, normalized, &total), s = scale(&g.c);
    pe_pairs p = solve(&g.c, k->want, k->extra, solver);
    check_pairs(&g.c, &p, 1e-10);
    if (all) {
        ck_assert_int_eq(p.count, expected_count(all, total, k->want, k->extra));
        for (int64_t i = 0; i < p.count; i++)
            ck_assert_double_le(fabs(p.values[i] - all[i]), 1e-12 * s);
        if (p.count == total)
            ck_assert(p.next == INFINITY);
        else
            ck_assert_double_le(fabs(p.next - all[p.count]), 1e-6 * all[p.count]);
    }
    free(all);
    pe_pairs_fini(&p);
    pe_pairs_fini(&p);
    graph_free(&g);
}

START_TEST(pairs_auto)
{
    if (!skipped(&cases[_i]))
        for (int normalized = 0; normalized < 2; normalized++)
            closed_form(&cases[_i], normalized, PE_SOLVER_AUTO);
}
END_TEST

START_TEST(pairs_each_solver)
{
    static const pe_solver solvers[] = { PE_SOLVER_DENSE, PE_SOLVER_SHIFT_INVERT, PE_SOLVER_CHEBYSHEV };
    for (int i = 0; i < 3; i++)
        for (int normalized = 0; normalized < 2; normalized++)
            if (!cases[_i].slow && cases[_i].size <= 520)
                closed_form(&cases[_i], normalized, solvers[i]);
}
END_TEST

/* Weights over twelve decades: the solvers find the same values; positive definite matrices have no kernel. */
START_TEST(weighted)
{
    enum { SIDE = 22, EDGES = 4 * (SIDE + 1) * (SIDE + 1) };
    double *w = malloc(EDGES * sizeof *w);
    uint64_t x = 7;
    for (int i = 0; i < EDGES; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        w[i] = pow(10, (double)(x >> 40) * 0x1p-24 * 12 - 6);
    }
    for (int normalized = 0; normalized < 2; normalized++) {
        graph g = make(GRID, SIDE, normalized, w);
        pe_pairs dense = solve(&g.c, 8, 8, PE_SOLVER_DENSE), inverse = solve(&g.c, 8, 8, PE_SOLVER_SHIFT_INVERT);
        check_pairs(&g.c, &dense, 1e-10);
        check_pairs(&g.c, &inverse, 1e-10);
        ck_assert_int_eq(dense.count, inverse.count);
        for (int64_t i = 0; i < dense.count; i++)
            ck_assert_double_le(fabs(dense.values[i] - inverse.values[i]), 1e-13 * scale(&g.c));
        pe_pairs_fini(&dense);
        pe_pairs_fini(&inverse);
        graph_free(&g);
    }
    free(w);
}
END_TEST

START_TEST(signed_weights)
{
    enum { SIDE = 18, EDGES = 4 * (SIDE + 1) * (SIDE + 1) };
    double *w = malloc(EDGES * sizeof *w);
    for (int i = 0; i < EDGES; i++)
        w[i] = i % 5 == 2 ? -0.5 : 1 + 0.25 * (i % 3);
    for (int normalized = 0; normalized < 2; normalized++) {
        graph g = make(GRID, SIDE, normalized, w);
        g.c.kernel = NULL;
        pe_pairs p[3];
        for (int i = 0; i < 3; i++) {
            p[i] = solve(&g.c, 6, 8, (pe_solver)(PE_SOLVER_DENSE + i));
            check_pairs(&g.c, &p[i], 1e-10);
            ck_assert_int_eq(p[i].count, p[0].count);
            ck_assert_double_gt(p[i].values[0], 0);
            for (int64_t k = 0; k < p[0].count; k++)
                ck_assert_double_le(fabs(p[i].values[k] - p[0].values[k]), 1e-12 * scale(&g.c));
        }
        for (int i = 0; i < 3; i++)
            pe_pairs_fini(&p[i]);
        graph_free(&g);
    }
    free(w);
}
END_TEST

/* Self-loops of weight 1 at every third node, kept, sym: L = I - D^-1/2 A D^-1/2 with the loop in D and A. The
 * kernel is still D^1/2 1. A positive diagonal beyond that makes L positive definite. */
START_TEST(loops)
{
    enum { SIDE = 16 };
    for (int definite = 0; definite < 2; definite++) {
        graph g = make(GRID, SIDE, true, NULL);
        double *diagonal = malloc((size_t)g.c.n * sizeof *diagonal), square = 0;
        for (int64_t i = 0; i < g.c.n; i++) {
            g.degree[i] += i % 3 == 0;
            diagonal[i] = 1 - (i % 3 == 0) / g.degree[i] + 0.125 * definite;
            g.kernel[i] = sqrt(g.degree[i]);
            square += g.degree[i];
        }
        for (int64_t i = 0; i < g.c.n; i++)
            g.kernel[i] /= sqrt(square);
        g.c.diagonal = diagonal;
        g.c.kernel = definite ? NULL : g.kernel;
        pe_pairs p[3];
        for (int i = 0; i < 3; i++) {
            p[i] = solve(&g.c, 6, 8, (pe_solver)(PE_SOLVER_DENSE + i));
            check_pairs(&g.c, &p[i], 1e-10);
            ck_assert_int_eq(p[i].count, p[0].count);
            for (int64_t k = 0; k < p[0].count; k++)
                ck_assert_double_le(fabs(p[i].values[k] - p[0].values[k]), 1e-12);
        }
        if (definite)
            ck_assert_double_le(fabs(p[0].values[0] - 0.125), 1e-13);
        for (int i = 0; i < 3; i++)
            pe_pairs_fini(&p[i]);
        free(diagonal);
        graph_free(&g);
    }
}
END_TEST

/* A barbell: the second eigenvalue is tiny, and its vector must not be the kernel's. */
START_TEST(tiny_gap)
{
    int32_t u[] = { 0, 0, 1, 2, 3, 3, 4 }, v[] = { 1, 2, 2, 3, 4, 5, 5 };
    double w[] = { 1, 1, 1, 1e-13, 1, 1, 1 };
    for (int normalized = 0; normalized < 2; normalized++) {
        graph g = build(6, 7, u, v, w, normalized, true);
        pe_pairs p = solve(&g.c, 2, 0, PE_SOLVER_AUTO);
        check_pairs(&g.c, &p, 1e-10);
        ck_assert_double_gt(p.values[0], 0);
        ck_assert_double_lt(p.values[0], 1e-12);
        for (int i = 1; i < 3; i++)
            ck_assert_double_gt(p.vectors[0] * p.vectors[i], 0);
        for (int i = 3; i < 6; i++)
            ck_assert_double_lt(p.vectors[0] * p.vectors[i], 0);
        pe_pairs_fini(&p);
        graph_free(&g);
    }
}
END_TEST

/* Projectors onto the found spaces agree between the iterative solvers (a grid cut between eigenvalues). */
START_TEST(solvers_agree)
{
    graph g = make(GRID, 30, true, NULL);
    pe_pairs a = solve(&g.c, 10, 8, PE_SOLVER_SHIFT_INVERT), b = solve(&g.c, 10, 8, PE_SOLVER_CHEBYSHEV);
    ck_assert_int_eq(a.count, b.count);
    for (int64_t i = 0; i < a.count; i++) {
        double inside = 0;
        ck_assert_double_le(fabs(a.values[i] - b.values[i]), 1e-13);
        for (int64_t j = 0; j < b.count; j++) {
            double d = dot(g.c.n, a.vectors + i * g.c.n, b.vectors + j * g.c.n);
            inside += d * d;
        }
        ck_assert_double_le(fabs(inside - 1), 1e-12);
    }
    pe_pairs_fini(&a);
    pe_pairs_fini(&b);
    graph_free(&g);
}
END_TEST

/* A hub, degrees far apart, no room for a factor: conjugate gradients, up to the residuals that are asked for. */
START_TEST(hub)
{
    enum { N = 4300 };
    static int32_t u[3 * N], v[3 * N];
    int64_t m = 0;
    uint64_t x = 7;
    for (int32_t i = 1; i < N; i++)
        for (int32_t k = 0, before = -1; k < 3; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            const int32_t j = k == 2 ? 0 : i > 1 ? 1 + (int32_t)((x >> 33) % (uint64_t)(i - 1)) : 0;
            if (j == before || (k == 2 && i > N / 2) || (k == 1 && i % 5 == 4) || (k < 2 && j == 0))
                continue;
            u[m] = j;
            v[m++] = i;
            before = j;
        }
    graph g = build(N, m, u, v, NULL, false, true);
    posenc_context ctx = { .memory_limit = pe_component_bytes(N, g.ptr[N], 8) + pe_ldl_bytes(N, g.ptr[N], 0) };
    pe_pairs a = solve(&g.c, 8, 8, PE_SOLVER_SHIFT_INVERT), b;
    ck_assert_int_eq(pe_component_pairs(&g.c, 8, 8, 1e-10, 0, PE_SOLVER_SHIFT_INVERT, false, &b, &ctx, NULL), PE_LIMIT);
    for (int i = 0; i < 2; i++) {
        static const double tols[] = { 1e-6, 1e-10 };
        posenc_error err = { 0 };
        const posenc_status st = pe_component_pairs(&g.c, 8, 8, tols[i], 0, PE_SOLVER_AUTO, false, &b, &ctx, &err);
        ck_assert_msg(!st, "tol %g: %s", tols[i], err.fault[0].allowed);
        check_pairs(&g.c, &b, tols[i]);
        ck_assert_int_eq(b.count, a.count);
        for (int64_t j = 0; j < a.count; j++)
            ck_assert_double_le(fabs(a.values[j] - b.values[j]), 1e-9);
        pe_pairs_fini(&b);
    }
    pe_pairs_fini(&a);
    graph_free(&g);
}
END_TEST

START_TEST(same_bits)
{
    for (int solver = PE_SOLVER_DENSE; solver <= PE_SOLVER_CHEBYSHEV; solver++) {
        graph g = make(GRID, 16, false, NULL);
        pe_pairs a = solve(&g.c, 9, 8, (pe_solver)solver), b = solve(&g.c, 9, 8, (pe_solver)solver);
        ck_assert_int_eq(a.count, b.count);
        ck_assert_mem_eq(a.values, b.values, (size_t)a.count * sizeof(double));
        ck_assert_mem_eq(a.vectors, b.vectors, (size_t)(a.count * a.n) * sizeof(double));
        ck_assert_mem_eq(&a.next, &b.next, sizeof a.next);
        pe_pairs_fini(&a);
        pe_pairs_fini(&b);
        graph_free(&g);
    }
}
END_TEST

/* More pairs than one run looks for, and all pairs there are. */
START_TEST(many_pairs)
{
    graph g = make(GRID, 30, false, NULL);
    int64_t total;
    double *all = formula(GRID, 30, false, &total);
    for (int solver = PE_SOLVER_SHIFT_INVERT; solver <= PE_SOLVER_CHEBYSHEV; solver++) {
        pe_pairs p = solve(&g.c, 100, 8, (pe_solver)solver);
        check_pairs(&g.c, &p, 1e-10);
        ck_assert_int_eq(p.count, expected_count(all, total, 100, 8));
        for (int64_t i = 0; i < p.count; i++)
            ck_assert_double_le(fabs(p.values[i] - all[i]), 1e-12);
        pe_pairs_fini(&p);
    }
    free(all);
    graph_free(&g);
    g = make(GRID, 6, false, NULL);
    pe_pairs p = solve(&g.c, 1000, 0, PE_SOLVER_AUTO);
    ck_assert_int_eq(p.count, g.c.n - 1);
    ck_assert(p.next == INFINITY);
    pe_pairs_fini(&p);
    graph_free(&g);
}
END_TEST

/* ---- stopping and limits ------------------------------------------------------------------------------------- */

typedef struct countdown {
    int64_t left;
    posenc_status with;
} countdown;

static posenc_status stop(void *user)
{
    countdown *c = user;
    return c->left-- > 0 ? PE_OK : c->with;
}

START_TEST(cancelled)
{
    for (int solver = PE_SOLVER_DENSE; solver <= PE_SOLVER_CHEBYSHEV; solver++) {
        graph g = make(GRID, solver == PE_SOLVER_DENSE ? 16 : 40, false, NULL);
        posenc_status st = PE_DEADLINE;
        for (int64_t after = 0; st; after = 2 * after + 1) {
            countdown c = { after, after % 2 ? PE_CANCELLED : PE_DEADLINE };
            posenc_context ctx = { .stop = stop, .user = &c };
            pe_pairs p;
            st = pe_component_pairs(&g.c, 8, 8, 1e-10, 0, (pe_solver)solver, false, &p, &ctx, NULL);
            ck_assert(st == PE_OK || st == c.with);
            if (st)
                ck_assert(!p.values && !p.vectors && p.count == 0);
            pe_pairs_fini(&p);
        }
        graph_free(&g);
    }
}
END_TEST

START_TEST(limits)
{
    graph g = make(GRID, 30, false, NULL);
    for (int solver = PE_SOLVER_AUTO; solver <= PE_SOLVER_CHEBYSHEV; solver++) {
        posenc_context ctx = { .memory_limit = 100000 };
        posenc_error err = { 0 };
        pe_pairs p;
        ck_assert_int_eq(pe_component_pairs(&g.c, 8, 8, 1e-10, 0, (pe_solver)solver, false, &p, &ctx, &err), PE_LIMIT);
        ck_assert_str_eq(err.fault[0].reason, "LIMIT_EXCEEDED");
        ck_assert_str_eq(err.fault[0].field, "graph");
        ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "memory"));
    }
    ck_assert_uint_gt(pe_component_bytes(g.c.n, g.c.ptr[g.c.n], 8), 100000);
    posenc_error err = { 0 };
    pe_pairs p;
    posenc_status st = pe_component_pairs(&g.c, 40, 8, 1e-18, 2, PE_SOLVER_SHIFT_INVERT, false, &p, NULL, &err);
    ck_assert_int_eq(st, PE_NO_CONVERGENCE);
    ck_assert_str_eq(err.fault[0].reason, "NO_CONVERGENCE");
    graph_free(&g);
}
END_TEST

/* ---- orders -------------------------------------------------------------------------------------------------- */

/* Entries of L below the diagonal, by elimination on sets of neighbours (n, n). */
static double fill_of(const pe_component *c, const int32_t *order)
{
    const int64_t n = c->n;
    bool *joined = calloc((size_t)(n * n), 1), *gone = calloc((size_t)n, 1);
    double entries = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++)
            joined[i * n + c->col[p]] = true;
    for (int64_t k = 0; k < n; k++) {
        const int64_t v = order[k];
        ck_assert(!gone[v]);
        gone[v] = true;
        for (int64_t i = 0; i < n; i++) {
            if (gone[i] || !joined[v * n + i])
                continue;
            entries++;
            for (int64_t j = 0; j < n; j++)
                joined[i * n + j] |= j != i && !gone[j] && joined[v * n + j];
        }
    }
    free(joined);
    free(gone);
    return entries;
}

/* A permutation with `last` at the end; the estimate is an upper bound of the fill, which is at most `most`. */
static void check_order(const graph *g, int64_t last, double most)
{
    int32_t *order = malloc((size_t)g->c.n * sizeof *order);
    double entries, products;
    pe_pace pace = { .left = PE_PACE_STEPS };
    ck_assert_int_eq(pe_minimum_fill(&g->c, last, order, &entries, &products, &pace, NULL), PE_OK);
    if (last >= 0)
        ck_assert_int_eq(order[g->c.n - 1], last);
    const double fill = fill_of(&g->c, order);
    ck_assert_double_le(fill, most);
    if (last < 0) {
        ck_assert_double_ge(entries, fill);
        ck_assert_double_ge(products, entries);
    }
    free(order);
}

/* Trees fill nothing in; a cycle one entry a vertex; of a grid, nested dissection would leave 31 / 4 n log2(side), George
 * 1973; where there is a hub it goes last. */
START_TEST(orders)
{
    enum { SIDE = 24, N = SIDE * SIDE };
    static int32_t u[4 * N], v[4 * N];
    int64_t m = 0;
    graph g;
    for (int32_t i = 1; i < N; i++) {
        u[i - 1] = i;
        v[i - 1] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)i / 2);
    }
    g = build(N, N - 1, u, v, NULL, false, true);
    check_order(&g, -1, N - 1);
    check_order(&g, 5, N - 1 + 50);
    graph_free(&g);
    for (int32_t i = 0; i < N; i++) {
        u[i] = i;
        v[i] = (i + 1) % N;
    }
    g = build(N, N, u, v, NULL, false, true);
    check_order(&g, -1, 2 * N - 3);
    graph_free(&g);
    for (int32_t i = 0; i < SIDE; i++)
        for (int32_t j = 0; j < SIDE; j++) {
            if (j + 1 < SIDE) {
                u[m] = i * SIDE + j;
                v[m++] = i * SIDE + j + 1;
            }
            if (i + 1 < SIDE) {
                u[m] = i * SIDE + j;
                v[m++] = (i + 1) * SIDE + j;
            }
        }
    g = build(N, m, u, v, NULL, false, true);
    check_order(&g, -1, 7.75 * N * 4.6);
    check_order(&g, N / 2, 7.75 * N * 4.6);
    graph_free(&g);
    for (int32_t i = 1; i < N; i++) { /* a hub that is joined to all */
        if (i % SIDE == 0)
            continue;
        u[m] = 0;
        v[m++] = i;
    }
    int64_t distinct = 0;
    for (int64_t e = 0; e < m; e++)
        if (e < 2 * SIDE * (SIDE - 1) ? u[e] != 0 : 1) {
            u[distinct] = u[e];
            v[distinct++] = v[e];
        }
    g = build(N, distinct, u, v, NULL, false, true);
    int32_t order[N];
    double entries, products;
    pe_pace pace = { .left = PE_PACE_STEPS };
    ck_assert_int_eq(pe_minimum_fill(&g.c, -1, order, &entries, &products, &pace, NULL), PE_OK);
    ck_assert_int_eq(order[N - 1], 0);
    ck_assert_double_ge(entries, fill_of(&g.c, order));
    graph_free(&g);
}
END_TEST

/* Entries of L below the diagonal, by walking each row's subtree of the elimination tree: for large graphs. */
static double walked_fill(const pe_component *c, const int32_t *order)
{
    const size_t n = (size_t)c->n;
    int32_t *place = malloc(n * sizeof *place), *parent = malloc(n * sizeof *parent), *mark = malloc(n * sizeof *mark);
    double entries = 0;
    for (size_t k = 0; k < n; k++)
        parent[k] = mark[k] = -1;
    for (size_t k = 0; k < n; k++) {
        ck_assert_int_eq(mark[order[k]], -1);
        mark[order[k]] = 0;
        place[order[k]] = (int32_t)k;
    }
    for (int32_t k = 0; k < c->n; k++) {
        mark[k] = k;
        for (int64_t p = c->ptr[order[k]]; p < c->ptr[order[k] + 1]; p++)
            for (int32_t i = place[c->col[p]]; i < k && mark[i] != k; i = parent[i], entries++) {
                mark[i] = k;
                if (parent[i] < 0)
                    parent[i] = k;
            }
    }
    free(place);
    free(parent);
    free(mark);
    return entries;
}

/* Edges between neighbours of a grid (a, b, c). */
static int64_t grid_edges(int32_t a, int32_t b, int32_t c, int32_t *u, int32_t *v)
{
    int64_t m = 0;
    for (int32_t i = 0; i < a * b * c; i++) {
        const int32_t steps[] = { i % c + 1 < c ? 1 : 0, i / c % b + 1 < b ? c : 0, i / c / b + 1 < a ? c * b : 0 };
        for (int k = 0; k < 3; k++)
            if (steps[k] > 0) {
                u[m] = i;
                v[m++] = i + steps[k];
            }
    }
    return m;
}

/* The order is the same twice, and its fill is at most `most` and what the estimate says. */
static void check_large_order(int64_t n, int64_t m, const int32_t *u, const int32_t *v, double most)
{
    graph g = build(n, m, u, v, NULL, false, true);
    int32_t *order = malloc((size_t)n * sizeof *order), *again = malloc((size_t)n * sizeof *again);
    double entries, products;
    pe_pace pace = { .left = PE_PACE_STEPS };
    ck_assert_int_eq(pe_minimum_fill(&g.c, -1, order, &entries, &products, &pace, NULL), PE_OK);
    const double fill = walked_fill(&g.c, order);
    ck_assert_double_le(fill, most);
    ck_assert_double_ge(entries, fill);
    ck_assert_double_le(entries, 1.01 * fill);
    ck_assert_int_eq(pe_minimum_fill(&g.c, -1, again, &entries, &products, &pace, NULL), PE_OK);
    ck_assert_mem_eq(order, again, (size_t)n * sizeof *order);
    free(order);
    free(again);
    graph_free(&g);
}

/* By minimum degree a grid of 200 x 200 is left with 1.04e6 entries, one of 20 x 20 x 20 with 0.82e6. */
START_TEST(orders_of_large_graphs)
{
    enum { SIDE = 200, N = SIDE * SIDE };
    static int32_t u[3 * N], v[3 * N];
    int64_t m = grid_edges(1, SIDE, SIDE, u, v);
    check_large_order(N, m, u, v, 0.85 * 1.04e6);
    m = grid_edges(20, 20, 20, u, v);
    check_large_order(8000, m, u, v, 0.95 * 0.82e6);
    for (int32_t i = 1; i < N; i++) { /* a star, then a path */
        u[i - 1] = 0;
        v[i - 1] = i;
    }
    check_large_order(N, N - 1, u, v, N - 1);
    for (int32_t i = 1; i < N; i++)
        u[i - 1] = i - 1;
    check_large_order(N, N - 1, u, v, N - 1);
    m = 0; /* cliques of 40 side by side, each joined to the next by one edge: nothing fills in */
    for (int32_t i = 0; i < 4000; i++)
        for (int32_t j = i + 1; j < i / 40 * 40 + 40 || (i % 40 == 39 && j == i + 1 && j < 4000); j++) {
            u[m] = i;
            v[m++] = j;
        }
    check_large_order(4000, m, u, v, (double)m);
}
END_TEST

static posenc_status stop_now(void *user)
{
    ++*(int *)user;
    return PE_CANCELLED;
}

/* Dense enough that lists are moved together more than once; and it can be stopped. */
START_TEST(orders_of_random_graphs)
{
    enum { N = 300 };
    static int32_t u[N * 12], v[N * 12];
    uint64_t seed = 7;
    for (int each = 2; each <= 12; each += 5) {
        int64_t m = 0;
        static bool had[N][N];
        memset(had, 0, sizeof had);
        while (m < N * each) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const int32_t a = (int32_t)((seed >> 33) % N), b = (int32_t)((seed >> 13) % N);
            if (a == b || had[a][b])
                continue;
            had[a][b] = had[b][a] = true;
            u[m] = a;
            v[m++] = b;
        }
        graph g = build(N, m, u, v, NULL, false, true);
        check_order(&g, -1, N * (N - 1) / 2);
        int polls = 0;
        posenc_context ctx = { .stop = stop_now, .user = &polls };
        pe_pace pace = { .ctx = &ctx, .left = 1000 };
        int32_t order[N];
        double entries, products;
        ck_assert_int_eq(pe_minimum_fill(&g.c, -1, order, &entries, &products, &pace, NULL), PE_CANCELLED);
        ck_assert_int_eq(polls, 1);
        graph_free(&g);
    }
}
END_TEST

/* A copy in breadth-first order has the same rows under other names. */
START_TEST(relabelled)
{
    enum { N = 40 };
    int32_t u[2 * N], v[2 * N];
    double w[2 * N];
    int64_t m = 0;
    for (int32_t i = 0; i < N; i++)
        for (int32_t step = 7; step <= 9; step += 2) {
            u[m] = i;
            v[m] = (i + step) % N;
            w[m] = 1 + (double)m / 8;
            m++;
        }
    graph g = build(N, m, u, v, w, true, true);
    pe_pace pace = { .left = PE_PACE_STEPS };
    pe_relabelled r;
    int32_t *order = malloc(N * sizeof *order);
    bool seen[N] = { 0 };
    ck_assert_int_eq(pe_breadth_first(&g.c, order, &pace, NULL), PE_OK);
    ck_assert_int_eq(pe_relabel(&r, &g.c, order, &pace, NULL), PE_OK);
    ck_assert_int_eq(r.c.ptr[N], g.c.ptr[N]);
    for (int64_t k = 0; k < N; k++) {
        const int64_t i = r.order[k];
        ck_assert(!seen[i]);
        seen[i] = true;
        ck_assert(r.c.degree[k] == g.c.degree[i] && r.c.kernel[k] == g.c.kernel[i]);
        ck_assert_int_eq(r.c.ptr[k + 1] - r.c.ptr[k], g.c.ptr[i + 1] - g.c.ptr[i]);
        for (int64_t p = r.c.ptr[k]; p < r.c.ptr[k + 1]; p++) {
            ck_assert(p == r.c.ptr[k] || r.c.col[p] > r.c.col[p - 1]);
            int64_t q = g.c.ptr[i];
            while (q < g.c.ptr[i + 1] && g.c.col[q] != r.order[r.c.col[p]])
                q++;
            ck_assert_int_lt(q, g.c.ptr[i + 1]);
            ck_assert(r.c.weight[p] == g.c.weight[q]);
        }
    }
    pe_relabelled_fini(&r);
    graph_free(&g);
}
END_TEST

Suite *linalg_suite(void)
{
    Suite *s = suite_create("linalg");
    TCase *dense = tcase_create("dense"), *pairs = tcase_create("pairs"), *ends = tcase_create("ends");
    tcase_add_test(dense, dense_small);
    tcase_add_test(dense, dense_sizes);
    tcase_add_loop_test(pairs, pairs_auto, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_loop_test(pairs, pairs_each_solver, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(pairs, weighted);
    tcase_add_test(pairs, signed_weights);
    tcase_add_test(pairs, loops);
    tcase_add_test(pairs, tiny_gap);
    tcase_add_test(pairs, solvers_agree);
    tcase_add_test(pairs, hub);
    tcase_add_test(pairs, same_bits);
    tcase_add_test(pairs, many_pairs);
    tcase_add_test(pairs, orders);
    tcase_add_test(pairs, orders_of_random_graphs);
    tcase_add_test(pairs, orders_of_large_graphs);
    tcase_add_test(pairs, relabelled);
    tcase_add_test(ends, cancelled);
    tcase_add_test(ends, limits);
    tcase_set_timeout(dense, 60);
    tcase_set_timeout(pairs, 120);
    tcase_set_timeout(ends, 120);
    suite_add_tcase(s, dense);
    suite_add_tcase(s, pairs);
    suite_add_tcase(s, ends);
    return s;
}
