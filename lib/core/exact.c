/* exact.c - frequencies by MPFR; sine and cosine in double-double. */
#include "core/exact.h"

#include "core/lanes.h"

#include <math.h>
#include <mpfr.h>
#include <string.h>

/* ---- frequencies ---- */

/* Rung i + 1 is rung i times one ratio: the error of the ratio grows i-fold, which 2^20 rungs keep below 2^-170. */
enum { BITS = 256 };

/* A number over 0 of 256 bits, neither huge nor tiny, from its words: rounded to float64, and the rest rounded. MPFR's own
 * functions, which `rounded` falls back to, take five times as long. */
static pe_dd rounded_words(const uint64_t *x, int e)
{
    /* 2^e times a fraction that begins with x[3]: 53 bits of it, then 11 that belong to the rest */
    const uint64_t eleven = x[3] & 0x7ff, odd = x[3] >> 11 & 1;
    const bool up = eleven > 0x400 || (eleven == 0x400 && (x[2] | x[1] | x[0] | odd)); /* then the rest is negative */
    uint64_t w[] = { x[0], x[1], x[2], eleven }, below = 0;
    bool carry = true;
    for (int k = 0; k < 4 && up; k++) {
        w[k] = (k < 3 ? UINT64_MAX : 0x7ff) - w[k] + carry;
        carry = carry && w[k] == 0;
    }
    int k = 3; /* the first word of the rest that is not 0 */
    while (k > 0 && !w[k])
        k--;
    const int lead = w[k] ? __builtin_clzll(w[k]) : 0;
    for (int j = 0; j < k; j++)
        below |= j == k - 1 ? w[j] << lead : w[j];
    const uint64_t top = w[k] << lead | (k && lead ? w[k - 1] >> (64 - lead) : 0) | (below != 0);
    const double lo = ldexp((double)top, e - 256 + 64 * k - lead);
    return (pe_dd){ ldexp((double)((x[3] >> 11) + up), e - 53), up ? -lo : lo };
}

static pe_dd rounded(const mpfr_t x, mpfr_t rest)
{
    if (mpfr_regular_p(x) && mpfr_signbit(x) == 0 && mpfr_get_exp(x) > -800 && mpfr_get_exp(x) < 1000 && GMP_NUMB_BITS == 64)
        return rounded_words(mpfr_custom_get_significand(x), (int)mpfr_get_exp(x));
    const double hi = mpfr_get_d(x, MPFR_RNDN);
    mpfr_sub_d(rest, x, hi, MPFR_RNDN);
    return (pe_dd){ hi, mpfr_get_d(rest, MPFR_RNDN) };
}

posenc_status pe_frequencies(const pe_ladder *l, size_t n, pe_dd *w, const posenc_context *ctx)
{
    posenc_status st = PE_OK;
    mpfr_t ratio, rung, t;
    mpfr_inits2(BITS, ratio, rung, t, (mpfr_ptr)NULL);

    mpfr_set_d(ratio, l->top, MPFR_RNDN);
    mpfr_div_d(ratio, ratio, l->bottom, MPFR_RNDN);
    mpfr_log(ratio, ratio, MPFR_RNDN);
    mpfr_set_d(t, l->steps.hi, MPFR_RNDN);
    mpfr_add_d(t, t, l->steps.lo, MPFR_RNDN);
    mpfr_div(ratio, ratio, t, MPFR_RNDN);
    mpfr_neg(ratio, ratio, MPFR_RNDN);
    mpfr_exp(ratio, ratio, MPFR_RNDN); /* (top / bottom)^(-1 / steps) */

    mpfr_set_d(rung, l->gain.hi, MPFR_RNDN);
    mpfr_add_d(rung, rung, l->gain.lo, MPFR_RNDN);
    for (size_t i = 0; i < n; i++) {
        w[i] = rounded(rung, t);
        mpfr_mul(rung, rung, ratio, MPFR_RNDN);
        if (i % 4096 == 4095 && (st = posenc_poll(ctx)))
            break;
    }
    mpfr_clears(ratio, rung, t, (mpfr_ptr)NULL);
    mpfr_free_cache(); /* constants are kept per thread otherwise */
    return st;
}

