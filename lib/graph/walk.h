/* walk.h - the transition matrix of a random walk on one graph, by rows and by columns.
 *
 *     row   T[u, v] = w(u, v) / sum over x of w(u, x)                  a step along an arc; the row of a dead end is 0
 *     col   T[u, v] = w(u, v) / sum over x of w(x, v)                  its columns sum to 1
 *     sym   T[u, v] = w(u, v) / sqrt(d(u) d(v))                        A symmetric: T is, bit by bit
 *
 * Entries lie in [0, 1], whatever the scale of the weights. Immutable after pe_walk_build, so any number may read it. */
#ifndef PE_WALK_H
#define PE_WALK_H

#include "core/graph.h"
#include "core/pace.h"
#include "linalg/panel.h"

typedef enum pe_walk_form { PE_WALK_ROW, PE_WALK_COL, PE_WALK_SYM } pe_walk_form;

typedef struct pe_sparse {
    int64_t n;
    const int64_t *ptr; /* (n + 1) */
    const int32_t *col; /* (ptr[n]) ascending within a row */
    double *value;      /* (ptr[n]) */
} pe_sparse;

typedef struct pe_walk {
    int64_t n, arcs;
    bool symmetric;     /* A is; T need not be */
    bool plain;         /* all weights are 1 */
    pe_sparse out, in;  /* row u of `out` holds T[u, .]; row v of `in` holds T[., v] */
    double *degree;     /* (n) what rows, or columns, were divided by (sym: the square) */
    double mean_weight; /* of the arcs; 1 where there is none */
    int64_t zero_edges; /* edges of weight 0 that were left out */
    pe_csr csr, turned; /* own the places; their weights are gone */
} pe_walk;

/* Of graph g of the batch. A directed graph keeps its arcs where options.directed; sym needs a symmetric matrix.
 * Faults as pe_csr_build. malloc'ed: pe_walk_fini. */
posenc_status pe_walk_build(const posenc_graph *graph, int64_t g, const pe_csr_options *o, pe_walk_form form, pe_walk *out,
                            pe_pace *pace, posenc_error *err);
void pe_walk_fini(pe_walk *w);
/* Bytes that a walk holds, from sizes alone. */
uint64_t pe_walk_bytes(int64_t nodes, int64_t arcs, bool directed);

/* Rows 0 .. n - 1 in ranges, of large n on the caller's threads: task writes what its rows say and nothing else. */
typedef posenc_status pe_row_task(void *arg, int64_t begin, int64_t end, pe_pace *pace);
posenc_status pe_by_rows(int64_t n, pe_row_task *task, void *arg, pe_pace *pace);

/* y = M x, panels (n, 8); sums ascend by column. By rows. */
posenc_status pe_sparse_apply(const pe_sparse *m, const double *x, double *y, pe_pace *pace);

/* x = 0, a panel */
posenc_status pe_panel_zero(int64_t n, double *x, pe_pace *pace);

/* [ns] of pe_sparse_apply, roughly: panels of over 20,000 rows leave the caches. */
static inline double pe_sparse_apply_ns(double n, double arcs) { return 7 * n + arcs * (n > 20000 ? 3.5 : 1.2); }

/* How balls around nodes grow, from a few of them: what estimates of costs rest on. */
enum { PE_GROWTH_STEPS = 64 };
typedef struct pe_growth {
    double nodes, degree;             /* of the graph; the mean degree */
    double ball[PE_GROWTH_STEPS + 1]; /* nodes within so many steps, on average */
    double arcs[PE_GROWTH_STEPS + 1]; /* arcs that leave them */
    int known;                        /* the last step that was looked at */
} pe_growth;

/* Of graph g, as far as `steps`; nodes of degree `closed` or more are reached, not passed. Linear in the arcs. Of few
 * nodes, without memory, or where arcs are too many to look at, balls are guessed from the mean degree; so they are where
 * ctx, which is polled, says stop: whoever asks stops at a poll of his own. */
pe_growth pe_growth_of(const posenc_graph *graph, int64_t g, bool one_way, double closed, int64_t steps,
                       posenc_context *ctx);
/* Nodes within so many steps of a node, and the arcs that leave them. */
double pe_growth_ball(const pe_growth *w, int64_t steps);
double pe_growth_arcs(const pe_growth *w, int64_t steps);

#endif
