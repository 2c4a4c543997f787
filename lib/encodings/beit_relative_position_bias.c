/* beit_relative_position_bias.c - the bias of every pair of tokens in BEiT, for the window of the table or another one.
 *
 * The table has a row for each offset of two patches of an h x w window, (2h-1)(2w-1), row by row, and three more: from the
 * class token to a patch, from a patch to it, from it to itself. For another window the grid of offsets is resampled first
 * (bilinear, as torch without antialias). Then, token 0 the class token and patches behind it row by row: bias[head, a, b] =
 * table[(ya - yb + h'-1) (2w'-1) + xa - xb + w'-1, head]      of patches a, b
 *
 * Source: BeitRelativePositionBias.forward of HuggingFace transformers, after MiDaS 3.1. That reshapes the old grid to
 * (2w-1, 2h-1), which is right for square windows only; here it is (2h-1, 2w-1). */
#include "sequence/resample.h"

#include <stdlib.h>

extern const posenc_encoding pe_beit_relative_position_bias;

/* ---- rows ---- */

enum { BILINEAR, BICUBIC };
static const char *const interpolations[] = { "bilinear", "bicubic", NULL };
enum { MOST_WINDOW = 4096, CLASS_ROWS = 3 };

typedef struct beit_relative_position_bias {
    posenc_given given;
    posenc_tensor table; /* (rows, heads) */
    posenc_reals window_size, new_window_size;
    int interpolation;
    int64_t old[2], new[2]; /* windows */
} beit_relative_position_bias;

static const posenc_param rows[] = {
    { PE_TENSOR(beit_relative_position_bias, table), .flags = PE_REQUIRED, .doc = "[(2h-1)(2w-1) + 3, heads]" },
    { PE_REALS(beit_relative_position_bias, window_size), .flags = PE_REQUIRED, .min = 1, .max = MOST_WINDOW,
      .doc = "height,width of the table's window in patches" },
    { PE_REALS(beit_relative_position_bias, new_window_size), .flags = PE_DERIVED, .min = 1, .max = MOST_WINDOW,
      .doc = "height,width of the window wanted; when absent, window_size" },
    { PE_ENUM(beit_relative_position_bias, interpolation), .names = interpolations, .def = BILINEAR,
      .doc = "how offsets are resampled for another window (BEiT: bilinear)" },
};

static const posenc_output outputs[] = {
    { "bias", "[heads, h' w' + 1, h' w' + 1]", "added to the scores of queries (rows) and keys; token 0 is the class token",
      NULL },
};

/* ---- check ---- */

static int64_t offsets(const int64_t window[2]) { return (2 * window[0] - 1) * (2 * window[1] - 1); }

static bool same_size(const beit_relative_position_bias *p) { return p->old[0] == p->new[0] && p->old[1] == p->new[1]; }

static pe_resample axis(const beit_relative_position_bias *p, int i)
{
    return (pe_resample){ .from = 2 * p->old[i] - 1,
                          .to = 2 * p->new[i] - 1,
                          .kernel = p->interpolation == BICUBIC ? PE_KERNEL_CUBIC : PE_KERNEL_LINEAR,
                          .a = pe_cubic_torch };
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    beit_relative_position_bias *p = r->params;
    if (!pe_given(r, "new_window_size")) { /* either spelling has the same digest */
        p->new_window_size = p->window_size;
        pe_mark(r, "new_window_size", true);
    }
    bool sound = pe_two_sizes(&p->window_size, "window_size", MOST_WINDOW, p->old, err);
    sound = sound && pe_two_sizes(&p->new_window_size, "new_window_size", MOST_WINDOW, p->new, err);
    if (!pe_tensor_shaped(&p->table, 2, (int64_t[]){ -1, -1 }, "[(2h-1)(2w-1) + 3, heads]", err) || !sound)
        return err->status;
    if (p->table.shape[0] != offsets(p->old) + CLASS_ROWS || p->table.shape[1] < 1)
        pe_invalid(err, "table", posenc_text("[%lld, %lld]", (long long)p->table.shape[0], (long long)p->table.shape[1]),
                   "%lld rows: (2h-1)(2w-1) + 3 for window_size, and a column a head",
                   (long long)offsets(p->old) + CLASS_ROWS);
    else {
        const pe_resample one = axis(p, 0);
        const double gain = same_size(p) ? 1 : pe_resample_gain(&one) * pe_resample_gain(&one);
        pe_table_fits(&p->table, gain, (posenc_dtype)r->common.dtype, err);
    }
    return err->status;
}

