/* write.c - answers as libmicrohttpd responses.
 *
 * Tensors go from the entry's memory to the kernel: a response is a list of the container's pieces and holds one
 * reference to the entry until its last byte has left. Only what fits two packets is copied together, because
 * libmicrohttpd sends one buffer with its headers in one call, a list in two. A response is made per answer, because
 * its headers say what happened to this request; that costs a microsecond. */
#include "http/exchange.h"
#include "http/guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

static const char immutable[] = "public, max-age=31536000, immutable";
static const char fresh[] = "public, max-age=300, stale-while-revalidate=86400";

/* A response under construction. A header that found no memory makes the whole answer fail. */
typedef struct reply {
    struct MHD_Response *r; /* NULL: no memory */
    bool failed;
} reply;

static void header(reply *a, const char *name, const char *value)
{
    if (a->r && MHD_add_response_header(a->r, name, value) != MHD_YES)
        a->failed = true;
}

static reply from_buffer(const void *bytes, size_t size, enum MHD_ResponseMemoryMode mode)
{
    return (reply){ MHD_create_response_from_buffer(size, (void *)(uintptr_t)bytes, mode), false };
}

static ssize_t no_content(void *cls, uint64_t pos, char *buf, size_t max)
{
    (void)cls, (void)pos, (void)buf, (void)max;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Headers alone, of a content of `size` bytes: the way that makes libmicrohttpd 0.9.75 say the length and send none. */
static reply from_size(uint64_t size)
{
    return (reply){ MHD_create_response_from_callback(size, 1, no_content, NULL, NULL), false };
}

/* Queues and lets go of the response; false memory closes the connection. */
static enum MHD_Result finish(pe_exchange *x, reply *a, int status)
{
    if (!a->r)
        return MHD_NO;
    header(a, "X-Content-Type-Options", "nosniff");
    header(a, "X-Request-Id", x->request_id);
    if (pe_service_phase(x->service) == PE_DRAINING)
        header(a, "Connection", "close");
    enum MHD_Result ok = MHD_NO;
    if (!a->failed && pe_guard_answering(x->fd, x->sent))
        ok = MHD_queue_response(x->connection, (unsigned)status, a->r);
    MHD_destroy_response(a->r);
    if (ok == MHD_YES) {
        x->status = status;
        x->answered = true;
        pe_let_go(x);
    }
    return ok;
}

/* ---- conditions ---- */

typedef struct tag_query {
    const char *name, *tag;
    bool weak, present, listed;
} tag_query;

/* A list may come in several fields. */
static enum MHD_Result look_for_tag(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    tag_query *q = cls;
    (void)kind;
    if (value && !strcasecmp(key, q->name)) {
        q->present = true;
        q->listed |= pe_etag_listed(value, q->tag, q->weak);
    }
    return MHD_YES;
}

bool pe_not_modified(pe_exchange *x, const char *etag)
{
    tag_query q = { .name = "If-None-Match", .tag = etag, .weak = true };
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, look_for_tag, &q);
    return q.listed && x->method != PE_POST;
}

bool pe_fails_match(pe_exchange *x, const char *etag)
{
    tag_query q = { .name = "If-Match", .tag = etag, .weak = false };
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, look_for_tag, &q);
    return q.present && !q.listed && x->method != PE_POST;
}

static bool wants_gzip(pe_exchange *x) { return pe_accepts_gzip(pe_header(x, "Accept-Encoding")); }

/* ---- compression ---- */

/* Below, the answer fits a packet or two anyway; above, compressing would take a thread for too long. */
enum { GZIP_MIN = 1024, GZIP_MAX = 16 << 20, GZIP_LEVEL = 3 };

