/* hierarchical.c - one encoding a level of the text: of the word in its sentence, of the sentence in its paragraph, ...
 *
 *     row n = sum or concatenation over the levels l of   level_weights[l] * E_l[positions[l, n]]
 *
 * E_l is the sinusoid of level_dims[l] columns, or the table table_l. Levels go from the finest to the coarsest; the next
 * level is the parent of a level. token_level_ids[l, n] is the unit of token n: with numbering=global units are numbered
 * through the whole input, and the position is counted from the first unit of the parent, so that it starts at 0 in each
 * parent; the coarsest level has no parent and keeps its numbers. With numbering=within_parent they are positions already.
 * Source: no implementation is canonical; BERT and its descendants add tables of several kinds of positions, hierarchical
 * attention networks (Yang et al. 2016, HIBERT: Zhang et al. 2019, arXiv:1905.06566) encode sentences and documents apart.
 * The sinusoid is that of Vaswani et al. 2017, section 3.5. */
#include "core/params.h"
#include "sequence/sines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_hierarchical;

/* ---- rows ---- */

enum { LEVELS = 8, WIDEST = 1 << 20 };
enum { SUM, CONCAT };
static const char *const combinations[] = { "sum", "concat", NULL };
enum { GLOBAL, WITHIN_PARENT };
static const char *const numberings[] = { "global", "within_parent", NULL };
static const char *const kinds[] = { "sinusoidal", "learned" };

typedef struct hierarchical {
    posenc_given given;
    posenc_tensor token_level_ids;
    posenc_reals level_dims, level_weights;
    const char *level_encodings;
    int combine, numbering;
    double max_period;
    int layout;
    bool flip_sin_to_cos;
    posenc_tensor table[LEVELS];
} hierarchical;

#define TABLE(l, words)                                                                                             \
    {                                                                                                               \
        .name = "table_" #l, .kind = PE_T_TENSOR, .offset = offsetof(hierarchical, table[l]), .flags = PE_OPTIONAL, \
        .doc = words                                                                                                \
    }

static const posenc_param rows[] = {
    { PE_TENSOR(hierarchical, token_level_ids), .flags = PE_REQUIRED,
      .doc = "[levels, N], the finest level first: the unit of each token, such as its word, sentence and paragraph" },
    { PE_ENUM(hierarchical, numbering), .names = numberings, .def = GLOBAL,
      .doc = "units are numbered through the input, and positions start at 0 in each unit of the next level; or the numbers "
             "are the positions" },
    { PE_REALS(hierarchical, level_dims), .flags = PE_REQUIRED, .min = 1, .max = WIDEST, .doc = "columns of each level" },
    { PE_REALS(hierarchical, level_weights), .flags = PE_OPTIONAL, .min = -1e100, .max = 1e100,
      .doc = "factor of each level; when absent 1" },
    { PE_TEXT(hierarchical, level_encodings), .flags = PE_OPTIONAL, .min = 1, .max = 127,
      .doc = "a word a level, with commas: sinusoidal, or learned with its table; when absent a level with a table is "
             "learned" },
    { PE_ENUM(hierarchical, combine), .names = combinations, .def = SUM,
      .doc = "levels of equal width are added; or the columns of the finest come first and those of the others follow" },
    { PE_REAL(hierarchical, max_period), .def = 10000, .min = 1, .max = 1e100, .doc = "base of the sinusoids' frequencies" },
    { PE_ENUM(hierarchical, layout), .names = pe_sines_layouts, .def = PE_INTERLEAVED,
      .doc = "of sinusoids: sin cos sin cos ..., or all sines then all cosines" },
    { PE_BOOL(hierarchical, flip_sin_to_cos), .doc = "of sinusoids: cosines first" },
    TABLE(0, "learned table of the finest level, [positions, level_dims[0]]"),
    TABLE(1, "of the next level"),
    TABLE(2, "of the next level"),
    TABLE(3, "of the next level"),
    TABLE(4, "of the next level"),
    TABLE(5, "of the next level"),
    TABLE(6, "of the next level"),
    TABLE(7, "of the next level"),
};

static const posenc_output outputs[] = {
    { "table", "[N, D]", "a row a token; D is the width of a level, or with concat the sum of widths", NULL },
    { "positions", "[levels, N]", "the position of each token's unit inside the parent", "int64" },
};

/* ---- what the parameters mean ---- */

