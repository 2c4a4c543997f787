/* families.c - models whose keys or rules are their own; slopes; towers without positions. */
#include "resolve/resolve.h"

#include <string.h>

/* ---- no positions -------------------------------------------------------------------------------------------- */

void pe_resolve_none(const pe_section *s)
{
    const char *why = pe_model_fact(s, "@why");
    pe_draft d = pe_draft_of(s, "none");
    d.open = true;
    pe_draft_note(&d, "%s",
                  why && !strcmp(why, "recurrent") ? "recurrent layers carry order themselves"
                  : why && !strcmp(why, "hybrid")
                      ? "attention layers have no positional encoding: the recurrent layers carry order"
                      : "no positional encoding");
    pe_found theta = pe_given_key(s, "rope_theta");
    if (pe_found_any(theta))
        pe_resolve_warning(s, "%s stands in the configuration, but models of this type rotate nothing", theta.path);
    pe_draft_add(&d);
}

/* MLA layers without rotation between linear-attention layers; layers are counted from 1. */
void pe_resolve_kimi_linear(const pe_section *s)
{
    static const struct {
        const char *key, *type, *why;
    } kinds[] = {
        { "full_attn_layers", "full_attention", "mla_use_nope is true: these layers do not rotate" },
        { "kda_layers", "linear_attention", "these layers carry order themselves" },
    };
    bool nope = true;
    pe_found f = pe_key(s, "mla_use_nope");
    if (!pe_as_bool(s, f, &nope))
        return;
    if (!nope) {
        pe_resolve_rope(s);
        return;
    }
    const pe_node *linear = pe_node_member(s->node, "linear_attn_config");
    pe_found count = pe_given_key(s, "num_hidden_layers");
    int64_t layers = 0, listed = 0;
    if (pe_found_any(count) && !pe_as_int(s, count, 1, PE_MAX_LAYERS, &layers))
        return;
    pe_found rotary = pe_given_key(s, "qk_rope_head_dim");
    if (pe_found_any(rotary))
        pe_resolve_warning(s, "%s is given, but %s is true: no layer rotates", rotary.path, f.path);
    for (size_t k = 0; k < PE_LEN(kinds); k++) {
        pe_found list = pe_key_in(s, linear, kinds[k].key);
        pe_json e = { 0 };
        size_t n = pe_list_size(list), i = 0;
        if (pe_found_any(list) && !pe_is_list(list)) {
            pe_reject_value(s, list, "a list of layers, counted from 1");
            return;
        }
        listed += (int64_t)n;
        int64_t *layer = n ? posenc_alloc(s->r->arena, n * sizeof *layer) : NULL;
        s->r->failed |= n && !layer;
        for (; layer && pe_json_next(list.value, &e); i++) {
            if (pe_json_type(e) == PE_J_NUMBER && pe_json_int(e, &layer[i]) && layer[i] >= 1 && layer[i] <= PE_MAX_LAYERS) {
                layer[i]--;
                continue;
            }
            pe_reject(s, pe_print_text(s->r, "%s[%zu]", list.path, i), pe_node_show(list.node, e).s,
                      "a layer from 1 to %d: they are counted from 1", PE_MAX_LAYERS);
            return;
        }
        pe_draft_add_none(s, kinds[k].type, layer, n, kinds[k].why);
    }
    if (layers && listed && listed != layers)
        pe_reject(s, pe_key_path_in(s, linear, kinds[0].key), posenc_text("%lld layers", (long long)listed).s,
                  "%lld with %s: one kind for each layer", (long long)layers, kinds[1].key);
}

/* ---- slopes -------------------------------------------------------------------------------------------------- */

static void add_alibi(const pe_section *s, const char *form, pe_found largest, const char *slope_dtype)
{
    int64_t heads, most;
    pe_found f;
    if (!pe_read_heads(s, &heads, &f))
        return;
    pe_draft d = pe_draft_of(s, "alibi");
    pe_draft_int(&d, "num_heads", heads, f.path);
    pe_draft_word(&d, "form", form, NULL);
    if (pe_found_any(largest) && pe_as_int(s, largest, 1, 1024, &most) && most != 8)
        pe_draft_int(&d, "alibi_bias_max", most, largest.path);
    if (slope_dtype)
        pe_draft_word(&d, "slope_dtype", slope_dtype, NULL);
    pe_draft_add(&d);
}

void pe_resolve_alibi(const pe_section *s)
{
    const char *form = pe_model_fact(s, "@form");
    add_alibi(s, form ? form : "key_position", (pe_found){ 0 }, NULL);
}

void pe_resolve_falcon(const pe_section *s)
{
    if (pe_is_true(s, "alibi"))
        add_alibi(s, "key_position", (pe_found){ 0 }, "bfloat16");
    else
        pe_resolve_rope(s);
}

