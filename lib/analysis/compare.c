/* compare.c - a table against a request, and which known mistake makes the one out of the other.
 *
 * A mistake is something done to the answer (its halves swapped, its sines negated) or to the request (another exponent, the
 * next position). Each that the encoding allows is made, and the table it gives is held against the given one: a mistake is
 * named when it leaves next to nothing of the difference. */
#include "analysis/compare.h"

#include "analysis/identify.h"

#include "core/elementary.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/params.h"
#include "formats/output.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MISTAKES = 4 };

typedef struct comparing {
    pe_search s; /* of the table: its elements, storage and scale */
    const posenc_request *r;
    const char *output;
    posenc_dtype dtype; /* of the answer */
    double *want;       /* (count) the answer, in float64, rounded to the request's dtype */
    double *made;       /* (room) of a mistake */
    bool rounding;      /* what is held is the answer itself, in the table's dtype */
    double plain;       /* root of the mean square of table - that */
    size_t room;
    double rms;        /* of table - want */
    size_t rows, cols; /* of the answer */
    bool sides;        /* the table has the answer's sides */
    posenc_mistake found[MOST_MISTAKES];
    size_t nfound;
} comparing;

/* ---- answers ---- */

static void sides(const posenc_tensor *t, size_t *rows, size_t *cols)
{
    *cols = t->rank ? (size_t)t->shape[t->rank - 1] : 1;
    *rows = *cols ? (size_t)posenc_tensor_count(t) / *cols : 0;
}

/* The output of a resolved request as float64, in `to`, which has `room`, or else in the arena of the search. NULL: none, or
 * failed. */
static double *answer(comparing *c, const posenc_request *r, const char *output, double *to, size_t room, size_t *rows,
                      size_t *cols)
{
    posenc_result out = r->shape;
    uint64_t place = 0;
    char *memory = pe_result_memory((size_t)r->size + 64 * PE_MAX_OUTPUTS);
    double *v = NULL;
    posenc_status st = memory ? PE_OK : PE_BUSY;
    for (int i = 0; i < out.ntensors && !st; i++) {
        out.tensor[i].data = memory + place;
        place += (posenc_tensor_size(&out.tensor[i]) + 63) / 64 * 64;
    }
    st = st ? st : posenc_compute(r, &out, c->s.ctx, NULL);
    for (int i = 0; i < out.ntensors && !st; i++)
        if (!strcmp(out.tensor[i].name, output)) {
            sides(&out.tensor[i], rows, cols);
            v = *rows * *cols <= room ? to : pe_scratch(&c->s, *rows * *cols, sizeof *v);
            if (v)
                pe_tensor_read(&out.tensor[i], 0, *rows * *cols, v);
        }
    free(memory);
    if (st == PE_CANCELLED || st == PE_DEADLINE || st == PE_BUSY)
        c->s.status = st;
    return v;
}

/* ---- naming ---- */

static void name_mistake(comparing *c, const char *name, const char *detail, double largest, double rms)
{
    size_t at = c->nfound;
    if (at == MOST_MISTAKES) {
        if (rms >= c->found[at - 1].rms)
            return;
        at--;
    } else {
        c->nfound++;
    }
    posenc_mistake m = { .name = name, .largest = largest, .rms = rms };
    snprintf(m.detail, sizeof m.detail, "%s", detail);
    while (at > 0 && rms < c->found[at - 1].rms * (1 - 1e-3)) { /* of equals the first tried comes first */
        c->found[at] = c->found[at - 1];
        at--;
    }
    c->found[at] = m;
}

/* Holds what a mistake makes against the table. */
static void hold(comparing *c, const char *name, const char *detail, const double *made, size_t rows, size_t cols)
{
    const pe_view *v = &c->s.view[0];
    double sum = 0, most = 0;
    if (c->s.status || !made || v->rows != rows || v->cols != cols)
        return;
    for (size_t i = 0; i < rows * cols; i++) {
        const double off = fabs(v->x[i] - made[i]);
        most = off > most ? off : most;
        sum += off * off;
    }
    c->s.status = pe_pace_add(&c->s.pace, (int64_t)(rows * cols) * 2);
    const double rms = sqrt(sum / (double)(rows * cols));
    if (c->rounding)
        c->plain = rms;
    else if (rms >= c->plain) /* it explains nothing that rounding does not */
        return;
    if (rms <= 0.1 * c->rms && most <= c->s.allowed)
        name_mistake(c, name, detail, most, rms);
}

