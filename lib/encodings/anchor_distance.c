/* anchor_distance.c - how near each node is to each of several sets of anchors.
 *
 *     d(v, S) = the least distance from v to a node of S         encoding[v, j] = 1 / (1 + d(v, S_j)), the closeness
 *     argmax[v, j] = the node of S_j it is reached at
 *
 * The anchors:
 *   random_sets  m = floor(log2 n), c = floor(anchor_c m): for i = 1 .. m, c sets of floor(n / 2^i) different nodes each
 *   random       num_anchors different nodes, a set each
 *   degree       the num_anchors nodes of most edges, a set each; of equals the lowest id first
 *   farthest     first the node of most edges, then num_anchors - 1 times the node farthest from all chosen so far; one that
 *                is not reached is farther than any other; of equals the lowest id
 *   given        the lists in anchors and anchor_ptr
 *
 * Defined here, as users will ask:
 *   - Nodes without edges are nodes: they are chosen, and are near to themselves. (P-GNN leaves their rows 0.)
 *   - Of equally near anchors argmax is the lowest id; where no anchor is reached it is -1.
 *   - On a directed graph distances run from v to the anchor, as P-GNN's matrix is indexed.
 *   - Random choices depend on seed, set and number of nodes: the same alone and in a batch. They choose ids, so that a
 *     relabelled graph gets other anchors; degree and farthest follow the structure as far as ties allow.
 *   - A graph with fewer sets than the widest of its batch, or with fewer nodes than num_anchors, has columns without
 *     anchors: unreachable, and -1.
 *
 * Way: one search from each set, never the n x n matrix; for sets of random nodes Knuth's selection sampling (TAOCP 2,
 * algorithm S) with Philox.
 *
 * Source: You et al. 2019, Position-aware graph neural networks, arXiv:1906.04817, section 4; get_random_anchorset and
 * get_dist_max of the authors' utils.py. */
#include "core/parallel.h"
#include "core/random.h"
#include "graph/batch.h"
#include "graph/paths.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_anchor_distance;

/* ---- rows ---- */

enum { RANDOM_SETS, RANDOM, DEGREE, FARTHEST, GIVEN };
static const char *const modes[] = { "random_sets", "random", "degree", "farthest", "given", NULL };
enum { NUM_ANCHORS = 8 };

typedef struct anchor_distance {
    posenc_given given;
    int anchor_mode;
    int64_t num_anchors, seed;
    double anchor_c;
    posenc_reals anchors, anchor_ptr;
    pe_telling tell;
    pe_csr_options edges;
} anchor_distance;

static const posenc_param rows[] = {
    { PE_ENUM(anchor_distance, anchor_mode), .flags = PE_DERIVED, .names = modes, .def = RANDOM_SETS,
      .doc = "how anchors are chosen; when absent given where anchors are, otherwise random_sets (P-GNN)" },
    { PE_INT(anchor_distance, num_anchors), .def = NUM_ANCHORS, .min = 1, .max = 1 << 20,
      .doc = "anchors of random, degree and farthest" },
    { PE_REAL(anchor_distance, anchor_c), .def = 0.5, .min = 0, .max = 64,
      .doc = "of random_sets: floor(anchor_c log2 n) sets of each size" },
    { PE_INT(anchor_distance, seed), .max = 9007199254740991.0, .doc = "of random_sets and random" },
    { PE_REALS(anchor_distance, anchors), .flags = PE_OPTIONAL, .max = 0x1p31,
      .doc = "of given: nodes, one set after the other; in a batch numbers within each graph" },
    { PE_REALS(anchor_distance, anchor_ptr), .flags = PE_OPTIONAL, .max = 0x1p31,
      .doc =
          "of given: set j is anchors[anchor_ptr[j]] .. anchors[anchor_ptr[j + 1] - 1]; when absent each anchor is a set" },
    PE_TELLING_ROWS(anchor_distance, tell, PE_DISTANCE_INVERSE, 1),
    PE_ARC_ROWS(anchor_distance, edges, PE_LOOPS_DROP),
};

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, sets]", "closeness to (inverse) or distance from (dist) the nearest anchor of each set",
      NULL },
    { "argmax", "[num_nodes, sets]", "that anchor, numbered within its graph; -1: none is reached", "int64" },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static bool given(const anchor_distance *p, const char *name)
{
    return posenc_was_given(&pe_anchor_distance.table, posenc_row(&pe_anchor_distance.table, name), p);
}