/* Deflates pieces into one buffer; NULL: no memory, or no gain. */
static unsigned char *deflate_pieces(const posenc_piece *piece, size_t n, uint64_t total, size_t *size)
{
    z_stream z = { 0 };
    unsigned char *out = malloc((size_t)total);
    if (!out || deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(out);
        return NULL;
    }
    z.next_out = out;
    z.avail_out = (uInt)total;
    int state = Z_OK;
    for (size_t i = 0; i < n && state == Z_OK; i++) {
        z.next_in = (Bytef *)(uintptr_t)piece[i].data;
        z.avail_in = (uInt)piece[i].size;
        while (z.avail_in && (state = deflate(&z, Z_NO_FLUSH)) == Z_OK && z.avail_out)
            ;
        if (z.avail_in)
            state = Z_BUF_ERROR; /* larger than before */
    }
    if (state == Z_OK)
        state = deflate(&z, Z_FINISH);
    *size = z.total_out;
    deflateEnd(&z);
    if (state == Z_STREAM_END)
        return out;
    free(out);
    return NULL;
}

bool pe_compresses(const pe_exchange *x, uint64_t size) { return x->gzip && size >= GZIP_MIN && size <= GZIP_MAX; }

void pe_compress(pe_exchange *x)
{
    const posenc_document *d = &x->made->document;
    if (pe_compresses(x, d->size) && !x->compressed)
        x->compressed = deflate_pieces(d->piece, d->npieces, d->size, &x->compressed_size);
    if (!x->compressed)
        x->gzip = false;
}

/* ---- tags and lengths ---- */

static uint64_t fnv(const char *s)
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3;
    return h;
}

static void remember_size(pe_exchange *x)
{
    pe_sizes *t = pe_http_sizes(x->http);
    size_t i = fnv(x->etag) % (sizeof t->slot / sizeof t->slot[0]);
    pthread_mutex_lock(&t->lock);
    memcpy(t->slot[i].etag, x->etag, sizeof x->etag);
    t->slot[i].size = x->compressed_size;
    pthread_mutex_unlock(&t->lock);
}

static uint64_t remembered_size(pe_exchange *x)
{
    pe_sizes *t = pe_http_sizes(x->http);
    size_t i = fnv(x->etag) % (sizeof t->slot / sizeof t->slot[0]);
    pthread_mutex_lock(&t->lock);
    uint64_t size = !strcmp(t->slot[i].etag, x->etag) ? t->slot[i].size : UINT64_MAX;
    pthread_mutex_unlock(&t->lock);
    return size;
}

/* The digest names the whole result; container and selection name the bytes. */
void pe_make_etag(pe_exchange *x, const char *digest)
{
    const posenc_selection *sel = &x->asked.selection;
    char part[64] = "", rows[64] = "";
    if (sel->tensors)
        snprintf(part, sizeof part, ".t%x", (unsigned)sel->tensors);
    if (sel->rows)
        snprintf(rows, sizeof rows, ".r%lld-%lld", (long long)sel->row_begin, (long long)sel->row_end);
    snprintf(x->etag, sizeof x->etag, "\"%s.%s%s%s%s\"", digest, posenc_format_name(x->asked.format), part, rows,
             sel->data == PE_JSON_FLAT     ? ".flat"
             : sel->data == PE_JSON_BASE64 ? ".base64"
                                           : "");
    const posenc_format f = x->asked.format;
    x->gzip = (f == PE_json || f == PE_csv || f == PE_svg) && wants_gzip(x);
}

const pe_representation *pe_made_already(pe_exchange *x)
{
    pe_entry *e = x->entry;
    const posenc_selection *sel = &x->asked.selection;
    if (!e || sel->rows)
        return NULL;
    pthread_mutex_lock(&e->lock);
    const pe_representation *r = e->representations;
    while (r && (r->format != x->asked.format || r->selection.tensors != sel->tensors || r->selection.data != sel->data ||
                 r->selection.json_limit != sel->json_limit || r->selection.csv_limit != sel->csv_limit ||
                 r->selection.plot_limit != sel->plot_limit))
        r = r->next;
    pthread_mutex_unlock(&e->lock);
    return r;
}

