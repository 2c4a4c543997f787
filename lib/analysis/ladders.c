/* ladders.c - how rotary frequencies may have come about: a base and what a scaling for long contexts did to them.
 *
 *     r[i] = w[i] / theta^(-i / n)         i = 0 .. n - 1
 *
 * default: r = 1; linear: r = 1 / factor; yarn: r falls from 1 to 1 / factor in a straight line over i, llama3 over the
 * frequency; proportional: w = 0 from some pair on; longrope: any r. The fast pairs of yarn and llama3 keep r = 1, so they
 * tell theta; the rest follows from r. */
#include "analysis/identify.h"

#include "core/elementary.h"
#include "core/number.h"
#include "core/params.h"

#include <math.h>
#include <string.h>

typedef struct ladder {
    pe_search *s;
    const double *w, *sigma;
    size_t n;
    double attention;
    bool lists; /* longrope's lists of divisors are welcome */
    bool pairs; /* every wave stands twice */
    pe_rope_emit *emit;
    void *user;
    double theta, theta_error; /* relative */
    double *down, *error;      /* (n) 1 - r, and its errors */
    double *rung;              /* (n) theta^(-i / n) */
} ladder;

static pe_guess begin(const ladder *l, const char *type, double theta)
{
    pe_guess w = pe_guess_begin(l->s, "rope");
    pe_guess_int(&w, "head_dim", 2 * (int64_t)l->n);
    if (theta != 10000)
        pe_guess_real(&w, "rope_theta", theta);
    if (type)
        pe_guess_text(&w, "rope_type", type);
    return w;
}

/* What yarn derives where nothing is said; a table of another amplitude says so. */
static void put_attention(const ladder *l, pe_guess *w, double derived)
{
    const double known = pe_max(2e-4, l->s->grain / l->s->scale / 4); /* about: its few digits in few bits */
    if (l->attention > 0 && fabs(l->attention - derived) > known * derived)
        pe_guess_real(w, "attention_factor", pe_nice(l->attention, 1e-5 * l->attention));
}

static double slack(const ladder *l, size_t i) { return 5 * l->sigma[i] + 1e-6 * l->w[i]; }

/* The step of the first k rungs where they start from 1; false where they are no ladder. */
static bool from_one(const ladder *l, size_t k, double *step, double *error)
{
    double top = 0, bottom = 0;
    if (fabs(l->w[0] - 1) > slack(l, 0))
        return false;
    for (size_t i = 1; i < k; i++) {
        if (!(l->w[i] > 3 * l->sigma[i]))
            continue;
        const double relative = l->sigma[i] / l->w[i] + 1e-13, weight = 1 / (relative * relative), x = (double)i;
        top -= weight * x * pe_log(l->w[i]);
        bottom += weight * x * x;
    }
    if (!(bottom > 0))
        return false;
    *step = top / bottom;
    *error = 1 / sqrt(bottom);
    for (size_t i = 0; i < k; i++)
        if (fabs(pe_exp(-*step * (double)i) - l->w[i]) > slack(l, i))
            return false;
    return true;
}

/* ---- default, linear ---- */

static void emit_loud(const ladder *l, double theta)
{
    /* longrope's own, sqrt(1 + ln factor / ln original), of short tables whose divisors are 1; few bits hide its digits */
    static const double factors[] = { 32, 16, 8, 4 };
    double numbers[2 + PE_LEN(factors)];
    size_t n = 0;
    for (size_t i = 0; i < PE_LEN(factors); i++) {
        const double own = sqrt(1 + pe_log(factors[i]) / pe_log(4096));
        if (fabs(own - l->attention) <= 3e-4 * own)
            numbers[n++] = own;
    }
    numbers[n++] = pe_nice(l->attention, 1e-5 * l->attention);
    numbers[n++] = l->attention;
    for (size_t i = 0; i < n && !pe_exact_found(l->s); i++) {
        pe_guess w = begin(l, "yarn", theta);
        pe_guess_real(&w, "factor", 1);
        pe_guess_real(&w, "attention_factor", numbers[i]);
        l->emit(l->user, &w);
    }
}

static void emit_plain(const ladder *l, double theta, double first)
{
    if (l->attention > 0 && fabs(l->attention - 1) > 2e-4) { /* larger than 1: yarn with a band that holds every pair */
        emit_loud(l, theta);
        return;
    }
    pe_guess w = begin(l, first < 1 ? "linear" : NULL, theta);
    if (first < 1)
        pe_guess_real(&w, "factor", 1 / first);
    else if (first > 1)
        pe_guess_real(&w, "linear_factor", 1 / first);
    l->emit(l->user, &w);
}

