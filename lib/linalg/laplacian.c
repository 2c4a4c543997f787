#include "laplacian.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/params.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static double weight(const pe_component *c, int64_t p) { return c->weight ? c->weight[p] : 1; }

/* No eigenvalue of L is above the largest row sum of T^-1 |L| T, T = diag(degree) for none, diag(degree)^1/2 for sym:
 *   none   max_i  L_ii + sum_j |w_ij| degree[j] / degree[i]      sym   max_i  L_ii + sum_j |w_ij| / degree[i]
 * Source: Merris 1998, "A note on Laplacian graph eigenvalues"; by Perron-Frobenius also for signed weights. */
static posenc_status largest(const pe_laplacian *l, double *out, pe_pace *pace)
{
    const pe_component *c = l->c;
    posenc_status st = PE_OK;
    double most = 0;
    for (int64_t i = 0; i < c->n && !st; i++) {
        double s = 0;
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++)
            s += fabs(weight(c, p)) * (c->normalized ? 1 : c->degree[c->col[p]]);
        s = fabs(l->diagonal[i]) + s / c->degree[i];
        most = s > most ? s : most;
        st = pe_pace_add(pace, 4 * (c->ptr[i + 1] - c->ptr[i]) + 4);
    }
    *out = most;
    return st;
}

/* What L's diagonal has beyond the edges' share of it: 0 up to rounding but where self-loops were kept. */
static double beyond(const pe_laplacian *l, int64_t i)
{
    const pe_component *c = l->c;
    double s = 0, g = l->gauge ? l->gauge[i] : 1;
    for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++)
        s += fabs(weight(c, p));
    double rest = l->diagonal[i] - s * (g * g), rounding = DBL_EPSILON * (double)(c->ptr[i + 1] - c->ptr[i] + 8);
    return fabs(rest) > rounding * fabs(l->diagonal[i]) ? rest : 0;
}

posenc_status pe_laplacian_init(pe_laplacian *l, const pe_component *c, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    size_t n = (size_t)c->n, arcs = (size_t)c->ptr[c->n];
    double most = 0;

    *l = (pe_laplacian){ .c = c };
    l->diagonal = pe_work_memory(n * sizeof(double));
    l->entry = pe_work_memory((arcs + 1) * sizeof(double));
    if (c->normalized)
        l->gauge = pe_work_memory(n * sizeof(double));
    if (c->diagonal)
        l->rest = pe_work_memory(n * sizeof(double));
    if (!l->diagonal || !l->entry || (c->normalized && !l->gauge) || (c->diagonal && !l->rest)) {
        pe_laplacian_fini(l);
        return pe_no_memory("memory", err);
    }
    for (int64_t i = 0; i < c->n && !st; i++) {
        most = c->degree[i] > most ? c->degree[i] : most;
        l->diagonal[i] = c->diagonal ? c->diagonal[i] : c->normalized ? 1 : c->degree[i];
        if (l->gauge)
            l->gauge[i] = 1 / sqrt(c->degree[i]);
        st = pe_pace_add(pace, 12);
    }
    for (int64_t i = 0; i < c->n && !st; i++) {
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++)
            l->entry[p] = -(l->gauge ? weight(c, p) * (l->gauge[i] * l->gauge[c->col[p]]) : weight(c, p));
        if (l->rest)
            l->rest[i] = beyond(l, i);
        st = pe_pace_add(pace, 6 * (c->ptr[i + 1] - c->ptr[i]) + 4);
    }
    l->scale = c->normalized ? 2 : 2 * most;
    l->bound = 2;
    if (!st && !(c->normalized && !c->diagonal))
        st = largest(l, &l->bound, pace);
    if (st)
        pe_laplacian_fini(l);
    return st;
}

void pe_laplacian_fini(pe_laplacian *l)
{
    free(l->diagonal);
    free(l->entry);
    free(l->gauge);
    free(l->rest);
    *l = (pe_laplacian){ 0 };
}

PE_CLONES static void apply_rows(const pe_laplacian *l, int64_t begin, int64_t end, double alpha, double shift,
                                 const double *x, double beta, const double *y, double *z)
{
    const int64_t *ptr = l->c->ptr;
    const int32_t *col = l->c->col;
    const double *a = l->entry;
    const pe_lanes *from = (const pe_lanes *)x, *other = (const pe_lanes *)y;
    pe_lanes *to = (pe_lanes *)z;
    for (int64_t i = begin; i < end; i++) {
        pe_lanes s = (l->diagonal[i] - shift) * from[i], t = { 0 };
        int64_t p = ptr[i], last = ptr[i + 1];
        for (; p + 2 <= last; p += 2) {
            s += a[p] * from[col[p]];
            t += a[p + 1] * from[col[p + 1]];
        }
        if (p < last)
            s += a[p] * from[col[p]];
        s = alpha * (s + t);
        if (other)
            s -= beta * other[i];
        to[i] = s;
    }
}

/* Rows begin .. end - 1 hold about 2^15 arcs. */
static int64_t batch(const pe_component *c, int64_t begin)
{
    int64_t end = begin;
    while (end < c->n && c->ptr[end] - c->ptr[begin] + 4 * (end - begin) < 1 << 15)
        end++;
    return end;
}

typedef struct application {
    const pe_laplacian *l;
    posenc_context *ctx;
    double alpha, shift, beta;
    const double *x, *y;
    double *z;
} application;

