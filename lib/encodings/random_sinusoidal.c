/* random_sinusoidal.c - random Fourier features of a kernel: sinusoids of random frequency and phase.
 *
 *     embedding[j] = sqrt(2 / m) cos(sum over k of x[k] matrix[k][j] + phase[j])         j = 0 .. m - 1
 *
 * matrix[k][j] = sigma * z[k m + j], z standard normal, stream 0; phase[j] = 2 pi u[j], u uniform in [0, 1), stream 1; both
 * of Philox4x32-10 with key `seed` (core/random.h). Then the dot product of two rows is, on average,
 * exp(-sigma^2 |x - y|^2 / 2), within about 1 / sqrt(m): a function of the distance alone.
 * x is a position, or a vector of coords. Source: Rahimi and Recht 2007, Random features for large-scale kernel machines,
 * algorithm 1. */
#include "core/elementary.h"
#include "core/random.h"
#include "core/store.h"
#include "sequence/features.h"
#include "sequence/positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_random_sinusoidal;

/* ---- rows ---- */

typedef struct random_sinusoidal {
    posenc_given given;
    pe_positions at;
    posenc_tensor coords, matrix, phase;
    int64_t m, seed;
    double sigma;
} random_sinusoidal;

static const posenc_param rows[] = {
    PE_POSITION_ROWS(random_sinusoidal, at, ""),
    { PE_TENSOR(random_sinusoidal, coords), .flags = PE_OPTIONAL,
      .doc = "points of any dimension instead of positions, [..., in]" },
    { PE_INT(random_sinusoidal, m), .flags = PE_DERIVED, .min = 1, .max = 1 << 20,
      .doc = "number of sinusoids; when absent, as matrix or phase says" },
    { PE_REAL(random_sinusoidal, sigma), .flags = PE_OPTIONAL, .min = 1e-30, .max = 1e30,
      .doc = "standard deviation of the drawn frequencies [rad per position]: the kernel's width is 1 / sigma" },
    { PE_INT(random_sinusoidal, seed), .flags = PE_OPTIONAL, .max = 0x1p53 - 1,
      .doc = "key of Philox4x32-10, which draws what of matrix and phase is not given; required then" },
    { PE_TENSOR(random_sinusoidal, matrix), .flags = PE_OPTIONAL, .doc = "frequencies, [in, m], instead of drawing them" },
    { PE_TENSOR(random_sinusoidal, phase), .flags = PE_OPTIONAL, .doc = "phases [rad], [m], instead of drawing them" },
};

static const posenc_output outputs[] = {
    { "embedding", "[..., m]", "one row a position (with tokens [B, L, m]), or a point of coords", NULL },
    { "positions", "[B, L]", "the position of each token; with input_ids or attention_mask", "int64" },
    { "matrix", "[in, m]", "the drawn frequencies; given back as `matrix` they give the same result", "float64" },
    { "phase", "[m]", "the drawn phases; given back as `phase` they give the same result", "float64" },
};

/* ---- rules ---- */

static int64_t inputs(const posenc_request *r)
{
    const random_sinusoidal *p = r->params;
    return pe_given(r, "coords") ? p->coords.shape[p->coords.rank - 1] : 1;
}

static bool bounded(const posenc_tensor *t, posenc_error *err)
{
    return pe_tensor_within(t, -PE_FEATURES_LARGEST, PE_FEATURES_LARGEST, "at most 1e100 in magnitude", err);
}

static void check_source(const posenc_request *r, posenc_error *err)
{
    const random_sinusoidal *p = r->params;
    const posenc_tensor *t = &p->coords;
    const bool coords = pe_given(r, "coords");
    pe_positions_check(r, &p->at, !coords, err);
    pe_positions_pad_tokens(r, &p->at, err);
    if (!coords)
        return;
    if (pe_positions_given(r, &p->at))
        pe_not_applicable(err, "coords", "given with positions", "either coords or positions");
    if (t->rank == 0 || t->shape[t->rank - 1] == 0)
        pe_tensor_shaped(t, -1, NULL, "[..., in], in over 0", err);
    else
        bounded(t, err);
}

