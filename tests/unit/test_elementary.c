/* test_elementary.c - exp, log and their kin against MPFR; Philox against its published answer, and its numbers. */
#include "core/elementary.h"
#include "core/random.h"

#include <check.h>
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <string.h>

Suite *elementary_suite(void);

enum { BITS = 400, DRAWS = 4000 };

static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double uniform(void) { return (double)(next() >> 11) * 0x1p-53; }
static double between(double a, double b) { return a + (b - a) * uniform(); }
/* Of either sign, every magnitude from 2^a to 2^b as likely. */
static double scattered(int a, int b)
{
    return ldexp(1 + uniform(), a + (int)(next() % (unsigned)(b - a))) * (next() & 1 ? 1 : -1);
}

static pe_dd both_words(double hi) { return pe_two_sum(hi, hi * 0x1p-54 * (uniform() - 0.5)); }

static void set_dd(mpfr_t x, pe_dd a)
{
    mpfr_set_d(x, a.hi, MPFR_RNDN);
    mpfr_add_d(x, x, a.lo, MPFR_RNDN);
}

/* |got - want| / |want|, where want is not 0. */
static double relative(mpfr_t got, mpfr_t want)
{
    mpfr_t d;
    mpfr_init2(d, BITS);
    mpfr_sub(d, got, want, MPFR_RNDN);
    mpfr_div(d, d, want, MPFR_RNDN);
    double r = fabs(mpfr_get_d(d, MPFR_RNDU));
    mpfr_clear(d);
    return r;
}

/* |got - want| in units of the last place of want as a float64. */
static double ulps(double got, mpfr_t want)
{
    mpfr_t d;
    mpfr_init2(d, BITS);
    mpfr_d_sub(d, got, want, MPFR_RNDN);
    long e = mpfr_get_exp(want) - 53;
    mpfr_mul_2si(d, d, e < -1074 ? 1074 : -e, MPFR_RNDN);
    double r = fabs(mpfr_get_d(d, MPFR_RNDN));
    mpfr_clear(d);
    return r;
}

/* Remembers the largest error, and where it was; one that is not a number is the largest of all. */
static void note(double r, double at, double *worst, double *where)
{
    if (isnan(r) || r > *worst) {
        *worst = isnan(r) ? (double)INFINITY : r;
        *where = at;
    }
}

/* ---- double-double ---- */

typedef pe_dd (*dd_function)(pe_dd);
typedef int (*mpfr_function)(mpfr_t, const mpfr_t, mpfr_rnd_t);
typedef double (*sampler)(void);

static double near_one(void) { return 1 + scattered(-52, -2); }
static double any_positive(void) { return fabs(scattered(-1020, 1020)); }
static double exponents(void) { return between(-660, 709); } /* below, the lower word is subnormal */
static double small(void) { return scattered(-200, -1); }
static double middling(void) { return scattered(-2, 9); }

static const struct {
    const char *what;
    dd_function f;
    mpfr_function exact;
    sampler draw;
} dd_cases[] = {
    { "exp", pe_dd_exp, mpfr_exp, exponents },
    { "exp of small", pe_dd_exp, mpfr_exp, small },
    { "expm1 of small", pe_dd_expm1, mpfr_expm1, small },
    { "expm1", pe_dd_expm1, mpfr_expm1, middling },
    { "log", pe_dd_log, mpfr_log, any_positive },
    { "log near 1", pe_dd_log, mpfr_log, near_one },
};

START_TEST(double_double)
{
    double worst = 0, at = 0;
    mpfr_t x, y, got;
    mpfr_inits2(BITS, x, y, got, (mpfr_ptr)NULL);
    state = 88172645463325252U + (unsigned)_i;
    for (int i = 0; i < DRAWS; i++) {
        pe_dd a = both_words(dd_cases[_i].draw());
        set_dd(x, a);
        dd_cases[_i].exact(y, x, MPFR_RNDN);
        set_dd(got, dd_cases[_i].f(a));
        note(mpfr_zero_p(y) ? fabs(mpfr_get_d(got, MPFR_RNDN)) : relative(got, y), a.hi, &worst, &at);
    }
    ck_assert_msg(worst < 0x1p-90, "%s: 2^%.1f at %a", dd_cases[_i].what, log2(worst), at);
    mpfr_clears(x, y, got, (mpfr_ptr)NULL);
}
END_TEST

