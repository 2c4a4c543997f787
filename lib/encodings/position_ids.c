/* position_ids.c - which position each token has, and which row of the model's table it reads, by each model family.
 *
 *     m[t]: 1 where token t is real, 0 where it is padding; c[t] = m[0] + ... + m[t]; P = past_key_values_length
 *     roberta, m2m100   (c + P) m + padding_idx                          row = position     m: input_ids is not padding_idx
 *     opt               c m - 1 of the tokens from P on                  row = position + offset
 *     bart              P + t                                            row = position + offset
 *     gpt2              c - 1 of the tokens from P on, pads replaced     row = position
 *
 * So real tokens start at padding_idx + 1 for roberta and m2m100 and padding reads row padding_idx; in opt it reads row
 * offset - 1; gpt2, and every model with rotary positions, masks padding and gives it pad_position_value.
 * attention_mask covers the tokens that came before too, and their positions are left out of the outputs.
 * Source: fairseq's make_positions, create_position_ids_from_input_ids of RoBERTa, ESM, Longformer and M2M100 (past added
 * before masking), OPTLearnedPositionalEmbedding, BartLearnedPositionalEmbedding; gpt2: the generation loop of
 * transformers (cumsum(mask) - 1, pads 1) and, without a mask, GPT2Model. */
#include "core/pace.h"
#include "sequence/positions.h"

#include <stdlib.h>

extern const posenc_encoding pe_position_ids;

/* ---- rows ---- */

enum { ROBERTA, M2M100, OPT, BART, GPT2 };
static const char *const variants[] = { "roberta", "m2m100", "opt", "bart", "gpt2", NULL };
#define FAIRSEQ (PE_ON(ROBERTA) | PE_ON(M2M100))
#define COUNTED (PE_ON(BART) | PE_ON(GPT2))
#define LARGE 1e15

typedef struct position_ids {
    posenc_given given;
    int variant;
    posenc_tensor input_ids, attention_mask;
    int64_t seq_length, padding_idx, offset, past_key_values_length, pad_position_value, num_positions;
} position_ids;

static const posenc_param rows[] = {
    { PE_ENUM(position_ids, variant), .flags = PE_REQUIRED | PE_SELECTOR, .names = variants,
      .doc = "whose convention: roberta (also fairseq, XLM-R, ESM, Longformer), m2m100 (NLLB), opt, bart (mBART), gpt2 "
             "(left padding; also models with rotary positions)" },
    { PE_TENSOR(position_ids, input_ids), .flags = PE_OPTIONAL, .when = FAIRSEQ,
      .doc = "token ids, [L] or [B, L]; required by roberta and m2m100, where padding_idx is padding" },
    { PE_TENSOR(position_ids, attention_mask), .flags = PE_OPTIONAL, .when = PE_ON(OPT) | PE_ON(GPT2),
      .doc = "1 where a token is real, 0 where it is padding, [L] or [B, L], past tokens included; required by opt" },
    { PE_INT(position_ids, seq_length), .flags = PE_OPTIONAL, .min = 0, .max = 1e9, .when = COUNTED,
      .doc = "tokens of one sequence, all real; required by bart, and by gpt2 without attention_mask" },
    { PE_INT(position_ids, padding_idx), .def = 1, .min = 0, .max = LARGE, .when = FAIRSEQ,
      .doc = "id of padding, and its position; real tokens start after it" },
    { PE_INT(position_ids, offset), .def = 2, .min = 0, .max = LARGE, .when = PE_ON(OPT) | PE_ON(BART),
      .doc = "rows of the table before that of position 0" },
    { PE_INT(position_ids, past_key_values_length), .min = 0, .max = LARGE,
      .doc = "tokens that came before: added to positions, or the first columns of attention_mask" },
    { PE_INT(position_ids, pad_position_value), .def = 1, .min = -LARGE, .max = LARGE, .when = PE_ON(GPT2),
      .doc = "position of padding" },
    { PE_INT(position_ids, num_positions), .flags = PE_OPTIONAL, .min = 0, .max = LARGE,
      .doc = "rows of the model's table: a token that needs more is refused, with how many it takes" },
};

static const posenc_output outputs[] = {
    { "position_ids", "[L] or [B, L]", "the position of each token", "int64" },
    { "row_index", "[L] or [B, L]", "the row of the table it reads: with opt and bart, offset further on", "int64" },
};

/* ---- the rules of the variants ---- */

static const posenc_tensor *tokens(const position_ids *p)
{
    return p->input_ids.rank ? &p->input_ids : p->attention_mask.rank ? &p->attention_mask : NULL;
}

/* Columns of attention_mask that belong to earlier calls. */
static int64_t skipped(const position_ids *p) { return p->attention_mask.rank ? p->past_key_values_length : 0; }

static int64_t length(const position_ids *p)
{
    const posenc_tensor *t = tokens(p);
    return t ? t->shape[t->rank - 1] - skipped(p) : p->seq_length;
}

static int64_t sequences(const position_ids *p)
{
    const posenc_tensor *t = tokens(p);
    return t && t->rank == 2 ? t->shape[0] : 1;
}

static int64_t added(const position_ids *p) { return p->variant == OPT || p->variant == BART ? p->offset : 0; }

enum { BLOCK = 512 }; /* tokens at a time */

/* What real tokens are unequal to, and what their positions are: `base` + c, where c counts them and starts at 0 with each
 * sequence; of padding `pad`. */
typedef struct rule {
    double padding;
    int64_t base, pad;
} rule;

