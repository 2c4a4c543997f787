/* bench_queue.c - the peer of searches: plain breadth-first search with a queue, one source after another.
 *
 * usage: bench_queue TENSORS.npz NUM_NODES SOURCE [SOURCE ...]      edge_index (2, m), each edge once
 * It speaks as bench_requests does. Not timed: rows of neighbours. Timed: memory for the distances, int32 (sources, nodes),
 * and the searches. */
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rows {
    int64_t n;
    int64_t *ptr;
    int32_t *col;
} rows;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *grab(size_t n, size_t size)
{
    void *p = calloc(n + 2, size);
    if (!p)
        exit(2);
    return p;
}

static int64_t number(const posenc_tensor *t, int64_t i) { return (int64_t)posenc_tensor_get(t, i); }

static rows make_rows(const posenc_tensor *edges, int64_t n)
{
    const int64_t m = edges->shape[1];
    rows r = { .n = n, .ptr = grab((size_t)n, sizeof *r.ptr), .col = grab((size_t)(2 * m), sizeof *r.col) };
    for (int64_t i = 0; i < 2 * m; i++)
        r.ptr[number(edges, i) + 1]++;
    for (int64_t v = 0; v < n; v++)
        r.ptr[v + 1] += r.ptr[v];
    for (int64_t i = 0; i < 2 * m; i++)
        r.col[r.ptr[number(edges, i)]++] = (int32_t)number(edges, i < m ? i + m : i - m);
    for (int64_t v = n; v > 0; v--)
        r.ptr[v] = r.ptr[v - 1];
    r.ptr[0] = 0;
    return r;
}

static void search(const rows *r, int32_t source, int32_t *steps, int32_t *queue)
{
    int64_t tail = 0;
    memset(steps, 0xff, (size_t)r->n * sizeof *steps);
    steps[source] = 0;
    queue[tail++] = source;
    for (int64_t head = 0; head < tail; head++) {
        const int32_t u = queue[head], d = steps[u] + 1;
        for (int64_t a = r->ptr[u]; a < r->ptr[u + 1]; a++)
            if (steps[r->col[a]] < 0) {
                steps[r->col[a]] = d;
                queue[tail++] = r->col[a];
            }
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_queue TENSORS.npz NUM_NODES SOURCE [SOURCE ...]\n");
        return 2;
    }
    const int64_t n = atoll(argv[2]);
    const int sources = argc - 3;
    char text[1000], line[100];
    posenc_error err = { 0 };
    posenc_tensor *tensor;
    size_t ntensors, size = 0;
    posenc_arena *a = posenc_arena_new((size_t)1 << 40);
    FILE *f = fopen(argv[1], "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        perror(argv[1]);
        return 2;
    }
    size = (size_t)ftell(f);
    rewind(f);
    char *npz = grab(size, 1);
    if (fread(npz, 1, size, f) != size || posenc_read_npz(npz, size, argv[1], &tensor, &ntensors, a, &err) ||
        ntensors != 1 || tensor->rank != 2 || tensor->shape[0] != 2) {
        fprintf(stderr, "bench_queue: %s: edge_index alone is wanted. %s\n", argv[1],
                posenc_error_text(&err, text, sizeof text));
        return 2;
    }
    fclose(f);
    const rows r = make_rows(tensor, n);
    free(npz);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    double least;
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%lf", &least) == 1) {
        const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        long runs = 0;
        do {
            int32_t *steps = malloc((size_t)(n * sources + 1) * sizeof *steps),
                    *queue = malloc((size_t)(n + 1) * sizeof *queue);
            if (!steps || !queue)
                return 2;
            for (int i = 0; i < sources; i++)
                search(&r, (int32_t)atoll(argv[3 + i]), steps + i * n, queue);
            free(steps);
            free(queue);
            runs++;
        } while (seconds(CLOCK_MONOTONIC) - wall < least);
        printf("%.1f %.1f 0 %ld 0\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e9 / (double)runs,
               (seconds(CLOCK_MONOTONIC) - wall) * 1e9 / (double)runs, runs);
    }
    free(r.ptr);
    free(r.col);
    posenc_arena_free(a);
    return 0;
}
