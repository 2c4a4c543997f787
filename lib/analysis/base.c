/* base.c - what another base of the geometric ladder would do, for a table as wide as this one.
 *
 *     w[i] = base^(-i / pairs), i = 0 .. pairs - 1          the ladder of sinusoidal and of rope
 *     near(k) = mean over i of cos(k w[i])                  the similarity of rows k apart, 1 at k = 0
 * Two rows repeat where near(k) >= near(1): they are as like as neighbours are. */
#include "analysis/analysis.h"

#include "core/waves.h"

#include <stdlib.h>

enum { PAIRS, TRAIN, LENGTH, SMALLEST, BASE, LONGEST, COVERS, UNFINISHED, REPEAT, OFFSET, CURVE };
enum { BASES, POINTS };

static const pe_field fields[] = {
    [PAIRS] = { .name = "pairs", .kind = PE_F_WHOLE, .doc = "of the table, channels / 2" },
    [TRAIN] = { .name = "train_length", .unit = "positions", .kind = PE_F_WHOLE, .doc = "as asked" },
    [LENGTH] = { .name = "test_length", .unit = "positions", .kind = PE_F_WHOLE, .doc = "as asked" },
    [SMALLEST] = { .name = "smallest_unique_base",
                   .doc = "smallest of 10^(j/8), j = 1 .. 64, from which on no rows within test_length repeat; null: none" },
    [BASE] = { .name = "base", .axis = { 1 + BASES }, .doc = "those compared" },
    [LONGEST] = { .name = "longest_wavelength",
                  .unit = "positions",
                  .axis = { 1 + BASES },
                  .doc = "2 pi base^(1 - 1/pairs)" },
    [COVERS] = { .name = "covers",
                 .axis = { 1 + BASES },
                 .doc = "longest_wavelength / test_length: under 1 the slowest pair repeats within" },
    [UNFINISHED] = { .name = "unfinished",
                     .kind = PE_F_WHOLE,
                     .axis = { 1 + BASES },
                     .doc = "pairs that finish no period within train_length: wasted where positions go no farther" },
    [REPEAT] = { .name = "first_repeat",
                 .unit = "positions",
                 .kind = PE_F_WHOLE,
                 .axis = { 1 + BASES },
                 .doc = "first distance within test_length, after a fall, at which rows are as like as neighbours; null: "
                        "none" },
    [OFFSET] = { .name = "offset",
                 .unit = "positions",
                 .kind = PE_F_WHOLE,
                 .axis = { 1 + POINTS },
                 .doc = "distances k of the curves" },
    [CURVE] = { .name = "similarity", .axis = { 1 + BASES, 1 + POINTS }, .doc = "near(k) of each base" },
};

enum { GRID = 64, MOST_BASES = 12 };

static const double usual[] = { 100, 1000, 10000, 100000, 500000, 1000000 };

static int64_t count(const pe_analysis *a) { return a->bases.n ? (int64_t)a->bases.n : (int64_t)PE_LEN(usual); }
static double base_at(const pe_analysis *a, int64_t i) { return a->bases.n ? a->bases.v[i] : usual[i]; }

/* Distances to draw: about 20 a factor of 2. */
static int64_t points(int64_t length, double *out)
{
    int64_t m = 0;
    for (int64_t k = 1; k < length; k += k / 28 + 1, m++)
        if (out)
            out[m] = (double)k;
    return m;
}

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    size[BASES] = count(a);
    size[POINTS] = points(a->test_length, NULL);
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const double pairs = (double)a->subject.d / 2;
    *out = (posenc_cost){
        .ns = (double)(GRID / 2 + size[BASES]) * ((double)a->test_length * (1.5 * pairs + 20) + 3e4 * pairs),
        .scratch = (uint64_t)a->subject.d * 10 * sizeof(double),
    };
}

static posenc_status check(const pe_analysis *a, posenc_error *err)
{
    if (a->subject.d < 4)
        return pe_invalid(err, "table", posenc_text("%lld channels", (long long)a->subject.d),
                          "at least 4 channels, two pairs, for a ladder");
    if (a->bases.n > MOST_BASES)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "bases", posenc_text("%zu elements", a->bases.n).s,
                           "at most %d bases", MOST_BASES);
    return PE_OK;
}

typedef struct ladder {
    size_t pairs;
    pe_dd *w;
    double *storage, *sine, *cosine;
    pe_waves waves;
} ladder;

static posenc_status climb(ladder *l, double base, const posenc_context *ctx)
{
    const pe_ladder steps = { .gain = { 1, 0 }, .top = base, .bottom = 1, .steps = { (double)l->pairs, 0 } };
    const posenc_status st = pe_frequencies(&steps, l->pairs, l->w, ctx);
    l->waves = pe_waves_begin(l->w, l->pairs, l->storage);
    return st;
}

