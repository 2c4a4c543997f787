/* magnetic.c - the Hermitian matrix of a directed graph, by components. */
#include "graph/magnetic.h"
#include "core/elementary.h"
#include "core/params.h"
#include "graph/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pe_magnetic_fini(pe_magnetic *m)
{
    for (int64_t c = 0; m->pairs && c < m->csr.ncomponents; c++) {
        free(m->pairs[c].values);
        free(m->pairs[c].vectors);
    }
    free(m->turn);
    free(m->cosine);
    free(m->sine);
    free(m->potential);
    free(m->begin);
    free(m->node);
    free(m->place);
    free(m->null);
    free(m->unit);
    free(m->single);
    free(m->pairs);
    free(m->scratch);
    pe_csr_fini(&m->csr);
    *m = (pe_magnetic){ 0 };
}

static double weight(const pe_csr *c, int64_t arc) { return c->weight ? c->weight[arc] : 1; }

/* ---- the matrix ---- */

/* Row by row, two ascending lists merged: the arcs from u and the arcs to u. */
typedef struct merge {
    const pe_csr *out, *in;
    int64_t i, j, u;
} merge;

static bool next_pair(merge *m, int32_t *v, double *forth, double *back)
{
    const bool more = m->i < m->out->ptr[m->u + 1], other = m->j < m->in->ptr[m->u + 1];
    if (!more && !other)
        return false;
    const int32_t a = more ? m->out->col[m->i] : INT32_MAX, b = other ? m->in->col[m->j] : INT32_MAX;
    *v = a < b ? a : b;
    *forth = a == *v ? weight(m->out, m->i++) : 0;
    *back = b == *v ? weight(m->in, m->j++) : 0;
    return true;
}

/* x within half a turn of 0. Odd, so that the turn of (v, u) is minus that of (u, v). */
static pe_dd reduced(pe_dd x)
{
    for (int twice = 0; twice < 2; twice++)
        x = pe_dd_add(x, (pe_dd){ -rint(x.hi), 0 });
    return x;
}

/* Half of a and half of b, or the larger. */
static double joined(const pe_magnetic *m, double a, double b) { return m->o.mean ? 0.5 * a + 0.5 * b : a > b ? a : b; }

/* The symmetric pattern with S and, in turn, A_uv - A_vu as yet. *oneway: pairs that differ. */
static posenc_status symmetrize(pe_magnetic *m, const pe_csr *a, const pe_csr *b, int64_t *oneway, posenc_error *err)
{
    posenc_status st = PE_OK;
    pe_csr *c = &m->csr;
    const size_t n = (size_t)a->n, most = (size_t)(a->arcs + b->arcs + 1);
    bool ones = true;
    *oneway = 0;
    c->n = a->n;
    c->zero_edges = a->zero_edges;
    c->ptr = calloc(n + 1, sizeof *c->ptr);
    c->col = malloc(most * sizeof *c->col);
    c->weight = malloc(most * sizeof *c->weight);
    c->degree = calloc(n + 1, sizeof *c->degree);
    m->turn = malloc(most * sizeof *m->turn);
    if (!c->ptr || !c->col || !c->weight || !c->degree || !m->turn)
        return pe_no_memory("memory", err);
    for (int64_t u = 0; u < a->n && !st; u++) {
        int32_t v;
        double forth, back;
        for (merge r = { a, b, a->ptr[u], b->ptr[u], u }; next_pair(&r, &v, &forth, &back);) {
            const double w = joined(m, forth, back);
            if (w == 0) /* half of the smallest number there is */
                continue;
            c->col[c->arcs] = v;
            c->weight[c->arcs] = w;
            m->turn[c->arcs++] = pe_two_sum(forth, -back);
            ones = ones && w == 1;
            c->degree[u] += w;
            *oneway += u < v && forth != back;
            if ((st = pe_pace_add(&m->pace, 16)))
                return st;
        }
        c->ptr[u + 1] = c->arcs;
        st = pe_pace_add(&m->pace, 8);
    }
    if (ones) {
        free(c->weight);
        c->weight = NULL;
    }
    return st;
}

