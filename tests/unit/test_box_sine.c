/* test_box_sine.c - order of coordinates, layouts, float32 as peers form it, rules. */
#include "ask.h"

#include <math.h>

Suite *box_sine_suite(void);

static const double two_pi = 6.283185307179586;

static posenc_answer answer_of(const char *query) { return ask("box_sine", query); }

static void ck_shape(const posenc_answer *a, int rank, const int64_t *want)
{
    const posenc_tensor *t = &a->result.tensor[0];
    ck_assert_str_eq(t->name, "embedding");
    ck_assert_int_eq(t->rank, rank);
    for (int i = 0; i < rank; i++)
        ck_assert_int_eq(t->shape[i], want[i]);
}

/* sin even, cos odd, periods 100^(2i/6) */
static double wave(double v, int k)
{
    const double angle = two_pi * v / pow(100, k / 2 / 3.0);
    return k % 2 ? cos(angle) : sin(angle);
}

static const struct {
    const char *boxes;
    int coordinates;
    double in_order[6]; /* of the embedding */
} orders[] = {
    { "boxes=[0.1,0.2]", 2, { 0.2, 0.1 } },
    { "boxes=[0.1,0.2]&order=yx", 2, { 0.2, 0.1 } },
    { "boxes=[0.1,0.2]&order=as_given", 2, { 0.1, 0.2 } },
    { "boxes=[0.1,0.2,0.3,0.4]", 4, { 0.2, 0.1, 0.3, 0.4 } },
    { "boxes=[0.1,0.2,0.3,0.4]&order=yxwh", 4, { 0.2, 0.1, 0.3, 0.4 } },
    { "boxes=[0.1,0.2,0.3,0.4]&order=as_given", 4, { 0.1, 0.2, 0.3, 0.4 } },
    { "boxes=[-0.1,0.2,1.3]", 3, { -0.1, 0.2, 1.3 } },
    { "boxes=[-0.1,0.2,1.3]&order=yx", 3, { 0.2, -0.1, 1.3 } }, /* transformers, encode_sinusoidal_position_embedding */
    { "boxes=[0.1,0.2,0.3,0.4,0.5]&order=yx", 5, { 0.2, 0.1, 0.3, 0.4, 0.5 } },
    { "boxes=[0.7]", 1, { 0.7 } },
    { "boxes=[0,1,2,3,4,5]", 6, { 0, 1, 2, 3, 4, 5 } },
};

