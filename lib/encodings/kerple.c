/* kerple.c - KERPLE: distances through a learned logarithm or power, added to the scores or multiplied into them.
 *
 *     log     bias = -p ln(1 + a d^distance_power)
 *     power   bias = -bias_a d^bias_p      weight = exp(-wei_a d^wei_p)
 *     scores_out = scores * weight + bias
 *
 * One parameter a head; d = max(q - k, 0), or |q - k| if bidirectional, the queries the last of the keys. As the authors'
 * code does at every step, a and p are clamped to eps at least, and the powers to 2 at most: only then is the kernel
 * conditionally positive definite. A factor or power that is not given is 1; a bias or weight without any parameter is not
 * there. Source: Chi et al. 2022, arXiv:2205.09921, section 4; ParallelKerpleLog and ParallelKerplePower of chijames/KERPLE,
 * which also decide that later keys have distance 0 and that use_alibi_slopes is clamped too. distance_power and
 * bidirectional are those of NeMo's KERPLERelativePositionEmbedding, which does not clamp: eps=0. */
#include "core/elementary.h"
#include "sequence/distances.h"
#include "sequence/slopes.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_kerple;

/* ---- rows ---- */

enum { LOG, POWER };
static const char *const variants[] = { "log", "power", NULL };

typedef struct kerple {
    posenc_given given;
    int variant;
    int64_t num_heads;
    int64_t query_length, key_length;
    double eps;
    posenc_reals p, a, distance_power, bias_p, bias_a, wei_p, wei_a;
    bool use_alibi_slopes, bidirectional;
    posenc_tensor scores;
} kerple;

static const posenc_param rows[] = {
    { PE_ENUM(kerple, variant), .flags = PE_REQUIRED | PE_SELECTOR, .names = variants,
      .doc = "-p ln(1 + a d), or -bias_a d^bias_p with an optional factor exp(-wei_a d^wei_p) of the scores" },
    { PE_INT(kerple, num_heads), .flags = PE_DERIVED, .min = 1, .max = 1 << 20,
      .doc = "heads; when absent the length of the lists, or the axis of the scores" },
    { PE_INT(kerple, query_length), .flags = PE_DERIVED, .min = 0, .max = PE_MOST_TOKENS,
      .doc = "queries, the last of the keys; when absent the axis of the scores" },
    { PE_INT(kerple, key_length), .flags = PE_DERIVED, .min = 0, .max = PE_MOST_TOKENS,
      .doc = "keys; when absent the axis of the scores" },
    { PE_REAL(kerple, eps), .def = 0.01, .min = 0, .max = 2, .doc = "smaller parameters count as this" },
    { PE_REALS(kerple, p), .flags = PE_REQUIRED, .min = -1e100, .max = 1e100, .when = PE_ON(LOG),
      .doc = "factor of each head's logarithm" },
    { PE_REALS(kerple, a), .flags = PE_REQUIRED, .min = -1e100, .max = 1e100, .when = PE_ON(LOG),
      .doc = "factor of the distance inside the logarithm, of each head" },
    { PE_REALS(kerple, distance_power), .flags = PE_OPTIONAL, .min = -1e100, .max = 1e100, .when = PE_ON(LOG),
      .doc = "power of the distance inside the logarithm, of each head (NeMo); over 2 counts as 2; when absent 1" },
    { PE_REALS(kerple, bias_p), .flags = PE_OPTIONAL, .min = -1e100, .max = 1e100, .when = PE_ON(POWER),
      .doc = "power of the distance in the bias, of each head; over 2 counts as 2; when absent 1" },
    { PE_REALS(kerple, bias_a), .flags = PE_OPTIONAL, .min = -1e100, .max = 1e100, .when = PE_ON(POWER),
      .doc = "factor of the bias, of each head; when absent 1" },
    { PE_REALS(kerple, wei_p), .flags = PE_OPTIONAL, .min = -1e100, .max = 1e100, .when = PE_ON(POWER),
      .doc = "power of the distance in the weight, of each head; over 2 counts as 2; when absent 1" },
    { PE_REALS(kerple, wei_a), .flags = PE_OPTIONAL, .min = -1e100, .max = 1e100, .when = PE_ON(POWER),
      .doc = "factor in the exponent of the weight, of each head; when absent 1" },
    { PE_BOOL(kerple, use_alibi_slopes), .when = PE_ON(POWER),
      .doc = "bias_a are the slopes of ALiBi, those under eps raised to it (the authors' original)" },
    { PE_BOOL(kerple, bidirectional), .doc = "later keys have their distance too (NeMo); otherwise distance 0" },
    { PE_TENSOR(kerple, scores), .flags = PE_OPTIONAL, .doc = "attention scores to apply it to, [H, Q, K] or [B, H, Q, K]" },
};

