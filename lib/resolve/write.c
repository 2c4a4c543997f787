/* write.c - a resolution as JSON. */
#include "formats/output.h"
#include "resolve/resolve.h"

#include <string.h>

static void put_text(pe_builder *b, const char *s) { pe_put(b, s, strlen(s)); }

static void put_request(pe_builder *b, const posenc_resolved *q)
{
    put_text(b, "{\"layer_type\":");
    pe_put_string(b, q->layer_type);
    if (q->layer) {
        put_text(b, ",\"layers\":[");
        for (size_t i = 0; i < q->nlayers; i++)
            pe_print(b, "%s%lld", i ? "," : "", (long long)q->layer[i]);
        put_text(b, "]");
    }
    put_text(b, ",\"encoding\":");
    pe_put_string(b, q->encoding);
    put_text(b, ",\"params\":");
    put_text(b, q->params_json);
    put_text(b, ",\"needs\":");
    put_text(b, q->needs_json);
    put_text(b, ",\"note\":");
    pe_put_string(b, q->note);
    put_text(b, "}");
}

char *posenc_resolution_json(const posenc_resolution *r)
{
    pe_builder b = { 0 };
    put_text(&b, "{\"model_type\":");
    if (r->model_type)
        pe_put_string(&b, r->model_type);
    else
        put_text(&b, "null");
    put_text(&b, ",\"requests\":[");
    for (size_t i = 0; i < r->nrequests; i++) {
        if (i)
            put_text(&b, ",");
        put_request(&b, &r->request[i]);
    }
    put_text(&b, "],\"defaults_used\":{");
    for (size_t i = 0; i < r->ndefaults; i++) {
        if (i)
            put_text(&b, ",");
        pe_put_string(&b, r->default_used[i].path);
        put_text(&b, ":");
        put_text(&b, r->default_used[i].value_json);
    }
    put_text(&b, "},\"warnings\":[");
    for (size_t i = 0; i < r->nwarnings; i++) {
        if (i)
            put_text(&b, ",");
        pe_put_string(&b, r->warning[i]);
    }
    pe_put(&b, "]}", 3); /* the NUL too */
    if (b.failed) {
        pe_builder_fini(&b);
        return NULL;
    }
    return b.s;
}