/* The base rounded to what people type, by three measures of how well it is known. */
size_t pe_bases(double base, double relative, double out[3])
{
    const double errors[] = { 4 * relative + 1e-13, 4 * relative + 1e-6, 0 };
    size_t n = 0;
    for (size_t e = 0; e < 3; e++) {
        const double b = errors[e] > 0 ? pe_nice(base, errors[e] * base) : base;
        bool old = false;
        for (size_t k = 0; k < n; k++)
            old = old || out[k] == b;
        if (!old)
            out[n++] = b;
    }
    for (size_t i = 1; i < n; i++) /* the shortest first */
        for (size_t k = i; k > 0 && pe_digits(out[k]) < pe_digits(out[k - 1]); k--) {
            const double b = out[k];
            out[k] = out[k - 1], out[k - 1] = b;
        }
    return n;
}

static bool plain(const ladder *l)
{
    pe_rungs rung;
    double step, error, base[3];
    const bool one = from_one(l, l->n, &step, &error);
    if (one || l->n == 1) {
        const double theta = l->n == 1 ? 10000 : pe_exp(step * (double)l->n);
        const size_t n = pe_bases(theta, l->n == 1 ? 0 : error * (double)l->n, base);
        for (size_t k = 0; k < n && !pe_exact_found(l->s); k++)
            emit_plain(l, base[k], 1);
        /* a base that nobody types may be one that a context-dependent scaling made: theta alpha^(r / (r - 2)) */
        static const double usual[] = { 10000, 500000, 1000000 };
        for (size_t k = 0; k < 3 && l->n > 1 && pe_digits(base[0]) > 4; k++) {
            const double alpha = pe_pow(theta / usual[k], ((double)l->n - 1) / (double)l->n);
            const double nice = pe_nice(alpha, (4 * error * (double)l->n + 1e-6) * alpha);
            if (!(nice > 1) || pe_digits(nice) > 4)
                continue;
            pe_guess w = begin(l, "ntk_alpha", usual[k]);
            pe_guess_real(&w, "alpha", nice);
            l->emit(l->user, &w);
        }
        return true;
    }
    if (!pe_rungs_fit(l->w, l->sigma, 0, l->n, &rung))
        return false;
    for (size_t i = 0; i < l->n; i++)
        if (fabs(pe_exp(rung.log_first - rung.step * (double)i) - l->w[i]) > slack(l, i))
            return false;
    const double first = pe_exp(rung.log_first), factor = 1 / first;
    const double nice = pe_nice(factor, (4 * rung.first_error + 1e-6) * factor);
    const size_t n = pe_bases(pe_exp(rung.step * (double)l->n), rung.step_error * (double)l->n, base);
    /* bare numbers that fall evenly are no proof: both must be numbers that people type */
    if (l->attention == 0 && pe_digits(nice) + pe_digits(base[0]) > (l->lists ? 10 : 4))
        return false;
    if (l->n <= 2 && pe_digits(nice) + pe_digits(base[0]) > 6) /* two numbers give any two frequencies */
        return false;
    for (size_t k = 0; k < n && !pe_exact_found(l->s); k++) {
        emit_plain(l, base[k], 1 / nice);
        if (nice != factor && l->attention > 0 && !pe_exact_found(l->s))
            emit_plain(l, base[k], first);
    }
    return true;
}

/* ---- proportional ---- */

static bool proportional(const ladder *l)
{
    size_t turning = l->n;
    while (turning > 0 && l->w[turning - 1] <= 6 * l->sigma[turning - 1] + 1e-12)
        turning--;
    if (turning == l->n || turning < 2)
        return false;
    pe_rungs rung;
    double base[3];
    if (!pe_rungs_fit(l->w, l->sigma, 0, turning, &rung))
        return false;
    for (size_t i = 0; i < turning; i++)
        if (fabs(pe_exp(rung.log_first - rung.step * (double)i) - l->w[i]) > slack(l, i))
            return false;
    const double factor = pe_exp(-rung.log_first), nice = pe_nice(factor, (4 * rung.first_error + 1e-6) * factor);
    double share = (double)turning / (double)l->n;
    if (floor(share * (double)l->n) != (double)turning)
        share = ((double)turning + 0.5) / (double)l->n;
    const size_t n = pe_bases(pe_exp(rung.step * (double)l->n), rung.step_error * (double)l->n, base);
    for (size_t k = 0; k < n && !pe_exact_found(l->s); k++) {
        pe_guess w = begin(l, "proportional", base[k]);
        pe_guess_real(&w, "partial_rotary_factor", share);
        if (nice != 1)
            pe_guess_real(&w, "factor", nice);
        l->emit(l->user, &w);
    }
    return true;
}

