/* laplacian.c - eigenvectors of the graph Laplacian.
 *
 * A symmetric adjacency with weights, d = row sums of |A|:
 *   none  L = D - A          sym  L = I - D^-1/2 A D^-1/2          rw  L = I - D^-1 A
 * rw has the eigenvalues of sym; its right eigenvectors are D^-1/2 u of sym's u.
 *
 * Way: components, whose null vectors are known exactly (1, or D^1/2 1; with signs where negative weights balance)
 * and never asked of a solver; the next pairs of each component; merged by value into clusters; of each cluster that is
 * wanted the canonical columns (linalg/canonical.h); residuals; scaling.
 *
 * Defined here, as users will ask:
 *   - An isolated node is a component of its own: unit vector, eigenvalue 1 (`isolated=one`, sym and rw) or 0. With 0
 *     it belongs to the null space, with 1 it does not.
 *   - A kept self-loop of weight w adds w to A_ii and to the degree: it vanishes from D - A, and leaves 1 - w/d on the
 *     diagonal of sym. Rows still sum to 0, so the null vectors stay.
 *   - The null space is always a cluster of its own, however small the next eigenvalue is: it is known, not measured.
 *   - skip=first drops one column whatever the multiplicity of 0, as PyG and DGL do.
 *   - Columns that the graph does not have: pad_value in the vectors, NaN in eigenvalues and residuals, determined 0.
 *   - Everything of one graph of a batch depends on that graph alone.
 *
 * Sources: Dwivedi et al. 2020, arXiv:2003.00982, section 3.2; names of parameters from PyG 2.9, DGL and GraphGPS;
 * eigvec_norm is GraphGPS's eigvec_normalizer (graphgps/transform/posenc_stats.py). */
#include "core/elementary.h"
#include "core/memory.h"
#include "graph/batch.h"
#include "graph/spectrum.h"
#include "linalg/canonical.h"
#include "linalg/linalg.h"
#include "linalg/small.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP_FIRST, SKIP_NONE, SKIP_ALL_ZERO, SKIP_PER_COMPONENT };
enum { NORM_L2, NORM_L1, NORM_MAX, NORM_WAVELENGTH, NORM_WAVELENGTH_ASIN, NORM_WAVELENGTH_SOFT };
enum { SIGN_CANONICAL, SIGN_RANDOM, SIGN_NONE };
enum { EIGVAL_VECTOR, EIGVAL_PER_NODE };