START_TEST(double_double_pow)
{
    double worst = 0, at = 0, to = 0;
    mpfr_t x, y, p, got;
    mpfr_inits2(BITS, x, y, p, got, (mpfr_ptr)NULL);
    state = 1234567;
    for (int i = 0; i < DRAWS; i++) {
        pe_dd a = both_words(i % 2 ? any_positive() : fabs(near_one()));
        double most = 600 / (fabs(log(a.hi)) + 1e-300), e = scattered(-20, 10);
        if (fabs(e) > most)
            e = most * (uniform() - 0.5);
        set_dd(x, a);
        mpfr_set_d(y, e, MPFR_RNDN);
        mpfr_pow(p, x, y, MPFR_RNDN);
        set_dd(got, pe_dd_pow(a, e));
        note(relative(got, p), a.hi, &worst, &at);
        to = at == a.hi ? e : to;
    }
    /* the error of y log x is relative to it, and up to 600 of it: nine bits */
    ck_assert_msg(worst < 0x1p-85, "2^%.1f at %a ^ %a", log2(worst), at, to);
    mpfr_clears(x, y, p, got, (mpfr_ptr)NULL);
}
END_TEST

/* Far to the left, and on both sides of the place where series and continued fraction meet. */
START_TEST(normal_cdf)
{
    double worst = 0, at = 0;
    mpfr_t x, y, got;
    mpfr_inits2(BITS, x, y, got, (mpfr_ptr)NULL);
    state = 161803398;
    for (int i = 0; i < DRAWS; i++) {
        double v = i % 4 == 0   ? between(-36, 39)
                   : i % 4 == 1 ? between(-5.1, -4.9)
                   : i % 4 == 2 ? between(-6, 6)
                                : scattered(-60, 2);
        mpfr_set_ui(x, 2, MPFR_RNDN);
        mpfr_sqrt(x, x, MPFR_RNDN);
        mpfr_d_div(x, -v, x, MPFR_RNDN);
        mpfr_erfc(y, x, MPFR_RNDN);
        mpfr_div_2ui(y, y, 1, MPFR_RNDN);
        set_dd(got, pe_dd_normal_cdf(v));
        note(relative(got, y), v, &worst, &at);
    }
    ck_assert_msg(worst < 0x1p-70, "2^%.1f at %a", log2(worst), at);
    ck_assert(pe_dd_normal_cdf(0).hi == 0.5 && pe_dd_normal_cdf(0).lo == 0);
    ck_assert(pe_dd_normal_cdf(40).hi == 1 && pe_dd_normal_cdf(-40).hi == 0 && pe_dd_normal_cdf(-1e300).hi == 0);
    mpfr_clears(x, y, got, (mpfr_ptr)NULL);
}
END_TEST

/* ---- float64 ---- */

static double over_minus_one(void) { return next() & 1 ? scattered(-60, -1) : fabs(scattered(-60, 300)); }
static double wide(void) { return scattered(-60, 10); }
static double all_exponents(void) { return between(-708.39, 709.78); } /* normal results */
static double subnormal_exponents(void) { return between(-745, -708.4); }
static double all_small(void) { return scattered(-1000, -1); }
static int sigmoid(mpfr_t y, const mpfr_t x, mpfr_rnd_t rnd)
{
    mpfr_neg(y, x, rnd);
    mpfr_exp(y, y, rnd);
    mpfr_add_ui(y, y, 1, rnd);
    return mpfr_ui_div(y, 1, y, rnd);
}

static double expm1_of(double x) { return pe_dd_expm1((pe_dd){ x, 0 }).hi; }

