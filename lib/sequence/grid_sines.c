/* grid_sines.c - the share of channels, and the table of a grid, each sinusoid computed once. */
#include "sequence/grid_sines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pe_grid_layouts[] = { "interleaved", "split", "blocks", NULL };
const char *const pe_grid_odd_words[] = { "error", "zero_pad", "round_up_truncate", NULL };

int64_t pe_grid_share(const pe_grid_form *f, int axes)
{
    const int64_t pair = 2 * axes, up = f->odd_dim == PE_GRID_ROUND_UP_TRUNCATE ? pair - 1 : 0;
    return (f->embed_dim + up) / pair * 2;
}

/* The sinusoid of an axis of so many channels. */
static pe_sines sines_of(const posenc_request *r, const pe_grid_form *f, int64_t channels)
{
    const bool ratio = pe_given(r, "max_timescale"), shortest = pe_given(r, "min_timescale");
    return (pe_sines){
        .width = channels,
        .split = f->layout != PE_GRID_INTERLEAVED,
        .flip = f->flip_sin_to_cos,
        .shift = f->downscale_freq_shift,
        .at_least_one = ratio || shortest,
        .top = ratio ? f->max_timescale : f->temperature,
        .bottom = ratio && shortest ? f->min_timescale : 1,
        .shortest = shortest ? f->min_timescale : 1,
        .scale = 1,
        .form = (pe_power)f->freq_form,
        .single = f->compute_dtype == PE_COMPUTE_FLOAT32,
    };
}

void pe_grid_check_dtype(const posenc_request *r, pe_grid_form *f, posenc_error *err)
{
    if (!pe_given(r, "grid_dtype"))
        f->grid_dtype = f->compute_dtype;
    else if (f->grid_dtype == PE_COMPUTE_FLOAT64 && f->compute_dtype == PE_COMPUTE_FLOAT32)
        pe_not_applicable(err, "grid_dtype", "float64", "float32 with compute_dtype=float32");
}

void pe_grid_check_width(const pe_grid_form *f, int axes, posenc_error *err)
{
    if (f->odd_dim == PE_GRID_ERROR && f->embed_dim % (2 * axes))
        pe_invalid(err, "embed_dim", posenc_text("%lld", (long long)f->embed_dim),
                   "a multiple of %d, or odd_dim=zero_pad or round_up_truncate", 2 * axes);
}

void pe_grid_place(pe_grid_axis *axis, const posenc_request *r, const pe_grid_form *f, int64_t first, int64_t channels,
                   int64_t total)
{
    const bool blocks = f->layout == PE_GRID_BLOCKS;
    axis->sines = sines_of(r, f, channels);
    axis->rounded = f->grid_dtype == PE_COMPUTE_FLOAT32;
    axis->column[0] = blocks ? first / 2 : first;
    axis->column[1] = blocks ? total / 2 + first / 2 : first + channels / 2;
}

void pe_grid_check_range(const posenc_request *r, const pe_grid_form *f, const pe_grid *g, posenc_error *err)
{
    const bool ratio = pe_given(r, "max_timescale"), single = f->compute_dtype == PE_COMPUTE_FLOAT32;
    const char *base = ratio ? "max_timescale" : "temperature";
    const double base_value = ratio ? f->max_timescale : f->temperature, limit = single ? 120 : 900;
    for (int k = 0; k < g->axes; k++) {
        const pe_grid_axis *a = &g->axis[k];
        const double b = a->sines.top / a->sines.bottom;
        int reach;
        if (a->sines.width && !(pe_sines_steps(&a->sines).hi > 0)) {
            pe_invalid(err, "downscale_freq_shift", posenc_text("%.17g", f->downscale_freq_shift),
                       "below %lld, half of an axis's channels, or min_timescale or max_timescale given: the exponent's "
                       "divisor must be over 0",
                       (long long)a->sines.width / 2);
            return;
        }
        if (single && (b < 1e-36 || b > 1e36)) {
            pe_invalid(err, base, posenc_text("%.17g", base_value), "a base in 1e-36 .. 1e36 with compute_dtype=float32");
            return;
        }
        frexp((double)a->size * a->over / a->under / a->scale, &reach);
        if ((reach > 0 ? reach : 0) + pe_sines_exponent(&a->sines) > limit) {
            const char *blame = b < 1 ? base : a->sines.shortest > 1 ? "min_timescale" : base;
            pe_invalid(err, blame, posenc_text("%.17g", blame == base ? base_value : f->min_timescale),
                       "angles below 2^%.0f (compute_dtype=%s)", limit, pe_compute_dtypes[f->compute_dtype]);
            return;
        }
    }
}

/* ---- the table ---- */

typedef struct widths {
    uint64_t pairs, row; /* frequencies of all axes; columns of the widest row */
} widths;

static widths widths_of(const pe_grid *g)
{
    widths w = { 0, 0 };
    for (int k = 0; k < g->axes; k++) {
        const pe_columns c = pe_sines_columns(&g->axis[k].sines);
        w.pairs += c.pairs;
        w.row = c.width > w.row ? c.width : w.row;
    }
    return w;
}

void pe_grid_cost(const pe_grid *g, posenc_cost *out)
{
    const widths w = widths_of(g);
    double rows = 1;
    out->ns = 10e3 * g->axes;
    for (int k = 0; k < g->axes; k++) {
        const pe_grid_axis *a = &g->axis[k];
        const double pairs = (double)(a->sines.width / 2);
        rows *= (double)a->size;
        out->ns += pairs * (a->sines.single ? 3000 : 200) + (double)a->size * (80 + 12 * pairs);
    }
    out->ns += rows * (12 * g->axes + 0.4 * (double)g->width);
    out->scratch = w.pairs * sizeof(pe_dd) + w.row * sizeof(double);
}

