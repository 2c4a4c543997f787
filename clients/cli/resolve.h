/* resolve.h - `posenc resolve`: what a model's positions need, by its configuration. */
#ifndef CLI_RESOLVE_H
#define CLI_RESOLVE_H

#include "order.h"
#include "watch.h"

/* Here, or by the server of --url: the same answer. Returns an exit code. */
int resolve_run(const order *o, posenc_arena *a, watch *w, posenc_error *err);

#endif
