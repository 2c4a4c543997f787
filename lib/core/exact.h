/* exact.h - frequencies, and sines and cosines of large angles, right to the last bit or two.
 *
 * A table of 10^6 positions needs angles far more precise than a float64 holds: a pe_dd carries 106 bits as the
 * unevaluated sum of two float64. The path of an encoding is
 *     pe_frequencies        few values, by MPFR                       w (n)
 *     pe_dd_times           the angle of a position                   pos * w[i]
 *     pe_sincos             its sine and cosine, rounded to float64
 *
 * Pure functions; any thread may call them. Only IEEE operations of fixed order and MPFR: the same bits with every
 * compiler and CPU (this header must be compiled without contraction: -ffp-contract=off).
 * MPFR works in a few KiB of its own, returned before each function ends; like all of GMP it aborts when there is none.
 * Not promised: sense after overflow. Callers bound their parameters so that no frequency and no angle passes 2^960. */
#ifndef PE_EXACT_H
#define PE_EXACT_H

#include <float.h>

#include "core/lanes.h"
#include "posenc.h"

_Static_assert(FLT_EVAL_METHOD == 0, "double-double arithmetic needs operations rounded to their own type");

typedef struct pe_dd {
    double hi, lo; /* the value is hi + lo; hi is that sum rounded to float64 */
} pe_dd;

/* ---- frequencies ---- */

/* Powers of a geometric ladder:   w[i] = (gain.hi + gain.lo) * (top / bottom)^(-i / (steps.hi + steps.lo)) */
typedef struct pe_ladder {
    pe_dd gain;         /* a product of two parameters stays exact here: pe_two_prod(a, b) */
    double top, bottom; /* > 0; the base of the ladder is their quotient */
    pe_dd steps;        /* not 0; w[steps] would be gain / base */
} pe_ladder;

/* How a float32 peer spells a rung. */
typedef enum pe_power { PE_POWER_EXP, PE_POWER_POW } pe_power;

/* The ladder's first n rungs, each rounded once, to 106 bits.
 * Rungs too small for float64 are 0, too large are not finite. Polls `ctx`, which may be NULL. */
posenc_status pe_frequencies(const pe_ladder *l, size_t n, pe_dd *w, const posenc_context *ctx);

/* The rungs as float32 peers form them; each w[i].hi is a float32 and w[i].lo is 0. With f(x) = x rounded to float32,
 * d(x) = x rounded to float64, b = d(top / bottom), n = steps.hi, g = f(gain.hi):
 *     PE_POWER_EXP   w[i] = f(g * f(exp(f(-i * f(d(d(ln b) / n))))))     torch.exp(arange(h) * -(math.log(b) / n))
 *     PE_POWER_POW   w[i] = f(g * f(1 / f(f(b)^f(i / n))))               1 / b ** (arange(h) / n)
 * exp, ln and powers are correctly rounded; a peer's own may miss by an ulp, which no convention fixes. */
posenc_status pe_frequencies_float32(const pe_ladder *l, pe_power form, size_t n, pe_dd *w, const posenc_context *ctx);

/* ---- sine and cosine ---- */

/* sin and cos of n angles (hi + lo).
 * Error: at most 1 ulp of float64 + |angle| * 2^-98, also near the zeros; rounded on to float32, 0.51 ulp and that.
 * sin(0) = 0 and cos(0) = 1 exactly; sin is odd and cos is even bit by bit; results are in [-1, 1]. */
void pe_sincos(const pe_dd *angle, size_t n, double *sine, double *cosine);
/* The same by the instructions of one path, which this CPU has: for tests. */
void pe_sincos_on(pe_path path, const pe_dd *angle, size_t n, double *sine, double *cosine);

/* The same bits of the angles pe_dd_times(w[i], at), and pe_dd_mul(w[i], at), which are made in lanes. */
void pe_sincos_times(const pe_dd *w, size_t n, double at, double *sine, double *cosine);
void pe_sincos_times_on(pe_path path, const pe_dd *w, size_t n, double at, double *sine, double *cosine);
void pe_sincos_mul(const pe_dd *w, size_t n, pe_dd at, double *sine, double *cosine);
void pe_sincos_mul_on(pe_path path, const pe_dd *w, size_t n, pe_dd at, double *sine, double *cosine);

/* ---- float32 steps ---- */

/* Rounded to float32, as a peer that works in it does after every step. */
static inline double pe_single(double v) { return (double)(float)v; }

/* The larger and the smaller of two numbers: not fmax() and fmin(), whose zeros and NaN differ between machines. */
static inline double pe_max(double a, double b) { return a > b ? a : b; }
static inline double pe_min(double a, double b) { return a < b ? a : b; }

/* ---- double-double arithmetic ---- */

/* a + b exactly. */
static inline pe_dd pe_two_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return (pe_dd){ s, (a - (s - t)) + (b - t) };
}

/* a + b exactly, where |a| >= |b| or a = 0. */
static inline pe_dd pe_fast_two_sum(double a, double b)
{
    double s = a + b;
    return (pe_dd){ s, b - (s - a) };
}

/* The upper 26 bits of a, and the rest in 26 (Veltkamp). |a| < 2^996. */
static inline pe_dd pe_split(double a)
{
    double t = 0x1.0000002p27 * a, hi = t - (t - a);
    return (pe_dd){ hi, a - hi };
}

/* a * b exactly (Dekker), unless the low part underflows. Not by fma(): where the CPU has none, the C library's is
 * some twenty times slower, and the bits are the same. */
static inline pe_dd pe_two_prod(double a, double b)
{
    double p = a * b;
    pe_dd x = pe_split(a), y = pe_split(b);
    return (pe_dd){ p, ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo };
}

static inline pe_dd pe_dd_neg(pe_dd a) { return (pe_dd){ -a.hi, -a.lo }; }

/* The four operations; the relative error is below 2^-102 (of a sum: relative to |a| + |b|). */
static inline pe_dd pe_dd_times(pe_dd a, double b)
{
    pe_dd p = pe_two_prod(a.hi, b);
    return pe_fast_two_sum(p.hi, p.lo + a.lo * b);
}

static inline pe_dd pe_dd_mul(pe_dd a, pe_dd b)
{
    pe_dd p = pe_two_prod(a.hi, b.hi);
    return pe_fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline pe_dd pe_dd_add(pe_dd a, pe_dd b)
{
    pe_dd s = pe_two_sum(a.hi, b.hi), t = pe_two_sum(a.lo, b.lo);
    s = pe_fast_two_sum(s.hi, s.lo + t.hi);
    return pe_fast_two_sum(s.hi, s.lo + t.lo);
}

static inline pe_dd pe_dd_div(pe_dd a, pe_dd b)
{
    double q = a.hi / b.hi;
    pe_dd p = pe_dd_times(b, q), r = pe_dd_add(a, pe_dd_neg(p));
    double q1 = r.hi / b.hi;
    p = pe_dd_times(b, q1);
    r = pe_dd_add(r, pe_dd_neg(p));
    pe_dd s = pe_fast_two_sum(q, q1);
    return pe_fast_two_sum(s.hi, s.lo + r.hi / b.hi);
}

#endif
