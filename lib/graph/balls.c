/* balls.c - the surroundings of a group are copied to places of their own, numbered by distance; a step then touches
 * nothing else. */
#include "graph/balls.h"
#include "core/params.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups ---- */

/* Breadth first from the lowest node that has no group yet, through nodes that have none either. */
posenc_status pe_groups_init(pe_groups *g, const pe_sparse *m, pe_pace *pace, posenc_error *err)
{
    const size_t n = (size_t)m->n;
    posenc_status st = PE_OK;
    uint8_t *taken = calloc(n + 1, 1);
    int64_t filled = 0;
    *g = (pe_groups){ .ptr = malloc((n + 1) * sizeof *g->ptr), .node = malloc((n + 1) * sizeof *g->node) };
    if (!taken || !g->ptr || !g->node)
        st = pe_no_memory("memory", err);
    for (int64_t v = 0; v < m->n && !st; v++) {
        if (!taken[v]) {
            const int64_t begin = filled;
            g->ptr[g->count++] = begin;
            g->node[filled++] = (int32_t)v;
            taken[v] = 1;
            for (int64_t head = begin; head < filled && filled - begin < PE_WIDTH; head++) {
                const int32_t u = g->node[head];
                const int64_t end = m->ptr[u + 1] - m->ptr[u] < 64 ? m->ptr[u + 1] : m->ptr[u] + 64; /* a hub joins nobody */
                for (int64_t a = m->ptr[u]; a < end && filled - begin < PE_WIDTH; a++)
                    if (!taken[m->col[a]]) {
                        taken[m->col[a]] = 1;
                        g->node[filled++] = m->col[a];
                    }
            }
        }
        st = pe_pace_add(pace, 64);
    }
    free(taken);
    if (st) {
        pe_groups_fini(g);
        return st;
    }
    g->ptr[g->count] = filled;
    return PE_OK;
}

void pe_groups_fini(pe_groups *g)
{
    free(g->ptr);
    free(g->node);
    *g = (pe_groups){ 0 };
}

/* ---- the surroundings ---- */

void pe_ball_fini(pe_ball *b)
{
    free(b->place);
    free(b->node);
    free(b->ptr);
    free(b->share);
    free(b->panel[0]);
    free(b->panel[1]);
    free(b->to);
    free(b->value);
    free(b->within);
    *b = (pe_ball){ 0 };
}

static bool grow(void *of, size_t size)
{
    void **p = of, *more = realloc(*p, size);
    if (more)
        *p = more;
    return more != NULL;
}

static bool make_room(pe_ball *b, int64_t nodes, int64_t arcs)
{
    bool ok = true;
    if (nodes > b->room) {
        const size_t room = (size_t)(2 * nodes);
        ok = grow(&b->node, room * sizeof *b->node) && grow(&b->ptr, (room + 1) * sizeof *b->ptr);
        b->room = ok ? 2 * nodes : b->room;
    }
    if (ok && arcs > b->arc_room) {
        const size_t room = (size_t)(2 * arcs);
        ok = grow(&b->to, room * sizeof *b->to) && grow(&b->value, room * sizeof *b->value);
        b->arc_room = ok ? 2 * arcs : b->arc_room;
    }
    return ok;
}

posenc_status pe_ball_init(pe_ball *b, int64_t nodes, int64_t steps, posenc_error *err)
{
    *b = (pe_ball){ .place = calloc((size_t)nodes + 1, sizeof *b->place),
                    .within = malloc((size_t)(steps + 2) * sizeof *b->within) };
    if (!b->place || !b->within || !make_room(b, 256, 1024)) {
        pe_ball_fini(b);
        return pe_no_memory("memory", err);
    }
    return PE_OK;
}