/* S and T of a directed graph, or of an undirected one, whose T is 0. */
static posenc_status build(pe_magnetic *m, const posenc_graph *graph, int64_t g, int64_t *oneway, posenc_context *ctx,
                           posenc_error *err)
{
    const pe_csr_options o = { .symmetrize = m->o.mean ? PE_SYMMETRIZE_MEAN : PE_SYMMETRIZE_MAX,
                               .self_loops = m->o.self_loops,
                               .duplicate_edges = m->o.duplicate_edges,
                               .directed = true };
    pe_csr forth = { 0 }, back = { 0 };
    posenc_status st = pe_csr_build(graph, g, &o, &forth, ctx, err);
    if (!st)
        st = pe_csr_transpose(&forth, &back, ctx, err);
    if (!st)
        st = symmetrize(m, &forth, &back, oneway, err);
    pe_csr_fini(&forth);
    pe_csr_fini(&back);
    return st;
}

/* The cosine and sine of a turn, exact at quarters. */
static void phase(pe_dd turn, double *cosine, double *sine)
{
    const double quarters = 4 * turn.hi;
    if (turn.lo == 0 && quarters == rint(quarters)) {
        const int i = (int)quarters;
        *sine = i % 2;
        *cosine = 1 - abs(i);
        return;
    }
    const pe_dd angle = pe_dd_mul(pe_two_pi, turn);
    pe_sincos(&angle, 1, sine, cosine);
}

static posenc_status set_phases(pe_magnetic *m, int64_t oneway, posenc_error *err)
{
    pe_csr *c = &m->csr;
    const double divisor = m->o.relative ? (double)(oneway < 1 ? 1 : oneway < c->n ? oneway : c->n) : 1;
    const pe_dd q = pe_dd_div((pe_dd){ m->o.q, 0 }, (pe_dd){ divisor, 0 });
    posenc_status st = PE_OK;
    m->cosine = malloc((size_t)(c->arcs + 1) * sizeof *m->cosine);
    m->sine = malloc((size_t)(c->arcs + 1) * sizeof *m->sine);
    if (!m->cosine || !m->sine)
        return pe_no_memory("memory", err);
    m->real = true;
    for (int64_t u = 0; u < c->n; u++)
        for (int64_t a = c->ptr[u]; a < c->ptr[u + 1]; a++) {
            if (fabs(m->turn[a].hi) > 0x1p100 && m->o.q != 0)
                return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "graph.edge_weight",
                                   posenc_text("%.6g between one way and the other", m->turn[a].hi).s,
                                   "differences of at most 2^100, which become phases; or q=0");
            m->turn[a] = m->o.q == 0 ? (pe_dd){ 0, 0 } : reduced(pe_dd_mul(q, m->turn[a]));
            m->real = m->real && m->turn[a].hi == 0;
            m->loops = m->loops || c->col[a] == u;
            phase(m->turn[a], &m->cosine[a], &m->sine[a]);
            if ((st = pe_pace_add(&m->pace, 150)))
                return st;
        }
    return st;
}

/* ---- components ---- */

/* Breadth first from the smallest node of each component: numbers it, and lays turns along the tree. */
static posenc_status number_components(pe_magnetic *m, posenc_error *err)
{
    pe_csr *c = &m->csr;
    posenc_status st = PE_OK;
    int32_t *queue = malloc((size_t)(c->n + 1) * sizeof *queue);
    c->component = malloc((size_t)(c->n + 1) * sizeof *c->component);
    m->potential = calloc((size_t)c->n + 1, sizeof *m->potential);
    if (!queue || !c->component || !m->potential) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t v = 0; v < c->n && !st; v++) {
        c->component[v] = -1;
        st = pe_pace_add(&m->pace, 1);
    }
    for (int64_t root = 0; root < c->n && !st; root++) {
        if (c->component[root] >= 0)
            continue;
        int64_t head = 0, tail = 0;
        c->component[root] = (int32_t)c->ncomponents;
        queue[tail++] = (int32_t)root;
        while (head < tail && !st) {
            const int32_t u = queue[head++];
            for (int64_t a = c->ptr[u]; a < c->ptr[u + 1]; a++) {
                const int32_t v = c->col[a];
                if (c->component[v] >= 0)
                    continue;
                c->component[v] = (int32_t)c->ncomponents;
                m->potential[v] = reduced(pe_dd_add(m->potential[u], (pe_dd){ -m->turn[a].hi, -m->turn[a].lo }));
                queue[tail++] = v;
            }
            st = pe_pace_add(&m->pace, 24 * (c->ptr[u + 1] - c->ptr[u]) + 16);
        }
        c->ncomponents++;
    }
done:
    free(queue);
    return st;
}

