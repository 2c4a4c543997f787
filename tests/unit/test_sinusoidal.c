/* test_sinusoidal.c - conventions, rules, shapes. That the numbers are right to the last bit is test_exact.c's; that
 * they are those of other implementations is shown by the golden cases. */
#include "posenc.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

Suite *sinusoidal_suite(void);

#define LEN(a) (sizeof(a) / sizeof(a)[0])

/* ---- one request, from words and tensors to values ---- */

typedef struct tokens {
    const int64_t *ids, *mask; /* NULL: not given */
    int64_t rows, length;      /* rows 0: one axis only */
} tokens;

typedef struct answer {
    posenc_arena *arena;
    posenc_request request;
    posenc_result result;
    posenc_error err;
    char text[2000];
} answer;

static posenc_status set(answer *a, const char *name, const void *data, const tokens *t, posenc_dtype dtype)
{
    posenc_tensor v = {
        .name = name, .dtype = dtype, .rank = t->rows ? 2 : 1, .shape = { t->rows ? t->rows : t->length, t->length }
    };
    v.data = (void *)(uintptr_t)data;
    const posenc_table *table = &a->request.encoding->table;
    return posenc_set_tensor(table, posenc_row(table, name), a->request.params, &v, &a->err);
}

static posenc_status run(answer *a, const char *query, const tokens *t)
{
    *a = (answer){ .arena = posenc_arena_new(1 << 26) };
    ck_assert_int_eq(posenc_request_init(&a->request, "sinusoidal", a->arena, &a->err), PE_OK);
    posenc_request_parse(&a->request, query, &a->err);
    if (t && t->ids)
        set(a, "input_ids", t->ids, t, PE_int64);
    if (t && t->mask)
        set(a, "attention_mask", t->mask, t, PE_int64);
    if (!posenc_resolve(&a->request, &a->err)) {
        a->result = a->request.shape;
        for (int i = 0; i < a->result.ntensors; i++)
            a->result.tensor[i].data = posenc_alloc(a->arena, posenc_tensor_size(&a->result.tensor[i]) + 1);
        posenc_compute(&a->request, &a->result, NULL, &a->err);
    }
    posenc_error_text(&a->err, a->text, sizeof a->text);
    return a->err.status;
}

static void done(answer *a) { posenc_arena_free(a->arena); }

static double element(const answer *a, int tensor, int64_t i) { return posenc_tensor_get(&a->result.tensor[tensor], i); }

/* ---- values ---- */

/* A table in words: per row of `positions` and column, which function of which frequency. */
typedef struct convention {
    const char *query; /* without num_positions */
    int64_t d;
    const char *columns;        /* a letter and a digit a column: s2 is sin(pos * w[2]), c2 its cosine, 00 is zero */
    double base, n, multiplier; /* w[i] = multiplier * base^(-i / n) */
} convention;

