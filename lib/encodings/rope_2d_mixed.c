/* rope_2d_mixed.c - rotary positions of image patches with learned frequencies, where each pair turns with both axes.
 *
 *     angle[h][n][j] = x(n) freqs[0][h][j] + y(n) freqs[1][h][j]         [rad]
 *
 * h = head, n = place of a grid, row by row, j = pair; x = column, y = row, from 0 on. With the axis of layers first, each
 * layer has frequencies of its own.
 *
 * rope-vit's stand-alone attention (rope_self_attn.py, frequencies without layers) makes the table [num_heads, N, pairs],
 * but reads its memory as [N, num_heads, pairs] and transposes that: row n of head h is then row n * num_heads + h of the
 * tables laid one after the other, which mixes places and heads. head_view says whose rows are meant.
 * Source: Heo et al. 2024, arXiv:2403.13298 (RoPE-Mixed), compute_mixed_cis; timm has RotaryEmbeddingMixed. */
#include "sequence/grid_rotary.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_rope_2d_mixed;

/* ---- rows ---- */

enum { H_FIRST, W_FIRST };
static const char *const axis_orders[] = { "h_first", "w_first", NULL };

enum { ROPE_VIT, PER_HEAD };
static const char *const head_views[] = { "rope_vit", "per_head", NULL };

/* pe_grid_rotary_layouts without the last: no pair belongs to one axis. */
static const char *const layouts[] = { "half", "interleaved", "half_unduplicated", "interleaved_unduplicated", NULL };

typedef struct rope_2d_mixed {
    posenc_given given;
    int64_t num_heads, head_dim, height, width;
    posenc_tensor freqs, positions_xy;
    int axis_order, layout, head_view;
} rope_2d_mixed;

static const posenc_param rows[] = {
    { PE_INT(rope_2d_mixed, num_heads), .flags = PE_DERIVED, .min = 1, .max = 65536,
      .doc = "heads; when absent, those of freqs" },
    { PE_INT(rope_2d_mixed, head_dim), .flags = PE_DERIVED, .min = 2, .max = 65536,
      .doc = "channels of a head; when absent, twice the pairs of freqs" },
    { PE_TENSOR(rope_2d_mixed, freqs), .flags = PE_REQUIRED,
      .doc = "frequencies [2, num_heads, head_dim/2] or [2, layers, num_heads, head_dim/2]: of the first axis, then of the "
             "second; rad per place, up to 1e30" },
    { PE_INT(rope_2d_mixed, height), .flags = PE_OPTIONAL, .max = 0x1p31, .doc = "rows of the grid of patches" },
    { PE_INT(rope_2d_mixed, width), .flags = PE_OPTIONAL, .max = 0x1p31, .doc = "columns of the grid of patches" },
    { PE_TENSOR(rope_2d_mixed, positions_xy), .flags = PE_OPTIONAL,
      .doc = "[N, 2] places instead of height and width: column, row (x, y)" },
    { PE_ENUM(rope_2d_mixed, axis_order), .names = axis_orders, .def = W_FIRST,
      .doc = "the axis that freqs[0] belongs to: the column (rope-vit; timm's grid_indexing=xy) or the row" },
    { PE_ENUM(rope_2d_mixed, layout), .names = layouts, .def = PE_GRID_INTERLEAVED_UNDUPLICATED,
      .doc = "columns of pair j of P: j and j + P; 2j and 2j + 1 (timm); or j alone of either (rope-vit, complex)" },
    { PE_ENUM(rope_2d_mixed, head_view), .names = head_views, .def = ROPE_VIT,
      .doc =
          "per_head: row n of head h is place n of head h (the paper, timm); rope_vit: so with layers, but without them row "
          "n * num_heads + h of the heads' tables laid one after the other, as rope-vit's stand-alone attention has it" },
};

static const posenc_output outputs[] = {
    { "cos", "[num_heads, N, head_dim/2]", "cosines, [layers, num_heads, N, ...] of layers; head_dim columns if duplicated",
      NULL },
    { "sin", "[num_heads, N, head_dim/2]", "sines in the same columns", NULL },
};

/* ---- what the parameters mean ---- */

static int64_t axis_size(const posenc_tensor *freqs, int from_last) { return freqs->shape[freqs->rank - 1 - from_last]; }

static int64_t places(const posenc_request *r)
{
    const rope_2d_mixed *p = r->params;
    return pe_given(r, "positions_xy") ? p->positions_xy.shape[0] : p->height * p->width;
}

/* ---- check ---- */

