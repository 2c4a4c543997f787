/* rel_bias_resize.c - a table of relative position biases for a window of another size.
 *
 * The table of a window of h x w has (2h-1)(2w-1) rows, one an offset between two patches, row by row, and 0 or 3 rows of a
 * class token behind, which stay as they are. The grid of offsets is resampled: geometric           offsets of the old grid
 * are put at 0, +-1, +-(1 + q), +-(1 + q + q^2), ... among the new ones, with q such that the last is near the last new
 * offset; bilinear between them. Offsets beyond the last are that one bicubic             as torch's bicubic: a = -0.75
 *   bicubic_antialias   as torch's antialias: a = -0.5, widened for smaller grids
 *
 * Source: timm layers/pos_embed_rel.py: resize_rel_pos_bias_table (after BEiT), resize_rel_pos_bias_table_simple,
 * resize_rel_pos_bias_table_levit (whose table may be any square: new_shape). q is sought by halving 1.01 .. 1.5 until it is
 * known to 1e-6, as there: it may end at either bound, and then the grids do not meet at the ends.
 * Defined here: a grid of the same size is copied (as timm). timm takes every old grid for a square; window_size says it. */
#include "sequence/resample.h"

#include <math.h>
#include <stdlib.h>

/* ---- rows ---- */

enum { GEOMETRIC, BICUBIC, BICUBIC_ANTIALIAS };
static const char *const methods[] = { "geometric", "bicubic", "bicubic_antialias", NULL };
enum { MOST_WINDOW = 4096, MOST_SIDE = 2 * MOST_WINDOW - 1, CLASS_ROWS = 3 };

typedef struct rel_bias_resize {
    posenc_given given;
    posenc_tensor table; /* (rows, heads) */
    posenc_reals window_size, new_window_size, new_shape;
    int method;
    int64_t from[2], to[2], extra; /* sides of the grids of offsets, and rows behind them: as check found them */
} rel_bias_resize;

static const posenc_param rows[] = {
    { PE_TENSOR(rel_bias_resize, table), .flags = PE_REQUIRED,
      .doc = "the old table, [(2h-1)(2w-1), heads], with 3 more rows where there is a class token" },
    { PE_REALS(rel_bias_resize, window_size), .flags = PE_OPTIONAL, .min = 1, .max = MOST_WINDOW,
      .doc = "height,width of the old window; when absent the grid of offsets is a square" },
    { PE_REALS(rel_bias_resize, new_window_size), .flags = PE_OPTIONAL, .min = 1, .max = MOST_WINDOW,
      .doc = "height,width of the new window; or new_shape" },
    { PE_ENUM(rel_bias_resize, method), .names = methods, .def = GEOMETRIC,
      .doc = "timm's resize_rel_pos_bias_table; its _simple; its _levit (TinyViT)" },
    { PE_REALS(rel_bias_resize, new_shape), .flags = PE_OPTIONAL, .min = 1,
      .max = (double)MOST_SIDE * MOST_SIDE + CLASS_ROWS,
      .doc = "rows,heads of the new table, as timm's functions take it; without new_window_size its grid is a square" },
};

static const posenc_output outputs[] = {
    { "table", "[(2h'-1)(2w'-1), heads], and rows of a class token", "the new table", NULL },
};

/* ---- check ---- */

static bool window(const posenc_request *r, const char *name, const posenc_reals *list, int64_t grid[2], bool *sound,
                   posenc_error *err)
{
    if (!pe_given(r, name))
        return false;
    int64_t size[2] = { 1, 1 };
    *sound = pe_two_sizes(list, name, MOST_WINDOW, size, err) && *sound;
    for (int i = 0; i < 2; i++)
        grid[i] = 2 * size[i] - 1;
    return true;
}

static bool sides(int64_t grid[2], int64_t area)
{
    grid[0] = grid[1] = pe_side_of_square(area);
    return grid[0] > 0;
}

static bool extra_rows(int64_t n) { return n == 0 || n == CLASS_ROWS; }

