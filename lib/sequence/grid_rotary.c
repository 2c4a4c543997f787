/* grid_rotary.c - coordinates, bands and rows of rotations on grids. */
#include "sequence/grid_rotary.h"

#include "core/elementary.h"
#include "sequence/rotor.h"

#include <math.h>
#include <mpfr.h>
#include <string.h>

const char *const pe_grid_types[] = { "index", "pixel", "centered", NULL };
const char *const pe_grid_crops[] = { "scaled", "open", NULL };
const char *const pe_grid_indexes[] = { "ij", "xy", NULL };
const char *const pe_grid_rotary_layouts[] = {
    "half", "interleaved", "half_unduplicated", "interleaved_unduplicated", "half_per_axis", NULL
};
const char *const pe_grid_pair_orders[] = { "by_axis", "alternate", NULL };

static pe_dd plain(double v) { return (pe_dd){ v, 0 }; }
/* ---- coordinates ---- */

/* v ref / n, untouched where nothing is stretched. */
static pe_dd stretched(const pe_grid_axis *a, pe_dd v)
{
    return a->ref == a->n ? v : pe_dd_div(pe_dd_times(v, a->ref), plain(a->n));
}

/* (2 (i + 0.5 + offset) ref - denominator n) / (denominator n): one rounding near the centre too, where the two meet. */
static pe_dd centered(const pe_grid_axis *a, double i)
{
    const bool as_is = a->ref == a->n;
    const pe_dd whole = pe_two_prod(a->denominator, as_is ? 1 : a->n);
    const pe_dd twice = pe_dd_times(pe_two_sum(2 * i + 1, 2 * a->offset), as_is ? 1 : a->ref);
    return pe_dd_div(pe_dd_add(twice, pe_dd_neg(whole)), whole);
}

pe_dd pe_grid_coordinate(const pe_grid_axis *a, double i)
{
    const double n = a->n;
    switch (a->type) {
    case PE_GRID_INDEX: return stretched(a, pe_two_sum(i, a->offset));
    case PE_GRID_PIXEL: return stretched(a, n > 1 ? pe_dd_div(plain(2 * i - (n - 1)), plain(n - 1)) : plain(-1));
    case PE_GRID_CENTERED: return centered(a, i);
    case PE_GRID_CROP_SCALED:
        if (!(n > 1))
            return plain(a->start);
        return pe_dd_add(pe_dd_div(pe_two_prod(a->start, n - 1 - i), plain(n - 1)),
                         pe_dd_div(pe_two_prod(a->stop, i), plain(n)));
    case PE_GRID_CROP_OPEN: return pe_dd_div(pe_dd_add(pe_two_prod(a->start, n - i), pe_two_prod(a->stop, i)), plain(n));
    }
    return plain(0);
}

/* torch.linspace: from either end to the middle. */
static float steps_float32(double start, double stop, double n, double i)
{
    const float first = (float)start, last = (float)stop, step = n > 1 ? (last - first) / (float)(n - 1) : 0;
    return i < floor(n / 2) || !(n > 1) ? first + step * (float)i : last - step * (float)(n - 1 - i);
}

pe_dd pe_grid_coordinate_float32(const pe_grid_axis *a, double i)
{
    const double n = a->n;
    float v = 0;
    switch (a->type) {
    case PE_GRID_INDEX: v = (float)i + (float)a->offset; break;
    case PE_GRID_PIXEL: v = steps_float32(-1, 1, n, i); break;
    case PE_GRID_CENTERED: v = ((float)(i + 0.5) + (float)a->offset) / (float)a->denominator; break;
    case PE_GRID_CROP_SCALED: return plain((double)steps_float32(a->start, a->stop * (n - 1) / n, n, i));
    case PE_GRID_CROP_OPEN: return plain(pe_single(a->start + i * ((a->stop - a->start) / n)));
    }
    if (a->ref != n)
        v = v / (float)n * (float)a->ref;
    return plain((double)(a->type == PE_GRID_CENTERED ? 2 * v - 1 : v));
}

double pe_grid_largest(const pe_grid_axis *a)
{
    if (!(a->n > 0))
        return 0;
    return pe_max(fabs(pe_grid_coordinate(a, 0).hi), fabs(pe_grid_coordinate(a, a->n - 1).hi)); /* linear in i */
}

pe_grid_place pe_grid_at(int64_t i, int64_t width, int64_t merge)
{
    if (merge == 1)
        return (pe_grid_place){ i / width, i % width };
    const int64_t block = i / (merge * merge), inside = i % (merge * merge), across = width / merge;
    return (pe_grid_place){ block / across * merge + inside / merge, block % across * merge + inside % merge };
}

/* ---- bands ---- */

static posenc_status linear_bands(double max_res, size_t n, pe_dd *w, const posenc_context *ctx)
{
    const double steps = n > 1 ? (double)(n - 1) : 1;
    posenc_status st;
    for (size_t k = 0; k < n; k++) { /* pi (2 steps + k (max_res - 2)) / (2 steps) */
        pe_dd part = pe_dd_times(pe_two_sum(max_res, -2), (double)k);
        w[k] = pe_dd_mul(pe_pi, pe_dd_div(pe_dd_add(part, plain(2 * steps)), plain(2 * steps)));
        if (k % 4096 == 4095 && (st = posenc_poll(ctx)))
            return st;
    }
    return PE_OK;
}

