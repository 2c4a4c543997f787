/* unitary.c - the canonical basis of a complex eigenspace. */
#include "linalg/unitary.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is left of the space on one component: vectors v[first] .. v[first + size - 1], whose outer products sum to the
 * projector; they are orthonormal until the first column is taken out. */
typedef struct block {
    int64_t begin, end; /* places */
    int64_t first, size, rank;
} block;

typedef struct space {
    pe_canonical *w;
    double **v; /* (m) */
    double *a;  /* (2 m) scratch */
    block *b;
    int64_t nblocks;
} space;

enum { CHUNK = 4096 }; /* places that are worked on between two looks at the pace */

static posenc_status measure(space *s, const block *b)
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
static bool same_column(const space *s, const block *b, int64_t p, int64_t q)
{
    double dot = 0;
    for (int64_t j = b->first; j < b->first + b->size; j++) {
        const double *x = s->v[j] + 2 * (p - b->begin), *y = s->v[j] + 2 * (q - b->begin);
        dot += x[0] * y[0] + x[1] * y[1];
    }
    const double *d = s->w->diagonal; /* the columns differ by the root of twice what is missing to 1: 4.5e-7 */
    return dot >= (1 - 1e-13) * sqrt(d[p]) * sqrt(d[q]);
}

typedef struct pivot {
    block *b;
    int64_t place;
    bool decided; /* by structure: no id and no narrow margin had a say */
} pivot;

/* The largest diagonal entry: its place and block. */
static posenc_status find_largest(space *s, pivot *out, posenc_error *err)
{
    const double *d = s->w->diagonal;
    double max = 0;
    posenc_status st = PE_OK;
    *out = (pivot){ .place = -1 };
    for (int64_t i = 0; i < s->nblocks && !st; i++) {
        for (int64_t p = s->b[i].begin; p < s->b[i].end && s->b[i].rank; p++)
            if (d[p] > max) {
                max = d[p];
                *out = (pivot){ .b = &s->b[i], .place = p };
            }
        st = pe_pace_add(s->w->pace, 2 * (s->b[i].end - s->b[i].begin) + 4);
    }
    if (!st && out->place < 0)
        return posenc_fail(err, PE_INTERNAL, "INTERNAL", "eigenvectors", "zero or not a number", "unit vectors");
    return st;
}

/* Node ids and a narrow margin decide among candidates only where colours do not; *out starts at the largest. */
static posenc_status choose(space *s, pivot *out, posenc_error *err)
{
    posenc_status st = find_largest(s, out, err);
    if (st)
        return st;
    pe_pace *pace = s->w->pace;
    const int32_t *node = s->w->node;
    const double *d = s->w->diagonal;
    const pivot largest = *out;
    const double low = (1 - 1e-6) * d[largest.place], margin = 1e-8 * d[largest.place];
    bool alike = true, narrow = false; /* alike: all candidates give the column of the largest */
    *out = (pivot){ .place = -1, .decided = true };
    for (int64_t i = 0; i < s->nblocks; i++) {
        block *b = &s->b[i];
        for (int64_t p = b->begin; p < b->end && b->rank; p++) {
            if ((st = pe_pace_add(pace, 3)))
                return st;
            if (d[p] <= low - margin)
                continue;
            if (d[p] >= low && (out->place < 0 || node[p] < node[out->place]))
                *out = (pivot){ b, p, true };
            const bool close = d[p] < low + margin;
            if ((alike || close) && p != largest.place) {
                if (b != largest.b || !same_column(s, b, largest.place, p)) {
                    alike = false;
                    narrow = narrow || close;
                }
                if ((st = pe_pace_add(pace, 8 * b->size)))
                    return st;
            }
        }
        if ((st = pe_pace_add(pace, 4)))
            return st;
    }
    if (alike)
        return PE_OK;
    if (!s->w->colour) {
        int32_t *colour = malloc((size_t)(s->w->csr->n + 1) * sizeof *colour);
        st = colour ? pe_refine(s->w->csr, colour, pace, err) : pe_no_memory("memory", err);
        if (st) {
            free(colour);
            return st;
        }
        s->w->colour = colour;
    }
    const int32_t *colour = s->w->colour;
    for (int64_t i = 0; i < s->nblocks; i++) {
        block *b = &s->b[i];
        for (int64_t p = b->begin; p < b->end && b->rank; p++) {
            const int32_t mine = colour[node[p]], best = colour[node[out->place]];
            if (d[p] >= low && (mine < best || (mine == best && node[p] < node[out->place])))
                *out = (pivot){ b, p, true };
            if ((st = pe_pace_add(pace, 8)))
                return st;
        }
    }
    for (int64_t i = 0; i < s->nblocks && !narrow && out->decided; i++) {
        const block *b = &s->b[i];
        for (int64_t p = b->begin; p < b->end && b->rank && out->decided; p++) {
            const bool equal = d[p] >= low && colour[node[p]] == colour[node[out->place]];
            out->decided = !equal || (b == out->b && same_column(s, b, out->place, p));
            if ((st = pe_pace_add(pace, equal ? 8 * b->size : 4)))
                return st;
        }
    }
    out->decided = out->decided && !narrow;
    return PE_OK;
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
static posenc_status take(space *s, block *b, int64_t place, double *column)
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
    posenc_status st = PE_OK;
    space s = { .w = w,
                .v = malloc((size_t)m * sizeof *s.v),
                .a = malloc((size_t)m * 2 * sizeof *s.a),
                .b = malloc((size_t)m * sizeof *s.b) };
    if (!s.v || !s.a || !s.b) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t j = 0; j < m; j++) {
        int64_t c = basis[j].component;
        s.v[j] = basis[j].v;
        if (!j || c != basis[j - 1].component)
            s.b[s.nblocks++] = (block){ .begin = w->begin[c], .end = w->begin[c + 1], .first = j };
        s.b[s.nblocks - 1].size++;
        s.b[s.nblocks - 1].rank++;
        if ((st = pe_pace_add(w->pace, 24)))
            goto done;
    }
    for (int64_t i = 0; i < s.nblocks; i++)
        if ((st = measure(&s, &s.b[i])))
            goto done;
    bool decided = true;
    for (int64_t t = 0; t < count; t++) {
        pivot p;
        if ((st = choose(&s, &p, err)))
            goto done;
        decided = decided && p.decided;
        determined[t] = decided;
        if ((st = take(&s, p.b, p.place, out + 2 * (t * stride + (p.b->begin - origin)))))
            goto done;
    }
done:
    free(s.v);
    free(s.a);
    free(s.b);
    return st;
}
