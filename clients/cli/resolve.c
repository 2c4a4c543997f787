#include "resolve.h"
#include "input.h"
#include "json.h"
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

static int show(const order *o, const answer *a, posenc_error *err)
{
    js root, v;
    char text[600];
    if (!a->body || !js_open(a->body, a->size, &root)) {
        posenc_fail(err, PE_INTERNAL, "SERVER", o->url ? o->url : "memory", "", "an answer in JSON");
        return o->url ? SERVER : FAILED;
    }
    if (o->json)
        puts(a->body);
    else
        show_resolution(root);
    fflush(stdout); /* warnings come after what they are about */
    for (js_walk w = js_begin(js_member(root, "warnings")); !o->json && js_next(&w, NULL, &v);)
        show_warning(js_text(v, text, sizeof text));
    return DONE;
}

int resolve_run(const order *o, posenc_arena *arena, watch *w, posenc_error *err)
{
    answer a = { 0 };
    const char *json;
    size_t size;
    int rc = exit_code(input_file(o->config, "config", arena, &json, &size, err));
    if (rc)
        return rc;
    rc = o->url ? remote_post_json(o, "/v1/resolve.json", json, size, w, &a, err) : resolve_here(json, size, arena, &a, err);
    if (!rc)
        rc = show(o, &a, err);
    answer_fini(&a);
    return rc;
}
