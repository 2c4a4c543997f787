/* mrope_index.c - the time, height and width positions of a sequence of text, images and videos.
 *
 * A text token has one position three times, the next one. A vision block of the grid t, h, w (in merged patches, h and w
 * divided by spatial_merge_size) starts at the next position s and has, row by row of each frame,
 *     s + frame interval, s + row, s + column
 * interval = tokens_per_second * second_per_grid_ts of videos, 1 of images. After it the next position is
 *     max_plus_1   one more than the largest of the block       (transformers 4.56, the authors' code)
 *     hw_extent    s + max(h, w)                                 (transformers 5)
 *
 * Source: Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; get_rope_index of transformers' Qwen2-VL, Qwen2.5-VL
 * and Qwen3-VL decides the details. */
#include "core/pace.h"
#include "sequence/positions.h"

#include <math.h>

extern const posenc_encoding pe_mrope_index;

/* ---- rows ---- */

enum { CAST_INT, CAST_FLOAT };
static const char *const casts[] = { "int", "float", NULL };
enum { MAX_PLUS_1, HW_EXTENT };
static const char *const resumes[] = { "max_plus_1", "hw_extent", NULL };
enum { PADDED, UNPADDED };
static const char *const lengths[] = { "padded", "unpadded", NULL };

typedef struct mrope_index {
    posenc_given given;
    posenc_tensor input_ids, mm_token_type_ids, attention_mask;
    int64_t image_token_id, video_token_id, vision_start_token_id;
    posenc_tensor image_grid_thw, video_grid_thw;
    int64_t spatial_merge_size;
    posenc_reals second_per_grid_ts;
    int64_t tokens_per_second;
    int second_per_grid_cast, after_vision;
    bool split_video_frames;
    int64_t masked_position;
    int delta_length;
} mrope_index;

static const posenc_param rows[] = {
    { PE_TENSOR(mrope_index, input_ids), .flags = PE_OPTIONAL,
      .doc = "token ids, [L] or [B, L], with the ids of image_token_id and video_token_id where patches stand" },
    { PE_TENSOR(mrope_index, mm_token_type_ids), .flags = PE_OPTIONAL,
      .doc = "instead of input_ids: 0 text, 1 image, 2 video, [L] or [B, L]" },
    { PE_TENSOR(mrope_index, attention_mask), .flags = PE_OPTIONAL,
      .doc = "1 where a token counts, 0 where it is padding, in the shape of the tokens" },
    { PE_INT(mrope_index, image_token_id), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53,
      .doc = "with input_ids: the id of an image's patches" },
    { PE_INT(mrope_index, video_token_id), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53,
      .doc = "with input_ids: the id of a video's patches" },
    { PE_INT(mrope_index, vision_start_token_id), .flags = PE_OPTIONAL, .min = -0x1p53, .max = 0x1p53,
      .doc = "with input_ids: the id that must stand before each image or video; when absent, none must" },
    { PE_TENSOR(mrope_index, image_grid_thw), .flags = PE_OPTIONAL,
      .doc = "[images, 3]: frames, rows and columns of patches of each image, in the order of the sequence" },
    { PE_TENSOR(mrope_index, video_grid_thw), .flags = PE_OPTIONAL, .doc = "[videos, 3]: the same of each video" },
    { PE_INT(mrope_index, spatial_merge_size), .def = 2, .min = 1, .max = 1 << 20,
      .doc = "rows and columns of patches that one token stands for" },
    { PE_REALS(mrope_index, second_per_grid_ts), .flags = PE_OPTIONAL, .max = 1e6,
      .doc = "seconds between the frames of each video (Qwen2.5-VL); when absent 1 of all" },
    { PE_INT(mrope_index, tokens_per_second), .def = 1, .min = 1, .max = 1e6,
      .doc = "time positions a second of video (Qwen2.5-VL 2; Qwen2-VL has none: 1)" },
    { PE_ENUM(mrope_index, second_per_grid_cast), .names = casts, .def = CAST_INT,
      .doc = "int: seconds are truncated to whole ones first (transformers 4.56 to 5.16); float: the product with frame and "
             "tokens_per_second is truncated (later ones, vLLM)" },
    { PE_ENUM(mrope_index, after_vision), .names = resumes, .def = MAX_PLUS_1,
      .doc =
          "where the sequence resumes after an image or video: after its largest position (transformers 4.56), or max(h, w) "
          "after its start (transformers 5: then text can meet positions of the video's time)" },
    { PE_BOOL(mrope_index, split_video_frames),
      .doc = "each frame of a video is a block of its own, with text between them (Qwen3-VL)" },
    { PE_INT(mrope_index, masked_position), .flags = PE_DERIVED, .max = 1e15,
      .doc = "position of masked tokens; when absent 1, with after_vision=hw_extent 0" },
    { PE_ENUM(mrope_index, delta_length), .flags = PE_DERIVED, .names = lengths, .def = PADDED,
      .doc = "the length that mrope_position_deltas count from: all L tokens or those not masked; when absent padded, with "
             "after_vision=hw_extent unpadded" },
};

