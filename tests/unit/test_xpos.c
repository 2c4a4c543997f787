/* test_xpos.c - scales against the closed form, centres of three implementations, scores that decay, bad input. */
#include "ask.h"

#include <math.h>

Suite *xpos_suite(void);

static posenc_answer answer_of(const char *query) { return ask("xpos", query); }

/* Where the scale is 1. */
static const struct {
    const char *query;
    double centre, first;
    int64_t n;
} centres[] = {
    { "length=8", 4, 0, 8 },
    { "length=7", 4, 0, 7 }, /* torchscale: -7 // 2 = -4 */
    { "length=7&offset=4", 6, 4, 7 },
    { "length=7&centering=max_position", 3, 0, 7 },
    { "length=7&offset=4&centering=max_position", 5, 4, 7 },
    { "length=7&offset=4&centering=length", 3, 4, 7 },
    { "length=7&offset=4&centering=none", 0, 4, 7 },
    { "positions=4,5,6,7,8,9,10", 6, 4, 7 },
    { "length=8&scale_base=3.5&downscale=true", 4, 0, 8 },
    { "length=8&layout=half", 4, 0, 8 },
    { "length=1", 1, 0, 1 },
};

START_TEST(closed_form)
{
    char query[200];
    snprintf(query, sizeof query, "head_dim=6&dtype=float64&%s", centres[_i].query);
    posenc_answer a = answer_of(query);
    const bool down = strstr(query, "downscale") != NULL, half = strstr(query, "half") != NULL;
    const double base = strstr(query, "3.5") ? 3.5 : 512;
    ck_assert(tensor_of(&a, "scales")->shape[0] == centres[_i].n && tensor_of(&a, "cos")->shape[1] == 6);
    for (int64_t i = 0; i < centres[_i].n; i++)
        for (int64_t j = 0; j < 3; j++) {
            const double zeta = (2 * (double)j + 0.4 * 6) / (1.4 * 6), p = centres[_i].first + (double)i,
                         scale = pow(zeta, (down ? -1 : 1) * (p - centres[_i].centre) / base),
                         angle = p * pow(10000, -(double)j / 3);
            const int64_t column = 6 * i + (half ? j : 2 * j), other = half ? column + 3 : column + 1;
            ck_assert(fabs(named(&a, "scale", j) - zeta) < 1e-15);
            ck_assert(fabs(named(&a, "scales", 3 * i + j) / scale - 1) < 1e-14);
            ck_assert(fabs(named(&a, "cos", column) - scale * cos(angle)) < 1e-13);
            ck_assert(fabs(named(&a, "sin", other) - scale * sin(angle)) < 1e-13);
        }
    posenc_answer_fini(&a);
}
END_TEST

/* Queries scaled up, keys down: the score of equal vectors depends on the distance alone, and the centre cancels. */
START_TEST(scores)
{
    static const char *const centring[] = { "torchscale", "max_position", "none" };
    double want = 0;
    for (size_t k = 0; k < LEN(centring); k++)
        for (int shift = 0; shift <= 400; shift += 200) {
            char query[300];
            snprintf(query, sizeof query,
                     "head_dim=4&dtype=float64&positions=%d,%d&centering=%s&scale_base=64&x=[[1,2,3,4],[1,2,3,4]]", shift,
                     shift + 30, centring[k]);
            posenc_answer q = answer_of(query);
            snprintf(query + strlen(query), 40, "&downscale=true");
            posenc_answer key = answer_of(query);
            double score = 0;
            for (int64_t j = 0; j < 4; j++)
                score += named(&q, "x", 4 + j) * named(&key, "x", j);
            want = k || shift ? want : score;
            ck_assert_msg(fabs(score - want) < 1e-10, "%s %d: %.17g, want %.17g", centring[k], shift, score, want);
            posenc_answer_fini(&q);
            posenc_answer_fini(&key);
        }
}
END_TEST

START_TEST(length_of_x)
{
    posenc_answer a = answer_of("head_dim=2&x=[[[1,0],[1,0],[1,0]],[[0,1],[0,1],[0,1]]]&dtype=float64"),
                  b = answer_of("head_dim=2&length=3&dtype=float64");
    for (int64_t i = 0; i < 3; i++) {
        ck_assert(named(&a, "x", 2 * i) == named(&b, "cos", 2 * i) && named(&a, "x", 2 * i + 1) == named(&b, "sin", 2 * i));
        ck_assert(named(&a, "x", 6 + 2 * i) == -named(&b, "sin", 2 * i));
    }
    ck_assert_ptr_nonnull(strstr(a.request.key, "length=3"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "length=3", "head_dim" },
    { "head_dim=5&length=3", "head_dim" },
    { "head_dim=4", "length" },
    { "head_dim=4&length=3&positions=1", "positions" },
    { "head_dim=4&offset=3&positions=1", "offset" },
    { "head_dim=4&length=-1", "length" },
    { "head_dim=4&length=3&scale_base=0", "scale_base" },
    { "head_dim=4&positions=0,1000000&scale_base=0.001", "scale_base" },
    { "head_dim=4&positions=0,10000&dtype=float16", "scale_base" },
    { "head_dim=4&length=3&rope_theta=1e-9&dtype=float16", "rope_theta" },
    { "head_dim=4&length=3&x=[[1,2,3,4]]", "x" },
    { "head_dim=4&x=[[1,2,3]]", "x" },
    { "head_dim=4&x=[[1,2,3,1e39]]", "x[0][3]" },
    { "head_dim=4&length=3&centering=middle", "centering" },
};

START_TEST(bad_input) { refuses("xpos", &bad[_i]); }
END_TEST

Suite *xpos_suite(void)
{
    Suite *s = suite_create("xpos");
    TCase *t = tcase_create("xpos");
    tcase_add_loop_test(t, closed_form, 0, (int)LEN(centres));
    tcase_add_test(t, scores);
    tcase_add_test(t, length_of_x);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
