#include "show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void show_usage(void)
{
    fputs(
        "posenc - positional encodings, computed exactly\n"
        "\n"
        "  posenc list                        the encodings\n"
        "  posenc NAME --help                 the parameters of one\n"
        "  posenc describe NAME               the same as JSON, with a JSON Schema\n"
        "  posenc NAME [--param value ...]    compute\n"
        "  posenc explain NAME [...]          what would be computed: parameters, key, digest, shapes, bytes\n"
        "  posenc resolve config.json         what a model's positions need, by its configuration (- is standard input);\n"
        "                                     --json: as JSON, each request's params ready to be posted;\n"
        "                                     -o FILE.npz or .safetensors: the tensors that need nothing else\n"
        "  posenc analyze NAME [...]          what the encoding's table is like: what=norms,shift ... (--help lists them);\n"
        "  posenc analyze FILE.npy [...]      -o FILE.svg or .png: a picture\n"
        "  posenc identify FILE.npy           which encoding and parameters give the table\n"
        "  posenc compare FILE.npy NAME [...] the difference from that encoding's, and the mistake that explains it\n"
        "  posenc example-graph               a small graph in JSON, for --graph\n"
        "  posenc --version\n"
        "\n"
        "Parameters: --embedding-dim 64, --embedding_dim=64 and embedding_dim=64 are the same.\n"
        "\n"
        "input\n"
        "  --graph FILE          JSON {\"num_nodes\", \"edge_index\", ...}; .npy edge list [2, edges]; npz or safetensors\n"
        "                        with edge_index, edge_weight, ptr; - is standard input\n"
        "  --num-nodes N         where the file does not say it\n"
        "  --directed            edges have a direction\n"
        "  --weights FILE.npy    one weight an edge\n"
        "  --input NAME=FILE     a tensor parameter: .npy, or the tensor NAME (or the only one) of .npz or .safetensors\n"
        "output\n"
        "  -o FILE               written whole or not at all; the format by its extension\n"
        "  --format WORD         json npy npz safetensors bin csv; png svg: a heat map\n"
        "  --tensor NAME         one of the outputs\n"
        "  --rows a:b            rows a .. b-1\n"
        "  --data WORD           json holds numbers as nested (default), flat, base64\n"
        "where\n"
        "  --url http://HOST:PORT  ask a server instead of computing here: the same request, the same bytes\n"
        "  --deadline S          give up after S seconds\n"
        "  --threads N           threads that compute here; one a core without it. The bytes are the same\n"
        "\n"
        "Without -o and --format: a summary on a terminal, JSON into a pipe. list, describe and explain have --format json\n"
        "and -o FILE.json too.\n"
        "Exit status: 0 done, 2 invalid request, 3 no such thing, 4 server or network, 5 deadline, 1 anything else.\n"
        "POSENC_API_KEY is sent to --url as a bearer token.\n",
        stdout);
}

static const char *member(js o, const char *name, char *buf, size_t size) { return js_text(js_member(o, name), buf, size); }

void show_list(js all)
{
    js e;
    char name[80], family[40], title[200];
    int wide = 0, family_wide = 0;
    for (js_walk w = js_begin(js_member(all, "encodings")); js_next(&w, NULL, &e);) {
        const int n = (int)strlen(member(e, "name", name, sizeof name));
        const int f = (int)strlen(member(e, "family", family, sizeof family));
        wide = n > wide ? n : wide;
        family_wide = f > family_wide ? f : family_wide;
    }
    for (js_walk w = js_begin(js_member(all, "encodings")); js_next(&w, NULL, &e);)
        printf("%-*s  %-*s  %-5s  %s\n", wide, member(e, "name", name, sizeof name), family_wide,
               member(e, "family", family, sizeof family), js_is(js_member(e, "input"), "graph") ? "graph" : "",
               member(e, "title", title, sizeof title));
}

