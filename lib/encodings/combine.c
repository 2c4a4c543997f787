/* combine.c - how an encoding meets the embedding of a token.
 *
 *     e' = s * widened(encoding)
 *     add               combined = embedding + e'                               [..., d]
 *     concat            combined = embedding, e'                                [..., d + e]
 *     concat_project    combined[o] = sum over i of projection[o][i] * (embedding, e')[i]
 *
 * s = scale, or with match_rms the root mean square of all elements of the embedding divided by that of the encoding (as
 * it is added: after a projection; zeros that only fill up do not count). For mode=add the encoding must be as wide as the
 * embedding; a narrower one is widened only by what is asked for: projection [d, e], or zero_pad, which appends zeros.
 * The encoding's leading axes are broadcast to the embedding's, as NumPy does: [N, e] is added to each of [B, N, d].
 * Source: adding, Vaswani et al. 2017, arXiv:1706.03762, section 3.5; concatenating, as many vision models do; this
 * file decides what is scaled and what is counted. Products and sums are in double-double, rounded once. */
#include "core/exact.h"
#include "core/lanes.h"
#include "core/pace.h"
#include "core/params.h"
#include "core/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_combine;

/* ---- rows ---- */

enum { ADD, CONCAT, CONCAT_PROJECT };
static const char *const modes[] = { "add", "concat", "concat_project", NULL };

#define LARGEST 1e60 /* of elements: no product of four overflows */

typedef struct combine {
    posenc_given given;
    int mode;
    posenc_tensor embedding, encoding, projection;
    double scale;
    bool match_rms, zero_pad;
} combine;

static const posenc_param rows[] = {
    { PE_ENUM(combine, mode), .flags = PE_SELECTOR, .names = modes, .def = ADD,
      .doc = "add the encoding; put it behind the embedding; or that, and a projection of both" },
    { PE_TENSOR(combine, embedding), .flags = PE_REQUIRED, .doc = "of tokens, [..., d]" },
    { PE_TENSOR(combine, encoding), .flags = PE_REQUIRED,
      .doc = "of positions, [..., e]; its leading axes are broadcast to those of embedding: [N, e] over [B, N, d]" },
    { PE_TENSOR(combine, projection), .flags = PE_OPTIONAL, .when = PE_ON(ADD) | PE_ON(CONCAT_PROJECT),
      .doc =
          "rows of outputs, as the weight of a linear layer: [d, e] with mode=add, which takes the encoding to the width of "
          "the embedding; [any, d + e] with mode=concat_project" },
    { PE_REAL(combine, scale), .def = 1, .min = -LARGEST, .max = LARGEST, .doc = "multiplies the encoding" },
    { PE_BOOL(combine, match_rms),
      .doc = "instead of scale: the factor that gives the encoding the root mean square of the embedding" },
    { PE_BOOL(combine, zero_pad), .when = PE_ON(ADD),
      .doc = "a narrower encoding may be filled up with zeros; otherwise it is an error" },
};

static const posenc_output outputs[] = {
    { "combined", "[..., d], [..., d + e] with concat, [..., rows of projection] with concat_project",
      "the axes of embedding, and the new width", NULL },
    { "applied_scale", "[1]", "the factor that the encoding was multiplied by", "float64" },
};

/* ---- rules ---- */

static int64_t last_axis(const posenc_tensor *t) { return t->shape[t->rank - 1]; }
static int64_t vectors(const posenc_tensor *t) /* of the last axis */
{
    int64_t n = 1;
    for (int i = 0; i < t->rank - 1; i++)
        n *= t->shape[i];
    return n;
}

static bool check_tensor(const posenc_tensor *t, posenc_error *err)
{
    if (t->rank == 0 || last_axis(t) == 0)
        return pe_tensor_shaped(t, -1, NULL, "[..., width], width over 0", err);
    return pe_tensor_within(t, -LARGEST, LARGEST, "at most 1e60 in magnitude", err);
}

/* Whether each leading axis of the encoding is 1 or the embedding's. */
static bool broadcasts(const posenc_tensor *from, const posenc_tensor *to)
{
    const int skip = to->rank - from->rank;
    for (int i = 0; skip >= 0 && i < from->rank - 1; i++)
        if (from->shape[i] != 1 && from->shape[i] != to->shape[skip + i])
            return false;
    return skip >= 0;
}

