/* rope_nd.c - rotary positions in several dimensions: images and video of diffusion transformers.
 *
 *     angle[n][j of axis a] = coordinate of place n on axis a * rope_theta^(-2j / axes_dim[a])       [rad]
 *
 * Each axis has pairs of its own, axes_dim[a] / 2 of the head's, in the order of the axes: time, height, width of a grid,
 * or the columns of ids. With pair_order=alternate there is one pair of each axis in turn. axes_theta: a base each.
 * Source: FLUX.1's EmbedND, as diffusers has it (FluxPosEmbed, HunyuanVideoRotaryPosEmbed, get_3d_rotary_pos_embed). */
#include "sequence/grid_rotary.h"
#include "sequence/sines.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_rope_nd;

/* ---- rows ---- */

enum { FLOAT64 = PE_COMPUTE_FLOAT64, FLOAT32 = PE_COMPUTE_FLOAT32 };

typedef struct rope_nd {
    posenc_given given;
    int64_t head_dim;
    posenc_reals axes_dim;
    posenc_tensor ids;
    int64_t temporal_size, height, width;
    posenc_tensor crops_coords;
    int crop_end;
    posenc_reals interpolation_scale;
    double rope_theta;
    posenc_reals axes_theta;
    int pair_order, layout, compute_dtype;
} rope_nd;

static const double default_theta = 10000;

static const posenc_param rows[] = {
    { PE_INT(rope_nd, head_dim), .flags = PE_DERIVED, .min = 2, .max = 65536,
      .doc = "channels of a head; when absent, the sum of axes_dim" },
    { PE_REALS(rope_nd, axes_dim), .flags = PE_DERIVED, .min = 2, .max = 65536,
      .doc = "channels of each of 1 .. 8 axes, even; when absent, those of head_dim: a quarter, 3/8 and 3/8 on three axes "
             "(CogVideoX), a half each on two" },
    { PE_TENSOR(rope_nd, ids), .flags = PE_OPTIONAL,
      .doc = "[N, axes] places: a coordinate an axis, also negative or a fraction" },
    { PE_INT(rope_nd, temporal_size), .flags = PE_OPTIONAL, .max = 0x1p31,
      .doc = "frames of a grid of three axes; absent: a grid of height and width" },
    { PE_INT(rope_nd, height), .flags = PE_OPTIONAL, .max = 0x1p31, .doc = "rows of the grid, instead of ids" },
    { PE_INT(rope_nd, width), .flags = PE_OPTIONAL, .max = 0x1p31, .doc = "columns of the grid, instead of ids" },
    { PE_TENSOR(rope_nd, crops_coords), .flags = PE_OPTIONAL,
      .doc =
          "[[top, left], [bottom, right]]: height and width are spread over this crop, without its bottom and right edge" },
    { PE_ENUM(rope_nd, crop_end), .names = pe_grid_crops, .def = 0,
      .doc = "the last of n rows of a crop: bottom (n-1)/n (diffusers), or top + (bottom - top) (n-1)/n (NumPy without the "
             "endpoint); the same where the crop starts at 0" },
    { PE_REALS(rope_nd, interpolation_scale), .flags = PE_OPTIONAL, .min = 1e-6, .max = 1e6,
      .doc = "what the coordinates of each axis are divided by (Allegro)" },
    { PE_REAL(rope_nd, rope_theta), .def = default_theta, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies of each axis (HunyuanVideo 256)" },
    { PE_REALS(rope_nd, axes_theta), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,
      .doc = "a base for each axis, instead of rope_theta (Cosmos: 10000 scale^(d / (d - 2)) of an axis of d channels)" },
    { PE_ENUM(rope_nd, pair_order), .names = pe_grid_pair_orders, .def = PE_GRID_BY_AXIS,
      .doc = "the pairs of one axis after those of the other, or one of each axis in turn (LTX-Video), where all axes have "
             "as many" },
    { PE_ENUM(rope_nd, layout), .names = pe_grid_rotary_layouts, .def = PE_GRID_INTERLEAVED,
      .doc =
          "columns of pair j of P: j and j + P; 2j and 2j + 1 (FLUX, HunyuanVideo, CogVideoX, Wan); j alone of either; or "
          "a half layout for each axis (Allegro)" },
    { PE_ENUM(rope_nd, compute_dtype), .names = pe_compute_dtypes, .def = FLOAT64,
      .doc = "float64: exact frequencies and angles (FLUX); float32: each rounded to float32 (HunyuanVideo, CogVideoX)" },
};

static const posenc_output outputs[] = {
    { "inv_freq", "[head_dim/2]", "frequency of each pair, those of one axis after those of the other", NULL },
    { "cos", "[N, head_dim]",
      "cosines in the columns of layout (head_dim/2 where it is unduplicated); absent without places", NULL },
    { "sin", "[N, head_dim]", "sines in the same columns", NULL },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_rope_nd.table, name) - rows); }