/* ---- done to the answer ---- */

typedef double change(const comparing *c, size_t r, size_t k);

static double at(const comparing *c, size_t r, size_t k) { return c->want[r * c->cols + k]; }
static double halves(const comparing *c, size_t r, size_t k) { return at(c, r, (k + c->cols / 2) % c->cols); }
static double pairs(const comparing *c, size_t r, size_t k) { return at(c, r, k ^ 1); }
static double to_split(const comparing *c, size_t r, size_t k)
{
    return at(c, r, k < c->cols / 2 ? 2 * k : 2 * (k - c->cols / 2) + 1);
}
static double to_interleaved(const comparing *c, size_t r, size_t k) { return at(c, r, k / 2 + (k % 2) * (c->cols / 2)); }
static double negated(const comparing *c, size_t r, size_t k) { return -at(c, r, k); }
static double first_half(const comparing *c, size_t r, size_t k) { return k < c->cols / 2 ? -at(c, r, k) : at(c, r, k); }
static double second_half(const comparing *c, size_t r, size_t k) { return k < c->cols / 2 ? at(c, r, k) : -at(c, r, k); }
static double even(const comparing *c, size_t r, size_t k) { return k % 2 ? at(c, r, k) : -at(c, r, k); }
static double odd(const comparing *c, size_t r, size_t k) { return k % 2 ? -at(c, r, k) : at(c, r, k); }
static double upside_down(const comparing *c, size_t r, size_t k) { return at(c, c->rows - 1 - r, k); }
static double backwards(const comparing *c, size_t r, size_t k) { return at(c, r, c->cols - 1 - k); }

static void done_to_answer(comparing *c)
{
    static const struct {
        const char *name, *detail;
        change *of;
        bool even; /* needs an even number of columns */
    } list[] = {
        { "halves_swapped", "the first half of the columns stands after the second", halves, true },
        { "sin_cos_exchanged", "the two columns of each pair are exchanged", pairs, true },
        { "split_for_interleaved", "columns 0, 2, 4 ... and then 1, 3, 5 ..., where they should alternate", to_split, true },
        { "interleaved_for_split", "columns of the two halves in turn, where one half should follow the other",
          to_interleaved, true },
        { "sign_flipped", "every element has the other sign", negated, false },
        { "sign_flipped", "the first half of the columns has the other sign", first_half, true },
        { "sign_flipped", "the second half of the columns has the other sign", second_half, true },
        { "sign_flipped", "columns 0, 2, 4 ... have the other sign", even, true },
        { "sign_flipped", "columns 1, 3, 5 ... have the other sign", odd, true },
        { "rows_reversed", "the last row stands first", upside_down, false },
        { "columns_reversed", "the last column stands first", backwards, false },
    };
    for (size_t i = 0; i < PE_LEN(list) && c->sides && !c->s.status; i++) {
        if (list[i].even && (c->cols % 2 || c->cols < 2))
            continue;
        for (size_t r = 0; r < c->rows; r++)
            for (size_t k = 0; k < c->cols; k++)
                c->made[r * c->cols + k] = list[i].of(c, r, k);
        hold(c, list[i].name, list[i].detail, c->made, c->rows, c->cols);
    }
    if (c->s.view[1].rows == c->rows && c->s.view[1].cols == c->cols) { /* rows and columns exchanged */
        for (size_t r = 0; r < c->rows; r++)
            for (size_t k = 0; k < c->cols; k++)
                c->made[k * c->rows + r] = at(c, r, k);
        hold(c, "transposed", "rows and columns are exchanged", c->made, c->cols, c->rows);
    }
}

