/* alibi.c - attention with linear biases: slopes times distances, in the four forms that models add to their scores.
 *
 *     key_position      slope[h] * p[j]                           (B * H, K)   p[j]: the key's position among real tokens
 *     mpt               slope[h] * (j - (K - 1))                  (H, K)       0 at the last key
 *     causal_relative   -slope[h] * (q - k), 0 where k > q        (H, Q, K)
 *     symmetric         -slope[h] * |q - k|                       (H, Q, K)
 *
 * H = head_count, K = key_length, Q = query_length; q and k are positions, the queries the last of the keys. Softmax does
 * not see a constant added to a row: below the diagonal the first three forms are one bias. Slopes: sequence/slopes.h.
 * Source: Press et al. 2022, arXiv:2108.12409, section 3. key_position: the authors' code, BLOOM and Falcon, whose axis
 * of one query is left out here; mpt: MPT's build_mpt_alibi_tensor; causal_relative: GPT-NeoX's AliBi; symmetric: NeMo,
 * x-transformers and encoders. */
#include "core/exact.h"
#include "sequence/distances.h"
#include "sequence/positions.h"
#include "sequence/slopes.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_alibi;

/* ---- rows ---- */

enum { KEY_POSITION, MPT, CAUSAL_RELATIVE, SYMMETRIC };
static const char *const forms[] = { "key_position", "mpt", "causal_relative", "symmetric", NULL };
#define OF_PAIRS (PE_ON(CAUSAL_RELATIVE) | PE_ON(SYMMETRIC))

typedef struct alibi {
    posenc_given given;
    pe_slopes of;
    int form;
    int64_t seq_length;
    int64_t query_length, key_length;
    posenc_tensor attention_mask;
} alibi;

static const posenc_param rows[] = {
    PE_SLOPE_ROWS(alibi, of,
                  "slope, distance and product are each rounded to this before dtype, as a tensor of it would be"),
    { PE_ENUM(alibi, form), .flags = PE_SELECTOR, .names = forms, .def = KEY_POSITION,
      .doc = "slope * position of the key (BLOOM, Falcon); slope * (position - last) (MPT); -slope * distance to earlier "
             "keys, 0 to later ones (GPT-NeoX); -slope * distance to either side (NeMo, x-transformers)" },
    { PE_INT(alibi, seq_length), .flags = PE_OPTIONAL, .min = 0, .max = PE_MOST_TOKENS,
      .doc = "queries and keys; stands for query_length and key_length" },
    { PE_INT(alibi, query_length), .flags = PE_OPTIONAL, .min = 0, .max = PE_MOST_TOKENS, .when = OF_PAIRS,
      .doc = "queries, the last of the keys; when absent as many as keys" },
    { PE_INT(alibi, key_length), .flags = PE_OPTIONAL, .min = 0, .max = PE_MOST_TOKENS,
      .doc = "keys; when absent as many as queries; without any length only the slopes are given" },
    { PE_TENSOR(alibi, attention_mask), .flags = PE_OPTIONAL, .when = PE_ON(KEY_POSITION),
      .doc =
          "1 where a key counts, 0 where it is padding, [K] or [B, K]: positions count the real keys, padding has bias 0" },
};

static const posenc_output outputs[] = {
    { "bias", "[head_count, K], [B * head_count, K] or [head_count, Q, K]",
      "added to the scores: of key_position and mpt one row for all queries; with attention_mask the heads of each sequence "
      "in turn; absent without lengths",
      NULL },
    { "slopes", "[head_count]", "slope of each head, in the order of heads", NULL },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_alibi.table, name) - rows); }

static bool of_pairs(const alibi *p) { return p->form == CAUSAL_RELATIVE || p->form == SYMMETRIC; }
static bool masked(const alibi *p) { return (p->given & bit("attention_mask")) != 0; }
static bool has_bias(const alibi *p) { return masked(p) || (p->given & bit("key_length")) != 0; }

/* ---- check ---- */

/* Sets both lengths. Either spelling has the same key: seq_length leaves no trace, nor does a length beside a mask.
 * Returns the parameter that decided the number of keys; NULL when none did. */
