/* mrope.c - rotary positions of several axes at once: time, height and width of pictures and films among text.
 *
 *     angle(i, j) = position[axis(j)][i] * inv_freq[j]          j = 0 .. r/2 - 1
 *
 * axis(j): mrope_section cuts the pairs into runs that take the axes in turn; with mrope_interleaved the pairs themselves
 * take turns: h where j mod 3 = 1 and j < 3 section[1], w where j mod 3 = 2 and j < 3 section[2], else t. inv_freq:
 * sequence/rotary.h. Source: Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; transformers,
 * apply_multimodal_rotary_pos_emb (Qwen2-VL), apply_interleaved_mrope (Qwen3-VL), recomposition_frequencies (HunYuan-VL). */
#include "sequence/rotary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_mrope;

/* ---- rows ---- */

enum { MAX_AXES = 8 };
enum { PAIRS, COLUMNS };
static const char *const spans[] = { "pairs", "columns", NULL };

/* clang-format off */
#define PRESETS(X)                                                                                                        \
    X("qwen2-vl", "head_dim=128&rope_theta=1000000&mrope_section=16,24,24")                                               \
    X("qwen3-vl", "head_dim=128&rope_theta=5000000&mrope_section=24,20,20&mrope_interleaved=true")                        \
    X("qwen3.5-397b", "head_dim=256&rope_theta=10000000&partial_rotary_factor=0.25&mrope_section=11,11,10&"               \
      "mrope_interleaved=true")                                                                                           \
    X("hunyuan-ocr", "head_dim=128&rope_type=ntk_alpha&alpha=1000&mrope_section=16,16,16,16&section_span=columns")
/* clang-format on */
static const char *const preset_words[] = {
#define X(word, query) word,
    PRESETS(X)
#undef X
        NULL
};
static const char *const preset_queries[] = {
#define X(word, query) query,
    PRESETS(X)
#undef X
};

typedef struct mrope {
    posenc_given given;
    int preset;
    posenc_reals positions_t, positions_h, positions_w;
    posenc_tensor position_ids, q, k;
    pe_rope_params rotary;
    posenc_reals mrope_section;
    bool mrope_interleaved;
    int section_span, layout, compute_dtype;
} mrope;

#define SAY(word, query) word ": " query "; "
#define AXIS_DOC(axis) axis " of each token, integers or fractions; all three axes in the same length, or position_ids"

