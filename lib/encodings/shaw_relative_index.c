/* shaw_relative_index.c - the row of the table of relative positions that a pair of tokens uses.
 *
 *     index = clip(r, -low, high) + low
 *
 *     variant            r             low, high                                                     rows of the table
 *     tensor2tensor      key - query   max_relative_position, the same                               2 max_relative_position
 * + 1 speecht5           query - key   max_length, max_length - 1                                    2 max_length
 *     wav2vec2_bert      key - query   left_ and right_max_position_embeddings                       left + right + 1
 *     bert_relative_key  query - key   max_position_embeddings - 1, the same; beyond them no row     2
 * max_position_embeddings - 1
 *
 * Source: Shaw et al. 2018, arXiv:1803.02155, section 3.2; tensor2tensor _generate_relative_positions_matrix, where the
 * queries are the last of the keys. Hugging Face SpeechT5RelativePositionalEncoding; wav2vec2-bert (SeamlessM4T v2) and,
 * until 4.56, BERT with position_embedding_type=relative_key. */
#include "sequence/distances.h"

#include <stdlib.h>

extern const posenc_encoding pe_shaw_relative_index;

/* ---- rows ---- */

enum { TENSOR2TENSOR, SPEECHT5, WAV2VEC2_BERT, BERT_RELATIVE_KEY };
static const char *const variants[] = { "tensor2tensor", "speecht5", "wav2vec2_bert", "bert_relative_key", NULL };

typedef struct shaw_relative_index {
    posenc_given given;
    int variant;
    pe_distances at;
    bool cache;
    int64_t max_relative_position, max_length, left_max_position_embeddings, right_max_position_embeddings,
        max_position_embeddings;
} shaw_relative_index;

static const posenc_param rows[] = {
    { PE_ENUM(shaw_relative_index, variant), .flags = PE_SELECTOR, .names = variants, .def = TENSOR2TENSOR,
      .doc = "whose index: the order of the difference, how it is clipped, and where the queries are: the last of the keys "
             "(tensor2tensor), otherwise from position 0 on; either unless past_seen_tokens says so" },
    PE_DISTANCE_ROWS(shaw_relative_index, at,
                     "key - query (tensor2tensor, wav2vec2_bert) or query - key (speecht5, bert_relative_key)"),
    { PE_BOOL(shaw_relative_index, cache),
      .doc = "the last key's row alone, as in decoding one token: query_length=1, whatever it is, and "
             "past_seen_tokens = key_length - 1" },
    { PE_INT(shaw_relative_index, max_relative_position), .flags = PE_REQUIRED, .when = PE_ON(TENSOR2TENSOR),
      .max = PE_MOST_TOKENS, .doc = "distances are clipped to this, either way" },
    { PE_INT(shaw_relative_index, max_length), .flags = PE_REQUIRED, .when = PE_ON(SPEECHT5), .min = 1,
      .max = PE_MOST_TOKENS, .doc = "distances are clipped to -max_length .. max_length - 1; SpeechT5: 160" },
    { PE_INT(shaw_relative_index, left_max_position_embeddings), .flags = PE_REQUIRED, .when = PE_ON(WAV2VEC2_BERT),
      .max = PE_MOST_TOKENS, .doc = "clips how far a key is before the query; wav2vec2-bert: 64" },
    { PE_INT(shaw_relative_index, right_max_position_embeddings), .flags = PE_REQUIRED, .when = PE_ON(WAV2VEC2_BERT),
      .max = PE_MOST_TOKENS, .doc = "clips how far a key is after the query; wav2vec2-bert: 8" },
    { PE_INT(shaw_relative_index, max_position_embeddings), .flags = PE_REQUIRED, .when = PE_ON(BERT_RELATIVE_KEY), .min = 1,
      .max = PE_MOST_TOKENS, .doc = "distances must be below this: there is no clipping; BERT: 512" },
};

static const posenc_output outputs[] = {
    { "index", "[query_length, key_length]", "row of the table for each pair; [distances] of relative_position", "int64" },
};

/* ---- what the parameters mean ---- */

typedef struct clip {
    int64_t low, high; /* index = clip(distance, -low, high) + low */
} clip;

static clip clip_of(const shaw_relative_index *p)
{
    switch (p->variant) {
    case SPEECHT5: return (clip){ p->max_length, p->max_length - 1 };
    case WAV2VEC2_BERT: return (clip){ p->left_max_position_embeddings, p->right_max_position_embeddings };
    case BERT_RELATIVE_KEY: return (clip){ p->max_position_embeddings - 1, p->max_position_embeddings - 1 };
    default: return (clip){ p->max_relative_position, p->max_relative_position };
    }
}

static pe_curve curve_of(const posenc_request *r)
{
    const shaw_relative_index *p = r->params;
    return pe_distances_curve(r, &p->at, p->variant == SPEECHT5 || p->variant == BERT_RELATIVE_KEY);
}

/* ---- rules ---- */

