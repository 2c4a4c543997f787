/* pairs.c - tables that hold a sine beside each cosine: sinusoids in every layout.
 *
 * A pair is a point that turns: its angle at row r is t[r] * w[i], where w is a geometric ladder. Regular rows (t grows by
 * one) give each w at once; of others the angles of slow pairs, which have not gone round, give the ladder's step, and
 * faster pairs follow by unwrapping. */
#include "analysis/identify.h"

#include "core/elementary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_ROWS = 2048, SAMPLE = 48 };

typedef struct pairing { /* columns of pair i: first + i * step, second + i * step */
    size_t first, second, step, pairs;
} pairing;

typedef struct pairs {
    pe_search *s;
    const pe_view *v;
    pairing p;
    size_t n;      /* rows that are read for fits */
    double *a, *b; /* (pairs, n) of the first and the second column of each pair, less `bias` */
    bool *skip;    /* (rows) all zero */
    size_t zeros;  /* rows that are */
    double amplitude, bias;
    pe_reading *reading; /* where what was read goes; NULL: requests are tried */
} pairs;

/* What was found out. */
typedef struct sinusoid {
    bool flip;
    double scale, scale_error; /* the ladder's first rung; 1 where it is that */
    double step, step_error;   /* of its logarithms */
    double *t;                 /* (rows) positions; of rows of zeros NAN */
    int direction;             /* 1, -1: t goes so by ones; 0: it is a list */
} sinusoid;

/* ---- pairs of columns ---- */

/* Mean of the squared lengths where they are equal everywhere, 0 where not. With `bias`: that which makes them equal. */
static double length_of(const pairs *q, const pairing *p, double *bias)
{
    const pe_view *v = q->v;
    const size_t stride = v->rows > SAMPLE ? v->rows / SAMPLE : 1;
    double n = 0, sl = 0, su = 0, slu = 0, suu = 0, b = 0;
    for (int pass = 0; pass < 2; pass++) {
        double least = INFINITY, most = 0, sum = 0;
        n = 0;
        for (size_t r = 0; r < v->rows; r += stride) {
            if (q->skip[r])
                continue;
            const double *row = v->x + r * v->cols;
            for (size_t i = 0; i < p->pairs; i++) {
                const double x = row[p->first + i * p->step] - b, y = row[p->second + i * p->step] - b;
                const double length = x * x + y * y, u = x + y;
                n++, sum += length, sl += length, su += u, slu += length * u, suu += u * u;
                least = pe_min(least, length), most = pe_max(most, length);
            }
        }
        const double mean = n > 0 ? sum / n : 0, slack = 0.03 * mean + 4 * q->s->allowed * sqrt(mean);
        if (n > 0 && mean > 0 && most - mean <= slack && mean - least <= slack) {
            if (bias)
                *bias = b;
            return mean;
        }
        const double var = suu - su * su / pe_max(n, 1);
        if (!bias || pass || !(var > 0))
            return 0;
        b = (slu - sl * su / n) / var / 2;
    }
    return 0;
}

static bool open_pairs(pairs *q, const pairing *p)
{
    const pe_view *v = q->v;
    q->p = *p;
    q->n = v->rows;
    while (q->n > 64 && (q->n > FIT_ROWS || q->n * p->pairs > (size_t)1 << 19))
        q->n = (q->n + 1) / 2;
    q->a = pe_scratch(q->s, p->pairs * q->n, sizeof *q->a);
    q->b = pe_scratch(q->s, p->pairs * q->n, sizeof *q->b);
    if (!q->a || !q->b)
        return false;
    for (size_t r = 0; r < q->n; r++)
        for (size_t i = 0; i < p->pairs; i++) {
            q->a[i * q->n + r] = v->x[r * v->cols + p->first + i * p->step] - q->bias;
            q->b[i * q->n + r] = v->x[r * v->cols + p->second + i * p->step] - q->bias;
        }
    return true;
}

/* ---- positions from angles ---- */

