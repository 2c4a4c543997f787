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
 * Matrices of n^2 numbers are held of small components alone, eight at a time (graph/charges.h); those whose currents do not
 * sum to what they must go the sparse way. Potentials V are differences of what the factor gives, without L^+'s mean: then a
 * part that hangs on a thread does not drown those of the others. Where weights lie so far apart that the factor keeps less
 * than six digits, or that the currents which flow out of a charge do not sum to 1 - 1 / n, the graph is refused.
 *
 * method=probe estimates instead, each component of n nodes from num_probes vectors; l is L's diagonal, D the degrees:
 *     x = L^+ B s, s random signs of the edges, L = B B^T; p = x - B s / l is the mean of x over neighbours
 *         c_j = E[p_j^2] + (1 - 2 / n) / l_j, whose spread is far below that of E[x_j^2] = c_j where neighbours are many
 *     y = L^+ z, z random signs of the nodes, r = y - (z - mean) / l
 *         (L^+2)_jj = E[r_j^2] + 2 c_j / l_j - (1 - 1 / n) / l_j^2
 * Columns 2 and 6 are c and its mean, 3 is from L^+2; 8 is E[p_j sum_i A_ij / D_i (x_i - p_j)] - (1 - 1 / n) / l_j times the
 * sum of A_ij / D_i; 9 is ((L c)_i - (1 - 1 / n)) / D_i. 7 is from L^+2, L^+ c and the spread of c, by eight groups of
 * probes, so that products of estimates are of independent ones. Extremes are no means: 0 and 4 are taken over as many
 * landmarks as there are probes, whose columns of L^+ are solved for: half of them sought where potentials are lowest, half
 * at random. They are bounds from above; their error says how much the second half still lowered them. 1 and 5 are 0.
 *
 * Sources: GraphGPS graphgps/transform/posenc_stats.py, get_electrostatic_function_encoding (ElstaticSE); Spielman and
 * Srivastava 2011, Graph sparsification by effective resistances; Bekas et al. 2007, An estimator for the diagonal. */
#include "core/exact.h"
#include "core/random.h"
#include "graph/batch.h"
#include "graph/charges.h"
#include "graph/probes.h"
#include "graph/spectrum.h"
#include "graph/store.h"
#include "graph/walk.h"
#include "linalg/cg.h"
#include "linalg/ldl.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10 };
enum { EXACT, PROBE };
static const char *const methods[] = { "exact", "probe", NULL };

typedef struct electrostatic {
    posenc_given given;
    bool compat_graphgps;
    int method;
    int64_t num_probes, seed;
    pe_csr_options edges;
} electrostatic;

static const posenc_param rows[] = {
    { PE_BOOL(electrostatic, compat_graphgps), .def = 0, .doc = "repeat column 1 as column 5, as GraphGPS does" },
    PE_EDGE_ROWS(electrostatic, edges, PE_LOOPS_DROP),
    { PE_ENUM(electrostatic, method), .flags = PE_SELECTOR, .names = methods, .def = EXACT,
      .doc = "exact, or a named estimate with its standard error, for graphs that are too large" },
    { PE_INT(electrostatic, num_probes), .when = PE_ON(PROBE), .def = 64, .min = 16, .max = 65536,
      .doc = "random vectors, a multiple of 8: the standard error falls with the root of their number; and landmarks" },
    { PE_INT(electrostatic, seed), .when = PE_ON(PROBE), .def = 0, .max = 9007199254740991.0,
      .doc = "of the random signs, which depend on seed, probe and edge or node alone" },
};

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, 10]",
      "min, max, mean, sample std (n - 1) of the potential of a charge here; the same of the potentials here; means over "
      "neighbours; method=probe: estimates",
      NULL },
    { "standard_error", "[num_nodes, 10]",
      "method=probe only: of the estimates, from the spread of the probes; of the minima, which are bounds from above, "
      "also how much the second half of the landmarks lowered them; 0 of the maxima, which are exact",
      NULL },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const electrostatic *p = r->params;
    if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        return posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true", "false; or on_directed=symmetrize");
    if (p->method == PROBE && p->num_probes % PE_WIDTH)
        return pe_invalid(err, "num_probes", posenc_text("%lld", (long long)p->num_probes), "a multiple of %d", PE_WIDTH);
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const electrostatic *p = r->params;
    const int64_t sizes[] = { r->graph->nodes, COLUMNS };
    posenc_status st = pe_output(out, "encoding", (posenc_dtype)r->common.dtype, 2, sizes, err);
    if (!st && p->method == PROBE)
        st = pe_output(out, "standard_error", (posenc_dtype)r->common.dtype, 2, sizes, err);
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

/* Right-hand sides of an estimate, eight at a time: edge signs, node signs, landmarks; and one panel for column 7. */
static double probe_panels(const electrostatic *p) { return 3 * (double)p->num_probes / PE_WIDTH + 1; }

/* [ns] of one by conjugate gradients in some thirty steps, as expanders take; roads take many more, and have factors. */
static double gradients_ns(double n, double arcs) { return 30 * ((n > 20000 ? 3 : 1) * (arcs + 8 * n)); }

/* The factor is taken where it is no larger than this and takes no longer than that. */
static const double fits = 1e9, quick = 2e10;

