/* test_continuous_sinusoidal.c - origin and unit before any rounding, calendar times, mTAN's settings, bad input. */
#include "ask.h"

#include <math.h>

/* With neither origin nor unit it is `sinusoidal` at those positions, in every convention. */
static const char *const conventions[] = {
    "embedding_dim=8",
    "embedding_dim=7&odd_dim=zero_pad&layout=split&flip_sin_to_cos=true",
    "embedding_dim=7&odd_dim=sin_extra&max_period=100",
    "embedding_dim=7&odd_dim=round_up_truncate&scale=-48",
    "embedding_dim=8&downscale_freq_shift=1&min_timescale=2&max_timescale=500",
    "embedding_dim=8&max_timescale=500&flip_sin_to_cos=true",
    "embedding_dim=8&compute_dtype=float32&freq_form=pow",
    "embedding_dim=2&downscale_freq_shift=1&min_timescale=1",
};

START_TEST(as_sinusoidal)
{
    char query[300];
    snprintf(query, sizeof query, "dtype=float64&timestamps=0,1,-2.5,1000.125,12345678&%s", conventions[_i]);
    posenc_answer a = ask("continuous_sinusoidal", query);
    snprintf(query, sizeof query, "dtype=float64&positions=0,1,-2.5,1000.125,12345678&%s", conventions[_i]);
    posenc_answer b = ask("sinusoidal", query);
    ck_assert_uint_eq(posenc_tensor_size(&a.result.tensor[0]), posenc_tensor_size(&b.result.tensor[0]));
    ck_assert_mem_eq(a.result.tensor[0].data, b.result.tensor[0].data, posenc_tensor_size(&a.result.tensor[0]));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* A clock reads 1.7e9 s: a float32 would hold it to 128 s. One microsecond must show. */
START_TEST(origin_first)
{
    posenc_answer a = ask("continuous_sinusoidal",
                          "timestamps=1700000000,1700000000.25,1700003600,1700000001&time_origin=1700000000&time_unit=3600"
                          "&embedding_dim=4&max_period=100&dtype=float64");
    static const double elapsed[] = { 0, 0.25, 3600, 1 };
    for (int64_t r = 0; r < 4; r++)
        for (int64_t i = 0; i < 2; i++) {
            const double angle = elapsed[r] / 3600 * (i ? 0.1 : 1);
            ck_assert(fabs(at(&a, 4 * r + 2 * i) - sin(angle)) <= 3e-16 * fabs(angle));
            ck_assert(fabs(at(&a, 4 * r + 2 * i + 1) - cos(angle)) <= 3e-16);
        }
    posenc_answer_fini(&a);
    /* in float32, too, the reduced time is rounded and not the reading */
    a = ask("continuous_sinusoidal", "timestamps=1700000001&time_origin=1700000000&embedding_dim=2&compute_dtype=float32");
    ck_assert(at(&a, 0) == (double)(float)sin(1));
    posenc_answer_fini(&a);
    /* the quotient by a unit that no binary fraction holds: an angle of 10^6 turns, right to the last bits */
    posenc_answer b = ask("continuous_sinusoidal", "timestamps=3000000&time_unit=3&embedding_dim=2&dtype=float64"),
                  c = ask("continuous_sinusoidal", "timestamps=1000000&embedding_dim=2&dtype=float64"),
                  d = ask("continuous_sinusoidal", "timestamps=1&time_unit=1e-10&embedding_dim=2&dtype=float64");
    ck_assert(at(&b, 0) == at(&c, 0) && at(&b, 1) == at(&c, 1));
    /* 1e-10 as a float64 is 1.00000000000000003643219731549774157916554706559963960899e-10: the quotient is
     * 9999999999.99999963567802684502258421 */
    ck_assert(fabs(at(&d, 0) - (double)sinl(9999999999.99999963567802684502258421L)) < 1e-9);
    ck_assert(fabs(at(&d, 0) - sin(1e10)) > 1e-8);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
}
END_TEST

static const struct {
    const char *iso, *seconds;
} calendar[] = {
    { "1970-01-01", "0" },
    { "1970-01-01T00:00:01Z", "1" },
    { "1969-12-31T23:59:59.5Z", "-0.5" },
    { "2024-02-29T12:00:00Z", "1709208000" },
    { "2024-02-29T12:00", "1709208000" },
    { "2024-02-29T13:30:00+01:30", "1709208000" },
    { "2024-02-29T13:30:00.0+0130", "1709208000" },
    { "2024-02-29T04:00:00-08", "1709208000" },
    { "2024-03-01T00:00:00Z", "1709251200" },
    { "2000-02-29T00:00:00Z", "951782400" },
    { "1900-03-01T00:00:00Z", "-2203891200" },
    { "0001-01-01T00:00:00Z", "-62135596800" },
    { "9999-12-31T23:59:59Z", "253402300799" },
    { "2038-01-19T03:14:08Z", "2147483648" },
    { "2023-11-14T22:13:20.123046875Z", "1700000000.123046875" },
};

START_TEST(calendar_times)
{
    char query[200];
    snprintf(query, sizeof query, "timestamps_iso=%s&embedding_dim=16&dtype=float64", calendar[_i].iso);
    posenc_answer a = ask("continuous_sinusoidal", query);
    snprintf(query, sizeof query, "timestamps=%s&embedding_dim=16&dtype=float64", calendar[_i].seconds);
    posenc_answer b = ask("continuous_sinusoidal", query);
    ck_assert_msg(!memcmp(a.result.tensor[0].data, b.result.tensor[0].data, 16 * 8), "%s", calendar[_i].iso);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* A tenth of a second after 1.7e9 s is lost to a float64 of seconds (its step is 2.4e-7), not to the calendar time. */
START_TEST(decimal_fractions)
{
    posenc_answer a = ask("continuous_sinusoidal",
                          "timestamps_iso=2024-02-29T12:00:00.1Z,2024-02-29T12:00:00.000000000000000001Z"
                          "&time_origin_iso=2024-02-29T12:00:00Z&embedding_dim=2&dtype=float64"),
                  b = ask("continuous_sinusoidal",
                          "timestamps=1709208000.1&time_origin=1709208000&embedding_dim=2&dtype=float64");
    ck_assert(fabs(at(&a, 0) - sin(0.1)) <= 1.4e-17);
    ck_assert(at(&a, 2) == 1e-18);
    ck_assert(fabs(at(&b, 0) - sin(0.1)) > 1e-9);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(list_of_times)
{
    posenc_answer a = ask("continuous_sinusoidal", "timestamps_iso=2024-02-29,2024-02-29T06:00:00Z,2024-02-28T00:00Z"
                                                   "&time_origin=1709164800&time_unit=86400&embedding_dim=2&dtype=float64");
    static const double days[] = { 0, 0.25, -1 };
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 3, 2 });
    for (int64_t i = 0; i < 3; i++)
        ck_assert(fabs(at(&a, 2 * i) - sin(days[i])) < 2e-16);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(mtan)
{
    expect_same("continuous_sinusoidal", "timestamps=0.5&embedding_dim=8&preset=mtan",
                "timestamps=0.5&embedding_dim=8&max_period=10&scale=48&layout=interleaved");
    expect_same("continuous_sinusoidal", "timestamps=0.5&embedding_dim=8&preset=mtan&scale=1&layout=split",
                "timestamps=0.5&embedding_dim=8&max_period=10&layout=split");
    posenc_answer a = ask("continuous_sinusoidal", "timestamps=0.999&embedding_dim=8&preset=mtan&dtype=float64");
    for (int64_t i = 0; i < 4; i++)
        ck_assert(fabs(at(&a, 2 * i) - sin(48 * 0.999 * pow(10, -(double)i / 4))) < 3e-14);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty)
{
    posenc_answer a = ask_json("continuous_sinusoidal", "{\"timestamps\": [], \"embedding_dim\": 6}");
    expect_shape(tensor_of(&a, "embedding"), 2, (int64_t[]){ 0, 6 });
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(keys)
{
    expect_key("continuous_sinusoidal", "timestamps=0.5,1e9&time_origin=3&time_unit=0.1&embedding_dim=8&preset=mtan");
    expect_key("continuous_sinusoidal",
               "timestamps_iso=2024-02-29T12:00:00+01:00,2024-03-01&time_origin_iso=2024-02-29&embedding_dim=8");
}
END_TEST

static const refusal bad[] = {
    { "embedding_dim=8", "timestamps", "required" },
    { "timestamps=1", "embedding_dim", "required" },
    { "timestamps=1,inf&embedding_dim=8", "timestamps[1]", "finite" },
    { "timestamps=1&timestamps_iso=2024-01-01&embedding_dim=8", "timestamps_iso", "one of" },
    { "timestamps=1&time_origin=1&time_origin_iso=2024-01-01&embedding_dim=8", "time_origin_iso", "one of" },
    { "timestamps=1&time_unit=0&embedding_dim=8", "time_unit", "1e-30" },
    { "timestamps=1&time_unit=-1&embedding_dim=8", "time_unit", "1e-30" },
    { "timestamps=1&embedding_dim=7", "embedding_dim", "odd_dim" },
    { "timestamps=1&embedding_dim=2&downscale_freq_shift=1", "downscale_freq_shift", "over 0" },
    { "timestamps=1e18&time_unit=1e-30&embedding_dim=8&compute_dtype=float32", "scale", "2^120" },
    { "timestamps=1e18&time_unit=1e-30&scale=1e100&min_timescale=1e100&max_timescale=1e-90&embedding_dim=8", "max_timescale",
      "2^900" },
    { "timestamps=1&embedding_dim=8&max_period=1e-40&compute_dtype=float32", "max_period", "1e-36" },
    { "timestamps=1&embedding_dim=8&preset=tempo", "preset", "mtan" },
    { "timestamps=1700000000000000001&embedding_dim=8", "timestamps[0]", "finite" }, /* nanoseconds: no float64 */
    { "timestamps_iso=2023-02-29&embedding_dim=8", "timestamps_iso[0]", "exists" },
    { "timestamps_iso=2024-01-01,1900-02-29&embedding_dim=8", "timestamps_iso[1]", "exists" },
    { "timestamps_iso=2024-01-01,&embedding_dim=8", "timestamps_iso[1]", "ISO" },
    { "timestamps_iso=2024-13-01&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-00-01&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-04-31&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=0000-04-30&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-1-1&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=24-01-01&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T24:00:00Z&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:60&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2016-12-31T23:59:60Z&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00:00.Z&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00:00.0000000000000000001Z&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00.5Z&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00:00+1&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00:00+01:&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00:00+24:00&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01T12:00:00Zulu&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=2024-01-01Z&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps_iso=1700000000&embedding_dim=8", "timestamps_iso[0]", "ISO" },
    { "timestamps=1&time_origin_iso=yesterday&embedding_dim=8", "time_origin_iso", "ISO" },
};

START_TEST(refusals) { refuses("continuous_sinusoidal", &bad[_i]); }
END_TEST

START_TEST(stops)
{
    char query[20000] = "embedding_dim=65536&timestamps=0";
    for (size_t n = strlen(query), i = 0; i < 400; i++)
        n += (size_t)snprintf(query + n, sizeof query - n, ",%zu", i);
    expect_stop("continuous_sinusoidal", query);
}
END_TEST

Suite *continuous_sinusoidal_suite(void);
Suite *continuous_sinusoidal_suite(void)
{
    Suite *s = suite_create("continuous_sinusoidal");
    TCase *t = tcase_create("continuous_sinusoidal");
    tcase_add_loop_test(t, as_sinusoidal, 0, (int)LEN(conventions));
    tcase_add_test(t, origin_first);
    tcase_add_loop_test(t, calendar_times, 0, (int)LEN(calendar));
    tcase_add_test(t, decimal_fractions);
    tcase_add_test(t, list_of_times);
    tcase_add_test(t, mtan);
    tcase_add_test(t, empty);
    tcase_add_test(t, keys);
    tcase_add_loop_test(t, refusals, 0, (int)LEN(bad));
    tcase_add_test(t, stops);
    suite_add_tcase(s, t);
    return s;
}
