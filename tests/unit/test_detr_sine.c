/* test_detr_sine.c - counting from 1, polarity of masks, offsets, images without a valid pixel, temperatures, rules. */
#include "ask.h"

#include <math.h>

Suite *detr_sine_suite(void);

static const double two_pi = 6.283185307179586;

static posenc_answer answer_of(const char *query) { return ask("detr_sine", query); }

/* Element (channel, row, column) of the first image. */
static double cell(const posenc_answer *a, int64_t c, int64_t y, int64_t x)
{
    const posenc_tensor *t = &a->result.tensor[0];
    const int64_t h = t->shape[t->rank - 2], w = t->shape[t->rank - 1];
    return posenc_tensor_get(t, (c * h + y) * w + x);
}

static void ck_shape(const posenc_answer *a, int rank, const int64_t *want)
{
    const posenc_tensor *t = &a->result.tensor[0];
    ck_assert_str_eq(t->name, "pos");
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], want[i]);
}

/* ---- values against the sums written out ---- */

enum { N = 6, H = 4, W = 5 };
static const int images[][H][W] = { /* 1: valid */
                                    { { 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1 } },
                                    { { 1, 1, 1, 0, 0 }, { 1, 1, 1, 0, 0 }, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } },
                                    { { 1, 1, 1, 1, 1 }, { 1, 0, 1, 1, 0 }, { 1, 1, 0, 1, 1 }, { 0, 1, 1, 0, 1 } },
                                    { { 0, 0, 0, 0, 0 }, { 0, 0, 1, 0, 0 }, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } },
                                    { { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } }
};

static void write_mask(char *to, const int m[H][W], bool inverted)
{
    to += sprintf(to, "[");
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            to += sprintf(to, "%s%d%s", x ? "," : y ? ",[" : "[", m[y][x] ^ inverted, x == W - 1 ? "]" : "");
    sprintf(to, "]");
}

static double expected(const int m[H][W], int c, int y, int x, double offset, double scale, double temperature)
{
    double up_to = 0, all = 0;
    const bool rows = c < N;
    for (int i = 0; i < (rows ? H : W); i++) {
        const int v = rows ? m[i][x] : m[y][i];
        up_to += i <= (rows ? y : x) ? v : 0;
        all += v;
    }
    const double v = scale > 0 ? (up_to + offset) / (all + 1e-6) * scale : up_to;
    const double angle = v / pow(temperature, (double)(c % N / 2 * 2) / N);
    return c % 2 ? cos(angle) : sin(angle);
}

static const struct {
    const char *query;
    double offset, scale, temperature;
} forms[] = {
    { "", 0, 0, 10000 },
    { "&normalize=true", 0, 6.283185307179586, 10000 },
    { "&normalize=true&scale=3&temperature=20", 0, 3, 20 },
    { "&normalize=true&offset=-0.5", -0.5, 6.283185307179586, 10000 }, /* Deformable DETR */
};

START_TEST(formula)
{
    for (size_t i = 0; i < LEN(images); i++) {
        char query[400], mask[200];
        write_mask(mask, images[i], false);
        snprintf(query, sizeof query, "num_pos_feats=%d&mask_convention=valid&dtype=float64&mask=%s%s", N, mask,
                 forms[_i].query);
        posenc_answer a = answer_of(query);
        ck_shape(&a, 3, (const int64_t[]){ 2 * N, H, W });
        for (int c = 0; c < 2 * N; c++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++) {
                    const double want = expected(images[i], c, y, x, forms[_i].offset, forms[_i].scale,
                                                 forms[_i].temperature);
                    const double far = forms[_i].offset != 0 ? 2e-9 : 1e-14; /* angles of 3e6 where nothing is valid */
                    ck_assert_msg(fabs(cell(&a, c, y, x) - want) < far, "%s %d %d %d: %.17g, not %.17g", query, c, y, x,
                                  cell(&a, c, y, x), want);
                }
        posenc_answer_fini(&a);
    }
}
END_TEST

