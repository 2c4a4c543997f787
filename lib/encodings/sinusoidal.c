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
#include "core/exact.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_sinusoidal;

/* ---- rows: what a client may type ---- */

enum { INTERLEAVED, SPLIT };
static const char *const layouts[] = { "interleaved", "split", NULL };

enum { ERROR, ZERO_PAD, SIN_EXTRA, ROUND_UP_TRUNCATE };
static const char *const odd_dims[] = { "error", "zero_pad", "sin_extra", "round_up_truncate", NULL };

static const char *const freq_forms[] = { "exp", "pow", NULL }; /* as pe_power */

enum { NONE, PATCHTST };
static const char *const norms[] = { "none", "patchtst", NULL };

enum { FLOAT64, FLOAT32 };
static const char *const compute_dtypes[] = { "float64", "float32", NULL };

typedef struct sinusoidal {
    posenc_given given;
    int preset;
    int64_t embedding_dim, num_positions, offset;
    posenc_reals positions;
    posenc_tensor input_ids, attention_mask; /* (L) or (B, L) */
    int64_t padding_idx, past_key_values_length;
    double max_period, min_timescale, max_timescale, downscale_freq_shift;
    int layout;
    bool flip_sin_to_cos;
    double scale;
    int odd_dim, freq_form, normalize;
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
    { layout, flip, shift, odd, PE_POWER_##form, dtype, norm, timescales, root },
    PRESETS(X)
#undef X
};

static const posenc_param rows[] = {
    { PE_ENUM(sinusoidal, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc =
          "the conventions of a known implementation: sets the defaults of layout, flip_sin_to_cos, downscale_freq_shift, "
          "odd_dim, freq_form, compute_dtype, normalize, the timescales and scale_output; given parameters win" },
    { PE_INT(sinusoidal, embedding_dim), .flags = PE_REQUIRED, .min = 1, .max = 1048576, .doc = "width of the table" },
    { PE_INT(sinusoidal, num_positions), .flags = PE_OPTIONAL, .max = 0x1p53 - 1,
      .doc = "rows of the table; beside input_ids or attention_mask, the rows that positions must fit in" },
    { PE_INT(sinusoidal, offset), .min = -0x1p53 + 1, .max = 0x1p53 - 1,
      .doc = "position of the first of num_positions rows" },
    { PE_REALS(sinusoidal, positions), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53,
      .doc = "the positions themselves, in any order: integers or fractions, also negative" },
    { PE_TENSOR(sinusoidal, input_ids), .flags = PE_OPTIONAL,
      .doc = "token ids, [L] or [B, L]: positions count the tokens that are not padding_idx" },
    { PE_TENSOR(sinusoidal, attention_mask), .flags = PE_OPTIONAL,
      .doc = "1 where a token counts, 0 where it is padding; alone, or beside input_ids in the same shape" },
    { PE_INT(sinusoidal, padding_idx), .flags = PE_OPTIONAL, .max = 1e15,
      .doc =
          "the position whose row is all zero; with input_ids also the id of padding, which gets this position, and tokens "
          "count from padding_idx + 1; when absent tokens count from 0 and masked ones get position 1" },
    { PE_INT(sinusoidal, past_key_values_length), .max = 1e15,
      .doc = "tokens that came before: added to the positions of tokens" },
    { PE_REAL(sinusoidal, max_period), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies" },
    { PE_REAL(sinusoidal, min_timescale), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,
      .doc = "multiplies every frequency and divides max_timescale (1 when absent); given, the ladder has at least 1 step" },
    { PE_REAL(sinusoidal, max_timescale), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,
      .doc = "the base is max_timescale / min_timescale, instead of max_period; given, the ladder has at least 1 step" },
    { PE_REAL(sinusoidal, downscale_freq_shift), .min = -1e100, .max = 1e100,
      .doc = "exponents are -i / (embedding_dim/2 - shift): 0 as in the paper, 1 as in tensor2tensor" },
    { PE_ENUM(sinusoidal, layout), .names = layouts, .def = INTERLEAVED,
      .doc = "sin cos sin cos ..., or all sines then all cosines" },
    { PE_BOOL(sinusoidal, flip_sin_to_cos), .doc = "cosines first" },
    { PE_REAL(sinusoidal, scale), .def = 1, .min = -1e100, .max = 1e100, .doc = "multiplies the angle" },
    { PE_ENUM(sinusoidal, odd_dim), .names = odd_dims, .def = ERROR,
      .doc = "an odd width: refused; a last column of zeros; one more sine than cosines; or the next even width less its "
             "last column" },
    { PE_ENUM(sinusoidal, freq_form), .names = freq_forms, .def = PE_POWER_EXP,
      .doc = "exp(-i ln(b)/n) or 1/b^(i/n): the same but for compute_dtype=float32" },
    { PE_ENUM(sinusoidal, normalize), .names = norms, .def = NONE,
      .doc = "patchtst: minus the mean of the table, divided by 10 times its unbiased standard deviation" },
    { PE_REAL(sinusoidal, scale_output), .def = 1, .min = -1e100, .max = 1e100, .doc = "multiplies the table, last of all" },
    { PE_ENUM(sinusoidal, compute_dtype), .names = compute_dtypes, .def = FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: each rounded to float32, as many implementations do" },
};

static const posenc_output outputs[] = {
    { .name = "table",
      .shape = "[num_positions, embedding_dim]",
      .doc = "one row a position; absent with input_ids or attention_mask" },
    { .name = "embedding", .shape = "[B, L, embedding_dim]", .doc = "one row a token of input_ids or attention_mask" },
    { .name = "positions", .shape = "[B, L]", .dtype = "int64", .doc = "the position of each token" },
};

static const char bad[] = "INVALID_PARAMETER";

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_sinusoidal.table, name) - rows); }
static bool given(const sinusoidal *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- what the parameters mean ---- */

/* The tensor that says how many tokens there are; NULL where positions come from elsewhere. */
static const posenc_tensor *tokens(const sinusoidal *p)
{
    return given(p, "input_ids") ? &p->input_ids : given(p, "attention_mask") ? &p->attention_mask : NULL;
}

/* Rows of the result. */
static int64_t count(const sinusoidal *p)
{
    return tokens(p) ? posenc_tensor_count(tokens(p)) : given(p, "positions") ? (int64_t)p->positions.n : p->num_positions;
}

/* Columns: pair i has its sine in sin0 + i * step (the last one in last_sine) and its cosine in cos0 + i * step. */
typedef struct columns {
    size_t pairs, cosines; /* frequencies; those that have a cosine too */
    size_t sin0, cos0, step, last_sine;
    size_t width; /* that these fill, at least; columns from d on are cut */
} columns;

static columns columns_of(const sinusoidal *p)
{
    const size_t d = (size_t)p->embedding_dim, h = d / 2, up = d - h;
    const bool extra = d % 2 && p->odd_dim == SIN_EXTRA, wide = extra || (d % 2 && p->odd_dim == ROUND_UP_TRUNCATE);
    columns c = { .pairs = wide ? up : h, .cosines = extra ? h : wide ? up : h, .step = p->layout == SPLIT ? 1 : 2 };
    *(p->flip_sin_to_cos ? &c.sin0 : &c.cos0) = p->layout == INTERLEAVED ? 1 : p->flip_sin_to_cos ? c.cosines : c.pairs;
    c.last_sine = c.sin0 + (c.pairs ? c.pairs - 1 : 0) * c.step;
    if (extra && c.last_sine == d) /* cos sin cos sin ... and the extra sine */
        c.last_sine = d - 1;
    c.width = 2 * c.pairs > d ? 2 * c.pairs : d;
    return c;
}

/* n, the steps from the first frequency to that divided by the base. tensor2tensor's form has at least one step, others
 * divide by zero where shift = h. For sin_extra n counts half a step (the exponent stays 2i/d), for round_up_truncate
 * the width is rounded up first. */
static pe_dd steps(const sinusoidal *p)
{
    double d = (double)p->embedding_dim;
    double half = p->odd_dim == SIN_EXTRA ? d / 2 : p->odd_dim == ROUND_UP_TRUNCATE ? ceil(d / 2) : floor(d / 2);
    pe_dd n = pe_two_sum(half, -p->downscale_freq_shift);
    bool at_least_one = given(p, "min_timescale") || given(p, "max_timescale") || d < 2;
    return n.hi < 1 && at_least_one ? (pe_dd){ 1, 0 } : n;
}

static pe_ladder ladder(const sinusoidal *p)
{
    const bool ratio = given(p, "max_timescale");
    const double shortest = given(p, "min_timescale") ? p->min_timescale : 1;
    return (pe_ladder){
        .gain = p->compute_dtype == FLOAT32 ? (pe_dd){ shortest, 0 } : pe_two_prod(shortest, p->scale),
        .top = ratio ? p->max_timescale : p->max_period,
        .bottom = ratio ? shortest : 1,
        .steps = steps(p),
    };
}

/* Positions of tokens into `out` (unless NULL); returns how many rows a table needs to hold them.
 * With padding_idx as fairseq and M2M100: (cumsum(real) + past) * real + padding_idx.
 * Without as GPT-2: cumsum(real) + past - 1, and 1 where not real. */
static int64_t token_positions(const sinusoidal *p, int64_t *out)
{
    const posenc_tensor *t = tokens(p);
    const bool pad = given(p, "padding_idx"), by_id = pad && given(p, "input_ids"), masked = given(p, "attention_mask");
    const int64_t length = t->shape[t->rank - 1], n = posenc_tensor_count(t), before = p->past_key_values_length;
    int64_t seen = 0, need = pad ? p->padding_idx + 1 : 0;
    for (int64_t i = 0; i < n; i++) {
        bool real = (!by_id || posenc_tensor_get(&p->input_ids, i) != (double)p->padding_idx) &&
                    (!masked || posenc_tensor_get(&p->attention_mask, i) != 0);
        seen = (i % length ? seen : 0) + real;
        int64_t position = pad ? p->padding_idx + (real ? before + seen : 0) : real ? before + seen - 1 : 1;
        need = position >= need ? position + 1 : need;
        if (out)
            out[i] = position;
    }
    return need;
}

/* ---- check: the rules between rows ---- */

/* Turns a preset into the values it stands for: it leaves no trace, so that either spelling has the same digest. */
static void apply_preset(sinusoidal *p)
{
    if (!given(p, "preset"))
        return;
    const struct preset *s = &presets[p->preset];
    p->given &= ~bit("preset");
#define TAKE(member) p->member = given(p, #member) ? p->member : s->member
    TAKE(layout);
    TAKE(flip_sin_to_cos);
    TAKE(downscale_freq_shift);
    TAKE(odd_dim);
    TAKE(freq_form);
    TAKE(compute_dtype);
    TAKE(normalize);
#undef TAKE
    if (s->root && !given(p, "scale_output"))
        p->scale_output = 1 / sqrt((double)p->embedding_dim);
    if (s->timescales && !given(p, "min_timescale")) {
        p->min_timescale = 1;
        p->given |= bit("min_timescale");
    }
    if (s->timescales && !given(p, "max_timescale") && !given(p, "max_period")) {
        p->max_timescale = 10000;
        p->given |= bit("max_timescale");
    }
}

static void check_width(const sinusoidal *p, posenc_error *err)
{
    if (p->embedding_dim % 2 && p->odd_dim == ERROR)
        posenc_fail(err, PE_INVALID, bad, "embedding_dim", posenc_text("%lld", (long long)p->embedding_dim).s,
                    "an even width, or odd_dim=zero_pad, sin_extra or round_up_truncate");
    if (!(steps(p).hi > 0))
        posenc_fail(
            err, PE_INVALID, bad, "downscale_freq_shift", posenc_text("%.17g", p->downscale_freq_shift).s,
            "below embedding_dim/2 = %lld, or min_timescale or max_timescale given: the exponent's divisor must be over 0",
            (long long)p->embedding_dim / 2);
}

/* Integers only, 0 and 1 only for the mask, and [L] or [B, L]. */
static void check_tensor(const posenc_tensor *t, const char *name, double min, double max, const char *words,
                         posenc_error *err)
{
    if (t->rank != 1 && t->rank != 2) {
        posenc_fail(err, PE_INVALID, bad, name, posenc_text("%d axes", t->rank).s, "[L] or [B, L]");
        return;
    }
    for (int64_t i = 0, n = posenc_tensor_count(t); i < n; i++) {
        double v = posenc_tensor_get(t, i);
        if (v >= min && v <= max && v == floor(v))
            continue;
        long long length = t->shape[t->rank - 1], row = i / length, column = i % length;
        posenc_short field = t->rank == 1 ? posenc_text("%s[%lld]", name, column)
                                          : posenc_text("%s[%lld][%lld]", name, row, column);
        posenc_fail(err, PE_INVALID, bad, field.s, posenc_text("%.17g", v).s, "%s", words);
        return;
    }
}

static void check_tokens(const sinusoidal *p, posenc_error *err)
{
    const posenc_tensor *ids = &p->input_ids, *mask = &p->attention_mask;
    const bool by_id = given(p, "input_ids"), masked = given(p, "attention_mask");
    const unsigned before = err->n;
    if (by_id)
        check_tensor(ids, "input_ids", -0x1p63, 0x1p63, "an integer", err);
    if (masked)
        check_tensor(mask, "attention_mask", 0, 1, "0 or 1", err);
    if (by_id && masked &&
        (ids->rank != mask->rank || memcmp(ids->shape, mask->shape, (size_t)ids->rank * sizeof ids->shape[0])))
        posenc_fail(err, PE_INVALID, bad, "attention_mask", "another shape", "the shape of input_ids");
    if (err->n > before || !given(p, "num_positions"))
        return;
    int64_t need = token_positions(p, NULL);
    if (count(p) && need > p->num_positions)
        posenc_fail(err, PE_INVALID, bad, "num_positions", posenc_text("%lld", (long long)p->num_positions).s,
                    "at least %lld rows for these tokens", (long long)need);
}

/* Exactly one source of positions, and nothing that belongs to another source. */
static void check_source(const sinusoidal *p, posenc_error *err)
{
    static const char other[] = "NOT_APPLICABLE", one[] = "one of num_positions, positions, or input_ids / attention_mask";
    const bool token = tokens(p) != NULL, list = given(p, "positions"), range = given(p, "num_positions") && !token;
    if (!token && !list && !range)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "num_positions", "absent", "a value, it is required: %s", one);
    if (list && (token || range))
        posenc_fail(err, PE_INVALID, other, "positions", token ? "given with tokens" : "given with num_positions", "%s",
                    one);
    if (p->offset && !range)
        posenc_fail(err, PE_INVALID, other, "offset", posenc_text("%lld", (long long)p->offset).s,
                    "0, or num_positions alone");
    if (p->past_key_values_length && !token)
        posenc_fail(err, PE_INVALID, other, "past_key_values_length",
                    posenc_text("%lld", (long long)p->past_key_values_length).s, "0, or input_ids or attention_mask");
    if (range && !list && p->num_positions && p->offset > (1LL << 53) - p->num_positions + 1)
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "offset", posenc_text("%lld", (long long)p->offset).s,
                    "positions up to 2^53");
    if (range && !list && !p->offset && p->num_positions && given(p, "padding_idx") && p->padding_idx >= p->num_positions)
        posenc_fail(err, PE_INVALID, bad, "padding_idx", posenc_text("%lld", (long long)p->padding_idx).s,
                    "a row of the table: 0 .. %lld, or %lld rows", (long long)p->num_positions - 1,
                    (long long)p->padding_idx + 1);
    if (p->normalize != NONE && (token || given(p, "padding_idx")))
        posenc_fail(err, PE_INVALID, other, "normalize", norms[p->normalize], "none with tokens or with padding_idx");
    if (p->normalize != NONE && !token && p->embedding_dim == 1 && count(p) == 1)
        posenc_fail(err, PE_INVALID, bad, "normalize", norms[p->normalize], "none: one element has no deviation");
    if (token)
        check_tokens(p, err);
}