/* Graphs begin .. end - 1 taken apart, their charges, and what solves their small components. */
static uint64_t held_together(const posenc_graph *g, int64_t begin, int64_t end)
{
    const int64_t nodes = g->ptr[end] - g->ptr[begin];
    int64_t largest = 2;
    uint64_t held = (uint64_t)nodes * (sizeof(pe_charge) + sizeof(pe_charge_job) + sizeof(pe_part) + 16);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = g->ptr[i + 1] - g->ptr[i];
        held += pe_spectra_held(g, i, 0);
        largest = n > largest ? n : largest;
    }
    return held + pe_charges_bytes(largest < PE_CHARGE_ROWS ? largest : PE_CHARGE_ROWS, nodes);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const electrostatic *p = r->params;
    const posenc_graph *g = r->graph;
    uint64_t chunk = 0; /* what graphs that are solved together hold */
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t begin = 0, end; begin < g->ngraphs; begin = end) {
        end = pe_chunk_end(g, begin);
        const uint64_t held = held_together(g, begin, end);
        chunk = held > chunk ? held : chunk;
    }
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const double n = (double)(g->ptr[i + 1] - g->ptr[i]), m = (double)(g->arc_ptr[i + 1] - g->arc_ptr[i]);
        const uint64_t nodes = (uint64_t)n, edges = (uint64_t)m;
        uint64_t scratch = 700 * nodes + 160 * edges;
        const bool small = n <= PE_CHARGE_ROWS && p->method == EXACT; /* in lanes */
        out->ns += small ? 2000 + 100 * m + 100 * n + 0.1 * n * n * n : 5000 + 200 * m + 1500 * n;
        if (p->method == PROBE) {
            const double solve = pe_min(gradients_ns(n, 2 * m), 8 * fill(n, m) + 60 * n);
            out->ns += probe_panels(p) * solve + (double)p->num_probes * (60 * m + 250 * n);
            scratch += pe_ldl_bytes((int64_t)n, 2 * (int64_t)m, pe_min(fill(n, m), fits / 20)) + 1100 * nodes;
        } else {
            out->ns += small ? 0 : solve_ns(n, fill(n, m));
            scratch += pe_ldl_bytes((int64_t)n, 2 * (int64_t)m, fill(n, m));
        }
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
    out->scratch += chunk;
}

/* ---- the formula ---- */

typedef struct field {
    const electrostatic *p;
    pe_spectrum s;
    pe_charge *v;       /* (n) by place; exact only */
    const bool *done;   /* (n) at a component's first place: v holds already */
    struct estimate *e; /* probe only */
} field;

/* y + mean = L^+ of the unit vectors at places first .. first + count - 1 of a component, from its grounded inverse. */
static posenc_status columns(field *f, pe_ldl *ldl, int64_t first, int64_t count, double *x, double *y,
                             double mean[PE_WIDTH])
{
    const int64_t n = ldl->n;
    posenc_status st = PE_OK;
    double sum[PE_WIDTH] = { 0 };
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < PE_WIDTH; k++)
            x[i * PE_WIDTH + k] = (i == first + k && k < count ? 1 : 0) - 1 / (double)n;
        st = pe_pace_add(&f->s.pace, 8);
    }
    if (!st)
        st = pe_ldl_solve(ldl, x, y, &f->s.pace);
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < PE_WIDTH; k++)
            sum[k] += y[i * PE_WIDTH + k];
        st = pe_pace_add(&f->s.pace, 8);
    }
    for (int64_t k = 0; k < PE_WIDTH; k++)
        mean[k] = -sum[k] / (double)n;
    return st;
}

static posenc_status too_far_apart(posenc_error *err)
{
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "graph.edge_weight", "weights of very different size",
                       "weights that leave six digits: parts of the graph hang together by less than about 2^-33 of the "
                       "weights within them");
}

/* Uses the columns at places first .. of the component that begins at `begin`, whose nodes hold `at`. */
static posenc_status gather(field *f, int64_t begin, int64_t n, int64_t first, int64_t count, const double *y,
                            const double mean[PE_WIDTH], posenc_error *err)
{
    const pe_csr *a = &f->s.csr;
    pe_charge *at = f->v + begin;
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < count; k++)
        at[first + k].diagonal = y[(first + k) * PE_WIDTH + k] + mean[k];
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < count; k++) {
            pe_charge *own = &at[first + k];
            const double e = y[i * PE_WIDTH + k] + mean[k], v = y[i * PE_WIDTH + k] - y[(first + k) * PE_WIDTH + k];
            own->least = pe_min(own->least, e);
            own->most = pe_max(own->most, e);
            own->squares += e * e;
            at[i].row_least = pe_min(at[i].row_least, v);
            at[i].row_most = pe_max(at[i].row_most, v);
            at[i].dot += e * own->diagonal;
        }
        st = pe_pace_add(&f->s.pace, 10 * count);
    }
    for (int64_t k = 0; k < count && !st; k++) {
        const int32_t node = f->s.node[begin + first + k];
        double current = 1 - 1 / (double)n; /* what is left after all that flows out */
        for (int64_t j = a->ptr[node]; j < a->ptr[node + 1]; j++) {
            const int64_t i = f->s.place[a->col[j]] - begin;
            const double w = a->weight ? a->weight[j] : 1, share = w / a->degree[a->col[j]];
            const double v = y[i * PE_WIDTH + k] - y[(first + k) * PE_WIDTH + k];
            at[first + k].to += share * v;
            at[i].from += share * v;
            current += w * v;
        }
        if (!(fabs(current) <= 1e-8))
            return too_far_apart(err);
        st = pe_pace_add(&f->s.pace, 16 * (a->ptr[node + 1] - a->ptr[node]) + 8);
    }
    return st;
}

static const char instead[] = "method=probe estimates with a standard error; or a smaller or sparser graph";

/* A pivot far below its diagonal entry is what rounding left of it: then L^+ has fewer than six digits. */
static posenc_status check_pivots(const pe_ldl *ldl, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < ldl->rows && !st; k++) {
        if (!(ldl->pivot[k] > 0x1p-33 * ldl->lap->diagonal[ldl->order[k]]))
            return too_far_apart(err);
        st = pe_pace_add(pace, 4);
    }
    return st;
}

