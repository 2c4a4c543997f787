/* test_rope_apply.c - pairs of channels in every layout and order of axes, what passes, invariants of rotation, bad input.
 */
#include "ask.h"

#include <math.h>

Suite *rope_apply_suite(void);

static posenc_answer answer_of(const char *query) { return ask("rope_apply", query); }

/* Where a lone 1 goes: cosines and sines of the angles 1 and 0.01. */
static const struct {
    const char *query;
    double want[6];
    int64_t n;
} units[] = {
    { "head_dim=4&positions=1&q=[[1,0,0,0]]", { 0.5403, 0, 0.8415, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[1,0,0,0]]&layout=interleaved", { 0.5403, 0.8415, 0, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[1,0,0,0]]&layout=half_unduplicated", { 0.5403, 0, 0.8415, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[1,0,0,0]]&layout=interleaved_unduplicated", { 0.5403, 0.8415, 0, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[0,1,0,0]]", { 0, 0.99995, 0, 0.01 }, 4 },
    { "head_dim=4&positions=1&q=[[0,1,0,0]]&layout=interleaved", { -0.8415, 0.5403, 0, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[0,1,0,0]]&layout=interleaved&output_layout=half", { -0.8415, 0, 0.5403, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[0,0,1,0]]&layout=interleaved&output_layout=half", { 0, 0.99995, 0, 0.01 }, 4 },
    { "head_dim=4&positions=1&q=[[0,0,1,0]]&layout=half&output_layout=interleaved", { -0.8415, 0.5403, 0, 0 }, 4 },
    { "head_dim=4&positions=1&q=[[0,0,1,0]]&compute_dtype=float32", { -0.8415, 0, 0.5403, 0 }, 4 },
    { "head_dim=6&partial_rotary_factor=0.7&positions=1&q=[[1,0,0,0,7,8]]", { 0.5403, 0, 0.8415, 0, 7, 8 }, 6 },
    { "head_dim=6&partial_rotary_factor=0.7&positions=1&q=[[7,8,1,0,0,0]]&rotated_channels=last",
      { 7, 8, 0.5403, 0, 0.8415, 0 },
      6 },
    { "head_dim=6&partial_rotary_factor=0.7&positions=1&q=[[7,8,1,0,0,0]]&rotated_channels=last&layout=interleaved",
      { 7, 8, 0.5403, 0.8415, 0, 0 },
      6 },
    /* what passes is not multiplied by the attention factor */
    { "head_dim=6&partial_rotary_factor=0.7&positions=0&rope_type=yarn&factor=2&attention_factor=3&q=[[1,2,3,4,7,8]]",
      { 3, 6, 9, 12, 7, 8 },
      6 },
    { "head_dim=4&positions=1&rope_type=proportional&partial_rotary_factor=0.5&q=[[1,5,0,6]]", { 0.5403, 5, 0.8415, 6 }, 4 },
};

START_TEST(where_a_one_goes)
{
    posenc_answer a = answer_of(units[_i].query);
    ck_assert_int_eq(tensor_of(&a, "q")->rank, 2);
    for (int64_t i = 0; i < units[_i].n; i++)
        ck_assert_msg(fabs(named(&a, "q", i) - units[_i].want[i]) < 5e-5, "%s: [%d] is %g", units[_i].query, (int)i,
                      named(&a, "q", i));
    ck_assert_ptr_null(tensor_of(&a, "k"));
    posenc_answer_fini(&a);
}
END_TEST

