/* sinusoidal_2d.c - the sinusoids of rows and columns of a grid of patches, side by side.
 *
 *     y = row / (height / base_size) / interpolation_scale, x = column / (width / base_size) / interpolation_scale
 *     w[i] = min_timescale * base^(-i / (c/2 - downscale_freq_shift))      i = 0 .. c/2 - 1; c channels an axis
 *     table[row, column] = sin and cos of y * w[i] in the channels of y, of x * w[i] in those of x
 *
 * Without base_size a coordinate is the index over interpolation_scale. Source: He et al. 2021, Masked autoencoders,
 * arXiv:2111.06377, the authors' get_2d_sincos_pos_embed; the others of `presets` do the same in other orders.
 * Whether the first channels are those of the column or of the row is where implementations disagree: MAE's own code, in
 * spite of its names, has the column first; the function that transformers has since 5.x has the row first. */
#include "sequence/grid_sines.h"

#include <string.h>

extern const posenc_encoding pe_sinusoidal_2d;

/* ---- rows ---- */

enum { H_FIRST, W_FIRST };
static const char *const axis_orders[] = { "h_first", "w_first", NULL };
enum { H_MAJOR, W_MAJOR };
static const char *const row_orders[] = { "h_major", "w_major", NULL };
enum { INTERLEAVED = PE_GRID_INTERLEAVED, SPLIT = PE_GRID_SPLIT, BLOCKS = PE_GRID_BLOCKS };

typedef struct sinusoidal_2d {
    posenc_given given;
    int preset;
    int64_t height, width;
    pe_grid_form form;
    int axis_order, row_order;
    bool flatten, cls_token;
    int64_t extra_tokens, base_size;
    double interpolation_scale;
    bool interleave_sin_cos, reverse_coord;
} sinusoidal_2d;

/* name, layout, axis_order, row_order, odd_dim, freq_form, compute_dtype, flatten, base_size (0: absent), and:
 * t2t: downscale_freq_shift 1, timescales 1 and 10000 */
/* clang-format off */
#define PRESETS(X)                                                                                                     \
    X(mae,            SPLIT,       W_FIRST, H_MAJOR, ERROR,             POW, FLOAT64, 1, 0,  0) /* also DiT */           \
    X(vit_mae,        SPLIT,       H_FIRST, H_MAJOR, ERROR,             POW, FLOAT64, 1, 0,  0) /* transformers 5.x */   \
    X(diffusers,      SPLIT,       W_FIRST, H_MAJOR, ERROR,             POW, FLOAT64, 1, 16, 0) /* PixArt, SD3 */        \
    X(timm,           BLOCKS,      H_FIRST, H_MAJOR, ERROR,             POW, FLOAT32, 1, 0,  0) /* build_sincos2d */     \
    X(multidim,       INTERLEAVED, H_FIRST, H_MAJOR, ROUND_UP_TRUNCATE, POW, FLOAT32, 0, 0,  0) /* PositionalEncoding2D */\
    X(aimv2,          SPLIT,       H_FIRST, H_MAJOR, ERROR,             POW, FLOAT64, 1, 0,  0) /* transformers 5.x */   \
    X(rt_detr,        SPLIT,       H_FIRST, H_MAJOR, ERROR,             POW, FLOAT64, 1, 0,  0) /* 5.x; D-FINE */        \
    X(rt_detr_legacy, SPLIT,       W_FIRST, W_MAJOR, ERROR,             POW, FLOAT32, 1, 0,  0) /* transformers 4.56 */  \
    X(tensor2tensor,  SPLIT,       H_FIRST, H_MAJOR, ZERO_PAD,          EXP, FLOAT32, 0, 0,  1) /* add_timing_signal_nd */
/* clang-format on */

static const char *const preset_names[] = {
#define X(name, ...) #name,
    PRESETS(X)
#undef X
        NULL
};

