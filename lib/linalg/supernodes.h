/* supernodes.h - L D L^T by dense blocks, for factors that fill up.
 *
 * Columns of L with (nearly) the same rows below form a supernode, stored as one dense panel: `width` columns of `height`
 * rows, column-major; the first `width` rows are its own columns, unit lower triangular, the others `row`, ascending.
 * Left-looking: a supernode receives what its descendants owe it, in an order that follows from the matrix alone, each
 * entry as a sum over columns in ascending order; so the bits depend on nothing else. */
#ifndef PE_SUPERNODES_H
#define PE_SUPERNODES_H

#include "laplacian.h"

typedef struct pe_supernodes {
    int64_t count;
    int64_t *first;  /* (count + 1) first column */
    int32_t *parent; /* (count) -1 at roots */
    int32_t *of;     /* (n) the supernode of a column */
    int64_t *below;  /* (count + 1) where a supernode's rows below start in row */
    int32_t *row;    /* (below[count]) */
    int64_t *panel;  /* (count + 1) where a supernode's panel starts in entries */
    int64_t tallest; /* most rows of a panel */
} pe_supernodes;

/* Bytes that the panels would take, and the structure. `parent` and `size` (n): elimination tree and entries below the
 * diagonal in each column; of the matrix with its rows in the order place, as in pe_ldl. */
posenc_status pe_supernodes_init(pe_supernodes *s, const pe_component *c, const int32_t *order, const int32_t *place,
                                 const int32_t *parent, const int64_t *size, pe_pace *pace, posenc_error *err);
void pe_supernodes_fini(pe_supernodes *s);

/* Factors L - shift I.
 *   entry, pivot   (panel[count] + 16), (n)
 *   least          pivots are raised to least times the diagonal entry where rounding took their sign; 0: left alone */
posenc_status pe_supernodes_factor(const pe_supernodes *s, const pe_laplacian *lap, const int32_t *order,
                                   const int32_t *place, double shift, double least, double *entry, double *pivot,
                                   pe_pace *pace, posenc_error *err);

/* x (n, width) becomes the solution of L D L^T x = x in its first `rows` rows, the others 0; width 1, 2, 4 or 8.
 *   scratch   (tallest + 8, width) aligned to 64 */
posenc_status pe_supernodes_solve(const pe_supernodes *s, const double *entry, const double *pivot, int64_t rows,
                                  int64_t width, double *x, double *scratch, pe_pace *pace);

#endif
