/* canonical.c - stable colours of a graph, and the canonical basis of an eigenspace. */
#include "linalg/canonical.h"
#include "core/memory.h"
#include "core/params.h"
#include "linalg/pivot.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- colours ---- */

/* Cells are runs of `order`; a cell is named by where it starts. A cell in the queue splits others by what their nodes
 * see of it. Everything that decides (the order of the queue, of the pieces of a split, which piece may stay out of the
 * queue) is a matter of starts, sizes and sums over neighbours, so no node id ever matters. */
typedef struct partition {
    const pe_csr *c;
    int32_t *order, *place, *cell; /* (n) nodes by cell; where a node stands; its cell */
    int32_t *size, *hit;           /* (n) by cell: nodes; nodes touched by the splitter, which stand at the end */
    uint64_t *sum;                 /* (n) by node: what it sees of the splitter */
    int32_t *queue, *touched, *splitter;
    bool *queued; /* (n) by cell */
    struct keyed {
        uint64_t key;
        int32_t node;
    } * piece, *other; /* (n) the nodes of a split, and scratch to sort them */
    int64_t head, waiting;
    uint64_t one; /* scramble(1, false) */
    pe_pace *pace;
} partition;

enum { FEW = 16 }; /* are sorted by insertion */

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const struct keyed *)a)->key, y = ((const struct keyed *)b)->key;
    return (x > y) - (x < y);
}

