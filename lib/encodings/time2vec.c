/* time2vec.c - Time2Vec: one linear channel of time, and sines of learned frequencies and phases.
 *
 *     t = (timestamp - time_origin) / time_unit
 *     linear channel    w0 t + b0
 *     other channels    sin(w[k] t + b[k])          k = 0 .. embedding_dim - 2          (or cos)
 *
 * Source: Kazemi et al. 2019, arXiv:1907.05321, section 3. The linear channel is the first in the paper and in mTAN,
 * learn_time_embedding; in Time2Vec-PyTorch (ojus1) it is the last. The weights are learned, so they have to be given. */
#include "core/pace.h"
#include "core/store.h"
#include "sequence/times.h"

#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_time2vec;

/* ---- rows ---- */

enum { SINE, COSINE };
enum { FIRST, LAST };
static const char *const activations[] = { "sine", "cosine", NULL };
static const char *const places[] = { "first", "last", NULL };

#define LARGEST 1e100 /* weight or bias: no angle overflows */

typedef struct time2vec {
    posenc_given given;
    pe_times when;
    int64_t embedding_dim;
    int activation, linear_position;
    posenc_tensor w0, b0, w, b;
} time2vec;

static const posenc_param rows[] = {
    PE_TIME_ROWS(time2vec, when),
    { PE_INT(time2vec, embedding_dim), .flags = PE_DERIVED, .min = 1, .max = 0x1p31,
      .doc = "width, with the linear channel; when absent, as w says: one more than it has elements" },
    { PE_ENUM(time2vec, activation), .names = activations, .def = SINE, .doc = "of all channels but the linear one" },
    { PE_ENUM(time2vec, linear_position), .names = places, .def = FIRST,
      .doc = "where the linear channel stands: first in the paper and in mTAN, last in Time2Vec-PyTorch" },
    { PE_TENSOR(time2vec, w0), .flags = PE_REQUIRED, .doc = "weight of the linear channel, one element: [1, 1], [1] or []" },
    { PE_TENSOR(time2vec, b0), .flags = PE_REQUIRED, .doc = "bias of the linear channel, one element" },
    { PE_TENSOR(time2vec, w), .flags = PE_REQUIRED, .doc = "frequencies, [1, embedding_dim - 1] or [embedding_dim - 1]" },
    { PE_TENSOR(time2vec, b), .flags = PE_REQUIRED, .doc = "phases, in as many elements as w" },
};

static const posenc_output outputs[] = {
    { "embedding", "[timestamps, embedding_dim]", "one row a moment", NULL },
};

/* ---- rules ---- */

/* [n], or [1, n], or the column [n, 1] of a linear layer with one input; n = 1 also without an axis. */
static bool is_row(const posenc_tensor *t, int64_t n, const char *words, posenc_error *err)
{
    const bool fits = t->rank == 0 || t->rank == 1 || (t->rank == 2 && (t->shape[0] == 1 || t->shape[1] == 1));
    if (fits && (n < 0 || posenc_tensor_count(t) == n))
        return pe_tensor_within(t, -LARGEST, LARGEST, "at most 1e100 in magnitude", err);
    return pe_tensor_shaped(t, -1, NULL, words, err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    time2vec *p = r->params;
    pe_times_check(r, &p->when, true, err);
    is_row(&p->w0, 1, "[1, 1], [1] or [], one element", err);
    is_row(&p->b0, 1, "[1], one element", err);
    if (!is_row(&p->w, -1, "[1, n] or [n]", err))
        return err->status;
    const int64_t n = posenc_tensor_count(&p->w);
    is_row(&p->b, n, posenc_text("[%lld], as many elements as w", (long long)n).s, err);
    if (pe_given(r, "embedding_dim") && p->embedding_dim != n + 1)
        pe_invalid(err, "embedding_dim", posenc_text("%lld", (long long)p->embedding_dim),
                   "%lld: the linear channel and the %lld of w", (long long)n + 1, (long long)n);
    p->embedding_dim = n + 1;
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const time2vec *p = r->params;
    const int64_t size[] = { pe_times_count(r, &p->when), p->embedding_dim };
    return pe_output(out, "embedding", (posenc_dtype)r->common.dtype, 2, size, err);
}

static uint64_t scratch(const time2vec *p) { return (uint64_t)p->embedding_dim * (3 * sizeof(double) + sizeof(pe_dd)); }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const time2vec *p = r->params;
    const double d = (double)p->embedding_dim, n = (double)pe_times_count(r, &p->when);
    *out = (posenc_cost){ .ns = 2000 + 4 * d + n * (120 + 25 * d), .scratch = scratch(p) };
}

