/* magnetic_laplacian.c - eigenvectors of the magnetic Laplacian, which sees the direction of arcs.
 *
 *   H = D - S o exp(i Theta),  Theta_uv = 2 pi q (A_uv - A_vu),  S symmetric, D its row sums;  sym: D^-1/2 H D^-1/2
 * Hermitian and positive semidefinite; eigenvalues of sym lie in [0, 2].
 *
 * The peers differ in S and in q, hence two parameters:
 *   symmetrize=mean   S = (A + A^T) / 2: a one-way arc counts half (MagNet, PyTorch Geometric Signed Directed)
 *   symmetrize=max    S = max(A, A^T): one-way and two-way arcs count alike (digraph_transformer)
 *   q_absolute=false  q is divided by min(pairs of nodes with A_uv != A_vu, n), at least 1 (digraph_transformer)
 *
 * Defined here:
 *   - The phase of a column, which a Hermitian matrix leaves open: the entry at the column's pivot is real and positive.
 *     Pivot and the basis within a repeated eigenvalue are those of `laplacian`, see linalg/unitary.h; where everything is
 *     real (q=0, an undirected graph) the columns are `laplacian`'s of S. digraph_transformer turns rows by the phase of one
 *     of them, which depends on the solver.
 *   - A component whose turns around every cycle are whole (trees; everything at q=0) has the eigenvalue 0, exactly; those
 *     null vectors come first and are a cluster of their own, as in `laplacian`.
 *   - An isolated node has 1 (`isolated=one`, sym) or 0. digraph_transformer sets degrees below 1 to 1, which changes
 *     nothing at its weights of 1; weights below 1 are taken as they are here.
 *   - Columns that the graph does not have: pad_value in the vectors, NaN in eigenvalues and residuals, determined 0.
 *
 * Sources: Zhang et al. 2021, MagNet, arXiv:2102.11391; Geisler et al. 2023, Transformers meet directed graphs,
 * arXiv:2302.00049, digraph_transformer utils.py, eigv_magnetic_laplacian_numba. */
#include "core/exact.h"
#include "graph/batch.h"
#include "graph/magnetic.h"
#include "graph/spectrum.h"
#include "graph/store.h"
#include "linalg/sort.h"
#include "linalg/unitary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NONE, SYM };
enum { MEAN, MAX };
enum { SKIP_FIRST, SKIP_NONE, SKIP_ALL_ZERO, SKIP_PER_COMPONENT };

static const char *const normalizations[] = { "none", "sym", NULL };
static const char *const symmetrizes[] = { "mean", "max", NULL };
static const char *const skips[] = { "first", "none", "all_zero", "per_component", NULL };

typedef struct magnetic_laplacian {
    posenc_given given;
    int64_t k, k_excl, max_iter;
    double q, pad_value, tol;
    int normalization, symmetrize, skip, isolated;
    pe_csr_options edges;
    bool q_absolute, padding, allow_partial;
} magnetic_laplacian;

