/* degree.c - degrees and degree centrality.
 *
 *     out[u] = number of arcs u -> v        in[u] = number of arcs v -> u          of an undirected graph both are the
 * degree degree[u] = in, out, or their sum; of an undirected graph the degree itself, whatever `mode` says
 *
 * Defined here, as peers differ:
 *   - A self-loop of an undirected graph adds 1 (PyG, DGL, Graphormer), with loops_twice 2 to `degree` (networkx). Of a
 *     directed graph it is one arc out and one arc in.
 *   - normalized divides by n - 1; the only node of a graph has 1, as in networkx.
 *   - Graphormer feeds in_degree twice; its undirected graphs have no other.
 *
 * Sources: networkx degree_centrality; Graphormer (Ying et al. 2021, arXiv:2106.05234) centrality encoding; PyG
 * utils.degree, DGL in_degrees. */
#include "graph/batch.h"
#include "graph/counts.h"

#include <stdlib.h>

extern const posenc_encoding pe_degree;

/* ---- rows ---- */

enum { TOTAL, IN, OUT };
enum { CLAMP, REFUSE };

static const char *const modes[] = { "total", "in", "out", NULL };
static const char *const exceedings[] = { "clamp", "error", NULL };

typedef struct degree {
    posenc_given given;
    int mode, exceeding;
    bool normalized, weighted, loops_twice;
    int64_t max_degree;
    pe_csr_options edges;
} degree;

static const posenc_param rows[] = {
    { PE_ENUM(degree, mode), .names = modes, .def = TOTAL,
      .doc = "arcs that count for the output degree of a directed graph; total is in + out" },
    { PE_BOOL(degree, normalized), .doc = "degree / (n - 1), degree centrality; 1 in a graph of one node" },
    { PE_BOOL(degree, weighted), .doc = "the output degree sums weights; in_degree and out_degree count arcs always" },
    { PE_BOOL(degree, loops_twice),
      .doc = "a self-loop of an undirected graph adds 2 to the output degree (networkx), not 1 (PyG, DGL, Graphormer)" },
    { PE_INT(degree, max_degree), .flags = PE_OPTIONAL, .min = 0, .max = 2147483647,
      .doc = "largest degree of an embedding table (Graphormer: 511); without it any degree is right" },
    { PE_ENUM(degree, exceeding), .names = exceedings, .def = CLAMP,
      .doc = "a degree over max_degree becomes max_degree, or is refused (GraphGPS)" },
    PE_ARC_ROWS(degree, edges, PE_LOOPS_KEEP),
};

