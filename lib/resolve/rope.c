/* rope.c - rotary embeddings of text towers: base, width, scaling block, layer types, layouts. */
#include "resolve/resolve.h"

#include <stdio.h>
#include <string.h>

static const char base_names[] = "rope_theta|rotary_emb_base|rotary_embedding_base|rope_base|global_rope_theta";
static const char local_names[] = "rope_local_base_freq|local_rope_theta|swa_rope_theta";
static const char partial_names[] = "partial_rotary_factor|rotary_pct|rope_pct|rotary_percentage";

/* ---- the blocks: rope_parameters, rope_scaling ---------------------------------------------------------------- */

typedef struct blocks {
    const pe_section *s;
    const pe_node *list[2];  /* objects that were given */
    const pe_node *defaults; /* the class's, when none was */
    const pe_node *outer[2]; /* the objects around nested ones */
    int n;
    const char *path; /* of the block, for what it lacks */
} blocks;

/* An object for each layer type, instead of one for all. */
static bool is_nested(const pe_node *object)
{
    for (size_t i = 0; i < object->n; i++)
        if (pe_node_is_object(&object->child[i]) && pe_type_known(object->child[i].key))
            return true;
    return false;
}

/* The two blocks say the same thing where both say it. */
static void compare(const pe_section *s, const pe_node *a, const pe_node *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const pe_node *other = pe_node_member(b, a->child[i].key);
        if (!other || pe_json_type(a->child[i].value) == PE_J_NULL)
            continue;
        if (pe_node_is_object(other) && pe_node_is_object(&a->child[i])) {
            compare(s, &a->child[i], other);
            continue;
        }
        size_t n = (size_t)(other->value.end - other->value.p);
        double x, y;
        const bool numbers = pe_json_type(other->value) == PE_J_NUMBER && pe_json_type(a->child[i].value) == PE_J_NUMBER &&
                             pe_json_real(other->value, &x) && pe_json_real(a->child[i].value, &y);
        bool same = numbers ? x == y
                            : n == (size_t)(a->child[i].value.end - a->child[i].value.p) &&
                                  !memcmp(other->value.p, a->child[i].value.p, n);
        if (!same)
            pe_reject(s, pe_key_path_in(s, b, other->key), pe_node_show(other, other->value).s, "%s, as %s says",
                      pe_node_show(&a->child[i], a->child[i].value).s, pe_key_path_in(s, a, a->child[i].key));
    }
}

/* False: a fault has been told. */
static bool open_blocks(const pe_section *s, blocks *b)
{
    static const char *const keys[] = { "rope_parameters", "rope_scaling" };
    *b = (blocks){ .s = s };
    for (int i = 0; i < 2; i++) {
        const pe_node *node = pe_node_member(s->node, keys[i]);
        if (!node)
            continue;
        if (!pe_node_is_object(node)) {
            pe_reject(s, pe_key_path(s, keys[i]), pe_node_show(node, node->value).s, "an object, or null");
            return false;
        }
        b->list[b->n++] = node;
    }
    b->path = b->n ? pe_key_path_in(s, b->list[0], NULL) : pe_key_path(s, "rope_scaling");
    if (b->n == 2)
        compare(s, b->list[0], b->list[1]);
    if (b->n && s->r->err->n)
        return false;
    bool empty = true;
    for (int i = 0; i < b->n; i++)
        empty &= !b->list[i]->n;
    if (empty && s->model && !s->guess && s->model->rope)
        b->defaults = pe_tree_read(s->model->rope, strlen(s->model->rope), s->r->arena, s->r->err);
    return true;
}

/* The blocks of one layer type, where they are nested; `flat_too`: a flat one holds for this type. */
static blocks blocks_of(const blocks *b, const char *type, bool flat_too)
{
    blocks t = { .s = b->s, .path = b->path };
    for (int i = 0; i < b->n; i++) {
        if (!is_nested(b->list[i])) {
            if (flat_too)
                t.list[t.n++] = b->list[i];
            continue;
        }
        const pe_node *inner = pe_node_member(b->list[i], type);
        if (pe_node_is_object(inner)) {
            t.outer[t.n] = b->list[i];
            t.list[t.n++] = inner;
            t.path = pe_key_path_in(b->s, inner, NULL);
        }
    }
    const pe_node *inner = b->defaults ? pe_node_member(b->defaults, type) : NULL;
    t.defaults = inner ? inner : b->defaults && !is_nested(b->defaults) ? b->defaults : NULL;
    return t;
}

static pe_found given_in(const blocks *b, const char *names)
{
    pe_found f = { 0 };
    for (int i = 0; i < b->n && !pe_found_any(f); i++)
        f = pe_key_in(b->s, b->list[i], names);
    return f;
}

