/* reflect.c - protobuf messages <-> tables of parameters. */
#include "grpc/reflect.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char bad[] = "INVALID_PARAMETER";

typedef ProtobufCFieldDescriptor field;

/* ---- words ---- */

/* "abs-max" is ABS_MAX on the wire. */
static bool same_word(const char *word, const char *wire)
{
    for (; *word; word++, wire++) {
        int c = *word == '-' || *word == '.' ? '_' : toupper((unsigned char)*word);
        if (c != *wire)
            return false;
    }
    return !*wire;
}

static int word_of(const char *const *words, const char *wire)
{
    for (int i = 0; words[i]; i++)
        if (same_word(words[i], wire))
            return i;
    return -1;
}

/* ---- parity ---- */

static const struct {
    ProtobufCType type;
    ProtobufCLabel label;
    const char *words;
} wire_kinds[] = {
    [PE_T_INT] = { PROTOBUF_C_TYPE_INT64, PROTOBUF_C_LABEL_OPTIONAL, "optional int64" },
    [PE_T_REAL] = { PROTOBUF_C_TYPE_DOUBLE, PROTOBUF_C_LABEL_OPTIONAL, "optional double" },
    [PE_T_REALS] = { PROTOBUF_C_TYPE_DOUBLE, PROTOBUF_C_LABEL_REPEATED, "repeated double [packed = true]" },
    [PE_T_BOOL] = { PROTOBUF_C_TYPE_BOOL, PROTOBUF_C_LABEL_OPTIONAL, "optional bool" },
    [PE_T_ENUM] = { PROTOBUF_C_TYPE_ENUM, PROTOBUF_C_LABEL_OPTIONAL, "an optional enum" },
    [PE_T_TEXT] = { PROTOBUF_C_TYPE_STRING, PROTOBUF_C_LABEL_OPTIONAL, "optional string" },
    [PE_T_WORDS] = { PROTOBUF_C_TYPE_ENUM, PROTOBUF_C_LABEL_REPEATED, "a repeated enum [packed = true]" },
    [PE_T_TENSOR] = { PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_LABEL_OPTIONAL, "optional TensorInput" },
};

static posenc_status differ(const char *where, const char *name, const char *should, posenc_error *err)
{
    char path[128];
    snprintf(path, sizeof path, "%.60s.%.60s", where, name);
    return posenc_fail(err, PE_INTERNAL, "PARITY", path, "table and message differ", "%s", should);
}

static void check_words(const posenc_param *row, const field *f, const char *where, bool exact, posenc_error *err)
{
    const ProtobufCEnumDescriptor *e = f->descriptor;
    for (int i = 0; row->names[i]; i++) {
        bool found = false;
        for (unsigned k = 0; k < e->n_values; k++)
            found |= same_word(row->names[i], e->values[k].name);
        if (!found)
            differ(where, row->name, posenc_text("the enum needs a value for %s", row->names[i]).s, err);
        for (int k = 0; k < i; k++) {
            const char *a = row->names[i], *b = row->names[k];
            while (*a && *b &&
                   (isalnum((unsigned char)*a) ? toupper((unsigned char)*a) : '_') ==
                       (isalnum((unsigned char)*b) ? toupper((unsigned char)*b) : '_'))
                a++, b++;
            if (!*a && !*b)
                differ(where, row->name, posenc_text("%s and %s are one value", row->names[i], row->names[k]).s, err);
        }
    }
    for (unsigned k = 0; exact && k < e->n_values; k++)
        if (word_of(row->names, e->values[k].name) < 0)
            differ(where, row->name, posenc_text("the row needs a word for %s", e->values[k].name).s, err);
}

