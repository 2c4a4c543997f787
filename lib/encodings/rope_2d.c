/* rope_2d.c - rotary positions of the patches of an image, in every convention that vision encoders disagree about.
 *
 *     angle[n][j] = coordinate of place n on the axis of pair j * w[j]          [rad; with angle_unit=turn 2 pi times that]
 *
 * A head of d = head_dim channels has d/2 pairs: the first d/4 turn with one axis, the other d/4 with the other one; with
 * pair_order=alternate they take turns.
 *     frequency_split=independent   w[k] = rope_theta^(-4k / d), k = 0 .. d/4 - 1, on both axes
 *     frequency_split=alternate     rungs 0, 2, 4, ... of rope_theta^(-2k / d) on the first axis, 1, 3, 5, ... on the second
 *     in_pixels                     pi times bands from 1 to max_res / 2
 *     min_period and max_period     1 / period, periods in geometric steps, both ends included
 * Source: Heo et al. 2024, arXiv:2403.13298 (axial), and the implementations that `presets` names. */
#include "core/elementary.h"
#include "sequence/grid_rotary.h"
#include "sequence/sines.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_rope_2d;

/* ---- rows ---- */

enum { H_FIRST, W_FIRST };
static const char *const axis_orders[] = { "h_first", "w_first", NULL };
enum { INDEPENDENT, ALTERNATE };
static const char *const splits[] = { "independent", "alternate", NULL };
enum { RADIAN, TURN };
static const char *const angle_units[] = { "radian", "turn", NULL };
enum { FLOAT64 = PE_COMPUTE_FLOAT64, FLOAT32 = PE_COMPUTE_FLOAT32 };
enum { SEPARATE, MAX, MIN };
static const char *const norms[] = { "separate", "max", "min", NULL };

typedef struct rope_2d {
    posenc_given given;
    int preset;
    int64_t head_dim, height, width;
    posenc_tensor positions_xy, position_ids;
    double rope_theta, temperature;
    int axis_order, grid_indexing, frequency_split, pair_order, layout;
    bool rotate_half;
    int grid_type;
    double grid_offset;
    int normalize_coords;
    posenc_reals ref_feat_shape;
    posenc_tensor crops_coords;
    int crop_end;
    bool in_pixels, linear_bands;
    double max_res, min_period, max_period;
    int angle_unit;
    int64_t spatial_merge_size, num_prefix_tokens, num_suffix_tokens;
    int compute_dtype;
} rope_2d;

/* What each implementation does, all of them in float32. A preset stands for the values of its row; parameters that are
 * given win.
 * name, axis_order, layout, frequency_split, rope_theta, grid_type, in_pixels, angle_unit, grid_offset, num_suffix_tokens */
/* clang-format off */
#define PRESETS(X)                                                                                                  \
    X(qwen2_vl,    H_FIRST, HALF,                     INDEPENDENT, 10000, INDEX,    0, RADIAN, 0, 0)                \
    X(pixtral,     H_FIRST, HALF,                     ALTERNATE,   10000, INDEX,    0, RADIAN, 0, 0)                \
    X(gemma4,      W_FIRST, HALF_PER_AXIS,            INDEPENDENT, 100,   INDEX,    0, RADIAN, 0, 0)                \
    X(llama4,      W_FIRST, INTERLEAVED_UNDUPLICATED, INDEPENDENT, 10000, INDEX,    0, RADIAN, 1, 1)                \
    X(dinov3,      H_FIRST, HALF,                     INDEPENDENT, 100,   CENTERED, 0, TURN,   0, 0)                \
    X(hunyuan_dit, W_FIRST, INTERLEAVED,              INDEPENDENT, 10000, INDEX,    0, RADIAN, 0, 0)                \
    X(timm,        H_FIRST, INTERLEAVED,              INDEPENDENT, 10000, INDEX,    1, RADIAN, 0, 0)                \
    X(rope_vit,    W_FIRST, INTERLEAVED_UNDUPLICATED, INDEPENDENT, 100,   INDEX,    0, RADIAN, 0, 0)
