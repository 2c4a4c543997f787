/* methods.c - the table of methods, and those whose answers never change. */
#include "grpc/call.h"

#include "posenc/v1/encoding_service.pb-c.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list_encodings(pe_rpc *c);
static void get_capabilities(pe_rpc *c);
static void unknown(pe_rpc *c);

static const char encoding_service[] = "posenc.v1.EncodingService", health[] = "grpc.health.v1.Health";

const pe_method pe_methods[PE_NMETHODS] = {
    [PE_ENCODE] = { encoding_service, "Encode", "unary", 128, false, pe_encode_begin, pe_encode_cancelled },
    [PE_ENCODE_STREAM] = { encoding_service, "EncodeStream", "server_stream", 32, false, pe_encode_begin,
                           pe_encode_cancelled },
    [PE_LIST_ENCODINGS] = { encoding_service, "ListEncodings", "unary", 4, false, list_encodings, NULL },
    [PE_GET_CAPABILITIES] = { encoding_service, "GetCapabilities", "unary", 4, false, get_capabilities, NULL },
    [PE_RESOLVE] = { encoding_service, "Resolve", "unary", 8, false, pe_resolve_begin, NULL },
    [PE_ANALYZE] = { encoding_service, "Analyze", "unary", 32, false, pe_analyze_begin, pe_encode_cancelled },
    [PE_IDENTIFY] = { encoding_service, "Identify", "unary", 32, false, pe_analyze_begin, pe_encode_cancelled },
    [PE_COMPARE] = { encoding_service, "Compare", "unary", 32, false, pe_analyze_begin, pe_encode_cancelled },
    [PE_CHECK] = { health, "Check", "unary", 8, false, pe_health_check, NULL },
    [PE_WATCH] = { health, "Watch", "server_stream", 4, false, pe_health_watch, pe_rpc_gone },
    [PE_REFLECTION] = { "grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", "bidi_stream", 4, true,
                        pe_reflection_begin, pe_rpc_gone },
    [PE_REFLECTION_ALPHA] = { "grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", "bidi_stream", 4, true,
                              pe_reflection_begin, pe_rpc_gone },
    [PE_UNKNOWN_METHOD] = { "unknown", "unknown", "unary", 4, false, unknown, NULL },
};

static void unknown(pe_rpc *c)
{
    posenc_error err = { 0 };
    char *name = grpc_slice_to_c_string(c->details.method);
    posenc_fail(&err, PE_NOT_FOUND, "UNIMPLEMENTED", "method", name,
                "a method of posenc.v1.EncodingService; reflection lists them");
    gpr_free(name);
    pe_rpc_reply(c, NULL, &err, GRPC_STATUS_UNIMPLEMENTED);
}

bool pe_rpc_serving(pe_rpc *c)
{
    posenc_error err = { 0 };
    if (pe_service_phase(c->g->s) != PE_STARTING) /* who drains still gives what it has; pe_service_begin refuses the rest */
        return true;
    posenc_fail(&err, PE_BUSY, "UNAVAILABLE", "server", "starting", "try again");
    pe_rpc_reply(c, NULL, &err, 0);
    return false;
}

/* ---- answers that never change ---- */

static void prepared(pe_rpc *c, grpc_slice *answer)
{
    if (pe_rpc_serving(c))
        pe_rpc_reply(c, grpc_raw_byte_buffer_create(answer, 1), NULL, 0);
}

static void list_encodings(pe_rpc *c) { prepared(c, &c->g->encodings); }
static void get_capabilities(pe_rpc *c) { prepared(c, &c->g->capabilities); }

static char *number(posenc_arena *a, double v)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    return posenc_strdup(a, text, strlen(text));
}

/* Words of an enum row, those of the mask (0: all); NULL: no memory. */
static char **words(const posenc_param *row, uint64_t mask, size_t *n, posenc_arena *a)
{
    size_t all = 0;
    while (row->names[all])
        all++;
    char **list = posenc_alloc(a, all * sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < all; i++)
        if (posenc_in_mask(mask, i))
            list[(*n)++] = WRITABLE(row->names[i]);
    return list;
}

