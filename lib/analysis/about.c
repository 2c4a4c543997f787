/* about.c - the subject of an analysis in numbers: the first block of every answer. */
#include "analysis/analysis.h"

enum { KIND, ORDERED, ROWS, CHANNELS, HEADS, QUERIES, KEYS, LAYOUT };

static const char *const layouts[] = { "none", "split", "interleaved", NULL };

static const pe_field fields[] = {
    [KIND] = { .name = "kind",
               .kind = PE_F_WORD,
               .words = pe_subject_words,
               .doc =
                   "rows of channels; cosines and sines of a rotary encoding; bias added to scores; spectrum of a graph" },
    [ORDERED] = { .name = "ordered", .kind = PE_F_FLAG, .doc = "rows are positions one after the other" },
    [ROWS] = { .name = "rows", .unit = "positions", .kind = PE_F_WHOLE, .doc = "rows of the table" },
    [CHANNELS] = { .name = "channels",
                   .kind = PE_F_WHOLE,
                   .doc = "columns of the table; rotary: all cosines, then all sines, each pair once" },
    [HEADS] = { .name = "heads", .kind = PE_F_WHOLE, .doc = "of a bias" },
    [QUERIES] = { .name = "queries", .unit = "positions", .kind = PE_F_WHOLE, .doc = "of a bias; 1: the same for all" },
    [KEYS] = { .name = "keys", .unit = "positions", .kind = PE_F_WHOLE, .doc = "of a bias" },
    [LAYOUT] = { .name = "pairs",
                 .kind = PE_F_WORD,
                 .words = layouts,
                 .doc = "how channels turn together, found in the numbers: (i, i + channels/2), (2i, 2i + 1), or none; null "
                        "where no `what` asked" },
};

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES]) { (void)a, (void)size; }

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    (void)a, (void)size;
    *out = (posenc_cost){ .ns = 100 };
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    (void)a, (void)pace, (void)err;
    const bool bias = s->kind == PE_BIAS;
    const double none = (double)NAN;
    pe_block_set(b, KIND, s->kind);
    pe_block_set(b, ORDERED, s->ordered);
    pe_block_set(b, ROWS, bias ? none : (double)s->n);
    pe_block_set(b, CHANNELS, bias ? none : (double)s->d);
    pe_block_set(b, HEADS, bias ? (double)s->heads : none);
    pe_block_set(b, QUERIES, bias ? (double)s->queries : none);
    pe_block_set(b, KEYS, bias ? (double)s->keys : none);
    pe_block_set(b, LAYOUT, s->pairing.looked ? (double)s->pairing.layout : none);
    return PE_OK;
}

const pe_what pe_what_about = {
    .name = "about",
    .title = "what was looked at",
    .doc = "",
    .sizes = "",
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
};
