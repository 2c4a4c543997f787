/* test_waves.c - what is fast because results are rounded to float32: right, and the same bits by every instruction set. */
#include "core/elementary.h"
#include "core/lanes.h"
#include "core/params.h"
#include "core/random.h"
#include "core/waves.h"
#include "sequence/features.h"
#include "sequence/rotary.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool near(double got, double want, double scale)
{
    return fabs(got - want) <= 0x1p-34 * fabs(want) + 0x1p-98 * scale && fabs(got) <= 1;
}

/* ---- waves ---- */

enum { PAIRS = 43, ROWS = 2000 };

/* Whole and broken positions, and in the last pairs frequencies that take many of them next to a zero. */
static void frequencies(pe_dd *w)
{
    const pe_ladder rungs = { .gain = { 1, 0 }, .top = 10000, .bottom = 1, .steps = { PAIRS, 0 } };
    ck_assert_int_eq(pe_frequencies(&rungs, PAIRS, w, NULL), PE_OK);
    for (int i = 0; i < 6; i++)
        w[PAIRS - 1 - i] = pe_dd_div(pe_two_pi, (pe_dd){ 1 << (i + 1), 0 });
    w[PAIRS - 7] = (pe_dd){ 0, 0 };
    w[PAIRS - 8] = pe_dd_neg(w[3]);
    w[PAIRS - 9].lo = 0;
}

static pe_dd place(int row)
{
    static const double odd[] = { 0, 1, -1, 0.5, 0x1p25, 0x1p26, -0x1p26, 0x1p27 - 1, 1e9, 0x1p53, 1e100, 0x1p-600 };
    double u[2];
    pe_random_uniform(5, 0, (uint64_t)row * 2, 2, u);
    if (row < 12)
        return (pe_dd){ odd[row], 0 };
    const double v = ldexp(u[0] - 0.5, row % 70 - 10);
    return row % 3 == 0 ? (pe_dd){ rint(v), 0 } : row % 3 == 1 ? (pe_dd){ v, 0 } : pe_fast_two_sum(v, v * 0x1p-55 * u[1]);
}

START_TEST(waves_against_exact)
{
    pe_dd w[PAIRS];
    double storage[4 * PAIRS], s[PAIRS], c[PAIRS], want_s[PAIRS], want_c[PAIRS];
    frequencies(w);
    const pe_waves v = pe_waves_begin(w, PAIRS, storage);
    for (int i = 0; i < ROWS; i++) {
        const pe_dd at = place(i);
        pe_waves_at(&v, 0, PAIRS, at, s, c);
        for (int k = 0; k < PAIRS; k++) {
            const pe_dd angle = pe_dd_mul(w[k], at);
            pe_sincos(&angle, 1, want_s, want_c);
            ck_assert_msg(near(s[k], *want_s, fabs(angle.hi)) && near(c[k], *want_c, fabs(angle.hi)),
                          "at %a, pair %d: %a for %a, %a for %a", at.hi, k, s[k], *want_s, c[k], *want_c);
        }
        if (at.hi == 0)
            for (int k = 0; k < PAIRS; k++)
                ck_assert(s[k] == 0 && c[k] == 1);
    }
}
END_TEST

START_TEST(waves_by_every_path)
{
    pe_dd w[PAIRS];
    double storage[4 * PAIRS], s[PAIRS], c[PAIRS], s1[PAIRS], c1[PAIRS];
    frequencies(w);
    const pe_waves v = pe_waves_begin(w, PAIRS, storage);
    for (int i = 0; i < ROWS; i++) {
        const pe_dd at = place(i);
        const size_t first = (size_t)i % PAIRS, n = ((size_t)i * 7) % (PAIRS - first) + 1;
        pe_waves_on(PE_PATH_BASE, &v, 0, PAIRS, at, s, c);
        for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
            pe_waves_on(path, &v, 0, PAIRS, at, s1, c1);
            ck_assert_mem_eq(s, s1, sizeof s);
            ck_assert_mem_eq(c, c1, sizeof c);
            pe_waves_on(path, &v, first, n, at, s1, c1); /* in other company */
            ck_assert_mem_eq(s + first, s1, n * sizeof *s);
            ck_assert_mem_eq(c + first, c1, n * sizeof *c);
            const pe_waves alone = pe_waves_begin(w + first, 1, (double[4]){ 0 });
            pe_waves_on(path, &alone, 0, 1, pe_dd_neg(at), s1, c1);
            ck_assert(s[first] == -*s1 && c[first] == *c1);
        }
    }
}
END_TEST

