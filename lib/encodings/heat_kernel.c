/* heat_kernel.c - how much heat is left at each node after a time.
 *
 *     column j = t^(space_dim / 2) diag(exp(-t L)),  t = kernel_times[j],  L of `normalization`
 * With eigenpairs: sum over i of exp(-t lambda_i) v_i(u)^2, whatever basis of a repeated eigenvalue is taken. exclude_zero
 * leaves out the null space, known exactly: 1 / (nodes of the component) for none, d_u / (sum of d) for sym and rw.
 * exp(-t L) of rw has the diagonal of sym.
 *
 * Way: components of up to some thousand nodes by all their eigenpairs. Larger ones by Chebyshev's expansion on [0, b],
 * b a bound of the spectrum, x = 2 L / b - 1, tau = t b / 2:
 *     exp(-t L) = e^-tau (I_0(tau) + 2 sum_k (-1)^k I_k(tau) T_k(x))
 * to the last coefficient that matters, with T_2k = 2 T_k^2 - 1 and T_(2k+1) = 2 T_k T_(k+1) - x: applications of L for half
 * the degree, for eight nodes at a time. The error is absolute, below 1e-12. Time grows as nodes * arcs * sqrt(t b).
 *
 * Eigenpairs in float64 are those of a matrix off by 2^-50 b. Where that leaves exp(-t lambda) open, because weights lie
 * too far apart for t, the time is refused.
 *
 * method=probe estimates instead: with z of independent random signs and x = exp(-t L / 2) z without its part in the null
 * space, E[x_u^2] = exp(-t L)_uu without its share of the null space, which is known exactly; the mean over num_probes of
 * them. The relative standard error is at most sqrt(2 / num_probes), however small the number. t = 0 is exact.
 *
 * Sources: GraphGPS graphgps/transform/posenc_stats.py, get_heat_kernels_diag: normalization=none, exclude_zero=true, where
 * "zero" is below 1e-8 in float32; Bekas et al. 2007, An estimator for the diagonal of a matrix. */
#include "core/elementary.h"
#include "core/exact.h"
#include "graph/batch.h"
#include "graph/probes.h"
#include "graph/spectrum.h"
#include "graph/store.h"
#include "linalg/laplacian.h"
#include "linalg/small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TIMES = 1024,
    MOST_DEGREE = 8000, /* of the expansion */
    DENSE_ROWS = 5000,  /* more are never solved densely: 24 n^2 bytes */
    ABREAST = 8         /* times that probes are spread for at once, a panel each */
};
enum { EXACT, PROBE };
static const char *const methods[] = { "exact", "probe", NULL };

typedef struct heat_kernel {
    posenc_given given;
    posenc_reals kernel_times;
    int normalization, isolated, method;
    int64_t num_probes, seed;
    bool exclude_zero;
    double space_dim;
    pe_csr_options edges;
} heat_kernel;

static const posenc_param rows[] = {
    { PE_REALS(heat_kernel, kernel_times), .flags = PE_REQUIRED, .min = 0, .max = 1e9, .doc = "times, one column each" },
    { PE_ENUM(heat_kernel, normalization), .names = pe_normalization_words, .def = PE_LAPLACIAN_NONE,
      .doc = "D - A (GraphGPS, whatever its own normalisation), its symmetric or its random-walk form" },
    { PE_BOOL(heat_kernel, exclude_zero), .def = 1, .doc = "leave the null space out (GraphGPS): what remains goes to 0" },
    { PE_REAL(heat_kernel, space_dim), .def = 0, .max = 64, .doc = "each column is multiplied by t^(space_dim / 2)" },
    PE_EDGE_ROWS(heat_kernel, edges, PE_LOOPS_DROP),
    { PE_ENUM(heat_kernel, isolated), .names = pe_isolated_words, .def = PE_ISOLATED_ONE,
      .doc = "eigenvalue of a node without edges in sym and rw" },
    { PE_ENUM(heat_kernel, method), .flags = PE_SELECTOR, .names = methods, .def = EXACT,
      .doc = "exact, or a named estimate with its standard error, for graphs that are too large" },
    { PE_INT(heat_kernel, num_probes), .when = PE_ON(PROBE), .def = 64, .min = 2, .max = 65536,
      .doc = "random vectors: the standard error falls with the root of their number" },
    { PE_INT(heat_kernel, seed), .when = PE_ON(PROBE), .def = 0, .max = 9007199254740991.0,
      .doc = "of the random signs, which depend on seed, probe and node alone" },
};

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, len(kernel_times)]",
      "a column for each time, in the order of kernel_times; method=probe: an estimate", NULL },
    { "standard_error", "[num_nodes, len(kernel_times)]",
      "method=probe only: of the estimate, from the spread of the probes; 0 where it is exact", NULL },
    PE_STATUS_OUTPUT,
};

