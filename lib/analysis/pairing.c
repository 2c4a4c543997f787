/* pairing.c - which channels turn together, and how fast, read off the numbers of a table.
 *
 * A pair (a, b) of row p is z[p] = a + i b. If z[p + 1] = e^(i w) z[p] for all p, then
 *     C(L) = sum over p of z[p + L] conj(z[p]),  w = arg C(1),
 * and longer lags L = 2, 4, 8 ... make w more precise, each telling the angle within a turn that the last one left open:
 *     w = w + arg(C(L) e^(-i w L)) / L.
 * A pair is one that turns where, at some lag, |z[p + L] - e^(i w L) z[p]| is less than a tenth of |z[p + L] - z[p]|, root
 * mean squares both: rounding of the table may hide a slow motion at lag 1, not at a longer one. */
#include "analysis/analysis.h"

enum { MOST_ROWS = 4096 }; /* rows that are looked at: frequencies of longer tables show in them */

/* arg(x + i y) in -pi .. pi: the quotient's arc tangent by halving the angle three times, then the series. */
static double angle_of(double x, double y)
{
    const double pi = pe_pi.hi;
    double t = fabs(x) > fabs(y) ? fabs(y) / fabs(x) : fabs(x) > 0 || fabs(y) > 0 ? fabs(x) / fabs(y) : 0, sum = 0;
    const bool steep = fabs(x) <= fabs(y);
    for (int i = 0; i < 3; i++)
        t = t / (1 + sqrt(1 + t * t));
    for (int k = 25; k >= 1; k -= 2)
        sum = (k % 4 == 1 ? 1.0 : -1.0) / k + sum * t * t;
    double a = 8 * t * sum;
    a = steep ? pi / 2 - a : a;
    a = x < 0 ? pi - a : a;
    return y < 0 ? -a : a;
}

typedef struct turning {
    double w, leftover;
} turning;

static void turn_of(double w, double *c, double *s)
{
    const pe_dd angle = { w, 0 };
    pe_sincos(&angle, 1, s, c);
}

/* The pair of channels a, b: columns of the table. */
static turning follow(const pe_subject *s, int64_t n, int64_t a, int64_t b)
{
    turning t = { 0, 1 };
    double size = 0;
    for (int64_t p = 0; p < n; p++) {
        const double x = s->table[p * s->d + a], y = s->table[p * s->d + b];
        size += x * x + y * y;
    }
    if (!(size > 0)) {
        t.leftover = 0; /* zeros stand still */
        return t;
    }
    for (int64_t lag = 1; lag <= n / 2 || lag == 1; lag *= 2) {
        const double before = t.w;
        double re = 0, im = 0, moved = 0, left = 0, c, sine;
        for (int64_t p = 0; p + lag < n; p++) {
            const double *z = s->table + p * s->d, *y = z + lag * s->d;
            re += y[a] * z[a] + y[b] * z[b];
            im += y[b] * z[a] - y[a] * z[b];
        }
        turn_of(t.w * (double)lag, &c, &sine);
        t.w += angle_of(re * c + im * sine, im * c - re * sine) / (double)lag;
        turn_of(t.w * (double)lag, &c, &sine);
        for (int64_t p = 0; p + lag < n; p++) {
            const double *z = s->table + p * s->d, *y = z + lag * s->d;
            const double ex = y[a] - (c * z[a] - sine * z[b]), ey = y[b] - (sine * z[a] + c * z[b]);
            left += ex * ex + ey * ey;
            moved += (y[a] - z[a]) * (y[a] - z[a]) + (y[b] - z[b]) * (y[b] - z[b]);
        }
        const double rest = moved > 1e-24 * size ? sqrt(left / moved) : 0;
        if (rest > 0.5 && lag > 1 && t.leftover < 0.1) { /* a pair, but no longer coherent at this lag */
            t.w = before;
            break;
        }
        t.leftover = lag == 1 ? rest : pe_min(t.leftover, rest);
    }
    return t;
}

/* How many of the pairs of a layout turn. */
static posenc_status try_layout(const pe_subject *s, int64_t n, pe_pairing *p, int64_t *good, pe_pace *pace)
{
    posenc_status st = PE_OK;
    *good = 0;
    for (int64_t j = 0; j < p->n && !st; j++) {
        const turning t = follow(s, n, pe_pair_first(p, j), pe_pair_second(p, j));
        p->w[j] = t.w;
        p->leftover[j] = t.leftover;
        *good += t.leftover < 0.1;
        st = pe_pace_add(pace, n * 60);
    }
    return st;
}

posenc_status pe_pairing_find(const pe_subject *s, double *storage, pe_pairing *out, pe_pace *pace)
{
    const int64_t n = s->n < MOST_ROWS ? s->n : MOST_ROWS, half = s->d / 2;
    posenc_status st;
    int64_t split, interleaved = 0;
    *out = (pe_pairing){ .looked = true, .layout = PE_PAIRS_SPLIT, .n = half, .w = storage, .leftover = storage + half };
    if (s->d % 2 || n < 3 || !half) {
        *out = (pe_pairing){ .looked = true, .layout = PE_UNPAIRED };
        return PE_OK;
    }
    if ((st = try_layout(s, n, out, &split, pace)))
        return st;
    if (s->kind != PE_ROTARY && split * 10 < half * 9) {
        out->layout = PE_PAIRS_INTERLEAVED;
        if ((st = try_layout(s, n, out, &interleaved, pace)))
            return st;
        if (interleaved * 10 < half * 9)
            *out = (pe_pairing){ .looked = true, .layout = PE_UNPAIRED };
    }
    return PE_OK;
}
