/* resolve.c - the walk over a configuration: its towers, the model type of each, what cannot be resolved. */
#include "resolve/resolve.h"

#include <stdlib.h>
#include <string.h>

/* ---- model types that are not in the table ------------------------------------------------------------------- */

/* By the keys that it carries; a default is never guessed. */
static void by_keys(const pe_section *s)
{
    static const struct {
        const char *keys, *is; /* the value of the first key given, where it matters */
        pe_scheme *scheme;
    } rules[] = {
        { "alibi", "true", pe_resolve_alibi },
        { "position_embedding_type", "\"alibi\"", pe_resolve_alibi },
        { "relative_attention_num_buckets", NULL, pe_resolve_t5 },
        { "rope_theta|rotary_emb_base|rotary_embedding_base|rope_base|global_rope_theta", NULL, pe_resolve_rope },
        { "rope_scaling", NULL, pe_resolve_rope },
        { "rope_parameters", NULL, pe_resolve_rope },
        { "rotary_dim", NULL, pe_resolve_rope },
        { "rotary_pct|partial_rotary_factor|rope_pct", NULL, pe_resolve_rope },
        { "qk_rope_head_dim", NULL, pe_resolve_rope },
        { "num_conv_pos_embeddings", NULL, pe_resolve_wav2vec2 },
        { "position_embedding_type", "\"absolute\"", pe_resolve_learned },
    };
    for (size_t i = 0; i < PE_LEN(rules); i++) {
        pe_found f = pe_given_key(s, rules[i].keys);
        if (!pe_found_any(f))
            continue;
        size_t n = (size_t)(f.value.end - f.value.p);
        if (rules[i].is && (n != strlen(rules[i].is) || memcmp(f.value.p, rules[i].is, n) != 0))
            continue;
        rules[i].scheme(s);
        return;
    }
    pe_found type = pe_given_key(s, "model_type");
    if (!s->r->err->n)
        posenc_fail(s->r->err, PE_INVALID, "UNKNOWN_MODEL", pe_key_path(s, "model_type"),
                    pe_found_any(type) ? pe_node_show(type.node, type.value).s : "absent",
                    "a known model type, or keys that say what its positions are");
}

/* ---- towers -------------------------------------------------------------------------------------------------- */

static const pe_model *model_of(const pe_section *s, const char **word)
{
    *word = pe_as_word(s, pe_given_key(s, "model_type"));
    return *word ? pe_model_named(*word, strlen(*word)) : NULL;
}

static const pe_model *named_by(const pe_section *s, const char *fact)
{
    const char *type = pe_model_fact(s, fact);
    return type ? pe_model_named(type, strlen(type)) : NULL;
}

static const pe_model *model_of_classes(const pe_section *s)
{
    pe_found list = pe_given_key(s, "architectures");
    pe_json e = { 0 };
    char name[128];
    if (!pe_is_list(list) || !pe_json_next(list.value, &e) || pe_json_type(e) != PE_J_STRING ||
        e.end - e.p >= (ptrdiff_t)sizeof name)
        return NULL;
    pe_json_string(e, name);
    return pe_model_of_class(name);
}

/* Resolves one tower, whose model may be known from the object around it (`usual`). */
static void resolve_tower(pe_section *s, const pe_model *usual, bool required)
{
    const char *word;
    if (s->r->towers == PE_MAX_TOWERS) {
        if (s->r->err->status != PE_LIMIT)
            posenc_fail(s->r->err, PE_LIMIT, "LIMIT_EXCEEDED", pe_key_path_in(s, s->node, NULL), "one tower more",
                        "at most %d towers in a configuration", PE_MAX_TOWERS);
        return;
    }
    s->r->towers++;
    s->model = model_of(s, &word);
    if (s->model && !s->model->scheme && usual) /* the composite's name stands in its part as well */
        s->model = usual;
    if (!s->model && !word)
        s->model = usual;
    if (!s->model && required) {
        s->model = model_of_classes(s);
        s->guess = s->model != NULL;
        if (s->model && !s->model->scheme)
            s->model = NULL;
        if (s->model)
            pe_resolve_warning(s,
                               "model type %s is not known: read as %s, as its architectures say; no default of it is used",
                               word ? word : "(absent)", s->model->type);
        else
            pe_resolve_warning(s, "model type %s is not known: read by the keys that it has", word ? word : "(absent)");
    }
    if (s->model && s->model->scheme)
        s->model->scheme(s);
    else if (required)
        by_keys(s);
    else
        pe_resolve_warning(s, "%s: positions of model type %s are not known and left out", pe_key_path_in(s, s->node, NULL),
                           word ? word : "(absent)");
}

