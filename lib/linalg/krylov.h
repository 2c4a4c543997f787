/* krylov.h - the eigenvectors of the smallest eigenvalues, as the dominant ones of an operator f(L).
 *
 * Block Lanczos with full reorthogonalisation and thick restart, eight vectors a step. What was found is locked:
 * later runs work in its orthogonal complement, from a new start block. A run whose first value lies beyond a bound
 * is therefore the proof that no eigenvalue below the bound is missing, whatever the multiplicities.
 * Source: Wu, Simon 2000, "Thick-restart Lanczos method for large symmetric eigenvalue problems". */
#ifndef PE_KRYLOV_H
#define PE_KRYLOV_H

#include "laplacian.h"

typedef struct pe_operator {
    void *self;
    posenc_status (*apply)(void *self, const double *x, double *y, pe_pace *pace); /* y = f(L) x, panels */
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
    /* locked: the kernel (when there is one), then the pairs found, in order of discovery */
    double **lock;            /* panels */
    int64_t nlock, skip;      /* columns held; 1 when the first is the kernel */
    double *value, *residual; /* by column */
    int64_t room;             /* columns there is room for */
    /* the basis */
    int64_t panels;        /* it may have */
    double **v;            /* (panels + 1) panels */
    double *h, *s, *theta; /* (M, M), (M, M), (M), M = 8 * panels */
    double *c;             /* (8 * most panels anywhere, 8) scratch */
    double **keep;         /* (panels) panel pointers, scratch */
    double *start;         /* NULL, or a panel to start the next run from (consumed) */
    /* the outcome of the last run */
    int64_t found; /* pairs it locked; fewer than wished where rounding took the others: run again */
    int64_t seen;  /* wanted pairs as far as could be seen, converged or not */
    int64_t ritz;  /* entries of theta that mean something, dominant first */
    double next;   /* the eigenvalue after those found */
    double worst;  /* largest residual seen when it failed */
    bool converged;
    int64_t products, restarts; /* of all runs */
} pe_search;

enum { PE_LEAST_PANELS = 6 };

posenc_status pe_search_init(pe_search *s, const pe_laplacian *lap, int64_t panels, pe_pace *pace, posenc_error *err);
/* PE_OK with converged == false when `restarts` did not suffice: start is then a block rich in what was sought. */
posenc_status pe_search_run(pe_search *s, const pe_operator *op, const pe_wish *wish, int64_t restarts);
void pe_search_fini(pe_search *s);

#endif
