/* tensor.c - dtypes, sizes, and the one rounding at the end of every computation. */
#include "posenc.h"

#include "core/lanes.h"
#include "core/narrow.h"
#include "core/params.h"

#include <math.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "posenc writes tensors in the host's order, which must be little-endian"
#endif

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define X(name, size, numpy, safetensors) { #name, size },
    POSENC_DTYPES(X)
#undef X
};

size_t posenc_dtype_size(posenc_dtype t) { return dtypes[t].size; }
const char *posenc_dtype_name(posenc_dtype t) { return dtypes[t].name; }

bool posenc_dtype_named(const char *name, posenc_dtype *out)
{
    for (size_t i = 0; i < PE_LEN(dtypes); i++)
        if (!strcmp(name, dtypes[i].name)) {
            *out = (posenc_dtype)i;
            return true;
        }
    return false;
}

bool posenc_mul_size(int64_t a, int64_t b, int64_t *dst) { return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, dst); }

int64_t posenc_tensor_count(const posenc_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

uint64_t posenc_tensor_size(const posenc_tensor *t)
{
    return (uint64_t)posenc_tensor_count(t) * posenc_dtype_size(t->dtype);
}

/* ---- rounding, in lanes ---- */

PE_BODY void float32_body(const double *src, float *dst, size_t n)
{
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_lanes v;
        PE_LOAD(v, src + i, PE_LANES);
        pe_floats f = __builtin_convertvector(v, pe_floats);
        memcpy(dst + i, &f, sizeof f);
    }
    for (; i < n; i++)
        dst[i] = (float)src[i];
}

PE_KERNEL(float32, float32_body, (const double *src, float *dst, size_t n), (src, dst, n))

typedef uint16_t halves __attribute__((vector_size(16)));

/* Where x is negative all ones, otherwise 0. */
#define BELOW_ZERO(x) ((pe_bits)((pe_masks)(x) >> 63))

/* Rounds to a binary format of `mant` explicit fraction bits and exponent bias `bias`, ties to even; once, from
 * the float64, so that nothing is rounded twice. The result is laid out sign, exponent, fraction in 16 bits. */
PE_BODY void narrow_lanes(const pe_bits *in, int mant, int bias, pe_bits *out)
{
    const uint64_t infinity = (uint64_t)(2 * bias + 1) << mant;
    const pe_bits u = *in, fraction = u & 0xfffffffffffffULL, e = u >> 52 & 0x7ff;
    const pe_bits f = fraction | 1ULL << 52;              /* float64 subnormals become more and are far below half a step */
    const pe_bits exponent = e + (uint64_t)(bias - 1023); /* below 1: subnormal */
    pe_bits more = 1 - exponent, drop;
    more &= ~BELOW_ZERO(more);
    drop = more + (uint64_t)(52 - mant);
    const pe_bits over = BELOW_ZERO(55 - drop);
    drop = (drop & ~over) | (over & 55);
    const pe_bits odd = f >> drop & 1, half = (pe_bits){ 1, 1, 1, 1, 1, 1, 1, 1 } << (drop - 1);
    const pe_bits kept = (f + half - 1 + odd) >> drop;
    pe_bits r = kept +
                (((exponent - 1) << mant) & ~BELOW_ZERO(exponent - 1)); /* a carry moves into the exponent by itself */
    const pe_bits finite = BELOW_ZERO(r - infinity);
    r = (r & finite) | (~finite & infinity);
    const pe_bits nan = BELOW_ZERO(0x7fe - e) & BELOW_ZERO(-fraction);
    *out = r | (nan & (uint64_t)(1 << (mant - 1))) | u >> 63 << 15;
}

/* Each by the rules above: of NaN, and of numbers below the normal float32, which are rare. */
PE_BODY void narrow_slow(const double *src, uint16_t *dst, size_t n, int mant, int bias)
{
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        pe_bits u = { 0 }, r;
        memcpy(&u, src + i, m * sizeof *src);
        narrow_lanes(&u, mant, bias, &r);
        halves h = __builtin_convertvector(r, halves);
        memcpy(dst + i, &h, m * sizeof *dst);
    }
}

