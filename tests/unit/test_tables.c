/* test_tables.c - large tables: the same bytes with threads and without, in memory touched before or never. */
#include "ask.h"
#include "core/params.h"
#include "pool.h"

static void share(void *pool, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(pool, n, task, arg);
}

/* More than a chunk, and more than a cache holds: touched memory is written around it. */
static const struct {
    const char *encoding, *query;
} large[] = {
    { "sinusoidal", "embedding_dim=512&num_positions=40000&dtype=float16&offset=-20000" },
    { "sinusoidal", "embedding_dim=512&num_positions=40000&dtype=bfloat16&layout=split" },
    { "rope", "head_dim=256&num_positions=40000&dtype=float16" },
    { "rope",
      "head_dim=80&num_positions=30000&layout=interleaved&rope_type=yarn&factor=4&original_max_position_embeddings=4096" },
};

START_TEST(one_thread_or_two)
{
    posenc_error err = { 0 };
    posenc_answer a = ask(large[_i].encoding, large[_i].query);
    pe_pool *pool = pe_pool_new(2, 4);
    posenc_context two = { .parallel = share, .user = pool, .threads = 2 };
    posenc_result out = a.result;
    for (int i = 0; i < out.ntensors; i++) {
        const size_t size = (size_t)posenc_tensor_size(&out.tensor[i]);
        ck_assert_ptr_nonnull(out.tensor[i].data = aligned_alloc(64, (size + 63) / 64 * 64));
        memset(out.tensor[i].data, 1, size);
    }
    ck_assert_int_eq(posenc_compute(&a.request, &out, &two, &err), PE_OK);
    for (int i = 0; i < out.ntensors; i++) {
        ck_assert(!memcmp(out.tensor[i].data, a.result.tensor[i].data, (size_t)posenc_tensor_size(&out.tensor[i])));
        free(out.tensor[i].data);
    }
    pe_pool_free(pool);
    posenc_answer_fini(&a);
}
END_TEST

/* A row is the same alone as among others: its position decides. */
static const struct {
    const char *encoding, *query;
    int64_t first;
} among[] = {
    { "sinusoidal", "embedding_dim=96&scale_output=0.37", 99990 },
    { "sinusoidal", "embedding_dim=96&scale_output=20&layout=split&dtype=float16", -40 },
    { "rope", "head_dim=96&layout=interleaved", 4000 },
    { "rope", "head_dim=96&rope_type=yarn&factor=32&original_max_position_embeddings=4096&dtype=bfloat16", 0 },
    { "rope", "head_dim=80&rope_type=yarn&factor=32&original_max_position_embeddings=4096&layout=interleaved", 12345678 },
};

START_TEST(alone_or_among_others)
{
    enum { ROWS = 97 };
    char query[300];
    snprintf(query, sizeof query, "%s&num_positions=%d&offset=%lld", among[_i].query, ROWS, (long long)among[_i].first);
    posenc_answer all = ask(among[_i].encoding, query);
    for (int k = 0; k < ROWS; k += 3) {
        snprintf(query, sizeof query, "%s&positions=%lld", among[_i].query, (long long)among[_i].first + k);
        posenc_answer one = ask(among[_i].encoding, query);
        for (int i = 0; i < one.result.ntensors; i++) {
            const posenc_tensor *x = &one.result.tensor[i], *y = &all.result.tensor[i];
            const size_t size = (size_t)posenc_tensor_size(x);
            if (x->rank == 2)
                ck_assert_msg(!memcmp(x->data, (char *)y->data + (size_t)k * size, size), "row %d of %s", k, x->name);
        }
        posenc_answer_fini(&one);
    }
    posenc_answer_fini(&all);
}
END_TEST

/* What multiplies, and where columns go, by way of the plain table. */
START_TEST(scaled_and_twice)
{
    static const char yarn[] = "head_dim=96&num_positions=80&rope_type=yarn&factor=32&original_max_position_embeddings=4096";
    char query[300];
    posenc_answer half = ask("rope", yarn);
    snprintf(query, sizeof query, "%s&layout=interleaved", yarn);
    posenc_answer twice = ask("rope", query);
    snprintf(query, sizeof query, "%s&attention_factor=1", yarn);
    posenc_answer plain = ask("rope", query);
    snprintf(query, sizeof query, "%s&attention_factor=0.5", yarn);
    posenc_answer scaled = ask("rope", query);
    static const char *const names[] = { "cos", "sin" };
    for (int k = 0; k < 2; k++) {
        const float *a = pe_tensor(&half.result, names[k])->data, *b = pe_tensor(&twice.result, names[k])->data;
        const float *c = pe_tensor(&plain.result, names[k])->data, *d = pe_tensor(&scaled.result, names[k])->data;
        for (int i = 0; i < 80 * 96; i++) {
            ck_assert_float_eq(a[i], b[i / 96 * 96 + i % 48 * 2 + i % 96 / 48]);
            ck_assert_float_eq(d[i], c[i] / 2);
        }
    }
    posenc_answer_fini(&half);
    posenc_answer_fini(&twice);
    posenc_answer_fini(&plain);
    posenc_answer_fini(&scaled);
}
END_TEST

/* No name, and all else. */
START_TEST(checked_without_a_name)
{
    posenc_answer a = ask("sinusoidal", "embedding_dim=8&num_positions=5");
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_request_init(&r, "sinusoidal", a.arena, &err), PE_OK);
    ck_assert_int_eq(posenc_request_parse(&r, "embedding_dim=8&num_positions=5", &err), PE_OK);
    ck_assert_int_eq(posenc_request_check(&r, &err), PE_OK);
    ck_assert(!r.key && !r.params_json && !r.digest[0] && r.size == a.request.size);
    ck_assert(r.shape.ntensors == 1 && r.cost.ns == a.request.cost.ns && r.cost.scratch == a.request.cost.scratch);
    ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
    ck_assert_str_eq(r.digest, a.request.digest);
    posenc_answer_fini(&a);
}
END_TEST

Suite *tables_suite(void);
Suite *tables_suite(void)
{
    Suite *s = suite_create("tables");
    TCase *t = tcase_create("tables");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, one_thread_or_two, 0, LEN(large));
    tcase_add_loop_test(t, alone_or_among_others, 0, LEN(among));
    tcase_add_test(t, scaled_and_twice);
    tcase_add_test(t, checked_without_a_name);
    suite_add_tcase(s, t);
    return s;
}
