/* ask.h - what tests of encodings share: a request in words, its answer, what it refuses. */
#ifndef TESTS_ASK_H
#define TESTS_ASK_H

#include "posenc.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof(a)[0])

/* ---- answers: of valid requests; each ends with posenc_answer_fini ---- */

static inline posenc_answer ask(const char *encoding, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(posenc_encode(encoding, query, NULL, &a, NULL, &err) == PE_OK, "%s %.500s: %s", encoding, query,
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

/* The same of a JSON body, which can say what a query cannot: empty lists, tensors of any dtype. */
static inline posenc_answer ask_json(const char *encoding, const char *json)
{
    posenc_answer a = { .arena = posenc_arena_new(1 << 26) };
    posenc_error err = { 0 };
    char text[1000];
    posenc_request_init(&a.request, encoding, a.arena, &err);
    posenc_request_json(&a.request, json, strlen(json), &err);
    if (!err.n && !posenc_resolve(&a.request, &err)) {
        a.result = a.request.shape;
        for (int i = 0; i < a.result.ntensors; i++)
            a.result.tensor[i].data = posenc_alloc(a.arena, posenc_tensor_size(&a.result.tensor[i]) + 1);
        posenc_compute(&a.request, &a.result, NULL, &err);
    }
    ck_assert_msg(!err.n, "%s %.500s: %s", encoding, json, posenc_error_text(&err, text, sizeof text));
    return a;
}

/* NULL: none of that name. */
static inline const posenc_tensor *tensor_of(const posenc_answer *a, const char *name)
{
    for (int i = 0; i < a->result.ntensors; i++)
        if (!strcmp(a->result.tensor[i].name, name))
            return &a->result.tensor[i];
    return NULL;
}

/* Element i of the first tensor, of tensor number t, of the tensor of that name. */
static inline double at(const posenc_answer *a, int64_t i) { return posenc_tensor_get(&a->result.tensor[0], i); }
static inline double nth(const posenc_answer *a, int t, int64_t i) { return posenc_tensor_get(&a->result.tensor[t], i); }
static inline double named(const posenc_answer *a, const char *name, int64_t i)
{
    const posenc_tensor *t = tensor_of(a, name);
    ck_assert_msg(t && i < posenc_tensor_count(t), "no %s[%d]", name, (int)i);
    return posenc_tensor_get(t, i);
}

/* A tensor of one or two axes as nested arrays of numbers that read back as they are; for queries. */
static inline char *put_tensor(char *to, char *end, const posenc_tensor *t)
{
    const int64_t rows = t->rank == 2 ? t->shape[0] : 1, columns = t->shape[t->rank - 1];
    for (int64_t i = 0; i < rows; i++) {
        to += snprintf(to, (size_t)(end - to), "%s", t->rank == 1 ? "[" : i ? ",[" : "[[");
        for (int64_t k = 0; k < columns; k++)
            to += snprintf(to, (size_t)(end - to), "%s%.17g", k ? "," : "", posenc_tensor_get(t, i * columns + k));
        to += snprintf(to, (size_t)(end - to), "]");
    }
    to += snprintf(to, (size_t)(end - to), "%s", t->rank == 2 ? "]" : "");
    ck_assert(to < end - 1);
    return to;
}

/* ---- what an answer must be ---- */

static inline void expect_shape(const posenc_tensor *t, int rank, const int64_t *shape)
{
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], shape[i]);
}

/* A tensor's shape and, in order, its values. */
static inline void expect(const posenc_answer *a, int tensor, int rank, const int64_t *shape, const double *values)
{
    const posenc_tensor *t = &a->result.tensor[tensor];
    ck_assert_int_lt(tensor, a->result.ntensors);
    expect_shape(t, rank, shape);
    for (int64_t i = 0; i < posenc_tensor_count(t); i++)
        ck_assert_msg(posenc_tensor_get(t, i) == values[i], "%s[%d] is %.17g, want %.17g", t->name, (int)i,
                      posenc_tensor_get(t, i), values[i]);
}

/* Two queries are one request: the same key, digest and tensors. */
static inline void expect_same(const char *encoding, const char *one, const char *other)
{
    posenc_answer a = ask(encoding, one), b = ask(encoding, other);
    ck_assert_msg(!strcmp(a.request.key, b.request.key), "%s and %s", a.request.key, b.request.key);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    for (int i = 0; i < a.result.ntensors; i++)
        ck_assert_mem_eq(a.result.tensor[i].data, b.result.tensor[i].data, posenc_tensor_size(&a.result.tensor[i]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}

/* What the key says is a request with the same key. Not with tensors, which stand in it by their digest. */
static inline void expect_key(const char *encoding, const char *query)
{
    posenc_answer a = ask(encoding, query);
    expect_same(encoding, query, strchr(a.request.key, ' ') + 1);
    posenc_answer_fini(&a);
}

/* ---- what is refused ---- */

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* a table says what matters of each */
typedef struct refusal {
    const char *query;
    const char *fields;   /* at fault, in the order of the faults, separated by spaces */
    const char *says;     /* words of what the first of them admits; NULL: any */
    posenc_status status; /* 0: INVALID */
} refusal;

static inline void refuses(const char *encoding, const refusal *c)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char fields[1000] = "", text[2000];
    posenc_status st = posenc_encode(encoding, c->query, NULL, &a, NULL, &err);
    for (unsigned i = 0; i < err.n; i++)
        snprintf(fields + strlen(fields), sizeof fields - strlen(fields), "%s%s", i ? " " : "", err.fault[i].field);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == (c->status ? c->status : PE_INVALID), "%s %s: %s %s", encoding, c->query, posenc_status_name(st),
                  text);
    ck_assert_msg(!strcmp(fields, c->fields), "%s %s: faults of '%s', want '%s'", encoding, c->query, fields, c->fields);
    ck_assert_msg(!c->says || strstr(err.fault[0].allowed, c->says), "%s %s: %s", encoding, c->query, text);
    for (unsigned i = 0; i < err.n; i++)
        ck_assert_msg(err.fault[i].value[0] && err.fault[i].allowed[0], "%s %s: %s", encoding, c->query, text);
    ck_assert_ptr_null(a.arena);
}

static inline posenc_status stop_at_third(void *user) { return ++*(int *)user > 3 ? PE_DEADLINE : PE_OK; }

/* A long computation ends when its context says so. */
static inline void expect_stop(const char *encoding, const char *query)
{
    int polls = 0;
    posenc_answer a;
    posenc_error err = { 0 };
    posenc_context ctx = { .stop = stop_at_third, .user = &polls };
    ck_assert_msg(posenc_encode(encoding, query, NULL, &a, &ctx, &err) == PE_DEADLINE, "%s %s", encoding, query);
    ck_assert_uint_eq(err.n, 1);
}

#endif
