/* graph.c - from a list of edges to the normal form, and from that to a symmetric adjacency matrix.
 *
 * Normal form in three steps: check every edge, sort by (source, target, weight), join the two listings of an
 * undirected edge. A self-loop has one direction only: each listing of it is one loop. Nothing here costs more than the
 * edges listed and the graphs of the batch: a graph of 2^31 nodes and ten edges takes memory for ten edges. */
#include "core/graph.h"

#include "core/digest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 2147483646LL
#define MAX_EDGES 100000000LL
#define MAX_GRAPHS 1000000LL

static const char bad[] = "INVALID_PARAMETER";

static posenc_status no_memory(posenc_error *err)
{
    return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "a smaller graph, or try again");
}

/* ---- checks ---- */

static inline bool within(const int64_t *ptr, int64_t g, int64_t node) { return ptr[g] <= node && node < ptr[g + 1]; }

static int64_t search(const int64_t *ptr, int64_t ngraphs, int64_t node)
{
    int64_t lo = 0, hi = ngraphs; /* ptr[lo] <= node < ptr[hi] */
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (ptr[mid] <= node)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* The graph that holds `node`; `hint` is where the last one was found, as edges mostly come graph by graph. */
static inline int64_t graph_of(const int64_t *ptr, int64_t ngraphs, int64_t node, int64_t hint)
{
    return within(ptr, hint, node) ? hint : search(ptr, ngraphs, node);
}

static void fault(posenc_error *err, int *faults, const char *field, const char *value, const char *allowed)
{
    ++*faults;
    posenc_fail(err, PE_INVALID, bad, field, value, "%s", allowed);
}

static posenc_status check_sizes(const posenc_edges *e, posenc_error *err)
{
    posenc_status st = PE_OK;
    if (e->num_nodes < 0 || e->num_nodes > MAX_NODES)
        st = posenc_fail(err, e->num_nodes < 0 ? PE_INVALID : PE_LIMIT, e->num_nodes < 0 ? bad : "LIMIT_EXCEEDED",
                         "graph.num_nodes", posenc_text("%lld", (long long)e->num_nodes).s, "0 .. %lld", MAX_NODES);
    if (e->nedges < 0 || e->nedges > MAX_EDGES)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph.edge_index",
                         posenc_text("%lld edges", (long long)e->nedges).s, "0 .. %lld edges", MAX_EDGES);
    if (e->ptr && (e->ngraphs < 1 || e->ngraphs > MAX_GRAPHS))
        st = posenc_fail(err, e->ngraphs < 1 ? PE_INVALID : PE_LIMIT, e->ngraphs < 1 ? bad : "LIMIT_EXCEEDED", "graph.ptr",
                         posenc_text("%lld graphs", (long long)e->ngraphs).s,
                         "1 .. %lld graphs: one number more than graphs", MAX_GRAPHS);
    return st;
}

static posenc_status check_ptr(const posenc_edges *e, posenc_error *err)
{
    int faults = 0;
    char field[64];
    if (e->ptr[0])
        fault(err, &faults, "graph.ptr[0]", posenc_text("%lld", (long long)e->ptr[0]).s, "0");
    for (int64_t g = 1; g <= e->ngraphs && faults < PE_MAX_FAULTS; g++) {
        snprintf(field, sizeof field, "graph.ptr[%lld]", (long long)g);
        if (e->ptr[g] < e->ptr[g - 1])
            fault(err, &faults, field, posenc_text("%lld", (long long)e->ptr[g]).s,
                  posenc_text("at least %lld, the number before it", (long long)e->ptr[g - 1]).s);
        else if (g == e->ngraphs && e->ptr[g] != e->num_nodes)
            fault(err, &faults, field, posenc_text("%lld", (long long)e->ptr[g]).s,
                  posenc_text("num_nodes = %lld", (long long)e->num_nodes).s);
    }
    return faults ? PE_INVALID : PE_OK;
}

