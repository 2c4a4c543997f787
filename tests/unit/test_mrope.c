/* test_mrope.c - which axis each pair takes, in runs, in turn and across columns; queries; bad input. */
#include "ask.h"

#include <math.h>

Suite *mrope_suite(void);

static posenc_answer answer_of(const char *query) { return ask("mrope", query); }

/* Positions of the axes of one token, and the axis of each column. */
#define THW "positions_t=3&positions_h=50&positions_w=700"
static const struct {
    const char *query, *columns; /* a digit a column */
} ways[] = {
    { "head_dim=16&mrope_section=2,3,3&" THW, "0011122200111222" },
    { "head_dim=16&mrope_section=2,3,3&layout=interleaved&" THW, "0000111111222222" },
    { "head_dim=16&mrope_section=2,3,3&layout=half_unduplicated&" THW, "00111222" },
    { "head_dim=16&mrope_section=0,5,3&" THW, "1111122211111222" },
    { "head_dim=16&mrope_section=1,1,1,1,2,2&" THW, "0120112201201122" },
    { "head_dim=16&mrope_section=4,2,2&mrope_interleaved=true&" THW, "0120120001201200" },
    { "head_dim=16&mrope_section=3,3,2&mrope_interleaved=true&" THW, "0120120101201201" },
    { "head_dim=16&mrope_section=6,1,1&mrope_interleaved=true&" THW, "0120000001200000" },
    { "head_dim=32&partial_rotary_factor=0.5&mrope_section=2,3,3&" THW, "0011122200111222" },
    { "head_dim=16&mrope_section=2,2,2,2&position_ids=[[3],[50],[700],[9000]]", "0011223300112233" },
    { "head_dim=16&mrope_section=2,2,2,2&section_span=columns&position_ids=[[3],[50],[700],[9000]]", "0000111122223333" },
    { "head_dim=16&mrope_section=1,3,4&section_span=columns&" THW, "0011111122222222" },
    { "head_dim=16&mrope_section=8&position_ids=[[50]]", "0000000000000000" },
};

START_TEST(axes_of_columns)
{
    char query[300];
    snprintf(query, sizeof query, "%s&dtype=float64", ways[_i].query);
    posenc_answer a = answer_of(query);
    const bool one = strstr(query, "[[50]]") != NULL, interleaved = strstr(query, "layout=interleaved") != NULL;
    const int64_t columns = (int64_t)strlen(ways[_i].columns), axes = tensor_of(&a, "cos_thw")->shape[0];
    static const double at[] = { 3, 50, 700, 9000 };
    ck_assert(tensor_of(&a, "cos")->shape[1] == columns && tensor_of(&a, "cos_thw")->shape[2] == columns);
    for (int64_t c = 0; c < columns; c++) {
        const int axis = ways[_i].columns[c] - '0';
        const int64_t pair = interleaved ? c / 2 : c % 8;
        const double angle = (one ? 50 : at[axis]) * pow(10000, -(double)pair / 8);
        ck_assert_msg(fabs(named(&a, "cos", c) - cos(angle)) < 1e-12 && fabs(named(&a, "sin", c) - sin(angle)) < 1e-12,
                      "%s column %d", query, (int)c);
        for (int64_t x = 0; x < axes; x++) {
            const double own = (one ? 50 : at[x]) * pow(10000, -(double)pair / 8);
            ck_assert(fabs(named(&a, "cos_thw", x * columns + c) - cos(own)) < 1e-12);
            ck_assert(fabs(named(&a, "sin_thw", x * columns + c) - sin(own)) < 1e-12);
        }
    }
    posenc_answer_fini(&a);
}
END_TEST