static const posenc_param rows[] = {
    { PE_INT(magnetic_laplacian, k), .def = 8, .min = 1, .max = 4096, .doc = "eigenvectors per node" },
    { PE_REAL(magnetic_laplacian, q), .def = 0.25, .max = 0.5,
      .doc = "turns of a one-way arc of weight 1; 0: the real Laplacian of the symmetrised graph" },
    { PE_BOOL(magnetic_laplacian, q_absolute), .def = 1,
      .doc = "false: q divided by min(one-way pairs, nodes), at least 1 (digraph_transformer)" },
    { PE_ENUM(magnetic_laplacian, symmetrize), .names = symmetrizes, .def = MEAN,
      .doc = "mean: a one-way arc counts half (MagNet); max: as much as a two-way one (digraph_transformer)" },
    { PE_ENUM(magnetic_laplacian, normalization), .names = normalizations, .def = SYM, .doc = "H, or D^-1/2 H D^-1/2" },
    { PE_ENUM(magnetic_laplacian, skip), .names = skips, .def = SKIP_FIRST,
      .doc = "columns left out at the start: one; none; the null space; one in each component, solved alone" },
    { PE_INT(magnetic_laplacian, k_excl), .flags = PE_OPTIONAL, .max = 4096,
      .doc = "columns left out at the start, as a number; 0 is skip=none, 1 is skip=first" },
    { PE_ROW_IN(magnetic_laplacian, edges, self_loops, PE_T_ENUM, int), .names = pe_self_loops_words, .def = PE_LOOPS_DROP,
      .doc = "keep: a loop adds its weight to the diagonal of A and to the degree" },
    { PE_ROW_IN(magnetic_laplacian, edges, duplicate_edges, PE_T_ENUM, int), .names = pe_duplicate_edges_words,
      .def = PE_DUPLICATES_SUM, .doc = "parallel arcs: weights summed, the larger one, or an error" },
    { PE_ENUM(magnetic_laplacian, isolated), .names = pe_isolated_words, .def = PE_ISOLATED_ONE,
      .doc = "eigenvalue of a node without edges in sym" },
    { PE_BOOL(magnetic_laplacian, padding), .def = 1, .doc = "pad columns that do not exist; false: they are an error" },
    { PE_REAL(magnetic_laplacian, pad_value), .flags = PE_NAN, .def = 0,
      .doc = "value of padded columns of eigenvectors; a number or nan" },
    { PE_REAL(magnetic_laplacian, tol), .def = 1e-10, .min = 1e-14, .max = 1e-2,
      .doc = "bound on residuals, relative to about 3; none: to 3 times the largest degree" },
    { PE_INT(magnetic_laplacian, max_iter), .def = 0, .max = 1e6,
      .doc = "restarts of the iterative solver; 0: its default" },
    PE_PARTIAL_ROW(magnetic_laplacian,
                   "the eigenvectors found until then, with a warning, NaN in the other columns, determined 0"),
};

