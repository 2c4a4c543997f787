/* test_exact.c - frequencies and sin/cos against MPFR at high precision, and the identities that hold exactly. */
#include "core/exact.h"

#include <check.h>
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *exact_suite(void);

enum { HIGH = 1400 }; /* bits: 960 of the integer part of the largest angle, and a wide margin */

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double uniform(uint64_t *state) { return (double)(next(state) >> 11) * 0x1p-53; }

static void set_dd(mpfr_t x, pe_dd a)
{
    mpfr_set_d(x, a.hi, MPFR_RNDN);
    mpfr_add_d(x, x, a.lo, MPFR_RNDN);
}

/* A random angle below 2^(low + span) in both words, of either sign. */
static pe_dd random_angle(uint64_t *seed, int low, unsigned span)
{
    double m = uniform(seed) - 0.5, second = uniform(seed) - 0.5;
    double hi = ldexp(m, low + (int)(next(seed) % span));
    return pe_two_sum(hi, hi * 0x1p-54 * second);
}

/* |got - want| beyond `allowance`, in units of the last of `digits` bits of want, or of the format's `smallest` = 2^e. */
static double ulps(double got, mpfr_t want, int digits, int smallest, double allowance)
{
    mpfr_t d;
    mpfr_init2(d, HIGH);
    mpfr_sub_d(d, want, got, MPFR_RNDN);
    mpfr_abs(d, d, MPFR_RNDN);
    mpfr_sub_d(d, d, allowance, MPFR_RNDN);
    if (mpfr_sgn(d) > 0) {
        long unit = mpfr_zero_p(want) ? smallest : mpfr_get_exp(want) - digits;
        mpfr_mul_2si(d, d, unit > smallest ? -unit : -smallest, MPFR_RNDN);
    } else {
        mpfr_set_zero(d, 1);
    }
    double r = mpfr_get_d(d, MPFR_RNDN);
    mpfr_clear(d);
    return r;
}

typedef struct worst {
    double f64, f32;
} worst;

static void raise(double *x, double v) { *x = v > *x ? v : *x; }

static void measure(pe_dd angle, worst *w)
{
    double s, c, allow = fabs(angle.hi) * 0x1p-98;
    mpfr_t x, ms, mc;
    mpfr_inits2(HIGH, x, ms, mc, (mpfr_ptr)NULL);
    set_dd(x, angle);
    mpfr_sin_cos(ms, mc, x, MPFR_RNDN);
    pe_sincos(&angle, 1, &s, &c);
    raise(&w->f64, ulps(s, ms, 53, -1074, allow));
    raise(&w->f64, ulps(c, mc, 53, -1074, allow));
    raise(&w->f32, ulps((double)(float)s, ms, 24, -149, allow));
    raise(&w->f32, ulps((double)(float)c, mc, 24, -149, allow));
    mpfr_clears(x, ms, mc, (mpfr_ptr)NULL);
}

static void require(const char *what, worst w)
{
    if (getenv("POSENC_TEST_VERBOSE"))
        printf("%s: %.4f ulp of float64, %.6f ulp of float32\n", what, w.f64, w.f32);
    ck_assert_msg(w.f64 <= 1 && w.f32 <= 0.51, "%s: %.4f ulp of float64, %.6f ulp of float32", what, w.f64, w.f32);
}

START_TEST(sincos_random)
{
    uint64_t seed = 0x9e3779b97f4a7c15u;
    worst w = { 0, 0 };
    for (int i = 0; i < 20000; i++)
        measure(random_angle(&seed, -20, 80), &w);
    require("random angles", w);
}
END_TEST

START_TEST(sincos_huge)
{
    uint64_t seed = 77;
    worst w = { 0, 0 };
    for (int e = 26; e < 960; e++)
        measure(random_angle(&seed, e, 1), &w);
    for (int i = 0; i < 2000; i++)
        measure(pe_dd_times(random_angle(&seed, 0, 1), 0x1p53), &w);
    require("huge angles", w);
}
END_TEST

/* The float64 nearest to k * pi/2 with a second word that brings the angle within 2^-106 |angle| of it: what is left
 * of the angle has no bit of the first word. */
START_TEST(sincos_near_zeros)
{
    uint64_t seed = 5;
    worst w = { 0, 0 };
    mpfr_t half_pi, x;
    mpfr_inits2(HIGH, half_pi, x, (mpfr_ptr)NULL);
    mpfr_const_pi(half_pi, MPFR_RNDN);
    mpfr_div_2ui(half_pi, half_pi, 1, MPFR_RNDN);
    for (int i = 0; i < 6000; i++) {
        double k = i < 1000 ? i : floor(fabs(random_angle(&seed, 11, 43).hi));
        mpfr_mul_d(x, half_pi, k, MPFR_RNDN);
        double hi = mpfr_get_d(x, MPFR_RNDN);
        mpfr_sub_d(x, x, hi, MPFR_RNDN);
        double lo = mpfr_get_d(x, MPFR_RNDN);
        measure((pe_dd){ hi, 0 }, &w);
        measure((pe_dd){ hi, lo }, &w);
        measure(pe_two_sum(hi, lo * (1 + 0x1p-20)), &w);
    }
    mpfr_clears(half_pi, x, (mpfr_ptr)NULL);
    require("near multiples of pi/2", w);
}
END_TEST

