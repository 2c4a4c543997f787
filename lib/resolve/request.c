/* request.c - what was resolved, as a request that can be computed. */
#include "posenc.h"

#include <string.h>

posenc_status posenc_resolved_request(const posenc_resolved *q, posenc_arena *a, posenc_request *r, bool *large,
                                      posenc_error *err)
{
    enum { LARGE = 16 << 20 }; /* bytes */
    const double long_ns = 2e9;
    posenc_status st = posenc_request_init(r, q->encoding, a, err);
    if (!st)
        st = posenc_request_json(r, q->params_json, strlen(q->params_json), err);
    if (!st)
        st = posenc_resolve(r, err);
    *large = !st && (r->size > LARGE || r->cost.scratch > LARGE || r->cost.ns > long_ns);
    return st;
}