/* ---- check, shape, cost ---- */

static double gain(const heat_kernel *p, double t) { return p->space_dim > 0 ? pe_pow(t, p->space_dim / 2) : 1; }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const heat_kernel *p = r->params;
    posenc_status st = PE_OK;
    if (p->kernel_times.n < 1 || p->kernel_times.n > MOST_TIMES)
        st = pe_invalid(err, "kernel_times", posenc_text("%zu times", p->kernel_times.n), "1 .. %d times", MOST_TIMES);
    for (size_t i = 0; i < p->kernel_times.n && !st; i++)
        if (gain(p, p->kernel_times.v[i]) > pe_dtype_max((posenc_dtype)r->common.dtype))
            st = pe_invalid(err, posenc_text("kernel_times[%zu]", i).s, posenc_text("%.6g", p->kernel_times.v[i]),
                            "times whose t^(space_dim / 2) fits dtype; or a smaller space_dim");
    if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        st = posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true", "false; or on_directed=symmetrize");
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const heat_kernel *p = r->params;
    const int64_t sizes[] = { r->graph->nodes, (int64_t)p->kernel_times.n };
    posenc_status st = pe_output(out, "encoding", (posenc_dtype)r->common.dtype, 2, sizes, err);
    if (!st && p->method == PROBE)
        st = pe_output(out, "standard_error", (posenc_dtype)r->common.dtype, 2, sizes, err);
    return st ? st : pe_status_output(r, out, err);
}

static double longest(const heat_kernel *p)
{
    double t = 0;
    for (size_t i = 0; i < p->kernel_times.n; i++)
        t = p->kernel_times.v[i] > t ? p->kernel_times.v[i] : t;
    return t;
}

/* Terms after which exp(-tau) I_k(tau) is below 1e-17 of the sum: Gaussian of variance tau, and a floor for small tau. */
static double terms(double tau) { return ceil(40 + 9.2 * sqrt(tau) + (tau < 400 ? 0.2 * tau : 0)); }

/* [ns] of both ways. */
static double dense_ns(double n, double times) { return n * n * n + 128 * n * n + times * n * (n + 400); }
static double expansion_ns(double n, double arcs, double degree, double times)
{
    return n * degree * (0.1 * (arcs + 3 * n) + times);
}

/* Each application of L to a panel for all times abreast. */
static double probe_ns(const heat_kernel *p, double n, double arcs, double degree)
{
    const double times = (double)p->kernel_times.n, panels = ceil((double)p->num_probes / PE_WIDTH);
    return panels *
               (ceil(times / ABREAST) * degree * ((n > 20000 ? 3 : 1) * (arcs + 3 * n)) + times * n * (2 * degree + 60)) +
           100 * n * (double)p->num_probes;
}

static bool dense(double n, double arcs, double degree, double times)
{
    return n <= 256 || (n <= DENSE_ROWS && dense_ns(n, times) < 16 * expansion_ns(n, arcs, degree, times));
}

/* The largest weighted degree of graph i, and the largest number of arcs at a node; the sums where there is no memory. */
static void largest_degrees(const posenc_graph *g, int64_t i, double *weight, double *count)
{
    const int64_t first = g->ptr[i], n = g->ptr[i + 1] - first, m = g->arc_ptr[i + 1] - g->arc_ptr[i];
    double *sum = n <= 8 * m + 1024 ? calloc((size_t)(2 * n + 1), sizeof *sum) : NULL;
    double all = 0;
    *weight = *count = 0;
    for (int64_t a = g->arc_ptr[i]; a < g->arc_ptr[i + 1]; a++) {
        const double w = g->weight ? fabs(g->weight[a]) : 1;
        const int64_t u = g->source[a] - first, v = g->target[a] - first;
        all += w;
        if (!sum)
            continue;
        sum[2 * u] += w;
        sum[2 * v] += w;
        *weight = pe_max(*weight, pe_max(sum[2 * u], sum[2 * v]));
        *count = pe_max(*count, pe_max(++sum[2 * u + 1], ++sum[2 * v + 1]));
    }
    if (!sum) {
        *weight = all;
        *count = 2 * (double)m;
    }
    free(sum);
}