/* ---- yarn, llama3 ---- */

/* Where r falls: a straight line down[i] = slope * x[i] + start between 0 and `depth`. */
typedef struct line {
    double slope, start;
    size_t points;
    bool straight;
} line;

static bool in_band(const ladder *l, size_t i, double depth)
{
    const double margin = 3 * l->error[i] + 1e-3 * depth;
    return l->down[i] >= margin && l->down[i] <= depth - margin;
}

static line fall(const ladder *l, double depth, bool by_frequency)
{
    line f = { 0 };
    double s = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int pass = 0; pass < 2; pass++) {
        f.straight = true;
        for (size_t i = 0; i < l->n; i++) {
            if (!in_band(l, i, depth))
                continue;
            const double x = by_frequency ? l->rung[i] : (double)i;
            if (pass) {
                f.straight = f.straight && fabs(f.slope * x + f.start - l->down[i]) <= 6 * l->error[i] + 2e-5 * depth;
                continue;
            }
            const double weight = 1 / (l->error[i] * l->error[i] + 1e-24);
            s += weight, sx += weight * x, sy += weight * l->down[i];
            sxx += weight * x * x, sxy += weight * x * l->down[i];
            f.points++;
        }
        if (pass)
            break;
        const double det = s * sxx - sx * sx;
        if (f.points < 2 || !(det > 0))
            return f;
        f.slope = (s * sxy - sx * sy) / det;
        f.start = (sxx * sy - sx * sxy) / det;
    }
    return f;
}

static void emit_yarn(const ladder *l, double factor, double original, double fast, double slow, bool truncate)
{
    pe_guess w = begin(l, "yarn", l->theta);
    pe_guess_real(&w, "factor", factor);
    pe_guess_int(&w, "original_max_position_embeddings", (int64_t)original);
    if (fast != 32)
        pe_guess_real(&w, "beta_fast", fast);
    if (slow != 1)
        pe_guess_real(&w, "beta_slow", slow);
    if (!truncate)
        pe_guess_flag(&w, "truncate", false);
    put_attention(l, &w, 0.1 * pe_log(factor) + 1);
    l->emit(l->user, &w);
}

/* The pair that turns `turns` times over a length. */
static double pair_of(const ladder *l, double length, double turns)
{
    return (double)l->n * pe_log(length / (turns * pe_two_pi.hi)) / pe_log(l->theta);
}

/* Whether the band low .. high gives every r. */
static bool band_fits(const ladder *l, double factor, double low, double high)
{
    low = pe_max(low, 0);
    high = pe_min(high, 2 * (double)l->n - 1);
    if (low == high)
        high += 0.001;
    for (size_t i = 0; i < l->n; i++) {
        const double g = pe_min(pe_max(((double)i - low) / (high - low), 0), 1), want = g * (1 - 1 / factor);
        if (fabs(want - l->down[i]) > 6 * l->error[i] + 2e-5)
            return false;
    }
    return true;
}

static void yarn(const ladder *l, double factor)
{
    const double depth = 1 - 1 / factor;
    for (double original = 8; original <= 0x1p22; original *= 2)
        for (int truncate = 1; truncate >= 0; truncate--) {
            const double low = pair_of(l, original, 32), high = pair_of(l, original, 1);
            if (band_fits(l, factor, truncate ? floor(low) : low, truncate ? ceil(high) : high))
                emit_yarn(l, factor, original, 32, 1, truncate);
        }
    if (pe_best(l->s) < INFINITY)
        return;
    const line f = fall(l, depth, false);
    if (f.points < 2 || !f.straight || !(f.slope > 0))
        return;
    double low = -f.start / f.slope, high = low + depth / f.slope;
    const bool whole = fabs(low - rint(low)) < 0.02 && fabs(high - rint(high)) < 0.02;
    /* any length and ends that round to this band are the same table; slow = 1 first */
    for (int truncate = whole; truncate >= 0; truncate--) {
        const double at_high = truncate ? rint(high) - 0.5 : high, at_low = truncate ? rint(low) + 0.5 : low;
        const double original = rint(pe_two_pi.hi * pe_pow(l->theta, at_high / (double)l->n));
        if (!(original >= 1 && original < 1e15))
            continue;
        const double slow = truncate ? 1
                                     : pe_nice(original / pe_two_pi.hi * pe_pow(l->theta, -at_high / (double)l->n), 1e-4);
        const double fast = original / pe_two_pi.hi * pe_pow(l->theta, -at_low / (double)l->n);
        emit_yarn(l, factor, original, pe_nice(fast, (truncate ? 1e-3 : 1e-5) * fast), slow, truncate);
        if (!truncate && slow == 1)
            emit_yarn(l, factor, original, fast, slow, truncate);
    }
}