/* An image wider than what is written at once, with holes: rows that are like the row above in part only. */
START_TEST(wide_with_holes)
{
    enum { HIGH = 7, WIDE = 53 };
    static char query[HIGH * WIDE * 2 + 300];
    static const char *const dtypes[] = { "float32", "float64", "float16" };
    bool valid[HIGH][WIDE];
    char *to = query;
    unsigned random = 12345;
    to += sprintf(to, "num_pos_feats=4&mask_convention=valid&dtype=%s&mask=[", dtypes[_i]);
    for (int y = 0; y < HIGH; y++) {
        for (int x = 0; x < WIDE; x++) {
            random = random * 1103515245 + 12345;
            valid[y][x] = y % 3 == 1 ? valid[y - 1][x] : x < 40 && (random >> 16) % 8;
            to += sprintf(to, "%s%d", x ? "," : y ? ",[" : "[", valid[y][x]);
        }
        to += sprintf(to, "]");
    }
    sprintf(to, "]");
    posenc_answer a = answer_of(query);
    const double far = _i == 0 ? 1e-7 : _i == 1 ? 1e-15 : 5e-4;
    int down[WIDE] = { 0 };
    for (int y = 0; y < HIGH; y++)
        for (int x = 0, along = 0; x < WIDE; x++) {
            down[x] += valid[y][x];
            along += valid[y][x];
            ck_assert(fabs(cell(&a, 0, y, x) - sin(down[x])) < far && fabs(cell(&a, 3, y, x) - cos(down[x] / 100.0)) < far);
            ck_assert(fabs(cell(&a, 4, y, x) - sin(along)) < far && fabs(cell(&a, 7, y, x) - cos(along / 100.0)) < far);
        }
    posenc_answer_fini(&a);
}
END_TEST

