/* test_compare.c - a table against a request: the differences, to the number, and the mistakes. More of them, in several
 * shapes and dtypes: tests/identify. */
#include "ask.h"

#include <math.h>

typedef struct held {
    posenc_arena *arena;
    posenc_request r;
    posenc_comparison c;
    posenc_error err;
    posenc_status st;
} held;

static held hold(const posenc_tensor *t, const char *encoding, const char *query, const char *output, posenc_context *ctx)
{
    held h = { .arena = posenc_arena_new(1 << 24) };
    ck_assert(!posenc_request_init(&h.r, encoding, h.arena, NULL) && !posenc_request_parse(&h.r, query, NULL) &&
              !posenc_resolve(&h.r, NULL));
    h.st = posenc_compare(t, &h.r, output, h.arena, &h.c, ctx, &h.err);
    return h;
}

static void drop(held *h) { posenc_arena_free(h->arena); }

START_TEST(equal)
{
    posenc_answer a = ask("rope", "head_dim=16&num_positions=12");
    held h = hold(tensor_of(&a, "sin"), "rope", "head_dim=16&num_positions=12", "sin", NULL);
    ck_assert(!h.st && h.c.same_sides && !h.c.ndiffering && h.c.first == -1 && h.c.largest_absolute == 0 && !h.c.nmistakes);
    ck_assert(h.c.rows == 12 && h.c.columns == 16 && !strcmp(h.c.output, "sin"));
    char *json = posenc_comparison_json(&h.c);
    ck_assert(json && strstr(json, "\"equal\":true") && strstr(json, "\"mistake\":null,\"mistakes\":[],\"instead\":null}"));
    free(json);
    drop(&h);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(differences)
{
    posenc_answer a = ask("sinusoidal", "embedding_dim=4&num_positions=6");
    float *x = a.result.tensor[0].data;
    const float before = x[9];
    x[9] += 0.25f;                /* row 2, column 1 */
    x[20] = nextafterf(x[20], 2); /* row 5, column 0 */
    held h = hold(&a.result.tensor[0], "sinusoidal", "embedding_dim=4&num_positions=6", NULL, NULL);
    ck_assert(!h.st && h.c.ndiffering == 2 && h.c.first == 9 && h.c.worst == 9);
    ck_assert_double_eq_tol(h.c.largest_absolute, 0.25, 1e-6);
    ck_assert_double_eq_tol(h.c.largest_relative, 0.25 / fabs((double)before), 1e-5);
    ck_assert_double_eq_tol(h.c.largest_ulp, 0.25 / ldexp(1, -25), 0.01 * ldexp(1, 23)); /* 0.416's neighbours: 2^-25 */
    ck_assert(h.c.row[2] == h.c.largest_absolute && h.c.row[3] == 0 && h.c.row[5] > 0 && h.c.row[5] < 1e-6);
    ck_assert(h.c.column[1] == h.c.largest_absolute && h.c.column[2] == 0 && h.c.column[0] == h.c.row[5]);
    ck_assert(!h.c.nmistakes);
    drop(&h);
    posenc_answer_fini(&a);
}
END_TEST

static void expect_mistake(const char *encoding, const char *is, const char *should, const char *output, const char *name)
{
    posenc_answer a = ask(encoding, is);
    held h = hold(tensor_of(&a, output), encoding, should, output, NULL);
    ck_assert_msg(!h.st && h.c.nmistakes && !strcmp(h.c.mistake[0].name, name), "%s %s for %s: %s", encoding, is, should,
                  h.c.nmistakes ? h.c.mistake[0].name : "none");
    ck_assert(h.c.mistake[0].largest < 1e-3 && h.c.mistake[0].detail[0]);
    char *json = posenc_comparison_json(&h.c);
    ck_assert(json && strstr(json, name));
    free(json);
    drop(&h);
    posenc_answer_fini(&a);
}

START_TEST(mistakes)
{
    const char *plain = "embedding_dim=16&num_positions=24";
    expect_mistake("sinusoidal", "embedding_dim=16&num_positions=24&layout=split", plain, "table", "layout");
    expect_mistake("sinusoidal", "embedding_dim=16&num_positions=24&downscale_freq_shift=1", plain, "table", "exponent");
    expect_mistake("sinusoidal", "embedding_dim=16&num_positions=24&flip_sin_to_cos=true", plain, "table",
                   "sin_cos_exchanged");
    expect_mistake("sinusoidal", "embedding_dim=16&num_positions=24&offset=1", plain, "table", "off_by_one");
    expect_mistake("sinusoidal", plain, "embedding_dim=16&num_positions=24&scale=3", "table", "scale_left_out");
    expect_mistake("sinusoidal", plain, "embedding_dim=16&num_positions=24&scale_output=0.5", "table", "scale_left_out");
    expect_mistake("sinusoidal", "embedding_dim=16&num_positions=24&max_period=777", plain, "table", "base");
    expect_mistake("sinusoidal", "embedding_dim=16&num_positions=24&dtype=bfloat16", plain, "table", "rounded");
    expect_mistake("rope", "head_dim=16&num_positions=24", "head_dim=16&num_positions=24&rope_type=linear&factor=4", "cos",
                   "rope_scaling_left_out");
    expect_mistake(
        "rope",
        "head_dim=16&num_positions=24&rope_type=yarn&factor=4&attention_factor=1&original_max_position_embeddings=16",
        "head_dim=16&num_positions=24&rope_type=yarn&factor=4&attention_factor=1.3&original_max_position_embeddings=16",
        "cos", "attention_factor_left_out");
    expect_mistake("alibi", "num_heads=8&key_length=12&form=mpt", "num_heads=8&key_length=12", "bias", "form");
}
END_TEST

/* What fits no mistake is told as what it is, or not at all. */
START_TEST(instead)
{
    posenc_answer a = ask("rope", "preset=llama-3.1-8b&num_positions=64");
    held h = hold(tensor_of(&a, "cos"), "sinusoidal", "embedding_dim=128&num_positions=64", NULL, NULL);
    ck_assert(!h.st && !h.c.nmistakes && h.c.match && !strcmp(h.c.match->encoding, "rope"));
    char *json = posenc_comparison_json(&h.c);
    ck_assert(json && strstr(json, "\"instead\":{\"encoding\":\"rope\""));
    free(json);
    drop(&h);
    float *x = a.result.tensor[0].data;
    for (int64_t i = 0; i < posenc_tensor_count(&a.result.tensor[0]); i++)
        x[i] = (float)((i * 7919) % 1000) / 1000;
    h = hold(&a.result.tensor[0], "sinusoidal", "embedding_dim=8&num_positions=8", NULL, NULL);
    ck_assert(!h.c.nmistakes && !h.c.match && !h.c.same_sides);
    drop(&h);
    posenc_answer_fini(&a);
}
END_TEST

static posenc_status stop_at_once(void *user)
{
    (void)user;
    return PE_DEADLINE;
}

START_TEST(refused)
{
    posenc_answer a = ask("sinusoidal", "embedding_dim=64&num_positions=4096");
    char text[500];
    held h = hold(&a.result.tensor[0], "sinusoidal", "embedding_dim=64&num_positions=4096", "tabel", NULL);
    ck_assert_int_eq(h.st, PE_INVALID);
    ck_assert(strstr(posenc_error_text(&h.err, text, sizeof text), "tensor: got tabel, allowed: an output of sinusoidal"));
    drop(&h);
    posenc_context stopped = { .stop = stop_at_once };
    h = hold(&a.result.tensor[0], "sinusoidal", "embedding_dim=64&num_positions=4096&offset=3", NULL, &stopped);
    ck_assert_int_eq(h.st, PE_DEADLINE);
    drop(&h);
    ((float *)a.result.tensor[0].data)[7] = NAN;
    h = hold(&a.result.tensor[0], "sinusoidal", "embedding_dim=64&num_positions=4096", NULL, NULL);
    ck_assert(h.st == PE_INVALID && strstr(posenc_error_text(&h.err, text, sizeof text), "table[0][7]: got nan"));
    drop(&h);
    posenc_answer_fini(&a);
}
END_TEST

Suite *compare_suite(void)
{
    Suite *s = suite_create("compare");
    TCase *c = tcase_create("compare");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, equal);
    tcase_add_test(c, differences);
    tcase_add_test(c, mistakes);
    tcase_add_test(c, instead);
    tcase_add_test(c, refused);
    suite_add_tcase(s, c);
    return s;
}
