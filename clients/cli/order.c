#include "order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static posenc_status usage(posenc_error *err, const char *flag, const char *value, const char *allowed)
{
    return posenc_fail(err, PE_INVALID, "USAGE", flag, value, "%s", allowed);
}

int exit_code(posenc_status s)
{
    switch (s) {
    case PE_OK: return DONE;
    case PE_INVALID:
    case PE_LIMIT: return INVALID;
    case PE_NOT_FOUND: return NOT_FOUND;
    case PE_DEADLINE: return TOO_LATE;
    default: return FAILED;
    }
}

/* ---- values of flags ---- */

static bool whole(const char *s, size_t n, int64_t *out)
{
    char buf[24], *end;
    if (!n || n >= sizeof buf || strspn(s, "0123456789") < n)
        return false;
    memcpy(buf, s, n);
    buf[n] = 0;
    *out = (int64_t)strtoll(buf, &end, 10);
    return n <= 18;
}

static posenc_status set_rows(order *o, const char *v, posenc_error *err)
{
    const char *colon = strchr(v, ':');
    posenc_selection *s = &o->selection;
    if (!colon || !whole(v, (size_t)(colon - v), &s->row_begin) || !whole(colon + 1, strlen(colon + 1), &s->row_end))
        return usage(err, "rows", v, "begin:end, two whole numbers: --rows 0:16 is the first 16 rows");
    s->rows = true;
    o->rows = v;
    return PE_OK;
}

static posenc_status set_format(order *o, const char *v, posenc_error *err)
{
    o->has_format = posenc_format_named(v, &o->format);
    return o->has_format ? PE_OK : usage(err, "format", v, "json, npy, npz, safetensors, bin, csv, png, svg");
}

static posenc_status set_data(order *o, const char *v, posenc_error *err)
{
    static const char *const words[] = { "nested", "flat", "base64" };
    for (int i = 0; i < 3; i++)
        if (!strcmp(v, words[i])) {
            o->selection.data = (posenc_json_data)i;
            o->data = v;
            return PE_OK;
        }
    return usage(err, "data", v, "nested, flat, base64: how JSON holds the numbers");
}

static posenc_status set_nodes(order *o, const char *v, posenc_error *err)
{
    return whole(v, strlen(v), &o->num_nodes) ? PE_OK : usage(err, "num_nodes", v, "a whole number");
}

static posenc_status set_directed(order *o, const char *v, posenc_error *err)
{
    o->directed = !strcmp(v, "true");
    o->has_directed = true;
    return o->directed || !strcmp(v, "false") ? PE_OK : usage(err, "directed", v, "true or false");
}

static posenc_status set_deadline(order *o, const char *v, posenc_error *err)
{
    char *end;
    o->deadline_s = strtod(v, &end);
    if (!*v || *end || !isfinite(o->deadline_s) || o->deadline_s <= 0 || o->deadline_s > 1e6)
        return usage(err, "deadline", v, "seconds, over 0");
    return PE_OK;
}

static posenc_status set_threads(order *o, const char *v, posenc_error *err)
{
    int64_t n;
    if (!whole(v, strlen(v), &n) || n < 1 || n > 256)
        return usage(err, "threads", v, "1 .. 256");
    o->threads = (int)n;
    return PE_OK;
}

static posenc_status set_input(order *o, const char *v, posenc_arena *a, posenc_error *err)
{
    const char *eq = strchr(v, '=');
    if (!eq || eq == v || !eq[1])
        return usage(err, "input", v,
                     "NAME=FILE: the tensor parameter and the .npy, .npz or .safetensors file that holds it");
    const char *name = posenc_strdup(a, v, (size_t)(eq - v));
    if (!name)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "input", v, "more memory");
    o->inputs[o->ninputs++] = (pair){ name, eq + 1 };
    return PE_OK;
}

static posenc_status set_url(order *o, const char *v, posenc_error *err)
{
    if (strncmp(v, "http://", 7) && strncmp(v, "https://", 8))
        return usage(err, "url", v, "http://HOST:PORT");
    o->url = v;
    return PE_OK;
}

/* ---- the command line ---- */

/* The command's own flags and where they mean something. Elsewhere they are refused: nothing is ignored. */
#define IN(what) (1u << (what))
enum { REQUESTS = IN(ENCODE) | IN(EXPLAIN) | IN(ANALYZE), WORDS = IN(LIST) | IN(DESCRIBE), GRAPHS = IN(EXAMPLE_GRAPH) };