/* The t whose products with the ladder w (n, falling) are the angles; low rungs say about where, high rungs exactly. The
 * value is the root of the mean square of what is left. */
static double decode(const double *angle, const double *w, size_t n, double *t)
{
    double at = 0, left = 0;
    for (size_t i = n; i-- > 0;)
        at += pe_wrap(angle[i] - w[i] * at) / w[i];
    for (size_t i = 0; i < n; i++) {
        const double off = pe_wrap(angle[i] - w[i] * at);
        left += off * off;
    }
    *t = at;
    return sqrt(left / (double)n);
}

/* The same over whole t, where even the lowest rung may have gone round. */
static double decode_whole(pe_search *s, const double *angle, const double *w, size_t n, double *t)
{
    enum { MOST = 1 << 17, USED = 10 };
    size_t use[USED], nuse = n < USED ? n : USED;
    double re[USED], im[USED], cw[USED], sw[USED], best = -INFINITY;
    for (size_t k = 0; k < nuse; k++) {
        use[k] = k * n / nuse;
        pe_cis(w[use[k]], &cw[k], &sw[k]);
    }
    for (int64_t p = -MOST; p <= MOST; p++) {
        double sum = 0;
        for (size_t k = 0; k < nuse; k++) {
            if ((p + MOST) % 1024 == 0)
                pe_cis(angle[use[k]] - w[use[k]] * (double)p, &re[k], &im[k]);
            sum += re[k];
            const double u = re[k] * cw[k] + im[k] * sw[k];
            im[k] = im[k] * cw[k] - re[k] * sw[k];
            re[k] = u;
        }
        if (sum > best)
            best = sum, *t = (double)p;
    }
    s->status = s->status ? s->status : pe_pace_add(&s->pace, (int64_t)MOST * 20);
    double left = 0;
    for (size_t i = 0; i < n; i++) {
        const double off = pe_wrap(angle[i] - w[i] * *t);
        left += off * off;
    }
    return sqrt(left / (double)n);
}

/* A ladder's rungs. */
static void rungs(double log_first, double step, size_t n, double *w)
{
    for (size_t i = 0; i < n; i++)
        w[i] = pe_exp(log_first - step * (double)i);
}

/* ---- requests ---- */

/* A request of `sinusoidal` or `timestep`. odd: NULL for even widths. */
typedef struct wording {
    const char *odd;
    double half, shift, base;
    const char *compute, *form; /* NULL: the default */
} wording;

static void put_ladder(pe_guess *w, const sinusoid *f, const wording *o, double default_shift)
{
    if (o->shift != default_shift)
        pe_guess_real(w, "downscale_freq_shift", o->shift);
    if (o->base != 10000)
        pe_guess_real(w, "max_period", o->base);
    if (f->scale != 1)
        pe_guess_real(w, "scale", f->direction < 0 ? -f->scale : f->scale);
    else if (f->direction < 0)
        pe_guess_text(w, "scale", "-1");
    if (o->compute)
        pe_guess_text(w, "compute_dtype", o->compute);
}

static bool try_sinusoidal(const pairs *q, const sinusoid *f, const wording *o)
{
    pe_guess w = pe_guess_begin(q->s, "sinusoidal");
    const size_t rows = q->v->rows;
    pe_guess_int(&w, "embedding_dim", (int64_t)q->v->cols);
    if (f->direction) {
        pe_guess_int(&w, "num_positions", (int64_t)rows);
        const double first = f->direction * f->t[0];
        if (first != 0)
            pe_guess_int(&w, "offset", (int64_t)first);
    } else {
        pe_guess_positions(&w, "positions", f->t, rows);
    }
    if (q->p.step == 1 && q->p.pairs > 1)
        pe_guess_text(&w, "layout", "split");
    if (f->flip)
        pe_guess_flag(&w, "flip_sin_to_cos", true);
    put_ladder(&w, f, o, 0);
    if (o->odd)
        pe_guess_text(&w, "odd_dim", o->odd);
    if (o->form)
        pe_guess_text(&w, "freq_form", o->form);
    if (q->bias != 0)
        pe_guess_text(&w, "normalize", "patchtst");
    else if (q->amplitude != 1)
        pe_guess_real(&w, "scale_output", q->amplitude);
    for (size_t r = 0; r < rows && q->zeros; r++)
        if (q->skip[r]) {
            pe_guess_int(&w, "padding_idx", (int64_t)f->t[r]);
            break;
        }
    return pe_try(q->s, &w);
}

