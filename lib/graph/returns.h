/* returns.h - return probabilities of small graphs whose edges all have weight 1, up to 32 nodes abreast.
 *
 *     (P^(a+b))[u, u] = d(u) sum over v of (P^a)[u, v] (P^b)[u, v] / d(v)        a - b = 0 or 1, the matrix symmetric
 *
 * What is kept is (P^a)[u, v] / d(v), so that a step only adds. Pure functions; any thread. */
#ifndef PE_RETURNS_H
#define PE_RETURNS_H

#include "core/graph.h"
#include "core/pace.h"

enum { PE_RETURNS = 32 };

/* float64 numbers of scratch that pe_returns asks for, where a graph has n nodes: a multiple of eight. */
static inline size_t pe_returns_scratch(int64_t n) { return (size_t)(n + 7) / 8 * 8 * (2 * PE_RETURNS + 1); }
/* Lanes that `count` nodes take: a multiple of eight. */
static inline int64_t pe_returns_lanes(int64_t count) { return (count + 7) / 8 * 8; }

/* back[(t - 1) lanes + i] is the probability that a walk from node u + i is there again after t steps, t = 1 .. last.
 * count at most PE_RETURNS; back (last, pe_returns_lanes(count)); fastest where scratch and
 * back are aligned to 64. The weights of c are not looked at. */
posenc_status pe_returns(const pe_csr *c, int64_t u, int64_t count, int64_t last, double *scratch, double *back,
                         pe_pace *pace);

#endif
