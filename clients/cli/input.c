#include "input.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static posenc_status no_memory(const char *field, posenc_error *err)
{
    return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", field, "", "a smaller file, or more memory");
}

/* ---- files ---- */

static posenc_status read_all(int fd, const char *path, const char *field, posenc_arena *a, const char **bytes, size_t *size,
                              posenc_error *err)
{
    struct stat s;
    size_t cap = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0 ? (size_t)s.st_size + 1 : 65536, n = 0;
    char *p = posenc_alloc(a, cap);
    while (p) {
        if (n + 1 == cap) {
            char *more = posenc_alloc(a, cap * 2);
            if (more)
                memcpy(more, p, n);
            p = more;
            cap *= 2;
            continue;
        }
        ssize_t k = read(fd, p + n, cap - 1 - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return posenc_fail(err, PE_INVALID, "FILE", field, path, "a file that can be read: %s", strerror(errno));
        if (k == 0) {
            p[n] = 0;
            *bytes = p;
            *size = n;
            return PE_OK;
        }
        n += (size_t)k;
        if (n + 1 == cap && n == (size_t)s.st_size && S_ISREG(s.st_mode)) { /* the usual end of a regular file */
            p[n] = 0;
            *bytes = p;
            *size = n;
            return PE_OK;
        }
    }
    return no_memory(field, err);
}

posenc_status input_file(const char *path, const char *field, posenc_arena *a, const char **bytes, size_t *size,
                         posenc_error *err)
{
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
    if (fd < 0)
        return posenc_fail(err, PE_INVALID, "FILE", field, path, "a file that can be read: %s", strerror(errno));
    posenc_status st = read_all(fd, path, field, a, bytes, size, err);
    close(fd);
    return st;
}

/* ---- graphs in JSON ---- */

static size_t count(js array)
{
    js v;
    size_t n = 0;
    for (js_walk w = js_begin(array); js_next(&w, NULL, &v);)
        n++;
    return n;
}

static posenc_status wrong(const char *field, js v, const char *allowed, posenc_error *err)
{
    char text[64];
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", field, js_text(v, text, sizeof text), "%s", allowed);
}

static posenc_status read_ints(js array, const char *field, int64_t *out, posenc_error *err)
{
    js v;
    size_t i = 0;
    for (js_walk w = js_begin(array); js_next(&w, NULL, &v); i++)
        if (!js_int(v, &out[i]))
            return wrong(posenc_text("%.40s[%zu]", field, i).s, v, "an integer", err);
    return PE_OK;
}

static posenc_status read_list(js v, const char *field, const char *name, posenc_dtype type, posenc_arena *a,
                               posenc_tensor *t, posenc_error *err)
{
    js e;
    size_t i = 0;
    if (js_kind(v) != '[')
        return wrong(field, v, "a list of numbers", err);
    *t = (posenc_tensor){ .name = name, .dtype = type, .rank = 1, .shape = { (int64_t)count(v) } };
    t->data = posenc_alloc(a, (size_t)t->shape[0] * 8 + 8);
    if (!t->data)
        return no_memory(field, err);
    if (type == PE_int64)
        return read_ints(v, field, t->data, err);
    for (js_walk w = js_begin(v); js_next(&w, NULL, &e); i++)
        if (!js_real(e, (double *)t->data + i))
            return wrong(posenc_text("%.40s[%zu]", field, i).s, e, "a number", err);
    return PE_OK;
}

static posenc_status read_edges(js v, posenc_arena *a, posenc_tensor *t, posenc_error *err)
{
    static const char field[] = "graph.edge_index";
    js_walk w = js_begin(v);
    js side[2] = { { NULL }, { NULL } }, extra;
    bool two = js_kind(v) == '[' && js_next(&w, NULL, &side[0]) && js_next(&w, NULL, &side[1]) && !js_next(&w, NULL, &extra);
    if (!two || js_kind(side[0]) != '[' || js_kind(side[1]) != '[')
        return wrong(field, v, "[[sources], [targets]]", err);
    size_t m = count(side[0]), other = count(side[1]);
    if (m != other)
        return posenc_fail(err, PE_INVALID, "INVALID_SHAPE", field, posenc_text("%zu sources, %zu targets", m, other).s,
                           "as many targets as sources");
    *t = (posenc_tensor){ .name = "edge_index", .dtype = PE_int64, .rank = 2, .shape = { 2, (int64_t)m } };
    int64_t *p = t->data = posenc_alloc(a, m * 16 + 8);
    if (!p)
        return no_memory(field, err);
    posenc_status st = read_ints(side[0], "graph.edge_index[0]", p, err);
    return st ? st : read_ints(side[1], "graph.edge_index[1]", p + m, err);
}

static posenc_status read_member(const order *o, js key, js v, posenc_arena *a, input *in, posenc_error *err)
{
    char name[64];
    if (js_kind(v) == 'n')
        return PE_OK;
    if (js_is(key, "num_nodes")) {
        int64_t n;
        if (!js_int(v, &n) || n < 0)
            return wrong("graph.num_nodes", v, "an integer, 0 or more", err);
        in->num_nodes = o->num_nodes >= 0 ? o->num_nodes : n;
        return PE_OK;
    }
    if (js_is(key, "directed")) {
        if (js_kind(v) != 't' && js_kind(v) != 'f')
            return wrong("graph.directed", v, "true or false", err);
        in->directed = o->has_directed ? o->directed : js_kind(v) == 't';
        return PE_OK;
    }
    posenc_tensor *t = &in->tensor[in->n++];
    if (js_is(key, "edge_index"))
        return read_edges(v, a, t, err);
    if (js_is(key, "edge_weight"))
        return read_list(v, "graph.edge_weight", "edge_weight", PE_float64, a, t, err);
    if (js_is(key, "ptr"))
        return read_list(v, "graph.ptr", "ptr", PE_int64, a, t, err);
    in->n--;
    return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", posenc_text("graph.%s", js_text(key, name, sizeof name)).s,
                       "unknown name", "num_nodes, edge_index, edge_weight, directed, ptr");
}