static bool try_timestep(const pairs *q, const sinusoid *f, const wording *o)
{
    if ((q->p.step != 1 && q->p.pairs > 1) || q->bias != 0 || q->amplitude != 1 || q->zeros || o->form)
        return false;
    pe_guess w = pe_guess_begin(q->s, "timestep");
    pe_guess_int(&w, "embedding_dim", (int64_t)q->v->cols);
    pe_guess_reals(&w, "timesteps", f->t, q->v->rows);
    if (f->flip)
        pe_guess_flag(&w, "flip_sin_to_cos", true);
    sinusoid up = *f;
    up.direction = 0;
    put_ladder(&w, &up, o, 1);
    return pe_try(q->s, &w);
}

/* Descending positions as relative_sinusoidal has them, perhaps clamped at either side. */
static bool try_relative(const pairs *q, const sinusoid *f, const wording *o)
{
    const size_t rows = q->v->rows;
    if (f->flip || f->scale != 1 || q->bias != 0 || q->amplitude != 1 || q->zeros || o->odd || o->shift != 0)
        return false;
    size_t zero = 0;
    while (zero < rows && f->t[zero] != 0)
        zero++;
    if (zero == rows)
        return false;
    const double left = (double)zero, right = (double)(rows - 1 - zero);
    double clamp = 0;
    for (size_t r = 0; r < rows; r++) {
        if (fabs(f->t[r]) > fabs((double)zero - (double)r))
            return false;
        clamp = pe_max(clamp, fabs(f->t[r]));
    }
    pe_guess w = pe_guess_begin(q->s, "relative_sinusoidal");
    pe_guess_int(&w, "embedding_dim", (int64_t)q->v->cols);
    if (!(right > 0)) {
        pe_guess_int(&w, "key_length", (int64_t)rows);
    } else if (left == right) {
        pe_guess_text(&w, "attn_type", "symmetric");
        pe_guess_int(&w, "length", (int64_t)left + 1);
    } else {
        pe_guess_text(&w, "attn_type", "bi");
        pe_guess_int(&w, "key_length", (int64_t)left);
        pe_guess_int(&w, "query_length", (int64_t)right + 1);
    }
    if (clamp < pe_max(left, right))
        pe_guess_int(&w, "clamp_len", (int64_t)clamp);
    if (q->p.step == 2)
        pe_guess_text(&w, "layout", "interleaved");
    if (o->base != 10000)
        pe_guess_real(&w, "max_period", o->base);
    if (o->compute)
        pe_guess_text(&w, "compute_dtype", o->compute);
    if (o->form)
        pe_guess_text(&w, "freq_form", o->form);
    return pe_try(q->s, &w);
}

static bool try_all(const pairs *q, const sinusoid *f, const wording *o)
{
    const bool relative = f->direction <= 0 && try_relative(q, f, o);
    const bool one = !relative && try_sinusoidal(q, f, o);
    const bool two = (!f->direction || q->v->rows <= 64) && try_timestep(q, f, o);
    return relative || one || two;
}

/* Both spellings of float32 steps, where exact angles do not give the last bit. */
static void try_single(const pairs *q, const sinusoid *f, const wording *o)
{
    const double best = pe_best(q->s);
    if (pe_exact_found(q->s) || (best > 3e-4 * q->s->scale && best < INFINITY))
        return;
    wording single = *o;
    single.compute = "float32";
    try_all(q, f, &single);
    single.form = "pow";
    try_all(q, f, &single);
}

