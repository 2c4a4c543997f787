/* paths.c - breadth-first search, 64 abreast and from a set, and Dijkstra's algorithm with an indexed heap.
 *
 * Everything is a function of the graph alone: sums run along paths, ties go to the lowest id. */
#include "graph/paths.h"

#include "core/lanes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- many sources ---- */

enum { SOME = 32 }; /* fewer sources go one after another */

/* Memory of each way is taken when it is first gone. */
uint64_t pe_wave_bytes(int64_t n, int64_t sources)
{
    const int64_t queues = sources < PE_QUEUES ? sources : PE_QUEUES;
    const uint64_t narrow = (uint64_t)(queues + 1) * sizeof(int32_t), wide = 4 * sizeof(uint64_t) + PE_WAVE;
    return (uint64_t)(n + 1) * (sources >= SOME && wide > narrow ? wide : narrow);
}

void pe_wave_init(pe_wave *w, const pe_csr *csr, bool narrow) { *w = (pe_wave){ .csr = csr, .narrow = narrow }; }

static void drop_abreast(pe_wave *w)
{
    free(w->seen);
    w->seen = NULL;
}

void pe_wave_fini(pe_wave *w)
{
    free(w->queue);
    drop_abreast(w);
    *w = (pe_wave){ 0 };
}

/* Reached nodes in the order of their steps, in `queue`: returns how many. */
static posenc_status search(const pe_csr *c, int32_t source, int32_t *steps, int32_t *queue, int64_t *reached, pe_pace *pace)
{
    posenc_status st = PE_OK;
    int64_t tail = 0;
    for (int64_t v = 0; v < c->n && !st; v += 4096) {
        const int64_t some = c->n - v < 4096 ? c->n - v : 4096;
        memset(steps + v, 0xff, (size_t)some * sizeof *steps); /* -1 */
        st = pe_pace_add(pace, some / 2);
    }
    steps[source] = 0;
    queue[tail++] = source;
    for (int64_t head = 0; head < tail && !st; head++) {
        const int32_t u = queue[head], d = steps[u] + 1;
        for (int64_t a = c->ptr[u], end; a < c->ptr[u + 1] && !st; a = end) {
            end = c->ptr[u + 1] - a < 65536 ? c->ptr[u + 1] : a + 65536;
            for (int64_t i = a; i < end; i++)
                if (steps[c->col[i]] < 0) {
                    steps[c->col[i]] = d;
                    queue[tail++] = c->col[i];
                }
            st = pe_pace_add(pace, 12 * (end - a));
        }
        if (!st)
            st = pe_pace_add(pace, 8);
    }
    *reached = tail;
    return st;
}

static posenc_status one_by_one(pe_wave *w, const int32_t *source, int64_t count, pe_pace *pace, posenc_error *err)
{
    const size_t n = (size_t)w->csr->n + 1;
    posenc_status st = PE_OK;
    if (!w->queue && !(w->queue = malloc(n * (size_t)(1 + count) * sizeof *w->queue)))
        return pe_no_memory("memory", err);
    w->steps = w->queue + n;
    w->deepest = 0;
    for (int64_t i = 0, reached; i < count && !st; i++) {
        int32_t *steps = w->steps + i * w->csr->n;
        st = search(w->csr, source[i], steps, w->queue, &reached, pace);
        const int32_t last = st ? 0 : steps[w->queue[reached - 1]];
        w->deepest = last > w->deepest ? last : w->deepest;
    }
    return st;
}

static posenc_status make_abreast(pe_wave *w, posenc_error *err)
{
    const size_t n = (size_t)w->csr->n + 1;
    if (w->seen)
        return PE_OK;
    if (!(w->seen = malloc(n * (4 * sizeof *w->seen + PE_WAVE))))
        return pe_no_memory("memory", err);
    w->here = w->seen + n;
    w->next = w->here + n;
    w->now = (int32_t *)(w->next + n);
    w->then = w->now + n;
    w->near = (uint8_t *)(w->then + n);
    return PE_OK;
}

