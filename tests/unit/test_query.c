/* test_query.c - what clients write in targets and header fields: every reader against a table of cases. */
#include "http/exchange.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *query_suite(void);

#define N(a) (sizeof(a) / sizeof(a)[0])

/* ---- targets ---- */

START_TEST(test_decode)
{
    static const struct {
        const char *in, *out; /* out NULL: refused */
    } t[] = { { "abc", "abc" }, { "", "" },         { "1e+3", "1e+3" }, { "%41%4a", "AJ" },
              { "%2b", "+" },   { "a%20b", "a b" }, { "%", NULL },      { "%4", NULL },
              { "%4x", NULL },  { "a%00b", NULL },  { "%%41", NULL },   { "%c3%a9", "\xc3\xa9" } };
    char out[64];
    size_t n;
    for (size_t i = 0; i < N(t); i++) {
        bool ok = pe_percent_decode((pe_span){ t[i].in, strlen(t[i].in) }, out, &n);
        ck_assert_msg(ok == (t[i].out != NULL), "%s", t[i].in);
        if (ok) {
            ck_assert_str_eq(out, t[i].out);
            ck_assert_uint_eq(n, strlen(t[i].out));
        }
    }
    ck_assert(!pe_percent_decode((pe_span){ "%41", 2 }, out, &n)); /* not beyond its end */
    ck_assert(!pe_percent_decode((pe_span){ "a\0b", 3 }, out, &n));
}
END_TEST

START_TEST(test_pairs)
{
    const char *q = "&a=1&&b=&c&d=x=y&";
    static const struct {
        const char *name, *value;
    } want[] = { { "a", "1" }, { "b", "" }, { "c", NULL }, { "d", "x=y" } };
    pe_span name, value;
    for (size_t i = 0; i < N(want); i++) {
        ck_assert(pe_query_next(&q, &name, &value));
        ck_assert_uint_eq(name.n, strlen(want[i].name));
        ck_assert(!memcmp(name.p, want[i].name, name.n));
        ck_assert((value.p != NULL) == (want[i].value != NULL));
        ck_assert_uint_eq(value.n, want[i].value ? strlen(want[i].value) : 0);
    }
    ck_assert(!pe_query_next(&q, &name, &value));
    q = NULL;
    ck_assert(!pe_query_next(&q, &name, &value));
}
END_TEST

