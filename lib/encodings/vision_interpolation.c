/* vision_interpolation.c - which rows of a square learned grid make the position of each patch, and with what weights.
 *
 * The dense resampling of a table as a sparse product: position of a patch = sum over taps of weights * table[indices].
 * Per axis of n patches over a side of s rows, the place of patch i is
 *     (i + 1/2) s / n - 1/2,  or  i (s - 1) / (n - 1) with align_corners (0 where n = 1)
 * and its taps are the rows around it: 2 (bilinear) or 4 (bicubic, Keys' kernel, a = -0.75), cut to 0 .. s-1. The taps of a
 * patch are all pairs, rows first. Patches go frame by frame, row by row; with spatial_merge_size m block by block of m x m.
 *
 * Source: get_vision_interpolation_indices_and_weights of HuggingFace transformers (vision_utils.py; Qwen3-VL, Kimi-VL),
 * which forms places in float32; here they are exact quotients. Unlike torch, places before the first row keep their
 * fraction: both taps are row 0 and the weights still sum to 1; with padding=zeros the tap that is not there has weight 0.
 */
#include "sequence/resample.h"

/* ---- rows ---- */

enum { BILINEAR, BICUBIC };
static const char *const modes[] = { "bilinear", "bicubic", NULL };
enum { BORDER, ZEROS };
static const char *const paddings[] = { "border", "zeros", NULL };
enum { MOST_SIDE = 1 << 15 };

typedef struct vision_interpolation {
    posenc_given given;
    posenc_tensor grid_thw; /* (N, 3) */
    int64_t num_grid_per_side;
    int mode;
    bool align_corners;
    int64_t spatial_merge_size;
    int padding;
} vision_interpolation;

static const posenc_param rows[] = {
    { PE_TENSOR(vision_interpolation, grid_thw), .flags = PE_REQUIRED,
      .doc = "frames, height and width in patches of each image or video, [N, 3]" },
    { PE_INT(vision_interpolation, num_grid_per_side), .flags = PE_REQUIRED, .min = 1, .max = MOST_SIDE,
      .doc = "side of the learned grid, which has its square of rows" },
    { PE_ENUM(vision_interpolation, mode), .names = modes, .def = BILINEAR, .doc = "2 or 4 taps an axis" },
    { PE_BOOL(vision_interpolation, align_corners), .doc = "end patches are end rows (Qwen3-VL: true)" },
    { PE_INT(vision_interpolation, spatial_merge_size), .def = 1, .min = 1, .max = MOST_SIDE,
      .doc = "patches in blocks of this side, one block after the other; 1: row by row" },
    { PE_ENUM(vision_interpolation, padding), .names = paddings, .def = BORDER,
      .doc = "taps beyond the grid: the rows at its border (torch's interpolate), or weight 0 (grid_sample with zeros)" },
};

static const posenc_output outputs[] = {
    { "indices", "[sum of T H W, 4 or 16]", "rows of the learned table", "int64" },
    { "weights", "[sum of T H W, 4 or 16]", "their weights; with padding=border they sum to 1", NULL },
};

/* ---- check ---- */

static int64_t size(const vision_interpolation *p, int64_t n, int i)
{
    return (int64_t)posenc_tensor_get(&p->grid_thw, 3 * n + i);
}

static int taps(const vision_interpolation *p) { return p->mode == BICUBIC ? PE_CUBIC_TAPS : 2; }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const vision_interpolation *p = r->params;
    if (!pe_tensor_shaped(&p->grid_thw, 2, (int64_t[]){ -1, 3 }, "[N, 3]", err) ||
        !pe_tensor_integers(&p->grid_thw, 1, MOST_SIDE, "a whole number in 1 .. 32768", err))
        return err->status;
    for (int64_t n = 0; n < p->grid_thw.shape[0]; n++)
        for (int i = 1; i < 3; i++)
            if (size(p, n, i) % p->spatial_merge_size)
                return pe_invalid(err, posenc_text("grid_thw[%lld][%d]", (long long)n, i).s,
                                  posenc_text("%lld", (long long)size(p, n, i)), "a multiple of spatial_merge_size=%lld",
                                  (long long)p->spatial_merge_size);
    return err->status;
}

/* ---- shape, cost, compute ---- */

