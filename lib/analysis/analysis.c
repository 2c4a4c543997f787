/* analysis.c - the report `analysis`: parameters, rules, and the blocks of numbers that each `what` fills. */
#include "analysis/analysis.h"
#include "analysis/subject.h"
#include "analysis/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
#define X(name) #name,
#include "analysis/whats.h"
#undef X
    NULL
};

const pe_what *const pe_whats[] = {
#define X(name) &pe_what_##name,
#include "analysis/whats.h"
#undef X
    NULL
};

enum {
#define X(name) W_##name,
#include "analysis/whats.h"
#undef X
    NWHATS
};

/* ---- rows ---- */

#define PERIODS (PE_ON(W_frequencies) | PE_ON(W_base))
#define BY_OFFSET (PE_ON(W_similarity) | PE_ON(W_shift) | PE_ON(W_direction))
#define PROBE PE_ON(W_attention_probe)

static const posenc_param rows[] = {
    { PE_WORDS(pe_analysis, what), .flags = PE_DERIVED | PE_SELECTOR, .names = words,
      .doc = "what to look at; when absent, all that apply and need no parameter of their own" },
    { PE_TENSOR(pe_analysis, table), .flags = PE_OPTIONAL,
      .doc = "the table, where no encoding is named: [positions, channels], or [heads, queries, keys] of a bias" },
    { PE_TEXT(pe_analysis, tensor), .flags = PE_OPTIONAL, .min = 1, .max = 64,
      .doc = "which output of the encoding is the table; when absent, the one that is a table" },
    { PE_INT(pe_analysis, train_length), .flags = PE_DERIVED, .when = PERIODS, .min = 1, .max = 0x1p40,
      .doc = "positions seen in training; when absent, the rows of the table" },
    { PE_INT(pe_analysis, test_length), .flags = PE_DERIVED, .when = PERIODS, .min = 2, .max = 0x1p40,
      .doc = "positions that are wanted; when absent, train_length" },
    { PE_REALS(pe_analysis, offsets), .flags = PE_OPTIONAL, .when = BY_OFFSET, .min = 1, .max = 0x1p31,
      .doc = "distances to look at, ascending; when absent, all up to 256 and then about 3 % more each time (similarity), "
             "powers of two up to a quarter of the rows (shift, direction)" },
    { PE_REAL(pe_analysis, embedding_std), .def = 0.02, .min = 1e-12, .max = 1e12, .when = PE_ON(W_norms) | PROBE,
      .doc = "standard deviation of the embeddings that the table is added to" },
    { PE_REALS(pe_analysis, bases), .flags = PE_OPTIONAL, .when = PE_ON(W_base), .min = 1.0001, .max = 1e30,
      .doc = "bases to compare; when absent, 100, 1000, 10000, 100000, 500000 and 1000000" },
    { PE_TENSOR(pe_analysis, embeddings), .flags = PE_OPTIONAL, .when = PE_ON(W_subspace),
      .doc = "embeddings [tokens, channels] that share the channels with the table" },
    { PE_INT(pe_analysis, probe_length), .flags = PE_DERIVED, .when = PROBE, .min = 2, .max = 1024,
      .doc = "tokens of the probe; when absent, the rows of the table, at most 64" },
    { PE_INT(pe_analysis, probe_head), .when = PROBE, .max = 1 << 20, .doc = "head of a bias" },
    { PE_INT(pe_analysis, probe_seed), .when = PROBE, .max = 0x1p53, .doc = "seed of embeddings, weights and permutation" },
};

static const posenc_output outputs[] = {
#define X(name) { #name, "as its fields say", "the numbers of this `what`, one after the other", "float64" },
#include "analysis/whats.h"
#undef X
};

/* ---- rules ---- */

static bool applies(const pe_what *w, const pe_subject *s)
{
    return w->kinds >> s->kind & 1 && (s->ordered || !w->ordered || s->kind == PE_BIAS);
}

/* Those that need no parameter and take no more than ten seconds. */
static uint64_t all_that_apply(const pe_analysis *a)
{
    uint64_t set = 0;
    for (int i = 0; i < NWHATS; i++) {
        const pe_what *w = pe_whats[i];
        int64_t size[PE_MAX_SIZES] = { 0 };
        posenc_cost one = { 0 };
        if (!applies(w, &a->subject) || (w->check && w->check(a, NULL)))
            continue;
        w->measure(a, size);
        w->cost(a, size, &one);
        if (one.ns < 10e9)
            set |= PE_ON(i);
    }
    return set;
}

static void refuse_what(int i, const pe_subject *s, posenc_error *err)
{
    char list[150] = "";
    size_t used = 0;
    for (int k = 0; k < NWHATS && used < sizeof list; k++)
        if (applies(pe_whats[k], s))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", words[k]);
    pe_not_applicable(err, "what", words[i], "for %s%s: %s", pe_subject_words[s->kind],
                      s->ordered || s->kind == PE_BIAS ? "" : " that are no sequence", list);
}

