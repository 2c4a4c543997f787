/* unitary.c - the canonical basis of a complex eigenspace. */
#include "linalg/unitary.h"
#include "linalg/pivot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 }; /* places that are worked on between two looks at the pace */

static posenc_status measure(pe_remainder *s, const pe_block *b)
{
    double *d = s->w->diagonal + b->begin;
    int64_t n = b->end - b->begin;
    for (int64_t from = 0; from < n; from += CHUNK) {
        int64_t to = from + CHUNK < n ? from + CHUNK : n;
        memset(d + from, 0, (size_t)(to - from) * sizeof *d);
        for (int64_t j = b->first; j < b->first + b->size; j++) {
            for (int64_t p = from; p < to; p++)
                d[p] += s->v[j][2 * p] * s->v[j][2 * p] + s->v[j][2 * p + 1] * s->v[j][2 * p + 1];
            posenc_status st = pe_pace_add(s->w->pace, 4 * (to - from) + 16);
            if (st)
                return st;
        }
    }
    return PE_OK;
}

/* Whether the pivots at places p and q of block b give the same column: R_pq = sqrt(R_pp R_qq), real. */
static bool same_column(const pe_remainder *s, const pe_block *b, int64_t p, int64_t q)
{
    double dot = 0;
    for (int64_t j = b->first; j < b->first + b->size; j++) {
        const double *x = s->v[j] + 2 * (p - b->begin), *y = s->v[j] + 2 * (q - b->begin);
        dot += x[0] * y[0] + x[1] * y[1];
    }
    const double *d = s->w->diagonal; /* the columns differ by the root of twice what is missing to 1: 4.5e-7 */
    return dot >= (1 - 1e-13) * sqrt(d[p]) * sqrt(d[q]);
}

/* column += f v, complex f. */
static void add(int64_t from, int64_t to, double re, double im, const double *v, double *column)
{
    for (int64_t p = from; p < to; p++) {
        column[2 * p] += re * v[2 * p] - im * v[2 * p + 1];
        column[2 * p + 1] += re * v[2 * p + 1] + im * v[2 * p];
    }
}

/* Writes the pivot's column c = sum_j v_j conj(a_j) / |a|, a_j the entry of v_j at the pivot, and takes it out of the block:
 * v_j loses c a_j / |a|. */
static posenc_status take(pe_remainder *s, pe_block *b, int64_t place, double *column)
{
    posenc_status st = PE_OK;
    const int64_t n = b->end - b->begin, r = b->size, u = place - b->begin;
    double **v = s->v + b->first, *a = s->a, norm = 0, length = 0;
    for (int64_t j = 0; j < r; j++) {
        a[2 * j] = v[j][2 * u];
        a[2 * j + 1] = v[j][2 * u + 1];
        norm += a[2 * j] * a[2 * j] + a[2 * j + 1] * a[2 * j + 1];
    }
    norm = sqrt(norm);
    for (int64_t j = 0; j < 2 * r; j++)
        a[j] /= norm;
    for (int64_t from = 0; from < n; from += CHUNK) {
        const int64_t to = from + CHUNK < n ? from + CHUNK : n;
        for (int64_t j = 0; j < r; j++) {
            add(from, to, a[2 * j], -a[2 * j + 1], v[j], column);
            if ((st = pe_pace_add(s->w->pace, 4 * (to - from) + 16)))
                return st;
        }
        for (int64_t p = 2 * from; p < 2 * to; p++)
            length += column[p] * column[p];
    }
    column[2 * u + 1] = 0; /* up to rounding it is */
    length = sqrt(length);
    for (int64_t from = 0; from < n; from += CHUNK) {
        const int64_t to = from + CHUNK < n ? from + CHUNK : n;
        for (int64_t p = 2 * from; p < 2 * to; p++)
            column[p] /= length;
        for (int64_t j = 0; j < r && b->rank > 1; j++) {
            add(from, to, -a[2 * j], -a[2 * j + 1], column, v[j]);
            if ((st = pe_pace_add(s->w->pace, 4 * (to - from) + 16)))
                return st;
        }
    }
    b->rank--;
    return b->rank ? measure(s, b) : PE_OK;
}

posenc_status pe_unitary_columns(pe_canonical *w, const pe_block_vector *basis, int64_t m, int64_t count, double *out,
                                 int64_t stride, int64_t origin, uint8_t *determined, posenc_error *err)
{
    pe_remainder s = { .same = same_column };
    posenc_status st = pe_remainder_init(&s, w, basis, m, 2, err);
    for (int64_t i = 0; i < s.nblocks && !st; i++)
        st = measure(&s, &s.b[i]);
    bool decided = true;
    for (int64_t t = 0; t < count && !st; t++) {
        pe_pivot p;
        if ((st = pe_pivot_choose(&s, &p, err)))
            break;
        decided = decided && p.decided;
        determined[t] = decided;
        st = take(&s, p.b, p.place, out + 2 * (t * stride + (p.b->begin - origin)));
    }
    pe_remainder_fini(&s);
    return st;
}
