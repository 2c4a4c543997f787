/* test_number.c - numbers as text: the C library's own conversions in the C locale are the measure. */
#include "core/number.h"

#include "core/params.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double random_double(uint64_t *seed)
{
    double v;
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = *seed ^ *seed >> 29;
    memcpy(&v, &bits, 8);
    return v;
}

START_TEST(hex_is_as_printf)
{
    static const double special[] = {
        0, -0.0, 1, -1, 0.1, 1e4, 0x1p-1074, 0x1.fffffffffffffp+1023, 0x1p-1022, -0x1.8p-1030
    };
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        double v = i < (int)PE_LEN(special) ? special[i] : random_double(&seed), back;
        char text[PE_NUMBER_TEXT], want[64];
        if (!isfinite(v))
            continue;
        pe_hex_text(v, text);
        ck_assert(pe_parse_number(text, strlen(text), &back) && !memcmp(&back, &v, 8));
        snprintf(want, sizeof want, "%a", v);
        if (fabs(v) >= 0x1p-1022 || v == 0) /* subnormals: other digits, the same value */
            ck_assert_str_eq(text, want);
    }
}
END_TEST

START_TEST(decimals_are_as_strtod)
{
    uint64_t seed = 2;
    for (int i = 0; i < 20000; i++) {
        double v = random_double(&seed), got;
        char text[64];
        if (!isfinite(v))
            continue;
        snprintf(text, sizeof text, "%.*g", 1 + i % 17, v);
        double want = strtod(text, NULL);
        bool ok = pe_parse_number(text, strlen(text), &got);
        ck_assert_msg(ok == isfinite(want) && (!ok || got == want), "%s", text);
    }
}
END_TEST

static const struct {
    const char *text;
    bool ok;
    double value;
} cases[] = {
    { "1", true, 1 },
    { "+2.5", true, 2.5 },
    { "-.5", true, -0.5 },
    { "3.", true, 3 },
    { "1e4", true, 10000 },
    { "1E-2", true, 0.01 },
    { "100000000000000000000000000000000000000000000000000000000000000000000000e-71", true, 1 },
    { "1.0000000000000000000000000000000000000000000000000000000000000000000000e5", true, 1e5 },
    { "0x1.8p+1", true, 3 },
    { "-0x1p-3", true, -0.125 },
    { "", false, 0 },
    { ".", false, 0 },
    { "e5", false, 0 },
    { "1e", false, 0 },
    { "1,5", false, 0 },
    { "1 ", false, 0 },
    { "--1", false, 0 },
    { "1e400", false, 0 },
    { "inf", false, 0 },
    { "nan", false, 0 },
    { "0x", false, 0 },
    { "0x1", false, 0 },
    { "0x1p", false, 0 },
    { "0x1.123456789abcdefp+1", false, 0 },
};

START_TEST(forms)
{
    double v = 0;
    ck_assert_msg(pe_parse_number(cases[_i].text, strlen(cases[_i].text), &v) == cases[_i].ok, "%s", cases[_i].text);
    if (cases[_i].ok)
        ck_assert(v == cases[_i].value);
}
END_TEST

static posenc_answer encode(const char *query)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[500];
    ck_assert_msg(!posenc_encode("sinusoidal", query, NULL, &a, NULL, &err), "%s",
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

START_TEST(locale_does_not_show)
{
    static const char query[] = "embedding_dim=4&positions=1.5,2.25&scale=0.1";
    posenc_answer a = encode(query);
    bool other = setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8");
    posenc_answer b = encode(query);
    setlocale(LC_ALL, "C");
    ck_assert_str_eq(a.request.key, b.request.key);
    ck_assert_str_eq(a.request.params_json, b.request.params_json);
    if (!other)
        fprintf(stderr, "SKIP locale_does_not_show: no locale with a decimal comma is installed\n");
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(one_nan)
{
    uint64_t bits = 0xfff8000000000001;
    double odd;
    memcpy(&odd, &bits, 8);
    posenc_arena *arena = posenc_arena_new(1 << 20);
    posenc_request r;
    ck_assert_int_eq(posenc_request_init(&r, "laplacian", arena, NULL), PE_OK);
    const posenc_param *row = posenc_row(&r.encoding->table, "pad_value");
    ck_assert_int_eq(posenc_set_real(&r.encoding->table, row, r.params, odd, NULL), PE_OK);
    double got = *(const double *)((const char *)r.params + row->offset), plain = (double)NAN;
    ck_assert(!memcmp(&got, &plain, 8));
    posenc_arena_free(arena);
}
END_TEST

START_TEST(width_of_integers_does_not_show)
{
    int16_t least[] = { 5, 6, 1 };
    int32_t narrow[] = { 5, 6, 1 };
    int64_t wide[] = { 5, 6, 1 };
    static const posenc_dtype dtypes[] = { PE_int32, PE_int64, PE_int16 };
    void *const data[] = { narrow, wide, least };
    char digest[3][65];
    for (int i = 0; i < 3; i++) {
        posenc_arena *arena = posenc_arena_new(1 << 20);
        posenc_request r;
        posenc_tensor t = { .dtype = dtypes[i], .rank = 1, .shape = { 3 }, .data = data[i] };
        ck_assert_int_eq(posenc_request_init(&r, "sinusoidal", arena, NULL), PE_OK);
        ck_assert_int_eq(posenc_request_parse(&r, "embedding_dim=4&padding_idx=1", NULL), PE_OK);
        ck_assert_int_eq(
            posenc_set_tensor(&r.encoding->table, posenc_row(&r.encoding->table, "input_ids"), r.params, &t, NULL), PE_OK);
        ck_assert_int_eq(posenc_resolve(&r, NULL), PE_OK);
        memcpy(digest[i], r.digest, 65);
        posenc_arena_free(arena);
    }
    ck_assert_str_eq(digest[0], digest[1]);
    ck_assert_str_eq(digest[0], digest[2]);
}
END_TEST

Suite *number_suite(void);
Suite *number_suite(void)
{
    Suite *s = suite_create("number");
    TCase *t = tcase_create("number");
    tcase_add_test(t, hex_is_as_printf);
    tcase_add_test(t, decimals_are_as_strtod);
    tcase_add_loop_test(t, forms, 0, (int)PE_LEN(cases));
    tcase_add_test(t, locale_does_not_show);
    tcase_add_test(t, one_nan);
    tcase_add_test(t, width_of_integers_does_not_show);
    suite_add_tcase(s, t);
    return s;
}
