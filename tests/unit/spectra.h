/* spectra.h - for tests of graph encodings: small graphs, one call, a slow eigensolver that shares nothing with the library.
 */
#ifndef TESTS_SPECTRA_H
#define TESTS_SPECTRA_H

#include "core/params.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
#define LEN(a) (sizeof(a) / sizeof(a)[0])

/* ---- graphs ---- */

enum { MOST_EDGES = 20000 };

typedef struct graph {
    posenc_edges e;
    int64_t s[MOST_EDGES], t[MOST_EDGES], ptr[64];
    double w[MOST_EDGES];
} graph;

static inline graph *new_graph(int64_t n)
{
    graph *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    g->e = (posenc_edges){ .num_nodes = n, .source = g->s, .target = g->t };
    return g;
}

static inline void add_weight(graph *g, int64_t u, int64_t v, double w)
{
    ck_assert_int_lt(g->e.nedges, MOST_EDGES);
    g->e.weight = w == 1 ? g->e.weight : g->w;
    g->w[g->e.nedges] = w;
    g->s[g->e.nedges] = u;
    g->t[g->e.nedges++] = v;
}

static inline void add(graph *g, int64_t u, int64_t v) { add_weight(g, u, v, 1); }

static inline graph *path(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 0; i + 1 < n; i++)
        add(g, i, i + 1);
    return g;
}

static inline graph *cycle(int64_t n)
{
    graph *g = path(n);
    add(g, n - 1, 0);
    return g;
}

static inline graph *complete(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            add(g, i, j);
    return g;
}

static inline graph *directed(graph *g)
{
    g->e.directed = true;
    return g;
}

static inline int64_t any(int64_t n)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* Connected, without loops or parallel edges; weights of quarters, up to 4, where asked for. Directed: some edges in both
 * directions, with different weights. */
static inline graph *tangle(int64_t n, int64_t more, bool weighted, bool arcs)
{
    graph *g = new_graph(n);
    g->e.directed = arcs;
    for (int64_t i = 1; i < n + more; i++) {
        int64_t u = i < n ? i : any(n), v = i < n ? any(i) : any(n);
        bool there = u == v;
        for (int64_t j = 0; j < g->e.nedges; j++)
            there = there || (g->s[j] == u && g->t[j] == v) || (!arcs && g->s[j] == v && g->t[j] == u);
        if (!there)
            add_weight(g, u, v, weighted ? 0.25 * (double)(1 + any(16)) : 1);
    }
    return g;
}

/* The same graph with node i called name[i], its edges listed the other way round. */
static inline graph *relabelled(const graph *g, const int64_t *name)
{
    graph *h = new_graph(g->e.num_nodes);
    h->e.directed = g->e.directed;
    for (int64_t j = g->e.nedges; j-- > 0;)
        add_weight(h, name[g->s[j]], name[g->t[j]], g->w[j]);
    return h;
}

/* The graphs one after the other as a batch. */
static inline graph *batch(graph *const *part, int64_t n)
{
    graph *g = new_graph(0);
    g->e.directed = part[0]->e.directed;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = part[i]->e.nedges; j-- > 0;)
            add_weight(g, g->e.num_nodes + part[i]->s[j], g->e.num_nodes + part[i]->t[j], part[i]->w[j]);
        g->e.num_nodes += part[i]->e.num_nodes;
        g->ptr[i + 1] = g->e.num_nodes;
    }
    g->e.ptr = g->ptr;
    g->e.ngraphs = n;
    return g;
}

/* ---- answers ---- */

static inline posenc_answer ask(const char *encoding, const graph *g, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    posenc_status st = posenc_encode(encoding, query, &g->e, &a, NULL, &err);
    ck_assert_msg(!st, "%s %s: %s", encoding, query, posenc_error_text(&err, text, sizeof text));
    for (int i = 0; i < a.result.ntensors; i++)
        ck_assert_ptr_nonnull(a.result.tensor[i].data);
    return a;
}