static const convention conventions[] = {
    { "embedding_dim=6", 6, "s0c0s1c1s2c2", 10000, 3, 1 },
    { "embedding_dim=6&flip_sin_to_cos=true", 6, "c0s0c1s1c2s2", 10000, 3, 1 },
    { "embedding_dim=6&layout=split", 6, "s0s1s2c0c1c2", 10000, 3, 1 },
    { "embedding_dim=6&layout=split&flip_sin_to_cos=true", 6, "c0c1c2s0s1s2", 10000, 3, 1 },
    { "embedding_dim=6&downscale_freq_shift=1", 6, "s0c0s1c1s2c2", 10000, 2, 1 },
    { "embedding_dim=6&downscale_freq_shift=0.5", 6, "s0c0s1c1s2c2", 10000, 2.5, 1 },
    { "embedding_dim=6&max_period=1", 6, "s0c0s1c1s2c2", 1, 3, 1 },
    { "embedding_dim=6&max_period=0.5", 6, "s0c0s1c1s2c2", 0.5, 3, 1 },
    { "embedding_dim=6&scale=-48", 6, "s0c0s1c1s2c2", 10000, 3, -48 },
    { "embedding_dim=6&min_timescale=2", 6, "s0c0s1c1s2c2", 10000, 3, 2 },
    { "embedding_dim=6&min_timescale=2&max_timescale=500", 6, "s0c0s1c1s2c2", 250, 3, 2 },
    { "embedding_dim=6&max_timescale=500&max_period=7", 6, "s0c0s1c1s2c2", 500, 3, 1 },
    { "embedding_dim=2&max_timescale=500&downscale_freq_shift=1", 2, "s0c0", 500, 1, 1 },
    { "embedding_dim=4&max_timescale=500&downscale_freq_shift=1.5", 4, "s0c0s1c1", 500, 1, 1 },
    { "embedding_dim=4&downscale_freq_shift=1.5", 4, "s0c0s1c1", 10000, 0.5, 1 },
    { "embedding_dim=1&odd_dim=zero_pad", 1, "00", 10000, 1, 1 },
    { "embedding_dim=1&odd_dim=zero_pad&downscale_freq_shift=1", 1, "00", 10000, 1, 1 },
    { "embedding_dim=1&odd_dim=sin_extra", 1, "s0", 10000, 1, 1 },
    { "embedding_dim=1&odd_dim=round_up_truncate", 1, "s0", 10000, 1, 1 },
    { "embedding_dim=1&odd_dim=round_up_truncate&flip_sin_to_cos=true", 1, "c0", 10000, 1, 1 },
    { "embedding_dim=5&odd_dim=zero_pad", 5, "s0c0s1c100", 10000, 2, 1 },
    { "embedding_dim=5&odd_dim=zero_pad&flip_sin_to_cos=true&layout=split", 5, "c0c1s0s100", 10000, 2, 1 },
    { "embedding_dim=5&odd_dim=sin_extra", 5, "s0c0s1c1s2", 10000, 2.5, 1 },
    { "embedding_dim=5&odd_dim=sin_extra&flip_sin_to_cos=true", 5, "c0s0c1s1s2", 10000, 2.5, 1 },
    { "embedding_dim=5&odd_dim=sin_extra&layout=split", 5, "s0s1s2c0c1", 10000, 2.5, 1 },
    { "embedding_dim=5&odd_dim=sin_extra&layout=split&flip_sin_to_cos=true", 5, "c0c1s0s1s2", 10000, 2.5, 1 },
    { "embedding_dim=5&odd_dim=round_up_truncate", 5, "s0c0s1c1s2", 10000, 3, 1 },
    { "embedding_dim=5&odd_dim=round_up_truncate&flip_sin_to_cos=true", 5, "c0s0c1s1c2", 10000, 3, 1 },
    { "embedding_dim=5&odd_dim=round_up_truncate&layout=split", 5, "s0s1s2c0c1", 10000, 3, 1 },
    { "embedding_dim=5&odd_dim=round_up_truncate&layout=split&flip_sin_to_cos=true", 5, "c0c1c2s0s1", 10000, 3, 1 },
    { "embedding_dim=4&odd_dim=sin_extra", 4, "s0c0s1c1", 10000, 2, 1 },
    { "embedding_dim=4&scale_output=1&preset=vaswani&compute_dtype=float64", 4, "s0c0s1c1", 10000, 2, 1 },
};

static double column(const convention *c, int64_t k, double position)
{
    char f = c->columns[2 * k];
    double i = c->columns[2 * k + 1] - '0', angle = position * c->multiplier * pow(c->base, -i / c->n);
    return f == 's' ? sin(angle) : f == 'c' ? cos(angle) : 0;
}

START_TEST(columns)
{
    static const double positions[] = { 0, 1, -1, 2.5, 1000, -7 };
    const convention *c = &conventions[_i];
    char query[300];
    answer a;
    snprintf(query, sizeof query, "%s&positions=0,1,-1,2.5,1000,-7&dtype=float64", c->query);
    ck_assert_msg(run(&a, query, NULL) == PE_OK, "%s: %s", query, a.text);
    ck_assert(a.result.ntensors == 1 && a.result.tensor[0].shape[0] == 6 && a.result.tensor[0].shape[1] == c->d);
    for (int64_t r = 0; r < 6; r++)
        for (int64_t k = 0; k < c->d; k++) {
            double want = column(c, k, positions[r]), got = element(&a, 0, r * c->d + k);
            ck_assert_msg(fabs(got - want) <= 1e-11, "%s: row %d column %d is %g, want %g", query, (int)r, (int)k, got,
                          want);
            if (r == 0)
                ck_assert(got == (c->columns[2 * k] == 'c'));
        }
    for (int64_t k = 0; k < c->d; k++) { /* rows 1 and 2: +1 and -1 */
        double plus = element(&a, 0, c->d + k), minus = element(&a, 0, 2 * c->d + k);
        ck_assert(c->columns[2 * k] == 'c' ? plus == minus : plus == -minus);
    }
    done(&a);
}
END_TEST

