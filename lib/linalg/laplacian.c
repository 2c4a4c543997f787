#include "laplacian.h"
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
    l->diagonal = malloc(n * sizeof(double));
    l->entry = malloc((arcs + 1) * sizeof(double));
    if (c->normalized)
        l->gauge = malloc(n * sizeof(double));
    if (c->diagonal)
        l->rest = malloc(n * sizeof(double));
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

posenc_status pe_laplacian_apply(const pe_laplacian *l, double alpha, double shift, const double *x, double beta,
                                 const double *y, double *z, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < l->c->n && !st;) {
        int64_t end = batch(l->c, i);
        apply_rows(l, i, end, alpha, shift, x, beta, y, z);
        st = pe_pace_add(pace, 8 * (l->c->ptr[end] - l->c->ptr[i] + end - i));
        i = end;
    }
    return st;
}

/* sum over edges of |w| (g_i x_i -+ g_j x_j)^2, the upper sign for positive weights, and over nodes of rest_i x_i^2;
 * added to q */
PE_CLONES static void quotient_rows(const pe_laplacian *l, int64_t begin, int64_t end, const double *x, double *q)
{
    const pe_component *c = l->c;
    const pe_lanes *from = (const pe_lanes *)x;
    pe_lanes sum = { 0 };
    for (int64_t i = begin; i < end; i++) {
        double gi = l->gauge ? l->gauge[i] : 1;
        pe_lanes own = gi * from[i];
        if (l->rest)
            sum += l->rest[i] * (from[i] * from[i]);
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            int64_t j = c->col[p];
            if (j <= i)
                continue;
            double w = c->weight ? c->weight[p] : 1, gj = l->gauge ? l->gauge[j] : 1;
            pe_lanes d = own - copysign(gj, w) * from[j];
            sum += fabs(w) * (d * d);
        }
    }
    *(pe_loose_lanes *)q += sum;
}

PE_CLONES static void residual_rows(int64_t begin, int64_t end, const double *x, const double *z, const double *value,
                                    double *r)
{
    const pe_lanes *from = (const pe_lanes *)x, *image = (const pe_lanes *)z;
    pe_lanes v = *(const pe_loose_lanes *)value, sum = { 0 };
    for (int64_t i = begin; i < end; i++) {
        pe_lanes d = image[i] - v * from[i];
        sum += d * d;
    }
    *(pe_loose_lanes *)r += sum;
}

posenc_status pe_laplacian_measure(const pe_laplacian *l, const double *x, double *z, double values[PE_WIDTH],
                                   double residuals[PE_WIDTH], pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int j = 0; j < PE_WIDTH; j++)
        values[j] = residuals[j] = 0;
    for (int64_t i = 0; i < l->c->n && !st;) {
        int64_t end = batch(l->c, i);
        quotient_rows(l, i, end, x, values);
        st = pe_pace_add(pace, 8 * (l->c->ptr[end] - l->c->ptr[i] + end - i));
        i = end;
    }
    if (!st)
        st = pe_laplacian_apply(l, 1, 0, x, 0, NULL, z, pace);
    for (int64_t i = 0; i < l->c->n && !st;) {
        int64_t end = batch(l->c, i);
        residual_rows(i, end, x, z, values, residuals);
        st = pe_pace_add(pace, 8 * (end - i));
        i = end;
    }
    for (int j = 0; j < PE_WIDTH; j++)
        residuals[j] = sqrt(residuals[j]);
    return st;
}
