#include "chebyshev.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SINGLE = 16, ROWS = 1 << 13, AHEAD = 24 }; /* columns of float32; rows of a task; arcs that are fetched ahead */

posenc_status pe_filter_init(pe_filter *f, const pe_laplacian *lap, posenc_error *err)
{
    *f = (pe_filter){ .lap = lap, .high = lap->bound };
    for (size_t i = 0; i < PE_LEN(f->spare); i++)
        if (!(f->spare[i] = pe_panel_new(lap->c->n)))
            return pe_no_memory("memory", err);
    f->parts = malloc((size_t)((lap->c->n + ROWS - 1) / ROWS) * SINGLE * sizeof *f->parts);
    if (!f->parts)
        return pe_no_memory("memory", err);
    pe_filter_plain(f);
    return PE_OK;
}

void pe_filter_fini(pe_filter *f)
{
    for (size_t i = 0; i < PE_LEN(f->spare); i++)
        free(f->spare[i]);
    free(f->entry);
    free(f->diagonal);
    free(f->parts);
    *f = (pe_filter){ 0 };
}

void pe_filter_plain(pe_filter *f)
{
    f->low = 1.5 * f->high;
    f->degree = 1;
}

void pe_filter_set(pe_filter *f, double first, double last, double low)
{
    f->low = low < 0.9 * f->high ? low : 0.9 * f->high;
    f->first = first < f->low ? first : 0;
    /* T_m grows as cosh(m a) with cosh(a) = 1 + 2 (low - last) / (high - low), a about 2 sqrt of that gap */
    const double gap = (f->low - last) / (f->high - f->low), few = ceil(2 * sqrt(f->high / f->low));
    double degree = gap > 0 ? ceil(1 / sqrt(gap)) : few;
    degree = degree < few ? few : degree > 8 * few ? 8 * few : degree;
    f->degree = degree < 12 ? 12 : degree < PE_MOST_DEGREE ? (int64_t)degree : PE_MOST_DEGREE;
}

static posenc_status narrow(int64_t n, const double *from, float *to, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t at = 0; at < n && !st; at += ROWS) {
        for (int64_t i = at; i < n && i < at + ROWS; i++)
            to[i] = (float)from[i];
        st = pe_pace_add(pace, 4 * ROWS);
    }
    return st;
}

posenc_status pe_filter_single(pe_filter *f, bool single, pe_pace *pace, posenc_error *err)
{
    const pe_component *c = f->lap->c;
    posenc_status st = PE_OK;
    if (single && !f->entry) {
        f->entry = pe_work_memory((size_t)(c->ptr[c->n] + 1) * sizeof *f->entry);
        f->diagonal = pe_work_memory((size_t)c->n * sizeof *f->diagonal);
        if (!f->entry || !f->diagonal)
            return pe_no_memory("memory", err);
        if (!(st = narrow(c->ptr[c->n], f->lap->entry, f->entry, pace)))
            st = narrow(c->n, f->lap->diagonal, f->diagonal, pace);
    }
    f->single = single;
    return st;
}

/* Degree 1 needs no interval: the line through p(0) = 1 and p(high) = 1/2. */
static double evaluate(const pe_filter *f, double lambda)
{
    if (f->degree == 1)
        return 1 - lambda / (2 * f->high);
    double c = (f->low + f->high) / 2, h = (f->high - f->low) / 2, first = h / (c - f->first), sigma = first;
    double before = 1, now = sigma / h * (c - lambda);
    for (int64_t j = 2; j <= f->degree; j++) {
        double next = 1 / (2 / first - sigma);
        double p = 2 * next / h * (c - lambda) * now - sigma * next * before;
        before = now;
        now = p;
        sigma = next;
    }
    return now;
}

/* The inverse on [0, low], by bisection. Far below `first` p overflows, which is large too. */
static double value(const void *self, double theta)
{
    const pe_filter *f = self;
    double a = 0, b = f->low;
    if (!(theta > evaluate(f, b) * (1 + 1e-9)))
        return INFINITY;
    while (b - a > 1e-14 * f->low) {
        double middle = (a + b) / 2;
        if (middle <= a || middle >= b)
            break;
        if (evaluate(f, middle) <= theta)
            b = middle;
        else
            a = middle;
    }
    return (a + b) / 2;
}

