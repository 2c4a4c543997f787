/* http.c - connections of the REST door: accepting, bodies, parking, starting and stopping.
 *
 * Threads. libmicrohttpd's run the handlers; one keeper accepts, watches parked connections for clients that leave, and
 * lets the guard sweep. Accepting is ours because libmicrohttpd stops listening with a thread that has met EMFILE until
 * one of that thread's own connections ends, and spins where there is none.
 *
 * Parking. A suspended connection belongs to nobody in libmicrohttpd; exactly one resume must follow the suspend, from
 * whatever thread ends the wait. `turn` settles who does it:
 *
 *     libmicrohttpd's thread, in the handler              whoever ends the wait (service, pool, keeper)
 *     turn is RUNNING; hand the work over                 ... the answer is written ...
 *     list it, suspend                                    if (exchange(turn, READY) == PARKED) resume
 *     if (exchange(turn, PARKED) == READY) resume
 *
 * The two exchanges are ordered. If the handler's comes first, the other side finds PARKED and resumes; otherwise the
 * handler finds READY and resumes itself. Both times once, and after the suspend. Only one party ends a wait: `done` of the
 * call, or who cancelled it successfully, or the job. After the resume the exchange is the handler's again, on the same
 * thread; it cannot be freed before, as libmicrohttpd never ends a suspended connection.
 *
 * A client that leaves. libmicrohttpd does not look at suspended sockets, so the keeper polls them for POLLRDHUP. A FIN
 * with nothing unread before it means gone, although it might be a client that only closed its sending side:
 * libmicrohttpd would drop such a connection at the resume anyway. Such a client gets its answer where nothing was
 * parked. A FIN behind pipelined requests is no sign.
 *
 * Locks. `lock` guards the list of parked exchanges, and their `parked`. Under it the keeper may enter the
 * service (cancel) and libmicrohttpd (resume); nobody takes it while holding a lock of theirs. */
#include "http/http.h"

#include "http/exchange.h"
#include "http/guard.h"
#include "log.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SWEEP_MS = 250,
    PAUSE_MS = 50, /* until a listener that met EMFILE is tried again */
    ACCEPT_BURST = 64,
    LAST_BURST = 16384, /* when the door closes: whole backlogs, but not for ever */
    FIRST_BODY = 4096,
    FREE_BODY = 64 << 10, /* larger bodies are charged to the memory budget */
    SAMPLE = 100          /* every so many requests one log line */
};

/* What an event is about: below WAKE a listener's place in the list; PARKED + descriptor, and above 32 bits the serial
 * number of the parking, because an event may outlive its descriptor. */
enum { WAKE = 7, PARKED = 8 };

typedef struct listener {
    pe_http *http;
    struct MHD_Daemon *daemon;
    int fd;
    bool admin, paused;
    char address[300];
    atomic_int open;       /* connections */
    int64_t complained_ns; /* last line about descriptors */
} listener;

struct pe_http {
    pe_service *service;
    const pe_config *config;
    listener at[2]; /* public, admin */
    int nlisteners;
    pe_page list;
    pe_page *page; /* by encoding */
    pe_sizes sizes;
    int epoll, wake;
    pthread_t keeper;
    bool keeping;
    atomic_bool stopping, ending; /* no more parking; the keeper ends */
    atomic_bool quiesce, quiet;   /* asked of the keeper; done by it */
    _Atomic int64_t tick_ns;      /* the keeper's last round */
    atomic_int adding;    /* accepted, and not yet with a thread of libmicrohttpd (or lost there for lack of memory) */
    atomic_int in_flight; /* from the request line to the last byte */
    atomic_int waiting;   /* between pe_wait_allowed and the end of the wait */
    atomic_uint requests;
    pthread_mutex_t lock; /* guards parked and parkings */
    pe_exchange *parked;
    uint32_t parkings;          /* so far */
    pthread_mutex_t stats_lock; /* guards seen */
    pe_guard_stats seen;
};

const pe_page *pe_http_list_page(pe_http *h) { return &h->list; }
pe_sizes *pe_http_sizes(pe_http *h) { return &h->sizes; }