static double near(ladder *l, double k)
{
    double sum = 0;
    pe_waves_at(&l->waves, 0, l->pairs, (pe_dd){ k, 0 }, l->sine, l->cosine);
    for (size_t i = 0; i < l->pairs; i++)
        sum += l->cosine[i];
    return sum / (double)l->pairs;
}

/* The first distance, once rows have become less alike than neighbours, at which they are as alike again; 0: none. */
static posenc_status first_repeat(ladder *l, int64_t length, int64_t *out, pe_pace *pace)
{
    const double neighbours = near(l, 1);
    bool fell = false;
    posenc_status st = PE_OK;
    *out = 0;
    for (int64_t k = 2; k < length && !*out && !st; k++) {
        const double v = near(l, (double)k);
        if (fell && v >= neighbours)
            *out = k;
        fell = fell || v < neighbours;
        st = pe_pace_add(pace, (int64_t)l->pairs * 3 / 2 + 20);
    }
    return st;
}

static posenc_status smallest(ladder *l, int64_t length, double *out, pe_pace *pace)
{
    posenc_status st = PE_OK;
    *out = (double)NAN;
    for (int j = GRID; j > 0 && !st; j--) { /* from above: all larger ones must be unique too */
        const double base = pe_pow(10, j / 8.0);
        int64_t repeat = 0;
        st = climb(l, base, pace->ctx);
        st = st ? st : first_repeat(l, length, &repeat, pace);
        if (!st && repeat)
            break;
        *out = base;
    }
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    ladder l = { .pairs = (size_t)s->d / 2 };
    const int64_t m = points(a->test_length, pe_block_field(b, OFFSET));
    const double *offset = pe_block_field(b, OFFSET);
    l.w = malloc(l.pairs * (sizeof *l.w + 6 * sizeof(double)));
    if (!l.w)
        return pe_no_memory("memory", err);
    l.storage = (double *)(l.w + l.pairs);
    l.sine = l.storage + 4 * l.pairs;
    l.cosine = l.sine + l.pairs;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < count(a) && !st; i++) {
        const double base = base_at(a, i);
        int64_t repeat = 0, unfinished = 0;
        st = climb(&l, base, pace->ctx);
        st = st ? st : first_repeat(&l, a->test_length, &repeat, pace);
        for (size_t k = 0; k < l.pairs; k++)
            unfinished += l.w[k].hi * (double)a->train_length < pe_two_pi.hi;
        for (int64_t k = 0; k < m && !st; k++)
            pe_block_field(b, CURVE)[i * m + k] = near(&l, offset[k]);
        const double longest = pe_two_pi.hi / l.w[l.pairs - 1].hi;
        pe_block_field(b, BASE)[i] = base;
        pe_block_field(b, LONGEST)[i] = longest;
        pe_block_field(b, COVERS)[i] = longest / (double)a->test_length;
        pe_block_field(b, UNFINISHED)[i] = (double)unfinished;
        pe_block_field(b, REPEAT)[i] = repeat ? (double)repeat : (double)NAN;
    }
    double least = (double)NAN;
    st = st ? st : smallest(&l, a->test_length, &least, pace);
    pe_block_set(b, PAIRS, (double)l.pairs);
    pe_block_set(b, TRAIN, (double)a->train_length);
    pe_block_set(b, LENGTH, (double)a->test_length);
    pe_block_set(b, SMALLEST, least);
    free(l.w);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const int64_t bases = pe_block_size(b, BASES), m = pe_block_size(b, POINTS);
    const double least = pe_block_number(b, SMALLEST);
    char *title = isfinite(least) ? pe_words(arena, "similarity by distance; no repeat within %.0f from base %.3g on",
                                             pe_block_number(b, LENGTH), least)
                                  : pe_words(arena, "similarity by distance; rows repeat within %.0f with every base",
                                             pe_block_number(b, LENGTH));
    *out = (pe_panel){
        .title = title,
        .x_label = "offset [positions]",
        .y_label = "mean of cos(k w)",
        .x_log = true,
        .ordered = true,
        .nseries = (int)bases,
    };
    for (int64_t i = 0; i < bases; i++) {
        const double repeat = pe_block_field(b, REPEAT)[i];
        char *words = isfinite(repeat) ? pe_words(arena, "%.6g, repeats at %.0f", pe_block_field(b, BASE)[i], repeat)
                                       : pe_words(arena, "%.6g", pe_block_field(b, BASE)[i]);
        if (!words)
            return -1;
        out->series[i] = (pe_series){
            .label = words, .x = pe_block_field(b, OFFSET), .y = pe_block_field(b, CURVE) + i * m, .n = (size_t)m
        };
    }
    return title ? 1 : -1;
}

const pe_what pe_what_base = {
    .name = "base",
    .title = "what another base would do",
    .doc = "w[i] = base^(-i / pairs); near(k) = mean over i of cos(k w[i]); rows k apart repeat where near(k) >= near(1)",
    .sizes = "bases points",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY),
    .ordered = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .check = check,
    .compute = compute,
    .draw = draw,
};
