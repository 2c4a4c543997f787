/* pool.h - compute threads behind a bounded queue.
 *
 * Two classes: long jobs and the helpers of pe_pool_parallel never take the last thread, so short jobs always move. Any
 * thread may submit. */
#ifndef PE_POOL_H
#define PE_POOL_H

#include "posenc.h"

typedef struct pe_pool pe_pool;
typedef void pe_job(void *arg);

/* `threads` (at least 1) for long work, and one more that only short jobs take. NULL: no memory or threads. */
pe_pool *pe_pool_new(int threads, int queue);
bool pe_pool_submit(pe_pool *p, bool is_long, pe_job *run, void *arg); /* false at once when the queue is full or stopping */
int pe_pool_depth(pe_pool *p);                                         /* jobs waiting */
/* Calls task(arg, i) once for each i = 0 .. n - 1, on this thread and on those that have nothing else to do; returns when
 * all have returned. A thread that helps looks for jobs between two tasks. May be called from within a job or a task. */
void pe_pool_parallel(pe_pool *p, int64_t n, void (*task)(void *arg, int64_t i), void *arg);
void pe_pool_free(pe_pool *p);                                         /* runs what is queued, then joins; NULL is fine */

#endif