static const char *const skips[] = { "first", "none", "all_zero", "per_component", NULL };
static const char *const norms[] = { "L2", "L1", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft", NULL };
static const char *const signs[] = { "canonical", "random", "none", NULL };
static const char *const solvers[] = { "auto", "dense", "shift_invert", "chebyshev", NULL };
static const char *const layouts[] = { "vector", "per_node", NULL };

typedef struct laplacian {
    posenc_given given;
    int64_t k, max_freqs, seed, max_iter;
    double pad_value, tol;
    int normalization, skip, eigvec_norm, sign, isolated, solver, eigval_layout;
    pe_csr_options edges;
    bool padding, return_eigval, allow_partial;
} laplacian;

static const posenc_param rows[] = {
    { PE_INT(laplacian, k), .def = 8, .min = 1, .max = 4096, .doc = "eigenvectors per node" },
    { PE_INT(laplacian, max_freqs), .flags = PE_OPTIONAL, .min = 1, .max = 4096,
      .doc = "another word for k with skip=none: counts the trivial vector (GraphGPS); not together with k" },
    { PE_ENUM(laplacian, normalization), .names = pe_normalization_words, .def = PE_LAPLACIAN_SYM,
      .doc = "D - A, its symmetric or its random-walk normalisation" },
    { PE_ENUM(laplacian, skip), .names = skips, .def = SKIP_FIRST,
      .doc = "columns left out at the start: one; none; the whole null space; or one in each component, where the rows of a "
             "component "
             "hold its own k vectors and eigenvalues are per node" },
    { PE_ENUM(laplacian, eigvec_norm), .names = norms, .def = NORM_L2, .doc = "scale of each column" },
    { PE_ENUM(laplacian, sign), .names = signs, .def = SIGN_CANONICAL,
      .doc = "canonical; random: canonical, then flipped by seed; none: the solver's own where the eigenvalue is simple" },
    PE_EDGE_ROWS(laplacian, edges, PE_LOOPS_DROP),
    { PE_ENUM(laplacian, isolated), .names = pe_isolated_words, .def = PE_ISOLATED_ONE,
      .doc = "eigenvalue of a node without edges in sym and rw (PyG, DGL: one; networkx: zero)" },
    { PE_ROW_IN(laplacian, edges, allow_negative, PE_T_BOOL, bool), .def = 0,
      .doc = "accept negative weights: degrees are sums of |weight| (signed Laplacian)" },
    { PE_BOOL(laplacian, padding), .def = 1, .doc = "pad columns that do not exist; false: they are an error" },
    { PE_REAL(laplacian, pad_value), .flags = PE_NAN, .def = 0,
      .doc = "value of padded columns of eigenvectors; a number or nan" },
    { PE_INT(laplacian, seed), .def = 0, .max = 9007199254740991.0,
      .doc = "of sign=random; depends on nothing else but column and size of the graph" },
    { PE_REAL(laplacian, tol), .def = 1e-10, .min = 1e-14, .max = 1e-2,
      .doc = "bound on residuals, relative to 2 (sym, rw) or to twice the largest degree (none)" },
    { PE_INT(laplacian, max_iter), .def = 0, .max = 1e6, .doc = "restarts of the iterative solvers; 0: their default" },
    PE_PARTIAL_ROW(laplacian, "the eigenvectors found until then, with a warning, NaN in the other columns, determined 0"),
    { PE_ENUM(laplacian, solver), .names = solvers, .def = PE_SOLVER_AUTO, .doc = "auto chooses by size and fill" },
    { PE_BOOL(laplacian, return_eigval), .def = 1, .doc = "false leaves the output eigenvalues out" },
    { PE_ENUM(laplacian, eigval_layout), .names = layouts, .def = EIGVAL_VECTOR,
      .doc = "one row of eigenvalues per graph, or the same repeated for each of its nodes (GraphGPS); skip=per_component "
             "implies per_node" },
};

static const posenc_output outputs[] = {
    { "eigenvectors", "[num_nodes, k]", "one column per eigenvector, ascending by eigenvalue", NULL },
    { "eigenvalues", "[k], [G, k] of a batch, [num_nodes, k] per node", "NaN where a column is padding", NULL },
    { "residuals", "[k] or [G, k]",
      "||L v - lambda v||_2 of the unit vector in float64, before scaling and rounding (per_component: the largest); NaN "
      "where a column is padding",
      "float64" },
    { "determined", "[k] or [G, k]",
      "1: a relabelled copy of the graph gets the same column within 1e-6, rows permuted; 0: symmetry or a small gap leaves "
      "a choice",
      "uint8" },
    { "multiplicity_cut", "[1] or [G]", "1: the last column divides a repeated eigenvalue", "uint8" },
    { "num_components", "[1] or [G]", "connected components, isolated nodes included", "int64" },
    { "num_zero", "[1] or [G]", "dimension of the null space", "int64" },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

/* max_freqs is folded into k and skip, so that both spellings are one request with one digest. */
static posenc_status check(posenc_request *r, posenc_error *err)
{
    laplacian *p = r->params;
    posenc_status st = PE_OK;
    p->edges.negative_row = true;
    if (pe_given(r, "max_freqs")) {
        if (pe_given(r, "k"))
            st = posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "max_freqs",
                             posenc_text("%lld", (long long)p->max_freqs).s, "k or max_freqs, not both");
        if (pe_given(r, "skip") && p->skip != SKIP_NONE)
            st = posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "skip", skips[p->skip],
                             "none, which max_freqs implies; or k in its place");
        p->k = p->max_freqs;
        p->max_freqs = 0;
        p->skip = SKIP_NONE;
        p->given &= ~(1ull << (posenc_row(&r->encoding->table, "max_freqs") - rows));
    }
    if (p->skip == SKIP_PER_COMPONENT) {
        if (pe_given(r, "eigval_layout") && p->eigval_layout == EIGVAL_VECTOR)
            st = posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "eigval_layout", "vector",
                             "per_node with skip=per_component: each component has its own eigenvalues");
        p->eigval_layout = EIGVAL_PER_NODE;
    }
    if (pe_check_partial(r, p->allow_partial, err))
        st = PE_INVALID;
    if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        st = posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true",
                         "false; or on_directed=symmetrize; or the encoding magnetic_laplacian");
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const laplacian *p = r->params;
    const posenc_dtype t = (posenc_dtype)r->common.dtype;
    const int batch = r->graph->batched;
    const int64_t per_node[] = { r->graph->nodes, p->k }, per_graph[] = { batch ? r->graph->ngraphs : 1, p->k };
    const int64_t *columns = batch ? per_graph : per_graph + 1;
    posenc_status st = pe_output(out, "eigenvectors", t, 2, per_node, err);
    if (!st && p->return_eigval)
        st = p->eigval_layout == EIGVAL_PER_NODE ? pe_output(out, "eigenvalues", t, 2, per_node, err)
                                                 : pe_output(out, "eigenvalues", t, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "residuals", PE_float64, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "determined", PE_uint8, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "multiplicity_cut", PE_uint8, 1, per_graph, err);
    if (!st)
        st = pe_output(out, "num_components", PE_int64, 1, per_graph, err);
    if (!st)
        st = pe_output(out, "num_zero", PE_int64, 1, per_graph, err);
    if (!st)
        st = pe_status_output(r, out, err);
    return st;
}

/* [ns] fitted to measurements, right within a factor of 4: grids and expanders of one size differ by more than 8.
 * Dense: tridiagonalisation and back-transform. Sparse: orthogonalisation against all that was found grows with k^2; the
 * rest with n and arcs, faster where factors fill up. Isolated nodes never reach a solver. */
static double solver_ns(const laplacian *p, double n, double m, double k)
{
    double touched = pe_min(n, 2 * m), dense = n * n * n + 128 * n * n;
    if (p->solver == PE_SOLVER_DENSE)
        return dense * pe_min(touched / pe_max(n, 1), 1);
    if (p->solver == PE_SOLVER_AUTO && n <= 256) /* in lanes */
        return 0.1 * touched * touched * touched + 50 * touched * pe_min(k, touched) +
               touched * touched * pe_min(k, touched);
    if (n <= 128 || n < 2 * k + 2 * pe_min(k, 64) + 97) /* as pe_component_pairs chooses */
        return dense;
    double each = pe_min(m / pe_max(touched, 1), 8); /* edges: trees are ordered in no time, expanders filtered */
    return pe_min(dense, 2500 * touched * (1 + each * each / 3) * (0.75 + k / 32) + 6.3 * touched * k * k);
}