/* Rows of the largest component that could be solved densely. */
static double dense_rows(double n, double arcs, double count, double degree, double times)
{
    double side = n < DENSE_ROWS ? n : DENSE_ROWS;
    while (side > 256 && !dense(side, side * count < arcs ? side * count : arcs, degree, times))
        side = pe_max(side * 0.95, 256);
    return ceil(side);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const heat_kernel *p = r->params;
    const posenc_graph *g = r->graph;
    const double times = (double)p->kernel_times.n;
    uint64_t chunk = 0; /* what graphs that are solved together hold */
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t begin = 0, end; begin < g->ngraphs; begin = end) {
        uint64_t held = 0;
        end = pe_chunk_end(g, begin);
        for (int64_t i = begin; i < end; i++)
            held += pe_spectra_held(g, i, g->ptr[i + 1] - g->ptr[i]);
        held += pe_spectra_bytes(g, begin, end, PE_SMALL_ROWS);
        chunk = held > chunk ? held : chunk;
    }
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const double n = (double)(g->ptr[i + 1] - g->ptr[i]), arcs = 2 * (double)(g->arc_ptr[i + 1] - g->arc_ptr[i]);
        double weight, count;
        largest_degrees(g, i, &weight, &count);
        const double bound = p->normalization == PE_LAPLACIAN_NONE ? 2 * weight : 2;
        const double full = terms(longest(p) * bound / 2), degree = full < MOST_DEGREE ? full : MOST_DEGREE;
        const bool probed = p->method == PROBE, whole = !probed && dense(n, arcs, full, times);
        out->ns += 5000 + 60 * arcs + (300 + 30 * times) * n;
        out->ns += probed  ? probe_ns(p, n, arcs, pe_min(terms(longest(p) * bound / 4), MOST_DEGREE))
                   : whole ? dense_ns(n, times)
                           : expansion_ns(n, arcs, degree, times);
        const uint64_t nodes = (uint64_t)n, side = probed ? 0 : (uint64_t)dense_rows(n, arcs, count, full, times);
        uint64_t scratch = 24 * side * side + 600 * nodes + 80 * (uint64_t)arcs + 8 * p->kernel_times.n * (MOST_DEGREE + 40);
        if (probed)
            scratch += nodes * (64 * ABREAST + 24 * p->kernel_times.n);
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
    out->scratch += chunk;
}

/* ---- the formula ---- */

typedef struct kernel {
    const heat_kernel *p;
    pe_spectrum s;
    double *value; /* (n, T) by place */
    double *error; /* (n, T) of probes; NULL */
    double *time;  /* (T) in units of the scaled weights */
    int64_t ntimes;
} kernel;

/* INVALID where eigenvalues are known too roughly for a time to say what is left of their vectors: pairs are those of a
 * matrix off by 2^-50 of the bound, which moves exp(-t L) by t times as much, unless nothing is left of all of them. */
static posenc_status check_pairs(const kernel *k, const pe_pairs *pairs, double bound, posenc_error *err)
{
    const double off = 0x1p-50 * bound, least = pairs->count ? pairs->values[0] - off : INFINITY;
    posenc_status st = PE_OK;
    for (int64_t t = 0; t < k->ntimes && !st; t++)
        if (k->time[t] * off > 2e-6 && k->time[t] * least < 40)
            st = posenc_fail(
                err, PE_INVALID, "INVALID_PARAMETER", posenc_text("kernel_times[%lld]", (long long)t).s,
                posenc_text("%.6g", k->p->kernel_times.v[t]).s,
                "at most %.3g for these weights: eigenvalues are known to 2^-50 of their bound; or weights that "
                "are nearer to each other",
                2e-6 / off * (k->p->kernel_times.v[t] / k->time[t]));
    return st;
}

