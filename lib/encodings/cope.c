/* cope.c - CoPE: positions that count what the attention opens a gate for, not tokens.
 *
 *     g[i, j] = sigmoid(attn_logits[i, j])
 *     p[i, j] = min(g[i, j] + g[i, j + 1] + ... + g[i, K - 1], max_pos - 1)
 *     bias[i, j] = (1 - w) query[i] . pos_emb[floor p] + w query[i] . pos_emb[ceil p]          w = p - floor p
 *
 * Masked logits are large negative numbers, whose gates are 0; the caller masks.
 * Source: Golovneva et al. 2024, arXiv:2405.18719, section 4; the code is in its appendix and as CoPE in x-transformers. */
#include "core/elementary.h"
#include "core/pace.h"
#include "core/params.h"
#include "core/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_cope;

/* ---- rows ---- */

typedef struct cope {
    posenc_given given;
    int64_t max_pos;
    posenc_tensor query, attn_logits, pos_emb;
} cope;

static const posenc_param rows[] = {
    { PE_INT(cope, max_pos), .flags = PE_DERIVED, .min = 1, .max = 1 << 24,
      .doc = "rows of pos_emb, which it may not contradict; when absent read from it" },
    { PE_TENSOR(cope, query), .flags = PE_REQUIRED, .doc = "queries, [..., Q, D]: any leading axes, such as [B, H, Q, D]" },
    { PE_TENSOR(cope, attn_logits), .flags = PE_REQUIRED,
      .doc = "scores before softmax, masked ones large and negative, [..., Q, K]" },
    { PE_TENSOR(cope, pos_emb), .flags = PE_REQUIRED, .doc = "the learned embedding of positions, [max_pos, D]" },
};

static const posenc_output outputs[] = {
    { "bias", "[..., Q, K]", "added to the scores", NULL },
};

/* ---- check ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    cope *p = r->params;
    const posenc_tensor *q = &p->query, *l = &p->attn_logits, *e = &p->pos_emb;
    int64_t want[PE_MAX_RANK];
    if (q->rank < 2)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "query", posenc_text("%d axes", q->rank).s,
                           "the shape [..., Q, D]");
    const int64_t d = q->shape[q->rank - 1], table[] = { pe_given(r, "max_pos") ? p->max_pos : -1, d };
    memcpy(want, q->shape, sizeof want);
    want[q->rank - 1] = -1;
    bool fits = pe_tensor_shaped(l, q->rank, want, "[..., Q, K], all but the last axis as query's", err);
    fits = pe_tensor_shaped(e, 2, table, "[max_pos, D], D as query's", err) && fits;
    if (!fits)
        return err->status;
    if (e->shape[0] < 1 || e->shape[0] > 1 << 24)
        return pe_invalid(err, "pos_emb", posenc_text("%lld rows", (long long)e->shape[0]), "1 .. 2^24 rows");
    p->max_pos = e->shape[0];
    const double most = pe_dtype_largest((posenc_dtype)r->common.dtype),
                 bound = pe_tensor_largest(q) * pe_tensor_largest(e) * (double)d;
    if (bound > most)
        pe_invalid(err, "query", posenc_text("products of up to %g", bound),
                   "D times the largest elements of query and pos_emb at most %g in %s", most,
                   posenc_dtype_name((posenc_dtype)r->common.dtype));
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const cope *p = r->params;
    return pe_output(out, "bias", (posenc_dtype)r->common.dtype, p->attn_logits.rank, p->attn_logits.shape, err);
}

typedef struct sizes {
    int64_t rows, keys, width; /* queries of all leading axes; keys and channels of each */
} sizes;

static sizes sizes_of(const cope *p)
{
    const posenc_tensor *q = &p->query;
    sizes s = { .rows = 1, .keys = p->attn_logits.shape[q->rank - 1], .width = q->shape[q->rank - 1] };
    for (int i = 0; i < q->rank - 1; i++)
        s.rows *= q->shape[i];
    return s;
}

