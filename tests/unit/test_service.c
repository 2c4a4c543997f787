/* test_service.c - the path of a request without a door: hits, collapsing, deadlines, cancelling, draining, limits. */
#include "service.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int ended;
static pe_config config;
static pe_service *service;
static posenc_arena *config_arena;

static void start(void)
{
    atomic_store(&ended, 0);
    posenc_error err = { 0 };
    pe_config_mode mode;
    char *argv[] = { (char *)"posencd", (char *)"--threads", (char *)"2", (char *)"--memory-budget", (char *)"1GiB" };
    config_arena = posenc_arena_new(1 << 20);
    ck_assert_int_eq(pe_config_load(5, argv, config_arena, &config, &mode, &err), PE_OK);
    service = pe_service_new(&config, &err);
    ck_assert_ptr_nonnull(service);
    pe_service_set_phase(service, PE_SERVING);
}

static void stop(void)
{
    pe_service_free(service);
    posenc_arena_free(config_arena);
    service = NULL;
}

static pe_request *request(const char *encoding, const char *query, const posenc_edges *edges)
{
    posenc_error err = { 0 };
    char text[1000];
    pe_request *q = pe_request_new(service);
    ck_assert_int_eq(posenc_request_init(&q->r, encoding, q->arena, &err), PE_OK);
    ck_assert_int_eq(posenc_request_parse(&q->r, query, &err), PE_OK);
    if (edges)
        ck_assert_int_eq(posenc_graph_build(edges, q->arena, &q->r.graph, &err), PE_OK);
    posenc_status st = pe_service_resolve(service, q, &err);
    ck_assert_msg(st == PE_OK, "%s", posenc_error_text(&err, text, sizeof text));
    return q;
}

/* A grid whose spectrum takes a while. */
static pe_request *slow_request(int side, int k)
{
    static int64_t source[200000], target[200000];
    int64_t m = 0;
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            if (j + 1 < side) {
                source[m] = i * side + j;
                target[m++] = i * side + j + 1;
            }
            if (i + 1 < side) {
                source[m] = i * side + j;
                target[m++] = (i + 1) * side + j;
            }
        }
    posenc_edges edges = { .num_nodes = side * side, .nedges = m, .source = source, .target = target };
    char query[40];
    snprintf(query, sizeof query, "k=%d", k);
    return request("laplacian", query, &edges);
}

static void count(pe_call *c)
{
    (void)c;
    atomic_fetch_add(&ended, 1);
}

static void wait_for(int n)
{
    for (int i = 0; i < 60000 && atomic_load(&ended) < n; i++)
        usleep(1000);
    ck_assert_int_eq(atomic_load(&ended), n);
}

static double computations(const char *encoding)
{
    char labels[64];
    snprintf(labels, sizeof labels, "encoding=\"%s\"", encoding);
    return pe_metrics_get(pe_service_metrics(service), PE_posenc_computations_total, labels);
}

static void ask(pe_call *c, pe_request *q)
{
    memset(c, 0, sizeof *c);
    c->request = q;
    c->done = count;
    if (pe_service_begin(service, c))
        atomic_fetch_add(&ended, 1);
}

START_TEST(miss_then_hit)
{
    pe_request *q = request("sinusoidal", "embedding_dim=512&num_positions=512", NULL);
    pe_call a, b;
    ask(&a, q);
    wait_for(1);
    ck_assert_int_eq(a.status, PE_OK);
    ck_assert_int_eq(a.cache, PE_MISS);
    ask(&b, q);
    ck_assert_int_eq(atomic_load(&ended), 2); /* a hit is answered on the spot */
    ck_assert_int_eq(b.cache, PE_HIT);
    ck_assert_ptr_eq(a.entry, b.entry);
    ck_assert(computations("sinusoidal") == 1);
    pe_entry_unref(a.entry);
    pe_entry_unref(b.entry);
    pe_request_unref(q);
}
END_TEST

START_TEST(hundred_ask_one_computes)
{
    static pe_call call[100];
    pe_request *q = slow_request(60, 6);
    for (int i = 0; i < 100; i++)
        ask(&call[i], q);
    ck_assert(pe_service_cancel(service, &call[0])); /* the leader goes away */
    wait_for(99);
    int collapsed = 0;
    for (int i = 1; i < 100; i++) {
        ck_assert_int_eq(call[i].status, PE_OK);
        ck_assert_ptr_eq(call[i].entry, call[1].entry);
        collapsed += call[i].cache == PE_COLLAPSED;
        pe_entry_unref(call[i].entry);
    }
    ck_assert_int_eq(collapsed, 99);
    ck_assert(computations("laplacian") == 1);
    pe_request_unref(q);
}
END_TEST

START_TEST(nobody_waits)
{
    pe_request *q = slow_request(220, 64);
    pe_call a;
    ask(&a, q);
    usleep(50000);
    int64_t t0 = pe_now_ns();
    ck_assert(pe_service_cancel(service, &a));
    ck_assert(!pe_service_cancel(service, &a));
    pe_request_unref(q);
    for (int i = 0;
         i < 5000 && pe_metrics_get(pe_service_metrics(service), PE_posenc_cancelled_total, "encoding=\"laplacian\"") == 0;
         i++)
        usleep(200);
    double ms = (double)(pe_now_ns() - t0) * 1e-6;
    ck_assert_msg(ms < 1000, "stopped after %.1f ms", ms); /* generous: a busy machine and sanitizers */
    ck_assert(pe_metrics_get(pe_service_metrics(service), PE_posenc_cancelled_total, "encoding=\"laplacian\"") == 1);
}
END_TEST

