/* axial.c - positions of a long sequence from two short learned tables.
 *
 *     embedding[p] = weight0[p div b], weight1[p mod b]        one behind the other; order=fast_first: the other way round
 *
 * weight0 (a, da), weight1 (b, db): a sequence of up to a b positions, da + db columns.
 * Source: AxialPositionEmbeddings of HuggingFace transformers (Reformer; Kitaev et al. 2020, arXiv:2001.04451), whose
 * weights are [a, 1, da] and [1, b, db]; either form is welcome. DETR's learned positions (DetrLearnedPositionEmbedding)
 * have the column before the row. */
#include "sequence/resample.h"

#include <math.h>

extern const posenc_encoding pe_axial;

/* ---- rows ---- */

enum { MOST_SIDE = 1 << 30 };
enum { SLOW_FIRST, FAST_FIRST };
static const char *const orders[] = { "slow_first", "fast_first", NULL };

typedef struct axial {
    posenc_given given;
    posenc_tensor weight0, weight1;
    posenc_reals axial_pos_shape, axial_pos_embds_dim;
    int64_t length;
    posenc_reals positions;
    int order;
    int64_t sides[2], dims[2];
    double resolved[2][2]; /* what the lists point to: sides and dims */
} axial;

static const posenc_param rows[] = {
    { PE_TENSOR(axial, weight0), .flags = PE_REQUIRED, .doc = "the slow axis, [a, da] or [a, 1, da]" },
    { PE_TENSOR(axial, weight1), .flags = PE_REQUIRED, .doc = "the fast axis, [b, db] or [1, b, db]" },
    { PE_REALS(axial, axial_pos_shape), .flags = PE_DERIVED, .min = 1, .max = MOST_SIDE,
      .doc = "a,b; when absent, as the weights have it" },
    { PE_REALS(axial, axial_pos_embds_dim), .flags = PE_DERIVED, .min = 1, .max = MOST_SIDE,
      .doc = "da,db, whose sum is the width; when absent, as the weights have it" },
    { PE_INT(axial, length), .flags = PE_OPTIONAL, .max = 0x1p53 - 1,
      .doc = "positions 0 .. length-1; when absent, without positions, all a b" },
    { PE_REALS(axial, positions), .flags = PE_OPTIONAL, .max = 0x1p53,
      .doc = "the positions themselves, in place of length" },
    { PE_ENUM(axial, order), .names = orders, .def = SLOW_FIRST,
      .doc = "whose columns come first: weight0's (Reformer), or weight1's (DETR, Florence-2: the column before the row)" },
};

static const posenc_output outputs[] = {
    { "embedding", "[length, da + db]", "one row a position", NULL },
};

/* ---- check ---- */

/* The two sizes of a weight, whose axis of 1 stands in place `one` if it has three axes. */
static bool sizes(const posenc_tensor *t, int one, const char *words, int64_t *side, int64_t *dim, posenc_error *err)
{
    int64_t want[3] = { -1, -1, -1 };
    want[one] = t->rank == 3 ? 1 : -1;
    if (!pe_tensor_shaped(t, t->rank == 3 ? 3 : 2, want, words, err))
        return false;
    *side = t->shape[t->rank == 3 ? 1 - one : 0];
    *dim = t->shape[t->rank - 1];
    if (*side >= 1 && *dim >= 1 && *side <= MOST_SIDE && *dim <= MOST_SIDE)
        return true;
    pe_invalid(err, t->name, posenc_text("[%lld, %lld]", (long long)*side, (long long)*dim), "sizes of 1 .. 2^30");
    return false;
}

/* A list that repeats what the weights say; it is in the key whether it was given or not. */
static void agree(posenc_request *r, const char *name, posenc_reals *list, const int64_t size[2], double *storage,
                  posenc_error *err)
{
    axial *p = r->params;
    int64_t given[2];
    if (pe_given(r, name) && !pe_two_sizes(list, name, MOST_SIDE, given, err))
        return;
    for (int i = 0; i < 2 && pe_given(r, name); i++)
        if (given[i] != size[i])
            pe_invalid(err, posenc_text("%.40s[%d]", name, i).s, posenc_text("%lld", (long long)given[i]),
                       "%lld, as weight%d has it", (long long)size[i], i);
    storage[0] = (double)size[0];
    storage[1] = (double)size[1];
    *list = (posenc_reals){ storage, 2 };
    p->given |= 1ULL << (posenc_row(&pe_axial.table, name) - rows);
}

