/* json.c - answers as JSON; one number as text. */
#include "formats/output.h"

#include "formats/scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------------------- */

/* Per dtype of reals: every decimal of `few` digits survives the way into the dtype and back, `many` always name
 * one value; below `normal` neither holds. */
typedef struct precision {
    int few, many;
    double normal;
} precision;

static precision precision_of(posenc_dtype t)
{
    switch (t) {
    case PE_float32: return (precision){ 6, 9, 0x1p-126 };
    case PE_float16: return (precision){ 3, 5, 0x1p-14 };
    case PE_bfloat16: return (precision){ 2, 4, 0x1p-126 };
    default: return (precision){ 15, 17, 0x1p-1022 };
    }
}

/* Does digits * 10^exp10 read back as v > 0? Both ways: by way of float64, as most readers of JSON do, and at once. */
static bool reads_back(posenc_dtype t, uint64_t digits, int exp10, double v)
{
    double d = pe_decimal(digits, exp10);
    uint64_t a = 0, b = 0;
    posenc_convert(t, &a, &d, 1);
    posenc_convert(t, &b, &v, 1);
    if (a != b)
        return false;
    if (t != PE_float32 || digits == 0)
        return true;
    char text[40];
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exp10);
    return strtof(text, NULL) == (float)v;
}

/* The first n digits of v > 0, rounded once, ties to even; v is nearest to them * 10^exp10. */
static uint64_t first_digits(double v, int n, int *exp10)
{
    char text[40];
    const char *s = text;
    uint64_t m = 0;
    snprintf(text, sizeof text, "%.*e", n - 1, v);
    for (; *s != 'e'; s++) /* over a point of any locale */
        if (*s >= '0' && *s <= '9')
            m = m * 10 + (uint64_t)(*s - '0');
    *exp10 = atoi(s + 1) - (n - 1);
    return m;
}

/* The shortest digits * 10^exp10 that reads back as v > 0; of several the nearest to v. */
static uint64_t shortest(posenc_dtype t, double v, int *exp10)
{
    precision p = precision_of(t);
    int last, binary, n = v < p.normal ? 1 : p.few;
    uint64_t all = first_digits(v, 17, &last), scale = 1;
    bool asymmetric = frexp(v, &binary) == 0.5; /* below a power of two values are closer: the nearest decimal */
    for (int i = n; i < 17; i++)                /* may miss where its neighbour does not */
        scale *= 10;
    for (; n < 17 && n <= p.many; n++, scale /= 10) {
        uint64_t rest = all % scale * 2, m = all / scale + (rest > scale);
        *exp10 = last + 17 - n;
        if (rest == scale) /* a tie, or something that 17 digits make look like one */
            m = first_digits(v, n, exp10);
        if (reads_back(t, m, *exp10, v))
            return m;
        if (asymmetric && reads_back(t, m + 1, *exp10, v))
            return m + 1;
        if (asymmetric && reads_back(t, m - 1, *exp10, v))
            return m - 1;
    }
    *exp10 = last;
    return all;
}

static size_t decimal_text(uint64_t m, int exp10, char *out)
{
    char digit[24];
    char *o = out;
    while (m % 10 == 0) {
        m /= 10;
        exp10++;
    }
    int n = snprintf(digit, sizeof digit, "%llu", (unsigned long long)m);
    int x = exp10 + n - 1; /* d.ddd * 10^x */
    if (x < -5 || x > 16) {
        *o++ = digit[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, digit + 1, (size_t)n - 1);
            o += n - 1;
        }
        return (size_t)(o - out) + (size_t)snprintf(o, 8, "e%d", x);
    }
    if (x < 0) {
        *o++ = '0';
        *o++ = '.';
        for (int i = -1; i > x; i--)
            *o++ = '0';
        memcpy(o, digit, (size_t)n);
        return (size_t)(o - out) + (size_t)n;
    }
    for (int i = 0; i < n || i <= x; i++) {
        if (i == x + 1)
            *o++ = '.';
        *o++ = i < n ? digit[i] : '0';
    }
    return (size_t)(o - out);
}

static size_t put_word(const char *word, char *out)
{
    size_t n = strlen(word);
    memcpy(out, word, n + 1);
    return n;
}

