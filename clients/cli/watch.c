#include "watch.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static posenc_status stop(void *user)
{
    const watch *w = user;
    if (caught)
        return PE_CANCELLED;
    return w->deadline_s > 0 && now_s() >= w->deadline_s ? PE_DEADLINE : PE_OK;
}

/* The first half second draws nothing: most work is over by then. */
static void progress(void *user, double fraction, const char *sentence)
{
    enum { WIDTH = 30 };
    static const char full[] = "##############################", empty[] = "..............................";
    watch *w = user;
    double now = now_s();
    if (!w->bar || now - w->start_s < 0.5 || now - w->drawn_s < 0.1)
        return;
    w->drawn_s = now;
    int done = fraction <= 0 ? 0 : fraction >= 1 ? WIDTH : (int)(fraction * WIDTH);
    fprintf(stderr, "\r\033[K[%.*s%.*s] %3d %% %.100s", done, full, WIDTH - done, empty, (int)(fraction * 100),
            sentence ? sentence : "");
    fflush(stderr);
}

void watch_start(watch *w, posenc_context *ctx, double deadline_s)
{
    struct sigaction a = { .sa_handler = on_signal };
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    *w = (watch){ .start_s = now_s(), .bar = isatty(STDERR_FILENO) != 0 };
    w->deadline_s = deadline_s > 0 ? w->start_s + deadline_s : 0;
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE); /* more would be killed */
    *ctx = (posenc_context){ .stop = stop, .progress = progress, .user = w, .memory_limit = memory };
}

void watch_clear(watch *w)
{
    if (w->drawn_s > 0)
        fprintf(stderr, "\r\033[K");
    w->drawn_s = 0;
}

void watch_let_finish(watch *w) { w->deadline_s = 0; }

double watch_left(const watch *w)
{
    double left = w->deadline_s > 0 ? w->deadline_s - now_s() : 1e9;
    return left > 0 ? left : 0;
}

bool watch_interrupted(void) { return caught != 0; }

void watch_die(void)
{
    if (!caught)
        return;
    signal(caught, SIG_DFL);
    raise(caught);
}