static pe_found in_blocks(const blocks *b, const char *name)
{
    pe_found f = given_in(b, name);
    if (pe_found_any(f) || !b->defaults)
        return f;
    const pe_node *node = pe_node_member(b->defaults, name);
    if (!node)
        return f;
    f.value = node->value;
    f.name = node->key;
    f.path = pe_key_path(b->s, pe_print_text(b->s->r, "rope_parameters.%s", pe_key_path_in(b->s, b->defaults, name)));
    pe_default_used(b->s, f.path, f.value.p, (size_t)(f.value.end - f.value.p));
    return f;
}

static const char *lacking(const blocks *b, const char *key) { return pe_print_text(b->s->r, "%s.%s", b->path, key); }

/* ---- types of scaling ---------------------------------------------------------------------------------------- */

enum {
    DEFAULT = 1 << 0,
    LINEAR = 1 << 1,
    DYNAMIC = 1 << 2,
    YARN = 1 << 3,
    LONGROPE = 1 << 4,
    LLAMA3 = 1 << 5,
    PROPORTIONAL = 1 << 6,
    NTK_ALPHA = 1 << 7
};

/* Spellings of rope_type. */
static const struct {
    const char *word, *param;
    unsigned type;
    bool axes; /* says besides that there are several position axes */
} types[] = {
    { "default", NULL, DEFAULT, false },
    { "mrope", NULL, DEFAULT, true },
    { "axial", NULL, DEFAULT, false },
    { "linear", "linear", LINEAR, false },
    { "dynamic", "dynamic", DYNAMIC, false },
    { "yarn", "yarn", YARN, false },
    { "deepseek_yarn", "yarn", YARN, false },
    { "longrope", "longrope", LONGROPE, false },
    { "su", "longrope", LONGROPE, false },
    { "llama3", "llama3", LLAMA3, false },
    { "proportional", "proportional", PROPORTIONAL, false },
    { "ntk_alpha", "ntk_alpha", NTK_ALPHA, false },
    { "xdrope", "ntk_alpha", NTK_ALPHA, true },
};

typedef enum kind { REAL, POSITIVE, NOT_NEGATIVE, FACTOR, COUNT, TRUTH, FACTORS } kind;

/* Keys of a scaling block: types that cannot do without, types that read them. */
static const struct {
    const char *key;
    kind kind;
    unsigned required, read;
} keys[] = {
    { "factor", FACTOR, LINEAR | DYNAMIC | YARN | LLAMA3, LONGROPE | PROPORTIONAL },
    { "alpha", POSITIVE, NTK_ALPHA, 0 },
    { "attention_factor", NOT_NEGATIVE, 0, YARN | LONGROPE },
    { "beta_fast", NOT_NEGATIVE, 0, YARN },
    { "beta_slow", NOT_NEGATIVE, 0, YARN },
    { "mscale", REAL, 0, YARN },
    { "mscale_all_dim", REAL, 0, YARN },
    { "truncate", TRUTH, 0, YARN },
    { "low_freq_factor", POSITIVE, LLAMA3, 0 },
    { "high_freq_factor", POSITIVE, LLAMA3, 0 },
    { "short_factor", FACTORS, LONGROPE, 0 },
    { "long_factor", FACTORS, LONGROPE, 0 },
};
enum { WITH_ORIGINAL = YARN | LONGROPE | LLAMA3, WITH_MAX = DYNAMIC | YARN | LONGROPE };

/* The word of the block, and which row of `types`. -1: a fault. */
static int type_of(const blocks *b, pe_found *word)
{
    pe_found a = in_blocks(b, "rope_type"), old = in_blocks(b, "type");
    int row[2] = { -1, -1 };
    pe_found f[2] = { a, old };
    for (int k = 0; k < 2; k++) {
        const char *w = pe_as_word(b->s, f[k]);
        if (!pe_found_any(f[k]))
            continue;
        for (size_t i = 0; w && i < PE_LEN(types); i++)
            if (!strcmp(w, types[i].word))
                row[k] = (int)i;
        if (row[k] < 0) {
            pe_reject_value(b->s, f[k], "default, linear, dynamic, yarn, longrope, llama3, proportional, mrope, xdrope, su");
            return -1;
        }
    }
    *word = pe_found_any(a) ? a : old;
    if (row[0] >= 0 && row[1] >= 0 && types[row[0]].type != types[row[1]].type) {
        pe_reject_value(b->s, a, "the type that %s names", old.path);
        return -1;
    }
    if (row[1] >= 0 && (row[0] < 0 || types[row[1]].axes))
        return row[1];
    return row[0] < 0 ? 0 : row[0];
}

/* ---- one layer type ------------------------------------------------------------------------------------------- */