static inline double get(posenc_answer *a, const char *name, int64_t i)
{
    const posenc_tensor *t = pe_tensor(&a->result, name);
    ck_assert_msg(t != NULL, "no output %s", name);
    ck_assert_int_lt(i, posenc_tensor_count(t));
    return posenc_tensor_get(t, i);
}

static inline int64_t size(posenc_answer *a, const char *name, int axis)
{
    const posenc_tensor *t = pe_tensor(&a->result, name);
    ck_assert_msg(t != NULL && axis < t->rank, "no output %s of that rank", name);
    return t->shape[axis];
}

static inline bool warned(const posenc_answer *a, const char *part)
{
    for (int i = 0; i < a->result.nwarnings; i++)
        if (strstr(a->result.warning[i], part))
            return true;
    return false;
}

/* That every number is finite, but for the outputs named in `except`. */
static inline void all_finite(posenc_answer *a, const char *except)
{
    for (int i = 0; i < a->result.ntensors; i++) {
        const posenc_tensor *t = &a->result.tensor[i];
        for (int64_t j = 0; j < posenc_tensor_count(t) && !strstr(except, t->name); j++)
            ck_assert_msg(isfinite(posenc_tensor_get(t, j)), "%s[%d]", t->name, (int)j);
    }
}

static inline void same_bytes(const posenc_answer *a, const posenc_answer *b)
{
    ck_assert_int_eq(a->result.ntensors, b->result.ntensors);
    for (int i = 0; i < a->result.ntensors; i++) {
        const posenc_tensor *x = &a->result.tensor[i], *y = &b->result.tensor[i];
        ck_assert_uint_eq(posenc_tensor_size(x), posenc_tensor_size(y));
        ck_assert_msg(!memcmp(x->data, y->data, posenc_tensor_size(x)), "%s differs", x->name);
    }
}

/* What is refused: the status, the field at fault and a part of what is said to be allowed. */
static inline void refused(const char *encoding, const graph *g, const char *query, posenc_status want, const char *field,
                           const char *words)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    posenc_status st = posenc_encode(encoding, query, &g->e, &a, NULL, &err);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == want, "%s %s: %s %s", encoding, query, posenc_status_name(st), text);
    ck_assert_uint_gt(err.n, 0);
    ck_assert_msg(!strcmp(err.fault[0].field, field), "%s %s: %s", encoding, query, text);
    ck_assert_msg(strstr(text, words) != NULL, "%s %s: %s lacks %s", encoding, query, text, words);
    if (strcmp(encoding, "laplacian") != 0 && strcmp(encoding, "laplacian_matrix") != 0)
        ck_assert_msg(!strstr(text, "allow_negative"), "%s %s: %s", encoding, query, text);
}

/* Several graphs in a batch get the bytes that each gets alone, whatever the order of their edges; a bad one voids no
 * other. `rows` is an output with a row for each node (or NULL), `once` one with a row for each graph. */
static inline void as_if_alone(const char *encoding, const char *query, bool arcs, const char *rows, const char *once)
{
    graph *part[] = { tangle(9, 6, true, arcs), new_graph(1), new_graph(0), tangle(12, 20, true, arcs),
                      tangle(3, 0, false, arcs) };
    part[1]->e.directed = part[2]->e.directed = arcs;
    enum { N = sizeof part / sizeof part[0], BAD = 3 };
    graph *whole = batch(part, N);
    for (int round = 0; round < 2; round++) {
        posenc_answer b = ask(encoding, whole, query);
        ck_assert_int_eq(size(&b, "status", 0), N);
        for (int i = 0; i < N; i++) {
            if (round && i == BAD) {
                ck_assert_double_eq(get(&b, "status", i), 400);
                continue;
            }
            ck_assert_double_eq(get(&b, "status", i), 0);
            posenc_answer a = ask(encoding, part[i], query);
            for (int k = 0; k < 2; k++) {
                const char *name = k ? rows : once;
                if (!name)
                    continue;
                const posenc_tensor *x = pe_tensor(&a.result, name), *y = pe_tensor(&b.result, name);
                int64_t n = posenc_tensor_count(x),
                        from = k ? whole->ptr[i] * (n / (part[i]->e.num_nodes ? part[i]->e.num_nodes : 1)) : i * n;
                if (n)
                    ck_assert_msg(!memcmp((char *)y->data + (size_t)from * posenc_dtype_size(y->dtype), x->data,
                                          posenc_tensor_size(x)),
                                  "%s %s: %s of graph %d", encoding, query, name, i);
            }
            posenc_answer_fini(&a);
        }
        posenc_answer_fini(&b);
        for (int64_t j = 0; j < whole->e.nedges; j++) /* an edge of graph BAD becomes negative */
            if (whole->s[j] >= whole->ptr[BAD]) {
                whole->w[j] = -1;
                break;
            }
        whole->e.weight = whole->w;
    }
    free(whole);
    for (int i = 0; i < N; i++)
        free(part[i]);
}