static bool describe_row(const posenc_table *t, const posenc_param *row, Posenc__V1__ParameterInfo *p, posenc_arena *a)
{
    static const char *const kinds[] = { "int", "real", "reals", "bool", "enum", "text", "tensor", "words" };
    posenc__v1__parameter_info__init(p);
    p->name = WRITABLE(row->name);
    p->type = WRITABLE(kinds[row->kind]);
    p->doc = WRITABLE(row->doc);
    p->has_required = p->has_derived = p->has_selector = p->has_allows_nan = true;
    p->required = (row->flags & PE_REQUIRED) != 0;
    p->derived = (row->flags & PE_DERIVED) != 0;
    p->selector = (row->flags & PE_SELECTOR) != 0;
    p->allows_nan = (row->flags & PE_NAN) != 0;
    if (!(row->flags & (PE_REQUIRED | PE_DERIVED | PE_OPTIONAL)))
        switch ((posenc_kind)row->kind) {
        case PE_T_INT:
        case PE_T_REAL: p->default_value = number(a, row->def); break;
        case PE_T_BOOL: p->default_value = WRITABLE(row->def != 0 ? "true" : "false"); break;
        case PE_T_ENUM: p->default_value = WRITABLE(row->names[(int)row->def]); break;
        case PE_T_TEXT: p->default_value = WRITABLE(row->text); break;
        case PE_T_WORDS:
        case PE_T_REALS:
        case PE_T_TENSOR: break;
        }
    if (row->kind != PE_T_ENUM && row->kind != PE_T_BOOL && row->kind != PE_T_TENSOR && row->kind != PE_T_WORDS &&
        (row->min != 0 || row->max != 0)) {
        p->has_min = p->has_max = true;
        p->min = row->min;
        p->max = row->max;
    }
    if ((row->kind == PE_T_ENUM || row->kind == PE_T_WORDS) && !(p->words = words(row, 0, &p->n_words, a)))
        return false;
    for (size_t i = 0; row->when && i < t->nrows; i++)
        if ((t->rows[i].flags & PE_SELECTOR) && !(p->when = words(&t->rows[i], row->when, &p->n_when, a)))
            return false;
    return true;
}

static bool describe_rows(const posenc_table *t, Posenc__V1__EncodingInfo *info, posenc_arena *a)
{
    for (size_t i = 0; i < t->nrows; i++) {
        Posenc__V1__ParameterInfo *p = posenc_alloc(a, sizeof *p);
        if (!p || !describe_row(t, &t->rows[i], p, a))
            return false;
        info->parameters[info->n_parameters++] = p;
    }
    return true;
}

static Posenc__V1__EncodingInfo *describe(const posenc_encoding *e, posenc_arena *a)
{
    Posenc__V1__EncodingInfo *info = posenc_alloc(a, sizeof *info);
    if (!info)
        return NULL;
    posenc__v1__encoding_info__init(info);
    info->name = WRITABLE(e->name);
    info->family = WRITABLE(e->family);
    info->title = WRITABLE(e->title);
    info->formula = WRITABLE(e->formula);
    info->source = WRITABLE(e->source);
    info->example = WRITABLE(e->example);
    info->has_revision = info->has_input = true;
    info->revision = e->revision;
    info->input = e->input == PE_GRAPH ? POSENC__V1__ENCODING_INFO__INPUT__GRAPH : POSENC__V1__ENCODING_INFO__INPUT__NONE;
    info->parameters = posenc_alloc(a, (e->table.nrows + posenc_common_table.nrows) * sizeof *info->parameters);
    info->outputs = posenc_alloc(a, e->noutputs * sizeof *info->outputs);
    if (!info->parameters || !info->outputs || !describe_rows(&e->table, info, a) ||
        !describe_rows(&posenc_common_table, info, a))
        return NULL;
    for (size_t i = 0; i < e->noutputs; i++) {
        Posenc__V1__OutputInfo *o = posenc_alloc(a, sizeof *o);
        if (!o)
            return NULL;
        posenc__v1__output_info__init(o);
        o->name = WRITABLE(e->outputs[i].name);
        o->shape = WRITABLE(e->outputs[i].shape);
        o->doc = WRITABLE(e->outputs[i].doc);
        o->dtype = WRITABLE(e->outputs[i].dtype);
        info->outputs[info->n_outputs++] = o;
    }
    return info;
}

