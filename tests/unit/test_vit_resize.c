/* test_vit_resize.c - weights against the kernels written out, prefix rows, forms of the table, spellings, bad input. */
#include "ask.h"

#include <math.h>

static posenc_answer answer_of(const char *query) { return ask("vit_resize", query); }

enum { D = 2 };

/* Exact in float32, irregular. */
static double element(int64_t i) { return (double)(i * i * 7 % 101 - 50) / 16; }

/* [prefix + h w, D] */
static posenc_answer flat(int64_t n, const char *rest)
{
    char *query = malloc((size_t)n * 40 + 300);
    int used = sprintf(query, "dtype=float64&%s&posemb=[", rest);
    for (int64_t i = 0; i < n; i++)
        used += sprintf(query + used, "%s[%.9g,%.9g]", i ? "," : "", element(D * i), element(D * i + 1));
    sprintf(query + used, "]");
    posenc_answer a = answer_of(query);
    free(query);
    return a;
}

/* [h, w, D] of the same elements */
static posenc_answer grid(int64_t h, int64_t w, const char *rest)
{
    char *query = malloc((size_t)(h * w) * 40 + 300);
    int used = sprintf(query, "dtype=float64&%s&posemb=[", rest);
    for (int64_t i = 0; i < h * w; i++)
        used += sprintf(query + used, "%s[%.9g,%.9g]%s",
                        i % w ? ","
                        : i   ? ",["
                              : "[",
                        element(D * i), element(D * i + 1), i % w == w - 1 ? "]" : "");
    sprintf(query + used, "]");
    posenc_answer a = answer_of(query);
    free(query);
    return a;
}

/* ---- the weights, written out ---- */

static double keys(double x, double a)
{
    x = fabs(x);
    return x <= 1  ? (a + 2) * x * x * x - (a + 3) * x * x + 1
           : x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a
                   : 0;
}

static double curve(bool cubic, double x, double a) { return cubic ? keys(x, a) : fabs(x) < 1 ? 1 - fabs(x) : 0; }

/* Of old element i in new element j. */
static double weight(int64_t from, double to, bool cubic, bool antialias, int64_t j, int64_t i)
{
    const double step = (double)from / to, middle = ((double)j + 0.5) * step;
    double sum = 0;
    if (antialias) {
        const double wide = step > 1 ? step : 1;
        for (int64_t k = 0; k < from; k++)
            sum += curve(cubic, ((double)k + 0.5 - middle) / wide, -0.5);
        return curve(cubic, ((double)i + 0.5 - middle) / wide, -0.5) / sum;
    }
    const double place = cubic || middle > 0.5 ? middle - 0.5 : 0;
    for (int64_t k = -3; k < from + 3; k++) /* elements beyond the ends are the ends */
        if ((k < 0 ? 0 : k >= from ? from - 1 : k) == i)
            sum += curve(cubic, place - (double)k, -0.75);
    return sum;
}

static const struct {
    int64_t h, w, new_h, new_w;
    double offset;
} grids[] = {
    { 4, 4, 6, 6, 0 },   { 6, 6, 4, 4, 0 },   { 3, 5, 7, 4, 0 },   { 1, 1, 3, 2, 0 },     { 5, 7, 1, 1, 0 },
    { 8, 2, 2, 8, 0 },   { 12, 12, 3, 4, 0 }, { 4, 4, 5, 9, 0.1 }, { 9, 9, 4, 5, 0.1 },   { 5, 5, 5, 7, 0.1 },
    { 5, 5, 7, 3, 0.9 }, { 2, 9, 3, 10, 0 },  { 1, 8, 1, 3, 0 },   { 16, 16, 15, 10, 0 },
};

START_TEST(kernels)
{
    const int64_t h = grids[_i].h, w = grids[_i].w, nh = grids[_i].new_h, nw = grids[_i].new_w;
    for (int cubic = 0; cubic < 2; cubic++)
        for (int antialias = 0; antialias < 2; antialias++) {
            char rest[200];
            snprintf(rest, sizeof rest, "new_size=%d,%d&old_size=%d,%d&interpolation=%s&antialias=%s&interpolate_offset=%g",
                     (int)nh, (int)nw, (int)h, (int)w, cubic ? "bicubic" : "bilinear", antialias ? "true" : "false",
                     grids[_i].offset);
            posenc_answer a = flat(1 + h * w, rest), b = grid(h, w, rest);
            ck_assert_int_eq(a.result.tensor[0].shape[0], 1 + nh * nw);
            ck_assert_int_eq(b.result.tensor[0].rank, 3);
            for (int64_t c = 0; c < D; c++)
                ck_assert(at(&a, c) == element(c));
            for (int64_t y = 0; y < nh; y++)
                for (int64_t x = 0; x < nw; x++)
                    for (int64_t c = 0; c < D; c++) {
                        double want[2] = { 0, 0 };
                        for (int64_t i = 0; i < h; i++)
                            for (int64_t j = 0; j < w; j++)
                                for (int p = 0; p < 2; p++)
                                    want[p] += weight(h, (double)nh + grids[_i].offset, cubic, antialias, y, i) *
                                               weight(w, (double)nw + grids[_i].offset, cubic, antialias, x, j) *
                                               element((i * w + j + p) * D + c);
                        ck_assert_msg(fabs(at(&a, (1 + y * nw + x) * D + c) - want[1]) < 1e-12,
                                      "%s: %d %d: %.17g, want %.17g", rest, (int)y, (int)x, at(&a, (1 + y * nw + x) * D + c),
                                      want[1]);
                        ck_assert_double_eq_tol(at(&b, (y * nw + x) * D + c), want[0], 1e-12);
                    }
            posenc_answer_fini(&a);
            posenc_answer_fini(&b);
        }
}
END_TEST

