/* svd.c - singular vectors of the adjacency matrix.
 *
 *     A = U S V^T;  encoding = [ U sqrt(S) | V sqrt(S) ], the m = min(k, n) largest singular values, descending; the
 *     2 (k - m) columns that are left, at the far right, are 0
 * Row u of the left half says where u points to, of the right half what points to u; their product is A, rounded to rank m.
 *
 * Way: singular triplets are eigenpairs of B = [0, A; A^T, 0] with positive eigenvalue: (u; v) / sqrt(2) belongs to sigma.
 * B is the adjacency of a graph of 2n nodes, the bipartite double cover. Its components are solved one by one for the
 * smallest eigenvalues of c I - B, c a bound: the root of the largest row sum times the largest column sum.
 *
 * Defined here:
 *   - Signs and the basis within a repeated singular value are the canonical columns of B (linalg/canonical.h): they follow
 *     from the graph. Both halves of a column belong together.
 *   - Singular values below 1e-9 of the bound are 0, and so are their columns: what a solver finds there is rounding, of
 * which the square root would be visible.
 *   - random_flip flips both halves of a column by one bit of the seed, the column's number, and the size of the graph,
 * which keeps U S V^T. DGL flips whole rows by a global generator, after which rows can no longer be compared.
 *   - Weights count; DGL counts parallel edges only.
 *
 * Source: DGL python/dgl/transforms/functional.py, svd_pe; Hussain et al. 2022, EGT, arXiv:2108.03348. */
#include "core/exact.h"
#include "graph/batch.h"
#include "graph/spectrum.h"
#include "graph/store.h"
#include "linalg/canonical.h"
#include "linalg/small.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double nothing = 1e-9; /* singular values up to this, of the bound, are 0 */

typedef struct svd {
    posenc_given given;
    int64_t k, seed, max_iter;
    double tol;
    bool padding, random_flip, allow_partial;
    pe_csr_options edges;
} svd;

static const posenc_param rows[] = {
    { PE_INT(svd, k), .def = 8, .min = 1, .max = 4096, .doc = "singular values; the encoding has 2k columns" },
    { PE_BOOL(svd, padding), .def = 1, .doc = "pad where k is over the number of nodes; false: that is an error" },
    { PE_BOOL(svd, random_flip), .def = 0, .doc = "flip columns at random by seed (DGL flips rows)" },
    { PE_INT(svd, seed), .def = 0, .max = 9007199254740991.0, .doc = "of random_flip" },
    PE_ARC_ROWS(svd, edges, PE_LOOPS_KEEP),
    { PE_REAL(svd, tol), .def = 1e-10, .min = 1e-14, .max = 1e-2,
      .doc = "bound on residuals, relative to twice the bound of A" },
    { PE_INT(svd, max_iter), .def = 0, .max = 1e6, .doc = "restarts of the iterative solver; 0: its default" },
    PE_PARTIAL_ROW(svd, "the singular vectors found until then, with a warning, NaN in the other columns, determined 0"),
};

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, 2k]", "U sqrt(S), V sqrt(S), then zeros where k is over the number of nodes", NULL },
    { "singular_values", "[k] or [G, k]",
      "descending; those up to 1e-9 of the bound of A are 0; NaN where k is over the number of nodes", NULL },
    { "residuals", "[k] or [G, k]",
      "sqrt(||A v - sigma u||^2 + ||A^T u - sigma v||^2) in float64; 0 where sigma is 0, NaN where k is over the number of "
      "nodes",
      "float64" },
    { "determined", "[k] or [G, k]",
      "1: a relabelled copy of the graph gets the same column within 1e-6, rows permuted; 0: symmetry or a small gap leaves "
      "a choice",
      "uint8" },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    svd *p = r->params;
    p->edges.directed = true;
    posenc_status st = pe_check_partial(r, p->allow_partial, err);
    if (!p->random_flip && p->seed != 0)
        st = pe_not_applicable(err, "seed", posenc_text("%lld", (long long)p->seed).s, "random_flip=true to go with it");
    if (!r->graph->batched && pe_check_twice(r->graph->nodes, err)) /* a batch says it in its status */
        st = PE_LIMIT;
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const svd *p = r->params;
    const posenc_dtype t = (posenc_dtype)r->common.dtype;
    const int batch = r->graph->batched;
    const int64_t per_node[] = { r->graph->nodes, 2 * p->k }, per_graph[] = { r->graph->ngraphs, p->k };
    const int64_t *columns = batch ? per_graph : per_graph + 1;
    posenc_status st = pe_output(out, "encoding", t, 2, per_node, err);
    if (!st)
        st = pe_output(out, "singular_values", t, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "residuals", PE_float64, 1 + batch, columns, err);
    if (!st)
        st = pe_output(out, "determined", PE_uint8, 1 + batch, columns, err);
    return st ? st : pe_status_output(r, out, err);
}