typedef struct rotary {
    const pe_section *s;
    blocks b;
    const char *type, *label; /* layer type for keys that depend on it (NULL: none); layer type of the request */
    const int64_t *layer;
    size_t nlayers;
    const pe_layers *all; /* for lists with a value a layer; NULL: all layers are alike */
    int row;
    int64_t head_dim, width; /* width: channels that rotate */
    const char *head_path;
    pe_found partial, theta, max, original;
    int64_t max_value, original_value;
    bool failed;
} rotary;

static bool is_type(const rotary *q, const char *type) { return q->type && !strcmp(q->type, type); }

/* A list that has a value for each layer: the one that all layers of this type have. */
static pe_found of_layer(const rotary *q, pe_found f)
{
    const char *list = f.path;
    pe_json e = { 0 }, mine = { 0 };
    size_t i = 0, n = q->all ? q->all->n : 0;
    if (!pe_is_list(f))
        return f;
    for (; q->type && n && i < n && pe_json_next(f.value, &e); i++) {
        if (strcmp(q->all->of[i], q->type) != 0)
            continue;
        const char *place = pe_print_text(q->s->r, "%s[%zu]", list, i);
        if (mine.p && (e.end - e.p != mine.end - mine.p || memcmp(e.p, mine.p, (size_t)(e.end - e.p)) != 0)) {
            pe_reject(q->s, place, pe_node_show(f.node, e).s, "the same for all layers of type %s", q->type);
            f.value.p = NULL;
            return f;
        }
        if (!mine.p)
            f.path = place;
        mine = e;
    }
    if (!mine.p || i < n)
        pe_reject_value(q->s, f, "a number, or one for each layer");
    f.value = mine;
    return f;
}

/* Both places may have it; then they must agree. */
static pe_found agreed(rotary *q, pe_found nested, pe_found flat)
{
    double x, y;
    if (!pe_found_any(nested) || !pe_found_any(flat))
        return pe_found_any(nested) ? nested : flat;
    if (pe_as_real(q->s, nested, &x) && pe_as_real(q->s, flat, &y) && x != y)
        pe_reject_value(q->s, flat, "%.17g, as %s says", x, nested.path);
    return nested;
}

static void read_theta(rotary *q)
{
    const pe_section *s = q->s;
    const bool local = is_type(q, "sliding_attention"), other = q->type && !local && !is_type(q, "full_attention");
    pe_found nested = given_in(&q->b, "rope_theta"), flat = { 0 };
    double theta;
    if (local)
        flat = of_layer(q, pe_given_key(s, local_names));
    else if (!other)
        flat = of_layer(q, pe_given_key(s, base_names));
    q->theta = agreed(q, nested, flat);
    if (!pe_found_any(q->theta))
        q->theta = in_blocks(&q->b, "rope_theta");
    if (!pe_found_any(q->theta) && local)
        q->theta = pe_key(s, local_names);
    if (!pe_found_any(q->theta))
        q->theta = of_layer(q, pe_required_key(s, base_names));
    q->failed |= !pe_as_positive(s, q->theta, &theta);
}

static void read_head(rotary *q)
{
    const pe_section *s = q->s;
    pe_found special = { 0 };
    if (pe_model_flag(s, PE_MLA)) {
        pe_found f = pe_required_key(s, "qk_rope_head_dim");
        q->head_path = f.path;
        q->failed |= !pe_as_int(s, f, 1, 1 << 20, &q->head_dim);
        return;
    }
    if (is_type(q, "full_attention"))
        special = pe_key(s, "global_head_dim");
    else if (is_type(q, "sliding_attention"))
        special = pe_given_key(s, "swa_head_dim");
    if (pe_found_any(special)) {
        q->head_path = special.path;
        q->failed |= !pe_as_int(s, special, 1, 1 << 20, &q->head_dim);
        return;
    }
    q->failed |= !pe_read_head_dim(s, pe_found_any(pe_given_key(s, "head_dim")) ? "head_dim" : "head_dim|kv_channels|d_head",
                                   &q->head_dim, &q->head_path);
}

