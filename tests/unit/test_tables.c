/* test_tables.c - large tables: the same bytes with threads and without, in memory touched before or never. */
#include "ask.h"
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
    tcase_add_test(t, checked_without_a_name);
    suite_add_tcase(s, t);
    return s;
}
