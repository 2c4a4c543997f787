/* test_reflect.c - protobuf messages against tables: parity, values, faults, selection, the packed status. */
#include "grpc/reflect.h"

#include "core/params.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "grpc/status.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *reflect_suite(void);

/* One request: the message is packed and read back, as a client's would be. */
typedef struct run {
    posenc_arena *arena;
    posenc_request r;
    posenc_error err;
    posenc_status st;
    const Posenc__V1__EncodeRequest *m;
} run;

static run read_bytes(const void *bytes, size_t size)
{
    run q = { .arena = posenc_arena_new(1 << 24) };
    ck_assert_ptr_nonnull(q.arena);
    q.m = (Posenc__V1__EncodeRequest *)pe_reflect_unpack(&posenc__v1__encode_request__descriptor, bytes, size, q.arena,
                                                         &q.err);
    q.st = q.m ? pe_reflect_request(q.m, &q.r, NULL, q.arena, &q.err) : q.err.status;
    return q;
}

static run read_message(const Posenc__V1__EncodeRequest *m)
{
    size_t size = posenc__v1__encode_request__get_packed_size(m);
    uint8_t *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    posenc__v1__encode_request__pack(m, bytes);
    run q = read_bytes(bytes, size);
    free(bytes); /* the request must not point into it */
    return q;
}

static void end(run *q) { posenc_arena_free(q->arena); }

static bool blames(const posenc_error *err, const char *field)
{
    for (unsigned i = 0; i < err->n; i++)
        if (!strcmp(err->fault[i].field, field))
            return true;
    return false;
}

static Posenc__V1__EncodeRequest sinusoidal(Posenc__V1__Sinusoidal *s)
{
    Posenc__V1__EncodeRequest m = POSENC__V1__ENCODE_REQUEST__INIT;
    posenc__v1__sinusoidal__init(s);
    s->has_embedding_dim = s->has_num_positions = true;
    s->embedding_dim = 6;
    s->num_positions = 10;
    m.encoding_case = POSENC__V1__ENCODE_REQUEST__ENCODING_SINUSOIDAL;
    m.sinusoidal = s;
    return m;
}

/* ---- parity ---- */

START_TEST(parity)
{
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(pe_reflect_check(&err) == PE_OK, "%s", posenc_error_text(&err, text, sizeof text));
}
END_TEST

/* What the check would say of tables that have drifted from the message Graph. */
typedef struct drifted {
    posenc_given given;
    int64_t num_nodes, extra;
    double directed;
    posenc_reals edge_weight;
} drifted;

START_TEST(parity_finds_drift)
{
    static const posenc_param rows[] = {
        { PE_INT(drifted, num_nodes), .max = 1 },
        { PE_REAL(drifted, directed), .max = 1 }, /* a bool there */
        { PE_REALS(drifted, edge_weight) },
        { PE_INT(drifted, extra), .max = 1 }, /* not there */
    };
    static const posenc_table t = { rows, PE_LEN(rows), sizeof(drifted) };
    posenc_error err = { 0 };
    ck_assert_int_eq(pe_reflect_check_table(&t, &posenc__v1__graph__descriptor, true, &err), PE_INTERNAL);
    ck_assert(blames(&err, "Graph.directed") && blames(&err, "Graph.extra"));
    ck_assert(blames(&err, "Graph.edge_index") && blames(&err, "Graph.ptr")); /* fields without a row */
    ck_assert(!blames(&err, "Graph.num_nodes") && !blames(&err, "Graph.edge_weight"));
    err = (posenc_error){ 0 };
    pe_reflect_check_table(&t, &posenc__v1__graph__descriptor, false, &err);
    ck_assert(blames(&err, "Graph.extra") && !blames(&err, "Graph.ptr"));
}
END_TEST

typedef struct typed {
    posenc_given given;
    int dtype;
} typed;

