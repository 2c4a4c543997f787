/* subject.c - which numbers of an encoding's answer, or of a given tensor, are the table; and reading them.
 *
 *   eigenvectors with eigenvalues          a spectrum
 *   cos and sin                            rotary: of columns that repeat each other only one is taken
 *   bias                                   added to scores
 *   table, embedding, encoding, ...        rows: all axes but the last are positions
 * A tensor that is given: two axes are rows, three are the bias of heads; axes of length 1 in front do not count. */
#include "analysis/subject.h"

#include "core/memory.h"
#include "sequence/rotary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pe_subject_words[] = { "rows", "rotary", "bias", "spectrum", NULL };

enum { MOST_ELEMENTS = 1 << 25, MOST_CHANNELS = 1 << 14, MOST_ROWS = 1 << 22 };

/* ---- choosing ---- */

static int output_of(const posenc_result *r, const char *name)
{
    for (int i = 0; i < r->ntensors; i++)
        if (!strcmp(r->tensor[i].name, name))
            return i;
    return -1;
}

static bool is_real(const posenc_tensor *t) { return t->dtype <= PE_bfloat16; }

/* Axes without those of length 1 in front, but at least `least`. */
static int axes_of(const posenc_tensor *t, int least, const int64_t **shape)
{
    int first = 0;
    while (t->rank - first > least && t->shape[first] == 1)
        first++;
    *shape = t->shape + first;
    return t->rank - first;
}

static void take_rows(pe_subject *s, const posenc_tensor *t)
{
    s->kind = PE_ROWS;
    s->d = t->shape[t->rank - 1];
    s->n = s->d ? posenc_tensor_count(t) / s->d : t->shape[0];
}

static void take_bias(pe_subject *s, const int64_t *shape, int rank)
{
    s->kind = PE_BIAS;
    s->heads = shape[0];
    s->queries = rank == 3 ? shape[1] : 1;
    s->keys = shape[rank - 1];
}

/* The value of an enum row of the encoding, as its word; NULL: no such row. */
static const char *word_of(const posenc_request *r, const char *name)
{
    const posenc_param *row = posenc_row(&r->encoding->table, name);
    return row && row->kind == PE_T_ENUM ? row->names[*(const int *)((const char *)r->params + row->offset)] : NULL;
}

static void take_rotary(const posenc_request *of, pe_analysis *a, const posenc_tensor *cosines)
{
    const char *layout = word_of(of, "layout");
    pe_subject *s = &a->subject;
    s->kind = PE_ROTARY;
    s->n = cosines->shape[0];
    a->columns = cosines->shape[1];
    if (layout && !strcmp(layout, pe_rope_layouts[PE_ROPE_HALF]) && a->columns % 2 == 0)
        a->columns /= 2;
    else if (layout && !strcmp(layout, pe_rope_layouts[PE_ROPE_INTERLEAVED]) && a->columns % 2 == 0) {
        a->columns /= 2;
        a->column_step = 2;
    }
    s->d = 2 * a->columns;
}

static bool named(const posenc_request *of, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(of->encoding->name, names[i]))
            return true;
    return false;
}

static posenc_status no_table(const posenc_request *of, posenc_error *err)
{
    static const char *const lists[] = { "table", "embedding", "encoding", "cos", "bias", "eigenvectors" };
    for (size_t i = 0; i < of->encoding->noutputs; i++) /* there would be one, had it positions */
        for (size_t k = 0; k < PE_LEN(lists); k++)
            if (!strcmp(of->encoding->outputs[i].name, lists[k]))
                return posenc_fail(err, PE_INVALID, "NOT_APPLICABLE", "encoding", of->encoding->name,
                                   "parameters that give its output %s: positions or a length", lists[k]);
    return posenc_fail(err, PE_INVALID, "NOT_APPLICABLE", "encoding", of->encoding->name,
                       "an encoding with a table of reals: sinusoidal, rope, alibi, learned, laplacian, ...; it gives none");
}

