/* analyze.c - Analyze, Identify, Compare: reports about an encoding's table, or about one that is given.
 *
 * The path is that of Encode (encode.c, whose cancelling it shares): parse, pe_service_begin, and the answer on the thread
 * that computed. What a hit has not been asked for before, a picture, is drawn on the pool. */
#include "grpc/call.h"
#include "grpc/reflect.h"

#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 65536 }; /* bytes of a message that is not parsed on a poller */

static void fail(pe_rpc *c, const posenc_error *err) { pe_rpc_reply(c, NULL, err, 0); }

/* ---- the answer ---- */

/* A container in one piece, malloc'ed; a NUL follows. NULL: see err. */
static char *whole(pe_entry *e, posenc_format f, size_t *size, posenc_error *err)
{
    static const posenc_selection all;
    const pe_representation *made;
    pe_representation *own = NULL;
    if (pe_entry_write(e, f, &all, &made, &own, err))
        return NULL;
    char *s = malloc((size_t)made->document.size + 1), *p = s;
    for (size_t i = 0; s && i < made->document.npieces; i++) {
        memcpy(p, made->document.piece[i].data, (size_t)made->document.piece[i].size);
        p += made->document.piece[i].size;
    }
    if (s)
        *p = 0;
    else
        posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    *size = (size_t)made->document.size;
    pe_representation_free(own);
    return s;
}

/* Packed, unless it is over the limit; then NULL, and err says so. */
static grpc_byte_buffer *pack(const pe_rpc *c, const ProtobufCMessage *m, posenc_error *err)
{
    const size_t size = protobuf_c_message_get_packed_size(m);
    if (size <= (size_t)c->g->config->max_grpc_unary)
        return pe_rpc_pack(m);
    posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "answer", posenc_text("%zu bytes", size).s,
                "at most %lld bytes (setting max_grpc_unary): less of `what`, or no picture",
                (long long)c->g->config->max_grpc_unary);
    return NULL;
}

static grpc_byte_buffer *pack_identified(const pe_rpc *c, const pe_entry *e, char *json, posenc_error *err)
{
    Posenc__V1__IdentifyResponse m = POSENC__V1__IDENTIFY_RESPONSE__INIT;
    m.digest = WRITABLE(e->digest);
    m.params_json = WRITABLE(e->params_json);
    m.answer_json = json;
    return pack(c, &m.base, err);
}

static grpc_byte_buffer *pack_compared(const pe_rpc *c, const pe_entry *e, char *json, posenc_error *err)
{
    Posenc__V1__CompareResponse m = POSENC__V1__COMPARE_RESPONSE__INIT;
    m.digest = WRITABLE(e->digest);
    m.params_json = WRITABLE(e->params_json);
    m.answer_json = json;
    return pack(c, &m.base, err);
}

static grpc_byte_buffer *pack_analyzed(const pe_rpc *c, pe_entry *e, char *json, char *picture, size_t picture_size,
                                       posenc_error *err)
{
    Posenc__V1__AnalyzeResponse m = POSENC__V1__ANALYZE_RESPONSE__INIT;
    char *warnings[PE_MAX_WARNINGS];
    m.digest = e->digest;
    m.params_json = WRITABLE(e->params_json);
    m.warnings = warnings;
    for (int i = 0; i < e->result.nwarnings; i++)
        warnings[m.n_warnings++] = e->result.warning[i];
    m.analysis_json = json;
    m.has_picture = picture != NULL;
    m.picture = (ProtobufCBinaryData){ picture_size, (uint8_t *)picture };
    return pack(c, &m.base, err);
}

static void answer(pe_rpc *c)
{
    posenc_error err = { 0 };
    pe_entry *e = c->wait.entry;
    char *json = NULL, *picture = NULL;
    size_t json_size, picture_size = 0;
    grpc_byte_buffer *b = NULL;
    pe_request_unref(c->q); /* a slow reader keeps the result, not the request */
    c->q = NULL;
    if (!e) {
        fail(c, &c->wait.error);
        return;
    }
    json = whole(e, PE_json, &json_size, &err);
    if (json && c->picture)
        picture = whole(e, c->wait.format, &picture_size, &err);
    if (!err.n)
        b = c->method == PE_IDENTIFY  ? pack_identified(c, e, json, &err)
            : c->method == PE_COMPARE ? pack_compared(c, e, json, &err)
                                      : pack_analyzed(c, e, json, picture, picture_size, &err);
    free(json);
    free(picture);
    pe_rpc_reply(c, b, err.n ? &err : NULL, 0);
}

static void on_done(pe_call *w)
{
    pe_rpc *c = (pe_rpc *)w;
    pe_rpc_ref(c); /* the reply may be out, and the call over, before `answer` returns */
    answer(c);
    pe_rpc_unref(c);
}

