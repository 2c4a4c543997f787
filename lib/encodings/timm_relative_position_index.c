/* timm_relative_position_index.c - the row of the table of biases that two places of a window use, as timm.
 *
 *     index[i, j] = (y_i - y_j + h - 1) (2w - 1) + (x_i - x_j + w - 1)         i, j = 0 .. h w - 1, place i = y_i w + x_i
 *
 * h, w = window_size. With class_token, which comes before all places, and N = (2h - 1)(2w - 1): [0, 0] = N + 2, the rest
 * of row 0 is N (class token to place), the rest of column 0 is N + 1 (place to class token); the table has N + 3 rows.
 * Source: timm gen_relative_position_index, after Liu et al. 2021, arXiv:2103.14030, and Bao et al. 2021,
 * arXiv:2106.08254. The numbers are those of swin_relative_position_index and beit_relative_position_index; only the
 * default of class_token is timm's. */
#include "sequence/windows.h"

extern const posenc_encoding pe_timm_relative_position_index;

/* ---- rows ---- */

typedef struct timm_relative_position_index {
    posenc_given given;
    posenc_reals window_size;
    bool class_token;
} timm_relative_position_index;

static const posenc_param rows[] = {
    PE_WINDOW_ROW(timm_relative_position_index),
    { PE_BOOL(timm_relative_position_index, class_token), .def = 0,
      .doc = "a class token before the places, with three indices of its own" },
};

static const posenc_output outputs[] = {
    { "index", "[n, n]", "row of the table of biases for each pair of places; n = height width, 1 more with class_token",
      "int64" },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const timm_relative_position_index *p = r->params;
    pe_reals_two("window_size", &p->window_size, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const timm_relative_position_index *p = r->params;
    return pe_window_index_output(out, &p->window_size, p->class_token, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const timm_relative_position_index *p = r->params;
    *out = pe_window_index_cost(&p->window_size, p->class_token);
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const timm_relative_position_index *p = r->params;
    pe_pace pace = { .ctx = ctx };
    (void)err;
    return pe_window_index(&p->window_size, p->class_token, pe_tensor(out, "index")->data, &pace);
}

/* ---- descriptor ---- */

const posenc_encoding pe_timm_relative_position_index = {
    .name = "timm_relative_position_index",
    .family = "relative",
    .title = "index of pairs of places in a window, as timm",
    .source = "timm gen_relative_position_index, after Liu et al. 2021, arXiv:2103.14030",
    .formula = "index[i, j] = (y_i - y_j + h - 1) (2w - 1) + x_i - x_j + w - 1; window_size = h, w; place i = y_i w + x_i\n"
               "class_token, which comes first, N = (2h - 1)(2w - 1): row 0 is N, column 0 is N + 1, [0, 0] is N + 2",
    .example = "window_size=3,4&class_token=true",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(timm_relative_position_index, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
