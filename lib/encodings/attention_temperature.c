/* attention_temperature.c - what queries are multiplied by, growing with the position, so that attention over long contexts
 * stays sharp.
 *
 *     ministral3   1 + beta ln(1 + floor(p / original))
 *     llama4       1 + attn_scale ln(1 + floor((p + 1) / floor_scale))      (in its layers without rope)
 *     logn         max(1, ln(p + 1) / ln(original))
 *
 * beta = llama_4_scaling_beta, original = original_max_position_embeddings.
 * Sources: transformers, Llama4TextAttention.forward and get_llama_4_attn_scale (Ministral 3); Qwen's logn_list (after
 * Su Jianlin's log n scaling). */
#include "core/elementary.h"
#include "core/pace.h"
#include "sequence/positions.h"

#include <math.h>

extern const posenc_encoding pe_attention_temperature;

/* ---- rows ---- */

enum { MINISTRAL3, LLAMA4, LOGN };
static const char *const forms[] = { "ministral3", "llama4", "logn", NULL };

typedef struct attention_temperature {
    posenc_given given;
    int form;
    pe_positions at;
    double llama_4_scaling_beta;
    int64_t original_max_position_embeddings;
    double attn_scale;
    int64_t floor_scale;
} attention_temperature;

static const posenc_param rows[] = {
    { PE_ENUM(attention_temperature, form), .flags = PE_SELECTOR, .names = forms, .def = MINISTRAL3,
      .doc = "the formula of Ministral 3, of Llama 4's layers without rope, or of Qwen's log n attention" },
    PE_POSITION_ROWS(attention_temperature, at, ""),
    { PE_REAL(attention_temperature, llama_4_scaling_beta), .def = 0.1, .min = -1000, .max = 1000, .when = PE_ON(MINISTRAL3),
      .doc = "what the logarithm is multiplied by" },
    { PE_INT(attention_temperature, original_max_position_embeddings), .flags = PE_REQUIRED, .min = 2, .max = 1e15,
      .when = PE_ON(MINISTRAL3) | PE_ON(LOGN), .doc = "length of training: below it the scale is 1" },
    { PE_REAL(attention_temperature, attn_scale), .def = 0.1, .min = -1000, .max = 1000, .when = PE_ON(LLAMA4),
      .doc = "what the logarithm is multiplied by" },
    { PE_INT(attention_temperature, floor_scale), .def = 8192, .min = 1, .max = 1e15, .when = PE_ON(LLAMA4),
      .doc = "positions of one step" },
};

static const posenc_output outputs[] = {
    { .name = "scale", .shape = "[num_positions]", .doc = "one a position; of tokens [L] or [B, L]" },
    { .name = "positions", .shape = "[B, L]", .dtype = "int64", .doc = "the position of each token" },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const attention_temperature *p = r->params;
    pe_positions_check(r, &p->at, true, err);
    pe_positions_pad_tokens(r, &p->at, err);
    for (size_t i = 0; !err->n && i < p->at.positions.n; i++)
        if (p->at.positions.v[i] < 0)
            return pe_invalid(err, posenc_text("positions[%zu]", i).s, posenc_text("%.17g", p->at.positions.v[i]),
                              "at least 0: the logarithm has no value before");
    if (p->at.offset < 0)
        pe_invalid(err, "offset", posenc_text("%lld", (long long)p->at.offset),
                   "at least 0: the logarithm has no value before");
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const attention_temperature *p = r->params;
    const posenc_tensor *t = pe_positions_tokens(r, &p->at);
    int64_t size[PE_MAX_RANK];
    const int rank = pe_positions_shape(r, &p->at, 0, NULL, size);
    posenc_status st = pe_output(out, "scale", (posenc_dtype)r->common.dtype, rank, size, err);
    return st || !t ? st : pe_output(out, "positions", PE_int64, t->rank, t->shape, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const attention_temperature *p = r->params;
    *out = (posenc_cost){ .ns = 1000 + 800 * (double)pe_positions_count(r, &p->at) };
}

/* ---- compute ---- */

/* floor(a / b), exactly: the quotient may have been rounded up to a whole number. */
static double whole_steps(pe_dd a, double b)
{
    const double q = floor(a.hi / b);
    const pe_dd back = pe_two_prod(q, b);
    return back.hi > a.hi || (back.hi == a.hi && back.lo > a.lo) ? q - 1 : q;
}

/* 1 + factor ln(1 + steps) */
static double grown(double factor, double steps)
{
    const pe_dd ln = pe_dd_log(pe_two_sum(1, steps));
    return pe_dd_add((pe_dd){ 1, 0 }, pe_dd_times(ln, factor)).hi;
}

static double scale_of(const attention_temperature *p, double position)
{
    const double original = (double)p->original_max_position_embeddings;
    const pe_dd next = pe_two_sum(position, 1);
    switch (p->form) {
    case MINISTRAL3: return grown(p->llama_4_scaling_beta, whole_steps((pe_dd){ position, 0 }, original));
    case LLAMA4: return grown(p->attn_scale, whole_steps(next, (double)p->floor_scale));
    default:
        if (next.hi < original || (next.hi == original && next.lo <= 0))
            return 1;
        return pe_dd_div(pe_dd_log(next), pe_dd_log((pe_dd){ original, 0 })).hi;
    }
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const attention_temperature *p = r->params;
    const posenc_tensor *scale = pe_tensor(out, "scale");
    const bool tokens = pe_positions_tokens(r, &p->at) != NULL;
    const size_t size = posenc_dtype_size(scale->dtype);
    pe_pace pace = { .ctx = ctx };
    pe_source source;
    posenc_status st = pe_positions_source(r, &p->at, tokens ? pe_tensor(out, "positions")->data : NULL, &pace, &source);
    (void)err;
    for (int64_t i = 0, n = pe_positions_count(r, &p->at); i < n && !st; i++) {
        const double v = scale_of(p, pe_position(&source, i));
        posenc_convert(scale->dtype, (char *)scale->data + (size_t)i * size, &v, 1);
        st = pe_pace_add(&pace, 800);
    }
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_attention_temperature = {
    .name = "attention_temperature",
    .family = "rotary",
    .title = "scale of queries that grows with the position",
    .source = "transformers, Llama4TextAttention.forward and get_llama_4_attn_scale (Ministral 3); Qwen, logn_list",
    .formula = "ministral3: 1 + llama_4_scaling_beta ln(1 + floor(p / original_max_position_embeddings))\n"
               "llama4: 1 + attn_scale ln(1 + floor((p + 1) / floor_scale))\n"
               "logn: max(1, ln(p + 1) / ln(original_max_position_embeddings))",
    .example = "original_max_position_embeddings=8192&positions=0,8191,8192,100000",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(attention_temperature, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
