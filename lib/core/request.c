/* request.c - from names and values to a resolved request: shapes, cost, key, digest. */
#include "core/digest.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const real_dtypes[] = { "float32", "float64", "float16", "bfloat16", NULL }; /* as posenc_dtype */

static const posenc_param common_rows[] = {
    { PE_ENUM(posenc_common, dtype), .names = real_dtypes, .def = PE_float32, .doc = "element type of real outputs" },
    { PE_INT(posenc_common, rev), .flags = PE_OPTIONAL, .min = 1, .max = 1e6,
      .doc = "pins the revision of the algorithm; only the current one is computed" },
};
const posenc_table posenc_common_table = { common_rows, PE_LEN(common_rows), sizeof(posenc_common) };

/* ---- growing text in the arena ---- */

typedef struct text {
    posenc_arena *arena;
    char *s;
    size_t n, cap; /* cap 0 and s NULL after a failure: everything later is dropped */
    bool failed;
} text;

static void put(text *t, const char *format, ...) POSENC_PRINTF(2, 3);
static void put(text *t, const char *format, ...)
{
    for (;;) {
        va_list ap;
        va_start(ap, format);
        int k = t->failed ? 0 : vsnprintf(t->s ? t->s + t->n : NULL, t->cap - t->n, format, ap);
        va_end(ap);
        if (t->failed || (t->s && (size_t)k < t->cap - t->n)) {
            t->n += (size_t)k;
            return;
        }
        size_t cap = (t->cap + (size_t)k + 128) * 2;
        char *s = posenc_alloc(t->arena, cap);
        if (!s) {
            t->failed = true;
            continue;
        }
        if (t->n)
            memcpy(s, t->s, t->n);
        t->s = s;
        t->cap = cap;
    }
}

/* Lists longer than this, and tensors, stand in the key by their SHA-256. */
enum { INLINE = 64, MAX_ROWS = 64 };

/* A row's SHA-256 in hex: made for the key, used again for the JSON; a tensor may be large. */
typedef struct hashes {
    char hex[MAX_ROWS][65]; /* "": not made yet */
} hashes;

static void put_hash(text *t, const void *data, size_t size, char hex[65])
{
    pe_digest d;
    if (!*hex && !pe_hash(data, size, &d)) {
        t->failed = true;
        return;
    }
    if (!*hex)
        pe_hex(&d, hex);
    put(t, "sha256-%s", hex);
}

/* Integers are hashed as int64: the width that a client sent them in is no part of the request. */
static void put_tensor(text *t, const posenc_tensor *v, char hex[65])
{
    int64_t n = posenc_tensor_count(v), *wide = NULL;
    const bool narrow = v->dtype == PE_int32 || v->dtype == PE_uint8 || v->dtype == PE_int16;
    if (narrow && !*hex && !(wide = malloc((size_t)(n ? n : 1) * sizeof *wide))) {
        t->failed = true;
        return;
    }
    for (int64_t i = 0; wide && i < n; i++)
        wide[i] = (int64_t)posenc_tensor_get(v, i);
    put(t, "%s[", posenc_dtype_name(narrow ? PE_int64 : v->dtype));
    for (int i = 0; i < v->rank; i++)
        put(t, "%s%lld", i ? "," : "", (long long)v->shape[i]);
    put(t, "]:");
    put_hash(t, narrow ? (const void *)wide : v->data, narrow ? (size_t)n * sizeof *wide : posenc_tensor_size(v), hex);
    free(wide);
}

static bool in_key(const posenc_table *t, const posenc_param *r, const void *params)
{
    return posenc_applies(t, r, params) && (!(r->flags & PE_OPTIONAL) || posenc_was_given(t, r, params)) &&
           (r->kind != PE_T_TENSOR || ((const posenc_tensor *)((const char *)params + r->offset))->data) &&
           (r->kind != PE_T_REALS || posenc_was_given(t, r, params)) &&
           (r->kind != PE_T_TEXT || *(const char *const *)((const char *)params + r->offset));
}

static void put_hex(text *t, double v)
{
    char hex[PE_NUMBER_TEXT];
    pe_hex_text(v, hex);
    put(t, "%s", isnan(v) ? "nan" : hex);
}

static void put_words(text *t, const posenc_param *r, uint64_t set, const char *quote)
{
    bool first = true;
    for (size_t i = 0; r->names[i]; i++)
        if (set >> i & 1) {
            put(t, "%s%s%s%s", first ? "" : ",", quote, r->names[i], quote);
            first = false;
        }
}

