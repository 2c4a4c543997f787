/* bands.c - sines and cosines of a grid on bands of frequencies, as Perceiver and timm have them: [height, width, 2, bands].
 *
 * in_pixels: bands are pi times steps from 1 to max_res / 2, so the fastest band tells max_res; otherwise the ladder of a
 * temperature over places, which the first place from 0 tells. */
#include "analysis/identify.h"

#include "core/elementary.h"

#include <math.h>

static void try_bands(pe_search *s, bool pixels, bool linear, double value, const double *reference, double offset)
{
    const posenc_tensor *t = s->table;
    for (int single = 0; single < 2 && !pe_exact_found(s); single++) {
        pe_guess w = pe_guess_begin(s, "fourier_grid");
        pe_guess_int(&w, "height", t->shape[0]);
        pe_guess_int(&w, "width", t->shape[1]);
        pe_guess_int(&w, "num_bands", t->shape[3]);
        if (linear)
            pe_guess_flag(&w, "linear_bands", true);
        if (!pixels)
            pe_guess_flag(&w, "in_pixels", false);
        pe_guess_real(&w, pixels ? "max_res" : "temperature", value);
        if (reference)
            pe_guess_reals(&w, "ref_feat_shape", reference, 2);
        if (offset != 0)
            pe_guess_real(&w, "grid_offset", offset);
        if (single)
            pe_guess_text(&w, "compute_dtype", "float32");
        if (!pe_try(s, &w))
            return;
    }
}

/* Element of the row's axis in row y. */
static double at(const pe_search *s, int64_t y, int64_t band)
{
    const posenc_tensor *t = s->table;
    return s->view[0].x[y * t->shape[1] * 2 * t->shape[3] + band];
}

/* The whole max_res whose bands give the column of places -1 .. 1. */
static double fastest(pe_search *s, bool sine, bool linear)
{
    enum { ROWS = 32 };
    const int64_t rows = s->table->shape[0], last = s->table->shape[3] - 1, look[] = { last, 1, last / 2 };
    double best = INFINITY, found = 0;
    for (int64_t m = 2; m <= 4096 && !s->status; m++) {
        double sum = 0;
        for (int64_t k = 0; k < 3 && sum < best; k++) {
            const double part = (double)look[k] / (double)last, end = (double)m / 2;
            const double band = pe_pi.hi * (linear ? 1 + part * (end - 1) : pe_pow(end, part));
            for (int64_t y = 0; y < rows && y < ROWS && sum < best; y++) {
                double c, v;
                pe_cis((2 * (double)y / (double)(rows - 1) - 1) * band, &c, &v);
                const double off = at(s, y, look[k]) - (sine ? v : c);
                sum += off * off;
            }
        }
        if (sum < best - 1e-9)
            best = sum, found = (double)m;
        s->status = pe_pace_add(&s->pace, 2000);
    }
    return found;
}

void pe_find_bands(pe_search *s)
{
    const posenc_tensor *t = s->table;
    if (t->rank != 4 || t->shape[2] != 2 || t->shape[0] < 2 || t->shape[3] < 2)
        return;
    const int64_t bands = t->shape[3];
    for (int sine = 0; sine < 2 && !s->status && !pe_exact_found(s); sine++) {
        for (int linear = 0; linear < 2; linear++)
            try_bands(s, true, linear, fastest(s, sine, linear), NULL, 0);
        /* places 0, 1, ... or shifted by a part of one, perhaps to the scale of another grid: the first band, of
         * frequency 1, turns by the step from row to row */
        pe_wave wave[2];
        double *x = pe_scratch(s, (size_t)t->shape[0], sizeof *x);
        if (!x)
            return;
        for (int64_t k = 0; k < 2; k++) {
            for (int64_t y = 0; y < t->shape[0]; y++)
                x[y] = at(s, y, k);
            wave[k] = pe_wave_column(x, (size_t)t->shape[0], s->allowed, s->grain);
        }
        if (!wave[0].known || !wave[1].known)
            continue;
        const double ratio = wave[0].w / wave[1].w, base = pe_exp(pe_log(ratio) * (double)bands);
        const double temperature = pe_nice(base, 1e-4 * base), step = wave[0].w;
        const double reference[] = { rint(step * (double)t->shape[0]), rint(step * (double)t->shape[0]) };
        const double first = wave[0].phase + (sine ? pe_pi.hi / 2 : 0), offset = pe_nice(fabs(first) / step, 1e-4);
        try_bands(s, false, false, temperature, NULL, 0);
        try_bands(s, false, false, temperature, fabs(step - 1) > 1e-6 ? reference : NULL, offset);
    }
}