static int64_t log2_floor(int64_t n)
{
    int64_t m = 0;
    while (n >> (m + 1))
        m++;
    return m;
}

/* Sets of a graph of n nodes. */
static int64_t set_count(const anchor_distance *p, int64_t n)
{
    const int64_t m = log2_floor(n);
    switch (p->anchor_mode) {
    case RANDOM_SETS: return m * (int64_t)floor(p->anchor_c * (double)m);
    case GIVEN: return given(p, "anchor_ptr") ? (int64_t)p->anchor_ptr.n - 1 : (int64_t)p->anchors.n;
    default: return p->num_anchors;
    }
}

/* Columns of the answer: the sets of the graph that has most. */
static int64_t width(const anchor_distance *p, const posenc_graph *g)
{
    int64_t most = 0;
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t sets = set_count(p, g->ptr[i + 1] - g->ptr[i]);
        most = sets > most ? sets : most;
    }
    return most;
}

static posenc_status check_ptr(const posenc_reals *ptr, size_t anchors, posenc_error *err)
{
    if (ptr->n < 1 || ptr->v[0] != 0)
        return pe_invalid(err, "anchor_ptr[0]", ptr->n ? posenc_text("%.17g", ptr->v[0]) : posenc_text("absent"), "0");
    for (size_t i = 1; i < ptr->n; i++) {
        const double v = ptr->v[i];
        if (v != trunc(v) || v <= ptr->v[i - 1] || v > (double)anchors)
            return pe_invalid(err, posenc_text("anchor_ptr[%zu]", i).s, posenc_text("%.17g", v),
                              "a whole number over anchor_ptr[%zu], as no set is empty, and at most the %zu anchors", i - 1,
                              anchors);
    }
    if (ptr->v[ptr->n - 1] != (double)anchors)
        return pe_invalid(err, posenc_text("anchor_ptr[%zu]", ptr->n - 1).s, posenc_text("%.17g", ptr->v[ptr->n - 1]),
                          "%zu, the number of anchors", anchors);
    return PE_OK;
}

/* The given anchors of a graph of n nodes into `out` (anchors.n), NULL: they are only checked. */
static posenc_status take_anchors(const posenc_reals *a, int64_t n, int32_t *out, posenc_error *err)
{
    for (size_t i = 0; i < a->n; i++) {
        const double v = a->v[i];
        if (v != trunc(v) || v >= (double)n)
            return pe_invalid(err, posenc_text("anchors[%zu]", i).s, posenc_text("%.17g", v),
                              n ? "a node: a whole number below %lld" : "no anchor: the graph has %lld nodes", (long long)n);
        if (out)
            out[i] = (int32_t)v;
    }
    return PE_OK;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    anchor_distance *p = r->params;
    if (!given(p, "anchor_mode"))
        p->anchor_mode = given(p, "anchors") ? GIVEN : RANDOM_SETS;
    const int mode = p->anchor_mode;
    posenc_status st = pe_telling_check(r, &p->tell, (posenc_dtype)r->common.dtype, err);
    if (p->num_anchors != NUM_ANCHORS && (mode == RANDOM_SETS || mode == GIVEN))
        st = pe_not_applicable(err, "num_anchors", posenc_text("%lld", (long long)p->num_anchors).s,
                               "with anchor_mode=random, degree or farthest");
    if (p->anchor_c != 0.5 && mode != RANDOM_SETS)
        st = pe_not_applicable(err, "anchor_c", posenc_text("%.17g", p->anchor_c).s, "with anchor_mode=random_sets");
    if (p->seed && mode != RANDOM_SETS && mode != RANDOM)
        st = pe_not_applicable(err, "seed", posenc_text("%lld", (long long)p->seed).s,
                               "with anchor_mode=random_sets or random");
    for (int i = 0; i < 2 && mode != GIVEN; i++)
        if (given(p, i ? "anchor_ptr" : "anchors"))
            st = pe_not_applicable(err, i ? "anchor_ptr" : "anchors",
                                   posenc_text("%zu numbers", i ? p->anchor_ptr.n : p->anchors.n).s,
                                   "with anchor_mode=given, which anchors imply");
    if (mode != GIVEN)
        return st;
    if (!given(p, "anchors"))
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "anchors", "absent", "the nodes of anchor_mode=given");
    if (given(p, "anchor_ptr") && check_ptr(&p->anchor_ptr, p->anchors.n, err))
        st = PE_INVALID;
    if (!r->graph->batched && take_anchors(&p->anchors, r->graph->nodes, NULL, err))
        st = PE_INVALID;
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const int64_t size[] = { r->graph->nodes, width(r->params, r->graph) };
    posenc_status st = pe_output(out, "encoding", (posenc_dtype)r->common.dtype, 2, size, err);
    if (!st)
        st = pe_output(out, "argmax", PE_int64, 2, size, err);
    return st ? st : pe_status_output(r, out, err);
}

