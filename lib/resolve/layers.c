/* layers.c - which layer is of which type: lists of words or numbers, or a rule with a period. */
#include "resolve/resolve.h"

#include <string.h>

/* The words that configurations use, and whether such layers look at positions by a rotation. */
static const struct {
    const char *word;
    bool rotates;
} words[] = {
    { "full_attention", true },
    { "sliding_attention", true },
    { "chunked_attention", true },
    { "window_attention", true },
    { "indexed_attention", true },
    { "deepseek_sparse_attention", true },
    { "compressed_sparse_attention", true },
    { "heavily_compressed_attention", true },
    { "minimax_m3_sparse", true },
    { "reference_sliding_attention", true },
    { "attention", true },
    { "global_attention", true },
    { "local_attention", true },
    { "hybrid", true },
    { "hybrid_sliding", true },
    { "sparse", true },
    { "dense", true },
    { "linear_attention", false },
    { "cross_attention", false },
    { "mamba", false },
    { "mamba2", false },
    { "conv", false },
    { "recurrent", false },
    { "moe", false },
    { "mlp", false },
};

static const char *known_word(pe_json v)
{
    for (size_t i = 0; i < PE_LEN(words); i++)
        if (pe_json_is(v, words[i].word))
            return words[i].word;
    return NULL;
}

bool pe_type_known(const char *type)
{
    for (size_t i = 0; i < PE_LEN(words); i++)
        if (!strcmp(words[i].word, type))
            return true;
    return false;
}

bool pe_type_rotates(const char *type)
{
    for (size_t i = 0; i < PE_LEN(words); i++)
        if (!strcmp(words[i].word, type))
            return words[i].rotates;
    return true;
}

static void append(pe_layers *l, const char *type)
{
    if (l->n < PE_MAX_LAYERS)
        l->of[l->n++] = type;
    for (size_t i = 0; i < l->ntypes; i++)
        if (!strcmp(l->type[i], type))
            return;
    if (l->ntypes < PE_MAX_TYPES)
        l->type[l->ntypes++] = type;
}

/* How many layers there are; 0: the configuration does not say. */
static bool read_count(const pe_section *s, bool needed, int64_t *n)
{
    static const char names[] = "num_hidden_layers|n_layer|n_layers|num_layers";
    pe_found f = needed ? pe_key(s, names) : pe_given_key(s, names);
    *n = 0;
    return !pe_found_any(f) || pe_as_int(s, f, 0, PE_MAX_LAYERS, n);
}

/* Lists may go on over the layers that predict further tokens. */
static bool fits(const pe_section *s, pe_found list, size_t size, int64_t n)
{
    int64_t more = 0;
    pe_found f = pe_given_key(s, "num_nextn_predict_layers");
    if (pe_found_any(f) && !pe_as_int(s, f, 0, PE_MAX_LAYERS, &more))
        return false;
    if (!n || size == (size_t)n || size == (size_t)(n + more))
        return true;
    pe_reject(s, list.path, posenc_text("%zu elements", size).s, "%lld elements: one a layer", (long long)n);
    return false;
}

/* layer_types: words. hybrid_layer_pattern: 1 slides. */
static bool read_list(const pe_section *s, pe_found f, bool numbers, int64_t n, pe_layers *out)
{
    pe_json e = { 0 };
    size_t size = pe_list_size(f), i = 0;
    if (!pe_is_list(f) || size > PE_MAX_LAYERS) {
        pe_reject_value(s, f, "a list of at most %d layer types", PE_MAX_LAYERS);
        return false;
    }
    if (!fits(s, f, size, n))
        return false;
    for (; (!n || i < (size_t)n) && pe_json_next(f.value, &e); i++) {
        int64_t slides = -1;
        const char *word = NULL;
        if (!numbers)
            word = known_word(e);
        else if (pe_json_type(e) == PE_J_NUMBER && pe_json_int(e, &slides) && (slides == 0 || slides == 1))
            word = slides ? "sliding_attention" : "full_attention";
        if (!word) {
            pe_reject(s, pe_print_text(s->r, "%s[%zu]", f.path, i), pe_node_show(f.node, e).s,
                      numbers ? "0 (full attention) or 1 (sliding)"
                              : "a layer type: full_attention, sliding_attention, ...");
            return false;
        }
        append(out, word);
    }
    return true;
}

