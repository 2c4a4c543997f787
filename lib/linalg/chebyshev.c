#include "chebyshev.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

posenc_status pe_filter_init(pe_filter *f, const pe_laplacian *lap, posenc_error *err)
{
    *f = (pe_filter){ .lap = lap, .high = lap->bound };
    for (size_t i = 0; i < PE_LEN(f->spare); i++)
        if (!(f->spare[i] = pe_panel_new(lap->c->n)))
            return pe_no_memory("memory", err);
    pe_filter_plain(f);
    return PE_OK;
}

void pe_filter_fini(pe_filter *f)
{
    for (size_t i = 0; i < PE_LEN(f->spare); i++)
        free(f->spare[i]);
    *f = (pe_filter){ 0 };
}

void pe_filter_plain(pe_filter *f)
{
    f->low = 1.5 * f->high;
    f->degree = 1;
}

void pe_filter_set(pe_filter *f, double low)
{
    f->low = low < 0.9 * f->high ? low : 0.9 * f->high;
    double degree = ceil(2 * sqrt(f->high / f->low));
    f->degree = degree < 12 ? 12 : degree < PE_MOST_DEGREE ? (int64_t)degree : PE_MOST_DEGREE;
}

/* Degree 1 needs no interval: the line through p(0) = 1 and p(high) = 1/2. */
static double evaluate(const pe_filter *f, double lambda)
{
    if (f->degree == 1)
        return 1 - lambda / (2 * f->high);
    double c = (f->low + f->high) / 2, h = (f->high - f->low) / 2, first = h / c, sigma = first;
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

/* The inverse on [0, low], by bisection. */
static double value(const void *self, double theta)
{
    const pe_filter *f = self;
    double a = 0, b = f->low;
    if (theta >= 1)
        return 0;
    if (!(theta > evaluate(f, b) * (1 + 1e-9)))
        return INFINITY;
    while (b - a > 1e-14 * f->low) {
        double middle = (a + b) / 2;
        if (middle <= a || middle >= b)
            break;
        if (evaluate(f, middle) > theta)
            a = middle;
        else
            b = middle;
    }
    return (a + b) / 2;
}

static posenc_status polynomial(pe_filter *f, const double *x, double *y, pe_pace *pace)
{
    posenc_status st;
    if (f->degree == 1)
        return pe_laplacian_apply(f->lap, -0.5 / f->high, 2 * f->high, x, 0, NULL, y, pace);
    double c = (f->low + f->high) / 2, h = (f->high - f->low) / 2, first = h / c, sigma = first;
    const double *before = x;
    double *now = f->spare[1];
    if ((st = pe_laplacian_apply(f->lap, -sigma / h, c, x, 0, NULL, now, pace)))
        return st;
    for (int64_t j = 2; j <= f->degree; j++) {
        double next = 1 / (2 / first - sigma);
        double *to = j == f->degree ? y : now == f->spare[1] ? f->spare[2] : f->spare[1];
        if ((st = pe_laplacian_apply(f->lap, -2 * next / h, c, now, sigma * next, before, to, pace)))
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
    const int64_t n = f->lap->c->n;
    posenc_status st = PE_OK;
    (void)err;
    for (int64_t at = 0; at < width && !st; at += PE_WIDTH) {
        const int64_t many = width - at < PE_WIDTH ? width - at : PE_WIDTH;
        if (!(st = pe_panel_gather(n, many, x + at, f->spare[0], pace)) &&
            !(st = polynomial(f, f->spare[0], f->spare[3], pace)))
            st = pe_panel_scatter(n, many, f->spare[3], y + at, pace);
    }
    return st;
}

pe_operator pe_filter_operator(pe_filter *f)
{
    return (pe_operator){ .self = f, .apply = apply, .value = value, .products = f->degree };
}
