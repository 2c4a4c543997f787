/* lambda_max.c - the largest eigenvalue of the graph Laplacian, by which spectral filters scale it.
 *
 * Way: component by component.
 *   - A component of one node has one eigenvalue, known exactly.
 *   - sym, rw: where nodes have two colours that every edge joins (bipartite, no kept loop) the largest is exactly 2.
 *   - Otherwise it is the smallest eigenvalue of c I - L, for which linalg has its solvers: c = 2 for sym, where c I - L
 *     is I + D^-1/2 A D^-1/2 and positive definite; a little above Merris's bound max_i (d_i + sum_j w_ij d_j / d_i) for
 *     none. A component whose bound is no larger than what is known already is left out.
 * The value reported is the Rayleigh quotient of the vector found, and the residual is measured with L.
 *
 * Defined here: a graph without edges has 0 (`isolated=zero`, the default here, so that one node has 0 and a pair 2), or 1
 * in sym and rw with `isolated=one`, which is what the matrices of PyG and DGL have; in a graph with an edge it makes no
 * difference. No nodes: 0. DGL and PyG fail on one and two nodes.
 *
 * Source: DGL laplacian_lambda_max; PyG LaplacianLambdaMax. The bound: Merris 1998, A note on Laplacian graph eigenvalues.
 */
#include "core/exact.h"
#include "graph/batch.h"
#include "graph/spectrum.h"
#include "graph/store.h"
#include "linalg/laplacian.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct lambda_max {
    posenc_given given;
    int normalization, isolated;
    pe_csr_options edges;
    double tol;
    int64_t max_iter;
    bool allow_partial;
} lambda_max;

static const posenc_param rows[] = {
    { PE_ENUM(lambda_max, normalization), .names = pe_normalization_words, .def = PE_LAPLACIAN_SYM,
      .doc = "D - A, its symmetric or its random-walk normalisation" },
    PE_EDGE_ROWS(lambda_max, edges, PE_LOOPS_DROP),
    { PE_ENUM(lambda_max, isolated), .names = pe_isolated_words, .def = PE_ISOLATED_ZERO,
      .doc = "sym and rw of a graph without edges: 0, or 1 as in the matrices of PyG and DGL" },
    { PE_REAL(lambda_max, tol), .def = 1e-10, .min = 1e-14, .max = 1e-2,
      .doc = "bound on the residual, relative to 2; none: to twice the largest degree" },
    { PE_INT(lambda_max, max_iter), .def = 0, .max = 1e6, .doc = "restarts of the iterative solver; 0: its default" },
    PE_PARTIAL_ROW(lambda_max,
                   "the largest eigenvalue of the components done until then, which the graph's is no smaller than, or NaN, "
                   "with a warning"),
};

static const posenc_output outputs[] = {
    { "lambda_max", "[1] or [G]", "the largest eigenvalue", NULL },
    { "residuals", "[1] or [G]",
      "||L v - lambda v||_2 of a unit vector v in float64 (rw: of sym); 0 where the value is known exactly", "float64" },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const lambda_max *p = r->params;
    if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        return posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true",
                           "false; or on_directed=symmetrize; or the encoding magnetic_laplacian");
    return pe_check_partial(r, p->allow_partial, err);
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    posenc_status st = pe_output(out, "lambda_max", (posenc_dtype)r->common.dtype, 1, &r->graph->ngraphs, err);
    if (!st)
        st = pe_output(out, "residuals", PE_float64, 1, &r->graph->ngraphs, err);
    return st ? st : pe_status_output(r, out, err);
}

/* The node that stands for v's set, and whether v has its other colour; paths are halved on the way. */
static int32_t set_of(int32_t *up, uint8_t *other, int32_t v, uint8_t *colour)
{
    *colour = 0;
    while (up[v] != v) {
        other[v] ^= other[up[v]] & (up[up[v]] != up[v]);
        up[v] = up[up[v]];
        *colour ^= other[v];
        v = up[v];
    }
    return v;
}

/* Whether graph i has a component of two nodes or more that two colours suffice for: then sym and rw need no solver. False
 * where there is no memory to find out. */
