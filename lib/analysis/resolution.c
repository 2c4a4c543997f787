/* resolution.c - how far a row is from the next one, by groups of channels, along the table. */
#include "analysis/analysis.h"

enum { POSITION, FIRST, COUNT, STILL, DISTANCE };
enum { ROWS, GROUPS };

static const pe_field fields[] = {
    [POSITION] = { .name = "position",
                   .unit = "positions",
                   .kind = PE_F_WHOLE,
                   .axis = { 1 + ROWS },
                   .doc = "rows p that are listed: all but the last, or 512 evenly" },
    [FIRST] = { .name = "group_first",
                .kind = PE_F_WHOLE,
                .axis = { 1 + GROUPS },
                .doc = "first pair (channel, where there are no pairs) of each group; groups are as wide as one another" },
    [COUNT] = { .name = "group_width", .kind = PE_F_WHOLE, .axis = { 1 + GROUPS }, .doc = "pairs or channels of the group" },
    [STILL] = { .name = "equal_neighbours",
                .kind = PE_F_WHOLE,
                .axis = { 1 + GROUPS },
                .doc = "of all rows, those whose next row is the same in this group" },
    [DISTANCE] = { .name = "distance",
                   .axis = { 1 + GROUPS, 1 + ROWS },
                   .doc = "|table[p + 1] - table[p]| within the group" },
};

enum { MOST_GROUPS = 6 };

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    const int64_t units = a->subject.kind == PE_ROTARY ? a->subject.d / 2 : a->subject.d;
    size[ROWS] = pe_sample(a->subject.n - 1, 512, NULL);
    size[GROUPS] = units < MOST_GROUPS ? units : MOST_GROUPS;
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    (void)size;
    out->ns = 2.5 * (double)a->subject.n * (double)a->subject.d;
}

/* Squared distance of rows p and p + 1 in the units first .. last - 1. */
static double distance2(const pe_subject *s, int64_t p, int64_t first, int64_t last)
{
    const double *x = s->table + p * s->d, *y = x + s->d;
    const pe_pairing *pairs = &s->pairing;
    double sum = 0;
    for (int64_t i = first; i < last; i++) {
        const int64_t a = pairs->n ? pe_pair_first(pairs, i) : i, b = pairs->n ? pe_pair_second(pairs, i) : a;
        sum += (y[a] - x[a]) * (y[a] - x[a]);
        sum += b != a ? (y[b] - x[b]) * (y[b] - x[b]) : 0;
    }
    return sum;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    (void)a, (void)err;
    const int64_t units = s->pairing.n ? s->pairing.n : s->d, groups = units < MOST_GROUPS ? units : MOST_GROUPS;
    posenc_status st = PE_OK;
    b->size[GROUPS] = (double)groups;
    const int64_t rows = pe_sample(s->n - 1, 512, pe_block_field(b, POSITION));
    const double *position = pe_block_field(b, POSITION);
    for (int64_t g = 0; g < groups && !st; g++) {
        const int64_t first = g * units / groups, last = (g + 1) * units / groups;
        double *out = pe_block_field(b, DISTANCE) + g * rows;
        int64_t next = 0, still = 0;
        pe_block_field(b, FIRST)[g] = (double)first;
        pe_block_field(b, COUNT)[g] = (double)(last - first);
        for (int64_t p = 0; p + 1 < s->n && !st; p++) {
            const double v = distance2(s, p, first, last);
            still += v == 0;
            if (next < rows && position[next] == (double)p)
                out[next++] = sqrt(v);
            st = pe_pace_add(pace, 3 * (last - first) + 4);
        }
        pe_block_field(b, STILL)[g] = (double)still;
    }
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const int64_t rows = pe_block_size(b, ROWS), groups = pe_block_size(b, GROUPS);
    *out = (pe_panel){
        .title = "distance from each row to the next, by group of channels",
        .x_label = "row",
        .y_label = "distance to the next row",
        .y_log = true,
        .ordered = true,
        .nseries = (int)groups,
    };
    for (int64_t g = 0; g < groups; g++) {
        const double first = pe_block_field(b, FIRST)[g];
        char *words = pe_words(arena, "%.0f .. %.0f", first, first + pe_block_field(b, COUNT)[g] - 1);
        if (!words)
            return -1;
        out->series[g] = (pe_series){
            .label = words, .x = pe_block_field(b, POSITION), .y = pe_block_field(b, DISTANCE) + g * rows, .n = (size_t)rows
        };
    }
    return 1;
}

const pe_what pe_what_resolution = {
    .name = "resolution",
    .title = "distance between neighbours",
    .doc = "distance[g][p] = |table[p + 1] - table[p]| over the channels of group g; pairs, or channels, in six groups",
    .sizes = "rows groups",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY),
    .ordered = true,
    .pairs = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