const pe_page *pe_http_page(pe_http *h, const posenc_encoding *e)
{
    size_t i = 0;
    while (posenc_encoding_at(i) != e)
        i++;
    return &h->page[i];
}

const char *pe_header(pe_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* ---- parking ---- */

/* Ends the wait of x, whose answer is written. Any thread, once. */
static void ready(pe_exchange *x)
{
    struct MHD_Connection *c = x->connection; /* x may be gone right after the exchange */
    if (atomic_exchange(&x->turn, PE_TURN_READY) == PE_TURN_PARKED)
        MHD_resume_connection(c);
}

void pe_call_ended(pe_exchange *x) { ready(x); }

/* See the top of this file. */
static void park(pe_exchange *x)
{
    pe_http *h = x->http;
    struct epoll_event e = { .events = EPOLLRDHUP | EPOLLONESHOT };
    pthread_mutex_lock(&h->lock);
    x->parked = true;
    x->parking = ++h->parkings;
    e.data.u64 = (uint64_t)x->parking << 32 | ((uint64_t)x->fd + PARKED);
    x->prev = NULL;
    x->next = h->parked;
    if (x->next)
        x->next->prev = x;
    h->parked = x;
    epoll_ctl(h->epoll, EPOLL_CTL_ADD, x->fd, &e); /* a failure costs only the early notice */
    pthread_mutex_unlock(&h->lock);
    pe_guard_busy(x->fd);
    MHD_suspend_connection(x->connection);
    if (atomic_exchange(&x->turn, PE_TURN_PARKED) == PE_TURN_READY)
        MHD_resume_connection(x->connection);
}

/* The wait is over. libmicrohttpd's thread. */
static void unpark(pe_exchange *x)
{
    pe_http *h = x->http;
    if (!x->parked)
        return;
    pthread_mutex_lock(&h->lock);
    x->parked = false;
    *(x->prev ? &x->prev->next : &h->parked) = x->next;
    if (x->next)
        x->next->prev = x->prev;
    epoll_ctl(h->epoll, EPOLL_CTL_DEL, x->fd, NULL);
    pthread_mutex_unlock(&h->lock);
    pe_unwait(x);
}

/* Stopping waits until nobody is between this and pe_unwait: either it sees the count, or we see `stopping`. */
bool pe_wait_allowed(pe_exchange *x)
{
    atomic_store(&x->turn, PE_TURN_RUNNING);
    atomic_fetch_add(&x->http->waiting, 1);
    if (!atomic_load(&x->http->stopping))
        return true;
    pe_unwait(x);
    return false;
}

void pe_unwait(pe_exchange *x) { atomic_fetch_sub(&x->http->waiting, 1); }

bool pe_park_call(pe_exchange *x)
{
    if (atomic_load(&x->turn) == PE_TURN_READY) {
        pe_unwait(x);
        return false;
    }
    x->job = NULL;
    park(x);
    return true;
}

static void run_job(void *arg)
{
    pe_exchange *x = arg;
    x->job(x);
    ready(x);
}

bool pe_park_job(pe_exchange *x, void (*job)(pe_exchange *x))
{
    if (!pe_wait_allowed(x))
        return false;
    x->job = job;
    if (!pe_service_run(x->service, run_job, x)) {
        pe_unwait(x);
        return false;
    }
    park(x);
    return true;
}

/* Ends a parked call with this status, unless it is ending by itself. The lock is held. */
static void cut(pe_exchange *x, posenc_status status)
{
    if (x->job || !pe_service_cancel(x->service, &x->call))
        return;
    x->call.status = status;
    ready(x);
}

/* Has the client ended the connection, with nothing unread before the end? */
static bool is_gone(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Something happened to a connection in its parking of this number, which may be over. */
static void look_after(pe_http *h, uint32_t parking, uint32_t events)
{
    pthread_mutex_lock(&h->lock);
    pe_exchange *x = h->parked;
    while (x && x->parking != parking)
        x = x->next;
    if (x && (events & (EPOLLHUP | EPOLLERR) || is_gone(x->fd)))
        cut(x, PE_CANCELLED);
    pthread_mutex_unlock(&h->lock);
}

/* ---- requests ---- */

static void make_id(pe_exchange *x)
{
    const char *theirs = pe_header(x, "X-Request-Id");
    if (theirs && pe_request_id_sane(theirs))
        snprintf(x->request_id, sizeof x->request_id, "%s", theirs);
    else
        snprintf(x->request_id, sizeof x->request_id, "%016llx", (unsigned long long)pe_guard_id());
}

static void set_method(pe_exchange *x, const char *method)
{
    static const struct {
        const char *name;
        pe_method method;
    } known[] = { { "GET", PE_GET },      { "HEAD", PE_HEAD },     { "POST", PE_POST },   { "PUT", PE_OTHER },
                  { "DELETE", PE_OTHER }, { "OPTIONS", PE_OTHER }, { "PATCH", PE_OTHER }, { "TRACE", PE_OTHER } };
    x->method = PE_OTHER;
    x->method_name = "other";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(method, known[i].name)) {
            x->method = known[i].method;
            x->method_name = known[i].name;
        }
}

static void check_body(pe_exchange *x)
{
    const char *coding = pe_header(x, "Content-Encoding"), *type = pe_header(x, "Content-Type");
    x->media = pe_media_parse(type);
    if (!pe_header(x, "Content-Length") && !pe_header(x, "Transfer-Encoding"))
        pe_refuse(x, 411, "INVALID_ARGUMENT", "LENGTH_REQUIRED", "Content-Length", "absent", "a body with a length");
    else if (coding && strcasecmp(coding, "identity"))
        pe_refuse(x, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "Content-Encoding", coding, "bodies as they are");
    else if (x->media == PE_MEDIA_NONE || x->media == PE_MEDIA_OTHER || (x->media == PE_MEDIA_NPY && !x->route->report))
        pe_refuse(x, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "Content-Type", type ? type : "absent",
                  x->route->report
                      ? "application/json (in UTF-8), application/x-npy, application/x-npz or application/vnd.safetensors"
                      : "application/json (in UTF-8), application/vnd.safetensors or application/x-npz");
}

/* The head is there: what is refused now is refused whatever the body holds. */
static void read_head(pe_exchange *x, const char *method)
{
    set_method(x, method);
    make_id(x);
    pe_route_find(x);
    if (!x->refused && !x->route->probe && pe_service_phase(x->service) == PE_STARTING) {
        x->refused = true;
        posenc_fail(&x->error, PE_BUSY, "UNAVAILABLE", "server", "starting", "try again");
    }
    if (!x->refused && x->method == PE_POST)
        check_body(x);
    const char *timeout = x->refused ? NULL : pe_header(x, "Request-Timeout");
    int64_t ns;
    if (timeout && !pe_timeout_parse(timeout, &ns)) {
        x->refused = true;
        posenc_fail(&x->error, PE_INVALID, "INVALID_PARAMETER", "Request-Timeout", timeout,
                    "seconds, over 0 and at most 86400");
    } else if (timeout) {
        x->deadline_ns = x->begun_ns + ns;
    }
}

void pe_drop_request(pe_exchange *x)
{
    if (x->request && x->request->r.digest[0]) /* for the log */
        memcpy(x->asked.digest, x->request->r.digest, sizeof x->asked.digest);
    pe_request_unref(x->request);
    x->request = x->call.request = NULL;
}

void pe_let_go(pe_exchange *x)
{
    pe_drop_request(x);
    pe_drop_body(x);
    pe_representation_free(x->own);
    pe_entry_unref(x->entry);
    free(x->compressed);
    free(x->resolved);
    free(x->resolved_warnings);
    x->resolved = x->resolved_warnings = NULL;
    x->own = NULL;
    x->made = NULL;
    x->entry = NULL;
    x->compressed = NULL;
}

void pe_drop_body(pe_exchange *x)
{
    free(x->body);
    x->body = NULL;
    x->body_size = x->body_room = 0;
    if (x->body_reserved)
        pe_cache_release(pe_service_cache(x->service), x->body_reserved);
    x->body_reserved = 0;
}

static void refuse_body(pe_exchange *x, posenc_status st)
{
    long long limit = (long long)x->http->config->max_body;
    pe_drop_body(x);
    if (st == PE_LIMIT) {
        pe_refuse(x, 413, "INVALID_ARGUMENT", "LIMIT_EXCEEDED", "body", posenc_text("over %lld bytes", limit).s,
                  "a smaller body (setting max_body)");
        return;
    }
    x->refused = true;
    posenc_fail(&x->error, PE_BUSY, "OUT_OF_MEMORY", "body", "",
                "try again: the memory budget is in use (setting memory_budget)");
}

/* Grows by doubling with what has arrived: a Content-Length alone costs nothing. */
static bool make_room(pe_exchange *x, size_t more)
{
    size_t room = x->body_room ? x->body_room : FIRST_BODY;
    while (room - x->body_size < more)
        room *= 2;
    if (room == x->body_room)
        return true;
    uint64_t charge = room > FREE_BODY ? room - x->body_reserved : 0;
    if (charge && !pe_cache_reserve(pe_service_cache(x->service), charge))
        return false;
    x->body_reserved += charge;
    char *longer = realloc(x->body, room);
    if (!longer)
        return false;
    x->body = longer;
    x->body_room = room;
    return true;
}

static void take_body(pe_exchange *x, const char *bytes, size_t n)
{
    x->received += n;
    if (x->refused) /* drained, so that the client reads its answer and not a reset */
        return;
    if (x->received > (uint64_t)x->http->config->max_body) /* the guard's limit is the same */
        refuse_body(x, PE_LIMIT);
    else if (!make_room(x, n + 1))
        refuse_body(x, PE_BUSY);
    else {
        memcpy(x->body + x->body_size, bytes, n);
        x->body_size += n;
        x->body[x->body_size] = 0;
    }
}

static enum MHD_Result work(pe_exchange *x) { return x->refused ? pe_answer_error(x) : x->route->run(x); }

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *protocol, const char *upload, size_t *upload_size, void **context)
{
    pe_exchange *x = *context;
    (void)cls, (void)c, (void)url, (void)protocol;
    if (!x)
        return MHD_NO; /* there was no memory for it */
    switch (x->at) {
    case PE_AT_HEAD:
        x->at = PE_AT_BODY;
        read_head(x, method);
        /* an answer queued now ends the connection, so only who has been asked to wait for it gets it at once */
        if (x->refused && pe_header(x, "Expect"))
            return pe_answer_error(x);
        return MHD_YES;
    case PE_AT_BODY:
        if (*upload_size) {
            take_body(x, upload, *upload_size);
            *upload_size = 0;
            return MHD_YES;
        }
        x->at = PE_AT_WORK;
        return work(x);
    default: unpark(x); return work(x);
    }
}

