/* test_core.c - statuses, arenas, tensors, parameter tables, requests. */
#include "core/digest.h"
#include "core/params.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- statuses and errors ---- */

START_TEST(statuses)
{
    ck_assert_str_eq(posenc_status_name(PE_INVALID), "INVALID");
    ck_assert_int_eq(posenc_status_http(PE_DEADLINE), 504);
    ck_assert_int_eq(posenc_status_grpc(PE_BUSY), 14);
    ck_assert_str_eq(posenc_status_code(PE_LIMIT), "INVALID_ARGUMENT");
    ck_assert(posenc_status_retry(PE_BUSY) && !posenc_status_retry(PE_INVALID));
}
END_TEST

START_TEST(error_collects)
{
    posenc_error err = { 0 };
    for (int i = 0; i < 10; i++)
        posenc_fail(&err, i == 3 ? PE_LIMIT : PE_INVALID, "R", "field", posenc_text("%d", i).s, "allowed %d", i);
    ck_assert_uint_eq(err.n, PE_MAX_FAULTS);
    ck_assert_uint_eq(err.dropped, 2);
    ck_assert_int_eq(err.status, PE_LIMIT);
    ck_assert_int_eq(posenc_fail(NULL, PE_BUSY, "R", "f", "v", "a"), PE_BUSY);
    char text[4096];
    posenc_error_text(&err, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "field: got 1, allowed: allowed 1"));
    ck_assert_ptr_nonnull(strstr(text, "and 2 more"));
    posenc_error_text(&err, text, 7); /* a short buffer is cut, not overrun */
    ck_assert_uint_le(strlen(text), 6);
}
END_TEST

START_TEST(hostile_values_are_quoted)
{
    posenc_error err = { 0 };
    char longest[400];
    memset(longest, 'x', sizeof longest);
    longest[399] = 0;
    posenc_fail(&err, PE_INVALID, "R", longest, "a\nb\x1b", "%s", "ok");
    ck_assert_uint_eq(strlen(err.fault[0].field), sizeof err.fault[0].field - 1);
    ck_assert_str_eq(err.fault[0].field + sizeof err.fault[0].field - 4, "...");
    ck_assert_str_eq(err.fault[0].value, "a?b?");
}
END_TEST

/* ---- arena ---- */

START_TEST(arena)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    char *p = posenc_alloc(a, 100), *q = posenc_alloc(a, 0);
    ck_assert_ptr_ne(p, q);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(p[i], 0);
    ck_assert_ptr_nonnull(posenc_alloc(a, 900000));
    ck_assert_ptr_null(posenc_alloc(a, 200000));   /* over the limit */
    ck_assert_ptr_nonnull(posenc_alloc(a, 10000)); /* what is left can still be had */
    ck_assert_ptr_null(posenc_alloc(a, SIZE_MAX));
    ck_assert_uint_le(posenc_arena_used(a), 1 << 20);
    ck_assert_str_eq(posenc_strdup(a, "hello", 4), "hell");
    posenc_arena_free(a);
    posenc_arena_free(NULL);
}
END_TEST

/* ---- tensors ---- */

static uint16_t half_of(posenc_dtype t, double v)
{
    uint16_t h;
    posenc_convert(t, &h, &v, 1);
    return h;
}

