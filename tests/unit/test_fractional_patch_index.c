/* test_fractional_patch_index.c - exact buckets, the buckets of float32 peers, batches, masks that are no rectangle. */
#include "ask.h"

Suite *fractional_patch_index_suite(void);

static posenc_answer answer_of(const char *query) { return ask("fractional_patch_index", query); }

/* A mask of one row of n patches. */
static posenc_answer row_of(int k, int n, const char *more)
{
    char query[4000];
    int used = snprintf(query, sizeof query, "num_patches_per_side=%d%s&patch_attention_mask=[[", k, more);
    for (int i = 0; i < n; i++)
        used += snprintf(query + used, sizeof query - (size_t)used, "%s1", i ? "," : "");
    snprintf(query + used, sizeof query - (size_t)used, "]]");
    return answer_of(query);
}

/* The largest b with b / k <= i / n. */
START_TEST(exact_buckets)
{
    static const int k[] = { 1, 2, 5, 27, 70 }, n[] = { 1, 3, 25, 27, 71 };
    for (size_t a = 0; a < LEN(k); a++)
        for (size_t b = 0; b < LEN(n); b++) {
            posenc_answer got = row_of(k[a], n[b], "");
            const int64_t *index = got.result.tensor[0].data;
            ck_assert_int_eq(got.result.tensor[0].shape[0], n[b]);
            for (int i = 0; i < n[b]; i++)
                ck_assert(index[i] >= 0 && index[i] < k[a] && index[i] * n[b] <= (int64_t)i * k[a] &&
                          (index[i] + 1) * n[b] > (int64_t)i * k[a]);
            posenc_answer_fini(&got);
        }
}
END_TEST

/* 25 patches over 5 places: 5 steps of float32's 1/25 are below its 1/5, so that Idefics3 puts every fifth patch one place
 * too low. 6 patches over 27 places fall alike. */
START_TEST(float32_buckets)
{
    posenc_answer exact = row_of(5, 25, ""), peer = row_of(5, 25, "&compute_dtype=float32");
    const int64_t *e = exact.result.tensor[0].data, *p = peer.result.tensor[0].data;
    for (int i = 0; i < 25; i++) {
        ck_assert_int_eq(e[i], i / 5);
        ck_assert_int_eq(p[i], i / 5 - (i % 5 == 0 && i > 0));
    }
    posenc_answer_fini(&exact);
    posenc_answer_fini(&peer);
    exact = row_of(27, 6, "");
    peer = row_of(27, 6, "&compute_dtype=float32");
    ck_assert_mem_eq(exact.result.tensor[0].data, peer.result.tensor[0].data, 6 * sizeof(int64_t));
    posenc_answer_fini(&exact);
    posenc_answer_fini(&peer);
}
END_TEST

START_TEST(batches)
{
    posenc_answer a = answer_of("num_patches_per_side=4&patch_attention_mask="
                                "[[[1,1,0],[1,1,0]],[[1,1,1],[0,0,0]],[[0,0,0],[0,0,0]]]");
    static const int64_t want[] = { 0, 2, 0, 8, 10, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    ck_assert_int_eq(a.result.tensor[0].rank, 2);
    ck_assert_int_eq(a.result.tensor[0].shape[0], 3);
    ck_assert_int_eq(a.result.tensor[0].shape[1], 6);
    ck_assert_mem_eq(a.result.tensor[0].data, want, sizeof want);
    posenc_answer_fini(&a);
}
END_TEST

/* A mask of no elements, whatever its other axes say, costs nothing. */
START_TEST(empty)
{
    static const int64_t shapes[][3] = { { 1LL << 40, 0, 3 }, { 0, 2, 2 }, { 3, 1LL << 40, 0 } };
    for (size_t k = 0; k < LEN(shapes); k++) {
        posenc_request r;
        posenc_error err = { 0 };
        posenc_arena *arena = posenc_arena_new(1 << 20);
        posenc_tensor mask = { .name = "patch_attention_mask", .dtype = PE_uint8, .rank = 3, .data = &r };
        memcpy(mask.shape, shapes[k], sizeof shapes[k]);
        ck_assert_int_eq(posenc_request_init(&r, "fractional_patch_index", arena, &err), PE_OK);
        const posenc_table *t = &r.encoding->table;
        posenc_request_parse(&r, "num_patches_per_side=4", &err);
        posenc_set_tensor(t, posenc_row(t, "patch_attention_mask"), r.params, &mask, &err);
        ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
        ck_assert_uint_eq(r.size, 0);
        ck_assert_uint_eq(r.cost.scratch, 0);
        posenc_result out = r.shape;
        ck_assert_int_eq(posenc_compute(&r, &out, NULL, &err), PE_OK);
        posenc_arena_free(arena);
    }
}
END_TEST

static const refusal bad[] = {
    { "num_patches_per_side=4", "patch_attention_mask" },
    { "patch_attention_mask=[[1]]", "num_patches_per_side" },
    { "num_patches_per_side=0&patch_attention_mask=[[1]]", "num_patches_per_side" },
    { "num_patches_per_side=4&patch_attention_mask=[1,1]", "patch_attention_mask" },
    { "num_patches_per_side=4&patch_attention_mask=[[1,2]]", "patch_attention_mask[0][1]" },
    { "num_patches_per_side=4&patch_attention_mask=[[1,1],[1,0]]", "patch_attention_mask[1][1]" },
    { "num_patches_per_side=4&patch_attention_mask=[[0,1],[0,1]]", "patch_attention_mask[0][1]" },
    { "num_patches_per_side=4&patch_attention_mask=[[[1,1]],[[0,1]]]", "patch_attention_mask[1][0][1]" },
    { "num_patches_per_side=4&patch_attention_mask=[[1]]&side=3", "side" },
};

START_TEST(bad_input) { refuses("fractional_patch_index", &bad[_i]); }
END_TEST

Suite *fractional_patch_index_suite(void)
{
    Suite *s = suite_create("fractional_patch_index");
    TCase *t = tcase_create("fractional_patch_index");
    tcase_add_test(t, exact_buckets);
    tcase_add_test(t, float32_buckets);
    tcase_add_test(t, batches);
    tcase_add_test(t, empty);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
