/* bench_requests.c - times one request again and again: our side of tests/bench/measure.py.
 *
 * usage: bench_requests ENCODING PARAMS.json [TENSORS.npz [NUM_NODES [directed]]]
 * A line of standard input, "SECONDS THREADS", repeats the request for at least that long and prints a line:
 *     cpu wall prepare repetitions peak
 * nanoseconds a repetition of process CPU time, of wall time, and of CPU time up to where computing begins; how often it
 * ran; the largest resident size meanwhile [KiB]. Or "error TEXT".
 * Timed: what a C caller does with arrays in memory who keeps no result, that is graph (checked, sorted), rules, memory for
 * the result, computing. Not timed: reading the files, the JSON text, freeing; the name of the request, SHA-256 of its
 * inputs, which only caches need. */
#include "core/memory.h"
#include "crew.h"
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct times {
    double cpu, wall, prepare; /* [s] */
} times;

typedef struct order {
    const char *encoding, *json;
    size_t json_size;
    posenc_tensor *tensor; /* NULL: the parameters are all */
    size_t ntensors;
    int64_t num_nodes; /* -1: ptr says */
    bool directed;
    int threads;
} order;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static posenc_status memory_for(posenc_result *out, void **memory, posenc_error *err)
{
    for (int i = 0; i < out->ntensors; i++) {
        size_t size = (size_t)posenc_tensor_size(&out->tensor[i]);
        memory[i] = out->tensor[i].data = pe_result_memory(size ? size : 64);
        if (!memory[i])
            return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "memory for the result");
    }
    return PE_OK;
}

static posenc_status run(const order *o, posenc_arena *a, times *sum, posenc_error *err)
{
    posenc_request r;
    posenc_status st;
    if ((st = posenc_request_init(&r, o->encoding, a, err)) || (st = posenc_request_json(&r, o->json, o->json_size, err)))
        return st;
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    if (o->tensor && (st = posenc_request_tensors(&r, o->tensor, o->ntensors, o->num_nodes, o->directed, err)))
        return st;
    if ((st = posenc_request_check(&r, err)))
        return st;
    const double ready = seconds(CLOCK_PROCESS_CPUTIME_ID);
    void *memory[PE_MAX_OUTPUTS] = { NULL };
    posenc_result out = r.shape;
    posenc_context ctx = { 0 };
    if (o->threads > 1)
        crew_join(&ctx, o->threads);
    if (!(st = memory_for(&out, memory, err)))
        st = posenc_compute(&r, &out, &ctx, err);
    sum->cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    sum->wall += seconds(CLOCK_MONOTONIC) - wall;
    sum->prepare += ready - cpu;
    for (int i = 0; i < PE_MAX_OUTPUTS; i++)
        free(memory[i]);
    return st;
}

/* A whole file, with a NUL behind it. */
static char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    if (f && !fseek(f, 0, SEEK_END) && (p = malloc((size_t)ftell(f) + 1))) {
        *size = (size_t)ftell(f);
        rewind(f);
        *size = fread(p, 1, *size, f);
        p[*size] = 0;
    }
    if (f)
        fclose(f);
    if (!p) {
        perror(path);
        exit(2);
    }
    return p;
}

static long peak_kib(void)
{
    char line[200];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmHWM: %ld", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib;
}

static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

static void repeat(const order *o, double least)
{
    times sum = { 0 };
    long n = 0;
    forget_peak();
    do {
        char text[1000];
        posenc_error err = { 0 };
        posenc_arena *a = posenc_arena_new((size_t)1 << 40);
        posenc_status st = a ? run(o, a, &sum, &err) : posenc_fail(&err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "memory");
        posenc_arena_free(a);
        if (st) {
            printf("error %s\n", posenc_error_text(&err, text, sizeof text));
            return;
        }
        n++;
    } while (sum.wall < least);
    const double ns = 1e9 / (double)n;
    printf("%.1f %.1f %.1f %ld %ld\n", sum.cpu * ns, sum.wall * ns, sum.prepare * ns, n, peak_kib());
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_requests ENCODING PARAMS.json [TENSORS.npz [NUM_NODES [directed]]]\n");
        return 2;
    }
    char line[100], text[1000], *json, *npz = NULL;
    size_t size;
    posenc_error err = { 0 };
    posenc_arena *a = posenc_arena_new((size_t)1 << 40);
    order o = { .encoding = argv[1], .num_nodes = argc > 4 ? atoll(argv[4]) : -1, .directed = argc > 5 };
    o.json = json = slurp(argv[2], &o.json_size);
    if (argc > 3) {
        npz = slurp(argv[3], &size);
        if (!a || posenc_read_npz(npz, size, argv[3], &o.tensor, &o.ntensors, a, &err)) {
            fprintf(stderr, "bench_requests: %s\n", posenc_error_text(&err, text, sizeof text));
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    double least;
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%lf %d", &least, &o.threads) == 2)
        repeat(&o, least);
    posenc_arena_free(a);
    free(json);
    free(npz);
    return 0;
}
