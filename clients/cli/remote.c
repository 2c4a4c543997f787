#include "remote.h"
#include "json.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { ATTEMPTS = 3, LONG_VALUE = 1024 }; /* longer lists travel in the body: targets are limited to 8 KiB */

void answer_fini(answer *a)
{
    free(a->body);
    *a = (answer){ 0 };
}

/* ---- one exchange ---- */

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
    answer *a = user;
    (void)one;
    char *more = a->size < SIZE_MAX / 4 ? realloc(a->body, (a->size + n) * 2 + 1) : NULL;
    if (!more)
        return 0;
    a->body = more;
    memcpy(more + a->size, data, n);
    a->size += n;
    more[a->size] = 0;
    return n;
}

/* The value of a header line, NULL when it is another header. */
static const char *header(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

static size_t on_header(char *data, size_t one, size_t n, void *user)
{
    answer *a = user;
    char line[600];
    const char *v;
    (void)one;
    snprintf(line, sizeof line, "%.*s", n < sizeof line ? (int)n : (int)sizeof line - 1, data);
    line[strcspn(line, "\r\n")] = 0;
    if (!strncmp(line, "HTTP/", 5)) { /* a new head: what an interim answer said is void */
        a->nwarnings = 0;
        a->retry_after_s = -1;
    } else if ((v = header(line, "Posenc-Warning")) && a->nwarnings < MAX_WARNINGS) {
        char *plain = curl_easy_unescape(NULL, v, 0, NULL);
        snprintf(a->warning[a->nwarnings++], sizeof a->warning[0], "%.511s", plain ? plain : v);
        curl_free(plain);
    } else if ((v = header(line, "Retry-After")) && *v >= '0' && *v <= '9') {
        a->retry_after_s = strtod(v, NULL);
    }
    return n;
}

static int on_progress(void *user, curl_off_t dt, curl_off_t dn, curl_off_t ut, curl_off_t un)
{
    (void)user, (void)dt, (void)dn, (void)ut, (void)un;
    return watch_interrupted();
}

typedef struct exchange {
    const char *url;
    const char *body; /* NULL: GET */
    size_t size;
    bool json; /* the body; otherwise safetensors */
} exchange;

static struct curl_slist *headers(const exchange *x, double left_s, bool deadline)
{
    char line[2048];
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    const char *key = getenv("POSENC_API_KEY");
    if (x->body)
        list = curl_slist_append(list,
                                 x->json ? "Content-Type: application/json" : "Content-Type: application/vnd.safetensors");
    if (deadline) {
        double timeout_s = left_s < 0.001 ? 0.001 : left_s > 86400 ? 86400 : left_s;
        snprintf(line, sizeof line, "Request-Timeout: %.3f", timeout_s);
        list = curl_slist_append(list, line);
    }
    if (key && *key) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", key);
        list = curl_slist_append(list, line);
    }
    return list;
}

static CURLcode exchange_once(const exchange *x, const watch *w, answer *a, char words[CURL_ERROR_SIZE])
{
    CURL *c = curl_easy_init();
    double left = watch_left(w);
    words[0] = 0;
    if (!c)
        return CURLE_OUT_OF_MEMORY;
    struct curl_slist *h = headers(x, left, w->deadline_s > 0);
    curl_easy_setopt(c, CURLOPT_URL, x->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "posenc/" POSENC_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, h);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 2000L);
    if (w->deadline_s > 0)
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(left * 1e3) + 1);
    if (x->body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->size);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, x->body);
    }
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, words);
    CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a->status);
    curl_slist_free_all(h);
    curl_easy_cleanup(c);
    return rc;
}

/* ---- faults ---- */

static int code_of(long http)
{
    switch (http) {
    case 400:
    case 405:
    case 406:
    case 409:
    case 411:
    case 412:
    case 413:
    case 414:
    case 415:
    case 416:
    case 431: return INVALID;
    case 404: return NOT_FOUND;
    case 504: return TOO_LATE;
    case 422: return FAILED;
    default: return SERVER;
    }
}

