/* reflection.c - grpc.reflection v1 and v1alpha: the contract, told by the server itself.
 *
 * The two versions have the same messages on the wire; one reader serves both. The descriptors are those of all files in
 * proto/ with what they import, made at build time and linked in as bytes. */
#include "grpc/call.h"

#include "google/protobuf/descriptor.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char pe_descriptors[];
extern const size_t pe_descriptors_size;

typedef Google__Protobuf__FileDescriptorProto file;
typedef Google__Protobuf__DescriptorProto message;
typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;

#define ASKED(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWER(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

enum {
    MAX_FILES = 64, /* bits of a set of files */
    MAX_REQUEST = 16384,
};

struct pe_reflection {
    Google__Protobuf__FileDescriptorSet *set;
    ProtobufCBinaryData bytes[MAX_FILES]; /* each file, serialized */
    uint64_t imports[MAX_FILES];          /* each file's imports, and theirs */
};

/* ---- files ---- */

static int find_file(const pe_reflection *r, const char *name)
{
    for (size_t i = 0; i < r->set->n_file; i++)
        if (!strcmp(r->set->file[i]->name, name))
            return (int)i;
    return -1;
}

/* protoc lists a file after what it imports. */
static void find_imports(pe_reflection *r, size_t i)
{
    const file *f = r->set->file[i];
    for (size_t k = 0; k < f->n_dependency; k++) {
        int at = find_file(r, f->dependency[k]);
        if (at >= 0 && (size_t)at < i)
            r->imports[i] |= 1ULL << at | r->imports[at];
    }
}

pe_reflection *pe_reflection_new(void)
{
    pe_reflection *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->set = google__protobuf__file_descriptor_set__unpack(NULL, pe_descriptors_size, pe_descriptors);
    if (!r->set || r->set->n_file > MAX_FILES) {
        pe_reflection_free(r);
        return NULL;
    }
    for (size_t i = 0; i < r->set->n_file; i++) {
        find_imports(r, i);
        r->bytes[i].len = google__protobuf__file_descriptor_proto__get_packed_size(r->set->file[i]);
        r->bytes[i].data = malloc(r->bytes[i].len);
        if (!r->bytes[i].data) {
            pe_reflection_free(r);
            return NULL;
        }
        google__protobuf__file_descriptor_proto__pack(r->set->file[i], r->bytes[i].data);
    }
    return r;
}

void pe_reflection_free(pe_reflection *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < MAX_FILES; i++)
        free(r->bytes[i].data);
    if (r->set)
        google__protobuf__file_descriptor_set__free_unpacked(r->set, NULL);
    free(r);
}

/* ---- symbols ---- */

/* What of "scope.rest" is left after "scope"; "" when nothing is, NULL when it begins otherwise. */
static const char *within(const char *symbol, const char *scope)
{
    size_t n = scope ? strlen(scope) : 0;
    if (!n)
        return symbol;
    if (strncmp(symbol, scope, n) || (symbol[n] && symbol[n] != '.'))
        return NULL;
    return symbol + n + (symbol[n] == '.');
}

static bool in_enum(const Google__Protobuf__EnumDescriptorProto *e, const char *symbol)
{
    bool found = !strcmp(e->name, symbol);
    for (size_t i = 0; i < e->n_value; i++) /* values belong to the scope around the enum */
        found |= !strcmp(e->value[i]->name, symbol);
    return found;
}

static bool in_message(const message *outer, const char *whole)
{
    const message *m = outer;
    const char *symbol = whole;
    for (;;) { /* one level of nesting a round */
        if (!(symbol = within(symbol, m->name)))
            return false;
        if (!*symbol)
            return true;
        for (size_t i = 0; i < m->n_field; i++)
            if (!strcmp(m->field[i]->name, symbol))
                return true;
        for (size_t i = 0; i < m->n_enum_type; i++)
            if (in_enum(m->enum_type[i], symbol))
                return true;
        const message *inner = NULL;
        for (size_t i = 0; i < m->n_nested_type && !inner; i++)
            inner = within(symbol, m->nested_type[i]->name) ? m->nested_type[i] : NULL;
        if (!inner)
            return false;
        m = inner;
    }
}

static bool in_service(const Google__Protobuf__ServiceDescriptorProto *s, const char *whole)
{
    const char *symbol = within(whole, s->name);
    bool found = symbol && !*symbol;
    for (size_t i = 0; symbol && i < s->n_method; i++)
        found |= !strcmp(s->method[i]->name, symbol);
    return found;
}

static int find_symbol(const pe_reflection *r, const char *symbol)
{
    for (size_t i = 0; i < r->set->n_file; i++) {
        const file *f = r->set->file[i];
        const char *rest = within(symbol, f->package);
        bool found = false;
        for (size_t k = 0; rest && k < f->n_message_type; k++)
            found |= in_message(f->message_type[k], rest);
        for (size_t k = 0; rest && k < f->n_enum_type; k++)
            found |= in_enum(f->enum_type[k], rest);
        for (size_t k = 0; rest && k < f->n_service; k++)
            found |= in_service(f->service[k], rest);
        if (found)
            return (int)i;
    }
    return -1;
}

/* ---- answers ---- */

/* What an answer points to while it is packed. */
typedef struct parts {
    Grpc__Reflection__V1__FileDescriptorResponse files;
    Grpc__Reflection__V1__ExtensionNumberResponse extensions;
    Grpc__Reflection__V1__ListServiceResponse list;
    Grpc__Reflection__V1__ErrorResponse error;
    Grpc__Reflection__V1__ServiceResponse service[PE_NMETHODS], *services[PE_NMETHODS];
    ProtobufCBinaryData bytes[MAX_FILES];
} parts;