/* A task is 2^14 rows, so that rows of few arcs make one of about a millisecond. */
static posenc_status apply_part(void *arg, int64_t part, posenc_error *err)
{
    const application *a = arg;
    const pe_component *c = a->l->c;
    const int64_t begin = part << 14, stop = c->n - begin < 1 << 14 ? c->n : begin + (1 << 14);
    pe_pace pace = { .ctx = a->ctx, .left = PE_PACE_STEPS };
    posenc_status st = posenc_poll(a->ctx);
    (void)err;
    for (int64_t i = begin; i < stop && !st;) {
        int64_t end = batch(c, i);
        end = end < stop ? end : stop;
        apply_rows(a->l, i, end, a->alpha, a->shift, a->x, a->beta, a->y, a->z);
        st = pe_pace_add(&pace, 8 * (c->ptr[end] - c->ptr[i] + end - i));
        i = end;
    }
    return st;
}

posenc_status pe_laplacian_apply(const pe_laplacian *l, double alpha, double shift, const double *x, double beta,
                                 const double *y, double *z, pe_pace *pace)
{
    posenc_status st = PE_OK;
    if (l->c->n > 1 << 14) {
        application a = { l, pace->ctx, alpha, shift, beta, x, y, z };
        return pe_parallel(pace->ctx, (l->c->n + (1 << 14) - 1) >> 14, 0, apply_part, &a, NULL);
    }
    for (int64_t i = 0; i < l->c->n && !st;) {
        int64_t end = batch(l->c, i);
        apply_rows(l, i, end, alpha, shift, x, beta, y, z);
        st = pe_pace_add(pace, 8 * (l->c->ptr[end] - l->c->ptr[i] + end - i));
        i = end;
    }
    return st;
}

/* `sum` and over edges of |w| (g_i x_i -+ g_j x_j)^2, the upper sign for positive weights, and over nodes of rest_i x_i^2 */
static double quotient_rows(const pe_laplacian *l, int64_t begin, int64_t end, const double *x, double sum)
{
    const pe_component *c = l->c;
    for (int64_t i = begin; i < end; i++) {
        const double gi = l->gauge ? l->gauge[i] : 1, own = gi * x[i];
        if (l->rest)
            sum += l->rest[i] * (x[i] * x[i]);
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            const int64_t j = c->col[p];
            if (j <= i)
                continue;
            const double w = c->weight ? c->weight[p] : 1, gj = l->gauge ? l->gauge[j] : 1;
            const double d = own - copysign(gj, w) * x[j];
            sum += fabs(w) * (d * d);
        }
    }
    return sum;
}

static double residual_rows(const pe_laplacian *l, int64_t begin, int64_t end, const double *x, double value, double sum)
{
    const pe_component *c = l->c;
    for (int64_t i = begin; i < end; i++) {
        double s = l->diagonal[i] * x[i], t = 0;
        int64_t p = c->ptr[i];
        for (; p + 2 <= c->ptr[i + 1]; p += 2) {
            s += l->entry[p] * x[c->col[p]];
            t += l->entry[p + 1] * x[c->col[p + 1]];
        }
        if (p < c->ptr[i + 1])
            s += l->entry[p] * x[c->col[p]];
        const double d = s + t - value * x[i];
        sum += d * d;
    }
    return sum;
}

enum { PART = 1 << 12 }; /* rows of a task */

typedef struct measurement {
    const pe_laplacian *l;
    posenc_context *ctx;
    double *const *x, *values; /* values NULL: of the quotient */
    int64_t count;
    double *part; /* (parts, count) */
} measurement;

static posenc_status measure_part(void *arg, int64_t part, posenc_error *err)
{
    const measurement *m = arg;
    const int64_t n = m->l->c->n, begin = part * PART, end = n - begin < PART ? n : begin + PART;
    pe_pace pace = { .ctx = m->ctx, .left = PE_PACE_STEPS };
    posenc_status st = n > PART ? posenc_poll(m->ctx) : PE_OK;
    (void)err;
    for (int64_t j = 0; j < m->count && !st; j++) {
        double sum = 0;
        for (int64_t i = begin, stop; i < end && !st; i = stop) {
            stop = batch(m->l->c, i);
            stop = stop < end ? stop : end;
            sum = m->values ? residual_rows(m->l, i, stop, m->x[j], m->values[j], sum)
                            : quotient_rows(m->l, i, stop, m->x[j], sum);
            st = pe_pace_add(&pace, 6 * (m->l->c->ptr[stop] - m->l->c->ptr[i]) + 8 * (stop - i));
        }
        m->part[part * m->count + j] = sum;
    }
    return st;
}

posenc_status pe_laplacian_measure(const pe_laplacian *l, int64_t count, double *const *x, double *values, double *residuals,
                                   pe_pace *pace, posenc_error *err)
{
    const int64_t parts = (l->c->n + PART - 1) / PART;
    measurement m = { .l = l, .ctx = pace->ctx, .x = x, .count = count };
    posenc_status st = PE_OK;
    if (!(m.part = malloc((size_t)(parts * count + 1) * sizeof *m.part)))
        return pe_no_memory("memory", err);
    for (int turn = 0; turn < 2 && !st; turn++) {
        double *to = turn ? residuals : values;
        m.values = turn ? values : NULL;
        st = pe_parallel(pace->ctx, parts, 0, measure_part, &m, err);
        for (int64_t j = 0; j < count && !st; j++) {
            double sum = 0;
            for (int64_t q = 0; q < parts; q++)
                sum += m.part[q * count + j];
            to[j] = turn ? sqrt(sum) : sum;
        }
    }
    free(m.part);
    return st ? st : pe_pace_add(pace, l->c->n < PART ? count * 20 * l->c->n : 0);
}
