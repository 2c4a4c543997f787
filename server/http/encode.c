/* encode.c - the path of an encoding, and of a result by its digest.
 *
 *   READ    query and body into a request, resolved: parameters, shapes, limits, digest     (large bodies: on the pool)
 *   CHECK   what needs no result: explain, HEAD, preconditions, faults of the selection
 *   BEGIN   the service: a hit, or a computation and the exchange parks
 *   WRITE   the container of the entry                                       (where it is new and large: on the pool)
 *   SEND    the answer
 *
 * Each step leaves x->step at the next one, so that a parked exchange goes on where it was. */
#include "http/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BODY = 64 << 10,     /* parsed on the door's thread */
    SMALL_TENSORS = 256 << 10, /* bytes that are hashed there; */
    SMALL_TEXT = 16 << 10      /*   of tensors that become text */
};

static bool is_small(const pe_exchange *x, uint64_t size)
{
    if (x->asked.format == PE_png || x->asked.format == PE_svg) /* drawing takes milliseconds */
        return false;
    return size <= (posenc_format_sized(x->asked.format) ? SMALL_TENSORS : SMALL_TEXT);
}

/* ---- reading ---- */

static void read_all(pe_exchange *x)
{
    if (!pe_read_request(x))
        pe_service_resolve(x->service, x->request, &x->error);
}

/* ---- checking ---- */

static posenc_origin origin_of(const pe_exchange *x)
{
    if (x->request)
        return (posenc_origin){ x->request->r.encoding, x->request->r.digest, x->request->r.params_json };
    return (posenc_origin){ x->entry->encoding, x->entry->digest, x->entry->params_json };
}

/* The answer when it needs no result. True: `*ret` is what the handler returns. */
static bool check(pe_exchange *x, const posenc_result *shape, enum MHD_Result *ret)
{
    const posenc_origin origin = origin_of(x);
    if (x->asked.explain && !x->error.n) {
        *ret = pe_answer_text(x, 200, "application/json", pe_service_explain(x->service, x->request), "no-cache");
        return true;
    }
    pe_make_etag(x, origin.digest);
    const char *condition = pe_header(x, "If-None-Match");
    if (!x->entry)
        x->entry = pe_cache_get(pe_service_cache(x->service), origin.digest, false);
    if (x->entry && x->method != PE_HEAD && !condition && !pe_header(x, "If-Match"))
        return false;                        /* most requests: faults of the selection show when it is written */
    x->cache_word = x->entry ? "hit" : NULL; /* from the digest alone nothing is forwarded, and nothing hit */
    uint64_t size = pe_known_size(x, &origin, shape);
    if (x->error.n) {
        *ret = pe_answer_error(x);
    } else if (pe_fails_match(x, x->etag)) {
        pe_refuse(x, 412, "FAILED_PRECONDITION", "PRECONDITION_FAILED", "If-Match", pe_header(x, "If-Match"), x->etag);
        *ret = pe_answer_error(x);
    } else if (condition && pe_not_modified(x, x->etag) && size != UINT64_MAX) {
        *ret = pe_answer_head(x, 304, size);
    } else if (x->method == PE_HEAD) {
        *ret = pe_answer_head(x, 200, size);
    } else {
        return false;
    }
    return true;
}

/* ---- the service ---- */

static void call_done(pe_call *call);

/* True: the call has ended already. */
static bool begin(pe_exchange *x)
{
    pe_entry_unref(x->entry); /* of a look at the cache; the call brings its own */
    x->entry = NULL;
    x->made = NULL;
    x->call = (pe_call){ .request = x->request,
                         .done = call_done,
                         .deadline_ns = x->deadline_ns,
                         .prepare = true,
                         .format = x->asked.format,
                         .selection = x->asked.selection };
    return pe_service_begin(x->service, &x->call);
}

/* What the call brought. */
static void take_answer(pe_exchange *x)
{
    static const char *const words[] = { "miss", "hit", "collapsed" }; /* as pe_cache_status */
    x->entry = x->call.entry;
    x->call.entry = NULL;
    x->error = x->call.error;
    if (x->call.status && !x->error.n)
        posenc_fail(&x->error, x->call.status, posenc_status_name(x->call.status), "request", "", "%s",
                    posenc_status_meaning(x->call.status));
    x->cache_word = words[x->call.cache];
    pe_drop_request(x);
}

/* ---- writing ---- */

