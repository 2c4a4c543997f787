/* read_json.c - a request from a JSON body: flat parameters, tensors, the graph.
 *
 * The text is checked once and then read in place (scan.h): the request costs the numbers it holds, not a tree. All
 * faults are reported together. Duplicate keys are found where they count: every object here has known keys. */
#include "formats/input.h"
#include "formats/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char bad[] = "INVALID_PARAMETER";

enum { MAX_NAME = 64, MAX_BASE = 32 };

static posenc_status wrong(const char *field, pe_json v, const char *allowed, posenc_error *err)
{
    return posenc_fail(err, PE_INVALID, bad, field, pe_json_show(v).s, "%s", allowed);
}

/* ---- nested arrays ------------------------------------------------------------------------------------------- */

typedef enum numbers { INTS, REALS, BOOLS } numbers;

/* Arrays being read: their shape is what the first array of each level has. */
typedef struct reader {
    const char *name; /* of the field */
    numbers what;
    int rank, known; /* levels `known` .. rank - 1 have their size in shape */
    int64_t shape[PE_MAX_RANK], at[PE_MAX_RANK];
    size_t n; /* elements so far */
    union {
        void *data;
        int64_t *i;
        double *d;
        uint8_t *b;
    } to;
    posenc_error *err;
} reader;

/* "name[3][17]": the place that is being read, `levels` deep. */
typedef struct path {
    char s[128];
} path;

static path where(const reader *r, int levels)
{
    path p;
    int n = snprintf(p.s, sizeof p.s, "%.64s", r->name);
    for (int k = 0; k < levels && n < (int)sizeof p.s; k++)
        n += snprintf(p.s + n, sizeof p.s - (size_t)n, "[%lld]", (long long)r->at[k]);
    return p;
}

static posenc_status read_scalar(reader *r, pe_json v)
{
    pe_json_kind kind = pe_json_type(v);
    size_t i = r->n++;
    if (r->what == BOOLS && kind == PE_J_BOOL) {
        r->to.b[i] = pe_json_true(v);
        return PE_OK;
    }
    if (kind != PE_J_NUMBER)
        return wrong(where(r, r->rank).s, v, "a number, and nothing else in the whole array", r->err);
    if (r->what == INTS && !pe_json_int(v, &r->to.i[i]))
        return wrong(where(r, r->rank).s, v, "an integer that int64 holds", r->err);
    if (r->what == REALS && !pe_json_real(v, &r->to.d[i]))
        return wrong(where(r, r->rank).s, v, "a number that float64 holds; an integer exactly", r->err);
    return PE_OK;
}

/* Stops at the first fault: one a tensor is enough. At most PE_MAX_RANK deep. */
static posenc_status read_level(reader *r, pe_json v, int level)
{
    posenc_status st;
    pe_json e = { 0 };
    int64_t n = 0;
    bool more = false;
    if (level == r->rank)
        return read_scalar(r, v);
    if (pe_json_type(v) != PE_J_ARRAY)
        return wrong(where(r, level).s, v, "an array, as its neighbours are", r->err);
    for (; pe_json_next(v, &e); n++) {
        r->at[level] = n;
        more = level >= r->known && n == r->shape[level];
        if (more)
            break;
        if ((st = read_level(r, e, level + 1)))
            return st;
    }
    if (level < r->known) {
        r->shape[level] = n;
        r->known = level;
    } else if (more || n != r->shape[level]) {
        return posenc_fail(r->err, PE_INVALID, "INVALID_SHAPE", where(r, level).s,
                           more ? "more elements" : posenc_text("%lld elements", (long long)n).s,
                           "%lld elements, as the arrays before it have", (long long)r->shape[level]);
    }
    return PE_OK;
}

/* Bytes between scalars. */
static bool between(char c)
{
    static const bool is[256] = { ['['] = true, [']'] = true, ['{'] = true,  ['}'] = true,  [','] = true,
                                  [':'] = true, [' '] = true, ['\t'] = true, ['\r'] = true, ['\n'] = true };
    return is[(unsigned char)c];
}

