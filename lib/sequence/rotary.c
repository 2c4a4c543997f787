/* rotary.c - what a rope_type reads, and the frequencies it makes. */
#include "sequence/rotary.h"

#include "core/elementary.h"

#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pe_rope_types[] = { "default", "linear",       "dynamic", "yarn",      "longrope",
                                      "llama3",  "proportional", "ntk",     "ntk_alpha", NULL };
const char *const pe_rope_layouts[] = { "half", "interleaved", "half_unduplicated", "interleaved_unduplicated", NULL };

/* ---- presets ---- */

#define PHI3_VISION_SHORT                                                                                                \
    "1.05,1.05,1.05,1.1,1.1,1.1,1.2500000000000002,1.2500000000000002,1.4000000000000004,1.4500000000000004,"            \
    "1.5500000000000005,1.8500000000000008,1.9000000000000008,2.000000000000001,2.000000000000001,2.000000000000001,"    \
    "2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,"       \
    "2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,"       \
    "2.000000000000001,2.000000000000001,2.000000000000001,2.000000000000001,2.1000000000000005,2.1000000000000005,2.2," \
    "2.3499999999999996,2.3499999999999996,2.3499999999999996,2.3499999999999996,2.3999999999999995,2.3999999999999995," \
    "2.6499999999999986,2.6999999999999984,2.8999999999999977,2.9499999999999975,3.049999999999997,3.049999999999997,"   \
    "3.049999999999997"
#define PHI3_VISION_LONG                                                                                                 \
    "1.0299999713897705,1.0499999523162842,1.0499999523162842,1.0799999237060547,1.2299998998641968,1.2299998998641968," \
    "1.2999999523162842,1.4499999284744263,1.5999999046325684,1.6499998569488525,1.8999998569488525,2.859999895095825,"  \
    "3.68999981880188,5.419999599456787,5.489999771118164,5.489999771118164,9.09000015258789,11.579999923706055,"        \
    "15.65999984741211,15.769999504089355,15.789999961853027,18.360000610351562,21.989999771118164,23.079999923706055,"  \
    "30.009998321533203,32.35000228881836,32.590003967285156,35.56000518798828,39.95000457763672,53.840003967285156,"    \
    "56.20000457763672,57.95000457763672,59.29000473022461,59.77000427246094,59.920005798339844,61.190006256103516,"     \
    "61.96000671386719,62.50000762939453,63.3700065612793,63.48000717163086,63.48000717163086,63.66000747680664,"        \
    "63.850006103515625,64.08000946044922,64.760009765625,64.80001068115234,64.81001281738281,64.81001281738281"
#define PHI4_MINI_SHORT "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define PHI4_MINI_LONG                                                                                                \
    "1,1.118320672,1.250641126,1.398617824,1.564103225,1.74916897,1.956131817,2.187582649,2.446418898,2.735880826,"   \
    "3.059592084,3.421605075,3.826451687,4.279200023,4.785517845,5.351743533,5.984965424,6.693110555,7.485043894,"    \
    "8.370679318,9.36110372,10.4687158,11.70738129,13.09260651,14.64173252,16.37415215,18.31155283,20.47818807,"      \
    "22.90118105,25.61086418,28.64115884,32.03,32.1,32.13,32.23,32.6,32.61,32.64,32.66,32.7,32.71,32.93,32.97,33.28," \
    "33.49,33.5,44.16,47.77"

/* From the config.json that was published with each model; layout: as its weights are. */
/* clang-format off */
#define PRESETS(X)                                                                                                        \
    X("llama-2-7b", "head_dim=128&max_position_embeddings=4096")                                                          \
    X("llama-3-8b", "head_dim=128&rope_theta=500000&max_position_embeddings=8192")                                        \
    X("llama-3.1-8b", "head_dim=128&rope_theta=500000&max_position_embeddings=131072&rope_type=llama3&factor=8&"          \
      "low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192")                                       \
    X("llama-3.2-1b", "head_dim=64&rope_theta=500000&max_position_embeddings=131072&rope_type=llama3&factor=32&"          \
      "low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192")                                       \
    X("llama-4-scout", "head_dim=128&rope_theta=500000&max_position_embeddings=10485760&rope_type=llama3&factor=16&"      \
      "low_freq_factor=1&high_freq_factor=1&original_max_position_embeddings=8192&layout=interleaved")                    \
    X("codellama-7b", "head_dim=128&rope_theta=1000000&max_position_embeddings=16384")                                    \
    X("mistral-7b-v0.3", "head_dim=128&rope_theta=1000000&max_position_embeddings=32768")                                 \
    X("mixtral-8x7b", "head_dim=128&rope_theta=1000000&max_position_embeddings=32768")                                    \
    X("qwen-1.8b", "head_dim=128&max_position_embeddings=8192&rope_type=ntk_alpha&original_max_position_embeddings=8192") \
    X("qwen2-7b", "head_dim=128&rope_theta=1000000&max_position_embeddings=32768")                                        \
    X("qwen2.5-7b-yarn", "head_dim=128&rope_theta=1000000&max_position_embeddings=32768&rope_type=yarn&factor=4&"         \
      "original_max_position_embeddings=32768")                                                                           \
    X("qwen3-8b", "head_dim=128&rope_theta=1000000&max_position_embeddings=40960")                                        \
    X("gemma-2-9b", "head_dim=256&max_position_embeddings=8192")                                                          \
    X("gemma-3-4b-global", "head_dim=256&rope_theta=1000000&max_position_embeddings=131072&rope_type=linear&factor=8")    \
    X("gemma-3-4b-local", "head_dim=256&rope_theta=10000&max_position_embeddings=131072")                                 \
    X("gemma-4-e2b-global", "head_dim=512&rope_theta=1000000&max_position_embeddings=131072&rope_type=proportional&"      \
      "partial_rotary_factor=0.25")                                                                                       \
    X("phi-2", "head_dim=80&max_position_embeddings=2048&partial_rotary_factor=0.4")                                      \
    X("phi-3-vision-128k", "head_dim=96&max_position_embeddings=131072&rope_type=longrope&"                               \
      "original_max_position_embeddings=4096&short_factor=" PHI3_VISION_SHORT "&long_factor=" PHI3_VISION_LONG)           \
    X("phi-4-mini", "head_dim=128&partial_rotary_factor=0.75&max_position_embeddings=131072&rope_type=longrope&"          \
      "original_max_position_embeddings=4096&short_factor=" PHI4_MINI_SHORT "&long_factor=" PHI4_MINI_LONG)               \
    X("deepseek-v2", "head_dim=64&max_position_embeddings=163840&rope_type=yarn&factor=40&beta_fast=32&beta_slow=1&"      \
      "mscale=0.707&mscale_all_dim=0.707&original_max_position_embeddings=4096&layout=interleaved")                       \
    X("deepseek-v3", "head_dim=64&max_position_embeddings=163840&rope_type=yarn&factor=40&beta_fast=32&beta_slow=1&"      \
      "mscale=1&mscale_all_dim=1&original_max_position_embeddings=4096&layout=interleaved&output_layout=half")            \
    X("kimi-k2.5", "head_dim=64&rope_theta=50000&max_position_embeddings=262144&rope_type=yarn&factor=64&beta_fast=32&"   \
      "beta_slow=1&mscale=1&mscale_all_dim=1&original_max_position_embeddings=4096&layout=interleaved&"                   \
      "output_layout=half")                                                                                               \
    X("gpt-oss-20b", "head_dim=64&rope_theta=150000&max_position_embeddings=131072&rope_type=yarn&factor=32&"             \
      "original_max_position_embeddings=4096&beta_fast=32&beta_slow=1&truncate=false&layout=half_unduplicated")           \
    X("gpt-j-6b", "head_dim=256&partial_rotary_factor=0.25&max_position_embeddings=2048&layout=interleaved")              \
    X("gpt-neox-20b", "head_dim=96&partial_rotary_factor=0.25&max_position_embeddings=2048")                              \
    X("pythia-1.4b", "head_dim=128&partial_rotary_factor=0.25&max_position_embeddings=2048")                              \
    X("command-r", "head_dim=128&rope_theta=8000000&max_position_embeddings=131072&layout=interleaved")                   \
    X("olmo-2-7b", "head_dim=128&rope_theta=500000&max_position_embeddings=4096")                                         \
    X("olmo-3.1-32b-full", "head_dim=128&rope_theta=500000&max_position_embeddings=65536&rope_type=yarn&factor=8&"        \
      "attention_factor=1.2079441541679836&beta_fast=32&beta_slow=1&original_max_position_embeddings=8192")               \
    X("glm-4.5", "head_dim=128&rope_theta=1000000&partial_rotary_factor=0.5&max_position_embeddings=131072")              \
    X("smollm3-3b", "head_dim=128&rope_theta=5000000&max_position_embeddings=65536")                                      \
    X("starcoder2-7b", "head_dim=128&rope_theta=1000000&max_position_embeddings=16384")