/* A batch costs the sum of its graphs; it holds a chunk of them taken apart, and works on the largest. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const laplacian *p = r->params;
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t begin = 0, end; begin < g->ngraphs; begin = end) {
        uint64_t held = 0, largest = 0;
        end = pe_chunk_end(g, begin);
        for (int64_t i = begin; i < end; i++) {
            double n = (double)(g->ptr[i + 1] - g->ptr[i]), m = (double)(g->arc_ptr[i + 1] - g->arc_ptr[i]),
                   k = (double)p->k;
            out->ns += 2000 + 40 * m + (250 + 25 * k) * n + solver_ns(p, n, m, k);
            int64_t nodes = (int64_t)n, arcs = 2 * (int64_t)m, want = p->k < nodes ? p->k : nodes;
            uint64_t scratch = pe_component_bytes(nodes, arcs, want + 1) + (uint64_t)nodes * (uint64_t)(2 * want + 4) * 8 +
                               16 * pe_spectrum_extra_numbers(nodes) + (uint64_t)arcs * 40 + (uint64_t)nodes * 160;
            largest = scratch > largest ? scratch : largest;
            held += pe_spectra_held(g, i, want);
        }
        const uint64_t together = pe_spectra_bytes(g, begin, end, p->k);
        held += together > largest ? together : largest;
        out->scratch = held > out->scratch ? held : out->scratch;
    }
}

/* ---- columns of a run of components ---- */

typedef struct columns {
    int64_t n, count;                  /* places; columns that exist, at most k */
    double *v;                         /* (count, n); NULL: in */
    const double *panel;               /* (ceil(count / 8), n, 8), borrowed: eight columns side by side */
    double *value, *residual;          /* (count) */
    uint8_t *determined;               /* (count) */
    int64_t missing;                   /* of count, at the end: not found before the deadline */
    bool early;                        /* the eigenvectors are perhaps not the smallest: a solver was stopped */
    bool cut, partial, trivial, loose; /* a cluster is divided; was not computed whole; all columns are null vectors; tol is
                                          larger than a gap */
    void *memory;
} columns;

static posenc_status need_canonical(pe_spectrum *s, pe_canonical *w, posenc_error *err)
{
    return w->csr ? PE_OK : pe_canonical_init(w, &s->csr, s->begin, s->node, &s->pace, err);
}

/* Writes the wanted part of the cluster e[a] .. e[b - 1]: columns `from` .. `to` - 1 in the order of all eigenpairs. */
static posenc_status write_cluster(const laplacian *p, pe_canonical *w, pe_eigenpair *e, int64_t a, int64_t b, int64_t from,
                                   int64_t to, columns *out, int64_t origin, double *lead, posenc_error *err)
{
    int64_t m = b - a, count = (to < b ? to : b) - a, skip = from > a ? from - a : 0;
    uint8_t *determined = calloc((size_t)count, 1);
    pe_block_vector *basis = malloc((size_t)m * sizeof *basis);
    pe_eigenpair *other = malloc((size_t)m * sizeof *other);
    posenc_status st = PE_OK;
    double *v = skip ? lead : out->v + (a - from) * out->n; /* a leading column that is not wanted goes before the others */
    if (!determined || !basis || !other) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if (m == 1 && p->sign == SIGN_NONE) {
        st = pe_pace_copy(w->pace, v + (w->begin[e[a].component] - origin), e[a].v,
                          (size_t)(w->begin[e[a].component + 1] - w->begin[e[a].component]) * sizeof *v);
    } else {
        st = pe_sort(m, sizeof *e, e + a, other, pe_eigenpair_by_order, w->pace);
        for (int64_t j = 0; j < m && !st; j++) {
            basis[j] = (pe_block_vector){ e[a + j].component, e[a + j].v };
            st = pe_pace_add(w->pace, 16);
        }
        if (!st)
            st = pe_canonical_columns(w, basis, m, count, v, out->n, origin, determined, err);
    }
    for (int64_t j = skip; j < count; j++)
        out->determined[a + j - from] = determined[j];
done:
    free(determined);
    free(basis);
    free(other);
    return st;
}

/* ---- scaling ---- */

static pe_dd dd(double x) { return (pe_dd){ x, 0 }; }

static pe_dd root(pe_dd a)
{
    if (a.hi <= 0)
        return dd(0);
    double r = sqrt(a.hi);
    pe_dd square = pe_two_prod(r, r), rest = pe_dd_add(a, (pe_dd){ -square.hi, -square.lo });
    return pe_fast_two_sum(r, rest.hi / (2 * r));
}

/* asin(y), |y| <= 1, right to the last bit but for ties: the half-angle formula tan(a/2) = sin a / (1 + cos a), three
 * times more for tangents, then atan's series in double-double. */
static double arc_sine(double y)
{
    double s = pe_min(fabs(y), 1);
    pe_dd one = dd(1), cosine = root(pe_dd_mul(pe_two_sum(1, -s), pe_two_sum(1, s)));
    pe_dd t = pe_dd_div(dd(s), pe_dd_add(one, cosine));
    for (int i = 0; i < 3; i++)
        t = pe_dd_div(t, pe_dd_add(one, root(pe_dd_add(one, pe_dd_mul(t, t)))));
    pe_dd square = pe_dd_mul(t, t), sum = dd(0); /* t < 0.0985 */
    for (int i = 17; i >= 0; i--) {
        pe_dd term = pe_dd_div(one, dd(2 * i + 1)), product = pe_dd_mul(square, sum);
        sum = pe_dd_add(term, (pe_dd){ -product.hi, -product.lo });
    }
    return copysign(16 * pe_dd_mul(t, sum).hi, y);
}

