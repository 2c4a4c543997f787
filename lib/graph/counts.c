/* counts.c - a view of a graph whose weights are 1, and 0 where an edge has weight 0. */
#include "graph/counts.h"
#include "core/params.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A mean of two counts may be a half; nothing else is. */
static posenc_status check_whole(const pe_csr *c, pe_pace *pace, posenc_error *err)
{
    for (int64_t a = 0; a < c->arcs && c->weight; a++) {
        if (c->weight[a] != floor(c->weight[a]))
            return posenc_fail(err, PE_INVALID, "NOT_SYMMETRIC", "symmetrize", "mean",
                               "max or sum: the mean of the numbers of edges in both directions is not whole");
        posenc_status st = pe_pace_add(pace, 2);
        if (st)
            return st;
    }
    return PE_OK;
}

posenc_status pe_count_build(const posenc_graph *graph, int64_t g, const pe_csr_options *o, pe_csr *out, pe_pace *pace,
                             posenc_error *err)
{
    posenc_status st = PE_OK;
    if (!graph->weight) {
        st = pe_csr_build(graph, g, o, out, pace->ctx, err);
    } else {
        const int64_t begin = graph->arc_ptr[g], n = graph->arc_ptr[g + 1] - begin;
        posenc_graph view = *graph;
        double *ones = malloc((size_t)(n ? n : 1) * sizeof *ones);
        int64_t where[2] = { 0, n }, nodes[2] = { graph->ptr[g], graph->ptr[g + 1] };
        if (!ones)
            return pe_no_memory("memory", err);
        for (int64_t a = 0; a < n && !st; a++) {
            double w = graph->weight[begin + a];
            ones[a] = w < 0 ? w : w != 0; /* what is negative stays, to be refused */
            st = pe_pace_add(pace, 4);
        }
        view.weight = ones; /* the one graph, as if alone */
        view.ngraphs = 1;
        view.ptr = nodes;
        view.arc_ptr = where;
        view.source += begin;
        view.target += begin;
        view.listed += begin;
        view.conflict += g;
        view.arcs = n;
        if (!st)
            st = pe_csr_build(&view, 0, o, out, pace->ctx, err);
        free(ones);
    }
    if (!st && (st = check_whole(out, pace, err)))
        pe_csr_fini(out);
    return st;
}

uint64_t pe_count_bytes(int64_t nodes, int64_t arcs) { return 48 * (uint64_t)nodes + 64 * (uint64_t)arcs + 1024; }

posenc_status pe_count_fits(posenc_dtype dtype, double largest, posenc_error *err)
{
    const double most = dtype == PE_float16    ? 65504
                        : dtype == PE_bfloat16 ? 0x1.fep127
                        : dtype == PE_float32  ? (double)FLT_MAX
                                               : DBL_MAX;
    if (largest <= most)
        return PE_OK;
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "dtype", posenc_dtype_name(dtype),
                       "a dtype that holds %g: float32 or float64", largest);
}
