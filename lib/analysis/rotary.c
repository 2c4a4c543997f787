/* rotary.c - tables of cosines or of sines alone, as rotary positions have them.
 *
 * Fast columns tell their frequency, the amplitude and, together, the position of the first row; with these known each slow
 * column has one unknown, its frequency, which is looked for over all its range. Rows that are no range are placed by the
 * fast columns, whose frequencies a run of regular rows gives. */
#include "analysis/identify.h"

#include "core/elementary.h"

#include <math.h>
#include <string.h>

enum { FIT_ROWS = 2048, NEAR_PLACE = 1 << 13, MOST_PLACE = 1 << 17 };

typedef struct rotary {
    pe_search *s;
    const pe_view *v;
    const char *layout;
    size_t n, rows;     /* pairs; rows that are read */
    double *x;          /* (n, rows) */
    pe_wave *wave;      /* (n) of the regular rows */
    size_t run, length; /* the regular rows: run .. run + length - 1 */
    bool sine;
    double amplitude, noise; /* noise: root of the mean square */
    double *t;               /* (rows) positions */
    double *w, *sigma;       /* (n) */
} rotary;

/* ---- columns ---- */

static bool same(const pe_search *s, const pe_view *v, size_t first, size_t step, size_t apart, size_t n)
{
    const size_t stride = v->rows > 64 ? v->rows / 64 : 1;
    for (size_t r = 0; r < v->rows; r += stride)
        for (size_t i = 0; i < n; i++) {
            const double *x = v->x + r * v->cols + first + i * step;
            if (fabs(x[0] - x[apart]) > 2 * s->allowed)
                return false;
        }
    return true;
}

static bool read_columns(rotary *q)
{
    const pe_view *v = q->v;
    const size_t half = v->cols / 2;
    const bool even = v->cols % 2 == 0 && v->cols >= 2;
    size_t step = 1, apart = 0;
    q->n = v->cols;
    q->layout = "half_unduplicated";
    if (even && same(q->s, v, 0, 1, half, half)) {
        q->layout = "half", q->n = half, apart = half;
    } else if (even && same(q->s, v, 0, 2, 1, half)) {
        q->layout = "interleaved", q->n = half, apart = 1, step = 2;
    }
    q->rows = v->rows;
    while (q->rows > 64 && (q->rows > FIT_ROWS || q->rows * q->n > (size_t)1 << 19))
        q->rows = (q->rows + 1) / 2;
    q->x = pe_scratch(q->s, q->n * q->rows, sizeof *q->x);
    q->wave = pe_scratch(q->s, q->n, sizeof *q->wave);
    q->t = pe_scratch(q->s, v->rows, sizeof *q->t);
    q->w = pe_scratch(q->s, q->n, sizeof *q->w);
    q->sigma = pe_scratch(q->s, q->n, sizeof *q->sigma);
    if (q->s->status)
        return false;
    for (size_t r = 0; r < q->rows; r++)
        for (size_t i = 0; i < q->n; i++) {
            const double *at = v->x + r * v->cols + i * step;
            q->x[i * q->rows + r] = (at[0] + at[apart]) / 2;
        }
    return true;
}

/* ---- regular rows ---- */

static size_t read_waves(rotary *q, size_t run, size_t length)
{
    size_t known = 0, misses = 0;
    memset(q->wave, 0, q->n * sizeof *q->wave);
    for (size_t i = 0; i < q->n && !q->s->status && misses < 4; i++) {
        q->wave[i] = pe_wave_column(q->x + i * q->rows + run, length, q->s->allowed / 2, q->s->grain / 4);
        known += q->wave[i].known;
        misses = q->wave[i].known ? 0 : misses + 1;
        if (!known && i > 4) /* fast columns come first, and they are no waves */
            return 0;
        q->s->status = pe_pace_add(&q->s->pace, (int64_t)length * 80);
    }
    q->run = run, q->length = length;
    return known;
}