/* The factor of a component, or LIMIT where it would not fit the memory there is or would take too long. */
static posenc_status factor(pe_ldl *ldl, const pe_laplacian *lap, pe_pace *pace, posenc_error *err)
{
    posenc_status st = pe_ldl_order(ldl, lap->c, pace, err);
    if (st)
        return st;
    const uint64_t bytes = pe_ldl_bytes(lap->c->n, lap->c->ptr[lap->c->n], ldl->entries);
    if (pace->ctx && pace->ctx->memory_limit && bytes > pace->ctx->memory_limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph",
                           posenc_text("%llu bytes of work space", (unsigned long long)bytes).s, "at most %llu bytes: %s",
                           (unsigned long long)pace->ctx->memory_limit, instead);
    st = pe_check_time(2 * ldl->products + solve_ns((double)lap->c->n, ldl->entries), "graph", instead, err);
    if (!st)
        st = pe_ldl_factor(ldl, lap, pace, err);
    return st ? st : check_pivots(ldl, pace, err);
}

/* ---- estimates ---- */

enum { CHARGE, SQUARE, TO, FROM, TALLIES };
static const uint64_t landmark_stream = 1ull << 40; /* probe k has the streams 2k, of edges, and 2k + 1, of nodes */

/* The least over landmarks; `sought`: over those that were sought alone. */
typedef struct lowest {
    double column, sought_column; /* of (L^+)_lj */
    double row, sought_row;       /* of V_jl */
    double own;                   /* (L^+)_jj of a landmark; otherwise 0 */
} lowest;

/* What is known of a graph's nodes, by place. */
typedef struct estimate {
    pe_tally tally;        /* of p^2, r^2 + 2 p^2 / l, and what columns 8 and 9 need; probes: of the component at hand */
    double *part[TALLIES]; /* (n) what stands beside each mean, known exactly */
    double *charge;        /* (n, 8) c by groups of probes */
    double *spread;        /* (n, 8) (L^+2)_ii - 2 (L^+ c)_i by groups */
    double *total;         /* (num_probes) sum of p^2 over all nodes */
    lowest *low;           /* (n) */
} estimate;

static posenc_status estimate_init(estimate *e, int64_t n, int64_t probes, posenc_error *err)
{
    const size_t size = (size_t)n + 1;
    posenc_status st = pe_tally_init(&e->tally, n, TALLIES, err);
    bool ok = true;
    for (int i = 0; i < TALLIES; i++)
        ok = (e->part[i] = calloc(size, sizeof *e->part[i])) && ok;
    e->charge = calloc(size * PE_WIDTH, sizeof *e->charge);
    e->spread = calloc(size * PE_WIDTH, sizeof *e->spread);
    e->total = calloc((size_t)probes, sizeof *e->total);
    e->low = calloc(size, sizeof *e->low);
    return st || (ok && e->charge && e->spread && e->total && e->low) ? st : pe_no_memory("memory", err);
}

static void estimate_fini(estimate *e)
{
    pe_tally_fini(&e->tally);
    for (int i = 0; i < TALLIES; i++)
        free(e->part[i]);
    free(e->charge);
    free(e->spread);
    free(e->total);
    free(e->low);
}

/* One component while it is estimated. */
typedef struct probing {
    field *f;
    const pe_laplacian *lap;
    pe_ldl ldl;
    pe_cg cg;
    bool factored;
    int64_t begin, n;
    double *degree, *share; /* (n) D; sum over i of A_ij / D_i */
    double *x, *y, *p, *w;  /* panels */
    uint8_t *chosen;        /* (n) landmarks */
    int64_t *order;         /* (n) places by descending c, ids ascending */
    posenc_error *err;
} probing;

/* y = L^+ x, x anything */
static posenc_status pseudo_inverse(probing *q, double *x, double *y)
{
    enum { STEPS = 20000 };
    pe_pace *pace = &q->f->s.pace;
    posenc_status st = pe_panel_center(q->n, x, pace);
    if (st)
        return st;
    if (!q->factored)
        return pe_cg_solve(&q->cg, x, y, 1e-9, STEPS, pace, q->err);
    st = pe_ldl_solve(&q->ldl, x, y, pace);
    return st ? st : pe_panel_center(q->n, y, pace);
}

/* A factor where it is small, conjugate gradients elsewhere. */
static posenc_status choose_solver(probing *q)
{
    pe_pace *pace = &q->f->s.pace;
    const double n = (double)q->n;
    posenc_status st = pe_ldl_order(&q->ldl, q->lap->c, pace, q->err);
    if (st)
        return st;
    const uint64_t limit = pace->ctx && pace->ctx->memory_limit ? pace->ctx->memory_limit / 2 : UINT64_MAX;
    const uint64_t bytes = pe_ldl_bytes(q->n, q->lap->c->ptr[q->n], q->ldl.entries);
    const double ns = 2 * q->ldl.products + probe_panels(q->f->p) * (8 * q->ldl.entries + 60 * n);
    q->factored = bytes <= limit && (double)bytes < fits && ns < quick;
    if (!q->factored)
        return pe_cg_init(&q->cg, q->lap, q->err);
    st = pe_ldl_factor(&q->ldl, q->lap, pace, q->err);
    return st ? st : check_pivots(&q->ldl, pace, q->err);
}