/* [ns] as `laplacian`, for the cover of n nodes and m edges. */
static double solver_ns(double n, double m, double k)
{
    n = pe_min(n, 2 * m); /* nodes without arcs are no work */
    if (n <= PE_SMALL_ROWS)
        return 0.05 * n * n * n + 50 * n * k + n * n * k;
    const double dense = n * n * n + 128 * n * n;
    if (n < 2 * k + 2 * pe_min(k, 64) + 97)
        return dense;
    const double each = pe_min(m / pe_max(n, 1), 8);
    return pe_min(dense, 5000 * n * (1 + each * each / 3) * (0.75 + k / 32) + 6.3 * n * k * k);
}

/* What a cover of so many nodes and arcs holds until it is encoded: its components taken out as well, and their pairs. */
static uint64_t cover_bytes(uint64_t nodes, uint64_t arcs, uint64_t want)
{
    return nodes * (80 + sizeof(pe_pairs) + (sizeof(pe_small) + 48) / 2) + 48 * arcs + 16 * nodes * (want + 7) + 256;
}

/* A batch costs the sum of its graphs; it holds a chunk of them, and works on the largest. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const svd *p = r->params;
    const posenc_graph *g = r->graph;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t begin = 0, end; begin < g->ngraphs; begin = end) {
        uint64_t held = 0, largest = 0;
        int64_t widest = 2, most_arcs = 1, all_nodes = 0;
        end = pe_chunk_end(g, begin);
        for (int64_t i = begin; i < end; i++) {
            const int64_t nodes = 2 * (g->ptr[i + 1] - g->ptr[i]), m = g->arc_ptr[i + 1] - g->arc_ptr[i];
            const int64_t arcs = (g->directed ? 2 : 4) * m, want = p->k < nodes ? p->k : nodes;
            const double k = (double)p->k;
            out->ns += 8000 + 125 * (double)arcs + (100 + 25 * k) * (double)nodes +
                       solver_ns((double)nodes, (double)arcs / 2, k);
            const uint64_t scratch = pe_component_bytes(nodes, arcs, want) + 60 * (uint64_t)arcs + 200 * (uint64_t)nodes +
                                     (uint64_t)nodes * 8 * (uint64_t)(3 * want + 2) + 16 * pe_spectrum_extra_numbers(nodes);
            largest = scratch > largest ? scratch : largest;
            held += cover_bytes((uint64_t)nodes, (uint64_t)arcs, (uint64_t)want);
            widest = nodes > widest ? nodes : widest;
            most_arcs = arcs > most_arcs ? arcs : most_arcs;
            all_nodes += nodes;
        }
        widest = widest < PE_SMALL_ROWS ? widest : PE_SMALL_ROWS;
        most_arcs = most_arcs < widest * widest ? most_arcs : widest * widest;
        const uint64_t together = pe_small_bytes(widest, most_arcs, p->k, all_nodes / 2);
        held += together > largest ? together : largest;
        out->scratch = held > out->scratch ? held : out->scratch;
    }
}

/* ---- the double cover ---- */

typedef struct cover {
    pe_csr csr;    /* node u points to n + v with A_uv, and back; scaled */
    double *label; /* (arcs) weights with a sign that tells the two sides apart: for colours */
    double c;      /* no eigenvalue is larger; between 1/2 and 2 */
    int exponent;  /* weights in csr are the client's times 2^-exponent */
    int64_t *begin;
    int32_t *node, *place;
    pe_pairs *pairs; /* (components) of c I - B */
    int64_t zero_edges;
    pe_pace pace;
} cover;