static bool count(const vision_interpolation *p, int64_t *patches)
{
    *patches = 0;
    for (int64_t n = 0; n < p->grid_thw.shape[0]; n++)
        if (__builtin_add_overflow(*patches, size(p, n, 0) * size(p, n, 1) * size(p, n, 2), patches))
            return false;
    return true;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const vision_interpolation *p = r->params;
    int64_t s[2] = { 0, taps(p) * taps(p) };
    if (!count(p, &s[0]))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "grid_thw", "over 2^63 patches", "fewer patches");
    posenc_status st = pe_output(out, "indices", PE_int64, 2, s, err);
    return st ? st : pe_output(out, "weights", (posenc_dtype)r->common.dtype, 2, s, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const vision_interpolation *p = r->params;
    int64_t patches;
    count(p, &patches);
    *out = (posenc_cost){ .ns = 1e3 + (double)patches * (40 + 3 * taps(p) * taps(p)) };
}

/* Taps of patch i on an axis of n patches. */
static void axis_taps(const vision_interpolation *p, int64_t n, int64_t i, int64_t index[PE_CUBIC_TAPS],
                      double weight[PE_CUBIC_TAPS])
{
    const pe_resample r = { .from = p->num_grid_per_side, .to = n, .align_corners = p->align_corners };
    const int64_t last = r.from - 1;
    double t;
    const int64_t first = pe_resample_place(&r, i, &t) - (p->mode == BICUBIC);
    for (int k = 0; k < taps(p); k++)
        index[k] = first + k < 0 ? 0 : first + k > last ? last : first + k;
    if (p->mode == BICUBIC) {
        pe_cubic_weights(t, pe_cubic_torch, weight);
    } else {
        weight[0] = 1 - t;
        weight[1] = t;
    }
    for (int k = 0; k < taps(p) && p->padding == ZEROS; k++)
        if (index[k] != first + k)
            weight[k] = 0;
}

static void patch(const vision_interpolation *p, int64_t n, int64_t within, int64_t *index, double *weight)
{
    const int64_t m = p->spatial_merge_size, height = size(p, n, 1), width = size(p, n, 2), blocks = width / m;
    const int64_t row = within / (m * m * blocks) * m + within / m % m, column = within / (m * m) % blocks * m + within % m;
    int64_t up[PE_CUBIC_TAPS], across[PE_CUBIC_TAPS];
    double a[PE_CUBIC_TAPS], b[PE_CUBIC_TAPS];
    axis_taps(p, height, row, up, a);
    axis_taps(p, width, column, across, b);
    for (int i = 0, k = 0; i < taps(p); i++)
        for (int j = 0; j < taps(p); j++, k++) {
            index[k] = up[i] * p->num_grid_per_side + across[j];
            weight[k] = a[i] * b[j];
        }
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    (void)err;
    const vision_interpolation *p = r->params;
    const posenc_tensor *weights = pe_tensor(out, "weights");
    const int64_t each = taps(p) * taps(p), bytes = each * (int64_t)posenc_dtype_size(weights->dtype);
    int64_t *index = pe_tensor(out, "indices")->data;
    char *dst = weights->data;
    double weight[PE_CUBIC_TAPS * PE_CUBIC_TAPS];
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    for (int64_t n = 0; n < p->grid_thw.shape[0]; n++) {
        const int64_t frame = size(p, n, 1) * size(p, n, 2), patches = size(p, n, 0) * frame;
        for (int64_t i = 0; i < patches; i++, index += each, dst += bytes) {
            patch(p, n, i % frame, index, weight);
            posenc_convert(weights->dtype, dst, weight, (size_t)each);
            if ((st = pe_pace_add(&pace, 60 + 3 * each)))
                return st;
        }
    }
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_vision_interpolation = {
    .name = "vision_interpolation",
    .family = "grid",
    .title = "taps and weights that resample a learned grid for each patch",
    .source = "get_vision_interpolation_indices_and_weights, HuggingFace transformers vision_utils.py (Qwen3-VL)",
    .formula =
        "place of patch i of n on a side s: (i + 1/2) s/n - 1/2, or i (s - 1)/(n - 1) with align_corners;\n"
        "bilinear: rows floor, floor + 1, weights 1 - t, t; bicubic: floor - 1 .. floor + 2, Keys' kernel, a = -0.75;\n"
        "rows cut to 0 .. s-1 (padding=zeros: with weight 0); indices = row * num_grid_per_side + column, weights = product "
        "of both axes",
    .example = "grid_thw=[[1,2,3]]&num_grid_per_side=4",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(vision_interpolation, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
