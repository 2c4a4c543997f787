/* test_alloc.c - every scenario with its n-th allocation failing, n = 1, 2, ... until none fails: never a crash, a
 * leak (the sanitized run sees them) or a wrong answer; the status says BUSY. */
#include "alloc.h"
#include "grpc/reflect.h"
#include "service.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef posenc_status scenario(posenc_error *err);

/* In a scenario: libcheck's own assertions allocate, and would be the ones that fail. */
#define MUST(x) ((x) ? (void)0 : broken(#x, __LINE__))

static void broken(const char *what, int line)
{
    fprintf(stderr, "%s:%d: %s\n", __FILE__, line, what);
    abort();
}

static size_t asked; /* which encoding */

static posenc_status encode_example(posenc_error *err)
{
    const posenc_encoding *e = posenc_encoding_at(asked);
    posenc_answer a;
    posenc_status st = posenc_encode(e->name, e->example, e->input == PE_GRAPH ? posenc_example_edges() : NULL, &a, NULL,
                                     err);
    if (!st)
        posenc_answer_fini(&a);
    return st;
}

static posenc_status describe_one(posenc_error *err)
{
    char *text = posenc_describe(posenc_encoding_at(asked));
    const bool ok = text != NULL;
    free(text);
    return ok ? PE_OK : posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
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

static posenc_status resolve_config(posenc_error *err)
{
    static const char config[] = "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 7}, \"x\": NaN, "
                                 "\"vision_config\": {\"image_size\": 28, \"patch_size\": 14, \"hidden_size\": 8}}";
    posenc_resolution r;
    posenc_arena *a = posenc_arena_new(16 << 20);
    if (!a)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
    posenc_status st = posenc_resolve_config(config, sizeof config - 1, a, &r, err);
    char *text = st ? NULL : posenc_resolution_json(&r);
    if (!st && !text)
        st = posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
    free(text);
    posenc_arena_free(a);
    return st;
}

static posenc_status analyze(posenc_error *err)
{
    posenc_document d;
    posenc_status st = posenc_analyze("rope", "head_dim=4 num_positions=9 rope_type=linear factor=2 probe_length=3", NULL,
                                      PE_json, &d, NULL, err);
    if (!st)
        posenc_document_fini(&d);
    return st;
}

static posenc_status draw_analysis(posenc_error *err)
{
    posenc_document d;
    posenc_status st = posenc_analyze("laplacian", "k=3 what=spectrum", posenc_example_edges(), PE_svg, &d, NULL, err);
    if (!st)
        posenc_document_fini(&d);
    return st;
}

static posenc_status describe_report(posenc_error *err)
{
    char *text = posenc_describe_report(posenc_report_at(0));
    const bool ok = text != NULL;
    free(text);
    return ok ? PE_OK : posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
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

/* ---- binary bodies ---- */

static uint8_t *body; /* what a client sends; made before any allocation fails */
static size_t body_size;

static void forget_body(void)
{
    free(body);
    body = NULL;
}

static void make_container(posenc_format f)
{
    static int64_t index[] = { 0, 1, 2, 1, 2, 3 };
    posenc_result r = {
        .ntensors = 1, .tensor = { { .name = "edge_index", .dtype = PE_int64, .rank = 2, .shape = { 2, 3 }, .data = index } }
    };
    posenc_origin origin = { posenc_encoding_named("laplacian"), "", "{}" };
    posenc_selection all = { 0 };
    posenc_document d;
    ck_assert_int_eq(posenc_write(f, &origin, &r, &all, &d, NULL), PE_OK);
    uint8_t *p = body = malloc((size_t)d.size);
    ck_assert_ptr_nonnull(body);
    for (size_t i = 0; i < d.npieces; i++) {
        memcpy(p, d.piece[i].data, (size_t)d.piece[i].size);
        p += d.piece[i].size;
    }
    body_size = (size_t)d.size;
    posenc_document_fini(&d);
}

static void make_npz(void) { make_container(PE_npz); }
static void make_safetensors(void) { make_container(PE_safetensors); }

static posenc_status read_container(posenc_format f, posenc_error *err)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    if (!a)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
    posenc_request r;
    posenc_tensor *t = NULL;
    size_t n = 0, kept = 0;
    posenc_status st = posenc_request_init(&r, "laplacian", a, err);
    if (!st)
        st = posenc_request_parse(&r, "k=2", err);
    if (!st)
        st = f == PE_npz ? posenc_read_npz(body, body_size, "body", &t, &n, a, err)
                         : posenc_read_safetensors(body, body_size, "body", &t, &n, a, err);
    for (size_t i = 0; !st && i < n; i++) /* our own npz says in a member of its own where it comes from */
        if (!strcmp(t[i].name, "edge_index"))
            t[kept++] = t[i];
    if (!st)
        st = posenc_request_tensors(&r, t, kept, 4, false, err);
    if (!st)
        st = posenc_resolve(&r, err);
    MUST(st || posenc_graph_edges(r.graph) == 3);
    posenc_arena_free(a);
    return st;
}

static posenc_status read_npz(posenc_error *err) { return read_container(PE_npz, err); }
static posenc_status read_safetensors(posenc_error *err) { return read_container(PE_safetensors, err); }

/* ---- protobuf ---- */

static void pack(const Posenc__V1__EncodeRequest *m)
{
    body_size = posenc__v1__encode_request__get_packed_size(m);
    body = malloc(body_size);
    ck_assert_ptr_nonnull(body);
    posenc__v1__encode_request__pack(m, body);
}

static void pack_graph(void)
{
    static int64_t index[] = { 0, 1, 2, 1, 2, 3 };
    char *names[] = { (char[]){ "eigenvalues" }, (char[]){ "num_zero" } };
    Posenc__V1__Laplacian l = POSENC__V1__LAPLACIAN__INIT;
    Posenc__V1__Graph g = POSENC__V1__GRAPH__INIT;
    Posenc__V1__EncodeRequest m = POSENC__V1__ENCODE_REQUEST__INIT;
    m.encoding_case = POSENC__V1__ENCODE_REQUEST__ENCODING_LAPLACIAN;
    m.laplacian = &l;
    m.graph = &g;
    m.tensors = names;
    m.n_tensors = 2;
    l.has_k = g.has_num_nodes = true;
    l.k = 2;
    g.num_nodes = 4;
    g.n_edge_index = 6;
    g.edge_index = index;
    pack(&m);
}

static void pack_list(void) /* the arena grows while it is read */
{
    static double positions[5000];
    Posenc__V1__Sinusoidal s = POSENC__V1__SINUSOIDAL__INIT;
    Posenc__V1__EncodeRequest m = POSENC__V1__ENCODE_REQUEST__INIT;
    m.encoding_case = POSENC__V1__ENCODE_REQUEST__ENCODING_SINUSOIDAL;
    m.sinusoidal = &s;
    s.has_embedding_dim = true;
    s.embedding_dim = 4;
    s.n_positions = 5000;
    s.positions = positions;
    pack(&m);
}

static posenc_status read_protobuf(posenc_error *err) /* as server/grpc/encode.c: it goes on after most faults */
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    if (!a)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
    posenc_request r = { 0 };
    posenc_selection selection;
    const Posenc__V1__EncodeRequest *m = (Posenc__V1__EncodeRequest *)pe_reflect_unpack(
        &posenc__v1__encode_request__descriptor, body, body_size, a, err);
    if (m)
        pe_reflect_request(m, &r, NULL, a, err);
    if (r.params && !posenc_resolve(&r, err))
        pe_reflect_selection(m, &r, &selection, err);
    posenc_arena_free(a);
    return err->status;
}

