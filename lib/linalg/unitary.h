/* unitary.h - one basis of a complex eigenspace that depends on the graph alone.
 *
 * As canonical.h, for Hermitian matrices. With R = V V^* the projector, of entries R_uv:
 *   candidates  the nodes with R_vv >= (1 - 1e-6) max R_vv
 *   pivot u     the candidate of smallest colour, then of smallest id
 *   column      R_.u / sqrt(R_uu), whose entry at the pivot is real and positive: that fixes the phase; R loses the
 *               column's outer product; and so on.
 * A real eigenspace gets the columns of canonical.h. */
#ifndef PE_UNITARY_H
#define PE_UNITARY_H

#include "linalg/canonical.h"

/* The first `count` canonical columns of the space spanned by m orthonormal complex vectors (ascending by component).
 * Complex numbers are pairs of float64: real part, imaginary part.
 *   basis        (m) their v are (2 * nodes of the component), overwritten
 *   out          (count, 2 * stride) column t in row t, a place p at 2 * (p - origin); only places of the column's
 *                component are written, the others must be zero
 *   determined   (count) as in pe_canonical_columns
 * w->csr is what colours are refined on: an arc u -> v may carry another weight than v -> u, the pattern is symmetric. */
posenc_status pe_unitary_columns(pe_canonical *w, const pe_block_vector *basis, int64_t m, int64_t count, double *out,
                                 int64_t stride, int64_t origin, uint8_t *determined, posenc_error *err);

#endif
