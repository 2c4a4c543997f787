/* local.h - a request computed in this process. */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "input.h"

typedef struct local {
    posenc_request request;
    posenc_result result; /* tensors without data until local_compute */
    posenc_selection selection;
    void *memory;
} local;

/* Parameters, graph and tensors to a resolved request; all faults at once. */
posenc_status local_resolve(const order *o, const input *in, posenc_arena *a, local *l, posenc_context *ctx,
                            posenc_error *err);
/* What can be said about the container before computing. */
posenc_status local_check(const local *l, posenc_format f, posenc_error *err);
posenc_status local_compute(local *l, posenc_context *ctx, posenc_error *err);
posenc_origin local_origin(const local *l);
/* What `explain` answers, as JSON. NULL: no memory. */
const char *local_explain(const local *l, posenc_arena *a, size_t *size);
void local_fini(local *l);

#endif