static int by_start(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* What a neighbour over an edge of weight w adds: any injection will do that makes equal sums of unequal
 * multisets a coincidence of 64 bits (splitmix64's finaliser). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t scramble(double w, bool loop)
{
    uint64_t x;
    memcpy(&x, &w, 8);
    return mix(x + (loop ? 0x9e3779b97f4a7c15u : 0x3c6ef372fe94f82au));
}

static void enqueue(partition *p, int32_t cell)
{
    const int64_t at = p->head + p->waiting++;
    p->queue[at < p->c->n ? at : at - p->c->n] = cell;
    p->queued[cell] = true;
}

static void touch(partition *p, int32_t u, uint64_t what, int32_t *ntouched)
{
    int32_t cell = p->cell[u], end = cell + p->size[cell] - p->hit[cell];
    if (p->place[u] < end) { /* not touched yet: move it to the end of its cell */
        int32_t other = p->order[end - 1], from = p->place[u];
        if (!p->hit[cell]++)
            p->touched[(*ntouched)++] = cell;
        p->order[from] = other;
        p->place[other] = from;
        p->order[end - 1] = u;
        p->place[u] = end - 1;
    }
    p->sum[u] += what;
}

/* Splits a touched cell: untouched nodes first, then by ascending sums. All pieces but the largest join the queue; all
 * but the first when the cell itself waits there. */
static posenc_status split(partition *p, int32_t cell)
{
    posenc_status st = PE_OK;
    int32_t size = p->size[cell], hit = p->hit[cell], rest = size - hit, largest = cell;
    bool same = true;
    p->hit[cell] = 0;
    for (int32_t i = 0; i < hit; i++) {
        int32_t u = p->order[cell + rest + i];
        p->piece[i] = (struct keyed){ p->sum[u], u };
        p->sum[u] = 0;
        if (hit > FEW && (st = pe_pace_add(p->pace, 16)))
            return st;
        same = same && p->piece[i].key == p->piece[0].key;
    }
    if (same && !rest)
        return PE_OK;
    if (!same && hit > FEW && (st = pe_sort(hit, sizeof *p->piece, p->piece, p->other, by_key, p->pace)))
        return st;
    for (int32_t i = 1; i < hit && hit <= FEW && !same; i++) {
        const struct keyed x = p->piece[i];
        int32_t k = i;
        for (; k && p->piece[k - 1].key > x.key; k--)
            p->piece[k] = p->piece[k - 1];
        p->piece[k] = x;
    }
    if (rest)
        p->size[cell] = rest;
    for (int32_t i = 0, start = 0; i < hit; i++) {
        int32_t at = cell + rest + i, u = p->piece[i].node;
        if (!i || p->piece[i].key != p->piece[i - 1].key) {
            start = at;
            p->size[start] = 0;
        }
        p->order[at] = u;
        p->place[u] = at;
        p->cell[u] = start;
        p->size[start]++;
        if ((st = pe_pace_add(p->pace, 16)))
            return st;
    }
    for (int32_t s = cell; s < cell + size && !st; s += p->size[s]) {
        if (p->size[s] > p->size[largest])
            largest = s;
        st = pe_pace_add(p->pace, 4);
    }
    int32_t out = p->queued[cell] ? cell : largest;
    for (int32_t s = cell; s < cell + size && !st; s += p->size[s]) {
        if (s != out)
            enqueue(p, s);
        st = pe_pace_add(p->pace, 16);
    }
    return st;
}

posenc_status pe_refine(const pe_csr *c, int32_t *colour, pe_pace *pace, posenc_error *err)
{
    size_t n = (size_t)c->n;
    if (!n)
        return PE_OK;
    posenc_status st = PE_OK;
    partition p = { .c = c, .cell = colour, .one = scramble(1, false), .pace = pace };
    p.piece = pe_work_memory(n * (2 * sizeof *p.piece + sizeof *p.sum + 7 * sizeof *p.order + sizeof *p.queued));
    if (!p.piece)
        return pe_no_memory("memory", err);
    p.other = p.piece + n;
    p.sum = (uint64_t *)(p.other + n);
    int32_t *ints = (int32_t *)(p.sum + n);
    p.queued = (bool *)(ints + 7 * n);
    p.order = ints;
    p.place = ints + n;
    p.size = ints + 2 * n;
    p.hit = ints + 3 * n;
    p.queue = ints + 4 * n;
    p.touched = ints + 5 * n;
    p.splitter = ints + 6 * n;
    for (int32_t i = 0; i < c->n; i++) {
        p.order[i] = p.place[i] = i;
        p.cell[i] = p.hit[i] = 0;
        p.sum[i] = 0;
        p.queued[i] = false;
        if ((st = pe_pace_add(pace, 12)))
            goto done;
    }
    p.size[0] = (int32_t)n;
    enqueue(&p, 0); /* the cell of all nodes splits them by degree */
    for (; p.waiting && !st; p.waiting--) {
        int32_t cell = p.queue[p.head], size = p.size[cell], ntouched = 0;
        p.head = p.head + 1 < c->n ? p.head + 1 : 0;
        p.queued[cell] = false;
        if ((st = pe_pace_copy(pace, p.splitter, p.order + cell, (size_t)size * sizeof *p.splitter)))
            goto done;
        for (int32_t i = 0; i < size; i++) {
            int32_t v = p.splitter[i];
            for (int64_t a = c->ptr[v]; a < c->ptr[v + 1]; a++) {
                const bool one = !c->weight && c->col[a] != v;
                touch(&p, c->col[a], one ? p.one : scramble(c->weight ? c->weight[a] : 1, c->col[a] == v), &ntouched);
                if ((st = pe_pace_add(pace, 24)))
                    goto done;
            }
            if ((st = pe_pace_add(pace, 8)))
                goto done;
        }
        if (ntouched > FEW && (st = pe_sort(ntouched, sizeof *p.touched, p.touched, p.other, by_start, pace)))
            goto done;
        for (int32_t i = 1; i < ntouched && ntouched <= FEW; i++) {
            const int32_t x = p.touched[i];
            int32_t k = i;
            for (; k && p.touched[k - 1] > x; k--)
                p.touched[k] = p.touched[k - 1];
            p.touched[k] = x;
        }
        p.waiting--; /* the splitter has left: pieces of it may enter */
        for (int32_t i = 0; i < ntouched && !st; i++)
            st = split(&p, p.touched[i]);
        p.waiting++;
    }
done:
    free(p.piece);
    return st;
}

/* ---- views and symmetries ---- */

posenc_status pe_views(pe_canonical *w)
{
    enum { ROUNDS = 4, NODES = 1024 }; /* the first is the degree; nodes between two looks at the pace */
    const pe_csr *c = w->csr;
    uint64_t *view = w->views, *said = view + c->n;
    posenc_status st = PE_OK;
    if (w->view)
        return PE_OK;
    for (int round = 0; round < ROUNDS && !st; round++) {
        for (int64_t from = 0, to; from < c->n && !st; from = to) {
            to = from + NODES < c->n ? from + NODES : c->n;
            for (int64_t v = from; v < to; v++) {
                uint64_t sum = round ? 3 * said[v] : (uint64_t)(c->ptr[v + 1] - c->ptr[v]);
                for (int64_t a = c->ptr[v]; a < c->ptr[v + 1] && round; a++)
                    sum += c->col[a] == v ? mix(said[v]) : said[c->col[a]];
                view[v] = sum;
            }
            st = pe_pace_add(w->pace, 4 * (c->ptr[to] - c->ptr[from] + to - from));
        }
        for (int64_t from = 0, to; from < c->n && round + 1 < ROUNDS && !st; from = to) {
            to = from + NODES < c->n ? from + NODES : c->n;
            for (int64_t v = from; v < to; v++)
                said[v] = mix(view[v] + 0x9e3779b97f4a7c15u);
            st = pe_pace_add(w->pace, 4 * (to - from));
        }
    }
    w->view = st ? NULL : view;
    return st;
}

enum { MOVED = 64, DEGREE = 8 }; /* nodes that a symmetry moves; their neighbours */

typedef struct symmetry {
    const pe_csr *c;
    int32_t *other; /* (n) the image + 1; 0: stays */
    int64_t count;
    int32_t moved[MOVED]; /* a node and its image, side by side */
} symmetry;

static bool adjacent(const pe_csr *c, int32_t u, int32_t v)
{
    for (int64_t a = c->ptr[u]; a < c->ptr[u + 1]; a++)
        if (c->col[a] == v)
            return true;
    return false;
}

static bool exchange(symmetry *s, int32_t u, int32_t v)
{
    const pe_csr *c = s->c;
    const int64_t degree = c->ptr[u + 1] - c->ptr[u];
    if (s->count == MOVED || degree != c->ptr[v + 1] - c->ptr[v] || degree > DEGREE)
        return false;
    s->other[u] = v + 1;
    s->other[v] = u + 1;
    s->moved[s->count++] = u;
    s->moved[s->count++] = v;
    return true;
}

/* Neighbours of u alone and of v alone, which are exchanged, are exchanged too. */
static bool follow(symmetry *s, const uint64_t *view, int32_t u, int32_t v)
{
    const pe_csr *c = s->c;
    int32_t mine[DEGREE], its[DEGREE];
    int nmine = 0, nits = 0;
    for (int64_t a = c->ptr[u]; a < c->ptr[u + 1]; a++)
        if (!s->other[c->col[a]] && !adjacent(c, v, c->col[a]))
            mine[nmine++] = c->col[a];
    for (int64_t a = c->ptr[v]; a < c->ptr[v + 1]; a++)
        if (!s->other[c->col[a]] && !adjacent(c, u, c->col[a]))
            its[nits++] = c->col[a];
    bool good = nmine == nits;
    for (int i = 0; i < nmine && good; i++) {
        int k = i;
        while (k < nits && view[its[k]] != view[mine[i]])
            k++;
        good = k < nits && exchange(s, mine[i], its[k]);
        if (good)
            its[k] = its[i];
    }
    return good;
}

/* Nodes that symmetries exchange form trees: the parent + 1, 0 at the root. */
static int32_t root(const int32_t *orbit, int32_t v)
{
    while (orbit[v])
        v = orbit[v] - 1;
    return v;
}

/* What follows from exchanging u and v, if nothing else moves than it must; proven by looking at every edge of what moves.
 */
bool pe_mirrored(pe_canonical *w, int32_t u, int32_t v)
{
    const pe_csr *c = w->csr;
    symmetry s = { .c = c, .other = w->other };
    if (root(w->orbit, u) == root(w->orbit, v))
        return true;
    bool good = exchange(&s, u, v);
    for (int64_t i = 0; i < s.count && good; i += 2)
        good = follow(&s, w->view, s.moved[i], s.moved[i + 1]);
    for (int64_t i = 0; i < s.count && good; i++) {
        const int32_t from = s.moved[i], to = s.other[from] - 1;
        for (int64_t a = c->ptr[from]; a < c->ptr[from + 1] && good; a++) {
            const int32_t x = c->col[a];
            good = adjacent(c, to, s.other[x] ? s.other[x] - 1 : x);
        }
    }
    for (int64_t i = 0; i < s.count; i += 2) {
        const int32_t a = root(w->orbit, s.moved[i]), b = root(w->orbit, s.moved[i + 1]);
        if (good && a != b)
            w->orbit[a > b ? a : b] = (a > b ? b : a) + 1;
        s.other[s.moved[i]] = s.other[s.moved[i + 1]] = 0;
    }
    return good;
}

/* ---- the canonical basis ---- */

posenc_status pe_canonical_init(pe_canonical *w, const pe_csr *csr, const int64_t *begin, const int32_t *node, pe_pace *pace,
                                posenc_error *err)
{
    *w = (pe_canonical){ .csr = csr, .begin = begin, .node = node, .pace = pace };
    const size_t n = (size_t)csr->n + 1;
    const size_t size = n * (2 * sizeof *w->diagonal + 2 * sizeof *w->views + 2 * sizeof *w->other);
    if (!(w->diagonal = pe_work_memory(size)))
        return pe_no_memory("memory", err);
    posenc_status st = pe_pace_zero(pace, w->diagonal, size);
    if (st)
        return st;
    w->vector = w->diagonal + n;
    w->views = (uint64_t *)(w->vector + n);
    w->other = (int32_t *)(w->views + 2 * n);
    w->orbit = w->other + n;
    return PE_OK;
}

void pe_canonical_fini(pe_canonical *w)
{
    free(w->diagonal);
    free(w->colour);
    *w = (pe_canonical){ 0 };
}

enum { CHUNK = 4096 }; /* places that are worked on between two looks at the pace */

static posenc_status measure(pe_remainder *s, const pe_block *b)
{
    double *d = s->w->diagonal + b->begin;
    int64_t n = b->end - b->begin;
    for (int64_t from = 0; from < n; from += CHUNK) {
        int64_t to = from + CHUNK < n ? from + CHUNK : n;
        memset(d + from, 0, (size_t)(to - from) * sizeof *d);
        for (int64_t j = b->first; j < b->first + b->rank; j++) {
            for (int64_t p = from; p < to; p++)
                d[p] += s->v[j][p] * s->v[j][p];
            posenc_status st = pe_pace_add(s->w->pace, 2 * (to - from) + 16);
            if (st)
                return st;
        }
    }
    return PE_OK;
}

static bool same_column(const pe_remainder *s, const pe_block *b, int64_t p, int64_t q)
{
    double dot = 0;
    for (int64_t j = b->first; j < b->first + b->rank; j++)
        dot += s->v[j][p - b->begin] * s->v[j][q - b->begin];
    if (b->rank == 1)
        return dot > 0;
    const double *d = s->w->diagonal; /* the columns differ by the root of twice what is missing to 1: 4.5e-7 */
    return dot >= (1 - 1e-13) * sqrt(d[p]) * sqrt(d[q]);
}

/* Writes the pivot's column and takes it out of the block: a reflection that maps the pivot's coefficients a to a
 * coordinate turns the basis into the column and a basis of what is left. */
static posenc_status take(pe_remainder *s, pe_block *b, int64_t place, double *column)
{
    posenc_status st = PE_OK;
    int64_t n = b->end - b->begin, r = b->rank;
    double **v = s->v + b->first, *a = s->a, norm = 0;
    for (int64_t j = 0; j < r; j++) {
        a[j] = v[j][place - b->begin];
        norm += a[j] * a[j];
    }
    norm = sqrt(norm);
    for (int64_t j = 0; j < r; j++)
        a[j] = r == 1 ? copysign(1, a[j]) : a[j] / norm;
    b->first++;
    b->size = --b->rank;
    double sign = a[0] < 0 ? -1 : 1, scale = 1 / (1 + fabs(a[0])); /* of the reflection by a + sign e_0 */
    for (int64_t from = 0; from < n; from += CHUNK) {
        int64_t to = from + CHUNK < n ? from + CHUNK : n;
        for (int64_t j = 0; j < r; j++) {
            for (int64_t p = from; p < to; p++)
                column[p] += a[j] * v[j][p];
            if ((st = pe_pace_add(s->w->pace, 2 * (to - from) + 16)))
                return st;
        }
        for (int64_t p = from; p < to && b->rank; p++)
            v[0][p] = column[p] + sign * v[0][p];
        for (int64_t j = 1; j < r; j++) {
            double f = scale * a[j];
            for (int64_t p = from; p < to; p++)
                v[j][p] -= f * v[0][p];
            if ((st = pe_pace_add(s->w->pace, 2 * (to - from) + 16)))
                return st;
        }
    }
    return b->rank ? measure(s, b) : PE_OK;
}

posenc_status pe_canonical_columns(pe_canonical *w, const pe_block_vector *basis, int64_t m, int64_t count, double *out,
                                   int64_t stride, int64_t origin, uint8_t *determined, posenc_error *err)
{
    pe_remainder s;
    s.same = same_column;
    posenc_status st = pe_remainder_init(&s, w, basis, m, 1, err);
    for (int64_t i = 0; i < s.nblocks && !st; i++)
        st = measure(&s, &s.b[i]);
    bool decided = true;
    for (int64_t t = 0; t < count && !st; t++) {
        pe_pivot p;
        if ((st = pe_pivot_choose(&s, &p, err)))
            break;
        decided = decided && p.decided;
        determined[t] = decided;
        st = take(&s, p.b, p.place, out + t * stride + (p.b->begin - origin));
    }
    pe_remainder_fini(&s);
    return st;
}

posenc_status pe_canonical_sign(pe_canonical *w, const double *x, int64_t stride, double *sign, uint8_t *determined,
                                posenc_error *err)
{
    const int64_t begin = w->begin[0], n = w->begin[1] - begin;
    const pe_block_vector basis = { 0, w->vector };
    pe_remainder s;
    pe_pivot p;
    for (int64_t i = 0; i < n; i++) {
        w->vector[i] = x[i * stride];
        w->diagonal[begin + i] = w->vector[i] * w->vector[i];
    }
    posenc_status st = pe_pace_add(w->pace, 4 * n);
    s.same = same_column;
    if (!st && !(st = pe_remainder_init(&s, w, &basis, 1, 1, err)) && !(st = pe_pivot_choose(&s, &p, err))) {
        *sign = w->vector[p.place - begin] < 0 ? -1 : 1;
        *determined = p.decided;
    }
    return st;
}
