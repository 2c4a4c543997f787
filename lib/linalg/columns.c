#include "columns.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/params.h"
#include "panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8, CHUNK = 512, PART = 1 << 14 };

double *pe_column_new(int64_t n)
{
    if (n < 0 || (uint64_t)n > SIZE_MAX / 16)
        return NULL;
    size_t size = ((size_t)n + LANES - 1) / LANES * LANES * sizeof(double);
    size = (size + 63) / 64 * 64;
    double *x = pe_result_memory(size ? size : 64);
    for (size_t i = (size_t)n; x && i < size / sizeof(double); i++)
        x[i] = 0;
    return x;
}

static int64_t parts_of(int64_t n) { return (n + PART - 1) / PART; }

/* One product over one part of the rows. */
typedef struct product {
    posenc_context *ctx;
    int64_t n, nv, nw;
    double *const *v, *const *w;
    double *c;       /* dots: (parts, nv, nw) */
    const double *k; /* (nv, nw) coefficients */
    double divisor;
    uint64_t seed;
} product;

static posenc_status each_part(product *p, uint64_t scratch, pe_task *task, pe_pace *pace, posenc_error *err)
{
    p->ctx = pace->ctx;
    if (parts_of(p->n) == 1) { /* a small graph: the pace goes on */
        posenc_status st = task(p, 0, err);
        return st ? st : pe_pace_add(pace, p->n * (p->nv * p->nw / 4 + p->nv + p->nw));
    }
    return pe_parallel(p->ctx, parts_of(p->n), scratch, task, p, err);
}

/* What a task polls with: at once, unless it is the only one, and then as work goes on. */
static posenc_status part_pace(const product *p, pe_pace *pace)
{
    *pace = (pe_pace){ .ctx = p->ctx, .left = PE_PACE_STEPS };
    return parts_of(p->n) == 1 ? PE_OK : posenc_poll(p->ctx);
}

static int64_t chunk_rows(const product *p, int64_t at)
{
    int64_t rows = p->n - at < CHUNK ? p->n - at : CHUNK;
    return (rows + LANES - 1) / LANES * LANES;
}

#define TREE(x) (((x)[0] + (x)[1]) + ((x)[2] + (x)[3])) + (((x)[4] + (x)[5]) + ((x)[6] + (x)[7]))

static inline const pe_lanes *lanes(const double *x) { return (const pe_lanes *)x; }

/* c += v^T w over the rows at .. at + rows - 1. Tiles of 4 by 2 and 8 by 1; each element is summed alike in any tile. */
PE_CLONES static void dots_chunk(int64_t rows, int64_t at, double *const *v, int64_t nv, double *const *w, int64_t nw,
                                 double *c)
{
    const int64_t m = rows / LANES;
    int64_t j = 0;
    for (; j + 2 <= nw; j += 2) {
        const pe_lanes *x = lanes(w[j] + at), *y = lanes(w[j + 1] + at);
        int64_t i = 0;
        for (; i + 4 <= nv; i += 4) {
            const pe_lanes *f0 = lanes(v[i] + at), *f1 = lanes(v[i + 1] + at), *f2 = lanes(v[i + 2] + at);
            const pe_lanes *f3 = lanes(v[i + 3] + at);
            pe_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 }, t0 = { 0 }, t1 = { 0 }, t2 = { 0 }, t3 = { 0 };
            for (int64_t r = 0; r < m; r++) {
                s0 += f0[r] * x[r];
                s1 += f1[r] * x[r];
                s2 += f2[r] * x[r];
                s3 += f3[r] * x[r];
                t0 += f0[r] * y[r];
                t1 += f1[r] * y[r];
                t2 += f2[r] * y[r];
                t3 += f3[r] * y[r];
            }
            double *to = c + i * nw + j;
            to[0] += TREE(s0);
            to[1] += TREE(t0);
            to[nw] += TREE(s1);
            to[nw + 1] += TREE(t1);
            to[2 * nw] += TREE(s2);
            to[2 * nw + 1] += TREE(t2);
            to[3 * nw] += TREE(s3);
            to[3 * nw + 1] += TREE(t3);
        }
        for (; i < nv; i++) {
            const pe_lanes *f = lanes(v[i] + at);
            pe_lanes s = { 0 }, t = { 0 };
            for (int64_t r = 0; r < m; r++) {
                s += f[r] * x[r];
                t += f[r] * y[r];
            }
            c[i * nw + j] += TREE(s);
            c[i * nw + j + 1] += TREE(t);
        }
    }
    for (; j < nw; j++) {
        const pe_lanes *x = lanes(w[j] + at);
        int64_t i = 0;
        for (; i + 8 <= nv; i += 8) {
            const pe_lanes *f[8];
            pe_lanes s[8] = { 0 };
            for (int q = 0; q < 8; q++)
                f[q] = lanes(v[i + q] + at);
            for (int64_t r = 0; r < m; r++) {
                s[0] += f[0][r] * x[r];
                s[1] += f[1][r] * x[r];
                s[2] += f[2][r] * x[r];
                s[3] += f[3][r] * x[r];
                s[4] += f[4][r] * x[r];
                s[5] += f[5][r] * x[r];
                s[6] += f[6][r] * x[r];
                s[7] += f[7][r] * x[r];
            }
            for (int q = 0; q < 8; q++)
                c[(i + q) * nw + j] += TREE(s[q]);
        }
        for (; i < nv; i++) {
            const pe_lanes *f = lanes(v[i] + at);
            pe_lanes s = { 0 };
            for (int64_t r = 0; r < m; r++)
                s += f[r] * x[r];
            c[i * nw + j] += TREE(s);
        }
    }
}