/* Every way of naming positions gives the same rows. */
START_TEST(sources)
{
    answer a, b, c;
    ck_assert_int_eq(run(&a, "embedding_dim=8&num_positions=4&offset=1000000", NULL), PE_OK);
    ck_assert_int_eq(run(&b, "embedding_dim=8&positions=1000003,1000000,1000001,1000002", NULL), PE_OK);
    static const int64_t ids[] = { 3, 5, 4, 3 };
    ck_assert_int_eq(run(&c, "embedding_dim=8&past_key_values_length=1000000", &(tokens){ .ids = ids, .length = 4 }), PE_OK);
    ck_assert(c.result.tensor[0].rank == 2 && c.result.tensor[1].rank == 1);
    for (int64_t r = 0; r < 4; r++)
        for (int64_t k = 0; k < 8; k++) {
            ck_assert(element(&a, 0, r * 8 + k) == element(&b, 0, (r + 1) % 4 * 8 + k));
            ck_assert(element(&a, 0, r * 8 + k) == element(&c, 0, r * 8 + k));
        }
    done(&a);
    done(&b);
    done(&c);
}
END_TEST

static const int64_t ids[] = { 5, 6, 1, 7, 1, 8 }, left_mask[] = { 0, 1, 1, 0, 0, 1 };
static const struct {
    const char *query;
    tokens t;
    int64_t want[6];
} token_cases[] = {
    { "padding_idx=1", { ids, NULL, 2, 3 }, { 2, 3, 1, 2, 1, 3 } },
    { "padding_idx=0", { ids, NULL, 2, 3 }, { 1, 2, 3, 1, 2, 3 } },
    { "padding_idx=1&past_key_values_length=10", { ids, NULL, 2, 3 }, { 12, 13, 1, 12, 1, 13 } },
    { "padding_idx=1&num_positions=4", { ids, NULL, 2, 3 }, { 2, 3, 1, 2, 1, 3 } },
    { "padding_idx=1", { ids, NULL, 0, 6 }, { 2, 3, 1, 4, 1, 5 } },
    { "", { ids, NULL, 2, 3 }, { 0, 1, 2, 0, 1, 2 } },
    { "", { NULL, left_mask, 2, 3 }, { 1, 0, 1, 1, 1, 0 } },
    { "past_key_values_length=4", { NULL, left_mask, 2, 3 }, { 1, 4, 5, 1, 1, 4 } },
    { "padding_idx=1", { NULL, left_mask, 2, 3 }, { 1, 2, 3, 1, 1, 2 } },
    { "padding_idx=1", { ids, left_mask, 2, 3 }, { 1, 2, 1, 1, 1, 2 } },
};

START_TEST(token_positions)
{
    answer a, b;
    char query[200], listed[400];
    snprintf(query, sizeof query, "embedding_dim=4&%s", token_cases[_i].query);
    ck_assert_msg(run(&a, query, &token_cases[_i].t) == PE_OK, "%s: %s", query, a.text);
    const int64_t *w = token_cases[_i].want;
    snprintf(listed, sizeof listed, "embedding_dim=4&positions=%d,%d,%d,%d,%d,%d", (int)w[0], (int)w[1], (int)w[2],
             (int)w[3], (int)w[4], (int)w[5]);
    ck_assert_int_eq(run(&b, listed, NULL), PE_OK);
    const char *pad = strstr(query, "padding_idx=");
    ck_assert_str_eq(a.result.tensor[0].name, "embedding");
    ck_assert_str_eq(a.result.tensor[1].name, "positions");
    ck_assert_int_eq(a.result.tensor[1].dtype, PE_int64);
    for (int64_t i = 0; i < 6; i++) {
        ck_assert_msg(((int64_t *)a.result.tensor[1].data)[i] == w[i], "%s: token %d", query, (int)i);
        for (int64_t k = 0; k < 4; k++)
            ck_assert(element(&a, 0, i * 4 + k) == (pad && pad[12] - '0' == w[i] ? 0 : element(&b, 0, i * 4 + k)));
    }
    done(&a);
    done(&b);
}
END_TEST

