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

/* A node whose column may be the next one. */
typedef struct candidate {
    pe_block *b;
    int64_t place;
} candidate;

typedef struct ballot {
    candidate few[64], *c; /* (n) by block and place */
    int64_t n;
    void *memory; /* of c where they are many */
} ballot;

static posenc_status gather(pe_remainder *s, double low, ballot *t, posenc_error *err)
{
    const double *d = s->w->diagonal;
    posenc_status st = PE_OK;
    int64_t most = (int64_t)PE_LEN(t->few);
    t->n = 0;
    t->c = t->few;
    t->memory = NULL;
    for (int pass = 0; pass < 2 && !st; pass++) {
        for (int64_t i = 0; i < s->nblocks && !st; i++) {
            pe_block *b = &s->b[i];
            for (int64_t p = b->begin; p < b->end && b->rank; p++)
                if (d[p] >= low) {
                    if (t->n < most)
                        t->c[t->n] = (candidate){ b, p };
                    t->n++;
                }
            st = pe_pace_add(s->w->pace, 2 * (b->end - b->begin) + 4);
        }
        if (st || t->n <= most)
            return st;
        most = t->n;
        t->n = 0;
        t->c = t->memory = malloc((size_t)most * sizeof *t->c);
        if (!t->c)
            return pe_no_memory("memory", err);
    }
    return st;
}

/* Leaves the candidates that say least. */
static posenc_status keep_smallest(ballot *t, const uint64_t *view, const int32_t *colour, const int32_t *node,
                                   pe_pace *pace)
{
    posenc_status st = PE_OK;
    int64_t n = 0;
    uint64_t least = 0;
    for (int64_t i = 0; i < t->n && !st; i++) {
        const int32_t v = node[t->c[i].place];
        const uint64_t mine = view ? view[v] : (uint64_t)colour[v];
        if (!n || mine < least) {
            n = 0;
            least = mine;
        }
        if (mine == least)
            t->c[n++] = t->c[i];
        st = pe_pace_add(pace, 4);
    }
    t->n = n;
    return st;
}

/* The candidate of smallest view, then colour, then id; and whether all of that view and colour give its column. Where
 * symmetries of the graph carry those of one view to each other, they have one colour. */
static posenc_status choose_by_colour(pe_remainder *s, double low, pe_pivot *out, posenc_error *err)
{
    pe_canonical *w = s->w;
    const int32_t *node = w->node;
    ballot t;
    posenc_status st = gather(s, low, &t, err);
    bool one = false;
    if (!st && !w->csr->weight && !(st = pe_views(w)) && !(st = keep_smallest(&t, w->view, NULL, node, w->pace))) {
        one = t.n <= (int64_t)PE_LEN(t.few);
        for (int64_t i = 1; i < t.n && one && !st; i++) {
            one = pe_mirrored(w, node[t.c[0].place], node[t.c[i].place]);
            st = pe_pace_add(w->pace, 500);
        }
    }
    if (!st && !one && !(st = need_colours(w, err)))
        st = keep_smallest(&t, NULL, w->colour, node, w->pace);
    for (int64_t i = 0; i < t.n && !st; i++) {
        if (!i || node[t.c[i].place] < node[out->place])
            *out = (pe_pivot){ t.c[i].b, t.c[i].place, true };
        st = pe_pace_add(w->pace, 4);
    }
    for (int64_t i = 0; i < t.n && out->decided && !st; i++) {
        out->decided = t.c[i].b == out->b && s->same(s, out->b, out->place, t.c[i].place);
        st = pe_pace_add(w->pace, 8 * out->b->size);
    }
    free(t.memory);
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
        if ((st = pe_pace_add(pace, 2 * (b->end - b->begin) + 4)))
            return st;
    }
    /* where the blur is wider than the band of candidates, who is one is chance, and colours would not help */
    if (!alike && !(narrow && margin > 1e-6 * max))
        st = choose_by_colour(s, low, out, err);
    out->decided = out->decided && !narrow;
    return st;
}
