/* encode.h - one call, for tests of encodings: from a query to values or to the field that is refused. */
#ifndef TESTS_ENCODE_H
#define TESTS_ENCODE_H

#include "posenc.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof(a)[0])

static inline posenc_answer answer_of(const char *encoding, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(posenc_encode(encoding, query, NULL, &a, NULL, &err) == PE_OK, "%s %s: %s", encoding, query,
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

static inline double element(const posenc_answer *a, int tensor, int64_t i)
{
    return posenc_tensor_get(&a->result.tensor[tensor], i);
}

/* A tensor's shape and, in order, its values. */
static inline void expect(const posenc_answer *a, int tensor, int rank, const int64_t *shape, const double *values)
{
    const posenc_tensor *t = &a->result.tensor[tensor];
    ck_assert_int_lt(tensor, a->result.ntensors);
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], shape[i]);
    for (int64_t i = 0; i < posenc_tensor_count(t); i++)
        ck_assert_msg(posenc_tensor_get(t, i) == values[i], "%s[%d] is %.17g, want %.17g", t->name, (int)i,
                      posenc_tensor_get(t, i), values[i]);
}

/* Two queries are one request: the same digest, the same tensors. */
static inline void expect_same(const char *encoding, const char *one, const char *other)
{
    posenc_answer a = answer_of(encoding, one), b = answer_of(encoding, other);
    ck_assert_msg(!strcmp(a.request.key, b.request.key), "%s: %s and %s", encoding, a.request.key, b.request.key);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    for (int i = 0; i < a.result.ntensors; i++)
        ck_assert_mem_eq(a.result.tensor[i].data, b.result.tensor[i].data, posenc_tensor_size(&a.result.tensor[i]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}

/* What is refused: the fields at fault, separated by spaces, in the order of the faults. */
typedef struct refusal {
    const char *query, *fields;
    posenc_status status; /* 0: INVALID */
} refusal;

static inline void expect_refusal(const char *encoding, const refusal *c)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char fields[1000] = "", text[1000];
    posenc_status st = posenc_encode(encoding, c->query, NULL, &a, NULL, &err);
    for (unsigned i = 0; i < err.n; i++)
        snprintf(fields + strlen(fields), sizeof fields - strlen(fields), "%s%s", i ? " " : "", err.fault[i].field);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == (c->status ? c->status : PE_INVALID), "%s %s: %s %s", encoding, c->query, posenc_status_name(st),
                  text);
    ck_assert_msg(!strcmp(fields, c->fields), "%s %s: faults of '%s', want '%s'", encoding, c->query, fields, c->fields);
    for (unsigned i = 0; i < err.n; i++)
        ck_assert_msg(err.fault[i].value[0] && err.fault[i].allowed[0], "%s %s: %s", encoding, c->query, text);
}

#endif
