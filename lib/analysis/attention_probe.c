/* attention_probe.c - a head of self-attention with random weights, with the encoding and without.
 *
 * Tokens x[i] are normal with standard deviation embedding_std. With rows, h[i] = normalize(x[i] + table[i]), as a layer
 * norm of mean 0 and variance 1; otherwise h[i] = normalize(x[i]). q, k, v = h times normal weights of variance 1/width;
 *     score[i][j] = q[i] . k[j] / sqrt(head) + bias[i][j]         rotary: q and k turned by their positions first
 *     out[i] = sum over j of softmax(score[i])[j] v[j]
 * The tokens are then permuted: with no positions the output permutes along exactly, up to rounding of sums in another
 * order; with them it does not. Random numbers: Philox of probe_seed; streams 0 tokens, 1 .. 3 weights, 4 permutation. */
#include "analysis/analysis.h"

#include "core/random.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS, WIDTH, HEAD, WITHOUT, WITH, OFFSET, MEAN_WITH, MEAN_WITHOUT, MAP };
enum { OFFSETS, SHOWN };

static const pe_field fields[] = {
    [TOKENS] = { .name = "tokens", .kind = PE_F_WHOLE, .doc = "of the probe: the first rows of the table" },
    [WIDTH] = { .name = "width", .kind = PE_F_WHOLE, .doc = "channels of a token: those of the table, or 64" },
    [HEAD] = { .name = "head_width",
               .kind = PE_F_WHOLE,
               .doc = "channels of the head: at most 64; rotary: those of the table" },
    [WITHOUT] = { .name = "error_without",
                  .doc = "largest |out of permuted tokens - permuted out| over the root mean square of out, no encoding: "
                         "rounding" },
    [WITH] = { .name = "error_with", .doc = "the same with the encoding: positions matter" },
    [OFFSET] = { .name = "offset", .unit = "positions", .kind = PE_F_WHOLE, .axis = { 1 + OFFSETS }, .doc = "key - query" },
    [MEAN_WITH] = { .name = "attention_with",
                    .axis = { 1 + OFFSETS },
                    .doc = "mean weight times tokens at this offset, with the encoding: 1 is even" },
    [MEAN_WITHOUT] = { .name = "attention_without", .axis = { 1 + OFFSETS }, .doc = "without" },
    [MAP] = { .name = "map",
              .axis = { 1 + SHOWN, 1 + SHOWN },
              .doc = "weights with the encoding, query by key, of the first 64 tokens" },
};

enum { NARROW = 64 };

typedef struct probe {
    const pe_subject *s;
    int64_t n, width, head;
    const double *bias;          /* first of its head */
    double *x, *weights, *shown; /* (n, width), (3, width, head), (n, n) of the last run */
    double *h, *q, *k, *v;       /* (n, width), (n, head) */
    int64_t *order;              /* (n) */
} probe;

static int64_t tokens_of(const pe_analysis *a)
{
    const pe_subject *s = &a->subject;
    const int64_t rows = s->kind == PE_BIAS ? s->keys : s->n;
    return a->probe_length < rows ? a->probe_length : rows;
}
static int64_t width_of(const pe_subject *s) { return s->kind == PE_ROWS || s->kind == PE_SPECTRUM ? s->d : NARROW; }
static int64_t head_of(const pe_subject *s)
{
    return s->kind == PE_ROTARY ? s->d : s->kind == PE_BIAS || s->d > NARROW ? NARROW : s->d;
}

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    const int64_t n = tokens_of(a);
    size[OFFSETS] = 2 * n - 1;
    size[SHOWN] = n < NARROW ? n : NARROW;
}

static uint64_t numbers(int64_t n, int64_t width, int64_t head)
{
    return (uint64_t)(2 * n * width + 3 * width * head + 3 * n * head + n * n + 3 * n * head + n + 8);
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    (void)size;
    const double n = (double)tokens_of(a), w = (double)width_of(&a->subject), h = (double)head_of(&a->subject);
    *out = (posenc_cost){
        .ns = 4 * (n * w * h * 3 * 0.4 + n * n * (h + 600)) + 400 * (n * w + 3 * w * h),
        .scratch = numbers(tokens_of(a), width_of(&a->subject), head_of(&a->subject)) * sizeof(double),
    };
}

