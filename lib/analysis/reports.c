/* reports.c - the list of reports, and how the request of one starts. */
#include "core/params.h"

#include <string.h>

#define X(name) extern const posenc_encoding pe_##name##_report;
#include "analysis/reports.h"
#undef X

static const posenc_encoding *const list[] = {
#define X(name) &pe_##name##_report,
#include "analysis/reports.h"
#undef X
};

size_t posenc_reports(void) { return PE_LEN(list); }
const posenc_encoding *posenc_report_at(size_t i) { return i < PE_LEN(list) ? list[i] : NULL; }

const posenc_encoding *posenc_report_named(const char *name)
{
    for (size_t i = 0; i < PE_LEN(list); i++)
        if (!strcmp(list[i]->name, name))
            return list[i];
    return NULL;
}

posenc_status posenc_report_init(posenc_request *r, const char *report, const char *encoding, posenc_arena *a,
                                 posenc_error *err)
{
    posenc_status st = PE_OK;
    *r = (posenc_request){ .encoding = posenc_report_named(report), .arena = a };
    if (!r->encoding)
        return posenc_fail(err, PE_NOT_FOUND, "UNKNOWN_REPORT", "report", report, "analysis, identify, compare");
    r->params = posenc_alloc(a, r->encoding->table.size);
    r->of = encoding ? posenc_alloc(a, sizeof *r->of) : NULL;
    if (!r->params || (encoding && !r->of))
        st = pe_no_memory("memory", err);
    else if (encoding)
        st = posenc_request_init(r->of, encoding, a, err);
    if (!st && encoding && !strcmp(report, "compare") && posenc_row(&r->of->encoding->table, "table"))
        st = pe_not_applicable(err, "encoding", encoding,
                               "an encoding that is computed: the table of this one is given, so that two would be needed");
    if (st) { /* nothing may go on with half a request */
        *r = (posenc_request){ 0 };
        return st;
    }
    posenc_defaults(&r->encoding->table, r->params);
    posenc_defaults(&posenc_common_table, &r->common);
    if (r->of)
        r->of->common.dtype = PE_float64; /* a default of reports: numbers of the formula, not of a rounding */
    return PE_OK;
}

static posenc_status analyze(posenc_request *r, const char *query, const posenc_edges *edges, posenc_format f,
                             posenc_document *out, posenc_context *ctx, posenc_error *err)
{
    posenc_status st;
    posenc_request_parse(r, query ? query : "", err);
    r->ctx = ctx;
    if (r->of)
        r->of->ctx = ctx;
    if (edges && r->of->encoding->input != PE_GRAPH)
        return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", "graph", "given", "no graph: %s takes none",
                           r->of->encoding->name);
    if (edges && (st = posenc_graph_build_watched(edges, r->arena, &r->of->graph, ctx, err)))
        return st;
    if ((st = posenc_resolve(r, err)))
        return st;
    posenc_result result = r->shape;
    for (int i = 0; i < result.ntensors; i++)
        if (!(result.tensor[i].data = posenc_alloc(r->arena, (size_t)posenc_tensor_size(&result.tensor[i]) + 1)))
            return pe_no_memory("memory", err);
    if ((st = posenc_compute(r, &result, ctx, err)))
        return st;
    const posenc_origin origin = { r->encoding, r->digest, r->params_json };
    return posenc_write(f, &origin, &result, NULL, out, err);
}

posenc_status posenc_analyze(const char *encoding, const char *query, const posenc_edges *edges, posenc_format f,
                             posenc_document *out, posenc_context *ctx, posenc_error *err)
{
    posenc_error local = { 0 };
    posenc_request r;
    *out = (posenc_document){ 0 };
    if (!err)
        err = &local;
    posenc_arena *a = posenc_arena_new(SIZE_MAX / 8);
    if (!a)
        return pe_no_memory("memory", err);
    posenc_status st = posenc_report_init(&r, "analysis", encoding, a, err);
    st = st ? st : analyze(&r, query, edges, f, out, ctx, err);
    posenc_arena_free(a);
    return st;
}