/* Whether these give every r. */
static bool llama3_fits(const ladder *l, double factor, double original, double low, double high)
{
    for (size_t i = 0; i < l->n; i++) {
        const double turns = original / pe_two_pi.hi * l->rung[i];
        const double smooth = pe_min(pe_max((turns - low) / (high - low), 0), 1);
        if (fabs((1 - smooth) * (1 - 1 / factor) - l->down[i]) > 6 * l->error[i] + 2e-5)
            return false;
    }
    return true;
}

static void emit_llama3(const ladder *l, double factor, double original, double low, double high)
{
    if (!llama3_fits(l, factor, original, low, high))
        return;
    pe_guess w = begin(l, "llama3", l->theta);
    pe_guess_real(&w, "factor", factor);
    pe_guess_int(&w, "original_max_position_embeddings", (int64_t)original);
    if (low != 1)
        pe_guess_real(&w, "low_freq_factor", low);
    if (high != 4)
        pe_guess_real(&w, "high_freq_factor", high);
    l->emit(l->user, &w);
}

static void llama3(const ladder *l, double factor)
{
    const double depth = 1 - 1 / factor;
    const line f = fall(l, depth, true);
    if (l->attention > 0 && fabs(l->attention - 1) > 2e-4)
        return;
    if (f.points == 1) { /* one pair between: a length that models have, and the factor that gives it */
        size_t i = 0;
        while (!in_band(l, i, depth))
            i++;
        for (double original = 512; original <= 0x1p20 && !pe_exact_found(l->s); original *= 2) {
            const double turns = original / pe_two_pi.hi * l->rung[i];
            const double high = 1 + (turns - 1) / (1 - l->down[i] / depth);
            if (turns > 1 && high < 1e6)
                emit_llama3(l, factor, original, 1, pe_nice(high, 1e-4 * high));
        }
        return;
    }
    if (!f.points) { /* a sharp edge: what the released ones have */
        for (double original = 512; original <= 65536; original *= 2)
            emit_llama3(l, factor, original, 1, 4);
        return;
    }
    if (!f.straight || !(f.slope < 0))
        return;
    /* down = depth (1 - (original w / 2 pi - low) / (high - low)): low is free, for original and high follow it */
    static const double lows[] = { 1, 2, 4, 0.5, 0.25, 8, 1.5, 3 };
    for (size_t k = 0; k < sizeof lows / sizeof lows[0] && !pe_exact_found(l->s); k++) {
        const double low = lows[k], per = -f.slope / depth, high_less_low = low / (f.start / depth - 1);
        double original = per * high_less_low * pe_two_pi.hi;
        if (!(high_less_low > 0) || !(original >= 1 && original < 1e15))
            continue;
        /* lengths are powers of two where the noise allows one; then the factor of short waves follows */
        double power = 1;
        while (power < 0.75 * original)
            power *= 2;
        const double lengths[] = { power, rint(original) }, high = low + high_less_low;
        for (size_t i = 0; i < 2 && !pe_exact_found(l->s); i++) {
            const double of = low + lengths[i] / (per * pe_two_pi.hi);
            const double highs[] = { pe_nice(high, 0.05 * high), pe_nice(of, 2e-4 * of), of };
            for (size_t h = 0; h < 3 && !pe_exact_found(l->s); h++)
                emit_llama3(l, factor, lengths[i], low, highs[h]);
        }
        if (pe_best(l->s) < INFINITY) /* another low would be the same table */
            return;
    }
}

