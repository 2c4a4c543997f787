/* service.c - the path of a request between the doors and the library.
 *
 * Who ends a call. A waiting call is in two lists: its flight's waiters (guarded by the shard's lock) and the timers
 * (guarded by `timer_lock`). Whoever takes it out of the flight - the worker that publishes, the timer that finds it late,
 * the door that cancels - ends it, alone. A call may be freed as soon as it is ended, so the timer thread looks at
 * calls only under timer_lock, and everybody else takes a call out of the timers (same lock) before ending it. The
 * timer thread, and a call that begins, hold two locks: timer_lock, then a shard's; never the other way round. */
#include "service.h"

#include "log.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define IN_PLACE_NS 50e3  /* cheaper than a hand-over to another thread */
#define LONG_NS 100e6     /* from here a job may not take the last thread */
#define SMALL_INPUT 65536 /* [bytes] of input that are not worth counting */

struct pe_service {
    const pe_config *config;
    pe_metrics *metrics;
    pe_cache *cache;
    pe_pool *pool;
    int threads;                /* that one computation may use */
    pthread_mutex_t timer_lock; /* guards the timer list, `earliest` and `stopping` */
    pthread_cond_t timer_cond;
    pe_call *timers;
    int64_t earliest;
    bool stopping;
    pthread_t timer_thread;
    pthread_mutex_t phase_lock; /* guards phase, changed, changed_user */
    pe_phase phase;
    void (*changed)(void *user);
    void *changed_user;
    int64_t started_ns;
    _Atomic uint64_t serial;
    _Atomic int64_t queue_high_since; /* ns; 0: the queue is not near its limit */
};

/* A computation as the pool sees it. */
typedef struct work {
    pe_service *s;
    pe_flight *flight;
    pe_request *request;
    uint64_t reserved;
    int64_t queued_ns;
    int64_t finish_ns; /* when a request that allows partial answers is told that its deadline has passed; 0: never */
    int threads;
} work;

int64_t pe_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void reject(pe_service *s, const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof labels, "reason=\"%s\"", reason);
    pe_metrics_add(s->metrics, PE_posenc_rejected_total, labels, 1);
}

/* ---- requests ---- */

pe_request *pe_request_new(pe_service *s)
{
    pe_request *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    atomic_init(&q->refs, 1);
    q->cache = s->cache;
    q->deadline_ns = pe_now_ns() + s->config->deadline_ms * 1000000;
    uint64_t limit = (uint64_t)s->config->max_request_memory, half = s->config->memory_budget / 2;
    q->arena = posenc_arena_new((size_t)(limit < half ? limit : half));
    if (!q->arena) {
        free(q);
        return NULL;
    }
    return q;
}

static posenc_status late(void *request)
{
    return pe_now_ns() >= ((const pe_request *)request)->deadline_ns ? PE_DEADLINE : PE_OK;
}

posenc_context *pe_request_watch(pe_request *q, int64_t deadline_ns)
{
    if (deadline_ns)
        q->deadline_ns = deadline_ns;
    q->watch = (posenc_context){ .stop = late, .user = q };
    return &q->watch;
}

void pe_request_ref(pe_request *q) { atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed); }

void pe_request_unref(pe_request *q)
{
    if (!q || atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) != 1)
        return;
    pe_cache_release(q->cache, q->reserved);
    posenc_arena_free(q->arena);
    free(q);
}

static void over(posenc_error *err, const char *field, int64_t value, const char *unit, int64_t limit, const char *setting)
{
    if (value > limit)
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", field, posenc_text("%lld %s", (long long)value, unit).s,
                    "at most %lld %s (setting %s)", (long long)limit, unit, setting);
}

/* An input of some size counts against the memory budget as long as its request lives. */
static posenc_status charge_input(pe_service *s, pe_request *q, posenc_error *err)
{
    uint64_t used = posenc_arena_used(q->arena);
    if (q->reserved || used <= SMALL_INPUT)
        return PE_OK;
    if (!pe_cache_reserve(s->cache, used)) {
        reject(s, "memory");
        return posenc_fail(err, PE_BUSY, "UNAVAILABLE", "memory",
                           posenc_text("%llu bytes of input", (unsigned long long)used).s,
                           "try again: other requests hold the memory budget (setting memory_budget)");
    }
    q->reserved = used;
    return PE_OK;
}

