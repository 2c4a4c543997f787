/* batch.c - each graph of a request. */
#include "graph/batch.h"

#include "core/parallel.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

posenc_status pe_status_output(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    return pe_output(out, "status", PE_int32, 1, &r->graph->ngraphs, err);
}

posenc_status pe_check_partial(const posenc_request *r, bool allow_partial, posenc_error *err)
{
    if (!allow_partial || !r->graph->batched)
        return PE_OK;
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "allow_partial", "true",
                       "false for a batch, which is answered whole or not at all; or one graph a request");
}

posenc_status pe_check_time(double ns, const char *field, const char *instead, posenc_error *err)
{
    if (!(ns > PE_TOO_LONG_NS))
        return PE_OK;
    return posenc_fail(
        err, PE_LIMIT, "LIMIT_EXCEEDED", field,
        posenc_text(ns < 3e11 ? "about %.0f s" : "about %.0f minutes", ns < 3e11 ? ns / 1e9 : ceil(ns / 6e10)).s,
        "at most %.0f s of one core: %s", PE_TOO_LONG_NS / 1e9, instead);
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

/* A chunk is some milliseconds of small graphs, or one that is larger. */
enum { CHUNK_GRAPHS = 512, CHUNK_NODES = 16384, NAMED_FAULTS = 2 };

typedef struct named_fault {
    int64_t graph;
    char text[160];
} named_fault;

typedef struct batch_run {
    const posenc_request *request;
    posenc_result *out;
    const pe_graph_task *task;
    posenc_context *ctx, quiet; /* quiet: of one graph of a batch */
    pe_grace *grace;            /* NULL: the deadline is the end */
    int32_t *status;
    const int64_t *chunk; /* (nchunks + 1) first graphs; NULL: one chunk of all */
    pthread_mutex_t lock; /* guards all below, and task->end */
    int64_t done, failed, partial, zero_edges;
    named_fault fault[NAMED_FAULTS + 1]; /* the lowest, ascending; one place to sort in */
} batch_run;

static void say_progress(const batch_run *b)
{
    char sentence[64];
    const posenc_context *ctx = b->ctx;
    const int64_t graphs = b->request->graph->ngraphs;
    if (!ctx || !ctx->progress || !b->request->graph->batched)
        return;
    snprintf(sentence, sizeof sentence, "%lld of %lld graphs", (long long)b->done, (long long)graphs);
    ctx->progress(ctx->user, (double)b->done / (double)graphs, sentence);
}

static void note_fault(batch_run *b, int64_t g, const posenc_error *e)
{
    pthread_mutex_lock(&b->lock);
    int64_t i = b->failed < NAMED_FAULTS ? b->failed : NAMED_FAULTS;
    for (; i > 0 && b->fault[i - 1].graph > g; i--)
        b->fault[i] = b->fault[i - 1];
    b->fault[i].graph = g;
    /* the field without a number in the client's list: the bytes of a result do not depend on its order */
    const size_t name = strcspn(e->fault[0].field, "[");
    if (e->n)
        snprintf(b->fault[i].text, sizeof b->fault[i].text, "%.*s: %.125s", name < 30 ? (int)name : 30, e->fault[0].field,
                 e->fault[0].allowed);
    else
        snprintf(b->fault[i].text, sizeof b->fault[i].text, "no numbers, see status");
    b->failed++;
    pthread_mutex_unlock(&b->lock);
}

/* `local` is empty before and after: clearing it takes longer than many a graph. */
static posenc_status encode_one(batch_run *b, int64_t g, void *self, int64_t *zero_edges, posenc_error *local,
                                posenc_error *err)
{
    const posenc_graph *graph = b->request->graph;
    pe_graph_job j = { .request = b->request,
                       .out = b->out,
                       .ctx = graph->batched && b->ctx ? &b->quiet : b->ctx,
                       .graph = g,
                       .first = graph->ptr[g],
                       .n = graph->ptr[g + 1] - graph->ptr[g],
                       .grace = b->grace,
                       .pace = { .ctx = b->ctx, .left = PE_PACE_STEPS } };
    posenc_status st = posenc_poll(b->ctx);
    if (st)
        return st;
    st = b->task->encode(&j, self, graph->batched ? local : err);
    if (!st && local->n) /* of a way that failed before another did not */
        *local = (posenc_error){ 0 };
    b->status[g] = st ? posenc_status_http(st) : j.partial ? posenc_status_http(PE_DEADLINE) : 0;
    if (!st && j.partial) {
        pthread_mutex_lock(&b->lock);
        b->partial++;
        pthread_mutex_unlock(&b->lock);
    }
    if (!st)
        *zero_edges += j.zero_edges;
    if (st && graph->batched && of_the_graph(st)) {
        note_fault(b, g, local);
        *local = (posenc_error){ 0 };
        return b->task->spoil(&j, self);
    }
    if (st && graph->batched && local->n)
        posenc_fail(err, st, local->fault[0].reason, local->fault[0].field, local->fault[0].value, "%s",
                    local->fault[0].allowed);
    return st;
}

static posenc_status encode_chunk(void *arg, int64_t i, posenc_error *err)
{
    batch_run *b = arg;
    const pe_graph_task *t = b->task;
    const pe_graph_chunk c = { .request = b->request,
                               .out = b->out,
                               .ctx = b->ctx,
                               .grace = b->grace,
                               .begin = b->chunk ? b->chunk[i] : 0,
                               .end = b->chunk ? b->chunk[i + 1] : b->request->graph->ngraphs };
    void *copy = t->size ? malloc(t->size) : NULL;
    if (t->size && !copy)
        return pe_no_memory("memory", err);
    if (t->size)
        memcpy(copy, t->self, t->size);
    posenc_status st = t->begin ? t->begin(copy, &c, err) : PE_OK;
    if (st) {
        free(copy);
        return st;
    }
    int64_t zero_edges = 0;
    posenc_error local = { 0 };
    for (int64_t g = c.begin; g < c.end && !st; g++)
        st = encode_one(b, g, copy ? copy : t->self, &zero_edges, &local, err);
    pthread_mutex_lock(&b->lock);
    if (t->end)
        t->end(copy, t->self);
    b->zero_edges += zero_edges;
    b->done += c.end - c.begin;
    if (!st)
        say_progress(b);
    pthread_mutex_unlock(&b->lock);
    free(copy);
    return st;
}

int64_t pe_chunk_end(const posenc_graph *g, int64_t begin)
{
    int64_t i = begin + 1;
    while (i < g->ngraphs && i - begin < CHUNK_GRAPHS && g->ptr[i + 1] - g->ptr[begin] <= CHUNK_NODES)
        i++;
    return i;
}

/* First graphs of chunks, and the end; NULL: no memory. */
static int64_t *cut(const posenc_graph *g, int64_t *nchunks)
{
    int64_t *chunk = malloc((size_t)(g->ngraphs + 1) * sizeof *chunk), n = 0;
    for (int64_t i = 0; chunk && i < g->ngraphs; i = pe_chunk_end(g, i))
        chunk[n++] = i;
    if (chunk)
        chunk[n] = g->ngraphs;
    *nchunks = n;
    return chunk;
}

posenc_status pe_each_graph(const posenc_request *r, posenc_result *out, const pe_graph_task *t, posenc_context *ctx,
                            posenc_error *err)
{
    pe_grace grace;
    if (t->partial) {
        pe_grace_init(&grace, ctx);
        ctx = &grace.ctx;
    }
    batch_run b = { .request = r,
                    .out = out,
                    .task = t,
                    .ctx = ctx,
                    .grace = t->partial ? &grace : NULL,
                    .status = pe_tensor(out, "status")->data,
                    .lock = PTHREAD_MUTEX_INITIALIZER };
    if (ctx)
        b.quiet = *ctx;
    b.quiet.progress = NULL;
    int64_t *chunk = NULL, nchunks = 1;
    if (r->graph->batched && !(chunk = cut(r->graph, &nchunks)))
        return pe_no_memory("memory", err);
    b.chunk = chunk;
    posenc_status st = pe_parallel(ctx, nchunks, r->cost.scratch, encode_chunk, &b, err);
    free(chunk);
    pthread_mutex_destroy(&b.lock);
    if (st)
        return st;
    out->partial = b.partial > 0;
    for (int64_t i = 0; i < b.failed && i < NAMED_FAULTS; i++)
        pe_warn(out, "graph %lld: %s", (long long)b.fault[i].graph, b.fault[i].text);
    if (b.failed)
        pe_warn(out, "no numbers for %lld of %lld graphs: see status", (long long)b.failed, (long long)r->graph->ngraphs);
    if (b.zero_edges)
        pe_warn(out, "%lld edge%s of weight 0 left out", (long long)b.zero_edges, b.zero_edges == 1 ? "" : "s");
    return PE_OK;
}

void pe_square_offsets(const posenc_graph *g, int64_t *to)
{
    to[0] = 0;
    for (int64_t i = 0; i < g->ngraphs; i++)
        to[i + 1] = to[i] + (g->ptr[i + 1] - g->ptr[i]) * (g->ptr[i + 1] - g->ptr[i]);
}

posenc_status pe_check_twice(int64_t nodes, posenc_error *err)
{
    if (nodes <= INT32_MAX / 2)
        return PE_OK;
    return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph.num_nodes", posenc_text("%lld", (long long)nodes).s,
                       "at most %d nodes: the matrix has two rows for each", INT32_MAX / 2);
}

void pe_warn_residuals(double worst, double tol, const char *where, posenc_result *out)
{
    if (worst > 0)
        pe_warn(out, "residuals up to %.3g pass tol = %g%s: values too near to each other are taken for one, with one basis",
                worst, tol, where);
}

void pe_warn_directed(const posenc_request *r, posenc_result *out)
{
    if (r->graph->directed)
        pe_warn(out,
                "the graph is directed: every arc was taken as an edge, with the larger weight where both directions exist");
}