START_TEST(padding_row)
{
    answer a, b;
    ck_assert_int_eq(run(&a, "embedding_dim=4&num_positions=5&padding_idx=2", NULL), PE_OK);
    ck_assert_int_eq(run(&b, "embedding_dim=4&num_positions=5", NULL), PE_OK);
    for (int64_t i = 0; i < 20; i++)
        ck_assert(element(&a, 0, i) == (i / 4 == 2 ? 0 : element(&b, 0, i)));
    done(&a);
    done(&b);
    ck_assert_int_eq(run(&a, "embedding_dim=4&num_positions=2&offset=7&padding_idx=8&dtype=float64", NULL), PE_OK);
    ck_assert(element(&a, 0, 1) != 0 && element(&a, 0, 4) == 0 && element(&a, 0, 5) == 0);
    done(&a);
}
END_TEST

/* Angles and results are float32 in float32: by hand, step by step. */
START_TEST(float32_angles)
{
    answer a, b;
    ck_assert_int_eq(
        run(&a, "embedding_dim=4&positions=1000003,16777217&compute_dtype=float32&freq_form=pow&scale=3&dtype=float64",
            NULL),
        PE_OK);
    for (int64_t r = 0; r < 2; r++)
        for (int64_t i = 0; i < 2; i++) {
            float w = i ? 1 / 100.0f : 1, position = r ? 16777216.0f : 1000003.0f;
            float product = position * w, angle = product * 3.0f;
            float s = (float)sin((double)angle), c = (float)cos((double)angle);
            ck_assert(element(&a, 0, 4 * r + 2 * i) == (double)s && element(&a, 0, 4 * r + 2 * i + 1) == (double)c);
        }
    done(&a);
    ck_assert_int_eq(run(&a, "embedding_dim=64&num_positions=9&compute_dtype=float32", NULL), PE_OK);
    ck_assert_int_eq(run(&b, "embedding_dim=64&num_positions=9", NULL), PE_OK);
    for (int64_t i = 0; i < 9 * 64; i++)
        ck_assert(fabs(element(&a, 0, i) - element(&b, 0, i)) <= 2e-6);
    done(&a);
    done(&b);
}
END_TEST

START_TEST(normalisation)
{
    answer a;
    double sum = 0, squares = 0;
    ck_assert_int_eq(run(&a, "embedding_dim=16&num_positions=24&normalize=patchtst&scale_output=10&dtype=float64", NULL),
                     PE_OK);
    for (int64_t i = 0; i < 24 * 16; i++)
        sum += element(&a, 0, i);
    for (int64_t i = 0; i < 24 * 16; i++)
        squares += (element(&a, 0, i) - sum / 384) * (element(&a, 0, i) - sum / 384);
    ck_assert(fabs(sum) < 1e-12 && fabs(squares / 383 - 1) < 1e-13);
    done(&a);
    ck_assert_int_eq(run(&a, "embedding_dim=1&odd_dim=zero_pad&num_positions=24&normalize=patchtst", NULL), PE_INVALID);
    ck_assert_str_eq(a.err.fault[0].field, "normalize");
    done(&a);
}
END_TEST

START_TEST(dtypes)
{
    static const struct {
        const char *query;
        posenc_dtype dtype;
        double eps;
    } cases[] = { { "float32", PE_float32, 0x1p-24 },
                  { "float64", PE_float64, 0x1p-52 },
                  { "float16", PE_float16, 0x1p-11 },
                  { "bfloat16", PE_bfloat16, 0x1p-8 } };
    for (size_t i = 0; i < LEN(cases); i++) {
        answer a;
        char query[100];
        snprintf(query, sizeof query, "embedding_dim=2&positions=0.5&dtype=%s", cases[i].query);
        ck_assert_int_eq(run(&a, query, NULL), PE_OK);
        ck_assert_int_eq(a.result.tensor[0].dtype, cases[i].dtype);
        ck_assert(fabs(element(&a, 0, 0) - sin(0.5)) <= cases[i].eps * sin(0.5));
        ck_assert(fabs(element(&a, 0, 1) - cos(0.5)) <= cases[i].eps * cos(0.5));
        done(&a);
    }
}
END_TEST