/* Component c by all its eigenpairs. */
static posenc_status by_pairs(kernel *k, int64_t c, const pe_component *m, double bound, posenc_context *ctx,
                              posenc_error *err)
{
    pe_pairs own = { 0 }, *pairs = &k->s.pairs[c];
    double *factor = malloc((size_t)k->ntimes * sizeof *factor), *at = k->value + k->s.begin[c] * k->ntimes;
    posenc_status st = factor ? PE_OK : pe_no_memory("memory", err);
    if (!st && pairs->count) { /* solved with the components of other graphs */
        st = pe_pairs_rows(pairs, err);
    } else if (!st) {
        pairs = &own;
        st = pe_component_pairs(m, m->n, 0, 1e-10, 0, PE_SOLVER_DENSE, false, pairs, ctx, err);
    }
    if (!st)
        st = check_pairs(k, pairs, bound, err);
    for (int64_t i = 0; i < pairs->count && !st; i++) {
        const double *v = pairs->vectors + i * m->n;
        for (int64_t t = 0; t < k->ntimes; t++)
            factor[t] = pe_exp(-k->time[t] * (pairs->values[i] > 0 ? pairs->values[i] : 0));
        if ((st = pe_pace_add(&k->s.pace, 500 * k->ntimes)))
            break;
        for (int64_t u = 0; u < m->n && !st; u++) {
            const double square = v[u] * v[u];
            for (int64_t t = 0; t < k->ntimes; t++)
                at[u * k->ntimes + t] += factor[t] * square;
            st = pe_pace_add(&k->s.pace, k->ntimes + 2);
        }
    }
    for (int64_t u = 0; u < m->n && !st && !k->p->exclude_zero && m->kernel; u++) {
        for (int64_t t = 0; t < k->ntimes; t++)
            at[u * k->ntimes + t] += m->kernel[u] * m->kernel[u];
        st = pe_pace_add(&k->s.pace, k->ntimes + 2);
    }
    free(factor);
    pe_pairs_fini(&own);
    return st;
}

/* coefficient[j] = (-1)^j (j ? 2 : 1) e^-tau I_j(tau), j = 0 .. degree, by Miller's backward recurrence, which the sum of
 * all of them, e^0 at x = -1, normalises. */
static void bessel(double tau, int64_t degree, double *coefficient)
{
    double above = 0, now = 1e-280, sum = 0;
    if (tau < 1e-9) { /* 1 - tau - tau x, short of tau^2 */
        memset(coefficient, 0, (size_t)(degree + 1) * sizeof *coefficient);
        coefficient[0] = 1 - tau;
        coefficient[1] = -tau;
        return;
    }
    for (int64_t j = degree; j >= 0; j--) {
        coefficient[j] = (j ? 2 : 1) * now;
        sum += coefficient[j];
        const double below = above + 2 * (double)j / tau * now;
        above = now;
        now = below;
        if (now > 1e200) {
            for (int64_t i = j; i <= degree && coefficient[i] > 0; i++)
                coefficient[i] *= 1e-250;
            sum *= 1e-250;
            above *= 1e-250;
            now *= 1e-250;
        }
    }
    for (int64_t j = 0; j <= degree; j++)
        coefficient[j] *= (j % 2 ? -1 : 1) / sum;
}

typedef struct expansion {
    kernel *k;
    const pe_laplacian *lap;
    int64_t degree;
    double *coefficient; /* (T, degree + 1) */
    double *x[3];        /* panels */
    double *first;       /* of this component's values */
} expansion;

/* sum += x y, by columns. */
static posenc_status products(expansion *e, const double *x, const double *y, double sum[PE_WIDTH])
{
    enum { CHUNK = 4096 };
    posenc_status st = PE_OK;
    const pe_lanes *a = (const pe_lanes *)x, *b = (const pe_lanes *)y;
    pe_lanes s = { 0 };
    const int64_t n = e->lap->c->n;
    for (int64_t from = 0; from < n && !st; from += CHUNK) {
        const int64_t to = from + CHUNK < n ? from + CHUNK : n;
        for (int64_t i = from; i < to; i++)
            s += a[i] * b[i];
        st = pe_pace_add(&e->k->s.pace, 8 * (to - from));
    }
    memcpy(sum, &s, sizeof s);
    return st;
}

/* Adds the term of T_j, whose diagonal entries at the panel's nodes are `moment`. */
static void add_term(expansion *e, int64_t j, const double moment[PE_WIDTH], int64_t node, int64_t count)
{
    const int64_t times = e->k->ntimes;
    for (int64_t i = 0; i < count && j <= e->degree; i++)
        for (int64_t t = 0; t < times; t++)
            e->first[(node + i) * times + t] += e->coefficient[t * (e->degree + 1) + j] * moment[i];
}

