/* sandwich.c - Sandwich: the inner product of two sinusoids as a bias, so that it falls with distance by itself.
 *
 *     bias[h] = (sum over j = 1 .. D/2 of cos(d * 10000^(-2j/D)) - D/2) / (8 h / H)          h = 1 .. H
 *
 * D = hidden_size, H = num_heads, d = |q - k|, the queries the last of the keys. As cos x - 1 = -2 sin^2(x / 2), the bias
 * is -(H / 4h) times the sum of sin^2(d w / 2): nothing cancels where d is small.
 * Source: Chi et al. 2023, arXiv:2212.10356, section 5; for details NeMo's SandwichRelativePositionEmbedding: frequencies
 * start at j = 1, the scale 8h/H divides, and without `bidirectional` later keys have distance 0 - counted from the first
 * query given rather than from the positions, which `future` decides. */
#include "core/exact.h"
#include "sequence/distances.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_sandwich;

/* ---- rows ---- */

enum { BLOCK_DIAGONAL, BY_POSITION };
static const char *const futures[] = { "block_diagonal", "by_position", NULL };

typedef struct sandwich {
    posenc_given given;
    int64_t num_heads;
    int64_t query_length, key_length;
    int64_t hidden_size;
    bool bidirectional;
    int future;
} sandwich;

static const posenc_param rows[] = {
    { PE_INT(sandwich, num_heads), .flags = PE_REQUIRED, .min = 1, .max = 1 << 20, .doc = "heads" },
    { PE_INT(sandwich, query_length), .flags = PE_REQUIRED, .min = 0, .max = PE_MOST_TOKENS,
      .doc = "queries, the last of the keys" },
    { PE_INT(sandwich, key_length), .flags = PE_REQUIRED, .min = 0, .max = PE_MOST_TOKENS, .doc = "keys" },
    { PE_INT(sandwich, hidden_size), .flags = PE_REQUIRED, .min = 2, .max = 1 << 20,
      .doc = "width of the sinusoid, twice its frequencies; even" },
    { PE_BOOL(sandwich, bidirectional), .doc = "later keys have their distance too; otherwise distance 0, so no bias" },
    { PE_ENUM(sandwich, future), .names = futures, .def = BLOCK_DIAGONAL,
      .doc = "which keys are later ones, without bidirectional: those above the diagonal of the matrix as given (NeMo), or "
             "those whose position is later than the query's; the same where there are as many queries as keys" },
};

static const posenc_output outputs[] = {
    { "bias", "[num_heads, Q, K]", "added to the scores; 0 at distance 0, negative elsewhere", NULL },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const sandwich *p = r->params;
    if (p->hidden_size % 2)
        pe_invalid(err, "hidden_size", posenc_text("%lld", (long long)p->hidden_size), "an even width");
    if (p->future != BLOCK_DIAGONAL && p->bidirectional)
        pe_not_applicable(err, "future", futures[p->future], "block_diagonal with bidirectional, which knows no later keys");
    /* |bias| <= H/4 * D/2 */
    const double most = pe_dtype_largest((posenc_dtype)r->common.dtype);
    const double largest = (double)p->num_heads / 4 * (double)(p->hidden_size / 2);
    if (largest > most)
        pe_invalid(err, "hidden_size", posenc_text("%lld", (long long)p->hidden_size),
                   "num_heads * hidden_size at most %g in %s", most * 8, posenc_dtype_name((posenc_dtype)r->common.dtype));
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const sandwich *p = r->params;
    const int64_t size[] = { p->num_heads, p->query_length, p->key_length };
    return pe_output(out, "bias", (posenc_dtype)r->common.dtype, 3, size, err);
}

static pe_curve curve_of(const sandwich *p) { return pe_curve_of_last(p->query_length, p->key_length, false); }

/* Distances 0 .. this - 1 occur; 0 where the matrix is empty. */
static int64_t distances(const pe_curve *c) { return !c->count ? 0 : c->rows > c->columns ? c->rows : c->columns; }