static const posenc_output outputs[] = {
    { "bias", "[H, Q, K]", "added to the scores; absent without any of bias_p, bias_a and use_alibi_slopes", NULL },
    { "weight", "[H, Q, K]", "factor of the scores; with wei_p or wei_a", NULL },
    { "scores_out", "[H, Q, K] or [B, H, Q, K]", "scores * weight + bias; with scores", NULL },
};

static bool has_bias(const posenc_request *r)
{
    const kerple *p = r->params;
    return p->variant == LOG || p->use_alibi_slopes || pe_given(r, "bias_p") || pe_given(r, "bias_a");
}

static bool has_weight(const posenc_request *r) { return pe_given(r, "wei_p") || pe_given(r, "wei_a"); }

/* ---- the formula ---- */

/* The curve of one part of one head: factor, power and which function. */
typedef struct part {
    enum { LOGARITHM, DISTANCE_POWER, WEIGHT } kind;
    double a, p, inner; /* inner: of the distance in the logarithm */
} part;

static double of_head(const posenc_reals *list, int64_t h, double least, double most, double absent)
{
    if (!list->n)
        return absent;
    const double v = list->v[h];
    return v < least ? least : v > most ? most : v;
}

static part bias_of(const kerple *k, int64_t h, const double *slope)
{
    if (k->variant == LOG)
        return (part){ LOGARITHM, of_head(&k->a, h, k->eps, INFINITY, 1), of_head(&k->p, h, k->eps, INFINITY, 1),
                       of_head(&k->distance_power, h, k->eps, 2, 1) };
    const double a = !k->use_alibi_slopes ? of_head(&k->bias_a, h, k->eps, INFINITY, 1) : pe_max(slope[h], k->eps);
    return (part){ DISTANCE_POWER, a, of_head(&k->bias_p, h, k->eps, 2, 1), 1 };
}

static part weight_of(const kerple *k, int64_t h)
{
    return (part){ WEIGHT, of_head(&k->wei_a, h, k->eps, INFINITY, 1), of_head(&k->wei_p, h, k->eps, 2, 1), 1 };
}

/* One element at distance d >= 0. */
static double element(const part *f, double d)
{
    if (f->kind == LOGARITHM) {
        const pe_dd x = f->inner == 1 ? pe_two_prod(f->a, d) : pe_dd_times(pe_dd_pow((pe_dd){ d, 0 }, f->inner), f->a);
        return 0 - f->p * pe_dd_log(pe_dd_add((pe_dd){ 1, 0 }, x)).hi;
    }
    const pe_dd power = f->p == 1 ? (pe_dd){ d, 0 } : pe_dd_pow((pe_dd){ d, 0 }, f->p);
    const pe_dd x = pe_dd_times(power, f->a);
    return f->kind == DISTANCE_POWER ? 0 - x.hi : x.hi > 745 ? 0 : pe_dd_exp(pe_dd_neg(x)).hi;
}

/* ---- check ---- */

typedef struct list {
    const char *name;
    const posenc_reals *values;
} list;