static void check_offsets(const pe_analysis *a, posenc_error *err)
{
    const posenc_reals *l = &a->offsets;
    if (!l->n)
        return;
    if (l->n > PE_MAX_OFFSETS)
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "offsets", posenc_text("%zu elements", l->n).s, "at most %d offsets",
                    PE_MAX_OFFSETS);
    if (!pe_reals_whole("offsets", l, err))
        return;
    for (size_t i = 0; i < l->n && a->subject.kind != PE_BIAS; i++)
        if (l->v[i] >= (double)a->subject.n || (i && l->v[i] <= l->v[i - 1])) {
            pe_invalid(err, posenc_text("offsets[%zu]", i).s, posenc_text("%.17g", l->v[i]),
                       "ascending whole numbers in 1 .. %lld, less than the rows of the table", (long long)a->subject.n - 1);
            return;
        }
}

static void derive(posenc_request *r, pe_analysis *a)
{
    const pe_subject *s = &a->subject;
    const int64_t most = s->kind == PE_BIAS ? s->keys : s->n;
    if (!pe_given(r, "train_length"))
        a->train_length = most;
    if (!pe_given(r, "test_length"))
        a->test_length = a->train_length > 1 ? a->train_length : 2;
    if (!pe_given(r, "probe_length"))
        a->probe_length = most < 64 ? most : 64;
    if (!a->what)
        a->what = all_that_apply(a);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    pe_analysis *a = r->params;
    if (!r->of && posenc_was_given(&posenc_common_table, &posenc_common_table.rows[0], &r->common))
        return pe_not_applicable(err, "dtype", posenc_dtype_name((posenc_dtype)r->common.dtype),
                                 "only with an encoding: a table that is given has its own");
    r->common.dtype = PE_float64;
    if (pe_subject_choose(r, a, err))
        return err->status;
    for (int i = 0; i < NWHATS; i++)
        if (a->what >> i & 1 && !applies(pe_whats[i], &a->subject))
            refuse_what(i, &a->subject, err);
    if (err->n)
        return err->status;
    derive(r, a);
    if (!a->what)
        return pe_not_applicable(err, "what", "absent", "a table that something can be said about");
    check_offsets(a, err);
    for (int i = 0; i < NWHATS && !err->n; i++)
        if (a->what >> i & 1 && pe_whats[i]->check)
            pe_whats[i]->check(a, err);
    return err->status;
}

/* ---- sizes ---- */

int64_t pe_block_length(const pe_what *w, const double *size, int field)
{
    int64_t n = 1;
    for (int k = 0; k < 2; k++)
        n *= w->fields[field].axis[k] ? (int64_t)size[w->fields[field].axis[k] - 1] : 1;
    return n;
}

double *pe_block_field(const pe_block *b, int field)
{
    double *p = b->size + PE_MAX_SIZES;
    for (int i = 0; i < field; i++)
        p += pe_block_length(b->what, b->size, i);
    return p;
}

int64_t pe_block_room(const pe_what *w, const int64_t size[PE_MAX_SIZES])
{
    double as_read[PE_MAX_SIZES];
    int64_t n = PE_MAX_SIZES;
    for (int i = 0; i < PE_MAX_SIZES; i++)
        as_read[i] = (double)size[i];
    for (size_t i = 0; i < w->nfields; i++)
        n += pe_block_length(w, as_read, (int)i);
    return n;
}

/* Number i of the blocks of this request; NULL after the last. The first says what was looked at. */
static const pe_what *block_at(const pe_analysis *a, int *i)
{
    if (*i < 0)
        return &pe_what_about;
    while (*i < NWHATS && !(a->what >> *i & 1))
        ++*i;
    return *i < NWHATS ? pe_whats[*i] : NULL;
}

static void cost(const posenc_request *r, posenc_cost *out);

static posenc_status check_time(const posenc_request *r, posenc_error *err)
{
    static const double most = 120e9;
    pe_analysis a = *(const pe_analysis *)r->params;
    posenc_request shorter = *r;
    posenc_cost asked, least;
    cost(r, &asked);
    if (asked.ns <= most)
        return PE_OK;
    const int64_t length = a.test_length;
    a.test_length = 2;
    shorter.params = &a;
    cost(&shorter, &least);
    if (least.ns < most / 2)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "test_length", posenc_text("%lld", (long long)length).s,
                           "about %.0f, which takes 120 s of one core, or less",
                           (double)length * ((most - least.ns) / (asked.ns - least.ns)));
    return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "what", posenc_text("about %.0f s of one core", asked.ns * 1e-9).s,
                       "at most 120 s: fewer rows, channels or offsets, or less of `what`");
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const pe_analysis *a = r->params;
    const pe_what *w;
    posenc_status st = PE_OK;
    for (int i = -1; !st && (w = block_at(a, &i)); i++) {
        int64_t size[PE_MAX_SIZES] = { 0 };
        w->measure(a, size);
        const int64_t n = pe_block_room(w, size);
        st = pe_output(out, w->name, PE_float64, 1, &n, err);
    }
    return st ? st : check_time(r, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const pe_analysis *a = r->params;
    const pe_what *w;
    uint64_t scratch = 0;
    const double read = a->subject.kind == PE_BIAS ? 0 : 40 * (double)a->subject.n * (double)a->subject.d;
    *out = (posenc_cost){ .ns = 20e3 + read + (r->of ? r->of->cost.ns : 0) };
    for (int i = -1; (w = block_at(a, &i)); i++) {
        int64_t size[PE_MAX_SIZES] = { 0 };
        posenc_cost one = { 0 };
        w->measure(a, size);
        w->cost(a, size, &one);
        out->ns += one.ns +
                   (w->pairs ? 200.0 * (double)a->subject.d * (double)(a->subject.n < 4096 ? a->subject.n : 4096) : 0);
        scratch = one.scratch > scratch ? one.scratch : scratch;
    }
    out->scratch = pe_subject_scratch(r, a) + scratch;
}