START_TEST(test_path)
{
    static const char *const good[] = { "/", "/a", "/v1/encodings/rope.npy", "/a-b_c~d/1.2.3", "/..a" };
    static const char *const bad[] = { "",       "a",    "*",      "//",   "/a/",    "/a//b", "/.",   "/..",  "/a/../b",
                                       "/a/./b", "/%61", "/a%2fb", "/a b", "/a\x80", "/a;b",  "/a+b", "/a/.." };
    for (size_t i = 0; i < N(good); i++)
        ck_assert_msg(pe_path_plain(good[i]), "%s", good[i]);
    for (size_t i = 0; i < N(bad); i++)
        ck_assert_msg(!pe_path_plain(bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(test_match)
{
    static const struct {
        const char *path_template, *path;
        int n;
        const char *last;
    } t[] = { { "/", "/", 0, NULL },
              { "/a", "/a", 0, NULL },
              { "/a", "/ab", -1, NULL },
              { "/ab", "/a", -1, NULL },
              { "/v1/{name}", "/v1/rope", 1, "rope" },
              { "/v1/{name}", "/v1/rope.npy", -1, NULL },
              { "/v1/{name}", "/v1/", -1, NULL },
              { "/v1/{name}.{ext}", "/v1/rope.npy", 2, "npy" },
              { "/v1/{name}.{ext}", "/v1/rope.tar.gz", 2, "tar.gz" },
              { "/v1/{name}.{ext}", "/v1/rope", -1, NULL },
              { "/v1/{name}.{ext}", "/v1/.npy", -1, NULL },
              { "/v1/{name}.{ext}", "/v1/rope.", -1, NULL },
              { "/v1/{name}/{tensor}.{ext}", "/v1/rope/cos.npy", 3, "npy" },
              { "/v1/{name}/{tensor}.{ext}", "/v1/rope/x/cos.npy", -1, NULL },
              { "/v1/{name}/{tensor}.{ext}", "/v1/ro.pe/cos.npy", -1, NULL } };
    for (size_t i = 0; i < N(t); i++) {
        pe_span s[3];
        int n = pe_path_match(t[i].path_template, t[i].path, s, 3);
        ck_assert_msg(n == t[i].n, "%s %s: %d", t[i].path_template, t[i].path, n);
        if (t[i].last)
            ck_assert(s[n - 1].n == strlen(t[i].last) && !memcmp(s[n - 1].p, t[i].last, s[n - 1].n));
    }
}
END_TEST

START_TEST(test_rows)
{
    static const struct {
        const char *s;
        bool ok;
        int64_t a, b;
    } t[] = { { "0:0", true, 0, 0 },
              { "3:17", true, 3, 17 },
              { "17:3", false, 0, 0 },
              { ":3", false, 0, 0 },
              { "3:", false, 0, 0 },
              { "3", false, 0, 0 },
              { "-1:3", false, 0, 0 },
              { "1:2:3", false, 0, 0 },
              { " 1:2", false, 0, 0 },
              { "1:2 ", false, 0, 0 },
              { "0x1:2", false, 0, 0 },
              { "", false, 0, 0 },
              { "9223372036854775807:9223372036854775807", true, INT64_MAX, INT64_MAX },
              { "0:9223372036854775808", false, 0, 0 } };
    for (size_t i = 0; i < N(t); i++) {
        int64_t a = -1, b = -1;
        ck_assert_msg(pe_rows_parse(t[i].s, &a, &b) == t[i].ok, "%s", t[i].s);
        if (t[i].ok)
            ck_assert(a == t[i].a && b == t[i].b);
    }
    int64_t v;
    ck_assert(pe_count_parse("0", &v) && v == 0);
    ck_assert(!pe_count_parse("", &v) && !pe_count_parse("-1", &v) && !pe_count_parse("1 ", &v) &&
              !pe_count_parse("1e3", &v));
}
END_TEST

/* ---- header fields ---- */

START_TEST(test_etag)
{
    static const struct {
        const char *list, *tag;
        bool weak, strong;
    } t[] = { { "\"a\"", "\"a\"", true, true },
              { "W/\"a\"", "\"a\"", true, false },
              { "\"a\"", "W/\"a\"", true, false },
              { "*", "\"a\"", true, true },
              { " * ", "\"a\"", true, true },
              { "\"b\", \"a\"", "\"a\"", true, true },
              { "\"b\" , W/\"a\",\"c\"", "\"a\"", true, false },
              { "\"b\",,\"a\"", "\"a\"", true, true },
              { "\"b\"", "\"a\"", false, false },
              { "a", "\"a\"", false, false },
              { "\"a", "\"a\"", false, false },
              { "\"b\" \"a\"", "\"a\"", false, false },
              { "x, \"a\"", "\"a\"", false, false },
              { "\"ab\"", "\"a\"", false, false },
              { "\"x,y\", \"a\"", "\"a\"", true, true },
              { "w/\"a\"", "\"a\"", false, false },
              { "", "\"a\"", false, false } };
    for (size_t i = 0; i < N(t); i++) {
        ck_assert_msg(pe_etag_listed(t[i].list, t[i].tag, true) == t[i].weak, "weak %s", t[i].list);
        ck_assert_msg(pe_etag_listed(t[i].list, t[i].tag, false) == t[i].strong, "strong %s", t[i].list);
    }
}
END_TEST

START_TEST(test_range)
{
    static const struct {
        const char *s;
        uint64_t size;
        pe_range kind;
        uint64_t first, last;
    } t[] = { { NULL, 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=0-0", 10, PE_RANGE_PART, 0, 0 },
              { "bytes=2-5", 10, PE_RANGE_PART, 2, 5 },
              { "Bytes=2-5", 10, PE_RANGE_PART, 2, 5 },
              { "bytes=2-500", 10, PE_RANGE_PART, 2, 9 },
              { "bytes=9-", 10, PE_RANGE_PART, 9, 9 },
              { "bytes=10-", 10, PE_RANGE_OUTSIDE, 0, 0 },
              { "bytes=10-20", 10, PE_RANGE_OUTSIDE, 0, 0 },
              { "bytes=0-", 0, PE_RANGE_OUTSIDE, 0, 0 },
              { "bytes=-3", 10, PE_RANGE_PART, 7, 9 },
              { "bytes=-30", 10, PE_RANGE_PART, 0, 9 },
              { "bytes=-0", 10, PE_RANGE_OUTSIDE, 0, 0 },
              { "bytes=-1", 0, PE_RANGE_OUTSIDE, 0, 0 },
              { "bytes=5-2", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=1-2,4-5", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=-", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=a-b", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=1-2x", 10, PE_RANGE_IGNORED, 0, 0 },
              { "rows=1-2", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes 1-2", 10, PE_RANGE_IGNORED, 0, 0 },
              { "bytes=99999999999999999999-", 10, PE_RANGE_IGNORED, 0, 0 } };
    for (size_t i = 0; i < N(t); i++) {
        uint64_t first = 0, last = 0;
        ck_assert_msg(pe_range_parse(t[i].s, t[i].size, &first, &last) == t[i].kind, "%s of %d", t[i].s, (int)t[i].size);
        if (t[i].kind == PE_RANGE_PART)
            ck_assert_msg(first == t[i].first && last == t[i].last, "%s: %d-%d", t[i].s, (int)first, (int)last);
    }
}
END_TEST

START_TEST(test_accept)
{
    static const struct {
        const char *s;
        bool gzip;
    } t[] = { { NULL, false },
              { "", false },
              { "gzip", true },
              { "GZIP", true },
              { "x-gzip", true },
              { "deflate, gzip;q=0.5, br", true },
              { "gzip;q=0", false },
              { "gzip;q=0.000", false },
              { "gzip;q=1.001", false },
              { "gzip; q=0.3", true },
              { "*", true },
              { "*;q=0", false },
              { "gzip;q=0, *", false },
              { "identity", false },
              { "identity;q=1, gzip;q=0.5", false },
              { "identity;q=0.5, gzip", true },
              { "br", false },
              { "gzip;level=9", false },
              { "gzip x", false },
              { "gzipx", false } };
    for (size_t i = 0; i < N(t); i++)
        ck_assert_msg(pe_accepts_gzip(t[i].s) == t[i].gzip, "%s", t[i].s);
}
END_TEST

START_TEST(test_timeout)
{
    static const struct {
        const char *s;
        int64_t ns; /* 0: refused */
    } t[] = { { "1", 1000000000 },
              { "0.5", 500000000 },
              { "0.000000001", 1 },
              { "1.25", 1250000000 },
              { "86400", 86400000000000 },
              { "0", 0 },
              { "0.0", 0 },
              { "86401", 0 },
              { "86400.1", 0 },
              { "-1", 0 },
              { "1.", 0 },
              { ".5", 0 },
              { "1e3", 0 },
              { "", 0 },
              { "1 s", 0 },
              { "1.0000000001", 0 },
              { "99999999999999999999", 0 } };
    for (size_t i = 0; i < N(t); i++) {
        int64_t ns = 0;
        bool ok = pe_timeout_parse(t[i].s, &ns);
        ck_assert_msg(ok == (t[i].ns > 0), "%s", t[i].s);
        if (ok)
            ck_assert_int_eq(ns, t[i].ns);
    }
}
END_TEST

START_TEST(test_media)
{
    static const struct {
        const char *s;
        pe_media media;
    } t[] = { { NULL, PE_MEDIA_NONE },
              { "application/json", PE_MEDIA_JSON },
              { "Application/JSON; charset=UTF-8", PE_MEDIA_JSON },
              { "application/json;charset=\"utf-8\"", PE_MEDIA_JSON },
              { "application/json; charset=latin1", PE_MEDIA_OTHER },
              { "application/json x", PE_MEDIA_OTHER },
              { "application/jsonx", PE_MEDIA_OTHER },
              { "application/vnd.safetensors", PE_MEDIA_SAFETENSORS },
              { "application/x-npz", PE_MEDIA_NPZ },
              { "application/x-npz; a=b", PE_MEDIA_OTHER },
              { "text/plain", PE_MEDIA_OTHER },
              { "", PE_MEDIA_OTHER } };
    for (size_t i = 0; i < N(t); i++)
        ck_assert_msg(pe_media_parse(t[i].s) == t[i].media, "%s", t[i].s);
}
END_TEST

START_TEST(test_texts)
{
    char out[16], two[3];
    ck_assert(pe_request_id_sane("a.B-9_") && !pe_request_id_sane("") && !pe_request_id_sane("a b") &&
              !pe_request_id_sane("a\"b"));
    char longest[66];
    memset(longest, 'a', sizeof longest);
    longest[65] = 0;
    ck_assert(!pe_request_id_sane(longest));
    ck_assert(pe_request_id_sane(longest + 1));
    pe_header_escape("a\r\nb%\xc3\xa9 ", out, sizeof out);
    ck_assert_str_eq(out, "a%0D%0Ab%25%C3"); /* what does not fit whole is left out */
    pe_header_escape("x  ", out, sizeof out);
    ck_assert_str_eq(out, "x");
    pe_utf8_clean("a\xff\xc3\xa9\xc3", out, sizeof out);
    ck_assert_str_eq(out, "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd");
    pe_utf8_clean("\xed\xa0\x80", out, sizeof out); /* a surrogate */
    ck_assert_str_eq(out, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    pe_utf8_clean("\xc3\xa9\xc3\xa9", two, sizeof two);
    ck_assert_str_eq(two, "\xc3\xa9");
}
END_TEST

START_TEST(test_problem)
{
    posenc_error err = { 0 };
    posenc_fail(&err, PE_INVALID, "LIMIT_EXCEEDED", "x\xff\"", "\x80", "at most %d", 3);
    posenc_fail(&err, PE_NOT_FOUND, "OTHER", "y", "", "z");
    char *s = pe_problem_text(404, "NOT_FOUND", &err, "id-1");
    ck_assert_ptr_nonnull(s);
    json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(o != NULL, "%s", s);
    ck_assert_str_eq(json_string_value(json_object_get(o, "type")), "urn:posenc:error:limit-exceeded");
    ck_assert_str_eq(json_string_value(json_object_get(o, "title")), "Limit exceeded");
    ck_assert_str_eq(json_string_value(json_object_get(o, "instance")), "urn:posenc:request:id-1");
    ck_assert_int_eq(json_integer_value(json_object_get(o, "status")), 404);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "errors")), 2);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(json_object_get(o, "errors"), 0), "value")),
                     "\xef\xbf\xbd");
    json_decref(o);
    free(s);
    err = (posenc_error){ 0 };
    posenc_fail(&err, PE_INTERNAL, "INTERNAL", "/secret/path", "x", "y");
    s = pe_problem_text(500, "INTERNAL", &err, "id-2");
    ck_assert(!strstr(s, "secret") && strstr(s, "id-2"));
    free(s);
    s = pe_problem_text(499, "CANCELLED", &(posenc_error){ .status = PE_CANCELLED }, "i");
    ck_assert(strstr(s, "CANCELLED"));
    free(s);
}
END_TEST