static posenc_status lay_out(pe_magnetic *m, posenc_error *err)
{
    const pe_csr *c = &m->csr;
    const size_t n = (size_t)c->n + 1, nc = (size_t)c->ncomponents + 1;
    posenc_status st = pe_places(c, &m->begin, &m->node, &m->place, &m->pace, err);
    if (st)
        return st;
    m->null = calloc(nc, sizeof *m->null);
    m->unit = calloc(2 * n, sizeof *m->unit);
    m->single = calloc(nc, sizeof *m->single);
    m->pairs = calloc(nc, sizeof *m->pairs);
    m->scratch = calloc(2 * n, sizeof *m->scratch);
    if (!m->null || !m->unit || !m->single || !m->pairs || !m->scratch)
        return pe_no_memory("memory", err);
    return st;
}

/* Whether the turns around every cycle of component c sum to a whole number. */
static posenc_status balanced(pe_magnetic *m, int64_t c, bool *yes)
{
    const pe_csr *a = &m->csr;
    posenc_status st = PE_OK;
    *yes = true;
    for (int64_t p = m->begin[c]; p < m->begin[c + 1] && *yes && !st; p++) {
        const int32_t u = m->node[p];
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1] && *yes && !m->real; j++) {
            const pe_dd there = m->potential[a->col[j]], here = m->potential[u];
            pe_dd sum = pe_dd_add(m->turn[j], pe_dd_add(there, (pe_dd){ -here.hi, -here.lo }));
            *yes = fabs(reduced(sum).hi) < 1e-12;
        }
        st = pe_pace_add(&m->pace, 30 * (a->ptr[u + 1] - a->ptr[u]) + 4);
    }
    return st;
}

/* The null vector of component c, if there is one:   P D^1/2 1 / ||D^1/2 1||, P the phases of the potential. */
static posenc_status null_vector(pe_magnetic *m, int64_t c)
{
    const pe_csr *a = &m->csr;
    const int64_t begin = m->begin[c], end = m->begin[c + 1];
    posenc_status st = PE_OK;
    if (end - begin == 1) {
        const int32_t v = m->node[begin];
        const double d = a->degree[v], loop = a->ptr[v + 1] > a->ptr[v] ? weight(a, a->ptr[v]) : 0;
        m->single[c] = !m->o.normalized ? d - loop : d > 0 ? (d - loop) / d : m->o.isolated_one;
        m->null[c] = m->single[c] == 0;
        m->unit[2 * begin] = 1;
        return pe_pace_add(&m->pace, 24);
    }
    if ((st = balanced(m, c, &m->null[c])) || !m->null[c])
        return st;
    double sum = 0;
    for (int64_t p = begin; p < end && !st; p++) {
        sum += m->o.normalized ? a->degree[m->node[p]] : 1;
        st = pe_pace_add(&m->pace, 8);
    }
    const double scale = sqrt(sum);
    for (int64_t p = begin; p < end && !st; p++) {
        const double size = (m->o.normalized ? sqrt(a->degree[m->node[p]]) : 1) / scale;
        double cosine, sine;
        phase(m->potential[m->node[p]], &cosine, &sine);
        m->unit[2 * p] = size * cosine;
        m->unit[2 * p + 1] = size * sine;
        st = pe_pace_add(&m->pace, 150);
    }
    return st;
}

posenc_status pe_magnetic_init(pe_magnetic *m, const pe_magnetic_options *o, const posenc_graph *graph, int64_t g,
                               posenc_context *ctx, posenc_error *err)
{
    int64_t oneway = 0;
    posenc_status st;
    m->o = *o;
    m->pace = (pe_pace){ .ctx = ctx, .left = PE_PACE_STEPS };
    if ((st = build(m, graph, g, &oneway, ctx, err)))
        return st;
    if ((st = set_phases(m, oneway, err)))
        return st;
    if ((st = pe_csr_scale(&m->csr, &m->exponent, &m->pace)))
        return st;
    if ((st = pe_csr_alike(&m->csr, &m->pace, err)))
        return st;
    if ((st = number_components(m, err)))
        return st;
    if ((st = lay_out(m, err)))
        return st;
    for (int64_t c = 0; c < m->csr.ncomponents && !st; c++)
        st = null_vector(m, c);
    return st;
}

/* ---- eigenpairs ---- */

/* What the solver is asked for one component: a real matrix of `rows` rows and at most `arcs` entries off the diagonal. */
typedef struct matrix {
    pe_component m;
    int64_t *ptr;
    int32_t *col;
    double *weight, *degree, *diagonal, *kernel;
} matrix;