/* The table is the answer times a number: which one the request has a name for. */
static void times_a_number(comparing *c, double attention, double scale)
{
    const double *x = c->s.view[0].x;
    double top = 0, bottom = 0;
    if (!c->sides)
        return;
    for (size_t i = 0; i < c->rows * c->cols; i++)
        top += x[i] * c->want[i], bottom += c->want[i] * c->want[i];
    if (!(bottom > 0) || fabs(top / bottom - 1) < 1e-4 || fabs(top / bottom) < 1e-6)
        return;
    const double k = top / bottom;
    const struct {
        const char *name, *detail;
        double number;
    } list[] = {
        { "attention_factor_left_out", "cosines and sines are not multiplied by attention_factor", 1 / attention },
        { "attention_factor_twice", "cosines and sines are multiplied by attention_factor twice", attention },
        { "scale_left_out", "the table is not multiplied by scale_output", 1 / scale },
        { "scale_twice", "the table is multiplied by scale_output twice", scale },
        { "scale_left_out", "the table should be divided by the square root of its width", sqrt((double)c->cols) },
        { "scaled", "the table is divided by the square root of its width", 1 / sqrt((double)c->cols) },
        { "scaled", NULL, pe_nice(k, 1e-4 * fabs(k)) },
    };
    for (size_t i = 0; i < PE_LEN(list); i++) {
        char detail[80];
        const double number = list[i].number;
        if (fabs(number - 1) < 1e-9 || fabs(number - k) > 2e-3 * fabs(k))
            continue;
        snprintf(detail, sizeof detail, "the table is the answer times %.6g", number);
        for (size_t j = 0; j < c->rows * c->cols; j++)
            c->made[j] = number * c->want[j];
        hold(c, list[i].name, list[i].detail ? list[i].detail : detail, c->made, c->rows, c->cols);
    }
}

/* Columns of zeros that the answer has not, or that the table lacks. */
static void padded(comparing *c)
{
    const pe_view *v = &c->s.view[0];
    if (v->rows != c->rows || v->cols == c->cols)
        return;
    const size_t cols = v->cols < c->cols ? v->cols : c->cols;
    double most = 0, sum = 0, rest = 0;
    for (size_t r = 0; r < v->rows; r++) {
        for (size_t k = 0; k < cols; k++) {
            const double off = fabs(v->x[r * v->cols + k] - c->want[r * c->cols + k]);
            most = pe_max(most, off), sum += off * off;
        }
        for (size_t k = cols; k < v->cols; k++)
            rest = pe_max(rest, fabs(v->x[r * v->cols + k]));
    }
    if (most > c->s.allowed)
        return;
    char detail[120];
    const long long more = (long long)v->cols - (long long)c->cols;
    if (more > 0 && rest <= c->s.allowed) {
        snprintf(detail, sizeof detail, "%lld columns of zeros stand after the answer's %lld", more, (long long)c->cols);
        name_mistake(c, "columns_padded", detail, most, sqrt(sum / (double)(v->rows * cols)));
    } else if (more < 0) {
        snprintf(detail, sizeof detail, "the last %lld columns are missing", -more);
        name_mistake(c, "columns_cut", detail, most, sqrt(sum / (double)(v->rows * cols)));
    }
}

/* ---- done to the request ---- */

/* A copy of the request with some rows at their defaults and one, perhaps, set; resolved. */
static bool changed(comparing *c, posenc_dtype as, const char *const *drop, const char *name, const char *value,
                    posenc_arena *a, posenc_request *out)
{
    const posenc_table *t = &c->r->encoding->table;
    static const size_t size[] = {
        [PE_T_INT] = sizeof(int64_t),         [PE_T_REAL] = sizeof(double), [PE_T_REALS] = sizeof(posenc_reals),
        [PE_T_BOOL] = sizeof(bool),           [PE_T_ENUM] = sizeof(int),    [PE_T_TEXT] = sizeof(char *),
        [PE_T_TENSOR] = sizeof(posenc_tensor)
    };
    if (posenc_request_init(out, c->r->encoding->name, a, NULL))
        return false;
    void *defaults = posenc_alloc(a, t->size);
    if (!defaults)
        return false;
    memcpy(defaults, out->params, t->size);
    memcpy(out->params, c->r->params, t->size);
    out->graph = c->r->graph;
    posenc_given *given = out->params;
    for (size_t i = 0; i < t->nrows; i++) {
        bool off = name && !strcmp(t->rows[i].name, name);
        for (size_t k = 0; drop && drop[k]; k++)
            off = off || !strcmp(t->rows[i].name, drop[k]);
        if (!off)
            continue;
        *given &= ~(UINT64_C(1) << i);
        memcpy((char *)out->params + t->rows[i].offset, (char *)defaults + t->rows[i].offset, size[t->rows[i].kind]);
    }
    const char *dtype = posenc_dtype_name(as);
    if (posenc_request_set(out, "dtype", dtype, strlen(dtype), NULL))
        return false;
    if (name && posenc_request_set(out, name, value, strlen(value), NULL))
        return false;
    return !posenc_resolve(out, NULL);
}

