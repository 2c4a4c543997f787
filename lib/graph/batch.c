/* batch.c - each graph of a request in turn. */
#include "graph/batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

posenc_status pe_status_output(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    return pe_output(out, "status", PE_int32, 1, &r->graph->ngraphs, err);
}

posenc_status pe_check_time(double ns, const char *field, const char *instead, posenc_error *err)
{
    if (!(ns > PE_TOO_LONG_NS))
        return PE_OK;
    return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", field, posenc_text("exact: about %.0f minutes", ceil(ns / 6e10)).s,
                       "at most %.0f minutes of one core: %s", PE_TOO_LONG_NS / 6e10, instead);
}

posenc_status pe_spoil(posenc_tensor *t, int64_t first, int64_t n, pe_pace *pace)
{
    int64_t width = 1;
    posenc_status st = PE_OK;
    const double none = t->dtype <= PE_bfloat16 ? (double)NAN : t->dtype == PE_uint8 ? 0 : -1;
    for (int i = 1; i < t->rank; i++)
        width *= t->shape[i];
    char *to = (char *)t->data + (size_t)(first * width) * posenc_dtype_size(t->dtype);
    for (int64_t i = 0; i < n * width && !st; i++) {
        posenc_convert(t->dtype, to + (size_t)i * posenc_dtype_size(t->dtype), &none, 1);
        st = pe_pace_add(pace, 16);
    }
    return st;
}

/* Faults of one graph, which a batch reports in `status`; others stop the request. */
static bool of_the_graph(posenc_status st) { return st == PE_INVALID || st == PE_LIMIT || st == PE_NO_CONVERGENCE; }

static void say_progress(const posenc_context *ctx, int64_t g, int64_t graphs)
{
    char sentence[64];
    if (!ctx || !ctx->progress || g & 255)
        return;
    snprintf(sentence, sizeof sentence, "%lld of %lld graphs", (long long)g, (long long)graphs);
    ctx->progress(ctx->user, (double)g / (double)graphs, sentence);
}

posenc_status pe_each_graph(const posenc_request *r, posenc_result *out, const pe_graph_task *t, posenc_context *ctx,
                            posenc_error *err)
{
    const posenc_graph *graph = r->graph;
    int32_t *status = pe_tensor(out, "status")->data;
    int64_t failed = 0;
    for (int64_t g = 0; g < graph->ngraphs; g++) {
        posenc_error local = { 0 };
        pe_graph_job j = { .request = r,
                           .out = out,
                           .ctx = ctx,
                           .graph = g,
                           .first = graph->ptr[g],
                           .n = graph->ptr[g + 1] - graph->ptr[g],
                           .pace = { .ctx = ctx, .left = PE_PACE_STEPS } };
        posenc_status st = posenc_poll(ctx);
        if (st)
            return st;
        st = t->encode(&j, t->self, graph->batched ? &local : err);
        status[g] = st ? posenc_status_http(st) : 0;
        if (st && graph->batched && of_the_graph(st)) {
            if ((st = t->spoil(&j, t->self)))
                return st;
            if (failed++ < 2) /* nothing of the client's list in it: the bytes of a result do not depend on its order */
                pe_warn(out, "graph %lld: %s", (long long)g, local.n ? local.fault[0].allowed : "no numbers, see status");
        } else if (st) {
            if (graph->batched && local.n)
                posenc_fail(err, st, local.fault[0].reason, local.fault[0].field, local.fault[0].value, "%s",
                            local.fault[0].allowed);
            return st;
        }
        if (graph->batched)
            say_progress(ctx, g, graph->ngraphs);
    }
    if (failed)
        pe_warn(out, "no numbers for %lld of %lld graphs: see status", (long long)failed, (long long)graph->ngraphs);
    return PE_OK;
}

void pe_warn_directed(const posenc_request *r, posenc_result *out)
{
    if (r->graph->directed)
        pe_warn(out,
                "the graph is directed: every arc was taken as an edge, with the larger weight where both directions exist");
}

void pe_warn_zero_edges(posenc_result *out, int64_t n)
{
    if (n)
        pe_warn(out, "%lld edge%s of weight 0 left out", (long long)n, n == 1 ? "" : "s");
}
