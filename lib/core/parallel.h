/* parallel.h - work in tasks that the caller's threads may share: posenc_context.parallel.
 *
 * What a task writes depends on its number alone, never on the thread or on the order: results have the same bytes with
 * one thread and with many. Tasks are chunks of about a millisecond, fixed by the input alone. Sums across tasks are made
 * after them, in order. Thread-safe; owns nothing. */
#ifndef PE_PARALLEL_H
#define PE_PARALLEL_H

#include "posenc.h"

typedef posenc_status pe_task(void *arg, int64_t i, posenc_error *err);

/* Runs task(arg, i, ...) for i = 0 .. n - 1 and returns when all that began have ended. A task that fails keeps later ones
 * from beginning; the error of the lowest number is the answer, as if they had run in order. `scratch`: bytes that one task
 * holds; where ctx's memory limit has no room for one on each thread, they run one after another. */
posenc_status pe_parallel(posenc_context *ctx, int64_t n, uint64_t scratch, pe_task *task, void *arg, posenc_error *err);

#endif
