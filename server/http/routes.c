/* routes.c - the REST API as a table, and the answers that need no computation.
 *
 * Matching is on the raw path, before any decoding: a path with a percent sign, an empty or a dot segment names
 * nothing and is refused. */
#include "http/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pe_handler index_page, list_page, encoding_page, report_page, capabilities, livez, readyz, startupz, version, metrics;

static const pe_route routes[] = {
    { PE_GET, PE_EVERYWHERE, true, "/", index_page, "this list", NULL },
    { PE_GET, PE_PUBLIC, false, "/v1/encodings", list_page, "every encoding: parameters, outputs, source, an example",
      NULL },
    { PE_GET, PE_PUBLIC, false, "/v1/encodings/{name}", encoding_page, "one encoding, with a JSON Schema of its parameters",
      NULL },
    { PE_GET | PE_POST, PE_PUBLIC, false, "/v1/encodings/{name}.{ext}", pe_run_encoding,
      "all tensors of an encoding; parameters in the query, or POST a JSON, safetensors or npz body", NULL },
    { PE_GET | PE_POST, PE_PUBLIC, false, "/v1/encodings/{name}/analysis.{ext}", pe_run_encoding,
      "what an encoding's table is like (json), or pictures of it (png, svg): ?what=norms,shift and the encoding's "
      "parameters",
      "analysis" },
    { PE_GET | PE_POST, PE_PUBLIC, false, "/v1/encodings/{name}/{tensor}.{ext}", pe_run_encoding,
      "one tensor of an encoding", NULL },
    { PE_POST, PE_PUBLIC, false, "/v1/analysis.{ext}", pe_run_encoding,
      "the same of a table: POST it as npy, as `table` in npz, safetensors or JSON", "analysis" },
    { PE_GET, PE_PUBLIC, false, "/v1/analysis", report_page, "what an analysis can be asked for: parameters, fields, units",
      "analysis" },
    { PE_POST, PE_PUBLIC, false, "/v1/identify", pe_run_encoding,
      "which encoding, convention and parameters give a table: POST it as npy, or as `table` in npz, safetensors or JSON",
      "identify" },
    { PE_GET, PE_PUBLIC, false, "/v1/identify", report_page, "the parameters of that", "identify" },
    { PE_POST, PE_PUBLIC, false, "/v1/compare", pe_run_encoding,
      "a table against ?encoding= and its parameters: the difference, and the known mistake that explains it", "compare" },
    { PE_GET, PE_PUBLIC, false, "/v1/compare", report_page, "the parameters of that", "compare" },
    { PE_GET, PE_PUBLIC, false, "/v1/results/{digest}.{ext}", pe_run_result,
      "a result by the digest of its request, while it is cached", NULL },
    { PE_GET, PE_PUBLIC, false, "/v1/results/{digest}/{tensor}.{ext}", pe_run_result, "one tensor of it", NULL },
    { PE_POST, PE_PUBLIC, false, "/v1/resolve.{ext}", pe_run_resolve,
      "POST a model's config.json: the requests its positions need (json), or their tensors (npz, safetensors)", NULL },
    { PE_GET, PE_PUBLIC, false, "/v1/capabilities", capabilities,
      "limits in force, encodings and revisions, dtypes, formats, build", NULL },
    { PE_GET, PE_EVERYWHERE, true, "/livez", livez, "200 while the server's loops turn", NULL },
    { PE_GET, PE_EVERYWHERE, true, "/readyz", readyz, "200 when requests are taken; ?verbose says why not", NULL },
    { PE_GET, PE_EVERYWHERE, true, "/startupz", startupz, "200 once the server has started", NULL },
    { PE_GET, PE_EVERYWHERE, true, "/version", version, "build facts", NULL },
    { PE_GET, PE_ADMIN, true, "/metrics", metrics, "counters and histograms as Prometheus text", NULL },
};

enum { NROUTES = sizeof routes / sizeof routes[0] };

const pe_route *pe_route_at(size_t i) { return i < NROUTES ? &routes[i] : NULL; }

/* ---- finding ---- */

/* Without an admin listener all routes are on the only one; with it each listener has its own. */
static bool served_here(const pe_exchange *x, const pe_route *r)
{
    if (r->where == PE_EVERYWHERE)
        return true;
    return x->admin ? r->where == PE_ADMIN : r->where == PE_PUBLIC || !pe_service_config(x->service)->admin;
}

/* Copies the texts of the placeholders. False: one is longer than any name. */
static bool take_names(pe_asked *a, const char *path_template, const pe_span *span, int n)
{
    const char *s = path_template;
    for (int i = 0; i < n; i++) {
        s = strchr(s, '{') + 1;
        char *to = *s == 'n' ? a->encoding : *s == 't' ? a->tensor : *s == 'd' ? a->digest : a->ext;
        size_t room = to == a->ext ? sizeof a->ext : sizeof a->encoding;
        if (span[i].n >= room)
            return false;
        memcpy(to, span[i].p, span[i].n);
        to[span[i].n] = 0;
    }
    return true;
}

