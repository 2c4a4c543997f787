/* test_learned_extend.c - each method against its definition, what people stumble over, bad input. */
#include "ask.h"

#include <math.h>

static double cell(const posenc_answer *a, int64_t row, int64_t column)
{
    const posenc_tensor *t = &a->result.tensor[0];
    return posenc_tensor_get(t, row * t->shape[1] + column);
}

/* A table of two columns: exact in float32, no two neighbours alike. */
static double old(int64_t row, int column) { return column ? (double)(row * row % 37) / 4 - 3 : (double)(row * 7 % 11) / 8; }

/* The answer for that table of n rows. */
static posenc_answer extended(int64_t n, const char *rest)
{
    char *query = malloc((size_t)n * 40 + 200);
    int used = sprintf(query, "dtype=float64&%s&table=[", rest);
    for (int64_t i = 0; i < n; i++)
        used += sprintf(query + used, "%s[%.6g,%.6g]", i ? "," : "", old(i, 0), old(i, 1));
    sprintf(query + used, "]");
    posenc_answer a = ask("learned_extend", query);
    free(query);
    ck_assert_int_eq(a.result.ntensors, 2);
    ck_assert_str_eq(a.result.tensor[1].name, "trainable");
    ck_assert_int_eq(a.result.tensor[1].dtype, PE_uint8);
    return a;
}

static posenc_answer extended_to(int64_t n, int64_t length, const char *rest)
{
    char text[200];
    snprintf(text, sizeof text, "new_length=%lld&%s", (long long)length, rest);
    return extended(n, text);
}

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* ---- interpolation ---- */

/* Keys' kernel in its two textbook pieces. */
static double keys(double x, double a)
{
    x = fabs(x);
    return x <= 1  ? (a + 2) * x * x * x - (a + 3) * x * x + 1
           : x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a
                   : 0;
}

static double hat(double x, double unused) { return unused < 1 && fabs(x) < 1 ? 1 - fabs(x) : 0; }

static const struct {
    int64_t from, to;
} lengths[] = { { 1, 1 },  { 1, 7 },   { 2, 1 }, { 2, 5 },   { 7, 1 },  { 5, 16 },
                { 16, 5 }, { 12, 17 }, { 9, 9 }, { 64, 65 }, { 3, 300 } };

/* A sum over all old rows, each at the place that torch gives it, by the kernel. */
static void by_kernel(int64_t n, int64_t m, const char *query, bool align, bool floored, double (*kernel)(double, double),
                      double a)
{
    posenc_answer got = extended_to(n, m, query);
    for (int64_t j = 0; j < m; j++)
        for (int c = 0; c < 2; c++) {
            double x = align ? m > 1 ? (double)(j * (n - 1)) / (double)(m - 1) : 0
                             : ((double)j + 0.5) * (double)n / (double)m - 0.5;
            double want = 0;
            x = floored && x < 0 ? 0 : x;
            for (int64_t i = (int64_t)floor(x) - 3; i <= (int64_t)floor(x) + 3; i++)
                want += kernel(x - (double)i, a) * old(clamp(i, n), c);
            ck_assert_msg(fabs(cell(&got, j, c) - want) < 1e-12, "%s %d to %d: row %d is %.17g, want %.17g", query, (int)n,
                          (int)m, (int)j, cell(&got, j, c), want);
        }
    posenc_answer_fini(&got);
}