void pe_resolve_mpt(const pe_section *s)
{
    const pe_node *attention = pe_node_member(s->node, "attn_config");
    pe_found f = pe_key_in(s, attention, "alibi");
    bool alibi = true, rope = false;
    if (attention && !pe_node_is_object(attention)) {
        pe_reject(s, pe_key_path(s, "attn_config"), pe_node_show(attention, attention->value).s, "an object");
        return;
    }
    if (!pe_found_any(f))
        pe_default_used(s, pe_key_path(s, "attn_config.alibi"), "true", 4);
    else if (!pe_as_bool(s, f, &alibi))
        return;
    if (pe_as_bool(s, pe_key_in(s, attention, "rope"), &rope) && rope) {
        pe_reject_value(s, pe_key_in(s, attention, "rope"), "false: rotary MPT is not known here");
        return;
    }
    if (alibi)
        add_alibi(s, "mpt", pe_key_in(s, attention, "alibi_bias_max"), NULL);
    else
        pe_resolve_learned(s);
}

/* One model type, two schemes: the 13B models have slopes, and no key says so. */
void pe_resolve_baichuan(const pe_section *s)
{
    pe_found width = pe_given_key(s, "hidden_size"), layers = pe_given_key(s, "num_hidden_layers");
    int64_t w = 0, n = 0;
    if (pe_as_int(s, width, 1, 1 << 24, &w) && pe_as_int(s, layers, 1, PE_MAX_LAYERS, &n) && w == 5120 && n == 40) {
        pe_resolve_warning(
            s, "baichuan: the 13B models (hidden_size 5120, 40 layers) use ALiBi; no key of the configuration says it");
        add_alibi(s, "key_position", (pe_found){ 0 }, NULL);
        return;
    }
    pe_resolve_rope(s);
}

/* ---- rotations with keys of their own ------------------------------------------------------------------------ */

/* The base is 10000 * rope_ratio, half of a head rotates. */
void pe_resolve_chatglm(const pe_section *s)
{
    int64_t head, length;
    const char *path;
    double ratio = 1, base = 10000;
    pe_found r = pe_key(s, "rope_ratio"), b = pe_key(s, "rope_theta"), l = pe_given_key(s, "seq_length");
    bool good = pe_read_head_dim(s, "kv_channels", &head, &path);
    good &= pe_as_positive(s, r, &ratio) && pe_as_positive(s, b, &base);
    if (pe_found_any(l))
        good &= pe_as_int(s, l, 1, INT64_C(1) << 40, &length);
    if (!good)
        return;
    if (head % 4)
        pe_reject(s, path, posenc_text("%lld", (long long)head).s, "a multiple of 4: half of the channels rotate, in pairs");
    pe_draft d = pe_draft_of(s, "rope");
    pe_draft_int(&d, "head_dim", head, path);
    pe_draft_real(&d, "rope_theta", base * ratio, r.path);
    pe_draft_real(&d, "partial_rotary_factor", 0.5, path);
    if (pe_found_any(l))
        pe_draft_int(&d, "max_position_embeddings", length, l.path);
    pe_draft_word(&d, "layout", "interleaved", NULL);
    pe_draft_note(&d, "the base is rope_theta times rope_ratio");
    pe_draft_add(&d);
}

/* Qwen-1: the base grows with the length in steps, counted from seq_length; queries beyond it are scaled. */
void pe_resolve_qwen(const pe_section *s)
{
    int64_t length = 0;
    bool grows = false, logn = false;
    pe_found dynamic = pe_key(s, "use_dynamic_ntk"), scaled = pe_key(s, "use_logn_attn");
    bool good = pe_as_bool(s, dynamic, &grows);
    good &= pe_as_bool(s, scaled, &logn);
    if (!good)
        return;
    pe_found trained = grows || logn ? pe_required_key(s, "seq_length") : (pe_found){ 0 };
    if (pe_found_any(trained) && !pe_as_int(s, trained, 1, INT64_C(1) << 40, &length))
        return;
    if (!grows) {
        pe_resolve_rope(s);
    } else {
        int64_t head, max = 0;
        double base, share = 1;
        const char *path;
        pe_found b = pe_required_key(s, "rotary_emb_base|rope_theta"), p = pe_key(s, "rotary_pct|partial_rotary_factor"),
                 m = pe_given_key(s, "max_position_embeddings|n_positions");
        good = pe_read_head_dim(s, "kv_channels|head_dim", &head, &path);
        good &= pe_as_positive(s, b, &base);
        if (pe_found_any(p))
            good &= pe_as_positive(s, p, &share);
        if (pe_found_any(m))
            good &= pe_as_int(s, m, 1, INT64_C(1) << 40, &max);
        if (!good)
            return;
        pe_draft d = pe_draft_of(s, "rope");
        pe_draft_int(&d, "head_dim", head, path);
        pe_draft_found(&d, "rope_theta", b);
        if (share != 1)
            pe_draft_real(&d, "partial_rotary_factor", share, p.path);
        pe_draft_word(&d, "rope_type", "ntk_alpha", dynamic.path);
        pe_draft_int(&d, "original_max_position_embeddings", length, trained.path);
        if (max)
            pe_draft_int(&d, "max_position_embeddings", max, m.path);
        pe_draft_word(&d, "layout", "half", NULL);
        pe_draft_note(&d, "the base grows in steps with seq_len, beyond %lld", (long long)length);
        pe_draft_add(&d);
    }
    if (!logn)
        return;
    pe_draft d = pe_draft_of(s, "attention_temperature");
    pe_draft_word(&d, "form", "logn", scaled.path);
    pe_draft_int(&d, "original_max_position_embeddings", length, trained.path);
    d.probe = "\"positions\":[0]";
    pe_need_word(&d, "positions", "of the queries");
    pe_draft_note(&d, "queries beyond position %lld are multiplied by log(position) / log(%lld)", (long long)length,
                  (long long)length);
    pe_draft_add(&d);
}