/* Numbers of layers, counted from `base`: they are of type `in`, the others of type `out`. */
static bool read_numbers(const pe_section *s, pe_found f, int64_t base, int64_t n, const char *in, const char *others,
                         pe_layers *out)
{
    static bool nothing;
    bool *member = n ? posenc_alloc(s->r->arena, (size_t)n) : &nothing;
    pe_json e = { 0 };
    int64_t k;
    s->r->failed |= !member;
    if (!member)
        return false;
    if (!pe_is_list(f)) {
        pe_reject_value(s, f, "a list of layer numbers");
        return false;
    }
    for (size_t i = 0; pe_json_next(f.value, &e); i++) {
        if (pe_json_type(e) != PE_J_NUMBER || !pe_json_int(e, &k) || k < base || k - base >= n) {
            pe_reject(s, pe_print_text(s->r, "%s[%zu]", f.path, i), pe_node_show(f.node, e).s, "a layer from %lld to %lld",
                      (long long)base, (long long)(n - 1 + base));
            return false;
        }
        member[k - base] = true;
    }
    for (int64_t i = 0; i < n; i++)
        append(out, member[i] ? in : others);
    return true;
}

/* "LLLG": local and global layers, repeated. */
static bool read_letters(const pe_section *s, pe_found f, int64_t n, pe_layers *out)
{
    const char *p = pe_as_word(s, f);
    if (!p)
        return false;
    size_t period = strlen(p);
    if (!period || strspn(p, "LG") != period) {
        pe_reject_value(s, f, "a number, or letters L (local) and G (global)");
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        append(out, p[(size_t)i % period] == 'L' ? "sliding_attention" : "full_attention");
    return true;
}

static bool read_rule(const pe_section *s, const char *key, bool first, const char *others, int64_t n, pe_layers *out)
{
    pe_found f = pe_key(s, key);
    int64_t period;
    if (!pe_found_any(f))
        return true;
    out->path = f.path;
    if (pe_json_type(f.value) == PE_J_STRING)
        return read_letters(s, f, n, out);
    if (!pe_as_int(s, f, 1, PE_MAX_LAYERS, &period))
        return false;
    for (int64_t i = 0; i < n; i++)
        append(out, (i + !first) % period ? others : "full_attention");
    return true;
}

bool pe_read_layers(const pe_section *s, pe_layers *out)
{
    static const struct {
        unsigned flag;
        const char *key, *others;
        bool first;
    } rules[] = {
        { PE_LAST_FULL, "sliding_window_pattern", "sliding_attention", false },
        { PE_FIRST_FULL, "global_attn_every_n_layers", "sliding_attention", true },
        { PE_LAST_LINEAR, "full_attention_interval", "linear_attention", false },
    };
    int64_t n;
    out->n = out->ntypes = 0;
    out->path = NULL;
    pe_found list = pe_given_key(s, "layer_types|layers_block_type"), numbers = pe_given_key(s, "hybrid_layer_pattern"),
             cross = pe_given_key(s, "cross_attention_layers"), full = pe_given_key(s, "full_attn_idxs"),
             attention = pe_given_key(s, "attn_layer_indices");
    const bool counted = pe_found_any(cross) || pe_found_any(full) || pe_found_any(attention);
    if (!read_count(s, counted || (!pe_found_any(list) && !pe_found_any(numbers) && pe_model_flag(s, PE_PER_TYPE)), &n))
        return false;
    pe_found given = pe_found_any(list)      ? list
                     : pe_found_any(numbers) ? numbers
                     : pe_found_any(cross)   ? cross
                     : pe_found_any(full)    ? full
                                             : attention;
    out->path = given.path;
    if (pe_found_any(list) || pe_found_any(numbers))
        return read_list(s, given, !pe_found_any(list), n, out);
    if (counted && n)
        return pe_found_any(cross)
                   ? read_numbers(s, cross, 0, n, "cross_attention", "full_attention", out)
                   : read_numbers(s, given, 0, n, "full_attention", pe_found_any(full) ? "conv" : "mamba", out);
    for (size_t i = 0; i < PE_LEN(rules); i++)
        if (pe_model_flag(s, rules[i].flag) || (!s->model && pe_found_any(pe_given_key(s, rules[i].key))))
            return read_rule(s, rules[i].key, rules[i].first, rules[i].others, n, out);
    for (const char *all = pe_model_fact(s, "@all"); all && out->n < (size_t)n;)
        append(out, all);
    return true;
}

const int64_t *pe_layers_of(const pe_section *s, const pe_layers *l, const char *type, size_t *n)
{
    int64_t *list = l->n ? posenc_alloc(s->r->arena, l->n * sizeof *list) : NULL;
    *n = 0;
    s->r->failed |= l->n && !list;
    for (size_t i = 0; list && i < l->n; i++)
        if (type ? !strcmp(l->of[i], type) : pe_type_rotates(l->of[i]))
            list[(*n)++] = (int64_t)i;
    return list;
}