static posenc_status choose_output(const posenc_request *of, pe_analysis *a, posenc_error *err)
{
    static const char *const tables[] = { "table", "embedding", "encoding", "posemb", "combined", "scores", "matrix" };
    static const char *const grids[] = { "rope_2d", "rope_nd", "rope_2d_mixed" };
    const posenc_result *r = &of->shape;
    pe_subject *s = &a->subject;
    const bool chosen = a->tensor != NULL;
    int i = chosen ? output_of(r, a->tensor) : -1;
    if (chosen && (i < 0 || !is_real(&r->tensor[i]) || r->tensor[i].rank < 2)) {
        char names[120] = "";
        for (int k = 0; k < r->ntensors; k++)
            if (is_real(&r->tensor[k]) && r->tensor[k].rank >= 2)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "", r->tensor[k].name);
        return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "tensor", a->tensor,
                           "an output of real numbers with two axes or more: %s", *names ? names : "this request has none");
    }
    const int vectors = output_of(r, "eigenvectors"), values = output_of(r, "eigenvalues"), cosines = output_of(r, "cos"),
              sines = output_of(r, "sin"), bias = output_of(r, "bias");
    s->ordered = !strcmp(of->encoding->family, "absolute") || !strcmp(of->encoding->family, "use") ||
                 !strcmp(of->encoding->family, "relative") ||
                 (!strcmp(of->encoding->family, "rotary") && !named(of, grids, PE_LEN(grids)));
    if ((!chosen || i == vectors) && vectors >= 0 && values >= 0 && r->tensor[values].rank == 1 &&
        r->tensor[values].shape[0] == r->tensor[vectors].shape[1]) {
        take_rows(s, &r->tensor[vectors]);
        s->kind = PE_SPECTRUM;
        a->source = vectors;
        a->second = values;
    } else if ((!chosen || i == cosines) && cosines >= 0 && sines >= 0 && r->tensor[cosines].rank == 2) {
        take_rotary(of, a, &r->tensor[cosines]);
        a->source = cosines;
        a->second = sines;
    } else if ((!chosen || i == bias) && bias >= 0 && r->tensor[bias].rank >= 2 && r->tensor[bias].rank <= 3) {
        take_bias(s, r->tensor[bias].shape, r->tensor[bias].rank);
        a->source = bias;
    } else {
        for (size_t k = 0; k < PE_LEN(tables) && i < 0; k++) {
            i = output_of(r, tables[k]);
            i = i >= 0 && is_real(&r->tensor[i]) && r->tensor[i].rank >= 2 ? i : -1;
        }
        if (i < 0)
            return no_table(of, err);
        const int64_t *shape;
        const int rank = axes_of(&r->tensor[i], 2, &shape);
        take_rows(s, &r->tensor[i]);
        s->ordered = s->ordered && rank == 2; /* a batch of sequences, or a grid, is no sequence */
        a->source = i;
    }
    return PE_OK;
}

static posenc_status choose_given(pe_analysis *a, posenc_error *err)
{
    const posenc_tensor *t = &a->table;
    pe_subject *s = &a->subject;
    const int64_t *shape;
    const int rank = axes_of(t, 2, &shape);
    s->ordered = true;
    if (rank < 2 || rank > 3)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "table", posenc_text("%d axes", t->rank).s,
                           "[positions, channels], or [heads, queries, keys] of a bias");
    if (rank == 3) {
        take_bias(s, shape, 3);
        return PE_OK;
    }
    s->kind = PE_ROWS;
    s->n = shape[0];
    s->d = shape[1];
    return PE_OK;
}

