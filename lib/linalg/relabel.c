#include "relabel.h"
#include "core/memory.h"
#include "core/params.h"

#include <stdlib.h>
#include <string.h>

uint64_t pe_relabel_bytes(int64_t n, int64_t arcs) { return 12 * (uint64_t)arcs + 48 * (uint64_t)n; }

posenc_status pe_breadth_first(const pe_component *c, int32_t *order, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    bool *seen = malloc((size_t)c->n * sizeof *seen);
    if (!seen)
        return pe_no_memory("memory", err);
    int64_t start = 0;
    for (int turn = 0; turn < 2 && !st; turn++) {
        int64_t head = 0, tail = 0, next = 0;
        memset(seen, 0, (size_t)c->n * sizeof *seen);
        while (tail < c->n && !st) {
            for (; tail > 0 && next < c->n && seen[next]; next++)
                continue;
            const int64_t root = tail > 0 ? next : start;
            order[tail++] = (int32_t)root;
            seen[root] = true;
            for (; head < tail && !st; head++) {
                const int64_t u = order[head];
                for (int64_t p = c->ptr[u]; p < c->ptr[u + 1]; p++)
                    if (!seen[c->col[p]]) {
                        seen[c->col[p]] = true;
                        order[tail++] = c->col[p];
                    }
                st = pe_pace_add(pace, 8 * (c->ptr[u + 1] - c->ptr[u]) + 8);
            }
        }
        start = order[c->n - 1];
    }
    free(seen);
    return st;
}

static posenc_status pick(double **to, const double *from, const int32_t *order, int64_t n, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    if (!from)
        return PE_OK;
    if (!(*to = pe_work_memory((size_t)n * sizeof **to)))
        return pe_no_memory("memory", err);
    for (int64_t k = 0; k < n && !st; k++) {
        (*to)[k] = from[order[k]];
        st = pe_pace_add(pace, 16);
    }
    return st;
}

posenc_status pe_relabel(pe_relabelled *r, const pe_component *c, int32_t *order, pe_pace *pace, posenc_error *err)
{
    const int64_t n = c->n, arcs = c->ptr[n];
    posenc_status st = PE_OK;
    int32_t *place = pe_work_memory((size_t)n * sizeof *place);
    *r = (pe_relabelled){ .order = order,
                          .ptr = pe_work_memory(((size_t)n + 1) * sizeof *r->ptr),
                          .col = pe_work_memory(((size_t)arcs + 1) * sizeof *r->col),
                          .weight = c->weight ? pe_work_memory(((size_t)arcs + 1) * sizeof *r->weight) : NULL };
    if (!place || !r->ptr || !r->col || (c->weight && !r->weight)) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = pick(&r->degree, c->degree, order, n, pace, err)) || (st = pick(&r->kernel, c->kernel, order, n, pace, err)) ||
        (st = pick(&r->diagonal, c->diagonal, order, n, pace, err)) ||
        (st = pe_pace_touch(pace, place, (size_t)n * sizeof *place)) ||
        (st = pe_pace_touch(pace, r->col, (size_t)arcs * sizeof *r->col)))
        goto done;
    for (int64_t k = 0; k < n && !st; k++) {
        place[order[k]] = (int32_t)k;
        st = pe_pace_add(pace, 16);
    }
    /* r->ptr[k + 1] is where row k goes on; the pattern is symmetric: rows that are read one after the other fill those of
     * their neighbours in ascending order */
    r->ptr[0] = r->ptr[1] = 0;
    for (int64_t k = 1; k < n && !st; k++) {
        r->ptr[k + 1] = r->ptr[k] + c->ptr[order[k - 1] + 1] - c->ptr[order[k - 1]];
        st = pe_pace_add(pace, 16);
    }
    for (int64_t k = 0; k < n && !st; k++) {
        const int64_t v = order[k];
        for (int64_t p = c->ptr[v]; p < c->ptr[v + 1]; p++) {
            const int64_t to = r->ptr[place[c->col[p]] + 1]++;
            r->col[to] = (int32_t)k;
            if (c->weight)
                r->weight[to] = c->weight[p];
        }
        st = pe_pace_add(pace, 16 * (c->ptr[v + 1] - c->ptr[v]) + 16);
    }
    r->c = (pe_component){ .n = n,
                           .ptr = r->ptr,
                           .col = r->col,
                           .weight = r->weight,
                           .degree = r->degree,
                           .normalized = c->normalized,
                           .kernel = r->kernel,
                           .diagonal = r->diagonal };
done:
    free(place);
    return st;
}

void pe_relabelled_fini(pe_relabelled *r)
{
    free(r->order);
    free(r->ptr);
    free(r->col);
    free(r->weight);
    free(r->degree);
    free(r->kernel);
    free(r->diagonal);
    *r = (pe_relabelled){ 0 };
}
