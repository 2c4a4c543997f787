/* learned.c - rows of a given table at the positions of a sequence.
 *
 *     embedding[i] = table[position[i]]
 *
 * What nn.Embedding does with the position ids of a model. Which those are is the convention of the model:
 *   BERT, GPT-2               num_positions=n: 0 .. n-1
 *   BART                      num_positions=n&offset=2: the first two rows belong to no position
 *   OPT                       attention_mask with padding_idx=1: the same, and row 1 where the mask is 0
 *   RoBERTa, Longformer       input_ids with padding_idx=1: real tokens count from 2, padding has row 1, so that 512 tokens
 * need 514 rows GPT-2 with padding left   attention_mask: real tokens count from 0, padding has row 1 M2M100
 * past_key_values_length is added to the positions of real tokens A position that the table does not have is an error, which
 * says how many rows are needed. */
#include "sequence/positions.h"
#include "sequence/resample.h"

#include <math.h>

/* ---- rows ---- */

typedef struct learned {
    posenc_given given;
    posenc_tensor table; /* (rows, width) */
    pe_positions at;
} learned;

static const posenc_param rows[] = {
    { PE_TENSOR(learned, table), .flags = PE_REQUIRED, .doc = "the learned table, [L, D]" },
    PE_POSITION_ROWS(learned, at, ""),
};

static const posenc_output outputs[] = {
    { .name = "embedding",
      .shape = "[num_positions, D], [L, D] or [B, L, D]",
      .doc = "one row a position, or a token of input_ids or attention_mask" },
    { .name = "positions", .shape = "[L] or [B, L]", .dtype = "int64", .doc = "the row of each token; only with tokens" },
};

/* ---- check ---- */

/* All rows from 0 to `largest` must be there. */
static void check_rows(const learned *p, double largest, posenc_error *err)
{
    if (largest >= (double)p->table.shape[0])
        pe_invalid(err, "table", posenc_text("%lld rows", (long long)p->table.shape[0]),
                   "at least %.0f rows: the largest position is %.0f", largest + 1, largest);
}

static void check_list(const learned *p, posenc_error *err)
{
    double largest = -1;
    for (size_t i = 0; i < p->at.positions.n; i++) {
        const double v = p->at.positions.v[i];
        if (!(v >= 0 && v == floor(v))) {
            pe_invalid(err, posenc_text("positions[%zu]", i).s, posenc_text("%.17g", v), "a row of table: 0, 1, 2, ...");
            return;
        }
        largest = v > largest ? v : largest;
    }
    check_rows(p, largest, err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const learned *p = r->params;
    const bool tokens = pe_positions_tokens(r, &p->at) != NULL;
    bool sound = pe_tensor_shaped(&p->table, 2, (int64_t[]){ -1, -1 }, "[L, D]", err);
    if (sound && !posenc_tensor_count(&p->table))
        sound = !pe_invalid(err, "table",
                            posenc_text("[%lld, %lld]", (long long)p->table.shape[0], (long long)p->table.shape[1]),
                            "at least one row and one column");
    pe_positions_check(r, &p->at, true, err);
    pe_positions_pad_tokens(r, &p->at, err);
    if (!tokens && p->at.offset < 0)
        pe_invalid(err, "offset", posenc_text("%lld", (long long)p->at.offset), "0 or more, a row of table");
    if (err->n || !sound)
        return err->status;
    if (tokens && pe_given(r, "num_positions") && p->at.num_positions > p->table.shape[0])
        pe_invalid(err, "num_positions", posenc_text("%lld", (long long)p->at.num_positions),
                   "at most %lld, the rows of table", (long long)p->table.shape[0]);
    if (pe_given(r, "positions"))
        check_list(p, err);
    else if (pe_positions_count(r, &p->at))
        check_rows(p, pe_positions_largest(r, &p->at), err);
    if (!err->n)
        pe_table_fits(&p->table, 1, (posenc_dtype)r->common.dtype, err);
    return err->status;
}

/* ---- shape, cost, compute ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const learned *p = r->params;
    const posenc_tensor *t = pe_positions_tokens(r, &p->at);
    int64_t size[PE_MAX_RANK];
    const int rank = pe_positions_shape(r, &p->at, 1, &p->table.shape[1], size);
    posenc_status st = pe_output(out, "embedding", (posenc_dtype)r->common.dtype, rank, size, err);
    return st || !t ? st : pe_output(out, "positions", PE_int64, t->rank, t->shape, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const learned *p = r->params;
    *out = (posenc_cost){ .ns = 1e3 + (double)pe_positions_count(r, &p->at) * (20 + 2 * (double)p->table.shape[1]) };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    (void)err;
    const learned *p = r->params;
    const bool tokens = pe_positions_tokens(r, &p->at) != NULL;
    const int64_t d = p->table.shape[1], n = pe_positions_count(r, &p->at);
    posenc_tensor *dst = pe_tensor(out, "embedding");
    pe_pace pace = { .ctx = ctx };
    pe_source source;
    posenc_status st = pe_positions_source(r, &p->at, tokens ? pe_tensor(out, "positions")->data : NULL, &pace, &source);
    for (int64_t i = 0; i < n && !st; i++)
        st = pe_copy_elements(&p->table, (int64_t)pe_position(&source, i) * d, dst, i * d, d, &pace);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_learned = {
    .name = "learned",
    .family = "absolute",
    .title = "rows of a learned table at positions",
    .source = "torch.nn.Embedding; position ids as fairseq make_positions, RoBERTa, BART, OPT, GPT-2 and M2M100 in "
              "HuggingFace transformers",
    .formula = "embedding[i] = table[position[i]]; of tokens with padding_idx: cumsum(real) + past_key_values_length +\n"
               "padding_idx where real, padding_idx where not; without: cumsum(real) - 1 + past_key_values_length, and 1",
    .example = "table=[[0,1],[2,3],[4,5],[6,7]]&input_ids=[[7,8,1]]&padding_idx=1",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(learned, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
