/* relative_sinusoidal.c - the sinusoids of relative positions that attention with a shift reads.
 *
 *     w[i] = max_period^(-i / (d/2))                     i = 0 .. d/2 - 1, d = embedding_dim
 *     table[r] = sin and cos of position(r) * w[i], positions in descending order:
 *         causal     key_length - 1 .. 0                 Transformer-XL
 *         bi         key_length .. -query_length + 1     XLNet
 *         uni        key_length .. 0                     XLNet
 *         symmetric  length - 1 .. -(length - 1)         Conformer, wav2vec 2.0, Parakeet
 *     index[q, k] = the row of (position of query q) - k, where queries are the last ones of the keys
 *
 * A position beyond clamp_len counts as that. Source: Dai et al. 2019, Transformer-XL, arXiv:1901.02860, appendix B, the
 * authors' PositionalEmbedding; Yang et al. 2019, XLNet, relative_positional_encoding; ESPnet and fairseq,
 * RelPositionalEncoding. */
#include "core/params.h"
#include "sequence/convention.h"

#include <stdlib.h>

extern const posenc_encoding pe_relative_sinusoidal;

/* ---- rows ---- */

enum { CAUSAL, BI, UNI, SYMMETRIC };
static const char *const attn_types[] = { "causal", "bi", "uni", "symmetric", NULL };

typedef struct relative_sinusoidal {
    posenc_given given;
    int preset;
    int64_t embedding_dim;
    int attn_type;
    int64_t query_length, key_length, length, clamp_len;
    int layout;
    double max_period;
    int freq_form, compute_dtype;
    bool with_index;
} relative_sinusoidal;

enum { LONGEST = 1 << 30 };

/* name, attn_type, layout, freq_form; all of them work in float32 */
/* clang-format off */
#define PRESETS(X)                                                                                                     \
    X(transformer_xl, CAUSAL,    SPLIT,       POW) /* PositionalEmbedding */                                             \
    X(xlnet,          BI,        SPLIT,       POW) /* relative_positional_encoding */                                    \
    X(conformer,      SYMMETRIC, INTERLEAVED, EXP) /* RelPositionalEncoding; Wav2Vec2Conformer, SeamlessM4T */
/* clang-format on */

static const char *const preset_names[] = {
#define X(name, ...) #name,
    PRESETS(X)
#undef X
        NULL
};

static const struct preset {
    int attn_type, layout, freq_form;
} presets[] = {
#define X(name, type, layout, form) { type, PE_##layout, PE_POWER_##form },
    PRESETS(X)
#undef X
};

