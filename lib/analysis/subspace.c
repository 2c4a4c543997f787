/* subspace.c - how many dimensions a table takes, and whether embeddings live in them.
 *
 * The table's subspace is that of the singular vectors that hold 99 % of its energy, the sum of squares of all elements; no
 * mean is taken away, for an encoding is added as it is. */
#include "analysis/analysis.h"

#include "linalg/linalg.h"

#include <stdlib.h>
#include <string.h>

enum { DIM90, DIM99, DIM999, RANK, SINGULAR, ENERGY, SHARE, CHANCE, THEIR_DIMS, ANGLE };
enum { VALUES, ANGLES };

static const pe_field fields[] = {
    [DIM90] = { .name = "dims_90", .kind = PE_F_WHOLE, .doc = "dimensions that hold 90 % of the energy" },
    [DIM99] = { .name = "dims_99", .kind = PE_F_WHOLE, .doc = "99 %: the subspace" },
    [DIM999] = { .name = "dims_99_9", .kind = PE_F_WHOLE, .doc = "99.9 %" },
    [RANK] = { .name = "rank", .kind = PE_F_WHOLE, .doc = "singular values over 1e-7 of the largest" },
    [SINGULAR] = { .name = "singular_value", .axis = { 1 + VALUES }, .doc = "descending" },
    [ENERGY] = { .name = "energy", .axis = { 1 + VALUES }, .doc = "share held by this and those before" },
    [SHARE] = { .name = "embeddings_inside",
                .doc = "share of the energy of the embeddings within the subspace; null without embeddings" },
    [CHANCE] = { .name = "by_chance", .doc = "dims_99 / channels: what random embeddings have inside" },
    [THEIR_DIMS] = { .name = "embeddings_dims_99",
                     .kind = PE_F_WHOLE,
                     .doc = "dimensions that hold 99 % of theirs; null without" },
    [ANGLE] = { .name = "principal_angle",
                .unit = "rad",
                .axis = { 1 + ANGLES },
                .doc = "between the two subspaces, ascending: 0 shared, pi/2 at right angles; empty without embeddings" },
};

static int64_t values_of(const pe_analysis *a) { return a->subject.n < a->subject.d ? a->subject.n : a->subject.d; }

static int64_t tokens_of(const pe_analysis *a) { return a->embeddings.data ? a->embeddings.shape[0] : 0; }

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    const int64_t m = values_of(a), tokens = tokens_of(a);
    size[VALUES] = m;
    size[ANGLES] = m < tokens ? m : tokens;
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const int64_t n = a->subject.n, d = a->subject.d, tokens = tokens_of(a);
    (void)size;
    const int64_t small = tokens < d ? tokens : d;
    *out = (posenc_cost){
        .ns = pe_gram_ns(n, values_of(a)) + pe_eigen_ns(values_of(a)) +
              0.3 * (double)d * (double)d * (double)(n < d ? n : 0) +
              (tokens ? pe_gram_ns(tokens, small) + 2 * pe_eigen_ns(small) + pe_gram_ns(d, d) +
                            0.5 * (double)(tokens * d) * (double)d
                      : 0),
        .scratch = (uint64_t)(5 * d * d + 4 * d + tokens * d + 64) * sizeof(double),
    };
}

static posenc_status check(const pe_analysis *a, posenc_error *err)
{
    if (!a->embeddings.data)
        return PE_OK;
    const int64_t shape[] = { -1, a->subject.d };
    if (!pe_tensor_shaped(
            &a->embeddings, 2, shape,
            posenc_text("[tokens, %lld]: the table has %lld channels", (long long)a->subject.d, (long long)a->subject.d).s,
            err))
        return err ? err->status : PE_INVALID;
    const int64_t n = posenc_tensor_count(&a->embeddings);
    if (a->embeddings.shape[0] < 1)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "embeddings", "0 tokens", "at least 1 token");
    if (n > 1 << 25)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "embeddings", posenc_text("%lld elements", (long long)n).s,
                           "at most %d elements: a sample of the tokens", 1 << 25);
    return PE_OK;
}

