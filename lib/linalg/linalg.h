/* linalg.h - eigenpairs of symmetric matrices, computed the same way on every machine.
 *
 * Pure functions: no globals; any number may run at once, and share the threads of their context. Loops poll the context
 * about every 5 ms, but for one call: libamd's ordering of a large component cannot be interrupted (solver=chebyshev does
 * without, and auto where the component has no narrow place). It takes, thread CPU time:
 *   grid of 20,000 nodes                                    5 to 7 ms
 *   random, 20,000 nodes, 100,000 edges                     70 to 100 ms
 *   grid of 1,000,000 nodes                                 400 ms
 *   triangulation with 1,000,000 nodes, 1,350,000 edges     1,200 ms
 * Only IEEE operations of fixed order (no BLAS, no libm beyond sqrt, fma, fabs):
 * the same input gives the same bits with every compiler, CPU and thread count.
 * Memory is malloc'ed inside and freed before return; results are handed over as said below. */
#ifndef PE_LINALG_H
#define PE_LINALG_H

#include "posenc.h"

/* One connected component's Laplacian in CSR form.
 *   none: L = diag(degree) - A          sym: L = I - D^-1/2 A D^-1/2
 * Arcs: both directions of every edge, no loops, columns ascending within a row, weights not 0.
 * degree[i] > 0 is the sum of |weight| over row i. All borrowed. n >= 2. */
typedef struct pe_component {
    int64_t n;
    const int64_t *ptr;     /* (n + 1) */
    const int32_t *col;     /* (ptr[n]) */
    const double *weight;   /* (ptr[n]); NULL: all 1 */
    const double *degree;   /* (n) */
    bool normalized;        /* sym when true, none when false */
    const double *kernel;   /* (n) the unit null vector, known exactly; NULL: L is positive definite */
    int32_t end;            /* 1 + the row that a breadth-first search from row 0 reaches last; 0: not known */
    const double *diagonal; /* (n) L's diagonal where self-loops are kept; NULL: degree (none), 1 (sym) */
} pe_component;

typedef enum pe_solver { PE_SOLVER_AUTO, PE_SOLVER_DENSE, PE_SOLVER_SHIFT_INVERT, PE_SOLVER_CHEBYSHEV } pe_solver;

/* The smallest eigenpairs of a component apart from its kernel vector. */
typedef struct pe_pairs {
    int64_t n, count;   /* rows; pairs held */
    double *values;     /* (count), ascending */
    double *vectors;    /* (count, n): one eigenvector a row, orthonormal, orthogonal to the kernel; NULL: in panels */
    double *panels;     /* (ceil(count / 8), n, 8): eight eigenvectors side by side, the last ones 0; or NULL */
    double *residuals;  /* (count): ||L v - lambda v||_2 of the unit vector */
    double next;        /* the eigenvalue after the last pair, or INFINITY when all are held */
    int64_t iterations; /* operator applications */
    bool partial;       /* stopped by its deadline: fewer than were wanted, and not surely the smallest; next is not known */
    void *memory;       /* of panels, values and residuals in one */
    bool borrowed;      /* that memory is someone else's */
} pe_pairs;

/* All eigenpairs of a dense symmetric matrix, ascending (Householder tridiagonalisation, implicit QL).
 *   a        (n, n) in: the matrix, both triangles; out: eigenvectors, one a row, orthonormal
 *   values   (n)    out
 * Fails with PE_BUSY (memory), PE_CANCELLED, PE_DEADLINE, PE_NO_CONVERGENCE. */
posenc_status pe_sym_dense(int64_t n, double *a, double *values, posenc_context *ctx, posenc_error *err);

/* Consecutive eigenvalues nearer to each other than this are one cluster: far above what a converged pair is off by,
 * and small enough that a vector mixed from within a cluster still has a residual below 1e-10. */
static inline double pe_cluster_gap(double lambda) { return 1e-10 * (lambda > 1 ? lambda : lambda < -1 ? -lambda : 1); }

/* At least `want` smallest non-kernel pairs (all there are, when fewer), and beyond them whatever completes
 * the cluster that the last one lies in. `count` may therefore exceed want; it stops growing at want + max_extra, and then
 * next - values[count - 1] may lie within a cluster (the caller says so to the user).
 * Residuals are at most tol * scale, scale = 2 for sym and the largest 2 * degree for none; otherwise
 * PE_NO_CONVERGENCE with the largest residual and the iterations in the error.
 * max_iter bounds the restarts (0: the default).
 * `partial`: where ctx says PE_DEADLINE, or the restarts do not suffice, what has converged is the answer. On success the
 * caller owns `out` (pe_pairs_fini). */
posenc_status pe_component_pairs(const pe_component *c, int64_t want, int64_t max_extra, double tol, int64_t max_iter,
                                 pe_solver solver, bool partial, pe_pairs *out, posenc_context *ctx, posenc_error *err);

/* Bytes that pe_component_pairs may hold at once, from sizes alone (the shift-invert factor is counted
 * by its symbolic fill and refused when over ctx's memory budget). */
uint64_t pe_component_bytes(int64_t n, int64_t arcs, int64_t want);

void pe_pairs_fini(pe_pairs *p);
/* Fills in vectors where there are panels. */
posenc_status pe_pairs_rows(pe_pairs *p, posenc_error *err);

#endif