static void try_change(comparing *c, const char *name, const char *detail, const char *const *drop, const char *row,
                       const char *value)
{
    if (c->s.status)
        return;
    posenc_arena *a = posenc_arena_new((size_t)1 << 28);
    posenc_request r;
    size_t rows = 0, cols = 0;
    if (!a) {
        c->s.status = PE_BUSY;
        return;
    }
    bool same = changed(c, c->s.dtype, drop, row, value, a, &r) && r.size <= 4 * c->r->size + (1 << 20);
    for (int i = 0; i < r.shape.ntensors && same; i++)
        if (!strcmp(r.shape.tensor[i].name, c->output))
            sides(&r.shape.tensor[i], &rows, &cols);
    if (same && rows == c->s.view[0].rows && cols == c->s.view[0].cols)
        hold(c, name, detail, answer(c, &r, c->output, c->made, c->room, &rows, &cols), rows, cols);
    posenc_arena_free(a);
}

/* The right request in the table's dtype: what every other change is held against too. */
static void try_rounding(comparing *c)
{
    char detail[120];
    snprintf(detail, sizeof detail, "the right table, rounded to %s", posenc_dtype_name(c->s.dtype));
    c->rounding = true;
    try_change(c, posenc_dtype_size(c->s.dtype) < posenc_dtype_size(c->dtype) ? "rounded" : "precision", detail, NULL, NULL,
               NULL);
    c->rounding = false;
}

static const void *member(const comparing *c, const char *name, int kind)
{
    const posenc_param *row = posenc_row(&c->r->encoding->table, name);
    return row && row->kind == kind && posenc_applies(&c->r->encoding->table, row, c->r->params)
               ? (const char *)c->r->params + row->offset
               : NULL;
}

static posenc_short real_text(double v)
{
    posenc_short s;
    posenc_tensor t = { .dtype = PE_float64, .rank = 0, .data = &v };
    char text[PE_NUMBER_TEXT];
    const size_t n = pe_number_text(&t, 0, text);
    snprintf(s.s, sizeof s.s, "%.*s", (int)n, text);
    return s;
}

static void change_words(comparing *c, const char *row, const char *mistake)
{
    const int *v = member(c, row, PE_T_ENUM);
    const posenc_param *p = posenc_row(&c->r->encoding->table, row);
    for (int k = 0; v && p->names[k] && k < 64; k++) {
        if (k == *v)
            continue;
        char detail[120];
        snprintf(detail, sizeof detail, "%s=%s where %s is asked for", row, p->names[k], p->names[*v]);
        try_change(c, mistake, detail, NULL, row, p->names[k]);
    }
}

static void change_real(comparing *c, const char *row, const char *mistake, const char *detail, double value)
{
    const double *v = member(c, row, PE_T_REAL);
    char text[120];
    if (!v || *v == value)
        return;
    snprintf(text, sizeof text, "%s: %s=%s", detail, row, real_text(value).s);
    try_change(c, mistake, text, NULL, row, real_text(value).s);
}

/* Positions that are all later or earlier. */
static void shift_positions(comparing *c)
{
    static const char *const lists[] = { "positions", "timesteps", "timestamps" };
    const int64_t *offset = member(c, "offset", PE_T_INT);
    const bool range = offset && pe_given(c->r, "num_positions");
    for (int k = -2; k <= 2; k++) {
        char detail[80];
        if (!k)
            continue;
        snprintf(detail, sizeof detail, "every position is %d %s than asked for", k < 0 ? -k : k, k < 0 ? "less" : "more");
        if (range)
            try_change(c, "off_by_one", detail, NULL, "offset", posenc_text("%lld", (long long)*offset + k).s);
        for (size_t i = 0; i < PE_LEN(lists); i++) {
            const posenc_reals *l = member(c, lists[i], PE_T_REALS);
            if (!l || !l->n)
                continue;
            double *moved = pe_scratch(&c->s, l->n, sizeof *moved);
            for (size_t j = 0; moved && j < l->n; j++)
                moved[j] = l->v[j] + k;
            pe_guess w = pe_guess_begin(&c->s, c->r->encoding->name);
            if (moved)
                pe_guess_reals(&w, "", moved, l->n);
            if (w.text)
                try_change(c, "off_by_one", detail, NULL, lists[i], w.text + 1);
        }
    }
}

static const char *const bases[] = { "max_period", "rope_theta", "temperature" };

