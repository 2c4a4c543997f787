/* test_identify.c - which encoding gives a table; the arithmetic under it. Tables by the hundred: tests/identify. */
#include "analysis/fit.h"
#include "core/elementary.h"

#include "alloc.h"
#include "ask.h"

#include <math.h>

/* ---- arithmetic ---- */

START_TEST(angles)
{
    ck_assert(pe_atan2(0, 0) == 0 && pe_atan2(0, 1) == 0);
    for (int i = -314; i <= 314; i++) {
        const double a = i / 100.0;
        double c, s;
        pe_cis(a, &c, &s);
        ck_assert_double_eq_tol(pe_atan2(3 * s, 3 * c), a, 1e-15 * 8);
        ck_assert_double_eq_tol(pe_wrap(a + 4 * pe_pi.hi), a, 1e-14);
    }
    ck_assert_double_eq_tol(pe_atan2(0, -1), pe_pi.hi, 1e-15);
    ck_assert_double_eq_tol(pe_atan2(1, 0), pe_pi.hi / 2, 1e-15);
}
END_TEST

START_TEST(short_numbers)
{
    ck_assert(pe_nice(9999.7, 1) == 10000 && pe_nice(0.2499999, 1e-6) == 0.25 && pe_nice(-3.14159, 0.01) == -3.14);
    ck_assert(pe_nice(1.0 / 3, 0) == 1.0 / 3 && pe_nice(0.1, 1) == 0 && pe_nice(5e-324, 0) == 5e-324);
    ck_assert(pe_digits(10000) == 1 && pe_digits(0.25) == 2 && pe_digits(0) == 1 && pe_digits(1.0 / 3) > 15);
    ck_assert(pe_digits(8192) == 4 && pe_digits(-1e-20) == 1);
}
END_TEST

START_TEST(waves)
{
    enum { N = 200 };
    double s[N], c[N];
    for (int k = 1; k <= 30; k++) {
        const double w = 0.1 * k, phase = 1.3 * k;
        for (int r = 0; r < N; r++)
            pe_cis(w * r + phase, &c[r], &s[r]);
        const pe_wave pair = pe_wave_pair(s, c, N, NULL, 0), one = pe_wave_column(c, N, 1e-6, 1e-12);
        ck_assert(pair.known && one.known);
        ck_assert_double_eq_tol(pair.w, w, 1e-12);
        ck_assert_double_eq_tol(one.w, w, 1e-9);
        ck_assert_double_eq_tol(one.amplitude, 1, 1e-9);
        ck_assert_double_eq_tol(pe_wrap(one.phase - phase), 0, 1e-7);
    }
    for (int r = 0; r < N; r++)
        c[r] = r % 7 * 0.1 + r % 3;
    ck_assert(!pe_wave_column(c, N, 1e-3, 1e-12).known);
}
END_TEST

/* ---- tables ---- */

static posenc_identification identify(const posenc_tensor *t, posenc_arena *a)
{
    posenc_identification out;
    posenc_error err = { 0 };
    char text[500];
    ck_assert_msg(!posenc_identify(t, 0, a, &out, NULL, &err), "%s", posenc_error_text(&err, text, sizeof text));
    return out;
}

/* Asks for a table and expects it named, with these words among the parameters. */
static void expect_named(const char *encoding, const char *query, const char *output, const char *words)
{
    posenc_answer a = ask(encoding, query);
    posenc_arena *arena = posenc_arena_new(1 << 24);
    const posenc_identification found = identify(tensor_of(&a, output), arena);
    ck_assert_msg(found.nmatches > 0, "%s %s: none", encoding, query);
    ck_assert_msg(!strcmp(found.match[0].encoding, encoding) && strstr(found.match[0].query, words), "%s %s: %s %s",
                  encoding, query, found.match[0].encoding, found.match[0].query);
    ck_assert(found.match[0].largest <= 1e-6 && found.match[0].rms <= found.match[0].largest);
    char *json = posenc_identification_json(&found);
    ck_assert(json && strstr(json, "\"answer\":\"") && strstr(json, encoding));
    free(json);
    posenc_arena_free(arena);
    posenc_answer_fini(&a);
}

