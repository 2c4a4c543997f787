/* pairs.c - from a curve of distances to a matrix of queries and keys. */
#include "sequence/pairs.h"

uint64_t pe_pairs_scratch(const pe_pairs *p, posenc_dtype dtype)
{
    return (uint64_t)pe_pairs_curve(p) * posenc_dtype_size(dtype);
}

posenc_status pe_pairs_fill(const pe_pairs *p, const posenc_tensor *dst, int64_t index, const double *curve, void *narrow,
                            pe_pace *pace)
{
    enum { BLOCK = 1 << 16 };
    const size_t size = posenc_dtype_size(dst->dtype), n = (size_t)pe_pairs_curve(p), k = (size_t)p->key_length;
    posenc_status st = PE_OK;
    for (size_t i = 0; i < n && !st; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        posenc_convert(dst->dtype, (char *)narrow + i * size, curve + i, m);
        st = pe_pace_add(pace, (int64_t)m * 4);
    }
    char *row = (char *)dst->data + (size_t)index * (size_t)p->query_length * k * size;
    for (int64_t i = 0; n && i < p->query_length && !st; i++, row += k * size)
        if (!(st = pe_pace_copy(pace, row, (char *)narrow + (size_t)(p->query_length - 1 - i) * size, k * size)))
            st = pe_pace_add(pace, (int64_t)(k * size) / 2 + 10); /* memory never touched before is slow */
    return st;
}

double pe_largest(posenc_dtype dtype) { return dtype == PE_float16 ? 65504 : dtype == PE_float64 ? 1e300 : 3e38; }
