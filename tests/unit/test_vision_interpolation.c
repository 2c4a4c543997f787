/* test_vision_interpolation.c - taps and weights make what dense resampling makes; order of patches; bad input. */
#include "ask.h"

#include <math.h>

static double table(int64_t i) { return (double)(i * i * 7 % 101 - 50) / 16; }

static double weighed(const posenc_answer *a, int64_t patch)
{
    const posenc_tensor *index = &a->result.tensor[0], *weight = &a->result.tensor[1];
    double sum = 0, all = 0;
    for (int64_t k = 0; k < index->shape[1]; k++) {
        sum += posenc_tensor_get(weight, patch * index->shape[1] + k) *
               table(((const int64_t *)index->data)[patch * index->shape[1] + k]);
        all += posenc_tensor_get(weight, patch * index->shape[1] + k);
    }
    ck_assert_double_eq_tol(all, 1, 1e-14);
    return sum;
}

static const struct {
    int side, h, w;
} grids[] = { { 6, 3, 5 }, { 6, 10, 4 }, { 8, 4, 4 }, { 1, 3, 2 }, { 4, 4, 4 }, { 9, 1, 1 }, { 5, 8, 20 } };

/* The sparse product is vit_resize without antialias: one frame after the other. */
START_TEST(as_dense)
{
    const int s = grids[_i].side, h = grids[_i].h, w = grids[_i].w;
    for (int cubic = 0; cubic < 2; cubic++) {
        char query[4000];
        int used = snprintf(query, sizeof query,
                            "num_prefix_tokens=0&antialias=false&new_size=%d,%d&dtype=float64&interpolation=%s&posemb=[", h,
                            w, cubic ? "bicubic" : "bilinear");
        for (int i = 0; i < s * s; i++)
            used += snprintf(query + used, sizeof query - (size_t)used, "%s[%.9g]", i ? "," : "", table(i));
        strcat(query, "]");
        posenc_answer dense = ask("vit_resize", query);
        snprintf(query, sizeof query, "grid_thw=[[1,1,1],[3,%d,%d]]&num_grid_per_side=%d&mode=%s&dtype=float64", h, w, s,
                 cubic ? "bicubic" : "bilinear");
        posenc_answer a = ask("vision_interpolation", query);
        ck_assert_int_eq(a.result.tensor[0].shape[0], 1 + 3 * h * w);
        ck_assert_int_eq(a.result.tensor[0].shape[1], cubic ? 16 : 4);
        for (int frame = 0; frame < 3; frame++)
            for (int i = 0; i < h * w; i++)
                ck_assert_double_eq_tol(weighed(&a, 1 + frame * h * w + i), posenc_tensor_get(&dense.result.tensor[0], i),
                                        1e-12);
        posenc_answer_fini(&dense);
        posenc_answer_fini(&a);
    }
}
END_TEST

/* Places of linspace(0, side - 1, n), as Qwen3-VL spaces them. */
START_TEST(corners)
{
    posenc_answer a = ask("vision_interpolation",
                          "grid_thw=[[1,5,3],[1,1,1]]&num_grid_per_side=4&align_corners=true&dtype=float64");
    for (int y = 0; y < 5; y++)
        for (int x = 0; x < 3; x++) {
            const double py = y * 0.75, px = x * 1.5, ty = py - floor(py), tx = px - floor(px);
            const int64_t i = (int64_t)py, j = (int64_t)px, i1 = i < 3 ? i + 1 : 3, j1 = j < 3 ? j + 1 : 3;
            double want = (1 - ty) * (1 - tx) * table(i * 4 + j) + (1 - ty) * tx * table(i * 4 + j1) +
                          ty * (1 - tx) * table(i1 * 4 + j) + ty * tx * table(i1 * 4 + j1);
            ck_assert_double_eq_tol(weighed(&a, y * 3 + x), want, 1e-14);
        }
    ck_assert(weighed(&a, 15) == table(0)); /* one patch: the first row, not the middle */
    posenc_answer_fini(&a);
}
END_TEST