void pe_resolve_gpt_neo(const pe_section *s)
{
    pe_found rotary = pe_given_key(s, "rotary");
    bool on = false;
    if (pe_as_bool(s, rotary, &on) && on) {
        pe_reject_value(s, rotary, "false: GPT-Neo has a learned table; a rotary model of that time is gptj");
        return;
    }
    pe_resolve_learned(s);
}

/* The base is a literal of the code; without `rotary` there is a learned table. */
void pe_resolve_gpt_j(const pe_section *s)
{
    bool on = true;
    pe_found f = pe_given_key(s, "rotary");
    if (pe_found_any(f) && !pe_as_bool(s, f, &on))
        return;
    if (on)
        pe_resolve_rope(s);
    else
        pe_reject_value(s, f, "true: the models of this type rotate");
}

/* DBRX keeps the base inside attn_config. */
void pe_resolve_dbrx(const pe_section *s)
{
    const pe_node *attention = pe_node_member(s->node, "attn_config");
    int64_t head, max;
    double theta;
    const char *path;
    pe_found inner = pe_key_in(s, attention, "rope_theta"), flat = pe_given_key(s, "rope_theta"),
             length = pe_given_key(s, "max_seq_len|max_position_embeddings");
    double other;
    if (pe_found_any(inner) && pe_found_any(flat) && pe_as_real(s, inner, &theta) && pe_as_real(s, flat, &other) &&
        theta != other)
        pe_reject_value(s, flat, "%g, as %s says", theta, inner.path);
    pe_found base = pe_found_any(inner) ? inner : pe_required_key(s, "rope_theta");
    bool good = pe_read_head_dim(s, "head_dim", &head, &path);
    good &= pe_as_positive(s, base, &theta);
    if (pe_found_any(length))
        good &= pe_as_int(s, length, 1, INT64_C(1) << 40, &max);
    if (!good)
        return;
    pe_draft d = pe_draft_of(s, "rope");
    pe_draft_int(&d, "head_dim", head, path);
    pe_draft_found(&d, "rope_theta", base);
    if (pe_found_any(length))
        pe_draft_int(&d, "max_position_embeddings", max, length.path);
    pe_draft_word(&d, "layout", "half", NULL);
    pe_draft_add(&d);
}