/* Heads, queries and keys: from the scores, from the lists, or as given; all agree. */
static void check_sizes(const posenc_request *r, kerple *p, posenc_error *err)
{
    static const char lengths[] = "a value, it is required without scores";
    const list lists[] = { { "p", &p->p },           { "a", &p->a },           { "distance_power", &p->distance_power },
                           { "bias_p", &p->bias_p }, { "bias_a", &p->bias_a }, { "wei_p", &p->wei_p },
                           { "wei_a", &p->wei_a } };
    const bool q = pe_given(r, "query_length"), k = pe_given(r, "key_length");
    bool known = pe_given(r, "num_heads");
    if (pe_given(r, "scores")) {
        const int64_t any[] = { -1, known ? p->num_heads : -1, q ? p->query_length : -1, k ? p->key_length : -1 };
        const bool batch = p->scores.rank == 4;
        if (pe_tensor_shaped(&p->scores, batch ? 4 : 3, any + !batch,
                             "[H, Q, K] or [B, H, Q, K] of num_heads, query_length "
                             "and key_length",
                             err)) {
            const int64_t *n = p->scores.shape + batch;
            if (n[0] < 1 || n[0] > 1 << 20 || n[1] > PE_MOST_TOKENS || n[2] > PE_MOST_TOKENS)
                pe_invalid(err, "scores", posenc_text("%lld heads", (long long)n[0]), "1 .. 2^20 heads, lengths up to 2^30");
            p->num_heads = n[0];
            p->query_length = n[1];
            p->key_length = n[2];
            known = true;
        }
    } else {
        if (!q)
            posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "query_length", "absent", "%s", lengths);
        if (!k)
            posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "key_length", "absent", "%s", lengths);
    }
    for (size_t i = 0; i < PE_LEN(lists); i++) {
        const int64_t n = (int64_t)lists[i].values->n;
        if (!pe_given(r, lists[i].name))
            continue;
        if (!known)
            p->num_heads = n;
        known = true;
        if (n != p->num_heads || n < 1 || n > 1 << 20)
            pe_invalid(err, lists[i].name, posenc_text("%lld values", (long long)n), "one value a head: %lld",
                       (long long)p->num_heads);
    }
    if (!known && !err->n)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "num_heads", "absent",
                    "a value, or scores, or a list of a value a head");
}

static pe_curve curve_of(const kerple *p) { return pe_curve_of_last(p->query_length, p->key_length, true); }

/* Every element is finite in dtype: the largest distance has the largest bias, and weights are at most 1. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const kerple *p = r->params;
    const bool scores = pe_given(r, "scores");
    const double most = pe_dtype_largest((posenc_dtype)r->common.dtype) / (scores ? 2 : 1), one = 1;
    const int64_t q = p->query_length, k = p->key_length, longest = p->bidirectional && q > k ? q : k;
    const double farthest = longest ? (double)(longest - 1) : 0;
    const int64_t parameters = !has_bias(r) || !curve_of(p).count ? 0 : p->use_alibi_slopes ? 1 : p->num_heads;
    for (int64_t h = 0; h < parameters; h++) {
        part f = bias_of(p, h, &one);
        if (f.kind == LOGARITHM && f.p * 300 <= most) /* a d^2 < 10^118, e^300 is more */
            continue;
        const double largest = -element(&f, farthest);
        if (largest <= most)
            continue;
        const char *name = p->variant == LOG ? "p" : p->bias_a.n ? "bias_a" : p->bias_p.n ? "bias_p" : "key_length";
        pe_invalid(err, posenc_text(name[0] == 'k' ? "%s" : "%s[%lld]", name, (long long)h).s,
                   posenc_text("a bias of %g", largest), "a bias of at most %g at distance %.0f in %s", most, farthest,
                   posenc_dtype_name((posenc_dtype)r->common.dtype));
        return;
    }
    if (scores)
        pe_tensor_within(&p->scores, -most, most, "magnitudes of at most half of what dtype holds", err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    kerple *p = r->params;
    if (p->use_alibi_slopes && pe_given(r, "bias_a"))
        pe_not_applicable(err, "bias_a", "given with use_alibi_slopes", "either");
    if (p->use_alibi_slopes && pe_given(r, "bias_p"))
        pe_not_applicable(err, "bias_p", "given with use_alibi_slopes", "either");
    if (!has_bias(r) && !has_weight(r))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "bias_a", "absent",
                    "any of bias_p, bias_a, wei_p, wei_a and use_alibi_slopes");
    check_sizes(r, p, err);
    if (!err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const kerple *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const int64_t size[] = { p->num_heads, p->query_length, p->key_length };
    posenc_status st = PE_OK;
    if (has_bias(r))
        st = pe_output(out, "bias", dtype, 3, size, err);
    if (!st && has_weight(r))
        st = pe_output(out, "weight", dtype, 3, size, err);
    if (!st && pe_given(r, "scores"))
        st = pe_output(out, "scores_out", dtype, p->scores.rank, p->scores.shape, err);
    return st;
}

