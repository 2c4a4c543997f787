/* encode.c - Encode and EncodeStream: from the message to the result's bytes, which are not copied.
 *
 * The path, and in brackets who runs it:
 *     pe_encode_begin [poller]            a large message goes to the pool
 *     parse           [poller, pool]      message -> request -> resolve -> selection -> pe_service_begin
 *     answer          [the same thread; or the one that computed, or the timer, by way of done]
 *     next_chunk      [poller]            EncodeStream: one message at a time, so a slow reader costs one chunk
 *
 * Where threads meet:
 * - One status. It is owed by whom begin answers, or by done, or by whom pe_service_cancel answers true: the service lets
 *   exactly one of them happen.
 * - One request to hear of the client's going. A call that waits makes it after begin; but done may have replied by then.
 *   Whoever sets close_asked first makes it: the waiting call as a batch of its own (pe_encode_cancelled follows), the reply
 *   in passing, which then completes when the stream is closed. A hit pays for one batch.
 * - pe_encode_cancelled runs only after begin, as its batch is started there; it may find the call answered (false).
 * - Life. begin runs under the reference of its thread, done takes one, batches have their own: the call is there as long
 *   as any of them looks at it. The door does not stop before the last call has gone (pe_grpc_stop). */
#include "grpc/call.h"
#include "grpc/reflect.h"

#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 65536, /* bytes of a message that is not parsed on a poller */
    SMALL = 4096,  /* bytes of a tensor that is copied beside its header rather than borrowed */
    MAX_SLICES = 2 * PE_MAX_OUTPUTS + 1,
    TENSORS_TAG = 7 << 3 | 2,      /* EncodeResponse.tensors */
    DATA_TAG = 4 << 3 | 2,         /* Tensor.data */
    CHUNK_OFFSET_TAG = 3 << 3 | 0, /* EncodeChunk.offset */
    CHUNK_DATA_TAG = 4 << 3 | 2,   /* EncodeChunk.data */
};

/* ---- parts of an answer ---- */

/* The selected tensors of a result. The selection has been checked against the same shapes. */
static void choose(const posenc_result *r, const posenc_selection *sel, pe_parts *out)
{
    out->n = 0;
    out->total = 0;
    for (int i = 0; i < r->ntensors; i++) {
        if (sel->tensors && !(sel->tensors >> i & 1))
            continue;
        posenc_tensor *t = &out->tensor[out->n];
        *t = r->tensor[i];
        if (sel->rows) {
            uint64_t row = t->shape[0] ? posenc_tensor_size(t) / (uint64_t)t->shape[0] : 0;
            t->shape[0] = sel->row_end - sel->row_begin;
            if (t->data)
                t->data = (char *)t->data + (uint64_t)sel->row_begin * row;
        }
        out->size[out->n] = posenc_tensor_size(t);
        out->total += out->size[out->n++];
    }
}

static void tensor_header(posenc_tensor *t, Posenc__V1__Tensor *out)
{
    posenc__v1__tensor__init(out);
    out->name = WRITABLE(t->name);
    out->has_dtype = true;
    out->dtype = (Posenc__V1__DType)t->dtype;
    out->n_shape = (size_t)t->rank;
    out->shape = t->shape;
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7)
        n++;
    return n;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static grpc_slice borrow(pe_entry *e, const void *data, uint64_t size)
{
    pe_entry_ref(e);
    return grpc_slice_new_with_user_data((void *)(uintptr_t)data, (size_t)size, pe_entry_unref, e);
}

static grpc_byte_buffer *join(grpc_slice *slice, size_t n)
{
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(slice, n);
    for (size_t i = 0; i < n; i++)
        grpc_slice_unref(slice[i]);
    return b;
}

/* All but the tensors. */
static void fill_head(Posenc__V1__EncodeResponse *m, pe_entry *e, char *warnings[PE_MAX_WARNINGS])
{
    m->encoding = WRITABLE(e->encoding->name);
    m->has_revision = true;
    m->revision = e->encoding->revision;
    m->digest = e->digest;
    m->params_json = WRITABLE(e->params_json);
    m->warnings = warnings;
    for (int i = 0; i < e->result.nwarnings; i++)
        warnings[m->n_warnings++] = e->result.warning[i];
}

/* The answer of Encode: what protobuf-c packs, and each tensor's header, in one block of our own; data between, borrowed
 * from the entry:   [response ... tensors-tag length tensor-header data-tag length] [data] [tensors-tag ...] [data] */