/* The nodes (places of the component) node .. node + count - 1, at most eight. */
static posenc_status expand(expansion *e, int64_t node, int64_t count)
{
    pe_pace *pace = &e->k->s.pace;
    const int64_t n = e->lap->c->n;
    const double b = e->lap->bound;
    posenc_status st = PE_OK;
    double one[PE_WIDTH], linear[PE_WIDTH], moment[PE_WIDTH];
    double *before = e->x[0], *now = e->x[1], *next = e->x[2];
    for (int64_t i = 0; i < n && !st; i += 4096) {
        memset(before + i * PE_WIDTH, 0, (size_t)(n - i < 4096 ? n - i : 4096) * PE_WIDTH * sizeof *before);
        st = pe_pace_add(pace, 8192);
    }
    for (int64_t i = 0; i < count; i++)
        before[(node + i) * PE_WIDTH + i] = 1;
    if (!st)
        st = pe_laplacian_apply(e->lap, 2 / b, b / 2, before, 0, NULL, now, pace);
    for (int64_t i = 0; i < count && !st; i++) {
        one[i] = 1;
        linear[i] = now[(node + i) * PE_WIDTH + i];
    }
    add_term(e, 0, one, node, count);
    add_term(e, 1, linear, node, count);
    for (int64_t j = 1; 2 * j <= e->degree && !st; j++) { /* before is T_(j-1) e, now T_j e */
        if ((st = products(e, now, now, moment)))
            break;
        for (int64_t i = 0; i < count; i++)
            moment[i] = 2 * moment[i] - 1;
        add_term(e, 2 * j, moment, node, count);
        if (2 * j + 1 > e->degree)
            break;
        if ((st = pe_laplacian_apply(e->lap, 4 / b, b / 2, now, 1, before, next, pace)))
            break;
        if ((st = products(e, now, next, moment)))
            break;
        for (int64_t i = 0; i < count; i++)
            moment[i] = 2 * moment[i] - linear[i];
        add_term(e, 2 * j + 1, moment, node, count);
        st = pe_pace_add(pace, 16 * e->k->ntimes);
        double *spare = before;
        before = now;
        now = next;
        next = spare;
    }
    return st;
}

static posenc_status by_expansion(kernel *k, int64_t c, const pe_laplacian *lap, int64_t degree, posenc_error *err)
{
    posenc_status st = PE_OK;
    const int64_t n = lap->c->n, begin = k->s.begin[c];
    expansion e = { .k = k, .lap = lap, .degree = degree, .first = k->value + begin * k->ntimes };
    e.coefficient = malloc((size_t)(k->ntimes * (degree + 1)) * sizeof *e.coefficient);
    for (int i = 0; i < 3; i++)
        e.x[i] = pe_panel_new(n);
    if (!e.coefficient || !e.x[0] || !e.x[1] || !e.x[2]) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t t = 0; t < k->ntimes && !st; t++) {
        bessel(k->time[t] * lap->bound / 2, degree, e.coefficient + t * (degree + 1));
        st = pe_pace_add(&k->s.pace, 16 * degree);
    }
    for (int64_t node = 0; node < n && !st; node += PE_WIDTH)
        st = expand(&e, node, n - node < PE_WIDTH ? n - node : PE_WIDTH);
    for (int64_t u = 0; u < n && !st; u++) {
        const double *null = lap->c->kernel;
        for (int64_t t = 0; t < k->ntimes; t++) {
            double *v = &e.first[u * k->ntimes + t];
            *v -= k->p->exclude_zero && null ? null[u] * null[u] : 0;
            *v = *v > 0 ? *v : 0;
        }
        st = pe_pace_add(&k->s.pace, 2 * k->ntimes);
    }
done:
    free(e.coefficient);
    for (int i = 0; i < 3; i++)
        free(e.x[i]);
    return st;
}

/* ---- estimates ---- */

/* What spreads eight probes over one component. */
typedef struct spreading {
    kernel *k;
    const pe_laplacian *lap;
    int64_t begin, degree;
    double *coefficient;                          /* (T, degree + 1) */
    double *z, *now, *next, *before, *x[ABREAST]; /* panels; x: exp(-t L / 2) z */
    pe_tally tally;                               /* of x^2 */
} spreading;

