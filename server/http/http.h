/* http.h - the REST door, on libmicrohttpd behind the framing guard (guard.h).
 *
 * start, quiesce and stop are called by main's thread, in that order; everything else runs on the door's own threads. */
#ifndef PE_HTTP_H
#define PE_HTTP_H

#include "service.h"

typedef struct pe_http pe_http;

/* Binds and serves (requests are answered 503 until the service's phase is PE_SERVING, probes always). NULL: see err. */
pe_http *pe_http_start(pe_service *s, posenc_error *err);
const char *pe_http_address(const pe_http *h);       /* "127.0.0.1:8080", the port as bound */
const char *pe_http_admin_address(const pe_http *h); /* NULL without an admin listener */
void pe_http_quiesce(pe_http *h);                    /* accepts no more connections; those open are served on */
/* Waits until no request is in flight or the deadline (pe_now_ns) passes; true when none is. */
bool pe_http_drain(pe_http *h, int64_t deadline_ns);
void pe_http_stop(pe_http *h); /* resumes and ends what is left, joins, frees; NULL is fine */

#endif