posenc_status pe_bands_fill(const pe_bands *b, size_t n, pe_dd *w, const posenc_context *ctx)
{
    const pe_dd gaps = plain(n > 1 ? (double)(n - 1) : 1);
    pe_ladder l = { .gain = { 1, 0 }, .top = b->theta, .bottom = 1, .steps = { (double)n, 0 } };
    if (!n)
        return PE_OK;
    if (b->kind == PE_BAND_LINEAR)
        return linear_bands(b->max_res, n, w, ctx);
    if (b->kind == PE_BAND_LOG)
        l = (pe_ladder){ .gain = pe_pi, .top = 2, .bottom = b->max_res, .steps = gaps };
    if (b->kind == PE_BAND_PERIOD)
        l = (pe_ladder){
            .gain = pe_dd_div(plain(1), plain(b->min_period)), .top = b->max_period, .bottom = b->min_period, .steps = gaps
        };
    return pe_frequencies(&l, n, w, ctx);
}

/* base^x for float32 base and x, and log2(x): rounded correctly to float64, then to float32. */
static float power_float32(float base, float x)
{
    mpfr_t b, e;
    mpfr_inits2(53, b, e, (mpfr_ptr)NULL);
    mpfr_set_flt(b, base, MPFR_RNDN);
    mpfr_set_flt(e, x, MPFR_RNDN);
    mpfr_pow(b, b, e, MPFR_RNDN);
    const float v = (float)mpfr_get_d(b, MPFR_RNDN);
    mpfr_clears(b, e, (mpfr_ptr)NULL);
    mpfr_free_cache();
    return v;
}

static double log2_of(double x)
{
    mpfr_t v;
    mpfr_init2(v, 53);
    mpfr_set_d(v, x, MPFR_RNDN);
    mpfr_log2(v, v, MPFR_RNDN);
    const double log2 = mpfr_get_d(v, MPFR_RNDN);
    mpfr_clear(v);
    mpfr_free_cache();
    return log2;
}

posenc_status pe_bands_fill_float32(const pe_bands *b, size_t n, pe_dd *w, const posenc_context *ctx)
{
    const pe_ladder l = { .gain = { 1, 0 }, .top = b->theta, .bottom = 1, .steps = { n ? (double)n : 1, 0 } };
    const float pi = (float)pe_pi.hi, ratio = b->kind == PE_BAND_PERIOD ? (float)(b->max_period / b->min_period) : 1;
    const double octaves = b->kind == PE_BAND_LOG ? log2_of(b->max_res) - 1 : 0;
    posenc_status st;
    if (b->kind == PE_BAND_THETA)
        return pe_frequencies_float32(&l, PE_POWER_POW, n, w, ctx);
    for (size_t k = 0; k < n; k++) {
        const double steps = (double)n, i = (double)k;
        float v;
        if (b->kind == PE_BAND_LINEAR)
            v = steps_float32(1, b->max_res / 2, steps, i) * pi;
        else if (b->kind == PE_BAND_LOG)
            v = power_float32(2, steps_float32(0, octaves, steps, i)) * pi;
        else
            v = 1 / ((float)b->min_period * power_float32(ratio, steps_float32(0, 1, steps, i)));
        w[k] = plain((double)v);
        if (k % 256 == 255 && (st = posenc_poll(ctx)))
            return st;
    }
    return PE_OK;
}

double pe_bands_largest(const pe_bands *b)
{
    switch (b->kind) {
    case PE_BAND_THETA: return pe_max(1, 1 / b->theta);
    case PE_BAND_LINEAR:
    case PE_BAND_LOG: return pe_pi.hi * pe_max(1, b->max_res / 2) * 1.0000001;
    case PE_BAND_PERIOD: return 1 / pe_min(b->min_period, b->max_period);
    }
    return 0;
}

/* ---- rotations ---- */

static bool doubled(pe_grid_layout l) { return l != PE_GRID_HALF_UNDUPLICATED && l != PE_GRID_INTERLEAVED_UNDUPLICATED; }

static size_t pairs_of(const pe_rotary *t)
{
    size_t n = 0;
    for (int a = 0; a < t->naxes; a++)
        n += t->pairs[a];
    return n;
}

size_t pe_rotary_width(pe_grid_layout layout, size_t pairs) { return doubled(layout) ? 2 * pairs : pairs; }

uint64_t pe_rotary_scratch(pe_grid_layout layout, size_t pairs)
{
    return (4 * pairs + pe_rotary_width(layout, pairs)) * sizeof(double);
}

double pe_rotary_ns(pe_grid_layout layout, size_t pairs, double rows)
{
    return rows * (60 + 25 * (double)pairs + 4 * (double)pe_rotary_width(layout, pairs));
}

