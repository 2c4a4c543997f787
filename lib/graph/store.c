/* store.c - the last step of graph encodings. */
#include "graph/store.h"
#include "core/graph.h"

#include <math.h>

posenc_status pe_graph_store(posenc_tensor *t, int64_t at, const double *v, int64_t n, pe_pace *pace, posenc_error *err)
{
    enum { CHUNK = 4096 };
    posenc_status st = PE_OK;
    const double most = pe_dtype_max(t->dtype);
    char *to = (char *)t->data + (size_t)at * posenc_dtype_size(t->dtype);
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        int64_t count = n - i < CHUNK ? n - i : CHUNK;
        for (int64_t j = i; j < i + count; j++)
            if (fabs(v[j]) > most)
                return posenc_fail(err, PE_INVALID, "OVERFLOW", "graph.edge_weight",
                                   posenc_text("%.6g in the answer", v[j]).s, "weights whose results fit %s: at most %.6g%s",
                                   posenc_dtype_name(t->dtype), most, t->dtype == PE_float64 ? "" : "; or dtype=float64");
        posenc_convert(t->dtype, to + (size_t)i * posenc_dtype_size(t->dtype), v + i, (size_t)count);
        st = pe_pace_add(pace, 4 * count);
    }
    return st;
}

posenc_status pe_dense_limit(const posenc_request *r, double elements, const char *instead, posenc_error *err)
{
    double bytes = elements * (double)posenc_dtype_size((posenc_dtype)r->common.dtype);
    if (bytes <= 0x1p31)
        return PE_OK;
    return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph.num_nodes",
                       posenc_text("%lld nodes: %.0f bytes", (long long)r->graph->nodes, bytes).s,
                       "an answer of at most 2147483648 bytes: %s", instead);
}

double pe_squares(const posenc_graph *g)
{
    double sum = 0;
    for (int64_t i = 0; i < g->ngraphs; i++) {
        double n = (double)(g->ptr[i + 1] - g->ptr[i]);
        sum += n * n;
    }
    return sum;
}