static bool some_bipartite(const posenc_graph *g, int64_t i, bool loops)
{
    const int64_t first = g->ptr[i], n = g->ptr[i + 1] - first;
    int32_t *up = n <= 8 * (g->arc_ptr[i + 1] - g->arc_ptr[i]) + 1024 ? malloc((size_t)(n + 1) * sizeof *up) : NULL;
    uint8_t *other = calloc((size_t)n + 1, 1), *odd = calloc((size_t)n + 1, 1), a, b;
    bool found = false;
    for (int64_t v = 0; up && v < n; v++)
        up[v] = (int32_t)v;
    for (int64_t j = g->arc_ptr[i]; j < g->arc_ptr[i + 1] && up && other && odd; j++) {
        if ((g->weight && g->weight[j] == 0) || (g->source[j] == g->target[j] && !loops))
            continue;
        const int32_t u = set_of(up, other, (int32_t)(g->source[j] - first), &a),
                      v = set_of(up, other, (int32_t)(g->target[j] - first), &b);
        if (u == v) {
            odd[u] |= a == b;
        } else {
            up[u] = v;
            other[u] = a == b;
            odd[v] |= odd[u];
        }
    }
    for (int64_t v = 0; v < n && up && other && odd && !found; v++)
        found = up[v] != v && !odd[set_of(up, other, (int32_t)v, &a)];
    free(up);
    free(other);
    free(odd);
    return found;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const lambda_max *p = r->params;
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        double n = (double)(g->ptr[i + 1] - g->ptr[i]), m = (double)(g->arc_ptr[i + 1] - g->arc_ptr[i]);
        int64_t nodes = (int64_t)n, arcs = 2 * (int64_t)m;
        double dense = n * n * n + 128 * n * n, sparse = 8000 * (n + (m < 8 * n ? m : 8 * n));
        out->ns += 4000 + 80 * m + 60 * n;
        if (p->normalization == PE_LAPLACIAN_NONE || !some_bipartite(g, i, p->edges.self_loops == PE_LOOPS_KEEP))
            out->ns += 140 * n + (n <= 128 || dense < sparse ? dense : sparse);
        uint64_t scratch = pe_component_bytes(nodes, arcs, 1) + (uint64_t)arcs * 200 + (uint64_t)nodes * 500;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- the formula ---- */

/* Whether the edges of component c all join nodes of two colours. colour (n): 0 before, 1 and -1 after. */
static posenc_status bipartite(pe_spectrum *s, int64_t c, double *colour, int32_t *queue, bool *yes)
{
    const pe_csr *a = &s->csr;
    posenc_status st;
    int64_t head = 0, tail = 0;
    *yes = false;
    queue[tail++] = s->node[s->begin[c]];
    colour[queue[0]] = 1;
    while (head < tail) {
        const int32_t u = queue[head++];
        for (int64_t i = a->ptr[u]; i < a->ptr[u + 1]; i++) {
            const int32_t v = a->col[i];
            if (colour[v] == colour[u])
                return PE_OK;
            if (colour[v] == 0) {
                colour[v] = -colour[u];
                queue[tail++] = v;
            }
        }
        if ((st = pe_pace_add(&s->pace, 16 * (a->ptr[u + 1] - a->ptr[u]) + 8)))
            return st;
    }
    *yes = true;
    return PE_OK;
}

typedef struct largest {
    double value, residual;
} largest;

/* The matrix c I - L: weights with the other sign, and its own diagonal for none or where loops are kept.
 *   weight, diagonal   (arcs), (n): filled and pointed to */
static posenc_status mirror(pe_spectrum *s, const pe_component *m, double c, double *weight, double *diagonal,
                            pe_component *out)
{
    posenc_status st = PE_OK;
    for (int64_t j = 0; j < m->ptr[m->n] && !st; j++) {
        weight[j] = m->weight ? -m->weight[j] : -1;
        st = pe_pace_add(&s->pace, 2);
    }
    for (int64_t i = 0; i < m->n && !st; i++) {
        diagonal[i] = c - (m->diagonal ? m->diagonal[i] : m->normalized ? 1 : m->degree[i]);
        st = pe_pace_add(&s->pace, 4);
    }
    *out = *m;
    out->weight = weight;
    out->kernel = NULL;
    out->diagonal = m->normalized && !m->diagonal ? NULL : diagonal; /* sym: 2 - 1 is 1 */
    return st;
}

/* The largest eigenvalue of a component of two nodes or more into *top, if it is larger than that; *found: not stopped
 * early. */
static posenc_status solve(pe_spectrum *s, int64_t c, largest *top, bool *found, posenc_context *ctx, posenc_error *err)
{
    pe_part part;
    pe_laplacian lap = { 0 };
    pe_component other;
    pe_pairs pairs = { 0 };
    double *weight = NULL, *diagonal = NULL, value = 0, residual = 0;
    posenc_status st = pe_spectrum_part(s, c, &part, err);
    if (st)
        return st;
    const pe_component *m = &part.m;
    if ((st = pe_laplacian_init(&lap, m, &s->pace, err)))
        goto done;
    if (lap.bound <= top->value)
        goto done;
    if (m->n == 2 && !m->normalized) { /* one edge: 0 and twice its weight */
        top->value = pe_max(top->value, m->weight ? 2 * m->weight[0] : 2);
        goto done;
    }
    weight = malloc((size_t)(m->ptr[m->n] + 1) * sizeof *weight);
    diagonal = malloc((size_t)m->n * sizeof *diagonal);
    if (!weight || !diagonal) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = mirror(s, m, m->normalized ? 2 : lap.bound * (1 + 1e-9), weight, diagonal, &other)))
        goto done;
    if ((st = pe_component_pairs(&other, 1, 0, s->o.tol, s->o.max_iter, PE_SOLVER_AUTO, s->o.partial, &pairs, ctx, err)))
        goto done;
    if (!(*found = !pairs.partial)) /* what is left unproven need not be the largest */
        goto done;
    st = pe_laplacian_measure(&lap, 1, &pairs.vectors, &value, &residual, &s->pace, err);
    if (!st && value > top->value)
        *top = (largest){ value, residual };
