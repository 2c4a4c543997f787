/* identify_report.c - the report `identify`: parameters, sizes and descriptor around posenc_identify. */
#include "analysis/finding.h"
#include "analysis/identify.h"

#include <stdlib.h>
#include <string.h>

typedef struct identify {
    posenc_given given;
    posenc_tensor table;
    double tolerance;
} identify;

static const posenc_param rows[] = {
    { PE_TENSOR(identify, table), .flags = PE_REQUIRED,
      .doc = "the table: [rows, columns], or more axes as the encoding has them, or one axis of frequencies or slopes; at "
             "least 8 rows for a promise" },
    { PE_REAL(identify, tolerance), .min = 0, .max = 0.1,
      .doc = "largest difference of a match, as a share of the table's largest magnitude; 0: 0.006" },
};

static const posenc_output outputs[] = {
    { "answer", "[bytes]", "the answer as JSON, zeros after it", "uint8" },
};

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const identify *p = r->params;
    if (r->of)
        return pe_not_applicable(err, "encoding", r->of->encoding->name, "nothing: which it is, is the question");
    if (posenc_was_given(&posenc_common_table, &posenc_common_table.rows[0], &r->common))
        return pe_not_applicable(err, "dtype", posenc_dtype_name((posenc_dtype)r->common.dtype),
                                 "nothing: the table has its own");
    return pe_finding_check(&p->table, err);
}

/* Room for one match with long lists and some without; lists are as long as a side at most. */
static int64_t room_of(const posenc_tensor *t)
{
    enum { MOST_ROOM = 1 << 20 };
    const int64_t columns = t->shape[t->rank - 1], all = columns + posenc_tensor_count(t) / columns;
    return 16384 + 56 * all < MOST_ROOM ? 16384 + 56 * all : MOST_ROOM;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const identify *p = r->params;
    return pe_finding_shape(out, room_of(&p->table), err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const identify *p = r->params;
    const uint64_t n = (uint64_t)posenc_tensor_count(&p->table);
    *out = (posenc_cost){ .ns = 20e6 + 500 * (double)n, .scratch = pe_search_scratch(&p->table) };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const identify *p = r->params;
    posenc_arena *a = posenc_arena_new(SIZE_MAX / 8);
    posenc_identification found;
    if (!a)
        return pe_no_memory("memory", err);
    posenc_status st = posenc_identify(&p->table, p->tolerance, a, &found, ctx, err);
    char *text = st ? NULL : posenc_identification_json(&found);
    while (!st && text && strlen(text) >= (size_t)out->tensor[0].shape[0] && found.nmatches > 1) {
        free(text);
        found.nmatches--; /* the worst is left out first */
        text = posenc_identification_json(&found);
    }
    if (!st)
        st = pe_finding_keep(out, text, err);
    posenc_arena_free(a);
    return st;
}

const posenc_encoding pe_identify_report = {
    .name = "identify",
    .family = "report",
    .title = "which encoding, convention and parameters give a table",
    .source = "least squares on waves and ladders of frequencies; every match is recomputed",
    .formula =
        "matches: requests whose output differs from the table by at most tolerance times its largest magnitude, the\n"
        "smallest difference first; of equal tables the shortest request",
    .example = "table=[[0,1],[0.8414709848,0.5403023059],[0.9092974268,-0.4161468365],[0.1411200081,-0.9899924966],"
               "[-0.7568024953,-0.6536436209],[-0.9589242747,0.2836621855],[-0.2794154982,0.9601702867],[0.6569865987,"
               "0.7539022543]]",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(identify, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
    .write = pe_finding_write,
};