static void check_freqs(posenc_request *r, posenc_error *err)
{
    static const char words[] = "[2, num_heads, head_dim/2] or [2, layers, num_heads, head_dim/2]";
    static const int64_t any[4] = { 2, -1, -1, -1 };
    rope_2d_mixed *p = r->params;
    const posenc_tensor *t = &p->freqs;
    if (!pe_tensor_shaped(t, t->rank == 4 ? 4 : 3, any, words, err))
        return;
    const int64_t heads = axis_size(t, 1), pairs = axis_size(t, 0);
    if (!pe_given(r, "num_heads"))
        p->num_heads = heads;
    if (!pe_given(r, "head_dim"))
        p->head_dim = 2 * pairs;
    if (heads < 1 || heads > 65536 || pairs < 1 || pairs > 32768)
        pe_invalid(err, "freqs", posenc_text("%lld heads, %lld pairs", (long long)heads, (long long)pairs),
                   "1 .. 65536 heads of 1 .. 32768 pairs");
    else if (p->num_heads != heads)
        pe_invalid(err, "num_heads", posenc_text("%lld", (long long)p->num_heads), "that of freqs, %lld", (long long)heads);
    else if (p->head_dim != 2 * pairs)
        pe_invalid(err, "head_dim", posenc_text("%lld", (long long)p->head_dim), "twice the last axis of freqs, %lld",
                   (long long)(2 * pairs));
    pe_tensor_within(t, -1e30, 1e30, "a frequency in -1e30 .. 1e30", err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const rope_2d_mixed *p = r->params;
    const bool list = pe_given(r, "positions_xy");
    check_freqs(r, err);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "width" : "height";
        if (!pe_given(r, name) && !list)
            posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", name, "absent", "a value, or positions_xy");
    }
    if (!list)
        return err->status;
    if (pe_given(r, "height") || pe_given(r, "width"))
        pe_not_applicable(err, "positions_xy", "given with height or width", "one of positions_xy, and height and width");
    if (pe_tensor_shaped(&p->positions_xy, 2, (const int64_t[]){ -1, 2 }, "[N, 2]", err))
        pe_tensor_within(&p->positions_xy, -0x1p53, 0x1p53, "a coordinate in -2^53 .. 2^53", err);
    return err->status;
}

/* ---- shape and cost ---- */

static size_t pairs(const rope_2d_mixed *p) { return (size_t)p->head_dim / 2; }
static size_t columns(const rope_2d_mixed *p) { return pe_rotary_width((pe_grid_layout)p->layout, pairs(p)); }

/* Layers and heads together: each has frequencies of its own. */
static int64_t sets(const rope_2d_mixed *p) { return (p->freqs.rank == 4 ? p->freqs.shape[1] : 1) * p->num_heads; }

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rope_2d_mixed *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const bool layers = p->freqs.rank == 4;
    const int64_t size[4] = { layers ? p->freqs.shape[1] : 0, p->num_heads, places(r), (int64_t)columns(p) };
    posenc_status st = pe_output(out, "cos", dtype, 3 + layers, size + !layers, err);
    return st ? st : pe_output(out, "sin", dtype, 3 + layers, size + !layers, err);
}

static uint64_t scratch(const rope_2d_mixed *p)
{
    return pairs(p) * sizeof(pe_dd) + pe_rotary_scratch((pe_grid_layout)p->layout, pairs(p));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rope_2d_mixed *p = r->params;
    const double n = (double)places(r) * (double)sets(p);
    *out = (posenc_cost){ .ns = 1e3 + pe_rotary_ns((pe_grid_layout)p->layout, pairs(p), n) * 1.5, .scratch = scratch(p) };
}

/* ---- compute ---- */

/* The sum of two exact products: its error is below 2^-102 of |x fx| + |y fy|. */
static pe_dd mixed(double x, double fx, double y, double fy) { return pe_dd_add(pe_two_prod(x, fx), pe_two_prod(y, fy)); }

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    enum { BLOCK = 4096 };
    const rope_2d_mixed *p = r->params;
    posenc_tensor *cosines = pe_tensor(out, "cos"), *sines = pe_tensor(out, "sin");
    const int64_t n = places(r), m = (int64_t)pairs(p), second = sets(p) * m;
    const bool list = pe_given(r, "positions_xy"), reread = p->head_view == ROPE_VIT && p->freqs.rank == 3;
    posenc_status st = PE_OK;
    pe_dd *angle = malloc(scratch(p));
    if (!angle)
        return pe_no_memory("memory", err);
    pe_rotary t = { .layout = (pe_grid_layout)p->layout, .naxes = 1, .pairs = { pairs(p) }, .pace = { .ctx = ctx } };
    pe_rotary_memory(&t, angle + m);

    for (int64_t row = 0; row < sets(p) * n && !st; row++) {
        const int64_t from_row = reread ? row % n * p->num_heads + row / n : row, set = from_row / n, i = from_row % n;
        double x = list ? posenc_tensor_get(&p->positions_xy, 2 * i) : (double)(i % p->width);
        double y = list ? posenc_tensor_get(&p->positions_xy, 2 * i + 1) : (double)(i / p->width);
        double a = p->axis_order == W_FIRST ? x : y, b = p->axis_order == W_FIRST ? y : x;
        for (int64_t from = 0; from < m && !st; from += BLOCK) {
            const int64_t k = m - from < BLOCK ? m - from : BLOCK;
            for (int64_t j = from; j < from + k; j++)
                angle[j] = mixed(a, posenc_tensor_get(&p->freqs, set * m + j), b,
                                 posenc_tensor_get(&p->freqs, second + set * m + j));
            pe_sincos(angle + from, (size_t)k, t.sine + from, t.cosine + from);
            st = pe_pace_add(&t.pace, 60 + 50 * k);
        }
        if (!st)
            pe_rotary_put(&t, row, NULL, cosines, sines);
    }
    free(angle);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rope_2d_mixed = {
    .name = "rope_2d_mixed",
    .family = "rotary",
    .title = "rotary positions of image patches with learned frequencies",
    .source = "Heo et al. 2024, Rotary position embedding for vision transformer, arXiv:2403.13298, RoPE-Mixed",
    .formula = "angle of head h, place n, pair j: x freqs[0][h][j] + y freqs[1][h][j], x the column and y the row of n",
    .example = "freqs=[[[1,0.1],[0.8,0.2]],[[0.5,1],[0.3,0.7]]]&height=2&width=3",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(rope_2d_mixed, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
