/* call.c - call objects: posting, batches, replies, the end. */
#include "grpc/call.h"

#include "grpc/status.h"
#include "log.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The completion queue hands a tag from one thread to another inside a library that ThreadSanitizer does not see. */
#if defined(__SANITIZE_THREAD__)
#define PE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PE_TSAN 1
#endif
#endif
#ifdef PE_TSAN
void __tsan_acquire(void *tag);
void __tsan_release(void *tag);
static void give(pe_event *e) { __tsan_release(e); }
static void got(pe_event *e) { __tsan_acquire(e); }
#else
static void give(pe_event *e) { (void)e; }
static void got(pe_event *e) { (void)e; }
#endif

enum {
    MAX_ACTIVE = 8192, /* calls under way; more wait in the core */
    MAX_SPARE = 256,
    READ_SECONDS = 30, /* a client reads an answer within this and a second for each 64 KiB */
    READ_BYTES = 65536,
};

static void on_last(pe_rpc *c, bool ok);
static void on_closed(pe_rpc *c, bool ok);

/* ---- posting ---- */

static void fault(const char *what, grpc_call_error e)
{
    pe_log_event(PE_ERROR, "grpc_fault", "call", what, "error", grpc_call_error_to_string(e), NULL);
    abort(); /* the order of calls is wrong: a bug, and the tag would never come back */
}

/* lock held */
static pe_rpc *new_rpc(pe_grpc *g)
{
    pe_rpc *c = g->spare;
    if (c) {
        g->spare = c->next;
        g->nspare--;
        return c;
    }
    return malloc(sizeof *c);
}

/* Counted in nposted already. */
static void post(pe_grpc *g, pe_rpc *c, int method)
{
    memset(c, 0, sizeof *c);
    c->g = g;
    c->method = method;
    c->fresh.rpc = c->closed.rpc = c->io.rpc = c->last.rpc = c;
    c->closed.fn = on_closed;
    c->last.fn = on_last;
    atomic_init(&c->refs, 1);
    grpc_metadata_array_init(&c->metadata);
    grpc_call_error e;
    if (method == PE_UNKNOWN_METHOD) {
        grpc_call_details_init(&c->details);
        give(&c->fresh);
        e = grpc_server_request_call(g->server, &c->core, &c->details, &c->metadata, g->cq, g->cq, &c->fresh);
    } else {
        grpc_byte_buffer **request = pe_methods[method].reads ? NULL : &c->request;
        give(&c->fresh);
        e = grpc_server_request_registered_call(g->server, g->tag[method], &c->core, &c->deadline, &c->metadata, request,
                                                g->cq, g->cq, &c->fresh);
    }
    if (e != GRPC_CALL_OK)
        fault("request_call", e);
}

/* A slot, or an entry in `owed` where there is none to be had now. */
static bool add_slot(pe_grpc *g, int method)
{
    pthread_mutex_lock(&g->lock);
    pe_rpc *c = g->quiet || g->nactive >= MAX_ACTIVE ? NULL : new_rpc(g);
    if (c)
        g->nposted++;
    else
        g->owed[method]++;
    pthread_mutex_unlock(&g->lock);
    if (c)
        post(g, c, method);
    return c != NULL;
}

bool pe_rpc_post(pe_grpc *g, int method) { return add_slot(g, method); }

static void clean(pe_rpc *c)
{
    grpc_metadata_array_destroy(&c->metadata);
    if (c->method == PE_UNKNOWN_METHOD)
        grpc_call_details_destroy(&c->details);
    if (c->request)
        grpc_byte_buffer_destroy(c->request);
    if (c->message)
        grpc_byte_buffer_destroy(c->message);
    if (c->core)
        grpc_call_unref(c->core);
    pe_entry_unref(c->wait.entry);
    pe_request_unref(c->q);
}

/* lock held; the object is not in use any more. After the unlock the door may be gone. */
static pe_rpc *put_back(pe_grpc *g, pe_rpc *c)
{
    if (g->quiet)
        pthread_cond_broadcast(&g->idle);
    if (g->quiet || g->nspare >= MAX_SPARE)
        return c;
    c->next = g->spare;
    g->spare = c;
    g->nspare++;
    return NULL;
}