/* The request line is there: the raw target, before anything is decoded. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *c)
{
    listener *l = cls;
    pe_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    atomic_fetch_add(&l->http->in_flight, 1);
    x->http = l->http;
    x->service = l->http->service;
    x->connection = c;
    x->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    x->admin = l->admin;
    x->begun_ns = pe_now_ns();
    x->method_name = "other";
    x->path = strdup(target ? target : "");
    if (x->path && (x->query = strchr(x->path, '?')))
        *x->query++ = 0;
    if (!x->path) {
        atomic_fetch_sub(&l->http->in_flight, 1);
        free(x);
        return NULL;
    }
    return x;
}

static const char *peer_of(pe_exchange *x, char *out, size_t size)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    out[0] = 0;
    if (i && i->client_addr)
        getnameinfo(i->client_addr,
                    i->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), out,
                    (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    return out;
}

static void log_request(pe_exchange *x, pe_level level, double seconds)
{
    char peer[64];
    const char *digest = x->asked.digest;
    pe_log_event(
        level, "request", "request_id", x->request_id, "listener", x->admin ? "admin" : "http", "method", x->method_name,
        "route", x->route ? x->route->path : "unmatched", "status", posenc_text("%d", x->status).s, "duration_s",
        posenc_text("%.6f", seconds).s, "queue_s", x->call.queue_s > 0 ? posenc_text("%.6f", x->call.queue_s).s : NULL,
        "bytes_in", posenc_text("%llu", (unsigned long long)x->received).s, "bytes_out",
        posenc_text("%llu", (unsigned long long)x->sent).s, "encoding",
        posenc_encoding_named(x->asked.encoding) ? x->asked.encoding : NULL, "cache_result", x->cache_word, "digest",
        digest[0] ? posenc_text("%.12s", digest).s : NULL, "peer", peer_of(x, peer, sizeof peer), "reason", x->reason, NULL);
}

static void account(pe_exchange *x)
{
    char labels[160];
    double seconds = (double)(pe_now_ns() - x->begun_ns) * 1e-9;
    if (!x->answered && x->at != PE_AT_WORK)
        return; /* it never was a whole request; the guard counts those it refused */
    const char *route = x->route ? x->route->path : "unmatched";
    pe_metrics *m = pe_service_metrics(x->service);
    if (!x->answered)
        x->status = 499; /* the client left before its answer */
    snprintf(labels, sizeof labels, "route=\"%s\",method=\"%s\",code=\"%d\"", route, x->method_name, x->status);
    pe_metrics_add(m, PE_posenc_http_requests_total, labels, 1);
    snprintf(labels, sizeof labels, "route=\"%s\"", route);
    pe_metrics_observe(m, PE_posenc_http_request_duration_seconds, labels, seconds);
    bool theirs = x->status >= 400 && x->status < 500; /* malformed input is normal life */
    bool sampled = !theirs && atomic_fetch_add(&x->http->requests, 1) % SAMPLE == 0;
    bool told = !theirs && (x->status > 500 || seconds > 1 || sampled);
    pe_level level = x->status == 500 ? PE_ERROR : told ? PE_INFO : PE_DEBUG;
    if (pe_log_on(level))
        log_request(x, level, seconds);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode why)
{
    pe_exchange *x = *context;
    (void)cls, (void)why;
    pe_guard_done(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    *context = NULL;
    if (!x)
        return;
    pe_http *h = x->http;
    unpark(x);
    account(x);
    pe_let_go(x);
    pe_entry_unref(x->call.entry);
    free(x->path);
    free(x);
    atomic_fetch_sub(&h->in_flight, 1);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what)
{
    listener *l = cls;
    int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    (void)context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_add(&l->open, 1);
        pe_guard_open(fd);
        atomic_fetch_sub(&l->http->adding, 1);
    } else {
        pe_guard_close(fd);
        atomic_fetch_sub(&l->open, 1);
    }
}

