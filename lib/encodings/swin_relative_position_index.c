/* swin_relative_position_index.c - the row of the table of biases that two places of a Swin window use.
 *
 *     index[i, j] = (y_i - y_j + h - 1) (2w - 1) + (x_i - x_j + w - 1)         i, j = 0 .. h w - 1, place i = y_i w + x_i
 *
 * h, w = window_size; the table has (2h - 1)(2w - 1) rows.
 * Source: Liu et al. 2021, arXiv:2103.14030, section 3.2; Hugging Face SwinRelativePositionBias. Swin-V2, Donut and
 * Microsoft's code have the same. */
#include "sequence/windows.h"

extern const posenc_encoding pe_swin_relative_position_index;

/* ---- rows ---- */

typedef struct swin_relative_position_index {
    posenc_given given;
    posenc_reals window_size;
} swin_relative_position_index;

static const posenc_param rows[] = {
    PE_WINDOW_ROW(swin_relative_position_index),
};

static const posenc_output outputs[] = {
    { "index", "[n, n]", "row of the table of biases for each pair of places; n = height width", "int64" },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const swin_relative_position_index *p = r->params;
    pe_reals_two("window_size", &p->window_size, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const swin_relative_position_index *p = r->params;
    return pe_window_index_output(out, &p->window_size, false, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const swin_relative_position_index *p = r->params;
    *out = pe_window_index_cost(&p->window_size, false);
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const swin_relative_position_index *p = r->params;
    pe_pace pace = { .ctx = ctx };
    (void)err;
    return pe_window_index(&p->window_size, false, pe_tensor(out, "index")->data, &pace);
}

/* ---- descriptor ---- */

const posenc_encoding pe_swin_relative_position_index = {
    .name = "swin_relative_position_index",
    .family = "relative",
    .title = "index of pairs of places in a window of Swin",
    .source = "Liu et al. 2021, Swin Transformer, arXiv:2103.14030, section 3.2",
    .formula = "index[i, j] = (y_i - y_j + h - 1) (2w - 1) + x_i - x_j + w - 1; window_size = h, w; place i = y_i w + x_i",
    .example = "window_size=3,4",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(swin_relative_position_index, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