static int exponent(double v) /* |v| < 2^exponent, at least 2^0 */
{
    int e;
    frexp(v, &e);
    return v != 0 && e > 0 ? e : 0;
}

/* Every step of the way to an angle, and every element, stays finite. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const pe_ladder l = ladder(p);
    const bool single = p->compute_dtype == FLOAT32;
    const char *base = given(p, "max_timescale") ? "max_timescale" : "max_period";
    const double base_value = given(p, "max_timescale") ? p->max_timescale : p->max_period, b = l.top / l.bottom;
    const size_t pairs = columns_of(p).pairs;
    const double rise = b < 1 && pairs ? (double)(pairs - 1) / l.steps.hi * exponent(1 / b) : 0;
    const double limit = single ? 120 : 900;
    if (single && (b < 1e-36 || b > 1e36))
        posenc_fail(err, PE_INVALID, bad, base, posenc_text("%.17g", base_value).s,
                    "a base in 1e-36 .. 1e36 with compute_dtype=float32");
    if (53 + exponent(p->scale) + exponent(given(p, "min_timescale") ? p->min_timescale : 1) + rise > limit)
        posenc_fail(err, PE_INVALID, bad, rise > 0 ? base : "scale",
                    posenc_text("%.17g", rise > 0 ? base_value : p->scale).s,
                    "angles at position 2^53 below 2^%.0f (compute_dtype=%s)", limit, compute_dtypes[p->compute_dtype]);

    /* a normalised element is at most sqrt(elements) / 10 */
    double largest = p->normalize == NONE ? 1 : sqrt((double)count(p) * (double)p->embedding_dim) / 10;
    largest = largest > 1 ? largest : 1;
    double most = r->common.dtype == PE_float16 ? 65504 : r->common.dtype == PE_float64 ? 1e300 : 3e38;
    if (fabs(p->scale_output) * largest > (single && most > 3e38 ? 3e38 : most))
        posenc_fail(err, PE_INVALID, bad, "scale_output", posenc_text("%.17g", p->scale_output).s,
                    "at most %g, so that every element is a finite %s", most / largest,
                    posenc_dtype_name((posenc_dtype)r->common.dtype));
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    apply_preset(r->params);
    check_width(r->params, err);
    check_source(r->params, err);
    if (!err->n)
        check_range(r, err);
    return err->status;
}

