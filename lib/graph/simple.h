/* simple.h - the adjacency of a small plain graph without a single allocation.
 *
 * Plain: undirected, every edge once and of weight 1, nothing that options could refuse or change. Batches of molecules
 * are made of such graphs; any other is built by pe_csr_build, whose matrix of a plain graph this is. Any thread. */
#ifndef PE_SIMPLE_H
#define PE_SIMPLE_H

#include "core/graph.h"

enum { PE_SIMPLE_NODES = 512, PE_SIMPLE_ARCS = 4096 };

typedef struct pe_simple {
    pe_csr csr; /* points into this struct: no pe_csr_fini; components are not numbered */
    int64_t ptr[PE_SIMPLE_NODES + 2];
    int32_t col[PE_SIMPLE_ARCS];
    double degree[PE_SIMPLE_NODES];
} pe_simple;

/* False, and nothing is said of it, where graph g is not plain or larger. A loop counts once, or is left out. */
bool pe_simple_build(const posenc_graph *graph, int64_t g, int self_loops, pe_simple *out);

#endif
