/* dynamic_position_bias.c - a network that turns the relative position into a bias of each head.
 *
 *     x = q - k, or sign(q - k) ln(|q - k| + 1) with log_distance
 *     x <- silu(norm(weight_l x + bias_l))       l = 0 .. depth - 1; norm only where norm_weight_l is given
 *     bias[:, i, j] = weight_depth x + bias_depth
 *
 * q and k are positions, the queries the last of the keys. Layers have the layout of torch's Linear: [out, in]. The norm
 * is (x - mean) / sqrt(variance + norm_eps), variance over n, times norm_weight_l, plus norm_bias_l.
 * Source: Wang et al. 2022 (CrossFormer), arXiv:2108.00154, section 3.3; for activation, log distance and sign
 * DynamicPositionBias of x-transformers, whose first norm has no bias and whose other norms have one. */
#include "core/elementary.h"
#include "core/store.h"
#include "sequence/distances.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_dynamic_position_bias;

/* ---- rows ---- */

enum { LAYERS = 8 }; /* at most: seven hidden ones and the last */

typedef struct dynamic_position_bias {
    posenc_given given;
    int64_t query_length, key_length;
    bool log_distance;
    double norm_eps;
    posenc_tensor weight[LAYERS], bias[LAYERS], norm_weight[LAYERS - 1], norm_bias[LAYERS - 1]; /* absent: no name */
} dynamic_position_bias;

#define TENSOR(m, l) .name = #m "_" #l, .kind = PE_T_TENSOR, .offset = offsetof(dynamic_position_bias, m[l])
#define WEIGHT(l)                                                    \
    {                                                                \
        TENSOR(weight, l), .flags = PE_OPTIONAL, .doc = "next layer" \
    }
#define BIAS(l)                                                                              \
    {                                                                                        \
        TENSOR(bias, l), .flags = PE_OPTIONAL, .doc = "[out] of layer " #l "; when absent 0" \
    }
#define NORM_WEIGHT(l)                                                                                        \
    {                                                                                                         \
        TENSOR(norm_weight, l),                                                                               \
            .flags = PE_OPTIONAL,                                                                             \
            .doc = "[out] factor of the layer norm of hidden layer " #l ", which has one where this is given" \
    }
#define NORM_BIAS(l)                                                                                       \
    {                                                                                                      \
        TENSOR(norm_bias, l), .flags = PE_OPTIONAL, .doc = "[out] added by that layer norm; when absent 0" \
    }

/* clang-format off */
static const posenc_param rows[] = {
    { PE_INT(dynamic_position_bias, query_length), .flags = PE_REQUIRED, .min = 0,
      .max = PE_MOST_TOKENS, .doc = "queries, the last of the keys" },
    { PE_INT(dynamic_position_bias, key_length), .flags = PE_REQUIRED, .min = 0,
      .max = PE_MOST_TOKENS, .doc = "keys" },
    { PE_BOOL(dynamic_position_bias, log_distance), .doc = "the input is sign(q - k) ln(|q - k| + 1) instead of q - k" },
    { PE_REAL(dynamic_position_bias, norm_eps), .def = 1e-5, .min = 1e-30, .max = 1e30,
      .doc = "added to the variance in layer norms" },
    { TENSOR(weight, 0), .flags = PE_REQUIRED, .doc = "first layer, [dim, 1]" },
    { TENSOR(weight, 1), .flags = PE_REQUIRED,
      .doc = "next layer, [dim, dim]; the last layer given is the output, [heads, dim], and has no activation" },
    WEIGHT(2), WEIGHT(3), WEIGHT(4), WEIGHT(5), WEIGHT(6), WEIGHT(7),
    BIAS(0), BIAS(1), BIAS(2), BIAS(3), BIAS(4), BIAS(5), BIAS(6), BIAS(7),
    NORM_WEIGHT(0), NORM_WEIGHT(1), NORM_WEIGHT(2), NORM_WEIGHT(3), NORM_WEIGHT(4), NORM_WEIGHT(5), NORM_WEIGHT(6),
    NORM_BIAS(0), NORM_BIAS(1), NORM_BIAS(2), NORM_BIAS(3), NORM_BIAS(4), NORM_BIAS(5), NORM_BIAS(6),
};
/* clang-format on */