/* ---- shape and cost: known before computing ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    const posenc_tensor *t = tokens(p);
    if (!t)
        return pe_output(out, "table", dtype, 2, (int64_t[]){ count(p), p->embedding_dim }, err);
    int64_t size[3] = { t->shape[0], t->shape[1], p->embedding_dim };
    size[t->rank] = p->embedding_dim;
    posenc_status st = pe_output(out, "embedding", dtype, t->rank + 1, size, err);
    return st ? st : pe_output(out, "positions", PE_int64, t->rank, t->shape, err);
}

static uint64_t scratch(const columns *c) { return c->pairs * sizeof(pe_dd) + c->width * sizeof(double); }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const sinusoidal *p = r->params;
    const columns c = columns_of(p);
    const double passes = p->normalize == NONE ? 1 : 5, pairs = (double)c.pairs;
    out->ns = 20e3 + pairs * (p->compute_dtype == FLOAT32 ? 5000 : 300) + passes * (double)count(p) * (40 + 25 * pairs);
    out->scratch = scratch(&c);
}

/* ---- compute ---- */

typedef struct table {
    const sinusoidal *p;
    const posenc_context *ctx;
    columns c;
    pe_dd *w;                /* (pairs) */
    double *row;             /* (width) the row being made */
    const int64_t *of_token; /* positions of tokens, or NULL */
    const double *listed;    /* positions as given, or NULL */
    double zero;             /* the position whose row is zero; NAN: none */
    double mean, divisor;    /* of the normalisation */
    size_t work;             /* about one per sine since the last poll */
} table;