static const struct {
    const char *what;
    double (*f)(double);
    mpfr_function exact;
    sampler draw;
    double allowed; /* ulp; 0: 0.51 */
} cases[] = {
    { "exp", pe_exp, mpfr_exp, all_exponents, 0 },
    { "exp, subnormal", pe_exp, mpfr_exp, subnormal_exponents, 0.76 }, /* rounded twice */
    { "exp of small", pe_exp, mpfr_exp, all_small, 0 },
    { "expm1", expm1_of, mpfr_expm1, middling, 0 },
    { "expm1 of small", expm1_of, mpfr_expm1, all_small, 0 },
    { "log", pe_log, mpfr_log, any_positive, 0 },
    { "log near 1", pe_log, mpfr_log, near_one, 0 },
    { "log1p", pe_log1p, mpfr_log1p, over_minus_one, 0 },
    { "sigmoid", pe_sigmoid, sigmoid, wide, 0 },
    { "sigmoid of small", pe_sigmoid, sigmoid, all_small, 0 },
    { "sigmoid, all", pe_sigmoid, sigmoid, all_exponents, 0 },
    { "tanh", pe_tanh, mpfr_tanh, wide, 0 },
    { "tanh of small", pe_tanh, mpfr_tanh, all_small, 0 },
};

START_TEST(float64)
{
    double worst = 0, at = 0;
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)NULL);
    state = 362436069U + (unsigned)_i;
    for (int i = 0; i < DRAWS; i++) {
        double v = cases[_i].draw();
        mpfr_set_d(x, v, MPFR_RNDN);
        cases[_i].exact(y, x, MPFR_RNDN);
        note(mpfr_zero_p(y) ? fabs(cases[_i].f(v)) : ulps(cases[_i].f(v), y), v, &worst, &at);
    }
    ck_assert_msg(worst <= (cases[_i].allowed > 0 ? cases[_i].allowed : 0.51), "%s: %.4f ulp at %a", cases[_i].what, worst,
                  at);
    mpfr_clears(x, y, (mpfr_ptr)NULL);
}
END_TEST

START_TEST(pow_float64)
{
    double worst = 0, at = 0, to = 0;
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)NULL);
    state = 521288629;
    for (int i = 0; i < DRAWS; i++) {
        double a = i % 3 ? any_positive() : fabs(near_one()), e = scattered(-20, 12);
        mpfr_set_d(x, a, MPFR_RNDN);
        mpfr_set_d(y, e, MPFR_RNDN);
        mpfr_pow(x, x, y, MPFR_RNDN);
        double want = mpfr_get_d(x, MPFR_RNDN), got = pe_pow(a, e);
        if (fabs(want) < 0x1p-1022) {
            ck_assert(fabs(got - want) <= 0x1p-1074);
            continue;
        }
        if (isinf(want)) {
            ck_assert_msg(got == want, "%a ^ %a is %a", a, e, got);
            continue;
        }
        note(ulps(got, x), a, &worst, &at);
        to = at == a ? e : to;
    }
    ck_assert_msg(worst <= 0.51, "%.4f ulp at %a ^ %a", worst, at, to);
    mpfr_clears(x, y, (mpfr_ptr)NULL);
}
END_TEST