static const posenc_output outputs[] = {
    { "bias", "[heads, Q, K]", "added to the scores; heads is the first axis of the last weight", NULL },
};

/* ---- layers ---- */

typedef struct layer {
    const posenc_tensor *weight, *bias, *norm_weight, *norm_bias; /* the last three may be NULL */
    int64_t out, in;
} layer;

static const posenc_tensor *given(const posenc_tensor *t) { return t->name ? t : NULL; }

/* The layers given, without a gap; returns how many. */
static int layers_of(const dynamic_position_bias *p, layer out[LAYERS])
{
    int n = 0;
    for (; n < LAYERS && given(&p->weight[n]); n++) {
        out[n] = (layer){
            .weight = &p->weight[n], .bias = given(&p->bias[n]), .out = p->weight[n].shape[0], .in = p->weight[n].shape[1]
        };
        if (n < LAYERS - 1) {
            out[n].norm_weight = given(&p->norm_weight[n]);
            out[n].norm_bias = given(&p->norm_bias[n]);
        }
    }
    return n;
}

/* ---- check ---- */

/* What belongs to no layer: after a gap, or a norm of the last. */
static void check_strays(const posenc_tensor *list, int count, int n, posenc_error *err)
{
    for (int i = n; i < count; i++)
        if (given(&list[i]))
            pe_not_applicable(err, list[i].name, "given", "layers without a gap, of which the last has no norm");
}

static bool normed(const layer *l, int n)
{
    for (int i = 0; i < n; i++)
        if (l[i].norm_weight)
            return true;
    return false;
}

static bool check_layers(const dynamic_position_bias *p, const layer *l, int n, posenc_error *err)
{
    check_strays(p->weight, LAYERS, n, err);
    check_strays(p->bias, LAYERS, n, err);
    check_strays(p->norm_weight, LAYERS - 1, n - 1, err);
    check_strays(p->norm_bias, LAYERS - 1, n - 1, err);
    for (int i = 0; i < n; i++) {
        const int64_t shape[] = { -1, i ? l[i - 1].out : 1 };
        if (!pe_tensor_shaped(l[i].weight, 2, shape, i ? "[out, in], in as the layer before has out" : "[dim, 1]", err))
            return false;
        if (l[i].out < 1 || l[i].out > 1 << 20)
            pe_invalid(err, l[i].weight->name, posenc_text("%lld rows", (long long)l[i].out), "1 .. 2^20 rows");
        const posenc_tensor *const vectors[] = { l[i].bias, l[i].norm_weight, l[i].norm_bias };
        for (size_t k = 0; k < PE_LEN(vectors); k++)
            if (vectors[k])
                pe_tensor_shaped(vectors[k], 1, &l[i].out, "[out], as many as the layer's weight has rows", err);
        if (l[i].norm_bias && !l[i].norm_weight)
            pe_not_applicable(err, l[i].norm_bias->name, "given", "norm_weight_%d beside it", i);
    }
    if (p->norm_eps != 1e-5 && !normed(l, n))
        pe_not_applicable(err, "norm_eps", posenc_text("%.17g", p->norm_eps).s, "1e-05, or a norm_weight");
    return !err->n;
}

static double magnitude(const posenc_tensor *t, int64_t i) { return t ? fabs(posenc_tensor_get(t, i)) : 0; }

/* No element leaves dtype, and nothing on the way 1e150, so that squares are finite: from layer to layer a bound of the
 * magnitudes, since |silu(x)| <= |x| and a normalized element is at most sqrt(n). */
