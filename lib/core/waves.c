/* waves.c - columns of frequencies, times a position, reduced, in lanes. */
#include "core/waves.h"

#include <math.h>

pe_waves pe_waves_begin(const pe_dd *w, size_t n, double *storage)
{
    pe_waves v = {
        .n = n, .w = w, .hi = storage, .lo = storage + n, .top = storage + 2 * n, .rest = storage + 3 * n, .most = 0
    };
    for (size_t i = 0; i < n; i++) {
        const pe_dd parts = pe_split(w[i].hi);
        v.hi[i] = w[i].hi;
        v.lo[i] = w[i].lo;
        v.top[i] = parts.hi;
        v.rest[i] = parts.lo;
        v.most = pe_max(v.most, fabs(w[i].hi));
    }
    return v;
}

/* pi/2 = the sum of three; the first two have at most 26 bits, so that their products with a quarter below 2^27 are exact.
 */
#define HALF_PI1 0x1.921fb5p+0
#define HALF_PI2 0x1.110b46p-26
#define HALF_PI3 0x1.1a62633145c07p-54
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define LARGE 0x1p26 /* the quarters of smaller angles are below 2^26 */

/* Of an angle a + b, |a| < LARGE, |b| a bit or two of a. With k quarters, a - k pi1 - k pi2 is exact: where k is not 0 it is
 * below 1 and a multiple of what a is a multiple of, or of 2^-49. What is rounded then is below |r| 2^-52 + |a| 2^-105. */
PE_BODY void reduced_lanes(const pe_lanes *a, const pe_lanes *b, pe_lanes *sine, pe_lanes *cosine)
{
    const pe_lanes rounded = *a * TWO_OVER_PI + PE_ROUNDER, k = rounded - PE_ROUNDER;
    const pe_lanes r = ((*a - k * HALF_PI1) - k * HALF_PI2) + (*b - k * HALF_PI3);
    pe_wave_lanes(&r, &rounded, sine, cosine);
}

/* The angle as pe_dd_mul makes it, but for the last sums: the low part is off by 2^-50 of itself. */
PE_BODY void waves_body(const pe_waves *w, size_t first, size_t n, const pe_dd *at, double *sine, double *cosine)
{
    const pe_dd parts = pe_split(at->hi);
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES, from = first + i;
        pe_lanes hi = { 0 }, lo = { 0 }, top = { 0 }, rest = { 0 }, sn, cn;
        pe_load_some(&hi, w->hi + from, m);
        pe_load_some(&lo, w->lo + from, m);
        pe_load_some(&top, w->top + from, m);
        pe_load_some(&rest, w->rest + from, m);
        const pe_lanes a = hi * at->hi;
        const pe_lanes b = (((top * parts.hi - a) + top * parts.lo + rest * parts.hi) + rest * parts.lo) +
                           (lo * at->hi + hi * at->lo);
        reduced_lanes(&a, &b, &sn, &cn);
        pe_store_some(sine + i, &sn, m);
        pe_store_some(cosine + i, &cn, m);
    }
}

PE_KERNEL(waves, waves_body, (const pe_waves *w, size_t first, size_t n, const pe_dd *at, double *sine, double *cosine),
          (w, first, n, at, sine, cosine))

/* Makes those of large angles anew, many at a time: they were not reduced. */
static void make_large(pe_path path, const pe_waves *w, size_t first, size_t n, pe_dd at, double *sine, double *cosine)
{
    enum { BLOCK = 64 };
    pe_dd angle[BLOCK];
    double s[BLOCK], c[BLOCK];
    size_t place[BLOCK], k = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(w->hi[first + i] * at.hi) < LARGE)) {
            place[k] = i;
            angle[k++] = pe_dd_mul(w->w[first + i], at);
        }
        if (k < BLOCK && i + 1 < n)
            continue;
        pe_sincos_on(path, angle, k, s, c);
        for (size_t j = 0; j < k; j++) {
            sine[place[j]] = s[j];
            cosine[place[j]] = c[j];
        }
        k = 0;
    }
}

void pe_waves_on(pe_path path, const pe_waves *w, size_t first, size_t n, pe_dd at, double *sine, double *cosine)
{
    waves_paths[path](w, first, n, &at, sine, cosine);
    if (!(w->most * fabs(at.hi) < LARGE))
        make_large(path, w, first, n, at, sine, cosine);
}

void pe_waves_at(const pe_waves *w, size_t first, size_t n, pe_dd at, double *sine, double *cosine)
{
    pe_waves_on(pe_simd(), w, first, n, at, sine, cosine);
}