/* Polls about every 2 ms. */
static posenc_status spend(table *t, size_t work)
{
    t->work += work;
    if (t->work < 1 << 16)
        return PE_OK;
    t->work = 0;
    return posenc_poll(t->ctx);
}

static double single(double v) { return (double)(float)v; }

/* The angle as a float32 peer forms it: position, product and product with scale are each rounded. */
static pe_dd angle_float32(double position, double w, double scale)
{
    float product = (float)position * (float)w;
    return (pe_dd){ (double)(product * (float)scale), 0 };
}

/* t->row = row number `index`, as yet neither normalised nor scaled. */
static posenc_status make_row(table *t, int64_t index)
{
    enum { BLOCK = 64 };
    const sinusoidal *p = t->p;
    const columns *c = &t->c;
    pe_dd angle[BLOCK];
    double s[BLOCK], co[BLOCK];
    posenc_status st;
    const double position = t->of_token ? (double)t->of_token[index]
                            : t->listed ? t->listed[index]
                                        : (double)(p->offset + index);

    memset(t->row, 0, c->width * sizeof *t->row);
    for (size_t first = 0; first < c->pairs && position != t->zero; first += BLOCK) {
        const size_t n = c->pairs - first < BLOCK ? c->pairs - first : BLOCK;
        for (size_t i = 0; i < n; i++)
            angle[i] = p->compute_dtype == FLOAT32 ? angle_float32(position, t->w[first + i].hi, p->scale)
                                                   : pe_dd_times(t->w[first + i], position);
        pe_sincos(angle, n, s, co);
        for (size_t i = 0; i < n && p->compute_dtype == FLOAT32; i++) {
            s[i] = single(s[i]);
            co[i] = single(co[i]);
        }
        for (size_t i = 0; i < n; i++)
            t->row[first + i + 1 < c->pairs ? c->sin0 + (first + i) * c->step : c->last_sine] = s[i];
        for (size_t i = 0; i < n && first + i < c->cosines; i++)
            t->row[c->cos0 + (first + i) * c->step] = co[i];
        if ((st = spend(t, n)))
            return st;
    }
    return spend(t, 8);
}

