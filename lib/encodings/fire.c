/* fire.c - FIRE: a small network on distances that are relative to how far along the query is.
 *
 *     x[i, j] = psi(p[i] - p[j]) / (psi(max(p[i], T)) + eps)        psi(v) = ln(|c v| + 1), T = |L_multiplier * L|
 *     bias[h] = b2[h] + sum over m of w2[h, m] * relu(w1[m] x + b1[m])
 *
 * p are the positions: 0 .. seq_length - 1, or those given. Keys on either side of the query get their bias.
 * Source: Li et al. 2024, arXiv:2310.04418, section 3; for the threshold's multiplier, eps beside psi and |c v|
 * FIRE.forward of mcleish7/arithmetic, whose training draws random sorted positions: give them as `positions`. */
#include "core/elementary.h"
#include "core/store.h"
#include "sequence/distances.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_fire;

/* ---- rows ---- */

typedef struct fire {
    posenc_given given;
    int64_t num_heads, seq_length;
    posenc_reals positions;
    double c, L, L_multiplier, eps;
    int64_t mlp_width;
    posenc_tensor w1, b1, w2, b2;
} fire;

static const posenc_param rows[] = {
    { PE_INT(fire, num_heads), .flags = PE_DERIVED, .min = 1, .max = 1 << 20, .doc = "heads; when absent the rows of w2" },
    { PE_INT(fire, seq_length), .flags = PE_DERIVED, .min = 0, .max = PE_MOST_TOKENS,
      .doc = "queries and keys, at positions 0, 1, ...; when absent as many as positions" },
    { PE_REALS(fire, positions), .flags = PE_OPTIONAL, .min = 0, .max = 0x1p53,
      .doc = "the positions themselves, as drawn in training; when absent 0, 1, ..." },
    { PE_REAL(fire, c), .def = 0.1, .min = -1e100, .max = 1e100, .doc = "scale of the positions inside the logarithm" },
    { PE_REAL(fire, L), .def = 512, .min = -1e100, .max = 1e100,
      .doc = "threshold: earlier queries are normalized as if they stood here" },
    { PE_REAL(fire, L_multiplier), .def = 1, .min = -1e50, .max = 1e50, .doc = "learned factor of L" },
    { PE_REAL(fire, eps), .def = 1e-6, .min = 1e-30, .max = 1e30, .doc = "added to the divisor" },
    { PE_INT(fire, mlp_width), .flags = PE_DERIVED, .min = 1, .max = 1 << 20,
      .doc = "hidden units; when absent the rows of w1" },
    { PE_TENSOR(fire, w1), .flags = PE_REQUIRED, .doc = "weight of the hidden layer, [mlp_width, 1]" },
    { PE_TENSOR(fire, b1), .flags = PE_REQUIRED, .doc = "bias of the hidden layer, [mlp_width]" },
    { PE_TENSOR(fire, w2), .flags = PE_REQUIRED, .doc = "weight of the output layer, [num_heads, mlp_width]" },
    { PE_TENSOR(fire, b2), .flags = PE_REQUIRED, .doc = "bias of the output layer, [num_heads]" },
};

static const posenc_output outputs[] = {
    { "bias", "[num_heads, seq_length, seq_length]", "added to the scores", NULL },
};

/* ---- the formula ---- */

static double psi(const fire *p, double distance) { return pe_log1p(fabs(p->c * distance)); }

static double threshold(const fire *p) { return fabs(p->L_multiplier * p->L); }

static double divisor(const fire *p, double position) { return psi(p, pe_max(position, threshold(p))) + p->eps; }

static double position(const fire *p, int64_t i) { return p->positions.n ? p->positions.v[i] : (double)i; }

/* ---- check ---- */

