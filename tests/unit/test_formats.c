/* test_formats.c - containers: what is written reads back, sizes are known before the data, hostile files are refused. */
#include "posenc.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

Suite *formats_suite(void);

/* ---- material ------------------------------------------------------------------------------------------------ */

static const posenc_encoding encoding = { .name = "trial", .revision = 3 };
static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const posenc_origin origin = { &encoding, digest, "{\"n\":4,\"word\":\"a\\\"b\"}" };

static const struct {
    int rank;
    int64_t shape[PE_MAX_RANK];
} shapes[] = { { 0, { 0 } },
               { 1, { 5 } },
               { 1, { 0 } },
               { 2, { 3, 4 } },
               { 3, { 2, 3, 2 } },
               { 3, { 2, 0, 3 } },
               { 8, { 1, 2, 1, 1, 2, 1, 1, 3 } } };
enum { NSHAPES = sizeof shapes / sizeof shapes[0] };

/* A tensor of small numbers that every dtype holds. */
static posenc_tensor make(posenc_arena *a, const char *name, posenc_dtype dtype, int shape)
{
    posenc_tensor t = { .name = name, .dtype = dtype, .rank = shapes[shape].rank };
    memcpy(t.shape, shapes[shape].shape, sizeof t.shape);
    t.data = posenc_alloc(a, posenc_tensor_size(&t));
    ck_assert_ptr_nonnull(t.data);
    for (int64_t i = 0; i < posenc_tensor_count(&t); i++) {
        double v = dtype == PE_int16 ? (double)(i % 50) - 300 : (double)(i % 50);
        posenc_convert(dtype, (char *)t.data + (size_t)i * posenc_dtype_size(dtype), &v, 1);
    }
    return t;
}

static posenc_result one_of_each(posenc_arena *a)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    posenc_result r = { .ntensors = PE_NDTYPES };
    for (int i = 0; i < PE_NDTYPES; i++)
        r.tensor[i] = make(a, names[i], (posenc_dtype)i, i % NSHAPES);
    return r;
}

static char *join(const posenc_document *d)
{
    char *s = malloc((size_t)d->size + 1), *o = s;
    ck_assert_ptr_nonnull(s);
    for (size_t i = 0; i < d->npieces; i++) {
        ck_assert(d->piece[i].size > 0);
        ck_assert_ptr_nonnull(d->piece[i].data);
        memcpy(o, d->piece[i].data, (size_t)d->piece[i].size);
        o += d->piece[i].size;
    }
    ck_assert_uint_eq((uint64_t)(o - s), d->size);
    *o = 0;
    return s;
}

static char *write_all(posenc_format f, const posenc_result *r, const posenc_selection *sel, size_t *size)
{
    posenc_document d;
    posenc_error err = { 0 };
    char text[500];
    posenc_status st = posenc_write(f, &origin, r, sel, &d, &err);
    ck_assert_msg(st == PE_OK, "%s: %s", posenc_format_name(f), posenc_error_text(&err, text, sizeof text));
    char *s = join(&d);
    *size = (size_t)d.size;
    posenc_document_fini(&d);
    posenc_document_fini(&d);
    return s;
}

static void refused(posenc_format f, const posenc_result *r, const posenc_selection *sel, posenc_status want,
                    const char *field)
{
    posenc_document d;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_write(f, &origin, r, sel, &d, &err), want);
    ck_assert_uint_eq(err.n, 1);
    ck_assert_str_eq(err.fault[0].field, field);
    ck_assert_ptr_null(d.piece);
    posenc_document_fini(&d);
}

/* Equal in everything but the name; npy has no bfloat16. */
static void same(const posenc_tensor *got, const posenc_tensor *want, bool numpy)
{
    bool wide = numpy && want->dtype == PE_bfloat16;
    ck_assert_int_eq(got->dtype, wide ? PE_float32 : want->dtype);
    ck_assert_int_eq(got->rank, want->rank);
    for (int k = 0; k < want->rank; k++)
        ck_assert_int_eq(got->shape[k], want->shape[k]);
    ck_assert_ptr_nonnull(got->data);
    ck_assert_uint_eq((uintptr_t)got->data % posenc_dtype_size(got->dtype), 0);
    for (int64_t i = 0; i < posenc_tensor_count(want); i++)
        ck_assert(posenc_tensor_get(got, i) == posenc_tensor_get(want, i));
}

typedef posenc_status (*reader)(const void *, size_t, const char *, posenc_tensor **, size_t *, posenc_arena *,
                                posenc_error *);

static posenc_status read_npy_as_list(const void *p, size_t n, const char *field, posenc_tensor **t, size_t *k,
                                      posenc_arena *a, posenc_error *err)
{
    *k = 1;
    *t = posenc_alloc(a, sizeof **t);
    return *t ? posenc_read_npy(p, n, field, *t, a, err) : PE_BUSY;
}

