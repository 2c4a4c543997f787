/* fuzz_resolve.c - no configuration does harm: it is refused with a place, or every request of the answer is JSON that its
 * encoding accepts.
 *
 * Input: the text of config.json. */
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

static void check_object(const char *s)
{
    json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    must(json_is_object(o));
    json_decref(o);
}

static void check_request(const posenc_resolved *q)
{
    posenc_error err = { 0 };
    posenc_request r;
    check_object(q->params_json);
    check_object(q->needs_json);
    must(q->layer_type && q->note);
    if (!q->complete)
        return;
    posenc_arena *a = posenc_arena_new(64 << 20);
    must(a && !posenc_request_init(&r, q->encoding, a, &err));
    must(!posenc_request_json(&r, q->params_json, strlen(q->params_json), &err));
    must(!posenc_resolve(&r, &err));
    posenc_arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    posenc_arena *a = posenc_arena_new(256 << 20);
    char *text = malloc(size ? size : 1); /* its own block: the sanitizer sees a byte too many */
    posenc_error err = { 0 };
    posenc_resolution r;
    must(a && text);
    if (size)
        memcpy(text, data, size);
    posenc_status st = posenc_resolve_config(text, size, a, &r, &err);
    free(text);
    must(st == err.status && (st != PE_OK) == (err.n > 0));
    for (unsigned i = 0; i < err.n; i++)
        must(err.fault[i].field[0] != 0);
    if (!st) {
        char *json = posenc_resolution_json(&r);
        must(json != NULL);
        check_object(json);
        free(json);
        for (size_t i = 0; i < r.nrequests; i++)
            check_request(&r.request[i]);
    }
    posenc_arena_free(a);
    return 0;
}