static const posenc_output outputs[] = {
    { "eigenvectors_real", "[num_nodes, k]", "real part, one column per eigenvector, ascending by eigenvalue", NULL },
    { "eigenvectors_imag", "[num_nodes, k]", "imaginary part", NULL },
    { "eigenvalues", "[k], [G, k] of a batch, [num_nodes, k] per_component", "NaN where a column is padding", NULL },
    { "residuals", "[k] or [G, k]",
      "||H v - lambda v||_2 of the unit vector in float64 (per_component: the largest); NaN where a column is padding",
      "float64" },
    { "determined", "[k] or [G, k]",
      "1: a relabelled copy of the graph gets the same column within 1e-6, rows permuted; 0: symmetry or a small gap leaves "
      "a choice",
      "uint8" },
    { "multiplicity_cut", "[1] or [G]", "1: the last column divides a repeated eigenvalue", "uint8" },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

/* k_excl of 0 and 1 are folded into skip, so that both spellings are one request with one digest. */
static posenc_status check(posenc_request *r, posenc_error *err)
{
    magnetic_laplacian *p = r->params;
    posenc_status st = PE_OK;
    if (pe_given(r, "k_excl")) {
        const int stands_for = p->k_excl == 0 ? SKIP_NONE : SKIP_FIRST;
        if (pe_given(r, "skip") && p->skip != stands_for)
            st = pe_invalid(err, "skip", posenc_text("%s", skips[p->skip]), "skip or k_excl, not both");
        if (p->k_excl < 2) {
            p->skip = stands_for;
            p->k_excl = 0;
            p->given &= ~(1ull << (posenc_row(&r->encoding->table, "k_excl") - rows));
        }
    }
    if (pe_check_partial(r, p->allow_partial, err))
        st = PE_INVALID;
    if (!r->graph->batched && pe_check_twice(r->graph->nodes, err)) /* a batch says it in its status */
        st = PE_LIMIT;
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const magnetic_laplacian *p = r->params;
    const posenc_dtype t = (posenc_dtype)r->common.dtype;
    const int batch = r->graph->batched;
    const int64_t per_node[] = { r->graph->nodes, p->k }, per_graph[] = { r->graph->ngraphs, p->k };
    const int64_t *columns = batch ? per_graph : per_graph + 1;
    posenc_status st = pe_output(out, "eigenvectors_real", t, 2, per_node, err);
    if (!st)
        st = pe_output(out, "eigenvectors_imag", t, 2, per_node, err);
    if (!st)
        st = p->skip == SKIP_PER_COMPONENT ? pe_output(out, "eigenvalues", t, 2, per_node, err)
                                           : pe_output(out, "eigenvalues", t, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "residuals", PE_float64, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "determined", PE_uint8, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "multiplicity_cut", PE_uint8, 1, per_graph, err);
    return st ? st : pe_status_output(r, out, err);
}

/* [ns] as `laplacian`, for the real matrix: of twice the size where arcs turn. */
static double solver_ns(bool turns, double n, double m, double k)
{
    n *= turns ? 2 : 1;
    m *= turns ? 4 : 1;
    k *= turns ? 2 : 1;
    const double touched = pe_min(n, 2 * m), dense = n * n * n + 128 * n * n;
    if (n <= 128 || n < 2 * k + 2 * pe_min(k, 64) + 97)
        return dense;
    const double each = pe_min(m / pe_max(touched, 1), 8);
    return pe_min(dense, 3500 * touched * (1 + each * each / 3) * (0.75 + k / 32) + 6.3 * touched * k * k);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const magnetic_laplacian *p = r->params;
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        double n = (double)(g->ptr[i + 1] - g->ptr[i]), m = (double)(g->arc_ptr[i + 1] - g->arc_ptr[i]);
        double k = (double)(p->k + p->k_excl);
        out->ns += 8000 + 600 * m + (500 + 60 * k) * n + solver_ns(g->directed && p->q > 0, n, m, k);
        int64_t nodes = (int64_t)n, arcs = 2 * (int64_t)m, want = (int64_t)pe_min(k, n) + 1;
        uint64_t scratch = pe_magnetic_bytes(nodes, arcs, want) + 48 * pe_spectrum_extra_numbers(nodes);
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- columns of a run of components ---- */

typedef struct columns {
    int64_t n, count;                  /* places; columns that exist, at most k */
    double *v;                         /* (count, 2 n) */
    double *value, *residual;          /* (count) */
    uint8_t *determined;               /* (count) */
    int64_t missing;                   /* of count, at the end: not found before the deadline */
    bool early;                        /* the eigenvectors are perhaps not the smallest: a solver was stopped */
    bool cut, partial, trivial, loose; /* as in `laplacian` */
    double worst;                      /* residual of those that are over what tol allows */
    void *memory;
} columns;

static void columns_fini(columns *c)
{
    free(c->memory);
    *c = (columns){ 0 };
}

static int by_value(const void *a, const void *b)
{
    const pe_eigenpair *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* All pairs known of the components c0 .. c1 - 1: null vectors, then the others ascending. */
static posenc_status list_pairs(pe_magnetic *m, int64_t c0, int64_t c1, pe_eigenpair **out, int64_t *n, posenc_error *err)
{
    int64_t total = 1, count = 0;
    posenc_status st = PE_OK;
    for (int64_t c = c0; c < c1 && !st; c++) {
        total += 1 + m->pairs[c].count;
        st = pe_pace_add(&m->pace, 8);
    }
    if (st)
        return st;
    pe_eigenpair *e = malloc((size_t)total * sizeof *e), *other = malloc((size_t)total * sizeof *e);
    if (!e || !other)
        st = pe_no_memory("memory", err);
    for (int64_t c = c0; c < c1 && !st; c++) {
        if (m->null[c]) {
            e[count] = (pe_eigenpair){ 0, c, count, m->unit + 2 * m->begin[c], 0 };
            count++;
        }
        st = pe_pace_add(&m->pace, 16);
    }
    const int64_t zeros = count;
    for (int64_t c = c0; c < c1 && !st; c++) {
        const pe_complex_pairs *q = &m->pairs[c];
        const int64_t size = m->begin[c + 1] - m->begin[c];
        if (size == 1 && !m->null[c]) {
            e[count] = (pe_eigenpair){ m->single[c], c, count, m->unit + 2 * m->begin[c], 0 };
            count++;
        }
        for (int64_t j = 0; j < q->count && !st; j++, count++) {
            e[count] = (pe_eigenpair){ pe_eigenvalue(q->values[j], m->o.normalized), c, count, q->vectors + 2 * j * size,
                                       0 };
            st = pe_magnetic_residual(m, e[count].v, e[count].value, size, m->begin[c], &e[count].residual);
        }
        st = st ? st : pe_pace_add(&m->pace, 16 + 16 * q->count);
    }
    if (!st)
        st = pe_sort(count - zeros, sizeof *e, e + zeros, other, by_value, &m->pace);
    free(other);
    *out = e;
    *n = count;
    return st;
}

/* Writes columns `from` .. `to` - 1, as far as they belong to the cluster e[a] .. e[b - 1]. */
static posenc_status write_cluster(pe_canonical *w, pe_eigenpair *e, int64_t a, int64_t b, int64_t from, int64_t to,
                                   columns *out, int64_t origin, posenc_error *err)
{
    const int64_t m = b - a, count = (to < b ? to : b) - a, skip = from > a ? from - a : 0;
    posenc_status st = PE_OK;
    uint8_t *determined = calloc((size_t)count, 1);
    pe_block_vector *basis = malloc((size_t)m * sizeof *basis);
    pe_eigenpair *other = malloc((size_t)m * sizeof *other);
    double *spare = skip ? calloc((size_t)(2 * count * out->n), sizeof *spare) : NULL; /* the columns with those skipped */
    double *v = skip ? spare : out->v + 2 * (a - from) * out->n;
    if (!determined || !basis || !other || (skip && !spare)) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    st = pe_sort(m, sizeof *e, e + a, other, pe_eigenpair_by_order, w->pace);
    for (int64_t j = 0; j < m && !st; j++) {
        basis[j] = (pe_block_vector){ e[a + j].component, e[a + j].v };
        st = pe_pace_add(w->pace, 16);
    }
    if (!st)
        st = pe_unitary_columns(w, basis, m, count, v, out->n, origin, determined, err);
    if (!st && skip)
        st = pe_pace_copy(w->pace, out->v + 2 * (a + skip - from) * out->n, spare + 2 * skip * out->n,
                          (size_t)(2 * (count - skip) * out->n) * sizeof *v);
    for (int64_t j = skip; j < count; j++)
        out->determined[a + j - from] = determined[j];
done:
    free(determined);
    free(basis);
    free(other);
    free(spare);
    return st;
}

static posenc_status too_few(const magnetic_laplacian *p, int64_t count, int64_t n, posenc_error *err)
{
    return pe_invalid(err, "k", posenc_text("%lld", (long long)p->k), "at most %lld with padding=false: n = %lld nodes%s",
                      (long long)count, (long long)n, p->skip == SKIP_PER_COMPONENT ? " of a component" : "");
}

/* The columns asked for of the graph made of the components c0 .. c1 - 1. */
static posenc_status select_columns(const magnetic_laplacian *p, pe_magnetic *m, pe_canonical *w, int64_t c0, int64_t c1,
                                    columns *out, posenc_context *ctx, pe_grace *grace, posenc_error *err)
{
    const int64_t origin = m->begin[c0], n = m->begin[c1] - origin;
    int64_t zeros = 0, nentries = 0;
    posenc_status st = PE_OK;
    pe_eigenpair *e = NULL;
    for (int64_t c = c0; c < c1; c++) {
        zeros += m->null[c];
        if ((st = pe_pace_add(&m->pace, 2)))
            return st;
    }
    const int64_t from = p->k_excl ? p->k_excl : p->skip == SKIP_NONE ? 0 : p->skip == SKIP_ALL_ZERO ? zeros : 1;
    const int64_t count = n <= from ? 0 : n - from < p->k ? n - from : p->k, to = from + count;
    if (!p->padding && count < p->k)
        return too_few(p, count, n, err);
    double *memory = calloc((size_t)(2 * count * n + 2 * count + count / 8 + 2), sizeof *memory);
    if (!memory)
        return pe_no_memory("memory", err);
    *out = (columns){ .n = n, .count = count, .memory = memory, .v = memory };
    out->value = out->v + 2 * count * n;
    out->residual = out->value + count;
    out->determined = (uint8_t *)(out->residual + count);
    if (!count)
        return PE_OK;

    double next = INFINITY, degree = 0; /* the smallest eigenvalue that no component handed over */
    for (int64_t c = c0; c < c1 && to > zeros; c++) {
        const int64_t size = m->begin[c + 1] - m->begin[c], rest = size - m->null[c];
        if (size > 1 && (st = pe_magnetic_solve(m, c, rest < to - zeros ? rest : to - zeros, grace, ctx, err)))
            goto done;
        if (size > 1)
            next = pe_min(next, m->pairs[c].next);
        out->early = out->early || m->pairs[c].partial;
        if ((st = pe_pace_add(&m->pace, 4)))
            goto done;
    }
    if ((st = list_pairs(m, c0, c1, &e, &nentries, err)))
        goto done;
    const bool early = out->early;
    const int64_t known = early && nentries < to ? nentries : to, there = known > from ? known - from : 0;
    out->missing = count - there;
    for (int64_t j = there; j < count; j++) {
        out->value[j] = out->residual[j] = (double)NAN;
        for (int64_t i = 0; i < 2 * n && !st; i++) {
            out->v[j * 2 * n + i] = (double)NAN;
            st = pe_pace_add(&m->pace, 1);
        }
        if (st)
            goto done;
    }
    if (nentries < known) {
        st = posenc_fail(err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "tol", posenc_text("%g", p->tol).s,
                         "a tolerance at which %lld eigenvectors can be told apart; %lld were found", (long long)to,
                         (long long)nentries);
        goto done;
    }
    for (int64_t i = 0; i < n; i++) {
        degree = pe_max(degree, m->csr.degree[m->node[origin + i]]);
        if ((st = pe_pace_add(&m->pace, 8)))
            goto done;
    }
    const double tol = p->tol * 3 * (p->normalization == NONE ? degree : 1); /* as the solver's, or a little more */
    for (int64_t a = 0, b; a < known; a = b) {
        for (b = a + 1; b < nentries && (a < zeros ? b < zeros : pe_same_cluster(e[b - 1].value, e[b].value)); b++)
            if ((st = pe_pace_add(&m->pace, 4)))
                goto done;
        if (b <= from)
            continue;
        const double last = e[b - 1].value, below = a ? e[a].value - e[a - 1].value : INFINITY;
        const double above = pe_min(b < nentries ? e[b].value : INFINITY, next) - last, gap = pe_min(below, above);
        const bool whole = a < zeros || !pe_same_cluster(last, next);
        for (int64_t j = a > from ? a : from; j < b && j < known; j++)
            out->value[j - from] = e[j].value;
        w->blur = pe_eigenspace_blur(e, a, b, gap);
        if ((st = write_cluster(w, e, a, b, from, known, out, origin, err)))
            goto done;
        out->cut = out->cut || b > to || (!whole && !early);
        out->partial = out->partial || (!whole && !early);
        for (int64_t j = a > from ? a - from : 0; j < b - from && j < there; j++) {
            if ((st = pe_magnetic_residual(m, out->v + 2 * j * n, out->value[j], n, origin, &out->residual[j])))
                goto done;
            if (a >= zeros) { /* null vectors are exact */
                out->determined[j] = out->determined[j] && whole && !early && gap > 1e6 * out->residual[j];
                out->loose = out->loose || (whole && gap < tol);
            }
            const bool over = out->residual[j] > tol;
            if (p->normalization == NONE) {
                out->value[j] = ldexp(out->value[j], m->exponent);
                out->residual[j] = ldexp(out->residual[j], m->exponent);
            }
            if (over)
                out->worst = pe_max(out->worst, out->residual[j]);
        }
    }
    out->trivial = to <= zeros;
done:
    free(e);
    if (st)
        columns_fini(out);
    return st;
}

/* ---- answers ---- */

typedef struct answer {
    posenc_tensor *re, *im, *values, *residuals, *determined, *cut;
    double *row;   /* (k) scratch */
    int64_t first; /* the graph's first node */
    int64_t graph;
    int64_t ncut, npartial, ntrivial, nloose, nearly, missing; /* for warnings: graphs; columns */
    double worst;                                              /* residual of those that are over what tol allows */
} answer;

/* The rows of n nodes: columns, then padding. c NULL: all padding. node NULL: nodes in order. */
static posenc_status write_rows(const magnetic_laplacian *p, const answer *o, const columns *c, const int32_t *node,
                                int64_t n, pe_pace *pace, posenc_error *err)
{
    const int64_t k = p->k, count = c ? c->count : 0;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t at = (o->first + (node ? node[i] : i)) * k;
        for (int part = 0; part < 2; part++) {
            for (int64_t j = 0; j < k; j++)
                o->row[j] = j < count ? c->v[2 * (j * n + i) + part] + 0.0 : p->pad_value; /* no negative zeros */
            posenc_tensor *t = part ? o->im : o->re;
            posenc_convert(t->dtype, (char *)t->data + (size_t)at * posenc_dtype_size(t->dtype), o->row, (size_t)k);
        }
        if (p->skip == SKIP_PER_COMPONENT) {
            for (int64_t j = 0; j < k; j++)
                o->row[j] = j < count ? c->value[j] : (double)NAN;
            st = pe_graph_store(o->values, at, o->row, k, pace, err);
        }
        if (!st)
            st = pe_pace_add(pace, 32 * k + 16);
    }
    return st;
}

/* What is said once per graph. Several components (per_component): the worst of each. */
static posenc_status write_summary(const magnetic_laplacian *p, const answer *o, const columns *c, bool fresh, pe_pace *pace,
                                   posenc_error *err)
{
    const int64_t k = p->k, count = c ? c->count : 0, at = o->graph * k;
    double *residuals = (double *)o->residuals->data + at;
    uint8_t *determined = (uint8_t *)o->determined->data + at, *cut = (uint8_t *)o->cut->data + o->graph;
    for (int64_t j = 0; j < k; j++) {
        if (fresh) {
            residuals[j] = j < count ? c->residual[j] : (double)NAN;
            determined[j] = j < count && c->determined[j];
        } else if (j < count) {
            determined[j] = (isnan(residuals[j]) || determined[j]) && c->determined[j];
            residuals[j] = isnan(residuals[j]) ? c->residual[j] : pe_max(residuals[j], c->residual[j]);
        }
    }
    *cut = (!fresh && *cut) || (c && c->cut);
    if (!fresh || p->skip == SKIP_PER_COMPONENT)
        return PE_OK;
    for (int64_t j = 0; j < k; j++)
        o->row[j] = j < count ? c->value[j] : (double)NAN;
    return pe_graph_store(o->values, at, o->row, k, pace, err);
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    const magnetic_laplacian *p = j->request->params;
    const pe_magnetic_options options = { .self_loops = p->edges.self_loops,
                                          .duplicate_edges = p->edges.duplicate_edges,
                                          .mean = p->symmetrize == MEAN,
                                          .q = p->q,
                                          .relative = !p->q_absolute,
                                          .normalized = p->normalization == SYM,
                                          .isolated_one = p->isolated == PE_ISOLATED_ONE,
                                          .tol = p->tol,
                                          .max_iter = p->max_iter,
                                          .partial = p->allow_partial };
    pe_magnetic m = { 0 };
    pe_canonical w = { 0 };
    pe_csr labels = { 0 };
    columns c = { 0 };
    bool cut = false, partial = false, trivial = true, loose = false, early = false;
    o->graph = j->graph;
    o->first = j->first;
    posenc_status st = pe_check_twice(j->n, err);
    if (st)
        return st;
    st = pe_magnetic_init(&m, &options, j->request->graph, j->graph, j->ctx, err);
    if (st || (st = pe_magnetic_labels(&m, &labels, err)))
        goto done;
    if ((st = pe_canonical_init(&w, &labels, m.begin, m.node, &m.pace, err)))
        goto done;
    const int64_t nc = m.csr.ncomponents, step = p->skip == SKIP_PER_COMPONENT ? 1 : nc;
    if ((st = write_summary(p, o, NULL, true, &m.pace, err)))
        goto done;
    if (!nc && !p->padding) {
        st = too_few(p, 0, 0, err);
        goto done;
    }
    for (int64_t i = 0; i < nc; i += step) {
        if ((st = select_columns(p, &m, &w, i, i + step, &c, j->ctx, j->grace, err)))
            goto done;
        if ((st = write_rows(p, o, &c, m.node + m.begin[i], c.n, &m.pace, err)))
            goto done;
        if ((st = write_summary(p, o, &c, i == 0, &m.pace, err)))
            goto done;
        cut = cut || c.cut;
        partial = partial || c.partial;
        loose = loose || c.loose;
        early = early || c.early;
        o->missing += c.missing;
        o->worst = pe_max(o->worst, c.worst);
        trivial = trivial && c.count && c.trivial;
        columns_fini(&c);
    }
    j->zero_edges = m.csr.zero_edges;
    j->partial = early;
    o->ncut += cut;
    o->npartial += partial;
    o->ntrivial += trivial && nc;
    o->nloose += loose;
    o->nearly += early;
done:
    columns_fini(&c);
    pe_canonical_fini(&w);
    if (labels.weight != m.csr.weight)
        free(labels.weight);
    pe_magnetic_fini(&m);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    answer *o = self;
    const magnetic_laplacian *p = j->request->params;
    posenc_status st = write_summary(p, o, NULL, true, &j->pace, NULL);
    return st ? st : write_rows(p, o, NULL, NULL, j->n, &j->pace, NULL);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    answer *o = copy;
    o->ncut = o->npartial = o->ntrivial = o->nloose = o->nearly = o->missing = 0;
    o->worst = 0;
    o->row = malloc((size_t)((const magnetic_laplacian *)c->request->params)->k * sizeof *o->row);
    return o->row ? PE_OK : pe_no_memory("memory", err);
}

static void end(void *copy, void *self)
{
    answer *o = copy, *whole = self;
    whole->ncut += o->ncut;
    whole->npartial += o->npartial;
    whole->ntrivial += o->ntrivial;
    whole->nloose += o->nloose;
    whole->nearly += o->nearly;
    whole->missing += o->missing;
    whole->worst = pe_max(whole->worst, o->worst);
    free(o->row);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const magnetic_laplacian *p = r->params;
    answer o = { .re = pe_tensor(out, "eigenvectors_real"),
                 .im = pe_tensor(out, "eigenvectors_imag"),
                 .values = pe_tensor(out, "eigenvalues"),
                 .residuals = pe_tensor(out, "residuals"),
                 .determined = pe_tensor(out, "determined"),
                 .cut = pe_tensor(out, "multiplicity_cut") };
    const pe_graph_task task = { .encode = encode,
                                 .spoil = spoil,
                                 .self = &o,
                                 .size = sizeof o,
                                 .begin = begin,
                                 .end = end,
                                 .partial = p->allow_partial };
    posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    if (st)
        return st;
    if (!r->graph->directed)
        pe_warn(out, "the graph is undirected: all phases are 0 and the vectors are those of the real Laplacian");
    if (o.nearly)
        pe_warn(out, "stopped early: %lld columns were not found and are NaN, those found are perhaps not the smallest",
                (long long)o.missing);
    if (o.ntrivial)
        pe_warn(out, "only trivial vectors: all %lld columns belong to eigenvalue 0; ask for more columns, or skip=all_zero",
                (long long)p->k);
    if (o.ncut)
        pe_warn(out,
                "k = %lld divides a repeated eigenvalue: the last columns are one choice of basis, see multiplicity_cut",
                (long long)p->k);
    if (o.npartial)
        pe_warn(out, "an eigenvalue is repeated too often to be computed whole: its columns are eigenvectors, but not the "
                     "canonical ones");
    if (o.nloose)
        pe_warn(out, "tol = %g is larger than a gap between eigenvalues: those columns are not determined", p->tol);
    pe_warn_residuals(o.worst, p->tol, "", out);
    return PE_OK;
}

const posenc_encoding pe_magnetic_laplacian = {
    .name = "magnetic_laplacian",
    .family = "graph",
    .title = "Eigenvectors of the magnetic Laplacian",
    .source = "Zhang et al. 2021, MagNet, arXiv:2102.11391; Geisler et al. 2023, arXiv:2302.00049, digraph_transformer",
    .formula = "eigenpairs, ascending, of H = D - S o exp(2 pi i q (A - A^T)), or of D^-1/2 H D^-1/2 (sym);\n"
               "S = (A + A^T) / 2 (mean) or max(A, A^T) (max), D = row sums of S;\n"
               "q_absolute=false: q / max(1, min(one-way pairs, n)); the entry at a column's pivot is real and positive",
    .example = "k=3&q=0.1",
    .revision = 4,
    .input = PE_GRAPH,
    PE_TABLE(magnetic_laplacian, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