START_TEST(float16_rounds_once)
{
    ck_assert_uint_eq(half_of(PE_float16, 1), 0x3c00);
    ck_assert_uint_eq(half_of(PE_float16, -2), 0xc000);
    ck_assert_uint_eq(half_of(PE_float16, 65504), 0x7bff);
    ck_assert_uint_eq(half_of(PE_float16, 65519.999), 0x7bff);
    ck_assert_uint_eq(half_of(PE_float16, 65520), 0x7c00);
    ck_assert_uint_eq(half_of(PE_float16, 0x1p-24), 1);
    ck_assert_uint_eq(half_of(PE_float16, 0x1p-25), 0); /* tie to even */
    ck_assert_uint_eq(half_of(PE_float16, 0x1.0000001p-25), 1);
    ck_assert_uint_eq(half_of(PE_float16, 1 + 0x1p-11), 0x3c00);           /* tie to even */
    ck_assert_uint_eq(half_of(PE_float16, 1 + 0x1p-11 + 0x1p-40), 0x3c01); /* through float32 it would be a tie */
    ck_assert_uint_eq(half_of(PE_float16, -0.0), 0x8000);
    ck_assert_uint_eq(half_of(PE_float16, (double)INFINITY), 0x7c00);
    ck_assert_uint_eq(half_of(PE_float16, (double)NAN) & 0x7e00, 0x7e00);
    ck_assert_uint_eq(half_of(PE_bfloat16, 1), 0x3f80);
    ck_assert_uint_eq(half_of(PE_bfloat16, 1 + 0x1p-8), 0x3f80);
    ck_assert_uint_eq(half_of(PE_bfloat16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
    ck_assert_uint_eq(half_of(PE_bfloat16, 3.4e38), 0x7f80);
    ck_assert_uint_eq(half_of(PE_bfloat16, 0x1p-133), 1);
}
END_TEST

START_TEST(float16_all_values) /* every one of the 65,536 widens and rounds back to itself */
{
    static const posenc_dtype types[] = { PE_float16, PE_bfloat16 };
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        posenc_tensor t = { .dtype = types[_i], .rank = 0, .data = &h };
        double v = posenc_tensor_get(&t, 0);
        if (!isnan(v))
            ck_assert_uint_eq(half_of(types[_i], v), h);
    }
}
END_TEST

START_TEST(sizes)
{
    int64_t n;
    ck_assert(posenc_mul_size(3, 4, &n) && n == 12);
    ck_assert(!posenc_mul_size(1LL << 32, 1LL << 32, &n));
    ck_assert(!posenc_mul_size(-1, 1, &n));
    posenc_result r = { 0 };
    posenc_error err = { 0 };
    ck_assert_int_eq(pe_output(&r, "t", PE_float64, 2, (int64_t[]){ 1LL << 31, 1LL << 31 }, &err), PE_LIMIT);
    ck_assert_int_eq(pe_output(&r, "t", PE_float32, 2, (int64_t[]){ 0, 7 }, &err), PE_OK);
    ck_assert_uint_eq(posenc_tensor_size(&r.tensor[0]), 0);
}
END_TEST

/* ---- parameter tables ---- */

enum { PLAIN, SCALED };
typedef struct demo {
    posenc_given given;
    int64_t dim;
    double base, factor, pad;
    posenc_reals list;
    bool flag;
    int kind;
    const char *model;
    posenc_tensor input;
} demo;

static const char *const demo_kinds[] = { "plain", "scaled", NULL };
static const posenc_param demo_rows[] = {
    { PE_INT(demo, dim), .flags = PE_REQUIRED, .min = 1, .max = 64, .doc = "width" },
    { PE_REAL(demo, base), .def = 10000, .min = 1, .max = 1e12, .doc = "base" },
    { PE_ENUM(demo, kind), .names = demo_kinds, .flags = PE_SELECTOR, .doc = "variant" },
    { PE_REAL(demo, factor), .flags = PE_REQUIRED, .when = PE_ON(SCALED), .min = 1, .max = 100, .doc = "factor" },
    { PE_REAL(demo, pad), .flags = PE_NAN, .doc = "padding" },
    { PE_REALS(demo, list), .min = -10, .max = 10, .doc = "list" },
    { PE_BOOL(demo, flag), .doc = "flag" },
    { PE_TEXT(demo, model), .min = 1, .max = 8, .doc = "model" },
    { PE_TENSOR(demo, input), .doc = "input" },
};
static const posenc_table demo_table = { demo_rows, PE_LEN(demo_rows), sizeof(demo) };

typedef struct text_case {
    const char *name, *text;
    bool ok;
} text_case;

static const text_case text_cases[] = {
    { "dim", "8", true },
    { "dim", "1e1", true },
    { "dim", "8.0", true },
    { "dim", "8.5", false },
    { "dim", "0", false },
    { "dim", "65", false },
    { "dim", "", false },
    { "dim", " 8", false },
    { "dim", "9223372036854775808", false },
    { "dim", "-1", false },
    { "dim", "true", false },
    { "pad", "9007199254740992", true },
    { "pad", "9007199254740993", false },
    { "pad", "-0009007199254740993", false },
    { "pad", "900719925474099300000", false },
    { "base", "1e4", true },
    { "base", "0x1.388p+13", true },
    { "base", "inf", false },
    { "base", "nan", false },
    { "base", "1e400", false },
    { "base", "1,2", false },
    { "base", "+5", true },
    { "base", "e5", false },
    { "pad", "nan", true },
    { "pad", "-0", true },
    { "pad", "infinity", false },
    { "flag", "true", true },
    { "flag", "True", false },
    { "flag", "1", false },
    { "kind", "scaled", true },
    { "kind", "SCALED", false },
    { "list", "1,2,-3.5", true },
    { "list", "[1,2,-3.5]", true },
    { "list", " [ 1, 2,\n -3.5 ] ", true },
    { "list", "[]", true },
    { "list", "[1", false },
    { "list", "1]", false },
    { "list", "[1,]", false },
    { "list", "[[1]]", false },
    { "list", "1, 2", false },
    { "list", "", false },
    { "list", "1,,2", false },
    { "list", "1,11", false },
    { "model", "llama-3", true },
    { "model", "", false },
    { "model", "too-long-9", false },
    { "model", "a b", false },
    { "input", "3", false },
};

START_TEST(set_text)
{
    const text_case *c = &text_cases[_i];
    demo d;
    posenc_error err = { 0 };
    posenc_arena *a = posenc_arena_new(1 << 16);
    posenc_defaults(&demo_table, &d);
    posenc_status st = posenc_set_text(&demo_table, posenc_row(&demo_table, c->name), &d, c->text, strlen(c->text), a, &err);
    ck_assert_msg((st == PE_OK) == c->ok, "%s=%s: %s", c->name, c->text, posenc_status_name(st));
    if (!c->ok) {
        ck_assert_uint_eq(err.n, 1);
        ck_assert_msg(strstr(err.fault[0].field, c->name) == err.fault[0].field, "field %s", err.fault[0].field);
        ck_assert_msg(err.fault[0].allowed[0], "%s=%s says nothing of what is allowed", c->name, c->text);
    }
    posenc_arena_free(a);
}
END_TEST

START_TEST(defaults_and_rules)
{
    demo d;
    posenc_error err = { 0 };
    posenc_defaults(&demo_table, &d);
    ck_assert(d.base == 10000 && d.given == 0);
    ck_assert_int_eq(posenc_finish(&demo_table, &d, &err), PE_INVALID);
    ck_assert_uint_eq(err.n, 1);
    ck_assert_str_eq(err.fault[0].field, "dim");
    ck_assert_str_eq(err.fault[0].reason, "MISSING_PARAMETER");

    err = (posenc_error){ 0 };
    posenc_set_int(&demo_table, &demo_rows[0], &d, 4, &err);
    posenc_set_real(&demo_table, &demo_rows[3], &d, 2, &err); /* factor without kind=scaled */
    posenc_finish(&demo_table, &d, &err);
    ck_assert_uint_eq(err.n, 1);
    ck_assert_str_eq(err.fault[0].reason, "NOT_APPLICABLE");
    ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "scaled"));

    err = (posenc_error){ 0 };
    posenc_set_int(&demo_table, &demo_rows[0], &d, 4, &err);
    ck_assert_str_eq(err.fault[0].reason, "DUPLICATE_PARAMETER");
}
END_TEST

