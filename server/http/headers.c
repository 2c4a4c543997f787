/* headers.c - see headers.h. */
#include "http/headers.h"

#include <string.h>
#include <strings.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* ---- targets ---- */

bool pe_percent_decode(pe_span in, char *out, size_t *n)
{
    size_t k = 0;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            int high = i + 2 < in.n ? hex_value(in.p[i + 1]) : -1;
            int low = i + 2 < in.n ? hex_value(in.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c)
            return false;
        out[k++] = c;
    }
    out[k] = 0;
    *n = k;
    return true;
}

bool pe_query_next(const char **query, pe_span *name, pe_span *value)
{
    const char *s = *query;
    if (!s)
        return false;
    while (*s == '&')
        s++;
    size_t n = strcspn(s, "&");
    const char *eq = memchr(s, '=', n);
    *query = s + n;
    *name = (pe_span){ s, eq ? (size_t)(eq - s) : n };
    *value = (pe_span){ eq ? eq + 1 : NULL, eq ? n - name->n - 1 : 0 };
    return n > 0;
}

bool pe_path_plain(const char *path)
{
    if (*path != '/')
        return false;
    for (const char *s = path + 1; path[1];) {
        size_t n = strcspn(s, "/");
        if (!n || (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.'))))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!is_letter(s[i]) && !is_digit(s[i]) && !strchr("-._~", s[i]))
                return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
    return true;
}

int pe_path_match(const char *path_template, const char *path, pe_span *out, int max)
{
    const char *t = path_template, *s = path;
    int found = 0;
    while (*t) {
        if (*t != '{') {
            if (*t++ != *s++)
                return -1;
            continue;
        }
        const char *end = strchr(t, '}');
        if (!end || found == max)
            return -1;
        bool rest = t > path_template && t[-1] == '.'; /* {ext} may hold dots */
        size_t n = strcspn(s, rest ? "/" : "./");
        if (!n)
            return -1;
        t = end + 1;
        out[found++] = (pe_span){ s, n };
        s += n;
    }
    return *s ? -1 : found;
}

/* Digits alone; advances. */
static bool read_size(const char **s, int64_t *out)
{
    const char *p = *s;
    int64_t v = 0;
    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return false;
    bool any = p > *s;
    *s = p;
    *out = v;
    return any;
}

bool pe_rows_parse(const char *s, int64_t *a, int64_t *b)
{
    return read_size(&s, a) && *s++ == ':' && read_size(&s, b) && !*s && *a <= *b;
}

bool pe_count_parse(const char *s, int64_t *out) { return read_size(&s, out) && !*s; }

/* ---- header fields ---- */

static const char *skip_blanks(const char *s)
{
    while (is_blank(*s))
        s++;
    return s;
}

static bool is_weak(const char *tag) { return tag[0] == 'W' && tag[1] == '/'; }

bool pe_etag_listed(const char *list, const char *tag, bool weak)
{
    if (!weak && is_weak(tag))
        return false;
    const char *opaque = is_weak(tag) ? tag + 2 : tag;
    size_t n = strlen(opaque);
    const char *s = skip_blanks(list);
    if (*s == '*' && !*skip_blanks(s + 1))
        return true;
    while (*s) {
        bool marked = is_weak(s);
        if (marked)
            s += 2;
        const char *end = *s == '"' ? strchr(s + 1, '"') : NULL;
        if (!end)
            return false; /* not a list of tags: what follows cannot be trusted */
        if ((weak || !marked) && (size_t)(end - s) + 1 == n && !memcmp(s, opaque, n))
            return true;
        s = skip_blanks(end + 1);
        if (*s && *s != ',')
            return false;
        while (*s == ',' || is_blank(*s))
            s++;
    }
    return false;
}

pe_range pe_range_parse(const char *s, uint64_t size, uint64_t *first, uint64_t *last)
{
    int64_t a = 0, b = INT64_MAX;
    if (!s || strncasecmp(s, "bytes=", 6))
        return PE_RANGE_IGNORED;
    s = skip_blanks(s + 6);
    bool suffix = *s == '-';
    if (suffix) {
        s++;
        if (!read_size(&s, &a) || *skip_blanks(s))
            return PE_RANGE_IGNORED;
        if (!a || !size)
            return PE_RANGE_OUTSIDE;
        *first = (uint64_t)a < size ? size - (uint64_t)a : 0;
        *last = size - 1;
        return PE_RANGE_PART;
    }
    if (!read_size(&s, &a) || *s++ != '-')
        return PE_RANGE_IGNORED;
    if (is_digit(*s) && (!read_size(&s, &b) || b < a))
        return PE_RANGE_IGNORED;
    if (*skip_blanks(s))
        return PE_RANGE_IGNORED;
    if ((uint64_t)a >= size)
        return PE_RANGE_OUTSIDE;
    *first = (uint64_t)a;
    *last = (uint64_t)b < size ? (uint64_t)b : size - 1;
    return PE_RANGE_PART;
}

/* "0", "0.5", "1.000" in thousandths; -1: not a weight. Advances. */
static int read_weight(const char **s)
{
    const char *p = *s;
    int w = 0, scale = 100;
    if (*p != '0' && *p != '1')
        return -1;
    w = (*p++ - '0') * 1000;
    if (*p == '.')
        for (p++; is_digit(*p) && scale > 0; p++, scale /= 10)
            w += (*p - '0') * scale;
    *s = p;
    return w <= 1000 ? w : -1;
}

bool pe_accepts_gzip(const char *s)
{
    int gzip = -1, any = -1, identity = -1; /* -1: not named */
    while (s && *s) {
        s += strspn(s, " \t,");
        const char *name = s;
        size_t n = strcspn(s, " \t,;");
        int weight = 1000;
        s = skip_blanks(s + n);
        if (*s == ';') {
            s = skip_blanks(s + 1);
            if (strncasecmp(s, "q=", 2))
                return false;
            s += 2;
            weight = read_weight(&s);
            s = skip_blanks(s);
        }
        if (weight < 0 || (*s && *s != ','))
            return false; /* not understood: nothing is compressed */
        if ((n == 4 && !strncasecmp(name, "gzip", n)) || (n == 6 && !strncasecmp(name, "x-gzip", n)))
            gzip = weight;
        else if (n == 1 && *name == '*')
            any = weight;
        else if (n == 8 && !strncasecmp(name, "identity", n))
            identity = weight;
    }
    if (gzip < 0)
        gzip = any;
    return gzip > 0 && gzip >= identity;
}

bool pe_timeout_parse(const char *s, int64_t *ns)
{
    int64_t seconds, nanos = 0, scale = 100000000;
    if (!read_size(&s, &seconds) || seconds > 86400)
        return false;
    if (*s == '.') {
        const char *start = ++s;
        for (; is_digit(*s) && scale > 0; s++, scale /= 10)
            nanos += (*s - '0') * scale;
        if (s == start)
            return false;
    }
    *ns = seconds * 1000000000 + nanos;
    return !*s && *ns > 0 && *ns <= 86400 * (int64_t)1000000000;
}

bool pe_request_id_sane(const char *s)
{
    size_t n = 0;
    for (; s[n]; n++)
        if (n == 64 || (!is_letter(s[n]) && !is_digit(s[n]) && !strchr("._-", s[n])))
            return false;
    return n > 0;
}

pe_media pe_media_parse(const char *s)
{
    static const struct {
        const char *name;
        pe_media media;
    } known[] = { { "application/json", PE_MEDIA_JSON },
                  { "application/vnd.safetensors", PE_MEDIA_SAFETENSORS },
                  { "application/x-npz", PE_MEDIA_NPZ },
                  { "application/x-npy", PE_MEDIA_NPY } };
    if (!s)
        return PE_MEDIA_NONE;
    s = skip_blanks(s);
    size_t n = strcspn(s, " \t;");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) != n || strncasecmp(s, known[i].name, n))
            continue;
        s = skip_blanks(s + n);
        if (!*s)
            return known[i].media;
        if (*s != ';' || known[i].media != PE_MEDIA_JSON)
            return PE_MEDIA_OTHER;
        s = skip_blanks(s + 1);
        bool utf8 = !strcasecmp(s, "charset=utf-8") || !strcasecmp(s, "charset=\"utf-8\"");
        return utf8 ? PE_MEDIA_JSON : PE_MEDIA_OTHER;
    }
    return PE_MEDIA_OTHER;
}

