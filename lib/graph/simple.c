/* simple.c - arcs come sorted by (source, target), source <= target: one pass in that order leaves every row ascending. */
#include "graph/simple.h"

bool pe_simple_build(const posenc_graph *graph, int64_t g, int self_loops, pe_simple *s)
{
    const int64_t first = graph->ptr[g], n = graph->ptr[g + 1] - first, begin = graph->arc_ptr[g],
                  m = graph->arc_ptr[g + 1] - begin;
    const int32_t *source = graph->source + begin, *target = graph->target + begin, base = (int32_t)first;
    int64_t *ptr = s->ptr;
    if (graph->directed || n > PE_SIMPLE_NODES || m > PE_SIMPLE_ARCS / 2 || graph->conflict[g] >= 0)
        return false;
    for (int64_t i = 0; graph->weight && i < m; i++)
        if (graph->weight[begin + i] != 1)
            return false;
    for (int64_t v = 0; v < n + 2; v++)
        ptr[v] = 0;
    for (int64_t i = 0; i < m; i++) { /* ptr[v + 2]: arcs of v */
        if (i && source[i] == source[i - 1] && target[i] == target[i - 1])
            return false;
        if (source[i] == target[i]) {
            ptr[source[i] - base + 2] += self_loops == PE_LOOPS_KEEP;
        } else {
            ptr[source[i] - base + 2]++;
            ptr[target[i] - base + 2]++;
        }
    }
    for (int64_t v = 0; v < n; v++) {
        s->degree[v] = (double)ptr[v + 2];
        ptr[v + 2] += ptr[v + 1];
    }
    for (int64_t i = 0; i < m; i++) { /* ptr[v + 1]: next free place of row v */
        const int32_t u = source[i] - base, v = target[i] - base;
        if (u != v || self_loops == PE_LOOPS_KEEP)
            s->col[ptr[u + 1]++] = v;
        if (u != v)
            s->col[ptr[v + 1]++] = u;
    }
    s->csr = (pe_csr){ .n = n, .arcs = ptr[n], .ptr = ptr, .col = s->col, .degree = s->degree };
    return true;
}