void pe_rotary_memory(pe_rotary *t, void *memory)
{
    const size_t pairs = pairs_of(t);
    t->angle = memory;
    t->sine = t->angle + pairs;
    t->cosine = t->sine + pairs;
    t->turns = t->cosine + pairs;
    t->spread = t->turns + pairs;
}

static pe_dd angle_of(const pe_rotary *t, pe_dd w, pe_dd coordinate)
{
    return t->single ? plain((double)((float)coordinate.hi * (float)w.hi)) : pe_dd_mul(w, coordinate);
}

/* The pairs of one axis, whose first is pair `first` of the row. */
static posenc_status rotate_axis(pe_rotary *t, int axis, size_t first, pe_dd coordinate)
{
    enum { BLOCK = 64, STEPS = 30 }; /* about nanoseconds a pair */
    pe_dd angle[BLOCK];
    for (size_t from = 0; from < t->pairs[axis]; from += BLOCK) {
        const size_t n = t->pairs[axis] - from < BLOCK ? t->pairs[axis] - from : BLOCK;
        const pe_dd *w = t->w[axis] + from;
        double *sine = t->sine + first + from, *cosine = t->cosine + first + from;
        if (!t->single) {
            pe_sincos_mul(w, n, coordinate, sine, cosine);
        } else {
            for (size_t i = 0; i < n; i++)
                angle[i] = angle_of(t, w[i], coordinate);
            pe_sincos(angle, n, sine, cosine);
        }
        for (size_t i = 0; i < n && t->single; i++) {
            sine[i] = pe_single(sine[i]);
            cosine[i] = pe_single(cosine[i]);
        }
        posenc_status st = pe_pace_add(&t->pace, (int64_t)n * STEPS);
        if (st)
            return st;
    }
    return PE_OK;
}

/* The angles of the row made last. */
static const double *angles_of(pe_rotary *t)
{
    double *angle = t->angle;
    for (int a = 0; a < t->naxes; a++)
        for (size_t i = 0; i < t->pairs[a]; i++)
            *angle++ = angle_of(t, t->w[a][i], t->last[a]).hi;
    return t->angle;
}

posenc_status pe_rotary_row(pe_rotary *t, const pe_dd *coordinate)
{
    size_t first = 0;
    for (int a = 0; a < t->naxes; first += t->pairs[a++]) {
        if (t->started && coordinate[a].hi == t->last[a].hi && coordinate[a].lo == t->last[a].lo)
            continue;
        posenc_status st = rotate_axis(t, a, first, coordinate[a]);
        if (st)
            return st;
        t->last[a] = coordinate[a];
    }
    t->started = true;
    return pe_pace_add(&t->pace, 60 + 8 * (int64_t)first);
}

/* One value a pair in the order of the row. */
static const double *in_order(pe_rotary *t, const double *v)
{
    if (!t->alternate)
        return v;
    const size_t axes = (size_t)t->naxes, n = t->pairs[0];
    for (size_t a = 0; a < axes; a++)
        for (size_t j = 0; j < n; j++)
            t->turns[j * axes + a] = v[a * n + j];
    return t->turns;
}

/* The layout's row of one value a pair. */
static const double *spread(pe_rotary *t, const double *v)
{
    const size_t pairs = pairs_of(t);
    double *row = t->spread;
    switch (t->layout) {
    case PE_GRID_HALF:
        memcpy(row, v, pairs * sizeof *v);
        memcpy(row + pairs, v, pairs * sizeof *v);
        break;
    case PE_GRID_INTERLEAVED: pe_zip(v, v, pairs, row); break;
    case PE_GRID_HALF_UNDUPLICATED:
    case PE_GRID_INTERLEAVED_UNDUPLICATED: return v;
    case PE_GRID_HALF_PER_AXIS:
        for (int a = 0; a < t->naxes; a++) {
            const size_t q = t->pairs[a];
            memcpy(row, v, q * sizeof *v);
            memcpy(row + q, v, q * sizeof *v);
            row += 2 * q;
            v += q;
        }
        break;
    }
    return t->spread;
}

static void put_row(posenc_tensor *dst, int64_t index, const double *row, size_t width)
{
    const size_t size = width * posenc_dtype_size(dst->dtype);
    posenc_convert(dst->dtype, (char *)dst->data + (size_t)index * size, row, width);
}

void pe_rotary_put(pe_rotary *t, int64_t index, posenc_tensor *angles, posenc_tensor *cosines, posenc_tensor *sines)
{
    const size_t pairs = pairs_of(t), width = pe_rotary_width(t->layout, pairs);
    if (angles)
        put_row(angles, index, in_order(t, angles_of(t)), pairs);
    put_row(cosines, index, spread(t, in_order(t, t->cosine)), width);
    put_row(sines, index, spread(t, in_order(t, t->sine)), width);
}

/* ---- rules ---- */

bool pe_grid_check_crops(const posenc_tensor *t, posenc_error *err)
{
    return pe_tensor_shaped(t, 2, (const int64_t[]){ 2, 2 }, "[[top, left], [bottom, right]]", err) &&
           pe_tensor_within(t, -0x1p31, 0x1p31, "a coordinate in -2^31 .. 2^31", err);
}
