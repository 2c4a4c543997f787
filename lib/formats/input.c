#include "formats/input.h"

#include <string.h>

static const pe_wire wires[] = {
    { "float32", "f4", "F32", 4, PE_float32, false, true }, { "float64", "f8", "F64", 8, PE_float64, false, true },
    { "float16", "f2", "F16", 2, PE_float16, false, true }, { "bfloat16", "", "BF16", 2, PE_bfloat16, false, true },
    { "int32", "i4", "I32", 4, PE_int32, false, true },     { "int64", "i8", "I64", 8, PE_int64, false, true },
    { "uint8", "u1", "U8", 1, PE_uint8, false, false },     { "bool", "b1", "BOOL", 1, PE_uint8, false, false },
    { "int8", "i1", "I8", 1, PE_int64, true, true },        { "int16", "i2", "I16", 2, PE_int16, false, true },
    { "uint16", "u2", "U16", 2, PE_int64, true, false },    { "uint32", "u4", "U32", 4, PE_int64, true, false },
};
enum { NWIRES = sizeof wires / sizeof wires[0] };

const pe_wire *pe_wire_named(const char *name)
{
    for (size_t i = 0; i < NWIRES; i++)
        if (!strcmp(wires[i].name, name))
            return &wires[i];
    return NULL;
}

const pe_wire *pe_wire_numpy(const char *code, size_t n)
{
    for (size_t i = 0; i < NWIRES; i++)
        if (n == 2 && wires[i].numpy[0] && !memcmp(wires[i].numpy, code, 2))
            return &wires[i];
    return NULL;
}

const pe_wire *pe_wire_word(const char *word)
{
    for (size_t i = 0; i < NWIRES; i++)
        if (!strcmp(wires[i].word, word))
            return &wires[i];
    return NULL;
}

bool pe_wire_size(const pe_wire *w, int rank, const int64_t *shape, uint64_t *size)
{
    int64_t all = (int64_t)posenc_dtype_size(w->dtype); /* with empty axes taken as 1, in the larger of the types */
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty |= shape[i] == 0;
        if (!posenc_mul_size(all, shape[i] == 0 ? 1 : shape[i], &all))
            return false;
    }
    *size = empty ? 0 : (uint64_t)all / posenc_dtype_size(w->dtype) * w->size;
    return true;
}

/* The place in the file of the elements in row-major order, one after the other. */
typedef struct walk {
    int rank;
    int64_t shape[PE_MAX_RANK], stride[PE_MAX_RANK], at[PE_MAX_RANK];
    size_t place;
} walk;

static void walk_start(walk *w, const posenc_tensor *t)
{
    int64_t stride = 1;
    *w = (walk){ .rank = t->rank };
    for (int i = 0; i < t->rank; i++) {
        w->shape[i] = t->shape[i];
        w->stride[i] = stride;
        stride *= t->shape[i];
    }
}

static void walk_on(walk *w)
{
    for (int i = w->rank - 1; i >= 0; i--) {
        w->place += (size_t)w->stride[i];
        if (++w->at[i] < w->shape[i])
            return;
        w->place -= (size_t)(w->stride[i] * w->shape[i]);
        w->at[i] = 0;
    }
}

static void store(const pe_wire *w, const uint8_t *from, bool swap, uint8_t *to)
{
    uint8_t b[8] = { 0 };
    for (size_t i = 0; i < w->size; i++)
        b[i] = from[swap ? w->size - 1 - i : i];
    if (w->widen && w->is_signed && (b[w->size - 1] & 0x80))
        memset(b + w->size, 0xff, sizeof b - w->size);
    memcpy(to, b, posenc_dtype_size(w->dtype));
}

posenc_status pe_wire_load(const pe_wire *w, const void *bytes, bool swap, bool fortran, posenc_tensor *t, posenc_arena *a,
                           const char *field, posenc_error *err)
{
    size_t size = posenc_dtype_size(w->dtype);
    t->dtype = w->dtype;
    size_t n = (size_t)posenc_tensor_count(t);
    fortran = fortran && t->rank > 1 && n > 0;
    swap = swap && w->size > 1;
    if (!w->widen && !swap && !fortran && n > 0 && (uintptr_t)bytes % size == 0) {
        t->data = (void *)(uintptr_t)bytes; /* readers of requests do not write to it */
        return PE_OK;
    }
    uint8_t *to = posenc_alloc(a, n * size);
    if (!to)
        return pe_no_memory(field, err);
    t->data = to;
    if (!w->widen && !swap && !fortran) {
        if (n > 0)
            memcpy(to, bytes, n * size);
        return PE_OK;
    }
    walk place;
    walk_start(&place, t);
    for (size_t i = 0; i < n; i++) {
        store(w, (const uint8_t *)bytes + (fortran ? place.place : i) * w->size, swap, to + i * size);
        if (fortran)
            walk_on(&place);
    }
    return PE_OK;
}

pe_place pe_place_of(posenc_request *r, const char *name)
{
    pe_place own = { &r->encoding->table, posenc_row(&r->encoding->table, name), r->params };
    if (r->of && (!own.row || posenc_row(&r->of->encoding->table, name))) /* a learned encoding has a table of its own */
        return pe_place_of(r->of, name);
    if (own.row)
        return own;
    return (pe_place){ &posenc_common_table, posenc_row(&posenc_common_table, name), &r->common };
}

posenc_status pe_no_place(const posenc_request *r, const char *name, posenc_error *err)
{
    const posenc_request *inner = r->of ? r->of : r;
    return posenc_unknown(&inner->encoding->table, r->of ? &r->encoding->table : &posenc_common_table, name, err);
}

static posenc_status set_reals(posenc_request *r, const pe_place *to, const posenc_tensor *t, posenc_error *err)
{
    const char *name = to->row->name;
    size_t n = (size_t)posenc_tensor_count(t);
    if (t->rank > 1)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", name, posenc_text("%d axes", t->rank).s,
                           "a list of numbers: one axis");
    double *v = posenc_alloc(r->arena, n * sizeof *v);
    if (!v)
        return pe_no_memory(name, err);
    for (size_t i = 0; i < n; i++) {
        v[i] = posenc_tensor_get(t, (int64_t)i) + 0.0; /* -0 is 0 in a parameter */
        if (t->dtype != PE_int64)
            continue;
        int64_t whole = ((const int64_t *)t->data)[i];
        if (v[i] >= 0x1p63 || (int64_t)v[i] != whole)
            return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", posenc_text("%.40s[%zu]", name, i).s,
                               posenc_text("%lld", (long long)whole).s, "an integer that float64 holds exactly");
    }
    return posenc_set_reals(to->table, to->row, to->params, v, n, err);
}

posenc_status pe_set_tensor(posenc_request *r, const pe_place *to, const posenc_tensor *t, posenc_error *err)
{
    if (to->row->kind == PE_T_TENSOR)
        return posenc_set_tensor(to->table, to->row, to->params, t, err);
    if (to->row->kind == PE_T_REALS)
        return set_reals(r, to, t, err);
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", to->row->name, "a tensor", "a single value, not a tensor");
}

/* The number of nodes is not guessed from the edges: the last nodes may have none. */
posenc_status pe_build_graph(posenc_request *r, posenc_edges *e, const char *field, posenc_error *err)
{
    if (e->num_nodes < 0 && e->ptr)
        e->num_nodes = e->ptr[e->ngraphs];
    else if (e->num_nodes < 0)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", field, "absent",
                           "the number of nodes, isolated ones included");
    return posenc_graph_build_watched(e, r->arena, &r->graph, r->ctx, err);
}