/* Reads a copy that is exactly as large as it says, so that a sanitizer sees a byte too many. */
static posenc_status read_copy(reader read, const void *p, size_t n, posenc_error *err)
{
    posenc_arena *a = posenc_arena_new(1 << 24);
    char *copy = malloc(n ? n : 1);
    posenc_tensor *t = NULL;
    size_t k = 0;
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(copy);
    if (n)
        memcpy(copy, p, n);
    posenc_status st = read(copy, n, "body", &t, &k, a, err);
    double sum = 0;
    for (size_t i = 0; !st && i < k; i++)
        for (int64_t j = 0; j < posenc_tensor_count(&t[i]); j++)
            sum += posenc_tensor_get(&t[i], j) * 0;
    ck_assert(st != PE_OK || !(sum > 0));
    free(copy);
    posenc_arena_free(a);
    return st;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

START_TEST(names)
{
    for (int i = 0; i < PE_NFORMATS; i++) {
        posenc_format f;
        ck_assert(posenc_format_named(posenc_format_name((posenc_format)i), &f));
        ck_assert_int_eq((int)f, i);
    }
    posenc_format f;
    ck_assert(!posenc_format_named("NPY", &f));
    ck_assert_str_eq(posenc_format_media(PE_npz), "application/x-npz");
    ck_assert(posenc_format_single(PE_bin) && !posenc_format_single(PE_json));
    ck_assert(posenc_format_sized(PE_safetensors) && !posenc_format_sized(PE_csv));
}
END_TEST

START_TEST(npy_round_trip)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    for (int dtype = 0; dtype < PE_NDTYPES; dtype++)
        for (int shape = 0; shape < NSHAPES; shape++) {
            posenc_result r = { .ntensors = 1, .tensor = { make(a, "x", (posenc_dtype)dtype, shape) } };
            size_t n;
            posenc_error err = { 0 };
            posenc_tensor t;
            char *s = write_all(PE_npy, &r, NULL, &n);
            ck_assert_uint_eq(n % 64, (posenc_tensor_size(&r.tensor[0]) * (dtype == PE_bfloat16 ? 2 : 1)) % 64);
            ck_assert_int_eq(posenc_read_npy(s, n, "body", &t, a, &err), PE_OK);
            same(&t, &r.tensor[0], true);
            free(s);
        }
    posenc_arena_free(a);
}
END_TEST

/* The bytes that numpy.save of numpy 2 writes. */
START_TEST(npy_header)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = { .ntensors = 1, .tensor = { make(a, "x", PE_float32, 3) } };
    size_t n;
    char *s = write_all(PE_npy, &r, NULL, &n);
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   ";
    ck_assert_uint_eq(n, 128 + 48);
    ck_assert(!memcmp(s, head, sizeof head - 1));
    ck_assert_int_eq(s[127], '\n');
    free(s);
    posenc_arena_free(a);
}
END_TEST

static void round_trip(posenc_format f, reader read)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = one_of_each(a);
    posenc_tensor *t;
    posenc_error err = { 0 };
    size_t n, k, found = 0;
    char *s = write_all(f, &r, NULL, &n);
    char *again = write_all(f, &r, NULL, &n);
    ck_assert(!memcmp(s, again, n));
    ck_assert_int_eq(read(s, n, "body", &t, &k, a, &err), PE_OK);
    ck_assert_uint_eq(k, PE_NDTYPES);
    for (size_t i = 0; i < k; i++)
        for (int j = 0; j < r.ntensors; j++)
            if (!strcmp(t[i].name, r.tensor[j].name)) {
                same(&t[i], &r.tensor[j], f == PE_npz);
                found++;
            }
    ck_assert_uint_eq(found, PE_NDTYPES);
    free(s);
    free(again);
    posenc_arena_free(a);
}

START_TEST(npz_round_trip) { round_trip(PE_npz, posenc_read_npz); }
END_TEST
START_TEST(safetensors_round_trip) { round_trip(PE_safetensors, posenc_read_safetensors); }
END_TEST

START_TEST(sizes_without_data)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = one_of_each(a), empty = r;
    for (int i = 0; i < empty.ntensors; i++)
        empty.tensor[i].data = NULL;
    empty.nwarnings = 0;
    r.nwarnings = 1;
    strcpy(r.warning[0], "only the result knows this");
    for (int f = 0; f < PE_NFORMATS; f++)
        for (int i = 0; posenc_format_sized((posenc_format)f) && i < r.ntensors; i++) {
            posenc_selection sel = { .tensors = posenc_format_single((posenc_format)f) ? 1u << i : 0 };
            posenc_document with, without;
            ck_assert_int_eq(posenc_write((posenc_format)f, &origin, &r, &sel, &with, NULL), PE_OK);
            ck_assert_int_eq(posenc_write((posenc_format)f, &origin, &empty, &sel, &without, NULL), PE_OK);
            ck_assert_uint_eq(with.size, without.size);
            ck_assert_uint_eq(with.npieces, without.npieces);
            posenc_document_fini(&with);
            posenc_document_fini(&without);
        }
    posenc_arena_free(a);
}
END_TEST

