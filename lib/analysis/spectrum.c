/* spectrum.c - eigenvalues of a graph's Laplacian and how its eigenvectors lie.
 *
 * Eigenvalues that differ by less than 1e-10 (of the larger, from 1 on) are one, with a multiplicity; only the space of
 * their vectors is determined, not each vector. A vector's participation is 1 / (n sum v^4) of the unit vector: 1 spread
 * evenly, 1/n on one node. */
#include "analysis/analysis.h"

#include "linalg/linalg.h"

enum { COMPONENTS, ZEROS, UNDETERMINED, VALUE, GAP, MULTIPLICITY, PARTICIPATION, DETERMINED };
enum { COLUMNS };

static const pe_field fields[] = {
    [COMPONENTS] = { .name = "components",
                     .kind = PE_F_WHOLE,
                     .doc = "connected components; null where the encoding does not say" },
    [ZEROS] = { .name = "zero_eigenvalues", .kind = PE_F_WHOLE, .doc = "listed eigenvalues of at most 1e-10" },
    [UNDETERMINED] = { .name = "undetermined",
                       .kind = PE_F_WHOLE,
                       .doc = "columns that the graph does not determine, up to sign" },
    [VALUE] = { .name = "eigenvalue", .axis = { 1 + COLUMNS }, .doc = "of each column" },
    [GAP] = { .name = "gap", .axis = { 1 + COLUMNS }, .doc = "to the next eigenvalue listed; null of the last" },
    [MULTIPLICITY] = { .name = "multiplicity",
                       .kind = PE_F_WHOLE,
                       .axis = { 1 + COLUMNS },
                       .doc = "eigenvalues listed that equal it, itself included" },
    [PARTICIPATION] = { .name = "participation",
                        .axis = { 1 + COLUMNS },
                        .doc = "1 spread evenly over all nodes, 1/n on one node; null of a column of zeros" },
    [DETERMINED] = { .name = "determined",
                     .kind = PE_F_FLAG,
                     .axis = { 1 + COLUMNS },
                     .doc = "by the graph, up to sign; null where the encoding does not say" },
};

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES]) { size[COLUMNS] = a->subject.d; }

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    (void)size;
    out->ns = 4.0 * (double)a->subject.n * (double)a->subject.d;
}

static double participation(const pe_subject *s, int64_t column)
{
    double square = 0, fourth = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double v = s->table[i * s->d + column];
        square += v * v;
        fourth += v * v * v * v;
    }
    return fourth > 0 ? square * square / fourth / (double)s->n : (double)NAN;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    (void)a, (void)err;
    double *value = pe_block_field(b, VALUE), *many = pe_block_field(b, MULTIPLICITY), *gap = pe_block_field(b, GAP);
    int64_t zeros = 0, undetermined = 0, first = 0;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < s->d && !st; i++) {
        value[i] = s->eigenvalues[i];
        zeros += fabs(value[i]) <= 1e-10;
        gap[i] = i + 1 < s->d ? s->eigenvalues[i + 1] - value[i] : (double)NAN;
        if (i && fabs(value[i] - value[i - 1]) > pe_cluster_gap(value[i]))
            first = i;
        for (int64_t k = first; k <= i; k++)
            many[k] = (double)(i - first + 1);
        pe_block_field(b, PARTICIPATION)[i] = participation(s, i);
        pe_block_field(b, DETERMINED)[i] = s->determined ? s->determined[i] : (double)NAN;
        undetermined += s->determined && s->determined[i] == 0;
        st = pe_pace_add(pace, 4 * s->n);
    }
    pe_block_set(b, COMPONENTS, s->components);
    pe_block_set(b, ZEROS, (double)zeros);
    pe_block_set(b, UNDETERMINED, s->determined ? (double)undetermined : (double)NAN);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const int64_t n = pe_block_size(b, COLUMNS);
    double *index = pe_count_up(arena, n), *sure = posenc_alloc(arena, (size_t)n * sizeof *sure),
           *unsure = posenc_alloc(arena, (size_t)n * sizeof *unsure);
    const double *determined = pe_block_field(b, DETERMINED), *value = pe_block_field(b, VALUE);
    if (!index || !sure || !unsure)
        return -1;
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        sure[i] = determined[i] != 0 ? value[i] : (double)NAN;
        unsure[i] = determined[i] != 0 ? (double)NAN : value[i];
        any |= determined[i] == 0;
    }
    out[0] = (pe_panel){
        .title = "eigenvalues",
        .x_label = "column",
        .y_label = "eigenvalue",
        .series = { { .label = any ? "determined" : NULL, .x = index, .y = sure, .n = (size_t)n, .mark = PE_MARK_POINTS },
                    { .label = "vector not determined", .x = index, .y = unsure, .n = (size_t)n, .mark = PE_MARK_POINTS } },
        .nseries = any ? 2 : 1,
    };
    out[1] = (pe_panel){
        .title = "participation of each eigenvector: 1 spread evenly, 1/n on one node",
        .x_label = "column",
        .y_label = "participation",
        .series = { { .x = index, .y = pe_block_field(b, PARTICIPATION), .n = (size_t)n, .mark = PE_MARK_BARS } },
        .nseries = 1,
    };
    return 2;
}

const pe_what pe_what_spectrum = {
    .name = "spectrum",
    .title = "spectrum of the graph",
    .doc = "gap[i] = eigenvalue[i + 1] - eigenvalue[i]; participation[i] = (sum v^2)^2 / (n sum v^4) of column i",
    .sizes = "columns",
    .kinds = PE_ON(PE_SPECTRUM),
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
