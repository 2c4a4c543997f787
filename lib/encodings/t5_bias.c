/* t5_bias.c - the bias that T5 adds to attention scores: one learned number a bucket and head.
 *
 *     bias[h, i, j] = table[bucket(j - (past_seen_tokens + i)), h]
 *
 * bucket as in t5_bucket.
 * Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1; Hugging Face T5Attention.compute_bias. */
#include "sequence/buckets.h"
#include "sequence/distances.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_t5_bias;

/* ---- rows ---- */

typedef struct t5_bias {
    posenc_given given;
    pe_distances at;
    pe_buckets of;
    posenc_tensor table;
} t5_bias;

static const posenc_param rows[] = {
    PE_DISTANCE_ROWS(t5_bias, at, "key - query"),
    PE_BIDIRECTIONAL_ROW(t5_bias, of),
    PE_BUCKET_ROWS(t5_bias, of),
    { PE_TENSOR(t5_bias, table), .flags = PE_REQUIRED,
      .doc = "the learned numbers, [num_buckets, num_heads]: relative_attention_bias.weight" },
};

static const posenc_output outputs[] = {
    { "bias", "[num_heads, query_length, key_length]",
      "what is added to the scores of each head; [num_heads, distances] of relative_position", NULL },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    t5_bias *p = r->params;
    pe_distances_check(r, &p->at, err);
    pe_buckets_check(&p->of, err);
    const double most = pe_dtype_max((posenc_dtype)r->common.dtype);
    const posenc_short words = posenc_text("[num_buckets, num_heads] = [%lld, H]", (long long)p->of.num_buckets),
                       range = posenc_text("a number that %s holds, at most %g",
                                           posenc_dtype_name((posenc_dtype)r->common.dtype), most);
    if (p->table.rank == 2 && !p->table.shape[1]) /* which -1 would admit */
        posenc_fail(err, PE_INVALID, "INVALID_SHAPE", "table", "no heads", "the shape %s, H at least 1", words.s);
    else if (pe_tensor_shaped(&p->table, 2, (int64_t[]){ p->of.num_buckets, -1 }, words.s, err))
        pe_tensor_within(&p->table, -most, most, range.s, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const t5_bias *p = r->params;
    int64_t size[3] = { p->table.shape[1] };
    const int rank = pe_distances_shape(r, &p->at, size + 1);
    return pe_output(out, "bias", (posenc_dtype)r->common.dtype, 1 + rank, size, err);
}

/* One head's numbers and the curve made of them, both in the request's dtype; the bucket of each distance. */
static uint64_t scratch(const posenc_request *r, const pe_curve *c)
{
    const t5_bias *p = r->params;
    const uint64_t size = posenc_dtype_size((posenc_dtype)r->common.dtype);
    return (uint64_t)c->count * (sizeof(int64_t) + size) + (uint64_t)p->of.num_buckets * (sizeof(double) + size);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const t5_bias *p = r->params;
    const pe_curve c = pe_distances_curve(r, &p->at, false);
    const posenc_cost map = pe_bucket_map_cost(&p->of);
    const double size = (double)posenc_dtype_size((posenc_dtype)r->common.dtype);
    const double heads = (double)p->table.shape[1], n = (double)c.count, rows_of = n > 0 ? (double)c.rows : 0;
    out->ns = 2e3 + map.ns + n * PE_BUCKET_NS +
              heads * (6 * (double)p->of.num_buckets + 3 * n + rows_of * (10 + 0.4 * size * (double)c.columns));
    out->scratch = map.scratch + scratch(r, &c);
}

/* ---- compute ---- */

/* to[t] = from[bucket[t]], elements of `size` bytes. */
static posenc_status gather(void *to, const void *from, const int64_t *bucket, int64_t n, size_t size, pe_pace *pace)
{
    enum { PIECE = 1 << 14 };
    posenc_status st = PE_OK;
    for (int64_t start = 0; start < n && !st; start += PIECE) {
        const int64_t end = n - start < PIECE ? n : start + PIECE;
        for (int64_t t = start; t < end; t++) {
            const char *element = (const char *)from + (size_t)bucket[t] * size;
            char *place = (char *)to + (size_t)t * size;
            if (size == 8)
                memcpy(place, element, 8);
            else if (size == 4)
                memcpy(place, element, 4);
            else
                memcpy(place, element, 2);
        }
        st = pe_pace_add(pace, 3 * (end - start));
    }
    return st;
}

/* One head: its column of the table rounded once, then its curve, then the matrix. */
static posenc_status head(const t5_bias *p, const pe_curve *c, const int64_t *bucket, int64_t h, const posenc_tensor *dst,
                          double *column, pe_pace *pace)
{
    const size_t size = posenc_dtype_size(dst->dtype), n = (size_t)p->of.num_buckets;
    const int64_t heads = p->table.shape[1];
    char *narrow = (char *)(column + n), *curve = narrow + n * size;
    char *matrix = (char *)dst->data + (size_t)h * (size_t)(c->rows * c->columns) * size;
    for (int64_t b = 0; b < p->of.num_buckets; b++)
        column[b] = posenc_tensor_get(&p->table, b * heads + h);
    posenc_convert(dst->dtype, narrow, column, n);
    posenc_status st = pe_pace_add(pace, 8 * (int64_t)n);
    if (!st)
        st = gather(c->listed ? matrix : curve, narrow, bucket, c->count, size, pace);
    return st || c->listed ? st : pe_curve_spread(c, curve, size, matrix, pace);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const t5_bias *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "bias");
    const pe_curve c = pe_distances_curve(r, &p->at, false);
    pe_pace pace = { .ctx = ctx };
    pe_bucket_map map = { 0 };
    if (!c.count)
        return PE_OK;
    int64_t *buckets = malloc(scratch(r, &c));
    if (!buckets)
        return pe_no_memory("memory", err);
    posenc_status st = pe_bucket_map_init(&map, &p->of, &pace, err);
    for (int64_t t = 0; t < c.count && !st; t++) {
        buckets[t] = pe_bucket(&map, pe_curve_distance(&c, t));
        st = pe_pace_add(&pace, PE_BUCKET_NS);
    }
    for (int64_t h = 0; h < p->table.shape[1] && !st; h++)
        st = head(p, &c, buckets, h, dst, (double *)(buckets + c.count), &pace);
    pe_bucket_map_fini(&map);
    free(buckets);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_t5_bias = {
    .name = "t5_bias",
    .family = "relative",
    .title = "bias of attention scores in T5",
    .source = "Raffel et al. 2020, Exploring the limits of transfer learning, arXiv:1910.10683, section 2.1; "
              "Hugging Face T5Attention.compute_bias",
    .formula = "bias[h, i, j] = table[bucket(j - (past_seen_tokens + i)), h], bucket as in t5_bucket",
    .example = "query_length=3&key_length=5&num_buckets=4&max_distance=4&table=[[0.5,-1],[0.25,2],[0,1],[-0.75,3]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(t5_bias, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
