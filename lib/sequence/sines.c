/* sines.c - columns, frequencies and rows of a sinusoid. */
#include "sequence/sines.h"

#include "core/elementary.h"

#include <math.h>
#include <string.h>

const char *const pe_odd_words[] = { "error", "zero_pad", "sin_extra", "round_up_truncate", NULL };
const char *const pe_sines_layouts[] = { "interleaved", "split", NULL };
const char *const pe_compute_dtypes[] = { "float64", "float32", NULL };
const char *const pe_freq_forms[] = { "exp", "pow", NULL };

pe_columns pe_sines_columns(const pe_sines *s)
{
    const size_t d = (size_t)s->width, h = d / 2, up = d - h;
    const bool extra = d % 2 && s->odd == PE_ODD_SIN_EXTRA, wide = extra || (d % 2 && s->odd == PE_ODD_ROUND_UP_TRUNCATE);
    pe_columns c = { .pairs = wide ? up : h, .cosines = extra ? h : wide ? up : h, .step = s->split ? 1 : 2 };
    *(s->flip ? &c.sin0 : &c.cos0) = !s->split ? 1 : s->flip ? c.cosines : c.pairs;
    c.last_sine = c.sin0 + (c.pairs ? c.pairs - 1 : 0) * c.step;
    if (extra && c.last_sine == d) /* cos sin cos sin ... and the extra sine */
        c.last_sine = d - 1;
    c.width = 2 * c.pairs > d ? 2 * c.pairs : d;
    return c;
}

pe_dd pe_sines_steps(const pe_sines *s)
{
    const double d = (double)s->width;
    const double half = s->odd == PE_ODD_SIN_EXTRA ? d / 2 : s->odd == PE_ODD_ROUND_UP_TRUNCATE ? ceil(d / 2) : floor(d / 2);
    pe_dd n = pe_two_sum(half, -s->shift);
    return n.hi < 1 && (s->at_least_one || d < 2) ? (pe_dd){ 1, 0 } : n;
}

static pe_ladder ladder(const pe_sines *s)
{
    return (pe_ladder){
        .gain = s->single ? (pe_dd){ s->shortest, 0 } : pe_two_prod(s->shortest, s->scale),
        .top = s->top,
        .bottom = s->bottom,
        .steps = pe_sines_steps(s),
    };
}

/* The periods that positions are divided by, each power rounded to float32. */
static posenc_status periods_float32(const pe_ladder *l, size_t n, pe_dd *period, const posenc_context *ctx)
{
    posenc_status st = PE_OK;
    const double base = pe_single(l->top / l->bottom);
    for (size_t i = 0; i < n && !st; i++) {
        period[i] = (pe_dd){ pe_single(pe_pow(base, pe_single((double)i / l->steps.hi))), 0 };
        if (i % 1024 == 1023)
            st = posenc_poll(ctx);
    }
    return st;
}

posenc_status pe_sines_frequencies(const pe_sines *s, pe_dd *w, const posenc_context *ctx)
{
    const pe_ladder l = ladder(s);
    const size_t n = pe_sines_columns(s).pairs;
    if (s->single && s->divide)
        return periods_float32(&l, n, w, ctx);
    return s->single ? pe_frequencies_float32(&l, s->form, n, w, ctx) : pe_frequencies(&l, n, w, ctx);
}

static int exponent(double v) /* |v| < 2^exponent, at least 2^0 */
{
    int e;
    frexp(v, &e);
    return v != 0 && e > 0 ? e : 0;
}

double pe_sines_exponent(const pe_sines *s)
{
    const double base = s->top / s->bottom;
    const size_t pairs = pe_sines_columns(s).pairs;
    const double rise = base < 1 && pairs ? (double)(pairs - 1) / pe_sines_steps(s).hi * exponent(1 / base) : 0;
    return exponent(s->scale) + exponent(s->shortest) + rise;
}

/* The angle as a float32 peer forms it: position, product and product with scale are each rounded. */
static pe_dd angle_float32(const pe_sines *s, double position, double w)
{
    if (s->divide)
        return (pe_dd){ (double)((float)position / (float)w), 0 };
    float product = (float)position * (float)w;
    return (pe_dd){ (double)(product * (float)s->scale), 0 };
}

