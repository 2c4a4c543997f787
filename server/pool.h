/* pool.h - compute threads behind a bounded queue.
 *
 * Two classes: a long job never takes the last thread, so short ones always move. Any thread may submit. */
#ifndef PE_POOL_H
#define PE_POOL_H

#include "posenc.h"

typedef struct pe_pool pe_pool;
typedef void pe_job(void *arg);

pe_pool *pe_pool_new(int threads, int queue);                          /* at least 2 threads; NULL: no memory or threads */
bool pe_pool_submit(pe_pool *p, bool is_long, pe_job *run, void *arg); /* false at once when the queue is full or stopping */
int pe_pool_depth(pe_pool *p);                                         /* jobs waiting */
void pe_pool_free(pe_pool *p);                                         /* runs what is queued, then joins; NULL is fine */

#endif