static void write_all(pe_exchange *x)
{
    int64_t t0 = pe_now_ns();
    posenc_status st = pe_entry_write(x->entry, x->asked.format, &x->asked.selection, &x->made, &x->own, &x->error);
    if (!st)
        pe_compress(x);
    x->encode_s = (double)(pe_now_ns() - t0) * 1e-9;
}

static uint64_t selected_bytes(const pe_exchange *x)
{
    const posenc_result *r = &x->entry->result;
    const posenc_selection *sel = &x->asked.selection;
    double bytes = 0;
    for (int i = 0; i < r->ntensors; i++) {
        const posenc_tensor *t = &r->tensor[i];
        if (sel->tensors && !(sel->tensors >> i & 1))
            continue;
        double part = sel->rows && t->rank && t->shape[0] ? (double)(sel->row_end - sel->row_begin) / (double)t->shape[0]
                                                          : 1;
        bytes += (double)posenc_tensor_size(t) * part;
    }
    return (uint64_t)bytes;
}

/* Is the container there, or made in no time? */
static bool writes_here(pe_exchange *x)
{
    const pe_representation *made = pe_made_already(x);
    if (made && !pe_compresses(x, made->document.size))
        return true;
    return is_small(x, made ? made->document.size : selected_bytes(x));
}

/* ---- the two handlers ---- */

static enum MHD_Result busy(pe_exchange *x)
{
    x->error = (posenc_error){ 0 };
    posenc_fail(&x->error, PE_BUSY, "UNAVAILABLE", "queue", "",
                "try again: too many requests wait (setting queue), or the server stops");
    return pe_answer_error(x);
}

/* From an entry to the answer. */
static enum MHD_Result deliver(pe_exchange *x)
{
    if (x->step == PE_WRITE) {
        x->step = PE_SEND;
        if (!writes_here(x)) {
            if (pe_park_job(x, write_all))
                return MHD_YES;
            if (!pe_made_already(x))
                return busy(x);
            x->gzip = false; /* only compressing would have taken long */
        }
        write_all(x);
    }
    return x->error.n ? pe_answer_error(x) : pe_answer_result(x);
}

enum MHD_Result pe_run_encoding(pe_exchange *x)
{
    enum MHD_Result ret;
    if (x->step == PE_READ) {
        x->step = PE_CHECK;
        if (x->body_size > SMALL_BODY)
            return pe_park_job(x, read_all) ? MHD_YES : busy(x);
        read_all(x);
    }
    if (x->step == PE_CHECK) {
        pe_drop_body(x); /* the request has its own copy of what it needs */
        if (x->error.n || pe_select(x, &x->request->r.shape))
            return pe_answer_error(x);
        if (check(x, &x->request->r.shape, &ret))
            return ret;
        x->step = PE_BEGIN;
        if (!pe_wait_allowed(x))
            return busy(x);
        if (begin(x))
            pe_unwait(x);
        else if (pe_park_call(x))
            return MHD_YES;
    }
    if (x->step == PE_BEGIN) {
        take_answer(x);
        if (x->error.n)
            return pe_answer_error(x);
        x->step = PE_WRITE;
    }
    return deliver(x);
}

enum MHD_Result pe_run_result(pe_exchange *x)
{
    enum MHD_Result ret;
    if (x->step == PE_READ) {
        posenc_result shape;
        x->asked.pinned = true;
        pe_read_options(x);
        bool hex = strlen(x->asked.digest) == 64 && strspn(x->asked.digest, "0123456789abcdef") == 64;
        if (hex)
            x->entry = pe_cache_get(pe_service_cache(x->service), x->asked.digest, true);
        if (!x->entry)
            posenc_fail(&x->error, PE_NOT_FOUND, "RESULT_NOT_CACHED", "digest", x->asked.digest,
                        hex ? "a result that is in the cache: ask for it by its parameters" : "64 hexadecimal digits");
        else
            pe_select(x, &x->entry->result);
        if (x->error.n)
            return pe_answer_error(x);
        shape = x->entry->result; /* lengths come from shapes alone */
        for (int i = 0; i < shape.ntensors; i++)
            shape.tensor[i].data = NULL;
        if (check(x, &shape, &ret))
            return ret;
        x->cache_word = "hit";
        x->step = PE_WRITE;
    }
    return deliver(x);
}

static void call_done(pe_call *call) { pe_call_ended((pe_exchange *)((char *)call - offsetof(pe_exchange, call))); }