/* An upper bound of the scalars in v, and whether all are booleans or all are integers as they are written. */
static size_t survey(pe_json v, numbers *what)
{
    size_t n = 0, bools = 0, reals = 0;
    for (const char *p = v.p; p < v.end;) {
        if (*p == '"') {
            for (p++; *p != '"'; p++)
                p += *p == '\\';
            p++;
            n++;
        } else if (between(*p)) {
            p++;
        } else {
            bool number = *p == '-' || (*p >= '0' && *p <= '9'), real = false;
            bools += *p == 't' || *p == 'f';
            for (; p < v.end && !between(*p); p++)
                real |= *p == '.' || *p == 'e' || *p == 'E';
            reals += number && real;
            n++;
        }
    }
    *what = n > 0 && bools == n ? BOOLS : reals > 0 ? REALS : INTS;
    return n;
}

/* Reads nested arrays of equal lengths, or a lone scalar, into the arena. `what`: INTS and REALS are demanded, BOOLS
 * stands for whatever the text has. */
static posenc_status read_arrays(pe_json v, const char *name, numbers what, posenc_arena *a, reader *r, posenc_error *err)
{
    *r = (reader){ .name = name, .err = err };
    size_t n = survey(v, &r->what);
    if (what != BOOLS)
        r->what = what;
    for (pe_json first = v; pe_json_type(first) == PE_J_ARRAY;) {
        pe_json e = { 0 };
        if (r->rank == PE_MAX_RANK)
            return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", name, "more nested arrays", "at most %d axes", PE_MAX_RANK);
        r->rank++;
        if (!pe_json_next(first, &e))
            break;
        first = e;
    }
    r->known = r->rank;
    r->to.data = posenc_alloc(a, n * (r->what == BOOLS ? 1 : 8));
    return r->to.data ? read_level(r, v, 0) : pe_no_memory(name, err);
}

/* ---- tensors as objects -------------------------------------------------------------------------------------- */

/* Strict RFC 4648 in place: returns the bytes, -1 for other letters, wrong padding or stray bits. */
static int64_t decode_base64(char *s, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int8_t value[256];
    size_t out = 0;
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++)
        value[(uint8_t)letters[i]] = (int8_t)i;
    if (n % 4)
        return -1;
    for (size_t i = 0; i < n; i += 4) {
        int pad = i + 4 < n || s[i + 3] != '=' ? 0 : s[i + 2] == '=' ? 2 : 1;
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = k < 4 - (size_t)pad ? value[(uint8_t)s[i + k]] : 0;
            if (d < 0)
                return -1;
            bits = bits << 6 | (uint32_t)d;
        }
        if ((pad > 0 && bits & 0xff) || (pad > 1 && bits & 0xffff))
            return -1;
        for (int k = 0; k < 3 - pad; k++)
            s[out++] = (char)(bits >> (16 - 8 * k) & 0xff);
    }
    return (int64_t)out;
}

static posenc_status read_shape(pe_json v, const char *field, posenc_tensor *t, posenc_error *err)
{
    static const char allowed[] = "a list of at most 8 sizes";
    pe_json e = { 0 };
    if (pe_json_type(v) != PE_J_ARRAY)
        return wrong(field, v, allowed, err);
    for (t->rank = 0; pe_json_next(v, &e); t->rank++)
        if (t->rank == PE_MAX_RANK || pe_json_type(e) != PE_J_NUMBER || !pe_json_int(e, &t->shape[t->rank]) ||
            t->shape[t->rank] < 0)
            return wrong(field, v, allowed, err);
    return PE_OK;
}