static const struct preset {
    int layout, axis_order, row_order, odd_dim, freq_form, compute_dtype;
    bool flatten;
    int64_t base_size;
    bool t2t;
} presets[] = {
#define X(name, layout, axes, rows, odd, power, dtype, flatten, base, t2t) \
    { layout, axes, rows, PE_GRID_##odd, PE_POWER_##power, PE_COMPUTE_##dtype, flatten, base, t2t },
    PRESETS(X)
#undef X
};

static const posenc_param rows[] = {
    { PE_ENUM(sinusoidal_2d, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc = "the conventions of a known implementation: sets the defaults of layout, axis_order, row_order, odd_dim, "
             "freq_form, compute_dtype, grid_dtype, flatten, base_size, extra_tokens, downscale_freq_shift and the "
             "timescales; given parameters win. mae: the code of MAE and DiT, and what published ViT-MAE and AIMv2 weights "
             "need; "
             "vit_mae, aimv2: the code of transformers 5.x, which swaps the halves: real weights need mae; diffusers: "
             "get_2d_sincos_pos_embed (PixArt, SD3); timm: build_sincos2d_pos_embed; multidim: PositionalEncoding2D; "
             "rt_detr: RT-DETR and D-FINE in transformers 5.x; rt_detr_legacy: the same in transformers 4.56; "
             "tensor2tensor: add_timing_signal_nd" },
    { PE_INT(sinusoidal_2d, height), .flags = PE_REQUIRED, .max = PE_GRID_SIZE, .doc = "rows of the grid" },
    { PE_INT(sinusoidal_2d, width), .flags = PE_REQUIRED, .max = PE_GRID_SIZE, .doc = "columns of the grid" },
    PE_GRID_ROWS(sinusoidal_2d, form),
    { PE_ENUM(sinusoidal_2d, axis_order), .names = axis_orders, .def = H_FIRST,
      .doc = "whose channels come first: the row's (timm, the function of transformers 5.x), or the column's (MAE, DiT, "
             "diffusers, transformers 4.x; also the weights of ViT-MAE and AIMv2, whose 5.x models swap the halves)" },
    { PE_ENUM(sinusoidal_2d, row_order), .names = row_orders, .def = H_MAJOR,
      .doc =
          "order of the points: row by row, or column by column (RT-DETR in transformers 4.x, wrong for its own flattened "
          "image unless that is square)" },
    { PE_BOOL(sinusoidal_2d, flatten), .def = 1,
      .doc = "one axis of points; false: two axes, the slower one of row_order first (multidim, tensor2tensor)" },
    { PE_BOOL(sinusoidal_2d, cls_token), .doc = "zero rows before the points, extra_tokens of them" },
    { PE_INT(sinusoidal_2d, extra_tokens), .flags = PE_DERIVED, .max = 1 << 20,
      .doc = "zero rows that cls_token adds; when absent 1 (MAE), with preset=diffusers 0" },
    { PE_INT(sinusoidal_2d, base_size), .flags = PE_OPTIONAL, .min = 1, .max = PE_GRID_SIZE,
      .doc = "size that the grid is scaled to: coordinates are i / (size / base_size); when absent, i" },
    { PE_REAL(sinusoidal_2d, interpolation_scale), .def = 1, .min = 1e-6, .max = 1e6, .doc = "divides the coordinates" },
    { PE_BOOL(sinusoidal_2d, interleave_sin_cos), .flags = PE_OPTIONAL,
      .doc = "timm's name: true is layout=split, false is layout=blocks" },
    { PE_BOOL(sinusoidal_2d, reverse_coord), .flags = PE_OPTIONAL,
      .doc = "timm's name: true is axis_order=w_first with row_order=w_major, false is h_first with h_major" },
};

static const posenc_output outputs[] = {
    { .name = "table",
      .shape = "[extra_tokens + height * width, embed_dim]",
      .doc = "one row a point; with flatten=false [height, width, embed_dim]" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_sinusoidal_2d.table, name) - rows); }
static bool given(const sinusoidal_2d *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- check: the rules between rows ---- */

/* timm's name for a value of another row: that row takes it, unless it says otherwise itself. */
static void rename_to(sinusoidal_2d *p, const char *alias, bool on, const char *name, int *member, int value,
                      const char *const *words, posenc_error *err)
{
    if (given(p, name) && *member != value)
        pe_invalid(err, alias, posenc_text("%s", on ? "true" : "false"), "%s, or absent: %s is %s", on ? "false" : "true",
                   name, words[*member]);
    *member = value;
    p->given |= bit(name);
}

static void apply_aliases(sinusoidal_2d *p, posenc_error *err)
{
    if (given(p, "interleave_sin_cos")) {
        const bool on = p->interleave_sin_cos;
        rename_to(p, "interleave_sin_cos", on, "layout", &p->form.layout, on ? SPLIT : BLOCKS, pe_grid_layouts, err);
    }
    if (given(p, "reverse_coord")) {
        const bool on = p->reverse_coord;
        rename_to(p, "reverse_coord", on, "axis_order", &p->axis_order, on ? W_FIRST : H_FIRST, axis_orders, err);
        rename_to(p, "reverse_coord", on, "row_order", &p->row_order, on ? W_MAJOR : H_MAJOR, row_orders, err);
    }
    p->given &= ~(bit("interleave_sin_cos") | bit("reverse_coord"));
}

/* Turns a preset into the values it stands for: it leaves no trace, so that either spelling has the same digest. */
static void apply_preset(sinusoidal_2d *p)
{
    if (!given(p, "preset"))
        return;
    const struct preset *s = &presets[p->preset];
    p->given &= ~bit("preset");
#define TAKE(in, member) p->in member = given(p, #member) ? p->in member : s->member
    TAKE(form., layout);
    TAKE(form., odd_dim);
    TAKE(form., freq_form);
    TAKE(form., compute_dtype);
    TAKE(, axis_order);
    TAKE(, row_order);
    TAKE(, flatten);
#undef TAKE
    if (s->base_size) { /* diffusers */
        p->base_size = given(p, "base_size") ? p->base_size : s->base_size;
        p->given |= bit("base_size") | bit("extra_tokens");
        p->form.grid_dtype = given(p, "grid_dtype") ? p->form.grid_dtype : PE_COMPUTE_FLOAT32;
        p->given |= bit("grid_dtype");
    }
    if (!s->t2t)
        return;
    p->form.downscale_freq_shift = given(p, "downscale_freq_shift") ? p->form.downscale_freq_shift : 1;
    p->form.min_timescale = given(p, "min_timescale") ? p->form.min_timescale : 1;
    p->given |= bit("min_timescale");
    if (!given(p, "max_timescale") && !given(p, "temperature")) {
        p->form.max_timescale = 10000;
        p->given |= bit("max_timescale");
    }
}

static void check_tokens(sinusoidal_2d *p, posenc_error *err)
{
    if (!given(p, "extra_tokens"))
        p->extra_tokens = p->cls_token;
    if (p->extra_tokens && !p->cls_token)
        pe_not_applicable(err, "extra_tokens", posenc_text("%lld", (long long)p->extra_tokens).s, "0, or cls_token=true");
    else if (p->extra_tokens && !p->flatten)
        pe_not_applicable(err, "cls_token", "true", "false, or flatten=true: a grid of two axes has no row before it");
}

/* The grid as the table wants it: the axis that varies slowest first. */
static pe_grid grid(const posenc_request *r)
{
    const sinusoidal_2d *p = r->params;
    const bool scaled = pe_given(r, "base_size");
    const int64_t channels = pe_grid_share(&p->form, 2), sizes[2] = { p->height, p->width };
    pe_grid g = { .axes = 2, .width = p->form.embed_dim, .filled = 2 * channels };
    for (int k = 0; k < 2; k++) { /* 0: the axis of rows */
        pe_grid_axis *a = &g.axis[p->row_order == W_MAJOR ? 1 - k : k];
        *a = (pe_grid_axis){ .size = sizes[k], .over = 1, .under = 1, .scale = p->interpolation_scale };
        if (scaled) {
            a->over = (double)p->base_size;
            a->under = sizes[k] ? (double)sizes[k] : 1;
        }
        pe_grid_place(a, r, &p->form, (p->axis_order == W_FIRST ? 1 - k : k) * channels, channels, 2 * channels);
    }
    return g;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    sinusoidal_2d *p = r->params;
    apply_aliases(p, err);
    apply_preset(p);
    check_tokens(p, err);
    pe_grid_check_dtype(r, &p->form, err);
    pe_grid_check_width(&p->form, 2, err);
    const pe_grid g = grid(r);
    pe_grid_check_range(r, &p->form, &g, err);
    return err->status;
}

/* ---- shape, cost, compute ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const sinusoidal_2d *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const int64_t slow = p->row_order == W_MAJOR ? p->width : p->height,
                  fast = p->row_order == W_MAJOR ? p->height : p->width;
    if (!p->flatten)
        return pe_output(out, "table", dtype, 3, (int64_t[]){ slow, fast, p->form.embed_dim }, err);
    return pe_output(out, "table", dtype, 2, (int64_t[]){ p->extra_tokens + slow * fast, p->form.embed_dim }, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const sinusoidal_2d *p = r->params;
    const pe_grid g = grid(r);
    pe_grid_cost(&g, out);
    out->ns += 0.5 * (double)p->extra_tokens * (double)p->form.embed_dim;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const sinusoidal_2d *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "table");
    const size_t row_size = (size_t)p->form.embed_dim * posenc_dtype_size(dst->dtype);
    const pe_grid g = grid(r);
    char *data = dst->data;
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < p->extra_tokens && !st; i++, data += row_size) {
        memset(data, 0, row_size);
        st = pe_pace_add(&pace, (int64_t)row_size / 2);
    }
    return st ? st : pe_grid_fill(&g, dst->dtype, data, ctx, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_sinusoidal_2d = {
    .name = "sinusoidal_2d",
    .family = "grid",
    .title = "sine and cosine of the rows and columns of a grid",
    .source = "He et al. 2021, Masked autoencoders are scalable vision learners, arXiv:2111.06377; get_2d_sincos_pos_embed",
    .formula =
        "y = row / (height / base_size) / interpolation_scale, x = column / (width / base_size) / interpolation_scale\n"
        "w[i] = min_timescale * base^(-i / (c/2 - downscale_freq_shift)), c = embed_dim / 2 channels an axis,\n"
        "base = temperature or max_timescale / min_timescale; sin and cos of y * w[i] and of x * w[i]",
    .example = "height=4&width=6&embed_dim=16&axis_order=w_first",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(sinusoidal_2d, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