static void matrix_fini(matrix *x)
{
    free(x->ptr);
    free(x->col);
    free(x->weight);
    free(x->degree);
    free(x->diagonal);
    free(x->kernel);
    *x = (matrix){ 0 };
}

static posenc_status matrix_init(matrix *x, int64_t rows, int64_t arcs, posenc_error *err)
{
    *x = (matrix){ .ptr = calloc((size_t)rows + 1, sizeof *x->ptr),
                   .col = malloc((size_t)(arcs + 1) * sizeof *x->col),
                   .weight = malloc((size_t)(arcs + 1) * sizeof *x->weight),
                   .degree = calloc((size_t)rows + 1, sizeof *x->degree),
                   .diagonal = malloc((size_t)(rows + 1) * sizeof *x->diagonal),
                   .kernel = malloc((size_t)(rows + 1) * sizeof *x->kernel) };
    x->m = (pe_component){ .n = rows, .ptr = x->ptr, .col = x->col, .weight = x->weight, .degree = x->degree };
    if (x->ptr && x->col && x->weight && x->degree && x->diagonal && x->kernel)
        return PE_OK;
    return pe_no_memory("memory", err);
}

/* Arcs of component c, loops included. */
static posenc_status count_arcs(pe_magnetic *m, int64_t c, int64_t *arcs)
{
    posenc_status st = PE_OK;
    *arcs = 0;
    for (int64_t p = m->begin[c]; p < m->begin[c + 1] && !st; p++) {
        *arcs += m->csr.ptr[m->node[p] + 1] - m->csr.ptr[m->node[p]];
        st = pe_pace_add(&m->pace, 8);
    }
    return st;
}

/* The real Laplacian of S on component c, with its null vector. */
static posenc_status real_matrix(pe_magnetic *m, int64_t c, matrix *x)
{
    const pe_csr *a = &m->csr;
    const int64_t begin = m->begin[c], n = m->begin[c + 1] - begin;
    posenc_status st = PE_OK;
    int64_t arcs = 0;
    double sum = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        const int32_t u = m->node[begin + i];
        double loop = 0;
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
            if (a->col[j] == u) {
                loop = weight(a, j);
                continue;
            }
            x->weight[arcs] = weight(a, j);
            x->col[arcs++] = (int32_t)(m->place[a->col[j]] - begin);
        }
        x->ptr[i + 1] = arcs;
        x->degree[i] = a->degree[u];
        x->diagonal[i] = m->o.normalized ? (a->degree[u] - loop) / a->degree[u] : a->degree[u] - loop;
        sum += x->kernel[i] = m->o.normalized ? a->degree[u] : 1;
        st = pe_pace_add(&m->pace, 12 * (a->ptr[u + 1] - a->ptr[u]) + 24);
    }
    const double scale = sqrt(sum);
    for (int64_t i = 0; i < n && !st; i++) {
        x->kernel[i] = sqrt(x->kernel[i]) / scale;
        st = pe_pace_add(&m->pace, 8);
    }
    x->m.normalized = m->o.normalized;
    x->m.kernel = x->kernel;
    x->m.diagonal = m->loops ? x->diagonal : NULL;
    if (!a->weight)
        x->m.weight = NULL;
    return st;
}

static void put(matrix *x, int64_t row, int64_t *arcs, int64_t col, double w)
{
    if (w == 0)
        return;
    x->col[*arcs] = (int32_t)col;
    x->weight[(*arcs)++] = w;
    x->degree[row] += fabs(w);
}

/* [Re H, -Im H; Im H, Re H] on component c. */
static posenc_status embedding(pe_magnetic *m, int64_t c, matrix *x)
{
    const pe_csr *a = &m->csr;
    const int64_t begin = m->begin[c], n = m->begin[c + 1] - begin;
    posenc_status st = PE_OK;
    int64_t arcs = 0;
    for (int64_t row = 0; row < 2 * n && !st; row++) {
        const bool lower = row >= n;
        const int32_t u = m->node[begin + row % n];
        const double d = a->degree[u];
        double loop = 0;
        for (int right = 0; right < 2; right++)
            for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
                const int32_t v = a->col[j];
                if (v == u) {
                    loop = weight(a, j);
                    continue;
                }
                const double e = a->degree[v];
                const double s = m->o.normalized ? weight(a, j) / sqrt(d > e ? d : e) / sqrt(d > e ? e : d) : weight(a, j);
                const double f = right == lower ? m->cosine[j] : lower ? m->sine[j] : -m->sine[j];
                put(x, row, &arcs, m->place[v] - begin + right * n, s * f);
            }
        x->ptr[row + 1] = arcs;
        x->diagonal[row] = m->o.normalized ? (d - loop) / d : d - loop;
        st = pe_pace_add(&m->pace, 50 * (a->ptr[u + 1] - a->ptr[u]) + 24);
    }
    x->m.diagonal = x->diagonal;
    return st;
}

