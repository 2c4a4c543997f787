/* slopes.c - slopes by MPFR ladders, one for a power of two, two for other numbers of heads. */
#include "sequence/slopes.h"

#include "core/elementary.h"

#include <stdlib.h>

const char *const pe_slope_dtypes[] = { "float32", "float64", "float16", "bfloat16", NULL }; /* as posenc_dtype */

double pe_rounded(posenc_dtype t, double v)
{
    char narrow[8];
    const posenc_tensor one = { .dtype = t, .data = narrow };
    if (t == PE_float64)
        return v;
    posenc_convert(t, narrow, &v, 1);
    return posenc_tensor_get(&one, 0);
}

void pe_slopes_check(const posenc_request *r, pe_slopes *s, posenc_error *err)
{
    if (s->head_start >= s->num_heads) {
        pe_invalid(err, "head_start", posenc_text("%lld", (long long)s->head_start), "0 .. %lld, below num_heads",
                   (long long)s->num_heads - 1);
        return;
    }
    const int64_t most = s->num_heads - s->head_start;
    if (!pe_given(r, "head_count"))
        s->head_count = most;
    if (s->head_count > most)
        pe_invalid(err, "head_count", posenc_text("%lld", (long long)s->head_count),
                   "1 .. %lld, the heads from head_start on", (long long)most);
}

/* The largest power of two that is at most n. */
static int64_t power_below(int64_t n)
{
    int64_t k = 1;
    while (k * 2 <= n)
        k *= 2;
    return k;
}

double pe_slopes_bound(const pe_slopes *s)
{
    const int64_t k = power_below(s->num_heads), first = s->head_start, end = first + s->head_count;
    double exponent = (double)(first + 1) / (double)k; /* of 2^-b: the smallest in the slice */
    if (end > k) {                                     /* the odd rungs of the longer ladder start again near 1 */
        const int64_t odd = first > k ? first - k : 0;
        const double other = (double)(2 * odd + 1) / (double)(2 * k);
        exponent = first >= k || other < exponent ? other : exponent;
    }
    const double bound = pe_pow(2, -s->alibi_bias_max * exponent) * (1 + 0x1p-7); /* rounding to bfloat16 included */
    return bound < 1 ? bound : 1;
}

posenc_cost pe_slopes_cost(const pe_slopes *s)
{
    const int64_t n = s->num_heads, k = power_below(n), ladders = n > k ? 2 : 1;
    return (posenc_cost){
        .ns = 29000.0 * (double)ladders + 160.0 * (double)(k + 2 * (n - k) + 2),
        .scratch = (uint64_t)(2 * k + 1) * sizeof(pe_dd),
    };
}

/* 2^(-b i / n) for i = 0 .. last, each rounded once. */
static posenc_status ladder(double b, int64_t n, int64_t last, pe_dd *w, const posenc_context *ctx)
{
    const pe_ladder l = {
        .gain = { 1, 0 }, .top = 2, .bottom = 1, .steps = pe_dd_div((pe_dd){ (double)n, 0 }, (pe_dd){ b, 0 })
    };
    return pe_frequencies(&l, (size_t)last + 1, w, ctx);
}

posenc_status pe_slopes_compute(const pe_slopes *s, double *slope, const posenc_context *ctx, posenc_error *err)
{
    const int64_t n = s->num_heads, k = power_below(n), first = s->head_start, end = first + s->head_count;
    enum { POLL = 1 << 16 };
    pe_dd *w = malloc((size_t)(2 * k + 1) * sizeof *w);
    posenc_status st = PE_OK;
    if (!w)
        return pe_no_memory("memory", err);
    if (first < k && !(st = ladder(s->alibi_bias_max, k, k, w, ctx)))
        for (int64_t h = first; h < end && h < k; h++)
            slope[h - first] = w[h + 1].hi;
    if (!st && end > k && !(st = ladder(s->alibi_bias_max, 2 * k, 2 * (end - k) - 1, w, ctx)))
        for (int64_t h = first > k ? first : k; h < end; h++)
            slope[h - first] = w[2 * (h - k) + 1].hi;
    for (int64_t i = 0; !st && s->slope_dtype != PE_float64 && i < s->head_count; i++) {
        slope[i] = pe_rounded((posenc_dtype)s->slope_dtype, slope[i]);
        st = i % POLL == POLL - 1 ? posenc_poll(ctx) : PE_OK;
    }
    free(w);
    return st;
}
