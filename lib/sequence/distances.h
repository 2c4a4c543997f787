/* distances.h - what is a function of the distance of a query and a key: indices and biases of relative positions.
 *
 * A grid of pairs (Q, K) has one value a diagonal. Its curve lists them, Q + K - 1 values, and every row is a slice of it.
 * Two ways say where the queries are: the last of the keys (pe_curve_of_last; the keys the last of the queries where they
 * are fewer), as the biases have it, or rows of parameters, as the indices have it:
 *
 *     typedef struct t5_bucket { posenc_given given; pe_distances at; ... } t5_bucket;
 *     static const posenc_param rows[] = { PE_DISTANCE_ROWS(t5_bucket, at, "key - query"), ... };
 *
 * Queries past_seen_tokens .. past_seen_tokens + query_length - 1 against keys 0 .. key_length - 1, or the distances
 * themselves, listed.
 * Pure functions; any thread. The request borrows. */
#ifndef PE_DISTANCES_H
#define PE_DISTANCES_H

#include "core/pace.h"
#include "core/params.h"

typedef struct pe_distances {
    int64_t query_length, key_length, past_seen_tokens;
    posenc_reals relative_position;
} pe_distances;

/* Bounds that keep every distance a whole number that float64 holds. */
enum { PE_MOST_TOKENS = 1 << 30 };
#define PE_MOST_PAST 0x1p52

/* `sense` says what a listed distance is: "key - query". */
/* clang-format off */
#define PE_DISTANCE_ROWS(T, in, sense)                                                                                    \
    { PE_ROW_IN(T, in, query_length, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .max = PE_MOST_TOKENS,                     \
      .doc = "queries, the rows; when absent, key_length - past_seen_tokens" },                                           \
    { PE_ROW_IN(T, in, key_length, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .max = PE_MOST_TOKENS,                       \
      .doc = "keys, the columns; when absent, query_length + past_seen_tokens" },                                         \
    { PE_ROW_IN(T, in, past_seen_tokens, PE_T_INT, int64_t), .max = PE_MOST_PAST,                                         \
      .doc = "position of the first query, where the first key is at 0" },                                                \
    { PE_ROW_IN(T, in, relative_position, PE_T_REALS, posenc_reals), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53, \
      .doc = "the distances themselves, whole numbers, each " sense "; instead of lengths" }
/* clang-format on */

/* For `check`: one form of input, and lengths that are absent made from the other. */
void pe_distances_check(posenc_request *r, pe_distances *d, posenc_error *err);

/* For `shape`: [query_length, key_length], or [distances listed]; returns the rank. */
int pe_distances_shape(const posenc_request *r, const pe_distances *d, int64_t shape[2]);

/* The curve: distance number t, 0 .. count - 1, is the listed one or first + t, or minus that. */
typedef struct pe_curve {
    const double *listed; /* NULL: a grid */
    int64_t rows, columns, first, count;
    bool query_minus_key;
} pe_curve;

/* `query_minus_key` is the sense of distances; the default is key - query. Sound after a `check` without faults. */
pe_curve pe_curve_of_last(int64_t query_length, int64_t key_length, bool query_minus_key);
pe_curve pe_distances_curve(const posenc_request *r, const pe_distances *d, bool query_minus_key);

static inline int64_t pe_curve_distance(const pe_curve *c, int64_t t)
{
    if (c->listed)
        return (int64_t)c->listed[t];
    return c->query_minus_key ? -(c->first + t) : c->first + t;
}

/* Writes the matrix (rows, columns), or the list, from one value of `size` bytes a distance. */
posenc_status pe_curve_spread(const pe_curve *c, const void *values, size_t size, void *out, pe_pace *pace);

/* The same of float64 values, as matrix number `index` of dst (..., rows, columns); `narrow` has room for the curve in the
 * dtype of dst. */
posenc_status pe_curve_fill(const pe_curve *c, const double *values, void *narrow, const posenc_tensor *dst, int64_t index,
                            pe_pace *pace);
static inline uint64_t pe_curve_bytes(const pe_curve *c, posenc_dtype dtype)
{
    return (uint64_t)c->count * posenc_dtype_size(dtype);
}

/* Writes value(user, distance) of every pair to out; `steps` is what a value takes (pace.h). */
typedef int64_t pe_distance_value(const void *user, int64_t distance);
posenc_status pe_curve_map(const pe_curve *c, pe_distance_value *value, const void *user, int64_t steps, int64_t *out,
                           pe_pace *pace, posenc_error *err);
posenc_cost pe_curve_cost(const pe_curve *c, int64_t steps); /* of pe_curve_map */

#endif
