/* columns.h - sets of vectors of one length, and the products that orthogonalisation is made of.
 *
 * A column is (n) float64 from pe_column_new: aligned to 64, followed by zeros up to a multiple of eight, which nobody
 * writes. A set is an array of pointers to columns.
 * Sums over rows: eight lanes over chunks of 512 rows, the lanes of a chunk as a fixed tree, chunks in order within a part
 * of 2^14 rows, parts in order. Parts are the tasks of pe_parallel: the bits do not depend on the number of threads. */
#ifndef PE_COLUMNS_H
#define PE_COLUMNS_H

#include "core/pace.h"

double *pe_column_new(int64_t n); /* zeros; NULL: no memory. Freed with free. */

/* c = V^T W; v (nv), w (nw), c (nv, nw) */
posenc_status pe_columns_dots(int64_t n, double *const *v, int64_t nv, double *const *w, int64_t nw, double *c,
                              pe_pace *pace, posenc_error *err);

/* w -= V c */
posenc_status pe_columns_subtract(int64_t n, double *const *v, int64_t nv, const double *c, double *const *w, int64_t nw,
                                  pe_pace *pace, posenc_error *err);

/* w = V c; w may be among v: c (nv, nw) */
posenc_status pe_columns_combine(int64_t n, double *const *v, int64_t nv, const double *c, double *const *w, int64_t nw,
                                 pe_pace *pace, posenc_error *err);

posenc_status pe_column_divide(int64_t n, double *x, double divisor, pe_pace *pace, posenc_error *err); /* 0: sets to 0 */

/* A fixed sequence of uniform numbers in (-1, 1). */
posenc_status pe_column_random(int64_t n, double *x, uint64_t seed, pe_pace *pace, posenc_error *err);

/* Modified Gram-Schmidt of the nw columns of w: w_in = w r, r (nw, nw) upper triangular.
 * A column that is left with a norm of at most floor[c] becomes zero, its row of r too, and its bit in *dead is set. */
posenc_status pe_columns_orthonormalize(int64_t n, double *const *w, int64_t nw, const double *floor, double *r,
                                        unsigned *dead, pe_pace *pace, posenc_error *err);

#endif
