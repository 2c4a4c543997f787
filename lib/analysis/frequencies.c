/* frequencies.c - how fast each pair of channels turns, or each channel swings: local or global, and finished or not.
 *
 * Pairs: the angle per position, from the numbers (pairing.c). Tables without pairs (learned ones): the peak of each
 * channel's power spectrum; its mean is taken away, a Hann window laid over it, and the transform is of at least twice as
 * many points; a parabola through the logarithms of the peak and its neighbours places it between bins. */
#include "analysis/analysis.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRAIN,
    LENGTH,
    METHOD,
    SHORTEST,
    LONGEST,
    UNFINISHED,
    CHANNEL,
    FREQUENCY,
    WAVELENGTH,
    IN_TRAINING,
    IN_LENGTH,
    EXPLAINED,
    BEFORE,
    RULE
};
enum { CHANNELS };

static const char *const methods[] = { "pairs", "spectrum", NULL };
typedef enum rule { KEPT, INTERPOLATED, CHANGED } rule;
static const char *const rules[] = { "kept", "divided_most", "between", NULL };

static const pe_field fields[] = {
    [TRAIN] = { .name = "train_length", .unit = "positions", .kind = PE_F_WHOLE, .doc = "as asked" },
    [LENGTH] = { .name = "test_length", .unit = "positions", .kind = PE_F_WHOLE, .doc = "as asked" },
    [METHOD] = { .name = "method",
                 .kind = PE_F_WORD,
                 .words = methods,
                 .doc = "pairs: the turning of pairs of channels; spectrum: the peak of each channel's power spectrum" },
    [SHORTEST] = { .name = "shortest_wavelength", .unit = "positions", .doc = "of all" },
    [LONGEST] = { .name = "longest_wavelength", .unit = "positions", .doc = "of all that move" },
    [UNFINISHED] = { .name = "unfinished",
                     .kind = PE_F_WHOLE,
                     .doc = "how many finish no period within train_length: positions beyond it show them new values" },
    [CHANNEL] = { .name = "channel",
                  .kind = PE_F_WHOLE,
                  .axis = { 1 + CHANNELS },
                  .doc = "the first channel of the pair, or the channel" },
    [FREQUENCY] = { .name = "frequency", .unit = "rad/position", .axis = { 1 + CHANNELS }, .doc = "magnitude" },
    [WAVELENGTH] = { .name = "wavelength",
                     .unit = "positions",
                     .axis = { 1 + CHANNELS },
                     .doc = "2 pi / frequency; null where it stands still" },
    [IN_TRAINING] = { .name = "periods_in_training", .axis = { 1 + CHANNELS }, .doc = "train_length / wavelength" },
    [IN_LENGTH] = { .name = "periods_in_test", .axis = { 1 + CHANNELS }, .doc = "test_length / wavelength" },
    [EXPLAINED] = { .name = "explained",
                    .axis = { 1 + CHANNELS },
                    .doc =
                        "share of the motion (pairs) or of the variance (spectrum) that the one frequency explains: 1 all" },
    [BEFORE] = { .name = "frequency_before",
                 .unit = "rad/position",
                 .axis = { 1 + CHANNELS },
                 .doc = "of a scaled rope: without its scaling; otherwise null" },
    [RULE] = { .name = "rule",
               .kind = PE_F_WORD,
               .words = rules,
               .axis = { 1 + CHANNELS },
               .doc = "of a scaled rope: kept, divided as much as any (interpolated), or between; otherwise null" },
};

enum { MOST_ROWS = 4096 };

static int64_t points_of(int64_t n)
{
    int64_t m = 16;
    while (m < 2 * (n < MOST_ROWS ? n : MOST_ROWS))
        m *= 2;
    return m;
}

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    size[CHANNELS] = a->subject.kind == PE_ROTARY ? a->subject.d / 2 : a->subject.d;
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const double m = (double)points_of(a->subject.n);
    (void)size;
    *out = (posenc_cost){ .ns = (double)a->subject.d * m * 60, .scratch = (uint64_t)m * 4 * sizeof(double) };
}

/* ---- the spectrum of one channel ---- */

typedef struct transform {
    int64_t m;
    double *re, *im, *cosine, *sine; /* (m), (m), (m/2), (m/2) */
} transform;