static posenc_status check(const pe_analysis *a, posenc_error *err)
{
    const pe_subject *s = &a->subject;
    if (s->kind == PE_BIAS && a->probe_head >= s->heads)
        return pe_invalid(err, "probe_head", posenc_text("%lld", (long long)a->probe_head), "0 .. %lld, a head of the bias",
                          (long long)s->heads - 1);
    if (s->kind != PE_BIAS && a->probe_head)
        return pe_not_applicable(err, "probe_head", posenc_text("%lld", (long long)a->probe_head).s, "only of a bias");
    if (s->kind == PE_BIAS && s->queries != 1 && s->queries != s->keys)
        return pe_not_applicable(err, "what", "attention_probe", "as many queries as keys, or one row for all queries");
    return PE_OK;
}

/* Mean 0, variance 1; a row without variance is zeros. */
static void normalize(double *row, int64_t n)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        mean += row[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        row[i] -= mean;
        square += row[i] * row[i];
    }
    const double scale = square > 0 ? sqrt((double)n / square) : 0;
    for (int64_t i = 0; i < n; i++)
        row[i] *= scale;
}

/* Pairs (j, pairs + j) of a vector by the cosines and sines of position p. */
static void turn(const pe_subject *s, int64_t p, double *v)
{
    const double *c = s->table + p * s->d, *t = c + s->d / 2;
    for (int64_t j = 0; j < s->d / 2; j++) {
        const double a = v[j], b = v[j + s->d / 2];
        v[j] = a * c[j] - b * t[j];
        v[j + s->d / 2] = b * c[j] + a * t[j];
    }
}

/* The head on the tokens in `order`, into out (n, head). */
static posenc_status attend(probe *p, const int64_t *order, bool encoded, double *out, pe_pace *pace)
{
    const int64_t n = p->n, w = p->width, d = p->head;
    const double scale = 1 / sqrt((double)d);
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n; i++) {
        double *row = p->h + i * w;
        memcpy(row, p->x + order[i] * w, (size_t)w * sizeof *row);
        if (encoded && (p->s->kind == PE_ROWS || p->s->kind == PE_SPECTRUM))
            pe_add_times(row, p->s->table + i * p->s->d, 1, w);
        normalize(row, w);
    }
    double *const to[] = { p->q, p->k, p->v };
    for (int m = 0; m < 3 && !st; m++)
        st = pe_product(p->h, p->weights + m * w * d, n, w, d, to[m], pace);
    for (int64_t i = 0; i < n && encoded && p->s->kind == PE_ROTARY; i++) {
        turn(p->s, i, p->q + i * d);
        turn(p->s, i, p->k + i * d);
    }
    memset(out, 0, (size_t)(n * d) * sizeof *out);
    for (int64_t i = 0; i < n && !st; i++) {
        double *score = p->shown + i * n, most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            score[j] = pe_dot(p->q + i * d, p->k + j * d, d) * scale;
            if (encoded && p->bias)
                score[j] += p->bias[(p->s->queries == 1 ? 0 : i) * p->s->keys + j];
            most = pe_max(most, score[j]);
        }
        for (int64_t j = 0; j < n; j++) {
            score[j] = pe_exp(score[j] - most);
            sum += score[j];
        }
        for (int64_t j = 0; j < n; j++) {
            score[j] /= sum;
            pe_add_times(out + i * d, p->v + j * d, score[j], d);
        }
        st = pe_pace_add(pace, n * (d / 2 + 600));
    }
    return st;
}

