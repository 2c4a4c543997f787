/* bench_tables.c - tables, against what stores alone reach in the same run.
 *
 * usage: bench_tables [ROUNDS] [--tsv]     a Markdown table, or what tables.py reads: what, bytes, seconds of posenc, of
 *                                          stores
 * Alternated, median of ROUNDS (7), CPU time of one thread. The limit is the faster of memset and stores around the cache,
 * to the same memory, which was touched before; `fresh`: memory that was not, as malloc gives it for what is large, where
 * the kernel clears each page first. `2 threads`: to one, both posenc, by the wall clock. */
#include "posenc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { MOST_ROUNDS = 101, HUGE = 2 << 20 };

typedef enum kind { WARM, FRESH, THREADS } kind;

static const struct {
    const char *what, *encoding, *query;
    kind how;
} rows[] = {
    { "sinusoidal 2048 x 1024 float32", "sinusoidal", "embedding_dim=1024&num_positions=2048", WARM },
    { "sinusoidal 2048 x 1024 float32, split", "sinusoidal", "embedding_dim=1024&num_positions=2048&layout=split", WARM },
    { "sinusoidal 2048 x 1024 float16", "sinusoidal", "embedding_dim=1024&num_positions=2048&dtype=float16", WARM },
    { "sinusoidal 2048 x 1024 bfloat16", "sinusoidal", "embedding_dim=1024&num_positions=2048&dtype=bfloat16", WARM },
    { "sinusoidal 2048 x 1024 float64", "sinusoidal", "embedding_dim=1024&num_positions=2048&dtype=float64", WARM },
    { "sinusoidal 32768 x 1024 float32", "sinusoidal", "embedding_dim=1024&num_positions=32768", WARM },
    { "sinusoidal 32768 x 1024 float16", "sinusoidal", "embedding_dim=1024&num_positions=32768&dtype=float16", WARM },
    { "sinusoidal 32768 x 1024 bfloat16", "sinusoidal", "embedding_dim=1024&num_positions=32768&dtype=bfloat16", WARM },
    { "sinusoidal 131072 x 1024 float32", "sinusoidal", "embedding_dim=1024&num_positions=131072", WARM },
    { "rope 8192 x 128 float32", "rope", "head_dim=128&rope_theta=500000&num_positions=8192", WARM },
    { "rope 131072 x 128 float32", "rope", "head_dim=128&rope_theta=500000&num_positions=131072", WARM },
    { "rope 131072 x 128 bfloat16", "rope", "head_dim=128&rope_theta=500000&num_positions=131072&dtype=bfloat16", WARM },
    { "sinusoidal_2d 64 x 64 x 768 float32", "sinusoidal_2d", "embed_dim=768&height=64&width=64", WARM },
    { "rope_nd 64 x 64 x 96 float32", "rope_nd", "axes_dim=32,32,32&temporal_size=1&height=64&width=64", WARM },
    { "sinusoidal 2048 x 1024 float32, fresh", "sinusoidal", "embedding_dim=1024&num_positions=2048", FRESH },
    { "sinusoidal 32768 x 1024 float32, fresh", "sinusoidal", "embedding_dim=1024&num_positions=32768", FRESH },
    { "rope 131072 x 128 float32, fresh", "rope", "head_dim=128&rope_theta=500000&num_positions=131072", FRESH },
    { "sinusoidal 131072 x 1024 float32, 2 threads", "sinusoidal", "embedding_dim=1024&num_positions=131072", THREADS },
    { "sinusoidal 131072 x 1024 bfloat16, 2 threads", "sinusoidal", "embedding_dim=1024&num_positions=131072&dtype=bfloat16",
      THREADS },
};

static int rounds = 7;

static clockid_t watch = CLOCK_THREAD_CPUTIME_ID; /* others may be busy; of two threads only the wall clock says how long */