/* clang-format on */

const char *const pe_rope_preset_words[] = {
#define X(word, query) word,
    PRESETS(X)
#undef X
        NULL
};
const char *const pe_rope_preset_queries[] = {
#define X(word, query) query,
    PRESETS(X)
#undef X
};

/* ---- which type reads what ---- */

#define ON(type) (1u << PE_ROPE_##type)
#define NTKS (ON(NTK) | ON(NTK_ALPHA))

/* Rows that not every type reads. `model`: it describes the model, and is welcome where it is not read. */
static const struct use {
    const char *row;
    uint32_t types;
    bool model;
} uses[] = {
    { "factor", ON(LINEAR) | ON(DYNAMIC) | ON(YARN) | ON(LONGROPE) | ON(LLAMA3) | ON(PROPORTIONAL) | ON(NTK), false },
    { "max_position_embeddings", ON(DYNAMIC), true },
    { "original_max_position_embeddings", ON(YARN) | ON(LONGROPE) | ON(LLAMA3), true },
    { "seq_len", ON(DYNAMIC) | ON(LONGROPE), true },
    { "attention_factor", ON(YARN) | ON(LONGROPE), false },
    { "beta_fast", ON(YARN), false },
    { "beta_slow", ON(YARN), false },
    { "mscale", ON(YARN), false },
    { "mscale_all_dim", ON(YARN), false },
    { "truncate", ON(YARN), false },
    { "short_factor", ON(LONGROPE), false },
    { "long_factor", ON(LONGROPE), false },
    { "low_freq_factor", ON(LLAMA3), false },
    { "high_freq_factor", ON(LLAMA3), false },
    { "alpha", ON(NTK_ALPHA), false },
    { "ntk_factor", ON(DEFAULT), false },
    { "linear_factor", ON(DEFAULT), false },
};

void pe_rope_preset(posenc_request *r, const char *query, posenc_error *err)
{
    const posenc_table *t = &r->encoding->table;
    for (const char *end; *query; query = end + (*end != 0)) {
        end = query + strcspn(query, "&");
        const char *value = strchr(query, '=') + 1;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(value - 1 - query), query);
        const posenc_param *row = posenc_row(t, name);
        if (row && !posenc_was_given(t, row, r->params))
            posenc_set_text(t, row, r->params, value, (size_t)(end - value), r->arena, err);
    }
    pe_mark(r, "preset", false);
}

static void refuse_int(posenc_error *err, const char *field, int64_t v, const char *allowed)
{
    pe_invalid(err, field, posenc_text("%lld", (long long)v), "%s", allowed);
}

static void refuse_real(posenc_error *err, const char *field, double v, const char *allowed)
{
    pe_invalid(err, field, posenc_text("%.17g", v), "%s", allowed);
}

/* "linear, yarn": the types of a mask. */
static posenc_short types_in(uint32_t mask)
{
    posenc_short s = { "" };
    for (size_t i = 0, n = 0; pe_rope_types[i]; i++)
        if (mask >> i & 1)
            n += (size_t)snprintf(s.s + n, sizeof s.s - n, "%s%s", n ? ", " : "", pe_rope_types[i]);
    return s;
}

static void missing(posenc_error *err, const char *field, const char *words)
{
    posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", field, "absent", "a value, it is required: %s", words);
}

static void check_head(posenc_request *r, pe_rope_params *p, posenc_given typed, posenc_error *err)
{
    const bool width = (typed & pe_bit(r, "hidden_size")) != 0, heads = (typed & pe_bit(r, "num_attention_heads")) != 0;
    if ((width || heads) && (typed & pe_bit(r, "head_dim"))) {
        pe_not_applicable(err, width ? "hidden_size" : "num_attention_heads", "given with head_dim", "one of the two");
    } else if (width != heads) {
        missing(err, width ? "num_attention_heads" : "hidden_size", "head_dim = hidden_size / num_attention_heads");
    } else if (width) {
        if (p->hidden_size % p->num_attention_heads || p->hidden_size / p->num_attention_heads > PE_ROPE_MAX_WIDTH)
            pe_invalid(err, "hidden_size", posenc_text("%lld", (long long)p->hidden_size),
                       "a multiple of num_attention_heads = %lld, at most %d times as much, or head_dim",
                       (long long)p->num_attention_heads, PE_ROPE_MAX_WIDTH);
        else
            p->head_dim = p->hidden_size / p->num_attention_heads;
    } else if (!pe_given(r, "head_dim")) {
        missing(err, "head_dim", "channels of a head, or hidden_size and num_attention_heads");
    }
    pe_mark(r, "hidden_size", false);
    pe_mark(r, "num_attention_heads", false);
    pe_mark(r, "head_dim", true);
}

static void check_width(const posenc_request *r, const pe_rope_params *p, posenc_error *err)
{
    const bool partial = pe_given(r, "partial_rotary_factor") && p->partial_rotary_factor != 1;
    const int64_t width = pe_rope_width(p), d = p->head_dim;
    if (p->rope_type == PE_ROPE_PROPORTIONAL || !partial) {
        if (d % 2)
            pe_invalid(err, "head_dim", posenc_text("%lld", (long long)d), "an even width, such as %lld", (long long)d + 1);
        return;
    }
    if (width >= 2 && width % 2 == 0)
        return;
    const int64_t even = width + width % 2 > 2 ? width + width % 2 : 2, near = even > d ? width - 1 : even;
    pe_invalid(err, "partial_rotary_factor", posenc_text("%.17g", p->partial_rotary_factor),
               "an even rotary width: int(%lld * partial_rotary_factor) is %lld, the nearest even width is %lld",
               (long long)d, (long long)width, (long long)near);
}

