/* store.c - rounding with a look at what does not fit. */
#include "core/store.h"

#include "core/lanes.h"
#include "core/params.h"

#include <math.h>

/* The least magnitude that rounds to infinity: half a step beyond the largest finite number. */
static double overflow(posenc_dtype t)
{
    switch (t) {
    case PE_float32: return 0x1.ffffffp127;
    case PE_float16: return 65520;
    case PE_bfloat16: return 0x1.ffp127;
    default: return (double)INFINITY;
    }
}

/* Whether every |v| is below the limit: bits of magnitudes are in the order of the magnitudes. */
PE_BODY void below_body(const double *v, size_t n, double limit, bool *all)
{
    const pe_masks most = (pe_masks)PE_SPLAT(limit);
    pe_masks below = most | INT64_MIN;
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_masks x;
        memcpy(&x, v + i, sizeof x);
        below &= (x & INT64_MAX) - most;
    }
    *all = true;
    for (int l = 0; l < PE_LANES; l++)
        *all = *all && below[l] < 0;
    for (; i < n; i++)
        *all = *all && fabs(v[i]) < limit;
}

PE_KERNEL(below, below_body, (const double *v, size_t n, double limit, bool *all), (v, n, limit, all))

posenc_status pe_store(const posenc_tensor *t, int64_t first, const double *v, size_t n, posenc_error *err)
{
    const double limit = overflow(t->dtype);
    bool all;
    below_paths[pe_simd()](v, n, limit, &all);
    for (size_t i = 0; i < n && !all; i++)
        if (!(fabs(v[i]) < limit))
            return pe_invalid(err, "dtype", posenc_text("%s", posenc_dtype_name(t->dtype)),
                              "a type that holds element %lld of %s, which is %.6g", (long long)first + (long long)i,
                              t->name, v[i]);
    posenc_convert(t->dtype, (char *)t->data + (size_t)first * posenc_dtype_size(t->dtype), v, n);
    return PE_OK;
}
