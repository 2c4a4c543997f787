/* fuzz_encodings.c - whatever is asked of whichever encoding: it answers soundly or says what is wrong.
 *
 * Input: NAME?QUERY, then perhaps a NUL and bytes that draw a graph for an encoding of graphs (see `draw`) and change the
 * query (see `change`). An empty query is the encoding's example, an unknown name chooses by its first letter. Checked:
 *   a failure names field, allowed and reason;
 *   the key, the JSON of the parameters and the parameters in reverse order are requests of the same digest;
 *   every element is written, twice the same, and finite unless the output's documentation says otherwise;
 *   a computation that is told to stop says that it was;
 *   the order of a list of edges does not show, and a graph of a batch gets what it gets alone. */
#include "posenc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) __attribute__((weak)); /* libFuzzer's, where it is linked */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { MOST = 1 << 20, SCRATCH = 1 << 26, PARTS = 80, QUERY = 1 << 15, ARENA = 1 << 26 };
enum { NODES = 13, EDGES = 40, GRAPHS = 5 };
static const double LONGEST = 20e6; /* ns */

#define must(ok) ((ok) ? (void)0 : stop_at(__LINE__, #ok))
static char now[2 * QUERY]; /* what is asked, for the message */

static void stop_at(int line, const char *what)
{
    fprintf(stderr, "fuzz_encodings.c:%d: %s\n%s\n", line, what, now);
    abort();
}

/* ---- the bytes that change a query ---- */

typedef struct bytes {
    const uint8_t *p, *end;
} bytes;

static unsigned next(bytes *b) { return b->p < b->end ? *b->p++ : 0; }
static unsigned below(bytes *b, unsigned n) { return n ? next(b) % n : 0; }

typedef struct part {
    char *name, *value;
} part;

typedef struct query {
    posenc_arena *arena;
    const posenc_encoding *e;
    const posenc_graph *graph; /* of encodings that have one */
    part part[PARTS];
    size_t n;
} query;

static char *keep(query *q, const char *s)
{
    char *copy = posenc_strdup(q->arena, s, strlen(s));
    must(copy != NULL);
    return copy;
}

static void split(query *q, const char *s)
{
    while (*s && q->n < PARTS) {
        const size_t len = strcspn(s, "& ");
        char *text = posenc_strdup(q->arena, s, len);
        must(text != NULL);
        char *eq = strchr(text, '=');
        if (eq)
            *eq = 0;
        if (len)
            q->part[q->n++] = (part){ text, eq ? eq + 1 : NULL };
        s += len + (s[len] != 0);
    }
}

static size_t join(const query *q, bool reverse, char *out)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < q->n; i++) {
        const part *p = &q->part[reverse ? q->n - 1 - i : i];
        if (n + strlen(p->name) + (p->value ? strlen(p->value) : 0) + 3 > QUERY)
            break;
        n += (size_t)sprintf(out + n, "%s%s%s%s", n ? "&" : "", p->name, p->value ? "=" : "", p->value ? p->value : "");
    }
    return n;
}

