/* paths.h - for tests of encodings over graphs: small graphs, asking, what is refused, and distances by Floyd and Warshall.
 */
#ifndef TESTS_PATHS_H
#define TESTS_PATHS_H

#include "ask.h"

#include <math.h>

typedef struct net {
    posenc_edges e;
    int64_t *s, *t, *ptr;
    double *w;
    int64_t room;
} net;

static inline net *net_new(int64_t n)
{
    net *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    g->e.num_nodes = n;
    return g;
}

static inline void net_free(net *g)
{
    free(g->s);
    free(g->t);
    free(g->w);
    free(g->ptr);
    free(g);
}

/* One more edge; a weight other than 1 makes the graph weighted. */
static inline void net_add(net *g, int64_t u, int64_t v, double w)
{
    if (g->e.nedges == g->room) {
        g->room = 2 * g->room + 16;
        g->s = realloc(g->s, (size_t)g->room * sizeof *g->s);
        g->t = realloc(g->t, (size_t)g->room * sizeof *g->t);
        g->w = realloc(g->w, (size_t)g->room * sizeof *g->w);
        ck_assert(g->s && g->t && g->w);
    }
    g->s[g->e.nedges] = u;
    g->t[g->e.nedges] = v;
    g->w[g->e.nedges++] = w;
    g->e.source = g->s;
    g->e.target = g->t;
    g->e.weight = g->w;
}

static inline net *net_path(int64_t n)
{
    net *g = net_new(n);
    for (int64_t i = 0; i + 1 < n; i++)
        net_add(g, i, i + 1, 1);
    return g;
}

static inline net *net_cycle(int64_t n)
{
    net *g = net_path(n);
    net_add(g, n - 1, 0, 1);
    return g;
}

static inline uint64_t net_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* `m` different edges (of a directed graph: arcs) without loops; weights 0.1 .. 1.6 in tenths, or 1. */
static inline net *net_er(int64_t n, int64_t m, bool directed, bool weighted, uint64_t seed)
{
    net *g = net_new(n);
    char *taken = calloc((size_t)(n * n) + 1, 1);
    uint64_t state = seed * 2654435769u + 88172645463325252u;
    ck_assert_ptr_nonnull(taken);
    g->e.directed = directed;
    while (g->e.nedges < m) {
        int64_t u = (int64_t)(net_random(&state) >> 20) % n, v = (int64_t)(net_random(&state) >> 20) % n;
        double w = weighted ? (double)(1 + (net_random(&state) >> 40 & 15)) * 0.1 : 1;
        if (u == v || taken[u * n + v] || (!directed && taken[v * n + u]))
            continue;
        taken[u * n + v] = 1;
        net_add(g, u, v, w);
    }
    free(taken);
    return g;
}

/* Graphs side by side, as one batch. */
static inline net *net_batch(net *const *part, int64_t count)
{
    net *g = net_new(0);
    g->ptr = calloc((size_t)count + 1, sizeof *g->ptr);
    ck_assert_ptr_nonnull(g->ptr);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t a = 0; a < part[i]->e.nedges; a++)
            net_add(g, g->ptr[i] + part[i]->s[a], g->ptr[i] + part[i]->t[a], part[i]->w[a]);
        g->ptr[i + 1] = g->ptr[i] + part[i]->e.num_nodes;
        g->e.directed = part[i]->e.directed;
    }
    g->e.num_nodes = g->ptr[count];
    g->e.ptr = g->ptr;
    g->e.ngraphs = count;
    return g;
}

static inline posenc_answer net_ask(const char *encoding, const net *g, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(posenc_encode(encoding, query, &g->e, &a, NULL, &err) == PE_OK, "%s %s: %s", encoding, query,
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

static inline const posenc_tensor *net_tensor(const posenc_answer *a, const char *name)
{
    for (int i = 0; i < a->result.ntensors; i++)
        if (!strcmp(a->result.tensor[i].name, name))
            return &a->result.tensor[i];
    return NULL;
}

static inline double net_value(const posenc_answer *a, const char *name, int64_t i)
{
    const posenc_tensor *t = net_tensor(a, name);
    ck_assert_msg(t && i < posenc_tensor_count(t), "%s[%d]", name, (int)i);
    return posenc_tensor_get(t, i);
}

static inline void net_values(const posenc_answer *a, const char *name, int64_t n, const double *want)
{
    ck_assert_ptr_nonnull(net_tensor(a, name));
    ck_assert_int_eq(posenc_tensor_count(net_tensor(a, name)), n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(net_value(a, name, i) == want[i], "%s[%d] is %.17g, want %.17g", name, (int)i, net_value(a, name, i),
                      want[i]);
}

/* Refused, with these fields at fault in the order of the faults, separated by spaces. */
static inline void net_refused(const char *encoding, const net *g, const char *query, posenc_status want, const char *fields)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char got[1000] = "", text[1000];
    posenc_status st = posenc_encode(encoding, query, &g->e, &a, NULL, &err);
    for (unsigned i = 0; i < err.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", err.fault[i].field);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == want && !strcmp(got, fields), "%s %s: %s %s", encoding, query, posenc_status_name(st), text);
}

/* Every tensor of one answer has the bytes of the other's. */
static inline void net_same(const posenc_answer *a, const posenc_answer *b)
{
    ck_assert_int_eq(a->result.ntensors, b->result.ntensors);
    for (int i = 0; i < a->result.ntensors; i++) {
        ck_assert_uint_eq(posenc_tensor_size(&a->result.tensor[i]), posenc_tensor_size(&b->result.tensor[i]));
        ck_assert_mem_eq(a->result.tensor[i].data, b->result.tensor[i].data, posenc_tensor_size(&a->result.tensor[i]));
    }
}

/* The same graph with node i called name[i] and the list of edges backwards. */
static inline net *net_renamed(const net *g, const int64_t *name)
{
    net *h = net_new(g->e.num_nodes);
    h->e.directed = g->e.directed;
    for (int64_t a = g->e.nedges - 1; a >= 0; a--)
        net_add(h, name[g->s[a]], name[g->t[a]], g->w[a]);
    return h;
}

/* (n, n) distances, infinite where there is no path; weights of parallel edges must not occur. */
static inline double *net_floyd(const net *g, bool lengths)
{
    const int64_t n = g->e.num_nodes;
    double *d = malloc((size_t)(n * n + 1) * sizeof *d);
    ck_assert_ptr_nonnull(d);
    for (int64_t i = 0; i < n * n; i++)
        d[i] = i / n == i % n ? 0 : (double)INFINITY;
    for (int64_t a = 0; a < g->e.nedges; a++) {
        const double w = lengths ? g->w[a] : 1;
        if (g->s[a] == g->t[a])
            continue;
        d[g->s[a] * n + g->t[a]] = w;
        if (!g->e.directed)
            d[g->t[a] * n + g->s[a]] = w;
    }
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                if (d[i * n + k] + d[k * n + j] < d[i * n + j])
                    d[i * n + j] = d[i * n + k] + d[k * n + j];
    return d;
}

#endif