/* from, to and extra, from whichever of the four sizes are given. */
static void check_grids(const posenc_request *r, rel_bias_resize *p, posenc_error *err)
{
    const int64_t old = p->table.shape[0];
    bool sound = true;
    const bool from = window(r, "window_size", &p->window_size, p->from, &sound, err),
               to = window(r, "new_window_size", &p->new_window_size, p->to, &sound, err), shaped = pe_given(r, "new_shape");
    int64_t shape[2] = { 0, 0 };
    sound = (!shaped || pe_two_sizes(&p->new_shape, "new_shape", (int64_t)MOST_SIDE * MOST_SIDE + CLASS_ROWS, shape, err)) &&
            sound;
    if (!to && !shaped)
        sound = !posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "new_window_size", "absent",
                             "height,width of the new window, or new_shape");
    if (!sound)
        return;
    if (shaped && shape[1] != p->table.shape[1])
        pe_invalid(err, "new_shape[1]", posenc_text("%lld", (long long)shape[1]), "the %lld heads of table",
                   (long long)p->table.shape[1]);

    p->extra = from                     ? old - p->from[0] * p->from[1]
               : to && shaped           ? shape[0] - p->to[0] * p->to[1]
               : pe_side_of_square(old) ? 0
                                        : CLASS_ROWS;
    if (from && !extra_rows(p->extra))
        pe_invalid(err, "table", posenc_text("%lld rows", (long long)old), "%lld rows for this window_size, or 3 more",
                   (long long)(p->from[0] * p->from[1]));
    else if (to && shaped && (!extra_rows(p->extra) || shape[0] != p->to[0] * p->to[1] + p->extra))
        pe_invalid(err, "new_shape[0]", posenc_text("%lld", (long long)shape[0]),
                   "%lld rows for this new_window_size, or 3 "
                   "more, as many more as table has",
                   (long long)(p->to[0] * p->to[1]));
    else if (!from && !sides(p->from, old - p->extra))
        pe_invalid(err, "window_size", posenc_text("absent"), "height,width of the old window: %lld rows are no square",
                   (long long)old);
    else if (!to && !sides(p->to, shape[0] - p->extra))
        pe_invalid(err, "new_shape[0]", posenc_text("%lld", (long long)shape[0]),
                   "a square and the %lld rows of a class token, or new_window_size", (long long)p->extra);
    else if (p->method == GEOMETRIC && !(p->from[0] & p->from[1] & p->to[0] & p->to[1] & 1))
        pe_invalid(err, "method", posenc_text("geometric"),
                   "bicubic or bicubic_antialias: sides must be odd, to have a middle");
    else if (p->from[0] > MOST_SIDE || p->from[1] > MOST_SIDE || p->to[0] > MOST_SIDE || p->to[1] > MOST_SIDE)
        pe_invalid(err, p->to[0] > MOST_SIDE ? "new_shape[0]" : "table", posenc_text("side %lld", (long long)p->to[0]),
                   "sides of at most %d", MOST_SIDE);
}

static void forget(const posenc_request *r, rel_bias_resize *p, const char *name)
{
    p->given &= ~(1ULL << (posenc_row(&r->encoding->table, name) - rows));
}

/* Every spelling of the same two grids has the same key: what would be found without it leaves no trace, and new_shape
 * stands there as the window that it means (but for even sides, which are no window's). */
static posenc_status settle(posenc_request *r, rel_bias_resize *p, posenc_error *err)
{
    const bool found = p->extra == (pe_side_of_square(p->table.shape[0]) ? 0 : CLASS_ROWS);
    if (found && p->from[0] == p->from[1])
        forget(r, p, "window_size");
    if (!pe_given(r, "new_shape") || !(p->to[0] & p->to[1] & 1) || (!found && !pe_given(r, "window_size")))
        return PE_OK;
    double *window = posenc_alloc(r->arena, 2 * sizeof *window);
    if (!window)
        return pe_no_memory("new_shape", err);
    for (int i = 0; i < 2; i++)
        window[i] = (double)((p->to[i] + 1) / 2);
    p->new_window_size = (posenc_reals){ window, 2 };
    p->given |= 1ULL << (posenc_row(&r->encoding->table, "new_window_size") - rows);
    forget(r, p, "new_shape");
    return PE_OK;
}

static pe_resample axis(const rel_bias_resize *p, int i, const double *places)
{
    return (pe_resample){ .from = p->from[i],
                          .to = p->to[i],
                          .kernel = p->method == GEOMETRIC ? PE_KERNEL_LINEAR : PE_KERNEL_CUBIC,
                          .antialias = p->method == BICUBIC_ANTIALIAS,
                          .a = p->method == BICUBIC ? pe_cubic_torch : pe_cubic_pil,
                          .places = p->method == GEOMETRIC ? places : NULL };
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    rel_bias_resize *p = r->params;
    if (!pe_tensor_shaped(&p->table, 2, (int64_t[]){ -1, -1 }, "[(2h-1)(2w-1), heads]", err))
        return err->status;
    if (!posenc_tensor_count(&p->table))
        pe_invalid(err, "table", posenc_text("[%lld, %lld]", (long long)p->table.shape[0], (long long)p->table.shape[1]),
                   "at least one row and one head");
    else
        check_grids(r, p, err);
    if (!err->n) {
        const pe_resample one = axis(p, 0, NULL);
        pe_table_fits(&p->table, pe_resample_gain(&one) * pe_resample_gain(&one), (posenc_dtype)r->common.dtype, err);
    }
    return err->n ? err->status : settle(r, p, err);
}

/* ---- shape and cost ---- */

