/* distances.c - grids of queries and keys, one value a diagonal. */
#include "sequence/distances.h"

#include <math.h>
#include <stdlib.h>

static posenc_short number(int64_t v) { return posenc_text("%lld", (long long)v); }

static void check_list(const posenc_request *r, const pe_distances *d, posenc_error *err)
{
    static const char one[] = "either relative_position, or query_length and key_length";
    if (pe_given(r, "query_length") || pe_given(r, "key_length"))
        pe_not_applicable(err, "relative_position", "given with lengths", "%s", one);
    if (d->past_seen_tokens)
        pe_not_applicable(err, "past_seen_tokens", number(d->past_seen_tokens).s, "0, or query_length and key_length");
    pe_reals_whole("relative_position", &d->relative_position, err);
}

void pe_distances_check(posenc_request *r, pe_distances *d, posenc_error *err)
{
    const bool queries = pe_given(r, "query_length"), keys = pe_given(r, "key_length");
    if (pe_given(r, "relative_position")) {
        check_list(r, d, err);
        return;
    }
    if (!queries && !keys) {
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "query_length", "absent",
                    "a value, it is required: query_length and key_length, or relative_position");
        return;
    }
    if (!queries) {
        d->query_length = d->key_length - d->past_seen_tokens;
        pe_mark(r, "query_length", true);
    }
    if (!keys) {
        d->key_length = d->query_length + d->past_seen_tokens;
        pe_mark(r, "key_length", true);
    }
    if (d->query_length < 0)
        pe_invalid(err, "past_seen_tokens", number(d->past_seen_tokens), "at most key_length = %lld, or query_length given",
                   (long long)d->key_length);
    if (d->key_length > PE_MOST_TOKENS)
        pe_invalid(err, "past_seen_tokens", number(d->past_seen_tokens), "at most %lld keys in all, or key_length given",
                   (long long)PE_MOST_TOKENS);
}

int pe_distances_shape(const posenc_request *r, const pe_distances *d, int64_t shape[2])
{
    const bool listed = pe_given(r, "relative_position");
    shape[0] = listed ? (int64_t)d->relative_position.n : d->query_length;
    shape[1] = listed ? 1 : d->key_length;
    return listed ? 1 : 2;
}

static pe_curve grid(int64_t first_query, int64_t q, int64_t k, bool query_minus_key)
{
    return (pe_curve){ .rows = q,
                       .columns = k,
                       .first = -(first_query + q - 1),
                       .count = q && k ? q + k - 1 : 0,
                       .query_minus_key = query_minus_key };
}

pe_curve pe_curve_of_last(int64_t query_length, int64_t key_length, bool query_minus_key)
{
    return grid(key_length - query_length, query_length, key_length, query_minus_key);
}

pe_curve pe_distances_curve(const posenc_request *r, const pe_distances *d, bool query_minus_key)
{
    if (pe_given(r, "relative_position"))
        return (pe_curve){ .listed = d->relative_position.v,
                           .rows = 1,
                           .columns = (int64_t)d->relative_position.n,
                           .count = (int64_t)d->relative_position.n,
                           .query_minus_key = query_minus_key };
    return grid(d->past_seen_tokens, d->query_length, d->key_length, query_minus_key);
}

posenc_status pe_curve_spread(const pe_curve *c, const void *values, size_t size, void *out, pe_pace *pace)
{
    const size_t row = (size_t)c->columns * size;
    posenc_status st = PE_OK;
    if (!c->count)
        return PE_OK;
    for (int64_t i = 0; i < c->rows && !st; i++) { /* the last query's row is the first slice */
        const char *slice = (const char *)values + (size_t)(c->rows - 1 - i) * size;
        if (!(st = pe_pace_copy(pace, (char *)out + (size_t)i * row, slice, row)))
            st = pe_pace_add(pace, (int64_t)row / 2 + 10); /* memory never touched before is slow */
    }
    return st;
}

posenc_status pe_curve_fill(const pe_curve *c, const double *values, void *narrow, const posenc_tensor *dst, int64_t index,
                            pe_pace *pace)
{
    enum { BLOCK = 1 << 16 };
    const size_t size = posenc_dtype_size(dst->dtype), n = (size_t)c->count;
    posenc_status st = PE_OK;
    for (size_t i = 0; i < n && !st; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        posenc_convert(dst->dtype, (char *)narrow + i * size, values + i, m);
        st = pe_pace_add(pace, (int64_t)m * 4);
    }
    char *matrix = (char *)dst->data + (size_t)index * (size_t)c->rows * (size_t)c->columns * size;
    return st ? st : pe_curve_spread(c, narrow, size, matrix, pace);
}

posenc_status pe_curve_map(const pe_curve *c, pe_distance_value *value, const void *user, int64_t steps, int64_t *out,
                           pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    if (!c->count)
        return PE_OK;
    int64_t *values = c->listed ? out : malloc((size_t)c->count * sizeof *values);
    if (!values)
        return pe_no_memory("memory", err);
    for (int64_t t = 0; t < c->count && !st; t++) {
        values[t] = value(user, pe_curve_distance(c, t));
        st = pe_pace_add(pace, steps);
    }
    if (!st && !c->listed)
        st = pe_curve_spread(c, values, sizeof *values, out, pace);
    if (values != out)
        free(values);
    return st;
}

posenc_cost pe_curve_cost(const pe_curve *c, int64_t steps)
{
    const double rows = c->count ? (double)c->rows : 0;
    return (posenc_cost){ .ns = 2e3 + (double)c->count * (double)steps + rows * (10 + 2.5 * (double)c->columns),
                          .scratch = c->listed ? 0 : (uint64_t)c->count * sizeof(int64_t) };
}
