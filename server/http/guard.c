/* guard.c - see guard.h. First the state machine, then its place between libmicrohttpd and the sockets. */
#include "http/guard.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- characters ---------------------------------------------------------------------------------------------- */

enum {
    TOKEN = 1,  /* tchar of RFC 9110, 5.6.2 */
    TARGET = 2, /* in a target without further thought: visible ASCII but # % & */
    VALUE = 4,  /* in a header value: visible, space, tab, and bytes from 0x80 */
    HOST = 8,   /* reg-name, IPv6 literal and port of RFC 3986, 3.2.2 */
    HEX = 16
};
static uint8_t class_of[256];
static pthread_once_t classes_once = PTHREAD_ONCE_INIT;

static void mark(const char *set, unsigned class)
{
    for (; *set; set++)
        class_of[(uint8_t)*set] = (uint8_t)(class_of[(uint8_t)*set] | class);
}

static void make_classes(void)
{
    static const char alnum[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    mark(alnum, TOKEN | HOST);
    mark("!#$%&'*+-.^_`|~", TOKEN);
    mark("-._~%!$&'()*+,;=:[]", HOST);
    mark("0123456789abcdefABCDEF", HEX);
    for (unsigned c = 0x21; c < 0x7f; c++)
        class_of[c] |= c == '#' || c == '%' || c == '&' ? VALUE : VALUE | TARGET;
    for (unsigned c = 0x80; c < 0x100; c++)
        class_of[c] |= VALUE;
    class_of[' '] |= VALUE;
    class_of['\t'] |= VALUE;
}

static bool is(uint8_t c, unsigned class) { return class_of[c] & class; }

/* First byte of [p, end) that is not of the class. */
static const uint8_t *skip(const uint8_t *p, const uint8_t *end, unsigned class)
{
    while (p < end && is(*p, class))
        p++;
    return p;
}

static unsigned hex_value(uint8_t c) { return c <= '9' ? c - '0' + 0u : (c | 0x20u) - 'a' + 10u; }

/* ---- faults -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int status;
    const char *code, *wire, *detail;
} rows[PE_FRAMING_REASONS] = { [PE_FRAMING_OK] = { "OK", 200, "OK", "", "" },
#define X(name, status, code, wire, detail) [PE_FRAMING_##name] = { #name, status, code, wire, detail },
                               PE_FRAMING_FAULTS(X)
#undef X
};

const char *pe_framing_reason_name(pe_framing_reason r) { return rows[r].name; }

int pe_framing_status(pe_framing_reason r) { return rows[r].status; }

static const char *phrase(int status)
{
    switch (status) {
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 417: return "Expectation Failed";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 505: return "HTTP Version Not Supported";
    default: return "Bad Request";
    }
}

/* Records the fault and returns false, so that `return fail(...)` reads well. Value and field may point into f. */
__attribute__((format(printf, 5, 6))) static bool fail(pe_framing *f, pe_framing_reason reason, const char *field,
                                                       const char *value, const char *allowed, ...)
{
    pe_framing_fault *t = &f->fault;
    size_t n = strlen(value);
    va_list ap;

    t->reason = reason;
    t->bodyless = !strncmp(f->line, "HEAD ", 5);
    snprintf(t->field, sizeof t->field, "%s", field);
    snprintf(t->value, sizeof t->value, "%.60s%s", value, n > 60 ? "..." : "");
    va_start(ap, allowed);
    vsnprintf(t->allowed, sizeof t->allowed, allowed, ap);
    va_end(ap);
    return false;
}

/* For faults that one byte shows. */
static bool fail_byte(pe_framing *f, pe_framing_reason reason, const char *field, uint8_t c, const char *allowed)
{
    char value[16];

    if (c > ' ' && c < 0x7f)
        snprintf(value, sizeof value, "%c", c);
    else
        snprintf(value, sizeof value, "byte 0x%02x", c);
    return fail(f, reason, field, value, "%s", allowed);
}

/* setting NULL: nothing moves this limit. */
static bool fail_limit(pe_framing *f, pe_framing_reason reason, const char *field, uint64_t limit, const char *unit,
                       const char *setting)
{
    char value[48];

    snprintf(value, sizeof value, "more than %llu", (unsigned long long)limit);
    if (!setting)
        return fail(f, reason, field, value, "at most %llu %s (fixed)", (unsigned long long)limit, unit);
    return fail(f, reason, field, value, "at most %llu %s (setting %s)", (unsigned long long)limit, unit, setting);
}

/* ---- the state machine --------------------------------------------------------------------------------------- */

enum state {
    START,
    BLANK_LF,
    METHOD,
    REQUEST_TARGET,
    VERSION,
    REQUEST_LF,
    FIELD,
    NAME,
    BEFORE_VALUE,
    FIELD_VALUE,
    FIELD_LF,
    HEAD_LF,
    BODY,
    CHUNK_SIZE,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_CR,
    CHUNK_LF,
    LAST_CR,
    LAST_LF,
    LAST /* the connection has had its last message */
};

enum kind { OTHER, HOST_NAME, LENGTH, CODING, EXPECT, CONNECTION, COOKIE };

static const struct {
    const char *name;
    uint8_t n;
    enum kind kind;
} kinds[] = { { "Host", 4, HOST_NAME }, { "Content-Length", 14, LENGTH }, { "Transfer-Encoding", 17, CODING },
              { "Expect", 6, EXPECT },  { "Connection", 10, CONNECTION }, { "Cookie", 6, COOKIE } };

static const char crlf_only[] = "lines end with CR LF";

void pe_framing_init(pe_framing *f, uint64_t now_ms)
{
    pthread_once(&classes_once, make_classes);
    memset(f, 0, sizeof *f);
    f->since = now_ms;
}

bool pe_framing_last(const pe_framing *f) { return f->state == LAST; }

uint64_t pe_framing_deadline(const pe_framing *f, const pe_guard_limits *limits)
{
    if (f->state == LAST || f->fault.reason)
        return UINT64_MAX;
    if (f->state >= BODY)
        return f->since + limits->body_ms + (limits->body_rate ? f->received * 1000 / limits->body_rate : 0);
    return f->begun || !f->messages ? f->since + limits->header_ms : UINT64_MAX;
}

void pe_framing_expire(pe_framing *f, const pe_guard_limits *limits)
{
    char value[48];

    if (f->state < BODY) {
        fail(f, PE_FRAMING_HEADER_TIME, "headers", "incomplete", "complete within %u ms (setting header_ms)",
             (unsigned)limits->header_ms);
        return;
    }
    snprintf(value, sizeof value, "%llu bytes received", (unsigned long long)f->received);
    fail(f, PE_FRAMING_BODY_TIME, "body", value, "%u ms (setting body_ms) and 1 s more for every %u bytes (fixed)",
         (unsigned)limits->body_ms, (unsigned)limits->body_rate);
}

static void complete(pe_framing *f, uint64_t boundary)
{
    f->messages++;
    f->boundary = boundary;
    f->state = f->closes ? LAST : START;
    f->begun = f->blank = false;
}

static void begin(pe_framing *f, uint64_t now_ms)
{
    if (f->messages)
        f->since = now_ms;
    f->state = METHOD;
    f->begun = true;
    f->received = f->left = 0;
    f->n = f->head = f->nfields = f->ncookies = f->nargs = 0;
    f->line_n = f->hosts = f->lengths = f->codings = 0;
    f->v11 = f->forbids_body = f->closes = f->keeps = false;
}

/* Appends to the NUL-terminated beginning of something; what does not fit is dropped. */
static uint8_t keep(char *text, size_t size, uint8_t n, const uint8_t *p, size_t more)
{
    if (more > size - 1 - n)
        more = size - 1 - n;
    memcpy(text + n, p, more);
    text[n + more] = 0;
    return (uint8_t)(n + more);
}

static void keep_line(pe_framing *f, const uint8_t *p, size_t n)
{
    f->line_n = keep(f->line, sizeof f->line, f->line_n, p, n);
}

static void keep_name(pe_framing *f, const uint8_t *p, size_t n)
{
    f->name_n = keep(f->name, sizeof f->name, f->name_n, p, n);
}

static bool keep_text(pe_framing *f, uint8_t c)
{
    if (f->text_n == sizeof f->text - 1)
        return false;
    f->text[f->text_n++] = (char)c;
    f->text[f->text_n] = 0;
    return true;
}

static bool method_ends(pe_framing *f)
{
    static const char *const bare[] = { "GET ", "HEAD ", "DELETE ", "TRACE " };

    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        f->forbids_body |= !strcmp(f->line, bare[i]);
    f->state = REQUEST_TARGET;
    f->n = 0;
    f->digits = 0; /* hexadecimal digits that are due after % */
    return true;
}

/* One byte of the target that is not plain. */
static bool target_byte(pe_framing *f, uint8_t c, const pe_guard_limits *limits)
{
    if (c == '%') {
        f->digits = 2;
        f->zero_escape = true;
    } else if (c == '&') {
        if (++f->nargs >= limits->arg_count)
            return fail_limit(f, PE_FRAMING_TARGET_LIMIT, "target", limits->arg_count, "query parameters", NULL);
    } else {
        return fail_byte(f, PE_FRAMING_TARGET, "target", c, "visible ASCII without #; one space before the version");
    }
    return true;
}

/* Returns how many bytes of [p, end) were taken; 0 only with a fault. */
static size_t target(pe_framing *f, const uint8_t *p, const uint8_t *end, const pe_guard_limits *limits)
{
    const uint8_t *q = p, *stop;

    if (!f->n && *p != '/' && (*p != '*' || strcmp(f->line, "OPTIONS "))) {
        fail_byte(f, PE_FRAMING_TARGET, "target", *p, "a path that begins with /, or * with OPTIONS");
        return 0;
    }
    if (*p == ' ') {
        if (f->digits) {
            fail(f, PE_FRAMING_TARGET, "target", "%", "%% and two hexadecimal digits");
            return 0;
        }
        keep_line(f, p, 1);
        f->state = VERSION;
        f->n = 0;
        return 1;
    }
    if (f->n == limits->target) {
        fail_limit(f, PE_FRAMING_TARGET_LIMIT, "target", limits->target, "bytes", "max_target");
        return 0;
    }
    if (f->n == 1 && f->line[f->line_n - 1] == '*') {
        fail(f, PE_FRAMING_TARGET, "target", "*", "* alone");
        return 0;
    }
    stop = (size_t)(end - p) > limits->target - f->n ? p + (limits->target - f->n) : end;
    if (f->digits) {
        f->zero_escape &= *p == '0';
        if (!is(*p, HEX)) {
            fail_byte(f, PE_FRAMING_TARGET, "target", *p, "two hexadecimal digits after %");
            return 0;
        }
        if (!--f->digits && f->zero_escape) {
            fail(f, PE_FRAMING_TARGET, "target", "%00", "no NUL");
            return 0;
        }
        q++;
    } else if (is(*p, TARGET)) {
        q = skip(p, stop, TARGET);
        if (!f->n && q > p + 1 && *p == '*')
            q = p + 1; /* the next byte is a fault and is looked at on its own */
    } else {
        if (!target_byte(f, *p, limits))
            return 0;
        q++;
    }
    keep_line(f, p, (size_t)(q - p));
    f->n += (uint32_t)(q - p);
    return (size_t)(q - p);
}

static bool version_byte(pe_framing *f, uint8_t c)
{
    static const char want[] = "HTTP/0.0\r";
    char value[16];

    if (f->n == 5 || f->n == 7) {
        if (c < '0' || c > '9')
            return fail_byte(f, PE_FRAMING_REQUEST_LINE, "request line", c, "METHOD target HTTP/1.1, with single spaces");
        f->text[f->n] = (char)c;
        f->n++;
        return true;
    }
    if (c == '\n' && f->n == 8)
        return fail_byte(f, PE_FRAMING_LINE_END, "request line", c, crlf_only);
    if (c != (uint8_t)want[f->n])
        return fail_byte(f, PE_FRAMING_REQUEST_LINE, "request line", c, "METHOD target HTTP/1.1, with single spaces");
    if (++f->n < 9)
        return true;
    if (f->text[5] != '1' || f->text[7] > '1') {
        snprintf(value, sizeof value, "HTTP/%c.%c", f->text[5], f->text[7]);
        return fail(f, PE_FRAMING_VERSION, "request line", value, "HTTP/1.1 or HTTP/1.0");
    }
    f->v11 = f->text[7] == '1';
    f->state = REQUEST_LF;
    return true;
}

static bool name_ends(pe_framing *f)
{
    f->kind = OTHER;
    f->text_n = 0;
    f->text[0] = 0;
    f->n = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (f->name_n == kinds[i].n && !strcasecmp(f->name, kinds[i].name))
            f->kind = (uint8_t)kinds[i].kind;
    f->state = BEFORE_VALUE;
    switch (f->kind) {
    case HOST_NAME: return !f->hosts++ || fail(f, PE_FRAMING_HOST, f->name, "twice", "once");
    case LENGTH: f->left = 0; return !f->lengths++ || fail(f, PE_FRAMING_CONTENT_LENGTH, f->name, "twice", "once");
    case CODING: return !f->codings++ || fail(f, PE_FRAMING_TRANSFER, f->name, "twice", "once");
    default: return true;
    }
}

static void connection_token(pe_framing *f)
{
    f->closes |= !strcasecmp(f->text, "close");
    f->keeps |= !strcasecmp(f->text, "keep-alive");
    f->text_n = 0;
    f->text[0] = 0;
}

/* One byte of a value that matters here. */
static bool value_byte(pe_framing *f, uint8_t c, const pe_guard_limits *limits)
{
    switch (f->kind) {
    case HOST_NAME:
        if (!is(c, HOST) && c != ' ' && c != '\t')
            return fail_byte(f, PE_FRAMING_HOST, f->name, c, "name or address, optional port");
        if (is(c, HOST) && f->digits) /* white space may only end it */
            return fail_byte(f, PE_FRAMING_HOST, f->name, ' ', "name or address, optional port");
        f->digits = !is(c, HOST);
        break;
    case LENGTH:
        keep_text(f, c);
        if (c < '0' || c > '9')
            return fail(f, PE_FRAMING_CONTENT_LENGTH, f->name, f->text, "decimal digits only");
        if (f->left > (UINT64_MAX - 9) / 10)
            f->left = UINT64_MAX; /* over any limit, and stays there */
        else
            f->left = f->left * 10 + (c - '0' + 0u);
        f->n = 1;
        break;
    case CODING:
    case EXPECT:
        if (!keep_text(f, c))
            f->text[f->text_n - 1] = '.'; /* too long to be right */
        break;
    case CONNECTION:
        if (c == ',' || c == ' ' || c == '\t')
            connection_token(f);
        else if (!keep_text(f, c))
            f->text[0] = '.';
        break;
    case COOKIE:
        if ((c == ';' || c == ',') && ++f->ncookies >= limits->header_count)
            return fail_limit(f, PE_FRAMING_HEADER_LIMIT, f->name, limits->header_count, "cookies", NULL);
        break;
    default: break;
    }
    return true;
}

static bool value_ends(pe_framing *f)
{
    switch (f->kind) {
    case LENGTH: return f->n || fail(f, PE_FRAMING_CONTENT_LENGTH, f->name, "", "decimal digits only");
    case CODING: return !strcasecmp(f->text, "chunked") || fail(f, PE_FRAMING_CODING, f->name, f->text, "chunked");
    case EXPECT: /* 1.0 has no expectations; libmicrohttpd ignores them as well */
        return !f->v11 || !strcasecmp(f->text, "100-continue") ||
               fail(f, PE_FRAMING_EXPECT, f->name, f->text, "100-continue");
    case CONNECTION: connection_token(f); return true;
    default: return true;
    }
}

static bool head_ends(pe_framing *f, const pe_guard_limits *limits, uint64_t now_ms)
{
    char value[48];

    if (f->v11 && !f->hosts)
        return fail(f, PE_FRAMING_HOST, "Host", "none", "once");
    if (f->lengths && f->codings)
        return fail(f, PE_FRAMING_TWO_LENGTHS, "Transfer-Encoding", "chunked",
                    "one of Content-Length and Transfer-Encoding");
    if (f->codings && !f->v11)
        return fail(f, PE_FRAMING_TRANSFER, "Transfer-Encoding", "with HTTP/1.0", "HTTP/1.1");
    if (f->forbids_body && (f->codings || (f->lengths && f->left)))
        return fail(f, PE_FRAMING_NO_BODY, "body", f->codings ? "chunked" : "Content-Length above 0", "no body");
    f->closes |= !f->v11 && !f->keeps;
    f->body_limit = limits->body;
    for (size_t i = 0; i < limits->nroutes; i++)
        if (!strncmp(f->line, limits->routes[i].start, strlen(limits->routes[i].start)) &&
            limits->routes[i].body > f->body_limit)
            f->body_limit = limits->routes[i].body;
    f->since = now_ms;
    if (f->codings) {
        f->state = CHUNK_SIZE;
        f->left = f->digits = 0;
        return true;
    }
    if (!f->lengths || !f->left) {
        complete(f, f->total + 1);
        return true;
    }
    if (f->left > f->body_limit) {
        snprintf(value, sizeof value, "%llu", (unsigned long long)f->left);
        return fail(f, PE_FRAMING_BODY_LIMIT, "body", f->left == UINT64_MAX ? "over 2^64" : value,
                    "at most %llu bytes (setting max_body)", (unsigned long long)f->body_limit);
    }
    f->state = BODY;
    return true;
}

static bool chunk_size_byte(pe_framing *f, uint8_t c)
{
    static const char allowed[] = "1 to 16 hexadecimal digits, no extension";

    if (is(c, HEX) && f->digits < 16) {
        f->left = f->left << 4 | hex_value(c);
        f->digits++;
        return true;
    }
    if (c == '\n')
        return fail_byte(f, PE_FRAMING_LINE_END, "chunk", c, crlf_only);
    if (c != '\r' || !f->digits)
        return fail_byte(f, PE_FRAMING_CHUNK, "chunk", c, allowed);
    f->state = CHUNK_SIZE_LF;
    return true;
}

static bool chunk_begins(pe_framing *f)
{
    if (!f->left) {
        f->state = LAST_CR;
        return true;
    }
    if (f->left > f->body_limit - f->received)
        return fail_limit(f, PE_FRAMING_BODY_LIMIT, "body", f->body_limit, "bytes", "max_body");
    f->state = CHUNK_DATA;
    return true;
}

/* One byte of the head, apart from target and plain values, which go in runs. */
static bool head_byte(pe_framing *f, uint8_t c, const pe_guard_limits *limits, uint64_t now_ms)
{
    switch (f->state) {
    case START:
        if (c == '\r' && !f->blank) {
            f->state = BLANK_LF;
            return true;
        }
        if (c == '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, "request line", c, crlf_only);
        begin(f, now_ms);
        f->line[0] = 0;
        /* fall through */
    case METHOD:
        if (c == ' ' && f->n) {
            keep_line(f, &c, 1);
            return method_ends(f);
        }
        if (c == '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, "request line", c, crlf_only);
        if (!is(c, TOKEN))
            return fail_byte(f, PE_FRAMING_REQUEST_LINE, "request line", c, "METHOD target HTTP/1.1, with single spaces");
        if (f->n++ == 32)
            return fail(f, PE_FRAMING_METHOD, "request line", f->line, "a method of at most 32 bytes");
        keep_line(f, &c, 1);
        return true;
    case BLANK_LF:
        f->blank = true;
        f->state = START;
        return c == '\n' || fail_byte(f, PE_FRAMING_LINE_END, "request line", c, crlf_only);
    case VERSION: return version_byte(f, c);
    case REQUEST_LF: f->state = FIELD; return c == '\n' || fail_byte(f, PE_FRAMING_LINE_END, "request line", c, crlf_only);
    case FIELD:
        f->name_n = 0;
        f->name[0] = 0;
        if (c == '\r') {
            f->state = HEAD_LF;
            return true;
        }
        if (c == ' ' || c == '\t')
            return fail_byte(f, PE_FRAMING_FIELD_FOLD, "header", c, "each header on one line");
        if (c == '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, "header", c, crlf_only);
        if (is(c, TOKEN) && f->nfields++ == limits->header_count)
            return fail_limit(f, PE_FRAMING_HEADER_LIMIT, "headers", limits->header_count, "headers", NULL);
        f->state = NAME;
        /* fall through */
    case NAME: /* a run of token bytes does not come here but for its first */
        if (c == ':' && f->name_n)
            return name_ends(f);
        if (!is(c, TOKEN))
            return fail_byte(f, PE_FRAMING_FIELD_NAME, f->name_n ? f->name : "header", c,
                             "a name directly followed by a colon");
        keep_name(f, &c, 1);
        return true;
    case BEFORE_VALUE:
        if (c == ' ' || c == '\t')
            return true;
        f->digits = 0;
        f->state = FIELD_VALUE;
        /* fall through */
    case FIELD_VALUE:
        if (c == '\r') {
            f->state = FIELD_LF;
            return true;
        }
        if (c == '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, f->name, c, crlf_only);
        if (!is(c, VALUE))
            return fail_byte(f, PE_FRAMING_FIELD_VALUE, f->name, c, "no control characters");
        return value_byte(f, c, limits);
    case FIELD_LF:
        f->state = FIELD;
        if (c != '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, f->name, c, crlf_only);
        return value_ends(f);
    default: /* HEAD_LF */
        if (c != '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, "header", c, crlf_only);
        return head_ends(f, limits, now_ms);
    }
}

/* One byte of chunked framing. */
static bool chunk_byte(pe_framing *f, uint8_t c)
{
    switch (f->state) {
    case CHUNK_SIZE: return chunk_size_byte(f, c);
    case CHUNK_SIZE_LF: return c == '\n' ? chunk_begins(f) : fail_byte(f, PE_FRAMING_LINE_END, "chunk", c, crlf_only);
    case CHUNK_CR:
        f->state = CHUNK_LF;
        return c == '\r' || fail_byte(f, PE_FRAMING_CHUNK, "chunk", c, "CR LF after so many bytes");
    case CHUNK_LF:
        f->state = CHUNK_SIZE;
        f->left = f->digits = 0;
        return c == '\n' || fail_byte(f, PE_FRAMING_LINE_END, "chunk", c, crlf_only);
    case LAST_CR:
        f->state = LAST_LF;
        return c == '\r' || fail_byte(f, PE_FRAMING_TRAILER, "chunk", c, "an empty line after the last chunk");
    default: /* LAST_LF */
        if (c != '\n')
            return fail_byte(f, PE_FRAMING_LINE_END, "chunk", c, crlf_only);
        complete(f, f->total + 1);
        return true;
    }
}

bool pe_framing_feed(pe_framing *f, const void *bytes, size_t n, const pe_guard_limits *limits, uint64_t now_ms)
{
    const uint8_t *p = bytes, *const end = p + n;

    if (f->fault.reason)
        return false;
    while (p < end && f->state != LAST) {
        size_t took = 1;

        if (f->state == BODY || f->state == CHUNK_DATA) {
            took = f->left < (uint64_t)(end - p) ? (size_t)f->left : (size_t)(end - p);
            f->left -= took;
            f->received += took;
            f->total += took;
            p += took;
            if (!f->left && f->state == BODY)
                complete(f, f->total);
            else if (!f->left)
                f->state = CHUNK_CR;
            continue;
        }
        if (f->state > BODY) {
            if (!chunk_byte(f, *p))
                return false;
        } else if (f->state == VERSION && !f->n && end - p >= 10 && !memcmp(p, "HTTP/1.1\r\n", 10)) {
            took = 10; /* the usual case at once */
            f->v11 = true;
            f->state = FIELD;
        } else if (f->state == REQUEST_TARGET) {
            if (!(took = target(f, p, end, limits)))
                return false;
        } else {
            const bool in_fields = f->state >= FIELD;
            const uint8_t *stop;
            size_t room;

            if (in_fields && f->head == limits->headers)
                return fail_limit(f, PE_FRAMING_HEADER_LIMIT, "headers", limits->headers, "bytes", "max_headers");
            room = limits->headers - f->head;
            stop = (size_t)(end - p) > room ? p + room : end;
            if (f->state == FIELD_VALUE && f->kind == OTHER && is(*p, VALUE)) {
                took = (size_t)(skip(p, stop, VALUE) - p);
            } else if (f->state == NAME && is(*p, TOKEN)) {
                took = (size_t)(skip(p, stop, TOKEN) - p);
                keep_name(f, p, took);
            } else if (!head_byte(f, *p, limits, now_ms)) {
                return false;
            }
            if (in_fields)
                f->head += (uint32_t)took;
        }
        f->total += took;
        p += took;
    }
    return true;
}

/* ---- the answer ---------------------------------------------------------------------------------------------- */

/* Copies s as the inside of a JSON string; what is not plain ASCII becomes '?', for it may be cut UTF-8. */
static void quote(char *out, size_t size, const char *s)
{
    size_t n = 0;

    for (; *s && n + 3 < size; s++) {
        if (*s == '"' || *s == '\\')
            out[n++] = '\\';
        out[n++] = *s >= ' ' && *s < 0x7f ? *s : '?';
    }
    out[n] = 0;
}

static void http_date(time_t t, char out[40])
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm m;

    if (!gmtime_r(&t, &m))
        memset(&m, 0, sizeof m);
    snprintf(out, 40, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * (m.tm_wday % 7), m.tm_mday % 100,
             months + 3 * (m.tm_mon % 12), (m.tm_year + 1900) % 10000, m.tm_hour % 100, m.tm_min % 100, m.tm_sec % 100);
}

size_t pe_framing_answer(const pe_framing_fault *fault, time_t date, char *out, size_t size)
{
    char body[1024], field[132], value[132], allowed[196], when[40];
    const int status = rows[fault->reason].status;
    const unsigned long long id = fault->id;
    int body_n, n;

    quote(field, sizeof field, fault->field);
    quote(value, sizeof value, fault->value);
    quote(allowed, sizeof allowed, fault->allowed);
    http_date(date, when);
    body_n = snprintf(body, sizeof body,
                      "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\","
                      "\"instance\":\"urn:posenc:request:%016llx\",\"code\":\"%s\",\"reason\":\"%s\","
                      "\"errors\":[{\"field\":\"%s\",\"value\":\"%s\",\"reason\":\"%s\",\"allowed\":\"%s\"}]}\n",
                      phrase(status), status, rows[fault->reason].detail, id, rows[fault->reason].code,
                      rows[fault->reason].wire, field, value, rows[fault->reason].wire, allowed);
    n = snprintf(out, size,
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
                 "Cache-Control: no-store\r\nX-Request-Id: %016llx\r\nConnection: close\r\n\r\n%s",
                 status, phrase(status), when, body_n, id, fault->bodyless ? "" : body);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* ---- connections --------------------------------------------------------------------------------------------- */

enum {
    BLOCK = 256, /* connections whose state is allocated together, at first use, for ever */
    BLOCKS = 4096,
    GRACE_MS = 100,  /* for libmicrohttpd to close after an answer, before a withheld fault is sent unasked */
    UNSENT_MS = 5000 /* for a peer that does not take the guard's answer */
};

enum stage {
    READING,
    ANSWERING, /* the guard's answer is not all in the kernel */
    LINGERING, /* it is; input is discarded */
    ENDED      /* libmicrohttpd is to see end of file */
};

typedef struct conn {
    pthread_mutex_t lock; /* guards all that follows, but `open` */
    atomic_bool open;
    enum stage stage;
    bool tls, busy, woken;
    uint64_t owed;    /* complete messages that have not been answered */
    uint64_t paused;  /* [ms] since when the deadline stands still; 0: it runs */
    uint64_t settled; /* [ms] when owed became 0 by pe_guard_done */
    uint64_t until;   /* [ms] end of ANSWERING or LINGERING */
    uint64_t send_by; /* [ms] when libmicrohttpd's answer must have left; 0: none is under way */
    size_t sent;      /* of the answer */
    time_t date;      /* in the answer; repeated sends build the same bytes */
    pe_framing f;
} conn;

static pe_guard_limits lim = PE_GUARD_LIMITS_DEFAULT;
static _Atomic(conn *) blocks[BLOCKS];
static atomic_int highest = -1;
static _Atomic uint64_t refused[PE_FRAMING_REASONS], messages, idle, unanswered, unguarded, cut;
static _Atomic uint64_t ids;

/* The linker's names for what libmicrohttpd meant to call. Weak, so that a program that links guard.c without
 * --wrap (a unit test, a fuzz target) needs neither the option nor GnuTLS. */
ssize_t __real_recv(int fd, void *buf, size_t n, int flags) __attribute__((weak));
ssize_t __real_gnutls_record_recv(gnutls_session_t s, void *buf, size_t n) __attribute__((weak));
ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags);
ssize_t __wrap_gnutls_record_recv(gnutls_session_t s, void *buf, size_t n);
#pragma weak gnutls_record_send
#pragma weak gnutls_bye
#pragma weak gnutls_error_is_fatal
#pragma weak gnutls_transport_get_int2

/* NULL: not guarded. */
static conn *find(int fd)
{
    conn *b, *c;

    if (fd < 0 || fd >= BLOCK * BLOCKS || !(b = atomic_load(&blocks[fd / BLOCK])))
        return NULL;
    c = b + fd % BLOCK;
    return atomic_load(&c->open) ? c : NULL;
}

static conn *find_or_make(int fd)
{
    conn *b, *expected = NULL;

    if (fd < 0 || fd >= BLOCK * BLOCKS)
        return NULL;
    if (!(b = atomic_load(&blocks[fd / BLOCK]))) {
        if (!(b = calloc(BLOCK, sizeof *b)))
            return NULL;
        for (int i = 0; i < BLOCK; i++)
            pthread_mutex_init(&b[i].lock, NULL);
        if (!atomic_compare_exchange_strong(&blocks[fd / BLOCK], &expected, b)) {
            free(b);
            b = expected;
        }
    }
    return b + fd % BLOCK;
}

uint64_t pe_guard_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void pe_guard_init(const pe_guard_limits *limits)
{
    struct timespec t;

    lim = *limits;
    clock_gettime(CLOCK_REALTIME, &t);
    atomic_store(&ids, (uint64_t)((uint32_t)t.tv_sec ^ (uint32_t)getpid() << 16) << 32 | (uint32_t)t.tv_nsec);
}

/* An odd step visits all 2^64 numbers before it comes back. */
uint64_t pe_guard_id(void) { return atomic_fetch_add_explicit(&ids, 0x9e3779b97f4a7c15u, memory_order_relaxed); }

/* libmicrohttpd keeps the head where it was read, one record of 56 bytes per field, argument and cookie, and a copy of
 * the cookies; the rest is for the body's buffer and the head of its answer. */
size_t pe_guard_memory(const pe_guard_limits *l)
{
    return (size_t)l->target + 2 * (size_t)l->headers + 64 * ((size_t)l->arg_count + 2 * (size_t)l->header_count) + 16384;
}

/* The deadline runs again, as if the pause had not been. Caller holds the lock. */
static void resume(conn *c, uint64_t now)
{
    if (c->paused && now > c->paused)
        c->f.since += now - c->paused;
    c->paused = 0;
}

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

static void end(conn *c, int fd)
{
    c->stage = ENDED;
    shutdown(fd, SHUT_RD); /* so that libmicrohttpd's poll reports the connection */
}

/* Sends what is left of the answer. Caller holds the lock; with a session it is libmicrohttpd's thread. */
static void answer(conn *c, int fd, gnutls_session_t s, uint64_t now)
{
    char text[2048];
    size_t n;
    ssize_t r;

    if (c->stage == READING) {
        c->stage = ANSWERING;
        c->until = now + UNSENT_MS;
        c->date = time(NULL);
        c->f.fault.id = pe_guard_id();
        count(&refused[c->f.fault.reason]);
    }
    n = pe_framing_answer(&c->f.fault, c->date, text, sizeof text);
    while (c->sent < n) {
        if (s)
            r = gnutls_record_send(s, text + c->sent, n - c->sent);
        else
            r = send(fd, text + c->sent, n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r <= 0) {
            if (s ? r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED : r < 0 && (errno == EAGAIN || errno == EINTR))
                return; /* the sweep or the next read tries again */
            count(&unanswered);
            end(c, fd);
            return;
        }
        c->sent += (size_t)r;
    }
    if (s)
        gnutls_bye(s, GNUTLS_SHUT_WR);
    shutdown(fd, SHUT_WR);
    c->stage = LINGERING;
    c->until = now + PE_GUARD_LINGER_MS;
}

static bool overdue(const conn *c, uint64_t now) { return !c->paused && now > pe_framing_deadline(&c->f, &lim); }

/* The deadline is missed. A peer that has sent nothing has asked nothing, and gets no answer. */
static void expire(conn *c, int fd)
{
    if (!c->f.begun) {
        count(&idle);
        end(c, fd);
        return;
    }
    pe_framing_expire(&c->f, &lim);
}

bool pe_guard_open(int fd)
{
    conn *c = find_or_make(fd);
    int seen = atomic_load(&highest);

    if (!c) {
        count(&unguarded);
        shutdown(fd, SHUT_RDWR);
        return false;
    }
    pthread_mutex_lock(&c->lock);
    c->stage = READING;
    c->tls = c->busy = c->woken = false;
    c->owed = c->paused = c->settled = c->until = c->send_by = 0;
    c->sent = 0;
    pe_framing_init(&c->f, pe_guard_now());
    pthread_mutex_unlock(&c->lock);
    while (seen < fd && !atomic_compare_exchange_weak(&highest, &seen, fd))
        ;
    atomic_store(&c->open, true);
    return true;
}

void pe_guard_close(int fd)
{
    conn *c = find(fd);

    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->open, false); /* under the lock: a sweep that saw it open has let go of the descriptor */
    pthread_mutex_unlock(&c->lock);
}

/* send_ms: how long the answer may take; 0: there is none yet. */
static bool occupy(int fd, uint64_t send_ms)
{
    conn *c = find(fd);
    bool free_to_answer = true;

    if (!c)
        return true;
    pthread_mutex_lock(&c->lock);
    if (send_ms)
        c->send_by = pe_guard_now() + send_ms;
    if (!c->owed) {
        free_to_answer = c->stage == READING;
        c->busy = true;
        if (!c->paused)
            c->paused = pe_guard_now();
    }
    pthread_mutex_unlock(&c->lock);
    return free_to_answer;
}

bool pe_guard_busy(int fd) { return occupy(fd, 0); }

bool pe_guard_answering(int fd, uint64_t size)
{
    return occupy(fd, lim.send_ms + (lim.send_rate ? size / lim.send_rate * 1000 : 0));
}

/* `busy` stays: who answers before the body is complete closes the connection, who suspends will read again. */
void pe_guard_done(int fd)
{
    conn *c = find(fd);

    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->send_by = 0;
    if (c->owed && !--c->owed && !c->busy) {
        c->settled = pe_guard_now();
        resume(c, c->settled);
    }
    pthread_mutex_unlock(&c->lock);
}

/* One connection of the sweep; the lock is held and the descriptor is valid. */
static void sweep(conn *c, int fd, uint64_t now)
{
    if (c->send_by && now > c->send_by) {
        c->send_by = 0;
        c->stage = ENDED;
        count(&cut);
        shutdown(fd, SHUT_RDWR); /* libmicrohttpd's next send fails, and it closes */
        return;
    }
    switch (c->stage) {
    case READING:
        if (c->owed || c->busy)
            return;
        if (!c->f.fault.reason && overdue(c, now))
            expire(c, fd);
        else if (now < c->settled + GRACE_MS)
            return;
        if (!c->f.fault.reason || c->stage != READING)
            return;
        if (!c->tls)
            answer(c, fd, NULL, now);
        else if (!c->woken)
            shutdown(fd, SHUT_RD); /* libmicrohttpd's thread reads, and answers in our name */
        c->woken = true;
        return;
    case ANSWERING:
        if (now > c->until) {
            count(&unanswered);
            end(c, fd);
        } else if (!c->tls) {
            answer(c, fd, NULL, now);
        }
        return;
    case LINGERING:
        if (now > c->until)
            end(c, fd);
        return;
    default: return;
    }
}

static bool is_unread(const conn *c, int fd)
{
    int n = 0;

    return c->stage == READING && (c->owed || (!ioctl(fd, FIONREAD, &n) && n > 0));
}

/* All open connections, each under its lock: sweeps, or looks for one that is unread. */
static bool visit(uint64_t now_ms, bool look)
{
    const int top = atomic_load(&highest);
    bool found = false;

    for (int fd = 0; fd <= top && !found; fd++) {
        conn *c;

        if (!atomic_load(&blocks[fd / BLOCK])) {
            fd |= BLOCK - 1;
            continue;
        }
        if (!(c = find(fd)))
            continue;
        pthread_mutex_lock(&c->lock);
        if (atomic_load(&c->open) && look)
            found = is_unread(c, fd);
        else if (atomic_load(&c->open))
            sweep(c, fd, now_ms);
        pthread_mutex_unlock(&c->lock);
    }
    return found;
}

void pe_guard_sweep(uint64_t now_ms) { visit(now_ms, false); }

bool pe_guard_unread(void) { return visit(0, true); }

void pe_guard_read_stats(pe_guard_stats *out)
{
    for (int i = 0; i < PE_FRAMING_REASONS; i++)
        out->refused[i] = atomic_load(&refused[i]);
    out->messages = atomic_load(&messages);
    out->idle = atomic_load(&idle);
    out->unanswered = atomic_load(&unanswered);
    out->unguarded = atomic_load(&unguarded);
    out->cut = atomic_load(&cut);
}

/* ---- in place of recv ---------------------------------------------------------------------------------------- */

typedef enum turn {
    READ,    /* let libmicrohttpd read */
    LATER,   /* it gets nothing now, not even end of file: the fault waits for its answers */
    DISCARD, /* it gets nothing any more */
    STOP     /* it gets end of file */
} turn;

static turn turn_of(const conn *c)
{
    if (c->stage == ENDED)
        return STOP;
    return c->stage == READING && !pe_framing_last(&c->f) ? READ : DISCARD;
}

/* libmicrohttpd wants to read. */
static turn before(conn *c, int fd, gnutls_session_t s, uint64_t now)
{
    turn t;

    pthread_mutex_lock(&c->lock);
    c->tls = s != NULL;
    if (c->owed) { /* it has just resumed a connection, and reads before it answers */
        t = c->f.fault.reason || pe_framing_last(&c->f) ? LATER : READ;
        pthread_mutex_unlock(&c->lock);
        return t;
    }
    c->busy = false;
    resume(c, now);
    if (c->stage == READING && !c->f.fault.reason && overdue(c, now))
        expire(c, fd);
    if (c->f.fault.reason && (c->stage == READING || c->stage == ANSWERING))
        answer(c, fd, s, now);
    if (c->stage == LINGERING && now > c->until)
        c->stage = ENDED;
    t = turn_of(c);
    pthread_mutex_unlock(&c->lock);
    return t;
}

/* n bytes have been read. Returns how many of them libmicrohttpd may see. */
static size_t after(conn *c, int fd, gnutls_session_t s, uint64_t now, const void *buf, size_t n, turn *t)
{
    size_t keep = 0;

    pthread_mutex_lock(&c->lock);
    if (c->stage == READING) { /* the sweep may have been faster */
        const uint64_t had = c->f.messages, start = c->f.total;
        const bool good = pe_framing_feed(&c->f, buf, n, &lim, now);

        atomic_fetch_add_explicit(&messages, c->f.messages - had, memory_order_relaxed);
        c->owed += c->f.messages - had;
        if (c->owed && !c->paused)
            c->paused = now;
        if (good && !pe_framing_last(&c->f))
            keep = n;
        else if (c->f.boundary > start)
            keep = (size_t)(c->f.boundary - start);
        if (!good && !c->owed)
            answer(c, fd, s, now);
    }
    *t = c->owed ? LATER : turn_of(c);
    pthread_mutex_unlock(&c->lock);
    return keep;
}

static ssize_t real_read(int fd, gnutls_session_t s, void *buf, size_t n, int flags)
{
    if (s)
        return __real_gnutls_record_recv(s, buf, n);
    return __real_recv ? __real_recv(fd, buf, n, flags) : recv(fd, buf, n, flags);
}

/* Takes input off the socket, so that closing it sends no reset. A flood is left to the end of LINGERING. */
static turn discard(int fd, gnutls_session_t s)
{
    char waste[16384];

    for (int i = 0; i < 64; i++) {
        ssize_t r = real_read(fd, s, waste, sizeof waste, MSG_DONTWAIT);

        if (!r || (s && r < 0 && gnutls_error_is_fatal((int)r)))
            return STOP;
        if (r < 0)
            return s || errno == EAGAIN || errno == EINTR ? DISCARD : STOP;
    }
    return DISCARD;
}

static bool owes(conn *c)
{
    bool owed;

    pthread_mutex_lock(&c->lock);
    owed = c->owed;
    pthread_mutex_unlock(&c->lock);
    return owed;
}

static ssize_t guarded_read(conn *c, int fd, gnutls_session_t s, void *buf, size_t n, int flags)
{
    const uint64_t now = pe_guard_now(); /* the sockets do not block */
    turn t = before(c, fd, s, now);

    if (t == READ) {
        const ssize_t r = real_read(fd, s, buf, n, flags);
        size_t keep;

        if (r < 0 || (!r && !owes(c)))
            return r;
        if (!r)
            t = LATER; /* a client that has closed its half still gets its answers */
        else if ((keep = after(c, fd, s, now, buf, (size_t)r, &t)))
            return (ssize_t)keep;
    }
    if (t != STOP && discard(fd, s) == STOP && t != LATER)
        t = STOP;
    if (t == STOP)
        return 0;
    if (s)
        return GNUTLS_E_AGAIN;
    errno = EAGAIN;
    return -1;
}

ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
    conn *c = find(fd);

    if (!c || !n || flags & MSG_PEEK)
        return real_read(fd, NULL, buf, n, flags);
    return guarded_read(c, fd, NULL, buf, n, flags);
}

ssize_t __wrap_gnutls_record_recv(gnutls_session_t s, void *buf, size_t n)
{
    int in = -1, out = -1;
    conn *c;

    gnutls_transport_get_int2(s, &in, &out);
    if (!(c = find(in)) || !n)
        return __real_gnutls_record_recv(s, buf, n);
    return guarded_read(c, in, s, buf, n, 0);
}
