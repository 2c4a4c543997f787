/* A batch is cut into chunks that threads share: the bytes and the words are those of one thread. */
#include "ask.h"
#include "core/parallel.h"
#include "pool.h"

#include <stdatomic.h>

enum { GRAPHS = 1300, MOST_NODES = 9, THREADS = 4 }; /* three chunks */

static void share(void *pool, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(pool, n, task, arg);
}

typedef struct batch {
    int64_t ptr[GRAPHS + 1], source[GRAPHS * 16], target[GRAPHS * 16];
    double weight[GRAPHS * 16];
    posenc_edges edges;
} batch;

/* Random trees with a few edges more; one edge in fifty of weight 0, one graph in a hundred with a weight below 0. */
static void make_batch(batch *b)
{
    uint32_t state = 12345;
    int64_t m = 0;
#define NEXT(n) ((int64_t)((state = state * 1664525u + 1013904223u) >> 8) % (n))
    b->ptr[0] = 0;
    for (int64_t g = 0; g < GRAPHS; g++) {
        const int64_t first = b->ptr[g], n = NEXT(MOST_NODES + 1);
        b->ptr[g + 1] = first + n;
        for (int64_t v = 1; v < n; v++, m++) {
            b->source[m] = first + v;
            b->target[m] = first + NEXT(v);
            b->weight[m] = NEXT(50) ? 1 + (double)NEXT(3) : 0;
        }
        if (n > 3 && g % 100 == 7)
            b->weight[m - 1] = -1;
    }
    b->edges = (posenc_edges){ .num_nodes = b->ptr[GRAPHS],
                               .nedges = m,
                               .source = b->source,
                               .target = b->target,
                               .weight = b->weight,
                               .ptr = b->ptr,
                               .ngraphs = GRAPHS };
}

static posenc_answer ask_batch(const char *name, const char *query, const batch *b, posenc_context *ctx)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(posenc_encode(name, query, &b->edges, &a, ctx, &err) == PE_OK, "%s %s: %s", name, query,
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

START_TEST(same_with_any_threads)
{
    const posenc_encoding *e = posenc_encoding_at((size_t)_i);
    if (e->input != PE_GRAPH)
        return;
    batch *b = malloc(sizeof *b);
    make_batch(b);
    pe_pool *pool = pe_pool_new(THREADS, 4);
    posenc_context many = { .parallel = share, .user = pool, .threads = THREADS };
    /* a pair of nodes that every graph has is none's; the others' examples fit */
    const char *query = !strcmp(e->name, "double_radius_node_labeling") ? "src=0&dst=1" : e->example;
    posenc_answer one = ask_batch(e->name, query, b, NULL), other = ask_batch(e->name, query, b, &many);
    for (int i = 0; i < one.result.ntensors; i++)
        ck_assert_msg(
            !memcmp(one.result.tensor[i].data, other.result.tensor[i].data, posenc_tensor_size(&one.result.tensor[i])),
            "%s: %s", e->name, one.result.tensor[i].name);
    ck_assert_int_eq(one.result.nwarnings, other.result.nwarnings);
    for (int i = 0; i < one.result.nwarnings; i++)
        ck_assert_str_eq(one.result.warning[i], other.result.warning[i]);
    ck_assert_int_gt(one.result.nwarnings, 0); /* of edges of weight 0 */
    posenc_answer_fini(&one);
    posenc_answer_fini(&other);
    pe_pool_free(pool);
    free(b);
}
END_TEST

static posenc_status stop_later(void *user) { return atomic_fetch_add((atomic_int *)user, 1) > 700 ? PE_CANCELLED : PE_OK; }

typedef struct stopped_pool {
    atomic_int polls; /* first: stop_later's */
    pe_pool *pool;
} stopped_pool;

static void share_stopped(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(((stopped_pool *)user)->pool, n, task, arg);
}

START_TEST(all_threads_stop)
{
    batch *b = malloc(sizeof *b);
    make_batch(b);
    stopped_pool s = { .pool = pe_pool_new(THREADS, 4) };
    posenc_context ctx = { .stop = stop_later, .parallel = share_stopped, .user = &s, .threads = THREADS };
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("laplacian", "k=2", &b->edges, &a, &ctx, &err), PE_CANCELLED);
    ck_assert_uint_eq(err.n, 1);
    ck_assert_int_lt(s.polls, GRAPHS);
    pe_pool_free(s.pool);
    free(b);
}
END_TEST

