/* number.c - see number.h. The C library's own conversions are used only where no decimal point can occur. */
#include "core/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double pe_decimal(uint64_t digits, int exp10)
{
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    if (digits <= (uint64_t)1 << 53 && exp10 >= -22 && exp10 <= 22) /* both factors exact: one rounding */
        return exp10 < 0 ? (double)digits / power[-exp10] : (double)digits * power[exp10];
    char text[40];
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exp10);
    return strtod(text, NULL);
}

/* ---- to text ---- */

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
    if (t->dtype == PE_int32 || t->dtype == PE_uint8 || t->dtype == PE_int16)
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

void pe_hex_text(double v, char out[PE_NUMBER_TEXT])
{
    uint64_t bits, fraction;
    memcpy(&bits, &v, 8);
    int e = (int)(bits >> 52 & 0x7ff), digits = 13;
    fraction = bits & 0xfffffffffffffULL;
    int n = snprintf(out, PE_NUMBER_TEXT, "%s0x%d", bits >> 63 ? "-" : "", e != 0);
    while (digits > 0 && !(fraction & 15)) {
        fraction >>= 4;
        digits--;
    }
    if (digits)
        n += snprintf(out + n, (size_t)(PE_NUMBER_TEXT - n), ".%0*llx", digits, (unsigned long long)fraction);
    snprintf(out + n, (size_t)(PE_NUMBER_TEXT - n), "p%+d", e ? e - 1023 : fraction ? -1022 : 0);
}

/* ---- from text ---- */

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* The exponent at s, clamped to what matters; NULL: not one. */
static const char *exponent(const char *s, const char *end, int *out)
{
    bool minus = s < end && *s == '-';
    int e = 0;
    s += s < end && (*s == '-' || *s == '+');
    if (s == end || !digit(*s))
        return NULL;
    for (; s < end && digit(*s); s++)
        e = e < 100000 ? e * 10 + (*s - '0') : e;
    *out = minus ? -e : e;
    return s;
}

static bool parse_hex(const char *s, const char *end, double *out)
{
    uint64_t m = 0;
    int e = 0, shift = 0, digits = 0;
    for (bool point = false; s < end && *s != 'p'; s++) {
        const char *hex = "0123456789abcdef", *at = *s ? strchr(hex, *s) : NULL;
        if (*s == '.' && !point) {
            point = true;
            continue;
        }
        if (!at || ++digits > 14) /* what pe_hex_text writes has at most 14 */
            return false;
        m = m << 4 | (uint64_t)(at - hex);
        shift += point ? 4 : 0;
    }
    if (!digits || s == end || exponent(s + 1, end, &e) != end)
        return false;
    *out = ldexp((double)m, e - shift);
    return true;
}

bool pe_parse_number(const char *s, size_t n, double *out)
{
    char text[PE_NUMBER_DIGITS + 16];
    const char *end = s + n;
    size_t used = 0;
    int e = 0, point = 0, given = 0;
    bool seen = false, fraction = false, negative = n > 0 && *s == '-';
    if (n > PE_NUMBER_DIGITS)
        return false;
    s += n > 0 && (*s == '-' || *s == '+');
    if (end - s > 2 && s[0] == '0' && s[1] == 'x') {
        if (!parse_hex(s + 2, end, out))
            return false;
    } else {
        for (; s < end && (digit(*s) || (*s == '.' && !fraction)); s++) {
            if (*s == '.') {
                fraction = true;
                continue;
            }
            seen = true;
            point -= fraction;
            text[used++] = *s;
        }
        if (seen && s < end && (*s == 'e' || *s == 'E'))
            s = exponent(s + 1, end, &given);
        if (!seen || s != end)
            return false;
        e = given + point;
        snprintf(text + used, sizeof text - used, "e%d", e);
        *out = strtod(text, NULL); /* digits and an exponent: no point of any locale */
    }
    if (negative)
        *out = -*out;
    return isfinite(*out);
}