/* Scales a unit column (for rw first D^-1/2, to unit length). lambda is its eigenvalue.
 *   L1, L2, abs-max   v / norm
 *   wavelength        v pi / (2 max|v| sqrt(lambda))
 *   wavelength-asin   asin(v / max|v|) / sqrt(lambda)
 *   wavelength-soft   v / (sum softmax(|v|) |v| sqrt(lambda))
 * sqrt(lambda) is 1 where lambda < 1e-12; no denominator is below 1e-12. */
static posenc_status scale(int norm, double *v, int64_t n, double lambda, pe_pace *pace)
{
    posenc_status st = PE_OK;
    double l1 = 0, max = 0, root_lambda = lambda < 1e-12 ? 1 : sqrt(lambda), by = 1;
    for (int64_t i = 0; i < n && !st && norm != NORM_L2; i++) {
        l1 += fabs(v[i]);
        max = pe_max(max, fabs(v[i]));
        st = pe_pace_add(pace, 2);
    }
    switch (norm) {
    case NORM_L2: return PE_OK;
    case NORM_L1: by = l1; break;
    case NORM_MAX: by = max; break;
    case NORM_WAVELENGTH: by = pe_max(max, 1e-12) * root_lambda * 2 / 3.14159265358979323846; break;
    case NORM_WAVELENGTH_ASIN:
        for (int64_t i = 0; i < n && !st; i++) {
            v[i] = arc_sine(v[i] / pe_max(max, 1e-12));
            st = pe_pace_add(pace, 1500);
        }
        by = root_lambda;
        break;
    case NORM_WAVELENGTH_SOFT: {
        double sum = 0, all = 0;
        for (int64_t i = 0; i < n && !st; i++) {
            double e = pe_exp(fabs(v[i]) - max);
            sum += e * fabs(v[i]);
            all += e;
            st = pe_pace_add(pace, 500);
        }
        by = sum / all * root_lambda;
        break;
    }
    }
    for (int64_t i = 0; i < n && !st; i++) {
        v[i] /= pe_max(by, 1e-12);
        st = pe_pace_add(pace, 6);
    }
    return st;
}

static posenc_status random_walk_vector(pe_spectrum *s, double *v, int64_t n, int64_t origin)
{
    posenc_status st = PE_OK;
    double sum = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        double d = s->csr.degree[s->node[origin + i]];
        v[i] = d > 0 ? v[i] / sqrt(d) : v[i];
        sum += v[i] * v[i];
        st = pe_pace_add(&s->pace, 16);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        v[i] /= sum > 0 ? sqrt(sum) : 1;
        st = pe_pace_add(&s->pace, 8);
    }
    return st;
}

/* ---- one small component, columns in panels ---- */

enum { WIDTH = 8 };

static double *panel_column(const pe_pairs *q, int64_t j) { return q->panels + j / WIDTH * q->n * WIDTH + j % WIDTH; }

/* The canonical columns of the cluster of pairs a .. b - 1, up to `count`, in their places; where there are more than one,
 * with residuals of their own. */
static posenc_status write_panel_cluster(pe_spectrum *s, pe_canonical *w, const pe_pairs *q, int64_t a, int64_t b,
                                         double blur, int64_t count, columns *out, posenc_error *err)
{
    const int64_t n = q->n, m = b - a, wanted = (b < count ? b : count) - a;
    posenc_status st = need_canonical(s, w, err);
    double *memory = NULL, *row;
    pe_block_vector *basis = NULL;
    if (st)
        return st;
    w->blur = blur;
    memory = calloc((size_t)((m + wanted) * n), sizeof *memory);
    basis = malloc((size_t)m * sizeof *basis);
    if (!memory || !basis) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    row = memory + m * n;
    for (int64_t j = 0; j < m; j++) {
        basis[j] = (pe_block_vector){ 0, memory + j * n };
        for (int64_t i = 0; i < n; i++)
            basis[j].v[i] = panel_column(q, a + j)[i * WIDTH];
    }
    if ((st = pe_canonical_columns(w, basis, m, wanted, row, n, 0, out->determined + a, err)))
        goto done;
    for (int64_t j = 0; j < wanted && !st; j++) {
        for (int64_t i = 0; i < n; i++)
            panel_column(q, a + j)[i * WIDTH] = row[j * n + i];
        if (m > 1)
            st = pe_spectrum_residual(s, row + j * n, out->value[a + j], n, 0, &out->residual[a + j]);
    }
    st = st ? st : pe_pace_add(&s->pace, 4 * (m + wanted) * n);
done:
    free(memory);
    free(basis);
    return st;
}

/* The sign of column j of `count` that its pivot must have, 0 where the candidates disagree.
 *   blur   as in pe_canonical */
static double pivot_sign(double most, double least, double blur)
{
    const double large = pe_max(most, -least), small = pe_min(most, -least), square = large * large;
    if (small * small > (1 - 1e-6) * square - (1e-8 * square + 4 * blur * large))
        return 0;
    return most > -least ? 1 : -1;
}

