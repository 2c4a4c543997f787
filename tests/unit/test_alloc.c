/* test_alloc.c - every scenario with its n-th allocation failing, n = 1, 2, ... until none fails: never a crash, a
 * leak (the sanitized run sees them) or a wrong answer; the status says BUSY. */
#include "alloc.h"
#include "posenc.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef posenc_status scenario(posenc_error *err);

static posenc_status encode_examples(posenc_error *err)
{
    for (size_t i = 0; i < posenc_encodings(); i++) {
        const posenc_encoding *e = posenc_encoding_at(i);
        posenc_answer a;
        posenc_status st = posenc_encode(e->name, e->example, e->input == PE_GRAPH ? posenc_example_edges() : NULL, &a, NULL,
                                         err);
        if (st)
            return st;
        posenc_answer_fini(&a);
    }
    return PE_OK;
}

static posenc_status write_all(posenc_error *err)
{
    posenc_answer a;
    posenc_status st = posenc_encode("sinusoidal", "embedding_dim=4 num_positions=3 dtype=bfloat16", NULL, &a, NULL, err);
    for (int f = 0; !st && f < PE_NFORMATS; f++) {
        posenc_origin origin = { a.request.encoding, a.request.digest, a.request.params_json };
        posenc_selection all = { 0 };
        posenc_document d;
        st = posenc_write((posenc_format)f, &origin, &a.result, &all, &d, err);
        if (!st)
            posenc_document_fini(&d);
    }
    posenc_answer_fini(&a);
    return st;
}

static posenc_status read_json(posenc_error *err)
{
    static const char body[] =
        "{\"k\": 2, \"graph\": {\"num_nodes\": 4, \"edge_index\": [[0, 1, 2], [1, 2, 3]], \"edge_weight\": [1, 2, 3]}}";
    posenc_arena *a = posenc_arena_new(1 << 20);
    if (!a)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
    posenc_request r;
    posenc_status st = posenc_request_init(&r, "laplacian", a, err);
    if (!st)
        st = posenc_request_json(&r, body, sizeof body - 1, err);
    if (!st)
        st = posenc_resolve(&r, err);
    posenc_arena_free(a);
    return st;
}

static posenc_status larger_graph(posenc_error *err) /* one that the sparse solver takes */
{
    enum { N = 420 };
    int64_t source[N], target[N];
    for (int i = 0; i < N; i++) {
        source[i] = i;
        target[i] = (i + 1) % N;
    }
    posenc_edges edges = { .num_nodes = N, .nedges = N, .source = source, .target = target };
    posenc_answer a;
    posenc_status st = posenc_encode("laplacian", "k=3 solver=shift_invert", &edges, &a, NULL, err);
    posenc_answer_fini(&a);
    return st;
}

static posenc_status larger_chebyshev(posenc_error *err)
{
    enum { N = 400, M = 1200 };
    int64_t source[M], target[M];
    for (int i = 0; i < M; i++) { /* three rings of different strides: an expander */
        source[i] = i % N;
        target[i] = (i % N + (i < N ? 1 : i < 2 * N ? 37 : 151)) % N;
    }
    posenc_edges edges = { .num_nodes = N, .nedges = M, .source = source, .target = target };
    posenc_answer a;
    posenc_status st = posenc_encode("laplacian", "k=2 solver=chebyshev", &edges, &a, NULL, err);
    posenc_answer_fini(&a);
    return st;
}

static posenc_status describe(posenc_error *err)
{
    char *all = posenc_describe_all();
    bool ok = all != NULL;
    free(all);
    return ok ? PE_OK : posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
}

static const struct {
    const char *name;
    scenario *run;
    long step; /* look at every step-th failure: long scenarios allocate often */
} scenarios[] = { { "examples", encode_examples, 1 },
                  { "write", write_all, 1 },
                  { "json", read_json, 1 },
                  { "shift-invert", larger_graph, 1 },
                  { "chebyshev", larger_chebyshev, 1 },
                  { "describe", describe, 1 } };

START_TEST(nth_allocation)
{
    json_set_alloc_funcs(malloc, free); /* jansson's allocations fail as well */
    for (long n = 1;; n += scenarios[_i].step) {
        posenc_error err = { 0 };
        alloc_fail_at(n);
        posenc_status st = scenarios[_i].run(&err);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        if (!failed) {
            ck_assert_msg(st == PE_OK, "%s: without a failure: %s", scenarios[_i].name, posenc_status_name(st));
            break;
        }
        char text[512];
        ck_assert_msg(st == PE_BUSY || st == PE_OK, "%s, allocation %ld: %s (%s)", scenarios[_i].name, n,
                      posenc_status_name(st), posenc_error_text(&err, text, sizeof text));
    }
}
END_TEST

Suite *alloc_suite(void)
{
    Suite *s = suite_create("alloc");
    TCase *t = tcase_create("n-th failure");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, nth_allocation, 0, sizeof scenarios / sizeof scenarios[0]);
    suite_add_tcase(s, t);
    return s;
}