static const posenc_output outputs[] = {
    { "position_ids", "[3, B, L]", "time, height and width position of each token; [3, L] of tokens [L]", "int64" },
    { "mrope_position_deltas", "[B]", "largest position + 1 - length: what to add to a token's index while decoding",
      "int64" },
};

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_mrope_index.table, name) - rows); }
static bool given(const mrope_index *p, const char *name) { return (p->given & bit(name)) != 0; }

static const posenc_tensor *tokens(const mrope_index *p)
{
    return given(p, "input_ids") ? &p->input_ids : &p->mm_token_type_ids;
}
static int64_t length(const mrope_index *p) { return tokens(p)->shape[tokens(p)->rank - 1]; }
static int64_t batch(const mrope_index *p) { return tokens(p)->rank == 2 ? tokens(p)->shape[0] : 1; }

/* ---- the walk over the tokens ---- */

enum { TEXT, IMAGE, VIDEO };
static const char *const kinds[] = { "text", "image", "video" };
static const char *const grids[] = { "", "image_grid_thw", "video_grid_thw" };

#define FARTHEST 0x1p53

typedef struct walk {
    const mrope_index *p;
    bool by_id, masked;
    int64_t row[3], frame[3]; /* of each kind: grids begun; frames begun of a grid that is split */
    /* the block that is open: `left` tokens of it are to come */
    int kind;
    int64_t left, done, start, h, w, last_time;
    double interval;
    int64_t next, most; /* of the sequence */
} walk;

static const posenc_tensor *grid_of(const walk *k, int kind)
{
    return kind == IMAGE ? &k->p->image_grid_thw : &k->p->video_grid_thw;
}

static int kind_of(const walk *k, int64_t i)
{
    const mrope_index *p = k->p;
    const double v = posenc_tensor_get(tokens(p), i);
    if (!k->by_id)
        return (int)v;
    if (given(p, "image_token_id") && v == (double)p->image_token_id)
        return IMAGE;
    return given(p, "video_token_id") && v == (double)p->video_token_id ? VIDEO : TEXT;
}

/* A fault at token i. */
static posenc_status fault(const walk *k, int64_t i, const char *value, const char *allowed, posenc_error *err)
{
    const posenc_tensor *t = tokens(k->p);
    const long long l = (long long)length(k->p), n = (long long)i;
    const posenc_short field = t->rank == 1 ? posenc_text("%s[%lld]", t->name, n)
                                            : posenc_text("%s[%lld][%lld]", t->name, n / l, n % l);
    return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", field.s, value, "%s", allowed);
}

/* Time position of a frame, from the block's start on. */
static double time_of(const walk *k, int64_t frame) { return floor((double)frame * k->interval); }

