/* input.h - graphs and tensors from files, as a binary body holds them.
 *
 * Local and remote requests start from the same list, so both are the same request.
 * Ownership: everything lives in the arena given. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "order.h"

typedef struct input {
    posenc_tensor *tensor; /* edge_index, edge_weight, ptr, and tensor parameters by name */
    size_t n;
    int64_t num_nodes; /* -1: not said */
    bool directed;
} input;

posenc_status input_read(const order *o, posenc_arena *a, input *out, posenc_error *err);
/* The whole file and a NUL after it, of any kind that can be read (pipes too). */
posenc_status input_file(const char *path, const char *field, posenc_arena *a, const char **bytes, size_t *size,
                         posenc_error *err);

#endif