/* Sizes alone, of tensors no machine holds: zip64 in every place. */
START_TEST(large_npz)
{
    posenc_result r = { .ntensors = 2 };
    posenc_document d;
    for (int i = 0; i < 2; i++)
        r.tensor[i] =
            (posenc_tensor){ .name = i ? "y" : "x", .dtype = PE_float32, .rank = 2, .shape = { 1 << 20, 1 << 20 } };
    ck_assert_int_eq(posenc_write(PE_npz, &origin, &r, NULL, &d, NULL), PE_OK);
    ck_assert_uint_gt(d.size, (uint64_t)8 << 40);
    const char *tail = (const char *)d.piece[d.npieces - 1].data + d.piece[d.npieces - 1].size;
    ck_assert(!memcmp(tail - 22, "PK\5\6", 4));
    ck_assert(!memcmp(tail - 42, "PK\6\7", 4));
    ck_assert(!memcmp(tail - 98, "PK\6\6", 4));
    posenc_document_fini(&d);
}
END_TEST

START_TEST(nothing_is_copied)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = { .ntensors = 2, .tensor = { make(a, "x", PE_float64, 3), make(a, "y", PE_float32, 4) } };
    static const posenc_format formats[] = { PE_npz, PE_safetensors };
    for (size_t i = 0; i < 2; i++) {
        posenc_document d;
        ck_assert_int_eq(posenc_write(formats[i], &origin, &r, NULL, &d, NULL), PE_OK);
        int borrowed = 0;
        for (size_t k = 0; k < d.npieces; k++)
            borrowed += d.piece[k].data == r.tensor[0].data || d.piece[k].data == r.tensor[1].data;
        ck_assert_int_eq(borrowed, 2);
        posenc_document_fini(&d);
    }
    posenc_arena_free(a);
}
END_TEST

/* Every tensor begins at a multiple of its element in safetensors, of 64 in npz. */
START_TEST(alignment)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = one_of_each(a);
    static const posenc_format formats[] = { PE_npz, PE_safetensors };
    for (size_t i = 0; i < 2; i++) {
        posenc_document d;
        ck_assert_int_eq(posenc_write(formats[i], &origin, &r, NULL, &d, NULL), PE_OK);
        uint64_t at = 0;
        for (size_t k = 0; k < d.npieces; at += d.piece[k++].size)
            for (int j = 0; j < r.ntensors; j++)
                if (d.piece[k].data == r.tensor[j].data)
                    ck_assert_uint_eq(at % (formats[i] == PE_npz ? 64 : posenc_dtype_size(r.tensor[j].dtype)), 0);
        posenc_document_fini(&d);
    }
    posenc_arena_free(a);
}
END_TEST

START_TEST(selections)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = { .ntensors = 3,
                        .tensor = { make(a, "x", PE_float32, 3), make(a, "y", PE_int64, 0), make(a, "z", PE_uint8, 1) } };
    posenc_selection rows = { .tensors = 1, .rows = true, .row_begin = 1, .row_end = 3 };
    size_t n;
    char *s = write_all(PE_bin, &r, &rows, &n);
    ck_assert_uint_eq(n, 32);
    ck_assert(!memcmp(s, (char *)r.tensor[0].data + 16, 32));
    free(s);
    rows.row_end = 1;
    free(write_all(PE_npy, &r, &rows, &n));
    rows.row_end = 4;
    refused(PE_npy, &r, &rows, PE_INVALID, "rows");
    rows.row_end = 0;
    refused(PE_npy, &r, &rows, PE_INVALID, "rows");
    rows = (posenc_selection){ .tensors = 2, .rows = true, .row_end = 1 };
    refused(PE_npy, &r, &rows, PE_INVALID, "rows");
    rows.tensors = 5;
    refused(PE_npz, &r, &rows, PE_INVALID, "rows");
    refused(PE_npy, &r, NULL, PE_INVALID, "tensor");
    refused(PE_csv, &r, NULL, PE_INVALID, "tensor");
    posenc_selection none = { .tensors = 8 };
    refused(PE_npz, &r, &none, PE_INVALID, "tensors");
    posenc_arena_free(a);
}
END_TEST

