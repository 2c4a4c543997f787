/* grids.c - tables of the points of a grid: each column follows one axis.
 *
 * Which rows share a coordinate tells the sizes; the columns of one axis, read as a table of that axis, tell ladder, layout
 * and coordinates. */
#include "analysis/identify.h"

#include "core/elementary.h"

#include <math.h>
#include <string.h>

enum { MOST_AXES = 4 };

typedef struct grid {
    pe_search *s;
    const pe_view *v;
    size_t extra; /* rows of zeros before the points */
    size_t naxes, size[MOST_AXES];
    uint8_t *axis; /* (cols) the axis that a column follows; MOST_AXES: it is constant */
} grid;

/* ---- which axis ---- */

static size_t inner_of(const grid *g, size_t axis)
{
    size_t inner = 1;
    for (size_t k = axis + 1; k < g->naxes; k++)
        inner *= g->size[k];
    return inner;
}

/* Whether column c is a function of the coordinate of one axis; `of` (size) are its means. */
static bool follows(const grid *g, size_t axis, size_t c, double *of, size_t *count)
{
    const size_t points = g->v->rows - g->extra, size = g->size[axis], inner = inner_of(g, axis);
    const double *x = g->v->x + g->extra * g->v->cols + c;
    memset(of, 0, size * sizeof *of);
    memset(count, 0, size * sizeof *count);
    for (size_t r = 0; r < points; r++) {
        const size_t k = r / inner % size;
        const double value = x[r * g->v->cols];
        if (count[k] && fabs(value - of[k] / (double)count[k]) > 2 * g->s->allowed)
            return false;
        of[k] += value;
        count[k]++;
    }
    for (size_t k = 0; k < size; k++)
        of[k] /= (double)count[k];
    return true;
}

/* Gives every column its axis; false where one has none, or an axis no column. */
static bool assign(grid *g)
{
    size_t most = 0, used[MOST_AXES + 1] = { 0 };
    for (size_t k = 0; k < g->naxes; k++)
        most = g->size[k] > most ? g->size[k] : most;
    double *of = pe_scratch(g->s, most, sizeof *of);
    size_t *count = pe_scratch(g->s, most, sizeof *count);
    if (!of || !count)
        return false;
    for (size_t c = 0; c < g->v->cols && !g->s->status; c++) {
        g->axis[c] = MOST_AXES + 1;
        for (size_t k = 0; k < g->naxes && g->axis[c] > MOST_AXES; k++) {
            if (!follows(g, k, c, of, count))
                continue;
            g->axis[c] = (uint8_t)k;
            double least = of[0], largest = of[0];
            for (size_t i = 1; i < g->size[k]; i++)
                least = pe_min(least, of[i]), largest = pe_max(largest, of[i]);
            if (largest - least <= 4 * g->s->allowed)
                g->axis[c] = MOST_AXES; /* every axis would do */
        }
        if (g->axis[c] > MOST_AXES)
            return false;
        used[g->axis[c]]++;
        g->s->status = pe_pace_add(&g->s->pace, (int64_t)g->v->rows * 4);
    }
    for (size_t k = 0; k < g->naxes; k++)
        if (!used[k])
            return false;
    return true;
}

/* How the columns of the axes stand: each axis in one run, or in two, the first of which is in the first half of all. */
typedef struct arrangement {
    bool blocks;
    size_t place[MOST_AXES];                  /* axis that comes k-th */
    size_t first[MOST_AXES], each[MOST_AXES]; /* of the k-th: first column and number of columns; blocks: of either half */
} arrangement;

/* Runs of widths each[k]; false where a run has columns of two axes, or of none. */
static bool arrange(const grid *g, arrangement *a)
{
    bool used[MOST_AXES] = { false };
    size_t from = 0;
    const size_t half = g->v->cols / 2;
    for (size_t k = 0; k < g->naxes; k++) {
        a->place[k] = MOST_AXES;
        a->first[k] = from;
        for (size_t part = 0; part < (a->blocks ? 2 : 1); part++)
            for (size_t c = from; c < from + a->each[k]; c++) {
                const size_t at = c + part * half;
                const uint8_t axis = at < g->v->cols ? g->axis[at] : MOST_AXES;
                if (axis == MOST_AXES || axis == a->place[k])
                    continue;
                if (a->place[k] != MOST_AXES)
                    return false;
                a->place[k] = axis;
            }
        if (a->place[k] == MOST_AXES || used[a->place[k]])
            return false;
        used[a->place[k]] = true;
        from += a->each[k];
    }
    return true;
}