static int64_t clamp(uint64_t n) { return n > INT64_MAX ? INT64_MAX : (int64_t)n; }

posenc_status pe_service_resolve(pe_service *s, pe_request *q, posenc_error *err)
{
    const pe_config *c = s->config;
    posenc_request *r = &q->r;
    posenc_error local = { 0 };
    if (!err)
        err = &local;
    const posenc_graph *graph = r->of ? r->of->graph : r->graph;
    if (graph) {
        over(err, "graph.num_nodes", posenc_graph_nodes(graph), "nodes", c->max_nodes, "max_nodes");
        over(err, "graph.edge_index", posenc_graph_edges(graph), "edges", c->max_edges, "max_edges");
        over(err, "graph.ptr", posenc_graph_count(graph), "graphs", c->max_graphs, "max_graphs");
    }
    posenc_status st = charge_input(s, q, err);
    if (!st)
        st = posenc_resolve(r, err);
    if (st)
        return st;
    over(err, "result", clamp(r->size), "bytes", c->max_result, "max_result");
    uint64_t need;
    if (__builtin_add_overflow(r->size, r->cost.scratch, &need))
        need = UINT64_MAX;
    int64_t memory = clamp(s->config->memory_budget);
    over(err, "memory", clamp(need), "bytes", c->max_request_memory, "max_request_memory");
    if (clamp(need) <= c->max_request_memory)
        over(err, "memory", clamp(need), "bytes", memory, "memory_budget");
    return err->status;
}

/* ---- timers ---- */

/* timer_lock is held. */
static void list(pe_service *s, pe_call *c)
{
    c->timer_prev = c; /* marks it as listed */
    c->timer_next = s->timers;
    if (s->timers)
        s->timers->timer_prev = c;
    s->timers = c;
    if (!s->earliest || c->deadline_ns < s->earliest) {
        s->earliest = c->deadline_ns;
        pthread_cond_signal(&s->timer_cond);
    }
}

/* The first call's timer_prev points to itself, a call that is not listed has NULL. */
static void unlist(pe_service *s, pe_call *c)
{
    if (!c->timer_prev)
        return;
    if (s->timers == c)
        s->timers = c->timer_next;
    else
        c->timer_prev->timer_next = c->timer_next;
    if (c->timer_next)
        c->timer_next->timer_prev = s->timers == c->timer_next ? c->timer_next : c->timer_prev;
    c->timer_next = c->timer_prev = NULL;
}

static void timer_remove(pe_service *s, pe_call *c)
{
    pthread_mutex_lock(&s->timer_lock);
    unlist(s, c);
    pthread_mutex_unlock(&s->timer_lock);
}

static void end_late(pe_service *s, pe_call *c)
{
    reject(s, "deadline");
    c->status = posenc_fail(
        &c->error, PE_DEADLINE, "DEADLINE_EXCEEDED", "request",
        posenc_text("%.3f s", (double)(pe_now_ns() - c->begun_ns) * 1e-9).s,
        "a later deadline (grpc-timeout, Request-Timeout, setting deadline_ms): one core needs about %.3g s",
        c->request->r.cost.ns * 1e-9);
    pe_request_unref(c->request);
    c->done(c);
}

static void *watch_deadlines(void *arg)
{
    pe_service *s = arg;
    pthread_mutex_lock(&s->timer_lock);
    while (!s->stopping) {
        int64_t now = pe_now_ns(), earliest = 0;
        pe_call *late = NULL;
        for (pe_call *c = s->timers, *next; c; c = next) {
            next = c->timer_next;
            if (c->deadline_ns > now) {
                earliest = earliest && earliest < c->deadline_ns ? earliest : c->deadline_ns;
                continue;
            }
            unlist(s, c);
            if (pe_cache_leave(s->cache, &c->waiter)) { /* it is ours now */
                c->timer_next = late;
                late = c;
            }
        }
        s->earliest = earliest;
        if (late) {
            pthread_mutex_unlock(&s->timer_lock);
            for (pe_call *next; late; late = next) {
                next = late->timer_next;
                late->timer_next = NULL;
                end_late(s, late);
            }
            pthread_mutex_lock(&s->timer_lock);
        } else if (earliest) {
            struct timespec t = { .tv_sec = earliest / 1000000000, .tv_nsec = earliest % 1000000000 };
            pthread_cond_timedwait(&s->timer_cond, &s->timer_lock, &t);
        } else {
            pthread_cond_wait(&s->timer_cond, &s->timer_lock);
        }
    }
    pthread_mutex_unlock(&s->timer_lock);
    return NULL;
}