START_TEST(json_text)
{
    float x[2][3] = { { 0.1f, -1.0f, 3.4028235e38f }, { NAN, INFINITY, -INFINITY } };
    int64_t y = INT64_MIN;
    posenc_result r = { .ntensors = 3,
                        .nwarnings = 1,
                        .warning = { "say \"no\"\n" },
                        .tensor = { { "x", PE_float32, 2, { 2, 3 }, x },
                                    { "y", PE_int64, 0, { 0 }, &y },
                                    { "z", PE_float64, 2, { 2, 0 }, x } } };
    size_t n;
    char *s = write_all(PE_json, &r, NULL, &n);
    ck_assert_str_eq(s,
                     "{\"encoding\":\"trial\",\"revision\":3,\"digest\":\"0123456789abcdef0123456789abcdef0123456789abcdef"
                     "0123456789abcdef\",\"warnings\":[\"say \\\"no\\\"\\u000a\"],\"params\":{\"n\":4,\"word\":\"a\\\"b\"},"
                     "\"tensors\":{\"x\":{\"dtype\":\"float32\",\"shape\":[2,3],\"data\":[[0.1,-1,3.4028235e38],"
                     "[\"NaN\",\"Infinity\",\"-Infinity\"]]},\"y\":{\"dtype\":\"int64\",\"shape\":[],"
                     "\"data\":-9223372036854775808},\"z\":{\"dtype\":\"float64\",\"shape\":[2,0],\"data\":[[],[]]}}}");
    free(s);
    posenc_selection sel = { .tensors = 1, .data = PE_JSON_FLAT };
    s = write_all(PE_json, &r, &sel, &n);
    ck_assert_ptr_nonnull(strstr(s, "\"data\":[0.1,-1,3.4028235e38,\"NaN\",\"Infinity\",\"-Infinity\"]}"));
    free(s);
    sel = (posenc_selection){ .tensors = 2, .data = PE_JSON_BASE64 };
    s = write_all(PE_json, &r, &sel, &n);
    ck_assert_ptr_nonnull(strstr(s, "\"data\":\"AAAAAAAAAIA=\"}"));
    free(s);
    sel = (posenc_selection){ .tensors = 1, .json_limit = 5 };
    refused(PE_json, &r, &sel, PE_LIMIT, "format");
    sel.data = PE_JSON_BASE64;
    free(write_all(PE_json, &r, &sel, &n));
    posenc_result brackets = { .ntensors = 1, .tensor = { { "x", PE_float32, 2, { INT64_MAX, 0 }, NULL } } };
    refused(PE_json, &brackets, NULL, PE_LIMIT, "format");
}
END_TEST

START_TEST(csv_text)
{
    double x[2][3] = { { 0.1, -0.0, 1e300 }, { NAN, INFINITY, -2.5 } };
    posenc_result r = { .ntensors = 1, .tensor = { { "x", PE_float64, 2, { 2, 3 }, x } } };
    size_t n;
    char *s = write_all(PE_csv, &r, NULL, &n);
    ck_assert_str_eq(s, "0.1,-0.0,1e300\nNaN,Infinity,-2.5\n");
    free(s);
    r.tensor[0] = (posenc_tensor){ "x", PE_float64, 1, { 2 }, x };
    s = write_all(PE_csv, &r, NULL, &n);
    ck_assert_str_eq(s, "0.1\n-0.0\n");
    free(s);
    r.tensor[0].rank = 0;
    s = write_all(PE_csv, &r, NULL, &n);
    ck_assert_str_eq(s, "0.1\n");
    free(s);
    r.tensor[0] = (posenc_tensor){ "x", PE_float64, 2, { INT64_MAX, 0 }, NULL };
    s = write_all(PE_csv, &r, NULL, &n);
    ck_assert_uint_eq(n, 0);
    free(s);
    r.tensor[0] = (posenc_tensor){ "x", PE_float64, 3, { 1, 2, 3 }, x };
    refused(PE_csv, &r, NULL, PE_INVALID, "format");
}
END_TEST

/* The text of one element. */
static const char *text_of(posenc_dtype dtype, double v, char buf[64])
{
    uint64_t element = 0;
    posenc_convert(dtype, &element, &v, 1);
    posenc_result r = { .ntensors = 1, .tensor = { { "x", dtype, 0, { 0 }, &element } } };
    size_t n;
    char *s = write_all(PE_csv, &r, NULL, &n);
    ck_assert_uint_lt(n, 40);
    memcpy(buf, s, n - 1);
    buf[n - 1] = 0;
    free(s);
    return buf;
}

