/* buckets.c - logarithmic steps of whole numbers, decided exactly. */
#include "sequence/buckets.h"

#include "core/elementary.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

/* ---- logarithmic steps ---- */

pe_log_steps pe_log_steps_of(int64_t from, int64_t to, int64_t steps)
{
    const pe_dd log_from = pe_dd_log((pe_dd){ (double)from, 0 });
    return (pe_log_steps){ .from = from,
                           .to = to,
                           .steps = steps,
                           .log_from = log_from,
                           .log_ratio = pe_dd_add(pe_dd_log((pe_dd){ (double)to, 0 }), pe_dd_neg(log_from)) };
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The sign of b ln(n / from) - a ln(to / from), by powers that fit their precision: a and b are at most 53. */
static int compare_powers(const pe_log_steps *s, int64_t n, int64_t a, int64_t b)
{
    enum { BITS = 53 * 53 * 2 + 64 };
    mpfr_t left, right, t;
    mpfr_inits2(BITS, left, right, t, (mpfr_ptr)NULL);
    mpfr_set_d(left, (double)n, MPFR_RNDN);
    mpfr_pow_ui(left, left, (unsigned long)b, MPFR_RNDN);
    mpfr_set_d(t, (double)s->from, MPFR_RNDN);
    mpfr_pow_ui(t, t, (unsigned long)a, MPFR_RNDN);
    mpfr_mul(left, left, t, MPFR_RNDN);
    mpfr_set_d(right, (double)s->to, MPFR_RNDN);
    mpfr_pow_ui(right, right, (unsigned long)a, MPFR_RNDN);
    mpfr_set_d(t, (double)s->from, MPFR_RNDN);
    mpfr_pow_ui(t, t, (unsigned long)b, MPFR_RNDN);
    mpfr_mul(right, right, t, MPFR_RNDN);
    const int sign = mpfr_cmp(left, right);
    mpfr_clears(left, right, t, (mpfr_ptr)NULL);
    return (sign > 0) - (sign < 0);
}

/* The same where the two are known to differ: with more bits until the difference stands out of its error. */
static int compare_logs(const pe_log_steps *s, int64_t n, int64_t a, int64_t b)
{
    int sign = 0;
    for (mpfr_prec_t bits = 192; !sign; bits *= 2) {
        mpfr_t from, left, right;
        mpfr_inits2(bits, from, left, right, (mpfr_ptr)NULL);
        mpfr_set_d(from, (double)s->from, MPFR_RNDN);
        mpfr_log(from, from, MPFR_RNDN);
        mpfr_set_d(left, (double)n, MPFR_RNDN);
        mpfr_log(left, left, MPFR_RNDN);
        mpfr_sub(left, left, from, MPFR_RNDN);
        mpfr_mul_d(left, left, (double)b, MPFR_RNDN);
        mpfr_set_d(right, (double)s->to, MPFR_RNDN);
        mpfr_log(right, right, MPFR_RNDN);
        mpfr_sub(right, right, from, MPFR_RNDN);
        mpfr_mul_d(right, right, (double)a, MPFR_RNDN);
        mpfr_sub(left, left, right, MPFR_RNDN);
        /* logarithms are below 2^6, a and b below 2^53: the error is below 2^(53 + 6 + 4 - bits) */
        if (mpfr_cmpabs_ui(left, 0) && mpfr_get_exp(left) > 64 - (mpfr_exp_t)bits)
            sign = mpfr_sgn(left) < 0 ? -1 : 1;
        mpfr_clears(from, left, right, (mpfr_ptr)NULL);
    }
    mpfr_free_cache();
    return sign;
}

/* The sign of x(n) - j, n > from. With a / b = j / steps in lowest terms, x(n) = j says (n / from)^b = (to / from)^a. Then
 * the numerator of n / from is an a-th power and that of to / from a b-th power, both of the same number, which is at
 * least 2: in numbers up to 2^53, a and b are at most 53. */
static int compare(const pe_log_steps *s, int64_t n, int64_t j)
{
    const int64_t divisor = common_divisor(j, s->steps), a = j / divisor, b = s->steps / divisor;
    return a <= 53 && b <= 53 ? compare_powers(s, n, a, b) : compare_logs(s, n, a, b);
}

/* floor(x(n)); *whole says whether x is that number. */
static int64_t whole_steps(const pe_log_steps *s, int64_t n, bool *whole)
{
    *whole = n <= s->from || !s->steps;
    if (*whole)
        return 0;
    const pe_dd along = pe_dd_add(pe_dd_log((pe_dd){ (double)n, 0 }), pe_dd_neg(s->log_from));
    const pe_dd x = pe_dd_div(pe_dd_times(along, (double)s->steps), s->log_ratio);
    const double nearest = rint(x.hi), off = (x.hi - nearest) + x.lo;
    /* each of the logarithms is right to 2^-84; 2^-80 leaves room */
    if (fabs(off) > ((double)s->steps + x.hi) * 0x1p-80 / s->log_ratio.hi)
        return (int64_t)nearest - (off < 0);
    const int sign = nearest > 0 ? compare(s, n, (int64_t)nearest) : 1;
    *whole = sign == 0;
    return (int64_t)nearest - (sign < 0);
}

static int64_t steps_below(const pe_log_steps *s, int64_t n)
{
    bool whole;
    return whole_steps(s, n, &whole);
}

int64_t pe_log_steps_ceil(const pe_log_steps *s, int64_t n)
{
    bool whole;
    const int64_t floor = whole_steps(s, n, &whole);
    return floor + !whole;
}

enum { FIRST_NS = 4000 }; /* what it takes to find where a bucket begins */

/* The least n of which x(n) >= j, 0 < j < steps: near what the exponential says, then as x says. */
static int64_t first_of(const pe_log_steps *s, int64_t j)
{
    const pe_dd part = pe_dd_div((pe_dd){ (double)j, 0 }, (pe_dd){ (double)s->steps, 0 });
    int64_t n = (int64_t)pe_dd_exp(pe_dd_add(s->log_from, pe_dd_mul(s->log_ratio, part))).hi;
    while (n < s->to && steps_below(s, n) < j)
        n++;
    while (n > s->from && steps_below(s, n - 1) >= j)
        n--;
    return n;
}

/* ---- the buckets of T5 ---- */

static int64_t per_direction(const pe_buckets *b) { return b->bidirectional ? b->num_buckets / 2 : b->num_buckets; }

void pe_buckets_check(const pe_buckets *b, posenc_error *err)
{
    const int64_t exact = per_direction(b) / 2;
    if (!exact)
        pe_invalid(err, "num_buckets", posenc_text("%lld", (long long)b->num_buckets), "%s",
                   b->bidirectional ? "at least 4 with bidirectional=true" : "at least 2");
    else if (b->max_distance <= exact)
        pe_invalid(err, "max_distance", posenc_text("%lld", (long long)b->max_distance),
                   "at least %lld, over the %lld distances that have a bucket of their own", (long long)exact + 1,
                   (long long)exact);
}

static int64_t thresholds(const pe_buckets *b)
{
    const int64_t n = per_direction(b);
    return n - n / 2 - 1;
}

posenc_cost pe_bucket_map_cost(const pe_buckets *b)
{
    const int64_t n = thresholds(b);
    return (posenc_cost){ .ns = (double)FIRST_NS * (double)(n + 1), .scratch = (uint64_t)(n + 1) * sizeof(int64_t) };
}

posenc_status pe_bucket_map_init(pe_bucket_map *m, const pe_buckets *b, pe_pace *pace, posenc_error *err)
{
    const int64_t n = per_direction(b), exact = n / 2;
    posenc_status st = PE_OK;
    *m = (pe_bucket_map){ .bidirectional = b->bidirectional, .half = n, .exact = exact, .n = thresholds(b) };
    if (!(m->first = malloc((size_t)(m->n + 1) * sizeof *m->first)))
        return pe_no_memory("memory", err);
    const pe_log_steps s = pe_log_steps_of(exact, b->max_distance, n - exact);
    for (int64_t i = 0; i < m->n && !st; i++) {
        m->first[i] = first_of(&s, i + 1);
        st = pe_pace_add(pace, FIRST_NS);
    }
    return st;
}

void pe_bucket_map_fini(pe_bucket_map *m)
{
    free(m->first);
    *m = (pe_bucket_map){ 0 };
}

int64_t pe_bucket(const pe_bucket_map *m, int64_t distance)
{
    const int64_t after = m->bidirectional && distance > 0 ? m->half : 0;
    const int64_t n = distance < 0 ? -distance : m->bidirectional ? distance : 0;
    if (n < m->exact)
        return after + n;
    int64_t low = 0, high = m->n; /* how many buckets begin at n or before */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (m->first[middle] <= n)
            low = middle + 1;
        else
            high = middle;
    }
    return after + m->exact + low;
}