/* ---- computing ---- */

static posenc_status stopped(void *user)
{
    const work *w = user;
    const posenc_status st = (posenc_status)atomic_load(&w->flight->stop);
    return st || !w->finish_ns || pe_now_ns() < w->finish_ns ? st : PE_DEADLINE;
}

/* A partial answer has to be told before the deadline of who asked first: a fifth of the time is for that, or up to half
 * of it where the answer is so long that making it takes more. */
static int64_t finish_of(const posenc_request *r, int64_t now, int64_t deadline)
{
    enum { ELEMENT_NS = 64 }; /* vectors from a basis, their canonical form, the output */
    const posenc_param *row = posenc_row(&r->encoding->table, "allow_partial");
    if (!row || !*(const bool *)((const char *)r->params + row->offset))
        return 0;
    int64_t rest = 0;
    for (int i = 0; i < r->shape.ntensors; i++)
        rest += ELEMENT_NS * posenc_tensor_count(&r->shape.tensor[i]);
    const int64_t fifth = (deadline - now) / 5, half = (deadline - now) / 2;
    rest = rest < fifth ? fifth : rest < half ? rest : half;
    return deadline - rest;
}

static void share(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(((work *)user)->s->pool, n, task, arg);
}

static void count_cache(pe_service *s, const char *result)
{
    char labels[64];
    snprintf(labels, sizeof labels, "tier=\"memory\",result=\"%s\"", result);
    pe_metrics_add(s->metrics, PE_posenc_cache_requests_total, labels, 1);
}

static pe_call *call_of(pe_waiter *w) { return (pe_call *)((char *)w - offsetof(pe_call, waiter)); }

/* Makes the container that the call's door will ask for. A failure shows when the door asks. */
static void prepare(pe_call *c)
{
    const pe_representation *made;
    pe_representation *own = NULL;
    if (!c->selection.rows)
        pe_entry_write(c->entry, c->format, &c->selection, &made, &own, NULL);
}

/* Tells the door that the call has ended; the caller's own call is only reported. */
static bool tell(pe_call *c, uint64_t here)
{
    if (c->serial == here)
        return true;
    c->done(c);
    return false;
}

/* Ends the flight and every call that waits for it. The call of serial `here` (0: none) is the caller's own: it is filled
 * in but not told; true when it was still among the waiters. */
static bool finish(work *w, pe_entry *e, const posenc_error *error, double queue_s, double compute_s, uint64_t here)
{
    pe_service *s = w->s;
    bool was_here = false;
    /* a partial answer is for who waits, not for who asks later */
    pe_waiter *next, *list = pe_cache_publish(s->cache, w->flight, e && e->result.partial ? NULL : e), *texts = NULL;
    for (pe_waiter *p = list; p; p = next) {
        pe_call *c = call_of(p);
        next = p->next;
        timer_remove(s, c);
        c->status = error->status;
        c->error = *error;
        c->queue_s = queue_s;
        c->compute_s = compute_s;
        if (e) {
            pe_entry_ref(e);
            c->entry = e;
        }
        pe_request_unref(c->request);
        if (e && c->prepare && !posenc_format_sized(c->format)) {
            p->next = texts;
            texts = p;
        } else if (e && c->prepare) {
            prepare(c);
            was_here |= tell(c, here);
        } else {
            was_here |= tell(c, here);
        }
    }
    for (pe_waiter *p = texts; p; p = next) { /* text takes longest to make: nobody else waits for it */
        next = p->next;
        prepare(call_of(p));
        was_here |= tell(call_of(p), here);
    }
    pe_entry_unref(e);
    pe_request_unref(w->request);
    free(w);
    return was_here;
}

static int64_t elements(const posenc_result *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->ntensors; i++)
        n += posenc_tensor_count(&r->tensor[i]);
    return n;
}