/* Refuses or drops what the type does not read. A value that a preset brought, or that changes nothing, goes quietly. */
static void check_uses(posenc_request *r, const pe_rope_params *p, posenc_given typed, posenc_error *err)
{
    for (size_t i = 0; i < PE_LEN(uses); i++) {
        const struct use *u = &uses[i];
        if (!pe_given(r, u->row) || u->types >> p->rope_type & 1 || u->model)
            continue;
        const posenc_param *row = posenc_row(&r->encoding->table, u->row);
        const void *value = (const char *)r->params + row->offset;
        const bool neutral = row->kind == PE_T_REAL && *(const double *)value == 1 &&
                             (!strcmp(u->row, "ntk_factor") || !strcmp(u->row, "linear_factor") ||
                              !strcmp(u->row, "factor"));
        if ((typed & pe_bit(r, u->row)) && !neutral)
            pe_not_applicable(err, u->row, posenc_text("given with rope_type=%s", pe_rope_types[p->rope_type]).s,
                              "only with rope_type one of: %s", types_in(u->types).s);
        pe_mark(r, u->row, false);
    }
}

/* ceil(log2(a / b)) for a > b, in integers. */
static int doublings(int64_t a, int64_t b)
{
    int k = 0;
    for (double reach = (double)b; reach < (double)a; reach *= 2)
        k++;
    return k;
}

static void default_real(posenc_request *r, const char *name, double *v, double def)
{
    if (!pe_given(r, name) || *v == 0)
        *v = def;
    pe_mark(r, name, true);
}

/* Lengths: each that is read is filled in, each that is not leaves the request. */
static void settle_lengths(posenc_request *r, pe_rope_params *p, const pe_rope_reach *reach, posenc_error *err)
{
    const int t = p->rope_type;
    const bool stairs = t == PE_ROPE_NTK_ALPHA && !pe_given(r, "alpha");
    const bool original = t == PE_ROPE_YARN || t == PE_ROPE_LONGROPE || t == PE_ROPE_LLAMA3 || stairs;
    const bool length = t == PE_ROPE_DYNAMIC || t == PE_ROPE_LONGROPE || stairs;
    const bool both = pe_given(r, "max_position_embeddings") && pe_given(r, "original_max_position_embeddings");
    if (!pe_given(r, "max_position_embeddings"))
        p->max_position_embeddings = 2048;
    if (!pe_given(r, "original_max_position_embeddings"))
        p->original_max_position_embeddings = p->max_position_embeddings;
    const bool derived = t == PE_ROPE_YARN || (t == PE_ROPE_LONGROPE && !pe_given(r, "attention_factor"));
    const bool half = t == PE_ROPE_YARN ? !both : !both && pe_given(r, "original_max_position_embeddings");
    if (derived && half && !pe_given(r, "factor")) {
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "factor", "absent",
                    "a value, it is required with rope_type=%s; or both max_position_embeddings and "
                    "original_max_position_embeddings: their quotient",
                    pe_rope_types[t]);
    } else if (derived && !pe_given(r, "factor")) {
        p->factor = (double)p->max_position_embeddings / (double)p->original_max_position_embeddings;
        if ((p->factor < 1 && t == PE_ROPE_YARN) || p->factor > 1e9)
            refuse_int(err, "original_max_position_embeddings", p->original_max_position_embeddings,
                       "1e-9 to 1 times max_position_embeddings, or a factor in 1 .. 1e9");
        p->factor = p->factor < 1 ? 1 : p->factor; /* longrope: nothing is extended */
        pe_mark(r, "factor", true);
    }
    if (length && !pe_given(r, "seq_len")) {
        const int64_t plain = t == PE_ROPE_DYNAMIC ? p->max_position_embeddings : p->original_max_position_embeddings;
        const double above = ceil(reach->last) + 1;
        p->seq_len = !reach->any ? plain : above < 1 ? 1 : above > 0x1p53 ? 1LL << 53 : (int64_t)above;
    }
    if (stairs) {
        const bool above = p->seq_len > p->original_max_position_embeddings;
        p->alpha = above ? ldexp(1, doublings(p->seq_len, p->original_max_position_embeddings) + 1) - 1 : 1;
        if (p->alpha > 1e9)
            refuse_int(err, "seq_len", p->seq_len, "at most 2^28 times original_max_position_embeddings");
        pe_mark(r, "alpha", true);
    }
    pe_mark(r, "max_position_embeddings", t == PE_ROPE_DYNAMIC);
    pe_mark(r, "original_max_position_embeddings", original && !stairs);
    pe_mark(r, "seq_len", length && !stairs);
}

static void check_list(const posenc_request *r, const char *name, const posenc_reals *l, size_t pairs, posenc_error *err)
{
    if (!pe_given(r, name))
        missing(err, name, "longrope divides every frequency by its own factor");
    else if (l->n != pairs)
        pe_invalid(err, name, posenc_text("%zu values", l->n), "%zu values, half the rotary width", pairs);
}

/* attention_factor and mscale say the same thing: a client may give one; over a preset's, its own wins. */
static void one_attention(posenc_request *r, pe_rope_params *p, posenc_given typed, posenc_error *err)
{
    if (!pe_given(r, "attention_factor") || !pe_given(r, "mscale"))
        return;
    if ((typed & pe_bit(r, "attention_factor")) && (typed & pe_bit(r, "mscale")))
        pe_not_applicable(err, "mscale", "given with attention_factor", "one of the two");
    if (typed & pe_bit(r, "mscale")) {
        pe_mark(r, "attention_factor", false);
    } else {
        pe_mark(r, "mscale", false);
        p->mscale = 0;
    }
}

