/* one_call.h - what tests of encodings share: a request in words, its answer, what it refuses. */
#ifndef ONE_CALL_H
#define ONE_CALL_H

#include "posenc.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof(a)[0])

/* The answer to a query, which must be a valid one. Ends with posenc_answer_fini. */
static inline posenc_answer ask(const char *encoding, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(posenc_encode(encoding, query, NULL, &a, NULL, &err) == PE_OK, "%s %s: %s", encoding, query,
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
    ck_assert_msg(!err.n, "%s %s: %s", encoding, json, posenc_error_text(&err, text, sizeof text));
    return a;
}

static inline const posenc_tensor *tensor_of(const posenc_answer *a, const char *name)
{
    for (int i = 0; i < a->result.ntensors; i++)
        if (!strcmp(a->result.tensor[i].name, name))
            return &a->result.tensor[i];
    return NULL;
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

/* Element i of the first tensor. */
static inline double element(const posenc_answer *a, int64_t i) { return posenc_tensor_get(&a->result.tensor[0], i); }

static inline void expect_shape(const posenc_tensor *t, int rank, const int64_t *shape)
{
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], shape[i]);
}

/* A query that is refused: the field that the first fault names, and words of what would be right. */
typedef struct refusal {
    const char *query, *field, *says;
} refusal;

static inline void expect_refusal(const char *encoding, const refusal *b)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[2000];
    posenc_status st = posenc_encode(encoding, b->query, NULL, &a, NULL, &err);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == PE_INVALID || st == PE_LIMIT, "%s %s: %s", encoding, b->query, posenc_status_name(st));
    ck_assert_msg(!strcmp(err.fault[0].field, b->field), "%s %s: %s", encoding, b->query, text);
    ck_assert_msg(strstr(err.fault[0].allowed, b->says) != NULL, "%s %s: %s", encoding, b->query, text);
    ck_assert_ptr_null(a.arena);
}

/* What the key says is a request with the same key. Not with tensors, which stand in it by their digest. */
static inline void expect_key(const char *encoding, const char *query)
{
    posenc_answer a = ask(encoding, query), b = ask(encoding, strchr(a.request.key, ' ') + 1);
    ck_assert_str_eq(a.request.key, b.request.key);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}

/* Two spellings of one request: the same digest. */
static inline void expect_same(const char *encoding, const char *query, const char *other)
{
    posenc_answer a = ask(encoding, query), b = ask(encoding, other);
    ck_assert_msg(!strcmp(a.request.digest, b.request.digest), "%s and %s", a.request.key, b.request.key);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
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
