/* fourier_grid.c - sines and cosines of the places of a grid on bands of frequencies, axis by axis, as timm has them.
 *
 *     sin[r][c][a][k] = sin(coordinate of (r, c) on axis a * band[k])
 *     band[k] = pi times num_bands steps from 1 to max_res / 2, in equal ratios or equal steps      (in_pixels)
 *             = temperature^(-k / num_bands)                                                        (otherwise)
 *
 * Source: timm, layers/pos_embed_sincos.py, build_fourier_pos_embed, after Jaegle et al. 2021, arXiv:2103.03206. */
#include "sequence/grid_rotary.h"
#include "sequence/sines.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_fourier_grid;

/* ---- rows ---- */

enum { FLOAT64 = PE_COMPUTE_FLOAT64, FLOAT32 = PE_COMPUTE_FLOAT32 };
enum { SEPARATE, MAX, MIN };
static const char *const norms[] = { "separate", "max", "min", NULL };

typedef struct fourier_grid {
    posenc_given given;
    int64_t height, width, num_bands;
    bool in_pixels, linear_bands;
    double max_res, temperature;
    int grid_type;
    double grid_offset;
    int normalize_coords, grid_indexing;
    posenc_reals ref_feat_shape;
    bool include_grid;
    int compute_dtype;
} fourier_grid;

static const posenc_param rows[] = {
    { PE_INT(fourier_grid, height), .flags = PE_REQUIRED, .max = 0x1p31, .doc = "rows of the grid" },
    { PE_INT(fourier_grid, width), .flags = PE_REQUIRED, .max = 0x1p31, .doc = "columns of the grid" },
    { PE_INT(fourier_grid, num_bands), .def = 64, .min = 1, .max = 65536, .doc = "frequencies of each axis" },
    { PE_BOOL(fourier_grid, in_pixels), .def = 1,
      .doc = "bands of pixels over coordinates -1 .. 1; otherwise the ladder of temperature over places" },
    { PE_BOOL(fourier_grid, linear_bands), .doc = "with in_pixels: bands in equal steps instead of equal ratios" },
    { PE_REAL(fourier_grid, max_res), .def = 224, .min = 1, .max = 1e9,
      .doc = "with in_pixels: the last band is pi max_res / 2" },
    { PE_REAL(fourier_grid, temperature), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "without in_pixels: base of the ladder of frequencies" },
    { PE_ENUM(fourier_grid, grid_type), .flags = PE_DERIVED, .names = pe_grid_types, .def = PE_GRID_PIXEL,
      .doc =
          "coordinates: places from 0 on, -1 .. 1 with both ends, or centres of places in -1 .. 1; when absent pixel with "
          "in_pixels, otherwise index" },
    { PE_REAL(fourier_grid, grid_offset), .min = -0x1p53, .max = 0x1p53,
      .doc = "added to the places; not with grid_type=pixel, where timm ignores it" },
    { PE_ENUM(fourier_grid, normalize_coords), .names = norms, .def = SEPARATE,
      .doc = "what centred coordinates are divided by: each axis by its own size, both by the larger, both by the smaller" },
    { PE_ENUM(fourier_grid, grid_indexing), .names = pe_grid_indexes, .def = PE_GRID_IJ,
      .doc = "order of the two axes: row, column (ij) or column, row (xy); the order of the places stays" },
    { PE_REALS(fourier_grid, ref_feat_shape), .flags = PE_OPTIONAL, .min = 1, .max = 0x1p31,
      .doc = "height, width of the grid that the model was trained on: coordinates are multiplied by theirs and divided by "
             "this grid's" },
    { PE_BOOL(fourier_grid, include_grid), .doc = "give the coordinates too" },
    { PE_ENUM(fourier_grid, compute_dtype), .names = pe_compute_dtypes, .def = FLOAT64,
      .doc = "float64: exact coordinates, bands and angles; float32: each rounded to float32, as timm does" },
};

static const posenc_output outputs[] = {
    { "grid", "[height, width, 2, 1]", "coordinates; only with include_grid", NULL },
    { "sin", "[height, width, 2, num_bands]", "sines", NULL },
    { "cos", "[height, width, 2, num_bands]", "cosines", NULL },
};

/* ---- what the parameters mean ---- */

static pe_bands bands(const fourier_grid *p)
{
    return (pe_bands){ .kind = !p->in_pixels     ? PE_BAND_THETA
                               : p->linear_bands ? PE_BAND_LINEAR
                                                 : PE_BAND_LOG,
                       .theta = p->temperature,
                       .max_res = p->max_res };
}

/* Axis 0 is the row, axis 1 the column. */
static pe_grid_axis axis(const posenc_request *r, int which)
{
    const fourier_grid *p = r->params;
    const double size[2] = { (double)p->height, (double)p->width };
    return (pe_grid_axis){
        .type = (pe_grid_type)p->grid_type,
        .n = size[which],
        .offset = p->grid_offset,
        .denominator = p->normalize_coords == SEPARATE ? size[which]
                       : p->normalize_coords == MAX    ? pe_max(size[0], size[1])
                                                       : pe_min(size[0], size[1]),
        .ref = pe_given(r, "ref_feat_shape") ? p->ref_feat_shape.v[which] : size[which],
    };
}

/* ---- check ---- */