static void done_to_request(comparing *c)
{
    static const double usual[] = { 10000, 500000, 1000000, 100, 1000 };
    static const char *const ropes[] = { "rope_type",
                                         "factor",
                                         "original_max_position_embeddings",
                                         "max_position_embeddings",
                                         "attention_factor",
                                         "beta_fast",
                                         "beta_slow",
                                         "mscale",
                                         "mscale_all_dim",
                                         "truncate",
                                         "short_factor",
                                         "long_factor",
                                         "low_freq_factor",
                                         "high_freq_factor",
                                         "alpha",
                                         "ntk_factor",
                                         "linear_factor",
                                         "seq_len",
                                         NULL };
    const double *shift = member(c, "downscale_freq_shift", PE_T_REAL), *scale = member(c, "scale", PE_T_REAL);
    const bool *flip = member(c, "flip_sin_to_cos", PE_T_BOOL), *both = member(c, "bidirectional", PE_T_BOOL);
    char detail[120];
    try_rounding(c);
    change_words(c, "compute_dtype", "precision_of_angles");
    if (shift) {
        const double other = *shift == 0 ? 1 : 0;
        snprintf(detail, sizeof detail, "exponents are i/(d/2%s) where i/(d/2%s) is asked for", other == 1 ? " - 1" : "",
                 *shift == 0   ? ""
                 : *shift == 1 ? " - 1"
                               : " - shift");
        try_change(c, "exponent", detail, NULL, "downscale_freq_shift", other == 1 ? "1" : "0");
    }
    change_words(c, "layout", "layout");
    if (flip)
        try_change(c, "sin_cos_exchanged", "the other of sines and cosines comes first", NULL, "flip_sin_to_cos",
                   *flip ? "false" : "true");
    shift_positions(c);
    if (scale && *scale != 1) {
        change_real(c, "scale", "scale_left_out", "angles are not multiplied by scale", 1);
        change_real(c, "scale", "scale_twice", "angles are multiplied by scale twice", *scale * *scale);
    }
    if (member(c, "rope_type", PE_T_ENUM))
        try_change(c, "rope_scaling_left_out", "the frequencies are not scaled", ropes, NULL, NULL);
    change_words(c, "rope_type", "rope_type");
    for (size_t i = 0; i < PE_LEN(bases); i++)
        for (size_t k = 0; k < PE_LEN(usual); k++)
            change_real(c, bases[i], "base", "another base", usual[k]);
    change_words(c, "axis_order", "axis_order");
    change_words(c, "row_order", "axis_order");
    change_words(c, "form", "form");
    change_words(c, "odd_dim", "odd_dim");
    change_words(c, "normalize", "normalize");
    if (both)
        try_change(c, "direction",
                   *both ? "keys after the query share one bucket" : "half of the buckets are for later keys", NULL,
                   "bidirectional", *both ? "false" : "true");
}

/* A base that nobody lists: the one that the table itself says. */
static void fitted_base(comparing *c)
{
    pe_search_find(&c->s);
    for (size_t i = 0; i < c->s.nfound && !c->nfound; i++) {
        const posenc_match *m = &c->s.found[i];
        for (size_t k = 0; k < PE_LEN(bases) && !strcmp(m->encoding, c->r->encoding->name); k++) {
            const char *at = strstr(m->query, bases[k]);
            const size_t name = strlen(bases[k]);
            double value;
            if (at && at[name] == '=' && pe_parse_number(at + name + 1, strcspn(at + name + 1, "&"), &value))
                change_real(c, bases[k], "base", "another base", value);
        }
    }
}

/* What the search knows the table to be, beyond the life of the search; NULL: nothing, or no memory. */
static const posenc_match *instead(const comparing *c, posenc_arena *a)
{
    posenc_match *m = c->s.nfound && !c->nfound ? posenc_alloc(a, sizeof *m) : NULL;
    if (m) {
        *m = c->s.found[0];
        m->query = posenc_strdup(a, m->query, strlen(m->query));
    }
    return m && m->query ? m : NULL;
}

/* ---- angles in 16 bits ---- */

static double rounded(posenc_dtype t, double v)
{
    uint64_t bits = 0;
    double back;
    posenc_tensor one = { .dtype = t, .rank = 0, .data = &bits };
    posenc_convert(t, &bits, &v, 1);
    pe_tensor_read(&one, 0, 1, &back);
    return back;
}

/* Positions, or frequencies and angles too, rounded before the sines. The frequencies are the angles of position 1, which
 * the request itself gives. */
