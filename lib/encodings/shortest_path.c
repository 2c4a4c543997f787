/* shortest_path.c - distances between all nodes of a graph, or from chosen roots.
 *
 *     d(u, v) = the least number of edges on a path from u to v; with edge weights the least sum of weights
 *
 * and what is told of it: d, or 1 / (1 + d); at most max_dist; `unreachable` where there is no path.
 *
 * Defined here, as users will ask:
 *   - A directed graph is followed along its arcs: row u holds the distances from u. A graph sent with directed=false has
 *     d(u, v) = d(v, u), to the bit: with weights, sums run from the lower id to the higher.
 *   - Steps are told in distance_dtype, lengths and inverse distances in dtype.
 *   - A batch holds the matrix of each graph after the other, flattened, with `offsets`: never the square of the batch.
 *   - An edge of weight 0 is no edge, as everywhere here; a warning counts them.
 *   - A distance that distance_dtype does not hold is refused, never cut off.
 *
 * Way: steps by breadth-first search from 64 sources abreast, lengths by Dijkstra's algorithm. Predecessors are read off the
 * distances: u is one of v when the arc u -> v closes the gap between them.
 *
 * Sources: Ying et al. 2021, arXiv:2106.05234 (Graphormer: floyd_warshall, 510 for no path, later masks); GraphGPS
 * graphormer_pre_processing; DGL shortest_dist; P-GNN precompute_dist_data (You et al. 2019, arXiv:1906.04817). */
#include "graph/batch.h"
#include "graph/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_shortest_path;

/* ---- rows ---- */

static const char *const dtype_words[] = { "uint8", "int16", "int32", "int64", NULL };
static const posenc_dtype dtypes[] = { PE_uint8, PE_int16, PE_int32, PE_int64 };
enum { DTYPE_INT32 = 2 };

typedef struct shortest_path {
    posenc_given given;
    pe_telling tell;
    int64_t root, max_predecessors;
    posenc_reals roots;
    int distance_dtype;
    bool return_paths;
    pe_csr_options edges;
} shortest_path;

static const posenc_param rows[] = {
    PE_TELLING_ROWS(shortest_path, tell, PE_DISTANCE_DIST, 0),
    { PE_INT(shortest_path, root), .flags = PE_OPTIONAL, .max = 0x1p31,
      .doc = "distances from this node only, [num_nodes]; in a batch from the node of this number in each graph (DGL)" },
    { PE_REALS(shortest_path, roots), .flags = PE_OPTIONAL, .max = 0x1p31,
      .doc = "distances from these nodes only, [num_nodes, roots]; numbers as in root" },
    { PE_ENUM(shortest_path, distance_dtype), .names = dtype_words, .def = DTYPE_INT32,
      .doc = "of distances that are steps; a graph with a longer distance than it holds is refused" },
    { PE_BOOL(shortest_path, return_paths), .def = 0,
      .doc = "also the nodes that come just before v on shortest paths from u: from them paths are read backwards" },
    { PE_INT(shortest_path, max_predecessors), .def = 1, .min = 1, .max = 4096,
      .doc = "how many of them: the lowest ids, ascending; 1 gives one shortest path, the largest degree gives all" },
    PE_ARC_ROWS(shortest_path, edges, PE_LOOPS_DROP),
};