/* What holds exactly, and the edges. */
START_TEST(edges)
{
    ck_assert(pe_exp(0) == 1 && expm1_of(0) == 0 && pe_log(1) == 0 && pe_log1p(0) == 0);
    ck_assert(isinf(pe_exp(710)) && pe_exp(-746) == 0 && pe_exp(-1e300) == 0 && isinf(pe_exp(1e300)));
    ck_assert(isfinite(pe_exp(709.78)) && pe_exp(-745) == 0x1p-1074);
    ck_assert(expm1_of(-800) == -1 && isinf(expm1_of(800)));
    ck_assert(pe_log(0) == -(double)INFINITY && isnan(pe_log(-1)) && isinf(pe_log((double)INFINITY)));
    ck_assert(pe_log(0x1p-1074) < -744 && pe_log(1.7976931348623157e308) < 709.79);
    ck_assert(pe_pow(0, 2.5) == 0 && pe_pow(0, 0) == 1 && isinf(pe_pow(0, -1)) && pe_pow(7, 0) == 1 &&
              pe_pow(1, 1e300) == 1);
    ck_assert(isinf(pe_pow(2, 1e305)) && pe_pow(2, -1e305) == 0 && pe_pow(0.5, 1e305) == 0 && pe_pow(1, -1e305) == 1);
    for (int k = 0; k < 30; k++)
        ck_assert(pe_pow(3, k) == rint(pe_pow(3, k)) && pe_pow(10, k % 22) == rint(pe_pow(10, k % 22)));
    ck_assert(pe_pow(2, 0.5) == sqrt(2) && pe_pow(10000, 0.5) == 100 && pe_pow(10, 15) == 1e15);
    ck_assert(pe_sigmoid(0) == 0.5 && pe_sigmoid(40) == 1 && pe_sigmoid(-800) == 0 && pe_sigmoid(-700) > 9e-305 &&
              pe_sigmoid(1e300) == 1);
    ck_assert(pe_tanh(0) == 0 && pe_tanh(20) == 1 && pe_tanh(-1e300) == -1);
    for (double v = 1e-5; v < 50; v *= 1.7) {
        ck_assert(pe_tanh(-v) == -pe_tanh(v));
        ck_assert(fabs(pe_sigmoid(v) + pe_sigmoid(-v) - 1) <= 0x1p-53);
    }
}
END_TEST

START_TEST(constants)
{
    mpfr_t pi, got;
    mpfr_inits2(BITS, pi, got, (mpfr_ptr)NULL);
    mpfr_const_pi(pi, MPFR_RNDN);
    set_dd(got, pe_pi);
    ck_assert(relative(got, pi) < 0x1p-106);
    mpfr_mul_2ui(pi, pi, 1, MPFR_RNDN);
    set_dd(got, pe_two_pi);
    ck_assert(relative(got, pi) < 0x1p-106);
    mpfr_clears(pi, got, (mpfr_ptr)NULL);
}
END_TEST

/* ---- random numbers ---- */

/* The known answers that the authors publish with Random123 (kat_vectors, philox4x32 10). */
START_TEST(philox)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } answers[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        uint32_t out[4];
        pe_philox(answers[i].counter, answers[i].key, out);
        ck_assert_mem_eq(out, answers[i].want, sizeof out);
    }
    ck_assert_str_eq(PE_RANDOM_NAME, "philox4x32-10");
}
END_TEST