/* Mean and 10 * unbiased standard deviation over the whole table, in two more passes rather than in its memory.
 * No source fixes the order of a float32 peer's sums: these are exact to the last bit or two. */
static posenc_status measure(table *t, posenc_error *err)
{
    const int64_t n = count(t->p);
    const size_t d = (size_t)t->p->embedding_dim;
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
            pe_dd off = pe_dd_add((pe_dd){ t->row[k], 0 }, (pe_dd){ -mean.hi, -mean.lo });
            squares = pe_dd_add(squares, pe_two_prod(off.hi, off.hi));
        }
    }
    t->mean = mean.hi;
    t->divisor = 10 * sqrt(squares.hi / (elements - 1));
    if (!(t->divisor > 0))
        return posenc_fail(err, PE_INVALID, bad, "normalize", norms[t->p->normalize],
                           "none: all elements of this table are equal");
    return PE_OK;
}

/* Normalises and scales the row, in float64 or in float32 steps. */
static void finish_row(table *t)
{
    const sinusoidal *p = t->p;
    const bool f32 = p->compute_dtype == FLOAT32;
    for (size_t k = 0; k < (size_t)p->embedding_dim; k++) {
        double v = t->row[k];
        if (p->normalize != NONE)
            v = (v - t->mean) / t->divisor;
        t->row[k] = f32 ? (double)((float)v * (float)p->scale_output) : v * p->scale_output;
    }
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const sinusoidal *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, tokens(p) ? "embedding" : "table");
    const size_t d = (size_t)p->embedding_dim, row_size = d * posenc_dtype_size(dst->dtype);
    const pe_ladder l = ladder(p);
    posenc_status st = PE_OK;
    table t = {
        .p = p,
        .ctx = ctx,
        .c = columns_of(p),
        .listed = given(p, "positions") ? p->positions.v : NULL,
        .zero = given(p, "padding_idx") ? (double)p->padding_idx : (double)NAN,
    };
    if (!posenc_tensor_count(dst))
        return PE_OK;
    if (!(t.w = malloc(scratch(&t.c))))
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory",
                           posenc_text("%llu bytes", (unsigned long long)scratch(&t.c)).s,
                           "a smaller request, or try again");
    t.row = (double *)(t.w + t.c.pairs);

    if (p->compute_dtype == FLOAT32)
        st = pe_frequencies_float32(&l, (pe_power)p->freq_form, t.c.pairs, t.w, ctx);
    else
        st = pe_frequencies(&l, t.c.pairs, t.w, ctx);
    if (tokens(p)) {
        int64_t *positions = pe_tensor(out, "positions")->data;
        token_positions(p, positions);
        t.of_token = positions;
    }
    if (!st && p->normalize != NONE)
        st = measure(&t, err);
    for (int64_t i = 0, n = count(p); !st && i < n; i++) {
        if ((st = make_row(&t, i)))
            break;
        finish_row(&t);
        posenc_convert(dst->dtype, (char *)dst->data + (size_t)i * row_size, t.row, d);
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
    .example = "embedding_dim=64&num_positions=128",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(sinusoidal, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
