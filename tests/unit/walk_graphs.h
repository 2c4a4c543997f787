/* walk_graphs.h - graphs for tests of encodings that walk over them, and one call with a graph. */
#ifndef TESTS_WALK_GRAPHS_H
#define TESTS_WALK_GRAPHS_H

#include "alloc.h"
#include "core/params.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- graphs ---- */

enum { MAX_EDGES = 40000 };

typedef struct graph {
    posenc_edges e;
    int64_t s[MAX_EDGES], t[MAX_EDGES], ptr[64];
    double w[MAX_EDGES];
} graph;

static inline graph *new_graph(int64_t n)
{
    graph *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    g->e = (posenc_edges){ .num_nodes = n, .source = g->s, .target = g->t };
    return g;
}

static inline void add(graph *g, int64_t u, int64_t v)
{
    ck_assert_int_lt(g->e.nedges, MAX_EDGES);
    g->w[g->e.nedges] = 1;
    g->s[g->e.nedges] = u;
    g->t[g->e.nedges++] = v;
}

static inline void add_weight(graph *g, int64_t u, int64_t v, double w)
{
    g->e.weight = g->w;
    add(g, u, v);
    g->w[g->e.nedges - 1] = w;
}

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

static inline graph *star(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 1; i < n; i++)
        add(g, 0, i);
    return g;
}

static inline graph *grid(int64_t a, int64_t b)
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

static inline int64_t any(int64_t n)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static inline double any_weight(void) { return (double)(any(1 << 20) + 1) / (1 << 20); }

/* Arcs at random; undirected ones from the smaller to the larger id. */
static inline graph *scatter(int64_t n, int64_t m, bool directed, bool weighted)
{
    graph *g = new_graph(n);
    g->e.directed = directed;
    for (int64_t i = 0; i < m; i++) {
        int64_t u = any(n), v = any(n), a = u < v || directed ? u : v, b = u < v || directed ? v : u;
        if (weighted)
            add_weight(g, a, b, any_weight());
        else
            add(g, a, b);
    }
    return g;
}

/* The same graph with node i called p[i], its edges listed from the end. */
static inline graph *relabelled(const graph *g, const int64_t *p)
{
    graph *h = new_graph(g->e.num_nodes);
    h->e.directed = g->e.directed;
    for (int64_t i = g->e.nedges - 1; i >= 0; i--)
        add_weight(h, p[g->s[i]], p[g->t[i]], g->w[i]);
    return h;
}

static inline void shuffle(int64_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t j = any(i + 1);
        p[i] = p[j];
        p[j] = i;
    }
}

/* A batch of two: h behind g. */
static inline graph *both(const graph *g, const graph *h)
{
    graph *b = new_graph(g->e.num_nodes + h->e.num_nodes);
    b->e.directed = g->e.directed;
    for (int64_t i = 0; i < g->e.nedges; i++)
        add_weight(b, g->s[i], g->t[i], g->w[i]);
    for (int64_t i = 0; i < h->e.nedges; i++)
        add_weight(b, g->e.num_nodes + h->s[i], g->e.num_nodes + h->t[i], h->w[i]);
    b->ptr[1] = g->e.num_nodes;
    b->ptr[2] = b->e.num_nodes;
    b->e.ptr = b->ptr;
    b->e.ngraphs = 2;
    return b;
}

/* A (n, n): weights summed, loops once. */
static inline double *dense(const graph *g)
{
    const int64_t n = g->e.num_nodes;
    double *a = calloc((size_t)(n * n) + 1, sizeof *a);
    ck_assert_ptr_nonnull(a);
    for (int64_t i = 0; i < g->e.nedges; i++) {
        a[g->s[i] * n + g->t[i]] += g->w[i];
        if (!g->e.directed && g->s[i] != g->t[i])
            a[g->t[i] * n + g->s[i]] += g->w[i];
    }
    return a;
}

/* ---- one call ---- */

static inline posenc_answer ask(const char *encoding, const graph *g, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    posenc_status st = posenc_encode(encoding, query, &g->e, &a, NULL, &err);
    ck_assert_msg(!st, "%s: %s", query, posenc_error_text(&err, text, sizeof text));
    return a;
}

