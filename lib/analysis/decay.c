/* decay.c - how attention falls with distance.
 *
 * Rotary: a query and a key that are all ones, k positions apart, score sum over pairs of cos(k w): the mean over rows of
 * table[p] . table[p + k] over the number of pairs. Its bound up to a factor of the vectors' own (Su et al., section 3.4.3,
 * Abel's transformation) is the mean over j of |S_j|, S_j = sum over i < j of e^(i k w[i]).
 * Bias: what is added to the score of the last query and the key k positions before it, less what is added at distance 0 (a
 * constant that the softmax does not see); and the distance from which on it is -1 and less, -10 and less. */
#include "analysis/analysis.h"

#include <stdlib.h>

enum { OFFSET, CURVE, BOUND, HEAD, REACH1, REACH10 };
enum { OFFSETS, CURVES };

static const pe_field fields[] = {
    [OFFSET] = { .name = "distance",
                 .unit = "positions",
                 .kind = PE_F_WHOLE,
                 .axis = { 1 + OFFSETS },
                 .doc = "k, from 0 on" },
    [CURVE] = { .name = "curve",
                .axis = { 1 + CURVES, 1 + OFFSETS },
                .doc = "rotary: expected score over that at distance 0; bias: what is added, less that at distance 0" },
    [BOUND] = { .name = "bound", .axis = { 1 + OFFSETS }, .doc = "rotary: mean of |S_j|; null of a bias" },
    [HEAD] = { .name = "head", .kind = PE_F_WHOLE, .axis = { 1 + CURVES }, .doc = "of each curve: all, or 64 evenly" },
    [REACH1] = { .name = "reaches_minus_1",
                 .unit = "positions",
                 .kind = PE_F_WHOLE,
                 .axis = { 1 + CURVES },
                 .doc = "first distance at which the bias is -1 or less; null: none, or rotary" },
    [REACH10] = { .name = "reaches_minus_10",
                  .unit = "positions",
                  .kind = PE_F_WHOLE,
                  .axis = { 1 + CURVES },
                  .doc = "-10 or less" },
};

static int64_t distances_of(const pe_analysis *a) { return a->subject.kind == PE_BIAS ? a->subject.keys : a->subject.n; }

/* 0, 1 .. 256 and then about 3 % more each time. */
static int64_t distances(int64_t n, double *out)
{
    static const pe_analysis all = { 0 };
    if (out)
        out[0] = 0;
    return 1 + pe_offsets(&all, n, out ? out + 1 : NULL);
}

static void measure(const pe_analysis *a, int64_t size[PE_MAX_SIZES])
{
    size[OFFSETS] = distances(distances_of(a), NULL);
    size[CURVES] = a->subject.kind == PE_BIAS ? pe_sample(a->subject.heads, 64, NULL) : 1;
}

static void cost(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out)
{
    const pe_subject *s = &a->subject;
    *out = (posenc_cost){ .ns = s->kind == PE_BIAS ? 5.0 * (double)s->heads * (double)s->keys
                                                   : (double)size[OFFSETS] *
                                                         ((double)s->n * (0.25 * (double)s->d + 10) + 100 * (double)s->d) };
}

/* Mean of |S_j| of pairs that turn by w k. */
static double bound_of(const pe_pairing *pairs, double k)
{
    double re = 0, im = 0, sum = 0;
    for (int64_t j = 0; j < pairs->n; j++) {
        const pe_dd angle = pe_two_prod(pairs->w[j], k);
        double c, s;
        pe_sincos(&angle, 1, &s, &c);
        re += c;
        im += s;
        sum += sqrt(re * re + im * im);
    }
    return sum / (double)pairs->n;
}

static posenc_status of_rotary(const pe_subject *s, pe_block *b, int64_t m, pe_pace *pace)
{
    const double *offset = pe_block_field(b, OFFSET);
    double *curve = pe_block_field(b, CURVE);
    posenc_status st = PE_OK;
    pe_block_set(b, HEAD, (double)NAN);
    pe_block_set(b, REACH1, (double)NAN);
    pe_block_set(b, REACH10, (double)NAN);
    for (int64_t i = 0; i < m && !st; i++) {
        const int64_t k = (int64_t)offset[i];
        double sum = 0;
        for (int64_t p = 0; p + k < s->n && !st; p++) {
            sum += pe_dot(s->table + p * s->d, s->table + (p + k) * s->d, s->d);
            st = pe_pace_add(pace, s->d / 4 + 10);
        }
        curve[i] = sum / (double)(s->n - k);
        curve[i] = i ? curve[i] / curve[0] : curve[0];
        pe_block_field(b, BOUND)[i] = bound_of(&s->pairing, offset[i]);
    }
    curve[0] = 1;
    return st;
}

