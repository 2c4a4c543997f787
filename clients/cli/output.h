/* output.h - where results go: standard output, or a file that appears whole or not at all. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "posenc.h"

/* path NULL: standard output. A regular file is written beside its place and renamed; other files (devices, pipes)
 * are written as they are. Stops when posenc_poll(ctx) says so. */
posenc_status output_write(const char *path, const posenc_piece *piece, size_t n, const posenc_context *ctx,
                           posenc_error *err);

#endif
