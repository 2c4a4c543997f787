/* continuous_mlp.c - a small network that turns a position or a moment into an encoding.
 *
 *     x[0] = the position, or (timestamp - time_origin) / time_unit, or a vector of coords
 *     x[l + 1] = f(W[l] x[l] + b[l])          l = 0 .. layers - 1; no f after the last layer
 *
 * W[l] = w0 .. w3 [out, in] as a linear layer keeps it, b[l] = b0 .. b3. f is
 *     relu    max(v, 0)                silu    v / (1 + e^-v)              tanh
 *     gelu    v (1 + erf(v / sqrt 2)) / 2
 *     gelu_tanh    v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) / 2
 *     sine    sin(omega v)             (Sitzmann et al. 2020, arXiv:2006.09661, SIREN: omega 30 in its first layer)
 * A table of positions ends where its rows end; this goes on, and between them (FLOATER, Liu et al. 2020, arXiv:2003.09229,
 * and the networks of FIRE and of dynamic position biases have that aim). The weights are learned, so they have to be given.
 * Sums are in float64, the bias first, then the inputs in ascending order; each f is right to the last bit or two. */
#include "core/elementary.h"
#include "core/pace.h"
#include "core/store.h"
#include "sequence/positions.h"
#include "sequence/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_continuous_mlp;

/* ---- rows ---- */

enum { RELU, SILU, GELU, GELU_TANH, TANH, SINE };
static const char *const activations[] = { "relu", "silu", "gelu", "gelu_tanh", "tanh", "sine", NULL };

enum { LAYERS = 4, MAX_WIDTH = 1 << 20 };
#define LARGEST 1e60 /* of weights, biases and coords */

typedef struct continuous_mlp {
    posenc_given given;
    pe_positions at;
    pe_times when;
    posenc_tensor coords;
    posenc_tensor w0, b0, w1, b1, w2, b2, w3, b3;
    int activation;
    double omega;
} continuous_mlp;

static const posenc_param rows[] = {
    PE_POSITION_ROWS(continuous_mlp, at, ""),
    PE_TIME_ROWS(continuous_mlp, when),
    { PE_TENSOR(continuous_mlp, coords), .flags = PE_OPTIONAL,
      .doc = "points of any dimension instead of positions or timestamps, [..., in]" },
    { PE_TENSOR(continuous_mlp, w0), .flags = PE_REQUIRED,
      .doc = "weight of the first layer, [out, in]; in = 1 but for coords" },
    { PE_TENSOR(continuous_mlp, b0), .flags = PE_OPTIONAL, .doc = "bias of the first layer, [out]; 0 when absent" },
    { PE_TENSOR(continuous_mlp, w1), .flags = PE_OPTIONAL, .doc = "weight of the second layer, [out, in]" },
    { PE_TENSOR(continuous_mlp, b1), .flags = PE_OPTIONAL, .doc = "bias of the second layer, [out]; 0 when absent" },
    { PE_TENSOR(continuous_mlp, w2), .flags = PE_OPTIONAL, .doc = "weight of the third layer, [out, in]" },
    { PE_TENSOR(continuous_mlp, b2), .flags = PE_OPTIONAL, .doc = "bias of the third layer, [out]; 0 when absent" },
    { PE_TENSOR(continuous_mlp, w3), .flags = PE_OPTIONAL, .doc = "weight of the fourth layer, [out, in]" },
    { PE_TENSOR(continuous_mlp, b3), .flags = PE_OPTIONAL, .doc = "bias of the fourth layer, [out]; 0 when absent" },
    { PE_ENUM(continuous_mlp, activation), .names = activations, .def = RELU,
      .doc = "after every layer but the last; gelu by erf (torch's default), gelu_tanh by its approximation" },
    { PE_REAL(continuous_mlp, omega), .def = 1, .min = -1e30, .max = 1e30,
      .doc = "with activation=sine: multiplies what the sine is taken of" },
};

static const posenc_output outputs[] = {
    { "embedding", "[..., out]", "one row a position (with tokens [B, L, out]), a moment, or a point of coords", NULL },
    { "positions", "[B, L]", "the position of each token; with input_ids or attention_mask", "int64" },
};

/* ---- what the parameters mean ---- */

typedef struct layers {
    int n;
    const posenc_tensor *w[LAYERS], *b[LAYERS]; /* b: NULL where absent */
} layers;

