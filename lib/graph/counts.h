/* counts.h - graphs by numbers of edges, for encodings that look at who is joined to whom and how often.
 *
 * Pure functions; any thread. */
#ifndef PE_COUNTS_H
#define PE_COUNTS_H

#include "core/graph.h"
#include "core/pace.h"

/* The matrix of graph g as pe_csr_build makes it, with numbers of edges in the place of weights: parallel edges count as
 * often as duplicate_edges says, edges of weight 0 not at all. Refuses negative weights, and a mean of the numbers of two
 * directions that is not whole. malloc'ed: pe_csr_fini. */
posenc_status pe_count_build(const posenc_graph *graph, int64_t g, const pe_csr_options *o, pe_csr *out, pe_pace *pace,
                             posenc_error *err);
/* Bytes that pe_count_build may hold at once, from sizes alone. */
uint64_t pe_count_bytes(int64_t nodes, int64_t arcs);

/* Refuses a value that the dtype of real outputs would make infinite. */
posenc_status pe_count_fits(posenc_dtype dtype, double largest, posenc_error *err);

#endif
