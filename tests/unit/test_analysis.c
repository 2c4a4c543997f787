/* test_analysis.c - the report `analysis` against closed forms, what it refuses, and that its bytes are always the same. */
#include "posenc.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof(a)[0])
#define NEAR(a, b, tolerance) ck_assert_msg(fabs((a) - (b)) <= (tolerance), "%s is %.17g, want %.17g", #a, (a), (b))

/* ---- asking ---- */

static char *bytes_of(posenc_document *d, size_t *size)
{
    char *s = malloc((size_t)d->size + 1), *p = s;
    for (size_t i = 0; i < d->npieces; p += d->piece[i++].size)
        memcpy(p, d->piece[i].data, (size_t)d->piece[i].size);
    *p = 0;
    *size = (size_t)d->size;
    posenc_document_fini(d);
    return s;
}

static json_t *ask(const char *encoding, const char *query, const posenc_edges *edges)
{
    posenc_document d;
    posenc_error err = { 0 };
    char text[1000];
    size_t size;
    ck_assert_msg(!posenc_analyze(encoding, query, edges, PE_json, &d, NULL, &err), "%s %s: %s", encoding, query,
                  posenc_error_text(&err, text, sizeof text));
    char *s = bytes_of(&d, &size);
    json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(o != NULL, "%s", s);
    free(s);
    return o;
}

/* A report about a table, from a JSON body. */
static posenc_status ask_table(const char *body, posenc_format f, posenc_document *d, posenc_error *err)
{
    posenc_request r;
    posenc_arena *a = posenc_arena_new(1 << 26);
    posenc_status st = posenc_report_init(&r, "analysis", NULL, a, err);
    st = st ? st : posenc_request_json(&r, body, strlen(body), err);
    st = st ? st : posenc_resolve(&r, err);
    posenc_result out = r.shape;
    for (int i = 0; !st && i < out.ntensors; i++)
        out.tensor[i].data = posenc_alloc(a, posenc_tensor_size(&out.tensor[i]) + 1);
    st = st ? st : posenc_compute(&r, &out, NULL, err);
    const posenc_origin origin = { r.encoding, r.digest, r.params_json };
    st = st ? st : posenc_write(f, &origin, &out, NULL, d, err);
    posenc_arena_free(a);
    return st;
}

static json_t *table(const char *body)
{
    posenc_document d;
    posenc_error err = { 0 };
    char text[1000];
    size_t size;
    ck_assert_msg(!ask_table(body, PE_json, &d, &err), "%s: %s", body, posenc_error_text(&err, text, sizeof text));
    char *s = bytes_of(&d, &size);
    json_t *o = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(o);
    free(s);
    return o;
}

static json_t *field(json_t *o, const char *what, const char *name)
{
    json_t *v = json_object_get(json_object_get(json_object_get(o, "analysis"), what), name);
    ck_assert_msg(v != NULL, "no %s.%s", what, name);
    return v;
}

static double number(json_t *o, const char *what, const char *name) { return json_number_value(field(o, what, name)); }
static double nth(json_t *o, const char *what, const char *name, size_t i)
{
    json_t *v = json_array_get(field(o, what, name), i);
    ck_assert_msg(json_is_number(v), "%s.%s[%zu] is no number", what, name, i);
    return json_number_value(v);
}

/* ---- closed forms ---- */

START_TEST(norm_of_sinusoids)
{
    json_t *o = ask("sinusoidal", "embedding_dim=32 num_positions=40 what=norms", NULL);
    NEAR(number(o, "norms", "mean"), 4.0, 1e-14);
    NEAR(number(o, "norms", "min"), 4.0, 1e-14);
    NEAR(number(o, "norms", "expected"), 4.0, 0.0);
    NEAR(number(o, "norms", "rms"), sqrt(0.5), 1e-15);
    NEAR(number(o, "norms", "matching_scale"), 0.02 / sqrt(0.5), 1e-15);
    ck_assert_uint_eq(json_array_size(field(o, "norms", "row_norm")), 40);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(o, "about"), "pairs")), "interleaved");
    json_decref(o);
}
END_TEST

