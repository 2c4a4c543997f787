/* test_combine.c - adding and concatenating, what widens, which factor, which vector meets which, bad input. */
#include "ask.h"

#include <math.h>

static void expect_values(const char *query, int rank, const int64_t *shape, const double *want)
{
    posenc_answer a = ask("combine", query);
    int64_t n = 1;
    expect_shape(tensor_of(&a, "combined"), rank, shape);
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(at(&a, i) == want[i], "%s: element %d is %.17g", query, (int)i, at(&a, i));
    posenc_answer_fini(&a);
}

static double applied(const posenc_answer *a) { return posenc_tensor_get(tensor_of(a, "applied_scale"), 0); }

#define X "embedding=[[1,2,3],[4,5,6]]"

START_TEST(adding)
{
    expect_values(X "&encoding=[[10,20,30],[40,50,60]]", 2, (int64_t[]){ 2, 3 }, (double[]){ 11, 22, 33, 44, 55, 66 });
    expect_values(X "&encoding=[[10,20,30],[40,50,60]]&scale=-0.5", 2, (int64_t[]){ 2, 3 },
                  (double[]){ -4, -8, -12, -16, -20, -24 });
    expect_values(X "&encoding=[[10,20],[40,50]]&zero_pad=true", 2, (int64_t[]){ 2, 3 }, (double[]){ 11, 22, 3, 44, 55, 6 });
    expect_values(X "&encoding=[[10,20],[40,50]]&projection=[[1,0],[0,1],[1,1]]", 2, (int64_t[]){ 2, 3 },
                  (double[]){ 11, 22, 33, 44, 55, 96 });
    expect_values("embedding=[1,2]&encoding=[1,2,3]&projection=[[1,1,1],[0,0,1]]&scale=2", 1, (int64_t[]){ 2 },
                  (double[]){ 13, 8 }); /* a wider one needs a projection, too */
    expect_values(X "&encoding=[[10,20,30],[40,50,60]]&zero_pad=true", 2, (int64_t[]){ 2, 3 },
                  (double[]){ 11, 22, 33, 44, 55, 66 });
}
END_TEST

START_TEST(concatenating)
{
    expect_values(X "&encoding=[[10],[40]]&mode=concat&scale=2", 2, (int64_t[]){ 2, 4 },
                  (double[]){ 1, 2, 3, 20, 4, 5, 6, 80 });
    expect_values(X "&encoding=[10,20]&mode=concat", 2, (int64_t[]){ 2, 5 }, (double[]){ 1, 2, 3, 10, 20, 4, 5, 6, 10, 20 });
    expect_values(X "&encoding=[[10],[40]]&mode=concat_project&projection=[[1,0,0,1],[0,1,1,-1]]&scale=2", 2,
                  (int64_t[]){ 2, 2 }, (double[]){ 21, -15, 84, -69 });
}
END_TEST

/* [N, e] over [B, N, d], and everything that NumPy would broadcast to the embedding. */
START_TEST(broadcasting)
{
    static const char e[] = "embedding=[[[0],[0],[0]],[[100],[100],[100]]]"; /* [2, 3, 1] */
    char query[200];
    static const struct {
        const char *encoding;
        double want[6];
    } cases[] = {
        { "[[1],[2],[3]]", { 1, 2, 3, 101, 102, 103 } }, { "[[[1],[2],[3]]]", { 1, 2, 3, 101, 102, 103 } },
        { "[[[1]],[[2]]]", { 1, 1, 1, 102, 102, 102 } }, { "[[[1],[2],[3]],[[4],[5],[6]]]", { 1, 2, 3, 104, 105, 106 } },
        { "[[5]]", { 5, 5, 5, 105, 105, 105 } },         { "[5]", { 5, 5, 5, 105, 105, 105 } },
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        snprintf(query, sizeof query, "%s&encoding=%s", e, cases[i].encoding);
        expect_values(query, 3, (int64_t[]){ 2, 3, 1 }, cases[i].want);
        snprintf(query, sizeof query, "%s&encoding=%s&projection=[[1]]", e, cases[i].encoding);
        expect_values(query, 3, (int64_t[]){ 2, 3, 1 }, cases[i].want);
    }
}
END_TEST