/* As select_columns, of a graph of one component with a null vector, which is left out, that was solved in lanes. */
static posenc_status select_panels(const laplacian *p, pe_spectrum *s, pe_canonical *w, columns *out, posenc_error *err)
{
    const pe_pairs *q = &s->pairs[0];
    const int64_t n = q->n, count = out->count;
    const bool normalized = p->normalization != PE_LAPLACIAN_NONE;
    posenc_status st = PE_OK;
    double degree = 0;
    for (int64_t i = 0; i < n; i++)
        degree = pe_max(degree, s->csr.degree[i]);
    const double tol = p->tol * 2 * (normalized ? 1 : degree);
    out->panel = q->panels;
    for (int64_t j = 0; j < count; j++) {
        out->value[j] = pe_eigenvalue(q->values[j], normalized);
        out->residual[j] = q->residuals[j];
    }
    for (int64_t first = 0, a = 0; first < count && !st; first += WIDTH) {
        double most[WIDTH], least[WIDTH], sign[WIDTH], *panel = q->panels + first * n;
        pe_panel_extent(n, panel, most, least);
        for (int k = 0; k < WIDTH; k++)
            sign[k] = 1;
        for (int64_t b; a < count && a < first + WIDTH && !st; a = b) {
            const double value = out->value[a];
            double last = value, above = INFINITY, residual = q->residuals[a];
            for (b = a + 1; b < q->count; b++) {
                above = pe_eigenvalue(q->values[b], normalized);
                if (!pe_same_cluster(last, above))
                    break;
                last = above;
                above = INFINITY;
                residual = pe_max(residual, q->residuals[b]);
            }
            const double gap = pe_min(a ? value - out->value[a - 1] : value, pe_min(above, q->next) - last);
            const bool whole = !pe_same_cluster(last, q->next);
            const double blur = residual > 0 ? residual / gap : 0;
            double *flip = &sign[a - first];
            *flip = b == a + 1 ? pivot_sign(most[a - first], least[a - first], blur) : 0;
            out->determined[a] = 1;
            if (*flip == 0 && b == a + 1) {
                if (!(st = need_canonical(s, w, err))) {
                    w->blur = blur;
                    st = pe_canonical_sign(w, panel + (a - first), WIDTH, flip, &out->determined[a], err);
                }
            } else if (*flip == 0) {
                *flip = 1;
                st = write_panel_cluster(s, w, q, a, b, blur, count, out, err);
            }
            out->cut = out->cut || b > count || !whole;
            out->partial = out->partial || !whole;
            for (int64_t j = a; j < b && j < count; j++) {
                out->determined[j] = out->determined[j] && whole && gap > 1e6 * out->residual[j];
                out->loose = out->loose || (whole && gap < tol);
            }
        }
        pe_panel_scale(n, panel, sign);
    }
    for (int64_t j = 0; j < count && !normalized; j++) {
        out->value[j] = ldexp(out->value[j], s->exponent);
        out->residual[j] = ldexp(out->residual[j], s->exponent);
    }
    return st ? st : pe_pace_add(&s->pace, 8 * n * count);
}

/* ---- selection ---- */

static void columns_fini(columns *c)
{
    free(c->memory);
    *c = (columns){ 0 };
}

/* Which columns of a graph of n nodes are asked for, in the order of all eigenpairs. */
typedef struct selection {
    int64_t zeros, from, to;
} selection;

static selection selected(const laplacian *p, int64_t n, int64_t zeros)
{
    const int64_t from = p->skip == SKIP_NONE ? 0 : p->skip == SKIP_ALL_ZERO ? zeros : 1;
    return (selection){ zeros, from, from + (n <= from ? 0 : n - from < p->k ? n - from : p->k) };
}

/* Pairs of component c beside its null vector. */
static int64_t wanted(const selection *a, const pe_spectrum *s, int64_t c)
{
    const int64_t size = s->begin[c + 1] - s->begin[c], rest = size - s->null[c], most = a->to - a->zeros;
    return size < 2 || a->to <= a->from || most < 1 ? 0 : rest < most ? rest : most;
}

