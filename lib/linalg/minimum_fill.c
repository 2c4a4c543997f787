#include "minimum_fill.h"
#include "core/exact.h"
#include "core/memory.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINE = 6,         /* 2^FINE keys for each power of two */
    KEYS = 62 << FINE /* of mean fills from 1 to below 2^62 */
};

/* A number names a vertex until it is eliminated, and then the element that its elimination made. */
typedef struct quotient {
    int64_t n, left;       /* vertices; those not yet in the order */
    int64_t *at;           /* (n) where a list starts: elements of a vertex, then its vertices; vertices of an element */
    int32_t *length;       /* (n) of the list */
    int32_t *elements;     /* (n) how many of a vertex's list are elements */
    int32_t *weight;       /* (n) vertices that this one stands for; 0: stands for none; below 0 in the newest element */
    int32_t *degree;       /* (n) bound of a vertex's degree; vertices of an element */
    int32_t *stamp;        /* (n) 0: an element that is no more; from `now` on: something seen this turn */
    int32_t now, widest;   /* widest: the most that an element's stamp may be beyond `now` */
    int32_t *into;         /* (n) the element or vertex that took this one in; -1 */
    int32_t *key;          /* (n) of a vertex's mean fill */
    int32_t *head;         /* (KEYS or n) first vertex of a key, -1 */
    int32_t *next, *last;  /* (n) of the same key; while an element is made, of the same hash, and the hash */
    int32_t *bucket;       /* (n) first vertex of a hash, -1 */
    int64_t least;         /* no vertex has a smaller key */
    int32_t *list, *spare; /* (room) the lists, and where they move to; spare only while they do */
    int64_t free, room;
    double entries, products;
    pe_pace *pace;
    posenc_error *err;
} quotient;

static posenc_status allocate(quotient *q, int64_t arcs)
{
    const size_t n = (size_t)q->n + 1;
    int32_t **const all[] = { &q->length, &q->elements, &q->weight, &q->degree, &q->stamp,
                              &q->into,   &q->key,      &q->next,   &q->last,   &q->bucket };
    bool ok = (q->at = pe_work_memory(n * sizeof *q->at)) != NULL;
    for (size_t i = 0; i < PE_LEN(all); i++)
        ok = (*all[i] = pe_work_memory(n * sizeof **all[i])) && ok;
    q->room = arcs + arcs / 4 + q->n + 1;
    q->list = pe_work_memory((size_t)q->room * sizeof *q->list);
    q->head = pe_work_memory((n > KEYS ? n : KEYS) * sizeof *q->head);
    if (!ok || !q->list || !q->head)
        return pe_no_memory("memory", q->err);
    posenc_status st = pe_pace_touch(q->pace, q->at, n * sizeof *q->at); /* not all at once, by whoever comes first */
    for (size_t i = 0; i < PE_LEN(all) && !st; i++)
        st = pe_pace_touch(q->pace, *all[i], n * sizeof **all[i]);
    return st;
}

static void finish(quotient *q)
{
    int32_t *const all[] = { q->length, q->elements, q->weight, q->degree, q->stamp, q->into, q->key,
                             q->head,   q->next,     q->last,   q->bucket, q->list,  q->spare };
    for (size_t i = 0; i < PE_LEN(all); i++)
        free(all[i]);
    free(q->at);
}

/* Into the list of its key. `covered` of the vertex's neighbours are joined already. */
static void insert(quotient *q, int32_t i, int32_t covered)
{
    const double d = q->degree[i], c = covered, fill = 1 + (d * (d - 1) - c * (c - 1)) / (2.0 * q->weight[i]);
    uint64_t bits;
    memcpy(&bits, &fill, sizeof bits);
    const int32_t k = (int32_t)((bits >> (52 - FINE)) - ((uint64_t)1023 << FINE)), first = q->head[k];
    q->key[i] = k;
    q->next[i] = first;
    q->last[i] = -1;
    if (first >= 0)
        q->last[first] = i;
    q->head[k] = i;
    q->least = k < q->least ? k : q->least;
}

static void take_out(quotient *q, int32_t i)
{
    const int32_t before = q->last[i], after = q->next[i];
    if (after >= 0)
        q->last[after] = before;
    if (before >= 0)
        q->next[before] = after;
    else
        q->head[q->key[i]] = after;
}

/* The lists of the graph. Of the vertices with very long rows, and of `last`, nothing is left but their place in the order.
 */
