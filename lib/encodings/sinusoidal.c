/* sinusoidal.c - the sine and cosine table, in every convention that models in use disagree about.
 *
 *     w[i] = min_timescale * base^(-i / n)          i = 0 .. pairs - 1        [rad per position]
 *     sin(scale * pos * w[i]), cos(scale * pos * w[i])
 *
 * d = embedding_dim, h = floor(d / 2), base = max_period or max_timescale / min_timescale, n = h - downscale_freq_shift.
 * Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5. Where the paper leaves a detail open, `presets` says which
 * implementation decides it how.
 *
 * The order of the file is that of every encoding: rows, check, shape, cost, compute, descriptor. README.md says what
 * else a new one needs; alibi_slopes.c is the smallest. */
#include "sequence/convention.h"
#include "sequence/positions.h"
#include "sequence/rotor_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_sinusoidal;

/* ---- rows: what a client may type ---- */

enum { FLOAT64 = PE_COMPUTE_FLOAT64, FLOAT32 = PE_COMPUTE_FLOAT32 };
enum { NONE, PATCHTST };
static const char *const norms[] = { "none", "patchtst", NULL };

typedef struct sinusoidal {
    posenc_given given;
    int preset;
    pe_positions at;
    pe_convention of;
    int freq_form, normalize;
    double scale_output;
    int compute_dtype;
} sinusoidal;

/* What each implementation does. A preset stands for the values of its row; parameters that are given win.
 * name, layout, flip_sin_to_cos, shift, odd_dim, freq_form, compute_dtype, normalize, and:
 * timescales: the base is max_timescale / min_timescale = 10000 / 1, which admits n < 1 (see `steps`);
 * root: scale_output = 1 / sqrt(d) */
/* clang-format off */
#define PRESETS(X)                                                                                                    \
    X(vaswani,         INTERLEAVED, 0, 0, ERROR,             EXP, FLOAT32, NONE,     0, 0) /* the paper; SpeechT5 */    \
    X(tensor2tensor,   SPLIT,       0, 1, ZERO_PAD,          EXP, FLOAT32, NONE,     1, 0) /* get_timing_signal_1d */   \
    X(timesfm,         SPLIT,       0, 1, ERROR,             EXP, FLOAT32, NONE,     1, 0) /* TimesFM, Gemma3n audio */ \
    X(fairseq,         SPLIT,       0, 1, ZERO_PAD,          EXP, FLOAT32, NONE,     0, 0) /* get_embedding; FSMT */    \
    X(m2m100,          SPLIT,       0, 1, ZERO_PAD,          EXP, FLOAT32, NONE,     0, 0) /* M2M100, XGLM, Kosmos-2 */ \
    X(speech2text,     SPLIT,       0, 1, ZERO_PAD,          EXP, FLOAT32, NONE,     0, 0)                              \
    X(marian,          SPLIT,       0, 0, SIN_EXTRA,         POW, FLOAT64, NONE,     0, 0) /* create_weight, NumPy */   \
    X(pegasus,         SPLIT,       0, 0, SIN_EXTRA,         POW, FLOAT64, NONE,     0, 0)                              \
    X(informer,        SPLIT,       0, 0, SIN_EXTRA,         POW, FLOAT64, NONE,     0, 0) /* also Autoformer */        \
    X(roformer,        SPLIT,       0, 0, SIN_EXTRA,         POW, FLOAT64, NONE,     0, 0)                              \
    X(ctrl,            SPLIT,       0, 0, SIN_EXTRA,         POW, FLOAT32, NONE,     0, 0)                              \
    X(whisper,         SPLIT,       0, 1, ERROR,             EXP, FLOAT32, NONE,     0, 0) /* sinusoids; Qwen2-Audio */ \
    X(musicgen,        SPLIT,       1, 1, ZERO_PAD,          EXP, FLOAT32, NONE,     0, 0)                              \
    X(ddpm,            SPLIT,       0, 1, ZERO_PAD,          EXP, FLOAT32, NONE,     0, 0) /* diffusers' default */     \
    X(stable_diffusion, SPLIT,      1, 0, ZERO_PAD,          EXP, FLOAT32, NONE,     0, 0) /* SD, SDXL, DiT, LDM */     \
    X(mae,             SPLIT,       0, 0, ERROR,             POW, FLOAT64, NONE,     0, 0) /* 1-D half of the grid */   \
    X(multidim,        INTERLEAVED, 0, 0, ROUND_UP_TRUNCATE, POW, FLOAT32, NONE,     0, 0) /* PositionalEncoding1D */   \
    X(gpt_neox,        SPLIT,       0, 0, ERROR,             POW, FLOAT32, NONE,     0, 0) /* also Transformer-XL */    \
    X(x_transformers,  SPLIT,       0, 0, ERROR,             POW, FLOAT32, NONE,     0, 1) /* ScaledSinusoidal */       \
    X(patchtst,        INTERLEAVED, 0, 0, ERROR,             EXP, FLOAT32, PATCHTST, 0, 0)
