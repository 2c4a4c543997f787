/* rope_permute.c - the order of channels between rotary layouts, and query or key weights in the other order.
 *
 *     half to interleaved:  new[2j] = old[j], new[2j + 1] = old[j + r/2]             j = 0 .. r/2 - 1, in every head
 *
 * A model's weights fit one layout of rope; permuted so, they fit the other and give the same scores.
 * Source: the conversion of Meta's Llama weights (interleaved) for transformers (half), convert_llama_weights_to_hf.py. */
#include "core/pace.h"
#include "sequence/rotary.h"

#include <stdlib.h>

extern const posenc_encoding pe_rope_permute;

/* ---- rows ---- */

static const char *const orders[] = { "half", "interleaved", NULL }; /* as pe_rope_layout */
enum { FIRST, LAST };
static const char *const sides[] = { "first", "last", NULL };

typedef struct rope_permute {
    posenc_given given;
    int64_t head_dim;
    double partial_rotary_factor;
    int from_layout, to_layout, rotated_channels;
    posenc_tensor weight;
} rope_permute;

static const posenc_param rows[] = {
    { PE_INT(rope_permute, head_dim), .flags = PE_REQUIRED, .min = 1, .max = PE_ROPE_MAX_WIDTH,
      .doc = "channels of a head" },
    { PE_REAL(rope_permute, partial_rotary_factor), .def = 1, .min = 0, .max = 1,
      .doc = "share of the channels that rotate: int(head_dim * partial_rotary_factor), even; the others stay" },
    { PE_ENUM(rope_permute, from_layout), .names = orders, .def = PE_ROPE_HALF, .doc = "the layout that the weights fit" },
    { PE_ENUM(rope_permute, to_layout), .names = orders, .def = PE_ROPE_INTERLEAVED, .doc = "the layout wanted" },
    { PE_ENUM(rope_permute, rotated_channels), .names = sides, .def = FIRST,
      .doc = "with partial_rotary_factor: whether the first channels of a head rotate, or the last (DeepSeek-V4)" },
    { PE_TENSOR(rope_permute, weight), .flags = PE_OPTIONAL,
      .doc = "weight or bias of a query or key projection: [heads * head_dim], [heads * head_dim, ...], a head's channels "
             "side by side" },
};

static const posenc_output outputs[] = {
    { .name = "index", .shape = "[head_dim]", .dtype = "int64", .doc = "new channel c is old channel index[c]" },
    { .name = "weight", .shape = "the shape of weight", .doc = "the rows of weight in the new order" },
};

/* ---- rules ---- */

static int64_t width(const rope_permute *p) { return (int64_t)((double)p->head_dim * p->partial_rotary_factor); }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const rope_permute *p = r->params;
    const posenc_tensor *t = &p->weight;
    const int64_t turning = width(p);
    const double most = pe_rope_most((posenc_dtype)r->common.dtype, false, 1) * 1.5;
    if (turning < 2 || turning % 2)
        pe_invalid(err, p->partial_rotary_factor == 1 ? "head_dim" : "partial_rotary_factor",
                   p->partial_rotary_factor == 1 ? posenc_text("%lld", (long long)p->head_dim)
                                                 : posenc_text("%.17g", p->partial_rotary_factor),
                   "an even rotary width of at least 2, not %lld", (long long)turning);
    else if (p->rotated_channels == LAST && turning == p->head_dim)
        pe_not_applicable(err, "rotated_channels", "last", "first: all channels of a head turn");
    if (!pe_given(r, "weight"))
        return err->status;
    if (t->rank < 1 || t->shape[0] % p->head_dim)
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "weight",
                    t->rank < 1 ? "no axis" : posenc_text("%lld rows", (long long)t->shape[0]).s,
                    "a first axis of heads * head_dim, a multiple of %lld", (long long)p->head_dim);
    else
        pe_tensor_within(t, -most, most, posenc_text("finite in the dtype asked for: at most %.6g", most).s, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rope_permute *p = r->params;
    posenc_status st = pe_output(out, "index", PE_int64, 1, &p->head_dim, err);
    if (!st && pe_given(r, "weight"))
        st = pe_output(out, "weight", (posenc_dtype)r->common.dtype, p->weight.rank, p->weight.shape, err);
    return st;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rope_permute *p = r->params;
    out->ns = 1000 + 4 * (double)p->head_dim + (pe_given(r, "weight") ? 8 * (double)posenc_tensor_count(&p->weight) : 0);
    out->scratch = 0;
}

/* ---- compute ---- */

static void fill_index(const rope_permute *p, int64_t *index)
{
    const size_t d = (size_t)p->head_dim, turning = (size_t)width(p), n = turning / 2,
                 start = p->rotated_channels == LAST ? d - turning : 0;
    const pe_rope_layout from = (pe_rope_layout)p->from_layout, to = (pe_rope_layout)p->to_layout;
    for (size_t c = 0; c < d; c++)
        index[c] = (int64_t)c;
    for (size_t j = 0; j < n; j++) {
        index[start + pe_rope_first(to, j)] = (int64_t)(start + pe_rope_first(from, j));
        index[start + pe_rope_second(to, n, j)] = (int64_t)(start + pe_rope_second(from, n, j));
    }
}

/* Row number i of the result is a row of the same head. */
static posenc_status move_row(const posenc_tensor *from, posenc_tensor *to, int64_t i, int64_t source, int64_t row,
                              pe_pace *pace)
{
    enum { BLOCK = 512 };
    double v[BLOCK];
    const size_t size = posenc_dtype_size(to->dtype);
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < row && !st; k += BLOCK) {
        const int64_t n = row - k < BLOCK ? row - k : BLOCK;
        for (int64_t e = 0; e < n; e++)
            v[e] = posenc_tensor_get(from, source * row + k + e);
        posenc_convert(to->dtype, (char *)to->data + (size_t)(i * row + k) * size, v, (size_t)n);
        st = pe_pace_add(pace, 20 + 8 * n);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const rope_permute *p = r->params;
    int64_t *index = pe_tensor(out, "index")->data;
    posenc_tensor *to = pe_tensor(out, "weight");
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    (void)err;
    fill_index(p, index);
    if (!pe_given(r, "weight") || !posenc_tensor_count(&p->weight)) /* 2^40 rows of nothing are no work */
        return PE_OK;
    const int64_t rows_n = p->weight.shape[0], row = posenc_tensor_count(&p->weight) / rows_n, d = p->head_dim;
    for (int64_t i = 0; i < rows_n && !st; i++)
        st = move_row(&p->weight, to, i, i / d * d + index[i % d], row, &pace);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rope_permute = {
    .name = "rope_permute",
    .family = "rotary",
    .title = "order of channels between rotary layouts, for weights",
    .source = "transformers, convert_llama_weights_to_hf.py, permute",
    .formula = "new[c] = old[index[c]] in every head; half to interleaved: index[2j] = j, index[2j + 1] = j + r/2,\n"
               "r = int(head_dim partial_rotary_factor); interleaved to half: the inverse; channels that do not rotate stay",
    .example = "head_dim=8",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(rope_permute, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