static posenc_status begin(quotient *q, const pe_component *c, int64_t last)
{
    posenc_status st = PE_OK;
    const double dense = pe_max(16, 10 * sqrt((double)q->n));
    q->now = 1;
    q->least = KEYS;
    q->left = 0;
    for (int64_t k = 0; k < KEYS; k++)
        q->head[k] = -1;
    for (int64_t i = 0; i < q->n && !st; i++) {
        const int64_t d = c->ptr[i + 1] - c->ptr[i];
        q->weight[i] = i == last || (double)d > dense ? 0 : 1;
        q->left += q->weight[i];
        q->bucket[i] = q->into[i] = -1;
        q->stamp[i] = 1;
        st = pe_pace_add(q->pace, 24);
    }
    for (int64_t i = 0; i < q->n && !st; i++) {
        q->at[i] = q->free;
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1] && q->weight[i]; p++)
            if (q->weight[c->col[p]])
                q->list[q->free++] = c->col[p];
        q->length[i] = q->degree[i] = (int32_t)(q->free - q->at[i]);
        q->elements[i] = 0;
        st = pe_pace_add(q->pace, 8 * (c->ptr[i + 1] - c->ptr[i]) + 32);
    }
    for (int64_t i = q->n - 1; i >= 0 && !st; i--) { /* the first vertex is the first of its key */
        if (q->weight[i])
            insert(q, (int32_t)i, 0);
        st = pe_pace_add(q->pace, 16);
    }
    return st;
}

/* Moves the lists that are in use together. */
static posenc_status compact(quotient *q)
{
    posenc_status st = PE_OK;
    int64_t to = 0;
    if (!q->spare && !(q->spare = pe_work_memory((size_t)q->room * sizeof *q->spare)))
        return pe_no_memory("memory", q->err);
    for (int64_t i = 0; i < q->n && !st; i++) {
        const bool element = q->elements[i] < 0;
        if (element ? q->stamp[i] == 0 : q->weight[i] == 0)
            continue;
        memcpy(q->spare + to, q->list + q->at[i], (size_t)q->length[i] * sizeof *q->list);
        q->at[i] = to;
        to += q->length[i];
        st = pe_pace_add(q->pace, 2 * q->length[i] + 24);
    }
    q->free = to;
    int32_t *other = q->list;
    q->list = q->spare;
    q->spare = other;
    return st;
}

/* The vertex joins the newest element. */
static int32_t join(quotient *q, int32_t i)
{
    const int32_t weight = q->weight[i];
    if (weight > 0) {
        q->weight[i] = -weight;
        take_out(q, i);
    }
    return weight > 0 ? weight : 0;
}

/* Eliminates the vertex `me`: its list becomes that of the element's vertices, and its elements are no more. */
static posenc_status make_element(quotient *q, int32_t me)
{
    posenc_status st;
    int64_t size = q->length[me], degree = 0;
    for (int64_t k = 0; k < q->elements[me]; k++)
        size += q->length[q->list[q->at[me] + k]];
    const int64_t need = size < q->left ? size : q->left;
    if (q->elements[me] > 0 && q->free + need > q->room && (st = compact(q)))
        return st;
    const int32_t elements = q->elements[me], *from = q->list + q->at[me];
    const int64_t start = elements > 0 ? q->free : q->at[me];
    int32_t *to = q->list + start;
    q->weight[me] = -q->weight[me];
    for (int32_t k = 0; k < elements; k++) {
        const int32_t e = from[k], *of = q->list + q->at[e];
        for (int32_t p = 0; p < q->length[e]; p++) {
            const int32_t weight = join(q, of[p]);
            if (weight > 0)
                *to++ = of[p];
            degree += weight;
        }
        q->into[e] = me;
        q->stamp[e] = 0;
    }
    for (int32_t k = elements; k < q->length[me]; k++) {
        const int32_t i = from[k], weight = join(q, i);
        if (weight > 0)
            *to++ = i;
        degree += weight;
    }
    q->at[me] = start;
    q->length[me] = (int32_t)(to - q->list - start);
    if (elements > 0)
        q->free = start + q->length[me];
    q->widest = degree > q->widest ? (int32_t)degree : q->widest;
    q->elements[me] = -1;
    q->degree[me] = (int32_t)degree;
    q->left += q->weight[me]; /* below 0 */
    return pe_pace_add(q->pace, 16 * size + 100);
}