START_TEST(order)
{
    char query[200];
    snprintf(query, sizeof query, "%s&num_pos_feats=6&temperature=100&dtype=float64", orders[_i].boxes);
    posenc_answer a = answer_of(query);
    const int n = orders[_i].coordinates;
    ck_shape(&a, 1, (const int64_t[]){ n * 6 });
    for (int i = 0; i < n * 6; i++)
        ck_assert_msg(fabs(at(&a, i) - wave(orders[_i].in_order[i / 6], i % 6)) <
                          2e-15 * (1 + orders[_i].in_order[i / 6]) * 8,
                      "%s %d", query, i);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(leading_axes) /* each box as if alone */
{
    posenc_answer all = answer_of("boxes=[[[0,0.5],[1,0.25]],[[0.125,1],[0.75,0]],[[0.5,0.5],[0.1,0.2]]]&num_pos_feats=4"),
                  one = answer_of("boxes=[[0.125,1]]&num_pos_feats=4");
    ck_shape(&all, 3, (const int64_t[]){ 3, 2, 8 });
    ck_shape(&one, 2, (const int64_t[]){ 1, 8 });
    for (int i = 0; i < 8; i++)
        ck_assert(at(&all, 16 + i) == at(&one, i));
    posenc_answer_fini(&all);
    posenc_answer_fini(&one);
}
END_TEST

START_TEST(split) /* BROS: corners in their order, all sines then all cosines, no 2 pi */
{
    posenc_answer a = answer_of("boxes=[3,-1,4,1,5,-9,2,6]&num_pos_feats=4&scale=1&layout=split&dtype=float64");
    static const double corner[] = { 3, -1, 4, 1, 5, -9, 2, 6 };
    for (int i = 0; i < 32; i++) {
        const double angle = corner[i / 4] / (i % 2 ? 100 : 1);
        ck_assert(fabs(at(&a, i) - (i % 4 < 2 ? sin(angle) : cos(angle))) < 2e-16);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(single_precision) /* DETR divides by periods, BROS multiplies by frequencies */
{
    posenc_answer a = answer_of("boxes=[0.3,0.7,0.9]&num_pos_feats=8&temperature=20&compute_dtype=float32"),
                  b = answer_of("boxes=[0.3,0.7,0.9]&num_pos_feats=8&temperature=20&compute_dtype=float32&layout=split");
    static const float v[] = { 0.3f, 0.7f, 0.9f };
    int apart = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            const float period = (float)pow(20, k / 4.0), position = v[i] * (float)two_pi;
            const float divided = position / period, multiplied = position * (1 / period);
            ck_assert(at(&a, 8 * i + 2 * k) == (double)(float)sin((double)divided));
            ck_assert(at(&b, 8 * i + k) == (double)(float)sin((double)multiplied));
            apart += divided != multiplied;
        }
    ck_assert_int_gt(apart, 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(large_coordinates) /* |angle| 2^-98 and an ulp: the product with 2 pi is exact */
{
    posenc_answer a = answer_of("boxes=[123456789]&num_pos_feats=2&dtype=float64");
    const long double angle = 123456789.0L * (long double)two_pi; /* 27 + 53 bits do not fit in 64: off by 2^-34 */
    ck_assert(fabsl((long double)at(&a, 0) - sinl(angle)) < 0x1p-33L);
    ck_assert(fabs(at(&a, 0) * at(&a, 0) + at(&a, 1) * at(&a, 1) - 1) < 1e-15);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(rounded_once)
{
    posenc_answer exact = answer_of("boxes=[0.1,0.2,0.3,0.4]&num_pos_feats=64&dtype=float64"),
                  a = answer_of("boxes=[0.1,0.2,0.3,0.4]&num_pos_feats=64&dtype=bfloat16"),
                  b = answer_of("boxes=[0.1,0.2,0.3,0.4]&num_pos_feats=64");
    for (int i = 0; i < 256; i++) {
        char narrow[8];
        posenc_tensor one = { .dtype = PE_bfloat16, .data = narrow };
        const double v = at(&exact, i);
        posenc_convert(PE_bfloat16, narrow, &v, 1);
        ck_assert(posenc_tensor_get(&one, 0) == at(&a, i));
        ck_assert((double)(float)v == at(&b, i));
    }
    posenc_answer_fini(&exact);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(one_digest)
{
    posenc_answer a = answer_of("boxes=[0.1,0.2]"),
                  b = answer_of("boxes=[0.1,0.2]&order=yx&scale=6.283185307179586&temperature=10000&num_pos_feats=128");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(no_boxes)
{
    const posenc_tensor none = {
        .name = "boxes", .dtype = PE_float32, .rank = 2, .shape = { 0, 4 }, .data = (char[1]){ 0 }
    };
    posenc_request r;
    posenc_error err = { 0 };
    posenc_arena *arena = posenc_arena_new(1 << 20);
    ck_assert_int_eq(posenc_request_init(&r, "box_sine", arena, &err), PE_OK);
    const posenc_table *t = &r.encoding->table;
    ck_assert_int_eq(posenc_set_tensor(t, posenc_row(t, "boxes"), r.params, &none, &err), PE_OK);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    ck_assert_int_eq(r.shape.tensor[0].shape[0], 0);
    ck_assert_int_eq(r.shape.tensor[0].shape[1], 512);
    posenc_result out = r.shape;
    char data[8];
    out.tensor[0].data = data;
    ck_assert_int_eq(posenc_compute(&r, &out, NULL, &err), PE_OK);
    posenc_arena_free(arena);
}
END_TEST

/* ---- bad input ---- */

static const refusal bad[] = {
    { "", "boxes" },
    { "boxes=0.5", "boxes" },
    { "boxes=[[0.1]]&order=yx", "boxes" },
    { "boxes=[[0.1,0.2]]&order=yxwh", "boxes" },
    { "boxes=[[0.1,2e9]]", "boxes[0][1]" },
    { "boxes=[0.1,0.2]&num_pos_feats=5", "num_pos_feats" },
    { "boxes=[0.1,0.2]&num_pos_feats=0", "num_pos_feats" },
    { "boxes=[0.1,0.2]&temperature=0", "temperature" },
    { "boxes=[0.1,0.2]&temperature=1e-10&compute_dtype=float32", "temperature" },
    { "boxes=[0.1,0.2]&scale=nan", "scale" },
    { "boxes=[0.1,0.2]&order=xy", "order" },
    { "boxes=[0.1,0.2]&boxs=1", "boxs" },
};

START_TEST(bad_input) { refuses("box_sine", &bad[_i]); }
END_TEST

static posenc_status stop_later(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops)
{
    posenc_answer a;
    for (int polls = 0; polls < 3; polls++) {
        int left = polls;
        posenc_context ctx = { .stop = stop_later, .user = &left };
        ck_assert_int_eq(posenc_encode("box_sine", "boxes=[0.1,0.2,0.3,0.4]&num_pos_feats=524288", NULL, &a, &ctx, NULL),
                         PE_CANCELLED);
    }
}
END_TEST

Suite *box_sine_suite(void)
{
    Suite *s = suite_create("box_sine");
    TCase *t = tcase_create("box_sine");
    tcase_add_loop_test(t, order, 0, (int)LEN(orders));
    tcase_add_test(t, leading_axes);
    tcase_add_test(t, split);
    tcase_add_test(t, single_precision);
    tcase_add_test(t, large_coordinates);
    tcase_add_test(t, rounded_once);
    tcase_add_test(t, one_digest);
    tcase_add_test(t, no_boxes);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
