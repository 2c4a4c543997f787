#include "formats/scan.h"

#include "core/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checking ------------------------------------------------------------------------------------------------ */

typedef struct checker {
    const char *p, *end;
    const char *why; /* what is wrong at p */
    const char *key; /* of the outermost object, the last one seen; NULL: none */
} checker;

static bool refuse(checker *c, const char *why)
{
    c->why = why;
    return false;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void check_space(checker *c)
{
    while (c->p < c->end && is_space(*c->p))
        c->p++;
}

/* Value of four hexadecimal digits, -1 for anything else. */
static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char ch = p[i];
        int d = is_digit(ch)             ? ch - '0'
                : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
                : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                         : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static bool check_escape(checker *c)
{
    if (c->end - c->p < 2)
        return refuse(c, "a string without an end");
    char e = c->p[1];
    if (e != 'u') {
        if (!memchr("\"\\/bfnrt", e, 8))
            return refuse(c, "an unknown escape");
        c->p += 2;
        return true;
    }
    int v = hex4(c->p + 2, c->end);
    if (v <= 0)
        return refuse(c, v == 0 ? "an escaped NUL" : "an escape without four hexadecimal digits");
    if (v >= 0xdc00 && v <= 0xdfff)
        return refuse(c, "a lone surrogate");
    if (v >= 0xd800 && v <= 0xdbff) {
        int low = c->end - c->p >= 12 && c->p[6] == '\\' && c->p[7] == 'u' ? hex4(c->p + 8, c->end) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(c, "a lone surrogate");
        c->p += 6;
    }
    c->p += 6;
    return true;
}

/* One character of two to four bytes; RFC 3629 without overlong forms and surrogates. */
static bool check_utf8(checker *c)
{
    const unsigned char *s = (const unsigned char *)c->p;
    size_t left = (size_t)(c->end - c->p);
    size_t n = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
    bool good = n != 0 && n <= left;
    for (size_t i = 1; good && i < n; i++)
        good = (s[i] & 0xc0) == 0x80;
    if (good && n > 2)
        good = !(s[0] == 0xe0 && s[1] < 0xa0) && !(s[0] == 0xed && s[1] > 0x9f) && !(s[0] == 0xf0 && s[1] < 0x90) &&
               !(s[0] == 0xf4 && s[1] > 0x8f);
    if (!good)
        return refuse(c, "bytes that are not UTF-8");
    c->p += n;
    return true;
}

/* Whether any of eight bytes is a control character, a quote, a backslash, or not ASCII. */
static bool any_special(const char *p)
{
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    uint64_t w, quote, slash;
    memcpy(&w, p, sizeof w);
    quote = w ^ ones * '"';
    slash = w ^ ones * '\\';
    return ((w | (w - ones * 0x20) | (quote - ones) | (slash - ones)) & tops) != 0; /* below 0x80 they do not borrow */
}

static bool check_string(checker *c)
{
    for (c->p++; c->p < c->end;) {
        while (c->end - c->p >= 8 && !any_special(c->p))
            c->p += 8;
        if (c->p == c->end)
            break;
        unsigned char ch = (unsigned char)*c->p;
        if (ch == '"') {
            c->p++;
            return true;
        }
        if (ch < 0x20)
            return refuse(c, "a control character in a string");
        if (ch == '\\') {
            if (!check_escape(c))
                return false;
        } else if (ch >= 0x80) {
            if (!check_utf8(c))
                return false;
        } else {
            c->p++;
        }
    }
    return refuse(c, "a string without an end");
}

static bool check_digits(checker *c)
{
    if (c->p == c->end || !is_digit(*c->p))
        return refuse(c, "a number without a digit");
    while (c->p < c->end && is_digit(*c->p))
        c->p++;
    return true;
}

static bool check_number(checker *c)
{
    const char *from = c->p;
    if (*c->p == '-')
        c->p++;
    if (c->p < c->end && *c->p == '0')
        c->p++;
    else if (!check_digits(c))
        return false;
    if (c->p < c->end && *c->p == '.') {
        c->p++;
        if (!check_digits(c))
            return false;
    }
    if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
        c->p++;
        if (c->p < c->end && (*c->p == '+' || *c->p == '-'))
            c->p++;
        if (!check_digits(c))
            return false;
    }
    if (c->p - from > PE_JSON_DIGITS) {
        c->p = from;
        return refuse(c, "a number of over 1000 characters");
    }
    return true;
}