/* clang-format on */

static const char *const preset_names[] = {
#define X(name, ...) #name,
    PRESETS(X)
#undef X
        NULL
};

static const struct preset {
    int axis_order, layout, frequency_split;
    double rope_theta;
    int grid_type;
    bool in_pixels;
    int angle_unit;
    double grid_offset;
    int64_t num_suffix_tokens;
} presets[] = {
#define X(name, order, layout, split, theta, type, pixels, unit, offset, suffix) \
    { order, PE_GRID_##layout, split, theta, PE_GRID_##type, pixels, unit, offset, suffix },
    PRESETS(X)
#undef X
};

static const double no_theta = 10000; /* the default, which stands where no rung is read */

static const posenc_param rows[] = {
    { PE_ENUM(rope_2d, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc =
          "the conventions of a known vision encoder: sets the defaults of axis_order, layout, frequency_split, "
          "rope_theta, grid_type, in_pixels, angle_unit, grid_offset, num_suffix_tokens and compute_dtype (float32 in all); "
          "given parameters win. qwen2_vl: vision tower of Qwen2-VL and 2.5-VL; pixtral: Pixtral (frequencies alternate "
          "between "
          "the axes); gemma4: vision tower of Gemma 4; llama4: of Llama 4 (coordinates from 1, a class token last); dinov3: "
          "DINOv3 (centred coordinates in turns); hunyuan_dit: HunyuanDiT in diffusers; timm: RotaryEmbeddingCat "
          "in pixels; rope_vit: RoPE-ViT axial, Heo et al." },
    { PE_INT(rope_2d, head_dim), .flags = PE_REQUIRED, .min = 4, .max = 65536,
      .doc = "channels of a head, a multiple of 4" },
    { PE_INT(rope_2d, height), .flags = PE_OPTIONAL, .max = 0x1p31, .doc = "rows of the grid of patches" },
    { PE_INT(rope_2d, width), .flags = PE_OPTIONAL, .max = 0x1p31, .doc = "columns of the grid of patches" },
    { PE_TENSOR(rope_2d, positions_xy), .flags = PE_OPTIONAL,
      .doc = "[N, 2] places instead of height and width: column, row (x, y)" },
    { PE_TENSOR(rope_2d, position_ids), .flags = PE_OPTIONAL,
      .doc = "[N, 2] places instead of height and width: row, column, as vision_position_ids gives them" },
    { PE_REAL(rope_2d, rope_theta), .def = no_theta, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies" },
    { PE_REAL(rope_2d, temperature), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100, .doc = "timm's name of rope_theta" },
    { PE_ENUM(rope_2d, axis_order), .names = axis_orders, .def = H_FIRST,
      .doc = "whether the first half of the pairs turns with the row (h) or with the column (w)" },
    { PE_ENUM(rope_2d, grid_indexing), .flags = PE_OPTIONAL, .names = pe_grid_indexes,
      .doc = "timm's name of axis_order: ij is h_first, xy is w_first; the order of the rows stays" },
    { PE_ENUM(rope_2d, frequency_split), .names = splits, .def = INDEPENDENT,
      .doc = "each axis has the ladder of head_dim/2 channels, or every other rung of that of head_dim (Pixtral)" },
    { PE_ENUM(rope_2d, pair_order), .names = pe_grid_pair_orders, .def = PE_GRID_BY_AXIS,
      .doc = "all pairs of the first axis, then those of the second; or one of each axis in turn (MoonViT: Kimi-VL, "
             "Kimi-K2.5)" },
    { PE_ENUM(rope_2d, layout), .names = pe_grid_rotary_layouts, .def = PE_GRID_HALF,
      .doc = "columns of pair j of P: j and j + P; 2j and 2j + 1; j alone of either; or a half layout for each axis" },
    { PE_BOOL(rope_2d, rotate_half), .flags = PE_OPTIONAL,
      .doc = "timm's name of layout: true is half, false is interleaved" },
    { PE_ENUM(rope_2d, grid_type), .flags = PE_DERIVED, .names = pe_grid_types, .def = PE_GRID_INDEX,
      .doc = "coordinates: places from 0 on, -1 .. 1 with both ends, or centres of places in -1 .. 1 (DINOv3); when absent, "
             "pixel with in_pixels and otherwise that of the preset, or index" },
    { PE_REAL(rope_2d, grid_offset), .min = -0x1p53, .max = 0x1p53,
      .doc = "added to the places; not with grid_type=pixel (timm ignores it there) or a crop" },
    { PE_ENUM(rope_2d, normalize_coords), .names = norms, .def = SEPARATE,
      .doc = "what centred coordinates are divided by: each axis by its own size, both by the larger, both by the smaller" },
    { PE_REALS(rope_2d, ref_feat_shape), .flags = PE_OPTIONAL, .min = 1, .max = 0x1p31,
      .doc = "height, width of the grid that the model was trained on: coordinates are multiplied by theirs and divided by "
             "this grid's (EVA-02)" },
    { PE_TENSOR(rope_2d, crops_coords), .flags = PE_OPTIONAL,
      .doc = "[[top, left], [bottom, right]]: the grid is spread over this crop, without its bottom and right edge" },
    { PE_ENUM(rope_2d, crop_end), .names = pe_grid_crops, .def = 0,
      .doc = "the last of n rows of a crop: bottom (n-1)/n (diffusers), or top + (bottom - top) (n-1)/n (Hunyuan-DiT's own, "
             "by NumPy); the same where the crop starts at 0" },
    { PE_BOOL(rope_2d, in_pixels), .doc = "bands of pixels instead of the ladder of rope_theta" },
    { PE_BOOL(rope_2d, linear_bands), .doc = "with in_pixels: bands in equal steps instead of equal ratios" },
    { PE_REAL(rope_2d, max_res), .def = 224, .min = 1, .max = 1e9,
      .doc = "with in_pixels: the last band is pi max_res / 2" },
    { PE_REAL(rope_2d, min_period), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,
      .doc = "with max_period: periods instead of the ladder of rope_theta" },
    { PE_REAL(rope_2d, max_period), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100, .doc = "with min_period" },
    { PE_ENUM(rope_2d, angle_unit), .names = angle_units, .def = RADIAN,
      .doc = "unit of coordinate times frequency; inv_freq is the frequency as it is" },
    { PE_INT(rope_2d, spatial_merge_size), .def = 1, .min = 1, .max = 0x1p31,
      .doc = "patches in the order of blocks of this many rows and columns (Qwen2-VL 2) instead of row by row" },
    { PE_INT(rope_2d, num_prefix_tokens), .max = 0x1p31, .doc = "rows of angle 0 before the grid" },
    { PE_INT(rope_2d, num_suffix_tokens), .max = 0x1p31, .doc = "rows of angle 0 after the grid (Llama-4: 1)" },
    { PE_ENUM(rope_2d, compute_dtype), .names = pe_compute_dtypes, .def = FLOAT64,
      .doc =
          "float64: exact coordinates, frequencies and angles; float32: each rounded to float32, as the presets' peers do" },
};

static const posenc_output outputs[] = {
    { "inv_freq", "[head_dim/4]", "frequencies of an axis; with frequency_split=alternate [head_dim/2]: of both", NULL },
    { "attention_factor", "[1]", "what cosines and sines are multiplied by: 1", "float64" },
    { "angles", "[N, head_dim/2]", "angle of each pair in their order; absent without a grid", NULL },
    { "cos", "[N, head_dim]", "cosines in the columns of layout (head_dim/2 where it is unduplicated)", NULL },
    { "sin", "[N, head_dim]", "sines in the same columns", NULL },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_rope_2d.table, name) - rows); }
static bool given(const rope_2d *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- what the parameters mean ---- */

static bool listed(const rope_2d *p) { return given(p, "positions_xy") || given(p, "position_ids"); }
static bool grid(const rope_2d *p) { return given(p, "height") && given(p, "width"); }
static bool periods(const rope_2d *p) { return given(p, "min_period") && given(p, "max_period"); }
static const posenc_tensor *list(const rope_2d *p) { return given(p, "positions_xy") ? &p->positions_xy : &p->position_ids; }

static int64_t places(const rope_2d *p) { return listed(p) ? list(p)->shape[0] : p->height * p->width; }

static pe_bands bands(const rope_2d *p)
{
    return (pe_bands){
        .kind = periods(p)      ? PE_BAND_PERIOD
                : !p->in_pixels ? PE_BAND_THETA
                                : (p->linear_bands ? PE_BAND_LINEAR : PE_BAND_LOG),
        .theta = p->rope_theta,
        .max_res = p->max_res,
        .min_period = p->min_period,
        .max_period = p->max_period,
    };
}

/* Axis 0 is the row, axis 1 the column. */
static pe_grid_axis axis(const rope_2d *p, int which)
{
    const double size[2] = { (double)p->height, (double)p->width }, n = size[which];
    const bool crop = given(p, "crops_coords");
    return (pe_grid_axis){
        .type = !crop         ? (pe_grid_type)p->grid_type
                : p->crop_end ? PE_GRID_CROP_OPEN
                              : PE_GRID_CROP_SCALED,
        .n = n,
        .offset = p->grid_offset,
        .denominator = p->normalize_coords == SEPARATE ? n
                       : p->normalize_coords == MAX    ? pe_max(size[0], size[1])
                                                       : pe_min(size[0], size[1]),
        .start = crop ? posenc_tensor_get(&p->crops_coords, which) : 0,
        .stop = crop ? posenc_tensor_get(&p->crops_coords, 2 + which) : 0,
        .ref = given(p, "ref_feat_shape") ? p->ref_feat_shape.v[which] : n,
    };
}

/* ---- check ---- */

/* Turns a preset, and the names that timm has for the same things, into the values they stand for: they leave no trace. */
static void resolve_words(rope_2d *p, posenc_error *err)
{
    const struct preset *s = given(p, "preset") ? &presets[p->preset] : NULL;
    if (given(p, "temperature")) {
        if (given(p, "rope_theta") && p->rope_theta != p->temperature)
            pe_invalid(err, "temperature", posenc_text("%.17g", p->temperature),
                       "rope_theta's value, or one of the two alone");
        p->rope_theta = p->temperature;
        p->given |= bit("rope_theta");
    }
    if (given(p, "grid_indexing")) {
        const int order = p->grid_indexing == PE_GRID_XY ? W_FIRST : H_FIRST;
        if (given(p, "axis_order") && p->axis_order != order)
            pe_invalid(err, "grid_indexing", posenc_text("%s", pe_grid_indexes[p->grid_indexing]),
                       "ij with axis_order=h_first, xy with axis_order=w_first, or one of the two alone");
        p->axis_order = order;
        p->given |= bit("axis_order");
    }
    if (given(p, "rotate_half")) {
        const int layout = p->rotate_half ? PE_GRID_HALF : PE_GRID_INTERLEAVED;
        if (given(p, "layout") && p->layout != layout)
            pe_invalid(err, "rotate_half", posenc_text("%s", p->rotate_half ? "true" : "false"),
                       "true with layout=half, false with layout=interleaved, or one of the two alone");
        p->layout = layout;
        p->given |= bit("layout");
    }
#define TAKE(member) p->member = s && !given(p, #member) ? s->member : p->member
    TAKE(axis_order);
    TAKE(layout);
    TAKE(frequency_split);
    TAKE(rope_theta);
    TAKE(in_pixels);
    TAKE(angle_unit);
    TAKE(grid_offset);
    TAKE(num_suffix_tokens);
#undef TAKE
    if (s && !given(p, "compute_dtype"))
        p->compute_dtype = FLOAT32;
    if (!given(p, "grid_type")) {
        p->grid_type = s ? s->grid_type : PE_GRID_INDEX;
        if (p->in_pixels && p->grid_type == PE_GRID_INDEX)
            p->grid_type = PE_GRID_PIXEL;
    }
    /* what a preset would set but parameters that are given make useless */
    if ((p->in_pixels || periods(p)) && !given(p, "rope_theta"))
        p->rope_theta = no_theta;
    if ((p->in_pixels || periods(p)) && !given(p, "frequency_split"))
        p->frequency_split = INDEPENDENT;
    if ((p->grid_type == PE_GRID_PIXEL || given(p, "crops_coords")) && !given(p, "grid_offset"))
        p->grid_offset = 0;
    p->given &= ~(bit("preset") | bit("temperature") | bit("grid_indexing") | bit("rotate_half"));
}

static void check_bands(const rope_2d *p, posenc_error *err)
{
    const bool either = given(p, "min_period") || given(p, "max_period");
    if (p->head_dim % 4)
        pe_invalid(err, "head_dim", posenc_text("%lld", (long long)p->head_dim), "a multiple of 4, such as %lld",
                   (long long)(p->head_dim + 4) / 4 * 4);
    if (either && !periods(p))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", given(p, "min_period") ? "max_period" : "min_period", "absent",
                    "a value, it is required beside %s", given(p, "min_period") ? "min_period" : "max_period");
    if (either && p->in_pixels)
        pe_not_applicable(err, "in_pixels", "true", "false, or neither min_period nor max_period");
    if ((either || p->in_pixels) && p->rope_theta != no_theta)
        pe_not_applicable(err, "rope_theta", posenc_text("%.17g", p->rope_theta).s,
                          "absent, or in_pixels=false and neither min_period nor max_period");
    if ((either || p->in_pixels) && p->frequency_split != INDEPENDENT)
        pe_not_applicable(err, "frequency_split", splits[p->frequency_split], "independent, or the ladder of rope_theta");
    if (p->pair_order == PE_GRID_ALTERNATE && p->layout == PE_GRID_HALF_PER_AXIS)
        pe_not_applicable(err, "pair_order", "alternate", "by_axis, or another layout");
    if (!p->in_pixels && p->linear_bands)
        pe_not_applicable(err, "linear_bands", "true", "false, or in_pixels=true");
    if (!p->in_pixels && p->max_res != 224)
        pe_not_applicable(err, "max_res", posenc_text("%.17g", p->max_res).s, "absent, or in_pixels=true");
}

static void check_list(const rope_2d *p, posenc_error *err)
{
    const posenc_tensor *t = list(p);
    if (given(p, "positions_xy") && given(p, "position_ids"))
        pe_not_applicable(err, "position_ids", "given with positions_xy", "one of the two");
    if (given(p, "height") || given(p, "width"))
        pe_not_applicable(err, t->name, "given with height or width", "one of height and width, positions_xy, position_ids");
    if (pe_tensor_shaped(t, 2, (const int64_t[]){ -1, 2 }, "[N, 2]", err))
        pe_tensor_within(t, -0x1p53, 0x1p53, "a coordinate in -2^53 .. 2^53", err);
    if (p->grid_type != PE_GRID_INDEX)
        pe_not_applicable(err, "grid_type", pe_grid_types[p->grid_type], "index, or height and width instead of a list");
    if (p->spatial_merge_size != 1)
        pe_not_applicable(err, "spatial_merge_size", posenc_text("%lld", (long long)p->spatial_merge_size).s,
                          "1, or height and width instead of a list");
    if (given(p, "ref_feat_shape"))
        pe_not_applicable(err, "ref_feat_shape", "given with a list", "absent, or height and width instead of a list");
}

static void check_grid(const rope_2d *p, posenc_error *err)
{
    const int64_t m = p->spatial_merge_size;
    const posenc_reals *ref = &p->ref_feat_shape;
    if (given(p, "height") != given(p, "width") && !listed(p))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", given(p, "height") ? "width" : "height", "absent",
                    "a value, it is required beside %s", given(p, "height") ? "height" : "width");
    if (grid(p) && p->height % m)
        pe_invalid(err, "height", posenc_text("%lld", (long long)p->height), "a multiple of spatial_merge_size = %lld",
                   (long long)m);
    if (grid(p) && p->width % m)
        pe_invalid(err, "width", posenc_text("%lld", (long long)p->width), "a multiple of spatial_merge_size = %lld",
                   (long long)m);
    if (given(p, "ref_feat_shape"))
        pe_reals_two("ref_feat_shape", ref, err);
    if (p->normalize_coords != SEPARATE && p->grid_type != PE_GRID_CENTERED)
        pe_not_applicable(err, "normalize_coords", norms[p->normalize_coords], "separate, or grid_type=centered");
    if (p->grid_offset != 0 && (p->grid_type == PE_GRID_PIXEL || given(p, "crops_coords")))
        pe_not_applicable(err, "grid_offset", posenc_text("%.17g", p->grid_offset).s,
                          "0, or grid_type=index or centered without a crop");
}

