/* fractional_patch_index.c - which row of a square table of positions each patch of an image of another size reads.
 *
 *     index[r][c] = bucket(r / rows) k + bucket(c / columns),    bucket(f) = floor(f k)        k = num_patches_per_side
 *
 * rows and columns are those of the image's patches, the mask's upper left rectangle; patches outside it get 0.
 * Source: NaViT (Dehghani et al. 2023, arXiv:2307.06304) as transformers has it for Idefics2, Idefics3 and SmolVLM.
 *
 * bucket is r k / rows in whole numbers. In float32, as the peers form it, a quotient that is whole can fall into the
 * bucket below: k = 5 and 25 rows, row 5. compute_dtype=float32 follows them: step f(1 / rows), fraction f(r step), at most
 * f(1 - 1e-6), and the boundaries f(1/k + j/k) that are not above it are counted. */
#include "core/pace.h"
#include "core/params.h"
#include "sequence/sines.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_fractional_patch_index;

/* ---- rows ---- */

enum { FLOAT64 = PE_COMPUTE_FLOAT64, FLOAT32 = PE_COMPUTE_FLOAT32 };

typedef struct fractional_patch_index {
    posenc_given given;
    int64_t num_patches_per_side;
    posenc_tensor patch_attention_mask;
    int compute_dtype;
} fractional_patch_index;

static const posenc_param rows[] = {
    { PE_INT(fractional_patch_index, num_patches_per_side), .flags = PE_REQUIRED, .min = 1, .max = 1 << 20,
      .doc = "rows and columns of the table of positions" },
    { PE_TENSOR(fractional_patch_index, patch_attention_mask), .flags = PE_REQUIRED,
      .doc = "[H, W] or [B, H, W]: 1 where an image has a patch, 0 in the padding to the right and below" },
    { PE_ENUM(fractional_patch_index, compute_dtype), .names = pe_compute_dtypes, .def = FLOAT64,
      .doc =
          "float64: exact buckets; float32: fractions and boundaries each rounded to float32, as Idefics2 and Idefics3 do" },
};

static const posenc_output outputs[] = {
    { "index", "[B, H W]", "row of the table of each patch, row by row, 0 in the padding; [H W] of a mask [H, W]", "int64" },
};

/* ---- the mask ---- */

typedef struct sizes {
    int64_t images, h, w;
} sizes;

static sizes sizes_of(const fractional_patch_index *p)
{
    const posenc_tensor *t = &p->patch_attention_mask;
    return (sizes){ t->rank == 3 ? t->shape[0] : 1, t->shape[t->rank - 2], t->shape[t->rank - 1] };
}

/* Rows and columns of an image's patches: those of the first column and of the first row. `pace` may be NULL. */
static posenc_status extent(const fractional_patch_index *p, int64_t image, int64_t *high, int64_t *wide, pe_pace *pace)
{
    const posenc_tensor *t = &p->patch_attention_mask;
    const sizes s = sizes_of(p);
    const int64_t first = image * s.h * s.w;
    posenc_status st = PE_OK;
    *high = *wide = 0;
    for (int64_t i = 0; i < s.h + s.w && !st; i++) {
        if (i < s.h)
            *high += posenc_tensor_get(t, first + i * s.w) != 0;
        else
            *wide += posenc_tensor_get(t, first + i - s.h) != 0;
        st = pace ? pe_pace_add(pace, 5) : PE_OK;
    }
    return st;
}

/* Each image's patches are a rectangle that starts at the upper left. */
static void check_rectangles(const fractional_patch_index *p, posenc_error *err)
{
    const sizes s = sizes_of(p);
    for (int64_t b = 0; b < s.images; b++) {
        int64_t high, wide;
        extent(p, b, &high, &wide, NULL);
        for (int64_t i = 0; i < s.h * s.w; i++) {
            const bool inside = i / s.w < high && i % s.w < wide;
            if ((posenc_tensor_get(&p->patch_attention_mask, b * s.h * s.w + i) != 0) == inside)
                continue;
            const posenc_short image = p->patch_attention_mask.rank == 3 ? posenc_text("[%lld]", (long long)b)
                                                                         : posenc_text("%s", "");
            pe_invalid(
                err,
                posenc_text("patch_attention_mask%s[%lld][%lld]", image.s, (long long)(i / s.w), (long long)(i % s.w)).s,
                posenc_text("%d", !inside),
                "%d: the patches of an image are a rectangle at the upper left, here %lld by %lld", inside, (long long)high,
                (long long)wide);
            return;
        }
    }
}

