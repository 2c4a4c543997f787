/* vit_resize.c - a learned grid of positions of patches for images of another size.
 *
 * posemb: num_prefix_tokens rows (class token, registers), which stay as they are, then H W rows of a grid, row by row; or
 * the grid alone, [H, W, D]. Height and width are resampled one after the other with the kernel of `interpolation`. With
 * antialias (timm) the kernel is Pillow's: as wide as the step, weights divided by their sum, cubic coefficient -0.5;
 * without (HuggingFace ViT, DeiT, DINOv2; MAE) it is torch's, coefficient -0.75. So the two differ even for larger grids.
 * interpolate_offset (DINOv2: 0.1): the step is H / (H' + offset) instead of H / H', as torch takes it from scale_factor.
 *
 * Source: timm layers/pos_embed.py, resample_abs_pos_embed and resample_abs_pos_embed_nhwc; facebookresearch/dinov2
 * vision_transformer.py, interpolate_pos_encoding.
 * Defined here: the grid is copied when the size stays, also with an offset (as DINOv2). timm copies as well when only the
 * number of patches stays and the new grid is square (8x32 to 16x16), which mixes up rows and columns; here that is
 * resampled. */
#include "sequence/resample.h"
#include "sequence/sines.h"

#include <math.h>
#include <string.h>

extern const posenc_encoding pe_vit_resize;

/* ---- rows ---- */

enum { BICUBIC, BILINEAR, NEAREST, NEAREST_EXACT };
static const char *const interpolations[] = { "bicubic", "bilinear", "nearest", "nearest-exact", NULL };

typedef struct vit_resize {
    posenc_given given;
    posenc_tensor posemb;
    posenc_reals new_size, old_size;
    int64_t num_prefix_tokens;
    int interpolation;
    bool antialias;
    double interpolate_offset;
    int64_t image_height, image_width, patch_size;
    int compute_dtype;
    double resolved[2][2]; /* what new_size and old_size point to where they were derived */
    int64_t to[2], from[2];
} vit_resize;

static const posenc_param rows[] = {
    { PE_TENSOR(vit_resize, posemb), .flags = PE_REQUIRED,
      .doc = "the old table: [num_prefix_tokens + H W, D], or a grid alone: [H, W, D]" },
    { PE_REALS(vit_resize, new_size), .flags = PE_DERIVED, .min = 1, .max = 1 << 16,
      .doc = "height,width of the new grid; when absent, image_height and image_width by patch_size" },
    { PE_REALS(vit_resize, old_size), .flags = PE_DERIVED, .min = 1, .max = PE_RESAMPLE_MAX,
      .doc = "height,width of the old grid; when absent, that of a [H, W, D] posemb, otherwise the grid is a square" },
    { PE_INT(vit_resize, num_prefix_tokens), .flags = PE_DERIVED, .max = PE_RESAMPLE_MAX,
      .doc = "first rows that belong to no patch; when absent 1, for a [H, W, D] posemb 0" },
    { PE_ENUM(vit_resize, interpolation), .names = interpolations, .def = BICUBIC, .doc = "kernel, of torch's names" },
    { PE_BOOL(vit_resize, antialias), .flags = PE_DERIVED,
      .doc = "Pillow's widened kernel (timm: true; HuggingFace, MAE, DINOv2: false), which differs for larger grids too. "
             "When absent true, with a nearest kernel false" },
    { PE_REAL(vit_resize, interpolate_offset), .min = 0, .max = 1,
      .doc = "the step is old / (new + offset), torch's scale_factor (DINOv2: 0.1); below 1" },
    { PE_INT(vit_resize, image_height), .flags = PE_OPTIONAL, .min = 1, .max = PE_RESAMPLE_MAX,
      .doc = "pixels; with image_width and patch_size in place of new_size" },
    { PE_INT(vit_resize, image_width), .flags = PE_OPTIONAL, .min = 1, .max = PE_RESAMPLE_MAX, .doc = "pixels" },
    { PE_INT(vit_resize, patch_size), .flags = PE_OPTIONAL, .min = 1, .max = PE_RESAMPLE_MAX,
      .doc = "pixels a patch, a remainder of pixels is dropped" },
    { PE_ENUM(vit_resize, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "of a nearest kernel: float64: the exact row; float32: step and place are rounded as torch has them, which is "
             "now and then the row beside" },
};

static const posenc_output outputs[] = {
    { "posemb", "[P + H' W', D] or [H', W', D]", "the new table, in the form of the old one", NULL },
};

/* ---- check ---- */

static void give(vit_resize *p, const char *name, bool given)
{
    const uint64_t bit = 1ULL << (posenc_row(&pe_vit_resize.table, name) - rows);
    p->given = given ? p->given | bit : p->given & ~bit;
}

/* A list of sizes that follows from other parameters; either spelling of the request has the same digest. */
static void derive(vit_resize *p, const char *name, posenc_reals *list, double *storage, const int64_t size[2])
{
    storage[0] = (double)size[0];
    storage[1] = (double)size[1];
    *list = (posenc_reals){ storage, 2 };
    give(p, name, true);
}

static bool check_new_size(posenc_request *r, posenc_error *err)
{
    static const char *const names[] = { "image_height", "image_width", "patch_size" };
    vit_resize *p = r->params;
    const bool listed = pe_given(r, "new_size");
    int given = 0, missing = 0;
    for (int i = 0; i < 3; i++)
        if (pe_given(r, names[i]))
            given++;
        else
            missing = i;
    bool sound = !listed || pe_two_sizes(&p->new_size, "new_size", 1 << 16, p->to, err);
    if (!listed && !given)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "new_size", "absent",
                           "height,width of the new grid, or image_height, image_width and patch_size"),
               false;
    if (given && given < 3)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", names[missing], "absent",
                           "a value: image_height, image_width and patch_size go together"),
               false;
    for (int i = 0; i < 2 && given && sound; i++) {
        const int64_t pixels = i ? p->image_width : p->image_height, patches = pixels / p->patch_size;
        if (patches < 1 || patches > 1 << 16)
            sound = !pe_invalid(err, names[i], posenc_text("%lld", (long long)pixels),
                                "1 to 65536 whole patches of %lld pixels", (long long)p->patch_size);
        else if (listed && patches != p->to[i])
            sound = !pe_invalid(err, posenc_text("new_size[%d]", i).s, posenc_text("%lld", (long long)p->to[i]),
                                "%lld, as %s / patch_size, or only one of the two", (long long)patches, names[i]);
        p->to[i] = patches;
    }
    for (int i = 0; i < 3 && sound; i++)
        give(p, names[i], false);
    if (sound)
        derive(p, "new_size", &p->new_size, p->resolved[0], p->to);
    return sound;
}