static void short_angles(comparing *c)
{
    static const posenc_dtype types[] = { PE_bfloat16, PE_float16 };
    const int64_t *offset = member(c, "offset", PE_T_INT), *n = member(c, "num_positions", PE_T_INT);
    const double *shift = member(c, "downscale_freq_shift", PE_T_REAL);
    const bool sinusoid = !strcmp(c->r->encoding->name, "sinusoidal") && shift;
    const bool rope = !strcmp(c->r->encoding->name, "rope");
    if (!c->sides || !offset || !n || !pe_given(c->r, "num_positions") || !(sinusoid || rope))
        return;
    /* the angles of position 1 are the frequencies: from a request of their sines and cosines alone */
    double *w = pe_scratch(&c->s, c->cols, sizeof *w);
    bool *cosine = pe_scratch(&c->s, c->cols, sizeof *cosine);
    posenc_arena *a = posenc_arena_new((size_t)1 << 26);
    posenc_request r;
    const char *const drop[] = { "num_positions", "offset", "padding_idx", "normalize", "scale_output", NULL };
    double *row = NULL, *other = NULL;
    size_t rows = 0, cols = 0;
    const bool ready = w && cosine && a && changed(c, PE_float64, drop, "positions", "0,1", a, &r);
    if (ready) {
        row = answer(c, &r, c->output, NULL, 0, &rows, &cols);
        other = rope ? answer(c, &r, strcmp(c->output, "cos") ? "cos" : "sin", NULL, 0, &rows, &cols) : NULL;
    }
    posenc_arena_free(a);
    if (!row || rows != 2 || cols != c->cols || (rope && !other))
        return;
    const int *layout = member(c, "layout", PE_T_ENUM);
    const double *one = row + cols;
    for (size_t k = 0; k < cols; k++) {
        cosine[k] = rope ? !strcmp(c->output, "cos") : fabs(row[k]) > 0.5;
        const size_t mate = rope ? k : *layout ? (k + cols / 2) % cols : k ^ 1;
        if (mate >= cols)
            return;
        const double with = rope ? other[cols + k] : one[mate];
        w[k] = cosine[k] ? pe_atan2(with, one[k]) : pe_atan2(one[k], with);
    }
    const double amplitude = rope ? sqrt(one[0] * one[0] + other[cols] * other[cols]) : 1;
    const double *output_scale = member(c, "scale_output", PE_T_REAL);
    const double factor = (output_scale ? *output_scale : 1) * amplitude;
    for (size_t i = 0; i < PE_LEN(types); i++)
        for (int all = 0; all < 2 && !c->s.status; all++) {
            for (size_t p = 0; p < c->rows; p++) {
                const double position = rounded(types[i], (double)*offset + (double)p);
                for (size_t k = 0; k < cols; k++) {
                    const double angle = all ? rounded(types[i], position * rounded(types[i], w[k])) : position * w[k];
                    double x, y;
                    pe_cis(angle, &x, &y);
                    c->made[p * cols + k] = rounded(c->s.dtype, factor * (cosine[k] ? x : y));
                }
                c->s.status = pe_pace_add(&c->s.pace, (int64_t)cols * 80);
            }
            char detail[80];
            snprintf(detail, sizeof detail, "%s rounded to %s before the sines",
                     all ? "frequencies and angles are" : "positions are", posenc_dtype_name(types[i]));
            hold(c, "short_angles", detail, c->made, c->rows, c->cols);
        }
}

/* ---- differences ---- */

/* The distance of neighbours of the dtype at v. */
static double spacing(posenc_dtype t, double v)
{
    static const int bits[PE_NDTYPES] = { [PE_float32] = 24, [PE_float64] = 53, [PE_float16] = 11, [PE_bfloat16] = 8 };
    static const int least[PE_NDTYPES] = {
        [PE_float32] = -149, [PE_float64] = -1074, [PE_float16] = -24, [PE_bfloat16] = -133
    };
    int e;
    if (!bits[t])
        return 1;
    frexp(v, &e);
    return ldexp(1, v != 0 && e - bits[t] > least[t] ? e - bits[t] : least[t]);
}

