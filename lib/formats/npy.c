/* npy.c - the format of numpy.save: written as numpy writes it (version 1.0), read in versions 1.0 to 3.0.
 *
 * Source: NumPy Enhancement Proposal 1 and numpy.lib.format. The header is a Python dictionary; it is read by a
 * parser of exactly the three entries that it has, nothing is evaluated. */
#include "formats/input.h"
#include "formats/output.h"

#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";

/* ---- writing ------------------------------------------------------------------------------------------------- */

static const char *descr(posenc_dtype t)
{
    static const char *const names[] = {
#define X(name, size, numpy, safetensors) numpy,
        POSENC_DTYPES(X)
#undef X
    };
    return names[t == PE_bfloat16 ? PE_float32 : t];
}

void pe_put_npy_header(pe_builder *b, const posenc_tensor *t)
{
    char text[300]; /* 8 axes of at most 19 digits */
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr(t->dtype));
    for (int i = 0; i < t->rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s), }", t->rank == 1 ? "," : "");
    char first[24]; /* numpy leaves room for the first axis to grow to 21 digits */
    int room = t->rank > 0 ? 21 - snprintf(first, sizeof first, "%lld", (long long)t->shape[0]) : 0;
    size_t whole = ((size_t)(10 + n + room + 1) + 63) / 64 * 64;
    pe_put(b, magic, 6);
    pe_put(b, "\1\0", 2);
    pe_put_le(b, whole - 10, 2);
    pe_put(b, text, (size_t)n);
    size_t pad = whole - 10 - (size_t)n;
    char *p = pe_extend(b, pad);
    if (p) {
        memset(p, ' ', pad);
        p[pad - 1] = '\n';
    }
}

uint64_t pe_npy_size(const posenc_tensor *t) { return posenc_tensor_size(t) * (t->dtype == PE_bfloat16 ? 2 : 1); }

void pe_put_npy_data(pe_builder *b, const posenc_tensor *t)
{
    uint64_t size = pe_npy_size(t);
    if (t->dtype != PE_bfloat16 || !t->data) {
        pe_borrow(b, t->data, size);
        return;
    }
    pe_cut(b);
    const uint16_t *from = t->data;
    char *to = pe_extend(b, size);
    for (uint64_t i = 0; to && i < size / 4; i++) {
        uint32_t bits = (uint32_t)from[i] << 16; /* a bfloat16 is the upper half of a float32 */
        memcpy(to + 4 * i, &bits, 4);
    }
    pe_cut(b);
}

void pe_write_npy(const pe_writing *w, pe_builder *b)
{
    const posenc_tensor *t = &w->tensor[0];
    if (t->dtype == PE_bfloat16 && t->data)
        pe_reserve(b, pe_npy_size(t) + 512);
    pe_put_npy_header(b, t);
    pe_put_npy_data(b, t);
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

typedef struct header {
    const char *p, *end; /* what is left of the text */
    const char *descr;   /* with its byte order: 3 bytes */
    bool fortran, seen_order, seen_shape;
    int rank;
    int64_t shape[PE_MAX_RANK];
} header;

static void space(header *h)
{
    while (h->p < h->end && (*h->p == ' ' || *h->p == '\n' || *h->p == '\t'))
        h->p++;
}

static bool take(header *h, char c)
{
    space(h);
    if (h->p == h->end || *h->p != c)
        return false;
    h->p++;
    return true;
}

static bool take_word(header *h, const char *word)
{
    size_t n = strlen(word);
    space(h);
    if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n))
        return false;
    h->p += n;
    return true;
}

/* A string without escapes, in either quote. */
static bool take_string(header *h, const char **s, size_t *n)
{
    char quote = take(h, '\'') ? '\'' : '"';
    if (quote == '"' && !take(h, '"'))
        return false;
    const char *close = memchr(h->p, quote, (size_t)(h->end - h->p));
    if (!close || memchr(h->p, '\\', (size_t)(close - h->p)))
        return false;
    *s = h->p;
    *n = (size_t)(close - h->p);
    h->p = close + 1;
    return true;
}