/* 1 / factor, where the slowest pairs agree on it; its error in `error`. 0: they do not. */
static double plateau(const ladder *l, double *error)
{
    double weight = 0, sum = 0;
    size_t n = 0;
    for (size_t i = l->n; i-- > 0;) {
        const double r = 1 - l->down[i], w = 1 / (l->error[i] * l->error[i]);
        if (n && fabs(r - sum / weight) > 6 * (l->error[i] + 1 / sqrt(weight)))
            break;
        weight += w, sum += w * r;
        n++;
    }
    *error = 1 / sqrt(weight);
    return n >= 2 ? sum / weight : 0;
}

/* The scalings that theta leaves possible. */
static void try_theta(ladder *l, double theta)
{
    double factors[10], error;
    size_t n = 0;
    l->theta = theta;
    for (size_t i = 0; i < l->n; i++) {
        const double rung = l->rung[i] = pe_pow(theta, -(double)i / (double)l->n);
        l->down[i] = 1 - l->w[i] / rung;
        l->error[i] = l->sigma[i] / rung + 3e-7;
    }
    const double r = plateau(l, &error);
    if (r > 4 * error && r < 1) {
        const double nice = pe_nice(1 / r, (4 * error + 1e-6) / (r * r));
        if (nice > 1)
            factors[n++] = nice;
    }
    static const double usual[] = { 2, 4, 8, 16, 32, 40, 64, 128 };
    const bool sure = n && error < 1e-4 * r;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && !sure; i++)
        factors[n++] = usual[i];
    for (size_t i = 0; i < n && !pe_exact_found(l->s) && !l->s->status; i++) {
        yarn(l, factors[i]);
        if (!pe_exact_found(l->s))
            llama3(l, factors[i]);
    }
}

static void scaled(ladder *l)
{
    /* the most pairs that keep the ladder */
    size_t low = 1, high = l->n;
    double step = 0, error = 0, base[3], s1, e1;
    while (low < high) {
        const size_t k = (low + high + 1) / 2;
        if (from_one(l, k, &s1, &e1))
            low = k, step = s1, error = e1;
        else
            high = k - 1;
    }
    if (low >= 3 || (low == 2 && l->attention > 0)) {
        const size_t n = pe_bases(pe_exp(step * (double)l->n), error * (double)l->n, base);
        for (size_t k = 0; k < n && !pe_exact_found(l->s) && !l->s->status; k++)
            if (base[k] > 1 && !(k && pe_digits(base[0]) <= 3 && pe_best(l->s) < INFINITY))
                try_theta(l, base[k]);
    }
    /* a band that begins with the first pair leaves no ladder to read */
    static const double usual[] = { 10000, 500000, 1000000, 100, 150000, 50000 };
    for (size_t k = 0; k < sizeof usual / sizeof usual[0] && !(pe_best(l->s) < INFINITY); k++)
        if (fabs(l->w[0] - 1) <= slack(l, 0))
            try_theta(l, usual[k]);
}

/* ---- longrope ---- */

/* Whether theta makes the divisors such as longrope has them, hardly below 1 and growing; `brief`: and most of them short
 * numbers. They are written to f. */
static bool divisors(const ladder *l, double theta, bool brief, double *f)
{
    size_t nice = 0, falls = 0, bad = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->sigma[i] > 0.05 * l->w[i]) { /* too slow to tell: as the one before */
            f[i] = i ? f[i - 1] : 1;
            nice++;
            continue;
        }
        const double v = pe_pow(theta, -(double)i / (double)l->n) / l->w[i], error = 4 * l->sigma[i] / l->w[i] + 3e-7;
        if (!(v > 0.99 - error && v < 1000))
            return false;
        f[i] = pe_nice(v, error * v);
        nice += pe_digits(f[i]) <= 4;
        falls += i && f[i] < (0.99 - error) * f[i - 1];
        bad = brief ? i + 1 - nice : 0;
        if (falls > l->n / 8 || bad * 5 > l->n)
            return false;
    }
    return true;
}

static void emit_longrope(const ladder *l, double theta, const double *f)
{
    pe_guess w = begin(l, "longrope", theta);
    pe_guess_reals(&w, "short_factor", f, l->n);
    pe_guess_reals(&w, "long_factor", f, l->n);
    pe_guess_int(&w, "original_max_position_embeddings", 4096);
    pe_guess_real(&w, "factor", 1);
    put_attention(l, &w, 1);
    l->emit(l->user, &w);
}