static void check_crop(const rope_2d *p, posenc_error *err)
{
    if (!given(p, "crops_coords")) {
        if (p->crop_end)
            pe_not_applicable(err, "crop_end", pe_grid_crops[p->crop_end], "scaled, or crops_coords");
        return;
    }
    pe_grid_check_crops(&p->crops_coords, err);
    if (!grid(p))
        pe_not_applicable(err, "crops_coords", "given without a grid", "absent, or height and width");
    if (p->grid_type != PE_GRID_INDEX)
        pe_not_applicable(err, "crops_coords", "given with another grid_type", "absent, or grid_type=index");
    if (given(p, "ref_feat_shape"))
        pe_not_applicable(err, "crops_coords", "given with ref_feat_shape", "one of the two");
}

/* What float32 peers raise to a power stays a float32. */
static void check_float32(const rope_2d *p, posenc_error *err)
{
    const struct {
        const char *name;
        double value;
        bool read;
    } base[] = { { "rope_theta", p->rope_theta, true },
                 { "min_period", p->min_period, periods(p) },
                 { "max_period", p->max_period, periods(p) } };
    for (size_t i = 0; i < PE_LEN(base); i++)
        if (base[i].read && (base[i].value < 1e-18 || base[i].value > 1e18))
            pe_invalid(err, base[i].name, posenc_text("%.17g", base[i].value), "1e-18 .. 1e18 with compute_dtype=float32");
}