/* The k-th axis's columns. */
static size_t list_columns(const grid *g, const arrangement *a, size_t k, size_t *list)
{
    size_t n = 0;
    for (size_t part = 0; part < (a->blocks ? 2 : 1); part++)
        for (size_t c = a->first[k]; c < a->first[k] + a->each[k]; c++)
            if (c + part * (g->v->cols / 2) < g->v->cols)
                list[n++] = c + part * (g->v->cols / 2);
    return n;
}

/* The columns of an axis as a table of it. */
static bool axis_view(const grid *g, size_t axis, const size_t *list, size_t n, pe_view *out)
{
    const size_t points = g->v->rows - g->extra, size = g->size[axis], inner = inner_of(g, axis);
    double *x = pe_scratch(g->s, size * n, sizeof *x);
    if (!x)
        return false;
    for (size_t r = 0; r < points; r++)
        for (size_t i = 0; i < n; i++)
            x[r / inner % size * n + i] += g->v->x[(g->extra + r) * g->v->cols + list[i]];
    for (size_t i = 0; i < size * n; i++)
        x[i] *= (double)size / (double)points;
    *out = (pe_view){ x, size, n, false };
    return true;
}

/* ---- sinusoids ---- */

static const char *const layouts[] = { NULL, "interleaved", "blocks" };

static void put_ladder(pe_guess *w, double temperature, double shift, const pe_reading *r, size_t layout)
{
    if (layouts[layout])
        pe_guess_text(w, "layout", layouts[layout]);
    if (r->flip)
        pe_guess_flag(w, "flip_sin_to_cos", true);
    if (temperature != 10000)
        pe_guess_real(w, "temperature", temperature);
    if (shift != 0)
        pe_guess_real(w, "downscale_freq_shift", shift);
}

/* Coordinates of another unit than one a point. */
static void put_units(pe_guess *w, const grid *g, const pe_reading *r)
{
    if (r[0].first == 1 && r[1].first == 1)
        return;
    const double h = r[0].first * (double)g->size[0], v = r[1].first * (double)g->size[1];
    const double error = 1e-5 + 8 * g->s->grain / g->s->scale + r[0].first_error * (double)g->size[0] / h;
    if (fabs(h - v) <= 2 * error * h) { /* both axes reach the same size */
        const double base = pe_nice(h, error * h), whole = rint(base);
        if (fabs(base - whole) <= error * h && whole >= 1) {
            pe_guess_int(w, "base_size", (int64_t)whole);
        } else {
            pe_guess_int(w, "base_size", (int64_t)g->size[0]);
            pe_guess_real(w, "interpolation_scale", pe_nice((double)g->size[0] / h, error));
        }
        return;
    }
    if (fabs(r[0].first - r[1].first) <= 1e-4 * r[0].first)
        pe_guess_real(w, "interpolation_scale", pe_nice(1 / r[0].first, 1e-4 / r[0].first));
}

static void try_2d(const grid *g, const pe_reading *r, const char *odd, double temperature, double shift, size_t layout,
                   bool columns_first, int single)
{
    pe_guess w = pe_guess_begin(g->s, "sinusoidal_2d");
    pe_guess_int(&w, "embed_dim", (int64_t)g->v->cols);
    pe_guess_int(&w, "height", (int64_t)g->size[0]);
    pe_guess_int(&w, "width", (int64_t)g->size[1]);
    put_ladder(&w, temperature, shift, r, layout);
    put_units(&w, g, r);
    if (columns_first)
        pe_guess_text(&w, "axis_order", "w_first");
    if (odd)
        pe_guess_text(&w, "odd_dim", odd);
    if (g->extra) {
        pe_guess_flag(&w, "cls_token", true);
        if (g->extra != 1)
            pe_guess_int(&w, "extra_tokens", (int64_t)g->extra);
    }
    if (single)
        pe_guess_text(&w, single == 1 ? "compute_dtype" : "grid_dtype", "float32");
    pe_try(g->s, &w);
}