/* What a path lacks that would be a route if it ended in a container. */
static bool lacks_extension(const pe_exchange *x, char *words, size_t size)
{
    char path[160];
    pe_span span[3];
    pe_asked a;
    if (snprintf(path, sizeof path, "%.140s.json", x->path) > 144)
        return false;
    for (size_t i = 0; i < NROUTES; i++) {
        const pe_route *r = &routes[i];
        const int n = strstr(r->path, ".{ext}") ? pe_path_match(r->path, path, span, 3) : -1;
        if (n < 0 || !served_here(x, r) || !take_names(&a, r->path, span, n))
            continue;
        snprintf(words, size, "%s%.80s followed by %s", r->methods & PE_GET ? "" : "POST to ", x->path,
                 r->report                    ? ".json .png or .svg"
                 : strstr(r->path, "resolve") ? ".json .npz or .safetensors"
                                              : ".json .npy .npz .safetensors .bin .csv .png or .svg");
        return true;
    }
    return false;
}

static void refuse_path(pe_exchange *x)
{
    bool plain = pe_path_plain(x->path);
    char words[160];
    if (plain && lacks_extension(x, words, sizeof words)) {
        pe_refuse(x, 404, "NOT_FOUND", "MISSING_EXTENSION", "path", x->path, words);
        return;
    }
    pe_refuse(x, plain ? 404 : 400, plain ? "NOT_FOUND" : "INVALID_ARGUMENT", plain ? "UNKNOWN_ROUTE" : "INVALID_PATH",
              "path", x->path,
              plain ? "a path that GET / lists" : "segments of letters, digits, - . _ ~, none of them empty, . or ..");
}

static void refuse_method(pe_exchange *x, unsigned methods)
{
    snprintf(x->allow, sizeof x->allow, "%s%s%s", methods & PE_GET ? "GET, HEAD" : "",
             (methods & (PE_GET | PE_POST)) == (PE_GET | PE_POST) ? ", " : "", methods & PE_POST ? "POST" : "");
    char lacks[160], words[256];
    const bool container = x->method == PE_POST && lacks_extension(x, lacks, sizeof lacks);
    snprintf(words, sizeof words, "%s%s%s", x->allow, container ? "; or " : "", container ? lacks : "");
    pe_refuse(x, 405, "INVALID_ARGUMENT", "METHOD_NOT_ALLOWED", "method", x->method_name, words);
}

static const char *output_at(const void *list, size_t i) { return ((const posenc_output *)list)[i].name; }

/* Outputs that depend on parameters are checked again when they are known. */
static bool has_output(pe_exchange *x, const posenc_encoding *e, const char *name)
{
    for (size_t i = 0; i < e->noutputs; i++)
        if (!strcmp(e->outputs[i].name, name))
            return true;
    const char *near = posenc_nearest(name, output_at, e->outputs, e->noutputs);
    posenc_fail(&x->error, PE_NOT_FOUND, "UNKNOWN_TENSOR", "tensor", name,
                near ? "did you mean %s?" : "an output that GET /v1/encodings/%s lists", near ? near : e->name);
    return false;
}

/* The container, and whether encoding and tensor can exist at all. */
static void check_names(pe_exchange *x)
{
    pe_asked *a = &x->asked;
    char list[128];
    size_t used = 0;
    if (a->encoding[0]) {
        const posenc_encoding *e = posenc_encoding_named(a->encoding);
        if (!e)
            posenc_unknown_encoding(a->encoding, &x->error);
        x->refused = !e || (a->tensor[0] && !has_output(x, e, a->tensor));
        if (x->refused)
            return;
    }
    if (!a->ext[0] && x->route->report) /* one document, in one form */
        strcpy(a->ext, posenc_format_name(PE_json));
    if (!a->ext[0] || posenc_format_named(a->ext, &a->format))
        return;
    for (int f = 0; f < PE_NFORMATS; f++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 f ? ", " : "one of: ", posenc_format_name((posenc_format)f));
    pe_refuse(x, 406, "INVALID_ARGUMENT", "UNKNOWN_CONTAINER", "ext", a->ext, list);
}

