/* vision.c - image towers: learned grids, rotations in two dimensions, windows; latents and time steps of diffusion. */
#include "resolve/resolve.h"

#include <math.h>
#include <string.h>

/* ---- grids --------------------------------------------------------------------------------------------------- */

/* Patches of the image that the model was trained on. False: a fault has been told. */
static bool read_grid(const pe_section *s, int64_t grid[2])
{
    int64_t image[2], patch[2];
    pe_found i = pe_required_key(s, "image_size|spec_size"), p = pe_required_key(s, "patch_size");
    bool good = pe_read_pair(s, i, 1, image);
    good &= pe_read_pair(s, p, 1, patch);
    for (int k = 0; good && k < 2; k++) {
        if (image[k] % patch[k] && (image[k] < patch[k] || !pe_model_fact(s, "@floor"))) {
            pe_reject_value(s, i, "a multiple of %s, which is %lld", p.path, (long long)patch[k]);
            return false;
        }
        grid[k] = image[k] / patch[k]; /* some models drop the pixels that are no whole patch */
    }
    return good;
}

static void add_grid_table(const pe_section *s, const int64_t grid[2], int64_t width)
{
    const char *interpolation = pe_model_fact(s, "@interpolation");
    const int64_t prefix = pe_model_fact_int(s, "@prefix", 0);
    const bool fixed = interpolation && !strcmp(interpolation, "none");
    pe_draft d = pe_draft_of(s, fixed ? "learned" : "vit_resize");
    d.open = true;
    if (!fixed) {
        pe_draft_pair(&d, "old_size", grid, NULL);
        pe_draft_int(&d, "num_prefix_tokens", prefix, NULL);
        pe_draft_word(&d, "interpolation", interpolation ? interpolation : "bicubic", NULL);
        pe_draft_bool(&d, "antialias", pe_model_fact_int(s, "@antialias", 0) != 0, NULL);
    }
    pe_need_pair(&d, "table_shape", prefix + grid[0] * grid[1], width);
    pe_need_pair(&d, "grid", grid[0], grid[1]);
    if (fixed) {
        pe_need_int(&d, "first_position", 0);
    } else {
        pe_need_word(&d, "posemb", "the table");
        pe_need_word(&d, "new_size", "the grid of the image at hand; the trained grid needs no resizing");
    }
    const char *note = pe_model_fact(s, "@note");
    if (note && !strcmp(note, "tiles"))
        pe_draft_note(&d, "gated, with a second table for the tiles of each aspect ratio");
    if (note && !strcmp(note, "merge"))
        pe_draft_note(&d, "rows in the order of merged blocks, sampled by vision_interpolation with align_corners");
    pe_draft_add(&d);
}

/* Idefics, MiniCPM-V: places of an image of any shape are spread over the table's sides. */
static void add_fractions(const pe_section *s, int64_t side, const char *path)
{
    pe_draft d = pe_draft_of(s, "fractional_patch_index");
    pe_draft_int(&d, "num_patches_per_side", side, path);
    d.probe = "\"patch_attention_mask\":[[1]]";
    pe_need_word(&d, "patch_attention_mask", "which patches of the image are there");
    pe_draft_note(&d, "which rows of the table a patch takes");
    pe_draft_add(&d);
}

void pe_resolve_vit(const pe_section *s)
{
    int64_t grid[2], width, rows;
    pe_found w = pe_required_key(s, "hidden_size|embed_dim|d_model|width");
    bool good = pe_as_int(s, w, 1, 1 << 24, &width);
    const char *key = pe_model_fact(s, "@rows");
    pe_found fixed = pe_key(s, key ? key : "num_position_embeddings");
    if (pe_found_any(fixed)) { /* a square grid of so many rows */
        if (!pe_as_int(s, fixed, 1, 1 << 30, &rows) || !good)
            return;
        grid[0] = grid[1] = (int64_t)sqrt((double)rows);
        if (grid[0] * grid[1] != rows) {
            pe_reject_value(s, fixed, "a square number: the table is a grid");
            return;
        }
    } else if (!read_grid(s, grid) || !good) {
        return;
    }
    add_grid_table(s, grid, width);
    if (pe_model_fact(s, "@fractions"))
        add_fractions(s, grid[0], pe_given_key(s, "image_size").path);
}