/* ---- computing ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const pe_analysis *a = r->params;
    pe_pace pace = { .ctx = ctx };
    pe_subject s;
    void *memory = NULL;
    const pe_what *w;
    bool pairing = false;
    int block = 0;
    for (int i = 0; (w = block_at(a, &i)); i++)
        pairing |= w->pairs && a->subject.ordered && a->subject.kind != PE_BIAS;
    posenc_status st = pe_subject_read(r, a, pairing, &s, &memory, ctx, err);
    for (int i = -1; !st && (w = block_at(a, &i)); i++, block++) {
        posenc_tensor *t = &out->tensor[block];
        pe_block b = { w, t->data };
        int64_t size[PE_MAX_SIZES] = { 0 };
        memset(t->data, 0, posenc_tensor_size(t)); /* fields may end before the room does */
        w->measure(a, size);
        for (int k = 0; k < PE_MAX_SIZES; k++)
            b.size[k] = (double)size[k];
        st = w->compute(a, &s, &b, &pace, err);
        if (!st && ctx && ctx->progress)
            ctx->progress(ctx->user, (block + 1.0) / out->ntensors, w->title);
    }
    free(memory);
    return st;
}

/* ---- offsets, samples, texts ---- */

static int64_t given_offsets(const pe_analysis *a, int64_t n, double *out)
{
    int64_t m = 0;
    for (size_t i = 0; i < a->offsets.n; i++)
        if (a->offsets.v[i] < (double)n && m < PE_MAX_OFFSETS) {
            if (out)
                out[m] = a->offsets.v[i];
            m++;
        }
    return m;
}

int64_t pe_offsets(const pe_analysis *a, int64_t n, double *out)
{
    int64_t m = 0;
    if (a->offsets.n)
        return given_offsets(a, n, out);
    for (int64_t k = 1; k < n && m < PE_MAX_OFFSETS; k = k < 256 ? k + 1 : k + k / 32) {
        if (out)
            out[m] = (double)k;
        m++;
    }
    return m;
}

int64_t pe_few_offsets(const pe_analysis *a, int64_t n, double *out)
{
    int64_t m = 0;
    if (a->offsets.n)
        return given_offsets(a, n, out);
    for (int64_t k = 1; k == 1 || k <= n / 4; k *= 2) {
        if (out)
            out[m] = (double)k;
        m++;
    }
    return m;
}

int64_t pe_farthest(const pe_analysis *a)
{
    const int64_t count = pe_few_offsets(a, a->subject.n, NULL);
    return a->offsets.n ? (int64_t)a->offsets.v[count - 1] : (int64_t)1 << (count - 1);
}

int64_t pe_sample(int64_t n, int64_t most, double *out)
{
    const int64_t m = n < most ? n : most;
    for (int64_t i = 0; out && i < m; i++)
        out[i] = (double)(m > 1 ? i * (n - 1) / (m - 1) : 0);
    return m;
}

double *pe_count_up(posenc_arena *a, int64_t n)
{
    double *v = posenc_alloc(a, (size_t)n * sizeof *v);
    for (int64_t i = 0; v && i < n; i++)
        v[i] = (double)i;
    return v;
}

char *pe_words(posenc_arena *a, const char *format, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, format);
    const int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return posenc_strdup(a, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* ---- descriptor ---- */

const posenc_encoding pe_analysis_report = {
    .name = "analysis",
    .family = "report",
    .title = "what an encoding, or any table, is like",
    .source = "Vaswani et al. 2017, arXiv:1706.03762; Su et al. 2021, arXiv:2104.09864, section 3.4.3; Wang and Chen 2020, "
              "What do position embeddings learn?, arXiv:2010.04903",
    .formula = "each `what` has its own: the fields of the answer say which\n"
               "all numbers are computed in float64 from the table alone",
    .example = "what=norms&table=[[0,1],[1,0],[0,-1]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(pe_analysis, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
    .write = pe_analysis_write,
};