static const posenc_output outputs[] = {
    { "distances", "[num_nodes, num_nodes]; [num_nodes] of root; [num_nodes, roots]; [sum of n^2] of a batch",
      "from row to column; of roots: from the root, a column each. distance_dtype for steps, dtype for lengths and inverse",
      "distance_dtype or dtype" },
    { "offsets", "[G + 1], of a batch without roots",
      "the n x n matrix of graph g is distances[offsets[g] .. offsets[g + 1] - 1], row by row", "int64" },
    { "predecessors", "shape of distances, then max_predecessors; with return_paths",
      "nodes before the target on shortest paths, numbered within their graph; -1: no more", "int32" },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static bool given(const shortest_path *p, const char *name)
{
    return posenc_was_given(&pe_shortest_path.table, posenc_row(&pe_shortest_path.table, name), p);
}

/* How many roots there are; -1: every node is one. */
static int64_t root_count(const shortest_path *p)
{
    return given(p, "root") ? 1 : given(p, "roots") ? (int64_t)p->roots.n : -1;
}

static bool in_steps(const shortest_path *p, const posenc_graph *g)
{
    return p->tell.transform == PE_DISTANCE_DIST && !pe_telling_lengths(&p->tell, g);
}

static posenc_dtype dtype_of(const posenc_request *r)
{
    const shortest_path *p = r->params;
    return in_steps(p, r->graph) ? dtypes[p->distance_dtype] : (posenc_dtype)r->common.dtype;
}

/* Entries of `distances`. */
static int64_t pair_count(const shortest_path *p, const posenc_graph *g)
{
    const int64_t roots = root_count(p);
    int64_t pairs = 0;
    if (roots >= 0) /* at most 2^31 nodes; too many roots are refused where the output is made */
        return posenc_mul_size(g->nodes, roots, &pairs) ? pairs : INT64_MAX;
    for (int64_t i = 0; i < g->ngraphs; i++)
        pairs += (g->ptr[i + 1] - g->ptr[i]) * (g->ptr[i + 1] - g->ptr[i]);
    return pairs;
}

static posenc_status bad_root(const char *field, double root, int64_t n, posenc_error *err)
{
    if (!n)
        return pe_invalid(err, field, posenc_text("%.17g", root), "no root: the graph has no nodes");
    return pe_invalid(err, field, posenc_text("%.17g", root), "a node: a whole number in 0 .. %lld", (long long)n - 1);
}

/* The roots of one graph of n nodes into `out` (root_count), NULL: they are only checked. */
static posenc_status take_roots(const shortest_path *p, int64_t n, int32_t *out, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    if (given(p, "root")) {
        if (p->root >= n)
            return bad_root("root", (double)p->root, n, err);
        if (out)
            out[0] = (int32_t)p->root;
        return PE_OK;
    }
    for (size_t i = 0; i < p->roots.n && !st; i++) {
        const double v = p->roots.v[i];
        if (v >= (double)n || v != (double)(int64_t)v)
            return bad_root(posenc_text("roots[%zu]", i).s, v, n, err);
        if (out)
            out[i] = (int32_t)v;
        st = pace ? pe_pace_add(pace, 4) : PE_OK;
    }
    return st;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    shortest_path *p = r->params;
    posenc_status st = pe_telling_check(r, &p->tell, dtype_of(r), err);
    if (given(p, "root") && given(p, "roots"))
        st = pe_invalid(err, "roots", posenc_text("%zu nodes", p->roots.n), "root or roots, not both");
    else if (root_count(p) >= 0 && !r->graph->batched && take_roots(p, r->graph->nodes, NULL, NULL, err))
        st = PE_INVALID;
    if (given(p, "distance_dtype") && p->distance_dtype != DTYPE_INT32 && !in_steps(p, r->graph))
        st = pe_not_applicable(err, "distance_dtype", dtype_words[p->distance_dtype],
                               "with transform=dist and steps: lengths and inverse distances are in dtype");
    if (given(p, "max_predecessors") && p->max_predecessors != 1 && !p->return_paths)
        st = pe_not_applicable(err, "max_predecessors", posenc_text("%lld", (long long)p->max_predecessors).s,
                               "with return_paths=true");
    const double each = (double)posenc_dtype_size(dtype_of(r)) + (p->return_paths ? 4.0 * (double)p->max_predecessors : 0);
    const double bytes = (double)pair_count(p, r->graph) * each;
    if (!st && root_count(p) < 0 && bytes > 0x1p31)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph.num_nodes",
                         posenc_text("%lld nodes: %.0f bytes", (long long)r->graph->nodes, bytes).s,
                         "at most 2147483648 bytes for all pairs; else root, roots, a smaller distance_dtype, fewer "
                         "predecessors, or the encoding anchor_distance");
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const shortest_path *p = r->params;
    const posenc_graph *g = r->graph;
    const int64_t roots = root_count(p), last = p->max_predecessors;
    const bool flat = roots < 0 && g->batched;
    const int64_t all[] = { flat ? pair_count(p, g) : g->nodes, roots < 0 ? g->nodes : roots, last },
                  short_of[] = { all[0], last };
    const int rank = flat || given(p, "root") ? 1 : 2;
    posenc_status st = pe_output(out, "distances", dtype_of(r), rank, all, err);
    if (!st && flat)
        st = pe_output(out, "offsets", PE_int64, 1, (int64_t[]){ g->ngraphs + 1 }, err);
    if (!st && p->return_paths)
        st = pe_output(out, "predecessors", PE_int32, rank + 1, rank == 1 ? short_of : all, err);
    return st ? st : pe_status_output(r, out, err);
}