/* The complaint: an encoding whose norm is 35 times the embedding's drowns it. */
START_TEST(matched)
{
    posenc_answer a = ask("combine",
                          "embedding=[[0.02,-0.02],[0.02,0.02]]&encoding=[[3,4],[4,3]]&match_rms=true&dtype=float64");
    const double factor = 0.02 / sqrt(12.5);
    ck_assert(fabs(applied(&a) - factor) <= 1e-18);
    ck_assert(fabs(at(&a, 0) - (0.02 + 3 * factor)) <= 1e-17);
    ck_assert_int_eq(a.result.nwarnings, 1);
    ck_assert_ptr_nonnull(strstr(a.result.warning[0], "0.00565685424949238"));
    posenc_answer_fini(&a);
    /* broadcasting repeats no square; zeros that fill up are not counted; a projected encoding is measured as added */
    a = ask("combine", "embedding=[[[2,2,2]],[[2,2,2]]]&encoding=[[1,-1]]&zero_pad=true&match_rms=true");
    ck_assert(applied(&a) == 2 && at(&a, 0) == 4 && at(&a, 1) == 0 && at(&a, 2) == 2);
    ck_assert_int_eq(a.result.nwarnings, 2);
    ck_assert_ptr_nonnull(strstr(a.result.warning[0], "width 2 was filled up with zeros to 3"));
    posenc_answer_fini(&a);
    a = ask("combine", "embedding=[[2,2,2]]&encoding=[[1]]&projection=[[4],[-4],[4]]&match_rms=true");
    ck_assert(applied(&a) == 0.5 && at(&a, 0) == 4 && at(&a, 1) == 0);
    ck_assert_ptr_nonnull(strstr(a.result.warning[0], "projected from width 1 to 3"));
    posenc_answer_fini(&a);
    a = ask("combine", "embedding=[[0,0]]&encoding=[[1,1]]&match_rms=true");
    ck_assert(applied(&a) == 0 && at(&a, 0) == 0);
    posenc_answer_fini(&a);
    a = ask("combine", "embedding=[[3,3]]&encoding=[[1]]&mode=concat&match_rms=true");
    ck_assert(at(&a, 2) == 3);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(said)
{
    posenc_answer a = ask("combine", X "&encoding=[1,2,3]&scale=0.1");
    ck_assert(applied(&a) == 0.1);
    ck_assert_int_eq(tensor_of(&a, "applied_scale")->dtype, PE_float64);
    ck_assert_int_eq(a.result.nwarnings, 0);
    posenc_answer_fini(&a);
    a = ask("combine", X "&encoding=[1]&mode=concat_project&projection=[[1,1,1,1]]");
    ck_assert_ptr_nonnull(strstr(a.result.warning[0], "from width 4 to 1"));
    posenc_answer_fini(&a);
}
END_TEST

/* One rounding: what float64 sums would lose is there. */
START_TEST(exact)
{
    expect_values("embedding=[1e16]&encoding=[-1e16,1]&projection=[[1,1]]&dtype=float64", 1, (int64_t[]){ 1 },
                  (double[]){ 1 });
    /* 2^54 + 2^28 + 1, and 3/2, to a multiple of 4: the rounded product would lose the 1 */
    expect_values("embedding=[1.5]&encoding=[134217729]&scale=134217729&dtype=float64", 1, (int64_t[]){ 1 },
                  (double[]){ 18014398777917444 });
    expect_values("embedding=[-18014398777917440]&encoding=[134217729]&scale=134217729&dtype=float64", 1, (int64_t[]){ 1 },
                  (double[]){ 1 });
    posenc_answer a = ask("combine", "embedding=[1]&encoding=[0.00390625]&dtype=bfloat16"); /* a tie: to even */
    ck_assert(at(&a, 0) == 1);
    posenc_answer_fini(&a);
    a = ask_json("combine", "{\"embedding\": {\"dtype\": \"float16\", \"shape\": [1, 2], \"data\": \"ADwAwA==\"}, "
                            "\"encoding\": [[1, 1]]}"); /* 1, -2 */
    ck_assert(at(&a, 0) == 2 && at(&a, 1) == -1);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = ask_json("combine", "{\"embedding\": {\"dtype\": \"float32\", \"shape\": [0, 3], \"data\": \"\"}, "
                                          "\"encoding\": [1, 2], \"zero_pad\": true, \"match_rms\": true}");
    expect_shape(tensor_of(&a, "combined"), 2, (int64_t[]){ 0, 3 });
    ck_assert(applied(&a) == 1);
    posenc_answer_fini(&a);
    a = ask_json("combine",
                 "{\"embedding\": {\"dtype\": \"float32\", \"shape\": [2, 0, 3], \"data\": \"\"}, "
                 "\"encoding\": {\"dtype\": \"float32\", \"shape\": [0, 3], \"data\": \"\"}, \"mode\": \"concat\"}");
    expect_shape(tensor_of(&a, "combined"), 3, (int64_t[]){ 2, 0, 6 });
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "encoding=[1]", "embedding", "required" },
    { "embedding=[1]", "encoding", "required" },
    { X "&encoding=[[1,2],[3,4]]", "encoding", "width 3 as embedding has, or zero_pad=true, or a projection [3, 2]" },
    { X "&encoding=[[1,2,3,4],[1,2,3,4]]", "encoding", "width 3 as embedding has, or a projection [3, 4]" },
    { X "&encoding=[[1,2,3,4],[1,2,3,4]]&zero_pad=true", "encoding", "projection [3, 4]" },
    { X "&encoding=[[1,2,3]]&projection=[[1,2],[3,4]]", "projection", "[3, 3]" },
    { X "&encoding=[[1,2]]&projection=[1,2]", "projection", "[3, 2]" },
    { X "&encoding=[[1,2]]&projection=[[1,2],[1,2],[1,2]]&zero_pad=true", "zero_pad", "one way" },
    { X "&encoding=[[1,2],[1,2]]&mode=concat_project", "projection", "[any, 5]" },
    { X "&encoding=[[1,2],[1,2]]&mode=concat_project&projection=[[1,2,3]]", "projection", "[any, 5]" },
    { X "&encoding=[[1,2],[1,2]]&mode=concat&projection=[[1,2,3]]", "projection", "add, concat_project" },
    { X "&encoding=[[1,2],[1,2]]&mode=concat&zero_pad=true", "zero_pad", "add" },
    { X "&encoding=[[1,2,3],[1,2,3],[1,2,3]]", "encoding", "leading axes" },
    { X "&encoding=[[[1,2,3]]]", "encoding", "leading axes" },
    { X "&encoding=[[1,2,3]]&scale=2&match_rms=true", "scale", "1 with match_rms" },
    { X "&encoding=[[0,0,0]]&match_rms=true", "match_rms", "root mean square is 0" },
    { "embedding=[1e60]&encoding=[1e-60]&match_rms=true", "match_rms", "no factor up to 1e60" },
    { X "&encoding=[[1,2,3]]&scale=1e61", "scale", "1e+60" },
    { X "&encoding=[[1,2,1e61]]", "encoding[0][2]", "1e60" },
    { "embedding=[1e61]&encoding=[1]", "embedding[0]", "1e60" },
    { X "&encoding=5", "encoding", "[..., width]" },
    { "embedding=[70000]&encoding=[1]&dtype=float16", "dtype", "element 0 of combined, which is 70001" },
    { "embedding=[1e39]&encoding=[1]", "dtype", "a type that holds" },
    { X "&encoding=[1,2,3]&mode=multiply", "mode", "add, concat, concat_project" },
};