/* The longest run of rows where x[r-1] + x[r+1] = c x[r] with one c for each of the fast columns. */
static bool longest_run(const rotary *q, size_t *run, size_t *length)
{
    enum { USED = 6 };
    const size_t use = q->n < USED ? q->n : USED;
    size_t best = 0, from = 0;
    double c[USED] = { 0 };
    for (size_t r = 1; r + 1 < q->rows; r++) {
        bool goes_on = r > from + 1;
        double now[USED];
        for (size_t i = 0; i < use; i++) {
            const double *x = q->x + i * q->rows + r;
            now[i] = x[0] != 0 ? (x[-1] + x[1]) / x[0] : 0;
            goes_on = goes_on && fabs(now[i] * x[0] - c[i] * x[0]) <= 64 * q->s->grain + 1e-6 * q->s->scale;
        }
        if (!goes_on) {
            from = r - 1;
            memcpy(c, now, sizeof c);
        }
        if (r + 2 - from > best && r + 2 - from >= 4)
            best = r + 2 - from, *run = from;
    }
    *length = best;
    return best >= 4;
}

static double median(double *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && v[k] < v[k - 1]; k--) {
            const double t = v[k];
            v[k] = v[k - 1], v[k - 1] = t;
        }
    return v[n / 2];
}

/* ---- the first row's position ---- */

/* The whole t for which every fast wave has the phase that it has. */
static double first_position(rotary *q, const double *w, const size_t *use, size_t nuse, bool sine, double *t)
{
    enum { USED = 12 };
    double re[USED], im[USED], cw[USED], sw[USED], angle[USED], best = -INFINITY;
    for (size_t k = 0; k < nuse; k++) {
        angle[k] = q->wave[use[k]].phase + (sine ? pe_pi.hi / 2 : 0);
        pe_cis(w[use[k]], &cw[k], &sw[k]);
    }
    /* near 0 first, so that of equal ones the nearest is taken */
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int64_t p = 0; p <= MOST_PLACE; p++) {
            double sum = 0;
            for (size_t k = 0; k < nuse; k++) {
                if (p % 1024 == 0)
                    pe_cis(angle[k] - w[use[k]] * (double)(sign * p), &re[k], &im[k]);
                sum += re[k];
                const double s = sign * sw[k], u = re[k] * cw[k] + im[k] * s;
                im[k] = im[k] * cw[k] - re[k] * s;
                re[k] = u;
            }
            if (sum > best + 1e-9)
                best = sum, *t = (double)(sign * p);
            else if (best >= (1 - 1e-9) * (double)nuse) /* every phase is right, and one further it is less so */
                return 1 - best / (double)nuse;
        }
    q->s->status = q->s->status ? q->s->status : pe_pace_add(&q->s->pace, (int64_t)MOST_PLACE * 60);
    return 1 - best / (double)nuse;
}

/* ---- other rows ---- */

/* The whole t whose waves are the row's. */
static double place_row(rotary *q, const double *w, const size_t *use, size_t nuse, size_t r, int64_t most, double *t)
{
    enum { USED = 12 };
    double re[USED], im[USED], cw[USED], sw[USED], best = INFINITY;
    for (size_t k = 0; k < nuse; k++)
        pe_cis(w[use[k]], &cw[k], &sw[k]);
    for (int sign = 1; sign >= (q->sine ? -1 : 1); sign -= 2)
        for (int64_t p = 0; p <= most; p++) {
            double sum = 0;
            for (size_t k = 0; k < nuse; k++) {
                if (p % 1024 == 0)
                    pe_cis(w[use[k]] * (double)(sign * p), &re[k], &im[k]);
                const double off = q->x[use[k] * q->rows + r] - q->amplitude * (q->sine ? im[k] : re[k]);
                sum += off * off;
                const double s = sign * sw[k], u = re[k] * cw[k] - im[k] * s;
                im[k] = im[k] * cw[k] + re[k] * s;
                re[k] = u;
            }
            if (sum < best - 1e-12)
                best = sum, *t = (double)(sign * p);
        }
    q->s->status = q->s->status ? q->s->status : pe_pace_add(&q->s->pace, most * 30);
    return sqrt(best / (double)nuse);
}

/* ---- slow columns ---- */

