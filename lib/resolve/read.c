/* read.c - keys of a configuration: other spellings, class defaults, values that are checked where they are read. */
#include "resolve/resolve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool pe_model_flag(const pe_section *s, unsigned flag) { return s->model && s->model->flags & flag; }

/* ---- words in the arena -------------------------------------------------------------------------------------- */

char *pe_print_text(pe_resolver *r, const char *format, ...)
{
    static char nothing[1];
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : posenc_alloc(r->arena, (size_t)n + 1);
    r->failed |= !s;
    if (s)
        vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    return s ? s : nothing;
}

/* What was cut off at a buffer's end may leave a part of a character: UTF-8 stays UTF-8. */
static size_t trim(char *s, size_t n)
{
    size_t i = n;
    while (i && ((unsigned char)s[i - 1] & 0xc0) == 0x80)
        i--;
    if (i && (unsigned char)s[i - 1] >= 0xc0) {
        const unsigned char lead = (unsigned char)s[i - 1];
        const size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        if (n - (i - 1) < need)
            n = i - 1;
    }
    s[n] = 0;
    return n;
}

/* The key's place in the document: "text_config.rope_scaling.factor". */
static size_t put_path(const pe_node *node, char *out, size_t size)
{
    size_t n = node->parent ? put_path(node->parent, out, size) : 0;
    if (!node->key)
        return n;
    int more = snprintf(out + n, size - n, "%s%s", n ? "." : "", node->key);
    return n + (size_t)more < size ? n + (size_t)more : trim(out, size - 1);
}

const char *pe_key_path_in(const pe_section *s, const pe_node *object, const char *key)
{
    char buf[512] = "";
    size_t n = put_path(object, buf, sizeof buf);
    if (!key)
        return pe_print_text(s->r, "%s", n ? buf : "$");
    return pe_print_text(s->r, "%s%s%s", buf, n ? "." : "", key);
}

const char *pe_key_path(const pe_section *s, const char *key) { return pe_key_path_in(s, s->node, key); }

/* ---- faults, warnings, defaults ------------------------------------------------------------------------------ */

/* One key is looked at by several schemes: its fault is told once. */
static bool told_already(const posenc_error *err, const char *path)
{
    posenc_error probe = { 0 };
    posenc_fail(&probe, PE_INVALID, "", path, "", "%s", "");
    for (unsigned i = 0; i < err->n; i++)
        if (!strcmp(err->fault[i].field, probe.fault[0].field))
            return true;
    return false;
}

void pe_reject(const pe_section *s, const char *path, const char *value, const char *allowed, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, allowed);
    vsnprintf(text, sizeof text, allowed, ap);
    va_end(ap);
    if (!told_already(s->r->err, path))
        posenc_fail(s->r->err, PE_INVALID, "INVALID_PARAMETER", path, value, "%s", text);
}

void pe_reject_missing(const pe_section *s, const char *path, const char *why)
{
    if (!told_already(s->r->err, path))
        posenc_fail(s->r->err, PE_INVALID, "MISSING_PARAMETER", path, "absent", "%s", why);
}

static posenc_short show(pe_found f)
{
    if (!f.value.p)
        return posenc_text("absent");
    return f.node ? pe_node_show(f.node, f.value) : pe_json_show(f.value);
}

void pe_reject_value(const pe_section *s, pe_found f, const char *allowed, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, allowed);
    vsnprintf(text, sizeof text, allowed, ap);
    va_end(ap);
    pe_reject(s, f.path, show(f).s, "%s", text);
}

/* Room for one more element of a list in the arena, which grows by doubling. NULL: no memory. */
static void *one_more(pe_resolver *r, const void *list, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return (void *)(uintptr_t)list;
    size_t more = *room ? 2 * *room : 16;
    void *p = posenc_alloc(r->arena, more * size);
    r->failed |= !p;
    if (!p)
        return NULL;
    if (n)
        memcpy(p, list, n * size);
    *room = more;
    return p;
}

/* Warnings become lines of headers and of a terminal: no control characters, and not more than somebody reads. */
void pe_resolve_warning(const pe_section *s, const char *format, ...)
{
    enum { MOST = 32 };
    char text[600];
    va_list ap;
    va_start(ap, format);
    if (vsnprintf(text, sizeof text, format, ap) >= (int)sizeof text)
        trim(text, sizeof text - 1);
    va_end(ap);
    posenc_resolution *out = s->r->out;
    if (out->nwarnings >= MOST)
        snprintf(text, sizeof text, "further warnings are left out");
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    for (size_t i = 0; i < out->nwarnings; i++)
        if (!strcmp(out->warning[i], text))
            return;
    const char **list = one_more(s->r, out->warning, out->nwarnings, &s->r->room_warnings, sizeof *list);
    if (!list)
        return;
    out->warning = list;
    list[out->nwarnings++] = pe_print_text(s->r, "%s", text);
}

