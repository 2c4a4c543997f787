/* compare_report.c - the report `compare`: a table against the request it is about. */
#include "analysis/compare.h"
#include "analysis/finding.h"
#include "analysis/identify.h"

enum { MOST_SIDES = 1 << 18 };

typedef struct compare {
    posenc_given given;
    posenc_tensor table;
    const char *tensor;
} compare;

static const posenc_param rows[] = {
    { PE_TENSOR(compare, table), .flags = PE_REQUIRED,
      .doc = "the table that is held against the encoding's: of its shape, or at least near it" },
    { PE_TEXT(compare, tensor), .flags = PE_OPTIONAL, .min = 1, .max = 64,
      .doc = "which output of the encoding it is; when absent, the one of the table's sides" },
};

static const posenc_output outputs[] = {
    { "answer", "[bytes]", "the answer as JSON, zeros after it", "uint8" },
};

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const compare *p = r->params;
    if (!r->of)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "encoding", "absent",
                           "the encoding that the table should be of, with its parameters");
    if (pe_finding_check(&p->table, err))
        return err->status;
    const int64_t columns = p->table.shape[p->table.rank - 1], all = columns + posenc_tensor_count(&p->table) / columns;
    if (all > MOST_SIDES) /* each has its number in the answer */
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "table", posenc_text("%lld rows and columns", (long long)all).s,
                           "at most %d rows and columns together: some of the rows", MOST_SIDES);
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const compare *p = r->params;
    const int64_t columns = p->table.shape[p->table.rank - 1], all = columns + posenc_tensor_count(&p->table) / columns;
    return pe_finding_shape(out, 4096 + 16 * all, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const compare *p = r->params;
    const uint64_t n = (uint64_t)posenc_tensor_count(&p->table);
    *out = (posenc_cost){ .ns = 1e6 + 40 * r->of->cost.ns + 1000 * (double)n,
                          .scratch = pe_search_scratch(&p->table) + r->of->size + r->of->cost.scratch };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const compare *p = r->params;
    /* a dtype that nobody chose is the table's: its roundings are no mistake */
    const bool given = posenc_was_given(&posenc_common_table, &posenc_common_table.rows[0], &r->of->common);
    const posenc_dtype dtype = given                       ? (posenc_dtype)r->of->common.dtype
                               : p->table.dtype < PE_int32 ? p->table.dtype
                                                           : PE_float64;
    posenc_arena *a = posenc_arena_new(SIZE_MAX / 8);
    posenc_comparison found;
    if (!a)
        return pe_no_memory("memory", err);
    posenc_status st = pe_compare_as(&p->table, r->of, dtype, p->tensor, a, &found, ctx, err);
    if (!st)
        st = pe_finding_keep(out, posenc_comparison_json(&found), err);
    posenc_arena_free(a);
    return st;
}

const posenc_encoding pe_compare_report = {
    .name = "compare",
    .family = "report",
    .title = "a table against an encoding's, and the mistake that explains the difference",
    .source = "the conventions that implementations differ in: lib/encodings",
    .formula =
        "largest absolute difference, relative to the answer, and in neighbours of dtype (that of the table when absent);\n"
        "a mistake is named when the same done to the answer leaves less than a tenth of the difference",
    .example = "table=[[0,1],[0.8414709848,0.5403023059],[0.9092974268,-0.4161468365]]&embedding_dim=2&num_positions=3",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(compare, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
    .write = pe_finding_write,
};