/* y += v k over a chunk of rows, four columns of v at a time. */
PE_CLONES static void add_chunk(int64_t rows, int64_t at, double *const *v, int64_t nv, const double *k, int64_t stride,
                                double sign, double *y)
{
    const int64_t m = rows / LANES;
    pe_lanes *to = (pe_lanes *)y;
    int64_t i = 0;
    for (; i + 4 <= nv; i += 4) {
        const pe_lanes *f0 = lanes(v[i] + at), *f1 = lanes(v[i + 1] + at), *f2 = lanes(v[i + 2] + at);
        const pe_lanes *f3 = lanes(v[i + 3] + at);
        const double k0 = sign * k[i * stride], k1 = sign * k[(i + 1) * stride], k2 = sign * k[(i + 2) * stride];
        const double k3 = sign * k[(i + 3) * stride];
        for (int64_t r = 0; r < m; r++)
            to[r] += (f0[r] * k0 + f1[r] * k1) + (f2[r] * k2 + f3[r] * k3);
    }
    for (; i < nv; i++) {
        const pe_lanes *f = lanes(v[i] + at);
        const double k0 = sign * k[i * stride];
        for (int64_t r = 0; r < m; r++)
            to[r] += f[r] * k0;
    }
}

static posenc_status dots_part(void *arg, int64_t part, posenc_error *err)
{
    const product *p = arg;
    const int64_t end = (part + 1) * PART < p->n ? (part + 1) * PART : p->n;
    double *c = p->c + part * p->nv * p->nw;
    pe_pace pace;
    posenc_status st = part_pace(p, &pace);
    (void)err;
    memset(c, 0, (size_t)(p->nv * p->nw) * sizeof *c);
    for (int64_t at = part * PART; at < end && !st; at += CHUNK) {
        dots_chunk(chunk_rows(p, at), at, p->v, p->nv, p->w, p->nw, c);
        st = pe_pace_add(&pace, CHUNK / 4 * p->nv * p->nw);
    }
    return st;
}

posenc_status pe_columns_dots(int64_t n, double *const *v, int64_t nv, double *const *w, int64_t nw, double *c,
                              pe_pace *pace, posenc_error *err)
{
    const int64_t parts = parts_of(n), size = nv * nw;
    product p = { .n = n, .v = v, .nv = nv, .w = w, .nw = nw, .c = c };
    if (!size)
        return PE_OK;
    if (parts > 1 && !(p.c = malloc((size_t)(parts * size) * sizeof *p.c)))
        return pe_no_memory("memory", err);
    posenc_status st = each_part(&p, 0, dots_part, pace, err);
    if (parts > 1) {
        memcpy(c, p.c, (size_t)size * sizeof *c);
        for (int64_t part = 1; part < parts && !st; part++)
            for (int64_t i = 0; i < size; i++)
                c[i] += p.c[part * size + i];
        free(p.c);
    }
    return st;
}

static posenc_status subtract_part(void *arg, int64_t part, posenc_error *err)
{
    const product *p = arg;
    const int64_t end = (part + 1) * PART < p->n ? (part + 1) * PART : p->n;
    pe_pace pace;
    posenc_status st = part_pace(p, &pace);
    (void)err;
    for (int64_t at = part * PART; at < end && !st; at += CHUNK) {
        for (int64_t j = 0; j < p->nw; j++)
            add_chunk(chunk_rows(p, at), at, p->v, p->nv, p->k + j, p->nw, -1, p->w[j] + at);
        st = pe_pace_add(&pace, CHUNK / 4 * p->nv * p->nw);
    }
    return st;
}

posenc_status pe_columns_subtract(int64_t n, double *const *v, int64_t nv, const double *c, double *const *w, int64_t nw,
                                  pe_pace *pace, posenc_error *err)
{
    product p = { .n = n, .v = v, .nv = nv, .w = w, .nw = nw, .k = c };
    return nv > 0 && nw > 0 ? each_part(&p, 0, subtract_part, pace, err) : PE_OK;
}