/* stamp - now of each element that a vertex of `me` is in: what it has beyond `me`. */
static posenc_status measure(quotient *q, int32_t me)
{
    posenc_status st = PE_OK;
    if (q->now > INT32_MAX - 2 * q->n - 2) { /* before it overflows */
        for (int64_t i = 0; i < q->n; i++)
            q->stamp[i] = q->stamp[i] != 0;
        q->now = 2;
    }
    for (int32_t k = 0; k < q->length[me] && !st; k++) {
        const int32_t i = q->list[q->at[me] + k], weight = -q->weight[i], *of = q->list + q->at[i];
        for (int32_t p = 0; p < q->elements[i]; p++) {
            const int32_t e = of[p], s = q->stamp[e];
            if (s >= q->now)
                q->stamp[e] = s - weight;
            else if (s != 0)
                q->stamp[e] = q->degree[e] + q->now - weight;
        }
        st = pe_pace_add(q->pace, 12 * q->elements[i] + 12);
    }
    return st;
}

/* New lists and degrees of the vertices of `me`, each into the bucket of its hash. Elements that `me` covers are no more; a
 * vertex that has nothing beyond it is eliminated along. */
static posenc_status update(quotient *q, int32_t me)
{
    posenc_status st = PE_OK;
    for (int32_t k = 0; k < q->length[me] && !st; k++) {
        const int32_t i = q->list[q->at[me] + k], length = q->length[i];
        int32_t *of = q->list + q->at[i], kept = 0, elements;
        int64_t degree = 0;
        uint32_t hash = 0;
        for (int32_t p = 0; p < q->elements[i]; p++) {
            const int32_t e = of[p], beyond = q->stamp[e] - q->now;
            if (q->stamp[e] == 0)
                continue;
            if (beyond > 0) {
                degree += beyond;
                of[kept++] = e;
                hash += (uint32_t)e;
            } else {
                q->into[e] = me;
                q->stamp[e] = 0;
            }
        }
        elements = kept;
        for (int32_t p = q->elements[i]; p < length; p++) {
            const int32_t j = of[p];
            if (q->weight[j] <= 0)
                continue;
            degree += q->weight[j];
            of[kept++] = j;
            hash += (uint32_t)j;
        }
        st = pe_pace_add(q->pace, 12 * length + 40);
        if (kept == 0) {
            q->into[i] = me;
            q->degree[me] += q->weight[i];
            q->weight[me] += q->weight[i];
            q->left += q->weight[i];
            q->weight[i] = 0;
            continue;
        }
        /* `me` comes first; there is a place for it, that of what led here */
        of[kept] = of[elements];
        of[elements] = of[0];
        of[0] = me;
        q->elements[i] = elements + 1;
        q->length[i] = kept + 1;
        q->degree[i] = degree < q->degree[i] ? (int32_t)degree : q->degree[i];
        hash %= (uint32_t)q->n;
        q->next[i] = q->bucket[hash];
        q->bucket[hash] = i;
        q->last[i] = (int32_t)hash;
    }
    return st;
}

/* Whether j has the list that is stamped. */
static bool alike(const quotient *q, int32_t i, int32_t j)
{
    if (q->length[i] != q->length[j] || q->elements[i] != q->elements[j])
        return false;
    const int32_t *of = q->list + q->at[j];
    for (int32_t p = 1; p < q->length[j]; p++)
        if (q->stamp[of[p]] != q->now)
            return false;
    return true;
}

/* Vertices of `me` with the same lists become one. */
static posenc_status merge(quotient *q, int32_t me)
{
    posenc_status st = PE_OK;
    for (int32_t k = 0; k < q->length[me] && !st; k++) {
        const int32_t first = q->list[q->at[me] + k];
        if (q->weight[first] == 0)
            continue;
        int32_t *bucket = &q->bucket[q->last[first]], i = *bucket;
        *bucket = -1;
        for (; i >= 0 && q->next[i] >= 0 && !st; i = q->next[i]) {
            const int32_t *of = q->list + q->at[i];
            for (int32_t p = 1; p < q->length[i]; p++)
                q->stamp[of[p]] = q->now;
            int64_t steps = 8 + q->length[i];
            for (int32_t before = i, j = q->next[i]; j >= 0; j = q->next[j]) {
                steps += q->length[j];
                if (!alike(q, i, j)) {
                    before = j;
                    continue;
                }
                q->into[j] = i;
                q->weight[i] += q->weight[j];
                q->weight[j] = 0;
                q->next[before] = q->next[j];
            }
            q->now++;
            st = pe_pace_add(q->pace, 6 * steps);
        }
    }
    return st;
}