static posenc_status check_edges(const posenc_edges *e, posenc_error *err)
{
    int faults = 0;
    int64_t n = e->num_nodes, g = 0;
    char field[64], allowed[96];
    for (int64_t i = 0; i < e->nedges && faults < PE_MAX_FAULTS; i++) {
        const int64_t u = e->source[i], w = e->target[i];
        bool inside = u >= 0 && u < n && w >= 0 && w < n;
        if (inside && e->ptr)
            g = graph_of(e->ptr, e->ngraphs, u, g);
        if (inside && (!e->ptr || within(e->ptr, g, w)) && (!e->weight || isfinite(e->weight[i])))
            continue;
        for (int row = 0; row < 2; row++) {
            int64_t v = row ? e->target[i] : e->source[i];
            if (v >= 0 && v < n)
                continue;
            snprintf(field, sizeof field, "graph.edge_index[%d][%lld]", row, (long long)i);
            fault(err, &faults, field, posenc_text("%lld", (long long)v).s,
                  n ? posenc_text("0 .. %lld", (long long)(n - 1)).s : "no edge: num_nodes is 0");
        }
        if (inside && e->ptr && !within(e->ptr, g, w)) {
            snprintf(field, sizeof field, "graph.edge_index[1][%lld]", (long long)i);
            snprintf(allowed, sizeof allowed, "%lld .. %lld, the graph of edge_index[0][%lld]", (long long)e->ptr[g],
                     (long long)(e->ptr[g + 1] - 1), (long long)i);
            fault(err, &faults, field, posenc_text("%lld", (long long)w).s, allowed);
        }
        if (e->weight && !isfinite(e->weight[i])) {
            snprintf(field, sizeof field, "graph.edge_weight[%lld]", (long long)i);
            fault(err, &faults, field, posenc_text("%g", e->weight[i]).s, "a finite number");
        }
    }
    return faults ? PE_INVALID : PE_OK;
}

/* ---- sorting ---- */

/* key: first node << 32 | second node << 1 | 1 when listed as (second, first). */
typedef struct arc {
    uint64_t key;
    double weight;
    int64_t place;
} arc;

static int64_t first(const arc *a) { return (int64_t)(a->key >> 32); }
static int64_t second(const arc *a) { return (int64_t)(a->key >> 1 & 0x7fffffff); }

static bool before(const arc *a, const arc *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    return a->weight != b->weight ? a->weight < b->weight : a->place < b->place;
}

/* Insertion sort where short, heap sort where a list of parallel edges is long. */
static void sort_few(arc *a, int64_t n)
{
    if (n <= 64) {
        for (int64_t i = 1; i < n; i++) {
            arc x = a[i];
            int64_t j = i;
            for (; j && before(&x, &a[j - 1]); j--)
                a[j] = a[j - 1];
            a[j] = x;
        }
        return;
    }
    for (int64_t root = n / 2, end = n; end > 1;) {
        arc x;
        if (root) {
            x = a[--root];
        } else {
            x = a[--end];
            a[end] = a[0];
        }
        int64_t i = root;
        for (int64_t c; (c = 2 * i + 1) < end; i = c) {
            c += c + 1 < end && before(&a[c], &a[c + 1]);
            if (!before(&x, &a[c]))
                break;
            a[i] = a[c];
        }
        a[i] = x;
    }
}

/* Merges ascending runs of `width`, in a or in other (n each); returns where the result is. */
static arc *merge_runs(arc *a, arc *other, int64_t n, int64_t width)
{
    for (; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            const int64_t middle = i + width < n ? i + width : n, end = middle + width < n ? middle + width : n;
            for (int64_t k = i, l = i, r = middle; k < end; k++)
                other[k] = r == end || (l < middle && !before(&a[r], &a[l])) ? a[l++] : a[r++];
        }
        arc *swap = a;
        a = other;
        other = swap;
    }
    return a;
}

/* Sorts by (key, weight, place): a long list by radix over the bits of the keys that differ at all, then each run of equal
 * keys. */