static void cover_fini(cover *b)
{
    for (int64_t c = 0; b->pairs && c < b->csr.ncomponents; c++)
        pe_pairs_fini(&b->pairs[c]);
    free(b->pairs);
    free(b->label);
    free(b->begin);
    free(b->node);
    free(b->place);
    pe_csr_fini(&b->csr);
    *b = (cover){ 0 };
}

static double largest(const double *v, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = pe_max(most, v[i]);
    return most;
}

/* Half of the cover's rows: those of `a`, whose columns are shifted by `shift`. What is below 2^-500 of the bound is left
 * out: it could only underflow. */
static posenc_status append(cover *b, const pe_csr *a, int64_t first, int64_t shift, double sign)
{
    pe_csr *c = &b->csr;
    posenc_status st = PE_OK;
    for (int64_t u = 0; u < a->n && !st; u++) {
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
            const double w = ldexp(a->weight ? a->weight[j] : 1, -b->exponent);
            if (w < 0x1p-500)
                continue;
            c->col[c->arcs] = (int32_t)(a->col[j] + shift);
            c->weight[c->arcs] = w;
            b->label[c->arcs++] = sign * w;
            c->degree[first + u] += w;
        }
        c->ptr[first + u + 1] = c->arcs;
        st = pe_pace_add(&b->pace, 10 * (a->ptr[u + 1] - a->ptr[u]) + 8);
    }
    return st;
}

static posenc_status cover_init(cover *b, const svd *p, const posenc_graph *graph, int64_t g, posenc_context *ctx,
                                posenc_error *err)
{
    pe_csr forth = { 0 }, back = { 0 };
    b->pace = (pe_pace){ .ctx = ctx, .left = PE_PACE_STEPS };
    posenc_status st = pe_csr_build(graph, g, &p->edges, &forth, ctx, err);
    if (st || (st = pe_csr_transpose(&forth, &back, ctx, err)))
        goto done;
    b->zero_edges = forth.zero_edges;
    const double bound = sqrt(largest(forth.degree, forth.n)) * sqrt(largest(back.degree, back.n));
    frexp(bound, &b->exponent);
    b->c = ldexp(bound, -b->exponent) * (1 + 1e-9);
    const size_t n = (size_t)(2 * forth.n + 1), arcs = (size_t)(2 * forth.arcs + 1);
    b->csr = (pe_csr){ .n = 2 * forth.n,
                       .ptr = calloc(n, sizeof *b->csr.ptr),
                       .col = malloc(arcs * sizeof *b->csr.col),
                       .weight = malloc(arcs * sizeof *b->csr.weight),
                       .degree = calloc(n, sizeof *b->csr.degree) };
    b->label = malloc(arcs * sizeof *b->label);
    if (!b->csr.ptr || !b->csr.col || !b->csr.weight || !b->csr.degree || !b->label) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = append(b, &forth, 0, forth.n, 1)) || (st = append(b, &back, forth.n, 0, -1)))
        goto done;
    if ((st = pe_csr_components(&b->csr, ctx, err)))
        goto done;
    if ((st = pe_places(&b->csr, &b->begin, &b->node, &b->place, &b->pace, err)))
        goto done;
    if (!(b->pairs = calloc((size_t)b->csr.ncomponents + 1, sizeof *b->pairs)))
        st = pe_no_memory("memory", err);
done:
    pe_csr_fini(&forth);
    pe_csr_fini(&back);
    return st;
}

/* c I - B on one component. */
typedef struct part {
    pe_component m;
    double most; /* the largest degree */
    void *memory;
} part;