size_t pe_number_text(const posenc_tensor *t, int64_t i, char out[PE_NUMBER_TEXT])
{
    if (t->dtype == PE_int64)
        return (size_t)snprintf(out, PE_NUMBER_TEXT, "%lld", (long long)((const int64_t *)t->data)[i]);
    double v = posenc_tensor_get(t, i), a = fabs(v);
    if (t->dtype == PE_int32 || t->dtype == PE_uint8)
        return (size_t)snprintf(out, PE_NUMBER_TEXT, "%d", (int)v);
    if (isnan(v))
        return put_word("NaN", out);
    if (isinf(v))
        return put_word(v > 0 ? "Infinity" : "-Infinity", out);
    if (v == 0)
        return put_word(signbit(v) ? "-0.0" : "0", out); /* "-0" reads as the integer 0 in many languages */
    size_t sign = v < 0;
    out[0] = '-';
    if (a == trunc(a) && a < pe_decimal(1, precision_of(t->dtype).few))
        return sign + (size_t)snprintf(out + sign, PE_NUMBER_TEXT - sign, "%lld", (long long)a);
    int exp10;
    uint64_t m = shortest(t->dtype, a, &exp10);
    return sign + decimal_text(m, exp10, out + sign);
}

/* ---- the document -------------------------------------------------------------------------------------------- */

static void put_element(pe_builder *b, const posenc_tensor *t, int64_t i)
{
    char text[PE_NUMBER_TEXT];
    size_t n = pe_number_text(t, i, text);
    bool word = text[n - 1] == 'y' || text[n - 1] == 'N';
    if (word)
        pe_put(b, "\"", 1);
    pe_put(b, text, n);
    if (word)
        pe_put(b, "\"", 1);
}

/* Elements from *i on, as arrays from axis `axis` on. At most PE_MAX_RANK deep. */
static void put_nested(pe_builder *b, const posenc_tensor *t, int axis, int64_t *i)
{
    if (axis == t->rank) {
        put_element(b, t, (*i)++);
        return;
    }
    pe_put(b, "[", 1);
    for (int64_t k = 0; k < t->shape[axis] && !b->failed; k++) {
        if (k > 0)
            pe_put(b, ",", 1);
        put_nested(b, t, axis + 1, i);
    }
    pe_put(b, "]", 1);
}

static void put_flat(pe_builder *b, const posenc_tensor *t)
{
    int64_t n = posenc_tensor_count(t);
    pe_put(b, "[", 1);
    for (int64_t i = 0; i < n && !b->failed; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        put_element(b, t, i);
    }
    pe_put(b, "]", 1);
}

static void put_base64(pe_builder *b, const posenc_tensor *t)
{
    static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = t->data;
    uint64_t n = posenc_tensor_size(t);
    char *o = pe_extend(b, (n / 3 + (n % 3 > 0)) * 4 + 2);
    if (!o)
        return;
    *o++ = '"';
    for (uint64_t i = 0; i < n; i += 3) {
        uint64_t left = n - i;
        unsigned v = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) | (left > 2 ? (unsigned)p[i + 2] : 0);
        *o++ = letter[v >> 18];
        *o++ = letter[v >> 12 & 63];
        *o++ = left > 1 ? letter[v >> 6 & 63] : '=';
        *o++ = left > 2 ? letter[v & 63] : '=';
    }
    *o = '"';
}

static void put_tensor(pe_builder *b, const posenc_tensor *t, posenc_json_data form)
{
    pe_put_string(b, t->name);
    pe_print(b, ":{\"dtype\":\"%s\",\"shape\":[", posenc_dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++)
        pe_print(b, "%s%lld", k ? "," : "", (long long)t->shape[k]);
    pe_print(b, "],\"data\":");
    int64_t i = 0;
    switch (form) {
    case PE_JSON_NESTED: put_nested(b, t, 0, &i); break;
    case PE_JSON_FLAT: put_flat(b, t); break;
    case PE_JSON_BASE64: put_base64(b, t); break;
    }
    pe_put(b, "}", 1);
}

void pe_write_json(const pe_writing *w, pe_builder *b)
{
    pe_put(b, "{", 1);
    pe_put_origin(b, w->origin);
    pe_print(b, "\"warnings\":[");
    for (int i = 0; i < w->result->nwarnings; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        pe_put_string(b, w->result->warning[i]);
    }
    pe_print(b, "],");
    if (w->origin->params_json) {
        pe_print(b, "\"params\":");
        pe_put(b, w->origin->params_json, strlen(w->origin->params_json));
        pe_put(b, ",", 1);
    }
    pe_print(b, "\"tensors\":{");
    for (int i = 0; i < w->ntensors; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        put_tensor(b, &w->tensor[i], w->selection->data);
    }
    pe_print(b, "}}");
}
