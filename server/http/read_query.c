/* read_query.c - query strings and bodies into requests. The door reads what concerns the answer (rows, data, tensors,
 * explain) and the graph of a binary body (num_nodes, directed); everything else is a row of a table. */
#include "http/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char bad[] = "INVALID_PARAMETER";

static posenc_status graver(posenc_status a, posenc_status b) { return a > b ? a : b; }

/* ---- the door's own names ---- */

enum { ROWS = 1, DATA = 2, TENSORS = 4, EXPLAIN = 8, NUM_NODES = 16, DIRECTED = 32, ENCODING = 64 };

static const char *const own_names[] = { "rows", "data", "tensors", "explain", "num_nodes", "directed", "encoding" };

typedef struct reading {
    pe_exchange *x;
    unsigned known, seen; /* which of own_names there are here, and were given */
} reading;

static posenc_status fault(reading *r, const char *name, const char *value, const char *allowed)
{
    return posenc_fail(&r->x->error, PE_INVALID, bad, name, *value ? value : "(empty)", "%s", allowed);
}

static posenc_status set_data(reading *r, const char *value)
{
    static const char *const words[] = { "nested", "flat", "base64" }; /* as posenc_json_data */
    pe_asked *a = &r->x->asked;
    for (int i = 0; i < 3; i++)
        if (!strcmp(value, words[i])) {
            if (a->format != PE_json)
                return posenc_fail(&r->x->error, PE_INVALID, "NOT_APPLICABLE", "data",
                                   posenc_text("%s with %s", words[i], posenc_format_name(a->format)).s, "only with json");
            a->selection.data = (posenc_json_data)i;
            return PE_OK;
        }
    return fault(r, "data", value, "one of: nested, flat, base64");
}

static posenc_status set_tensors(reading *r, const char *value)
{
    pe_asked *a = &r->x->asked;
    size_t used = strlen(a->tensors);
    if (!*value)
        return fault(r, "tensors", value, "names of outputs, separated by commas");
    if (a->tensor[0])
        return posenc_fail(&r->x->error, PE_INVALID, "NOT_APPLICABLE", "tensors", value,
                           "only where the path names no tensor");
    if (used + strlen(value) + 2 > sizeof a->tensors)
        return posenc_fail(&r->x->error, PE_LIMIT, "LIMIT_EXCEEDED", "tensors", value, "less than %zu bytes",
                           sizeof a->tensors);
    snprintf(a->tensors + used, sizeof a->tensors - used, "%s%s", used ? "," : "", value);
    return PE_OK;
}

static posenc_status set_bool(reading *r, const char *name, const char *value, bool *out)
{
    *out = !strcmp(value, "true");
    return *out || !strcmp(value, "false") ? PE_OK : fault(r, name, value, "true or false");
}

static posenc_status set_own(reading *r, unsigned which, const char *name, const char *value)
{
    pe_asked *a = &r->x->asked;
    if (r->seen & which && which != TENSORS) /* a list may be repeated */
        return posenc_fail(&r->x->error, PE_INVALID, "DUPLICATE_PARAMETER", name, "given twice", "once");
    r->seen |= which;
    switch (which) {
    case ROWS:
        a->selection.rows = pe_rows_parse(value, &a->selection.row_begin, &a->selection.row_end);
        return a->selection.rows ? PE_OK : fault(r, name, value, "a:b with 0 <= a <= b");
    case DATA: return set_data(r, value);
    case TENSORS: return set_tensors(r, value);
    case EXPLAIN: return set_bool(r, name, value, &a->explain);
    case ENCODING: return PE_OK; /* read before the others, whose names it decides */
    case DIRECTED: return set_bool(r, name, value, &a->directed);
    default: return pe_count_parse(value, &a->num_nodes) ? PE_OK : fault(r, name, value, "an integer, 0 or more");
    }
}

/* The row of that name, of the report or encoding asked for or of the encoding a report is about; NULL: none. */
static const posenc_param *own_row(const posenc_request *q, const char *name)
{
    const posenc_param *row = q->of ? posenc_row(&q->of->encoding->table, name) : NULL;
    return row ? row : posenc_row(&q->encoding->table, name);
}