/* Component k; memory is NULL where all its singular values are 0. */
static posenc_status take_out(cover *b, int64_t k, part *out, posenc_error *err)
{
    const pe_csr *a = &b->csr;
    const int64_t begin = b->begin[k], n = b->begin[k + 1] - begin;
    posenc_status st = PE_OK;
    int64_t arcs = 0;
    *out = (part){ 0 };
    for (int64_t i = begin; i < begin + n && !st; i++) {
        arcs += a->ptr[b->node[i] + 1] - a->ptr[b->node[i]];
        out->most = pe_max(out->most, a->degree[b->node[i]]);
        st = pe_pace_add(&b->pace, 8);
    }
    if (st || out->most <= nothing * b->c)
        return st;
    double *weight = out->memory = malloc((size_t)(arcs + 2 * n) * sizeof *weight + (size_t)(n + 1) * sizeof(int64_t) +
                                          (size_t)arcs * sizeof(int32_t));
    if (!weight)
        return pe_no_memory("memory", err);
    double *degree = weight + arcs, *diagonal = degree + n;
    int64_t *ptr = (int64_t *)(diagonal + n);
    int32_t *col = (int32_t *)(ptr + n + 1);
    arcs = ptr[0] = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        const int32_t u = b->node[begin + i];
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
            weight[arcs] = a->weight[j];
            col[arcs++] = (int32_t)(b->place[a->col[j]] - begin);
        }
        ptr[i + 1] = arcs;
        degree[i] = a->degree[u];
        diagonal[i] = b->c;
        st = pe_pace_add(&b->pace, 12 * (a->ptr[u + 1] - a->ptr[u]) + 16);
    }
    out->m = (pe_component){ .n = n, .ptr = ptr, .col = col, .weight = weight, .degree = degree, .diagonal = diagonal };
    if (st) {
        free(out->memory);
        out->memory = NULL;
    }
    return st;
}

/* How many pairs component k has to give when `most` are wanted of all: half of its eigenvalues are positive at most. */
static int64_t want_of(const cover *b, int64_t k, int64_t most)
{
    const int64_t half = (b->begin[k + 1] - b->begin[k]) / 2;
    return half < most ? half : most;
}

static int64_t most_of(const svd *p, const cover *b) { return p->k < b->csr.n / 2 ? p->k : b->csr.n / 2; }

static bool is_small(const cover *b, int64_t k)
{
    const int64_t n = b->begin[k + 1] - b->begin[k];
    return n > 1 && n <= PE_SMALL_ROWS;
}

/* Small components of all covers, in lanes. A component's bytes do not depend on its company; what is not solved is left. */
static posenc_status solve_small(cover *b, int64_t count, const svd *p, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    int64_t n = 0, some = 0;
    for (int64_t i = 0; i < count && !st; i++)
        for (int64_t k = 0; b[i].pairs && k < b[i].csr.ncomponents && !st; k++) {
            some += is_small(&b[i], k);
            st = pe_pace_add(pace, 4);
        }
    if (st || !some)
        return st;
    pe_small *job = malloc((size_t)some * sizeof *job);
    part *taken = malloc((size_t)some * sizeof *taken);
    if (!job || !taken)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < count && !st; i++)
        for (int64_t k = 0; b[i].pairs && k < b[i].csr.ncomponents && !st; k++) {
            const int64_t want = is_small(&b[i], k) ? want_of(&b[i], k, most_of(p, &b[i])) : 0;
            if ((st = pe_pace_add(pace, 4)) || !want || (st = take_out(&b[i], k, &taken[n], err)))
                continue;
            if (taken[n].memory) {
                job[n] = (pe_small){ .c = taken[n].m, .want = want, .tol = p->tol, .out = &b[i].pairs[k] };
                n++;
            }
        }
    if (!st)
        st = pe_small_solve(job, n, pace, err);
    for (int64_t i = 0; i < n; i++)
        free(taken[i].memory);
    free(taken);
    free(job);
    return st;
}

