/* test_read_json.c - requests from JSON and from the tensors of binary bodies. */
#include "core/params.h"

#include "core/graph.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *read_json_suite(void);

typedef struct trial {
    posenc_given given;
    int64_t count;
    double scale;
    posenc_reals positions;
    bool flag;
    int word;
    const char *label;
    posenc_tensor table;
} trial;

static const char *const words[] = { "alpha", "beta", NULL };
static const char *const pattern[] = { "[a-z]+", NULL };
static const posenc_param rows[] = {
    { PE_INT(trial, count), .min = -9e15, .max = 9e15, .doc = "an integer" },
    { PE_REAL(trial, scale), .flags = PE_NAN, .doc = "a real" },
    { PE_REALS(trial, positions), .doc = "a list" },
    { PE_BOOL(trial, flag), .doc = "a truth" },
    { PE_ENUM(trial, word), .names = words, .doc = "a word" },
    { PE_TEXT(trial, label), .names = pattern, .min = 0, .max = 20, .doc = "a text" },
    { PE_TENSOR(trial, table), .doc = "a tensor" },
};
static const posenc_encoding plain = { .name = "trial", .revision = 1, PE_TABLE(trial, rows) };
static const posenc_encoding graphic = { .name = "trial_graph", .revision = 1, .input = PE_GRAPH, PE_TABLE(trial, rows) };

/* ---- one request --------------------------------------------------------------------------------------------- */

typedef struct run {
    posenc_arena *arena;
    trial p;
    posenc_request r;
    posenc_error err;
    posenc_status st;
} run;

static run *begin(const posenc_encoding *e)
{
    run *q = calloc(1, sizeof *q);
    ck_assert_ptr_nonnull(q);
    q->arena = posenc_arena_new(1 << 24);
    ck_assert_ptr_nonnull(q->arena);
    posenc_defaults(&e->table, &q->p);
    q->r = (posenc_request){ .encoding = e, .arena = q->arena, .params = &q->p };
    posenc_defaults(&posenc_common_table, &q->r.common);
    return q;
}

/* Reads a copy without a NUL at its end, so that a sanitizer sees a byte too many. */
static run *ask_bytes(const posenc_encoding *e, const char *json, size_t n)
{
    run *q = begin(e);
    char *copy = malloc(n ? n : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, json, n);
    q->st = posenc_request_json(&q->r, copy, n, &q->err);
    free(copy); /* nothing of the request may point into the body */
    return q;
}

static run *ask(const posenc_encoding *e, const char *json) { return ask_bytes(e, json, strlen(json)); }

static void end(run *q)
{
    posenc_arena_free(q->arena);
    free(q);
}

static run *good(const posenc_encoding *e, const char *json)
{
    char text[1000];
    run *q = ask(e, json);
    ck_assert_msg(q->st == PE_OK && q->err.n == 0, "%s: %s", json, posenc_error_text(&q->err, text, sizeof text));
    return q;
}

/* ---- tests --------------------------------------------------------------------------------------------------- */

START_TEST(every_kind)
{
    run *q = good(&plain, " {\"count\": 1e4, \"scale\":0.1,\"positions\":[1,2.5,-0],\"flag\":true,\"word\":\"beta\",\n"
                          "\"label\":\"\\u0061b\\/c\",\"table\":[[1,2,3],[4,5,6]],\"dtype\":\"float64\",\"rev\":null} ");
    ck_assert_int_eq(q->p.count, 10000);
    ck_assert(q->p.scale == 0.1);
    ck_assert_uint_eq(q->p.positions.n, 3);
    ck_assert(q->p.positions.v[1] == 2.5 && q->p.positions.v[2] == 0 && !signbit(q->p.positions.v[2]));
    ck_assert(q->p.flag);
    ck_assert_int_eq(q->p.word, 1);
    ck_assert_str_eq(q->p.label, "ab/c");
    ck_assert_int_eq(q->p.table.dtype, PE_int64);
    ck_assert_int_eq(q->p.table.rank, 2);
    ck_assert_int_eq(q->p.table.shape[1], 3);
    ck_assert(posenc_tensor_get(&q->p.table, 5) == 6);
    ck_assert_int_eq(q->r.common.dtype, PE_float64);
    end(q);
}
END_TEST