static void check_type(posenc_request *r, pe_rope_params *p, posenc_given typed, posenc_error *err)
{
    const int t = p->rope_type;
    const char *type = pe_rope_types[t];
    const int64_t width = pe_rope_width(p);
    if ((ON(LINEAR) | ON(DYNAMIC) | ON(LLAMA3) | ON(NTK)) >> t & 1 && !pe_given(r, "factor"))
        missing(err, "factor", posenc_text("rope_type=%s scales by it", type).s);
    if ((t == PE_ROPE_DYNAMIC || t == PE_ROPE_YARN) && !(p->rope_theta > 1))
        refuse_real(err, "rope_theta", p->rope_theta, posenc_text("over 1 with rope_type=%s", type).s);
    if ((ON(DYNAMIC) | NTKS) >> t & 1 && width == 2)
        refuse_int(err, "head_dim", p->head_dim, posenc_text("a rotary width over 2: %s has the power r/(r-2)", type).s);
    if (t == PE_ROPE_PROPORTIONAL)
        default_real(r, "factor", &p->factor, 1);
    if (t == PE_ROPE_YARN) {
        default_real(r, "beta_fast", &p->beta_fast, 32);
        default_real(r, "beta_slow", &p->beta_slow, 1);
        if (p->beta_fast < p->beta_slow)
            pe_invalid(err, "beta_fast", posenc_text("%.17g", p->beta_fast), "at least beta_slow = %.17g", p->beta_slow);
        if (!pe_given(r, "truncate"))
            p->truncate = true;
        pe_mark(r, "truncate", true);
        one_attention(r, p, typed, err);
    }
    if (t == PE_ROPE_LONGROPE) {
        check_list(r, "short_factor", &p->short_factor, pe_rope_pairs(p), err);
        check_list(r, "long_factor", &p->long_factor, pe_rope_pairs(p), err);
        if (p->original_max_position_embeddings < 2 && p->factor > 1 && !pe_given(r, "attention_factor"))
            refuse_int(err, "original_max_position_embeddings", p->original_max_position_embeddings,
                       "at least 2, or attention_factor: its logarithm divides");
    }
    if (t == PE_ROPE_LLAMA3) {
        default_real(r, "low_freq_factor", &p->low_freq_factor, 1);
        default_real(r, "high_freq_factor", &p->high_freq_factor, 4);
        if (p->low_freq_factor > p->high_freq_factor)
            pe_invalid(err, "low_freq_factor", posenc_text("%.17g", p->low_freq_factor), "at most high_freq_factor = %.17g",
                       p->high_freq_factor);
    }
    if (t == PE_ROPE_DEFAULT) {
        default_real(r, "ntk_factor", &p->ntk_factor, 1);
        default_real(r, "linear_factor", &p->linear_factor, 1);
        pe_mark(r, "ntk_factor", p->ntk_factor != 1);
        pe_mark(r, "linear_factor", p->linear_factor != 1);
    }
}

/* The base as Python forms it, in float64. */
static double base_float64(const pe_rope_params *p)
{
    const double r = (double)pe_rope_width(p), f = p->factor;
    const int64_t max = p->max_position_embeddings, length = p->seq_len > max ? p->seq_len : max;
    switch ((pe_rope_type)p->rope_type) {
    case PE_ROPE_DEFAULT: return p->rope_theta * p->ntk_factor;
    case PE_ROPE_DYNAMIC: return p->rope_theta * pe_pow(f * (double)length / (double)max - (f - 1), r / (r - 2));
    case PE_ROPE_NTK: return p->rope_theta * pe_pow(f, r / (r - 2));
    case PE_ROPE_NTK_ALPHA: return p->rope_theta * pe_pow(p->alpha, r / (r - 2));
    default: return p->rope_theta;
    }
}

/* Every frequency, angle and product stays finite in the type it is formed and written in. A base below 1 and list
 * values below 1 raise frequencies over 1. */
static void check_range(const posenc_request *r, const pe_rope_params *p, const pe_rope_reach *reach, posenc_error *err)
{
    const posenc_reals *l = pe_rope_long(p) ? &p->long_factor : &p->short_factor;
    const double dtype_most = pe_dtype_largest((posenc_dtype)r->common.dtype);
    const bool lists = p->rope_type == PE_ROPE_LONGROPE;
    const double base = base_float64(p);
    double least = 1;
    for (size_t i = 0; lists && i < l->n; i++)
        least = l->v[i] < least ? l->v[i] : least;
    if (p->rope_type == PE_ROPE_DEFAULT)
        least = p->linear_factor < 1 ? p->linear_factor : 1;
    const double most = (base < 1 ? 1 / base : 1) / least, angle = most * (reach->farthest > 1 ? reach->farthest : 1);
    if (most < dtype_most && !(reach->single && angle > 1e37))
        return;
    posenc_fail(err, PE_INVALID, "INVALID_PARAMETER",
                base < 1 ? "rope_theta"
                : lists  ? (pe_rope_long(p) ? "long_factor" : "short_factor")
                         : "linear_factor",
                posenc_text("%.17g", base < 1 ? p->rope_theta : least).s,
                "a larger value: frequencies up to %.3g, finite in %s", dtype_most,
                posenc_dtype_name((posenc_dtype)r->common.dtype));
}

void pe_rope_check(posenc_request *r, pe_rope_params *p, posenc_given typed, const pe_rope_reach *reach, posenc_error *err)
{
    if (p->rope_type == PE_ROPE_DYNAMIC && pe_given(r, "alpha"))
        p->rope_type = PE_ROPE_NTK_ALPHA; /* HunYuan's spelling: alpha makes it static */
    const unsigned before = err->n;
    check_head(r, p, typed, err);
    check_uses(r, p, typed, err);
    if (err->n == before)
        check_width(r, p, err);
    settle_lengths(r, p, reach, err);
    if (err->n == before) /* the width is known */
        check_type(r, p, typed, err);
    if (err->n == before)
        check_range(r, p, reach, err);
}

bool pe_rope_last(const posenc_request *r, const pe_positions *at, double *last)
{
    const int64_t n = pe_positions_count(r, at);
    if (!n)
        return false;
    if (pe_positions_tokens(r, at)) {
        *last = pe_positions_largest(r, at);
    } else if (pe_given(r, "positions")) {
        *last = at->positions.v[0];
        for (int64_t i = 1; i < n; i++)
            *last = at->positions.v[i] > *last ? at->positions.v[i] : *last;
    } else {
        *last = (double)(at->offset + n - 1);
    }
    return true;
}

/* ---- numbers that follow ---- */

int64_t pe_rope_width(const pe_rope_params *p)
{
    return p->rope_type == PE_ROPE_PROPORTIONAL ? p->head_dim
                                                : (int64_t)((double)p->head_dim * p->partial_rotary_factor); /* as Python */
}

size_t pe_rope_pairs(const pe_rope_params *p) { return (size_t)pe_rope_width(p) / 2; }

bool pe_rope_long(const pe_rope_params *p)
{
    return p->rope_type == PE_ROPE_LONGROPE && p->seq_len > p->original_max_position_embeddings;
}

/* Pairs whose frequency is not 0. */
static size_t turning(const pe_rope_params *p)
{
    return p->rope_type == PE_ROPE_PROPORTIONAL ? (size_t)floor(p->partial_rotary_factor * (double)p->head_dim / 2)
                                                : pe_rope_pairs(p);
}

/* 0.1 k ln(factor) + 1 */
static pe_dd mscale(double factor, double k)
{
    if (factor <= 1)
        return (pe_dd){ 1, 0 };
    const pe_dd tenth = pe_dd_div(pe_two_prod(1, k), (pe_dd){ 10, 0 });
    return pe_dd_add(pe_dd_mul(pe_dd_log((pe_dd){ factor, 0 }), tenth), (pe_dd){ 1, 0 });
}

static pe_dd square_root(pe_dd a)
{
    const double x = sqrt(a.hi);
    const pe_dd square = pe_two_prod(x, x), rest = pe_dd_add(a, pe_dd_neg(square));
    return pe_fast_two_sum(x, rest.hi / (2 * x));
}

