/* rope_apply.c - queries and keys turned by rotary positions.
 *
 *     x1 cos - x2 sin, x2 cos + x1 sin              (x1, x2) a pair of channels of one head at one position
 *
 * Which two channels are a pair is the layout, and the weights of a model decide it: half (j, j + r/2) or interleaved
 * (2j, 2j + 1). The same scores come of either, if weights and layout agree; rope_permute turns weights of one into the
 * other. cos, sin: rope.c. Source: Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.2.2; transformers,
 * apply_rotary_pos_emb. */
#include "sequence/rotary.h"

#include <math.h>
#include <stdlib.h>

extern const posenc_encoding pe_rope_apply;

/* ---- rows ---- */

enum { FIRST, LAST };
static const char *const sides[] = { "first", "last", NULL };
static const char *const orders_out[] = { "half", "interleaved", NULL }; /* as pe_rope_layout */

typedef struct rope_apply {
    posenc_given given;
    int preset;
    posenc_tensor q, k;
    pe_rope_params rotary;
    pe_positions at;
    int layout, output_layout, input_order, rotated_channels, compute_dtype;
} rope_apply;

static const posenc_param rows[] = {
    { PE_ENUM(rope_apply, preset), .flags = PE_OPTIONAL, .names = pe_rope_preset_words,
      .doc = "the parameters of a released model, from its config.json; given parameters win" },
    { PE_TENSOR(rope_apply, q), .flags = PE_OPTIONAL,
      .doc = "queries, in the axes of input_order; a batch in front or none; at least one of q and k" },
    { PE_TENSOR(rope_apply, k), .flags = PE_OPTIONAL, .doc = "keys, as q; it may have fewer heads" },
    PE_ROPE_ROWS(rope_apply, rotary),
    PE_POSITION_ROWS(rope_apply, at, ""),
    { PE_ENUM(rope_apply, layout), .names = pe_rope_layouts, .def = PE_ROPE_HALF,
      .doc =
          "which channels turn together: half j and j + r/2 (HF Llama, NeoX, Qwen, Gemma, Phi), interleaved 2j and 2j + 1 "
          "(Meta Llama, GPT-J, Cohere, GLM); unduplicated: the same, the outputs cos and sin have each pair once" },
    { PE_ENUM(rope_apply, output_layout), .flags = PE_DERIVED, .names = orders_out,
      .doc = "the order of the turned channels in the results; when absent, that of layout (HF DeepSeek-V3: interleaved in, "
             "half out)" },
    { PE_ENUM(rope_apply, input_order), .names = pe_rope_orders, .def = PE_HEAD_POSITION_DIM,
      .doc =
          "axes of q and k: [heads, N, head_dim] (transformers), or [N, heads, head_dim] (Meta Llama, GPT-J), where cos and "
          "sin have each pair once" },
    { PE_ENUM(rope_apply, rotated_channels), .names = sides, .def = FIRST,
      .doc = "with partial_rotary_factor: whether the first channels of a head turn, or the last (DeepSeek-V4)" },
    { PE_ENUM(rope_apply, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact angles, one rounding at the end; float32: each step rounded to float32, as transformers does" },
};

static const posenc_output outputs[] = {
    { .name = "q", .shape = "the shape of q", .doc = "the queries, turned" },
    { .name = "k", .shape = "the shape of k", .doc = "the keys, turned" },
    { .name = "cos",
      .shape = "[N, columns]",
      .doc = "times attention_factor; of tokens [L, columns] or [B, L, columns]; columns: 2 pairs, or pairs where once" },
    { .name = "sin", .shape = "[N, columns]", .doc = "as cos" },
    PE_ROPE_OUTPUTS,
    { .name = "positions", .shape = "[B, L]", .dtype = "int64", .doc = "the position of each token" },
};

/* ---- rules ---- */

static bool single(const rope_apply *p) { return p->compute_dtype == PE_COMPUTE_FLOAT32; }

/* The layout of the tables. */
static pe_rope_layout table_layout(const rope_apply *p)
{
    const bool once = p->input_order == PE_POSITION_HEAD_DIM || pe_rope_once((pe_rope_layout)p->layout);
    const bool interleaved = pe_rope_interleaved((pe_rope_layout)p->layout);
    return once ? (interleaved ? PE_ROPE_INTERLEAVED_ONCE : PE_ROPE_HALF_ONCE)
                : (interleaved ? PE_ROPE_INTERLEAVED : PE_ROPE_HALF);
}

static void check_vectors(const posenc_request *r, const char *name, const posenc_tensor *t, posenc_error *err)
{
    const rope_apply *p = r->params;
    if (pe_given(r, name) && pe_rope_heads(t, p->input_order, pe_positions_tokens(r, &p->at), pe_positions_count(r, &p->at),
                                           p->rotary.head_dim, err))
        pe_rope_fits(r, &p->rotary, single(p), t, err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    rope_apply *p = r->params;
    const posenc_given typed = p->given;
    if (pe_given(r, "preset"))
        pe_rope_preset(r, pe_rope_preset_queries[p->preset], err);
    pe_positions_check(r, &p->at, true, err);
    pe_positions_pad_tokens(r, &p->at, err);
    pe_rope_reach reach = { .single = single(p) };
    if (!err->n) {
        reach.any = pe_rope_last(r, &p->at, &reach.last);
        reach.farthest = pe_positions_largest(r, &p->at);
    }
    pe_rope_check(r, &p->rotary, typed, &reach, err);
    if (!pe_given(r, "output_layout"))
        p->output_layout = pe_rope_interleaved((pe_rope_layout)p->layout) ? PE_ROPE_INTERLEAVED : PE_ROPE_HALF;
    if (!pe_given(r, "q") && !pe_given(r, "k"))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "q", "absent", "a value, it is required: q or k or both");
    if (err->n)
        return err->status;
    if (p->rotated_channels == LAST && pe_rope_width(&p->rotary) == p->rotary.head_dim)
        pe_not_applicable(err, "rotated_channels", "last", "first: all channels of a head turn");
    check_vectors(r, "q", &p->q, err);
    check_vectors(r, "k", &p->k, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rope_apply *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const posenc_tensor *t = pe_positions_tokens(r, &p->at);
    const int64_t columns = pe_rope_columns(table_layout(p), pe_rope_pairs(&p->rotary));
    int64_t size[PE_MAX_RANK];
    const int rank = pe_positions_shape(r, &p->at, 1, &columns, size);
    posenc_status st = PE_OK;
    if (pe_given(r, "q"))
        st = pe_output(out, "q", dtype, p->q.rank, p->q.shape, err);
    if (!st && pe_given(r, "k"))
        st = pe_output(out, "k", dtype, p->k.rank, p->k.shape, err);
    st = st ? st : pe_output(out, "cos", dtype, rank, size, err);
    st = st ? st : pe_output(out, "sin", dtype, rank, size, err);
    st = st ? st : pe_rope_shape(r, &p->rotary, out, err);
    return st || !t ? st : pe_output(out, "positions", PE_int64, t->rank, t->shape, err);
}

/* Positions whose cosines and sines are made before heads are turned by them: a head's vectors of one position and the next
 * are neighbours, those of one head and the next are pages apart. */
static size_t block(const rope_apply *p)
{
    enum { BLOCK = 16, WIDE = 1024 };
    return pe_rope_pairs(&p->rotary) < WIDE ? BLOCK : 1;
}

/* Frequencies, cosines and sines of some positions, a row of the table, a vector before and after, and what makes rows. */
static uint64_t scratch(const posenc_request *r)
{
    const rope_apply *p = r->params;
    return pe_rope_pairs(&p->rotary) * (sizeof(pe_dd) + (2 + 2 * block(p)) * sizeof(double)) +
           (uint64_t)p->rotary.head_dim * 2 * sizeof(double) + pe_rope_spin_size(r, &p->rotary, single(p));
}

static double elements(const posenc_request *r, const char *name, const posenc_tensor *t)
{
    return pe_given(r, name) ? (double)posenc_tensor_count(t) : 0;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rope_apply *p = r->params;
    const double n = (double)pe_positions_count(r, &p->at);
    out->ns = pe_rope_ns(&p->rotary, single(p)) + n * pe_rope_spin_ns(r, &p->rotary, single(p)) +
              3 * (elements(r, "q", &p->q) + elements(r, "k", &p->k));
    out->scratch = scratch(r);
}

/* ---- compute ---- */

typedef struct turning {
    const rope_apply *p;
    pe_rope_turner turner;
    pe_rope_spin spin;
    double *c, *s; /* (block, pairs) */
    double *row, *before, *after;
    pe_pace pace;
} turning;

/* Turns the vectors of positions number i .. i + n - 1: those of all heads, and of all batches unless positions are of one
 * batch, the same for all of them. */
static posenc_status turn_heads(turning *t, const posenc_tensor *from, posenc_tensor *to, int64_t i, int64_t n, bool batched)
{
    const pe_rope_axes a = pe_rope_axes_of(from, t->p->input_order);
    const int64_t first = batched ? i / a.positions : 0, end = batched ? first + 1 : a.batch, place = i % a.positions;
    posenc_status st = PE_OK;
    for (int64_t b = first; b < end && !st; b++)
        for (int64_t h = 0; h < a.heads && !st; h++)
            for (int64_t k = 0; k < n && !st; k++) {
                const double *c = t->c + (size_t)k * t->turner.pairs, *s = t->s + (size_t)k * t->turner.pairs;
                pe_rope_turn_vector(&t->turner, c, s, c, s, from, to,
                                    b * a.of_batch + h * a.of_head + (place + k) * a.of_position, t->before, t->after);
                st = pe_pace_add(&t->pace, 50 + 3 * (int64_t)t->turner.head_dim);
            }
    return st;
}

static posenc_status turn_all(const posenc_request *r, turning *t, posenc_result *out)
{
    const rope_apply *p = t->p;
    const posenc_tensor *tokens = pe_positions_tokens(r, &p->at);
    posenc_tensor *cosines = pe_tensor(out, "cos"), *sines = pe_tensor(out, "sin");
    posenc_tensor *q = pe_given(r, "q") ? pe_tensor(out, "q") : NULL, *k = pe_given(r, "k") ? pe_tensor(out, "k") : NULL;
    const bool batched = tokens && tokens->rank == 2;
    const int64_t count = pe_positions_count(r, &p->at), together = batched ? tokens->shape[1] : count;
    const size_t pairs = t->turner.pairs;
    pe_source source;
    posenc_status st = pe_positions_source(r, &p->at, tokens ? pe_tensor(out, "positions")->data : NULL, &t->pace, &source);
    for (int64_t i = 0, n; i < count && !st; i += n) {
        n = together - i % together; /* of one batch */
        n = n < (int64_t)block(p) ? n : (int64_t)block(p);
        for (int64_t l = 0; l < n && !st; l++) {
            double *c = t->c + (size_t)l * pairs, *s = t->s + (size_t)l * pairs;
            if ((st = pe_rope_spin_row(&t->spin, pe_position(&source, i + l), c, s, &t->pace)))
                break;
            pe_rope_write(table_layout(p), pairs, c, t->row, cosines, i + l);
            pe_rope_write(table_layout(p), pairs, s, t->row, sines, i + l);
        }
        if (q && !st)
            st = turn_heads(t, &p->q, q, i, n, batched);
        if (k && !st)
            st = turn_heads(t, &p->k, k, i, n, batched);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const rope_apply *p = r->params;
    const size_t n = pe_rope_pairs(&p->rotary), d = (size_t)p->rotary.head_dim;
    pe_dd *w = malloc(scratch(r));
    if (!w)
        return pe_no_memory("memory", err);
    double *c = (double *)(w + n), *row = c + 2 * n * block(p);
    turning t = {
        .p = p,
        .turner = { .head_dim = d,
                    .pairs = n,
                    .start = p->rotated_channels == LAST ? d - 2 * n : 0,
                    .in = (pe_rope_layout)p->layout,
                    .out = (pe_rope_layout)p->output_layout,
                    .single = single(p) },
        .spin = pe_rope_spin_begin(r, &p->rotary, single(p), w, row + 2 * n + 2 * d),
        .c = c,
        .s = c + n * block(p),
        .row = row,
        .before = row + 2 * n,
        .after = row + 2 * n + d,
        .pace = { .ctx = ctx },
    };
    posenc_status st = pe_rope_frequencies(&p->rotary, single(p), w, ctx);
    if (!st) {
        pe_rope_fill(r, &p->rotary, w, t.row, out);
        st = turn_all(r, &t, out);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rope_apply = {
    .name = "rope_apply",
    .family = "rotary",
    .title = "queries and keys turned by rotary positions",
    .source = "Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.2.2; transformers, apply_rotary_pos_emb",
    .formula = "pairs (x1, x2) of channels: (j, j + r/2) half, (2j, 2j + 1) interleaved, j = 0 .. r/2 - 1\n"
               "x1 cos[j] - x2 sin[j], x2 cos[j] + x1 sin[j]; cos, sin and their scaling as in rope",
    .example = "head_dim=4&positions=0,1&q=[[1,0,0,0],[1,0,0,0]]",
    .revision = 2,
    .input = PE_NO_INPUT,
    PE_TABLE(rope_apply, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