/* [ns] measured on random graphs and molecules. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const anchor_distance *p = r->params;
    const posenc_graph *g = r->graph;
    const double columns = (double)width(p, g), search = pe_telling_lengths(&p->tell, g) ? 200 : 15;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t nodes = g->ptr[i + 1] - g->ptr[i], arcs = 2 * (g->arc_ptr[i + 1] - g->arc_ptr[i]);
        const double n = (double)nodes, m = (double)arcs, sets = (double)set_count(p, nodes);
        out->ns += 1500 + 60 * m + 60 * n + sets * (search * n + 6 * m) + 15 * columns * n + 2 * (double)p->anchors.n;
        const int64_t abreast = columns < PE_WAVE ? (int64_t)columns : PE_WAVE;
        const uint64_t scratch = (uint64_t)arcs * 60 + pe_wave_bytes(nodes, abreast) + (uint64_t)nodes * 240 +
                                 pe_spread_bytes(nodes) + (uint64_t)p->anchors.n * 4 + 4096;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- choosing ---- */

typedef struct answer {
    posenc_tensor *encoding, *argmax;
    int64_t columns;
} answer;

typedef struct rank {
    int64_t edges;
    int32_t node;
} rank;

typedef struct work {
    const anchor_distance *p;
    answer *o;
    pe_graph_job *j;
    pe_csr csr, back; /* back: the transpose of a directed graph */
    pe_csr csr_to;    /* the one of them that is searched from anchors: borrowed */
    bool lengths;
    pe_spread spread;
    int64_t sets;  /* of this graph */
    int32_t *seed; /* (n, or given anchors) nodes of the set at hand, or of all given sets */
    rank *ranks;   /* (2 n) degree: nodes by edges, and scratch; farthest: the first place */
    double *near;  /* (n) farthest: distance to what is chosen, -1: chosen */
} work;

static void work_fini(work *w)
{
    pe_csr_fini(&w->csr);
    pe_csr_fini(&w->back);
    pe_spread_fini(&w->spread);
    free(w->seed);
    free(w->ranks);
    free(w->near);
}

/* More edges first, then the lower id. */
static int by_edges(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    return x->edges != y->edges ? (x->edges < y->edges) - (x->edges > y->edges) : (x->node > y->node) - (x->node < y->node);
}

static posenc_status rank_nodes(work *w, posenc_error *err)
{
    const int64_t n = w->j->n;
    posenc_status st = PE_OK;
    w->ranks = malloc((size_t)(2 * n + 1) * sizeof *w->ranks);
    if (!w->ranks)
        return pe_no_memory("memory", err);
    for (int64_t v = 0; v < n && !st; v++) {
        w->ranks[v] = (rank){ .edges = w->csr.ptr[v + 1] - w->csr.ptr[v], .node = (int32_t)v };
        if (w->back.ptr)
            w->ranks[v].edges += w->back.ptr[v + 1] - w->back.ptr[v];
        st = pe_pace_add(&w->j->pace, 4);
    }
    return st ? st : pe_sort(n, sizeof *w->ranks, w->ranks, w->ranks + n, by_edges, &w->j->pace);
}

