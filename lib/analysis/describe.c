/* describe.c - what a report can be asked for, and what the fields of its answer mean, as JSON. */
#include "analysis/analysis.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The name of size number i of a `what`. */
static json_t *size_name(const pe_what *w, int i)
{
    const char *s = w->sizes;
    for (; i > 0; i--)
        s += strcspn(s, " ") + 1;
    return json_stringn(s, strcspn(s, " "));
}

static json_t *describe_field(const pe_what *w, const pe_field *f)
{
    static const char *const kinds[] = { "number", "integer", "boolean", "word" };
    json_t *shape = json_array();
    for (int k = 0; k < 2; k++)
        if (f->axis[k])
            json_array_append_new(shape, size_name(w, f->axis[k] - 1));
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:s}", "name", f->name, "type", kinds[f->kind], "unit",
                          f->unit ? f->unit : "", "shape", shape, "doc", f->doc);
    json_t *words = f->words ? json_array() : NULL;
    for (size_t i = 0; words && f->words[i]; i++)
        json_array_append_new(words, json_string(f->words[i]));
    if (words)
        json_object_set_new(o, "words", words);
    return o;
}

static json_t *describe_what(const pe_what *w)
{
    json_t *fields = json_array(), *kinds = json_array();
    for (size_t i = 0; i < w->nfields; i++)
        json_array_append_new(fields, describe_field(w, &w->fields[i]));
    for (int k = 0; k < PE_NKINDS; k++)
        if (w->kinds >> k & 1)
            json_array_append_new(kinds, json_string(pe_subject_words[k]));
    return json_pack("{s:s, s:s, s:s, s:o, s:b, s:o}", "name", w->name, "title", w->title, "definition", w->doc,
                     "applies_to", kinds, "ordered", w->ordered, "fields", fields);
}

char *posenc_describe_report(const posenc_encoding *report)
{
    char *plain = posenc_describe(report);
    json_t *o = plain ? json_loads(plain, 0, NULL) : NULL, *whats = json_array();
    for (size_t i = 0; report == posenc_report_named("analysis") && pe_whats[i]; i++)
        json_array_append_new(whats, describe_what(pe_whats[i]));
    if (json_array_size(whats)) {
        json_object_set_new(o, "about", describe_what(&pe_what_about));
        json_object_set_new(o, "what", whats);
    } else {
        json_decref(whats);
    }
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(o);
    free(plain);
    return text;
}
