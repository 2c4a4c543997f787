/* sinusoidal_3d.c - sinusoids on grids of any number of axes: video, volumes.
 *
 *     sizes [s0, s1, ...]: the axes share embed_dim alike, in their order; table [s0, s1, ..., embed_dim]
 *     temporal_size T, spatial_size [W, H]: time has embed_dim/4 channels, column and row 3/8 each, in this order;
 *         table [T, H * W, embed_dim]
 *     each: sin and cos of x * w[i], w[i] = min_timescale * base^(-i / (c/2 - downscale_freq_shift)), c channels an axis
 *
 * x is the index, in the second form divided by temporal_ or spatial_interpolation_scale.
 * Source: of sizes tensor2tensor's add_timing_signal_nd and PositionalEncoding3D of multidim-positional-encoding; of the
 * other form diffusers' get_3d_sincos_pos_embed (CogVideoX). */
#include "sequence/grid_sines.h"

#include <math.h>

extern const posenc_encoding pe_sinusoidal_3d;

/* ---- rows ---- */

typedef struct sinusoidal_3d {
    posenc_given given;
    int preset;
    posenc_reals sizes, spatial_size;
    int64_t temporal_size;
    double spatial_interpolation_scale, temporal_interpolation_scale;
    pe_grid_form form;
} sinusoidal_3d;

enum { DIFFUSERS, MULTIDIM, TENSOR2TENSOR };
static const char *const preset_names[] = { "diffusers", "multidim", "tensor2tensor", NULL };

static const struct preset {
    int layout, odd_dim, freq_form, compute_dtype;
} presets[] = {
    [DIFFUSERS] = { PE_GRID_SPLIT, PE_GRID_ERROR, PE_POWER_POW, PE_COMPUTE_FLOAT64 },
    [MULTIDIM] = { PE_GRID_INTERLEAVED, PE_GRID_ROUND_UP_TRUNCATE, PE_POWER_POW, PE_COMPUTE_FLOAT32 },
    [TENSOR2TENSOR] = { PE_GRID_SPLIT, PE_GRID_ZERO_PAD, PE_POWER_EXP, PE_COMPUTE_FLOAT32 },
};

static const posenc_param rows[] = {
    { PE_ENUM(sinusoidal_3d, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc = "the conventions of a known implementation: sets the defaults of layout, odd_dim, freq_form, compute_dtype, "
             "grid_dtype, downscale_freq_shift and the timescales; given parameters win. diffusers is of the form with "
             "temporal_size, "
             "the others are of the form with sizes. diffusers: get_3d_sincos_pos_embed (CogVideoX); multidim: "
             "PositionalEncoding3D; tensor2tensor: add_timing_signal_nd" },
    { PE_REALS(sinusoidal_3d, sizes), .flags = PE_OPTIONAL, .max = PE_GRID_SIZE,
      .doc = "points of each axis, 1 to 7 axes, the slowest first; or temporal_size and spatial_size" },
    { PE_REALS(sinusoidal_3d, spatial_size), .flags = PE_OPTIONAL, .max = PE_GRID_SIZE,
      .doc = "columns and rows of a frame: [width, height]" },
    { PE_INT(sinusoidal_3d, temporal_size), .flags = PE_OPTIONAL, .max = PE_GRID_SIZE, .doc = "frames" },
    { PE_REAL(sinusoidal_3d, spatial_interpolation_scale), .def = 1, .min = 1e-6, .max = 1e6,
      .doc = "divides the coordinates in a frame" },
    { PE_REAL(sinusoidal_3d, temporal_interpolation_scale), .def = 1, .min = 1e-6, .max = 1e6,
      .doc = "divides the number of the frame" },
    PE_GRID_ROWS(sinusoidal_3d, form),
};

static const posenc_output outputs[] = {
    { .name = "table",
      .shape = "[sizes[0], sizes[1], ..., embed_dim]",
      .doc = "one row a point; with temporal_size [temporal_size, width * height, embed_dim]" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_sinusoidal_3d.table, name) - rows); }