static bool check_shapes(const posenc_request *r, fire *p, posenc_error *err)
{
    const bool width = pe_given(r, "mlp_width"), heads = pe_given(r, "num_heads");
    const int64_t w1[] = { width ? p->mlp_width : -1, 1 };
    if (!pe_tensor_shaped(&p->w1, 2, w1, "[mlp_width, 1]", err))
        return false;
    p->mlp_width = p->w1.shape[0];
    const int64_t w2[] = { heads ? p->num_heads : -1, p->mlp_width };
    bool fits = pe_tensor_shaped(&p->b1, 1, &p->mlp_width, "[mlp_width]", err);
    if (!pe_tensor_shaped(&p->w2, 2, w2, "[num_heads, mlp_width]", err))
        return false;
    p->num_heads = p->w2.shape[0];
    fits = pe_tensor_shaped(&p->b2, 1, &p->num_heads, "[num_heads]", err) && fits;
    if (p->mlp_width < 1 || p->mlp_width > 1 << 20)
        pe_invalid(err, "w1", posenc_text("%lld hidden units", (long long)p->mlp_width), "1 .. 2^20 of them");
    if (p->num_heads < 1 || p->num_heads > 1 << 20)
        pe_invalid(err, "w2", posenc_text("%lld heads", (long long)p->num_heads), "1 .. 2^20 of them");
    return fits && !err->n;
}

/* No element leaves dtype: |bias[h]| <= |b2| + sum of |w2| (|w1| X + |b1|) with X the largest x there may be. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const fire *p = r->params;
    double least = p->seq_length ? position(p, 0) : 0, most = least;
    for (size_t i = 0; i < p->positions.n; i++) {
        least = pe_min(least, p->positions.v[i]);
        most = pe_max(most, p->positions.v[i]);
    }
    if (!p->positions.n && p->seq_length)
        most = (double)(p->seq_length - 1);
    const double x = psi(p, most - least) / divisor(p, least), finite = pe_dtype_largest((posenc_dtype)r->common.dtype);
    for (int64_t h = 0; h < p->num_heads; h++) {
        double bound = fabs(posenc_tensor_get(&p->b2, h));
        for (int64_t m = 0; m < p->mlp_width; m++)
            bound += fabs(posenc_tensor_get(&p->w2, h * p->mlp_width + m)) *
                     (fabs(posenc_tensor_get(&p->w1, m)) * x + fabs(posenc_tensor_get(&p->b1, m)));
        if (bound <= finite)
            continue;
        pe_invalid(err, posenc_text("w2[%lld]", (long long)h).s, posenc_text("a bias of up to %g", bound),
                   "weights that keep every bias of the head below %g, in %s", finite,
                   posenc_dtype_name((posenc_dtype)r->common.dtype));
        return;
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    fire *p = r->params;
    const bool length = pe_given(r, "seq_length"), list = pe_given(r, "positions");
    if (!length && !list)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "seq_length", "absent", "a value, or positions");
    if (length && list && (int64_t)p->positions.n != p->seq_length)
        pe_invalid(err, "positions", posenc_text("%zu values", p->positions.n), "%lld, as seq_length says",
                   (long long)p->seq_length);
    if (list)
        p->seq_length = (int64_t)p->positions.n;
    if (check_shapes(r, p, err) && !err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const fire *p = r->params;
    const int64_t size[] = { p->num_heads, p->seq_length, p->seq_length };
    return pe_output(out, "bias", (posenc_dtype)r->common.dtype, 3, size, err);
}

enum { BLOCK = 64 }; /* columns at a time */

typedef struct network {
    const double *w1, *b1, *w2, *b2; /* (m) (m) (heads, m) (heads) */
    double *hidden;                  /* (m, BLOCK) */
    double *psi;                     /* (n) of distance 0, 1, ...; only where positions are 0, 1, ... */
} network;

static size_t memory(const fire *p)
{
    const size_t m = (size_t)p->mlp_width, heads = (size_t)p->num_heads;
    return sizeof(double) * (2 * m + heads * m + heads + m * BLOCK + (p->positions.n ? 0 : (size_t)p->seq_length));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const fire *p = r->params;
    const double n = (double)p->seq_length, m = (double)p->mlp_width, heads = (double)p->num_heads;
    out->ns = 5000 + n * n * (4 + 0.4 * m + heads * (0.4 * m + 1.5)) + 800 * (p->positions.n ? n * n : n) + 2 * m * heads;
    out->scratch = memory(p);
}

/* ---- compute ---- */

