/* vit_resize_naflex.c - one learned grid of positions for a batch of images of different shapes (NaFlex).
 *
 * For each row (h, w) of spatial_shapes the grid posemb is resampled to h x w and laid out row by row; the rows behind, up
 * to max_length, repeat its row 0. Source: Siglip2VisionEmbeddings.resize_positional_embeddings of HuggingFace transformers:
 * bilinear with antialias. */
#include "sequence/resample.h"

#include <string.h>

/* ---- rows ---- */

enum { BILINEAR, BICUBIC };
static const char *const interpolations[] = { "bilinear", "bicubic", NULL };

typedef struct vit_resize_naflex {
    posenc_given given;
    posenc_tensor posemb, spatial_shapes; /* (H, W, D), (B, 2) */
    int64_t max_length;
    int interpolation;
    bool antialias;
} vit_resize_naflex;

static const posenc_param rows[] = {
    { PE_TENSOR(vit_resize_naflex, posemb), .flags = PE_REQUIRED, .doc = "the learned grid, [H, W, D]" },
    { PE_TENSOR(vit_resize_naflex, spatial_shapes), .flags = PE_REQUIRED,
      .doc = "height and width of each image in patches, [B, 2]" },
    { PE_INT(vit_resize_naflex, max_length), .flags = PE_DERIVED, .max = PE_RESAMPLE_MAX,
      .doc =
          "rows of each image; those behind its patches repeat its row 0. When absent, the patches of the largest image" },
    { PE_ENUM(vit_resize_naflex, interpolation), .names = interpolations, .def = BILINEAR, .doc = "kernel" },
    { PE_BOOL(vit_resize_naflex, antialias), .def = 1,
      .doc = "Pillow's kernel, widened for smaller grids, cubic coefficient -0.5; false: torch's plain kernel, -0.75" },
};

static const posenc_output outputs[] = {
    { "posemb", "[B, max_length, D]", "positions of the patches of each image", NULL },
};

/* ---- check ---- */

static int64_t side(const vit_resize_naflex *p, int64_t image, int i)
{
    return (int64_t)posenc_tensor_get(&p->spatial_shapes, 2 * image + i);
}

static int64_t patches(const vit_resize_naflex *p, int64_t image) { return side(p, image, 0) * side(p, image, 1); }

static pe_resample axis(const vit_resize_naflex *p, int64_t image, int i)
{
    return (pe_resample){ .from = p->posemb.shape[i],
                          .to = side(p, image, i),
                          .kernel = p->interpolation == BICUBIC ? PE_KERNEL_CUBIC : PE_KERNEL_LINEAR,
                          .antialias = p->antialias,
                          .a = p->antialias ? pe_cubic_pil : pe_cubic_torch };
}

static void check_lengths(const posenc_request *r, vit_resize_naflex *p, posenc_error *err)
{
    int64_t most = 0, largest = 0;
    for (int64_t b = 0; b < p->spatial_shapes.shape[0]; b++)
        if (patches(p, b) > most) {
            most = patches(p, b);
            largest = b;
        }
    if (!pe_given(r, "max_length"))
        p->max_length = most;
    if (most > p->max_length)
        pe_invalid(err, "max_length", posenc_text("%lld", (long long)p->max_length),
                   "at least %lld, the patches of spatial_shapes[%lld]", (long long)most, (long long)largest);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    vit_resize_naflex *p = r->params;
    const posenc_tensor *t = &p->posemb;
    if (pe_tensor_shaped(&p->spatial_shapes, 2, (int64_t[]){ -1, 2 }, "[B, 2]", err) &&
        pe_tensor_integers(&p->spatial_shapes, 1, 1 << 15, "a whole number in 1 .. 32768", err))
        check_lengths(r, p, err);
    if (!pe_tensor_shaped(t, 3, (int64_t[]){ -1, -1, -1 }, "[H, W, D]", err))
        return err->status;
    if (!posenc_tensor_count(t) || t->shape[0] > PE_RESAMPLE_MAX || t->shape[1] > PE_RESAMPLE_MAX)
        pe_invalid(err, "posemb",
                   posenc_text("[%lld, %lld, %lld]", (long long)t->shape[0], (long long)t->shape[1], (long long)t->shape[2]),
                   "no side of 0 or over 2^30");
    else {
        const pe_resample one = { .kernel = p->interpolation == BICUBIC ? PE_KERNEL_CUBIC : PE_KERNEL_LINEAR,
                                  .antialias = p->antialias,
                                  .a = pe_cubic_torch };
        pe_table_fits(t, pe_resample_gain(&one) * pe_resample_gain(&one), (posenc_dtype)r->common.dtype, err);
    }
    return err->status;
}

/* ---- shape, cost, compute ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const vit_resize_naflex *p = r->params;
    return pe_output(out, "posemb", (posenc_dtype)r->common.dtype, 3,
                     (int64_t[]){ p->spatial_shapes.shape[0], p->max_length, p->posemb.shape[2] }, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const vit_resize_naflex *p = r->params;
    *out = (posenc_cost){ .ns = 1e3 };
    for (int64_t b = 0; b < p->spatial_shapes.shape[0]; b++) {
        const pe_resample rows_axis = axis(p, b, 0), columns_axis = axis(p, b, 1);
        const pe_grid g = { .axis = { &rows_axis, &columns_axis }, .inner = p->posemb.shape[2] };
        const uint64_t scratch = pe_resample_scratch(&g);
        out->ns += pe_resample_ns(&g) + 4 * (double)(p->max_length - patches(p, b)) * (double)g.inner;
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const vit_resize_naflex *p = r->params;
    posenc_tensor *dst = pe_tensor(out, "posemb");
    const int64_t d = p->posemb.shape[2];
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    for (int64_t b = 0; b < p->spatial_shapes.shape[0] && !st; b++) {
        const pe_resample rows_axis = axis(p, b, 0), columns_axis = axis(p, b, 1);
        const int64_t first = b * p->max_length * d;
        const pe_grid g = {
            .axis = { &rows_axis, &columns_axis }, .inner = d, .src = &p->posemb, .dst = dst, .dst_start = first
        };
        st = pe_resample_grid(&g, &pace, err);
        const int64_t size = (int64_t)posenc_dtype_size(dst->dtype);
        for (int64_t i = patches(p, b); i < p->max_length && !st; i++)
            st = pe_pace_copy(&pace, (char *)dst->data + (first + i * d) * size, (const char *)dst->data + first * size,
                              (size_t)(d * size));
    }
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_vit_resize_naflex = {
    .name = "vit_resize_naflex",
    .family = "grid",
    .title = "learned positions of image patches for a batch of image shapes",
    .source = "Siglip2VisionEmbeddings.resize_positional_embeddings, HuggingFace transformers",
    .formula = "for image b: posemb resampled to spatial_shapes[b] as in vit_resize, row by row; rows behind repeat row 0",
    .example = "posemb=[[[0,1],[1,0]],[[2,3],[4,5]]]&spatial_shapes=[[1,2],[3,2]]&max_length=7",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(vit_resize_naflex, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