/* z without its part in the null space. */
static posenc_status deflate(const spreading *e, double *z)
{
    enum { CHUNK = 4096 };
    const double *null = e->lap->c->kernel;
    const int64_t n = e->lap->c->n;
    pe_lanes *panel = (pe_lanes *)z, share = { 0 };
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && null && !st; i += CHUNK) {
        const int64_t end = n - i < CHUNK ? n : i + CHUNK;
        for (int64_t u = i; u < end; u++)
            share += null[u] * panel[u];
        st = pe_pace_add(&e->k->s.pace, 6 * (end - i));
    }
    for (int64_t i = 0; i < n && null && !st; i += CHUNK) {
        const int64_t end = n - i < CHUNK ? n : i + CHUNK;
        for (int64_t u = i; u < end; u++)
            panel[u] -= null[u] * share;
        st = pe_pace_add(&e->k->s.pace, 6 * (end - i));
    }
    return st;
}

/* x of each of `count` times from t on gets c_j T_j z; the terms that no longer matter are left out. */
static posenc_status add_terms(const spreading *e, int64_t t, int64_t count, int64_t j, const double *term)
{
    enum { CHUNK = 4096 };
    const int64_t n = e->lap->c->n;
    const pe_lanes *from = (const pe_lanes *)term;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < count; i++) {
        const double c = e->coefficient[(t + i) * (e->degree + 1) + j];
        pe_lanes *to = (pe_lanes *)e->x[i];
        if (j && fabs(c) < 1e-18)
            continue;
        for (int64_t u = 0; u < n && !st; u += CHUNK) {
            const int64_t end = n - u < CHUNK ? n : u + CHUNK;
            for (int64_t v = u; v < end; v++)
                to[v] = j ? to[v] + c * from[v] : c * from[v];
            st = pe_pace_add(&e->k->s.pace, 10 * (end - u));
        }
    }
    return st;
}

/* Times t .. t + count - 1 of one panel of `probes` probes. */
static posenc_status spread(spreading *e, int64_t t, int64_t count, int64_t probes)
{
    pe_pace *pace = &e->k->s.pace;
    const int64_t n = e->lap->c->n;
    const double b = e->lap->bound;
    double *before = e->before, *now = e->now, *next = e->next;
    posenc_status st = pe_pace_copy(pace, before, e->z, (size_t)(n * PE_WIDTH) * sizeof *before);
    if (!st)
        st = add_terms(e, t, count, 0, before);
    if (!st)
        st = pe_laplacian_apply(e->lap, 2 / b, b / 2, before, 0, NULL, now, pace);
    for (int64_t j = 1; j <= e->degree && !st; j++) {
        if ((st = add_terms(e, t, count, j, now)) || j == e->degree)
            break;
        st = pe_laplacian_apply(e->lap, 4 / b, b / 2, now, 1, before, next, pace);
        double *spare = before;
        before = now;
        now = next;
        next = spare;
    }
    for (int64_t i = 0; i < count && !st; i++)
        st = pe_tally_add(&e->tally, t + i, 0, n, e->x[i], e->x[i], probes, pace);
    return st;
}

static posenc_status put_estimates(const spreading *e)
{
    kernel *k = e->k;
    const double *null = e->lap->c->kernel;
    const int64_t n = e->lap->c->n, times = k->ntimes, probes = k->p->num_probes;
    posenc_status st = PE_OK;
    for (int64_t u = 0; u < n && !st; u++) {
        const double share = null ? null[u] * null[u] : 0;
        for (int64_t t = 0; t < times; t++) {
            const int64_t at = (e->begin + u) * times + t;
            const bool known = k->time[t] == 0;
            k->value[at] = (known ? 1 - share : e->tally.mean[t * n + u]) + (k->p->exclude_zero ? 0 : share);
            k->error[at] = known ? 0 : pe_tally_error(&e->tally, t, u, probes);
        }
        st = pe_pace_add(&k->s.pace, 30 * times);
    }
    return st;
}

