/* test_cache.c - one computation a digest, budgets, scan resistance; the pool's classes. */
#include "cache.h"
#include "pool.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static posenc_arena *arena;

/* A resolved request of about `rows` * 4 KiB bytes. */
static posenc_request request(int id, int rows)
{
    posenc_request r;
    posenc_error err = { 0 };
    char query[100];
    snprintf(query, sizeof query, "embedding_dim=1024&num_positions=%d&offset=%d", rows, id);
    if (!arena)
        arena = posenc_arena_new(1 << 28);
    ck_assert_int_eq(posenc_request_init(&r, "sinusoidal", arena, &err), PE_OK);
    ck_assert_int_eq(posenc_request_parse(&r, query, &err), PE_OK);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    return r;
}

static void add(pe_cache *c, int id, int rows)
{
    posenc_request r = request(id, rows);
    pe_waiter w;
    pe_entry *have = NULL;
    pe_flight *f = NULL;
    pe_cache_answer answer = pe_cache_begin(c, r.digest, &w, &have, &f);
    if (answer == PE_CACHE_COMPUTE) {
        pe_entry *e = pe_entry_new(c, &r);
        ck_assert_ptr_eq(pe_cache_publish(c, f, e), &w);
        pe_entry_unref(e);
    }
    pe_entry_unref(have);
}

static bool holds(pe_cache *c, int id, int rows)
{
    posenc_request r = request(id, rows);
    pe_entry *e = pe_cache_get(c, r.digest, false);
    pe_entry_unref(e);
    return e != NULL;
}

static uint64_t held(pe_cache *c)
{
    pe_cache_stats s;
    pe_cache_stats_get(c, &s);
    return s.resident + s.pinned + s.reserved;
}

START_TEST(one_flight)
{
    pe_cache *c = pe_cache_new(1 << 20, NULL, NULL);
    posenc_request r = request(1, 1);
    pe_waiter a, b, d;
    pe_entry *have = NULL;
    pe_flight *f = NULL, *g = NULL;
    ck_assert_int_eq(pe_cache_begin(c, r.digest, &a, &have, &f), PE_CACHE_COMPUTE);
    ck_assert_int_eq(pe_cache_begin(c, r.digest, &b, &have, &g), PE_CACHE_WAIT);
    ck_assert(pe_cache_leave(c, &a)); /* the leader goes; the other one still waits */
    ck_assert(!pe_cache_leave(c, &a));
    ck_assert_int_eq(atomic_load(&f->stop), PE_OK);
    pe_entry *e = pe_entry_new(c, &r);
    ck_assert_ptr_eq(pe_cache_publish(c, f, e), &b);
    ck_assert(!pe_cache_leave(c, &b));
    ck_assert_int_eq(pe_cache_begin(c, r.digest, &d, &have, &g), PE_CACHE_HAVE);
    ck_assert_ptr_eq(have, e);
    pe_entry_unref(have);
    pe_entry_unref(e);
    ck_assert_uint_gt(held(c), 4096);
    pe_cache_free(c);
}
END_TEST

START_TEST(last_one_stops_the_flight)
{
    pe_cache *c = pe_cache_new(1 << 20, NULL, NULL);
    posenc_request r = request(1, 1);
    pe_waiter a, b;
    pe_entry *have = NULL;
    pe_flight *f = NULL, *g = NULL;
    ck_assert_int_eq(pe_cache_begin(c, r.digest, &a, &have, &f), PE_CACHE_COMPUTE);
    ck_assert(pe_cache_leave(c, &a));
    ck_assert_int_eq(atomic_load(&f->stop), PE_CANCELLED);
    ck_assert_int_eq(pe_cache_begin(c, r.digest, &b, &have, &g), PE_CACHE_COMPUTE); /* not onto the dying one */
    ck_assert_ptr_ne(f, g);
    ck_assert_ptr_null(pe_cache_publish(c, f, NULL));
    pe_entry *e = pe_entry_new(c, &r);
    ck_assert_ptr_eq(pe_cache_publish(c, g, e), &b);
    pe_entry_unref(e);
    pe_cache_free(c);
}
END_TEST

