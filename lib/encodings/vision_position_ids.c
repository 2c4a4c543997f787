/* vision_position_ids.c - row and column of each patch of images and videos, in the order that vision encoders read them.
 *
 * Patches come frame by frame; in a frame by blocks of spatial_merge_size * spatial_merge_size patches, which are merged
 * into one token later: blocks row by row, and the patches of a block row by row.
 *
 * With window_size, two more outputs: the order of merged tokens for attention in windows of W * W tokens,
 * W = floor(floor(window_size / spatial_merge_size) / patch_size), windows row by row and tokens row by row in each (those
 * at the right and bottom edge are smaller), and where the patches of each window begin.
 * Source: transformers, get_vision_position_ids (Qwen2-VL, rot_pos_emb) and get_window_index of Qwen2.5-VL. */
#include "core/pace.h"
#include "core/params.h"

extern const posenc_encoding pe_vision_position_ids;

/* ---- rows ---- */

typedef struct vision_position_ids {
    posenc_given given;
    posenc_tensor grid_thw;
    int64_t spatial_merge_size;
    bool include_temporal;
    int64_t window_size, patch_size;
} vision_position_ids;

static const posenc_param rows[] = {
    { PE_TENSOR(vision_position_ids, grid_thw), .flags = PE_REQUIRED,
      .doc = "[images, 3]: frames, rows and columns of patches of each image or video" },
    { PE_INT(vision_position_ids, spatial_merge_size), .def = 2, .min = 1, .max = 1 << 20,
      .doc = "rows and columns of a block of patches that are merged later; 1: row by row" },
    { PE_BOOL(vision_position_ids, include_temporal), .doc = "the frame of each patch too, first" },
    { PE_INT(vision_position_ids, window_size), .flags = PE_OPTIONAL, .min = 1, .max = 0x1p31,
      .doc = "pixels of a side of an attention window (Qwen2.5-VL 112): gives window_index and cu_window_seqlens" },
    { PE_INT(vision_position_ids, patch_size), .def = 14, .min = 1, .max = 0x1p31,
      .doc = "with window_size: pixels of a side of a patch" },
};

static const posenc_output outputs[] = {
    { "position_ids", "[N, 2]", "row and column of each patch; with include_temporal [N, 3]: frame, row, column", "int64" },
    { "window_index", "[N / spatial_merge_size^2]", "merged tokens in the order of windows; only with window_size",
      "int64" },
    { "cu_window_seqlens", "[windows + 1]", "patches before each window, and all; only with window_size", "int32" },
};

/* ---- grids ---- */

typedef struct grid {
    int64_t t, h, w;
} grid;

static grid grid_at(const vision_position_ids *p, int64_t i)
{
    const posenc_tensor *g = &p->grid_thw;
    return (grid){ (int64_t)posenc_tensor_get(g, 3 * i), (int64_t)posenc_tensor_get(g, 3 * i + 1),
                   (int64_t)posenc_tensor_get(g, 3 * i + 2) };
}

/* Merged tokens on a side of a window. */
static int64_t window(const vision_position_ids *p) { return p->window_size / p->spatial_merge_size / p->patch_size; }
static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Patches and windows of all images; false where a number is over 2^62. */
static bool count(const posenc_request *r, int64_t *patches, int64_t *windows)
{
    const vision_position_ids *p = r->params;
    const bool windowed = pe_given(r, "window_size");
    const int64_t m = p->spatial_merge_size, side = windowed ? window(p) : 1;
    *patches = *windows = 0;
    for (int64_t i = 0; i < p->grid_thw.shape[0]; i++) {
        const grid g = grid_at(p, i);
        int64_t n, k;
        if (!posenc_mul_size(g.h * g.w, g.t, &n) || !posenc_mul_size(up(g.h / m, side) * up(g.w / m, side), g.t, &k))
            return false;
        if (n > INT64_MAX / 2 - *patches)
            return false;
        *patches += n;
        *windows += k; /* never more than patches */
    }
    return true;
}

