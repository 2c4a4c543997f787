/* convention.c - from rows to a sinusoid, and the rules between them. */
#include "sequence/convention.h"

pe_sines pe_convention_sines(const posenc_request *r, const pe_convention *c)
{
    const bool ratio = pe_given(r, "max_timescale"), shortest = pe_given(r, "min_timescale");
    return (pe_sines){
        .width = c->embedding_dim,
        .split = c->layout == PE_SPLIT,
        .flip = c->flip_sin_to_cos,
        .odd = (pe_odd)c->odd_dim,
        .shift = c->downscale_freq_shift,
        .at_least_one = ratio || shortest,
        .top = ratio ? c->max_timescale : c->max_period,
        .bottom = ratio && shortest ? c->min_timescale : 1,
        .shortest = shortest ? c->min_timescale : 1,
        .scale = c->scale,
    };
}

bool pe_sines_check_steps(const pe_sines *s, const char *hint, posenc_error *err)
{
    if (pe_sines_steps(s).hi > 0)
        return true;
    pe_invalid(err, "downscale_freq_shift", posenc_text("%.17g", s->shift),
               "below half the width, %lld%s: the exponent's divisor must be over 0", (long long)s->width / 2, hint);
    return false;
}

void pe_sines_check_range(const pe_sines *s, const char *base, double base_value, int exponent, posenc_error *err)
{
    const double limit = s->single ? 120 : 900, b = s->top / s->bottom;
    if (s->single && (b < 1e-36 || b > 1e36))
        pe_invalid(err, base, posenc_text("%.17g", base_value), "a base in 1e-36 .. 1e36 with compute_dtype=float32");
    if (exponent + pe_sines_exponent(s) > limit)
        pe_invalid(err, b < 1 ? base : "scale", posenc_text("%.17g", b < 1 ? base_value : s->scale),
                   "angles below 2^%.0f at position 2^%d (compute_dtype=%s)", limit, exponent,
                   pe_compute_dtypes[s->single ? PE_COMPUTE_FLOAT32 : PE_COMPUTE_FLOAT64]);
}

static void check_all(const pe_sines *s, const char *base, double base_value, int exponent, const char *hint,
                      posenc_error *err)
{
    const bool wide = s->width % 2 == 0 || s->odd != PE_ODD_ERROR;
    if (!wide)
        pe_invalid(err, "embedding_dim", posenc_text("%lld", (long long)s->width),
                   "an even width, or odd_dim=zero_pad, sin_extra or round_up_truncate");
    if (pe_sines_check_steps(s, hint, err) && wide)
        pe_sines_check_range(s, base, base_value, exponent, err);
}

void pe_convention_check(const posenc_request *r, const pe_convention *c, const pe_sines *s, int exponent, posenc_error *err)
{
    const bool ratio = pe_given(r, "max_timescale");
    check_all(s, ratio ? "max_timescale" : "max_period", ratio ? c->max_timescale : c->max_period, exponent,
              ", or min_timescale or max_timescale given", err);
}

void pe_sines_check(const pe_sines *s, const char *base, double base_value, int exponent, posenc_error *err)
{
    check_all(s, base, base_value, exponent, "", err);
}