static bool given(const rope_nd *p, const char *name) { return (p->given & bit(name)) != 0; }
static bool grid(const rope_nd *p) { return given(p, "height") && given(p, "width"); }
static bool any_size(const rope_nd *p) { return given(p, "temporal_size") || given(p, "height") || given(p, "width"); }

/* ---- what the parameters mean ---- */

static int axes(const rope_nd *p) { return (int)p->axes_dim.n; }
static size_t pairs_of(const rope_nd *p, int a) { return (size_t)p->axes_dim.v[a] / 2; }
static size_t pairs(const rope_nd *p) { return (size_t)p->head_dim / 2; }

/* Axis `a` of a grid: time, height, width, or the last two. */
static pe_grid_axis axis(const rope_nd *p, int a)
{
    const int which = a + (given(p, "temporal_size") ? 0 : 1);
    const double n = (double)(which == 0 ? p->temporal_size : which == 1 ? p->height : p->width);
    const bool crop = given(p, "crops_coords") && which > 0;
    return (pe_grid_axis){
        .type = !crop         ? PE_GRID_INDEX
                : p->crop_end ? PE_GRID_CROP_OPEN
                              : PE_GRID_CROP_SCALED,
        .n = n,
        .start = crop ? posenc_tensor_get(&p->crops_coords, which - 1) : 0,
        .stop = crop ? posenc_tensor_get(&p->crops_coords, 1 + which) : 0,
        .ref = n,
    };
}

/* Places; false where their number is over 2^63. */
static bool places(const rope_nd *p, int64_t *n)
{
    *n = given(p, "ids") ? p->ids.shape[0] : grid(p) ? p->height : 0;
    return given(p, "ids") || !grid(p) ||
           (posenc_mul_size(*n, p->width, n) && (!given(p, "temporal_size") || posenc_mul_size(*n, p->temporal_size, n)));
}

/* ---- check ---- */

/* axes_dim of a head that says only how wide it is. */
static void derive_axes(posenc_request *r, posenc_error *err)
{
    rope_nd *p = r->params;
    const int64_t d = p->head_dim;
    const int n = given(p, "ids") ? (p->ids.rank == 2 && p->ids.shape[1] <= 8 ? (int)p->ids.shape[1] : 0)
                  : any_size(p)   ? (given(p, "temporal_size") ? 3 : 2)
                                  : 0;
    if (!given(p, "head_dim") || (n != 2 && n != 3)) {
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "axes_dim", "absent",
                    "channels of each axis, or head_dim and places on two or three axes");
        return;
    }
    if (d % (n == 3 ? 16 : 4)) {
        pe_invalid(err, "head_dim", posenc_text("%lld", (long long)d), "a multiple of %d, or axes_dim", n == 3 ? 16 : 4);
        return;
    }
    double *v = posenc_alloc(r->arena, 3 * sizeof *v);
    if (!v) {
        pe_no_memory("axes_dim", err);
        return;
    }
    v[0] = (double)(n == 3 ? d / 4 : d / 2);
    v[1] = v[2] = (double)(n == 3 ? d / 8 * 3 : d / 2);
    p->axes_dim = (posenc_reals){ v, (size_t)n };
    p->given |= bit("axes_dim");
}

static void check_axes(rope_nd *p, posenc_error *err)
{
    double sum = 0;
    if (p->axes_dim.n < 1 || p->axes_dim.n > PE_ROTARY_AXES) {
        pe_invalid(err, "axes_dim", posenc_text("%zu numbers", p->axes_dim.n), "1 .. %d, one an axis", PE_ROTARY_AXES);
        return;
    }
    for (size_t a = 0; a < p->axes_dim.n; a++) {
        const double d = p->axes_dim.v[a];
        if (d / 2 != floor(d / 2))
            pe_invalid(err, posenc_text("axes_dim[%zu]", a).s, posenc_text("%.17g", d), "an even number of channels");
        sum += d;
    }
    if (!given(p, "head_dim"))
        p->head_dim = (int64_t)sum;
    if (sum != (double)p->head_dim)
        pe_invalid(err, "head_dim", posenc_text("%lld", (long long)p->head_dim), "the sum of axes_dim, %.17g", sum);
    for (size_t a = 1; a < p->axes_dim.n && p->pair_order == PE_GRID_ALTERNATE; a++)
        if (p->axes_dim.v[a] != p->axes_dim.v[0])
            pe_invalid(err, posenc_text("axes_dim[%zu]", a).s, posenc_text("%.17g", p->axes_dim.v[a]),
                       "%.17g as the first axis, or pair_order=by_axis", p->axes_dim.v[0]);
    if (p->pair_order == PE_GRID_ALTERNATE && p->layout == PE_GRID_HALF_PER_AXIS)
        pe_not_applicable(err, "pair_order", "alternate", "by_axis, or another layout");
    if (sum > 65536)
        pe_invalid(err, "axes_dim", posenc_text("a sum of %.17g", sum), "at most 65536 channels together");
}

