/* direction.c - can the table tell before from after?
 *
 * The plain dot product of rows p and p + k says nothing of the sign of k where only distance matters. A linear map can: the
 * one for +k, used for -k, misses. Of pairs, |M(k) - M(-k)| / (sqrt(2) |M(k)|) is the root mean square of sqrt(2) sin(k w).
 */
#include "analysis/analysis.h"
#include "analysis/maps.h"

#include <stdlib.h>
#include <string.h>

enum { OFFSET, DOT, MAP, RIGHT, WRONG };
enum { OFFSETS };

static const pe_field fields[] = {
    [OFFSET] = { .name = "offset", .unit = "positions", .kind = PE_F_WHOLE, .axis = { 1 + OFFSETS }, .doc = "distances k" },
    [DOT] = { .name = "dot_difference",
              .axis = { 1 + OFFSETS },
              .doc =
                  "largest |table[p] . table[p + k] - table[p] . table[p - k]| over the mean square of a norm: 0 where the "
                  "plain dot product cannot tell" },
    [MAP] = { .name = "map_difference",
              .axis = { 1 + OFFSETS },
              .doc = "|M(k) - M(-k)| / (sqrt(2) |M(k)|), Frobenius: 0 the same map, 1 as far apart as unrelated ones" },
    [RIGHT] = { .name = "error_right",
                .axis = { 1 + OFFSETS },
                .doc = "root mean square error of table[p + k] by the map for +k, over that of the table" },
    [WRONG] = { .name = "error_wrong",
                .axis = { 1 + OFFSETS },
                .doc = "by the map for -k: over error_right, direction shows" },
};

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    size[OFFSETS] = pe_few_offsets(a, a->subject.n, NULL);
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const int64_t n = a->subject.n, d = a->subject.d;
    *out = (posenc_cost){
        .ns = pe_fit_ns(n, d) + 2 * (double)size[OFFSETS] * (pe_fit_map_ns(n, d) + 3 * (double)n * (double)d),
        .scratch = pe_fit_scratch(n, d) + (uint64_t)(3 * d + d * d) * sizeof(double),
    };
}

static posenc_status check(const pe_analysis *a, posenc_error *err)
{
    const int64_t last = pe_farthest(a);
    if (a->subject.n - 2 * last < 2)
        return pe_invalid(err, a->offsets.n ? "offsets" : "table",
                          posenc_text("%lld rows, offset %lld", (long long)a->subject.n, (long long)last),
                          "at least 2 more rows than twice the largest offset: direction looks both ways from each");
    return PE_OK;
}

static double dot_difference(const pe_subject *s, int64_t k)
{
    double most = 0, size = 0;
    for (int64_t p = k; p + k < s->n; p++) {
        const double *row = s->table + p * s->d;
        most = pe_max(most, fabs(pe_dot(row, row + k * s->d, s->d) - pe_dot(row, row - k * s->d, s->d)));
        size += pe_dot(row, row, s->d);
    }
    return size > 0 ? most / (size / (double)(s->n - 2 * k)) : (double)NAN;
}

typedef struct answer {
    double map, right, wrong;
} answer;

/* Mean square of the rows k on. */
static double size_of(const pe_subject *s, int64_t k)
{
    double size = 0;
    for (int64_t p = k; p + k < s->n; p++)
        size += pe_dot(s->table + (p + k) * s->d, s->table + (p + k) * s->d, s->d);
    return size;
}