static bool differences(comparing *c, posenc_comparison *out, posenc_arena *a)
{
    const pe_view *v = &c->s.view[0];
    double sum = 0;
    const posenc_dtype dtype = c->dtype;
    double *by_row = posenc_alloc(a, c->rows * sizeof *by_row), *by_column = posenc_alloc(a, c->cols * sizeof *by_column);
    if (!by_row || !by_column)
        return false;
    out->first = -1;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t k = 0; k < c->cols; k++) {
            const size_t i = r * c->cols + k;
            const double off = fabs(v->x[i] - c->want[i]), size = pe_max(fabs(v->x[i]), fabs(c->want[i]));
            if (off > 0 && out->first < 0)
                out->first = (int64_t)i;
            if (off > out->largest_absolute)
                out->largest_absolute = off, out->worst = (int64_t)i;
            out->ndiffering += off > 0;
            if (c->want[i] != 0)
                out->largest_relative = pe_max(out->largest_relative, pe_min(off / fabs(c->want[i]), DBL_MAX));
            out->largest_ulp = pe_max(out->largest_ulp, off / spacing(dtype, size));
            by_row[r] = pe_max(by_row[r], off);
            by_column[k] = pe_max(by_column[k], off);
            sum += off * off;
        }
    out->row = by_row;
    out->column = by_column;
    out->rms = c->rms = sqrt(sum / (double)(c->rows * c->cols));
    return true;
}