static bool named_before(js root, js key)
{
    char name[64];
    js k, v;
    js_text(key, name, sizeof name);
    for (js_walk w = js_begin(root); js_next(&w, &k, &v) && k.s < key.s;)
        if (js_is(k, name))
            return true;
    return false;
}

static posenc_status read_json(const order *o, const char *s, size_t n, posenc_arena *a, input *in, posenc_error *err)
{
    js root, key, v;
    posenc_status st = PE_OK;
    if (!js_open(s, n, &root) || js_kind(root) != '{')
        return posenc_fail(err, PE_INVALID, "INVALID_JSON", "graph", o->graph,
                           "{\"num_nodes\": N, \"edge_index\": [[..], [..]]}");
    if (count(root) > PE_MAX_OUTPUTS)
        return posenc_fail(err, PE_INVALID, "INVALID_JSON", "graph", o->graph,
                           "num_nodes, edge_index, edge_weight, directed, ptr");
    for (js_walk w = js_begin(root); js_next(&w, &key, &v) && !st;)
        st = named_before(root, key) ? wrong("graph", key, "every name once", err) : read_member(o, key, v, a, in, err);
    return st;
}

/* ---- files of tensors ---- */

static posenc_status add(input *in, const posenc_tensor *t, size_t n, const char *field, posenc_error *err)
{
    if (in->n + n > PE_MAX_OUTPUTS)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", field, posenc_text("%zu tensors", in->n + n).s,
                           "at most %d tensors", PE_MAX_OUTPUTS);
    if (n)
        memcpy(in->tensor + in->n, t, n * sizeof *t);
    in->n += n;
    return PE_OK;
}

static bool is_safetensors(const char *s, size_t n)
{
    uint64_t length = 0;
    for (int i = 7; n > 8 && i >= 0; i--)
        length = length << 8 | (unsigned char)s[i];
    return n > 8 && s[8] == '{' && length <= n - 8;
}

/* One tensor of a file, called `name`: that of a .npy, or of several the one of that name, or the only one. */
static posenc_status read_one(const char *path, const char *field, const char *name, posenc_arena *a, input *in,
                              posenc_error *err)
{
    const char *s;
    size_t size, n = 1, at = 0;
    posenc_tensor one, *t = &one;
    posenc_status st = input_file(path, field, a, &s, &size, err);
    if (st)
        return st;
    const bool zip = size >= 4 && !memcmp(s, "PK\3\4", 4);
    if (zip)
        st = posenc_read_npz(s, size, field, &t, &n, a, err);
    else if (is_safetensors(s, size))
        st = posenc_read_safetensors(s, size, field, &t, &n, a, err);
    else
        st = posenc_read_npy(s, size, field, &one, a, err);
    if (st)
        return st;
    while (n > 1 && at < n && strcmp(t[at].name, name) != 0)
        at++;
    if (at == n || !n)
        return posenc_fail(err, PE_INVALID, "UNKNOWN_TENSOR", field, posenc_text("%zu tensors", n).s,
                           "a tensor called %s, or a file with one tensor", name);
    t[at].name = name;
    return add(in, &t[at], 1, field, err);
}

/* The kind of file is told by its first bytes, not by its name. */
static posenc_status read_graph(const order *o, posenc_arena *a, input *in, posenc_error *err)
{
    const char *s;
    size_t size, n;
    posenc_tensor one, *t;
    posenc_status st = input_file(o->graph, "graph", a, &s, &size, err);
    if (st)
        return st;
    if (size >= 6 && !memcmp(s, "\x93NUMPY", 6)) {
        st = posenc_read_npy(s, size, "graph", &one, a, err);
        one.name = "edge_index";
        return st ? st : add(in, &one, 1, "graph", err);
    }
    bool zip = size >= 4 && !memcmp(s, "PK\3\4", 4);
    if (!zip && !is_safetensors(s, size))
        return read_json(o, s, size, a, in, err);
    st = zip ? posenc_read_npz(s, size, "graph", &t, &n, a, err) : posenc_read_safetensors(s, size, "graph", &t, &n, a, err);
    return st ? st : add(in, t, n, "graph", err);
}

posenc_status input_read(const order *o, posenc_arena *a, input *in, posenc_error *err)
{
    posenc_status st = PE_OK;
    *in = (input){ .num_nodes = o->num_nodes, .directed = o->directed };
    in->tensor = posenc_alloc(a, 2 * PE_MAX_OUTPUTS * sizeof *in->tensor);
    if (!in->tensor)
        return no_memory("memory", err);
    if (o->graph && (st = read_graph(o, a, in, err)))
        return st;
    if (o->weights && (st = read_one(o->weights, "weights", "edge_weight", a, in, err)))
        return st;
    for (size_t i = 0; i < o->ninputs && !st; i++) {
        const pair *p = &o->inputs[i];
        char field[128];
        snprintf(field, sizeof field, "input %.40s=%.80s", p->name, p->value);
        st = read_one(p->value, field, p->name, a, in, err);
    }
    return st;
}