/* ---- queries into requests ---- */

static pe_config config;
static pe_service *service;
static posenc_arena *config_arena;

static void start(void)
{
    posenc_error err = { 0 };
    pe_config_mode mode;
    char *argv[] = { (char *)"posencd" };
    config_arena = posenc_arena_new(1 << 20);
    ck_assert_int_eq(pe_config_load(1, argv, config_arena, &config, &mode, &err), PE_OK);
    service = pe_service_new(&config, &err);
    ck_assert_ptr_nonnull(service);
}

static void stop(void)
{
    pe_service_free(service);
    posenc_arena_free(config_arena);
}

/* A request that has arrived whole. */
static pe_exchange exchange(const char *encoding, const char *query)
{
    pe_exchange x = {
        .service = service, .method = PE_GET, .asked = { .num_nodes = -1 }, .query = (char *)(uintptr_t)query
    };
    snprintf(x.asked.encoding, sizeof x.asked.encoding, "%s", encoding);
    return x;
}

static const struct {
    const char *encoding, *query, *field, *reason; /* field NULL: good */
} queries[] = {
    { "sinusoidal", "embedding_dim=4&num_positions=3", NULL, NULL },
    { "sinusoidal", "embedding%5Fdim=4&num_positions=%33", NULL, NULL },
    { "sinusoidal", "embedding_dim=4&num_positions=1e+1", NULL, NULL },
    { "sinusoidal", "embedding_dim=4&positions=1,2&positions=3", NULL, NULL },
    { "sinusoidal", "embedding_dim=4&num_positions=3&rows=0:2&explain=true&tensors=table", NULL, NULL },
    { "sinusoidal", "embedding_dim=4&num_positions=3&dtype=float64&rev=3", NULL, NULL },
    { "sinusoidal", "embedding_dim=4&embedding_dim=4&num_positions=3", "embedding_dim", "DUPLICATE_PARAMETER" },
    { "sinusoidal", "embedding_dim=4&num_positions=3&rows=0:1&rows=0:1", "rows", "DUPLICATE_PARAMETER" },
    { "sinusoidal", "embedding_dim=&num_positions=3", "embedding_dim", "INVALID_PARAMETER" },
    { "sinusoidal", "embedding_dim&num_positions=3", "embedding_dim", "INVALID_PARAMETER" },
    { "sinusoidal", "embedding_dim=%zz&num_positions=3", "embedding_dim", "INVALID_PARAMETER" },
    { "sinusoidal", "embedding_dim=4%00&num_positions=3", "embedding_dim", "INVALID_PARAMETER" },
    { "sinusoidal", "embeding_dim=4", "embeding_dim", "UNKNOWN_PARAMETER" },
    { "sinusoidal", "=4", "", "UNKNOWN_PARAMETER" },
    { "sinusoidal", "rovs=0:1", "rovs", "UNKNOWN_PARAMETER" },
    { "sinusoidal", "rows=1", "rows", "INVALID_PARAMETER" },
    { "sinusoidal", "data=flat", NULL, NULL },
    { "sinusoidal", "data=falt", "data", "INVALID_PARAMETER" },
    { "sinusoidal", "explain=yes", "explain", "INVALID_PARAMETER" },
    { "sinusoidal", "explain=", "explain", "INVALID_PARAMETER" },
    { "sinusoidal", "num_nodes=3", "num_nodes", "UNKNOWN_PARAMETER" },
    { "sinusoidal", "positions=1,x", "positions[1]", "INVALID_PARAMETER" },
    { "laplacian", "k=2", "graph", "MISSING_PARAMETER" },
    { "laplacian", "k=2&num_nodes=3", "num_nodes", "UNKNOWN_PARAMETER" },
    { "sinusiodal", "k=2", "encoding", "UNKNOWN_ENCODING" },
};

