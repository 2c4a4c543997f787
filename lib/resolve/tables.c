/* tables.c - tables that are learned or computed once, relative buckets, convolutions. */
#include "resolve/resolve.h"

#include <stdlib.h>
#include <string.h>

/* ---- learned tables ------------------------------------------------------------------------------------------ */

/* "a,b" in facts -> "a|b", as keys are asked for. */
static const char *names_of(const pe_section *s, const char *fact, const char *otherwise)
{
    const char *f = pe_model_fact(s, fact);
    char *names = pe_print_text(s->r, "%s", f ? f : otherwise);
    for (char *p = names; *p; p++)
        if (*p == ',')
            *p = '|';
    return names;
}

/* BERT's kinds of positions; the word is read by the older peers. False: not a learned table of absolute positions. */
static bool is_absolute(const pe_section *s, int64_t rows)
{
    static const char *const relative[] = { "relative_key", "relative_key_query" };
    pe_found f = pe_key(s, "position_embedding_type");
    const char *word = pe_as_word(s, f);
    int64_t head;
    const char *path;
    if (!word)
        return !pe_found_any(f);
    if (!strcmp(word, "absolute"))
        return true;
    for (int i = 0; i < 2; i++) {
        if (strcmp(word, relative[i]) != 0)
            continue;
        if (!pe_read_head_dim(s, "", &head, &path))
            return false;
        pe_draft d = pe_draft_of(s, "learned");
        d.open = true;
        pe_need_pair(&d, "table_shape", 2 * rows - 1, head);
        pe_need_int(&d, "first_position", 0);
        pe_draft_note(&d, "%s: row query - key + %lld, in every layer; transformers from 5 on ignore the key", word,
                      (long long)(rows - 1));
        pe_resolve_warning(s, "%s %s: transformers from 5 on read the key no more and add a table of absolute positions",
                           f.path, word);
        pe_draft_add(&d);
        return false;
    }
    pe_reject_value(s, f, "absolute, relative_key or relative_key_query");
    return false;
}

void pe_resolve_learned(const pe_section *s)
{
    int64_t rows, width, pad = -1;
    const char *layers = pe_model_fact(s, "@layers"), *from = pe_model_fact(s, "@first");
    const int64_t extra = pe_model_fact_int(s, "@extra", 0);
    pe_found r = pe_required_key(s, names_of(s, "@rows", "max_position_embeddings|n_positions|max_seq_len")),
             w = pe_required_key(s, names_of(s, "@width", "hidden_size|n_embd|d_model|dim"));
    bool good = pe_as_int(s, r, 1, 1 << 30, &rows);
    good &= pe_as_int(s, w, 1, 1 << 24, &width);
    const bool padded = from && !strcmp(from, "pad");
    if (padded) {
        pe_found p = pe_required_key(s, "pad_token_id");
        good &= pe_as_int(s, p, 0, 1 << 30, &pad);
        if (good && pad + 1 >= rows) {
            pe_reject_value(s, p, "less than %lld: positions begin after it, in a table of %s rows", (long long)(rows - 1),
                            r.path);
            return;
        }
    }
    if (!good || (pe_model_fact(s, "@kind") && !is_absolute(s, rows)))
        return;
    pe_draft d = pe_draft_of(s, "learned");
    if (layers && !s->nested)
        d.layer_type = layers;
    d.open = true;
    const int64_t first = padded ? pad + 1 : from ? strtoll(from, NULL, 10) : 0;
    pe_need_pair(&d, "table_shape", rows + extra, width);
    pe_need_int(&d, "first_position", first);
    if (padded) {
        pe_draft_int(&d, "padding_idx", pad, NULL);
        pe_need_int(&d, "padding_idx", pad);
        pe_draft_note(&d, "positions count the tokens that are no padding, from %lld on: %lld tokens fit", (long long)first,
                      (long long)(rows - first));
    } else if (first) {
        pe_draft_int(&d, "offset", first, NULL);
        pe_draft_note(&d, "the token at place i has row i + %lld", (long long)first);
    }
    pe_draft_add(&d);
}

