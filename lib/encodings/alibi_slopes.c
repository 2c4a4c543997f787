/* alibi_slopes.c - the slope of each attention head in ALiBi.
 *
 *     n a power of two:   slope[h] = 2^(-b (h + 1) / n)                  h = 0 .. n - 1       [score per position]
 *     otherwise, with k the largest power of two below n: the k slopes of k heads, then every other one of the slopes of
 *     2k heads (the 1st, 3rd, ...), until there are n
 *
 * n = num_heads, b = alibi_bias_max.
 * Source: Press et al. 2022, arXiv:2108.12409, section 3; for other n the authors' attention_with_linear_biases,
 * get_slopes. BLOOM, Falcon, GPT-NeoX and MPT give the same set in the same order. */
#include "core/exact.h"
#include "core/params.h"

#include <stdlib.h>

extern const posenc_encoding pe_alibi_slopes;

/* ---- rows ---- */

static const char *const slope_dtypes[] = { "float32", "float64", "float16", "bfloat16", NULL }; /* as posenc_dtype */

typedef struct alibi_slopes {
    posenc_given given;
    int64_t num_heads;
    double alibi_bias_max;
    int slope_dtype;
    int64_t head_start, head_count;
} alibi_slopes;

static const posenc_param rows[] = {
    { PE_INT(alibi_slopes, num_heads), .flags = PE_REQUIRED, .min = 1, .max = 1 << 20, .doc = "heads of the whole model" },
    { PE_REAL(alibi_slopes, alibi_bias_max), .def = 8, .min = 1e-3, .max = 1000,
      .doc = "the last head's slope is 2^-alibi_bias_max where num_heads is a power of two" },
    { PE_ENUM(alibi_slopes, slope_dtype), .names = slope_dtypes, .def = PE_float64,
      .doc = "slopes are rounded to this before dtype (Falcon: bfloat16)" },
    { PE_INT(alibi_slopes, head_start), .min = 0, .max = 1 << 20, .doc = "first head of a tensor-parallel slice" },
    { PE_INT(alibi_slopes, head_count), .flags = PE_DERIVED, .min = 1, .max = 1 << 20,
      .doc = "heads of the slice; when absent, all from head_start on" },
};

static const posenc_output outputs[] = {
    { "slopes", "[head_count]", "slope of each head, in the order of heads", NULL },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    alibi_slopes *p = r->params;
    if (p->head_start >= p->num_heads)
        return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "head_start",
                           posenc_text("%lld", (long long)p->head_start).s, "0 .. %lld, below num_heads",
                           (long long)p->num_heads - 1);
    int64_t most = p->num_heads - p->head_start;
    if (!posenc_was_given(&r->encoding->table, posenc_row(&r->encoding->table, "head_count"), p))
        p->head_count = most;
    if (p->head_count > most)
        return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "head_count",
                           posenc_text("%lld", (long long)p->head_count).s, "1 .. %lld, the heads from head_start on",
                           (long long)most);
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const alibi_slopes *p = r->params;
    return pe_output(out, "slopes", (posenc_dtype)r->common.dtype, 1, &p->head_count, err);
}

/* The largest power of two that is at most n. */
static int64_t power_below(int64_t n)
{
    int64_t k = 1;
    while (k * 2 <= n)
        k *= 2;
    return k;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const alibi_slopes *p = r->params;
    int64_t k = power_below(p->num_heads);
    int64_t ladders = p->num_heads > k ? 2 : 1;
    *out = (posenc_cost){ .ns = 29000.0 * (double)ladders + 160.0 * (double)(k + 2 * (p->num_heads - k) + 2),
                          .scratch = (uint64_t)(2 * k + 1) * sizeof(pe_dd) + (uint64_t)p->num_heads * sizeof(double) };
}

/* ---- the formula ---- */

/* 2^(-b i / n) for i = 0 .. last, each rounded once. */
static posenc_status ladder(double b, int64_t n, int64_t last, pe_dd *w, const posenc_context *ctx)
{
    const pe_ladder l = {
        .gain = { 1, 0 }, .top = 2, .bottom = 1, .steps = pe_dd_div((pe_dd){ (double)n, 0 }, (pe_dd){ b, 0 })
    };
    return pe_frequencies(&l, (size_t)last + 1, w, ctx);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const alibi_slopes *p = r->params;
    const int64_t n = p->num_heads, k = power_below(n);
    pe_dd *w = malloc((size_t)(2 * k + 1) * sizeof *w);
    double *slope = malloc((size_t)n * sizeof *slope);
    posenc_status st = PE_OK;
    if (!w || !slope) {
        st = posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", posenc_text("%lld heads", (long long)n).s,
                         "fewer heads, or try again");
        goto done;
    }
    if ((st = ladder(p->alibi_bias_max, k, k, w, ctx)))
        goto done;
    for (int64_t h = 0; h < k; h++)
        slope[h] = w[h + 1].hi;
    if (n > k && (st = ladder(p->alibi_bias_max, 2 * k, 2 * (n - k), w, ctx)))
        goto done;
    for (int64_t h = k; h < n; h++)
        slope[h] = w[2 * (h - k) + 1].hi;

    const double *wanted = slope + p->head_start;
    for (int64_t h = 0; h < p->head_count && p->slope_dtype != PE_float64; h++) {
        char narrow[8];
        const posenc_tensor one = { .dtype = (posenc_dtype)p->slope_dtype, .data = narrow };
        posenc_convert(one.dtype, narrow, &wanted[h], 1);
        slope[p->head_start + h] = posenc_tensor_get(&one, 0);
    }
    posenc_tensor *dst = pe_tensor(out, "slopes");
    posenc_convert(dst->dtype, dst->data, wanted, (size_t)p->head_count);
done:
    free(w);
    free(slope);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_alibi_slopes = {
    .name = "alibi_slopes",
    .family = "relative",
    .title = "slope of each head in ALiBi",
    .source = "Press et al. 2022, Train short, test long, arXiv:2108.12409, section 3",
    .formula =
        "num_heads a power of two: slope[h] = 2^(-alibi_bias_max (h + 1) / num_heads)\n"
        "otherwise, k the largest power of two below: the slopes of k heads, then every other one of those of 2k heads",
    .example = "num_heads=12",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(alibi_slopes, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