uint64_t pe_known_size(pe_exchange *x, const posenc_origin *origin, const posenc_result *shape)
{
    posenc_document d;
    posenc_error e = { 0 };
    const pe_representation *made = pe_made_already(x);
    uint64_t size = made ? made->document.size : UINT64_MAX;
    if (made)
        return pe_compresses(x, size) ? remembered_size(x) : size;
    /* a dry run on shapes: the length of sized formats, and for all of them the faults that data would not change */
    if (!posenc_write(x->asked.format, origin, shape, &x->asked.selection, &d, &e)) {
        size = posenc_format_sized(x->asked.format) ? d.size : UINT64_MAX;
        posenc_document_fini(&d);
    } else if (strcmp(e.fault[0].reason, "NO_DATA")) {
        x->error = e;
    }
    return size;
}

/* ---- headers of results ---- */

static void put_warnings(reply *a, const posenc_result *r)
{
    char value[sizeof r->warning[0] * 3];
    for (int i = 0; i < r->nwarnings; i++) {
        pe_header_escape(r->warning[i], value, sizeof value);
        header(a, "Posenc-Warning", value);
    }
}

/* Shape and dtype where the container does not say them. */
static void put_tensor(reply *a, const pe_asked *asked, const posenc_result *shape)
{
    char text[32 * PE_MAX_RANK] = "";
    size_t n = 0;
    if (asked->format != PE_bin && asked->format != PE_npy)
        return;
    const posenc_tensor *t = &shape->tensor[asked->selection.tensors ? __builtin_ctz(asked->selection.tensors) : 0];
    if (asked->format == PE_bin || t->dtype == PE_bfloat16)
        header(a, "Posenc-Dtype", posenc_dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++) {
        int64_t rows = asked->selection.row_end - asked->selection.row_begin;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", k ? "," : "",
                              (long long)(k == 0 && asked->selection.rows ? rows : t->shape[k]));
    }
    if (asked->format == PE_bin)
        header(a, "Posenc-Shape", text);
}

static void put_location(reply *a, pe_exchange *x, const char *digest)
{
    const pe_asked *q = &x->asked;
    char url[640], rows[64] = "";
    if (x->method != PE_POST)
        return;
    if (q->selection.rows)
        snprintf(rows, sizeof rows, "rows=%lld:%lld", (long long)q->selection.row_begin, (long long)q->selection.row_end);
    const char *data = q->selection.data == PE_JSON_FLAT     ? "data=flat"
                       : q->selection.data == PE_JSON_BASE64 ? "data=base64"
                                                             : "";
    const char *part[] = { rows, data, q->tensors };
    int n = snprintf(url, sizeof url, "/v1/results/%s%s%s.%s", digest, q->tensor[0] ? "/" : "", q->tensor, q->ext);
    bool first = true;
    for (int i = 0; i < 3; i++)
        if (*part[i]) {
            n += snprintf(url + n, sizeof url - (size_t)n, "%c%s%s", first ? '?' : '&', i == 2 ? "tensors=" : "", part[i]);
            first = false;
        }
    header(a, "Content-Location", url);
}

/* Milliseconds; by integers, as this is on the path of every hit. */
static void put_timing(reply *a, const pe_exchange *x)
{
    char text[160];
    long long q = (long long)(x->call.queue_s * 1e6), c = (long long)(x->call.compute_s * 1e6),
              e = (long long)(x->encode_s * 1e6);
    snprintf(text, sizeof text, "queue;dur=%lld.%03lld, compute;dur=%lld.%03lld, encode;dur=%lld.%03lld", q / 1000, q % 1000,
             c / 1000, c % 1000, e / 1000, e % 1000);
    header(a, "Server-Timing", text);
}