posenc_status pe_frequencies_float32(const pe_ladder *l, pe_power form, size_t n, pe_dd *w, const posenc_context *ctx)
{
    posenc_status st = PE_OK;
    const double b = l->top / l->bottom, steps = l->steps.hi;
    const float gain = (float)l->gain.hi;
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)NULL);

    mpfr_set_d(x, b, MPFR_RNDN);
    mpfr_log(x, x, MPFR_RNDN);
    const float slope = (float)(mpfr_get_d(x, MPFR_RNDN) / steps);

    for (size_t i = 0; i < n; i++) {
        float rung;
        if (form == PE_POWER_EXP) {
            mpfr_set_flt(x, (float)(-(double)i * (double)slope), MPFR_RNDN);
            mpfr_exp(x, x, MPFR_RNDN);
            rung = mpfr_get_flt(x, MPFR_RNDN);
        } else {
            mpfr_set_flt(x, (float)b, MPFR_RNDN);
            mpfr_set_flt(y, (float)((double)i / steps), MPFR_RNDN);
            mpfr_pow(x, x, y, MPFR_RNDN);
            rung = 1 / mpfr_get_flt(x, MPFR_RNDN);
        }
        w[i] = (pe_dd){ (double)(gain * rung), 0 };
        if (i % 256 == 255 && (st = posenc_poll(ctx)))
            break;
    }
    mpfr_clears(x, y, (mpfr_ptr)NULL);
    mpfr_free_cache();
    return st;
}

/* ---- reduction ---- */

/* pi/2 = HALF_PI1 + ... + HALF_PI4 within 2^-131. The first three have at most 26 bits, so that their products with an
 * integer below 2^27 (times any power of two) are exact. */
#define HALF_PI1 0x1.921fb5p+0
#define HALF_PI2 0x1.110b46p-26
#define HALF_PI3 0x1.1a6262p-54
#define HALF_PI4 0x1.3145c06e0e689p-78
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

/* Adding it to |x| < 2^51 rounds x to an integer, whose low bits are then the low bits of the float64. */
#define ROUNDER 0x1.8p52

/* Angles below it are reduced in one step: the quotient by pi/2 stays below 2^26. */
#define ONE_STEP 0x1p26

/* a - k * pi/2, for k = an integer below 2^27 times a power of two, and |a.hi - k * pi/2| < a third of |a.hi| or k = 0.
 * All but the last sum of small terms is exact: the error is below |k| * 2^-130 + 2^-104 of what the first difference
 * leaves, and nothing when k = 0. */
static pe_dd minus_quarters(pe_dd a, double k)
{
    double first = a.hi - k * HALF_PI1; /* exact: within a factor of two of each other */
    pe_dd s1 = pe_two_sum(first, -(k * HALF_PI2));
    pe_dd s2 = pe_two_sum(s1.hi, a.lo);
    pe_dd s3 = pe_two_sum(s2.hi, -(k * HALF_PI3));
    return pe_two_sum(s3.hi, ((s1.lo + s2.lo) + s3.lo) - k * HALF_PI4);
}

/* Brings a large angle below ONE_STEP by multiples of 2 pi. Each round takes the leading 23 bits off the angle and leaves
 * an error relative to what it was, so that all rounds together stay below |angle| * 2^-102. */
static pe_dd minus_turns(pe_dd a)
{
    while (fabs(a.hi) >= ONE_STEP) {
        int e;
        frexp(a.hi, &e);                     /* |a| < 2^e */
        int shift = e - 25 > 2 ? e - 25 : 2; /* quarters are counted in multiples of 2^shift >= 4 */
        double k = (ldexp(a.hi, -shift) * TWO_OVER_PI + ROUNDER) - ROUNDER;
        a = minus_quarters(a, ldexp(k, shift));
    }
    return a;
}

/* ---- sine and cosine, in lanes ---- */