/* One q of [2 heads, 3 positions, 4] in all orders of axes; a number tells its place. */
START_TEST(axes)
{
    static const char
        heads_first[] = "[[[0,1,2,3],[10,11,12,13],[20,21,22,23]],[[100,101,102,103],[110,111,112,113],[120,121,122,123]]]",
        positions_first[] =
            "[[[0,1,2,3],[100,101,102,103]],[[10,11,12,13],[110,111,112,113]],[[20,21,22,23],[120,121,122,123]]]";
    char query[900];
    snprintf(query, sizeof query,
             "head_dim=4&positions=5,9,2&dtype=float64&q=%s&k=[[[0,1,2,3],[10,11,12,13],[20,21,22,23]]]", heads_first);
    posenc_answer a = answer_of(query);
    snprintf(query, sizeof query, "head_dim=4&positions=5,9,2&dtype=float64&input_order=position_head_dim&q=%s",
             positions_first);
    posenc_answer b = answer_of(query);
    snprintf(query, sizeof query, "head_dim=4&positions=5,9,2&dtype=float64&q=[%s,%s]", heads_first, heads_first);
    posenc_answer c = answer_of(query);
    snprintf(query, sizeof query, "head_dim=4&positions=5,9,2&dtype=float64&input_order=position_head_dim&q=[%s]",
             positions_first);
    posenc_answer d = answer_of(query);
    ck_assert(tensor_of(&a, "cos")->shape[1] == 4 && tensor_of(&b, "cos")->shape[1] == 2);
    static const double at[] = { 5, 9, 2 };
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 4; j++) {
                const double x = 100.0 * (double)h + 10.0 * (double)i, angle = at[i] * (j % 2 ? 0.01 : 1),
                             x1 = x + (double)(j % 2), x2 = x1 + 2;
                const double want = j < 2 ? x1 * cos(angle) - x2 * sin(angle) : x2 * cos(angle) + x1 * sin(angle);
                ck_assert(fabs(named(&a, "q", 12 * h + 4 * i + j) - want) < 1e-13);
                ck_assert(named(&b, "q", 8 * i + 4 * h + j) == named(&a, "q", 12 * h + 4 * i + j));
                ck_assert(named(&c, "q", 24 + 12 * h + 4 * i + j) == named(&a, "q", 12 * h + 4 * i + j));
                ck_assert(named(&d, "q", 8 * i + 4 * h + j) == named(&a, "q", 12 * h + 4 * i + j));
                ck_assert(h || named(&a, "k", 4 * i + j) == named(&a, "q", 4 * i + j));
            }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
}
END_TEST

/* Tokens of two sequences: each batch of q turns by its own positions. */
START_TEST(tokens)
{
    posenc_answer a = answer_of(
        "head_dim=2&attention_mask=[[0,1,1],[1,1,0]]&q=[[[[1,0],[1,0],[1,0]]],[[[1,0],[1,0],[1,0]]]]");
    static const int at[] = { 1, 0, 1, 0, 1, 1 };
    for (int64_t i = 0; i < 6; i++) {
        ck_assert_int_eq(((const int64_t *)tensor_of(&a, "positions")->data)[i], at[i]);
        ck_assert(fabs(named(&a, "q", 2 * i + 1) - sin(at[i])) < 1e-7);
    }
    ck_assert_int_eq(tensor_of(&a, "cos")->rank, 3);
    posenc_answer_fini(&a);
    a = answer_of(
        "head_dim=2&attention_mask=[[0,1],[1,1]]&input_order=position_head_dim&q=[[[[1,0]],[[1,0]]],[[[1,0]],[[1,0]]]]");
    static const int second[] = { 1, 0, 0, 1 };
    for (int64_t i = 0; i < 4; i++)
        ck_assert(fabs(named(&a, "q", 2 * i + 1) - sin(second[i])) < 1e-7);
    posenc_answer_fini(&a);
}
END_TEST