static uint64_t memory(const posenc_request *r)
{
    const sandwich *p = r->params;
    const pe_curve c = curve_of(p);
    return ((uint64_t)p->hidden_size / 2 + 1) * sizeof(pe_dd) + (uint64_t)distances(&c) * sizeof(double) +
           pe_curve_bytes(&c, PE_float64) + pe_curve_bytes(&c, (posenc_dtype)r->common.dtype);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const sandwich *p = r->params;
    const double pairs = (double)(p->hidden_size / 2), q = (double)p->query_length, k = (double)p->key_length;
    const double each = (double)posenc_dtype_size((posenc_dtype)r->common.dtype) / 2;
    const pe_curve c = curve_of(p);
    *out = (posenc_cost){
        .ns = 20e3 + 300 * pairs + 30 * pairs * (double)distances(&c) +
              (double)p->num_heads * (6 * (q + k) + q * (10 + k * each)),
        .scratch = memory(r),
    };
}

/* ---- compute ---- */

/* s[d] = sum over the frequencies of sin^2(d w / 2): adds up positive numbers, so that each is right to an ulp or two. */
static posenc_status sums(const pe_dd *w, size_t pairs, int64_t n, double *s, pe_pace *pace)
{
    enum { BLOCK = 64 };
    pe_dd angle[BLOCK];
    double sine[BLOCK], cosine[BLOCK];
    posenc_status st = PE_OK;
    for (int64_t d = 0; d < n && !st; d++) {
        pe_dd sum = { 0, 0 };
        for (size_t first = 0; first < pairs && !st; first += BLOCK) {
            const size_t m = pairs - first < BLOCK ? pairs - first : BLOCK;
            for (size_t i = 0; i < m; i++)
                angle[i] = pe_dd_times(w[first + i], (double)d / 2);
            pe_sincos(angle, m, sine, cosine);
            for (size_t i = 0; i < m; i++)
                sum = pe_dd_add(sum, pe_two_prod(sine[i], sine[i]));
            st = pe_pace_add(pace, (int64_t)m * 30);
        }
        s[d] = sum.hi;
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const sandwich *p = r->params;
    const posenc_tensor *bias = pe_tensor(out, "bias");
    const size_t pairs = (size_t)p->hidden_size / 2;
    const pe_curve c = curve_of(p);
    const int64_t n = distances(&c);
    const pe_ladder l = { .gain = { 1, 0 }, .top = 10000, .bottom = 1, .steps = { (double)pairs, 0 } };
    /* elements of the curve from here on belong to later keys */
    const int64_t later = p->bidirectional ? c.count : p->future == BLOCK_DIAGONAL ? p->query_length : p->key_length;
    pe_pace pace = { .ctx = ctx };
    if (!n)
        return PE_OK;
    pe_dd *w = malloc((size_t)memory(r)); /* one more rung than is used: the first, j = 0 */
    if (!w)
        return pe_no_memory("memory", err);
    double *sum = (double *)(w + pairs + 1), *curve = sum + n;
    posenc_status st = pe_frequencies(&l, pairs + 1, w, ctx);
    if (!st)
        st = sums(w + 1, pairs, n, sum, &pace);
    for (int64_t h = 1; h <= p->num_heads && !st; h++) {
        for (int64_t t = 0; t < c.count && !st; t++) {
            const int64_t ahead = pe_curve_distance(&c, t), distance = ahead < 0 ? -ahead : ahead;
            curve[t] = t >= later ? 0 : 0 - sum[distance] * (double)p->num_heads / (double)(4 * h);
            st = pe_pace_add(&pace, 6);
        }
        if (!st)
            st = pe_curve_fill(&c, curve, curve + c.count, bias, h - 1, &pace);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_sandwich = {
    .name = "sandwich",
    .family = "relative",
    .title = "inner product of sinusoids as a bias (Sandwich)",
    .source = "Chi et al. 2023, Dissecting transformer length extrapolation, arXiv:2212.10356; NeMo, "
              "SandwichRelativePositionEmbedding",
    .formula = "bias[h] = (sum over j = 1 .. hidden_size/2 of cos(d * 10000^(-2j/hidden_size)) - hidden_size/2) / (8 h / "
               "num_heads)\n"
               "h = 1 .. num_heads, d = |q - k|, the queries the last of the keys; 0 for later keys unless bidirectional",
    .example = "num_heads=4&query_length=8&key_length=8&hidden_size=32",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(sandwich, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