static bool check_scalar(checker *c)
{
    static const char *const words[] = { "null", "true", "false" };
    if (*c->p == '"')
        return check_string(c);
    if (*c->p == '-' || is_digit(*c->p))
        return check_number(c);
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->p) >= n && !memcmp(c->p, words[i], n)) {
            c->p += n;
            return true;
        }
    }
    return refuse(c, "no value");
}

static bool check_key(checker *c, bool outer)
{
    check_space(c);
    if (outer)
        c->key = c->p;
    if (c->p == c->end || *c->p != '"')
        return refuse(c, "no key in double quotes");
    if (!check_string(c))
        return false;
    check_space(c);
    if (c->p == c->end || *c->p != ':')
        return refuse(c, "no colon after a key");
    c->p++;
    return true;
}

static const char too_deep[] = "brackets nested too deep";

static bool check_document(checker *c)
{
    char open[PE_JSON_DEPTH];
    int depth = 0;
    for (;;) { /* a value is due */
        check_space(c);
        if (c->p == c->end)
            return refuse(c, "an end where a value is due");
        bool done = true;
        if (*c->p == '{' || *c->p == '[') {
            if (depth == PE_JSON_DEPTH)
                return refuse(c, too_deep);
            open[depth++] = *c->p++;
            check_space(c);
            done = c->p < c->end && *c->p == (open[depth - 1] == '{' ? '}' : ']');
            if (done) {
                depth--;
                c->p++;
            } else if (open[depth - 1] == '{' && !check_key(c, depth == 1)) {
                return false;
            }
        } else if (!check_scalar(c)) {
            return false;
        }
        while (done) { /* a value has ended: what follows it? */
            const char *last = c->p;
            check_space(c);
            if (depth == 0) {
                bool whole = c->p == c->end;
                if (!whole)
                    return refuse(c, "text after the value");
                c->p = last;
                return true;
            }
            if (c->p < c->end && *c->p == ',') {
                c->p++;
                if (open[depth - 1] == '{' && !check_key(c, depth == 1))
                    return false;
                done = false;
            } else if (c->p < c->end && *c->p == (open[depth - 1] == '{' ? '}' : ']')) {
                c->p++;
                depth--;
            } else {
                return refuse(c, open[depth - 1] == '{' ? "no comma or closing brace" : "no comma or closing bracket");
            }
        }
    }
}

posenc_status pe_json_check(const char *text, size_t n, const char *field, pe_json *out, posenc_error *err)
{
    checker c = { .p = n ? text : "", .end = n ? text + n : "" };
    const char *start = c.p;
    if (check_document(&c)) {
        while (is_space(*start))
            start++;
        *out = (pe_json){ start, c.p };
        return PE_OK;
    }
    size_t line = 1, column = 1;
    for (const char *p = start; p < c.p; p++) {
        column = *p == '\n' ? 1 : column + ((*p & 0xc0) != 0x80);
        line += *p == '\n';
    }
    posenc_short near = { { 0 } };
    for (size_t i = 0; i < 24 && c.p + i < c.end; i++)
        near.s[i] = c.p[i] >= ' ' && c.p[i] <= '~' ? c.p[i] : '?';
    bool deep = c.why == too_deep;
    if (!strncmp(near.s, "NaN", 3) || !strncmp(near.s, "Infinity", 8)) { /* what Python's json writes: say where */
        char name[64];
        size_t size = 0; /* of the key, which may not have ended, or not even be one */
        for (const char *k = c.key;
             k && *k == '"' && k + 1 + size < c.p && k[1 + size] > ' ' && k[1 + size] <= '~' && k[1 + size] != '"';)
            size++;
        snprintf(name, sizeof name, "%.*s", size < sizeof name ? (int)size : 63, size ? c.key + 1 : field);
        near.s[near.s[0] == 'N' ? 3 : 8] = 0;
        return posenc_fail(err, PE_INVALID, "INVALID_JSON", size ? name : field, near.s,
                           "a finite number (line %zu, column %zu): JSON has no NaN and no Infinity", line, column);
    }
    return posenc_fail(err, deep ? PE_LIMIT : PE_INVALID, deep ? "LIMIT_EXCEEDED" : "INVALID_JSON", field, near.s,
                       "well-formed JSON of at most %d levels: line %zu, column %zu has %s", PE_JSON_DEPTH, line, column,
                       c.why);
}