/* The columns asked for of the graph made of the components c0 .. c1 - 1. */
static posenc_status select_columns(const laplacian *p, pe_spectrum *s, pe_canonical *w, int64_t c0, int64_t c1,
                                    columns *out, posenc_context *ctx, pe_grace *grace, posenc_error *err)
{
    const int64_t origin = s->begin[c0], n = s->begin[c1] - origin;
    int64_t nentries = 0;
    pe_eigenpair *e = NULL;
    int64_t zeros = 0;
    posenc_status st;
    for (int64_t c = c0; c < c1; c++) {
        zeros += s->null[c];
        if ((st = pe_pace_add(&s->pace, 2)))
            return st;
    }
    const selection range = selected(p, n, zeros);
    const int64_t from = range.from, to = range.to, count = n <= from ? 0 : to - from;
    if (!p->padding && count < p->k)
        return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "k", posenc_text("%lld", (long long)p->k).s,
                           "at most %lld with padding=false: n = %lld nodes%s, skip=%s", (long long)count, (long long)n,
                           p->skip == SKIP_PER_COMPONENT ? " of a component" : "", skips[p->skip]);

    for (int64_t c = c0; c < c1; c++) {
        const int64_t want = wanted(&range, s, c);
        if ((st = pe_pace_add(&s->pace, 4)))
            return st;
        if (!want)
            continue;
        pe_grace_search(grace);
        st = pe_spectrum_solve(s, c, want, ctx, err);
        pe_grace_rest(grace);
        if (st)
            return st;
    }
    const bool simple = s->csr.ncomponents == 1 && zeros == 1 && from == 1 && count && s->pairs[0].panels &&
                        p->sign == SIGN_CANONICAL && p->eigvec_norm == NORM_L2 && p->normalization != PE_LAPLACIAN_RW;
    /* values, residuals, flags; an unwanted leading column and the columns */
    const int64_t lines = 2 * count + count / 8 + 1, vectors = simple ? 0 : (count + 1) * n;
    double *memory = pe_work_memory((size_t)(lines + vectors) * sizeof *memory), *lead = memory + lines;
    if (!memory)
        return pe_no_memory("memory", err);
    if ((st = pe_pace_zero(&s->pace, memory, (size_t)(lines + vectors) * sizeof *memory))) {
        free(memory);
        return st;
    }
    *out = (columns){ .n = n, .count = count, .memory = memory, .value = memory, .v = lead + n };
    out->residual = out->value + count;
    out->determined = (uint8_t *)(out->residual + count);
    if (!count)
        return PE_OK;
    if ((st = simple ? select_panels(p, s, w, out, err) : need_canonical(s, w, err)) || simple)
        goto done;
    if ((st = pe_spectrum_list(s, c0, c1, &e, &nentries, err)))
        goto done;
    bool early = false; /* some component has not handed over all that it was asked for */
    for (int64_t c = c0; c < c1 && to > zeros; c++) {
        early = early || s->pairs[c].partial;
        if ((st = pe_pace_add(&s->pace, 2)))
            goto done;
    }
    const int64_t known = early && nentries < to ? nentries : to, there = known > from ? known - from : 0;
    out->missing = count - there;
    out->early = early;
    for (int64_t j = there; j < count; j++) {
        out->value[j] = out->residual[j] = (double)NAN;
        for (int64_t i = 0; i < n && !st; i++) {
            out->v[j * n + i] = (double)NAN;
            st = pe_pace_add(&s->pace, 1);
        }
        if (st)
            goto done;
    }
    if (nentries < known) {
        st = posenc_fail(err, PE_INTERNAL, "INTERNAL", "eigenvectors", "fewer than asked for", "%lld", (long long)known);
        goto done;
    }
    double next = INFINITY, degree = 0; /* the smallest eigenvalue that no component handed over */
    for (int64_t c = c0; c < c1 && to > zeros; c++) {
        if (s->begin[c + 1] - s->begin[c] > 1)
            next = pe_min(next, s->pairs[c].next);
        if ((st = pe_pace_add(&s->pace, 4)))
            goto done;
    }
    for (int64_t i = 0; i < n; i++) {
        degree = pe_max(degree, s->csr.degree[s->node[origin + i]]);
        if ((st = pe_pace_add(&s->pace, 8)))
            goto done;
    }
    const double tol = p->tol * 2 * (p->normalization == PE_LAPLACIAN_NONE ? degree : 1);

    for (int64_t a = 0, b; a < known; a = b) {
        for (b = a + 1; b < nentries && (a < zeros ? b < zeros : pe_same_cluster(e[b - 1].value, e[b].value)); b++)
            if ((st = pe_pace_add(&s->pace, 4)))
                goto done;
        if (b <= from)
            continue;
        double last = e[b - 1].value, below = a ? e[a].value - e[a - 1].value : INFINITY;
        double above = pe_min(b < nentries ? e[b].value : INFINITY, next) - last, gap = pe_min(below, above);
        bool whole = a < zeros || !pe_same_cluster(last, next);
        for (int64_t j = a > from ? a : from; j < b && j < known; j++)
            out->value[j - from] = e[j].value;
        w->blur = pe_eigenspace_blur(e, a, b, gap);
        if ((st = write_cluster(p, w, e, a, b, from, known, out, origin, lead, err)))
            goto done;
        out->cut = out->cut || b > to || (!whole && !early);
        out->partial = out->partial || (!whole && !early);
        for (int64_t j = a > from ? a - from : 0; j < b - from && j < there; j++) {
            double *v = out->v + j * n;
            if (b == a + 1 && a >= zeros && p->normalization != PE_LAPLACIAN_RW)
                out->residual[j] = e[a].residual; /* the solver's vector, but for its sign */
            else if ((st = pe_spectrum_residual(s, v, out->value[j], n, origin, &out->residual[j])))
                goto done;
            if (a >= zeros) { /* null vectors are exact */
                out->determined[j] = out->determined[j] && whole && !early && gap > 1e6 * out->residual[j];
                out->loose = out->loose || (whole && gap < tol);
            }
            if (p->normalization == PE_LAPLACIAN_NONE) {
                out->value[j] = ldexp(out->value[j], s->exponent);
                out->residual[j] = ldexp(out->residual[j], s->exponent);
            }
            if (p->normalization == PE_LAPLACIAN_RW && (st = random_walk_vector(s, v, n, origin)))
                goto done;
            if ((st = scale(p->eigvec_norm, v, n, out->value[j], &s->pace)))
                goto done;
            if (p->sign == SIGN_RANDOM && pe_column_flips(p->seed, from + j, n, s->csr.arcs))
                for (int64_t i = 0; i < n && !st; i++) {
                    v[i] = -v[i];
                    st = pe_pace_add(&s->pace, 2);
                }
            if (st)
                goto done;
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

/* What the warnings count, in graphs; the largest residual of one that is over tol. */
typedef struct tally {
    int64_t cut, partial, trivial, loose, early, missing, over;
    double worst;
} tally;

typedef struct answer {
    posenc_dtype dtype;
    posenc_tensor *vectors, *values, *residuals, *determined, *cut, *ncomponents, *nzero;
    double *row; /* (k) scratch */
    pe_spectra spectra;
    int64_t first; /* the graph's first node */
    int64_t graph;
    tally count;
} answer;

static char *element(const posenc_tensor *t, int64_t i) { return (char *)t->data + (size_t)i * posenc_dtype_size(t->dtype); }

/* The rows of the nodes at places origin ..: columns, then padding. c NULL: all padding, n nodes in order. */
static posenc_status write_rows(const laplacian *p, const answer *o, const columns *c, const int32_t *node, int64_t n,
                                pe_pace *pace)
{
    const int64_t k = p->k, count = c ? c->count : 0;
    posenc_status st = PE_OK;
    const bool as_it_is = c && c->panel && k == WIDTH && (count == k || (p->pad_value == 0 && !signbit(p->pad_value)));
    if (as_it_is) /* one component: its nodes are in order */
        posenc_convert(o->dtype, element(o->vectors, o->first * k), c->panel, (size_t)(n * k));
    if (as_it_is && p->eigval_layout == EIGVAL_VECTOR)
        return pe_pace_add(pace, 2 * n * k);
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t at = (o->first + (node ? node[i] : i)) * k;
        for (int64_t j = 0; j < k; j++)
            o->row[j] = j >= count ? p->pad_value
                        : c->panel ? c->panel[(j / WIDTH * n + i) * WIDTH + j % WIDTH]
                                   : c->v[j * n + i] + 0.0; /* no negative zeros */
        posenc_convert(o->dtype, element(o->vectors, at), o->row, (size_t)k);
        if (o->values && p->eigval_layout == EIGVAL_PER_NODE) {
            for (int64_t j = 0; j < k; j++)
                o->row[j] = j < count ? c->value[j] : (double)NAN;
            posenc_convert(o->dtype, element(o->values, at), o->row, (size_t)k);
        }
        st = pe_pace_add(pace, 16 * k + 16);
    }
    return st;
}

/* What is said once per graph. Several components (per_component): the worst of each. */
static void write_summary(const laplacian *p, const answer *o, const columns *c, bool fresh)
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
    if (fresh && o->values && p->eigval_layout == EIGVAL_VECTOR) {
        for (int64_t j = 0; j < k; j++)
            o->row[j] = j < count ? c->value[j] : (double)NAN;
        posenc_convert(o->dtype, element(o->values, at), o->row, (size_t)k);
    }
}

