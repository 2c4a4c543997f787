/* fit.c - angles, short numbers, waves and ladders. */
#include "analysis/fit.h"

#include "core/elementary.h"
#include "core/number.h"

#include <math.h>
#include <string.h>

/* ---- angles ---- */

/* atan of 0 <= x <= 1: two halvings bring it below tan(pi/16), where twelve terms of the series do. */
static double atan_small(double x)
{
    double t = x / (1 + sqrt(1 + x * x));
    t = t / (1 + sqrt(1 + t * t));
    const double z = t * t;
    double sum = 0;
    for (int k = 12; k >= 0; k--)
        sum = sum * z + (k % 2 ? -1.0 : 1.0) / (2 * k + 1);
    return 4 * t * sum;
}

double pe_atan2(double y, double x)
{
    const double ay = fabs(y), ax = fabs(x);
    if (ax == 0 && ay == 0)
        return 0;
    double a = ay <= ax ? atan_small(ay / ax) : pe_pi.hi / 2 - atan_small(ax / ay);
    a = x < 0 ? pe_pi.hi - a : a;
    return y < 0 ? -a : a;
}

void pe_cis(double angle, double *cosine, double *sine)
{
    const pe_dd a = { angle, 0 };
    pe_sincos(&a, 1, sine, cosine);
}

double pe_wrap(double angle) { return angle - pe_two_pi.hi * rint(angle / pe_two_pi.hi); }

/* ---- numbers that people type ---- */

static double power_of_ten(int e) { return pe_decimal(1, e); }

static int exponent_of_ten(double v) /* 10^e <= |v|, about */
{
    int e2;
    frexp(v, &e2);
    int e = (int)floor((e2 - 1) * 0.30102999566398120);
    while (fabs(v) >= power_of_ten(e + 1))
        e++;
    return e;
}

double pe_nice(double v, double error)
{
    if (v == 0 || fabs(v) <= error)
        return 0;
    if (!(fabs(v) > 1e-290 && fabs(v) < 1e290))
        return v;
    const int e = exponent_of_ten(v);
    for (int digits = 1; digits <= 15; digits++) {
        const int shift = digits - 1 - e;
        const double scaled = rint(shift >= 0 ? fabs(v) * power_of_ten(shift) : fabs(v) / power_of_ten(-shift));
        const double found = copysign(pe_decimal((uint64_t)scaled, -shift), v);
        if (fabs(found - v) <= error)
            return found;
    }
    return v;
}

int pe_digits(double v)
{
    if (v == 0)
        return 1;
    char text[PE_NUMBER_TEXT];
    const int64_t one = 1;
    posenc_tensor t = { .dtype = PE_float64, .rank = 1, .shape = { one }, .data = &v };
    const size_t n = pe_number_text(&t, 0, text);
    int digits = 0, zeros = 0;
    for (size_t i = 0; i < n && text[i] != 'e'; i++) {
        if (text[i] < '0' || text[i] > '9' || (text[i] == '0' && !digits))
            continue;
        digits++;
        zeros = text[i] == '0' ? zeros + 1 : 0;
    }
    return digits - zeros;
}

/* ---- waves ---- */

/* sum over r of z[r + lag] conj(z[r]) */
static void lag_sum(const double *s, const double *c, size_t n, size_t lag, const bool *skip, double *re, double *im,
                    double *weight)
{
    double a = 0, b = 0, q = 0;
    for (size_t r = 0; r + lag < n; r++) {
        if (skip && (skip[r] || skip[r + lag]))
            continue;
        a += c[r + lag] * c[r] + s[r + lag] * s[r];
        b += s[r + lag] * c[r] - c[r + lag] * s[r];
        q += c[r] * c[r] + s[r] * s[r];
    }
    *re = a, *im = b, *weight = q;
}

pe_wave pe_wave_pair(const double *s, const double *c, size_t n, const bool *skip, double grain)
{
    pe_wave out = { 0 };
    double re, im, weight;
    lag_sum(s, c, n, 1, skip, &re, &im, &weight);
    const double length = sqrt(re * re + im * im);
    if (!(weight > 0) || length < 0.99 * weight)
        return out;
    double w = pe_atan2(im, re);
    /* a longer lag tells w more exactly, once the shorter ones say how many turns it is */
    for (size_t lag = 2; lag <= n / 2; lag *= 2) {
        lag_sum(s, c, n, lag, skip, &re, &im, &weight);
        if (!(weight > 0) || sqrt(re * re + im * im) < 0.99 * weight)
            return out;
        w += pe_wrap(pe_atan2(im, re) - w * (double)lag) / (double)lag;
    }
    /* twice: the phase, then what is left of the slope, and what is left of that is noise */
    double phase = 0, amplitude = 0, left = 0, spread = 0, count = 0;
    for (int pass = 0; pass < 3; pass++) {
        double a = 0, b = 0, m = 0, cw, sw, mean = 0;
        double x = 1, y = 0;
        pe_cis(w, &cw, &sw);
        for (size_t r = 0; r < n; r++) {
            if (r % 64 == 0)
                pe_cis(w * (double)r, &x, &y);
            if (!skip || !skip[r]) {
                a += c[r] * x + s[r] * y;
                b += s[r] * x - c[r] * y;
                mean += (double)r;
                m++;
            }
            const double t = x * cw - y * sw;
            y = x * sw + y * cw, x = t;
        }
        phase = pe_atan2(b, a);
        amplitude = sqrt(a * a + b * b) / m;
        mean /= m;
        if (pass == 2)
            break;
        double cov = 0, var = 0, cp, sp;
        left = 0;
        pe_cis(phase, &cp, &sp);
        for (size_t r = 0; r < n; r++) {
            if (r % 64 == 0)
                pe_cis(w * (double)r, &x, &y);
            if (!skip || !skip[r]) {
                const double re1 = x * cp - y * sp, im1 = x * sp + y * cp;
                const double off = (s[r] * re1 - c[r] * im1) / amplitude, at = (double)r - mean;
                cov += off * at;
                var += at * at;
                left += off * off;
            }
            const double t = x * cw - y * sw;
            y = x * sw + y * cw, x = t;
        }
        if (var > 0)
            w += cov / var;
        spread = var, count = m;
    }
    out.known = amplitude > 0 && spread > 0;
    out.w = w, out.phase = phase, out.amplitude = amplitude;
    if (out.known) {
        const double least = grain / amplitude;
        out.error = sqrt(pe_max(left / pe_max(count - 2, 1), least * least) / spread) + 1e-16;
    }
    return out;
}