static void check_rules(const posenc_request *r, posenc_error *err)
{
    const fourier_grid *p = r->params;
    const posenc_reals *ref = &p->ref_feat_shape;
    if (p->in_pixels && p->temperature != 10000)
        pe_not_applicable(err, "temperature", posenc_text("%.17g", p->temperature).s, "absent, or in_pixels=false");
    if (!p->in_pixels && p->linear_bands)
        pe_not_applicable(err, "linear_bands", "true", "false, or in_pixels=true");
    if (!p->in_pixels && p->max_res != 224)
        pe_not_applicable(err, "max_res", posenc_text("%.17g", p->max_res).s, "absent, or in_pixels=true");
    if (p->grid_offset != 0 && p->grid_type == PE_GRID_PIXEL)
        pe_not_applicable(err, "grid_offset", posenc_text("%.17g", p->grid_offset).s, "0, or grid_type=index or centered");
    if (p->normalize_coords != SEPARATE && p->grid_type != PE_GRID_CENTERED)
        pe_not_applicable(err, "normalize_coords", norms[p->normalize_coords], "separate, or grid_type=centered");
    if (pe_given(r, "ref_feat_shape"))
        pe_reals_two("ref_feat_shape", ref, err);
    if (p->compute_dtype == FLOAT32 && !p->in_pixels && (p->temperature < 1e-12 || p->temperature > 1e36))
        pe_invalid(err, "temperature", posenc_text("%.17g", p->temperature), "1e-12 .. 1e36 with compute_dtype=float32");
}

/* Coordinates that are given stay finite numbers of the dtype. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const fourier_grid *p = r->params;
    const double most = pe_dtype_largest((posenc_dtype)r->common.dtype);
    for (int a = 0; a < 2 && p->include_grid; a++) {
        const pe_grid_axis x = axis(r, a);
        const double largest = pe_grid_largest(&x);
        if (largest > most)
            pe_invalid(err, a ? "width" : "height", posenc_text("coordinates up to %.17g", largest),
                       "at most %g, so that each is a finite %s, or include_grid=false", most,
                       posenc_dtype_name((posenc_dtype)r->common.dtype));
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    fourier_grid *p = r->params;
    if (!pe_given(r, "grid_type"))
        p->grid_type = p->in_pixels ? PE_GRID_PIXEL : PE_GRID_INDEX;
    check_rules(r, err);
    if (!err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const fourier_grid *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    int64_t size[4] = { p->height, p->width, 2, 1 };
    posenc_status st;
    if (p->include_grid && (st = pe_output(out, "grid", dtype, 4, size, err)))
        return st;
    size[3] = p->num_bands;
    if ((st = pe_output(out, "sin", dtype, 4, size, err)))
        return st;
    return pe_output(out, "cos", dtype, 4, size, err);
}

static uint64_t scratch(const fourier_grid *p)
{
    return (uint64_t)p->num_bands * sizeof(pe_dd) + pe_rotary_scratch(PE_GRID_HALF_UNDUPLICATED, 2 * (size_t)p->num_bands);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const fourier_grid *p = r->params;
    const double n = (double)p->height * (double)p->width, bands_ns = p->compute_dtype == FLOAT32 ? 5000 : 300;
    *out = (posenc_cost){ .ns = 20e3 + bands_ns * (double)p->num_bands +
                                pe_rotary_ns(PE_GRID_HALF_UNDUPLICATED, 2 * (size_t)p->num_bands, n),
                          .scratch = scratch(p) };
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const fourier_grid *p = r->params;
    const size_t n = (size_t)p->num_bands;
    const bool single = p->compute_dtype == FLOAT32, xy = p->grid_indexing == PE_GRID_XY;
    const pe_bands b = bands(p);
    const pe_grid_axis x[2] = { axis(r, 0), axis(r, 1) };
    posenc_tensor *grid = pe_tensor(out, "grid"), *sines = pe_tensor(out, "sin"), *cosines = pe_tensor(out, "cos");
    pe_dd *w = malloc(scratch(p));
    if (!w)
        return pe_no_memory("memory", err);
    pe_rotary t = { .layout = PE_GRID_HALF_UNDUPLICATED,
                    .naxes = 2,
                    .pairs = { n, n },
                    .w = { w, w },
                    .single = single,
                    .pace = { .ctx = ctx } };
    pe_rotary_memory(&t, w + n);

    posenc_status st = (single ? pe_bands_fill_float32 : pe_bands_fill)(&b, n, w, ctx);
    const int64_t places = p->height * p->width;
    for (int64_t i = 0; i < places && !st; i++) {
        const pe_grid_place at = pe_grid_at(i, p->width, 1);
        pe_dd c[2];
        c[xy] = (single ? pe_grid_coordinate_float32 : pe_grid_coordinate)(&x[0], (double)at.row);
        c[!xy] = (single ? pe_grid_coordinate_float32 : pe_grid_coordinate)(&x[1], (double)at.column);
        if ((st = pe_rotary_row(&t, c)))
            break;
        pe_rotary_put(&t, i, NULL, cosines, sines);
        if (grid) {
            const double values[2] = { c[0].hi, c[1].hi };
            posenc_convert(grid->dtype, (char *)grid->data + (size_t)i * 2 * posenc_dtype_size(grid->dtype), values, 2);
        }
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_fourier_grid = {
    .name = "fourier_grid",
    .family = "grid",
    .title = "sines and cosines of a grid's places on bands of frequencies",
    .source = "timm, layers/pos_embed_sincos.py, build_fourier_pos_embed; Jaegle et al. 2021, Perceiver, arXiv:2103.03206",
    .formula =
        "sin and cos of coordinate * band[k], axis by axis\n"
        "in_pixels: bands are pi times num_bands steps from 1 to max_res / 2, of equal ratio, or equal: linear_bands\n"
        "otherwise: temperature^(-k / num_bands)",
    .example = "height=3&width=4&num_bands=5&max_res=16&include_grid=true",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(fourier_grid, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