/* A plain rotation of all layers, and a scaled one of other base for the compressed keys; the last channels rotate. */
void pe_resolve_deepseek_v4(const pe_section *s)
{
    static const struct {
        const char *type, *base;
    } kinds[] = { { "main", "rope_theta" }, { "compress", "compress_rope_theta" } };
    static const char *const scaling[] = { "factor", "beta_fast", "beta_slow", "original_max_position_embeddings" };
    int64_t head = 0, width = 0, max = 0;
    const char *path;
    pe_found w = pe_required_key(s, "qk_rope_head_dim"), m = pe_key(s, "max_position_embeddings");
    bool good = pe_read_head_dim(s, "head_dim", &head, &path);
    good &= pe_as_int(s, w, 1, 1 << 20, &width);
    good &= pe_as_int(s, m, 1, INT64_C(1) << 40, &max);
    if (!good)
        return;
    if (width > head || width % 2) {
        pe_reject_value(s, w, "an even number, at most %lld", (long long)head);
        return;
    }
    const pe_node *block = pe_node_member(s->node, "rope_parameters");
    if (!block)
        block = pe_node_member(s->node, "rope_scaling");
    if (block && !pe_node_is_object(block)) {
        pe_reject(s, pe_key_path_in(s, block, NULL), pe_node_show(block, block->value).s, "an object, or null");
        return;
    }
    for (size_t k = 0; k < PE_LEN(kinds); k++) {
        const pe_node *inner = block ? pe_node_member(block, kinds[k].type) : NULL, *own = inner ? inner : k ? block : NULL;
        pe_found nested = pe_key_in(s, inner, "rope_theta"), flat = pe_given_key(s, kinds[k].base);
        double theta, other;
        if (pe_found_any(nested) && pe_found_any(flat) && pe_as_real(s, nested, &theta) && pe_as_real(s, flat, &other) &&
            theta != other)
            pe_reject_value(s, flat, "%g, as %s says", theta, nested.path);
        pe_found base = pe_found_any(nested) ? nested : pe_required_key(s, kinds[k].base);
        if (!pe_as_positive(s, base, &theta))
            return;
        pe_draft d = pe_draft_of(s, "rope");
        d.layer_type = kinds[k].type;
        pe_draft_int(&d, "head_dim", head, path);
        pe_draft_found(&d, "rope_theta", base);
        pe_draft_real(&d, "partial_rotary_factor", (double)width / (double)head, w.path);
        pe_found type = pe_key_in(s, own, "rope_type|type");
        const char *word = pe_as_word(s, type);
        if (!word && pe_found_any(pe_key_in(s, own, "factor"))) {
            pe_reject_missing(s, pe_key_path_in(s, own, "rope_type"), "the type of scaling: factor stands there");
            return;
        }
        if (word && strcmp(word, "yarn") != 0 && strcmp(word, "default") != 0) {
            pe_reject_value(s, type, "yarn, or default");
            return;
        }
        if (word && !strcmp(word, "yarn")) {
            pe_draft_word(&d, "rope_type", word, type.path);
            for (size_t i = 0; i < PE_LEN(scaling); i++) {
                pe_found f = pe_key_in(s, own, scaling[i]);
                double v;
                if (!pe_found_any(f) && (i == 0 || i == 3))
                    pe_reject_missing(s, pe_key_path_in(s, own, scaling[i]), "the key: yarn needs it");
                else if (pe_found_any(f) && pe_as_positive(s, f, &v))
                    pe_draft_found(&d, scaling[i], f);
                if (pe_found_any(f) && i == 0 && v < 1)
                    pe_reject_value(s, f, "a number, at least 1");
            }
            pe_draft_real(&d, "attention_factor", 1, NULL);
        }
        pe_draft_int(&d, "max_position_embeddings", max, m.path);
        pe_draft_word(&d, "layout", "interleaved", NULL);
        pe_draft_note(&d, "the last %lld of %lld channels rotate", (long long)width, (long long)head);
        if (k)
            pe_draft_note(&d, "of the layers with compressed keys; the attention factor is 1 whatever the scaling says");
        pe_draft_add(&d);
    }
}

/* Rotates only if a key says so: @if=KEY, a boolean, or @word=KEY, which must have the word @is. */
void pe_resolve_rope_if(const pe_section *s)
{
    const char *key = pe_model_fact(s, "@if"), *word_key = pe_model_fact(s, "@word"), *is = pe_model_fact(s, "@is");
    bool on = false;
    if (key) {
        if (!pe_as_bool(s, pe_key(s, key), &on))
            return;
    } else {
        const char *word = pe_as_word(s, pe_key(s, word_key));
        on = word && is && !strcmp(word, is);
    }
    if (on) {
        pe_resolve_rope(s);
    } else if (pe_model_fact(s, "@rows")) {
        pe_resolve_learned(s);
    } else {
        pe_draft d = pe_draft_of(s, "none");
        d.open = true;
        pe_draft_note(&d, "%s does not ask for a rotation", key ? key : word_key);
        pe_draft_add(&d);
    }
}

/* Conformers of speech: rotary or relative, after a convolution that knows positions too. */
void pe_resolve_conformer(const pe_section *s)
{
    const char *word = pe_as_word(s, pe_key(s, "position_embeddings_type"));
    int64_t width;
    pe_found f;
    if (word && !strcmp(word, "rotary")) {
        pe_resolve_rope(s);
    } else if (word && !strcmp(word, "relative")) {
        if (!pe_read_width(s, &width, &f))
            return;
        pe_draft d = pe_draft_of(s, "relative_sinusoidal");
        pe_draft_word(&d, "preset", "conformer", NULL);
        pe_draft_int(&d, "embedding_dim", width, f.path);
        d.probe = "\"length\":1";
        pe_need_word(&d, "length", "of the input");
        pe_draft_add(&d);
    } else if (word) {
        pe_reject_value(s, pe_key(s, "position_embeddings_type"), "rotary or relative");
        return;
    }
    if (pe_found_any(pe_given_key(s, "num_conv_pos_embeddings"))) {
        pe_section conv = *s;
        conv.layers = s->nested ? s->layers : "encoder";
        pe_resolve_wav2vec2(&conv);
    }
}
