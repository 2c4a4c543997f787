/* posenc.c - the command: reads the order, computes here or asks a server, writes the answer.
 *
 *     order.c   command line -> order          input.c   files -> tensors
 *     local.c   order -> result, in process    remote.c  order -> the same bytes from a server
 *     show.c    what people read               output.c  what programs read
 *     watch.c   Ctrl-C, deadline, progress     json.c    reads JSON in place
 *     resolve.c a model's configuration        analyze.c what a table is like
 *     crew.c    threads that compute */
#include "analyze.h"
#include "crew.h"
#include "json.h"
#include "local.h"
#include "order.h"
#include "output.h"
#include "remote.h"
#include "resolve.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct job {
    order order;
    posenc_arena *arena;
    input input;
    watch watch;
    posenc_context context;
    posenc_error *err;
} job;

static bool is_binary(posenc_format f) { return f != PE_json && f != PE_csv && f != PE_svg; }

/* On a terminal people get a summary, unless they say how they want the numbers. */
static bool wants_summary(const order *o)
{
    return !o->has_format && !o->output && !o->rows && !o->data && isatty(STDOUT_FILENO);
}

static int refuse_terminal(const job *j)
{
    const order *o = &j->order;
    if (!o->has_format || o->output || !is_binary(o->format) || !isatty(STDOUT_FILENO))
        return DONE;
    posenc_fail(j->err, PE_INVALID, "USAGE", "format", posenc_format_name(o->format),
                "-o FILE or a pipe: a terminal cannot show binary data");
    return INVALID;
}

/* Said here, because a server would speak of bodies, not of flags. */
static int require_graph(const job *j)
{
    const order *o = &j->order;
    const posenc_encoding *e = o->encoding ? posenc_encoding_named(o->encoding) : NULL;
    bool given = o->graph || o->ninputs;
    for (size_t i = 0; i < o->nparams; i++)
        given |= !strcmp(o->params[i].name, "graph");
    if (!e || e->input != PE_GRAPH || given)
        return DONE;
    posenc_fail(j->err, PE_INVALID, "MISSING_PARAMETER", "graph", "absent", "--graph FILE (posenc --help says which)");
    return INVALID;
}

static int write_out(job *j, const posenc_piece *piece, size_t n)
{
    int rc = exit_code(output_write(j->order.output, piece, n, &j->context, j->err));
    if (!rc && !j->order.output && isatty(STDOUT_FILENO))
        puts("");
    return rc;
}

/* ---- words about encodings: the same JSON, from here or from a server ---- */

static int get_words(job *j, const char *path, char *(*here)(const order *), answer *a, js *root)
{
    int rc = DONE;
    if (j->order.url) {
        rc = remote_get(&j->order, path, &j->watch, a, j->err);
    } else {
        a->body = here(&j->order);
        a->size = a->body ? strlen(a->body) : 0;
    }
    if (!rc && (!a->body || !js_open(a->body, a->size, root))) {
        posenc_fail(j->err, PE_INTERNAL, "SERVER", j->order.url ? j->order.url : "memory", "", "an answer in JSON");
        return j->order.url ? SERVER : FAILED;
    }
    return rc;
}

/* JSON as it is, a line of its own: to -o, or to standard output. */
static int put_json(job *j, const char *s, size_t n)
{
    const posenc_piece piece[] = { { s, n }, { "\n", 1 } };
    return exit_code(output_write(j->order.output, piece, 2, &j->context, j->err));
}

static char *list_here(const order *o)
{
    (void)o;
    return posenc_describe_all();
}

static char *describe_here(const order *o)
{
    const posenc_encoding *report = posenc_report_named(o->encoding);
    return report ? posenc_describe_report(report) : posenc_describe(posenc_encoding_named(o->encoding));
}