static void read_partial(rotary *q)
{
    const pe_section *s = q->s;
    const bool proportional = types[q->row].type == PROPORTIONAL;
    double share = 1;
    int64_t dim = 0;
    q->width = q->head_dim;
    if (pe_model_flag(s, PE_MLA))
        goto even;
    pe_found flat = pe_given_key(s, partial_names), list = pe_given_key(s, "partial_rotary_factors"),
             direct = pe_given_key(s, "rotary_dim|rope_dim");
    q->partial = agreed(q, given_in(&q->b, "partial_rotary_factor"), pe_found_any(list) ? of_layer(q, list) : flat);
    if (!pe_found_any(q->partial))
        q->partial = in_blocks(&q->b, "partial_rotary_factor");
    if (!pe_found_any(q->partial) && !pe_found_any(direct))
        direct = pe_key(s, "rotary_dim");
    if (!pe_found_any(q->partial) && !pe_found_any(direct))
        q->partial = pe_key(s, "partial_rotary_factor");
    if (pe_found_any(q->partial)) {
        if (!pe_as_real(s, q->partial, &share)) {
            q->failed = true;
            return;
        }
        if (share > 1 || share < 0 || (share == 0 && !proportional)) {
            pe_reject_value(s, q->partial, proportional ? "a number from 0 to 1" : "a number over 0, at most 1");
            q->failed = true;
            return;
        }
        q->width = proportional ? q->head_dim : (int64_t)((double)q->head_dim * share);
        if (!q->width)
            pe_reject_value(s, q->partial, "a share of %lld channels that is not none", (long long)q->head_dim);
    }
    if (pe_found_any(direct) && pe_as_int(s, direct, 1, 1 << 20, &dim)) {
        if (dim > q->head_dim)
            pe_reject_value(s, direct, "at most %lld, the width of a head", (long long)q->head_dim);
        else if (pe_found_any(q->partial) && dim != q->width)
            pe_reject_value(s, direct, "%lld, as %s says", (long long)q->width, q->partial.path);
        q->width = dim;
        if (!pe_found_any(q->partial)) {
            q->partial = (pe_found){ .path = direct.path };
            if (pe_model_fact(s, "@unread"))
                pe_resolve_warning(s,
                                   "%s: transformers before 5.24 do not read it for this model type and rotate all channels",
                                   direct.path);
        }
    }
even:
    if (q->width % 2)
        pe_reject(s, q->partial.path && q->width != q->head_dim ? q->partial.path : q->head_path,
                  posenc_text("%lld channels", (long long)q->width).s,
                  "an even number of channels that rotate, such as %lld", (long long)(q->width > 1 ? q->width - 1 : 2));
    q->failed |= s->r->err->n > 0;
}

/* max_position_embeddings and its other names, in the order in which peers look; they need not be equal. */
static pe_found first_given(const pe_section *s, const char *const *names)
{
    for (; *names; names++) {
        pe_found f = pe_given_key(s, *names);
        if (pe_found_any(f))
            return f;
    }
    return (pe_found){ 0 };
}

static void read_lengths(rotary *q)
{
    static const char *const names[] = { "max_position_embeddings", "n_positions",          "seq_length", "max_seq_len",
                                         "max_sequence_length",     "max_source_positions", NULL };
    const pe_section *s = q->s;
    const unsigned type = types[q->row].type;
    q->max = first_given(s, names);
    if (!pe_found_any(q->max) && type & (WITH_MAX | WITH_ORIGINAL))
        q->max = pe_required_key(s, "max_position_embeddings");
    if (pe_found_any(q->max))
        q->failed |= !pe_as_int(s, q->max, 1, INT64_C(1) << 40, &q->max_value);
    if (!(type & WITH_ORIGINAL) || q->failed)
        return;
    pe_found nested = in_blocks(&q->b, "original_max_position_embeddings"),
             flat = pe_given_key(s, "original_max_position_embeddings");
    q->original = agreed(q, nested, flat);
    if (!pe_found_any(q->original)) {
        q->original = (pe_found){ .path = lacking(&q->b, "original_max_position_embeddings"), .value = q->max.value };
        pe_default_used(s, q->original.path, q->max.value.p, (size_t)(q->max.value.end - q->max.value.p));
    }
    if (!pe_as_int(s, q->original, 1, INT64_C(1) << 40, &q->original_value))
        q->failed = true;
    else if (q->original_value > q->max_value)
        pe_reject_value(s, q->original, "at most %lld, which is %s", (long long)q->max_value, q->max.path);
}

static bool good_list(const rotary *q, pe_found f)
{
    pe_json e = { 0 };
    double v;
    size_t n = pe_list_size(f);
    if (!pe_is_list(f) || n != (size_t)q->width / 2) {
        pe_reject(q->s, f.path, pe_is_list(f) ? posenc_text("%zu numbers", n).s : pe_node_show(f.node, f.value).s,
                  "a list of %lld numbers: one for each pair of channels that rotates", (long long)q->width / 2);
        return false;
    }
    for (size_t i = 0; pe_json_next(f.value, &e); i++)
        if (pe_json_type(e) != PE_J_NUMBER || !pe_json_real(e, &v) || !(v > 0)) {
            pe_reject(q->s, pe_print_text(q->s->r, "%s[%zu]", f.path, i), pe_node_show(f.node, e).s, "a number over 0");
            return false;
        }
    return true;
}