/* Vectors of the real Laplacian become those of H: times the phases of the potential. */
static posenc_status turned(pe_magnetic *m, int64_t c, const pe_pairs *real, pe_complex_pairs *out)
{
    const int64_t begin = m->begin[c], n = real->n;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        double cosine, sine;
        phase(m->potential[m->node[begin + i]], &cosine, &sine);
        for (int64_t k = 0; k < real->count; k++) {
            out->vectors[2 * (k * n + i)] = cosine * real->vectors[k * n + i];
            out->vectors[2 * (k * n + i) + 1] = sine * real->vectors[k * n + i];
        }
        st = pe_pace_add(&m->pace, 150 + 12 * real->count);
    }
    memcpy(out->values, real->values, (size_t)real->count * sizeof *out->values);
    out->count = real->count;
    return st;
}

static double norm_of(int64_t n, const double *row)
{
    double sum = 0;
    for (int64_t i = 0; i < 2 * n; i++)
        sum += row[i] * row[i];
    return sqrt(sum);
}

/* row (x; y) loses its part along the complex unit vector v: z -= v (v^* z), z = x + i y. */
static void project(int64_t n, const double *v, double *row)
{
    double re = 0, im = 0;
    for (int64_t i = 0; i < n; i++) {
        re += v[2 * i] * row[i] + v[2 * i + 1] * row[n + i];
        im += v[2 * i] * row[n + i] - v[2 * i + 1] * row[i];
    }
    for (int64_t i = 0; i < n; i++) {
        row[i] -= re * v[2 * i] - im * v[2 * i + 1];
        row[n + i] -= re * v[2 * i + 1] + im * v[2 * i];
    }
}

/* An orthonormal complex basis of what the real vectors span. Each eigenvalue has twice as many real vectors as complex
 * dimensions: in a cluster the one with the largest rest is picked and taken out of the others, until what is left is
 * rounding. (Of 2r vectors that span r complex dimensions the largest rest is never below sqrt(1 / r).) Rows of nearby
 * clusters lose it as well: rounding may have split a pair. */
static posenc_status pick(pe_magnetic *m, pe_pairs *real, pe_complex_pairs *out)
{
    const int64_t n = real->n / 2;
    posenc_status st = PE_OK;
    for (int64_t a = 0, b; a < real->count; a = b) {
        for (b = a + 1; b < real->count && pe_same_cluster(real->values[b - 1], real->values[b]); b++)
            ;
        for (int64_t taken = 0;; taken++) {
            int64_t best = -1;
            double most = 0.02;
            for (int64_t k = a; k < b && !st; k++) {
                const double norm = norm_of(n, real->vectors + k * 2 * n);
                if (norm > most) {
                    most = norm;
                    best = k;
                }
                st = pe_pace_add(&m->pace, 2 * n);
            }
            if (st || best < 0)
                break;
            const double *row = real->vectors + best * 2 * n;
            double *v = out->vectors + out->count * 2 * n;
            for (int64_t i = 0; i < n; i++) {
                v[2 * i] = row[i] / most;
                v[2 * i + 1] = row[n + i] / most;
            }
            out->values[out->count++] = real->values[a + 2 * taken < b ? a + 2 * taken : b - 1];
            for (int64_t k = a; k < real->count && !st; k++) {
                if (k >= b && real->values[k] - real->values[b - 1] > 1e-6 * (1 + fabs(real->values[k])))
                    break;
                project(n, v, real->vectors + k * 2 * n);
                st = pe_pace_add(&m->pace, 8 * n);
            }
        }
        if (st)
            return st;
    }
    return st;
}

