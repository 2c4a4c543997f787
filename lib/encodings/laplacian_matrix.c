/* laplacian_matrix.c - the graph Laplacian itself, as a dense matrix.
 *
 * A with weights as listed, arcs of a directed graph as they are; d = row sums:
 *   none  D - A          sym  I - D^-1/2 A D^-1/2          rw  I - D^-1 A
 *
 * Defined here:
 *   - The row of a node without out-arcs (d = 0): D^-1 and D^-1/2 are 0 there, so the row is 0 but for its diagonal, which
 *     is 1 (`isolated=one`) or 0 in sym and rw. A sink of a directed graph is such a node.
 *   - A kept self-loop of weight w adds w to A_ii and to the degree, as in `laplacian`.
 *   - `nodes` asks for some rows only. A batch has the matrices one after the other, flattened, with offsets.
 *
 * Source: PyG torch_geometric/utils/laplacian.py, get_laplacian (diagonal 1 at isolated nodes); networkx
 * normalized_laplacian_matrix (diagonal 0). */
#include "graph/batch.h"
#include "graph/spectrum.h"
#include "graph/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct laplacian_matrix {
    posenc_given given;
    int normalization, isolated;
    pe_csr_options edges;
    posenc_reals nodes;
} laplacian_matrix;

static const posenc_param rows[] = {
    { PE_ENUM(laplacian_matrix, normalization), .names = pe_normalization_words, .def = PE_LAPLACIAN_SYM,
      .doc = "D - A, its symmetric or its random-walk normalisation" },
    { PE_ENUM(laplacian_matrix, isolated), .names = pe_isolated_words, .def = PE_ISOLATED_ONE,
      .doc = "diagonal of sym and rw at a node without (out-)arcs (PyG, DGL: one; networkx: zero)" },
    PE_ARC_ROWS(laplacian_matrix, edges, PE_LOOPS_DROP),
    { PE_ROW_IN(laplacian_matrix, edges, allow_negative, PE_T_BOOL, bool), .def = 0,
      .doc = "accept negative weights: degrees are sums of |weight| (signed Laplacian)" },
    { PE_REALS(laplacian_matrix, nodes), .flags = PE_OPTIONAL, .min = 0, .max = 2147483646,
      .doc = "the rows of these nodes only, in this order; not with a batch" },
};

static const posenc_output outputs[] = {
    { "matrix", "[n, n]; [len(nodes), n]; [sum of n_g^2] of a batch",
      "the Laplacian, rows and columns in the order of nodes; of a batch each graph's matrix, row by row, one after the "
      "other",
      NULL },
    { "matrix_ptr", "[G + 1], of a batch only", "graph g has the elements matrix_ptr[g] .. matrix_ptr[g + 1] - 1", "int64" },
    PE_STATUS_OUTPUT,
};