/* Pillow's 4 -> 2 with the bilinear filter: 3/7 3/7 1/7. */
START_TEST(pillow_weights)
{
    static const double want[] = { 3.0 / 7, 3.0 / 7, 1.0 / 7, 0, 0, 1.0 / 7, 3.0 / 7, 3.0 / 7 };
    for (int i = 0; i < 4; i++) {
        char query[200];
        snprintf(query, sizeof query, "posemb=[[[%d],[%d],[%d],[%d]]]&new_size=1,2&interpolation=bilinear&dtype=float64",
                 i == 0, i == 1, i == 2, i == 3);
        posenc_answer a = answer_of(query);
        ck_assert_double_eq_tol(at(&a, 0), want[i], 1e-15);
        ck_assert_double_eq_tol(at(&a, 1), want[4 + i], 1e-15);
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(nearest)
{
    posenc_answer a = grid(3, 5, "new_size=5,3&interpolation=nearest"),
                  b = grid(3, 5, "new_size=5,3&interpolation=nearest-exact");
    for (int64_t y = 0; y < 5; y++)
        for (int64_t x = 0; x < 3; x++)
            for (int64_t c = 0; c < D; c++) {
                ck_assert(at(&a, (y * 3 + x) * D + c) == element((y * 3 / 5 * 5 + x * 5 / 3) * D + c));
                ck_assert(at(&b, (y * 3 + x) * D + c) == element(((2 * y + 1) * 3 / 10 * 5 + (2 * x + 1) * 5 / 6) * D + c));
            }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(nearest_as_torch) /* its step is a float32: column 41 of 82 over 2 is still the first */
{
    posenc_answer a = answer_of("posemb=[[[0],[1]]]&new_size=1,82&interpolation=nearest&compute_dtype=float32"),
                  b = answer_of("posemb=[[[0],[1]]]&new_size=1,82&interpolation=nearest");
    ck_assert(at(&a, 41) == 0 && at(&a, 42) == 1 && at(&b, 40) == 0 && at(&b, 41) == 1);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* timm returns 8x32 untouched when 16x16 is asked, because the number of patches agrees. */
START_TEST(same_number_of_patches)
{
    posenc_answer a = flat(256, "new_size=16,16&old_size=8,32&num_prefix_tokens=0"), b = grid(8, 32, "new_size=16,16");
    int untouched = 0;
    for (int64_t i = 0; i < 256 * D; i++) {
        untouched += at(&a, i) == element(i);
        ck_assert(at(&a, i) == at(&b, i));
    }
    ck_assert_int_lt(untouched, 256);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Another coefficient and other ends: the results of a larger grid differ, by more than rounding. */
START_TEST(antialias_matters_upwards)
{
    posenc_answer a = flat(197, "new_size=24,24&antialias=true"), b = flat(197, "new_size=24,24&antialias=false"),
                  c = flat(197, "new_size=24,24");
    double largest = 0;
    for (int64_t i = 0; i < 577 * D; i++) {
        largest = fmax(largest, fabs(at(&a, i) - at(&b, i)));
        ck_assert(at(&a, i) == at(&c, i));
    }
    ck_assert(largest > 0.1 && largest < 3);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

/* Scale factor and size are two samplings: DINOv2's 0.1 moves every place. */
START_TEST(offset_matters)
{
    posenc_answer a = grid(16, 16, "new_size=24,24&antialias=false"),
                  b = grid(16, 16, "new_size=24,24&antialias=false&interpolate_offset=0.1");
    int same = 0;
    for (int64_t i = 0; i < 576 * D; i++)
        same += at(&a, i) == at(&b, i);
    ck_assert_int_lt(same, 12);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(same_size_copies)
{
    static const char *const rests[] = { "antialias=false&interpolate_offset=0.1", "antialias=true",
                                         "interpolation=bilinear", "interpolation=nearest" };
    char rest[100];
    snprintf(rest, sizeof rest, "new_size=5,5&num_prefix_tokens=3&%s", rests[_i]);
    posenc_answer a = flat(28, rest);
    for (int64_t i = 0; i < 28 * D; i++)
        ck_assert(at(&a, i) == element(i));
    posenc_answer_fini(&a);
}
END_TEST

/* One axis that stays is untouched by the plain kernels and by the antialiased one. */
START_TEST(one_axis)
{
    posenc_answer a = grid(6, 4, "new_size=3,4"), b = grid(6, 4, "new_size=3,4&antialias=false");
    for (int64_t y = 0; y < 3; y++)
        for (int64_t x = 0; x < 4; x++) {
            double want = 0, plain = 0;
            for (int64_t i = 0; i < 6; i++) {
                want += weight(6, 3, true, true, y, i) * element((i * 4 + x) * D);
                plain += weight(6, 3, true, false, y, i) * element((i * 4 + x) * D);
            }
            ck_assert_double_eq_tol(at(&a, (y * 4 + x) * D), want, 1e-13);
            ck_assert_double_eq_tol(at(&b, (y * 4 + x) * D), plain, 1e-13);
        }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(spellings)
{
    static const char *const pairs[][2] = {
        { "new_size=3,2", "image_height=50&image_width=47&patch_size=16" },
        { "new_size=3,2", "image_height=48&image_width=32&patch_size=16&new_size=3,2&old_size=2,2" },
        { "new_size=3,2", "new_size=3,2&num_prefix_tokens=1&antialias=true&interpolate_offset=0&interpolation=bicubic" },
        { "new_size=3,2&interpolation=nearest", "new_size=3,2&interpolation=nearest&antialias=false" },
    };
    posenc_answer a = flat(5, pairs[_i][0]), b = flat(5, pairs[_i][1]);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    ck_assert_int_eq(b.result.tensor[0].shape[0], 7);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(rounded_once)
{
    posenc_answer a = answer_of(
        "posemb=[[[1],[1.0009765625]]]&new_size=1,4&dtype=float16&antialias=false&interpolation=bilinear");
    ck_assert_int_eq(a.result.tensor[0].dtype, PE_float16);
    ck_assert(at(&a, 1) == 1 && at(&a, 2) == 1.0009765625);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "new_size=2,2", "posemb" },
    { "posemb=[[[1],[2]]]&new_size=2,2&compute_dtype=float32", "compute_dtype" },
    { "posemb=[[1],[2],[3],[4],[5]]", "new_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2", "new_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,2,2", "new_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,0", "new_size[1]" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2.5,2", "new_size[0]" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,70000", "new_size[1]" },
    { "posemb=[[1],[2],[3],[4]]&new_size=2,2", "old_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,2&num_prefix_tokens=0", "old_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,2&old_size=2,3", "old_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,2&old_size=4", "old_size" },
    { "posemb=[[1],[2],[3],[4],[5]]&new_size=2,2&num_prefix_tokens=5", "posemb" },
    { "posemb=[[[1],[2]],[[3],[4]]]&new_size=2,2&num_prefix_tokens=1", "num_prefix_tokens" },
    { "posemb=[[[1],[2]],[[3],[4]]]&new_size=2,2&old_size=1,4", "old_size" },
    { "posemb=[1,2,3,4]&new_size=2,2", "posemb" },
    { "posemb=[[1],[2]]&new_size=2,2&antialias=true&interpolation=nearest", "antialias" },
    { "posemb=[[1],[2]]&new_size=2,2&interpolation=lanczos", "interpolation" },
    { "posemb=[[1],[2]]&new_size=2,2&interpolate_offset=1", "interpolate_offset" },
    { "posemb=[[1],[2]]&new_size=2,2&interpolate_offset=-0.1", "interpolate_offset" },
    { "posemb=[[1],[2]]&image_height=32&patch_size=16", "image_width" },
    { "posemb=[[1],[2]]&image_height=32&image_width=8&patch_size=16", "image_width" },
    { "posemb=[[1],[2]]&image_height=32&image_width=32&patch_size=16&new_size=2,3", "new_size[1]" },
    { "posemb=[[1],[60000]]&new_size=2,2&dtype=float16", "posemb[1][0]" },
    { "posemb=[[1],[2]]&new_size=2,2&size=4", "size" },
};

START_TEST(bad_input) { refuses("vit_resize", &bad[_i]); }
END_TEST

Suite *vit_resize_suite(void);
Suite *vit_resize_suite(void)
{
    Suite *s = suite_create("vit_resize");
    TCase *t = tcase_create("vit_resize");
    tcase_add_loop_test(t, kernels, 0, (int)LEN(grids));
    tcase_add_test(t, pillow_weights);
    tcase_add_test(t, nearest);
    tcase_add_test(t, nearest_as_torch);
    tcase_add_test(t, same_number_of_patches);
    tcase_add_test(t, antialias_matters_upwards);
    tcase_add_test(t, offset_matters);
    tcase_add_loop_test(t, same_size_copies, 0, 4);
    tcase_add_test(t, one_axis);
    tcase_add_loop_test(t, spellings, 0, 4);
    tcase_add_test(t, rounded_once);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