/* ---- check, shape, cost ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const fractional_patch_index *p = r->params;
    const posenc_tensor *t = &p->patch_attention_mask;
    if (pe_tensor_shaped(t, t->rank == 3 ? 3 : 2, (const int64_t[]){ -1, -1, -1 }, "[H, W] or [B, H, W]", err) &&
        pe_tensor_integers(t, 0, 1, "0 or 1", err) && posenc_tensor_count(t))
        check_rectangles(p, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const fractional_patch_index *p = r->params;
    const sizes s = sizes_of(p);
    const int64_t size[2] = { s.images, s.h * s.w };
    const bool batched = p->patch_attention_mask.rank == 3;
    return pe_output(out, "index", PE_int64, 1 + batched, size + !batched, err);
}

/* The buckets of the rows, then of the columns, of one image. */
static uint64_t scratch(const fractional_patch_index *p)
{
    const sizes s = sizes_of(p);
    return posenc_tensor_count(&p->patch_attention_mask) ? (uint64_t)(s.h + s.w) * sizeof(int64_t) : 0;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const fractional_patch_index *p = r->params;
    const sizes s = sizes_of(p);
    *out = (posenc_cost){ .ns = 1e3 + (double)s.images * (8 * (double)s.h * (double)s.w + 100 * (double)(s.h + s.w)),
                          .scratch = scratch(p) };
}

/* ---- compute ---- */

static float boundary(int64_t j, int64_t k) { return (float)(1.0 / (double)k + (double)j * (1.0 / (double)k)); }

/* How many of the boundaries f(1/k + j/k), j = 0 .. k - 2, are at most `fraction`: near fraction * k. */
static int64_t bucket_float32(int64_t i, int64_t n, int64_t k)
{
    const float step = 1 / (float)n, most = (float)(1 - 1e-6);
    float fraction = (float)i * step;
    fraction = fraction > most ? most : fraction;
    int64_t b = (int64_t)((double)fraction * (double)k);
    while (b > 0 && boundary(b - 1, k) > fraction)
        b--;
    while (b < k - 1 && boundary(b, k) <= fraction)
        b++;
    return b < k ? b : k - 1;
}

static int64_t bucket(const fractional_patch_index *p, int64_t i, int64_t n)
{
    const int64_t k = p->num_patches_per_side;
    return p->compute_dtype == FLOAT32 ? bucket_float32(i, n, k) : i * k / n;
}

/* First places of the table for rows (times k), then for columns, of an image with so many. */
static posenc_status fill_buckets(const fractional_patch_index *p, int64_t high, int64_t wide, int64_t *row, int64_t *column,
                                  pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < high && !st; i++) {
        row[i] = bucket(p, i, high) * p->num_patches_per_side;
        st = pe_pace_add(pace, 20);
    }
    for (int64_t i = 0; i < wide && !st; i++) {
        column[i] = bucket(p, i, wide);
        st = pe_pace_add(pace, 20);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const fractional_patch_index *p = r->params;
    const sizes s = sizes_of(p);
    const int64_t n = posenc_tensor_count(&p->patch_attention_mask);
    int64_t *dst = pe_tensor(out, "index")->data, *row = n ? malloc(scratch(p)) : NULL, *column = row ? row + s.h : NULL;
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    if (n && !row)
        return pe_no_memory("memory", err);
    for (int64_t i = 0, high = 0, wide = 0; i < n && !st; i++) {
        const int64_t y = i / s.w % s.h, x = i % s.w;
        if (!y && !x &&
            ((st = extent(p, i / (s.h * s.w), &high, &wide, &pace)) ||
             (st = fill_buckets(p, high, wide, row, column, &pace))))
            break;
        dst[i] = y < high && x < wide ? row[y] + column[x] : 0;
        st = pe_pace_add(&pace, 5);
    }
    free(row);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_fractional_patch_index = {
    .name = "fractional_patch_index",
    .family = "grid",
    .title = "rows of a square table of positions for the patches of images of other sizes",
    .source = "Dehghani et al. 2023, Patch n' Pack: NaViT, arXiv:2307.06304; transformers, Idefics3VisionEmbeddings.forward",
    .formula =
        "index of row r, column c of an image of rows by columns patches: floor(r k / rows) k + floor(c k / columns),\n"
        "k = num_patches_per_side; 0 where the mask is 0",
    .example = "num_patches_per_side=27&patch_attention_mask=[[1,1,1,0],[1,1,1,0],[0,0,0,0]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(fractional_patch_index, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
