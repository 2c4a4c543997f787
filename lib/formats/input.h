/* input.h - what the readers of JSON bodies and of binary bodies share.
 *
 * Ownership: tensors made here borrow from the bytes given, or live in the arena given. */
#ifndef PE_INPUT_H
#define PE_INPUT_H

#include "core/params.h"

/* The element types that may arrive. Narrow integers and booleans have no dtype of their own: integers become
 * int64, booleans uint8. */
typedef struct pe_wire {
    const char *name, *numpy, *word; /* "int16", "i2", "I16" */
    size_t size;                     /* bytes on the wire */
    posenc_dtype dtype;              /* what it becomes */
    bool widen, is_signed;
} pe_wire;

const pe_wire *pe_wire_named(const char *name);           /* NULL: none of that name */
const pe_wire *pe_wire_numpy(const char *code, size_t n); /* without the letter of the byte order */
const pe_wire *pe_wire_word(const char *word);

/* Bytes of an array; false when the product overflows, whatever the order of the axes. */
bool pe_wire_size(const pe_wire *w, int rank, const int64_t *shape, uint64_t *size);
/* Completes t, whose rank and shape are set, from the bytes of a well-sized array. `swap`: big-endian; `fortran`: first
 * axis fastest. Copies only where the bytes cannot be used as they are. BUSY. */
posenc_status pe_wire_load(const pe_wire *w, const void *bytes, bool swap, bool fortran, posenc_tensor *t, posenc_arena *a,
                           const char *field, posenc_error *err);

/* Where a parameter is set: the encoding's row, that of the encoding a report is about, or a common one. */
typedef struct pe_place {
    const posenc_table *table;
    const posenc_param *row; /* NULL: no such parameter */
    void *params;
} pe_place;
pe_place pe_place_of(posenc_request *r, const char *name);
posenc_status pe_no_place(const posenc_request *r, const char *name, posenc_error *err); /* the fault where there is none */
/* The request that a graph belongs to. */
static inline posenc_request *pe_graph_of(posenc_request *r) { return r->of ? r->of : r; }

/* Sets a tensor row, or a reals row from a tensor of rank 0 or 1. Other rows are a fault. */
posenc_status pe_set_tensor(posenc_request *r, const pe_place *to, const posenc_tensor *t, posenc_error *err);

/* Builds the request's graph. num_nodes -1: the end of ptr, or required. `field` names num_nodes in errors. */
posenc_status pe_build_graph(posenc_request *r, posenc_edges *e, const char *field, posenc_error *err);

/* A tensor as JSON text: nested arrays, or {"dtype","shape","data"}. `name` is the field in errors. */
posenc_status pe_read_tensor_text(const char *text, size_t n, const char *name, posenc_arena *a, posenc_tensor *t,
                                  posenc_error *err);

static inline posenc_status pe_graver(posenc_status a, posenc_status b) { return a > b ? a : b; }

#endif
