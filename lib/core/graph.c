/* graph.c - from a list of edges to the normal form, and from that to a symmetric adjacency matrix.
 *
 * Normal form: every edge is checked, sorted by (source, target, weight), and the two listings of an undirected edge are
 * joined. A self-loop has one direction only: each listing of it is one loop. A batch that lists its edges graph by graph is
 * taken graph by graph, in the caches: small ones by rows of bits, others by radix; any other list as one. Nothing here
 * costs more than the edges listed and the graphs of the batch: a graph of 2^31 nodes and ten edges takes memory for ten
 * edges. */
#include "core/graph.h"

#include "core/digest.h"
#include "core/lanes.h"
#include "core/memory.h"
#include "core/pace.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 2147483646LL
#define MAX_EDGES 100000000LL
#define MAX_GRAPHS 1000000LL

static const char bad[] = "INVALID_PARAMETER";

/* Loops over nodes or arcs poll after so many steps, each a few cache misses: a millisecond at most. */
enum { POLL_STEPS = 1 << 12 };

static posenc_status poll_at(int64_t step, const posenc_context *ctx)
{
    return step % POLL_STEPS == POLL_STEPS - 1 ? posenc_poll(ctx) : PE_OK;
}

/* Makes the pages of what is written to here and there. */
static posenc_status touch(void *to, int64_t n, size_t size, posenc_context *ctx)
{
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    return pe_pace_touch(&pace, to, (size_t)n * size);
}

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
        if (e->ptr[g] >= e->ptr[g - 1] && (g < e->ngraphs || e->ptr[g] == e->num_nodes))
            continue;
        snprintf(field, sizeof field, "graph.ptr[%lld]", (long long)g);
        if (e->ptr[g] < e->ptr[g - 1])
            fault(err, &faults, field, posenc_text("%lld", (long long)e->ptr[g]).s,
                  posenc_text("at least %lld, the number before it", (long long)e->ptr[g - 1]).s);
        else
            fault(err, &faults, field, posenc_text("%lld", (long long)e->ptr[g]).s,
                  posenc_text("num_nodes = %lld", (long long)e->num_nodes).s);
    }
    return faults ? PE_INVALID : PE_OK;
}

