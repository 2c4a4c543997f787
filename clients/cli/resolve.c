#include "resolve.h"
#include "input.h"
#include "json.h"
#include "output.h"
#include "remote.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The answer as text: a->body, freed with it. */
static int resolve_here(const char *json, size_t size, posenc_arena *arena, answer *a, posenc_error *err)
{
    posenc_resolution r;
    posenc_status st = posenc_resolve_config(json, size, arena, &r, err);
    if (st)
        return exit_code(st);
    a->body = posenc_resolution_json(&r);
    if (!a->body)
        return exit_code(posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more memory"));
    a->size = strlen(a->body);
    return DONE;
}

static void warn(js root)
{
    js v;
    char text[600];
    for (js_walk w = js_begin(js_member(root, "warnings")); js_next(&w, NULL, &v);)
        show_warning(js_text(v, text, sizeof text));
}

static int show(const order *o, const answer *a, const posenc_context *ctx, posenc_error *err)
{
    js root;
    if (!a->body || !js_open(a->body, a->size, &root)) {
        posenc_fail(err, PE_INTERNAL, "SERVER", o->url ? o->url : "memory", "", "an answer in JSON");
        return o->url ? SERVER : FAILED;
    }
    if (o->has_format) {
        const posenc_piece piece[] = { { a->body, a->size }, { "\n", 1 } };
        return exit_code(output_write(o->output, piece, 2, ctx, err));
    }
    show_resolution(root);
    fflush(stdout); /* warnings come after what they are about */
    warn(root);
    return DONE;
}

/* ---- tensors ---- */

static posenc_status no_memory(posenc_error *err)
{
    return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more memory");
}

/* The tensors of request i, named "i/tensor" as the server names them, into the list of all. */
static posenc_status compute(const posenc_resolution *found, size_t i, posenc_arena *arena, posenc_result *all,
                             posenc_context *ctx, posenc_error *err)
{
    posenc_request r;
    bool large;
    posenc_status st = posenc_resolved_request(&found->request[i], arena, &r, &large, err);
    if (st)
        return st;
    if (large) {
        char text[300];
        snprintf(text, sizeof text, "%zu/ is left out: it has %llu MB, `posenc %s` computes it", i,
                 (unsigned long long)(r.size >> 20), r.encoding->name);
        show_warning(text);
        return PE_OK;
    }
    if (all->ntensors + r.shape.ntensors > PE_MAX_OUTPUTS)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "tensors", "",
                           "at most %d tensors in one file: compute each request by itself", PE_MAX_OUTPUTS);
    posenc_result out = r.shape;
    for (int k = 0; k < out.ntensors; k++)
        if (!(out.tensor[k].data = posenc_alloc(arena, (size_t)posenc_tensor_size(&out.tensor[k]) + 1)))
            return no_memory(err);
    if ((st = posenc_compute(&r, &out, ctx, err)))
        return st;
    for (int k = 0; k < out.ntensors; k++) {
        char name[96];
        const int n = snprintf(name, sizeof name, "%zu/%s", i, out.tensor[k].name);
        posenc_tensor *t = &all->tensor[all->ntensors++];
        *t = out.tensor[k];
        if (!(t->name = posenc_strdup(arena, name, (size_t)n)))
            return no_memory(err);
    }
    return PE_OK;
}

static int tensors_here(const order *o, const char *json, size_t size, posenc_arena *arena, posenc_context *ctx,
                        posenc_error *err)
{
    posenc_resolution found;
    posenc_result all = { 0 };
    posenc_document d;
    posenc_status st = posenc_resolve_config(json, size, arena, &found, err);
    for (size_t i = 0; !st && i < found.nrequests; i++)
        if (found.request[i].complete)
            st = compute(&found, i, arena, &all, ctx, err);
    if (st)
        return exit_code(st);
    for (size_t i = 0; i < found.nwarnings; i++)
        show_warning(found.warning[i]);
    char *words = posenc_resolution_json(&found);
    if (!words)
        return exit_code(no_memory(err));
    const posenc_origin origin = { .params_json = words };
    st = posenc_write(o->format, &origin, &all, NULL, &d, err);
    if (!st) {
        st = output_write(o->output, d.piece, d.npieces, ctx, err);
        posenc_document_fini(&d);
    }
    free(words);
    return exit_code(st);
}

static int tensors_there(const order *o, const answer *a, const posenc_context *ctx, posenc_error *err)
{
    for (int i = 0; i < a->nwarnings; i++)
        show_warning(a->warning[i]);
    return exit_code(output_write(o->output, &(posenc_piece){ a->body, a->size }, 1, ctx, err));
}

int resolve_run(const order *o, posenc_arena *arena, watch *w, posenc_context *ctx, posenc_error *err)
{
    answer a = { 0 };
    const char *json;
    size_t size;
    const bool tensors = o->has_format && o->format != PE_json;
    int rc = exit_code(input_file(o->config, "config", arena, &json, &size, err));
    if (rc)
        return rc;
    if (tensors && !o->url)
        return tensors_here(o, json, size, arena, ctx, err);
    if (o->url)
        rc = remote_post_json(o, posenc_text("/v1/resolve.%s", posenc_format_name(tensors ? o->format : PE_json)).s, json,
                              size, w, &a, err);
    else
        rc = resolve_here(json, size, arena, &a, err);
    if (!rc)
        rc = tensors ? tensors_there(o, &a, ctx, err) : show(o, &a, ctx, err);
    answer_fini(&a);
    return rc;
}