static void check_drawn(posenc_request *r, posenc_error *err)
{
    random_sinusoidal *p = r->params;
    const bool matrix = pe_given(r, "matrix"), phase = pe_given(r, "phase");
    const int64_t any[2] = { inputs(r), -1 };
    int64_t m = pe_given(r, "m") ? p->m : -1;
    if (matrix &&
        pe_tensor_shaped(&p->matrix, 2, (int64_t[]){ any[0], m },
                         posenc_text(m < 0 ? "[%lld, m]" : "[%lld, %lld]", (long long)any[0], (long long)m).s, err) &&
        bounded(&p->matrix, err))
        m = p->matrix.shape[1];
    if (phase && pe_tensor_shaped(&p->phase, 1, &m, m < 0 ? "[m]" : posenc_text("[%lld]", (long long)m).s, err) &&
        bounded(&p->phase, err))
        m = p->phase.shape[0];
    if (m == 0)
        pe_invalid(err, matrix ? "matrix" : "phase", posenc_text("no sinusoid"), "at least one");
    if (m < 0 && !matrix && !phase)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "m", "absent",
                    "a value, it is required where neither matrix nor phase is given");
    p->m = m;
    const bool draws = !matrix || !phase;
    if (draws && !pe_given(r, "seed"))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "seed", "absent",
                    "a value, it is required where matrix or phase is not given");
    if (!draws && pe_given(r, "seed"))
        pe_not_applicable(err, "seed", "given with matrix and phase", "absent: it is for drawing");
    if (!matrix && !pe_given(r, "sigma"))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "sigma", "absent",
                    "a value, it is required where no matrix is given");
    if (matrix && pe_given(r, "sigma"))
        pe_not_applicable(err, "sigma", "given with a matrix", "absent: it is for drawing");
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    check_source(r, err);
    if (!err->n)
        check_drawn(r, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const random_sinusoidal *p = r->params;
    const posenc_tensor *tokens = pe_positions_tokens(r, &p->at), *t = &p->coords;
    const int64_t in = inputs(r);
    int64_t size[PE_MAX_RANK];
    int rank;
    if (pe_given(r, "coords")) {
        memcpy(size, t->shape, (size_t)t->rank * sizeof *size);
        size[t->rank - 1] = p->m;
        rank = t->rank;
    } else {
        rank = pe_positions_shape(r, &p->at, 1, &p->m, size);
    }
    posenc_status st = pe_output(out, "embedding", (posenc_dtype)r->common.dtype, rank, size, err);
    if (!st && tokens)
        st = pe_output(out, "positions", PE_int64, tokens->rank, tokens->shape, err);
    if (!st && !pe_given(r, "matrix"))
        st = pe_output(out, "matrix", PE_float64, 2, (int64_t[]){ in, p->m }, err);
    if (!st && !pe_given(r, "phase"))
        st = pe_output(out, "phase", PE_float64, 1, &p->m, err);
    return st;
}

static uint64_t scratch(const posenc_request *r)
{
    const random_sinusoidal *p = r->params;
    const uint64_t in = (uint64_t)inputs(r), m = (uint64_t)p->m;
    return in * sizeof(pe_dd) + (m + (pe_given(r, "matrix") ? in * m : 0) + (pe_given(r, "phase") ? m : 0)) * sizeof(double);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const random_sinusoidal *p = r->params;
    const double in = (double)inputs(r), m = (double)p->m, n = (double)posenc_tensor_count(&r->shape.tensor[0]) / m;
    *out = (posenc_cost){ .ns = 2000 + n * (60 + m * (40 + 6 * in)) + (pe_given(r, "matrix") ? 2 : 500) * in * m +
                                (pe_given(r, "phase") ? 2 : 40) * m,
                          .scratch = scratch(r) };
}

/* ---- compute ---- */

typedef struct work {
    size_t in, m;
    const double *matrix, *phase; /* (in, m) (m) */
    pe_dd *x;                     /* (in) */
    double *row;                  /* (m) */
    pe_dd gain;                   /* sqrt(2 / m) */
    pe_pace pace;
} work;

/* sqrt(2 / m) to the last bit or two of a double-double: one step of Newton's method from the float64. */
static pe_dd gain(double m)
{
    const double root = sqrt(2 / m);
    const pe_dd square = pe_two_prod(root, root),
                rest = pe_dd_add(pe_dd_div((pe_dd){ 2, 0 }, (pe_dd){ m, 0 }), pe_dd_neg(square));
    return pe_dd_add((pe_dd){ root, 0 }, (pe_dd){ rest.hi / (2 * root), 0 });
}