static posenc_status by_probes(kernel *k, int64_t c, const pe_laplacian *lap, int64_t degree, posenc_error *err)
{
    const int64_t n = lap->c->n, times = k->ntimes, abreast = times < ABREAST ? times : ABREAST;
    const int32_t *node = k->s.node + k->s.begin[c];
    spreading e = { .k = k, .lap = lap, .begin = k->s.begin[c], .degree = degree };
    double **panels[] = { &e.z, &e.now, &e.next, &e.before };
    posenc_status st = pe_tally_init(&e.tally, n, times, err);
    bool ok = (e.coefficient = malloc((size_t)(times * (degree + 1)) * sizeof *e.coefficient)) != NULL;
    for (size_t i = 0; i < PE_LEN(panels); i++)
        ok = (*panels[i] = pe_panel_new(n)) && ok;
    for (int64_t i = 0; i < abreast; i++)
        ok = (e.x[i] = pe_panel_new(n)) && ok;
    if (!st && !ok)
        st = pe_no_memory("memory", err);
    for (int64_t t = 0; t < times && !st; t++) {
        bessel(k->time[t] * lap->bound / 4, degree, e.coefficient + t * (degree + 1));
        st = pe_pace_add(&k->s.pace, 16 * degree);
    }
    for (int64_t probe = 0; probe < k->p->num_probes && !st; probe += PE_WIDTH) {
        const int64_t left = k->p->num_probes - probe, count = left < PE_WIDTH ? left : PE_WIDTH;
        if (!(st = pe_probe_signs((uint64_t)k->p->seed, (uint64_t)probe, count, node, n, e.z, &k->s.pace)))
            st = deflate(&e, e.z);
        for (int64_t t = 0; t < times && !st; t += abreast)
            st = spread(&e, t, times - t < abreast ? times - t : abreast, count);
        e.tally.probes += count;
    }
    if (!st)
        st = put_estimates(&e);
    pe_tally_fini(&e.tally);
    free(e.coefficient);
    for (size_t i = 0; i < PE_LEN(panels); i++)
        free(*panels[i]);
    for (int64_t i = 0; i < abreast; i++)
        free(e.x[i]);
    return st;
}

/* ---- component by component ---- */

/* More terms than are ever summed. */
static posenc_status too_late(const kernel *k, int64_t n, double degree, posenc_error *err)
{
    const double most = longest(k->p) * (MOST_DEGREE / degree) * (MOST_DEGREE / degree),
                 pairs = 24.0 * (double)n * (double)n;
    const posenc_short value = posenc_text("%.6g", longest(k->p));
    if (k->p->method == PROBE)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "kernel_times", value.s,
                           "times below %.3g for a component of %lld nodes; or normalization=sym", most, (long long)n);
    return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "kernel_times", value.s,
                       "times below %.3g for a component of %lld nodes: all eigenpairs would take %.0f bytes", most,
                       (long long)n, pairs);
}

static posenc_status component(kernel *k, int64_t c, posenc_context *ctx, posenc_error *err)
{
    pe_spectrum *s = &k->s;
    const int64_t begin = s->begin[c], n = s->begin[c + 1] - begin;
    if (n == 1) {
        for (int64_t t = 0; t < k->ntimes; t++)
            k->value[begin * k->ntimes + t] = s->null[c] ? !k->p->exclude_zero : pe_exp(-k->time[t] * s->single[c]);
        return pe_pace_add(&s->pace, 500 * k->ntimes);
    }
    pe_part part;
    pe_laplacian lap = { 0 };
    posenc_status st = pe_spectrum_part(s, c, &part, err);
    if (!st)
        st = pe_laplacian_init(&lap, &part.m, &s->pace, err);
    if (!st) {
        double most = 0;
        for (int64_t t = 0; t < k->ntimes; t++)
            most = k->time[t] > most ? k->time[t] : most;
        const bool probed = k->p->method == PROBE;
        const double degree = terms(most * lap.bound / (probed ? 4 : 2)), arcs = (double)part.m.ptr[n];
        const bool whole = !probed && dense((double)n, arcs, degree, (double)k->ntimes);
        const double ns = probed  ? probe_ns(k->p, (double)n, arcs, degree)
                          : whole ? dense_ns((double)n, (double)k->ntimes)
                                  : expansion_ns((double)n, arcs, degree, (double)k->ntimes);
        if (!whole && degree > MOST_DEGREE)
            st = too_late(k, n, degree, err);
        else
            st = pe_check_time(ns, "kernel_times",
                               probed
                                   ? "shorter times, normalization=sym, fewer probes, or a smaller graph"
                                   : "method=probe estimates with a standard error; shorter times, normalization=sym, or a "
                                     "smaller graph",
                               err);
        if (!st)
            st = probed  ? by_probes(k, c, &lap, (int64_t)degree, err)
                 : whole ? by_pairs(k, c, &part.m, lap.bound, ctx, err)
                         : by_expansion(k, c, &lap, (int64_t)degree, err);
    }
    pe_laplacian_fini(&lap);
    pe_part_fini(&part);
    return st;
}

