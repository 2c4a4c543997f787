/* test_encodings.c - what several encodings got wrong in the same way: empty tensors, parameters that change nothing,
 * spellings of one request, loops that are told to stop. tests/fuzz/fuzz_encodings.c looks for more. */
#include "ask.h"

#define NOTHING "{\"dtype\":\"float32\",\"shape\":[1099511627776,0],\"data\":\"\"}"

/* 2^40 rows of nothing are no work. */
static const struct asked {
    const char *encoding, *query;
} empty[] = {
    { "position_ids", "variant=roberta&input_ids=" NOTHING },
    { "position_ids", "variant=gpt2&attention_mask=" NOTHING },
    { "rope_permute", "head_dim=8&weight=" NOTHING },
    { "sinusoidal", "embedding_dim=8&input_ids=" NOTHING },
    { "learned", "table=[[1,2]]&input_ids=" NOTHING },
    { "alibi", "num_heads=8&form=symmetric&query_length=1000000000&key_length=0" },
    { "t5_bucket", "query_length=1048576&key_length=0" },
    { "sandwich", "num_heads=1048576&query_length=8&key_length=0&hidden_size=32" },
};

START_TEST(empty_results)
{
    posenc_answer a = ask(empty[_i].encoding, empty[_i].query);
    ck_assert_int_eq(posenc_tensor_count(&a.result.tensor[a.result.ntensors - 1]) % 8, 0);
    if (!a.request.size)
        ck_assert(a.request.cost.ns == 0 && a.request.cost.scratch == 0);
    posenc_answer_fini(&a);
}
END_TEST

#define MLP "query_length=4&key_length=6&weight_0=[[0.5],[-0.25]]&weight_1=[[1,0.5]]"
static const struct unused {
    const char *encoding;
    refusal refused;
} unused[] = {
    { "rope", { "head_dim=8&positions=0,1&padding_idx=1", "padding_idx", 0 } },
    { "rope", { "head_dim=8&padding_idx=1", "padding_idx", 0 } },
    { "rope_apply", { "head_dim=4&positions=0,1&q=[[1,0,0,0],[1,0,0,0]]&padding_idx=0", "padding_idx", 0 } },
    { "attention_temperature",
      { "positions=0,8192&llama_4_scaling_beta=0.1&original_max_position_embeddings=8192&padding_idx=4", "padding_idx",
        0 } },
    { "learned", { "table=[[1,2]]&num_positions=1&padding_idx=0", "padding_idx", 0 } },
    { "random_sinusoidal", { "num_positions=8&m=16&sigma=0.5&seed=1&padding_idx=0", "padding_idx", 0 } },
    { "dynamic_position_bias", { MLP "&norm_eps=0.5", "norm_eps", 0 } },
    { "sinusoidal", { "embedding_dim=8&num_positions=2&=5", "(empty)", 0 } },
};

START_TEST(nothing_is_ignored) { refuses(unused[_i].encoding, &unused[_i].refused); }
END_TEST

#define OLD "table=[[0],[1],[2],[3],[4],[5],[6],[7],[8]]"
static const struct spelling {
    const char *encoding, *one, *other;
} spellings[] = {
    { "rel_bias_resize", OLD "&new_window_size=3,3", OLD "&window_size=2,2&new_window_size=3,3" },
    { "rel_bias_resize", OLD "&new_window_size=3,3", OLD "&new_shape=25,1" },
    { "rel_bias_resize", OLD "&new_window_size=3,3", OLD "&window_size=2,2&new_window_size=3,3&new_shape=25,1" },
};

START_TEST(one_request_one_digest) { expect_same(spellings[_i].encoding, spellings[_i].one, spellings[_i].other); }
END_TEST

/* ---- stopping ---- */

static posenc_status stop_second(void *user)
{
    int *polls = user;
    return ++*polls > 2 ? PE_CANCELLED : PE_OK;
}

/* A million tokens and more: counting them is work as well. */
static const struct asked tokens[] = { { "sinusoidal", "embedding_dim=1&odd_dim=zero_pad&downscale_freq_shift=-1" },
                                       { "learned", "table=[[0.5],[0.5]]" },
                                       { "attention_temperature", "original_max_position_embeddings=8192" } };

START_TEST(counting_stops)
{
    enum { N = 1 << 20 };
    posenc_arena *a = posenc_arena_new(1 << 28);
    posenc_request r;
    posenc_error err = { 0 };
    posenc_tensor t = { .name = "attention_mask", .dtype = PE_uint8, .rank = 1, .shape = { N }, .data = posenc_alloc(a, N) };
    ck_assert_int_eq(posenc_request_init(&r, tokens[_i].encoding, a, &err), PE_OK);
    posenc_request_parse(&r, tokens[_i].query, &err);
    ck_assert_int_eq(posenc_request_tensors(&r, &t, 1, -1, false, &err), PE_OK);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    posenc_result out = r.shape;
    for (int i = 0; i < out.ntensors; i++)
        out.tensor[i].data = posenc_alloc(a, posenc_tensor_size(&out.tensor[i]));
    int polls = 0;
    posenc_context ctx = { .stop = stop_second, .user = &polls };
    ck_assert_int_eq(posenc_compute(&r, &out, &ctx, &err), PE_CANCELLED);
    ck_assert_int_eq(polls, 3);
    posenc_arena_free(a);
}
END_TEST

/* Planes far apart: the pages of a result are made under the watch too, not all of them by its first row. */
START_TEST(making_pages_stops)
{
    posenc_arena *a = posenc_arena_new(1 << 26);
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_request_init(&r, "detr_sine", a, &err), PE_OK);
    posenc_request_parse(&r, "num_pos_feats=64&height=256&width=256", &err);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    posenc_result out = r.shape;
    const size_t size = posenc_tensor_size(&out.tensor[0]);
    unsigned char *data = out.tensor[0].data = posenc_alloc(a, size);
    memset(data, 0xa5, size);
    int polls = 0;
    posenc_context ctx = { .stop = stop_second, .user = &polls };
    ck_assert_int_eq(posenc_compute(&r, &out, &ctx, &err), PE_CANCELLED);
    size_t kept = size;
    while (kept > size / 2 && data[kept - 1] == 0xa5)
        kept--;
    ck_assert_uint_eq(kept, size / 2);
    posenc_arena_free(a);
}
END_TEST

Suite *encodings_suite(void);
Suite *encodings_suite(void)
{
    Suite *s = suite_create("encodings");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, empty_results, 0, (int)LEN(empty));
    tcase_add_loop_test(t, nothing_is_ignored, 0, (int)LEN(unused));
    tcase_add_loop_test(t, one_request_one_digest, 0, (int)LEN(spellings));
    tcase_add_loop_test(t, counting_stops, 0, (int)LEN(tokens));
    tcase_add_test(t, making_pages_stops);
    suite_add_tcase(s, t);
    return s;
}