/* x = B s: the random signs of the edges of this component times the roots of their weights, at both ends. */
static posenc_status edge_signs(probing *q, int64_t probe, double *x)
{
    enum { BLOCK = 256 };
    const pe_spectrum *s = &q->f->s;
    const pe_csr *a = &s->csr;
    pe_lanes *panel = (pe_lanes *)x;
    double u[PE_WIDTH][BLOCK];
    posenc_status st = pe_panel_zero(q->n, x, &q->f->s.pace);
    for (int64_t i = 0; i < q->n && !st; i++) {
        const int32_t node = s->node[q->begin + i];
        for (int64_t j = a->ptr[node]; j < a->ptr[node + 1] && !st; j += BLOCK) {
            const int64_t count = a->ptr[node + 1] - j < BLOCK ? a->ptr[node + 1] - j : BLOCK;
            if (a->col[j + count - 1] <= node) /* each edge at its lower end */
                continue;
            for (int k = 0; k < PE_WIDTH; k++)
                pe_random_uniform((uint64_t)q->f->p->seed, 2 * (uint64_t)(probe + k), (uint64_t)j, (size_t)count, u[k]);
            for (int64_t b = 0; b < count; b++) {
                if (a->col[j + b] <= node)
                    continue;
                const double root = a->weight ? sqrt(a->weight[j + b]) : 1;
                const int64_t other = s->place[a->col[j + b]] - q->begin;
                pe_lanes sign;
                for (int k = 0; k < PE_WIDTH; k++)
                    sign[k] = u[k][b] < 0.5 ? -root : root;
                panel[i] += sign;
                panel[other] -= sign;
            }
            st = pe_pace_add(&q->f->s.pace, 200 * count);
        }
    }
    return st;
}

/* x = B s for eight probes and what follows from L^+ x: p^2, columns 8 and 9. w: p^2 at the end. */
static posenc_status probe_edges(probing *q, int64_t probe)
{
    estimate *e = q->f->e;
    pe_pace *pace = &q->f->s.pace;
    const double *l = q->lap->diagonal;
    pe_lanes *x = (pe_lanes *)q->x, *y = (pe_lanes *)q->y, *p = (pe_lanes *)q->p, *w = (pe_lanes *)q->w, sum = { 0 };
    pe_loose_lanes *charge = (pe_loose_lanes *)e->charge + q->begin;
    posenc_status st = edge_signs(q, probe, q->p);
    if (!st)
        st = pe_pace_copy(pace, q->w, q->p, (size_t)(q->n * PE_WIDTH) * sizeof *q->w);
    if (!st)
        st = pseudo_inverse(q, q->w, q->y); /* y: L^+ B s */
    for (int64_t i = 0; i < q->n && !st; i++) {
        p[i] = y[i] - p[i] / l[i];
        x[i] = y[i] / q->degree[i];
        st = pe_pace_add(pace, 24);
    }
    if (!st)
        st = pe_laplacian_apply(q->lap, -1, 0, q->x, 0, NULL, q->w, pace);
    for (int64_t i = 0; i < q->n && !st; i++) {
        w[i] = p[i] * (l[i] * x[i] + w[i] - q->share[i] * p[i]);
        x[i] = p[i] * p[i];
        charge[i] += x[i];
        sum += x[i];
        st = pe_pace_add(pace, 40);
    }
    for (int k = 0; k < PE_WIDTH; k++)
        e->total[probe + k] += sum[k];
    if (!st)
        st = pe_tally_add(&e->tally, TO, q->begin, q->n, q->w, NULL, PE_WIDTH, pace);
    if (!st)
        st = pe_tally_add(&e->tally, CHARGE, q->begin, q->n, q->x, NULL, PE_WIDTH, pace);
    if (!st)
        st = pe_laplacian_apply(q->lap, 1, 0, q->x, 0, NULL, q->y, pace);
    for (int64_t i = 0; i < q->n && !st; i++) {
        y[i] /= q->degree[i];
        w[i] = x[i];
        st = pe_pace_add(pace, 24);
    }
    return st ? st : pe_tally_add(&e->tally, FROM, q->begin, q->n, q->y, NULL, PE_WIDTH, pace);
}

/* L^+ z for eight probes, and with the p^2 in w the diagonal of L^+2. */
static posenc_status probe_nodes(probing *q, int64_t probe)
{
    estimate *e = q->f->e;
    pe_pace *pace = &q->f->s.pace;
    const double *l = q->lap->diagonal;
    const int32_t *node = q->f->s.node + q->begin;
    pe_lanes *x = (pe_lanes *)q->x, *y = (pe_lanes *)q->y, *w = (pe_lanes *)q->w;
    pe_loose_lanes *spread = (pe_loose_lanes *)e->spread + q->begin;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < q->n && !st; i++) { /* a panel of signs has the streams of eight probes, every other one */
        for (int k = 0; k < PE_WIDTH; k++) {
            double u;
            pe_random_uniform((uint64_t)q->f->p->seed, 2 * (uint64_t)(probe + k) + 1, (uint64_t)node[i], 1, &u);
            q->x[i * PE_WIDTH + k] = u < 0.5 ? -1 : 1;
        }
        st = pe_pace_add(pace, 400);
    }
    if (!st)
        st = pseudo_inverse(q, q->x, q->y);
    for (int64_t i = 0; i < q->n && !st; i++) {
        const pe_lanes r = y[i] - x[i] / l[i];
        w[i] = r * r + 2 * w[i] / l[i];
        spread[i] += w[i];
        st = pe_pace_add(pace, 32);
    }
    return st ? st : pe_tally_add(&e->tally, SQUARE, q->begin, q->n, q->w, NULL, PE_WIDTH, pace);
}