/* clang-format on */

static const char *const preset_names[] = {
#define X(name, ...) #name,
    PRESETS(X)
#undef X
        NULL
};

static const struct preset {
    int layout;
    bool flip_sin_to_cos;
    double downscale_freq_shift;
    int odd_dim, freq_form, compute_dtype, normalize;
    bool timescales, root;
} presets[] = {
#define X(name, layout, flip, shift, odd, form, dtype, norm, timescales, root) \
    { PE_##layout, flip, shift, PE_ODD_##odd, PE_POWER_##form, dtype, norm, timescales, root },
    PRESETS(X)
#undef X
};

static const posenc_param rows[] = {
    { PE_ENUM(sinusoidal, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc =
          "the conventions of a known implementation: sets the defaults of layout, flip_sin_to_cos, downscale_freq_shift, "
          "odd_dim, freq_form, compute_dtype, normalize, the timescales and scale_output; given parameters win. vaswani: "
          "the "
          "paper, SpeechT5; tensor2tensor: get_timing_signal_1d; timesfm: TimesFM, Gemma3n audio; fairseq: its "
          "SinusoidalPositionalEmbedding, FSMT; m2m100: M2M100, XGLM, Kosmos-2; speech2text: Speech2Text; marian, pegasus, "
          "roformer: those models in transformers (NumPy, sines then cosines); informer: Informer, Autoformer; ctrl: CTRL; "
          "whisper: Whisper's encoder, Qwen2-Audio; musicgen: MusicGen (cosines first); ddpm: the default of diffusers' "
          "get_timestep_embedding; stable_diffusion: timesteps of SD, SDXL, DiT, latent diffusion (cosines first); mae: "
          "one axis of MAE's grid; multidim: PositionalEncoding1D of multidim-positional-encoding; gpt_neox: inv_freq "
          "tables, Transformer-XL; x_transformers: ScaledSinusoidalEmbedding; patchtst: PatchTST" },
    PE_CONVENTION_WIDTH(sinusoidal, of, "width of the table"),
    PE_POSITION_ROWS(sinusoidal, at, "the position whose row is all zero; "),
    PE_CONVENTION_ROWS(sinusoidal, of),
    { PE_ENUM(sinusoidal, freq_form), .names = pe_freq_forms, .def = PE_POWER_EXP,
      .doc = "exp(-i ln(b)/n) or 1/b^(i/n): the same but for compute_dtype=float32" },
    { PE_ENUM(sinusoidal, normalize), .names = norms, .def = NONE,
      .doc = "patchtst: minus the mean of the table, divided by 10 times its unbiased standard deviation" },
    { PE_REAL(sinusoidal, scale_output), .def = 1, .min = -1e100, .max = 1e100, .doc = "multiplies the table, last of all" },
    { PE_ENUM(sinusoidal, compute_dtype), .names = pe_compute_dtypes, .def = FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: each rounded to float32, as many implementations do" },
};

static const posenc_output outputs[] = {
    { .name = "table",
      .shape = "[num_positions, embedding_dim]",
      .doc = "one row a position; absent with input_ids or attention_mask" },
    { .name = "embedding", .shape = "[B, L, embedding_dim]", .doc = "one row a token of input_ids or attention_mask" },
    { .name = "positions", .shape = "[B, L]", .dtype = "int64", .doc = "the position of each token" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_sinusoidal.table, name) - rows); }
static bool given(const sinusoidal *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- what the parameters mean ---- */

static pe_sines sines(const posenc_request *r)
{
    const sinusoidal *p = r->params;
    pe_sines s = pe_convention_sines(r, &p->of);
    s.form = (pe_power)p->freq_form;
    s.single = p->compute_dtype == FLOAT32;
    return s;
}

/* ---- check: the rules between rows ---- */

/* Turns a preset into the values it stands for: it leaves no trace, so that either spelling has the same digest. */
static void apply_preset(sinusoidal *p)
{
    if (!given(p, "preset"))
        return;
    const struct preset *s = &presets[p->preset];
    p->given &= ~bit("preset");
#define TAKE(place, member) p->place = given(p, #member) ? p->place : s->member
    TAKE(of.layout, layout);
    TAKE(of.flip_sin_to_cos, flip_sin_to_cos);
    TAKE(of.downscale_freq_shift, downscale_freq_shift);
    TAKE(of.odd_dim, odd_dim);
    TAKE(freq_form, freq_form);
    TAKE(compute_dtype, compute_dtype);
    TAKE(normalize, normalize);
#undef TAKE
    if (s->root && !given(p, "scale_output"))
        p->scale_output = 1 / sqrt((double)p->of.embedding_dim);
    if (s->timescales && !given(p, "min_timescale")) {
        p->of.min_timescale = 1;
        p->given |= bit("min_timescale");
    }
    if (s->timescales && !given(p, "max_timescale") && !given(p, "max_period")) {
        p->of.max_timescale = 10000;
        p->given |= bit("max_timescale");
    }
}

static void check_rows(const posenc_request *r, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const bool token = pe_positions_tokens(r, &p->at), range = given(p, "num_positions") && !token;
    const int64_t n = p->at.num_positions;
    pe_positions_check(r, &p->at, true, err);
    if (range && !p->at.offset && n && given(p, "padding_idx") && p->at.padding_idx >= n)
        pe_invalid(err, "padding_idx", posenc_text("%lld", (long long)p->at.padding_idx),
                   "a row of the table: 0 .. %lld, or %lld rows", (long long)n - 1, (long long)p->at.padding_idx + 1);
    if (p->normalize != NONE && (token || given(p, "padding_idx")))
        pe_not_applicable(err, "normalize", norms[p->normalize], "none with tokens or with padding_idx");
    if (p->normalize != NONE && !token && p->of.embedding_dim == 1 && pe_positions_count(r, &p->at) == 1)
        pe_invalid(err, "normalize", posenc_text("%s", norms[p->normalize]), "none: one element has no deviation");
}

/* Every element is finite. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const double most = pe_dtype_largest(p->compute_dtype == FLOAT32 && dtype == PE_float64 ? PE_float32 : dtype);
    /* a normalised element is at most sqrt(elements) / 10 */
    double largest = p->normalize == NONE ? 1
                                          : sqrt((double)pe_positions_count(r, &p->at) * (double)p->of.embedding_dim) / 10;
    largest = largest > 1 ? largest : 1;
    if (fabs(p->scale_output) * largest > most)
        pe_invalid(err, "scale_output", posenc_text("%.17g", p->scale_output),
                   "at most %g, so that every element is a finite %s", most / largest, posenc_dtype_name(dtype));
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const sinusoidal *p = r->params;
    apply_preset(r->params);
    const pe_sines s = sines(r);
    pe_convention_check(r, &p->of, &s, 53, err);
    check_rows(r, err);
    if (!err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost: known before computing ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const posenc_tensor *t = pe_positions_tokens(r, &p->at);
    int64_t size[PE_MAX_RANK];
    const int rank = pe_positions_shape(r, &p->at, 1, &p->of.embedding_dim, size);
    posenc_status st = pe_output(out, t ? "embedding" : "table", dtype, rank, size, err);
    return st || !t ? st : pe_output(out, "positions", PE_int64, t->rank, t->shape, err);
}

/* Whether rows come from a rotor: exact to what the result is rounded to, and it is not float32's own steps. */
static bool turns(const posenc_request *r, const pe_sines *s) { return !s->single && r->common.dtype != PE_float64; }

/* Whether all rows come straight from rotors, rounded, which pe_rotor_table has memory for. */
static bool straight(const posenc_request *r, const pe_sines *s, const pe_columns *c)
{
    const sinusoidal *p = r->params;
    return turns(r, s) && p->normalize == NONE && pe_rotor_scales(p->scale_output) && pe_sines_whole(s, c);
}

/* Frequencies, then the storage of a rotor and its results, then the row. */
static uint64_t scratch(const posenc_request *r, const pe_sines *s, const pe_columns *c)
{
    const bool own = turns(r, s) && !straight(r, s, c);
    const uint64_t rotor = own ? pe_rotor_size(c->pairs) + 2 * c->pairs * sizeof(double) : 0;
    return c->pairs * sizeof(pe_dd) + rotor + c->width * sizeof(double);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const sinusoidal *p = r->params;
    const pe_sines s = sines(r);
    const pe_columns c = pe_sines_columns(&s);
    const double passes = p->normalize == NONE ? 1 : 5, pairs = (double)c.pairs, n = (double)pe_positions_count(r, &p->at);
    out->ns = 20e3 + pairs * (s.single ? 5000 : 300) +
              passes * n *
                  (40 + (straight(r, &s, &c) ? 1
                         : turns(r, &s)      ? 4
                                             : 20) *
                            pairs);
    out->scratch = scratch(r, &s, &c) + (straight(r, &s, &c) ? pe_rotor_size(c.pairs) : 0);
}

/* ---- compute ---- */

typedef struct table {
    const sinusoidal *p;
    pe_sines s;
    pe_columns c;
    pe_pace pace;
    pe_source source;
    int64_t n; /* rows */
    pe_dd *w;  /* (pairs) */
    pe_rotor rotor;
    double *both;         /* (2 * pairs) of the rotor; NULL: exact rows */
    double *row;          /* (width) the row being made */
    double zero;          /* the position whose row is zero; NAN: none */
    double mean, divisor; /* of the normalisation */
} table;

/* t->row = row number `index`, as yet neither normalised nor scaled. */
static posenc_status make_row(table *t, int64_t index)
{
    const double position = pe_position(&t->source, index);
    if (position != t->zero && t->both)
        return pe_sines_turn(&t->s, &t->c, &t->rotor, position, t->both, t->row, &t->pace);
    if (position != t->zero)
        return pe_sines_row(&t->s, &t->c, t->w, (pe_dd){ position, 0 }, t->row, &t->pace);
    memset(t->row, 0, t->c.width * sizeof *t->row);
    return pe_pace_add(&t->pace, (int64_t)t->c.width);
}

/* Mean and 10 * unbiased standard deviation over the whole table, in two more passes rather than in its memory.
 * No source fixes the order of a float32 peer's sums: these are exact to the last bit or two. */
static posenc_status measure(table *t, posenc_error *err)
{
    const int64_t n = t->n;
    const size_t d = (size_t)t->p->of.embedding_dim;
    const double elements = (double)n * (double)d;
    pe_dd sum = { 0, 0 }, squares = { 0, 0 };
    posenc_status st;
    for (int64_t i = 0; i < n; i++) {
        if ((st = make_row(t, i)))
            return st;
        for (size_t k = 0; k < d; k++)
            sum = pe_dd_add(sum, (pe_dd){ t->row[k], 0 });
    }
    const pe_dd mean = pe_dd_div(sum, (pe_dd){ elements, 0 });
    for (int64_t i = 0; i < n; i++) {
        if ((st = make_row(t, i)))
            return st;
        for (size_t k = 0; k < d; k++) {
            pe_dd off = pe_dd_add((pe_dd){ t->row[k], 0 }, pe_dd_neg(mean));
            squares = pe_dd_add(squares, pe_two_prod(off.hi, off.hi));
        }
    }
    t->mean = mean.hi;
    t->divisor = 10 * sqrt(squares.hi / (elements - 1));
    if (!(t->divisor > 0))
        return pe_invalid(err, "normalize", posenc_text("%s", norms[t->p->normalize]),
                          "none: all elements of this table are equal");
    return PE_OK;
}

/* Normalises and scales the row, in float64 or in float32 steps. */
static void finish_row(table *t)
{
    const sinusoidal *p = t->p;
    const bool f32 = p->compute_dtype == FLOAT32;
    for (size_t k = 0; k < (size_t)p->of.embedding_dim && (p->normalize != NONE || p->scale_output != 1); k++) {
        double v = t->row[k];
        if (p->normalize != NONE)
            v = (v - t->mean) / t->divisor;
        t->row[k] = f32 ? (double)((float)v * (float)p->scale_output) : v * p->scale_output;
    }
}

/* All rows straight from rotors. */
static posenc_status straight_rows(const table *t, const posenc_tensor *dst, posenc_context *ctx, posenc_error *err)
{
    pe_rotor_place to = pe_sines_place(&t->s, &t->c, dst->dtype, dst->data);
    to.scale = t->p->scale_output == 1 ? 0 : t->p->scale_output;
    posenc_status st = pe_rotor_table(t->w, t->c.pairs, &t->source, t->n, &to, (size_t)posenc_tensor_size(dst), ctx, err);
    for (int64_t i = 0; i < t->n && !isnan(t->zero) && !st; i++)
        if (pe_position(&t->source, i) == t->zero)
            memset((char *)dst->data + (size_t)i * to.step, 0, to.step);
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const bool tokens = pe_positions_tokens(r, &p->at) != NULL;
    const posenc_tensor *dst = pe_tensor(out, tokens ? "embedding" : "table");
    const size_t d = (size_t)p->of.embedding_dim, row_size = d * posenc_dtype_size(dst->dtype);
    table t = {
        .p = p,
        .s = sines(r),
        .pace = { .ctx = ctx },
        .n = pe_positions_count(r, &p->at),
        .zero = given(p, "padding_idx") ? (double)p->at.padding_idx : (double)NAN,
    };
    posenc_status st = pe_positions_source(r, &p->at, tokens ? pe_tensor(out, "positions")->data : NULL, &t.pace, &t.source);
    if (st || !posenc_tensor_count(dst))
        return st;
    t.c = pe_sines_columns(&t.s);
    if (!(t.w = malloc(scratch(r, &t.s, &t.c))))
        return pe_no_memory("memory", err);
    t.row = (double *)(t.w + t.c.pairs);
    const bool all = straight(r, &t.s, &t.c);
    if (turns(r, &t.s) && !all) {
        t.both = t.row;
        t.rotor = pe_rotor_begin(t.w, t.c.pairs, t.both + 2 * t.c.pairs);
        t.row = t.both + 2 * t.c.pairs + pe_rotor_size(t.c.pairs) / sizeof(double);
    }

    st = pe_sines_frequencies(&t.s, t.w, ctx);
    if (!st && p->normalize != NONE)
        st = measure(&t, err);
    if (!st && all) {
        st = straight_rows(&t, dst, ctx, err);
    } else {
        for (int64_t i = 0; !st && i < t.n; i++) {
            if ((st = make_row(&t, i)))
                break;
            finish_row(&t);
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)i * row_size, t.row, d);
        }
    }
    free(t.w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_sinusoidal = {
    .name = "sinusoidal",
    .family = "absolute",
    .title = "sine and cosine of positions",
    .source = "Vaswani et al. 2017, Attention is all you need, arXiv:1706.03762, section 3.5",
    .formula = "w[i] = min_timescale * base^(-i / n), base = max_period or max_timescale / min_timescale,\n"
               "n = embedding_dim / 2 - downscale_freq_shift; columns sin(scale * pos * w[i]) and cos(scale * pos * w[i])",
    .example = "embedding_dim=64&num_positions=128",
    .revision = 3,
    .input = PE_NO_INPUT,
    PE_TABLE(sinusoidal, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