START_TEST(test_read)
{
    pe_exchange x = exchange(queries[_i].encoding, queries[_i].query);
    posenc_status st = pe_read_request(&x);
    ck_assert_msg((st == PE_OK) == !queries[_i].field, "%s: %s", queries[_i].query, x.error.fault[0].allowed);
    ck_assert_int_eq(st, x.error.status);
    if (queries[_i].field) {
        bool found = false;
        for (unsigned k = 0; k < x.error.n; k++)
            found |= !strcmp(x.error.fault[k].field, queries[_i].field) &&
                     !strcmp(x.error.fault[k].reason, queries[_i].reason);
        ck_assert_msg(found, "%s: %s %s", queries[_i].query, x.error.fault[0].field, x.error.fault[0].reason);
    }
    pe_request_unref(x.request);
}
END_TEST

START_TEST(test_read_values)
{
    pe_exchange x = exchange("sinusoidal", "embedding_dim=4&positions=5,6&rev=3&positions=7&rows=1:3");
    ck_assert_int_eq(pe_read_request(&x), PE_OK);
    ck_assert_int_eq(pe_service_resolve(service, x.request, &x.error), PE_OK);
    ck_assert_int_eq(x.request->r.shape.tensor[0].shape[0], 3); /* both lists are one */
    ck_assert(strstr(x.request->r.params_json, "[5,6,7]"));
    ck_assert(x.asked.pinned && x.asked.selection.rows && x.asked.selection.row_begin == 1 &&
              x.asked.selection.row_end == 3);
    ck_assert_int_eq(pe_select(&x, &x.request->r.shape), PE_OK);
    ck_assert_uint_eq(x.asked.selection.tensors, 0);
    snprintf(x.asked.tensor, sizeof x.asked.tensor, "tabel");
    ck_assert_int_eq(pe_select(&x, &x.request->r.shape), PE_NOT_FOUND);
    ck_assert(strstr(x.error.fault[0].allowed, "table"));
    pe_request_unref(x.request);
}
END_TEST