posenc_status pe_magnetic_solve(pe_magnetic *m, int64_t c, int64_t want, pe_grace *grace, posenc_context *ctx,
                                posenc_error *err)
{
    const int64_t n = m->begin[c + 1] - m->begin[c];
    int64_t arcs = 0;
    const bool real = m->null[c];
    pe_complex_pairs *out = &m->pairs[c];
    pe_pairs pairs = { 0 };
    matrix x = { 0 };
    pe_grace_search(grace);
    posenc_status st = count_arcs(m, c, &arcs);
    if (!st)
        st = matrix_init(&x, real ? n : 2 * n, real ? arcs : 4 * arcs, err);
    if (!st)
        st = real ? real_matrix(m, c, &x) : embedding(m, c, &x);
    if (!st)
        st = pe_component_pairs(&x.m, real ? want : 2 * want, pe_spectrum_extra(x.m.n), m->o.tol, m->o.max_iter,
                                PE_SOLVER_AUTO, m->o.partial, &pairs, ctx, err);
    pe_grace_rest(grace);
    matrix_fini(&x);
    if (st == PE_DEADLINE && m->o.partial) { /* before the solver began */
        pairs = (pe_pairs){ .next = -INFINITY, .partial = true };
        st = PE_OK;
    }
    if (st)
        return st;
    out->values = malloc((size_t)(pairs.count + 1) * sizeof *out->values);
    out->vectors = malloc((size_t)(pairs.count * n + 1) * 2 * sizeof *out->vectors);
    out->next = pairs.next;
    out->partial = pairs.partial;
    if (!out->values || !out->vectors)
        st = pe_no_memory("memory", err);
    else if (pairs.count)
        st = real ? turned(m, c, &pairs, out) : pick(m, &pairs, out);
    pe_pairs_fini(&pairs);
    return st;
}

posenc_status pe_magnetic_residual(pe_magnetic *m, const double *v, double lambda, int64_t n, int64_t origin, double *out)
{
    const pe_csr *a = &m->csr;
    posenc_status st = PE_OK;
    double *z = m->scratch, sum = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        const int32_t u = m->node[origin + i];
        const double d = a->degree[u], g = m->o.normalized && d > 0 ? sqrt(d) : 1;
        z[2 * u] = v[2 * i] / g;
        z[2 * u + 1] = v[2 * i + 1] / g;
        st = pe_pace_add(&m->pace, 16);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        const int32_t u = m->node[origin + i];
        const double d = a->degree[u], g = m->o.normalized && d > 0 ? sqrt(d) : 1;
        double re = 0, im = 0;
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
            const double *y = z + 2 * a->col[j], c = weight(a, j) * m->cosine[j], s = weight(a, j) * m->sine[j];
            re += c * y[0] - s * y[1];
            im += c * y[1] + s * y[0];
        }
        const double own = !m->o.normalized ? d : d > 0 ? 1 : m->o.isolated_one;
        re = (own - lambda) * v[2 * i] - re / g;
        im = (own - lambda) * v[2 * i + 1] - im / g;
        sum += re * re + im * im;
        st = pe_pace_add(&m->pace, 10 * (a->ptr[u + 1] - a->ptr[u]) + 24);
    }
    *out = sqrt(sum);
    return st;
}

posenc_status pe_magnetic_labels(pe_magnetic *m, pe_csr *out, posenc_error *err)
{
    const pe_csr *a = &m->csr;
    posenc_status st = PE_OK;
    *out = *a;
    if (m->real)
        return PE_OK;
    out->weight = malloc((size_t)(a->arcs + 1) * sizeof *out->weight);
    if (!out->weight)
        return pe_no_memory("memory", err);
    for (int64_t j = 0; j < a->arcs && !st; j++) {
        /* the bits of both numbers, mixed: colours only ask whether labels are equal */
        uint64_t s, t;
        const double w = weight(a, j), turn = m->turn[j].hi + 0.0;
        memcpy(&s, &w, sizeof s);
        memcpy(&t, &turn, sizeof t);
        s = (s ^ t * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
        s ^= s >> 31;
        memcpy(&out->weight[j], &s, sizeof s);
        st = pe_pace_add(&m->pace, 8);
    }
    if (st)
        free(out->weight);
    return st;
}

uint64_t pe_magnetic_bytes(int64_t n, int64_t arcs, int64_t want)
{
    const uint64_t nodes = (uint64_t)n, entries = (uint64_t)arcs;
    return pe_component_bytes(2 * n, 4 * arcs, 2 * want) + 48 * nodes * (uint64_t)(2 * want + 2) + 160 * nodes +
           150 * entries;
}