/* {"dtype","shape","data"} with the bytes in base64. */
static posenc_status read_packed(pe_json v, const char *name, posenc_arena *a, posenc_tensor *t, posenc_error *err)
{
    static const char *const keys[] = { "dtype", "shape", "data" };
    pe_json key = { 0 }, value = { 0 }, part[3] = { { 0 } };
    posenc_status st;
    while (pe_json_member(v, &key, &value)) {
        int k = 0;
        while (k < 3 && !pe_json_is(key, keys[k]))
            k++;
        if (k == 3 || part[k].p)
            return wrong(name, key, "the keys dtype, shape and data, each once", err);
        part[k] = value;
    }
    for (int k = 0; k < 3; k++)
        if (!part[k].p || (k != 1 && pe_json_type(part[k]) != PE_J_STRING))
            return posenc_fail(err, PE_INVALID, bad, posenc_text("%.50s.%s", name, keys[k]).s,
                               part[k].p ? pe_json_show(part[k]).s : "absent", "%s",
                               k == 0   ? "float32, int64, ..."
                               : k == 1 ? "a list of sizes"
                                        : "little-endian bytes in base64");
    char word[64] = "";
    if (part[0].end - part[0].p < (ptrdiff_t)sizeof word)
        pe_json_string(part[0], word);
    const pe_wire *w = pe_wire_named(word);
    if (!w)
        return wrong(posenc_text("%.50s.dtype", name).s, part[0],
                     "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 bool", err);
    if ((st = read_shape(part[1], posenc_text("%.50s.shape", name).s, t, err)))
        return st;
    uint64_t size;
    if (!pe_wire_size(w, t->rank, t->shape, &size))
        return wrong(posenc_text("%.50s.shape", name).s, part[1], "a shape of less than 2^63 bytes", err);
    char *bytes = posenc_alloc(a, (size_t)(part[2].end - part[2].p));
    if (!bytes)
        return pe_no_memory(name, err);
    int64_t n = decode_base64(bytes, pe_json_string(part[2], bytes));
    if (n < 0)
        return wrong(posenc_text("%.50s.data", name).s, part[2], "base64 with + and /, padded, without blanks", err);
    if ((uint64_t)n != size)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", posenc_text("%.50s.data", name).s,
                           posenc_text("%lld bytes", (long long)n).s, "%llu bytes, as shape and dtype say",
                           (unsigned long long)size);
    return pe_wire_load(w, bytes, false, false, t, a, name, err);
}

static posenc_status read_tensor(pe_json v, const char *name, posenc_arena *a, posenc_tensor *t, posenc_error *err)
{
    static const posenc_dtype becomes[] = { PE_int64, PE_float64, PE_uint8 };
    reader r;
    *t = (posenc_tensor){ .name = name };
    if (pe_json_type(v) == PE_J_OBJECT)
        return read_packed(v, name, a, t, err);
    if (pe_json_type(v) == PE_J_STRING)
        return posenc_fail(err, PE_NOT_FOUND, "TABLE_NOT_FOUND", name, pe_json_show(v).s,
                           "nested arrays or {dtype, shape, data}: stored tables are not available in this build");
    posenc_status st = read_arrays(v, name, BOOLS, a, &r, err);
    if (st)
        return st;
    t->dtype = becomes[r.what];
    t->rank = r.rank;
    t->data = r.to.data;
    memcpy(t->shape, r.shape, sizeof t->shape);
    return PE_OK;
}

posenc_status pe_read_tensor_text(const char *text, size_t n, const char *name, posenc_arena *a, posenc_tensor *t,
                                  posenc_error *err)
{
    pe_json v;
    posenc_status st = pe_json_check(text, n, name, &v, err);
    return st ? st : read_tensor(v, name, a, t, err);
}

/* ---- parameters ---------------------------------------------------------------------------------------------- */

static posenc_status set_reals(posenc_request *q, const pe_place *to, pe_json v, posenc_error *err)
{
    const char *name = to->row->name;
    reader r;
    posenc_status st;
    pe_json_kind kind = pe_json_type(v);
    if (kind != PE_J_ARRAY && kind != PE_J_NUMBER)
        return wrong(name, v, "an array of numbers", err);
    if ((st = read_arrays(v, name, REALS, q->arena, &r, err)))
        return st;
    if (r.rank > 1)
        return wrong(name, v, "an array of numbers, not of arrays", err);
    for (size_t i = 0; i < r.n; i++)
        r.to.d[i] += 0.0; /* -0 is 0 in a parameter */
    return posenc_set_reals(to->table, to->row, to->params, r.to.d, r.n, err);
}