START_TEST(deadline)
{
    pe_request *q = slow_request(220, 64);
    pe_call late, patient;
    memset(&late, 0, sizeof late);
    late.request = q;
    late.done = count;
    late.deadline_ns = pe_now_ns() + 50000000;
    ck_assert(!pe_service_begin(service, &late));
    ask(&patient, q);
    wait_for(1);
    ck_assert_int_eq(late.status, PE_DEADLINE);
    ck_assert_str_eq(late.error.fault[0].reason, "DEADLINE_EXCEEDED");
    ck_assert(pe_service_cancel(service, &patient)); /* it still waited: one deadline is nobody else's */
    memset(&late, 0, sizeof late);
    late.request = q;
    late.done = count;
    late.deadline_ns = pe_now_ns() - 1;
    ck_assert(pe_service_begin(service, &late));
    ck_assert_int_eq(late.status, PE_DEADLINE);
    pe_request_unref(q);
}
END_TEST

START_TEST(draining)
{
    pe_request *q = request("sinusoidal", "embedding_dim=8&num_positions=4", NULL);
    pe_call c;
    pe_service_set_phase(service, PE_DRAINING);
    ck_assert(!pe_service_ready(service, NULL, 0));
    ask(&c, q);
    ck_assert_int_eq(c.status, PE_BUSY);
    ck_assert_str_eq(c.error.fault[0].value, "draining");
    pe_request_unref(q);
}
END_TEST

START_TEST(limits)
{
    static const char *const queries[] = { "embedding_dim=65536&num_positions=1000000",
                                           "embedding_dim=65536&num_positions=9000000000000000" };
    posenc_error err = { 0 };
    pe_request *q = pe_request_new(service);
    posenc_request_init(&q->r, "sinusoidal", q->arena, &err);
    posenc_request_parse(&q->r, queries[_i], &err);
    posenc_status st = pe_service_resolve(service, q, &err);
    ck_assert_msg(st == PE_LIMIT || st == PE_INVALID, "%s", posenc_status_name(st));
    ck_assert_uint_ge(err.n, 1);
    if (st == PE_LIMIT)
        ck_assert_str_eq(err.fault[0].reason, "LIMIT_EXCEEDED");
    pe_request_unref(q);
}
END_TEST

START_TEST(words)
{
    pe_request *q = request("sinusoidal", "embedding_dim=8&num_positions=4", NULL);
    char *text = pe_service_explain(service, q);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(strstr(text, "\"cached\":\"no\""));
    ck_assert_ptr_nonnull(strstr(text, q->r.digest));
    free(text);
    pe_request_unref(q);
    text = pe_service_capabilities(service);
    ck_assert_ptr_nonnull(strstr(text, "\"sinusoidal\":3"));
    free(text);
    text = pe_service_metrics_text(service);
    ck_assert_ptr_nonnull(strstr(text, "posenc_cache_size_bytes{tier=\"memory\"} 0"));
    free(text);
}
END_TEST

/* ---- settings ---- */

static const struct {
    const char *flag, *value;
    bool ok;
} flags[] = {
    { "--http", "127.0.0.1:0", true }, { "--http", "[::1]:8080", true },         { "--http", "8080", false },
    { "--http", "0.0.0.0:80", false }, { "--http", "1.2.3.4:99999", false },     { "--max-body", "1GiB", true },
    { "--max-body", "1XB", false },    { "--max_body", "2048", true },           { "--queue", "0", false },
    { "--no-such", "1", false },       { "--memory-budget", "64MiB", true },     { "--memory-budget", "1", false },
    { "--log-level", "loud", false },  { "--config", "/does/not/exist", false },
};

START_TEST(settings)
{
    posenc_error err = { 0 };
    pe_config c;
    pe_config_mode mode;
    posenc_arena *a = posenc_arena_new(1 << 20);
    char *argv[] = { (char *)"posencd", (char *)flags[_i].flag, (char *)flags[_i].value };
    posenc_status st = pe_config_load(3, argv, a, &c, &mode, &err);
    ck_assert_msg((st == PE_OK) == flags[_i].ok, "%s %s: %s", flags[_i].flag, flags[_i].value, posenc_status_name(st));
    posenc_arena_free(a);
}
END_TEST

START_TEST(sources_in_order)
{
    char path[] = "/tmp/posenc-config-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    fputs("# a comment\nqueue = 11\nmax_body = 1MiB   # trailing\nthreads=3\n", f);
    fclose(f);
    setenv("POSENC_QUEUE", "12", 1);
    setenv("POSENC_THREADS", "4", 1);
    posenc_error err = { 0 };
    pe_config c;
    pe_config_mode mode;
    posenc_arena *a = posenc_arena_new(1 << 20);
    char *argv[] = { (char *)"posencd", (char *)"--config", path, (char *)"--queue=13" };
    ck_assert_int_eq(pe_config_load(4, argv, a, &c, &mode, &err), PE_OK);
    ck_assert_int_eq(c.queue, 13);
    ck_assert_int_eq(c.threads, 4);
    ck_assert_int_eq(c.max_body, 1 << 20);
    unlink(path);
    unsetenv("POSENC_QUEUE");
    unsetenv("POSENC_THREADS");
    posenc_arena_free(a);
}
END_TEST

Suite *service_suite(void)
{
    Suite *s = suite_create("service");
    TCase *t = tcase_create("service"), *u = tcase_create("settings");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, miss_then_hit);
    tcase_add_test(t, hundred_ask_one_computes);
    tcase_add_test(t, nobody_waits);
    tcase_add_test(t, deadline);
    tcase_add_test(t, draining);
    tcase_add_loop_test(t, limits, 0, 2);
    tcase_add_test(t, words);
    tcase_add_loop_test(u, settings, 0, (int)(sizeof flags / sizeof flags[0]));
    tcase_add_test(u, sources_in_order);
    suite_add_tcase(s, t);
    suite_add_tcase(s, u);
    return s;
}