static int list(job *j)
{
    answer a = { 0 };
    js root;
    int rc = get_words(j, "/v1/encodings", list_here, &a, &root);
    if (!rc && j->order.has_format)
        rc = put_json(j, a.body, a.size);
    else if (!rc)
        show_list(root);
    answer_fini(&a);
    return rc;
}

static int describe(job *j, bool help)
{
    answer a = { 0 };
    js root;
    char path[160];
    const char *name = j->order.encoding;
    const bool report = posenc_report_named(name) != NULL;
    if (!j->order.url && !report && !posenc_encoding_named(name))
        return exit_code(posenc_unknown_encoding(name, j->err));
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name) || strlen(name) > 64)
        return exit_code(posenc_fail(j->err, PE_NOT_FOUND, "UNKNOWN_ENCODING", "encoding", name, "a name of `posenc list`"));
    snprintf(path, sizeof path, report ? "/v1/%s" : "/v1/encodings/%s", name);
    int rc = get_words(j, path, describe_here, &a, &root);
    if (!rc && help)
        show_help(root);
    else if (!rc)
        rc = put_json(j, a.body, a.size);
    answer_fini(&a);
    return rc;
}

/* The graph of the examples, as --graph and POST bodies take it: the descriptor of any graph encoding has it. */
static int example_graph(job *j)
{
    const posenc_encoding *e = NULL;
    for (size_t i = 0; i < posenc_encodings() && !e; i++)
        e = posenc_encoding_at(i)->input == PE_GRAPH ? posenc_encoding_at(i) : NULL;
    char *s = e ? posenc_describe(e) : NULL;
    js root, graph;
    int rc = FAILED;
    if (s && js_open(s, strlen(s), &root) && js_kind(graph = js_member(root, "example_graph")))
        rc = put_json(j, graph.s, js_size(graph));
    free(s);
    return rc;
}

/* ---- explain ---- */

static int print_explained(job *j, const char *s, size_t n)
{
    js root;
    if (!s || !js_open(s, n, &root)) {
        posenc_fail(j->err, PE_INTERNAL, "SERVER", j->order.url ? j->order.url : "memory", "", "an answer in JSON");
        return j->order.url ? SERVER : FAILED;
    }
    if (j->order.has_format)
        return put_json(j, s, n);
    show_explained(root);
    return DONE;
}

static int explain(job *j)
{
    answer a = { 0 };
    local l = { 0 };
    size_t n = 0;
    int rc;
    if (j->order.url) {
        rc = remote_encode(&j->order, &j->input, PE_json, true, j->arena, &j->watch, &a, j->err);
        rc = rc ? rc : print_explained(j, a.body, a.size);
    } else {
        rc = exit_code(local_resolve(&j->order, &j->input, j->arena, &l, &j->context, j->err));
        const char *s = rc ? NULL : local_explain(&l, j->arena, &n);
        rc = rc ? rc : print_explained(j, s, n);
    }
    answer_fini(&a);
    local_fini(&l);
    return rc;
}

/* ---- encode ---- */

static int write_local(job *j, const local *l)
{
    posenc_document d;
    posenc_origin origin = local_origin(l);
    int rc = exit_code(posenc_write(j->order.format, &origin, &l->result, &l->selection, &d, j->err));
    if (rc)
        return rc;
    rc = write_out(j, d.piece, d.npieces);
    posenc_document_fini(&d);
    return rc;
}

static void summarize(const local *l)
{
    for (int i = 0; i < l->result.ntensors; i++)
        if (!l->selection.tensors || l->selection.tensors >> i & 1)
            show_tensors(&l->result.tensor[i], 1);
}