static bool compute(work *w, uint64_t here)
{
    pe_service *s = w->s;
    const posenc_request *r = &w->request->r;
    posenc_error error = { 0 };
    char labels[96];
    snprintf(labels, sizeof labels, "encoding=\"%s\"", r->encoding->name);
    int64_t t0 = pe_now_ns();
    double queue_s = (double)(t0 - w->queued_ns) * 1e-9, compute_s = 0;
    pe_entry *e = NULL;
    if (stopped(w)) {
        posenc_fail(&error, PE_CANCELLED, "CANCELLED", "request", "", "a client that waits");
    } else if (!(e = pe_entry_new(s->cache, r))) {
        posenc_fail(&error, PE_BUSY, "OUT_OF_MEMORY", "memory", posenc_text("%llu bytes", (unsigned long long)r->size).s,
                    "try again");
    } else {
        pe_cache_release(s->cache, r->size); /* the entry counts itself from here */
        w->reserved -= r->size;
        pe_metrics_add(s->metrics, PE_posenc_computations_total, labels, 1);
        pe_metrics_observe(s->metrics, PE_posenc_queue_wait_seconds, NULL, queue_s);
        posenc_context ctx = { .stop = stopped,
                               .user = w,
                               .memory_limit = (uint64_t)s->config->max_request_memory,
                               .parallel = w->threads > 1 ? share : NULL,
                               .threads = w->threads };
        posenc_status st = posenc_compute(r, &e->result, &ctx, &error);
        compute_s = (double)(pe_now_ns() - t0) * 1e-9;
        pe_metrics_observe(s->metrics, PE_posenc_compute_seconds, labels, compute_s);
        if (st) {
            pe_entry_unref(e);
            e = NULL;
            if (st == PE_CANCELLED)
                pe_metrics_add(s->metrics, PE_posenc_cancelled_total, labels, 1);
            else if (st == PE_INTERNAL || st == PE_BUSY)
                pe_log_event(PE_ERROR, "compute_failed", "encoding", r->encoding->name, "digest", r->digest, "status",
                             posenc_status_name(st), NULL);
        } else {
            e->compute_s = compute_s;
            pe_metrics_add(s->metrics, PE_posenc_compute_elements_total, labels, (double)elements(&e->result));
        }
    }
    pe_cache_release(s->cache, w->reserved);
    return finish(w, e, &error, queue_s, compute_s, here);
}

static void compute_job(void *arg) { compute(arg, 0); }

/* Refuses before the computation began. */
static bool refuse(work *w, uint64_t here, const char *reason, const char *field, const char *allowed)
{
    posenc_error error = { 0 };
    reject(w->s, reason);
    posenc_fail(&error, PE_BUSY, "UNAVAILABLE", field, reason, "%s", allowed);
    pe_cache_release(w->s->cache, w->reserved);
    return finish(w, NULL, &error, 0, 0, here);
}

/* Room for the result and for what computing takes, and how many threads it may use: each holds the scratch memory of one
 * graph of a batch; one does where there is no room for more. */
static bool reserve(work *w)
{
    pe_service *s = w->s;
    const posenc_request *r = &w->request->r;
    const uint64_t scratch = r->cost.scratch, threads = (uint64_t)s->threads;
    w->threads = s->threads;
    if (r->graph && posenc_graph_batched(r->graph)) {
        w->reserved = r->size + scratch * threads;
        if (scratch <= (uint64_t)s->config->max_request_memory / threads && pe_cache_reserve(s->cache, w->reserved))
            return true;
        w->threads = 1;
    }
    w->reserved = r->size + scratch;
    if (pe_cache_reserve(s->cache, w->reserved))
        return true;
    w->reserved = 0;
    return false;
}

static posenc_status refuse_early(pe_service *s, pe_call *c)
{
    if (pe_service_phase(s) == PE_STARTING) {
        reject(s, "starting");
        return posenc_fail(&c->error, PE_BUSY, "UNAVAILABLE", "server", "starting", "try again");
    }
    if (c->deadline_ns <= c->begun_ns) {
        reject(s, "deadline");
        return posenc_fail(&c->error, PE_DEADLINE, "DEADLINE_EXCEEDED", "request", "passed before it began",
                           "a later deadline");
    }
    return PE_OK;
}

