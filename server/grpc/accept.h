/* accept.h - the listening socket, and connections until their HTTP/2 preface has arrived.
 *
 * The C core's own listener dies for good when descriptors run out, and gives a silent connection two minutes. Here:
 * a cap in total and per address, a margin of descriptors kept free, a pause instead of death when there are none,
 * and 10 s for the preface and the first SETTINGS frame; only then the core gets the connection.
 *
 * new, stop and free are called by one thread; `ready` and `tick` run on the acceptor's own. */
#ifndef PE_GRPC_ACCEPT_H
#define PE_GRPC_ACCEPT_H

#include "config.h"

typedef struct pe_accept pe_accept;

typedef struct pe_accept_hooks {
    void (*ready)(void *user, int fd); /* a connection that speaks HTTP/2; takes the descriptor */
    void (*tick)(void *user);          /* every half second or so */
    void *user;
} pe_accept_hooks;

/* Binds c->grpc and starts the thread. NULL: see err. */
pe_accept *pe_accept_new(const pe_config *c, const pe_accept_hooks *hooks, posenc_error *err);
const char *pe_accept_address(const pe_accept *a);
/* Closes the listener and what has sent no preface; joins the thread. Connections handed over live on. Safe twice. */
void pe_accept_stop(pe_accept *a);
void pe_accept_free(pe_accept *a); /* NULL is fine */

#endif