START_TEST(absent)
{
    run *q = good(&plain, "{}");
    ck_assert_uint_eq(q->p.given, 0);
    end(q);
    q = good(&plain, "{\"count\":null,\"table\":null,\"positions\":null}");
    ck_assert_uint_eq(q->p.given, 0);
    end(q);
    q = good(&graphic, "{\"graph\":null}");
    ck_assert_ptr_null(q->r.graph);
    end(q);
}
END_TEST

START_TEST(numbers)
{
    static const struct {
        const char *text;
        double v;
    } cases[] = {
        { "9007199254740992", 9007199254740992.0 },
        { "9007199254740994", 9007199254740994.0 },
        { "1e22", 1e22 },
        { "100000000000000000000", 1e20 },
        { "-1.5E-3", -0.0015 },
        { "0.000001", 1e-6 },
        { "123456789012345678901234567890e-10", 12345678901234567890.123456789 },
        { "1e-400", 0 },
        { "2.2250738585072011e-308", 2.2250738585072011e-308 },
        { "1.7976931348623157e308", 1.7976931348623157e308 },
        { "0.1e1", 1 },
        { "5e-324", 5e-324 },
    };
    char json[200];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(json, sizeof json, "{\"scale\":%s,\"positions\":%s}", cases[i].text, cases[i].text);
        run *q = good(&plain, json);
        ck_assert_msg(q->p.scale == cases[i].v, "%s is %.17g", cases[i].text, q->p.scale);
        ck_assert_uint_eq(q->p.positions.n, 1);
        ck_assert(q->p.positions.v[0] == cases[i].v);
        end(q);
    }
    run *q = good(&plain, "{\"scale\":\"nan\"}");
    ck_assert(isnan(q->p.scale));
    end(q);
}
END_TEST

