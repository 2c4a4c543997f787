/* test_rope.c - every type of scaling against MPFR; the numbers of known complaints; layouts, keys, presets, bad input. */
#include "ask.h"

#include <math.h>
#include <mpfr.h>

Suite *rope_suite(void);

static posenc_answer answer_of(const char *query) { return ask("rope", query); }

static void near(double got, double want, double relative, const char *what)
{
    ck_assert_msg(fabs(got - want) <= relative * fabs(want), "%s is %.17g, want %.17g", what, got, want);
}

/* ---- complaints that users of other implementations had, with their numbers ---- */

static const struct {
    const char *query, *output;
    int64_t i;
    double want, relative;
} complaints[] = {
    /* dynamic: the length alone decides, whatever was asked before (the loop below asks in this order) */
    { "head_dim=64&max_position_embeddings=4096&rope_type=dynamic&factor=4&seq_len=16384", "inv_freq", 31, 1.02579e-5,
      5e-6 },
    { "head_dim=64&max_position_embeddings=4096&rope_type=dynamic&factor=4&seq_len=4096", "inv_freq", 31, 1.33352e-4, 4e-6 },
    { "head_dim=64&max_position_embeddings=4096&rope_type=dynamic&factor=4&seq_len=8192", "inv_freq", 31, 2.66704e-5, 4e-6 },
    { "head_dim=64&max_position_embeddings=4096&rope_type=dynamic&factor=4&seq_len=16384", "inv_freq", 31, 1.02579e-5,
      5e-6 },
    { "head_dim=64&max_position_embeddings=4096&rope_type=dynamic&factor=4&seq_len=1", "inv_freq", 31, 1.33352e-4, 4e-6 },
    { "head_dim=64&max_position_embeddings=4096&rope_type=dynamic&factor=4", "inv_freq", 31, 1.33352e-4, 4e-6 },
    /* gpt-oss: the band is not rounded to whole pairs */
    { "preset=gpt-oss-20b", "inv_freq", 12, 0.00679496, 1e-6 },
    { "preset=gpt-oss-20b", "attention_factor", 0, 1.3465736, 1e-8 },
    { "preset=gpt-oss-20b", "softmax_scale_multiplier", 0, 1, 0 },
    { "preset=deepseek-v3", "attention_factor", 0, 1, 0 },
    { "preset=deepseek-v3", "softmax_scale_multiplier", 0, 1.8738542, 1e-8 },
    { "preset=deepseek-v2", "softmax_scale_multiplier", 0, 1.5896, 1e-4 },
    { "preset=llama-3.1-8b", "inv_freq", 30, 0.00137189, 4e-6 },
    { "preset=llama-3.1-8b", "inv_freq", 63, 3.06893e-7, 4e-6 },
    { "preset=phi-4-mini", "attention_factor", 0, 1.1902380714238083, 1e-15 },
    { "preset=phi-3-vision-128k", "attention_factor", 0, 1.190238, 1e-6 },
    { "preset=olmo-3.1-32b-full", "attention_factor", 0, 1.2079441541679836, 0 },
    { "preset=olmo-3.1-32b-full&mscale=2", "attention_factor", 0, 1.2079441541679836, 1e-15 },
    { "preset=deepseek-v3&attention_factor=1.5", "attention_factor", 0, 1.5, 0 },
    /* one of the pair alone, or 0, is as none: 0.1 ln(factor) + 1 */
    { "head_dim=64&rope_type=yarn&factor=64&mscale=1&mscale_all_dim=0&original_max_position_embeddings=4096",
      "attention_factor", 0, 1.4158883083359672, 1e-15 },
    { "head_dim=64&rope_type=yarn&factor=40&mscale=0.707", "attention_factor", 0, 1.3688879454113936, 1e-15 },
    { "head_dim=64&rope_type=yarn&factor=1", "attention_factor", 0, 1, 0 },
    { "head_dim=16&rope_type=longrope&short_factor=1,1,1,1,1,1,1,1&long_factor=2,2,2,2,2,2,2,2&factor=1", "attention_factor",
      0, 1, 0 },
    /* 0 is a value: not the same as none */
    { "head_dim=64&rope_type=yarn&factor=40&attention_factor=0", "attention_factor", 0, 0, 0 },
    /* int() cuts the double product: 100 * 0.29 = 28.999999999999996 */
    { "head_dim=100&partial_rotary_factor=0.29", "inv_freq", 13, 0.00019306977288832496, 1e-7 },
    { "head_dim=192&partial_rotary_factor=0.334", "inv_freq", 31, 1.3335214321633241e-4, 1e-7 },
    { "hidden_size=4096&num_attention_heads=32", "inv_freq", 63, 1.1547819846894582e-4, 1e-7 },
    { "preset=llama-3.1-8b&hidden_size=2048&num_attention_heads=32&rope_type=default&rope_theta=10000", "inv_freq", 31,
      1.3335214321633241e-4, 1e-7 },
    { "head_dim=64&rope_theta=1", "inv_freq", 31, 1, 0 },
};