/* [ns] measured on molecules, grids and random graphs. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const shortest_path *p = r->params;
    const posenc_graph *g = r->graph;
    const bool lengths = pe_telling_lengths(&p->tell, g);
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t nodes = g->ptr[i + 1] - g->ptr[i], arcs = 2 * (g->arc_ptr[i + 1] - g->arc_ptr[i]);
        const double n = (double)nodes, m = (double)arcs, sources = root_count(p) < 0 ? n : (double)root_count(p);
        const double search = lengths ? 60 * n + 15 * m : 6 * n + 3 * m;
        const double paths = p->return_paths ? 6 * n + 5 * m + 3 * n * (double)p->max_predecessors : 0;
        out->ns += 1500 + 60 * m + 30 * n + sources * (search + paths + 4 * n);
        const uint64_t abreast = sources < PE_WAVE ? (uint64_t)sources : PE_WAVE;
        const uint64_t scratch = (uint64_t)arcs * 60 + (uint64_t)nodes * (160 + 8 * abreast) + pe_wave_bytes(nodes) +
                                 pe_spread_bytes(nodes) + (uint64_t)(sources * 4) + 4096;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- one graph ---- */

typedef struct answer {
    posenc_tensor *distances, *predecessors; /* predecessors: NULL without return_paths */
    int64_t *offsets;                        /* NULL but for a batch of whole matrices */
    int64_t equal;                           /* for a warning */
} answer;

typedef struct work {
    const shortest_path *p;
    answer *o;
    pe_graph_job *j;
    pe_csr csr, into; /* into: row v holds the sources of arcs to v; only with return_paths */
    bool lengths, whole;
    pe_wave wave;
    pe_spread search;
    int64_t sources;
    int32_t *source; /* (sources) */
    int32_t *steps;  /* (64, n), or one row where lengths are asked for: NULL */
    double *row;     /* (64, n) distances of a block of sources */
    int32_t *before; /* (max_predecessors) scratch */
    double most;     /* the largest number that the dtype holds */
} work;

static void work_fini(work *w)
{
    pe_csr_fini(&w->csr);
    pe_csr_fini(&w->into);
    pe_wave_fini(&w->wave);
    pe_spread_fini(&w->search);
    free(w->source);
    free(w->steps);
    free(w->row);
    free(w->before);
}

static posenc_status work_init(work *w, posenc_error *err)
{
    const posenc_graph *g = w->j->request->graph;
    const int64_t n = w->j->n;
    posenc_status st;
    pe_csr_options options = pe_telling_options(&w->p->tell, &w->p->edges);
    options.directed = true;
    if ((st = pe_telling_lengths_in(&w->p->tell, g, w->j->graph, &w->lengths, &w->j->pace)))
        return st;
    w->whole = root_count(w->p) < 0;
    w->sources = w->whole ? n : root_count(w->p);
    w->most = pe_distance_largest(w->o->distances->dtype);
    if ((st = pe_csr_build(g, w->j->graph, &options, &w->csr, w->j->ctx, err)))
        return st;
    if (w->o->predecessors && (st = pe_csr_transpose(&w->csr, &w->into, w->j->ctx, err)))
        return st;
    if ((st = w->lengths ? pe_spread_init(&w->search, &w->csr, true, err) : pe_wave_init(&w->wave, &w->csr, err)))
        return st;
    const int64_t abreast = w->sources < PE_WAVE ? w->sources : PE_WAVE;
    const size_t block = (size_t)(abreast * n) + 1;
    w->source = malloc((size_t)(w->sources + 1) * sizeof *w->source);
    w->steps = w->lengths ? NULL : malloc(block * sizeof *w->steps);
    w->row = malloc(block * sizeof *w->row);
    w->before = malloc((size_t)w->p->max_predecessors * sizeof *w->before);
    if (!w->source || (!w->lengths && !w->steps) || !w->row || !w->before)
        return pe_no_memory("memory", err);
    for (int64_t i = 0; i < n && w->whole && !st; i++) {
        w->source[i] = (int32_t)i;
        st = pe_pace_add(&w->j->pace, 1);
    }
    return w->whole ? st : take_roots(w->p, n, w->source, &w->j->pace, err);
}