/* ---- texts for the wire ---- */

void pe_header_escape(const char *s, char *out, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = c >= 0x20 && c < 0x7f && c != '%';
        if (n + (plain ? 1 : 3) >= size)
            break;
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    while (n > 0 && out[n - 1] == ' ') /* a value ends with something visible */
        n--;
    out[n] = 0;
}

/* Bytes of the well-formed character at s (Unicode 15, table 3-7); 0: none. */
static size_t utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char first, last, low, high; /* of the first byte; of the second */
        unsigned char n;
    } row[] = { { 0x01, 0x7f, 0, 0xff, 1 },    { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
                { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
                { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 } };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        if (s[0] < row[i].first || s[0] > row[i].last)
            continue;
        if (row[i].n > 1 && (s[1] < row[i].low || s[1] > row[i].high))
            return 0;
        for (size_t k = 2; k < row[i].n; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return row[i].n;
    }
    return 0;
}

void pe_utf8_clean(const char *text, char *out, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = 0;
    while (*s) {
        size_t k = utf8_length(s);
        const char *from = k ? (const char *)s : "\xef\xbf\xbd";
        size_t put = k ? k : 3;
        if (n + put >= size)
            break;
        memcpy(out + n, from, put);
        n += put;
        s += k ? k : 1;
    }
    out[n] = 0;
}