/* What 200, 206, 304 and HEAD say alike. `shape` is the result, with or without data. */
static void put_result(reply *a, pe_exchange *x, const char *digest, const posenc_result *shape)
{
    char text[sizeof x->etag + 4];
    const char *word = x->cache_word;
    bool sized = posenc_format_sized(x->asked.format);
    const char *media = posenc_format_media(x->asked.format);
    header(a, "Content-Type", x->asked.format == PE_csv ? "text/csv; charset=utf-8" : media);
    snprintf(text, sizeof text, "%s%s", x->gzip ? "W/" : "", x->etag);
    if (!shape->partial) /* another time it may be more */
        header(a, "ETag", text);
    snprintf(text, sizeof text, "%s%s", shape->partial ? "no-store" : x->asked.pinned ? immutable : fresh,
             sized ? ", no-transform" : "");
    header(a, "Cache-Control", text);
    header(a, "Vary", "Accept-Encoding");
    if (word)
        header(a, "Cache-Status",
               !strcmp(word, "hit")    ? "posenc; hit; detail=memory"
               : !strcmp(word, "miss") ? "posenc; fwd=miss"
                                       : "posenc; fwd=miss; collapsed");
    header(a, "Posenc-Digest", digest);
    put_timing(a, x);
    if (!shape->partial)
        put_location(a, x, digest);
    put_tensor(a, &x->asked, shape);
    if (sized && !shape->partial)
        header(a, "Accept-Ranges", "bytes");
    if (x->made && !x->gzip)
        header(a, "Repr-Digest", x->made->repr_digest);
    if (x->entry && x->asked.format != PE_json)
        put_warnings(a, &x->entry->result);
}

/* ---- results ---- */

/* What a response of a slice by rows holds. */
typedef struct hold {
    pe_entry *entry;
    pe_representation *own;
} hold;

static void let_go(void *arg)
{
    hold *h = arg;
    pe_representation_free(h->own);
    pe_entry_unref(h->entry);
    free(h);
}

enum { COPIED = 4096 };

static reply from_copy(const struct MHD_IoVec *v, unsigned count, size_t size)
{
    char *all = malloc(size ? size : 1);
    reply a = { 0 };
    size_t n = 0;
    for (unsigned i = 0; all && i < count; n += v[i++].iov_len)
        memcpy(all + n, v[i].iov_base, v[i].iov_len);
    if (all)
        a = from_buffer(all, size, MHD_RESPMEM_MUST_FREE);
    if (!a.r)
        free(all);
    return a;
}

/* The bytes first .. first + n - 1 of the container. */
static reply from_pieces(pe_exchange *x, uint64_t first, uint64_t n)
{
    enum { MOST = 2 * PE_MAX_OUTPUTS + 8 };
    struct MHD_IoVec v[MOST];
    const posenc_document *d = &x->made->document;
    unsigned count = 0;
    const uint64_t all = n;
    reply a = { 0 };
    for (size_t i = 0; i < d->npieces && n && count < MOST; i++) {
        uint64_t size = d->piece[i].size, skip = first < size ? first : size;
        first -= skip;
        size -= skip;
        if (size > n)
            size = n;
        if (size)
            v[count++] = (struct MHD_IoVec){ (const char *)d->piece[i].data + skip, (size_t)size };
        n -= size;
    }
    if (n)
        return a;
    if (count != 1 && all <= COPIED)
        return from_copy(v, count, (size_t)all);
    if (!x->own) {
        pe_entry_ref(x->entry);
        a.r = MHD_create_response_from_iovec(v, count, pe_entry_unref, x->entry);
        if (!a.r)
            pe_entry_unref(x->entry);
        return a;
    }
    hold *h = malloc(sizeof *h);
    if (!h)
        return a;
    *h = (hold){ x->entry, x->own };
    a.r = MHD_create_response_from_iovec(v, count, let_go, h);
    if (a.r) { /* both are the response's now */
        pe_entry_ref(x->entry);
        x->own = NULL;
    } else {
        free(h);
    }
    return a;
}

