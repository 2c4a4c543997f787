/* exchange.h - one HTTP request and its answer, as the files of the REST door share it.
 *
 *   http.c        connections, bodies, parking: calls pe_route and then route->run until an answer is queued
 *   routes.c      method and path -> handler; the small answers
 *   read_query.c  query and body -> request and selection
 *   encode.c      the path of an encoding, of a report about one or about a table, of a result
 *   resolve.c     the path of a model's configuration
 *   write.c       answers -> libmicrohttpd
 *   problem.c     errors -> problem documents
 *
 * An exchange lives from the request line to the last byte handed to the kernel, and belongs to the libmicrohttpd
 * thread of its connection. While it is parked, other threads touch only what `turn` and the door's lock protect. */
#ifndef PE_EXCHANGE_H
#define PE_EXCHANGE_H

#include "http/headers.h"
#include "http/http.h"

#include <microhttpd.h>
#include <stdatomic.h>

typedef struct pe_exchange pe_exchange;

/* Every handler queues an answer or parks the exchange; it is called again when the wait is over. */
typedef enum MHD_Result pe_handler(pe_exchange *x);

typedef enum pe_method { PE_GET = 1, PE_HEAD = 2, PE_POST = 4, PE_OTHER = 0 } pe_method;
typedef enum pe_where { PE_EVERYWHERE, PE_PUBLIC, PE_ADMIN } pe_where;

typedef struct pe_route {
    unsigned methods; /* set of pe_method; GET brings HEAD along */
    pe_where where;   /* PE_ADMIN: on the admin listener when there is one, otherwise on the only one */
    bool probe;       /* answered in every phase */
    const char *path; /* template, also the label of metrics */
    pe_handler *run;
    const char *summary;
    const char *report; /* the report that it asks for: parameters and body are of that, and of the encoding it is about */
} pe_route;

/* What a request asks of a result, beside the result itself. */
typedef struct pe_asked {
    char encoding[65], tensor[65], digest[65],
        ext[33]; /* from the path; "" where it has none (digest: then the request's) */
    posenc_format format;
    posenc_selection selection;
    char tensors[256]; /* ?tensors=a,b; "": not given */
    bool explain;
    int64_t num_nodes; /* -1: not given */
    bool directed;
    bool pinned; /* the URL names a revision or a digest: the answer never changes */
} pe_asked;

/* Where a parked exchange stands. See park() in http.c. */
enum { PE_TURN_RUNNING, PE_TURN_PARKED, PE_TURN_READY };

struct pe_exchange {
    pe_http *http;
    pe_service *service;
    struct MHD_Connection *connection;
    int fd;
    bool admin; /* came in by the admin listener */
    int64_t begun_ns;
    char *path, *query; /* the raw target, cut at the first `?`; query NULL: none */
    char request_id[65];

    /* from the head on */
    pe_method method;
    const char *method_name; /* of a bounded set, for metrics */
    const pe_route *route;   /* NULL: unmatched */
    bool refused;            /* the problem to answer, known before the body was read: */
    int refusal_status;      /*   0: by the status of `error` */
    const char *refusal_code;
    char allow[32]; /* of a 405 */
    posenc_error error;
    enum { PE_AT_HEAD, PE_AT_BODY, PE_AT_WORK } at;

    /* the body */
    pe_media media;
    char *body;
    size_t body_size, body_room;
    uint64_t received, body_reserved;

    /* encodings and results */
    enum { PE_READ, PE_CHECK, PE_BEGIN, PE_WRITE, PE_SEND } step;
    pe_asked asked;
    pe_request *request;
    int64_t deadline_ns;
    pe_call call;
    pe_entry *entry;
    const pe_representation *made;
    pe_representation *own;
    bool from_cache; /* the entry was there before */
    double encode_s;
    char etag[160]; /* strong, quoted */
    bool gzip;      /* the answer is compressed */
    unsigned char *compressed;
    size_t compressed_size;

    /* a model's configuration: what was made of it on the pool */
    char *resolved;
    size_t resolved_size;
    char *resolved_warnings; /* lines */

    /* parking */
    atomic_int turn;
    bool parked;      /* guarded by the door's lock, as the links */
    uint32_t parking; /* number of this one */
    pe_exchange *next, *prev;
    void (*job)(pe_exchange *x); /* what runs on the pool; NULL: the call */

    /* the answer */
    int status;
    uint64_t sent;          /* bytes of content */
    const char *reason;     /* of a problem; static or in error */
    const char *cache_word; /* hit, miss, collapsed; NULL: the cache had no part in the answer */
    bool answered;
};

/* ---- http.c ---- */