/* a, b and their matrix's least squares for x[r] = a cos(w r) + b sin(w r), r < n, and the step of w that lessens it. */
typedef struct column_fit {
    double a, b, step, error, residual; /* residual: root of the mean square */
} column_fit;

static column_fit fit_column(const double *x, size_t n, double w, double grain)
{
    double cc = 0, cs = 0, ss = 0, xc = 0, xs = 0, cw, sw, u = 1, v = 0;
    column_fit f = { 0 };
    pe_cis(w, &cw, &sw);
    for (size_t r = 0; r < n; r++) {
        if (r % 64 == 0)
            pe_cis(w * (double)r, &u, &v);
        cc += u * u, cs += u * v, ss += v * v;
        xc += x[r] * u, xs += x[r] * v;
        const double t = u * cw - v * sw;
        v = u * sw + v * cw, u = t;
    }
    const double det = cc * ss - cs * cs;
    if (!(det > 1e-12 * cc * cc))
        return (column_fit){ .residual = 1e300 };
    f.a = (xc * ss - xs * cs) / det;
    f.b = (xs * cc - xc * cs) / det;
    /* d/dw = r (b cos - a sin), less its part in the space of cos and sin */
    double gc = 0, gs = 0, gg = 0, gx = 0, rest = 0;
    for (size_t r = 0; r < n; r++) {
        if (r % 64 == 0)
            pe_cis(w * (double)r, &u, &v);
        const double g = (double)r * (f.b * u - f.a * v), e = x[r] - f.a * u - f.b * v;
        gc += g * u, gs += g * v, gg += g * g, gx += g * e, rest += e * e;
        const double t = u * cw - v * sw;
        v = u * sw + v * cw, u = t;
    }
    const double ga = (gc * ss - gs * cs) / det, gb = (gs * cc - gc * cs) / det;
    const double own = gg - ga * gc - gb * gs;
    f.residual = sqrt(rest / (double)n);
    if (own > 1e-10 * gg && own > 0) {
        f.step = gx / own;
        f.error = sqrt((pe_max(rest / (n > 4 ? (double)n - 3 : 1), grain * grain) + 1e-30) / own);
    } else {
        f.error = 1e300;
    }
    return f;
}

pe_wave pe_wave_column(const double *x, size_t n, double allowed, double grain)
{
    pe_wave out = { 0 };
    double top = 0, bottom = 0;
    for (size_t r = 1; r + 1 < n; r++) {
        top += (x[r - 1] + x[r + 1]) * x[r];
        bottom += 2 * x[r] * x[r];
    }
    if (!(bottom > 0))
        return out;
    const double c = top / bottom; /* cos w, for x[r-1] + x[r+1] = 2 cos(w) x[r] */
    if (!(fabs(c) < 1 - 1e-9))
        return out;
    double w = pe_atan2(sqrt((1 - c) * (1 + c)), c);
    size_t window = 8;
    const double turn = 2 * pe_two_pi.hi / w; /* two turns at least, that a and b are told apart */
    if (turn > (double)window)
        window = turn < (double)n ? (size_t)turn : n;
    column_fit f = { 0 };
    for (;; window *= 2) {
        if (window > n)
            window = n;
        for (int i = 0; i < 6; i++) {
            f = fit_column(x, window, w, grain);
            if (!(f.error < 1) || !(fabs(f.step) < 1))
                return out;
            w += f.step;
            if (!(w > 0 && w < pe_pi.hi))
                return out;
            if (fabs(f.step) <= 0.01 * f.error)
                break;
        }
        if (window == n)
            break;
    }
    f = fit_column(x, n, w, grain);
    if (!(f.residual <= allowed && f.residual <= 0.2 * sqrt(f.a * f.a + f.b * f.b)))
        return out;
    out.known = true;
    out.w = w;
    out.error = f.error + 1e-16;
    out.amplitude = sqrt(f.a * f.a + f.b * f.b);
    out.phase = pe_atan2(-f.b, f.a);
    return out;
}

/* ---- ladders ---- */

bool pe_rungs_fit(const double *w, const double *sigma, size_t from, size_t to, pe_rungs *out)
{
    double s = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (!(w[i] > 3 * sigma[i]))
            continue;
        const double y = pe_log(w[i]), relative = sigma[i] / w[i] + 1e-15, weight = 1 / (relative * relative), x = (double)i;
        s += weight, sx += weight * x, sy += weight * y;
        sxx += weight * x * x, sxy += weight * x * y;
        n++;
    }
    const double det = s * sxx - sx * sx;
    if (n < 2 || !(det > 0))
        return false;
    out->step = -(s * sxy - sx * sy) / det;
    out->log_first = (sxx * sy - sx * sxy) / det;
    out->step_error = sqrt(s / det);
    out->first_error = sqrt(sxx / det);
    return true;
}