static double now(void)
{
    struct timespec t;
    clock_gettime(watch, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t)
{
    qsort(t, (size_t)rounds, sizeof *t, ascending);
    return t[rounds / 2];
}

static char *map(size_t size)
{
    char *p = aligned_alloc(HUGE, size);
    if (!p)
        exit(2);
    madvise(p, size, MADV_HUGEPAGE);
    return p;
}

static void around(char *to, size_t size, int value)
{
#if defined(__x86_64__)
    const __m128i v = _mm_set1_epi8((char)value);
    for (size_t i = 0; i < size; i += sizeof v)
        _mm_stream_si128((__m128i *)(void *)(to + i), v);
    _mm_sfence();
#else
    memset(to, value, size);
#endif
}

/* ---- two threads ---- */

typedef struct share {
    void (*task)(void *arg, int64_t i);
    void *arg;
    _Atomic int64_t next;
    int64_t n;
} share;

static void *work(void *arg)
{
    share *s = arg;
    for (int64_t i; (i = s->next++) < s->n;)
        s->task(s->arg, i);
    return NULL;
}

static void by_two(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    share s = { .task = task, .arg = arg, .n = n };
    pthread_t other;
    (void)user;
    if (pthread_create(&other, NULL, work, &s))
        exit(2);
    work(&s);
    pthread_join(other, NULL);
}

/* ---- a row ---- */

/* Lays the tensors of a result one after the other. */
static posenc_result lay(const posenc_request *r, char *at)
{
    posenc_result out = r->shape;
    for (int i = 0; i < out.ntensors; i++) {
        out.tensor[i].data = at;
        at += (posenc_tensor_size(&out.tensor[i]) + 63) & ~(size_t)63;
    }
    return out;
}

static double compute(const posenc_request *r, char *to, posenc_context *ctx)
{
    posenc_result out = lay(r, to);
    posenc_error err = { 0 };
    const double begin = now();
    if (posenc_compute(r, &out, ctx, &err))
        exit(2);
    return now() - begin;
}

static double filled(char *to, size_t size, int value, bool past)
{
    const double begin = now();
    if (past)
        around(to, size, value);
    else
        memset(to, value, size);
    __asm__ volatile("" : : "r"(to) : "memory");
    return now() - begin;
}

/* Seconds of posenc, and of what it is held against. */
static void measure(const posenc_request *r, kind how, size_t size, double *ours, double *limit)
{
    static double mine[MOST_ROUNDS], usual[MOST_ROUNDS], past[MOST_ROUNDS];
    watch = how == THREADS ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    const size_t whole = (size + HUGE - 1) / HUGE * HUGE;
    posenc_context two = { .parallel = by_two, .threads = 2 };
    char *p = map(whole);
    if (how != FRESH)
        memset(p, 1, whole);
    for (int i = 0; i < rounds; i++) {
        if (how == FRESH) {
            for (int k = 0; k < 2; k++) {
                free(p);
                p = map(whole);
                *(k ? &usual[i] : &mine[i]) = k ? filled(p, size, i, false) : compute(r, p, NULL);
            }
            past[i] = usual[i];
        } else if (how == THREADS) {
            mine[i] = compute(r, p, &two);
            usual[i] = past[i] = compute(r, p, NULL);
        } else {
            mine[i] = compute(r, p, NULL);
            usual[i] = filled(p, size, i, false);
            past[i] = filled(p, size, i, true);
        }
    }
    free(p);
    const double a = median(usual), b = median(past);
    *ours = median(mine);
    *limit = a < b ? a : b;
}

int main(int argc, char **argv)
{
    bool tsv = false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--tsv"))
            tsv = true;
        else
            rounds = atoi(argv[i]);
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return 2;
    if (!tsv)
        printf("| table | ms | GB/s | limit, GB/s | of the limit |\n| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        posenc_error err = { 0 };
        char text[500];
        posenc_arena *a = posenc_arena_new((size_t)1 << 30);
        posenc_request r;
        posenc_request_init(&r, rows[i].encoding, a, &err);
        posenc_request_parse(&r, rows[i].query, &err);
        if (err.n || posenc_request_check(&r, &err)) {
            fprintf(stderr, "bench_tables: %s: %s\n", rows[i].what, posenc_error_text(&err, text, sizeof text));
            return 2;
        }
        size_t size = 0;
        for (int k = 0; k < r.shape.ntensors; k++)
            size += (posenc_tensor_size(&r.shape.tensor[k]) + 63) & ~(size_t)63;
        double ours, limit;
        measure(&r, rows[i].how, size, &ours, &limit);
        if (tsv)
            printf("%s\t%zu\t%.9f\t%.9f\n", rows[i].what, size, ours, limit);
        else
            printf("| %s | %.3f | %.1f | %.1f | %.2f |\n", rows[i].what, ours * 1e3, (double)size / ours * 1e-9,
                   (double)size / limit * 1e-9, limit / ours);
        fflush(stdout);
        posenc_arena_free(a);
    }
    return 0;
}