static double *take(double **room, size_t n)
{
    double *start = *room;
    *room += n;
    return start;
}

static posenc_status read(const posenc_tensor *t, double **room, const double **to, pe_pace *pace)
{
    double *copy = take(room, (size_t)posenc_tensor_count(t));
    *to = copy;
    return pe_tensor_doubles(t, copy, pace);
}

/* n columns of row i, from column `first` on: x (n) through the network, into all heads of dst. */
static posenc_status run(const fire *p, const network *net, const double *x, int64_t n, int64_t i, int64_t first,
                         const posenc_tensor *dst, pe_pace *pace)
{
    const int64_t m = p->mlp_width, length = p->seq_length;
    const size_t size = posenc_dtype_size(dst->dtype);
    double v[BLOCK];
    posenc_status st = PE_OK;
    for (int64_t u = 0; u < m; u++)
        for (int64_t j = 0; j < n; j++) {
            const double s = net->w1[u] * x[j] + net->b1[u];
            net->hidden[u * BLOCK + j] = s > 0 ? s : 0;
        }
    st = pe_pace_add(pace, m * n);
    for (int64_t h = 0; h < p->num_heads && !st; h++) {
        for (int64_t j = 0; j < n; j++)
            v[j] = net->b2[h] + 0.0;
        for (int64_t u = 0; u < m; u++)
            for (int64_t j = 0; j < n; j++)
                v[j] += net->w2[h * m + u] * net->hidden[u * BLOCK + j];
        posenc_convert(dst->dtype, (char *)dst->data + (size_t)((h * length + i) * length + first) * size, v, (size_t)n);
        st = pe_pace_add(pace, m * n + 3 * n);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const fire *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "bias");
    const int64_t n = p->seq_length;
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    if (!n)
        return PE_OK;
    double *block = malloc(memory(p)), *room = block, x[BLOCK];
    if (!block)
        return pe_no_memory("memory", err);
    network net;
    if ((st = read(&p->w1, &room, &net.w1, &pace)) || (st = read(&p->b1, &room, &net.b1, &pace)) ||
        (st = read(&p->w2, &room, &net.w2, &pace)) || (st = read(&p->b2, &room, &net.b2, &pace)))
        goto done;
    if ((st = pe_pace_touch(&pace, dst->data, posenc_tensor_size(dst))))
        goto done;
    net.hidden = take(&room, (size_t)p->mlp_width * BLOCK);
    net.psi = p->positions.n ? NULL : take(&room, (size_t)n);
    for (int64_t d = 0; net.psi && d < n && !st; d++) {
        net.psi[d] = psi(p, (double)d);
        st = pe_pace_add(&pace, 1500);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        const double below = divisor(p, position(p, i));
        st = pe_pace_add(&pace, 1500);
        for (int64_t first = 0; first < n && !st; first += BLOCK) {
            const int64_t columns = n - first < BLOCK ? n - first : BLOCK;
            for (int64_t j = 0; j < columns; j++) {
                const int64_t apart = i > first + j ? i - first - j : first + j - i;
                x[j] = (net.psi ? net.psi[apart] : psi(p, position(p, i) - position(p, first + j))) / below;
            }
            if (!(st = pe_pace_add(&pace, columns * (net.psi ? 10 : 1500))))
                st = run(p, &net, x, columns, i, first, dst, &pace);
        }
    }
done:
    free(block);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_fire = {
    .name = "fire",
    .family = "relative",
    .title = "functional interpolation of relative positions (FIRE)",
    .source = "Li et al. 2024, Functional interpolation for relative positions, arXiv:2310.04418; mcleish7/arithmetic, FIRE",
    .formula = "x = psi(p[i] - p[j]) / (psi(max(p[i], |L_multiplier L|)) + eps), psi(v) = ln(|c v| + 1)\n"
               "bias[h] = b2[h] + sum over m of w2[h, m] relu(w1[m] x + b1[m])",
    .example = "seq_length=8&w1=[[1],[-0.5],[0.25]]&b1=[0,0.5,-0.1]&w2=[[1,0.5,-1],[0.25,-1,2]]&b2=[0,0.1]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(fire, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