START_TEST(parity_finds_words)
{
    static const char *const few[] = { "float32", "float64", NULL }, *const wrong[] = { "float32", "float-64", NULL },
                             *const twins[] = { "float32", "FLOAT32", NULL };
    posenc_param row = { PE_ENUM(typed, dtype), .names = few };
    const posenc_table t = { &row, 1, sizeof(typed) };
    posenc_error err = { 0 };
    ck_assert_int_eq(pe_reflect_check_table(&t, &posenc__v1__encode_request__descriptor, false, &err), PE_OK);
    row.names = wrong;
    ck_assert_int_eq(pe_reflect_check_table(&t, &posenc__v1__encode_request__descriptor, false, &err), PE_INTERNAL);
    row.names = twins;
    err = (posenc_error){ 0 };
    ck_assert_int_eq(pe_reflect_check_table(&t, &posenc__v1__encode_request__descriptor, false, &err), PE_INTERNAL);
}
END_TEST

/* ---- values ---- */

START_TEST(values_reach_the_table)
{
    Posenc__V1__Sinusoidal s;
    Posenc__V1__EncodeRequest m = sinusoidal(&s);
    s.has_layout = s.has_flip_sin_to_cos = s.has_max_period = true;
    s.layout = POSENC__V1__SINUSOIDAL__LAYOUT__WORD__SPLIT;
    s.flip_sin_to_cos = true;
    s.max_period = 500;
    m.has_dtype = m.has_rev = true;
    m.dtype = POSENC__V1__DTYPE__FLOAT64;
    m.rev = 3;
    run q = read_message(&m);
    ck_assert_int_eq(q.st, PE_OK);
    ck_assert_int_eq(posenc_resolve(&q.r, &q.err), PE_OK);

    posenc_request same; /* as typed in a query */
    posenc_arena *a = posenc_arena_new(1 << 20);
    ck_assert_int_eq(posenc_request_init(&same, "sinusoidal", a, NULL), PE_OK);
    posenc_request_parse(&same, "embedding_dim=6&num_positions=10&layout=split&flip_sin_to_cos=true&max_period=500", NULL);
    posenc_request_parse(&same, "dtype=float64&rev=3", NULL);
    ck_assert_int_eq(posenc_resolve(&same, NULL), PE_OK);
    ck_assert_str_eq(q.r.digest, same.digest);
    posenc_arena_free(a);
    end(&q);
}
END_TEST

START_TEST(absent_is_not_zero)
{
    Posenc__V1__Sinusoidal s;
    Posenc__V1__EncodeRequest m = sinusoidal(&s);
    run absent = read_message(&m);
    s.has_max_period = true;
    s.max_period = 10000;
    run given = read_message(&m);
    s.max_period = 0; /* out of range, so it must have been read */
    run zero = read_message(&m);
    ck_assert_int_eq(posenc_resolve(&absent.r, &absent.err), PE_OK);
    ck_assert_int_eq(posenc_resolve(&given.r, &given.err), PE_OK);
    ck_assert_str_eq(absent.r.digest, given.r.digest);
    ck_assert_int_eq(zero.st, PE_INVALID);
    ck_assert(blames(&zero.err, "max_period"));
    end(&absent);
    end(&given);
    end(&zero);
}
END_TEST

START_TEST(lists_and_tensors)
{
    double positions[] = { 3, 1, 4.5 };
    uint8_t ids[] = { 5, 6, 1, 1 };
    int64_t shape[] = { 2, 2 };
    Posenc__V1__Sinusoidal s;
    Posenc__V1__EncodeRequest m = sinusoidal(&s);
    s.has_num_positions = false;
    s.n_positions = 3;
    s.positions = positions;
    run q = read_message(&m);
    ck_assert_int_eq(posenc_resolve(&q.r, &q.err), PE_OK);
    ck_assert_int_eq(q.r.shape.tensor[0].shape[0], 3);
    end(&q);

    Posenc__V1__TensorInput input = POSENC__V1__TENSOR_INPUT__INIT;
    Posenc__V1__Tensor t = POSENC__V1__TENSOR__INIT;
    s.n_positions = 0;
    s.input_ids = &input;
    input.source_case = POSENC__V1__TENSOR_INPUT__SOURCE_INLINE;
    input.inline_ = &t;
    t.has_dtype = t.has_data = true;
    t.dtype = POSENC__V1__DTYPE__UINT8;
    t.n_shape = 2;
    t.shape = shape;
    t.data = (ProtobufCBinaryData){ sizeof ids, ids };
    q = read_message(&m);
    ck_assert_int_eq(posenc_resolve(&q.r, &q.err), PE_OK);
    ck_assert_int_eq(q.r.shape.tensor[0].rank, 3);
    end(&q);

    t.data.len = 3;
    q = read_message(&m);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "input_ids.data"));
    end(&q);
    shape[0] = -1;
    q = read_message(&m);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "input_ids.shape[0]"));
    end(&q);
    t.dtype = 99;
    q = read_message(&m);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "input_ids"));
    end(&q);
    input.source_case = POSENC__V1__TENSOR_INPUT__SOURCE_TABLE;
    input.table = (char[]){ "mine" };
    q = read_message(&m);
    ck_assert(q.st == PE_NOT_FOUND && blames(&q.err, "input_ids"));
    end(&q);
}
END_TEST