/* Taylor's series on |r| <= pi/4 and a little: the first term left out is below 2^-58 of the result. */
PE_BODY void sine_tail(const pe_lanes *z, pe_lanes *out) /* (sin r - r) / r^3, z = r^2 */
{
    pe_lanes p = PE_SPLAT(1.0 / 355687428096000); /* 17! */
    p = p * *z - 1.0 / 1307674368000;
    p = p * *z + 1.0 / 6227020800;
    p = p * *z - 1.0 / 39916800;
    p = p * *z + 1.0 / 362880;
    p = p * *z - 1.0 / 5040;
    p = p * *z + 1.0 / 120;
    *out = p * *z - 1.0 / 6;
}

PE_BODY void cosine_tail(const pe_lanes *z, pe_lanes *out) /* (cos r - 1 + z/2) / z^2 */
{
    pe_lanes p = PE_SPLAT(1.0 / 20922789888000); /* 16! */
    p = p * *z - 1.0 / 87178291200;
    p = p * *z + 1.0 / 479001600;
    p = p * *z - 1.0 / 3628800;
    p = p * *z + 1.0 / 40320;
    p = p * *z - 1.0 / 720;
    *out = p * *z + 1.0 / 24;
}

/* pe_two_sum, lane by lane. */
PE_BODY void lanes_sum(pe_lanes *hi, pe_lanes *lo, const pe_lanes *a, const pe_lanes *b)
{
    pe_lanes s = *a + *b, t = s - *a;
    *lo = (*a - (s - t)) + (*b - t);
    *hi = s;
}

/* minus_quarters, lane by lane. */
PE_BODY void lanes_minus_quarters(pe_lanes *hi, pe_lanes *lo, const pe_lanes *k)
{
    pe_lanes first = *hi - *k * HALF_PI1, second = -(*k * HALF_PI2), third = -(*k * HALF_PI3);
    pe_lanes s1, e1, s2, e2, s3, e3;
    lanes_sum(&s1, &e1, &first, &second);
    lanes_sum(&s2, &e2, &s1, lo);
    lanes_sum(&s3, &e3, &s2, &third);
    pe_lanes rest = ((e1 + e2) + e3) - *k * HALF_PI4;
    lanes_sum(hi, lo, &s3, &rest);
}

/* Of an angle a + b below ONE_STEP. */
PE_BODY void sincos_lanes(const pe_lanes *hi, const pe_lanes *lo, pe_lanes *sine, pe_lanes *cosine)
{
    pe_lanes a = *hi, b = *lo, st, ct;
    const pe_lanes rounded = a * TWO_OVER_PI + ROUNDER, k = rounded - ROUNDER;
    const pe_bits quarter = (pe_bits)rounded;
    lanes_minus_quarters(&a, &b, &k);
    const pe_lanes z = a * a, half = 0.5 * z, near = 1 - half;
    sine_tail(&z, &st);
    cosine_tail(&z, &ct);
    const pe_lanes s = a + (b * near + a * z * st);
    const pe_lanes c = near + (((1 - near) - half) + (z * z * ct - a * b));
    const pe_masks odd = -(pe_masks)(quarter & 1);
    /* bit 1 of the quarter, and of the one after it, is the sign */
    const pe_bits sign = (quarter & 2) << 62, sign1 = ((quarter + 1) & 2) << 62;
    *sine = (pe_lanes)((pe_bits)PE_SELECT(odd, c, s) ^ sign);
    *cosine = (pe_lanes)((pe_bits)PE_SELECT(odd, s, c) ^ sign1);
}

PE_BODY void sincos_body(const double *hi, const double *lo, size_t n, double *sine, double *cosine)
{
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        pe_lanes a = { 0 }, b = { 0 }, sn, cn;
        pe_load_some(&a, hi + i, m);
        pe_load_some(&b, lo + i, m);
        sincos_lanes(&a, &b, &sn, &cn);
        pe_store_some(sine + i, &sn, m);
        pe_store_some(cosine + i, &cn, m);
    }
}

/* The same of w * at, by pe_dd_times or pe_dd_mul lane by lane; `large`: whether any angle is, so that all are to be made
 * another way. */
