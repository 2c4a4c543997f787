/* lane_eigen.h - some eigenpairs of eight small symmetric matrices at once, one matrix a lane.
 *
 * Householder tridiagonalisation, bisection by Sturm's sequence, inverse iteration, back-transform: all in the order of
 * operations that a matrix would see alone, so that its bits do not depend on the other lanes, on the rows of the
 * largest, nor on the instruction set. What is found is not proven here: the caller measures residuals, and `doubt` says
 * where an eigenvalue left the interval in which it was counted, or a cluster lost its orthogonality.
 * One group belongs to one thread; memory is the caller's. */
#ifndef PE_LANE_EIGEN_H
#define PE_LANE_EIGEN_H

#include "core/pace.h"

#include <stddef.h>
#include <stdint.h>

enum { PE_GROUP = 8, PE_LANE_ROWS = 256 };

/* A double per lane and element, (.., 8), aligned to 64 bytes. */
typedef struct pe_group {
    int64_t n;              /* rows of the largest matrix, 2 .. PE_LANE_ROWS */
    int64_t rows[PE_GROUP]; /* of each; 0: no matrix */
    int64_t chains, most;   /* eigenpairs sought, of the lane that seeks most; that there is memory for */
    int64_t want[PE_GROUP]; /* in: eigenpairs sought of each; out: with those that complete the last one's cluster, as far as
                               there is memory. chains follows */
    double *a;              /* packed lower triangle, row i at i (i + 1) / 2; 0 beyond a matrix; overwritten */
    int32_t *start;         /* (n) in: the first column of row i that is not 0 in some lane; overwritten */
    double *scale;          /* (1) a power of two that brings the spectrum into 0 .. 4 */
    double *first;          /* (1) index of the first eigenvalue sought, ascending from 0 */
    double *counted;        /* (chains + 1) out: eigenvalues, before there are vectors */
    double *low, *high;     /* (chains + 1) out: between which they were counted, in units of the scaled spectrum */
    double *value;          /* (chains) out: the same from the vectors, ascending but within clusters */
    double *vector;         /* (chains, n) out: unit vectors; what lies beyond a matrix's rows does not matter */
    double *doubt;          /* (chains) out: 0 where all is well */
    double *work;
    double *noise;  /* (most, stride) numbers, not lanes: where iterations begin */
    int64_t stride; /* rows that there is memory for */
} pe_group;

/* Bytes for groups of up to `rows` rows and `chains` pairs. */
size_t pe_group_bytes(int64_t rows, int64_t chains);
/* Points g into `memory` of that size, aligned to 64 bytes. */
void pe_group_init(pe_group *g, int64_t rows, int64_t chains, void *memory);
/* Empties g for matrices of up to n rows. */
void pe_group_clear(pe_group *g, int64_t n);
static inline double *pe_group_entry(pe_group *g, int64_t i, int64_t j, int lane)
{
    return g->a + ((i * (i + 1) / 2 + j) * PE_GROUP + lane);
}
/* Eigenvalues nearer to each other than this, in units of the scaled spectrum, are found together. */
#define PE_GROUP_CLUSTER 0x1p-18
/* Solves the group. What pace returns. */
posenc_status pe_group_solve(pe_group *g, pe_pace *pace);

#endif