/* The server was shut down before a client came. */
static void discard(pe_rpc *c)
{
    pe_grpc *g = c->g;
    clean(c);
    pthread_mutex_lock(&g->lock);
    g->nposted--;
    c = put_back(g, c);
    pthread_mutex_unlock(&g->lock);
    free(c);
}

/* ---- the end ---- */

static const char *code_name(int code)
{
    for (int s = PE_OK; s <= PE_INTERNAL; s++)
        if (posenc_status_grpc((posenc_status)s) == code)
            return posenc_status_code((posenc_status)s);
    return code == GRPC_STATUS_UNIMPLEMENTED ? "UNIMPLEMENTED" : "UNKNOWN";
}

static void labels_of(const pe_rpc *c, const char *code, char *buf, size_t size)
{
    const pe_method *m = &pe_methods[c->method];
    snprintf(buf, size, "grpc_type=\"%s\",grpc_service=\"%s\",grpc_method=\"%s\"%s%s%s", m->type, m->service, m->name,
             code ? ",grpc_code=\"" : "", code ? code : "", code ? "\"" : "");
}

static bool is_late(const pe_rpc *c)
{
    return gpr_time_cmp(gpr_convert_clock_type(c->deadline, GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC)) <= 0;
}

static void finish(pe_rpc *c)
{
    pe_grpc *g = c->g;
    pe_metrics *metrics = pe_service_metrics(g->s);
    double seconds = (double)(pe_now_ns() - c->begun_ns) * 1e-9;
    char labels[256];
    if (c->gone && c->code == GRPC_STATUS_OK)
        c->code = is_late(c) ? GRPC_STATUS_DEADLINE_EXCEEDED : GRPC_STATUS_CANCELLED;
    labels_of(c, code_name(c->code), labels, sizeof labels);
    pe_metrics_add(metrics, PE_grpc_server_handled_total, labels, 1);
    labels_of(c, NULL, labels, sizeof labels);
    pe_metrics_observe(metrics, PE_grpc_server_handling_seconds, labels, seconds);
    if (pe_log_on(PE_DEBUG) && c->code == GRPC_STATUS_OK)
        pe_log_event(PE_DEBUG, "grpc", "method", pe_methods[c->method].name, "grpc_code", "OK", "duration_s",
                     posenc_text("%.6f", seconds).s, "digest", c->digest[0] ? posenc_text("%.12s", c->digest).s : NULL,
                     NULL);
    clean(c);

    pe_rpc *again = NULL;
    pthread_mutex_lock(&g->lock);
    *(c->prev ? &c->prev->next : &g->active) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    g->nactive--;
    int method = c->method;
    if (!g->quiet && g->owed[method]) {
        g->owed[method]--;
        g->nposted++;
        again = c;
        c = NULL;
    } else {
        c = put_back(g, c);
    }
    pthread_mutex_unlock(&g->lock);
    free(c);
    if (again)
        post(g, again, method);
}

void pe_rpc_ref(pe_rpc *c) { atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed); }

/* Of a call found in `active`, lock held: false when it is ending. */
static bool try_ref(pe_rpc *c)
{
    int n = atomic_load(&c->refs);
    while (n > 0 && !atomic_compare_exchange_weak(&c->refs, &n, n + 1))
        ;
    return n > 0;
}

void pe_rpc_unref(pe_rpc *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
        finish(c);
}

/* ---- events ---- */

static void on_fresh(pe_rpc *c)
{
    pe_grpc *g = c->g;
    char labels[256];
    c->begun_ns = pe_now_ns();
    if (c->method == PE_UNKNOWN_METHOD)
        c->deadline = c->details.deadline;
    pthread_mutex_lock(&g->lock);
    g->nposted--;
    g->nactive++;
    c->prev = NULL;
    c->next = g->active;
    if (g->active)
        g->active->prev = c;
    g->active = c;
    pthread_mutex_unlock(&g->lock);
    add_slot(g, c->method);
    labels_of(c, NULL, labels, sizeof labels);
    pe_metrics_add(pe_service_metrics(g->s), PE_grpc_server_started_total, labels, 1);
    pe_rpc_ref(c);
    pe_methods[c->method].begin(c);
    pe_rpc_unref(c);
}