static posenc_status check_sizes(const pe_subject *s, posenc_error *err)
{
    const bool bias = s->kind == PE_BIAS;
    const int64_t rows = bias ? s->heads * s->queries : s->n, columns = bias ? s->keys : s->d;
    const posenc_short shape = bias ? posenc_text("%lld x %lld x %lld", (long long)s->heads, (long long)s->queries,
                                                  (long long)s->keys)
                                    : posenc_text("%lld x %lld", (long long)rows, (long long)columns);
    if (bias && (!s->heads || !s->queries || s->keys < 2))
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "table", shape.s, "at least one head, one query, two keys");
    if (!bias && rows < 2)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "table", posenc_text("%lld rows", (long long)rows).s,
                           "at least 2 rows: an analysis compares positions");
    if (!bias && columns < 1)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "table", "0 channels", "at least 1 channel");
    if (rows > MOST_ROWS || (!bias && columns > MOST_CHANNELS) || columns > MOST_ROWS || rows * columns > MOST_ELEMENTS)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "table", shape.s,
                           "at most %d elements, %d rows, %d channels: analyse fewer positions", MOST_ELEMENTS, MOST_ROWS,
                           MOST_CHANNELS);
    return PE_OK;
}

posenc_status pe_subject_choose(const posenc_request *r, pe_analysis *a, posenc_error *err)
{
    a->subject = (pe_subject){ .components = (double)NAN };
    a->source = a->second = -1;
    a->column_step = 1;
    if (r->of && a->table.data)
        return pe_not_applicable(err, "table", "given", "nothing: the table is that of the encoding %s",
                                 r->of->encoding->name);
    if (!r->of && !a->table.data)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "table", "absent",
                           "the tensor to look at, [positions, channels]; or an encoding");
    if (!r->of && a->tensor)
        return pe_not_applicable(err, "tensor", a->tensor, "nothing: it chooses among the outputs of an encoding");
    posenc_status st = r->of ? choose_output(r->of, a, err) : choose_given(a, err);
    return st ? st : check_sizes(&a->subject, err);
}

/* ---- reading ---- */

static int64_t elements(const pe_subject *s) { return s->kind == PE_BIAS ? s->heads * s->queries * s->keys : s->n * s->d; }

uint64_t pe_subject_scratch(const posenc_request *r, const pe_analysis *a)
{
    const pe_subject *s = &a->subject;
    return (uint64_t)(elements(s) + 5 * s->d + s->n + 64) * sizeof(double) +
           (r->of ? r->of->size + r->of->cost.scratch + 64 * PE_MAX_OUTPUTS : 0);
}

/* The encoding's own answer; freed by the caller. */
static posenc_status compute_inner(const posenc_request *of, posenc_result *out, void **memory, posenc_context *ctx,
                                   posenc_error *err)
{
    uint64_t total = 64;
    *out = of->shape;
    for (int i = 0; i < out->ntensors; i++)
        total += (posenc_tensor_size(&out->tensor[i]) + 63) & ~(uint64_t)63;
    char *p = *memory = pe_result_memory((size_t)total);
    if (!p)
        return pe_no_memory("memory", err);
    for (int i = 0; i < out->ntensors; i++) {
        out->tensor[i].data = p;
        p += (posenc_tensor_size(&out->tensor[i]) + 63) & ~(uint64_t)63;
    }
    return posenc_compute(of, out, ctx, err);
}

/* Columns first, first + step, ... of `from` to the `count` columns of the table from `at` on. */
static posenc_status read_columns(const posenc_tensor *from, int64_t step, int64_t count, double *table, int64_t d,
                                  int64_t at, double *row, pe_pace *pace)
{
    const int64_t columns = from->shape[from->rank - 1], n = posenc_tensor_count(from) / columns;
    posenc_status st = PE_OK;
    for (int64_t p = 0; p < n && !st; p++) {
        pe_tensor_read(from, p * columns, (size_t)columns, row);
        for (int64_t k = 0; k < count; k++)
            table[p * d + at + k] = row[k * step];
        st = pe_pace_add(pace, 2 * columns);
    }
    return st;
}

/* Fourth powers must stay finite: those of singular values are. */
static posenc_status check_values(const double *v, int64_t n, const pe_subject *s, posenc_error *err)
{
    const int64_t columns = s->kind == PE_BIAS ? s->keys : s->d;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(v[i]) <= 1e60))
            return pe_invalid(err, posenc_text("table[%lld][%lld]", (long long)(i / columns), (long long)(i % columns)).s,
                              posenc_text("%g", v[i]), "finite numbers, of at most 1e60 in magnitude");
    return PE_OK;
}