static posenc_status make_row(work *w)
{
    enum { BLOCK = 64 };
    pe_dd angle[BLOCK];
    double sine[BLOCK], cosine[BLOCK];
    posenc_status st;
    for (size_t first = 0; first < w->m; first += BLOCK) {
        const size_t n = w->m - first < BLOCK ? w->m - first : BLOCK;
        pe_features_dot(w->x, w->in, w->matrix, w->m, first, n, angle);
        for (size_t j = 0; j < n; j++)
            angle[j] = pe_dd_add(angle[j], (pe_dd){ w->phase[first + j], 0 });
        pe_sincos(angle, n, sine, cosine);
        for (size_t j = 0; j < n; j++)
            w->row[first + j] = pe_dd_times(w->gain, cosine[j]).hi;
        if ((st = pe_pace_add(&w->pace, (int64_t)(n * (45 + 8 * w->in)))))
            return st;
    }
    return pe_pace_add(&w->pace, 100);
}

/* The phases: u in [0, 1) becomes 2 pi u. */
static posenc_status draw_phases(uint64_t seed, size_t m, double *phase, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (size_t first = 0; first < m && !st; first += 1024) {
        const size_t n = m - first < 1024 ? m - first : 1024;
        pe_random_uniform(seed, 1, first, n, phase + first);
        for (size_t j = first; j < first + n; j++)
            phase[j] = pe_dd_times(pe_two_pi, phase[j]).hi;
        st = pe_pace_add(pace, (int64_t)n * 100);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const random_sinusoidal *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "embedding"), *positions = pe_tensor(out, "positions");
    const bool coords = pe_given(r, "coords"), matrix = pe_given(r, "matrix"), phase = pe_given(r, "phase");
    work w = { .in = (size_t)inputs(r), .m = (size_t)p->m, .gain = gain((double)p->m), .pace = { .ctx = ctx } };
    w.x = malloc(scratch(r));
    if (!w.x)
        return pe_no_memory("memory", err);
    w.row = (double *)(w.x + w.in);
    double *m = matrix ? w.row + w.m : pe_tensor(out, "matrix")->data;
    double *b = phase ? w.row + w.m + (matrix ? w.in * w.m : 0) : pe_tensor(out, "phase")->data;
    w.matrix = m;
    w.phase = b;

    pe_source source;
    posenc_status st = pe_positions_source(r, &p->at, positions ? positions->data : NULL, &w.pace, &source);
    if (!st && matrix)
        st = pe_tensor_doubles(&p->matrix, m, &w.pace);
    else if (!st)
        st = pe_features_draw((uint64_t)p->seed, 0, p->sigma, w.in * w.m, m, &w.pace);
    if (!st && phase)
        st = pe_tensor_doubles(&p->phase, b, &w.pace);
    else if (!st)
        st = draw_phases((uint64_t)p->seed, w.m, b, &w.pace);

    const int64_t n = posenc_tensor_count(dst) / p->m;
    for (int64_t i = 0; i < n && !st; i++) {
        for (size_t k = 0; k < w.in; k++)
            w.x[k] = (pe_dd){ coords ? posenc_tensor_get(&p->coords, i * (int64_t)w.in + (int64_t)k)
                                     : pe_position(&source, i),
                              0 };
        if (!(st = make_row(&w)))
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)i * w.m * posenc_dtype_size(dst->dtype), w.row, w.m);
    }
    free(w.x);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_random_sinusoidal = {
    .name = "random_sinusoidal",
    .family = "absolute",
    .title = "random Fourier features of a Gaussian kernel",
    .source = "Rahimi and Recht 2007, Random features for large-scale kernel machines, NIPS 20, algorithm 1",
    .formula = "embedding[j] = sqrt(2 / m) cos(sum over k of x[k] matrix[k][j] + phase[j]); x: position or coords\n"
               "matrix[k][j] = sigma * z[k m + j], phase[j] = 2 pi u[j], z standard normal and u uniform\n"
               "by " PE_RANDOM_NAME " with key seed, streams 0 and 1; on average\n"
               "the dot product of two rows is exp(-sigma^2 |x - y|^2 / 2)",
    .example = "num_positions=8&m=16&sigma=0.5&seed=1",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(random_sinusoidal, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