/* What stands beside the means. */
static posenc_status exact_parts(probing *q)
{
    estimate *e = q->f->e;
    pe_pace *pace = &q->f->s.pace;
    const double n = (double)q->n, *l = q->lap->diagonal;
    const pe_component *m = q->lap->c;
    double **part = e->part;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < q->n && !st; i++) {
        q->degree[i] = m->degree[i];
        part[CHARGE][q->begin + i] = (1 - 2 / n) / l[i];
        part[SQUARE][q->begin + i] = (1 - 3 / n) / l[i] / l[i]; /* 2 (1 - 2 / n) - (1 - 1 / n) */
        st = pe_pace_add(pace, 16);
    }
    for (int64_t i = 0; i < q->n && !st; i++) {
        double sum = l[i] * part[CHARGE][q->begin + i];
        for (int64_t j = m->ptr[i]; j < m->ptr[i + 1]; j++) {
            const double w = m->weight ? m->weight[j] : 1;
            q->share[i] += w / m->degree[m->col[j]];
            sum -= w * part[CHARGE][q->begin + m->col[j]];
        }
        part[TO][q->begin + i] = -q->share[i] * (1 - 1 / n) / l[i];
        part[FROM][q->begin + i] = (sum - (1 - 1 / n)) / q->degree[i];
        st = pe_pace_add(pace, 8 * (m->ptr[i + 1] - m->ptr[i]) + 16);
    }
    return st;
}

/* Sums over the probes of a group become what is written of them: c, and with one more solution L^+2 - 2 L^+ c. */
static posenc_status finish_groups(probing *q)
{
    estimate *e = q->f->e;
    pe_pace *pace = &q->f->s.pace;
    const double count = (double)(q->f->p->num_probes / PE_WIDTH);
    pe_lanes *x = (pe_lanes *)q->x, *y = (pe_lanes *)q->y;
    pe_loose_lanes *charge = (pe_loose_lanes *)e->charge + q->begin, *spread = (pe_loose_lanes *)e->spread + q->begin;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < q->n && !st; i++) {
        charge[i] = charge[i] / count + e->part[CHARGE][q->begin + i];
        x[i] = charge[i];
        st = pe_pace_add(pace, 24);
    }
    if (!st)
        st = pseudo_inverse(q, q->x, q->y);
    for (int64_t i = 0; i < q->n && !st; i++) {
        spread[i] = spread[i] / count + e->part[SQUARE][q->begin + i] - 2 * y[i];
        st = pe_pace_add(pace, 24);
    }
    return st;
}