/* Three equal axes are plain rope; the long sequence counts every axis. */
START_TEST(text_is_rope)
{
    static const char scaling[] = "head_dim=16&rope_type=dynamic&factor=3&max_position_embeddings=64";
    char query[300];
    snprintf(query, sizeof query, "%s&mrope_section=2,3,3&positions_t=1,7&positions_h=1,7&positions_w=1,7&seq_len=301",
             scaling);
    posenc_answer a = answer_of(query);
    snprintf(query, sizeof query, "%s&positions=1,7&seq_len=301", scaling);
    posenc_answer b = ask("rope", query);
    snprintf(query, sizeof query, "%s&mrope_section=2,3,3&positions_t=1,7&positions_h=1,300&positions_w=1,7", scaling);
    posenc_answer c = answer_of(query);
    ck_assert_mem_eq(tensor_of(&a, "cos")->data, tensor_of(&b, "cos")->data, 32 * sizeof(float));
    ck_assert_mem_eq(tensor_of(&a, "sin")->data, tensor_of(&b, "sin")->data, 32 * sizeof(float));
    ck_assert_mem_eq(tensor_of(&c, "inv_freq")->data, tensor_of(&b, "inv_freq")->data, 8 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(queries_turn)
{
    static const char *const more[] = { "", "&layout=interleaved", "&section_span=columns" };
    for (size_t k = 0; k < LEN(more); k++) {
        char query[300];
        snprintf(
            query, sizeof query,
            "head_dim=6&partial_rotary_factor=0.7&mrope_section=1,1,0&dtype=float64&positions_t=3,4&"
            "positions_h=5,6&positions_w=7,8&q=[[[1,2,3,4,5,6],[7,8,9,10,11,12]]]&k=[[[[0,1,0,0,0,1],[0,1,0,0,0,1]]]]%s",
            more[k]);
        posenc_answer a = answer_of(query);
        const bool interleaved = k == 1;
        for (int64_t i = 0; i < 2; i++)
            for (int64_t j = 0; j < 2; j++) {
                const int64_t first = interleaved ? 2 * j : j, second = interleaved ? 2 * j + 1 : j + 2;
                const double x1 = (double)(6 * i + first + 1), x2 = (double)(6 * i + second + 1);
                const double y1 = x1 * named(&a, "cos", 4 * i + first) - x2 * named(&a, "sin", 4 * i + first),
                             y2 = x2 * named(&a, "cos", 4 * i + second) + x1 * named(&a, "sin", 4 * i + second);
                ck_assert(fabs(named(&a, "q", 6 * i + first) - y1) < 1e-14);
                ck_assert(fabs(named(&a, "q", 6 * i + second) - y2) < 1e-14);
                ck_assert(named(&a, "q", 6 * i + 4 + j) == (double)(6 * i + 5 + j));
            }
        ck_assert(tensor_of(&a, "k")->rank == 4 && named(&a, "k", 5) == 1);
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(presets)
{
    posenc_answer a = answer_of("preset=qwen2-vl"), b = answer_of("mrope_section=16,24,24&head_dim=128&rope_theta=1e6"),
                  c = answer_of("preset=hunyuan-ocr"),
                  d = answer_of("preset=qwen3.5-397b&positions_t=1&positions_h=1&positions_w=1");
    ck_assert_str_eq(a.request.key, b.request.key);
    ck_assert_ptr_null(tensor_of(&a, "cos"));
    ck_assert(fabs(named(&c, "inv_freq", 63) / pow(10000 * pow(1000, 128.0 / 126), -126.0 / 128) - 1) < 1e-7);
    ck_assert(tensor_of(&d, "cos")->shape[1] == 64);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
}
END_TEST

#define OK "head_dim=16&mrope_section=2,3,3&"
static const refusal bad[] = {
    { "head_dim=16", "mrope_section" },
    { "mrope_section=2,3,3", "head_dim" },
    { "head_dim=16&mrope_section=2,3,4", "mrope_section" },
    { "head_dim=16&mrope_section=2.5,2.5,3", "mrope_section[0]" },
    { "head_dim=16&mrope_section=-1,6,3", "mrope_section[0]" },
    { "head_dim=16&mrope_section=5,3", "mrope_section" },
    { "head_dim=16&mrope_section=2,2,2,2&mrope_interleaved=true", "mrope_section" },
    { OK "positions_t=1&positions_h=1", "positions_w" },
    { OK "positions_t=1&positions_h=1,2&positions_w=1", "positions_h" },
    { OK "positions_t=1&positions_h=1&positions_w=1&position_ids=[[1],[1],[1]]", "position_ids" },
    { OK "position_ids=[1,1,1]", "position_ids" },
    { OK "position_ids=[[1],[1],[1e30]]", "position_ids[2][0]" },
    { OK "position_ids=[[1],[1],[1],[1]]", "mrope_section" },
    { OK "position_ids=[[1],[1],[1],[1],[1],[1],[1],[1],[1]]", "position_ids" },
    { OK "mrope_interleaved=true&position_ids=[[1],[1]]", "mrope_interleaved" },
    { OK "section_span=columns&layout=interleaved", "section_span" },
    { OK "section_span=columns&mrope_interleaved=true", "section_span" },
    { OK "q=[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]", "q" },
    { OK THW "&q=[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]]", "q" },
    { OK "factor=2", "factor" },
};

START_TEST(bad_input) { refuses("mrope", &bad[_i]); }
END_TEST

Suite *mrope_suite(void)
{
    Suite *s = suite_create("mrope");
    TCase *t = tcase_create("mrope");
    tcase_add_loop_test(t, axes_of_columns, 0, (int)LEN(ways));
    tcase_add_test(t, text_is_rope);
    tcase_add_test(t, queries_turn);
    tcase_add_test(t, presets);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