/* Paths and queries stay as they were sent: decoding is ours. */
static size_t leave_escaped(void *cls, struct MHD_Connection *c, char *s)
{
    (void)cls, (void)c;
    return strlen(s);
}

static void on_message(void *cls, const char *format, va_list ap)
{
    char text[256];
    (void)cls;
    if (!pe_log_on(PE_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, ap);
    text[strcspn(text, "\r\n")] = 0;
    pe_log_event(PE_DEBUG, "libmicrohttpd", "msg", text, NULL);
}

/* ---- the keeper ---- */

static void watch_listener(listener *l, bool on)
{
    struct epoll_event e = { .events = on ? EPOLLIN : 0, .data.u64 = (uint64_t)(l - l->http->at) };
    epoll_ctl(l->http->epoll, EPOLL_CTL_MOD, l->fd, &e);
    l->paused = !on;
}

static void complain(listener *l, int error)
{
    int64_t now = pe_now_ns();
    if (l->complained_ns && now - l->complained_ns < 1000000000)
        return;
    l->complained_ns = now;
    pe_log_event(PE_ERROR, "accept_failed", "listener", l->address, "msg", strerror(error), NULL);
}

/* Takes what waits, at most so many. False: out of descriptors or memory, try later. */
static bool accept_some(listener *l, int most)
{
    for (int i = 0; i < most; i++) {
        struct sockaddr_storage a;
        socklen_t n = sizeof a;
        int fd = accept4(l->fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
                continue;
            if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
                return true;
            complain(l, errno);
            return false;
        }
        /* closes it where a limit of connections is reached */
        atomic_fetch_add(&l->http->adding, 1);
        if (MHD_add_connection(l->daemon, fd, (struct sockaddr *)&a, n) == MHD_YES)
            continue;
        atomic_fetch_sub(&l->http->adding, 1);
        pe_metrics_add(pe_service_metrics(l->http->service), PE_posenc_http_refused_total, "reason=\"CONNECTIONS\"", 1);
    }
    return true;
}

static void count_refusals(pe_http *h)
{
    pe_guard_stats now;
    char labels[96];
    pthread_mutex_lock(&h->stats_lock);
    pe_guard_read_stats(&now);
    for (int i = 1; i < PE_FRAMING_REASONS; i++) {
        uint64_t more = now.refused[i] - h->seen.refused[i];
        snprintf(labels, sizeof labels, "reason=\"%s\"", pe_framing_reason_name((pe_framing_reason)i));
        if (more)
            pe_metrics_add(pe_service_metrics(h->service), PE_posenc_http_refused_total, labels, (double)more);
    }
    if (now.cut > h->seen.cut)
        pe_metrics_add(pe_service_metrics(h->service), PE_posenc_http_refused_total, "reason=\"SLOW_READER\"",
                       (double)(now.cut - h->seen.cut));
    h->seen = now;
    pthread_mutex_unlock(&h->stats_lock);
}

static void close_listeners(pe_http *h)
{
    for (int i = 0; i < h->nlisteners; i++) {
        listener *l = &h->at[i];
        epoll_ctl(h->epoll, EPOLL_CTL_DEL, l->fd, NULL);
        accept_some(l, LAST_BURST); /* who has connected already is served */
        shutdown(l->fd, SHUT_RDWR); /* who comes now is refused at once, and does not wait in a backlog */
    }
    atomic_store(&h->quiet, true);
}

static void *keep(void *arg)
{
    pe_http *h = arg;
    int64_t swept = 0;
    while (!atomic_load(&h->ending)) {
        struct epoll_event event[64];
        bool paused = false;
        for (int i = 0; i < h->nlisteners; i++)
            paused |= h->at[i].paused;
        int n = epoll_wait(h->epoll, event, 64, paused ? PAUSE_MS : SWEEP_MS);
        int64_t now = pe_now_ns();
        atomic_store(&h->tick_ns, now);
        for (int i = 0; i < h->nlisteners; i++)
            if (h->at[i].paused)
                watch_listener(&h->at[i], true);
        for (int i = 0; i < n; i++) {
            uint64_t which = event[i].data.u64;
            if (which < (uint64_t)h->nlisteners && !accept_some(&h->at[which], ACCEPT_BURST))
                watch_listener(&h->at[which], false);
            else if (which == WAKE)
                eventfd_read(h->wake, &(eventfd_t){ 0 });
            else if (which >= PARKED)
                look_after(h, (uint32_t)(which >> 32), event[i].events);
        }
        if (atomic_load(&h->quiesce) && !atomic_load(&h->quiet))
            close_listeners(h);
        if (now - swept > SWEEP_MS * 1000000LL) {
            swept = now;
            pe_guard_sweep(pe_guard_now());
            count_refusals(h);
        }
    }
    return NULL;
}

bool pe_loops_turn(pe_http *h) { return pe_now_ns() - atomic_load(&h->tick_ns) < 10000000000; }

char *pe_http_gauges(pe_http *h)
{
    char *text = malloc(1024);
    size_t n = 0;
    count_refusals(h);
    if (!text)
        return NULL;
    n += (size_t)snprintf(text, 1024,
                          "# HELP posenc_http_in_flight HTTP requests being served\n# TYPE posenc_http_in_flight gauge\n"
                          "posenc_http_in_flight %d\n# HELP posenc_open_connections connections by listener\n"
                          "# TYPE posenc_open_connections gauge\n",
                          atomic_load(&h->in_flight));
    for (int i = 0; i < h->nlisteners; i++)
        n += (size_t)snprintf(text + n, 1024 - n, "posenc_open_connections{listener=\"%s\"} %d\n",
                              h->at[i].admin ? "admin" : "http", atomic_load(&h->at[i].open));
    return text;
}

/* ---- start ---- */

static posenc_status no_memory(posenc_error *err)
{
    return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "http", "", "memory, descriptors and threads for the REST door");
}

