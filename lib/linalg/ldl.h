/* ldl.h - sparse L D L^T of a component's Laplacian, ordered for little fill; by columns, or
 * where the factor fills up by supernodes.
 *
 * One vertex, the one of largest degree, is ordered last. Grounded: it is left out, and the factor of the
 * remaining n - 1 rows is positive definite; solving with it and projecting out the kernel is the pseudo-inverse.
 * Nothing is pivoted: the shifted factor is only asked for the signs of its pivots.
 * Owns its arrays; used by one thread at a time (solve has scratch). */
#ifndef PE_LDL_H
#define PE_LDL_H

#include "supernodes.h"

typedef struct pe_ldl {
    const pe_laplacian *lap;
    int64_t n, rows;          /* of the matrix; factored: n - 1 when grounded */
    int32_t *order;           /* (n) order[k] is the vertex of row k; the ground is order[n - 1] */
    int32_t *place;           /* (n) its inverse */
    bool settled;             /* order is 0, 1, 2 .. */
    int32_t *parent;          /* (n) elimination tree, -1 at roots */
    int64_t *ptr;             /* (n + 1) columns of L; room for all n rows */
    int64_t *end;             /* (n) of the entries present in each column */
    int32_t *row;             /* (ptr[n]) ascending within a column */
    size_t held;              /* elements of entry */
    double *entry, *pivot;    /* (ptr[n]), (n) */
    double *scratch;          /* (n, 8) */
    pe_supernodes blocks;     /* count 0: by columns; else entry holds panels, and row, end are NULL */
    double entries, products; /* estimates by the ordering: of L; multiply-subtract pairs to factor */
} pe_ldl;

/* Orders; fills in order, place, entries and products. */
posenc_status pe_ldl_order(pe_ldl *f, const pe_component *c, pe_pace *pace, posenc_error *err);
/* The component will stand in the order that was found, which is handed over to the caller, who frees it. */
posenc_status pe_ldl_settle(pe_ldl *f, int32_t **order, pe_pace *pace, posenc_error *err);
/* Whether the factor is made of supernodes. */
bool pe_ldl_fills_up(const pe_ldl *f);
/* Counts the columns and factors, grounded when the component has a kernel. `lap` is borrowed. */
posenc_status pe_ldl_factor(pe_ldl *f, const pe_laplacian *lap, pe_pace *pace, posenc_error *err);
/* y = G x, panels (n, 8): G inverts the factored part and is 0 at the ground. */
posenc_status pe_ldl_solve(pe_ldl *f, const double *x, double *y, pe_pace *pace);
/* The same for `width` columns. */
posenc_status pe_ldl_solve_columns(pe_ldl *f, int64_t width, double *const *x, double *const *y, pe_pace *pace);
/* Eigenvalues of L below sigma, by Sylvester's law of inertia; -1 when a pivot is too small to trust. */
posenc_status pe_ldl_count_below(pe_ldl *f, double sigma, int64_t *count, pe_pace *pace, posenc_error *err);
void pe_ldl_fini(pe_ldl *f);

/* Bytes beside the entries: what ordering and factor hold for a matrix of n rows. */
uint64_t pe_ldl_bytes(int64_t n, int64_t arcs, double entries);

#endif
