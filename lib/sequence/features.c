/* features.c - drawing, and products in double-double. */
#include "sequence/features.h"

#include "core/random.h"

posenc_status pe_features_draw(uint64_t seed, uint64_t stream, double sigma, size_t n, double *out, pe_pace *pace)
{
    enum { BLOCK = 256, STEPS = 2000 };
    posenc_status st = PE_OK;
    for (size_t first = 0; first < n && !st; first += BLOCK) {
        const size_t size = n - first < BLOCK ? n - first : BLOCK;
        pe_random_normal(seed, stream, first, size, out + first);
        for (size_t i = 0; i < size; i++)
            out[first + i] *= sigma;
        st = pe_pace_add(pace, (int64_t)size * STEPS);
    }
    return st;
}

void pe_features_dot(const pe_dd *x, size_t in, const double *matrix, size_t m, size_t first, size_t n, pe_dd *out)
{
    for (size_t j = 0; j < n; j++)
        out[j] = pe_dd_times(x[0], matrix[first + j]);
    for (size_t k = 1; k < in; k++)
        for (size_t j = 0; j < n; j++)
            out[j] = pe_dd_add(out[j], pe_dd_times(x[k], matrix[k * m + first + j]));
}