/* The address as bound: "127.0.0.1:8080", "[::1]:8080". */
static void name_address(listener *l)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[256] = "", port[16] = "";
    getsockname(l->fd, (struct sockaddr *)&a, &n);
    getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(l->address, sizeof l->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static posenc_status bind_to(listener *l, const char *setting, const char *text, posenc_error *err)
{
    char host[256], port[16];
    int number, on = 1, error = 0;
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM }, *list = NULL;
    if (!pe_config_address(text, host, &number))
        return posenc_fail(err, PE_INVALID, "INVALID_ADDRESS", setting, text, "HOST:PORT");
    snprintf(port, sizeof port, "%d", number);
    if (getaddrinfo(host, port, &hints, &list))
        return posenc_fail(err, PE_INVALID, "INVALID_ADDRESS", setting, text, "an address that resolves");
    for (struct addrinfo *a = list; a && l->fd < 0; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) && !bind(fd, a->ai_addr, a->ai_addrlen) &&
            !listen(fd, SOMAXCONN))
            l->fd = fd;
        else
            error = errno;
        if (l->fd < 0 && fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    if (l->fd < 0)
        return posenc_fail(err, PE_PRECONDITION, "CANNOT_LISTEN", setting, text, "an address that can be bound: %s",
                           strerror(error));
    name_address(l);
    return PE_OK;
}