void pe_rpc_poll(pe_grpc *g)
{
    for (;;) {
        grpc_event e = grpc_completion_queue_next(g->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return;
        if (e.type != GRPC_OP_COMPLETE)
            continue;
        pe_event *v = e.tag;
        got(v);
        pe_rpc *c = v->rpc;
        if (v->fn) {
            v->fn(c, e.success != 0);
            pe_rpc_unref(c); /* the batch's */
        } else if (e.success) {
            on_fresh(c);
        } else {
            discard(c);
        }
    }
}

static void batch(pe_rpc *c, const grpc_op *ops, size_t n, pe_event *e)
{
    grpc_call *core = c->core;
    pe_rpc_ref(c);
    give(e);
    grpc_call_error r = grpc_call_start_batch(core, ops, n, e, NULL); /* from here c may be changed by another thread */
    if (r != GRPC_CALL_OK)
        fault("start_batch", r);
}

static void on_last(pe_rpc *c, bool ok)
{
    (void)ok;        /* whether it was delivered `gone` says */
    pe_rpc_unref(c); /* the status that was owed */
}

static void on_closed(pe_rpc *c, bool ok)
{
    (void)ok;
    if (c->gone && pe_methods[c->method].cancelled)
        pe_methods[c->method].cancelled(c);
}

static grpc_op *close_op(pe_rpc *c, grpc_op *op)
{
    op->op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op->data.recv_close_on_server.cancelled = &c->gone;
    return op;
}

void pe_rpc_watch(pe_rpc *c)
{
    grpc_op op = { 0 };
    if (!atomic_exchange(&c->close_asked, true))
        batch(c, close_op(c, &op), 1, &c->closed);
}

/* ---- messages in ---- */

const void *pe_rpc_bytes(grpc_byte_buffer *b, grpc_slice *hold, size_t *size)
{
    grpc_byte_buffer_reader r;
    *hold = grpc_empty_slice();
    *size = 0;
    if (!b || !grpc_byte_buffer_reader_init(&r, b))
        return b ? NULL : "";
    if (grpc_byte_buffer_reader_next(&r, hold) && GRPC_SLICE_LENGTH(*hold) < grpc_byte_buffer_length(b)) {
        grpc_slice_unref(*hold); /* in several pieces: a copy in one */
        grpc_byte_buffer_reader_destroy(&r);
        grpc_byte_buffer_reader_init(&r, b);
        *hold = grpc_byte_buffer_reader_readall(&r);
    }
    grpc_byte_buffer_reader_destroy(&r);
    *size = GRPC_SLICE_LENGTH(*hold);
    return GRPC_SLICE_START_PTR(*hold);
}

int64_t pe_rpc_deadline_ns(const pe_rpc *c)
{
    gpr_timespec at = gpr_convert_clock_type(c->deadline, GPR_CLOCK_MONOTONIC);
    if (!gpr_time_cmp(at, gpr_inf_future(GPR_CLOCK_MONOTONIC)))
        return 0;
    gpr_timespec left = gpr_time_sub(at, gpr_now(GPR_CLOCK_MONOTONIC));
    if (left.tv_sec > 1000000000)
        return 0;
    int64_t now = pe_now_ns(), ns = left.tv_sec < 0 ? 0 : left.tv_sec * 1000000000 + left.tv_nsec;
    return now + (ns > 0 ? ns : 1);
}

void pe_rpc_receive(pe_rpc *c, void (*fn)(pe_rpc *c, bool ok))
{
    grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
    op.data.recv_message.recv_message = &c->message;
    c->io.fn = fn;
    batch(c, &op, 1, &c->io);
}

/* ---- messages out ---- */

grpc_byte_buffer *pe_rpc_pack(const ProtobufCMessage *m)
{
    grpc_slice s = grpc_slice_malloc(protobuf_c_message_get_packed_size(m));
    protobuf_c_message_pack(m, GRPC_SLICE_START_PTR(s));
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&s, 1);
    grpc_slice_unref(s);
    return b;
}

