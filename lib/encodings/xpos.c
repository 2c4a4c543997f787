/* xpos.c - rotary positions whose pairs also grow or shrink with the position, so that scores decay with distance.
 *
 *     zeta[j]  = (2j + 0.4 d) / (1.4 d)                                    j = 0 .. d/2 - 1
 *     scale    = zeta[j]^((p - centre) / scale_base), its inverse for keys (downscale)
 *     cos, sin = scale * cos(p theta^(-2j/d)), scale * sin(p theta^(-2j/d))
 *
 * d = head_dim. The centre cancels between queries and keys, if both use the same.
 * Source: Sun et al. 2022, A length-extrapolatable transformer, arXiv:2212.10554, section 3; torchscale's XPOS. */
#include "core/elementary.h"
#include "sequence/rotary.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_xpos;

/* ---- rows ---- */

enum { TORCHSCALE, MAX_POSITION, LENGTH, NONE };
static const char *const centrings[] = { "torchscale", "max_position", "length", "none", NULL };

typedef struct xpos {
    posenc_given given;
    int64_t head_dim;
    double rope_theta, scale_base;
    int64_t length, offset;
    posenc_reals positions;
    bool downscale;
    int centering, layout;
    posenc_tensor x;
} xpos;

static const posenc_param rows[] = {
    { PE_INT(xpos, head_dim), .flags = PE_REQUIRED, .min = 2, .max = PE_ROPE_MAX_WIDTH, .doc = "channels of a head, even" },
    { PE_REAL(xpos, rope_theta), .def = 10000, .min = 1e-30, .max = 1e30, .doc = "base of the frequencies" },
    { PE_REAL(xpos, scale_base), .def = 512, .min = 1e-9, .max = 1e18,
      .doc = "positions over which a pair scales by its zeta" },
    { PE_INT(xpos, length), .flags = PE_OPTIONAL, .max = 1e15,
      .doc = "how many positions; when absent, those of x; or positions" },
    { PE_INT(xpos, offset), .min = 0, .max = 1e15, .doc = "the first of `length` positions" },
    { PE_REALS(xpos, positions), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53,
      .doc = "the positions themselves, instead of length and offset" },
    { PE_BOOL(xpos, downscale), .doc = "inverse scale: for keys" },
    { PE_ENUM(xpos, centering), .names = centrings, .def = TORCHSCALE,
      .doc = "position of scale 1, m the largest + 1: torchscale ceil(m / 2); max_position floor(m / 2) (x-transformers); "
             "length floor(positions / 2), whatever their offset (rotary-embedding-torch); none 0" },
    { PE_ENUM(xpos, layout), .names = pe_rope_layouts, .def = PE_ROPE_INTERLEAVED,
      .doc =
          "which channels turn together: interleaved (torchscale, x-transformers), half, or each pair once in the tables" },
    { PE_TENSOR(xpos, x), .flags = PE_OPTIONAL,
      .doc = "queries or keys to turn and scale: [N, head_dim], [heads, N, head_dim], or with a batch in front" },
};

static const posenc_output outputs[] = {
    { .name = "x", .shape = "the shape of x", .doc = "x, turned and scaled" },
    { .name = "scale", .shape = "[head_dim / 2]", .doc = "zeta of each pair" },
    { .name = "scales", .shape = "[N, head_dim / 2]", .doc = "the scale of each position and pair" },
    { .name = "cos", .shape = "[N, columns]", .doc = "cosines times scale; columns: head_dim, or head_dim / 2 where once" },
    { .name = "sin", .shape = "[N, columns]", .doc = "sines times scale" },
};

/* ---- rules ---- */

static int64_t count(const posenc_request *r, const xpos *p)
{
    return pe_given(r, "positions") ? (int64_t)p->positions.n : p->length;
}

static double place(const posenc_request *r, const xpos *p, int64_t i)
{
    return pe_given(r, "positions") ? p->positions.v[i] : (double)(p->offset + i);
}

/* The largest position + 1. */
static double end_of(const xpos *p)
{
    double last = (double)(p->offset + p->length - 1);
    for (size_t i = 0; i < p->positions.n; i++)
        last = i && p->positions.v[i] < last ? last : p->positions.v[i];
    return last + 1;
}

static double centre(const posenc_request *r, const xpos *p)
{
    switch (p->centering) {
    case TORCHSCALE: return ceil(end_of(p) / 2);
    case MAX_POSITION: return floor(end_of(p) / 2);
    case LENGTH: return (double)(count(r, p) / 2);
    default: return 0;
    }
}