/* "--embedding-dim INT": how a person types the row. */
static void show_flag(js p)
{
    static const char *const kinds[][2] = {
        { "int", "INT" },   { "real", "NUMBER" }, { "reals", "N,N,..." },      { "bool", "true|false" },
        { "enum", "WORD" }, { "text", "TEXT" },   { "words", "WORD,WORD,..." }
    };
    char name[80], type[16];
    const char *what = "";
    member(p, "name", name, sizeof name);
    member(p, "type", type, sizeof type);
    if (!strcmp(type, "tensor")) {
        printf("  --input %s=FILE\n", name);
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i][0], type))
            what = kinds[i][1];
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
    printf("  --%s %s\n", name, what);
}

static void show_words(js list, const char *between)
{
    js v;
    char word[80];
    const char *sep = "";
    for (js_walk w = js_begin(list); js_next(&w, NULL, &v); sep = between)
        printf("%s%s", sep, js_text(v, word, sizeof word));
}

/* A bound as short as it can be said exactly: 1000000, 1e+100, 2^53. */
static const char *number(js v, char *buf, size_t size)
{
    double d;
    if (!js_real(v, &d))
        return js_text(v, buf, size);
    if (d == 0x1p53 || d == -0x1p53) {
        snprintf(buf, size, "%s2^53", d < 0 ? "-" : "");
        return buf;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, d);
        if (strtod(buf, NULL) == d)
            break;
    }
    return buf;
}

/* Text in lines of at most WIDTH characters, all but the first with six spaces before them. */
static void show_paragraph(const char *s)
{
    enum { WIDTH = 90 };
    for (;;) {
        size_t n = strlen(s), cut = n;
        if (n > WIDTH)
            for (cut = WIDTH; cut > 0 && s[cut] != ' ';)
                cut--;
        if (!cut) /* a long word */
            cut = strcspn(s, " ");
        printf("%.*s\n", (int)cut, s);
        s += cut;
        s += strspn(s, " ");
        if (!*s)
            return;
        printf("      ");
    }
}

static void show_parameter(js p)
{
    char a[80], b[80], doc[4096];
    js def = js_member(p, "default"), words = js_member(p, "words"), when = js_member(p, "when"), key, v;
    show_flag(p);
    printf("      ");
    show_paragraph(member(p, "doc", doc, sizeof doc));
    printf("      ");
    if (js_kind(js_member(p, "required")) == 't')
        printf("required");
    else if (js_kind(js_member(p, "derived")) == 't')
        printf("computed when absent");
    else if (js_kind(def))
        printf("default %s", number(def, a, sizeof a));
    else
        printf("optional");
    if (js_kind(js_member(p, "min")))
        printf("; %s .. %s%s", number(js_member(p, "min"), a, sizeof a), number(js_member(p, "max"), b, sizeof b),
               js_is(js_member(p, "type"), "text") ? " characters" : "");
    if (js_kind(words)) {
        printf("; ");
        show_words(words, ", ");
    }
    for (js_walk w = js_begin(when); js_kind(when) && js_next(&w, &key, &v);) {
        printf("; only with %s ", js_text(key, a, sizeof a));
        show_words(v, " or ");
    }
    printf("\n");
}

static void show_parts(js d)
{
    char name[80], a[80], b[80], text[4096];
    js e;
    bool graph = js_is(js_member(d, "input"), "graph");
    member(d, "name", name, sizeof name);
    printf("posenc %s - %s\n", name, member(d, "title", text, sizeof text));
    printf("source: %s\n", member(d, "source", text, sizeof text));
    printf("\n");
    for (const char *p = member(d, "formula", text, sizeof text); *p;) {
        int n = (int)strcspn(p, "\n");
        printf("  %.*s\n", n, p);
        p += n + (p[n] == '\n');
    }
    printf("\nparameters\n");
    for (js_walk w = js_begin(js_member(d, "parameters")); js_next(&w, NULL, &e);)
        show_parameter(e);
    printf("\noutputs\n");
    for (js_walk w = js_begin(js_member(d, "outputs")); js_next(&w, NULL, &e);) {
        printf("  %s %s %s\n      ", member(e, "name", name, sizeof name), member(e, "shape", a, sizeof a),
               member(e, "dtype", b, sizeof b));
        show_paragraph(member(e, "doc", text, sizeof text));
    }
    if (graph)
        printf("\ninput: a graph, --graph FILE (posenc --help)\n");
}