static const struct {
    const char *name;
    unsigned where;
} own[] = {
    { "graph", REQUESTS },
    { "weights", REQUESTS },
    { "num_nodes", REQUESTS },
    { "directed", REQUESTS },
    { "input", REQUESTS },
    { "format", REQUESTS | WORDS | GRAPHS | IN(RESOLVE) },
    { "json", IN(RESOLVE) },
    { "tensor", IN(ENCODE) | IN(ANALYZE) },
    { "rows", IN(ENCODE) },
    { "data", IN(ENCODE) },
    { "output", REQUESTS | WORDS | GRAPHS | IN(RESOLVE) },
    { "url", REQUESTS | WORDS | IN(RESOLVE) },
    { "deadline", REQUESTS | WORDS | IN(RESOLVE) },
    { "threads", IN(ENCODE) | IN(RESOLVE) | IN(ANALYZE) },
    { "help", ~0u },
    { "version", ~0u },
};
enum { NOWN = sizeof own / sizeof own[0] };

/* "--format, --output": what a command takes. */
static const char *flags_of(command what, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = 0;
    for (size_t i = 0; i < NOWN && used < size; i++)
        if (own[i].where & IN(what)) {
            int n = snprintf(buf + used, size - used, "%s--%s", used ? ", " : "", own[i].name);
            used += n > 0 ? (size_t)n : 0;
        }
    return buf;
}

static size_t own_index(const char *name)
{
    size_t i = 0;
    while (i < NOWN && strcmp(own[i].name, name) != 0)
        i++;
    return i;
}

static posenc_status set_own(order *o, const char *name, const char *v, posenc_arena *a, posenc_error *err)
{
    const size_t i = own_index(name);
    if (o->flags >> i & 1 && strcmp(name, "input") != 0)
        return usage(err, name, "given twice", "once");
    o->flags |= 1u << i;
    switch (name[0]) {
    case 'g': o->graph = v; return PE_OK;
    case 'w': o->weights = v; return PE_OK;
    case 'n': return set_nodes(o, v, err);
    case 'i': return set_input(o, v, a, err);
    case 'f': return set_format(o, v, err);
    case 'j': return set_format(o, "json", err);
    case 'r': return set_rows(o, v, err);
    case 'o': o->output = strcmp(v, "-") ? v : NULL; return PE_OK;
    case 'u': return set_url(o, v, err);
    default: break;
    }
    if (!strcmp(name, "tensor")) {
        o->tensor = v;
        return PE_OK;
    }
    return !strcmp(name, "threads")    ? set_threads(o, v, err)
           : !strcmp(name, "data")     ? set_data(o, v, err)
           : !strcmp(name, "deadline") ? set_deadline(o, v, err)
                                       : set_directed(o, v, err);
}

/* A row of the encoding, or of the report about it; NULL: none of that name. */
static const posenc_param *row_named(const order *o, const char *name)
{
    const posenc_encoding *e = o->encoding ? posenc_encoding_named(o->encoding) : NULL;
    const posenc_param *row = e ? posenc_row(&e->table, name) : NULL;
    return row || o->what != ANALYZE ? row : posenc_row(&posenc_report_named(o->report)->table, name);
}

/* A flag may stand alone where it means true: our --directed, and switches of the encoding. */
static bool may_stand_alone(const order *o, const char *name)
{
    const posenc_param *row = row_named(o, name);
    return !strcmp(name, "directed") || (row && row->kind == PE_T_BOOL);
}

typedef struct argument {
    const char *name, *value; /* value NULL: not in this word */
    bool flag;                /* --name or -o; otherwise name=value, or a lone word (value NULL) */
} argument;

static argument split(const char *word, posenc_arena *a)
{
    argument g = { word, NULL, false };
    size_t dashes = word[0] == '-' && word[1] == '-' ? 2 : 0;
    const char *eq = strchr(word, '=');
    if (!strcmp(word, "-o") || !strcmp(word, "-h"))
        return (argument){ word[1] == 'o' ? "output" : "help", NULL, true };
    if (!dashes && !eq)
        return g;
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    char *name = posenc_strdup(a, word + dashes, n - dashes);
    if (!name)
        return g;
    for (char *p = name; dashes && *p; p++)
        if (*p == '-')
            *p = '_';
    return (argument){ name, eq ? eq + 1 : NULL, dashes != 0 };
}

static const struct {
    const char *word;
    command what;
    const char *report;
} commands[] = { { "list", LIST, NULL },
                 { "describe", DESCRIBE, NULL },
                 { "explain", EXPLAIN, NULL },
                 { "resolve", RESOLVE, NULL },
                 { "analyze", ANALYZE, "analysis" },
                 { "identify", ANALYZE, "identify" },
                 { "compare", ANALYZE, "compare" },
                 { "example-graph", EXAMPLE_GRAPH, NULL },
                 { "help", HELP, NULL } };
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

