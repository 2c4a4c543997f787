/* safetensors.c - eight bytes of header length, a JSON header, the tensors without holes.
 *
 * Written with the wider elements first, so that every tensor is aligned in the file; the header is padded with
 * spaces to eight bytes. Metadata says only what the request knows: the size does not depend on the result. */
#include "formats/input.h"
#include "formats/output.h"
#include "formats/scan.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8, MAX_HEADER = 100000000, MAX_NAME = 255 };

/* ---- writing ------------------------------------------------------------------------------------------------- */

static const char *word_of(posenc_dtype t)
{
    static const char *const words[] = {
#define X(name, size, numpy, safetensors) safetensors,
        POSENC_DTYPES(X)
#undef X
    };
    return words[t];
}

static void put_metadata(pe_builder *b, const posenc_origin *o)
{
    pe_print(b, "\"__metadata__\":{\"format\":\"pt\"");
    if (o->encoding) {
        pe_print(b, ",\"encoding\":");
        pe_put_string(b, o->encoding->name);
        pe_print(b, ",\"revision\":\"%d\"", o->encoding->revision);
    }
    if (o->digest) {
        pe_print(b, ",\"digest\":");
        pe_put_string(b, o->digest);
    }
    if (o->params_json) {
        pe_print(b, ",\"params\":");
        pe_put_string(b, o->params_json);
    }
    pe_print(b, "}");
}

