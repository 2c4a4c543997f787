/* elementary.c - exp and log in double-double. */
#include "core/elementary.h"

#include <math.h>

static const pe_dd ln2 = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };

/* e^r - 1 for |r| < 0.36: of r / 256 by the series, then squared eight times as (1 + p)^2 - 1 = 2p + p^2. */
static pe_dd small_expm1(pe_dd r)
{
    enum { HALVINGS = 8, TERMS = 10 };
    pe_dd x = { ldexp(r.hi, -HALVINGS), ldexp(r.lo, -HALVINGS) }, p = { 1, 0 };
    for (int n = TERMS; n > 1; n--) {
        p = pe_dd_div(pe_dd_mul(p, x), (pe_dd){ n, 0 });
        p = pe_dd_add((pe_dd){ 1, 0 }, p);
    }
    p = pe_dd_mul(p, x);
    for (int i = 0; i < HALVINGS; i++)
        p = pe_dd_add((pe_dd){ 2 * p.hi, 2 * p.lo }, pe_dd_mul(p, p));
    return p;
}

/* x = k ln 2 + rest */
static pe_dd reduce(pe_dd x, int *k)
{
    double n = rint(x.hi / ln2.hi);
    *k = (int)n;
    pe_dd whole = pe_dd_times(ln2, n);
    return pe_dd_add(x, pe_dd_neg(whole));
}

pe_dd pe_dd_exp(pe_dd x)
{
    int k;
    if (x.hi != x.hi)
        return x; /* NaN */
    if (x.hi > 709.79)
        return (pe_dd){ (double)INFINITY, 0 };
    if (x.hi < -745.2)
        return (pe_dd){ 0, 0 };
    pe_dd p = pe_dd_add((pe_dd){ 1, 0 }, small_expm1(reduce(x, &k)));
    return (pe_dd){ ldexp(p.hi, k), ldexp(p.lo, k) };
}

pe_dd pe_dd_expm1(pe_dd x)
{
    if (fabs(x.hi) < 0.35)
        return small_expm1(x);
    pe_dd e = pe_dd_exp(x);
    return isinf(e.hi) ? e : pe_dd_add(e, (pe_dd){ -1, 0 });
}

/* x = m 2^e, m near 1; log m = 2 atanh(s), s = (m - 1) / (m + 1). */
pe_dd pe_dd_log(pe_dd x)
{
    enum { TERMS = 22 };
    int e;
    if (!(x.hi > 0) || isinf(x.hi))
        return (pe_dd){ x.hi == 0 ? -(double)INFINITY : isinf(x.hi) && x.hi > 0 ? x.hi : (double)NAN, 0 };
    if (frexp(x.hi, &e) < 0.70710678118654752)
        e--;
    const pe_dd m = { ldexp(x.hi, -e), ldexp(x.lo, -e) };
    const pe_dd s = pe_dd_div(pe_dd_add(m, (pe_dd){ -1, 0 }), pe_dd_add(m, (pe_dd){ 1, 0 }));
    const pe_dd s2 = pe_dd_mul(s, s);
    pe_dd sum = { 0, 0 };
    for (int n = TERMS; n >= 0; n--)
        sum = pe_dd_add(pe_dd_div((pe_dd){ 1, 0 }, (pe_dd){ 2 * n + 1, 0 }), pe_dd_mul(s2, sum));
    sum = pe_dd_mul(sum, (pe_dd){ 2 * s.hi, 2 * s.lo });
    return e ? pe_dd_add(pe_dd_times(ln2, e), sum) : sum;
}

pe_dd pe_dd_pow(pe_dd x, double y)
{
    if (y == 0)
        return (pe_dd){ 1, 0 };
    if (x.hi == 0)
        return (pe_dd){ y > 0 ? 0 : (double)INFINITY, 0 };
    if (fabs(y) > 0x1p900) /* as decided as it gets, and its products do not overflow */
        y = copysign(0x1p900, y);
    return pe_dd_exp(pe_dd_times(pe_dd_log(x), y));
}

/* Below 5 the series 1/2 + density (v + v^3/3 + v^5/15 + ...), whose terms have one sign; on the left 22 bits cancel.
 * Beyond, the tail by Laplace's continued fraction density / (v + 1/(v + 2/(v + 3/...))). */