static pe_slopes alibi_slopes(const kerple *p)
{
    return (
        pe_slopes){ .num_heads = p->num_heads, .alibi_bias_max = 8, .slope_dtype = PE_float64, .head_count = p->num_heads };
}

/* Two curves, the narrow copy of one, and the slopes. */
static uint64_t memory(const posenc_request *r)
{
    const kerple *p = r->params;
    const pe_curve c = curve_of(p);
    return 2 * pe_curve_bytes(&c, PE_float64) + pe_curve_bytes(&c, (posenc_dtype)r->common.dtype) +
           (p->use_alibi_slopes ? (uint64_t)p->num_heads * sizeof(double) : 0);
}

static double each_value(const posenc_request *r) /* nanoseconds of one of a curve */
{
    const kerple *p = r->params;
    return p->variant == LOG && !p->distance_power.n && r->common.dtype != PE_float64 ? 6
           : p->distance_power.n                                                      ? 3600
                                                                                      : 1800;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const kerple *p = r->params;
    const double n = (double)p->key_length, m = p->bidirectional ? n + (double)p->query_length : n;
    const double parts = has_bias(r) + has_weight(r);
    const double each = parts * (double)posenc_dtype_size((posenc_dtype)r->common.dtype) / 2 + (p->scores.rank ? 4 : 0);
    const double batch = p->scores.rank == 4 ? (double)p->scores.shape[0] : 1;
    *out = (posenc_cost){ .ns = 2000 };
    if (p->use_alibi_slopes) {
        const pe_slopes s = alibi_slopes(p);
        *out = pe_slopes_cost(&s);
    }
    out->ns += (double)p->num_heads * (parts * each_value(r) * m + batch * (double)p->query_length * (10 + each * n));
    out->scratch += memory(r);
}

/* ---- compute ---- */

/* Whether a curve is made many values at a time: the plain logarithm, for results of float32 or less. */
static bool many(const part *f, posenc_dtype dtype) { return f->kind == LOGARITHM && f->inner == 1 && dtype != PE_float64; }

static posenc_status make_logarithms(const kerple *p, const pe_curve *c, const part *f, double *curve, pe_pace *pace)
{
    enum { BLOCK = 512 };
    posenc_status st = PE_OK;
    for (int64_t t = 0; t < c->count && !st; t += BLOCK) {
        const int64_t n = c->count - t < BLOCK ? c->count - t : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            const int64_t behind = pe_curve_distance(c, t + i);
            curve[t + i] = f->a * (double)(behind > 0 ? behind : p->bidirectional ? -behind : 0);
        }
        pe_log1p_many(curve + t, (size_t)n, curve + t);
        for (int64_t i = t; i < t + n; i++)
            curve[i] = 0 - f->p * curve[i];
        st = pe_pace_add(pace, 6 * n + 20);
    }
    return st;
}