/* ---- the service ---- */

static pe_service *service;
static posenc_arena *settings;

static void start_service(void)
{
    static pe_config config;
    posenc_error err = { 0 };
    pe_config_mode mode;
    char *argv[] = { (char[]){ "posencd" }, (char[]){ "--threads" }, (char[]){ "2" }, (char[]){ "--memory-budget" },
                     (char[]){ "64MiB" } };
    settings = posenc_arena_new(1 << 20);
    ck_assert_int_eq(pe_config_load(5, argv, settings, &config, &mode, &err), PE_OK);
    service = pe_service_new(&config, &err);
    ck_assert_ptr_nonnull(service);
    pe_service_set_phase(service, PE_SERVING);
}

static void stop_service(void)
{
    pe_service_free(service);
    posenc_arena_free(settings);
}

static void done(pe_call *c)
{
    (void)c; /* so small a request is computed on the thread that asks */
    abort();
}

/* Nothing is held, and nothing is left after all was evicted: every byte that was counted is counted back. */
static void check_released(void)
{
    pe_cache *cache = pe_service_cache(service);
    pe_cache_stats s;
    pe_cache_stats_get(cache, &s);
    MUST(s.pinned == 0 && s.reserved == 0 && (s.resident > 0) == (s.entries > 0));
    MUST(pe_cache_reserve(cache, s.budget));
    pe_cache_release(cache, s.budget);
    pe_cache_stats_get(cache, &s);
    MUST(s.resident == 0 && s.pinned == 0 && s.reserved == 0 && s.entries == 0);
}

