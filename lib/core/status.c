/* status.c - names of statuses; faults. */
#include "posenc.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *meaning;
    int http, grpc, retry;
} info[] = {
#define X(name, http, grpc, retry, meaning) { #name, meaning, http, grpc, retry },
    POSENC_STATUSES(X)
#undef X
};

/* gRPC's own names, by code. */
static const char *const codes[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"
};

const char *posenc_status_name(posenc_status s) { return info[s].name; }
const char *posenc_status_meaning(posenc_status s) { return info[s].meaning; }
int posenc_status_http(posenc_status s) { return info[s].http; }
int posenc_status_grpc(posenc_status s) { return info[s].grpc; }
const char *posenc_status_code(posenc_status s) { return codes[info[s].grpc]; }
bool posenc_status_retry(posenc_status s) { return info[s].retry != 0; }

/* Copies s, shortened with "..." where it does not fit, control characters as '?': a fault may quote hostile bytes. */
static void quote(char *dst, size_t size, const char *s)
{
    size_t i = 0;
    for (; s[i] && i + 1 < size; i++)
        dst[i] = (unsigned char)s[i] < 0x20 || s[i] == 0x7f ? '?' : s[i];
    if (s[i]) {
        size_t end = size - 4;
        while (end > 0 && ((unsigned char)dst[end] & 0xc0) == 0x80) /* not inside a UTF-8 character */
            end--;
        memcpy(dst + end, "...", 4);
    } else {
        dst[i] = 0;
    }
}

posenc_status posenc_fail(posenc_error *err, posenc_status status, const char *reason, const char *field, const char *value,
                          const char *allowed, ...)
{
    if (!err)
        return status;
    if (status > err->status)
        err->status = status;
    if (err->n == PE_MAX_FAULTS) {
        err->dropped++;
        return status;
    }
    posenc_fault *f = &err->fault[err->n++];
    quote(f->field, sizeof f->field, field);
    quote(f->value, sizeof f->value, value ? value : "");
    snprintf(f->reason, sizeof f->reason, "%s", reason);
    char text[512];
    va_list ap;
    va_start(ap, allowed);
    vsnprintf(text, sizeof text, allowed, ap);
    va_end(ap);
    quote(f->allowed, sizeof f->allowed, text);
    return status;
}

const char *posenc_error_text(const posenc_error *err, char *buf, size_t size)
{
    size_t used = 0;
    if (!size)
        return "";
    buf[0] = 0;
    if (!err->n)
        snprintf(buf, size, "%s", posenc_status_meaning(err->status));
    for (unsigned i = 0; i < err->n && used < size; i++) {
        const posenc_fault *f = &err->fault[i];
        int n = snprintf(buf + used, size - used, "%s%s: %s%s%s%s", i ? "; " : "", f->field, f->value[0] ? "got " : "",
                         f->value, f->value[0] ? ", allowed: " : "", f->allowed);
        used += n > 0 ? (size_t)n : 0;
    }
    if (err->dropped && used < size)
        snprintf(buf + used, size - used, "; and %u more", err->dropped);
    return buf;
}

posenc_short posenc_text(const char *format, ...)
{
    posenc_short t;
    char full[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(full, sizeof full, format, ap);
    va_end(ap);
    quote(t.s, sizeof t.s, full);
    return t;
}