/* The `want` smallest pairs of c I - B on component k; none where all its singular values are 0. */
static posenc_status solve(cover *b, const svd *p, int64_t k, int64_t want, posenc_context *ctx, posenc_error *err)
{
    part one;
    if (b->pairs[k].count)
        return pe_pairs_rows(&b->pairs[k], err);
    posenc_status st = take_out(b, k, &one, err);
    if (st || !one.memory)
        return st;
    if (p->allow_partial && is_small(b, k)) {
        pe_small job = { .c = one.m, .want = want, .tol = p->tol, .out = &b->pairs[k] };
        if ((st = pe_small_solve(&job, 1, &b->pace, err)) || b->pairs[k].count) {
            free(one.memory);
            return st ? st : pe_pairs_rows(&b->pairs[k], err);
        }
    }
    /* residuals are bounded for the whole graph, linalg's by the component's own degrees */
    const double tol = one.most < 0.5 * b->c ? p->tol * (b->c / one.most) : p->tol;
    st = pe_component_pairs(&one.m, want, pe_spectrum_extra(one.m.n), tol, p->max_iter, PE_SOLVER_AUTO, p->allow_partial,
                            &b->pairs[k], ctx, err);
    free(one.memory);
    return st;
}

/* ---- columns ---- */

typedef struct columns {
    int64_t count;            /* with a positive singular value */
    double *v;                /* (count, 2 n) by node of the cover, unit vectors */
    double *sigma, *residual; /* (count) in units of the scaled weights */
    uint8_t *determined;      /* (count) */
    int64_t missing;          /* columns after those, not found before the deadline */
    bool early;               /* the singular values are perhaps not the largest: a solver was stopped */
    bool cut, partial, loose; /* a cluster is divided; was not computed whole; tol is larger than a gap */
    void *memory;
} columns;

static int by_value(const void *a, const void *b)
{
    const pe_eigenpair *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Pairs of all components, ascending eigenvalues of c I - B; *next: a bound below which none is missing; *early: a solver
 * was stopped. */
static posenc_status find_pairs(cover *b, const svd *p, int64_t most, pe_eigenpair **out, int64_t *n, double *next,
                                bool *early, posenc_context *ctx, pe_grace *grace, posenc_error *err)
{
    int64_t total = 0, count = 0;
    posenc_status st = PE_OK;
    *next = INFINITY;
    for (int64_t k = 0; k < b->csr.ncomponents && !st; k++) {
        const int64_t want = want_of(b, k, most);
        if ((st = pe_pace_add(&b->pace, 4)) || !want)
            continue;
        pe_grace_search(grace);
        st = solve(b, p, k, want, ctx, err);
        pe_grace_rest(grace);
        if (st == PE_DEADLINE && p->allow_partial) { /* before the solver began */
            b->pairs[k].partial = true;
            st = PE_OK;
        }
        total += b->pairs[k].count;
        *next = b->pairs[k].count ? pe_min(*next, b->pairs[k].next) : *next;
        *early = *early || b->pairs[k].partial;
    }
    *next = *early ? -INFINITY : *next;
    if (st)
        return st;
    pe_eigenpair *e = malloc((size_t)(total + 1) * sizeof *e), *other = malloc((size_t)(total + 1) * sizeof *e);
    if (!e || !other)
        st = pe_no_memory("memory", err);
    for (int64_t k = 0; k < b->csr.ncomponents && !st; k++) {
        const pe_pairs *q = &b->pairs[k];
        for (int64_t j = 0; j < q->count && b->c - q->values[j] > nothing * b->c; j++, count++)
            e[count] = (pe_eigenpair){ q->values[j], k, count, q->vectors + j * q->n, q->residuals[j] };
        st = pe_pace_add(&b->pace, 16 + 16 * q->count);
    }
    if (!st)
        st = pe_sort(count, sizeof *e, e, other, by_value, &b->pace);
    free(other);
    *out = e;
    *n = count;
    return st;
}

/* ||B w - sigma w|| of a column by places. */
static posenc_status residual(cover *b, const double *w, double sigma, double *out)
{
    const pe_csr *a = &b->csr;
    posenc_status st = PE_OK;
    double sum = 0;
    for (int64_t u = 0; u < a->n && !st; u++) {
        double y = -sigma * w[b->place[u]];
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++)
            y += a->weight[j] * w[b->place[a->col[j]]];
        sum += y * y;
        st = pe_pace_add(&b->pace, 8 * (a->ptr[u + 1] - a->ptr[u]) + 8);
    }
    *out = sqrt(sum);
    return st;
}