static unsigned cores(int64_t setting)
{
    long n = setting ? (long)setting : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (unsigned)n;
}

static struct MHD_Daemon *start_daemon(listener *l, const pe_guard_limits *limits)
{
    const pe_config *c = l->http->config;
    unsigned threads = l->admin ? 1 : cores(c->http_threads), n = 0;
    struct MHD_OptionItem o[16];
#define OPTION(name, v, p) o[n++] = (struct MHD_OptionItem){ MHD_OPTION_##name, (intptr_t)(v), p }
    OPTION(CONNECTION_LIMIT, (unsigned)c->connections, NULL);
    OPTION(PER_IP_CONNECTION_LIMIT, (unsigned)c->connections_per_address, NULL);
    OPTION(CONNECTION_TIMEOUT, (unsigned)((c->keep_alive_ms + 999) / 1000), NULL);
    OPTION(CONNECTION_MEMORY_LIMIT, pe_guard_memory(limits), NULL);
    OPTION(SIGPIPE_HANDLED_BY_APP, 1, NULL);
    if (threads > 1) /* for one thread it must not be set */
        OPTION(THREAD_POOL_SIZE, threads, NULL);
    OPTION(END, 0, NULL);
#undef OPTION
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL,
        NULL, on_request, l, MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_ARRAY, o, MHD_OPTION_URI_LOG_CALLBACK,
        on_target, l, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, l, MHD_OPTION_END);
}