/* Every frequency and angle is a finite number of the request's dtype. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const rope_2d *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const pe_bands b = bands(p);
    const bool single = p->compute_dtype == FLOAT32;
    const double most = pe_dtype_largest(single && dtype == PE_float64 ? PE_float32 : dtype), fastest = pe_bands_largest(&b);
    double largest = 0;
    if (single)
        check_float32(p, err);
    if (listed(p))
        for (int64_t i = 0, n = posenc_tensor_count(list(p)); i < n; i++)
            largest = pe_max(largest, fabs(posenc_tensor_get(list(p), i) + p->grid_offset));
    for (int a = 0; a < 2 && grid(p); a++) {
        const pe_grid_axis x = axis(p, a);
        largest = places(p) ? pe_max(largest, pe_grid_largest(&x)) : 0;
    }
    const char *bands_of = periods(p) ? "min_period" : p->in_pixels ? "max_res" : "rope_theta";
    const double value = periods(p) ? p->min_period : p->in_pixels ? p->max_res : p->rope_theta;
    if (fastest > most)
        pe_invalid(err, bands_of, posenc_text("%.17g", value), "frequencies up to %g, so that each is a finite %s", most,
                   posenc_dtype_name(dtype));
    else if (largest * fastest * (p->angle_unit == TURN ? 6.2831854 : 1) > most)
        pe_invalid(err,
                   listed(p)              ? list(p)->name
                   : p->height > p->width ? "height"
                                          : "width",
                   posenc_text("coordinates up to %.17g", largest), "angles up to %g, so that each is a finite %s", most,
                   posenc_dtype_name(dtype));
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    rope_2d *p = r->params;
    resolve_words(p, err);
    check_bands(p, err);
    if (listed(p))
        check_list(p, err);
    check_grid(p, err);
    check_crop(p, err);
    if (!err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost ---- */

