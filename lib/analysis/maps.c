/* maps.c - exact and least-squares maps between rows. */
#include "analysis/maps.h"

#include <stdlib.h>
#include <string.h>

void pe_turns_of(const pe_pairing *pairs, double k, double *cosine, double *sine)
{
    for (int64_t j = 0; j < pairs->n; j++) {
        const pe_dd angle = pe_two_prod(pairs->w[j], k);
        pe_sincos(&angle, 1, &sine[j], &cosine[j]);
    }
}

void pe_turn_row(const pe_pairing *pairs, const double *cosine, const double *sine, const double *row, double *out)
{
    for (int64_t j = 0; j < pairs->n; j++) {
        const int64_t a = pe_pair_first(pairs, j), b = pe_pair_second(pairs, j);
        out[a] = cosine[j] * row[a] - sine[j] * row[b];
        out[b] = sine[j] * row[a] + cosine[j] * row[b];
    }
}

static bool kept_for_test(const pe_fit *f, int64_t i) { return i * 8 / f->n % 4 == 2; }

posenc_status pe_fit_begin(pe_fit *f, const pe_subject *s, int64_t first, int64_t n, pe_pace *pace, posenc_error *err)
{
    const int64_t d = s->d;
    *f = (pe_fit){ .s = s, .first = first, .n = n, .d = d };
    f->memory = f->rows = malloc((size_t)(n * d + d + 4 * d * d) * sizeof(double));
    if (!f->memory)
        return pe_no_memory("memory", err);
    f->values = f->rows + n * d;
    f->vectors = f->values + d;
    f->map = f->vectors + d * d;
    f->work = f->map + d * d;
    for (int64_t i = 0; i < n; i++)
        if (!kept_for_test(f, i))
            memcpy(f->rows + f->fitted++ * d, s->table + (first + i) * d, (size_t)d * sizeof(double));
    const posenc_status st = pe_singular(f->rows, f->fitted, d, f->values, f->vectors, pace, err);
    while (!st && f->rank < d && f->values[f->rank] > 1e-7 * f->values[0]) /* squared, 1e-14: less is rounding */
        f->rank++;
    return st;
}

/* map = V S^-2 V^T X^T Y over the singular vectors that count. */
posenc_status pe_fit_map(pe_fit *f, int64_t k, pe_pace *pace)
{
    const int64_t d = f->d;
    double *product = f->work, *turned = f->work + d * d;
    posenc_status st = PE_OK;
    memset(product, 0, (size_t)(d * d) * sizeof *product); /* X^T Y */
    for (int64_t i = 0; i < f->n && !st; i++) {
        const double *x = f->s->table + (f->first + i) * d, *y = x + k * d;
        for (int64_t c = 0; c < d && !st && !kept_for_test(f, i); c++) {
            pe_add_times(product + c * d, y, x[c], d);
            st = pe_pace_add(pace, d / 4 + 4);
        }
    }
    st = st ? st : pe_product(f->vectors, product, f->rank, d, d, turned, pace);
    memset(f->map, 0, (size_t)(d * d) * sizeof *f->map);
    for (int64_t r = 0; r < f->rank && !st; r++) {
        const double scale = 1 / (f->values[r] * f->values[r]);
        for (int64_t c = 0; c < d && !st; c++) {
            pe_add_times(f->map + c * d, turned + r * d, f->vectors[r * d + c] * scale, d);
            st = pe_pace_add(pace, d / 4 + 4);
        }
    }
    return st;
}

posenc_status pe_fit_score(pe_fit *f, int64_t k, bool test, pe_score *score, pe_pace *pace)
{
    const int64_t d = f->d;
    double *mean = f->work, *out = f->work + d;
    posenc_status st = PE_OK;
    *score = (pe_score){ 0 };
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t i = 0; i < f->n; i++)
        if (kept_for_test(f, i) == test) {
            pe_add_times(mean, f->s->table + (f->first + i + k) * d, 1, d);
            score->rows++;
        }
    for (int64_t c = 0; c < d; c++)
        mean[c] /= score->rows ? (double)score->rows : 1;
    for (int64_t i = 0; i < f->n && !st; i++) {
        const double *x = f->s->table + (f->first + i) * d, *y = x + k * d;
        if (kept_for_test(f, i) != test)
            continue;
        st = pe_product(x, f->map, 1, d, d, out, pace);
        score->left += pe_distance2(y, out, d);
        score->total += pe_distance2(y, mean, d);
        score->size += pe_dot(y, y, d);
    }
    return st;
}

void pe_fit_fini(pe_fit *f)
{
    free(f->memory);
    *f = (pe_fit){ 0 };
}