static int refused(const answer *a, posenc_error *err)
{
    js root, fault;
    char field[128], value[64], allowed[160], reason[32], status[40];
    unsigned before = err->n;
    bool problem = a->body && js_open(a->body, a->size, &root);
    posenc_status st = a->status == 404 ? PE_NOT_FOUND : PE_INVALID;
    for (js_walk w = js_begin(problem ? js_member(root, "errors") : (js){ NULL }); js_next(&w, NULL, &fault);)
        posenc_fail(err, st, js_text(js_member(fault, "reason"), reason, sizeof reason),
                    js_text(js_member(fault, "field"), field, sizeof field),
                    js_text(js_member(fault, "value"), value, sizeof value), "%s",
                    js_text(js_member(fault, "allowed"), allowed, sizeof allowed));
    if (err->n == before) {
        js detail = problem ? js_member(root, "detail") : (js){ NULL };
        if (problem && !js_kind(detail))
            detail = js_member(root, "title");
        snprintf(status, sizeof status, "HTTP %ld", a->status);
        posenc_fail(err, st, "SERVER", "server", status, "%s",
                    js_kind(detail) ? js_text(detail, allowed, sizeof allowed) : "200");
    }
    return code_of(a->status);
}

static int unreachable(const order *o, CURLcode rc, const char *words, posenc_error *err)
{
    if (watch_interrupted()) {
        posenc_fail(err, PE_CANCELLED, "CANCELLED", "request", "", "%s", posenc_status_meaning(PE_CANCELLED));
        return FAILED;
    }
    if (rc == CURLE_OPERATION_TIMEDOUT && o->deadline_s > 0) {
        posenc_fail(err, PE_DEADLINE, "DEADLINE", "deadline", posenc_text("%g s", o->deadline_s).s, "%s",
                    posenc_status_meaning(PE_DEADLINE));
        return TOO_LATE;
    }
    posenc_fail(err, PE_BUSY, "TRANSPORT", "url", o->url, "a server that answers: %s",
                words[0] ? words : curl_easy_strerror(rc));
    return SERVER;
}

/* ---- trying again ---- */

static bool worth_retrying(CURLcode rc, const answer *a)
{
    if (rc == CURLE_OK)
        return a->status == 503;
    return rc == CURLE_COULDNT_CONNECT ||
           ((rc == CURLE_GOT_NOTHING || rc == CURLE_RECV_ERROR || rc == CURLE_SEND_ERROR) && !a->status);
}

/* Full jitter, so that many commands that failed together do not come back together. False: not within the deadline. */
static bool pause_before(int attempt, const answer *a, const watch *w)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    double most = 0.1 * (1 << attempt), s = most * (double)(t.tv_nsec / 1000 % 1000) * 1e-3;
    if (a->status == 503 && a->retry_after_s >= 0)
        s = a->retry_after_s;
    if (s > 60 || s >= watch_left(w))
        return false;
    t = (struct timespec){ (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };
    nanosleep(&t, NULL);
    return !watch_interrupted();
}

static int ask(const order *o, const exchange *x, watch *w, answer *a, posenc_error *err)
{
    char words[CURL_ERROR_SIZE];
    CURLcode rc = CURLE_OK;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (int i = 0; i < ATTEMPTS; i++) {
        answer_fini(a);
        a->retry_after_s = -1;
        rc = exchange_once(x, w, a, words);
        if (!worth_retrying(rc, a) || i == ATTEMPTS - 1 || !pause_before(i, a, w))
            break;
    }
    if (rc != CURLE_OK)
        return unreachable(o, rc, words, err);
    return a->status == 200 ? DONE : refused(a, err);
}

/* ---- addresses ---- */

typedef struct url {
    char *s;
    size_t n;
    bool query, failed;
} url;

static void put(url *u, const char *text)
{
    size_t n = strlen(text);
    char *more = u->failed ? NULL : realloc(u->s, u->n + n + 1);
    u->failed = !more;
    if (!more)
        return;
    memcpy(more + u->n, text, n + 1);
    u->s = more;
    u->n += n;
}

static void put_escaped(url *u, const char *text)
{
    char *e = *text ? curl_easy_escape(NULL, text, 0) : NULL; /* length 0 means: measure it */
    if (e)
        put(u, e);
    u->failed |= *text && !e;
    curl_free(e);
}

static void put_pair(url *u, const char *name, const char *value)
{
    put(u, u->query ? "&" : "?");
    u->query = true;
    put_escaped(u, name);
    put(u, "=");
    put_escaped(u, value);
}

static void put_base(url *u, const char *base)
{
    put(u, base);
    while (!u->failed && u->n && u->s[u->n - 1] == '/')
        u->s[--u->n] = 0;
}

static int no_memory(posenc_error *err)
{
    posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "a smaller request, or more memory");
    return FAILED;
}

