/* deberta_relative.c - relative positions of DeBERTa, far ones in logarithmic buckets.
 *
 *     r = query - key;  b = position_buckets, M = max_relative_positions, m = floor(b / 2)
 *     index = r                                                                                   b or M not over 0
 *     index = r                                                                                   |r| <= m
 *     index = sign(r) (m + ceil((m - 1) ln(|r| / m) / ln((M - 1) / m)))                           |r| > m
 *
 * clamp: r is first clipped to -(M - 1) .. M - 1, so that |index| is at most b - 1 (and M - 1); without it the index of
 * |r| >= M is larger and passes the end of the model's table, which its callers then clip.
 * Source: He et al. 2021, arXiv:2006.03654 and the DeBERTa v2 code: build_relative_position of Hugging Face (no clamp) and
 * of Microsoft (clamp). SEW-D has that of Hugging Face. The ceiling is that of the real number (sequence/buckets.h). */
#include "sequence/buckets.h"
#include "sequence/distances.h"

extern const posenc_encoding pe_deberta_relative;

/* ---- rows ---- */

typedef struct deberta_relative {
    posenc_given given;
    pe_distances at;
    int64_t position_buckets, max_relative_positions;
    bool clamp;
} deberta_relative;

static const posenc_param rows[] = {
    PE_DISTANCE_ROWS(deberta_relative, at, "query - key"),
    { PE_INT(deberta_relative, position_buckets), .def = -1, .min = -1, .max = 65536,
      .doc = "buckets of each sign, of which half hold one distance each: 256 in DeBERTa v2 and v3; 0 or less: none, the "
             "index is the distance" },
    { PE_INT(deberta_relative, max_relative_positions), .def = -1, .min = -1, .max = 0x1p53,
      .doc = "the distance that ends the last bucket, less 1: 512 in DeBERTa v2 and v3; 0 or less: no buckets, the index is "
             "the distance" },
    { PE_BOOL(deberta_relative, clamp),
      .doc = "distances are clipped to max_relative_positions - 1 first (Microsoft); otherwise their index grows on "
             "(Hugging Face)" },
};

static const posenc_output outputs[] = {
    { "index", "[query_length, key_length]",
      "relative position or bucket of each pair, negative where the key is after the query; [distances] of "
      "relative_position",
      "int64" },
};

/* ---- rules ---- */

static bool bucketed(const deberta_relative *p) { return p->position_buckets > 0 && p->max_relative_positions > 0; }

/* Whether there is a logarithm to take: with clamp, all distances may be near ones. */
static bool far(const deberta_relative *p) { return bucketed(p) && p->max_relative_positions - 1 > p->position_buckets / 2; }

static posenc_status check(posenc_request *r, posenc_error *err)
{
    deberta_relative *p = r->params;
    const long long half = p->position_buckets / 2;
    pe_distances_check(r, &p->at, err);
    if (bucketed(p) && !half)
        pe_invalid(err, "position_buckets", posenc_text("1"), "at least 2, or 0 or less for none");
    else if (bucketed(p) && !far(p) && !p->clamp)
        pe_invalid(err, "max_relative_positions", posenc_text("%lld", (long long)p->max_relative_positions),
                   "at least %lld, 2 over half of position_buckets, or clamp=true, or 0 or less for no buckets", half + 2);
    if (p->clamp && !bucketed(p))
        pe_not_applicable(err, "clamp", "true", "false without position_buckets and max_relative_positions");
    return err->status;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const deberta_relative *p = r->params;
    int64_t size[2];
    const int rank = pe_distances_shape(r, &p->at, size);
    return pe_output(out, "index", PE_int64, rank, size, err);
}

static int64_t steps(const deberta_relative *p) { return far(p) ? PE_LOG_STEP_NS : 3; }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const deberta_relative *p = r->params;
    const pe_curve c = pe_distances_curve(r, &p->at, true);
    *out = pe_curve_cost(&c, steps(p));
}

/* ---- compute ---- */

typedef struct buckets {
    bool bucketed;
    int64_t half, most; /* distances up to half are their own index; all are clipped to most */
    pe_log_steps far;
} buckets;

static int64_t index_of(const void *user, int64_t distance)
{
    const buckets *b = user;
    int64_t n = distance < 0 ? -distance : distance;
    if (!b->bucketed)
        return distance;
    n = n > b->most ? b->most : n;
    if (n > b->half)
        n = b->half + pe_log_steps_ceil(&b->far, n);
    return distance < 0 ? -n : n;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const deberta_relative *p = r->params;
    const pe_curve c = pe_distances_curve(r, &p->at, true);
    pe_pace pace = { .ctx = ctx };
    buckets b = {
        .bucketed = bucketed(p),
        .half = p->position_buckets / 2,
        .most = p->clamp ? p->max_relative_positions - 1 : INT64_MAX,
    };
    if (far(p))
        b.far = pe_log_steps_of(b.half, p->max_relative_positions - 1, b.half - 1);
    return pe_curve_map(&c, index_of, &b, steps(p), pe_tensor(out, "index")->data, &pace, err);
}

/* ---- descriptor ---- */

const posenc_encoding pe_deberta_relative = {
    .name = "deberta_relative",
    .family = "relative",
    .title = "relative positions in the buckets of DeBERTa",
    .source =
        "He et al. 2021, DeBERTa, arXiv:2006.03654; build_relative_position of Hugging Face DeBERTa v2 and of Microsoft",
    .formula = "r = query - key, m = floor(position_buckets / 2), M = max_relative_positions\n"
               "index = r where |r| <= m or there are no buckets, otherwise\n"
               "sign(r) (m + ceil((m - 1) ln(|r| / m) / ln((M - 1) / m))); clamp: r is clipped to +-(M - 1) first",
    .example = "query_length=8&key_length=24&position_buckets=8&max_relative_positions=20",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(deberta_relative, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
