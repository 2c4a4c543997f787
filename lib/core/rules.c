/* rules.c - what the `check` functions of encodings share: faults in few words, rules for tensors. */
#include "core/exact.h"
#include "core/params.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool pe_given(const posenc_request *r, const char *name)
{
    const posenc_table *t = &r->encoding->table;
    return posenc_was_given(t, posenc_row(t, name), r->params);
}

posenc_given pe_bit(const posenc_request *r, const char *name)
{
    const posenc_table *t = &r->encoding->table;
    return UINT64_C(1) << (posenc_row(t, name) - t->rows);
}

void pe_mark(posenc_request *r, const char *name, bool on)
{
    posenc_given *g = r->params;
    *g = on ? *g | pe_bit(r, name) : *g & ~pe_bit(r, name);
}

static posenc_status refuse(posenc_error *err, const char *reason, const char *field, const char *value, const char *allowed,
                            va_list ap)
{
    char words[sizeof err->fault[0].allowed];
    vsnprintf(words, sizeof words, allowed, ap);
    return posenc_fail(err, PE_INVALID, reason, field, value, "%s", words);
}

posenc_status pe_invalid(posenc_error *err, const char *field, posenc_short value, const char *allowed, ...)
{
    va_list ap;
    va_start(ap, allowed);
    posenc_status st = refuse(err, "INVALID_PARAMETER", field, value.s, allowed, ap);
    va_end(ap);
    return st;
}

posenc_status pe_not_applicable(posenc_error *err, const char *field, const char *value, const char *allowed, ...)
{
    va_list ap;
    va_start(ap, allowed);
    posenc_status st = refuse(err, "NOT_APPLICABLE", field, value, allowed, ap);
    va_end(ap);
    return st;
}

posenc_status pe_no_memory(const char *field, posenc_error *err)
{
    return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", field, "", "a smaller request, or the same one later");
}

bool pe_reals_whole(const char *name, const posenc_reals *list, posenc_error *err)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] != floor(list->v[i]))
            return !pe_invalid(err, posenc_text("%s[%zu]", name, i).s, posenc_text("%.17g", list->v[i]), "a whole number");
    return true;
}

bool pe_reals_two(const char *name, const posenc_reals *list, posenc_error *err)
{
    if (list->n != 2)
        return !pe_invalid(err, name, posenc_text("%zu elements", list->n), "2 elements, height and width");
    return pe_reals_whole(name, list, err);
}

bool pe_tensor_shaped(const posenc_tensor *t, int rank, const int64_t *shape, const char *words, posenc_error *err)
{
    bool fits = t->rank == rank;
    for (int i = 0; i < rank && fits; i++)
        fits = shape[i] < 0 || t->shape[i] == shape[i];
    if (fits)
        return true;
    char text[64] = "[";
    size_t n = 1;
    for (int i = 0; i < t->rank && n < sizeof text - 24; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    snprintf(text + n, sizeof text - n, "]");
    posenc_fail(err, PE_INVALID, "INVALID_SHAPE", t->name, text, "the shape %s", words);
    return false;
}

posenc_short pe_tensor_place(const posenc_tensor *t, int64_t i)
{
    posenc_short s;
    int64_t step = posenc_tensor_count(t);
    size_t n = (size_t)snprintf(s.s, sizeof s.s, "%.30s", t->name);
    for (int k = 0; k < t->rank && n < sizeof s.s - 1; k++) {
        step /= t->shape[k];
        n += (size_t)snprintf(s.s + n, sizeof s.s - n, "[%lld]", (long long)(i / step));
        i %= step;
    }
    return s;
}

/* Whether all are in min .. max for certain; false also for -0 beside a bound of 0. */
PE_BODY void within_body(const double *v, size_t n, double min, double max, bool *sure)
{
    pe_masks bad = { 0 };
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_lanes x;
        PE_LOAD(x, v + i, PE_LANES);
        const pe_masks magnitude = (pe_masks)x & 0x7fffffffffffffff; /* a NaN's is over that of infinity */
        bad |= (pe_masks)(x - min) | (pe_masks)(max - x) | (0x7ff0000000000000 - magnitude);
    }
    bool all = true;
    for (int l = 0; l < PE_LANES; l++)
        all = all && bad[l] >= 0;
    for (; i < n; i++)
        all = all && v[i] >= min && v[i] <= max;
    *sure = all;
}