START_TEST(empty)
{
    answer a;
    ck_assert_int_eq(run(&a, "embedding_dim=8&num_positions=0", NULL), PE_OK);
    ck_assert(a.result.tensor[0].rank == 2 && a.result.tensor[0].shape[0] == 0 && a.result.tensor[0].shape[1] == 8);
    done(&a);
    ck_assert_int_eq(run(&a, "embedding_dim=8&num_positions=0&normalize=patchtst", NULL), PE_OK);
    done(&a);
    static const tokens none[] = { { ids, NULL, 0, 0 }, { ids, left_mask, 3, 0 } };
    for (size_t i = 0; i < LEN(none); i++) {
        ck_assert_msg(run(&a, "embedding_dim=8&padding_idx=1&num_positions=5", &none[i]) == PE_OK, "%s", a.text);
        ck_assert(posenc_tensor_count(&a.result.tensor[0]) == 0 &&
                  a.result.tensor[0].shape[a.result.tensor[0].rank - 1] == 8);
        done(&a);
    }
}
END_TEST

/* ---- presets ---- */

START_TEST(presets)
{
    answer a, b;
    ck_assert_int_eq(run(&a, "embedding_dim=8&num_positions=5&preset=whisper", NULL), PE_OK);
    ck_assert_int_eq(
        run(&b, "embedding_dim=8&num_positions=5&layout=split&downscale_freq_shift=1&compute_dtype=float32", NULL), PE_OK);
    ck_assert_str_eq(a.request.digest, b.request.digest);
    done(&a);
    done(&b);
    ck_assert_int_eq(run(&a, "embedding_dim=2&num_positions=5&preset=tensor2tensor", NULL), PE_OK);
    ck_assert_ptr_nonnull(strstr(a.request.params_json, "\"max_timescale\":10000"));
    done(&a);
    ck_assert_int_eq(run(&a, "embedding_dim=2&num_positions=5&preset=tensor2tensor&max_period=500", NULL), PE_OK);
    ck_assert_ptr_null(strstr(a.request.params_json, "\"max_timescale\""));
    done(&a);
    ck_assert_int_eq(run(&a, "embedding_dim=12&num_positions=5&preset=x_transformers&layout=interleaved", NULL), PE_OK);
    ck_assert_ptr_nonnull(strstr(a.request.params_json, "\"scale_output\":0.28867513459481"));
    ck_assert_ptr_nonnull(strstr(a.request.params_json, "\"layout\":\"interleaved\""));
    done(&a);
}
END_TEST

/* All presets work, and what the key says is a request with the same key. */
START_TEST(keys)
{
    const posenc_param *row = posenc_row(&posenc_encoding_named("sinusoidal")->table, "preset");
    for (int i = -1; i < 0 || row->names[i]; i++) {
        char query[200];
        answer a, b;
        snprintf(query, sizeof query, "embedding_dim=8&num_positions=5%s%s",
                 i < 0 ? "" : "&preset=", i < 0 ? "" : row->names[i]);
        ck_assert_msg(run(&a, query, NULL) == PE_OK, "%s: %s", query, a.text);
        ck_assert_msg(run(&b, strchr(a.request.key, ' '), NULL) == PE_OK, "%s: %s", a.request.key, b.text);
        ck_assert_str_eq(a.request.key, b.request.key);
        ck_assert(!memcmp(a.result.tensor[0].data, b.result.tensor[0].data, posenc_tensor_size(&a.result.tensor[0])));
        done(&a);
        done(&b);
    }
}
END_TEST

/* ---- refusals ---- */