static bool sort(arc *a, int64_t n)
{
    enum { BITS = 11, SIZE = 1 << BITS, RUN = 16, LONG = 2048 };
    bool sorted = true;
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; i++) {
        sorted = sorted && before(&a[i - 1], &a[i]);
        differ |= a[i].key ^ a[0].key;
    }
    if (sorted)
        return true;
    if (n <= 2 * RUN) {
        sort_few(a, n);
        return true;
    }
    arc *other = malloc((size_t)n * sizeof *other), *from = a, *to = other;
    if (other && n < LONG) {
        for (int64_t i = 0; i < n; i += RUN)
            sort_few(a + i, n - i < RUN ? n - i : RUN);
        if (merge_runs(a, other, n, RUN) != a)
            memcpy(a, other, (size_t)n * sizeof *a);
        free(other);
        return true;
    }
    int64_t *start = malloc(SIZE * sizeof *start);
    if (!other || !start) {
        free(other);
        free(start);
        return false;
    }
    for (int shift = 0; shift < 64; shift += BITS) {
        if (!(differ >> shift & (SIZE - 1)))
            continue;
        memset(start, 0, SIZE * sizeof *start);
        for (int64_t i = 0; i < n; i++)
            start[from[i].key >> shift & (SIZE - 1)]++;
        for (int64_t d = 0, sum = 0; d < SIZE; d++) {
            int64_t count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            to[start[from[i].key >> shift & (SIZE - 1)]++] = from[i];
        arc *swap = from;
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, (size_t)n * sizeof *a);
    for (int64_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && a[j].key == a[i].key; j++)
            ;
        sort_few(a + i, j - i);
    }
    free(other);
    free(start);
    return true;
}

/* A batch that lists its edges graph by graph is sorted graph by graph, within the caches. */
static bool sort_batch(arc *a, int64_t m, const int64_t *ptr, int64_t ngraphs)
{
    int64_t last = 0;
    for (int64_t i = 0; i < m && ngraphs > 1; i++) {
        const int64_t g = graph_of(ptr, ngraphs, first(&a[i]), last);
        if (g < last)
            return sort(a, m);
        last = g;
    }
    bool ok = true;
    for (int64_t i = 0, end, g = 0; i < m && ok; i = end) {
        g = graph_of(ptr, ngraphs, first(&a[i]), g);
        for (end = i; end < m && first(&a[end]) < ptr[g + 1]; end++)
            ;
        ok = sort(a + i, end - i);
    }
    return ok;
}

/* ---- the normal form ---- */

/* Both lists ascend. The smallest place among the arcs that have no arc of equal weight in the other list; -1: none. */
static int64_t without_twin(const arc *f, int64_t nf, const arc *b, int64_t nb)
{
    int64_t place = -1, i = 0, j = 0;
    while (i < nf || j < nb) {
        const arc *odd;
        if (i < nf && j < nb && f[i].weight == b[j].weight) {
            i++;
            j++;
            continue;
        }
        if (j == nb || (i < nf && f[i].weight < b[j].weight))
            odd = &f[i++];
        else
            odd = &b[j++];
        if (place < 0 || odd->place < place)
            place = odd->place;
    }
    return place;
}

/* Joins the listings of undirected edges, in place; returns the arcs that are left. Arcs of pairs that disagree
 * are kept in both directions, which leaves the list unsorted (`*unsorted`). */
static int64_t join_listings(arc *a, int64_t m, const int64_t *ptr, int64_t ngraphs, int64_t *conflict, bool *unsorted)
{
    int64_t out = 0, g = 0;
    for (int64_t i = 0, mid, end; i < m; i = end) {
        uint64_t pair = a[i].key >> 1;
        for (mid = i; mid < m && a[mid].key == pair << 1; mid++)
            ;
        for (end = mid; end < m && a[end].key >> 1 == pair; end++)
            ;
        int64_t odd = mid > i && end > mid ? without_twin(a + i, mid - i, a + mid, end - mid) : -1;
        bool both = odd >= 0;
        if (both) {
            g = graph_of(ptr, ngraphs, first(&a[i]), g);
            if (conflict[g] < 0 || odd < conflict[g])
                conflict[g] = odd;
            *unsorted = true;
        }
        for (int64_t j = i; j < end; j++) {
            if (j >= mid && mid > i && !both)
                break; /* the agreeing twins */
            arc x = a[j];
            x.key = both && j >= mid ? (uint64_t)second(&x) << 32 | (uint64_t)first(&x) << 1 : pair << 1;
            a[out++] = x;
        }
    }
    return out;
}