/* Columns of rw are those of sym, scaled: where degrees are far apart that magnifies what rounding left. */
static posenc_status hold_to_tolerance(const laplacian *p, const columns *c, posenc_error *err)
{
    const double most = 2 * pe_max(p->tol, 1e-10);
    for (int64_t i = 0; i < c->count && p->normalization == PE_LAPLACIAN_RW; i++)
        if (c->residual[i] > most)
            return posenc_fail(
                err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "normalization", "rw",
                "sym: degrees too far apart leave a residual of %.3g in an eigenvector of rw, of at most %.3g",
                c->residual[i], most);
    return PE_OK;
}

/* What tol bounds. */
static posenc_status bound_of(const laplacian *p, pe_spectrum *s, double *bound)
{
    posenc_status st = PE_OK;
    double most = p->normalization == PE_LAPLACIAN_NONE ? 0 : 1;
    for (int64_t v = 0; v < s->csr.n && p->normalization == PE_LAPLACIAN_NONE && !st; v++) {
        most = pe_max(most, s->csr.degree[v]);
        st = pe_pace_add(&s->pace, 2);
    }
    *bound = 2 * p->tol * (p->normalization == PE_LAPLACIAN_NONE ? ldexp(most, s->exponent) : most);
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    tally *t = &o->count;
    const laplacian *p = j->request->params;
    posenc_context *ctx = j->ctx;
    pe_spectrum s = { 0 };
    pe_canonical w = { 0 };
    columns c = { 0 };
    bool cut = false, partial = false, trivial = true, loose = false, early = false;
    int64_t missing = 0;
    double bound, worst = 0;
    o->graph = j->graph;
    o->first = j->first;
    posenc_status st = pe_spectra_take(&o->spectra, j->request->graph, j->graph, &s, ctx, err);
    if (st)
        goto done;
    if ((st = bound_of(p, &s, &bound)))
        goto done;
    const int64_t nc = s.csr.ncomponents, step = p->skip == SKIP_PER_COMPONENT ? 1 : nc;
    int64_t *ncomponents = (int64_t *)o->ncomponents->data + o->graph, *nzero = (int64_t *)o->nzero->data + o->graph;
    write_summary(p, o, NULL, true);
    *ncomponents = nc;
    *nzero = 0;
    for (int64_t i = 0; i < nc; i++) {
        *nzero += s.null[i];
        if ((st = pe_pace_add(&s.pace, 2)))
            goto done;
    }
    if (!nc && !p->padding) {
        st = select_columns(p, &s, &w, 0, 0, &c, ctx, j->grace, err);
        goto done;
    }
    for (int64_t i = 0; i < nc; i += step) {
        if ((st = select_columns(p, &s, &w, i, i + step, &c, ctx, j->grace, err)) || (st = hold_to_tolerance(p, &c, err)))
            goto done;
        if ((st = write_rows(p, o, &c, s.node + s.begin[i], c.n, &s.pace)))
            goto done;
        write_summary(p, o, &c, i == 0);
        cut = cut || c.cut;
        partial = partial || c.partial;
        loose = loose || c.loose;
        missing += c.missing;
        for (int64_t k = 0; k < c.count; k++)
            worst = c.residual[k] > worst ? c.residual[k] : worst; /* not NaN */
        early = early || c.early;
        trivial = trivial && c.count && c.trivial;
        columns_fini(&c);
    }
    j->zero_edges = s.csr.zero_edges;
    t->cut += cut;
    t->partial += partial;
    t->loose += loose;
    t->missing += missing;
    t->early += early;
    j->partial = early;
    t->trivial += trivial && nc;
    t->over += worst > bound;
    t->worst = worst > bound ? pe_max(t->worst, worst) : t->worst;
done:
    columns_fini(&c);
    pe_canonical_fini(&w);
    pe_spectrum_fini(&s);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    answer *o = self;
    const laplacian *p = j->request->params;
    write_summary(p, o, NULL, true);
    ((int64_t *)o->ncomponents->data)[j->graph] = ((int64_t *)o->nzero->data)[j->graph] = 0;
    return write_rows(p, o, NULL, NULL, j->n, &j->pace);
}

