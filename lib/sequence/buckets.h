/* buckets.h - how many logarithmic steps a whole number is along, and the buckets of T5 that follow.
 *
 *     x(n) = steps ln(n / from) / ln(to / from)         n >= from
 *
 * Floor and ceiling of x are those of the real number, also where x is a whole number: decided by double-double logarithms
 * and, near a whole number, by comparing n^b from^a with to^a from^b. The float32 implementations in use give the same at
 * the settings of released models; where they or their float64 twins miss a boundary that is met exactly, the other one
 * has the value given here.
 * Pure functions; any thread. */
#ifndef PE_BUCKETS_H
#define PE_BUCKETS_H

#include "core/exact.h"
#include "core/pace.h"
#include "core/params.h"

/* ---- logarithmic steps ---- */

typedef struct pe_log_steps {
    int64_t from, to, steps; /* 1 <= from < to <= 2^53; 0 <= steps <= 2^20 */
    pe_dd log_from, log_ratio;
} pe_log_steps;

enum { PE_LOG_STEP_NS = 800 }; /* what a value takes, about */

pe_log_steps pe_log_steps_of(int64_t from, int64_t to, int64_t steps);
int64_t pe_log_steps_ceil(const pe_log_steps *s, int64_t n); /* from <= n <= 2^53 */

/* ---- the buckets of T5 ---- */

typedef struct pe_buckets {
    bool bidirectional;
    int64_t num_buckets, max_distance;
} pe_buckets;

/* clang-format off */
#define PE_BIDIRECTIONAL_ROW(T, in)                                                                                       \
    { PE_ROW_IN(T, in, bidirectional, PE_T_BOOL, bool), .def = 1,                                                         \
      .doc = "half of the buckets are for keys after the query; false, as in decoders: those keys are in bucket 0" }
#define PE_BUCKET_ROWS(T, in)                                                                                             \
    { PE_ROW_IN(T, in, num_buckets, PE_T_INT, int64_t), .def = 32, .min = 1, .max = 65536,                                \
      .doc = "buckets, at least 2 a direction; half of a direction's, rounded down, hold one distance each" },            \
    { PE_ROW_IN(T, in, max_distance, PE_T_INT, int64_t), .def = 128, .min = 1, .max = 0x1p53,                             \
      .doc = "from here on all are in the last bucket; over the number of distances that have a bucket each" }
/* clang-format on */

/* For `check`: num_buckets and max_distance that would divide by zero are refused. */
void pe_buckets_check(const pe_buckets *b, posenc_error *err);

/* The distances at which a bucket begins, found once: a bucket is then a search among them. */
typedef struct pe_bucket_map {
    bool bidirectional;
    int64_t half;  /* added where the key is after the query */
    int64_t exact; /* distances 0 .. exact - 1 have a bucket each */
    int64_t n;
    int64_t *first; /* (n) distance at which bucket exact + 1 + i begins; not decreasing */
} pe_bucket_map;

enum { PE_BUCKET_NS = 12 };
posenc_cost pe_bucket_map_cost(const pe_buckets *b);
/* Allocates; fini also of zeroed storage. */
posenc_status pe_bucket_map_init(pe_bucket_map *m, const pe_buckets *b, pe_pace *pace, posenc_error *err);
void pe_bucket_map_fini(pe_bucket_map *m);
int64_t pe_bucket(const pe_bucket_map *m, int64_t distance); /* distance: key - query */

#endif
