/* grid_sines.h - sinusoids of the points of a grid: each axis has channels of its own.
 *
 * The row of a point holds, in the channels of each axis, the sinusoid (sines.h) of the point's coordinate on that axis.
 * What sinusoidal_2d and sinusoidal_3d share: the rows of the conventions, the share of channels, and the table.
 * Pure functions; any thread. Nothing here owns memory beyond a call. */
#ifndef PE_GRID_SINES_H
#define PE_GRID_SINES_H

#include "core/params.h"
#include "sequence/sines.h"

/* ---- conventions: parameters that every grid has ---- */

/* In the order of pe_grid_layouts: per axis sin cos sin cos ..., per axis all sines then all cosines, or the sines of all
 * axes before the cosines of all axes. */
enum { PE_GRID_INTERLEAVED = PE_INTERLEAVED, PE_GRID_SPLIT = PE_SPLIT, PE_GRID_BLOCKS };
extern const char *const pe_grid_layouts[];
/* What becomes of a width that the axes cannot share; in the order of pe_grid_odd_words. */
enum { PE_GRID_ERROR, PE_GRID_ZERO_PAD, PE_GRID_ROUND_UP_TRUNCATE };
extern const char *const pe_grid_odd_words[];

typedef struct pe_grid_form {
    int64_t embed_dim;
    int layout;
    bool flip_sin_to_cos;
    int odd_dim;
    double temperature, min_timescale, max_timescale, downscale_freq_shift;
    int freq_form, compute_dtype, grid_dtype;
} pe_grid_form;

/* clang-format off */
#define PE_GRID_ROWS(T, in)                                                                                                 \
    { PE_ROW_IN(T, in, embed_dim, PE_T_INT, int64_t), .flags = PE_REQUIRED, .min = 1, .max = 1048576,                       \
      .doc = "width of the table" },                                                                                        \
    { PE_ROW_IN(T, in, layout, PE_T_ENUM, int), .names = pe_grid_layouts, .def = PE_GRID_SPLIT,                             \
      .doc = "each axis sin cos sin cos ...; each axis all sines then all cosines; or the sines of all axes, then the "     \
             "cosines of all axes (timm)" },                                                                                \
    { PE_ROW_IN(T, in, flip_sin_to_cos, PE_T_BOOL, bool), .doc = "cosines first" },                                         \
    { PE_ROW_IN(T, in, odd_dim, PE_T_ENUM, int), .names = pe_grid_odd_words, .def = PE_GRID_ERROR,                          \
      .doc = "an embed_dim that is no multiple of twice the axes: refused; the rest of the columns are zero "               \
             "(tensor2tensor); or each axis has the next even number and the last columns are cut (multidim)" },            \
    { PE_ROW_IN(T, in, temperature, PE_T_REAL, double), .def = 10000, .min = 1e-100, .max = 1e100,                          \
      .doc = "base of the ladder of frequencies" },                                                                         \
    { PE_ROW_IN(T, in, min_timescale, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,                \
      .doc = "multiplies every frequency and divides max_timescale (1 when absent); given, the ladder has at least 1 "      \
             "step" },                                                                                                      \
    { PE_ROW_IN(T, in, max_timescale, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,                \
      .doc = "the base is max_timescale / min_timescale, instead of temperature; given, the ladder has at least 1 step" },  \
    { PE_ROW_IN(T, in, downscale_freq_shift, PE_T_REAL, double), .min = -1e100, .max = 1e100,                               \
      .doc = "exponents are -i / (channels of an axis / 2 - shift): 0 in all models of images, 1 in tensor2tensor" },       \
    { PE_ROW_IN(T, in, freq_form, PE_T_ENUM, int), .names = pe_freq_forms, .def = PE_POWER_POW,                             \
      .doc = "exp(-i ln(b)/n) or 1/b^(i/n): the same but for compute_dtype=float32" },                                      \
    { PE_ROW_IN(T, in, compute_dtype, PE_T_ENUM, int), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,               \
      .doc = "float64: exact frequencies and angles; float32: each rounded to float32, as many implementations do" },       \
    { PE_ROW_IN(T, in, grid_dtype, PE_T_ENUM, int), .flags = PE_DERIVED, .names = pe_compute_dtypes,                        \
      .doc = "float64: exact coordinates; float32: each division rounded to float32 (diffusers, whose frequencies and "     \
             "angles are float64 all the same); when absent, as compute_dtype" }
/* clang-format on */

/* Channels of each of `axes` axes that share the width alike: even, 0 when there are too few. */
int64_t pe_grid_share(const pe_grid_form *f, int axes);
/* For `check`. Fills in grid_dtype where it is absent; float64 coordinates do not go with float32 angles. */
void pe_grid_check_dtype(const posenc_request *r, pe_grid_form *f, posenc_error *err);
/* For `check`: what becomes of the width among `axes` axes. */
void pe_grid_check_width(const pe_grid_form *f, int axes, posenc_error *err);

/* ---- the grid ---- */

enum { PE_GRID_AXES = PE_MAX_RANK - 1, PE_GRID_SIZE = 1 << 24 };

typedef struct pe_grid_axis {
    int64_t size;              /* points, 0 .. PE_GRID_SIZE */
    double over, under, scale; /* the coordinate of point i is i / (under / over) / scale; all > 0 */
    pe_sines sines;            /* of an even width */
    bool rounded;              /* each of the two quotients to float32 */
    int64_t column[2];         /* where the first and the second half of its channels begin */
} pe_grid_axis;

typedef struct pe_grid {
    int axes;
    pe_grid_axis axis[PE_GRID_AXES]; /* the slowest first */
    int64_t width;                   /* columns of the table; channels beyond are cut */
    int64_t filled;                  /* columns that channels fill: those from here on are zero */
} pe_grid;

/* Gives the axis the channels first .. first + channels - 1 of `total`. */
void pe_grid_place(pe_grid_axis *axis, const posenc_request *r, const pe_grid_form *f, int64_t first, int64_t channels,
                   int64_t total);

/* For `check`, once the rest is sound: every coordinate, frequency and angle is finite, and the ladder has steps. */
void pe_grid_check_range(const posenc_request *r, const pe_grid_form *f, const pe_grid *g, posenc_error *err);

void pe_grid_cost(const pe_grid *g, posenc_cost *out);
/* Fills the rows of all points, the last axis fastest, (points, width) elements of `dtype`. */
posenc_status pe_grid_fill(const pe_grid *g, posenc_dtype dtype, void *data, posenc_context *ctx, posenc_error *err);

#endif
