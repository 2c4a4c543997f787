/* build.c - requests in the making. Every parameter remembers the key it was read from, so that what the encoding's own
 * rules object to is told in the words of the configuration. */
#include "core/number.h"
#include "resolve/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pe_draft pe_draft_of(const pe_section *s, const char *encoding)
{
    return (pe_draft){ .s = s, .layer_type = s->layers, .encoding = encoding };
}

static void put(pe_draft_value *list, size_t room, size_t *n, const char *name, const char *json, const char *path)
{
    if (*n < room)
        list[(*n)++] = (pe_draft_value){ name, json, path };
}

static void put_param(pe_draft *d, const char *name, const char *json, const char *path)
{
    put(d->param, PE_LEN(d->param), &d->nparams, name, json, path);
}

static const char *number(const pe_draft *d, double v)
{
    char text[PE_NUMBER_TEXT];
    const posenc_tensor one = { .dtype = PE_float64, .data = &v };
    return pe_print_text(d->s->r, "%.*s", (int)pe_number_text(&one, 0, text), text);
}

void pe_draft_int(pe_draft *d, const char *name, int64_t v, const char *path)
{
    put_param(d, name, pe_print_text(d->s->r, "%lld", (long long)v), path);
}

void pe_draft_real(pe_draft *d, const char *name, double v, const char *path) { put_param(d, name, number(d, v), path); }

void pe_draft_bool(pe_draft *d, const char *name, bool v, const char *path)
{
    put_param(d, name, v ? "true" : "false", path);
}

void pe_draft_word(pe_draft *d, const char *name, const char *v, const char *path)
{
    put_param(d, name, pe_print_text(d->s->r, "\"%s\"", v), path);
}

void pe_draft_found(pe_draft *d, const char *name, pe_found f)
{
    char *text = posenc_strdup(d->s->r->arena, f.value.p, (size_t)(f.value.end - f.value.p));
    d->s->r->failed |= !text;
    if (text)
        put_param(d, name, text, f.path);
}

void pe_draft_pair(pe_draft *d, const char *name, const int64_t v[2], const char *path)
{
    put_param(d, name, pe_print_text(d->s->r, "[%lld,%lld]", (long long)v[0], (long long)v[1]), path);
}

void pe_need_int(pe_draft *d, const char *name, int64_t v)
{
    put(d->need, PE_LEN(d->need), &d->nneeds, name, pe_print_text(d->s->r, "%lld", (long long)v), NULL);
}

void pe_need_pair(pe_draft *d, const char *name, int64_t a, int64_t b)
{
    put(d->need, PE_LEN(d->need), &d->nneeds, name, pe_print_text(d->s->r, "[%lld,%lld]", (long long)a, (long long)b), NULL);
}

void pe_need_word(pe_draft *d, const char *name, const char *v)
{
    put(d->need, PE_LEN(d->need), &d->nneeds, name, pe_print_text(d->s->r, "\"%s\"", v), NULL);
}

void pe_draft_note(pe_draft *d, const char *format, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    d->note = d->note ? pe_print_text(d->s->r, "%s; %s", d->note, text) : pe_print_text(d->s->r, "%s", text);
}

/* {"name":value,...}; `more`: further members, may be NULL. NULL: no memory. */
static char *object(pe_resolver *r, const pe_draft_value *v, size_t n, const char *more)
{
    size_t size = 3 + (more ? strlen(more) + 1 : 0);
    for (size_t i = 0; i < n; i++)
        size += strlen(v[i].name) + strlen(v[i].json) + 4;
    char *s = posenc_alloc(r->arena, size), *p = s;
    r->failed |= !s;
    if (!s)
        return NULL;
    *p++ = '{';
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, "%s\"%s\":%s", i ? "," : "", v[i].name, v[i].json);
    if (more)
        p += sprintf(p, "%s%s", n ? "," : "", more);
    strcpy(p, "}");
    return s;
}

/* ---- the encoding's own rules -------------------------------------------------------------------------------- */

/* The key that a faulty parameter was read from, with what follows the name: "long_factor[3]". */
static const char *place_of(const pe_draft *d, const char *field)
{
    size_t n = strcspn(field, ".[");
    for (size_t i = 0; i < d->nparams; i++)
        if (strlen(d->param[i].name) == n && !memcmp(d->param[i].name, field, n))
            return d->param[i].path ? pe_print_text(d->s->r, "%s%s", d->param[i].path, field + n) : NULL;
    return NULL;
}

static void check(const pe_draft *d, const char *json)
{
    posenc_request q;
    posenc_error local = { 0 };
    if (!posenc_encoding_named(d->encoding))
        return;
    if (!posenc_request_init(&q, d->encoding, d->s->r->arena, &local)) {
        posenc_request_json(&q, json, strlen(json), &local);
        posenc_resolve(&q, &local);
    }
    for (unsigned i = 0; i < local.n; i++) {
        const posenc_fault *f = &local.fault[i];
        const char *path = place_of(d, f->field);
        if (local.status == PE_BUSY)
            posenc_fail(d->s->r->err, PE_BUSY, f->reason, f->field, f->value, "%s", f->allowed);
        else
            pe_reject(d->s, path ? path : pe_key_path_in(d->s, d->s->node, NULL), f->value, "%s (%s of %s)", f->allowed,
                      f->field, d->encoding);
    }
}

void pe_draft_add(pe_draft *d)
{
    pe_resolver *r = d->s->r;
    posenc_resolution *out = r->out;
    char *params = object(r, d->param, d->nparams, NULL), *needs = object(r, d->need, d->nneeds, NULL);
    const char *checked = d->probe ? object(r, d->param, d->nparams, d->probe) : params;
    if (!params || !needs || !checked)
        return;
    if (!r->err->n && (!d->open || d->probe))
        check(d, checked);
    if (out->nrequests == r->room_requests) {
        size_t room = r->room_requests ? 2 * r->room_requests : 8;
        posenc_resolved *list = posenc_alloc(r->arena, room * sizeof *list);
        r->failed |= !list;
        if (!list)
            return;
        if (out->nrequests)
            memcpy(list, out->request, out->nrequests * sizeof *list);
        out->request = list;
        r->room_requests = room;
    }
    posenc_resolved *to = (posenc_resolved *)(uintptr_t)&out->request[out->nrequests++];
    *to = (posenc_resolved){ .layer_type = d->layer_type,
                             .encoding = d->encoding,
                             .params_json = params,
                             .needs_json = needs,
                             .note = d->note ? d->note : "",
                             .layer = d->layer,
                             .nlayers = d->nlayers,
                             .complete = !d->open && !d->probe && posenc_encoding_named(d->encoding) };
}

void pe_draft_add_none(const pe_section *s, const char *layer_type, const int64_t *layer, size_t nlayers, const char *why)
{
    pe_draft d = pe_draft_of(s, "none");
    d.layer_type = layer_type;
    d.layer = layer;
    d.nlayers = nlayers;
    d.open = true;
    pe_draft_note(&d, "%s", why);
    pe_draft_add(&d);
}