/* Angles made in lanes: the bits of those made one by one. */
START_TEST(products_by_every_path)
{
    pe_dd w[PAIRS], angle[PAIRS];
    double s[PAIRS], c[PAIRS], s1[PAIRS], c1[PAIRS];
    frequencies(w);
    for (int i = 0; i < ROWS; i++) {
        const pe_dd at = place(i);
        for (int mul = 0; mul < 2; mul++) {
            for (int k = 0; k < PAIRS; k++)
                angle[k] = mul ? pe_dd_mul(w[k], at) : pe_dd_times(w[k], at.hi);
            pe_sincos_on(PE_PATH_BASE, angle, PAIRS, s, c);
            for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
                if (mul)
                    pe_sincos_mul_on(path, w, PAIRS, at, s1, c1);
                else
                    pe_sincos_times_on(path, w, PAIRS, at.hi, s1, c1);
                ck_assert_mem_eq(s, s1, sizeof s);
                ck_assert_mem_eq(c, c1, sizeof c);
            }
        }
    }
}
END_TEST

/* ---- turns ---- */

enum { IN = 3, M = 29, POINTS = 600 };

/* _i: 0 of few bits, 1 of 53, 2 sums that are large or cancel. */
START_TEST(turns)
{
    double u[IN * M + IN * POINTS], matrix[IN * M], storage[2 * IN * M], s[M], c[M], s1[M], c1[M], x[IN];
    pe_random_normal(9, 0, 0, IN * M + IN * POINTS, u);
    for (int i = 0; i < IN * M; i++)
        matrix[i] = _i == 0 ? (double)(float)u[i] : _i == 1 ? u[i] : ldexp(u[i % M], i % 60 - 4 * (i / M));
    const pe_turns t = pe_turns_begin(matrix, IN, M, _i == 0, storage);
    const pe_turns long_way = pe_turns_begin(matrix, IN, M, false, storage);
    for (int p = 0; p < POINTS; p++) {
        for (int k = 0; k < IN; k++)
            x[k] = _i == 0   ? (double)(float)(100 * u[IN * M + IN * p + k])
                   : _i == 1 ? u[IN * M + IN * p + k]
                             : p % 9 - 3 * k;
        if (p % 50 == 0)
            memset(x, 0, sizeof x);
        if (p % 50 == 1) /* many sums are a quarter of a turn, or next to it */
            x[0] = 0.25 / matrix[p % M], x[1] = x[2] = 0;
        const bool few = _i != 0 || p % 50 != 1;
        const pe_turns *by = few ? &t : &long_way;
        pe_turns_at(by, x, 0, M, s, c);
        for (int j = 0; j < M; j++) {
            pe_dd sum = { 0, 0 }, want_s, want_c;
            double size = 0;
            for (int k = 0; k < IN; k++) {
                sum = pe_dd_add(sum, pe_two_prod(x[k], matrix[k * M + j]));
                size += 7 * fabs(x[k] * matrix[k * M + j]);
            }
            sum = pe_dd_mul(sum, pe_two_pi);
            pe_sincos(&sum, 1, &want_s.hi, &want_c.hi);
            ck_assert_msg(near(s[j], want_s.hi, size) && near(c[j], want_c.hi, size),
                          "point %d, column %d: %a for %a, %a for %a", p, j, s[j], want_s.hi, c[j], want_c.hi);
        }
        for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
            const size_t first = (size_t)p % M, n = (size_t)p * 5 % (M - first) + 1;
            pe_turns_on(path, by, x, 0, M, s1, c1);
            ck_assert(!memcmp(s, s1, sizeof s) && !memcmp(c, c1, sizeof c));
            pe_turns_on(path, &long_way, x, first, n, s1, c1);
            ck_assert(!memcmp(s + first, s1, n * sizeof *s) && !memcmp(c + first, c1, n * sizeof *c));
        }
    }
}
END_TEST

/* ---- logarithms ---- */

START_TEST(logarithms)
{
    enum { N = 4003 };
    double x[N], got[N], same[N];
    pe_random_uniform(2, 0, 0, N, x);
    for (int i = 0; i < N; i++)
        x[i] = ldexp(x[i], i % 800 - 200);
    x[0] = 0;
    x[1] = 1e300;
    x[2] = 1e-300;
    pe_log1p_many_on(PE_PATH_BASE, x, N, got);
    ck_assert(got[0] == 0);
    for (int i = 0; i < N; i++) {
        const double want = pe_log1p(x[i]);
        ck_assert_msg(fabs(got[i] - want) <= 0x1p-36 * want, "ln(1 + %a) is %a, want %a", x[i], got[i], want);
    }
    for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
        memcpy(same, x, sizeof x);
        pe_log1p_many_on(path, same, N - 5, same); /* in place; the last five alone */
        pe_log1p_many_on(path, same + N - 5, 5, same + N - 5);
        ck_assert_mem_eq(same, got, sizeof got);
    }
}
END_TEST

/* ---- tensors in rows ---- */