static posenc_status identify(posenc_graph *g, posenc_error *err)
{
    pe_hasher h;
    pe_digest d;
    int64_t head[] = { g->nodes, g->arcs, g->ngraphs, g->directed, g->batched, g->weighted };
    pe_hash_init(&h);
    pe_hash_add(&h, "posenc graph 1", 14);
    pe_hash_add(&h, head, sizeof head);
    pe_hash_add(&h, g->ptr, (size_t)(g->ngraphs + 1) * sizeof *g->ptr);
    pe_hash_add(&h, g->source, (size_t)g->arcs * sizeof *g->source);
    pe_hash_add(&h, g->target, (size_t)g->arcs * sizeof *g->target);
    if (g->weighted)
        pe_hash_add(&h, g->weight, (size_t)g->arcs * sizeof *g->weight);
    if (!pe_hash_final(&h, &d))
        return no_memory(err);
    memcpy(g->id, "sha256-", 7);
    pe_hex(&d, g->id + 7);
    return PE_OK;
}

/* Copies the sorted arcs into the arena. */
static posenc_status publish(posenc_graph *g, const arc *a, int64_t m, posenc_arena *arena, posenc_error *err)
{
    int32_t *source = posenc_alloc(arena, (size_t)m * sizeof *source),
            *target = posenc_alloc(arena, (size_t)m * sizeof *target);
    int64_t *listed = posenc_alloc(arena, (size_t)m * sizeof *listed);
    int64_t *arc_ptr = posenc_alloc(arena, (size_t)(g->ngraphs + 1) * sizeof *arc_ptr);
    double *weight = NULL;
    for (int64_t i = 0; i < m && !g->weighted; i++)
        g->weighted = a[i].weight != 1;
    if (g->weighted)
        weight = posenc_alloc(arena, (size_t)m * sizeof *weight);
    if (!source || !target || !listed || !arc_ptr || (g->weighted && !weight))
        return no_memory(err);
    int64_t graph = 0;
    for (int64_t i = 0; i < m; i++) {
        source[i] = (int32_t)first(&a[i]);
        target[i] = (int32_t)second(&a[i]);
        listed[i] = a[i].place;
        if (weight)
            weight[i] = a[i].weight;
        while (source[i] >= g->ptr[graph + 1])
            arc_ptr[++graph] = i;
    }
    while (graph < g->ngraphs)
        arc_ptr[++graph] = m;
    g->arcs = m;
    g->source = source;
    g->target = target;
    g->weight = weight;
    g->listed = listed;
    g->arc_ptr = arc_ptr;
    return identify(g, err);
}

posenc_status posenc_graph_build(const posenc_edges *e, posenc_arena *arena, const posenc_graph **out, posenc_error *err)
{
    posenc_status st = check_sizes(e, err);
    if (!st && e->ptr)
        st = check_ptr(e, err);
    if (!st)
        st = check_edges(e, err);
    if (st)
        return st;

    posenc_graph *g = posenc_alloc(arena, sizeof *g);
    int64_t ngraphs = e->ptr ? e->ngraphs : 1, m = e->nedges;
    int64_t *ptr = posenc_alloc(arena, (size_t)(ngraphs + 1) * sizeof *ptr);
    int64_t *conflict = posenc_alloc(arena, (size_t)ngraphs * sizeof *conflict);
    arc *a = malloc((size_t)(m ? m : 1) * sizeof *a);
    if (!g || !ptr || !conflict || !a) {
        free(a);
        return no_memory(err);
    }
    if (e->ptr)
        memcpy(ptr, e->ptr, (size_t)(ngraphs + 1) * sizeof *ptr);
    else
        ptr[1] = e->num_nodes;
    for (int64_t i = 0; i < ngraphs; i++)
        conflict[i] = -1;
    *g = (posenc_graph){ .nodes = e->num_nodes,
                         .ngraphs = ngraphs,
                         .directed = e->directed,
                         .batched = e->ptr != NULL,
                         .ptr = ptr,
                         .conflict = conflict };

    for (int64_t i = 0; i < m; i++) {
        uint64_t u = (uint64_t)e->source[i], v = (uint64_t)e->target[i];
        bool flip = !e->directed && u > v;
        a[i].key = flip ? v << 32 | u << 1 | 1 : u << 32 | v << 1;
        a[i].weight = e->weight ? e->weight[i] + 0.0 : 1; /* -0 becomes 0 */
        a[i].place = i;
    }
    bool ok = sort_batch(a, m, ptr, ngraphs), unsorted = false;
    if (ok && !e->directed) {
        m = join_listings(a, m, ptr, ngraphs, conflict, &unsorted);
        ok = !unsorted || sort_batch(a, m, ptr, ngraphs);
    }
    st = ok ? publish(g, a, m, arena, err) : no_memory(err);
    free(a);
    if (!st)
        *out = g;
    return st;
}

