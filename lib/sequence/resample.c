/* resample.c - taps of one axis, and a grid resampled row by row.
 *
 * Sources: PyTorch aten/src/ATen/native/UpSample.h (area_pixel_compute_source_index, get_cubic_upsample_coefficients) and
 * cpu/UpSampleKernel.cpp (_compute_indices_min_size_weights_aa, after Pillow's Resample.c); Keys 1981, Cubic convolution
 * interpolation for digital image processing, IEEE TASSP 29(6). PyTorch forms places and weights in float32, here they are
 * exact or float64. */
#include "sequence/resample.h"
#include "core/exact.h"
#include "core/lanes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const pe_resample pe_one_column = { .from = 1, .to = 1, .kernel = PE_KERNEL_NEAREST };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- taps ---- */

static double step(const pe_resample *r) { return (double)r->from / (r->sampled > 0 ? r->sampled : (double)r->to); }

/* floor(num / den) and the rest as a fraction; den > 0. */
static int64_t divide(int64_t num, int64_t den, double *fraction)
{
    int64_t q = num / den - (num % den < 0);
    *fraction = (double)(num - q * den) / (double)den;
    return q;
}

int64_t pe_resample_place(const pe_resample *r, int64_t j, double *fraction)
{
    if (r->align_corners)
        return divide(j * (r->from - 1), larger(r->to - 1, 1), fraction);
    if (!(r->sampled > 0) && !r->places)
        return divide((2 * j + 1) * r->from - r->to, 2 * r->to, fraction);
    const double place = r->places ? r->places[j] : ((double)j + 0.5) * (double)r->from / r->sampled - 0.5,
                 below = floor(place);
    *fraction = place - below;
    return (int64_t)below;
}

void pe_cubic_weights(double t, double a, double weight[PE_CUBIC_TAPS])
{
    const double u = 1 - t; /* factored, so that weights that are 0 come out as 0 */
    weight[0] = a * t * u * u;
    weight[1] = u * (1 + t - (a + 2) * t * t);
    weight[2] = t * (1 + u - (a + 2) * u * u);
    weight[3] = a * t * t * u;
}

static int64_t nearest(const pe_resample *r, int64_t j)
{
    const bool exact = r->kernel == PE_KERNEL_NEAREST_EXACT;
    const double from = (double)r->from, to = r->sampled > 0 ? r->sampled : (double)r->to;
    if (r->single) { /* torch multiplies j + 1/2, but not j, in double */
        const float step = (float)(from / to), place = exact ? (float)(((double)j + 0.5) * (double)step) : (float)j * step;
        return smaller((int64_t)place, r->from - 1);
    }
    double rest;
    int64_t i = r->sampled > 0 ? (int64_t)floor(((double)j + (exact ? 0.5 : 0)) * (double)r->from / r->sampled)
                               : divide((2 * j + exact) * r->from, 2 * r->to, &rest);
    return smaller(i, r->from - 1);
}

static pe_taps cubic(const pe_resample *r, int64_t j, double *weight)
{
    double t, four[PE_CUBIC_TAPS];
    const int64_t below = pe_resample_place(r, j, &t);
    pe_cubic_weights(t, r->a, four);
    const int64_t first = larger(below - 1, 0), last = smaller(below + 2, r->from - 1);
    const pe_taps taps = { first, last - first + 1 };
    memset(weight, 0, (size_t)taps.n * sizeof *weight);
    for (int k = 0; k < PE_CUBIC_TAPS; k++)
        weight[smaller(larger(below - 1 + k, first), last) - first] += four[k];
    return taps;
}

static pe_taps linear(const pe_resample *r, int64_t j, double *weight)
{
    double t;
    int64_t below = pe_resample_place(r, j, &t);
    if (below < 0 || below >= r->from - 1 || t == 0) {
        weight[0] = 1;
        return (pe_taps){ smaller(larger(below, 0), r->from - 1), 1 };
    }
    weight[0] = 1 - t;
    weight[1] = t;
    return (pe_taps){ below, 2 };
}

/* Half the width of the kernel, in steps of at least one element. */
static double reach(const pe_resample *r) { return (r->kernel == PE_KERNEL_CUBIC ? 2 : 1) * pe_max(step(r), 1); }

static double curve(const pe_resample *r, double x)
{
    x = fabs(x);
    if (r->kernel == PE_KERNEL_LINEAR)
        return x < 1 ? 1 - x : 0;
    return x < 1 ? (1 - x) * (1 + x - (r->a + 2) * x * x) : x < 2 ? r->a * (x - 1) * (2 - x) * (2 - x) : 0;
}