bool pe_service_begin(pe_service *s, pe_call *c)
{
    uint64_t serial = atomic_fetch_add(&s->serial, 1) + 1;
    c->serial = serial;
    c->begun_ns = pe_now_ns();
    c->error = (posenc_error){ 0 };
    c->entry = NULL;
    c->cache = PE_HIT;
    c->queue_s = c->compute_s = 0;
    c->timer_next = c->timer_prev = NULL;
    c->waiter = (pe_waiter){ 0 };
    if (!c->deadline_ns)
        c->deadline_ns = c->begun_ns + s->config->deadline_ms * 1000000;
    if ((c->status = refuse_early(s, c)))
        return true;
    pe_request *q = c->request;
    const int64_t begun = c->begun_ns, deadline = c->deadline_ns; /* c may end at any moment once it is listed */
    if ((c->entry = pe_cache_get(s->cache, q->r.digest, true))) {
        count_cache(s, "hit");
        return true;
    }
    if (pe_service_phase(s) == PE_DRAINING) {
        reject(s, "draining");
        c->status = posenc_fail(&c->error, PE_BUSY, "UNAVAILABLE", "server", "draining", "another server, or try again");
        return true;
    }
    work *w = malloc(sizeof *w); /* before the look-up, so that a leader never fails for lack of it */
    pe_flight *flight = NULL;
    pe_request_ref(q); /* the call's, and */
    pe_request_ref(q); /* the work's */
    /* Under timer_lock: whoever ends the call takes it out of the timers first, and so waits until it is listed.
     * From the unlock on, the call may end at any moment and is not touched here again. */
    pthread_mutex_lock(&s->timer_lock);
    pe_cache_answer answer = w ? pe_cache_begin(s->cache, q->r.digest, &c->waiter, &c->entry, &flight) : PE_CACHE_NO_MEMORY;
    if (answer == PE_CACHE_WAIT || answer == PE_CACHE_COMPUTE) {
        c->cache = answer == PE_CACHE_WAIT ? PE_COLLAPSED : PE_MISS;
        list(s, c);
    }
    pthread_mutex_unlock(&s->timer_lock);
    if (answer != PE_CACHE_COMPUTE) {
        free(w);
        pe_request_unref(q);
        if (answer == PE_CACHE_WAIT) {
            count_cache(s, "collapsed");
            return false;
        }
        pe_request_unref(q);
        if (answer == PE_CACHE_HAVE)
            count_cache(s, "hit");
        else
            c->status = posenc_fail(&c->error, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
        return true;
    }
    count_cache(s, "miss");
    *w = (work){
        .s = s, .flight = flight, .request = q, .queued_ns = pe_now_ns(), .finish_ns = finish_of(&q->r, begun, deadline)
    };
    double ns = q->r.cost.ns;
    if (!reserve(w))
        return refuse(w, serial, "memory", "memory",
                      "try again: other computations hold the memory budget (setting memory_budget)");
    if (ns < IN_PLACE_NS)
        return compute(w, serial);
    if (!pe_pool_submit(s->pool, ns > LONG_NS, compute_job, w))
        return refuse(w, serial, "queue_full", "queue", "try again: too many computations wait (setting queue)");
    return false;
}

bool pe_service_cancel(pe_service *s, pe_call *c)
{
    if (!pe_cache_leave(s->cache, &c->waiter))
        return false;
    timer_remove(s, c);
    pe_request_unref(c->request);
    return true;
}

bool pe_service_run(pe_service *s, pe_job *run, void *arg) { return pe_pool_submit(s->pool, false, run, arg); }

/* ---- words ---- */

static json_t *shapes(const posenc_result *r)
{
    json_t *list = json_object();
    for (int i = 0; i < r->ntensors; i++) {
        const posenc_tensor *t = &r->tensor[i];
        json_t *shape = json_array();
        for (int k = 0; k < t->rank; k++)
            json_array_append_new(shape, json_integer(t->shape[k]));
        json_object_set_new(list, t->name,
                            json_pack("{s:s, s:o, s:I}", "dtype", posenc_dtype_name(t->dtype), "shape", shape, "bytes",
                                      (json_int_t)posenc_tensor_size(t)));
    }
    return list;
}

static char *dump(json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return text;
}

char *pe_service_explain(pe_service *s, const pe_request *q)
{
    const posenc_request *r = &q->r;
    pe_entry *e = pe_cache_get(s->cache, r->digest, false);
    json_t *o = json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:I, s:{s:f, s:I}, s:s}", "encoding", r->encoding->name,
                          "revision", r->encoding->revision, "digest", r->digest, "key", r->key, "params",
                          json_loads(r->params_json, 0, NULL), "tensors", shapes(&r->shape), "bytes", (json_int_t)r->size,
                          "cost", "seconds", r->cost.ns * 1e-9, "scratch_bytes", (json_int_t)r->cost.scratch, "cached",
                          e ? "memory" : "no");
    pe_entry_unref(e);
    return dump(o);
}