static bool make_pages(pe_http *h)
{
    h->page = calloc(posenc_encodings(), sizeof *h->page);
    bool ok = h->page && pe_page_init(&h->list, posenc_describe_all());
    for (size_t i = 0; ok && i < posenc_encodings(); i++)
        ok = pe_page_init(&h->page[i], posenc_describe(posenc_encoding_at(i)));
    return ok;
}

static posenc_status open_listener(pe_http *h, int i, const char *setting, const char *text, posenc_error *err)
{
    listener *l = &h->at[i];
    *l = (listener){ .http = h, .fd = -1, .admin = i == 1 };
    h->nlisteners = i + 1;
    return bind_to(l, setting, text, err);
}

static bool start_threads(pe_http *h)
{
    const pe_config *c = h->config;
    pe_guard_limits limits = PE_GUARD_LIMITS_DEFAULT;
    limits.body = (uint64_t)c->max_body;
    limits.target = (uint32_t)c->max_target;
    limits.headers = (uint32_t)c->max_headers;
    limits.header_ms = (uint32_t)c->header_ms;
    limits.body_ms = (uint32_t)c->body_ms;
    pe_guard_init(&limits);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event woken = { .events = EPOLLIN, .data.u64 = WAKE };
    if (h->epoll < 0 || h->wake < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &woken))
        return false;
    for (int i = 0; i < h->nlisteners; i++) {
        listener *l = &h->at[i];
        struct epoll_event e = { .events = EPOLLIN, .data.u64 = (uint64_t)i };
        if (!(l->daemon = start_daemon(l, &limits)) || epoll_ctl(h->epoll, EPOLL_CTL_ADD, l->fd, &e))
            return false;
    }
    h->keeping = !pthread_create(&h->keeper, NULL, keep, h);
    return h->keeping;
}