static void warn(const posenc_request *r, const tally *t, posenc_result *out)
{
    const laplacian *p = r->params;
    char where[64] = "";
#define WHERE(count)                                                                                                   \
    (r->graph->batched                                                                                                 \
         ? (snprintf(where, sizeof where, " (%lld of %lld graphs)", (long long)(count), (long long)r->graph->ngraphs), \
            where)                                                                                                     \
         : "")
    pe_warn_directed(r, out);
    if (t->early)
        pe_warn(out, "stopped early%s: %s those found are perhaps not the smallest", WHERE(t->early),
                t->missing ? posenc_text("%lld columns were not found and are NaN,", (long long)t->missing).s
                           : "no column is missing, but");
    if (t->trivial)
        pe_warn(out,
                "only trivial vectors: all %lld columns belong to eigenvalue 0%s; ask for more columns, or skip=all_zero",
                (long long)p->k, WHERE(t->trivial));
    if (t->cut)
        pe_warn(out,
                "k = %lld divides a repeated eigenvalue%s: the last columns are one choice of basis, see multiplicity_cut "
                "and determined",
                (long long)p->k, WHERE(t->cut));
    if (t->partial)
        pe_warn(out,
                "an eigenvalue is repeated too often to be computed whole%s: its columns are eigenvectors, but not the "
                "canonical ones",
                WHERE(t->partial));
    if (t->loose)
        pe_warn(out, "tol = %g is larger than a gap between eigenvalues%s: those columns are not determined", p->tol,
                WHERE(t->loose));
    pe_warn_residuals(t->worst, p->tol, WHERE(t->over), out);
#undef WHERE
}

static int64_t want(const void *arg, const pe_spectrum *s, int64_t c, int64_t zeros)
{
    const laplacian *p = arg;
    const bool alone = p->skip == SKIP_PER_COMPONENT;
    const selection a = alone ? selected(p, s->begin[c + 1] - s->begin[c], s->null[c]) : selected(p, s->csr.n, zeros);
    return wanted(&a, s, c);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    answer *o = copy;
    const laplacian *p = c->request->params;
    const pe_spectrum_options options = { .edges = p->edges,
                                          .normalization = p->normalization,
                                          .isolated = p->isolated,
                                          .tol = p->tol,
                                          .max_iter = p->max_iter,
                                          .solver = (pe_solver)p->solver,
                                          .partial = p->allow_partial };
    o->count = (tally){ 0 };
    o->row = malloc((size_t)p->k * sizeof *o->row);
    posenc_status st = o->row ? PE_OK : pe_no_memory("memory", err);
    if (!st)
        st = pe_spectra_init(&o->spectra, c, &options, want, p, err);
    if (st)
        free(o->row);
    return st;
}

static void end(void *copy, void *self)
{
    answer *o = copy;
    tally *t = &((answer *)self)->count;
    t->cut += o->count.cut;
    t->partial += o->count.partial;
    t->trivial += o->count.trivial;
    t->loose += o->count.loose;
    t->early += o->count.early;
    t->missing += o->count.missing;
    t->over += o->count.over;
    t->worst = pe_max(t->worst, o->count.worst);
    pe_spectra_fini(&o->spectra);
    free(o->row);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    answer o = { .dtype = (posenc_dtype)r->common.dtype,
                 .vectors = pe_tensor(out, "eigenvectors"),
                 .values = pe_tensor(out, "eigenvalues"),
                 .residuals = pe_tensor(out, "residuals"),
                 .determined = pe_tensor(out, "determined"),
                 .cut = pe_tensor(out, "multiplicity_cut"),
                 .ncomponents = pe_tensor(out, "num_components"),
                 .nzero = pe_tensor(out, "num_zero") };
    const pe_graph_task task = { .encode = encode,
                                 .spoil = spoil,
                                 .self = &o,
                                 .size = sizeof o,
                                 .begin = begin,
                                 .end = end,
                                 .partial = ((const laplacian *)r->params)->allow_partial };
    posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    if (!st)
        warn(r, &o.count, out);
    return st;
}

const posenc_encoding pe_laplacian = {
    .name = "laplacian",
    .family = "graph",
    .title = "Eigenvectors of the graph Laplacian",
    .source = "Dwivedi et al. 2020, arXiv:2003.00982; PyG AddLaplacianEigenvectorPE, DGL lap_pe, GraphGPS LapPE",
    .formula = "eigenpairs of D - A (none), I - D^-1/2 A D^-1/2 (sym) or I - D^-1 A (rw), ascending, in canonical form",
    .example = "k=3",
    .revision = 6,
    .input = PE_GRAPH,
    PE_TABLE(laplacian, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
