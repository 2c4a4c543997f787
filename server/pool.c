/* pool.c - one lock, two queues, one list of shared loops, N threads. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct job {
    struct job *next;
    pe_job *run;
    void *arg;
} job;

typedef struct line {
    job *first, **end;
} line;

/* A loop of pe_pool_parallel; lives on its caller's stack. */
typedef struct crew {
    struct crew *next_crew;
    void (*task)(void *arg, int64_t i);
    void *arg;
    int64_t next, n;
    int helping; /* threads within a task, beside the caller's */
} crew;

struct pe_pool {
    pthread_mutex_t lock; /* guards all below but threads */
    pthread_cond_t work, helped;
    line waiting[2]; /* short, long */
    int depth, limit;
    crew *crews;                /* those with tasks that have not begun */
    int long_running, nthreads; /* long jobs and helpers */
    bool stopping;
    pthread_t *thread;
};

/* A long job is taken only while another thread stays free for short ones. */
static job *next(pe_pool *p, bool *is_long)
{
    for (int k = 0; k < 2; k++) {
        line *l = &p->waiting[k];
        if (!l->first || (k == 1 && p->long_running >= p->nthreads - 1))
            continue;
        job *j = l->first;
        l->first = j->next;
        if (!l->first)
            l->end = &l->first;
        p->depth--;
        p->long_running += k;
        *is_long = k == 1;
        return j;
    }
    return NULL;
}

/* Takes one task of c. The lock is held, and let go of during the task. */
static void step(pe_pool *p, crew *c)
{
    const int64_t i = c->next++;
    if (c->next == c->n) { /* the last to begin */
        crew **at = &p->crews;
        while (*at != c)
            at = &(*at)->next_crew;
        *at = c->next_crew;
    }
    pthread_mutex_unlock(&p->lock);
    c->task(c->arg, i);
    pthread_mutex_lock(&p->lock);
}

static bool help(pe_pool *p)
{
    crew *c = p->crews;
    if (!c || p->long_running >= p->nthreads - 1)
        return false;
    c->helping++;
    p->long_running++;
    step(p, c);
    p->long_running--;
    if (!--c->helping)
        pthread_cond_broadcast(&p->helped); /* c may be gone from here on */
    return true;
}

void pe_pool_parallel(pe_pool *p, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    crew c = { .task = task, .arg = arg, .n = n };
    if (n < 1)
        return;
    pthread_mutex_lock(&p->lock);
    c.next_crew = p->crews;
    p->crews = &c;
    pthread_cond_broadcast(&p->work);
    while (c.next < c.n)
        step(p, &c);
    while (c.helping)
        pthread_cond_wait(&p->helped, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void *work(void *arg)
{
    pe_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        bool is_long = false;
        job *j = next(p, &is_long);
        if (!j) {
            if (help(p))
                continue;
            if (p->stopping && !p->depth)
                break;
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        j->run(j->arg);
        free(j);
        pthread_mutex_lock(&p->lock);
        p->long_running -= is_long;
        if (is_long) /* another long one may go now, or help */
            pthread_cond_broadcast(&p->work);
    }
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

pe_pool *pe_pool_new(int threads, int queue)
{
    pe_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->helped, NULL);
    for (int k = 0; k < 2; k++)
        p->waiting[k].end = &p->waiting[k].first;
    p->limit = queue;
    int want = threads < 1 ? 2 : threads + 1;
    p->nthreads = want; /* before the first thread reads it */
    p->thread = calloc((size_t)want, sizeof *p->thread);
    int started = 0;
    while (p->thread && started < want && !pthread_create(&p->thread[started], NULL, work, p))
        started++;
    if (started == want)
        return p;
    pthread_mutex_lock(&p->lock);
    p->nthreads = started;
    pthread_mutex_unlock(&p->lock);
    pe_pool_free(p);
    return NULL;
}

bool pe_pool_submit(pe_pool *p, bool is_long, pe_job *run, void *arg)
{
    job *j = malloc(sizeof *j);
    if (!j)
        return false;
    *j = (job){ NULL, run, arg };
    pthread_mutex_lock(&p->lock);
    bool ok = !p->stopping && p->depth < p->limit;
    if (ok) {
        line *l = &p->waiting[is_long];
        *l->end = j;
        l->end = &j->next;
        p->depth++;
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->lock);
    if (!ok)
        free(j);
    return ok;
}

int pe_pool_depth(pe_pool *p)
{
    pthread_mutex_lock(&p->lock);
    int n = p->depth;
    pthread_mutex_unlock(&p->lock);
    return n;
}

void pe_pool_free(pe_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; p->thread && i < p->nthreads; i++)
        pthread_join(p->thread[i], NULL);
    free(p->thread);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->helped);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
