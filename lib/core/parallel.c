/* parallel.c - tasks by number, the first fault wins. */
#include "core/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct run {
    posenc_context *ctx;
    pe_task *task;
    void *arg;
    posenc_error *err;
    posenc_status status;
    _Atomic int64_t failed; /* the lowest number that failed so far; n: none */
    pthread_mutex_t lock;   /* guards err, status and failed's writers */
} run;

static void one(void *arg, int64_t i)
{
    run *r = arg;
    if (i > atomic_load(&r->failed))
        return;
    posenc_error local = { 0 };
    posenc_status st = posenc_poll(r->ctx); /* a task may be too short for a poll of its own */
    st = st ? st : r->task(r->arg, i, &local);
    if (!st)
        return;
    pthread_mutex_lock(&r->lock);
    if (i < atomic_load(&r->failed)) {
        atomic_store(&r->failed, i);
        r->status = st;
        if (r->err)
            *r->err = local;
    }
    pthread_mutex_unlock(&r->lock);
}

static bool fits(const posenc_context *ctx, uint64_t scratch)
{
    return !ctx->memory_limit || scratch <= ctx->memory_limit / (uint64_t)ctx->threads;
}

posenc_status pe_parallel(posenc_context *ctx, int64_t n, uint64_t scratch, pe_task *task, void *arg, posenc_error *err)
{
    posenc_status st = PE_OK;
    if (n < 2 || !ctx || !ctx->parallel || ctx->threads < 2 || !fits(ctx, scratch)) {
        for (int64_t i = 0; i < n && !st; i++)
            st = n > 1 && (st = posenc_poll(ctx)) ? st : task(arg, i, err);
        return st;
    }
    run r = { .ctx = ctx, .task = task, .arg = arg, .err = err, .failed = n, .lock = PTHREAD_MUTEX_INITIALIZER };
    ctx->parallel(ctx->user, n, one, &r);
    pthread_mutex_destroy(&r.lock);
    return r.status;
}