static enum MHD_Result answer_compressed(pe_exchange *x)
{
    if (!x->entry->result.partial)
        remember_size(x);
    reply a = from_buffer(x->compressed, x->compressed_size, MHD_RESPMEM_MUST_FREE);
    if (a.r)
        x->compressed = NULL;
    header(&a, "Content-Encoding", "gzip");
    put_result(&a, x, x->entry->digest, &x->entry->result);
    x->sent = x->compressed_size;
    return finish(x, &a, 200);
}

/* Range counts for GET alone, and where If-Range names these very bytes. */
static pe_range wanted_range(pe_exchange *x, uint64_t size, uint64_t *first, uint64_t *last)
{
    const char *condition = pe_header(x, "If-Range");
    if (x->method != PE_GET || !posenc_format_sized(x->asked.format))
        return PE_RANGE_IGNORED;
    if (condition && (condition[0] == '*' || !pe_etag_listed(condition, x->etag, false)))
        return PE_RANGE_IGNORED;
    return pe_range_parse(pe_header(x, "Range"), size, first, last);
}

enum MHD_Result pe_answer_result(pe_exchange *x)
{
    uint64_t size = x->made->document.size, first = 0, last = 0;
    char text[80];
    if (x->gzip && x->compressed)
        return answer_compressed(x);
    x->gzip = false;
    pe_range range = wanted_range(x, size, &first, &last);
    if (range == PE_RANGE_OUTSIDE) {
        pe_refuse(x, 416, "OUT_OF_RANGE", "RANGE_NOT_SATISFIABLE", "Range", pe_header(x, "Range"),
                  posenc_text("bytes within 0 .. %llu", (unsigned long long)(size ? size - 1 : 0)).s);
        x->sent = size; /* for Content-Range */
        return pe_answer_error(x);
    }
    bool part = range == PE_RANGE_PART;
    x->sent = part ? last - first + 1 : size;
    reply a = from_pieces(x, first, x->sent);
    put_result(&a, x, x->entry->digest, &x->entry->result);
    if (part) {
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)first, (unsigned long long)last,
                 (unsigned long long)size);
        header(&a, "Content-Range", text);
    }
    return finish(x, &a, part ? 206 : 200);
}