static const char *settle_lengths(alibi *p, posenc_error *err)
{
    const bool all = p->given & bit("seq_length"), q = p->given & bit("query_length"), k = p->given & bit("key_length");
    const char *by = k ? "key_length" : q ? "query_length" : all ? "seq_length" : NULL;
    const int64_t keys = k ? p->key_length : q ? p->query_length : p->seq_length;
    if (all && (q || k))
        pe_not_applicable(err, "seq_length", posenc_text("%lld", (long long)p->seq_length).s,
                          "either seq_length, or query_length and key_length");
    p->query_length = q ? p->query_length : keys;
    p->key_length = keys;
    p->given &= ~(bit("seq_length") | bit("query_length") | bit("key_length"));
    if (masked(p)) {
        const posenc_tensor *m = &p->attention_mask;
        if (pe_tokens_check(m, 0, 1, "0 or 1", err) && by && keys != m->shape[m->rank - 1])
            pe_invalid(err, by, posenc_text("%lld", (long long)keys), "%lld, the length of attention_mask, or absent",
                       (long long)m->shape[m->rank - 1]);
        p->key_length = m->rank ? m->shape[m->rank - 1] : 0;
        return "attention_mask";
    }
    if (by)
        p->given |= bit("key_length") | (of_pairs(p) ? bit("query_length") : 0);
    return by;
}

/* Nothing overflows float16: neither a distance nor the largest product. */
static void check_range(const posenc_request *r, const char *by, posenc_error *err)
{
    const alibi *p = r->params;
    const int64_t longest = p->form == SYMMETRIC && p->query_length > p->key_length ? p->query_length : p->key_length;
    const bool narrow_distance = p->of.slope_dtype == PE_float16, narrow_result = r->common.dtype == PE_float16;
    double most = narrow_distance ? 65504 : 0x1p60;
    if (narrow_result)
        most = pe_min(most, floor(65504 / pe_slopes_bound(&p->of)));
    if (by && (double)(longest - 1) > most)
        pe_invalid(err, by, posenc_text("%lld", (long long)longest), "at most %.0f positions with %s=float16", most + 1,
                   narrow_distance ? "slope_dtype" : "dtype");
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    alibi *p = r->params;
    pe_slopes_check(r, &p->of, err);
    const char *by = settle_lengths(p, err);
    if (!err->n)
        check_range(r, by, err);
    return err->status;
}

/* ---- shape and cost ---- */

static int64_t sequences(const alibi *p)
{
    return masked(p) && p->attention_mask.rank == 2 ? p->attention_mask.shape[0] : 1;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const alibi *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const int64_t heads = p->of.head_count;
    const int64_t pairs[] = { heads, p->query_length, p->key_length };
    int64_t keys[] = { 0, p->key_length };
    posenc_status st = PE_OK;
    if (!posenc_mul_size(sequences(p), heads, &keys[0]))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "attention_mask", "too many sequences",
                           "fewer sequences or heads");
    if (has_bias(p))
        st = of_pairs(p) ? pe_output(out, "bias", dtype, 3, pairs, err) : pe_output(out, "bias", dtype, 2, keys, err);
    return st ? st : pe_output(out, "slopes", dtype, 1, &heads, err);
}

static pe_curve curve_of(const alibi *p) { return pe_curve_of_last(p->query_length, p->key_length, false); }

/* A head's curve, and the same in the request's dtype. */
static uint64_t curve_bytes(const alibi *p, posenc_dtype dtype)
{
    const pe_curve c = curve_of(p);
    return of_pairs(p) ? pe_curve_bytes(&c, PE_float64) + pe_curve_bytes(&c, dtype) : 0;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const alibi *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const double heads = (double)p->of.head_count, k = (double)p->key_length, q = (double)p->query_length;
    const double each = p->of.slope_dtype == PE_float64 ? 8 : 22;
    *out = pe_slopes_cost(&p->of);
    out->scratch += (uint64_t)p->of.head_count * sizeof(double) + curve_bytes(p, dtype);
    if (of_pairs(p))
        out->ns += heads * (each * (q + k) + 10 * q + q * k * (double)posenc_dtype_size(dtype) / 2);
    else if (has_bias(p))
        out->ns += heads * (double)sequences(p) * (50 + each * k);
}