static size_t head(pe_rpc *c, grpc_op *ops)
{
    if (c->headed)
        return 0;
    c->headed = true;
    ops->op = GRPC_OP_SEND_INITIAL_METADATA;
    return 1;
}

void pe_rpc_expect(pe_rpc *c, uint64_t size)
{
    int64_t seconds = READ_SECONDS + (int64_t)(size / READ_BYTES);
    atomic_store(&c->expires_ns, pe_now_ns() + seconds * 1000000000);
}

void pe_rpc_send(pe_rpc *c, grpc_byte_buffer *message, void (*sent)(pe_rpc *c, bool ok))
{
    grpc_op ops[2] = { { 0 } };
    size_t n = head(c, ops);
    ops[n].op = GRPC_OP_SEND_MESSAGE;
    ops[n++].data.send_message.send_message = message;
    c->io.fn = sent;
    batch(c, ops, n, &c->io);
    grpc_byte_buffer_destroy(message);
}

static grpc_metadata pair(const char *key, const void *value, size_t size)
{
    grpc_metadata m;
    memset(&m, 0, sizeof m);
    m.key = grpc_slice_from_static_string(key);
    m.value = grpc_slice_from_copied_buffer(value, size);
    return m;
}

/* What a client did wrong, or did not wait for, is its own affair: it could fill the log. */
static pe_level level_of(int code)
{
    if (code == GRPC_STATUS_INTERNAL || code == GRPC_STATUS_DATA_LOSS)
        return PE_ERROR;
    return code == GRPC_STATUS_UNAVAILABLE ? PE_INFO : PE_DEBUG;
}

static void log_error(pe_rpc *c, const char *text)
{
    if (!pe_log_on(level_of(c->code)))
        return;
    pe_log_event(level_of(c->code), "grpc", "method", pe_methods[c->method].name, "grpc_code", code_name(c->code),
                 "duration_s", posenc_text("%.6f", (double)(pe_now_ns() - c->begun_ns) * 1e-9).s, "digest",
                 c->digest[0] ? posenc_text("%.12s", c->digest).s : NULL, "msg", text, NULL);
}

void pe_rpc_reply(pe_rpc *c, grpc_byte_buffer *message, const posenc_error *err, int code)
{
    static const char *const words[] = { [PE_MISS] = "miss", [PE_HIT] = "hit", [PE_COLLAPSED] = "collapsed" };
    grpc_op ops[4] = { { 0 } };
    grpc_metadata trailing[3];
    grpc_slice text = grpc_empty_slice();
    size_t n = head(c, ops), ntrailing = 0;
    c->code = code ? code : err ? posenc_status_grpc(err->status) : GRPC_STATUS_OK;
    if (err) {
        char line[PE_STATUS_TEXT];
        uint8_t details[PE_STATUS_BYTES];
        size_t size = pe_status_pack(err, c->code, line, details);
        text = grpc_slice_from_copied_string(line);
        if (size)
            trailing[ntrailing++] = pair("grpc-status-details-bin", details, size);
        log_error(c, line);
    }
    if (c->digest[0])
        trailing[ntrailing++] = pair("posenc-digest", c->digest, strlen(c->digest));
    if (c->wait.entry)
        trailing[ntrailing++] = pair("posenc-cache", words[c->wait.cache], strlen(words[c->wait.cache]));
    if (message) {
        pe_rpc_expect(c, grpc_byte_buffer_length(message));
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = message;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)c->code;
    ops[n].data.send_status_from_server.status_details = err ? &text : NULL;
    ops[n].data.send_status_from_server.trailing_metadata = trailing;
    ops[n++].data.send_status_from_server.trailing_metadata_count = ntrailing;
    if (!atomic_exchange(&c->close_asked, true))
        close_op(c, &ops[n++]);
    batch(c, ops, n, &c->last);
    for (size_t i = 0; i < ntrailing; i++)
        grpc_slice_unref(trailing[i].value);
    grpc_slice_unref(text);
    if (message)
        grpc_byte_buffer_destroy(message);
}

static void run(void *arg)
{
    pe_rpc *c = arg;
    c->job(c);
    pe_rpc_unref(c);
}