static uint64_t bit(const char *name) { return 1ULL << (posenc_row(&pe_hierarchical.table, name) - rows); }
static int levels(const hierarchical *p) { return (int)p->token_level_ids.shape[0]; }
static int64_t tokens(const hierarchical *p) { return p->token_level_ids.shape[1]; }
static bool learned(const hierarchical *p, int l) { return p->table[l].name != NULL; }
static int64_t width(const hierarchical *p, int l) { return (int64_t)p->level_dims.v[l]; }
static double weight(const hierarchical *p, int l) { return p->level_weights.n ? p->level_weights.v[l] : 1; }

static int64_t id(const hierarchical *p, int l, int64_t n)
{
    return (int64_t)posenc_tensor_get(&p->token_level_ids, l * tokens(p) + n);
}

/* Columns of the result, and those of all levels side by side. */
static int64_t total(const hierarchical *p, bool apart)
{
    int64_t sum = 0;
    for (int l = 0; l < levels(p); l++)
        sum += width(p, l);
    return apart || p->combine == CONCAT ? sum : width(p, 0);
}

static pe_sines sines(const hierarchical *p, int l)
{
    return (pe_sines){ .width = width(p, l),
                       .split = p->layout == PE_SPLIT,
                       .flip = p->flip_sin_to_cos,
                       .odd = PE_ODD_ERROR,
                       .top = p->max_period,
                       .bottom = 1,
                       .shortest = 1,
                       .scale = 1,
                       .form = PE_POWER_EXP };
}

/* ---- check ---- */

static void check_widths(const hierarchical *p, posenc_error *err)
{
    for (int l = 0; l < levels(p); l++) {
        const double v = p->level_dims.v[l];
        if (v != floor(v))
            pe_invalid(err, posenc_text("level_dims[%d]", l).s, posenc_text("%.17g", v), "a whole number");
        else if (!learned(p, l) && v / 2 != floor(v / 2))
            pe_invalid(err, posenc_text("level_dims[%d]", l).s, posenc_text("%.17g", v),
                       "an even width of sinusoids, or a table of the level");
        else if (p->combine == SUM && v != p->level_dims.v[0])
            pe_invalid(err, posenc_text("level_dims[%d]", l).s, posenc_text("%.17g", v),
                       "%.0f, as the first level, or combine=concat", p->level_dims.v[0]);
    }
}

/* One word a level, which says of the level what its table says. */
static void check_encodings(const hierarchical *p, posenc_error *err)
{
    const char *s = p->level_encodings;
    int l = 0;
    for (;; l++) {
        const size_t n = strcspn(s, ",");
        const int kind = l < levels(p) && learned(p, l);
        bool word = false;
        for (size_t k = 0; k < PE_LEN(kinds); k++)
            word = word || (strlen(kinds[k]) == n && !memcmp(kinds[k], s, n));
        if (l >= levels(p) || !word || strlen(kinds[kind]) != n) {
            const bool table = word && l < levels(p);
            pe_invalid(err, posenc_text("level_encodings[%d]", l).s, posenc_text("%.*s", n < 40 ? (int)n : 40, s),
                       table ? "%s: table_%d says so" : "sinusoidal or learned, a word a level",
                       kind ? "learned" : "sinusoidal, without a table", l);
            return;
        }
        if (!s[n])
            break;
        s += n + 1;
    }
    if (l + 1 != levels(p))
        pe_invalid(err, "level_encodings", posenc_text("%d words", l + 1), "a word a level: %d", levels(p));
}

/* Units of one level: numbered through, and a unit of the parent starts a unit. */
static void check_numbers(const hierarchical *p, int l, posenc_error *err)
{
    for (int64_t n = 1; n < tokens(p); n++) {
        bool parent = false;
        for (int up = l + 1; up < levels(p); up++)
            parent = parent || id(p, up, n) != id(p, up, n - 1);
        if (id(p, l, n) > id(p, l, n - 1) || (id(p, l, n) == id(p, l, n - 1) && !parent))
            continue;
        pe_invalid(err, posenc_text("token_level_ids[%d][%lld]", l, (long long)n).s,
                   posenc_text("%lld", (long long)id(p, l, n)),
                   parent ? "above %lld: the parent changes here (levels from fine to coarse), or numbering=within_parent"
                          : "%lld or above, numbered through the input, or numbering=within_parent",
                   (long long)id(p, l, n - 1));
        return;
    }
}

/* Position of token n, whose parent starts at token `first`. */
static int64_t position(const hierarchical *p, int l, int64_t n, int64_t first)
{
    const bool as_is = p->numbering == WITHIN_PARENT || l == levels(p) - 1;
    return id(p, l, n) - (as_is ? 0 : id(p, l, first));
}

/* Where the parent of token n of level l starts, when that of the token before started at `first`. */
static int64_t parent_start(const hierarchical *p, int l, int64_t n, int64_t first)
{
    for (int up = l + 1; n && up < levels(p); up++)
        if (id(p, up, n) != id(p, up, n - 1))
            return n;
    return first;
}

