/* cg.h - solving with a Laplacian whose factor would not fit: conjugate gradients, eight right-hand sides at once.
 *
 * Preconditioned by the diagonal; on the complement of the constant vector, which is the kernel. Used by one thread at a
 * time (solve has scratch). Source: Hestenes, Stiefel 1952; singular systems: Kaasschieter 1988. */
#ifndef PE_CG_H
#define PE_CG_H

#include "laplacian.h"

typedef struct pe_cg {
    const pe_laplacian *lap; /* of none */
    double *r, *p, *q;       /* panels */
} pe_cg;

posenc_status pe_cg_init(pe_cg *c, const pe_laplacian *lap, posenc_error *err);
void pe_cg_fini(pe_cg *c);
/* x = L^+ b, panels (n, 8), which may be one, b centred, until the residual is at most `tol` of b in every column.
 * NO_CONVERGENCE where `most` steps do not suffice. */
posenc_status pe_cg_solve(pe_cg *c, const double *b, double *x, double tol, int64_t most, pe_pace *pace, posenc_error *err);

/* Subtracts from each column its mean. */
posenc_status pe_panel_center(int64_t n, double *x, pe_pace *pace);

#endif