typedef struct ranked {
    double value;
    int64_t place;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Places by descending c: where potentials are lowest others are to be looked for. */
static posenc_status rank(probing *q)
{
    pe_pace *pace = &q->f->s.pace;
    ranked *r = malloc((size_t)(2 * q->n) * sizeof *r);
    posenc_status st = r ? PE_OK : pe_no_memory("memory", q->err);
    for (int64_t i = 0; i < q->n && !st; i++) {
        r[i] = (ranked){ q->f->e->tally.mean[CHARGE * q->f->e->tally.n + q->begin + i], i };
        r[i].value += q->f->e->part[CHARGE][q->begin + i];
        st = pe_pace_add(pace, 8);
    }
    if (!st)
        st = pe_sort(q->n, sizeof *r, r, r + q->n, by_rank, pace);
    for (int64_t i = 0; i < q->n && !st; i++) {
        q->order[i] = r[i].place;
        st = pe_pace_add(pace, 4);
    }
    free(r);
    return st;
}

/* Potentials of charges at `count` landmarks; lowest: where each is least. */
static posenc_status look_from(probing *q, const int64_t *landmark, int count, bool sought, int64_t *lowest_at)
{
    pe_pace *pace = &q->f->s.pace;
    lowest *low = q->f->e->low + q->begin;
    double least[PE_WIDTH];
    posenc_status st = pe_panel_zero(q->n, q->x, pace);
    for (int k = 0; k < count; k++) {
        q->x[landmark[k] * PE_WIDTH + k] = 1;
        least[k] = INFINITY;
    }
    if (!st)
        st = pseudo_inverse(q, q->x, q->y);
    for (int k = 0; k < count && !st; k++)
        low[landmark[k]].own = q->y[landmark[k] * PE_WIDTH + k];
    for (int64_t i = 0; i < q->n && !st; i++) {
        for (int k = 0; k < count; k++) {
            const double v = q->y[i * PE_WIDTH + k], seen = v - q->y[landmark[k] * PE_WIDTH + k];
            low[i].column = pe_min(low[i].column, v);
            low[i].row = pe_min(low[i].row, seen);
            if (v < least[k]) {
                least[k] = v;
                lowest_at[k] = i;
            }
        }
        if (sought) {
            low[i].sought_column = low[i].column;
            low[i].sought_row = low[i].row;
        }
        st = pe_pace_add(pace, 8 * count + 8);
    }
    return st;
}

/* Landmarks: first the nodes of largest c, then those where the potentials of the last ones were least; then random ones. */
static posenc_status look_around(probing *q)
{
    const int64_t panels = q->f->p->num_probes / PE_WIDTH;
    int64_t next = 0, found[PE_WIDTH] = { 0 };
    int before = 0;
    posenc_status st = rank(q);
    for (int64_t i = 0; i < q->n && !st; i++) {
        q->f->e->low[q->begin + i] = (lowest){ INFINITY, INFINITY, INFINITY, INFINITY, 0 };
        st = pe_pace_add(&q->f->s.pace, 8);
    }
    for (int64_t panel = 0; panel < panels && !st; panel++) {
        const bool sought = 2 * panel < panels;
        int64_t landmark[PE_WIDTH];
        int count = 0;
        for (int k = 0; k < PE_WIDTH; k++) {
            int64_t at = q->n;
            if (sought) {
                at = k < before && !q->chosen[found[k]] ? found[k] : q->n;
                for (; at == q->n && next < q->n; next++)
                    at = q->chosen[q->order[next]] ? q->n : q->order[next];
            } else {
                double u;
                pe_random_uniform((uint64_t)q->f->p->seed, landmark_stream, (uint64_t)(panel * PE_WIDTH + k), 1, &u);
                at = (int64_t)(u * (double)q->n);
                at = q->chosen[at] ? q->n : at;
            }
            if (at == q->n)
                continue;
            q->chosen[at] = 1;
            landmark[count++] = at;
        }
        if (count)
            st = look_from(q, landmark, count, sought, found);
        before = count;
    }
    return st;
}

static posenc_status estimate_component(field *f, int64_t c, const pe_laplacian *lap, posenc_error *err)
{
    const size_t n = (size_t)lap->c->n;
    probing q = { .f = f, .lap = lap, .begin = f->s.begin[c], .n = lap->c->n, .err = err };
    q.degree = malloc(n * sizeof *q.degree);
    q.share = calloc(n, sizeof *q.share);
    q.chosen = calloc(n, 1);
    q.order = malloc(n * sizeof *q.order);
    q.x = pe_panel_new(q.n);
    q.y = pe_panel_new(q.n);
    q.p = pe_panel_new(q.n);
    q.w = pe_panel_new(q.n);
    posenc_status st = PE_OK;
    if (!q.degree || !q.share || !q.chosen || !q.order || !q.x || !q.y || !q.p || !q.w)
        st = pe_no_memory("memory", err);
    if (!st && !(st = choose_solver(&q)))
        st = exact_parts(&q);
    f->e->tally.probes = 0;
    for (int64_t probe = 0; probe < f->p->num_probes && !st; probe += PE_WIDTH) {
        if (!(st = probe_edges(&q, probe)))
            st = probe_nodes(&q, probe);
        f->e->tally.probes += PE_WIDTH;
    }
    if (!st && !(st = finish_groups(&q)))
        st = look_around(&q);
    pe_ldl_fini(&q.ldl);
    pe_cg_fini(&q.cg);
    free(q.degree);
    free(q.share);
    free(q.chosen);
    free(q.order);
    free(q.x);
    free(q.y);
    free(q.p);
    free(q.w);
    return st;
}

/* ---- exact, component by component ---- */

static posenc_status component(field *f, int64_t c, posenc_error *err)
{
    pe_spectrum *s = &f->s;
    const int64_t begin = s->begin[c], n = s->begin[c + 1] - begin;
    if (n == 1 || (!f->e && f->done[begin]))
        return pe_pace_add(&s->pace, 4);
    pe_part part;
    pe_laplacian lap = { 0 };
    pe_ldl ldl = { 0 };
    double *x = NULL, *y = NULL, mean[PE_WIDTH];
    posenc_status st = pe_spectrum_part(s, c, &part, err);
    if (st)
        return st;
    if ((st = pe_laplacian_init(&lap, &part.m, &s->pace, err)))
        goto done;
    if (f->e) {
        st = estimate_component(f, c, &lap, err);
        goto done;
    }
    if ((st = factor(&ldl, &lap, &s->pace, err)))
        goto done;
    x = pe_panel_new(n);
    y = pe_panel_new(n);
    if (!x || !y)
        st = pe_no_memory("memory", err);
    for (int64_t i = begin; i < begin + n && !st; i++)
        f->v[i] = (pe_charge){ .least = INFINITY, .most = -INFINITY, .row_least = INFINITY, .row_most = -INFINITY };
    for (int64_t first = 0; first < n && !st; first += PE_WIDTH) {
        const int64_t count = n - first < PE_WIDTH ? n - first : PE_WIDTH;
        if (!(st = columns(f, &ldl, first, count, x, y, mean)))
            st = gather(f, begin, n, first, count, y, mean, err);
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
        const pe_charge *v = &f->v[i];
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
            row[k] = (isnan(row[k]) ? INFINITY : s->exponent ? ldexp(row[k], -s->exponent) : row[k]) + 0.0;
        if (!(st = pe_pace_add(&j->pace, 60)))
            st = pe_graph_store(pe_tensor(j->out, "encoding"), (j->first + s->node[i]) * COLUMNS, row, COLUMNS, &j->pace,
                                err);
    }
    return st;
}

/* The rows of all nodes, from what was gathered. */
static posenc_status write_exact(const field *f, pe_graph_job *j, posenc_error *err)
{
    extremes e = { .most = { -INFINITY, -INFINITY }, .least = { INFINITY, INFINITY }, .owner = { -1, -1 } };
    double trace = 0, squares = 0;
    posenc_status st = PE_OK;
    const int64_t nc = f->s.csr.ncomponents;
    for (int64_t c = 0; c < nc && !st; c++) {
        double most = -INFINITY, least = INFINITY;
        for (int64_t i = f->s.begin[c]; i < f->s.begin[c + 1]; i++) {
            most = pe_max(most, f->v[i].diagonal);
            least = pe_min(least, f->v[i].diagonal);
            trace += f->v[i].diagonal;
        }
        note(&e, c, most, least);
        st = pe_pace_add(&j->pace, 6 * (f->s.begin[c + 1] - f->s.begin[c]) + 8);
    }
    const double tau = j->n ? trace / (double)j->n : 0;
    for (int64_t i = 0; i < j->n && !st; i++) {
        squares += (f->v[i].diagonal - tau) * (f->v[i].diagonal - tau);
        st = pe_pace_add(&j->pace, 4);
    }
    for (int64_t c = 0; c < nc && !st; c++)
        st = write(f, c, &e, tau, squares, j, err);
    return st;
}

/* What a graph's groups of probes say of sum over j of (c_j - tau)^2: products of two groups, that are independent. */
typedef struct variation {
    double all, without[PE_WIDTH]; /* from all groups; from all but one */
    double tau, tau_error;         /* the mean of c */
} variation;

static posenc_status vary(const field *f, pe_graph_job *j, variation *out)
{
    const estimate *e = f->e;
    const double n = j->n ? (double)j->n : 1, probes = (double)f->p->num_probes;
    double product[PE_WIDTH][PE_WIDTH] = { 0 }, sum[PE_WIDTH] = { 0 }, both = 0, mean = 0, squares = 0;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < j->n && !st; i++) {
        for (int k = 0; k < PE_WIDTH; k++)
            sum[k] += e->charge[i * PE_WIDTH + k];
        st = pe_pace_add(&j->pace, 8);
    }
    for (int64_t i = 0; i < j->n && !st; i++) {
        for (int a = 0; a < PE_WIDTH; a++)
            for (int b = 0; b < PE_WIDTH; b++)
                product[a][b] += (e->charge[i * PE_WIDTH + a] - sum[a] / n) * (e->charge[i * PE_WIDTH + b] - sum[b] / n);
        st = pe_pace_add(&j->pace, 100);
    }
    *out = (variation){ 0 };
    for (int a = 0; a < PE_WIDTH; a++) {
        out->tau += sum[a] / n / PE_WIDTH;
        for (int b = 0; b < PE_WIDTH; b++) {
            both += a != b ? product[a][b] : 0;
            out->without[a] += a != b ? product[a][b] : 0;
        }
    }
    for (int a = 0; a < PE_WIDTH; a++)
        out->without[a] = (both - 2 * out->without[a]) / ((PE_WIDTH - 1) * (PE_WIDTH - 2));
    out->all = both / (PE_WIDTH * (PE_WIDTH - 1));
    for (int64_t k = 0; k < f->p->num_probes; k++)
        mean += e->total[k] / probes;
    for (int64_t k = 0; k < f->p->num_probes; k++)
        squares += (e->total[k] - mean) * (e->total[k] - mean);
    out->tau_error = sqrt(squares / (probes - 1) / probes) / n;
    return st ? st : pe_pace_add(&j->pace, 8 * f->p->num_probes);
}

