#include "crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST = 256 };

typedef struct crew {
    _Atomic int64_t next;
    int64_t n;
    void (*task)(void *arg, int64_t i);
    void *arg;
} crew;

static int members;                /* set before any computation begins */
static _Thread_local bool at_work; /* tasks within tasks stay on their thread */

static void *work(void *arg)
{
    crew *c = arg;
    const bool outer = at_work;
    at_work = true;
    for (int64_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;)
        c->task(c->arg, i);
    at_work = outer;
    return NULL;
}

static void parallel(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    (void)user;
    crew c = { .n = n, .task = task, .arg = arg };
    pthread_t thread[MOST];
    int started = 0;
    while (!at_work && started + 1 < members && started + 1 < n && !pthread_create(&thread[started], NULL, work, &c))
        started++;
    work(&c); /* fewer threads than wanted do it as well */
    while (started)
        pthread_join(thread[--started], NULL);
}

void crew_join(posenc_context *ctx, int threads)
{
    const long n = threads ? threads : sysconf(_SC_NPROCESSORS_ONLN);
    members = n < 1 ? 1 : n > MOST ? MOST : (int)n;
    ctx->parallel = parallel;
    ctx->threads = members;
}