static void try_sizes(const grid *g, const pe_reading *r, const char *odd, double temperature, double shift, size_t layout)
{
    pe_guess w = pe_guess_begin(g->s, "sinusoidal_3d");
    double sizes[MOST_AXES];
    for (size_t k = 0; k < g->naxes; k++)
        sizes[k] = (double)g->size[k];
    pe_guess_int(&w, "embed_dim", (int64_t)g->v->cols);
    pe_guess_reals(&w, "sizes", sizes, g->naxes);
    put_ladder(&w, temperature, shift, r, layout);
    if (odd)
        pe_guess_text(&w, "odd_dim", odd);
    pe_try(g->s, &w);
}

/* DETR: channels before rows and columns, places from 1, mostly normalised to 0 .. 2 pi. */
static void try_detr(const grid *g, const pe_reading *r, double base)
{
    pe_guess w = pe_guess_begin(g->s, "detr_sine");
    pe_guess_int(&w, "num_pos_feats", (int64_t)g->v->cols / 2);
    pe_guess_int(&w, "height", (int64_t)g->size[0]);
    pe_guess_int(&w, "width", (int64_t)g->size[1]);
    if (base != 10000)
        pe_guess_real(&w, "temperature", base);
    if (r[0].first != 1) {
        const double scale = r[0].first * (double)g->size[0], offset = pe_nice(r[0].t - 1, 1e-4);
        pe_guess_flag(&w, "normalize", true);
        if (fabs(scale - pe_two_pi.hi) > 1e-4)
            pe_guess_real(&w, "scale", pe_nice(scale, 1e-5 * scale));
        if (offset != 0)
            pe_guess_real(&w, "offset", offset);
    }
    pe_try(g->s, &w);
    if (!pe_exact_found(g->s)) {
        pe_guess_text(&w, "compute_dtype", "float32");
        pe_try(g->s, &w);
    }
}

/* CogVideoX: a quarter of the channels for the frame, three eighths each for the column and the row. */
static void try_video(const grid *g, const pe_reading *r, double temperature, size_t width, size_t height)
{
    pe_guess w = pe_guess_begin(g->s, "sinusoidal_3d");
    const double space[] = { (double)width, (double)height };
    pe_guess_int(&w, "embed_dim", (int64_t)g->v->cols);
    pe_guess_int(&w, "temporal_size", (int64_t)g->size[0]);
    pe_guess_reals(&w, "spatial_size", space, 2);
    if (temperature != 10000)
        pe_guess_real(&w, "temperature", temperature);
    if (r[0].first != 1)
        pe_guess_real(&w, "temporal_interpolation_scale", pe_nice(1 / r[0].first, 1e-5 / r[0].first));
    if (r[1].first != 1)
        pe_guess_real(&w, "spatial_interpolation_scale", pe_nice(1 / r[1].first, 1e-5 / r[1].first));
    pe_try(g->s, &w);
}

/* What one spelling of the width asks for: the ladder's steps are those of `half` pairs an axis. */
static void try_width(const grid *g, const arrangement *a, const pe_reading *r, size_t best, const char *odd, double half)
{
    static const double shifts[] = { 0, 1 };
    for (size_t k = 0; k < 2; k++) {
        const double steps = half - shifts[k];
        double base[3] = { 10000 };
        size_t nb = 1;
        if (!(steps > 0))
            continue;
        if (r[best].pairs > 1)
            nb = pe_bases(pe_exp(r[best].step * steps), r[best].step_error * steps, base);
        const size_t layout = a->blocks ? 2 : r[best].interleaved && r[best].pairs > 1;
        for (size_t b = 0; b < nb && !pe_exact_found(g->s) && !g->s->status; b++) {
            if (g->naxes != 2) {
                try_sizes(g, r, odd, base[b], shifts[k], layout);
                continue;
            }
            for (int steps32 = 0; steps32 < 3 && !pe_exact_found(g->s); steps32++)
                if (!steps32 || pe_best(g->s) < 3e-4 * g->s->scale)
                    try_2d(g, r, odd, base[b], shifts[k], layout, a->place[0] == 1, steps32);
            if (layout == 1 && a->place[0] == 0 && !k)
                try_detr(g, r, base[b]);
        }
    }
}