static void check_bases(const rope_nd *p, posenc_error *err)
{
    if (p->rope_theta != default_theta)
        pe_not_applicable(err, "rope_theta", posenc_text("%.17g", p->rope_theta).s, "absent, or no axes_theta");
    if (p->axes_theta.n != (size_t)axes(p))
        pe_invalid(err, "axes_theta", posenc_text("%zu numbers", p->axes_theta.n), "%d, one an axis", axes(p));
}

static void check_places(const rope_nd *p, posenc_error *err)
{
    const int n = axes(p);
    if (given(p, "ids")) {
        if (any_size(p))
            pe_not_applicable(err, "ids", "given with a grid", "one of ids, and height and width");
        if (pe_tensor_shaped(&p->ids, 2, (const int64_t[]){ -1, n }, posenc_text("[N, %d], a column an axis", n).s, err))
            pe_tensor_within(&p->ids, -0x1p53, 0x1p53, "a coordinate in -2^53 .. 2^53", err);
    } else if (any_size(p)) {
        for (int i = 0; i < 2; i++)
            if (!given(p, i ? "width" : "height"))
                posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", i ? "width" : "height", "absent",
                            "a value, it is required in a grid");
        if (n != (given(p, "temporal_size") ? 3 : 2))
            pe_invalid(err, "axes_dim", posenc_text("%d numbers", n), "as many as the grid has axes: %s",
                       given(p, "temporal_size") ? "time, height, width" : "height, width");
    }
    if (given(p, "crops_coords"))
        pe_grid_check_crops(&p->crops_coords, err);
    if (given(p, "crops_coords") && !grid(p))
        pe_not_applicable(err, "crops_coords", "given without a grid", "absent, or height and width");
    if (!given(p, "crops_coords") && p->crop_end)
        pe_not_applicable(err, "crop_end", pe_grid_crops[p->crop_end], "scaled, or crops_coords");
    if (given(p, "interpolation_scale") && p->interpolation_scale.n != (size_t)n)
        pe_invalid(err, "interpolation_scale", posenc_text("%zu numbers", p->interpolation_scale.n), "%d, one an axis", n);
}

/* The base of axis a and the parameter that says it. */
static double theta(const rope_nd *p, int a) { return given(p, "axes_theta") ? p->axes_theta.v[a] : p->rope_theta; }

/* Every frequency is a finite number of the request's dtype and, with float32, every angle is one of float32. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const rope_nd *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const double most = pe_dtype_largest(dtype);
    const bool list = given(p, "axes_theta");
    for (int a = 0; a < (list ? axes(p) : 1); a++) {
        const char *name = list ? posenc_text("axes_theta[%d]", a).s : "rope_theta";
        const double base = theta(p, a);
        if (1 / base > most)
            pe_invalid(err, name, posenc_text("%.17g", base), "at least %g, so that each frequency is a finite %s", 1 / most,
                       posenc_dtype_name(dtype));
        else if (p->compute_dtype == FLOAT32 && (base < 1e-12 || base > 1e36))
            pe_invalid(err, name, posenc_text("%.17g", base), "1e-12 .. 1e36 with compute_dtype=float32");
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    rope_nd *p = r->params;
    if (!given(p, "axes_dim"))
        derive_axes(r, err);
    if (!err->n)
        check_axes(p, err);
    if (!err->n && given(p, "axes_theta"))
        check_bases(p, err);
    if (!err->n)
        check_places(p, err);
    if (!err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rope_nd *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const int64_t wide = (int64_t)pe_rotary_width((pe_grid_layout)p->layout, pairs(p)), n = (int64_t)pairs(p);
    int64_t rows_out;
    posenc_status st = pe_output(out, "inv_freq", dtype, 1, &n, err);
    if (st || !(given(p, "ids") || grid(p)))
        return st;
    if (!places(p, &rows_out))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "cos", "over 2^63 bytes", "a smaller shape");
    if ((st = pe_output(out, "cos", dtype, 2, (int64_t[]){ rows_out, wide }, err)))
        return st;
    return pe_output(out, "sin", dtype, 2, (int64_t[]){ rows_out, wide }, err);
}

static uint64_t scratch(const rope_nd *p)
{
    return pairs(p) * sizeof(pe_dd) + pe_rotary_scratch((pe_grid_layout)p->layout, pairs(p));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rope_nd *p = r->params;
    int64_t n = 0;
    places(p, &n); /* `shape` has seen that they fit */
    *out = (posenc_cost){ .ns = 20e3 * (double)axes(p) + (p->compute_dtype == FLOAT32 ? 5000.0 : 300.0) * (double)pairs(p) +
                                pe_rotary_ns((pe_grid_layout)p->layout, pairs(p), (double)n),
                          .scratch = scratch(p) };
}