START_TEST(refusals) { refuses("combine", &bad[_i]); }
END_TEST

/* A large one: 1536 tokens, projected by a matrix of 100 x 400. */
START_TEST(stops)
{
    static char query[1 << 21];
    size_t n = (size_t)snprintf(query, sizeof query, "encoding=[");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 200; i++)
            n += (size_t)snprintf(query + n, sizeof query - n, "%s1", i ? "," : "");
        n += (size_t)snprintf(query + n, sizeof query - n, "%s", k ? "" : "]&embedding=[[");
        for (int row = 1; k && row < 1536; row++) {
            n += (size_t)snprintf(query + n, sizeof query - n, "],[");
            for (int i = 0; i < 200; i++)
                n += (size_t)snprintf(query + n, sizeof query - n, "%s1", i ? "," : "");
        }
    }
    n += (size_t)snprintf(query + n, sizeof query - n, "]]&mode=concat_project&projection=[");
    for (int row = 0; row < 100; row++) {
        n += (size_t)snprintf(query + n, sizeof query - n, "%s", row ? ",[" : "[");
        for (int i = 0; i < 400; i++)
            n += (size_t)snprintf(query + n, sizeof query - n, "%s2", i ? "," : "");
        n += (size_t)snprintf(query + n, sizeof query - n, "]");
    }
    snprintf(query + n, sizeof query - n, "]");
    expect_stop("combine", query);
}
END_TEST

Suite *combine_suite(void);
Suite *combine_suite(void)
{
    Suite *s = suite_create("combine");
    TCase *t = tcase_create("combine");
    tcase_add_test(t, adding);
    tcase_add_test(t, concatenating);
    tcase_add_test(t, broadcasting);
    tcase_add_test(t, matched);
    tcase_add_test(t, said);
    tcase_add_test(t, exact);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