static void transform_begin(transform *t, int64_t m, double *storage)
{
    *t = (transform){ m, storage, storage + m, storage + 2 * m, storage + 2 * m + m / 2 };
    for (int64_t i = 0; i < m / 2; i++) {
        const pe_dd angle = pe_dd_times(pe_two_pi, (double)i / (double)m);
        pe_sincos(&angle, 1, &t->sine[i], &t->cosine[i]);
    }
}

/* In place, radix 2. */
static void transform_run(transform *t)
{
    const int64_t m = t->m;
    for (int64_t i = 1, j = 0; i < m; i++) {
        int64_t bit = m >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            const double re = t->re[i], im = t->im[i];
            t->re[i] = t->re[j];
            t->im[i] = t->im[j];
            t->re[j] = re;
            t->im[j] = im;
        }
    }
    for (int64_t len = 2; len <= m; len *= 2)
        for (int64_t i = 0; i < m; i += len)
            for (int64_t k = 0; k < len / 2; k++) {
                const double c = t->cosine[k * (m / len)], s = -t->sine[k * (m / len)];
                const int64_t a = i + k, b = a + len / 2;
                const double re = t->re[b] * c - t->im[b] * s, im = t->re[b] * s + t->im[b] * c;
                t->re[b] = t->re[a] - re;
                t->im[b] = t->im[a] - im;
                t->re[a] += re;
                t->im[a] += im;
            }
}

static double power(const transform *t, int64_t k) { return t->re[k] * t->re[k] + t->im[k] * t->im[k]; }

/* Frequency of the peak; `explained`: the share of power within its lobe. 0 and 1 for a channel that stands still. */
static double peak_of(transform *t, const pe_subject *s, int64_t n, int64_t channel, double *explained)
{
    double mean = 0, all = 0, lobe = 0, size = 0;
    for (int64_t p = 0; p < n; p++) {
        mean += s->table[p * s->d + channel];
        size = pe_max(size, fabs(s->table[p * s->d + channel]));
    }
    mean /= (double)n;
    memset(t->re, 0, (size_t)t->m * 2 * sizeof *t->re); /* re and im are neighbours */
    for (int64_t p = 0; p < n; p++) {
        const double at = ((double)p + 0.5) / (double)n * (double)t->m; /* Hann: by the table of cosines, linear between */
        const int64_t i = (int64_t)at;
        const double c = (i < t->m / 2 ? t->cosine[i] : -t->cosine[i - t->m / 2]);
        t->re[p] = (s->table[p * s->d + channel] - mean) * (0.5 - 0.5 * c);
    }
    transform_run(t);
    int64_t best = 1;
    const int64_t width = 2 * ((t->m + n - 1) / n);
    for (int64_t k = 1; k <= t->m / 2; k++) {
        all += power(t, k);
        best = power(t, k) > power(t, best) ? k : best;
    }
    *explained = 1;
    if (!(all > 1e-24 * size * size * (double)n))
        return 0;
    for (int64_t k = best - width < 1 ? 1 : best - width; k <= best + width && k <= t->m / 2; k++)
        lobe += power(t, k);
    *explained = lobe / all;
    double shift = 0;
    if (best > 1 && best < t->m / 2) {
        const double a = pe_log(power(t, best - 1) + 1e-300), b = pe_log(power(t, best) + 1e-300),
                     c = pe_log(power(t, best + 1) + 1e-300), curve = a - 2 * b + c;
        shift = curve < 0 ? pe_max(-0.5, pe_min(0.5, 0.5 * (a - c) / curve)) : 0;
    }
    return pe_two_pi.hi * ((double)best + shift) / (double)t->m;
}

static posenc_status by_spectrum(const pe_subject *s, double *w, double *explained, pe_pace *pace, posenc_error *err)
{
    const int64_t n = s->n < MOST_ROWS ? s->n : MOST_ROWS, m = points_of(s->n);
    double *storage = malloc((size_t)(3 * m) * sizeof *storage);
    transform t;
    posenc_status st = PE_OK;
    if (!storage)
        return pe_no_memory("memory", err);
    transform_begin(&t, m, storage);
    for (int64_t k = 0; k < s->d && !st; k++) {
        w[k] = peak_of(&t, s, n, k, &explained[k]);
        st = pe_pace_add(pace, m * 60);
    }
    free(storage);
    return st;
}

/* ---- the answer ---- */

