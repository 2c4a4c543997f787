/* timestep.c - the sinusoid of a diffusion timestep.
 *
 *     w[i] = max_period^(-i / n)          i = 0 .. h - 1        [rad per step]
 *     row = sin(scale * t * w[0 .. h-1]), cos(scale * t * w[0 .. h-1])
 *
 * h = floor(embedding_dim / 2), n = h - downscale_freq_shift; an odd width ends in a column of zeros.
 * Source: Ho et al. 2020, arXiv:2006.11239; the parameters and defaults are those of diffusers, get_timestep_embedding.
 * Two pairs of conventions are in use, and the wrong one moves every channel: DDPM has sines first and shift 1, Stable
 * Diffusion, SDXL, DiT, latent diffusion and guided-diffusion have cosines first and shift 0. */
#include "core/elementary.h"
#include "sequence/convention.h"

#include <stdlib.h>

extern const posenc_encoding pe_timestep;

/* ---- rows ---- */

typedef struct timestep {
    posenc_given given;
    int preset;
    posenc_reals timesteps;
    int64_t embedding_dim;
    bool flip_sin_to_cos;
    double downscale_freq_shift, scale, max_period;
    int compute_dtype;
} timestep;

enum { DDPM, STABLE_DIFFUSION };
static const char *const preset_names[] = { "ddpm", "stable_diffusion", NULL };