static void check_range(const posenc_request *r, const layer *l, int n, posenc_error *err)
{
    const dynamic_position_bias *p = r->params;
    const int64_t longest = p->query_length > p->key_length ? p->query_length : p->key_length;
    double x = p->log_distance ? 22 : (double)longest; /* ln of 2^30 is below 21 */
    for (int i = 0; i < n; i++) {
        const double most = i == n - 1 ? pe_dtype_largest((posenc_dtype)r->common.dtype) : 1e150;
        double next = 0;
        for (int64_t o = 0; o < l[i].out; o++) {
            double bound = magnitude(l[i].bias, o);
            for (int64_t k = 0; k < l[i].in; k++)
                bound += magnitude(l[i].weight, o * l[i].in + k) * x;
            double normed = sqrt((double)l[i].out) * magnitude(l[i].norm_weight, o) + magnitude(l[i].norm_bias, o);
            if (!(bound <= most) || !(normed <= most)) {
                pe_invalid(err, posenc_text("weight_%d[%lld]", i, (long long)o).s,
                           posenc_text("an element of up to %g", pe_max(bound, normed)), "weights that keep it below %g",
                           most);
                return;
            }
            next = pe_max(next, l[i].norm_weight ? normed : bound);
        }
        x = next;
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const dynamic_position_bias *p = r->params;
    layer l[LAYERS];
    const int64_t matrix[] = { -1, -1 };
    for (int i = 0; i < LAYERS; i++)
        if (given(&p->weight[i]) && !pe_tensor_shaped(&p->weight[i], 2, matrix, "[out, in]", err))
            return err->status;
    const int n = layers_of(p, l);
    if (check_layers(p, l, n, err))
        check_range(r, l, n, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const dynamic_position_bias *p = r->params;
    layer l[LAYERS];
    const int64_t size[] = { l[layers_of(p, l) - 1].out, p->query_length, p->key_length };
    return pe_output(out, "bias", (posenc_dtype)r->common.dtype, 3, size, err);
}

/* Doubles: two rows of activations, then the weights, then a curve a head; and the narrow copy of one. */
static uint64_t widest(const layer *l, int n)
{
    uint64_t most = 1;
    for (int i = 0; i < n; i++)
        most = (uint64_t)l[i].out > most ? (uint64_t)l[i].out : most;
    return most;
}

static uint64_t weights(const layer *l, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += (uint64_t)l[i].out * (uint64_t)(l[i].in + 3);
    return sum;
}

static pe_curve curve_of(const dynamic_position_bias *p) { return pe_curve_of_last(p->query_length, p->key_length, true); }

static uint64_t memory(const posenc_request *r, const layer *l, int n)
{
    const dynamic_position_bias *p = r->params;
    const pe_curve c = curve_of(p);
    return (2 * widest(l, n) + weights(l, n)) * sizeof(double) + (uint64_t)l[n - 1].out * pe_curve_bytes(&c, PE_float64) +
           pe_curve_bytes(&c, (posenc_dtype)r->common.dtype);
}

static double per_position(const layer *l, int n)
{
    double ns = 2000;
    for (int i = 0; i < n; i++)
        ns += (double)l[i].out * ((double)l[i].in + (i < n - 1 ? 700 : 2));
    return ns;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const dynamic_position_bias *p = r->params;
    layer l[LAYERS];
    const int n = layers_of(p, l);
    const double q = (double)p->query_length, k = (double)p->key_length;
    const double each = (double)posenc_dtype_size((posenc_dtype)r->common.dtype) / 2;
    out->ns = 5000 + 3 * (double)weights(l, n) + (double)curve_of(p).count * per_position(l, n) +
              (double)l[n - 1].out * q * (10 + k * each);
    out->scratch = memory(r, l, n);
}

/* ---- compute ---- */

typedef struct numbers { /* a layer as float64 */
    const double *weight, *bias, *norm_weight, *norm_bias;
    int64_t out, in;
} numbers;

/* The n elements of t, or n zeros where it is absent. */
static const double *copied(const posenc_tensor *t, int64_t n, double **room, pe_pace *pace, posenc_status *st)
{
    double *to = *room;
    *room += n;
    if (!t)
        memset(to, 0, (size_t)n * sizeof *to);
    else if (!*st)
        *st = pe_tensor_doubles(t, to, pace);
    return to;
}

static void normalize(const numbers *l, double eps, double *y)
{
    const double n = (double)l->out;
    double mean = 0, square = 0;
    for (int64_t o = 0; o < l->out; o++)
        mean += y[o];
    mean /= n;
    for (int64_t o = 0; o < l->out; o++)
        square += (y[o] - mean) * (y[o] - mean);
    const double root = sqrt(square / n + eps);
    for (int64_t o = 0; o < l->out; o++)
        y[o] = (y[o] - mean) / root * l->norm_weight[o] + l->norm_bias[o];
}

/* The network at one relative position; x and y (widest) take turns. Returns where the output is; NULL after a stop. */
static const double *run(const dynamic_position_bias *p, const numbers *l, int n, double *x, double *y, pe_pace *pace,
                         posenc_status *st)
{
    for (int i = 0; i < n; i++) {
        for (int64_t o = 0; o < l[i].out; o++) {
            double sum = l[i].bias[o];
            for (int64_t k = 0; k < l[i].in; k++)
                sum += l[i].weight[o * l[i].in + k] * x[k];
            y[o] = sum;
            if ((*st = pe_pace_add(pace, l[i].in + 2)))
                return NULL;
        }
        if (l[i].norm_weight)
            normalize(&l[i], p->norm_eps, y);
        for (int64_t o = 0; i < n - 1 && o < l[i].out; o++) {
            y[o] *= pe_sigmoid(y[o]);
            if ((*st = pe_pace_add(pace, 1500)))
                return NULL;
        }
        double *swap = x;
        x = y;
        y = swap;
    }
    return x;
}

static double input_of(const dynamic_position_bias *p, int64_t apart)
{
    const double d = (double)(apart < 0 ? -apart : apart), x = p->log_distance ? pe_log1p(d) : d;
    return apart < 0 ? -x : x;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const dynamic_position_bias *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "bias");
    const pe_curve c = curve_of(p);
    layer read[LAYERS];
    numbers l[LAYERS];
    const int n = layers_of(p, read);
    const int64_t heads = read[n - 1].out, wide = (int64_t)widest(read, n);
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    if (!c.count)
        return PE_OK;
    double *x = malloc((size_t)memory(r, read, n)), *y = x + wide, *room = y + wide;
    if (!x)
        return pe_no_memory("memory", err);
    for (int i = 0; i < n; i++) {
        const layer *g = &read[i];
        l[i] = (numbers){ .out = g->out, .in = g->in };
        l[i].weight = copied(g->weight, g->out * g->in, &room, &pace, &st);
        l[i].bias = copied(g->bias, g->out, &room, &pace, &st);
        l[i].norm_weight = g->norm_weight ? copied(g->norm_weight, g->out, &room, &pace, &st) : NULL;
        l[i].norm_bias = g->norm_weight ? copied(g->norm_bias, g->out, &room, &pace, &st) : NULL;
    }
    double *curve = room; /* (heads, c.count) */
    for (int64_t t = 0; t < c.count && !st; t++) {
        x[0] = input_of(p, pe_curve_distance(&c, t));
        const double *v = run(p, l, n, x, y, &pace, &st);
        for (int64_t h = 0; v && h < heads; h++)
            curve[h * c.count + t] = v[h] + 0.0;
    }
    for (int64_t h = 0; h < heads && !st; h++)
        st = pe_curve_fill(&c, curve + h * c.count, curve + heads * c.count, dst, h, &pace);
    free(x);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_dynamic_position_bias = {
    .name = "dynamic_position_bias",
    .family = "relative",
    .title = "network of relative positions as a bias",
    .source = "Wang et al. 2022, CrossFormer, arXiv:2108.00154, section 3.3; x-transformers, DynamicPositionBias",
    .formula = "x = q - k, or sign(q - k) ln(|q - k| + 1) with log_distance; the queries are the last of the keys\n"
               "hidden layer l: x <- silu(norm(weight_l x + bias_l)), norm only where norm_weight_l is given\n"
               "last layer: bias[:, i, j] = weight_l x + bias_l",
    .example = "query_length=4&key_length=6&weight_0=[[0.5],[-0.25],[1]]&bias_0=[0,0.1,-0.2]"
               "&weight_1=[[1,0.5,-1],[0.25,-0.75,0.5]]&bias_1=[0.1,-0.1]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(dynamic_position_bias, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
