/* shift.c - does a linear map take each row to the row k positions on?
 *
 * For sinusoids there is one that is exact, M(k) (relative_shift). For any table the best one is found by least squares on
 * six eighths of the rows and judged by the others, the third eighth and the seventh. */
#include "analysis/analysis.h"
#include "analysis/maps.h"

#include <stdlib.h>

enum { RANK, OFFSET, EXACT, EXACT_RMS, R2, R2_FIT, RESIDUAL };
enum { OFFSETS };

static const pe_field fields[] = {
    [RANK] = { .name = "rank",
               .kind = PE_F_WHOLE,
               .doc = "of the rows that the maps were fitted on (singular values over 1e-7 of the largest)" },
    [OFFSET] = { .name = "offset", .unit = "positions", .kind = PE_F_WHOLE, .axis = { 1 + OFFSETS }, .doc = "distances k" },
    [EXACT] = { .name = "exact_error",
                .axis = { 1 + OFFSETS },
                .doc = "largest |table[p + k] - M(k) table[p]| of an element; null where channels do not turn in pairs" },
    [EXACT_RMS] = { .name = "exact_rms", .axis = { 1 + OFFSETS }, .doc = "root mean square of the same" },
    [R2] = { .name = "r2",
             .axis = { 1 + OFFSETS },
             .doc = "of the least-squares map, on rows it was not fitted on: 1 - residual^2 / variance; under 0: worse than "
                    "the mean" },
    [R2_FIT] = { .name = "r2_fit", .axis = { 1 + OFFSETS }, .doc = "on the rows it was fitted on" },
    [RESIDUAL] = { .name = "residual",
                   .axis = { 1 + OFFSETS },
                   .doc = "root mean square of what is left of an element, on rows it was not fitted on" },
};

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    size[OFFSETS] = pe_few_offsets(a, a->subject.n, NULL);
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const int64_t n = a->subject.n, d = a->subject.d;
    *out = (posenc_cost){
        .ns = pe_fit_ns(n, d) + (double)size[OFFSETS] * (pe_fit_map_ns(n, d) + 3 * (double)n * (double)d),
        .scratch = pe_fit_scratch(n, d) + 2 * (uint64_t)d * sizeof(double),
    };
}

static posenc_status check(const pe_analysis *a, posenc_error *err)
{
    const int64_t last = pe_farthest(a);
    if (a->subject.n - last < 4)
        return pe_invalid(err, a->offsets.n ? "offsets" : "table",
                          posenc_text("%lld rows, offset %lld", (long long)a->subject.n, (long long)last),
                          "at least 4 more rows than the largest offset: shift and direction fit maps to them");
    return PE_OK;
}

/* Error of the exact map. */
static posenc_status exact(const pe_subject *s, int64_t k, double *work, double *largest, double *rms, pe_pace *pace)
{
    double *cosine = work, *sine = work + s->pairing.n, *row = work + 2 * s->pairing.n, most = 0, sum = 0;
    posenc_status st = PE_OK;
    pe_turns_of(&s->pairing, (double)k, cosine, sine);
    for (int64_t p = 0; p + k < s->n && !st; p++) {
        const double *y = s->table + (p + k) * s->d;
        pe_turn_row(&s->pairing, cosine, sine, s->table + p * s->d, row);
        for (int64_t c = 0; c < s->d; c++) {
            most = pe_max(most, fabs(y[c] - row[c]));
            sum += (y[c] - row[c]) * (y[c] - row[c]);
        }
        st = pe_pace_add(pace, 3 * s->d);
    }
    *largest = most;
    *rms = sqrt(sum / (double)((s->n - k) * s->d));
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    double *offset = pe_block_field(b, OFFSET), *work = malloc((size_t)(2 * s->d + 1) * sizeof *work);
    const int64_t m = pe_few_offsets(a, s->n, offset), n = s->n - (int64_t)offset[m - 1];
    pe_fit f = { 0 };
    posenc_status st = work ? pe_fit_begin(&f, s, 0, n, pace, err) : pe_no_memory("memory", err);
    for (int64_t i = 0; i < m && !st; i++) {
        const int64_t k = (int64_t)offset[i];
        pe_score score = { 0 };
        double *exact_error = pe_block_field(b, EXACT) + i, *exact_rms = pe_block_field(b, EXACT_RMS) + i;
        *exact_error = *exact_rms = (double)NAN;
        if (s->pairing.n)
            st = exact(s, k, work, exact_error, exact_rms, pace);
        st = st ? st : pe_fit_map(&f, k, pace);
        st = st ? st : pe_fit_score(&f, k, false, &score, pace);
        pe_block_field(b, R2_FIT)[i] = score.total > 0 ? 1 - score.left / score.total : (double)NAN;
        st = st ? st : pe_fit_score(&f, k, true, &score, pace);
        pe_block_field(b, R2)[i] = score.total > 0 ? 1 - score.left / score.total : (double)NAN;
        pe_block_field(b, RESIDUAL)[i] = score.rows ? sqrt(score.left / (double)(score.rows * s->d)) : (double)NAN;
    }
    pe_block_set(b, RANK, (double)f.rank);
    pe_fit_fini(&f);
    free(work);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    (void)arena;
    const size_t n = (size_t)pe_block_size(b, OFFSETS);
    const double *x = pe_block_field(b, OFFSET), *exact_rms = pe_block_field(b, EXACT_RMS);
    const bool pairs = isfinite(exact_rms[0]);
    out[0] = (pe_panel){
        .title = "R2 of the best linear map from row p to row p + k",
        .x_label = "offset k [positions]",
        .y_label = "R2",
        .x_log = true,
        .series = { { .label = "unseen rows", .x = x, .y = pe_block_field(b, R2), .n = n },
                    { .label = "fitted rows", .x = x, .y = pe_block_field(b, R2_FIT), .n = n, .dashed = true } },
        .nseries = 2,
        .rule = { { 1, "1: exact", false }, { 0, "0: no better than the mean", false } },
        .nrules = 2,
    };
    out[1] = (pe_panel){
        .title = "what the map leaves, root mean square of an element",
        .x_label = "offset k [positions]",
        .y_label = "residual",
        .x_log = true,
        .y_log = true,
        .series = { { .label = "least squares", .x = x, .y = pe_block_field(b, RESIDUAL), .n = n },
                    { .label = "exact M(k)", .x = x, .y = exact_rms, .n = n, .mark = PE_MARK_POINTS } },
        .nseries = pairs ? 2 : 1,
    };
    return 2;
}

const pe_what pe_what_shift = {
    .name = "shift",
    .title = "a linear map for each shift",
    .doc = "exact: pairs turned by k frequency, M(k) of relative_shift; least squares: the smallest A with\n"
           "sum over p of |table[p + k] - table[p] A|^2 least, fitted without the third and the seventh eighth of p",
    .sizes = "offsets",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY),
    .ordered = true,
    .pairs = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .check = check,
    .compute = compute,
    .draw = draw,
};