int64_t posenc_graph_nodes(const posenc_graph *g) { return g->nodes; }
int64_t posenc_graph_edges(const posenc_graph *g) { return g->arcs; }
int64_t posenc_graph_count(const posenc_graph *g) { return g->ngraphs; }
bool posenc_graph_batched(const posenc_graph *g) { return g->batched; }
const char *posenc_graph_id(const posenc_graph *g) { return g->id; }

const posenc_edges *posenc_example_edges(void)
{
    static const int64_t source[] = { 0, 1, 2, 3, 4, 5, 0 }, target[] = { 1, 2, 3, 4, 5, 0, 6 };
    static const posenc_edges ring = { .num_nodes = 7, .nedges = 7, .source = source, .target = target };
    return &ring;
}

/* ---- the adjacency matrix ---- */

/* Every loop over nodes or arcs polls after so many steps, each a few cache misses: some milliseconds. */
enum { POLL_STEPS = 1 << 16 };

static posenc_status poll_at(int64_t step, const posenc_context *ctx)
{
    return step % POLL_STEPS == POLL_STEPS - 1 ? posenc_poll(ctx) : PE_OK;
}

const char *const pe_symmetrize_words[] = { "error", "max", "sum", "mean", NULL };
const char *const pe_on_directed_words[] = { "symmetrize", "error", NULL };
const char *const pe_self_loops_words[] = { "drop", "keep", NULL };
const char *const pe_duplicate_edges_words[] = { "sum", "max", "error", NULL };

/* One entry per ordered pair, sorted by (u, v). */
typedef struct entries {
    int64_t n, m;
    int32_t *u, *v;
    double *w;
} entries;

static posenc_status refuse(const posenc_graph *g, int64_t a, const char *reason, const char *allowed, posenc_error *err)
{
    char field[64], value[96];
    snprintf(field, sizeof field, "graph.edge_index[1][%lld]", (long long)g->listed[a]);
    snprintf(value, sizeof value, "edge %d - %d, weight %g", g->source[a], g->target[a], g->weight ? g->weight[a] : 1.0);
    return posenc_fail(err, PE_INVALID, reason, field, value, "%s", allowed);
}

/* What the options refuse, for the arcs begin .. end - 1. */
static posenc_status check_options(const posenc_graph *g, int64_t graph, const pe_csr_options *o, posenc_context *ctx,
                                   posenc_error *err)
{
    posenc_status st;
    int64_t begin = g->arc_ptr[graph], end = g->arc_ptr[graph + 1];
    if (g->directed && !o->directed && o->on_directed == PE_DIRECTED_ERROR)
        return posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true", "false; or on_directed=symmetrize");
    if (g->conflict[graph] >= 0 && o->symmetrize == PE_SYMMETRIZE_ERROR)
        for (int64_t a = begin; a < end; a++) {
            if (g->listed[a] == g->conflict[graph])
                return refuse(g, a, "NOT_SYMMETRIC",
                              "the same edge in the other direction, equally often and with equal weight; or "
                              "symmetrize=max, sum or mean",
                              err);
            if ((st = poll_at(a, ctx)))
                return st;
        }
    for (int64_t a = begin; a < end && g->weight && !o->allow_negative; a++) {
        if (g->weight[a] < 0)
            return posenc_fail(err, PE_INVALID, bad, posenc_text("graph.edge_weight[%lld]", (long long)g->listed[a]).s,
                               posenc_text("%g", g->weight[a]).s,
                               o->only_positive ? "0 or more" : "0 or more; or allow_negative=true");
        if ((st = poll_at(a, ctx)))
            return st;
    }
    return PE_OK;
}