START_TEST(tensors)
{
    static const struct {
        const char *text;
        posenc_dtype dtype;
        int rank;
        int64_t shape[3];
        double last;
    } cases[] = {
        { "5", PE_int64, 0, { 0 }, 5 },
        { "[]", PE_int64, 1, { 0 }, 0 },
        { "[[],[]]", PE_int64, 2, { 2, 0 }, 0 },
        { "[1,2.0]", PE_float64, 1, { 2 }, 2 },
        { "[9223372036854775807]", PE_int64, 1, { 1 }, 9223372036854775807.0 },
        { "[[[1],[2]],[[3],[-9223372036854775808]]]", PE_int64, 3, { 2, 2, 1 }, -9223372036854775808.0 },
        { "[[true,false],[false,true]]", PE_uint8, 2, { 2, 2 }, 1 },
        { "{\"dtype\":\"float32\",\"shape\":[2],\"data\":\"AACAPwAAAEA=\"}", PE_float32, 1, { 2 }, 2 },
        { "{\"data\":\"\\/\\/8=\",\"dtype\":\"int16\",\"shape\":[]}", PE_int16, 0, { 0 }, -1 },
        { "{\"dtype\":\"bool\",\"shape\":[2,0],\"data\":\"\"}", PE_uint8, 2, { 2, 0 }, 0 },
        { "{\"dtype\":\"bfloat16\",\"shape\":[1],\"data\":\"gD8=\"}", PE_bfloat16, 1, { 1 }, 1 },
    };
    char json[300];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(json, sizeof json, "{\"table\":%s}", cases[i].text);
        run *q = good(&plain, json);
        const posenc_tensor *t = &q->p.table;
        ck_assert_int_eq(t->dtype, cases[i].dtype);
        ck_assert_int_eq(t->rank, cases[i].rank);
        for (int k = 0; k < t->rank; k++)
            ck_assert_int_eq(t->shape[k], cases[i].shape[k]);
        ck_assert_ptr_nonnull(t->data);
        if (posenc_tensor_count(t) > 0)
            ck_assert(posenc_tensor_get(t, posenc_tensor_count(t) - 1) == cases[i].last);
        end(q);
    }
    run *q = good(&plain, "{\"positions\":{\"dtype\":\"int64\",\"shape\":[1],\"data\":\"BwAAAAAAAAA=\"}}");
    ck_assert_uint_eq(q->p.positions.n, 1);
    ck_assert(q->p.positions.v[0] == 7);
    end(q);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *json;
        posenc_status st;
        const char *field, *reason;
    } cases[] = {
        { "", PE_INVALID, "body", "INVALID_JSON" },
        { "[]", PE_INVALID, "body", "INVALID_PARAMETER" },
        { "{} x", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":1,}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":01}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":+1}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":1.}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":.1}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":NaN}", PE_INVALID, "count", "INVALID_JSON" },
        { "{\"list\":[1,-Infinity]}", PE_INVALID, "list", "INVALID_JSON" },
        { "NaN", PE_INVALID, "body", "INVALID_JSON" },
        { "{NaN", PE_INVALID, "body", "INVALID_JSON" },
        { "{Infinity", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\"NaN", PE_INVALID, "count", "INVALID_JSON" },
        { "{\"count\":nul}", PE_INVALID, "body", "INVALID_JSON" },
        { "{'count':1}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\t\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\\u0000\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\\ud800\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\\ud800\\u0041\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\\x41\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\xc0\x80\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\xed\xa0\x80\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"label\":\"\xf4\x90\x80\x80\"}", PE_INVALID, "body", "INVALID_JSON" },
        { "\xef\xbb\xbf{}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"table\":[1,2}", PE_INVALID, "body", "INVALID_JSON" },
        { "{\"count\":1,\"count\":1}", PE_INVALID, "count", "DUPLICATE_PARAMETER" },
        { "{\"count\":null,\"count\":1}", PE_INVALID, "count", "DUPLICATE_PARAMETER" },
        { "{\"count\":1,\"c\\u006funt\":1}", PE_INVALID, "count", "DUPLICATE_PARAMETER" },
        { "{\"dtype\":\"float32\",\"dtype\":\"float32\"}", PE_INVALID, "dtype", "DUPLICATE_PARAMETER" },
        { "{\"coumt\":1}", PE_INVALID, "coumt", "UNKNOWN_PARAMETER" },
        { "{\"graph\":{}}", PE_INVALID, "graph", "UNKNOWN_PARAMETER" },
        { "{\"encoding\":\"trial\"}", PE_INVALID, "encoding", "UNKNOWN_PARAMETER" },
        { "{\"count\":1.5}", PE_INVALID, "count", "INVALID_PARAMETER" },
        { "{\"count\":\"1\"}", PE_INVALID, "count", "INVALID_PARAMETER" },
        { "{\"count\":true}", PE_INVALID, "count", "INVALID_PARAMETER" },
        { "{\"count\":9223372036854775808}", PE_INVALID, "count", "INVALID_PARAMETER" },
        { "{\"scale\":9007199254740993}", PE_INVALID, "scale", "INVALID_PARAMETER" },
        { "{\"scale\":100000000000000000001}", PE_INVALID, "scale", "INVALID_PARAMETER" },
        { "{\"scale\":1e400}", PE_INVALID, "scale", "INVALID_PARAMETER" },
        { "{\"scale\":\"1\"}", PE_INVALID, "scale", "INVALID_PARAMETER" },
        { "{\"flag\":1}", PE_INVALID, "flag", "INVALID_PARAMETER" },
        { "{\"flag\":\"true\"}", PE_INVALID, "flag", "INVALID_PARAMETER" },
        { "{\"word\":\"gamma\"}", PE_INVALID, "word", "INVALID_PARAMETER" },
        { "{\"word\":0}", PE_INVALID, "word", "INVALID_PARAMETER" },
        { "{\"label\":5}", PE_INVALID, "label", "INVALID_PARAMETER" },
        { "{\"positions\":[1,2,\"3\"]}", PE_INVALID, "positions[2]", "INVALID_PARAMETER" },
        { "{\"positions\":[1,null]}", PE_INVALID, "positions[1]", "INVALID_PARAMETER" },
        { "{\"positions\":[0,0,0,9007199254740993]}", PE_INVALID, "positions[3]", "INVALID_PARAMETER" },
        { "{\"positions\":[[1]]}", PE_INVALID, "positions", "INVALID_PARAMETER" },
        { "{\"positions\":\"1,2\"}", PE_INVALID, "positions", "INVALID_PARAMETER" },
        { "{\"table\":[[1,2],[3]]}", PE_INVALID, "table[1]", "INVALID_SHAPE" },
        { "{\"table\":[[1],[3,4]]}", PE_INVALID, "table[1]", "INVALID_SHAPE" },
        { "{\"table\":[[1],2]}", PE_INVALID, "table[1]", "INVALID_PARAMETER" },
        { "{\"table\":[1,[2]]}", PE_INVALID, "table[1]", "INVALID_PARAMETER" },
        { "{\"table\":[1,true]}", PE_INVALID, "table[1]", "INVALID_PARAMETER" },
        { "{\"table\":[[1,\"NaN\"]]}", PE_INVALID, "table[0][1]", "INVALID_PARAMETER" },
        { "{\"table\":[1,{\"a\":2}]}", PE_INVALID, "table[1]", "INVALID_PARAMETER" },
        { "{\"table\":[9223372036854775808]}", PE_INVALID, "table[0]", "INVALID_PARAMETER" },
        { "{\"table\":[9007199254740993,0.5]}", PE_INVALID, "table[0]", "INVALID_PARAMETER" },
        { "{\"table\":[[[[[[[[[1]]]]]]]]]}", PE_LIMIT, "table", "LIMIT_EXCEEDED" },
        { "{\"table\":\"my_table\"}", PE_NOT_FOUND, "table", "TABLE_NOT_FOUND" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[1]}}", PE_INVALID, "table.data", "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"f4\",\"shape\":[1],\"data\":\"AAAAAA==\"}}", PE_INVALID, "table.dtype",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":\"AAAAAA==\"}}", PE_INVALID, "table.data",
          "INVALID_SHAPE" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":\"AAAAAA=\"}}", PE_INVALID, "table.data",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":\"AAAAAB==\"}}", PE_INVALID, "table.data",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":\"AAA AAA==\"}}", PE_INVALID, "table.data",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":\"A===AAAA\"}}", PE_INVALID, "table.data",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[-1],\"data\":\"\"}}", PE_INVALID, "table.shape",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[4294967296,4294967296],\"data\":\"\"}}", PE_INVALID, "table.shape",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":\"AAAAAA==\",\"x\":1}}", PE_INVALID, "table",
          "INVALID_PARAMETER" },
        { "{\"table\":{\"dtype\":\"float32\",\"dtype\":\"float32\",\"shape\":[1],\"data\":\"AAAAAA==\"}}", PE_INVALID,
          "table", "INVALID_PARAMETER" },
        { "{\"rev\":\"1\"}", PE_INVALID, "rev", "INVALID_PARAMETER" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run *q = ask(&plain, cases[i].json);
        char text[1000];
        posenc_error_text(&q->err, text, sizeof text);
        ck_assert_msg(q->st == cases[i].st && q->err.n == 1 && !strcmp(q->err.fault[0].field, cases[i].field) &&
                          !strcmp(q->err.fault[0].reason, cases[i].reason),
                      "%s: %s", cases[i].json, text);
        end(q);
    }
}
END_TEST