static rule rule_of(const position_ids *p)
{
    switch (p->variant) {
    case OPT: return (rule){ 0, -1, -1 };
    case GPT2: return (rule){ 0, -1, p->pad_position_value };
    default: return (rule){ (double)p->padding_idx, p->past_key_values_length + p->padding_idx, p->padding_idx };
    }
}

/* Positions (n) of tokens t .. t + n - 1 of sequence b; *seen counts the real tokens so far. */
static void positions(const position_ids *p, int64_t b, int64_t t, int64_t n, int64_t *seen, int64_t *out)
{
    const posenc_tensor *x = tokens(p);
    const rule r = rule_of(p);
    double v[BLOCK];
    int64_t c = *seen;
    if (!x) {
        for (int64_t i = 0; i < n; i++)
            out[i] = p->past_key_values_length + t + i;
        return;
    }
    pe_tensor_read(x, b * x->shape[x->rank - 1] + t, (size_t)n, v);
    for (int64_t i = 0; i < n; i++) {
        const int64_t real = v[i] != r.padding, on = -real; /* no branch: padding comes as it likes */
        c += real;
        out[i] = ((r.base + c) & on) | (r.pad & ~on);
    }
    *seen = c;
}

/* ---- check ---- */

/* Rows that a table needs for these tokens. */
static int64_t rows_needed(const position_ids *p)
{
    if (!tokens(p)) /* the last token reads the last row */
        return p->seq_length ? p->past_key_values_length + p->seq_length + added(p) : 0;
    int64_t need = 0, at[BLOCK];
    for (int64_t b = 0, n = sequences(p), l = length(p) + skipped(p); b < n; b++)
        for (int64_t t = 0, seen = 0; t < l; t += BLOCK) {
            const int64_t some = l - t < BLOCK ? l - t : BLOCK;
            positions(p, b, t, some, &seen, at);
            for (int64_t i = skipped(p) > t ? skipped(p) - t : 0; i < some; i++)
                need = at[i] + added(p) >= need ? at[i] + added(p) + 1 : need;
        }
    return need;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    static const char *const required[] = { "input_ids", "input_ids", "attention_mask", "seq_length", "seq_length" };
    const position_ids *p = r->params;
    const bool mask = pe_given(r, "attention_mask"), count = pe_given(r, "seq_length");
    const char *name = required[p->variant];
    if (!pe_given(r, name) && !(p->variant == GPT2 && mask))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", name, "absent", "a value, it is required by %s%s",
                    variants[p->variant], p->variant == GPT2 ? " without attention_mask" : "");
    if (mask && count)
        pe_not_applicable(err, "seq_length", posenc_text("%lld", (long long)p->seq_length).s, "either, or attention_mask");
    if (pe_given(r, "input_ids"))
        pe_tokens_check(&p->input_ids, -0x1p63, 0x1p63, "an integer", err);
    if (mask && pe_tokens_check(&p->attention_mask, 0, 1, "0 or 1", err) && length(p) < 0)
        pe_invalid(err, "past_key_values_length", posenc_text("%lld", (long long)p->past_key_values_length),
                   "at most %lld: attention_mask covers the tokens before too", (long long)(length(p) + skipped(p)));
    if (err->n || !pe_given(r, "num_positions"))
        return err->status;
    const int64_t need = rows_needed(p);
    if (need > p->num_positions)
        pe_invalid(err, "num_positions", posenc_text("%lld", (long long)p->num_positions),
                   "at least %lld rows for these tokens", (long long)need);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const position_ids *p = r->params;
    const posenc_tensor *t = tokens(p);
    const int64_t size[] = { sequences(p), length(p) };
    const bool batch = t && t->rank == 2;
    posenc_status st = pe_output(out, "position_ids", PE_int64, 1 + batch, size + !batch, err);
    return st ? st : pe_output(out, "row_index", PE_int64, 1 + batch, size + !batch, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const position_ids *p = r->params;
    *out = (posenc_cost){ .ns = 1000 + 4 * (double)sequences(p) * (double)(length(p) + skipped(p)) };
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const position_ids *p = r->params;
    int64_t *ids = pe_tensor(out, "position_ids")->data, *index = pe_tensor(out, "row_index")->data, at[BLOCK];
    const int64_t n = length(p), past = skipped(p), more = added(p);
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    (void)err;
    for (int64_t b = 0; b < sequences(p) && !st; b++)
        for (int64_t t = 0, seen = 0, some; t < past + n && !st; t += some) {
            const int64_t end = t < past ? past : past + n; /* a block is of the past, or after it */
            some = end - t < BLOCK ? end - t : BLOCK;
            positions(p, b, t, some, &seen, at);
            if (t >= past) {
                int64_t *to = ids + b * n + t - past, *row = index + b * n + t - past;
                for (int64_t i = 0; i < some; i++) {
                    to[i] = at[i];
                    row[i] = at[i] + more;
                }
            }
            st = pe_pace_add(&pace, 4 * some + 20);
        }
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_position_ids = {
    .name = "position_ids",
    .family = "absolute",
    .title = "positions of tokens and rows of a learned table",
    .source = "fairseq, make_positions; transformers: RoBERTa, M2M100, OPT, BART, GPT-2 and its generation loop",
    .formula =
        "m: real tokens, c: their running count, P = past_key_values_length\n"
        "roberta, m2m100: (c + P) m + padding_idx;  opt: c m - 1;  bart: P + t;  gpt2: c - 1, pads pad_position_value\n"
        "row_index = position + offset with opt and bart, otherwise the position",
    .example = "variant=roberta&input_ids=[[5,6,7,8,1,1],[5,6,1,1,1,1]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(position_ids, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