/* Columns a .. b - 1, one cluster, of which those before `most` are written. */
static posenc_status write_cluster(pe_canonical *w, pe_eigenpair *e, int64_t a, int64_t b, int64_t most, columns *out,
                                   int64_t stride, posenc_error *err)
{
    const int64_t m = b - a, count = (most < b ? most : b) - a;
    pe_block_vector *basis = malloc((size_t)m * sizeof *basis);
    pe_eigenpair *other = malloc((size_t)m * sizeof *other);
    posenc_status st = basis && other ? PE_OK : pe_no_memory("memory", err);
    for (int64_t j = a; j < a + count && !st; j++)
        out->sigma[j] = e[j].value;
    if (!st)
        st = pe_sort(m, sizeof *e, e + a, other, pe_eigenpair_by_order, w->pace);
    for (int64_t j = 0; j < m && !st; j++) {
        basis[j] = (pe_block_vector){ e[a + j].component, e[a + j].v };
        st = pe_pace_add(w->pace, 16);
    }
    if (!st)
        st = pe_canonical_columns(w, basis, m, count, out->v + a * stride, stride, 0, out->determined + a, err);
    free(basis);
    free(other);
    return st;
}

static posenc_status find_columns(cover *b, const svd *p, pe_canonical *w, int64_t most, columns *out, posenc_context *ctx,
                                  pe_grace *grace, posenc_error *err)
{
    pe_eigenpair *e = NULL;
    int64_t known = 0;
    bool early = false;
    double next = INFINITY;
    const int64_t n = b->csr.n;
    posenc_status st = find_pairs(b, p, most, &e, &known, &next, &early, ctx, grace, err);
    if (st)
        goto done;
    const int64_t count = known < most ? known : most;
    double *memory = calloc((size_t)(count * n + 2 * count + count / 8 + 2), sizeof *memory);
    if (!memory) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    *out = (columns){ .count = count, .v = memory, .memory = memory, .early = early, .missing = early ? most - count : 0 };
    out->sigma = out->v + count * n;
    out->residual = out->sigma + count;
    out->determined = (uint8_t *)(out->residual + count);
    for (int64_t a = 0, z; a < count && !st; a = z) {
        for (z = a + 1; z < known && pe_same_cluster(e[z - 1].value, e[z].value) && !st; z++)
            st = pe_pace_add(&b->pace, 4);
        if (st)
            break;
        const double last = e[z - 1].value, below = a ? e[a].value - e[a - 1].value : INFINITY;
        const double gap = pe_min(below, pe_min(z < known ? e[z].value : INFINITY, next) - last);
        const bool whole = !pe_same_cluster(last, next);
        out->partial = out->partial || (!whole && !early);
        out->cut = out->cut || z > most || (!whole && !early);
        out->loose = out->loose || (whole && gap < 2 * b->c * p->tol);
        w->blur = pe_eigenspace_blur(e, a, z, gap);
        if ((st = write_cluster(w, e, a, z, most, out, n, err)))
            break;
        for (int64_t j = a; j < z && j < count && !st; j++) {
            out->sigma[j] = b->c - out->sigma[j];
            st = residual(b, out->v + j * n, out->sigma[j], &out->residual[j]);
            out->determined[j] = out->determined[j] && whole && !early && gap > 1e6 * out->residual[j];
        }
    }
done:
    free(e);
    return st;
}

/* ---- answers ---- */

static posenc_status write_values(const posenc_request *r, const cover *b, const columns *c, pe_graph_job *j,
                                  posenc_error *err)
{
    const svd *p = r->params;
    const int64_t at = j->graph * p->k;
    double *residuals = (double *)pe_tensor(j->out, "residuals")->data + at;
    uint8_t *determined = (uint8_t *)pe_tensor(j->out, "determined")->data + at;
    posenc_tensor *values = pe_tensor(j->out, "singular_values");
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < p->k && !st; i++) {
        const bool there = i < c->count, none = i >= j->n || (!there && c->early);
        const double value = none ? (double)NAN : there ? ldexp(c->sigma[i], b->exponent) : 0;
        residuals[i] = none ? (double)NAN : there ? ldexp(c->residual[i], b->exponent) * sqrt(2) : 0;
        determined[i] = !none && (!there || c->determined[i]);
        st = pe_graph_store(values, at + i, &value, 1, &j->pace, err);
    }
    return st;
}