/* A word that is no flag: the command, then the encoding. */
static void take_word(order *o, const char *word, bool *named)
{
    for (size_t i = 0; !*named && i < NCOMMANDS; i++)
        if (!strcmp(word, commands[i].word)) {
            o->what = commands[i].what;
            o->report = commands[i].report;
            *named = true;
            return;
        }
    const bool file = o->report && strcmp(o->report, "analysis") != 0; /* before the encoding, which identify has none of */
    const char **place = o->what == RESOLVE                            ? &o->config
                         : file && !o->table                           ? &o->table
                         : file && !strcmp(o->report, "identify")      ? &o->extra
                         : o->what == LIST || o->what == EXAMPLE_GRAPH ? &o->extra
                                                                       : &o->encoding;
    if (!*place)
        *place = word;
    else if (!o->extra)
        o->extra = word;
    *named = true;
}

static posenc_status take(order *o, int argc, char **argv, int *i, bool *named, posenc_arena *a, posenc_error *err)
{
    argument g = split(argv[*i], a);
    if (!g.flag && (!g.value || o->what == RESOLVE)) /* a file's name may have any letters */
        return take_word(o, argv[*i], named), PE_OK;
    if (o->what == RESOLVE && !strcmp(g.name, "json") && !g.value)
        return set_own(o, "json", NULL, a, err);
    if (!g.flag) {
        o->params[o->nparams++] = (pair){ g.name, g.value };
        return PE_OK;
    }
    if (!strcmp(g.name, "help")) {
        o->help = true;
        return PE_OK;
    }
    if (!strcmp(g.name, "version")) {
        o->what = VERSION;
        return PE_OK;
    }
    if (!g.value) {
        const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
        bool word = next && (!strcmp(next, "true") || !strcmp(next, "false"));
        if (may_stand_alone(o, g.name) && !word)
            g.value = "true";
        else if (next && strncmp(next, "--", 2))
            g.value = argv[++*i];
        else
            return usage(err, g.name, "", "a value: --name value");
    }
    if (own_index(g.name) < NOWN && (strcmp(g.name, "json") != 0 || o->what == RESOLVE))
        return set_own(o, g.name, g.value, a, err);
    o->params[o->nparams++] = (pair){ g.name, g.value };
    return PE_OK;
}

static void format_of_file(order *o, posenc_error *err)
{
    const char *dot = strrchr(o->output, '.');
    o->has_format = dot && posenc_format_named(dot + 1, &o->format);
    if (!o->has_format)
        usage(err, "output", o->output, "a name that ends in .json .npy .npz .safetensors .bin .csv .png .svg, or --format");
}

/* ---- what goes together ---- */

static const char *word_of(const order *o)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (commands[i].what == o->what && commands[i].report == o->report)
            return commands[i].word;
    return "NAME";
}

static const char *first_word(const void *unused, size_t i)
{
    (void)unused;
    return i < posenc_encodings() ? posenc_encoding_at(i)->name : commands[i - posenc_encodings()].word;
}

/* `posenc resolv config.json`: a command that was meant. Encodings are the library's, or the server's, to suggest. */
static bool refuse_command(const order *o, posenc_error *err)
{
    if (o->what != ENCODE || !o->encoding || posenc_encoding_named(o->encoding))
        return false;
    const char *near = posenc_nearest(o->encoding, first_word, NULL, posenc_encodings() + NCOMMANDS);
    if (!near || posenc_encoding_named(near))
        return false;
    posenc_fail(err, PE_NOT_FOUND, "UNKNOWN_COMMAND", "command", o->encoding, "did you mean %s?", near);
    return true;
}

typedef struct flag_names {
    const posenc_table *table;
} flag_names;

static const char *flag_name(const void *list, size_t i)
{
    const posenc_table *t = ((const flag_names *)list)->table;
    return i < t->nrows ? t->rows[i].name : own[i - t->nrows].name;
}

/* --ouput: a flag of our own that was meant, which the encoding's rows would not suggest. */
static void refuse_unknown_flags(const order *o, posenc_error *err)
{
    const posenc_encoding *e = o->encoding ? posenc_encoding_named(o->encoding) : NULL;
    for (size_t i = 0; e && i < o->nparams; i++) {
        const char *name = o->params[i].name;
        const flag_names names = { &e->table };
        if (row_named(o, name) || posenc_row(&posenc_common_table, name) || !strcmp(name, "graph"))
            continue;
        const char *near = posenc_nearest(name, flag_name, &names, e->table.nrows + NOWN);
        if (near && own_index(near) < NOWN && !posenc_row(&e->table, near))
            posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", name, "unknown name", "did you mean --%s?", near);
    }
}

