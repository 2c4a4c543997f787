/* call.h - the inside of the gRPC door: calls, the methods they go to, replies. Private to server/grpc.
 *
 * A pe_rpc is a call object: posted to the core, filled by it with a client's call, answered, posted again or freed.
 *
 * References. A call has one for the status it owes (dropped when the status has gone out), one for each batch under way
 * and one for each thread that is inside a function with it. Who may be racing - the thread that computes, the timer,
 * the poller that sees the client go - therefore never frees it under another's feet.
 *
 * Batches. Of each event of a call at most one is under way: `io` (send or receive), `closed` (the client went away), `last`
 * (the status). Whoever sends the status has the right to: for encodings pe_service_begin, done and pe_service_cancel give
 * that right to exactly one; streams (Watch, reflection) take it under the door's lock (pe_rpc_end). */
#ifndef PE_GRPC_CALL_H
#define PE_GRPC_CALL_H

#include "grpc/accept.h"
#include "grpc/grpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <protobuf-c/protobuf-c.h>

typedef struct pe_rpc pe_rpc;
typedef struct pe_reflection pe_reflection;

typedef struct pe_event {           /* the core's tags */
    void (*fn)(pe_rpc *c, bool ok); /* NULL: a new call */
    pe_rpc *rpc;
} pe_event;

#define WRITABLE(s) ((char *)(uintptr_t)(s)) /* protobuf-c has no const strings; packing does not write */

/* ---- methods ---- */

typedef struct pe_method {
    const char *service, *name, *type; /* as in metrics: unary, server_stream, bidi_stream */
    int slots;                         /* calls that the core may hand over at once */
    bool reads;                        /* messages are received one by one; otherwise the first comes with the call */
    void (*begin)(pe_rpc *c);
    void (*cancelled)(pe_rpc *c); /* the client is gone; NULL: nothing to do */
} pe_method;

enum {
    PE_ENCODE,
    PE_ENCODE_STREAM,
    PE_LIST_ENCODINGS,
    PE_GET_CAPABILITIES,
    PE_RESOLVE,
    PE_ANALYZE,
    PE_IDENTIFY,
    PE_COMPARE,
    PE_CHECK,
    PE_WATCH,
    PE_REFLECTION,
    PE_REFLECTION_ALPHA,
    PE_UNKNOWN_METHOD, /* whatever else a client calls */
    PE_NMETHODS
};
extern const pe_method pe_methods[PE_NMETHODS];

/* ---- the door ---- */

struct pe_grpc {
    pe_service *s;
    const pe_config *config;
    grpc_server *server;
    grpc_completion_queue *cq, *end_cq; /* calls; the end of the server */
    grpc_server_credentials *credentials;
    void *tag[PE_NMETHODS]; /* of registered methods */
    pe_accept *accept;
    pthread_t *poller;
    int npollers;
    grpc_slice encodings, capabilities; /* answers that never change */
    pe_reflection *reflection;
    bool shutting, over; /* main's thread alone: quiesced; the core has reported the end */

    pthread_mutex_t lock; /* guards all below, and the fields of calls that say so */
    pthread_cond_t idle;  /* a call has ended while quiet */
    pe_rpc *active, *spare;
    int nactive, nposted, nspare;
    int owed[PE_NMETHODS]; /* slots to post again when a call ends */
    bool quiet;            /* no new calls; streams end */
};

/* Tensors as they are sent: of a result, those selected, cut to the rows selected. */
typedef struct pe_parts {
    int n;
    posenc_tensor tensor[PE_MAX_OUTPUTS];
    uint64_t size[PE_MAX_OUTPUTS], total;
} pe_parts;

struct pe_rpc {
    pe_call wait; /* first: what the service hands back */
    pe_grpc *g;
    int method;
    atomic_int refs;
    pe_rpc *next, *prev; /* lock: in active; next also in spare */

    grpc_call *core;
    grpc_metadata_array metadata;
    grpc_call_details details; /* of an unknown method */
    gpr_timespec deadline;
    grpc_byte_buffer *request, *message;
    int gone; /* written by the core before `closed` comes: the call did not end well */
    pe_event fresh, closed, io, last;
    atomic_bool close_asked; /* who sets it asks the core to say when the client goes */
    bool headed;             /* initial metadata has been sent */
    int code;                /* gRPC status sent */
    int64_t begun_ns;
    _Atomic int64_t expires_ns; /* when a client that does not read is cut off; 0: not yet sending */
    char digest[65];            /* "": none to tell */