/* Nodes as far as `steps` away and the arcs of all but the last of them; *count: how many nodes. */
static posenc_status look_around(pe_ball *b, const pe_sparse *rows, const int32_t *node, int sources, int64_t steps,
                                 int64_t *count, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    int64_t n = 0, arcs = 0, head = 0;
    for (int i = 0; i < sources; i++) {
        b->node[n++] = node[i];
        b->place[node[i]] = (int32_t)n;
    }
    b->within[0] = n;
    for (int64_t a = 0; a < steps && !st; a++) {
        for (const int64_t end = n; head < end && !st; head++) {
            const int32_t u = b->node[head];
            const int64_t m = rows->ptr[u + 1] - rows->ptr[u];
            if (!make_room(b, n + m, arcs + m)) {
                st = pe_no_memory("memory", err);
                break;
            }
            b->ptr[head] = arcs;
            for (int64_t k = rows->ptr[u]; k < rows->ptr[u + 1]; k++) {
                const int32_t v = rows->col[k];
                if (!b->place[v]) {
                    b->node[n++] = v;
                    b->place[v] = (int32_t)n;
                }
                b->to[arcs] = b->place[v] - 1;
                b->value[arcs++] = rows->value[k];
            }
            st = pe_pace_add(pace, 20 * m + 20);
        }
        b->within[a + 1] = n;
    }
    b->ptr[head] = arcs;
    *count = n;
    for (int64_t i = 0; i < n; i++)
        b->place[b->node[i]] = 0;
    return st ? st : pe_pace_add(pace, 6 * n);
}

/* ---- steps ---- */

/* to += from P, along the arcs of places begin .. end - 1 */
static PE_CLONES void push(const pe_ball *b, const double *from, double *to, int64_t begin, int64_t end)
{
    const pe_lanes *x = (const pe_lanes *)from;
    pe_lanes *y = (pe_lanes *)to;
    for (int64_t u = begin, a = b->ptr[begin]; u < end; u++) {
        const pe_lanes here = x[u];
        for (; a < b->ptr[u + 1]; a++)
            y[b->to[a]] += b->value[a] * here;
    }
}

static PE_CLONES void sums(const double *x, const double *y, const double *share, int64_t n, double *odd, double *even)
{
    const pe_lanes *f = (const pe_lanes *)x, *g = (const pe_lanes *)y;
    pe_lanes one = { 0 }, two = { 0 };
    for (int64_t v = 0; v < n; v++) {
        const pe_lanes by = g[v] * (1 / share[v]);
        one += f[v] * by;
        two += g[v] * by;
    }
    *(pe_loose_lanes *)odd = one;
    *(pe_loose_lanes *)even = two;
}

posenc_status pe_ball_walk(pe_ball *b, const pe_sparse *rows, const double *share, const int32_t *node, int count,
                           int64_t last, double *back, pe_pace *pace, posenc_error *err)
{
    enum { PLACES = 4096 };
    const int64_t steps = (last + 1) / 2;
    int64_t n, room = b->room;
    double spare[PE_WIDTH];
    posenc_status st = look_around(b, rows, node, count, steps, &n, pace, err);
    if (st)
        return st;
    if (b->room > room || !b->share) {
        free(b->panel[0]);
        free(b->panel[1]);
        b->panel[0] = pe_panel_new(b->room);
        b->panel[1] = pe_panel_new(b->room);
        if (!b->panel[0] || !b->panel[1] || !grow(&b->share, (size_t)b->room * sizeof *b->share))
            return pe_no_memory("memory", err);
    }
    for (int64_t i = 0; i < n; i++)
        b->share[i] = share[b->node[i]];
    if ((st = pe_pace_add(pace, 6 * n)))
        return st;
    double *here = b->panel[0], *next = b->panel[1];
    st = pe_panel_zero(n, here, pace);
    for (int i = 0; i < count; i++)
        here[i * PE_WIDTH + i] = 1;
    for (int64_t a = 0; a < steps && !st; a++) {
        double *to = back + 2 * a * PE_WIDTH, *swap = here;
        const int64_t from = b->within[a], all = b->within[a + 1];
        st = pe_panel_zero(all, next, pace);
        for (int64_t u = 0, end; u < from && !st; u = end) {
            end = from - u < PLACES ? from : u + PLACES;
            push(b, here, next, u, end);
            st = pe_pace_add(pace, 2 * (b->ptr[end] - b->ptr[u]) + end - u);
        }
        memset(here + from * PE_WIDTH, 0, (size_t)((all - from) * PE_WIDTH) * sizeof *here);
        sums(here, next, b->share, all, to, 2 * a + 1 < last ? to + PE_WIDTH : spare);
        if (!st)
            st = pe_pace_add(pace, 4 * all);
        here = next;
        next = swap;
    }
    for (int64_t t = 0; t < last && !st; t++)
        for (int i = 0; i < count; i++)
            back[t * PE_WIDTH + i] *= share[node[i]];
    return st ? st : pe_pace_add(pace, last * count);
}