/* A file's name is no tensor. */
static void refuse_file_names(const order *o, posenc_error *err)
{
    for (size_t i = 0; i < o->nparams; i++) {
        const posenc_param *row = row_named(o, o->params[i].name);
        const char *v = o->params[i].value;
        if (row && row->kind == PE_T_TENSOR && *v && !strchr("[{0123456789-+ \t\r\n\"", *v) && strcmp(v, "true") != 0 &&
            strcmp(v, "false") != 0)
            posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", row->name, v,
                        "--input %s=FILE.npy (or .npz, .safetensors), or nested arrays", row->name);
    }
}

static void check_flags(order *o, posenc_error *err)
{
    char takes[160];
    for (size_t i = 0; i < NOWN; i++)
        if (o->flags >> i & 1 && !(own[i].where & IN(o->what)))
            usage(err, own[i].name, posenc_text("given with %s", word_of(o)).s, flags_of(o->what, takes, sizeof takes));
    if (o->flags >> own_index("json") & 1 && o->flags >> own_index("format") & 1)
        usage(err, "format", "given with --json", "one of the two");
    if (o->output && !o->has_format && !err->n)
        format_of_file(o, err);
    const bool any = o->what == ENCODE, tensors = o->what == RESOLVE && (o->format == PE_npz || o->format == PE_safetensors);
    const bool picture = o->what == ANALYZE && !o->table && (o->format == PE_png || o->format == PE_svg);
    if (o->has_format && !any && !tensors && !picture && o->format != PE_json)
        usage(err, "format", posenc_text("%s with %s", posenc_format_name(o->format), word_of(o)).s,
              o->what == RESOLVE                ? "json, npz, safetensors"
              : o->what == ANALYZE && !o->table ? "json, png, svg"
                                                : "json");
    if (o->data && o->has_format && o->format != PE_json)
        usage(err, "data", posenc_text("%s with %s", o->data, posenc_format_name(o->format)).s, "only with json");
    const posenc_encoding *e = o->encoding ? posenc_encoding_named(o->encoding) : NULL;
    const bool graph = o->graph || o->ninputs;
    if (o->has_directed && (!graph || (e && e->input != PE_GRAPH)))
        usage(err, "directed", o->directed ? "true" : "false", "only with a graph");
}

/* `posenc analyze table.npy`: names of encodings have no dots and no slashes. */
static void take_table(order *o)
{
    if (!o->encoding || !(strpbrk(o->encoding, "./") || !strcmp(o->encoding, "-")))
        return;
    o->inputs[o->ninputs++] = (pair){ "table", o->encoding };
    o->encoding = NULL;
}

posenc_status order_read(int argc, char **argv, posenc_arena *a, order *o, posenc_error *err)
{
    bool named = false;
    *o = (order){ .num_nodes = -1 };
    o->params = posenc_alloc(a, (size_t)argc * sizeof *o->params);
    o->inputs = posenc_alloc(a, ((size_t)argc + 1) * sizeof *o->inputs);
    if (!o->params || !o->inputs)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "more memory");
    for (int i = 1; i < argc; i++)
        take(o, argc, argv, &i, &named, a, err);
    if (!named && o->what == ENCODE)
        o->what = HELP;
    if (o->help && !o->encoding && o->what != ANALYZE)
        o->what = HELP;
    if (o->what == HELP || o->what == VERSION || o->help)
        return err->status;
    if (refuse_command(o, err))
        return err->status;
    if (o->extra)
        usage(err, o->extra, "a second word", "--name value or name=value");
    if (o->what == RESOLVE && !o->config)
        usage(err, "config", "", "a file: posenc resolve config.json, or - for standard input");
    const bool file = o->report && strcmp(o->report, "analysis") != 0;
    if (file && !o->table)
        usage(err, "table", "", posenc_text("a file: posenc %s FILE.npy", o->report).s);
    else if (file)
        o->inputs[o->ninputs++] = (pair){ "table", o->table };
    if (o->what == ANALYZE && !o->encoding && !file)
        usage(err, "encoding", "", "a name of `posenc list`, or a file with a table: FILE.npy");
    else if (file && !o->encoding && !strcmp(o->report, "compare"))
        usage(err, "encoding", "", "a name of `posenc list` after the file");
    else if (o->what != LIST && o->what != RESOLVE && o->what != EXAMPLE_GRAPH && !o->encoding && !file)
        usage(err, "encoding", "", "a name of `posenc list`");
    if (o->what == ANALYZE && !file)
        take_table(o);
    if (o->what == ENCODE || o->what == EXPLAIN || o->what == ANALYZE) {
        refuse_unknown_flags(o, err);
        refuse_file_names(o, err);
    } else if (o->nparams) {
        char takes[160];
        usage(err, o->params[0].name, o->params[0].value, flags_of(o->what, takes, sizeof takes));
    }
    check_flags(o, err);
    return err->status;
}