static posenc_status work_init(work *w, posenc_error *err)
{
    const posenc_graph *g = w->j->request->graph;
    const anchor_distance *p = w->p;
    const int64_t n = w->j->n;
    posenc_status st;
    pe_csr_options options = pe_telling_options(&p->tell, &p->edges);
    options.directed = true;
    if ((st = pe_csr_build(g, w->j->graph, &options, &w->csr, w->j->ctx, err)))
        return st;
    if (g->directed && (st = pe_csr_transpose(&w->csr, &w->back, w->j->ctx, err)))
        return st;
    w->csr_to = g->directed ? w->back : w->csr;
    if ((st = pe_telling_lengths_in(&p->tell, g, w->j->graph, &w->lengths, &w->j->pace)))
        return st;
    const int64_t sets = set_count(p, n);
    w->sets = p->anchor_mode == RANDOM_SETS || p->anchor_mode == GIVEN || sets < n ? sets : n;
    const size_t room = p->anchor_mode == GIVEN ? p->anchors.n : (size_t)n;
    if (!(w->seed = malloc((room + 1) * sizeof *w->seed)))
        return pe_no_memory("memory", err);
    if (p->anchor_mode == GIVEN) {
        st = take_anchors(&p->anchors, n, w->seed, err);
        return st ? st : pe_pace_add(&w->j->pace, 3 * (int64_t)p->anchors.n);
    }
    if (p->anchor_mode == RANDOM_SETS)
        return PE_OK;
    if (p->anchor_mode != RANDOM && (st = rank_nodes(w, err)))
        return st;
    if (p->anchor_mode == FARTHEST) {
        if (!(w->near = malloc((size_t)(n + 1) * sizeof *w->near)))
            return pe_no_memory("memory", err);
        for (int64_t v = 0; v < n && !st; v++) {
            w->near[v] = (double)INFINITY;
            st = pe_pace_add(&w->j->pace, 1);
        }
    }
    return st;
}

/* `size` different nodes of n, ascending: each is taken with the chance that the rest still needs. */
static posenc_status draw(work *w, uint64_t stream, int64_t size)
{
    enum { CHUNK = 256 };
    const int64_t n = w->j->n;
    double u[CHUNK];
    int64_t count = 0;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < n && count < size && !st; v++) {
        if (v % CHUNK == 0) {
            const int64_t some = n - v < CHUNK ? n - v : CHUNK;
            pe_random_uniform((uint64_t)w->p->seed, stream, (uint64_t)v, (size_t)some, u);
            st = pe_pace_add(&w->j->pace, 20 * some);
        }
        if (u[v % CHUNK] * (double)(n - v) < (double)(size - count))
            w->seed[count++] = (int32_t)v;
    }
    return st;
}

/* Random nodes one by one: a shuffle, of which set s takes place s. seed holds all nodes, the chosen ones first. */
static posenc_status shuffle_one(work *w, int64_t s)
{
    const int64_t n = w->j->n;
    posenc_status st = PE_OK;
    double u;
    for (int64_t v = 0; v < n && s == 0 && !st; v++) {
        w->seed[v] = (int32_t)v;
        st = pe_pace_add(&w->j->pace, 1);
    }
    pe_random_uniform((uint64_t)w->p->seed, 0, (uint64_t)s, 1, &u);
    const int64_t at = s + (int64_t)(u * (double)(n - s)), node = w->seed[at];
    w->seed[at] = w->seed[s];
    w->seed[s] = (int32_t)node;
    return st;
}

static posenc_status farthest(work *w, int64_t s, int32_t *out)
{
    const int64_t n = w->j->n;
    posenc_status st = PE_OK;
    int64_t best = s ? 0 : w->ranks[0].node;
    for (int64_t v = 1; v < n && s && !st; v++) {
        best = w->near[v] > w->near[best] ? v : best;
        st = pe_pace_add(&w->j->pace, 1);
    }
    *out = (int32_t)best;
    return st;
}

/* The nodes of set s. */
static posenc_status choose(work *w, int64_t s, const int32_t **set, int64_t *size)
{
    const anchor_distance *p = w->p;
    const int64_t m = log2_floor(w->j->n);
    *set = w->seed;
    *size = 1;
    switch (p->anchor_mode) {
    case RANDOM_SETS: *size = w->j->n >> (s / (w->sets / m) + 1); return draw(w, (uint64_t)s, *size);
    case RANDOM: *set = w->seed + s; return shuffle_one(w, s);
    case DEGREE: w->seed[0] = w->ranks[s].node; return PE_OK;
    case FARTHEST: return farthest(w, s, w->seed);
    default: break;
    }
    const int64_t begin = given(p, "anchor_ptr") ? (int64_t)p->anchor_ptr.v[s] : s;
    *set = w->seed + begin;
    *size = given(p, "anchor_ptr") ? (int64_t)p->anchor_ptr.v[s + 1] - begin : 1;
    return PE_OK;
}

/* ---- one graph ---- */