pe_dd pe_rope_attention(const posenc_request *r, const pe_rope_params *p)
{
    const pe_dd one = { 1, 0 };
    if (p->rope_type != PE_ROPE_YARN && p->rope_type != PE_ROPE_LONGROPE)
        return one;
    if (pe_given(r, "attention_factor"))
        return (pe_dd){ p->attention_factor, 0 };
    if (p->rope_type == PE_ROPE_YARN)
        return p->mscale > 0 && p->mscale_all_dim > 0
                   ? pe_dd_div(mscale(p->factor, p->mscale), mscale(p->factor, p->mscale_all_dim))
                   : mscale(p->factor, 1);
    if (p->factor <= 1)
        return one;
    const pe_dd original = { (double)p->original_max_position_embeddings, 0 };
    return square_root(pe_dd_add(one, pe_dd_div(pe_dd_log((pe_dd){ p->factor, 0 }), pe_dd_log(original))));
}

double pe_rope_softmax(const pe_rope_params *p)
{
    if (p->rope_type != PE_ROPE_YARN || !(p->mscale_all_dim > 0))
        return 1;
    const pe_dd m = mscale(p->factor, p->mscale_all_dim);
    return pe_dd_mul(m, m).hi;
}

double pe_rope_ns(const pe_rope_params *p, bool single)
{
    return 30e3 + (single ? 6000.0 : p->rope_type == PE_ROPE_DEFAULT ? 300.0 : 900.0) * (double)pe_rope_pairs(p);
}

/* ---- exact frequencies ---- */

/* As in exact.c: rung j + 1 is rung j times one ratio, whose error grows j-fold. */
enum { BITS = 256 };

/* ln(rope_theta'), the base that the type makes of rope_theta. */
static void log_base(const pe_rope_params *p, mpfr_t out)
{
    const double r = (double)pe_rope_width(p);
    mpfr_t grown;
    mpfr_init2(grown, BITS);
    mpfr_set_ui(grown, 1, MPFR_RNDN);
    if (p->rope_type == PE_ROPE_DYNAMIC) { /* factor (L - max) / max + 1 */
        const int64_t max = p->max_position_embeddings, longer = p->seq_len > max ? p->seq_len - max : 0;
        mpfr_set_si(grown, (long)longer, MPFR_RNDN);
        mpfr_mul_d(grown, grown, p->factor, MPFR_RNDN);
        mpfr_div_si(grown, grown, (long)max, MPFR_RNDN);
        mpfr_add_ui(grown, grown, 1, MPFR_RNDN);
    } else if (p->rope_type == PE_ROPE_NTK) {
        mpfr_set_d(grown, p->factor, MPFR_RNDN);
    } else if (p->rope_type == PE_ROPE_NTK_ALPHA) {
        mpfr_set_d(grown, p->alpha, MPFR_RNDN);
    }
    mpfr_log(grown, grown, MPFR_RNDN);
    mpfr_mul_d(grown, grown, r, MPFR_RNDN);
    if (r > 2)
        mpfr_div_d(grown, grown, r - 2, MPFR_RNDN);
    mpfr_set_d(out, p->rope_theta, MPFR_RNDN);
    if (p->rope_type == PE_ROPE_DEFAULT)
        mpfr_mul_d(out, out, p->ntk_factor, MPFR_RNDN);
    mpfr_log(out, out, MPFR_RNDN);
    mpfr_add(out, out, grown, MPFR_RNDN);
    mpfr_clear(grown);
}

/* r ln(original / (2 pi turns)) / (2 ln theta): the pair that turns so often over the original length. */
static void pair_of(const pe_rope_params *p, double turns, mpfr_t out)
{
    mpfr_t t;
    mpfr_init2(t, BITS);
    mpfr_const_pi(t, MPFR_RNDN);
    mpfr_mul_ui(t, t, 2, MPFR_RNDN);
    mpfr_mul_d(t, t, turns, MPFR_RNDN);
    mpfr_si_div(out, (long)p->original_max_position_embeddings, t, MPFR_RNDN);
    mpfr_log(out, out, MPFR_RNDN);
    mpfr_set_d(t, p->rope_theta, MPFR_RNDN);
    mpfr_log(t, t, MPFR_RNDN);
    mpfr_div(out, out, t, MPFR_RNDN);
    mpfr_mul_d(out, out, (double)pe_rope_width(p) / 2, MPFR_RNDN);
    mpfr_clear(t);
}

/* The ends of the ramp. The upper one is held at r - 1, not at the last pair r/2 - 1: so do the paper's code and all peers.
 */
static void band(const pe_rope_params *p, mpfr_t low, mpfr_t high)
{
    pair_of(p, p->beta_fast, low);
    pair_of(p, p->beta_slow, high);
    if (p->truncate) {
        mpfr_floor(low, low);
        mpfr_ceil(high, high);
    }
    if (mpfr_sgn(low) < 0)
        mpfr_set_zero(low, 1);
    if (mpfr_cmp_si(high, (long)pe_rope_width(p) - 1) > 0)
        mpfr_set_si(high, (long)pe_rope_width(p) - 1, MPFR_RNDN);
    if (mpfr_equal_p(low, high))
        mpfr_add_d(high, high, 0.001, MPFR_RNDN);
}

/* rung = (1 - g) rung + g rung / factor */
static void mix(mpfr_t rung, mpfr_t g, double factor)
{
    mpfr_t part;
    mpfr_init2(part, BITS);
    mpfr_mul(part, rung, g, MPFR_RNDN);
    mpfr_sub(rung, rung, part, MPFR_RNDN);
    mpfr_div_d(part, part, factor, MPFR_RNDN);
    mpfr_add(rung, rung, part, MPFR_RNDN);
    mpfr_clear(part);
}

typedef struct ladder {
    const pe_rope_params *p;
    size_t turning;         /* pairs that turn at all */
    const double *divisors; /* longrope's, else NULL */
    mpfr_t low, high, span, turns, g;
} ladder;

/* Scales rung j as the type says. */
static void scale_rung(ladder *l, size_t j, mpfr_t rung)
{
    const pe_rope_params *p = l->p;
    switch ((pe_rope_type)p->rope_type) {
    case PE_ROPE_DEFAULT: mpfr_div_d(rung, rung, p->linear_factor, MPFR_RNDN); break;
    case PE_ROPE_LINEAR: mpfr_div_d(rung, rung, p->factor, MPFR_RNDN); break;
    case PE_ROPE_PROPORTIONAL:
        if (j < l->turning)
            mpfr_div_d(rung, rung, p->factor, MPFR_RNDN);
        else
            mpfr_set_zero(rung, 1);
        break;
    case PE_ROPE_LONGROPE: mpfr_div_d(rung, rung, l->divisors[j], MPFR_RNDN); break;
    case PE_ROPE_YARN: /* the ramp from low to high */
        mpfr_ui_sub(l->g, (unsigned long)j, l->low, MPFR_RNDN);
        mpfr_div(l->g, l->g, l->span, MPFR_RNDN);
        if (mpfr_sgn(l->g) < 0)
            mpfr_set_zero(l->g, 1);
        if (mpfr_cmp_ui(l->g, 1) > 0)
            mpfr_set_ui(l->g, 1, MPFR_RNDN);
        mix(rung, l->g, p->factor);
        break;
    case PE_ROPE_LLAMA3: /* turns over the original length: few are divided, many kept */
        mpfr_mul(l->g, rung, l->turns, MPFR_RNDN);
        if (mpfr_cmp(l->g, l->low) < 0) {
            mpfr_div_d(rung, rung, p->factor, MPFR_RNDN);
        } else if (mpfr_cmp(l->g, l->high) < 0) {
            mpfr_sub(l->g, l->high, l->g, MPFR_RNDN);
            mpfr_div(l->g, l->g, l->span, MPFR_RNDN);
            mix(rung, l->g, p->factor);
        }
        break;
    case PE_ROPE_DYNAMIC:
    case PE_ROPE_NTK:
    case PE_ROPE_NTK_ALPHA: break; /* the base has it all */
    }
}