void pe_resolve_distilbert(const pe_section *s)
{
    int64_t rows, width;
    const char *key = pe_model_fact(s, "@sinusoid");
    bool fixed = false;
    if (pe_found_any(pe_given_key(s, key)) && !pe_as_bool(s, pe_given_key(s, key), &fixed))
        return;
    if (!fixed) {
        pe_resolve_learned(s);
        return;
    }
    pe_found r = pe_required_key(s, "max_position_embeddings"), w = pe_required_key(s, "dim|emb_dim|hidden_size");
    bool good = pe_as_int(s, r, 1, 1 << 30, &rows);
    good &= pe_as_int(s, w, 1, 1 << 24, &width);
    if (!good)
        return;
    pe_draft d = pe_draft_of(s, "sinusoidal");
    pe_draft_int(&d, "embedding_dim", width, w.path);
    pe_draft_word(&d, "layout", "interleaved", NULL);
    pe_draft_int(&d, "num_positions", rows, r.path);
    pe_draft_word(&d, "compute_dtype", "float64", NULL);
    pe_draft_add(&d);
}

/* ---- sinusoids ----------------------------------------------------------------------------------------------- */

static void add_sinusoidal(const pe_section *s, const char *layers, int64_t rows, const char *rows_path)
{
    int64_t width, pad = -1;
    const char *odd = pe_model_fact(s, "@odd"), *precise = pe_model_fact(s, "@compute"), *first = pe_model_fact(s, "@first");
    pe_found w = pe_required_key(s, "d_model|hidden_size|embed_dim"), p = { 0 };
    if (!pe_as_int(s, w, 1, 1 << 24, &width))
        return;
    if (first) {
        p = pe_required_key(s, "pad_token_id");
        if (!pe_as_int(s, p, 0, 1 << 30, &pad))
            return;
    }
    pe_draft d = pe_draft_of(s, "sinusoidal");
    d.layer_type = layers;
    pe_draft_int(&d, "embedding_dim", width, w.path);
    pe_draft_word(&d, "layout", "split", NULL);
    pe_draft_int(&d, "downscale_freq_shift", pe_model_fact_int(s, "@shift", 0), NULL);
    if (odd)
        pe_draft_word(&d, "odd_dim", odd, NULL);
    if (precise)
        pe_draft_word(&d, "compute_dtype", precise, NULL);
    if (pad >= 0 && pad < rows + pe_model_fact_int(s, "@extra", 0))
        pe_draft_int(&d, "padding_idx", pad, p.path);
    pe_draft_int(&d, "num_positions", rows + pe_model_fact_int(s, "@extra", 0), rows_path);
    if (pad >= 0) {
        pe_need_int(&d, "first_position", pad + 1);
        pe_draft_note(&d, "positions count the tokens that are no padding, from %lld on", (long long)pad + 1);
    }
    pe_draft_add(&d);
}

/* @towers: names of the towers that have such a table each, separated by commas. */
void pe_resolve_sinusoidal(const pe_section *s)
{
    int64_t rows;
    const char *towers = pe_model_fact(s, "@towers");
    pe_found r = pe_required_key(s, names_of(s, "@rows", "max_position_embeddings"));
    if (!pe_as_int(s, r, 1, 1 << 30, &rows))
        return;
    if (!towers || s->nested) {
        add_sinusoidal(s, s->layers, rows, r.path);
        return;
    }
    for (size_t n; *towers; towers += n + (towers[n] == ',')) {
        n = strcspn(towers, ",");
        add_sinusoidal(s, pe_print_text(s->r, "%.*s", (int)n, towers), rows, r.path);
    }
}