void show_help(js d)
{
    char name[80], text[4096];
    const bool graph = js_is(js_member(d, "input"), "graph");
    show_parts(d);
    member(d, "example", text, sizeof text);
    for (char *c = text; *c; c++)
        if (*c == '&')
            *c = ' ';
    printf("\nexample\n  posenc %s %s%s\n", member(d, "name", name, sizeof name), text, graph ? " --graph graph.json" : "");
}

void show_explained(js x)
{
    char a[80], b[200];
    js key, v;
    printf("encoding  %s, revision %s\n", member(x, "encoding", a, sizeof a), member(x, "revision", b, sizeof b));
    for (js_walk w = js_begin(js_member(x, "params")); js_next(&w, &key, &v);)
        printf("  %-24s %s\n", js_text(key, a, sizeof a), js_text(v, b, sizeof b));
    v = js_member(x, "key");
    if (js_kind(v) == '"') /* printable and without quotes: as it stands */
        printf("key       %.*s\n", (int)js_size(v) - 2, v.s + 1);
    printf("digest    %s\n", member(x, "digest", b, sizeof b));
    for (js_walk w = js_begin(js_member(x, "tensors")); js_next(&w, &key, &v);) {
        char dtype[20], size[24];
        printf("tensor    %s %s %s, %s bytes\n", js_text(key, a, sizeof a), member(v, "dtype", dtype, sizeof dtype),
               member(v, "shape", b, sizeof b), member(v, "bytes", size, sizeof size));
    }
    printf("bytes     %s\n", member(x, "bytes", b, sizeof b));
    v = js_member(x, "cost");
    if (js_kind(v))
        printf("cost      about %s s, %s bytes of scratch\n", number(js_member(v, "seconds"), a, sizeof a),
               member(v, "scratch_bytes", b, sizeof b));
    if (js_kind(js_member(x, "cached")))
        printf("cached    %s\n", member(x, "cached", b, sizeof b));
}

/* "0-2, 4-6, 8": numbers that follow each other are joined. */
static void show_layers(js list)
{
    js v;
    int64_t first = -1, last = -2, k;
    const char *sep = "";
    for (js_walk w = js_begin(list);;) {
        bool more = js_next(&w, NULL, &v) && js_int(v, &k);
        if (more && k == last + 1) {
            last = k;
            continue;
        }
        if (first >= 0) {
            printf(last > first ? "%s%" PRId64 "-%" PRId64 : "%s%" PRId64, sep, first, last);
            sep = ", ";
        }
        if (!more)
            return;
        first = last = k;
    }
}

/* A value as one word of a shell: strings without quotes, lists of numbers as 1,2,3, the rest as JSON without blanks. */
static void show_value(js v)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:+-@%/=";
    const size_t size = js_size(v);
    char *s = malloc(size + 1);
    size_t n = 0;
    bool text = false;
    if (!s)
        return;
    if (js_kind(v) == '"') {
        n = strlen(js_text(v, s, size + 1));
    } else {
        for (size_t i = 0; i < size; i++) {
            text ^= v.s[i] == '"' && (!i || v.s[i - 1] != '\\');
            if (text || !strchr(" \t\r\n", v.s[i]))
                s[n++] = v.s[i];
        }
        s[n] = 0;
        if (n > 2 && s[0] == '[' && strspn(s + 1, "0123456789+-.eE,") == n - 2) { /* a list of numbers */
            memmove(s, s + 1, n - 2);
            s[n - 2] = 0;
        }
    }
    if (*s && strspn(s, plain) == strlen(s)) {
        fputs(s, stdout);
    } else {
        putchar('\'');
        for (const char *p = s; *p; p++)
            fputs(*p == '\'' ? "'\\''" : (char[]){ *p, 0 }, stdout);
        putchar('\'');
    }
    free(s);
}

