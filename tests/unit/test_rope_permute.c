/* test_rope_permute.c - the map of channels, weights by it, and that permuted weights give the same scores. */
#include "ask.h"

#include <math.h>

Suite *rope_permute_suite(void);

static posenc_answer answer_of(const char *query) { return ask("rope_permute", query); }

static const struct {
    const char *query;
    int want[8];
} maps[] = {
    { "head_dim=8", { 0, 4, 1, 5, 2, 6, 3, 7 } },
    { "head_dim=8&from_layout=interleaved&to_layout=half", { 0, 2, 4, 6, 1, 3, 5, 7 } },
    { "head_dim=8&to_layout=half", { 0, 1, 2, 3, 4, 5, 6, 7 } },
    { "head_dim=8&partial_rotary_factor=0.5", { 0, 2, 1, 3, 4, 5, 6, 7 } },
    { "head_dim=8&partial_rotary_factor=0.5&rotated_channels=last", { 0, 1, 2, 3, 4, 6, 5, 7 } },
};

START_TEST(map)
{
    posenc_answer a = answer_of(maps[_i].query);
    ck_assert_int_eq(a.result.ntensors, 1);
    ck_assert_int_eq(tensor_of(&a, "index")->dtype, PE_int64);
    for (int64_t c = 0; c < 8; c++)
        ck_assert_msg(named(&a, "index", c) == maps[_i].want[c], "%s: [%d]", maps[_i].query, (int)c);
    posenc_answer_fini(&a);
}
END_TEST

/* Two heads of four channels, three columns: rows move within their head, values stay. */
START_TEST(weight_moves_by_rows)
{
    posenc_answer
        a = answer_of(
            "head_dim=4&weight=[[0,1,2],[10,11,12],[20,21,22],[30,31,32],[40,41,42],[50,51,52],[60,61,62],[70,71,72]]"),
        b = answer_of("head_dim=4&weight=[0,1,2,3,4,5,6,7]&dtype=bfloat16");
    static const int want[] = { 0, 2, 1, 3, 4, 6, 5, 7 };
    for (int64_t i = 0; i < 8; i++) {
        for (int64_t k = 0; k < 3; k++)
            ck_assert(named(&a, "weight", 3 * i + k) == 10 * want[i] + (double)k);
        ck_assert(named(&b, "weight", i) == want[i]);
    }
    ck_assert(tensor_of(&b, "weight")->rank == 1 && tensor_of(&b, "weight")->dtype == PE_bfloat16);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* A vector in half layout and the permuted one in interleaved layout have the same score with themselves at a distance. */
START_TEST(same_scores)
{
    posenc_answer w = answer_of("head_dim=8&dtype=float64&weight=[3,1,4,1,5,9,2,6]");
    char query[700], v[200] = "";
    for (int64_t i = 0; i < 8; i++)
        snprintf(v + strlen(v), sizeof v - strlen(v), "%s%g", i ? "," : "", named(&w, "weight", i));
    double score[2] = { 0, 0 };
    for (int k = 0; k < 2; k++) {
        posenc_answer a;
        snprintf(query, sizeof query, "head_dim=8&positions=4,11&dtype=float64&layout=%s&q=[[%s],[%s]]",
                 k ? "interleaved" : "half", k ? v : "3,1,4,1,5,9,2,6", k ? v : "3,1,4,1,5,9,2,6");
        ck_assert_int_eq(posenc_encode("rope_apply", query, NULL, &a, NULL, NULL), PE_OK);
        for (int64_t j = 0; j < 8; j++)
            score[k] += named(&a, "q", j) * named(&a, "q", 8 + j);
        posenc_answer_fini(&a);
    }
    ck_assert(fabs(score[0] - score[1]) < 1e-12);
    posenc_answer_fini(&w);
}
END_TEST

static const refusal bad[] = {
    { "", "head_dim" },
    { "head_dim=7", "head_dim" },
    { "head_dim=10&partial_rotary_factor=0.5", "partial_rotary_factor" },
    { "head_dim=10&partial_rotary_factor=0", "partial_rotary_factor" },
    { "head_dim=8&rotated_channels=last", "rotated_channels" },
    { "head_dim=8&from_layout=half_unduplicated", "from_layout" },
    { "head_dim=4&weight=[1,2,3,4,5]", "weight" },
    { "head_dim=4&weight=[1,2,3,70000]&dtype=float16", "weight[3]" },
    { "head_dim=4&weight=7", "weight" },
};

START_TEST(bad_input) { refuses("rope_permute", &bad[_i]); }
END_TEST

Suite *rope_permute_suite(void)
{
    Suite *s = suite_create("rope_permute");
    TCase *t = tcase_create("rope_permute");
    tcase_add_loop_test(t, map, 0, (int)LEN(maps));
    tcase_add_test(t, weight_moves_by_rows);
    tcase_add_test(t, same_scores);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
