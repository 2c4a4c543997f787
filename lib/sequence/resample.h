/* resample.h - one axis of a table made longer or shorter, as torch.nn.functional.interpolate and Pillow do it.
 *
 * Element j of `to` is a weighted sum of neighbouring elements of `from`, its taps. With step = from / to (from / sampled
 * where that is given) the place of j among the old elements is (j + 1/2) step - 1/2            each element is the middle
 * of a cell; align_corners=false j (from - 1) / (to - 1)         the end elements stay the ends; align_corners=true Places
 * are quotients of integers, formed exactly, unless `sampled` is given. Taps beyond an end are those of the end. Several
 * axes are resampled one after the other (the weights of a grid are products). Pure functions; any thread. */
#ifndef PE_RESAMPLE_H
#define PE_RESAMPLE_H

#include "core/pace.h"
#include "core/params.h"

typedef enum pe_kernel {
    PE_KERNEL_NEAREST,       /* the old element floor(j step): leans to the left */
    PE_KERNEL_NEAREST_EXACT, /* the old element floor((j + 1/2) step) */
    PE_KERNEL_LINEAR,        /* 2 taps; places before the first element count as the first */
    PE_KERNEL_CUBIC,         /* 4 taps: the convolution of Keys with coefficient a */
} pe_kernel;

enum { PE_RESAMPLE_MAX = 1 << 30 }; /* of from and to */
enum { PE_CUBIC_TAPS = 4 };
static const double pe_cubic_torch = -0.75,
                    pe_cubic_pil = -0.5; /* a of torch's bicubic; of Pillow's and of torch's antialias */

typedef struct pe_resample {
    int64_t from, to; /* 1 .. PE_RESAMPLE_MAX */
    pe_kernel kernel;
    bool align_corners;
    bool antialias; /* linear and cubic: the kernel is as wide as max(step, 1), its weights divided by their sum; also where
                       step < 1, so that cubic has another coefficient and other ends than without */
    double a;       /* of cubic, at most 0 */
    double sampled; /* 0, or the length whose step is taken: torch's scale_factor * from. At least `to` */
    bool single;    /* nearest and nearest-exact: step and place are each rounded to float32, as torch has them */
    const double *places; /* NULL, or (to) the places themselves, for the linear kernel without antialias */
} pe_resample;

/* Consecutive old elements first .. first + n - 1. */
typedef struct pe_taps {
    int64_t first, n;
} pe_taps;

/* The most taps that any element has. */
int64_t pe_resample_width(const pe_resample *r);
/* The taps of element j and their weights (at most pe_resample_width); several taps on an end element are added up. */
pe_taps pe_resample_taps(const pe_resample *r, int64_t j, double *weight);
/* |result| <= gain * largest |element|. */
double pe_resample_gain(const pe_resample *r);

/* The place of element j: the old element below it (which may be -1), and *fraction of the way to the next.
 * For linear and cubic without antialias. */
int64_t pe_resample_place(const pe_resample *r, int64_t j, double *fraction);
/* Weights of the elements at -1, 0, 1, 2 from the place below, `t` in 0 .. 1; exactly 0 1 0 0 at t = 0. */
void pe_cubic_weights(double t, double a, double weight[PE_CUBIC_TAPS]);

/* A grid of rows, columns and `inner` numbers a cell, row-major within tensors, from element `start` on.
 * A table of rows alone is a grid of one column (pe_one_column). */
typedef struct pe_grid {
    const pe_resample *axis[2]; /* rows, columns */
    int64_t inner;
    const posenc_tensor *src;
    int64_t src_start;
    posenc_tensor *dst; /* float64 sums are rounded to its dtype, once */
    int64_t dst_start;
} pe_grid;

extern const pe_resample pe_one_column;
uint64_t pe_resample_scratch(const pe_grid *g); /* bytes that pe_resample_grid allocates; src and dst are not looked at */
double pe_resample_ns(const pe_grid *g);
posenc_status pe_resample_grid(const pe_grid *g, pe_pace *pace, posenc_error *err);

/* ---- what encodings of given tables have in common ---- */

/* `n` elements from `from` on as they are, into `dst` from `to` on; rounded once. */
posenc_status pe_copy_elements(const posenc_tensor *src, int64_t from, posenc_tensor *dst, int64_t to, int64_t n,
                               pe_pace *pace);
/* For `check`: every |element| times gain is a finite number of the dtype; otherwise one fault, which names the element. */
bool pe_table_fits(const posenc_tensor *t, double gain, posenc_dtype dtype, posenc_error *err);
/* For `check`: a list of two sizes, each a whole number in 1 .. max. False after a fault. */
bool pe_two_sizes(const posenc_reals *list, const char *name, int64_t max, int64_t out[2], posenc_error *err);
int64_t pe_side_of_square(int64_t n); /* 0: n, at most 2^60, is no square of 1 or more */

#endif
