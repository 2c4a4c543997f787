/* linear.c - sums over rows in eight lanes, the same bits with every instruction set; eigenvectors by lib/linalg. */
#include "analysis/analysis.h"

#include "core/lanes.h"
#include "linalg/linalg.h"

#include <stdlib.h>
#include <string.h>

PE_BODY double sum_of(const pe_lanes *p)
{
    const pe_lanes v = *p; /* by address: lanes as arguments are passed differently with every instruction set */
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

PE_BODY void dot_body(const double *a, const double *b, int64_t n, double *out)
{
    pe_lanes sum = { 0 }, x, y;
    int64_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        PE_LOAD(x, a + i, PE_LANES);
        PE_LOAD(y, b + i, PE_LANES);
        sum += x * y;
    }
    double rest = 0;
    for (; i < n; i++)
        rest += a[i] * b[i];
    *out = sum_of(&sum) + rest;
}

PE_BODY void distance_body(const double *a, const double *b, int64_t n, double *out)
{
    pe_lanes sum = { 0 }, x, y;
    int64_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        PE_LOAD(x, a + i, PE_LANES);
        PE_LOAD(y, b + i, PE_LANES);
        sum += (x - y) * (x - y);
    }
    double rest = 0;
    for (; i < n; i++)
        rest += (a[i] - b[i]) * (a[i] - b[i]);
    *out = sum_of(&sum) + rest;
}

PE_BODY void add_times_body(double *to, const double *from, double factor, int64_t n)
{
    pe_lanes x, y;
    int64_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        PE_LOAD(x, to + i, PE_LANES);
        PE_LOAD(y, from + i, PE_LANES);
        x += y * factor;
        PE_STORE(to + i, x, PE_LANES);
    }
    for (; i < n; i++)
        to[i] += from[i] * factor;
}

PE_KERNEL(dot, dot_body, (const double *a, const double *b, int64_t n, double *out), (a, b, n, out))
PE_KERNEL(distance, distance_body, (const double *a, const double *b, int64_t n, double *out), (a, b, n, out))
PE_KERNEL(add_times, add_times_body, (double *to, const double *from, double factor, int64_t n), (to, from, factor, n))

double pe_dot(const double *a, const double *b, int64_t n)
{
    double v;
    dot_paths[pe_simd()](a, b, n, &v);
    return v;
}

double pe_distance2(const double *a, const double *b, int64_t n)
{
    double v;
    distance_paths[pe_simd()](a, b, n, &v);
    return v;
}

void pe_add_times(double *to, const double *from, double factor, int64_t n)
{
    add_times_paths[pe_simd()](to, from, factor, n);
}

posenc_status pe_gram(const double *x, int64_t n, int64_t d, int64_t stride, double *g, pe_pace *pace)
{
    posenc_status st = PE_OK;
    memset(g, 0, (size_t)(d * d) * sizeof *g);
    for (int64_t i = 0; i < n && !st; i++) {
        const double *row = x + i * stride;
        for (int64_t k = 0; k < d && !st; k++) {
            pe_add_times(g + k * d + k, row + k, row[k], d - k);
            st = pe_pace_add(pace, (d - k) / 4 + 4);
        }
    }
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < i; k++)
            g[i * d + k] = g[k * d + i];
    return st;
}

posenc_status pe_product(const double *a, const double *b, int64_t n, int64_t k, int64_t m, double *c, pe_pace *pace)
{
    posenc_status st = PE_OK;
    memset(c, 0, (size_t)(n * m) * sizeof *c);
    for (int64_t i = 0; i < n && !st; i++)
        for (int64_t j = 0; j < k && !st; j++) {
            pe_add_times(c + i * m, b + j * m, a[i * k + j], m);
            st = pe_pace_add(pace, m / 4 + 4);
        }
    return st;
}

/* By the smaller of the two products. Where the table has fewer rows than channels, X X^T u = s^2 u gives X^T u / s. */
posenc_status pe_singular(const double *x, int64_t n, int64_t d, double *out, double *vectors, pe_pace *pace,
                          posenc_error *err)
{
    const int64_t m = n < d ? n : d;
    double *g = malloc((size_t)(m * m + m) * sizeof *g), *values = g + m * m;
    posenc_status st;
    if (!g)
        return pe_no_memory("memory", err);
    memset(out, 0, (size_t)d * sizeof *out);
    memset(vectors, 0, (size_t)(d * d) * sizeof *vectors);
    if (d <= n) {
        st = pe_gram(x, n, d, d, g, pace);
    } else {
        st = PE_OK;
        for (int64_t i = 0; i < n && !st; i++) {
            for (int64_t k = 0; k <= i; k++)
                g[i * n + k] = g[k * n + i] = pe_dot(x + i * d, x + k * d, d);
            st = pe_pace_add(pace, i * (d / 4 + 8));
        }
    }
    st = st ? st : pe_sym_dense(m, g, values, pace->ctx, err);
    for (int64_t i = 0; i < m && !st; i++) {
        const double *v = g + (m - 1 - i) * m; /* ascending there */
        out[i] = sqrt(pe_max(0, values[m - 1 - i]));
        if (d <= n) {
            memcpy(vectors + i * d, v, (size_t)d * sizeof *v);
        } else if (out[i] > 1e-12 * out[0]) {
            for (int64_t k = 0; k < n; k++)
                pe_add_times(vectors + i * d, x + k * d, v[k] / out[i], d);
            st = pe_pace_add(pace, n * (d / 4 + 4));
        }
    }
    free(g);
    return st;
}