/* Parallel arcs become one entry, weights summed in ascending order. */
static posenc_status join_parallel(const posenc_graph *g, int64_t graph, const pe_csr_options *o, entries *e,
                                   posenc_context *ctx, posenc_error *err)
{
    posenc_status st;
    int64_t begin = g->arc_ptr[graph], end = g->arc_ptr[graph + 1];
    int32_t base = (int32_t)g->ptr[graph];
    size_t size = (size_t)(end > begin ? end - begin : 1);
    e->n = g->ptr[graph + 1] - g->ptr[graph];
    e->u = malloc(size * sizeof *e->u);
    e->v = malloc(size * sizeof *e->v);
    e->w = malloc(size * sizeof *e->w);
    if (!e->u || !e->v || !e->w)
        return no_memory(err);
    for (int64_t a = begin; a < end; a++) {
        int32_t u = g->source[a] - base, v = g->target[a] - base;
        double w = g->weight ? g->weight[a] : 1;
        if ((st = poll_at(a, ctx)))
            return st;
        if (u == v && o->self_loops == PE_LOOPS_DROP)
            continue;
        if (e->m && e->u[e->m - 1] == u && e->v[e->m - 1] == v) {
            if (o->duplicate_edges == PE_DUPLICATES_ERROR)
                return refuse(g, a, "DUPLICATE_EDGE", "each edge once; or duplicate_edges=sum or max", err);
            double *last = &e->w[e->m - 1];
            *last = o->duplicate_edges == PE_DUPLICATES_SUM ? *last + w : w; /* ascending: the last is the largest */
            continue;
        }
        e->u[e->m] = u;
        e->v[e->m] = v;
        e->w[e->m++] = w;
    }
    return PE_OK;
}

/* The weight of a pair that has entries in both directions. */
static double combine(const posenc_graph *g, const pe_csr_options *o, double a, double b)
{
    if (g->directed || o->symmetrize == PE_SYMMETRIZE_MAX)
        return a > b ? a : b;
    return o->symmetrize == PE_SYMMETRIZE_MEAN ? 0.5 * a + 0.5 * b : a + b;
}

/* Row r of the matrix: the targets of r and the sources that point to r, two ascending lists, merged. */
static posenc_status fill(const posenc_graph *g, const pe_csr_options *o, const entries *e, pe_csr *c, posenc_context *ctx,
                          posenc_error *err)
{
    const bool one_way = g->directed && o->directed;
    int64_t n = e->n, m = e->m, arcs = 0, step = 0;
    size_t most = (size_t)(m ? 2 * m : 1);
    posenc_status st = PE_OK;
    bool ones = true;
    int64_t *out = calloc((size_t)n + 2, sizeof *out), *in = calloc((size_t)n + 2, sizeof *in); /* in[v + 1]: next free */
    int64_t *by_target = malloc((size_t)(m ? m : 1) * sizeof *by_target);
    c->n = n;
    c->ptr = calloc((size_t)n + 1, sizeof *c->ptr);
    c->col = malloc(most * sizeof *c->col);
    c->weight = malloc(most * sizeof *c->weight);
    c->degree = calloc((size_t)n + 1, sizeof *c->degree);
    if (!out || !in || !by_target || !c->ptr || !c->col || !c->weight || !c->degree) {
        st = no_memory(err);
        goto done;
    }
    for (int64_t i = 0; i < m; i++) {
        out[e->u[i] + 1]++;
        in[e->v[i] + 2] += !one_way;
        if ((st = poll_at(i, ctx)))
            goto done;
    }
    for (int64_t r = 0; r < n; r++) {
        out[r + 1] += out[r];
        in[r + 2] += in[r + 1];
        if ((st = poll_at(r, ctx)))
            goto done;
    }
    for (int64_t i = 0; i < m && !one_way; i++) {
        by_target[in[e->v[i] + 1]++] = i; /* after this in[v] .. in[v + 1] is row v */
        if ((st = poll_at(i, ctx)))
            goto done;
    }
    for (int64_t r = 0; r < n; r++) {
        double degree = 0;
        if ((st = poll_at(step++, ctx)))
            goto done;
        for (int64_t i = out[r], j = in[r]; i < out[r + 1] || j < in[r + 1];) {
            int32_t ci = i < out[r + 1] ? e->v[i] : INT32_MAX, cj = j < in[r + 1] ? e->u[by_target[j]] : INT32_MAX;
            int32_t col = ci < cj ? ci : cj;
            double w = ci < cj ? e->w[i] : e->w[by_target[j]];
            if (ci == cj && col != r)
                w = combine(g, o, e->w[i], w);
            i += ci == col;
            j += cj == col;
            if ((st = poll_at(step++, ctx)))
                goto done;
            if (w == 0) {
                c->zero_edges += one_way || r <= col;
                continue;
            }
            c->col[arcs] = col;
            c->weight[arcs++] = w;
            ones = ones && w == 1;
            degree += fabs(w);
        }
        if (!isfinite(degree)) {
            st = posenc_fail(err, PE_INVALID, bad, "graph.edge_weight",
                             posenc_text("sum over node %lld overflows", (long long)r).s, "weights whose sums are finite");
            goto done;
        }
        c->degree[r] = degree;
        c->ptr[r + 1] = arcs;
    }
    c->arcs = arcs;
    if (ones) {
        free(c->weight);
        c->weight = NULL;
    }
done:
    free(out);
    free(in);
    free(by_target);
    return st;
}