static bool check_old_size(posenc_request *r, posenc_error *err)
{
    vit_resize *p = r->params;
    const posenc_tensor *t = &p->posemb;
    const bool grid = t->rank == 3, listed = pe_given(r, "old_size");
    if (!pe_tensor_shaped(t, grid ? 3 : 2, (int64_t[]){ -1, -1, -1 }, "[num_prefix_tokens + H W, D] or [H, W, D]", err))
        return false;
    if (!pe_given(r, "num_prefix_tokens"))
        p->num_prefix_tokens = grid ? 0 : 1;
    if (grid && p->num_prefix_tokens)
        return pe_not_applicable(err, "num_prefix_tokens", posenc_text("%lld", (long long)p->num_prefix_tokens).s,
                                 "0: a posemb of [H, W, D] has no such rows"),
               false;
    const int64_t patches = grid ? -1 : t->shape[0] - p->num_prefix_tokens;
    if (t->shape[t->rank - 1] < 1 || (grid ? t->shape[0] < 1 || t->shape[1] < 1 : patches < 1))
        return pe_invalid(err, "posemb",
                          posenc_text("%lld rows, %lld columns", (long long)t->shape[0], (long long)t->shape[t->rank - 1]),
                          "at least one patch behind %lld prefix rows, and one column", (long long)p->num_prefix_tokens),
               false;
    if (listed && !pe_two_sizes(&p->old_size, "old_size", PE_RESAMPLE_MAX, p->from, err))
        return false;
    if (grid && listed && (p->from[0] != t->shape[0] || p->from[1] != t->shape[1]))
        return pe_invalid(err, "old_size", posenc_text("%lld,%lld", (long long)p->from[0], (long long)p->from[1]),
                          "%lld,%lld, the grid that posemb has", (long long)t->shape[0], (long long)t->shape[1]),
               false;
    if (!grid && listed && p->from[0] * p->from[1] != patches)
        return pe_invalid(err, "old_size", posenc_text("%lld,%lld", (long long)p->from[0], (long long)p->from[1]),
                          "a grid of the %lld patches of posemb (%lld rows less %lld prefix tokens)", (long long)patches,
                          (long long)t->shape[0], (long long)p->num_prefix_tokens),
               false;
    if (!grid && !listed && !(p->from[0] = p->from[1] = pe_side_of_square(patches)))
        return pe_invalid(err, "old_size", posenc_text("absent"),
                          "height,width of the old grid: its %lld patches (%lld rows less %lld prefix tokens) are no square",
                          (long long)patches, (long long)t->shape[0], (long long)p->num_prefix_tokens),
               false;
    if (grid)
        memcpy(p->from, t->shape, sizeof p->from);
    if (p->from[0] > PE_RESAMPLE_MAX || p->from[1] > PE_RESAMPLE_MAX)
        return pe_invalid(err, "posemb", posenc_text("%lld x %lld", (long long)p->from[0], (long long)p->from[1]),
                          "sides of at most 2^30"),
               false;
    derive(p, "old_size", &p->old_size, p->resolved[1], p->from);
    return true;
}