/* How a scaled frequency came from the one before; `most`: the largest divisor of any. */
static rule rule_of(double before, double after, double most)
{
    const double divisor = after > 0 ? before / after : 0;
    return fabs(divisor - 1) < 1e-6 ? KEPT : fabs(divisor - most) < 1e-6 * most ? INTERPOLATED : CHANGED;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    const bool pairs = s->pairing.n > 0;
    const int64_t n = pairs ? s->pairing.n : s->d;
    double shortest = INFINITY, longest = 0, most = 1;
    int64_t unfinished = 0;
    posenc_status st = PE_OK;
    b->size[CHANNELS] = (double)n;
    double *w = pe_block_field(b, FREQUENCY), *explained = pe_block_field(b, EXPLAINED),
           *wave = pe_block_field(b, WAVELENGTH), *before = pe_block_field(b, BEFORE), *rule_word = pe_block_field(b, RULE);
    if (!pairs)
        st = by_spectrum(s, w, explained, pace, err);
    for (int64_t i = 0; i < n && pairs; i++) {
        w[i] = fabs(s->pairing.w[i]);
        explained[i] = pe_max(0, 1 - s->pairing.leftover[i] * s->pairing.leftover[i]);
    }
    for (int64_t i = 0; i < n && s->before; i++)
        most = w[i] > 0 ? pe_max(most, s->before[i] / w[i]) : most;
    for (int64_t i = 0; i < n; i++) {
        wave[i] = w[i] > 0 ? pe_two_pi.hi / w[i] : (double)NAN;
        shortest = w[i] > 0 ? pe_min(shortest, wave[i]) : shortest;
        longest = w[i] > 0 ? pe_max(longest, wave[i]) : longest;
        pe_block_field(b, CHANNEL)[i] = pairs ? (double)pe_pair_first(&s->pairing, i) : (double)i;
        const double in_training = w[i] * (double)a->train_length / pe_two_pi.hi;
        pe_block_field(b, IN_TRAINING)[i] = in_training;
        pe_block_field(b, IN_LENGTH)[i] = w[i] * (double)a->test_length / pe_two_pi.hi;
        unfinished += in_training < 1;
        before[i] = s->before ? s->before[i] : (double)NAN;
        rule_word[i] = s->before ? (double)rule_of(before[i], w[i], most) : (double)NAN;
    }
    pe_block_set(b, TRAIN, (double)a->train_length);
    pe_block_set(b, LENGTH, (double)a->test_length);
    pe_block_set(b, METHOD, pairs ? 0 : 1);
    pe_block_set(b, SHORTEST, longest > 0 ? shortest : (double)NAN);
    pe_block_set(b, LONGEST, longest > 0 ? longest : (double)NAN);
    pe_block_set(b, UNFINISHED, (double)unfinished);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const size_t n = (size_t)pe_block_size(b, CHANNELS);
    const double *before = pe_block_field(b, BEFORE), train = pe_block_number(b, TRAIN), length = pe_block_number(b, LENGTH);
    const bool pairs = pe_block_number(b, METHOD) == 0, scaled = n && isfinite(before[0]);
    double *index = pe_count_up(arena, (int64_t)n), *old = posenc_alloc(arena, n * sizeof *old);
    char *trained = pe_words(arena, "train_length %.0f", train), *wanted = pe_words(arena, "test_length %.0f", length);
    if (!index || !old || !trained || !wanted)
        return -1;
    for (size_t i = 0; i < n; i++)
        old[i] = before[i] > 0 ? pe_two_pi.hi / before[i] : (double)NAN;
    *out = (pe_panel){
        .title = "wavelength of each channel",
        .x_label = pairs ? "pair of channels" : "channel",
        .y_label = "wavelength [positions]",
        .y_log = true,
        .series = { { .label = scaled ? "after scaling" : "wavelength",
                      .x = index,
                      .y = pe_block_field(b, WAVELENGTH),
                      .n = n,
                      .mark = PE_MARK_POINTS },
                    { .label = "before scaling", .x = index, .y = old, .n = n, .dashed = true } },
        .nseries = scaled ? 2 : 1,
        .rule = { { train, trained, false }, { length, wanted, false } },
        .nrules = length > train ? 2 : 1,
    };
    return 1;
}

const pe_what pe_what_frequencies = {
    .name = "frequencies",
    .title = "frequencies and wavelengths",
    .doc =
        "z[p] = first + i second channel of a pair; C(L) = sum of z[p + L] conj(z[p]); frequency = |arg C(1)|, refined at\n"
        "L = 2, 4, 8 ...; without pairs the peak of the power spectrum of each channel",
    .sizes = "channels",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY),
    .ordered = true,
    .pairs = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
