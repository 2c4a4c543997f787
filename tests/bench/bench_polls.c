/* bench_polls.c - how long a computation leaves its context alone: posenc.h promises a poll every 10 ms.
 *
 * usage: bench_polls [SECONDS [NAME [QUERY [ENCODING]]]]   a case is stopped after SECONDS (60); NAME: only the graphs that
 * have it in their name; QUERY: in place of the cases' own; ENCODING: laplacian Prints a line a case, by tabs: graph, query,
 * polls, the largest gap [ms], CPU time of the thread [s], 1 if it was stopped. latency.py reads it. */
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct watch {
    double start, last, worst, limit; /* [s]; start 0: no poll yet */
    int64_t polls;
} watch;

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static posenc_status stop(void *user)
{
    watch *w = user;
    double now = cpu(), gap = now - w->last;
    w->worst = gap > w->worst ? gap : w->worst;
    w->polls++;
    w->last = now;
    return now - w->start > w->limit ? PE_CANCELLED : PE_OK;
}

/* ---- graphs ---- */

static posenc_edges edges(int64_t n, int64_t most)
{
    size_t bytes = (size_t)(most ? most : 1) * sizeof(int64_t);
    return (posenc_edges){ .num_nodes = n, .source = malloc(bytes), .target = malloc(bytes) };
}

static void join(posenc_edges *e, int64_t u, int64_t v)
{
    ((int64_t *)(uintptr_t)e->source)[e->nedges] = u;
    ((int64_t *)(uintptr_t)e->target)[e->nedges++] = v;
}

static int64_t draw(uint64_t *seed, int64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*seed >> 33) % (uint64_t)n);
}

static posenc_edges grid(int64_t rows, int64_t columns)
{
    posenc_edges e = edges(rows * columns, 2 * rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            if (j + 1 < columns)
                join(&e, i * columns + j, i * columns + j + 1);
            if (i + 1 < rows)
                join(&e, i * columns + j, (i + 1) * columns + j);
        }
    return e;
}