static const posenc_param rows[] = {
    { PE_ENUM(relative_sinusoidal, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc =
          "the conventions of a known implementation: sets the defaults of attn_type, layout, freq_form and "
          "compute_dtype; given parameters win. transformer_xl: PositionalEmbedding; xlnet: relative_positional_encoding; "
          "conformer: the RelPositionalEncoding of Wav2Vec2-Conformer and SeamlessM4T" },
    { PE_INT(relative_sinusoidal, embedding_dim), .flags = PE_REQUIRED, .min = 2, .max = 1048576,
      .doc = "width of the table, an even number" },
    { PE_ENUM(relative_sinusoidal, attn_type), .names = attn_types, .def = CAUSAL,
      .doc = "positions of the rows: key_length - 1 .. 0 (Transformer-XL); key_length .. -query_length + 1 or "
             "key_length .. 0 (XLNet); length - 1 .. -(length - 1) (Conformer)" },
    { PE_INT(relative_sinusoidal, query_length), .flags = PE_OPTIONAL, .max = LONGEST,
      .doc = "queries: required with attn_type=bi, otherwise only index needs them; not with symmetric" },
    { PE_INT(relative_sinusoidal, key_length), .flags = PE_OPTIONAL, .max = LONGEST,
      .doc = "keys, memory included: required but with attn_type=symmetric" },
    { PE_INT(relative_sinusoidal, length), .flags = PE_OPTIONAL, .max = LONGEST,
      .doc = "queries and keys alike: required with attn_type=symmetric, and only then" },
    { PE_INT(relative_sinusoidal, clamp_len), .def = -1, .min = -1, .max = LONGEST,
      .doc = "positions beyond it, on either side, count as it; 0 or -1: none" },
    { PE_ENUM(relative_sinusoidal, layout), .names = pe_sines_layouts, .def = PE_SPLIT,
      .doc = "sin cos sin cos ... (Conformer), or all sines then all cosines" },
    { PE_REAL(relative_sinusoidal, max_period), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies" },
    { PE_ENUM(relative_sinusoidal, freq_form), .names = pe_freq_forms, .def = PE_POWER_EXP,
      .doc = "exp(-i ln(b)/n) or 1/b^(i/n): the same but for compute_dtype=float32" },
    { PE_ENUM(relative_sinusoidal, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: each rounded to float32, as many implementations do" },
    { PE_BOOL(relative_sinusoidal, with_index), .def = 1,
      .doc = "also the row of each pair of query and key, where both lengths are known; it has query_length * key_length "
             "elements" },
};

static const posenc_output outputs[] = {
    { .name = "table", .shape = "[rows, embedding_dim]", .doc = "one row a relative position, descending" },
    { .name = "index",
      .shape = "[query_length, key_length]",
      .dtype = "int64",
      .doc =
          "the row of query and key; -1 where the table has none, for the key comes later; absent without query_length or "
          "length, or with with_index=false" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_relative_sinusoidal.table, name) - rows); }
static bool given(const relative_sinusoidal *p, const char *name) { return (p->given & bit(name)) != 0; }

/* ---- what the parameters mean ---- */

/* Relative positions run from `first` down; index[q, k] = from + k - q. */
typedef struct span {
    int64_t rows, first, from;
    int64_t queries, keys; /* of the index; -1: not known */
} span;

static span span_of(const relative_sinusoidal *p)
{
    const int64_t q = given(p, "query_length") ? p->query_length : -1, k = p->key_length, n = p->length;
    switch (p->attn_type) {
    case BI: return (span){ k + q, k, q, q, k };
    case UNI: return (span){ k + 1, k, q, q, k };
    case SYMMETRIC: return (span){ n ? 2 * n - 1 : 0, n - 1, n - 1, n, n };
    default: return (span){ k, k - 1, q - 1, q, k };
    }
}

static bool indexed(const relative_sinusoidal *p, const span *s) { return p->with_index && s->queries >= 0; }

static pe_sines sines(const relative_sinusoidal *p)
{
    return (pe_sines){
        .width = p->embedding_dim,
        .split = p->layout == PE_SPLIT,
        .top = p->max_period,
        .bottom = 1,
        .shortest = 1,
        .scale = 1,
        .form = (pe_power)p->freq_form,
        .single = p->compute_dtype == PE_COMPUTE_FLOAT32,
    };
}

/* ---- check ---- */

/* Turns a preset into the values it stands for: it leaves no trace, so that either spelling has the same digest. */
static void apply_preset(relative_sinusoidal *p)
{
    if (!given(p, "preset"))
        return;
    const struct preset *s = &presets[p->preset];
    p->given &= ~bit("preset");
    p->attn_type = given(p, "attn_type") ? p->attn_type : s->attn_type;
    p->layout = given(p, "layout") ? p->layout : s->layout;
    p->freq_form = given(p, "freq_form") ? p->freq_form : s->freq_form;
    p->compute_dtype = given(p, "compute_dtype") ? p->compute_dtype : PE_COMPUTE_FLOAT32;
}

/* A length that this attn_type needs, may have, or has no use for. */
static void check_length(const relative_sinusoidal *p, const char *name, bool needed, bool used, posenc_error *err)
{
    const char *type = attn_types[p->attn_type];
    if (needed && !given(p, name))
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", name, "absent", "a value, it is required with attn_type=%s", type);
    if (!used && given(p, name))
        pe_not_applicable(err, name, posenc_text("given with attn_type=%s", type).s, "%s",
                          p->attn_type == SYMMETRIC ? "length alone" : "key_length and query_length");
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    relative_sinusoidal *p = r->params;
    apply_preset(p);
    const bool both = p->attn_type != SYMMETRIC;
    const pe_sines s = sines(p);
    p->clamp_len = p->clamp_len ? p->clamp_len : -1;
    check_length(p, "length", !both, !both, err);
    check_length(p, "key_length", both, both, err);
    check_length(p, "query_length", p->attn_type == BI, both, err);
    if (p->embedding_dim % 2)
        pe_invalid(err, "embedding_dim", posenc_text("%lld", (long long)p->embedding_dim), "an even number");
    /* positions are below 2^31 */
    pe_sines_check_range(&s, "max_period", p->max_period, 31, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const relative_sinusoidal *p = r->params;
    const span s = span_of(p);
    posenc_status st = pe_output(out, "table", (posenc_dtype)r->common.dtype, 2, (int64_t[]){ s.rows, p->embedding_dim },
                                 err);
    return st || !indexed(p, &s) ? st : pe_output(out, "index", PE_int64, 2, (int64_t[]){ s.queries, s.keys }, err);
}

static uint64_t scratch(const relative_sinusoidal *p)
{
    return (uint64_t)p->embedding_dim * (sizeof(pe_dd) / 2 + sizeof(double));
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const relative_sinusoidal *p = r->params;
    const span s = span_of(p);
    const double pairs = (double)p->embedding_dim / 2;
    out->ns = 20e3 + pairs * (p->compute_dtype == PE_COMPUTE_FLOAT32 ? 5000 : 300) + (double)s.rows * (80 + 12 * pairs) +
              (indexed(p, &s) ? (double)s.queries * (double)s.keys : 0);
    out->scratch = scratch(p);
}

/* ---- compute ---- */

static posenc_status fill_index(const span *s, int64_t *index, pe_pace *pace)
{
    enum { BLOCK = 1 << 16, STEPS = 4 }; /* about nanoseconds an element of fresh memory */
    posenc_status st = PE_OK;
    for (int64_t q = 0; q < s->queries && s->keys && !st; q++)
        for (int64_t k = 0; k < s->keys && !st;) {
            const int64_t last = s->keys - k < BLOCK ? s->keys : k + BLOCK;
            st = pe_pace_add(pace, (last - k) * STEPS + 5);
            for (; k < last; k++) {
                const int64_t row = s->from + k - q;
                *index++ = row < s->rows ? row : -1;
            }
        }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const relative_sinusoidal *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "table");
    const span at = span_of(p);
    const pe_sines s = sines(p);
    const pe_columns c = pe_sines_columns(&s);
    const size_t d = (size_t)p->embedding_dim, row_size = d * posenc_dtype_size(dst->dtype);
    pe_pace pace = { .ctx = ctx };
    pe_dd *w = malloc(scratch(p));
    if (!w)
        return pe_no_memory("memory", err);
    double *row = (double *)(w + d / 2);

    posenc_status st = at.rows ? pe_sines_frequencies(&s, w, ctx) : PE_OK;
    for (int64_t i = 0; i < at.rows && !st; i++) {
        int64_t position = at.first - i;
        if (p->clamp_len > 0 && position > p->clamp_len)
            position = p->clamp_len;
        if (p->clamp_len > 0 && position < -p->clamp_len)
            position = -p->clamp_len;
        st = pe_sines_row(&s, &c, w, (pe_dd){ (double)position, 0 }, row, &pace);
        posenc_convert(dst->dtype, (char *)dst->data + (size_t)i * row_size, row, d);
    }
    free(w);
    if (!st && indexed(p, &at))
        st = fill_index(&at, pe_tensor(out, "index")->data, &pace);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_relative_sinusoidal = {
    .name = "relative_sinusoidal",
    .family = "relative",
    .title = "sine and cosine of relative positions",
    .source = "Dai et al. 2019, Transformer-XL, arXiv:1901.02860, appendix B; Yang et al. 2019, XLNet, arXiv:1906.08237; "
              "Gulati et al. 2020, Conformer, arXiv:2005.08100",
    .formula = "w[i] = max_period^(-2i / embedding_dim); sin and cos of position * w[i], positions descending:\n"
               "causal key_length - 1 .. 0, bi key_length .. -query_length + 1, uni key_length .. 0,\n"
               "symmetric length - 1 .. -(length - 1); index[q, k] = the row of key_length - query_length + q - k",
    .example = "preset=conformer&embedding_dim=8&length=5",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(relative_sinusoidal, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