static posenc_status too_large(const work *w, double d, posenc_error *err)
{
    return pe_invalid(err, "dtype", posenc_text("%s", posenc_dtype_name(w->o->encoding->dtype)),
                      "a type that holds the length %.3g; or max_dist, or transform=inverse", d);
}

/* Told of distance d to a set whose nearest node is `owner`. */
static posenc_status write_one(const work *w, int64_t at, double told, double d, int32_t owner, posenc_error *err)
{
    posenc_tensor *t = w->o->encoding;
    const bool dropped = w->p->tell.capped && w->p->tell.drop_beyond && d > w->p->tell.max_dist;
    if (told > pe_distance_largest(t->dtype))
        return too_large(w, d, err);
    ((int64_t *)w->o->argmax->data)[at] = d < 0 || dropped ? -1 : owner;
    posenc_convert(t->dtype, (char *)t->data + (size_t)at * posenc_dtype_size(t->dtype), &told, 1);
    return PE_OK;
}

/* Column s from the search; NULL: no anchors. */
static posenc_status write_column(const work *w, int64_t s, const pe_spread *from, posenc_error *err)
{
    const size_t size = posenc_dtype_size(w->o->encoding->dtype) + sizeof(int64_t);
    const int64_t fresh = s ? 0 : w->o->columns * (int64_t)size / 2; /* the first column touches every page */
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < w->j->n && !st; v++) {
        const double d = from ? from->dist[v] : -1;
        st = write_one(w, (w->j->first + v) * w->o->columns + s, pe_tell(&w->p->tell, d), d, from ? from->owner[v] : -1,
                       err);
        if (!st)
            st = pe_pace_add(&w->j->pace, 48 + fresh);
    }
    return st;
}

/* ---- sets of one node, in steps ---- */

typedef struct singles {
    const work *w;
    const int32_t *seed; /* (sets) */
    int64_t first, each; /* sources of the first task, of one task */
    bool narrow;         /* searches go one after another */
} singles;

/* What is told of -1 .. most steps, elements in *table. */
static posenc_status tell_steps(const work *w, int64_t most, void **table, pe_pace *pace, posenc_error *err)
{
    enum { SOME = 1024 };
    const posenc_dtype t = w->o->encoding->dtype;
    const size_t size = posenc_dtype_size(t);
    posenc_status st = PE_OK;
    free(*table);
    if (!(*table = malloc((size_t)(most + 2) * size)))
        return pe_no_memory("memory", err);
    for (int64_t d = -1; d <= most && !st; d += SOME) {
        double told[SOME];
        const int64_t some = most + 1 - d < SOME ? most + 1 - d : SOME;
        for (int64_t i = 0; i < some; i++) {
            told[i] = pe_tell(&w->p->tell, (double)(d + i));
            if (told[i] > pe_distance_largest(t))
                return too_large(w, (double)(d + i), err);
        }
        posenc_convert(t, (char *)*table + (size_t)(d + 1) * size, told, (size_t)some);
        st = pe_pace_add(pace, 8 * some);
    }
    return st;
}

static posenc_status write_owners(const singles *all, const pe_wave *wave, int64_t first, int64_t count, pe_pace *pace)
{
    const work *w = all->w;
    const pe_telling *tell = &w->p->tell;
    const int64_t far = tell->capped && tell->drop_beyond && tell->max_dist < INT32_MAX ? (int64_t)tell->max_dist
                                                                                        : INT32_MAX;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < w->j->n && !st; v++) {
        int64_t *to = (int64_t *)w->o->argmax->data + (w->j->first + v) * w->o->columns + first;
        for (int64_t k = 0; k < count; k++) {
            const int32_t d = pe_wave_steps(wave, k, v);
            to[k] = d < 0 || d > far ? -1 : all->seed[first + k];
        }
        st = pe_pace_add(pace, 40 + 8 * count);
    }
    return st;
}

