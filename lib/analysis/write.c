/* write.c - an analysis as JSON, and as a picture: both from the blocks of numbers alone. */
#include "analysis/write.h"

#include "analysis/analysis.h"
#include "formats/output.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The blocks of a result: each tensor is named by its `what`. */
static bool block_of(const posenc_tensor *t, pe_block *out)
{
    *out = (pe_block){ !strcmp(t->name, pe_what_about.name) ? &pe_what_about : NULL, t->data };
    for (size_t i = 0; pe_whats[i] && !out->what; i++)
        if (!strcmp(pe_whats[i]->name, t->name))
            out->what = pe_whats[i];
    return out->what && t->data;
}

/* ---- json ---- */

static void put_number(pe_builder *b, const pe_field *f, double v)
{
    char text[PE_NUMBER_TEXT];
    const posenc_tensor one = { .dtype = PE_float64, .data = &v };
    int64_t whole = (int64_t)(isfinite(v) ? v : 0);
    const posenc_tensor integer = { .dtype = PE_int64, .data = &whole };
    if (!isfinite(v))
        pe_put(b, "null", 4);
    else if (f->kind == PE_F_FLAG)
        pe_print(b, "%s", v != 0 ? "true" : "false");
    else if (f->kind == PE_F_WORD)
        pe_put_string(b, f->words[whole]);
    else
        pe_put(b, text, pe_number_text(f->kind == PE_F_WHOLE ? &integer : &one, 0, text));
}

static void put_field(pe_builder *b, const pe_block *block, int i)
{
    const pe_field *f = &block->what->fields[i];
    const double *v = pe_block_field(block, i);
    const int64_t rows = f->axis[0] ? pe_block_size(block, f->axis[0] - 1) : 1,
                  columns = f->axis[1] ? pe_block_size(block, f->axis[1] - 1) : 1;
    pe_put_string(b, f->name);
    pe_put(b, f->axis[0] ? ":[" : ":", f->axis[0] ? 2 : 1);
    for (int64_t y = 0; y < rows && !b->failed; y++) {
        pe_put(b, y ? "," : "", y > 0);
        pe_put(b, "[", f->axis[1] > 0);
        for (int64_t x = 0; x < columns && !b->failed; x++) {
            pe_put(b, ",", x > 0);
            put_number(b, f, v[y * columns + x]);
        }
        pe_put(b, "]", f->axis[1] > 0);
    }
    pe_put(b, "]", f->axis[0] > 0);
}

static void put_block(pe_builder *b, const pe_block *block)
{
    const pe_what *w = block->what;
    bool first = true;
    pe_put_string(b, w->name);
    pe_put(b, ":{", 2);
    for (size_t i = 0; i < w->nfields; i++) {
        pe_put(b, ",", i > 0);
        put_field(b, block, (int)i);
    }
    pe_print(b, ",\"units\":{");
    for (size_t i = 0; i < w->nfields; i++)
        if (w->fields[i].unit && *w->fields[i].unit) {
            pe_put(b, ",", !first);
            pe_put_string(b, w->fields[i].name);
            pe_put(b, ":", 1);
            pe_put_string(b, w->fields[i].unit);
            first = false;
        }
    pe_put(b, "}}", 2);
}

static void write_json(const posenc_origin *o, const posenc_result *r, pe_builder *b)
{
    pe_block block;
    pe_print(b, "{\"report\":\"%s\",\"revision\":%d,", o->encoding->name, o->encoding->revision);
    if (o->digest)
        pe_print(b, "\"digest\":\"%s\",", o->digest);
    pe_print(b, "\"warnings\":[");
    for (int i = 0; i < r->nwarnings; i++) {
        pe_put(b, ",", i > 0);
        pe_put_string(b, r->warning[i]);
    }
    pe_print(b, "],");
    if (o->params_json) {
        pe_print(b, "\"params\":");
        pe_put(b, o->params_json, strlen(o->params_json));
        pe_put(b, ",", 1);
    }
    for (int i = 0; i < r->ntensors; i++)
        if (block_of(&r->tensor[i], &block)) {
            if (i)
                pe_print(b, "%s", i == 1 ? ",\"analysis\":{" : ",");
            put_block(b, &block);
        }
    pe_put(b, "}}", 2);
}