/* ---- compute ---- */

/* Slope, distance and product in slope_dtype: an integer tensor times a bfloat16 one is made bfloat16 first. */
static double product(const alibi *p, double slope, int64_t distance)
{
    const posenc_dtype t = (posenc_dtype)p->of.slope_dtype;
    return pe_rounded(t, slope * pe_rounded(t, (double)distance));
}

/* The keys of sequence b, for one head: row number `index` of dst. */
static posenc_status fill_keys(const alibi *p, const posenc_tensor *dst, int64_t index, int64_t b, double slope,
                               pe_pace *pace)
{
    enum { BLOCK = 512 };
    double v[BLOCK];
    const int64_t keys = p->key_length;
    const size_t size = posenc_dtype_size(dst->dtype);
    const bool mask = masked(p);
    char *row = (char *)dst->data + (size_t)index * (size_t)keys * size;
    posenc_status st = PE_OK;
    int64_t seen = 0;
    for (int64_t first = 0; first < keys && !st; first += BLOCK) {
        const int64_t n = keys - first < BLOCK ? keys - first : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            int64_t distance = p->form == MPT ? first + i - (keys - 1) : first + i;
            if (mask) {
                const bool real = posenc_tensor_get(&p->attention_mask, b * keys + first + i) != 0;
                seen += real;
                distance = real ? seen - 1 : 0;
            }
            v[i] = product(p, slope, distance);
        }
        posenc_convert(dst->dtype, row + (size_t)first * size, v, (size_t)n);
        st = pe_pace_add(pace, n * 20);
    }
    return st;
}

/* The matrix of one head. */
static posenc_status fill_pairs(const alibi *p, const posenc_tensor *dst, int64_t head, double slope, double *curve,
                                pe_pace *pace)
{
    const pe_curve c = curve_of(p);
    posenc_status st = PE_OK;
    for (int64_t t = 0; t < c.count && !st; t++) {
        const int64_t ahead = pe_curve_distance(&c, t);
        curve[t] = product(p, slope, ahead <= 0 ? ahead : p->form == SYMMETRIC ? -ahead : 0);
        st = pe_pace_add(pace, 10);
    }
    return st ? st : pe_curve_fill(&c, curve, curve + c.count, dst, head, pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const alibi *p = r->params;
    const posenc_tensor *bias = pe_tensor(out, "bias"), *slopes = pe_tensor(out, "slopes");
    const int64_t heads = p->of.head_count;
    pe_pace pace = { .ctx = ctx };
    double *slope = malloc((size_t)heads * sizeof *slope + curve_bytes(p, slopes->dtype));
    if (!slope)
        return pe_no_memory("memory", err);
    posenc_status st = pe_slopes_compute(&p->of, slope, ctx, err);
    if (!st)
        posenc_convert(slopes->dtype, slopes->data, slope, (size_t)heads);
    const int64_t matrices = bias && posenc_tensor_count(bias) ? heads * sequences(p) : 0;
    for (int64_t i = 0; i < matrices && !st; i++)
        st = of_pairs(p) ? fill_pairs(p, bias, i, slope[i], slope + heads, &pace)
                         : fill_keys(p, bias, i, i / heads, slope[i % heads], &pace);
    free(slope);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_alibi = {
    .name = "alibi",
    .family = "relative",
    .title = "attention with linear biases",
    .source = "Press et al. 2022, Train short, test long, arXiv:2108.12409, section 3",
    .formula = "key_position: slope[h] * p[j];  mpt: slope[h] * (j - (key_length - 1))\n"
               "causal_relative: -slope[h] * (q - k), 0 where k > q;  symmetric: -slope[h] * |q - k|\n"
               "p counts real keys from 0; q and k are positions, the queries the last of the keys; slopes as alibi_slopes",
    .example = "num_heads=12&seq_length=16&form=causal_relative",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(alibi, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