static void set_ladder(ladder *l, const pe_rope_params *p)
{
    l->p = p;
    l->turning = turning(p);
    l->divisors = p->rope_type != PE_ROPE_LONGROPE ? NULL : pe_rope_long(p) ? p->long_factor.v : p->short_factor.v;
    mpfr_inits2(BITS, l->low, l->high, l->span, l->turns, l->g, (mpfr_ptr)NULL);
    if (p->rope_type == PE_ROPE_YARN)
        band(p, l->low, l->high);
    if (p->rope_type == PE_ROPE_LLAMA3) {
        mpfr_set_d(l->low, p->low_freq_factor, MPFR_RNDN);
        mpfr_set_d(l->high, p->high_freq_factor, MPFR_RNDN);
        mpfr_const_pi(l->turns, MPFR_RNDN);
        mpfr_mul_ui(l->turns, l->turns, 2, MPFR_RNDN);
        mpfr_si_div(l->turns, (long)p->original_max_position_embeddings, l->turns, MPFR_RNDN);
    }
    if (p->rope_type == PE_ROPE_YARN || p->rope_type == PE_ROPE_LLAMA3)
        mpfr_sub(l->span, l->high, l->low, MPFR_RNDN);
}

static void free_ladder(ladder *l) { mpfr_clears(l->low, l->high, l->span, l->turns, l->g, (mpfr_ptr)NULL); }

static posenc_status exact(const pe_rope_params *p, pe_dd *w, const posenc_context *ctx)
{
    const size_t n = pe_rope_pairs(p);
    posenc_status st = PE_OK;
    ladder l;
    mpfr_t ratio, rung, t;
    mpfr_inits2(BITS, ratio, rung, t, (mpfr_ptr)NULL);
    set_ladder(&l, p);

    log_base(p, ratio);
    mpfr_mul_si(ratio, ratio, -2, MPFR_RNDN);
    mpfr_div_si(ratio, ratio, (long)pe_rope_width(p), MPFR_RNDN);
    mpfr_exp(ratio, ratio, MPFR_RNDN); /* theta'^(-2/r) */
    mpfr_set_ui(rung, 1, MPFR_RNDN);
    for (size_t j = 0; j < n; j++) {
        mpfr_set(t, rung, MPFR_RNDN);
        scale_rung(&l, j, t);
        w[j].hi = mpfr_get_d(t, MPFR_RNDN);
        mpfr_sub_d(t, t, w[j].hi, MPFR_RNDN);
        w[j].lo = mpfr_get_d(t, MPFR_RNDN);
        mpfr_mul(rung, rung, ratio, MPFR_RNDN);
        if (j % 2048 == 2047 && (st = posenc_poll(ctx)))
            break;
    }
    free_ladder(&l);
    mpfr_clears(ratio, rung, t, (mpfr_ptr)NULL);
    mpfr_free_cache(); /* constants are kept per thread otherwise */
    return st;
}

/* ---- frequencies as float32 peers form them ---- */

/* Steps of one pair after power = base^(2j/r); a / b of a number by a float32 is number * (1 / float32), as in PyTorch. */
static float scale_float32(const ladder *l, size_t j, float power, double low, double high)
{
    const pe_rope_params *p = l->p;
    const float inv = 1 / power, factor = (float)p->factor;
    switch ((pe_rope_type)p->rope_type) {
    case PE_ROPE_DEFAULT: return inv / (float)p->linear_factor;
    case PE_ROPE_LINEAR: return inv / factor;
    case PE_ROPE_PROPORTIONAL: return j < l->turning ? inv / factor : 0;
    case PE_ROPE_LONGROPE: return 1 / ((float)l->divisors[j] * power);
    case PE_ROPE_YARN: {
        float g = ((float)j - (float)low) / (float)(high - low);
        g = g < 0 ? 0 : g > 1 ? 1 : g;
        const float keep = 1 - g, slow = 1 / (factor * power);
        return slow * (1 - keep) + inv * keep;
    }
    case PE_ROPE_LLAMA3: {
        const double original = (double)p->original_max_position_embeddings;
        const float wave = 1 / inv * (float)pe_two_pi.hi;
        if (wave > (float)(original / p->low_freq_factor))
            return inv / factor;
        if (wave < (float)(original / p->high_freq_factor) || p->low_freq_factor == p->high_freq_factor)
            return inv;
        const float turns = 1 / wave * (float)original,
                    s = (turns - (float)p->low_freq_factor) / (float)(p->high_freq_factor - p->low_freq_factor);
        return (1 - s) * inv / factor + s * inv;
    }
    default: return inv;
    }
}

static posenc_status single_steps(const pe_rope_params *p, pe_dd *w, const posenc_context *ctx)
{
    const size_t n = pe_rope_pairs(p);
    const float base = (float)base_float64(p), width = (float)pe_rope_width(p);
    double low = 0, high = 1;
    posenc_status st = PE_OK;
    ladder l;
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)NULL);
    set_ladder(&l, p);
    if (p->rope_type == PE_ROPE_YARN) {
        low = mpfr_get_d(l.low, MPFR_RNDN);
        high = mpfr_get_d(l.high, MPFR_RNDN);
    }
    for (size_t j = 0; j < n; j++) {
        mpfr_set_flt(x, base, MPFR_RNDN);
        mpfr_set_flt(y, (float)(2 * j) / width, MPFR_RNDN);
        mpfr_pow(x, x, y, MPFR_RNDN);
        w[j] = (pe_dd){ (double)scale_float32(&l, j, mpfr_get_flt(x, MPFR_RNDN), low, high), 0 };
        if (j % 256 == 255 && (st = posenc_poll(ctx)))
            break;
    }
    free_ladder(&l);
    mpfr_clears(x, y, (mpfr_ptr)NULL);
    mpfr_free_cache();
    return st;
}

posenc_status pe_rope_frequencies(const pe_rope_params *p, bool single, pe_dd *w, const posenc_context *ctx)
{
    return single ? single_steps(p, w, ctx) : exact(p, w, ctx);
}

/* ---- cosines and sines ---- */