static double root(double x) { return x > 0 ? sqrt(x) : 0; }

/* Column 7 of the node at place i, and by leaving out one group after the other its error. */
static double spread_of(const field *f, int64_t i, const variation *v, double count, double *error)
{
    const double *group = f->e->spread + i * PE_WIDTH;
    double sum = 0, mean = 0, squares = 0, without[PE_WIDTH];
    for (int k = 0; k < PE_WIDTH; k++)
        sum += group[k];
    for (int k = 0; k < PE_WIDTH; k++) {
        without[k] = root(((sum - group[k]) / (PE_WIDTH - 1) + v->without[k]) / count);
        mean += without[k] / PE_WIDTH;
    }
    for (int k = 0; k < PE_WIDTH; k++)
        squares += (without[k] - mean) * (without[k] - mean);
    *error = sqrt(squares * (PE_WIDTH - 1) / PE_WIDTH);
    return root((sum / PE_WIDTH + v->all) / count);
}

/* The rows of the nodes of component c: estimates and their errors.
 *   outside   the largest known c of the other components, 0 or more; -INFINITY: there are none */
static posenc_status write_estimates(const field *f, int64_t c, double outside, const variation *v, pe_graph_job *j,
                                     posenc_error *err)
{
    const estimate *e = f->e;
    const pe_spectrum *s = &f->s;
    const double count = j->n > 1 ? (double)j->n - 1 : 1;
    const int64_t n = s->begin[c + 1] - s->begin[c], probes = f->p->num_probes;
    posenc_status st = PE_OK;
    for (int64_t i = s->begin[c]; i < s->begin[c + 1] && !st; i++) {
        const lowest *low = &e->low[i];
        const bool alone = outside < 0;
        double mean[TALLIES], error[TALLIES], spread_error;
        for (int k = 0; k < TALLIES; k++) {
            mean[k] = e->tally.mean[k * e->tally.n + i] + e->part[k][i];
            error[k] = n > 1 ? pe_tally_error(&e->tally, k, i, probes) : 0;
        }
        const double column = alone ? low->column : pe_min(low->column, 0),
                     seen = alone ? low->row : pe_min(low->row, -outside);
        const double sought = alone ? low->sought_column : pe_min(low->sought_column, 0);
        const double was_seen = alone ? low->sought_row : pe_min(low->sought_row, -outside);
        const double deviation = root(mean[SQUARE] / count), seen_spread = spread_of(f, i, v, count, &spread_error);
        double row[COLUMNS] = { column - mean[CHARGE], 0,        -mean[CHARGE], deviation, seen, 0, -v->tau,
                                seen_spread,           mean[TO], mean[FROM] };
        double errors[COLUMNS] = { error[CHARGE] + (sought - column),
                                   0,
                                   error[CHARGE],
                                   deviation > 0 ? error[SQUARE] / (2 * deviation * count) : 0,
                                   was_seen - seen,
                                   0,
                                   v->tau_error,
                                   spread_error,
                                   error[TO],
                                   error[FROM] };
        for (int k = 0; k < COLUMNS; k++) {
            row[k] = isnan(row[k]) ? INFINITY : ldexp(row[k], -s->exponent) + 0.0;
            errors[k] = isnan(errors[k]) ? INFINITY : ldexp(errors[k], -s->exponent);
        }
        const int64_t at = (j->first + s->node[i]) * COLUMNS;
        if (!(st = pe_pace_add(&j->pace, 300)) &&
            !(st = pe_graph_store(pe_tensor(j->out, "encoding"), at, row, COLUMNS, &j->pace, err)))
            st = pe_graph_store(pe_tensor(j->out, "standard_error"), at, errors, COLUMNS, &j->pace, err);
    }
    return st;
}

