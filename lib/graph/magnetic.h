/* magnetic.h - the magnetic Laplacian of one graph: a Hermitian matrix, its components and eigenpairs.
 *
 *   H = D - S o exp(2 pi i T),  T_uv = q (A_uv - A_vu) in turns,  S the symmetrised adjacency,  D its row sums
 * sym: D^-1/2 H D^-1/2.
 *
 * A component is balanced when the turns around each of its cycles sum to a whole number (1e-12): then a diagonal matrix of
 * phases turns H into the real Laplacian of S, whose null vector is known exactly. Trees are balanced, and everything is
 * where q is 0. The others are solved as real symmetric matrices of twice the size, [Re H, -Im H; Im H, Re H], in which
 * every eigenvalue occurs twice; from the real vectors an orthonormal complex basis is picked.
 *
 * Complex numbers are pairs of float64. Not thread-safe: each call has its own. malloc'ed: pe_magnetic_fini. */
#ifndef PE_MAGNETIC_H
#define PE_MAGNETIC_H

#include "core/exact.h"
#include "core/grace.h"
#include "core/graph.h"
#include "core/pace.h"
#include "linalg/linalg.h"

typedef struct pe_magnetic_options {
    int self_loops, duplicate_edges;
    bool mean;     /* S_uv = (A_uv + A_vu) / 2; otherwise the larger of the two */
    double q;      /* turns for a one-way arc of weight 1 */
    bool relative; /* q is divided by the number of pairs u, v with A_uv != A_vu, at most n and at least 1 */
    bool normalized, isolated_one;
    double tol;
    int64_t max_iter;
    bool partial; /* as in pe_component_pairs */
} pe_magnetic_options;

typedef struct pe_complex_pairs {
    int64_t count;
    double *values;  /* (count) ascending */
    double *vectors; /* (count, 2 * nodes) orthonormal */
    double next;     /* the eigenvalue after the last pair; INFINITY when all are held */
    bool partial;    /* stopped early: fewer than were wanted, and not surely the smallest */
} pe_complex_pairs;

typedef struct pe_magnetic {
    pe_magnetic_options o;
    pe_csr csr;              /* S; its components; loops where kept */
    pe_dd *turn;             /* (arcs) of the entry, within half a turn; turn of (v, u) is minus that of (u, v) */
    double *cosine, *sine;   /* (arcs) of that angle */
    pe_dd *potential;        /* (n) turns along a tree: balanced components have T_uv = potential_u - potential_v */
    int64_t *begin;          /* (components + 1) places, as in pe_spectrum */
    int32_t *node, *place;   /* (n) */
    bool *null;              /* (components) whether the component has a null vector */
    double *unit;            /* (2 n) by place: that null vector; (1, 0) for an isolated node */
    double *single;          /* (components) the eigenvalue of a component of one node */
    pe_complex_pairs *pairs; /* (components) the rest, as far as asked for */
    double *scratch;         /* (2 n) */
    bool loops, real;        /* real: all turns are 0 */
    int exponent; /* the weights in csr are the client's times 2^-exponent: so are eigenvalues and residuals of none */
    pe_pace pace;
} pe_magnetic;

posenc_status pe_magnetic_init(pe_magnetic *m, const pe_magnetic_options *o, const posenc_graph *graph, int64_t g,
                               posenc_context *ctx, posenc_error *err);
void pe_magnetic_fini(pe_magnetic *m);
/* The `want` smallest pairs of component c (two nodes or more) beside its null vector, and what completes a cluster.
 * grace: whose deadline ends the search; NULL where `partial` is not set */
posenc_status pe_magnetic_solve(pe_magnetic *m, int64_t c, int64_t want, pe_grace *grace, posenc_context *ctx,
                                posenc_error *err);
/* ||H v - lambda v|| of a unit vector (2 n) over n places from `origin` on. */
posenc_status pe_magnetic_residual(pe_magnetic *m, const double *v, double lambda, int64_t n, int64_t origin, double *out);
/* S with weights that tell T apart as well, for colours: borrows but for the weight, which the caller frees. */
posenc_status pe_magnetic_labels(pe_magnetic *m, pe_csr *out, posenc_error *err);
/* Bytes that solving may hold at once, from sizes alone. */
uint64_t pe_magnetic_bytes(int64_t n, int64_t arcs, int64_t want);

#endif