posenc_status pe_rope_turn(const pe_dd *w, size_t n, double position, pe_dd attention, bool single, double *cosine,
                           double *sine, pe_pace *pace)
{
    enum { BLOCK = 64, STEPS = 20 }; /* about nanoseconds a pair */
    const bool plain = attention.hi == 1 && attention.lo == 0;
    pe_dd angle[BLOCK];
    posenc_status st;
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t some = n - first < BLOCK ? n - first : BLOCK;
        double *c = cosine + first, *s = sine + first;
        for (size_t i = 0; single && i < some; i++)
            angle[i] = (pe_dd){ (double)((float)w[first + i].hi * (float)position), 0 };
        if (single)
            pe_sincos(angle, some, s, c);
        else
            pe_sincos_times(w + first, some, position, s, c);
        for (size_t i = 0; single && i < some; i++) {
            c[i] = (double)((float)c[i] * (float)attention.hi);
            s[i] = (double)((float)s[i] * (float)attention.hi);
        }
        for (size_t i = 0; !single && !plain && i < some; i++) {
            c[i] = pe_dd_times(attention, c[i]).hi;
            s[i] = pe_dd_times(attention, s[i]).hi;
        }
        if ((st = pe_pace_add(pace, (int64_t)some * STEPS)))
            return st;
    }
    return pe_pace_add(pace, 100);
}

static bool fast(const posenc_request *r, bool single) { return !single && r->common.dtype != PE_float64; }

uint64_t pe_rope_spin_size(const posenc_request *r, const pe_rope_params *p, bool single)
{
    return fast(r, single) ? pe_rotor_size(turning(p)) : 0;
}

pe_rope_spin pe_rope_spin_begin(const posenc_request *r, const pe_rope_params *p, bool single, const pe_dd *w, void *storage)
{
    pe_rope_spin s = { .w = w,
                       .pairs = pe_rope_pairs(p),
                       .turning = turning(p),
                       .attention = pe_rope_attention(r, p),
                       .single = single,
                       .fast = fast(r, single) };
    if (s.fast)
        s.rotor = pe_rotor_begin(w, s.turning, storage);
    return s;
}

posenc_status pe_rope_spin_row(pe_rope_spin *s, double position, double *cosine, double *sine, pe_pace *pace)
{
    if (!s->fast)
        return pe_rope_turn(s->w, s->pairs, position, s->attention, s->single, cosine, sine, pace);
    posenc_status st = pe_rotor_row(&s->rotor, position, sine, cosine, pace);
    if (st)
        return st;
    for (size_t j = s->turning; j < s->pairs; j++) {
        cosine[j] = 1;
        sine[j] = 0;
    }
    for (size_t j = 0; j < s->pairs && s->attention.hi != 1; j++) {
        cosine[j] *= s->attention.hi;
        sine[j] *= s->attention.hi;
    }
    return pe_pace_add(pace, 60 + (int64_t)s->pairs * 2);
}

double pe_rope_spin_ns(const posenc_request *r, const pe_rope_params *p, bool single)
{
    return 30 + (fast(r, single) ? 2.2 : 7) * (double)pe_rope_pairs(p);
}

void pe_rope_lay(pe_rope_layout l, size_t n, const double *pair, double *row)
{
    memcpy(row, pair, n * sizeof *row);
    if (l == PE_ROPE_HALF)
        memcpy(row + n, pair, n * sizeof *row);
    else if (l == PE_ROPE_INTERLEAVED)
        pe_zip(pair, pair, n, row);
}

void pe_rope_write(pe_rope_layout l, size_t n, const double *pair, double *row, posenc_tensor *to, int64_t index)
{
    const size_t size = n * posenc_dtype_size(to->dtype);
    char *dst = (char *)to->data + (size_t)index * size * (pe_rope_once(l) ? 1 : 2);
    if (l == PE_ROPE_INTERLEAVED) {
        pe_zip(pair, pair, n, row);
        posenc_convert(to->dtype, dst, row, 2 * n);
        return;
    }
    posenc_convert(to->dtype, dst, pair, n);
    if (l == PE_ROPE_HALF)
        memcpy(dst + size, dst, size);
}

bool pe_rope_spin_straight(const pe_rope_spin *s)
{
    return s->fast && s->turning == s->pairs && pe_rotor_scales(s->attention.hi);
}

pe_rotor_place pe_rope_spin_place(const pe_rope_spin *s, pe_rope_layout l, posenc_dtype dtype, void *cosines, void *sines)
{
    const size_t size = s->pairs * posenc_dtype_size(dtype);
    return (pe_rotor_place){
        .dtype = dtype,
        .first = sines,
        .second = cosines,
        .step = pe_rope_once(l) ? size : 2 * size,
        .again = l == PE_ROPE_HALF ? size : 0,
        .twice = l == PE_ROPE_INTERLEAVED,
        .scale = s->attention.hi == 1 ? 0 : s->attention.hi,
    };
}

/* ---- outputs ---- */

posenc_status pe_rope_shape(const posenc_request *r, const pe_rope_params *p, posenc_result *out, posenc_error *err)
{
    const int64_t one = 1, pairs = (int64_t)pe_rope_pairs(p);
    posenc_status st = pe_output(out, "inv_freq", (posenc_dtype)r->common.dtype, 1, &pairs, err);
    st = st ? st : pe_output(out, "attention_factor", PE_float64, 1, &one, err);
    st = st ? st : pe_output(out, "softmax_scale_multiplier", PE_float64, 1, &one, err);
    return st || p->rope_type != PE_ROPE_LONGROPE ? st : pe_output(out, "long_factor_used", PE_int64, 1, &one, err);
}

void pe_rope_fill(const posenc_request *r, const pe_rope_params *p, const pe_dd *w, double *row, posenc_result *out)
{
    const size_t n = pe_rope_pairs(p);
    const posenc_tensor *inv_freq = pe_tensor(out, "inv_freq");
    for (size_t j = 0; j < n; j++)
        row[j] = w[j].hi;
    posenc_convert(inv_freq->dtype, inv_freq->data, row, n);
    *(double *)pe_tensor(out, "attention_factor")->data = pe_rope_attention(r, p).hi;
    *(double *)pe_tensor(out, "softmax_scale_multiplier")->data = pe_rope_softmax(p);
    if (p->rope_type == PE_ROPE_LONGROPE)
        *(int64_t *)pe_tensor(out, "long_factor_used")->data = pe_rope_long(p);
    if (pe_rope_long(p))
        pe_warn(out,
                "long_factor is used: seq_len %lld is above original_max_position_embeddings %lld; shorter tables have "
                "other frequencies, so keys cached with them do not fit",
                (long long)p->seq_len, (long long)p->original_max_position_embeddings);
}

/* ---- turning vectors ---- */

const char *const pe_rope_orders[] = { "head_position_dim", "position_head_dim", NULL };