START_TEST(frequencies_of_pairs)
{
    static const char *const forms[] = { "sinusoidal:embedding_dim=16 num_positions=200 ",
                                         "sinusoidal:embedding_dim=16 num_positions=200 layout=split ",
                                         "rope:head_dim=16 num_positions=200 ",
                                         "rope:head_dim=16 num_positions=200 layout=interleaved " };
    char encoding[32], query[200];
    snprintf(encoding, sizeof encoding, "%.*s", (int)strcspn(forms[_i], ":"), forms[_i]);
    snprintf(query, sizeof query, "%swhat=frequencies train_length=100 test_length=1000", strchr(forms[_i], ':') + 1);
    json_t *o = ask(encoding, query, NULL);
    for (size_t i = 0; i < 8; i++) {
        const double w = pow(10000, -2.0 * (double)i / 16);
        NEAR(nth(o, "frequencies", "frequency", i) / w, 1.0, 1e-9);
        NEAR(nth(o, "frequencies", "periods_in_training", i), 100 * w / (2 * M_PI), 1e-8);
        NEAR(nth(o, "frequencies", "explained", i), 1.0, 1e-9);
    }
    NEAR(number(o, "frequencies", "unfinished"), 5.0, 0.0); /* 2 pi 10^(i/2) over 100 from i = 3 on */
    json_decref(o);
}
END_TEST

START_TEST(scaled_rope)
{
    json_t *o = ask("rope", "preset=llama-3.1-8b num_positions=64 what=frequencies", NULL);
    size_t kept = 0, divided = 0, between = 0;
    for (size_t i = 0; i < 64; i++) {
        const char *rule = json_string_value(json_array_get(field(o, "frequencies", "rule"), i));
        const double ratio = nth(o, "frequencies", "frequency_before", i) / nth(o, "frequencies", "frequency", i);
        kept += !strcmp(rule, "kept") && fabs(ratio - 1) < 1e-6;
        divided += !strcmp(rule, "divided_most") && fabs(ratio - 8) < 1e-5;
        between += !strcmp(rule, "between") && ratio > 1 && ratio < 8;
    }
    ck_assert_uint_eq(kept + divided + between, 64);
    ck_assert_uint_eq(kept, 29);    /* waves under 8192 / 4 */
    ck_assert_uint_eq(divided, 29); /* over 8192 */
    json_decref(o);
}
END_TEST

START_TEST(spectrum_of_a_swing)
{
    char body[20000] = "{\"what\":[\"frequencies\"],\"table\":[";
    for (int p = 0; p < 256; p++) /* one channel alone has no pair */
        snprintf(body + strlen(body), sizeof body - strlen(body), "%s[%.17g,%.17g,%d]", p ? "," : "", cos(0.3 * p),
                 sin(1.7 * p + 1) + 5, 3);
    strcat(body, "]}");
    json_t *o = table(body);
    ck_assert_str_eq(json_string_value(field(o, "frequencies", "method")), "spectrum");
    NEAR(nth(o, "frequencies", "frequency", 0), 0.3, 1e-3);
    NEAR(nth(o, "frequencies", "frequency", 1), 1.7, 1e-3);
    NEAR(nth(o, "frequencies", "frequency", 2), 0.0, 0.0);
    json_decref(o);
}
END_TEST

START_TEST(exact_shift)
{
    json_t *o = ask("sinusoidal", "embedding_dim=16 num_positions=128 what=shift,direction offsets=1,3,20", NULL);
    for (size_t i = 0; i < 3; i++) {
        static const double offsets[] = { 1, 3, 20 };
        double sines = 0;
        for (int j = 0; j < 8; j++)
            sines += pow(sin(offsets[i] * pow(10000, -j / 8.0)), 2);
        ck_assert(nth(o, "shift", "exact_error", i) < 1e-12);
        ck_assert(nth(o, "shift", "r2", i) > 1 - 1e-9);
        NEAR(nth(o, "direction", "map_difference", i), sqrt(2 * sines / 8), 1e-12);
        ck_assert(nth(o, "direction", "dot_difference", i) < 1e-14);
        ck_assert(nth(o, "direction", "error_right", i) < 1e-12);
        ck_assert(nth(o, "direction", "error_wrong", i) > 0.1);
    }
    json_decref(o);
}
END_TEST