static layers layers_of(const posenc_request *r)
{
    const continuous_mlp *p = r->params;
    const posenc_tensor *w[] = { &p->w0, &p->w1, &p->w2, &p->w3 }, *b[] = { &p->b0, &p->b1, &p->b2, &p->b3 };
    layers l = { 0 };
    for (int i = 0; i < LAYERS; i++) {
        if (pe_given(r, posenc_text("w%d", i).s))
            l.w[i] = w[i];
        if (pe_given(r, posenc_text("b%d", i).s))
            l.b[i] = b[i];
    }
    while (l.n < LAYERS && l.w[l.n])
        l.n++;
    return l;
}

static int64_t inputs(const posenc_request *r)
{
    const continuous_mlp *p = r->params;
    return pe_given(r, "coords") ? p->coords.shape[p->coords.rank - 1] : 1;
}

/* The widest vector on the way, and the products of one pass. */
static void sizes(const layers *l, int64_t *widest, double *products)
{
    *widest = l->w[0]->shape[1];
    *products = 0;
    for (int i = 0; i < l->n; i++) {
        *widest = l->w[i]->shape[0] > *widest ? l->w[i]->shape[0] : *widest;
        *products += (double)posenc_tensor_count(l->w[i]);
    }
}

/* ---- check ---- */

static void check_source(const posenc_request *r, posenc_error *err)
{
    const continuous_mlp *p = r->params;
    const bool coords = pe_given(r, "coords"), times = pe_times_given(r), positions = pe_positions_given(r, &p->at);
    pe_positions_check(r, &p->at, false, err);
    pe_times_check(r, &p->when, false, err);
    if (!coords && !times && !positions)
        posenc_fail(
            err, PE_INVALID, "MISSING_PARAMETER", "num_positions", "absent",
            "a value, it is required: one of num_positions, positions, input_ids / attention_mask, timestamps, coords");
    if (coords + times + positions > 1)
        pe_not_applicable(err, coords ? "coords" : "timestamps", "given with another source",
                          "one of positions, timestamps and coords");
    pe_positions_pad_tokens(r, &p->at, err);
    if (!coords)
        return;
    if (p->coords.rank == 0 || inputs(r) == 0)
        pe_tensor_shaped(&p->coords, -1, NULL, "[..., in], in over 0", err);
    else
        pe_tensor_within(&p->coords, -LARGEST, LARGEST, "at most 1e60 in magnitude", err);
}

/* The shapes of one layer whose input has `in` elements; returns its width, 0 after a fault. */
static int64_t check_layer(const layers *l, int i, int64_t in, posenc_error *err)
{
    const posenc_tensor *w = l->w[i], *b = l->b[i];
    if (!pe_tensor_shaped(w, 2, (int64_t[]){ -1, in }, posenc_text("[out, %lld]", (long long)in).s, err))
        return 0;
    const int64_t out = w->shape[0];
    if (out < 1 || out > MAX_WIDTH) {
        pe_invalid(err, w->name, posenc_text("%lld rows", (long long)out), "1 .. %d rows", MAX_WIDTH);
        return 0;
    }
    bool sound = pe_tensor_within(w, -LARGEST, LARGEST, "at most 1e60 in magnitude", err);
    if (b)
        sound = pe_tensor_shaped(b, 1, &out, posenc_text("[%lld], as %s has rows", (long long)out, w->name).s, err) &&
                pe_tensor_within(b, -LARGEST, LARGEST, "at most 1e60 in magnitude", err) && sound;
    return sound ? out : 0;
}

/* The largest magnitude that the next vector can have: after the sum, before f. */
static double grown(const layers *l, int i, double most)
{
    const int64_t rows_ = l->w[i]->shape[0], columns = l->w[i]->shape[1];
    double result = 0;
    for (int64_t o = 0; o < rows_; o++) {
        double sum = l->b[i] ? fabs(posenc_tensor_get(l->b[i], o)) : 0;
        for (int64_t k = 0; k < columns; k++)
            sum += fabs(posenc_tensor_get(l->w[i], o * columns + k)) * most;
        result = sum > result ? sum : result;
    }
    return result;
}

static double largest_input(const posenc_request *r)
{
    const continuous_mlp *p = r->params;
    double most = 0;
    if (pe_positions_given(r, &p->at))
        return pe_positions_largest(r, &p->at);
    if (pe_times_given(r))
        return ldexp(1, pe_times_exponent(r, &p->when));
    for (int64_t i = 0, n = posenc_tensor_count(&p->coords); i < n; i++)
        most = pe_max(most, fabs(posenc_tensor_get(&p->coords, i)));
    return most;
}