static const char *const numbers[] = {
    "0",
    "1",
    "-1",
    "2",
    "3",
    "0.5",
    "-0",
    "-0.0",
    "1e-3",
    "1e4",
    "1e300",
    "-1e300",
    "1e-300",
    "5e-324",
    "1.7976931348623157e308",
    "9007199254740991",
    "9007199254740992",
    "-9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "2147483647",
    "2147483648",
    "4294967296",
    "1000000",
    "65504",
    "1e38",
    "3.4e38",
    "0x1.8p+1",
    "0.1",
    "1e100",
    "-1e100",
    "1e-100",
    "nan",
    "inf",
    "NaN",
    "0.9999999999999999",
    "1.0000000000000002",
    "64",
    "127",
    "128",
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static size_t put_number(bytes *b, const posenc_param *r, char *out)
{
    const double *v = NULL, edge[] = { r->min, r->max, r->def, r->min - 1, r->max + 1 };
    switch (below(b, 6)) {
    case 0: return (size_t)sprintf(out, "%s", numbers[below(b, NUMBERS)]);
    case 1:
        v = &edge[below(b, 5)];
        return (size_t)sprintf(out, r->kind == PE_T_INT ? "%.0f" : "%.17g", fabs(*v) < 1e25 ? *v : *v < 0 ? -1e25 : 1e25);
    case 2: return (size_t)sprintf(out, "%g", ((double)next(b) - 128) / 16);
    case 3: return (size_t)sprintf(out, "%u", below(b, 5));
    default: return (size_t)sprintf(out, "%u", below(b, 20));
    }
}

/* Nested arrays of a small random shape; now and then ragged. */
static size_t put_tensor(bytes *b, const posenc_param *r, unsigned rank, char *out)
{
    size_t n = 0;
    if (!rank) {
        if (below(b, 2))
            return (size_t)sprintf(out, "%u", below(b, 4));
        return put_number(b, r, out);
    }
    const unsigned count = below(b, 6);
    const uint8_t *again = b->p;
    out[n++] = '[';
    for (unsigned i = 0; i < count; i++) {
        if (i)
            out[n++] = ',';
        if (rank > 1 && next(b) % 16)
            b->p = again; /* the same shape as its sibling */
        n += put_tensor(b, r, rank - 1, out + n);
    }
    out[n++] = ']';
    out[n] = 0;
    return n;
}

static size_t put_packed(bytes *b, char *out)
{
    static const char *const dtypes[] = { "float32", "float64", "float16", "int64", "int32", "uint8", "bfloat16", "bool" };
    static const char *const shapes[] = { "[0]",
                                          "[0,4]",
                                          "[4,0]",
                                          "[1,0,4]",
                                          "[2]",
                                          "[1,2]",
                                          "[2,1]",
                                          "[]",
                                          "[1099511627776,0]",
                                          "[0,1099511627776]",
                                          "[2,2]",
                                          "[1099511627776,0,3]" };
    static const char *const data[] = { "",     "AAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAA==", "AQAAAAAAAAA=", "AAA=",
                                        "AIA/", "AACAPwAAAEA=" };
    const char *dtype = dtypes[below(b, 8)], *shape = shapes[below(b, 12)];
    return (size_t)sprintf(out, "{\"dtype\":\"%s\",\"shape\":%s,\"data\":\"%s\"}", dtype, shape, data[below(b, 7)]);
}

static char *value_of(query *q, bytes *b, const posenc_param *r)
{
    char out[QUERY] = "";
    size_t n = 0;
    unsigned count = 0;
    switch ((posenc_kind)r->kind) {
    case PE_T_INT:
    case PE_T_REAL: put_number(b, r, out); break;
    case PE_T_BOOL: strcpy(out, below(b, 9) ? b->p < b->end && *b->p & 1 ? "true" : "false" : "1"); break;
    case PE_T_WORDS: /* of reports alone */
    case PE_T_ENUM:
        while (r->names[count])
            count++;
        strcpy(out, r->names[below(b, count)]);
        break;
    case PE_T_TEXT:
        for (count = below(b, 6); count; count--)
            n += (size_t)sprintf(out + n, "%s%u", n ? "," : "", below(b, 30));
        break;
    case PE_T_REALS:
        count = below(b, 16) ? below(b, 9) : 60 + below(b, 10);
        for (unsigned i = 0; i < count; i++) {
            n += (size_t)sprintf(out + n, "%s", n ? "," : "");
            n += below(b, 4) ? (size_t)sprintf(out + n, "%u", below(b, 9)) : put_number(b, r, out + n);
        }
        break;
    case PE_T_TENSOR:
        if (below(b, 8))
            put_tensor(b, r, below(b, 5), out);
        else
            put_packed(b, out);
        break;
    }
    return keep(q, out);
}

/* Replaces one number inside a value. */
static void nudge(query *q, bytes *b, const posenc_param *r, part *p)
{
    char out[QUERY], number[80];
    size_t starts[200], n = 0, len = strlen(p->value);
    for (size_t i = 0; i < len && n < 200; i++)
        if (strchr("-0123456789", p->value[i]) && (!i || strchr("[,", p->value[i - 1])))
            starts[n++] = i;
    if (!n || len > QUERY - 100)
        return;
    const size_t at = starts[below(b, (unsigned)n)], span = strcspn(p->value + at, ",]");
    put_number(b, r, number);
    sprintf(out, "%.*s%s%s", (int)at, p->value, number, p->value + at + span);
    p->value = keep(q, out);
}

/* One change per turn: a row is set or replaced, a number inside a value replaced, a parameter dropped or doubled. */
static void change(query *q, bytes *b)
{
    const posenc_table *t = &q->e->table;
    while (b->p < b->end) {
        const unsigned what = below(b, 12);
        size_t i = below(b, (unsigned)t->nrows + 1), at = 0;
        const posenc_param *r = i < t->nrows ? &t->rows[i] : &posenc_common_table.rows[0];
        while (at < q->n && strcmp(q->part[at].name, r->name) != 0)
            at++;
        if (what == 0 && q->n) {
            q->part[below(b, (unsigned)q->n)] = q->part[q->n - 1];
            q->n--;
        } else if (what == 1 && q->n && q->n < PARTS) {
            q->part[q->n] = q->part[below(b, (unsigned)q->n)];
            q->n++;
        } else if (what < 5 && at < q->n && q->part[at].value) {
            nudge(q, b, r, &q->part[at]);
        } else if (at < PARTS) {
            char *value = value_of(q, b, r);
            q->part[at] = (part){ (char *)(uintptr_t)r->name, value };
            q->n += at == q->n;
        }
    }
}

/* ---- the bytes that draw a graph ---- */

typedef struct drawing {
    posenc_edges edges;
    int64_t source[EDGES], target[EDGES], ptr[GRAPHS + 1];
    double weight[EDGES];
} drawing;

static double draw_weight(bytes *b)
{
    static const double odd[] = { 0,    -0.0,  -1,    5e-324,  1e-300, 1e-160, 1e-20,  0x1p-53, 1e15,
                                  1e20, 1e150, 1e300, 1.7e308, -1e-9,  65504,  3.5e38, 1e9,     0.1 };
    return below(b, 3) ? below(b, 6) + 1 : odd[below(b, sizeof odd / sizeof odd[0])];
}

/* Some nodes, mostly in one graph, and edges between them: loops, parallel edges, both directions, weights of all sizes. */
static void draw(bytes *b, drawing *d)
{
    const unsigned kind = next(b), graphs = kind & 12 ? 1 : 1 + below(b, GRAPHS), most = below(b, EDGES + 1);
    *d = (drawing){ .edges = { .directed = kind & 1, .source = d->source, .target = d->target } };
    for (unsigned g = 0; g < graphs; g++)
        d->ptr[g + 1] = d->ptr[g] + below(b, graphs > 1 ? 7 : NODES);
    for (unsigned i = 0; i < most && b->p < b->end; i++) {
        const unsigned g = below(b, graphs), n = (unsigned)(d->ptr[g + 1] - d->ptr[g]);
        if (!n)
            continue;
        const int64_t at = d->edges.nedges++;
        d->source[at] = d->ptr[g] + below(b, n);
        d->target[at] = d->ptr[g] + below(b, n);
        d->weight[at] = kind & 2 ? draw_weight(b) : 1;
    }
    d->edges.num_nodes = d->ptr[graphs];
    d->edges.weight = kind & 2 ? d->weight : NULL;
    d->edges.ptr = graphs > 1 || (kind & 16) ? d->ptr : NULL;
    d->edges.ngraphs = graphs;
    if (kind >= 250) /* now and then none that can be */
        d->target[0] = (int64_t)next(b) - 2;
}

/* The same edges from last to first. */
static void turn(const drawing *d, drawing *out)
{
    const int64_t m = d->edges.nedges;
    *out = *d;
    for (int64_t i = 0; i < m; i++) {
        out->source[i] = d->source[m - 1 - i];
        out->target[i] = d->target[m - 1 - i];
        out->weight[i] = d->weight[m - 1 - i];
    }
    out->edges.source = out->source;
    out->edges.target = out->target;
    out->edges.weight = d->edges.weight ? out->weight : NULL;
}

/* Graph g of a batch. */
static void cut(const drawing *d, int64_t g, drawing *out)
{
    *out = (drawing){ .edges = { .directed = d->edges.directed, .source = out->source, .target = out->target } };
    for (int64_t i = 0; i < d->edges.nedges; i++) {
        if (d->source[i] < d->ptr[g] || d->source[i] >= d->ptr[g + 1])
            continue;
        const int64_t at = out->edges.nedges++;
        out->source[at] = d->source[i] - d->ptr[g];
        out->target[at] = d->target[i] - d->ptr[g];
        out->weight[at] = d->weight[i];
    }
    out->edges.num_nodes = d->ptr[g + 1] - d->ptr[g];
    out->edges.weight = d->edges.weight ? out->weight : NULL;
}

/* ---- what must hold ---- */

static void must_explain(posenc_status st, const posenc_error *err)
{
    char text[4000];
    must((st != PE_OK) == (err->n > 0));
    must(st == PE_OK || st == err->status || err->n > 1);
    must(st != PE_INTERNAL && st != PE_DATA_LOSS);
    for (unsigned i = 0; i < err->n; i++) {
        must(err->fault[i].field[0] && err->fault[i].allowed[0] && err->fault[i].reason[0]);
        must(!strstr(err->fault[i].allowed, "nan ..") && !strstr(err->fault[i].allowed, "(null)"));
    }
    must(posenc_error_text(err, text, sizeof text) == text);
}

static posenc_status ask(posenc_request *r, const query *q, const char *text, posenc_error *err)
{
    posenc_status st = posenc_request_init(r, q->e->name, q->arena, err);
    must(!st);
    posenc_request_parse(r, text, err);
    r->graph = q->graph;
    st = posenc_resolve(r, err);
    must(st == err->status);
    return st;
}

/* The key as a request; what stands in it as a hash is taken from the query. False: a hash of something not there. */
static bool key_as_query(const query *q, const char *key, char *out)
{
    query k = { .arena = q->arena, .e = q->e };
    split(&k, strchr(key, ' ') + 1);
    for (size_t i = 0; i < k.n; i++) {
        if (!k.part[i].value || !strstr(k.part[i].value, "sha256-"))
            continue;
        size_t at = 0;
        while (at < q->n && strcmp(q->part[at].name, k.part[i].name) != 0)
            at++;
        if (at == q->n)
            return false;
        k.part[i].value = q->part[at].value;
    }
    join(&k, false, out);
    return true;
}

static void same_digest(const query *q, const posenc_request *r)
{
    char text[QUERY + 100];
    posenc_error err = { 0 };
    posenc_request again;
    if (key_as_query(q, r->key, text)) {
        posenc_status st = ask(&again, q, text, &err);
        if (st || strcmp(again.digest, r->digest) != 0)
            fprintf(stderr, "key    %s\nagain  %s\nerror  %s\n", r->key, st ? "" : again.key,
                    posenc_error_text(&err, now + QUERY, 500));
        must(!st && !strcmp(again.digest, r->digest));
    }
    err = (posenc_error){ 0 };
    join(q, true, text);
    must(!ask(&again, q, text, &err) && !strcmp(again.digest, r->digest));
    if (strstr(r->params_json, "sha256-"))
        return;
    err = (posenc_error){ 0 };
    must(!posenc_request_init(&again, q->e->name, q->arena, &err));
    must(!posenc_request_json(&again, r->params_json, strlen(r->params_json), &err));
    again.graph = q->graph;
    must(!posenc_resolve(&again, &err) && !strcmp(again.digest, r->digest));
}

static bool says_not_finite(const posenc_encoding *e, const char *name)
{
    for (size_t i = 0; i < e->noutputs; i++)
        if (!strcmp(e->outputs[i].name, name))
            return strstr(e->outputs[i].doc, "NaN") || strstr(e->outputs[i].doc, "infin");
    stop_at(__LINE__, name); /* an output that the descriptor does not list */
    return false;
}

/* A graph without numbers, or padding that was asked for. */
static bool void_somewhere(const posenc_request *r, const posenc_result *a)
{
    for (int i = 0; i < a->ntensors; i++)
        for (int64_t k = 0; !strcmp(a->tensor[i].name, "status") && k < posenc_tensor_count(&a->tensor[i]); k++)
            if (posenc_tensor_get(&a->tensor[i], k) != 0)
                return true;
    return strstr(r->key, "pad_value=nan") != NULL;
}

static posenc_status stop_after(void *user)
{
    int *left = user;
    return (*left)-- > 0 ? PE_OK : PE_CANCELLED;
}

/* Computes into memory that holds `fill` everywhere; what lies behind the tensors must stay. */
static posenc_status compute(const posenc_request *r, int fill, int polls, posenc_result *out, void **memory)
{
    posenc_error err = { 0 };
    posenc_context ctx = { .stop = stop_after, .user = &polls, .memory_limit = SCRATCH };
    size_t total = 64;
    for (int i = 0; i < r->shape.ntensors; i++)
        total += (posenc_tensor_size(&r->shape.tensor[i]) + 63) / 64 * 64;
    char *p = *memory = aligned_alloc(64, total);
    must(p != NULL);
    memset(p, fill, total);
    *out = r->shape;
    for (int i = 0; i < out->ntensors; i++) {
        out->tensor[i].data = p;
        p += (posenc_tensor_size(&out->tensor[i]) + 63) / 64 * 64;
    }
    posenc_status st = posenc_compute(r, out, &ctx, &err);
    must_explain(st, &err);
    must(st != PE_CANCELLED || polls < 0);
    must(st == PE_CANCELLED || polls >= 0); /* told to stop: stops */
    return st;
}

static void same_twice(const posenc_request *r, int polls)
{
    posenc_result a, b, c;
    void *memory[3];
    posenc_status st = compute(r, 0xa5, 1 << 30, &a, &memory[0]), again = compute(r, 0x5a, 1 << 30, &b, &memory[1]);
    must(st == again && a.nwarnings == b.nwarnings);
    const bool gaps = !st && void_somewhere(r, &a);
    for (int i = 0; !st && i < a.ntensors; i++) {
        const posenc_tensor *t = &a.tensor[i];
        const size_t size = posenc_tensor_size(t);
        const char *x = t->data, *y = b.tensor[i].data;
        must(size == 0 || !memcmp(x, y, size));
        for (size_t k = size; k < (size + 63) / 64 * 64; k++)
            must(x[k] == (char)0xa5);
        for (int64_t k = 0;
             t->dtype <= PE_bfloat16 && !gaps && k < posenc_tensor_count(t) && !says_not_finite(r->encoding, t->name); k++)
            must(isfinite(posenc_tensor_get(t, k)));
    }
    compute(r, 0, polls, &c, &memory[2]);
    for (int i = 0; i < 3; i++)
        free(memory[i]);
}

static const posenc_tensor *output(const posenc_result *a, const char *name)
{
    for (int i = 0; i < a->ntensors; i++)
        if (!strcmp(a->tensor[i].name, name))
            return &a->tensor[i];
    return NULL;
}

/* Where an output of a batch is what those of its graphs are together, it must hold theirs, one after the other (of the same
 * type: whether distances are steps depends on all weights of a batch). */
static void same_alone(const query *q, const drawing *d, const char *asked, const posenc_request *r)
{
    posenc_result batch, alone[GRAPHS];
    void *memory[GRAPHS + 1] = { 0 };
    posenc_request one[GRAPHS];
    drawing member;
    query mine = *q;
    const int64_t graphs = d->edges.ngraphs;
    bool told = strstr(asked, "sources=") || strstr(asked, "labels="); /* these speak of nodes of the whole batch */
    for (int64_t g = 0; g < graphs && !told; g++) {
        posenc_error err = { 0 };
        cut(d, g, &member);
        must(!posenc_graph_build(&member.edges, q->arena, &mine.graph, &err));
        told = ask(&one[g], &mine, asked, &err) || one[g].cost.ns > LONGEST || one[g].cost.scratch > SCRATCH;
    }
    if (told)
        return;
    posenc_status st[GRAPHS], whole = compute(r, 0, 1 << 30, &batch, &memory[GRAPHS]);
    const posenc_tensor *status = whole ? NULL : output(&batch, "status");
    must(whole || status);
    for (int64_t g = 0; g < graphs; g++) {
        st[g] = compute(&one[g], 0, 1 << 30, &alone[g], &memory[g]);
        must(whole || (int)posenc_tensor_get(status, g) == (st[g] ? posenc_status_http(st[g]) : 0));
    }
    for (int i = 0; i < batch.ntensors && !whole; i++) {
        const posenc_tensor *t = &batch.tensor[i];
        int64_t sum = 0;
        const char *at = t->data;
        for (int64_t g = 0; g < graphs && output(&alone[g], t->name); g++)
            sum += posenc_tensor_count(output(&alone[g], t->name));
        if (sum != posenc_tensor_count(t) || !strcmp(t->name, "status") || !output(&alone[0], t->name))
            continue; /* offsets are the batch's alone */
        for (int64_t g = 0; g < graphs; g++) {
            const posenc_tensor *own = output(&alone[g], t->name);
            const size_t size = posenc_tensor_size(own);
            if (!st[g] && size && own->dtype == t->dtype && memcmp(at, own->data, size) != 0)
                stop_at(__LINE__, t->name);
            at += size;
        }
    }
    for (int i = 0; i <= GRAPHS; i++)
        free(memory[i]);
}

/* ---- one input ---- */

/* Mostly the bytes after the query change: a query with one byte changed is rarely more than an unknown name. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t head = nul ? (size_t)(nul - data) + 1 : size;
    if (seed % 8 == 0 || most < head + 16)
        return LLVMFuzzerMutate(data, size, most);
    if (!nul)
        data[head++] = 0;
    const size_t rest = size > head ? size - head : 0, room = most - head < 200 ? most - head : 200;
    return head + LLVMFuzzerMutate(data + head, rest < room ? rest : room, room);
}

static const posenc_encoding *choose(const char *name)
{
    const posenc_encoding *e = posenc_encoding_named(name);
    return e ? e : posenc_encoding_at((unsigned char)name[0] % posenc_encodings());
}

/* The graph of the bytes, the example's where there are none. False: no graph. */
static bool get_graph(query *q, bytes *b, drawing *d)
{
    posenc_error err = { 0 };
    const posenc_graph *turned = NULL;
    drawing other;
    if (b->p == b->end)
        return !posenc_graph_build(posenc_example_edges(), q->arena, &q->graph, &err);
    draw(b, d);
    posenc_status st = posenc_graph_build(&d->edges, q->arena, &q->graph, &err);
    must_explain(st, &err);
    if (st)
        return false;
    turn(d, &other);
    must(!posenc_graph_build(&other.edges, q->arena, &turned, &err));
    must(!strcmp(posenc_graph_id(q->graph), posenc_graph_id(turned)));
    return true;
}

static size_t tell(const drawing *d, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "\n%s nodes=%lld", d->edges.directed ? "directed" : "undirected",
                                (long long)d->edges.num_nodes);
    for (int64_t g = 0; d->edges.ptr && g <= d->edges.ngraphs && n < size; g++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", g ? "," : " ptr=", (long long)d->ptr[g]);
    for (int64_t i = 0; i < d->edges.nedges && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %lld-%lld:%.17g", (long long)d->source[i], (long long)d->target[i],
                              d->weight[i]);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t text_size = nul ? (size_t)(nul - data) : size;
    bytes b = { nul ? nul + 1 : data + size, data + size };
    if (text_size > QUERY / 2 || size - text_size > 400)
        return 0;
    query q = { .arena = posenc_arena_new(ARENA) };
    must(q.arena != NULL);
    char *text = posenc_strdup(q.arena, (const char *)data, text_size), *mark = strchr(text, '?');
    if (mark)
        *mark = 0;
    q.e = choose(text);
    split(&q, mark && mark[1] ? mark + 1 : q.e->example);
    drawing d = { .edges = { 0 } };
    if (q.e->input == PE_GRAPH && !get_graph(&q, &b, &d)) {
        posenc_arena_free(q.arena);
        return 0;
    }
    const int polls = (int)below(&b, 4);
    change(&q, &b);
    char asked[QUERY + 100];
    join(&q, false, asked);
    const int said = snprintf(now, sizeof now, "%s?%s", q.e->name, asked);
    if (d.edges.source && said > 0 && (size_t)said < sizeof now)
        tell(&d, now + said, sizeof now - (size_t)said);

    posenc_request r;
    posenc_error err = { 0 };
    posenc_status st = ask(&r, &q, asked, &err);
    must_explain(st, &err);
    if (!st) {
        same_digest(&q, &r);
        if (r.size <= MOST && r.cost.ns <= LONGEST && r.cost.scratch <= SCRATCH)
            same_twice(&r, polls);
        if (d.edges.ptr && r.size <= MOST && r.cost.ns <= LONGEST && r.cost.scratch <= SCRATCH)
            same_alone(&q, &d, asked, &r);
    }
    posenc_arena_free(q.arena);
    return 0;
}