static pe_taps antialiased(const pe_resample *r, int64_t j, double *weight)
{
    const double wide = pe_max(step(r), 1), middle = step(r) * ((double)j + 0.5);
    const int64_t first = larger((int64_t)(middle - reach(r) + 0.5), 0),
                  end = smaller((int64_t)(middle + reach(r) + 0.5), r->from);
    double sum = 0;
    for (int64_t i = first; i < end; i++)
        sum += weight[i - first] = curve(r, ((double)i + 0.5 - middle) / wide);
    for (int64_t i = first; i < end; i++)
        weight[i - first] /= sum;
    return (pe_taps){ first, end - first };
}

static bool smooth(const pe_resample *r) { return r->kernel == PE_KERNEL_LINEAR || r->kernel == PE_KERNEL_CUBIC; }

int64_t pe_resample_width(const pe_resample *r)
{
    const int64_t plain = r->kernel == PE_KERNEL_CUBIC ? PE_CUBIC_TAPS : r->kernel == PE_KERNEL_LINEAR ? 2 : 1;
    return smooth(r) && r->antialias ? smaller(2 * (int64_t)ceil(reach(r)) + 1, r->from) : plain;
}

pe_taps pe_resample_taps(const pe_resample *r, int64_t j, double *weight)
{
    if (smooth(r))
        return r->antialias                   ? antialiased(r, j, weight)
               : r->kernel == PE_KERNEL_CUBIC ? cubic(r, j, weight)
                                              : linear(r, j, weight);
    weight[0] = 1;
    return (pe_taps){ nearest(r, j), 1 };
}

/* Cubic: the outer two weights are a t (1 - t) together, the inner two are positive, and all four sum to 1.
 * Antialiased, the ends cut the kernel and the rest is divided by what is left: at most 1.27 for a = -0.5, measured over all
 * sizes to 60. */
double pe_resample_gain(const pe_resample *r)
{
    return r->kernel != PE_KERNEL_CUBIC ? 1 : r->antialias ? 1.5 : 1 - r->a / 2;
}

/* ---- grids ---- */

enum { CHUNK = 1 << 14, MOST = 16 }; /* elements and taps between two looks at the pace */

/* sum[i] = 0 + w[0] line[0][i] + ..., taps in their order, lines `step` apart; or sum[i] + that. */
PE_BODY void weigh_body(const double *line, size_t step, const double *w, size_t taps, bool more, size_t n, double *sum)
{
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_lanes s = { 0 }, v;
        if (more)
            PE_LOAD(s, sum + i, PE_LANES);
        for (size_t k = 0; k < taps; k++) {
            PE_LOAD(v, line + k * step + i, PE_LANES);
            s = s + w[k] * v;
        }
        PE_STORE(sum + i, s, PE_LANES);
    }
    for (; i < n; i++) {
        double s = more ? sum[i] : 0;
        for (size_t k = 0; k < taps; k++)
            s = s + w[k] * line[k * step + i];
        sum[i] = s;
    }
}

PE_KERNEL(weigh, weigh_body,
          (const double *line, size_t step, const double *w, size_t taps, bool more, size_t n, double *sum),
          (line, step, w, taps, more, n, sum))

/* The same of rows of a tensor, from element `start` on. */
static posenc_status weigh_elements(double *sum, const posenc_tensor *t, int64_t start, int64_t step, const double *w,
                                    int64_t taps, int64_t n, pe_pace *pace)
{
    enum { BLOCK = 512 };
    double some[BLOCK];
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i += BLOCK) {
        const int64_t m = smaller(BLOCK, n - i);
        for (int64_t k = 0; k < taps && !st; k++) {
            pe_tensor_read(t, start + k * step + i, (size_t)m, some);
            weigh_paths[pe_simd()](some, 0, w + k, 1, k > 0, (size_t)m, sum + i);
            st = pe_pace_add(pace, 2 * m + 20);
        }
    }
    return st;
}

static posenc_status weigh_cells(double *sum, const double *line, int64_t step, const double *w, int64_t taps, int64_t n,
                                 pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t m = smaller(CHUNK, n - i);
        for (int64_t k = 0; k < taps && !st; k += MOST) {
            const int64_t some = smaller(MOST, taps - k);
            weigh_paths[pe_simd()](line + k * step + i, (size_t)step, w + k, (size_t)some, k > 0, (size_t)m, sum + i);
            st = pe_pace_add(pace, some * m + 20);
        }
    }
    return st;
}

static posenc_status store_cells(const pe_grid *g, int64_t start, const double *cell, pe_pace *pace)
{
    const int64_t size = (int64_t)posenc_dtype_size(g->dst->dtype);
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < g->inner && !st; i += CHUNK) {
        const int64_t n = smaller(CHUNK, g->inner - i);
        posenc_convert(g->dst->dtype, (char *)g->dst->data + (g->dst_start + start + i) * size, cell + i, (size_t)n);
        st = pe_pace_add(pace, 3 * n + 20);
    }
    return st;
}

typedef struct work {
    double *line;      /* (old columns, inner) one new row, columns still old */
    double *cell;      /* (inner) */
    double *weight[2]; /* of rows, of columns */
} work;