/* The embedding, one query, its product with each row, and a row of positions. */
static size_t memory(const cope *p)
{
    const sizes s = sizes_of(p);
    return sizeof(double) * ((size_t)p->max_pos * (size_t)(s.width + 1) + (size_t)s.width + (size_t)s.keys);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const cope *p = r->params;
    const sizes s = sizes_of(p);
    const double rows_of_table = (double)(s.keys < p->max_pos ? s.keys + 1 : p->max_pos);
    out->ns = 5000 + 3 * (double)p->max_pos * (double)s.width +
              (double)s.rows * (700 * (double)s.keys + rows_of_table * (double)s.width);
    out->scratch = memory(p);
}

/* ---- compute ---- */

/* position[j] of the keys of one query; returns how many rows of pos_emb they need. */
static posenc_status count_gates(const posenc_tensor *logits, int64_t row, const sizes *s, int64_t max_pos, double *position,
                                 int64_t *needed, pe_pace *pace)
{
    const double last = (double)(max_pos - 1);
    double open = 0;
    posenc_status st = PE_OK;
    *needed = 0;
    for (int64_t j = s->keys - 1; j >= 0 && !st; j--) {
        open += pe_sigmoid(posenc_tensor_get(logits, row * s->keys + j));
        position[j] = open < last ? open : last;
        st = pe_pace_add(pace, 1500);
    }
    if (s->keys)
        *needed = (int64_t)ceil(position[0]) + 1; /* gates are positive: the first key is the farthest */
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const cope *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "bias");
    const sizes s = sizes_of(p);
    const size_t size = posenc_dtype_size(dst->dtype), width = (size_t)s.width;
    pe_pace pace = { .ctx = ctx };
    if (!posenc_tensor_count(dst))
        return PE_OK;
    double *table = malloc(memory(p)), *query = table + (size_t)p->max_pos * width, *product = query + width,
           *position = product + p->max_pos;
    int64_t needed;
    posenc_status st = PE_OK;
    if (!table)
        return pe_no_memory("memory", err);
    st = pe_tensor_doubles(&p->pos_emb, table, &pace);
    for (int64_t i = 0; i < s.rows && !st; i++) {
        for (int64_t k = 0; k < s.width; k++)
            query[k] = posenc_tensor_get(&p->query, i * s.width + k);
        if ((st = count_gates(&p->attn_logits, i, &s, p->max_pos, position, &needed, &pace)))
            break;
        for (int64_t row = 0; row < needed && !st; row++) {
            double sum = 0;
            for (size_t k = 0; k < width; k++)
                sum += query[k] * table[(size_t)row * width + k];
            product[row] = sum;
            st = pe_pace_add(&pace, s.width + 5);
        }
        for (int64_t j = 0; j < s.keys && !st; j++) {
            const double below = floor(position[j]), w = position[j] - below;
            position[j] = product[(size_t)ceil(position[j])] * w + product[(size_t)below] * (1 - w);
        }
        posenc_convert(dst->dtype, (char *)dst->data + (size_t)(i * s.keys) * size, position, (size_t)s.keys);
        st = st ? st : pe_pace_add(&pace, s.keys * 5);
    }
    free(table);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_cope = {
    .name = "cope",
    .family = "relative",
    .title = "contextual position encoding (CoPE)",
    .source = "Golovneva et al. 2024, Contextual position encoding, arXiv:2405.18719; x-transformers, CoPE",
    .formula = "p[i, j] = min(sum over k = j .. K - 1 of sigmoid(attn_logits[i, k]), max_pos - 1), w = p - floor(p)\n"
               "bias[i, j] = (1 - w) query[i] . pos_emb[floor(p)] + w query[i] . pos_emb[ceil(p)]",
    .example = "query=[[1,0.5],[0.25,-1]]&attn_logits=[[0.5,-1e9],[2,-1]]&pos_emb=[[0.1,0.2],[0.3,-0.4],[0.5,0.6]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(cope, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
