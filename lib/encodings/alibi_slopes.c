/* alibi_slopes.c - the slope of each attention head in ALiBi. The formula, its letters and its source: sequence/slopes.h. */
#include "sequence/slopes.h"

#include <stdlib.h>

extern const posenc_encoding pe_alibi_slopes;

/* ---- rows ---- */

typedef struct alibi_slopes {
    posenc_given given;
    pe_slopes of;
} alibi_slopes;

static const posenc_param rows[] = {
    PE_SLOPE_ROWS(alibi_slopes, of, "slopes are rounded to this before dtype"),
};

static const posenc_output outputs[] = {
    { "slopes", "[head_count]", "slope of each head, in the order of heads", NULL },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    alibi_slopes *p = r->params;
    pe_slopes_check(r, &p->of, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const alibi_slopes *p = r->params;
    return pe_output(out, "slopes", (posenc_dtype)r->common.dtype, 1, &p->of.head_count, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const alibi_slopes *p = r->params;
    *out = pe_slopes_cost(&p->of);
    out->scratch += (uint64_t)p->of.head_count * sizeof(double);
}

/* ---- the formula ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const alibi_slopes *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "slopes");
    double *slope = malloc((size_t)p->of.head_count * sizeof *slope);
    if (!slope)
        return pe_no_memory("memory", err);
    posenc_status st = pe_slopes_compute(&p->of, slope, ctx, err);
    if (!st)
        posenc_convert(dst->dtype, dst->data, slope, (size_t)p->of.head_count);
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