static size_t pairs(const rope_2d *p) { return (size_t)p->head_dim / 2; }
static size_t rungs(const rope_2d *p) { return p->frequency_split == ALTERNATE ? pairs(p) : pairs(p) / 2; }
static int64_t total(const rope_2d *p) { return p->num_prefix_tokens + places(p) + p->num_suffix_tokens; }

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rope_2d *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const int64_t one = 1, n = (int64_t)rungs(p);
    posenc_status st = pe_output(out, "inv_freq", dtype, 1, &n, err);
    if (st || (st = pe_output(out, "attention_factor", PE_float64, 1, &one, err)) || !(grid(p) || listed(p)))
        return st;
    const int64_t width = (int64_t)pe_rotary_width((pe_grid_layout)p->layout, pairs(p));
    if ((st = pe_output(out, "angles", dtype, 2, (int64_t[]){ total(p), (int64_t)pairs(p) }, err)) ||
        (st = pe_output(out, "cos", dtype, 2, (int64_t[]){ total(p), width }, err)))
        return st;
    return pe_output(out, "sin", dtype, 2, (int64_t[]){ total(p), width }, err);
}

/* (pairs) frequencies, the first axis first; the row that is being made */
static uint64_t scratch(const rope_2d *p)
{
    return 2 * pairs(p) * sizeof(pe_dd) + pe_rotary_scratch((pe_grid_layout)p->layout, pairs(p));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rope_2d *p = r->params;
    const double n = grid(p) || listed(p) ? (double)total(p) : 0;
    *out = (posenc_cost){ .ns = 20e3 + (p->compute_dtype == FLOAT32 ? 5000.0 : 300.0) * (double)pairs(p) +
                                pe_rotary_ns((pe_grid_layout)p->layout, pairs(p), n),
                          .scratch = scratch(p) };
}