static grpc_byte_buffer *compose(pe_entry *e, pe_parts *parts)
{
    Posenc__V1__EncodeResponse m = POSENC__V1__ENCODE_RESPONSE__INIT;
    Posenc__V1__Tensor header[PE_MAX_OUTPUTS];
    char *warnings[PE_MAX_WARNINGS];
    uint64_t nested[PE_MAX_OUTPUTS];
    fill_head(&m, e, warnings);
    size_t own = protobuf_c_message_get_packed_size(&m.base);
    for (int i = 0; i < parts->n; i++) {
        tensor_header(&parts->tensor[i], &header[i]);
        size_t h = protobuf_c_message_get_packed_size(&header[i].base) + 1 + varint_size(parts->size[i]);
        nested[i] = h + parts->size[i];
        own += 1 + varint_size(nested[i]) + h + (parts->size[i] <= SMALL ? (size_t)parts->size[i] : 0);
    }
    grpc_slice block = grpc_slice_malloc(own), slice[MAX_SLICES];
    uint8_t *start = GRPC_SLICE_START_PTR(block), *p = start, *cut = start;
    size_t n = 0;
    p += protobuf_c_message_pack(&m.base, p);
    for (int i = 0; i < parts->n; i++) {
        *p++ = TENSORS_TAG;
        p = put_varint(p, nested[i]);
        p += protobuf_c_message_pack(&header[i].base, p);
        *p++ = DATA_TAG;
        p = put_varint(p, parts->size[i]);
        if (parts->size[i] > SMALL) {
            slice[n++] = grpc_slice_sub(block, (size_t)(cut - start), (size_t)(p - start));
            slice[n++] = borrow(e, parts->tensor[i].data, parts->size[i]);
            cut = p;
        } else if (parts->size[i]) {
            memcpy(p, parts->tensor[i].data, (size_t)parts->size[i]);
            p += parts->size[i];
        }
    }
    if (p > cut)
        slice[n++] = grpc_slice_sub(block, (size_t)(cut - start), (size_t)(p - start));
    grpc_slice_unref(block);
    return join(slice, n);
}

static grpc_byte_buffer *compose_header(pe_entry *e, pe_parts *parts)
{
    Posenc__V1__EncodeChunk chunk = POSENC__V1__ENCODE_CHUNK__INIT;
    Posenc__V1__EncodeResponse m = POSENC__V1__ENCODE_RESPONSE__INIT;
    Posenc__V1__Tensor header[PE_MAX_OUTPUTS], *list[PE_MAX_OUTPUTS];
    char *warnings[PE_MAX_WARNINGS];
    fill_head(&m, e, warnings);
    for (int i = 0; i < parts->n; i++) {
        tensor_header(&parts->tensor[i], &header[i]);
        list[m.n_tensors++] = &header[i];
    }
    m.tensors = list;
    chunk.header = &m;
    chunk.has_total_size = true;
    chunk.total_size = parts->total;
    return pe_rpc_pack(&chunk.base);
}

/* Bytes offset .. offset + size - 1 of the tensors laid one after the other. */
static grpc_byte_buffer *compose_chunk(pe_entry *e, const pe_parts *parts, uint64_t offset, uint64_t size)
{
    grpc_slice slice[MAX_SLICES];
    uint8_t head[32], *p = head;
    size_t n = 1;
    *p++ = CHUNK_OFFSET_TAG;
    p = put_varint(p, offset);
    *p++ = CHUNK_DATA_TAG;
    p = put_varint(p, size);
    slice[0] = grpc_slice_from_copied_buffer((const char *)head, (size_t)(p - head));
    uint64_t start = 0; /* of tensor i */
    for (int i = 0; i < parts->n && size; start += parts->size[i++]) {
        if (offset >= start + parts->size[i])
            continue;
        uint64_t in = offset - start, take = parts->size[i] - in < size ? parts->size[i] - in : size;
        slice[n++] = borrow(e, (const char *)parts->tensor[i].data + in, take);
        offset += take;
        size -= take;
    }
    return join(slice, n);
}

/* ---- Encode, EncodeStream ---- */

static void fail(pe_rpc *c, const posenc_error *err) { pe_rpc_reply(c, NULL, err, 0); }
static bool is_stream(const pe_rpc *c) { return c->method == PE_ENCODE_STREAM; }

static void next_chunk(pe_rpc *c, bool ok)
{
    uint64_t left = c->parts.total - c->offset, size = (uint64_t)c->g->config->stream_chunk;
    posenc_error err = { 0 };
    if (!ok) { /* the client is gone */
        posenc_fail(&err, PE_CANCELLED, "CANCELLED", "request", "", "a client that reads");
        fail(c, &err);
    } else if (!left) {
        pe_rpc_reply(c, NULL, NULL, 0);
    } else {
        size = size < left ? size : left;
        uint64_t at = c->offset;
        c->offset += size;
        pe_rpc_send(c, compose_chunk(c->wait.entry, &c->parts, at, size), next_chunk);
    }
}

static void over_unary(const pe_rpc *c, uint64_t size, posenc_error *err)
{
    if (size > (uint64_t)c->g->config->max_grpc_unary)
        posenc_fail(
            err, PE_LIMIT, "LIMIT_EXCEEDED", "answer", posenc_text("%llu bytes", (unsigned long long)size).s,
            "at most %lld bytes from Encode (setting max_grpc_unary): ask EncodeStream, or for fewer `tensors` or rows",
            (long long)c->g->config->max_grpc_unary);
}

