/* electrostatic.c - potentials of unit charges: ten numbers a node.
 *
 * With L = D - A, V_ij = (L^+)_ij - (L^+)_jj is the potential at i of a charge at j, relative to the charge's own place.
 *     0, 1, 2, 3   min, max, mean, standard deviation over i of V_ij       the charge at j = this node
 *     4, 5, 6, 7   the same over j of V_ij                                 seen at i = this node
 *     8            sum over i of (D^-1 A)_ij V_ij                          this node is j
 *     9            sum over j of (D^-1 A)_ij V_ij                          this node is i
 * The statistics run over all nodes of the graph, other components included, where L^+ is 0; standard deviations divide by
 * n - 1.
 *
 * Defined here:
 *   - D^-1 is 0 at a node without edges. GraphGPS has 1/0 there, and its matrix product turns columns 8 and 9 of the whole
 *     graph into NaN. The standard deviation of a graph of one node is 0, where GraphGPS has NaN.
 *   - `compat_graphgps` repeats column 1 as column 5, as GraphGPS does. A potential is largest at its charge, so that both
 *     are 0 up to rounding with or without it.
 *   - Weights count; GraphGPS ignores them. A kept self-loop vanishes from L and adds to the degree in D^-1 A.
 *
 * Way: component by component the factor of L without one row (linalg/ldl.h); eight columns of L^+ at a time, each used and
 * forgotten. By symmetry rows of L^+ sum to 0 as columns do: means are exact, and with c_j = (L^+)_jj, tau = mean of c:
 *     sum over j of (V_ij + tau)^2 = sum_j (L^+)_ij^2 - 2 sum_j (L^+)_ij c_j + sum_j (c_j - tau)^2
 * No matrix of n^2 numbers is ever held.
 *
 * Source: GraphGPS graphgps/transform/posenc_stats.py, get_electrostatic_function_encoding (ElstaticSE). */
#include "core/exact.h"
#include "graph/batch.h"
#include "graph/spectrum.h"
#include "graph/store.h"
#include "linalg/ldl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10 };

typedef struct electrostatic {
    posenc_given given;
    bool compat_graphgps;
    pe_csr_options edges;
} electrostatic;

static const posenc_param rows[] = {
    { PE_BOOL(electrostatic, compat_graphgps), .def = 0, .doc = "repeat column 1 as column 5, as GraphGPS does" },
    PE_EDGE_ROWS(electrostatic, edges, PE_LOOPS_DROP),
};

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, 10]",
      "min, max, mean, sample std (n - 1) of the potential of a charge here; the same of the potentials here; means over "
      "neighbours",
      NULL },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const electrostatic *p = r->params;
    if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        return posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true", "false; or on_directed=symmetrize");
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const int64_t sizes[] = { r->graph->nodes, COLUMNS };
    posenc_status st = pe_output(out, "encoding", (posenc_dtype)r->common.dtype, 2, sizes, err);
    return st ? st : pe_status_output(r, out, err);
}

/* Entries of the factor: between what planar meshes and expanders have, at most all. */
static double fill(double n, double m)
{
    const double all = n * n / 2, guess = (n + m) * (4 + 0.1 * sqrt(n));
    return guess < all ? guess : all;
}

/* [ns] of a column of L^+ for each of n nodes, eight at a time. */
static double solve_ns(double n, double entries) { return n / PE_WIDTH * (8 * entries + 60 * n); }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const double n = (double)(g->ptr[i + 1] - g->ptr[i]), m = (double)(g->arc_ptr[i + 1] - g->arc_ptr[i]);
        out->ns += 5000 + 200 * m + 1500 * n + solve_ns(n, fill(n, m));
        const uint64_t nodes = (uint64_t)n, edges = (uint64_t)m;
        const uint64_t scratch = pe_ldl_bytes((int64_t)n, 2 * (int64_t)m, fill(n, m)) + 700 * nodes + 160 * edges;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- the formula ---- */

/* What is gathered for one node, by place. */
typedef struct sums {
    double diagonal;            /* (L^+)_vv */
    double least, most;         /* over the column of L^+ */
    double squares;             /* sum over the column of its squares */
    double row_least, row_most; /* over j of V_vj */
    double dot;                 /* sum over j of (L^+)_vj (L^+)_jj */
    double to, from;            /* columns 8 and 9 */
} sums;

typedef struct field {
    pe_spectrum s;
    sums *v; /* (n) by place */
} field;

/* y = L^+ of the unit vectors at places first .. first + count - 1 of a component, from its grounded inverse between two
 * projections. */
static posenc_status columns(field *f, pe_ldl *ldl, int64_t first, int64_t count, double *x, double *y)
{
    const int64_t n = ldl->n;
    posenc_status st = PE_OK;
    double mean[PE_WIDTH] = { 0 };
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < PE_WIDTH; k++)
            x[i * PE_WIDTH + k] = (i == first + k && k < count ? 1 : 0) - 1 / (double)n;
        st = pe_pace_add(&f->s.pace, 8);
    }
    if (!st)
        st = pe_ldl_solve(ldl, x, y, &f->s.pace);
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < PE_WIDTH; k++)
            mean[k] += y[i * PE_WIDTH + k];
        st = pe_pace_add(&f->s.pace, 8);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < PE_WIDTH; k++)
            y[i * PE_WIDTH + k] -= mean[k] / (double)n;
        st = pe_pace_add(&f->s.pace, 8);
    }
    return st;
}

