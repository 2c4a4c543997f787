/* test_axial.c - rows of two tables side by side, forms of the weights, bad input. */
#include "ask.h"

#define W0 "weight0=[[10],[20],[30]]"
#define W1 "weight1=[[1,-1],[2,-2]]"

static posenc_answer answer_of(const char *query) { return ask("axial", query); }

START_TEST(side_by_side)
{
    static const float want[6][3] = { { 10, 1, -1 }, { 10, 2, -2 }, { 20, 1, -1 },
                                      { 20, 2, -2 }, { 30, 1, -1 }, { 30, 2, -2 } };
    posenc_answer all = answer_of(W0 "&" W1), some = answer_of(W0 "&" W1 "&length=5"),
                  none = answer_of(W0 "&" W1 "&length=0"), listed = answer_of(W0 "&" W1 "&positions=5,0,5");
    ck_assert(all.result.tensor[0].shape[0] == 6 && all.result.tensor[0].shape[1] == 3);
    ck_assert_mem_eq(all.result.tensor[0].data, want, sizeof want);
    ck_assert_int_eq(some.result.tensor[0].shape[0], 5);
    ck_assert_mem_eq(some.result.tensor[0].data, want, 5 * sizeof want[0]);
    ck_assert(none.result.tensor[0].shape[0] == 0 && none.result.tensor[0].shape[1] == 3);
    for (int i = 0; i < 3; i++)
        ck_assert_mem_eq((const float *)listed.result.tensor[0].data + 3 * i, want[i == 1 ? 0 : 5], sizeof want[0]);
    posenc_answer_fini(&all);
    posenc_answer_fini(&some);
    posenc_answer_fini(&none);
    posenc_answer_fini(&listed);
}
END_TEST

/* What DetrLearnedPositionEmbedding gives for 3 rows and 2 columns with these rows of its tables. */
START_TEST(detr)
{
    static const float want[6][3] = { { 1, -1, 10 }, { 2, -2, 10 }, { 1, -1, 20 },
                                      { 2, -2, 20 }, { 1, -1, 30 }, { 2, -2, 30 } };
    posenc_answer a = answer_of(W0 "&" W1 "&order=fast_first");
    ck_assert_mem_eq(a.result.tensor[0].data, want, sizeof want);
    posenc_answer_fini(&a);
}
END_TEST

/* HuggingFace's own shapes, and lists that repeat what the weights say. */
START_TEST(spellings)
{
    posenc_answer a = answer_of(W0 "&" W1 "&length=4"),
                  b = answer_of("weight0=[[[10]],[[20]],[[30]]]&weight1=[[[1,-1],[2,-2]]]&length=4"),
                  c = answer_of(W0 "&" W1 "&length=4&axial_pos_shape=3,2&axial_pos_embds_dim=1,2");
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, 12 * sizeof(float));
    ck_assert_str_eq(a.request.digest, c.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

static const refusal bad[] = {
    { W0, "weight1" },
    { W1, "weight0" },
    { W0 "&" W1 "&length=7", "length" },
    { W0 "&" W1 "&length=-1", "length" },
    { W0 "&" W1 "&positions=0,6", "positions[1]" },
    { W0 "&" W1 "&positions=0.5", "positions[0]" },
    { W0 "&" W1 "&positions=-1", "positions[0]" },
    { W0 "&" W1 "&positions=1&length=1", "positions" },
    { W0 "&" W1 "&axial_pos_shape=3", "axial_pos_shape" },
    { W0 "&" W1 "&axial_pos_shape=2,2", "axial_pos_shape[0]" },
    { W0 "&" W1 "&axial_pos_shape=3,2.5", "axial_pos_shape[1]" },
    { W0 "&" W1 "&axial_pos_embds_dim=1,3", "axial_pos_embds_dim[1]" },
    { "weight0=[1,2]&" W1, "weight0" },
    { "weight0=[[[1],[2]]]&" W1, "weight0" },
    { W0 "&weight1=[[[1]],[[2]]]", "weight1" },
    { "weight0=[[65505]]&" W1 "&dtype=float16", "weight0[0][0]" },
};

START_TEST(bad_input) { refuses("axial", &bad[_i]); }
END_TEST

Suite *axial_suite(void);
Suite *axial_suite(void)
{
    Suite *s = suite_create("axial");
    TCase *t = tcase_create("axial");
    tcase_add_test(t, side_by_side);
    tcase_add_test(t, detr);
    tcase_add_test(t, spellings);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