static posenc_status make_curve(const kerple *p, const pe_curve *c, const part *f, posenc_dtype dtype, double *curve,
                                pe_pace *pace)
{
    const double zero = element(f, 0); /* of all later keys */
    posenc_status st = PE_OK;
    if (many(f, dtype))
        return make_logarithms(p, c, f, curve, pace);
    for (int64_t t = 0; t < c->count && !st; t++) {
        const int64_t behind = pe_curve_distance(c, t), distance = behind < 0 && p->bidirectional ? -behind : behind;
        curve[t] = distance > 0 ? element(f, (double)distance) : zero;
        st = pe_pace_add(pace, distance > 0 ? 2500 : 2);
    }
    return st;
}

/* One head of all sequences: scores * weight + bias, from the curves; either may be NULL. */
static posenc_status apply(const kerple *p, const posenc_tensor *dst, int64_t h, const double *bias, const double *weight,
                           pe_pace *pace)
{
    enum { BLOCK = 256 };
    double v[BLOCK];
    const int64_t q = p->query_length, k = p->key_length, batch = dst->rank == 4 ? dst->shape[0] : 1;
    const size_t size = posenc_dtype_size(dst->dtype);
    posenc_status st = PE_OK;
    for (int64_t row = 0; row < batch * q && !st; row++) {
        const int64_t i = row % q, first = ((row / q * p->num_heads + h) * q + i) * k, t = q - 1 - i;
        for (int64_t j = 0; j < k && !st; j += BLOCK) {
            const int64_t n = k - j < BLOCK ? k - j : BLOCK;
            pe_tensor_read(&p->scores, first + j, (size_t)n, v);
            for (int64_t c = 0; c < n && weight; c++)
                v[c] *= weight[t + j + c];
            for (int64_t c = 0; c < n; c++)
                v[c] += bias ? bias[t + j + c] : 0;
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)(first + j) * size, v, (size_t)n);
            st = pe_pace_add(pace, n * 4 + 10);
        }
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const kerple *p = r->params;
    const posenc_tensor *bias = pe_tensor(out, "bias"), *weight = pe_tensor(out, "weight"),
                        *scores = pe_tensor(out, "scores_out");
    const pe_curve c = curve_of(p);
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    if (!c.count)
        return PE_OK;
    double *b = malloc((size_t)memory(r));
    if (!b)
        return pe_no_memory("memory", err);
    double *w = b + c.count, *slope = w + c.count;
    void *narrow = slope + (p->use_alibi_slopes ? p->num_heads : 0);
    if (p->use_alibi_slopes) {
        const pe_slopes s = alibi_slopes(p);
        st = pe_slopes_compute(&s, slope, ctx, err);
    }
    for (int64_t h = 0; h < p->num_heads && !st; h++) {
        const part fb = bias_of(p, h, slope), fw = weight_of(p, h);
        if (bias && !(st = make_curve(p, &c, &fb, bias->dtype, b, &pace)))
            st = pe_curve_fill(&c, b, narrow, bias, h, &pace);
        if (!st && weight && !(st = make_curve(p, &c, &fw, weight->dtype, w, &pace)))
            st = pe_curve_fill(&c, w, narrow, weight, h, &pace);
        if (!st && scores)
            st = apply(p, scores, h, bias ? b : NULL, weight ? w : NULL, &pace);
    }
    free(b);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_kerple = {
    .name = "kerple",
    .family = "relative",
    .title = "kernelized relative position bias (KERPLE)",
    .source = "Chi et al. 2022, KERPLE, arXiv:2205.09921; chijames/KERPLE, ParallelKerpleLog, ParallelKerplePower",
    .formula = "log: bias = -p ln(1 + a d^distance_power);  power: bias = -bias_a d^bias_p, weight = exp(-wei_a d^wei_p)\n"
               "scores_out = scores * weight + bias; d = max(q - k, 0), or |q - k| with bidirectional\n"
               "the queries are the last of the keys; p, a and factors at least eps, powers in eps .. 2",
    .example = "variant=log&query_length=8&key_length=8&p=0.5,1.5,1,2&a=0.2,0.9,0.5,1",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(kerple, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
