/* double_radius_node_labeling.c - the place of each node relative to a pair of nodes, as one label.
 *
 *     ds(v) = steps from src to v in the graph without dst,  dt(v) = steps from dst to v in the graph without src
 *     d = ds + dt,  h = floor(d / 2)
 *     label = 1 + min(ds, dt) + h (h + d mod 2 - 1);  src and dst: 1;  a node that not both reach: 0
 *
 * The label numbers the pairs (ds, dt), up to order, by d and then by min(ds, dt). Weights and directions do not count.
 * In a batch src and dst are the nodes of these numbers in each graph, as enclosing subgraphs have their pair in front.
 *
 * Source: Zhang and Chen 2018, Link prediction based on graph neural networks (SEAL), arXiv:1802.09691, section 3.2; DGL
 * double_radius_node_labeling, which treats directed graphs alike. */
#include "graph/batch.h"
#include "graph/paths.h"

#include <stdlib.h>

extern const posenc_encoding pe_double_radius_node_labeling;

/* ---- rows ---- */

typedef struct double_radius_node_labeling {
    posenc_given given;
    int64_t src, dst;
    pe_csr_options edges;
} double_radius_node_labeling;

static const posenc_param rows[] = {
    { PE_INT(double_radius_node_labeling, src), .flags = PE_REQUIRED, .max = 0x1p31, .doc = "one node of the pair" },
    { PE_INT(double_radius_node_labeling, dst), .flags = PE_REQUIRED, .max = 0x1p31,
      .doc = "the other one; the order of the two does not matter" },
    PE_EDGE_ROWS(double_radius_node_labeling, edges, PE_LOOPS_DROP),
};

static const posenc_output outputs[] = {
    { "labels", "[num_nodes]", "1: src and dst; 0: not reached from both; otherwise 2 and more, from near to far", "int64" },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static posenc_status check_pair(const double_radius_node_labeling *p, int64_t n, posenc_error *err)
{
    posenc_status st = PE_OK;
    for (int i = 0; i < 2; i++)
        if ((i ? p->dst : p->src) >= n)
            st = pe_invalid(err, i ? "dst" : "src", posenc_text("%lld", (long long)(i ? p->dst : p->src)),
                            "a node: below %lld", (long long)n);
    return st;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const double_radius_node_labeling *p = r->params;
    posenc_status st = PE_OK;
    if (p->src == p->dst)
        st = pe_invalid(err, "dst", posenc_text("%lld", (long long)p->dst), "another node than src");
    if (!r->graph->batched && check_pair(p, r->graph->nodes, err))
        st = PE_INVALID;
    if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        st = posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true", "false; or on_directed=symmetrize");
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    posenc_status st = pe_output(out, "labels", PE_int64, 1, &r->graph->nodes, err);
    return st ? st : pe_status_output(r, out, err);
}

/* [ns] measured on random graphs and molecules. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t nodes = g->ptr[i + 1] - g->ptr[i], arcs = 2 * (g->arc_ptr[i + 1] - g->arc_ptr[i]);
        out->ns += 1500 + 90 * (double)arcs + 80 * (double)nodes;
        const uint64_t scratch = (uint64_t)arcs * 60 + (uint64_t)nodes * 200 + 2 * pe_spread_bytes(nodes) + 4096;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- one graph ---- */

typedef struct answer {
    int64_t *labels;
    posenc_tensor *tensor;
} answer;

static int64_t label(double from_src, double from_dst)
{
    if (from_src < 0 || from_dst < 0)
        return 0;
    const int64_t s = (int64_t)from_src, t = (int64_t)from_dst, d = s + t, h = d / 2;
    return 1 + (s < t ? s : t) + h * (h + d % 2 - 1);
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    const double_radius_node_labeling *p = j->request->params;
    const pe_csr_options options = pe_telling_options(&(pe_telling){ .edge_weight = false }, &p->edges);
    const int32_t pair[] = { (int32_t)p->src, (int32_t)p->dst };
    pe_csr csr = { 0 };
    pe_spread spread[2] = { { 0 } };
    posenc_status st = check_pair(p, j->n, err);
    if (!st)
        st = pe_csr_build(j->request->graph, j->graph, &options, &csr, j->ctx, err);
    for (int i = 0; i < 2 && !st; i++)
        if (!(st = pe_spread_init(&spread[i], &csr, false, err)))
            st = pe_spread_run(&spread[i], &pair[i], 1, pair[1 - i], &j->pace, err);
    for (int64_t v = 0; v < j->n && !st; v++) {
        const bool own = v == pair[0] || v == pair[1];
        o->labels[j->first + v] = own ? 1 : label(spread[0].dist[v], spread[1].dist[v]);
        st = pe_pace_add(&j->pace, 6);
    }
    j->zero_edges = csr.zero_edges;
    pe_csr_fini(&csr);
    pe_spread_fini(&spread[0]);
    pe_spread_fini(&spread[1]);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const answer *o = self;
    return pe_spoil(o->tensor, j->first, j->n, &j->pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    posenc_tensor *t = pe_tensor(out, "labels");
    answer o = { .labels = t->data, .tensor = t };
    const pe_graph_task task = { .encode = encode, .spoil = spoil, .self = &o };
    const posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    if (!st && r->graph->directed)
        pe_warn(out, "the graph is directed: every arc was taken as an edge");
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_double_radius_node_labeling = {
    .name = "double_radius_node_labeling",
    .family = "graph",
    .title = "Labels of nodes around a pair",
    .source = "Zhang and Chen 2018, SEAL, arXiv:1802.09691, section 3.2; DGL double_radius_node_labeling",
    .formula = "ds = steps from src without dst, dt = steps from dst without src, d = ds + dt, h = floor(d / 2)\n"
               "label = 1 + min(ds, dt) + h (h + d mod 2 - 1); src and dst: 1; not reached from both: 0",
    .example = "src=0&dst=1",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(double_radius_node_labeling, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
