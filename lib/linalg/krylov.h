/* krylov.h - the eigenvectors of the smallest eigenvalues, as the dominant ones of an operator f(L).
 *
 * Block Lanczos with full reorthogonalisation and thick restart, `width` vectors a step. What was found is locked:
 * later runs work in its orthogonal complement, from a new start block. A run whose first value lies beyond a bound
 * is therefore the proof that no eigenvalue below the bound is missing, whatever the multiplicities.
 * Source: Wu, Simon 2000, "Thick-restart Lanczos method for large symmetric eigenvalue problems". */
#ifndef PE_KRYLOV_H
#define PE_KRYLOV_H

#include "columns.h"
#include "laplacian.h"

enum { PE_MOST_WIDTH = 16 };

typedef struct pe_operator {
    void *self;
    /* y = f(L) x for `width` columns */
    posenc_status (*apply)(void *self, int64_t width, double *const *x, double *const *y, pe_pace *pace, posenc_error *err);
    double (*value)(const void *self, double theta); /* the lambda with f(lambda) = theta; INFINITY: out of range */
    int64_t products;                                /* applications of L or its inverse in one apply */
} pe_operator;

/* What one run is to find. A pair is wanted when it is one of the first `goal`, lies in the cluster of the last of
 * them, or is at most `bound`; never more than `limit` pairs. */
typedef struct pe_wish {
    int64_t goal, limit;
    double bound;
    double tolerance; /* ||L v - lambda v||, absolute */
    double relative;  /* ||f(L) v - theta v|| / theta that is tried first */
} pe_wish;

typedef struct pe_search {
    const pe_laplacian *lap;
    pe_pace *pace;
    posenc_error *err;
    int64_t n;
    int64_t width; /* of a block; may change between runs */
    /* locked: the kernel (when there is one), then the pairs found, in order of discovery */
    double **lock;            /* columns */
    int64_t nlock, skip;      /* columns held; 1 when the first is the kernel */
    double *value, *residual; /* by column */
    int64_t room;             /* columns there is room for */
    /* the basis */
    int64_t most;          /* columns it may have */
    double **v;            /* (most + 2 * PE_MOST_WIDTH) columns, made as they are needed */
    double **slab, *fresh; /* what they lie in; the next column of the last slab */
    int64_t nslabs, left;  /* left: columns of the last slab that nobody has */
    double **all;          /* scratch: pointers to locked columns and the basis */
    double *h, *s, *theta; /* (most, most), (most, most), (most) */
    double *c, *part;      /* scratch: coefficients, (columns, width) each */
    int64_t warm;          /* so many first columns of v are a block to start from */
    /* the outcome of the last run */
    int64_t found; /* pairs it locked; fewer than wished where rounding took the others: run again */
    int64_t seen;  /* wanted pairs as far as could be seen, converged or not */
    int64_t ritz;  /* entries of theta that mean something, dominant first */
    double next;   /* the eigenvalue after those found */
    double worst;  /* largest residual seen when it failed */
    double spread; /* how far, as a norm, the least dominant Ritz pair is off */
    bool strange;  /* a pair's quotient is not what its theta says: f is not what it should be */
    bool converged;
    bool salvage;               /* a run that is stopped by PE_DEADLINE or has no restarts left locks what has converged */
    int64_t products, restarts; /* of all runs */
} pe_search;

enum { PE_LEAST_PANELS = 6 };

posenc_status pe_search_init(pe_search *s, const pe_laplacian *lap, int64_t most, pe_pace *pace, posenc_error *err);
/* PE_OK with converged == false when `restarts` did not suffice: the next run starts from a block rich in what was
 * sought. */
posenc_status pe_search_run(pe_search *s, const pe_operator *op, const pe_wish *wish, int64_t restarts);
/* Frees the basis; what is locked stays. */
void pe_search_rest(pe_search *s);
void pe_search_fini(pe_search *s);

#endif
