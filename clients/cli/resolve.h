/* resolve.h - `posenc resolve`: what a model's positions need, by its configuration. */
#ifndef CLI_RESOLVE_H
#define CLI_RESOLVE_H

#include "order.h"
#include "watch.h"

/* Here, or by the server of --url: the same answer, as a table, as JSON, or the tensors of the requests that need nothing
 * else as npz or safetensors. Returns an exit code. */
int resolve_run(const order *o, posenc_arena *a, watch *w, posenc_context *ctx, posenc_error *err);

#endif