/* Breadth first from each node that has no component yet. */
posenc_status pe_csr_components(pe_csr *c, posenc_context *ctx, posenc_error *err)
{
    posenc_status st = PE_OK;
    int64_t step = 0;
    size_t size = (size_t)(c->n ? c->n : 1) * sizeof(int32_t);
    int32_t *queue = malloc(size);
    c->component = malloc(size);
    if (!queue || !c->component) {
        free(queue);
        return no_memory(err);
    }
    for (int64_t i = 0; i < c->n && !st; i++) {
        c->component[i] = -1;
        st = poll_at(i, ctx);
    }
    for (int64_t root = 0; root < c->n && !st; root++) {
        st = poll_at(step++, ctx);
        if (c->component[root] >= 0)
            continue;
        int32_t id = (int32_t)c->ncomponents++;
        int64_t head = 0, tail = 0;
        queue[tail++] = (int32_t)root;
        c->component[root] = id;
        while (head < tail && !st) {
            int32_t u = queue[head++];
            for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
                if (c->component[c->col[a]] < 0) {
                    c->component[c->col[a]] = id;
                    queue[tail++] = c->col[a];
                }
                st = poll_at(step++, ctx);
            }
        }
    }
    free(queue);
    return st;
}

/* What most graphs of a batch are: few nodes, undirected, without weights, loops or parallel edges. Both passes over the
 * sorted arcs fill each row in ascending order: first the smaller neighbours, then the larger ones. */
static posenc_status build_plain(const posenc_graph *graph, int64_t g, void *room, pe_csr *c, bool *plain, posenc_error *err)
{
    enum { NODES = 4096, ARCS = 16384 };
    const int64_t begin = graph->arc_ptr[g], m = graph->arc_ptr[g + 1] - begin, n = graph->ptr[g + 1] - graph->ptr[g];
    const int32_t *source = graph->source + begin, *target = graph->target + begin, base = (int32_t)graph->ptr[g];
    *plain = false;
    if (graph->directed || graph->weight || graph->conflict[g] >= 0 || n > NODES || m > ARCS)
        return PE_OK;
    for (int64_t i = 0; i < m; i++)
        if (source[i] == target[i] || (i && source[i] == source[i - 1] && target[i] == target[i - 1]))
            return PE_OK;
    *plain = true;
    *c = (pe_csr){ .n = n, .arcs = 2 * m, .borrowed = room != NULL };
    int64_t *ptr = room;
    if (!room && !(c->memory = ptr = malloc(pe_csr_room(graph, g))))
        return no_memory(err);
    double *degree = (double *)(ptr + n + 2);
    int32_t *col = (int32_t *)(degree + n + 2), *component = col + 2 * m, *queue = component + n;
    int64_t head = 0, tail = 0;
    c->ptr = ptr;
    c->degree = degree;
    c->col = col;
    c->component = component;
    c->order = queue;
    memset(ptr, 0, (size_t)(n + 2) * sizeof *ptr);
    for (int64_t i = 0; i < m; i++) { /* ptr[v + 2]: degrees; then ptr[v + 1]: the next free place of v */
        ptr[source[i] - base + 2]++;
        ptr[target[i] - base + 2]++;
    }
    for (int64_t v = 0; v < n; v++) {
        degree[v] = (double)ptr[v + 2];
        ptr[v + 2] += ptr[v + 1];
        component[v] = -1;
    }
    for (int64_t i = 0; i < m; i++)
        col[ptr[target[i] - base + 1]++] = source[i] - base;
    for (int64_t i = 0; i < m; i++)
        col[ptr[source[i] - base + 1]++] = target[i] - base;
    for (int32_t root = 0; root < n; root++) {
        if (component[root] >= 0)
            continue;
        const int32_t id = (int32_t)c->ncomponents++;
        queue[tail++] = root;
        component[root] = id;
        while (head < tail) {
            const int32_t u = queue[head++];
            for (int64_t a = ptr[u]; a < ptr[u + 1]; a++)
                if (component[col[a]] < 0) {
                    component[col[a]] = id;
                    queue[tail++] = col[a];
                }
        }
    }
    return PE_OK;
}

