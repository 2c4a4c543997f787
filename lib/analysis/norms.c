/* norms.c - how large the rows of a table are beside the embeddings they are added to.
 *
 * A row of sinusoids has d/2 pairs of norm 1: its norm is sqrt(d/2), whatever the position. */
#include "analysis/analysis.h"

enum { MIN, MEAN, MAX, EXPECTED, SMALLEST, LARGEST, RMS, RATIO, SCALE, POSITION, NORM };
enum { ROWS };

static const pe_field fields[] = {
    [MIN] = { .name = "min", .doc = "smallest L2 norm of a row" },
    [MEAN] = { .name = "mean", .doc = "mean norm" },
    [MAX] = { .name = "max", .doc = "largest norm" },
    [EXPECTED] = { .name = "expected",
                   .doc = "sqrt(channels/2): what pairs of norm 1 give; null where channels do not turn in pairs" },
    [SMALLEST] = { .name = "smallest_value", .doc = "smallest element" },
    [LARGEST] = { .name = "largest_value", .doc = "largest element" },
    [RMS] = { .name = "rms", .doc = "root mean square of the elements" },
    [RATIO] = { .name = "ratio_to_embeddings", .doc = "rms / embedding_std: over 1 the table outweighs the embeddings" },
    [SCALE] = { .name = "matching_scale",
                .doc = "embedding_std / rms: the factor that makes the table as large as the embeddings" },
    [POSITION] = { .name = "position",
                   .unit = "positions",
                   .kind = PE_F_WHOLE,
                   .axis = { 1 + ROWS },
                   .doc = "rows whose norm is listed: all, or 1024 evenly" },
    [NORM] = { .name = "row_norm", .axis = { 1 + ROWS }, .doc = "their norms" },
};

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES]) { size[ROWS] = pe_sample(a->subject.n, 1024, NULL); }

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    (void)size;
    out->ns = 2.0 * (double)a->subject.n * (double)(a->subject.d + 8);
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    (void)err;
    const int64_t m = pe_sample(s->n, 1024, pe_block_field(b, POSITION));
    const double *position = pe_block_field(b, POSITION);
    double *norm = pe_block_field(b, NORM), min = INFINITY, max = 0, sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    int64_t next = 0;
    posenc_status st = PE_OK;
    for (int64_t p = 0; p < s->n && !st; p++) {
        const double *row = s->table + p * s->d, square = pe_dot(row, row, s->d), size = sqrt(square);
        min = pe_min(min, size);
        max = pe_max(max, size);
        sum += size;
        squares += square;
        for (int64_t k = 0; k < s->d; k++) {
            low = pe_min(low, row[k]);
            high = pe_max(high, row[k]);
        }
        if (next < m && position[next] == (double)p)
            norm[next++] = size;
        st = pe_pace_add(pace, 2 * s->d + 8);
    }
    const double rms = sqrt(squares / (double)s->n / (double)s->d);
    pe_block_set(b, MIN, min);
    pe_block_set(b, MEAN, sum / (double)s->n);
    pe_block_set(b, MAX, max);
    pe_block_set(b, EXPECTED, s->pairing.n ? sqrt((double)s->d / 2) : (double)NAN);
    pe_block_set(b, SMALLEST, low);
    pe_block_set(b, LARGEST, high);
    pe_block_set(b, RMS, rms);
    pe_block_set(b, RATIO, rms / a->embedding_std);
    pe_block_set(b, SCALE, rms > 0 ? a->embedding_std / rms : (double)NAN);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const double expected = pe_block_number(b, EXPECTED), ratio = pe_block_number(b, RATIO),
                 embeddings = pe_block_number(b, MEAN) / ratio;
    char *words = pe_words(arena, "norm of embeddings, mean norm / %.3g", ratio);
    *out = (pe_panel){
        .title = "L2 norm of each row",
        .x_label = "row",
        .y_label = "norm",
        .series = { { .label = "row norm",
                      .x = pe_block_field(b, POSITION),
                      .y = pe_block_field(b, NORM),
                      .n = (size_t)pe_block_size(b, ROWS) } },
        .nseries = 1,
        .rule = { { embeddings, words, false }, { expected, "sqrt(channels/2)", false } },
        .nrules = isfinite(expected) ? 2 : 1,
    };
    return words ? 1 : -1;
}

const pe_what pe_what_norms = {
    .name = "norms",
    .title = "norms of the rows",
    .doc = "norm[p] = sqrt(sum over channels of table[p]^2); rms over all elements; ratio = rms / embedding_std",
    .sizes = "rows",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY) | PE_ON(PE_SPECTRUM),
    .pairs = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