START_TEST(places)
{
    run *q = ask(&plain, "{\n  \"count\": 1,\n  \"label\": \"\xc3\xa9\", oops\n}");
    ck_assert_ptr_nonnull(strstr(q->err.fault[0].allowed, "line 3, column 17"));
    end(q);
    char deep[80] = "{\"table\":";
    memset(deep + 9, '[', 32);
    q = ask(&plain, deep);
    ck_assert_int_eq(q->st, PE_LIMIT);
    end(q);
    deep[9 + 31] = 0; /* 32 levels in all: only the syntax is wrong */
    q = ask(&plain, deep);
    ck_assert_int_eq(q->st, PE_INVALID);
    end(q);
    q = good(&plain, "{\"label\":\"[[[[[[[[[[[[[[[[[[[[\"}");
    end(q);
}
END_TEST

START_TEST(all_faults)
{
    run *q = ask(&plain, "{\"count\":1.5,\"flag\":3,\"wurd\":1,\"table\":[1,[2]],\"scale\":2}");
    ck_assert_uint_eq(q->err.n, 4);
    ck_assert(q->p.scale == 2);
    end(q);
    char many[3000] = "{\"a\":1";
    for (int i = 0; i < 200; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",\"x%d\":1", i);
    strcat(many, "}");
    q = ask(&plain, many);
    ck_assert_uint_eq(q->err.n, PE_MAX_FAULTS);
    end(q);
}
END_TEST

START_TEST(graphs)
{
    run *q = good(&graphic, "{\"graph\":{\"num_nodes\":4,\"edge_index\":[[0,1,2],[1,2,0]],\"edge_weight\":[1,2,0.5],"
                            "\"directed\":true,\"ptr\":null},\"count\":2}");
    ck_assert_ptr_nonnull(q->r.graph);
    ck_assert_int_eq(posenc_graph_nodes(q->r.graph), 4);
    ck_assert_int_eq(posenc_graph_edges(q->r.graph), 3);
    ck_assert(q->r.graph->directed && q->r.graph->weighted);
    end(q);
    q = good(&graphic, "{\"graph\":{\"edge_index\":[[0,2],[1,3]],\"ptr\":[0,2,5]}}");
    ck_assert_int_eq(posenc_graph_nodes(q->r.graph), 5);
    ck_assert_int_eq(posenc_graph_count(q->r.graph), 2);
    end(q);
    q = good(&graphic, "{\"graph\":{\"num_nodes\":3,\"edge_index\":[[],[]]}}");
    ck_assert_int_eq(posenc_graph_edges(q->r.graph), 0);
    end(q);
}
END_TEST