/* Opens the next grid of the kind at token i. */
static posenc_status open_block(walk *k, int kind, int64_t i, posenc_error *err)
{
    const mrope_index *p = k->p;
    const posenc_tensor *g = grid_of(k, kind);
    const int64_t n = given(p, grids[kind]) ? g->shape[0] : 0, row = k->row[kind], m = p->spatial_merge_size;
    if (row >= n)
        return fault(k, i, posenc_text("%s number %lld", kinds[kind], (long long)row + 1).s,
                     posenc_text("as many %ss as %s has rows: %lld", kinds[kind], grids[kind], (long long)n).s, err);
    int64_t t = (int64_t)posenc_tensor_get(g, 3 * row);
    k->kind = kind;
    k->h = (int64_t)posenc_tensor_get(g, 3 * row + 1) / m;
    k->w = (int64_t)posenc_tensor_get(g, 3 * row + 2) / m;
    k->interval = 1;
    if (kind == VIDEO) {
        const double s = given(p, "second_per_grid_ts") ? p->second_per_grid_ts.v[row] : 1;
        k->interval = (double)p->tokens_per_second * (p->second_per_grid_cast == CAST_INT ? trunc(s) : s);
    }
    if (kind == VIDEO && p->split_video_frames) {
        k->frame[kind] = (k->frame[kind] + 1) % t;
        k->row[kind] += k->frame[kind] == 0;
        t = 1;
    } else {
        k->row[kind]++;
    }
    if (time_of(k, t - 1) + (double)k->next + (double)(k->h + k->w) > FARTHEST)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "second_per_grid_ts",
                           posenc_text("time %.17g", time_of(k, t - 1)).s, "positions up to 2^53");
    k->start = k->next;
    k->done = 0;
    k->last_time = (int64_t)time_of(k, t - 1);
    if (!posenc_mul_size(k->h * k->w, t, &k->left)) /* h and w are below 2^31 */
        k->left = INT64_MAX;
    return PE_OK;
}

static void close_block(walk *k)
{
    const int64_t extent = k->h > k->w ? k->h : k->w;
    const int64_t last = k->start + (k->last_time > extent - 1 ? k->last_time : extent - 1);
    k->most = last > k->most ? last : k->most;
    k->next = k->p->after_vision == MAX_PLUS_1 ? last + 1 : k->start + extent;
}

/* The position of token i, whose sequence has `before` as its last token that counts (-1: none), into at[3]. */
static posenc_status step(walk *k, int64_t i, int64_t before, int64_t at[3], posenc_error *err)
{
    const mrope_index *p = k->p;
    const int kind = kind_of(k, i);
    if (k->left && kind != k->kind)
        return fault(k, i, kinds[kind],
                     posenc_text("%lld more tokens of this %s's grid", (long long)k->left, kinds[k->kind]).s, err);
    if (kind == TEXT) {
        at[0] = at[1] = at[2] = k->next;
        k->most = k->next > k->most ? k->next : k->most;
        k->next++;
        return PE_OK;
    }
    if (!k->left) {
        if (given(p, "vision_start_token_id") &&
            (before < 0 || posenc_tensor_get(tokens(p), before) != (double)p->vision_start_token_id))
            return fault(k, i, posenc_text("%s without vision_start_token_id before it", kinds[kind]).s,
                         "the id of vision_start_token_id before each image and video", err);
        posenc_status st = open_block(k, kind, i, err);
        if (st)
            return st;
    }
    at[0] = k->start + (int64_t)time_of(k, k->done / (k->h * k->w));
    at[1] = k->start + k->done / k->w % k->h;
    at[2] = k->start + k->done % k->w;
    k->done++;
    if (!--k->left)
        close_block(k);
    return PE_OK;
}

