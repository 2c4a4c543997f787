/* problem.c - errors as application/problem+json (RFC 9457).
 *
 * Clients switch on `reason`; `type` and `title` are the same word in the spelling of a URN and of a person. */
#include "http/exchange.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Faults quote hostile bytes: what is not UTF-8 must not cost the document. */
static json_t *text(const char *s)
{
    char clean[1600];
    pe_utf8_clean(s, clean, sizeof clean);
    return json_string(clean);
}

/* "LIMIT_EXCEEDED" as "limit-exceeded", or as "Limit exceeded". */
static const char *spell(const char *reason, char joint, char out[64])
{
    size_t n = 0;
    for (; reason[n] && n < 63; n++)
        out[n] = reason[n] == '_' ? joint : (char)tolower((unsigned char)reason[n]);
    out[n] = 0;
    if (joint == ' ')
        out[0] = (char)toupper((unsigned char)out[0]);
    return out;
}

static json_t *faults(const posenc_error *err)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < err->n; i++) {
        const posenc_fault *f = &err->fault[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", "field", text(f->field), "value", text(f->value),
                                              "reason", text(f->reason), "allowed", text(f->allowed)));
    }
    return list;
}

static const char *reason_of(const posenc_error *err)
{
    return err->n ? err->fault[0].reason : posenc_status_name(err->status);
}

char *pe_problem_text(int status, const char *code, const posenc_error *err, const char *request_id)
{
    char urn[96], title[64], word[64], instance[96], detail[1600];
    const char *reason = reason_of(err);
    snprintf(urn, sizeof urn, "urn:posenc:error:%s", spell(reason, '-', word));
    snprintf(instance, sizeof instance, "urn:posenc:request:%s", request_id);
    if (err->status == PE_INTERNAL) /* no internals: the log knows more under this id */
        snprintf(detail, sizeof detail, "A fault of the program; please quote %s.", request_id);
    else
        posenc_error_text(err, detail, sizeof detail);
    json_t *list = err->status == PE_INTERNAL ? json_array() : faults(err);
    json_t *o = json_pack("{s:s, s:s, s:i, s:o, s:s, s:s, s:s, s:o}", "type", urn, "title", spell(reason, ' ', title),
                          "status", status, "detail", text(detail), "instance", instance, "code", code, "reason", reason,
                          "errors", list);
    char *s = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return s;
}
