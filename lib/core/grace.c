#include "grace.h"

static posenc_status stop(void *user)
{
    pe_grace *g = user;
    const posenc_status st = posenc_poll(g->behind);
    return st != PE_DEADLINE || atomic_exchange(&g->searching, false) ? st : PE_OK;
}

static void progress(void *user, double fraction, const char *sentence)
{
    const posenc_context *c = ((pe_grace *)user)->behind;
    c->progress(c->user, fraction, sentence);
}

static void parallel(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    const posenc_context *c = ((pe_grace *)user)->behind;
    c->parallel(c->user, n, task, arg);
}

void pe_grace_init(pe_grace *g, posenc_context *behind)
{
    *g = (pe_grace){ .behind = behind };
    if (behind)
        g->ctx = (posenc_context){ .stop = stop,
                                   .progress = behind->progress ? progress : NULL,
                                   .user = g,
                                   .memory_limit = behind->memory_limit,
                                   .parallel = behind->parallel ? parallel : NULL,
                                   .threads = behind->threads };
}

void pe_grace_search(pe_grace *g)
{
    if (g)
        atomic_store(&g->searching, true);
}

void pe_grace_rest(pe_grace *g)
{
    if (g)
        atomic_store(&g->searching, false);
}