static inline posenc_answer ask_once(const char *encoding, graph *g, const char *query)
{
    posenc_answer a = ask(encoding, g, query);
    free(g);
    return a;
}

static inline double get(posenc_answer *a, const char *name, int64_t i)
{
    const posenc_tensor *t = pe_tensor(&a->result, name);
    ck_assert_msg(t != NULL, "no output %s", name);
    ck_assert_int_lt(i, posenc_tensor_count(t));
    return posenc_tensor_get(t, i);
}

static inline int64_t size_of(posenc_answer *a, const char *name, int axis)
{
    return pe_tensor(&a->result, name)->shape[axis];
}

static inline bool warned(const posenc_answer *a, const char *part)
{
    for (int i = 0; i < a->result.nwarnings; i++)
        if (strstr(a->result.warning[i], part))
            return true;
    return false;
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

/* Both graphs of a batch have the bytes that they have alone: outputs with a row for each node. */
static inline void as_if_alone(const char *encoding, const graph *g, const graph *h, const char *query,
                               const char *const *names)
{
    graph *b = both(g, h);
    posenc_answer x = ask(encoding, g, query), y = ask(encoding, h, query), z = ask(encoding, b, query);
    for (; *names; names++) {
        const posenc_tensor *p = pe_tensor(&x.result, *names), *q = pe_tensor(&y.result, *names),
                            *r = pe_tensor(&z.result, *names);
        ck_assert_uint_eq(posenc_tensor_size(p) + posenc_tensor_size(q), posenc_tensor_size(r));
        ck_assert_msg(!memcmp(p->data, r->data, posenc_tensor_size(p)), "%s of graph 0", *names);
        ck_assert_msg(!memcmp(q->data, (char *)r->data + posenc_tensor_size(p), posenc_tensor_size(q)), "%s of graph 1",
                      *names);
    }
    posenc_answer_fini(&x);
    posenc_answer_fini(&y);
    posenc_answer_fini(&z);
    free(b);
}

/* The first allocation fails, the second, and so on until none is left that could: nothing is lost, and the answer is BUSY,
 * or right where only the estimate of the cost missed it. */
static inline void survives_without_memory(const char *encoding, const graph *g, const char *query)
{
    bool failed = true;
    for (long n = 1; failed; n++) {
        posenc_answer a;
        alloc_fail_at(n);
        const posenc_status st = posenc_encode(encoding, query, &g->e, &a, NULL, NULL);
        failed = alloc_failed();
        alloc_fail_at(0);
        posenc_answer_fini(&a);
        ck_assert_msg(st == PE_OK || (failed && st == PE_BUSY), "%s %s, allocation %ld: %s", encoding, query, n,
                      posenc_status_name(st));
    }
}

/* Stops at the first look that the computation takes, the second, and so on. */
typedef struct stopper {
    long left;
} stopper;

static inline posenc_status stop_in_time(void *user)
{
    stopper *s = user;
    return s->left-- > 0 ? PE_OK : PE_CANCELLED;
}

static inline void stops_anywhere(const char *encoding, const graph *g, const char *query)
{
    posenc_status st = PE_CANCELLED;
    long looks = 0;
    for (; st; looks++) {
        posenc_answer a;
        stopper s = { looks };
        posenc_context ctx = { .stop = stop_in_time, .user = &s };
        st = posenc_encode(encoding, query, &g->e, &a, &ctx, NULL);
        posenc_answer_fini(&a);
        ck_assert_msg(st == PE_OK || st == PE_CANCELLED, "%s %s: %s", encoding, query, posenc_status_name(st));
    }
    ck_assert_int_gt(looks, 2);
}

/* The fields at fault, separated by spaces. */
static inline void fails(const char *encoding, const graph *g, const char *query, posenc_status want, const char *fields)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char have[1000] = "", text[1000];
    posenc_status st = posenc_encode(encoding, query, &g->e, &a, NULL, &err);
    for (unsigned i = 0; i < err.n; i++)
        snprintf(have + strlen(have), sizeof have - strlen(have), "%s%s", i ? " " : "", err.fault[i].field);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == want && !strcmp(have, fields), "%s %s: %s: faults of '%s', want '%s': %s", encoding, query,
                  posenc_status_name(st), have, fields, text);
}

#endif