static void put_key(rotary *q, pe_draft *d, size_t i, pe_found f)
{
    const pe_section *s = q->s;
    double v = 0;
    bool truth, good = true;
    switch (keys[i].kind) {
    case TRUTH: good = pe_as_bool(s, f, &truth); break;
    case FACTORS: good = good_list(q, f); break;
    case POSITIVE: good = pe_as_positive(s, f, &v); break;
    case REAL:
    case NOT_NEGATIVE:
    case FACTOR:
    case COUNT:
        good = pe_as_real(s, f, &v);
        if (good && ((keys[i].kind == FACTOR && v < 1) || (keys[i].kind == NOT_NEGATIVE && v < 0))) {
            pe_reject_value(s, f, keys[i].kind == FACTOR ? "a number, at least 1" : "a number, at least 0");
            good = false;
        }
        break;
    }
    const bool unset = v == 0 && !strncmp(keys[i].key, "beta_", 5); /* 0 stands for the default */
    if (good && !unset)
        pe_draft_found(d, keys[i].key, f);
    q->failed |= !good;
}

static void put_scaling(rotary *q, pe_draft *d)
{
    const unsigned type = types[q->row].type;
    for (size_t i = 0; i < PE_LEN(keys); i++) {
        pe_found f = in_blocks(&q->b, keys[i].key);
        if (pe_found_any(f) && (keys[i].required | keys[i].read) & type)
            put_key(q, d, i, f);
        else if (pe_found_any(f) && !(type == NTK_ALPHA && keys[i].kind == FACTOR))
            pe_resolve_warning(q->s, "%s is not read by rope_type %s", f.path, types[q->row].word);
        else if (!pe_found_any(f) && keys[i].required & type)
            pe_reject_missing(q->s, lacking(&q->b, keys[i].key),
                              pe_print_text(q->s->r, "the key: rope_type %s needs it", types[q->row].word));
    }
    if (pe_found_any(q->original))
        pe_draft_int(d, "original_max_position_embeddings", q->original_value, q->original.path);
}

/* Rules between keys, and what should be known. */
static void check_scaling(rotary *q)
{
    const unsigned type = types[q->row].type;
    double low, high, factor;
    pe_found f = in_blocks(&q->b, "factor"), slow = in_blocks(&q->b, "beta_slow"), fast = in_blocks(&q->b, "beta_fast");
    pe_found l = in_blocks(&q->b, "low_freq_factor"), h = in_blocks(&q->b, "high_freq_factor");
    if (type == LLAMA3 && pe_as_positive(q->s, l, &low) && pe_as_positive(q->s, h, &high) && low > high)
        pe_reject_value(q->s, l, "at most %g, which is %s", high, h.path);
    if (type == YARN && pe_found_any(slow) && pe_found_any(fast) && pe_as_real(q->s, slow, &low) &&
        pe_as_real(q->s, fast, &high) && low > 0 && high > 0 && high < low)
        pe_reject_value(q->s, fast, "at least %g, which is %s", low, slow.path);
    if (type == YARN && pe_as_real(q->s, f, &factor) && q->original_value && q->max_value != q->original_value &&
        (double)q->max_value / (double)q->original_value != factor)
        pe_resolve_warning(q->s, "%s is %g, while %s / %s is %g: the former counts", f.path, factor, q->max.path,
                           q->original.path, (double)q->max_value / (double)q->original_value);
    if (in_blocks(&q->b, "short_mscale").value.p || in_blocks(&q->b, "long_mscale").value.p)
        pe_resolve_warning(
            q->s,
            "%s: short_mscale and long_mscale are of Phi-3-small's own code; attention_factor is derived as for "
            "other models",
            q->b.path);
}

/* Several position axes: how the frequencies are shared among them. */
static void put_axes(rotary *q, pe_draft *d)
{
    const pe_section *s = q->s;
    pe_found f = given_in(&q->b, "mrope_section|xdrope_section");
    pe_json e = { 0 };
    int64_t sum = 0, v;
    bool interleaved = pe_model_flag(s, PE_INTERLEAVED_AXES);
    const bool columns = pe_model_flag(s, PE_AXES_COLUMNS) || (types[q->row].type == NTK_ALPHA && types[q->row].axes);
    if (!pe_found_any(f))
        f = pe_required_key(s, "mrope_section");
    size_t n = pe_list_size(f);
    bool good = n >= 2 && n <= 8;
    while (good && pe_json_next(f.value, &e)) {
        good = pe_json_type(e) == PE_J_NUMBER && pe_json_int(e, &v) && v >= 0 && v <= 1 << 20;
        sum += good ? v : 0;
    }
    if (pe_found_any(f) && (!good || sum != q->width / 2))
        pe_reject_value(s, f, "numbers of frequencies, one for each position axis, whose sum is %lld",
                        (long long)q->width / 2);
    pe_found how = given_in(&q->b, "mrope_interleaved");
    if (pe_found_any(how) && !pe_as_bool(s, how, &interleaved))
        return;
    if (!pe_found_any(f))
        return;
    pe_draft_found(d, "mrope_section", f);
    pe_draft_bool(d, "mrope_interleaved", interleaved, how.path ? how.path : f.path);
    if (columns)
        pe_draft_word(d, "section_span", "columns", f.path);
}

