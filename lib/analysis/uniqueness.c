/* uniqueness.c - are all rows different, and still so when rounded? */
#include "analysis/analysis.h"

#include "core/digest.h"
#include "core/parallel.h"
#include "linalg/sort.h"

#include <stdlib.h>
#include <string.h>

enum { DISTANCE, FIRST, SECOND, RELATIVE, EQUAL64, EQUAL32, EQUAL16, EQUALB16, POSITION, NEAREST };
enum { ROWS };

static const pe_field fields[] = {
    [DISTANCE] = { .name = "distance", .doc = "smallest L2 distance between two rows" },
    [FIRST] = { .name = "row_a", .unit = "positions", .kind = PE_F_WHOLE, .doc = "where: the first such pair of rows" },
    [SECOND] = { .name = "row_b", .unit = "positions", .kind = PE_F_WHOLE, .doc = "the other row" },
    [RELATIVE] = { .name = "relative", .doc = "distance / root mean square norm of a row" },
    [EQUAL64] = { .name = "equal", .kind = PE_F_WHOLE, .doc = "rows that equal an earlier one, as they are" },
    [EQUAL32] = { .name = "equal_float32", .kind = PE_F_WHOLE, .doc = "after rounding to float32" },
    [EQUAL16] = { .name = "equal_float16", .kind = PE_F_WHOLE, .doc = "after rounding to float16" },
    [EQUALB16] = { .name = "equal_bfloat16", .kind = PE_F_WHOLE, .doc = "after rounding to bfloat16" },
    [POSITION] = { .name = "position",
                   .unit = "positions",
                   .kind = PE_F_WHOLE,
                   .axis = { 1 + ROWS },
                   .doc = "rows whose nearest other row is listed: all, or 1024 evenly" },
    [NEAREST] = { .name = "nearest", .axis = { 1 + ROWS }, .doc = "distance to the nearest other row" },
};

enum { PARTS = 16 }; /* of the search */

typedef struct item {
    uint8_t digest[32];
} item;

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES]) { size[ROWS] = pe_sample(a->subject.n, 1024, NULL); }

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const double n = (double)a->subject.n, d = (double)a->subject.d;
    (void)size;
    *out = (posenc_cost){ .ns = n * n / 2 * (0.5 * d + 8) + 4 * n * (20 * d + 1500),
                          .scratch = (uint64_t)a->subject.n * (PARTS * sizeof(double) + 2 * sizeof(item)) +
                                     (uint64_t)a->subject.d * 2 * sizeof(double) };
}

static int by_digest(const void *a, const void *b) { return memcmp(a, b, sizeof(item)); }

/* Rows that equal an earlier one after rounding: by their SHA-256. */
static posenc_status equal_rows(const pe_subject *s, posenc_dtype dtype, item *items, void *row, double *clean, double *out,
                                pe_pace *pace, posenc_error *err)
{
    const size_t size = (size_t)s->d * posenc_dtype_size(dtype);
    posenc_status st = PE_OK;
    int64_t equal = 0;
    for (int64_t p = 0; p < s->n && !st; p++) {
        pe_digest digest;
        for (int64_t k = 0; k < s->d; k++)
            clean[k] = s->table[p * s->d + k];
        posenc_convert(dtype, row, clean, (size_t)s->d);
        const posenc_tensor t = { .dtype = dtype, .rank = 1, .shape = { s->d }, .data = row };
        pe_tensor_read(&t, 0, (size_t)s->d, clean);
        for (int64_t k = 0; k < s->d; k++)
            clean[k] += 0.0; /* -0 is 0 */
        if (!pe_hash(clean, (size_t)s->d * sizeof *clean, &digest))
            return pe_no_memory("memory", err);
        memcpy(items[p].digest, digest.byte, sizeof digest.byte);
        st = pe_pace_add(pace, (int64_t)size * 4 + 1000);
    }
    st = st ? st : pe_sort(s->n, sizeof *items, items, items + s->n, by_digest, pace);
    for (int64_t p = 1; p < s->n && !st; p++)
        equal += !by_digest(&items[p - 1], &items[p]);
    *out = (double)equal;
    return st;
}

/* Squared distances of every row to its nearest, by parts: part i compares its rows with all later ones. Smallest of several
 * is exact, so that the parts may be joined in any grouping. */
typedef struct search {
    const pe_subject *s;
    posenc_context *ctx;
    double *near;           /* (PARTS, n) */
    int64_t pair[PARTS][2]; /* the first of the nearest pairs of each part */
    double least[PARTS];    /* their squared distance; infinite: no pair */
} search;