/* A string, to the reader of queries: words of enums, texts, and the word nan. */
static posenc_status set_string(posenc_request *q, const pe_place *to, pe_json v, posenc_error *err)
{
    char *s = posenc_alloc(q->arena, (size_t)(v.end - v.p));
    if (!s)
        return pe_no_memory(to->row->name, err);
    size_t n = pe_json_string(v, s);
    return posenc_set_text(to->table, to->row, to->params, s, n, q->arena, err);
}

/* ["norms", "shift"], to the reader of queries as norms,shift. */
static posenc_status set_words(posenc_request *q, const pe_place *to, pe_json v, posenc_error *err)
{
    static const char allowed[] = "an array of its words, in quotes";
    const char *name = to->row->name;
    pe_json e = { 0 };
    if (pe_json_type(v) != PE_J_ARRAY)
        return wrong(name, v, allowed, err);
    char *s = posenc_alloc(q->arena, (size_t)(v.end - v.p)); /* each word has had two quotes */
    size_t n = 0;
    if (!s)
        return pe_no_memory(name, err);
    while (pe_json_next(v, &e)) {
        if (pe_json_type(e) != PE_J_STRING)
            return wrong(name, e, allowed, err);
        if (n > 0)
            s[n++] = ',';
        n += pe_json_string(e, s + n);
    }
    return posenc_set_text(to->table, to->row, to->params, s, n, q->arena, err);
}

static posenc_status set_parameter(posenc_request *q, const pe_place *to, pe_json v, posenc_error *err)
{
    const posenc_param *row = to->row;
    pe_json_kind kind = pe_json_type(v);
    posenc_tensor t;
    posenc_status st;
    int64_t i;
    double d;
    switch ((posenc_kind)row->kind) {
    case PE_T_INT:
        if (kind != PE_J_NUMBER || !pe_json_int(v, &i))
            return wrong(row->name, v, "an integer", err);
        return posenc_set_int(to->table, row, to->params, i, err);
    case PE_T_REAL:
        if (kind == PE_J_STRING && (row->flags & PE_NAN) && (pe_json_is(v, "nan") || pe_json_is(v, "NaN")))
            return set_string(q, to, v, err);
        if (kind != PE_J_NUMBER || !pe_json_real(v, &d))
            return wrong(row->name, v,
                         row->flags & PE_NAN ? "a number that float64 holds, or \"nan\""
                                             : "a number that float64 holds; an integer exactly",
                         err);
        return posenc_set_real(to->table, row, to->params, d, err);
    case PE_T_BOOL:
        if (kind != PE_J_BOOL)
            return wrong(row->name, v, "true or false, without quotes", err);
        return posenc_set_bool(to->table, row, to->params, pe_json_true(v), err);
    case PE_T_ENUM:
    case PE_T_TEXT:
        if (kind != PE_J_STRING)
            return wrong(row->name, v, row->kind == PE_T_ENUM ? "one of its words, in quotes" : "a text in quotes", err);
        return set_string(q, to, v, err);
    case PE_T_WORDS: return kind == PE_J_STRING ? set_string(q, to, v, err) : set_words(q, to, v, err);
    case PE_T_REALS:
        if (kind != PE_J_OBJECT)
            return set_reals(q, to, v, err);
        break;
    case PE_T_TENSOR: break;
    }
    st = read_tensor(v, row->name, q->arena, &t, err);
    return st ? st : pe_set_tensor(q, to, &t, err);
}

/* ---- the graph ----------------------------------------------------------------------------------------------- */

enum { NUM_NODES, EDGE_INDEX, EDGE_WEIGHT, DIRECTED, PTR, NKEYS };
static const char *const graph_keys[NKEYS] = { "num_nodes", "edge_index", "edge_weight", "directed", "ptr" };

static const char *key_at(const void *list, size_t i) { return ((const char *const *)list)[i]; }

