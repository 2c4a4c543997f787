/* tree.c - a configuration's JSON as objects whose members are found by name. */
#include "resolve/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Python writes NaN, Infinity and -Infinity, which are no JSON. In the copy each becomes a string of the same length, so
 * that every place keeps its offset, and who wants a number there finds none. */
static void admit_words(char *s, size_t n)
{
    static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"') { /* a string: over it */
            for (i++; i < n && s[i] != '"'; i++)
                i += s[i] == '\\';
            continue;
        }
        for (size_t k = 0; k < 3; k++) {
            size_t m = strlen(words[k]);
            if (n - i < m || memcmp(s + i, words[k], m) != 0)
                continue;
            memset(s + i, 'x', m);
            s[i] = s[i + m - 1] = '"';
            i += m - 1;
            break;
        }
    }
}

static int by_key(const void *a, const void *b)
{
    const pe_node *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->original > y->original) - (x->original < y->original);
}

static size_t path_of(const pe_node *node, char *out, size_t size)
{
    if (!node->key)
        return 0;
    size_t n = path_of(node->parent, out, size);
    int more = snprintf(out + n, size - n, "%s%.60s", n ? "." : "", node->key);
    return n + (size_t)more < size ? n + (size_t)more : size - 1;
}

/* Reads the members of `node`, which is an object, and theirs; at most PE_JSON_DEPTH deep. */
static posenc_status read_object(pe_node *node, const char *copy, const char *original, posenc_arena *a, posenc_error *err)
{
    pe_json key = { 0 }, value = { 0 };
    size_t n = 0;
    while (pe_json_member(node->value, &key, &value))
        n++;
    pe_node *child = n ? posenc_alloc(a, n * sizeof *child) : NULL;
    if (n && !child)
        return pe_no_memory("$", err);
    key = value = (pe_json){ 0 };
    for (size_t i = 0; pe_json_member(node->value, &key, &value); i++) {
        char *name = posenc_alloc(a, (size_t)(key.end - key.p) + 1);
        if (!name)
            return pe_no_memory("$", err);
        pe_json_string(key, name);
        child[i] = (pe_node){ .parent = node, .key = name, .value = value, .original = original + (value.p - copy) };
    }
    if (n)
        qsort(child, n, sizeof *child, by_key);
    node->child = child;
    node->n = n;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && !strcmp(child[i].key, child[i + 1].key)) {
            char path[256] = "";
            path_of(&child[i], path, sizeof path);
            return posenc_fail(err, PE_INVALID, "DUPLICATE_PARAMETER", path[0] ? path : "$",
                               pe_node_show(&child[i + 1], child[i + 1].value).s,
                               "once: the key stands twice in its object");
        }
        posenc_status st = pe_json_type(child[i].value) == PE_J_OBJECT ? read_object(&child[i], copy, original, a, err)
                                                                       : PE_OK;
        if (st)
            return st;
    }
    return PE_OK;
}

const pe_node *pe_tree_read(const char *json, size_t n, posenc_arena *a, posenc_error *err)
{
    if (n > PE_CONFIG_SIZE) {
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "$", posenc_text("%zu bytes", n).s, "at most %d bytes of configuration",
                    PE_CONFIG_SIZE);
        return NULL;
    }
    char *copy = posenc_strdup(a, json, n);
    pe_node *root = posenc_alloc(a, sizeof *root);
    if (!copy || !root) {
        pe_no_memory("$", err);
        return NULL;
    }
    admit_words(copy, n);
    if (pe_json_check(copy, n, "$", &root->value, err))
        return NULL;
    root->original = json + (root->value.p - copy);
    if (pe_json_type(root->value) != PE_J_OBJECT) {
        posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "$", pe_json_show(root->value).s,
                    "an object, as config.json has it: {\"model_type\": ...}");
        return NULL;
    }
    return read_object(root, copy, json, a, err) ? NULL : root;
}

bool pe_node_is_object(const pe_node *node) { return node && pe_json_type(node->value) == PE_J_OBJECT; }

const pe_node *pe_node_member(const pe_node *object, const char *key)
{
    size_t low = 0, high = object->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(object->child[mid].key, key);
        if (!order)
            return pe_json_type(object->child[mid].value) == PE_J_NULL ? NULL : &object->child[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

posenc_short pe_node_show(const pe_node *node, pe_json part)
{
    const char *p = node->original + (part.p - node->value.p);
    size_t n = (size_t)(part.end - part.p);
    return posenc_text("%.*s", (int)(n < 200 ? n : 200), p);
}
