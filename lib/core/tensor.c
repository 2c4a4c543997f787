/* tensor.c - dtypes, sizes, and the one rounding at the end of every computation. */
#include "posenc.h"

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

/* Rounds to a binary format of `mant` explicit fraction bits and exponent bias `bias`, ties to even; once, from
 * the float64, so that nothing is rounded twice. The result is laid out sign, exponent, fraction in 16 bits. */
static uint16_t narrow(double v, int mant, int bias)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int top = 2 * bias + 1, e = (int)(bits >> 52 & 0x7ff); /* top: exponent field of infinity */
    uint64_t f = bits & 0xfffffffffffffULL;
    if (e == 0x7ff)
        return (uint16_t)(sign | top << mant | (f ? 1 << (mant - 1) : 0));
    if (!e) /* float64 subnormals are far below half of any step */
        return sign;
    f |= 1ULL << 52;
    int exp = e - 1023 + bias, drop = 52 - mant;
    if (exp < 1) {
        drop += 1 - exp;
        exp = 0;
    }
    if (drop > 54)
        return sign;
    uint64_t kept = f >> drop, half = 1ULL << (drop - 1), rest = f & ((1ULL << drop) - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    uint64_t r = exp ? ((uint64_t)(exp - 1) << mant) + kept : kept; /* a carry moves into the exponent by itself */
    if (r >= (uint64_t)top << mant)
        r = (uint64_t)top << mant;
    return (uint16_t)(sign | r);
}

static double widen(uint16_t v, int mant, int bias)
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

void posenc_convert(posenc_dtype t, void *dst, const double *src, size_t n)
{
    switch (t) {
    case PE_float32:
        for (size_t i = 0; i < n; i++)
            ((float *)dst)[i] = (float)src[i];
        break;
    case PE_float64:
        if (n)
            memcpy(dst, src, n * 8);
        break;
    case PE_float16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = narrow(src[i], 10, 15);
        break;
    case PE_bfloat16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = narrow(src[i], 7, 127);
        break;
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
    case PE_NDTYPES: break;
    }
}

double posenc_tensor_get(const posenc_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case PE_float32: return (double)((const float *)t->data)[i];
    case PE_float64: return ((const double *)t->data)[i];
    case PE_float16: return widen(((const uint16_t *)t->data)[i], 10, 15);
    case PE_bfloat16: return widen(((const uint16_t *)t->data)[i], 7, 127);
    case PE_int32: return (double)((const int32_t *)t->data)[i];
    case PE_int64: return (double)((const int64_t *)t->data)[i];
    case PE_uint8: return (double)((const uint8_t *)t->data)[i];
    case PE_NDTYPES: break;
    }
    return 0;
}