/* ---- check, shape, cost ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const vision_position_ids *p = r->params;
    const posenc_tensor *g = &p->grid_thw;
    const int64_t m = p->spatial_merge_size, any[2] = { -1, 3 };
    const bool windowed = pe_given(r, "window_size");
    if (pe_tensor_shaped(g, 2, any, "[N, 3]: frames, rows, columns", err) &&
        pe_tensor_integers(g, 1, 0x1p31 - 1, "a whole number from 1 to 2^31 - 1", err))
        for (int64_t i = 0; i < 3 * g->shape[0]; i++)
            if (i % 3 && (int64_t)posenc_tensor_get(g, i) % m)
                return pe_invalid(err, posenc_text("grid_thw[%lld][%d]", (long long)i / 3, (int)(i % 3)).s,
                                  posenc_text("%.17g", posenc_tensor_get(g, i)), "a multiple of spatial_merge_size = %lld",
                                  (long long)m);
    if (!windowed && p->patch_size != 14)
        pe_not_applicable(err, "patch_size", posenc_text("%lld", (long long)p->patch_size).s, "absent, or window_size");
    if (windowed && window(p) < 1)
        pe_invalid(err, "window_size", posenc_text("%lld", (long long)p->window_size),
                   "at least spatial_merge_size * patch_size = %lld, one token", (long long)(m * p->patch_size));
    int64_t patches, windows;
    if (!err->n && windowed && (!count(r, &patches, &windows) || patches > INT32_MAX))
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "grid_thw", "over 2^31 - 1 patches",
                    "at most 2^31 - 1 patches together with window_size: cu_window_seqlens is int32");
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const vision_position_ids *p = r->params;
    int64_t n, windows;
    if (!count(r, &n, &windows))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "position_ids", "over 2^62 patches", "a smaller shape");
    posenc_status st = pe_output(out, "position_ids", PE_int64, 2, (int64_t[]){ n, p->include_temporal ? 3 : 2 }, err);
    if (st || !pe_given(r, "window_size"))
        return st;
    const int64_t tokens = n / (p->spatial_merge_size * p->spatial_merge_size), ends = windows + 1;
    if ((st = pe_output(out, "window_index", PE_int64, 1, &tokens, err)))
        return st;
    return pe_output(out, "cu_window_seqlens", PE_int32, 1, &ends, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    int64_t n, windows;
    count(r, &n, &windows); /* `shape` has seen that they fit */
    *out = (posenc_cost){ .ns = 1e3 + 12 * (double)n + 10 * (double)windows };
}

/* ---- compute ---- */

static posenc_status fill_places(const vision_position_ids *p, int64_t *out, pe_pace *pace)
{
    const int64_t m = p->spatial_merge_size;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < p->grid_thw.shape[0]; i++) {
        const grid g = grid_at(p, i);
        for (int64_t t = 0; t < g.t; t++)
            for (int64_t row = 0; row < g.h; row += m)
                for (int64_t column = 0; column < g.w; column += m)
                    for (int64_t y = row; y < row + m; y++) {
                        for (int64_t x = column; x < column + m; x++) {
                            if (p->include_temporal)
                                *out++ = t;
                            *out++ = y;
                            *out++ = x;
                        }
                        if ((st = pe_pace_add(pace, 5 + 3 * m)))
                            return st;
                    }
    }
    return PE_OK;
}

static posenc_status fill_windows(const vision_position_ids *p, int64_t *index, int32_t *ends, pe_pace *pace)
{
    const int64_t m = p->spatial_merge_size, side = window(p);
    int64_t before = 0, frame = 0; /* tokens in the order of windows; tokens of the frames that came first */
    posenc_status st = PE_OK;
    *ends++ = 0;
    for (int64_t i = 0; i < p->grid_thw.shape[0]; i++) {
        const grid g = grid_at(p, i);
        const int64_t h = g.h / m, w = g.w / m;
        for (int64_t t = 0; t < g.t; t++, frame += h * w)
            for (int64_t row = 0; row < h; row += side)
                for (int64_t column = 0; column < w; column += side) {
                    const int64_t bottom = row + side < h ? row + side : h, right = column + side < w ? column + side : w;
                    for (int64_t y = row; y < bottom; y++) {
                        for (int64_t x = column; x < right; x++) {
                            index[before++] = frame + y * w + x;
                            if ((st = pe_pace_add(pace, 3)))
                                return st;
                        }
                    }
                    *ends++ = (int32_t)(before * m * m);
                }
    }
    return PE_OK;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const vision_position_ids *p = r->params;
    pe_pace pace = { .ctx = ctx };
    (void)err;
    posenc_status st = fill_places(p, pe_tensor(out, "position_ids")->data, &pace);
    if (st || !pe_given(r, "window_size"))
        return st;
    return fill_windows(p, pe_tensor(out, "window_index")->data, pe_tensor(out, "cu_window_seqlens")->data, &pace);
}

/* ---- descriptor ---- */

const posenc_encoding pe_vision_position_ids = {
    .name = "vision_position_ids",
    .family = "grid",
    .title = "row and column of each patch in the order of merged blocks, and the order of attention windows",
    .source = "transformers, vision_utils.py: get_vision_position_ids, get_vision_window_index (Qwen2-VL, Qwen2.5-VL)",
    .formula = "frame by frame, blocks of spatial_merge_size^2 patches row by row, the patches of a block row by row\n"
               "windows: sides of floor(floor(window_size / spatial_merge_size) / patch_size) merged tokens, row by row",
    .example = "grid_thw=[[2,4,4]]&spatial_merge_size=2&include_temporal=true",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(vision_position_ids, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