static posenc_status check_edges(const posenc_edges *e, posenc_context *ctx, posenc_error *err)
{
    posenc_status st;
    int faults = 0;
    int64_t n = e->num_nodes, g = 0;
    char field[64], allowed[96];
    for (int64_t i = 0; i < e->nedges && faults < PE_MAX_FAULTS; i++) {
        const int64_t u = e->source[i], w = e->target[i];
        const bool inside = u >= 0 && u < n && w >= 0 && w < n;
        if ((st = poll_at(i, ctx)))
            return st;
        if (inside && e->ptr)
            g = graph_of(e->ptr, e->ngraphs, u, g);
        if (inside && (!e->ptr || within(e->ptr, g, w)) && (!e->weight || isfinite(e->weight[i])))
            continue;
        for (int row = 0; row < 2; row++) {
            const int64_t v = row ? w : u;
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

/* One run of the list: the edges of one graph of a batch, or all. Nodes are counted from `base`. */
typedef struct arc {
    uint64_t key; /* first node << (bits + 1) | second node << 1 | 1 when listed as (second, first) */
    int64_t place;
} arc;

typedef struct builder {
    const posenc_edges *e;
    posenc_graph *g;
    posenc_context *ctx;
    posenc_error *err;
    int32_t *source, *target; /* (edges) of g, which fill up, as: */
    int64_t *listed, *arc_ptr, *conflict;
    double *weight;
    int64_t graph; /* arc_ptr is filled in up to here */
    pe_pace pace;  /* of short runs */
    int64_t base;
    int bits;
    arc *arc, *other; /* (room) the run at hand, and scratch */
    int64_t room;
} builder;

static int64_t first(const builder *b, const arc *a) { return (int64_t)(a->key >> (b->bits + 1)); }
static int64_t second(const builder *b, const arc *a) { return (int64_t)(a->key >> 1 & ((UINT64_C(1) << b->bits) - 1)); }
static double weight_of(const builder *b, const arc *a)
{
    return b->e->weight ? b->e->weight[a->place] + 0.0 : 1; /* -0 becomes 0 */
}

/* Stable, by the bits of the keys that differ at all. */
static posenc_status radix(const builder *b, arc *a, arc *other, int64_t n)
{
    enum { SHORT = 8, LONG = 11, MANY = 4096 };
    const int bits = n < MANY ? SHORT : LONG;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    arc *from = a, *to = other;
    posenc_status st = PE_OK;
    int64_t start[1 << LONG];
    uint64_t differ = 0;
    for (int64_t i = 1; i < n && !st; i++) {
        differ |= a[i].key ^ a[0].key;
        st = poll_at(i, b->ctx);
    }
    for (int shift = 0; shift < 64 && !st; shift += bits) {
        if (!(differ >> shift & mask))
            continue;
        memset(start, 0, sizeof *start << bits);
        for (int64_t i = 0; i < n && !st; i++) {
            start[from[i].key >> shift & mask]++;
            st = poll_at(i, b->ctx);
        }
        for (int64_t d = 0, sum = 0; d < 1 << bits; d++) {
            const int64_t count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n && !st; i++) {
            to[start[from[i].key >> shift & mask]++] = from[i];
            st = poll_at(i, b->ctx);
        }
        arc *swap = from;
        from = to;
        to = swap;
    }
    for (int64_t i = 0; i < n && from != a && !st; i++) {
        a[i] = from[i];
        st = poll_at(i, b->ctx);
    }
    return st;
}

/* Stable, by key. */
static posenc_status sort_keys(const builder *b, arc *a, arc *other, int64_t n)
{
    enum { FEW = 24 };
    if (n > FEW)
        return radix(b, a, other, n);
    for (int64_t i = 1; i < n; i++) {
        const arc x = a[i];
        int64_t j = i;
        for (; j && x.key < a[j - 1].key; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
    return PE_OK;
}

/* Numbers in the order of the weights, for those that are numbers. */
static uint64_t in_order(double weight)
{
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

/* Sorts the run by (key, weight, place); of equal keys and weights the places ascend already. */
static posenc_status sort(builder *b, int64_t n)
{
    arc *a = b->arc;
    posenc_status st = PE_OK;
    bool sorted = true, ties = false;
    for (int64_t i = 1; i < n && sorted && !st; i++) {
        sorted = a[i - 1].key <= a[i].key;
        st = poll_at(i, b->ctx);
    }
    if (!st && !sorted)
        st = sort_keys(b, a, b->other, n);
    for (int64_t i = 0, j; i < n && b->e->weight && !st; i = j) {
        const uint64_t key = a[i].key;
        for (j = i + 1; j < n && a[j].key == key && !st; j++)
            st = poll_at(j, b->ctx);
        ties = j - i > 1;
        for (int64_t k = i; k < j && ties && !st; k++) {
            a[k].key = in_order(weight_of(b, &a[k]));
            st = poll_at(k, b->ctx);
        }
        if (ties && !st)
            st = sort_keys(b, a + i, b->other + i, j - i);
        for (int64_t k = i; k < j && ties && !st; k++) {
            a[k].key = key;
            st = poll_at(k, b->ctx);
        }
    }
    return st;
}

/* ---- the normal form ---- */

/* Both lists ascend. The smallest place among the arcs that have no arc of equal weight in the other list; -1: none. */
static posenc_status without_twin(const builder *b, const arc *f, int64_t nf, const arc *r, int64_t nr, int64_t *place)
{
    posenc_status st = PE_OK;
    *place = -1;
    for (int64_t i = 0, j = 0; (i < nf || j < nr) && !st;) {
        const arc *odd;
        st = poll_at(i + j, b->ctx);
        if (i < nf && j < nr && weight_of(b, &f[i]) == weight_of(b, &r[j])) {
            i++;
            j++;
            continue;
        }
        if (j == nr || (i < nf && weight_of(b, &f[i]) < weight_of(b, &r[j])))
            odd = &f[i++];
        else
            odd = &r[j++];
        if (*place < 0 || odd->place < *place)
            *place = odd->place;
    }
    return st;
}

/* Joins the listings of undirected edges, in place; *n becomes the arcs that are left. Arcs of pairs that disagree are kept
 * in both directions, and the list is sorted again. */
static posenc_status join_listings(builder *b, int64_t *n)
{
    arc *a = b->arc;
    const int64_t m = *n;
    int64_t out = 0, g = b->graph;
    bool unsorted = false;
    posenc_status st = PE_OK;
    for (int64_t i = 0, mid, end; i < m && !st; i = end) {
        const uint64_t pair = a[i].key >> 1;
        for (mid = i; mid < m && a[mid].key == pair << 1 && !st; mid++)
            st = poll_at(mid, b->ctx);
        for (end = mid; end < m && a[end].key >> 1 == pair && !st; end++)
            st = poll_at(end, b->ctx);
        int64_t odd = -1;
        if (mid > i && end > mid && !st)
            st = without_twin(b, a + i, mid - i, a + mid, end - mid, &odd);
        const bool both = odd >= 0;
        if (both) {
            g = graph_of(b->g->ptr, b->g->ngraphs, b->base + first(b, &a[i]), g);
            if (b->conflict[g] < 0 || odd < b->conflict[g])
                b->conflict[g] = odd;
            unsorted = true;
        }
        const int64_t kept = mid > i && !both ? mid : end; /* without the agreeing twins */
        for (int64_t j = i; j < kept && !st; j++) {
            arc x = a[j];
            x.key = both && j >= mid ? (uint64_t)second(b, &x) << (b->bits + 1) | (uint64_t)first(b, &x) << 1 : pair << 1;
            a[out++] = x;
            st = poll_at(j, b->ctx);
        }
    }
    *n = out;
    return st || !unsorted ? st : sort(b, out);
}

/* The run, sorted and joined, becomes the next arcs of the graph. */
static posenc_status append(builder *b, int64_t n)
{
    posenc_graph *g = b->g;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t at = g->arcs++, node = b->base + first(b, &b->arc[i]);
        b->source[at] = (int32_t)node;
        b->target[at] = (int32_t)(b->base + second(b, &b->arc[i]));
        b->listed[at] = b->arc[i].place;
        if (b->weight) {
            b->weight[at] = weight_of(b, &b->arc[i]);
            g->weighted = g->weighted || b->weight[at] != 1;
        }
        while (node >= g->ptr[b->graph + 1])
            b->arc_ptr[++b->graph] = at;
        st = poll_at(i, b->ctx);
    }
    return st;
}

static posenc_status make_room(builder *b, int64_t n)
{
    if (n <= b->room)
        return PE_OK;
    free(b->arc);
    free(b->other);
    b->room = n;
    b->arc = pe_result_memory((size_t)n * sizeof *b->arc);
    b->other = pe_result_memory((size_t)n * sizeof *b->other);
    return b->arc && b->other ? touch(b->other, n, sizeof *b->other, b->ctx) : no_memory(b->err);
}

/* Edges begin .. end - 1, checked already, of the nodes base .. base + size - 1. */
static posenc_status by_radix(builder *b, int64_t begin, int64_t end, int64_t base, int64_t size)
{
    const posenc_edges *e = b->e;
    int64_t n = end - begin;
    posenc_status st = make_room(b, n);
    b->base = base;
    b->bits = 64 - __builtin_clzll((uint64_t)size | 1);
    for (int64_t i = 0; i < n && !st; i++) {
        const uint64_t u = (uint64_t)(e->source[begin + i] - base), v = (uint64_t)(e->target[begin + i] - base);
        const bool flip = !e->directed && u > v;
        b->arc[i] = (arc){ .key = flip ? v << (b->bits + 1) | u << 1 | 1 : u << (b->bits + 1) | v << 1, .place = begin + i };
        st = poll_at(i, b->ctx);
    }
    if (!st)
        st = sort(b, n);
    if (!st && !e->directed)
        st = join_listings(b, &n);
    return st ? st : append(b, n);
}

/* ---- small graphs of a batch, without weights ---- */

enum { BIT_NODES = 64, BIT_ARCS = 512, OTHER_WAY = BIT_NODES * BIT_NODES };

/* The edges from `begin` on that lie within graph g, at most BIT_ARCS: *count. They become arcs, if there are no parallel
 * ones: *done. A row of bits holds the targets of a node; an arc's place among all is a count of bits before it. */
PE_BODY void in_bits_body(builder *b, int64_t g, int64_t begin, int64_t *count, bool *done)
{
    const posenc_edges *e = b->e;
    const int64_t base = b->g->ptr[g], left = e->nedges - begin, most = left < BIT_ARCS ? left : BIT_ARCS;
    const uint64_t size = (uint64_t)(b->g->ptr[g + 1] - base);
    const int64_t *source = e->source + begin, *target = e->target + begin;
    const bool directed = e->directed;
    uint64_t row[2 * BIT_NODES]; /* of arcs as they come; then of those that are listed the other way */
    int32_t start[BIT_NODES];
    uint16_t code[BIT_ARCS]; /* row and bit */
    int64_t n = 0, listings = 0, arcs = 0;
    for (uint64_t u = 0; u < size; u++)
        row[u] = row[BIT_NODES + u] = 0;
    for (; n < most; n++) {
        const uint64_t u = (uint64_t)source[n] - (uint64_t)base, v = (uint64_t)target[n] - (uint64_t)base;
        if (u >= size || v >= size)
            break;
        const uint64_t there = u << 6 | v, back = OTHER_WAY | v << 6 | u, c = u > v && !directed ? back : there;
        code[n] = (uint16_t)c;
        row[c >> 6] |= UINT64_C(1) << (c & 63);
    }
    *count = n;
    uint64_t twice = 0;
    for (uint64_t u = 0; u < size; u++) {
        const uint64_t there = row[u], back = row[BIT_NODES + u];
        start[u] = (int32_t)arcs;
        row[u] = there | back;
        twice |= there & back;
        arcs += __builtin_popcountll(there | back);
        listings += __builtin_popcountll(there) + __builtin_popcountll(back);
    }
    *done = listings == n && n < BIT_ARCS;
    if (!*done)
        return;
    int32_t *to_source = b->source + b->g->arcs, *to_target = b->target + b->g->arcs;
    int64_t *listed = b->listed + b->g->arcs;
    for (int64_t i = 0; i < n; i++) {
        const int32_t u = code[i] >> 6 & 63, v = code[i] & 63;
        const int64_t at = start[u] + __builtin_popcountll(row[u] & ((UINT64_C(1) << v) - 1));
        to_source[at] = (int32_t)base + u;
        to_target[at] = (int32_t)base + v;
        listed[at] = begin + i;
    }
    for (int64_t i = 0; i < n && twice; i++) { /* of both listings the one in the arc's direction counts */
        const int32_t u = code[i] >> 6 & 63, v = code[i] & 63;
        if (code[i] < OTHER_WAY)
            listed[start[u] + __builtin_popcountll(row[u] & ((UINT64_C(1) << v) - 1))] = begin + i;
    }
    b->g->arcs += arcs;
}

PE_KERNEL(in_bits, in_bits_body, (builder * b, int64_t g, int64_t begin, int64_t *count, bool *done),
          (b, g, begin, count, done))

/* ---- the whole list ---- */

/* Where the run of edges within graph g ends that begins at `begin`. */
static posenc_status run_end(const builder *b, int64_t g, int64_t begin, int64_t *end)
{
    const posenc_edges *e = b->e;
    const uint64_t base = (uint64_t)b->g->ptr[g], size = (uint64_t)b->g->ptr[g + 1] - base;
    posenc_status st = PE_OK;
    int64_t i = begin;
    for (; i < e->nedges && !st; i++) {
        if ((uint64_t)e->source[i] - base >= size || (uint64_t)e->target[i] - base >= size ||
            (e->weight && !isfinite(e->weight[i])))
            break;
        st = poll_at(i, b->ctx);
    }
    *end = i;
    return st;
}

/* Graph by graph. *grouped: all edges were taken; false, and nothing is said of it, where they do not come so, or one is
 * faulty. */
static posenc_status by_graphs(builder *b, bool *grouped)
{
    const posenc_edges *e = b->e;
    const int64_t *ptr = b->g->ptr;
    const pe_path path = pe_simd();
    posenc_status st = PE_OK;
    int64_t last = -1;
    *grouped = false;
    for (int64_t i = 0, end, count = 0; i < e->nedges && !st; i = end) {
        const int64_t u = e->source[i];
        if (u < 0 || u >= b->g->nodes)
            return PE_OK;
        const int64_t next = last + 1 < b->g->ngraphs ? last + 1 : last, g = graph_of(ptr, b->g->ngraphs, u, next);
        if (g <= last)
            return PE_OK;
        last = g;
        bool done = false;
        if (!e->weight && ptr[g + 1] - ptr[g] <= BIT_NODES) {
            while (b->graph < g)
                b->arc_ptr[++b->graph] = b->g->arcs;
            in_bits_paths[path](b, g, i, &count, &done);
        }
        end = i + count;
        if (!done && !(st = run_end(b, g, i, &end)))
            st = by_radix(b, i, end, ptr[g], ptr[g + 1] - ptr[g]);
        if (!st)
            st = pe_pace_add(&b->pace, 50 + 8 * (end - i));
    }
    *grouped = !st;
    return st;
}

static posenc_status build(builder *b)
{
    const posenc_edges *e = b->e;
    posenc_graph *g = b->g;
    bool grouped;
    posenc_status st = by_graphs(b, &grouped);
    if (!st && !grouped && !(st = check_edges(e, b->ctx, b->err))) {
        for (int64_t i = 0; i < g->ngraphs; i++)
            b->conflict[i] = -1;
        g->arcs = b->graph = 0;
        g->weighted = false;
        st = by_radix(b, 0, e->nedges, 0, g->nodes);
    }
    while (b->graph < g->ngraphs)
        b->arc_ptr[++b->graph] = g->arcs;
    return st;
}

posenc_status posenc_graph_build_watched(const posenc_edges *e, posenc_arena *arena, const posenc_graph **out,
                                         posenc_context *ctx, posenc_error *err)
{
    posenc_status st = check_sizes(e, err);
    if (!st && e->ptr)
        st = check_ptr(e, err);
    if (st)
        return st;
    const int64_t ngraphs = e->ptr ? e->ngraphs : 1;
    const size_t m = (size_t)e->nedges;
    posenc_graph *g = posenc_alloc(arena, sizeof *g);
    int64_t *ptr = pe_alloc_plain(arena, (size_t)(ngraphs + 1) * sizeof *ptr);
    builder b = { .e = e,
                  .g = g,
                  .ctx = ctx,
                  .err = err,
                  .source = pe_alloc_plain(arena, m * sizeof *b.source),
                  .target = pe_alloc_plain(arena, m * sizeof *b.target),
                  .listed = pe_alloc_plain(arena, m * sizeof *b.listed),
                  .arc_ptr = pe_alloc_plain(arena, (size_t)(ngraphs + 1) * sizeof *b.arc_ptr),
                  .conflict = pe_alloc_plain(arena, (size_t)ngraphs * sizeof *b.conflict),
                  .weight = e->weight ? pe_alloc_plain(arena, m * sizeof *b.weight) : NULL,
                  .pace = { .ctx = ctx, .left = PE_PACE_STEPS } };
    pe_graph_name *name = posenc_alloc(arena, sizeof *name);
    if (!g || !ptr || !b.source || !b.target || !b.listed || !b.arc_ptr || !b.conflict || (e->weight && !b.weight) || !name)
        return no_memory(err);
    ptr[0] = b.arc_ptr[0] = 0;
    for (int64_t i = 0; i < ngraphs; i++) {
        ptr[i + 1] = e->ptr ? e->ptr[i + 1] : e->num_nodes;
        b.conflict[i] = -1;
    }
    *g = (posenc_graph){ .nodes = e->num_nodes,
                         .ngraphs = ngraphs,
                         .directed = e->directed,
                         .batched = e->ptr != NULL,
                         .ptr = ptr,
                         .arc_ptr = b.arc_ptr,
                         .source = b.source,
                         .target = b.target,
                         .listed = b.listed,
                         .conflict = b.conflict,
                         .name = name };
    st = build(&b);
    free(b.arc);
    if (!st) /* giving back much memory takes a while */
        st = posenc_poll(ctx);
    free(b.other);
    g->weight = g->weighted ? b.weight : NULL;
    if (!st)
        *out = g;
    else if (err && !err->n) /* a poll that stopped it */
        posenc_fail(err, st, posenc_status_name(st), "request", "", "%s", posenc_status_meaning(st));
    return st;
}

posenc_status posenc_graph_build(const posenc_edges *edges, posenc_arena *a, const posenc_graph **out, posenc_error *err)
{
    return posenc_graph_build_watched(edges, a, out, NULL, err);
}

/* ---- its name ---- */

static posenc_status hash(pe_hasher *h, const void *data, int64_t n, size_t size, posenc_context *ctx)
{
    enum { CHUNK = 1 << 20 };
    posenc_status st = PE_OK;
    for (size_t i = 0, bytes = (size_t)n * size; i < bytes && !st; i += CHUNK) {
        pe_hash_add(h, (const char *)data + i, bytes - i < CHUNK ? bytes - i : CHUNK);
        st = posenc_poll(ctx);
    }
    return st;
}

posenc_status pe_graph_identify(const posenc_graph *g, const char **id, posenc_context *ctx, posenc_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all names, while one is copied */
    pthread_mutex_lock(&lock);
    const bool known = g->name->id[0] != 0;
    pthread_mutex_unlock(&lock);
    *id = g->name->id;
    if (known)
        return PE_OK;
    pe_hasher h;
    pe_digest d;
    int64_t head[] = { g->nodes, g->arcs, g->ngraphs, g->directed, g->batched, g->weighted };
    pe_hash_init(&h);
    pe_hash_add(&h, "posenc graph 1", 14);
    pe_hash_add(&h, head, sizeof head);
    posenc_status st = hash(&h, g->ptr, g->ngraphs + 1, sizeof *g->ptr, ctx);
    if (!st)
        st = hash(&h, g->source, g->arcs, sizeof *g->source, ctx);
    if (!st)
        st = hash(&h, g->target, g->arcs, sizeof *g->target, ctx);
    if (!st && g->weighted)
        st = hash(&h, g->weight, g->arcs, sizeof *g->weight, ctx);
    if (st) {
        pe_hash_end(&h);
        return st;
    }
    if (!pe_hash_final(&h, &d))
        return no_memory(err);
    char id_of[sizeof g->name->id] = "sha256-";
    pe_hex(&d, id_of + 7);
    pthread_mutex_lock(&lock);
    if (!g->name->id[0])
        memcpy(g->name->id, id_of, sizeof id_of);
    pthread_mutex_unlock(&lock);
    return PE_OK;
}

const char *posenc_graph_id(const posenc_graph *g)
{
    const char *id;
    return pe_graph_identify(g, &id, NULL, NULL) ? NULL : id;
}

int64_t posenc_graph_nodes(const posenc_graph *g) { return g->nodes; }
int64_t posenc_graph_edges(const posenc_graph *g) { return g->arcs; }
int64_t posenc_graph_count(const posenc_graph *g) { return g->ngraphs; }
bool posenc_graph_batched(const posenc_graph *g) { return g->batched; }

const posenc_edges *posenc_example_edges(void)
{
    static const int64_t source[] = { 0, 1, 2, 3, 4, 5, 0 }, target[] = { 1, 2, 3, 4, 5, 0, 6 };
    static const posenc_edges ring = { .num_nodes = 7, .nedges = 7, .source = source, .target = target };
    return &ring;
}

/* ---- the adjacency matrix ---- */

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
                               o->negative_row ? "0 or more; or allow_negative=true" : "0 or more");
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
    e->u = pe_result_memory(size * sizeof *e->u);
    e->v = pe_result_memory(size * sizeof *e->v);
    e->w = pe_result_memory(size * sizeof *e->w);
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
    int64_t *by_target = pe_result_memory((size_t)(m ? m : 1) * sizeof *by_target);
    c->n = n;
    c->ptr = calloc((size_t)n + 1, sizeof *c->ptr);
    c->col = pe_result_memory(most * sizeof *c->col);
    c->weight = pe_result_memory(most * sizeof *c->weight);
    c->degree = calloc((size_t)n + 1, sizeof *c->degree);
    if (!out || !in || !by_target || !c->ptr || !c->col || !c->weight || !c->degree) {
        st = no_memory(err);
        goto done;
    }
    if ((st = touch(out, n + 2, sizeof *out, ctx)) || (st = touch(in, n + 2, sizeof *in, ctx)) ||
        (st = touch(by_target, m, sizeof *by_target, ctx)))
        goto done;
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
/* component and queue: (n) each. */
static posenc_status number_components(pe_csr *c, int32_t *queue, posenc_context *ctx)
{
    posenc_status st = PE_OK;
    int64_t step = 0, head = 0, tail = 0;
    for (int64_t i = 0; i < c->n && !st; i++) {
        c->component[i] = -1;
        st = poll_at(i, ctx);
    }
    for (int64_t root = 0; root < c->n && !st; root++) {
        st = poll_at(step++, ctx);
        if (c->component[root] >= 0)
            continue;
        int32_t id = (int32_t)c->ncomponents++;
        queue[tail++] = (int32_t)root;
        c->component[root] = id;
        while (head < tail && !st) {
            const int32_t u = queue[head++];
            for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
                if (c->component[c->col[a]] < 0) {
                    c->component[c->col[a]] = id;
                    queue[tail++] = c->col[a];
                }
                st = poll_at(step++, ctx);
            }
        }
    }
    return st;
}

posenc_status pe_csr_components(pe_csr *c, posenc_context *ctx, posenc_error *err)
{
    const size_t size = (size_t)(c->n ? c->n : 1) * sizeof(int32_t);
    int32_t *queue = pe_work_memory(size);
    c->component = pe_work_memory(size);
    posenc_status st = queue && c->component ? number_components(c, queue, ctx) : no_memory(err);
    free(queue);
    return st;
}

/* What most graphs are: undirected, without weights, loops or parallel edges. Both passes over the sorted arcs fill each row
 * in ascending order: first the smaller neighbours, then the larger ones. */
static posenc_status build_plain(const posenc_graph *graph, int64_t g, const pe_csr_options *o, void *room, pe_csr *c,
                                 bool *plain, posenc_context *ctx, posenc_error *err)
{
    const int64_t begin = graph->arc_ptr[g], m = graph->arc_ptr[g + 1] - begin, n = graph->ptr[g + 1] - graph->ptr[g];
    const int32_t *source = graph->source + begin, *target = graph->target + begin, base = (int32_t)graph->ptr[g];
    posenc_status st = PE_OK;
    *plain = false;
    if (graph->directed || graph->weight || graph->conflict[g] >= 0)
        return PE_OK;
    for (int64_t i = 0; i < m && !st; i++) {
        if (source[i] == target[i] || (i && source[i] == source[i - 1] && target[i] == target[i - 1]))
            return PE_OK;
        st = poll_at(i, ctx);
    }
    if (st)
        return st;
    *plain = true;
    pe_csr made = { .n = n, .arcs = 2 * m, .borrowed = room != NULL };
    int64_t *ptr = room;
    if (!room && !(ptr = made.memory = pe_result_memory((size_t)(n + 2) * (sizeof *ptr + sizeof(double)) +
                                                        (size_t)(2 * m) * sizeof(int32_t))))
        return no_memory(err);
    double *degree = made.degree = (double *)(ptr + n + 2);
    int32_t *col = made.col = (int32_t *)(degree + n + 2);
    made.ptr = ptr;
    st = touch(col, 2 * m, sizeof *col, ctx);
    for (int64_t v = 0; v < n + 2 && !st; v++) {
        ptr[v] = 0;
        st = poll_at(v, ctx);
    }
    for (int64_t i = 0; i < m && !st; i++) { /* ptr[v + 2]: degrees; then ptr[v + 1]: the next free place of v */
        ptr[source[i] - base + 2]++;
        ptr[target[i] - base + 2]++;
        st = poll_at(i, ctx);
    }
    for (int64_t v = 0; v < n && !st; v++) {
        degree[v] = (double)ptr[v + 2];
        ptr[v + 2] += ptr[v + 1];
        st = poll_at(v, ctx);
    }
    for (int64_t i = 0; i < m && !st; i++) {
        col[ptr[target[i] - base + 1]++] = source[i] - base;
        st = poll_at(i, ctx);
    }
    for (int64_t i = 0; i < m && !st; i++) {
        col[ptr[source[i] - base + 1]++] = target[i] - base;
        st = poll_at(i, ctx);
    }
    if (!st && !o->no_components && room) {
        made.component = col + 2 * m;
        made.order = made.component + n;
        st = number_components(&made, made.order, ctx);
    } else if (!st && !o->no_components) {
        st = pe_csr_components(&made, ctx, err);
    }
    if (st)
        pe_csr_fini(&made);
    *c = made;
    return st;
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
    if ((st = build_plain(graph, g, o, room, out, &plain, ctx, err)) || plain)
        return st;
    if ((st = check_options(graph, g, o, ctx, err)))
        goto done;
    if ((st = join_parallel(graph, g, o, &e, ctx, err)))
        goto done;
    if ((st = fill(graph, o, &e, &c, ctx, err)))
        goto done;
    if (!(graph->directed && o->directed) && !o->no_components && (st = pe_csr_components(&c, ctx, err)))
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
    t.col = pe_result_memory(m * sizeof *t.col);
    t.weight = c->weight ? malloc(m * sizeof *t.weight) : NULL;
    t.degree = calloc(n + 1, sizeof *t.degree);
    if (!t.ptr || !t.col || (c->weight && !t.weight) || !t.degree) {
        st = no_memory(err);
        goto done;
    }
    if ((st = touch(t.ptr, t.n + 2, sizeof *t.ptr, ctx)) || (st = touch(t.col, t.arcs, sizeof *t.col, ctx)) ||
        (st = touch(t.degree, t.n, sizeof *t.degree, ctx)) ||
        (t.weight && (st = touch(t.weight, t.arcs, sizeof *t.weight, ctx))))
        goto done;
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
    }
    if (!c->borrowed)
        free(c->component);
    free(c->memory);
    *c = (pe_csr){ 0 };
}