/* All sequences; `out` and `deltas` NULL: only looks for faults. */
static posenc_status walk_all(const mrope_index *p, int64_t *out, int64_t *deltas, pe_pace *pace, posenc_error *err)
{
    const int64_t l = length(p), n = batch(p) * l;
    walk k = { .p = p, .by_id = given(p, "input_ids"), .masked = given(p, "attention_mask") };
    posenc_status st = PE_OK;
    for (int64_t b = 0; b < batch(p) && (l || deltas) && !st; b++) { /* no fault is in sequences of no tokens */
        int64_t before = -1, counted = 0, at[3];
        k.next = 0;
        k.most = -1;
        for (int64_t i = b * l; i < (b + 1) * l && !st; i++) {
            const bool real = !k.masked || posenc_tensor_get(&p->attention_mask, i) != 0;
            if (!real)
                at[0] = at[1] = at[2] = p->masked_position;
            else if (!(st = step(&k, i, before, at, err)))
                before = i;
            counted += real;
            for (int a = 0; a < 3 && out && !st; a++)
                out[a * n + i] = at[a];
            if (pace && !st)
                st = pe_pace_add(pace, 30);
        }
        if (!st && k.left)
            st = fault(&k, before, "the last token",
                       posenc_text("%lld more tokens of this %s's grid", (long long)k.left, kinds[k.kind]).s, err);
        if (deltas && !st)
            deltas[b] = k.most + 1 - (p->delta_length == PADDED ? l : counted);
    }
    for (int kind = IMAGE; kind <= VIDEO && !st; kind++)
        if (given(p, grids[kind]) && (k.row[kind] < grid_of(&k, kind)->shape[0] || k.frame[kind]))
            st = pe_invalid(err, grids[kind], posenc_text("%lld rows", (long long)grid_of(&k, kind)->shape[0]),
                            "a row for each of the %lld %ss of the tokens", (long long)k.row[kind], kinds[kind]);
    return st;
}

/* ---- check ---- */

static bool check_grid(const mrope_index *p, int kind, posenc_error *err)
{
    const posenc_tensor *g = kind == IMAGE ? &p->image_grid_thw : &p->video_grid_thw;
    const int64_t m = p->spatial_merge_size, any[2] = { -1, 3 };
    if (!given(p, grids[kind]))
        return true;
    if (!pe_tensor_shaped(g, 2, any, "[N, 3]: frames, rows, columns", err) ||
        !pe_tensor_integers(g, 1, 0x1p31 - 1, "a whole number from 1 to 2^31 - 1", err))
        return false;
    for (int64_t i = 0; i < 3 * g->shape[0]; i++)
        if (i % 3 && (int64_t)posenc_tensor_get(g, i) % m) {
            pe_invalid(err, posenc_text("%s[%lld][%d]", grids[kind], (long long)i / 3, (int)(i % 3)).s,
                       posenc_text("%.17g", posenc_tensor_get(g, i)), "a multiple of spatial_merge_size = %lld",
                       (long long)m);
            return false;
        }
    return true;
}

static bool check_tokens(const mrope_index *p, posenc_error *err)
{
    const bool ids = given(p, "input_ids"), types = given(p, "mm_token_type_ids");
    const posenc_tensor *t = tokens(p), *mask = &p->attention_mask;
    if (ids == types) {
        posenc_fail(err, PE_INVALID, ids ? "NOT_APPLICABLE" : "MISSING_PARAMETER", ids ? "mm_token_type_ids" : "input_ids",
                    ids ? "given with input_ids" : "absent", "one of input_ids and mm_token_type_ids");
        return false;
    }
    bool sound = ids ? pe_tokens_check(t, -0x1p53, 0x1p53, "an integer", err)
                     : pe_tokens_check(t, TEXT, VIDEO, "0 for text, 1 for an image, 2 for a video", err);
    if (!given(p, "attention_mask"))
        return sound;
    sound = pe_tokens_check(mask, 0, 1, "0 or 1", err) && sound;
    for (int i = 0; i < t->rank && sound; i++)
        sound = mask->rank == t->rank && mask->shape[i] == t->shape[i];
    if (!sound && !err->n)
        pe_invalid(err, "attention_mask", posenc_text("another shape"), "the shape of %s", t->name);
    return sound;
}

static void check_ids(const mrope_index *p, posenc_error *err)
{
    static const char *const names[] = { "image_token_id", "video_token_id", "vision_start_token_id" };
    const int64_t values[] = { p->image_token_id, p->video_token_id, p->vision_start_token_id };
    const bool ids = given(p, "input_ids");
    for (int i = 0; i < 3; i++) {
        if (given(p, names[i]) && !ids)
            pe_not_applicable(err, names[i], posenc_text("%lld", (long long)values[i]).s, "absent, or input_ids");
        if (i < 2 && ids && given(p, grids[i + 1]) && !given(p, names[i]))
            posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", names[i], "absent",
                        "a value, it is required beside %s and "
                        "input_ids",
                        grids[i + 1]);
        for (int j = 0; j < i; j++)
            if (given(p, names[i]) && given(p, names[j]) && values[i] == values[j])
                pe_invalid(err, names[i], posenc_text("%lld", (long long)values[i]), "another id than %s", names[j]);
    }
}