/* Scores depend on the distance alone; turning back and forth is nothing. */
START_TEST(invariants)
{
    double first = 0;
    for (int shift = 0; shift <= 100000; shift += 25000) {
        char query[200];
        snprintf(query, sizeof query,
                 "head_dim=8&positions=%d,%d&dtype=float64&layout=interleaved&q=[[1,2,3,4,5,6,7,8],[3,1,4,1,5,9,2,6]]",
                 shift + 17, shift + 5);
        posenc_answer a = answer_of(query);
        double score = 0;
        for (int64_t j = 0; j < 8; j++)
            score += named(&a, "q", j) * named(&a, "q", 8 + j);
        first = shift ? first : score;
        ck_assert_msg(fabs(score - first) < 1e-12, "shift %d: %.17g, want %.17g", shift, score, first);
        posenc_answer_fini(&a);
    }
    posenc_answer a = answer_of("head_dim=4&positions=123&dtype=float64&q=[[1,2,3,4]]");
    char query[200];
    snprintf(query, sizeof query, "head_dim=4&positions=-123&dtype=float64&q=[[%.17g,%.17g,%.17g,%.17g]]", named(&a, "q", 0),
             named(&a, "q", 1), named(&a, "q", 2), named(&a, "q", 3));
    posenc_answer b = answer_of(query);
    for (int64_t j = 0; j < 4; j++)
        ck_assert(fabs(named(&b, "q", j) - (double)(j + 1)) < 1e-14);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(deepseek)
{
    posenc_answer a = answer_of("head_dim=4&preset=deepseek-v3&positions=0&q=[[1,2,3,4]]");
    static const double want[] = { 1, 3, 2, 4 };
    for (int64_t j = 0; j < 4; j++)
        ck_assert(named(&a, "q", j) == want[j]);
    ck_assert(fabs(named(&a, "softmax_scale_multiplier", 0) - 1.8738542) < 1e-7);
    posenc_answer_fini(&a);
}
END_TEST

/* No position, no head: empty tensors. Nested lists cannot say [0, n]; a tensor can. */
START_TEST(empty)
{
    static const int64_t shapes[][3] = { { 2, 0, 4 }, { 0, 3, 4 } };
    static double none[1];
    for (size_t k = 0; k < LEN(shapes); k++) {
        posenc_arena *arena = posenc_arena_new(1 << 20);
        posenc_request r;
        posenc_error err = { 0 };
        const posenc_tensor q = {
            .name = "q", .dtype = PE_float64, .rank = 3, .data = none, .shape = { shapes[k][0], shapes[k][1], shapes[k][2] }
        };
        ck_assert_int_eq(posenc_request_init(&r, "rope_apply", arena, &err), PE_OK);
        posenc_request_parse(&r, k ? "head_dim=4&num_positions=3" : "head_dim=4&num_positions=0", &err);
        posenc_set_tensor(&r.encoding->table, posenc_row(&r.encoding->table, "q"), r.params, &q, &err);
        ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
        posenc_result out = r.shape;
        for (int i = 0; i < out.ntensors; i++)
            out.tensor[i].data = posenc_alloc(arena, posenc_tensor_size(&out.tensor[i]) + 1);
        ck_assert_int_eq(posenc_compute(&r, &out, NULL, &err), PE_OK);
        ck_assert_int_eq(posenc_tensor_count(&out.tensor[0]), 0);
        posenc_arena_free(arena);
    }
}
END_TEST

static const refusal bad[] = {
    { "head_dim=4&positions=1", "q" },
    { "positions=1&q=[[1,0,0,0]]", "head_dim" },
    { "head_dim=4&q=[[1,0,0,0]]", "num_positions" },
    { "head_dim=4&positions=1&q=[[1,0,0]]", "q" },
    { "head_dim=4&positions=1&q=[1,0,0,0]", "q" },
    { "head_dim=4&positions=1,2&q=[[1,0,0,0]]", "q" },
    { "head_dim=4&positions=1&k=[[[1,0,0,0],[1,0,0,0]]]", "k" },
    { "head_dim=4&positions=1&q=[[1,0,0,0]]&input_order=position_head_dim", "q" },
    { "head_dim=4&positions=1&q=[[[[[1,0,0,0]]]]]", "q" },
    { "head_dim=2&attention_mask=[[1],[1]]&q=[[1,0]]", "q" },
    { "head_dim=2&attention_mask=[[1],[1]]&q=[[[[1,0]]]]", "q" },
    { "head_dim=4&positions=1&q=[[1e39,0,0,0]]", "q[0][0]" },
    { "head_dim=4&positions=1&q=[[0,0,60000,0]]&dtype=float16", "q[0][2]" },
    { "head_dim=4&positions=1&q=[[0,0,3,0]]&output_layout=half_unduplicated", "output_layout" },
    { "head_dim=4&positions=1&q=[[0,0,3,0]]&rotated_channels=last", "rotated_channels" },
    { "head_dim=4&positions=1&q=[[0,0,3,0]]&factor=3", "factor" },
};

START_TEST(bad_input) { refuses("rope_apply", &bad[_i]); }
END_TEST

Suite *rope_apply_suite(void)
{
    Suite *s = suite_create("rope_apply");
    TCase *t = tcase_create("rope_apply");
    tcase_add_loop_test(t, where_a_one_goes, 0, (int)LEN(units));
    tcase_add_test(t, axes);
    tcase_add_test(t, tokens);
    tcase_add_test(t, invariants);
    tcase_add_test(t, deepseek);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