/* A list of divisors explains any list of frequencies: what makes one likely is a base that people type, and divisors that
 * grow. Divisors of many digits are believed of a table that holds every wave twice. */
static void longrope(const ladder *l)
{
    enum { MANY = 6 };
    static const double usual[] = { 500000, 1000000, 10000 };
    double *f = l->n >= MANY ? pe_scratch(l->s, l->n, sizeof *f) : NULL; /* a few divisors are always short for some base */
    for (int64_t k = -3; k < 90 * 6 && f && !l->s->status && !(pe_best(l->s) < INFINITY); k++) {
        const double theta = k < 0 ? usual[k + 3] : (double)(10 + k % 90) * pe_decimal(1, (int)(k / 90));
        if (divisors(l, theta, true, f))
            emit_longrope(l, theta, f);
    }
    for (size_t k = 3; k-- > 0 && f && l->pairs && !(pe_best(l->s) < INFINITY);)
        if (divisors(l, usual[k], false, f))
            emit_longrope(l, usual[k], f);
}

static void kinds(pe_search *s, const double *w, const double *sigma, size_t n, double attention, bool pairs,
                  pe_rope_emit *emit, void *user, bool lists)
{
    ladder l = { .s = s,
                 .w = w,
                 .sigma = sigma,
                 .n = n,
                 .attention = attention,
                 .lists = lists,
                 .pairs = pairs,
                 .emit = emit,
                 .user = user,
                 .down = pe_scratch(s, n, sizeof *l.down),
                 .error = pe_scratch(s, n, sizeof *l.error),
                 .rung = pe_scratch(s, n, sizeof *l.rung) };
    if (s->status)
        return;
    if (plain(&l) && pe_best(s) < INFINITY)
        return;
    if (proportional(&l) && pe_best(s) < INFINITY)
        return;
    scaled(&l);
    if (lists && !(pe_best(s) < INFINITY))
        longrope(&l);
}

void pe_rope_kinds(pe_search *s, const double *w, const double *sigma, size_t n, double attention, bool pairs,
                   pe_rope_emit *emit, void *user)
{
    kinds(s, w, sigma, n, attention, pairs, emit, user, true);
}

/* ---- what released models have ---- */

typedef struct released {
    ladder l;
    pe_rope_gives *gives;
    double *w; /* (n) */
} released;

static bool done(const released *u) { return pe_exact_found(u->l.s) || u->l.s->status; }

static void usual_plain(released *u, double theta)
{
    static const double factors[] = { 1, 2, 4, 8, 16, 32 };
    for (size_t k = 0; k < PE_LEN(factors) && !done(u); k++) {
        for (size_t i = 0; i < u->l.n; i++)
            u->w[i] = u->l.rung[i] / factors[k];
        if (u->gives(u->l.user, u->w))
            emit_plain(&u->l, theta, 1 / factors[k]);
    }
}

/* Divisors that rise from 1 to the factor, over the pairs or over the frequencies. */
static void usual_scaled(released *u, double factor, double original)
{
    const ladder *l = &u->l;
    for (int truncate = 1; truncate >= 0 && !done(u); truncate--) {
        double low = pair_of(l, original, 32), high = pair_of(l, original, 1);
        low = pe_max(truncate ? floor(low) : low, 0);
        high = pe_min(truncate ? ceil(high) : high, 2 * (double)l->n - 1);
        high += low == high ? 0.001 : 0;
        for (size_t i = 0; i < l->n; i++)
            u->w[i] = l->rung[i] * (1 - pe_min(pe_max(((double)i - low) / (high - low), 0), 1) * (1 - 1 / factor));
        if (u->gives(l->user, u->w))
            emit_yarn(l, factor, original, 32, 1, truncate);
    }
    for (int sharp = 0; sharp < 2 && fabs(l->attention - 1) <= 2e-4 && !done(u); sharp++) {
        for (size_t i = 0; i < l->n; i++) {
            const double turns = original / pe_two_pi.hi * l->rung[i];
            const double smooth = sharp ? turns >= 1 : pe_min(pe_max((turns - 1) / 3, 0), 1);
            u->w[i] = l->rung[i] * (1 - (1 - smooth) * (1 - 1 / factor));
        }
        if (!u->gives(l->user, u->w))
            continue;
        pe_guess w = begin(l, "llama3", l->theta);
        pe_guess_real(&w, "factor", factor);
        pe_guess_int(&w, "original_max_position_embeddings", (int64_t)original);
        if (sharp)
            pe_guess_real(&w, "high_freq_factor", 1);
        l->emit(l->user, &w);
    }
}