/* ---- walking ------------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *p)
{
    while (is_space(*p))
        p++;
    return p;
}

/* To behind the first quote with an even number of backslashes before it: a tensor is one string of megabytes. */
static const char *skip_string(const char *p, const char *end)
{
    for (const char *from = p + 1, *quote;; from = quote + 1) {
        quote = memchr(from, '"', (size_t)(end - from));
        const char *back = quote;
        while (back > from && back[-1] == '\\')
            back--;
        if ((quote - back) % 2 == 0)
            return quote + 1;
    }
}

static const char *skip_value(const char *p, const char *end)
{
    int depth = 0;
    if (*p == '"')
        return skip_string(p, end);
    if (*p != '[' && *p != '{') {
        while (p < end && !is_space(*p) && *p != ',' && *p != ']' && *p != '}')
            p++;
        return p;
    }
    static const signed char step[256] = { ['['] = 1, ['{'] = 1, [']'] = -1, ['}'] = -1, ['"'] = 2 };
    do {
        int s = step[(unsigned char)*p];
        if (s == 2) {
            p = skip_string(p, end);
            continue;
        }
        depth += s;
        p++;
    } while (depth > 0);
    return p;
}

pe_json_kind pe_json_type(pe_json v)
{
    switch (*v.p) {
    case 'n': return PE_J_NULL;
    case 't':
    case 'f': return PE_J_BOOL;
    case '"': return PE_J_STRING;
    case '[': return PE_J_ARRAY;
    case '{': return PE_J_OBJECT;
    default: return PE_J_NUMBER;
    }
}

bool pe_json_next(pe_json v, pe_json *element)
{
    const char *p = skip_space(element->p ? element->end : v.p + 1);
    if (*p == ',')
        p = skip_space(p + 1);
    if (p >= v.end - 1)
        return false;
    *element = (pe_json){ p, skip_value(p, v.end) };
    return true;
}

bool pe_json_member(pe_json v, pe_json *key, pe_json *value)
{
    pe_json k = *value;
    if (!pe_json_next(v, &k))
        return false;
    const char *p = skip_space(k.end); /* the colon */
    p = skip_space(p + 1);
    *key = k;
    *value = (pe_json){ p, skip_value(p, v.end) };
    return true;
}

bool pe_json_true(pe_json v) { return *v.p == 't'; }

/* A number taken apart: significant digits without leading zeros and without a point (so that no locale's point
 * matters to strtod), and the power of ten of the last digit. */
typedef struct decimal {
    char digit[PE_JSON_DIGITS + 16];
    size_t n;
    int exp10;
    bool negative, whole; /* whole: written without point and exponent */
} decimal;

static void take_apart(pe_json v, decimal *d)
{
    const char *p = v.p;
    bool fraction = false;
    d->n = 0;
    d->exp10 = 0;
    d->whole = true;
    d->negative = *p == '-';
    for (p += d->negative; p < v.end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            d->whole = false;
            continue;
        }
        d->exp10 -= fraction;
        if (d->n > 0 || *p != '0')
            d->digit[d->n++] = *p;
    }
    d->digit[d->n] = 0;
    if (p < v.end) {
        d->whole = false;
        p++;
        bool minus = *p == '-';
        int e = 0;
        for (p += *p == '-' || *p == '+'; p < v.end; p++)
            e = e < 100000 ? e * 10 + (*p - '0') : e;
        d->exp10 += minus ? -e : e;
    }
}

