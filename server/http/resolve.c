/* resolve.c - the path of a model's configuration: the requests that its positions need, or their tensors.
 *
 *   READ    the configuration is resolved, and for a container the tensors are computed      (but for small JSON: on the
 * pool) SEND    the answer
 *
 * The tensors are those of the requests that need nothing from the caller; each is named by its request's place in the JSON
 * answer and its own name, as in a batch: 0/inv_freq. They are small (frequencies, slopes, indices); what is large is left
 * out and named in a warning, because a route of its own computes and caches it. */
#include "http/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_CONFIG = 16 << 10, /* resolved on the door's thread */
    ARENA = 256 << 20,       /* bytes of the configuration's tree and of the requests */
};

typedef struct job {
    pe_exchange *x;
    posenc_arena *arena;
    posenc_resolution found;
    posenc_result all; /* of all requests */
    uint64_t reserved;
    char *warnings;
    size_t warnings_size;
} job;

static posenc_status no_memory(job *j)
{
    return posenc_fail(&j->x->error, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again, or a smaller configuration");
}

static void warn(job *j, const char *text)
{
    size_t n = strlen(text);
    char *longer = realloc(j->warnings, j->warnings_size + n + 2);
    if (!longer)
        return;
    memcpy(longer + j->warnings_size, text, n);
    memcpy(longer + j->warnings_size + n, "\n", 2);
    j->warnings = longer;
    j->warnings_size += n + 1;
}

/* ---- computing ---- */

static posenc_status stop(void *user)
{
    const pe_exchange *x = user;
    const int64_t most = pe_service_config(x->service)->deadline_ms * 1000000;
    const int64_t end = x->deadline_ns ? x->deadline_ns : x->begun_ns + most;
    return pe_now_ns() >= end ? PE_DEADLINE : PE_OK;
}

/* The tensors of request `i` into the list of all. */
static posenc_status compute(job *j, size_t i)
{
    pe_exchange *x = j->x;
    const posenc_resolved *q = &j->found.request[i];
    posenc_request r;
    posenc_context context = { .stop = stop, .user = x };
    bool large;
    posenc_status st = posenc_resolved_request(q, j->arena, &r, &large, &x->error);
    if (st)
        return st;
    if (large) {
        warn(j, posenc_text("%zu/ is left out: %.20s has %llu MB, ask its route", i, q->encoding,
                            (unsigned long long)(r.size >> 20))
                    .s);
        return PE_OK;
    }
    if (j->all.ntensors + r.shape.ntensors > PE_MAX_OUTPUTS)
        return posenc_fail(&x->error, PE_LIMIT, "LIMIT_EXCEEDED", "tensors", "",
                           "at most %d tensors in one container: ask for json, and each encoding's route", PE_MAX_OUTPUTS);
    const uint64_t room = r.size + r.cost.scratch + 64 * (uint64_t)r.shape.ntensors;
    if (!pe_cache_reserve(pe_service_cache(x->service), room))
        return no_memory(j);
    j->reserved += room;
    posenc_result out = r.shape;
    for (int k = 0; k < out.ntensors; k++)
        if (!(out.tensor[k].data = posenc_alloc(j->arena, (size_t)posenc_tensor_size(&out.tensor[k]) + 1)))
            return no_memory(j);
    if ((st = posenc_compute(&r, &out, &context, &x->error)))
        return st;
    for (int k = 0; k < out.ntensors; k++) {
        char name[96];
        int n = snprintf(name, sizeof name, "%zu/%s", i, out.tensor[k].name);
        posenc_tensor *t = &j->all.tensor[j->all.ntensors++];
        *t = out.tensor[k];
        if (!(t->name = posenc_strdup(j->arena, name, (size_t)n)))
            return no_memory(j);
    }
    return PE_OK;
}

/* One piece of memory: the container is small, and nothing else holds it. */
static posenc_status join(job *j, const posenc_document *d)
{
    pe_exchange *x = j->x;
    char *p = malloc((size_t)d->size + 1);
    if (!p)
        return no_memory(j);
    x->resolved = p;
    x->resolved_size = (size_t)d->size;
    for (size_t i = 0; i < d->npieces; i++) {
        memcpy(p, d->piece[i].data, (size_t)d->piece[i].size);
        p += d->piece[i].size;
    }
    return PE_OK;
}

static posenc_status write_tensors(job *j)
{
    pe_exchange *x = j->x;
    posenc_document d;
    posenc_status st = PE_OK;
    for (size_t i = 0; i < j->found.nrequests && !st; i++)
        if (j->found.request[i].complete)
            st = compute(j, i);
    if (st)
        return st;
    for (size_t i = 0; i < j->found.nwarnings; i++)
        warn(j, j->found.warning[i]);
    char *words = posenc_resolution_json(&j->found);
    if (!words)
        return no_memory(j);
    const posenc_origin origin = { .params_json = words };
    st = posenc_write(x->asked.format, &origin, &j->all, NULL, &d, &x->error);
    free(words);
    if (st)
        return st;
    st = join(j, &d);
    posenc_document_fini(&d);
    x->resolved_warnings = j->warnings;
    j->warnings = NULL;
    return st;
}

static void resolve(pe_exchange *x)
{
    job j = { .x = x, .arena = posenc_arena_new(ARENA) };
    if (!j.arena) {
        no_memory(&j);
        return;
    }
    if (!posenc_resolve_config(x->body ? x->body : "", x->body_size, j.arena, &j.found, &x->error)) {
        if (x->asked.format != PE_json)
            write_tensors(&j);
        else if (!(x->resolved = posenc_resolution_json(&j.found)))
            no_memory(&j);
        else
            x->resolved_size = strlen(x->resolved);
    }
    if (j.reserved)
        pe_cache_release(pe_service_cache(x->service), j.reserved);
    free(j.warnings);
    posenc_arena_free(j.arena);
}

/* ---- the handler ---- */

enum MHD_Result pe_run_resolve(pe_exchange *x)
{
    if (x->step == PE_READ) {
        const posenc_format f = x->asked.format;
        x->step = PE_SEND;
        if (f != PE_json && f != PE_npz && f != PE_safetensors)
            pe_refuse(x, 406, "INVALID_ARGUMENT", "UNKNOWN_CONTAINER", "ext", x->asked.ext,
                      "one of: json, npz, safetensors");
        else if (x->media != PE_MEDIA_JSON)
            pe_refuse(x, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "Content-Type", pe_header(x, "Content-Type"),
                      "application/json: the text of config.json");
        else
            pe_refuse_query(x);
        if (x->error.n)
            return pe_answer_error(x);
        if (f == PE_json && x->body_size <= SMALL_CONFIG) {
            resolve(x);
        } else if (!pe_park_job(x, resolve)) {
            posenc_fail(&x->error, PE_BUSY, "UNAVAILABLE", "queue", "",
                        "try again: too many requests wait (setting queue), or the server stops");
            return pe_answer_error(x);
        } else {
            return MHD_YES;
        }
    }
    pe_drop_body(x);
    return x->error.n ? pe_answer_error(x) : pe_answer_resolved(x);
}