/* Reads each axis and tries what its ladders say. */
static void try_arranged(const grid *g, const arrangement *a, const char *odd, double half)
{
    pe_reading r[MOST_AXES], of[MOST_AXES]; /* in the order of columns, of axes */
    size_t *list = pe_scratch(g->s, g->v->cols, sizeof *list), best = 0;
    if (!list)
        return;
    for (size_t k = 0; k < g->naxes; k++) {
        pe_view v;
        const size_t n = list_columns(g, a, k, list);
        if (n < 2 || !axis_view(g, a->place[k], list, n - n % 2, &v))
            return;
        pe_read_pairs(g->s, &v, &r[k]);
        best = r[k].pairs && (!r[best].pairs || r[k].pairs > r[best].pairs) ? k : best;
    }
    if (!r[best].pairs)
        return;
    for (size_t k = 0; k < g->naxes; k++)
        of[a->place[k]] = r[k].pairs ? r[k] : r[best];
    try_width(g, a, of, a->place[best], odd, half);
}

static void try_sinusoids(const grid *g)
{
    const size_t cols = g->v->cols, n = g->naxes, up = (cols + 2 * n - 1) / (2 * n);
    arrangement a = { 0 };
    for (size_t spelling = 0; spelling < 3 && !pe_exact_found(g->s) && !g->s->status; spelling++) {
        static const char *const odd[] = { NULL, "round_up_truncate", "zero_pad" };
        if ((cols % (2 * n) == 0) != (spelling == 0))
            continue;
        const size_t pairs = spelling == 1 ? up : cols / (2 * n);
        for (int blocks = 0; blocks < 2 && !pe_exact_found(g->s); blocks++) {
            a.blocks = blocks;
            for (size_t k = 0; k < n; k++)
                a.each[k] = blocks ? pairs : 2 * pairs;
            if (pairs && (!blocks || spelling == 0) && arrange(g, &a))
                try_arranged(g, &a, odd[spelling], (double)pairs);
        }
    }
}

/* Frames of which each is a grid of an unknown width: [frames, points, channels]. */
static void try_frames(grid *g)
{
    const size_t points = g->size[1], cols = g->v->cols;
    g->naxes = 3;
    for (size_t wide = 2; wide <= points / 2 && cols % 8 == 0 && !g->s->status && !pe_exact_found(g->s); wide++) {
        if (points % wide)
            continue;
        g->size[1] = points / wide, g->size[2] = wide;
        arrangement a = { .each = { cols / 4, 3 * cols / 8, 3 * cols / 8 } };
        pe_reading r[MOST_AXES], of[MOST_AXES] = { { 0 } };
        size_t *list = pe_scratch(g->s, cols, sizeof *list);
        if (!list || !assign(g) || !arrange(g, &a) || a.place[0])
            continue;
        bool known = true;
        for (size_t k = 0; k < 3 && known; k++) {
            pe_view v;
            const size_t n = list_columns(g, &a, k, list);
            known = axis_view(g, a.place[k], list, n - n % 2, &v) && pe_read_pairs(g->s, &v, &r[k]);
            of[a.place[k]] = r[k];
        }
        double base[3];
        const size_t most = known && of[0].pairs < of[1].pairs ? 1 : 0;
        const double steps = (double)of[most].pairs;
        const size_t nb = known ? pe_bases(pe_exp(of[most].step * steps), of[most].step_error * steps, base) : 0;
        for (size_t b = 0; b < nb && !pe_exact_found(g->s); b++) {
            try_video(g, of, base[b], g->size[2], g->size[1]);
            try_video(g, of, base[b], g->size[1], g->size[2]);
        }
    }
}