/* Which of the door's names this is; 0: none. A row of the encoding goes first. */
static unsigned own(const reading *r, const char *name)
{
    if (r->x->request && own_row(&r->x->request->r, name))
        return 0;
    for (size_t i = 0; i < sizeof own_names / sizeof own_names[0]; i++)
        if (r->known & 1u << i && !strcmp(name, own_names[i]))
            return 1u << i;
    return 0;
}

/* ---- names that are no row ---- */

typedef struct name_list {
    const reading *r;
    size_t nown;
    const char *own[7];
    const posenc_table *table[2]; /* of the encoding, and of the report about it */
} name_list;

static const char *name_at(const void *list, size_t i)
{
    const name_list *l = list;
    if (i < l->nown)
        return l->own[i];
    i -= l->nown;
    for (int k = 0; k < 2; i -= l->table[k++]->nrows)
        if (i < l->table[k]->nrows)
            return l->table[k]->rows[i].name;
    return posenc_common_table.rows[i].name;
}

/* As posenc_unknown, with the door's names among those it may suggest. */
static posenc_status unknown(reading *r, const char *name)
{
    static const posenc_table none;
    name_list l = { .r = r, .table = { &none, &none } };
    const posenc_request *q = r->x->request ? &r->x->request->r : NULL;
    if (q) {
        l.table[0] = &(q->of ? q->of : q)->encoding->table;
        l.table[1] = q->of ? &q->encoding->table : &none;
    }
    for (size_t i = 0; i < sizeof own_names / sizeof own_names[0]; i++)
        if (r->known & 1u << i)
            l.own[l.nown++] = own_names[i];
    const char *near = posenc_nearest(name, name_at, &l,
                                      l.nown + l.table[0]->nrows + l.table[1]->nrows + (q ? posenc_common_table.nrows : 0));
    for (size_t i = 0; near && i < l.nown; i++)
        if (near == l.own[i])
            return posenc_fail(&r->x->error, PE_INVALID, "UNKNOWN_PARAMETER", name, "unknown name", "did you mean %s?",
                               near);
    if (q)
        return posenc_unknown(l.table[0], q->of ? l.table[1] : &posenc_common_table, name, &r->x->error);
    if (!l.nown)
        return posenc_fail(&r->x->error, PE_INVALID, "UNKNOWN_PARAMETER", name, "unknown name", "no parameters here");
    return posenc_fail(&r->x->error, PE_INVALID, "UNKNOWN_PARAMETER", name, "unknown name", "rows, data, tensors");
}

/* ---- pairs ---- */

/* Lists may be repeated: appends the values of all later pairs of the same name. False: no memory or malformed. */
static bool join_list(const char *rest, const char *name, char **value, size_t *n)
{
    pe_span key, v;
    while (pe_query_next(&rest, &key, &v)) {
        char other[80];
        size_t k;
        if (key.n >= sizeof other || !v.p || !pe_percent_decode(key, other, &k) || strcmp(other, name))
            continue;
        char *longer = realloc(*value, *n + v.n + 2);
        if (!longer)
            return false;
        *value = longer;
        longer[*n] = ',';
        if (!pe_percent_decode(v, longer + *n + 1, &k))
            return false;
        *n += k + 1;
    }
    return true;
}

/* Has this list been read with an earlier pair of its name? */
static bool joined_before(const char *query, const char *here, const char *name)
{
    pe_span key, v;
    while (pe_query_next(&query, &key, &v) && key.p < here) {
        char other[80];
        size_t k;
        if (key.n < sizeof other && v.p && pe_percent_decode(key, other, &k) && !strcmp(other, name))
            return true;
    }
    return false;
}

static posenc_status set_row(reading *r, const char *name, pe_span key, const char *rest, char **value, size_t n)
{
    posenc_request *q = &r->x->request->r;
    const posenc_param *row = own_row(q, name);
    if (!row && !posenc_row(&posenc_common_table, name))
        return unknown(r, name);
    if (row && (row->kind == PE_T_REALS || row->kind == PE_T_WORDS)) {
        if (joined_before(r->x->query, key.p, name))
            return PE_OK;
        if (!join_list(rest, name, value, &n))
            return posenc_fail(&r->x->error, PE_INVALID, bad, name, "malformed list", "numbers separated by commas");
    }
    if (!strcmp(name, "rev"))
        r->x->asked.pinned = true;
    return posenc_request_set(q, name, *value, n, &r->x->error);
}