/* The nodes reached in step d: those that `next` has bits for. */
static posenc_status arrive(pe_wave *w, int64_t count, uint8_t d, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < count && !st; i++) {
        const int32_t v = w->then[i];
        uint8_t *row = w->near + (int64_t)v * PE_WAVE;
        w->seen[v] |= w->next[v];
        for (uint64_t bits = w->next[v]; bits; bits &= bits - 1)
            row[__builtin_ctzll(bits)] = d;
        w->here[v] = w->next[v];
        w->next[v] = 0;
        st = pe_pace_add(pace, 32 + 2 * __builtin_popcountll(w->here[v]));
    }
    return st;
}

/* w->narrow: gave up, as the visits of this way cost more than those of queues. A visit here is that of two or three queues;
 * how many sources share one is measured, once the work could matter, or after as many steps as no web has. */
static posenc_status side_by_side(pe_wave *w, const int32_t *source, int64_t count, pe_pace *pace)
{
    enum { SHARE = 3, STEPS = 24, PART = 32 };
    const pe_csr *c = w->csr;
    const int64_t n = c->n;
    int64_t nnow = 0, nthen = 0, arcs = 0, shared = 0;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < n && !st; v++) {
        w->seen[v] = w->here[v] = w->next[v] = 0;
        memset(w->near + v * PE_WAVE, 0xff, PE_WAVE);
        st = pe_pace_add(pace, 60);
    }
    for (int64_t i = 0; i < count && !st; i++) {
        if (!w->here[source[i]])
            w->now[nnow++] = source[i];
        w->here[source[i]] |= UINT64_C(1) << i;
        w->seen[source[i]] |= UINT64_C(1) << i;
        w->near[(int64_t)source[i] * PE_WAVE + i] = 0;
    }
    for (int32_t d = 1; nnow && !st; d++) {
        for (int64_t i = 0; i < nnow && !st; i++) {
            const int32_t u = w->now[i];
            const uint64_t front = w->here[u];
            const int64_t degree = c->ptr[u + 1] - c->ptr[u];
            arcs += degree;
            shared += degree * __builtin_popcountll(front);
            for (int64_t a = c->ptr[u], end; a < c->ptr[u + 1] && !st; a = end) {
                end = c->ptr[u + 1] - a < 65536 ? c->ptr[u + 1] : a + 65536;
                for (int64_t k = a; k < end; k++) {
                    const int32_t v = c->col[k];
                    const uint64_t fresh = front & ~w->seen[v];
                    if (fresh && !w->next[v])
                        w->then[nthen++] = v;
                    w->next[v] |= fresh;
                }
                st = pe_pace_add(pace, 12 * (end - a));
            }
            if (!st)
                st = pe_pace_add(pace, 6);
        }
        w->narrow = shared < SHARE * arcs && (d >= STEPS || arcs > c->arcs / PART * count);
        if (w->narrow || (nthen && d == UINT8_MAX)) {
            w->narrow = true;
            return st;
        }
        if (!st)
            st = arrive(w, nthen, (uint8_t)d, pace);
        w->deepest = nthen ? d : d - 1;
        int32_t *swap = w->now;
        w->now = w->then;
        w->then = swap;
        nnow = nthen;
        nthen = 0;
    }
    return st;
}

posenc_status pe_wave_run(pe_wave *w, const int32_t *source, int64_t *count, pe_pace *pace, posenc_error *err)
{
    posenc_status st;
    w->narrow = w->narrow || *count < SOME;
    if (!w->narrow) {
        *count = *count < PE_WAVE ? *count : PE_WAVE;
        if ((st = make_abreast(w, err)) || (st = side_by_side(w, source, *count, pace)))
            return st;
    }
    if ((w->abreast = !w->narrow))
        return PE_OK;
    drop_abreast(w);
    *count = *count < PE_QUEUES ? *count : PE_QUEUES;
    return one_by_one(w, source, *count, pace, err);
}

enum { TILE = 64 };