/* ---- rotations ----------------------------------------------------------------------------------------------- */

static pe_found theta_of(const pe_section *s)
{
    const pe_node *block = pe_node_member(s->node, "rope_parameters");
    pe_found nested = pe_key_in(s, block, "rope_theta"), flat = pe_given_key(s, "rope_theta");
    double x, y;
    if (block && !pe_node_is_object(block))
        pe_reject(s, pe_key_path(s, "rope_parameters"), pe_node_show(block, block->value).s, "an object, or null");
    if (pe_found_any(nested) && pe_found_any(flat) && pe_as_real(s, nested, &x) && pe_as_real(s, flat, &y) && x != y)
        pe_reject_value(s, flat, "%g, as %s says", x, nested.path);
    return pe_found_any(nested) ? nested : pe_required_key(s, "rope_theta");
}

static bool begin_rope_2d(const pe_section *s, const char *preset, pe_draft *d)
{
    int64_t head;
    double theta;
    const char *path;
    pe_found base = theta_of(s);
    bool good = pe_as_positive(s, base, &theta);
    pe_found given = pe_given_key(s, "head_dim");
    if (pe_found_any(given)) {
        good &= pe_as_int(s, given, 1, 1 << 20, &head);
        path = given.path;
    } else { /* the width has a name of its own in some towers */
        int64_t width, heads;
        const char *key = pe_model_fact(s, "@width");
        pe_found w = pe_required_key(s, key ? key : "hidden_size"),
                 h = pe_required_key(s, "num_heads|num_attention_heads|attention_heads");
        good &= pe_as_int(s, w, 1, 1 << 24, &width);
        good &= pe_as_int(s, h, 1, 1 << 20, &heads);
        if (good && width % heads) {
            pe_reject_value(s, h, "a divisor of %s, which is %lld", w.path, (long long)width);
            return false;
        }
        head = good ? width / heads : 0;
        path = h.path;
    }
    if (good && head % 4) {
        pe_reject(s, path, posenc_text("%lld channels a head", (long long)head).s,
                  "a multiple of 4 channels a head: two axes of pairs");
        return false;
    }
    if (!good)
        return false;
    *d = pe_draft_of(s, "rope_2d");
    pe_draft_word(d, "preset", preset, NULL);
    pe_draft_int(d, "head_dim", head, path);
    pe_draft_found(d, "rope_theta", base);
    return true;
}

/* The rotation, and for Qwen3-VL a learned grid besides. */
void pe_resolve_qwen_vision(const pe_section *s)
{
    pe_draft d;
    int64_t merge;
    if (!begin_rope_2d(s, "qwen2_vl", &d))
        return;
    pe_found m = pe_key(s, "spatial_merge_size");
    if (pe_found_any(m)) {
        if (!pe_as_int(s, m, 1, 1 << 16, &merge))
            return;
        pe_draft_int(&d, "spatial_merge_size", merge, m.path);
    }
    pe_draft_note(&d, "height and width: patches of the image at hand");
    pe_draft_add(&d);
    if (pe_found_any(pe_key(s, "num_position_embeddings")))
        pe_resolve_vit(s);
}

void pe_resolve_pixtral(const pe_section *s)
{
    pe_draft d;
    if (!begin_rope_2d(s, "pixtral", &d))
        return;
    pe_draft_note(&d, "height and width: patches of the image at hand");
    pe_draft_add(&d);
}

void pe_resolve_dinov3(const pe_section *s)
{
    pe_draft d;
    int64_t registers;
    pe_section tower = *s;
    tower.layers = "vision";
    if (!begin_rope_2d(&tower, "dinov3", &d))
        return;
    pe_found r = pe_key(s, "num_register_tokens");
    if (pe_found_any(r) && pe_as_int(s, r, 0, 1 << 16, &registers))
        pe_draft_note(&d, "the first %lld tokens (class and registers) do not rotate", (long long)registers + 1);
    pe_draft_note(&d, "pos_embed_shift, jitter and rescale are for training only");
    pe_draft_add(&d);
}