static void check_width(const posenc_request *r, posenc_error *err)
{
    const combine *p = r->params;
    const int64_t d = last_axis(&p->embedding), e = last_axis(&p->encoding);
    const bool projected = pe_given(r, "projection");
    if (p->mode == CONCAT_PROJECT && !projected)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "projection", "absent",
                    "a value, it is required with mode=concat_project: [any, %lld]", (long long)(d + e));
    if (projected) {
        const int64_t want[2] = { p->mode == ADD ? d : -1, p->mode == ADD ? e : d + e };
        const posenc_short words = p->mode == ADD ? posenc_text("[%lld, %lld]", (long long)d, (long long)e)
                                                  : posenc_text("[any, %lld]", (long long)(d + e));
        if (pe_tensor_shaped(&p->projection, 2, want, words.s, err))
            check_tensor(&p->projection, err);
        if (p->projection.rank == 2 && p->projection.shape[0] == 0)
            pe_invalid(err, "projection", posenc_text("no rows"), "at least one");
    }
    if (projected && p->zero_pad)
        pe_not_applicable(err, "zero_pad", "true", "false with a projection: one way of widening");
    if (p->mode == ADD && !projected && (e > d || (e < d && !p->zero_pad)))
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "encoding", posenc_text("width %lld", (long long)e).s,
                    "width %lld as embedding has, %sor a projection [%lld, %lld]", (long long)d,
                    e < d ? "or zero_pad=true, " : "", (long long)d, (long long)e);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const combine *p = r->params;
    const bool sound = check_tensor(&p->embedding, err);
    if (p->match_rms && p->scale != 1)
        pe_not_applicable(err, "scale", posenc_text("%.17g", p->scale).s, "1 with match_rms, which finds the factor itself");
    if (!check_tensor(&p->encoding, err) || !sound)
        return err->status;
    if (!broadcasts(&p->encoding, &p->embedding))
        pe_tensor_shaped(&p->encoding, -1, NULL, "[..., e] whose leading axes are 1 or those of embedding, from the right",
                         err);
    check_width(r, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const combine *p = r->params;
    const posenc_tensor *t = &p->embedding;
    int64_t size[PE_MAX_RANK];
    memcpy(size, t->shape, (size_t)t->rank * sizeof *size);
    if (p->mode == CONCAT)
        size[t->rank - 1] += last_axis(&p->encoding);
    else if (p->mode == CONCAT_PROJECT)
        size[t->rank - 1] = p->projection.shape[0];
    posenc_status st = pe_output(out, "combined", (posenc_dtype)r->common.dtype, t->rank, size, err);
    return st ? st : pe_output(out, "applied_scale", PE_float64, 1, (int64_t[]){ 1 }, err);
}

/* Of the encoding as it is added. */
static int64_t added_width(const posenc_request *r)
{
    const combine *p = r->params;
    return p->mode == ADD && pe_given(r, "projection") ? p->projection.shape[0] : last_axis(&p->encoding);
}

static bool projects(const posenc_request *r) /* the encoding alone */
{
    return ((const combine *)r->params)->mode == ADD && pe_given(r, "projection");
}

/* float64 numbers that compute holds: the projection, the projected encoding (in double-double), one token and a row. */
static uint64_t scratch(const posenc_request *r)
{
    const combine *p = r->params;
    const uint64_t d = (uint64_t)last_axis(&p->embedding), e = (uint64_t)last_axis(&p->encoding);
    const uint64_t held = projects(r) ? (uint64_t)(vectors(&p->encoding) + 1) * (uint64_t)added_width(r) : d + e;
    return 8 * ((pe_given(r, "projection") ? (uint64_t)posenc_tensor_count(&p->projection) : 0) + 2 * held + 3 * (d + e) +
                (uint64_t)last_axis(&r->shape.tensor[0]));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const combine *p = r->params;
    const double n = (double)vectors(&p->embedding), elements = (double)posenc_tensor_count(&r->shape.tensor[0]),
                 sources = (double)posenc_tensor_count(&p->embedding) + (double)posenc_tensor_count(&p->encoding);
    const double products = !pe_given(r, "projection") ? 0
                            : projects(r) ? (double)posenc_tensor_count(&p->projection) * (double)vectors(&p->encoding)
                                          : (double)posenc_tensor_count(&p->projection) * n;
    *out = (posenc_cost){ .ns = 2000 + 60 * n + (pe_given(r, "projection") ? 6 : 2) * elements + 8 * products + 2 * sources,
                          .scratch = scratch(r) };
}