#define LOOK_UP(type)                                                                                                \
    static void look_up_##type(const pe_wave *w, int64_t v0, int64_t v1, int64_t count, const type *table, type *to, \
                               int64_t by_node, int64_t by_source)                                                   \
    {                                                                                                                \
        const int64_t n = w->csr->n;                                                                                 \
        if (by_node == 1)                                                                                            \
            for (int64_t i = 0; i < count; i++)                                                                      \
                for (int64_t v = v0; v < v1; v++)                                                                    \
                    to[v + i * by_source] = table[pe_wave_steps(w, i, v) + 1];                                       \
        else if (w->abreast)                                                                                         \
            for (int64_t v = v0; v < v1; v++)                                                                        \
                for (int64_t i = 0; i < count; i++)                                                                  \
                    to[v * by_node + i * by_source] = table[(uint8_t)(w->near[v * PE_WAVE + i] + 1)];                \
        else                                                                                                         \
            for (int64_t v = v0; v < v1; v++)                                                                        \
                for (int64_t i = 0; i < count; i++)                                                                  \
                    to[v * by_node + i * by_source] = table[w->steps[i * n + v] + 1];                                \
    }
LOOK_UP(uint8_t)
LOOK_UP(uint16_t)
LOOK_UP(uint32_t)
LOOK_UP(uint64_t)

posenc_status pe_wave_look_up(const pe_wave *w, int64_t count, const void *table, size_t size, void *to, int64_t by_node,
                              int64_t by_source, pe_pace *pace)
{
    const int64_t n = w->csr->n;
    posenc_status st = PE_OK;
    for (int64_t v = 0, end; v < n && !st; v = end) {
        end = v + TILE < n ? v + TILE : n;
        switch (size) {
        case 1: look_up_uint8_t(w, v, end, count, table, to, by_node, by_source); break;
        case 2: look_up_uint16_t(w, v, end, count, table, to, by_node, by_source); break;
        case 4: look_up_uint32_t(w, v, end, count, table, to, by_node, by_source); break;
        default: look_up_uint64_t(w, v, end, count, table, to, by_node, by_source); break;
        }
        st = pe_pace_add(pace, (end - v) * (60 + 4 * count));
    }
    return st;
}

/* ---- all pairs ---- */

/* Every node but the first ones has a neighbour of a lower number: one of them, its parent, makes a forest. Its steps take
 * two passes, children to parents and back. Then each node's other lower neighbours come, all at once: steps from it lead
 * through them, and it may be on the way between any two. `none` and twice `none` fit the type; width is a multiple of 32.
 * to = min(to, from + by): a loop of this form becomes instructions of minima. */
#define PAIRS(type)                                                                                   \
    PE_BODY void shorten_##type(type *restrict to, const type *restrict from, type by, int64_t width) \
    {                                                                                                 \
        for (int64_t k = 0; k < width; k += 32)                                                       \
            for (int i = 0; i < 32; i++) {                                                            \
                const type way = (type)(from[k + i] + by);                                            \
                to[k + i] = way < to[k + i] ? way : to[k + i];                                        \
            }                                                                                         \
    }                                                                                                 \
    PE_BODY void start_##type(type *row, int64_t v, type none, int64_t width)                         \
    {                                                                                                 \
        for (int64_t k = 0; k < width; k += 32)                                                       \
            for (int i = 0; i < 32; i++)                                                              \
                row[k + i] = (type)(k + i) == (type)v ? 0 : none;                                     \
    }                                                                                                 \
    PE_BODY void forest_##type(const pe_lower *l, type *steps, type none, int64_t n, int64_t width)   \
    {                                                                                                 \
        for (int64_t v = 0; v < n; v++)                                                               \
            start_##type(steps + v * width, v, none, width);                                          \
        for (int64_t v = n - 1; v > 0; v--)                                                           \
            if (l->last[v] >= 0)                                                                      \
                shorten_##type(steps + l->node[l->last[v]] * width, steps + v * width, 1, width);     \
        for (int64_t v = 1; v < n; v++)                                                               \
            if (l->last[v] >= 0)                                                                      \
                shorten_##type(steps + v * width, steps + l->node[l->last[v]] * width, 1, width);     \
    }                                                                                                 \
    PE_BODY void others_##type(const pe_lower *l, type *steps, int64_t v, int64_t n, int64_t width)   \
    {                                                                                                 \
        type *row = steps + v * width;                                                                \
        if (l->last[v] < 0 || l->before[l->last[v]] < 0)                                              \
            return;                                                                                   \
        for (int i = l->before[l->last[v]]; i >= 0; i = l->before[i])                                 \
            shorten_##type(row, steps + l->node[i] * width, 1, width);                                \
        for (int64_t x = 0; x < v; x++)                                                               \
            shorten_##type(steps + x * width, row, row[x], width);                                    \
        for (int64_t x = v + 1; x < n; x++)                                                           \
            shorten_##type(steps + x * width, row, row[x], width);                                    \
    }
