/* t5_bucket.c - the bucket of a relative position in T5: one for each near distance, logarithmic ones for far distances.
 *
 *     r = key - query;  b = num_buckets;  bucket = 0
 *     bidirectional:   b = floor(b / 2), bucket = b where r > 0, n = |r|;     otherwise n = max(-r, 0)
 *     m = floor(b / 2)
 *     bucket += n                                                                                          n < m
 *     bucket += min(m + floor((b - m) ln(n / m) / ln(max_distance / m)), b - 1)                            n >= m
 *
 * Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1; Hugging Face T5Attention._relative_position_bucket. Mesh
 * TensorFlow, mT5, UMT5, LongT5, Switch, MPNet, LayoutLM, WavLM, CPM-Ant and x-transformers have the same formula with
 * settings of their own. The floor is that of the real number (sequence/buckets.h). */
#include "sequence/buckets.h"
#include "sequence/distances.h"

extern const posenc_encoding pe_t5_bucket;

/* ---- rows ---- */

/* Settings of those that have their own: name, num_buckets, max_distance. All are bidirectional. */
#define VARIANTS(X)                                                          \
    X(t5, 32, 128)          /* also MPNet and x-transformers */              \
    X(cpmant, 512, 2048)    /* CpmAntSegmentPositionEmbedding */             \
    X(layoutlm_1d, 32, 128) /* LayoutLMv2 and v3: of position_ids */         \
    X(layoutlm_2d, 64, 256) /* of the left and of the lower edge of boxes */ \
    X(wavlm, 320, 800)

static const char *const variants[] = {
#define X(name, ...) #name,
    VARIANTS(X)
#undef X
        NULL
};

static const pe_buckets settings[] = {
#define X(name, num_buckets, max_distance) { true, num_buckets, max_distance },
    VARIANTS(X)
#undef X
};

typedef struct t5_bucket {
    posenc_given given;
    pe_distances at;
    pe_buckets of;
    int variant;
} t5_bucket;

static const posenc_param rows[] = {
    PE_DISTANCE_ROWS(t5_bucket, at, "key - query"),
    PE_BIDIRECTIONAL_ROW(t5_bucket, of),
    PE_BUCKET_ROWS(t5_bucket, of),
    { PE_ENUM(t5_bucket, variant), .flags = PE_OPTIONAL, .names = variants,
      .doc = "the settings of a known model: sets the defaults of bidirectional, num_buckets and max_distance to true and "
             "t5 32, 128; cpmant 512, 2048; layoutlm_1d 32, 128; layoutlm_2d 64, 256; wavlm 320, 800; given parameters win. "
             "x-transformers has those of t5, with bidirectional=false where it is causal" },
};

static const posenc_output outputs[] = {
    { "bucket", "[query_length, key_length]", "bucket of each pair, 0 .. num_buckets - 1; [distances] of relative_position",
      "int64" },
};

/* ---- rules ---- */

/* Turns a variant into the values it stands for: it leaves no trace, so that either spelling has the same digest. */
static void apply_variant(posenc_request *r)
{
    t5_bucket *p = r->params;
    if (!pe_given(r, "variant"))
        return;
    const pe_buckets *s = &settings[p->variant];
    pe_mark(r, "variant", false);
    p->variant = 0;
    if (!pe_given(r, "bidirectional"))
        p->of.bidirectional = s->bidirectional;
    if (!pe_given(r, "num_buckets"))
        p->of.num_buckets = s->num_buckets;
    if (!pe_given(r, "max_distance"))
        p->of.max_distance = s->max_distance;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    t5_bucket *p = r->params;
    apply_variant(r);
    pe_distances_check(r, &p->at, err);
    pe_buckets_check(&p->of, err);
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const t5_bucket *p = r->params;
    int64_t size[2];
    const int rank = pe_distances_shape(r, &p->at, size);
    return pe_output(out, "bucket", PE_int64, rank, size, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const t5_bucket *p = r->params;
    const pe_curve c = pe_distances_curve(r, &p->at, false);
    const posenc_cost map = pe_bucket_map_cost(&p->of);
    *out = pe_curve_cost(&c, PE_BUCKET_NS);
    out->ns += map.ns;
    out->scratch += map.scratch;
}

/* ---- compute ---- */

static int64_t bucket(const void *map, int64_t distance) { return pe_bucket(map, distance); }

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const t5_bucket *p = r->params;
    const pe_curve c = pe_distances_curve(r, &p->at, false);
    pe_pace pace = { .ctx = ctx };
    pe_bucket_map map;
    posenc_status st = pe_bucket_map_init(&map, &p->of, &pace, err);
    if (!st)
        st = pe_curve_map(&c, bucket, &map, PE_BUCKET_NS, pe_tensor(out, "bucket")->data, &pace, err);
    pe_bucket_map_fini(&map);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_t5_bucket = {
    .name = "t5_bucket",
    .family = "relative",
    .title = "bucket of relative positions in T5",
    .source = "Raffel et al. 2020, Exploring the limits of transfer learning, arXiv:1910.10683, section 2.1; "
              "Hugging Face T5Attention._relative_position_bucket",
    .formula = "r = key - query, b = num_buckets\n"
               "bidirectional: b = floor(b / 2), start at b where r > 0, n = |r|; otherwise start at 0, n = max(-r, 0)\n"
               "m = floor(b / 2); bucket = start + n where n < m, otherwise\n"
               "start + min(m + floor((b - m) ln(n / m) / ln(max_distance / m)), b - 1)",
    .example = "query_length=8&key_length=24&num_buckets=16&max_distance=20",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(t5_bucket, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
