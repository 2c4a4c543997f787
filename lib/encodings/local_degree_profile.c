/* local_degree_profile.c - the degree of a node and what the degrees of its neighbours look like.
 *
 *     encoding[u] = d(u), min d(v), max d(v), mean d(v), std d(v)        over the arcs u -> v
 *
 * d is the out-degree; std is the population's (divided by the number of arcs). A node without arcs has zeros.
 * Parallel edges count as often as they are there, a self-loop makes a node its own neighbour.
 * PyG sets a variance below 1e-5 to 0 and takes the mean of squares less the square of the mean; here std is exact.
 *
 * Source: Cai, Wang 2018, A simple yet effective baseline for non-attributed graph classification, arXiv:1811.03508; PyG
 * LocalDegreeProfile. */
#include "graph/batch.h"
#include "graph/counts.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_local_degree_profile;

enum { WIDTH = 5 };

/* ---- rows ---- */

typedef struct local_degree_profile {
    posenc_given given;
    pe_csr_options edges;
} local_degree_profile;

static const posenc_param rows[] = { PE_ARC_ROWS(local_degree_profile, edges, PE_LOOPS_KEEP) };

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, 5]", "degree; least, largest, mean and standard deviation of the neighbours' degrees", NULL },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    (void)r;
    (void)err;
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    posenc_status st = pe_output(out, "encoding", (posenc_dtype)r->common.dtype, 2, (int64_t[]){ r->graph->nodes, WIDTH },
                                 err);
    return st ? st : pe_status_output(r, out, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t n = g->ptr[i + 1] - g->ptr[i], m = g->arc_ptr[i + 1] - g->arc_ptr[i];
        const uint64_t scratch = pe_count_bytes(n, m);
        out->ns += 2000 + 40 * (double)n + 60 * (double)m;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- one graph ---- */

typedef struct answer {
    posenc_tensor *encoding;
} answer;

/* Two passes: sums of whole numbers, then squares of distances from their mean, so that equal degrees have std 0. */
static posenc_status profile(const pe_csr *c, int64_t u, double row[WIDTH], pe_pace *pace)
{
    posenc_status st = PE_OK;
    double least = INFINITY, largest = 0, sum = 0, squares = 0;
    const double count = c->degree[u];
    for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
        double d = c->degree[c->col[a]];
        least = d < least ? d : least;
        largest = d > largest ? d : largest;
        sum += d * (c->weight ? c->weight[a] : 1);
        st = pe_pace_add(pace, 4);
    }
    const double mean = count > 0 ? sum / count : 0;
    for (int64_t a = c->ptr[u]; a < c->ptr[u + 1] && !st; a++) {
        double off = c->degree[c->col[a]] - mean;
        squares += off * off * (c->weight ? c->weight[a] : 1);
        st = pe_pace_add(pace, 4);
    }
    row[0] = count;
    row[1] = count > 0 ? least : 0;
    row[2] = largest;
    row[3] = mean;
    row[4] = count > 0 ? sqrt(squares / count) : 0;
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    const local_degree_profile *p = j->request->params;
    const posenc_dtype dtype = (posenc_dtype)j->request->common.dtype;
    pe_csr_options options = p->edges;
    pe_csr c = { 0 };
    options.directed = true;
    posenc_status st = pe_count_build(j->request->graph, j->graph, &options, &c, &j->pace, err);
    for (int64_t u = 0; u < j->n && !st; u++) {
        double row[WIDTH];
        if ((st = profile(&c, u, row, &j->pace)))
            break;
        if ((st = pe_count_fits(dtype, row[0] > row[2] ? row[0] : row[2], err)))
            break;
        posenc_convert(dtype, (char *)o->encoding->data + (size_t)(WIDTH * (j->first + u)) * posenc_dtype_size(dtype), row,
                       WIDTH);
        st = pe_pace_add(&j->pace, 50);
    }
    if (!st)
        j->zero_edges = c.zero_edges;
    pe_csr_fini(&c);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    return pe_spoil(((answer *)self)->encoding, j->first, j->n, &j->pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    answer o = { pe_tensor(out, "encoding") };
    const pe_graph_task task = { .encode = encode, .spoil = spoil, .self = &o };
    return pe_each_graph(r, out, &task, ctx, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_local_degree_profile = {
    .name = "local_degree_profile",
    .family = "graph",
    .title = "Degrees of a node and its neighbours",
    .source = "Cai, Wang 2018, arXiv:1811.03508; PyG LocalDegreeProfile",
    .formula = "encoding[u] = d(u), min d(v), max d(v), mean d(v), std d(v) over the arcs u -> v\n"
               "d: out-degree; std: of the population; zeros where u has no arcs",
    .example = "self_loops=keep",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(local_degree_profile, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