static posenc_short number(int64_t v) { return posenc_text("%lld", (long long)v); }

/* cache becomes the lengths it stands for: either spelling has the same digest. */
static void apply_cache(posenc_request *r, posenc_error *err)
{
    shaw_relative_index *p = r->params;
    if (!p->cache)
        return;
    if (pe_given(r, "relative_position")) {
        pe_not_applicable(err, "cache", "true", "false with relative_position");
        return;
    }
    if (pe_given(r, "past_seen_tokens"))
        pe_not_applicable(err, "past_seen_tokens", number(p->at.past_seen_tokens).s, "absent with cache=true");
    if (!pe_given(r, "key_length") || !p->at.key_length) {
        pe_invalid(err, "key_length", pe_given(r, "key_length") ? number(p->at.key_length) : posenc_text("absent"),
                   "at least 1 with cache=true");
        return;
    }
    p->at.query_length = 1;
    p->at.past_seen_tokens = p->at.key_length - 1;
    pe_mark(r, "query_length", true);
    pe_mark(r, "past_seen_tokens", true);
    p->cache = false;
}

/* tensor2tensor: the queries are the last of the keys. */
static void place_queries(posenc_request *r, posenc_error *err)
{
    shaw_relative_index *p = r->params;
    if (p->variant != TENSOR2TENSOR || pe_given(r, "relative_position") || pe_given(r, "past_seen_tokens") ||
        !pe_given(r, "query_length") || !pe_given(r, "key_length"))
        return;
    if (p->at.query_length > p->at.key_length)
        pe_invalid(err, "query_length", number(p->at.query_length),
                   "at most key_length = %lld, as the queries are the last keys, or past_seen_tokens given",
                   (long long)p->at.key_length);
    else
        p->at.past_seen_tokens = p->at.key_length - p->at.query_length;
}

/* BERT's table has no row for distances of max_position_embeddings or more. */
static void check_rows(const posenc_request *r, posenc_error *err)
{
    const shaw_relative_index *p = r->params;
    const pe_curve c = curve_of(r);
    const int64_t most = p->max_position_embeddings - 1;
    const posenc_short allowed = posenc_text("%lld .. %lld, the distances that have a row", -(long long)most,
                                             (long long)most);
    if (p->variant != BERT_RELATIVE_KEY || !c.count)
        return;
    for (int64_t t = 0; t < c.count && c.listed; t++)
        if (llabs(pe_curve_distance(&c, t)) > most) {
            pe_invalid(err, posenc_text("relative_position[%lld]", (long long)t).s, number(pe_curve_distance(&c, t)), "%s",
                       allowed.s);
            return;
        }
    if (c.listed)
        return;
    const int64_t last_query = -c.first, last_key = c.columns - 1 - p->at.past_seen_tokens;
    if (last_query > most || last_key > most)
        pe_invalid(err, "max_position_embeddings", number(p->max_position_embeddings),
                   "at least %lld, as query - key is %lld .. %lld",
                   (long long)(last_query > last_key ? last_query : last_key) + 1, -(long long)last_key,
                   (long long)last_query);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    shaw_relative_index *p = r->params;
    apply_cache(r, err);
    if (!p->cache) {
        place_queries(r, err);
        pe_distances_check(r, &p->at, err);
    }
    if (!err->n)
        check_rows(r, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const shaw_relative_index *p = r->params;
    int64_t size[2];
    const int rank = pe_distances_shape(r, &p->at, size);
    return pe_output(out, "index", PE_int64, rank, size, err);
}

enum { STEPS = 3 };

static void cost(const posenc_request *r, posenc_cost *out)
{
    const pe_curve c = curve_of(r);
    *out = pe_curve_cost(&c, STEPS);
}

/* ---- compute ---- */

static int64_t row_of(const void *user, int64_t distance)
{
    const clip *c = user;
    return (distance < -c->low ? -c->low : distance > c->high ? c->high : distance) + c->low;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const clip limits = clip_of(r->params);
    const pe_curve c = curve_of(r);
    pe_pace pace = { .ctx = ctx };
    return pe_curve_map(&c, row_of, &limits, STEPS, pe_tensor(out, "index")->data, &pace, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_shaw_relative_index = {
    .name = "shaw_relative_index",
    .family = "relative",
    .title = "clipped index of relative positions",
    .source = "Shaw et al. 2018, Self-attention with relative position representations, arXiv:1803.02155, section 3.2",
    .formula = "tensor2tensor: clip(key - query, -m, m) + m, m = max_relative_position; the queries are the last keys\n"
               "speecht5: clip(query - key, -m, m - 1) + m, m = max_length\n"
               "wav2vec2_bert: clip(key - query, -left, right) + left, left = left_max_position_embeddings, right likewise\n"
               "bert_relative_key: query - key + max_position_embeddings - 1",
    .example = "query_length=6&key_length=8&max_relative_position=3",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(shaw_relative_index, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