/* A table of noise has no such map, and says so on rows it has not seen. */
START_TEST(no_shift_of_noise)
{
    json_t *o = ask("random_sinusoidal",
                    "m=8 coords=[[0],[0.9],[5],[2.2],[7],[3],[9.5],[1],[6],[8.1],[4],[0.3],[5.5],[2],[7.7],[3.3]] "
                    "sigma=3 seed=1 what=shift offsets=1",
                    NULL);
    ck_assert(nth(o, "shift", "r2", 0) < 0.5);
    json_decref(o);
}
END_TEST

START_TEST(similarity_of_sinusoids)
{
    json_t *o = ask("sinusoidal", "embedding_dim=8 num_positions=64 what=similarity offsets=1,2,5", NULL);
    static const double offsets[] = { 1, 2, 5 };
    for (size_t i = 0; i < 3; i++) {
        double dot = 0;
        for (int j = 0; j < 4; j++)
            dot += cos(offsets[i] * pow(10000, -j / 4.0));
        NEAR(nth(o, "similarity", "dot_mean", i), dot, 1e-13);
        NEAR(nth(o, "similarity", "cosine_max", i), dot / 4, 1e-13);
    }
    ck_assert(number(o, "similarity", "variation") < 1e-14);
    json_decref(o);
}
END_TEST

START_TEST(equal_rows)
{
    json_t *o = table("{\"what\":\"uniqueness\",\"table\":[[1,0],[1.00001,0],[2,0],[-0.0,3],[2,0]]}");
    NEAR(number(o, "uniqueness", "distance"), 0.0, 0.0);
    NEAR(number(o, "uniqueness", "row_a"), 2.0, 0.0);
    NEAR(number(o, "uniqueness", "row_b"), 4.0, 0.0);
    NEAR(number(o, "uniqueness", "equal"), 1.0, 0.0);
    NEAR(number(o, "uniqueness", "equal_float32"), 1.0, 0.0);
    NEAR(number(o, "uniqueness", "equal_float16"), 2.0, 0.0);
    NEAR(number(o, "uniqueness", "equal_bfloat16"), 2.0, 0.0);
    json_decref(o);
}
END_TEST

START_TEST(distance_of_neighbours)
{
    json_t *o = ask("sinusoidal", "embedding_dim=4 num_positions=10 what=resolution", NULL);
    for (size_t g = 0; g < 2; g++) {
        json_t *row = json_array_get(field(o, "resolution", "distance"), g);
        ck_assert_uint_eq(json_array_size(row), 9);
        NEAR(json_number_value(json_array_get(row, 4)), 2 * sin(pow(10000, -(double)g / 2) / 2), 1e-15);
    }
    json_decref(o);
}
END_TEST

START_TEST(subspaces)
{
    json_t *o = table("{\"what\":\"subspace\",\"table\":[[3,0,0],[0,4,0],[3,0,0]],\"embeddings\":[[0,1,0],[0,0,1]]}");
    NEAR(nth(o, "subspace", "singular_value", 0), sqrt(18), 1e-14);
    NEAR(nth(o, "subspace", "singular_value", 1), 4.0, 1e-14);
    NEAR(number(o, "subspace", "dims_99"), 2.0, 0.0);
    NEAR(number(o, "subspace", "rank"), 2.0, 0.0);
    NEAR(number(o, "subspace", "embeddings_inside"), 0.5, 1e-14);
    NEAR(nth(o, "subspace", "principal_angle", 0), 0.0, 1e-7);
    NEAR(nth(o, "subspace", "principal_angle", 1), M_PI / 2, 1e-7);
    json_decref(o);
}
END_TEST