/* ---- compute ---- */

typedef struct work {
    const combine *p;
    size_t d, e, added;       /* widths: embedding, encoding, encoding as it is added */
    const double *projection; /* NULL: none */
    pe_dd *projected;         /* (vectors of encoding, added), with mode=add and a projection; otherwise NULL */
    pe_dd *both;              /* (d + e) the token, and behind it the encoding */
    pe_dd *to;                /* (added) the encoding as it is added */
    double *token, *plain;    /* (d), (e): what a vector is read into */
    double *row;              /* of the result */
    pe_pace pace;
} work;

static void read_vector(const posenc_tensor *t, int64_t i, double *plain, pe_dd *out)
{
    const int64_t n = last_axis(t);
    pe_tensor_read(t, i * n, (size_t)n, plain);
    for (int64_t k = 0; k < n; k++)
        out[k] = (pe_dd){ plain[k], 0 };
}

/* out[k] = (x[k] + f y[k]).hi, or (f y[k]).hi, by pe_dd_times and pe_dd_add, lane by lane: rounded twice at the most, the
 * first time to 100 bits. `narrow`: y has at most 26 bits, so that it need not be split. */
PE_BODY void scaled_lanes(const pe_lanes *y, double f, const pe_dd *parts, bool narrow, pe_lanes *hi, pe_lanes *lo)
{
    const pe_lanes p = *y * f;
    pe_lanes rest;
    if (narrow) {
        rest = (*y * parts->hi - p) + *y * parts->lo;
    } else {
        const pe_lanes t = 0x1.0000002p27 * *y, top = t - (t - *y), low = *y - top;
        rest = ((top * parts->hi - p) + top * parts->lo + low * parts->hi) + low * parts->lo;
    }
    *hi = p; /* rounded to nearest already: pe_fast_two_sum would leave it */
    *lo = rest;
}

PE_BODY void add_scaled_body(const double *x, const double *y, double f, bool narrow, size_t n, double *out)
{
    const pe_dd parts = pe_split(f);
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        pe_lanes a = { 0 }, b = { 0 }, hi, lo;
        pe_load_some(&a, x + i, m);
        pe_load_some(&b, y + i, m);
        scaled_lanes(&b, f, &parts, narrow, &hi, &lo);
        const pe_lanes s = a + hi, t = s - a, e = (a - (s - t)) + (hi - t); /* two_sum */
        const pe_lanes r = s + (e + lo);
        pe_store_some(out + i, &r, m);
    }
}

PE_KERNEL(add_scaled, add_scaled_body, (const double *x, const double *y, double f, bool narrow, size_t n, double *out),
          (x, y, f, narrow, n, out))

/* Adds the squares of n numbers to eight sums in double-double, number k to sum k mod 8. */
PE_BODY void squares_body(const double *x, size_t n, bool narrow, double *hi, double *lo)
{
    pe_lanes h, l;
    PE_LOAD(h, hi, PE_LANES);
    PE_LOAD(l, lo, PE_LANES);
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        pe_lanes v = { 0 };
        pe_load_some(&v, x + i, m);
        const pe_lanes p = v * v;
        if (!narrow) {
            const pe_lanes t = 0x1.0000002p27 * v, top = t - (t - v), low = v - top;
            l += ((top * top - p) + 2 * (top * low)) + low * low;
        }
        const pe_lanes s = h + p, t = s - h;
        l += (h - (s - t)) + (p - t);
        h = s;
    }
    PE_STORE(hi, h, PE_LANES);
    PE_STORE(lo, l, PE_LANES);
}

PE_KERNEL(squares, squares_body, (const double *x, size_t n, bool narrow, double *hi, double *lo), (x, n, narrow, hi, lo))

/* Whether every element has at most 26 bits. */
static bool narrow(const posenc_tensor *t) { return t->dtype != PE_float64 && t->dtype != PE_int32 && t->dtype != PE_int64; }

/* The sum over i of projection[o][i] x[i], i ascending. */
static pe_dd project(const work *w, size_t o, const pe_dd *x, size_t in)
{
    const double *row = w->projection + o * in;
    pe_dd sum = pe_dd_times(x[0], row[0]);
    for (size_t i = 1; i < in; i++)
        sum = pe_dd_add(sum, pe_dd_times(x[i], row[i]));
    return sum;
}