done:
    free(weight);
    free(diagonal);
    pe_pairs_fini(&pairs);
    pe_laplacian_fini(&lap);
    pe_part_fini(&part);
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    const lambda_max *p = j->request->params;
    const pe_spectrum_options options = { .edges = p->edges,
                                          .normalization = p->normalization,
                                          .isolated = p->isolated,
                                          .tol = p->tol,
                                          .max_iter = p->max_iter,
                                          .partial = p->allow_partial };
    int64_t *nearly = self;
    bool early = false; /* a component was not solved */
    pe_spectrum s = { 0 };
    largest top = { 0, 0 };
    double *colour = NULL;
    int32_t *queue = NULL;
    posenc_status st = pe_spectrum_init(&s, &options, j->request->graph, j->graph, j->ctx, err);
    if (st)
        goto done;
    colour = calloc((size_t)s.csr.n + 1, sizeof *colour);
    queue = malloc((size_t)(s.csr.n + 1) * sizeof *queue);
    if (!colour || !queue) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    /* what costs nothing first */
    for (int64_t c = 0; c < s.csr.ncomponents && !st && !(p->normalization != PE_LAPLACIAN_NONE && top.value == 2); c++) {
        bool two = false;
        if (s.begin[c + 1] - s.begin[c] == 1)
            top.value = pe_max(top.value, s.single[c]);
        else if (p->normalization != PE_LAPLACIAN_NONE && !(st = bipartite(&s, c, colour, queue, &two)) && two)
            top.value = 2;
    }
    for (int64_t c = 0; c < s.csr.ncomponents && !st && !(p->normalization != PE_LAPLACIAN_NONE && top.value == 2); c++)
        if (s.begin[c + 1] - s.begin[c] > 1) {
            bool found = true;
            pe_grace_search(j->grace);
            st = solve(&s, c, &top, &found, j->ctx, err);
            pe_grace_rest(j->grace);
            if (st == PE_DEADLINE && p->allow_partial) { /* before the solver began */
                found = false;
                st = PE_OK;
            }
            early = early || !found;
        }
    if (st)
        goto done;
    j->partial = early;
    *nearly += early;
    if (early && top.value == 0)
        top = (largest){ (double)NAN, (double)NAN };
    else
        top.value = pe_eigenvalue(top.value, p->normalization != PE_LAPLACIAN_NONE);
    if (p->normalization == PE_LAPLACIAN_NONE) {
        top.value = ldexp(top.value, s.exponent);
        top.residual = ldexp(top.residual, s.exponent);
    }
    if ((st = pe_graph_store(pe_tensor(j->out, "lambda_max"), j->graph, &top.value, 1, &j->pace, err)))
        goto done;
    ((double *)pe_tensor(j->out, "residuals")->data)[j->graph] = top.residual;
    j->zero_edges = s.csr.zero_edges;
done:
    free(colour);
    free(queue);
    pe_spectrum_fini(&s);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    (void)self;
    posenc_status st = pe_spoil(pe_tensor(j->out, "lambda_max"), j->graph, 1, &j->pace);
    return st ? st : pe_spoil(pe_tensor(j->out, "residuals"), j->graph, 1, &j->pace);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    (void)c, (void)err;
    *(int64_t *)copy = 0;
    return PE_OK;
}

static void end(void *copy, void *self) { *(int64_t *)self += *(int64_t *)copy; }

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    int64_t nearly = 0;
    const pe_graph_task task = { .encode = encode,
                                 .spoil = spoil,
                                 .self = &nearly,
                                 .size = sizeof nearly,
                                 .begin = begin,
                                 .end = end,
                                 .partial = ((const lambda_max *)r->params)->allow_partial };
    pe_warn_directed(r, out);
    posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    if (!st && nearly)
        pe_warn(out, "stopped early: the largest eigenvalue is perhaps larger");
    return st;
}

const posenc_encoding pe_lambda_max = {
    .name = "lambda_max",
    .family = "graph",
    .title = "Largest eigenvalue of the graph Laplacian",
    .source = "DGL laplacian_lambda_max; PyG LaplacianLambdaMax",
    .formula = "the largest eigenvalue of D - A (none), I - D^-1/2 A D^-1/2 (sym) or I - D^-1 A (rw);\n"
               "exactly 2 in sym and rw where a component with an edge is bipartite",
    .example = "normalization=none",
    .revision = 4,
    .input = PE_GRAPH,
    PE_TABLE(lambda_max, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