START_TEST(unknown_names)
{
    static const struct {
        const char *typed, *near;
    } cases[] = { { "dmi", "mean dim?" }, { "bas", "mean base?" }, { "factr", "mean factor?" }, { "Dim", "mean dim?" } };
    for (size_t i = 0; i < PE_LEN(cases); i++) {
        posenc_error err = { 0 };
        posenc_unknown(&demo_table, NULL, cases[i].typed, &err);
        ck_assert_msg(strstr(err.fault[0].allowed, cases[i].near), "%s: %s", cases[i].typed, err.fault[0].allowed);
    }
    posenc_error err = { 0 };
    posenc_unknown(&demo_table, NULL, "completely_different_thing", &err);
    ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "dim, base"));
    posenc_unknown_encoding("sinusiodal", &err);
    ck_assert_int_eq(err.status, PE_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.fault[1].allowed, "sinusoidal"));
}
END_TEST

static void suggests(const char *encoding, const char *query, const char *field, const char *words)
{
    posenc_error err = { 0 };
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_request r;
    if (!posenc_request_init(&r, encoding, a, &err))
        posenc_request_parse(&r, query, &err);
    ck_assert_uint_eq(err.n, 1);
    ck_assert_str_eq(err.fault[0].field, field);
    ck_assert_msg(strstr(err.fault[0].allowed, words), "%s %s: %s", encoding, query, err.fault[0].allowed);
    posenc_arena_free(a);
}

