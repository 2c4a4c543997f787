/* sparse_small.h - a few eigenpairs of one small component whose Cholesky factor is sparse: a molecule, a protein.
 *
 * Eight shifts x at a time, L - x = F D F^T: the signs of D count the eigenvalues below x (Sylvester), which brackets every
 * eigenvalue sought; Rayleigh quotient iteration, one pair a lane, does the rest. A factorisation costs little more than
 * n divisions. Vectors are not proven here: the caller measures them, and pe_sparse_prove proves that none was missed.
 * A pe_sparse_solver is scratch of one thread; it is free()d by its owner. */
#ifndef PE_SPARSE_SMALL_H
#define PE_SPARSE_SMALL_H

#include "core/pace.h"
#include "linalg/linalg.h"

enum {
    PE_SPARSE_LEAST = 64, /* rows from which on it is faster than dense lanes */
    PE_SPARSE_ROWS = 256,
    PE_SPARSE_WANT = 64 /* most pairs */
};

typedef struct pe_sparse_solver pe_sparse_solver;

pe_sparse_solver *pe_sparse_new(void); /* NULL: no memory */
uint64_t pe_sparse_bytes(void);

/* Orders the rows of c and finds the factor's pattern. false: it is too dense for this to be worth while.
 *   entry   (arcs) L's off-diagonal entries      scale   a power of two that brings L's spectrum into 0 .. 4 */
bool pe_sparse_analyse(pe_sparse_solver *s, const pe_component *c, const double *entry, double scale);

/* Unit vectors of the `want` smallest eigenvalues beside the kernel's, 1 .. PE_SPARSE_WANT.
 *   careful  where what was found before was not good: goes on counting, and keeps away from singular factors
 *   panels   (ceil(want / 8), n, 8)
 * What pace returns. */
posenc_status pe_sparse_pairs(pe_sparse_solver *s, int64_t want, bool careful, double *panels, pe_pace *pace);

/* Given `want` orthonormal vectors, of residuals far below 2^-24 / scale, of values up to `last`: how many eigenvalues are
 * at most last + 2^-18 / scale, proven by the factorisation and a bound of its rounding errors; -1: no proof was found. next
 * where it is `want`: the eigenvalue after, above all that was proven to be empty; the gap to `last` within half of it */
posenc_status pe_sparse_prove(pe_sparse_solver *s, int64_t want, double last, int64_t *count, double *next, pe_pace *pace);

#endif
