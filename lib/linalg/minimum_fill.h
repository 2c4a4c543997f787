/* minimum_fill.h - the order in which a sparse symmetric matrix is eliminated, for little fill.
 *
 * Approximate minimum mean local fill: next comes the vertex whose elimination joins the fewest neighbours that were not
 * joined before. The graph of what is left is held as a quotient graph, whose elements stand for the cliques that
 * elimination makes; a degree is an upper bound, the sum over a vertex's elements of what they have beyond the newest, and
 * the fill is that of a clique of so many but for what the newest element has joined. Vertices that cannot be told apart are
 * eliminated as one, and share its fill. Ties, fills within a 64th part of a power of two, go to the vertex that changed
 * last, and before any did to the first one: fronts go through the graph from where its numbers begin. Nothing but the
 * matrix decides. Rows far longer than most come last, unordered.
 *
 * Sources: Amestoy, Davis, Duff 1996, "An approximate minimum degree ordering algorithm"; Rothberg, Eisenstat 1998, "Node
 * selection strategies for bottom-up sparse matrix ordering". */
#ifndef PE_MINIMUM_FILL_H
#define PE_MINIMUM_FILL_H

#include "core/pace.h"
#include "linalg.h"

/* order (n): order[k] is the k-th vertex to eliminate, in postorder of the elimination tree; `last`, unless -1, is left out
 * of the graph and comes last.
 *   *entries    upper bound of the entries of L below the diagonal, without `last`
 *   *products   and of the multiply-subtract pairs of L D L^T */
posenc_status pe_minimum_fill(const pe_component *c, int64_t last, int32_t *order, double *entries, double *products,
                              pe_pace *pace, posenc_error *err);

#endif