posenc_status pe_reflect_check_table(const posenc_table *t, const ProtobufCMessageDescriptor *d, bool exact,
                                     posenc_error *err)
{
    posenc_error local = { 0 };
    for (size_t i = 0; i < t->nrows; i++) {
        const posenc_param *row = &t->rows[i];
        const field *f = protobuf_c_message_descriptor_get_field_by_name(d, row->name);
        if (!f)
            differ(d->short_name, row->name, "the message needs this field", &local);
        else if (f->type != wire_kinds[row->kind].type || f->label != wire_kinds[row->kind].label ||
                 (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
                 (row->kind == PE_T_TENSOR && f->descriptor != &posenc__v1__tensor_input__descriptor))
            differ(d->short_name, row->name, posenc_text("the field must be %s", wire_kinds[row->kind].words).s, &local);
        else if (row->kind == PE_T_ENUM || row->kind == PE_T_WORDS)
            check_words(row, f, d->short_name, exact, &local);
    }
    for (unsigned i = 0; exact && i < d->n_fields; i++)
        if (!posenc_row(t, d->fields[i].name))
            differ(d->short_name, d->fields[i].name, "the table needs this row", &local);
    for (unsigned i = 0; err && i < local.n; i++)
        posenc_fail(err, PE_INTERNAL, local.fault[i].reason, local.fault[i].field, local.fault[i].value, "%s",
                    local.fault[i].allowed);
    return local.status;
}

static const ProtobufCMessageDescriptor *report_message(const char *name)
{
    static const ProtobufCMessageDescriptor *const all[] = { &posenc__v1__analysis__descriptor,
                                                             &posenc__v1__identify__descriptor,
                                                             &posenc__v1__compare__descriptor };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcasecmp(all[i]->short_name, name))
            return all[i];
    return NULL;
}

posenc_status pe_reflect_check(posenc_error *err)
{
    const ProtobufCMessageDescriptor *request = &posenc__v1__encode_request__descriptor;
    posenc_error local = { 0 };
    if (!err)
        err = &local;
    for (size_t i = 0; i < posenc_encodings(); i++) {
        const posenc_encoding *e = posenc_encoding_at(i);
        const field *f = protobuf_c_message_descriptor_get_field_by_name(request, e->name);
        if (!f || !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || f->type != PROTOBUF_C_TYPE_MESSAGE)
            differ("EncodeRequest", e->name, "the oneof `encoding` needs a message for this encoding", err);
        else
            pe_reflect_check_table(&e->table, f->descriptor, true, err);
    }
    for (unsigned i = 0; i < request->n_fields; i++)
        if ((request->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && !posenc_encoding_named(request->fields[i].name))
            differ("EncodeRequest", request->fields[i].name, "no encoding has this name", err);
    pe_reflect_check_table(&posenc_common_table, request, false, err);
    for (size_t i = 0; i < posenc_reports(); i++) { /* each is a message of its own, named alike */
        const posenc_encoding *e = posenc_report_at(i);
        const ProtobufCMessageDescriptor *d = report_message(e->name);
        if (!d)
            differ("analysis.proto", e->name, "this report needs a message", err);
        else
            pe_reflect_check_table(&e->table, d, true, err);
    }
    const ProtobufCEnumDescriptor *types = &posenc__v1__dtype__descriptor;
    for (int i = 0; i < PE_NDTYPES; i++) {
        const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(types, i);
        if (!v || !same_word(posenc_dtype_name((posenc_dtype)i), v->name))
            differ("DType", posenc_dtype_name((posenc_dtype)i), posenc_text("value %d of the enum", i).s, err);
    }
    return err->status;
}

/* ---- unpacking ---- */

typedef struct budget {
    posenc_arena *arena;
    size_t left;
    bool over, no_memory;
} budget;

static void *take(void *user, size_t size)
{
    budget *b = user;
    size_t real = (size + 63) & ~(size_t)63; /* what the arena spends on it */
    if (size > SIZE_MAX / 4 || real > b->left) {
        b->over = true;
        return NULL;
    }
    b->left -= real;
    void *p = posenc_alloc(b->arena, size);
    b->no_memory |= !p;
    return p;
}

static void keep(void *user, void *p)
{
    (void)user;
    (void)p;
}

ProtobufCMessage *pe_reflect_unpack(const ProtobufCMessageDescriptor *d, const void *bytes, size_t size, posenc_arena *a,
                                    posenc_error *err)
{
    budget b = { .arena = a, .left = size < (SIZE_MAX >> 6) ? size * 16 + 65536 : SIZE_MAX / 4 };
    ProtobufCAllocator in_arena = { .alloc = take, .free = keep, .allocator_data = &b };
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &in_arena, size, bytes);
    if (!m && b.no_memory)
        posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", posenc_text("%zu bytes", size).s,
                    "more memory for one request, or try again");
    else if (!m && b.over)
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "request", posenc_text("%zu bytes", size).s,
                    "a message that unpacks to at most 16 times its size: lists packed, few empty fields");
    else if (!m)
        posenc_fail(err, PE_INVALID, "INVALID_MESSAGE", "request", posenc_text("%zu bytes", size).s, "a serialized %s",
                    d->name);
    return m;
}