void pe_resolve_gemma4_vision(const pe_section *s)
{
    pe_draft d;
    int64_t rows, width;
    if (!begin_rope_2d(s, "gemma4", &d))
        return;
    pe_draft_note(&d, "positions_xy: column and row of each patch");
    pe_draft_add(&d);
    pe_found r = pe_key(s, "position_embedding_size"), w = pe_key(s, "hidden_size");
    if (!pe_found_any(r) || !pe_found_any(w) || !pe_as_int(s, r, 1, 1 << 24, &rows) || !pe_as_int(s, w, 1, 1 << 24, &width))
        return;
    pe_draft t = pe_draft_of(s, "learned");
    t.open = true;
    pe_need_pair(&t, "table_shape", rows, width);
    pe_need_int(&t, "first_position", 0);
    pe_draft_note(&t, "two such tables, one for columns and one for rows, whose rows are added");
    pe_draft_add(&t);
}

void pe_resolve_llama4_vision(const pe_section *s)
{
    pe_draft d;
    int64_t grid[2], width;
    if (!read_grid(s, grid) || !begin_rope_2d(s, "llama4", &d))
        return;
    pe_draft_int(&d, "height", grid[0], pe_key(s, "image_size").path);
    pe_draft_int(&d, "width", grid[1], pe_key(s, "image_size").path);
    pe_draft_add(&d);
    pe_found w = pe_required_key(s, "hidden_size");
    if (!pe_as_int(s, w, 1, 1 << 24, &width))
        return;
    pe_draft t = pe_draft_of(s, "learned");
    t.open = true;
    pe_need_pair(&t, "table_shape", grid[0] * grid[1] + 1, width);
    pe_need_int(&t, "first_position", 0);
    pe_draft_note(&t, "the class token comes last");
    pe_draft_add(&t);
}

/* ---- windows ------------------------------------------------------------------------------------------------- */

/* Later stages of small images have less than a window: the peers shrink it there. */
static void warn_of_small_stages(const pe_section *s, const int64_t window[2])
{
    int64_t image[2], patch[2];
    pe_found i = pe_given_key(s, "image_size|spec_size"), p = pe_given_key(s, "patch_size"), d = pe_given_key(s, "depths");
    if (!pe_found_any(i) || !pe_found_any(p) || !pe_found_any(d) || !pe_read_pair(s, i, 1, image) ||
        !pe_read_pair(s, p, 1, patch))
        return;
    for (size_t k = 0; k < pe_list_size(d) && k < 16; k++)
        if (image[0] / patch[0] >> k < window[0])
            pe_resolve_warning(
                s, "%s: stage %zu has %lld places a side, less than a window: its index is that of a smaller one", d.path, k,
                (long long)(image[0] / patch[0] >> k));
}

void pe_resolve_swin(const pe_section *s)
{
    int64_t window[2];
    pe_found w = pe_required_key(s, "window_size");
    if (!pe_read_pair(s, w, 1, window))
        return;
    warn_of_small_stages(s, window);
    pe_draft d = pe_draft_of(s, "swin_relative_position_index");
    pe_draft_pair(&d, "window_size", window, w.path);
    pe_need_int(&d, "table_rows", (2 * window[0] - 1) * (2 * window[1] - 1));
    pe_draft_note(&d, "every block has its own table, a column for each head");
    pe_draft_add(&d);
}

void pe_resolve_swinv2(const pe_section *s)
{
    int64_t window[2], trained[16];
    pe_found w = pe_required_key(s, "window_size"), p = pe_key(s, "pretrained_window_sizes");
    pe_json e = { 0 };
    size_t n = 0;
    if (!pe_read_pair(s, w, 1, window))
        return;
    warn_of_small_stages(s, window);
    for (; n < PE_LEN(trained) && pe_is_list(p) && pe_json_next(p.value, &e); n++)
        if (pe_json_type(e) != PE_J_NUMBER || !pe_json_int(e, &trained[n]) || trained[n] < 0 || trained[n] > 1 << 16) {
            pe_reject_value(s, p, "window sizes, one a stage; 0: none");
            return;
        }
    if (!n)
        trained[n++] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t before = 0;
        while (before < i && trained[before] != trained[i])
            before++;
        if (before < i)
            continue;
        pe_draft d = pe_draft_of(s, "swinv2_relative_coords_table");
        pe_draft_pair(&d, "window_size", window, w.path);
        pe_draft_pair(&d, "pretrained_window_size", (int64_t[]){ trained[i], trained[i] }, p.path);
        if (n > 1)
            pe_draft_note(&d, "of the stages with pretrained_window_sizes %lld", (long long)trained[i]);
        pe_draft_add(&d);
    }
}