static posenc_status write_rows(const posenc_request *r, const cover *b, const columns *c, pe_graph_job *j,
                                posenc_error *err)
{
    const svd *p = r->params;
    const int64_t n = j->n, m = p->k < n ? p->k : n;
    posenc_status st = PE_OK;
    double *row = malloc((size_t)(2 * p->k) * sizeof *row), *scale = malloc((size_t)p->k * sizeof *scale);
    if (!row || !scale)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < c->count && !st; i++) { /* the root of an odd power of two is not one */
        const int odd = b->exponent % 2 != 0;
        scale[i] = ldexp(sqrt(2 * ldexp(c->sigma[i], odd)), (b->exponent - odd) / 2);
        if (p->random_flip && pe_column_flips(p->seed, i, n, b->csr.arcs))
            scale[i] = -scale[i];
    }
    for (int64_t u = 0; u < n && !st; u++) {
        memset(row, 0, (size_t)(2 * p->k) * sizeof *row);
        for (int64_t i = 0; i < c->count; i++) {
            row[i] = scale[i] * c->v[i * b->csr.n + b->place[u]] + 0.0; /* no negative zeros */
            row[m + i] = scale[i] * c->v[i * b->csr.n + b->place[n + u]] + 0.0;
        }
        for (int64_t i = c->count; i < c->count + c->missing; i++)
            row[i] = row[m + i] = (double)NAN;
        if (!(st = pe_pace_add(&j->pace, 24 * c->count + 2 * p->k)))
            st = pe_graph_store(pe_tensor(j->out, "encoding"), (j->first + u) * 2 * p->k, row, 2 * p->k, &j->pace, err);
    }
    free(row);
    free(scale);
    return st;
}

/* What the warnings count, in graphs; and columns. */
typedef struct tally {
    int64_t cut, partial, loose, early, missing;
    double worst; /* residual of those that are over what tol allows */
} tally;

typedef struct answer {
    tally count;
    cover *cover; /* (graphs) of a chunk, until they are encoded; NULL: each is made when it is */
    int64_t first, chunk;
} answer;

/* Hands over the cover of j's graph, its small components solved: the caller finishes it, whatever is returned. */
static posenc_status take_cover(answer *o, pe_graph_job *j, cover *out, posenc_error *err)
{
    const svd *p = j->request->params;
    posenc_status st = PE_OK;
    if (o->cover && o->cover[j->graph - o->first].pairs) {
        *out = o->cover[j->graph - o->first];
        o->cover[j->graph - o->first] = (cover){ 0 };
        return PE_OK;
    }
    if ((st = pe_check_twice(j->n, err)) || (st = cover_init(out, p, j->request->graph, j->graph, j->ctx, err)))
        return st;
    return p->allow_partial ? PE_OK : solve_small(out, 1, p, &out->pace, err); /* partial: one by one */
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    const posenc_request *r = j->request;
    const svd *p = r->params;
    answer *o = self;
    tally *t = &o->count;
    if (!p->padding && j->n < p->k)
        return pe_invalid(err, "k", posenc_text("%lld", (long long)p->k),
                          "at most %lld, the number of nodes, with padding=false", (long long)j->n);
    cover b = { 0 };
    pe_canonical w = { 0 };
    columns c = { 0 };
    posenc_status st = take_cover(o, j, &b, err);
    if (st)
        goto done;
    j->zero_edges = b.zero_edges;
    pe_csr labels = b.csr;
    labels.weight = b.label;
    if ((st = pe_canonical_init(&w, &labels, b.begin, b.node, &b.pace, err)))
        goto done;
    if ((st = find_columns(&b, p, &w, p->k < j->n ? p->k : j->n, &c, j->ctx, j->grace, err)))
        goto done;
    if ((st = write_values(r, &b, &c, j, err)) || (st = write_rows(r, &b, &c, j, err)))
        goto done;
    j->partial = c.early;
    t->cut += c.cut;
    t->partial += c.partial;
    t->loose += c.loose;
    t->early += c.early;
    t->missing += c.missing;
    for (int64_t i = 0; i < c.count; i++)
        if (sqrt(2) * c.residual[i] > 2 * p->tol * b.c)
            t->worst = pe_max(t->worst, ldexp(sqrt(2) * c.residual[i], b.exponent));
done:
    free(c.memory);
    pe_canonical_fini(&w);
    cover_fini(&b);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    (void)self;
    static const char *const once[] = { "singular_values", "residuals", "determined" };
    posenc_status st = pe_spoil(pe_tensor(j->out, "encoding"), j->first, j->n, &j->pace);
    for (size_t i = 0; i < PE_LEN(once) && !st; i++)
        st = pe_spoil(pe_tensor(j->out, once[i]), j->graph, 1, &j->pace);
    return st;
}