/* A ladder's step is base and shift in one: the shortest numbers are the likeliest. */
static void try_bases(const pairs *q, const sinusoid *f, const char *odd, double half)
{
    static const double shifts[] = { 0, 1, 0.5 };
    enum { SINGLES = 3 };
    wording list[16], best[SINGLES];
    size_t n = 0, nbest = 0;
    for (size_t k = 0; k < 3; k++) {
        const double steps = half - shifts[k];
        if (!(steps > 0))
            continue;
        const double base = q->p.pairs > 1 ? pe_exp(f->step * steps) : 10000;
        const double errors[] = { 4 * f->step_error * steps + 1e-13, 4 * f->step_error * steps + 1e-6, 1e-4, 2e-3 };
        for (size_t e = 0; e < 4 && base > 0 && base < 1e100; e++) {
            const double nice = pe_nice(base, errors[e] * base);
            if (e > 1 && (pe_digits(nice) > 2 || errors[1] > errors[e]))
                continue;
            if (n && list[n - 1].base == nice && list[n - 1].shift == shifts[k])
                continue;
            list[n++] = (wording){ .odd = odd, .half = half, .shift = shifts[k], .base = nice };
        }
        if (q->p.pairs == 1)
            break;
    }
    /* the shortest first; 0 steps of the list are left out once done */
    for (size_t done = 0; done < n && !pe_exact_found(q->s) && !q->s->status; done++) {
        size_t at = n;
        for (size_t k = 0; k < n; k++)
            if (list[k].half > 0 && (at == n || pe_digits(list[k].base) < pe_digits(list[at].base)))
                at = k;
        try_all(q, f, &list[at]);
        if (nbest < SINGLES)
            best[nbest++] = list[at];
        list[at].half = 0;
    }
    for (size_t k = 0; k < nbest; k++)
        try_single(q, f, &best[k]);
}

static void try_widths(const pairs *q, const sinusoid *f)
{
    const double d = (double)q->v->cols, floor_half = floor(d / 2);
    if (q->v->cols % 2 == 0) {
        try_bases(q, f, NULL, d / 2);
        return;
    }
    try_bases(q, f, "zero_pad", floor_half);
    if (!pe_exact_found(q->s))
        try_bases(q, f, "sin_extra", d / 2);
    if (!pe_exact_found(q->s))
        try_bases(q, f, "round_up_truncate", floor_half + 1);
}

/* ---- regular rows ---- */

static bool near_whole(double t, double slack) { return fabs(t - rint(t)) <= slack && fabs(t) < 0x1p50; }

/* The ladder under waves that may have aliased at the fast end. */
static bool ladder_of(const double *w, const double *sigma, size_t n, pe_rungs *out, double *clean)
{
    size_t from = n;
    while (from > 0 && w[from - 1] > -3 * sigma[from - 1] && w[from - 1] < 3.0 &&
           (from == n || w[from - 1] >= w[from] - 3 * (sigma[from] + sigma[from - 1])))
        from--;
    memcpy(clean, w, n * sizeof *w);
    if (n == 1 && w[0] > 0) {
        *out = (pe_rungs){ .log_first = pe_log(w[0]), .first_error = sigma[0] / w[0] };
        return true;
    }
    /* the fastest that still turns less than half a turn may be aliased too: the fit must hold there */
    for (; from + 2 <= n; from++) {
        if (!pe_rungs_fit(w, sigma, from, n, out))
            return false;
        bool fine = true;
        for (size_t i = from; i < n; i++) {
            const double want = pe_exp(out->log_first - out->step * (double)i);
            fine = fine && fabs(want - w[i]) <= 6 * sigma[i] + 2e-3 * want;
        }
        if (fine)
            break;
    }
    if (from + 2 > n)
        return false;
    for (size_t i = from; i-- > 0;) {
        const double want = pe_exp(out->log_first - out->step * (double)i);
        clean[i] = want + pe_wrap(w[i] - want);
        if (!pe_rungs_fit(clean, sigma, i, n, out))
            return false;
    }
    return true;
}