char *pe_service_capabilities(pe_service *s)
{
    const pe_config *c = s->config;
    json_t *encodings = json_object(), *dtypes = json_array(), *formats = json_array();
    for (size_t i = 0; i < posenc_encodings(); i++)
        json_object_set_new(encodings, posenc_encoding_at(i)->name, json_integer(posenc_encoding_at(i)->revision));
    for (int i = 0; i < PE_NDTYPES; i++)
        json_array_append_new(dtypes, json_string(posenc_dtype_name((posenc_dtype)i)));
    for (int i = 0; i < PE_NFORMATS; i++)
        json_array_append_new(formats, json_string(posenc_format_name((posenc_format)i)));
    json_t *limits = json_object();
    for (size_t i = 0; i < pe_config_table.nrows; i++) { /* every number among the settings */
        const posenc_param *row = &pe_config_table.rows[i];
        if (row->kind == PE_T_INT)
            json_object_set_new(limits, row->name, json_integer(*(const int64_t *)((const char *)c + row->offset)));
    }
    json_object_set_new(limits, "memory_budget", json_integer((json_int_t)c->memory_budget));
    return dump(json_pack("{s:s, s:o, s:o, s:o, s:o, s:{s:s, s:s}}", "version", POSENC_VERSION, "encodings", encodings,
                          "dtypes", dtypes, "formats", formats, "limits", limits, "build", "compiler", __VERSION__,
                          "version", POSENC_VERSION));
}

char *pe_service_version(void)
{
    return dump(json_pack("{s:s, s:s, s:s}", "name", "posencd", "version", POSENC_VERSION, "compiler", __VERSION__));
}

char *pe_service_metrics_text(pe_service *s)
{
    pe_cache_stats c;
    pe_cache_stats_get(s->cache, &c);
    char gauges[2048];
    snprintf(
        gauges, sizeof gauges,
        "# HELP posenc_cache_size_bytes bytes held by the cache\n# TYPE posenc_cache_size_bytes gauge\n"
        "posenc_cache_size_bytes{tier=\"memory\"} %llu\n"
        "# HELP posenc_cache_pinned_bytes bytes evicted or not kept that are still being used\n# TYPE "
        "posenc_cache_pinned_bytes gauge\n"
        "posenc_cache_pinned_bytes{tier=\"memory\"} %llu\n"
        "# HELP posenc_cache_reserved_bytes bytes reserved for computations\n# TYPE posenc_cache_reserved_bytes gauge\n"
        "posenc_cache_reserved_bytes{tier=\"memory\"} %llu\n"
        "# HELP posenc_cache_size_limit_bytes memory budget\n# TYPE posenc_cache_size_limit_bytes gauge\n"
        "posenc_cache_size_limit_bytes{tier=\"memory\"} %llu\n"
        "# HELP posenc_cache_entries results held\n# TYPE posenc_cache_entries gauge\n"
        "posenc_cache_entries{tier=\"memory\"} %llu\n"
        "# HELP posenc_queue_depth computations waiting for a thread\n# TYPE posenc_queue_depth gauge\nposenc_queue_depth "
        "%d\n"
        "# HELP posenc_build_info build facts\n# TYPE posenc_build_info gauge\nposenc_build_info{version=\"" POSENC_VERSION
        "\"} 1\n"
        "# HELP process_uptime_seconds time since start\n# TYPE process_uptime_seconds gauge\nprocess_uptime_seconds %.3f\n",
        (unsigned long long)c.resident, (unsigned long long)c.pinned, (unsigned long long)c.reserved,
        (unsigned long long)c.budget, (unsigned long long)c.entries, pe_pool_depth(s->pool),
        (double)(pe_now_ns() - s->started_ns) * 1e-9);
    return pe_metrics_text(s->metrics, gauges);
}

