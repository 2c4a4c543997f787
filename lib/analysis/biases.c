/* biases.c - what has no waves: slopes and biases of ALiBi. */
#include "analysis/identify.h"

#include "core/elementary.h"

#include <math.h>
#include <string.h>

static const char *const slope_types[] = { NULL, "bfloat16", "float32", "float16" };

static void put_heads(pe_guess *w, size_t heads, double most, const char *type)
{
    pe_guess_int(w, "num_heads", (int64_t)heads);
    if (most != 8)
        pe_guess_real(w, "alibi_bias_max", most);
    if (type)
        pe_guess_text(w, "slope_dtype", type);
}

/* alibi_bias_max of the first slope: 2^(-max / k), k the largest power of two up to the heads. */
static double bias_max(double slope, size_t heads, double error)
{
    size_t k = 1;
    while (2 * k <= heads)
        k *= 2;
    const double most = -pe_log(slope) / pe_log(2) * (double)k;
    return pe_nice(most, (error / slope + 1e-7) * 1.5 * (double)k);
}

void pe_find_slopes(pe_search *s, const double *x, size_t n)
{
    if (!(x[0] > 0 && x[0] < 1) || n < 2)
        return;
    const double most[] = { 8, bias_max(x[0], n, 0), bias_max(x[0], n, s->allowed / 4) };
    for (size_t k = 0; k < 3 && !pe_exact_found(s); k++)
        for (size_t i = 0; i < 4 && !pe_exact_found(s) && most[k] >= 0.001 && most[k] <= 1000; i++) {
            if (pe_digits(most[k]) > 4 || (k && most[k] == 8))
                continue;
            pe_guess w = pe_guess_begin(s, "alibi_slopes");
            put_heads(&w, n, most[k], slope_types[i]);
            pe_try(s, &w);
        }
}

/* ---- biases: (heads, keys), or (heads, queries keys) ---- */

static void try_bias(pe_search *s, size_t heads, size_t queries, size_t keys, const char *form, double most,
                     const char *type)
{
    pe_guess w = pe_guess_begin(s, "alibi");
    put_heads(&w, heads, most, type);
    if (form)
        pe_guess_text(&w, "form", form);
    pe_guess_int(&w, "key_length", (int64_t)keys);
    if (queries && queries != keys)
        pe_guess_int(&w, "query_length", (int64_t)queries);
    pe_try(s, &w);
}

static void try_slope(pe_search *s, size_t heads, size_t queries, size_t keys, const char *form, double slope, double error)
{
    if (!(slope > 0 && slope < 1) || heads < 2)
        return;
    const double most[] = { bias_max(slope, heads, error / 8), bias_max(slope, heads, error), 8 };
    for (size_t k = 0; k < 3 && !pe_exact_found(s); k++)
        for (size_t i = 0; i < 4 && !pe_exact_found(s); i++)
            if (most[k] >= 0.001 && most[k] <= 1000 && pe_digits(most[k]) <= 4)
                try_bias(s, heads, queries, keys, form, most[k], slope_types[i]);
}

void pe_find_biases(pe_search *s, const pe_view *v)
{
    const size_t heads = v->rows, n = v->cols;
    const double *first = v->x;
    if (heads < 2 || n < 2)
        return;
    /* rows of a straight line through its first or its last key */
    const double rise = (first[n - 1] - first[0]) / (double)(n - 1), error = 2 * s->allowed / (double)(n - 1);
    bool straight = true;
    for (size_t h = 0; h < heads && straight; h++) {
        const double *row = v->x + h * n, step = (row[n - 1] - row[0]) / (double)(n - 1);
        for (size_t k = 0; k < n && straight; k++)
            straight = fabs(row[k] - row[0] - step * (double)k) <= 2 * s->allowed;
    }
    if (straight) {
        try_slope(s, heads, 0, n, NULL, rise, error);
        try_slope(s, heads, 0, n, "mpt", rise, error);
        return;
    }
    /* matrices: the last query's bias falls by the slope with every key before it */
    const posenc_tensor *t = s->table;
    if (t->rank < 3 || v->transposed ||
        v->rows != (size_t)posenc_tensor_count(t) / (size_t)(t->shape[t->rank - 1] * t->shape[t->rank - 2]))
        return;
    const size_t keys = (size_t)t->shape[t->rank - 1], queries = (size_t)t->shape[t->rank - 2];
    if (keys < 2 || !queries)
        return;
    const double *last = first + (queries - 1) * keys;
    const double slope = (last[keys - 1] - last[0]) / (double)(keys - 1);
    const double off = 2 * s->allowed / (double)(keys - 1);
    try_slope(s, heads, queries, keys, "causal_relative", slope, off);
    try_slope(s, heads, queries, keys, "symmetric", slope, off);
}