void pe_resolve_beit(const pe_section *s)
{
    int64_t grid[2], width, heads;
    bool absolute = false, relative = false, shared = false;
    pe_found a = pe_key(s, "use_absolute_position_embeddings"), r = pe_key(s, "use_relative_position_bias"),
             h = pe_key(s, "use_shared_relative_position_bias"), w = pe_required_key(s, "hidden_size"), from;
    bool good = pe_as_bool(s, a, &absolute);
    good &= pe_as_bool(s, r, &relative);
    good &= pe_as_bool(s, h, &shared);
    good &= pe_as_int(s, w, 1, 1 << 24, &width);
    good &= pe_read_heads(s, &heads, &from);
    if (!good || !read_grid(s, grid))
        return;
    if (absolute)
        add_grid_table(s, grid, width);
    if (relative || shared) {
        pe_draft d = pe_draft_of(s, "beit_relative_position_index");
        pe_draft_pair(&d, "window_size", grid, NULL);
        pe_draft_bool(&d, "class_token", true, NULL);
        pe_need_pair(&d, "table_shape", (2 * grid[0] - 1) * (2 * grid[1] - 1) + 3, heads);
        pe_draft_note(&d, "%s", shared ? "one table for all layers" : "every layer has its own table");
        pe_draft_add(&d);
    }
    if (!absolute && !relative && !shared)
        pe_draft_add_none(s, s->layers, NULL, 0, "all three kinds of positions are off");
}

/* Fixed sinusoids of the grid, for the encoder and the decoder. */
void pe_resolve_vit_mae(const pe_section *s)
{
    static const char *const towers[] = { "encoder", "decoder" };
    static const char *const widths[] = { "hidden_size", "decoder_hidden_size" };
    int64_t grid[2], width;
    if (!read_grid(s, grid))
        return;
    for (int k = 0; k < 2; k++) {
        pe_found w = pe_required_key(s, widths[k]);
        if (!pe_as_int(s, w, 1, 1 << 24, &width))
            return;
        pe_draft d = pe_draft_of(s, "sinusoidal_2d");
        d.layer_type = towers[k];
        pe_draft_word(&d, "preset", "mae", NULL);
        pe_draft_int(&d, "embed_dim", width, w.path);
        pe_draft_int(&d, "height", grid[0], pe_key(s, "image_size").path);
        pe_draft_int(&d, "width", grid[1], pe_key(s, "image_size").path);
        pe_draft_bool(&d, "cls_token", true, NULL);
        pe_draft_add(&d);
    }
}

/* ---- diffusion ----------------------------------------------------------------------------------------------- */

static void add_timestep(const pe_section *s, const char *layers, pe_found width, int64_t w, bool flip, double shift)
{
    pe_draft d = pe_draft_of(s, "timestep");
    d.layer_type = layers;
    pe_draft_int(&d, "embedding_dim", w, width.path);
    pe_draft_bool(&d, "flip_sin_to_cos", flip, NULL);
    pe_draft_real(&d, "downscale_freq_shift", shift, NULL);
    d.probe = "\"timesteps\":[0]";
    pe_need_word(&d, "timesteps", "of the sampler");
    pe_draft_add(&d);
}

/* Transformers embed the time by a literal of the code: 256 channels, cosines first. */
static void add_plain_timestep(const pe_section *s)
{
    const char *path = pe_key_path(s, "timestep.embedding_dim");
    pe_default_used(s, path, "256", 3);
    add_timestep(s, "timestep", (pe_found){ .path = path }, 256, true, 0);
}