/* ---- reading ---- */

static void *member(const ProtobufCMessage *m, unsigned offset) { return (char *)(uintptr_t)m + offset; }

/* A field of a later version, or a typing error of a hand-made client: its meaning would be lost. */
static void check_unknown(const ProtobufCMessage *m, const char *path, posenc_error *err)
{
    char name[128];
    for (unsigned i = 0; i < m->n_unknown_fields && i < PE_MAX_FAULTS; i++) {
        snprintf(name, sizeof name, "%.80s%sfield %u", path, *path ? "." : "", m->unknown_fields[i].tag);
        posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", name, "", "no such field in %s of this server",
                    m->descriptor->name);
    }
}

/* The word of a number on the wire; -1 after a fault. */
static int word_of_number(const posenc_param *row, const field *f, int number, posenc_error *err)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(f->descriptor, number);
    int word = v ? word_of(row->names, v->name) : -1;
    if (word >= 0)
        return word;
    char list[160] = "";
    size_t used = 0;
    for (int i = 0; row->names[i] && used < sizeof list; i++) {
        int n = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", row->names[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    posenc_fail(err, PE_INVALID, bad, row->name, v ? v->name : posenc_text("number %d", number).s, "one of: %s", list);
    return -1;
}

static void set_enum(const posenc_table *t, const posenc_param *row, void *params, const field *f, int number,
                     posenc_error *err)
{
    const int word = word_of_number(row, f, number, err);
    if (word >= 0)
        posenc_set_enum(t, row, params, word, err);
}

static void set_words(const posenc_table *t, const posenc_param *row, void *params, const field *f, const int *number,
                      size_t n, posenc_error *err)
{
    uint64_t set = 0;
    for (size_t i = 0; i < n; i++) {
        const int word = word_of_number(row, f, number[i], err);
        if (word < 0)
            return;
        if (set >> word & 1) {
            posenc_fail(err, PE_INVALID, bad, row->name, row->names[word], "each word once");
            return;
        }
        set |= UINT64_C(1) << word;
    }
    posenc_set_words(t, row, params, set, err);
}

static posenc_status read_tensor(const Posenc__V1__TensorInput *in, const char *name, posenc_tensor *out, posenc_arena *a,
                                 posenc_error *err)
{
    posenc_tensor t = { .name = name };
    unsigned before = err->n + err->dropped;
    check_unknown(&in->base, name, err);
    if (in->source_case == POSENC__V1__TENSOR_INPUT__SOURCE_TABLE)
        return posenc_fail(err, PE_NOT_FOUND, "TABLE_NOT_FOUND", name, in->table,
                           "the name of a stored table; none is stored here");
    if (in->source_case != POSENC__V1__TENSOR_INPUT__SOURCE_INLINE)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", name, "an empty TensorInput", "inline or table");
    const Posenc__V1__Tensor *m = in->inline_;
    check_unknown(&m->base, name, err);
    if (m->dtype < 0 || (int)m->dtype >= PE_NDTYPES)
        return posenc_fail(err, PE_INVALID, bad, name, posenc_text("dtype number %d", (int)m->dtype).s,
                           "FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT16, INT32, INT64 or UINT8");
    t.dtype = (posenc_dtype)m->dtype;
    if (m->n_shape > PE_MAX_RANK)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", name, posenc_text("%zu axes", m->n_shape).s, "at most %d axes",
                           PE_MAX_RANK);
    int64_t n = (int64_t)posenc_dtype_size(t.dtype);
    t.rank = (int)m->n_shape;
    for (int i = 0; i < t.rank; i++) {
        t.shape[i] = m->shape[i];
        if (!posenc_mul_size(n, t.shape[i], &n))
            return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", posenc_text("%.40s.shape[%d]", name, i).s,
                               posenc_text("%lld", (long long)t.shape[i]).s,
                               "axes of at least 0, less than 2^63 bytes in all");
    }
    if ((uint64_t)n != m->data.len)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", posenc_text("%.40s.data", name).s,
                           posenc_text("%zu bytes", m->data.len).s, "%lld bytes, as shape and dtype say", (long long)n);
    t.data = n ? m->data.data : posenc_alloc(a, 1); /* an empty tensor is given too */
    if (!t.data)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", name, "", "try again");
    *out = t;
    return err->n + err->dropped == before ? PE_OK : PE_INVALID;
}