START_TEST(graphs)
{
    int64_t index[] = { 0, 1, 2, 1, 2, 0 }, ptr[] = { 0, 3 };
    double weight[] = { 1, 2, 3 };
    Posenc__V1__Laplacian l = POSENC__V1__LAPLACIAN__INIT;
    Posenc__V1__Graph g = POSENC__V1__GRAPH__INIT;
    Posenc__V1__EncodeRequest m = POSENC__V1__ENCODE_REQUEST__INIT;
    m.encoding_case = POSENC__V1__ENCODE_REQUEST__ENCODING_LAPLACIAN;
    m.laplacian = &l;
    m.graph = &g;
    g.has_num_nodes = true;
    g.num_nodes = 3;
    g.n_edge_index = 6;
    g.edge_index = index;
    g.n_edge_weight = 3;
    g.edge_weight = weight;
    g.n_ptr = 2;
    g.ptr = ptr;
    run q = read_message(&m);
    ck_assert_int_eq(posenc_resolve(&q.r, &q.err), PE_OK);
    ck_assert_int_eq(posenc_graph_edges(q.r.graph), 3);
    ck_assert(posenc_graph_batched(q.r.graph));
    end(&q);

    g.has_num_nodes = false; /* ptr says it */
    q = read_message(&m);
    ck_assert_int_eq(posenc_resolve(&q.r, &q.err), PE_OK);
    ck_assert_int_eq(posenc_graph_nodes(q.r.graph), 3);
    end(&q);

    g.n_edge_weight = 2;
    q = read_message(&m);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "graph.edge_weight"));
    end(&q);
    g.n_edge_weight = 0;
    g.n_edge_index = 5;
    g.n_ptr = 0;
    q = read_message(&m);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "graph.edge_index") && blames(&q.err, "graph.num_nodes"));
    end(&q);

    Posenc__V1__Sinusoidal s;
    m = sinusoidal(&s);
    m.graph = &g;
    q = read_message(&m);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "graph"));
    end(&q);
}
END_TEST

/* ---- faults ---- */

START_TEST(words_outside_the_list)
{
    Posenc__V1__Sinusoidal s;
    Posenc__V1__EncodeRequest m = sinusoidal(&s);
    s.has_layout = true;
    s.layout = 77;
    m.has_dtype = true;
    m.dtype = POSENC__V1__DTYPE__INT32; /* in the enum, not in the row */
    run q = read_message(&m);
    ck_assert_int_eq(q.st, PE_INVALID);
    ck_assert(blames(&q.err, "layout") && blames(&q.err, "dtype"));
    for (unsigned i = 0; i < q.err.n; i++)
        ck_assert_ptr_nonnull(strstr(q.err.fault[i].allowed, "one of: "));
    end(&q);
}
END_TEST

START_TEST(unknown_fields)
{
    static const uint8_t outside[] = { 0x0a, 0x04, 0x10, 0x04, 0x18, 0x02, 0xa0, 0x38, 0x01 }; /* field 900 */
    static const uint8_t inside[] = { 0x0a, 0x07, 0x10, 0x04, 0x18, 0x02, 0x98, 0x06, 0x01 };  /* sinusoidal { field 99 } */
    static const uint8_t other[] = { 0xc2, 0x3e, 0x00 }; /* field 1000: an encoding of a later version */
    run q = read_bytes(outside, sizeof outside);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "field 900"));
    end(&q);
    q = read_bytes(inside, sizeof inside);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "field 99"));
    end(&q);
    q = read_bytes(other, sizeof other);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "field 1000") && blames(&q.err, "encoding"));
    end(&q);
    q = read_bytes("", 0);
    ck_assert(q.st == PE_INVALID && blames(&q.err, "encoding"));
    end(&q);
}
END_TEST

