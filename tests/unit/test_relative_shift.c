/* test_relative_shift.c - PE(p + k) = M(k) PE(p) with the rows of `sinusoidal`, in every convention; the group laws. */
#include "ask.h"

#include <math.h>

static const char *const conventions[] = {
    "embedding_dim=2",
    "embedding_dim=8",
    "embedding_dim=8&flip_sin_to_cos=true",
    "embedding_dim=8&layout=split",
    "embedding_dim=8&layout=split&flip_sin_to_cos=true",
    "embedding_dim=8&downscale_freq_shift=1",
    "embedding_dim=8&downscale_freq_shift=0.5&max_period=100",
    "embedding_dim=8&scale=-48&max_period=10",
    "embedding_dim=8&min_timescale=2&max_timescale=500&layout=split",
    "embedding_dim=8&max_timescale=500",
    "embedding_dim=8&max_period=1",
    "embedding_dim=8&max_period=0.5",
    "embedding_dim=9&odd_dim=zero_pad",
    "embedding_dim=9&odd_dim=zero_pad&layout=split&flip_sin_to_cos=true",
    "embedding_dim=1&odd_dim=zero_pad",
};

static posenc_answer matrix(const char *convention, double k)
{
    char query[300];
    snprintf(query, sizeof query, "dtype=float64&k=%.17g&%s", k, convention);
    return ask("relative_shift", query);
}

/* The positions are such that p, k and p + k are exact. */
START_TEST(moves_rows)
{
    static const double positions[] = { 0, 1, -17, 2.5, 1000003, 4503599627370496 },
                        offsets[] = { 1, -1, 0.25, 100, 131071.5, -0.5 };
    for (size_t i = 0; i < LEN(offsets); i++) {
        posenc_answer m = matrix(conventions[_i], offsets[i]);
        const int64_t d = m.result.tensor[0].shape[0];
        for (size_t j = 0; j < LEN(positions); j++) {
            char query[300];
            snprintf(query, sizeof query, "dtype=float64&positions=%.17g,%.17g&%s", positions[j], positions[j] + offsets[i],
                     conventions[_i]);
            if (positions[j] > 1e15 && offsets[i] != floor(offsets[i]))
                continue;
            posenc_answer pe = ask("sinusoidal", query);
            ck_assert_int_eq(pe.result.tensor[0].shape[1], d);
            for (int64_t row = 0; row < d; row++) {
                double sum = 0;
                for (int64_t c = 0; c < d; c++)
                    sum += at(&m, row * d + c) * at(&pe, c);
                ck_assert_msg(fabs(sum - at(&pe, d + row)) <= 6e-16, "%s: row %d is off by %g", query, (int)row,
                              sum - at(&pe, d + row));
            }
            posenc_answer_fini(&pe);
        }
        posenc_answer_fini(&m);
    }
}
END_TEST

START_TEST(group)
{
    posenc_answer zero = matrix(conventions[_i], 0), a = matrix(conventions[_i], 3), b = matrix(conventions[_i], 4.5),
                  sum = matrix(conventions[_i], 7.5), back = matrix(conventions[_i], -3);
    const int64_t d = zero.result.tensor[0].shape[0];
    expect_shape(tensor_of(&zero, "matrix"), 2, (int64_t[]){ d, d });
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++) {
            double product = 0;
            for (int64_t j = 0; j < d; j++)
                product += at(&a, i * d + j) * at(&b, j * d + k);
            ck_assert(at(&zero, i * d + k) == (i == k) && !signbit(at(&zero, i * d + k)));
            ck_assert(fabs(product - at(&sum, i * d + k)) <= 6e-16);
            ck_assert(at(&back, i * d + k) == at(&a, k * d + i));
        }
    posenc_answer_fini(&zero);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&sum);
    posenc_answer_fini(&back);
}
END_TEST

/* The entries are where the formula says, and the rest is zero. */
START_TEST(entries)
{
    posenc_answer a = ask("relative_shift", "embedding_dim=4&k=3"),
                  b = ask("relative_shift", "embedding_dim=4&k=3&layout=split");
    const float s0 = (float)sin(3), c0 = (float)cos(3), s1 = (float)sin(0.03), c1 = (float)cos(0.03);
    const float x[] = { c0, s0, 0, 0, -s0, c0, 0, 0, 0, 0, c1, s1, 0, 0, -s1, c1 },
                y[] = { c0, 0, s0, 0, 0, c1, 0, s1, -s0, 0, c0, 0, 0, -s1, 0, c1 };
    ck_assert_mem_eq(a.result.tensor[0].data, x, sizeof x);
    ck_assert_mem_eq(b.result.tensor[0].data, y, sizeof y);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    a = ask("relative_shift", "embedding_dim=2&k=0.5&dtype=bfloat16");
    ck_assert_uint_eq(((uint16_t *)a.result.tensor[0].data)[1], 0x3ef5);
    ck_assert_uint_eq(((uint16_t *)a.result.tensor[0].data)[2], 0xbef5);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(keys) { expect_key("relative_shift", "embedding_dim=8&k=-0.1&min_timescale=3&layout=split"); }
END_TEST

static const refusal bad[] = {
    { "embedding_dim=8", "k", "required" },
    { "k=1", "embedding_dim", "required" },
    { "embedding_dim=8&k=nan", "k", "finite" },
    { "embedding_dim=8&k=1e17", "k", "finite number in" },
    { "embedding_dim=7&k=1", "embedding_dim", "even" },
    { "embedding_dim=7&k=1&odd_dim=sin_extra", "odd_dim", "zero_pad" },
    { "embedding_dim=8&k=1&odd_dim=round_up_truncate", "odd_dim", "zero_pad" },
    { "embedding_dim=2&k=1&downscale_freq_shift=1", "downscale_freq_shift", "over 0" },
    { "embedding_dim=8&k=1&scale=1e100&min_timescale=1e100&max_timescale=1e-90", "max_timescale", "2^900" },
    { "embedding_dim=8&k=1&normalize=patchtst", "normalize", "" },
    { "embedding_dim=0&k=1", "embedding_dim", "1 .." },
};

START_TEST(refusals) { refuses("relative_shift", &bad[_i]); }
END_TEST

START_TEST(stops) { expect_stop("relative_shift", "embedding_dim=8192&k=1"); }
END_TEST

Suite *relative_shift_suite(void);
Suite *relative_shift_suite(void)
{
    Suite *s = suite_create("relative_shift");
    TCase *t = tcase_create("relative_shift");
    tcase_add_loop_test(t, moves_rows, 0, (int)LEN(conventions));
    tcase_add_loop_test(t, group, 0, (int)LEN(conventions));
    tcase_add_test(t, entries);
    tcase_add_test(t, keys);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