enum MHD_Result pe_answer_head(pe_exchange *x, int status, uint64_t size)
{
    const posenc_request *r = x->request ? &x->request->r : NULL;
    reply a = from_size(size == UINT64_MAX ? MHD_SIZE_UNKNOWN : size);
    if (a.r && size == UINT64_MAX) /* no length, no chunks: the end of the connection ends the answer */
        MHD_set_response_options(a.r, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    if (!x->made)
        x->made = pe_made_already(x);
    x->gzip = x->made && pe_compresses(x, x->made->document.size);
    if (x->gzip && status == 200)
        header(&a, "Content-Encoding", "gzip");
    put_result(&a, x, r ? r->digest : x->entry->digest, r ? &r->shape : &x->entry->result);
    return finish(x, &a, status);
}

/* ---- pages and texts ---- */

bool pe_page_init(pe_page *p, char *text)
{
    *p = (pe_page){ .text = text };
    if (!text)
        return false;
    p->size = strlen(text);
    snprintf(p->etag, sizeof p->etag, "\"%016llx\"", (unsigned long long)fnv(text));
    if (p->size >= GZIP_MIN)
        p->gzip = deflate_pieces(&(posenc_piece){ text, p->size }, 1, p->size, &p->gzip_size);
    return true;
}

void pe_page_fini(pe_page *p)
{
    free(p->text);
    free(p->gzip);
    *p = (pe_page){ 0 };
}

enum MHD_Result pe_answer_page(pe_exchange *x, const pe_page *p)
{
    bool gzip = p->gzip && wants_gzip(x);
    char etag[sizeof p->etag + 4];
    snprintf(etag, sizeof etag, "%s%s", gzip ? "W/" : "", p->etag);
    if (pe_fails_match(x, p->etag)) {
        pe_refuse(x, 412, "FAILED_PRECONDITION", "PRECONDITION_FAILED", "If-Match", pe_header(x, "If-Match"), p->etag);
        return pe_answer_error(x);
    }
    bool same = pe_not_modified(x, p->etag);
    size_t size = gzip ? p->gzip_size : p->size;
    reply a = same ? from_size(size) : from_buffer(gzip ? (const void *)p->gzip : p->text, size, MHD_RESPMEM_PERSISTENT);
    header(&a, "Content-Type", "application/json");
    header(&a, "ETag", etag);
    header(&a, "Cache-Control", "no-cache");
    header(&a, "Vary", "Accept-Encoding");
    if (gzip)
        header(&a, "Content-Encoding", "gzip");
    x->sent = same || x->method == PE_HEAD ? 0 : size;
    return finish(x, &a, same ? 304 : 200);
}

enum MHD_Result pe_answer_text(pe_exchange *x, int status, const char *media, char *text, const char *cache_control)
{
    if (!text) {
        posenc_fail(&x->error, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
        return pe_answer_error(x);
    }
    x->sent = x->method == PE_HEAD ? 0 : strlen(text);
    reply a = from_buffer(text, strlen(text), MHD_RESPMEM_MUST_FREE);
    if (!a.r)
        free(text);
    header(&a, "Content-Type", media);
    header(&a, "Cache-Control", cache_control ? cache_control : "no-store");
    return finish(x, &a, status);
}

enum MHD_Result pe_answer_resolved(pe_exchange *x)
{
    char value[600 * 3];
    x->sent = x->resolved_size;
    reply a = from_buffer(x->resolved, x->resolved_size, MHD_RESPMEM_MUST_FREE);
    if (a.r)
        x->resolved = NULL;
    header(&a, "Content-Type", posenc_format_media(x->asked.format));
    header(&a, "Cache-Control", "no-store");
    for (char *line = x->resolved_warnings, *next; line && *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        pe_header_escape(line, value, sizeof value);
        header(&a, "Posenc-Warning", value);
    }
    return finish(x, &a, 200);
}

/* ---- errors ---- */

posenc_status pe_refuse(pe_exchange *x, int status, const char *code, const char *reason, const char *field,
                        const char *value, const char *allowed)
{
    x->refused = true;
    x->refusal_status = status;
    x->refusal_code = code;
    x->error = (posenc_error){ 0 };
    return posenc_fail(&x->error, PE_INVALID, reason, field, value ? value : "", "%s", allowed);
}

enum MHD_Result pe_answer_error(pe_exchange *x)
{
    static char fallback[] =
        "{\"title\":\"Out of memory\",\"status\":503,\"code\":\"UNAVAILABLE\",\"reason\":\"OUT_OF_MEMORY\"}";
    bool own = x->refused && x->refusal_status;
    int status = own ? x->refusal_status : posenc_status_http(x->error.status);
    char range[48];
    snprintf(range, sizeof range, "bytes */%llu", (unsigned long long)x->sent);
    char *text = pe_problem_text(status, own ? x->refusal_code : posenc_status_code(x->error.status), &x->error,
                                 x->request_id);
    if (!text)
        status = 503;
    const char *body = text ? text : fallback;
    reply a = from_buffer(body, strlen(body), text ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!a.r)
        free(text);
    header(&a, "Content-Type", "application/problem+json");
    header(&a, "Cache-Control", "no-store");
    if (status == 503)
        header(&a, "Retry-After", "1");
    if (x->allow[0])
        header(&a, "Allow", x->allow);
    if (status == 416)
        header(&a, "Content-Range", range);
    x->reason = x->error.n ? x->error.fault[0].reason : posenc_status_name(x->error.status);
    x->sent = x->method == PE_HEAD ? 0 : strlen(body);
    return finish(x, &a, status);
}