static void check_times(const mrope_index *p, posenc_error *err)
{
    const bool times = given(p, "second_per_grid_ts"), videos = given(p, "video_grid_thw");
    if (times && !videos)
        pe_not_applicable(err, "second_per_grid_ts", "given without videos", "absent, or video_grid_thw");
    if (times && videos && p->video_grid_thw.rank == 2 && (int64_t)p->second_per_grid_ts.n != p->video_grid_thw.shape[0])
        pe_invalid(err, "second_per_grid_ts", posenc_text("%zu numbers", p->second_per_grid_ts.n), "%lld, one a video",
                   (long long)p->video_grid_thw.shape[0]);
    if (times && p->split_video_frames)
        pe_not_applicable(err, "second_per_grid_ts", "given with split_video_frames", "one of the two");
    if (!times && p->second_per_grid_cast != CAST_INT)
        pe_not_applicable(err, "second_per_grid_cast", casts[p->second_per_grid_cast], "int, or second_per_grid_ts");
    if (p->split_video_frames && !videos)
        pe_not_applicable(err, "split_video_frames", "true", "false, or video_grid_thw");
}

/* What transformers of the version that after_vision stands for does with masked tokens. */
static void derive_masked(mrope_index *p, posenc_error *err)
{
    const int64_t position = p->after_vision == MAX_PLUS_1;
    const int from = p->after_vision == MAX_PLUS_1 ? PADDED : UNPADDED;
    const bool masked = given(p, "attention_mask");
    if (!given(p, "masked_position"))
        p->masked_position = position;
    if (!given(p, "delta_length"))
        p->delta_length = from;
    if (!masked && p->masked_position != position)
        pe_not_applicable(err, "masked_position", posenc_text("%lld", (long long)p->masked_position).s,
                          "absent, or attention_mask");
    if (!masked && p->delta_length != from)
        pe_not_applicable(err, "delta_length", lengths[p->delta_length], "absent, or attention_mask");
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    mrope_index *p = r->params;
    derive_masked(p, err);
    bool sound = check_tokens(p, err);
    sound = check_grid(p, IMAGE, err) && sound;
    sound = check_grid(p, VIDEO, err) && sound;
    check_ids(p, err);
    check_times(p, err);
    if (!err->n)
        walk_all(p, NULL, NULL, NULL, err);
    return err->status;
}

/* ---- shape, cost, compute ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const mrope_index *p = r->params;
    const int64_t b = batch(p), size[3] = { 3, tokens(p)->rank == 2 ? b : length(p), length(p) };
    posenc_status st = pe_output(out, "position_ids", PE_int64, 1 + tokens(p)->rank, size, err);
    return st ? st : pe_output(out, "mrope_position_deltas", PE_int64, 1, &b, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const mrope_index *p = r->params;
    *out = (posenc_cost){ .ns = 1e3 + 60 * (double)batch(p) * (double)length(p) };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    pe_pace pace = { .ctx = ctx };
    return walk_all(r->params, pe_tensor(out, "position_ids")->data, pe_tensor(out, "mrope_position_deltas")->data, &pace,
                    err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_mrope_index = {
    .name = "mrope_index",
    .family = "rotary",
    .title = "time, height and width positions of text with images and videos",
    .source = "Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; transformers, get_rope_index",
    .formula = "text: the next position, three times; a vision block from s on: s + frame interval, s + row, s + column,\n"
               "interval = tokens_per_second second_per_grid_ts of a video, 1 of an image; then the next position is\n"
               "the block's largest + 1 (max_plus_1), or s + max(rows, columns) in merged patches (hw_extent)",
    .example = "mm_token_type_ids=[0,0,1,1,1,1,0]&image_grid_thw=[[1,4,4]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(mrope_index, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