/* ---- eight columns of float64, sixteen of float32 ---- */

typedef float floats __attribute__((vector_size(64), may_alias));

typedef struct application {
    const pe_filter *f;
    posenc_context *ctx;
    double alpha, shift, beta;
    const double *x, *y;
    double *z;
    const double *kernel; /* NULL: none */
    double part[SINGLE];  /* of the kernel in each column of x */
    double *parts;        /* (tasks, SINGLE) the same of z */
} application;

/* z = alpha (L - shift) x - beta y over rows, where L has the kernel at `shift`; y may be NULL. sum: kernel^T z */
#define PRODUCT(name, scalar, row_type, width, entries, diagonals)                               \
    PE_CLONES static void name(const application *a, int64_t begin, int64_t end, double *sum)    \
    {                                                                                            \
        const pe_component *c = a->f->lap->c;                                                    \
        const int64_t *ptr = c->ptr, arcs = ptr[c->n];                                           \
        const int32_t *col = c->col;                                                             \
        const scalar *entry = entries, *diagonal = diagonals;                                    \
        const scalar alpha = (scalar)a->alpha, beta = (scalar)a->beta, shift = (scalar)a->shift; \
        const row_type *from = (const row_type *)a->x, *other = (const row_type *)a->y;          \
        row_type *to = (row_type *)a->z, part, all = { 0 };                                      \
        for (int k = 0; k < width; k++)                                                          \
            part[k] = (scalar)(a->shift * a->part[k]);                                           \
        for (int64_t i = begin; i < end; i++) {                                                  \
            row_type s = (diagonal[i] - shift) * from[i], t = { 0 };                             \
            int64_t p = ptr[i];                                                                  \
            const int64_t last = ptr[i + 1];                                                     \
            for (; p + 2 <= last; p += 2) {                                                      \
                if (p + AHEAD + 1 < arcs) {                                                      \
                    __builtin_prefetch(from + col[p + AHEAD]);                                   \
                    __builtin_prefetch(from + col[p + AHEAD + 1]);                               \
                }                                                                                \
                s += entry[p] * from[col[p]];                                                    \
                t += entry[p + 1] * from[col[p + 1]];                                            \
            }                                                                                    \
            if (p < last)                                                                        \
                s += entry[p] * from[col[p]];                                                    \
            const scalar k = a->kernel ? (scalar)a->kernel[i] : 0;                               \
            s = alpha * ((s + t) + k * part);                                                    \
            if (other)                                                                           \
                s -= beta * other[i];                                                            \
            to[i] = s;                                                                           \
            all += k * s;                                                                        \
        }                                                                                        \
        for (int k = 0; k < width; k++)                                                          \
            sum[k] += (double)all[k];                                                            \
    }
PRODUCT(single_rows, float, floats, SINGLE, a->f->entry, a->f->diagonal)
PRODUCT(double_rows, double, pe_lanes, PE_WIDTH, a->f->lap->entry, a->f->lap->diagonal)

static posenc_status product_part(void *arg, int64_t part, posenc_error *err)
{
    const application *a = arg;
    const pe_component *c = a->f->lap->c;
    const int64_t begin = part * ROWS, stop = c->n - begin < ROWS ? c->n : begin + ROWS;
    double *sum = a->parts + part * SINGLE;
    pe_pace pace = { .ctx = a->ctx, .left = PE_PACE_STEPS };
    posenc_status st = posenc_poll(a->ctx);
    (void)err;
    memset(sum, 0, SINGLE * sizeof *sum);
    for (int64_t i = begin, end = i; i < stop && !st; i = end) {
        while (end < stop && c->ptr[end] - c->ptr[i] < 1 << 15)
            end++;
        (a->f->single ? single_rows : double_rows)(a, i, end, sum);
        st = pe_pace_add(&pace, 4 * (c->ptr[end] - c->ptr[i] + end - i));
    }
    return st;
}

