/* describe.c - the tables in words: descriptors and JSON Schema, for people and programs. */
#include "core/params.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static const char *const kinds[] = { "int", "real", "reals", "bool", "enum", "text", "tensor", "words" };

static json_t *number(const posenc_param *r, double v)
{
    if (isnan(v))
        return json_string("nan");
    return r->kind == PE_T_INT || r->kind == PE_T_TEXT ? json_integer((json_int_t)v) : json_real(v);
}

static json_t *words(const posenc_param *r, uint64_t mask)
{
    json_t *a = json_array();
    for (size_t i = 0; r->names[i]; i++)
        if (posenc_in_mask(mask, i))
            json_array_append_new(a, json_string(r->names[i]));
    return a;
}

static json_t *default_of(const posenc_param *r)
{
    if (r->flags & (PE_REQUIRED | PE_DERIVED | PE_OPTIONAL))
        return NULL;
    switch ((posenc_kind)r->kind) {
    case PE_T_INT:
    case PE_T_REAL: return number(r, r->def);
    case PE_T_BOOL: return json_boolean(r->def != 0);
    case PE_T_ENUM: return json_string(r->names[(int)r->def]);
    case PE_T_TEXT: return r->text ? json_string(r->text) : NULL;
    case PE_T_WORDS: return words(r, (uint64_t)r->def);
    case PE_T_REALS:
    case PE_T_TENSOR: break;
    }
    return NULL;
}

static void bounds(json_t *o, const posenc_param *r, const char *min, const char *max)
{
    if (r->min != 0 || r->max != 0) {
        json_object_set_new(o, min, number(r, r->min));
        json_object_set_new(o, max, number(r, r->max));
    }
}

static json_t *parameter(const posenc_table *t, const posenc_param *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:b}", "name", r->name, "type", kinds[r->kind], "doc", r->doc, "required",
                          (r->flags & PE_REQUIRED) != 0);
    json_t *def = default_of(r);
    if (def)
        json_object_set_new(o, "default", def);
    if (r->flags & PE_DERIVED)
        json_object_set_new(o, "derived", json_true());
    bounds(o, r, "min", "max");
    if (r->kind == PE_T_ENUM || r->kind == PE_T_WORDS)
        json_object_set_new(o, "words", words(r, 0));
    for (size_t i = 0; r->when && i < t->nrows; i++)
        if (t->rows[i].flags & PE_SELECTOR)
            json_object_set_new(o, "when", json_pack("{s:o}", t->rows[i].name, words(&t->rows[i], r->when)));
    return o;
}

static json_t *property(const posenc_param *r)
{
    json_t *o = json_pack("{s:s}", "description", r->doc), *items;
    json_t *def = default_of(r);
    if (def)
        json_object_set_new(o, "default", def);
    switch ((posenc_kind)r->kind) {
    case PE_T_INT:
        json_object_set_new(o, "type", json_string("integer"));
        bounds(o, r, "minimum", "maximum");
        break;
    case PE_T_REAL:
        if (r->flags & PE_NAN)
            json_object_set_new(o, "anyOf", json_pack("[{s:s}, {s:s}]", "type", "number", "const", "nan"));
        else
            json_object_set_new(o, "type", json_string("number"));
        bounds(o, r, "minimum", "maximum");
        break;
    case PE_T_REALS:
        items = json_pack("{s:s}", "type", "number");
        bounds(items, r, "minimum", "maximum");
        json_object_set_new(o, "type", json_string("array"));
        json_object_set_new(o, "items", items);
        break;
    case PE_T_BOOL: json_object_set_new(o, "type", json_string("boolean")); break;
    case PE_T_ENUM: json_object_set_new(o, "enum", words(r, 0)); break;
    case PE_T_WORDS:
        json_object_set_new(o, "type", json_string("array"));
        json_object_set_new(o, "uniqueItems", json_true());
        json_object_set_new(o, "items", json_pack("{s:o}", "enum", words(r, 0)));
        break;
    case PE_T_TEXT:
        json_object_set_new(o, "type", json_string("string"));
        bounds(o, r, "minLength", "maxLength");
        break;
    case PE_T_TENSOR:
        json_object_set_new(o, "anyOf",
                            json_pack("[{s:s}, {s:s, s:[s, s, s]}]", "type", "array", "type", "object", "required", "dtype",
                                      "shape", "data"));
        break;
    }
    return o;
}