/* ---- the loop itself ---- */

typedef struct record {
    atomic_int ran[100];
    int64_t fails[3];
} record;

static posenc_status sometimes(void *arg, int64_t i, posenc_error *err)
{
    record *r = arg;
    atomic_fetch_add(&r->ran[i], 1);
    for (int f = 0; f < 3; f++)
        if (i == r->fails[f])
            return posenc_fail(err, PE_INVALID, "TEST", "task", posenc_text("%lld", (long long)i).s, "another");
    return PE_OK;
}

START_TEST(lowest_fault_wins)
{
    pe_pool *pool = pe_pool_new(THREADS, 4);
    posenc_context many = { .parallel = share, .user = pool, .threads = THREADS }, one = { .threads = 8 };
    posenc_context tight = { .parallel = share, .user = pool, .threads = THREADS, .memory_limit = 1000 };
    posenc_context *ctx[] = { NULL, &one, &many, &tight };
    for (int round = 0; round < 50; round++) {
        record r = { .fails = { 20 + round, 7 + round, 30 } };
        const int64_t least = 7 + round < 30 ? 7 + round : 30;
        posenc_error err = { 0 };
        ck_assert_int_eq(pe_parallel(ctx[round % 4], 100, 251, sometimes, &r, &err), PE_INVALID);
        ck_assert_uint_eq(err.n, 1);
        ck_assert_str_eq(err.fault[0].value, posenc_text("%lld", (long long)least).s);
        for (int64_t i = 0; i < 100; i++)
            ck_assert(i <= least ? r.ran[i] == 1 : r.ran[i] <= (round % 4 == 2)); /* in order: none after it */
    }
    record all = { .fails = { -1, -1, -1 } };
    ck_assert_int_eq(pe_parallel(&many, 100, 0, sometimes, &all, NULL), PE_OK);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(all.ran[i], 1);
    ck_assert_int_eq(pe_parallel(&many, 0, 0, sometimes, &all, NULL), PE_OK);
    pe_pool_free(pool);
}
END_TEST

static posenc_status after_fifty(void *polls)
{
    return atomic_fetch_add((atomic_int *)polls, 1) < 50 ? PE_OK : PE_CANCELLED;
}

/* Tasks that are too short for a poll of their own are stopped all the same. */
START_TEST(short_tasks_stop)
{
    pe_pool *pool = pe_pool_new(THREADS, 4);
    for (int with = 0; with < 2; with++) {
        atomic_int polls = 0;
        posenc_context ctx = { .stop = after_fifty, .user = &polls, .threads = 1 };
        stopped_pool s = { .polls = 650, .pool = pool };
        record r = { .fails = { -1, -1, -1 } };
        int ran = 0;
        if (with)
            ctx = (posenc_context){ .stop = stop_later, .parallel = share_stopped, .user = &s, .threads = THREADS };
        ck_assert_int_eq(pe_parallel(&ctx, 100, 0, sometimes, &r, NULL), PE_CANCELLED);
        for (int i = 0; i < 100; i++)
            ran += r.ran[i];
        ck_assert_int_lt(ran, 100);
    }
    pe_pool_free(pool);
}
END_TEST

Suite *batches_suite(void);
Suite *batches_suite(void)
{
    Suite *s = suite_create("batches");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, same_with_any_threads, 0, (int)posenc_encodings());
    tcase_add_test(t, all_threads_stop);
    tcase_add_test(t, lowest_fault_wins);
    tcase_add_test(t, short_tasks_stop);
    suite_add_tcase(s, t);
    return s;
}