PAIRS(uint8_t)
PAIRS(uint16_t)

void pe_lower_list(pe_lower *l, const int32_t *source, const int32_t *target, int64_t arcs, int32_t base, int64_t n)
{
    for (int64_t v = 0; v < n; v++)
        l->last[v] = -1;
    for (int64_t i = 0; i < arcs; i++) {
        const int32_t u = source[i] - base, v = target[i] - base;
        if (u == v)
            continue;
        l->node[i] = (int16_t)u;
        l->before[i] = l->last[v];
        l->last[v] = (int16_t)i;
    }
}

PE_BODY void pairs_in(const pe_lower *l, int64_t n, int64_t width, uint8_t *steps)
{
    forest_uint8_t(l, steps, PE_PAIRS_NONE, n, width);
    for (int64_t v = 0; v < n; v++)
        others_uint8_t(l, steps, v, n, width);
}

PE_BODY void pairs_body(const pe_lower *l, int64_t n, uint8_t *steps)
{
    const int64_t width = pe_pairs_width(n);
    if (width == 32) /* most molecules have one of two known widths */
        pairs_in(l, n, 32, steps);
    else if (width == 64)
        pairs_in(l, n, 64, steps);
    else
        pairs_in(l, n, width, steps);
}

PE_BODY void wide_body(const pe_lower *l, int64_t n, int64_t v, uint16_t *steps)
{
    if (v)
        others_uint16_t(l, steps, v, n, pe_pairs_width(n));
    else
        forest_uint16_t(l, steps, PE_WIDE_PAIRS_NONE, n, pe_pairs_width(n));
}

PE_KERNEL(pairs, pairs_body, (const pe_lower *l, int64_t n, uint8_t *steps), (l, n, steps))
PE_KERNEL(wide, wide_body, (const pe_lower *l, int64_t n, int64_t v, uint16_t *steps), (l, n, v, steps))

void pe_pairs(const pe_lower *l, int64_t n, uint8_t *steps) { pairs_paths[pe_simd()](l, n, steps); }

posenc_status pe_wide_pairs(const pe_lower *l, int64_t n, uint16_t *steps, pe_pace *pace)
{
    const pe_path path = pe_simd();
    const int64_t width = pe_pairs_width(n);
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < n && !st; v++) { /* node 0, which has no lower neighbours, stands for the forest */
        wide_paths[path](l, n, v, steps);
        st = pe_pace_add(pace, n * (2 + width / 16));
    }
    return st;
}

/* ---- from a set ---- */

uint64_t pe_spread_bytes(int64_t n) { return (uint64_t)(n + 1) * (sizeof(double) + 4 * sizeof(int32_t)); }

posenc_status pe_spread_init(pe_spread *s, const pe_csr *csr, bool lengths, posenc_error *err)
{
    const size_t n = (size_t)csr->n + 1;
    *s = (pe_spread){ .csr = csr, .lengths = lengths, .memory = malloc((size_t)pe_spread_bytes(csr->n)) };
    if (!s->memory)
        return pe_no_memory("memory", err);
    s->dist = s->memory;
    s->owner = (int32_t *)(s->dist + n);
    s->order = s->owner + n;
    s->place = s->order + n;
    s->heap = s->place + n;
    return PE_OK;
}