static void say_error(response *m, parts *p, int code, const char *text)
{
    grpc__reflection__v1__error_response__init(&p->error);
    p->error.error_code = code;
    p->error.error_message = WRITABLE(text);
    m->message_response_case = ANSWER(ERROR_RESPONSE);
    m->error_response = &p->error;
}

/* The file, and those of its imports that this stream has not had. */
static void say_file(pe_rpc *c, response *m, parts *p, int at)
{
    const pe_reflection *r = c->g->reflection;
    if (at < 0) {
        say_error(m, p, GRPC_STATUS_NOT_FOUND, "no such file or symbol");
        return;
    }
    grpc__reflection__v1__file_descriptor_response__init(&p->files);
    p->files.file_descriptor_proto = p->bytes;
    p->bytes[p->files.n_file_descriptor_proto++] = r->bytes[at];
    for (size_t i = 0; i < r->set->n_file; i++)
        if ((r->imports[at] & ~c->files) >> i & 1)
            p->bytes[p->files.n_file_descriptor_proto++] = r->bytes[i];
    c->files |= r->imports[at] | 1ULL << at;
    m->message_response_case = ANSWER(FILE_DESCRIPTOR_RESPONSE);
    m->file_descriptor_response = &p->files;
}

static void say_services(response *m, parts *p)
{
    grpc__reflection__v1__list_service_response__init(&p->list);
    p->list.service = p->services;
    for (int i = 0; i < PE_UNKNOWN_METHOD; i++) {
        bool first = true;
        for (int k = 0; k < i; k++)
            first &= strcmp(pe_methods[i].service, pe_methods[k].service) != 0;
        if (!first)
            continue;
        Grpc__Reflection__V1__ServiceResponse *s = &p->service[p->list.n_service];
        grpc__reflection__v1__service_response__init(s);
        s->name = WRITABLE(pe_methods[i].service);
        p->services[p->list.n_service++] = s;
    }
    m->message_response_case = ANSWER(LIST_SERVICES_RESPONSE);
    m->list_services_response = &p->list;
}

static void say_extensions(const pe_reflection *r, response *m, parts *p, const char *type)
{
    if (find_symbol(r, type) < 0) {
        say_error(m, p, GRPC_STATUS_NOT_FOUND, "no such type");
        return;
    }
    grpc__reflection__v1__extension_number_response__init(&p->extensions); /* the contract has none */
    p->extensions.base_type_name = WRITABLE(type);
    m->message_response_case = ANSWER(ALL_EXTENSION_NUMBERS_RESPONSE);
    m->all_extension_numbers_response = &p->extensions;
}

static grpc_byte_buffer *answer(pe_rpc *c, request *q)
{
    const pe_reflection *r = c->g->reflection;
    response m;
    parts p;
    grpc__reflection__v1__server_reflection_response__init(&m);
    m.valid_host = q ? q->host : WRITABLE("");
    m.original_request = q;
    switch (q ? (int)q->message_request_case : -1) {
    case ASKED(FILE_BY_FILENAME): say_file(c, &m, &p, find_file(r, q->file_by_filename)); break;
    case ASKED(FILE_CONTAINING_SYMBOL): say_file(c, &m, &p, find_symbol(r, q->file_containing_symbol)); break;
    case ASKED(FILE_CONTAINING_EXTENSION): say_error(&m, &p, GRPC_STATUS_NOT_FOUND, "there are no extensions"); break;
    case ASKED(ALL_EXTENSION_NUMBERS_OF_TYPE): say_extensions(r, &m, &p, q->all_extension_numbers_of_type); break;
    case ASKED(LIST_SERVICES): say_services(&m, &p); break;
    default: say_error(&m, &p, GRPC_STATUS_INVALID_ARGUMENT, "not a question that this server knows"); break;
    }
    return pe_rpc_pack(&m.base);
}

/* ---- the stream: question, answer, question ... ---- */

static void got(pe_rpc *c, bool ok);

static void ask(pe_rpc *c)
{
    pthread_mutex_lock(&c->g->lock);
    bool on = !c->end;
    pthread_mutex_unlock(&c->g->lock);
    if (on)
        pe_rpc_receive(c, got);
}

static void sent(pe_rpc *c, bool ok)
{
    pe_rpc_sent(c, ok);
    if (ok)
        ask(c);
}

static void got(pe_rpc *c, bool ok)
{
    if (!ok || !c->message) { /* the client has no more questions, or is gone */
        pe_rpc_end(c, NULL);
        return;
    }
    grpc_slice hold;
    size_t size;
    const void *bytes = pe_rpc_bytes(c->message, &hold, &size);
    request *q = bytes && size <= MAX_REQUEST ? grpc__reflection__v1__server_reflection_request__unpack(NULL, size, bytes)
                                              : NULL;
    grpc_slice_unref(hold);
    grpc_byte_buffer_destroy(c->message);
    c->message = NULL;
    grpc_byte_buffer *b = answer(c, q);
    if (q)
        grpc__reflection__v1__server_reflection_request__free_unpacked(q, NULL);
    pthread_mutex_lock(&c->g->lock);
    bool send = pe_rpc_begin_send(c);
    pthread_mutex_unlock(&c->g->lock);
    if (send)
        pe_rpc_send(c, b, sent);
    else
        grpc_byte_buffer_destroy(b);
}

void pe_reflection_begin(pe_rpc *c)
{
    pthread_mutex_lock(&c->g->lock);
    bool quiet = c->g->quiet;
    pthread_mutex_unlock(&c->g->lock);
    pe_rpc_watch(c);
    if (quiet)
        pe_rpc_end(c, NULL);
    ask(c);
}