static posenc_status one_block(void *arg, int64_t i, posenc_error *err)
{
    singles *all = arg;
    const work *w = all->w;
    const posenc_tensor *t = w->o->encoding;
    const size_t size = posenc_dtype_size(t->dtype);
    const int64_t begin = all->first + i * all->each, end = begin + all->each < w->sets ? begin + all->each : w->sets;
    pe_pace pace = { .ctx = w->j->ctx, .left = PE_PACE_STEPS };
    pe_wave wave;
    void *table = NULL;
    posenc_status st = PE_OK;
    pe_wave_init(&wave, &w->csr_to, all->narrow);
    for (int64_t s = begin, count; s < end && !st; s += count) {
        count = end - s;
        if (!(st = pe_wave_run(&wave, all->seed + s, &count, &pace, err)) &&
            !(st = tell_steps(w, wave.deepest, &table, &pace, err)) &&
            !(st = pe_wave_look_up(&wave, count, table, size,
                                   (char *)t->data + (size_t)(w->j->first * w->o->columns + s) * size, w->o->columns, 1,
                                   &pace)))
            st = write_owners(all, &wave, s, count, &pace);
        if (begin == 0 && i == 0 && wave.narrow) { /* the first task finds out for the others, which run after it */
            all->narrow = true;
            all->first = count;
            break;
        }
    }
    free(table);
    pe_wave_fini(&wave);
    return st;
}

static posenc_status by_blocks(work *w, posenc_error *err)
{
    posenc_status st = PE_OK;
    int32_t *seed = malloc((size_t)(w->sets + 1) * sizeof *seed);
    singles all = { .w = w, .seed = seed, .each = PE_WAVE };
    if (!seed)
        return pe_no_memory("memory", err);
    for (int64_t s = 0; s < w->sets && !st; s++) {
        const int32_t *set;
        int64_t size;
        if (!(st = choose(w, s, &set, &size)))
            seed[s] = set[0];
    }
    if (!st && w->sets)
        st = one_block(&all, 0, err);
    all.first = all.narrow ? all.first : PE_WAVE;
    all.each = all.narrow ? PE_QUEUES : PE_WAVE;
    if (!st && all.first < w->sets)
        st = pe_parallel(w->j->ctx, (w->sets - all.first + all.each - 1) / all.each,
                         pe_wave_bytes(w->j->n, all.narrow ? PE_QUEUES : PE_WAVE), one_block, &all, err);
    free(seed);
    return st;
}

/* ---- any sets ---- */

static posenc_status by_sets(work *w, posenc_error *err)
{
    posenc_status st = pe_spread_init(&w->spread, &w->csr_to, w->lengths, err);
    for (int64_t s = 0; s < w->sets && !st; s++) {
        const int32_t *set = NULL;
        int64_t size = 0;
        if ((st = choose(w, s, &set, &size)) || (st = pe_spread_run(&w->spread, set, size, -1, &w->j->pace, err)) ||
            (st = write_column(w, s, &w->spread, err)))
            break;
        for (int64_t v = 0; v < w->j->n && w->near && !st; v++) {
            const double d = w->spread.dist[v];
            w->near[v] = v == set[0] ? -1 : d >= 0 && d < w->near[v] ? d : w->near[v];
            st = pe_pace_add(&w->j->pace, 2);
        }
    }
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    work w = { .p = j->request->params, .o = o, .j = j };
    posenc_status st = work_init(&w, err);
    const int mode = w.p->anchor_mode;
    const bool single = mode == RANDOM || mode == DEGREE || (mode == GIVEN && !given(w.p, "anchor_ptr"));
    for (int64_t s = w.sets; s < o->columns && j->n && !st; s++)
        st = write_column(&w, s, NULL, err);
    if (!st && j->n)
        st = single && !w.lengths ? by_blocks(&w, err) : by_sets(&w, err);
    j->zero_edges = w.csr.zero_edges;
    work_fini(&w);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const answer *o = self;
    posenc_status st = pe_spoil(o->encoding, j->first, j->n, &j->pace);
    return st ? st : pe_spoil(o->argmax, j->first, j->n, &j->pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    answer o = { .encoding = pe_tensor(out, "encoding"),
                 .argmax = pe_tensor(out, "argmax"),
                 .columns = pe_tensor(out, "argmax")->shape[1] };
    const pe_graph_task task = { .encode = encode, .spoil = spoil, .self = &o };
    return pe_each_graph(r, out, &task, ctx, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_anchor_distance = {
    .name = "anchor_distance",
    .family = "graph",
    .title = "Closeness to sets of anchors",
    .source = "You et al. 2019, Position-aware graph neural networks (P-GNN), arXiv:1906.04817",
    .formula =
        "encoding[v, j] = max over anchors a of set j of 1 / (1 + d(v, a)); argmax[v, j] = that a, the lowest of several\n"
        "dist: the min of d(v, a) instead; no anchor reached, or only beyond max_dist: unreachable",
    .example = "anchor_mode=farthest&num_anchors=3",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(anchor_distance, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
