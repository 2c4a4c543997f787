/* box_sine.c - sinusoids of the coordinates of boxes and points: anchors and queries of detection transformers.
 *
 *     of each coordinate v, with n = num_pos_feats and T = temperature:
 *     interleaved   sin(scale v / T^(2i/n)), cos(scale v / T^(2i/n)), ...      i = 0 .. n/2 - 1
 *     split         all sines, then all cosines
 *     embedding = these, one coordinate after the other, in the order `order`
 *
 * Source: Liu et al. 2022, DAB-DETR, arXiv:2201.12329, the authors' gen_sineembed_for_position: boxes are x, y, w, h and
 * the embedding has y before x. BROS has the corners in their own order, split. */
#include "core/params.h"
#include "sequence/sines.h"

#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_box_sine;

/* ---- rows ---- */

enum { YX, YXWH, AS_GIVEN };
static const char *const orders[] = { "yx", "yxwh", "as_given", NULL };

typedef struct box_sine {
    posenc_given given;
    posenc_tensor boxes; /* (..., coordinates) */
    int64_t num_pos_feats;
    double temperature, scale;
    int order, layout, compute_dtype;
} box_sine;

static const posenc_param rows[] = {
    { PE_TENSOR(box_sine, boxes), .flags = PE_REQUIRED,
      .doc = "coordinates in the last axis, [..., 2] as x, y, [..., 4] as x, y, w, h, or any number with order=as_given or, "
             "from 2 "
             "on, yx; 0 to 1 as a rule, each -1e9 .. 1e9" },
    { PE_INT(box_sine, num_pos_feats), .def = 128, .min = 2, .max = 524288,
      .doc = "channels of each coordinate, an even number" },
    { PE_REAL(box_sine, temperature), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies" },
    { PE_REAL(box_sine, scale), .def = 0x1.921fb54442d18p+2, .min = -1e9, .max = 1e9,
      .doc = "multiplies coordinates: 2 pi in DETR, 1 where they come scaled (BROS)" },
    { PE_ENUM(box_sine, order), .flags = PE_DERIVED, .names = orders,
      .doc = "order of the coordinates in the embedding: y before x, any others as they come (DETR), or all as they come "
             "(BROS); "
             "when absent, yx of 2 coordinates, yxwh of 4, as_given of any other number" },
    { PE_ENUM(box_sine, layout), .names = pe_sines_layouts, .def = PE_INTERLEAVED,
      .doc = "sin cos sin cos ... (DETR), or all sines then all cosines (BROS)" },
    { PE_ENUM(box_sine, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc =
          "float64: exact frequencies and angles; float32: each rounded to float32; then interleaved divides by the period "
          "as DETR does, and split multiplies by the frequency as BROS does" },
};

static const posenc_output outputs[] = {
    { .name = "embedding", .shape = "[..., coordinates * num_pos_feats]", .doc = "one row a box, under the axes of boxes" },
};

/* ---- check ---- */

static int64_t coordinates(const box_sine *p) { return p->boxes.rank ? p->boxes.shape[p->boxes.rank - 1] : 0; }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    box_sine *p = r->params;
    const int64_t n = coordinates(p);
    if (!pe_given(r, "order"))
        p->order = n == 2 ? YX : n == 4 ? YXWH : AS_GIVEN;
    if (p->num_pos_feats % 2)
        pe_invalid(err, "num_pos_feats", posenc_text("%lld", (long long)p->num_pos_feats), "an even number");
    if (p->compute_dtype == PE_COMPUTE_FLOAT32 && (p->temperature < 1e-9 || p->temperature > 1e36))
        pe_invalid(err, "temperature", posenc_text("%.17g", p->temperature), "1e-9 .. 1e36 with compute_dtype=float32");
    if (!p->boxes.rank)
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "boxes", "[]", "the shape [..., coordinates]");
    else if ((p->order == YX && n < 2) || (p->order == YXWH && n != 4))
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "boxes", posenc_text("[..., %lld]", (long long)n).s,
                    "the shape [..., %s] with order=%s", p->order == YX ? "2 or more" : "4", orders[p->order]);
    else
        pe_tensor_within(&p->boxes, -1e9, 1e9, "-1e9 .. 1e9", err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const box_sine *p = r->params;
    const posenc_tensor *b = &p->boxes;
    int64_t size[PE_MAX_RANK];
    memcpy(size, b->shape, sizeof size);
    if (!posenc_mul_size(size[b->rank - 1], p->num_pos_feats, &size[b->rank - 1]))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "boxes", "over 2^63 channels", "fewer coordinates");
    return pe_output(out, "embedding", (posenc_dtype)r->common.dtype, b->rank, size, err);
}

static uint64_t scratch(const box_sine *p) { return (uint64_t)p->num_pos_feats * (sizeof(pe_dd) / 2 + sizeof(double)); }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const box_sine *p = r->params;
    const double pairs = (double)p->num_pos_feats / 2, n = (double)posenc_tensor_count(&p->boxes);
    out->ns = 20e3 + pairs * (p->compute_dtype == PE_COMPUTE_FLOAT32 ? 5000 : 300) + n * (80 + 12 * pairs);
    out->scratch = scratch(p);
}

/* ---- compute ---- */

static pe_sines sines(const box_sine *p)
{
    return (pe_sines){
        .width = p->num_pos_feats,
        .split = p->layout == PE_SPLIT,
        .top = p->temperature,
        .bottom = 1,
        .shortest = 1,
        .scale = 1,
        .form = PE_POWER_POW,
        .single = p->compute_dtype == PE_COMPUTE_FLOAT32,
        .divide = p->layout == PE_INTERLEAVED,
    };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const box_sine *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "embedding");
    const pe_sines s = sines(p);
    const pe_columns c = pe_sines_columns(&s);
    const size_t n = (size_t)p->num_pos_feats, size = n * posenc_dtype_size(dst->dtype);
    const int64_t per_box = coordinates(p), count = posenc_tensor_count(&p->boxes);
    pe_pace pace = { .ctx = ctx };
    if (!count)
        return PE_OK;
    pe_dd *w = malloc(scratch(p));
    if (!w)
        return pe_no_memory("memory", err);
    double *row = (double *)(w + n / 2);

    posenc_status st = pe_sines_frequencies(&s, w, ctx);
    char *to = dst->data;
    for (int64_t i = 0; i < count && !st; i++, to += size) {
        const int64_t k = i % per_box, from = p->order != AS_GIVEN && k < 2 ? i - k + (1 - k) : i;
        const double v = posenc_tensor_get(&p->boxes, from);
        const pe_dd angle = s.single ? (pe_dd){ (double)((float)v * (float)p->scale), 0 } : pe_two_prod(v, p->scale);
        st = pe_sines_row(&s, &c, w, angle, row, &pace);
        posenc_convert(dst->dtype, to, row, n);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_box_sine = {
    .name = "box_sine",
    .family = "grid",
    .title = "sine and cosine of the coordinates of boxes",
    .source = "Liu et al. 2022, DAB-DETR, arXiv:2201.12329, gen_sineembed_for_position; Hong et al. 2022, BROS",
    .formula = "of each coordinate v: sin(scale * v / temperature^(2i / num_pos_feats)) and cos of the same,\n"
               "i = 0 .. num_pos_feats/2 - 1; one coordinate after the other, y before x unless order=as_given",
    .example = "boxes=[[0.5,0.25,0.125,0.75]]&num_pos_feats=8",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(box_sine, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