/* " name=value" of every row that applies: numbers in hex, exact; the reader of queries parses it back. */
static void put_key(text *t, const posenc_table *table, const void *params, hashes *made)
{
    for (size_t i = 0; i < table->nrows; i++) {
        const posenc_param *r = &table->rows[i];
        const void *p = (const char *)params + r->offset;
        if (!in_key(table, r, params))
            continue;
        put(t, " %s=", r->name);
        switch ((posenc_kind)r->kind) {
        case PE_T_INT: put(t, "%lld", (long long)*(const int64_t *)p); break;
        case PE_T_REAL: put_hex(t, *(const double *)p); break;
        case PE_T_BOOL: put(t, "%s", *(const bool *)p ? "true" : "false"); break;
        case PE_T_ENUM: put(t, "%s", r->names[*(const int *)p]); break;
        case PE_T_TEXT: put(t, "%s", *(const char *const *)p); break;
        case PE_T_WORDS: put_words(t, r, *(const uint64_t *)p, ""); break;
        case PE_T_TENSOR: put_tensor(t, p, made->hex[i]); break;
        case PE_T_REALS: {
            const posenc_reals *l = p;
            if (l->n > INLINE) {
                put(t, "@%zu:", l->n);
                put_hash(t, l->v, l->n * sizeof *l->v, made->hex[i]);
            } else {
                for (size_t k = 0; k < l->n; k++) {
                    put(t, "%s", k ? "," : "");
                    put_hex(t, l->v[k]);
                }
            }
            break;
        }
        }
    }
}

static void put_real(text *t, double v)
{
    char number[PE_NUMBER_TEXT];
    const posenc_tensor one = { .dtype = PE_float64, .data = &v };
    if (isnan(v))
        put(t, "\"nan\"");
    else
        put(t, "%.*s", (int)pe_number_text(&one, 0, number), number);
}

static void put_json(text *t, const posenc_table *table, const void *params, hashes *made)
{
    for (size_t i = 0; i < table->nrows; i++) {
        const posenc_param *r = &table->rows[i];
        const void *p = (const char *)params + r->offset;
        if (!in_key(table, r, params))
            continue;
        put(t, "%s\"%s\":", t->n > 1 ? "," : "", r->name);
        switch ((posenc_kind)r->kind) {
        case PE_T_INT: put(t, "%lld", (long long)*(const int64_t *)p); break;
        case PE_T_REAL: put_real(t, *(const double *)p); break;
        case PE_T_BOOL: put(t, "%s", *(const bool *)p ? "true" : "false"); break;
        case PE_T_ENUM: put(t, "\"%s\"", r->names[*(const int *)p]); break;
        case PE_T_WORDS:
            put(t, "[");
            put_words(t, r, *(const uint64_t *)p, "\"");
            put(t, "]");
            break;
        case PE_T_TEXT: /* printable, no space: only these two need care */
            put(t, "\"");
            for (const char *s = *(const char *const *)p; *s; s++)
                put(t, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
            put(t, "\"");
            break;
        case PE_T_TENSOR:
            put(t, "\"");
            put_tensor(t, p, made->hex[i]);
            put(t, "\"");
            break;
        case PE_T_REALS: {
            const posenc_reals *l = p;
            if (l->n > INLINE) {
                put(t, "\"@%zu:", l->n);
                put_hash(t, l->v, l->n * sizeof *l->v, made->hex[i]);
                put(t, "\"");
            } else {
                put(t, "[");
                for (size_t k = 0; k < l->n; k++) {
                    put(t, "%s", k ? "," : "");
                    put_real(t, l->v[k]);
                }
                put(t, "]");
            }
            break;
        }
        }
    }
}

/* ---- the request ---- */

posenc_status posenc_request_init(posenc_request *r, const char *encoding, posenc_arena *a, posenc_error *err)
{
    *r = (posenc_request){ .encoding = posenc_encoding_named(encoding), .arena = a };
    if (!r->encoding)
        return posenc_unknown_encoding(encoding, err);
    r->params = posenc_alloc(a, r->encoding->table.size);
    if (!r->params) {
        r->encoding = NULL; /* nothing may go on with half a request */
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more memory for one request, or try again");
    }
    posenc_defaults(&r->encoding->table, r->params);
    posenc_defaults(&posenc_common_table, &r->common);
    return PE_OK;
}

static posenc_status describe(posenc_request *r, posenc_error *err)
{
    const posenc_encoding *e = r->encoding;
    text key = { .arena = r->arena }, json = { .arena = r->arena };
    hashes made;
    for (int i = 0; i < MAX_ROWS; i++)
        made.hex[i][0] = 0;
    put(&key, "%s/%d dtype=%s", e->name, e->revision, real_dtypes[r->common.dtype]);
    put_key(&key, &e->table, r->params, &made);
    put(&json, "{");
    put_json(&json, &e->table, r->params, &made);
    put(&json, "%s\"dtype\":\"%s\"", json.n > 1 ? "," : "", real_dtypes[r->common.dtype]);
    const char *graph = NULL;
    posenc_status st = r->graph ? pe_graph_identify(r->graph, &graph, r->ctx, err) : PE_OK;
    if (st)
        return st;
    if (graph) {
        put(&key, " graph=%s", graph);
        put(&json, ",\"graph\":\"%s\"", graph);
    }
    if (r->of) {
        put(&key, " of=%s", r->of->key);
        put(&json, ",\"of\":{\"encoding\":\"%s\",\"revision\":%d,\"params\":%s}", r->of->encoding->name,
            r->of->encoding->revision, r->of->params_json);
    }
    put(&json, "}");
    pe_digest d;
    if (key.failed || json.failed || !pe_hash(key.s, key.n, &d))
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "a smaller request, or try again");
    r->key = key.s;
    r->params_json = json.s;
    pe_hex(&d, r->digest);
    return PE_OK;
}