void pe_spread_fini(pe_spread *s)
{
    free(s->memory);
    *s = (pe_spread){ 0 };
}

/* Level by level: all owners of a level are final before the first node of it is followed. */
static posenc_status by_steps(pe_spread *s, int64_t closed, pe_pace *pace)
{
    const pe_csr *c = s->csr;
    posenc_status st = PE_OK;
    for (int64_t head = 0; head < s->reached && !st; head++) {
        const int32_t u = s->order[head];
        const double d = s->dist[u] + 1;
        st = pe_pace_add(pace, 8);
        for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
            const int32_t v = c->col[a];
            if (s->dist[v] < 0 && v != closed) {
                s->dist[v] = d;
                s->owner[v] = s->owner[u];
                s->order[s->reached++] = v;
            } else if (s->dist[v] == d && s->owner[u] < s->owner[v]) {
                s->owner[v] = s->owner[u];
            }
            st = pe_pace_add(pace, 6);
        }
    }
    return st;
}

/* Heap order: nearest first, then by owner, then by id. No way out of a node comes before it in this order, so that
 * both distance and owner are final when a node is taken. */
static bool before(const pe_spread *s, int32_t a, int32_t b)
{
    if (s->dist[a] != s->dist[b])
        return s->dist[a] < s->dist[b];
    return s->owner[a] != s->owner[b] ? s->owner[a] < s->owner[b] : a < b;
}

/* While in the heap `place` is where a node stands there. */
static void put_at(pe_spread *s, int64_t i, int32_t v)
{
    s->heap[i] = v;
    s->place[v] = (int32_t)i;
}