START_TEST(hostile_sizes)
{
    size_t n = 3 * 50000;
    uint8_t *bytes = malloc(n);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < n; i += 3)
        memcpy(bytes + i, "\xe2\x3e\x00", 3); /* tensors: "" */
    run q = read_bytes(bytes, n);
    ck_assert_int_eq(q.st, PE_LIMIT);
    ck_assert_uint_lt(posenc_arena_used(q.arena), 40 * n); /* blocks of an arena double */
    end(&q);
    q = read_bytes("\x0a\x7f\x01", 3);
    ck_assert_int_eq(q.st, PE_INVALID);
    end(&q);
    free(bytes);
}
END_TEST

/* Whatever an arena can hold: OK or BUSY, never a request that is half there. */
START_TEST(no_arena_is_too_small)
{
    double positions[200] = { 0 };
    Posenc__V1__Sinusoidal s;
    Posenc__V1__EncodeRequest m = sinusoidal(&s);
    s.has_num_positions = false;
    s.n_positions = 200;
    s.positions = positions;
    uint8_t bytes[2000];
    size_t size = posenc__v1__encode_request__pack(&m, bytes);
    bool ok = false, busy = false, unpacked = false;
    for (size_t limit = 64; limit < 16384; limit += 64) {
        posenc_arena *a = posenc_arena_new(limit);
        posenc_request r = { 0 };
        posenc_error err = { 0 };
        ck_assert_ptr_nonnull(a);
        const Posenc__V1__EncodeRequest *in = (Posenc__V1__EncodeRequest *)pe_reflect_unpack(
            &posenc__v1__encode_request__descriptor, bytes, size, a, &err);
        if (in) {
            posenc_status st = pe_reflect_request(in, &r, NULL, a, &err);
            ck_assert((r.params != NULL) == (r.encoding != NULL) && (st == PE_OK || st == PE_BUSY));
            unpacked |= !r.params;
            if (r.params)
                posenc_resolve(&r, &err);
        }
        ok |= err.status == PE_OK;
        busy |= err.status == PE_BUSY;
        ck_assert_msg(err.status == PE_OK || err.status == PE_BUSY, "%zu: %s", limit, posenc_status_name(err.status));
        posenc_arena_free(a);
    }
    ck_assert(ok && busy && unpacked); /* also: room for the message, none for the parameters */
}
END_TEST

/* ---- selection ---- */

static posenc_status select_of(Posenc__V1__EncodeRequest *m, posenc_selection *sel, posenc_error *err)
{
    run q = read_message(m);
    ck_assert_int_eq(posenc_resolve(&q.r, &q.err), PE_OK);
    posenc_status st = pe_reflect_selection(q.m, &q.r, sel, err);
    end(&q);
    return st;
}

START_TEST(selection)
{
    Posenc__V1__Sinusoidal s;
    Posenc__V1__EncodeRequest m = sinusoidal(&s);
    posenc_selection sel;
    posenc_error err = { 0 };
    char *names[] = { (char[]){ "table" }, (char[]){ "tabel" } };
    ck_assert_int_eq(select_of(&m, &sel, &err), PE_OK);
    ck_assert(!sel.tensors && !sel.rows);
    m.tensors = names;
    m.n_tensors = 1;
    m.has_rows_end = true;
    m.rows_end = 4;
    ck_assert_int_eq(select_of(&m, &sel, &err), PE_OK);
    ck_assert(sel.tensors == 1 && sel.rows && sel.row_begin == 0 && sel.row_end == 4);
    m.rows_end = 11;
    ck_assert_int_eq(select_of(&m, &sel, &err), PE_INVALID);
    ck_assert(blames(&err, "rows_end"));
    m.has_rows_begin = true;
    m.rows_begin = 10;
    m.has_rows_end = false;
    ck_assert_int_eq(select_of(&m, &sel, NULL), PE_OK);
    ck_assert(sel.row_begin == 10 && sel.row_end == 10);
    m.rows_begin = -1;
    ck_assert_int_eq(select_of(&m, &sel, NULL), PE_INVALID);
    m.has_rows_begin = false;
    m.n_tensors = 2;
    err = (posenc_error){ 0 };
    ck_assert_int_eq(select_of(&m, &sel, &err), PE_NOT_FOUND);
    ck_assert(blames(&err, "tensors[1]"));
    ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "table"));
    ck_assert_str_eq(err.fault[0].reason, "UNKNOWN_TENSOR");
    names[1] = names[0];
    err = (posenc_error){ 0 };
    ck_assert_int_eq(select_of(&m, &sel, &err), PE_INVALID);
    ck_assert(blames(&err, "tensors[1]"));
    ck_assert_str_eq(err.fault[0].reason, "DUPLICATE_PARAMETER");
}
END_TEST

