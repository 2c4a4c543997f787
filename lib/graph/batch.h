/* batch.h - a request over a graph, or over each graph of a batch: what every graph encoding shares.
 *
 * Each is computed as if it were alone, in chunks that threads share. In a batch a graph that cannot be encoded gets its
 * reason in the output `status` and voids no other. Pure functions; any thread. */
#ifndef PE_BATCH_H
#define PE_BATCH_H

#include "core/grace.h"
#include "core/graph.h"
#include "core/pace.h"
#include "core/params.h"

/* The rows that say how the client's list of edges is read; `in` is a pe_csr_options. `loops` is the default of
 * self_loops. */
/* clang-format off */
#define PE_EDGE_ROWS(T, in, loops)                                                                                         \
    { PE_ROW_IN(T, in, symmetrize, PE_T_ENUM, int), .names = pe_symmetrize_words, .def = PE_SYMMETRIZE_ERROR,              \
      .doc = "an undirected graph that lists both directions of an edge with different weights or counts" },               \
    { PE_ROW_IN(T, in, on_directed, PE_T_ENUM, int), .names = pe_on_directed_words, .def = PE_DIRECTED_SYMMETRIZE,         \
      .doc = "a directed graph: union of the arcs with the larger weight, or an error" },                                  \
    { PE_ROW_IN(T, in, self_loops, PE_T_ENUM, int), .names = pe_self_loops_words, .def = loops,                            \
      .doc = "drop as PyG; keep as DGL: a loop adds its weight to the diagonal of A and to the degree" },                  \
    { PE_ROW_IN(T, in, duplicate_edges, PE_T_ENUM, int), .names = pe_duplicate_edges_words, .def = PE_DUPLICATES_SUM,      \
      .doc = "parallel edges: weights summed, the larger one, or an error" }
/* The same for encodings of directed graphs. */
#define PE_ARC_ROWS(T, in, loops)                                                                                          \
    { PE_ROW_IN(T, in, symmetrize, PE_T_ENUM, int), .names = pe_symmetrize_words, .def = PE_SYMMETRIZE_ERROR,              \
      .doc = "an undirected graph that lists both directions of an edge with different weights or counts" },               \
    { PE_ROW_IN(T, in, self_loops, PE_T_ENUM, int), .names = pe_self_loops_words, .def = loops,                            \
      .doc = "a loop counts as an arc of its node to itself, or is left out" },                                            \
    { PE_ROW_IN(T, in, duplicate_edges, PE_T_ENUM, int), .names = pe_duplicate_edges_words, .def = PE_DUPLICATES_SUM,      \
      .doc = "parallel arcs: weights summed, the larger one, or an error" }
/* What a request may have in place of an error when its time is over; `found` says in words what that is. */
#define PE_PARTIAL_ROW(T, found)                                                                                           \
    { PE_BOOL(T, allow_partial), .def = 0,                                                                                 \
      .doc = "true, for one graph: where the deadline passes or the restarts do not suffice, " found " and status 504; "   \
             "such an answer is not cached and has no ETag" }
/* clang-format on */

/* For `check`: a batch is answered whole. */
posenc_status pe_check_partial(const posenc_request *r, bool allow_partial, posenc_error *err);

/* The row of the output that pe_each_graph writes. */
#define PE_STATUS_OUTPUT                                                                                           \
    {                                                                                                              \
        "status", "[1] or [G]",                                                                                    \
            "0: ok; otherwise why this graph of a batch has no numbers, as an HTTP status (400: invalid, 422: no " \
            "convergence); 504: not all of them (allow_partial)",                                                  \
            "int32"                                                                                                \
    }
/* For `shape`: that output. */
posenc_status pe_status_output(const posenc_request *r, posenc_result *out, posenc_error *err);

/* One graph, while it is encoded. */
typedef struct pe_graph_job {
    const posenc_request *request;
    posenc_result *out;      /* its tensors; warnings are for after all graphs */
    posenc_context *ctx;     /* without progress in a batch: that is told by graphs */
    int64_t graph, first, n; /* its number, its first node, its nodes */
    int64_t zero_edges;      /* encode adds edges of weight 0 that were left out: there is a warning of them */
    pe_grace *grace;         /* with task->partial: ctx's deadline counts while this is searching; otherwise NULL */
    bool partial;            /* encode says that its numbers are not all: status says 504 */
    pe_pace pace;
} pe_graph_job;

/* Graphs begin .. end - 1, which one thread encodes in order. */
typedef struct pe_graph_chunk {
    const posenc_request *request;
    posenc_result *out;
    posenc_context *ctx;
    pe_grace *grace; /* as in pe_graph_job */
    int64_t begin, end;
} pe_graph_chunk;

typedef struct pe_graph_task {
    /* Writes what belongs to j's graph. */
    posenc_status (*encode)(pe_graph_job *j, void *self, posenc_error *err);
    /* Writes the same where there are no numbers, as pe_spoil does. */
    posenc_status (*spoil)(pe_graph_job *j, void *self);
    void *self;  /* only read, or: */
    size_t size; /* bytes of *self, when encode writes to it: each chunk then works on a copy */
    /* Gives a copy memory of its own, does what is done for a whole chunk at once; cleans up itself when it fails. */
    posenc_status (*begin)(void *copy, const pe_graph_chunk *c, posenc_error *err);
    /* After the chunk, one at a time, in any order: adds the copy's counts to *self, frees what begin took. */
    void (*end)(void *copy, void *self);
    bool partial; /* the request allows partial answers, and is of one graph */
} pe_graph_task;

/* Chunks depend on the batch's sizes alone and run on ctx's threads. Warns of graphs that failed and of edges of weight 0.
 */
posenc_status pe_each_graph(const posenc_request *r, posenc_result *out, const pe_graph_task *t, posenc_context *ctx,
                            posenc_error *err);

/* The first graph after the chunk that begins with graph `begin`. */
int64_t pe_chunk_end(const posenc_graph *g, int64_t begin);

/* Where each graph's n x n matrix begins when they stand one after another: `to` (graphs + 1). */
void pe_square_offsets(const posenc_graph *g, int64_t *to);

/* What one component or graph may take by its own estimate, once its structure is known [ns on one core]: what is let
 * through ends within posencd's default deadline of 60 s also where it takes half as long again. Fixed, not the deadline
 * at hand: whether a graph of a batch has numbers must not depend on who asks. */
#define PE_TOO_LONG_NS 4e10
/* LIMIT where `ns` is more than that; `instead` names other ways. */
posenc_status pe_check_time(double ns, const char *field, const char *instead, posenc_error *err);

/* Rows first .. first + n - 1 of the first axis: NaN, or -1 of signed integers, 0 of unsigned ones. */
posenc_status pe_spoil(posenc_tensor *t, int64_t first, int64_t n, pe_pace *pace);

/* LIMIT where a matrix of two rows a node has more than int32 can number. */
posenc_status pe_check_twice(int64_t nodes, posenc_error *err);

/* That a residual is over what tol allows, if `worst`, the largest one that is, is not 0. `where` follows tol in the
 * sentence. */
void pe_warn_residuals(double worst, double tol, const char *where, posenc_result *out);

/* That the graph, if it is directed, was symmetrized. */
void pe_warn_directed(const posenc_request *r, posenc_result *out);

#endif