static void check_range(const posenc_request *r, const layers *l, posenc_error *err)
{
    const continuous_mlp *p = r->params;
    double most = largest_input(r);
    for (int i = 0; i < l->n; i++) {
        most = grown(l, i, most);
        if (p->activation == SINE && i + 1 < l->n)
            most *= pe_max(1, fabs(p->omega));
        if (!(most < 1e280)) {
            pe_invalid(err, l->w[i]->name, posenc_text("sums up to %.3g", most), "smaller weights: sums stay below 1e280");
            return;
        }
        if (p->activation == TANH || p->activation == SINE)
            most = pe_min(most, 1);
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const continuous_mlp *p = r->params;
    const layers l = layers_of(r);
    check_source(r, err);
    if (err->n)
        return err->status;
    for (int i = l.n; i < LAYERS; i++) {
        if (l.w[i])
            pe_not_applicable(err, l.w[i]->name, posenc_text("given without w%d", i - 1).s, "the layers before it, too");
        if (l.b[i])
            pe_not_applicable(err, l.b[i]->name, posenc_text("given without w%d", i).s, "the weight of its layer, too");
    }
    if (p->omega != 1 && p->activation != SINE)
        pe_not_applicable(err, "omega", posenc_text("%.17g", p->omega).s, "1, or activation=sine");
    int64_t in = inputs(r);
    for (int i = 0; i < l.n && in; i++)
        in = check_layer(&l, i, in, err);
    if (!err->n)
        check_range(r, &l, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const continuous_mlp *p = r->params;
    const layers l = layers_of(r);
    const posenc_tensor *tokens = pe_positions_tokens(r, &p->at);
    const int64_t width = l.w[l.n - 1]->shape[0];
    int64_t size[PE_MAX_RANK];
    int rank = 2;
    if (pe_given(r, "coords")) {
        rank = p->coords.rank;
        memcpy(size, p->coords.shape, (size_t)rank * sizeof *size);
        size[rank - 1] = width;
    } else if (pe_times_given(r)) {
        size[0] = pe_times_count(r, &p->when);
        size[1] = width;
    } else {
        rank = pe_positions_shape(r, &p->at, 1, &width, size);
    }
    posenc_status st = pe_output(out, "embedding", (posenc_dtype)r->common.dtype, rank, size, err);
    return st || !tokens ? st : pe_output(out, "positions", PE_int64, tokens->rank, tokens->shape, err);
}

static uint64_t scratch(const layers *l)
{
    int64_t widest, count = 0;
    double products;
    sizes(l, &widest, &products);
    for (int i = 0; i < l->n; i++)
        count += posenc_tensor_count(l->w[i]) + l->w[i]->shape[0];
    return (uint64_t)(count + 2 * widest) * sizeof(double);
}

/* Nanoseconds of one f. */
static double price(int activation)
{
    return activation == RELU ? 2 : activation == SINE ? 60 : activation == GELU ? 6000 : 1200;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const continuous_mlp *p = r->params;
    const layers l = layers_of(r);
    int64_t widest;
    double products, hidden = 0;
    sizes(&l, &widest, &products);
    for (int i = 0; i + 1 < l.n; i++)
        hidden += (double)l.w[i]->shape[0];
    const double n = (double)posenc_tensor_count(&r->shape.tensor[0]) / (double)l.w[l.n - 1]->shape[0];
    *out = (posenc_cost){ .ns = 2000 + 4 * products + n * (150 + 0.8 * products + hidden * price(p->activation)),
                          .scratch = scratch(&l) };
}

/* ---- compute ---- */

typedef struct work {
    const continuous_mlp *p;
    int n;
    int64_t in[LAYERS], out[LAYERS];
    double *w[LAYERS], *b[LAYERS]; /* (out, in) (out) */
    double *x, *y;                 /* (widest) what goes into a layer, what comes out */
    pe_pace pace;
} work;

/* v (1 + tanh u) / 2 = v sigmoid(2 u) */
static double gelu_tanh(double v)
{
    if (fabs(v) > 100) /* the sigmoid is 1 or below the smallest float64 */
        return v > 0 ? v : 0;
    const double root = 0x1.9884533d43651p-1; /* sqrt(2 / pi) */
    return v * pe_sigmoid(2 * root * (v + 0.044715 * v * v * v));
}

static double activate(const work *w, double v)
{
    double other;
    switch (w->p->activation) {
    case RELU: return v > 0 ? v : 0;
    case SILU: return v * pe_sigmoid(v);
    case GELU: return pe_dd_times(pe_dd_normal_cdf(v), v).hi;
    case GELU_TANH: return gelu_tanh(v);
    case TANH: return pe_tanh(v);
    default: {
        const pe_dd angle = pe_two_prod(w->p->omega, v);
        pe_sincos(&angle, 1, &v, &other);
        return v;
    }
    }
}

/* w->y = W[l] x + b[l], then f where another layer follows. */
static posenc_status layer(work *w, int l)
{
    const size_t in = (size_t)w->in[l];
    const bool hidden = l + 1 < w->n;
    const int64_t steps = (int64_t)(in + in / 2 + 10) + (hidden ? (int64_t)price(w->p->activation) : 0);
    posenc_status st = PE_OK;
    for (int64_t o = 0; o < w->out[l] && !st; o++) {
        const double *row = w->w[l] + (size_t)o * in;
        double sum = w->b[l][o];
        for (size_t k = 0; k < in; k++)
            sum += row[k] * w->x[k];
        w->y[o] = hidden ? activate(w, sum) : sum;
        st = pe_pace_add(&w->pace, steps);
    }
    return st;
}

/* w->x = the encoding of what stands in w->x. */
static posenc_status forward(work *w)
{
    posenc_status st = PE_OK;
    for (int l = 0; l < w->n && !st; l++) {
        st = layer(w, l);
        double *swap = w->x;
        w->x = w->y;
        w->y = swap;
    }
    return st;
}

/* Weights as float64 behind the two vectors. */
static posenc_status load(work *w, const layers *l, double *memory)
{
    posenc_status st = PE_OK;
    int64_t widest;
    double products;
    sizes(l, &widest, &products);
    w->n = l->n;
    w->x = memory;
    w->y = w->x + widest;
    memory = w->y + widest;
    for (int i = 0; i < l->n && !st; i++) {
        w->out[i] = l->w[i]->shape[0];
        w->in[i] = l->w[i]->shape[1];
        w->w[i] = memory;
        w->b[i] = memory + w->out[i] * w->in[i];
        memory = w->b[i] + w->out[i];
        memset(w->b[i], 0, (size_t)w->out[i] * sizeof *w->b[i]);
        st = pe_tensor_doubles(l->w[i], w->w[i], &w->pace);
        if (!st && l->b[i])
            st = pe_tensor_doubles(l->b[i], w->b[i], &w->pace);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const continuous_mlp *p = r->params;
    const layers l = layers_of(r);
    const posenc_tensor *dst = pe_tensor(out, "embedding"), *positions = pe_tensor(out, "positions");
    const bool coords = pe_given(r, "coords"), times = pe_times_given(r);
    const int64_t in = inputs(r), width = l.w[l.n - 1]->shape[0], n = posenc_tensor_count(dst) / width;
    pe_time_reader time = pe_times_start(r, &p->when);
    work w = { .p = p, .pace = { .ctx = ctx } };
    double *memory = malloc(scratch(&l));
    if (!memory)
        return pe_no_memory("memory", err);

    pe_source source;
    posenc_status st = load(&w, &l, memory);
    if (!st)
        st = pe_positions_source(r, &p->at, positions ? positions->data : NULL, &w.pace, &source);
    for (int64_t i = 0; i < n && !st; i++) {
        for (int64_t k = 0; k < in; k++)
            w.x[k] = coords  ? posenc_tensor_get(&p->coords, i * in + k)
                     : times ? pe_times_next(&time).hi
                             : pe_position(&source, i);
        if (!(st = forward(&w)))
            st = pe_store(dst, i * width, w.x, (size_t)width, err);
    }
    free(memory);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_continuous_mlp = {
    .name = "continuous_mlp",
    .family = "absolute",
    .title = "a small network of positions or moments",
    .source = "Liu et al. 2020, FLOATER, arXiv:2003.09229; Sitzmann et al. 2020, SIREN, arXiv:2006.09661",
    .formula = "x[0]: position, or (timestamp - time_origin) / time_unit, or coords\n"
               "x[l + 1] = f(w_l x[l] + b_l), l = 0 .. layers - 1; no f after the last layer; sums in float64, bias first\n"
               "f: relu, silu, gelu (by erf), gelu_tanh, tanh, or sin(omega v)",
    .example = "positions=0,0.5,1,7&w0=[[1],[-0.5],[0.25]]&b0=[0.1,0.2,0.3]&w1=[[1,2,3],[0,1,-1]]&activation=silu",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(continuous_mlp, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