/* What a scaled rope would turn by without its scaling: theta^(-j / pairs). */
static posenc_status read_before(const posenc_request *of, pe_subject *s, double *out, posenc_context *ctx,
                                 posenc_error *err)
{
    const char *type = word_of(of, "rope_type");
    const posenc_param *theta = posenc_row(&of->encoding->table, "rope_theta");
    const size_t n = (size_t)s->d / 2;
    if (!type || !theta || !strcmp(type, "default") || !strcmp(type, "proportional"))
        return PE_OK;
    const pe_ladder ladder = { .gain = { 1, 0 },
                               .top = *(const double *)((const char *)of->params + theta->offset),
                               .bottom = 1,
                               .steps = { (double)n, 0 } };
    pe_dd *w = malloc(n * sizeof *w);
    if (!w)
        return pe_no_memory("memory", err);
    posenc_status st = pe_frequencies(&ladder, n, w, ctx);
    for (size_t i = 0; i < n; i++)
        out[i] = w[i].hi;
    s->before = out;
    free(w);
    return st;
}

static posenc_status read_spectrum(const pe_analysis *a, const posenc_result *r, pe_subject *s, double *values,
                                   double *determined)
{
    const int flags = output_of(r, "determined"), components = output_of(r, "num_components");
    pe_tensor_read(&r->tensor[a->second], 0, (size_t)s->d, values);
    s->eigenvalues = values;
    if (flags >= 0 && posenc_tensor_count(&r->tensor[flags]) == s->d) {
        pe_tensor_read(&r->tensor[flags], 0, (size_t)s->d, determined);
        s->determined = determined;
    }
    if (components >= 0 && posenc_tensor_count(&r->tensor[components]) == 1)
        s->components = posenc_tensor_get(&r->tensor[components], 0);
    return PE_OK;
}

posenc_status pe_subject_read(const posenc_request *r, const pe_analysis *a, bool pairing, pe_subject *s, void **memory,
                              posenc_context *ctx, posenc_error *err)
{
    pe_pace pace = { .ctx = ctx };
    posenc_result inner = { 0 };
    void *held = NULL;
    posenc_status st = PE_OK;
    *s = a->subject;
    const int64_t n = elements(s);
    double *v = *memory = malloc((size_t)(n + 5 * s->d + s->n + 64) * sizeof *v), *side = v ? v + n : NULL;
    if (!v)
        return pe_no_memory("memory", err);
    if (r->of)
        st = compute_inner(r->of, &inner, &held, ctx, err);
    const posenc_tensor *from = r->of ? &inner.tensor[a->source >= 0 ? a->source : 0] : &a->table;
    if (st || s->kind != PE_ROTARY) {
        st = st ? st : pe_tensor_doubles(from, v, &pace);
    } else {
        double *row = malloc((size_t)from->shape[1] * sizeof *row);
        st = row ? read_columns(from, a->column_step, a->columns, v, s->d, 0, row, &pace) : pe_no_memory("memory", err);
        st = st ? st : read_columns(&inner.tensor[a->second], a->column_step, a->columns, v, s->d, a->columns, row, &pace);
        free(row);
    }
    st = st ? st : check_values(v, n, s, err);
    s->table = s->kind == PE_BIAS ? NULL : v;
    s->bias = s->kind == PE_BIAS ? v : NULL;
    if (!st && s->kind == PE_SPECTRUM)
        st = read_spectrum(a, &inner, s, side, side + s->d);
    if (!st && s->kind == PE_ROTARY && r->of)
        st = read_before(r->of, s, side, ctx, err);
    free(held);
    if (!st && pairing)
        st = pe_pairing_find(s, side + 2 * s->d, &s->pairing, &pace);
    return st;
}
