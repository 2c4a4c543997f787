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
 *   - Edges have the numbers of the output `edges`, the client's list in normal form: sorted, an undirected edge once, lower
 *     end first. The order of the client's list shows nowhere.
 *
 * Way: steps by breadth-first search from 64 sources abreast, lengths by Dijkstra's algorithm. Predecessors are read off the
 * distances: u is one of v when the arc u -> v closes the gap between them; the path told is the one by the lowest of them.
 *
 * Sources: Ying et al. 2021, arXiv:2106.05234 (Graphormer: floyd_warshall, 510 for no path, later masks); GraphGPS
 * graphormer_pre_processing; gen_edge_input of Graphormer and path_data of DGL, the edges along a path; DGL shortest_dist;
 * P-GNN precompute_dist_data (You et al. 2019, arXiv:1906.04817). */
#include "core/lanes.h"
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
    int64_t root, max_predecessors, path_length;
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
    { PE_INT(shortest_path, path_length), .def = 0, .max = 65536,
      .doc = "edges of one shortest path that are told, the first ones from the source on (Graphormer: multi_hop_max_dist, "
             "5); 0: no paths" },
};

static const posenc_output outputs[] = {
    { "distances", "[num_nodes, num_nodes]; [num_nodes] of root; [num_nodes, roots]; [sum of n^2] of a batch",
      "from row to column; of roots: from the root, a column each. distance_dtype for steps, dtype for lengths and inverse",
      "distance_dtype or dtype" },
    { "offsets", "[G + 1], of a batch without roots",
      "the n x n matrix of graph g is distances[offsets[g] .. offsets[g + 1] - 1], row by row", "int64" },
    { "predecessors", "shape of distances, then max_predecessors; with return_paths",
      "nodes before the target on shortest paths, numbered within their graph; -1: no more", "int32" },
    { "path_edges", "shape of distances, then path_length; with path_length over 0",
      "rows of edges along one shortest path, from its source on; -1: no more", "int32" },
    { "edges", "[edges, 2], with path_length over 0",
      "the edges of all graphs by node ids of the whole batch: ascending, undirected ones once with the lower end first; of "
      "parallel ones paths name the first",
      "int32" },
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
    const double each = (double)posenc_dtype_size(dtype_of(r)) + (p->return_paths ? 4.0 * (double)p->max_predecessors : 0) +
                        4.0 * (double)p->path_length;
    const double bytes = (double)pair_count(p, r->graph) * each;
    if (!st && root_count(p) < 0 && bytes > 0x1p31)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph.num_nodes",
                         posenc_text("%lld nodes: %.0f bytes", (long long)r->graph->nodes, bytes).s,
                         "at most 2147483648 bytes for all pairs; else root, roots, a smaller distance_dtype, fewer "
                         "predecessors, a smaller path_length, or the encoding anchor_distance");
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const shortest_path *p = r->params;
    const posenc_graph *g = r->graph;
    const int64_t roots = root_count(p);
    const bool flat = roots < 0 && g->batched;
    int64_t all[] = { flat ? pair_count(p, g) : g->nodes, roots < 0 ? g->nodes : roots, 0 };
    const int rank = flat || given(p, "root") ? 1 : 2;
    posenc_status st = pe_output(out, "distances", dtype_of(r), rank, all, err);
    if (!st && flat)
        st = pe_output(out, "offsets", PE_int64, 1, (int64_t[]){ g->ngraphs + 1 }, err);
    all[rank] = p->max_predecessors;
    if (!st && p->return_paths)
        st = pe_output(out, "predecessors", PE_int32, rank + 1, all, err);
    all[rank] = p->path_length;
    if (!st && p->path_length)
        st = pe_output(out, "path_edges", PE_int32, rank + 1, all, err);
    if (!st && p->path_length)
        st = pe_output(out, "edges", PE_int32, 2, (int64_t[]){ g->arcs, 2 }, err);
    return st ? st : pe_status_output(r, out, err);
}