static double residual(const rotary *q, size_t i, double w, size_t stride, double *slope, double *curve)
{
    double sum = 0, g = 0, h = 0;
    for (size_t r = 0; r < q->rows; r += stride) {
        double c, s;
        pe_cis(w * q->t[r], &c, &s);
        const double want = q->amplitude * (q->sine ? s : c), off = q->x[i * q->rows + r] - want;
        const double d = q->t[r] * q->amplitude * (q->sine ? c : -s);
        sum += off * off, g += off * d, h += d * d;
    }
    if (slope)
        *slope = g, *curve = h;
    return sum;
}

/* The frequency up to `most` that suits some rows of column i best: all rows turn on by one step of it at a time. */
static double search(rotary *q, size_t i, double most)
{
    enum { ROWS = 64, STEPS = 1 << 15 };
    double re[ROWS], im[ROWS], cs[ROWS], sn[ROWS], x[ROWS], far = 1, best = INFINITY, w = 0;
    const size_t n = q->rows < ROWS ? q->rows : ROWS;
    for (size_t k = 0; k < n; k++)
        far = pe_max(far, fabs(q->t[k * q->rows / n]));
    const double step = pe_max(0.15 / far, most / STEPS);
    for (size_t k = 0; k < n; k++) {
        const size_t r = k * q->rows / n;
        x[k] = q->x[i * q->rows + r] / q->amplitude;
        pe_cis(step * q->t[r], &cs[k], &sn[k]);
    }
    const int64_t steps = (int64_t)(most / step) + 1;
    for (int64_t at = 0; at <= steps; at++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) {
            if (at % 512 == 0) /* half a step: at 0 itself nothing says which way is better */
                pe_cis(step * q->t[k * q->rows / n] * ((double)at + 0.5), &re[k], &im[k]);
            const double off = x[k] - (q->sine ? im[k] : re[k]), u = re[k] * cs[k] - im[k] * sn[k];
            sum += off * off;
            im[k] = im[k] * cs[k] + re[k] * sn[k];
            re[k] = u;
        }
        if (sum < best)
            best = sum, w = step * ((double)at + 0.5);
    }
    q->s->status = q->s->status ? q->s->status : pe_pace_add(&q->s->pace, steps * (int64_t)n * 3);
    return w;
}

/* The frequency of column i, which is at most `most`. */
static bool find_frequency(rotary *q, size_t i, double guess, double most)
{
    const double good = 4 * q->noise * q->noise + 16 * q->s->grain * q->s->grain, n = (double)q->rows;
    double g, h, w = guess, sum = residual(q, i, w, 1, &g, &h);
    if (sum > good * n) {
        w = search(q, i, most);
        sum = residual(q, i, w, 1, &g, &h);
    }
    for (int pass = 0; pass < 16 && h > 0; pass++) {
        double g1, h1, step = g / h, now = INFINITY;
        for (int half = 0; half < 5 && !(now < sum); half++, step /= 2)
            now = residual(q, i, w + step, 1, &g1, &h1);
        if (!(now < sum))
            break;
        step *= 2;
        w += step, sum = now, g = g1, h = h1;
        if (fabs(step) < 1e-14 * w)
            break;
    }
    w = fabs(w);
    const double still = residual(q, i, 0, 1, NULL, NULL);
    const double least = pe_max(q->noise, q->s->grain / 64);
    if (still <= sum + 4 * least * least) /* it does not turn at all */
        w = 0, sum = still;
    /* cosines of a hardly turning column: the sensitivity at a distance of sigma, not at 0 */
    const double noise = pe_max(q->noise, q->s->grain / 4) + 1e-17;
    double far2 = 0;
    for (size_t r = 0; r < q->rows; r++)
        far2 += q->t[r] * q->t[r] * q->t[r] * q->t[r] / 4;
    q->w[i] = w;
    q->sigma[i] = h > 0 ? noise / sqrt(h) : 1e300;
    if (!q->sine && far2 > 0)
        q->sigma[i] = pe_min(q->sigma[i], sqrt(noise / q->amplitude / sqrt(far2)));
    return sum <= pe_max(good, q->s->allowed * q->s->allowed / 4) * n;
}

