/* fuzz_protobuf.c - bytes as an EncodeRequest: whatever they are, they unpack to bounded memory and end as a resolved
 * request or as a fault that says what is wrong.
 *
 * Input: the message. */
#include "grpc/reflect.h"

#include "grpc/status.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 64 << 20, LONGEST = 1 << 16, MAX_ROWS = 1 << 20 };

static void say(const posenc_error *err)
{
    char text[PE_STATUS_TEXT];
    uint8_t bytes[PE_STATUS_BYTES];
    if (!err->n || !err->fault[0].reason[0] || !pe_status_pack(err, posenc_status_grpc(err->status), text, bytes))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    posenc_arena *a = posenc_arena_new(MEMORY);
    uint8_t *bytes = malloc(size ? size : 1); /* freed before the request is used: nothing may point into it */
    posenc_request r = { 0 };
    posenc_error err = { 0 };
    posenc_selection sel;
    if (!a || !bytes)
        abort();
    if (size > LONGEST)
        size = LONGEST;
    if (size)
        memcpy(bytes, data, size);
    Posenc__V1__EncodeRequest *m = (Posenc__V1__EncodeRequest *)pe_reflect_unpack(&posenc__v1__encode_request__descriptor,
                                                                                  bytes, size, a, &err);
    free(bytes);
    if (posenc_arena_used(a) > 64 * size + (1 << 20))
        abort();
    if (m) {
        pe_reflect_request(m, &r, NULL, a, &err);
        bool small = !r.graph || posenc_graph_nodes(r.graph) <= MAX_ROWS; /* as the service's limits */
        if (r.encoding && small && !posenc_resolve(&r, &err))
            pe_reflect_selection(m, &r, &sel, &err);
    }
    if (err.n || !m)
        say(&err);
    posenc_arena_free(a);
    return 0;
}