pe_dd pe_dd_normal_cdf(double x)
{
    enum { FRACTIONS = 60 };
    static const pe_dd height = { 0x1.9884533d43651p-2, -0x1.cbc0d30ebfd15p-56 }; /* 1 / sqrt(2 pi) */
    const double v = fabs(x);
    if (v > 39)
        return (pe_dd){ x > 0, 0 };
    const pe_dd square = pe_two_prod(v, v);
    const pe_dd density = pe_dd_mul(height, pe_dd_exp((pe_dd){ -square.hi / 2, -square.lo / 2 }));
    if (v < 5) {
        pe_dd term = { v, 0 }, sum = term;
        for (int n = 3; term.hi > 0x1p-110 * sum.hi; n += 2) {
            term = pe_dd_div(pe_dd_mul(term, square), (pe_dd){ n, 0 });
            sum = pe_dd_add(sum, term);
        }
        sum = pe_dd_mul(sum, density);
        return pe_dd_add((pe_dd){ 0.5, 0 }, x > 0 ? sum : pe_dd_neg(sum));
    }
    pe_dd below = { v, 0 };
    for (int n = FRACTIONS; n > 0; n--)
        below = pe_dd_add((pe_dd){ v, 0 }, pe_dd_div((pe_dd){ n, 0 }, below));
    const pe_dd tail = pe_dd_div(density, below);
    return x < 0 ? tail : pe_dd_add((pe_dd){ 1, 0 }, pe_dd_neg(tail));
}

double pe_exp(double x) { return pe_dd_exp((pe_dd){ x, 0 }).hi; }
double pe_log(double x) { return pe_dd_log((pe_dd){ x, 0 }).hi; }
double pe_log1p(double x) { return pe_dd_log(pe_two_sum(1, x)).hi; }
double pe_pow(double x, double y) { return pe_dd_pow((pe_dd){ x, 0 }, y).hi; }

/* y = 1 + x = m 2^e with m in sqrt(1/2) .. sqrt(2); ln m = 2 artanh(s), s = (m - 1) / (m + 1), by its series: the first term
 * left out is below 2^-39 of the result. What 1 + x loses of x comes back as its share of y. */
PE_BODY void log1p_body(const double *x, size_t n, double *out)
{
    enum { ROOT_HALF = 0x3fe6a09e }; /* the upper bits of sqrt(1/2) */
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t k = n - i < PE_LANES ? n - i : PE_LANES;
        pe_lanes v = { 0 };
        pe_load_some(&v, x + i, k);
        const pe_lanes y = 1 + v, t = y - 1, lost = (1 - (y - t)) + (v - t); /* two_sum */
        const pe_bits above = ((pe_bits)y - ((uint64_t)ROOT_HALF << 32)) >> 52;
        const pe_lanes e = (pe_lanes)(above | 0x4330000000000000) - 0x1p52, m = (pe_lanes)((pe_bits)y - (above << 52));
        const pe_lanes f = m - 1, s = f / (2 + f), z = s * s;
        pe_lanes p = z * (1.0 / 13) + 1.0 / 11;
        p = p * z + 1.0 / 9;
        p = p * z + 1.0 / 7;
        p = p * z + 1.0 / 5;
        p = p * z + 1.0 / 3;
        const pe_lanes r = e * 0x1.62e42fefa39efp-1 + (2 * s + (2 * s * (z * p) + lost / y));
        pe_store_some(out + i, &r, k);
    }
}

PE_KERNEL(log1p, log1p_body, (const double *x, size_t n, double *out), (x, n, out))

void pe_log1p_many_on(pe_path path, const double *x, size_t n, double *out) { log1p_paths[path](x, n, out); }
void pe_log1p_many(const double *x, size_t n, double *out) { pe_log1p_many_on(pe_simd(), x, n, out); }

double pe_sigmoid(double x)
{
    if (x < -80) /* 1 + e^x is 1 to 2^-110; and a division by e^-x may overflow on its way */
        return pe_exp(x);
    return pe_dd_div((pe_dd){ 1, 0 }, pe_dd_add((pe_dd){ 1, 0 }, pe_dd_exp((pe_dd){ -x, 0 }))).hi;
}

double pe_tanh(double x)
{
    if (fabs(x) > 40)
        return copysign(1, x);
    pe_dd e = pe_dd_expm1((pe_dd){ 2 * x, 0 });
    return pe_dd_div(e, pe_dd_add(e, (pe_dd){ 2, 0 })).hi;
}