/* Parts of composites: key, layer type of its requests, the fact that names the usual model type of it. */
static const struct {
    const char *key, *layers, *usual;
    bool required;
} parts[] = {
    { "text_config", "all", "@text", true },
    { "language_config", "all", "@text", true },
    { "llm_config", "all", "@text", true },
    { "decoder", "decoder", "@decoder", true },
    { "encoder", "encoder", "@encoder", true },
    { "text_encoder", "text", "@encoder", true },
    { "vision_config", "vision", "@vision", false },
    { "audio_config", "audio", "@audio", false },
    { "speech_config", "audio", "@audio", false },
    { "audio_encoder", "audio", "@audio", false },
    { "thinker_config", "thinker", "@thinker", true },
    { "talker_config", "talker", "@talker", true },
    { "encoder_config", "encoder", "@encoder", false },
    { "decoder_config", "decoder", "@decoder", false },
};
enum { TEXTS = 3, DEPTH = 4 };

static bool is_part(const char *key)
{
    for (size_t i = 0; i < PE_LEN(parts); i++)
        if (!strcmp(parts[i].key, key))
            return true;
    return false;
}

static void walk(pe_section *s, const pe_model *usual, int depth);

static void walk_part(const pe_section *outer, const pe_node *node, size_t i, int depth)
{
    pe_section s = { .r = outer->r, .node = node, .nested = true, .layers = parts[i].layers };
    const pe_model *usual = named_by(outer, parts[i].usual);
    if (!pe_node_is_object(node)) {
        pe_reject(outer, pe_key_path_in(outer, node, NULL), pe_node_show(node, node->value).s, "an object, or null");
        return;
    }
    if (i < TEXTS)
        s.layers = pe_model_flag(outer, PE_ENCODERS) ? "text" : outer->layers;
    bool composite = false;
    for (size_t k = 0; k < PE_LEN(parts); k++)
        composite |= pe_node_is_object(pe_node_member(node, parts[k].key));
    if (composite && depth < DEPTH)
        walk(&s, usual, depth + 1);
    else
        resolve_tower(&s, usual, parts[i].required);
}

/* Objects that could hold a tower and are none of the parts: said, not passed over. */
static void name_the_rest(const pe_section *s)
{
    for (size_t i = 0; i < s->node->n; i++) {
        const pe_node *node = &s->node->child[i];
        if (!is_part(node->key) && pe_node_is_object(node) && pe_node_member(node, "model_type") &&
            pe_node_member(node, "hidden_size"))
            pe_resolve_warning(s, "%s: its positions are not resolved", pe_key_path_in(s, node, NULL));
        else if (!is_part(node->key) && pe_node_is_object(node) && node->n && strstr(node->key, "token2wav"))
            pe_resolve_warning(s, "%s: its positions are not resolved", pe_key_path_in(s, node, NULL));
    }
}

static void walk(pe_section *s, const pe_model *usual, int depth)
{
    const char *word;
    bool text = false, any = false;
    s->model = model_of(s, &word);
    if (!s->model && usual)
        s->model = usual;
    for (size_t i = 0; i < PE_LEN(parts); i++) {
        const pe_node *node = pe_node_member(s->node, parts[i].key);
        any |= pe_node_is_object(node);
        text |= node && (i < TEXTS || pe_node_is_object(node)) && parts[i].required;
    }
    if (!text && !(s->model && !s->model->scheme && !pe_model_fact(s, "@text") && any)) {
        /* the document's own keys are those of the text tower */
        pe_section own = *s;
        const pe_model *inner = named_by(s, "@text");
        own.nested = false;
        resolve_tower(&own, inner ? inner : s->model, true);
    }
    for (size_t i = 0; i < PE_LEN(parts); i++) {
        const pe_node *node = pe_node_member(s->node, parts[i].key);
        if (node && (pe_node_is_object(node) || i < TEXTS || strstr(parts[i].key, "_config")))
            walk_part(s, node, i, depth);
    }
    name_the_rest(s);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static void resolve_document(pe_section *s)
{
    pe_found class_name = pe_given_key(s, "_class_name"), type = pe_given_key(s, "model_type");
    const char *word = pe_found_any(type) ? pe_as_word(s, type) : NULL;
    s->r->out->model_type = word;
    if (!pe_found_any(type) && pe_found_any(class_name)) {
        word = pe_as_word(s, class_name);
        s->r->out->model_type = word;
        if (word && !pe_resolve_diffusion(s, word))
            pe_reject_value(s, class_name,
                            "a class of diffusers whose positions are known: FluxTransformer2DModel, "
                            "SD3Transformer2DModel, UNet2DConditionModel, ...");
        return;
    }
    if (!s->r->err->n)
        walk(s, NULL, 0);
}

posenc_status posenc_resolve_config(const char *json, size_t n, posenc_arena *a, posenc_resolution *out, posenc_error *err)
{
    posenc_error local = { 0 };
    pe_resolver r = { .arena = a, .err = err ? err : &local, .out = out };
    const unsigned before = r.err->n;
    *out = (posenc_resolution){ 0 };
    const pe_node *root = pe_tree_read(json, n, a, r.err);
    if (!root)
        return r.err->status;
    pe_section s = { .r = &r, .node = root, .layers = "all" };
    resolve_document(&s);
    if (r.failed)
        return pe_no_memory("memory", r.err);
    if (r.err->n > before)
        return r.err->status;
    return PE_OK;
}
