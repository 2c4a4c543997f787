/* colour.c - colours by their lightness, chroma and hue in OKLab, where equal steps look equal.
 *
 *     a = chroma cos(hue), b = chroma sin(hue)
 *     l = (L + 0.3963377774 a + 0.2158037573 b)^3, m, s alike; linear sRGB is a matrix times (l, m, s)
 * Source: Ottosson 2020, A perceptual color space for image processing; the curve of sRGB is IEC 61966-2-1. */
#include "plot/canvas.h"

#include "core/elementary.h"

static double cube(double v) { return v * v * v; }

typedef struct lch {
    double lightness, chroma, hue; /* hue [turns] */
} lch;

/* Linear sRGB; false: outside of what a screen shows. */
static bool to_linear(lch c, double out[3])
{
    double sine, cosine;
    const pe_dd angle = pe_dd_times(pe_two_pi, c.hue);
    pe_sincos(&angle, 1, &sine, &cosine);
    const double a = c.chroma * cosine, b = c.chroma * sine;
    const double l = cube(c.lightness + 0.3963377774 * a + 0.2158037573 * b),
                 m = cube(c.lightness - 0.1055613458 * a - 0.0638541728 * b),
                 s = cube(c.lightness - 0.0894841775 * a - 1.2914855480 * b);
    out[0] = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s;
    out[1] = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s;
    out[2] = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s;
    bool inside = true;
    for (int i = 0; i < 3; i++)
        inside = inside && out[i] >= 0 && out[i] <= 1;
    return inside;
}

static uint8_t to_byte(double v)
{
    v = v < 0 ? 0 : v > 1 ? 1 : v;
    v = v <= 0.0031308 ? 12.92 * v : 1.055 * pe_pow(v, 1 / 2.4) - 0.055;
    return (uint8_t)(255 * v + 0.5);
}

/* The colour, with as much of its chroma as a screen can show. */
static pe_rgb to_rgb(lch c)
{
    double v[3];
    for (int i = 0; i < 40 && !to_linear(c, v); i++)
        c.chroma *= 0.96;
    return (pe_rgb){ to_byte(v[0]), to_byte(v[1]), to_byte(v[2]) };
}

void pe_colour_map(bool diverging, pe_rgb out[PE_COLOURS])
{
    for (int i = 0; i < PE_COLOURS; i++) {
        const double t = i / (double)(PE_COLOURS - 1), u = t < 0.5 ? 1 - 2 * t : 2 * t - 1;
        out[i] = diverging ? to_rgb((lch){ 0.97 - 0.52 * u, 0.02 + 0.19 * u, t < 0.5 ? 0.70 : 0.08 })
                           : to_rgb((lch){ 0.26 + 0.68 * t, 0.12 + 0.05 * t, 0.82 - 0.52 * t });
    }
}

pe_rgb pe_colour_of_series(int i)
{
    static const lch list[] = {
        { 0.50, 0.15, 0.70 }, { 0.64, 0.18, 0.12 }, { 0.60, 0.14, 0.42 }, { 0.55, 0.20, 0.90 },
        { 0.72, 0.14, 0.22 }, { 0.66, 0.11, 0.56 }, { 0.40, 0.10, 0.08 }, { 0.55, 0.00, 0.00 },
    };
    return to_rgb(list[i % 8]);
}