static void check_table(const hierarchical *p, int l, posenc_error *err)
{
    const posenc_tensor *t = &p->table[l];
    const int64_t shape[] = { -1, width(p, l) };
    if (!pe_tensor_shaped(t, 2, shape, "[positions, level_dims of the level]", err))
        return;
    int64_t need = 0;
    for (int64_t n = 0, first = 0; n < tokens(p); n++) {
        first = parent_start(p, l, n, first);
        const int64_t at = position(p, l, n, first);
        need = at >= need ? at + 1 : need;
    }
    if (need > t->shape[0])
        pe_invalid(err, t->name, posenc_text("%lld rows", (long long)t->shape[0]), "at least %lld rows for these positions",
                   (long long)need);
}

/* Every element is finite in dtype. */
static void check_range(const posenc_request *r, posenc_error *err)
{
    const hierarchical *p = r->params;
    const double most = pe_dtype_largest((posenc_dtype)r->common.dtype);
    double sum = 0, widest = 0;
    int largest = 0;
    for (int l = 0; l < levels(p); l++) {
        double v = learned(p, l) ? pe_tensor_largest(&p->table[l]) : 1;
        v *= fabs(weight(p, l));
        largest = v > widest ? l : largest;
        widest = pe_max(widest, v);
        sum += v;
    }
    if ((p->combine == SUM ? sum : widest) > most)
        pe_invalid(err,
                   p->level_weights.n ? posenc_text("level_weights[%d]", largest).s : posenc_text("table_%d", largest).s,
                   posenc_text("an element of up to %g", p->combine == SUM ? sum : widest), "elements of at most %g in %s",
                   most, posenc_dtype_name((posenc_dtype)r->common.dtype));
}

static void check_sizes(const hierarchical *p, posenc_error *err)
{
    const posenc_reals *const lists[] = { &p->level_dims, &p->level_weights };
    static const char *const names[] = { "level_dims", "level_weights" };
    for (size_t i = 0; i < PE_LEN(lists); i++)
        if ((i == 0 || p->given & bit(names[i])) && lists[i]->n != (size_t)levels(p))
            pe_invalid(err, names[i], posenc_text("%zu values", lists[i]->n), "a value a level: %d", levels(p));
    for (int l = levels(p); l < LEVELS; l++)
        if (learned(p, l))
            pe_not_applicable(err, p->table[l].name, "given", "tables of the %d levels of token_level_ids", levels(p));
}

static void check_sinusoids(const hierarchical *p, posenc_error *err)
{
    for (int l = 0; l < levels(p); l++)
        if (!learned(p, l))
            return;
    static const char none[] = "a sinusoidal level: all are learned";
    if (p->max_period != 10000)
        pe_not_applicable(err, "max_period", posenc_text("%.17g", p->max_period).s, "%s", none);
    if (p->layout != PE_INTERLEAVED)
        pe_not_applicable(err, "layout", pe_sines_layouts[p->layout], "%s", none);
    if (p->flip_sin_to_cos)
        pe_not_applicable(err, "flip_sin_to_cos", "true", "%s", none);
}

/* Two spellings of one request have one key: words that only repeat what the tables say, and weights of 1, leave no trace.
 */
static void forget_defaults(hierarchical *p)
{
    bool ones = true;
    for (size_t i = 0; i < p->level_weights.n; i++)
        ones = ones && p->level_weights.v[i] == 1;
    if (ones) {
        p->given &= ~bit("level_weights");
        p->level_weights = (posenc_reals){ 0 };
    }
    p->given &= ~bit("level_encodings");
    p->level_encodings = NULL;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    hierarchical *p = r->params;
    const int64_t any[] = { -1, -1 };
    if (!pe_tensor_shaped(&p->token_level_ids, 2, any, "[levels, N]", err))
        return err->status;
    if (p->token_level_ids.shape[0] < 1 || p->token_level_ids.shape[0] > LEVELS)
        return pe_invalid(err, "token_level_ids", posenc_text("%lld levels", (long long)p->token_level_ids.shape[0]),
                          "1 .. %d levels, one a row", LEVELS);
    pe_tensor_integers(&p->token_level_ids, 0, 0x1p53, "a unit's number, 0 .. 2^53", err);
    check_sizes(p, err);
    if (p->level_encodings)
        check_encodings(p, err);
    if (!err->n) {
        check_widths(p, err);
        check_sinusoids(p, err);
    }
    for (int l = 0; !err->n && p->numbering == GLOBAL && l < levels(p); l++)
        check_numbers(p, l, err);
    for (int l = 0; !err->n && l < levels(p); l++)
        if (learned(p, l))
            check_table(p, l, err);
    if (!err->n)
        check_range(r, err);
    forget_defaults(p);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const hierarchical *p = r->params;
    const int64_t size[] = { tokens(p), total(p, false) };
    posenc_status st = pe_output(out, "table", (posenc_dtype)r->common.dtype, 2, size, err);
    return st ? st : pe_output(out, "positions", PE_int64, 2, p->token_level_ids.shape, err);
}

