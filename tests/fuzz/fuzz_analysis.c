/* fuzz_analysis.c - no report does harm: a request is refused with a place, or its answer is JSON, and its picture text
 * without a number that is none.
 *
 * Input: ENCODING?QUERY, a report about that encoding's table; or a JSON body, a report about a table. */
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

static char *whole(posenc_document *d)
{
    char *s = malloc((size_t)d->size + 1), *p = s;
    must(s != NULL);
    for (size_t i = 0; i < d->npieces; p += d->piece[i++].size)
        memcpy(p, d->piece[i].data, (size_t)d->piece[i].size);
    *p = 0;
    posenc_document_fini(d);
    return s;
}

static void check_answer(const posenc_request *r, const posenc_result *out)
{
    const posenc_origin origin = { r->encoding, r->digest, r->params_json };
    posenc_document d;
    posenc_error err = { 0 };
    if (!posenc_write(PE_json, &origin, out, NULL, &d, &err)) {
        char *s = whole(&d);
        json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
        must(json_is_object(json_object_get(o, "analysis")));
        json_decref(o);
        free(s);
    } else {
        must(err.status == PE_LIMIT);
    }
    must(!posenc_write(PE_svg, &origin, out, NULL, &d, &err));
    char *s = whole(&d);
    must(!strstr(s, "=\"nan") && !strstr(s, "=\"inf") && !strstr(s, "=\"-nan"));
    free(s);
}

/* Everything is computed that takes no longer than a fuzzer waits. */
static void run(posenc_request *r, posenc_error *err)
{
    posenc_resolve(r, err);
    for (unsigned i = 0; i < err->n; i++)
        must(err->fault[i].field[0] != 0);
    if (err->n || r->cost.ns > 20e6 || r->size + r->cost.scratch > 16 << 20)
        return;
    posenc_result out = r->shape;
    for (int i = 0; i < out.ntensors; i++) {
        out.tensor[i].data = posenc_alloc(r->arena, (size_t)posenc_tensor_size(&out.tensor[i]) + 1);
        must(out.tensor[i].data != NULL);
    }
    const posenc_status st = posenc_compute(r, &out, NULL, err);
    must(st == err->status && (st != PE_OK) == (err->n > 0) && st != PE_INTERNAL);
    if (!st)
        check_answer(r, &out);
}

static void about_encoding(posenc_arena *a, char *text)
{
    posenc_request r;
    posenc_error err = { 0 };
    char *query = strchr(text, '?');
    *query++ = 0;
    if (posenc_report_init(&r, "analysis", text, a, &err))
        return;
    posenc_request_parse(&r, query, &err);
    if (r.of->encoding->input == PE_GRAPH)
        posenc_graph_build(posenc_example_edges(), a, &r.of->graph, &err);
    run(&r, &err);
}

static void about_table(posenc_arena *a, const char *text, size_t size)
{
    posenc_request r;
    posenc_error err = { 0 };
    must(!posenc_report_init(&r, "analysis", NULL, a, &err));
    posenc_request_json(&r, text, size, &err);
    run(&r, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    posenc_arena *a = posenc_arena_new(64 << 20);
    char *text = malloc(size + 1); /* its own block: the sanitizer sees a byte too many */
    must(a && text);
    memcpy(text, data, size);
    text[size] = 0;
    if (size && text[0] != '{' && strchr(text, '?'))
        about_encoding(a, text);
    else
        about_table(a, text, size);
    posenc_arena_free(a);
    free(text);
    return 0;
}