static void rise(pe_spread *s, int32_t v)
{
    int64_t i = s->place[v];
    for (; i > 0 && before(s, v, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        put_at(s, i, s->heap[(i - 1) / 2]);
    put_at(s, i, v);
}

static int32_t take_first(pe_spread *s, int64_t *size)
{
    const int32_t first = s->heap[0], v = s->heap[--*size];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < *size; i = child) {
        if (child + 1 < *size && before(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (!before(s, s->heap[child], v))
            break;
        put_at(s, i, s->heap[child]);
    }
    if (*size)
        put_at(s, i, v);
    return first;
}

static posenc_status too_long(posenc_error *err)
{
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "graph.edge_weight", "a path longer than 1.79e308",
                       "weights whose sums along paths are finite");
}

static posenc_status by_lengths(pe_spread *s, int64_t closed, pe_pace *pace, posenc_error *err)
{
    const pe_csr *c = s->csr;
    posenc_status st = PE_OK;
    int64_t size = 0;
    for (int64_t i = 0; i < s->reached; i++) { /* the seeds, as listed in order */
        put_at(s, size++, s->order[i]);
        rise(s, s->order[i]);
        if ((st = pe_pace_add(pace, 32)))
            return st;
    }
    for (s->reached = 0; size && !st; s->reached++) {
        const int32_t u = take_first(s, &size);
        s->order[s->reached] = u;
        s->place[u] = (int32_t)s->reached;
        st = pe_pace_add(pace, 200);
        for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
            const int32_t v = c->col[a];
            const double d = s->dist[u] + (c->weight ? c->weight[a] : 1);
            st = pe_pace_add(pace, 12);
            if (v == closed || (s->dist[v] >= 0 && (s->dist[v] < d || (s->dist[v] == d && s->owner[v] <= s->owner[u]))))
                continue;
            if (d > DBL_MAX)
                return too_long(err);
            if (s->dist[v] < 0)
                put_at(s, size++, v);
            s->dist[v] = d;
            s->owner[v] = s->owner[u];
            rise(s, v);
            st = pe_pace_add(pace, 30);
        }
    }
    return st;
}

posenc_status pe_spread_run(pe_spread *s, const int32_t *seed, int64_t nseeds, int64_t closed, pe_pace *pace,
                            posenc_error *err)
{
    posenc_status st = PE_OK;
    s->reached = 0;
    for (int64_t v = 0; v < s->csr->n && !st; v++) {
        s->dist[v] = -1;
        s->owner[v] = s->place[v] = -1;
        st = pe_pace_add(pace, 3);
    }
    for (int64_t i = 0; i < nseeds && !st; i++) {
        st = pe_pace_add(pace, 8);
        if (s->dist[seed[i]] == 0)
            continue;
        s->dist[seed[i]] = 0;
        s->owner[seed[i]] = seed[i];
        s->order[s->reached++] = seed[i];
    }
    if (st)
        return st;
    return s->lengths ? by_lengths(s, closed, pace, err) : by_steps(s, closed, pace);
}

/* ---- how distances are told ---- */

const char *const pe_distance_words[] = { "dist", "inverse", NULL };

double pe_distance_largest(posenc_dtype t)
{
    switch (t) {
    case PE_float32: return FLT_MAX;
    case PE_float64: return DBL_MAX;
    case PE_float16: return 65504;
    case PE_bfloat16: return 0x1.fep127;
    case PE_int32: return INT32_MAX;
    case PE_int64: return 0x1p53; /* the largest up to which a float64 holds every integer */
    case PE_uint8: return UINT8_MAX;
    case PE_int16: return INT16_MAX;
    case PE_NDTYPES: break;
    }
    return 0;
}

bool pe_telling_lengths(const pe_telling *t, const posenc_graph *g) { return t->edge_weight && g->weighted; }

posenc_status pe_telling_lengths_in(const pe_telling *t, const posenc_graph *graph, int64_t g, bool *lengths, pe_pace *pace)
{
    posenc_status st = PE_OK;
    *lengths = pe_telling_lengths(t, graph) && !graph->batched;
    if (*lengths || !pe_telling_lengths(t, graph))
        return st;
    for (int64_t a = graph->arc_ptr[g]; a < graph->arc_ptr[g + 1] && !*lengths && !st; a++) {
        *lengths = graph->weight[a] != 1;
        st = pe_pace_add(pace, 1);
    }
    return st;
}

posenc_status pe_telling_check(posenc_request *r, pe_telling *t, posenc_dtype dtype, posenc_error *err)
{
    posenc_status st = PE_OK;
    t->capped = pe_given(r, "max_dist");
    if (t->capped && t->max_dist == 0)
        st = pe_invalid(err, "max_dist", posenc_text("0"), "more than 0; without max_dist there is no bound");
    else if (t->capped && !pe_telling_lengths(t, r->graph) && t->max_dist != trunc(t->max_dist))
        st = pe_invalid(err, "max_dist", posenc_text("%.17g", t->max_dist), "a whole number: the distances are steps");
    if (!pe_given(r, "unreachable"))
        t->unreachable = t->transform == PE_DISTANCE_INVERSE ? 0 : dtype == PE_uint8 ? UINT8_MAX : -1;
    const double code = (double)t->unreachable, most = pe_distance_largest(dtype);
    const double least = dtype == PE_uint8 ? 0 : dtype <= PE_bfloat16 ? -most : -most - 1;
    double bits = 0; /* room for one element of any dtype */
    const posenc_tensor one = { .dtype = dtype, .data = &bits };
    const bool fits = code >= least && code <= most;
    if (fits)
        posenc_convert(dtype, &bits, &code, 1);
    if (!fits || posenc_tensor_get(&one, 0) != code)
        st = pe_invalid(err, "unreachable", posenc_text("%lld", (long long)t->unreachable), "a number that %s holds",
                        posenc_dtype_name(dtype));
    return st;
}

pe_csr_options pe_telling_options(const pe_telling *t, const pe_csr_options *rows)
{
    pe_csr_options o = *rows;
    o.no_components = true;
    if (!t->edge_weight) {
        o.allow_negative = true;
        if (o.duplicate_edges == PE_DUPLICATES_SUM) /* a sum could cancel to 0, which is no edge */
            o.duplicate_edges = PE_DUPLICATES_MAX;
        if (o.symmetrize != PE_SYMMETRIZE_ERROR)
            o.symmetrize = PE_SYMMETRIZE_MAX;
    }
    return o;
}
