/* similarity.c - how like two rows are, by the distance between their positions. */
#include "analysis/analysis.h"

#include "core/parallel.h"

#include <stdlib.h>

enum { SELF, VARIATION, MONOTONE, OFFSET, DOT_MEAN, DOT_MIN, DOT_MAX, COS_MEAN, COS_MIN, COS_MAX };
enum { OFFSETS };

static const pe_field fields[] = {
    [SELF] = { .name = "self_dot", .doc = "mean of table[p] . table[p]: the dot product at distance 0" },
    [VARIATION] = { .name = "variation",
                    .doc = "largest (dot_max - dot_min) / self_dot: 0 where only the distance matters (shift-invariant)" },
    [MONOTONE] = { .name = "monotone_to",
                   .unit = "positions",
                   .kind = PE_F_WHOLE,
                   .doc = "last offset listed up to which dot_mean falls all the way; null: not even to the first" },
    [OFFSET] = { .name = "offset", .unit = "positions", .kind = PE_F_WHOLE, .axis = { 1 + OFFSETS }, .doc = "distances k" },
    [DOT_MEAN] = { .name = "dot_mean", .axis = { 1 + OFFSETS }, .doc = "table[p] . table[p + k], mean over all p" },
    [DOT_MIN] = { .name = "dot_min", .axis = { 1 + OFFSETS }, .doc = "smallest" },
    [DOT_MAX] = { .name = "dot_max", .axis = { 1 + OFFSETS }, .doc = "largest" },
    [COS_MEAN] = { .name = "cosine_mean", .axis = { 1 + OFFSETS }, .doc = "the same of rows divided by their norms" },
    [COS_MIN] = { .name = "cosine_min", .axis = { 1 + OFFSETS }, .doc = "smallest" },
    [COS_MAX] = { .name = "cosine_max", .axis = { 1 + OFFSETS }, .doc = "largest" },
};

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES]) { size[OFFSETS] = pe_offsets(a, a->subject.n, NULL); }

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const double n = (double)a->subject.n, d = (double)a->subject.d;
    *out = (posenc_cost){ .ns = (double)size[OFFSETS] * n * (0.5 * d + 12),
                          .scratch = (uint64_t)a->subject.n * sizeof(double) };
}

typedef struct work {
    const pe_subject *s;
    posenc_context *ctx;
    pe_block *b;
    const double *norm;
    int64_t offsets, chunk; /* in all; of a task */
} work;

static posenc_status one_offset(const work *w, int64_t i, pe_pace *pace)
{
    const pe_subject *s = w->s;
    const int64_t k = (int64_t)pe_block_field(w->b, OFFSET)[i];
    double sum[2] = { 0 }, low[2] = { INFINITY, INFINITY }, high[2] = { -INFINITY, -INFINITY };
    int64_t counted = 0;
    posenc_status st = PE_OK;
    for (int64_t p = 0; p + k < s->n && !st; p++) {
        const double dot = pe_dot(s->table + p * s->d, s->table + (p + k) * s->d, s->d), scale = w->norm[p] * w->norm[p + k];
        sum[0] += dot;
        low[0] = pe_min(low[0], dot);
        high[0] = pe_max(high[0], dot);
        if (scale > 0) {
            sum[1] += dot / scale;
            low[1] = pe_min(low[1], dot / scale);
            high[1] = pe_max(high[1], dot / scale);
            counted++;
        }
        st = pe_pace_add(pace, s->d / 4 + 12);
    }
    pe_block_field(w->b, DOT_MEAN)[i] = sum[0] / (double)(s->n - k);
    pe_block_field(w->b, DOT_MIN)[i] = low[0];
    pe_block_field(w->b, DOT_MAX)[i] = high[0];
    pe_block_field(w->b, COS_MEAN)[i] = counted ? sum[1] / (double)counted : (double)NAN;
    pe_block_field(w->b, COS_MIN)[i] = low[1];
    pe_block_field(w->b, COS_MAX)[i] = high[1];
    return st;
}

static posenc_status some_offsets(void *arg, int64_t task, posenc_error *err)
{
    (void)err;
    const work *w = arg;
    pe_pace pace = { .ctx = w->ctx };
    posenc_status st = PE_OK;
    for (int64_t i = task * w->chunk; i < (task + 1) * w->chunk && i < w->offsets && !st; i++)
        st = one_offset(w, i, &pace);
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    double *norm = malloc((size_t)s->n * sizeof *norm), *offset = pe_block_field(b, OFFSET);
    const int64_t m = pe_offsets(a, s->n, offset);
    const double *mean = pe_block_field(b, DOT_MEAN), *low = pe_block_field(b, DOT_MIN), *high = pe_block_field(b, DOT_MAX);
    double self = 0, variation = 0, monotone = (double)NAN;
    if (!norm)
        return pe_no_memory("memory", err);
    for (int64_t p = 0; p < s->n; p++) {
        const double square = pe_dot(s->table + p * s->d, s->table + p * s->d, s->d);
        norm[p] = sqrt(square);
        self += square / (double)s->n;
    }
    const int64_t each = s->n * (s->d / 4 + 12); /* [ns], about */
    work w = { s, pace->ctx, b, norm, m, each < 1000000 ? 1000000 / each + 1 : 1 };
    const posenc_status st = pe_parallel(pace->ctx, (m + w.chunk - 1) / w.chunk, 0, some_offsets, &w, err);
    for (int64_t i = 0; i < m; i++) {
        variation = self > 0 ? pe_max(variation, (high[i] - low[i]) / self) : 0;
        if (mean[i] < (i ? mean[i - 1] : self) && (i == 0 || monotone == offset[i - 1]))
            monotone = offset[i];
    }
    pe_block_set(b, SELF, self);
    pe_block_set(b, VARIATION, variation);
    pe_block_set(b, MONOTONE, monotone);
    free(norm);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const size_t n = (size_t)pe_block_size(b, OFFSETS);
    const double monotone = pe_block_number(b, MONOTONE);
    char *words = pe_words(arena, "falls up to %.0f", monotone);
    *out = (pe_panel){
        .title = "dot product of two rows by the distance of their positions",
        .x_label = "offset [positions]",
        .y_label = "dot product",
        .x_log = true,
        .series = { { .label = "mean",
                      .x = pe_block_field(b, OFFSET),
                      .y = pe_block_field(b, DOT_MEAN),
                      .low = pe_block_field(b, DOT_MIN),
                      .high = pe_block_field(b, DOT_MAX),
                      .n = n } },
        .nseries = 1,
        .rule = { { monotone, words, true }, { pe_block_number(b, SELF), "offset 0", false } },
        .nrules = 2,
    };
    out[1] = (pe_panel){
        .title = "cosine of two rows: smallest to largest shaded",
        .x_label = "offset [positions]",
        .y_label = "cosine",
        .x_log = true,
        .series = { { .label = "mean",
                      .x = pe_block_field(b, OFFSET),
                      .y = pe_block_field(b, COS_MEAN),
                      .low = pe_block_field(b, COS_MIN),
                      .high = pe_block_field(b, COS_MAX),
                      .n = n } },
        .nseries = 1,
    };
    return words ? 2 : -1;
}

const pe_what pe_what_similarity = {
    .name = "similarity",
    .title = "similarity by distance",
    .doc = "dot[k] = table[p] . table[p + k]; cosine[k] = dot / (norm[p] norm[p + k]); mean, smallest, largest over all p",
    .sizes = "offsets",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY),
    .ordered = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