/* ln of the largest scale, of either sign: zeta[0] = 2/7 is the furthest from 1. */
static double largest(const posenc_request *r, const xpos *p)
{
    const double middle = centre(r, p);
    double most = 0;
    for (size_t i = 0; i < p->positions.n; i++)
        most = pe_max(most, fabs(p->positions.v[i] - middle));
    if (!pe_given(r, "positions") && p->length) /* the ends of a range */
        most = pe_max(fabs((double)p->offset - middle), fabs((double)(p->offset + p->length - 1) - middle));
    return most / p->scale_base * 1.252762968495368; /* ln(7/2) */
}

/* The last but one axis of x says how many positions there are. */
static void derive_length(posenc_request *r, xpos *p)
{
    const bool possible = pe_given(r, "x") && p->x.rank >= 2 && !pe_given(r, "length") && !pe_given(r, "positions");
    if (!possible)
        return;
    p->length = p->x.shape[p->x.rank - 2];
    pe_mark(r, "length", true);
}

static void check_x(const posenc_request *r, const xpos *p, double ln, posenc_error *err)
{
    const double most = pe_rope_most((posenc_dtype)r->common.dtype, false, pe_exp(ln));
    if (pe_given(r, "x") && pe_rope_heads(&p->x, PE_HEAD_POSITION_DIM, NULL, count(r, p), p->head_dim, err))
        pe_tensor_within(&p->x, -most, most, posenc_text("at most %.3g, so that the result is finite", most).s, err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    xpos *p = r->params;
    const int dtype = r->common.dtype;
    const double limit = dtype == PE_float16   ? 11
                         : dtype == PE_float64 ? 690
                                               : 88,
                 most = dtype == PE_float16 ? 65504 : 3e38;
    derive_length(r, p);
    if (p->head_dim % 2)
        pe_invalid(err, "head_dim", posenc_text("%lld", (long long)p->head_dim), "an even width, such as %lld",
                   (long long)p->head_dim + 1);
    if (!pe_given(r, "length") && !pe_given(r, "positions"))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "length", "absent",
                    "a value, it is required: length, positions or x");
    if (pe_given(r, "length") && pe_given(r, "positions"))
        pe_not_applicable(err, "positions", "given with length", "one of the two");
    if (p->offset && pe_given(r, "positions"))
        pe_not_applicable(err, "offset", posenc_text("%lld", (long long)p->offset).s, "0, or length");
    if (err->n)
        return err->status;
    const double ln = count(r, p) ? largest(r, p) : 0;
    if (ln > limit)
        pe_invalid(err, "scale_base", posenc_text("%.17g", p->scale_base),
                   "at least %.6g, so that every scale is a finite %s", p->scale_base * ln / limit,
                   posenc_dtype_name((posenc_dtype)dtype));
    else
        check_x(r, p, ln, err);
    if (p->rope_theta < 1 && 1 / p->rope_theta > most && dtype != PE_float64)
        pe_invalid(err, "rope_theta", posenc_text("%.17g", p->rope_theta), "at least %.3g", 1 / most);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const xpos *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const int64_t pairs = p->head_dim / 2, n = count(r, p),
                  columns = pe_rope_columns((pe_rope_layout)p->layout, (size_t)pairs);
    posenc_status st = PE_OK;
    if (pe_given(r, "x"))
        st = pe_output(out, "x", dtype, p->x.rank, p->x.shape, err);
    st = st ? st : pe_output(out, "scale", dtype, 1, &pairs, err);
    st = st ? st : pe_output(out, "scales", dtype, 2, (int64_t[]){ n, pairs }, err);
    st = st ? st : pe_output(out, "cos", dtype, 2, (int64_t[]){ n, columns }, err);
    return st ? st : pe_output(out, "sin", dtype, 2, (int64_t[]){ n, columns }, err);
}

/* Frequencies and ln zeta; cosines, sines and scales of a position, a row; a vector before and after. */
static uint64_t scratch(const xpos *p)
{
    const uint64_t n = (uint64_t)p->head_dim / 2;
    return n * (2 * sizeof(pe_dd) + 5 * sizeof(double)) + 4 * n * sizeof(double);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const xpos *p = r->params;
    const double n = (double)count(r, p), pairs = (double)p->head_dim / 2;
    out->ns = 20e3 + 3000 * pairs + n * (100 + 900 * pairs) +
              (pe_given(r, "x") ? 10 * (double)posenc_tensor_count(&p->x) : 0);
    out->scratch = scratch(p);
}

/* ---- compute ---- */

typedef struct work {
    const xpos *p;
    pe_rope_turner turner;
    double middle;
    pe_dd *w, *ln;         /* (pairs) */
    double *c, *s, *scale; /* (pairs) */
    double *row, *before, *after;
    pe_pace pace;
} work;