/* Frequencies of all levels, the current row of each, and the row they make. */
static size_t memory(const hierarchical *p)
{
    const size_t apart = (size_t)total(p, true);
    return apart * sizeof(pe_dd) + (apart + (size_t)total(p, false)) * sizeof(double);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const hierarchical *p = r->params;
    const double d = (double)total(p, true);
    *out = (posenc_cost){ .ns = 20e3 * levels(p) + 150 * d + (double)tokens(p) * (8 * d + 30 * levels(p)),
                          .scratch = memory(p) };
}

/* ---- compute ---- */

typedef struct level {
    pe_sines s;
    pe_columns c;
    pe_dd *w;      /* (pairs) */
    double *row;   /* (width) of the position `at`, with its weight */
    int64_t at;    /* -1: none yet */
    int64_t first; /* token at which the current parent starts */
} level;

/* The row of a position; neighbours mostly share the positions of coarse levels. */
static posenc_status make_row(const hierarchical *p, int l, level *v, int64_t at, pe_pace *pace)
{
    const int64_t n = width(p, l);
    posenc_status st = PE_OK;
    if (at == v->at)
        return PE_OK;
    v->at = at;
    if (!learned(p, l))
        st = pe_sines_row(&v->s, &v->c, v->w, (pe_dd){ (double)at, 0 }, v->row, pace);
    for (int64_t k = 0; k < n; k++)
        v->row[k] = weight(p, l) * (learned(p, l) ? posenc_tensor_get(&p->table[l], at * n + k) : v->row[k]);
    return st ? st : pe_pace_add(pace, 4 * n);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const hierarchical *p = r->params;
    const posenc_tensor *dst = pe_tensor(out, "table");
    int64_t *positions = pe_tensor(out, "positions")->data;
    const size_t d = (size_t)total(p, false), apart = (size_t)total(p, true), size = d * posenc_dtype_size(dst->dtype);
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    level v[LEVELS];
    pe_dd *w = malloc(memory(p));
    if (!w)
        return pe_no_memory("memory", err);
    double *row = (double *)(w + apart), *together = row + apart;
    for (int l = 0; l < levels(p) && !st; l++) {
        v[l] = (level){ .s = sines(p, l), .w = w, .row = row, .at = -1 };
        v[l].c = pe_sines_columns(&v[l].s);
        if (!learned(p, l))
            st = pe_sines_frequencies(&v[l].s, v[l].w, ctx);
        w += width(p, l);
        row += width(p, l);
    }
    for (int64_t n = 0; n < tokens(p) && !st; n++) {
        size_t column = 0;
        memset(together, 0, d * sizeof *together);
        for (int l = 0; l < levels(p) && !st; l++) {
            v[l].first = parent_start(p, l, n, v[l].first);
            const int64_t at = positions[l * tokens(p) + n] = position(p, l, n, v[l].first);
            if ((st = make_row(p, l, &v[l], at, &pace)))
                break;
            for (size_t k = 0; k < (size_t)width(p, l); k++)
                together[column + k] += v[l].row[k];
            column += p->combine == CONCAT ? (size_t)width(p, l) : 0;
        }
        if (!st) {
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)n * size, together, d);
            st = pe_pace_add(&pace, (int64_t)apart + 30 * levels(p));
        }
    }
    free(v[0].w);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_hierarchical = {
    .name = "hierarchical",
    .family = "absolute",
    .title = "one encoding for each level of a text: word, sentence, paragraph",
    .source = "Devlin et al. 2019 (sums of tables), arXiv:1810.04805; Zhang et al. 2019, HIBERT, arXiv:1905.06566",
    .formula = "row n = sum or concatenation over levels l of level_weights[l] * E_l[positions[l, n]]\n"
               "E_l: the sinusoid of level_dims[l] columns, or table_l; levels from fine to coarse\n"
               "numbering=global: positions[l, n] = token_level_ids[l, n] less that of the parent's first token; the "
               "coarsest as is",
    .example = "token_level_ids=[[0,1,2,3,4,5],[0,0,1,1,2,2],[0,0,0,0,1,1]]&level_dims=8,8,8&level_weights=1,0.5,0.25",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(hierarchical, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
