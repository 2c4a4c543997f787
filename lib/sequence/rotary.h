/* rotary.h - the frequencies of rotary positions, in every way that released models scale them.
 *
 *     typedef struct rope { posenc_given given; ...; pe_rope_params rotary; ... } rope;
 *     static const posenc_param rows[] = { ..., PE_ROPE_ROWS(rope, rotary), ... };
 *
 * r = int(head_dim * partial_rotary_factor) channels rotate in r/2 pairs. Pair j turns by position * w[j]; its cosine and
 * sine are multiplied by the attention factor.
 *     default        w[j] = theta^(-2j/r)
 *     linear         w[j] / factor
 *     dynamic        theta' = theta (factor L / max - (factor - 1))^(r/(r-2)), L = the larger of seq_len and max
 *     ntk, ntk_alpha theta' = theta factor^(r/(r-2)), theta' = theta alpha^(r/(r-2))
 *     yarn           g w[j] / factor + (1 - g) w[j], g = clip((j - low) / (high - low), 0, 1)
 *     longrope       w[j] / long_factor[j] where seq_len is above the original length, else w[j] / short_factor[j]
 *     llama3         w[j] / factor for long waves, w[j] for short ones, a mixture of both between
 *     proportional   exponents -2j/head_dim for the first int(partial_rotary_factor * head_dim // 2) pairs, then zeros;
 *                    r = head_dim; divided by factor
 * Sources: Su et al. 2021, arXiv:2104.09864; Peng et al. 2023, arXiv:2309.00071 (yarn); Ding et al. 2024,
 * arXiv:2402.13753 (longrope); details as transformers' modeling_rope_utils.py.
 * Pure functions; any thread. The request borrows. */
#ifndef PE_ROTARY_H
#define PE_ROTARY_H

#include "core/exact.h"
#include "core/pace.h"
#include "core/params.h"
#include "sequence/positions.h"
#include "sequence/rotor.h"
#include "sequence/sines.h"

typedef enum pe_rope_type {
    PE_ROPE_DEFAULT,
    PE_ROPE_LINEAR,
    PE_ROPE_DYNAMIC,
    PE_ROPE_YARN,
    PE_ROPE_LONGROPE,
    PE_ROPE_LLAMA3,
    PE_ROPE_PROPORTIONAL,
    PE_ROPE_NTK,
    PE_ROPE_NTK_ALPHA
} pe_rope_type;
extern const char *const pe_rope_types[];

/* Columns of a table with n pairs: half c0 c1 .. c0 c1 .., interleaved c0 c0 c1 c1 .., unduplicated c0 c1 .. */
typedef enum pe_rope_layout {
    PE_ROPE_HALF,
    PE_ROPE_INTERLEAVED,
    PE_ROPE_HALF_ONCE,
    PE_ROPE_INTERLEAVED_ONCE
} pe_rope_layout;
extern const char *const pe_rope_layouts[]; /* half, interleaved, half_unduplicated, interleaved_unduplicated */

typedef struct pe_rope_params {
    int64_t head_dim, hidden_size, num_attention_heads;
    double rope_theta, partial_rotary_factor;
    int rope_type;
    double factor;
    int64_t max_position_embeddings, original_max_position_embeddings, seq_len;
    double attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim;
    bool truncate;
    posenc_reals short_factor, long_factor; /* (pairs) */
    double low_freq_factor, high_freq_factor, alpha, ntk_factor, linear_factor;
} pe_rope_params;

enum { PE_ROPE_MAX_WIDTH = 65536 };

/* Rows that only some rope_types read are optional, so that a preset can choose the type: pe_rope_check refuses what the
 * type does not read and fills in the rest, which then stands in the key. */