/* ---- status ---- */

START_TEST(statuses)
{
    for (int s = PE_INVALID; s <= PE_INTERNAL; s++) {
        posenc_error err = { 0 };
        char text[PE_STATUS_TEXT];
        uint8_t bytes[PE_STATUS_BYTES];
        posenc_fail(&err, (posenc_status)s, "SOME_REASON", "field", "\xff\x01 value", "something else");
        size_t n = pe_status_pack(&err, posenc_status_grpc((posenc_status)s), text, bytes);
        Google__Rpc__Status *st = google__rpc__status__unpack(NULL, n, bytes);
        ck_assert_ptr_nonnull(st);
        ck_assert_int_eq(st->code, posenc_status_grpc((posenc_status)s));
        ck_assert_str_eq(st->message, text);
        ck_assert_ptr_nonnull(strstr(text, "?? value"));
        bool retry = false, bad = false, resource = false;
        for (size_t i = 0; i < st->n_details; i++) {
            retry |= strstr(st->details[i]->type_url, ".RetryInfo") != NULL;
            bad |= strstr(st->details[i]->type_url, ".BadRequest") != NULL;
            resource |= strstr(st->details[i]->type_url, ".ResourceInfo") != NULL;
        }
        ck_assert_str_eq(st->details[0]->type_url, "type.googleapis.com/google.rpc.ErrorInfo");
        ck_assert(retry == posenc_status_retry((posenc_status)s));
        ck_assert(bad == (s == PE_INVALID || s == PE_LIMIT));
        ck_assert(resource == (s == PE_NOT_FOUND));
        google__rpc__status__free_unpacked(st, NULL);
    }
}
END_TEST

START_TEST(a_status_of_many_faults_fits)
{
    posenc_error err = { 0 };
    char text[PE_STATUS_TEXT], longest[400];
    uint8_t bytes[PE_STATUS_BYTES];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    for (int i = 0; i < 20; i++)
        posenc_fail(&err, PE_INVALID, longest, longest, longest, "%s", longest);
    size_t n = pe_status_pack(&err, 3, text, bytes);
    Google__Rpc__Status *st = google__rpc__status__unpack(NULL, n, bytes);
    ck_assert_ptr_nonnull(st);
    ck_assert_uint_eq(st->n_details, 2);
    google__rpc__status__free_unpacked(st, NULL);
}
END_TEST

Suite *reflect_suite(void)
{
    Suite *s = suite_create("reflect");
    TCase *t = tcase_create("reflect");
    tcase_add_test(t, parity);
    tcase_add_test(t, parity_finds_drift);
    tcase_add_test(t, parity_finds_words);
    tcase_add_test(t, values_reach_the_table);
    tcase_add_test(t, absent_is_not_zero);
    tcase_add_test(t, lists_and_tensors);
    tcase_add_test(t, graphs);
    tcase_add_test(t, words_outside_the_list);
    tcase_add_test(t, unknown_fields);
    tcase_add_test(t, hostile_sizes);
    tcase_add_test(t, no_arena_is_too_small);
    tcase_add_test(t, selection);
    tcase_add_test(t, statuses);
    tcase_add_test(t, a_status_of_many_faults_fits);
    suite_add_tcase(s, t);
    return s;
}