static void write_row(posenc_tensor *to, int64_t index, const double *row, size_t n)
{
    posenc_convert(to->dtype, (char *)to->data + (size_t)index * n * posenc_dtype_size(to->dtype), row, n);
}

/* Scaled cosines and sines of a position. */
static posenc_status turn(work *t, double position)
{
    const size_t n = t->turner.pairs;
    const pe_dd steps = pe_dd_div(pe_two_sum(position, -t->middle), (pe_dd){ t->p->scale_base, 0 });
    posenc_status st = pe_rope_turn(t->w, n, position, (pe_dd){ 1, 0 }, false, t->c, t->s, &t->pace);
    for (size_t j = 0; j < n && !st; j++) {
        pe_dd e = pe_dd_mul(t->ln[j], steps);
        if (t->p->downscale)
            e = pe_dd_neg(e);
        const pe_dd scale = pe_dd_exp(e);
        t->scale[j] = scale.hi;
        t->c[j] = pe_dd_times(scale, t->c[j]).hi;
        t->s[j] = pe_dd_times(scale, t->s[j]).hi;
        st = pe_pace_add(&t->pace, 900);
    }
    return st;
}

static posenc_status turn_heads(work *t, posenc_tensor *to, int64_t i)
{
    const posenc_tensor *from = &t->p->x;
    const pe_rope_axes a = pe_rope_axes_of(from, PE_HEAD_POSITION_DIM);
    const size_t d = t->turner.head_dim;
    posenc_status st = PE_OK;
    for (int64_t h = 0; h < a.batch * a.heads && !st; h++) {
        const int64_t vector = h * a.positions + i;
        pe_rope_turn_vector(&t->turner, t->c, t->s, t->c, t->s, from, to, vector, t->before, t->after);
        st = pe_pace_add(&t->pace, 50 + 3 * (int64_t)d);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const xpos *p = r->params;
    const size_t d = (size_t)p->head_dim, n = d / 2;
    const pe_rope_layout layout = (pe_rope_layout)p->layout;
    const size_t columns = (size_t)pe_rope_columns(layout, n);
    const pe_ladder ladder = { .gain = { 1, 0 }, .top = p->rope_theta, .bottom = 1, .steps = { (double)n, 0 } };
    pe_dd *w = malloc(scratch(p));
    if (!w)
        return pe_no_memory("memory", err);
    double *v = (double *)(w + 2 * n);
    work t = {
        .p = p,
        .turner = { .head_dim = d, .pairs = n, .in = layout, .out = layout },
        .middle = centre(r, p),
        .w = w,
        .ln = w + n,
        .c = v,
        .s = v + n,
        .scale = v + 2 * n,
        .row = v + 3 * n,
        .before = v + 5 * n,
        .after = v + 7 * n,
        .pace = { .ctx = ctx },
    };
    posenc_status st = pe_frequencies(&ladder, n, w, ctx);
    for (size_t j = 0; j < n && !st; j++) { /* (2j + 0.4 d) / (1.4 d), in whole numbers */
        const pe_dd zeta = pe_dd_div((pe_dd){ 10 * (double)j + 2 * (double)d, 0 }, (pe_dd){ 7 * (double)d, 0 });
        t.row[j] = zeta.hi;
        t.ln[j] = pe_dd_log(zeta);
        st = pe_pace_add(&t.pace, 2000);
    }
    if (!st)
        write_row(pe_tensor(out, "scale"), 0, t.row, n);
    for (int64_t i = 0, end = count(r, p); i < end && !st; i++) {
        if ((st = turn(&t, place(r, p, i))))
            break;
        write_row(pe_tensor(out, "scales"), i, t.scale, n);
        pe_rope_lay(layout, n, t.c, t.row);
        write_row(pe_tensor(out, "cos"), i, t.row, columns);
        pe_rope_lay(layout, n, t.s, t.row);
        write_row(pe_tensor(out, "sin"), i, t.row, columns);
        if (pe_given(r, "x"))
            st = turn_heads(&t, pe_tensor(out, "x"), i);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_xpos = {
    .name = "xpos",
    .family = "rotary",
    .title = "rotary positions with a scale that decays over distance",
    .source = "Sun et al. 2022, A length-extrapolatable transformer, arXiv:2212.10554, section 3; torchscale, XPOS",
    .formula =
        "zeta[j] = (2j + 0.4 d) / (1.4 d), d = head_dim; scales = zeta[j]^((p - centre) / scale_base), its inverse with\n"
        "downscale; cos, sin = scales cos(p rope_theta^(-2j/d)), scales sin(p rope_theta^(-2j/d))",
    .example = "head_dim=8&length=4",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(xpos, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
