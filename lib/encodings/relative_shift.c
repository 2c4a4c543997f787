/* relative_shift.c - the matrix that moves a sinusoid by k positions: why sinusoids express relative positions.
 *
 *     PE(p + k) = M(k) PE(p)          for every position p
 *
 * PE is the row of `sinusoidal`, or of continuous_sinusoidal, with the same convention, as a column. M turns each pair
 * (sine, cosine) of frequency w by the angle a = scale k w:
 *     sin(x + a) =  cos(a) sin(x) + sin(a) cos(x)
 *     cos(x + a) = -sin(a) sin(x) + cos(a) cos(x)
 * where the layout says in which columns the pair stands. M(0) is the identity, M(j + k) = M(j) M(k), M(-k) is M(k)
 * transposed. A column of zeros (odd_dim=zero_pad) has 1 on the diagonal. A sine without its cosine has no such matrix, so
 * the other odd widths are refused.
 * Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5. */
#include "sequence/convention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_relative_shift;

/* ---- rows ---- */

typedef struct relative_shift {
    posenc_given given;
    double k;
    pe_convention of;
} relative_shift;

static const posenc_param rows[] = {
    { PE_REAL(relative_shift, k), .flags = PE_REQUIRED, .min = -0x1p53, .max = 0x1p53,
      .doc = "the distance: an integer or a fraction, also negative" },
    PE_CONVENTION_WIDTH(relative_shift, of, "width of the encoding"),
    PE_CONVENTION_ROWS(relative_shift, of),
};

static const posenc_output outputs[] = {
    { "matrix", "[embedding_dim, embedding_dim]", "M(k): row i gives column i of the encoding at p + k", NULL },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const relative_shift *p = r->params;
    const pe_sines s = pe_convention_sines(r, &p->of);
    pe_convention_check(r, &p->of, &s, 53, err);
    if (p->of.odd_dim == PE_ODD_SIN_EXTRA || p->of.odd_dim == PE_ODD_ROUND_UP_TRUNCATE)
        pe_invalid(err, "odd_dim", posenc_text("%s", pe_odd_words[p->of.odd_dim]),
                   "error or zero_pad: a sine without its cosine (or the reverse) has no matrix");
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const relative_shift *p = r->params;
    const int64_t size[] = { p->of.embedding_dim, p->of.embedding_dim };
    return pe_output(out, "matrix", (posenc_dtype)r->common.dtype, 2, size, err);
}

static uint64_t scratch(const relative_shift *p, const pe_columns *c)
{
    return c->pairs * (2 * sizeof(pe_dd) + 2 * sizeof(double)) + (uint64_t)p->of.embedding_dim * 3 * sizeof(double);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const relative_shift *p = r->params;
    const pe_sines s = pe_convention_sines(r, &p->of);
    const pe_columns c = pe_sines_columns(&s);
    const double d = (double)p->of.embedding_dim;
    *out = (posenc_cost){ .ns = 20e3 + 200 * d + 0.3 * d * d, .scratch = scratch(p, &c) };
}

/* ---- the formula ---- */

/* Of every column: the diagonal element, the column of its partner (-1: none), and the element there. */
typedef struct turns {
    double *self, *other;
    int64_t *partner;
} turns;

static void fill(const pe_columns *c, size_t d, const double *sine, const double *cosine, turns *t)
{
    for (size_t i = 0; i < d; i++) {
        t->self[i] = 1;
        t->partner[i] = -1;
    }
    for (size_t i = 0; i < c->pairs; i++) {
        const size_t s = c->sin0 + i * c->step, k = c->cos0 + i * c->step;
        t->self[s] = t->self[k] = cosine[i];
        t->partner[s] = (int64_t)k;
        t->partner[k] = (int64_t)s;
        t->other[s] = sine[i];
        t->other[k] = 0 - sine[i]; /* not -0 */
    }
}

static posenc_status write_matrix(const turns *t, const posenc_tensor *dst, pe_pace *pace)
{
    const size_t d = (size_t)dst->shape[0], size = posenc_dtype_size(dst->dtype), row_size = d * size;
    posenc_status st;
    for (size_t i = 0; i < d; i++) {
        char *row = (char *)dst->data + i * row_size;
        memset(row, 0, row_size); /* 0 in every dtype */
        posenc_convert(dst->dtype, row + i * size, &t->self[i], 1);
        if (t->partner[i] >= 0)
            posenc_convert(dst->dtype, row + (size_t)t->partner[i] * size, &t->other[i], 1);
        if ((st = pe_pace_add(pace, (int64_t)row_size / 2 + 20)))
            return st;
    }
    return PE_OK;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const relative_shift *p = r->params;
    const size_t d = (size_t)p->of.embedding_dim;
    const pe_sines s = pe_convention_sines(r, &p->of);
    const pe_columns c = pe_sines_columns(&s);
    pe_pace pace = { .ctx = ctx };
    pe_dd *w = malloc(scratch(p, &c));
    if (!w)
        return pe_no_memory("memory", err);
    pe_dd *angle = w + c.pairs;
    double *sine = (double *)(angle + c.pairs), *cosine = sine + c.pairs;
    turns t = { .self = cosine + c.pairs, .other = cosine + c.pairs + d };
    t.partner = (int64_t *)(t.other + d);

    posenc_status st = pe_sines_frequencies(&s, w, ctx);
    for (size_t i = 0; i < c.pairs; i++)
        angle[i] = pe_dd_times(w[i], p->k);
    for (size_t first = 0; first < c.pairs && !st; first += 1024) {
        const size_t n = c.pairs - first < 1024 ? c.pairs - first : 1024;
        pe_sincos(angle + first, n, sine + first, cosine + first);
        st = pe_pace_add(&pace, (int64_t)n * 40);
    }
    if (!st) {
        fill(&c, d, sine, cosine, &t);
        st = write_matrix(&t, pe_tensor(out, "matrix"), &pace);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_relative_shift = {
    .name = "relative_shift",
    .family = "use",
    .title = "the matrix that moves a sinusoid by k positions",
    .source = "Vaswani et al. 2017, Attention is all you need, arXiv:1706.03762, section 3.5",
    .formula = "PE(p + k) = matrix PE(p) for every p; for each pair of columns, with a = scale * k * w[i]:\n"
               "matrix[sine][sine] = cos(a), matrix[sine][cosine] = sin(a)\n"
               "matrix[cosine][sine] = -sin(a), matrix[cosine][cosine] = cos(a)\n"
               "w[i] as in sinusoidal: min_timescale * base^(-i / (embedding_dim / 2 - downscale_freq_shift))",
    .example = "embedding_dim=8&k=3",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(relative_shift, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