static posenc_edges complete(int64_t n, int64_t unused)
{
    (void)unused;
    posenc_edges e = edges(n, n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            join(&e, i, j);
    return e;
}

static posenc_edges star(int64_t n, int64_t unused)
{
    (void)unused;
    posenc_edges e = edges(n, n);
    for (int64_t i = 1; i < n; i++)
        join(&e, 0, i);
    return e;
}

static posenc_edges isolated(int64_t n, int64_t unused)
{
    (void)unused;
    return edges(n, 0);
}

static posenc_edges random_pairs(int64_t n, int64_t m) /* Erdos, Renyi */
{
    posenc_edges e = edges(n, m);
    for (uint64_t seed = 1; e.nedges < m;) {
        int64_t u = draw(&seed, n), v = draw(&seed, n);
        if (u != v)
            join(&e, u, v);
    }
    return e;
}

static posenc_edges regular(int64_t n, int64_t cycles) /* Hamilton cycles: degree 2 * cycles */
{
    posenc_edges e = edges(n, n * cycles);
    int64_t *p = malloc((size_t)n * sizeof *p);
    uint64_t seed = 1;
    for (int64_t i = 0; i < n; i++)
        p[i] = i;
    for (int64_t c = 0; c < cycles; c++) {
        for (int64_t i = n - 1; i > 0; i--) {
            int64_t j = draw(&seed, i + 1), t = p[i];
            p[i] = p[j];
            p[j] = t;
        }
        for (int64_t i = 0; i < n; i++)
            join(&e, p[i], p[(i + 1) % n]);
    }
    free(p);
    return e;
}

static posenc_edges preferential(int64_t n, int64_t each) /* Barabasi, Albert: hubs, as in a citation graph */
{
    posenc_edges e = edges(n, n * each);
    uint64_t seed = 1;
    for (int64_t v = 1; v < n; v++)
        for (int64_t i = 0, had = e.nedges; i < each && i < v; i++) {
            int64_t at = had ? draw(&seed, 2 * had) : 0;
            join(&e, v, !had ? 0 : at % 2 ? e.source[at / 2] : e.target[at / 2]);
        }
    return e;
}

static posenc_edges trees(int64_t count, int64_t spread) /* a batch: 7 .. 6 + spread nodes, as molecules have */
{
    posenc_edges e = edges(0, count * (6 + spread));
    int64_t *ptr = calloc((size_t)count + 1, sizeof *ptr);
    uint64_t seed = 1;
    for (int64_t g = 0; g < count; g++) {
        for (int64_t i = 1; i < 7 + g % spread; i++)
            join(&e, ptr[g] + i, ptr[g] + i - 1 - draw(&seed, i < 3 ? i : 3));
        e.num_nodes = ptr[g + 1] = ptr[g] + 7 + g % spread;
    }
    e.ptr = ptr;
    e.ngraphs = count;
    return e;
}

/* ---- cases ---- */

static const struct {
    const char *name, *encoding, *query;
    posenc_edges (*build)(int64_t a, int64_t b);
    int64_t a, b;
} cases[] = {
    { "grid 141 x 142", "laplacian", "k=8", grid, 141, 142 },
    { "grid 141 x 142", "laplacian", "k=320", grid, 141, 142 },
    { "grid 1000 x 1000", "laplacian", "k=8", grid, 1000, 1000 },
    { "complete graph of 1,500", "laplacian", "k=8", complete, 1500, 0 },
    { "random, 20,000 nodes, 100,000 edges", "laplacian", "k=8", random_pairs, 20000, 100000 },
    { "4-regular, 100,000 nodes", "laplacian", "k=8", regular, 100000, 2 },
    { "1,000,000 isolated nodes", "laplacian", "k=8", isolated, 1000000, 0 },
    { "preferential attachment, 20,000 nodes, 40,000 edges", "laplacian", "k=8", preferential, 20000, 2 },
    { "10,000 trees of 7 nodes", "laplacian", "k=4", trees, 10000, 1 },
    { "2,000 trees of 7 to 38 nodes", "laplacian", "k=8", trees, 2000, 32 },
    { "random, 1,000,000 nodes, 4,000,000 edges", "degree", "", random_pairs, 1000000, 4000000 },
    { "grid 1000 x 1000", "anchor_distance", "num_anchors=48&anchor_mode=random", grid, 1000, 1000 },
    { "preferential attachment, 1,000,000 nodes, 3,000,000 edges", "anchor_distance", "num_anchors=64&anchor_mode=random",
      preferential, 1000000, 3 },
    { "star of 20,000", "laplacian", "k=8", star, 20000, 0 },
    { "star of 100,000", "laplacian", "k=8", star, 100000, 0 },
};

/* Runs one request and prints its row. False: something failed but for the clock. */
static bool run(const char *name, const char *encoding, const char *query, const posenc_edges *e, double limit)
{
    posenc_error err = { 0 };
    posenc_request r;
    posenc_status st;
    watch w = { .limit = limit };
    posenc_context ctx = { .stop = stop, .user = &w };
    posenc_arena *arena = posenc_arena_new((size_t)1 << 40);
    void *memory[16] = { 0 };
    char text[500];
    if ((st = posenc_request_init(&r, encoding, arena, &err)) || (st = posenc_request_parse(&r, query, &err)))
        goto done;
    r.ctx = &ctx;
    w.start = w.last = cpu();
    st = posenc_graph_build_watched(e, arena, &r.graph, &ctx, &err);
    if (st == PE_CANCELLED || (!st && (st = posenc_resolve(&r, &err)) == PE_CANCELLED))
        goto told;
    if (st)
        goto done;
    for (int i = 0; i < r.shape.ntensors; i++) {
        size_t size = ((size_t)posenc_tensor_size(&r.shape.tensor[i]) + 63) / 64 * 64;
        if (!(r.shape.tensor[i].data = memory[i] = aligned_alloc(64, size ? size : 64)))
            exit(1);
    }
    st = posenc_compute(&r, &r.shape, &ctx, &err);
told:
    if (st != PE_CANCELLED) { /* how soon it stops is another matter */
        stop(&w);
        if (st)
            goto done;
    }
    printf("%s\t%s\t%lld\t%.1f\t%.2f\t%d\n", name, query, (long long)w.polls, w.worst * 1e3, w.last - w.start,
           st == PE_CANCELLED);
    fflush(stdout);
    st = PE_OK;
done:
    if (st)
        fprintf(stderr, "%s, %s: %s\n", name, query, posenc_error_text(&err, text, sizeof text));
    for (int i = 0; i < 16; i++)
        free(memory[i]);
    posenc_arena_free(arena);
    return !st;
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 60;
    const char *only = argc > 2 ? argv[2] : "";
    bool ok = limit > 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && ok; i++) {
        if (!strstr(cases[i].name, only))
            continue;
        posenc_edges e = cases[i].build(cases[i].a, cases[i].b);
        ok = run(cases[i].name, argc > 4 ? argv[4] : cases[i].encoding, argc > 3 ? argv[3] : cases[i].query, &e, limit);
        free((void *)(uintptr_t)e.source);
        free((void *)(uintptr_t)e.target);
        free((void *)(uintptr_t)e.ptr);
    }
    return ok ? 0 : 1;
}