void pe_rpc_run(pe_rpc *c, void (*fn)(pe_rpc *c))
{
    posenc_error err = { 0 };
    c->job = fn;
    pe_rpc_ref(c);
    if (pe_service_run(c->g->s, run, c))
        return;
    posenc_fail(&err, PE_BUSY, "UNAVAILABLE", "queue", "queue_full",
                "try again: too many computations wait (setting queue)");
    pe_rpc_reply(c, NULL, &err, 0);
    pe_rpc_unref(c);
}

void pe_rpc_read(pe_rpc *c, size_t here, void (*read)(pe_rpc *c))
{
    if (!pe_rpc_serving(c))
        return;
    const uint64_t size = c->request ? grpc_byte_buffer_length(c->request) : 0;
    if (size > (uint64_t)c->g->config->max_grpc_message) {
        posenc_error err = { 0 };
        posenc_fail(&err, PE_LIMIT, "LIMIT_EXCEEDED", "message", posenc_text("%llu bytes", (unsigned long long)size).s,
                    "at most %lld bytes (setting max_grpc_message); a REST body may have %lld (setting max_body)",
                    (long long)c->g->config->max_grpc_message, (long long)c->g->config->max_body);
        pe_rpc_reply(c, NULL, &err, GRPC_STATUS_RESOURCE_EXHAUSTED);
        return;
    }
    if (!c->request || grpc_byte_buffer_length(c->request) <= here)
        read(c);
    else
        pe_rpc_run(c, read);
}

/* ---- streams whose end may come at any time ---- */

bool pe_rpc_begin_send(pe_rpc *c)
{
    if (c->sending || c->end)
        return false;
    c->sending = true;
    return true;
}

static void try_end(pe_rpc *c, bool sent, bool end, const posenc_error *err)
{
    posenc_error draining = { 0 };
    pthread_mutex_lock(&c->g->lock);
    c->sending = c->sending && !sent;
    c->end |= end;
    bool now = c->end && !c->sending && !c->ended, quiet = c->g->quiet;
    c->ended |= now;
    pthread_mutex_unlock(&c->g->lock);
    if (!now)
        return;
    if (!err && quiet) {
        posenc_fail(&draining, PE_BUSY, "UNAVAILABLE", "server", "draining", "another server, or try again");
        err = &draining;
    }
    pe_rpc_reply(c, NULL, err, 0);
}

void pe_rpc_sent(pe_rpc *c, bool ok) { try_end(c, true, !ok, NULL); }
void pe_rpc_end(pe_rpc *c, const posenc_error *err) { try_end(c, false, true, err); }
void pe_rpc_gone(pe_rpc *c) { try_end(c, false, true, NULL); }

/* ---- upkeep ---- */

pe_rpc *pe_rpc_next(pe_grpc *g, pe_rpc *c)
{
    pthread_mutex_lock(&g->lock);
    pe_rpc *next = c ? c->next : g->active; /* a call that is held stays in the list */
    while (next && !try_ref(next))
        next = next->next;
    pthread_mutex_unlock(&g->lock);
    if (c)
        pe_rpc_unref(c);
    return next;
}

void pe_rpc_expire(pe_grpc *g)
{
    int owed[PE_NMETHODS] = { 0 };
    int64_t now = pe_now_ns();
    for (pe_rpc *c = pe_rpc_next(g, NULL); c; c = pe_rpc_next(g, c)) {
        int64_t at = atomic_load(&c->expires_ns);
        if (at && at < now && atomic_compare_exchange_strong(&c->expires_ns, &at, 0))
            grpc_call_cancel_with_status(c->core, GRPC_STATUS_DEADLINE_EXCEEDED, "the answer was not read in time", NULL);
    }
    pthread_mutex_lock(&g->lock);
    for (int m = 0; m < PE_NMETHODS && g->nactive < MAX_ACTIVE; m++) {
        owed[m] = g->owed[m];
        g->owed[m] = 0;
    }
    pthread_mutex_unlock(&g->lock);
    for (int m = 0; m < PE_NMETHODS; m++)
        while (owed[m]-- > 0)
            add_slot(g, m);
}