static const posenc_param rows[] = {
    { PE_ENUM(mrope, preset), .flags = PE_OPTIONAL, .names = preset_words,
      .doc = "the parameters of a released model, from its config.json; given parameters win. " PRESETS(
          SAY) "explain lists all" },
    { PE_REALS(mrope, positions_t), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53, .doc = AXIS_DOC("time") },
    { PE_REALS(mrope, positions_h), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53, .doc = AXIS_DOC("row") },
    { PE_REALS(mrope, positions_w), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53, .doc = AXIS_DOC("column") },
    { PE_TENSOR(mrope, position_ids), .flags = PE_OPTIONAL,
      .doc = "instead of the three lists: [axes, N], 1 to 8 axes in the order of the sections (mrope_index has them)" },
    { PE_TENSOR(mrope, q), .flags = PE_OPTIONAL, .doc = "queries to turn, [heads, N, head_dim], or with a batch in front" },
    { PE_TENSOR(mrope, k), .flags = PE_OPTIONAL, .doc = "keys to turn, as q; they may have fewer heads" },
    PE_ROPE_ROWS(mrope, rotary),
    { PE_REALS(mrope, mrope_section), .flags = PE_OPTIONAL, .min = 0, .max = PE_ROPE_MAX_WIDTH,
      .doc = "pairs of each section: whole numbers, at least one an axis, their sum half the rotary width; required" },
    { PE_BOOL(mrope, mrope_interleaved),
      .doc = "the pairs take the axes in turn (Qwen3-VL), not in runs (Qwen2-VL): three axes and three sections" },
    { PE_ENUM(mrope, section_span), .names = spans, .def = PAIRS,
      .doc =
          "pairs: the sections cut the pairs, and both channels of a pair have one axis; columns: twice as wide each they "
          "cut the columns of layout=half, and the two channels of a pair have two axes (HunYuan-VL's xdrope)" },
    { PE_ENUM(mrope, layout), .names = pe_rope_layouts, .def = PE_ROPE_HALF,
      .doc = "which channels turn together, and so the columns: half (Qwen), interleaved (GLM-4V), or each pair once" },
    { PE_ENUM(mrope, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: each step rounded to float32, as transformers does" },
};

static const posenc_output outputs[] = {
    { .name = "q", .shape = "the shape of q", .doc = "the queries, turned" },
    { .name = "k", .shape = "the shape of k", .doc = "the keys, turned" },
    { .name = "cos",
      .shape = "[N, columns]",
      .doc = "each column of its own axis, times attention_factor; with positions; columns: 2 pairs, or pairs where once" },
    { .name = "sin", .shape = "[N, columns]", .doc = "as cos" },
    { .name = "cos_thw",
      .shape = "[axes, N, columns]",
      .doc = "all columns of each axis, as the model computes them first" },
    { .name = "sin_thw", .shape = "[axes, N, columns]", .doc = "as cos_thw" },
    PE_ROPE_OUTPUTS,
};

/* ---- rules ---- */

static bool single(const mrope *p) { return p->compute_dtype == PE_COMPUTE_FLOAT32; }
static bool listed(const posenc_request *r)
{
    return pe_given(r, "positions_t") || pe_given(r, "positions_h") || pe_given(r, "positions_w");
}
static bool placed(const posenc_request *r) { return listed(r) || pe_given(r, "position_ids"); }
static int64_t axes_of(const posenc_request *r, const mrope *p)
{
    return pe_given(r, "position_ids") ? p->position_ids.shape[0] : 3;
}
static int64_t length_of(const posenc_request *r, const mrope *p)
{
    return pe_given(r, "position_ids") ? p->position_ids.shape[1] : (int64_t)p->positions_t.n;
}

static double position(const posenc_request *r, const mrope *p, int64_t axis, int64_t i)
{
    if (pe_given(r, "position_ids"))
        return posenc_tensor_get(&p->position_ids, axis * p->position_ids.shape[1] + i);
    return (axis == 0 ? &p->positions_t : axis == 1 ? &p->positions_h : &p->positions_w)->v[i];
}

static void check_positions(const posenc_request *r, const mrope *p, posenc_error *err)
{
    static const char *const names[] = { "positions_t", "positions_h", "positions_w" };
    const posenc_reals *lists[] = { &p->positions_t, &p->positions_h, &p->positions_w };
    if (pe_given(r, "position_ids")) {
        const int64_t any[] = { -1, -1 };
        if (listed(r))
            pe_not_applicable(err, "position_ids", "given with positions_t, positions_h, positions_w", "one of the two");
        if (!pe_tensor_shaped(&p->position_ids, 2, any, "[axes, N]", err))
            return;
        if (p->position_ids.shape[0] < 1 || p->position_ids.shape[0] > MAX_AXES)
            pe_invalid(err, "position_ids", posenc_text("%lld axes", (long long)p->position_ids.shape[0]), "1 .. %d axes",
                       MAX_AXES);
        pe_tensor_within(&p->position_ids, -0x1p53, 0x1p53, "-2^53 .. 2^53", err);
        return;
    }
    for (int a = 0; a < 3 && listed(r); a++)
        if (!pe_given(r, names[a]))
            posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", names[a], "absent", "a value, beside the other two axes");
        else if (lists[a]->n != p->positions_t.n && pe_given(r, "positions_t"))
            pe_invalid(err, names[a], posenc_text("%zu values", lists[a]->n), "%zu values, as positions_t",
                       p->positions_t.n);
}

static pe_rope_reach reach_of(const posenc_request *r, const mrope *p)
{
    pe_rope_reach reach = { .single = single(p) };
    for (int64_t a = 0, n = placed(r) ? length_of(r, p) : 0; a < axes_of(r, p) && n; a++)
        for (int64_t i = 0; i < n; i++) {
            const double at = position(r, p, a, i);
            reach.last = !reach.any || at > reach.last ? at : reach.last;
            reach.farthest = fabs(at) > reach.farthest ? fabs(at) : reach.farthest;
            reach.any = true;
        }
    return reach;
}

static void check_sections(const posenc_request *r, const mrope *p, posenc_error *err)
{
    const posenc_reals *l = &p->mrope_section;
    const size_t pairs = pe_rope_pairs(&p->rotary);
    double sum = 0;
    if (!pe_given(r, "mrope_section")) {
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "mrope_section", "absent",
                    "a value, it is required: pairs of each axis, together %zu", pairs);
        return;
    }
    if (!pe_reals_whole("mrope_section", l, err))
        return;
    for (size_t i = 0; i < l->n; i++)
        sum += l->v[i];
    if (sum != (double)pairs)
        pe_invalid(err, "mrope_section", posenc_text("a sum of %.0f", sum), "a sum of %zu, half the rotary width", pairs);
    const int64_t axes = axes_of(r, p);
    if ((int64_t)l->n < axes || (p->mrope_interleaved && l->n != 3))
        pe_invalid(err, "mrope_section", posenc_text("%zu sections", l->n),
                   p->mrope_interleaved ? "3 sections with mrope_interleaved" : "at least %lld, one an axis",
                   (long long)axes);
    if (p->mrope_interleaved && axes != 3)
        pe_not_applicable(err, "mrope_interleaved", "true", "false, or three axes");
    if (p->section_span == COLUMNS && (p->mrope_interleaved || p->layout != PE_ROPE_HALF))
        pe_not_applicable(err, "section_span", "columns", "pairs, or layout=half without mrope_interleaved");
}

static void check_vectors(const posenc_request *r, const char *name, const posenc_tensor *t, posenc_error *err)
{
    const mrope *p = r->params;
    if (!pe_given(r, name))
        return;
    if (!placed(r))
        pe_not_applicable(err, name, "given without positions",
                          "positions_t, positions_h, positions_w or position_ids with it");
    else if (pe_rope_heads(t, PE_HEAD_POSITION_DIM, NULL, length_of(r, p), p->rotary.head_dim, err))
        pe_rope_fits(r, &p->rotary, single(p), t, err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    mrope *p = r->params;
    const posenc_given typed = p->given;
    if (pe_given(r, "preset"))
        pe_rope_preset(r, preset_queries[p->preset], err);
    check_positions(r, p, err);
    const pe_rope_reach reach = err->n ? (pe_rope_reach){ .single = single(p) } : reach_of(r, p);
    pe_rope_check(r, &p->rotary, typed, &reach, err);
    if (err->n)
        return err->status;
    check_sections(r, p, err);
    check_vectors(r, "q", &p->q, err);
    check_vectors(r, "k", &p->k, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const mrope *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    posenc_status st = PE_OK;
    if (pe_given(r, "q"))
        st = pe_output(out, "q", dtype, p->q.rank, p->q.shape, err);
    if (!st && pe_given(r, "k"))
        st = pe_output(out, "k", dtype, p->k.rank, p->k.shape, err);
    if (!st && placed(r)) {
        const int64_t size[] = { axes_of(r, p), length_of(r, p),
                                 pe_rope_columns((pe_rope_layout)p->layout, pe_rope_pairs(&p->rotary)) };
        st = pe_output(out, "cos", dtype, 2, size + 1, err);
        st = st ? st : pe_output(out, "sin", dtype, 2, size + 1, err);
        st = st ? st : pe_output(out, "cos_thw", dtype, 3, size, err);
        st = st ? st : pe_output(out, "sin_thw", dtype, 3, size, err);
    }
    return st ? st : pe_rope_shape(r, &p->rotary, out, err);
}

/* Frequencies; cosines and sines of each axis and of both channels of the pairs; a row; a vector before and after; axes. */
static uint64_t scratch(const posenc_request *r, const mrope *p)
{
    const uint64_t n = pe_rope_pairs(&p->rotary), doubles = n * (2 * (uint64_t)axes_of(r, p) + 4 + 2);
    return n * sizeof(pe_dd) + (doubles + 2 * (uint64_t)p->rotary.head_dim) * sizeof(double) + 2 * n;
}

static double elements(const posenc_request *r, const char *name, const posenc_tensor *t)
{
    return pe_given(r, name) ? (double)posenc_tensor_count(t) : 0;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const mrope *p = r->params;
    const double n = placed(r) ? (double)length_of(r, p) : 0, pairs = (double)pe_rope_pairs(&p->rotary);
    out->ns = pe_rope_ns(&p->rotary, single(p)) + n * (200 + (double)axes_of(r, p) * 15 * pairs) +
              10 * (elements(r, "q", &p->q) + elements(r, "k", &p->k));
    out->scratch = scratch(r, p);
}

/* ---- compute ---- */

typedef struct turning {
    const mrope *p;
    pe_rope_turner turner;
    int64_t axes;
    double *c, *s;             /* (axes, pairs) */
    double *c1, *s1, *c2, *s2; /* (pairs) of the first and second channels */
    double *row, *before, *after;
    unsigned char *first, *second; /* (pairs) axes of the channels */
    pe_pace pace;
} turning;

/* The axis of each pair, or of each column. */
static void assign_axes(turning *t)
{
    const mrope *p = t->p;
    const posenc_reals *l = &p->mrope_section;
    const size_t n = t->turner.pairs, wide = p->section_span == COLUMNS ? 2 : 1;
    size_t k = 0;
    double left = l->v[0] * (double)wide;
    for (size_t j = 0; j < wide * n; j++) {
        while (left < 1)
            left = l->v[++k] * (double)wide;
        left--;
        *(j < n ? &t->first[j] : &t->second[j - n]) = (unsigned char)(k % (size_t)t->axes);
    }
    for (size_t j = 0; j < n && p->mrope_interleaved; j++)
        t->first[j] = (unsigned char)(j % 3 && (double)j < 3 * l->v[j % 3] ? j % 3 : 0);
    if (wide == 1)
        memcpy(t->second, t->first, n);
}

/* Columns of a row, from the values of first and second channels. */
static void write_row(const turning *t, const double *first, const double *second, posenc_tensor *to, int64_t index)
{
    const pe_rope_layout layout = t->turner.in;
    const size_t n = t->turner.pairs, columns = (size_t)pe_rope_columns(layout, n),
                 size = columns * posenc_dtype_size(to->dtype);
    pe_rope_lay(layout, n, first, t->row);
    for (size_t j = 0; j < n && second != first; j++)
        t->row[pe_rope_second(layout, n, j)] = second[j];
    posenc_convert(to->dtype, (char *)to->data + (size_t)index * size, t->row, columns);
}

static posenc_status turn_heads(turning *t, const posenc_tensor *from, posenc_tensor *to, int64_t i)
{
    const pe_rope_axes a = pe_rope_axes_of(from, PE_HEAD_POSITION_DIM);
    const size_t d = t->turner.head_dim;
    posenc_status st = PE_OK;
    for (int64_t h = 0; h < a.batch * a.heads && !st; h++) {
        const int64_t vector = h * a.positions + i;
        pe_rope_turn_vector(&t->turner, t->c1, t->s1, t->c2, t->s2, from, to, vector, t->before, t->after);
        st = pe_pace_add(&t->pace, 50 + 3 * (int64_t)d);
    }
    return st;
}

/* Token number i: its row of each axis, the row made of them, and its heads. */
static posenc_status token(const posenc_request *r, turning *t, const pe_dd *w, int64_t i, posenc_result *out)
{
    const mrope *p = t->p;
    const size_t n = t->turner.pairs;
    const int64_t length = length_of(r, p);
    const pe_dd attention = pe_rope_attention(r, &p->rotary);
    const bool split = p->section_span == COLUMNS;
    posenc_status st;
    for (int64_t a = 0; a < t->axes; a++) {
        double *c = t->c + (size_t)a * n, *s = t->s + (size_t)a * n;
        if ((st = pe_rope_turn(w, n, position(r, p, a, i), attention, single(p), c, s, &t->pace)))
            return st;
        write_row(t, c, c, pe_tensor(out, "cos_thw"), a * length + i);
        write_row(t, s, s, pe_tensor(out, "sin_thw"), a * length + i);
    }
    for (size_t j = 0; j < n; j++) {
        const size_t first = t->first[j] * n + j, second = t->second[j] * n + j;
        t->c1[j] = t->c[first];
        t->s1[j] = t->s[first];
        t->c2[j] = t->c[second];
        t->s2[j] = t->s[second];
    }
    write_row(t, t->c1, split ? t->c2 : t->c1, pe_tensor(out, "cos"), i);
    write_row(t, t->s1, split ? t->s2 : t->s1, pe_tensor(out, "sin"), i);
    if (pe_given(r, "q") && (st = turn_heads(t, &p->q, pe_tensor(out, "q"), i)))
        return st;
    return pe_given(r, "k") ? turn_heads(t, &p->k, pe_tensor(out, "k"), i) : PE_OK;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const mrope *p = r->params;
    const size_t n = pe_rope_pairs(&p->rotary), d = (size_t)p->rotary.head_dim, axes = (size_t)axes_of(r, p);
    const pe_rope_layout layout = (pe_rope_layout)p->layout;
    pe_dd *w = malloc(scratch(r, p));
    if (!w)
        return pe_no_memory("memory", err);
    double *v = (double *)(w + n), *pairs = v + 2 * axes * n, *row = pairs + 4 * n, *vectors = row + 2 * n;
    turning t = {
        .p = p,
        .turner = { .head_dim = d, .pairs = n, .in = layout, .out = layout, .single = single(p) },
        .axes = (int64_t)axes,
        .c = v,
        .s = v + axes * n,
        .c1 = pairs,
        .s1 = pairs + n,
        .c2 = pairs + 2 * n,
        .s2 = pairs + 3 * n,
        .row = row,
        .before = vectors,
        .after = vectors + d,
        .first = (unsigned char *)(vectors + 2 * d),
        .second = (unsigned char *)(vectors + 2 * d) + n,
        .pace = { .ctx = ctx },
    };
    assign_axes(&t);
    posenc_status st = pe_rope_frequencies(&p->rotary, single(p), w, ctx);
    if (!st)
        pe_rope_fill(r, &p->rotary, w, row, out);
    for (int64_t i = 0, end = placed(r) ? length_of(r, p) : 0; i < end && !st; i++)
        st = token(r, &t, w, i, out);
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_mrope = {
    .name = "mrope",
    .family = "rotary",
    .title = "rotary positions of several axes: time, height, width",
    .source =
        "Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; transformers, models qwen2_vl, qwen3_vl, hunyuan_vl",
    .formula =
        "angle of token i and pair j: positions[axis(j)][i] inv_freq[j]; inv_freq as in rope\n"
        "axis(j): mrope_section cuts the pairs into runs of t, h, w, ...; mrope_interleaved: h where j mod 3 = 1 and\n"
        "j < 3 mrope_section[1], w where j mod 3 = 2 and j < 3 mrope_section[2], otherwise t",
    .example = "head_dim=16&mrope_section=2,3,3&positions_t=0,1,1&positions_h=0,1,2&positions_w=0,3,1",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(mrope, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