/* ---- requests ---- */

static void emit(void *user, pe_guess *w)
{
    rotary *q = user;
    pe_guess_positions(w, "positions", q->t, q->v->rows);
    if (strcmp(q->layout, "half"))
        pe_guess_text(w, "layout", q->layout);
    pe_try(q->s, w);
    const double best = pe_best(q->s);
    if (!pe_exact_found(q->s) && (best <= 3e-4 * q->s->scale || !(best < INFINITY))) {
        pe_guess_text(w, "compute_dtype", "float32");
        pe_try(q->s, w);
    }
}

/* Whether some rows are waves of these frequencies, but for noise and rounding. */
static bool gives(void *user, const double *w)
{
    enum { ROWS = 24 };
    const rotary *q = user;
    const double most = 6 * q->noise + 1.5 * q->s->grain + 1e-6 * q->s->scale;
    const size_t n = q->rows < ROWS ? q->rows : ROWS;
    for (size_t i = q->n; i-- > 0;) /* scalings differ in slow pairs */
        for (size_t k = n; k-- > 0;) {
            const size_t r = k * (q->rows - 1) / (n > 1 ? n - 1 : 1);
            double c, s;
            pe_cis(w[i] * q->t[r], &c, &s);
            if (fabs(q->x[i * q->rows + r] - q->amplitude * (q->sine ? s : c)) > most)
                return false;
        }
    return true;
}

/* ---- the finder ---- */

/* Whether the columns turn slower and slower, as every ladder and every scaling of one has it; longrope's may step back now
 * and then. */
static bool slower(const rotary *q)
{
    size_t back = 0, seen = 0;
    double last = INFINITY;
    for (size_t i = 0; i < q->n; i++) {
        const pe_wave *at = &q->wave[i];
        if (!at->known)
            continue;
        back += at->w - 6 * at->error > 1.02 * last;
        last = at->w + 6 * at->error;
        seen++;
    }
    return back <= (seen + 7) / 8;
}

/* The step of the ladder of the fast columns: the longest beginning that holds one. */
static size_t fast_ladder(const rotary *q, pe_rungs *rung, size_t *all)
{
    double *w = q->w, *sigma = q->sigma;
    size_t known = 0;
    while (known < q->n && q->wave[known].known)
        known++;
    for (size_t i = 0; i < known; i++)
        w[i] = q->wave[i].w, sigma[i] = q->wave[i].error + 1e-13;
    *all = known;
    for (size_t k = known; k >= 2; k--) {
        bool fine = pe_rungs_fit(w, sigma, 0, k, rung);
        for (size_t i = 0; i < k && fine; i++) {
            const double want = pe_exp(rung->log_first - rung->step * (double)i);
            fine = fabs(want - w[i]) <= 8 * sigma[i] + 1e-6 * want;
        }
        if (fine)
            return k;
    }
    if (known) /* one alone: nothing is known of the others */
        *rung = (pe_rungs){ .log_first = pe_log(w[0]), .step = 0, .first_error = sigma[0] / w[0], .step_error = 1 };
    return known ? 1 : 0;
}

