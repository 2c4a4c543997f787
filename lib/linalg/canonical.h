/* canonical.h - one basis of an eigenspace that depends on the graph alone.
 *
 * An eigenspace has many orthonormal bases and every solver returns its own. Its projector R has none to choose:
 *   candidates  the nodes with R_vv >= (1 - 1e-6) max R_vv
 *   pivot u     the candidate of smallest view (where edges have no weights), then colour, then id
 *   column      R_.u / sqrt(R_uu), positive at its pivot; R loses the column's outer product; and so on.
 * Colours are the cells of the coarsest equitable partition of the graph (Weisfeiler-Lehman refinement from
 * weighted degrees to stability), numbered in an order that follows from structure alone. A view is the hash of what is
 * seen within four edges, which nodes of one colour share; it tells most candidates apart, and most that it does not a
 * symmetry of the graph exchanges, which is quickly seen. Colours are computed the first time that neither helps.
 * R is never formed: a basis V, one vector a row, gives R_.u = V^T V_.u. */
#ifndef PE_CANONICAL_H
#define PE_CANONICAL_H

#include "core/graph.h"
#include "core/pace.h"

/* Colours of the nodes: 0 .. n - 1, equal for nodes that refinement cannot tell apart. A relabelled graph has the same
 * colours at the images. O((n + arcs) log n).
 *   colour   (n) */
posenc_status pe_refine(const pe_csr *c, int32_t *colour, pe_pace *pace, posenc_error *err);

/* What the eigenspaces of one graph share. Nodes stand in `places`, component by component, so that a vector that
 * lives on one component is a run of places. Not thread-safe. */
typedef struct pe_canonical {
    const pe_csr *csr;
    const int64_t *begin;      /* (components + 1) places of component b: begin[b] .. begin[b + 1] - 1 */
    const int32_t *node;       /* (n) the node at a place */
    double *diagonal, *vector; /* (n) scratch, in one with what follows: R_vv; a vector */
    uint64_t *views;           /* (n, 2) memory for view */
    int32_t *other, *orbit;    /* (n) 0; of pe_mirrored: scratch; what it found */
    uint64_t *view;            /* (n) NULL until needed */
    int32_t *colour;           /* (n) NULL until needed */
    pe_pace *pace;             /* borrowed */
    double blur;               /* how far, as a length, the next space's vectors may be off: residual / gap; 0 at first */
} pe_canonical;

posenc_status pe_canonical_init(pe_canonical *w, const pe_csr *csr, const int64_t *begin, const int32_t *node, pe_pace *pace,
                                posenc_error *err);
void pe_canonical_fini(pe_canonical *w);

/* The sign that makes the canonical column of a vector that spans its space, one that is not zero in component 0 alone.
 *   x            (nodes of component 0, stride), read in its first column
 *   determined   as below */
posenc_status pe_canonical_sign(pe_canonical *w, const double *x, int64_t stride, double *sign, uint8_t *determined,
                                posenc_error *err);

/* Fills in w->view. O(n + arcs). */
posenc_status pe_views(pe_canonical *w);
/* Whether a symmetry of the graph, one that is easily found, exchanges u and v: w has views, and its edges no weights. */
bool pe_mirrored(pe_canonical *w, int32_t u, int32_t v);

/* A vector that is zero outside one component. */
typedef struct pe_block_vector {
    int64_t component;
    double *v; /* (nodes of the component) */
} pe_block_vector;

/* The first `count` canonical columns of the space spanned by m orthonormal vectors (ascending by component).
 *   basis        (m) its vectors are overwritten
 *   out          (count, stride) column t in row t, a place p at p - origin; only places of the column's component are
 *                written, the others must be zero
 *   determined   (count) 1: no pivot up to this column was chosen by id where the choice mattered, nor by a margin
 *                within 1e-8 of the threshold, and w->blur leaves no choice open. Candidates that all give the same column
 * (R_uv = sqrt(R_uu R_vv)) are no choice. */
posenc_status pe_canonical_columns(pe_canonical *w, const pe_block_vector *basis, int64_t m, int64_t count, double *out,
                                   int64_t stride, int64_t origin, uint8_t *determined, posenc_error *err);

#endif