PE_BODY void narrow_body(const double *src, uint16_t *dst, size_t n, int mant, int bias)
{
    enum { WIDE = 2 * PE_LANES };
    pe_words16 rare = { 0 };
    size_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        pe_lanes a, b;
        pe_floats16 f;
        pe_words16 r;
        PE_LOAD(a, src + i, PE_LANES);
        PE_LOAD(b, src + i + PE_LANES, PE_LANES);
        pe_lanes_odd(&a);
        pe_lanes_odd(&b);
        pe_floats16_of(&a, &b, false, &f);
        const pe_words16 size = (pe_words16)f & 0x7fffffff;
        rare |= 0x7f800000 - size; /* negative: NaN */
        rare |= (size - 0x800000) & ~(size - 1);
        if (mant == 10)
            pe_float16_of(&f, false, &r);
        else
            pe_bfloat16_of(&f, &r);
        const pe_halves16 h = __builtin_convertvector(r, pe_halves16);
        memcpy(dst + i, &h, sizeof h);
    }
    uint32_t any = 0;
    for (int l = 0; l < WIDE; l++)
        any |= rare[l];
    if (any >> 31)
        i = 0;
    narrow_slow(src + i, dst + i, n - i, mant, bias);
}

PE_BODY void float16_body(const double *src, uint16_t *dst, size_t n) { narrow_body(src, dst, n, 10, 15); }
PE_BODY void bfloat16_body(const double *src, uint16_t *dst, size_t n) { narrow_body(src, dst, n, 7, 127); }

PE_KERNEL(float16, float16_body, (const double *src, uint16_t *dst, size_t n), (src, dst, n))
PE_KERNEL(bfloat16, bfloat16_body, (const double *src, uint16_t *dst, size_t n), (src, dst, n))

static double wide(uint16_t v, int mant, int bias)
{
    int top = 2 * bias + 1, e = v >> mant & top, f = v & ((1 << mant) - 1);
    double r;
    if (e == top)
        r = f ? (double)NAN : (double)INFINITY;
    else if (e)
        r = ldexp((double)(f + (1 << mant)), e - bias - mant);
    else
        r = ldexp((double)f, 1 - bias - mant);
    return v >> 15 ? -r : r;
}

void posenc_convert(posenc_dtype t, void *dst, const double *src, size_t n) { pe_convert_on(pe_simd(), t, dst, src, n); }

void pe_convert_on(pe_path path, posenc_dtype t, void *dst, const double *src, size_t n)
{
    switch (t) {
    case PE_float32: float32_paths[path](src, dst, n); break;
    case PE_float64:
        if (n)
            memcpy(dst, src, n * 8);
        break;
    case PE_float16: float16_paths[path](src, dst, n); break;
    case PE_bfloat16: bfloat16_paths[path](src, dst, n); break;
    case PE_int32:
        for (size_t i = 0; i < n; i++)
            ((int32_t *)dst)[i] = (int32_t)src[i];
        break;
    case PE_int64:
        for (size_t i = 0; i < n; i++)
            ((int64_t *)dst)[i] = (int64_t)src[i];
        break;
    case PE_uint8:
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] = (uint8_t)src[i];
        break;
    case PE_int16:
        for (size_t i = 0; i < n; i++)
            ((int16_t *)dst)[i] = (int16_t)src[i];
        break;
    case PE_NDTYPES: break;
    }
}