PE_BODY void product_body(const pe_dd *w, size_t n, const pe_dd *at, bool single, double *sine, double *cosine, bool *large)
{
    const pe_dd parts = pe_split(at->hi);
    const pe_masks most = (pe_masks)PE_SPLAT(ONE_STEP);
    pe_masks small = most | INT64_MIN;
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        double both[2 * PE_LANES];
        pe_lanes x, y, sn, cn;
        const double *from = &w[i].hi;
        if (m < PE_LANES) {
            memset(both, 0, sizeof both);
            memcpy(both, w + i, m * sizeof *w);
            from = both;
        }
        PE_LOAD(x, from, PE_LANES);
        PE_LOAD(y, from + PE_LANES, PE_LANES);
        const pe_lanes hi = __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14),
                       lo = __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15);
        const pe_lanes t = 0x1.0000002p27 * hi, top = t - (t - hi), rest = hi - top, p = hi * at->hi;
        const pe_lanes e = ((top * parts.hi - p) + top * parts.lo + rest * parts.hi) + rest * parts.lo;
        const pe_lanes more = single ? lo * at->hi : hi * at->lo + lo * at->hi;
        const pe_lanes f = e + more, a = p + f, b = f - (a - p);
        small &= ((pe_masks)a & INT64_MAX) - most;
        sincos_lanes(&a, &b, &sn, &cn);
        pe_store_some(sine + i, &sn, m);
        pe_store_some(cosine + i, &cn, m);
    }
    *large = false;
    for (int l = 0; l < PE_LANES; l++)
        *large = *large || small[l] >= 0;
}

PE_KERNEL(sincos, sincos_body, (const double *hi, const double *lo, size_t n, double *sine, double *cosine),
          (hi, lo, n, sine, cosine))

void pe_sincos_on(pe_path path, const pe_dd *angle, size_t n, double *sine, double *cosine)
{
    enum { BLOCK = 64 };
    double hi[BLOCK], lo[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t m = n - first < BLOCK ? n - first : BLOCK;
        for (size_t i = 0; i < m; i++) {
            pe_dd a = angle[first + i];
            if (!(fabs(a.hi) < ONE_STEP))
                a = minus_turns(a);
            hi[i] = a.hi;
            lo[i] = a.lo;
        }
        sincos_paths[path](hi, lo, m, sine + first, cosine + first);
    }
}

PE_KERNEL(product, product_body,
          (const pe_dd *w, size_t n, const pe_dd *at, bool single, double *sine, double *cosine, bool *large),
          (w, n, at, single, sine, cosine, large))

static void sincos_product(pe_path path, const pe_dd *w, size_t n, pe_dd at, bool single, double *sine, double *cosine)
{
    enum { BLOCK = 64 };
    pe_dd angle[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t m = n - first < BLOCK ? n - first : BLOCK;
        bool large;
        product_paths[path](w + first, m, &at, single, sine + first, cosine + first, &large);
        if (!large)
            continue;
        for (size_t i = 0; i < m; i++)
            angle[i] = single ? pe_dd_times(w[first + i], at.hi) : pe_dd_mul(w[first + i], at);
        pe_sincos_on(path, angle, m, sine + first, cosine + first);
    }
}

void pe_sincos_times_on(pe_path path, const pe_dd *w, size_t n, double at, double *sine, double *cosine)
{
    sincos_product(path, w, n, (pe_dd){ at, 0 }, true, sine, cosine);
}

void pe_sincos_times(const pe_dd *w, size_t n, double at, double *sine, double *cosine)
{
    pe_sincos_times_on(pe_simd(), w, n, at, sine, cosine);
}

void pe_sincos_mul_on(pe_path path, const pe_dd *w, size_t n, pe_dd at, double *sine, double *cosine)
{
    sincos_product(path, w, n, at, false, sine, cosine);
}

void pe_sincos_mul(const pe_dd *w, size_t n, pe_dd at, double *sine, double *cosine)
{
    pe_sincos_mul_on(pe_simd(), w, n, at, sine, cosine);
}

void pe_sincos(const pe_dd *angle, size_t n, double *sine, double *cosine)
{
    pe_sincos_on(pe_simd(), angle, n, sine, cosine);
}