void pe_default_used(const pe_section *s, const char *path, const char *json, size_t n)
{
    posenc_resolution *out = s->r->out;
    for (size_t i = 0; i < out->ndefaults; i++)
        if (!strcmp(out->default_used[i].path, path))
            return;
    posenc_default *list = one_more(s->r, out->default_used, out->ndefaults, &s->r->room_defaults, sizeof *list);
    const char *text = posenc_strdup(s->r->arena, json, n);
    s->r->failed |= !text;
    if (!list || !text)
        return;
    out->default_used = list;
    list[out->ndefaults++] = (posenc_default){ path, text };
}

/* ---- finding ------------------------------------------------------------------------------------------------- */

bool pe_found_any(pe_found f) { return f.value.p != NULL; }

/* The next name of "a|b|c"; NULL after the last. */
static const char *next_name(const char **names, char name[64])
{
    size_t n = strcspn(*names, "|");
    if (!n)
        return NULL;
    snprintf(name, 64, "%.*s", (int)n, *names);
    *names += n + ((*names)[n] == '|');
    return name;
}

static bool same_value(pe_json a, pe_json b)
{
    double x, y;
    if (pe_json_type(a) == PE_J_NUMBER && pe_json_type(b) == PE_J_NUMBER && pe_json_real(a, &x) && pe_json_real(b, &y))
        return x == y;
    return a.end - a.p == b.end - b.p && !memcmp(a.p, b.p, (size_t)(a.end - a.p));
}

static pe_found find_in(const pe_section *s, const pe_node *object, const char *names)
{
    pe_found f = { 0 };
    char name[64];
    while (next_name(&names, name)) {
        const pe_node *node = pe_node_member(object, name);
        if (!node)
            continue;
        if (!pe_found_any(f)) {
            f = (pe_found){ node, pe_key_path_in(s, object, name), node->key, node->value };
        } else if (!same_value(f.value, node->value)) {
            pe_reject(s, pe_key_path_in(s, object, name), pe_node_show(node, node->value).s,
                      "%s, as %s says: the two mean the same", show(f).s, f.path);
        }
    }
    return f;
}

pe_found pe_key_in(const pe_section *s, const pe_node *object, const char *names)
{
    return pe_node_is_object(object) ? find_in(s, object, names) : (pe_found){ 0 };
}

pe_found pe_given_key(const pe_section *s, const char *names) { return find_in(s, s->node, names); }

/* The value in "key=value key=value", or one with p NULL. */
static pe_json default_of(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p += strspn(p, " ")) {
        size_t m = strcspn(p, " ");
        if (m > n && p[n] == '=' && !memcmp(p, name, n))
            return (pe_json){ p + n + 1, p + m };
        p += m;
    }
    return (pe_json){ 0 };
}

pe_found pe_key(const pe_section *s, const char *names)
{
    pe_found f = pe_given_key(s, names);
    char name[64];
    if (pe_found_any(f) || !s->model || s->guess)
        return f;
    while (next_name(&names, name)) {
        f.value = default_of(s->model->defaults, name);
        if (!f.value.p)
            continue;
        f.path = pe_key_path(s, name);
        f.name = pe_print_text(s->r, "%s", name);
        size_t n = (size_t)(f.value.end - f.value.p);
        const bool word = pe_json_type(f.value) != PE_J_BOOL && *f.value.p >= 'a' && *f.value.p <= 'z';
        const char *json = word ? pe_print_text(s->r, "\"%.*s\"", (int)n, f.value.p) : f.value.p;
        pe_default_used(s, f.path, json, word ? n + 2 : n);
        break;
    }
    return f;
}

pe_found pe_required_key(const pe_section *s, const char *names)
{
    pe_found f = pe_key(s, names);
    char name[64] = "";
    if (pe_found_any(f))
        return f;
    const char *rest = names;
    next_name(&rest, name);
    pe_reject_missing(s, pe_key_path(s, name),
                      "the key: positions depend on it, and nothing says what its default would be");
    return f;
}

/* ---- values -------------------------------------------------------------------------------------------------- */

bool pe_as_int(const pe_section *s, pe_found f, int64_t min, int64_t max, int64_t *out)
{
    if (!pe_found_any(f))
        return false;
    if (pe_json_type(f.value) == PE_J_NUMBER && pe_json_int(f.value, out) && *out >= min && *out <= max)
        return true;
    pe_reject_value(s, f, "an integer from %lld to %lld", (long long)min, (long long)max);
    return false;
}

bool pe_as_real(const pe_section *s, pe_found f, double *out)
{
    if (!pe_found_any(f))
        return false;
    if (pe_json_type(f.value) == PE_J_NUMBER && pe_json_real(f.value, out) && isfinite(*out))
        return true;
    pe_reject_value(s, f, "a number");
    return false;
}

