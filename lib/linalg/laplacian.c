#include "laplacian.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/params.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Over edges of |w| (g_i x_i -+ g_j x_j)^2, the upper sign for positive weights, and over nodes of rest_i x_i^2. x is a
 * panel. */
PE_CLONES static void quotient_rows(const pe_laplacian *l, int64_t begin, int64_t end, const double *x, double *sum)
{
    const pe_component *c = l->c;
    const pe_lanes *from = (const pe_lanes *)x;
    pe_lanes s = *(const pe_loose_lanes *)sum;
    for (int64_t i = begin; i < end; i++) {
        const pe_lanes own = (l->gauge ? l->gauge[i] : 1) * from[i];
        if (l->rest)
            s += l->rest[i] * (from[i] * from[i]);
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            const int64_t j = c->col[p];
            if (j <= i)
                continue;
            const double w = c->weight ? c->weight[p] : 1, gj = l->gauge ? l->gauge[j] : 1;
            const pe_lanes d = own - copysign(gj, w) * from[j];
            s += fabs(w) * (d * d);
        }
    }
    *(pe_loose_lanes *)sum = s;
}

PE_CLONES static void residual_rows(const pe_laplacian *l, int64_t begin, int64_t end, const double *x, const double *values,
                                    double *sum)
{
    const pe_component *c = l->c;
    const pe_lanes *from = (const pe_lanes *)x, value = *(const pe_loose_lanes *)values;
    pe_lanes all = *(const pe_loose_lanes *)sum;
    for (int64_t i = begin; i < end; i++) {
        pe_lanes s = l->diagonal[i] * from[i], t = { 0 };
        int64_t p = c->ptr[i];
        for (; p + 2 <= c->ptr[i + 1]; p += 2) {
            s += l->entry[p] * from[c->col[p]];
            t += l->entry[p + 1] * from[c->col[p + 1]];
        }
        if (p < c->ptr[i + 1])
            s += l->entry[p] * from[c->col[p]];
        const pe_lanes d = s + t - value * from[i];
        all += d * d;
    }
    *(pe_loose_lanes *)sum = all;
}

enum { PART = 1 << 12 }; /* rows of a task */

typedef struct measurement {
    const pe_laplacian *l;
    posenc_context *ctx;
    const double *panel;
    const double *values; /* (PE_WIDTH); NULL: of the quotient */
    double *part;         /* (parts, PE_WIDTH) */
} measurement;

static posenc_status measure_part(void *arg, int64_t part, posenc_error *err)
{
    const measurement *m = arg;
    const int64_t n = m->l->c->n, begin = part * PART, end = n - begin < PART ? n : begin + PART;
    double *sum = m->part + part * PE_WIDTH;
    pe_pace pace = { .ctx = m->ctx, .left = PE_PACE_STEPS };
    posenc_status st = n > PART ? posenc_poll(m->ctx) : PE_OK;
    (void)err;
    memset(sum, 0, PE_WIDTH * sizeof *sum);
    for (int64_t i = begin, stop; i < end && !st; i = stop) {
        stop = batch(m->l->c, i);
        stop = stop < end ? stop : end;
        if (m->values)
            residual_rows(m->l, i, stop, m->panel, m->values, sum);
        else
            quotient_rows(m->l, i, stop, m->panel, sum);
        st = pe_pace_add(&pace, 12 * (m->l->c->ptr[stop] - m->l->c->ptr[i]) + 16 * (stop - i));
    }
    return st;
}

/* Of at most PE_WIDTH vectors. */
static posenc_status measure(measurement *m, int64_t count, double *const *x, double *panel, double *values,
                             double *residuals, pe_pace *pace, posenc_error *err)
{
    const int64_t n = m->l->c->n, parts = (n + PART - 1) / PART;
    double all[2][PE_WIDTH] = { 0 };
    posenc_status st = pe_panel_gather(n, count, x, panel, pace);
    for (int turn = 0; turn < 2 && !st; turn++) {
        m->values = turn ? all[0] : NULL;
        st = pe_parallel(m->ctx, parts, 0, measure_part, m, err);
        for (int64_t q = 0; q < parts && !st; q++)
            for (int j = 0; j < PE_WIDTH; j++)
                all[turn][j] += m->part[q * PE_WIDTH + j];
    }
    for (int64_t j = 0; j < count; j++) {
        values[j] = all[0][j];
        residuals[j] = sqrt(all[1][j]);
    }
    return st;
}

posenc_status pe_laplacian_measure(const pe_laplacian *l, int64_t count, double *const *x, double *values, double *residuals,
                                   pe_pace *pace, posenc_error *err)
{
    const int64_t n = l->c->n, parts = (n + PART - 1) / PART;
    posenc_status st = PE_OK;
    double *panel = pe_panel_new(n), *part = malloc((size_t)(parts * PE_WIDTH + 1) * sizeof *part);
    measurement m = { .l = l, .ctx = pace->ctx, .panel = panel, .part = part };
    if (!panel || !part)
        st = pe_no_memory("memory", err);
    for (int64_t j = 0; j < count && !st; j += PE_WIDTH) {
        const int64_t many = count - j < PE_WIDTH ? count - j : PE_WIDTH;
        st = measure(&m, many, x + j, panel, values + j, residuals + j, pace, err);
    }
    free(panel);
    free(part);
    return st ? st : pe_pace_add(pace, n < PART ? 8 * l->c->ptr[n] + 16 * n : 0);
}
