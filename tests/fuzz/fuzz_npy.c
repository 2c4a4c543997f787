/* fuzz_npy.c - the reader of npy never reads beyond its bytes; what it accepts is written and read again as it was. */
#include "posenc.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    posenc_arena *a = posenc_arena_new(1 << 24);
    posenc_tensor t, again;
    posenc_error err = { 0 };
    if (!a)
        abort();
    if (posenc_read_npy(data, size, "body", &t, a, &err) == PE_OK) {
        posenc_result r = { .ntensors = 1, .tensor = { t } };
        posenc_document d;
        if (posenc_write(PE_npy, NULL, &r, NULL, &d, NULL) != PE_OK)
            abort();
        char *file = posenc_alloc(a, (size_t)d.size), *p = file;
        for (size_t i = 0; file && i < d.npieces; p += d.piece[i++].size)
            memcpy(p, d.piece[i].data, (size_t)d.piece[i].size);
        if (file && posenc_read_npy(file, (size_t)d.size, "body", &again, a, NULL) == PE_OK) {
            if (again.dtype != t.dtype || again.rank != t.rank || memcmp(again.shape, t.shape, sizeof t.shape) != 0 ||
                (posenc_tensor_size(&t) && memcmp(again.data, t.data, (size_t)posenc_tensor_size(&t)) != 0))
                abort();
        } else if (file && size < 1 << 20) {
            abort();
        }
        posenc_document_fini(&d);
    } else if (err.n == 0) {
        abort();
    }
    posenc_arena_free(a);
    return 0;
}
