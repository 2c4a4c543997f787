/* pairs.h - biases of a query and a key that depend on their distance alone: alibi, kerple, sandwich,
 * dynamic_position_bias.
 *
 * The queries are the last of the keys (and the keys the last of the queries where they are fewer), as all peers have it:
 *     key position - query position = (j - i) + Q - K           i = 0 .. Q - 1, j = 0 .. K - 1
 * So a head's matrix (Q, K) has one value a diagonal. Its curve lists them: element t, 0 .. Q + K - 2, is that of
 * key - query = t - (K - 1), and row i is a slice of the curve.
 * Pure functions; any thread. */
#ifndef PE_PAIRS_H
#define PE_PAIRS_H

#include "core/pace.h"
#include "core/params.h"

typedef struct pe_pairs {
    int64_t query_length, key_length;
} pe_pairs;

enum { PE_LONGEST = 1000000000 }; /* bound of the lengths; sizes are bounded by the service's limits long before */

/* Elements of a curve; 0 where a length is 0. */
static inline int64_t pe_pairs_curve(const pe_pairs *p)
{
    return p->query_length && p->key_length ? p->query_length + p->key_length - 1 : 0;
}

/* key position - query position of element t. */
static inline int64_t pe_pairs_offset(const pe_pairs *p, int64_t t) { return t - (p->key_length - 1); }

/* Room that pe_pairs_fill needs beside the curve. */
uint64_t pe_pairs_scratch(const pe_pairs *p, posenc_dtype dtype);

/* Writes the matrix number `index` of dst (..., Q, K) from its curve; `narrow` has pe_pairs_scratch bytes. */
posenc_status pe_pairs_fill(const pe_pairs *p, const posenc_tensor *dst, int64_t index, const double *curve, void *narrow,
                            pe_pace *pace);

/* The largest finite value that is safe to round to the dtype. */
double pe_largest(posenc_dtype dtype);

#endif
