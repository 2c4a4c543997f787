/* slopes.h - the slopes of ALiBi's heads, and the rows that say which: shared by alibi, alibi_slopes and kerple.
 *
 *     n a power of two:   slope[h] = 2^(-b (h + 1) / n)                  h = 0 .. n - 1       [score per position]
 *     otherwise, with k the largest power of two below n: the k slopes of k heads, then every other one of the slopes of
 *     2k heads (the 1st, 3rd, ...), until there are n
 *
 * n = num_heads, b = alibi_bias_max.
 * Source: Press et al. 2022, arXiv:2108.12409, section 3; for other n the authors' attention_with_linear_biases,
 * get_slopes. BLOOM, Falcon, GPT-NeoX and MPT give the same set in the same order.
 * Pure functions; any thread. */
#ifndef PE_SLOPES_H
#define PE_SLOPES_H

#include "core/params.h"

typedef struct pe_slopes {
    int64_t num_heads; /* of the whole model; the slice below is of these */
    double alibi_bias_max;
    int slope_dtype; /* posenc_dtype */
    int64_t head_start, head_count;
} pe_slopes;

extern const char *const pe_slope_dtypes[];

/* `rounds` says what slope_dtype rounds. */
/* clang-format off */
#define PE_SLOPE_ROWS(T, in, rounds)                                                                                       \
    { PE_ROW_IN(T, in, num_heads, PE_T_INT, int64_t), .flags = PE_REQUIRED, .min = 1, .max = 1 << 20,                      \
      .doc = "heads of the whole model" },                                                                                 \
    { PE_ROW_IN(T, in, alibi_bias_max, PE_T_REAL, double), .def = 8, .min = 1e-3, .max = 1000,                             \
      .doc = "the last head's slope is 2^-alibi_bias_max where num_heads is a power of two" },                             \
    { PE_ROW_IN(T, in, slope_dtype, PE_T_ENUM, int), .names = pe_slope_dtypes, .def = PE_float64,                          \
      .doc = rounds " (Falcon: bfloat16)" },                                                                               \
    { PE_ROW_IN(T, in, head_start, PE_T_INT, int64_t), .min = 0, .max = 1 << 20,                                           \
      .doc = "first head of a tensor-parallel slice" },                                                                    \
    { PE_ROW_IN(T, in, head_count, PE_T_INT, int64_t), .flags = PE_DERIVED, .min = 1, .max = 1 << 20,                      \
      .doc = "heads of the slice; when absent, all from head_start on" }
/* clang-format on */

/* For `check`: the slice lies among the heads; derives head_count. */
void pe_slopes_check(const posenc_request *r, pe_slopes *s, posenc_error *err);
/* An upper bound of the slopes of the slice, near the largest. Always below 1. */
double pe_slopes_bound(const pe_slopes *s);
posenc_cost pe_slopes_cost(const pe_slopes *s);
/* (head_count) slopes of the slice, each rounded once, and once more to slope_dtype. */
posenc_status pe_slopes_compute(const pe_slopes *s, double *slope, const posenc_context *ctx, posenc_error *err);

/* v rounded to a narrower dtype and back. */
double pe_rounded(posenc_dtype t, double v);

#endif