/* The place of the pair (source s, node v) among all that are told. */
static int64_t place_of(const work *w, int64_t s, int64_t v)
{
    const int64_t n = w->j->n;
    if (w->whole)
        return (w->o->offsets ? w->o->offsets[w->j->graph] : 0) + s * n + v;
    return (w->j->first + v) * w->sources + s;
}

static char *element(const posenc_tensor *t, int64_t i) { return (char *)t->data + (size_t)i * posenc_dtype_size(t->dtype); }

/* Distances become what is told of them, in place. */
static posenc_status tell(work *w, double *row, int64_t n, posenc_error *err)
{
    const shortest_path *p = w->p;
    const posenc_tensor *t = w->o->distances;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < n && !st; v++) {
        const double d = row[v], told = pe_tell(&p->tell, d);
        row[v] = told;
        if (told > w->most && t->dtype <= PE_bfloat16)
            return pe_invalid(err, "dtype", posenc_text("%s", posenc_dtype_name(t->dtype)),
                              "a type that holds the length %.3g; or max_dist", d);
        if (told > w->most)
            return pe_invalid(err, "distance_dtype", posenc_text("%s", posenc_dtype_name(t->dtype)),
                              "a type that holds the distance %.0f; or max_dist", d);
        w->o->equal += d >= 0 && told == (double)p->tell.unreachable && (!p->tell.capped || d <= p->tell.max_dist);
        st = pe_pace_add(&w->j->pace, 3);
    }
    return st;
}

/* The nodes before v on shortest paths from source s (a number): those whose distance and arc make up v's. */
static posenc_status list_before(work *w, int64_t s, int64_t v, const double *dist)
{
    const pe_csr *c = &w->into;
    const int64_t most = w->p->max_predecessors;
    const bool told = dist[v] >= 0 && !(w->p->tell.capped && w->p->tell.drop_beyond && dist[v] > w->p->tell.max_dist);
    int64_t count = 0;
    posenc_status st = PE_OK;
    for (int64_t a = c->ptr[v]; a < c->ptr[v + 1] && told && count < most && v != w->source[s] && !st; a++) {
        const int32_t u = c->col[a];
        const double arc = w->lengths && c->weight ? c->weight[a] : 1;
        /* settled before it: a weight may be too small to show in the sum */
        if (dist[u] >= 0 && dist[u] + arc == dist[v] && (!w->lengths || w->search.place[u] < w->search.place[v]))
            w->before[count++] = u;
        st = pe_pace_add(&w->j->pace, 4);
    }
    while (count < most)
        w->before[count++] = -1;
    memcpy(element(w->o->predecessors, place_of(w, s, v) * most), w->before, (size_t)most * sizeof *w->before);
    return st ? st : pe_pace_add(&w->j->pace, 40 + 2 * most * (s || w->whole ? 1 : w->sources));
}

/* A matrix of lengths between nodes without direction: what lies left of the diagonal is copied from above it, so that both
 * have the same bits. */
static posenc_status mirror(work *w)
{
    const posenc_tensor *t = w->o->distances;
    const size_t size = posenc_dtype_size(t->dtype);
    const int64_t n = w->j->n;
    posenc_status st = PE_OK;
    for (int64_t u = 0; u < n && !st; u++)
        for (int64_t v = 0; v < u && !st; v++) {
            memcpy(element(t, place_of(w, u, v)), element(t, place_of(w, v, u)), size);
            st = pe_pace_add(&w->j->pace, 6);
        }
    return st;
}

