/* pivot.c - which node's column of a projector comes next. */
#include "linalg/pivot.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>

posenc_status pe_remainder_init(pe_remainder *s, pe_canonical *w, const pe_block_vector *basis, int64_t m, int width,
                                posenc_error *err)
{
    posenc_status st = PE_OK;
    s->w = w;
    s->nblocks = 0;
    s->memory = NULL;
    s->v = s->few.v;
    s->a = s->few.a;
    s->b = s->few.b;
    if (m > (int64_t)PE_LEN(s->few.v)) {
        s->memory = malloc((size_t)m * (sizeof *s->v + (size_t)width * sizeof *s->a + sizeof *s->b));
        if (!s->memory)
            return pe_no_memory("memory", err);
        s->b = s->memory;
        s->v = (double **)(s->b + m);
        s->a = (double *)(s->v + m);
    }
    for (int64_t j = 0; j < m && !st; j++) {
        const int64_t c = basis[j].component;
        s->v[j] = basis[j].v;
        if (!j || c != basis[j - 1].component)
            s->b[s->nblocks++] = (pe_block){ .begin = w->begin[c], .end = w->begin[c + 1], .first = j };
        s->b[s->nblocks - 1].size++;
        s->b[s->nblocks - 1].rank++;
        st = pe_pace_add(w->pace, 24);
    }
    return st;
}

void pe_remainder_fini(pe_remainder *s)
{
    free(s->memory);
    s->memory = NULL;
}

/* The largest diagonal entry: its place and block. */
static posenc_status find_largest(pe_remainder *s, pe_pivot *out, posenc_error *err)
{
    const double *d = s->w->diagonal;
    double max = 0;
    posenc_status st = PE_OK;
    *out = (pe_pivot){ .place = -1 };
    for (int64_t i = 0; i < s->nblocks && !st; i++) {
        for (int64_t p = s->b[i].begin; p < s->b[i].end && s->b[i].rank; p++)
            if (d[p] > max) {
                max = d[p];
                *out = (pe_pivot){ .b = &s->b[i], .place = p };
            }
        st = pe_pace_add(s->w->pace, 2 * (s->b[i].end - s->b[i].begin) + 4);
    }
    if (!st && out->place < 0)
        return posenc_fail(err, PE_INTERNAL, "INTERNAL", "eigenvectors", "zero or not a number", "unit vectors");
    return st;
}

static posenc_status need_colours(pe_canonical *w, posenc_error *err)
{
    if (w->colour)
        return PE_OK;
    int32_t *colour = malloc((size_t)(w->csr->n + 1) * sizeof *colour);
    posenc_status st = colour ? pe_refine(w->csr, colour, w->pace, err) : pe_no_memory("memory", err);
    if (st)
        free(colour);
    else
        w->colour = colour;
    return st;
}

/* The candidate of smallest colour, then id; and whether all of that colour give its column. */
static posenc_status choose_by_colour(pe_remainder *s, double low, pe_pivot *out, posenc_error *err)
{
    posenc_status st = need_colours(s->w, err);
    pe_pace *pace = s->w->pace;
    const int32_t *node = s->w->node, *colour = s->w->colour;
    const double *d = s->w->diagonal;
    for (int64_t i = 0; i < s->nblocks && !st; i++) {
        pe_block *b = &s->b[i];
        for (int64_t p = b->begin; p < b->end && b->rank && !st; p++) {
            const int32_t mine = colour[node[p]], best = colour[node[out->place]];
            if (d[p] >= low && (mine < best || (mine == best && node[p] < node[out->place])))
                *out = (pe_pivot){ b, p, true };
            st = pe_pace_add(pace, 8);
        }
        st = st ? st : pe_pace_add(pace, 4);
    }
    for (int64_t i = 0; i < s->nblocks && out->decided && !st; i++) {
        const pe_block *b = &s->b[i];
        for (int64_t p = b->begin; p < b->end && b->rank && out->decided && !st; p++) {
            const bool equal = d[p] >= low && colour[node[p]] == colour[node[out->place]];
            out->decided = !equal || (b == out->b && s->same(s, b, out->place, p));
            st = pe_pace_add(pace, equal ? 8 * b->size : 4);
        }
        st = st ? st : pe_pace_add(pace, 4);
    }
    return st;
}

posenc_status pe_pivot_choose(pe_remainder *s, pe_pivot *out, posenc_error *err)
{
    pe_pivot largest;
    posenc_status st = find_largest(s, &largest, err);
    if (st)
        return st;
    pe_pace *pace = s->w->pace;
    const int32_t *node = s->w->node;
    const double *d = s->w->diagonal, max = d[largest.place], low = (1 - 1e-6) * max;
    /* an entry that is off by blur makes a square that is off by 2 blur sqrt(max), and there are two to compare */
    const double margin = 1e-8 * max + 4 * s->w->blur * sqrt(max);
    bool alike = true, narrow = false; /* alike: all candidates give the column of the largest */
    *out = (pe_pivot){ .place = -1, .decided = true };
    for (int64_t i = 0; i < s->nblocks; i++) {
        pe_block *b = &s->b[i];
        for (int64_t p = b->begin; p < b->end && b->rank; p++) {
            if ((st = pe_pace_add(pace, 3)))
                return st;
            if (d[p] <= low - margin)
                continue;
            if (d[p] >= low && (out->place < 0 || node[p] < node[out->place]))
                *out = (pe_pivot){ b, p, true };
            const bool close = d[p] < low + margin;
            if ((alike || close) && p != largest.place) {
                if (b != largest.b || !s->same(s, b, largest.place, p)) {
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
    /* where the blur is wider than the band of candidates, who is one is chance, and colours would not help */
    if (!alike && !(narrow && margin > 1e-6 * max))
        st = choose_by_colour(s, low, out, err);
    out->decided = out->decided && !narrow;
    return st;
}