/* Sinusoids for frames, a learned table for tokens. */
void pe_resolve_whisper(const pe_section *s)
{
    int64_t rows, width, targets;
    pe_found r = pe_required_key(s, "max_source_positions"), t = pe_required_key(s, "max_target_positions"),
             w = pe_required_key(s, "d_model");
    bool good = pe_as_int(s, r, 1, 1 << 30, &rows);
    good &= pe_as_int(s, t, 1, 1 << 30, &targets);
    good &= pe_as_int(s, w, 1, 1 << 24, &width);
    if (!good)
        return;
    add_sinusoidal(s, "encoder", rows, r.path);
    pe_draft d = pe_draft_of(s, "learned");
    d.layer_type = "decoder";
    d.open = true;
    pe_need_pair(&d, "table_shape", targets, width);
    pe_need_int(&d, "first_position", 0);
    pe_draft_add(&d);
}

/* ---- buckets and relative tables ----------------------------------------------------------------------------- */

static void add_buckets(const pe_section *s, const char *layers, bool bidirectional, pe_found buckets, pe_found distance)
{
    int64_t n, far, heads;
    pe_found h;
    bool good = pe_as_int(s, buckets, 1, 1 << 20, &n);
    good &= pe_as_int(s, distance, 1, 1 << 30, &far);
    if (!pe_read_heads(s, &heads, &h) || !good)
        return;
    const int64_t exact = n / (bidirectional ? 4 : 2);
    if (!exact)
        pe_reject_value(s, buckets, "at least %d", bidirectional ? 4 : 2);
    else if (far <= exact)
        pe_reject_value(s, distance, "over %lld, the distance from which buckets grow", (long long)exact);
    pe_draft d = pe_draft_of(s, "t5_bucket");
    d.layer_type = layers;
    pe_draft_bool(&d, "bidirectional", bidirectional, NULL);
    pe_draft_int(&d, "num_buckets", n, buckets.path);
    pe_draft_int(&d, "max_distance", far, distance.path);
    d.probe = "\"relative_position\":[0]";
    pe_need_pair(&d, "table_shape", n, heads);
    pe_need_word(&d, "relative_position", "key - query, or query_length and key_length");
    pe_draft_note(&d, "%s; t5_bias adds the table's rows",
                  pe_model_fact(s, "@own") ? "every layer has its own table"
                                           : "one table, in the first layer, for the whole stack");
    pe_draft_add(&d);
}

void pe_resolve_t5(const pe_section *s)
{
    bool both = true;
    pe_found buckets = pe_required_key(s, "relative_attention_num_buckets"),
             distance = pe_required_key(s, "relative_attention_max_distance"), pair = pe_key(s, "is_encoder_decoder");
    if (pe_found_any(pair) && !pe_as_bool(s, pair, &both))
        return;
    add_buckets(s, "encoder", true, buckets, distance);
    if (both)
        add_buckets(s, "decoder", false, buckets, distance);
}

/* A learned table and buckets at once; how far they reach is a literal of the code. */
void pe_resolve_mpnet(const pe_section *s)
{
    pe_resolve_learned(s);
    add_buckets(s, "encoder", true, pe_required_key(s, "relative_attention_num_buckets"),
                pe_required_key(s, "max_distance"));
}