START_TEST(failure_is_not_kept)
{
    pe_cache *c = pe_cache_new(1 << 20, NULL, NULL);
    posenc_request r = request(1, 1);
    pe_waiter a;
    pe_entry *have = NULL;
    pe_flight *f = NULL;
    pe_cache_begin(c, r.digest, &a, &have, &f);
    ck_assert_ptr_eq(pe_cache_publish(c, f, NULL), &a);
    ck_assert_int_eq(pe_cache_begin(c, r.digest, &a, &have, &f), PE_CACHE_COMPUTE);
    pe_cache_publish(c, f, NULL);
    ck_assert_uint_eq(held(c), 0);
    pe_cache_free(c);
}
END_TEST

START_TEST(budget_holds)
{
    pe_cache *c = pe_cache_new(400000, NULL, NULL); /* about 50 entries of one row with their metadata */
    for (int i = 0; i < 1000; i++) {
        add(c, i, 1);
        ck_assert_uint_le(held(c), 400000);
    }
    pe_cache_stats s;
    pe_cache_stats_get(c, &s);
    ck_assert_uint_gt(s.entries, 40);
    ck_assert_uint_gt(s.evicted_bytes, 3000000);
    add(c, 5000, 200); /* larger than the budget: served, not kept */
    ck_assert(!holds(c, 5000, 200));
    pe_cache_free(c);
}
END_TEST

START_TEST(pinned_counts)
{
    pe_cache *c = pe_cache_new(400000, NULL, NULL);
    add(c, 0, 40);
    posenc_request r = request(0, 40);
    pe_entry *e = pe_cache_get(c, r.digest, true);
    ck_assert_ptr_nonnull(e);
    for (int i = 1; i < 300; i++)
        add(c, i, 1);
    ck_assert_uint_le(held(c), 400000);
    ck_assert(!pe_cache_reserve(c, 300000)); /* what is being sent can't be freed */
    pe_entry_unref(e);
    ck_assert(pe_cache_reserve(c, 300000));
    pe_cache_release(c, 300000);
    pe_cache_free(c);
}
END_TEST

START_TEST(scan_resistance)
{
    pe_cache *c = pe_cache_new(20000000, NULL, NULL);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 500; i++) { /* a working set that is asked again */
            add(c, i, 1);
            posenc_request r = request(i, 1);
            pe_entry_unref(pe_cache_get(c, r.digest, true));
        }
    for (int i = 1000; i < 9000; i++) /* a scan three times the budget */
        add(c, i, 1);
    int kept = 0;
    for (int i = 0; i < 500; i++)
        kept += holds(c, i, 1);
    ck_assert_msg(kept >= 475, "the scan displaced %d of 500", 500 - kept);
    pe_cache_free(c);
}
END_TEST

START_TEST(representations)
{
    pe_cache *c = pe_cache_new(1 << 20, NULL, NULL);
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_request r;
    posenc_error err = { 0 };
    posenc_request_init(&r, "sinusoidal", a, &err);
    posenc_request_parse(&r, "embedding_dim=8&num_positions=4", &err);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    pe_entry *e = pe_entry_new(c, &r);
    ck_assert_int_eq(posenc_compute(&r, &e->result, NULL, &err), PE_OK);
    const pe_representation *x, *y;
    pe_representation *own = NULL;
    posenc_selection all = { 0 }, rows = { .rows = true, .row_begin = 1, .row_end = 3 };
    uint64_t before = held(c);
    ck_assert_int_eq(pe_entry_write(e, PE_npy, &all, &x, &own, &err), PE_OK);
    ck_assert_int_eq(pe_entry_write(e, PE_npy, &all, &y, &own, &err), PE_OK);
    ck_assert_ptr_eq(x, y);
    ck_assert_ptr_null(own);
    ck_assert_uint_gt(held(c), before); /* charged */
    ck_assert_uint_eq(x->document.size, 128 + 4 * 8 * 4);
    ck_assert_int_eq(pe_entry_write(e, PE_npy, &rows, &y, &own, &err), PE_OK);
    ck_assert_ptr_eq(y, own);
    pe_representation_free(own);
    pe_entry_unref(e);
    ck_assert_uint_eq(held(c), 0);
    pe_cache_free(c);
    posenc_arena_free(a);
}
END_TEST

/* ---- pool ---- */

static atomic_int running, most, ran, release;

static void long_job(void *arg)
{
    (void)arg;
    int now = atomic_fetch_add(&running, 1) + 1;
    if (now > atomic_load(&most))
        atomic_store(&most, now);
    while (!atomic_load(&release))
        usleep(1000);
    atomic_fetch_sub(&running, 1);
    atomic_fetch_add(&ran, 1);
}