static void settle_scale(sinusoid *f, double log_first, double error)
{
    const double first = pe_exp(log_first);
    f->scale_error = first * (4 * error + 1e-12);
    f->scale = fabs(first - 1) <= f->scale_error + 3e-7 ? 1 : pe_nice(first, f->scale_error);
}

/* The amplitude of the pairs that turn, whose roundings are as often up as down; `sure` of it: n values. */
static double amplitude_of(const pairs *q, const pe_wave *wave)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < q->p.pairs; i++)
        if (fabs(wave[i].w) * (double)q->n > 2 * pe_two_pi.hi)
            sum += wave[i].amplitude, n++;
    if (!(n > 0))
        return q->amplitude;
    const double a = sum / n, d = (double)q->v->cols, error = 4 * q->s->grain / sqrt(n * (double)q->n) + 1e-7 * a;
    return fabs(a - 1) < 1e-3 ? 1 : fabs(a * sqrt(d) - 1) * a < error + 1e-5 * a ? 1 / sqrt(d) : pe_nice(a, error);
}

/* Waves of one reading of the pairs: first column the sine, or the cosine. */
static void try_regular(const pairs *q, const pe_wave *wave, bool flip)
{
    const size_t n = q->p.pairs, rows = q->v->rows;
    double *w = pe_scratch(q->s, 4 * n, sizeof *w), *sigma = w + n, *angle = w + 2 * n, *clean = w + 3 * n, sign = 0;
    sinusoid f = { .flip = flip, .t = pe_scratch(q->s, rows, sizeof *f.t) };
    pe_rungs rung;
    if (!w || !f.t)
        return;
    for (size_t i = n / 2; i < n; i++)
        sign += flip ? -wave[i].w : wave[i].w;
    f.direction = sign < 0 ? -1 : 1;
    for (size_t i = 0; i < n; i++) {
        w[i] = f.direction * (flip ? -wave[i].w : wave[i].w);
        sigma[i] = wave[i].error;
        angle[i] = flip ? pe_pi.hi / 2 - wave[i].phase : wave[i].phase;
    }
    if (!ladder_of(w, sigma, n, &rung, clean))
        return;
    f.step = rung.step, f.step_error = rung.step_error;
    settle_scale(&f, rung.log_first, rung.first_error);
    /* a base that people type makes the rungs exact; a wrong guess shows in the angles */
    double t, left = INFINITY;
    rungs(f.scale == 1 ? 0 : rung.log_first, rung.step, n, w);
    left = decode(angle, w, n, &t);
    if (left > 0.05)
        left = decode_whole(q->s, angle, w, n, &t);
    if (left > 0.1 && n > 1)
        return;
    if (q->reading) {
        if (q->reading->pairs == 0 || left < q->reading->left)
            *q->reading = (pe_reading){ .pairs = n,
                                        .interleaved = q->p.step == 2,
                                        .flip = flip,
                                        .first = f.scale,
                                        .first_error = f.scale_error,
                                        .step = f.step,
                                        .step_error = f.step_error,
                                        .t = t,
                                        .direction = f.direction,
                                        .left = left };
        return;
    }
    if (near_whole(t, 0.05)) {
        t = rint(t);
        for (size_t r = 0; r < rows; r++)
            f.t[r] = t + f.direction * (double)r;
        try_widths(q, &f);
        if (f.scale == 1 || (f.direction > 0 && pe_best(q->s) < INFINITY))
            return;
    }
    /* steps that are not 1: moments of a finer or coarser clock */
    const double first = f.scale;
    const int direction = f.direction;
    if (near_whole(t, 0.05) && !near_whole(first, 1e-4))
        return;
    f.scale = 1, f.direction = 0;
    for (size_t r = 0; r < rows; r++)
        f.t[r] = pe_nice((t + direction * (double)r) * first, 1e-6 * first);
    try_widths(q, &f);
}

/* ---- other rows ---- */