/* [ns] measured on molecules, grids and random graphs. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const shortest_path *p = r->params;
    const posenc_graph *g = r->graph;
    const bool lengths = pe_telling_lengths(&p->tell, g);
    const int64_t roots = root_count(p);
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t nodes = g->ptr[i + 1] - g->ptr[i], arcs = 2 * (g->arc_ptr[i + 1] - g->arc_ptr[i]);
        const double n = (double)nodes, m = (double)arcs, sources = roots < 0 ? n : (double)roots;
        const double search = lengths ? 60 * n + 15 * m : 6 * n + 3 * m;
        const double paths = p->return_paths ? 6 * n + 5 * m + 3 * n * (double)p->max_predecessors : 0;
        const double edges = p->path_length ? 20 * n + 4 * m + 0.5 * n * (double)p->path_length : 0;
        out->ns += 1500 + 60 * m + 30 * n + sources * (search + paths + edges + 4 * n) + (p->path_length ? 100 * m : 0);
        const uint64_t abreast = sources < PE_WAVE ? (uint64_t)sources : PE_WAVE;
        const uint64_t scratch = (uint64_t)arcs * 60 + (uint64_t)nodes * (160 + 8 * abreast) +
                                 pe_wave_bytes(nodes, (int64_t)sources) + pe_spread_bytes(nodes) + (uint64_t)(sources * 4) +
                                 4096 + (p->path_length ? 4 * (uint64_t)arcs + 12 * (uint64_t)nodes : 0);
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- one graph ---- */

typedef struct answer {
    posenc_tensor *distances, *predecessors; /* predecessors: NULL without return_paths */
    int32_t *path_edges;                     /* NULL without path_length */
    int64_t *offsets;                        /* NULL but for a batch of whole matrices */
    int64_t roots;                           /* -1: every node is one */
    int64_t equal;                           /* for a warning */
    uint64_t told[PE_PAIRS_NONE + 1];        /* what is told of so many steps: as many bytes as the dtype has */
    bool same[PE_PAIRS_NONE + 1];            /* it is what is told where there is no path */
    bool any_same;
    bool whole; /* the numbers told are steps, but for those that are beyond and for `unreachable` */
    uint8_t most, beyond;
    int64_t none;
} answer;

typedef struct work {
    const shortest_path *p;
    answer *o;
    pe_graph_job *j;
    pe_csr csr, into; /* into: row v holds the sources of arcs to v; only with paths */
    bool lengths, whole;
    pe_wave wave;
    pe_spread search;
    int64_t sources;
    int32_t *source; /* (sources) */
    double *row;     /* (n) distances from one source; not where steps alone are told, as: */
    void *table;     /* (told) what is told of -1, 0, 1, ... steps: elements */
    int64_t told;
    bool equals;                   /* the table has `unreachable` for a distance */
    int32_t *before;               /* (max_predecessors) scratch */
    int32_t *edge;                 /* (arcs) of `into` their rows of edges; with path_length, as: */
    int32_t *order, *hops, *start; /* (n + 1) nodes by ascending steps; edges of the path to them; scratch */
    double most;                   /* the largest number that the dtype holds */
} work;

static void work_fini(work *w)
{
    pe_csr_fini(&w->csr);
    pe_csr_fini(&w->into);
    pe_wave_fini(&w->wave);
    pe_spread_fini(&w->search);
    free(w->source);
    free(w->row);
    free(w->table);
    free(w->before);
    free(w->edge);
    free(w->order);
    free(w->hops);
    free(w->start);
}

/* The first arc of the normal form from u to v, ids of the batch, that has a weight; -1: none. */
static int64_t first_arc(const posenc_graph *g, int64_t graph, int64_t u, int64_t v)
{
    int64_t low = g->arc_ptr[graph], high = g->arc_ptr[graph + 1];
    const int64_t end = high;
    while (low < high) { /* the first that is not before the pair */
        const int64_t mid = low + (high - low) / 2;
        if (g->source[mid] < u || (g->source[mid] == u && g->target[mid] < v))
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < end && g->source[low] == u && g->target[low] == v; low++)
        if (!g->weight || g->weight[low] != 0)
            return low;
    return -1;
}

/* The edge that an entry of the matrix stands for; both directions are there only where their weights disagree. */
static int32_t edge_between(const posenc_graph *g, int64_t graph, int64_t u, int64_t v)
{
    const int64_t first = g->ptr[graph], low = u < v ? u : v, high = u < v ? v : u;
    if (g->directed)
        return (int32_t)first_arc(g, graph, first + u, first + v);
    const int64_t a = first_arc(g, graph, first + low, first + high);
    return (int32_t)(a >= 0 ? a : first_arc(g, graph, first + high, first + low));
}