START_TEST(bases)
{
    json_t *o = ask("sinusoidal",
                    "embedding_dim=8 num_positions=9 what=base bases=16,10000 test_length=1000 train_length=100", NULL);
    NEAR(nth(o, "base", "longest_wavelength", 0), 2 * M_PI * 8, 1e-12);
    NEAR(nth(o, "base", "longest_wavelength", 1), 2 * M_PI * 1000, 1e-9);
    NEAR(nth(o, "base", "unfinished", 1), 2.0, 0.0); /* 2 pi, 63, 628, 6283 */
    double first = 0, near = 0;
    for (int j = 0; j < 4; j++)
        near += cos(pow(16, -j / 4.0));
    for (int k = 2; k < 1000 && first == 0; k++) {
        double v = 0;
        for (int j = 0; j < 4; j++)
            v += cos(k * pow(16, -j / 4.0));
        first = v >= near ? k : 0;
    }
    ck_assert(first > 2);
    NEAR(nth(o, "base", "first_repeat", 0), first, 0.0);
    json_decref(o);
}
END_TEST

START_TEST(decay_of_alibi)
{
    json_t *o = ask("alibi", "num_heads=8 seq_length=40 form=causal_relative what=decay", NULL);
    for (size_t h = 0; h < 5; h++) /* slopes 1/2, 1/4 ... */
        NEAR(nth(o, "decay", "reaches_minus_1", h), pow(2, (double)h + 1), 0.0);
    NEAR(nth(o, "decay", "reaches_minus_10", 0), 20.0, 0.0);
    ck_assert(json_is_null(json_array_get(field(o, "decay", "reaches_minus_10"), 3)));
    json_t *curve = json_array_get(field(o, "decay", "curve"), 1);
    NEAR(json_number_value(json_array_get(curve, 6)), -1.5, 0.0);
    json_decref(o);
}
END_TEST

START_TEST(decay_of_rope)
{
    json_t *o = ask("rope", "head_dim=8 num_positions=50 what=decay", NULL);
    double sum = 0, re = 0, im = 0, bound = 0;
    for (int j = 0; j < 4; j++) {
        re += cos(7 * pow(10, -j));
        im += sin(7 * pow(10, -j));
        bound += sqrt(re * re + im * im);
        sum = re;
    }
    NEAR(json_number_value(json_array_get(json_array_get(field(o, "decay", "curve"), 0), 7)), sum / 4, 1e-13);
    NEAR(nth(o, "decay", "bound", 7), bound / 4, 1e-10);
    json_decref(o);
}
END_TEST

START_TEST(spectrum_of_a_cycle)
{
    enum { N = 12 };
    int64_t source[N], target[N];
    for (int i = 0; i < N; i++) {
        source[i] = i;
        target[i] = (i + 1) % N;
    }
    const posenc_edges cycle = { .num_nodes = N, .nedges = N, .source = source, .target = target };
    json_t *o = ask("laplacian", "k=4 what=spectrum", &cycle);
    for (size_t i = 0; i < 4; i++) {
        NEAR(nth(o, "spectrum", "eigenvalue", i), 1 - cos(2 * M_PI * (double)(i / 2 + 1) / N), 1e-12);
        NEAR(nth(o, "spectrum", "multiplicity", i), 2.0, 0.0);
        NEAR(nth(o, "spectrum", "participation", i), 2.0 / 3, 1e-10);
        ck_assert(json_is_false(json_array_get(field(o, "spectrum", "determined"), i)));
    }
    NEAR(number(o, "spectrum", "components"), 1.0, 0.0);
    NEAR(number(o, "spectrum", "undetermined"), 4.0, 0.0);
    json_decref(o);
}
END_TEST