void pe_resolve_deberta(const pe_section *s)
{
    int64_t buckets = -1, far = -1, length;
    bool relative = false, absolute = true;
    pe_found r = pe_key(s, "relative_attention"), a = pe_key(s, "position_biased_input"), b = pe_key(s, "position_buckets"),
             m = pe_given_key(s, "max_relative_positions");
    bool good = pe_as_bool(s, r, &relative);
    good &= pe_as_bool(s, a, &absolute);
    good &= !pe_found_any(b) || pe_as_int(s, b, -1, 1 << 20, &buckets);
    good &= !pe_found_any(m) || pe_as_int(s, m, -1, 1 << 30, &far);
    if (!good)
        return;
    if (absolute)
        pe_resolve_learned(s);
    if (relative) {
        const char *path = m.path;
        if (far < 1) {
            pe_found l = pe_required_key(s, "max_position_embeddings");
            if (!pe_as_int(s, l, 1, 1 << 30, &length))
                return;
            far = length;
            path = l.path;
            pe_default_used(s, pe_key_path(s, "max_relative_positions"), l.value.p, (size_t)(l.value.end - l.value.p));
        }
        pe_draft d = pe_draft_of(s, "deberta_relative");
        d.layer_type = s->nested ? s->layers : "encoder";
        if (buckets > 0)
            pe_draft_int(&d, "position_buckets", buckets, b.path);
        pe_draft_int(&d, "max_relative_positions", far, path);
        if (buckets > 0)
            pe_draft_bool(&d, "clamp", false, NULL);
        d.probe = "\"relative_position\":[0]";
        int64_t width;
        pe_found w;
        if (pe_read_width(s, &width, &w))
            pe_need_pair(&d, "table_shape", 2 * (buckets > 0 ? buckets : far), width);
        pe_need_word(&d, "relative_position", "query - key, or query_length and key_length");
        pe_draft_add(&d);
    }
    if (!relative && !absolute)
        pe_draft_add_none(s, s->layers, NULL, 0, "neither relative_attention nor position_biased_input");
}

static void add_relative_sinusoidal(const pe_section *s, const char *preset)
{
    int64_t width, clamp = -1;
    pe_found w = pe_required_key(s, "d_model|hidden_size"), c = pe_key(s, "clamp_len"), t = pe_key(s, "attn_type");
    bool good = pe_as_int(s, w, 1, 1 << 24, &width);
    good &= !pe_found_any(c) || pe_as_int(s, c, -1, 1 << 30, &clamp);
    if (!good)
        return;
    const bool xlnet = !strcmp(preset, "xlnet");
    pe_draft d = pe_draft_of(s, "relative_sinusoidal");
    pe_draft_word(&d, "preset", preset, NULL);
    pe_draft_int(&d, "embedding_dim", width, w.path);
    if (xlnet && pe_found_any(t)) {
        const char *word = pe_as_word(s, t);
        if (!word)
            return;
        if (strcmp(word, "bi") != 0 && strcmp(word, "uni") != 0) {
            pe_reject_value(s, t, "bi or uni");
            return;
        }
        pe_draft_word(&d, "attn_type", word, t.path);
    }
    if (clamp > 0)
        pe_draft_int(&d, "clamp_len", clamp, c.path);
    d.probe = xlnet ? "\"query_length\":1,\"key_length\":1" : "\"key_length\":1";
    pe_need_word(&d, "key_length",
                 xlnet ? "and query_length: of the input and what is remembered" : "of the input and what is remembered");
    pe_draft_add(&d);
}

void pe_resolve_xlnet(const pe_section *s) { add_relative_sinusoidal(s, "xlnet"); }
void pe_resolve_transfo_xl(const pe_section *s) { add_relative_sinusoidal(s, "transformer_xl"); }

/* ---- convolutions -------------------------------------------------------------------------------------------- */

void pe_resolve_wav2vec2(const pe_section *s)
{
    int64_t kernel, groups;
    pe_found k = pe_required_key(s, "num_conv_pos_embeddings"), g = pe_key(s, "num_conv_pos_embedding_groups");
    bool good = pe_as_int(s, k, 1, 1 << 20, &kernel);
    good &= !pe_found_any(g) || pe_as_int(s, g, 1, 1 << 20, &groups);
    if (!good)
        return;
    pe_draft d = pe_draft_of(s, "conv_position");
    d.layer_type = s->nested ? s->layers : "encoder";
    d.open = true;
    pe_need_int(&d, "kernel", kernel);
    if (pe_found_any(g))
        pe_need_int(&d, "groups", groups);
    pe_draft_note(
        &d, "a convolution over the hidden states: it needs the weights and the input, and is no positional encoding that "
            "can be computed from the configuration");
    pe_resolve_warning(s, "positions come from a convolution (%s) over the hidden states: there is nothing to compute",
                       k.path);
    pe_draft_add(&d);
}
