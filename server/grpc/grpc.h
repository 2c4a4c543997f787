/* grpc.h - the gRPC door, on the gRPC C core.
 *
 * start, quiesce and stop are called by main's thread, in that order; everything else runs on the door's own threads.
 * Nothing of the C core's unstable surface is seen outside server/grpc/. */
#ifndef PE_GRPC_H
#define PE_GRPC_H

#include "service.h"

typedef struct pe_grpc pe_grpc;

/* Checks that every encoding's table agrees with its protobuf message, binds and serves. NULL: see err. */
pe_grpc *pe_grpc_start(pe_service *s, posenc_error *err);
const char *pe_grpc_address(const pe_grpc *g);       /* "127.0.0.1:50051", the port as bound */
void pe_grpc_quiesce(pe_grpc *g);                    /* accepts no more connections and calls; health watchers are told */
bool pe_grpc_drain(pe_grpc *g, int64_t deadline_ns); /* as pe_http_drain */
/* After a drain that ran out of time the core's own threads may end seconds later: leave the process by _exit then. */
void pe_grpc_stop(pe_grpc *g); /* cancels what is left, joins, frees; NULL is fine */

#endif