/* ---- compute ---- */

/* What coordinates are made of: names are not looked up once a place. */
typedef struct places_of {
    const rope_nd *p;
    const pe_grid_axis *x;
    bool ids, scaled, single;
    int axes;
} places_of;

/* A coordinate divided by the scale of its axis. */
static pe_dd scaled(const places_of *o, int a, pe_dd v)
{
    if (!o->scaled)
        return v;
    const double s = o->p->interpolation_scale.v[a];
    return o->single ? (pe_dd){ (double)((float)v.hi / (float)s), 0 } : pe_dd_div(v, (pe_dd){ s, 0 });
}

static void coordinates(const places_of *o, int64_t i, pe_dd *out)
{
    for (int a = o->axes - 1; a >= 0; a--) {
        if (o->ids) {
            const double v = posenc_tensor_get(&o->p->ids, i * o->axes + a);
            out[a] = (pe_dd){ o->single ? pe_single(v) : v, 0 };
        } else {
            const int64_t n = (int64_t)o->x[a].n;
            out[a] = (o->single ? pe_grid_coordinate_float32 : pe_grid_coordinate)(&o->x[a], (double)(i % n));
            i /= n;
        }
        out[a] = scaled(o, a, out[a]);
    }
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const rope_nd *p = r->params;
    posenc_tensor *inv_freq = pe_tensor(out, "inv_freq"), *cosines = pe_tensor(out, "cos"), *sines = pe_tensor(out, "sin");
    const bool single = p->compute_dtype == FLOAT32;
    posenc_status st = PE_OK;
    pe_dd *w = malloc(scratch(p)), at[PE_ROTARY_AXES];
    pe_grid_axis x[PE_ROTARY_AXES] = { { 0 } };
    pe_rotary t = { .layout = (pe_grid_layout)p->layout,
                    .naxes = axes(p),
                    .alternate = p->pair_order == PE_GRID_ALTERNATE,
                    .single = single,
                    .pace = { .ctx = ctx } };
    if (!w)
        return pe_no_memory("memory", err);

    size_t made = 0;
    for (int a = 0; a < axes(p) && !st; made += t.pairs[a++]) {
        const pe_bands b = { .kind = PE_BAND_THETA, .theta = theta(p, a) };
        t.pairs[a] = pairs_of(p, a);
        t.w[a] = w + made;
        x[a] = grid(p) ? axis(p, a) : x[a];
        st = (single ? pe_bands_fill_float32 : pe_bands_fill)(&b, t.pairs[a], w + made, ctx);
    }
    for (size_t j = 0; j < made && !st; j++)
        posenc_convert(inv_freq->dtype, (char *)inv_freq->data + j * posenc_dtype_size(inv_freq->dtype), &w[j].hi, 1);
    pe_rotary_memory(&t, w + pairs(p));

    const places_of from = { p, x, given(p, "ids"), given(p, "interpolation_scale"), single, axes(p) };
    const int64_t n = cosines ? cosines->shape[0] : 0;
    for (int64_t i = 0; !st && i < n; i++) {
        coordinates(&from, i, at);
        if (!(st = pe_rotary_row(&t, at)))
            pe_rotary_put(&t, i, NULL, cosines, sines);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rope_nd = {
    .name = "rope_nd",
    .family = "rotary",
    .title = "rotary positions on several axes",
    .source = "Black Forest Labs 2024, FLUX.1, EmbedND; diffusers FluxPosEmbed, get_3d_rotary_pos_embed",
    .formula = "axis a has axes_dim[a] channels, the axes one after the other (of a grid: time, height, width);\n"
               "its pair j turns by coordinate / interpolation_scale[a] * rope_theta^(-2j / axes_dim[a])\n"
               "pair_order=alternate: pair 0 of each axis, then pair 1 of each axis, ...; axes_theta: a base for each axis",
    .example = "axes_dim=4,6,6&temporal_size=2&height=3&width=4",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(rope_nd, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