/* ---- compute ---- */

/* w: the frequencies of the first axis, then those of the second; `ladder` has room for as many. Fills inv_freq. */
static posenc_status frequencies(const rope_2d *p, pe_dd *w, pe_dd *ladder, posenc_tensor *inv_freq, posenc_context *ctx)
{
    const pe_bands b = bands(p);
    const size_t n = pairs(p) / 2, made = rungs(p), size = posenc_dtype_size(inv_freq->dtype);
    const bool single = p->compute_dtype == FLOAT32;
    posenc_status st = (single ? pe_bands_fill_float32 : pe_bands_fill)(&b, made, ladder, ctx);
    if (st)
        return st;
    for (size_t k = 0; k < n; k++) {
        w[k] = ladder[made == n ? k : 2 * k];
        w[n + k] = ladder[made == n ? k : 2 * k + 1];
    }
    for (size_t k = 0; k < made; k++)
        posenc_convert(inv_freq->dtype, (char *)inv_freq->data + k * size, &w[k].hi, 1);
    for (size_t k = 0; k < 2 * n && p->angle_unit == TURN && !single; k++)
        w[k] = pe_dd_mul(w[k], pe_two_pi);
    return PE_OK;
}

static pe_dd place(const rope_2d *p, double listed_at)
{
    if (p->compute_dtype == FLOAT32)
        return (pe_dd){ (double)((float)listed_at + (float)p->grid_offset), 0 };
    return pe_two_sum(listed_at, p->grid_offset);
}

