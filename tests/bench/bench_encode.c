/* bench_encode.c - what the library's encodings and the service's hit path cost, as ratios to a yardstick of the same
 * run: tables to the time that memset takes for as many bytes, a hit to one computation of the same request.
 *
 * usage: bench_encode [ROUNDS]   prints a Markdown table: median of ROUNDS (5), process CPU time, one thread */
#include "service.h"

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

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int rounds = 5;

static double median(double (*run)(const void *), const void *arg)
{
    double t[101];
    for (int i = 0; i < rounds; i++)
        t[i] = run(arg);
    qsort(t, (size_t)rounds, sizeof *t, ascending);
    return t[rounds / 2];
}

typedef struct workload {
    const char *encoding, *query;
    const posenc_edges *edges;
} workload;

static double encode(const void *arg)
{
    const workload *w = arg;
    posenc_answer a;
    posenc_error err = { 0 };
    char text[500];
    double t = cpu();
    if (posenc_encode(w->encoding, w->query, w->edges, &a, NULL, &err)) {
        fprintf(stderr, "%s %s: %s\n", w->encoding, w->query, posenc_error_text(&err, text, sizeof text));
        exit(1);
    }
    t = cpu() - t;
    posenc_answer_fini(&a);
    return t;
}

static double fill(const void *arg)
{
    size_t n = *(const size_t *)arg;
    char *p = malloc(n);
    memset(p, 1, n); /* the pages are there before the clock starts */
    double t = cpu();
    for (int i = 0; i < 10; i++) {
        memset(p, i, n);
        __asm__ volatile("" : : "r"(p) : "memory");
    }
    t = (cpu() - t) / 10;
    free(p);
    return t;
}

typedef struct served {
    pe_service *service;
    pe_request *request;
} served;

static void never(pe_call *c) { (void)c; }

static double hits(const void *arg)
{
    const served *s = arg;
    enum { N = 100000 };
    double t = cpu();
    for (int i = 0; i < N; i++) {
        pe_call c = { .request = s->request, .done = never };
        if (!pe_service_begin(s->service, &c) || c.status)
            exit(1);
        pe_entry_unref(c.entry);
    }
    return (cpu() - t) / N;
}

static posenc_edges grid(int64_t side)
{
    int64_t m = 0, *source = malloc((size_t)(2 * side * side) * 8), *target = malloc((size_t)(2 * side * side) * 8);
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            if (j + 1 < side) {
                source[m] = i * side + j;
                target[m++] = i * side + j + 1;
            }
            if (i + 1 < side) {
                source[m] = i * side + j;
                target[m++] = (i + 1) * side + j;
            }
        }
    return (posenc_edges){ .num_nodes = side * side, .nedges = m, .source = source, .target = target };
}

/* 1,000 trees of 8 to 39 nodes, each node hung onto an earlier one: about the size of molecules. */
static posenc_edges molecules(void)
{
    enum { G = 1000 };
    int64_t *ptr = malloc((G + 1) * 8), *source = malloc(G * 40 * 8), *target = malloc(G * 40 * 8), n = 0, m = 0;
    uint64_t seed = 1;
    for (int g = 0; g < G; g++) {
        ptr[g] = n;
        int64_t size = 8 + g % 32;
        for (int64_t i = 1; i < size; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            source[m] = n + i;
            target[m++] = n + i - 1 - (int64_t)(seed >> 33) % (i < 3 ? i : 3);
        }
        n += size;
    }
    ptr[G] = n;
    return (posenc_edges){ .num_nodes = n, .nedges = m, .source = source, .target = target, .ptr = ptr, .ngraphs = G };
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (rounds < 1 || rounds > 101)
        return 2;
    posenc_edges grid20k = grid(141), batch = molecules();
    size_t bytes = 2048 * 1024 * 4;
    workload table = { "sinusoidal", "embedding_dim=1024&num_positions=2048", NULL },
             far = { "sinusoidal", "embedding_dim=1024&num_positions=2048&offset=100000000", NULL },
             small = { "sinusoidal", "embedding_dim=64&num_positions=16", NULL }, mol = { "laplacian", "k=8", &batch },
             large = { "laplacian", "k=8", &grid20k };
    double store = median(fill, &bytes), t = median(encode, &table), t_far = median(encode, &far),
           t_small = median(encode, &small), t_mol = median(encode, &mol), t_large = median(encode, &large);

    posenc_error err = { 0 };
    pe_config config;
    pe_config_mode mode;
    posenc_arena *a = posenc_arena_new(1 << 20);
    char *args[] = { argv[0] };
    pe_config_load(1, args, a, &config, &mode, &err);
    served s = { pe_service_new(&config, &err), NULL };
    pe_service_set_phase(s.service, PE_SERVING);
    s.request = pe_request_new(s.service);
    posenc_request_init(&s.request->r, "sinusoidal", s.request->arena, &err);
    posenc_request_parse(&s.request->r, small.query, &err);
    pe_service_resolve(s.service, s.request, &err);
    pe_call first = { .request = s.request, .done = never };
    while (!pe_service_begin(s.service, &first))
        ;
    pe_entry_unref(first.entry);
    double hit = median(hits, &s);

    printf("| what | CPU time | ratio |\n| --- | --- | --- |\n");
    printf("| sinusoidal 2048 x 1024 float32 | %.2f ms | %.1f x memset of as many bytes |\n", t * 1e3, t / store);
    printf("| the same at position 10^8 | %.2f ms | %.1f x memset |\n", t_far * 1e3, t_far / store);
    printf("| sinusoidal 16 x 64, resolved and computed | %.1f us | |\n", t_small * 1e6);
    printf("| the same as a memory hit | %.2f us | 1/%.0f of computing it |\n", hit * 1e6, t_small / hit);
    printf("| laplacian k=8, 1,000 trees of 8 to 39 nodes | %.1f us a graph | |\n", t_mol * 1e3);
    printf("| laplacian k=8, grid of 141 x 141 | %.2f s | %.0f x a molecule-sized graph |\n", t_large,
           t_large / (t_mol / 1000));

    pe_request_unref(s.request);
    pe_service_free(s.service);
    posenc_arena_free(a);
    free((void *)(uintptr_t)grid20k.source);
    free((void *)(uintptr_t)grid20k.target);
    free((void *)(uintptr_t)batch.source);
    free((void *)(uintptr_t)batch.target);
    free((void *)(uintptr_t)batch.ptr);
    return 0;
}