static bool given(const sinusoidal_3d *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- check: the rules between rows ---- */

/* Turns a preset into the values it stands for: it leaves no trace, so that either spelling has the same digest. */
static void apply_preset(sinusoidal_3d *p, posenc_error *err)
{
    if (!given(p, "preset"))
        return;
    const struct preset *s = &presets[p->preset];
    p->given &= ~bit("preset");
    if (p->preset == DIFFUSERS ? given(p, "sizes") : given(p, "temporal_size") || given(p, "spatial_size"))
        pe_not_applicable(err, "preset", preset_names[p->preset], "%s",
                          p->preset == DIFFUSERS ? "multidim, tensor2tensor or none with sizes"
                                                 : "diffusers or none with temporal_size and spatial_size");
#define TAKE(member) p->form.member = given(p, #member) ? p->form.member : s->member
    TAKE(layout);
    TAKE(odd_dim);
    TAKE(freq_form);
    TAKE(compute_dtype);
#undef TAKE
    if (p->preset == DIFFUSERS && !given(p, "grid_dtype")) {
        p->form.grid_dtype = PE_COMPUTE_FLOAT32;
        p->given |= bit("grid_dtype");
    }
    if (p->preset != TENSOR2TENSOR)
        return;
    p->form.downscale_freq_shift = given(p, "downscale_freq_shift") ? p->form.downscale_freq_shift : 1;
    p->form.min_timescale = given(p, "min_timescale") ? p->form.min_timescale : 1;
    p->given |= bit("min_timescale");
    if (!given(p, "max_timescale") && !given(p, "temperature")) {
        p->form.max_timescale = 10000;
        p->given |= bit("max_timescale");
    }
}

static void check_scale(const char *name, double scale, posenc_error *err)
{
    if (scale != 1)
        pe_not_applicable(err, name, posenc_text("%.17g", scale).s, "1 with sizes");
}

static void check_sizes(const sinusoidal_3d *p, posenc_error *err)
{
    if (p->sizes.n < 1 || p->sizes.n > PE_GRID_AXES) {
        pe_invalid(err, "sizes", posenc_text("%zu sizes", p->sizes.n), "1 .. %d sizes", PE_GRID_AXES);
        return;
    }
    pe_reals_whole("sizes", &p->sizes, err);
    check_scale("spatial_interpolation_scale", p->spatial_interpolation_scale, err);
    check_scale("temporal_interpolation_scale", p->temporal_interpolation_scale, err);
    if (given(p, "temporal_size"))
        pe_not_applicable(err, "temporal_size", "given with sizes", "sizes, or temporal_size and spatial_size");
    if (given(p, "spatial_size"))
        pe_not_applicable(err, "spatial_size", "given with sizes", "sizes, or temporal_size and spatial_size");
    pe_grid_check_width(&p->form, (int)p->sizes.n, err);
}

static void check_frames(const sinusoidal_3d *p, posenc_error *err)
{
    static const char missing[] = "MISSING_PARAMETER";
    const bool frames = given(p, "temporal_size"), area = given(p, "spatial_size");
    if (!frames && !area) {
        posenc_fail(err, PE_INVALID, missing, "sizes", "absent",
                    "a value, it is required: or temporal_size and spatial_size");
        return;
    }
    if (!frames)
        posenc_fail(err, PE_INVALID, missing, "temporal_size", "absent", "a value, it is required with spatial_size");
    if (!area)
        posenc_fail(err, PE_INVALID, missing, "spatial_size", "absent", "a value, it is required with temporal_size");
    if (area && p->spatial_size.n != 2)
        pe_invalid(err, "spatial_size", posenc_text("%zu sizes", p->spatial_size.n), "2 sizes: [width, height]");
    pe_reals_whole("spatial_size", &p->spatial_size, err);
    if (p->form.odd_dim != PE_GRID_ERROR)
        pe_not_applicable(err, "odd_dim", pe_grid_odd_words[p->form.odd_dim], "error with temporal_size and spatial_size");
    if (p->form.embed_dim % 16)
        pe_invalid(err, "embed_dim", posenc_text("%lld", (long long)p->form.embed_dim),
                   "a multiple of 16 with temporal_size and spatial_size");
}

/* Axes share the width alike. */
static pe_grid grid_of_sizes(const posenc_request *r)
{
    const sinusoidal_3d *p = r->params;
    const int n = (int)p->sizes.n;
    const int64_t channels = pe_grid_share(&p->form, n);
    pe_grid g = { .axes = n, .width = p->form.embed_dim, .filled = n * channels };
    for (int k = 0; k < n; k++) {
        g.axis[k] = (pe_grid_axis){ .size = (int64_t)p->sizes.v[k], .over = 1, .under = 1, .scale = 1 };
        pe_grid_place(&g.axis[k], r, &p->form, k * channels, channels, n * channels);
    }
    return g;
}

/* Frames, rows, columns; channels: time, column, row. */
static pe_grid grid_of_frames(const posenc_request *r)
{
    const sinusoidal_3d *p = r->params;
    const int64_t d = p->form.embed_dim, eighth = d / 8;
    const double area = p->spatial_interpolation_scale;
    pe_grid g = { .axes = 3, .width = d, .filled = d };
    g.axis[0] = (pe_grid_axis){ p->temporal_size, 1, 1, .scale = p->temporal_interpolation_scale };
    g.axis[1] = (pe_grid_axis){ (int64_t)p->spatial_size.v[1], 1, 1, .scale = area };
    g.axis[2] = (pe_grid_axis){ (int64_t)p->spatial_size.v[0], 1, 1, .scale = area };
    pe_grid_place(&g.axis[0], r, &p->form, 0, 2 * eighth, d);
    pe_grid_place(&g.axis[1], r, &p->form, 5 * eighth, 3 * eighth, d);
    pe_grid_place(&g.axis[2], r, &p->form, 2 * eighth, 3 * eighth, d);
    return g;
}

static pe_grid grid(const posenc_request *r) { return pe_given(r, "sizes") ? grid_of_sizes(r) : grid_of_frames(r); }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    sinusoidal_3d *p = r->params;
    apply_preset(p, err);
    pe_grid_check_dtype(r, &p->form, err);
    if (given(p, "sizes"))
        check_sizes(p, err);
    else
        check_frames(p, err);
    if (err->n)
        return err->status;
    const pe_grid g = grid(r);
    pe_grid_check_range(r, &p->form, &g, err);
    return err->status;
}

