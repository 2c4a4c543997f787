/* bench_hit.c - times the service's path of a result that is in memory: resolved request to counted entry, without a door.
 *
 * usage: bench_hit ENCODING QUERY
 * Reads and prints lines as bench_requests does. */
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void never(pe_call *c) { (void)c; }

static void hit(pe_service *s, pe_request *r)
{
    pe_call c = { .request = r, .done = never };
    if (!pe_service_begin(s, &c) || c.status) {
        printf("error not a hit\n");
        exit(1);
    }
    pe_entry_unref(c.entry);
}

int main(int argc, char **argv)
{
    posenc_error err = { 0 };
    pe_config config;
    pe_config_mode mode;
    posenc_arena *a = posenc_arena_new(1 << 20);
    char line[100], text[1000], *none[] = { argv[0] };
    if (argc != 3 || pe_config_load(1, none, a, &config, &mode, &err)) {
        fprintf(stderr, "usage: bench_hit ENCODING QUERY\n");
        return 2;
    }
    pe_service *s = pe_service_new(&config, &err);
    pe_service_set_phase(s, PE_SERVING);
    pe_request *r = pe_request_new(s);
    if (posenc_request_init(&r->r, argv[1], r->arena, &err) || posenc_request_parse(&r->r, argv[2], &err) ||
        pe_service_resolve(s, r, &err)) {
        fprintf(stderr, "bench_hit: %s\n", posenc_error_text(&err, text, sizeof text));
        return 2;
    }
    pe_call first = { .request = r, .done = never };
    while (!pe_service_begin(s, &first)) /* the pool computes it */
        ;
    pe_entry_unref(first.entry);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        enum { AT_ONCE = 1000 };
        const double least = atof(line), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), begin = seconds(CLOCK_MONOTONIC);
        double wall = 0;
        long n = 0;
        do {
            for (int i = 0; i < AT_ONCE; i++)
                hit(s, r);
            n += AT_ONCE;
            wall = seconds(CLOCK_MONOTONIC) - begin;
        } while (wall < least);
        printf("%.1f %.1f 0 %ld 0\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e9 / (double)n, wall * 1e9 / (double)n,
               n);
    }
    pe_request_unref(r);
    pe_service_free(s);
    posenc_arena_free(a);
    return 0;
}