static posenc_status make_row(const pe_grid *g, int64_t y, const work *w, pe_pace *pace)
{
    const pe_resample *columns = g->axis[1];
    const int64_t line = columns->from * g->inner;
    posenc_status st;
    pe_taps taps = pe_resample_taps(g->axis[0], y, w->weight[0]);
    if ((st = pe_pace_add(pace, 20 + 10 * taps.n)))
        return st;
    if ((st = weigh_elements(w->line, g->src, g->src_start + taps.first * line, line, w->weight[0], taps.n, line, pace)))
        return st;
    for (int64_t x = 0; x < columns->to; x++) {
        taps = pe_resample_taps(columns, x, w->weight[1]);
        if ((st = pe_pace_add(pace, 20 + 10 * taps.n)))
            return st;
        st = weigh_cells(w->cell, w->line + taps.first * g->inner, g->inner, w->weight[1], taps.n, g->inner, pace);
        if (st || (st = store_cells(g, (y * columns->to + x) * g->inner, w->cell, pace)))
            return st;
    }
    return PE_OK;
}

/* Doubles of the work: the callers' tensors show that the product does not overflow. */
static size_t doubles(const pe_grid *g)
{
    return (size_t)((g->axis[1]->from + 1) * g->inner + pe_resample_width(g->axis[0]) + pe_resample_width(g->axis[1]));
}

uint64_t pe_resample_scratch(const pe_grid *g) { return doubles(g) * sizeof(double); }

double pe_resample_ns(const pe_grid *g)
{
    const double rows = (double)g->axis[0]->to, columns = (double)g->axis[1]->to, inner = (double)g->inner,
                 up = (double)pe_resample_width(g->axis[0]), across = (double)pe_resample_width(g->axis[1]);
    return rows * (5 * up + up * 2 * (double)g->axis[1]->from * inner + columns * (10 + 6 * across + (across + 1) * inner));
}

posenc_status pe_resample_grid(const pe_grid *g, pe_pace *pace, posenc_error *err)
{
    double *all = malloc(pe_resample_scratch(g));
    if (!all)
        return pe_no_memory("memory", err);
    const work w = { .line = all,
                     .cell = all + g->axis[1]->from * g->inner,
                     .weight = { all + (g->axis[1]->from + 1) * g->inner,
                                 all + (g->axis[1]->from + 1) * g->inner + pe_resample_width(g->axis[0]) } };
    posenc_status st = PE_OK;
    for (int64_t y = 0; y < g->axis[0]->to && !st; y++)
        st = make_row(g, y, &w, pace);
    free(all);
    return st;
}

/* ---- what encodings of given tables have in common ---- */

posenc_status pe_copy_elements(const posenc_tensor *src, int64_t from, posenc_tensor *dst, int64_t to, int64_t n,
                               pe_pace *pace)
{
    enum { BLOCK = 256 };
    const int64_t size = (int64_t)posenc_dtype_size(dst->dtype);
    double some[BLOCK];
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i += BLOCK) {
        const int64_t count = smaller(BLOCK, n - i);
        pe_tensor_read(src, from + i, (size_t)count, some);
        posenc_convert(dst->dtype, (char *)dst->data + (to + i) * size, some, (size_t)count);
        st = pe_pace_add(pace, 4 * count + 20);
    }
    return st;
}

bool pe_table_fits(const posenc_tensor *t, double gain, posenc_dtype dtype, posenc_error *err)
{
    const double largest = pe_min(pe_dtype_max(dtype), DBL_MAX / 16);
    char words[120];
    snprintf(words, sizeof words, "at most %.9g in magnitude, so that every result is a finite %s", largest / gain,
             posenc_dtype_name(dtype));
    return pe_tensor_within(t, -largest / gain, largest / gain, words, err);
}

int64_t pe_side_of_square(int64_t n)
{
    if (n <= 0)
        return 0;
    int64_t root = (int64_t)sqrt((double)n);
    while (root * root > n)
        root--;
    while ((root + 1) * (root + 1) <= n)
        root++;
    return root * root == n ? root : 0;
}

bool pe_two_sizes(const posenc_reals *list, const char *name, int64_t max, int64_t out[2], posenc_error *err)
{
    bool sound = list->n == 2;
    if (!sound)
        pe_invalid(err, name, posenc_text("%zu elements", list->n), "two sizes: height,width");
    for (size_t i = 0; i < 2 && list->n == 2; i++) {
        const double v = list->v[i];
        if (!(v >= 1 && v <= (double)max && v == floor(v))) {
            pe_invalid(err, posenc_text("%.40s[%zu]", name, i).s, posenc_text("%.17g", v), "a whole number in 1 .. %lld",
                       (long long)max);
            sound = false;
        } else {
            out[i] = (int64_t)v;
        }
    }
    return sound;
}
