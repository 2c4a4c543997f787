/* fuzz_identify.c - no table does harm: identify and compare refuse it, saying what is wrong, or answer in JSON; what
 * identify names is a request that gives a table of as many elements.
 *
 * Input: 2 bytes that say rows and columns, 1 that says dtype and axes, then elements, which are repeated. */
#include "posenc.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_json(char *s)
{
    json_t *o = s ? json_loads(s, JSON_REJECT_DUPLICATES, NULL) : NULL;
    must(json_is_object(o));
    json_decref(o);
    free(s);
}

static void identify(const posenc_tensor *t, posenc_arena *a)
{
    posenc_error err = { 0 };
    posenc_identification found;
    const posenc_status st = posenc_identify(t, 0, a, &found, NULL, &err);
    must(st == err.status && (st != PE_OK) == (err.n > 0));
    if (st)
        return;
    check_json(posenc_identification_json(&found));
    for (size_t i = 0; i < found.nmatches; i++) {
        posenc_request r;
        int64_t same = 0;
        must(!posenc_request_init(&r, found.match[i].encoding, a, NULL) &&
             !posenc_request_parse(&r, found.match[i].query, NULL) && !posenc_resolve(&r, NULL));
        for (int k = 0; k < r.shape.ntensors; k++)
            same += posenc_tensor_count(&r.shape.tensor[k]) == posenc_tensor_count(t);
        must(same > 0 && found.match[i].largest <= found.tolerance);
    }
}

static void compare(const posenc_tensor *t, posenc_arena *a)
{
    posenc_error err = { 0 };
    posenc_request r;
    posenc_comparison found;
    char query[120] = "embedding_dim=4&num_positions=8";
    if (t->rank == 2 && t->shape[1] && t->shape[1] % 2 == 0)
        strcpy(query, posenc_text("embedding_dim=%d&num_positions=%d", (int)t->shape[1], (int)t->shape[0]).s);
    must(!posenc_request_init(&r, "sinusoidal", a, NULL) && !posenc_request_parse(&r, query, NULL) &&
         !posenc_resolve(&r, NULL));
    const posenc_status st = posenc_compare(t, &r, NULL, a, &found, NULL, &err);
    must(st == err.status && (st != PE_OK) == (err.n > 0));
    if (!st)
        check_json(posenc_comparison_json(&found));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    const int64_t rows = data[0] % 40, cols = data[1] % 24;
    const posenc_dtype dtype = (posenc_dtype)(data[2] % PE_NDTYPES);
    posenc_tensor t = { .name = "table", .dtype = dtype, .rank = 2, .shape = { rows, cols } };
    if (data[2] & 64)
        t = (posenc_tensor){ .name = "table", .dtype = dtype, .rank = 1, .shape = { rows * cols } };
    else if (data[2] & 128 && rows % 2 == 0)
        t = (posenc_tensor){ .name = "table", .dtype = dtype, .rank = 3, .shape = { 2, rows / 2, cols } };
    const size_t bytes = (size_t)posenc_tensor_size(&t);
    char *elements = malloc(bytes + 1);
    posenc_arena *a = posenc_arena_new(256 << 20);
    must(elements && a);
    for (size_t i = 0; i < bytes; i++)
        elements[i] = (char)data[3 + i % (size - 3)];
    t.data = elements;
    identify(&t, a);
    compare(&t, a);
    posenc_arena_free(a);
    free(elements);
    return 0;
}