static void check_positions(posenc_request *r, const axial *p, posenc_error *err)
{
    const int64_t all = p->sides[0] * p->sides[1];
    if (pe_given(r, "length") && pe_given(r, "positions"))
        pe_not_applicable(err, "positions", "given with length", "one of length and positions");
    if (pe_given(r, "length") && p->length > all)
        pe_invalid(err, "length", posenc_text("%lld", (long long)p->length), "at most %lld, the product of axial_pos_shape",
                   (long long)all);
    for (size_t i = 0; i < p->positions.n; i++) {
        const double v = p->positions.v[i];
        if (v >= 0 && v < (double)all && v == floor(v))
            continue;
        pe_invalid(err, posenc_text("positions[%zu]", i).s, posenc_text("%.17g", v), "a whole number in 0 .. %lld",
                   (long long)all - 1);
        return;
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    axial *p = r->params;
    bool sound = sizes(&p->weight0, 1, "[a, da] or [a, 1, da]", &p->sides[0], &p->dims[0], err);
    sound = sizes(&p->weight1, 0, "[b, db] or [1, b, db]", &p->sides[1], &p->dims[1], err) && sound;
    if (!sound)
        return err->status;
    agree(r, "axial_pos_shape", &p->axial_pos_shape, p->sides, p->resolved[0], err);
    agree(r, "axial_pos_embds_dim", &p->axial_pos_embds_dim, p->dims, p->resolved[1], err);
    check_positions(r, p, err);
    pe_table_fits(&p->weight0, 1, (posenc_dtype)r->common.dtype, err);
    pe_table_fits(&p->weight1, 1, (posenc_dtype)r->common.dtype, err);
    return err->status;
}

/* ---- shape, cost, compute ---- */

static int64_t count(const posenc_request *r)
{
    const axial *p = r->params;
    return pe_given(r, "positions") ? (int64_t)p->positions.n
           : pe_given(r, "length")  ? p->length
                                    : p->sides[0] * p->sides[1];
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const axial *p = r->params;
    return pe_output(out, "embedding", (posenc_dtype)r->common.dtype, 2, (int64_t[]){ count(r), p->dims[0] + p->dims[1] },
                     err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const axial *p = r->params;
    *out = (posenc_cost){ .ns = 1e3 + (double)count(r) * (40 + 3 * (double)(p->dims[0] + p->dims[1])) };
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    (void)err;
    const axial *p = r->params;
    const int64_t da = p->dims[0], db = p->dims[1], n = count(r), slow = p->order == FAST_FIRST ? db : 0;
    const int64_t fast = p->order == FAST_FIRST ? 0 : da;
    posenc_tensor *dst = pe_tensor(out, "embedding");
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t position = pe_given(r, "positions") ? (int64_t)p->positions.v[i] : i;
        st = pe_copy_elements(&p->weight0, position / p->sides[1] * da, dst, i * (da + db) + slow, da, &pace);
        if (!st)
            st = pe_copy_elements(&p->weight1, position % p->sides[1] * db, dst, i * (da + db) + fast, db, &pace);
    }
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_axial = {
    .name = "axial",
    .family = "absolute",
    .title = "positions from two learned tables, one an axis",
    .source = "Kitaev et al. 2020, Reformer, arXiv:2001.04451; AxialPositionEmbeddings, HuggingFace transformers",
    .formula = "embedding[p] = weight0[p div b] followed by weight1[p mod b], b the rows of weight1;\n"
               "order=fast_first: weight1[p mod b] followed by weight0[p div b]",
    .example = "weight0=[[1],[2]]&weight1=[[3,4],[5,6],[7,8]]&length=5",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(axial, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
