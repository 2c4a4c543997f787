/* grid_rotary.h - rotations on grids: coordinates of an axis, bands of frequencies, rows of cosines and sines.
 *
 *     angle[n][j] = coordinate of row n on the axis of pair j * w[j]        j = 0 .. pairs - 1
 *
 * The pairs of the first axis come first, then those of the second, ..., unless the axes alternate. What rope_2d, rope_nd,
 * rope_2d_mixed and fourier_grid share. Coordinates, frequencies and angles are double-double. Pure functions; any thread.
 */
#ifndef PE_GRID_ROTARY_H
#define PE_GRID_ROTARY_H

#include "core/exact.h"
#include "core/pace.h"
#include "core/params.h"

/* ---- coordinates ---- */

/* How index i of n becomes a coordinate; the first three in the order of pe_grid_types. */
typedef enum pe_grid_type {
    PE_GRID_INDEX,       /* (i + offset) ref / n */
    PE_GRID_PIXEL,       /* -1 .. 1, both ends included; -1 where n = 1; times ref / n */
    PE_GRID_CENTERED,    /* 2 (i + 0.5 + offset) / denominator ref / n - 1 */
    PE_GRID_CROP_SCALED, /* n steps from start to stop (n - 1) / n, both included: diffusers */
    PE_GRID_CROP_OPEN    /* n steps from start to stop, stop excluded: NumPy, endpoint=False */
} pe_grid_type;
extern const char *const pe_grid_types[];   /* index pixel centered */
extern const char *const pe_grid_crops[];   /* scaled open */
extern const char *const pe_grid_indexes[]; /* ij xy */
enum { PE_GRID_IJ, PE_GRID_XY };

typedef struct pe_grid_axis {
    pe_grid_type type;
    double n; /* > 0, or the axis has no coordinates */
    double offset, denominator, start, stop;
    double ref; /* a table for `ref` places is stretched over n; equal to n: as it is */
} pe_grid_axis;

pe_dd pe_grid_coordinate(const pe_grid_axis *a, double i);
/* The same as float32 peers form it, each operation rounded: lo is 0. Steps between two ends are torch.linspace's. */
pe_dd pe_grid_coordinate_float32(const pe_grid_axis *a, double i);
double pe_grid_largest(const pe_grid_axis *a); /* the largest |coordinate|; 0 where there is none */

/* The row and the column of place `i` of a grid. merge = 1: row by row; otherwise by blocks of merge * merge, as vision
 * encoders that join such blocks order their patches. merge divides height and width. */
typedef struct pe_grid_place {
    int64_t row, column;
} pe_grid_place;
pe_grid_place pe_grid_at(int64_t i, int64_t width, int64_t merge);

/* ---- bands ---- */

typedef enum pe_band_kind {
    PE_BAND_THETA,  /* theta^(-k / n) */
    PE_BAND_LINEAR, /* pi times n steps from 1 to max_res / 2 */
    PE_BAND_LOG,    /* pi (max_res / 2)^(k / (n - 1)) */
    PE_BAND_PERIOD  /* 1 / (min_period (max_period / min_period)^(k / (n - 1))) */
} pe_band_kind;

typedef struct pe_bands {
    pe_band_kind kind;
    double theta, max_res, min_period, max_period; /* > 0, those that the kind reads */
} pe_bands;

posenc_status pe_bands_fill(const pe_bands *b, size_t n, pe_dd *w, const posenc_context *ctx);
/* The same as float32 peers form them; each w[k].hi is a float32. */
posenc_status pe_bands_fill_float32(const pe_bands *b, size_t n, pe_dd *w, const posenc_context *ctx);
double pe_bands_largest(const pe_bands *b); /* no frequency is above it */

/* ---- rotations ---- */

/* Where the cosine (or sine) of pair j stands in its row; in the order of pe_grid_rotary_layouts. With P pairs: */
typedef enum pe_grid_layout {
    PE_GRID_HALF,                     /* j and P + j */
    PE_GRID_INTERLEAVED,              /* 2j and 2j + 1 */
    PE_GRID_HALF_UNDUPLICATED,        /* j: the table of `half` without its second half */
    PE_GRID_INTERLEAVED_UNDUPLICATED, /* j: as a complex table */
    PE_GRID_HALF_PER_AXIS             /* each axis has a `half` of its own, one after the other */
} pe_grid_layout;
extern const char *const pe_grid_rotary_layouts[];
/* All pairs of an axis before those of the next, or one of each axis in turn; in the order of pe_grid_pair_orders. */
enum { PE_GRID_BY_AXIS, PE_GRID_ALTERNATE };
extern const char *const pe_grid_pair_orders[];

enum { PE_ROTARY_AXES = 8 };

typedef struct pe_rotary {
    pe_grid_layout layout;
    int naxes;
    size_t pairs[PE_ROTARY_AXES];   /* of each axis */
    const pe_dd *w[PE_ROTARY_AXES]; /* (pairs[a]) */
    bool alternate;                 /* the pairs of the axes, as many each, take turns in the row */
    bool single;                    /* coordinate, angle, sine and cosine are each rounded to float32, as float32 peers do */
    pe_pace pace;
    double *sine, *cosine;      /* (all pairs) of the row made last */
    double *angle;              /* (all pairs), where they are asked for */
    double *turns;              /* (all pairs), those of the row in turn */
    double *spread;             /* (width) */
    pe_dd last[PE_ROTARY_AXES]; /* its coordinates: what has not changed is not computed again */
    bool started;
} pe_rotary;

size_t pe_rotary_width(pe_grid_layout layout, size_t pairs);
uint64_t pe_rotary_scratch(pe_grid_layout layout, size_t pairs);
double pe_rotary_ns(pe_grid_layout layout, size_t pairs, double rows);
/* Points the row's arrays into `memory` of pe_rotary_scratch bytes. */
void pe_rotary_memory(pe_rotary *t, void *memory);

/* Sines and cosines of a row with these coordinates (naxes). */
posenc_status pe_rotary_row(pe_rotary *t, const pe_dd *coordinate);
/* The row last made into row `index` of the tensors; `angles` may be NULL. */
void pe_rotary_put(pe_rotary *t, int64_t index, posenc_tensor *angles, posenc_tensor *cosines, posenc_tensor *sines);

/* ---- rules ---- */

/* crops_coords: [[top, left], [bottom, right]]. */
bool pe_grid_check_crops(const posenc_tensor *t, posenc_error *err);

#endif
