/* analyze.h - reports: `posenc analyze`, what an encoding's table, or a table in a file, is like; `posenc identify`, which
 * encoding gives it; `posenc compare`, how it differs from an encoding's. */
#ifndef CLI_ANALYZE_H
#define CLI_ANALYZE_H

#include "input.h"
#include "watch.h"

/* Both return an exit code and put what went wrong into err. */
int analyze_run(const order *o, const input *in, posenc_arena *arena, watch *w, posenc_context *ctx, posenc_error *err);
int analyze_help(const order *o, watch *w, posenc_error *err);

#endif