START_TEST(shortest_numbers)
{
    static const struct {
        posenc_dtype dtype;
        double v;
        const char *text;
    } cases[] = {
        { PE_float32, 0.1, "0.1" },
        { PE_float32, 1e-45, "1e-45" },
        { PE_float32, 16777216, "16777216" },
        { PE_float32, 123456789, "123456790" },
        { PE_float32, 1e-5, "0.00001" },
        { PE_float32, 1e-6, "1e-6" },
        { PE_float32, 1.17549435e-38, "1.1754944e-38" },
        { PE_float32, 0.333333343, "0.33333334" },
        { PE_float64, 0x1p-44, "5.684341886080802e-14" },
        { PE_float64, 5e-324, "5e-324" },
        { PE_float64, 1.7976931348623157e308, "1.7976931348623157e308" },
        { PE_float64, 0.1 + 0.2, "0.30000000000000004" },
        { PE_float64, 1e16, "10000000000000000" },
        { PE_float64, 1e17, "1e17" },
        { PE_float64, 123456.75, "123456.75" },
        { PE_float16, 65504, "65500" },
        { PE_float16, 0x1p-24, "6e-8" },
        { PE_float16, 0.1, "0.1" },
        { PE_float16, 1000, "1000" },
        { PE_bfloat16, 3.140625, "3.14" },
        { PE_bfloat16, 0x1p-133, "9e-41" },
        { PE_bfloat16, 3.3895314e38, "3.39e38" },
        { PE_int32, -2147483648.0, "-2147483648" },
        { PE_uint8, 255, "255" },
        { PE_int16, -32768, "-32768" },
    };
    char buf[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_str_eq(text_of(cases[i].dtype, cases[i].v, buf), cases[i].text);
}
END_TEST

/* All values of the 16-bit dtypes, many of the others. */
START_TEST(numbers_read_back)
{
    uint64_t state = 88172645463325252u;
    char buf[64];
    for (int dtype = 0; dtype <= PE_bfloat16; dtype++)
        for (uint32_t i = 0; i<65536; i += dtype> PE_float64 ? 1 : 7) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            uint64_t element = dtype > PE_float64 ? i : dtype == PE_float32 ? state & 0xffffffff : state, back = 0;
            posenc_tensor t = { "x", (posenc_dtype)dtype, 0, { 0 }, &element };
            double v = posenc_tensor_get(&t, 0);
            if (!isfinite(v))
                continue;
            double r = strtod(text_of((posenc_dtype)dtype, v, buf), NULL);
            posenc_convert((posenc_dtype)dtype, &back, &r, 1);
            ck_assert_msg(back == element, "%s of %s reads back as %.17g", buf, posenc_dtype_name((posenc_dtype)dtype), r);
            if (dtype == PE_float32)
                ck_assert(strtof(buf, NULL) == (float)v);
        }
}
END_TEST

/* ---- reading foreign files ----------------------------------------------------------------------------------- */

/* An npy file of version `version` around the text of a header. */
static size_t npy_file(char *out, int version, const char *header, const void *data, size_t size)
{
    size_t n = strlen(header), at = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)version;
    out[7] = 0;
    for (size_t i = 8; i < at; i++)
        out[i] = (char)(n >> 8 * (i - 8) & 0xff);
    memcpy(out + at, header, n);
    if (size)
        memcpy(out + at + n, data, size);
    return at + n + size;
}