START_TEST(tables_named)
{
    expect_named("sinusoidal", "embedding_dim=32&num_positions=50", "table", "embedding_dim=32&num_positions=50");
    expect_named("sinusoidal", "embedding_dim=33&num_positions=64&odd_dim=sin_extra&max_period=500", "table",
                 "max_period=500");
    expect_named("sinusoidal", "embedding_dim=24&num_positions=40&offset=17&flip_sin_to_cos=true&downscale_freq_shift=1",
                 "table", "offset=17&flip_sin_to_cos=true&downscale_freq_shift=1");
    expect_named("sinusoidal", "embedding_dim=16&num_positions=30&scale=0.25&scale_output=3&padding_idx=2", "table",
                 "scale=0.25&scale_output=3&padding_idx=2");
    expect_named("timestep", "timesteps=3.5,900,17,250,40,41,77,801&embedding_dim=64", "embedding", "timesteps=3.5,900,17");
    expect_named("rope", "head_dim=64&num_positions=80&rope_theta=73000&layout=interleaved", "cos", "rope_theta=73000");
    expect_named("rope", "preset=llama-3.1-8b&num_positions=200&offset=900", "sin",
                 "rope_type=llama3&factor=8&original_max_position_embeddings=8192");
    expect_named("rope", "preset=gpt-oss-20b", "inv_freq", "rope_type=yarn&factor=32");
    expect_named("rope", "head_dim=96&rope_type=linear&factor=2.5", "inv_freq", "rope_type=linear&factor=2.5");
    expect_named("sinusoidal_2d", "embed_dim=32&height=6&width=5&cls_token=true", "table", "cls_token=true");
    expect_named("sinusoidal_3d", "embed_dim=24&sizes=3,4,5", "table", "sizes=3,4,5");
    expect_named("rope_2d", "preset=pixtral&head_dim=32&height=6&width=7", "cos", "preset=pixtral");
    expect_named("fourier_grid", "height=4&width=5&num_bands=6&max_res=32", "sin", "max_res=32");
    expect_named("relative_sinusoidal", "embedding_dim=16&length=9&attn_type=symmetric", "table", "length=9");
    expect_named("alibi", "num_heads=12&key_length=20&form=symmetric", "bias", "form=symmetric");
    expect_named("alibi_slopes", "num_heads=20&alibi_bias_max=6", "slopes", "alibi_bias_max=6");
    expect_named("t5_bucket", "query_length=30&key_length=40&num_buckets=16&max_distance=32", "bucket", "num_buckets=16");
    expect_named("swin_relative_position_index", "window_size=3,5", "index", "window_size=3,5");
    expect_named("sandwich", "num_heads=4&query_length=8&key_length=8&hidden_size=64", "bias", "hidden_size=64");
}
END_TEST

static posenc_tensor tensor(posenc_dtype dtype, int64_t rows, int64_t cols, void *data)
{
    return (posenc_tensor){ .name = "table", .dtype = dtype, .rank = 2, .shape = { rows, cols }, .data = data };
}

START_TEST(nothing_named)
{
    enum { ROWS = 40, COLS = 12 };
    double x[ROWS * COLS];
    const posenc_tensor t = tensor(PE_float64, ROWS, COLS, x);
    for (int kind = 0; kind < 5; kind++) {
        posenc_arena *a = posenc_arena_new(1 << 20);
        uint32_t seed = 7;
        for (int i = 0; i < ROWS * COLS; i++) {
            const int r = i / COLS, c = i % COLS;
            seed = seed * 1664525 + 1013904223;
            const double noise = (double)(seed >> 8) / (1 << 24) - 0.5;
            x[i] = kind == 0 ? 1 : kind == 1 ? noise : kind == 2 ? r * (c - 4.5) : kind == 3 ? (c + 1.0) / (r + 2) : 0;
            if (kind == 4)
                x[i] = (i >= COLS ? x[i - COLS] : 0) + noise;
        }
        const posenc_identification found = identify(&t, a);
        ck_assert_msg(!found.nmatches, "kind %d: %s", kind, found.nmatches ? found.match[0].query : "");
        char *json = posenc_identification_json(&found);
        ck_assert(json && strstr(json, "\"answer\":\"none\",\"matches\":[]"));
        free(json);
        posenc_arena_free(a);
    }
}
END_TEST

/* The same answer twice, and of the transpose. */
START_TEST(repeated)
{
    posenc_answer a = ask("sinusoidal", "embedding_dim=16&num_positions=20&offset=5&dtype=float64");
    double turned[16 * 20];
    for (int i = 0; i < 320; i++)
        turned[i % 16 * 20 + i / 16] = at(&a, i);
    const posenc_tensor t = tensor(PE_float64, 16, 20, turned);
    posenc_arena *arena = posenc_arena_new(1 << 20);
    const posenc_identification one = identify(&a.result.tensor[0], arena), two = identify(&a.result.tensor[0], arena),
                                other = identify(&t, arena);
    char *first = posenc_identification_json(&one), *second = posenc_identification_json(&two);
    ck_assert_str_eq(first, second);
    ck_assert(other.nmatches && other.match[0].transposed && !one.match[0].transposed);
    ck_assert_str_eq(other.match[0].query, one.match[0].query);
    free(first);
    free(second);
    posenc_arena_free(arena);
    posenc_answer_fini(&a);
}
END_TEST

/* ---- bad input ---- */

static void expect_refused(const posenc_tensor *t, double tolerance, posenc_context *ctx, posenc_status st,
                           const char *words)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_identification out;
    posenc_error err = { 0 };
    char text[500];
    ck_assert_int_eq(posenc_identify(t, tolerance, a, &out, ctx, &err), st);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(strstr(text, words) != NULL, "%s", text);
    posenc_arena_free(a);
}