START_TEST(graphs_refused)
{
    static const struct {
        const char *graph;
        posenc_status st;
        const char *field, *reason;
    } cases[] = {
        { "\"sha256-00\"", PE_NOT_FOUND, "graph", "GRAPH_NOT_FOUND" },
        { "[]", PE_INVALID, "graph", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2}", PE_INVALID, "graph.edge_index", "MISSING_PARAMETER" },
        { "{\"edge_index\":[[0],[1]]}", PE_INVALID, "graph.num_nodes", "MISSING_PARAMETER" },
        { "{\"num_nodes\":-1,\"edge_index\":[[0],[1]]}", PE_INVALID, "graph.num_nodes", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2.5,\"edge_index\":[[0],[1]]}", PE_INVALID, "graph.num_nodes", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1,1]]}", PE_INVALID, "graph.edge_index", "INVALID_SHAPE" },
        { "{\"num_nodes\":2,\"edge_index\":[[0]]}", PE_INVALID, "graph.edge_index", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1],[1]]}", PE_INVALID, "graph.edge_index", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[0,1]}", PE_INVALID, "graph.edge_index[0]", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0,1],[1,0.5]]}", PE_INVALID, "graph.edge_index[1][1]", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0,\"1\"],[1,0]]}", PE_INVALID, "graph.edge_index[0][1]", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0,1],[1,7]]}", PE_INVALID, "graph.edge_index[1][1]", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1]],\"edge_weight\":[1,2]}", PE_INVALID, "graph.edge_weight",
          "INVALID_SHAPE" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1]],\"edge_weight\":3}", PE_INVALID, "graph.edge_weight",
          "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1]],\"directed\":0}", PE_INVALID, "graph.directed", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1]],\"ptr\":[0]}", PE_INVALID, "graph.ptr", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1]],\"ptr\":[]}", PE_INVALID, "graph.ptr", "INVALID_PARAMETER" },
        { "{\"num_nodes\":2,\"edge_index\":[[0],[1]],\"num_node\":2}", PE_INVALID, "graph.num_node", "UNKNOWN_PARAMETER" },
        { "{\"num_nodes\":null,\"edge_index\":[[0],[1]],\"num_nodes\":2}", PE_INVALID, "graph.num_nodes",
          "DUPLICATE_PARAMETER" },
    };
    char json[300];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(json, sizeof json, "{\"graph\":%s}", cases[i].graph);
        run *q = ask(&graphic, json);
        char text[1000];
        posenc_error_text(&q->err, text, sizeof text);
        ck_assert_msg(q->st == cases[i].st && q->err.n == 1 && !strcmp(q->err.fault[0].field, cases[i].field) &&
                          !strcmp(q->err.fault[0].reason, cases[i].reason),
                      "%s: %s", json, text);
        ck_assert_ptr_null(q->r.graph);
        end(q);
    }
}
END_TEST

/* No prefix of a body does harm, nor any byte changed. */
START_TEST(mangled)
{
    static const char json[] =
        "{\"count\":12,\"scale\":1.5e3,\"positions\":[1,-2.5],\"word\":\"beta\",\"label\":\"a\\u00e9\\n\","
        "\"table\":[[true],[false]],\"graph\":{\"num_nodes\":2,\"edge_index\":[[0],[1]]}}";
    char copy[sizeof json];
    for (size_t n = 0; n < sizeof json - 1; n++) {
        run *q = ask_bytes(&graphic, json, n);
        ck_assert_int_ne(q->st, PE_OK);
        end(q);
    }
    for (size_t i = 0; i < sizeof json - 1; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, json, sizeof json);
            copy[i] = (char)(copy[i] ^ 1 << bit);
            end(ask_bytes(&graphic, copy, sizeof json - 1));
        }
}
END_TEST