    void (*job)(pe_rpc *c); /* on the pool: what runs there */

    /* encodings */
    pe_request *q;
    posenc_selection selection;
    bool picture; /* Analyze: wanted, as wait.format */
    pe_parts parts;
    uint64_t offset; /* of the next chunk */

    /* streams */
    bool sending, end, ended; /* lock: a message is under way; the status is due; it is on its way */
    bool ready, known;        /* lock: Watch: the service asked for has been read; there is one of that name */
    int told;                 /* lock: Watch: what the client knows; -1: nothing */
    uint64_t files;           /* reflection: files sent already */
};

/* ---- call.c ---- */

void pe_rpc_ref(pe_rpc *c);
void pe_rpc_unref(pe_rpc *c);
/* Walks over the calls under way: returns the one after c (NULL: the first) with a reference, and gives back c's. */
pe_rpc *pe_rpc_next(pe_grpc *g, pe_rpc *c);
bool pe_rpc_post(pe_grpc *g, int method); /* one more slot; false: no memory */
void pe_rpc_poll(pe_grpc *g);             /* a poller's life: events until the queue is shut down */
void pe_rpc_expire(pe_grpc *g);           /* cuts off clients that do not read; tries failed posts again */

/* The message that came with the call, contiguous; unref *hold when done with it. */
const void *pe_rpc_bytes(grpc_byte_buffer *b, grpc_slice *hold, size_t *size);
int64_t pe_rpc_deadline_ns(const pe_rpc *c); /* CLOCK_MONOTONIC; 0: the client set none */
grpc_byte_buffer *pe_rpc_pack(const ProtobufCMessage *m);

/* Asks to be told when the client goes (method's `cancelled`), unless the reply has asked already. */
void pe_rpc_watch(pe_rpc *c);
/* Sends message (taken, may be NULL) and status: the call's end. `err` NULL: OK. `code` overrides the status of err when not
 * 0. */
void pe_rpc_reply(pe_rpc *c, grpc_byte_buffer *message, const posenc_error *err, int code);
void pe_rpc_send(pe_rpc *c, grpc_byte_buffer *message, void (*sent)(pe_rpc *c, bool ok)); /* takes message */
void pe_rpc_receive(pe_rpc *c, void (*got)(pe_rpc *c, bool ok));                          /* into c->message */
void pe_rpc_expect(pe_rpc *c, uint64_t size); /* sets expires_ns for an answer of that size */

/* Runs fn(c) on the pool; where its queue is full the call ends instead. */
void pe_rpc_run(pe_rpc *c, void (*fn)(pe_rpc *c));
/* For `begin`: reads a message of at most `here` bytes on this poller, a larger one on the pool; none while the server
 * starts, and none of over max_grpc_message, when the call ends. */
void pe_rpc_read(pe_rpc *c, size_t here, void (*read)(pe_rpc *c));

/* For Watch and reflection, whose status may be sent while a message is on its way. */
bool pe_rpc_begin_send(pe_rpc *c);                   /* lock held: false when ended or sending */
void pe_rpc_sent(pe_rpc *c, bool ok);                /* the message is out; sends the status if it has become due */
void pe_rpc_end(pe_rpc *c, const posenc_error *err); /* the status is due: now, or after the message that is on its way */
void pe_rpc_gone(pe_rpc *c);                         /* the same, as `cancelled` of a method */

/* ---- methods.c ---- */

bool pe_methods_prepare(pe_grpc *g); /* the answers that never change */
bool pe_rpc_serving(pe_rpc *c);      /* false, and the call is over, while the server starts */

/* ---- encode.c ---- */

void pe_encode_begin(pe_rpc *c);
void pe_encode_cancelled(pe_rpc *c);

/* ---- resolve.c ---- */

void pe_resolve_begin(pe_rpc *c);

/* ---- analyze.c: reports ---- */

void pe_analyze_begin(pe_rpc *c); /* Analyze, Identify, Compare: c->method says which */

/* ---- health.c ---- */

void pe_health_check(pe_rpc *c);
void pe_health_watch(pe_rpc *c);
void pe_health_tell(pe_grpc *g); /* tells watchers what has changed */

/* ---- reflection.c ---- */

pe_reflection *pe_reflection_new(void); /* NULL: no memory */
void pe_reflection_free(pe_reflection *r);
void pe_reflection_begin(pe_rpc *c);

#endif
