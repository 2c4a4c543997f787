/* test_rope_2d.c - coordinates, bands and layouts by formulas of their own; what each preset stands for; rules. */
#include "ask.h"

#include <math.h>

Suite *rope_2d_suite(void);

static const double pi = 3.14159265358979323846;

static posenc_answer answer_of(const char *query) { return ask("rope_2d", query); }

static double cell(const posenc_answer *a, const char *name, int64_t row, int64_t column)
{
    const posenc_tensor *t = tensor_of(a, name);
    ck_assert_int_lt(row, t->shape[0]);
    ck_assert_int_lt(column, t->shape[1]);
    return posenc_tensor_get(t, row * t->shape[1] + column);
}

/* ---- coordinates and bands ---- */

/* What a request means, in words: for head_dim = 8 the angles of a grid of 3 rows and 5 columns are
 * first coordinate * (w[0], w[1]), second coordinate * (w[2], w[3]). */
typedef struct meaning {
    const char *query; /* without head_dim, height, width, dtype */
    bool column_first;
    double row[3], column[5], w[4];
} meaning;

static const meaning meanings[] = {
    { "", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 1, 0.01 } },
    { "axis_order=w_first", true, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 1, 0.01 } },
    { "grid_indexing=xy", true, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 1, 0.01 } },
    { "rope_theta=256", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 1.0 / 16, 1, 1.0 / 16 } },
    { "temperature=256", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 1.0 / 16, 1, 1.0 / 16 } },
    { "frequency_split=alternate", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 0.1, 0.001 } },
    { "grid_offset=0.5", false, { 0.5, 1.5, 2.5 }, { 0.5, 1.5, 2.5, 3.5, 4.5 }, { 1, 0.01, 1, 0.01 } },
    { "ref_feat_shape=6,10", false, { 0, 2, 4 }, { 0, 2, 4, 6, 8 }, { 1, 0.01, 1, 0.01 } },
    { "ref_feat_shape=6,10&grid_offset=1", false, { 2, 4, 6 }, { 2, 4, 6, 8, 10 }, { 1, 0.01, 1, 0.01 } },
    { "grid_type=pixel", false, { -1, 0, 1 }, { -1, -0.5, 0, 0.5, 1 }, { 1, 0.01, 1, 0.01 } },
    { "grid_type=centered", false, { -2.0 / 3, 0, 2.0 / 3 }, { -0.8, -0.4, 0, 0.4, 0.8 }, { 1, 0.01, 1, 0.01 } },
    { "grid_type=centered&normalize_coords=max",
      false,
      { -0.8, -0.4, 0 },
      { -0.8, -0.4, 0, 0.4, 0.8 },
      { 1, 0.01, 1, 0.01 } },
    { "grid_type=centered&normalize_coords=min",
      false,
      { -2.0 / 3, 0, 2.0 / 3 },
      { -2.0 / 3, 0, 2.0 / 3, 4.0 / 3, 2 },
      { 1, 0.01, 1, 0.01 } },
    { "grid_type=centered&grid_offset=0.25",
      false,
      { -0.5, 1.0 / 6, 5.0 / 6 },
      { -0.7, -0.3, 0.1, 0.5, 0.9 },
      { 1, 0.01, 1, 0.01 } },
    { "grid_type=centered&ref_feat_shape=6,10",
      false,
      { -1.0 / 3, 1, 7.0 / 3 },
      { -0.6, 0.2, 1, 1.8, 2.6 },
      { 1, 0.01, 1, 0.01 } },
    /* diffusers ends at bottom (n-1)/n, so that a crop that starts at 3 has steps that are not 1 */
    { "crops_coords=[[3,0],[6,5]]", false, { 3, 3.5, 4 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 1, 0.01 } },
    { "crops_coords=[[3,0],[6,5]]&crop_end=open", false, { 3, 4, 5 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 1, 0.01 } },
    { "in_pixels=true&max_res=16", false, { -1, 0, 1 }, { -1, -0.5, 0, 0.5, 1 }, { 1, 8, 1, 8 } },         /* times pi */
    { "in_pixels=true&grid_type=index&max_res=8", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 4, 1, 4 } }, /* times pi */
    { "min_period=0.5&max_period=8", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 2, 0.125, 2, 0.125 } },
    { "angle_unit=turn", false, { 0, 1, 2 }, { 0, 1, 2, 3, 4 }, { 1, 0.01, 1, 0.01 } }, /* times 2 pi */
};