/* The share as a parameter: int(head_dim * share) must give the width again. */
static void put_partial(rotary *q, pe_draft *d)
{
    double share = 1;
    if (pe_found_any(q->partial)) {
        if (pe_as_real(q->s, q->partial, &share) && (share != 1 || types[q->row].type == PROPORTIONAL))
            pe_draft_real(d, "partial_rotary_factor", share, q->partial.path);
    } else if (q->width != q->head_dim) {
        share = (double)q->width / (double)q->head_dim;
        if ((int64_t)((double)q->head_dim * share) != q->width)
            share += share * 0x1p-52; /* a double further up */
        pe_draft_real(d, "partial_rotary_factor", share, q->partial.path);
    }
}

static void put_layout(const pe_section *s, pe_draft *d)
{
    bool half_out = pe_model_flag(s, PE_HALF_OUT), paired = true;
    pe_found how = pe_given_key(s, "rope_interleave");
    if (half_out && pe_as_bool(s, how, &paired) && !paired)
        half_out = false;
    if (!s->model) {
        pe_draft_note(d, "which channels rotate together is not in the configuration: the weights decide (layout)");
        pe_resolve_warning(
            s, "%s: the layout (half or interleaved) is not known for this model type; the frequencies do not depend on it",
            pe_key_path_in(s, s->node, NULL));
        return;
    }
    pe_draft_word(d, "layout", half_out || pe_model_flag(s, PE_INTERLEAVED) ? "interleaved" : "half", how.path);
    if (half_out)
        pe_draft_note(d, "channels are read interleaved and written in the half layout: rope_apply with output_layout=half");
}

/* The request of one layer type. The sizes are checked first, then what depends on them. */
static void add(rotary *q)
{
    const pe_section *s = q->s;
    pe_found word = { 0 };
    bool axes = pe_model_flag(s, PE_SECTIONS), off = false;
    q->row = type_of(&q->b, &word);
    if (q->row < 0)
        return;
    if (types[q->row].type == DYNAMIC && pe_found_any(given_in(&q->b, "alpha")))
        for (size_t i = 0; i < PE_LEN(types); i++)
            if (types[i].type == NTK_ALPHA && !types[i].axes)
                q->row = (int)i;
    if (!pe_found_any(word) && q->b.n)
        for (size_t i = 0; i < PE_LEN(keys); i++)
            if (pe_found_any(given_in(&q->b, keys[i].key))) {
                pe_reject_missing(s, lacking(&q->b, "rope_type"),
                                  pe_print_text(s->r, "the type of scaling: %s stands there", keys[i].key));
                return;
            }
    read_head(q);
    read_theta(q);
    if (!q->failed)
        read_partial(q);
    if (!q->failed)
        read_lengths(q);
    if (q->failed)
        return;
    axes |= types[q->row].axes || pe_found_any(given_in(&q->b, "mrope_section|xdrope_section"));
    if (pe_as_bool(s, pe_given_key(s, "use_mrope"), &off) && !off)
        axes = false;
    pe_draft d = pe_draft_of(s, axes ? "mrope" : "rope");
    d.layer_type = q->label;
    d.layer = q->layer;
    d.nlayers = q->nlayers;
    pe_draft_int(&d, "head_dim", q->head_dim, q->head_path);
    pe_draft_found(&d, "rope_theta", q->theta);
    put_partial(q, &d);
    if (types[q->row].param)
        pe_draft_word(&d, "rope_type", types[q->row].param, word.path);
    put_scaling(q, &d);
    check_scaling(q);
    if (pe_found_any(q->max))
        pe_draft_int(&d, "max_position_embeddings", q->max_value, q->max.path);
    if (axes)
        put_axes(q, &d);
    put_layout(s, &d);
    if (types[q->row].type & (DYNAMIC | LONGROPE))
        pe_draft_note(&d, "seq_len decides which frequencies hold: without it those of the original length are given");
    if (pe_model_flag(s, PE_MLA) && pe_found_any(in_blocks(&q->b, "mscale_all_dim")))
        pe_draft_note(&d, "the attention logits are multiplied by softmax_scale_multiplier besides");
    pe_draft_add(&d);
}

/* ---- a tower -------------------------------------------------------------------------------------------------- */