static void try_kind(rotary *q, size_t ladder, size_t known, const pe_rungs *rung)
{
    enum { USED = 12 };
    size_t use[USED], nuse = known < USED ? known : USED;
    double *w = pe_scratch(q->s, q->n, sizeof *w), first = 0;
    if (!w || q->s->status)
        return;
    const double log_first = fabs(rung->log_first) <= 6 * rung->first_error + 1e-6 ? 0 : rung->log_first;
    double step = rung->step;
    if (ladder > 1) { /* a base that people type makes every rung exact */
        const double n = (double)q->n, base = pe_exp(step * n),
                     nice = pe_nice(base, base * (4 * rung->step_error * n + 1e-6));
        if (pe_digits(nice) <= 3)
            step = pe_log(nice) / n;
    }
    for (size_t i = 0; i < q->n; i++)
        w[i] = pe_exp(log_first - step * (double)i);
    for (size_t i = ladder; i < known; i++) /* beyond the ladder: as measured */
        w[i] = q->wave[i].w;
    for (size_t k = 0; k < nuse; k++)
        use[k] = k * known / nuse;
    if (first_position(q, w, use, nuse, q->sine, &first) > 0.02)
        return;
    for (size_t r = 0; r < q->v->rows; r++)
        q->t[r] = first + ((double)r - (double)q->run);
    if (q->length < q->rows)
        for (size_t r = 0; r < q->rows && !q->s->status; r++) {
            if (r >= q->run && r < q->run + q->length)
                continue;
            if (place_row(q, w, use, nuse, r, NEAR_PLACE, &q->t[r]) > 0.002 * q->amplitude &&
                place_row(q, w, use, nuse, r, MOST_PLACE, &q->t[r]) > 0.02 * q->amplitude)
                return;
        }
    /* noise, from the columns that are known; the slow ones among them are known less */
    const size_t sure = ladder > 3 ? ladder : known, nsure = sure < nuse ? sure : nuse;
    double sum = 0;
    for (size_t k = 0; k < nsure; k++) {
        const size_t i = k * sure / nsure;
        sum += residual(q, i, w[i], 1, NULL, NULL);
    }
    q->noise = sqrt(sum / (double)(nsure * q->rows));
    if (q->noise > q->s->allowed)
        return;
    pe_rope_usual(q->s, q->n, ladder > 1 ? pe_exp(step * (double)q->n) : 0, rung->step_error * (double)q->n, q->amplitude,
                  gives, emit, q);
    for (size_t i = 0; i < q->n && !q->s->status && !pe_exact_found(q->s); i++) {
        const double guess = i < 2 || i < known                   ? w[i]
                             : q->w[i - 1] > 0 && q->w[i - 2] > 0 ? q->w[i - 1] * (q->w[i - 1] / q->w[i - 2])
                                                                  : 0;
        double most = i < known ? 1.05 * w[i] + 1e-3 : 1.02 * q->w[i - 1];
        /* the plain ladder first, then what goes on from the two before */
        if (residual(q, i, w[i], 1, NULL, NULL) <=
            (4 * q->noise * q->noise + 16 * q->s->grain * q->s->grain) * (double)q->rows) {
            if (!find_frequency(q, i, w[i], most))
                return;
            if (fabs(q->w[i] - w[i]) <= 6 * q->sigma[i])
                q->sigma[i] = pe_max(q->sigma[i], fabs(q->w[i] - w[i]) / 3);
            continue;
        }
        if (!find_frequency(q, i, guess, most))
            return;
    }
    if (!pe_exact_found(q->s) && !q->s->status)
        pe_rope_kinds(q->s, q->w, q->sigma, q->n, q->amplitude, strcmp(q->layout, "half_unduplicated") != 0, emit, q);
}

void pe_find_rotary(pe_search *s, const pe_view *v, bool regular)
{
    rotary q = { .s = s, .v = v };
    size_t known, run = 0, length = 0;
    if (v->rows < 4 || (!regular && v->rows > 128) || !read_columns(&q))
        return;
    if (regular)
        known = read_waves(&q, 0, q.rows);
    else if (longest_run(&q, &run, &length))
        known = read_waves(&q, run, length);
    else
        return;
    pe_rungs rung;
    const size_t ladder = known && !s->status && slower(&q) ? fast_ladder(&q, &rung, &known) : 0;
    double *amplitudes = ladder ? pe_scratch(s, ladder, sizeof *amplitudes) : NULL;
    if (!amplitudes)
        return;
    for (size_t i = 0; i < ladder; i++)
        amplitudes[i] = q.wave[i].amplitude;
    const double amplitude = median(amplitudes, ladder < 5 ? ladder : 5); /* of slow columns it is hardly known */
    for (int sine = 0; sine < 2 && !s->status && !pe_exact_found(s); sine++) {
        q.sine = sine;
        q.amplitude = fabs(amplitude - 1) < 2e-4 ? 1 : amplitude;
        try_kind(&q, ladder, length && !regular ? ladder : known, &rung);
    }
}
