/* encode.c - answers golden cases with the library alone: no server, no socket.
 *
 * usage: encode < ORDERS          a line of ORDERS: encoding, request as one line of JSON, file to write (npz), by tabs
 * Prints a line an order: "ok", or the error. Driven by test_library.py. */
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static posenc_status compute(posenc_request *r, posenc_result *out, posenc_error *err)
{
    *out = r->shape;
    for (int i = 0; i < out->ntensors; i++) {
        size_t size = (size_t)posenc_tensor_size(&out->tensor[i]);
        out->tensor[i].data = posenc_alloc(r->arena, size ? size : 1);
        if (!out->tensor[i].data)
            return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "memory for the result");
    }
    return posenc_compute(r, out, NULL, err);
}

static bool save(const posenc_document *d, const char *path)
{
    FILE *f = fopen(path, "wb");
    bool good = f != NULL;
    for (size_t i = 0; i < d->npieces && good; i++)
        good = fwrite(d->piece[i].data, 1, (size_t)d->piece[i].size, f) == d->piece[i].size;
    return f && fclose(f) == 0 && good;
}

static posenc_status answer(const char *encoding, const char *json, const char *path, posenc_arena *a, posenc_error *err)
{
    posenc_request r;
    posenc_result result;
    posenc_document d = { 0 };
    const posenc_selection all = { 0 };
    posenc_status st;
    if ((st = posenc_request_init(&r, encoding, a, err)) || (st = posenc_request_json(&r, json, strlen(json), err)) ||
        (st = posenc_resolve(&r, err)) || (st = compute(&r, &result, err)))
        return st;
    const posenc_origin origin = { r.encoding, r.digest, r.params_json };
    st = posenc_write(PE_npz, &origin, &result, &all, &d, err);
    if (!st && !save(&d, path))
        st = posenc_fail(err, PE_INTERNAL, "IO", "output", path, "a file that can be written");
    posenc_document_fini(&d);
    return st;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        char *rest = line, *encoding = strsep(&rest, "\t"), *json = strsep(&rest, "\t"), *path = strsep(&rest, "\n");
        posenc_error err = { 0 };
        char text[1000];
        posenc_arena *a = path ? posenc_arena_new((size_t)1 << 32) : NULL;
        if (!a) {
            fprintf(stderr, "encode: a line is no order, or no memory\n");
            return 2;
        }
        puts(answer(encoding, json, path, a, &err) ? posenc_error_text(&err, text, sizeof text) : "ok");
        posenc_arena_free(a);
    }
    free(line);
    return 0;
}