/* The command that computes a request, one argument a line: it can be pasted as it stands. */
static void show_command(const char *encoding, js params)
{
    js key, v;
    char name[80];
    printf("    posenc %s", encoding);
    for (js_walk w = js_begin(params); js_kind(params) && js_next(&w, &key, &v);) {
        printf(" \\\n        %s=", js_text(key, name, sizeof name));
        show_value(v);
    }
    printf("\n");
}

/* A field's value: of lists the first few, and how many there are. */
static void show_field(js v)
{
    enum { FEW = 6 };
    char text[40];
    js e;
    if (js_kind(v) != '[') {
        printf("%s", js_text(v, text, sizeof text));
        return;
    }
    int n = 0;
    for (js_walk w = js_begin(v); js_next(&w, NULL, &e); n++)
        if (n < FEW)
            printf("%s%.12s", n ? " " : "", js_kind(e) == '[' ? "[..]" : js_text(e, text, sizeof text));
    if (n > FEW)
        printf(" ... (%d)", n);
}

static void show_fields(js block)
{
    char name[80], unit[40];
    js key, v;
    for (js_walk w = js_begin(block); js_next(&w, &key, &v);) {
        js_text(key, name, sizeof name);
        if (!strcmp(name, "units") || js_kind(v) == 'n')
            continue;
        printf("  %-22s ", name);
        show_field(v);
        js u = js_member(js_member(block, "units"), name);
        printf("%s%s%s\n", js_kind(u) ? "  [" : "", js_kind(u) ? js_text(u, unit, sizeof unit) : "", js_kind(u) ? "]" : "");
    }
}

void show_analysis(js x)
{
    char name[80];
    js key, v;
    printf("about\n");
    show_fields(js_member(x, "about"));
    for (js_walk w = js_begin(js_member(x, "analysis")); js_next(&w, &key, &v);) {
        printf("\n%s\n", js_text(key, name, sizeof name));
        show_fields(v);
    }
}

/* " name=value" of an object's members; long lists are cut. */
static void show_pairs(js params)
{
    char name[80];
    js key, v;
    for (js_walk w = js_begin(params); js_next(&w, &key, &v);) {
        printf(" %s=", js_text(key, name, sizeof name));
        show_field(v);
    }
}

void show_identified(js x)
{
    char a[80], b[80], c[40];
    js m;
    printf("%s\n", member(x, "answer", a, sizeof a));
    for (js_walk w = js_begin(js_member(x, "matches")); js_next(&w, NULL, &m);) {
        printf("  largest difference %s: posenc %s", member(m, "largest", c, sizeof c), member(m, "encoding", a, sizeof a));
        show_pairs(js_member(m, "params"));
        printf("   (%s%s)\n", member(m, "output", b, sizeof b),
               !strcmp(member(m, "transposed", c, sizeof c), "true") ? ", transposed" : "");
    }
}

void show_compared(js x)
{
    char a[80], text[200];
    js m;
    static const char *const told[] = { "output", "differing", "largest_absolute", "largest_relative", "largest_ulp", "rms",
                                        "first",  "worst",     "by_row",           "by_column" };
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        if (js_kind(js_member(x, told[i]))) {
            printf("%-18s ", told[i]);
            show_field(js_member(x, told[i]));
            printf("\n");
        }
    for (js_walk w = js_begin(js_member(x, "mistakes")); js_next(&w, NULL, &m);)
        printf("%s: %s\n", member(m, "mistake", a, sizeof a), member(m, "detail", text, sizeof text));
    if (js_kind(m = js_member(x, "instead")) == '{') {
        printf("it is: posenc %s", member(m, "encoding", a, sizeof a));
        show_pairs(js_member(m, "params"));
        printf("\n");
    }
}

