/* test_vision_position_ids.c - the order of merged blocks and of windows against orders made by sorting; rules. */
#include "ask.h"

Suite *vision_position_ids_suite(void);

static posenc_answer answer_of(const char *query) { return ask("vision_position_ids", query); }

/* A place, and where it stands: its block or window, then row by row. */
typedef struct place {
    long order, row, column;
} place;

static int earlier(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
           : x->row != y->row   ? (x->row > y->row) - (x->row < y->row)
                                : (x->column > y->column) - (x->column < y->column);
}

/* The places of an h by w grid in the order of squares of `side`. Returns how many. */
static int sorted(int h, int w, int side, place *out)
{
    for (int i = 0; i < h * w; i++)
        out[i] = (place){ (long)(i / w / side) * w + i % w / side, i / w, i % w };
    qsort(out, (size_t)(h * w), sizeof *out, earlier);
    return h * w;
}

START_TEST(merged_blocks)
{
    static const struct {
        int h, w, m;
    } sizes[] = { { 4, 6, 2 }, { 6, 4, 2 }, { 3, 5, 1 }, { 6, 9, 3 }, { 2, 2, 2 } };
    for (size_t k = 0; k < LEN(sizes); k++) {
        char query[200];
        place want[64];
        const int n = sorted(sizes[k].h, sizes[k].w, sizes[k].m, want);
        snprintf(query, sizeof query, "grid_thw=[[2,%d,%d]]&spatial_merge_size=%d", sizes[k].h, sizes[k].w, sizes[k].m);
        posenc_answer a = answer_of(query);
        strcat(query, "&include_temporal=true");
        posenc_answer timed = answer_of(query);
        const int64_t *two = a.result.tensor[0].data, *three = timed.result.tensor[0].data;
        ck_assert_int_eq(a.result.ntensors, 1);
        ck_assert_int_eq(a.result.tensor[0].shape[0], 2 * n);
        ck_assert_int_eq(timed.result.tensor[0].shape[1], 3);
        for (int i = 0; i < 2 * n; i++) {
            ck_assert(two[2 * i] == want[i % n].row && two[2 * i + 1] == want[i % n].column);
            ck_assert(three[3 * i] == i / n && three[3 * i + 1] == two[2 * i] && three[3 * i + 2] == two[2 * i + 1]);
        }
        posenc_answer_fini(&a);
        posenc_answer_fini(&timed);
    }
}
END_TEST

/* Qwen2.5-VL: windows of 112 pixels are 4 by 4 merged tokens. Sizes that the side divides have no empty windows. */
START_TEST(windows)
{
    static const struct {
        int h, w; /* patches */
    } sizes[] = { { 16, 16 }, { 12, 20 }, { 2, 2 }, { 8, 18 } };
    for (size_t k = 0; k < LEN(sizes); k++) {
        char query[200];
        place want[128];
        const int n = sorted(sizes[k].h / 2, sizes[k].w / 2, 4, want), w = sizes[k].w / 2;
        snprintf(query, sizeof query, "grid_thw=[[1,2,4],[2,%d,%d]]&window_size=112&patch_size=14", sizes[k].h, sizes[k].w);
        posenc_answer a = answer_of(query);
        const int64_t *index = a.result.tensor[1].data;
        const int32_t *ends = a.result.tensor[2].data;
        ck_assert_int_eq(a.result.tensor[2].dtype, PE_int32);
        ck_assert_int_eq(a.result.tensor[1].shape[0], 2 + 2 * n);
        ck_assert(index[0] == 0 && index[1] == 1 && ends[0] == 0 && ends[1] == 8);
        int window = 1;
        for (int i = 0; i < 2 * n; i++) {
            ck_assert_int_eq(index[2 + i], 2 + (i / n) * n + want[i % n].row * w + want[i % n].column);
            if (i % n == n - 1 || want[i % n].order != want[i % n + 1].order)
                ck_assert_int_eq(ends[++window], 8 + 4 * (i + 1));
        }
        ck_assert_int_eq(a.result.tensor[2].shape[0], window + 1);
        posenc_answer_fini(&a);
    }
}
END_TEST

START_TEST(several_and_none)
{
    posenc_answer a = answer_of("grid_thw=[[1,2,2],[1,2,4]]");
    static const int64_t want[] = { 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0, 2, 0, 3, 1, 2, 1, 3 };
    ck_assert_int_eq(a.result.tensor[0].shape[0], 12);
    ck_assert_mem_eq(a.result.tensor[0].data, want, sizeof want);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "spatial_merge_size=2", "grid_thw" },
    { "grid_thw=[[1,2]]", "grid_thw" },
    { "grid_thw=[1,2,2]", "grid_thw" },
    { "grid_thw=[[0,2,2]]", "grid_thw[0][0]" },
    { "grid_thw=[[1,2,2],[1,2.5,2]]", "grid_thw[1][1]" },
    { "grid_thw=[[1,2,2],[1,4,3]]", "grid_thw[1][2]" },
    { "grid_thw=[[1,3,2]]", "grid_thw[0][1]" },
    { "grid_thw=[[1,2,2]]&spatial_merge_size=0", "spatial_merge_size" },
    { "grid_thw=[[1,2,2]]&patch_size=16", "patch_size" },
    { "grid_thw=[[1,2,2]]&window_size=20", "window_size" },
    { "grid_thw=[[1,2,2]]&window_size=112&patch_size=0", "patch_size" },
    { "grid_thw=[[2147483647,2147483646,2147483646]]", "position_ids", .status = PE_LIMIT },
    { "grid_thw=[[1,1073741824,1073741824],[7,1073741824,1073741824]]", "position_ids", .status = PE_LIMIT },
    { "grid_thw=[[1,65536,65536]]&window_size=112", "grid_thw", .status = PE_LIMIT },
};

START_TEST(bad_input) { refuses("vision_position_ids", &bad[_i]); }
END_TEST

Suite *vision_position_ids_suite(void)
{
    Suite *s = suite_create("vision_position_ids");
    TCase *t = tcase_create("vision_position_ids");
    tcase_add_test(t, merged_blocks);
    tcase_add_test(t, windows);
    tcase_add_test(t, several_and_none);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
