/* features.h - random features: angles that are products of coordinates with a matrix, and matrices that are drawn.
 *
 * What random_fourier and random_sinusoidal share. Pure functions; any thread. */
#ifndef PE_FEATURES_H
#define PE_FEATURES_H

#include "core/exact.h"
#include "core/pace.h"

/* Coordinates and matrix elements are at most this, so that no angle overflows. */
#define PE_FEATURES_LARGEST 1e100

/* out[i] = sigma * (standard normal element i of the stream), rounded once to float64. About 2 us each. */
posenc_status pe_features_draw(uint64_t seed, uint64_t stream, double sigma, size_t n, double *out, pe_pace *pace);

/* out[j] = sum over k of x[k] * matrix[k * m + j], for j = first .. first + n - 1: k ascending, in double-double. */
void pe_features_dot(const pe_dd *x, size_t in, const double *matrix, size_t m, size_t first, size_t n, pe_dd *out);

#endif