/* Uses the columns at places first .. of the component that begins at `begin`, whose nodes hold `at`. */
static posenc_status gather(field *f, int64_t begin, int64_t n, int64_t first, int64_t count, const double *y)
{
    const pe_csr *a = &f->s.csr;
    sums *at = f->v + begin;
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < count; k++)
        at[first + k].diagonal = y[(first + k) * PE_WIDTH + k];
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < count; k++) {
            sums *own = &at[first + k];
            const double e = y[i * PE_WIDTH + k], v = e - own->diagonal;
            own->least = pe_min(own->least, e);
            own->most = pe_max(own->most, e);
            own->squares += e * e;
            at[i].row_least = pe_min(at[i].row_least, v);
            at[i].row_most = pe_max(at[i].row_most, v);
            at[i].dot += e * own->diagonal;
        }
        st = pe_pace_add(&f->s.pace, 8 * count);
    }
    for (int64_t k = 0; k < count && !st; k++) {
        const int32_t node = f->s.node[begin + first + k];
        for (int64_t j = a->ptr[node]; j < a->ptr[node + 1]; j++) {
            const int64_t i = f->s.place[a->col[j]] - begin;
            const double share = (a->weight ? a->weight[j] : 1) / a->degree[a->col[j]];
            const double v = y[i * PE_WIDTH + k] - at[first + k].diagonal;
            at[first + k].to += share * v;
            at[i].from += share * v;
        }
        st = pe_pace_add(&f->s.pace, 12 * (a->ptr[node + 1] - a->ptr[node]) + 8);
    }
    return st;
}

static const char instead[] = "a smaller or sparser graph; or anchor_distance, or random_walk with method=probe";

/* The factor of a component, or LIMIT where it would not fit the memory there is or would take too long. */
static posenc_status factor(pe_ldl *ldl, const pe_laplacian *lap, pe_pace *pace, posenc_error *err)
{
    posenc_status st = pe_ldl_order(ldl, lap, pace, err);
    if (st)
        return st;
    const uint64_t bytes = pe_ldl_bytes(lap->c->n, lap->c->ptr[lap->c->n], ldl->entries);
    if (pace->ctx && pace->ctx->memory_limit && bytes > pace->ctx->memory_limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph",
                           posenc_text("%llu bytes of work space", (unsigned long long)bytes).s, "at most %llu bytes: %s",
                           (unsigned long long)pace->ctx->memory_limit, instead);
    st = pe_check_time(2 * ldl->products + solve_ns((double)lap->c->n, ldl->entries), "graph", instead, err);
    return st ? st : pe_ldl_factor(ldl, pace, err);
}

static posenc_status component(field *f, int64_t c, posenc_error *err)
{
    pe_spectrum *s = &f->s;
    const int64_t begin = s->begin[c], n = s->begin[c + 1] - begin;
    if (n == 1)
        return pe_pace_add(&s->pace, 4);
    pe_part part;
    pe_laplacian lap = { 0 };
    pe_ldl ldl = { 0 };
    double *x = NULL, *y = NULL;
    posenc_status st = pe_spectrum_part(s, c, &part, err);
    if (st)
        return st;
    if ((st = pe_laplacian_init(&lap, &part.m, &s->pace, err)))
        goto done;
    if ((st = factor(&ldl, &lap, &s->pace, err)))
        goto done;
    x = pe_panel_new(n);
    y = pe_panel_new(n);
    if (!x || !y)
        st = pe_no_memory("memory", err);
    for (int64_t i = begin; i < begin + n && !st; i++)
        f->v[i] = (sums){ .least = INFINITY, .most = -INFINITY, .row_least = INFINITY, .row_most = -INFINITY };
    for (int64_t first = 0; first < n && !st; first += PE_WIDTH) {
        const int64_t count = n - first < PE_WIDTH ? n - first : PE_WIDTH;
        if (!(st = columns(f, &ldl, first, count, x, y)))
            st = gather(f, begin, n, first, count, y);
    }
done:
    free(x);
    free(y);
    pe_ldl_fini(&ldl);
    pe_laplacian_fini(&lap);
    pe_part_fini(&part);
    return st;
}

/* The two components with the largest and the smallest diagonal entries: what others see of them. */
typedef struct extremes {
    double most[2], least[2];
    int64_t owner[2]; /* of most[0] and of least[0] */
} extremes;

static void note(extremes *e, int64_t c, double most, double least)
{
    if (most > e->most[0]) {
        e->most[1] = e->most[0];
        e->most[0] = most;
        e->owner[0] = c;
    } else {
        e->most[1] = pe_max(e->most[1], most);
    }
    if (least < e->least[0]) {
        e->least[1] = e->least[0];
        e->least[0] = least;
        e->owner[1] = c;
    } else {
        e->least[1] = pe_min(e->least[1], least);
    }
}