static posenc_status check(posenc_request *r, posenc_error *err)
{
    laplacian_matrix *p = r->params;
    const posenc_graph *g = r->graph;
    posenc_status st = PE_OK;
    p->edges.directed = p->edges.negative_row = true;
    double elements = pe_squares(g);
    if (pe_given(r, "nodes")) {
        if (g->batched)
            st = pe_not_applicable(err, "nodes", posenc_text("%zu nodes", p->nodes.n).s,
                                   "one graph: in a batch leave it out, the matrices come flattened");
        for (size_t i = 0; i < p->nodes.n && !g->batched; i++) {
            double v = p->nodes.v[i];
            if (v == floor(v) && v < (double)g->nodes)
                continue;
            st = pe_invalid(err, posenc_text("nodes[%zu]", i).s, posenc_text("%.17g", v), "a node: 0 .. %lld",
                            (long long)g->nodes - 1);
            break;
        }
        elements = (double)p->nodes.n * (double)g->nodes;
    }
    posenc_status too_large = pe_dense_limit(
        r, elements, g->batched ? "smaller graphs, or fewer" : "a smaller graph, or fewer rows (nodes=...)", err);
    return st ? st : too_large;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const laplacian_matrix *p = r->params;
    const posenc_graph *g = r->graph;
    const posenc_dtype t = (posenc_dtype)r->common.dtype;
    const int64_t ends = g->ngraphs + 1, all = (int64_t)pe_squares(g);
    const int64_t sizes[] = { pe_given(r, "nodes") ? (int64_t)p->nodes.n : g->nodes, g->nodes };
    posenc_status st = g->batched ? pe_output(out, "matrix", t, 1, &all, err) : pe_output(out, "matrix", t, 2, sizes, err);
    if (!st && g->batched)
        st = pe_output(out, "matrix_ptr", PE_int64, 1, &ends, err);
    return st ? st : pe_status_output(r, out, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const laplacian_matrix *p = r->params;
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        int64_t n = g->ptr[i + 1] - g->ptr[i], m = g->arc_ptr[i + 1] - g->arc_ptr[i];
        double rows_wanted = pe_given(r, "nodes") ? (double)p->nodes.n : (double)n;
        out->ns += 2000 + 60 * (double)m + 20 * (double)n + 2 * rows_wanted * (double)n;
        uint64_t scratch = 64 * (uint64_t)m + 56 * (uint64_t)n + 64;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* Row u into `row` (n), which is zero before. D^-1/2 is applied by the larger degree first: symmetric to the last bit, and
 * nothing overflows on the way. */
static void fill_row(const laplacian_matrix *p, const pe_csr *a, int64_t u, double *row)
{
    const double d = a->degree[u];
    if (p->normalization == PE_LAPLACIAN_NONE)
        row[u] = d;
    else
        row[u] = d > 0 || p->isolated == PE_ISOLATED_ONE;
    for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
        const int32_t v = a->col[j];
        const double w = a->weight ? a->weight[j] : 1, e = a->degree[v];
        if (p->normalization == PE_LAPLACIAN_NONE)
            row[v] -= w;
        else if (p->normalization == PE_LAPLACIAN_RW)
            row[v] -= w / d;
        else if (v == u)
            row[v] -= w / d;
        else if (e > 0)
            row[v] -= w / sqrt(d > e ? d : e) / sqrt(d > e ? e : d);
    }
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    const laplacian_matrix *p = j->request->params;
    const int64_t *from = self;
    const bool some = pe_given(j->request, "nodes");
    const int64_t n = j->n, count = some ? (int64_t)p->nodes.n : n;
    posenc_tensor *matrix = pe_tensor(j->out, "matrix");
    pe_csr a = { 0 };
    posenc_status st = pe_csr_build(j->request->graph, j->graph, &p->edges, &a, j->ctx, err);
    if (st)
        return st;
    double *row = malloc((size_t)(n + 1) * sizeof *row);
    if (!row)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < count && !st; i++) {
        const int64_t u = some ? (int64_t)p->nodes.v[i] : i;
        memset(row, 0, (size_t)n * sizeof *row);
        fill_row(p, &a, u, row);
        if (!(st = pe_pace_add(&j->pace, n + 24 * (a.ptr[u + 1] - a.ptr[u]))))
            st = pe_graph_store(matrix, from[j->graph] + i * n, row, n, &j->pace, err);
    }
    j->zero_edges = a.zero_edges;
    free(row);
    pe_csr_fini(&a);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const int64_t *from = self;
    return pe_spoil(pe_tensor(j->out, "matrix"), from[j->graph], j->n * j->n, &j->pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const posenc_graph *g = r->graph;
    int64_t start = 0;
    int64_t *ptr = g->batched ? pe_tensor(out, "matrix_ptr")->data : NULL;
    const pe_graph_task task = { .encode = encode, .spoil = spoil, .self = ptr ? ptr : &start };
    if (ptr)
        pe_square_offsets(g, ptr);
    return pe_each_graph(r, out, &task, ctx, err);
}

const posenc_encoding pe_laplacian_matrix = {
    .name = "laplacian_matrix",
    .family = "graph",
    .title = "The graph Laplacian as a matrix",
    .source = "PyG get_laplacian; networkx normalized_laplacian_matrix (isolated=zero)",
    .formula =
        "none: D - A; sym: I - D^-1/2 A D^-1/2; rw: I - D^-1 A; D = row sums of A; arcs of a directed graph as they are",
    .example = "normalization=sym",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(laplacian_matrix, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