void pe_route_find(pe_exchange *x)
{
    unsigned others = 0;
    if (!pe_path_plain(x->path)) {
        refuse_path(x);
        return;
    }
    for (size_t i = 0; i < NROUTES; i++) {
        const pe_route *r = &routes[i];
        pe_span span[3];
        int n = pe_path_match(r->path, x->path, span, 3);
        pe_asked a = { .num_nodes = -1 };
        if (n < 0 || !served_here(x, r) || !take_names(&a, r->path, span, n))
            continue;
        if (r->methods & (x->method == PE_HEAD ? PE_GET : x->method)) {
            x->route = r;
            x->asked = a;
            check_names(x);
            return;
        }
        others |= r->methods;
        x->route = r; /* metrics name the template, whatever the method */
    }
    if (others)
        refuse_method(x, others);
    else
        refuse_path(x);
}

/* ---- pages ---- */

static const char *method_words(const pe_route *r)
{
    return r->methods & PE_GET ? r->methods & PE_POST ? "GET, POST" : "GET" : "POST";
}

static enum MHD_Result index_page(pe_exchange *x)
{
    char *text = malloc(4096);
    size_t n = 0;
    if (text)
        n += (size_t)snprintf(text, 4096, "posencd %s: positional encodings, computed exactly\n\n", POSENC_VERSION);
    for (size_t i = 0; text && i < NROUTES; i++)
        if (served_here(x, &routes[i]) && n < 3900)
            n += (size_t)snprintf(text + n, 4096 - n, "%-9s %-38s %s\n", method_words(&routes[i]), routes[i].path,
                                  routes[i].summary);
    if (text)
        snprintf(text + n, 4096 - n,
                 "\n{ext}: json npy npz safetensors bin csv png svg. For example /v1/encodings/sinusoidal.npy?%s\n",
                 posenc_encoding_named("sinusoidal") ? posenc_encoding_named("sinusoidal")->example : "");
    return pe_answer_text(x, 200, "text/plain; charset=utf-8", text, "no-cache");
}

static enum MHD_Result list_page(pe_exchange *x)
{
    return pe_refuse_query(x) ? pe_answer_error(x) : pe_answer_page(x, pe_http_list_page(x->http));
}

static enum MHD_Result encoding_page(pe_exchange *x)
{
    char words[160];
    if (x->query && x->query[0] && lacks_extension(x, words, sizeof words)) { /* the description has no parameters */
        pe_refuse(x, 400, "INVALID_ARGUMENT", "MISSING_EXTENSION", "path", x->path, words);
        return pe_answer_error(x);
    }
    if (pe_refuse_query(x))
        return pe_answer_error(x);
    return pe_answer_page(x, pe_http_page(x->http, posenc_encoding_named(x->asked.encoding)));
}

static enum MHD_Result report_page(pe_exchange *x)
{
    if (pe_refuse_query(x))
        return pe_answer_error(x);
    return pe_answer_text(x, 200, "application/json", posenc_describe_report(posenc_report_named(x->route->report)),
                          "no-cache");
}

static enum MHD_Result capabilities(pe_exchange *x)
{
    if (pe_refuse_query(x))
        return pe_answer_error(x);
    return pe_answer_text(x, 200, "application/json", pe_service_capabilities(x->service), "no-cache");
}

static enum MHD_Result version(pe_exchange *x)
{
    return pe_answer_text(x, 200, "application/json", pe_service_version(), "no-cache");
}

/* ---- probes: they take no lock of the cache, and no parameter of theirs is an error ---- */

static bool query_names(const pe_exchange *x, const char *word)
{
    const char *rest = x->query;
    pe_span name, value;
    while (pe_query_next(&rest, &name, &value))
        if (name.n == strlen(word) && !memcmp(name.p, word, name.n))
            return true;
    return false;
}

static enum MHD_Result probe(pe_exchange *x, bool ok, const char *text)
{
    return pe_answer_text(x, ok ? 200 : 503, "text/plain; charset=utf-8", strdup(text), NULL);
}

static enum MHD_Result livez(pe_exchange *x)
{
    bool ok = pe_loops_turn(x->http);
    return probe(x, ok, ok ? "ok\n" : "the server's loops do not turn\n");
}

static enum MHD_Result readyz(pe_exchange *x)
{
    char why[512] = "";
    bool ok = pe_service_ready(x->service, why, sizeof why);
    return probe(x, ok, query_names(x, "verbose") ? why : ok ? "ok\n" : "not ready\n");
}

static enum MHD_Result startupz(pe_exchange *x)
{
    bool ok = pe_service_phase(x->service) != PE_STARTING;
    return probe(x, ok, ok ? "ok\n" : "starting\n");
}

static enum MHD_Result metrics(pe_exchange *x)
{
    char *own = pe_http_gauges(x->http), *all = pe_service_metrics_text(x->service), *text = NULL;
    if (own && all && (text = malloc(strlen(all) + strlen(own) + 1)))
        strcat(strcpy(text, all), own);
    free(own);
    free(all);
    return pe_answer_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", text, NULL);
}