static grpc_slice packed(const ProtobufCMessage *m)
{
    grpc_slice s = grpc_slice_malloc(protobuf_c_message_get_packed_size(m));
    protobuf_c_message_pack(m, GRPC_SLICE_START_PTR(s));
    return s;
}

static bool prepare_encodings(pe_grpc *g, posenc_arena *a)
{
    Posenc__V1__ListEncodingsResponse m = POSENC__V1__LIST_ENCODINGS_RESPONSE__INIT;
    m.encodings = posenc_alloc(a, posenc_encodings() * sizeof *m.encodings);
    for (size_t i = 0; m.encodings && i < posenc_encodings(); i++)
        if (!(m.encodings[m.n_encodings++] = describe(posenc_encoding_at(i), a)))
            return false;
    if (m.encodings)
        g->encodings = packed(&m.base);
    return m.encodings != NULL;
}

static bool prepare_capabilities(pe_grpc *g, posenc_arena *a)
{
    Posenc__V1__GetCapabilitiesResponse m = POSENC__V1__GET_CAPABILITIES_RESPONSE__INIT;
    Posenc__V1__Limits limits = POSENC__V1__LIMITS__INIT;
    char *dtypes[PE_NDTYPES], *formats[PE_NFORMATS];
    size_t n = posenc_encodings();
    m.version = WRITABLE(POSENC_VERSION);
    m.limits = &limits;
    for (unsigned i = 0; i < limits.base.descriptor->n_fields; i++) { /* a limit is the setting of that name */
        const ProtobufCFieldDescriptor *f = &limits.base.descriptor->fields[i];
        const posenc_param *row = posenc_row(&pe_config_table, f->name);
        if (!row || row->kind != PE_T_INT)
            continue;
        memcpy((char *)&limits + f->offset, (const char *)g->config + row->offset, sizeof(int64_t));
        *(protobuf_c_boolean *)(void *)((char *)&limits + f->quantifier_offset) = true;
    }
    m.encodings = posenc_alloc(a, n * sizeof *m.encodings);
    Posenc__V1__EncodingRevision *e = posenc_alloc(a, n * sizeof *e);
    if (!m.encodings || !e)
        return false;
    for (size_t i = 0; i < n; i++) {
        posenc__v1__encoding_revision__init(&e[i]);
        e[i].name = WRITABLE(posenc_encoding_at(i)->name);
        e[i].has_revision = true;
        e[i].revision = posenc_encoding_at(i)->revision;
        m.encodings[m.n_encodings++] = &e[i];
    }
    m.dtypes = dtypes;
    for (int i = 0; i < PE_NDTYPES; i++)
        dtypes[m.n_dtypes++] = WRITABLE(posenc_dtype_name((posenc_dtype)i));
    m.formats = formats;
    for (int i = 0; i < PE_NFORMATS; i++)
        formats[m.n_formats++] = WRITABLE(posenc_format_name((posenc_format)i));
    g->capabilities = packed(&m.base);
    return true;
}

bool pe_methods_prepare(pe_grpc *g)
{
    posenc_arena *a = posenc_arena_new(16 << 20);
    bool ok = a && prepare_encodings(g, a) && prepare_capabilities(g, a);
    posenc_arena_free(a);
    return ok;
}