static posenc_status set_pair(reading *r, pe_span key, pe_span v, const char *rest)
{
    posenc_error *err = &r->x->error;
    char name[80], shown[80];
    size_t n;
    if (key.n >= sizeof name || !key.n || !pe_percent_decode(key, name, &n)) {
        snprintf(shown, sizeof shown, "%.*s", key.n < 60 ? (int)key.n : 60, key.p);
        return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", shown, "not a name", "a parameter's name");
    }
    char *value = malloc(v.n + 1);
    posenc_status st;
    if (!value)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    unsigned which = own(r, name);
    snprintf(shown, sizeof shown, "%.*s", v.n < 60 ? (int)v.n : 60, v.p ? v.p : "");
    if (!which && !r->x->request)
        st = unknown(r, name);
    else if (!v.p)
        st = posenc_fail(err, PE_INVALID, bad, name, "no value", "name=value");
    else if (!pe_percent_decode(v, value, &n))
        st = posenc_fail(err, PE_INVALID, bad, name, shown, "%% followed by two hexadecimal digits, and no NUL");
    else if (which)
        st = set_own(r, which, name, value);
    else
        st = set_row(r, name, key, rest, &value, n);
    free(value);
    return st;
}

static posenc_status read_pairs(reading *r)
{
    const char *rest = r->x->query;
    pe_span key, value;
    posenc_status st = PE_OK;
    while (!r->x->error.dropped && pe_query_next(&rest, &key, &value))
        st = graver(st, set_pair(r, key, value, rest));
    return st;
}

posenc_status pe_refuse_query(pe_exchange *x)
{
    reading r = { .x = x };
    return read_pairs(&r);
}

posenc_status pe_read_options(pe_exchange *x)
{
    reading r = { .x = x, .known = ROWS | DATA | TENSORS };
    return read_pairs(&r);
}

/* ---- bodies ---- */

/* Tensors borrow from the bytes and live as long as the request, which may outlive this exchange: they move into its
 * arena. JSON is copied out by its reader. */
static posenc_status read_tensors(pe_exchange *x)
{
    posenc_request *q = &x->request->r;
    posenc_tensor *t = NULL;
    size_t n = 0;
    char *bytes = posenc_strdup(q->arena, x->body ? x->body : "", x->body_size);
    if (!bytes)
        return posenc_fail(&x->error, PE_BUSY, "OUT_OF_MEMORY", "body", posenc_text("%zu bytes", x->body_size).s,
                           "a smaller body, or try again");
    posenc_tensor table = { 0 };
    if (x->media == PE_MEDIA_NPY) { /* the one tensor that a report is about */
        const posenc_status one = posenc_read_npy(bytes, x->body_size, "body", &table, q->arena, &x->error);
        table.name = "table";
        return one ? one : posenc_request_tensors(q, &table, 1, x->asked.num_nodes, x->asked.directed, &x->error);
    }
    posenc_status st = x->media == PE_MEDIA_NPZ
                           ? posenc_read_npz(bytes, x->body_size, "body", &t, &n, q->arena, &x->error)
                           : posenc_read_safetensors(bytes, x->body_size, "body", &t, &n, q->arena, &x->error);
    return st ? st : posenc_request_tensors(q, t, n, x->asked.num_nodes, x->asked.directed, &x->error);
}

/* A report about the encoding that the path or `encoding` of the query names, or about a table. It has no rows or tensors to
 * choose. */
static posenc_status init_report(pe_exchange *x, reading *r)
{
    const char *rest = x->query;
    pe_span key, v;
    size_t n;
    r->known = EXPLAIN;
    if (!x->asked.encoding[0]) {
        r->known |= ENCODING;
        while (pe_query_next(&rest, &key, &v)) {
            if (key.n != 8 || memcmp(key.p, "encoding", 8) != 0 || !v.p)
                continue;
            if (v.n >= sizeof x->asked.encoding || !pe_percent_decode(v, x->asked.encoding, &n) || !n)
                return fault(r, "encoding", "not a name", "an encoding's name");
            break;
        }
    }
    return posenc_report_init(&x->request->r, x->route->report, x->asked.encoding[0] ? x->asked.encoding : NULL,
                              x->request->arena, &x->error);
}

