/* test_lanes.c - every instruction set gives the same bits; rounding to 16 bits at every value there is; the rotor. */
#include "core/lanes.h"
#include "core/random.h"
#include "sequence/rotor.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* ---- the same bits ---- */

START_TEST(sines_by_every_path)
{
    enum { N = 4099 }; /* no multiple of eight */
    pe_dd *angle = malloc(N * sizeof *angle);
    double *u = malloc(N * sizeof *u), *s = malloc(4 * N * sizeof *s), *c = s + N, *s1 = c + N, *c1 = s1 + N;
    ck_assert(angle && u && s);
    pe_random_uniform(7, 0, 0, N, u);
    for (int i = 0; i < N; i++) {
        double a = ldexp(u[i] - 0.5, i % 90 - 30);
        angle[i] = pe_fast_two_sum(a, a * 0x1p-60 * u[(i + 1) % N]);
        if (i % 7 == 0) /* near a zero of one of the two */
            angle[i] = pe_dd_times((pe_dd){ 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54 }, (double)(i * 1237));
    }
    angle[0] = (pe_dd){ 0, 0 };
    pe_sincos_on(PE_PATH_BASE, angle, N, s, c);
    ck_assert(s[0] == 0 && c[0] == 1);
    for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
        pe_sincos_on(path, angle, N, s1, c1);
        ck_assert_mem_eq(s, s1, N * sizeof *s);
        ck_assert_mem_eq(c, c1, N * sizeof *c);
        for (size_t i = 0; i < 40; i++) { /* alone or in company */
            pe_sincos_on(path, angle + i, i % 9 + 1, s1, c1);
            ck_assert_mem_eq(s + i, s1, (i % 9 + 1) * sizeof *s);
        }
    }
    free(angle);
    free(u);
    free(s);
}
END_TEST

/* ---- rounding ---- */

static const struct {
    posenc_dtype dtype;
    int mant, infinity; /* its bits */
} narrow[] = { { PE_float16, 10, 0x7c00 }, { PE_bfloat16, 7, 0x7f80 } };

static double value(posenc_dtype t, uint16_t bits)
{
    const posenc_tensor one = { .dtype = t, .data = &bits };
    return posenc_tensor_get(&one, 0);
}

/* Each value, the midpoint to the next, and the float64 on either side of it. */
START_TEST(every_value_and_every_tie)
{
    const posenc_dtype t = narrow[_i].dtype;
    const int last = narrow[_i].infinity;
    double *v = malloc(sizeof *v * 8 * (size_t)last);
    uint16_t *want = malloc(sizeof *want * 8 * (size_t)last), *got = malloc(sizeof *got * 8 * (size_t)last);
    size_t n = 0;
    ck_assert(v && want && got);
    for (int h = 0; h < last; h++) {
        double a = value(t, (uint16_t)h);
        /* the step beyond the largest finite value is where infinity would stand */
        double b = h + 1 < last ? value(t, (uint16_t)(h + 1)) : a + (a - value(t, (uint16_t)(h - 1)));
        double middle = a + (b - a) / 2;
        const double at[] = { a, nextafter(middle, 0), middle, nextafter(middle, b) };
        const int is[] = { h, h, h + (h & 1), h + 1 };
        for (int k = 0; k < 4; k++)
            for (int sign = 0; sign < 2; sign++) {
                v[n] = sign ? -at[k] : at[k];
                want[n++] = (uint16_t)(is[k] | sign << 15);
            }
    }
    for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
        pe_convert_on(path, t, got, v, n);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(got[i] == want[i], "path %d: %a becomes %04x, want %04x", path, v[i], got[i], want[i]);
    }
    free(v);
    free(want);
    free(got);
}
END_TEST

START_TEST(odd_values)
{
    const posenc_dtype t = narrow[_i].dtype;
    const double v[] = { INFINITY, -INFINITY, 1e300, -1e300, 0.0, -0.0, 5e-324, -1e-300, NAN };
    for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
        uint16_t got[9];
        pe_convert_on(path, t, got, v, 9);
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(got[i], narrow[_i].infinity | (i % 2 << 15));
        for (int i = 4; i < 8; i++)
            ck_assert_int_eq(got[i], i % 2 << 15);
        ck_assert_int_eq(got[8] & 0x7fff, narrow[_i].infinity | 1 << (narrow[_i].mant - 1));
    }
}
END_TEST