/* The ladder's step from slow pairs that have not gone round, then from all: unwrapped from slow to fast. */
static bool step_of(const double *angle, size_t rows, size_t n, double floor_angle, double *sums, double *step)
{
    enum { W, X, Y, XX, XY, NSUMS };
    memset(sums, 0, rows * NSUMS * sizeof *sums);
    double *last = sums + rows * NSUMS; /* (rows) the angle before, unwrapped */
    double *at = last + rows;           /* (rows) its rung */
    double g = 0;
    bool known = false;
    for (size_t i = n; i-- > 0;) {
        for (size_t r = 0; r < rows; r++) {
            double a = angle[i * rows + r], *s = sums + r * NSUMS;
            if (!known && fabs(a) > 1) /* it may have gone round */
                continue;
            if (known && s[W] > 0) {
                const double want = last[r] * pe_exp(g * (at[r] - (double)i));
                a = fabs(want) > 1 ? want + pe_wrap(a - want) : a;
            }
            if (fabs(a) < floor_angle || (s[W] > 0 && (a > 0) != (last[r] > 0)) || (known && !(s[W] > 0)))
                continue;
            last[r] = a, at[r] = (double)i;
            const double weight = a * a, x = (double)i, y = pe_log(fabs(a));
            s[W] += weight, s[X] += weight * x, s[Y] += weight * y, s[XX] += weight * x * x, s[XY] += weight * x * y;
        }
        double top = 0, bottom = 0;
        for (size_t r = 0; r < rows; r++) {
            const double *s = sums + r * NSUMS;
            if (s[W] > 0) {
                top += s[XY] - s[X] * s[Y] / s[W];
                bottom += s[XX] - s[X] * s[X] / s[W];
            }
        }
        if (bottom > 0)
            g = -top / bottom, known = true;
    }
    *step = g;
    return known && g > 0;
}

static void try_irregular(const pairs *q, bool flip)
{
    const size_t n = q->p.pairs, rows = q->n;
    if (n < 3 || rows != q->v->rows)
        return;
    double *angle = pe_scratch(q->s, n * rows, sizeof *angle), *sums = pe_scratch(q->s, 7 * rows, sizeof *sums);
    double *w = pe_scratch(q->s, 2 * n, sizeof *w), *one = w + n;
    sinusoid f = { .flip = flip, .scale = 1, .t = pe_scratch(q->s, rows, sizeof *f.t) };
    if (!angle || !sums || !w || !f.t)
        return;
    for (size_t i = 0; i < n * rows; i++)
        angle[i] = q->skip[i % rows] ? 0 : flip ? pe_atan2(q->b[i], q->a[i]) : pe_atan2(q->a[i], q->b[i]);
    /* some of the rows tell the step */
    const size_t some = rows < SAMPLE ? rows : SAMPLE;
    double *few = pe_scratch(q->s, n * some, sizeof *few);
    for (size_t i = 0; few && i < n * some; i++)
        few[i] = angle[i / some * rows + i % some * rows / some];
    if (!few || !step_of(few, some, n, pe_max(20 * q->s->grain / q->amplitude, 1e-6), sums, &f.step))
        return;
    rungs(0, f.step, n, w);
    double weight = 0, slope = 0, worst = 0;
    for (int pass = 0; pass < 2; pass++) {
        weight = slope = worst = 0;
        for (size_t r = 0; r < rows; r++) {
            for (size_t i = 0; i < n; i++)
                one[i] = angle[i * rows + r];
            if (q->skip[r])
                continue;
            const double left = decode(one, w, n, &f.t[r]);
            if (left > 0.2)
                return;
            worst = pe_max(worst, left);
            for (size_t i = 1; i < n; i++) { /* what the angles say of the step: a = t exp(-g i) */
                const double part = -f.t[r] * w[i] * (double)i;
                slope += part * pe_wrap(one[i] - w[i] * f.t[r]);
                weight += part * part;
            }
        }
        if (weight > 0 && !pass) {
            f.step += slope / weight;
            rungs(0, f.step, n, w);
        }
    }
    f.step_error = weight > 0 ? pe_max(q->s->grain / q->amplitude, 1e-9) / sqrt(weight) + 1e-12 : 1e-6;
    double spare = 0;
    for (size_t r = 0; r < rows; r++)
        if (!q->skip[r])
            f.t[r] = near_whole(f.t[r], 4 * worst + 1e-6) ? rint(f.t[r]) : pe_nice(f.t[r], 4 * worst + 1e-9);
    for (size_t r = 0; r < rows; r++) /* rows of zeros: a position that no other row has */
        if (!q->skip[r] && f.t[r] == spare)
            spare++, r = (size_t)-1;
    for (size_t r = 0; r < rows; r++)
        f.t[r] = q->skip[r] ? spare : f.t[r];
    try_widths(q, &f);
}

