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

/* A matrix (in, m) for results that are rounded on to float32 or less. */
typedef struct pe_turns {
    size_t in, m;
    const double *matrix, *top, *rest; /* top + rest = matrix, 26 bits each; NULL where `exact` */
    bool exact;                        /* every product of a coordinate and an element is a float64 */
} pe_turns;
static inline uint64_t pe_turns_size(size_t in, size_t m, bool exact) /* bytes of storage */
{
    return exact ? 0 : (uint64_t)in * m * 2 * sizeof(double);
}
pe_turns pe_turns_begin(const double *matrix, size_t in, size_t m, bool exact, double *storage);
/* Sines and cosines of 2 pi * sum over k of x[k] * matrix[k * m + j], j = first .. first + n - 1: the sum, k ascending, to
 * 100 bits of its largest part, less whole turns; right as waves.h says. About 2 ns each for two coordinates. */
void pe_turns_at(const pe_turns *t, const double *x, size_t first, size_t n, double *sine, double *cosine);
/* The same by the instructions of one path, which this CPU has: for tests. */
void pe_turns_on(pe_path path, const pe_turns *t, const double *x, size_t first, size_t n, double *sine, double *cosine);

#endif