/* Here, or where drawing keeps nobody waiting. */
static void answer_hit(pe_rpc *c)
{
    if (c->picture && c->wait.entry)
        pe_rpc_run(c, answer);
    else
        answer(c);
}

/* ---- the request ---- */

/* A choice among the outputs of an encoding means nothing here. */
static void refuse_selection(const Posenc__V1__EncodeRequest *of, posenc_error *err)
{
    const char *name = of->n_tensors                            ? "of.tensors"
                       : of->has_rows_begin || of->has_rows_end ? "of.rows_begin"
                       : of->has_explain                        ? "of.explain"
                                                                : NULL;
    if (name)
        posenc_fail(err, PE_INVALID, "NOT_APPLICABLE", name, "given",
                    "nothing: the parameter tensor of the report chooses the table");
}

/* Starts the report, about an encoding where `of` is given, and fills it in. `own`: its parameters; NULL: none. */
static void read_report(const char *report, const ProtobufCMessage *m, const ProtobufCMessage *own,
                        const Posenc__V1__EncodeRequest *of, const pe_rpc *c, posenc_error *err)
{
    pe_request *q = c->q;
    static const posenc_table none;
    const char *encoding = of ? pe_reflect_chosen(of, err) : NULL;
    pe_reflect_set(m, &none, NULL, q->arena, err); /* fields of a later version */
    if ((of && !encoding) || posenc_report_init(&q->r, report, encoding, q->arena, err))
        return;
    q->r.ctx = pe_request_watch(q, pe_rpc_deadline_ns(c));
    if (of) {
        q->r.of->ctx = q->r.ctx;
        refuse_selection(of, err);
        pe_reflect_fill(of, q->r.of, q->arena, err);
    }
    if (own)
        pe_reflect_set(own, &q->r.encoding->table, q->r.params, q->arena, err);
}

/* The message of the method into the request; the picture that is wanted. */
static posenc_format read_message(const pe_rpc *c, const void *bytes, size_t size, posenc_error *err)
{
    static const posenc_format formats[] = { PE_json, PE_png, PE_svg };
    static const ProtobufCMessageDescriptor *const types[] = { [PE_ANALYZE] = &posenc__v1__analyze_request__descriptor,
                                                               [PE_IDENTIFY] = &posenc__v1__identify_request__descriptor,
                                                               [PE_COMPARE] = &posenc__v1__compare_request__descriptor };
    const ProtobufCMessage *m = pe_reflect_unpack(types[c->method], bytes, size, c->q->arena, err);
    if (!m)
        return PE_json;
    if (c->method == PE_IDENTIFY) {
        const Posenc__V1__IdentifyRequest *i = (const Posenc__V1__IdentifyRequest *)m;
        read_report("identify", m, i->identify ? &i->identify->base : NULL, NULL, c, err);
        return PE_json;
    }
    if (c->method == PE_COMPARE) {
        const Posenc__V1__CompareRequest *i = (const Posenc__V1__CompareRequest *)m;
        read_report("compare", m, i->compare ? &i->compare->base : NULL, i->of, c, err);
        return PE_json;
    }
    const Posenc__V1__AnalyzeRequest *a = (const Posenc__V1__AnalyzeRequest *)m;
    if (a->picture < POSENC__V1__ANALYZE_REQUEST__PICTURE__NONE || a->picture > POSENC__V1__ANALYZE_REQUEST__PICTURE__SVG) {
        posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "picture", posenc_text("number %d", (int)a->picture).s,
                    "NONE, PNG or SVG");
        return PE_json;
    }
    read_report("analysis", m, a->analysis ? &a->analysis->base : NULL, a->of, c, err);
    return formats[a->picture];
}

static void parse(pe_rpc *c)
{
    posenc_error err = { 0 };
    posenc_format format = PE_json;
    grpc_slice hold;
    size_t size;
    const void *bytes = pe_rpc_bytes(c->request, &hold, &size);
    c->q = bytes ? pe_request_new(c->g->s) : NULL;
    if (!c->q)
        posenc_fail(&err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    else
        format = read_message(c, bytes, size, &err);
    grpc_slice_unref(hold);
    if (c->request)
        grpc_byte_buffer_destroy(c->request); /* all of it has been copied */
    c->request = NULL;
    if (err.n || pe_service_resolve(c->g->s, c->q, &err)) {
        fail(c, &err);
        return;
    }
    memcpy(c->digest, c->q->r.digest, sizeof c->digest);
    c->picture = format != PE_json;
    c->wait.request = c->q;
    c->wait.done = on_done;
    c->wait.deadline_ns = pe_rpc_deadline_ns(c);
    c->wait.prepare = true;
    c->wait.format = format;
    if (pe_service_begin(c->g->s, &c->wait))
        answer_hit(c);
    else
        pe_rpc_watch(c);
}

void pe_analyze_begin(pe_rpc *c) { pe_rpc_read(c, LARGE, parse); }