bool pe_as_positive(const pe_section *s, pe_found f, double *out)
{
    if (!pe_as_real(s, f, out))
        return false;
    if (*out > 0)
        return true;
    pe_reject_value(s, f, "a number over 0");
    return false;
}

bool pe_as_bool(const pe_section *s, pe_found f, bool *out)
{
    if (!pe_found_any(f))
        return false;
    if (pe_json_type(f.value) == PE_J_BOOL) {
        *out = pe_json_true(f.value);
        return true;
    }
    pe_reject_value(s, f, "true or false");
    return false;
}

const char *pe_as_word(const pe_section *s, pe_found f)
{
    if (!pe_found_any(f))
        return NULL;
    if (!f.node && *f.value.p != '"') /* words among class defaults stand without quotes */
        return pe_print_text(s->r, "%.*s", (int)(f.value.end - f.value.p), f.value.p);
    if (pe_json_type(f.value) != PE_J_STRING) {
        pe_reject_value(s, f, "a word in quotes");
        return NULL;
    }
    char *word = posenc_alloc(s->r->arena, (size_t)(f.value.end - f.value.p));
    s->r->failed |= !word;
    if (word)
        pe_json_string(f.value, word);
    return word;
}

bool pe_is_null(const pe_section *s, const char *key)
{
    for (size_t i = 0; i < s->node->n; i++)
        if (!strcmp(s->node->child[i].key, key))
            return pe_json_type(s->node->child[i].value) == PE_J_NULL;
    return false;
}

bool pe_is_list(pe_found f) { return pe_found_any(f) && pe_json_type(f.value) == PE_J_ARRAY; }

size_t pe_list_size(pe_found f)
{
    size_t n = 0;
    pe_json e = { 0 };
    if (pe_is_list(f))
        while (pe_json_next(f.value, &e))
            n++;
    return n;
}

bool pe_is_true(const pe_section *s, const char *names)
{
    bool v = false;
    return pe_as_bool(s, pe_given_key(s, names), &v) && v;
}

bool pe_read_pair(const pe_section *s, pe_found f, int64_t min, int64_t out[2])
{
    if (!pe_is_list(f)) {
        if (!pe_as_int(s, f, min, 1 << 24, &out[0]))
            return false;
        out[1] = out[0];
        return true;
    }
    pe_json e = { 0 };
    size_t n = 0;
    for (; n < 2 && pe_json_next(f.value, &e); n++)
        if (pe_json_type(e) != PE_J_NUMBER || !pe_json_int(e, &out[n]) || out[n] < min || out[n] > 1 << 24)
            break;
    if (n == 2 && pe_list_size(f) == 2)
        return true;
    pe_reject_value(s, f, "an integer from %lld on, or a list of two: height, width", (long long)min);
    return false;
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

bool pe_read_heads(const pe_section *s, int64_t *out, pe_found *from)
{
    *from = pe_required_key(s, "num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads|attention_heads");
    return pe_as_int(s, *from, 1, 1 << 20, out);
}

bool pe_read_width(const pe_section *s, int64_t *out, pe_found *from)
{
    *from = pe_required_key(s, "hidden_size|n_embd|d_model|dim|width");
    return pe_as_int(s, *from, 1, 1 << 24, out);
}

bool pe_read_head_dim(const pe_section *s, const char *names, int64_t *out, const char **path)
{
    int64_t width = 0, heads = 0;
    pe_found f = pe_key(s, names), w, h;
    if (pe_found_any(f)) {
        *path = f.path;
        pe_found given = pe_given_key(s, "num_attention_heads|n_head|n_heads|num_heads");
        return pe_as_int(s, f, 1, 1 << 20, out) &&
               (!pe_found_any(given) || pe_is_list(given) || pe_as_int(s, given, 1, 1 << 20, &heads));
    }
    bool good = pe_read_heads(s, &heads, &h);
    if (!pe_read_width(s, &width, &w) || !good)
        return false;
    if (width % heads) {
        pe_reject(s, h.path, posenc_text("%lld", (long long)heads).s, "a divisor of %s, which is %lld, or %s beside it",
                  w.path, (long long)width, names[0] ? pe_key_path(s, "head_dim") : "the width of a head");
        return false;
    }
    *out = width / heads;
    *path = h.path;
    return true;
}

/* ---- facts --------------------------------------------------------------------------------------------------- */

const char *pe_model_fact(const pe_section *s, const char *name)
{
    pe_json v = s->model ? default_of(s->model->defaults, name) : (pe_json){ 0 };
    return v.p ? pe_print_text(s->r, "%.*s", (int)(v.end - v.p), v.p) : NULL;
}

int64_t pe_model_fact_int(const pe_section *s, const char *name, int64_t otherwise)
{
    pe_json v = s->model ? default_of(s->model->defaults, name) : (pe_json){ 0 };
    int64_t n;
    return v.p && pe_json_int(v, &n) ? n : otherwise;
}