static posenc_status stop_at_once(void *user)
{
    ++*(int *)user;
    return PE_CANCELLED;
}

/* The answer of a tall table has the room that its matches need, not what its rows would. */
START_TEST(bounded_room)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_error err = { 0 };
    static const float x[4];
    posenc_tensor t = { .name = "table", .dtype = PE_int32, .rank = 2, .shape = { 2, 2 }, .data = (void *)(uintptr_t)x };
    posenc_request r;
    ck_assert_int_eq(posenc_report_init(&r, "identify", NULL, a, &err), PE_OK);
    ck_assert_int_eq(posenc_request_tensors(&r, &t, 1, -1, false, &err), PE_OK);
    const int64_t sides[][3] = { { 2, 2, 16384 + 56 * 4 }, { 4000000, 4, 1 << 20 }, { 4, 4000000, 1 << 20 } };
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        posenc_result out = { 0 };
        posenc_tensor *own = (posenc_tensor *)((char *)r.params + posenc_row(&r.encoding->table, "table")->offset);
        own->shape[0] = sides[i][0], own->shape[1] = sides[i][1];
        ck_assert_int_eq(r.encoding->shape(&r, &out, &err), PE_OK);
        ck_assert_int_eq(out.tensor[0].shape[0], sides[i][2]);
    }
    posenc_arena_free(a);
}
END_TEST

START_TEST(refused)
{
    double x[32] = { 0, 1, 2, 3 };
    posenc_tensor t = tensor(PE_float64, 16, 2, x);
    expect_refused(&t, 0.5, NULL, PE_INVALID, "tolerance: got 0.5");
    expect_refused(&t, -1, NULL, PE_INVALID, "tolerance");
    x[5] = (double)NAN;
    expect_refused(&t, 0, NULL, PE_INVALID, "table[2][1]: got nan, allowed: a finite number");
    x[5] = (double)INFINITY;
    expect_refused(&t, 0, NULL, PE_INVALID, "table[2][1]: got inf");
    x[5] = 2e60;
    expect_refused(&t, 0, NULL, PE_INVALID, "at most 1e60 in magnitude");
    t = tensor(PE_float64, 1, 4, x);
    expect_refused(&t, 0, NULL, PE_INVALID, "table: got 1 row, allowed: at least 2 rows");
    t = tensor(PE_float64, 4, 0, x);
    expect_refused(&t, 0, NULL, PE_INVALID, "table: got axis 1 of size 0");
    t = (posenc_tensor){ .dtype = PE_float64, .rank = 0, .data = x };
    expect_refused(&t, 0, NULL, PE_INVALID, "table: got rank 0");
    t = tensor(PE_float64, 1 << 20, 1 << 20, x); /* not read */
    expect_refused(&t, 0, NULL, PE_LIMIT, "table: got 1099511627776 elements, allowed: at most 16777216 elements");
    posenc_context little = { .memory_limit = 1 << 20 };
    x[5] = 0;
    t = tensor(PE_float64, 16, 2, x);
    expect_refused(&t, 0, &little, PE_LIMIT, "memory");
    int asked = 0;
    posenc_context stopped = { .stop = stop_at_once, .user = &asked };
    posenc_answer a = ask("rope", "head_dim=64&num_positions=300");
    expect_refused(tensor_of(&a, "cos"), 0, &stopped, PE_CANCELLED, "cancelled by the caller");
    ck_assert(asked > 0);
    posenc_answer_fini(&a);
}
END_TEST

/* Whatever allocation fails, the answer is BUSY or the right one. */
START_TEST(no_memory)
{
    posenc_answer a = ask("sinusoidal", "embedding_dim=8&num_positions=12&offset=4");
    bool failed = true;
    long n = 1;
    for (; failed && n < 5000; n++) {
        posenc_arena *arena = posenc_arena_new(1 << 20);
        posenc_identification out;
        posenc_error err = { 0 };
        alloc_fail_at(n);
        const posenc_status st = posenc_identify(&a.result.tensor[0], 0, arena, &out, NULL, &err);
        failed = alloc_failed();
        alloc_fail_at(0);
        ck_assert_msg(st == PE_BUSY || (st == PE_OK && out.nmatches && strstr(out.match[0].query, "offset=4")), "%ld: %d", n,
                      st);
        ck_assert(failed || st == PE_OK);
        posenc_arena_free(arena);
    }
    ck_assert_msg(n > 3 && n < 5000, "%ld", n);
    posenc_answer_fini(&a);
}
END_TEST

Suite *identify_suite(void)
{
    Suite *s = suite_create("identify");
    TCase *c = tcase_create("identify");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, angles);
    tcase_add_test(c, short_numbers);
    tcase_add_test(c, waves);
    tcase_add_test(c, tables_named);
    tcase_add_test(c, nothing_named);
    tcase_add_test(c, repeated);
    tcase_add_test(c, bounded_room);
    tcase_add_test(c, refused);
    tcase_add_test(c, no_memory);
    suite_add_tcase(s, c);
    return s;
}
