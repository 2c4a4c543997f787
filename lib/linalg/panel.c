#include "panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 };

double *pe_panel_new(int64_t n)
{
    if (n < 0 || (uint64_t)n > SIZE_MAX / 128)
        return NULL;
    size_t size = (size_t)n * PE_WIDTH * sizeof(double);
    return aligned_alloc(64, size ? size : 64);
}

posenc_status pe_panel_divide(int64_t n, double *x, unsigned columns, double divisor, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        for (int c = 0; c < PE_WIDTH; c++)
            if (columns >> c & 1)
                x[i * PE_WIDTH + c] = divisor == 0 ? 0 : x[i * PE_WIDTH + c] / divisor;
        st = pe_pace_add(pace, 24);
    }
    return st;
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). */
static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

posenc_status pe_panel_random(int64_t n, double *x, unsigned columns, uint64_t seed, pe_pace *pace)
{
    posenc_status st = PE_OK;
    uint64_t start = mix(seed);
    for (int64_t i = 0; i < n && !st; i++) {
        for (int c = 0; c < PE_WIDTH; c++)
            if (columns >> c & 1)
                x[i * PE_WIDTH + c] = ((double)(mix(start + (uint64_t)(i * PE_WIDTH + c)) >> 12) + 0.5) * 0x1p-51 - 1.0;
        st = pe_pace_add(pace, 24);
    }
    return st;
}

/* c (8, 8) += v^T w over a chunk of rows. Four rows of c at a time: what fits in the registers of AVX2. */
PE_CLONES static void dots_chunk(int64_t rows, const double *v, const double *w, double *c)
{
    const pe_lanes *x = (const pe_lanes *)w;
    for (int q = 0; q < PE_WIDTH; q += 4) {
        pe_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
        for (int64_t i = 0; i < rows; i++) {
            const double *f = v + i * PE_WIDTH + q;
            s0 += f[0] * x[i];
            s1 += f[1] * x[i];
            s2 += f[2] * x[i];
            s3 += f[3] * x[i];
        }
        pe_loose_lanes *to = (pe_loose_lanes *)(c + q * PE_WIDTH);
        to[0] += s0;
        to[1] += s1;
        to[2] += s2;
        to[3] += s3;
    }
}

/* w += v c over a chunk of rows. */
PE_CLONES static void add_chunk(int64_t rows, const double *v, const double *c, double *w)
{
    pe_lanes *y = (pe_lanes *)w;
    const pe_loose_lanes *k = (const pe_loose_lanes *)c;
    for (int q = 0; q < PE_WIDTH; q += 4) {
        pe_lanes k0 = k[q], k1 = k[q + 1], k2 = k[q + 2], k3 = k[q + 3];
        for (int64_t i = 0; i < rows; i++) {
            const double *f = v + i * PE_WIDTH + q;
            y[i] += (f[0] * k0 + f[1] * k1) + (f[2] * k2 + f[3] * k3);
        }
    }
}

posenc_status pe_panel_dots(int64_t n, double *const *v, int64_t np, const double *w, double *c, pe_pace *pace)
{
    posenc_status st = PE_OK;
    memset(c, 0, (size_t)np * 64 * sizeof(double));
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        int64_t rows = n - i < CHUNK ? n - i : CHUNK;
        for (int64_t p = 0; p < np; p++)
            dots_chunk(rows, v[p] + i * PE_WIDTH, w + i * PE_WIDTH, c + p * 64);
        st = pe_pace_add(pace, np * rows * 8);
    }
    return st;
}

posenc_status pe_panel_subtract(int64_t n, double *const *v, int64_t np, const double *c, double *w, pe_pace *pace)
{
    posenc_status st = PE_OK;
    double k[64];
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        int64_t rows = n - i < CHUNK ? n - i : CHUNK;
        for (int64_t p = 0; p < np; p++) {
            for (int q = 0; q < 64; q++)
                k[q] = -c[p * 64 + q];
            add_chunk(rows, v[p] + i * PE_WIDTH, k, w + i * PE_WIDTH);
        }
        st = pe_pace_add(pace, np * rows * 8);
    }
    return st;
}

posenc_status pe_panel_combine(int64_t n, double *const *v, int64_t np, const double *c, double *w, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        int64_t rows = n - i < CHUNK ? n - i : CHUNK;
        memset(w + i * PE_WIDTH, 0, (size_t)rows * PE_WIDTH * sizeof(double));
        for (int64_t p = 0; p < np; p++)
            add_chunk(rows, v[p] + i * PE_WIDTH, c + p * 64, w + i * PE_WIDTH);
        st = pe_pace_add(pace, np * rows * 8);
    }
    return st;
}

/* s (8) += sum of w[i][c] * w[i][:] over a chunk of rows; four partial sums hide the latency of an addition. */
PE_CLONES static void column_dots_chunk(int64_t rows, const double *w, int c, double *s)
{
    const pe_lanes *x = (const pe_lanes *)w;
    pe_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const double *f = w + i * PE_WIDTH + c;
        s0 += f[0] * x[i];
        s1 += f[8] * x[i + 1];
        s2 += f[16] * x[i + 2];
        s3 += f[24] * x[i + 3];
    }
    for (; i < rows; i++)
        s0 += w[i * PE_WIDTH + c] * x[i];
    *(pe_loose_lanes *)s += (s0 + s1) + (s2 + s3);
}

/* Scales column c and takes it out of the columns after it: w[i][c] *= inverse, w[i][:] -= w[i][c] * r[:].
 * r is zero up to c. */
PE_CLONES static void column_out_chunk(int64_t rows, double *w, int c, double inverse, const double *r)
{
    pe_lanes *x = (pe_lanes *)w;
    pe_lanes k = *(const pe_loose_lanes *)r;
    for (int64_t i = 0; i < rows; i++) {
        double f = w[i * PE_WIDTH + c] * inverse;
        x[i] -= f * k;
        w[i * PE_WIDTH + c] = f;
    }
}

posenc_status pe_panel_orthonormalize(int64_t n, double *w, const double *floor, double *r, unsigned *dead, pe_pace *pace)
{
    posenc_status st = PE_OK;
    memset(r, 0, 64 * sizeof(double));
    *dead = 0;
    for (int c = 0; c < PE_WIDTH && !st; c++) {
        double s[PE_WIDTH] = { 0 }, after[PE_WIDTH] = { 0 };
        for (int64_t i = 0; i < n && !st; i += CHUNK) {
            int64_t rows = n - i < CHUNK ? n - i : CHUNK;
            column_dots_chunk(rows, w + i * PE_WIDTH, c, s);
            st = pe_pace_add(pace, rows * 5);
        }
        double norm = sqrt(s[c]);
        if (!(norm > floor[c])) {
            st = pe_panel_divide(n, w, 1u << c, 0, pace);
            *dead |= 1u << c;
            continue;
        }
        double inverse = 1 / norm;
        r[c * PE_WIDTH + c] = norm;
        for (int j = c + 1; j < PE_WIDTH; j++)
            r[c * PE_WIDTH + j] = after[j] = s[j] * inverse;
        for (int64_t i = 0; i < n && !st; i += CHUNK) {
            int64_t rows = n - i < CHUNK ? n - i : CHUNK;
            column_out_chunk(rows, w + i * PE_WIDTH, c, inverse, after);
            st = pe_pace_add(pace, rows * 5);
        }
    }
    return st;
}
