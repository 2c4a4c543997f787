/* fuzz_safetensors.c - the reader of safetensors never reads beyond its bytes; every tensor it gives is there in full. */
#include "posenc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    posenc_arena *a = posenc_arena_new(1 << 26);
    posenc_tensor *t;
    posenc_error err = { 0 };
    size_t n;
    unsigned sum = 0;
    if (!a)
        abort();
    if (posenc_read_safetensors(data, size, "body", &t, &n, a, &err) == PE_OK) {
        for (size_t i = 0; i < n; i++) {
            const uint8_t *p = t[i].data;
            if (!t[i].name || !p || (uintptr_t)p % posenc_dtype_size(t[i].dtype))
                abort();
            for (uint64_t k = 0; k < posenc_tensor_size(&t[i]); k++)
                sum += p[k];
        }
    } else if (err.n == 0) {
        abort();
    }
    posenc_arena_free(a);
    *(volatile unsigned *)&sum = sum; /* the sum is read so that the loop stays */
    return 0;
}