/* The rows of the nodes of component c.
 *   squares   sum over all nodes of (c_j - tau)^2 */
static posenc_status write(const field *f, int64_t c, const extremes *e, double tau, double squares, pe_graph_job *j,
                           posenc_error *err)
{
    const electrostatic *p = j->request->params;
    const pe_spectrum *s = &f->s;
    const int64_t begin = s->begin[c], end = s->begin[c + 1];
    const bool alone = end - begin == j->n; /* there is no other component */
    const double count = j->n > 1 ? (double)j->n - 1 : 1;
    posenc_status st = PE_OK;
    for (int64_t i = begin; i < end && !st; i++) {
        const sums *v = &f->v[i];
        const double outer_most = -(e->owner[1] == c ? e->least[1] : e->least[0]);
        const double outer_least = -(e->owner[0] == c ? e->most[1] : e->most[0]);
        const double least = (alone ? v->least : pe_min(v->least, 0)) - v->diagonal;
        const double most = (alone ? v->most : pe_max(v->most, 0)) - v->diagonal;
        const double seen_least = alone ? v->row_least : pe_min(v->row_least, outer_least);
        const double seen_most = alone ? v->row_most : pe_max(v->row_most, outer_most);
        const double spread = v->squares - 2 * v->dot + squares;
        double row[COLUMNS] = { least,        most,
                                -v->diagonal, sqrt(v->squares / count),
                                seen_least,   p->compat_graphgps ? most : seen_most,
                                -tau,         sqrt(spread > 0 ? spread / count : 0),
                                v->to,        v->from };
        for (int k = 0; k < COLUMNS; k++) /* NaN: a sum overflowed on the way; no negative zeros */
            row[k] = isnan(row[k]) ? INFINITY : ldexp(row[k], -s->exponent) + 0.0;
        if (!(st = pe_pace_add(&j->pace, 60)))
            st = pe_graph_store(pe_tensor(j->out, "encoding"), (j->first + s->node[i]) * COLUMNS, row, COLUMNS, &j->pace,
                                err);
    }
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    (void)self;
    const electrostatic *p = j->request->params;
    const pe_spectrum_options options = { .edges = p->edges, .normalization = PE_LAPLACIAN_NONE };
    field f = { 0 };
    extremes e = { .most = { -INFINITY, -INFINITY }, .least = { INFINITY, INFINITY }, .owner = { -1, -1 } };
    double trace = 0, squares = 0;
    posenc_status st = pe_spectrum_init(&f.s, &options, j->request->graph, j->graph, j->ctx, err);
    if (st)
        goto done;
    if (!(f.v = calloc((size_t)j->n + 1, sizeof *f.v)))
        st = pe_no_memory("memory", err);
    const int64_t nc = f.s.csr.ncomponents;
    for (int64_t c = 0; c < nc && !st; c++)
        st = component(&f, c, err);
    for (int64_t c = 0; c < nc && !st; c++) {
        double most = -INFINITY, least = INFINITY;
        for (int64_t i = f.s.begin[c]; i < f.s.begin[c + 1]; i++) {
            most = pe_max(most, f.v[i].diagonal);
            least = pe_min(least, f.v[i].diagonal);
            trace += f.v[i].diagonal;
        }
        note(&e, c, most, least);
        st = pe_pace_add(&f.s.pace, 6 * (f.s.begin[c + 1] - f.s.begin[c]) + 8);
    }
    const double tau = j->n ? trace / (double)j->n : 0;
    for (int64_t i = 0; i < j->n && !st; i++) {
        squares += (f.v[i].diagonal - tau) * (f.v[i].diagonal - tau);
        st = pe_pace_add(&f.s.pace, 4);
    }
    for (int64_t c = 0; c < nc && !st; c++)
        st = write(&f, c, &e, tau, squares, j, err);
    j->zero_edges = f.s.csr.zero_edges;
done:
    free(f.v);
    pe_spectrum_fini(&f.s);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    (void)self;
    return pe_spoil(pe_tensor(j->out, "encoding"), j->first, j->n, &j->pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const pe_graph_task task = { .encode = encode, .spoil = spoil };
    pe_warn_directed(r, out);
    return pe_each_graph(r, out, &task, ctx, err);
}

const posenc_encoding pe_electrostatic = {
    .name = "electrostatic",
    .family = "graph",
    .title = "Electrostatic potentials",
    .source = "GraphGPS get_electrostatic_function_encoding (ElstaticSE)",
    .formula = "V_ij = (L^+)_ij - (L^+)_jj, L = D - A; columns 0-3: min, max, mean, sample std over i of V_ij (node j);\n"
               "4-7: over j (node i); 8: sum_i (D^-1 A)_ij V_ij (node j); 9: sum_j (D^-1 A)_ij V_ij (node i)",
    .example = "dtype=float64",
    .revision = 2,
    .input = PE_GRAPH,
    PE_TABLE(electrostatic, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