/* The output that is meant: the one named, or the first of the table's sides, or of as many elements, or a real one. */
static const char *choose(const posenc_request *r, const char *name, const pe_view *v, posenc_error *err)
{
    const posenc_result *s = &r->shape;
    char names[120] = "";
    const char *found = NULL;
    for (int pass = 0; pass < 3 && !found; pass++)
        for (int i = 0; i < s->ntensors && !found; i++) {
            size_t rows, cols;
            sides(&s->tensor[i], &rows, &cols);
            const bool as_large = rows * cols == v->rows * v->cols, same = rows == v->rows && cols == v->cols;
            if (name ? !strcmp(s->tensor[i].name, name) : pass == 0 ? same : pass == 1 ? as_large : rows > 1)
                found = s->tensor[i].name;
        }
    for (int i = 0; i < s->ntensors && !found; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", s->tensor[i].name);
    if (!found)
        pe_invalid(err, "tensor", posenc_text("%.60s", name ? name : "absent"), "an output of %s that is a table: %s",
                   r->encoding->name, names);
    return found;
}

posenc_status posenc_compare(const posenc_tensor *table, const posenc_request *r, const char *output, posenc_arena *a,
                             posenc_comparison *out, posenc_context *ctx, posenc_error *err)
{
    return pe_compare_as(table, r, (posenc_dtype)r->common.dtype, output, a, out, ctx, err);
}

/* The answer in the dtype that is asked for. */
static double *right_answer(comparing *c, posenc_dtype dtype)
{
    posenc_arena *own = posenc_arena_new((size_t)1 << 28);
    posenc_request r;
    double *v = NULL;
    if ((posenc_dtype)c->r->common.dtype == dtype)
        v = answer(c, c->r, c->output, NULL, 0, &c->rows, &c->cols);
    else if (own && changed(c, dtype, NULL, NULL, NULL, own, &r))
        v = answer(c, &r, c->output, NULL, 0, &c->rows, &c->cols);
    else if (!own)
        c->s.status = PE_BUSY;
    posenc_arena_free(own);
    return v;
}

posenc_status pe_compare_as(const posenc_tensor *table, const posenc_request *r, posenc_dtype dtype, const char *output,
                            posenc_arena *a, posenc_comparison *out, posenc_context *ctx, posenc_error *err)
{
    comparing c = { .r = r, .dtype = dtype, .plain = INFINITY };
    *out = (posenc_comparison){ .first = -1 };
    posenc_status st = pe_search_open(&c.s, table, 0, r->size + r->cost.scratch, ctx, err);
    const pe_view *v = &c.s.view[0];
    if (st) {
        pe_search_close(&c.s);
        return st;
    }
    c.output = choose(r, output, v, err);
    if (!c.output)
        st = err ? err->status : PE_INVALID;
    if (!st) {
        c.want = right_answer(&c, dtype);
        c.room = c.rows * c.cols > v->rows * v->cols ? c.rows * c.cols : v->rows * v->cols;
        c.made = pe_scratch(&c.s, c.room + 1, sizeof *c.made);
        st = c.s.status ? c.s.status : c.want ? PE_OK : PE_INTERNAL;
    }
    if (!st) {
        c.sides = c.rows == v->rows && c.cols == v->cols;
        c.rms = c.s.scale;
        out->output = c.output;
        out->rows = (int64_t)v->rows, out->columns = (int64_t)v->cols;
        out->answer_rows = (int64_t)c.rows, out->answer_columns = (int64_t)c.cols;
        out->same_sides = c.sides;
        if (c.sides && !differences(&c, out, a))
            st = PE_BUSY;
    }
    const bool differ = !st && (!c.sides || out->ndiffering);
    if (differ && (!c.sides || out->largest_ulp > 0)) {
        const double *attention = member(&c, "attention_factor", PE_T_REAL), *scale = member(&c, "scale_output", PE_T_REAL);
        padded(&c);
        done_to_request(&c);
        done_to_answer(&c);
        times_a_number(&c, attention && *attention > 0 ? *attention : 1, scale ? *scale : 1);
        short_angles(&c);
        for (int i = 0; i < r->shape.ntensors && !c.s.status; i++) {
            const char *name = r->shape.tensor[i].name;
            size_t rows = 0, cols = 0;
            if (!strcmp(name, c.output) || posenc_tensor_count(&r->shape.tensor[i]) != posenc_tensor_count(table))
                continue;
            const double *other = answer(&c, r, name, c.made, c.room, &rows, &cols);
            hold(&c, "other_output", posenc_text("the table is the output %.40s", name).s, other, rows, cols);
        }
        if (!c.nfound && !c.s.status)
            fitted_base(&c);
        st = c.s.status;
    }
    if (!st && c.nfound) {
        posenc_mistake *m = posenc_alloc(a, c.nfound * sizeof *m);
        if (m)
            memcpy(m, c.found, c.nfound * sizeof *m);
        out->mistake = m;
        out->nmistakes = m ? c.nfound : 0;
        st = m ? PE_OK : PE_BUSY;
    }
    if (!st)
        out->match = instead(&c, a);
    pe_search_close(&c.s);
    if (st == PE_BUSY)
        return pe_no_memory("memory", err);
    if (st && (!err || !err->n))
        return posenc_fail(err, st, posenc_status_name(st), "compare", "", "%s", posenc_status_meaning(st));
    return st;
}

/* ---- JSON ---- */

static void put_list(pe_builder *b, const char *name, const double *v, int64_t n)
{
    pe_print(b, "\"%s\":[", name);
    for (int64_t i = 0; i < n; i++)
        pe_print(b, "%s%.6g", i ? "," : "", v[i]);
    pe_put(b, "],", 2);
}

char *posenc_comparison_json(const posenc_comparison *r)
{
    pe_builder b = { 0 };
    pe_print(&b, "{\"output\":\"%s\",\"rows\":%lld,\"columns\":%lld,", r->output, (long long)r->rows, (long long)r->columns);
    pe_print(&b, "\"answer_rows\":%lld,\"answer_columns\":%lld,\"same_sides\":%s,", (long long)r->answer_rows,
             (long long)r->answer_columns, r->same_sides ? "true" : "false");
    if (r->same_sides) {
        pe_print(&b, "\"equal\":%s,\"differing\":%lld,", r->ndiffering ? "false" : "true", (long long)r->ndiffering);
        pe_print(&b, "\"largest_absolute\":%.6g,\"largest_relative\":%.6g,\"largest_ulp\":%.6g,\"rms\":%.6g,",
                 r->largest_absolute, r->largest_relative, r->largest_ulp, r->rms);
        if (r->ndiffering) {
            pe_print(&b, "\"first\":[%lld,%lld],", (long long)(r->first / r->columns), (long long)(r->first % r->columns));
            pe_print(&b, "\"worst\":[%lld,%lld],", (long long)(r->worst / r->columns), (long long)(r->worst % r->columns));
        } else {
            pe_print(&b, "\"first\":null,\"worst\":null,");
        }
        put_list(&b, "by_row", r->row, r->rows);
        put_list(&b, "by_column", r->column, r->columns);
    }
    pe_print(&b, "\"mistake\":");
    if (r->nmistakes)
        pe_put_string(&b, r->mistake[0].name);
    else
        pe_put(&b, "null", 4);
    pe_print(&b, ",\"mistakes\":[");
    for (size_t i = 0; i < r->nmistakes; i++) {
        pe_print(&b, "%s{\"mistake\":\"%s\",\"detail\":", i ? "," : "", r->mistake[i].name);
        pe_put_string(&b, r->mistake[i].detail);
        pe_print(&b, ",\"largest\":%.6g,\"rms\":%.6g}", r->mistake[i].largest, r->mistake[i].rms);
    }
    pe_print(&b, "],\"instead\":");
    if (r->match)
        pe_put_match(&b, r->match);
    else
        pe_put(&b, "null", 4);
    pe_put(&b, "}", 2); /* the NUL too */
    if (b.failed) {
        pe_builder_fini(&b);
        return NULL;
    }
    return b.s;
}