static int encode_here(job *j)
{
    local l;
    bool summary = wants_summary(&j->order);
    posenc_status st = local_resolve(&j->order, &j->input, j->arena, &l, &j->context, j->err);
    if (!st && !summary)
        st = local_check(&l, j->order.format, j->err);
    if (!st)
        st = local_compute(&l, &j->context, j->err);
    if (!st) /* what was found is written, even where the deadline has just passed */
        watch_let_finish(&j->watch);
    watch_clear(&j->watch);
    int rc = exit_code(st);
    for (int i = 0; !rc && i < l.result.nwarnings; i++)
        show_warning(l.result.warning[i]);
    if (!rc && summary)
        summarize(&l);
    else if (!rc)
        rc = write_local(j, &l);
    local_fini(&l);
    return rc;
}

static void show_warnings(const answer *a, posenc_format f)
{
    js root, v;
    char text[512];
    if (f != PE_json) {
        for (int i = 0; i < a->nwarnings; i++)
            show_warning(a->warning[i]);
    } else if (js_open(a->body ? a->body : "", a->size, &root)) {
        for (js_walk w = js_begin(js_member(root, "warnings")); js_next(&w, NULL, &v);)
            show_warning(js_text(v, text, sizeof text));
    }
}

static int summarize_answer(job *j, const answer *a)
{
    posenc_tensor *t;
    size_t n;
    if (posenc_read_safetensors(a->body, a->size, "answer", &t, &n, j->arena, j->err))
        return SERVER;
    show_tensors(t, n);
    return DONE;
}

static int encode_there(job *j)
{
    answer a = { 0 };
    bool summary = wants_summary(&j->order);
    posenc_format f = summary ? PE_safetensors : j->order.format;
    int rc = remote_encode(&j->order, &j->input, f, false, j->arena, &j->watch, &a, j->err);
    if (!rc)
        show_warnings(&a, f);
    if (!rc && summary)
        rc = summarize_answer(j, &a);
    else if (!rc)
        rc = write_out(j, &(posenc_piece){ a.body, a.size }, 1);
    answer_fini(&a);
    return rc;
}

/* ---- the command ---- */

static int run(job *j)
{
    const order *o = &j->order;
    int rc;
    if (o->what == HELP && o->encoding)
        return describe(j, true);
    if (o->what == ANALYZE && o->help)
        return analyze_help(o, &j->watch, j->err);
    switch (o->what) {
    case HELP: show_usage(); return DONE;
    case VERSION: puts("posenc " POSENC_VERSION); return DONE;
    case LIST: return list(j);
    case DESCRIBE: return describe(j, o->help);
    case EXAMPLE_GRAPH: return example_graph(j);
    case RESOLVE: rc = refuse_terminal(j); return rc ? rc : resolve_run(o, j->arena, &j->watch, &j->context, j->err);
    case ENCODE:
    case ANALYZE:
    case EXPLAIN: break;
    }
    if (o->help)
        return describe(j, true);
    rc = refuse_terminal(j);
    if (!rc)
        rc = require_graph(j);
    if (!rc)
        rc = exit_code(input_read(o, j->arena, &j->input, j->err));
    if (rc)
        return rc;
    if (o->what == ANALYZE)
        return analyze_run(o, &j->input, j->arena, &j->watch, &j->context, j->err);
    return o->what == EXPLAIN ? explain(j) : o->url ? encode_there(j) : encode_here(j);
}

int main(int argc, char **argv)
{
    posenc_error err = { 0 };
    job j = { .arena = posenc_arena_new(SIZE_MAX / 8), .err = &err };
    if (!j.arena) {
        fputs("posenc: no memory\n", stderr);
        return FAILED;
    }
    int rc = exit_code(order_read(argc, argv, j.arena, &j.order, &err));
    watch_start(&j.watch, &j.context, j.order.deadline_s);
    crew_join(&j.context, j.order.threads);
    if (!rc)
        rc = run(&j);
    watch_clear(&j.watch);
    if (!rc && fflush(stdout)) {
        posenc_fail(&err, PE_INTERNAL, "FILE", "output", "standard output", "a place that can be written");
        rc = FAILED;
    }
    if (rc)
        show_faults(&err);
    posenc_arena_free(j.arena);
    watch_die();
    return rc;
}