/* clang-format off */
#define PE_ROPE_ROWS(T, in)                                                                                              \
    { PE_ROW_IN(T, in, head_dim, PE_T_INT, int64_t), .flags = PE_DERIVED, .min = 1, .max = PE_ROPE_MAX_WIDTH,            \
      .doc = "channels of a head; when absent, hidden_size / num_attention_heads" },                                       \
    { PE_ROW_IN(T, in, hidden_size, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .min = 1, .max = 1 << 30,                    \
      .doc = "width of the model, with num_attention_heads instead of head_dim" },                                         \
    { PE_ROW_IN(T, in, num_attention_heads, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .min = 1, .max = 1 << 20,            \
      .doc = "query heads, with hidden_size instead of head_dim" },                                                        \
    { PE_ROW_IN(T, in, rope_theta, PE_T_REAL, double), .def = 10000, .min = 1e-30, .max = 1e30,                            \
      .doc = "base of the frequencies; over 1 with yarn and dynamic" },                                                    \
    { PE_ROW_IN(T, in, partial_rotary_factor, PE_T_REAL, double), .def = 1, .min = 0, .max = 1,                            \
      .doc = "share of the channels that rotate: int(head_dim * partial_rotary_factor), which must be even and over 0; "   \
             "proportional: share of the pairs that turn, which may be 0" },                                               \
    { PE_ROW_IN(T, in, rope_type, PE_T_ENUM, int), .names = pe_rope_types, .def = PE_ROPE_DEFAULT,                         \
      .doc = "how the frequencies are scaled for long contexts; dynamic with alpha is ntk_alpha" },                        \
    { PE_ROW_IN(T, in, factor, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1, .max = 1e9,                             \
      .doc = "how many times longer; required by linear, dynamic, llama3 and ntk; yarn and longrope: when absent, "        \
             "max_position_embeddings / original_max_position_embeddings, which must then both be given; proportional: "   \
             "1" },                                                                                                        \
    { PE_ROW_IN(T, in, max_position_embeddings, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .min = 1, .max = 1e15,           \
      .doc = "the model's longest sequence (2048 when absent), read by dynamic, and where factor or "                      \
             "original_max_position_embeddings is derived; otherwise accepted and not in the key" },                       \
    { PE_ROW_IN(T, in, original_max_position_embeddings, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .min = 1, .max = 1e15,  \
      .doc = "length before extension, read by yarn, longrope, llama3 and ntk_alpha without alpha; when absent, "          \
             "max_position_embeddings" },                                                                                  \
    { PE_ROW_IN(T, in, seq_len, PE_T_INT, int64_t), .flags = PE_OPTIONAL, .min = 1, .max = 0x1p53,                         \
      .doc = "length of the sequence, read by dynamic, longrope and ntk_alpha without alpha; when absent, the largest "    \
             "position (rounded up) + 1; without positions the length that changes nothing" },                             \
    { PE_ROW_IN(T, in, attention_factor, PE_T_REAL, double), .flags = PE_OPTIONAL, .max = 1e4,                             \
      .doc = "multiplies cosines and sines (yarn, longrope); when absent, derived: yarn from factor, mscale and "          \
             "mscale_all_dim, longrope sqrt(1 + ln factor / ln original_max_position_embeddings)" },                       \
    { PE_ROW_IN(T, in, beta_fast, PE_T_REAL, double), .flags = PE_OPTIONAL, .max = 1e9,                                    \
      .doc = "yarn: pairs that turn more often than this over the original length are kept; 0 or absent: 32" },            \
    { PE_ROW_IN(T, in, beta_slow, PE_T_REAL, double), .flags = PE_OPTIONAL, .max = 1e9,                                    \
      .doc = "yarn: pairs that turn less often than this are divided by factor; 0 or absent: 1" },                         \
    { PE_ROW_IN(T, in, mscale, PE_T_REAL, double), .flags = PE_OPTIONAL, .max = 1000,                                      \
      .doc = "yarn: with mscale_all_dim, both over 0, attention_factor is m(mscale) / m(mscale_all_dim), "                 \
             "m(k) = 0.1 k ln(factor) + 1; otherwise m(1)" },                                                              \
    { PE_ROW_IN(T, in, mscale_all_dim, PE_T_REAL, double), .flags = PE_OPTIONAL, .max = 1000,                              \
      .doc = "yarn: as mscale; over 0 also softmax_scale_multiplier = m(mscale_all_dim)^2 (DeepSeek)" },                   \
    { PE_ROW_IN(T, in, truncate, PE_T_BOOL, bool), .flags = PE_OPTIONAL,                                                   \
      .doc = "yarn: the ends of the band are rounded outwards to whole pairs; true when absent (gpt-oss: false)" },        \
    { PE_ROW_IN(T, in, short_factor, PE_T_REALS, posenc_reals), .flags = PE_OPTIONAL, .min = 1e-30, .max = 1e30,           \
      .doc = "longrope: divisors of the frequencies up to the original length, one a pair" },                              \
    { PE_ROW_IN(T, in, long_factor, PE_T_REALS, posenc_reals), .flags = PE_OPTIONAL, .min = 1e-30, .max = 1e30,            \
      .doc = "longrope: divisors of the frequencies where seq_len is above the original length" },                         \
    { PE_ROW_IN(T, in, low_freq_factor, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-9, .max = 1e9,                 \
      .doc = "llama3: waves longer than the original length over this are divided by factor; 1 when absent" },             \
    { PE_ROW_IN(T, in, high_freq_factor, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-9, .max = 1e9,                \
      .doc = "llama3: waves shorter than the original length over this are kept; 4 when absent" },                         \
    { PE_ROW_IN(T, in, alpha, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-9, .max = 1e9,                           \
      .doc = "ntk_alpha, or dynamic as HunYuan writes it: multiplies the base, to the power r/(r-2); when absent, "        \
             "2^(ceil(log2(seq_len / original_max_position_embeddings)) + 1) - 1, at least 1 (Qwen, CodeFuse)" },          \
    { PE_ROW_IN(T, in, ntk_factor, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-9, .max = 1e9,                      \
      .doc = "default: multiplies rope_theta (diffusers, Lumina; ChatGLM's rope_ratio); 1 when absent" },                  \
    { PE_ROW_IN(T, in, linear_factor, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-9, .max = 1e9,                   \
      .doc = "default: divides the frequencies (diffusers, Lumina); 1 when absent" }
/* clang-format on */

/* ---- for `check` ---- */

/* A preset is a query of rows. Sets those that the request has and the client did not give; leaves no trace of itself, the
 * row `preset`. */
void pe_rope_preset(posenc_request *r, const char *query, posenc_error *err);
/* Released models; the words of a row and the query of each. */
extern const char *const pe_rope_preset_words[], *const pe_rope_preset_queries[];

/* The largest of the positions, not its magnitude; false when there is none. */
bool pe_rope_last(const posenc_request *r, const pe_positions *at, double *last);

/* What the request knows of positions. */
typedef struct pe_rope_reach {
    bool any;        /* there are positions */
    double last;     /* the largest; of no account without any */
    double farthest; /* the largest magnitude */
    bool single;     /* compute_dtype=float32 */
} pe_rope_reach;
/* Refuses and fills in. `typed`: the rows that the client gave, before any preset. */
void pe_rope_check(posenc_request *r, pe_rope_params *p, posenc_given typed, const pe_rope_reach *reach, posenc_error *err);

/* ---- after `check` ---- */

int64_t pe_rope_width(const pe_rope_params *p);                            /* channels that rotate */
size_t pe_rope_pairs(const pe_rope_params *p);                             /* width / 2 */
bool pe_rope_long(const pe_rope_params *p);                                /* longrope: long_factor is used */
pe_dd pe_rope_attention(const posenc_request *r, const pe_rope_params *p); /* the attention factor; r says what was given */
double pe_rope_softmax(const pe_rope_params *p);                           /* what multiplies the softmax scale */
double pe_rope_ns(const pe_rope_params *p, bool single);                   /* cost of the frequencies */

/* (pairs) frequencies to 106 bits; `single`: formed in float32, step by step as float32 peers do. */
posenc_status pe_rope_frequencies(const pe_rope_params *p, bool single, pe_dd *w, const posenc_context *ctx);

/* Cosines and sines (n) of one position, times `attention`. */
posenc_status pe_rope_turn(const pe_dd *w, size_t n, double position, pe_dd attention, bool single, double *cosine,
                           double *sine, pe_pace *pace);

/* The same for row after row: by a rotor where float32 or less is asked for, exactly for float64, or in float32 steps. */
typedef struct pe_rope_spin {
    const pe_dd *w;
    size_t pairs, turning; /* pairs; those whose frequency is not 0 */
    pe_dd attention;
    bool single, fast;
    pe_rotor rotor;
} pe_rope_spin;
uint64_t pe_rope_spin_size(const posenc_request *r, const pe_rope_params *p, bool single); /* bytes of storage */
pe_rope_spin pe_rope_spin_begin(const posenc_request *r, const pe_rope_params *p, bool single, const pe_dd *w,
                                void *storage);
posenc_status pe_rope_spin_row(pe_rope_spin *s, double position, double *cosine, double *sine, pe_pace *pace);
/* Whether rows of tables come straight from the rotor: pe_rotor_rows, at this place. */
bool pe_rope_spin_straight(const pe_rope_spin *s);
pe_rotor_place pe_rope_spin_place(const pe_rope_spin *s, pe_rope_layout l, posenc_dtype dtype, void *cosines, void *sines);
double pe_rope_spin_ns(const posenc_request *r, const pe_rope_params *p, bool single); /* cost of a row with its writing */

/* ---- outputs that every rotary encoding has ---- */

/* clang-format off */
#define PE_ROPE_OUTPUTS                                                                                                  \
    { .name = "inv_freq", .shape = "[pairs]", .doc = "angle per position of each pair" },                                  \
    { .name = "attention_factor", .shape = "[1]", .dtype = "float64",                                                      \
      .doc = "what cos and sin are multiplied by already" },                                                               \
    { .name = "softmax_scale_multiplier", .shape = "[1]", .dtype = "float64",                                              \
      .doc = "what the model multiplies 1 / sqrt(head_dim) by: m(mscale_all_dim)^2 of DeepSeek's yarn, otherwise 1" },     \
    { .name = "long_factor_used", .shape = "[1]", .dtype = "int64",                                                        \
      .doc = "with longrope: 1 where the frequencies are those of long_factor, 0 where of short_factor" }
/* clang-format on */
posenc_status pe_rope_shape(const posenc_request *r, const pe_rope_params *p, posenc_result *out, posenc_error *err);
/* Fills them; `row` has room for the pairs. Warns where long_factor is used. */
void pe_rope_fill(const posenc_request *r, const pe_rope_params *p, const pe_dd *w, double *row, posenc_result *out);

/* ---- tables ---- */

static inline bool pe_rope_once(pe_rope_layout l) { return l >= PE_ROPE_HALF_ONCE; }
static inline bool pe_rope_interleaved(pe_rope_layout l) { return l % 2 == PE_ROPE_INTERLEAVED; }
static inline int64_t pe_rope_columns(pe_rope_layout l, size_t pairs) { return (int64_t)pairs * (pe_rope_once(l) ? 1 : 2); }
/* Of two channels that turn together, pair j: first and second column in the layout's order of channels. */
static inline size_t pe_rope_first(pe_rope_layout l, size_t j) { return pe_rope_interleaved(l) ? 2 * j : j; }
static inline size_t pe_rope_second(pe_rope_layout l, size_t pairs, size_t j)
{
    return pe_rope_interleaved(l) ? 2 * j + 1 : pairs + j;
}
/* One value a pair (n) into the columns of a row. */
void pe_rope_lay(pe_rope_layout l, size_t n, const double *pair, double *row);
/* Such a row as row number `index` of a table; `row` (2n) is scratch. */
void pe_rope_write(pe_rope_layout l, size_t n, const double *pair, double *row, posenc_tensor *to, int64_t index);

/* ---- turning vectors ---- */

/* Which channels of a head are turned, and where they go. */
typedef struct pe_rope_turner {
    size_t head_dim, pairs, start; /* channels start .. start + 2 pairs - 1 turn, the others pass */
    pe_rope_layout in, out;        /* the order of the channels that turn */
    bool single;                   /* each product and sum rounded to float32 */
} pe_rope_turner;

/* out = x turned; (head_dim) both. Of pair j the first channel takes c[j], s[j], the second c2[j], s2[j] (as a rule the
 * same arrays):  x1 c - x2 s,  x2 c2 + x1 s2. */
void pe_rope_vector(const pe_rope_turner *t, const double *c, const double *s, const double *c2, const double *s2,
                    const double *x, double *out);
/* Vector number `vector` of `from` into the same of `to`, rounded; before, after (head_dim) are scratch. */
void pe_rope_turn_vector(const pe_rope_turner *t, const double *c, const double *s, const double *c2, const double *s2,
                         const posenc_tensor *from, const posenc_tensor *to, int64_t vector, double *before, double *after);

/* The axes of a tensor of heads: [heads, N, head_dim] or [N, heads, head_dim], with a batch in front or without. */
typedef struct pe_rope_axes {
    int64_t batch, heads, positions;
    int64_t of_batch, of_head, of_position; /* vectors from one to the next */
} pe_rope_axes;
enum { PE_HEAD_POSITION_DIM, PE_POSITION_HEAD_DIM };
extern const char *const pe_rope_orders[]; /* head_position_dim, position_head_dim */
/* Whether `t` has such axes: of `positions`, or, where the positions are [B, L], of B batches of L. False after a fault. */
bool pe_rope_heads(const posenc_tensor *t, int order, const posenc_tensor *tokens, int64_t positions, int64_t head_dim,
                   posenc_error *err);
pe_rope_axes pe_rope_axes_of(const posenc_tensor *t, int order);
/* The largest magnitude of an element that stays finite in `dtype` when turned and multiplied by `attention`. */
double pe_rope_most(posenc_dtype dtype, bool single, double attention);
/* For `check`: that the elements of t are no larger. */
bool pe_rope_fits(const posenc_request *r, const pe_rope_params *p, bool single, const posenc_tensor *t, posenc_error *err);

#endif
