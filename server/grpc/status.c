/* status.c - posenc_error to google.rpc.Status: ErrorInfo always, BadRequest, RetryInfo, ResourceInfo where they fit. */
#include "grpc/status.h"

#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_SECONDS = 1 };

typedef struct detail {
    Google__Protobuf__Any any;
    uint8_t bytes[PE_STATUS_BYTES];
} detail;

/* Protobuf strings must be UTF-8 and a fault may quote any bytes: everything but printable ASCII becomes '?'. */
static void plain(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
            *s = '?';
}

static bool wrap(detail *d, const char *type, const ProtobufCMessage *m)
{
    google__protobuf__any__init(&d->any);
    d->any.type_url = (char *)(uintptr_t)type;
    if (protobuf_c_message_get_packed_size(m) > sizeof d->bytes)
        return false;
    d->any.value = (ProtobufCBinaryData){ protobuf_c_message_pack(m, d->bytes), d->bytes };
    return true;
}

static bool error_info(detail *d, const posenc_error *err)
{
    Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
    Google__Rpc__ErrorInfo__MetadataEntry entry[4], *list[4];
    char dropped[16];
    const posenc_fault *f = &err->fault[0];
    const char *pairs[4][2] = {
        { "field", f->field }, { "value", f->value }, { "allowed", f->allowed }, { "dropped", dropped }
    };
    snprintf(dropped, sizeof dropped, "%u", err->dropped);
    for (int i = 0; i < 4; i++) {
        google__rpc__error_info__metadata_entry__init(&entry[i]);
        entry[i].key = (char *)(uintptr_t)pairs[i][0];
        entry[i].value = (char *)(uintptr_t)pairs[i][1];
        list[i] = &entry[i];
    }
    info.reason = (char *)(uintptr_t)(err->n ? f->reason : posenc_status_name(err->status));
    info.domain = (char *)(uintptr_t) "posenc";
    info.metadata = list;
    info.n_metadata = !err->n ? 0 : err->dropped ? 4 : 3;
    return wrap(d, "type.googleapis.com/google.rpc.ErrorInfo", &info.base);
}

static bool bad_request(detail *d, const posenc_error *err, unsigned n)
{
    Google__Rpc__BadRequest bad = GOOGLE__RPC__BAD_REQUEST__INIT;
    Google__Rpc__BadRequest__FieldViolation v[PE_MAX_FAULTS], *list[PE_MAX_FAULTS];
    char text[PE_MAX_FAULTS][300];
    for (unsigned i = 0; i < n; i++) {
        const posenc_fault *f = &err->fault[i];
        snprintf(text[i], sizeof text[i], "%s%s%s%s (%s)", f->value[0] ? "got " : "", f->value,
                 f->value[0] ? ", allowed: " : "", f->allowed, f->reason);
        google__rpc__bad_request__field_violation__init(&v[i]);
        v[i].field = (char *)(uintptr_t)f->field;
        v[i].description = text[i];
        list[i] = &v[i];
    }
    bad.field_violations = list;
    bad.n_field_violations = n;
    return wrap(d, "type.googleapis.com/google.rpc.BadRequest", &bad.base);
}

static bool retry_info(detail *d)
{
    Google__Rpc__RetryInfo retry = GOOGLE__RPC__RETRY_INFO__INIT;
    Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
    delay.seconds = RETRY_SECONDS;
    retry.retry_delay = &delay;
    return wrap(d, "type.googleapis.com/google.rpc.RetryInfo", &retry.base);
}

static bool says_not_found(const posenc_fault *f)
{
    return strstr(f->reason, "NOT_FOUND") || strstr(f->reason, "GONE") || !strcmp(f->reason, "UNKNOWN_TENSOR");
}

/* The fault that says what does not exist: its field is the kind of thing, its value the name. */
static bool resource_info(detail *d, const posenc_error *err)
{
    Google__Rpc__ResourceInfo info = GOOGLE__RPC__RESOURCE_INFO__INIT;
    const posenc_fault *f = &err->fault[0];
    for (unsigned i = 1; i < err->n && !says_not_found(f); i++)
        f = &err->fault[i];
    info.resource_type = (char *)(uintptr_t)f->field;
    info.resource_name = (char *)(uintptr_t)f->value;
    info.owner = (char *)(uintptr_t) "";
    info.description = (char *)(uintptr_t)f->allowed;
    return wrap(d, "type.googleapis.com/google.rpc.ResourceInfo", &info.base);
}

size_t pe_status_pack(const posenc_error *given, int code, char text[PE_STATUS_TEXT], uint8_t bytes[PE_STATUS_BYTES])
{
    posenc_error clean = *given;
    for (unsigned i = 0; i < clean.n; i++) {
        plain(clean.fault[i].field);
        plain(clean.fault[i].value);
        plain(clean.fault[i].allowed);
    }
    posenc_error_text(&clean, text, PE_STATUS_TEXT);
    plain(text);
    bool invalid = clean.status == PE_INVALID || clean.status == PE_LIMIT;
    for (unsigned faults = clean.n;; faults--) { /* fewer violations until it fits */
        detail d[3];
        Google__Protobuf__Any *list[3];
        Google__Rpc__Status st = GOOGLE__RPC__STATUS__INIT;
        bool fits = error_info(&d[0], &clean);
        size_t n = 1;
        if (invalid && faults)
            fits &= bad_request(&d[n++], &clean, faults);
        else if (clean.status == PE_NOT_FOUND && faults)
            fits &= resource_info(&d[n++], &clean);
        if (posenc_status_retry(clean.status))
            fits &= retry_info(&d[n++]);
        for (size_t i = 0; i < n; i++)
            list[i] = &d[i].any;
        st.code = code;
        st.message = text;
        st.details = list;
        st.n_details = n;
        if (fits && google__rpc__status__get_packed_size(&st) <= PE_STATUS_BYTES)
            return google__rpc__status__pack(&st, bytes);
        if (!faults)
            return 0;
    }
}