int remote_get(const order *o, const char *path, watch *w, answer *out, posenc_error *err)
{
    url u = { 0 };
    put_base(&u, o->url);
    put(&u, path);
    int rc = u.failed ? no_memory(err) : ask(o, &(exchange){ .url = u.s }, w, out, err);
    free(u.s);
    return rc;
}

int remote_post_json(const order *o, const char *path, const char *json, size_t size, watch *w, answer *out,
                     posenc_error *err)
{
    url u = { 0 };
    put_base(&u, o->url);
    put(&u, path);
    int rc = u.failed ? no_memory(err) : ask(o, &(exchange){ u.s, json, size, true }, w, out, err);
    free(u.s);
    return rc;
}

/* A long list becomes a tensor of the body. False: it is no list of numbers, and the server says so. */
static bool list_tensor(const pair *p, posenc_arena *a, posenc_tensor *t)
{
    size_t n = 1;
    char *end;
    for (const char *s = p->value; *s; s++)
        n += *s == ',';
    double *v = posenc_alloc(a, n * sizeof *v);
    const char *s = p->value;
    for (size_t i = 0; v && i < n; i++, s = end + 1) {
        v[i] = strtod(s, &end);
        if (end == s || (*end != ',' && *end))
            return false;
    }
    *t = (posenc_tensor){ .name = p->name, .dtype = PE_float64, .rank = 1, .shape = { (int64_t)n }, .data = v };
    return v != NULL;
}

static void put_params(url *u, const order *o, const input *in, posenc_format format, posenc_arena *a, posenc_result *body)
{
    for (size_t i = 0; i < o->nparams; i++) {
        posenc_tensor *t = &body->tensor[body->ntensors];
        if (strlen(o->params[i].value) > LONG_VALUE && body->ntensors < PE_MAX_OUTPUTS && list_tensor(&o->params[i], a, t))
            body->ntensors++;
        else
            put_pair(u, o->params[i].name, o->params[i].value);
    }
    if (in->num_nodes >= 0)
        put_pair(u, "num_nodes", posenc_text("%lld", (long long)in->num_nodes).s);
    if (in->directed)
        put_pair(u, "directed", "true");
    if (o->rows)
        put_pair(u, "rows", o->rows);
    if (o->data && format == PE_json)
        put_pair(u, "data", o->data);
}

/* The body as one piece of memory; *size 0: there is none to send. */
static bool make_body(const posenc_result *r, posenc_arena *a, const char **bytes, size_t *size, posenc_error *err)
{
    posenc_document d;
    *size = 0;
    if (!r->ntensors)
        return true;
    if (posenc_write(PE_safetensors, NULL, r, NULL, &d, err))
        return false;
    char *p = posenc_alloc(a, (size_t)d.size);
    for (size_t i = 0; p && i < d.npieces; i++) {
        memcpy(p + *size, d.piece[i].data, (size_t)d.piece[i].size);
        *size += (size_t)d.piece[i].size;
    }
    posenc_document_fini(&d);
    *bytes = p;
    if (!p)
        no_memory(err);
    return p != NULL;
}

int remote_encode(const order *o, const input *in, posenc_format format, bool explain, posenc_arena *a, watch *w,
                  answer *out, posenc_error *err)
{
    url u = { 0 };
    exchange x = { 0 };
    posenc_result body = { .ntensors = (int)in->n };
    for (size_t i = 0; i < in->n; i++)
        body.tensor[i] = in->tensor[i];
    put_base(&u, o->url);
    const bool report = o->what == ANALYZE;
    if (o->table) {
        put(&u, "/v1/");
        put(&u, o->report);
    } else {
        put(&u, !report || o->encoding ? "/v1/encodings/" : "/v1/analysis");
        if (o->encoding)
            put_escaped(&u, o->encoding);
        if (report && o->encoding)
            put(&u, "/analysis");
    }
    if (o->tensor && !explain && !report) {
        put(&u, "/");
        put_escaped(&u, o->tensor);
    }
    if (!o->table) {
        put(&u, ".");
        put(&u, posenc_format_name(format));
    }
    put_params(&u, o, in, format, a, &body);
    if (report && o->tensor)
        put_pair(&u, "tensor", o->tensor);
    if (o->table && o->encoding)
        put_pair(&u, "encoding", o->encoding);
    if (explain)
        put_pair(&u, "explain", "true");
    int rc = FAILED;
    if (u.failed)
        no_memory(err);
    else if (make_body(&body, a, &x.body, &x.size, err)) {
        x.url = u.s;
        rc = ask(o, &x, w, out, err);
    }
    free(u.s);
    return rc;
}