static posenc_status search_part(void *arg, int64_t part, posenc_error *err)
{
    (void)err;
    search *w = arg;
    const pe_subject *s = w->s;
    double *near = w->near + part * s->n;
    pe_pace pace = { .ctx = w->ctx };
    posenc_status st = PE_OK;
    w->least[part] = INFINITY;
    for (int64_t p = 0; p < s->n; p++)
        near[p] = INFINITY;
    for (int64_t p = part; p < s->n && !st; p += PARTS) /* early rows have more to compare with */
        for (int64_t q = p + 1; q < s->n && !st; q++) {
            const double v = pe_distance2(s->table + p * s->d, s->table + q * s->d, s->d);
            near[p] = pe_min(near[p], v);
            near[q] = pe_min(near[q], v);
            if (v < w->least[part]) {
                w->least[part] = v;
                w->pair[part][0] = p;
                w->pair[part][1] = q;
            }
            st = pe_pace_add(&pace, s->d / 4 + 8);
        }
    return st;
}

/* The first part's numbers become those of all. */
static void join(search *w, int64_t pair[2])
{
    double least = INFINITY;
    for (int part = 0; part < PARTS; part++) {
        for (int64_t p = 0; p < w->s->n; p++)
            w->near[p] = pe_min(w->near[p], w->near[part * w->s->n + p]);
        if (w->least[part] < least || (w->least[part] == least && w->pair[part][0] < pair[0])) {
            least = w->least[part];
            memcpy(pair, w->pair[part], sizeof w->pair[part]);
        }
    }
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    static const posenc_dtype dtypes[] = { PE_float64, PE_float32, PE_float16, PE_bfloat16 };
    (void)a;
    const int64_t m = pe_sample(s->n, 1024, pe_block_field(b, POSITION));
    double *near = malloc((size_t)s->n * (PARTS * sizeof *near + 2 * sizeof(item)) + (size_t)s->d * 2 * sizeof *near),
           squares = 0;
    int64_t pair[2] = { 0, 0 };
    if (!near)
        return pe_no_memory("memory", err);
    double *row = near + PARTS * s->n, *clean = row + s->d;
    search w = { .s = s, .ctx = pace->ctx, .near = near };
    posenc_status st = pe_parallel(pace->ctx, PARTS, 0, search_part, &w, err);
    join(&w, pair);
    for (size_t i = 0; i < PE_LEN(dtypes) && !st; i++)
        st = equal_rows(s, dtypes[i], (item *)(void *)(clean + s->d), row, clean, pe_block_field(b, EQUAL64 + (int)i), pace,
                        err);
    for (int64_t p = 0; p < s->n; p++)
        squares += pe_dot(s->table + p * s->d, s->table + p * s->d, s->d);
    const double distance = sqrt(near[pair[0]]), size = sqrt(squares / (double)s->n);
    pe_block_set(b, DISTANCE, distance);
    pe_block_set(b, FIRST, (double)pair[0]);
    pe_block_set(b, SECOND, (double)pair[1]);
    pe_block_set(b, RELATIVE, size > 0 ? distance / size : (double)NAN);
    for (int64_t i = 0; i < m; i++)
        pe_block_field(b, NEAREST)[i] = sqrt(near[(int64_t)pe_block_field(b, POSITION)[i]]);
    free(near);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    char *words = pe_words(arena, "smallest: rows %.0f and %.0f", pe_block_number(b, FIRST), pe_block_number(b, SECOND));
    char *title = pe_words(arena,
                           "distance to the nearest other row (rows equal: float32 %.0f, float16 %.0f, bfloat16 %.0f)",
                           pe_block_number(b, EQUAL32), pe_block_number(b, EQUAL16), pe_block_number(b, EQUALB16));
    *out = (pe_panel){
        .title = title,
        .x_label = "row",
        .y_label = "distance",
        .series = { { .x = pe_block_field(b, POSITION),
                      .y = pe_block_field(b, NEAREST),
                      .n = (size_t)pe_block_size(b, ROWS) } },
        .nseries = 1,
        .rule = { { pe_block_number(b, DISTANCE), words, false } },
        .nrules = 1,
    };
    return words && title ? 1 : -1;
}

const pe_what pe_what_uniqueness = {
    .name = "uniqueness",
    .title = "are all rows different",
    .doc = "distance = smallest |table[p] - table[q]| over all p < q; equal rows counted after rounding each element",
    .sizes = "rows",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY) | PE_ON(PE_SPECTRUM),
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