/* The result is there, or an error: says it. */
static void answer(pe_rpc *c)
{
    posenc_error err = { 0 };
    pe_entry *e = c->wait.entry;
    pe_request_unref(c->q); /* a slow reader keeps the result, not the request */
    c->q = NULL;
    if (!e) {
        fail(c, &c->wait.error);
        return;
    }
    choose(&e->result, &c->selection, &c->parts);
    if (is_stream(c)) {
        pe_rpc_expect(c, c->parts.total);
        pe_rpc_watch(c);
        pe_rpc_send(c, compose_header(e, &c->parts), next_chunk);
        return;
    }
    grpc_byte_buffer *b = compose(e, &c->parts);
    over_unary(c, grpc_byte_buffer_length(b), &err);
    if (err.n) {
        grpc_byte_buffer_destroy(b);
        fail(c, &err);
    } else {
        pe_rpc_reply(c, b, NULL, 0);
    }
}

static void on_done(pe_call *w)
{
    pe_rpc *c = (pe_rpc *)w;
    pe_rpc_ref(c); /* the reply may be out, and the call over, before `answer` returns */
    answer(c);
    pe_rpc_unref(c);
}

void pe_encode_cancelled(pe_rpc *c)
{
    posenc_error err = { 0 };
    if (!pe_service_cancel(c->g->s, &c->wait))
        return; /* answered, or about to be */
    int64_t deadline = c->wait.deadline_ns;
    bool late = deadline && pe_now_ns() >= deadline;
    posenc_fail(&err, late ? PE_DEADLINE : PE_CANCELLED, late ? "DEADLINE_EXCEEDED" : "CANCELLED", "request", "",
                late ? "a later deadline" : "a client that waits");
    fail(c, &err);
}

static void explain(pe_rpc *c)
{
    posenc_error err = { 0 };
    const posenc_request *r = &c->q->r;
    char *text = pe_service_explain(c->g->s, c->q);
    if (!text) {
        posenc_fail(&err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
        fail(c, &err);
        return;
    }
    Posenc__V1__EncodeResponse m = POSENC__V1__ENCODE_RESPONSE__INIT;
    m.encoding = WRITABLE(r->encoding->name);
    m.has_revision = true;
    m.revision = r->encoding->revision;
    m.digest = WRITABLE(r->digest);
    m.params_json = WRITABLE(r->params_json);
    m.explanation = text;
    Posenc__V1__EncodeChunk chunk = POSENC__V1__ENCODE_CHUNK__INIT;
    chunk.header = &m;
    grpc_byte_buffer *b = pe_rpc_pack(is_stream(c) ? &chunk.base : &m.base);
    free(text);
    pe_rpc_reply(c, b, NULL, 0);
}

/* The message as a resolved request in c->q, with its selection. */
static const Posenc__V1__EncodeRequest *read_request(pe_rpc *c, posenc_error *err)
{
    grpc_slice hold;
    size_t size;
    const void *bytes = pe_rpc_bytes(c->request, &hold, &size);
    Posenc__V1__EncodeRequest *m = NULL;
    c->q = bytes ? pe_request_new(c->g->s) : NULL;
    if (!c->q)
        posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    else
        m = (Posenc__V1__EncodeRequest *)pe_reflect_unpack(&posenc__v1__encode_request__descriptor, bytes, size, c->q->arena,
                                                           err);
    grpc_slice_unref(hold);
    if (c->request)
        grpc_byte_buffer_destroy(c->request); /* all of it has been copied */
    c->request = NULL;
    if (!m)
        return NULL;
    pe_reflect_request(m, &c->q->r, pe_request_watch(c->q, pe_rpc_deadline_ns(c)), c->q->arena, err);
    if (!c->q->r.params || pe_service_resolve(c->g->s, c->q, err)) /* without parameters nothing was started */
        return NULL;
    memcpy(c->digest, c->q->r.digest, sizeof c->digest);
    return pe_reflect_selection(m, &c->q->r, &c->selection, err) ? NULL : m;
}

static void parse(pe_rpc *c)
{
    posenc_error err = { 0 };
    const Posenc__V1__EncodeRequest *m = read_request(c, &err);
    if (m && !is_stream(c) && !m->explain) {
        choose(&c->q->r.shape, &c->selection, &c->parts);
        over_unary(c, c->parts.total, &err); /* before computing; the headers count in `answer` */
    }
    if (err.n) {
        fail(c, &err);
    } else if (m->explain) {
        explain(c);
    } else {
        c->wait.request = c->q;
        c->wait.done = on_done;
        c->wait.deadline_ns = pe_rpc_deadline_ns(c);
        if (pe_service_begin(c->g->s, &c->wait))
            answer(c);
        else
            pe_rpc_watch(c);
    }
}

void pe_encode_begin(pe_rpc *c) { pe_rpc_read(c, LARGE, parse); }
