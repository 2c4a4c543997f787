#include "analyze.h"

#include "json.h"
#include "local.h"
#include "output.h"
#include "remote.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int not_json(const order *o, posenc_error *err)
{
    posenc_fail(err, PE_INTERNAL, "SERVER", o->url ? o->url : "memory", "", "an answer in JSON");
    return o->url ? SERVER : FAILED;
}

/* A summary for people, or the bytes as they are. */
static int put(const order *o, const char *bytes, size_t size, const posenc_context *ctx, posenc_error *err)
{
    const bool summary = !o->has_format && !o->output && isatty(STDOUT_FILENO);
    const posenc_piece piece[] = { { bytes, size }, { "\n", 1 } };
    js root;
    int rc = DONE;
    if (!summary)
        return exit_code(output_write(o->output, piece, o->format == PE_json ? 2 : 1, ctx, err));
    char *text = malloc(size + 1); /* a js ends at a NUL, which a document has not */
    if (!text)
        return exit_code(
            posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", posenc_text("%zu bytes", size).s, "more memory"));
    memcpy(text, bytes, size);
    text[size] = 0;
    if (!js_open(text, size, &root))
        rc = not_json(o, err);
    else if (!strcmp(o->report, "analysis"))
        show_analysis(root);
    else if (!strcmp(o->report, "identify"))
        show_identified(root);
    else
        show_compared(root);
    free(text);
    return rc;
}

static int here(const order *o, const input *in, posenc_arena *arena, watch *w, posenc_context *ctx, posenc_error *err)
{
    local l;
    posenc_document d = { 0 };
    posenc_status st = local_resolve(o, in, arena, &l, ctx, err);
    st = st ? st : local_compute(&l, ctx, err);
    watch_clear(w);
    const posenc_origin origin = local_origin(&l);
    for (int i = 0; !st && i < l.result.nwarnings; i++)
        show_warning(l.result.warning[i]);
    st = st ? st : posenc_write(o->format, &origin, &l.result, NULL, &d, err);
    int rc = st ? exit_code(st) : put(o, d.piece[0].data, (size_t)d.size, ctx, err); /* one piece: all of it is its own */
    posenc_document_fini(&d);
    local_fini(&l);
    return rc;
}

int analyze_run(const order *o, const input *in, posenc_arena *arena, watch *w, posenc_context *ctx, posenc_error *err)
{
    answer a = { 0 };
    if (!o->url)
        return here(o, in, arena, w, ctx, err);
    int rc = remote_encode(o, in, o->format, false, arena, w, &a, err);
    for (int i = 0; !rc && i < a.nwarnings; i++)
        show_warning(a.warning[i]);
    rc = rc ? rc : put(o, a.body, a.size, ctx, err);
    answer_fini(&a);
    return rc;
}

int analyze_help(const order *o, watch *w, posenc_error *err)
{
    answer a = { 0 };
    js root;
    int rc = DONE;
    if (o->url) {
        rc = remote_get(o, posenc_text("/v1/%s", o->report).s, w, &a, err);
    } else {
        a.body = posenc_describe_report(posenc_report_named(o->report));
        a.size = a.body ? strlen(a.body) : 0;
    }
    if (!rc && (!a.body || !js_open(a.body, a.size, &root)))
        rc = not_json(o, err);
    else if (!rc)
        show_report_help(root);
    answer_fini(&a);
    return rc;
}