/* Without an encoding attention permutes along exactly; zeros are no encoding. */
START_TEST(probe)
{
    static const char *const asks[][2] = {
        { "sinusoidal", "embedding_dim=16 num_positions=20 what=attention_probe" },
        { "rope", "head_dim=16 num_positions=20 what=attention_probe" },
        { "alibi", "num_heads=4 seq_length=20 form=symmetric what=attention_probe probe_head=1" }
    };
    for (size_t i = 0; i < LEN(asks); i++) {
        json_t *o = ask(asks[i][0], asks[i][1], NULL);
        ck_assert(number(o, "attention_probe", "error_without") < 1e-13);
        ck_assert(number(o, "attention_probe", "error_with") > 0.05);
        double sum = 0;
        json_t *row = json_array_get(field(o, "attention_probe", "map"), 3);
        for (size_t k = 0; k < json_array_size(row); k++)
            sum += json_number_value(json_array_get(row, k));
        NEAR(sum, 1.0, 1e-14);
        json_decref(o);
    }
    json_t *o = table("{\"what\":\"attention_probe\",\"table\":[[0,0,0,0],[0,0,0,0],[0,0,0,0]]}");
    ck_assert(number(o, "attention_probe", "error_with") < 1e-13);
    json_decref(o);
}
END_TEST

/* ---- requests ---- */

static void resolve(posenc_request *r, const char *encoding, const char *query, posenc_arena *a)
{
    posenc_error err = { 0 };
    char text[500];
    posenc_report_init(r, "analysis", encoding, a, &err);
    posenc_request_parse(r, query, &err);
    ck_assert_msg(!err.n && !posenc_resolve(r, &err), "%s", posenc_error_text(&err, text, sizeof text));
}

START_TEST(one_request_however_said)
{
    posenc_arena *a = posenc_arena_new(1 << 22);
    posenc_request x, y, z;
    resolve(&x, "sinusoidal", "what=norms,shift embedding_dim=8 num_positions=20", a);
    resolve(&y, "sinusoidal", "num_positions=20 dtype=float64 embedding_dim=8 embedding_std=0.02 what=[shift,norms]", a);
    resolve(&z, "sinusoidal", "num_positions=20 dtype=float32 embedding_dim=8 what=shift,norms", a);
    ck_assert_str_eq(x.key, y.key);
    ck_assert_str_eq(x.digest, y.digest);
    ck_assert_str_ne(x.digest, z.digest);
    posenc_arena_free(a);
}
END_TEST

/* No name of a report is a name of an encoding or of the door: a request is never ambiguous. But for `table`, which is the
 * encoding's where it has one. */
START_TEST(names_apart)
{
    static const char *const door[] = { "rows",     "data",     "tensors", "explain", "num_nodes",
                                        "directed", "encoding", "graph",   "rev",     "dtype" };
    for (size_t i = 0; i < posenc_reports(); i++)
        for (size_t k = 0; k < posenc_report_at(i)->table.nrows; k++) {
            const char *name = posenc_report_at(i)->table.rows[k].name;
            for (size_t e = 0; e < posenc_encodings(); e++)
                ck_assert_msg(!strcmp(name, "table") || !posenc_row(&posenc_encoding_at(e)->table, name), "%s of %s", name,
                              posenc_encoding_at(e)->name);
            for (size_t d = 0; d < LEN(door); d++)
                ck_assert_str_ne(name, door[d]);
        }
}
END_TEST

typedef struct refusal {
    const char *encoding, *query, *field, *says;
    posenc_status status;
} refusal;