/* Around the odd multiples of pi/4, where the quadrant changes, and around the border of the one-step reduction. */
START_TEST(sincos_borders)
{
    static const double around[] = {
        0x1p26, 0x1p27, 0x1.921fb54442d18p-1, 0x1.2d97c7f3321d2p+1, 0x1p-20, 0x1p-300, 0x1p-1022
    };
    worst w = { 0, 0 };
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
        double x = around[i];
        for (int k = 0; k < 50; k++)
            x = nextafter(x, 0);
        for (int k = 0; k < 100; k++, x = nextafter(x, HUGE_VAL))
            measure((pe_dd){ x, 0 }, &w);
    }
    require("borders", w);
}
END_TEST

START_TEST(sincos_identities)
{
    uint64_t seed = 3;
    double s, c, s2, c2;
    pe_sincos(&(pe_dd){ 0, 0 }, 1, &s, &c);
    ck_assert(s == 0 && !signbit(s) && c == 1);
    pe_sincos(&(pe_dd){ -0.0, 0 }, 1, &s, &c);
    ck_assert(s == 0 && c == 1);
    for (int i = 0; i < 100000; i++) {
        pe_dd a = random_angle(&seed, -30, 90);
        pe_sincos(&a, 1, &s, &c);
        pe_sincos(&(pe_dd){ -a.hi, -a.lo }, 1, &s2, &c2);
        ck_assert(s2 == -s && c2 == c);
        ck_assert(fabs(s) <= 1 && fabs(c) <= 1);
        ck_assert(fabs(s * s + c * c - 1) <= 0x1p-51);
    }
}
END_TEST

/* The bits themselves, frozen: every compiler, CPU and flag must come to this sum (FNV-1a). */
START_TEST(sincos_bits)
{
    uint64_t seed = 2026, sum = 0xcbf29ce484222325u;
    for (int i = 0; i < 50000; i++) {
        pe_dd a = random_angle(&seed, -40, i % 50 ? 100 : 900);
        double v[2];
        pe_sincos(&a, 1, &v[0], &v[1]);
        for (size_t k = 0; k < sizeof v; k++)
            sum = (sum ^ ((const unsigned char *)v)[k]) * 0x100000001b3u;
    }
    ck_assert_msg(sum == 0x3f4c5d23b73eedcfu, "0x%llx", (unsigned long long)sum);
}
END_TEST

/* Many at once are the same as one by one. */
START_TEST(sincos_bulk)
{
    enum { N = 1000 };
    uint64_t seed = 11;
    pe_dd a[N];
    double s[N], c[N], s1, c1;
    for (int i = 0; i < N; i++)
        a[i] = (pe_dd){ ldexp(uniform(&seed), i % 60), 0 };
    pe_sincos(a, N, s, c);
    for (int i = 0; i < N; i++) {
        pe_sincos(&a[i], 1, &s1, &c1);
        ck_assert(s1 == s[i] && c1 == c[i]);
    }
}
END_TEST

static const pe_ladder ladders[] = {
    { { 1, 0 }, 10000, 1, { 256, 0 } },
    { { 1, 0 }, 10000, 1, { 3.5, 0 } },
    { { 1, 0 }, 1e6, 1, { 64, 0 } },
    { { 2, 0 }, 500, 2, { 3, 0 } },
    { { 1, 0 }, 1, 1, { 8, 0 } },
    { { 1, 0 }, 1 + 0x1p-52, 1, { 1, 0 } },
    { { 1, 0 }, 0.25, 1, { 100, 0 } },
    { { 1e100, 1e80 }, 1e100, 1e-100, { 1, 0 } },
    { { 0.1, 0x1p-60 }, 3, 7, { 255, -0.1 } },
    { { 1, 0 }, 10000, 1, { 31, -0x1p-50 } },
};

START_TEST(frequencies)
{
    enum { N = 300 };
    pe_dd w[N];
    mpfr_t base, t, want;
    mpfr_inits2(HIGH, base, t, want, (mpfr_ptr)NULL);
    const pe_ladder *l = &ladders[_i];
    ck_assert_int_eq(pe_frequencies(l, N, w, NULL), PE_OK);
    for (int i = 0; i < N; i++) {
        set_dd(t, l->steps);
        mpfr_si_div(t, -i, t, MPFR_RNDN);
        mpfr_set_d(base, l->top, MPFR_RNDN);
        mpfr_div_d(base, base, l->bottom, MPFR_RNDN);
        mpfr_pow(want, base, t, MPFR_RNDN);
        set_dd(t, l->gain);
        mpfr_mul(want, want, t, MPFR_RNDN);
        ck_assert(w[i].hi == mpfr_get_d(want, MPFR_RNDN));
        mpfr_sub_d(want, want, w[i].hi, MPFR_RNDN);
        ck_assert_msg(fabs(w[i].lo - mpfr_get_d(want, MPFR_RNDN)) <= fabs(w[i].hi) * 0x1p-150 + 0x1p-1073,
                      "rung %d: %a, want %a", i, w[i].lo, mpfr_get_d(want, MPFR_RNDN));
    }
    ck_assert(w[0].hi == l->gain.hi);
    mpfr_clears(base, t, want, (mpfr_ptr)NULL);
}
END_TEST

