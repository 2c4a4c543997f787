/* t5_bucket_prophetnet.c - the buckets of ProphetNet's two streams.
 *
 *     main[i, j]                  = bucket(position_ids[j] - position_ids[i])
 *     predict[i, j]               = bucket(position_ids[j] - 1 - position_ids[i])        i, j = 0 .. L - 1
 *     predict[i, L + j]           = bucket(position_ids[j] - position_ids[i])
 *
 * bucket as in t5_bucket with bidirectional=false (ProphetNet truncates after the minimum rather than before, which gives
 * the same whole number).
 * Source: Qi et al. 2020, arXiv:2001.04063; Hugging Face compute_all_stream_relative_buckets. */
#include "sequence/buckets.h"

#include <math.h>

extern const posenc_encoding pe_t5_bucket_prophetnet;

/* ---- rows ---- */

typedef struct t5_bucket_prophetnet {
    posenc_given given;
    pe_buckets of;
    posenc_reals position_ids;
} t5_bucket_prophetnet;

static const posenc_param rows[] = {
    PE_BUCKET_ROWS(t5_bucket_prophetnet, of),
    { PE_REALS(t5_bucket_prophetnet, position_ids), .flags = PE_REQUIRED, .min = -0x1p52 + 1, .max = 0x1p52,
      .doc = "position of each token of a sequence, whole numbers in any order; ProphetNet: 1, 2, 3, ..." },
};

static const posenc_output outputs[] = {
    { "main", "[L, L]", "buckets of the main stream, 0 .. num_buckets - 1; L = positions", "int32" },
    { "predict", "[L, 2L]", "buckets of a predicting stream: of the tokens one position earlier, then of the tokens",
      "int32" },
};

/* ---- rules ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    t5_bucket_prophetnet *p = r->params;
    p->of.bidirectional = false;
    pe_buckets_check(&p->of, err);
    pe_reals_whole("position_ids", &p->position_ids, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const t5_bucket_prophetnet *p = r->params;
    const int64_t n = (int64_t)p->position_ids.n;
    posenc_status st = pe_output(out, "main", PE_int32, 2, (int64_t[]){ n, n }, err);
    return st ? st : pe_output(out, "predict", PE_int32, 2, (int64_t[]){ n, 2 * n }, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const t5_bucket_prophetnet *p = r->params;
    const double n = (double)p->position_ids.n;
    *out = pe_bucket_map_cost(&p->of);
    out->ns += 2e3 + 2 * PE_BUCKET_NS * n * n;
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const t5_bucket_prophetnet *p = r->params;
    const double *position = p->position_ids.v;
    const int64_t n = (int64_t)p->position_ids.n;
    int32_t *stream = pe_tensor(out, "main")->data, *predict = pe_tensor(out, "predict")->data;
    pe_pace pace = { .ctx = ctx };
    pe_bucket_map map;
    posenc_status st = pe_bucket_map_init(&map, &p->of, &pace, err);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n && !st; j++) {
            const int64_t distance = (int64_t)position[j] - (int64_t)position[i];
            const int32_t bucket = (int32_t)pe_bucket(&map, distance);
            stream[i * n + j] = predict[(2 * i + 1) * n + j] = bucket;
            predict[2 * i * n + j] = (int32_t)pe_bucket(&map, distance - 1);
            st = pe_pace_add(&pace, 2 * PE_BUCKET_NS);
        }
    pe_bucket_map_fini(&map);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_t5_bucket_prophetnet = {
    .name = "t5_bucket_prophetnet",
    .family = "relative",
    .title = "buckets of the two streams of ProphetNet",
    .source = "Qi et al. 2020, ProphetNet, arXiv:2001.04063; Hugging Face compute_all_stream_relative_buckets",
    .formula = "main[i, j] = bucket(position_ids[j] - position_ids[i])\n"
               "predict[i, j] = bucket(position_ids[j] - 1 - position_ids[i]), predict[i, L + j] = main[i, j]\n"
               "bucket as in t5_bucket with bidirectional=false",
    .example = "position_ids=1,2,3,4,5,6,7,8&num_buckets=4&max_distance=6",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(t5_bucket_prophetnet, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