void show_report_help(js d)
{
    static const char *const examples[][2] = {
        { "analysis", "  posenc analyze sinusoidal embedding_dim=64 num_positions=128 what=norms\n" },
        { "identify", "  posenc rope head_dim=64 num_positions=64 --tensor cos -o table.npy\n"
                      "  posenc identify table.npy\n" },
        { "compare", "  posenc rope head_dim=64 num_positions=64 offset=1 --tensor cos -o table.npy\n"
                     "  posenc compare table.npy rope head_dim=64 num_positions=64\n" },
    };
    char a[80], b[80], unit[40], text[1000];
    js v, f;
    show_parts(d);
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        if (js_is(js_member(d, "name"), examples[i][0]))
            printf("\nexample\n%s", examples[i][1]);
    for (js_walk w = js_begin(js_member(d, "what")); js_next(&w, NULL, &v);) {
        printf("\n%s - %s\n", member(v, "name", a, sizeof a), member(v, "title", b, sizeof b));
        for (char *line = text, *end = (member(v, "definition", text, sizeof text), NULL); line && *line; line = end) {
            end = strchr(line, '\n');
            if (end)
                *end++ = 0;
            printf("  %s\n", line);
        }
        for (js_walk k = js_begin(js_member(v, "fields")); js_next(&k, NULL, &f);) {
            member(f, "unit", unit, sizeof unit);
            printf("  %-22s %s%s%s\n      ", member(f, "name", a, sizeof a), *unit ? "[" : "", unit, *unit ? "]" : "");
            show_paragraph(member(f, "doc", text, sizeof text));
        }
    }
}

void show_resolution(js x)
{
    char a[80], b[80], text[600];
    js q, key, v;
    printf("model type  %s\n",
           js_kind(js_member(x, "model_type")) == '"' ? member(x, "model_type", a, sizeof a) : "not named");
    for (js_walk w = js_begin(js_member(x, "requests")); js_next(&w, NULL, &q);) {
        printf("\n%-20s %s", member(q, "layer_type", a, sizeof a), member(q, "encoding", b, sizeof b));
        if (js_kind(js_member(q, "layers"))) {
            printf("   layers ");
            show_layers(js_member(q, "layers"));
        }
        printf("\n");
        if (posenc_encoding_named(b))
            show_command(b, js_member(q, "params"));
        for (js_walk n = js_begin(js_member(q, "needs")); js_next(&n, &key, &v);)
            printf("    needs %s: %s\n", js_text(key, a, sizeof a), js_text(v, text, sizeof text));
        if (*member(q, "note", text, sizeof text)) {
            printf("      ");
            show_paragraph(text);
        }
    }
    js used = js_member(x, "defaults_used");
    js_walk d = js_begin(used);
    if (js_next(&d, &key, &v)) {
        printf("\nnot in the configuration, filled in by the model's class\n");
        for (js_walk w = js_begin(used); js_next(&w, &key, &v);) {
            printf("    %s=", js_text(key, text, sizeof text));
            show_value(v);
            printf("\n");
        }
    }
}

void show_tensors(const posenc_tensor *t, size_t n)
{
    enum { FEW = 6 };
    for (size_t i = 0; i < n; i++) {
        char shape[200] = "";
        int used = 0;
        for (int k = 0; k < t[i].rank; k++)
            used += snprintf(shape + used, sizeof shape - (size_t)used, "%s%" PRId64, k ? ", " : "", t[i].shape[k]);
        printf("%-20s %-8s [%s] ", t[i].name, posenc_dtype_name(t[i].dtype), shape);
        int64_t count = posenc_tensor_count(&t[i]);
        for (int64_t k = 0; k < count && k < FEW; k++)
            printf(" %.6g", posenc_tensor_get(&t[i], k));
        printf("%s\n", count > FEW ? " ..." : "");
    }
}

void show_warning(const char *text) { fprintf(stderr, "posenc: warning: %s\n", text); }

void show_faults(const posenc_error *err)
{
    if (!err->n)
        fprintf(stderr, "posenc: %s\n", posenc_status_meaning(err->status));
    for (unsigned i = 0; i < err->n; i++) {
        const posenc_fault *f = &err->fault[i];
        if (f->value[0])
            fprintf(stderr, "posenc: %s: got %s, allowed: %s\n", f->field, f->value, f->allowed);
        else
            fprintf(stderr, "posenc: %s: %s\n", f->field, f->allowed);
    }
    if (err->dropped)
        fprintf(stderr, "posenc: and %u more\n", err->dropped);
}