/* The known keys of a graph; null is absent. */
static posenc_status graph_parts(pe_json v, pe_json part[NKEYS], posenc_error *err)
{
    pe_json key = { 0 }, value = { 0 };
    posenc_status st = PE_OK;
    int faults = 0;
    bool seen[NKEYS] = { false };
    while (faults < PE_MAX_FAULTS && pe_json_member(v, &key, &value)) {
        int k = 0;
        while (k < NKEYS && !pe_json_is(key, graph_keys[k]))
            k++;
        if (k < NKEYS && !seen[k]) {
            seen[k] = true;
            if (pe_json_type(value) != PE_J_NULL)
                part[k] = value;
            continue;
        }
        faults++;
        if (k < NKEYS) {
            st = pe_graver(st, posenc_fail(err, PE_INVALID, "DUPLICATE_PARAMETER", posenc_text("graph.%s", graph_keys[k]).s,
                                           "given twice", "once"));
            continue;
        }
        char name[MAX_NAME + 8] = "";
        if (key.end - key.p < MAX_NAME)
            pe_json_string(key, name);
        const char *near = posenc_nearest(name, key_at, graph_keys, NKEYS);
        st = pe_graver(st,
                       posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", posenc_text("graph.%s", name).s, "unknown name",
                                   near ? "did you mean %s?" : "num_nodes, edge_index, edge_weight, directed, ptr", near));
    }
    return st;
}

static posenc_status read_list(pe_json v, const char *field, numbers what, posenc_arena *a, reader *r, posenc_error *err)
{
    if (pe_json_type(v) != PE_J_ARRAY)
        return wrong(field, v, what == INTS ? "an array of integers" : "an array of numbers", err);
    posenc_status st = read_arrays(v, field, what, a, r, err);
    if (!st && r->rank != 1)
        st = wrong(field, v, "an array of numbers, not of arrays", err);
    return st;
}

static posenc_status read_edges(pe_json v, posenc_arena *a, posenc_edges *e, posenc_error *err)
{
    static const char field[] = "graph.edge_index";
    pe_json row = { 0 };
    const int64_t *list[2] = { NULL, NULL };
    int64_t n[2] = { 0, 0 };
    int rows = 0;
    posenc_status st;
    reader r;
    if (pe_json_type(v) != PE_J_ARRAY)
        return wrong(field, v, "[[sources], [targets]]", err);
    for (; pe_json_next(v, &row); rows++) {
        if (rows == 2)
            return wrong(field, v, "[[sources], [targets]]: two arrays", err);
        if ((st = read_list(row, posenc_text("%s[%d]", field, rows).s, INTS, a, &r, err)))
            return st;
        list[rows] = r.to.i;
        n[rows] = (int64_t)r.n;
    }
    if (rows != 2)
        return wrong(field, v, "[[sources], [targets]]: two arrays", err);
    if (n[0] != n[1])
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", field,
                           posenc_text("%lld sources, %lld targets", (long long)n[0], (long long)n[1]).s,
                           "as many targets as sources");
    e->source = list[0];
    e->target = list[1];
    e->nedges = n[0];
    return PE_OK;
}

static posenc_status read_graph(posenc_request *q, pe_json v, posenc_error *err)
{
    pe_json part[NKEYS] = { { 0 } };
    posenc_edges e = { .num_nodes = -1 };
    posenc_status st;
    reader r;
    if (pe_json_type(v) == PE_J_STRING)
        return posenc_fail(err, PE_NOT_FOUND, "GRAPH_NOT_FOUND", "graph", pe_json_show(v).s,
                           "{num_nodes, edge_index, ...}: stored graphs are not available in this build");
    if (pe_json_type(v) != PE_J_OBJECT)
        return wrong("graph", v, "{num_nodes, edge_index, edge_weight, directed, ptr}", err);
    st = graph_parts(v, part, err);
    if (part[NUM_NODES].p &&
        (pe_json_type(part[NUM_NODES]) != PE_J_NUMBER || !pe_json_int(part[NUM_NODES], &e.num_nodes) || e.num_nodes < 0))
        st = pe_graver(st, wrong("graph.num_nodes", part[NUM_NODES], "an integer, 0 or more", err));
    if (part[DIRECTED].p && pe_json_type(part[DIRECTED]) != PE_J_BOOL)
        st = pe_graver(st, wrong("graph.directed", part[DIRECTED], "true or false, without quotes", err));
    e.directed = part[DIRECTED].p && pe_json_true(part[DIRECTED]);
    if (!part[EDGE_INDEX].p)
        st = pe_graver(
            st, posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "graph.edge_index", "absent", "[[sources], [targets]]"));
    else
        st = pe_graver(st, read_edges(part[EDGE_INDEX], q->arena, &e, err));
    if (part[EDGE_WEIGHT].p) {
        posenc_status one = read_list(part[EDGE_WEIGHT], "graph.edge_weight", REALS, q->arena, &r, err);
        e.weight = r.to.d;
        if (!one && e.source && (int64_t)r.n != e.nedges)
            one = posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "graph.edge_weight", posenc_text("%zu weights", r.n).s,
                              "%lld: one for every edge", (long long)e.nedges);
        st = pe_graver(st, one);
    }
    if (part[PTR].p) {
        posenc_status one = read_list(part[PTR], "graph.ptr", INTS, q->arena, &r, err);
        e.ptr = r.to.i;
        e.ngraphs = (int64_t)r.n - 1;
        if (!one && e.ngraphs < 1)
            one = wrong("graph.ptr", part[PTR], "at least two places: where graphs begin, and the end", err);
        st = pe_graver(st, one);
    }
    return st ? st : pe_build_graph(q, &e, "graph.num_nodes", err);
}