/* Sources first .. first + count - 1: search, predecessors, and the numbers in their places. */
static posenc_status block(work *w, int64_t first, int count, posenc_error *err)
{
    const int64_t n = w->j->n;
    const posenc_tensor *t = w->o->distances;
    posenc_status st = PE_OK;
    if (!w->lengths && (st = pe_wave_run(&w->wave, w->source + first, count, w->steps, &w->j->pace)))
        return st;
    for (int i = 0; i < count && !st; i++) {
        double *row = w->row + i * n;
        if (w->lengths && (st = pe_spread_run(&w->search, w->source + first + i, 1, -1, &w->j->pace, err)))
            return st;
        for (int64_t v = 0; v < n && !st; v++) {
            row[v] = w->lengths ? w->search.dist[v] : w->steps[i * n + v];
            st = pe_pace_add(&w->j->pace, 1);
        }
        for (int64_t v = 0; v < n && w->o->predecessors && !st; v++)
            st = list_before(w, first + i, v, row);
        if (!st)
            st = tell(w, row, n, err);
        for (int64_t v = 0; v < n && w->whole && !st; v += 4096) { /* a row of the matrix */
            const int64_t some = n - v < 4096 ? n - v : 4096;
            posenc_convert(t->dtype, element(t, place_of(w, first + i, v)), row + v, (size_t)some);
            st = pe_pace_add(&w->j->pace, 2 * some);
        }
    }
    for (int64_t v = 0; v < n && !w->whole && !st; v++) { /* `count` columns of the rows of nodes */
        double told[PE_WAVE];
        for (int i = 0; i < count; i++)
            told[i] = w->row[i * n + v];
        posenc_convert(t->dtype, element(t, place_of(w, first, v)), told, (size_t)count);
        st = pe_pace_add(&w->j->pace, 40 + 4 * (first ? count : w->sources));
    }
    return st;
}

static void say_progress(const work *w, int64_t done)
{
    const posenc_context *ctx = w->j->ctx;
    char sentence[64];
    if (!ctx || !ctx->progress || w->j->request->graph->batched)
        return;
    snprintf(sentence, sizeof sentence, "%lld of %lld sources", (long long)done, (long long)w->sources);
    ctx->progress(ctx->user, (double)done / (double)w->sources, sentence);
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    work w = { .p = j->request->params, .o = o, .j = j };
    const answer before = *o;
    posenc_status st = work_init(&w, err);
    for (int64_t first = 0; first < w.sources && !st; first += PE_WAVE) {
        const int64_t left = w.sources - first;
        st = block(&w, first, (int)(left < PE_WAVE ? left : PE_WAVE), err);
        say_progress(&w, first);
    }
    if (!st && w.lengths && w.whole && !j->request->graph->directed)
        st = mirror(&w);
    j->zero_edges = w.csr.zero_edges;
    if (st) /* nothing of a graph without numbers is counted */
        *o = before;
    work_fini(&w);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const answer *o = self;
    const int64_t first = o->offsets ? o->offsets[j->graph] : j->first, n = o->offsets ? j->n * j->n : j->n;
    posenc_status st = pe_spoil(o->distances, first, n, &j->pace);
    return st || !o->predecessors ? st : pe_spoil(o->predecessors, first, n, &j->pace);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    (void)c, (void)err;
    ((answer *)copy)->equal = 0;
    return PE_OK;
}

static void end(void *copy, void *self) { ((answer *)self)->equal += ((answer *)copy)->equal; }

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const shortest_path *p = r->params;
    const posenc_graph *g = r->graph;
    const bool flat = root_count(p) < 0 && g->batched;
    answer o = { .distances = pe_tensor(out, "distances"),
                 .predecessors = p->return_paths ? pe_tensor(out, "predecessors") : NULL,
                 .offsets = flat ? pe_tensor(out, "offsets")->data : NULL };
    if (flat)
        pe_square_offsets(g, o.offsets);
    const pe_graph_task task = {
        .encode = encode, .spoil = spoil, .self = &o, .size = sizeof o, .begin = begin, .end = end
    };
    const posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    if (!st && o.equal)
        pe_warn(out, "%lld distance%s equal to unreachable = %lld cannot be told from it", (long long)o.equal,
                o.equal == 1 ? "" : "s", (long long)p->tell.unreachable);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_shortest_path = {
    .name = "shortest_path",
    .family = "graph",
    .title = "Shortest-path distances",
    .source = "Ying et al. 2021, Graphormer, arXiv:2106.05234; GraphGPS, DGL shortest_dist, P-GNN, networkx",
    .formula =
        "d(u, v) = least number of edges, or least sum of weights, on a path from u to v\n"
        "dist: min(d, max_dist); inverse: 1 / (1 + min(d, max_dist)); no path, or drop_beyond and d > max_dist: unreachable",
    .example = "max_dist=5&unreachable=6",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(shortest_path, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