/* Logits that are scaled by position, besides the rotation (Ministral-3). */
static void add_temperature(const pe_section *s, const blocks *b)
{
    pe_found beta = given_in(b, "llama_4_scaling_beta"), original = given_in(b, "original_max_position_embeddings");
    double v;
    if (!pe_found_any(beta) || !pe_as_real(s, beta, &v))
        return;
    if (!pe_found_any(original))
        original = pe_given_key(s, "original_max_position_embeddings");
    if (!pe_found_any(original))
        original = pe_required_key(s, "max_position_embeddings");
    if (!pe_found_any(original))
        return;
    pe_draft d = pe_draft_of(s, "attention_temperature");
    pe_draft_word(&d, "form", "ministral3", NULL);
    pe_draft_found(&d, "llama_4_scaling_beta", beta);
    pe_draft_found(&d, "original_max_position_embeddings", original);
    d.probe = "\"positions\":[0]";
    pe_need_word(&d, "positions", "of the queries");
    pe_draft_note(&d, "queries are multiplied by it after the rotation");
    pe_draft_add(&d);
}

static size_t first_layer(const pe_layers *l, const char *type)
{
    size_t i = 0;
    while (i < l->n && strcmp(l->of[i], type))
        i++;
    return i < l->n ? i : 0;
}

static void add_idle(const pe_section *s, const pe_layers *l, const char *type, const char *why)
{
    size_t n;
    const int64_t *layer = pe_layers_of(s, l, type, &n);
    pe_draft_add_none(s, type, layer, n, why);
}

/* One request for each layer type. */
static void add_types(const pe_section *s, const blocks *b, pe_layers *l, bool nested)
{
    static const char *const usual[] = { "full_attention", "sliding_attention" };
    if (!l->ntypes) {
        const pe_node *list = b->n && nested ? b->list[0] : NULL;
        for (size_t i = 0; list && i < list->n && l->ntypes < PE_MAX_TYPES; i++)
            if (pe_node_is_object(&list->child[i]))
                l->type[l->ntypes++] = list->child[i].key;
        for (size_t i = 0; !list && i < 2; i++)
            l->type[l->ntypes++] = usual[i];
    }
    for (size_t t = 0; t < l->ntypes; t++) {
        const char *type = l->type[t];
        if (!pe_type_rotates(type)) {
            add_idle(s, l, type, "these layers carry order themselves");
            continue;
        }
        rotary q = { .s = s, .type = type, .label = type, .all = l };
        q.b = blocks_of(b, type, !pe_model_flag(s, PE_SCALE_FULL) || !strcmp(type, "full_attention"));
        const pe_node *entry = b->n && nested ? pe_node_member(b->list[0], type) : NULL;
        if (nested && b->n && !pe_node_is_object(entry)) {
            bool null = false;
            for (size_t i = 0; i < b->list[0]->n; i++)
                null |= !strcmp(b->list[0]->child[i].key, type);
            if (null)
                add_idle(s, l, type, "no rotation: the configuration has null for this layer type");
            else
                pe_reject(s, l->n ? pe_print_text(s->r, "%s[%zu]", l->path, first_layer(l, type)) : b->path, type,
                          "a layer type that %s has an entry for", b->path);
            continue;
        }
        q.layer = pe_layers_of(s, l, type, &q.nlayers);
        add(&q);
    }
}

/* no_rope_layers: 1 rotates, whatever the name says; or every so many a layer does not. */
static bool read_no_rope(const pe_section *s, bool *rotates, int64_t *n)
{
    pe_found list = pe_given_key(s, "no_rope_layers"), count = pe_key(s, "num_hidden_layers"), interval;
    pe_json e = { 0 };
    int64_t period, v, i = 0;
    *n = 0;
    if (pe_found_any(count) && !pe_as_int(s, count, 1, PE_MAX_LAYERS, n))
        return false;
    if (!pe_found_any(list) || (pe_is_list(list) && !pe_list_size(list))) {
        interval = pe_key(s, "no_rope_layer_interval");
        if (!pe_found_any(interval) || !pe_as_int(s, interval, 1, PE_MAX_LAYERS, &period))
            return !pe_found_any(interval);
        for (i = 0; i < *n; i++)
            rotates[i] = (i + 1) % period != 0;
        return true;
    }
    if (!pe_is_list(list) || pe_list_size(list) > PE_MAX_LAYERS || (*n && pe_list_size(list) != (size_t)*n)) {
        pe_reject(s, list.path, posenc_text("%zu elements", pe_list_size(list)).s, "a list of %lld numbers: one a layer",
                  (long long)*n);
        return false;
    }
    for (; pe_json_next(list.value, &e); i++) {
        if (pe_json_type(e) != PE_J_NUMBER || !pe_json_int(e, &v) || (v != 0 && v != 1)) {
            pe_reject(s, pe_print_text(s->r, "%s[%lld]", list.path, (long long)i), pe_node_show(list.node, e).s,
                      "1 (the layer rotates) or 0");
            return false;
        }
        rotates[i] = v != 0;
    }
    *n = i;
    return true;
}