/* What is left of `me` in its list, with their degrees; and what its elimination costs. */
static posenc_status close_element(quotient *q, int32_t me, int64_t dense)
{
    int32_t *to = q->list + q->at[me], *from = to;
    const int32_t length = q->length[me], beyond = q->degree[me];
    q->weight[me] = -q->weight[me];
    for (int32_t k = 0; k < length; k++) {
        const int32_t i = from[k], weight = -q->weight[i];
        if (weight == 0)
            continue;
        const int64_t bound = q->left - weight, degree = (int64_t)q->degree[i] + beyond - weight;
        q->weight[i] = weight;
        q->degree[i] = (int32_t)(degree < bound ? degree : bound);
        insert(q, i, beyond - weight);
        *to++ = i;
    }
    q->length[me] = (int32_t)(to - q->list - q->at[me]);
    if (q->at[me] + length == q->free)
        q->free = q->at[me] + q->length[me];
    if (q->length[me] == 0)
        q->stamp[me] = 0;
    const double f = q->weight[me], r = (double)(beyond + dense), below = f * r + (f - 1) * f / 2;
    q->entries += below;
    q->products += (f * r * r + r * (f - 1) * f + (f - 1) * f * (2 * f - 1) / 6 + below) / 2;
    return pe_pace_add(q->pace, 24 * (int64_t)length + 40);
}

/* Elements in postorder of the tree that `into` makes, the child with the most vertices last; behind each element the
 * vertices that were eliminated with it. Then what had very long rows, and `last`. */
static posenc_status write_order(quotient *q, int64_t last, int32_t *order)
{
    posenc_status st = PE_OK;
    int32_t *child = q->head, *next = q->next, *member = q->bucket, *largest = q->last, *stack = q->length;
    int64_t done = 0;
    for (int64_t i = 0; i < q->n && !st; i++) {
        child[i] = member[i] = largest[i] = -1;
        st = pe_pace_add(q->pace, 12);
    }
    for (int64_t i = q->n - 1; i >= 0 && !st; i--) { /* from behind, so that lists ascend */
        int32_t up = q->into[i];
        st = pe_pace_add(q->pace, 50);
        if (up < 0)
            continue;
        if (q->elements[i] >= 0) {
            while (q->elements[up] >= 0)
                up = q->into[up];
            for (int32_t k = (int32_t)i; q->into[k] != up;) { /* the way is shorter for the next */
                const int32_t after = q->into[k];
                q->into[k] = up;
                k = after;
            }
            next[i] = member[up];
            member[up] = (int32_t)i;
        } else if (largest[up] < 0 || q->degree[i] > q->degree[largest[up]]) {
            if (largest[up] >= 0) {
                next[largest[up]] = child[up];
                child[up] = largest[up];
            }
            largest[up] = (int32_t)i;
        } else {
            next[i] = child[up];
            child[up] = (int32_t)i;
        }
    }
    for (int64_t root = 0; root < q->n && !st; root++) {
        if (q->elements[root] >= 0 || q->into[root] >= 0)
            continue;
        int64_t depth = 0;
        stack[depth++] = (int32_t)root;
        while (depth > 0 && !st) {
            const int32_t e = stack[depth - 1];
            st = pe_pace_add(q->pace, 50);
            if (child[e] >= 0) {
                stack[depth++] = child[e];
                child[e] = next[child[e]];
            } else if (largest[e] >= 0) {
                stack[depth++] = largest[e];
                largest[e] = -1;
            } else {
                order[done++] = e;
                for (int32_t i = member[e]; i >= 0; i = next[i])
                    order[done++] = i;
                depth--;
            }
        }
    }
    for (int64_t i = 0; i < q->n && !st; i++) {
        if (q->elements[i] >= 0 && q->into[i] < 0 && i != last)
            order[done++] = (int32_t)i;
        st = pe_pace_add(q->pace, 6);
    }
    if (last >= 0)
        order[done] = (int32_t)last;
    return st;
}

posenc_status pe_minimum_fill(const pe_component *c, int64_t last, int32_t *order, double *entries, double *products,
                              pe_pace *pace, posenc_error *err)
{
    quotient q = { .n = c->n, .pace = pace, .err = err };
    posenc_status st = allocate(&q, c->ptr[c->n]);
    if (!st)
        st = begin(&q, c, last);
    const int64_t dense = q.n - q.left - (last >= 0);
    while (!st && q.left > 0) {
        while (q.head[q.least] < 0)
            q.least++;
        const int32_t me = q.head[q.least];
        take_out(&q, me);
        if ((st = make_element(&q, me)) || (st = measure(&q, me)) || (st = update(&q, me)))
            break;
        q.now += q.widest;
        if (!(st = merge(&q, me)))
            st = close_element(&q, me, dense);
    }
    if (!st)
        st = write_order(&q, last, order);
    const double f = (double)dense, below = f * (f - 1) / 2;
    *entries = q.entries + below;
    *products = q.products + ((f - 1) * f * (2 * f - 1) / 6 + below) / 2;
    finish(&q);
    return st;
}