/* Before the first row both taps are row 0 and keep their weights: HuggingFace's indices, not torch's. */
START_TEST(first_patch)
{
    static const int64_t index[] = { 0, 0, 0, 0 };
    posenc_answer a = ask("vision_interpolation", "grid_thw=[[1,4,4]]&num_grid_per_side=2&dtype=float64");
    ck_assert_mem_eq(a.result.tensor[0].data, index, sizeof index);
    const double *w = a.result.tensor[1].data;
    ck_assert(w[0] == 0.0625 && w[1] == 0.1875 && w[2] == 0.1875 && w[3] == 0.5625);
    posenc_answer_fini(&a);
}
END_TEST

/* transformers' function with padding="zeros" on a grid of 2 rows of 4 patches over a side of 2. */
START_TEST(zeros_beyond_the_grid)
{
    static const double sums[] = { 0.75, 1, 1, 0.75, 0.75, 1, 1, 0.75 };
    posenc_answer a = ask("vision_interpolation", "grid_thw=[[1,2,4]]&num_grid_per_side=2&padding=zeros&dtype=float64");
    const posenc_tensor *weight = &a.result.tensor[1];
    const int64_t *index = a.result.tensor[0].data;
    const int64_t first[] = { 0, 0, 2, 2 };
    const double of_first[] = { 0, 0.75, 0, 0 };
    for (int k = 0; k < 4; k++) {
        ck_assert_int_eq(index[k], first[k]);
        ck_assert(posenc_tensor_get(weight, k) == of_first[k]);
    }
    for (int i = 0; i < 8; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += posenc_tensor_get(weight, i * 4 + k);
        ck_assert(sum == sums[i]);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(merged_blocks)
{
    static const int order[] = { 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23 };
    posenc_answer a = ask("vision_interpolation", "grid_thw=[[2,4,6]]&num_grid_per_side=5"),
                  b = ask("vision_interpolation", "grid_thw=[[2,4,6]]&num_grid_per_side=5&spatial_merge_size=2");
    const posenc_tensor *x = a.result.tensor, *y = b.result.tensor;
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < 24; i++)
            for (int t = 0; t < 2; t++)
                for (int k = 0; k < 4; k++)
                    ck_assert(posenc_tensor_get(&y[t], (f * 24 + i) * 4 + k) ==
                              posenc_tensor_get(&x[t], (f * 24 + order[i]) * 4 + k));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

static const refusal bad[] = {
    { "num_grid_per_side=4", "grid_thw" },
    { "grid_thw=[[1,2,2]]", "num_grid_per_side" },
    { "grid_thw=[1,2,2]&num_grid_per_side=4", "grid_thw" },
    { "grid_thw=[[2,2]]&num_grid_per_side=4", "grid_thw" },
    { "grid_thw=[[1,2,0]]&num_grid_per_side=4", "grid_thw[0][2]" },
    { "grid_thw=[[1,2,2],[1,2.5,2]]&num_grid_per_side=4", "grid_thw[1][1]" },
    { "grid_thw=[[1,2,2]]&num_grid_per_side=0", "num_grid_per_side" },
    { "grid_thw=[[1,2,2]]&num_grid_per_side=4&mode=nearest", "mode" },
    { "grid_thw=[[1,2,2]]&num_grid_per_side=4&spatial_merge_size=0", "spatial_merge_size" },
    { "grid_thw=[[1,2,2],[1,2,3]]&num_grid_per_side=4&spatial_merge_size=2", "grid_thw[1][2]" },
};

START_TEST(bad_input) { refuses("vision_interpolation", &bad[_i]); }
END_TEST

Suite *vision_interpolation_suite(void);
Suite *vision_interpolation_suite(void)
{
    Suite *s = suite_create("vision_interpolation");
    TCase *t = tcase_create("vision_interpolation");
    tcase_add_loop_test(t, as_dense, 0, (int)LEN(grids));
    tcase_add_test(t, corners);
    tcase_add_test(t, first_patch);
    tcase_add_test(t, zeros_beyond_the_grid);
    tcase_add_test(t, merged_blocks);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