START_TEST(known_complaints)
{
    for (size_t k = 0; k < LEN(complaints); k++) {
        posenc_answer a = answer_of(complaints[k].query);
        near(named(&a, complaints[k].output, complaints[k].i), complaints[k].want, complaints[k].relative,
             complaints[k].query);
        ck_assert_ptr_null(tensor_of(&a, "cos"));
        posenc_answer_fini(&a);
    }
}
END_TEST

/* gpt-oss: pair 12 lies at (12 - low) / (high - low) of the band; low and high from it and its neighbour. */
START_TEST(band_of_gpt_oss)
{
    posenc_answer a = answer_of("preset=gpt-oss-20b&dtype=float64"),
                  b = answer_of("head_dim=64&rope_theta=150000&dtype=float64");
    double g[2];
    for (int j = 0; j < 2; j++)
        g[j] = (1 - named(&a, "inv_freq", 12 + j) / named(&b, "inv_freq", 12 + j)) * 32 / 31;
    const double span = 1 / (g[1] - g[0]), low = 12 - g[0] * span;
    near(low, 8.092779, 1e-7, "low");
    near(low + span, 17.398025, 1e-7, "high");
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* The upper end of the band is held at r - 1 = 15, not at the last pair 7: high = 10 here, so that pair 7 is a mixture. */
START_TEST(band_is_held_at_width)
{
    posenc_answer a = answer_of("head_dim=16&rope_theta=10&rope_type=yarn&factor=2&original_max_position_embeddings=100&"
                                "beta_fast=4&beta_slow=1&dtype=float64"),
                  b = answer_of("head_dim=16&rope_theta=10&dtype=float64");
    const double low = floor(16 * log(100 / (8 * M_PI)) / (2 * log(10))),
                 high = ceil(16 * log(100 / (2 * M_PI)) / (2 * log(10)));
    ck_assert(low == 4 && high == 10);
    for (int j = 0; j < 8; j++) {
        const double g = j < 4 ? 0 : (j - low) / (high - low), plain = named(&b, "inv_freq", j);
        near(named(&a, "inv_freq", j), plain * (g / 2 + 1 - g), 1e-15, "mixture");
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

#define LISTS \
    "head_dim=8&rope_type=longrope&short_factor=1,2,3,4&long_factor=5,6,7,8&original_max_position_embeddings=4096&factor=4"

/* The long list from one above the original length on; the answer says which. */
START_TEST(which_list)
{
    static const struct {
        const char *more;
        int used;
    } lengths[] = {
        { "", 0 },
        { "seq_len=4096", 0 },
        { "seq_len=4097", 1 },
        { "positions=4095", 0 },
        { "positions=4096", 1 },
        { "positions=4095.5", 1 },
        { "positions=-100000,7", 0 },
        { "num_positions=4096", 0 },
        { "num_positions=1&offset=4096", 1 },
        { "num_positions=0&offset=5000", 0 },
        { "positions=9999&seq_len=10", 0 },
        { "positions=1&seq_len=5000", 1 },
        { "input_ids=[[7,7]]&past_key_values_length=4094", 0 },
        { "input_ids=[[7,7]]&past_key_values_length=4095", 1 },
    };
    for (size_t i = 0; i < LEN(lengths); i++) {
        char query[400];
        snprintf(query, sizeof query, LISTS "&%s", lengths[i].more);
        posenc_answer a = answer_of(query);
        ck_assert_msg(named(&a, "long_factor_used", 0) == lengths[i].used, "%s", query);
        near(named(&a, "inv_freq", 0), lengths[i].used ? 0.2 : 1, 1e-7, query);
        ck_assert_int_eq(a.result.nwarnings, lengths[i].used);
        posenc_answer_fini(&a);
    }
    posenc_answer a = answer_of("head_dim=8");
    ck_assert_ptr_null(tensor_of(&a, "long_factor_used"));
    posenc_answer_fini(&a);
}
END_TEST

/* Qwen's stairs: alpha doubles and one with every doubling of the length. */
START_TEST(stairs)
{
    static const struct {
        int length, alpha;
    } steps[] = { { 1, 1 }, { 1024, 1 }, { 2048, 1 }, { 2049, 3 }, { 4096, 3 }, { 4097, 7 }, { 8192, 7 }, { 8193, 15 } };
    for (size_t i = 0; i < LEN(steps); i++) {
        char one[200], two[200];
        snprintf(one, sizeof one, "head_dim=128&rope_type=ntk_alpha&original_max_position_embeddings=2048&seq_len=%d",
                 steps[i].length);
        snprintf(two, sizeof two, "head_dim=128&rope_type=dynamic&alpha=%d", steps[i].alpha);
        posenc_answer a = answer_of(one), b = answer_of(two);
        ck_assert_str_eq(a.request.digest, b.request.digest);
        near(named(&a, "inv_freq", 63), pow(10000 * pow(steps[i].alpha, 128.0 / 126), -126.0 / 128), 1e-7, one);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

START_TEST(bfloat16_is_rounded_last)
{
    posenc_answer a = answer_of("head_dim=32&positions=1857&dtype=float64"),
                  b = answer_of("head_dim=32&positions=1857&dtype=bfloat16");
    ck_assert(fabs(named(&a, "cos", 1) - 0.30669) < 5e-6);
    ck_assert_int_eq(tensor_of(&b, "inv_freq")->dtype, PE_bfloat16);
    ck_assert_int_eq(tensor_of(&b, "attention_factor")->dtype, PE_float64);
    for (int i = 0; i < 32; i++) {
        const double exact = named(&a, "cos", i);
        ck_assert(fabs(named(&b, "cos", i) - exact) <= ldexp(1, ilogb(exact) - 8));
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* ---- layouts, positions, tokens ---- */

START_TEST(layouts)
{
    static const struct {
        const char *word;
        int columns, pair[6];
    } ways[] = {
        { "half", 6, { 0, 1, 2, 0, 1, 2 } },
        { "interleaved", 6, { 0, 0, 1, 1, 2, 2 } },
        { "half_unduplicated", 3, { 0, 1, 2 } },
        { "interleaved_unduplicated", 3, { 0, 1, 2 } },
    };
    static const double positions[] = { 0, 1, -5, 2.5, 1000 };
    for (size_t k = 0; k < LEN(ways); k++) {
        char query[200];
        snprintf(query, sizeof query,
                 "head_dim=12&partial_rotary_factor=0.5&positions=0,1,-5,2.5,1000&dtype=float64&layout=%s", ways[k].word);
        posenc_answer a = answer_of(query);
        ck_assert_int_eq(tensor_of(&a, "cos")->shape[0], 5);
        ck_assert_int_eq(tensor_of(&a, "cos")->shape[1], ways[k].columns);
        for (int i = 0; i < 5; i++)
            for (int c = 0; c < ways[k].columns; c++) {
                const double angle = positions[i] * pow(10000, -ways[k].pair[c] / 3.0);
                ck_assert(fabs(named(&a, "cos", i * ways[k].columns + c) - cos(angle)) < 1e-13);
                ck_assert(fabs(named(&a, "sin", i * ways[k].columns + c) - sin(angle)) < 1e-13);
                ck_assert(i || (named(&a, "cos", c) == 1 && named(&a, "sin", c) == 0));
            }
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(tokens)
{
    posenc_answer a = answer_of("head_dim=4&input_ids=[[5,6,1],[7,1,8]]&padding_idx=1"),
                  b = answer_of("head_dim=4&positions=2,3,1,2,1,3");
    ck_assert_int_eq(tensor_of(&a, "cos")->rank, 3);
    ck_assert_int_eq(tensor_of(&a, "positions")->dtype, PE_int64);
    ck_assert_mem_eq(tensor_of(&a, "cos")->data, tensor_of(&b, "cos")->data, 24 * sizeof(float));
    ck_assert_mem_eq(tensor_of(&a, "sin")->data, tensor_of(&b, "sin")->data, 24 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    a = answer_of("head_dim=4&num_positions=0");
    ck_assert(tensor_of(&a, "cos")->shape[0] == 0 && tensor_of(&a, "cos")->shape[1] == 4);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(proportional)
{
    posenc_answer a = answer_of(
        "head_dim=64&rope_type=proportional&partial_rotary_factor=0.5&factor=2&num_positions=2&dtype=float64");
    ck_assert_int_eq(tensor_of(&a, "inv_freq")->shape[0], 32);
    ck_assert_int_eq(tensor_of(&a, "cos")->shape[1], 64);
    for (int j = 0; j < 32; j++)
        near(named(&a, "inv_freq", j), j < 16 ? pow(10000, -2 * j / 64.0) / 2 : 0, 1e-14, "inv_freq");
    ck_assert(named(&a, "cos", 64 + 16) == 1 && named(&a, "sin", 64 + 16) == 0);
    posenc_answer_fini(&a);
    a = answer_of("head_dim=32&rope_type=proportional&partial_rotary_factor=0");
    for (int j = 0; j < 16; j++)
        ck_assert(named(&a, "inv_freq", j) == 0);
    posenc_answer_fini(&a);
}
END_TEST

/* float32 step by step, as the peer: the frequency, the product, the cosine and its factor are each rounded. */
START_TEST(float32_steps)
{
    posenc_answer a = answer_of(
                      "head_dim=64&rope_theta=500000&positions=1000003,16777217&compute_dtype=float32&dtype=float64"),
                  b = answer_of("preset=gpt-oss-20b&positions=100003&compute_dtype=float32&dtype=float64");
    for (int j = 0; j < 32; j++) {
        const float inv = 1 / (float)pow(500000, (double)((float)(2 * j) / 64));
        ck_assert(named(&a, "inv_freq", j) == (double)inv);
        ck_assert(named(&a, "cos", j) == (double)(float)cos((double)(inv * 1000003.0f)));
        ck_assert(named(&a, "sin", 64 + j) == (double)(float)sin((double)(inv * 16777216.0f)));
        const float w = (float)named(&b, "inv_freq", j), factor = (float)named(&b, "attention_factor", 0);
        ck_assert(named(&b, "cos", j) == (double)((float)cos((double)(w * 100003.0f)) * factor));
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    static const char *const types[] = { "preset=llama-3.1-8b",
                                         "preset=gpt-oss-20b",
                                         "preset=phi-3-vision-128k",
                                         "preset=gemma-3-4b-global",
                                         "preset=qwen-1.8b",
                                         "preset=phi-3-vision-128k&seq_len=9999",
                                         "preset=gemma-4-e2b-global",
                                         "head_dim=64&rope_type=dynamic&factor=3&seq_len=5000",
                                         "head_dim=64&rope_type=ntk&factor=3",
                                         "head_dim=64&ntk_factor=2&linear_factor=1.5" };
    for (size_t k = 0; k < LEN(types); k++) {
        char query[200];
        snprintf(query, sizeof query, "%s&compute_dtype=float32&dtype=float64", types[k]);
        posenc_answer f = answer_of(query);
        snprintf(query, sizeof query, "%s&dtype=float64", types[k]);
        posenc_answer e = answer_of(query);
        for (int64_t j = 0; j < tensor_of(&f, "inv_freq")->shape[0]; j++) {
            const double w = named(&f, "inv_freq", j);
            near(w, named(&e, "inv_freq", j), 1e-6, query);
            ck_assert(w == (double)(float)w);
        }
        posenc_answer_fini(&f);
        posenc_answer_fini(&e);
    }
}
END_TEST

/* ---- against MPFR ---- */

enum { HIGH = 300 };

/* What a query asks for, as plain numbers; `type` is its rope_type's first two letters. */
typedef struct model {
    const char *query, *type;
    double theta, factor;
    int width;
    double a, b, original, attention; /* yarn, llama3: the two ends; 0: none. attention: exactly that, or -1: derived */
} model;

static const model models[] = {
    { "head_dim=128", "de", 10000, 1, 128, 0, 0, 0, 1 },
    { "head_dim=128&rope_theta=500000", "de", 500000, 1, 128, 0, 0, 0, 1 },
    { "head_dim=64&rope_theta=0.01", "de", 0.01, 1, 64, 0, 0, 0, 1 },
    { "head_dim=128&rope_theta=1000000&rope_type=linear&factor=3", "li", 1e6, 3, 128, 0, 0, 0, 1 },
    { "head_dim=64&rope_type=dynamic&factor=3&max_position_embeddings=3000&seq_len=7001", "dy", 10000, 3, 64, 7001, 3000, 0,
      1 },
    { "head_dim=64&rope_type=ntk&factor=3", "nt", 10000, 3, 64, 0, 0, 0, 1 },
    { "head_dim=128&rope_type=ntk_alpha&alpha=1000", "nt", 10000, 1000, 128, 0, 0, 0, 1 },
    { "head_dim=64&rope_theta=150000&rope_type=yarn&factor=32&original_max_position_embeddings=4096&truncate=false", "ya",
      150000, 32, 64, 32, 1, 4096, -1 },
    { "head_dim=128&rope_theta=500000&rope_type=yarn&factor=8&original_max_position_embeddings=8192&truncate=false&"
      "attention_factor=0.3",
      "ya", 500000, 8, 128, 32, 1, 8192, 0.3 },
    { "head_dim=128&rope_theta=500000&rope_type=llama3&factor=8&original_max_position_embeddings=8192", "ll", 500000, 8, 128,
      1, 4, 8192, 1 },
    { "head_dim=128&rope_theta=500000&rope_type=llama3&factor=16&original_max_position_embeddings=8192&low_freq_factor=1&"
      "high_freq_factor=1",
      "ll", 500000, 16, 128, 1, 1, 8192, 1 },
};

/* c = turns that pair `rung` makes over the original length. */
static void turns(mpfr_t c, mpfr_t rung, double original)
{
    mpfr_t pi;
    mpfr_init2(pi, HIGH);
    mpfr_const_pi(pi, MPFR_RNDN);
    mpfr_mul_d(c, rung, original / 2, MPFR_RNDN);
    mpfr_div(c, c, pi, MPFR_RNDN);
    mpfr_clear(pi);
}

/* The pair (a fraction) that makes `count` turns: theta^(-2j/r) original / (2 pi) = count. */
static double pair_with(const model *m, mpfr_t out, double count)
{
    mpfr_t t;
    mpfr_init2(t, HIGH);
    mpfr_const_pi(t, MPFR_RNDN);
    mpfr_mul_d(t, t, 2 * count, MPFR_RNDN);
    mpfr_d_div(t, m->original, t, MPFR_RNDN);
    mpfr_log(out, t, MPFR_RNDN);
    mpfr_set_d(t, m->theta, MPFR_RNDN);
    mpfr_log(t, t, MPFR_RNDN);
    mpfr_div(out, out, t, MPFR_RNDN);
    mpfr_mul_d(out, out, m->width / 2.0, MPFR_RNDN);
    mpfr_clear(t);
    return mpfr_get_d(out, MPFR_RNDN);
}

/* w = the frequency of pair j, each power by itself. */
static void frequency(const model *m, int j, mpfr_t w)
{
    mpfr_t base, x, y, g;
    mpfr_inits2(HIGH, base, x, y, g, (mpfr_ptr)NULL);
    mpfr_set_d(base, m->theta, MPFR_RNDN);
    if (!strcmp(m->type, "dy") || !strcmp(m->type, "nt")) {
        mpfr_set_d(x, m->factor, MPFR_RNDN);
        if (m->type[0] == 'd') {
            mpfr_mul_d(x, x, m->a, MPFR_RNDN);
            mpfr_div_d(x, x, m->b, MPFR_RNDN);
            mpfr_sub_d(x, x, m->factor - 1, MPFR_RNDN);
        }
        mpfr_set_d(y, m->width, MPFR_RNDN);
        mpfr_div_d(y, y, m->width - 2, MPFR_RNDN);
        mpfr_pow(x, x, y, MPFR_RNDN);
        mpfr_mul(base, base, x, MPFR_RNDN);
    }
    mpfr_set_d(x, -2.0 * j, MPFR_RNDN);
    mpfr_div_d(x, x, m->width, MPFR_RNDN);
    mpfr_pow(w, base, x, MPFR_RNDN);
    mpfr_set_ui(g, m->type[0] == 'l' && m->type[1] == 'i', MPFR_RNDN); /* the share that is divided by factor */
    if (!strcmp(m->type, "ya")) {
        pair_with(m, x, m->a);
        pair_with(m, y, m->b);
        mpfr_sub(y, y, x, MPFR_RNDN);
        mpfr_si_sub(g, j, x, MPFR_RNDN);
        mpfr_div(g, g, y, MPFR_RNDN);
    } else if (!strcmp(m->type, "ll")) {
        turns(x, w, m->original);
        mpfr_d_sub(g, m->b, x, MPFR_RNDN);
        if (m->a < m->b)
            mpfr_div_d(g, g, m->b - m->a, MPFR_RNDN);
        else
            mpfr_set_si(g, mpfr_sgn(g), MPFR_RNDN);
    }
    if (mpfr_sgn(g) < 0)
        mpfr_set_zero(g, 1);
    if (mpfr_cmp_ui(g, 1) > 0)
        mpfr_set_ui(g, 1, MPFR_RNDN);
    mpfr_d_div(x, 1, g, MPFR_RNDN); /* (1 - g) + g / factor */
    mpfr_div_d(x, g, m->factor, MPFR_RNDN);
    mpfr_ui_sub(g, 1, g, MPFR_RNDN);
    mpfr_add(x, x, g, MPFR_RNDN);
    mpfr_mul(w, w, x, MPFR_RNDN);
    mpfr_clears(base, x, y, g, (mpfr_ptr)NULL);
}

/* |got - want| - allowance in units of the last of `digits` bits of want. */
static double ulps(double got, mpfr_t want, int digits, double allowance)
{
    mpfr_t d;
    mpfr_init2(d, HIGH);
    mpfr_sub_d(d, want, got, MPFR_RNDN);
    mpfr_abs(d, d, MPFR_RNDN);
    mpfr_sub_d(d, d, allowance, MPFR_RNDN);
    const double off = mpfr_get_d(d, MPFR_RNDN);
    mpfr_clear(d);
    return off <= 0 || mpfr_zero_p(want) ? (off > 0 ? 1e9 : 0) : ldexp(off, digits - (int)mpfr_get_exp(want));
}

static void attention_of(const model *m, mpfr_t out)
{
    mpfr_set_d(out, m->attention, MPFR_RNDN);
    if (m->attention >= 0)
        return;
    mpfr_set_d(out, m->factor, MPFR_RNDN);
    mpfr_log(out, out, MPFR_RNDN);
    mpfr_div_ui(out, out, 10, MPFR_RNDN);
    mpfr_add_ui(out, out, 1, MPFR_RNDN);
}

/* Positions to 10^7: random ones, and those whose angle is next to a zero of the sine or cosine of some pair. */
static size_t positions_of(const posenc_answer *plain, double *out)
{
    static const double fixed[] = { 0, 1, -1, 2, 4095, 4096, 131071, 1e6, 1e7, -9999999, 0.5, 1234567.875 };
    size_t n = 0;
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < LEN(fixed); i++)
        out[n++] = fixed[i];
    for (int i = 0; i < 40; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        out[n++] = (double)(seed % 10000000);
    }
    for (int64_t j = 0; j < 12; j += 3) {
        const double w = named(plain, "inv_freq", j) * 2 / M_PI;
        double best[2] = { 1, 1 }, at[2] = { 0, 0 };
        for (int p = 1; p < 3000000; p++) {
            const double quarters = p * w, off = fabs(quarters - rint(quarters));
            const int odd = (int)((int64_t)rint(quarters) & 1);
            if (off < best[odd])
                best[odd] = off, at[odd] = p;
        }
        out[n++] = at[0];
        out[n++] = at[1];
    }
    return n;
}

START_TEST(exact)
{
    const model *m = &models[_i];
    char query[2000];
    snprintf(query, sizeof query, "%s&dtype=float64", m->query);
    posenc_answer plain = answer_of(query);
    double position[80];
    const size_t n = positions_of(&plain, position);
    int used = snprintf(query, sizeof query, "%s&layout=half_unduplicated&positions=", m->query);
    for (size_t i = 0; i < n; i++)
        used += snprintf(query + used, sizeof query - (size_t)used, "%s%.17g", i ? "," : "", position[i]);
    /* dynamic's length is given, so that positions do not change it */
    posenc_answer single = answer_of(query);
    snprintf(query + used, sizeof query - (size_t)used, "&dtype=float64");
    posenc_answer twice = answer_of(query);

    mpfr_t w, s, c, angle, attention;
    mpfr_inits2(HIGH, w, s, c, angle, attention, (mpfr_ptr)NULL);
    attention_of(m, attention);
    ck_assert(ulps(named(&twice, "attention_factor", 0), attention, 53, 0) <= 0.51);
    double worst[3] = { 0, 0, 0 };
    for (int j = 0; j < m->width / 2; j++) {
        frequency(m, j, w);
        worst[0] = fmax(worst[0], ulps(named(&single, "inv_freq", j), w, 24, 0));
        ck_assert(ulps(named(&twice, "inv_freq", j), w, 53, 0) <= 0.501);
        for (size_t i = 0; i < n; i++) {
            mpfr_mul_d(angle, w, position[i], MPFR_RNDN);
            mpfr_sin_cos(s, c, angle, MPFR_RNDN);
            mpfr_mul(s, s, attention, MPFR_RNDN);
            mpfr_mul(c, c, attention, MPFR_RNDN);
            const double allow = fabs(mpfr_get_d(angle, MPFR_RNDN)) * 0x1p-98;
            const int64_t k = (int64_t)i * m->width / 2 + j;
            worst[1] = fmax(
                worst[1], fmax(ulps(named(&single, "sin", k), s, 24, allow), ulps(named(&single, "cos", k), c, 24, allow)));
            worst[2] = fmax(worst[2],
                            fmax(ulps(named(&twice, "sin", k), s, 53, allow), ulps(named(&twice, "cos", k), c, 53, allow)));
        }
    }
    mpfr_clears(w, s, c, angle, attention, (mpfr_ptr)NULL);
    mpfr_free_cache();
    if (getenv("POSENC_TEST_VERBOSE"))
        printf("%s: inv_freq %g, tables %g ulp of float32, %g of float64\n", m->query, worst[0], worst[1], worst[2]);
    ck_assert_msg(worst[0] <= 0.51 && worst[1] <= 0.51 && worst[2] <= 2,
                  "%s: inv_freq %g, tables %g ulp of float32, %g of float64", m->query, worst[0], worst[1], worst[2]);
    posenc_answer_fini(&plain);
    posenc_answer_fini(&single);
    posenc_answer_fini(&twice);
}
END_TEST

/* Lists divide exactly; their frequencies by MPFR's one rounding. */
START_TEST(lists_divide)
{
    posenc_answer a = answer_of("head_dim=8&rope_type=longrope&short_factor=3,0.7,1e-3,1&long_factor=1,1,1,1&dtype=float64");
    static const double divisor[] = { 3, 0.7, 1e-3, 1 };
    for (int j = 0; j < 4; j++)
        near(named(&a, "inv_freq", j), pow(10000, -j / 4.0) / divisor[j], 4e-16, "inv_freq");
    posenc_answer_fini(&a);
}
END_TEST

/* ---- keys ---- */

static posenc_answer same(const char *one, const char *two)
{
    posenc_answer a = answer_of(one), b = answer_of(two);
    ck_assert_msg(!strcmp(a.request.key, b.request.key), "%s\n%s", a.request.key, b.request.key);
    posenc_answer_fini(&b);
    return a;
}

START_TEST(keys)
{
    static const char *const pairs[][2] = {
        { "preset=llama-2-7b", "head_dim=128" },
        { "preset=llama-3.1-8b", "rope_type=llama3&factor=8&original_max_position_embeddings=8192&head_dim=128&rope_theta="
                                 "5e5&max_position_embeddings=9" },
        { "preset=llama-3.1-8b&rope_type=default", "head_dim=128&rope_theta=5e5" },
        { "preset=llama-3.1-8b&rope_type=default&seq_len=7&max_position_embeddings=3", "head_dim=128&rope_theta=5e5" },
        { "preset=gpt-j-6b", "head_dim=256&partial_rotary_factor=0.25&layout=interleaved" },
        { "preset=gpt-j-6b&layout=half", "head_dim=256&partial_rotary_factor=0.25" },
        { "head_dim=64&original_max_position_embeddings=100", "hidden_size=128&num_attention_heads=2&seq_len=4" },
        { "head_dim=64&ntk_factor=1&linear_factor=1", "head_dim=64" },
        { "head_dim=64&rope_type=yarn&factor=2",
          "head_dim=64&rope_type=yarn&factor=2&beta_fast=0&beta_slow=0&truncate=true" },
        { "head_dim=64&rope_type=yarn&max_position_embeddings=4096&original_max_position_embeddings=2048",
          "head_dim=64&rope_type=yarn&factor=2" },
        { "head_dim=64&rope_type=dynamic&factor=2&positions=5,99",
          "head_dim=64&rope_type=dynamic&factor=2&positions=5,99&seq_len=100" },
        { "head_dim=64&rope_type=dynamic&alpha=3&factor=1", "head_dim=64&rope_type=ntk_alpha&alpha=3" },
    };
    for (size_t i = 0; i < LEN(pairs); i++) {
        posenc_answer a = same(pairs[i][0], pairs[i][1]);
        ck_assert_ptr_null(strstr(a.request.key, "preset"));
        const char *after = strstr(a.request.key, "dtype="); /* the key is a request, and the same one */
        posenc_answer b = same(after, pairs[i][0]);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

START_TEST(every_preset)
{
    const posenc_param *row = posenc_row(&posenc_encoding_named("rope")->table, "preset");
    for (int i = 0; row->names[i]; i++) {
        char query[80];
        snprintf(query, sizeof query, "preset=%s&num_positions=2&dtype=float64", row->names[i]);
        posenc_answer a = answer_of(query);
        for (int64_t j = 1; j < tensor_of(&a, "inv_freq")->shape[0]; j++)
            ck_assert_msg(named(&a, "inv_freq", j) <= named(&a, "inv_freq", j - 1), "%s pair %d", query, (int)j);
        posenc_answer_fini(&a);
    }
}
END_TEST

/* ---- bad input ---- */

static const refusal bad[] = {
    { "", "head_dim", "" },
    { "num_positions=3", "head_dim", "" },
    { "head_dim=0", "head_dim", "" },
    { "head_dim=65", "head_dim", "66" },
    { "head_dim=100000", "head_dim", "65536" },
    { "head_dim=64&head=2", "head", "" },
    { "hidden_size=64", "num_attention_heads", "" },
    { "num_attention_heads=64", "hidden_size", "" },
    { "hidden_size=65&num_attention_heads=2", "hidden_size", "multiple" },
    { "hidden_size=64&num_attention_heads=2&head_dim=32", "hidden_size", "" },
    { "head_dim=64&rope_theta=0", "rope_theta", "" },
    { "head_dim=64&rope_theta=-1", "rope_theta", "" },
    { "head_dim=64&rope_theta=nan", "rope_theta", "" },
    { "head_dim=64&rope_theta=1&rope_type=yarn&factor=2", "rope_theta", "over 1" },
    { "head_dim=64&rope_theta=1&rope_type=dynamic&factor=2", "rope_theta", "over 1" },
    { "head_dim=64&rope_type=default&rope_theta=1e-9&dtype=float16", "rope_theta", "float16" },
    { "head_dim=2&rope_type=dynamic&factor=2", "head_dim", "over 2" },
    { "head_dim=8&partial_rotary_factor=0.25&rope_type=ntk&factor=2", "head_dim", "over 2" },
    { "head_dim=2&rope_type=ntk_alpha&alpha=2", "head_dim", "over 2" },
    { "head_dim=10&partial_rotary_factor=0.5", "partial_rotary_factor", "nearest even width is 6" },
    { "head_dim=100&partial_rotary_factor=0.01", "partial_rotary_factor", "nearest even width is 2" },
    { "head_dim=100&partial_rotary_factor=0", "partial_rotary_factor", "" },
    { "head_dim=100&partial_rotary_factor=1.5", "partial_rotary_factor", "" },
    { "head_dim=31&rope_type=proportional", "head_dim", "even" },
    { "head_dim=64&rope_type=linear", "factor", "" },
    { "head_dim=64&rope_type=dynamic", "factor", "" },
    { "head_dim=64&rope_type=llama3", "factor", "" },
    { "head_dim=64&rope_type=ntk", "factor", "" },
    { "head_dim=64&rope_type=linear&factor=0.5", "factor", "1 .. " },
    { "head_dim=64&rope_type=yarn&factor=0.99", "factor", "1 .. " },
    { "head_dim=64&factor=2", "factor", "linear" },
    { "head_dim=64&rope_type=su", "rope_type", "" },
    { "head_dim=64&rope_type=linear&factor=2&truncate=true", "truncate", "yarn" },
    { "head_dim=64&rope_type=linear&factor=2&attention_factor=1", "attention_factor", "yarn" },
    { "head_dim=64&rope_type=yarn&factor=2&attention_factor=-1", "attention_factor", "" },
    { "head_dim=64&rope_type=yarn&factor=2&beta_fast=1&beta_slow=2", "beta_fast", "at least" },
    { "head_dim=64&rope_type=yarn&factor=2&beta_slow=33", "beta_fast", "at least" },
    { "head_dim=64&rope_type=yarn&factor=2&attention_factor=1&mscale=1", "mscale", "" },
    { "head_dim=64&rope_type=yarn&factor=2&alpha=1", "alpha", "ntk_alpha" },
    { "head_dim=64&rope_type=yarn&factor=2&ntk_factor=2", "ntk_factor", "default" },
    { "head_dim=64&rope_type=yarn", "factor", "required" },
    { "head_dim=64&rope_type=yarn&original_max_position_embeddings=4096", "factor", "max_position_embeddings" },
    { "head_dim=64&rope_type=yarn&max_position_embeddings=4096", "factor", "original_max_position_embeddings" },
    { "head_dim=4&rope_type=longrope&short_factor=1,1&long_factor=1,1&original_max_position_embeddings=4096", "factor",
      "required" },
    { "head_dim=64&rope_type=yarn&max_position_embeddings=100&original_max_position_embeddings=200",
      "original_max_position_embeddings", "" },
    { "head_dim=64&rope_type=dynamic&alpha=10&factor=2", "factor", "" },
    { "head_dim=64&rope_type=llama3&factor=2&low_freq_factor=5", "low_freq_factor", "at most" },
    { "head_dim=8&rope_type=longrope&long_factor=1,1,1,1", "short_factor", "" },
    { "head_dim=8&rope_type=longrope&short_factor=1,1,1,1", "long_factor", "" },
    { "head_dim=8&rope_type=longrope&short_factor=1,1,1&long_factor=1,1,1,1", "short_factor", "4 values" },
    { "head_dim=8&rope_type=longrope&short_factor=1,1,1,1&long_factor=1,1,1,1,1", "long_factor", "4 values" },
    { "head_dim=8&rope_type=longrope&short_factor=1,1,0,1&long_factor=1,1,1,1", "short_factor[2]", "" },
    { "head_dim=8&rope_type=longrope&short_factor=1,1,1e-9,1&long_factor=1,1,1,1&dtype=float16", "short_factor", "float16" },
    { "head_dim=8&rope_type=longrope&short_factor=1,1,1,1&long_factor=1,1,1,1&original_max_position_embeddings=1&"
      "max_position_embeddings=2048",
      "original_max_position_embeddings", "at least 2" },
    { "head_dim=8&seq_len=0", "seq_len", "" },
    { "head_dim=64&rope_theta=1e-30&rope_type=ntk_alpha&alpha=1e-9", "rope_theta", "float32" },
    { "head_dim=64&linear_factor=1e-9&dtype=float16", "linear_factor", "float16" },
    { "head_dim=8&positions=1,2&num_positions=2", "positions", "" },
    { "head_dim=8&positions=1e30", "positions[0]", "" },
    { "head_dim=8&positions=1&layout=split", "layout", "half" },
    { "head_dim=64&rope_theta=1e-30&positions=9007199254740992&compute_dtype=float32", "rope_theta", "" },
};

START_TEST(bad_input) { refuses("rope", &bad[_i]); }
END_TEST

START_TEST(all_faults_at_once)
{
    posenc_answer a;
    posenc_error err = { 0 };
    posenc_encode("rope",
                  "head_dim=64&rope_type=yarn&factor=2&alpha=3&ntk_factor=2&long_factor=1&positions=1&num_positions=2", NULL,
                  &a, NULL, &err);
    ck_assert_uint_eq(err.n, 4);
}
END_TEST

static posenc_status stop_at_once(void *user)
{
    int *polls = user;
    return ++*polls > 1 ? PE_CANCELLED : PE_OK;
}

START_TEST(cancelled)
{
    posenc_answer a;
    posenc_error err = { 0 };
    int polls = 0;
    posenc_context ctx = { .stop = stop_at_once, .user = &polls };
    ck_assert_int_eq(posenc_encode("rope", "head_dim=128&num_positions=100000", NULL, &a, &ctx, &err), PE_CANCELLED);
    polls = 0;
    err = (posenc_error){ 0 };
    ck_assert_int_eq(posenc_encode("rope", "head_dim=65536&compute_dtype=float32", NULL, &a, &ctx, &err), PE_CANCELLED);
}
END_TEST

Suite *rope_suite(void)
{
    Suite *s = suite_create("rope");
    TCase *t = tcase_create("rope");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, known_complaints);
    tcase_add_test(t, band_of_gpt_oss);
    tcase_add_test(t, band_is_held_at_width);
    tcase_add_test(t, which_list);
    tcase_add_test(t, stairs);
    tcase_add_test(t, bfloat16_is_rounded_last);
    tcase_add_test(t, layouts);
    tcase_add_test(t, tokens);
    tcase_add_test(t, proportional);
    tcase_add_test(t, float32_steps);
    tcase_add_loop_test(t, exact, 0, (int)LEN(models));
    tcase_add_test(t, lists_divide);
    tcase_add_test(t, keys);
    tcase_add_test(t, every_preset);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, all_faults_at_once);
    tcase_add_test(t, cancelled);
    suite_add_tcase(s, t);
    return s;
}