/* Rows by place into `out` by node. */
static posenc_status store(kernel *k, pe_graph_job *j, posenc_tensor *out, double *by_place, posenc_error *err)
{
    const heat_kernel *p = k->p;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < j->n && !st; i++) {
        double *row = by_place + i * k->ntimes;
        for (int64_t t = 0; t < k->ntimes && p->space_dim > 0; t++)
            row[t] *= gain(p, p->kernel_times.v[t]);
        st = pe_pace_add(&j->pace, p->space_dim > 0 ? 1500 * k->ntimes : 1);
        if (!st)
            st = pe_graph_store(out, (j->first + k->s.node[i]) * k->ntimes, row, k->ntimes, &j->pace, err);
    }
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    const heat_kernel *p = j->request->params;
    kernel k = { .p = p, .ntimes = (int64_t)p->kernel_times.n };
    posenc_tensor *out = pe_tensor(j->out, "encoding");
    posenc_status st = pe_spectra_take(self, j->request->graph, j->graph, &k.s, j->ctx, err);
    if (st)
        goto done;
    k.value = calloc((size_t)(j->n * k.ntimes + 1), sizeof *k.value);
    k.error = p->method == PROBE ? calloc((size_t)(j->n * k.ntimes + 1), sizeof *k.error) : NULL;
    k.time = malloc((size_t)k.ntimes * sizeof *k.time);
    if (!k.value || !k.time || (p->method == PROBE && !k.error)) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t t = 0; t < k.ntimes; t++) {
        const bool scaled = p->normalization == PE_LAPLACIAN_NONE;
        k.time[t] = scaled ? ldexp(p->kernel_times.v[t], k.s.exponent) : p->kernel_times.v[t];
        k.time[t] = k.time[t] < 1e200 ? k.time[t] : 1e200; /* by then all is 0 */
    }
    for (int64_t c = 0; c < k.s.csr.ncomponents && !st; c++)
        st = component(&k, c, j->ctx, err);
    if (!st)
        st = store(&k, j, out, k.value, err);
    if (!st && k.error)
        st = store(&k, j, pe_tensor(j->out, "standard_error"), k.error, err);
    if (!st)
        j->zero_edges = k.s.csr.zero_edges;
done:
    free(k.value);
    free(k.error);
    free(k.time);
    pe_spectrum_fini(&k.s);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    const heat_kernel *p = j->request->params;
    (void)self;
    posenc_status st = pe_spoil(pe_tensor(j->out, "encoding"), j->first, j->n, &j->pace);
    return st || p->method == EXACT ? st : pe_spoil(pe_tensor(j->out, "standard_error"), j->first, j->n, &j->pace);
}

/* All of every component that lanes take; the others are solved in their turn. */
static int64_t want(const void *arg, const pe_spectrum *s, int64_t c, int64_t zeros)
{
    const heat_kernel *p = arg;
    (void)zeros;
    return p->method == EXACT ? s->begin[c + 1] - s->begin[c] - s->null[c] : 0;
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    const heat_kernel *p = c->request->params;
    const pe_spectrum_options options = {
        .edges = p->edges, .normalization = p->normalization, .isolated = p->isolated, .tol = 1e-10
    };
    return pe_spectra_init(copy, c, &options, want, p, err);
}

static void end(void *copy, void *self)
{
    (void)self;
    pe_spectra_fini(copy);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    pe_spectra spectra = { 0 };
    const pe_graph_task task = {
        .encode = encode, .spoil = spoil, .self = &spectra, .size = sizeof spectra, .begin = begin, .end = end
    };
    pe_warn_directed(r, out);
    return pe_each_graph(r, out, &task, ctx, err);
}

const posenc_encoding pe_heat_kernel = {
    .name = "heat_kernel",
    .family = "graph",
    .title = "Diagonal of the heat kernel",
    .source = "GraphGPS get_heat_kernels_diag (HKdiagSE)",
    .formula =
        "t^(space_dim / 2) * sum over eigenpairs of L of exp(-t lambda) v(u)^2, for each t of kernel_times;\n"
        "exclude_zero: without the null space\n"
        "method=probe: mean over random signs z of (exp(-t L / 2) z)_u^2, z without the null space, whose share is exact",
    .example = "kernel_times=1,2,4",
    .revision = 3,
    .input = PE_GRAPH,
    PE_TABLE(heat_kernel, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