/* Bodies of the three media types give the same request. */
START_TEST(test_read_body)
{
    static char json[] = "{\"embedding_dim\": 4, \"num_positions\": 3}";
    pe_exchange x = exchange("sinusoidal", "embedding_dim=4&num_positions=3"), y = exchange("sinusoidal", "");
    ck_assert_int_eq(pe_read_request(&x), PE_OK);
    ck_assert_int_eq(pe_service_resolve(service, x.request, &x.error), PE_OK);
    y.method = PE_POST;
    y.media = PE_MEDIA_JSON;
    y.body = json;
    y.body_size = strlen(json);
    ck_assert_int_eq(pe_read_request(&y), PE_OK);
    ck_assert_int_eq(pe_service_resolve(service, y.request, &y.error), PE_OK);
    ck_assert_str_eq(x.request->r.digest, y.request->r.digest);
    pe_request_unref(x.request);
    pe_request_unref(y.request);

    y = exchange("sinusoidal", "embedding_dim=8"); /* the same name in both places */
    y.method = PE_POST;
    y.media = PE_MEDIA_JSON;
    y.body = json;
    y.body_size = strlen(json);
    ck_assert_int_eq(pe_read_request(&y), PE_INVALID);
    ck_assert_str_eq(y.error.fault[0].reason, "DUPLICATE_PARAMETER");
    pe_request_unref(y.request);

    y = exchange("laplacian", "num_nodes=2&directed=maybe&k=1");
    y.method = PE_POST;
    y.media = PE_MEDIA_SAFETENSORS;
    ck_assert_int_eq(pe_read_request(&y), PE_INVALID);
    ck_assert_str_eq(y.error.fault[0].field, "directed");
    pe_request_unref(y.request);
}
END_TEST

Suite *query_suite(void)
{
    Suite *s = suite_create("query");
    TCase *t = tcase_create("readers");
    tcase_add_test(t, test_decode);
    tcase_add_test(t, test_pairs);
    tcase_add_test(t, test_path);
    tcase_add_test(t, test_match);
    tcase_add_test(t, test_rows);
    tcase_add_test(t, test_etag);
    tcase_add_test(t, test_range);
    tcase_add_test(t, test_accept);
    tcase_add_test(t, test_timeout);
    tcase_add_test(t, test_media);
    tcase_add_test(t, test_texts);
    tcase_add_test(t, test_problem);
    suite_add_tcase(s, t);
    t = tcase_create("requests");
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_loop_test(t, test_read, 0, (int)N(queries));
    tcase_add_test(t, test_read_values);
    tcase_add_test(t, test_read_body);
    suite_add_tcase(s, t);
    return s;
}