/* Llama-4: the layers without rotation scale their queries by position. */
static void add_llama4_temperature(const pe_section *s, const int64_t *layer, size_t nlayers)
{
    pe_found on = pe_key(s, "attn_temperature_tuning"), scale, floor_scale;
    double v;
    bool yes = false;
    int64_t whole = 0;
    if (!pe_found_any(on))
        return;
    if (pe_json_type(on.value) == PE_J_NUMBER) /* early files have 4 */
        yes = pe_as_int(s, on, 0, 1 << 20, &whole) && whole;
    else if (!pe_as_bool(s, on, &yes))
        return;
    scale = pe_key(s, "attn_scale");
    floor_scale = pe_key(s, "floor_scale");
    if (!yes || !pe_as_real(s, scale, &v) || !pe_as_positive(s, floor_scale, &v))
        return;
    pe_draft d = pe_draft_of(s, "attention_temperature");
    d.layer_type = "no_rope";
    d.layer = layer;
    d.nlayers = nlayers;
    pe_draft_word(&d, "form", "llama4", NULL);
    pe_draft_found(&d, "attn_scale", scale);
    pe_draft_found(&d, "floor_scale", floor_scale);
    d.probe = "\"positions\":[0]";
    pe_need_word(&d, "positions", "of the queries");
    pe_draft_note(&d, "queries of the layers without rotation are multiplied by it");
    pe_draft_add(&d);
}

static void add_no_rope(const pe_section *s, const blocks *b)
{
    bool *rotates = posenc_alloc(s->r->arena, PE_MAX_LAYERS);
    int64_t n, *yes = posenc_alloc(s->r->arena, PE_MAX_LAYERS * sizeof *yes),
               *no = posenc_alloc(s->r->arena, PE_MAX_LAYERS * sizeof *no);
    size_t nyes = 0, nno = 0;
    s->r->failed |= !rotates || !yes || !no;
    if (s->r->failed || !read_no_rope(s, rotates, &n))
        return;
    for (int64_t i = 0; i < n; i++) {
        if (rotates[i])
            yes[nyes++] = i;
        else
            no[nno++] = i;
    }
    rotary q = { .s = s, .b = *b, .label = "all", .layer = nno ? yes : NULL, .nlayers = nno ? nyes : 0 };
    if (nyes || !n)
        add(&q);
    if (!nno)
        return;
    pe_draft_add_none(s, "no_rope", no, nno,
                      "no_rope_layers has 0 for these layers: 0 means that the layer does not rotate");
    add_llama4_temperature(s, no, nno);
}

/* Every layer that rotates does it alike; the others are listed by type. */
static void add_all(const pe_section *s, const blocks *b, const pe_layers *l)
{
    rotary q = { .s = s, .b = *b, .label = s->layers };
    bool idle = false;
    const bool windowed = pe_model_flag(s, PE_FULL_NOPE) && !pe_is_null(s, "sliding_window"),
               nope = windowed && l->ntypes > 1;
    for (size_t t = 0; t < l->ntypes; t++)
        idle |= !pe_type_rotates(l->type[t]);
    if (nope)
        q.layer = pe_layers_of(s, l, "sliding_attention", &q.nlayers);
    else if (idle)
        q.layer = pe_layers_of(s, l, NULL, &q.nlayers);
    add(&q);
    if (windowed && !l->n)
        pe_resolve_warning(
            s, "full attention layers of this model type do not rotate; which they are is not in the configuration");
    if (nope)
        add_idle(s, l, "full_attention", "full attention layers of this model do not rotate");
    for (size_t t = 0; t < l->ntypes; t++)
        if (!pe_type_rotates(l->type[t]))
            add_idle(s, l, l->type[t],
                     !strcmp(l->type[t], "cross_attention") ? "cross-attention layers rotate nothing"
                                                            : "these layers carry order themselves");
}

void pe_resolve_rope(const pe_section *s)
{
    blocks b;
    pe_layers *l = posenc_alloc(s->r->arena, sizeof *l);
    s->r->failed |= !l;
    if (!l || !open_blocks(s, &b) || !pe_read_layers(s, l))
        return;
    bool nested = false;
    for (int i = 0; i < b.n; i++)
        nested |= is_nested(b.list[i]);
    nested |= b.defaults && is_nested(b.defaults);
    if (pe_model_flag(s, PE_NOPE_LIST) || (!s->model && pe_found_any(pe_given_key(s, "no_rope_layers"))))
        add_no_rope(s, &b);
    else if (pe_model_flag(s, PE_PER_TYPE) || nested || (!s->model && pe_found_any(pe_given_key(s, local_names))))
        add_types(s, &b, l, nested && !(b.defaults && is_nested(b.defaults)));
    else
        add_all(s, &b, l);
    if (b.n && !nested)
        add_temperature(s, &b);
}