static posenc_status of_bias(const pe_subject *s, pe_block *b, int64_t m, pe_pace *pace)
{
    const int64_t heads = pe_sample(s->heads, 64, pe_block_field(b, HEAD));
    const double *offset = pe_block_field(b, OFFSET), *head = pe_block_field(b, HEAD);
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < m; i++)
        pe_block_field(b, BOUND)[i] = (double)NAN;
    for (int64_t h = 0; h < heads && !st; h++) {
        const double *last = s->bias + (((int64_t)head[h] + 1) * s->queries) * s->keys - 1; /* the key at distance 0 */
        double reach[2] = { (double)NAN, (double)NAN };
        for (int64_t k = s->keys - 1; k >= 0; k--) {
            const double v = *(last - k) - *last;
            reach[0] = v <= -1 ? (double)k : reach[0];
            reach[1] = v <= -10 ? (double)k : reach[1];
        }
        for (int64_t i = 0; i < m; i++)
            pe_block_field(b, CURVE)[h * m + i] = *(last - (int64_t)offset[i]) - *last;
        pe_block_field(b, REACH1)[h] = reach[0];
        pe_block_field(b, REACH10)[h] = reach[1];
        st = pe_pace_add(pace, 3 * s->keys);
    }
    return st;
}

static posenc_status compute(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err)
{
    (void)err;
    const int64_t m = distances(distances_of(a), pe_block_field(b, OFFSET));
    return s->kind == PE_BIAS ? of_bias(s, b, m, pace) : of_rotary(s, b, m, pace);
}

/* Biases that are nowhere positive are drawn as their magnitude, on logarithmic axes: -1 and -10 then show on all heads. */
static bool falls(const pe_block *b)
{
    const double *curve = pe_block_field(b, CURVE);
    bool any = false;
    for (int64_t i = 0; i < pe_block_size(b, OFFSETS) * pe_block_size(b, CURVES); i++) {
        if (curve[i] > 0)
            return false;
        any = any || curve[i] < 0;
    }
    return any;
}

static int draw_bias(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const int64_t n = pe_block_size(b, OFFSETS), curves = pe_block_size(b, CURVES);
    const int64_t shown = curves < PE_MAX_SERIES ? curves : PE_MAX_SERIES;
    const double *head = pe_block_field(b, HEAD);
    const bool magnitude = falls(b);
    double which[PE_MAX_SERIES], *v = posenc_alloc(arena, (size_t)(shown * n) * sizeof *v);
    pe_sample(curves, shown, which);
    if (!v)
        return -1;
    *out = (pe_panel){
        .title = magnitude ? "minus the bias by distance, less that at distance 0"
                           : "bias by distance, less that at distance 0",
        .x_label = "distance [positions]",
        .y_label = magnitude ? "minus bias" : "bias",
        .x_log = true,
        .y_log = magnitude,
        .ordered = true,
        .nseries = (int)shown,
        .rule = { { magnitude ? 10 : -10, "-10", false }, { magnitude ? 1 : -1, "-1", false } },
        .nrules = 2,
    };
    for (int64_t i = 0; i < shown; i++) {
        const int64_t c = (int64_t)which[i];
        const double reach = pe_block_field(b, REACH1)[c];
        char *words = isfinite(reach) ? pe_words(arena, "head %.0f, -1 at %.0f", head[c], reach)
                                      : pe_words(arena, "head %.0f", head[c]);
        if (!words)
            return -1;
        for (int64_t k = 0; k < n; k++)
            v[i * n + k] = pe_block_field(b, CURVE)[c * n + k] * (magnitude ? -1 : 1);
        out->series[i] = (pe_series){ .label = words, .x = pe_block_field(b, OFFSET), .y = v + i * n, .n = (size_t)n };
    }
    return 1;
}

static int draw(const pe_block *b, posenc_arena *arena, pe_panel *out)
{
    const size_t n = (size_t)pe_block_size(b, OFFSETS);
    const double *x = pe_block_field(b, OFFSET), *bound = pe_block_field(b, BOUND);
    if (!isfinite(bound[0]))
        return draw_bias(b, arena, out);
    out[0] = (pe_panel){
        .title = "expected score by distance, over that at distance 0",
        .x_label = "distance [positions]",
        .y_label = "relative score",
        .x_log = true,
        .series = { { .x = x, .y = pe_block_field(b, CURVE), .n = n } },
        .nseries = 1,
        .rule = { { 0, "0", false } },
        .nrules = 1,
    };
    out[1] = (pe_panel){
        .title = "mean of |S_j|: the bound on the score, up to a factor of the vectors'",
        .x_label = "distance [positions]",
        .y_label = "mean |S_j|",
        .x_log = true,
        .series = { { .x = x, .y = bound, .n = n } },
        .nseries = 1,
    };
    return 2;
}

const pe_what pe_what_decay = {
    .name = "decay",
    .title = "decay with distance",
    .doc =
        "rotary: curve[k] = mean of table[p] . table[p + k] over that at k = 0, bound[k] = mean over j of |S_j|,\n"
        "S_j = sum over i < j of e^(i k w[i]); bias: curve[k] = bias of the last query and the key k before, less that at 0",
    .sizes = "distances curves",
    .kinds = PE_ON(PE_ROTARY) | PE_ON(PE_BIAS),
    .ordered = true,
    .pairs = true,
    .fields = fields,
    .nfields = PE_LEN(fields),
    .measure = measure,
    .cost = cost,
    .compute = compute,
    .draw = draw,
};