posenc_status pe_sines_row(const pe_sines *s, const pe_columns *c, const pe_dd *w, pe_dd position, double *row,
                           pe_pace *pace)
{
    enum { BLOCK = 64, STEPS = 30 }; /* about nanoseconds a pair */
    pe_dd angle[BLOCK];
    double sine[BLOCK], cosine[BLOCK];
    posenc_status st;

    memset(row, 0, c->width * sizeof *row);
    for (size_t first = 0; first < c->pairs; first += BLOCK) {
        const size_t n = c->pairs - first < BLOCK ? c->pairs - first : BLOCK;
        for (size_t i = 0; s->single && i < n; i++)
            angle[i] = angle_float32(s, position.hi, w[first + i].hi);
        if (s->single)
            pe_sincos(angle, n, sine, cosine);
        else
            pe_sincos_mul(w + first, n, position, sine, cosine);
        for (size_t i = 0; i < n && s->single; i++) {
            sine[i] = pe_single(sine[i]);
            cosine[i] = pe_single(cosine[i]);
        }
        for (size_t i = 0; i < n; i++)
            row[first + i + 1 < c->pairs ? c->sin0 + (first + i) * c->step : c->last_sine] = sine[i];
        for (size_t i = 0; i < n && first + i < c->cosines; i++)
            row[c->cos0 + (first + i) * c->step] = cosine[i];
        if ((st = pe_pace_add(pace, (int64_t)n * STEPS)))
            return st;
    }
    return pe_pace_add(pace, 200);
}

/* Every column is a pair's. */
static bool whole(const pe_columns *c) { return c->cosines == c->pairs && c->width == 2 * c->pairs; }

bool pe_sines_whole(const pe_sines *s, const pe_columns *c) { return whole(c) && c->width == (size_t)s->width; }

/* Puts the sines and cosines of all pairs where they belong. */
static void place(const pe_sines *s, const pe_columns *c, const double *sine, const double *cosine, double *row)
{
    const size_t n = c->pairs;
    if (whole(c) && s->split) {
        memcpy(row + c->sin0, sine, n * sizeof *row);
        memcpy(row + c->cos0, cosine, n * sizeof *row);
        return;
    }
    if (whole(c)) {
        pe_zip(s->flip ? cosine : sine, s->flip ? sine : cosine, n, row);
        return;
    }
    memset(row, 0, c->width * sizeof *row);
    for (size_t i = 0; i < n; i++)
        row[i + 1 < n ? c->sin0 + i * c->step : c->last_sine] = sine[i];
    for (size_t i = 0; i < c->cosines; i++)
        row[c->cos0 + i * c->step] = cosine[i];
}

posenc_status pe_sines_turn(const pe_sines *s, const pe_columns *c, pe_rotor *rotor, double position, double *both,
                            double *row, pe_pace *pace)
{
    posenc_status st = pe_rotor_row(rotor, position, both, both + c->pairs, pace);
    if (st)
        return st;
    place(s, c, both, both + c->pairs, row);
    return pe_pace_add(pace, (int64_t)c->width + 50);
}

pe_rotor_place pe_sines_place(const pe_sines *s, const pe_columns *c, posenc_dtype dtype, void *to)
{
    const size_t size = posenc_dtype_size(dtype);
    return (pe_rotor_place){
        .dtype = dtype,
        .zipped = !s->split,
        .cosine_first = s->flip,
        .first = (char *)to + (s->split ? c->sin0 * size : 0),
        .second = s->split ? (char *)to + c->cos0 * size : NULL,
        .step = c->width * size,
    };
}

posenc_status pe_sines_wave(const pe_sines *s, const pe_columns *c, const pe_waves *waves, pe_dd position, double *both,
                            double *row, pe_pace *pace)
{
    enum { CHUNK = 4096 };
    const bool apart = s->split && whole(c); /* where they belong already */
    double *sine = apart ? row + c->sin0 : both, *cosine = apart ? row + c->cos0 : both + c->pairs;
    posenc_status st = PE_OK;
    for (size_t first = 0; first < c->pairs && !st; first += CHUNK) {
        const size_t n = c->pairs - first < CHUNK ? c->pairs - first : CHUNK;
        const bool large = waves->most * fabs(position.hi) >= 0x1p26;
        pe_waves_at(waves, first, n, position, sine + first, cosine + first);
        st = pe_pace_add(pace, (int64_t)n * (large ? 60 : 4) + 50);
    }
    if (!apart && !st)
        place(s, c, sine, cosine, row);
    return st ? st : pe_pace_add(pace, (int64_t)c->width);
}