static posenc_status project_all(work *w)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0, n = vectors(&w->p->encoding); i < n && !st; i++) {
        read_vector(&w->p->encoding, i, w->plain, w->both);
        for (size_t o = 0; o < w->added && !st; o++) {
            w->projected[(size_t)i * w->added + o] = project(w, o, w->both, w->e);
            st = pe_pace_add(&w->pace, (int64_t)w->e * 10);
        }
    }
    return st;
}

/* w->to = vector number i of the encoding, as it is added. */
static void encoding_vector(work *w, int64_t i)
{
    if (w->projected)
        memcpy(w->to, w->projected + (size_t)i * w->added, w->added * sizeof *w->to);
    else
        read_vector(&w->p->encoding, i, w->plain, w->to);
}

/* Which vector of the encoding meets vector i of the embedding. */
static int64_t partner(const combine *p, int64_t i)
{
    const posenc_tensor *from = &p->encoding, *to = &p->embedding;
    int64_t at = 0, step = 1;
    for (int k = 2; k <= from->rank; k++) {
        const int64_t size = to->shape[to->rank - k], own = from->shape[from->rank - k];
        at += own == 1 ? 0 : i % size * step;
        step *= own;
        i /= size;
    }
    return at;
}

/* The sum of the squares of every element. */
static posenc_status sum_squares(work *w, const posenc_tensor *t, pe_dd *sum)
{
    enum { BLOCK = 512 };
    double v[BLOCK], hi[PE_LANES] = { 0 }, lo[PE_LANES] = { 0 };
    posenc_status st = PE_OK;
    for (int64_t i = 0, n = posenc_tensor_count(t); i < n && !st; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        pe_tensor_read(t, i, (size_t)m, v);
        squares_paths[pe_simd()](v, (size_t)m, narrow(t), hi, lo);
        st = pe_pace_add(&w->pace, 2 * m + 20);
    }
    *sum = (pe_dd){ 0, 0 };
    for (int l = 0; l < PE_LANES; l++)
        *sum = pe_dd_add(*sum, pe_two_sum(hi[l], lo[l]));
    return st;
}

static posenc_status sum_projected(work *w, int64_t vectors, pe_dd *sum)
{
    posenc_status st = PE_OK;
    *sum = (pe_dd){ 0, 0 };
    for (int64_t i = 0; i < vectors && !st; i++) {
        const pe_dd *x = w->projected + (size_t)i * w->added;
        for (size_t k = 0; k < w->added; k++)
            *sum = pe_dd_add(*sum, pe_dd_mul(x[k], x[k]));
        st = pe_pace_add(&w->pace, (int64_t)w->added * 15);
    }
    return st;
}

/* The factor of match_rms; 1 where there is nothing to match. */
static posenc_status match(work *w, double *factor, posenc_error *err)
{
    const combine *p = w->p;
    const int64_t n = vectors(&p->embedding), m = vectors(&p->encoding);
    pe_dd tokens, encodings = { 0, 0 };
    posenc_status st = sum_squares(w, &p->embedding, &tokens);
    if (!st)
        st = w->projected ? sum_projected(w, m, &encodings) : sum_squares(w, &p->encoding, &encodings);
    *factor = 1;
    if (st || !n || !m)
        return st;
    const double own = sqrt(encodings.hi / ((double)m * (double)w->added));
    const double ratio = sqrt(tokens.hi / ((double)n * (double)w->d)) / own;
    if (!(own > 0) || !(ratio <= LARGEST))
        return pe_invalid(
            err, "match_rms", posenc_text("true"),
            "false: the encoding's root mean square is %.3g, which no factor up to 1e60 brings to the embedding's", own);
    *factor = ratio;
    return PE_OK;
}

/* w->row = the result for token i, where no projection is in the way. */
static posenc_status make_plain_row(work *w, int64_t i, double factor)
{
    const combine *p = w->p;
    const bool adds = p->mode == ADD, few = narrow(&p->encoding);
    pe_tensor_read(&p->encoding, partner(p, i) * (int64_t)w->e, w->e, w->plain);
    pe_tensor_read(&p->embedding, i * (int64_t)w->d, w->d, w->row);
    if (adds)
        add_scaled_paths[pe_simd()](w->row, w->plain, factor, few, w->e, w->row);
    else
        for (size_t k = 0; k < w->e; k++)
            w->row[w->d + k] = w->plain[k] * factor; /* rounded as pe_dd_times is */
    return pe_pace_add(&w->pace, (int64_t)(w->d + w->e) * 2 + 60);
}