/* ---- the formula ---- */

typedef struct work {
    const time2vec *p;
    size_t n;      /* periodic channels */
    double w0, b0; /* linear channel */
    double *w, *b; /* (n) */
    pe_dd *angle;  /* (n) */
    double *row;   /* (n + 1) */
    pe_pace pace;
} work;

/* w->row = the channels at time t. */
static posenc_status make_row(work *w, pe_dd t)
{
    enum { BLOCK = 64 };
    const bool last = w->p->linear_position == LAST;
    double other[BLOCK], *waves = w->row + !last;
    posenc_status st;
    w->row[last ? w->n : 0] = pe_dd_add(pe_dd_times(t, w->w0), (pe_dd){ w->b0, 0 }).hi;
    for (size_t first = 0; first < w->n; first += BLOCK) {
        const size_t n = w->n - first < BLOCK ? w->n - first : BLOCK;
        for (size_t k = first; k < first + n; k++)
            w->angle[k] = pe_dd_add(pe_dd_times(t, w->w[k]), (pe_dd){ w->b[k], 0 });
        if (w->p->activation == SINE)
            pe_sincos(w->angle + first, n, waves + first, other);
        else
            pe_sincos(w->angle + first, n, other, waves + first);
        if ((st = pe_pace_add(&w->pace, (int64_t)n * 50)))
            return st;
    }
    return pe_pace_add(&w->pace, 200);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const time2vec *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "embedding");
    const size_t d = (size_t)p->embedding_dim;
    const int64_t n = dst->shape[0];
    pe_time_reader time = pe_times_start(r, &p->when);
    pe_dd *memory = malloc(scratch(p));
    if (!memory)
        return pe_no_memory("memory", err);
    double *reals = (double *)(memory + d);
    work w = {
        .p = p,
        .n = d - 1,
        .w0 = posenc_tensor_get(&p->w0, 0),
        .b0 = posenc_tensor_get(&p->b0, 0),
        .w = reals,
        .b = reals + d,
        .angle = memory,
        .row = reals + 2 * d,
        .pace = { .ctx = ctx },
    };
    posenc_status st = pe_read_doubles(&p->w, w.w, &w.pace);
    if (!st)
        st = pe_read_doubles(&p->b, w.b, &w.pace);
    for (int64_t i = 0; i < n && !st; i++) {
        st = make_row(&w, pe_times_next(&time));
        if (!st)
            st = pe_store(dst, i * (int64_t)d, w.row, d, err);
    }
    free(memory);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_time2vec = {
    .name = "time2vec",
    .family = "absolute",
    .title = "Time2Vec: a linear channel and learned sines of time",
    .source = "Kazemi et al. 2019, Time2Vec: learning a vector representation of time, arXiv:1907.05321, section 3",
    .formula = "t = (timestamp - time_origin) / time_unit\n"
               "linear channel: w0 t + b0, the first or the last; the others: sin(w[k] t + b[k]), or cos",
    .example = "timestamps=0,0.25,-3.5,12&w0=[0.5]&b0=[0.1]&w=[1,2,3]&b=[0,0.5,1]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(time2vec, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