/* ---- rotary ---- */

/* The ladder of an axis from its columns of cosines or sines that turn enough: theta, and the first rung. 0: not known. */
static double theta_of(const grid *g, size_t axis, size_t pairs, double *first)
{
    size_t n = 0, m = 0, *list = pe_scratch(g->s, g->v->cols, sizeof *list);
    pe_view v;
    for (size_t c = 0; c < g->v->cols && list; c++)
        if (g->axis[c] == axis)
            list[n++] = c;
    if (!list || !n || !axis_view(g, axis, list, n, &v) || v.rows < 4)
        return 0;
    double *w = pe_scratch(g->s, 2 * n, sizeof *w), *sigma = w + n, *x = pe_scratch(g->s, v.rows, sizeof *x);
    if (!w || !x)
        return 0;
    for (size_t c = 0; c < n && m < pairs / 2; c++) {
        for (size_t r = 0; r < v.rows; r++)
            x[r] = v.x[r * n + c];
        const pe_wave wave = pe_wave_column(x, v.rows, g->s->allowed, g->s->grain / 4);
        if (!wave.known || (m && fabs(wave.w - w[m - 1]) < 1e-3 * w[m - 1]))
            continue;
        if (m && wave.w > w[m - 1])
            break;
        w[m] = wave.w;
        sigma[m++] = wave.error + 1e-9;
    }
    pe_rungs rung;
    if (m < 2 || !pe_rungs_fit(w, sigma, 0, m, &rung))
        return 0;
    const double base = pe_exp(rung.step * (double)pairs / 2);
    *first = pe_exp(rung.log_first);
    return pe_nice(base, base * (4 * rung.step_error * (double)pairs / 2 + 1e-4));
}

/* What is beside preset, layout and order. */
typedef struct turn {
    const char *preset, *layout, *order, *normalize;
    double theta;
    double reference[2]; /* 0: none */
} turn;

/* True: it is this one, and what is left is rounding. */
static bool try_turn(const grid *g, size_t dim, const turn *o)
{
    pe_guess w = pe_guess_begin(g->s, "rope_2d");
    pe_guess_text(&w, "preset", o->preset);
    pe_guess_int(&w, "head_dim", (int64_t)dim);
    pe_guess_int(&w, "height", (int64_t)g->size[0]);
    pe_guess_int(&w, "width", (int64_t)g->size[1]);
    pe_guess_text(&w, "layout", o->layout);
    pe_guess_text(&w, "axis_order", o->order);
    if (o->normalize)
        pe_guess_text(&w, "normalize_coords", o->normalize);
    if (o->theta > 0)
        pe_guess_real(&w, "rope_theta", o->theta);
    if (o->reference[0] > 0)
        pe_guess_reals(&w, "ref_feat_shape", o->reference, 2);
    if (!strcmp(o->preset, "timm") && o->theta > 0)
        pe_guess_flag(&w, "in_pixels", false);
    if (!pe_try(g->s, &w) || pe_exact_found(g->s))
        return false;
    pe_guess_text(&w, "compute_dtype", "float64"); /* presets work in float32 */
    pe_try(g->s, &w);
    return pe_best(g->s) <= 1e-5 * g->s->scale;
}

/* Whether columns repeat as a layout has them: 0 half, 1 interleaved, 2 half of each axis; 3, 4: no column does. */
static bool repeats(const grid *g, size_t form)
{
    const size_t cols = g->v->cols, half = cols / 2, apart = form == 0 ? half : form == 1 ? 1 : half / 2;
    const size_t stride = g->v->rows > 32 ? g->v->rows / 32 : 1;
    for (size_t r = 0; r < g->v->rows && form < 3; r += stride)
        for (size_t i = 0; i < half; i++) {
            const size_t c = form == 0 ? i : form == 1 ? 2 * i : i < half / 2 ? i : i + half / 2;
            const double *x = g->v->x + r * cols + c;
            if (fabs(x[0] - x[apart]) > 2 * g->s->allowed)
                return false;
        }
    return true;
}

