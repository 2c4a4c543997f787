/* resolve.c - Resolve: a model's configuration to the requests that its positions need. */
#include "grpc/call.h"
#include "grpc/reflect.h"

#include <grpc/slice.h>
#include <string.h>

enum { ARENA = 256 << 20 }; /* bytes of the configuration's tree and of the requests */

static void fill_request(const posenc_resolved *q, Posenc__V1__ResolvedRequest *m)
{
    posenc__v1__resolved_request__init(m);
    m->layer_type = WRITABLE(q->layer_type);
    m->n_layers = q->layer ? q->nlayers : 0;
    m->layers = (int64_t *)(uintptr_t)q->layer;
    m->encoding = WRITABLE(q->encoding);
    m->params_json = WRITABLE(q->params_json);
    m->needs_json = WRITABLE(q->needs_json);
    m->note = WRITABLE(q->note);
    m->has_complete = true;
    m->complete = q->complete;
}

/* False: no memory. */
static bool fill(const posenc_resolution *r, posenc_arena *a, Posenc__V1__ResolveResponse *m)
{
    Posenc__V1__ResolvedRequest *request = posenc_alloc(a, (r->nrequests + 1) * sizeof *request);
    Posenc__V1__UsedDefault *used = posenc_alloc(a, (r->ndefaults + 1) * sizeof *used);
    m->requests = posenc_alloc(a, (r->nrequests + 1) * sizeof *m->requests);
    m->defaults_used = posenc_alloc(a, (r->ndefaults + 1) * sizeof *m->defaults_used);
    m->warnings = posenc_alloc(a, (r->nwarnings + 1) * sizeof *m->warnings);
    if (!request || !used || !m->requests || !m->defaults_used || !m->warnings)
        return false;
    m->model_type = WRITABLE(r->model_type);
    for (size_t i = 0; i < r->nrequests; i++) {
        fill_request(&r->request[i], &request[i]);
        m->requests[m->n_requests++] = &request[i];
    }
    for (size_t i = 0; i < r->ndefaults; i++) {
        posenc__v1__used_default__init(&used[i]);
        used[i].path = WRITABLE(r->default_used[i].path);
        used[i].value_json = WRITABLE(r->default_used[i].value_json);
        m->defaults_used[m->n_defaults_used++] = &used[i];
    }
    for (size_t i = 0; i < r->nwarnings; i++)
        m->warnings[m->n_warnings++] = WRITABLE(r->warning[i]);
    return true;
}

/* The answer, or an error in `err`. */
static grpc_byte_buffer *resolve(pe_rpc *c, posenc_error *err)
{
    grpc_slice hold;
    size_t size;
    posenc_resolution found;
    Posenc__V1__ResolveResponse answer = POSENC__V1__RESOLVE_RESPONSE__INIT;
    grpc_byte_buffer *b = NULL;
    const void *bytes = pe_rpc_bytes(c->request, &hold, &size);
    posenc_arena *a = bytes ? posenc_arena_new(ARENA) : NULL;
    const Posenc__V1__ResolveRequest *m = NULL;
    if (!a)
        posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    else
        m = (Posenc__V1__ResolveRequest *)pe_reflect_unpack(&posenc__v1__resolve_request__descriptor, bytes, size, a, err);
    grpc_slice_unref(hold);
    if (m && !m->has_config_json)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "config_json", "absent", "the text of config.json");
    else if (m && !posenc_resolve_config((const char *)m->config_json.data, m->config_json.len, a, &found, err)) {
        if (fill(&found, a, &answer))
            b = pe_rpc_pack(&answer.base);
        else
            posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    }
    posenc_arena_free(a);
    return b;
}

static void answer(pe_rpc *c)
{
    posenc_error err = { 0 };
    grpc_byte_buffer *b = resolve(c, &err);
    pe_rpc_reply(c, b, err.n ? &err : NULL, 0);
}

void pe_resolve_begin(pe_rpc *c)
{
    enum { SMALL = 16 << 10 }; /* bytes of a configuration that is resolved on a poller */
    pe_rpc_read(c, SMALL, answer);
}