static const posenc_param rows[] = {
    { PE_ENUM(timestep, preset), .flags = PE_OPTIONAL, .names = preset_names,
      .doc = "the conventions of a known implementation, as diffusers computes them; given parameters win. ddpm: sines "
             "first, downscale_freq_shift=1, compute_dtype=float32; stable_diffusion: SD, SDXL, DiT, latent diffusion: "
             "flip_sin_to_cos=true, downscale_freq_shift=0, compute_dtype=float32" },
    { PE_REALS(timestep, timesteps), .flags = PE_REQUIRED, .min = -0x1p53, .max = 0x1p53,
      .doc = "one row each: integers or fractions, also negative" },
    { PE_INT(timestep, embedding_dim), .flags = PE_REQUIRED, .min = 1, .max = 1048576,
      .doc = "width of a row; an odd one ends in a column of zeros, also with cosines first" },
    { PE_BOOL(timestep, flip_sin_to_cos), .doc = "cosines first: false in DDPM, true in Stable Diffusion" },
    { PE_REAL(timestep, downscale_freq_shift), .def = 1, .min = -1e100, .max = 1e100,
      .doc = "exponents are -i / (embedding_dim/2 - shift): 1 in DDPM, 0 in Stable Diffusion and guided-diffusion" },
    { PE_REAL(timestep, scale), .def = 1, .min = -1e100, .max = 1e100,
      .doc =
          "multiplies the angle, after the product of timestep and frequency; 1000 where timesteps are in 0 .. 1 (Flux)" },
    { PE_REAL(timestep, max_period), .def = 10000, .min = 1e-100, .max = 1e100, .doc = "base of the ladder of frequencies" },
    { PE_ENUM(timestep, compute_dtype), .names = pe_compute_dtypes, .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: exact frequencies and angles; float32: each step is rounded to float32, as diffusers does" },
};

static const posenc_output outputs[] = {
    { "embedding", "[timesteps, embedding_dim]", "one row a timestep", NULL },
};

/* ---- rules ---- */

static pe_sines sines(const timestep *p)
{
    return (pe_sines){
        .width = p->embedding_dim,
        .split = true,
        .flip = p->flip_sin_to_cos,
        .odd = PE_ODD_ZERO_PAD,
        .shift = p->downscale_freq_shift,
        .top = p->max_period,
        .bottom = 1,
        .shortest = 1,
        .scale = p->scale,
        .single = p->compute_dtype == PE_COMPUTE_FLOAT32,
    };
}

/* A preset becomes the values it stands for and leaves no trace, so that either spelling has the same digest. */
static void apply_preset(posenc_request *r)
{
    timestep *p = r->params;
    if (!pe_given(r, "preset"))
        return;
    pe_mark(r, "preset", false);
    if (!pe_given(r, "flip_sin_to_cos"))
        p->flip_sin_to_cos = p->preset == STABLE_DIFFUSION;
    if (!pe_given(r, "downscale_freq_shift"))
        p->downscale_freq_shift = p->preset == DDPM;
    if (!pe_given(r, "compute_dtype"))
        p->compute_dtype = PE_COMPUTE_FLOAT32;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const timestep *p = r->params;
    apply_preset(r);
    const pe_sines s = sines(p);
    pe_sines_check(&s, "max_period", p->max_period, 53, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const timestep *p = r->params;
    const int64_t size[] = { (int64_t)p->timesteps.n, p->embedding_dim };
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
    const timestep *p = r->params;
    const pe_sines s = sines(p);
    const pe_columns c = pe_sines_columns(&s);
    const double pairs = (double)c.pairs, n = (double)p->timesteps.n;
    *out = (posenc_cost){ .ns = 20e3 + pairs * (s.single ? 500 : 300) + n * (40 + (rounded(r, &s) ? 4 : 25) * pairs),
                          .scratch = scratch(r, &s, &c) };
}

/* ---- the formula ---- */

/* The frequencies as diffusers forms them: float32(-ln b) times i, divided by n, and the exponential, each rounded. */
static posenc_status frequencies_float32(const pe_sines *s, size_t n, pe_dd *w, pe_pace *pace)
{
    const float slope = (float)-pe_log(s->top), steps = (float)pe_sines_steps(s).hi;
    posenc_status st = PE_OK;
    for (size_t i = 0; i < n && !st; i++) {
        const float product = slope * (float)i, exponent = product / steps;
        w[i] = (pe_dd){ pe_single(pe_exp((double)exponent)), 0 };
        st = pe_pace_add(pace, 500);
    }
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const timestep *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "embedding");
    const size_t d = (size_t)p->embedding_dim, row_size = d * posenc_dtype_size(dst->dtype);
    const pe_sines s = sines(p);
    const pe_columns c = pe_sines_columns(&s);
    pe_pace pace = { .ctx = ctx };
    if (!p->timesteps.n)
        return PE_OK;
    pe_dd *w = malloc(scratch(r, &s, &c));
    if (!w)
        return pe_no_memory("memory", err);
    double *row = (double *)(w + c.pairs), *both = row + c.width;

    posenc_status st = s.single ? frequencies_float32(&s, c.pairs, w, &pace) : pe_sines_frequencies(&s, w, ctx);
    if (st) {
        free(w);
        return st;
    }
    const bool fast = rounded(r, &s);
    const pe_waves waves = fast ? pe_waves_begin(w, c.pairs, both + 2 * c.pairs) : (pe_waves){ 0 };
    for (size_t i = 0; i < p->timesteps.n && !st; i++) {
        const pe_dd at = { p->timesteps.v[i], 0 };
        st = fast ? pe_sines_wave(&s, &c, &waves, at, both, row, &pace) : pe_sines_row(&s, &c, w, at, row, &pace);
        if (!st)
            posenc_convert(dst->dtype, (char *)dst->data + i * row_size, row, d);
    }
    free(w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_timestep = {
    .name = "timestep",
    .family = "absolute",
    .title = "sine and cosine of diffusion timesteps",
    .source =
        "Ho et al. 2020, Denoising diffusion probabilistic models, arXiv:2006.11239; diffusers, get_timestep_embedding",
    .formula = "w[i] = max_period^(-i / (floor(embedding_dim / 2) - downscale_freq_shift))\n"
               "sin(scale * timestep * w[i]) for all i, then cos(scale * timestep * w[i]); odd widths: a last column of 0",
    .example = "timesteps=0,1,250,999&embedding_dim=16",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(timestep, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