pe_http *pe_http_start(pe_service *s, posenc_error *err)
{
    pe_http *h = calloc(1, sizeof *h);
    if (!h) {
        no_memory(err);
        return NULL;
    }
    h->service = s;
    h->config = pe_service_config(s);
    h->epoll = h->wake = -1;
    pthread_mutex_init(&h->lock, NULL);
    pthread_mutex_init(&h->stats_lock, NULL);
    pthread_mutex_init(&h->sizes.lock, NULL);
    pe_guard_read_stats(&h->seen);
    atomic_store(&h->tick_ns, pe_now_ns());
    posenc_status st = open_listener(h, 0, "http", h->config->http, err);
    if (!st && h->config->admin)
        st = open_listener(h, 1, "admin", h->config->admin, err);
    if (!st && (!make_pages(h) || !start_threads(h)))
        st = no_memory(err);
    if (!st)
        return h;
    pe_http_stop(h);
    return NULL;
}

const char *pe_http_address(const pe_http *h) { return h->at[0].address; }
const char *pe_http_admin_address(const pe_http *h) { return h->nlisteners > 1 ? h->at[1].address : NULL; }

/* ---- stop ---- */

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL); }

void pe_http_quiesce(pe_http *h)
{
    atomic_store(&h->quiesce, true);
    eventfd_write(h->wake, 1);
    while (!atomic_load(&h->quiet))
        nap();
}

bool pe_http_drain(pe_http *h, int64_t deadline_ns)
{
    /* twice in a row, because between reading and counting there is a moment */
    for (int quiet = 0; quiet < 2 && pe_now_ns() < deadline_ns; nap())
        quiet = atomic_load(&h->in_flight) || atomic_load(&h->adding) || pe_guard_unread() ? 0 : quiet + 1;
    return !atomic_load(&h->in_flight);
}

/* Calls are cut; jobs of the pool end by themselves. libmicrohttpd must not be stopped before. */
static void end_waits(pe_http *h)
{
    atomic_store(&h->stopping, true);
    while (atomic_load(&h->waiting)) {
        pthread_mutex_lock(&h->lock);
        for (pe_exchange *x = h->parked; x; x = x->next)
            cut(x, PE_BUSY);
        pthread_mutex_unlock(&h->lock);
        nap();
    }
}

void pe_http_stop(pe_http *h)
{
    if (!h)
        return;
    end_waits(h);
    pe_http_drain(h, pe_now_ns() + 200000000); /* the answers to those */
    if (h->keeping) {
        atomic_store(&h->ending, true);
        eventfd_write(h->wake, 1);
        pthread_join(h->keeper, NULL);
    }
    for (int i = 0; i < h->nlisteners; i++) {
        if (h->at[i].daemon)
            MHD_stop_daemon(h->at[i].daemon);
        if (h->at[i].fd >= 0)
            close(h->at[i].fd);
    }
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->wake >= 0)
        close(h->wake);
    for (size_t i = 0; h->page && i < posenc_encodings(); i++)
        pe_page_fini(&h->page[i]);
    pe_page_fini(&h->list);
    free(h->page);
    pthread_mutex_destroy(&h->lock);
    pthread_mutex_destroy(&h->stats_lock);
    pthread_mutex_destroy(&h->sizes.lock);
    free(h);
}