static posenc_status by_pairs(const pe_subject *s, int64_t k, double *work, answer *out, pe_pace *pace)
{
    const pe_pairing *pairs = &s->pairing;
    double *cosine = work, *sine = work + pairs->n, *row = work + 2 * pairs->n, apart = 0, right = 0, wrong = 0;
    posenc_status st = PE_OK;
    pe_turns_of(pairs, (double)k, cosine, sine);
    for (int64_t j = 0; j < pairs->n; j++)
        apart += 2 * sine[j] * sine[j];
    for (int64_t p = k; p + k < s->n && !st; p++) {
        const double *x = s->table + p * s->d, *y = x + k * s->d;
        pe_turn_row(pairs, cosine, sine, x, row);
        right += pe_distance2(row, y, s->d);
        for (int64_t j = 0; j < pairs->n; j++)
            sine[j] = -sine[j];
        pe_turn_row(pairs, cosine, sine, x, row);
        wrong += pe_distance2(row, y, s->d);
        for (int64_t j = 0; j < pairs->n; j++)
            sine[j] = -sine[j];
        st = pe_pace_add(pace, 4 * s->d);
    }
    const double size = size_of(s, k);
    *out = (answer){ sqrt(apart / (double)pairs->n), sqrt(right / size), sqrt(wrong / size) };
    return st;
}

static posenc_status by_fit(pe_fit *f, int64_t k, double *back, answer *out, pe_pace *pace)
{
    const int64_t d = f->d;
    double *forward = f->map;
    pe_score right = { 0 }, wrong = { 0 };
    posenc_status st = pe_fit_map(f, -k, pace);
    memcpy(back, f->map, (size_t)(d * d) * sizeof *back);
    st = st ? st : pe_fit_map(f, k, pace);
    st = st ? st : pe_fit_score(f, k, true, &right, pace);
    const double apart = pe_distance2(back, f->map, d * d), size = pe_dot(f->map, f->map, d * d);
    f->map = back;
    st = st ? st : pe_fit_score(f, k, true, &wrong, pace);
    f->map = forward;
    *out = (answer){ sqrt(apart / size / 2), sqrt(right.left / right.size), sqrt(wrong.left / wrong.size) };
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    double *offset = pe_block_field(b, OFFSET);
    const int64_t m = pe_few_offsets(a, s->n, offset), last = (int64_t)offset[m - 1], d = s->d;
    double *work = malloc((size_t)(3 * d + d * d) * sizeof *work);
    pe_fit f = { 0 };
    posenc_status st = work ? PE_OK : pe_no_memory("memory", err);
    if (!st && !s->pairing.n)
        st = pe_fit_begin(&f, s, last, s->n - 2 * last, pace, err);
    for (int64_t i = 0; i < m && !st; i++) {
        const int64_t k = (int64_t)offset[i];
        answer one = { 0 };
        pe_block_field(b, DOT)[i] = dot_difference(s, k);
        st = pe_pace_add(pace, s->n * (d / 2 + 20));
        if (!st)
            st = s->pairing.n ? by_pairs(s, k, work, &one, pace) : by_fit(&f, k, work, &one, pace);
        pe_block_field(b, MAP)[i] = one.map;
        pe_block_field(b, RIGHT)[i] = one.right;
        pe_block_field(b, WRONG)[i] = one.wrong;
    }
    pe_fit_fini(&f);
    free(work);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    (void)arena;
    const size_t n = (size_t)pe_block_size(b, OFFSETS);
    const double *x = pe_block_field(b, OFFSET);
    *out = (pe_panel){
        .title = "row p + k from row p: by the map for +k, and by the map for -k",
        .x_label = "offset k [positions]",
        .y_label = "relative",
        .x_log = true,
        .series = { { .label = "error, map for +k", .x = x, .y = pe_block_field(b, RIGHT), .n = n },
                    { .label = "error, map for -k", .x = x, .y = pe_block_field(b, WRONG), .n = n },
                    { .label = "maps differ", .x = x, .y = pe_block_field(b, MAP), .n = n, .dashed = true },
                    { .label = "dot products differ",
                      .x = x,
                      .y = pe_block_field(b, DOT),
                      .n = n,
                      .mark = PE_MARK_POINTS } },
        .nseries = 4,
    };
    return 1;
}

const pe_what pe_what_direction = {
    .name = "direction",
    .title = "before and after",
    .doc = "maps M(k) and M(-k) as in shift; errors relative to the root mean square of the table",
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
