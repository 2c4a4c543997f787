/* chebyshev.h - a polynomial of L that is large at the low end of the spectrum and small elsewhere.
 *
 *   p(lambda) = T_m((c - lambda) / h) / T_m(c / h),   c = (low + high) / 2,  h = (high - low) / 2
 * p(0) = 1, p falls monotonically on [0, low] and stays within +-p(low) on [low, high].
 * Source: Zhou, Saad 2007, "A Chebyshev-Davidson algorithm for large symmetric eigenproblems". */
#ifndef PE_CHEBYSHEV_H
#define PE_CHEBYSHEV_H

#include "krylov.h"

enum { PE_MOST_DEGREE = 8000 }; /* reached: the low end is too crowded for a polynomial */

typedef struct pe_filter {
    const pe_laplacian *lap;
    double low, high;
    int64_t degree;
    double *spare[4]; /* panels, owned */
} pe_filter;

posenc_status pe_filter_init(pe_filter *f, const pe_laplacian *lap, posenc_error *err);
/* Sets the edges; the degree follows: p(low) is about 1/27. */
void pe_filter_set(pe_filter *f, double low);
/* Degree 1: p(lambda) = 1 - lambda / (2 high), monotone on the whole spectrum. */
void pe_filter_plain(pe_filter *f);
pe_operator pe_filter_operator(pe_filter *f);
void pe_filter_fini(pe_filter *f);

#endif