/* How many of the largest hold that share. */
static int64_t holding(const double *singular, int64_t n, double share)
{
    double all = 0, sum = 0;
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++)
        all += singular[i] * singular[i];
    while (k < n && sum < share * all * (1 - 1e-12)) {
        sum += singular[k] * singular[k];
        k++;
    }
    return k;
}

/* acos of x in 0 .. 1 by the half angle: 2 asin(sqrt((1 - x) / 2)), and asin by its tangent's halving. */
static double angle_of_cosine(double x)
{
    const double s = sqrt(pe_max(0, (1 - x) / 2)), c = sqrt(pe_max(0, (1 + x) / 2));
    double t = c > s ? s / c : 1, sum = 0;
    for (int i = 0; i < 3; i++)
        t = t / (1 + sqrt(1 + t * t));
    for (int k = 25; k >= 1; k -= 2)
        sum = (k % 4 == 1 ? 1.0 : -1.0) / k + sum * t * t;
    return 16 * t * sum;
}

static posenc_status beside(const pe_analysis *a, const double *ours, int64_t dims, int64_t d, pe_block *b, pe_pace *pace,
                            posenc_error *err)
{
    const int64_t tokens = tokens_of(a);
    double *memory = malloc((size_t)(tokens * d + d + 3 * d * d + d) * sizeof *memory);
    if (!memory)
        return pe_no_memory("memory", err);
    double *e = memory, *values = e + tokens * d, *theirs = values + d, *cross = theirs + d * d, *g = cross + d * d,
           *cosines = g + d * d;
    double inside = 0, all = 0;
    posenc_status st = pe_tensor_doubles(&a->embeddings, e, pace);
    for (int64_t i = 0; i < tokens && !st; i++) {
        all += pe_dot(e + i * d, e + i * d, d);
        for (int64_t r = 0; r < dims; r++) {
            const double v = pe_dot(e + i * d, ours + r * d, d);
            inside += v * v;
        }
        st = pe_pace_add(pace, dims * (d / 4 + 8));
    }
    st = st ? st : pe_singular(e, tokens, d, values, theirs, pace, err);
    const int64_t their_dims = st ? 0 : holding(values, tokens < d ? tokens : d, 0.99),
                  m = dims < their_dims ? dims : their_dims;
    /* cosines of the angles are the singular values of ours theirs^T */
    const double *small = dims < their_dims ? ours : theirs, *large = dims < their_dims ? theirs : ours;
    const int64_t big = dims < their_dims ? their_dims : dims;
    for (int64_t i = 0; i < m && !st; i++) {
        for (int64_t k = 0; k < big; k++)
            cross[i * big + k] = pe_dot(small + i * d, large + k * d, d);
        st = pe_pace_add(pace, big * (d / 4 + 8));
    }
    for (int64_t i = 0; i < m && !st; i++) {
        for (int64_t k = 0; k < m; k++)
            g[i * m + k] = pe_dot(cross + i * big, cross + k * big, big);
        st = pe_pace_add(pace, m * (big / 4 + 8));
    }
    if (!st && m)
        st = pe_sym_dense(m, g, cosines, pace->ctx, err);
    b->size[ANGLES] = (double)m;
    for (int64_t i = 0; i < m && !st; i++)
        pe_block_field(b, ANGLE)[i] = angle_of_cosine(pe_min(1, sqrt(pe_max(0, cosines[m - 1 - i]))));
    pe_block_set(b, SHARE, all > 0 ? inside / all : (double)NAN);
    pe_block_set(b, THEIR_DIMS, (double)their_dims);
    free(memory);
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    const int64_t d = s->d, m = values_of(a);
    double *values = malloc((size_t)(d + d * d) * sizeof *values), *vectors = values + d, all = 0, sum = 0;
    if (!values)
        return pe_no_memory("memory", err);
    posenc_status st = pe_singular(s->table, s->n, d, values, vectors, pace, err);
    int64_t rank = 0;
    for (int64_t i = 0; i < m; i++)
        all += values[i] * values[i];
    for (int64_t i = 0; i < m && !st; i++) {
        sum += values[i] * values[i];
        rank += values[i] > 1e-7 * values[0];
        pe_block_field(b, SINGULAR)[i] = values[i];
        pe_block_field(b, ENERGY)[i] = all > 0 ? sum / all : (double)NAN;
    }
    const int64_t dims = holding(values, m, 0.99);
    pe_block_set(b, DIM90, (double)holding(values, m, 0.9));
    pe_block_set(b, DIM99, (double)dims);
    pe_block_set(b, DIM999, (double)holding(values, m, 0.999));
    pe_block_set(b, RANK, (double)rank);
    pe_block_set(b, CHANCE, (double)dims / (double)d);
    pe_block_set(b, SHARE, (double)NAN);
    pe_block_set(b, THEIR_DIMS, (double)NAN);
    if (!st && a->embeddings.data)
        st = beside(a, vectors, dims, d, b, pace, err);
    free(values);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const int64_t n = pe_block_size(b, VALUES), angles = pe_block_size(b, ANGLES);
    double *index = pe_count_up(arena, n), *left = posenc_alloc(arena, (size_t)n * sizeof *left);
    char *words[3];
    for (int i = 0; i < 3; i++)
        words[i] = pe_words(arena, "%s %%: %.0f", i == 0 ? "90" : i == 1 ? "99" : "99.9", pe_block_field(b, DIM90 + i)[0]);
    if (!index || !left || !words[0] || !words[1] || !words[2])
        return -1;
    for (int64_t i = 0; i < n; i++) {
        index[i] = (double)i + 1;
        left[i] = pe_block_field(b, SINGULAR)[i] / pe_block_field(b, SINGULAR)[0];
        left[i] = left[i] > 1e-9 ? left[i] : (double)NAN; /* rounding */
    }
    out[0] = (pe_panel){
        .title = "singular values, over the largest",
        .x_label = "dimension",
        .y_label = "singular value",
        .y_log = true,
        .series = { { .x = index, .y = left, .n = (size_t)n, .mark = PE_MARK_POINTS } },
        .nseries = 1,
    };
    for (int i = 0; i < 3; i++)
        out->rule[out->nrules++] = (pe_rule){ pe_block_field(b, DIM90 + i)[0], words[i], true };
    if (!angles)
        return 1;
    double *number = pe_count_up(arena, angles), *turns = posenc_alloc(arena, (size_t)angles * sizeof *turns);
    char *share = pe_words(arena, "principal angles: %.3g of the embeddings' energy lies within, by chance %.3g",
                           pe_block_number(b, SHARE), pe_block_number(b, CHANCE));
    if (!number || !turns || !share)
        return -1;
    for (int64_t i = 0; i < angles; i++) {
        number[i] = (double)i + 1;
        turns[i] = pe_block_field(b, ANGLE)[i] * 180 / pe_pi.hi;
    }
    out[1] = (pe_panel){
        .title = share,
        .x_label = "number of the angle",
        .y_label = "angle [degrees]",
        .series = { { .x = number, .y = turns, .n = (size_t)angles, .mark = PE_MARK_POINTS } },
        .nseries = 1,
        .rule = { { 0, "shared", false }, { 90, "at right angles", false } },
        .nrules = 2,
    };
    return 2;
}

const pe_what pe_what_subspace = {
    .name = "subspace",
    .title = "dimensions that are used",
    .doc = "table = U S V^T; energy[i] = sum of S^2 up to i over all; the subspace is the first dims_99 rows of V^T;\n"
           "principal angles: arc cosines of the singular values of V theirs^T",
    .sizes = "values angles",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY) | PE_ON(PE_SPECTRUM),
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .check = check,
    .compute = compute,
    .draw = draw,
};