static const int64_t bad_mask[] = { 1, 1, 1, 0, 1, 2 };
static const struct {
    const char *query, *field, *says;
    tokens t;
    posenc_status status;
} refusals[] = {
    { "embedding_dim=8", "num_positions", "one of", { 0 }, PE_INVALID },
    { "num_positions=8", "embedding_dim", "is required", { 0 }, PE_INVALID },
    { "embedding_dim=0&num_positions=8", "embedding_dim", "1 .. 1048576", { 0 }, PE_INVALID },
    { "embedding_dim=7&num_positions=8", "embedding_dim", "zero_pad", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=-1", "num_positions", "0 ..", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=2&positions=1", "positions", "one of", { 0 }, PE_INVALID },
    { "embedding_dim=8&positions=1&offset=1", "offset", "num_positions alone", { 0 }, PE_INVALID },
    { "embedding_dim=8&positions=1e300", "positions[0]", "9.0072e+15", { 0 }, PE_INVALID },
    { "embedding_dim=8&positions=1,nan", "positions[1]", "finite", { 0 }, PE_INVALID },
    { "embedding_dim=8&positions=1", "positions", "one of", { ids, NULL, 2, 3 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&past_key_values_length=1", "past_key_values_length", "input_ids", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=9007199254740991&offset=3", "offset", "2^53", { 0 }, PE_LIMIT },
    { "embedding_dim=1048576&num_positions=9007199254740991", "table", "", { 0 }, PE_LIMIT },
    { "embedding_dim=2&num_positions=8&downscale_freq_shift=1",
      "downscale_freq_shift",
      "half the width, 1",
      { 0 },
      PE_INVALID },
    { "embedding_dim=3&odd_dim=zero_pad&num_positions=8&downscale_freq_shift=1",
      "downscale_freq_shift",
      "below",
      { 0 },
      PE_INVALID },
    { "embedding_dim=8&num_positions=8&downscale_freq_shift=9", "downscale_freq_shift", "below", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&max_period=0", "max_period", "finite number in", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&max_period=-1", "max_period", "finite number in", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&max_timescale=0", "max_timescale", "finite number in", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&scale=inf", "scale", "finite", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&layout=half", "layout", "interleaved, split", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&preset=gpt9", "preset", "vaswani", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&flip_sin_to_cos=1", "flip_sin_to_cos", "true or false", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&padding_idx=8", "padding_idx", "9 rows", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&padding_idx=-1", "padding_idx", "0 ..", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&theta=3", "theta", "", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&num_positions=8", "num_positions", "once", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&normalize=patchtst&padding_idx=0", "normalize", "none", { 0 }, PE_INVALID },
    { "embedding_dim=1&odd_dim=sin_extra&num_positions=1&normalize=patchtst", "normalize", "deviation", { 0 }, PE_INVALID },
    { "embedding_dim=8&normalize=patchtst", "normalize", "none", { ids, NULL, 2, 3 }, PE_INVALID },
    { "embedding_dim=8&num_positions=3&padding_idx=1", "num_positions", "at least 4 rows", { ids, NULL, 2, 3 }, PE_INVALID },
    { "embedding_dim=8&num_positions=1", "num_positions", "at least 2 rows", { NULL, left_mask, 2, 3 }, PE_INVALID },
    { "embedding_dim=8", "attention_mask[1][2]", "0 or 1", { ids, bad_mask, 2, 3 }, PE_INVALID },
    { "embedding_dim=8", "attention_mask[5]", "0 or 1", { ids, bad_mask, 0, 6 }, PE_INVALID },
    { "embedding_dim=8&offset=2&padding_idx=1", "offset", "num_positions alone", { ids, NULL, 2, 3 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&scale=1e60&compute_dtype=float32", "scale", "2^120", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&max_period=1e-50&compute_dtype=float32", "max_period", "1e-36", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&max_period=1e-90&downscale_freq_shift=3.5",
      "max_period",
      "2^900",
      { 0 },
      PE_INVALID },
    { "embedding_dim=8&num_positions=8&scale_output=1e39", "scale_output", "3e+38", { 0 }, PE_INVALID },
    { "embedding_dim=8&num_positions=8&scale_output=1e5&dtype=float16", "scale_output", "65504", { 0 }, PE_INVALID },
};

START_TEST(refused)
{
    answer a;
    const char *q = refusals[_i].query;
    posenc_status st = run(&a, q, refusals[_i].t.length ? &refusals[_i].t : NULL);
    ck_assert_msg(st == refusals[_i].status, "%s: %s (%s)", q, posenc_status_name(st), a.text);
    ck_assert_msg(!strcmp(a.err.fault[0].field, refusals[_i].field), "%s: %s", q, a.text);
    ck_assert_msg(strstr(a.err.fault[0].allowed, refusals[_i].says) != NULL, "%s: %s", q, a.text);
    done(&a);
}
END_TEST

START_TEST(all_faults_together)
{
    answer a;
    ck_assert_int_eq(
        run(&a, "embedding_dim=7&positions=1&num_positions=3&past_key_values_length=2&downscale_freq_shift=8", NULL),
        PE_INVALID);
    ck_assert_int_eq(a.err.n, 4);
    done(&a);
}
END_TEST

/* Tokens of other dtypes and shapes. */
START_TEST(token_tensors)
{
    static const double real_ids[] = { 4, 5, 1 }, broken[] = { 4, 5.5, 1 };
    static const int32_t int_ids[] = { 4, 5, 1 };
    static const struct {
        const void *data;
        posenc_dtype dtype;
        const char *field;
    } cases[] = { { real_ids, PE_float64, NULL }, { int_ids, PE_int32, NULL }, { broken, PE_float64, "input_ids[1]" } };
    for (size_t i = 0; i < LEN(cases); i++) {
        answer a = { .arena = posenc_arena_new(1 << 20) };
        ck_assert_int_eq(posenc_request_init(&a.request, "sinusoidal", a.arena, &a.err), PE_OK);
        ck_assert_int_eq(posenc_request_parse(&a.request, "embedding_dim=4", &a.err), PE_OK);
        ck_assert_int_eq(set(&a, "input_ids", cases[i].data, &(tokens){ .length = 3 }, cases[i].dtype), PE_OK);
        ck_assert_int_eq(posenc_resolve(&a.request, &a.err), cases[i].field ? PE_INVALID : PE_OK);
        if (cases[i].field)
            ck_assert_str_eq(a.err.fault[0].field, cases[i].field);
        done(&a);
    }
    answer a = { .arena = posenc_arena_new(1 << 20) };
    posenc_tensor cube = {
        .name = "input_ids", .dtype = PE_int32, .rank = 3, .shape = { 1, 1, 3 }, .data = (void *)(uintptr_t)int_ids
    };
    ck_assert_int_eq(posenc_request_init(&a.request, "sinusoidal", a.arena, &a.err), PE_OK);
    const posenc_table *t = &a.request.encoding->table;
    posenc_request_parse(&a.request, "embedding_dim=4", &a.err);
    posenc_set_tensor(t, posenc_row(t, "input_ids"), a.request.params, &cube, &a.err);
    ck_assert_int_eq(posenc_resolve(&a.request, &a.err), PE_INVALID);
    ck_assert_str_eq(a.err.fault[0].field, "input_ids");
    done(&a);
}
END_TEST

/* ---- stopping, limits ---- */

static posenc_status stop_later(void *user) { return --*(int *)user < 0 ? PE_DEADLINE : PE_OK; }

START_TEST(stops)
{
    static const char *const queries[] = { "embedding_dim=1024&num_positions=32768",
                                           "embedding_dim=1024&num_positions=4096&normalize=patchtst",
                                           "embedding_dim=1&odd_dim=zero_pad&num_positions=100000" };
    for (size_t i = 0; i < LEN(queries); i++) {
        int polls = 3;
        posenc_answer a;
        posenc_error err = { 0 };
        posenc_context ctx = { .stop = stop_later, .user = &polls };
        ck_assert_int_eq(posenc_encode("sinusoidal", queries[i], NULL, &a, &ctx, &err), PE_DEADLINE);
        ck_assert_int_eq(err.n, 1);
    }
}
END_TEST

START_TEST(cost)
{
    answer a;
    ck_assert_int_eq(run(&a, "embedding_dim=1024&num_positions=64", NULL), PE_OK);
    ck_assert(a.request.cost.ns > 1e5 && a.request.cost.ns < 1e7);
    ck_assert(a.request.cost.scratch >= 512 * 16 && a.request.cost.scratch < 1 << 21);
    done(&a);
}
END_TEST

Suite *sinusoidal_suite(void)
{
    Suite *s = suite_create("sinusoidal");
    TCase *t = tcase_create("values");
    tcase_add_loop_test(t, columns, 0, (int)LEN(conventions));
    tcase_add_test(t, sources);
    tcase_add_loop_test(t, token_positions, 0, (int)LEN(token_cases));
    tcase_add_test(t, padding_row);
    tcase_add_test(t, float32_angles);
    tcase_add_test(t, normalisation);
    tcase_add_test(t, dtypes);
    tcase_add_test(t, empty);
    suite_add_tcase(s, t);
    t = tcase_create("presets");
    tcase_add_test(t, presets);
    tcase_add_test(t, keys);
    suite_add_tcase(s, t);
    t = tcase_create("refusals");
    tcase_add_loop_test(t, refused, 0, (int)LEN(refusals));
    tcase_add_test(t, all_faults_together);
    tcase_add_test(t, token_tensors);
    suite_add_tcase(s, t);
    t = tcase_create("running");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, stops);
    tcase_add_test(t, cost);
    suite_add_tcase(s, t);
    return s;
}