START_TEST(suggestions) /* a beginning, an end, another way to write it: the nearest, and never a list without it */
{
    suggests("rop", "", "encoding", "did you mean rope?");
    suggests("Rope2D", "", "encoding", "did you mean rope_2d?");
    suggests("alib", "", "encoding", "did you mean alibi?");
    suggests("something", "", "encoding", "a name that");
    suggests("rope", "dim=4", "dim", "did you mean head_dim?");
    suggests("rope", "theta=4", "theta", "did you mean rope_theta?");
    suggests("rope", "ropeTheta=4", "ropeTheta", "did you mean rope_theta?");
    suggests("sinusoidal", "dim=4", "dim", "did you mean embedding_dim?");
    suggests("rope", "preset=llama3", "preset", "did you mean llama-3-8b? one of: llama-3-8b, llama-3.1-8b, llama-3.2-1b, ");
    suggests("rope", "preset=smollm", "preset", "did you mean smollm3-3b?");
    suggests("rope", "preset=smollm", "preset", "words)");
    suggests("rope", "layout=HALF", "layout", "did you mean half? one of: half, interleaved");
    suggests("rope", "layout=xyz", "layout", "one of: half, interleaved");
    suggests("sinusoidal", "preset=foo", "preset", "one of: vaswani, tensor2tensor, ");
}
END_TEST

START_TEST(lists_in_brackets) /* one request, however it is written */
{
    static const char *const spelt[] = { "0,2.5,-1", "[0,2.5,-1]", "[ 0, 2.5,\t-1 ]" };
    char digest[3][65];
    for (size_t i = 0; i < PE_LEN(spelt); i++) {
        posenc_error err = { 0 };
        posenc_arena *a = posenc_arena_new(1 << 20);
        posenc_request r;
        ck_assert_int_eq(posenc_request_init(&r, "sinusoidal", a, &err), PE_OK);
        ck_assert_int_eq(posenc_request_parse(&r, "embedding_dim=4", &err), PE_OK);
        ck_assert_int_eq(posenc_request_set(&r, "positions", spelt[i], strlen(spelt[i]), &err), PE_OK);
        ck_assert_int_eq(posenc_resolve(&r, &err), PE_OK);
        memcpy(digest[i], r.digest, sizeof digest[i]);
        ck_assert_str_eq(digest[i], digest[0]);
        posenc_arena_free(a);
    }
}
END_TEST

/* ---- the registry ---- */

