/* chebyshev.h - a polynomial of L that is large at the low end of the spectrum and small elsewhere.
 *
 *   p(lambda) = T_m((c - lambda) / h) / T_m((c - first) / h),   c = (low + high) / 2,  h = (high - low) / 2
 * p(first) = 1, p falls monotonically on [0, low] and stays within +-p(low) on [low, high]. The kernel, whose eigenvalue 0
 * may lie far below `first`, is moved to c, so that its share of the rounding does not grow.
 * Source: Zhou, Saad 2007, "A Chebyshev-Davidson algorithm for large symmetric eigenproblems". */
#ifndef PE_CHEBYSHEV_H
#define PE_CHEBYSHEV_H

#include "krylov.h"

enum { PE_MOST_DEGREE = 8000 }; /* reached: the low end is too crowded for a polynomial */

typedef struct pe_filter {
    const pe_laplacian *lap;
    double first, low, high;
    int64_t degree;
    bool single;             /* products of sixteen columns of float32, where that is exact enough */
    double *spare[4];        /* panels, owned; (n, 16) float32 take the same room */
    double *parts;           /* scratch of products */
    float *entry, *diagonal; /* (arcs), (n) L for them; owned, NULL until needed */
} pe_filter;

posenc_status pe_filter_init(pe_filter *f, const pe_laplacian *lap, posenc_error *err);
/* Sets the lower edge and where p is 1; the degree follows: p(last) is about four times p(low).
 *   first, last   about the smallest and the largest eigenvalue that are wanted */
void pe_filter_set(pe_filter *f, double first, double last, double low);
/* Columns of float32 from now on; false: of float64. */
posenc_status pe_filter_single(pe_filter *f, bool single, pe_pace *pace, posenc_error *err);
/* Degree 1: p(lambda) = 1 - lambda / (2 high), monotone on the whole spectrum. */
void pe_filter_plain(pe_filter *f);
pe_operator pe_filter_operator(pe_filter *f);
void pe_filter_fini(pe_filter *f);

#endif