void pe_write_safetensors(const pe_writing *w, pe_builder *b)
{
    const posenc_tensor *order[PE_MAX_OUTPUTS];
    int n = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (int i = 0; i < w->ntensors; i++)
            if (posenc_dtype_size(w->tensor[i].dtype) == size)
                order[n++] = &w->tensor[i];
    pe_put_le(b, 0, LENGTH);
    pe_put(b, "{", 1);
    put_metadata(b, w->origin);
    uint64_t at = 0;
    for (int i = 0; i < n; i++) {
        const posenc_tensor *t = order[i];
        uint64_t end = at + posenc_tensor_size(t);
        pe_put(b, ",", 1);
        pe_put_string(b, t->name);
        pe_print(b, ":{\"dtype\":\"%s\",\"shape\":[", word_of(t->dtype));
        for (int k = 0; k < t->rank; k++)
            pe_print(b, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        pe_print(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
        at = end;
    }
    pe_put(b, "}", 1);
    while (b->n % 8 && !b->failed)
        pe_put(b, " ", 1);
    if (!b->failed)
        for (int i = 0; i < LENGTH; i++)
            b->s[i] = (char)((uint64_t)(b->n - LENGTH) >> 8 * i & 0xff);
    for (int i = 0; i < n; i++)
        pe_borrow(b, order[i]->data, posenc_tensor_size(order[i]));
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

typedef struct entry {
    posenc_tensor tensor;
    const pe_wire *wire;
    uint64_t begin, end;
} entry;

static const char bad[] = "INVALID_SAFETENSORS";

static posenc_status wrong(const char *field, const char *name, pe_json v, const char *allowed, posenc_error *err)
{
    return posenc_fail(err, PE_INVALID, bad, posenc_text("%.20s.%.40s", field, name).s, pe_json_show(v).s, "%s", allowed);
}

/* Up to `max` sizes of a JSON array; -1 for anything else. */
static int read_sizes(pe_json v, int64_t *out, int max)
{
    pe_json e = { 0 };
    int n = 0;
    if (pe_json_type(v) != PE_J_ARRAY)
        return -1;
    while (pe_json_next(v, &e))
        if (n == max || pe_json_type(e) != PE_J_NUMBER || !pe_json_int(e, &out[n++]) || out[n - 1] < 0)
            return -1;
    return n;
}

static posenc_status read_entry(pe_json v, const char *field, entry *e, posenc_error *err)
{
    pe_json key = { 0 }, value = { 0 };
    const char *name = e->tensor.name;
    bool shape = false, offsets = false;
    if (pe_json_type(v) != PE_J_OBJECT)
        return wrong(field, name, v, "an object of dtype, shape and data_offsets", err);
    while (pe_json_member(v, &key, &value)) {
        int64_t pair[2];
        char word[64] = "";
        if (pe_json_is(key, "dtype") && !e->wire) {
            if (pe_json_type(value) == PE_J_STRING && value.end - value.p < (ptrdiff_t)sizeof word)
                pe_json_string(value, word);
            e->wire = pe_wire_word(word);
            if (!e->wire)
                return wrong(field, name, value, "dtype F64 F32 F16 BF16 I64 I32 I16 I8 U32 U16 U8 or BOOL", err);
        } else if (pe_json_is(key, "shape") && !shape) {
            shape = true;
            e->tensor.rank = read_sizes(value, e->tensor.shape, PE_MAX_RANK);
            if (e->tensor.rank < 0)
                return wrong(field, name, value, "shape: a list of at most 8 sizes", err);
        } else if (pe_json_is(key, "data_offsets") && !offsets) {
            offsets = true;
            if (read_sizes(value, pair, 2) != 2 || pair[0] > pair[1])
                return wrong(field, name, value, "data_offsets: a begin and an end that is not before it", err);
            e->begin = (uint64_t)pair[0];
            e->end = (uint64_t)pair[1];
        } else {
            return wrong(field, name, key, "dtype, shape and data_offsets, each once", err);
        }
    }
    uint64_t size;
    if (!e->wire || !shape || !offsets)
        return wrong(field, name, v, "all of dtype, shape and data_offsets", err);
    if (!pe_wire_size(e->wire, e->tensor.rank, e->tensor.shape, &size) || size != e->end - e->begin)
        return wrong(field, name, v, "as many bytes between the offsets as shape and dtype say", err);
    return PE_OK;
}

/* Metadata is a flat map of strings; what it says is not used. */
static posenc_status check_metadata(pe_json v, const char *field, posenc_error *err)
{
    pe_json key = { 0 }, value = { 0 };
    if (pe_json_type(v) != PE_J_OBJECT)
        return wrong(field, "__metadata__", v, "an object of strings", err);
    while (pe_json_member(v, &key, &value))
        if (pe_json_type(value) != PE_J_STRING)
            return wrong(field, "__metadata__", value, "a string", err);
    return PE_OK;
}

static int by_begin(const void *a, const void *b)
{
    const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
    return strcmp(x->tensor.name, y->tensor.name);
}

static posenc_status check_places(entry **sorted, size_t n, uint64_t left, const char *field, posenc_error *err)
{
    uint64_t at = 0;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(sorted[i - 1]->tensor.name, sorted[i]->tensor.name))
            return posenc_fail(err, PE_INVALID, bad, field, sorted[i]->tensor.name, "every tensor once");
    qsort(sorted, n, sizeof *sorted, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (sorted[i]->begin != at)
            return posenc_fail(err, PE_INVALID, bad, posenc_text("%.20s.%.40s", field, sorted[i]->tensor.name).s,
                               posenc_text("begins at %llu", (unsigned long long)sorted[i]->begin).s,
                               "tensors without holes or overlaps: begins at %llu", (unsigned long long)at);
        at = sorted[i]->end;
    }
    if (at != left)
        return posenc_fail(err, PE_INVALID, bad, field, posenc_text("%llu bytes of data", (unsigned long long)left).s,
                           "the %llu bytes that the tensors have", (unsigned long long)at);
    return PE_OK;
}

static size_t count_members(pe_json v)
{
    pe_json key = { 0 }, value = { 0 };
    size_t n = 0;
    while (pe_json_member(v, &key, &value))
        n++;
    return n;
}

posenc_status posenc_read_safetensors(const void *bytes, size_t size, const char *field, posenc_tensor **out, size_t *n,
                                      posenc_arena *a, posenc_error *err)
{
    const char *p = bytes;
    uint64_t length = 0;
    posenc_status st;
    pe_json v, key = { 0 }, value = { 0 };
    *out = NULL;
    *n = 0;
    for (int i = LENGTH - 1; size >= LENGTH && i >= 0; i--)
        length = length << 8 | (uint8_t)p[i];
    if (size < LENGTH || length > MAX_HEADER || length > size - LENGTH || length < 2 || p[LENGTH] != '{')
        return posenc_fail(err, PE_INVALID, bad, field, posenc_text("%zu bytes", size).s,
                           "a whole safetensors file: the header's length in 8 bytes (at most 100 MB), header, data");
    if ((st = pe_json_check(p + LENGTH, (size_t)length, field, &v, err)))
        return st;
    const char *data = p + LENGTH + length;
    size_t members = count_members(v), found = 0;
    entry *e = posenc_alloc(a, members * sizeof *e);
    entry **sorted = posenc_alloc(a, members * sizeof *sorted);
    posenc_tensor *t = posenc_alloc(a, members * sizeof *t);
    if (!e || !sorted || !t)
        return pe_no_memory(field, err);
    bool metadata = false;
    while (pe_json_member(v, &key, &value)) {
        if (pe_json_is(key, "__metadata__") && !metadata) {
            metadata = true;
            if ((st = check_metadata(value, field, err)))
                return st;
            continue;
        }
        char *name = posenc_alloc(a, (size_t)(key.end - key.p));
        if (!name)
            return pe_no_memory(field, err);
        size_t k = pe_json_string(key, name);
        bool plain = k > 0 && k <= MAX_NAME && strcmp(name, "__metadata__") != 0;
        for (size_t i = 0; i < k; i++)
            plain &= (unsigned char)name[i] > ' ' && name[i] != 0x7f;
        if (!plain)
            return posenc_fail(err, PE_INVALID, bad, field, pe_json_show(key).s,
                               "names of 1 to %d characters without spaces, __metadata__ once", MAX_NAME);
        e[found].tensor.name = name;
        sorted[found] = &e[found];
        if ((st = read_entry(value, field, &e[found++], err)))
            return st;
    }
    if ((st = check_places(sorted, found, size - LENGTH - length, field, err)))
        return st;
    for (size_t i = 0; i < found; i++) {
        t[i] = e[i].tensor;
        if ((st = pe_wire_load(e[i].wire, data + e[i].begin, false, false, &t[i], a, field, err)))
            return st;
    }
    *out = t;
    *n = found;
    return PE_OK;
}