static bool same_size(const vit_resize *p) { return p->from[0] == p->to[0] && p->from[1] == p->to[1]; }

static pe_resample axis(const vit_resize *p, int i)
{
    static const pe_kernel kernels[] = { PE_KERNEL_CUBIC, PE_KERNEL_LINEAR, PE_KERNEL_NEAREST, PE_KERNEL_NEAREST_EXACT };
    return (pe_resample){ .from = p->from[i],
                          .to = p->to[i],
                          .kernel = kernels[p->interpolation],
                          .antialias = p->antialias,
                          .single = p->compute_dtype == PE_COMPUTE_FLOAT32,
                          .a = p->antialias ? pe_cubic_pil : pe_cubic_torch,
                          .sampled = p->interpolate_offset > 0 ? (double)p->to[i] + p->interpolate_offset : 0 };
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    vit_resize *p = r->params;
    const bool smooth = p->interpolation == BICUBIC || p->interpolation == BILINEAR;
    if (!pe_given(r, "antialias"))
        p->antialias = smooth;
    if (p->antialias && !smooth)
        pe_not_applicable(err, "antialias", "true", "false with interpolation=%s", interpolations[p->interpolation]);
    if (smooth && p->compute_dtype != PE_COMPUTE_FLOAT64)
        pe_not_applicable(err, "compute_dtype", pe_compute_dtypes[p->compute_dtype], "float64, or a nearest kernel");
    if (p->interpolate_offset >= 1)
        pe_invalid(err, "interpolate_offset", posenc_text("%.17g", p->interpolate_offset), "0 or more, and below 1");
    const bool sized = check_new_size(r, err);
    if (check_old_size(r, err) && sized && !err->n) {
        const pe_resample rows_axis = axis(p, 0), columns_axis = axis(p, 1);
        const double gain = same_size(p) ? 1 : pe_resample_gain(&rows_axis) * pe_resample_gain(&columns_axis);
        pe_table_fits(&p->posemb, gain, (posenc_dtype)r->common.dtype, err);
    }
    return err->status;
}

/* ---- shape, cost, compute ---- */

static int64_t inner(const vit_resize *p) { return p->posemb.shape[p->posemb.rank - 1]; }

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const vit_resize *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    if (p->posemb.rank == 3)
        return pe_output(out, "posemb", dtype, 3, (int64_t[]){ p->to[0], p->to[1], inner(p) }, err);
    return pe_output(out, "posemb", dtype, 2, (int64_t[]){ p->num_prefix_tokens + p->to[0] * p->to[1], inner(p) }, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const vit_resize *p = r->params;
    const pe_resample rows_axis = axis(p, 0), columns_axis = axis(p, 1);
    const pe_grid g = { .axis = { &rows_axis, &columns_axis }, .inner = inner(p) };
    const double copied = (double)(p->num_prefix_tokens + (same_size(p) ? p->to[0] * p->to[1] : 0)) * (double)g.inner;
    *out = (posenc_cost){ .ns = 1e3 + 2 * copied + (same_size(p) ? 0 : pe_resample_ns(&g)),
                          .scratch = same_size(p) ? 0 : pe_resample_scratch(&g) };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const vit_resize *p = r->params;
    const pe_resample rows_axis = axis(p, 0), columns_axis = axis(p, 1);
    const int64_t prefix = p->num_prefix_tokens * inner(p);
    posenc_tensor *dst = pe_tensor(out, "posemb");
    pe_pace pace = { .ctx = ctx };
    const pe_grid g = { .axis = { &rows_axis, &columns_axis },
                        .inner = inner(p),
                        .src = &p->posemb,
                        .src_start = prefix,
                        .dst = dst,
                        .dst_start = prefix };
    const posenc_status st = pe_copy_elements(&p->posemb, 0, dst, 0, same_size(p) ? posenc_tensor_count(dst) : prefix,
                                              &pace);
    return st || same_size(p) ? st : pe_resample_grid(&g, &pace, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_vit_resize = {
    .name = "vit_resize",
    .family = "grid",
    .title = "learned positions of image patches for another image size",
    .source = "timm layers/pos_embed.py, resample_abs_pos_embed; dinov2 vision_transformer.py, interpolate_pos_encoding",
    .formula = "new[y, x] = sum over i, j of a(y, i) b(x, j) old[i, j]; weights of the kernel around the place\n"
               "(y + 1/2) H / (H' + interpolate_offset) - 1/2, and so for x; bicubic: Keys' kernel, a = -0.75;\n"
               "antialias: a = -0.5, kernel as wide as the step where that is over 1, weights divided by their sum;\n"
               "the first num_prefix_tokens rows are copied",
    .example = "posemb=[[[0,1],[1,0]],[[2,3],[4,5]]]&new_size=3,4&antialias=false",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(vit_resize, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