static bool read_int(const pe_section *s, const char *names, int64_t otherwise, int64_t *out, const char **path)
{
    pe_found f = pe_given_key(s, names);
    if (pe_found_any(f)) {
        *path = f.path;
        return pe_as_int(s, f, 1, 1 << 24, out);
    }
    *path = pe_key_path(s, names);
    if (otherwise < 0) {
        pe_reject_missing(s, *path, "the key: positions depend on it");
        return false;
    }
    *out = otherwise;
    const char *text = pe_print_text(s->r, "%lld", (long long)otherwise);
    pe_default_used(s, *path, text, strlen(text));
    return true;
}

static double read_theta(const pe_section *s, const char *key, double otherwise, const char **path)
{
    double v;
    pe_found f = pe_given_key(s, key);
    *path = pe_found_any(f) ? f.path : pe_key_path(s, key);
    if (pe_found_any(f))
        return pe_as_positive(s, f, &v) ? v : otherwise;
    const char *text = pe_print_text(s->r, "%.17g", otherwise);
    pe_default_used(s, *path, text, strlen(text));
    return otherwise;
}

static void unet(const pe_section *s)
{
    int64_t width = 0;
    double shift = 0;
    bool flip = true;
    pe_json e = { 0 };
    pe_found blocks = pe_given_key(s, "block_out_channels"), kind = pe_given_key(s, "time_embedding_type"),
             f = pe_given_key(s, "flip_sin_to_cos"), h = pe_given_key(s, "freq_shift"),
             more = pe_given_key(s, "addition_embed_type");
    if (!pe_found_any(blocks))
        pe_reject_missing(s, pe_key_path(s, "block_out_channels"), "the key: the width of the time embedding");
    else if (!pe_is_list(blocks) || !pe_json_next(blocks.value, &e) || pe_json_type(e) != PE_J_NUMBER ||
             !pe_json_int(e, &width) || width < 1 || width > 1 << 24)
        pe_reject_value(s, blocks, "a list of channels, at least 1 each");
    if (!pe_found_any(f))
        pe_default_used(s, pe_key_path(s, "flip_sin_to_cos"), "true", 4);
    else
        pe_as_bool(s, f, &flip);
    if (!pe_found_any(h))
        pe_default_used(s, pe_key_path(s, "freq_shift"), "0", 1);
    else
        pe_as_real(s, h, &shift);
    const char *word = pe_as_word(s, kind);
    if (word && !strcmp(word, "fourier"))
        pe_resolve_warning(
            s, "%s fourier: the frequencies are random weights of the model (random_fourier, with its matrix)", kind.path);
    else if (word && strcmp(word, "positional") != 0)
        pe_reject_value(s, kind, "positional or fourier");
    if (s->r->err->n || (word && !strcmp(word, "fourier")))
        return;
    add_timestep(s, "timestep", blocks, width, flip, shift);
    static const char *const others[] = { "text", "text_image", "image", "image_hint" };
    bool timeless = false;
    word = pe_as_word(s, more);
    for (size_t i = 0; word && i < PE_LEN(others); i++)
        timeless |= !strcmp(word, others[i]);
    if (word && !timeless && strcmp(word, "text_time") != 0)
        pe_reject_value(s, more, "text_time, text, text_image, image or image_hint");
    if (!word || strcmp(word, "text_time") != 0)
        return;
    const char *path;
    if (read_int(s, "addition_time_embed_dim", -1, &width, &path))
        add_timestep(s, "add_time_ids", (pe_found){ .path = path }, width, flip, shift);
}