PE_KERNEL(within, within_body, (const double *v, size_t n, double min, double max, bool *sure), (v, n, min, max, sure))

/* The first element that is outside min .. max, or not whole; -1: none. */
static int64_t first_outside(const posenc_tensor *t, double min, double max, bool whole)
{
    enum { BLOCK = 1024 };
    double v[BLOCK];
    whole = whole && t->dtype <= PE_bfloat16; /* integers are */
    for (int64_t first = 0, n = posenc_tensor_count(t); first < n; first += BLOCK) {
        const int64_t m = n - first < BLOCK ? n - first : BLOCK;
        bool sure = false;
        pe_tensor_read(t, first, (size_t)m, v);
        if (!whole)
            within_paths[pe_simd()](v, (size_t)m, min, max, &sure);
        for (int64_t i = 0; i < m && !sure; i++)
            if (!(v[i] >= min && v[i] <= max && (!whole || v[i] == floor(v[i]))))
                return first + i;
    }
    return -1;
}

static bool tensor_values(const posenc_tensor *t, double min, double max, bool whole, const char *words, posenc_error *err)
{
    const int64_t i = first_outside(t, min, max, whole);
    if (i < 0)
        return true;
    pe_invalid(err, pe_tensor_place(t, i).s, posenc_text("%.17g", posenc_tensor_get(t, i)), "%s", words);
    return false;
}

int64_t pe_tensor_infinite(const posenc_tensor *t)
{
    return t->dtype > PE_bfloat16 ? -1 : first_outside(t, -DBL_MAX, DBL_MAX, false);
}

bool pe_tensor_integers(const posenc_tensor *t, double min, double max, const char *words, posenc_error *err)
{
    return tensor_values(t, min, max, true, words, err);
}

bool pe_tensor_within(const posenc_tensor *t, double min, double max, const char *words, posenc_error *err)
{
    return tensor_values(t, min, max, false, words, err);
}

posenc_status pe_tensor_doubles(const posenc_tensor *t, double *out, pe_pace *pace)
{
    enum { CHUNK = 1 << 16 };
    posenc_status st = PE_OK;
    for (int64_t first = 0, n = posenc_tensor_count(t); first < n && !st; first += CHUNK) {
        const int64_t m = n - first < CHUNK ? n - first : CHUNK;
        pe_tensor_read(t, first, (size_t)m, out + first);
        st = pe_pace_add(pace, 4 * m);
    }
    return st;
}

double pe_dtype_largest(posenc_dtype dtype) { return dtype == PE_float16 ? 65504 : dtype == PE_float64 ? 1e300 : 3e38; }

double pe_dtype_max(posenc_dtype dtype)
{
    return dtype == PE_float64    ? DBL_MAX
           : dtype == PE_float16  ? 65504
           : dtype == PE_bfloat16 ? 0x1.fep127 /* 8 bits of precision */
                                  : (double)FLT_MAX;
}

double pe_tensor_largest(const posenc_tensor *t)
{
    enum { BLOCK = 1024 };
    double most = 0, v[BLOCK];
    for (int64_t first = 0, n = posenc_tensor_count(t); first < n; first += BLOCK) {
        const int64_t m = n - first < BLOCK ? n - first : BLOCK;
        pe_tensor_read(t, first, (size_t)m, v);
        for (int64_t i = 0; i < m; i++)
            most = pe_max(most, fabs(v[i]));
    }
    return most;
}