static const posenc_output outputs[] = {
    { "degree", "[num_nodes]", "as mode, weighted and normalized say", NULL },
    { "in_degree", "[num_nodes]", "arcs to the node", "int64" },
    { "out_degree", "[num_nodes]", "arcs from the node", "int64" },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const degree *p = r->params;
    if (p->exceeding != CLAMP && !pe_given(r, "max_degree"))
        return pe_not_applicable(err, "exceeding", exceedings[p->exceeding], "exceeding goes with max_degree");
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const int64_t n = r->graph->nodes;
    posenc_status st = pe_output(out, "degree", (posenc_dtype)r->common.dtype, 1, &n, err);
    if (!st)
        st = pe_output(out, "in_degree", PE_int64, 1, &n, err);
    if (!st)
        st = pe_output(out, "out_degree", PE_int64, 1, &n, err);
    return st ? st : pe_status_output(r, out, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const degree *p = r->params;
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t n = g->ptr[i + 1] - g->ptr[i], m = g->arc_ptr[i + 1] - g->arc_ptr[i];
        /* the transpose of counts is made when what building takes is free again; weights are built beside both */
        const uint64_t both = 20 * (uint64_t)n + (g->directed ? 12 : 24) * (uint64_t)m;
        const uint64_t scratch = pe_count_bytes(n, m) + (p->weighted && g->weight ? (g->directed ? 2 : 1) * both : 0);
        out->ns += 2000 + 20 * (double)n + 60 * (double)m;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- one graph ---- */

typedef struct answer {
    posenc_tensor *degree, *in, *out;
} answer;

/* The matrices of one graph; `in` is NULL where the graph is undirected. */
typedef struct matrices {
    const pe_csr *out, *in;
} matrices;

static double weight_of_loop(const pe_csr *c, int64_t u)
{
    int64_t low = c->ptr[u], high = c->ptr[u + 1];
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (c->col[mid] < u)
            low = mid + 1;
        else
            high = mid;
    }
    return low == c->ptr[u + 1] || c->col[low] != u ? 0 : c->weight ? c->weight[low] : 1;
}

static double pick(const degree *p, const matrices *m, int64_t u)
{
    double out = m->out->degree[u];
    if (!m->in)
        return p->loops_twice ? out + weight_of_loop(m->out, u) : out;
    return p->mode == OUT ? out : p->mode == IN ? m->in->degree[u] : out + m->in->degree[u];
}

static posenc_status write(const pe_graph_job *j, const answer *o, const matrices *counts, const matrices *sums,
                           pe_pace *pace, posenc_error *err)
{
    const degree *p = j->request->params;
    const bool bounded = pe_given(j->request, "max_degree");
    const double most = (double)p->max_degree;
    const posenc_dtype dtype = (posenc_dtype)j->request->common.dtype;
    posenc_status st = PE_OK;
    for (int64_t u = 0; u < j->n && !st; u++) {
        double out = counts->out->degree[u], in = counts->in ? counts->in->degree[u] : out, d = pick(p, sums, u);
        if (bounded && p->exceeding == REFUSE && (out > most || in > most || d > most))
            return pe_invalid(err, "max_degree", posenc_text("%lld", (long long)p->max_degree),
                              "%g or more, the degree of a node; or exceeding=clamp",
                              d > out    ? (d > in ? d : in)
                              : out > in ? out
                                         : in);
        if (bounded) {
            out = out > most ? most : out;
            in = in > most ? most : in;
            d = d > most ? most : d;
        }
        if (p->normalized)
            d = j->n > 1 ? d / (double)(j->n - 1) : 1;
        if ((st = pe_count_fits(dtype, d, err)))
            return st;
        ((int64_t *)o->out->data)[j->first + u] = (int64_t)out;
        ((int64_t *)o->in->data)[j->first + u] = (int64_t)in;
        posenc_convert(dtype, (char *)o->degree->data + (size_t)(j->first + u) * posenc_dtype_size(dtype), &d, 1);
        st = pe_pace_add(pace, 40);
    }
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    const posenc_graph *graph = j->request->graph;
    const degree *p = j->request->params;
    pe_csr_options options = p->edges;
    options.directed = true;
    const bool two = graph->directed, weights = p->weighted && graph->weight;
    pe_csr out = { 0 }, in = { 0 }, wout = { 0 }, win = { 0 };
    posenc_status st = pe_count_build(graph, j->graph, &options, &out, &j->pace, err);
    if (!st && two)
        st = pe_csr_transpose(&out, &in, j->ctx, err);
    if (!st && weights)
        st = pe_csr_build(graph, j->graph, &options, &wout, j->ctx, err);
    if (!st && weights && two)
        st = pe_csr_transpose(&wout, &win, j->ctx, err);
    const matrices counts = { &out, two ? &in : NULL }, sums = { &wout, two ? &win : NULL };
    if (!st)
        st = write(j, o, &counts, weights ? &sums : &counts, &j->pace, err);
    if (!st)
        j->zero_edges = out.zero_edges;
    pe_csr_fini(&out);
    pe_csr_fini(&in);
    pe_csr_fini(&wout);
    pe_csr_fini(&win);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    answer *o = self;
    posenc_status st = pe_spoil(o->degree, j->first, j->n, &j->pace);
    if (!st)
        st = pe_spoil(o->in, j->first, j->n, &j->pace);
    return st ? st : pe_spoil(o->out, j->first, j->n, &j->pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    answer o = { pe_tensor(out, "degree"), pe_tensor(out, "in_degree"), pe_tensor(out, "out_degree") };
    const pe_graph_task task = { .encode = encode, .spoil = spoil, .self = &o };
    return pe_each_graph(r, out, &task, ctx, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_degree = {
    .name = "degree",
    .family = "graph",
    .title = "Degrees and degree centrality",
    .source = "networkx degree_centrality; Graphormer, Ying et al. 2021, arXiv:2106.05234; PyG utils.degree",
    .formula = "out_degree[u] = arcs u -> v, in_degree[u] = arcs v -> u; undirected: both are the degree\n"
               "degree[u] = in + out (total), in or out; undirected: the degree; normalized: divided by n - 1",
    .example = "normalized=true",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(degree, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
