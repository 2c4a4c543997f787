/* features.c - drawing, and products in double-double. */
#include "sequence/features.h"

#include "core/elementary.h"
#include "core/random.h"
#include "core/waves.h"

#include <math.h>

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

pe_turns pe_turns_begin(const double *matrix, size_t in, size_t m, bool exact, double *storage)
{
    double *top = storage, *rest = storage + in * m;
    for (size_t i = 0; i < in * m && !exact; i++) {
        const pe_dd parts = pe_split(matrix[i]);
        top[i] = parts.hi;
        rest[i] = parts.lo;
    }
    return (pe_turns){
        .in = in, .m = m, .matrix = matrix, .top = exact ? NULL : top, .rest = exact ? NULL : rest, .exact = exact
    };
}

#define LARGE 0x1p48 /* sums from which quarters are not counted in a float64 */

/* `large`: whether any sum is, so that its results are not to be used. */
PE_BODY void turns_body(const pe_turns *t, const double *x, size_t first, size_t n, double *sine, double *cosine,
                        bool *large)
{
    const pe_masks most = (pe_masks)PE_SPLAT(LARGE);
    pe_masks small = most | INT64_MIN;
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        pe_lanes hi = { 0 }, lo = { 0 }, w = { 0 }, top = { 0 }, rest = { 0 }, sn, cn;
        for (size_t k = 0; k < t->in; k++) {
            const size_t at = k * t->m + first + i;
            pe_load_some(&w, t->matrix + at, m);
            const pe_lanes p = w * x[k], s = hi + p, back = s - hi;
            if (!t->exact) {
                const pe_dd parts = pe_split(x[k]);
                pe_load_some(&top, t->top + at, m);
                pe_load_some(&rest, t->rest + at, m);
                lo += ((top * parts.hi - p) + top * parts.lo + rest * parts.hi) + rest * parts.lo;
            }
            lo += (hi - (s - back)) + (p - back);
            hi = s;
        }
        const pe_lanes rounded = (hi + lo) * 4 + PE_ROUNDER, quarter = (rounded - PE_ROUNDER) * 0.25;
        const pe_lanes r = ((hi - quarter) + lo) *
                           pe_two_pi.hi; /* the difference is exact unless the sum cancelled itself */
        small &= ((pe_masks)hi & INT64_MAX) - most;
        pe_wave_lanes(&r, &rounded, &sn, &cn);
        pe_store_some(sine + i, &sn, m);
        pe_store_some(cosine + i, &cn, m);
    }
    *large = false;
    for (int l = 0; l < PE_LANES; l++)
        *large = *large || small[l] >= 0;
}

PE_KERNEL(turns, turns_body,
          (const pe_turns *t, const double *x, size_t first, size_t n, double *sine, double *cosine, bool *large),
          (t, x, first, n, sine, cosine, large))

void pe_turns_on(pe_path path, const pe_turns *t, const double *x, size_t first, size_t n, double *sine, double *cosine)
{
    bool large;
    turns_paths[path](t, x, first, n, sine, cosine, &large);
    for (size_t j = 0; j < n && large; j++) { /* each by itself: a result does not depend on its neighbours */
        pe_dd sum = pe_dd_times((pe_dd){ x[0], 0 }, t->matrix[first + j]);
        double hi = x[0] * t->matrix[first + j];
        for (size_t k = 1; k < t->in; k++) {
            const double w = t->matrix[k * t->m + first + j];
            hi += x[k] * w;
            sum = pe_dd_add(sum, pe_dd_times((pe_dd){ x[k], 0 }, w));
        }
        if (fabs(hi) < LARGE)
            continue;
        sum = pe_dd_mul(sum, pe_two_pi);
        pe_sincos_on(path, &sum, 1, sine + j, cosine + j);
    }
}

void pe_turns_at(const pe_turns *t, const double *x, size_t first, size_t n, double *sine, double *cosine)
{
    pe_turns_on(pe_simd(), t, x, first, n, sine, cosine);
}
