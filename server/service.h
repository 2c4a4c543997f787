/* service.h - the one path of a request: resolve, limits, digest, cache, pool, result. Both doors call this and
 * nothing below it.
 *
 * A door, for one request:
 *     pe_request *q = pe_request_new(s);                      its arena is q->arena
 *     posenc_request_init(&q->r, name, q->arena, &err) ...    fill in parameters and graph, watched: pe_request_watch
 *     pe_service_resolve(s, q, &err)                          digest, shapes, limits
 *     call->request = q; call->done = on_done; ...
 *     if (pe_service_begin(s, call)) answer now;              hit, cheap or refused: on this thread, done is not called
 *     else park;                                              done comes later, once, from another thread
 *     client gone while parked: pe_service_cancel(s, call)    true: done will not come
 *     pe_entry_unref(call->entry); pe_request_unref(q);
 *
 * Thread-safe throughout. A request is immutable after resolve and counted, because the computation may outlive
 * the client that asked first. */
#ifndef PE_SERVICE_H
#define PE_SERVICE_H

#include "cache.h"
#include "config.h"
#include "metrics.h"
#include "pool.h"

typedef struct pe_service pe_service;

typedef struct pe_request {
    atomic_int refs;
    posenc_arena *arena;
    posenc_request r;
    pe_cache *cache;      /* where the input's memory is reserved */
    uint64_t reserved;    /* bytes of it */
    posenc_context watch; /* private; as is: */
    int64_t deadline_ns;
} pe_request;

pe_request *pe_request_new(pe_service *s); /* NULL: no memory */
/* The context of reading and resolving, r.ctx, that stops at the deadline (CLOCK_MONOTONIC; 0: of the settings, from when
 * the request was new). It lives as long as the request. */
posenc_context *pe_request_watch(pe_request *q, int64_t deadline_ns);
void pe_request_ref(pe_request *q);
void pe_request_unref(pe_request *q); /* NULL is fine */

typedef enum pe_cache_status { PE_MISS, PE_HIT, PE_COLLAPSED } pe_cache_status;

/* One client's wait for one result. The door owns the memory; it must stay until done was called, begin returned
 * true, or cancel returned true. */
typedef struct pe_call pe_call;
struct pe_call {
    pe_waiter waiter;                 /* private */
    pe_call *timer_next, *timer_prev; /* private */
    /* the door sets: */
    pe_request *request;         /* the service takes its own reference */
    void (*done)(pe_call *call); /* any thread, no lock held, once; may free the call */
    int64_t deadline_ns;         /* CLOCK_MONOTONIC; 0: the default of the settings */
    bool prepare;                /* make this container on the compute thread, before done */
    posenc_format format;
    posenc_selection selection;
    /* the answer: */
    posenc_status status;
    posenc_error error;
    pe_entry *entry; /* counted, the door's, when status is PE_OK */
    pe_cache_status cache;
    double queue_s, compute_s; /* 0 on a hit */
    int64_t begun_ns;          /* private */
    uint64_t serial;           /* private */
};

pe_service *pe_service_new(const pe_config *c, posenc_error *err);
void pe_service_free(pe_service *s); /* after both doors have stopped */
const pe_config *pe_service_config(const pe_service *s);
pe_metrics *pe_service_metrics(pe_service *s);
pe_cache *pe_service_cache(pe_service *s);

posenc_status pe_service_resolve(pe_service *s, pe_request *q, posenc_error *err);
bool pe_service_begin(pe_service *s, pe_call *call);
bool pe_service_cancel(pe_service *s, pe_call *call);
/* Runs a door's own work (parsing a large body) on the pool. False: the queue is full. */
bool pe_service_run(pe_service *s, pe_job *run, void *arg);
/* What a request would do, as one JSON object: encoding, revision, params, key, digest, tensors with shapes and bytes,
 * cost, cached. Malloc'ed. */
char *pe_service_explain(pe_service *s, const pe_request *q);
char *pe_service_capabilities(pe_service *s); /* GET /v1/capabilities; malloc'ed JSON */
char *pe_service_version(void);               /* GET /version */
char *pe_service_metrics_text(pe_service *s);

/* ---- life ---- */
/* leaving: still serving, no longer ready, so that load balancers look elsewhere; draining: no new work */
typedef enum pe_phase { PE_STARTING, PE_SERVING, PE_LEAVING, PE_DRAINING } pe_phase;
void pe_service_set_phase(pe_service *s, pe_phase p);
pe_phase pe_service_phase(pe_service *s);
/* Ready to take requests; `why` (may be NULL) says one word a check: "phase: serving", "queue: ok". */
bool pe_service_ready(pe_service *s, char *why, size_t size);
/* Called after every change of phase, on the thread that changed it (gRPC health Watch). One listener. */
void pe_service_on_phase(pe_service *s, void (*changed)(void *user), void *user);

int64_t pe_now_ns(void); /* CLOCK_MONOTONIC */

#endif