START_TEST(interpolation)
{
    const int64_t n = lengths[_i].from, m = lengths[_i].to;
    by_kernel(n, m, "method=linear", false, true, hat, 0);
    by_kernel(n, m, "method=linear&align_corners=true", true, true, hat, 0);
    by_kernel(n, m, "method=cubic", false, false, keys, -0.75);
    by_kernel(n, m, "method=cubic&align_corners=true", true, false, keys, -0.75);
    by_kernel(n, m, "method=cubic&cubic_a=-0.5", false, false, keys, -0.5);
    by_kernel(n, m, "method=cubic&cubic_a=0", false, false, keys, 0);
    posenc_answer a = extended_to(n, m, "method=nearest"), b = extended_to(n, m, "method=nearest-exact");
    for (int64_t j = 0; j < m; j++)
        for (int c = 0; c < 2; c++) {
            ck_assert(cell(&a, j, c) == old(j * n / m, c));
            ck_assert(cell(&b, j, c) == old((2 * j + 1) * n / (2 * m), c));
            ck_assert_int_eq(((uint8_t *)a.result.tensor[1].data)[j], n != m);
        }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* With align_corners=false the new end rows of BERT's 512 -> 1024 are the old ones, twice; only true spreads the ends. */
START_TEST(bert_ends)
{
    posenc_answer a = extended(512, "new_length=1024"), b = extended(512, "new_length=1024&align_corners=true");
    for (int c = 0; c < 2; c++) {
        ck_assert(cell(&a, 0, c) == old(0, c) && cell(&a, 1023, c) == old(511, c));
        ck_assert(cell(&a, 1, c) == 0.75 * old(0, c) + 0.25 * old(1, c));
        ck_assert(cell(&b, 0, c) == old(0, c) && cell(&b, 1023, c) == old(511, c));
        ck_assert_double_eq_tol(cell(&b, 1, c), old(0, c) + (old(1, c) - old(0, c)) * 511 / 1023, 1e-15);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(nearest_leans_left) /* 3 -> 5: 0 0 1 1 2, where nearest-exact has 0 0 1 2 2 */
{
    static const int left[] = { 0, 0, 1, 1, 2 }, exact[] = { 0, 0, 1, 2, 2 };
    posenc_answer a = extended(3, "new_length=5&method=nearest"), b = extended(3, "new_length=5&method=nearest-exact");
    for (int j = 0; j < 5; j++)
        ck_assert(cell(&a, j, 0) == old(left[j], 0) && cell(&b, j, 0) == old(exact[j], 0));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Where a weight is 0 it does not touch the result, and the ends of a grid of quotients are hit exactly. */
/* torch.nn.functional.interpolate, whose step is a float32, takes the row before at these places: 2 -> 82 row 41, and
 * 2 -> 41 row 20 with nearest-exact. */
START_TEST(nearest_as_torch)
{
    static const struct {
        const char *method;
        int rows, place;
    } cases[] = { { "nearest", 82, 41 }, { "nearest-exact", 41, 20 } };
    for (size_t i = 0; i < 2; i++)
        for (int single = 0; single < 2; single++) {
            char query[200];
            snprintf(query, sizeof query, "table=[[0],[1]]&new_length=%d&method=%s&compute_dtype=%s", cases[i].rows,
                     cases[i].method, single ? "float32" : "float64");
            posenc_answer a = ask("learned_extend", query);
            for (int k = 0; k < cases[i].rows; k++)
                ck_assert(at(&a, k) == (k >= cases[i].place + single));
            posenc_answer_fini(&a);
        }
}
END_TEST

START_TEST(exact_places)
{
    posenc_answer a = extended(50, "new_length=99&align_corners=true&method=cubic");
    for (int j = 0; j < 99; j += 2)
        ck_assert(cell(&a, j, 0) == old(j / 2, 0) && cell(&a, j, 1) == old(j / 2, 1));
    posenc_answer_fini(&a);
}
END_TEST

/* ---- the spline ---- */

/* n equal rows determine a polynomial of degree below min(n, 4), which the spline is. */
START_TEST(splines_reproduce)
{
    const int n = _i + 1, degree = n < 4 ? n - 1 : 3, m = 3 * n + 2;
    char query[1000];
    int used = sprintf(query, "method=cubic_spline&new_length=%d&dtype=float64&table=[", m);
    for (int i = 0; i < n; i++)
        used += sprintf(query + used, "%s[%d,1]", i ? "," : "",
                        degree == 3   ? i * i * i - 6 * i * i + 2
                        : degree == 2 ? i * i - 3 * i
                        : degree == 1 ? 5 - 2 * i
                                      : 4);
    strcat(query, "]");
    posenc_answer a = ask("learned_extend", query);
    for (int j = 0; j < m; j++) {
        double x = (double)j * (n - 1) / (m - 1);
        double want = degree == 3 ? x * x * x - 6 * x * x + 2 : degree == 2 ? x * x - 3 * x : degree == 1 ? 5 - 2 * x : 4;
        ck_assert_double_eq_tol(cell(&a, j, 0), want, 1e-11);
        ck_assert_double_eq_tol(cell(&a, j, 1), 1, 1e-14);
    }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(spline_of_scipy) /* scipy.interpolate.CubicSpline(arange(6), y)(linspace(0, 5, 9)) */
{
    static const double want[] = { 1.0,
                                   -1.832845052083333,
                                   -1.6627604166666667,
                                   0.08610026041666641,
                                   2.0312499999999996,
                                   3.0999348958333335,
                                   2.736979166666667,
                                   1.2347005208333335,
                                   -1.0 };
    posenc_answer a = ask("learned_extend", "method=cubic_spline&new_length=9&dtype=float64&align_corners=true&table="
                                            "[[1],[-2],[0.5],[3],[2.25],[-1]]");
    for (int j = 0; j < 9; j++)
        ck_assert_double_eq_tol(cell(&a, j, 0), want[j], 1e-14);
    posenc_answer_fini(&a);
    /* more columns than are taken at a time, each for itself; reserved rows stand aside */
    a = ask("learned_extend",
            "method=cubic_spline&new_length=10&reserved_rows=1&dtype=float64&table="
            "[[9,9,9,9,9,9,9,9,9,9,9],[1,0,0,0,0,0,0,0,0,1,2],[-2,0,0,0,0,0,0,0,0,-2,-4],[0.5,0,0,0,0,0,0,0,0,0.5,1],"
            "[3,0,0,0,0,0,0,0,0,3,6],[2.25,0,0,0,0,0,0,0,0,2.25,4.5],[-1,0,0,0,0,0,0,0,0,-1,-2]]");
    ck_assert(cell(&a, 0, 0) == 9 && cell(&a, 0, 10) == 9);
    for (int j = 0; j < 9; j++) {
        ck_assert_double_eq_tol(cell(&a, j + 1, 0), want[j], 1e-14);
        ck_assert(cell(&a, j + 1, 1) == 0 && cell(&a, j + 1, 9) == cell(&a, j + 1, 0) &&
                  cell(&a, j + 1, 10) == 2 * cell(&a, j + 1, 0));
    }
    posenc_answer_fini(&a);
}
END_TEST

/* ---- rows beyond the old ones ---- */

static void old_rows_kept(const posenc_answer *a, int64_t n)
{
    const posenc_tensor *marks = &a->result.tensor[1];
    ck_assert_int_eq(marks->shape[0], a->result.tensor[0].shape[0]);
    for (int64_t j = 0; j < marks->shape[0]; j++)
        ck_assert(posenc_tensor_get(marks, j) == (j >= n));
    for (int64_t j = 0; j < n; j++)
        ck_assert(cell(a, j, 0) == old(j, 0) && cell(a, j, 1) == old(j, 1));
}

START_TEST(tiles)
{
    posenc_answer a = extended(18, "new_length=51&method=tile&reserved_rows=2");
    old_rows_kept(&a, 18);
    for (int j = 0; j < 49; j++)
        ck_assert(cell(&a, j + 2, 0) == old(2 + j % 16, 0) && cell(&a, j + 2, 1) == old(2 + j % 16, 1));
    posenc_answer_fini(&a);
    a = extended(5, "new_length=8&method=repeat_last&reserved_rows=1");
    old_rows_kept(&a, 5);
    for (int j = 5; j < 8; j++)
        ck_assert(cell(&a, j, 0) == old(4, 0) && cell(&a, j, 1) == old(4, 1));
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(hierarchical)
{
    static const double alphas[] = { 0.4, 0.25, 0.9 };
    const double alpha = alphas[_i];
    const int r = 2 * _i, n = 5;
    char rest[100];
    snprintf(rest, sizeof rest, "new_length=%d&method=hierarchical&alpha=%g&reserved_rows=%d", n * n + r, alpha, r);
    posenc_answer a = extended(n + r, rest);
    old_rows_kept(&a, n + r); /* also bit by bit, which the formula with u would not give */
    for (int j = 0; j < n * n; j++)
        for (int c = 0; c < 2; c++) {
            double u = (old(r + j / n, c) - alpha * old(r, c)) / (1 - alpha),
                   v = (old(r + j % n, c) - alpha * old(r, c)) / (1 - alpha);
            ck_assert_double_eq_tol(cell(&a, j + r, c), alpha * u + (1 - alpha) * v, 1e-12);
        }
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(random_rows)
{
    posenc_answer a = extended(3, "new_length=9&method=random&seed=7"),
                  b = extended(5, "new_length=700&method=random&seed=7&initializer_range=1"),
                  c = extended(3, "new_length=9&method=random&seed=8");
    old_rows_kept(&a, 3);
    old_rows_kept(&b, 5);
    double sum = 0, squares = 0;
    for (int j = 5; j < 9; j++)
        for (int k = 0; k < 2; k++) {
            ck_assert_double_eq_tol(cell(&a, j, k), 0.02 * cell(&b, j, k), 1e-17); /* neither length matters to a row */
            ck_assert(cell(&a, j, k) != cell(&c, j, k));
        }
    for (int j = 5; j < 700; j++)
        for (int k = 0; k < 2; k++) {
            sum += cell(&b, j, k);
            squares += cell(&b, j, k) * cell(&b, j, k);
        }
    ck_assert(fabs(sum / 1390) < 0.1 && fabs(squares / 1390 - 1) < 0.15);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

START_TEST(sine_rows)
{
    static const struct {
        const char *table, *options, *peer;
        int first, reserved;
        double scale;
    } cases[] = {
        { "[[1,2,3,4],[5,6,7,8]]", "", "embedding_dim=4", 2, 0, 1 },
        { "[[1,2,3,4],[5,6,7,8],[0,0,0,0]]", "&reserved_rows=2&layout=split&scale_output=0.5",
          "embedding_dim=4&layout=split", 3, 2, 0.5 },
        { "[[1,2,3,4,5]]", "&odd_dim=zero_pad&downscale_freq_shift=1&flip_sin_to_cos=true&max_period=100",
          "embedding_dim=5&odd_dim=zero_pad&downscale_freq_shift=1&flip_sin_to_cos=true&max_period=100", 1, 0, 1 },
    };
    char query[400];
    snprintf(query, sizeof query, "new_length=12&method=sinusoidal&dtype=float64&table=%s%s", cases[_i].table,
             cases[_i].options);
    posenc_answer a = ask("learned_extend", query);
    snprintf(query, sizeof query, "num_positions=12&dtype=float64&%s", cases[_i].peer);
    posenc_answer b = ask("sinusoidal", query);
    ck_assert(cell(&a, 0, 0) == 1);
    for (int64_t j = cases[_i].first; j < 12; j++)
        for (int64_t k = 0; k < a.result.tensor[0].shape[1]; k++)
            ck_assert(cell(&a, j, k) == cases[_i].scale * cell(&b, j - cases[_i].reserved, k));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(shorter)
{
    static const char *const methods[] = { "tile", "repeat_last", "random&seed=1", "sinusoidal", "hierarchical" };
    char rest[100];
    snprintf(rest, sizeof rest, "new_length=4&reserved_rows=2&truncate=true&method=%s", methods[_i]);
    posenc_answer a = extended(9, rest);
    old_rows_kept(&a, 4);
    posenc_answer_fini(&a);
    snprintf(rest, sizeof rest, "new_length=9&method=%s", methods[_i]);
    a = extended(9, rest);
    old_rows_kept(&a, 9);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(reserved_rows_stay)
{
    posenc_answer a = extended(6, "new_length=10&reserved_rows=2"), b = extended(6, "new_length=4&reserved_rows=2");
    for (int j = 0; j < 2; j++)
        for (int c = 0; c < 2; c++)
            ck_assert(cell(&a, j, c) == old(j, c) && cell(&b, j, c) == old(j, c));
    ck_assert(cell(&a, 2, 0) == old(2, 0) && cell(&a, 3, 0) == 0.75 * old(2, 0) + 0.25 * old(3, 0));
    ck_assert(cell(&b, 2, 0) == (old(2, 0) + old(3, 0)) / 2 && cell(&b, 3, 1) == (old(4, 1) + old(5, 1)) / 2);
    ck_assert(posenc_tensor_get(&a.result.tensor[1], 1) == 0 && posenc_tensor_get(&a.result.tensor[1], 2) == 1);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Sums are rounded once: 1/4 + 3/4 (1 + 2^-10) in float16 is not the sum of rounded halves. */
START_TEST(dtypes)
{
    posenc_answer a = ask("learned_extend", "table=[[1],[1.0009765625]]&new_length=4&dtype=float16");
    ck_assert(cell(&a, 1, 0) == 1 && cell(&a, 2, 0) == 1.0009765625);
    ck_assert_int_eq(a.result.tensor[0].dtype, PE_float16);
    posenc_answer_fini(&a);
    a = ask("learned_extend", "table=[[65504],[-65504]]&new_length=3&dtype=float16");
    ck_assert(cell(&a, 0, 0) == 65504 && cell(&a, 1, 0) == 0 && cell(&a, 2, 0) == -65504);
    posenc_answer_fini(&a);
    a = ask("learned_extend", "table=[[3.4028234663852886e38],[3.4028234663852886e38]]&new_length=7");
    for (int j = 0; j < 7; j++)
        ck_assert(isfinite(cell(&a, j, 0)));
    posenc_answer_fini(&a);
}
END_TEST

/* The key says what was resolved, and is a request itself. */
START_TEST(keys_round_trip)
{
    static const char *const queries[] = {
        "method=cubic_spline",  "method=linear",     "method=tile",
        "method=random&seed=3", "method=sinusoidal", "method=hierarchical",
    };
    static const char *const again[] = {
        "method=cubic_spline&align_corners=true&reserved_rows=0&truncate=false",
        "align_corners=false",
        "method=tile&align_corners=false&truncate=false",
        "method=random&seed=3&initializer_range=0.02",
        "method=sinusoidal&max_period=10000&layout=interleaved&flip_sin_to_cos=false&odd_dim=error&scale_output=1",
        "method=hierarchical&alpha=0.4",
    };
    char query[300];
    snprintf(query, sizeof query, "table=[[1,2],[3,5]]&new_length=3&%s", queries[_i]);
    posenc_answer a = ask("learned_extend", query);
    snprintf(query, sizeof query, "table=[[1,2],[3,5]]&new_length=3&%s", again[_i]);
    posenc_answer b = ask("learned_extend", query);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

/* Every method looks at its context again and again, and leaves nothing behind when told to stop. */
static posenc_status cancel_at_third(void *calls) { return ++*(int *)calls < 3 ? PE_OK : PE_CANCELLED; }

START_TEST(cancelled)
{
    static const char *const methods[] = { "linear",      "nearest",    "cubic",         "cubic_spline", "tile",
                                           "repeat_last", "sinusoidal", "random&seed=1", "hierarchical" };
    char query[200];
    int calls = 0;
    posenc_answer a;
    posenc_error err = { 0 };
    posenc_context ctx = { .stop = cancel_at_third, .user = &calls };
    int used = snprintf(query, sizeof query, "new_length=%d&method=%s&table=[[1,2,3,4]", _i == 8 ? 36 : 1 << 20,
                        methods[_i]);
    for (int i = 0; i < 5; i++)
        used += snprintf(query + used, sizeof query - (size_t)used, ",[5,6,7,%d]", i);
    strcat(query, "]");
    ck_assert_int_eq(posenc_encode("learned_extend", query, NULL, &a, &ctx, &err), _i == 8 ? PE_OK : PE_CANCELLED);
    ck_assert_int_ge(calls, 2);
    posenc_answer_fini(&a);
}
END_TEST

static const refusal bad[] = {
    { "new_length=4", "table" },
    { "table=[[1,2],[3,4]]&new_length=4&compute_dtype=float32", "compute_dtype" },
    { "table=[[1,2],[3,4]]", "new_length" },
    { "table=[[1,2],[3,4]]&new_length=0", "new_length" },
    { "table=[[1,2],[3,4]]&new_length=99999999999", "new_length" },
    { "table=[1,2,3]&new_length=4", "table" },
    { "table=[[[1,2,3]]]&new_length=4", "table" },
    { "table=[[1,2],[3,4]]&new_length=4&method=spline", "method" },
    { "table=[[1,2],[3,4]]&new_length=4&reserved_rows=2", "reserved_rows" },
    { "table=[[1,2],[3,4]]&new_length=1&reserved_rows=1", "reserved_rows" },
    { "table=[[1,2],[3,4]]&new_length=1&method=tile", "new_length" },
    { "table=[[1,2],[3,4]]&new_length=1&method=random&seed=0", "new_length" },
    { "table=[[1,2],[3,4]]&new_length=5&method=hierarchical", "new_length" },
    { "table=[[1,2],[3,4],[5,6]]&new_length=6&method=hierarchical&reserved_rows=1", "new_length" },
    { "table=[[1,2],[3,4]]&new_length=4&method=hierarchical&alpha=0.5", "alpha" },
    { "table=[[1,2],[3,4]]&new_length=4&method=hierarchical&alpha=0", "alpha" },
    { "table=[[1,2],[3,4]]&new_length=4&method=hierarchical&alpha=1", "alpha" },
    { "table=[[1,2],[3,4]]&new_length=4&method=hierarchical&alpha=-1", "alpha" },
    { "table=[[1,2],[3,4]]&new_length=4&method=random", "seed" },
    { "table=[[1,2],[3,4]]&new_length=4&method=random&seed=1&initializer_range=-1", "initializer_range" },
    { "table=[[1,2],[3,4]]&new_length=4&seed=1", "seed" },
    { "table=[[1,2],[3,4]]&new_length=4&cubic_a=-0.5", "cubic_a" },
    { "table=[[1,2],[3,4]]&new_length=4&method=cubic&cubic_a=0.5", "cubic_a" },
    { "table=[[1,2],[3,4]]&new_length=4&method=nearest&align_corners=true", "align_corners" },
    { "table=[[1,2],[3,4]]&new_length=4&method=tile&align_corners=true", "align_corners" },
    { "table=[[1,2],[3,4]]&new_length=4&method=cubic_spline&align_corners=false", "align_corners" },
    { "table=[[1,2],[3,4]]&new_length=4&truncate=true", "truncate" },
    { "table=[[1],[3]]&new_length=4&method=sinusoidal", "odd_dim" },
    { "table=[[1,2],[3,4]]&new_length=4&method=sinusoidal&downscale_freq_shift=1", "downscale_freq_shift" },
    { "table=[[1,2,3,4]]&new_length=4&method=sinusoidal&max_period=1e-100&downscale_freq_shift=1.9", "max_period" },
    { "table=[[1,2],[3,65505]]&new_length=4&dtype=float16", "table[1][1]" },
    { "table=[[1,2],[3,50000]]&new_length=4&dtype=float16&method=cubic", "table[1][1]" },
    { "table=[[1e39,2],[3,4]]&new_length=4", "table[0][0]" },
    { "table=[[1e308,2],[3,4]]&new_length=4&dtype=float64&method=hierarchical", "table[0][0]" },
    { "table=[[1,2],[3,4]]&new_length=4&length=5", "length" },
};

START_TEST(bad_input) { refuses("learned_extend", &bad[_i]); }
END_TEST

Suite *learned_extend_suite(void);
Suite *learned_extend_suite(void)
{
    Suite *s = suite_create("learned_extend");
    TCase *t = tcase_create("learned_extend");
    tcase_add_loop_test(t, interpolation, 0, (int)LEN(lengths));
    tcase_add_test(t, bert_ends);
    tcase_add_test(t, nearest_leans_left);
    tcase_add_test(t, nearest_as_torch);
    tcase_add_test(t, exact_places);
    tcase_add_loop_test(t, splines_reproduce, 0, 9);
    tcase_add_test(t, spline_of_scipy);
    tcase_add_test(t, tiles);
    tcase_add_loop_test(t, hierarchical, 0, 3);
    tcase_add_test(t, random_rows);
    tcase_add_loop_test(t, sine_rows, 0, 3);
    tcase_add_loop_test(t, shorter, 0, 5);
    tcase_add_test(t, reserved_rows_stay);
    tcase_add_test(t, dtypes);
    tcase_add_loop_test(t, keys_round_trip, 0, 6);
    tcase_add_loop_test(t, cancelled, 0, 9);
    tcase_add_loop_test(t, bad_input, 0, (int)LEN(bad));
    suite_add_tcase(s, t);
    return s;
}