static void short_job(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran, 1);
}

START_TEST(long_jobs_leave_a_thread)
{
    pe_pool *p = pe_pool_new(1, 6);
    for (int i = 0; i < 4; i++)
        ck_assert(pe_pool_submit(p, true, long_job, NULL));
    for (int i = 0; i < 200 && !atomic_load(&running); i++)
        usleep(1000);
    ck_assert(pe_pool_submit(p, false, short_job, NULL));
    for (int i = 0; i < 2000 && !atomic_load(&ran); i++)
        usleep(1000);
    ck_assert_int_eq(atomic_load(&ran), 1); /* although four long ones came before */
    int room = 0;
    while (pe_pool_submit(p, true, long_job, NULL))
        room++;
    ck_assert_int_eq(room, 3); /* the queue is bounded: 3 wait, 3 more fit */
    atomic_store(&release, 1);
    pe_pool_free(p); /* runs what is queued */
    ck_assert_int_eq(atomic_load(&ran), 1 + 4 + 3);
    ck_assert_int_eq(atomic_load(&most), 1);
}
END_TEST

static atomic_int_fast64_t times[1000];
static atomic_int inside, widest;

static void leaf(void *arg, int64_t i) { atomic_fetch_add((atomic_int_fast64_t *)arg, i); }

static void once(void *pool, int64_t i)
{
    int now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&widest);
    while (now > seen && !atomic_compare_exchange_weak(&widest, &seen, now))
        ;
    atomic_int_fast64_t sum = 0;
    pe_pool_parallel(pool, 10, leaf, &sum); /* tasks may have tasks */
    ck_assert_int_eq(sum, 45);
    usleep(100);
    atomic_fetch_add(&times[i], 1);
    atomic_fetch_sub(&inside, 1);
}

typedef struct shared_loop {
    pe_pool *pool;
    atomic_int *left;
} shared_loop;

static void loop_job(void *arg)
{
    const shared_loop *l = arg;
    pe_pool_parallel(l->pool, 1000, once, l->pool);
    atomic_fetch_sub(l->left, 1);
}

START_TEST(a_loop_is_shared)
{
    pe_pool *p = pe_pool_new(3, 8);
    pe_pool_parallel(p, 0, once, p);
    pe_pool_parallel(p, 1000, once, p);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(times[i], 1);
    ck_assert_int_ge(widest, 2);
    ck_assert_int_le(widest, 4);
    atomic_int left = 3;
    shared_loop l = { p, &left };
    for (int i = 0; i < 3; i++)
        ck_assert(pe_pool_submit(p, true, loop_job, &l)); /* several at once, from the pool's own threads */
    pe_pool_free(p);
    ck_assert_int_eq(left, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(times[i], 4);
}
END_TEST

START_TEST(short_jobs_pass_a_loop)
{
    pe_pool *p = pe_pool_new(1, 8);
    atomic_store(&ran, 0);
    atomic_store(&release, 0);
    ck_assert(pe_pool_submit(p, true, long_job, NULL)); /* the loop's helpers leave the last thread alone */
    while (!atomic_load(&running))
        usleep(1000);
    atomic_int left = 1;
    shared_loop l = { p, &left };
    ck_assert(pe_pool_submit(p, true, loop_job, &l));
    ck_assert(pe_pool_submit(p, false, short_job, NULL));
    for (int i = 0; i < 2000 && !atomic_load(&ran); i++)
        usleep(1000);
    ck_assert_int_eq(atomic_load(&ran), 1);
    atomic_store(&release, 1);
    pe_pool_free(p);
    ck_assert_int_eq(left, 0);
}
END_TEST

static void done(void)
{
    posenc_arena_free(arena);
    arena = NULL;
}

Suite *cache_suite(void)
{
    Suite *s = suite_create("cache");
    TCase *t = tcase_create("cache");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, NULL, done);
    tcase_add_test(t, one_flight);
    tcase_add_test(t, last_one_stops_the_flight);
    tcase_add_test(t, failure_is_not_kept);
    tcase_add_test(t, budget_holds);
    tcase_add_test(t, pinned_counts);
    tcase_add_test(t, scan_resistance);
    tcase_add_test(t, representations);
    tcase_add_test(t, long_jobs_leave_a_thread);
    tcase_add_test(t, a_loop_is_shared);
    tcase_add_test(t, short_jobs_pass_a_loop);
    suite_add_tcase(s, t);
    return s;
}