typedef struct table {
    const pe_grid *g;
    pe_pace pace;
    posenc_dtype dtype;
    size_t element, row_size;
    char *data;
    double *row;              /* (widest axis) the sinusoid being made */
    pe_dd step[PE_GRID_AXES]; /* from one point's coordinate to the next */
    pe_columns columns[PE_GRID_AXES];
    const pe_dd *w[PE_GRID_AXES];                   /* (pairs) */
    int64_t stride[PE_GRID_AXES], at[PE_GRID_AXES]; /* rows between neighbours; the indices of the row being made */
} table;

/* Columns of half `h` of an axis that lie inside the table. */
static size_t inside(const pe_grid *g, int k, int h)
{
    const int64_t half = g->axis[k].sines.width / 2, room = g->width - g->axis[k].column[h];
    return (size_t)(room < 0 ? 0 : room < half ? room : half);
}

/* The coordinate of point i of axis k. */
static pe_dd coordinate(const table *t, int k, int64_t i)
{
    const pe_grid_axis *a = &t->g->axis[k];
    if (!a->rounded)
        return pe_dd_times(t->step[k], (double)i);
    const float q = (float)i / (float)(a->under / a->over);
    return (pe_dd){ (double)(q / (float)a->scale), 0 };
}

static posenc_status compute_axis(table *t, int k, char *to)
{
    const pe_grid_axis *a = &t->g->axis[k];
    posenc_status st = pe_sines_row(&a->sines, &t->columns[k], t->w[k], coordinate(t, k, t->at[k]), t->row, &t->pace);
    for (int h = 0; h < 2 && !st; h++)
        posenc_convert(t->dtype, to + (size_t)a->column[h] * t->element, t->row + h * (a->sines.width / 2),
                       inside(t->g, k, h));
    return st;
}

static posenc_status copy_axis(table *t, int k, char *to, const char *from)
{
    posenc_status st = PE_OK;
    for (int h = 0; h < 2 && !st; h++) {
        const size_t begin = (size_t)t->g->axis[k].column[h] * t->element;
        st = pe_pace_copy(&t->pace, to + begin, from + begin, inside(t->g, k, h) * t->element);
    }
    return st;
}

/* Makes row number `r`. An axis's channels are the same in every row of that index: they are computed in the first such
 * row, whose other indices are 0, and copied from it afterwards. */
static posenc_status make_row(table *t, int64_t r)
{
    char *to = t->data + (size_t)r * t->row_size;
    posenc_status st = PE_OK;
    for (int k = 0; k < t->g->axes && !st; k++) {
        const int64_t first = t->at[k] * t->stride[k];
        st = first == r ? compute_axis(t, k, to) : copy_axis(t, k, to, t->data + (size_t)first * t->row_size);
    }
    if (t->g->filled < t->g->width)
        memset(to + (size_t)t->g->filled * t->element, 0, (size_t)(t->g->width - t->g->filled) * t->element);
    for (int k = t->g->axes - 1; k >= 0 && ++t->at[k] == t->g->axis[k].size; k--)
        t->at[k] = 0;
    return st ? st : pe_pace_add(&t->pace, 20 + (t->g->width - t->g->filled));
}

/* Frequencies of all axes into `w`; axes of as many channels share theirs, for the conventions are the same. */
static posenc_status frequencies(table *t, pe_dd *w)
{
    posenc_status st = PE_OK;
    for (int k = 0; k < t->g->axes && !st; k++) {
        const pe_sines *s = &t->g->axis[k].sines;
        t->columns[k] = pe_sines_columns(s);
        t->w[k] = k && s->width == t->g->axis[k - 1].sines.width ? t->w[k - 1] : w;
        if (t->w[k] == w && t->columns[k].pairs) {
            st = pe_sines_frequencies(s, w, t->pace.ctx);
            w += t->columns[k].pairs;
        }
    }
    return st;
}

posenc_status pe_grid_fill(const pe_grid *g, posenc_dtype dtype, void *data, posenc_context *ctx, posenc_error *err)
{
    const size_t element = posenc_dtype_size(dtype);
    table t = { .g = g,
                .pace = { .ctx = ctx },
                .dtype = dtype,
                .element = element,
                .row_size = (size_t)g->width * element,
                .data = data };
    for (int k = 0; k < g->axes; k++)
        if (!g->axis[k].size)
            return PE_OK;
    int64_t rows = 1; /* fits: the caller's tensor has as many */
    for (int k = g->axes - 1; k >= 0; k--) {
        const pe_grid_axis *a = &g->axis[k];
        t.step[k] = pe_dd_div((pe_dd){ a->over, 0 }, pe_two_prod(a->under, a->scale));
        t.stride[k] = rows;
        rows *= a->size;
    }
    const widths width = widths_of(g);
    pe_dd *w = malloc(width.pairs * sizeof *w + width.row * sizeof *t.row + 1);
    if (!w)
        return pe_no_memory("memory", err);
    t.row = (double *)(w + width.pairs);
    posenc_status st = frequencies(&t, w);
    for (int64_t r = 0; r < rows && !st; r++)
        st = make_row(&t, r);
    free(w);
    return st;
}