static posenc_status combine_part(void *arg, int64_t part, posenc_error *err)
{
    const product *p = arg;
    const int64_t end = (part + 1) * PART < p->n ? (part + 1) * PART : p->n;
    pe_pace pace;
    posenc_status st = part_pace(p, &pace);
    double *buffer = aligned_alloc(64, (size_t)(CHUNK * p->nw) * sizeof *buffer);
    if (!buffer)
        return pe_no_memory("memory", err);
    for (int64_t j = 0; j < p->nw && p->n > PART && !st; j++) { /* the first write to a huge page clears two megabytes */
        volatile double *first = p->w[j] + part * PART;
        *first = *first;
        st = posenc_poll(p->ctx);
    }
    for (int64_t at = part * PART; at < end && !st; at += CHUNK) {
        const int64_t rows = chunk_rows(p, at);
        memset(buffer, 0, (size_t)(CHUNK * p->nw) * sizeof *buffer);
        for (int64_t j = 0; j < p->nw; j++)
            add_chunk(rows, at, p->v, p->nv, p->k + j, p->nw, 1, buffer + j * CHUNK);
        for (int64_t j = 0; j < p->nw; j++)
            memcpy(p->w[j] + at, buffer + j * CHUNK, (size_t)rows * sizeof *buffer);
        st = pe_pace_add(&pace, CHUNK / 4 * p->nv * p->nw);
    }
    free(buffer);
    return st;
}

posenc_status pe_columns_combine(int64_t n, double *const *v, int64_t nv, const double *c, double *const *w, int64_t nw,
                                 pe_pace *pace, posenc_error *err)
{
    product p = { .n = n, .v = v, .nv = nv, .w = w, .nw = nw, .k = c };
    return nw ? each_part(&p, (uint64_t)nw * CHUNK * sizeof(double), combine_part, pace, err) : PE_OK;
}

PE_CLONES static void divide(int64_t n, double divisor, double *x)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        *(pe_lanes *)(x + i) /= divisor;
    for (; i < n; i++)
        x[i] /= divisor;
}

static posenc_status divide_part(void *arg, int64_t part, posenc_error *err)
{
    const product *p = arg;
    const int64_t end = (part + 1) * PART < p->n ? (part + 1) * PART : p->n;
    pe_pace pace;
    posenc_status st = part_pace(p, &pace);
    (void)err;
    if (!st && p->divisor == 0)
        memset(p->w[0] + part * PART, 0, (size_t)(end - part * PART) * sizeof **p->w);
    else if (!st)
        divide(end - part * PART, p->divisor, p->w[0] + part * PART);
    return st;
}

posenc_status pe_column_divide(int64_t n, double *x, double divisor, pe_pace *pace, posenc_error *err)
{
    product p = { .n = n, .w = &x, .nw = 1, .divisor = divisor };
    return each_part(&p, 0, divide_part, pace, err);
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). */
static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static posenc_status random_part(void *arg, int64_t part, posenc_error *err)
{
    const product *p = arg;
    const int64_t end = (part + 1) * PART < p->n ? (part + 1) * PART : p->n;
    pe_pace pace;
    posenc_status st = part_pace(p, &pace);
    (void)err;
    for (int64_t i = part * PART; i < end; i++)
        p->w[0][i] = ((double)(mix(p->seed + (uint64_t)i) >> 12) + 0.5) * 0x1p-51 - 1.0;
    return st;
}

posenc_status pe_column_random(int64_t n, double *x, uint64_t seed, pe_pace *pace, posenc_error *err)
{
    product p = { .n = n, .w = &x, .nw = 1, .seed = mix(seed) };
    return each_part(&p, 0, random_part, pace, err);
}

posenc_status pe_columns_orthonormalize(int64_t n, double *const *w, int64_t nw, const double *floor, double *r,
                                        unsigned *dead, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    memset(r, 0, (size_t)(nw * nw) * sizeof *r);
    *dead = 0;
    for (int64_t c = 0; c < nw && !st; c++) {
        double *row = r + c * nw;
        if ((st = pe_columns_dots(n, w + c, 1, w + c, nw - c, row + c, pace, err)))
            return st;
        const double norm = sqrt(row[c]);
        if (!(norm > floor[c])) {
            memset(row, 0, (size_t)nw * sizeof *row);
            *dead |= 1u << c;
            st = pe_column_divide(n, w[c], 0, pace, err);
            continue;
        }
        row[c] = norm;
        for (int64_t j = c + 1; j < nw; j++)
            row[j] /= norm;
        if (!(st = pe_column_divide(n, w[c], norm, pace, err)))
            st = pe_columns_subtract(n, w + c, 1, row + c + 1, w + c + 1, nw - c - 1, pace, err);
    }
    return st;
}