/* Where the first channels of pairs j, j + 1, ... start, and the second ones if they do not lie between. */
PE_BODY void take_pairs(const double *x, size_t pairs, size_t j, bool zipped, pe_lanes *x1, pe_lanes *x2)
{
    if (zipped) {
        pe_lanes low, high;
        PE_LOAD(low, x + 2 * j, PE_LANES);
        PE_LOAD(high, x + 2 * j + PE_LANES, PE_LANES);
        *x1 = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
        *x2 = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
    } else {
        PE_LOAD(*x1, x + j, PE_LANES);
        PE_LOAD(*x2, x + pairs + j, PE_LANES);
    }
}

PE_BODY void put_pairs(double *y, size_t pairs, size_t j, bool zipped, const pe_lanes *y1, const pe_lanes *y2)
{
    if (zipped) {
        const pe_lanes low = __builtin_shufflevector(*y1, *y2, 0, 8, 1, 9, 2, 10, 3, 11);
        const pe_lanes high = __builtin_shufflevector(*y1, *y2, 4, 12, 5, 13, 6, 14, 7, 15);
        PE_STORE(y + 2 * j, low, PE_LANES);
        PE_STORE(y + 2 * j + PE_LANES, high, PE_LANES);
    } else {
        PE_STORE(y + j, *y1, PE_LANES);
        PE_STORE(y + pairs + j, *y2, PE_LANES);
    }
}

PE_BODY void turn_pairs_body(const pe_rope_turner *t, const double *c, const double *s, const double *c2, const double *s2,
                             const double *x, double *y)
{
    const bool in = pe_rope_interleaved(t->in), out = pe_rope_interleaved(t->out);
    const size_t n = t->pairs;
    size_t j = 0;
    for (; j + PE_LANES <= n; j += PE_LANES) {
        pe_lanes x1, x2, a, b, d, e, y1, y2;
        take_pairs(x, n, j, in, &x1, &x2);
        PE_LOAD(a, c + j, PE_LANES);
        PE_LOAD(b, s + j, PE_LANES);
        PE_LOAD(d, c2 + j, PE_LANES);
        PE_LOAD(e, s2 + j, PE_LANES);
        if (t->single) {
            const pe_floats f1 = __builtin_convertvector(x1, pe_floats), f2 = __builtin_convertvector(x2, pe_floats);
            const pe_floats first = f1 * __builtin_convertvector(a, pe_floats) - f2 * __builtin_convertvector(b, pe_floats);
            const pe_floats second = f2 * __builtin_convertvector(d, pe_floats) + f1 * __builtin_convertvector(e, pe_floats);
            y1 = __builtin_convertvector(first, pe_lanes);
            y2 = __builtin_convertvector(second, pe_lanes);
        } else {
            y1 = x1 * a - x2 * b;
            y2 = x2 * d + x1 * e;
        }
        put_pairs(y, n, j, out, &y1, &y2);
    }
    for (; j < n; j++) {
        const double x1 = x[pe_rope_first(t->in, j)], x2 = x[pe_rope_second(t->in, n, j)];
        double *y1 = &y[pe_rope_first(t->out, j)], *y2 = &y[pe_rope_second(t->out, n, j)];
        if (t->single) {
            const float f1 = (float)x1, f2 = (float)x2;
            const float a = f1 * (float)c[j], b = f2 * (float)s[j], d = f2 * (float)c2[j], e = f1 * (float)s2[j];
            *y1 = (double)(a - b);
            *y2 = (double)(d + e);
        } else {
            *y1 = x1 * c[j] - x2 * s[j];
            *y2 = x2 * c2[j] + x1 * s2[j];
        }
    }
}

PE_KERNEL(turn_pairs, turn_pairs_body,
          (const pe_rope_turner *t, const double *c, const double *s, const double *c2, const double *s2, const double *x,
           double *y),
          (t, c, s, c2, s2, x, y))

void pe_rope_vector(const pe_rope_turner *t, const double *c, const double *s, const double *c2, const double *s2,
                    const double *x, double *out)
{
    const size_t end = t->start + 2 * t->pairs;
    memcpy(out, x, t->start * sizeof *x);
    memcpy(out + end, x + end, (t->head_dim - end) * sizeof *x);
    turn_pairs_paths[pe_simd()](t, c, s, c2, s2, x + t->start, out + t->start);
}

void pe_rope_turn_vector(const pe_rope_turner *t, const double *c, const double *s, const double *c2, const double *s2,
                         const posenc_tensor *from, const posenc_tensor *to, int64_t vector, double *before, double *after)
{
    const size_t d = t->head_dim;
    pe_tensor_read(from, vector * (int64_t)d, d, before);
    pe_rope_vector(t, c, s, c2, s2, before, after);
    posenc_convert(to->dtype, (char *)to->data + (size_t)vector * d * posenc_dtype_size(to->dtype), after, d);
}

pe_rope_axes pe_rope_axes_of(const posenc_tensor *t, int order)
{
    const int64_t *end = t->shape + t->rank - 1; /* head_dim */
    pe_rope_axes a = { .batch = t->rank > 3 ? t->shape[0] : 1, .heads = 1 };
    if (order == PE_HEAD_POSITION_DIM) {
        a.positions = end[-1];
        a.heads = t->rank > 2 ? end[-2] : 1;
        a.of_position = 1;
        a.of_head = a.positions;
    } else {
        a.positions = end[-2];
        a.heads = end[-1];
        a.of_position = a.heads;
        a.of_head = 1;
    }
    a.of_batch = a.positions * a.heads;
    return a;
}

bool pe_rope_heads(const posenc_tensor *t, int order, const posenc_tensor *tokens, int64_t positions, int64_t head_dim,
                   posenc_error *err)
{
    const bool first = order == PE_HEAD_POSITION_DIM, batched = tokens && tokens->rank == 2;
    const int64_t n = batched ? tokens->shape[1] : positions, b = batched ? tokens->shape[0] : -1;
    const int64_t two[] = { n, head_dim }, three[] = { first ? -1 : n, first ? n : -1, head_dim },
                  four[] = { b, three[0], three[1], head_dim };
    posenc_short words = posenc_text(first ? "[%sheads, %lld, %lld]%s" : "[%s%lld, heads, %lld]%s", batched ? "B, " : "",
                                     (long long)n, (long long)head_dim, batched ? ", B as the tokens" : ", or with a batch");
    if (first && !batched && t->rank == 2)
        return pe_tensor_shaped(t, 2, two, words.s, err);
    if (!batched && t->rank == 3)
        return pe_tensor_shaped(t, 3, three, words.s, err);
    return pe_tensor_shaped(t, 4, four, words.s, err);
}

double pe_rope_most(posenc_dtype dtype, bool single, double attention)
{
    const double most = pe_dtype_largest(dtype == PE_float64 && single ? PE_float32 : dtype);
    return most / (1.5 * (attention > 1 ? attention : 1)); /* the sum of two channels: sqrt(2) times one at most */
}

bool pe_rope_fits(const posenc_request *r, const pe_rope_params *p, bool single, const posenc_tensor *t, posenc_error *err)
{
    const double most = pe_rope_most((posenc_dtype)r->common.dtype, single, pe_rope_attention(r, p).hi);
    return pe_tensor_within(t, -most, most, posenc_text("at most %.3g, so that the result is finite", most).s, err);
}