/* SD3, PixArt: sinusoids of a grid around the trained size. */
static void grid_sines(const pe_section *s)
{
    int64_t heads = 0, head = 0, sample = 0, patch = 0, largest = 0;
    const char *heads_path, *head_path, *sample_path, *patch_path, *largest_path, *scale_path;
    bool good = read_int(s, "num_attention_heads", -1, &heads, &heads_path);
    good &= read_int(s, "attention_head_dim", -1, &head, &head_path);
    good &= read_int(s, "sample_size", 128, &sample, &sample_path);
    good &= read_int(s, "patch_size", 2, &patch, &patch_path);
    if (!good)
        return;
    if (sample % patch) {
        pe_reject(s, sample_path, posenc_text("%lld", (long long)sample).s, "a multiple of %s, which is %lld", patch_path,
                  (long long)patch);
        return;
    }
    pe_found max = pe_given_key(s, "pos_embed_max_size"), scale = pe_given_key(s, "interpolation_scale");
    const int64_t base = sample / patch;
    double zoom = 1;
    largest = base;
    largest_path = sample_path;
    scale_path = scale.path;
    if (pe_found_any(max) && !pe_as_int(s, max, 1, 1 << 16, &largest))
        return;
    if (pe_found_any(max))
        largest_path = max.path;
    if (pe_found_any(scale) && !pe_as_positive(s, scale, &zoom))
        return;
    if (!pe_found_any(scale) && !pe_found_any(max))
        zoom = sample / 64 > 1 ? (double)(sample / 64) : 1;
    pe_draft d = pe_draft_of(s, "sinusoidal_2d");
    d.layer_type = "latent";
    pe_draft_word(&d, "preset", "diffusers", NULL);
    pe_draft_int(&d, "embed_dim", heads * head, heads_path);
    pe_draft_int(&d, "height", largest, largest_path);
    pe_draft_int(&d, "width", largest, largest_path);
    pe_draft_int(&d, "base_size", base, sample_path);
    pe_draft_real(&d, "interpolation_scale", zoom, scale_path);
    if (pe_found_any(max))
        pe_draft_note(&d, "of this grid the part in the middle is used that the image has");
    pe_draft_add(&d);
    add_plain_timestep(s);
}

static void hunyuan_dit(const pe_section *s)
{
    int64_t head;
    const char *path = NULL, *theta_path = NULL;
    if (!read_int(s, "attention_head_dim", -1, &head, &path))
        return;
    if (head % 4) {
        pe_reject(s, path, posenc_text("%lld", (long long)head).s, "a multiple of 4: two axes of pairs");
        return;
    }
    pe_draft d = pe_draft_of(s, "rope_2d");
    d.layer_type = "latent";
    pe_draft_word(&d, "preset", "hunyuan_dit", NULL);
    pe_draft_int(&d, "head_dim", head, path);
    pe_draft_real(&d, "rope_theta", read_theta(s, "rope_theta", 10000, &theta_path), theta_path);
    d.probe = "\"height\":1,\"width\":1,\"crops_coords\":[[0,0],[1,1]]";
    pe_need_word(&d, "crops_coords",
                 "the crop of the trained grid, and height and width of the image's: the pipeline knows them");
    pe_draft_add(&d);
    add_plain_timestep(s);
}

/* Rotations with an axis for each coordinate. Channels an axis: a key, or a rule of the head's width. */
static const struct {
    const char *class_name, *key;
    const char *axes; /* when the key is absent: numbers; "video": of attention_head_dim, as Wan; "cog": as CogVideoX */
    int64_t head;     /* attention_head_dim when absent; 0: required */
    const char *theta_key;
    double theta;
} rotations[] = {
    { "FluxTransformer2DModel", "axes_dims_rope", "[16,56,56]", 128, "rope_theta", 10000 },
    { "Flux2Transformer2DModel", "axes_dims_rope", "[32,32,32,32]", 128, "rope_theta", 2000 },
    { "ChromaTransformer2DModel", "axes_dims_rope", "[16,56,56]", 128, "rope_theta", 10000 },
    { "QwenImageTransformer2DModel", "axes_dims_rope", "[16,56,56]", 128, "rope_theta", 10000 },
    { "HiDreamImageTransformer2DModel", "axes_dims_rope", NULL, 128, "rope_theta", 10000 },
    { "HunyuanVideoTransformer3DModel", "rope_axes_dim", "[16,56,56]", 128, "rope_theta", 256 },
    { "WanTransformer3DModel", NULL, "video", 128, "rope_theta", 10000 },
    { "CogVideoXTransformer3DModel", NULL, "cog", 64, "rope_theta", 10000 },
};