static posenc_status ask_service(posenc_error *err)
{
    pe_request *q = pe_request_new(service);
    if (!q)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more");
    pe_call c = { .request = q, .done = done, .prepare = true, .format = PE_json };
    posenc_status st = posenc_request_init(&q->r, "sinusoidal", q->arena, err);
    if (!st)
        st = posenc_request_parse(&q->r, "embedding_dim=4&num_positions=3", err);
    if (!st)
        st = pe_service_resolve(service, q, err);
    if (!st) {
        MUST(pe_service_begin(service, &c));
        st = c.status;
        MUST(!st == (c.entry != NULL) && !st == !c.error.n);
    }
    for (int f = 0; !st && f < PE_NFORMATS; f++) {
        const pe_representation *made = NULL;
        pe_representation *own = NULL;
        st = pe_entry_write(c.entry, (posenc_format)f, &(posenc_selection){ .rows = f == PE_npy, .row_end = 2 }, &made, &own,
                            err);
        MUST(st || made);
        pe_representation_free(own);
        MUST(((const float *)c.entry->result.tensor[0].data)[1] == 1); /* cos 0 */
    }
    pe_entry_unref(c.entry);
    pe_request_unref(q);
    check_released();
    return st;
}

static const struct {
    const char *name;
    scenario *run;
    void (*prepare)(void), (*end)(void); /* without failures, before the first run and after the last */
} scenarios[] = { { "write", write_all, NULL, NULL },
                  { "json", read_json, NULL, NULL },
                  { "resolve", resolve_config, NULL, NULL },
                  { "analysis", analyze, NULL, NULL },
                  { "picture", draw_analysis, NULL, NULL },
                  { "report", describe_report, NULL, NULL },
                  { "npz", read_npz, make_npz, forget_body },
                  { "safetensors", read_safetensors, make_safetensors, forget_body },
                  { "protobuf graph", read_protobuf, pack_graph, forget_body },
                  { "protobuf list", read_protobuf, pack_list, forget_body },
                  { "service", ask_service, start_service, stop_service },
                  { "shift-invert", larger_graph, NULL, NULL },
                  { "chebyshev", larger_chebyshev, NULL, NULL } };

/* Every n-th allocation of the scenario fails once. */
static void lose_each(const char *name, scenario *run)
{
    for (long n = 1;; n++) {
        posenc_error err = { 0 };
        alloc_fail_at(n);
        posenc_status st = run(&err);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        if (!failed) {
            ck_assert_msg(st == PE_OK, "%s: without a failure: %s", name, posenc_status_name(st));
            break;
        }
        char text[512];
        ck_assert_msg(st == PE_BUSY || st == PE_OK, "%s, allocation %ld: %s (%s)", name, n, posenc_status_name(st),
                      posenc_error_text(&err, text, sizeof text));
    }
}

START_TEST(nth_allocation)
{
    json_set_alloc_funcs(malloc, free); /* jansson's allocations fail as well */
    if (scenarios[_i].prepare)
        scenarios[_i].prepare();
    lose_each(scenarios[_i].name, scenarios[_i].run);
    if (scenarios[_i].end)
        scenarios[_i].end();
}
END_TEST

START_TEST(nth_allocation_of_an_encoding)
{
    json_set_alloc_funcs(malloc, free);
    asked = (size_t)_i;
    lose_each(posenc_encoding_at(asked)->name, encode_example);
    if (_i % 6 == 0) /* one way for all, and long: thousands of small allocations */
        lose_each("describe", describe_one);
}
END_TEST

Suite *alloc_suite(void)
{
    Suite *s = suite_create("alloc");
    TCase *t = tcase_create("n-th failure");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, nth_allocation, 0, sizeof scenarios / sizeof scenarios[0]);
    tcase_add_loop_test(t, nth_allocation_of_an_encoding, 0, (int)posenc_encodings());
    suite_add_tcase(s, t);
    return s;
}
