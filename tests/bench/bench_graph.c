/* bench_graph.c - one request over one large graph: CPU time, memory, residuals, and a hash of the result.
 *
 * usage: bench_graph EDGES.npy NODES ENCODING QUERY [THREADS]      EDGES: (2, m) int32 or int64
 * Prints one JSON object: seconds of this process's CPU from the edge list to the result, of computing alone, and of the
 * clock on the wall for all of it, bytes of the resident set at its peak less those before, the largest residual, the digest
 * of all outputs; or the error. */
#include "core/digest.h"
#include "core/memory.h"
#include "pool.h"
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* [KB]; ru_maxrss would be that of the process that began this one, where it was larger */
static long peak(void)
{
    char line[200];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "VmHWM:", 6))
            kb = atol(line + 6);
    if (f)
        fclose(f);
    return kb;
}

static void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    void *bytes = NULL;
    if (f && !fseek(f, 0, SEEK_END)) {
        *size = (size_t)ftell(f);
        rewind(f);
        bytes = malloc(*size + 1);
        if (bytes && fread(bytes, 1, *size, f) != *size)
            exit(2);
        fclose(f);
    }
    return bytes;
}

static void share(void *pool, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(pool, n, task, arg);
}

int main(int argc, char **argv)
{
    posenc_error err = { 0 };
    posenc_tensor t;
    posenc_request r;
    posenc_status st;
    size_t size = 0;
    char text[1000];
    posenc_arena *scratch = posenc_arena_new((size_t)1 << 40), *a = posenc_arena_new((size_t)1 << 40);
    void *bytes = argc == 5 || argc == 6 ? read_file(argv[1], &size) : NULL;
    if (!bytes || posenc_read_npy(bytes, size, argv[1], &t, scratch, &err) || t.rank != 2 || t.shape[0] != 2) {
        fprintf(stderr, "usage: bench_graph EDGES.npy NODES ENCODING QUERY [THREADS], EDGES (2, m) of integers\n");
        return 2;
    }
    int64_t m = t.shape[1], *edge = malloc((size_t)(2 * m + 1) * sizeof *edge);
    for (int64_t i = 0; i < 2 * m; i++)
        edge[i] = (int64_t)posenc_tensor_get(&t, i);
    free(bytes);
    posenc_arena_free(scratch);
    const posenc_edges edges = { .num_nodes = atoll(argv[2]), .nedges = m, .source = edge, .target = edge + m };
    const int threads = argc == 6 ? atoi(argv[5]) : 1;
    pe_pool *pool = pe_pool_new(threads, 16);
    posenc_context ctx = { .parallel = share, .user = pool, .threads = threads };
    const long before = peak();
    const double begin = cpu(), start = wall();
    if ((st = posenc_request_init(&r, argv[3], a, &err)) || (st = posenc_request_parse(&r, argv[4], &err)) ||
        (st = posenc_graph_build(&edges, a, &r.graph, &err)) || (st = posenc_resolve(&r, &err)))
        goto done;
    for (int i = 0; i < r.shape.ntensors; i++) {
        size_t bytes_of = (size_t)posenc_tensor_size(&r.shape.tensor[i]);
        if (!(r.shape.tensor[i].data = pe_result_memory(bytes_of ? bytes_of : 64)))
            return 2;
    }
    const double middle = cpu();
    if ((st = posenc_compute(&r, &r.shape, &ctx, &err)))
        goto done;
    const double end = cpu(), stop = wall();
    pe_hasher hasher;
    pe_digest digest = { { 0 } };
    char hex[65];
    double worst = 0;
    pe_hash_init(&hasher);
    for (int i = 0; i < r.shape.ntensors; i++) {
        const posenc_tensor *x = &r.shape.tensor[i];
        pe_hash_add(&hasher, x->data, (size_t)posenc_tensor_size(x));
        for (int64_t j = 0; !strcmp(x->name, "residuals") && j < posenc_tensor_count(x); j++)
            worst = posenc_tensor_get(x, j) > worst ? posenc_tensor_get(x, j) : worst;
    }
    if (!pe_hash_final(&hasher, &digest))
        return 2;
    pe_hex(&digest, hex);
    printf("{\"seconds\": %.4f, \"compute\": %.4f, \"wall\": %.4f, \"bytes\": %ld, \"residual\": %.3g, \"warnings\": %d, "
           "\"digest\": \"%.16s\"}\n",
           end - begin, end - middle, stop - start, (peak() - before) * 1024, worst, r.shape.nwarnings, hex);
done:
    if (st)
        printf("{\"error\": \"%s\"}\n", posenc_error_text(&err, text, sizeof text));
    for (int i = 0; i < r.shape.ntensors; i++)
        free(r.shape.tensor[i].data);
    posenc_arena_free(a);
    pe_pool_free(pool);
    free(edge);
    return st ? 1 : 0;
}
