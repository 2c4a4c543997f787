/* swinv2_relative_coords_table.c - the logarithmic coordinates of displacements in a Swin-V2 window, and their index.
 *
 *     table[y, x] = f(y - (h - 1), H), f(x - (w - 1), W)          y = 0 .. 2h - 2, x = 0 .. 2w - 2
 *     f(d, n) = sign(d) log2(1 + 8 |d| / (n - 1)) / 3             f(0, 1) = 0
 *     index[i, j] = (y_i - y_j + h - 1) (2w - 1) + (x_i - x_j + w - 1)
 *
 * h, w = window_size; H, W = pretrained_window_size, or h, w where there is none. The index is a row of the flattened table.
 * Source: Liu et al. 2022, arXiv:2111.09883, section 3.3; Microsoft's swin_transformer_v2.py, WindowAttention; Hugging Face
 * Swinv2SelfAttention. A side of 1 is 0/0 = NaN in Microsoft's code. Hugging Face has 0 where the height is 1, but then
 * leaves the other side undivided; here each side stands for itself. */
#include "sequence/windows.h"

extern const posenc_encoding pe_swinv2_relative_coords_table;

/* ---- rows ---- */

typedef struct swinv2_relative_coords_table {
    posenc_given given;
    posenc_reals window_size, pretrained_window_size;
} swinv2_relative_coords_table;

static const posenc_param rows[] = {
    PE_WINDOW_ROW(swinv2_relative_coords_table),
    PE_PRETRAINED_ROW(swinv2_relative_coords_table, ""),
};

static const posenc_output outputs[] = {
    { "table", "[2 height - 1, 2 width - 1, 2]", "coordinates of each displacement, vertical then horizontal", NULL },
    { "index", "[height width, height width]", "place in the flattened table for each pair of places", "int64" },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    swinv2_relative_coords_table *p = r->params;
    pe_reals_two("window_size", &p->window_size, err);
    pe_pretrained_check(r, &p->window_size, &p->pretrained_window_size, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const swinv2_relative_coords_table *p = r->params;
    posenc_status st = pe_window_coordinates_output(out, (posenc_dtype)r->common.dtype, &p->window_size, err);
    return st ? st : pe_window_index_output(out, &p->window_size, false, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const swinv2_relative_coords_table *p = r->params;
    *out = pe_window_coordinates_cost(&p->window_size);
    out->ns += pe_window_index_cost(&p->window_size, false).ns;
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const swinv2_relative_coords_table *p = r->params;
    pe_pace pace = { .ctx = ctx };
    posenc_status st = pe_window_coordinates(&p->window_size, &p->pretrained_window_size, false, pe_tensor(out, "table"),
                                             &pace, err);
    return st ? st : pe_window_index(&p->window_size, false, pe_tensor(out, "index")->data, &pace);
}

/* ---- descriptor ---- */

const posenc_encoding pe_swinv2_relative_coords_table = {
    .name = "swinv2_relative_coords_table",
    .family = "relative",
    .title = "logarithmic coordinates of displacements in Swin-V2",
    .source = "Liu et al. 2022, Swin Transformer V2, arXiv:2111.09883, section 3.3",
    .formula =
        "table[y, x] = f(y - (h - 1), H), f(x - (w - 1), W); f(d, n) = sign(d) log2(1 + 8 |d| / (n - 1)) / 3, f(0, 1) = 0\n"
        "window_size = h, w; pretrained_window_size = H, W, or h, w where there is none\n"
        "index[i, j] = (y_i - y_j + h - 1) (2w - 1) + x_i - x_j + w - 1",
    .example = "window_size=4,6",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(swinv2_relative_coords_table, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