/* ---- the finder ---- */

static void try_pairing(pairs *q, const pairing *p, double bias)
{
    const double length = length_of(q, p, bias != 0 ? &q->bias : NULL);
    if (!(length > 0) || (bias == 0 && q->bias != 0))
        return;
    const double amplitude = sqrt(length), d = (double)q->v->cols;
    q->amplitude = fabs(amplitude - 1) < 1e-3             ? 1
                   : fabs(amplitude * sqrt(d) - 1) < 1e-4 ? 1 / sqrt(d)
                                                          : pe_nice(amplitude, 2e-5 * amplitude);
    if (!open_pairs(q, p))
        return;
    pe_wave *wave = pe_scratch(q->s, p->pairs, sizeof *wave);
    if (!wave)
        return;
    bool regular = true;
    for (size_t i = 0; i < p->pairs && regular && !q->s->status; i++) {
        wave[i] = pe_wave_pair(q->a + i * q->n, q->b + i * q->n, q->n, q->skip, q->s->grain / 4);
        regular = wave[i].known;
        q->s->status = pe_pace_add(&q->s->pace, (int64_t)q->n * 40);
    }
    if (regular && q->bias == 0)
        q->amplitude = amplitude_of(q, wave);
    for (int flip = 0; flip < 2 && !q->s->status && !pe_exact_found(q->s); flip++) {
        if (regular)
            try_regular(q, wave, flip);
        else if (!q->reading)
            try_irregular(q, flip);
    }
}

bool pe_read_pairs(pe_search *s, const pe_view *v, pe_reading *out)
{
    pairs q = { .s = s, .v = v, .reading = out, .skip = pe_scratch(s, v->rows, sizeof *q.skip) };
    const size_t h = v->cols / 2;
    const pairing list[] = { { 0, 1, 2, h }, { 0, h, 1, h } };
    *out = (pe_reading){ 0 };
    for (size_t k = 0; k < (h > 1 ? 2 : 1) && h && q.skip && !s->status; k++) {
        pe_reading before = *out;
        try_pairing(&q, &list[k], 0);
        if (before.pairs && before.left <= out->left)
            *out = before;
    }
    return out->pairs > 0;
}

void pe_find_pairs(pe_search *s, const pe_view *v)
{
    pairs q = { .s = s, .v = v, .skip = pe_scratch(s, v->rows, sizeof *q.skip) };
    const size_t d = v->cols, h = d / 2, up = d - h;
    if (d < 2 || v->rows < 2 || !q.skip)
        return;
    for (size_t r = 0; r < v->rows; r++) {
        double most = 0;
        for (size_t c = 0; c < d && most <= s->allowed; c++)
            most = pe_max(most, fabs(v->x[r * d + c]));
        q.skip[r] = most <= s->allowed;
        q.zeros += q.skip[r];
    }
    if (q.zeros > v->rows / 2)
        return;
    const pairing list[] = { { 0, 1, 2, h }, { 0, h, 1, h }, { 0, up, 1, h } };
    const size_t n = d == 2 ? 1 : d % 2 ? 3 : 2;
    for (int bias = 0; bias < 2; bias++)
        for (size_t k = 0; k < n && !s->status && !pe_exact_found(s); k++) {
            if (bias && (q.zeros || pe_best(s) < INFINITY))
                return;
            q.bias = 0;
            try_pairing(&q, &list[k], bias);
        }
}