/* `m` has the field when its presence says so; `p` is where the value lies. */
static bool present(const ProtobufCMessage *m, const field *f)
{
    const void *p = member(m, f->offset);
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)member(m, f->quantifier_offset) > 0;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING)
        return *(void *const *)p != NULL;
    return *(const protobuf_c_boolean *)member(m, f->quantifier_offset) != 0;
}

static void set_field(const ProtobufCMessage *m, const field *f, const posenc_table *t, const posenc_param *row,
                      void *params, posenc_arena *a, posenc_error *err)
{
    const void *p = member(m, f->offset);
    posenc_tensor tensor;
    switch ((posenc_kind)row->kind) {
    case PE_T_INT: posenc_set_int(t, row, params, *(const int64_t *)p, err); break;
    case PE_T_REAL: posenc_set_real(t, row, params, *(const double *)p, err); break;
    case PE_T_REALS:
        posenc_set_reals(t, row, params, *(double *const *)p, *(const size_t *)member(m, f->quantifier_offset), err);
        break;
    case PE_T_BOOL: posenc_set_bool(t, row, params, *(const protobuf_c_boolean *)p != 0, err); break;
    case PE_T_ENUM: set_enum(t, row, params, f, *(const int *)p, err); break;
    case PE_T_WORDS:
        set_words(t, row, params, f, *(int *const *)p, *(const size_t *)member(m, f->quantifier_offset), err);
        break;
    case PE_T_TEXT: posenc_set_text(t, row, params, *(char *const *)p, strlen(*(char *const *)p), a, err); break;
    case PE_T_TENSOR:
        if (!read_tensor(*(Posenc__V1__TensorInput *const *)p, row->name, &tensor, a, err))
            posenc_set_tensor(t, row, params, &tensor, err);
        break;
    }
}

posenc_status pe_reflect_set(const ProtobufCMessage *m, const posenc_table *t, void *params, posenc_arena *a,
                             posenc_error *err)
{
    posenc_error local = { 0 };
    if (!err)
        err = &local;
    check_unknown(m, "", err);
    for (size_t i = 0; i < t->nrows; i++) {
        const field *f = protobuf_c_message_descriptor_get_field_by_name(m->descriptor, t->rows[i].name);
        if (f && present(m, f))
            set_field(m, f, t, &t->rows[i], params, a, err);
    }
    return err->status;
}

static void read_graph(const Posenc__V1__Graph *g, posenc_request *r, posenc_arena *a, posenc_error *err)
{
    static const int64_t none = 0; /* where a list is empty: not a null pointer */
    unsigned before = err->n + err->dropped;
    check_unknown(&g->base, "graph", err);
    if (!g->has_num_nodes && !g->n_ptr)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "graph.num_nodes", "absent",
                    "is required without ptr: 0 .. 2147483646");
    if (g->n_edge_index % 2)
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "graph.edge_index", posenc_text("%zu numbers", g->n_edge_index).s,
                    "an even number: all sources, then all targets");
    else if (g->n_edge_weight && g->n_edge_weight != g->n_edge_index / 2)
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "graph.edge_weight", posenc_text("%zu numbers", g->n_edge_weight).s,
                    "%zu numbers, one an edge; or none", g->n_edge_index / 2);
    if (err->n + err->dropped > before)
        return;
    size_t m = g->n_edge_index / 2;
    const int64_t *index = m ? g->edge_index : &none;
    posenc_edges edges = {
        .num_nodes = g->has_num_nodes ? g->num_nodes : g->ptr[g->n_ptr - 1],
        .nedges = (int64_t)m,
        .source = index,
        .target = index + m,
        .weight = g->n_edge_weight ? g->edge_weight : NULL,
        .directed = g->directed != 0,
        .ptr = g->n_ptr ? g->ptr : NULL,
        .ngraphs = g->n_ptr ? (int64_t)g->n_ptr - 1 : 0,
    };
    posenc_graph_build_watched(&edges, a, &r->graph, r->ctx, err);
}