size_t pe_csr_room(const posenc_graph *graph, int64_t g)
{
    const size_t n = (size_t)(graph->ptr[g + 1] - graph->ptr[g]), m = (size_t)(graph->arc_ptr[g + 1] - graph->arc_ptr[g]);
    return (n + 2) * (sizeof(int64_t) + sizeof(double)) + (2 * m + 2 * n) * sizeof(int32_t);
}

posenc_status pe_csr_build(const posenc_graph *graph, int64_t g, const pe_csr_options *o, pe_csr *out, posenc_context *ctx,
                           posenc_error *err)
{
    return pe_csr_build_in(graph, g, o, NULL, out, ctx, err);
}

posenc_status pe_csr_build_in(const posenc_graph *graph, int64_t g, const pe_csr_options *o, void *room, pe_csr *out,
                              posenc_context *ctx, posenc_error *err)
{
    posenc_status st;
    entries e = { 0 };
    pe_csr c = { 0 };
    bool plain;
    if ((st = build_plain(graph, g, room, out, &plain, err)) || plain)
        return st;
    if ((st = check_options(graph, g, o, ctx, err)))
        goto done;
    if ((st = join_parallel(graph, g, o, &e, ctx, err)))
        goto done;
    if ((st = fill(graph, o, &e, &c, ctx, err)))
        goto done;
    if (!(graph->directed && o->directed) && (st = pe_csr_components(&c, ctx, err)))
        goto done;
    *out = c;
    c = (pe_csr){ 0 };
done:
    free(e.u);
    free(e.v);
    free(e.w);
    pe_csr_fini(&c);
    return st;
}

posenc_status pe_csr_transpose(const pe_csr *c, pe_csr *out, posenc_context *ctx, posenc_error *err)
{
    posenc_status st = PE_OK;
    const size_t n = (size_t)c->n, m = (size_t)(c->arcs ? c->arcs : 1);
    pe_csr t = { .n = c->n, .arcs = c->arcs };
    t.ptr = calloc(n + 2, sizeof *t.ptr); /* ptr[v + 1]: next free place of row v */
    t.col = malloc(m * sizeof *t.col);
    t.weight = c->weight ? malloc(m * sizeof *t.weight) : NULL;
    t.degree = calloc(n + 1, sizeof *t.degree);
    if (!t.ptr || !t.col || (c->weight && !t.weight) || !t.degree) {
        st = no_memory(err);
        goto done;
    }
    for (int64_t a = 0; a < c->arcs && !st; a++) {
        if (c->col[a] + 2 <= c->n)
            t.ptr[c->col[a] + 2]++;
        st = poll_at(a, ctx);
    }
    for (int64_t v = 0; v + 1 < c->n && !st; v++) {
        t.ptr[v + 2] += t.ptr[v + 1];
        st = poll_at(v, ctx);
    }
    for (int64_t u = 0; u < c->n && !st; u++)
        for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
            int64_t at = t.ptr[c->col[a] + 1]++;
            t.col[at] = (int32_t)u;
            if (t.weight)
                t.weight[at] = c->weight[a];
            t.degree[c->col[a]] += c->weight ? fabs(c->weight[a]) : 1;
            st = poll_at(a, ctx);
        }
    if (!st) {
        *out = t;
        return PE_OK;
    }
done:
    pe_csr_fini(&t);
    return st;
}

void pe_csr_fini(pe_csr *c)
{
    if (!c->memory && !c->borrowed) {
        free(c->ptr);
        free(c->col);
        free(c->weight);
        free(c->degree);
        free(c->component);
    }
    free(c->memory);
    *c = (pe_csr){ 0 };
}