posenc_status posenc_request_check(posenc_request *r, posenc_error *err)
{
    const posenc_encoding *e = r->encoding;
    posenc_error local = { 0 };
    if (!err)
        err = &local;
    r->key = r->params_json = NULL;
    r->digest[0] = 0;
    if (r->of)
        posenc_request_check(r->of, err);
    posenc_finish(&e->table, r->params, err);
    if (r->common.rev && r->common.rev != e->revision)
        posenc_fail(err, PE_NOT_FOUND, "REVISION_GONE", "rev", posenc_text("%lld", (long long)r->common.rev).s,
                    "%d, the current revision of %s", e->revision, e->name);
    if (e->input == PE_GRAPH && !r->graph && !err->n)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "graph", "absent",
                    "a graph, it is required: {num_nodes, edge_index, ...}, or the tensors edge_index, edge_weight, ptr");
    if (!err->n)
        e->check(r, err);
    if (err->n)
        return err->status;
    posenc_status st = e->shape(r, &r->shape, err);
    if (st)
        return st;
    uint64_t size = 0;
    for (int i = 0; i < r->shape.ntensors; i++)
        if (__builtin_add_overflow(size, posenc_tensor_size(&r->shape.tensor[i]), &size))
            return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "result", "over 2^64 bytes", "a smaller result");
    r->size = size;
    if (size)
        e->cost(r, &r->cost);
    return PE_OK;
}

/* A stop reported by a poll deep inside has no fault yet. */
static posenc_status tell_stop(posenc_status st, posenc_error *err)
{
    if (st && err && !err->n)
        posenc_fail(err, st, posenc_status_name(st), "request", "", "%s", posenc_status_meaning(st));
    return st;
}

posenc_status posenc_resolve(posenc_request *r, posenc_error *err)
{
    posenc_status st = posenc_request_check(r, err);
    if (!st && r->of)
        st = describe(r->of, err);
    if (!st)
        st = describe(r, err);
    return tell_stop(st, err);
}

posenc_status posenc_poll(const posenc_context *ctx) { return ctx && ctx->stop ? ctx->stop(ctx->user) : PE_OK; }

posenc_status posenc_compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    posenc_status st = posenc_poll(ctx);
    if (st)
        return posenc_fail(err, st, posenc_status_name(st), "request", "", "%s", posenc_status_meaning(st));
    if (ctx && ctx->memory_limit && r->cost.scratch > ctx->memory_limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "memory",
                           posenc_text("%llu bytes", (unsigned long long)r->cost.scratch).s,
                           "at most %llu bytes of scratch memory for one request", (unsigned long long)ctx->memory_limit);
    /* nothing to fill: no loop need care that one axis may be 2^40 long where another is 0 */
    st = r->size ? r->encoding->compute(r, out, ctx, err) : PE_OK;
    return tell_stop(st, err);
}

/* ---- one call ---- */

static size_t round_up(uint64_t n) { return (size_t)((n + 63) & ~(uint64_t)63); }

posenc_status posenc_encode(const char *encoding, const char *query, const posenc_edges *edges, posenc_answer *a,
                            posenc_context *ctx, posenc_error *err)
{
    posenc_status st;
    posenc_error local = { 0 };
    if (!err)
        err = &local;
    *a = (posenc_answer){ .arena = posenc_arena_new(SIZE_MAX / 8) };
    if (!a->arena)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    posenc_request *r = &a->request;
    if ((st = posenc_request_init(r, encoding, a->arena, err)))
        goto fail;
    posenc_request_parse(r, query ? query : "", err);
    if (edges && r->encoding->input != PE_GRAPH) {
        st = posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", "graph", "given", "no graph: %s takes none", encoding);
        goto fail;
    }
    r->ctx = ctx;
    if (edges && (st = posenc_graph_build_watched(edges, a->arena, &r->graph, ctx, err)))
        goto fail;
    if ((st = posenc_resolve(r, err)))
        goto fail;
    size_t total = 0;
    for (int i = 0; i < r->shape.ntensors; i++)
        total += round_up(posenc_tensor_size(&r->shape.tensor[i]));
    a->memory = r->size < SIZE_MAX / 4 ? pe_result_memory(total ? total : 64) : NULL;
    if (!a->memory) {
        st = posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", posenc_text("%llu bytes", (unsigned long long)r->size).s,
                         "a smaller result, or more memory");
        goto fail;
    }
    a->result = r->shape;
    char *p = a->memory;
    for (int i = 0; i < a->result.ntensors; i++) {
        a->result.tensor[i].data = p;
        p += round_up(posenc_tensor_size(&a->result.tensor[i]));
    }
    if (!(st = posenc_compute(r, &a->result, ctx, err)))
        return PE_OK;
fail:
    posenc_answer_fini(a);
    return st;
}

void posenc_answer_fini(posenc_answer *a)
{
    posenc_arena_free(a->arena);
    free(a->memory);
    *a = (posenc_answer){ 0 };
}