/* Fisher and Yates. */
static void shuffle(uint64_t seed, int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        double u;
        pe_random_uniform(seed, 4, (uint64_t)i, 1, &u);
        const int64_t k = (int64_t)(u * (double)(i + 1)), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

/* Mean weight times n at each offset key - query. */
static void by_offset(const probe *p, double *out)
{
    for (int64_t o = 1 - p->n; o < p->n; o++) {
        const int64_t first = o < 0 ? -o : 0, last = o < 0 ? p->n : p->n - o;
        double sum = 0;
        for (int64_t i = first; i < last; i++)
            sum += p->shown[i * p->n + i + o];
        out[o + p->n - 1] = sum / (double)(last - first) * (double)p->n;
    }
}

/* How far the output of the permuted tokens is from the permuted output. */
static posenc_status permuted_error(probe *p, const int64_t *plain, bool encoded, double *out, double *other, double *mean,
                                    double *map, double *error, pe_pace *pace)
{
    const int64_t d = p->head, shown = p->n < NARROW ? p->n : NARROW;
    double most = 0, square = 0;
    posenc_status st = attend(p, plain, encoded, out, pace);
    by_offset(p, mean);
    for (int64_t i = 0; map && i < shown; i++)
        memcpy(map + i * shown, p->shown + i * p->n, (size_t)shown * sizeof *map);
    st = st ? st : attend(p, p->order, encoded, other, pace);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t c = 0; c < d; c++) {
            const double v = out[p->order[i] * d + c];
            most = pe_max(most, fabs(other[i * d + c] - v));
            square += v * v;
        }
    *error = square > 0 ? most / sqrt(square / (double)(p->n * d)) : 0;
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    probe p = { .s = s, .n = tokens_of(a), .width = width_of(s), .head = head_of(s) };
    const int64_t n = p.n, w = p.width, d = p.head;
    const uint64_t seed = (uint64_t)a->probe_seed;
    p.x = malloc(numbers(n, w, d) * sizeof(double));
    int64_t *plain = malloc((size_t)(2 * n) * sizeof *plain);
    if (!p.x || !plain) {
        free(p.x);
        free(plain);
        return pe_no_memory("memory", err);
    }
    p.h = p.x + n * w;
    p.weights = p.h + n * w;
    p.q = p.weights + 3 * w * d;
    p.k = p.q + n * d;
    p.v = p.k + n * d;
    p.shown = p.v + n * d;
    double *out = p.shown + n * n, *other = out + n * d;
    p.order = plain + n;
    p.bias = s->bias ? s->bias + a->probe_head * s->queries * s->keys : NULL;
    pe_random_normal(seed, 0, 0, (size_t)(n * w), p.x);
    posenc_status st = pe_pace_add(pace, n * w * 300);
    for (int64_t i = 0; i < n * w; i++)
        p.x[i] *= a->embedding_std;
    for (int m = 0; m < 3; m++)
        for (int64_t i = 0; i < w && !st; i++) {
            double *row = p.weights + (m * w + i) * d;
            pe_random_normal(seed, (uint64_t)(1 + m), (uint64_t)(i * d), (size_t)d, row);
            for (int64_t c = 0; c < d; c++)
                row[c] /= sqrt((double)w);
            st = pe_pace_add(pace, d * 300);
        }
    for (int64_t i = 0; i < n; i++)
        plain[i] = i;
    shuffle(seed, p.order, n);
    double without = 0, with = 0;
    st = st ? st : permuted_error(&p, plain, false, out, other, pe_block_field(b, MEAN_WITHOUT), NULL, &without, pace);
    st = st ? st
            : permuted_error(&p, plain, true, out, other, pe_block_field(b, MEAN_WITH), pe_block_field(b, MAP), &with, pace);
    for (int64_t o = 0; o < 2 * n - 1; o++)
        pe_block_field(b, OFFSET)[o] = (double)(o - n + 1);
    pe_block_set(b, TOKENS, (double)n);
    pe_block_set(b, WIDTH, (double)w);
    pe_block_set(b, HEAD, (double)d);
    pe_block_set(b, WITHOUT, without);
    pe_block_set(b, WITH, with);
    free(p.x);
    free(plain);
    return st;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const int64_t shown = pe_block_size(b, SHOWN);
    char *title = pe_words(arena, "weights by offset; error of permuted tokens: %.2g without, %.2g with",
                           pe_block_number(b, WITHOUT), pe_block_number(b, WITH));
    out[0] = (pe_panel){
        .title = title,
        .x_label = "offset, key - query [positions]",
        .y_label = "weight times tokens",
        .series = { { .label = "with the encoding",
                      .x = pe_block_field(b, OFFSET),
                      .y = pe_block_field(b, MEAN_WITH),
                      .n = (size_t)pe_block_size(b, OFFSETS) },
                    { .label = "without",
                      .x = pe_block_field(b, OFFSET),
                      .y = pe_block_field(b, MEAN_WITHOUT),
                      .n = (size_t)pe_block_size(b, OFFSETS),
                      .dashed = true } },
        .nseries = 2,
        .rule = { { 1, "1: even", false } },
        .nrules = 1,
    };
    out[1] = (pe_panel){
        .title = "attention map with the encoding",
        .x_label = "key",
        .y_label = "query",
        .heat = pe_block_field(b, MAP),
        .rows = shown,
        .columns = shown,
        .heat_label = "weight",
    };
    return title ? 2 : -1;
}

const pe_what pe_what_attention_probe = {
    .name = "attention_probe",
    .title = "a head of attention with and without",
    .doc = "h = normalize(x + table), q k v = h W, score = q . k / sqrt(head) + bias; rotary: q, k turned;\n"
           "error = largest |out(permuted x) - permuted out(x)| / rms(out)",
    .sizes = "offsets shown",
    .kinds = PE_ON(PE_ROWS) | PE_ON(PE_ROTARY) | PE_ON(PE_BIAS) | PE_ON(PE_SPECTRUM),
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .check = check,
    .compute = compute,
    .draw = draw,
};