void pe_rope_usual(pe_search *s, size_t n, double base, double relative, double attention, pe_rope_gives *gives,
                   pe_rope_emit *emit, void *user)
{
    static const double typed[] = { 10000, 500000, 1000000, 150000, 50000 };
    static const double factors[] = { 8, 32, 4, 40, 16, 2, 64, 128 };
    double theta[3 + PE_LEN(typed)];
    size_t nt = base > 1 ? pe_bases(base, relative, theta) : 0;
    for (size_t k = 0; k < PE_LEN(typed); k++)
        theta[nt++] = typed[k];
    released u = { .l = { .s = s, .n = n, .attention = attention, .emit = emit, .user = user, .rung = pe_scratch(s, n, 8) },
                   .gives = gives,
                   .w = pe_scratch(s, n, sizeof(double)) };
    for (int scaled = 0; scaled < 2; scaled++)
        for (size_t k = 0; k < nt && !done(&u); k++) {
            u.l.theta = theta[k];
            for (size_t i = 0; i < n; i++)
                u.l.rung[i] = pe_pow(theta[k], -(double)i / (double)n);
            if (!scaled) {
                usual_plain(&u, theta[k]);
                continue;
            }
            for (size_t f = 0; f < PE_LEN(factors) && !done(&u); f++)
                for (double original = 2048; original <= 65536 && !done(&u); original *= 2)
                    usual_scaled(&u, factors[f], original);
        }
}

/* ---- the frequencies themselves ---- */

static void emit_bare(void *user, pe_guess *w)
{
    pe_search *s = user;
    pe_try(s, w);
    if (!pe_exact_found(s)) {
        pe_guess single = pe_guess_begin(s, w->encoding);
        if (!single.text || !w->text)
            return;
        single = *w;
        single.cap = w->n + 1; /* the words so far are shared: more of them are written elsewhere */
        pe_guess_text(&single, "compute_dtype", "float32");
        pe_try(s, &single);
    }
}

void pe_find_inv_freq(pe_search *s, const double *x, size_t n)
{
    static const double relative[PE_NDTYPES] = {
        [PE_float32] = 3e-7, [PE_float64] = 3e-9, [PE_float16] = 6e-4, [PE_bfloat16] = 5e-3
    };
    double *sigma = pe_scratch(s, n, sizeof *sigma);
    if (!sigma || n < 4)
        return;
    for (size_t i = 0; i < n; i++) {
        if (x[i] < -s->allowed || x[i] > x[0] + 2 * s->allowed)
            return;
        sigma[i] = relative[s->dtype] * fabs(x[i]) / 3 + (s->dtype == PE_float16 ? 3e-8 : 1e-30);
    }
    if (!(x[0] > 0) || n < 2)
        return;
    /* scalings have many numbers: without noise they must give every digit */
    const double allowed = s->allowed;
    s->allowed = pe_min(allowed, 8 * relative[s->dtype] * s->scale);
    if (x[n - 1] >= 0)
        pe_rope_kinds(s, x, sigma, n, 0, false, emit_bare, s);
    s->allowed = allowed;
    if (pe_best(s) < INFINITY)
        return;
    /* a little noise: a base and a band of known shape, still far more numbers than parameters */
    for (double noise = 1e-6; noise < 1e-4 && n >= 12 && !s->status; noise *= 10) {
        for (size_t i = 0; i < n; i++)
            sigma[i] = noise * s->scale;
        s->allowed = 5 * noise * s->scale;
        kinds(s, x, sigma, n, 0, false, emit_bare, s, false);
        s->allowed = allowed;
        if (pe_best(s) < INFINITY)
            return;
    }
    /* more: only a plain ladder that starts from 1 is plain enough */
    for (size_t i = 0; i < n; i++)
        sigma[i] = s->allowed / 6;
    if (fabs(x[0] - 1) > s->allowed)
        return;
    double step, error;
    double base[3];
    const ladder l = { .s = s, .w = x, .sigma = sigma, .n = n, .emit = emit_bare, .user = s };
    if (!from_one(&l, n, &step, &error))
        return;
    const size_t nb = pe_bases(pe_exp(step * (double)n), error * (double)n / 4, base);
    for (size_t k = 0; k < nb; k++)
        emit_plain(&l, base[k], 1);
}