static const field *chosen_field(const Posenc__V1__EncodeRequest *m)
{
    const ProtobufCMessageDescriptor *d = m->base.descriptor;
    for (unsigned i = 0; i < d->n_fields; i++)
        if ((d->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && d->fields[i].id == (uint32_t)m->encoding_case)
            return &d->fields[i];
    return NULL;
}

const char *pe_reflect_chosen(const Posenc__V1__EncodeRequest *m, posenc_error *err)
{
    const field *chosen = chosen_field(m);
    if (chosen)
        return chosen->name;
    check_unknown(&m->base, "", err); /* perhaps an encoding that this server does not know */
    posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "encoding", "absent",
                "one member of the oneof; ListEncodings lists them");
    return NULL;
}

posenc_status pe_reflect_fill(const Posenc__V1__EncodeRequest *m, posenc_request *r, posenc_arena *a, posenc_error *err)
{
    const field *chosen = chosen_field(m);
    pe_reflect_set(*(ProtobufCMessage *const *)member(&m->base, chosen->offset), &r->encoding->table, r->params, a, err);
    pe_reflect_set(&m->base, &posenc_common_table, &r->common, a, err);
    if (m->graph && r->encoding->input != PE_GRAPH)
        posenc_unknown(&r->encoding->table, &posenc_common_table, "graph", err); /* as for any name it does not have */
    else if (m->graph)
        read_graph(m->graph, r, a, err);
    return err->status;
}

posenc_status pe_reflect_request(const Posenc__V1__EncodeRequest *m, posenc_request *r, posenc_context *ctx, posenc_arena *a,
                                 posenc_error *err)
{
    posenc_error local = { 0 };
    posenc_status st;
    *r = (posenc_request){ 0 };
    if (!err)
        err = &local;
    const char *name = pe_reflect_chosen(m, err);
    if (!name)
        return err->status;
    if ((st = posenc_request_init(r, name, a, err)))
        return st;
    r->ctx = ctx;
    return pe_reflect_fill(m, r, a, err);
}

/* ---- selection ---- */

static const char *name_at(const void *list, size_t i) { return ((const posenc_result *)list)->tensor[i].name; }

posenc_status pe_reflect_selection(const Posenc__V1__EncodeRequest *m, const posenc_request *r, posenc_selection *out,
                                   posenc_error *err)
{
    const posenc_result *s = &r->shape;
    posenc_error local = { 0 };
    *out = (posenc_selection){ 0 };
    if (!err)
        err = &local;
    for (size_t k = 0; k < m->n_tensors && !err->dropped; k++) {
        int i = 0;
        while (i < s->ntensors && strcmp(s->tensor[i].name, m->tensors[k]))
            i++;
        if (i == s->ntensors) {
            const char *near = posenc_nearest(m->tensors[k], name_at, s, (size_t)s->ntensors);
            posenc_fail(err, PE_NOT_FOUND, "UNKNOWN_TENSOR", posenc_text("tensors[%zu]", k).s, m->tensors[k],
                        "an output of this request%s%s%s", near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        } else if (out->tensors >> i & 1) {
            posenc_fail(err, PE_INVALID, "DUPLICATE_PARAMETER", posenc_text("tensors[%zu]", k).s, m->tensors[k],
                        "each output once");
        } else {
            out->tensors |= 1u << i;
        }
    }
    if (err->n || (!m->has_rows_begin && !m->has_rows_end))
        return err->status;
    const posenc_tensor *first = NULL;
    for (int i = 0; i < s->ntensors; i++) {
        const posenc_tensor *t = &s->tensor[i];
        if (out->tensors && !(out->tensors >> i & 1))
            continue;
        first = first ? first : t;
        if (!t->rank || t->shape[0] != first->shape[0])
            return posenc_fail(err, PE_INVALID, bad, "rows_begin", t->name,
                               "outputs with as many rows as %s: choose with `tensors`", first->name);
    }
    out->rows = true;
    int64_t rows = first ? first->shape[0] : 0;
    out->row_begin = m->rows_begin;
    out->row_end = m->has_rows_end ? m->rows_end : rows;
    if (out->row_begin < 0 || out->row_begin > rows)
        posenc_fail(err, PE_INVALID, bad, "rows_begin", posenc_text("%lld", (long long)out->row_begin).s, "0 .. %lld",
                    (long long)rows);
    else if (out->row_end < out->row_begin || out->row_end > rows)
        posenc_fail(err, PE_INVALID, bad, "rows_end", posenc_text("%lld", (long long)out->row_end).s, "%lld .. %lld",
                    (long long)out->row_begin, (long long)rows);
    return err->status;
}
