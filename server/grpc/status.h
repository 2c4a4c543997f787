/* status.h - an error as google.rpc.Status, for `grpc-status-details-bin`. No state; any thread. */
#ifndef PE_GRPC_STATUS_H
#define PE_GRPC_STATUS_H

#include "posenc.h"

enum {
    PE_STATUS_TEXT = 1024,  /* the message */
    PE_STATUS_BYTES = 4096, /* the details; 5.5 KiB in base64: clients refuse trailers over 8 KiB */
};

/* Writes the message and the packed Status (with gRPC code `code`); returns the bytes of the latter. Only printable
 * ASCII is quoted. Violations that do not fit are left out. */
size_t pe_status_pack(const posenc_error *err, int code, char text[PE_STATUS_TEXT], uint8_t bytes[PE_STATUS_BYTES]);

#endif