static const refusal refusals[] = {
    { "rope", "head_dim=8 num_positions=9 what=spectrum", "what", "for rotary: norms, frequencies", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=norms,norms", "what", "each word once", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=", "what", "norms", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=nrom", "what", "did you mean norms", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=1 what=norms", "table", "at least 2 rows", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=shift offsets=9", "offsets[0]", "1 .. 8", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=shift offsets=2,1", "offsets[1]", "ascending", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=shift offsets=1.5", "offsets[0]", "whole", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=direction offsets=4", "offsets", "twice", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=norms offsets=1", "offsets", "only with what", PE_INVALID },
    { "sinusoidal", "embedding_dim=2 num_positions=9 what=base", "table", "at least 4 channels", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=base test_length=1099511627776", "test_length", "or less",
      PE_LIMIT },
    { "sinusoidal", "embedding_dim=8 num_positions=9 what=subspace embeddings=[[1,2]]", "embeddings",
      "[tokens, 8]: the table has 8 channels", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 table=[[1,2],[3,4]]", "table", "sinusoidal", PE_INVALID },
    { "sinusoidal", "embedding_dim=8 num_positions=9 tensor=tabel", "tensor", "table", PE_INVALID },
    { "sinusoidal", "embedding_dim=1024 num_positions=40000 what=norms", "table", "at most", PE_LIMIT },
    { "sinusoidal", "embedding_dim=8192 num_positions=4000 what=shift", "what", "at most 120 s", PE_LIMIT },
    { "rope", "head_dim=8", "encoding", "positions or a length", PE_INVALID },
    { "no_rope_layers", "num_hidden_layers=4", "encoding", "a table of reals", PE_INVALID },
    { "alibi", "num_heads=4 seq_length=8 form=symmetric what=attention_probe probe_head=4", "probe_head", "0 .. 3",
      PE_INVALID },
    { "alibi", "num_heads=4 query_length=2 key_length=8 form=symmetric what=attention_probe", "what",
      "as many queries as keys", PE_INVALID },
    { "alibi", "num_heads=4 seq_length=8 what=norms", "what", "for bias: decay, attention_probe", PE_INVALID },
    { "sinusodial", "embedding_dim=8", "encoding", "did you mean sinusoidal", PE_NOT_FOUND },
    { "sinusoidal", "embedding_dmi=8 num_positions=9", "embedding_dmi", "did you mean embedding_dim", PE_INVALID },
};

START_TEST(refuses)
{
    const refusal *c = &refusals[_i];
    posenc_document d;
    posenc_error err = { 0 };
    char text[1000];
    const posenc_status st = posenc_analyze(c->encoding, c->query, NULL, PE_json, &d, NULL, &err);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == c->status, "%s %s: %s %s", c->encoding, c->query, posenc_status_name(st), text);
    ck_assert_msg(!strcmp(err.fault[0].field, c->field), "%s %s: %s", c->encoding, c->query, text);
    ck_assert_msg(strstr(err.fault[0].allowed, c->says), "%s %s: %s", c->encoding, c->query, text);
}
END_TEST

static const refusal tables[] = {
    { NULL, "{\"what\":\"norms\"}", "table", "the tensor to look at", PE_INVALID },
    { NULL, "{\"table\":[[1,2]]}", "table", "at least 2 rows", PE_INVALID },
    { NULL, "{\"table\":[[],[]]}", "table", "at least 1 channel", PE_INVALID },
    { NULL, "{\"table\":[[1,2],[3,2e60]]}", "table[1][1]", "at most 1e60", PE_INVALID },
    { NULL, "{\"table\":[1,2]}", "table", "[positions, channels]", PE_INVALID },
    { NULL, "{\"table\":[[1,2],[3,4]],\"dtype\":\"float32\"}", "dtype", "only with an encoding", PE_INVALID },
    { NULL, "{\"table\":[[1,2],[3,4]],\"tensor\":\"x\"}", "tensor", "nothing", PE_INVALID },
    { NULL, "{\"table\":[[1,2],[3,4]],\"what\":[\"norms\",1]}", "what", "an array of its words", PE_INVALID },
    { NULL, "{\"table\":[[1,2],[3,4]],\"what\":3}", "what", "an array of its words", PE_INVALID },
    { NULL, "{\"table\":{\"dtype\":\"float32\",\"shape\":[2,1],\"data\":\"AACAPwAAwH8=\"}}", "table[1][0]", "finite numbers",
      PE_INVALID },
    { NULL, "{\"table\":[[[1,2],[3,4]],[[1,2],[3,4]]],\"what\":\"norms\"}", "what", "for bias", PE_INVALID },
};

START_TEST(refuses_tables)
{
    const refusal *c = &tables[_i];
    posenc_document d;
    posenc_error err = { 0 };
    char text[1000];
    const posenc_status st = ask_table(c->query, PE_json, &d, &err);
    posenc_error_text(&err, text, sizeof text);
    ck_assert_msg(st == c->status && !strcmp(err.fault[0].field, c->field) && strstr(err.fault[0].allowed, c->says),
                  "%s: %s %s", c->query, posenc_status_name(st), text);
}
END_TEST

/* What does not apply is left out where nothing is asked for by name. */
START_TEST(all_that_applies)
{
    json_t *o = table("{\"table\":[[1,2],[3,4]]}");
    ck_assert_ptr_nonnull(json_object_get(json_object_get(o, "analysis"), "norms"));
    ck_assert_ptr_null(json_object_get(json_object_get(o, "analysis"), "shift")); /* too few rows */
    ck_assert_ptr_null(json_object_get(json_object_get(o, "analysis"), "decay"));
    json_decref(o);
    o = table("{\"table\":[[[1,2],[3,4]],[[1,2],[3,4]]]}");
    ck_assert_uint_eq(json_object_size(json_object_get(o, "analysis")), 2);
    json_decref(o);
}
END_TEST

static posenc_status stop_at_third(void *user) { return ++*(int *)user > 3 ? PE_DEADLINE : PE_OK; }

START_TEST(stops)
{
    static const char *const whats[] = { "similarity", "shift", "uniqueness", "subspace", "base", "frequencies" };
    int polls = 0;
    char query[200];
    posenc_document d;
    posenc_error err = { 0 };
    posenc_context ctx = { .stop = stop_at_third, .user = &polls };
    snprintf(query, sizeof query, "embedding_dim=512 num_positions=6000 what=%s", whats[_i]);
    ck_assert_msg(posenc_analyze("sinusoidal", query, NULL, PE_json, &d, &ctx, &err) == PE_DEADLINE, "%s", query);
    ck_assert_uint_eq(err.n, 1);
}
END_TEST

/* ---- pictures ---- */

static char *picture(const char *encoding, const char *query, const posenc_edges *edges, posenc_format f, size_t *size)
{
    posenc_document d;
    posenc_error err = { 0 };
    char text[500];
    ck_assert_msg(!posenc_analyze(encoding, query, edges, f, &d, NULL, &err), "%s",
                  posenc_error_text(&err, text, sizeof text));
    return bytes_of(&d, size);
}

START_TEST(pictures_are_always_the_same)
{
    static const char query[] = "embedding_dim=8 num_positions=30 what=norms,attention_probe probe_length=8";
    for (int f = PE_png; f <= PE_svg; f++) {
        size_t n, m;
        char *a = picture("sinusoidal", query, NULL, (posenc_format)f, &n),
             *b = picture("sinusoidal", query, NULL, (posenc_format)f, &m);
        ck_assert_uint_eq(n, m);
        ck_assert_mem_eq(a, b, n);
        ck_assert(!memcmp(a, f == PE_png ? "\x89PNG\r\n\x1a\n" : "<svg xml", 8));
        free(a);
        free(b);
    }
}
END_TEST

START_TEST(pictures_say_what_they_show)
{
    static const char *const words[] = { "<title>alibi: decay with distance</title>", "distance [positions]",
                                         "head 0, -1 at 2", "minus bias" };
    size_t n;
    char *s = picture("alibi", "num_heads=2 seq_length=30 form=symmetric what=decay alibi_bias_max=2", NULL, PE_svg, &n);
    for (size_t i = 0; i < LEN(words); i++)
        ck_assert_msg(strstr(s, words[i]), "%s", words[i]);
    free(s);
}
END_TEST

/* A table that shows nothing: no value, or all the same. */
START_TEST(pictures_of_nothing)
{
    posenc_document d;
    posenc_error err = { 0 };
    ck_assert_int_eq(ask_table("{\"table\":[[0,0,0],[0,0,0],[0,0,0]]}", PE_svg, &d, &err), PE_OK);
    size_t n;
    char *s = bytes_of(&d, &n);
    ck_assert_ptr_nonnull(strstr(s, "no value to show"));
    ck_assert_ptr_null(strstr(s, "nan"));
    ck_assert_ptr_null(strstr(s, "inf"));
    free(s);
    ck_assert_int_eq(ask_table("{\"table\":[[1e60,-1e60],[0,-5e-324]],\"what\":\"norms,subspace\"}", PE_png, &d, &err),
                     PE_OK);
    posenc_document_fini(&d);
}
END_TEST

START_TEST(other_containers)
{
    for (int f = 0; f < PE_NFORMATS; f++) {
        posenc_document d;
        posenc_error err = { 0 };
        const bool has = f == PE_json || f == PE_png || f == PE_svg;
        const posenc_status st = posenc_analyze("sinusoidal", "embedding_dim=4 num_positions=8 what=norms", NULL,
                                                (posenc_format)f, &d, NULL, &err);
        ck_assert_int_eq(st, has ? PE_OK : PE_INVALID);
        if (has)
            posenc_document_fini(&d);
        else
            ck_assert_str_eq(err.fault[0].allowed, "json, png or svg");
    }
}
END_TEST

/* Every field has a unit or none, a meaning, and a size that the answer says. */
START_TEST(described)
{
    char *text = posenc_describe_report(posenc_report_named("analysis"));
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *what, *f;
    size_t i, k;
    ck_assert_uint_eq(json_array_size(json_object_get(o, "what")), 12);
    json_array_foreach(json_object_get(o, "what"), i, what)
    {
        ck_assert_str_ne(json_string_value(json_object_get(what, "definition")), "");
        json_array_foreach(json_object_get(what, "fields"), k, f)
        {
            ck_assert(json_string_length(json_object_get(f, "doc")) > 3);
            ck_assert(json_is_string(json_object_get(f, "unit")));
        }
    }
    json_decref(o);
    free(text);
}
END_TEST

Suite *analysis_suite(void);
Suite *analysis_suite(void)
{
    Suite *s = suite_create("analysis");
    TCase *t = tcase_create("closed forms");
    tcase_add_test(t, norm_of_sinusoids);
    tcase_add_loop_test(t, frequencies_of_pairs, 0, 4);
    tcase_add_test(t, scaled_rope);
    tcase_add_test(t, spectrum_of_a_swing);
    tcase_add_test(t, exact_shift);
    tcase_add_test(t, no_shift_of_noise);
    tcase_add_test(t, similarity_of_sinusoids);
    tcase_add_test(t, equal_rows);
    tcase_add_test(t, distance_of_neighbours);
    tcase_add_test(t, subspaces);
    tcase_add_test(t, bases);
    tcase_add_test(t, decay_of_alibi);
    tcase_add_test(t, decay_of_rope);
    tcase_add_test(t, spectrum_of_a_cycle);
    tcase_add_test(t, probe);
    suite_add_tcase(s, t);
    t = tcase_create("requests");
    tcase_add_test(t, one_request_however_said);
    tcase_add_test(t, names_apart);
    tcase_add_loop_test(t, refuses, 0, (int)LEN(refusals));
    tcase_add_loop_test(t, refuses_tables, 0, (int)LEN(tables));
    tcase_add_test(t, all_that_applies);
    tcase_add_loop_test(t, stops, 0, 6);
    tcase_add_test(t, described);
    suite_add_tcase(s, t);
    t = tcase_create("pictures");
    tcase_add_test(t, pictures_are_always_the_same);
    tcase_add_test(t, pictures_say_what_they_show);
    tcase_add_test(t, pictures_of_nothing);
    tcase_add_test(t, other_containers);
    suite_add_tcase(s, t);
    return s;
}