/* ---- life ---- */

static void evicted(void *user, uint64_t bytes)
{
    pe_metrics_add(((pe_service *)user)->metrics, PE_posenc_cache_evicted_bytes_total, "tier=\"memory\"", (double)bytes);
}

static int cores(int64_t setting)
{
    long n = setting ? (long)setting : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

pe_service *pe_service_new(const pe_config *c, posenc_error *err)
{
    pe_service *s = calloc(1, sizeof *s);
    if (!s)
        goto no_memory;
    s->config = c;
    s->started_ns = pe_now_ns();
    s->metrics = pe_metrics_new();
    s->cache = pe_cache_new(c->memory_budget, evicted, s);
    s->threads = cores(c->threads);
    s->pool = pe_pool_new(s->threads, (int)c->queue);
    if (!s->metrics || !s->cache || !s->pool)
        goto no_memory;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->timer_lock, NULL);
    pthread_mutex_init(&s->phase_lock, NULL);
    pthread_cond_init(&s->timer_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!pthread_create(&s->timer_thread, NULL, watch_deadlines, s))
        return s;
no_memory:
    posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "memory and threads for the service");
    if (s) {
        pe_pool_free(s->pool);
        pe_cache_free(s->cache);
        pe_metrics_free(s->metrics);
    }
    free(s);
    return NULL;
}

void pe_service_free(pe_service *s)
{
    if (!s)
        return;
    pe_pool_free(s->pool);
    pthread_mutex_lock(&s->timer_lock);
    s->stopping = true;
    pthread_cond_signal(&s->timer_cond);
    pthread_mutex_unlock(&s->timer_lock);
    pthread_join(s->timer_thread, NULL);
    pe_cache_free(s->cache);
    pe_metrics_free(s->metrics);
    pthread_cond_destroy(&s->timer_cond);
    pthread_mutex_destroy(&s->timer_lock);
    pthread_mutex_destroy(&s->phase_lock);
    free(s);
}

const pe_config *pe_service_config(const pe_service *s) { return s->config; }
pe_metrics *pe_service_metrics(pe_service *s) { return s->metrics; }
pe_cache *pe_service_cache(pe_service *s) { return s->cache; }

void pe_service_on_phase(pe_service *s, void (*changed)(void *user), void *user)
{
    pthread_mutex_lock(&s->phase_lock);
    s->changed = changed;
    s->changed_user = user;
    pthread_mutex_unlock(&s->phase_lock);
}

void pe_service_set_phase(pe_service *s, pe_phase p)
{
    pthread_mutex_lock(&s->phase_lock);
    s->phase = p;
    void (*changed)(void *) = s->changed;
    void *user = s->changed_user;
    pthread_mutex_unlock(&s->phase_lock);
    if (changed)
        changed(user);
}

pe_phase pe_service_phase(pe_service *s)
{
    pthread_mutex_lock(&s->phase_lock);
    pe_phase p = s->phase;
    pthread_mutex_unlock(&s->phase_lock);
    return p;
}

bool pe_service_ready(pe_service *s, char *why, size_t size)
{
    static const char *const phases[] = { "starting", "serving", "leaving", "draining" };
    pe_phase p = pe_service_phase(s);
    int depth = pe_pool_depth(s->pool);
    int64_t now = pe_now_ns(), none = 0;
    if (depth * 10 < s->config->queue * 9)
        atomic_store(&s->queue_high_since, 0);
    else
        atomic_compare_exchange_strong(&s->queue_high_since, &none, now);
    int64_t since = atomic_load(&s->queue_high_since);
    bool queue_ok = !since || now - since < 30000000000;
    if (why)
        snprintf(why, size, "phase: %s\nqueue: %s (%d of %lld)\n", phases[p], queue_ok ? "ok" : "full for 30 s", depth,
                 (long long)s->config->queue);
    return p == PE_SERVING && queue_ok;
}