START_TEST(float32_by_every_path)
{
    enum { N = 1003 };
    double u[N];
    float want[N], got[N];
    pe_random_uniform(3, 0, 0, N, u);
    for (int i = 0; i < N; i++) {
        u[i] = ldexp(u[i] - 0.5, i % 300 - 150);
        want[i] = (float)u[i];
    }
    for (pe_path path = PE_PATH_BASE; path <= pe_simd(); path++) {
        pe_convert_on(path, PE_float32, got, u, N);
        ck_assert_mem_eq(got, want, sizeof want);
    }
}
END_TEST

/* ---- the rotor ---- */

enum { PAIRS = 43, ROWS = 3000 };

typedef struct ladder {
    pe_dd w[PAIRS];
    void *storage;
} ladder;

static ladder make(void)
{
    ladder l;
    const pe_ladder rungs = { .gain = { 1, 0 }, .top = 10000, .bottom = 1, .steps = { PAIRS, 0 } };
    ck_assert_int_eq(pe_frequencies(&rungs, PAIRS, l.w, NULL), PE_OK);
    ck_assert((l.storage = aligned_alloc(64, (size_t)(pe_rotor_size(PAIRS) + 64) & ~(size_t)63)) != NULL);
    return l;
}

static double position(int row)
{
    static const double odd[] = { 0, 1, -1, 63, 64, -64, 65, 1e6, 1e7, -1e7, 0x1p53, -0x1p53, 0.5, -2.25 };
    double u;
    pe_random_uniform(11, 0, (uint64_t)row, 1, &u);
    return row < 14 ? odd[row] : rint((u - 0.5) * 2e7);
}

/* Whatever came before. */
START_TEST(a_row_depends_on_its_position_alone)
{
    ladder l = make();
    pe_pace pace = { 0 };
    pe_rotor r = pe_rotor_begin(l.w, PAIRS, l.storage);
    double s[PAIRS], c[PAIRS], s1[PAIRS], c1[PAIRS];
    for (int i = 0; i < ROWS; i++) {
        const double p = position(i);
        ck_assert_int_eq(pe_rotor_row(&r, p, s, c, &pace), PE_OK);
        ladder m = make();
        pe_rotor fresh = pe_rotor_begin(m.w, PAIRS, m.storage);
        ck_assert_int_eq(pe_rotor_row(&fresh, -p, s1, c1, &pace), PE_OK);
        for (int k = 0; k < PAIRS; k++)
            ck_assert_msg(s[k] == -s1[k] && c[k] == c1[k], "position %.17g, pair %d", p, k);
        free(m.storage);
    }
    free(l.storage);
}
END_TEST

/* In float64 within 2^-49, and within 2^-31 of the value itself. */
START_TEST(rotor_against_exact)
{
    ladder l = make();
    pe_pace pace = { 0 };
    pe_rotor r = pe_rotor_begin(l.w, PAIRS, l.storage);
    double s[PAIRS], c[PAIRS], want_s[PAIRS], want_c[PAIRS];
    pe_dd angle[PAIRS];
    for (int i = 0; i < ROWS; i++) {
        const double p = position(i);
        ck_assert_int_eq(pe_rotor_row(&r, p, s, c, &pace), PE_OK);
        for (int k = 0; k < PAIRS; k++)
            angle[k] = pe_dd_times(l.w[k], p);
        pe_sincos(angle, PAIRS, want_s, want_c);
        for (int k = 0; k < PAIRS; k++) {
            const double es = fabs(s[k] - want_s[k]), ec = fabs(c[k] - want_c[k]);
            ck_assert_msg(es <= fmin(0x1p-49, 0x1p-31 * fabs(want_s[k])) && ec <= fmin(0x1p-49, 0x1p-31 * fabs(want_c[k])),
                          "position %.17g, pair %d: %a for %a, %a for %a", p, k, s[k], want_s[k], c[k], want_c[k]);
        }
    }
    free(l.storage);
}
END_TEST

/* Rows together, in every form, are the rows one by one, rounded: across blocks, before and after 0, where all is small. */
enum { TOGETHER = 150, ROW_BYTES = 4 * PAIRS * (int)sizeof(float), ROOM = (ROW_BYTES + 15) & ~15 };