/* The complaint: the first pixel has 1, not 0, and the last one 2 pi less a millionth, not (n - 1) / n of it. */
START_TEST(counts_from_1)
{
    posenc_answer a = answer_of("num_pos_feats=2&height=3&width=4&dtype=float64"),
                  b = answer_of("num_pos_feats=2&height=3&width=4&dtype=float64&normalize=true");
    ck_assert(fabs(cell(&a, 0, 0, 0) - sin(1)) < 1e-15 && fabs(cell(&a, 3, 0, 0) - cos(1)) < 1e-15);
    ck_assert(fabs(cell(&a, 0, 2, 1) - sin(3)) < 1e-15 && fabs(cell(&a, 2, 2, 1) - sin(2)) < 1e-15);
    ck_assert(fabs(cell(&b, 0, 0, 0) - sin(two_pi / (3 + 1e-6))) < 1e-15);
    ck_assert(cell(&b, 0, 2, 3) < -1e-6 && cell(&b, 0, 2, 3) > -3e-6); /* sin(2 pi * 3 / 3.000001) */
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* The complaint: DETR's masks have 1 for padding, those of transformers 1 for valid pixels. */
START_TEST(polarity)
{
    char query[500], mask[200];
    posenc_answer a[3];
    for (int i = 0; i < 3; i++) {
        write_mask(mask, images[1], i == 0);
        snprintf(query, sizeof query, "num_pos_feats=4&normalize=true&mask=%s&mask_convention=%s", mask,
                 i == 1 ? "valid" : "padding");
        a[i] = answer_of(query);
    }
    const size_t size = posenc_tensor_size(&a[0].result.tensor[0]);
    ck_assert_mem_eq(a[0].result.tensor[0].data, a[1].result.tensor[0].data, size);
    ck_assert(memcmp(a[1].result.tensor[0].data, a[2].result.tensor[0].data, size));
    for (int i = 0; i < 3; i++)
        posenc_answer_fini(&a[i]);
}
END_TEST

/* No valid pixel: 0 / 1e-6 = 0, as in DETR; -0.5 / 1e-6 with Deformable DETR's offset. Finite both. */
START_TEST(nothing_valid)
{
    char query[500], mask[200];
    write_mask(mask, images[4], false);
    snprintf(query, sizeof query, "num_pos_feats=4&normalize=true&mask=%s&mask_convention=valid", mask);
    posenc_answer a = answer_of(query);
    strcat(query, "&offset=-0.5");
    posenc_answer b = answer_of(query);
    for (int c = 0; c < 8; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                ck_assert(cell(&a, c, y, x) == (c % 2 ? 1 : 0));
                ck_assert(isfinite(cell(&b, c, y, x)) && fabs(cell(&b, c, y, x)) <= 1);
            }
    ck_assert(fabs(cell(&b, 2, 0, 0) - sin(-0.5 / 1e-6 * two_pi / 100)) < 1e-7);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(no_mask_is_a_full_one)
{
    posenc_answer a = answer_of("num_pos_feats=4&normalize=true&height=2&width=3"),
                  b = answer_of("num_pos_feats=4&normalize=true&mask=[[0,0,0],[0,0,0]]"),
                  c = answer_of("num_pos_feats=4&normalize=true&mask_convention=valid&mask=[[1,1,1],[1,1,1]]");
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 48 * sizeof(float));
    ck_assert_mem_eq(a.result.tensor[0].data, c.result.tensor[0].data, 48 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(several_images) /* each as if alone */
{
    char query[1000], mask[2][200];
    for (int i = 0; i < 2; i++)
        write_mask(mask[i], images[1 + i], false);
    snprintf(query, sizeof query, "num_pos_feats=6&normalize=true&mask_convention=valid&mask=[%s,%s]", mask[0], mask[1]);
    posenc_answer both = answer_of(query);
    ck_shape(&both, 4, (const int64_t[]){ 2, 12, H, W });
    for (int i = 0; i < 2; i++) {
        snprintf(query, sizeof query, "num_pos_feats=6&normalize=true&mask_convention=valid&mask=%s", mask[i]);
        posenc_answer a = answer_of(query);
        ck_assert_mem_eq(a.result.tensor[0].data, (const float *)both.result.tensor[0].data + i * 12 * H * W,
                         12 * H * W * sizeof(float));
        posenc_answer_fini(&a);
    }
    posenc_answer_fini(&both);
}
END_TEST

START_TEST(two_temperatures) /* DAB-DETR */
{
    posenc_answer a = answer_of(
                      "num_pos_feats=4&height=3&width=3&temperature_height=20&temperature_width=400&dtype=float64"),
                  b = answer_of("num_pos_feats=4&height=3&width=3&temperature=400&temperature_height=20&dtype=float64");
    ck_assert(fabs(cell(&a, 2, 1, 0) - sin(2 / sqrt(20))) < 1e-15);
    ck_assert(fabs(cell(&a, 6, 0, 1) - sin(2.0 / 20)) < 1e-15);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* float32 as DETR forms it: the sum with eps is lost from 32 pixels on, and positions are divided by periods. */
START_TEST(single_precision)
{
    posenc_answer a = answer_of("num_pos_feats=8&height=40&width=2&normalize=true&compute_dtype=float32&temperature=30");
    for (int y = 0; y < 40; y++)
        for (int i = 0; i < 4; i++) {
            const float divisor = 40.0f + 1e-6f, v = (float)(y + 1) / divisor * (float)two_pi;
            const float period = (float)pow(30, (double)(float)(i / 4.0)), angle = v / period;
            ck_assert(cell(&a, 2 * i, y, 0) == (double)(float)sin((double)angle));
            ck_assert(cell(&a, 2 * i + 1, y, 1) == (double)(float)cos((double)angle));
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(rounded_once)
{
    static const char *const dtypes[] = { "float32", "float16", "bfloat16" };
    posenc_answer exact = answer_of("num_pos_feats=10&height=7&width=9&normalize=true&dtype=float64");
    for (size_t d = 0; d < LEN(dtypes); d++) {
        char query[100], narrow[8];
        snprintf(query, sizeof query, "num_pos_feats=10&height=7&width=9&normalize=true&dtype=%s", dtypes[d]);
        posenc_answer a = answer_of(query);
        const posenc_tensor one = { .dtype = a.result.tensor[0].dtype, .data = narrow };
        for (int i = 0; i < 20 * 63; i++) {
            posenc_convert(one.dtype, narrow, (const double *)exact.result.tensor[0].data + i, 1);
            ck_assert(posenc_tensor_get(&one, 0) == posenc_tensor_get(&a.result.tensor[0], i));
        }
        posenc_answer_fini(&a);
    }
    posenc_answer_fini(&exact);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = answer_of("height=0&width=4"), b = answer_of("height=4&width=0&normalize=true");
    ck_shape(&a, 3, (const int64_t[]){ 128, 0, 4 });
    ck_shape(&b, 3, (const int64_t[]){ 128, 4, 0 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const char *const spellings[][2] = {
    { "normalize=true", "normalize=true&scale=6.283185307179586&eps=1e-6&offset=0" },
    { "temperature=20", "temperature_height=20&temperature_width=20" },
    { "", "num_pos_feats=64&temperature=10000&eps=1e-6&offset=0&mask_convention=padding" },
};

START_TEST(one_digest)
{
    char digest[2][65];
    for (int i = 0; i < 2; i++) {
        char query[300];
        snprintf(query, sizeof query, "height=2&width=3%s%s", *spellings[_i][i] ? "&" : "", spellings[_i][i]);
        posenc_answer a = answer_of(query), again = answer_of(strchr(a.request.key, ' ') + 1);
        ck_assert_str_eq(a.request.digest, again.request.digest);
        memcpy(digest[i], a.request.digest, 65);
        posenc_answer_fini(&a);
        posenc_answer_fini(&again);
    }
    ck_assert_str_eq(digest[0], digest[1]);
}
END_TEST

/* ---- bad input ---- */

static const refusal bad[] = {
    { "width=4", "height" },
    { "height=4", "width" },
    { "height=4&width=16777217", "width" },
    { "height=4&width=4&num_pos_feats=7", "num_pos_feats" },
    { "height=4&width=4&num_pos_feats=0", "num_pos_feats" },
    { "height=4&width=4&scale=6.283185307179586", "scale" },
    { "height=4&width=4&normalize=false&scale=1", "scale" },
    { "height=4&width=4&offset=-0.5", "offset" },
    { "height=4&width=4&eps=1e-5", "eps" },
    { "height=4&width=4&normalize=true&eps=0", "eps" },
    { "height=4&width=4&normalize=true&scale=inf", "scale" },
    { "height=4&width=4&mask_convention=valid", "mask_convention" },
    { "height=4&width=4&temperature=0", "temperature" },
    { "height=4&width=4&temperature=20&temperature_height=20&temperature_width=20", "temperature" },
    { "height=4&width=4&temperature_width=1e-10&compute_dtype=float32", "temperature_width" },
    { "mask=[0,0,0]", "mask" },
    { "mask=[[0,0],[0,2]]", "mask[1][1]" },
    { "mask=[[0,0.5]]", "mask[0][1]" },
    { "mask=[[0,0],[0]]", "mask[1]" },
    { "mask=[[0,0]]&height=1", "height" },
    { "mask=[[0,0]]&width=2", "width" },
    { "height=4&width=4&embedding_dim=4", "embedding_dim" },
};

START_TEST(bad_input) { refuses("detr_sine", &bad[_i]); }
END_TEST

START_TEST(all_faults_at_once)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(
        posenc_encode("detr_sine", "num_pos_feats=3&scale=1&eps=1e-4&offset=1&mask_convention=valid", NULL, &a, NULL, &err),
        PE_INVALID);
    ck_assert_uint_eq(err.n, 7);
}
END_TEST

static posenc_status stop_later(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops)
{
    posenc_answer a;
    for (int polls = 0; polls < 5; polls++) {
        int left = polls;
        posenc_context ctx = { .stop = stop_later, .user = &left };
        ck_assert_int_eq(posenc_encode("detr_sine", "height=200&width=200&normalize=true", NULL, &a, &ctx, NULL),
                         PE_CANCELLED);
    }
}
END_TEST

Suite *detr_sine_suite(void)
{
    Suite *s = suite_create("detr_sine");
    TCase *t = tcase_create("detr_sine");
    tcase_add_loop_test(t, formula, 0, (int)LEN(forms));
    tcase_add_loop_test(t, wide_with_holes, 0, 3);
    tcase_add_test(t, counts_from_1);
    tcase_add_test(t, polarity);
    tcase_add_test(t, nothing_valid);
    tcase_add_test(t, no_mask_is_a_full_one);
    tcase_add_test(t, several_images);
    tcase_add_test(t, two_temperatures);
    tcase_add_test(t, single_precision);
    tcase_add_test(t, rounded_once);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, one_digest, 0, (int)LEN(spellings));
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, all_faults_at_once);
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