/* Parks until the call that was begun ends. True: parked, the handler returns MHD_YES. False: it has ended already. */
bool pe_park_call(pe_exchange *x);
void pe_call_ended(pe_exchange *x); /* from the call's `done`; any thread */
/* Runs `job` on the compute pool and parks. False: the queue is full or the door stops; nothing happened. */
bool pe_park_job(pe_exchange *x, void (*job)(pe_exchange *x));
/* Before pe_service_begin: false when the door stops. Balanced by pe_park_call, or by pe_unwait when begin answered at once.
 */
bool pe_wait_allowed(pe_exchange *x);
void pe_unwait(pe_exchange *x);

void pe_drop_body(pe_exchange *x); /* it has been read, or never will be */
void pe_drop_request(
    pe_exchange *x); /* its result is there, and what its input held is free; the digest stays, to be logged */
/* The answer is queued and has its own references: frees what made it. A slow reader keeps nothing but the answer. */
void pe_let_go(pe_exchange *x);
const char *pe_header(pe_exchange *x, const char *name); /* the first field of that name; NULL: none */
bool pe_loops_turn(pe_http *h);                          /* the door's own threads are alive */
char *pe_http_gauges(pe_http *h);                        /* lines for /metrics; malloc'ed */

/* A document that does not change while the daemon runs. */
typedef struct pe_page {
    char *text;
    size_t size;
    unsigned char *gzip; /* NULL: not worth it */
    size_t gzip_size;
    char etag[32];
} pe_page;
const pe_page *pe_http_list_page(pe_http *h);
const pe_page *pe_http_page(pe_http *h, const posenc_encoding *e); /* its descriptor */
bool pe_page_init(pe_page *p, char *text);                         /* takes text; false: no memory */
void pe_page_fini(pe_page *p);

/* Lengths of compressed answers by tag, so that HEAD and 304 can say them. Any thread. */
typedef struct pe_sizes {
    pthread_mutex_t lock;
    struct {
        char etag[160];
        uint64_t size;
    } slot[256];
} pe_sizes;
pe_sizes *pe_http_sizes(pe_http *h);

/* ---- routes.c ---- */

const pe_route *pe_route_at(size_t i); /* NULL after the last */
/* Finds the route and fills in what the path says; otherwise marks the exchange as refused. */
void pe_route_find(pe_exchange *x);

/* ---- read_query.c ---- */

/* All faults are collected in x->error; the status is the gravest. */
posenc_status pe_read_options(pe_exchange *x);                       /* results: rows, data, tensors */
posenc_status pe_read_request(pe_exchange *x);                       /* encodings: query and body into x->request */
posenc_status pe_refuse_query(pe_exchange *x);                       /* routes that take no parameters */
posenc_status pe_select(pe_exchange *x, const posenc_result *shape); /* names -> selection */

/* ---- encode.c ---- */

pe_handler pe_run_encoding, pe_run_result;

/* ---- resolve.c ---- */

pe_handler pe_run_resolve;

/* ---- write.c ---- */

enum MHD_Result pe_answer_error(pe_exchange *x); /* x->error by its status, or the refusal */
/* A refusal that only HTTP knows. `code` is gRPC's name. */
posenc_status pe_refuse(pe_exchange *x, int status, const char *code, const char *reason, const char *field,
                        const char *value, const char *allowed);
/* A short document made for this request: takes `text` (NULL: out of memory). cache_control NULL: no-store. */
enum MHD_Result pe_answer_text(pe_exchange *x, int status, const char *media, char *text, const char *cache_control);
/* A container made for this request: x->resolved, which is taken, with its warnings. Not to be stored. */
enum MHD_Result pe_answer_resolved(pe_exchange *x);
enum MHD_Result pe_answer_page(pe_exchange *x, const pe_page *page);
/* x->made of x->entry: 200, 206 or 416. */
enum MHD_Result pe_answer_result(pe_exchange *x);
/* 304, or 200 to HEAD, without content. `size` as 200 would have; UINT64_MAX: not known, the connection closes. */
enum MHD_Result pe_answer_head(pe_exchange *x, int status, uint64_t size);
void pe_make_etag(pe_exchange *x, const char *digest);
/* The length that the answer to GET would have, from shapes or from what is cached; UINT64_MAX: not known. Faults that
 * show without data are in x->error afterwards. */
uint64_t pe_known_size(pe_exchange *x, const posenc_origin *origin, const posenc_result *shape);
const pe_representation *pe_made_already(pe_exchange *x); /* the cached container of x->entry; NULL: none */
bool pe_not_modified(pe_exchange *x, const char *etag);   /* If-None-Match says so */
bool pe_fails_match(pe_exchange *x, const char *etag);    /* If-Match says no */
void pe_compress(pe_exchange *x);                         /* x->made into x->compressed, where it pays */
bool pe_compresses(const pe_exchange *x, uint64_t size);  /* whether it would */

/* ---- problem.c ---- */

/* A problem document, malloc'ed; NULL: no memory. */
char *pe_problem_text(int status, const char *code, const posenc_error *err, const char *request_id);

#endif