static void rotate(const pe_section *s, size_t k)
{
    int64_t head, sum = 0, v;
    const char *head_path = NULL, *theta_path = NULL, *json = rotations[k].axes;
    pe_json e = { 0 };
    size_t n = 0;
    pe_found f = rotations[k].key ? pe_given_key(s, rotations[k].key) : (pe_found){ 0 };
    if (!read_int(s, "attention_head_dim", rotations[k].head, &head, &head_path))
        return;
    if (!strcmp(rotations[k].axes ? rotations[k].axes : "", "cog")) {
        bool on = false;
        pe_found use = pe_given_key(s, "use_rotary_positional_embeddings");
        if (pe_found_any(use) && !pe_as_bool(s, use, &on))
            return;
        if (!on) {
            pe_resolve_warning(
                s, "use_rotary_positional_embeddings is off: positions are sinusoids of the video's grid (sinusoidal_3d)");
            return;
        }
        json = pe_print_text(s->r, "[%lld,%lld,%lld]", (long long)head / 4, (long long)head * 3 / 8,
                             (long long)head * 3 / 8);
    } else if (json && !strcmp(json, "video")) {
        const int64_t side = 2 * (head / 6);
        json = pe_print_text(s->r, "[%lld,%lld,%lld]", (long long)(head - 2 * side), (long long)side, (long long)side);
    }
    if (!pe_found_any(f)) {
        const char *path = pe_key_path(s, rotations[k].key ? rotations[k].key : "attention_head_dim");
        if (!json) {
            pe_reject_missing(s, path, "the key: channels of each axis");
            return;
        }
        if (rotations[k].key)
            pe_default_used(s, path, json, strlen(json));
        f = (pe_found){ .path = path, .value = { json, json + strlen(json) } };
    }
    bool good = pe_is_list(f);
    for (; good && pe_json_next(f.value, &e); n++) {
        good = n < 8 && pe_json_type(e) == PE_J_NUMBER && pe_json_int(e, &v) && v >= 2 && v % 2 == 0 && v <= 65536;
        sum += good ? v : 0;
    }
    if (!good || !n) {
        pe_reject_value(s, f, "even numbers of channels, one for each axis");
        return;
    }
    if (sum != head) {
        pe_reject_value(s, f, "channels whose sum is %lld, as %s says", (long long)head, head_path);
        return;
    }
    static const char *const ids[] = { "[[0]]",         "[[0,0]]",         "[[0,0,0]]",         "[[0,0,0,0]]",
                                       "[[0,0,0,0,0]]", "[[0,0,0,0,0,0]]", "[[0,0,0,0,0,0,0]]", "[[0,0,0,0,0,0,0,0]]" };
    pe_draft d = pe_draft_of(s, "rope_nd");
    d.layer_type = "latent";
    pe_draft_found(&d, "axes_dim", f);
    pe_draft_real(&d, "rope_theta", read_theta(s, rotations[k].theta_key, rotations[k].theta, &theta_path), theta_path);
    pe_draft_word(&d, "layout", "interleaved", NULL);
    d.probe = pe_print_text(s->r, "\"ids\":%s", ids[n - 1]);
    pe_need_word(&d, "ids", "coordinates of the tokens, one for each axis");
    pe_draft_add(&d);
    add_plain_timestep(s);
}

bool pe_resolve_diffusion(const pe_section *s, const char *class_name)
{
    static const struct {
        const char *class_name;
        pe_scheme *scheme;
    } classes[] = {
        { "UNet2DConditionModel", unet },        { "UNet2DModel", unet },
        { "SD3Transformer2DModel", grid_sines }, { "PixArtTransformer2DModel", grid_sines },
        { "HunyuanDiT2DModel", hunyuan_dit },
    };
    for (size_t i = 0; i < PE_LEN(classes); i++)
        if (!strcmp(class_name, classes[i].class_name)) {
            classes[i].scheme(s);
            return true;
        }
    for (size_t i = 0; i < PE_LEN(rotations); i++)
        if (!strcmp(class_name, rotations[i].class_name)) {
            rotate(s, i);
            return true;
        }
    return false;
}
