/* positions.h - the rows that say which positions, shared by every encoding of positions.
 *
 *     typedef struct rope { posenc_given given; ...; pe_positions at; ... } rope;
 *     static const posenc_param rows[] = { ..., PE_POSITION_ROWS(rope, at, ""), ... };
 *
 * Exactly one source: num_positions (with offset), or positions, or tokens: input_ids and attention_mask, of which the
 * positions are counted. With tokens, outputs have their axes: [L, ...] or [B, L, ...].
 * Pure functions; any thread. The request borrows. */
#ifndef PE_POSITIONS_H
#define PE_POSITIONS_H

#include "core/pace.h"
#include "core/params.h"

typedef struct pe_positions {
    int64_t num_positions, offset;
    posenc_reals positions;
    posenc_tensor input_ids, attention_mask; /* (L) or (B, L) */
    int64_t padding_idx, past_key_values_length;
} pe_positions;

/* `zero` stands before the meaning of padding_idx, where it has one more. */
/* clang-format off */
#define PE_POSITION_ROWS(T, at, zero)                                                                                      \
    { PE_ROW_IN(T, at, num_positions, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .max = 0x1p53 - 1,                         \
      .doc = "rows of the table; beside input_ids or attention_mask, the rows that positions must fit in" },               \
    { PE_ROW_IN(T, at, offset, PE_T_INT, int64_t), .min = -0x1p53 + 1, .max = 0x1p53 - 1,                                  \
      .doc = "position of the first of num_positions rows" },                                                              \
    { PE_ROW_IN(T, at, positions, PE_T_REALS, posenc_reals), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53,          \
      .doc = "the positions themselves, in any order: integers or fractions, also negative" },                             \
    { PE_ROW_IN(T, at, input_ids, PE_T_TENSOR, posenc_tensor), .flags = PE_OPTIONAL,                                       \
      .doc = "token ids, [L] or [B, L]: positions count the tokens that are not padding_idx" },                            \
    { PE_ROW_IN(T, at, attention_mask, PE_T_TENSOR, posenc_tensor), .flags = PE_OPTIONAL,                                  \
      .doc = "1 where a token counts, 0 where it is padding; alone, or beside input_ids in the same shape" },              \
    { PE_ROW_IN(T, at, padding_idx, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .max = 1e15,                                 \
      .doc = zero "with input_ids also the id of padding, which gets this position, and tokens "                           \
                  "count from padding_idx + 1; when absent tokens count from 0 and masked ones get position 1" },          \
    { PE_ROW_IN(T, at, past_key_values_length, PE_T_INT, int64_t), .max = 1e15,                                            \
      .doc = "tokens that came before: added to the positions of tokens" }
/* clang-format on */

/* For `check`: one source (none at all when not `required`), and nothing that belongs to another. */
void pe_positions_check(const posenc_request *r, const pe_positions *p, bool required, posenc_error *err);

/* For `check`: padding_idx where it means nothing but the padding of tokens (in sinusoidal it is also a row of zeros). */
void pe_positions_pad_tokens(const posenc_request *r, const pe_positions *p, posenc_error *err);

/* The tensor that says how many tokens there are; NULL where positions come from elsewhere. */
const posenc_tensor *pe_positions_tokens(const posenc_request *r, const pe_positions *p);
bool pe_positions_given(const posenc_request *r, const pe_positions *p);     /* any source */
int64_t pe_positions_count(const posenc_request *r, const pe_positions *p);  /* how many positions */
double pe_positions_largest(const posenc_request *r, const pe_positions *p); /* 0 when there is none */

/* For `compute`. */
typedef struct pe_source {
    const double *listed;
    const int64_t *of_token;
    int64_t offset;
} pe_source;
/* `of_token` has room for as many as there are tokens (it is the output `positions`, as a rule), or is NULL. */
posenc_status pe_positions_source(const posenc_request *r, const pe_positions *p, int64_t *of_token, pe_pace *pace,
                                  pe_source *out);
static inline double pe_position(const pe_source *s, int64_t i)
{
    return s->of_token ? (double)s->of_token[i] : s->listed ? s->listed[i] : (double)(s->offset + i);
}

/* For `shape`: the axes of the positions, followed by `more` axes of `inner`; returns the rank. */
int pe_positions_shape(const posenc_request *r, const pe_positions *p, int more, const int64_t *inner,
                       int64_t shape[PE_MAX_RANK]);

/* A tensor of tokens: [L] or [B, L], whole numbers in min .. max. False after a fault. */
bool pe_tokens_check(const posenc_tensor *t, double min, double max, const char *words, posenc_error *err);

#endif