static void expect_rows(ladder *l, double first, const pe_rotor_place *form)
{
    static char got[TOGETHER * ROOM] __attribute__((aligned(64)));
    const size_t size = PAIRS * posenc_dtype_size(form->dtype);
    pe_pace pace = { 0 };
    pe_rotor together = pe_rotor_begin(l->w, PAIRS, l->storage);
    pe_rotor_place to = *form;
    to.first = got;
    to.second = form->zipped ? NULL : got + (form->again ? 2 : 1) * size;
    to.step = ROOM;
    ck_assert_int_eq(pe_rotor_rows(&together, first, TOGETHER, &to, &pace), PE_OK);
    ladder m = make();
    pe_rotor single = pe_rotor_begin(m.w, PAIRS, m.storage);
    for (int i = 0; i < TOGETHER; i++) {
        double s[PAIRS], c[PAIRS], row[2 * PAIRS];
        char want[ROW_BYTES];
        ck_assert_int_eq(pe_rotor_row(&single, first + i, s, c, &pace), PE_OK);
        memcpy(row, s, sizeof s);
        memcpy(row + PAIRS, c, sizeof c);
        if (form->zipped)
            pe_zip(form->cosine_first ? c : s, form->cosine_first ? s : c, PAIRS, row);
        posenc_convert(form->dtype, want, row, 2 * PAIRS);
        const char *at = got + i * ROOM;
        for (int part = 0; part < 2; part++)
            for (int copy = 0; copy < (form->again ? 2 : 1); copy++, at += size)
                ck_assert_msg(!memcmp(at, want + (size_t)part * size, size), "position %g", first + i);
    }
    free(m.storage);
}

START_TEST(rows_together)
{
    static const posenc_dtype dtypes[] = { PE_float32, PE_float16, PE_bfloat16 };
    static const double firsts[] = { 0, -100, 4090, 1e7 - 3, 0x1p24 - 70, 0x1p52, 0.5 };
    ladder l = make();
    for (int form = 0; form < 6; form++)
        for (int k = 0; k < 7; k++) {
            pe_rotor_place to = {
                .dtype = dtypes[_i], .zipped = form < 3, .cosine_first = form == 1, .past = form % 3 == 2
            };
            to.again = form == 4 ? PAIRS * posenc_dtype_size(to.dtype) : 0;
            /* stores around the cache: 16 bytes to 16 bytes, which 43 pairs apart are not */
            to.past = to.past && to.zipped;
            expect_rows(&l, firsts[k], &to);
        }
    free(l.storage);
}
END_TEST

/* Too many pairs to keep all rotations: the same bits. */
START_TEST(wide_rows)
{
    enum { WIDE = 8192 };
    const pe_ladder rungs = { .gain = { 1, 0 }, .top = 10000, .bottom = 1, .steps = { WIDE, 0 } };
    pe_dd *w = malloc(WIDE * sizeof *w);
    void *storage = malloc((size_t)pe_rotor_size(WIDE)), *less = malloc((size_t)pe_rotor_size(WIDE / 2));
    double *s = malloc(4 * WIDE * sizeof *s), *c = s + WIDE, *s1 = c + WIDE, *c1 = s1 + WIDE;
    ck_assert(w && storage && less && s);
    ck_assert(pe_rotor_size(WIDE) < pe_rotor_size(WIDE / 2));
    ck_assert_int_eq(pe_frequencies(&rungs, WIDE, w, NULL), PE_OK);
    pe_pace pace = { 0 };
    pe_rotor all = pe_rotor_begin(w, WIDE, storage), half = pe_rotor_begin(w, WIDE / 2, less);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(pe_rotor_row(&all, i * i / 7, s, c, &pace), PE_OK);
        ck_assert_int_eq(pe_rotor_row(&half, i * i / 7, s1, c1, &pace), PE_OK);
        ck_assert_mem_eq(s, s1, WIDE / 2 * sizeof *s);
        ck_assert_mem_eq(c, c1, WIDE / 2 * sizeof *c);
    }
    free(w);
    free(storage);
    free(less);
    free(s);
}
END_TEST

START_TEST(zipped)
{
    double a[19], b[19], row[38];
    for (int i = 0; i < 19; i++) {
        a[i] = i;
        b[i] = -i;
    }
    pe_zip(a, b, 19, row);
    for (int i = 0; i < 19; i++)
        ck_assert(row[2 * i] == a[i] && row[2 * i + 1] == b[i]);
}
END_TEST

Suite *lanes_suite(void);
Suite *lanes_suite(void)
{
    Suite *s = suite_create("lanes");
    TCase *t = tcase_create("lanes");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, sines_by_every_path);
    tcase_add_loop_test(t, every_value_and_every_tie, 0, 2);
    tcase_add_loop_test(t, odd_values, 0, 2);
    tcase_add_test(t, float32_by_every_path);
    tcase_add_test(t, a_row_depends_on_its_position_alone);
    tcase_add_test(t, rotor_against_exact);
    tcase_add_loop_test(t, rows_together, 0, 3);
    tcase_add_test(t, wide_rows);
    tcase_add_test(t, zipped);
    suite_add_tcase(s, t);
    return s;
}