START_TEST(binary_bodies)
{
    int64_t wide[2][2] = { { 0, 1 }, { 1, 2 } };
    int32_t narrow[4] = { 0, 1, 1, 2 };
    int64_t ptr[2] = { 0, 3 };
    float weight[2] = { 0.5f, 2 };
    double list[2] = { -0.0, 7 };
    int64_t beyond[1] = { 9007199254740993 };
    posenc_tensor t[] = {
        { "edge_index", PE_int64, 2, { 2, 2 }, wide },
        { "edge_weight", PE_float32, 1, { 2 }, weight },
        { "ptr", PE_int64, 1, { 2 }, ptr },
        { "table", PE_float32, 1, { 2 }, weight },
        { "positions", PE_float64, 1, { 2 }, list },
    };
    run *q = begin(&graphic);
    ck_assert_int_eq(posenc_request_tensors(&q->r, t, 5, -1, true, &q->err), PE_OK);
    ck_assert_int_eq(posenc_graph_nodes(q->r.graph), 3);
    ck_assert(q->r.graph->directed && q->r.graph->weighted && posenc_graph_batched(q->r.graph));
    ck_assert(q->p.table.data == weight);
    ck_assert(q->p.positions.n == 2 && q->p.positions.v[1] == 7 && !signbit(q->p.positions.v[0]));
    end(q);
    q = begin(&graphic);
    posenc_tensor small = { "edge_index", PE_int32, 2, { 2, 2 }, narrow };
    ck_assert_int_eq(posenc_request_tensors(&q->r, &small, 1, 4, false, &q->err), PE_OK);
    ck_assert_int_eq(posenc_graph_nodes(q->r.graph), 4);
    end(q);

    int16_t narrowest[4] = { 0, 1, 1, 2 };
    q = begin(&graphic);
    small = (posenc_tensor){ "edge_index", PE_int16, 2, { 2, 2 }, narrowest };
    ck_assert_int_eq(posenc_request_tensors(&q->r, &small, 1, 4, false, &q->err), PE_OK);
    ck_assert_int_eq(posenc_graph_edges(q->r.graph), 2);
    end(q);
    small = (posenc_tensor){ "edge_index", PE_int32, 2, { 2, 2 }, narrow };

    static const struct {
        const char *field, *reason;
    } want[] = { { "num_nodes", "MISSING_PARAMETER" },    { "edge_index", "INVALID_SHAPE" },
                 { "edge_index", "MISSING_PARAMETER" },   { "edge_weight", "INVALID_SHAPE" },
                 { "count", "INVALID_PARAMETER" },        { "positionz", "UNKNOWN_PARAMETER" },
                 { "positions[0]", "INVALID_PARAMETER" }, { "positions", "INVALID_SHAPE" } };
    posenc_tensor bad[][2] = {
        { small },
        { { "edge_index", PE_int32, 1, { 4 }, narrow } },
        { t[1] },
        { small, { "edge_weight", PE_float32, 1, { 1 }, weight } },
        { { "count", PE_int64, 0, { 0 }, ptr } },
        { { "positionz", PE_int64, 1, { 2 }, ptr } },
        { { "positions", PE_int64, 1, { 1 }, beyond } },
        { { "positions", PE_int64, 2, { 2, 2 }, wide } },
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        q = begin(&graphic);
        q->st = posenc_request_tensors(&q->r, bad[i], bad[i][1].name ? 2 : 1, i == 3 ? 3 : -1, false, &q->err);
        ck_assert_int_eq(q->st, PE_INVALID);
        ck_assert_uint_eq(q->err.n, 1);
        ck_assert_str_eq(q->err.fault[0].field, want[i].field);
        ck_assert_str_eq(q->err.fault[0].reason, want[i].reason);
        end(q);
    }
    q = begin(&plain);
    ck_assert_int_eq(posenc_request_tensors(&q->r, t, 1, 3, false, &q->err), PE_INVALID);
    ck_assert_str_eq(q->err.fault[0].field, "edge_index");
    ck_assert_str_eq(q->err.fault[1].field, "num_nodes");
    end(q);
}
END_TEST

Suite *read_json_suite(void)
{
    Suite *s = suite_create("read_json");
    TCase *t = tcase_create("json");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_kind);
    tcase_add_test(t, absent);
    tcase_add_test(t, numbers);
    tcase_add_test(t, tensors);
    tcase_add_test(t, refused);
    tcase_add_test(t, places);
    tcase_add_test(t, all_faults);
    tcase_add_test(t, graphs);
    tcase_add_test(t, graphs_refused);
    tcase_add_test(t, mangled);
    suite_add_tcase(s, t);
    t = tcase_create("binary");
    tcase_add_test(t, binary_bodies);
    suite_add_tcase(s, t);
    return s;
}