/* ---- shape and cost ---- */

static int64_t tokens(const beit_relative_position_bias *p) { return p->new[0] * p->new[1] + 1; }

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const beit_relative_position_bias *p = r->params;
    return pe_output(out, "bias", (posenc_dtype)r->common.dtype, 3, (int64_t[]){ p->table.shape[1], tokens(p), tokens(p) },
                     err);
}

static size_t grid_doubles(const beit_relative_position_bias *p)
{
    return (size_t)((offsets(p->new) + CLASS_ROWS) * p->table.shape[1]);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const beit_relative_position_bias *p = r->params;
    const pe_resample rows_axis = axis(p, 0), columns_axis = axis(p, 1);
    const pe_grid g = { .axis = { &rows_axis, &columns_axis }, .inner = p->table.shape[1] };
    const double n = (double)tokens(p);
    out->ns = 1e3 + 4 * (double)grid_doubles(p) + pe_resample_ns(&g) + 4 * n * n * (double)p->table.shape[1];
    out->scratch = (grid_doubles(p) + (size_t)tokens(p)) * sizeof(double) + pe_resample_scratch(&g);
}

/* ---- compute ---- */

/* The table for the new window, in float64. */
static posenc_status resize(const beit_relative_position_bias *p, double *grid, pe_pace *pace, posenc_error *err)
{
    const int64_t heads = p->table.shape[1];
    posenc_tensor dst = { .dtype = PE_float64, .rank = 1, .shape = { (int64_t)grid_doubles(p) }, .data = grid };
    if (same_size(p))
        return pe_copy_elements(&p->table, 0, &dst, 0, dst.shape[0], pace);
    const pe_resample rows_axis = axis(p, 0), columns_axis = axis(p, 1);
    const pe_grid g = { .axis = { &rows_axis, &columns_axis }, .inner = heads, .src = &p->table, .dst = &dst };
    posenc_status st = pe_resample_grid(&g, pace, err);
    return st ? st
              : pe_copy_elements(&p->table, offsets(p->old) * heads, &dst, offsets(p->new) * heads, CLASS_ROWS * heads,
                                 pace);
}

/* row[b] = bias of query a and key b. */
static void bias_row(const beit_relative_position_bias *p, const double *grid, int64_t head, int64_t a, double *row)
{
    const int64_t h = p->new[0], w = p->new[1], heads = p->table.shape[1], special = offsets(p->new);
    const double *of_head = grid + head;
    row[0] = of_head[(a ? special + 1 : special + 2) * heads];
    for (int64_t y = 0, b = 1; y < h; y++)
        for (int64_t x = 0; x < w; x++, b++) {
            const int64_t down = a ? (a - 1) / w - y + h - 1 : 0, across = a ? (a - 1) % w - x + w - 1 : 0;
            row[b] = of_head[(a ? down * (2 * w - 1) + across : special) * heads];
        }
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const beit_relative_position_bias *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "bias");
    const size_t n = (size_t)tokens(p), bytes = n * posenc_dtype_size(dst->dtype);
    pe_pace pace = { .ctx = ctx };
    double *grid = malloc((grid_doubles(p) + n) * sizeof *grid), *row = grid + grid_doubles(p);
    if (!grid)
        return pe_no_memory("memory", err);
    posenc_status st = resize(p, grid, &pace, err);
    char *to = dst->data;
    for (int64_t head = 0; head < p->table.shape[1] && !st; head++)
        for (int64_t a = 0; a < tokens(p) && !st; a++, to += bytes) {
            bias_row(p, grid, head, a, row);
            posenc_convert(dst->dtype, to, row, n);
            st = pe_pace_add(&pace, 6 * (int64_t)n);
        }
    free(grid);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_beit_relative_position_bias = {
    .name = "beit_relative_position_bias",
    .family = "relative",
    .title = "relative position bias of BEiT, for any window",
    .source = "Bao et al. 2021, arXiv:2106.08254; BeitRelativePositionBias.forward, HuggingFace transformers",
    .formula =
        "bias[head, a, b] = table'[(ya - yb + h'-1)(2w'-1) + xa - xb + w'-1, head] of patches a, b; the last three rows:\n"
        "from the class token, to it, and itself; table' = the grid of offsets resampled to (2h'-1) x (2w'-1)",
    .example = "table=[[1],[2],[3],[4],[5],[6]]&window_size=1,2&new_window_size=2,2",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(beit_relative_position_bias, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
