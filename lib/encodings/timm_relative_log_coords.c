/* timm_relative_log_coords.c - the logarithmic coordinates of displacements in a window, as timm.
 *
 *     table[y, x] = f(y - (h - 1), H), f(x - (w - 1), W)          y = 0 .. 2h - 2, x = 0 .. 2w - 2
 *     swin:   f(d, n) = sign(d) log2(1 + 8 |d| / (n - 1)) / 3     f(0, 1) = 0, where timm has 0/0 = NaN
 *     cr:     f(d, n) = sign(d) ln(1 + |d|)
 *
 * h, w = window_size; H, W = pretrained_window_size, or h, w where there is none.
 * Source: timm gen_relative_log_coords; swin after Liu et al. 2022, arXiv:2111.09883, section 3.3. */
#include "sequence/windows.h"

extern const posenc_encoding pe_timm_relative_log_coords;

/* ---- rows ---- */

enum { SWIN, CR };
static const char *const modes[] = { "swin", "cr", NULL };

typedef struct timm_relative_log_coords {
    posenc_given given;
    posenc_reals window_size, pretrained_window_size;
    int mode;
} timm_relative_log_coords;

static const posenc_param rows[] = {
    PE_WINDOW_ROW(timm_relative_log_coords),
    PE_PRETRAINED_ROW(timm_relative_log_coords, "; mode=swin only"),
    { PE_ENUM(timm_relative_log_coords, mode), .names = modes, .def = SWIN,
      .doc = "swin: scaled to the window and by log2(8), as Swin-V2; cr: natural logarithms of whole displacements "
             "(timm's RelPosMlp takes cr by default)" },
};

static const posenc_output outputs[] = {
    { "table", "[2 height - 1, 2 width - 1, 2]", "coordinates of each displacement, vertical then horizontal", NULL },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    timm_relative_log_coords *p = r->params;
    pe_reals_two("window_size", &p->window_size, err);
    pe_pretrained_check(r, &p->window_size, &p->pretrained_window_size, err);
    if (p->mode == CR && pe_given(r, "pretrained_window_size"))
        pe_not_applicable(err, "pretrained_window_size", "given with mode=cr", "0,0 or absent with mode=cr");
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const timm_relative_log_coords *p = r->params;
    return pe_window_coordinates_output(out, (posenc_dtype)r->common.dtype, &p->window_size, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const timm_relative_log_coords *p = r->params;
    *out = pe_window_coordinates_cost(&p->window_size);
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const timm_relative_log_coords *p = r->params;
    pe_pace pace = { .ctx = ctx };
    return pe_window_coordinates(&p->window_size, &p->pretrained_window_size, p->mode == CR, pe_tensor(out, "table"), &pace,
                                 err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_timm_relative_log_coords = {
    .name = "timm_relative_log_coords",
    .family = "relative",
    .title = "logarithmic coordinates of displacements, as timm",
    .source = "timm gen_relative_log_coords; swin: Liu et al. 2022, Swin Transformer V2, arXiv:2111.09883, section 3.3",
    .formula = "table[y, x] = f(y - (h - 1), H), f(x - (w - 1), W)\n"
               "swin: f(d, n) = sign(d) log2(1 + 8 |d| / (n - 1)) / 3, f(0, 1) = 0; cr: f(d, n) = sign(d) ln(1 + |d|)\n"
               "window_size = h, w; pretrained_window_size = H, W, or h, w where there is none",
    .example = "window_size=4,6&mode=cr",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(timm_relative_log_coords, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