static void forget_covers(answer *o, int64_t count)
{
    for (int64_t i = 0; o->cover && i < count; i++)
        cover_fini(&o->cover[i]);
    free(o->cover);
    o->cover = NULL;
}

/* The graphs of a batch in company. */
static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    answer *o = copy;
    const svd *p = c->request->params;
    const posenc_graph *graph = c->request->graph;
    const int64_t count = c->end - c->begin;
    *o = (answer){ .first = c->begin, .chunk = count };
    if (!graph->batched)
        return PE_OK;
    posenc_status st = PE_OK;
    pe_pace pace = { .ctx = c->ctx, .left = PE_PACE_STEPS };
    if (!(o->cover = calloc((size_t)count + 1, sizeof *o->cover)))
        return pe_no_memory("memory", err);
    for (int64_t i = 0; i < count && !st; i++) {
        if (graph->ptr[c->begin + i + 1] - graph->ptr[c->begin + i] > PE_SMALL_ROWS)
            continue; /* not small: by itself */
        st = cover_init(&o->cover[i], p, graph, c->begin + i, c->ctx, NULL);
        if (st == PE_INVALID) { /* said in its turn */
            cover_fini(&o->cover[i]);
            st = PE_OK;
        } else if (st == PE_BUSY) {
            pe_no_memory("memory", err);
        }
    }
    if (!st)
        st = solve_small(o->cover, count, p, &pace, err);
    if (st)
        forget_covers(o, count);
    return st;
}

static void end(void *copy, void *self)
{
    answer *o = copy;
    const tally *some = &o->count;
    tally *all = &((answer *)self)->count;
    all->cut += some->cut;
    all->partial += some->partial;
    all->loose += some->loose;
    all->early += some->early;
    all->missing += some->missing;
    all->worst = pe_max(all->worst, some->worst);
    forget_covers(o, o->chunk);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const svd *p = r->params;
    answer o = { 0 };
    const tally *t = &o.count;
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
    if (t->early)
        pe_warn(out, "stopped early: %lld columns were not found and are NaN, those found are perhaps not the largest",
                (long long)t->missing);
    if (t->cut)
        pe_warn(out, "k = %lld divides a repeated singular value: the last columns are one choice of basis, see determined",
                (long long)p->k);
    if (t->partial)
        pe_warn(out,
                "a singular value is repeated too often to be computed whole: its columns are singular vectors, but not "
                "the canonical ones");
    if (t->loose)
        pe_warn(out, "tol = %g is larger than a gap between singular values: those columns are not determined", p->tol);
    pe_warn_residuals(t->worst, p->tol, "", out);
    return PE_OK;
}

const posenc_encoding pe_svd = {
    .name = "svd",
    .family = "graph",
    .title = "Singular vectors of the adjacency matrix",
    .source =
        "Hussain et al. 2022, Global self-attention as a replacement for graph convolution, arXiv:2108.03348; DGL svd_pe",
    .formula = "A = U S V^T, the m = min(k, n) largest: [ U sqrt(S) | V sqrt(S) | 0 ], 2k columns",
    .example = "k=3",
    .revision = 4,
    .input = PE_GRAPH,
    PE_TABLE(svd, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