/* ---- shape, cost, compute ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const pe_grid g = grid(r);
    int64_t size[PE_MAX_RANK];
    int n = 0;
    if (pe_given(r, "sizes")) {
        for (; n < g.axes; n++)
            size[n] = g.axis[n].size;
    } else {
        size[n++] = g.axis[0].size;
        size[n++] = g.axis[1].size * g.axis[2].size;
    }
    size[n++] = g.width;
    return pe_output(out, "table", (posenc_dtype)r->common.dtype, n, size, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const pe_grid g = grid(r);
    pe_grid_cost(&g, out);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const posenc_tensor *dst = pe_tensor(out, "table");
    const pe_grid g = grid(r);
    return pe_grid_fill(&g, dst->dtype, dst->data, ctx, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_sinusoidal_3d = {
    .name = "sinusoidal_3d",
    .family = "grid",
    .title = "sine and cosine of coordinates on a grid of any number of axes",
    .source = "tensor2tensor, add_timing_signal_nd; multidim-positional-encoding, PositionalEncoding3D; diffusers, "
              "get_3d_sincos_pos_embed",
    .formula =
        "sizes: n axes have c = embed_dim / n channels each, in their order; temporal_size and spatial_size: time has\n"
        "embed_dim / 4, column and row 3 embed_dim / 8 each; sin and cos of x * w[i],\n"
        "w[i] = min_timescale * base^(-i / (c/2 - downscale_freq_shift)), base as in sinusoidal_2d",
    .example = "sizes=2,3,4&embed_dim=12",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(sinusoidal_3d, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