/* Values that PyTorch's recipe gives in float32, worked out step by step. */
START_TEST(frequencies_float32)
{
    static const pe_ladder l = { { 1, 0 }, 10000, 1, { 4, 0 } };
    pe_dd e[4], p[4];
    ck_assert_int_eq(pe_frequencies_float32(&l, PE_POWER_EXP, 4, e, NULL), PE_OK);
    ck_assert_int_eq(pe_frequencies_float32(&l, PE_POWER_POW, 4, p, NULL), PE_OK);
    for (int i = 0; i < 4; i++) {
        ck_assert((double)(float)e[i].hi == e[i].hi && e[i].lo == 0);
        ck_assert((double)(float)p[i].hi == p[i].hi && p[i].lo == 0);
    }
    ck_assert(e[0].hi == 1 && p[0].hi == 1);
    ck_assert(p[1].hi == (double)0.1f && p[2].hi == (double)0.01f && p[3].hi == (double)0.001f);
    ck_assert(e[1].hi == 0x1.999998p-4); /* exp(-f(ln(10000) / 4)): one below the float32 nearest to 0.1 */
    ck_assert(fabs(e[3].hi - 0.001) <= 3 * 0x1p-34 && fabs(e[2].hi - 0.01) <= 3 * 0x1p-31);
}
END_TEST

static posenc_status stop(void *user)
{
    (void)user;
    return PE_CANCELLED;
}

START_TEST(frequencies_stop)
{
    static pe_dd w[5000];
    posenc_context ctx = { .stop = stop };
    ck_assert_int_eq(pe_frequencies(&ladders[0], 5000, w, &ctx), PE_CANCELLED);
    ck_assert_int_eq(pe_frequencies_float32(&ladders[0], PE_POWER_EXP, 5000, w, &ctx), PE_CANCELLED);
}
END_TEST

/* The four operations against MPFR. */
START_TEST(double_double)
{
    uint64_t seed = 21;
    mpfr_t x, y, z, got;
    mpfr_inits2(HIGH, x, y, z, got, (mpfr_ptr)NULL);
    for (int i = 0; i < 20000; i++) {
        pe_dd a = random_angle(&seed, 0, 1), b = random_angle(&seed, 0, 1);
        pe_dd r[4] = { pe_dd_add(a, b), pe_dd_mul(a, b), pe_dd_div(a, b), pe_dd_times(a, b.hi) };
        double scale[4] = { fabs(a.hi) + fabs(b.hi), fabs(a.hi * b.hi), fabs(a.hi / b.hi), fabs(a.hi * b.hi) };
        for (int k = 0; k < 4; k++) {
            set_dd(x, a);
            set_dd(y, k == 3 ? (pe_dd){ b.hi, 0 } : b);
            if (k == 0)
                mpfr_add(z, x, y, MPFR_RNDN);
            else if (k == 2)
                mpfr_div(z, x, y, MPFR_RNDN);
            else
                mpfr_mul(z, x, y, MPFR_RNDN);
            set_dd(got, r[k]);
            mpfr_sub(z, z, got, MPFR_RNDN);
            ck_assert_msg(fabs(mpfr_get_d(z, MPFR_RNDN)) <= scale[k] * 0x1p-102, "operation %d: %a", k,
                          fabs(mpfr_get_d(z, MPFR_RNDN)) / scale[k]);
            ck_assert(r[k].hi == r[k].hi + r[k].lo);
        }
        pe_dd p = pe_two_prod(a.hi, b.hi);
        mpfr_set_d(z, a.hi, MPFR_RNDN);
        mpfr_mul_d(z, z, b.hi, MPFR_RNDN);
        set_dd(got, p);
        ck_assert(mpfr_equal_p(z, got));
    }
    mpfr_clears(x, y, z, got, (mpfr_ptr)NULL);
}
END_TEST

static void forget(void) { mpfr_free_cache(); }

Suite *exact_suite(void)
{
    Suite *s = suite_create("exact");
    TCase *t = tcase_create("sincos");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, NULL, forget);
    tcase_add_test(t, sincos_random);
    tcase_add_test(t, sincos_huge);
    tcase_add_test(t, sincos_near_zeros);
    tcase_add_test(t, sincos_borders);
    tcase_add_test(t, sincos_identities);
    tcase_add_test(t, sincos_bits);
    tcase_add_test(t, sincos_bulk);
    suite_add_tcase(s, t);
    t = tcase_create("frequencies");
    tcase_add_unchecked_fixture(t, NULL, forget);
    tcase_add_loop_test(t, frequencies, 0, (int)(sizeof ladders / sizeof ladders[0]));
    tcase_add_test(t, frequencies_float32);
    tcase_add_test(t, frequencies_stop);
    tcase_add_test(t, double_double);
    suite_add_tcase(s, t);
    return s;
}