START_TEST(npy_variants)
{
    static const unsigned char two[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xf4 };
    static const struct {
        int version;
        const char *header;
        size_t size;
        posenc_dtype dtype;
        int64_t shape[2];
        double first, last;
    } cases[] = {
        { 1, "{'descr':'<i2','fortran_order':False,'shape':(6,)}\n", 12, PE_int16, { 6, 0 }, 0x0201, -3061 },
        { 2, "{\"shape\": (6,), \"descr\": \">i2\", \"fortran_order\": False, }", 12, PE_int16, { 6, 0 }, 0x0102, 0x0bf4 },
        { 3, "{'descr':'<u2','fortran_order':False,'shape':(6,),}", 12, PE_int64, { 6, 0 }, 0x0201, 0xf40b },
        { 1, "{'descr':'|i1','fortran_order':False,'shape':(12,),}", 12, PE_int64, { 12, 0 }, 1, -12 },
        { 1, "{'descr':'|u1','fortran_order':True,'shape':(12,),}", 12, PE_uint8, { 12, 0 }, 1, 0xf4 },
        { 1, "{'descr':'|b1','fortran_order':False,'shape':(12,),}", 12, PE_uint8, { 12, 0 }, 1, 0xf4 },
        { 1, "{'descr':'<u4','fortran_order':False,'shape':(3,),}", 12, PE_int64, { 3, 0 }, 0x04030201, 0xf40b0a09 },
        { 1, "{'descr':'>i4','fortran_order':False,'shape':(3,),}", 12, PE_int32, { 3, 0 }, 0x01020304, 0x090a0bf4 },
        { 1, "{'descr':'<i2','fortran_order':True,'shape':(2, 3),}", 12, PE_int16, { 2, 3 }, 0x0201, -3061 },
        { 1, "{'descr':'|u1','fortran_order':True,'shape':(3, 4),}", 12, PE_uint8, { 3, 4 }, 1, 0xf4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[200], text[500];
        posenc_arena *a = posenc_arena_new(1 << 20);
        posenc_error err = { 0 };
        posenc_tensor t;
        size_t n = npy_file(file, cases[i].version, cases[i].header, two, cases[i].size);
        posenc_status st = posenc_read_npy(file, n, "body", &t, a, &err);
        ck_assert_msg(st == PE_OK, "%s: %s", cases[i].header, posenc_error_text(&err, text, sizeof text));
        ck_assert_int_eq(t.dtype, cases[i].dtype);
        ck_assert_int_eq(t.shape[0], cases[i].shape[0]);
        ck_assert_int_eq(t.shape[1], cases[i].shape[1]);
        ck_assert(posenc_tensor_get(&t, 0) == cases[i].first);
        ck_assert(posenc_tensor_get(&t, posenc_tensor_count(&t) - 1) == cases[i].last);
        if (t.rank == 2) /* columns first in the file */
            ck_assert(posenc_tensor_get(&t, 1) == (t.dtype == PE_uint8 ? 4 : 0x0605));
        posenc_arena_free(a);
    }
}
END_TEST

START_TEST(npy_hostile)
{
    static const char *const headers[] = {
        "",
        "{",
        "{}",
        "[]",
        "{'descr':'<f4','fortran_order':False,'shape':(1,)",
        "{'descr':'<f4','fortran_order':False}",
        "{'descr':'|O','fortran_order':False,'shape':(1,),}",
        "{'descr':'|O8','fortran_order':False,'shape':(1,),}",
        "{'descr':'<U1','fortran_order':False,'shape':(1,),}",
        "{'descr':'<c8','fortran_order':False,'shape':(1,),}",
        "{'descr':[('a','<f4')],'fortran_order':False,'shape':(1,),}",
        "{'descr':'|f4','fortran_order':False,'shape':(1,),}",
        "{'descr':'=f4','fortran_order':False,'shape':(1,),}",
        "{'descr':'<f4','fortran_order':0,'shape':(1,),}",
        "{'descr':'<f4','fortran_order':False,'shape':(1),}",
        "{'descr':'<f4','fortran_order':False,'shape':(-1,),}",
        "{'descr':'<f4','fortran_order':False,'shape':(2,),}",
        "{'descr':'<f4','fortran_order':False,'shape':(0,),}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1),}",
        "{'descr':'<f4','fortran_order':False,'shape':(4294967296,4294967296),}",
        "{'descr':'<f4','fortran_order':False,'shape':(0,9223372036854775807,9223372036854775807),}",
        "{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,),}",
        "{'descr':'<f4','fortran_order':False,'shape':(9223372036854775808,),}",
        "{'descr':'<f4','descr':'<f4','shape':(1,),}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,),'x':1}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,),}x",
        "{'descr':'<f4','fortran_order':False,'shape':(1,,),}",
        "{'descr':'<f4' 'fortran_order':False,'shape':(1,),}",
        "{'desc\\x72':'<f4','fortran_order':False,'shape':(1,),}",
    };
    char file[300];
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        for (int version = 1; version <= 3; version++) {
            posenc_error err = { 0 };
            size_t n = npy_file(file, version, headers[i], "abcd", 4);
            ck_assert_msg(read_copy(read_npy_as_list, file, n, &err) == PE_INVALID, "%s", headers[i]);
            ck_assert_uint_eq(err.n, 1);
        }
    size_t n = npy_file(file, 1, "{'descr':'<f4','fortran_order':False,'shape':(1,),}", "abcd", 4);
    ck_assert_int_eq(read_copy(read_npy_as_list, file, n, NULL), PE_OK);
    for (size_t k = 0; k < n; k++)
        ck_assert_int_eq(read_copy(read_npy_as_list, file, k, NULL), PE_INVALID);
    file[6] = 4;
    ck_assert_int_eq(read_copy(read_npy_as_list, file, n, NULL), PE_INVALID);
}
END_TEST

/* Every truncation is refused, no changed byte does harm. */
static void mangle(posenc_format f, reader read)
{
    posenc_arena *a = posenc_arena_new(1 << 20);
    posenc_result r = { .ntensors = 2, .tensor = { make(a, "x", PE_float32, 3), make(a, "y", PE_int64, 1) } };
    size_t n;
    char *s = write_all(f, &r, NULL, &n);
    ck_assert_int_eq(read_copy(read, s, n, NULL), PE_OK);
    for (size_t k = 0; k < n; k++)
        ck_assert_msg(read_copy(read, s, k, NULL) != PE_OK, "%s cut at %zu of %zu", posenc_format_name(f), k, n);
    for (size_t k = 0; k < n; k++)
        for (int bit = 0; bit < 8; bit++) {
            s[k] = (char)(s[k] ^ 1 << bit);
            read_copy(read, s, n, NULL);
            s[k] = (char)(s[k] ^ 1 << bit);
        }
    free(s);
    posenc_arena_free(a);
}

START_TEST(npz_mangled) { mangle(PE_npz, posenc_read_npz); }
END_TEST
START_TEST(safetensors_mangled) { mangle(PE_safetensors, posenc_read_safetensors); }
END_TEST

/* A zip archive of hostile or foreign making. */
typedef struct zip {
    char s[400000];
    size_t n;
    struct {
        size_t offset, size, packed, name;
        const char *called;
        uint32_t crc;
        int method, flags;
    } m[8];
    size_t members;
} zip;

static void le(zip *z, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        z->s[z->n++] = (char)(v >> 8 * i & 0xff);
}

static void zip_head(zip *z, size_t i, bool central)
{
    if (central)
        le(z, 20, 2);
    le(z, 20, 2);
    le(z, (uint64_t)z->m[i].flags, 2);
    le(z, (uint64_t)z->m[i].method, 2);
    le(z, 0, 4);
    le(z, z->m[i].crc, 4);
    le(z, z->m[i].packed, 4);
    le(z, z->m[i].size, 4);
    le(z, z->m[i].name, 2);
    le(z, 0, 2);
}

static void zip_member(zip *z, const char *name, int method, int flags, const void *data, size_t size)
{
    size_t i = z->members++;
    uLongf packed = compressBound((uLong)size) + 16;
    Bytef *p = malloc(packed);
    ck_assert_ptr_nonnull(p);
    if (method == 8) {
        z_stream s = {
            .next_in = (z_const Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = p, .avail_out = (uInt)packed
        };
        ck_assert_int_eq(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        ck_assert_int_eq(deflate(&s, Z_FINISH), Z_STREAM_END);
        packed = s.total_out;
        deflateEnd(&s);
    } else {
        memcpy(p, data, size);
        packed = size;
    }
    z->m[i].offset = z->n;
    z->m[i].size = size;
    z->m[i].packed = packed;
    z->m[i].called = name;
    z->m[i].name = strlen(name);
    z->m[i].crc = (uint32_t)crc32(0, data, (uInt)size);
    z->m[i].method = method;
    z->m[i].flags = flags;
    le(z, 0x04034b50, 4);
    zip_head(z, i, false);
    memcpy(z->s + z->n, name, z->m[i].name);
    z->n += z->m[i].name;
    memcpy(z->s + z->n, p, packed);
    z->n += packed;
    free(p);
}

static void zip_end(zip *z)
{
    size_t begin = z->n;
    for (size_t i = 0; i < z->members; i++) {
        le(z, 0x02014b50, 4);
        zip_head(z, i, true);
        le(z, 0, 8);
        le(z, 0, 2);
        le(z, z->m[i].offset, 4);
        memcpy(z->s + z->n, z->m[i].called, z->m[i].name);
        z->n += z->m[i].name;
    }
    size_t size = z->n - begin;
    le(z, 0x06054b50, 4);
    le(z, 0, 4);
    le(z, z->members, 2);
    le(z, z->members, 2);
    le(z, size, 4);
    le(z, begin, 4);
    le(z, 0, 2);
}

START_TEST(npz_foreign)
{
    static zip z;
    static char zeros[300000];
    char npy[200];
    size_t n = npy_file(npy, 1, "{'descr':'<f4','fortran_order':False,'shape':(1,),}", "abcd", 4);
    struct {
        const char *name;
        int method, flags;
        posenc_status want;
    } cases[] = {
        { "a.npy", 0, 0, PE_OK },           { "a.npy", 8, 0, PE_OK },
        { "__posenc__.json", 0, 0, PE_OK }, { "edge.index-2.npy", 0, 8, PE_OK },
        { "a.npy", 0, 1, PE_INVALID },      { "a.npy", 9, 0, PE_INVALID },
        { "a.txt", 0, 0, PE_INVALID },      { ".npy", 0, 0, PE_INVALID },
        { "../a.npy", 0, 0, PE_INVALID },   { "a/b.npy", 0, 0, PE_INVALID },
        { "a b.npy", 0, 0, PE_INVALID },    { "", 0, 0, PE_INVALID },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&z, 0, sizeof z);
        zip_member(&z, cases[i].name, cases[i].method, cases[i].flags, npy, n);
        zip_end(&z);
        ck_assert_msg(read_copy(posenc_read_npz, z.s, z.n, NULL) == cases[i].want, "%s", cases[i].name);
    }
    memset(&z, 0, sizeof z); /* the same name twice */
    zip_member(&z, "a.npy", 0, 0, npy, n);
    zip_member(&z, "a.npy", 0, 0, npy, n);
    zip_end(&z);
    ck_assert_int_eq(read_copy(posenc_read_npz, z.s, z.n, NULL), PE_INVALID);
    memset(&z, 0, sizeof z); /* two entries, one place */
    zip_member(&z, "a.npy", 0, 0, npy, n);
    z.m[z.members++] = z.m[0];
    zip_end(&z);
    ck_assert_int_eq(read_copy(posenc_read_npz, z.s, z.n, NULL), PE_INVALID);
    memset(&z, 0, sizeof z); /* a wrong checksum */
    zip_member(&z, "a.npy", 0, 0, npy, n);
    z.m[0].crc ^= 1;
    zip_end(&z);
    ck_assert_int_eq(read_copy(posenc_read_npz, z.s, z.n, NULL), PE_INVALID);
    for (int more = -1; more <= 1; more += 2) { /* a deflate stream of another size than promised */
        memset(&z, 0, sizeof z);
        zip_member(&z, "a.npy", 8, 0, npy, n);
        z.m[0].size = n + (size_t)more;
        zip_end(&z);
        ck_assert_int_eq(read_copy(posenc_read_npz, z.s, z.n, NULL), PE_INVALID);
    }
    memset(&z, 0, sizeof z); /* nothing in it */
    zip_end(&z);
    ck_assert_int_eq(read_copy(posenc_read_npz, z.s, z.n, NULL), PE_OK);
    memset(&z, 0, sizeof z); /* a bomb: 1.5 MB from 2 KB */
    for (int i = 0; i < 5; i++)
        zip_member(&z,
                   i == 0   ? "a.npy"
                   : i == 1 ? "b.npy"
                   : i == 2 ? "c.npy"
                   : i == 3 ? "d.npy"
                            : "e.npy",
                   8, 0, zeros,
                   npy_file(zeros, 1, "{'descr':'|u1','fortran_order':False,'shape':(299000,),}", NULL, 0) + 299000);
    zip_end(&z);
    ck_assert_int_eq(read_copy(posenc_read_npz, z.s, z.n, NULL), PE_LIMIT);
}
END_TEST

static size_t safetensors_file(char *out, const char *header, size_t size)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (char)((uint64_t)n >> 8 * i & 0xff);
    memcpy(out + 8, header, n);
    memset(out + 8 + n, 7, size);
    return 8 + n + size;
}

START_TEST(safetensors_foreign)
{
    static const struct {
        const char *header;
        size_t size;
        posenc_status want;
    } cases[] = {
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, PE_OK },
        { "{\"a\":{\"dtype\":\"I16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}   ", 4, PE_OK },
        { "{\"wpe.weight\":{\"shape\":[],\"dtype\":\"BF16\",\"data_offsets\":[0,2]},"
          "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[2,4]}}",
          4, PE_OK },
        { "{\"a\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, PE_OK },
        { "{}", 0, PE_OK },
        { "{\"__metadata__\":{\"a\":\"b\"}}", 0, PE_OK },
        { "{\"__metadata__\":{\"a\":1}}", 0, PE_INVALID },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, PE_INVALID },
        { "{}", 1, PE_INVALID },
        { "[]", 0, PE_INVALID },
        { " {}", 0, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
          "offsets\":[4,8]}}",
          8, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
          "offsets\":[0,4]}}",
          4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, PE_INVALID },
        { "{\"a b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, PE_INVALID },
        { "{\"a\":1}", 0, PE_INVALID },
    };
    char file[400];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = safetensors_file(file, cases[i].header, cases[i].size);
        ck_assert_msg(read_copy(posenc_read_safetensors, file, n, NULL) == cases[i].want, "%s", cases[i].header);
    }
    memset(file, 0xff, 8);
    ck_assert_int_eq(read_copy(posenc_read_safetensors, file, 100, NULL), PE_INVALID);
}
END_TEST

Suite *formats_suite(void)
{
    Suite *s = suite_create("formats");
    TCase *t = tcase_create("writing");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, names);
    tcase_add_test(t, npy_round_trip);
    tcase_add_test(t, npy_header);
    tcase_add_test(t, npz_round_trip);
    tcase_add_test(t, safetensors_round_trip);
    tcase_add_test(t, sizes_without_data);
    tcase_add_test(t, large_npz);
    tcase_add_test(t, nothing_is_copied);
    tcase_add_test(t, alignment);
    tcase_add_test(t, selections);
    tcase_add_test(t, json_text);
    tcase_add_test(t, csv_text);
    tcase_add_test(t, shortest_numbers);
    tcase_add_test(t, numbers_read_back);
    suite_add_tcase(s, t);
    t = tcase_create("reading");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, npy_variants);
    tcase_add_test(t, npy_hostile);
    tcase_add_test(t, npz_mangled);
    tcase_add_test(t, npz_foreign);
    tcase_add_test(t, safetensors_mangled);
    tcase_add_test(t, safetensors_foreign);
    suite_add_tcase(s, t);
    return s;
}