/* The coordinates of place i: those of the first axis first. */
static void coordinates(const rope_2d *p, const pe_grid_axis *x, int64_t i, pe_dd *out)
{
    const bool single = p->compute_dtype == FLOAT32;
    pe_dd *row = &out[p->axis_order == W_FIRST], *column = &out[p->axis_order == H_FIRST];
    if (listed(p)) {
        const posenc_tensor *t = list(p);
        const bool xy = given(p, "positions_xy");
        *row = place(p, posenc_tensor_get(t, 2 * i + xy));
        *column = place(p, posenc_tensor_get(t, 2 * i + !xy));
    } else {
        const pe_grid_place at = pe_grid_at(i, p->width, p->spatial_merge_size);
        *row = (single ? pe_grid_coordinate_float32 : pe_grid_coordinate)(&x[0], (double)at.row);
        *column = (single ? pe_grid_coordinate_float32 : pe_grid_coordinate)(&x[1], (double)at.column);
    }
    for (int a = 0; a < 2 && single && p->angle_unit == TURN; a++) /* 2 pi times the coordinate comes first there */
        out[a].hi = (double)((float)out[a].hi * (float)pe_two_pi.hi);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const rope_2d *p = r->params;
    pe_dd *w = malloc(scratch(p));
    if (!w)
        return pe_no_memory("memory", err);
    pe_rotary t = {
        .layout = (pe_grid_layout)p->layout,
        .naxes = 2,
        .pairs = { pairs(p) / 2, pairs(p) / 2 },
        .w = { w, w + pairs(p) / 2 },
        .alternate = p->pair_order == PE_GRID_ALTERNATE,
        .single = p->compute_dtype == FLOAT32,
        .pace = { .ctx = ctx },
    };
    pe_rotary_memory(&t, w + 2 * pairs(p));
    posenc_convert(PE_float64, pe_tensor(out, "attention_factor")->data, &(double){ 1 }, 1);
    posenc_status st = frequencies(p, w, w + pairs(p), pe_tensor(out, "inv_freq"), ctx);

    posenc_tensor *angles = pe_tensor(out, "angles"), *cosines = pe_tensor(out, "cos"), *sines = pe_tensor(out, "sin");
    const int64_t n = angles ? total(p) : 0, first = p->num_prefix_tokens, last = n - p->num_suffix_tokens;
    const pe_grid_axis x[2] = { axis(p, 0), axis(p, 1) };
    for (int64_t i = 0; !st && i < n; i++) {
        pe_dd at[2] = { { 0, 0 }, { 0, 0 } };
        if (i >= first && i < last)
            coordinates(p, x, i - first, at);
        if (!(st = pe_rotary_row(&t, at)))
            pe_rotary_put(&t, i, angles, cosines, sines);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rope_2d = {
    .name = "rope_2d",
    .family = "rotary",
    .title = "rotary positions of image patches",
    .source = "Heo et al. 2024, Rotary position embedding for vision transformer, arXiv:2403.13298, and the presets' own",
    .formula = "angle = coordinate * w: the first head_dim/4 pairs with one axis, the others with the other one\n"
               "w[k] = rope_theta^(-4k / head_dim); alternate: first axis the even rungs of rope_theta^(-2k / head_dim),\n"
               "second the odd ones; in_pixels: pi times 1 .. max_res/2; or 1 / (min_period .. max_period)\n"
               "angle_unit=turn: times 2 pi; pair_order=alternate: one pair of each axis in turn",
    .example = "preset=qwen2_vl&head_dim=16&height=4&width=6",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(rope_2d, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
