/* graph.h - graphs in normal form, and the CSR that graph encodings compute with.
 *
 * Immutable after posenc_graph_build; everything lives in the arena given there. */
#ifndef PE_GRAPH_H
#define PE_GRAPH_H

#include "posenc.h"

/* Arcs of all graphs of a batch sorted by (source, target, weight). Node ids are those of the whole batch.
 * Undirected: one arc (u, v), u <= v, for an edge listed in one direction or in both with agreeing weights
 * (as multisets); where both are listed and disagree all arcs are kept as listed and `conflict` is the index
 * in the client's list of the first arc that has no agreeing twin. */
struct posenc_graph {
    int64_t nodes, arcs, ngraphs;
    bool directed, batched, weighted; /* weighted: some weight is not 1 */
    const int64_t *ptr;               /* (ngraphs + 1) nodes */
    const int64_t *arc_ptr;           /* (ngraphs + 1) arcs */
    const int32_t *source, *target;   /* (arcs) */
    const double *weight;             /* (arcs), NULL when not weighted */
    const int64_t *listed;            /* (arcs) place in the client's list, for errors */
    const int64_t *conflict;          /* (ngraphs) -1: both listings agree; otherwise a place in the client's list */
    struct pe_graph_name *name;
};

/* What posenc_graph_id says, made when it is first asked for: pe_graph_identify alone reads or writes it. */
typedef struct pe_graph_name {
    char id[72]; /* "sha256-" and 64 hex digits; "": not known yet */
} pe_graph_name;

/* *id: a hash of the content, which lives as long as the graph. Any thread. Polls ctx (NULL: none). BUSY: no memory. */
posenc_status pe_graph_identify(const posenc_graph *g, const char **id, posenc_context *ctx, posenc_error *err);

enum { PE_SYMMETRIZE_ERROR, PE_SYMMETRIZE_MAX, PE_SYMMETRIZE_SUM, PE_SYMMETRIZE_MEAN };
enum { PE_DIRECTED_SYMMETRIZE, PE_DIRECTED_ERROR };
enum { PE_LOOPS_DROP, PE_LOOPS_KEEP };
enum { PE_DUPLICATES_SUM, PE_DUPLICATES_MAX, PE_DUPLICATES_ERROR };

extern const char *const pe_symmetrize_words[], *const pe_on_directed_words[], *const pe_self_loops_words[],
                                                                                   *const pe_duplicate_edges_words[];

typedef struct pe_csr_options {
    int symmetrize, on_directed, self_loops, duplicate_edges;
    bool allow_negative;
    bool negative_row;  /* the encoding has a row allow_negative, which faults speak of */
    bool no_components; /* they are not asked for: not numbered */
    bool directed;      /* a directed graph keeps its arcs: row u holds the targets of u; on_directed is not looked at */
} pe_csr_options;

/* One graph of the batch as an adjacency matrix: symmetric (both directions of every edge) but for a directed graph with
 * options.directed; columns ascending, parallel edges joined, weight-0 edges left out. Node ids are local (0 .. n - 1). */
typedef struct pe_csr {
    int64_t n, arcs;
    int64_t *ptr;       /* (n + 1) */
    int32_t *col;       /* (arcs) */
    double *weight;     /* (arcs); NULL: all 1 */
    double *degree;     /* (n) sum of |weight| of the row, a loop counted once */
    int64_t zero_edges; /* edges of weight 0 that were left out */
    int64_t ncomponents;
    int32_t
        *component; /* (n) 0 .. ncomponents - 1, numbered by smallest node; NULL and 0 where the matrix is not symmetric */
    int32_t *order; /* (n) breadth-first, component by component, each from its smallest node; NULL where it was not kept */
    void *memory;   /* of all these but component in one, where the graph is plain */
    bool borrowed;  /* all of it is someone else's */
} pe_csr;

/* Builds graph g of the batch. INVALID (naming the edge in the client's list) for a conflict, duplicates, a directed graph
 * or negative weights that the options refuse. Polls ctx (NULL: none). malloc'ed: pe_csr_fini. */
posenc_status pe_csr_build(const posenc_graph *graph, int64_t g, const pe_csr_options *o, pe_csr *out, posenc_context *ctx,
                           posenc_error *err);
/* The same in memory of the caller's, which outlives `out`: pe_csr_room bytes, aligned to 8. Fails for no other reason; a
 * graph that is not plain is malloc'ed all the same. */
posenc_status pe_csr_build_in(const posenc_graph *graph, int64_t g, const pe_csr_options *o, void *room, pe_csr *out,
                              posenc_context *ctx, posenc_error *err);
size_t pe_csr_room(const posenc_graph *graph, int64_t g);
/* Numbers the components of a symmetric pattern: fills in component (malloc'ed) and ncomponents, which were 0. */
posenc_status pe_csr_components(pe_csr *c, posenc_context *ctx, posenc_error *err);
/* The transpose: row v holds the sources of arcs to v, ascending; degree is the sum of its weights. malloc'ed. */
posenc_status pe_csr_transpose(const pe_csr *c, pe_csr *out, posenc_context *ctx, posenc_error *err);
void pe_csr_fini(pe_csr *c);

#endif