static uint64_t first19(const decimal *d)
{
    uint64_t m = 0;
    for (size_t i = 0; i < d->n && i < 19; i++)
        m = m * 10 + (uint64_t)(d->digit[i] - '0');
    return m;
}

static double nearest(decimal *d)
{
    double v = 0;
    if (d->n > 0 && d->n <= 19) {
        v = pe_decimal(first19(d), d->exp10);
    } else if (d->n > 0) {
        snprintf(d->digit + d->n, sizeof d->digit - d->n, "e%d", d->exp10);
        v = strtod(d->digit, NULL);
        d->digit[d->n] = 0;
    }
    return d->negative ? -v : v;
}

bool pe_json_int(pe_json v, int64_t *out)
{
    decimal d;
    take_apart(v, &d);
    if (d.whole) {
        uint64_t m = first19(&d), limit = (uint64_t)INT64_MAX + d.negative;
        if (d.n > 19 || m > limit)
            return false;
        *out = d.negative ? (int64_t)(0 - m) : (int64_t)m;
        return true;
    }
    double x = nearest(&d);
    if (fabs(x) > 0x1p53 || trunc(x) != x)
        return false;
    *out = (int64_t)x;
    return true;
}

bool pe_json_real(pe_json v, double *out)
{
    decimal d;
    char exact[400];
    take_apart(v, &d);
    *out = nearest(&d);
    if (!isfinite(*out))
        return false;
    if (!d.whole || fabs(*out) < 0x1p53)
        return true;
    snprintf(exact, sizeof exact, "%.0f", fabs(*out));
    return !strcmp(exact, d.digit);
}

static char *put_utf8(char *o, unsigned c)
{
    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xc0 | c >> 6);
        *o++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *o++ = (char)(0xe0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 63));
        *o++ = (char)(0x80 | (c & 63));
    } else {
        *o++ = (char)(0xf0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 63));
        *o++ = (char)(0x80 | (c >> 6 & 63));
        *o++ = (char)(0x80 | (c & 63));
    }
    return o;
}

size_t pe_json_string(pe_json v, char *out)
{
    static const char letter[] = "bfnrt", meaning[] = "\b\f\n\r\t";
    char *o = out;
    for (const char *p = v.p + 1; p < v.end - 1;) {
        const char *slash = memchr(p, '\\', (size_t)(v.end - 1 - p));
        const size_t plain = (size_t)((slash ? slash : v.end - 1) - p);
        memcpy(o, p, plain);
        o += plain;
        p += plain;
        if (!slash)
            break;
        const char *known = strchr(letter, p[1]);
        if (p[1] != 'u') {
            *o++ = known ? meaning[known - letter] : p[1];
            p += 2;
            continue;
        }
        unsigned c = (unsigned)hex4(p + 2, v.end);
        p += 6;
        if (c >= 0xd800 && c <= 0xdbff) {
            c = 0x10000 + ((c - 0xd800) << 10) + ((unsigned)hex4(p + 2, v.end) - 0xdc00);
            p += 6;
        }
        o = put_utf8(o, c);
    }
    *o = 0;
    return (size_t)(o - out);
}

bool pe_json_is(pe_json v, const char *word)
{
    size_t n = (size_t)(v.end - v.p);
    char text[512];
    if (*v.p != '"' || n > sizeof text)
        return false;
    return pe_json_string(v, text) == strlen(word) && !strcmp(text, word);
}

posenc_short pe_json_show(pe_json v)
{
    posenc_short s = { { 0 } };
    size_t n = (size_t)(v.end - v.p), keep = sizeof s.s - 1;
    if (n > keep) {
        for (keep -= 3; keep > 0 && (v.p[keep] & 0xc0) == 0x80;) /* never half a character */
            keep--;
        memcpy(s.s, v.p, keep);
        memcpy(s.s + keep, "...", 4);
    } else {
        memcpy(s.s, v.p, n);
    }
    return s;
}
