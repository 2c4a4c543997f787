/* describe.c - what a report can be asked for, and what the fields of its answer mean, as JSON. */
#include "analysis/analysis.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Appends; `*ok` turns false where there was no memory for it. */
static void add(json_t *list, json_t *o, bool *ok)
{
    if (json_array_append_new(list, o))
        *ok = false;
}

/* The name of size number i of a `what`. */
static json_t *size_name(const pe_what *w, int i)
{
    const char *s = w->sizes;
    for (; i > 0; i--)
        s += strcspn(s, " ") + 1;
    return json_stringn(s, strcspn(s, " "));
}

static json_t *describe_field(const pe_what *w, const pe_field *f, bool *ok)
{
    static const char *const kinds[] = { "number", "integer", "boolean", "word" };
    json_t *shape = json_array();
    for (int k = 0; k < 2; k++)
        if (f->axis[k])
            add(shape, size_name(w, f->axis[k] - 1), ok);
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:s}", "name", f->name, "type", kinds[f->kind], "unit",
                          f->unit ? f->unit : "", "shape", shape, "doc", f->doc);
    json_t *words = f->words ? json_array() : NULL;
    for (size_t i = 0; words && f->words[i]; i++)
        add(words, json_string(f->words[i]), ok);
    if (f->words && json_object_set_new(o, "words", words))
        *ok = false;
    return o;
}

static json_t *describe_what(const pe_what *w, bool *ok)
{
    json_t *fields = json_array(), *kinds = json_array();
    for (size_t i = 0; i < w->nfields; i++)
        add(fields, describe_field(w, &w->fields[i], ok), ok);
    for (int k = 0; k < PE_NKINDS; k++)
        if (w->kinds >> k & 1)
            add(kinds, json_string(pe_subject_words[k]), ok);
    return json_pack("{s:s, s:s, s:s, s:o, s:b, s:o}", "name", w->name, "title", w->title, "definition", w->doc,
                     "applies_to", kinds, "ordered", w->ordered, "fields", fields);
}

/* What dtype is to a report: of the encoding it is about, where there is one. */
static void describe_dtype(json_t *parameters, const char *report, bool *ok)
{
    const bool compare = !strcmp(report, "compare");
    for (size_t i = json_array_size(parameters); i-- > 0;) {
        json_t *p = json_array_get(parameters, i);
        const char *name = json_string_value(json_object_get(p, "name"));
        if (!name || strcmp(name, "dtype") != 0)
            continue;
        if (!strcmp(report, "identify")) { /* the table has its own */
            *ok = !json_array_remove(parameters, i) && *ok;
            continue;
        }
        *ok = !json_object_set_new(p, "doc",
                                   json_string(compare ? "what the encoding's numbers are rounded to before the table is "
                                                         "held against them; when absent, the table's own type"
                                                       : "what the encoding's numbers are rounded to before they are looked "
                                                         "at; a table that is given has its own")) &&
              *ok;
        if (compare)
            json_object_del(p, "default");
        else
            *ok = !json_object_set_new(p, "default", json_string("float64")) && *ok;
    }
}

char *posenc_describe_report(const posenc_encoding *report)
{
    char *plain = posenc_describe(report), *text = NULL;
    json_t *o = plain ? json_loads(plain, 0, NULL) : NULL, *whats = json_array();
    const bool analysis = report == posenc_report_named("analysis");
    bool ok = o && whats;
    describe_dtype(json_object_get(o, "parameters"), report->name, &ok);
    for (size_t i = 0; analysis && pe_whats[i]; i++)
        add(whats, describe_what(pe_whats[i], &ok), &ok);
    if (analysis)
        ok = !json_object_set_new(o, "about", describe_what(&pe_what_about, &ok)) && !json_object_set(o, "what", whats) &&
             ok;
    if (ok)
        text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(whats);
    json_decref(o);
    free(plain);
    return text;
}