START_TEST(tensors_read_in_rows)
{
    enum { N = 1 << 16 };
    uint16_t bits[N];
    double *got = malloc(N * sizeof *got);
    ck_assert(got != NULL);
    for (int i = 0; i < N; i++)
        bits[i] = (uint16_t)i;
    for (posenc_dtype type = 0; type < PE_NDTYPES; type++) {
        const int64_t n = (int64_t)(sizeof bits / posenc_dtype_size(type)) - 3;
        const posenc_tensor t = { .dtype = type, .rank = 1, .shape = { n }, .data = bits };
        for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
            pe_tensor_read_on(path, &t, 3, (size_t)n - 3 < N ? (size_t)n - 3 : N, got);
            for (int64_t i = 3; i < n && i - 3 < N; i++) {
                const double want = posenc_tensor_get(&t, i);
                ck_assert_msg(memcmp(&want, &got[i - 3], sizeof want) == 0 || (isnan(want) && isnan(got[i - 3])),
                              "%s element %d: %a, want %a", posenc_dtype_name(type), (int)i, got[i - 3], want);
            }
        }
    }
    free(got);
}
END_TEST

/* The bounds themselves, zeros of both signs, and each place of one that is outside. */
START_TEST(bounds_of_tensors)
{
    enum { N = 1037 };
    static float v[N];
    const posenc_tensor t = { .name = "t", .dtype = PE_float32, .rank = 1, .shape = { N }, .data = v };
    for (int i = 0; i < N; i++)
        v[i] = i % 3 ? 2 : i % 2 ? -0.0F : 0;
    posenc_error err = { 0 };
    ck_assert(pe_tensor_within(&t, 0, 2, "", &err) && pe_tensor_integers(&t, 0, 2, "", &err) && !err.n);
    for (int i = 0; i < N; i++) {
        const float was = v[i], bad[] = { 2.0000002F, -1e-45F, NAN, -NAN, INFINITY, -INFINITY };
        for (int k = 0; k < 6; k++) {
            err = (posenc_error){ 0 };
            v[i] = bad[k];
            ck_assert(!pe_tensor_within(&t, 0, 2, "", &err));
            ck_assert_str_eq(err.fault[0].field, posenc_text("t[%d]", i).s);
            ck_assert_int_eq(pe_tensor_infinite(&t), k < 2 ? -1 : i);
        }
        v[i] = 1.5F;
        ck_assert(!pe_tensor_integers(&t, 0, 2, "", &err));
        v[i] = was;
    }
}
END_TEST

/* ---- turned vectors ---- */

START_TEST(vectors_of_every_layout)
{
    enum { D = 60 };
    double u[8 * D], x[D], y[D];
    pe_random_normal(4, 0, 0, 8 * D, u);
    memcpy(x, u + 4 * D, sizeof x);
    const double *c = u, *s = u + D, *c2 = u + 2 * D, *s2 = u + 3 * D;
    for (int in = 0; in < 2; in++)
        for (int out = 0; out < 2; out++)
            for (size_t n = 1; n <= 25; n++) {
                const pe_rope_turner t = { .head_dim = D,
                                           .pairs = n,
                                           .start = n % 3,
                                           .in = (pe_rope_layout)in,
                                           .out = (pe_rope_layout)out,
                                           .single = _i };
                pe_rope_vector(&t, c, s, c2, s2, x, y);
                for (size_t j = 0; j < n; j++) {
                    const double x1 = x[t.start + pe_rope_first(t.in, j)], x2 = x[t.start + pe_rope_second(t.in, n, j)];
                    const float a = (float)x1 * (float)c[j], b = (float)x2 * (float)s[j], d = (float)x2 * (float)c2[j],
                                e = (float)x1 * (float)s2[j];
                    const double y1 = y[t.start + pe_rope_first(t.out, j)], y2 = y[t.start + pe_rope_second(t.out, n, j)];
                    ck_assert(y1 == (_i ? (double)(a - b) : x1 * c[j] - x2 * s[j]));
                    ck_assert(y2 == (_i ? (double)(d + e) : x2 * c2[j] + x1 * s2[j]));
                }
                for (size_t k = 0; k < D; k++)
                    ck_assert((k >= t.start && k < t.start + 2 * n) || y[k] == x[k]);
            }
}
END_TEST

Suite *waves_suite(void);
Suite *waves_suite(void)
{
    Suite *s = suite_create("waves");
    TCase *t = tcase_create("waves");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, waves_against_exact);
    tcase_add_test(t, waves_by_every_path);
    tcase_add_test(t, products_by_every_path);
    tcase_add_loop_test(t, turns, 0, 3);
    tcase_add_test(t, logarithms);
    tcase_add_test(t, tensors_read_in_rows);
    tcase_add_test(t, bounds_of_tensors);
    tcase_add_loop_test(t, vectors_of_every_layout, 0, 2);
    suite_add_tcase(s, t);
    return s;
}
