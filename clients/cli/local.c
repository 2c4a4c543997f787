#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *output_name(const void *list, size_t i) { return ((const posenc_result *)list)->tensor[i].name; }

static posenc_status select_tensor(const char *name, local *l, posenc_error *err)
{
    const posenc_result *r = &l->request.shape;
    for (int i = 0; i < r->ntensors; i++)
        if (!strcmp(r->tensor[i].name, name)) {
            l->selection.tensors = 1u << i;
            return PE_OK;
        }
    char names[160] = "";
    size_t used = 0;
    for (int i = 0; i < r->ntensors && used < sizeof names; i++) {
        int k = snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", r->tensor[i].name);
        used += k > 0 ? (size_t)k : 0;
    }
    const char *near = posenc_nearest(name, output_name, r, (size_t)r->ntensors);
    return posenc_fail(err, PE_NOT_FOUND, "UNKNOWN_TENSOR", "tensor", name, near ? "did you mean %s?" : "one of: %s",
                       near ? near : names);
}

posenc_status local_resolve(const order *o, const input *in, posenc_arena *a, local *l, posenc_context *ctx,
                            posenc_error *err)
{
    *l = (local){ .selection = o->selection };
    posenc_request *r = &l->request;
    const bool report = o->what == ANALYZE;
    posenc_status st = report ? posenc_report_init(r, o->report, o->encoding, a, err)
                              : posenc_request_init(r, o->encoding, a, err);
    if (st)
        return st;
    r->ctx = ctx;
    if (r->of)
        r->of->ctx = ctx;
    for (size_t i = 0; i < o->nparams; i++)
        posenc_request_set(r, o->params[i].name, o->params[i].value, strlen(o->params[i].value), err);
    if (report && o->tensor)
        posenc_request_set(r, "tensor", o->tensor, strlen(o->tensor), err);
    if (in->n || in->num_nodes >= 0)
        posenc_request_tensors(r, in->tensor, in->n, in->num_nodes, in->directed, err);
    if (err->status || posenc_resolve(r, err))
        return err->status;
    l->result = r->shape;
    return o->tensor && !report ? select_tensor(o->tensor, l, err) : PE_OK;
}

/* Where the length follows from shapes, writing without data finds the faults. */
posenc_status local_check(const local *l, posenc_format f, posenc_error *err)
{
    posenc_document d = { 0 };
    posenc_origin origin = local_origin(l);
    if (!posenc_format_sized(f))
        return PE_OK;
    posenc_status st = posenc_write(f, &origin, &l->result, &l->selection, &d, err);
    posenc_document_fini(&d);
    return st;
}

static uint64_t round_up(uint64_t n) { return (n + 63) & ~(uint64_t)63; }

posenc_status local_compute(local *l, posenc_context *ctx, posenc_error *err)
{
    uint64_t total = 64;
    for (int i = 0; i < l->result.ntensors; i++)
        total += round_up(posenc_tensor_size(&l->result.tensor[i]));
    char *p = l->request.size < SIZE_MAX / 4 ? aligned_alloc(64, (size_t)total) : NULL;
    l->memory = p;
    if (!p)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory",
                           posenc_text("%llu bytes", (unsigned long long)l->request.size).s,
                           "a smaller result, or more memory");
    for (int i = 0; i < l->result.ntensors; i++) {
        l->result.tensor[i].data = p;
        p += round_up(posenc_tensor_size(&l->result.tensor[i]));
    }
    return posenc_compute(&l->request, &l->result, ctx, err);
}

posenc_origin local_origin(const local *l)
{
    return (posenc_origin){ l->request.encoding, l->request.digest, l->request.params_json };
}

const char *local_explain(const local *l, posenc_arena *a, size_t *size)
{
    const posenc_request *r = &l->request;
    size_t cap = strlen(r->key) + strlen(r->params_json) + 1024 + PE_MAX_OUTPUTS * 512, n = 0;
    char *s = posenc_alloc(a, cap);
    if (!s)
        return NULL;
#define PUT(...) n += (size_t)snprintf(s + n, cap - n, __VA_ARGS__)
    PUT("{\"encoding\":\"%s\",\"revision\":%d,\"digest\":\"%s\",\"key\":\"", r->encoding->name, r->encoding->revision,
        r->digest);
    for (const char *k = r->key; *k && n + 1024 < cap; k++)
        PUT("%s%c", *k == '"' || *k == '\\' ? "\\" : "", *k);
    PUT("\",\"params\":%s,\"tensors\":{", r->params_json);
    for (int i = 0; i < r->shape.ntensors; i++) {
        const posenc_tensor *t = &r->shape.tensor[i];
        PUT("%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", t->name, posenc_dtype_name(t->dtype));
        for (int k = 0; k < t->rank; k++)
            PUT("%s%lld", k ? "," : "", (long long)t->shape[k]);
        PUT("],\"bytes\":%llu}", (unsigned long long)posenc_tensor_size(t));
    }
    PUT("},\"bytes\":%llu,\"cost\":{\"seconds\":%.9g,\"scratch_bytes\":%llu}}", (unsigned long long)r->size,
        r->cost.ns * 1e-9, (unsigned long long)r->cost.scratch);
#undef PUT
    *size = n;
    return s;
}

void local_fini(local *l)
{
    free(l->memory);
    *l = (local){ 0 };
}