static posenc_status check_json(const posenc_result *r, const posenc_selection *sel, posenc_error *err)
{
    const int64_t limit = sel->json_limit > 0 ? sel->json_limit : 65536;
    int64_t n = 0;
    for (int i = 0; i < r->ntensors; i++)
        n += posenc_tensor_count(&r->tensor[i]);
    if (n > limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "format", posenc_text("json of %lld numbers", (long long)n).s,
                           "at most %lld numbers in json: less of `what`, fewer offsets or channels, or a picture",
                           (long long)limit);
    return PE_OK;
}

/* ---- pictures ---- */

/* "embedding_dim=64 num_positions=128": the parameters that are short. */
static void list_params(const json_t *params, char *out, size_t size)
{
    const char *key;
    json_t *v;
    size_t used = strlen(out);
    json_object_foreach((json_t *)(uintptr_t)params, key, v)
    {
        char *s = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        const char *text = json_is_string(v) ? json_string_value(v) : s;
        if (text && strlen(text) < 24 && used + strlen(key) + strlen(text) + 3 < size)
            used += (size_t)snprintf(out + used, size - used, " %s=%s", key, text);
        free(s);
    }
}

static void titles(const posenc_origin *o, const pe_block *about, const pe_what *only, char title[120], char subtitle[200])
{
    json_t *params = o->params_json ? json_loads(o->params_json, 0, NULL) : NULL, *of = json_object_get(params, "of");
    const char *name = json_string_value(json_object_get(of, "encoding"));
    const double *v = about->size + PE_MAX_SIZES; /* its fields are single numbers, in the order of about.c */
    snprintf(title, 120, "%s: %s", name ? name : "table", only ? only->title : "analysis");
    if (v[0] == PE_BIAS)
        snprintf(subtitle, 200, "%.0f heads, %.0f queries, %.0f keys;", v[4], v[5], v[6]);
    else
        snprintf(subtitle, 200, "%.0f positions, %.0f channels;", v[2], v[3]);
    list_params(json_object_get(of, "params"), subtitle, 120);
    if (subtitle[strlen(subtitle) - 1] == ';')
        subtitle[strlen(subtitle) - 1] = 0;
    json_decref(params);
}

static posenc_status draw(posenc_format f, const posenc_origin *o, const posenc_result *r, pe_builder *b, posenc_error *err)
{
    enum { ARENA = 64 << 20 };
    posenc_arena *arena = posenc_arena_new(ARENA);
    pe_panel *panel = arena ? posenc_alloc(arena, PE_MAX_PANELS * sizeof *panel) : NULL;
    pe_block block, about = { 0 };
    char title[120], subtitle[200], *bytes = NULL;
    size_t size;
    int n = 0, whats = 0;
    posenc_status st = panel && block_of(&r->tensor[0], &about) ? PE_OK : pe_no_memory("memory", err);
    for (int i = 1; i < r->ntensors && !st; i++)
        if (block_of(&r->tensor[i], &block)) {
            const int more = block.what->draw(&block, arena, panel + n);
            st = more < 0 ? pe_no_memory("memory", err) : PE_OK;
            n += more > 0 ? more : 0;
            whats++;
        }
    if (!st) {
        titles(o, &about, whats == 1 ? block.what : NULL, title, subtitle);
        const pe_plot plot = { title, subtitle, panel, n };
        st = pe_plot_draw(&plot, f, &bytes, &size, err);
    }
    if (!st)
        pe_put(b, bytes, size);
    free(bytes);
    posenc_arena_free(arena);
    return st;
}

posenc_status pe_analysis_write(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                                const posenc_selection *sel, posenc_document *out, posenc_error *err)
{
    pe_builder b = { 0 };
    posenc_status st = PE_OK;
    if (f != PE_json && f != PE_png && f != PE_svg)
        return posenc_fail(err, PE_INVALID, "INVALID_FORMAT", "format", posenc_format_name(f), "json, png or svg");
    if (sel->tensors || sel->rows)
        return posenc_fail(err, PE_INVALID, "NOT_APPLICABLE", sel->rows ? "rows" : "tensors", "given",
                           "nothing: an analysis is one document; `what` chooses its parts");
    if (f == PE_json)
        st = check_json(result, sel, err);
    for (int i = 0; i < result->ntensors && !st; i++)
        if (!result->tensor[i].data)
            st = posenc_fail(err, PE_INTERNAL, "NO_DATA", result->tensor[i].name, "", "a computed tensor");
    if (!st && f == PE_json)
        write_json(origin, result, &b);
    else if (!st)
        st = draw(f, origin, result, &b, err);
    st = st ? st : pe_builder_finish(&b, out, err);
    pe_builder_fini(&b);
    return st;
}