/* ---- Jacobi's eigensolver ---- */

/* a (n, n) symmetric, destroyed; values ascending; vectors: one a row. */
static inline void jacobi(int n, double *a, double *values, double *vectors)
{
    for (int i = 0; i < n * n; i++)
        vectors[i] = i % (n + 1) == 0;
    double most = 0;
    bool turned = true;
    for (int i = 0; i < n * n; i++)
        most = fmax(most, fabs(a[i]));
    for (int sweep = 0; sweep < 60 && turned; sweep++) {
        turned = false;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                if (fabs(a[p * n + q]) <= 1e-18 * most)
                    continue;
                turned = true;
                double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1),
                       s = t * c;
                for (int k = 0; k < n; k++) {
                    double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y;
                    a[k * n + q] = s * x + c * y;
                }
                for (int k = 0; k < n; k++) {
                    double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = c * x - s * y;
                    a[q * n + k] = s * x + c * y;
                    x = vectors[p * n + k], y = vectors[q * n + k];
                    vectors[p * n + k] = c * x - s * y;
                    vectors[q * n + k] = s * x + c * y;
                }
                a[p * n + q] = a[q * n + p] = 0;
            }
    }
    for (int i = 0; i < n; i++)
        values[i] = a[i * n + i];
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (values[j] < values[i]) {
                double v = values[i];
                values[i] = values[j];
                values[j] = v;
                for (int k = 0; k < n; k++) {
                    v = vectors[i * n + k];
                    vectors[i * n + k] = vectors[j * n + k];
                    vectors[j * n + k] = v;
                }
            }
}

/* D - A or I - D^-1/2 A D^-1/2 of an undirected graph without loops, by definition; l (n, n). */
static inline void plain_laplacian(const graph *g, bool normalized, double *l)
{
    int64_t n = g->e.num_nodes;
    double *d = calloc((size_t)n + 1, sizeof *d);
    memset(l, 0, (size_t)(n * n) * sizeof *l);
    for (int64_t j = 0; j < g->e.nedges; j++) {
        l[g->s[j] * n + g->t[j]] -= g->w[j];
        l[g->t[j] * n + g->s[j]] -= g->w[j];
        d[g->s[j]] += g->w[j];
        d[g->t[j]] += g->w[j];
    }
    for (int64_t i = 0; i < n * n; i++) {
        if (i % (n + 1) == 0)
            l[i] = normalized ? 1 : d[i / n];
        else if (normalized && d[i / n] > 0 && d[i % n] > 0)
            l[i] /= sqrt(d[i / n] * d[i % n]);
    }
    free(d);
}

/* For START_TEST that need a large graph: ring lattice with `more` chords from a fixed generator, malloc'ed arrays. */
typedef struct large {
    posenc_edges e;
    int64_t *memory;
} large;

static inline large large_graph(int64_t n, int64_t more)
{
    large g = { .memory = malloc((size_t)(2 * (n + more)) * sizeof(int64_t)) };
    ck_assert_ptr_nonnull(g.memory);
    int64_t *s = g.memory, *t = s + n + more;
    for (int64_t i = 0; i < n + more; i++) {
        s[i] = i < n ? i : any(n);
        t[i] = i < n ? (i + 1) % n : any(n);
    }
    g.e = (posenc_edges){ .num_nodes = n, .nedges = n + more, .source = s, .target = t };
    return g;
}

#endif