posenc_status pe_read_request(pe_exchange *x)
{
    bool binary = x->method == PE_POST && x->media != PE_MEDIA_JSON;
    reading r = { .x = x, .known = ROWS | DATA | TENSORS | EXPLAIN };
    posenc_status st;
    if (!(x->request = pe_request_new(x->service)))
        return posenc_fail(&x->error, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    posenc_request *q = &x->request->r;
    if ((st = x->route && x->route->report ? init_report(x, &r)
                                           : posenc_request_init(q, x->asked.encoding, x->request->arena, &x->error)))
        return st;
    q->ctx = pe_request_watch(x->request, x->deadline_ns);
    if (q->of)
        q->of->ctx = q->ctx;
    bool graph = (q->of ? q->of : q)->encoding->input == PE_GRAPH;
    if (binary && graph)
        r.known |= NUM_NODES | DIRECTED;
    st = read_pairs(&r);
    if (graph && x->method != PE_POST)
        return graver(st, posenc_fail(&x->error, PE_INVALID, "MISSING_PARAMETER", "graph", "absent",
                                      "a graph cannot be in a query: POST here with it in a JSON, safetensors or npz body"));
    if (x->method == PE_POST && x->media == PE_MEDIA_JSON)
        st = graver(st, posenc_request_json(q, x->body ? x->body : "", x->body_size, &x->error));
    else if (x->method == PE_POST)
        st = graver(st, read_tensors(x));
    x->asked.pinned |= (q->of ? q->of : q)->common.rev > 0;
    return st;
}

/* ---- names of tensors ---- */

static const char *output_at(const void *shape, size_t i) { return ((const posenc_result *)shape)->tensor[i].name; }

/* `field` is what names it: the path's tensor, or an element of the list. */
static posenc_status select_one(pe_exchange *x, const posenc_result *shape, const char *field, const char *name)
{
    posenc_selection *sel = &x->asked.selection;
    for (int i = 0; i < shape->ntensors; i++)
        if (!strcmp(shape->tensor[i].name, name)) {
            if (sel->tensors >> i & 1)
                return posenc_fail(&x->error, PE_INVALID, "DUPLICATE_PARAMETER", field, name, "each output once");
            sel->tensors |= 1u << i;
            return PE_OK;
        }
    const char *near = posenc_nearest(name, output_at, shape, (size_t)shape->ntensors);
    char names[160];
    size_t used = 0;
    names[0] = 0;
    for (int i = 0; i < shape->ntensors && used < sizeof names; i++) {
        int n = snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", shape->tensor[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    return posenc_fail(&x->error, PE_NOT_FOUND, "UNKNOWN_TENSOR", field, name, near ? "did you mean %s?" : "one of: %s",
                       near ? near : names);
}

posenc_status pe_select(pe_exchange *x, const posenc_result *shape)
{
    pe_asked *a = &x->asked;
    posenc_status st = PE_OK;
    a->selection.tensors = 0;
    if (a->tensor[0])
        st = select_one(x, shape, "tensor", a->tensor);
    char list[sizeof a->tensors], *rest = a->tensors[0] ? memcpy(list, a->tensors, sizeof list) : NULL;
    for (size_t k = 0; rest && !x->error.dropped; k++) {
        char *name = strsep(&rest, ",");
        posenc_short field = posenc_text("tensors[%zu]", k);
        st = graver(st, *name ? select_one(x, shape, field.s, name)
                              : posenc_fail(&x->error, PE_INVALID, bad, field.s, "(empty)", "the name of an output"));
    }
    if (a->selection.tensors == (1u << shape->ntensors) - 1) /* all is all: one tag, one container */
        a->selection.tensors = 0;
    if (a->format == PE_json)
        a->selection.json_limit = pe_service_config(x->service)->max_json_elements;
    if (a->format == PE_csv)
        a->selection.csv_limit = pe_service_config(x->service)->max_csv_elements;
    if (a->format == PE_png || a->format == PE_svg)
        a->selection.plot_limit = pe_service_config(x->service)->max_plot_elements;
    return st;
}