static posenc_answer answer_of(const posenc_encoding *e, const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1024];
    posenc_status st = posenc_encode(e->name, query, e->input == PE_GRAPH ? posenc_example_edges() : NULL, &a, NULL, &err);
    ck_assert_msg(st == PE_OK, "%s %s: %s", e->name, query, posenc_error_text(&err, text, sizeof text));
    return a;
}

/* The key as a query. Of a tensor or a long list it has only the hash: there stands what the example gives. */
static char *key_as_query(const posenc_encoding *e, const char *key)
{
    char *out = calloc(1, strlen(key) + strlen(e->example) + 1), name[80];
    const char *end = strstr(key, " graph=");
    for (const char *s = strchr(key, ' '), *next; s && s != end; s = next) {
        const size_t n = strcspn(s + 1, "="), size = 1 + strcspn(s + 1, " ");
        const char *hash = strstr(s, "sha256-");
        snprintf(name, sizeof name, "&%.*s=", (int)n, s + 1);
        const char *given = strstr(e->example, name), *value = given ? given + strlen(name) : e->example + n + 1;
        next = s[size] ? s + size : NULL;
        if (!hash || hash > s + size)
            strncat(out, s, size);
        else
            sprintf(out + strlen(out), " %s%.*s", name + 1, (int)strcspn(value, "&"), value);
    }
    return out;
}

START_TEST(every_encoding)
{
    const posenc_encoding *e = posenc_encoding_at((size_t)_i);
    ck_assert_ptr_eq(posenc_encoding_named(e->name), e);
    ck_assert(e->title && e->source && e->family && e->revision > 0 && e->noutputs > 0 && e->table.nrows <= 64);
    int selectors = 0;
    for (size_t i = 0; i < e->table.nrows; i++) {
        const posenc_param *r = &e->table.rows[i];
        ck_assert_msg(r->doc && *r->doc, "%s.%s has no doc", e->name, r->name);
        ck_assert_msg(posenc_row(&e->table, r->name) == r, "%s.%s twice", e->name, r->name);
        ck_assert_ptr_null(posenc_row(&posenc_common_table, r->name));
        ck_assert_msg(r->min <= r->max, "%s.%s bounds", e->name, r->name);
        if (r->kind == PE_T_INT)
            ck_assert_msg(r->min < r->max && fabs(r->min) <= 0x1p53 && fabs(r->max) <= 0x1p53, "%s.%s bounds", e->name,
                          r->name);
        if (r->kind == PE_T_ENUM)
            for (int k = 0; r->names[k]; k++)
                ck_assert(strspn(r->names[k], "abcdefghijklmnopqrstuvwxyz0123456789-._") == strlen(r->names[k]) ||
                          !strcmp(r->names[k], "L1") || !strcmp(r->names[k], "L2"));
        ck_assert_uint_eq(strspn(r->name, "abcdefghijklmnopqrstuvwxyz0123456789_L"), strlen(r->name));
        selectors += (r->flags & PE_SELECTOR) != 0;
        for (size_t k = 0; r->flags & PE_SELECTOR && r->names[k]; k++)
            ck_assert_msg(k < 64, "%s.%s has more words than `when` has bits", e->name, r->name);
    }
    ck_assert_int_le(selectors, 1);

    posenc_answer a = answer_of(e, e->example), b = answer_of(e, e->example);
    for (int i = 0; i < a.result.ntensors; i++) {
        const posenc_tensor *x = &a.result.tensor[i], *y = &b.result.tensor[i];
        size_t known = 0;
        while (known < e->noutputs && strcmp(e->outputs[known].name, x->name))
            known++;
        ck_assert_msg(known < e->noutputs, "%s: %s is not a listed output", e->name, x->name);
        ck_assert_uint_eq(posenc_tensor_size(x), posenc_tensor_size(y));
        ck_assert_mem_eq(x->data, y->data, posenc_tensor_size(x));
    }
    /* the key reads back as the same request: key(parse(key(p))) == key(p) */
    char *key = key_as_query(e, a.request.key);
    posenc_answer c = answer_of(e, key + 1);
    ck_assert_str_eq(c.request.key, a.request.key);
    ck_assert_str_eq(c.request.digest, a.request.digest);
    free(key);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    char *words = posenc_describe(e);
    ck_assert_ptr_nonnull(words);
    for (size_t i = 0; i < e->table.nrows; i++) /* also those behind the 32nd and the 64th */
        for (size_t k = 0; e->table.rows[i].kind == PE_T_ENUM && e->table.rows[i].names[k]; k++)
            ck_assert_msg(strstr(words, posenc_text("\"%s\"", e->table.rows[i].names[k]).s), "%s.%s: %s", e->name,
                          e->table.rows[i].name, e->table.rows[i].names[k]);
    free(words);
}
END_TEST

