#include "json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64 };

static const char *space(const char *s) { return s + strspn(s, " \t\r\n"); }

/* The first character after the string at s, NULL when it is malformed. The NUL at the end stops every loop. */
static const char *end_string(const char *s)
{
    for (s++; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20)
            return NULL;
        if (*s != '\\')
            continue;
        s++;
        if (*s == 'u') {
            if (strspn(s + 1, "0123456789abcdefABCDEF") < 4)
                return NULL;
            s += 4;
        } else if (!*s || !strchr("\"\\/bfnrt", *s)) {
            return NULL;
        }
    }
    return s + 1;
}

static const char *digits(const char *s)
{
    size_t n = strspn(s, "0123456789");
    return n ? s + n : NULL;
}

static const char *end_number(const char *s)
{
    s += *s == '-';
    s = *s == '0' ? s + 1 : digits(s);
    if (s && *s == '.')
        s = digits(s + 1);
    if (s && (*s == 'e' || *s == 'E'))
        s = digits(s + 1 + (s[1] == '+' || s[1] == '-'));
    return s;
}

static const char *end_value(const char *s, int depth)
{
    if (*s == '"')
        return end_string(s);
    if (*s == '-' || (*s >= '0' && *s <= '9'))
        return end_number(s);
    if (!strncmp(s, "true", 4) || !strncmp(s, "null", 4))
        return s + 4;
    if (!strncmp(s, "false", 5))
        return s + 5;
    if ((*s != '{' && *s != '[') || depth == DEPTH)
        return NULL;
    bool object = *s == '{';
    char close = object ? '}' : ']';
    s = space(s + 1);
    if (*s == close)
        return s + 1;
    for (;;) {
        if (object) {
            if (*s != '"' || !(s = end_string(s)))
                return NULL;
            s = space(s);
            if (*s != ':')
                return NULL;
            s = space(s + 1);
        }
        if (!(s = end_value(s, depth + 1)))
            return NULL;
        s = space(s);
        if (*s == close)
            return s + 1;
        if (*s != ',')
            return NULL;
        s = space(s + 1);
    }
}

bool js_open(const char *text, size_t n, js *root)
{
    root->s = space(text);
    const char *end = end_value(root->s, 0);
    return end && space(end) == text + n;
}

char js_kind(js v)
{
    if (!v.s)
        return 0;
    return *v.s == '-' || (*v.s >= '0' && *v.s <= '9') ? '0' : *v.s;
}

js_walk js_begin(js v)
{
    char kind = js_kind(v);
    return (js_walk){ kind == '{' || kind == '[' ? space(v.s + 1) : "]" };
}

bool js_next(js_walk *w, js *key, js *value)
{
    if (key)
        key->s = NULL;
    if (*w->s == ']' || *w->s == '}')
        return false;
    const char *s = w->s, *end = end_value(s, 0);
    if (end && *space(end) == ':') {
        if (key)
            key->s = s;
        s = space(space(end) + 1);
        end = end_value(s, 0);
    }
    if (!end)
        return false;
    value->s = s;
    end = space(end);
    w->s = *end == ',' ? space(end + 1) : end;
    return true;
}

js js_member(js object, const char *key)
{
    js name, value;
    if (js_kind(object) == '{')
        for (js_walk w = js_begin(object); js_next(&w, &name, &value);)
            if (js_is(name, key))
                return value;
    return (js){ NULL };
}

bool js_is(js v, const char *text)
{
    char buf[256];
    return js_kind(v) == '"' && !strcmp(js_text(v, buf, sizeof buf), text);
}

bool js_int(js v, int64_t *out)
{
    if (js_kind(v) != '0')
        return false;
    char *end;
    errno = 0;
    long long i = strtoll(v.s, &end, 10);
    *out = i;
    return !errno && *end != '.' && *end != 'e' && *end != 'E';
}

bool js_real(js v, double *out)
{
    if (js_kind(v) == '0')
        *out = strtod(v.s, NULL);
    return js_kind(v) == '0';
}

size_t js_size(js v)
{
    const char *end = v.s ? end_value(v.s, 0) : NULL;
    return end ? (size_t)(end - v.s) : 0;
}

static unsigned hex4(const char *s)
{
    char four[5] = { s[0], s[1], s[2], s[3], 0 };
    return (unsigned)strtoul(four, NULL, 16);
}

/* UTF-8 of code point c at out; how many bytes. */
static size_t utf8(unsigned c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(c | (0xf00u >> n & 0xf0));
    return n;
}

/* One character of a string at *s as UTF-8; moves on. Half a surrogate pair becomes U+FFFD, and so does NUL. */
static size_t character(const char **s, char out[4])
{
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *p = *s;
    if (*p != '\\') {
        out[0] = *p;
        *s = p + 1;
        return 1;
    }
    if (p[1] != 'u') {
        const char *e = strchr(escapes, p[1]);
        out[0] = e ? meant[e - escapes] : p[1];
        *s = p + 2;
        return 1;
    }
    unsigned c = hex4(p + 2);
    *s = p + 6;
    if (c >= 0xd800 && c < 0xdc00 && p[6] == '\\' && p[7] == 'u') {
        unsigned low = hex4(p + 8);
        if (low >= 0xdc00 && low < 0xe000) {
            *s = p + 12;
            return utf8(0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff), out);
        }
    }
    return utf8(c == 0 || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c, out);
}

const char *js_text(js v, char *buf, size_t size)
{
    size_t used = 0;
    if (js_kind(v) == '"') {
        char one[4];
        for (const char *s = v.s + 1; *s != '"';) {
            size_t n = character(&s, one);
            if (used + n >= size)
                break;
            memcpy(buf + used, one, n);
            used += n;
        }
    } else {
        used = js_size(v);
        used = used < size ? used : size - 1;
        if (used)
            memcpy(buf, v.s, used);
    }
    buf[used] = 0;
    return buf;
}