/* Which words make which element: seed and stream 0, block 0. */
START_TEST(elements)
{
    double u[4], z[2];
    pe_random_uniform(0, 0, 0, 2, u);
    ck_assert(u[0] == (double)(0xe169c58d6627e8d5ULL >> 11) * 0x1p-53);
    ck_assert(u[1] == (double)(0x9b00dbd8bc57ac4cULL >> 11) * 0x1p-53);
    const uint32_t counter[4] = { 0x89abcdef, 0x01234567, 0x76543210, 0xfedcba98 }, key[2] = { 0xdeadbeef, 0xcafe };
    uint32_t w[4];
    pe_philox(counter, key, w);
    pe_random_uniform(0xcafedeadbeef, 0xfedcba9876543210, 2 * 0x0123456789abcdefULL, 2, u);
    ck_assert(u[0] == (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53);
    ck_assert(u[1] == (double)(((uint64_t)w[3] << 32 | w[2]) >> 11) * 0x1p-53);
    pe_random_normal(0, 0, 0, 2, z); /* Box and Muller, by libm */
    pe_random_uniform(0, 0, 0, 2, u);
    double radius = sqrt(-2 * log1p(-u[0])), angle = 6.283185307179586 * u[1];
    ck_assert(fabs(z[0] - radius * cos(angle)) < 1e-14 && fabs(z[1] - radius * sin(angle)) < 1e-14);
}
END_TEST

/* Element i is the same whatever range it is asked in. */
START_TEST(any_split)
{
    enum { N = 301 };
    void (*const draw[])(uint64_t, uint64_t, uint64_t, size_t, double *) = { pe_random_uniform, pe_random_normal };
    for (int k = 0; k < 2; k++) {
        double whole[N], piece[N];
        draw[k](42, 7, 1000001, N, whole);
        for (size_t step = 1; step < 9; step++)
            for (size_t first = 0; first < N; first += step) {
                size_t n = N - first < step ? N - first : step;
                draw[k](42, 7, 1000001 + first, n, piece + first);
                ck_assert(!memcmp(piece + first, whole + first, n * sizeof *piece));
            }
        double other[N];
        draw[k](42, 8, 1000001, N, other);
        ck_assert(memcmp(whole, other, sizeof whole) != 0);
        draw[k](43, 7, 1000001, N, other);
        ck_assert(memcmp(whole, other, sizeof whole) != 0);
        draw[k](42, 7, 1000001, 0, other);
    }
}
END_TEST

/* Moments within six standard deviations of what they are on average, and of neighbours' products. */
START_TEST(moments)
{
    enum { N = 200000 };
    static double u[N], z[N];
    double u1 = 0, u2 = 0, uu = 0, z1 = 0, z2 = 0, z3 = 0, z4 = 0, zz = 0, most = 0;
    int beyond = 0;
    pe_random_uniform(2024, 3, 0, N, u);
    pe_random_normal(2024, 4, 0, N, z);
    for (int i = 0; i < N; i++) {
        ck_assert(u[i] >= 0 && u[i] < 1 && u[i] * 0x1p53 == floor(u[i] * 0x1p53));
        ck_assert(isfinite(z[i]));
        u1 += u[i] - 0.5;
        u2 += (u[i] - 0.5) * (u[i] - 0.5);
        uu += i ? (u[i] - 0.5) * (u[i - 1] - 0.5) : 0;
        z1 += z[i];
        z2 += z[i] * z[i];
        z3 += z[i] * z[i] * z[i];
        z4 += z[i] * z[i] * z[i] * z[i];
        zz += i ? z[i] * z[i - 1] : 0;
        beyond += fabs(z[i]) > 1.959963984540054;
        most = fmax(most, fabs(z[i]));
    }
    const double n = N, six = 6 / sqrt(n);
    ck_assert(fabs(u1 / n) < six * sqrt(1.0 / 12));
    ck_assert(fabs(u2 / n - 1.0 / 12) < six * sqrt(1.0 / 180));
    ck_assert(fabs(uu / n) < six / 12);
    ck_assert(fabs(z1 / n) < six && fabs(z2 / n - 1) < six * sqrt(2) && fabs(z3 / n) < six * sqrt(15));
    ck_assert(fabs(z4 / n - 3) < six * sqrt(96) && fabs(zz / n) < six);
    ck_assert(fabs(beyond / n - 0.05) < six * sqrt(0.05 * 0.95));
    ck_assert(most > 4 && most < 8.6);
}
END_TEST

Suite *elementary_suite(void)
{
    Suite *s = suite_create("elementary");
    TCase *t = tcase_create("elementary");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, double_double, 0, (int)(sizeof dd_cases / sizeof dd_cases[0]));
    tcase_add_test(t, double_double_pow);
    tcase_add_test(t, normal_cdf);
    tcase_add_loop_test(t, float64, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(t, pow_float64);
    tcase_add_test(t, edges);
    tcase_add_test(t, constants);
    suite_add_tcase(s, t);
    t = tcase_create("random");
    tcase_add_test(t, philox);
    tcase_add_test(t, elements);
    tcase_add_test(t, any_split);
    tcase_add_test(t, moments);
    suite_add_tcase(s, t);
    return s;
}
