/* continuous_sinusoidal.c - the sinusoid of moments in time: seconds, calendar times, fractions, at any distances.
 *
 *     t = (timestamp - time_origin) / time_unit
 *     w[i] = min_timescale * base^(-i / n)          i = 0 .. pairs - 1        [rad per time_unit]
 *     sin(scale * t * w[i]), cos(scale * t * w[i])
 *
 * base = max_period or max_timescale / min_timescale, n = floor(embedding_dim / 2) - downscale_freq_shift.
 * Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5; for time Shukla and Marlin 2021, arXiv:2101.10318 (mTAN),
 * whose fixed_time_embedding is preset=mtan. */
#include "sequence/convention.h"
#include "sequence/times.h"

#include <stdlib.h>

extern const posenc_encoding pe_continuous_sinusoidal;

/* ---- rows ---- */

enum { MTAN };
static const char *const preset_names[] = { "mtan", NULL };

typedef struct continuous_sinusoidal {
    posenc_given given;
    int preset;
    pe_times when;
    pe_convention of;
    int freq_form, compute_dtype;
} continuous_sinusoidal;

static const posenc_param rows[] = {
    { PE_ENUM(continuous_sinusoidal, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc = "mtan: max_period=10, scale=48, layout=interleaved, for times scaled to 0 .. 1; given parameters win" },
    PE_TIME_ROWS(continuous_sinusoidal, when),
    PE_CONVENTION_WIDTH(continuous_sinusoidal, of, "width of the encoding"),
    PE_CONVENTION_ROWS(continuous_sinusoidal, of),
    { PE_ENUM(continuous_sinusoidal, freq_form), .names = pe_freq_forms, .def = PE_POWER_EXP,
      .doc = "exp(-i ln(b)/n) or 1/b^(i/n): the same but for compute_dtype=float32" },
    { PE_ENUM(continuous_sinusoidal, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: the reduced time, frequencies and angles are each rounded "
             "to float32" },
};

static const posenc_output outputs[] = {
    { "embedding", "[timestamps, embedding_dim]", "one row a moment", NULL },
};

/* ---- rules ---- */

/* A preset becomes the values it stands for and leaves no trace, so that either spelling has the same digest. */
static void apply_preset(posenc_request *r)
{
    continuous_sinusoidal *p = r->params;
    if (!pe_given(r, "preset"))
        return;
    pe_mark(r, "preset", false);
    if (!pe_given(r, "max_period"))
        p->of.max_period = 10;
    if (!pe_given(r, "scale"))
        p->of.scale = 48;
    if (!pe_given(r, "layout"))
        p->of.layout = PE_INTERLEAVED;
}

static pe_sines sines(const posenc_request *r)
{
    const continuous_sinusoidal *p = r->params;
    pe_sines s = pe_convention_sines(r, &p->of);
    s.form = (pe_power)p->freq_form;
    s.single = p->compute_dtype == PE_COMPUTE_FLOAT32;
    return s;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const continuous_sinusoidal *p = r->params;
    apply_preset(r);
    pe_times_check(r, &p->when, true, err);
    const pe_sines s = sines(r);
    pe_convention_check(r, &p->of, &s, err->n ? 0 : pe_times_exponent(r, &p->when), err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const continuous_sinusoidal *p = r->params;
    const int64_t size[] = { pe_times_count(r, &p->when), p->of.embedding_dim };
    return pe_output(out, "embedding", (posenc_dtype)r->common.dtype, 2, size, err);
}

/* Whether results are rounded so far that waves do: not those of float64, or formed in float32 steps. */
static bool rounded(const posenc_request *r, const pe_sines *s) { return r->common.dtype != PE_float64 && !s->single; }

/* Frequencies, a row, and for waves their columns and the sines and cosines of all pairs. */
static uint64_t scratch(const posenc_request *r, const pe_sines *s, const pe_columns *c)
{
    return c->pairs * sizeof(pe_dd) + c->width * sizeof(double) +
           (rounded(r, s) ? pe_waves_size(c->pairs) + 2 * c->pairs * sizeof(double) : 0);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const continuous_sinusoidal *p = r->params;
    const pe_sines s = sines(r);
    const pe_columns c = pe_sines_columns(&s);
    const double pairs = (double)c.pairs, n = (double)pe_times_count(r, &p->when);
    *out = (posenc_cost){ .ns = 20e3 + pairs * (s.single ? 5000 : 300) + n * (120 + (rounded(r, &s) ? 4 : 25) * pairs),
                          .scratch = scratch(r, &s, &c) };
}

/* ---- the formula ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const continuous_sinusoidal *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "embedding");
    const size_t d = (size_t)p->of.embedding_dim, row_size = d * posenc_dtype_size(dst->dtype);
    const size_t n = (size_t)dst->shape[0];
    const pe_sines s = sines(r);
    const pe_columns c = pe_sines_columns(&s);
    pe_pace pace = { .ctx = ctx };
    pe_time_reader time = pe_times_start(r, &p->when);
    if (!n)
        return PE_OK;
    pe_dd *w = malloc(scratch(r, &s, &c));
    if (!w)
        return pe_no_memory("memory", err);
    double *row = (double *)(w + c.pairs), *both = row + c.width;

    posenc_status st = pe_sines_frequencies(&s, w, ctx);
    if (st) {
        free(w);
        return st;
    }
    const bool fast = rounded(r, &s);
    const pe_waves waves = fast ? pe_waves_begin(w, c.pairs, both + 2 * c.pairs) : (pe_waves){ 0 };
    for (size_t i = 0; i < n && !st; i++) {
        const pe_dd at = pe_times_next(&time);
        st = fast ? pe_sines_wave(&s, &c, &waves, at, both, row, &pace) : pe_sines_row(&s, &c, w, at, row, &pace);
        if (!st)
            posenc_convert(dst->dtype, (char *)dst->data + i * row_size, row, d);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_continuous_sinusoidal = {
    .name = "continuous_sinusoidal",
    .family = "absolute",
    .title = "sine and cosine of moments in time",
    .source = "Vaswani et al. 2017, arXiv:1706.03762, section 3.5; Shukla and Marlin 2021, mTAN, arXiv:2101.10318",
    .formula = "t = (timestamp - time_origin) / time_unit\n"
               "w[i] = min_timescale * base^(-i / n), base = max_period or max_timescale / min_timescale,\n"
               "n = embedding_dim / 2 - downscale_freq_shift; columns sin(scale * t * w[i]) and cos(scale * t * w[i])",
    .example = "timestamps=1700000000,1700000060.5,1700003600&time_origin=1700000000&time_unit=3600&embedding_dim=8",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(continuous_sinusoidal, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
