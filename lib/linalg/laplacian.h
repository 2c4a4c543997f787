/* laplacian.h - a component's Laplacian as an operator on panels.
 *
 * Borrows the component; owns its arrays. Immutable after init, so any number may read it. */
#ifndef PE_LAPLACIAN_H
#define PE_LAPLACIAN_H

#include "linalg.h"
#include "panel.h"

typedef struct pe_laplacian {
    const pe_component *c;
    double *diagonal; /* (n) */
    double *entry;    /* (arcs) off-diagonal entries, parallel to c->col; exactly symmetric */
    double *gauge;    /* (n) 1 / sqrt(degree) for sym; NULL for none */
    double *rest;     /* (n) diagonal - gauge^2 * sum of |weight|; NULL: 0 */
    double scale;     /* what residuals are measured by: 2, or twice the largest degree */
    double bound;     /* no eigenvalue is larger */
} pe_laplacian;

posenc_status pe_laplacian_init(pe_laplacian *l, const pe_component *c, pe_pace *pace, posenc_error *err);
void pe_laplacian_fini(pe_laplacian *l);

/* z = alpha (L - shift) x - beta y, panels (n, 8); y may be NULL when beta is 0; z is none of the others, or y */
posenc_status pe_laplacian_apply(const pe_laplacian *l, double alpha, double shift, const double *x, double beta,
                                 const double *y, double *z, pe_pace *pace);

/* Rayleigh quotients and residuals of `count` unit vectors x, each (n).
 * The quotient is a sum of squares over edges, so that even a tiny eigenvalue has small relative error. */
posenc_status pe_laplacian_measure(const pe_laplacian *l, int64_t count, double *const *x, double *values, double *residuals,
                                   pe_pace *pace, posenc_error *err);

#endif
