/* minimum_degree.h - the order in which a sparse symmetric matrix is eliminated, for little fill.
 *
 * Approximate minimum degree: the graph of what is left is held as a quotient graph, whose elements stand for the cliques
 * that elimination makes; a degree is an upper bound, the sum over a vertex's elements of what they have beyond the newest.
 * Vertices that cannot be told apart are eliminated as one. Ties go to the vertex whose degree changed last, so the order
 * follows from the matrix alone. Rows far longer than most come last, unordered.
 * Source: Amestoy, Davis, Duff 1996, "An approximate minimum degree ordering algorithm". */
#ifndef PE_MINIMUM_DEGREE_H
#define PE_MINIMUM_DEGREE_H

#include "core/pace.h"
#include "linalg.h"

/* order (n): order[k] is the k-th vertex to eliminate, in postorder of the elimination tree; `last`, unless -1, is left out
 * of the graph and comes last. *entries, *products   upper bounds of the entries of L below the diagonal, and of the
 * multiply-subtract pairs of L D L^T; both without `last` */
posenc_status pe_minimum_degree(const pe_component *c, int64_t last, int32_t *order, double *entries, double *products,
                                pe_pace *pace, posenc_error *err);

#endif
