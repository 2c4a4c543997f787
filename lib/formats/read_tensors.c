/* read_tensors.c - the tensors of a binary body: the graph, and parameters by name.
 *
 * The tensors, and the bytes they borrow from, must live as long as the request. */
#include "formats/input.h"

#include <stdio.h>
#include <string.h>

static posenc_status bad_shape(const posenc_tensor *t, const char *allowed, posenc_error *err)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s [", posenc_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (n < (int)sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "]");
    return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", t->name, text, "%s", allowed);
}

/* Integers as int64: int64 as they are, narrower ones widened into the arena. */
static posenc_status take_ints(const posenc_tensor *t, posenc_arena *a, const int64_t **out, posenc_error *err)
{
    *out = t->data;
    if (t->dtype == PE_int64)
        return PE_OK;
    size_t n = (size_t)posenc_tensor_count(t);
    int64_t *v = posenc_alloc(a, n * sizeof *v);
    if (!v)
        return pe_no_memory(t->name, err);
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)posenc_tensor_get(t, (int64_t)i);
    *out = v;
    return PE_OK;
}

static bool is_int(const posenc_tensor *t) { return t->dtype == PE_int64 || t->dtype == PE_int32 || t->dtype == PE_int16; }

static posenc_status take_weights(const posenc_tensor *t, posenc_arena *a, const double **out, posenc_error *err)
{
    *out = t->data;
    if (t->dtype == PE_float64)
        return PE_OK;
    size_t n = (size_t)posenc_tensor_count(t);
    double *v = posenc_alloc(a, n * sizeof *v);
    if (!v)
        return pe_no_memory(t->name, err);
    for (size_t i = 0; i < n; i++)
        v[i] = posenc_tensor_get(t, (int64_t)i);
    *out = v;
    return PE_OK;
}

typedef struct parts {
    const posenc_tensor *index, *weight, *ptr;
} parts;

static posenc_status build_graph(posenc_request *r, const parts *p, int64_t num_nodes, bool directed, posenc_error *err)
{
    posenc_edges e = { .num_nodes = num_nodes, .directed = directed };
    posenc_status st = PE_OK;
    if (!p->index)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "edge_index", "absent",
                           "int64, int32 or int16 of shape [2, edges]");
    if (!is_int(p->index) || p->index->rank != 2 || p->index->shape[0] != 2)
        st = pe_graver(st, bad_shape(p->index, "int64, int32 or int16 of shape [2, edges]", err));
    else
        e.nedges = p->index->shape[1];
    if (p->weight && (p->weight->dtype > PE_bfloat16 || p->weight->rank != 1 || (!st && p->weight->shape[0] != e.nedges)))
        st = pe_graver(st, bad_shape(p->weight, "reals of shape [edges]: one weight for every edge", err));
    if (p->ptr && (!is_int(p->ptr) || p->ptr->rank != 1 || p->ptr->shape[0] < 2))
        st = pe_graver(st, bad_shape(p->ptr, "int64, int32 or int16 of shape [graphs + 1], at least one graph", err));
    if (st || (st = take_ints(p->index, r->arena, &e.source, err)))
        return st;
    e.target = e.source + e.nedges;
    if (p->weight && (st = take_weights(p->weight, r->arena, &e.weight, err)))
        return st;
    if (p->ptr) {
        e.ngraphs = p->ptr->shape[0] - 1;
        if ((st = take_ints(p->ptr, r->arena, &e.ptr, err)))
            return st;
    }
    return pe_build_graph(r, &e, "num_nodes", err);
}

/* The part of the graph that a name means; NULL: none. */
static const posenc_tensor **part_of(parts *p, const char *name)
{
    if (!strcmp(name, "edge_index"))
        return &p->index;
    if (!strcmp(name, "edge_weight"))
        return &p->weight;
    return !strcmp(name, "ptr") ? &p->ptr : NULL;
}

posenc_status posenc_request_tensors(posenc_request *r, const posenc_tensor *t, size_t n, int64_t num_nodes, bool directed,
                                     posenc_error *err)
{
    posenc_status st = PE_OK;
    parts p = { 0 };
    posenc_request *g = pe_graph_of(r);
    int faults = 0;
    for (size_t i = 0; i < n && faults < PE_MAX_FAULTS; i++) {
        const posenc_tensor **part = g->encoding->input == PE_GRAPH ? part_of(&p, t[i].name) : NULL;
        pe_place to = part ? (pe_place){ 0 } : pe_place_of(r, t[i].name);
        posenc_status one = PE_OK;
        if (part && !*part)
            *part = &t[i];
        else if (part)
            one = posenc_fail(err, PE_INVALID, "DUPLICATE_PARAMETER", t[i].name, "given twice", "once");
        else if (to.row)
            one = pe_set_tensor(r, &to, &t[i], err);
        else
            one = pe_no_place(r, t[i].name, err);
        st = pe_graver(st, one);
        faults += one != PE_OK;
    }
    if (g->encoding->input != PE_GRAPH) {
        if (num_nodes >= 0)
            st = pe_graver(st, pe_no_place(r, "num_nodes", err));
        return st;
    }
    if (p.index || p.weight || p.ptr || num_nodes >= 0)
        st = pe_graver(st, build_graph(g, &p, num_nodes, directed, err));
    return st;
}