static void try_rotary(const grid *g)
{
    static const char *const presets[] = { "qwen2_vl", "pixtral",     "gemma4", "llama4",
                                           "dinov3",   "hunyuan_dit", "timm",   "rope_vit" };
    static const char *const forms[] = { "half", "interleaved", "half_per_axis", "half_unduplicated",
                                         "interleaved_unduplicated" };
    static const char *const norms[] = { NULL, "max", "min" };
    const size_t cols = g->v->cols;
    for (size_t once = 0; once < 2; once++) {
        const size_t dim = once ? 2 * cols : cols;
        if (dim % 4 || dim < 4)
            continue;
        turn o = { 0 };
        double first[2] = { 0, 0 };
        double theta = theta_of(g, 0, dim / 2, &first[0]);
        const double other = theta_of(g, 1, dim / 2, &first[1]);
        theta = theta > 0 ? theta : other;
        first[0] = first[0] > 0 ? first[0] : first[1] * (double)g->size[1] / (double)g->size[0];
        first[1] = first[1] > 0 ? first[1] : first[0] * (double)g->size[0] / (double)g->size[1];
        for (size_t p = 0; p < 8; p++)
            for (size_t f = once ? 3 : 0; f < (once ? 5 : 3); f++) {
                if (!repeats(g, f))
                    continue;
                for (int order = 0; order < 2; order++)
                    for (int fitted = 0; fitted < (theta > 0 ? 3 : 1); fitted++)
                        for (size_t k = 0; k < (p == 4 && !fitted ? 3 : 1) && !pe_exact_found(g->s) && !g->s->status; k++) {
                            o = (turn){ presets[p], forms[f],           order ? "w_first" : "h_first",
                                        norms[k],   fitted ? theta : 0, { 0 } };
                            for (size_t i = 0; i < 2 && fitted == 2; i++)
                                o.reference[i] = pe_nice(first[i] * (double)g->size[i],
                                                         2e-3 * first[i] * (double)g->size[i]);
                            if ((fitted < 2 || o.reference[0] >= 1) && try_turn(g, dim, &o))
                                return;
                        }
            }
    }
}

/* ---- the finder ---- */

static void try_grid(grid *g)
{
    if (!assign(g))
        return;
    try_sinusoids(g);
    if (!pe_exact_found(g->s) && g->naxes == 2 && !(pe_best(g->s) < INFINITY))
        try_rotary(g);
}

void pe_find_grids(pe_search *s, const pe_view *v)
{
    const posenc_tensor *t = s->table;
    grid g = { .s = s, .v = v, .axis = pe_scratch(s, v->cols, 1) };
    if (v->rows < 4 || v->cols < 2 || !g.axis)
        return;
    if (t->rank > 2) { /* the axes are there to read */
        const int first = v->rows == (size_t)(posenc_tensor_count(t) / t->shape[t->rank - 1]) && !v->transposed ? 0 : 1;
        for (int k = first; k < t->rank - 1 + first && g.naxes < MOST_AXES; k++)
            if (t->shape[k] > 1)
                g.size[g.naxes++] = (size_t)t->shape[k];
        size_t points = 1;
        for (size_t k = 0; k < g.naxes; k++)
            points *= g.size[k];
        if (points == v->rows && g.naxes > 1)
            try_grid(&g);
        if (points == v->rows && g.naxes == 2 && !(pe_best(s) < INFINITY))
            try_frames(&g);
    }
    while (g.extra < v->rows / 2) {
        double most = 0;
        for (size_t c = 0; c < v->cols; c++)
            most = pe_max(most, fabs(v->x[g.extra * v->cols + c]));
        if (most > s->allowed)
            break;
        g.extra++;
    }
    for (size_t extra = g.extra + 1; extra-- > 0 && !pe_exact_found(s);) { /* a point whose row is zero is no extra token */
        g.extra = extra;
        const size_t points = v->rows - extra;
        for (size_t wide = 2; wide <= points / 2 && !s->status && !pe_exact_found(s); wide++) {
            if (points % wide)
                continue;
            g.naxes = 2;
            g.size[0] = points / wide, g.size[1] = wide;
            try_grid(&g);
        }
        if (!extra)
            break;
    }
}