/* One step of the recurrence; `part` moves on from x to z. */
static posenc_status product(const pe_filter *f, double alpha, double shift, const double *x, double beta, const double *y,
                             double *z, double part[SINGLE], pe_pace *pace)
{
    const int64_t tasks = (f->lap->c->n + ROWS - 1) / ROWS;
    application a = { f, pace->ctx, alpha, shift, beta, x, y, z, f->degree > 1 ? f->lap->c->kernel : NULL, { 0 }, f->parts };
    memcpy(a.part, part, sizeof a.part);
    posenc_status st = pe_parallel(pace->ctx, tasks, 0, product_part, &a, NULL);
    memset(part, 0, SINGLE * sizeof *part);
    for (int64_t q = 0; q < tasks && !st; q++)
        for (int64_t k = 0; k < SINGLE; k++)
            part[k] += f->parts[q * SINGLE + k];
    return st;
}

static posenc_status single_gather(int64_t n, int64_t width, double *const *x, double *panel, pe_pace *pace)
{
    posenc_status st = PE_OK;
    float *to = (float *)panel;
    for (int64_t at = 0; at < n && !st; at += 64) {
        for (int64_t c = 0; c < SINGLE; c++)
            for (int64_t i = at; i < n && i < at + 64; i++)
                to[i * SINGLE + c] = c < width ? (float)x[c][i] : 0;
        st = pe_pace_add(pace, 16 * 64);
    }
    return st;
}

static posenc_status single_scatter(int64_t n, int64_t width, const double *panel, double *const *y, pe_pace *pace)
{
    posenc_status st = PE_OK;
    const float *from = (const float *)panel;
    for (int64_t at = 0; at < n && !st; at += 64) {
        for (int64_t c = 0; c < width; c++)
            for (int64_t i = at; i < n && i < at + 64; i++)
                y[c][i] = (double)from[i * SINGLE + c];
        st = pe_pace_add(pace, 16 * 64);
    }
    return st;
}

static posenc_status polynomial(pe_filter *f, const double *x, double *y, pe_pace *pace)
{
    posenc_status st;
    double part[SINGLE] = { 0 }; /* x is orthogonal to the kernel */
    if (f->degree == 1)
        return product(f, -0.5 / f->high, 2 * f->high, x, 0, NULL, y, part, pace);
    double c = (f->low + f->high) / 2, h = (f->high - f->low) / 2, first = h / (c - f->first), sigma = first;
    const double *before = x;
    double *now = f->spare[1];
    if ((st = product(f, -sigma / h, c, x, 0, NULL, now, part, pace)))
        return st;
    for (int64_t j = 2; j <= f->degree; j++) {
        double next = 1 / (2 / first - sigma);
        double *to = j == f->degree ? y : now == f->spare[1] ? f->spare[2] : f->spare[1];
        if ((st = product(f, -2 * next / h, c, now, sigma * next, before, to, part, pace)))
            return st;
        before = now;
        now = to;
        sigma = next;
    }
    return PE_OK;
}

static posenc_status apply(void *self, int64_t width, double *const *x, double *const *y, pe_pace *pace, posenc_error *err)
{
    pe_filter *f = self;
    const int64_t n = f->lap->c->n, step = f->single ? SINGLE : PE_WIDTH;
    posenc_status st = PE_OK;
    (void)err;
    for (int64_t at = 0; at < width && !st; at += step) {
        const int64_t many = width - at < step ? width - at : step;
        st = f->single ? single_gather(n, many, x + at, f->spare[0], pace)
                       : pe_panel_gather(n, many, x + at, f->spare[0], pace);
        if (!st && !(st = polynomial(f, f->spare[0], f->spare[3], pace)))
            st = f->single ? single_scatter(n, many, f->spare[3], y + at, pace)
                           : pe_panel_scatter(n, many, f->spare[3], y + at, pace);
    }
    return st;
}

pe_operator pe_filter_operator(pe_filter *f)
{
    return (pe_operator){ .self = f, .apply = apply, .value = value, .products = f->degree };
}