START_TEST(meaning_of_parameters)
{
    const meaning *m = &meanings[_i];
    const double unit = strstr(m->query, "in_pixels") ? pi : strstr(m->query, "turn") ? 2 * pi : 1;
    char query[300];
    snprintf(query, sizeof query, "head_dim=8&height=3&width=5&dtype=float64&%s", m->query);
    posenc_answer a = answer_of(query);
    ck_assert_int_eq(tensor_of(&a, "angles")->shape[0], 15);
    ck_assert_int_eq(tensor_of(&a, "angles")->shape[1], 4);
    for (int n = 0; n < 15; n++)
        for (int j = 0; j < 4; j++) {
            const double c = (j < 2) != m->column_first ? m->row[n / 5] : m->column[n % 5], want = c * m->w[j] * unit;
            ck_assert_msg(fabs(cell(&a, "angles", n, j) - want) < 1e-14 * (1 + fabs(want)),
                          "%s: row %d pair %d is %.17g, want %.17g", m->query, n, j, cell(&a, "angles", n, j), want);
            ck_assert(fabs(cell(&a, "cos", n, j) - cos(want)) < 1e-13);
            ck_assert(fabs(cell(&a, "sin", n, j + 4) - sin(want)) < 1e-13);
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(linear_bands)
{
    posenc_answer a = answer_of("head_dim=16&height=1&width=2&in_pixels=true&linear_bands=true&max_res=20&dtype=float64");
    const double want[] = { 1, 4, 7, 10 };
    for (int k = 0; k < 4; k++)
        ck_assert(fabs(posenc_tensor_get(tensor_of(&a, "inv_freq"), k) - pi * want[k]) < 1e-13);
    ck_assert(cell(&a, "angles", 0, 0) == -pi); /* one row: -1, as torch.linspace */
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(layouts)
{
    static const struct {
        const char *word;
        int place[2][4];
    } words[] = {
        { "half", { { 0, 1, 2, 3 }, { 4, 5, 6, 7 } } },
        { "interleaved", { { 0, 2, 4, 6 }, { 1, 3, 5, 7 } } },
        { "half_unduplicated", { { 0, 1, 2, 3 }, { 0, 1, 2, 3 } } },
        { "interleaved_unduplicated", { { 0, 1, 2, 3 }, { 0, 1, 2, 3 } } },
        { "half_per_axis", { { 0, 1, 4, 5 }, { 2, 3, 6, 7 } } },
    };
    for (size_t l = 0; l < LEN(words); l++) {
        char query[200];
        snprintf(query, sizeof query, "head_dim=8&height=3&width=4&dtype=float64&layout=%s", words[l].word);
        posenc_answer a = answer_of(query);
        ck_assert_int_eq(tensor_of(&a, "cos")->shape[1], strstr(words[l].word, "undup") ? 4 : 8);
        for (int n = 0; n < 12; n++)
            for (int j = 0; j < 4; j++)
                for (int copy = 0; copy < 2; copy++) {
                    const double angle = cell(&a, "angles", n, j);
                    ck_assert(fabs(cell(&a, "cos", n, words[l].place[copy][j]) - cos(angle)) < 1e-15);
                    ck_assert(fabs(cell(&a, "sin", n, words[l].place[copy][j]) - sin(angle)) < 1e-15);
                }
        posenc_answer_fini(&a);
    }
}
END_TEST

/* ---- presets ---- */

/* What transformers' Kimi_K25VisionRotaryEmbedding gives for the patch in row 2, column 3 of a head of 8 channels. */
START_TEST(alternate_pairs)
{
    static const double kimi[] = { 0.14112000167369843, 0.9092974066734314, 0.029995499178767204, 0.019998665899038315 };
    posenc_answer a = answer_of("head_dim=8&height=3&width=4&axis_order=w_first&pair_order=alternate&compute_dtype=float32"),
                  b = answer_of("head_dim=8&positions_xy=[[3,2]]&frequency_split=alternate&pair_order=alternate&"
                                "layout=interleaved&dtype=float64");
    for (int k = 0; k < 8; k++)
        ck_assert(fabs(cell(&a, "sin", 11, k) - kimi[k % 4]) < 6e-8);
    for (int j = 0; j < 4; j++) { /* NeoMME: the ladder of the head, its rungs in turn of row and column */
        ck_assert(fabs(cell(&b, "angles", 0, j) - (j % 2 ? 3 : 2) * pow(10000, -j / 4.0)) < 1e-15);
        ck_assert(fabs(cell(&b, "cos", 0, 2 * j) - cos(cell(&b, "angles", 0, j))) < 1e-15);
        ck_assert(cell(&b, "cos", 0, 2 * j) == cell(&b, "cos", 0, 2 * j + 1));
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST
START_TEST(presets)
{
    static const char *const same[][2] = {
        { "preset=qwen2_vl", "layout=half" },
        { "preset=pixtral", "frequency_split=alternate" },
        { "preset=gemma4", "axis_order=w_first&layout=half_per_axis&rope_theta=100" },
        { "preset=llama4", "axis_order=w_first&layout=interleaved_unduplicated&grid_offset=1&num_suffix_tokens=1" },
        { "preset=dinov3", "rope_theta=100&grid_type=centered&angle_unit=turn" },
        { "preset=dinov3&rotate_half=false&temperature=100",
          "rope_theta=100&grid_type=centered&angle_unit=turn&layout=interleaved" },
        { "preset=hunyuan_dit", "axis_order=w_first&layout=interleaved" },
        { "preset=timm", "in_pixels=true&layout=interleaved" },
        { "preset=timm&in_pixels=false", "layout=interleaved" },
        { "preset=timm&grid_type=index", "in_pixels=true&grid_type=index&layout=interleaved" },
        { "preset=rope_vit", "axis_order=w_first&layout=interleaved_unduplicated&rope_theta=100" },
        { "preset=dinov3&min_period=1&max_period=10", "grid_type=centered&angle_unit=turn&min_period=1&max_period=10" },
        { "preset=llama4&crops_coords=[[0,0],[4,4]]",
          "axis_order=w_first&layout=interleaved_unduplicated&num_suffix_tokens=1&crops_coords=[[0,0],[4,4]]" },
        { "preset=pixtral&in_pixels=true", "in_pixels=true" },
        { "preset=gemma4&rope_theta=50", "axis_order=w_first&layout=half_per_axis&rope_theta=50" },
    };
    for (size_t i = 0; i < LEN(same); i++) {
        char query[300];
        snprintf(query, sizeof query, "head_dim=8&height=2&width=3&%s", same[i][0]);
        posenc_answer a = answer_of(query);
        snprintf(query, sizeof query, "head_dim=8&height=2&width=3&compute_dtype=float32&%s", same[i][1]);
        posenc_answer b = answer_of(query);
        ck_assert_msg(!strcmp(a.request.digest, b.request.digest), "%s:\n%s\n%s", same[i][0], a.request.key, b.request.key);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

/* A key is a request. */
START_TEST(key_reads_back)
{
    static const char *const queries[] = {
        "preset=timm&head_dim=8&height=2&width=3",
        "preset=llama4&head_dim=8&height=2&width=3",
        "preset=dinov3&head_dim=8&height=2&width=3&min_period=1&max_period=9",
        "preset=pixtral&head_dim=8",
        "preset=timm&in_pixels=false&head_dim=8&height=2&width=3&ref_feat_shape=4,4",
    };
    for (size_t i = 0; i < LEN(queries); i++) {
        posenc_answer a = answer_of(queries[i]), b = answer_of(strchr(a.request.key, ' ') + 1);
        ck_assert_str_eq(a.request.key, b.request.key);
        ck_assert(!strstr(a.request.key, "preset"));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

/* Llama-4: places are counted from 1, and the class token, last, is not turned. */
START_TEST(llama4)
{
    posenc_answer a = answer_of("preset=llama4&head_dim=8&height=2&width=2&compute_dtype=float64&dtype=float64");
    ck_assert_int_eq(tensor_of(&a, "cos")->shape[0], 5);
    ck_assert_int_eq(tensor_of(&a, "cos")->shape[1], 4);
    ck_assert(cell(&a, "angles", 0, 0) == 1 && cell(&a, "angles", 0, 2) == 1);
    ck_assert(cell(&a, "angles", 1, 0) == 2 && cell(&a, "angles", 1, 2) == 1);
    ck_assert(cell(&a, "angles", 2, 0) == 1 && cell(&a, "angles", 2, 2) == 2);
    for (int j = 0; j < 4; j++)
        ck_assert(cell(&a, "angles", 4, j) == 0 && cell(&a, "cos", 4, j) == 1 && cell(&a, "sin", 4, j) == 0);
    posenc_answer_fini(&a);
}
END_TEST

/* Values of Qwen3-VL's vision rotary embedding (head_dim 72) and of timm's build_rotary_pos_embed (4 x 6, 32 channels,
 * logarithmic bands, row 7), both in float32. The bands of pixels are off by up to 2e-5 rad in timm. */
START_TEST(as_float32_peers)
{
    static const double inv_freq[] = {
        0x1p+0,        0x1.32ef98p-1,  0x1.7001acp-2,  0x1.b93a6ap-3,  0x1.088266p-3,  0x1.3d236cp-4,
        0x1.7c3d2ap-5, 0x1.c7e5p-6,    0x1.114d36p-6,  0x1.47ae14p-7,  0x1.88e0cp-8,   0x1.d70c62p-9,
        0x1.1a62d2p-9, 0x1.529270p-10, 0x1.95efe6p-11, 0x1.e6b4b8p-12, 0x1.23c5c2p-12, 0x1.5dd37ep-13,
    };
    posenc_answer a = answer_of("preset=qwen2_vl&head_dim=72");
    ck_assert_int_eq(a.result.tensor[0].shape[0], 18);
    for (int k = 0; k < 18; k++)
        ck_assert(posenc_tensor_get(&a.result.tensor[0], k) == inv_freq[k]);
    posenc_answer_fini(&a);

    static const double sines[] = { -0x1.bb67acp-1, -0x1.c52fa4p-1, 0x1.8dfd2p-1,   -0x1.ff2668p-1,
                                    -0x1.7626acp-3, 0x1.a1b0dep-1,  0x1.50586ep-4,  0x1.bb67a6p-1,
                                    -0x1.e6f0ep-1,  0x1.0eb3b8p-1,  -0x1.a79c3cp-1, -0x1.fd3f6ep-1,
                                    -0x1.4c7f02p-2, 0x1.fa81eap-1,  -0x1.66bb34p-1, 0x1.2cf4d6p-1 };
    a = answer_of("preset=timm&head_dim=32&height=4&width=6");
    posenc_answer exact = answer_of("preset=timm&head_dim=32&height=4&width=6&compute_dtype=float64");
    double off = 0;
    for (int j = 0; j < 16; j++) {
        ck_assert(fabs(cell(&a, "sin", 7, 2 * j) - sines[j]) < 6e-8);
        off = fmax(off, fabs(cell(&exact, "sin", 7, 2 * j) - sines[j]));
    }
    ck_assert(off > 1e-6);
    posenc_answer_fini(&a);
    posenc_answer_fini(&exact);
}
END_TEST

/* ---- rows ---- */

START_TEST(orders_and_lists)
{
    posenc_answer grid = answer_of("head_dim=8&height=4&width=4"),
                  merged = answer_of("head_dim=8&height=4&width=4&spatial_merge_size=2"),
                  xy = answer_of("head_dim=8&positions_xy=[[0,0],[1,0],[2.5,-3]]"),
                  hw = answer_of("head_dim=8&position_ids=[[0,0],[0,1],[-3,2.5]]"),
                  padded = answer_of("head_dim=8&height=4&width=4&num_prefix_tokens=2&num_suffix_tokens=3");
    static const int order[16] = { 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15 };
    const size_t row = 8 * sizeof(float);
    const char *g = tensor_of(&grid, "sin")->data, *m = tensor_of(&merged, "sin")->data,
               *p = tensor_of(&padded, "sin")->data;
    for (int n = 0; n < 16; n++) {
        ck_assert_mem_eq(m + (size_t)n * row, g + (size_t)order[n] * row, row);
        ck_assert_mem_eq(p + ((size_t)n + 2) * row, g + (size_t)n * row, row);
    }
    ck_assert_int_eq(tensor_of(&padded, "sin")->shape[0], 21);
    for (int n = 0; n < 21; n += n == 1 ? 17 : 1)
        for (int j = 0; j < 8; j++)
            ck_assert(cell(&padded, "sin", n, j) == 0 && cell(&padded, "cos", n, j) == 1);
    ck_assert_mem_eq(tensor_of(&xy, "sin")->data, tensor_of(&hw, "sin")->data, 3 * row);
    ck_assert_mem_eq(tensor_of(&xy, "sin")->data, g, 2 * row);
    ck_assert(cell(&xy, "angles", 2, 0) == -3 && cell(&xy, "angles", 2, 2) == 2.5);
    posenc_answer_fini(&grid);
    posenc_answer_fini(&merged);
    posenc_answer_fini(&xy);
    posenc_answer_fini(&hw);
    posenc_answer_fini(&padded);
}
END_TEST

START_TEST(without_a_grid)
{
    posenc_answer a = answer_of("preset=dinov3&head_dim=16&dtype=float64&compute_dtype=float64&spatial_merge_size=2");
    ck_assert_int_eq(a.result.ntensors, 2);
    const double want[] = { 1, 0.316227766016837933, 0.1, 0.0316227766016837933 };
    for (int k = 0; k < 4; k++)
        ck_assert(fabs(posenc_tensor_get(&a.result.tensor[0], k) - want[k]) < 1e-16); /* without 2 pi */
    ck_assert_int_eq(a.result.tensor[1].dtype, PE_float64);
    ck_assert(posenc_tensor_get(&a.result.tensor[1], 0) == 1);
    posenc_answer_fini(&a);
    a = answer_of("preset=pixtral&head_dim=16"); /* both axes */
    ck_assert_int_eq(a.result.tensor[0].shape[0], 8);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty)
{
    static const char *const queries[] = { "height=0&width=5", "height=5&width=0&preset=dinov3&normalize_coords=max",
                                           "height=0&width=0&preset=timm", "positions_xy=[]" };
    for (size_t i = 0; i < LEN(queries); i++) {
        posenc_answer a;
        posenc_error err = { 0 };
        char query[100];
        snprintf(query, sizeof query, "head_dim=8&%s", queries[i]);
        posenc_status st = posenc_encode("rope_2d", query, NULL, &a, NULL, &err);
        if (i < 3) {
            ck_assert_int_eq(st, PE_OK);
            ck_assert_int_eq(tensor_of(&a, "cos")->shape[0], 0);
            posenc_answer_fini(&a);
        } else
            ck_assert_int_eq(st, PE_INVALID); /* [] has no second axis */
    }
}
END_TEST

/* A coordinate near the centre of a large grid keeps its relative precision: the centre itself is 0 exactly. */
START_TEST(centre_is_zero)
{
    posenc_answer a = answer_of("head_dim=4&height=1&width=99999&grid_type=centered&angle_unit=turn&dtype=float64");
    ck_assert(cell(&a, "angles", 49999, 1) == 0 && cell(&a, "sin", 49999, 1) == 0 && cell(&a, "cos", 49999, 1) == 1);
    ck_assert(cell(&a, "angles", 50000, 1) == -cell(&a, "angles", 49998, 1));
    ck_assert(fabs(cell(&a, "angles", 50000, 1) / (2 * pi * 2 / 99999) - 1) < 4e-16);
    posenc_answer_fini(&a);
}
END_TEST

/* ---- rules ---- */

static const refusal bad[] = {
    { "height=2&width=2", "head_dim" },
    { "head_dim=8&pair_order=alternate&layout=half_per_axis", "pair_order" },
    { "head_dim=6&height=2&width=2", "head_dim" },
    { "head_dim=0", "head_dim" },
    { "head_dim=8&height=2", "width" },
    { "head_dim=8&width=2", "height" },
    { "head_dim=8&height=-1&width=2", "height" },
    { "head_dim=8&height=2&width=2&preset=qwen3", "preset" },
    { "head_dim=8&rope_theta=0", "rope_theta" },
    { "head_dim=8&rope_theta=-1", "rope_theta" },
    { "head_dim=8&rope_theta=50&temperature=60", "temperature" },
    { "head_dim=8&axis_order=h_first&grid_indexing=xy", "grid_indexing" },
    { "head_dim=8&layout=half&rotate_half=false", "rotate_half" },
    { "head_dim=8&layout=split", "layout" },
    { "head_dim=8&min_period=1", "max_period" },
    { "head_dim=8&max_period=1", "min_period" },
    { "head_dim=8&min_period=0&max_period=1", "min_period" },
    { "head_dim=8&min_period=1&max_period=2&rope_theta=100", "rope_theta" },
    { "head_dim=8&min_period=1&max_period=2&in_pixels=true", "in_pixels" },
    { "head_dim=8&in_pixels=true&rope_theta=100", "rope_theta" },
    { "head_dim=8&in_pixels=true&frequency_split=alternate", "frequency_split" },
    { "head_dim=8&linear_bands=true", "linear_bands" },
    { "head_dim=8&max_res=64", "max_res" },
    { "head_dim=8&in_pixels=true&max_res=0.5", "max_res" },
    { "head_dim=8&normalize_coords=max", "normalize_coords" },
    { "head_dim=8&preset=dinov3&normalize_coords=mean", "normalize_coords" },
    { "head_dim=8&in_pixels=true&grid_offset=0.5", "grid_offset" },
    { "head_dim=8&height=2&width=2&grid_offset=1&crops_coords=[[0,0],[2,2]]", "grid_offset" },
    { "head_dim=8&height=2&width=2&ref_feat_shape=2", "ref_feat_shape" },
    { "head_dim=8&height=2&width=2&ref_feat_shape=2,2.5", "ref_feat_shape[1]" },
    { "head_dim=8&height=2&width=2&ref_feat_shape=0,2", "ref_feat_shape[0]" },
    { "head_dim=8&height=2&width=2&crops_coords=[[0,0]]", "crops_coords" },
    { "head_dim=8&height=2&width=2&crops_coords=[[0,0],[2,1e12]]", "crops_coords[1][1]" },
    { "head_dim=8&crops_coords=[[0,0],[2,2]]", "crops_coords" },
    { "head_dim=8&preset=dinov3&height=2&width=2&crops_coords=[[0,0],[2,2]]", "crops_coords" },
    { "head_dim=8&height=2&width=2&crops_coords=[[0,0],[2,2]]&ref_feat_shape=2,2", "crops_coords" },
    { "head_dim=8&height=2&width=2&crop_end=open", "crop_end" },
    { "head_dim=8&height=3&width=2&spatial_merge_size=2", "height" },
    { "head_dim=8&height=2&width=3&spatial_merge_size=2", "width" },
    { "head_dim=8&spatial_merge_size=0", "spatial_merge_size" },
    { "head_dim=8&positions_xy=[[0,0]]&position_ids=[[0,0]]", "position_ids" },
    { "head_dim=8&positions_xy=[[0,0]]&height=1&width=1", "positions_xy" },
    { "head_dim=8&positions_xy=[[0,0,0]]", "positions_xy" },
    { "head_dim=8&positions_xy=[[0,1e17]]", "positions_xy[0][1]" },
    { "head_dim=8&positions_xy=[[0,0]]&preset=dinov3", "grid_type" },
    { "head_dim=8&positions_xy=[[0,0]]&spatial_merge_size=2", "spatial_merge_size" },
    { "head_dim=8&positions_xy=[[0,0]]&ref_feat_shape=2,2", "ref_feat_shape" },
    { "head_dim=8&num_prefix_tokens=-1", "num_prefix_tokens" },
    { "head_dim=8&height=1&width=70000&dtype=float16", "width" },
    { "head_dim=8&rope_theta=1e-6&dtype=float16", "rope_theta" },
    { "head_dim=8&rope_theta=1e-60", "rope_theta" },
    { "head_dim=8&rope_theta=1e30&compute_dtype=float32", "rope_theta" },
    { "head_dim=8&min_period=1e-30&max_period=1&compute_dtype=float32", "min_period" },
    { "head_dim=8&heigth=2&width=2", "heigth" },
};

START_TEST(bad_input) { refuses("rope_2d", &bad[_i]); }
END_TEST

START_TEST(too_large)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("rope_2d", "head_dim=65536&height=2147483648&width=2147483648", NULL, &a, NULL, &err),
                     PE_LIMIT);
}
END_TEST

Suite *rope_2d_suite(void)
{
    Suite *s = suite_create("rope_2d");
    TCase *t = tcase_create("rope_2d");
    tcase_add_loop_test(t, meaning_of_parameters, 0, (int)LEN(meanings));
    tcase_add_test(t, linear_bands);
    tcase_add_test(t, layouts);
    tcase_add_test(t, alternate_pairs);
    tcase_add_test(t, presets);
    tcase_add_test(t, key_reads_back);
    tcase_add_test(t, llama4);
    tcase_add_test(t, as_float32_peers);
    tcase_add_test(t, orders_and_lists);
    tcase_add_test(t, without_a_grid);
    tcase_add_test(t, empty);
    tcase_add_test(t, centre_is_zero);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, too_large);
    suite_add_tcase(s, t);
    return s;
}