static posenc_status name_edges(work *w, posenc_error *err)
{
    const size_t n = (size_t)w->j->n + 1;
    posenc_status st = PE_OK;
    w->edge = malloc((size_t)(w->into.arcs + 1) * sizeof *w->edge);
    w->order = malloc(n * sizeof *w->order);
    w->hops = malloc(n * sizeof *w->hops);
    w->start = malloc(n * sizeof *w->start);
    if (!w->edge || !w->order || !w->hops || !w->start)
        return pe_no_memory("memory", err);
    for (int64_t v = 0; v < w->j->n && !st; v++)
        for (int64_t a = w->into.ptr[v]; a < w->into.ptr[v + 1] && !st; a++) {
            w->edge[a] = edge_between(w->j->request->graph, w->j->graph, w->into.col[a], v);
            st = pe_pace_add(&w->j->pace, 100);
        }
    return st;
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
    w->whole = w->o->roots < 0;
    w->sources = w->whole ? n : w->o->roots;
    w->most = pe_distance_largest(w->o->distances->dtype);
    if ((st = pe_csr_build(g, w->j->graph, &options, &w->csr, w->j->ctx, err)))
        return st;
    if ((w->o->predecessors || w->o->path_edges) && (st = pe_csr_transpose(&w->csr, &w->into, w->j->ctx, err)))
        return st;
    if (w->o->path_edges && (st = name_edges(w, err)))
        return st;
    if (w->lengths && (st = pe_spread_init(&w->search, &w->csr, true, err)))
        return st;
    w->source = malloc((size_t)(w->sources + 1) * sizeof *w->source);
    w->row = malloc((size_t)(n + 1) * sizeof *w->row);
    w->before = malloc((size_t)w->p->max_predecessors * sizeof *w->before);
    if (!w->source || !w->row || !w->before)
        return pe_no_memory("memory", err);
    for (int64_t i = 0; i < n && w->whole && !st; i++) {
        w->source[i] = (int32_t)i;
        st = pe_pace_add(&w->j->pace, 1);
    }
    if (!st && !w->whole)
        st = take_roots(w->p, n, w->source, &w->j->pace, err);
    pe_wave_init(&w->wave, &w->csr, false);
    return st;
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

/* Whether there is a path to v that is told. */
static bool told_path(const work *w, int64_t v, const double *dist)
{
    return dist[v] >= 0 && !(w->p->tell.capped && w->p->tell.drop_beyond && dist[v] > w->p->tell.max_dist);
}

/* Whether arc a of `into`, to v, is the last of a shortest path: it closes the gap between the distances. */
static bool closes(const work *w, int64_t a, int64_t v, const double *dist)
{
    const int32_t u = w->into.col[a];
    const double arc = w->lengths && w->into.weight ? w->into.weight[a] : 1;
    /* settled before it: a weight may be too small to show in the sum */
    return dist[u] >= 0 && dist[u] + arc == dist[v] && (!w->lengths || w->search.place[u] < w->search.place[v]);
}

/* The nodes before v on shortest paths from source s (a number): those whose distance and arc make up v's. */
static posenc_status list_before(work *w, int64_t s, int64_t v, const double *dist)
{
    const pe_csr *c = &w->into;
    const int64_t most = w->p->max_predecessors;
    const bool told = told_path(w, v, dist);
    int64_t count = 0;
    posenc_status st = PE_OK;
    for (int64_t a = c->ptr[v]; a < c->ptr[v + 1] && told && count < most && v != w->source[s] && !st; a++) {
        if (closes(w, a, v, dist))
            w->before[count++] = c->col[a];
        st = pe_pace_add(&w->j->pace, 4);
    }
    while (count < most)
        w->before[count++] = -1;
    memcpy(element(w->o->predecessors, place_of(w, s, v) * most), w->before, (size_t)most * sizeof *w->before);
    return st ? st : pe_pace_add(&w->j->pace, 40 + 2 * most * (s || w->whole ? 1 : w->sources));
}

/* Nodes that are reached in an order that every shortest path keeps; their number in *count. */
static posenc_status in_order(work *w, const double *dist, const int32_t **order, int64_t *count)
{
    const int64_t n = w->j->n;
    int32_t *start = w->start;
    posenc_status st = PE_OK;
    *order = w->lengths ? w->search.order : w->order;
    *count = w->lengths ? w->search.reached : 0;
    if (w->lengths)
        return PE_OK;
    memset(start, 0, (size_t)(n + 1) * sizeof *start);
    for (int64_t v = 0; v < n && !st; v++) {
        if (dist[v] >= 0)
            start[(int64_t)dist[v] + 1]++;
        st = pe_pace_add(&w->j->pace, 3);
    }
    for (int64_t d = 0; d < n && !st; d++) {
        start[d + 1] += start[d];
        st = pe_pace_add(&w->j->pace, 1);
    }
    *count = start[n];
    for (int64_t v = 0; v < n && !st; v++) {
        if (dist[v] >= 0)
            w->order[start[(int64_t)dist[v]]++] = (int32_t)v;
        st = pe_pace_add(&w->j->pace, 4);
    }
    return st;
}

/* The edges of one path from source s to each node: those of the path to the node before it, and one more. */
static posenc_status list_edges(work *w, int64_t s, const double *dist)
{
    const int64_t n = w->j->n, length = w->p->path_length;
    const size_t row = (size_t)length * sizeof(int32_t);
    const int32_t *order;
    int64_t count;
    posenc_status st = in_order(w, dist, &order, &count);
    for (int64_t v = 0; v < n && !st; v++) {
        memset(w->o->path_edges + place_of(w, s, v) * length, 0xff, row);
        st = pe_pace_add(&w->j->pace, 4 + length / 2);
    }
    w->hops[w->source[s]] = 0;
    for (int64_t i = 0; i < count && !st; i++) {
        const int32_t v = order[i];
        if (v == w->source[s] || !told_path(w, v, dist))
            continue;
        int64_t a = w->into.ptr[v];
        while (!closes(w, a, v, dist)) /* one does: v is reached */
            a++;
        const int32_t u = w->into.col[a];
        int32_t *to = w->o->path_edges + place_of(w, s, v) * length;
        memcpy(to, w->o->path_edges + place_of(w, s, u) * length, row);
        if (w->hops[u] < length)
            to[w->hops[u]] = w->edge[a];
        w->hops[v] = w->hops[u] + 1;
        st = pe_pace_add(&w->j->pace, 8 * (a - w->into.ptr[v]) + 20 + length / 2);
    }
    return st;
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

/* One source, whose distances stand in w->row: predecessors, and the numbers in their places. */
static posenc_status tell_source(work *w, int64_t s, posenc_error *err)
{
    const int64_t n = w->j->n;
    const posenc_tensor *t = w->o->distances;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < n && w->o->predecessors && !st; v++)
        st = list_before(w, s, v, w->row);
    if (!st && w->o->path_edges)
        st = list_edges(w, s, w->row);
    if (!st)
        st = tell(w, w->row, n, err);
    for (int64_t v = 0; v < n && w->whole && !st; v += 4096) { /* a row of the matrix */
        const int64_t some = n - v < 4096 ? n - v : 4096;
        posenc_convert(t->dtype, element(t, place_of(w, s, v)), w->row + v, (size_t)some);
        st = pe_pace_add(&w->j->pace, 2 * some);
    }
    for (int64_t v = 0; v < n && !w->whole && !st; v++) { /* a column of the rows of nodes */
        posenc_convert(t->dtype, element(t, place_of(w, s, v)), w->row + v, 1);
        st = pe_pace_add(&w->j->pace, 40 + (s ? 0 : 4 * w->sources));
    }
    return st;
}

/* What is told of -1 .. most steps. *fits: the dtype holds all that was not told before. */
static posenc_status tell_table(work *w, int64_t most, bool *fits, posenc_error *err)
{
    enum { SOME = 1024 };
    const posenc_tensor *t = w->o->distances;
    const size_t size = posenc_dtype_size(t->dtype);
    posenc_status st = PE_OK;
    *fits = true;
    if (most + 2 <= w->told)
        return PE_OK;
    const int64_t room = most + 2 < w->j->n / 2 ? 2 * (most + 2) : w->j->n + 1; /* steps are fewer than nodes */
    void *table = realloc(w->table, (size_t)room * size);
    if (!table)
        return pe_no_memory("memory", err);
    w->table = table;
    while (w->told < most + 2 && *fits && !st) {
        double told[SOME];
        const int64_t some = most + 2 - w->told < SOME ? most + 2 - w->told : SOME;
        for (int64_t i = 0; i < some; i++) {
            const int64_t d = w->told + i - 1;
            told[i] = pe_tell(&w->p->tell, (double)d);
            *fits = *fits && told[i] <= w->most;
            w->equals = w->equals || (d >= 0 && told[i] == (double)w->p->tell.unreachable &&
                                      (!w->p->tell.capped || (double)d <= w->p->tell.max_dist));
        }
        posenc_convert(t->dtype, (char *)w->table + (size_t)w->told * size, told, (size_t)some);
        w->told += some;
        st = pe_pace_add(&w->j->pace, 8 * some);
    }
    return st;
}

/* *count sources from `first` on, one or more, which becomes how many were done. */
static posenc_status block(work *w, int64_t first, int64_t *count, posenc_error *err)
{
    const int64_t n = w->j->n;
    const posenc_tensor *t = w->o->distances;
    bool quick = !w->o->predecessors && !w->o->path_edges && !w->lengths, fits = true;
    posenc_status st;
    if (w->lengths) {
        *count = 1;
        st = pe_spread_run(&w->search, w->source + first, 1, -1, &w->j->pace, err);
    } else {
        st = pe_wave_run(&w->wave, w->source + first, count, &w->j->pace, err);
    }
    if (!st && quick)
        st = tell_table(w, w->wave.deepest, &fits, err);
    if (!st && quick && fits && !w->equals)
        return pe_wave_look_up(&w->wave, *count, w->table, posenc_dtype_size(t->dtype), element(t, place_of(w, first, 0)),
                               w->whole ? 1 : w->sources, w->whole ? n : 1, &w->j->pace);
    for (int64_t i = 0; i < *count && !st; i++) {
        for (int64_t v = 0; v < n && !st; v++) {
            w->row[v] = w->lengths ? w->search.dist[v] : pe_wave_steps(&w->wave, i, v);
            st = pe_pace_add(&w->j->pace, 1);
        }
        if (!st)
            st = tell_source(w, first + i, err);
    }
    return st;
}

/* ---- small graphs ---- */

static void tell_steps(const shortest_path *p, answer *o)
{
    double told[PE_PAIRS_NONE + 1];
    for (int d = 0; d <= PE_PAIRS_NONE; d++) {
        told[d] = pe_tell(&p->tell, d < PE_PAIRS_NONE ? d : -1);
        o->same[d] = d < PE_PAIRS_NONE && told[d] == (double)p->tell.unreachable &&
                     (!p->tell.capped || d <= p->tell.max_dist);
        o->any_same = o->any_same || o->same[d];
    }
    posenc_convert(o->distances->dtype, o->told, told, PE_LEN(told));
    o->whole = p->tell.transform == PE_DISTANCE_DIST && o->distances->dtype > PE_bfloat16;
    o->most = p->tell.capped && p->tell.max_dist < PE_PAIRS_NONE ? (uint8_t)p->tell.max_dist : PE_PAIRS_NONE;
    o->none = p->tell.unreachable;
    o->beyond = p->tell.drop_beyond ? PE_PAIRS_NONE : o->most;
}

/* Rows of n bytes become elements that are looked up. */
#define LOOK_UP(type)                   \
    for (int64_t u = 0; u < n; u++)     \
        for (int64_t v = 0; v < n; v++) \
    ((type *)to)[u * n + v] = ((const type *)told)[steps[u * width + v]]

static void look_up(const answer *o, const uint8_t *steps, int64_t n, void *to)
{
    const int64_t width = pe_pairs_width(n);
    const void *told = o->told;
    switch (posenc_dtype_size(o->distances->dtype)) {
    case 1: LOOK_UP(uint8_t); break;
    case 2: LOOK_UP(uint16_t); break;
    case 4: LOOK_UP(uint32_t); break;
    default: LOOK_UP(uint64_t); break;
    }
}

/* The same where they are steps, many at once. What a row writes past its end the next one overwrites, as long as there is
 * room for that. */
#define WIDEN(kind, lanes)                                                                 \
    {                                                                                      \
        typedef uint8_t bytes __attribute__((vector_size(lanes)));                         \
        typedef kind##_t numbers __attribute__((vector_size(lanes * sizeof(kind##_t))));   \
        kind##_t *row = to;                                                                \
        for (int64_t u = 0; u < n; u++, row += n)                                          \
            for (int64_t k = 0; k < n; k += lanes) {                                       \
                bytes x;                                                                   \
                memcpy(&x, steps + u * width + k, sizeof x);                               \
                const bytes over = (bytes)(x > most) & (bytes)(x != PE_PAIRS_NONE);        \
                x = (x & ~over) | (over & beyond);                                         \
                numbers told = __builtin_convertvector(x, numbers);                        \
                const numbers gone = (numbers)(told == PE_PAIRS_NONE);                     \
                told = (told & ~gone) | (gone & (kind##_t)none);                           \
                if (__builtin_expect((u + 1) * n + lanes <= n * n || k + lanes <= n, 1)) { \
                    memcpy(row + k, &told, sizeof told);                                   \
                    continue;                                                              \
                }                                                                          \
                kind##_t last[lanes];                                                      \
                memcpy(last, &told, sizeof last);                                          \
                memcpy(row + k, last, (size_t)(n - k) * sizeof last[0]);                   \
            }                                                                              \
    }

PE_BODY void widen_steps_body(const answer *o, const uint8_t *steps, int64_t n, void *to)
{
    const int64_t width = pe_pairs_width(n), none = o->none;
    const uint8_t most = o->most, beyond = o->beyond;
    switch (o->distances->dtype) {
    case PE_uint8: WIDEN(uint8, 32) break;
    case PE_int16: WIDEN(int16, 16) break;
    case PE_int32: WIDEN(int32, 16) break;
    default: WIDEN(int64, 8) break;
    }
}

PE_KERNEL(widen_steps, widen_steps_body, (const answer *o, const uint8_t *steps, int64_t n, void *to), (o, steps, n, to))

static posenc_status in_bytes(pe_graph_job *j, answer *o, const pe_lower *lower, void *to)
{
    const int64_t n = j->n, width = pe_pairs_width(n);
    _Alignas(64) uint8_t steps[PE_PAIRS * 128];
    pe_pairs(lower, n, steps);
    if (o->whole)
        widen_steps_paths[pe_simd()](o, steps, n, to);
    else
        look_up(o, steps, n, to);
    for (int64_t u = 0; u < n && o->any_same; u++)
        for (int64_t v = 0; v < n; v++)
            o->equal += o->same[steps[u * width + v]];
    return pe_pace_add(&j->pace, n * n * (2 + width / 32));
}

/* A row at a time becomes float64 and then what is told. */
static posenc_status in_words(pe_graph_job *j, answer *o, const pe_lower *lower, char *to, posenc_error *err)
{
    const pe_telling *tell = &((const shortest_path *)j->request->params)->tell;
    const int64_t n = j->n, width = pe_pairs_width(n);
    const size_t size = posenc_dtype_size(o->distances->dtype);
    double told[PE_WIDE_PAIRS + 1], row[PE_WIDE_PAIRS]; /* told[n]: no path */
    uint16_t *steps = aligned_alloc(64, (size_t)(n * width) * sizeof *steps);
    if (!steps)
        return pe_no_memory("memory", err);
    for (int64_t d = 0; d <= n; d++)
        told[d] = pe_tell(tell, d < n ? (double)d : -1);
    posenc_status st = pe_wide_pairs(lower, n, steps, &j->pace);
    for (int64_t u = 0; u < n && !st; u++) {
        for (int64_t v = 0; v < n; v++) {
            const int64_t d = steps[u * width + v];
            row[v] = told[d < n ? d : n];
            o->equal += d < n && row[v] == (double)tell->unreachable && (!tell->capped || (double)d <= tell->max_dist);
        }
        posenc_convert(o->distances->dtype, to + (size_t)(u * n) * size, row, (size_t)n);
        st = pe_pace_add(&j->pace, 3 * n);
    }
    free(steps);
    return st;
}

/* The whole matrix of a small graph without weights, if it is one and all its distances are sure to fit. */
static bool small(pe_graph_job *j, answer *o, posenc_status *st, posenc_error *err)
{
    const posenc_graph *g = j->request->graph;
    const shortest_path *p = j->request->params;
    const posenc_tensor *t = o->distances;
    const int64_t begin = g->arc_ptr[j->graph], arcs = g->arc_ptr[j->graph + 1] - begin;
    const int32_t *source = g->source + begin, *target = g->target + begin;
    if (j->n > PE_WIDE_PAIRS || arcs > PE_LOWER_ARCS || g->directed || g->conflict[j->graph] >= 0 || o->roots >= 0 ||
        o->predecessors || o->path_edges || (j->n > PE_PAIRS && pe_distance_largest(t->dtype) < (double)(j->n - 1)))
        return false;
    for (int64_t a = 0; g->weight && a < arcs; a++)
        if (g->weight[begin + a] != 1)
            return false;
    for (int64_t a = 1; p->edges.duplicate_edges == PE_DUPLICATES_ERROR && a < arcs; a++)
        if (source[a] == source[a - 1] && target[a] == target[a - 1])
            return false;
    pe_lower lower;
    pe_lower_list(&lower, source, target, arcs, (int32_t)j->first, j->n);
    void *to = element(t, o->offsets ? o->offsets[j->graph] : 0);
    *st = j->n > PE_PAIRS ? in_words(j, o, &lower, to, err) : in_bytes(j, o, &lower, to);
    return true;
}

static void say_progress(const work *w, int64_t done)
{
    const posenc_context *ctx = w->j->ctx;
    char sentence[64];
    if (!ctx || !ctx->progress)
        return;
    snprintf(sentence, sizeof sentence, "%lld of %lld sources", (long long)done, (long long)w->sources);
    ctx->progress(ctx->user, (double)done / (double)w->sources, sentence);
}

static posenc_status by_sources(pe_graph_job *j, answer *o, posenc_error *err)
{
    work w = { .p = j->request->params, .o = o, .j = j };
    const int64_t equal = o->equal;
    posenc_status st = work_init(&w, err);
    for (int64_t first = 0, count; first < w.sources && j->n && !st; first += count) {
        count = w.sources - first;
        st = block(&w, first, &count, err);
        if (first % PE_QUEUES == 0)
            say_progress(&w, first);
    }
    if (!st && w.lengths && w.whole && !j->request->graph->directed)
        st = mirror(&w);
    j->zero_edges = w.csr.zero_edges;
    if (st) /* nothing of a graph without numbers is counted */
        o->equal = equal;
    work_fini(&w);
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    posenc_status st;
    return small(j, self, &st, err) ? st : by_sources(j, self, err);
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const answer *o = self;
    const int64_t first = o->offsets ? o->offsets[j->graph] : j->first, n = o->offsets ? j->n * j->n : j->n;
    posenc_status st = pe_spoil(o->distances, first, n, &j->pace);
    if (!st && o->path_edges)
        st = pe_spoil(pe_tensor(j->out, "path_edges"), first, n, &j->pace);
    return st || !o->predecessors ? st : pe_spoil(o->predecessors, first, n, &j->pace);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    (void)err;
    ((answer *)copy)->equal = 0;
    tell_steps(c->request->params, copy);
    return PE_OK;
}

static void end(void *copy, void *self) { ((answer *)self)->equal += ((answer *)copy)->equal; }

static posenc_status write_edges(const posenc_graph *g, int32_t *to, posenc_context *ctx)
{
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    posenc_status st = PE_OK;
    for (int64_t a = 0; a < g->arcs && !st; a++) {
        to[2 * a] = g->source[a];
        to[2 * a + 1] = g->target[a];
        st = pe_pace_add(&pace, 4);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const shortest_path *p = r->params;
    const posenc_graph *g = r->graph;
    const int64_t roots = root_count(p);
    const bool flat = roots < 0 && g->batched;
    answer o = { .distances = pe_tensor(out, "distances"),
                 .predecessors = p->return_paths ? pe_tensor(out, "predecessors") : NULL,
                 .path_edges = p->path_length ? pe_tensor(out, "path_edges")->data : NULL,
                 .roots = roots,
                 .offsets = flat ? pe_tensor(out, "offsets")->data : NULL };
    if (flat)
        pe_square_offsets(g, o.offsets);
    const pe_graph_task task = {
        .encode = encode, .spoil = spoil, .self = &o, .size = sizeof o, .begin = begin, .end = end
    };
    posenc_status st = p->path_length ? write_edges(g, pe_tensor(out, "edges")->data, ctx) : PE_OK;
    if (!st)
        st = pe_each_graph(r, out, &task, ctx, err);
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