/* ---- the body ------------------------------------------------------------------------------------------------ */

/* Bits of the rows seen, null or not: a name given twice is refused even so. */
typedef struct seen {
    uint64_t own, of, common;
    bool graph;
} seen;

static bool seen_before(seen *s, const posenc_request *q, const pe_place *to)
{
    uint64_t *set = to->table == &q->encoding->table ? &s->own : to->table == &posenc_common_table ? &s->common : &s->of;
    uint64_t bit = (uint64_t)1 << (to->row - to->table->rows);
    bool before = *set & bit;
    *set |= bit;
    return before;
}

static posenc_status read_member(posenc_request *q, pe_json key, pe_json value, seen *s, posenc_error *err)
{
    char name[6 * MAX_NAME + 3]; /* every character may be escaped */
    if (key.end - key.p >= (ptrdiff_t)sizeof name)
        return wrong("body", key, "names of parameters as keys", err);
    pe_json_string(key, name);
    const bool graphs = pe_graph_of(q)->encoding->input == PE_GRAPH, graph = graphs && !strcmp(name, "graph");
    pe_place to = graph ? (pe_place){ 0 } : pe_place_of(q, name);
    for (int k = 0; k < NKEYS && !graph && !to.row && graphs; k++)
        if (!strcmp(name, graph_keys[k]))
            return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", name, "outside graph",
                               "inside it: {\"graph\": {\"%s\": ..., ...}, ...}", name);
    if (!graph && !to.row && !strcmp(name, "encoding") && q->encoding->write)
        return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", name, "in the body",
                           "in the query instead, ?encoding=NAME, where this report is about an encoding");
    if (!graph && !to.row)
        return pe_no_place(q, name, err);
    if (graph ? s->graph : seen_before(s, q, &to))
        return posenc_fail(err, PE_INVALID, "DUPLICATE_PARAMETER", name, "given twice", "once");
    s->graph |= graph;
    if (pe_json_type(value) == PE_J_NULL)
        return PE_OK;
    return graph ? read_graph(pe_graph_of(q), value, err) : set_parameter(q, &to, value, err);
}

posenc_status posenc_request_json(posenc_request *r, const char *json, size_t n, posenc_error *err)
{
    pe_json body, key = { 0 }, value = { 0 };
    seen s = { 0 };
    posenc_status st = pe_json_check(json, n, "body", &body, err);
    if (st)
        return st;
    if (pe_json_type(body) != PE_J_OBJECT)
        return wrong("body", body, "an object of parameters: {\"name\": value, ...}", err);
    for (int faults = 0; faults < PE_MAX_FAULTS && pe_json_member(body, &key, &value);) {
        posenc_status one = read_member(r, key, value, &s, err);
        faults += one != PE_OK;
        st = pe_graver(st, one);
    }
    return st;
}
