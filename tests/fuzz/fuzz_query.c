/* fuzz_query.c - targets and header fields: the readers stay within their texts, and what they return is sound.
 *
 * Input: the first byte chooses a reader (or all of them), the rest is the text. */
#include "http/exchange.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pe_service *service;

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void start(void)
{
    static pe_config config;
    static char *argv[] = { (char *)"posencd" };
    static posenc_arena *a; /* lives as long as the process, like the service */
    posenc_error err = { 0 };
    pe_config_mode mode;
    a = posenc_arena_new(1 << 20);
    must(a && !pe_config_load(1, argv, a, &config, &mode, &err));
    service = pe_service_new(&config, &err);
    must(service);
}

static void read_query(const char *s, const char *encoding)
{
    pe_exchange x = { .service = service, .method = PE_GET, .asked = { .num_nodes = -1 }, .query = (char *)(uintptr_t)s };
    snprintf(x.asked.encoding, sizeof x.asked.encoding, "%s", encoding);
    posenc_status st = pe_read_request(&x);
    must(st == x.error.status && (st != PE_OK) == (x.error.n > 0));
    if (!st && !pe_service_resolve(service, x.request, &x.error))
        pe_select(&x, &x.request->r.shape);
    if (x.error.n) {
        char *text = pe_problem_text(400, "INVALID_ARGUMENT", &x.error, "id");
        json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        must(o != NULL); /* whatever was quoted, it is JSON */
        json_decref(o);
        free(text);
    }
    pe_request_unref(x.request);
}

static void decode(const char *s, size_t n)
{
    char *out = malloc(n + 1);
    size_t k;
    must(out != NULL);
    if (pe_percent_decode((pe_span){ s, n }, out, &k))
        must(k <= n && strlen(out) == k);
    free(out);
}

static void range(const char *s, size_t n)
{
    uint64_t first, last, total = n * 7;
    if (pe_range_parse(s, total, &first, &last) == PE_RANGE_PART)
        must(first <= last && last < total);
}

static void path(const char *s)
{
    for (size_t i = 0; pe_route_at(i); i++) {
        pe_span span[3];
        int n = pe_path_match(pe_route_at(i)->path, s, span, 3);
        for (int k = 0; k < n; k++)
            must(span[k].n > 0 && !memchr(span[k].p, '/', span[k].n));
    }
    if (pe_path_plain(s))
        must(!strstr(s, "/../") && !strstr(s, "//") && !strchr(s, '%'));
}

static void texts(const char *s)
{
    char out[40];
    pe_header_escape(s, out, sizeof out);
    for (const char *p = out; *p; p++)
        must(*p >= 0x20 && *p < 0x7f);
    pe_utf8_clean(s, out, sizeof out);
    json_t *o = json_string(out);
    must(o != NULL);
    json_decref(o);
}

static void fields(const char *s)
{
    int64_t a, b;
    pe_etag_listed(s, "\"a.npy\"", true);
    must(!pe_etag_listed(s, "W/\"a.npy\"", false));
    pe_accepts_gzip(s);
    pe_media_parse(s);
    if (pe_timeout_parse(s, &a))
        must(a > 0 && a <= 86400000000000);
    if (pe_rows_parse(s, &a, &b))
        must(0 <= a && a <= b);
    if (pe_request_id_sane(s))
        must(strlen(s) <= 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!service)
        start();
    if (!size)
        return 0;
    char *s = malloc(size); /* exactly as long as the text: a step too far is seen */
    must(s != NULL);
    memcpy(s, data + 1, size - 1);
    s[size - 1] = 0;
    switch (data[0] % 4) {
    case 0: read_query(s, "sinusoidal"); break;
    case 1: read_query(s, "laplacian"); break;
    case 2: path(s); break;
    default:
        decode(s, size - 1);
        range(s, size);
        texts(s);
        fields(s);
    }
    free(s);
    return 0;
}