static bool take_size(header *h, int64_t *out)
{
    space(h);
    const char *from = h->p;
    int64_t v = 0;
    for (; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
        if (!posenc_mul_size(v, 10, &v) || v > INT64_MAX - (*h->p - '0'))
            return false;
        else
            v += *h->p - '0';
    *out = v;
    return h->p > from;
}

static bool take_shape(header *h)
{
    if (h->seen_shape || !take(h, '('))
        return false;
    h->seen_shape = true;
    if (take(h, ')'))
        return true;
    for (;;) {
        if (h->rank == PE_MAX_RANK || !take_size(h, &h->shape[h->rank++]))
            return false;
        bool comma = take(h, ',');
        if (take(h, ')'))
            return comma || h->rank > 1; /* (3) is a number in Python, (3,) a tuple */
        if (!comma)
            return false;
    }
}

static bool take_entry(header *h)
{
    const char *key, *value;
    size_t n, m;
    if (!take_string(h, &key, &n) || !take(h, ':'))
        return false;
    if (n == 5 && !memcmp(key, "descr", 5)) {
        if (h->descr || !take_string(h, &value, &m) || m != 3)
            return false;
        h->descr = value;
        return true;
    }
    if (n == 13 && !memcmp(key, "fortran_order", 13)) {
        if (h->seen_order)
            return false;
        h->seen_order = true;
        h->fortran = take_word(h, "True");
        return h->fortran || take_word(h, "False");
    }
    return n == 5 && !memcmp(key, "shape", 5) && take_shape(h);
}

static bool take_header(header *h)
{
    if (!take(h, '{'))
        return false;
    for (int i = 0; i < 3; i++) { /* three keys, none twice: all of them */
        if (!take_entry(h))
            return false;
        if (!take(h, ',') && i < 2)
            return false;
    }
    if (!take(h, '}'))
        return false;
    space(h);
    return h->p == h->end;
}

/* Where the text of the header is: false when the file ends before. */
static bool find_header(const uint8_t *p, size_t size, header *h)
{
    if (size < 12 || memcmp(p, magic, 6) || p[6] < 1 || p[6] > 3 || p[7] != 0)
        return false;
    size_t at = p[6] == 1 ? 10 : 12;
    size_t n = (size_t)p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (n > size - at)
        return false;
    h->p = (const char *)p + at;
    h->end = h->p + n;
    return true;
}

posenc_status posenc_read_npy(const void *bytes, size_t size, const char *field, posenc_tensor *out, posenc_arena *a,
                              posenc_error *err)
{
    static const char bad[] = "INVALID_NPY";
    header h = { 0 };
    if (!find_header(bytes, size, &h))
        return posenc_fail(err, PE_INVALID, bad, field, posenc_text("%zu bytes", size).s,
                           "a whole .npy file of version 1.0, 2.0 or 3.0");
    const uint8_t *data = (const uint8_t *)h.end;
    size_t left = size - (size_t)(data - (const uint8_t *)bytes);
    if (!take_header(&h)) {
        posenc_short near = { { 0 } };
        for (size_t i = 0; i < 40 && h.p + i < h.end; i++)
            near.s[i] = h.p[i] >= ' ' && h.p[i] <= '~' ? h.p[i] : '?';
        return posenc_fail(err, PE_INVALID, bad, field, near.s,
                           "an .npy header with exactly descr (a plain type), fortran_order and shape (at most %d axes)",
                           PE_MAX_RANK);
    }
    const pe_wire *w = pe_wire_numpy(h.descr + 1, 2);
    char order = h.descr[0];
    if (!w || !(order == '<' || order == '>' || (order == '|' && w->size == 1)))
        return posenc_fail(err, PE_INVALID, bad, field, posenc_text("descr '%.3s'", h.descr).s,
                           "f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 or b1, of either byte order");
    uint64_t need;
    if (!pe_wire_size(w, h.rank, h.shape, &need) || need != left)
        return posenc_fail(err, PE_INVALID, bad, field, posenc_text("%zu bytes after the header", left).s,
                           "exactly the bytes that shape and descr say");
    posenc_tensor t = { .name = "", .rank = h.rank };
    memcpy(t.shape, h.shape, sizeof t.shape);
    posenc_status st = pe_wire_load(w, data, order == '>', h.fortran, &t, a, field, err);
    if (!st)
        *out = t;
    return st;
}