static posenc_status write_all_estimates(const field *f, pe_graph_job *j, posenc_error *err)
{
    const int64_t nc = f->s.csr.ncomponents;
    double most = -INFINITY, second = -INFINITY; /* known c of components: what the others see of them */
    int64_t owner = -1;
    variation v;
    posenc_status st = vary(f, j, &v);
    for (int64_t c = 0; c < nc && !st; c++) {
        double known = 0;
        for (int64_t i = f->s.begin[c]; i < f->s.begin[c + 1]; i++)
            known = pe_max(known, f->e->low[i].own);
        second = known > most ? most : pe_max(second, known);
        owner = known > most ? c : owner;
        most = pe_max(most, known);
        st = pe_pace_add(&j->pace, 4 * (f->s.begin[c + 1] - f->s.begin[c]) + 8);
    }
    for (int64_t c = 0; c < nc && !st; c++)
        st = write_estimates(f, c, c == owner ? second : most, &v, j, err);
    return st;
}

/* ---- a chunk of graphs ---- */

/* Graphs that are taken apart together; their small components are solved together. */
typedef struct together {
    pe_spectra spectra;
    int64_t first;     /* node */
    pe_charge *charge; /* (nodes of the chunk), by place within each graph; exact only, as is: */
    bool *done;        /* (nodes of the chunk) at a component's first place: charge holds */
} together;

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    together *t = self;
    const electrostatic *p = j->request->params;
    estimate e = { 0 };
    field f = { .p = p, .e = p->method == PROBE ? &e : NULL };
    if (!f.e) {
        f.v = t->charge + (j->first - t->first);
        f.done = t->done + (j->first - t->first);
    }
    posenc_status st = pe_spectra_take(&t->spectra, j->request->graph, j->graph, &f.s, j->ctx, err);
    if (!st && f.e)
        st = estimate_init(&e, j->n, p->num_probes, err);
    for (int64_t c = 0; c < f.s.csr.ncomponents && !st; c++)
        st = component(&f, c, err);
    if (!st)
        st = f.e ? write_all_estimates(&f, j, err) : write_exact(&f, j, err);
    if (!st)
        j->zero_edges = f.s.csr.zero_edges;
    estimate_fini(&e);
    pe_spectrum_fini(&f.s);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const electrostatic *p = j->request->params;
    (void)self;
    posenc_status st = pe_spoil(pe_tensor(j->out, "encoding"), j->first, j->n, &j->pace);
    return st || p->method == EXACT ? st : pe_spoil(pe_tensor(j->out, "standard_error"), j->first, j->n, &j->pace);
}

static int64_t no_pairs(const void *arg, const pe_spectrum *s, int64_t c, int64_t zeros)
{
    (void)arg, (void)s, (void)c, (void)zeros;
    return 0;
}

/* The small components of all graphs that can be taken apart. */
static posenc_status solve_together(together *t, const pe_graph_chunk *c, posenc_error *err)
{
    const posenc_graph *g = c->request->graph;
    posenc_status st = PE_OK;
    pe_pace pace = { .ctx = c->ctx, .left = PE_PACE_STEPS };
    int64_t most = 0, n = 0;
    for (int64_t i = 0; i < t->spectra.count; i++)
        most += t->spectra.s[i].csr.ncomponents;
    pe_charge_job *job = malloc((size_t)(most + 1) * sizeof *job);
    bool **done = malloc((size_t)(most + 1) * sizeof *done);
    pe_part *part = malloc((size_t)(most + 1) * sizeof *part);
    if (!job || !done || !part)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < t->spectra.count && !st; i++) {
        pe_spectrum *s = &t->spectra.s[i];
        const int64_t first = g->ptr[c->begin + i] - t->first;
        for (int64_t k = 0; s->pairs && k < s->csr.ncomponents && !st; k++) {
            const int64_t size = s->begin[k + 1] - s->begin[k];
            if ((st = pe_pace_add(&pace, 8)) || size < 2 || size > PE_CHARGE_ROWS)
                continue;
            if (!(st = pe_spectrum_part(s, k, &part[n], err))) {
                job[n] = (pe_charge_job){ .c = part[n].m, .at = t->charge + first + s->begin[k] };
                done[n++] = t->done + first + s->begin[k];
            }
        }
    }
    if (!st)
        st = pe_charges(job, n, &pace, err);
    for (int64_t i = 0; i < n; i++) {
        *done[i] = !st && job[i].done;
        pe_part_fini(&part[i]);
    }
    free(part);
    free(done);
    free(job);
    return st;
}

static void release(together *t)
{
    pe_spectra_fini(&t->spectra);
    free(t->charge);
    free(t->done);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    together *t = copy;
    const electrostatic *p = c->request->params;
    const posenc_graph *g = c->request->graph;
    const pe_spectrum_options options = { .edges = p->edges, .normalization = PE_LAPLACIAN_NONE };
    const size_t nodes = (size_t)(g->ptr[c->end] - g->ptr[c->begin]) + 1;
    *t = (together){ .first = g->ptr[c->begin] };
    posenc_status st = pe_spectra_init(&t->spectra, c, &options, no_pairs, NULL, err);
    if (!st && p->method == EXACT) {
        t->charge = calloc(nodes, sizeof *t->charge);
        t->done = calloc(nodes, sizeof *t->done);
        st = t->charge && t->done ? solve_together(t, c, err) : pe_no_memory("memory", err);
    }
    if (st)
        release(t);
    return st;
}

static void end(void *copy, void *self)
{
    (void)self;
    release(copy);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    together all = { 0 };
    const pe_graph_task task = {
        .encode = encode, .spoil = spoil, .self = &all, .size = sizeof all, .begin = begin, .end = end
    };
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
    .revision = 4,
    .input = PE_GRAPH,
    PE_TABLE(electrostatic, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
