/* detr_sine.c - the sinusoids of DETR: rows and columns counted over the valid pixels of a padded image.
 *
 *     y[r, c] = valid pixels of column c in rows 0 .. r          (the first valid pixel has 1)
 *     x[r, c] = valid pixels of row r in columns 0 .. c
 *     normalize: y = (y + offset) / (y of the last row + eps) * scale, x likewise with the last column
 *     pos[2i] = sin(y / T^(2i/n)), pos[2i + 1] = cos(y / T^(2i/n)); then the same n channels of x
 *
 * n = num_pos_feats, T = temperature_height for y and temperature_width for x.
 * Source: Carion et al. 2020, arXiv:2005.12872, the authors' PositionEmbeddingSine; DAB-DETR has two temperatures,
 * Deformable DETR an offset of -0.5. Their masks have 1 for padding; transformers' pixel_mask has 1 for valid pixels. */
#include "core/params.h"
#include "sequence/sines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_detr_sine;

/* ---- rows ---- */

enum { PADDING, VALID };
static const char *const conventions[] = { "padding", "valid", NULL };
enum { LARGEST = 1 << 24 }; /* of height and width */
static const double two_pi = 0x1.921fb54442d18p+2;

typedef struct detr_sine {
    posenc_given given;
    int64_t num_pos_feats, height, width;
    posenc_tensor mask; /* (height, width) or (images, height, width) */
    int mask_convention;
    bool normalize;
    double scale, eps, offset, temperature, temperature_height, temperature_width;
    int compute_dtype;
} detr_sine;

