/* reflect.h - protobuf messages read through their descriptors: one reader for all encodings, no switch.
 *
 * A message names its encoding by the member of the oneof `encoding` that is set; every field of that member is a row of
 * the encoding's table. Any thread; no state. What is read lives in the request's arena. */
#ifndef PE_REFLECT_H
#define PE_REFLECT_H

#include "posenc.h"

#include "posenc/v1/encoding_service.pb-c.h"

/* Parity: every encoding is a member of the oneof and the other way round; every row is a field of the same name and kind
 * and the other way round; enums have the same words (upper case, - and . as _). INTERNAL, naming what differs. */
posenc_status pe_reflect_check(posenc_error *err);
/* The same for one table and message; `exact`: no further fields and words. */
posenc_status pe_reflect_check_table(const posenc_table *t, const ProtobufCMessageDescriptor *d, bool exact,
                                     posenc_error *err);

/* Unpacks into the arena, at most 16 times `size` and 64 KiB of it: hostile bytes cannot ask for more. NULL: see err
 * (INVALID, LIMIT; BUSY: the arena has no more). */
ProtobufCMessage *pe_reflect_unpack(const ProtobufCMessageDescriptor *d, const void *bytes, size_t size, posenc_arena *a,
                                    posenc_error *err);

/* Sets the rows that `m` has fields for. Unknown fields and words that are not in the list are faults. */
posenc_status pe_reflect_set(const ProtobufCMessage *m, const posenc_table *t, void *params, posenc_arena *a,
                             posenc_error *err);

/* EncodeRequest: starts `r` and fills in parameters and graph. The message must stay in the same arena. After a failure
 * posenc_resolve may add further faults, unless r->params is NULL: then `r` was not started. */
posenc_status pe_reflect_request(const Posenc__V1__EncodeRequest *m, posenc_request *r, posenc_context *ctx, posenc_arena *a,
                                 posenc_error *err);
/* The name of the encoding that it asks for; NULL after a fault. */
const char *pe_reflect_chosen(const Posenc__V1__EncodeRequest *m, posenc_error *err);
/* Its parameters and graph into `r`, which has been started for that encoding. */
posenc_status pe_reflect_fill(const Posenc__V1__EncodeRequest *m, posenc_request *r, posenc_arena *a, posenc_error *err);
/* Its `tensors` and `rows`, checked against the shapes of the resolved request. */
posenc_status pe_reflect_selection(const Posenc__V1__EncodeRequest *m, const posenc_request *r, posenc_selection *out,
                                   posenc_error *err);

#endif