static bool same_size(const rel_bias_resize *p) { return p->from[0] == p->to[0] && p->from[1] == p->to[1]; }

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rel_bias_resize *p = r->params;
    return pe_output(out, "table", (posenc_dtype)r->common.dtype, 2,
                     (int64_t[]){ p->to[0] * p->to[1] + p->extra, p->table.shape[1] }, err);
}

static size_t axis_doubles(const rel_bias_resize *p, int i) { return (size_t)(p->from[i] / 2 + p->to[i]); }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rel_bias_resize *p = r->params;
    const pe_resample rows_axis = axis(p, 0, NULL), columns_axis = axis(p, 1, NULL);
    const pe_grid g = { .axis = { &rows_axis, &columns_axis }, .inner = p->table.shape[1] };
    *out = (posenc_cost){ .ns = 1e3 + 4 * (double)posenc_tensor_count(&p->table) };
    if (!same_size(p)) {
        out->ns += pe_resample_ns(&g) + 40 * (double)(p->from[0] + p->from[1] + p->to[0] + p->to[1]);
        out->scratch = pe_resample_scratch(&g) + (axis_doubles(p, 0) + axis_doubles(p, 1)) * sizeof(double);
    }
}

/* ---- the geometric grid ---- */

/* 1 + q + ... + q^(n-1) in closed form, as the source compares it; infinite where it overflows. */
static double progression(double q, int64_t n)
{
    double power = 1;
    for (int64_t i = 0; i < n; i++)
        power *= q;
    return (1 - power) / (1 - q);
}

static double ratio(int64_t n, int64_t reach)
{
    double left = 1.01, right = 1.5, q = right;
    while (right - left > 1e-6) {
        q = (left + right) / 2;
        *(progression(q, n) > (double)reach ? &right : &left) = q;
    }
    return q;
}

/* place[j] of every new offset among the old ones; known: room for the from / 2 old offsets over 0. */
static void geometric(int64_t from, int64_t to, double *known, double *place)
{
    const int64_t n = from / 2, reach = to / 2;
    const double q = ratio(n, reach);
    double power = 1, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += power;
        power *= q;
        known[i] = sum;
    }
    int64_t below = 0; /* known offsets under d */
    for (int64_t d = 0; d <= reach; d++) {
        while (below < n && known[below] < (double)d)
            below++;
        const double low = below ? known[below - 1] : 0;
        const double steps = below == n ? (double)n : (double)below + ((double)d - low) / (known[below] - low);
        place[reach + d] = (double)n + (d ? steps : 0);
        place[reach - d] = (double)n - (d ? steps : 0);
    }
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const rel_bias_resize *p = r->params;
    const int64_t heads = p->table.shape[1], from = p->from[0] * p->from[1] * heads, to = p->to[0] * p->to[1] * heads;
    posenc_tensor *dst = pe_tensor(out, "table");
    pe_pace pace = { .ctx = ctx };
    if (same_size(p))
        return pe_copy_elements(&p->table, 0, dst, 0, from + p->extra * heads, &pace);
    double *known = malloc((axis_doubles(p, 0) + axis_doubles(p, 1)) * sizeof *known);
    if (!known)
        return pe_no_memory("memory", err);
    const double *places[2];
    double *next = known;
    for (int i = 0; i < 2; i++) {
        if (p->method == GEOMETRIC)
            geometric(p->from[i], p->to[i], next, next + p->from[i] / 2);
        places[i] = next + p->from[i] / 2;
        next += axis_doubles(p, i);
    }
    const pe_resample rows_axis = axis(p, 0, places[0]), columns_axis = axis(p, 1, places[1]);
    const pe_grid g = { .axis = { &rows_axis, &columns_axis }, .inner = heads, .src = &p->table, .dst = dst };
    posenc_status st = pe_resample_grid(&g, &pace, err);
    if (!st)
        st = pe_copy_elements(&p->table, from, dst, to, p->extra * heads, &pace);
    free(known);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rel_bias_resize = {
    .name = "rel_bias_resize",
    .family = "relative",
    .title = "relative position biases for another window",
    .source = "timm layers/pos_embed_rel.py, resize_rel_pos_bias_table, _simple and _levit",
    .formula = "rows are offsets of -(h-1) .. h-1 and -(w-1) .. w-1, resampled per axis; bicubic: Keys' kernel, a = -0.75;\n"
               "bicubic_antialias: a = -0.5, widened for smaller grids; geometric: old offsets at 0, +-1, +-(1 + q), ...,\n"
               "q in 1.01 .. 1.5 halved to 1e-6 so that 1 + q + ... + q^(h-2) meets h'-1, linear between; last rows copied",
    .example = "table=[[0],[1],[2],[3],[4],[5],[6],[7],[8]]&window_size=2,2&new_window_size=3,3",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(rel_bias_resize, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