START_TEST(masks)
{
    ck_assert(posenc_in_mask(0, 0) && posenc_in_mask(0, 63) && posenc_in_mask(0, 1000));
    ck_assert(posenc_in_mask(PE_ON(63), 63) && !posenc_in_mask(PE_ON(63), 62) && !posenc_in_mask(PE_ON(63), 64));
    ck_assert(posenc_in_mask(PE_ON(33), 33) && !posenc_in_mask(PE_ON(33), 1) && !posenc_in_mask(PE_ON(1), 33));
}
END_TEST

START_TEST(spelling_does_not_show)
{
    const posenc_encoding *e = posenc_encoding_named("sinusoidal");
    posenc_answer a = answer_of(e, "embedding_dim=8&num_positions=4&max_period=10000"),
                  b = answer_of(e, "max_period=1e4&num_positions=4.0&embedding_dim=8"),
                  c = answer_of(e, "embedding_dim=8&num_positions=4&max_period=10001"),
                  d = answer_of(e, "embedding_dim=8&num_positions=4&dtype=float64");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    ck_assert_str_ne(a.request.digest, c.request.digest);
    ck_assert_str_ne(a.request.digest, d.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
}
END_TEST

START_TEST(revision)
{
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("sinusoidal", "embedding_dim=8&num_positions=4&rev=999", NULL, &a, NULL, &err),
                     PE_NOT_FOUND);
    ck_assert_str_eq(err.fault[0].reason, "REVISION_GONE");
    ck_assert_int_eq(posenc_encode("sinusoidal", "embedding_dim=8&num_positions=4&rev=3", NULL, &a, NULL, NULL), PE_OK);
    posenc_answer_fini(&a);
    posenc_answer_fini(&a);
}
END_TEST

static posenc_status stop_now(void *user)
{
    (void)user;
    return PE_CANCELLED;
}

START_TEST(stops)
{
    posenc_answer a;
    posenc_error err = { 0 };
    posenc_context ctx = { .stop = stop_now };
    ck_assert_int_eq(posenc_encode("sinusoidal", "embedding_dim=8&num_positions=4", NULL, &a, &ctx, &err), PE_CANCELLED);
    ck_assert_uint_eq(err.n, 1);
}
END_TEST

Suite *core_suite(void)
{
    Suite *s = suite_create("core");
    TCase *t = tcase_create("core");
    tcase_add_test(t, statuses);
    tcase_add_test(t, error_collects);
    tcase_add_test(t, hostile_values_are_quoted);
    tcase_add_test(t, arena);
    tcase_add_test(t, float16_rounds_once);
    tcase_add_loop_test(t, float16_all_values, 0, 2);
    tcase_add_test(t, sizes);
    tcase_add_loop_test(t, set_text, 0, (int)PE_LEN(text_cases));
    tcase_add_test(t, defaults_and_rules);
    tcase_add_test(t, unknown_names);
    tcase_add_test(t, suggestions);
    tcase_add_test(t, lists_in_brackets);
    tcase_add_test(t, masks);
    tcase_add_loop_test(t, every_encoding, 0, (int)posenc_encodings());
    tcase_add_test(t, spelling_does_not_show);
    tcase_add_test(t, revision);
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
