/* params.h - how an encoding writes its rows.
 *
 *     typedef struct sinusoidal { posenc_given given; int64_t embedding_dim; ... } sinusoidal;
 *     static const posenc_param rows[] = {
 *         { PE_INT(sinusoidal, embedding_dim), .flags = PE_REQUIRED, .min = 1, .max = 65536, .doc = "width" },
 *     };
 *     ... PE_TABLE(sinusoidal, rows) in the descriptor.
 *
 * A row spells its member once; a row whose kind disagrees with the member's type does not compile. */
#ifndef PE_PARAMS_H
#define PE_PARAMS_H

#include "core/pace.h"
#include "posenc.h"

#define PE_ROW(T, m, k, ctype) \
    .name = #m, .kind = k, .offset = offsetof(T, m) + 0 * sizeof(char[_Generic(((T *)0)->m, ctype : 1, default : -1)])
/* A row of a group that several encodings share: the member m of the member `in` of the struct. */
#define PE_ROW_IN(T, in, m, k, ctype) \
    .name = #m, .kind = k, .offset = offsetof(T, in.m) + 0 * sizeof(char[_Generic(((T *)0)->in.m, ctype : 1, default : -1)])
#define PE_INT(T, m) PE_ROW(T, m, PE_T_INT, int64_t)
#define PE_REAL(T, m) PE_ROW(T, m, PE_T_REAL, double)
#define PE_REALS(T, m) PE_ROW(T, m, PE_T_REALS, posenc_reals)
#define PE_BOOL(T, m) PE_ROW(T, m, PE_T_BOOL, bool)
#define PE_ENUM(T, m) PE_ROW(T, m, PE_T_ENUM, int)
#define PE_TEXT(T, m) PE_ROW(T, m, PE_T_TEXT, const char *)
#define PE_TENSOR(T, m) PE_ROW(T, m, PE_T_TENSOR, posenc_tensor)
#define PE_WORDS(T, m) PE_ROW(T, m, PE_T_WORDS, uint64_t)

/* The table of a params struct: refuses to compile when `given` is not the first member or rows are over 64. */
#define PE_TABLE(T, r)                            \
    .table = { .rows = (r),                       \
               .nrows = sizeof(r) / sizeof(r)[0], \
               .size = sizeof(T) + 0 * sizeof(char[offsetof(T, given) == 0 && sizeof(r) / sizeof(r)[0] <= 64 ? 1 : -1]) }

#define PE_ON(v) (UINT64_C(1) << (v))
#define PE_LEN(a) (sizeof(a) / sizeof(a)[0])

/* Whether the client supplied the row of that name, which the encoding has. */
bool pe_given(const posenc_request *r, const char *name);
/* The bit of that row in `given`, and the marking of the row as given, or not: what is given stands in the key. */
posenc_given pe_bit(const posenc_request *r, const char *name);
void pe_mark(posenc_request *r, const char *name, bool on);
/* INVALID_PARAMETER, and the value as text: pe_invalid(err, "k", posenc_text("%lld", (long long)k), "at most %d", 7). */
posenc_status pe_invalid(posenc_error *err, const char *field, posenc_short value, const char *allowed, ...)
    POSENC_PRINTF(4, 5);
/* The value of a parameter that this request cannot use. */
posenc_status pe_not_applicable(posenc_error *err, const char *field, const char *value, const char *allowed, ...)
    POSENC_PRINTF(4, 5);
posenc_status pe_no_memory(const char *field, posenc_error *err); /* BUSY; "memory" where no field is to blame */

/* Rules for a list; each adds at most one fault. Whole numbers; two whole numbers, height and width. False after a fault. */
bool pe_reals_whole(const char *name, const posenc_reals *list, posenc_error *err);
bool pe_reals_two(const char *name, const posenc_reals *list, posenc_error *err);

/* Rules for a tensor parameter; each adds at most one fault, which names the first offending element.
 * Shape: `rank` axes, -1 in `shape` admits any size; `words` says it for people: "[2, N]". */
bool pe_tensor_shaped(const posenc_tensor *t, int rank, const int64_t *shape, const char *words, posenc_error *err);
/* Whole numbers in min .. max; `words` says which: "0 or 1". */
bool pe_tensor_integers(const posenc_tensor *t, double min, double max, const char *words, posenc_error *err);
posenc_short pe_tensor_place(const posenc_tensor *t, int64_t i); /* "name[3][17]": the place of element i */
int64_t pe_tensor_infinite(const posenc_tensor *t); /* the first element that is infinite or NaN; -1: none */
bool pe_tensor_within(const posenc_tensor *t, double min, double max, const char *words, posenc_error *err);
/* Elements first .. first + n - 1 as float64 into `out`. */
void pe_tensor_read(const posenc_tensor *t, int64_t first, size_t n, double *out);
/* Every element as float64 into `out` (posenc_tensor_count). */
posenc_status pe_tensor_doubles(const posenc_tensor *t, double *out, pe_pace *pace);
/* The largest magnitude that results of the dtype are kept to: finite also after a rounding on the way. */
double pe_dtype_largest(posenc_dtype dtype);
/* The largest finite value of the dtype. */
double pe_dtype_max(posenc_dtype dtype);
/* The largest magnitude of an element; 0: none. */
double pe_tensor_largest(const posenc_tensor *t);

/* For `shape`: appends an output tensor. The product of the sizes is checked; LIMIT on overflow.
 *   pe_output(out, "table", dtype, 2, (int64_t[]){ n, d }, err) */
posenc_status pe_output(posenc_result *out, const char *name, posenc_dtype dtype, int rank, const int64_t *shape,
                        posenc_error *err);
/* For `compute`: the tensor of that name, which `shape` listed. */
posenc_tensor *pe_tensor(posenc_result *out, const char *name);
/* For `compute`: adds a warning (all that do not fit are dropped). */
void pe_warn(posenc_result *out, const char *format, ...) POSENC_PRINTF(2, 3);

#endif