static void add_schema(json_t *properties, json_t *required, const posenc_table *t)
{
    for (size_t i = 0; i < t->nrows; i++) {
        json_object_set_new(properties, t->rows[i].name, property(&t->rows[i]));
        if ((t->rows[i].flags & PE_REQUIRED) && !t->rows[i].when)
            json_array_append_new(required, json_string(t->rows[i].name));
    }
}

static json_t *graph_schema(void)
{
    return json_pack("{s:s, s:s, s:[s, s], s:{s:{s:s, s:i, s:i}, s:{s:s, s:s}, s:{s:s}, s:{s:s, s:b}, s:{s:s}}}", "type",
                     "object", "description", "nodes and edges; ptr makes it a batch of graphs", "required", "num_nodes",
                     "edge_index", "properties", "num_nodes", "type", "integer", "minimum", 0, "maximum", 2147483646,
                     "edge_index", "type", "array", "description", "[[sources], [targets]]", "edge_weight", "type", "array",
                     "directed", "type", "boolean", "default", 0, "ptr", "type", "array");
}

static json_t *schema(const posenc_encoding *e)
{
    json_t *properties = json_object(), *required = json_array();
    add_schema(properties, required, &e->table);
    add_schema(properties, required, &posenc_common_table);
    if (e->input == PE_GRAPH) {
        json_object_set_new(properties, "graph", graph_schema());
        json_array_append_new(required, json_string("graph"));
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
                     e->name, "type", "object", "additionalProperties", 0, "properties", properties, "required", required);
}

static json_t *example_graph(void)
{
    const posenc_edges *g = posenc_example_edges();
    json_t *source = json_array(), *target = json_array();
    for (int64_t i = 0; i < g->nedges; i++) {
        json_array_append_new(source, json_integer(g->source[i]));
        json_array_append_new(target, json_integer(g->target[i]));
    }
    return json_pack("{s:I, s:[o, o]}", "num_nodes", (json_int_t)g->num_nodes, "edge_index", source, target);
}

static json_t *describe(const posenc_encoding *e)
{
    json_t *params = json_array(), *outputs = json_array();
    for (size_t i = 0; i < e->table.nrows; i++)
        json_array_append_new(params, parameter(&e->table, &e->table.rows[i]));
    for (size_t i = 0; i < posenc_common_table.nrows; i++)
        json_array_append_new(params, parameter(&posenc_common_table, &posenc_common_table.rows[i]));
    for (size_t i = 0; i < e->noutputs; i++)
        json_array_append_new(
            outputs, json_pack("{s:s, s:s, s:s, s:s}", "name", e->outputs[i].name, "shape", e->outputs[i].shape, "dtype",
                               e->outputs[i].dtype ? e->outputs[i].dtype : "dtype", "doc", e->outputs[i].doc));
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:o, s:o}", "name", e->name, "family", e->family,
                          "title", e->title, "formula", e->formula, "revision", e->revision, "input",
                          e->input == PE_GRAPH ? "graph" : "none", "source", e->source, "example", e->example, "parameters",
                          params, "outputs", outputs);
    if (o && e->input == PE_GRAPH)
        json_object_set_new(o, "example_graph", example_graph());
    return o;
}

static char *dump(json_t *o)
{
    char *s = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(o);
    return s;
}

char *posenc_describe(const posenc_encoding *e)
{
    json_t *o = describe(e), *s = schema(e);
    if (!o || !s) {
        json_decref(o);
        json_decref(s);
        return NULL;
    }
    if (json_object_set_new(o, "schema", s)) {
        json_decref(o);
        return NULL;
    }
    return dump(o);
}

char *posenc_describe_all(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < posenc_encodings(); i++)
        json_array_append_new(list, describe(posenc_encoding_at(i)));
    return dump(json_pack("{s:o}", "encodings", list));
}