double posenc_tensor_get(const posenc_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case PE_float32: return (double)((const float *)t->data)[i];
    case PE_float64: return ((const double *)t->data)[i];
    case PE_float16: return wide(((const uint16_t *)t->data)[i], 10, 15);
    case PE_bfloat16: return wide(((const uint16_t *)t->data)[i], 7, 127);
    case PE_int32: return (double)((const int32_t *)t->data)[i];
    case PE_int64: return (double)((const int64_t *)t->data)[i];
    case PE_uint8: return (double)((const uint8_t *)t->data)[i];
    case PE_int16: return (double)((const int16_t *)t->data)[i];
    case PE_NDTYPES: break;
    }
    return 0;
}

PE_BODY void widen_body(const float *src, double *dst, size_t n)
{
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_floats f;
        memcpy(&f, src + i, sizeof f);
        pe_lanes v = __builtin_convertvector(f, pe_lanes);
        PE_STORE(dst + i, v, PE_LANES);
    }
    for (; i < n; i++)
        dst[i] = (double)src[i];
}

PE_KERNEL(widen, widen_body, (const float *src, double *dst, size_t n), (src, dst, n))

/* float16 and bfloat16, exactly: the float64 of a subnormal is its fraction times a power of two, the difference of two
 * normal numbers. `top` is the exponent of infinity. */
PE_BODY void widen_halves_body(const uint16_t *src, double *dst, size_t n, int mant, int bias)
{
    const uint64_t top = (uint64_t)(2 * bias + 1), rebias = (uint64_t)(1023 - bias);
    const double one = ldexp(1, 1 - bias); /* the smallest normal number */
    for (size_t i = 0; i < n; i += PE_LANES) {
        const size_t m = n - i < PE_LANES ? n - i : PE_LANES;
        halves h = { 0 };
        memcpy(&h, src + i, m * sizeof *src);
        const pe_bits u = __builtin_convertvector(h, pe_bits), sign = u >> 15 << 63, e = u >> mant & top;
        const pe_bits fraction = (u << (52 - mant)) & 0xfffffffffffffULL;
        const pe_bits special = ~BELOW_ZERO(e - top), below = BELOW_ZERO(e - 1);
        const pe_bits exponent = (e + rebias) | (special & 0x7ff);
        const pe_lanes small = (pe_lanes)(fraction | (rebias + 1) << 52) - one;
        const pe_lanes v = (pe_lanes)((((exponent << 52 | fraction) & ~below) | ((pe_bits)small & below)) | sign);
        memcpy(dst + i, &v, m * sizeof *dst);
    }
}

PE_BODY void widen16_body(const uint16_t *src, double *dst, size_t n) { widen_halves_body(src, dst, n, 10, 15); }
PE_BODY void widenb16_body(const uint16_t *src, double *dst, size_t n) { widen_halves_body(src, dst, n, 7, 127); }

PE_KERNEL(widen16, widen16_body, (const uint16_t *src, double *dst, size_t n), (src, dst, n))
PE_KERNEL(widenb16, widenb16_body, (const uint16_t *src, double *dst, size_t n), (src, dst, n))

#define READ(type)                 \
    for (size_t i = 0; i < n; i++) \
        out[i] = (double)((const type *)from)[i];

void pe_tensor_read_on(pe_path path, const posenc_tensor *t, int64_t first, size_t n, double *out)
{
    if (!n)
        return;
    const void *from = (const char *)t->data + (size_t)first * posenc_dtype_size(t->dtype);
    switch (t->dtype) {
    case PE_float64: memcpy(out, from, n * sizeof *out); break;
    case PE_float32: widen_paths[path](from, out, n); break;
    case PE_float16: widen16_paths[path](from, out, n); break;
    case PE_bfloat16: widenb16_paths[path](from, out, n); break;
    case PE_int32: READ(int32_t) break;
    case PE_int64: READ(int64_t) break;
    case PE_uint8: READ(uint8_t) break;
    case PE_int16: READ(int16_t) break;
    case PE_NDTYPES: break;
    }
}

void pe_tensor_read(const posenc_tensor *t, int64_t first, size_t n, double *out)
{
    pe_tensor_read_on(pe_simd(), t, first, n, out);
}