/* The same, in double-double. */
static posenc_status make_row(work *w, int64_t i, double factor)
{
    const combine *p = w->p;
    posenc_status st = PE_OK;
    read_vector(&p->embedding, i, w->token, w->both);
    encoding_vector(w, partner(p, i));
    for (size_t k = 0; k < w->added; k++)
        w->to[k] = pe_dd_times(w->to[k], factor);
    if (p->mode == ADD) {
        for (size_t k = 0; k < w->d; k++)
            w->row[k] = k < w->added ? pe_dd_add(w->both[k], w->to[k]).hi : w->both[k].hi;
        return pe_pace_add(&w->pace, (int64_t)w->d * 12 + 60);
    }
    memcpy(w->both + w->d, w->to, w->e * sizeof *w->to);
    for (size_t o = 0; o < (size_t)p->projection.shape[0] && !st; o++) {
        w->row[o] = project(w, o, w->both, w->d + w->e).hi;
        st = pe_pace_add(&w->pace, (int64_t)(w->d + w->e) * 10);
    }
    return st;
}

/* What was done to the encoding without a number of the request saying so. */
static void say(const work *w, double factor, posenc_result *out)
{
    if (w->projected)
        pe_warn(out, "the encoding was projected from width %zu to %zu", w->e, w->added);
    else if (w->p->mode == ADD && w->e < w->d)
        pe_warn(out, "the encoding of width %zu was filled up with zeros to %zu", w->e, w->d);
    else if (w->p->mode == CONCAT_PROJECT)
        pe_warn(out, "embedding and encoding were projected together from width %zu to %lld", w->d + w->e,
                (long long)w->p->projection.shape[0]);
    if (w->p->match_rms)
        pe_warn(out, "the encoding was multiplied by %.17g, which gives it the root mean square of the embedding", factor);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const combine *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "combined");
    const int64_t n = vectors(&p->embedding), width = last_axis(dst);
    work w = { .p = p,
               .d = (size_t)last_axis(&p->embedding),
               .e = (size_t)last_axis(&p->encoding),
               .added = (size_t)added_width(r),
               .pace = { .ctx = ctx } };
    pe_dd *memory = malloc(scratch(r));
    if (!memory)
        return pe_no_memory("memory", err);
    w.both = memory;
    w.to = w.both + w.d + w.e;
    if (projects(r))
        w.projected = w.to + w.added;
    double *projection = (double *)(projects(r) ? w.projected + (size_t)vectors(&p->encoding) * w.added : w.to + w.d + w.e);
    w.token = projection;
    w.plain = w.token + w.d;
    w.row = projection = w.plain + w.e;

    posenc_status st = PE_OK;
    if (pe_given(r, "projection")) {
        st = pe_tensor_doubles(&p->projection, projection, &w.pace);
        w.projection = projection;
        w.row = projection + posenc_tensor_count(&p->projection);
    }
    double factor = p->scale;
    if (!st && projects(r))
        st = project_all(&w);
    if (!st && p->match_rms)
        st = match(&w, &factor, err);
    for (int64_t i = 0; i < n && !st; i++) {
        st = w.projection ? make_row(&w, i, factor) : make_plain_row(&w, i, factor);
        if (!st)
            st = pe_store(dst, i * width, w.row, (size_t)width, err);
    }
    if (!st) {
        *(double *)pe_tensor(out, "applied_scale")->data = factor;
        say(&w, factor, out);
    }
    free(memory);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_combine = {
    .name = "combine",
    .family = "use",
    .title = "an encoding added to an embedding, or put behind it",
    .source = "Vaswani et al. 2017, Attention is all you need, arXiv:1706.03762, section 3.5",
    .formula = "add: combined = embedding + s * encoding; concat: embedding, then s * encoding;\n"
               "concat_project: projection times that; s = scale, or rms(embedding) / rms(encoding) with match_rms\n"
               "add of a narrower encoding: projection times encoding, or zeros appended with zero_pad",
    .example = "embedding=[[1,2,3,4],[5,6,7,8]]&encoding=[[0,1,0,1],[0.84,0.54,0.01,1]]&match_rms=true",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(combine, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