static const posenc_param rows[] = {
    { PE_INT(detr_sine, num_pos_feats), .def = 64, .min = 2, .max = 524288,
      .doc = "channels of each of the two axes, an even number" },
    { PE_INT(detr_sine, height), .flags = PE_OPTIONAL, .max = LARGEST, .doc = "rows of an image without padding" },
    { PE_INT(detr_sine, width), .flags = PE_OPTIONAL, .max = LARGEST, .doc = "columns of an image without padding" },
    { PE_TENSOR(detr_sine, mask), .flags = PE_OPTIONAL,
      .doc = "0 or 1 for each pixel, [H, W] or [B, H, W]; instead of height and width" },
    { PE_ENUM(detr_sine, mask_convention), .names = conventions, .def = PADDING,
      .doc = "what 1 means: padding (DETR's own code) or a valid pixel (pixel_mask of transformers)" },
    { PE_BOOL(detr_sine, normalize), .doc = "coordinates go from 0 to scale (every published model)" },
    { PE_REAL(detr_sine, scale), .flags = PE_OPTIONAL, .min = -1e9, .max = 1e9,
      .doc = "multiplies normalised coordinates; when absent 2 pi; only with normalize" },
    { PE_REAL(detr_sine, eps), .def = 1e-6, .min = 1e-12, .max = 1,
      .doc = "added to the number of valid pixels that normalised coordinates are divided by; only with normalize" },
    { PE_REAL(detr_sine, offset), .min = -1e6, .max = 1e6,
      .doc = "added to coordinates before they are normalised: -0.5 in Deformable DETR; only with normalize" },
    { PE_REAL(detr_sine, temperature), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,
      .doc = "temperature_height and temperature_width in one" },
    { PE_REAL(detr_sine, temperature_height), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies of y (DAB-DETR: 20)" },
    { PE_REAL(detr_sine, temperature_width), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies of x" },
    { PE_ENUM(detr_sine, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact coordinates, frequencies and angles; float32: each rounded to float32, as DETR does" },
};

static const posenc_output outputs[] = {
    { .name = "pos",
      .shape = "[2 * num_pos_feats, H, W]",
      .doc = "channels of y, then of x; with a mask of several images [B, 2 * num_pos_feats, H, W]" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_detr_sine.table, name) - rows); }
static bool given(const detr_sine *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- check ---- */

/* `temperature` becomes the two values it stands for and leaves no trace. */
static void check_temperatures(detr_sine *p, posenc_error *err)
{
    const bool height = given(p, "temperature_height"), width = given(p, "temperature_width");
    if (given(p, "temperature") && height && width)
        pe_not_applicable(err, "temperature", posenc_text("%.17g", p->temperature).s,
                          "temperature, or temperature_height and temperature_width");
    if (given(p, "temperature") && !height)
        p->temperature_height = p->temperature;
    if (given(p, "temperature") && !width)
        p->temperature_width = p->temperature;
    if (p->compute_dtype == PE_COMPUTE_FLOAT32)
        for (int k = 0; k < 2; k++) {
            const double t = k ? p->temperature_width : p->temperature_height;
            if (t < 1e-9 || t > 1e36)
                pe_invalid(err,
                           given(p, "temperature") ? "temperature"
                           : k                     ? "temperature_width"
                                                   : "temperature_height",
                           posenc_text("%.17g", t), "1e-9 .. 1e36 with compute_dtype=float32");
        }
    p->given &= ~bit("temperature");
}

static void check_image(const detr_sine *p, posenc_error *err)
{
    static const char missing[] = "MISSING_PARAMETER", also[] = "given with mask";
    const int64_t any[3] = { -1, -1, -1 };
    if (!given(p, "mask")) {
        if (!given(p, "height"))
            posenc_fail(err, PE_INVALID, missing, "height", "absent", "a value, it is required: or a mask");
        if (!given(p, "width"))
            posenc_fail(err, PE_INVALID, missing, "width", "absent", "a value, it is required: or a mask");
        if (p->mask_convention != PADDING)
            pe_not_applicable(err, "mask_convention", conventions[p->mask_convention], "padding, or a mask");
        return;
    }
    if (given(p, "height"))
        pe_not_applicable(err, "height", also, "height and width, or a mask");
    if (given(p, "width"))
        pe_not_applicable(err, "width", also, "height and width, or a mask");
    if (pe_tensor_shaped(&p->mask, p->mask.rank == 3 ? 3 : 2, any, "[H, W] or [B, H, W]", err))
        pe_tensor_integers(&p->mask, 0, 1, "0 or 1", err);
}

static void check_normalize(detr_sine *p, posenc_error *err)
{
    static const char how[] = "normalize=true, or no %s";
    if (p->normalize) {
        p->scale = given(p, "scale") ? p->scale : two_pi;
        p->given |= bit("scale");
        return;
    }
    if (given(p, "scale"))
        pe_not_applicable(err, "scale", posenc_text("%.17g", p->scale).s, how, "scale");
    if (p->eps != 1e-6)
        pe_not_applicable(err, "eps", posenc_text("%.17g", p->eps).s, how, "eps");
    if (p->offset != 0)
        pe_not_applicable(err, "offset", posenc_text("%.17g", p->offset).s, how, "offset");
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    detr_sine *p = r->params;
    if (p->num_pos_feats % 2)
        pe_invalid(err, "num_pos_feats", posenc_text("%lld", (long long)p->num_pos_feats), "an even number");
    check_temperatures(p, err);
    check_image(p, err);
    check_normalize(p, err);
    return err->status;
}

/* ---- shape and cost ---- */

typedef struct images {
    int64_t count, height, width;
} images;

static images images_of(const posenc_request *r)
{
    const detr_sine *p = r->params;
    const posenc_tensor *m = &p->mask;
    if (!pe_given(r, "mask"))
        return (images){ 1, p->height, p->width };
    return (images){ m->rank == 3 ? m->shape[0] : 1, m->shape[m->rank - 2], m->shape[m->rank - 1] };
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const detr_sine *p = r->params;
    const images m = images_of(r);
    const bool batch = pe_given(r, "mask") && p->mask.rank == 3;
    const int64_t size[4] = { m.count, 2 * p->num_pos_feats, m.height, m.width };
    return pe_output(out, "pos", (posenc_dtype)r->common.dtype, batch ? 4 : 3, batch ? size : size + 1, err);
}

/* Pixels whose channels are written together, so that each line of the cache is filled at once. */
enum { TILE = 16 };

/* Scratch: frequencies of both axes, a sinusoid of each in float64 and in the tensor's dtype, a tile, three counts a
 * column. */
static uint64_t scratch(const detr_sine *p, int64_t width)
{
    return (uint64_t)p->num_pos_feats * (sizeof(pe_dd) + (4 + TILE) * sizeof(double)) +
           3 * (uint64_t)width * sizeof(int64_t);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const detr_sine *p = r->params;
    const images m = images_of(r);
    const double n = (double)p->num_pos_feats, columns = (double)m.count * (double)m.width,
                 pixels = columns * (double)m.height;
    out->ns = 40e3 + n * (p->compute_dtype == PE_COMPUTE_FLOAT32 ? 600 : 300) + pixels * (30 + 3 * n) +
              (columns + (double)m.count * (double)m.height) * 13 * n;
    out->scratch = scratch(p, m.width);
}

/* ---- compute ---- */

/* One axis: its channels of a pixel follow from how many valid pixels come up to it, and how many there are. */
typedef struct axis {
    pe_sines s;
    pe_columns c;
    pe_dd *w;           /* (num_pos_feats / 2) */
    double *row;        /* (num_pos_feats) the last sinusoid made */
    char *rounded;      /* (num_pos_feats) the same in the tensor's dtype */
    int64_t up_to, all; /* the counts it is of; all -1: none yet */
} axis;

typedef struct maker {
    const detr_sine *p;
    bool masked;
    images m;
    posenc_dtype dtype;
    size_t element;
    pe_pace pace;
    axis y, x;
    int64_t *down, *in_column; /* (width) valid pixels of each column: down to the row being made, and in all */
    int64_t *along;            /* (width) valid pixels of the row made last, along to each column */
    char *tile;                /* (num_pos_feats, TILE) channels of neighbours, in the tensor's dtype */
} maker;

static pe_sines sines(const detr_sine *p, double temperature)
{
    return (pe_sines){
        .width = p->num_pos_feats,
        .top = temperature,
        .bottom = 1,
        .shortest = 1,
        .scale = 1,
        .single = p->compute_dtype == PE_COMPUTE_FLOAT32,
        .divide = true,
    };
}

static bool valid(const maker *k, int64_t image, int64_t row, int64_t column)
{
    return !k->masked || (posenc_tensor_get(&k->p->mask, (image * k->m.height + row) * k->m.width + column) != 0) ==
                             (k->p->mask_convention == VALID);
}

static pe_dd coordinate(const detr_sine *p, int64_t up_to, int64_t all)
{
    if (!p->normalize)
        return (pe_dd){ (double)up_to, 0 };
    if (p->compute_dtype == PE_COMPUTE_FLOAT32) {
        const float count = (float)up_to + (float)p->offset, divisor = (float)all + (float)p->eps;
        return (pe_dd){ (double)(count / divisor * (float)p->scale), 0 };
    }
    const pe_dd count = pe_two_sum((double)up_to, p->offset), divisor = pe_two_sum((double)all, p->eps);
    return pe_dd_times(pe_dd_div(count, divisor), p->scale);
}

/* a->rounded = the channels of the axis at these counts. */
static posenc_status make_axis(maker *k, axis *a, int64_t up_to, int64_t all)
{
    if (a->up_to == up_to && a->all == all)
        return PE_OK;
    posenc_status st = pe_sines_row(&a->s, &a->c, a->w, coordinate(k->p, up_to, all), a->row, &k->pace);
    posenc_convert(k->dtype, a->rounded, a->row, (size_t)k->p->num_pos_feats);
    a->up_to = up_to;
    a->all = all;
    return st;
}

/* Column `column` of the tile = the channels of the axis. */
static void put(maker *k, int column, const char *channels)
{
    const size_t n = (size_t)k->p->num_pos_feats, e = k->element;
    char *to = k->tile + (size_t)column * e;
    if (e == 4)
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * TILE * 4, channels + i * 4, 4);
    else if (e == 8)
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * TILE * 8, channels + i * 8, 8);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * TILE * 2, channels + i * 2, 2);
}

/* `pixels` elements of each channel, from planes `from_plane` bytes apart to the tensor's. */
static posenc_status write_planes(maker *k, char *to, const char *from, size_t from_plane, int pixels)
{
    enum { BLOCK = 1 << 12, STEPS = 40 }; /* about nanoseconds a plane: each is on a page of its own */
    const size_t n = (size_t)k->p->num_pos_feats, size = (size_t)pixels * k->element,
                 plane = (size_t)k->m.height * (size_t)k->m.width * k->element;
    posenc_status st = PE_OK;
    for (size_t first = 0; first < n && !st; first += BLOCK) {
        const size_t last = n - first < BLOCK ? n : first + BLOCK;
        for (size_t i = first; i < last; i++)
            memcpy(to + i * plane, from + i * from_plane, size);
        st = pe_pace_add(&k->pace, (int64_t)(last - first) * STEPS);
    }
    return st;
}

/* The channels of an axis of `pixels` neighbours with these counts; `step` 0: all of them have all[0]. */
static posenc_status make_tile(maker *k, axis *a, const int64_t *up_to, const int64_t *all, int step, int pixels, char *to)
{
    posenc_status st = PE_OK;
    for (int i = 0; i < pixels && !st; i++) {
        if ((st = make_axis(k, a, up_to[i], all[i * step])))
            return st;
        put(k, i, a->rounded);
        st = pe_pace_add(&k->pace, k->p->num_pos_feats * 2);
    }
    return st ? st : write_planes(k, to, k->tile, TILE * k->element, pixels);
}

/* One row of pixels at `to`, the element of its first pixel in channel 0. The x of a tile is that of the tile above where
 * the counts agree, and the y of a pixel that of its neighbour: in a rectangle each sinusoid is computed once. */
static posenc_status make_row(maker *k, int64_t image, int64_t row, int64_t above_all, int64_t *all, char *to)
{
    const size_t row_size = (size_t)k->m.width * k->element, plane = (size_t)k->m.height * row_size;
    int64_t along = 0;
    posenc_status st = PE_OK;
    *all = 0;
    for (int64_t c = 0; c < k->m.width && !st; c++) {
        *all += valid(k, image, row, c);
        st = pe_pace_add(&k->pace, 8);
    }
    for (int64_t c = 0; c < k->m.width && !st; c += TILE, to += TILE * k->element) {
        const int pixels = k->m.width - c < TILE ? (int)(k->m.width - c) : TILE;
        char *x = to + (size_t)k->p->num_pos_feats * plane;
        bool same = row && above_all == *all;
        for (int64_t i = c; i < c + pixels; i++) {
            const bool here = valid(k, image, row, i);
            k->down[i] += here;
            along += here;
            same = same && k->along[i] == along;
            k->along[i] = along;
        }
        st = make_tile(k, &k->y, k->down + c, k->in_column + c, 1, pixels, to);
        if (!st && same)
            st = write_planes(k, x, x - row_size, plane, pixels);
        else if (!st)
            st = make_tile(k, &k->x, k->along + c, all, 0, pixels, x);
    }
    return st;
}

static posenc_status make_image(maker *k, int64_t image, char *to)
{
    const size_t row_size = (size_t)k->m.width * k->element;
    int64_t above_all = 0;
    posenc_status st = PE_OK;
    for (int64_t c = 0; c < k->m.width && !st; c++) {
        k->down[c] = k->in_column[c] = 0;
        st = pe_pace_add(&k->pace, 4);
    }
    for (int64_t r = 0; r < k->m.height; r++)
        for (int64_t c = 0; c < k->m.width && !st; c++) {
            k->in_column[c] += valid(k, image, r, c);
            st = pe_pace_add(&k->pace, 8);
        }
    for (int64_t r = 0; r < k->m.height && !st; r++)
        st = make_row(k, image, r, above_all, &above_all, to + (size_t)r * row_size);
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const detr_sine *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "pos");
    const size_t n = (size_t)p->num_pos_feats;
    maker k = { .p = p,
                .masked = pe_given(r, "mask"),
                .m = images_of(r),
                .dtype = dst->dtype,
                .element = posenc_dtype_size(dst->dtype),
                .pace = { .ctx = ctx },
                .y = { .s = sines(p, p->temperature_height), .all = -1 },
                .x = { .s = sines(p, p->temperature_width), .all = -1 } };
    if (!posenc_tensor_count(dst))
        return PE_OK;
    pe_dd *w = malloc(scratch(p, k.m.width));
    if (!w)
        return pe_no_memory("memory", err);
    double *row = (double *)(w + n);
    k.y.w = w;
    k.x.w = w + n / 2;
    k.y.row = row;
    k.x.row = row + n;
    k.y.rounded = (char *)(row + 2 * n);
    k.x.rounded = (char *)(row + 3 * n);
    k.down = (int64_t *)(row + 4 * n);
    k.in_column = k.down + k.m.width;
    k.along = k.in_column + k.m.width;
    k.tile = (char *)(k.along + k.m.width);
    k.y.c = pe_sines_columns(&k.y.s);
    k.x.c = pe_sines_columns(&k.x.s);

    const size_t image_size = 2 * n * (size_t)k.m.height * (size_t)k.m.width * k.element;
    posenc_status st = pe_sines_frequencies(&k.y.s, k.y.w, ctx);
    st = st ? st : pe_sines_frequencies(&k.x.s, k.x.w, ctx);
    st = st ? st : pe_pace_touch(&k.pace, dst->data, posenc_tensor_size(dst));
    for (int64_t i = 0; i < k.m.count && !st; i++)
        st = make_image(&k, i, (char *)dst->data + (size_t)i * image_size);
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_detr_sine = {
    .name = "detr_sine",
    .family = "grid",
    .title = "sine and cosine of the valid pixels of an image, as in DETR",
    .source = "Carion et al. 2020, End-to-end object detection with transformers, arXiv:2005.12872, PositionEmbeddingSine",
    .formula = "y, x = valid pixels up to and with this one, down its column and along its row (from 1)\n"
               "normalize: y = (y + offset) / (y of the last row + eps) * scale, x likewise with the last column\n"
               "pos[2i] = sin(y / temperature_height^(2i / num_pos_feats)), pos[2i + 1] = cos of the same; then x",
    .example = "num_pos_feats=4&normalize=true&mask_convention=valid&mask=[[1,1,0],[1,1,0],[0,0,0]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(detr_sine, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
