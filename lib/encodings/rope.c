/* rope.c - rotary positions: inverse frequencies, and the cosines and sines by which pairs of channels turn.
 *
 *     angle(p, j) = p * inv_freq[j]                 j = 0 .. r/2 - 1        [rad]
 *     cos, sin    = attention_factor * cos(angle), attention_factor * sin(angle), in the columns of `layout`
 *
 * inv_freq: sequence/rotary.h, which has the types of scaling.
 * Source: Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.2.2; the details that models add are those of transformers'
 * modeling_rope_utils.py. Nothing here depends on what was asked before: the length that dynamic and longrope react to is
 * the parameter seq_len. */
#include "sequence/rotary.h"
#include "sequence/rotor_table.h"

#include <stdlib.h>

extern const posenc_encoding pe_rope;

/* ---- rows ---- */

typedef struct rope {
    posenc_given given;
    int preset;
    pe_rope_params rotary;
    pe_positions at;
    int layout, compute_dtype;
} rope;

static const posenc_param rows[] = {
    { PE_ENUM(rope, preset), .flags = PE_OPTIONAL, .names = pe_rope_preset_words,
      .doc = "the parameters of a released model, from its config.json; given parameters win. explain=true lists them" },
    PE_ROPE_ROWS(rope, rotary),
    PE_POSITION_ROWS(rope, at, ""),
    { PE_ENUM(rope, layout), .names = pe_rope_layouts, .def = PE_ROPE_HALF,
      .doc = "which channels turn together, and so the columns: half c0 c1 .. c0 c1 .. (HF Llama, NeoX, Qwen, Gemma, Phi), "
             "interleaved c0 c0 c1 c1 .. (Meta Llama, GPT-J, Cohere, GLM), or each pair once" },
    { PE_ENUM(rope, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: each step rounded to float32, as transformers does" },
};

static const posenc_output outputs[] = {
    PE_ROPE_OUTPUTS,
    { .name = "cos",
      .shape = "[num_positions, columns]",
      .doc = "with positions; of tokens [L, columns] or [B, L, columns]; columns: 2 pairs, or pairs where unduplicated" },
    { .name = "sin", .shape = "[num_positions, columns]", .doc = "as cos" },
    { .name = "positions", .shape = "[B, L]", .dtype = "int64", .doc = "the position of each token" },
};

/* ---- rules ---- */

static bool single(const rope *p) { return p->compute_dtype == PE_COMPUTE_FLOAT32; }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    rope *p = r->params;
    const posenc_given typed = p->given;
    if (pe_given(r, "preset"))
        pe_rope_preset(r, pe_rope_preset_queries[p->preset], err);
    pe_positions_check(r, &p->at, false, err);
    pe_positions_pad_tokens(r, &p->at, err);
    pe_rope_reach reach = { .single = single(p) };
    if (!err->n) {
        reach.any = pe_rope_last(r, &p->at, &reach.last);
        reach.farthest = pe_positions_largest(r, &p->at);
    }
    pe_rope_check(r, &p->rotary, typed, &reach, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const rope *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const posenc_tensor *t = pe_positions_tokens(r, &p->at);
    const int64_t columns = pe_rope_columns((pe_rope_layout)p->layout, pe_rope_pairs(&p->rotary));
    posenc_status st = pe_rope_shape(r, &p->rotary, out, err);
    if (st || !pe_positions_given(r, &p->at))
        return st;
    int64_t size[PE_MAX_RANK];
    const int rank = pe_positions_shape(r, &p->at, 1, &columns, size);
    st = pe_output(out, "cos", dtype, rank, size, err);
    st = st ? st : pe_output(out, "sin", dtype, rank, size, err);
    return st || !t ? st : pe_output(out, "positions", PE_int64, t->rank, t->shape, err);
}

/* Frequencies, cosines and sines of a row, a row of the table, and what makes rows. */
static uint64_t scratch(const posenc_request *r)
{
    const rope *p = r->params;
    return pe_rope_pairs(&p->rotary) * (sizeof(pe_dd) + 4 * sizeof(double)) + pe_rope_spin_size(r, &p->rotary, single(p));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const rope *p = r->params;
    const double n = (double)pe_positions_count(r, &p->at);
    out->ns = pe_rope_ns(&p->rotary, single(p)) + n * pe_rope_spin_ns(r, &p->rotary, single(p));
    out->scratch = scratch(r) + pe_rope_spin_size(r, &p->rotary, single(p)); /* and a chunk's */
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const rope *p = r->params;
    const pe_rope_layout layout = (pe_rope_layout)p->layout;
    const posenc_tensor *tokens = pe_tensor(out, "positions");
    posenc_tensor *cosines = pe_tensor(out, "cos"), *sines = pe_tensor(out, "sin");
    const size_t n = pe_rope_pairs(&p->rotary);
    pe_pace pace = { .ctx = ctx };
    pe_dd *w = malloc(scratch(r));
    if (!w)
        return pe_no_memory("memory", err);
    double *c = (double *)(w + n), *s = c + n, *row = s + n;

    posenc_status st = pe_rope_frequencies(&p->rotary, single(p), w, ctx);
    if (!st)
        pe_rope_fill(r, &p->rotary, w, row, out);
    if (!st && cosines) {
        pe_source source;
        st = pe_positions_source(r, &p->at, tokens ? tokens->data : NULL, &pace, &source);
        pe_rope_spin spin = pe_rope_spin_begin(r, &p->rotary, single(p), w, row + 2 * n);
        const int64_t rows_n = pe_positions_count(r, &p->at);
        if (!st && pe_rope_spin_straight(&spin)) {
            const pe_rotor_place to = pe_rope_spin_place(&spin, layout, cosines->dtype, cosines->data, sines->data);
            st = pe_rotor_table(w, n, &source, rows_n, &to, 2 * (size_t)posenc_tensor_size(cosines), ctx, err);
        } else {
            for (int64_t i = 0; i < rows_n && !st; i++) {
                if ((st = pe_rope_spin_row(&spin, pe_position(&source, i), c, s, &pace)))
                    break;
                pe_rope_write(layout, n, c, row, cosines, i);
                pe_rope_write(layout, n, s, row, sines, i);
            }
        }
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_rope = {
    .name = "rope",
    .family = "rotary",
    .title = "rotary positions: frequencies, cosines and sines",
    .source = "Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.2.2; scalings as transformers, modeling_rope_utils.py",
    .formula =
        "r = int(head_dim partial_rotary_factor), inv_freq[j] = rope_theta^(-2j/r), j = 0 .. r/2 - 1, scaled by rope_type\n"
        "cos, sin = attention_factor cos(position inv_freq[j]), attention_factor sin(position inv_freq[j])",
    .example = "preset=llama-3.1-8b&num_positions=4",
    .revision = 2,
    .input = PE_NO_INPUT,
    PE_TABLE(rope, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
