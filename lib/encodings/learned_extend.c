/* learned_extend.c - a learned table of positions made longer (or, by interpolation, shorter).
 *
 * L rows p[0 .. L-1] behind the reserved ones, L' = new_length - reserved_rows rows wanted; x is the place of new row j
 * among the old ones: (j + 1/2) L / L' - 1/2, or j (L - 1) / (L' - 1) with align_corners. linear nearest nearest-exact cubic
 * torch.nn.functional.interpolate; cubic as bicubic on a grid of one column cubic_spline   the cubic spline through all
 * rows, not-a-knot at the ends: scipy.interpolate.CubicSpline; places as with align_corners tile           row j is p[j mod
 * L]                          (Longformer's scripts, which leave reserved rows unset) repeat_last    row j is p[L-1] from L
 * on                    (PreSumm) random         normal numbers from L on, times initializer_range sinusoidal     from L on
 * the sine and cosine of position j hierarchical   u = (p - alpha p[0]) / (1 - alpha), row j is alpha u[j div L] + (1 -
 * alpha) u[j mod L]  (bert4keras) The last five keep all old rows. Reserved rows are copied by every method.
 *
 * Defined here: cubic_spline through 1, 2 or 3 rows is the constant, line or parabola (SciPy: the same from 2 on);
 * hierarchical rows below L are copies, as the formula has it without rounding. Interpolation to the same length copies. */
#include "core/random.h"
#include "sequence/convention.h"
#include "sequence/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_learned_extend;

/* ---- rows ---- */

enum { LINEAR, NEAREST, NEAREST_EXACT, CUBIC, CUBIC_SPLINE, TILE, REPEAT_LAST, RANDOM, SINUSOIDAL, HIERARCHICAL };
static const char *const methods[] = { "linear", "nearest",     "nearest-exact", "cubic",      "cubic_spline",
                                       "tile",   "repeat_last", "random",        "sinusoidal", "hierarchical",
                                       NULL };

typedef struct learned_extend {
    posenc_given given;
    posenc_tensor table; /* (rows, width) */
    int64_t new_length;
    int method;
    int64_t reserved_rows;
    bool align_corners;
    int compute_dtype;
    double cubic_a, alpha;
    int64_t seed;
    double initializer_range, max_period, downscale_freq_shift;
    int layout;
    bool flip_sin_to_cos;
    int odd_dim;
    double scale_output;
    bool truncate;
} learned_extend;

static const posenc_param rows[] = {
    { PE_TENSOR(learned_extend, table), .flags = PE_REQUIRED, .doc = "the old table, [L, D]" },
    { PE_INT(learned_extend, new_length), .flags = PE_REQUIRED, .min = 1, .max = PE_RESAMPLE_MAX,
      .doc = "rows of the new table, reserved ones included" },
    { PE_ENUM(learned_extend, method), .flags = PE_SELECTOR, .names = methods, .def = LINEAR,
      .doc = "interpolation (linear to cubic_spline), or how rows are made beyond the old ones" },
    { PE_INT(learned_extend, reserved_rows), .max = PE_RESAMPLE_MAX,
      .doc = "first rows that belong to no position, copied as they are (RoBERTa, BART, OPT: 2)" },
    { PE_BOOL(learned_extend, align_corners), .flags = PE_DERIVED,
      .doc =
          "the end rows stay the ends (linear, cubic); otherwise rows are middles of cells, and new rows before the first "
          "middle equal row 0. When absent: true with cubic_spline, which has no other, else false" },
    { PE_ENUM(learned_extend, compute_dtype), .when = PE_ON(NEAREST) | PE_ON(NEAREST_EXACT), .names = pe_compute_dtypes,
      .def = PE_COMPUTE_FLOAT64,
      .doc = "float64: the exact row; float32: step and place are rounded as torch has them, which is now and then the row "
             "beside" },
    { PE_REAL(learned_extend, cubic_a), .when = PE_ON(CUBIC), .def = -0.75, .min = -2, .max = 0,
      .doc = "coefficient of the cubic kernel: -0.75 as PyTorch and OpenCV, -0.5 as Keys and Pillow" },
    { PE_REAL(learned_extend, alpha), .when = PE_ON(HIERARCHICAL), .def = 0.4, .min = 0, .max = 1,
      .doc = "share of the row of j div L; between 0 and 1, not 0.5, where rows would repeat" },
    { PE_INT(learned_extend, seed), .when = PE_ON(RANDOM), .flags = PE_REQUIRED, .max = 0x1p53 - 1,
      .doc = "of the random numbers, which depend on seed, row, column and width alone" },
    { PE_REAL(learned_extend, initializer_range), .when = PE_ON(RANDOM), .def = 0.02, .max = 1000,
      .doc = "standard deviation of random rows" },
    { PE_REAL(learned_extend, max_period), .when = PE_ON(SINUSOIDAL), .def = 10000, .min = 1e-100, .max = 1e100,
      .doc = "base of the ladder of frequencies, as in sinusoidal" },
    { PE_REAL(learned_extend, downscale_freq_shift), .when = PE_ON(SINUSOIDAL), .min = -1e100, .max = 1e100,
      .doc = "exponents are -i / (D/2 - shift)" },
    { PE_ENUM(learned_extend, layout), .when = PE_ON(SINUSOIDAL), .names = pe_sines_layouts, .def = PE_INTERLEAVED,
      .doc = "sin cos sin cos ..., or all sines then all cosines" },
    { PE_BOOL(learned_extend, flip_sin_to_cos), .when = PE_ON(SINUSOIDAL), .doc = "cosines first" },
    { PE_ENUM(learned_extend, odd_dim), .when = PE_ON(SINUSOIDAL), .names = pe_odd_words, .def = PE_ODD_ERROR,
      .doc = "an odd width: refused, or as in sinusoidal" },
    { PE_REAL(learned_extend, scale_output), .when = PE_ON(SINUSOIDAL), .def = 1, .min = -65504, .max = 65504,
      .doc = "multiplies sinusoidal rows (learned tables are often far smaller than sines)" },
    { PE_BOOL(learned_extend, truncate),
      .doc = "methods that only add rows: a new_length below the old one cuts the table" },
};

static const posenc_output outputs[] = {
    { "table", "[new_length, D]", "the new table", NULL },
    { "trainable", "[new_length]", "1: a new row; 0: the old row of this index, unchanged", "uint8" },
};

/* ---- what the parameters mean ---- */

static bool interpolates(const learned_extend *p) { return p->method <= CUBIC_SPLINE; }
static int64_t old_rows(const learned_extend *p) { return p->table.shape[0]; }
static int64_t width(const learned_extend *p) { return p->table.shape[1]; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The axis behind the reserved rows. */
static pe_resample axis(const learned_extend *p)
{
    static const pe_kernel kernels[] = { PE_KERNEL_LINEAR, PE_KERNEL_NEAREST, PE_KERNEL_NEAREST_EXACT, PE_KERNEL_CUBIC,
                                         PE_KERNEL_CUBIC };
    return (pe_resample){ .from = old_rows(p) - p->reserved_rows,
                          .to = p->new_length - p->reserved_rows,
                          .kernel = interpolates(p) ? kernels[p->method] : PE_KERNEL_NEAREST,
                          .align_corners = p->align_corners,
                          .single = p->compute_dtype == PE_COMPUTE_FLOAT32,
                          .a = p->cubic_a };
}

/* Rows from 0 on that are those of the old table. */
static int64_t kept(const learned_extend *p)
{
    return interpolates(p) && p->new_length != old_rows(p) ? p->reserved_rows : smaller(p->new_length, old_rows(p));
}

static pe_sines sines(const learned_extend *p)
{
    return (pe_sines){ .width = width(p),
                       .split = p->layout == PE_SPLIT,
                       .flip = p->flip_sin_to_cos,
                       .odd = (pe_odd)p->odd_dim,
                       .shift = p->downscale_freq_shift,
                       .top = p->max_period,
                       .bottom = 1,
                       .shortest = 1,
                       .scale = 1 };
}

/* ---- check ---- */

/* |new element| <= gain * largest |old element|. A not-a-knot spline on equal steps stays below 1.98, measured. */
static double gain(const learned_extend *p)
{
    const pe_resample r = axis(p);
    return p->method == CUBIC_SPLINE   ? 2
           : p->method == CUBIC        ? pe_resample_gain(&r)
           : p->method == HIERARCHICAL ? (1 + p->alpha) / (1 - p->alpha)
                                       : 1;
}

static void check_sines(const learned_extend *p, posenc_error *err)
{
    const pe_sines s = sines(p);
    if (width(p) % 2 && p->odd_dim == PE_ODD_ERROR)
        pe_invalid(err, "odd_dim", posenc_text("error, with an odd width of %lld", (long long)width(p)),
                   "zero_pad, sin_extra or round_up_truncate, or a table of even width");
    if (pe_sines_check_steps(&s, "", err))
        pe_sines_check_range(&s, "max_period", p->max_period, 31, err);
}

static void check_lengths(const learned_extend *p, posenc_error *err)
{
    const int64_t old = old_rows(p), reserved = p->reserved_rows;
    if (reserved >= old || reserved >= p->new_length)
        pe_invalid(err, "reserved_rows", posenc_text("%lld", (long long)reserved),
                   "less than the %lld rows of the table and than new_length=%lld", (long long)old,
                   (long long)p->new_length);
    if (!interpolates(p) && p->new_length < old && !p->truncate)
        pe_invalid(err, "new_length", posenc_text("%lld", (long long)p->new_length),
                   "at least the %lld rows of the table, or truncate=true, or a method that interpolates", (long long)old);
    if (p->method == HIERARCHICAL && reserved < old) {
        const int64_t n = old - reserved, most = n > 1 << 15 ? PE_RESAMPLE_MAX : n * n + reserved;
        if (p->new_length > most)
            pe_invalid(err, "new_length", posenc_text("%lld", (long long)p->new_length),
                       "at most %lld: the square of %lld rows, and those reserved", (long long)most, (long long)n);
    }
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    learned_extend *p = r->params;
    const posenc_dtype dtype = (posenc_dtype)r->common.dtype;
    if (!pe_given(r, "align_corners"))
        p->align_corners = p->method == CUBIC_SPLINE;
    if (p->align_corners && p->method != LINEAR && p->method != CUBIC && p->method != CUBIC_SPLINE)
        pe_not_applicable(err, "align_corners", "true", "false: method=%s has no corners", methods[p->method]);
    if (!p->align_corners && p->method == CUBIC_SPLINE)
        pe_not_applicable(err, "align_corners", "false", "true: cubic_spline has no other places");
    if (p->truncate && interpolates(p))
        pe_not_applicable(err, "truncate", "true", "false: method=%s makes shorter tables by itself", methods[p->method]);
    if (p->method == HIERARCHICAL && !(p->alpha > 0 && p->alpha < 1 && p->alpha != 0.5))
        pe_invalid(err, "alpha", posenc_text("%.17g", p->alpha), "between 0 and 1, without 0, 0.5 and 1");

    const posenc_tensor *t = &p->table;
    if (!pe_tensor_shaped(t, 2, (int64_t[]){ -1, -1 }, "[L, D]", err))
        return err->status;
    if (t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > PE_RESAMPLE_MAX)
        pe_invalid(err, "table", posenc_text("[%lld, %lld]", (long long)t->shape[0], (long long)t->shape[1]),
                   "1 to 2^30 rows, at least one column");
    else {
        check_lengths(p, err);
        if (p->method == SINUSOIDAL)
            check_sines(p, err);
    }
    if (!err->n)
        pe_table_fits(t, gain(p), dtype, err);
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const learned_extend *p = r->params;
    posenc_status st = pe_output(out, "table", (posenc_dtype)r->common.dtype, 2, (int64_t[]){ p->new_length, width(p) },
                                 err);
    return st ? st : pe_output(out, "trainable", PE_uint8, 1, &p->new_length, err);
}

enum { COLUMNS = 8 }; /* that a spline takes at a time */
enum { RANDOM_BLOCK = 512 };

static void cost(const posenc_request *r, posenc_cost *out)
{
    const learned_extend *p = r->params;
    const pe_resample rows_axis = axis(p);
    const pe_grid g = { .axis = { &rows_axis, &pe_one_column }, .inner = width(p) };
    const pe_sines s = sines(p);
    const pe_columns c = pe_sines_columns(&s);
    const double n = (double)width(p), made = (double)(p->new_length - kept(p)), old = (double)rows_axis.from;
    *out = (posenc_cost){ .ns = 1e3 + 2 * (double)kept(p) * n };
    if (p->method == CUBIC_SPLINE) {
        out->ns += n * (15 * old + 4 * made) + 40 * old;
        out->scratch = (uint64_t)rows_axis.from * (2 * (uint64_t)smaller(COLUMNS, width(p)) + 1) * sizeof(double);
    } else if (interpolates(p)) {
        out->ns += pe_resample_ns(&g);
        out->scratch = pe_resample_scratch(&g);
    } else if (p->method == SINUSOIDAL) {
        out->ns += 20e3 + (double)c.pairs * (300 + 25 * made);
        out->scratch = c.pairs * sizeof(pe_dd) + c.width * sizeof(double);
    } else {
        out->ns += made * (20 + n * (p->method == RANDOM ? 450 : 5));
    }
}

/* ---- compute ---- */

typedef struct target {
    const learned_extend *p;
    posenc_tensor *table;
    pe_pace pace;
    const posenc_context *ctx;
    posenc_error *err;
} target;

/* `n` elements of the new table, from row `row` and column `column` on. */
static void store(const target *t, int64_t row, int64_t column, const double *v, int64_t n)
{
    const int64_t size = (int64_t)posenc_dtype_size(t->table->dtype);
    posenc_convert(t->table->dtype, (char *)t->table->data + (row * width(t->p) + column) * size, v, (size_t)n);
}

static posenc_status copy_row(target *t, int64_t to, int64_t from)
{
    const int64_t n = width(t->p);
    return pe_copy_elements(&t->p->table, from * n, t->table, to * n, n, &t->pace);
}

static posenc_status interpolate(target *t)
{
    const learned_extend *p = t->p;
    const pe_resample r = axis(p);
    const int64_t start = p->reserved_rows * width(p);
    const pe_grid g = { .axis = { &r, &pe_one_column },
                        .inner = width(p),
                        .src = &p->table,
                        .src_start = start,
                        .dst = t->table,
                        .dst_start = start };
    return pe_resample_grid(&g, &t->pace, t->err);
}

/* The slopes s of the spline through n rows in steps of 1 solve s[i-1] + 4 s[i] + s[i+1] = 3 (y[i+1] - y[i-1]); a first row
 * s[0] + q s[1] = first, and its mirror image, say what happens at the ends. Not-a-knot: the third derivative does not jump
 * at the last row but one. Elimination without pivoting is stable, as all pivots are 0.46 or more. */
typedef struct spline {
    int64_t n, lanes; /* rows; columns at a time */
    double q;         /* 2; 1 for the parabola through three rows; 0 for the line through two */
    double *ratio;    /* (n) upper coefficient by pivot */
    double *y, *s;    /* (n, lanes) */
} spline;

static double end_slope(int64_t n, double inside, double next) /* differences of the outermost rows */
{
    return n > 3 ? (5 * inside + next) / 2 : n == 3 ? 2 * inside : inside;
}

/* The pivot of row i, whose lower neighbour's ratio is known. */
static double pivot(const spline *f, int64_t i)
{
    return i == 0 ? 1 : i < f->n - 1 ? 4 - f->ratio[i - 1] : 1 - f->q * f->ratio[i - 1];
}

static posenc_status solve(const spline *f, pe_pace *pace)
{
    const int64_t n = f->n, m = f->lanes;
    const double *y = f->y;
    double *s = f->s;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        const double d = pivot(f, i), lower = i == 0 ? 0 : i < n - 1 ? 1 : f->q;
        for (int64_t k = i * m; k < (i + 1) * m; k++) {
            double b = 0;
            if (i == 0)
                b = end_slope(n, y[k + m] - y[k], n > 2 ? y[k + 2 * m] - y[k + m] : 0);
            else if (i < n - 1)
                b = 3 * (y[k + m] - y[k - m]);
            else
                b = end_slope(n, y[k] - y[k - m], n > 2 ? y[k - m] - y[k - 2 * m] : 0);
            s[k] = (b - (i ? lower * s[k - m] : 0)) / d;
        }
        st = pe_pace_add(pace, 10 * m + 40);
    }
    for (int64_t i = n - 2; i >= 0 && !st; i--) {
        for (int64_t k = i * m; k < (i + 1) * m; k++)
            s[k] -= f->ratio[i] * s[k + m];
        st = pe_pace_add(pace, 4 * m + 60);
    }
    return st;
}

/* The spline's value at fraction t of the way from element k to the next row. */
static double between(const spline *f, int64_t k, double t)
{
    const double y = f->y[k], s = f->s[k], d = f->y[k + f->lanes] - y, next = f->s[k + f->lanes];
    return y + t * (s + t * ((3 * d - 2 * s - next) + t * (s + next - 2 * d)));
}

static posenc_status spline_columns(target *t, const spline *f, const pe_resample *r, int64_t first, int64_t count)
{
    const learned_extend *p = t->p;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < f->n && !st; i++) {
        pe_tensor_read(&p->table, (p->reserved_rows + i) * width(p) + first, (size_t)count, f->y + i * f->lanes);
        for (int64_t k = count; k < f->lanes; k++)
            f->y[i * f->lanes + k] = 0;
        st = pe_pace_add(&t->pace, 4 * f->lanes + 40);
    }
    if (!st && f->n > 1)
        st = solve(f, &t->pace);
    for (int64_t j = 0; j < r->to && !st; j++) {
        double value[COLUMNS], way;
        const int64_t i = pe_resample_place(r, j, &way);
        for (int64_t k = 0; k < count; k++)
            value[k] = way > 0 ? between(f, i * f->lanes + k, way) : f->y[i * f->lanes + k];
        store(t, p->reserved_rows + j, first, value, count);
        st = pe_pace_add(&t->pace, 10 * count + 600); /* rows lie pages apart */
    }
    return st;
}

static posenc_status splines(target *t)
{
    const learned_extend *p = t->p;
    const pe_resample r = axis(p);
    const size_t n = (size_t)r.from, lanes = (size_t)smaller(COLUMNS, width(p));
    double *all = malloc(n * (2 * lanes + 1) * sizeof *all);
    if (!all)
        return pe_no_memory("memory", t->err);
    const spline f = { .n = r.from,
                       .lanes = (int64_t)lanes,
                       .q = n > 3    ? 2
                            : n == 3 ? 1
                                     : 0,
                       .ratio = all,
                       .y = all + n,
                       .s = all + n * (1 + lanes) };
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < f.n && !st; i++) {
        f.ratio[i] = (i ? 1 : f.q) / pivot(&f, i);
        st = pe_pace_add(&t->pace, 30);
    }
    for (int64_t first = 0; first < width(p) && !st; first += COLUMNS)
        st = spline_columns(t, &f, &r, first, smaller(COLUMNS, width(p) - first));
    free(all);
    return st;
}

static posenc_status random_rows(target *t)
{
    const learned_extend *p = t->p;
    double z[RANDOM_BLOCK];
    posenc_status st = PE_OK;
    for (int64_t i = kept(p) * width(p), end = p->new_length * width(p); i < end && !st; i += RANDOM_BLOCK) {
        const int64_t n = smaller(RANDOM_BLOCK, end - i);
        pe_random_normal((uint64_t)p->seed, 0, (uint64_t)i, (size_t)n, z);
        for (int64_t k = 0; k < n; k++)
            z[k] *= p->initializer_range;
        store(t, 0, i, z, n);
        st = pe_pace_add(&t->pace, 700 * n);
    }
    return st;
}

static posenc_status sine_rows(target *t)
{
    const learned_extend *p = t->p;
    const pe_sines s = sines(p);
    const pe_columns c = pe_sines_columns(&s);
    pe_dd *w = malloc(c.pairs * sizeof *w + c.width * sizeof(double));
    if (!w)
        return pe_no_memory("memory", t->err);
    double *row = (double *)(w + c.pairs);
    posenc_status st = pe_sines_frequencies(&s, w, t->ctx);
    for (int64_t j = kept(p); j < p->new_length && !st; j++) {
        if ((st = pe_sines_row(&s, &c, w, (pe_dd){ (double)(j - p->reserved_rows), 0 }, row, &t->pace)))
            break;
        for (int64_t k = 0; k < width(p); k++)
            row[k] *= p->scale_output;
        store(t, j, 0, row, width(p));
    }
    free(w);
    return st;
}

/* alpha u[i] + (1 - alpha) u[m] = p[m] + (p[i] - p[0]) alpha / (1 - alpha) */
static posenc_status hierarchical_row(target *t, int64_t row)
{
    enum { BLOCK = 256 };
    const learned_extend *p = t->p;
    const posenc_tensor *old = &p->table;
    const int64_t n = width(p), r = p->reserved_rows, l = old_rows(p) - r;
    const int64_t zero = r * n, upper = (r + (row - r) / l) * n, lower = (r + (row - r) % l) * n;
    const double share = p->alpha / (1 - p->alpha);
    double some[BLOCK], up[BLOCK], base[BLOCK];
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i += BLOCK) {
        const int64_t count = smaller(BLOCK, n - i);
        pe_tensor_read(old, lower + i, (size_t)count, some);
        pe_tensor_read(old, upper + i, (size_t)count, up);
        pe_tensor_read(old, zero + i, (size_t)count, base);
        for (int64_t k = 0; k < count; k++)
            some[k] += share * (up[k] - base[k]);
        store(t, row, i, some, count);
        st = pe_pace_add(&t->pace, 10 * count + 20);
    }
    return st;
}

static posenc_status later_rows(target *t)
{
    const learned_extend *p = t->p;
    const int64_t r = p->reserved_rows, l = old_rows(p) - r;
    posenc_status st = PE_OK;
    for (int64_t j = kept(p); j < p->new_length && !st; j++)
        st = p->method == TILE          ? copy_row(t, j, r + (j - r) % l)
             : p->method == REPEAT_LAST ? copy_row(t, j, old_rows(p) - 1)
                                        : hierarchical_row(t, j);
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const learned_extend *p = r->params;
    target t = { .p = p, .table = pe_tensor(out, "table"), .pace = { .ctx = ctx }, .ctx = ctx, .err = err };
    posenc_status st = pe_copy_elements(&p->table, 0, t.table, 0, kept(p) * width(p), &t.pace);
    if (!st && kept(p) < p->new_length)
        st = p->method == CUBIC_SPLINE ? splines(&t)
             : interpolates(p)         ? interpolate(&t)
             : p->method == RANDOM     ? random_rows(&t)
             : p->method == SINUSOIDAL ? sine_rows(&t)
                                       : later_rows(&t);
    if (st)
        return st;
    uint8_t *trainable = pe_tensor(out, "trainable")->data;
    memset(trainable, 0, (size_t)kept(p));
    memset(trainable + kept(p), 1, (size_t)(p->new_length - kept(p)));
    return PE_OK;
}

/* ---- descriptor ---- */

const posenc_encoding pe_learned_extend = {
    .name = "learned_extend",
    .family = "absolute",
    .title = "a learned table of positions for another length",
    .source = "torch.nn.functional.interpolate; scipy.interpolate.CubicSpline; allenai/longformer scripts/convert_*; "
              "bert4keras PositionEmbedding",
    .formula = "old rows p[0 .. L-1] and L' new rows behind reserved_rows copies; x = (j + 1/2) L/L' - 1/2, or\n"
               "j (L-1)/(L'-1) with align_corners. linear: between p[floor x] and the next; nearest: p[floor(j L/L')];\n"
               "nearest-exact: p[floor((j + 1/2) L/L')]; cubic: Keys' kernel on 4 rows; cubic_spline: not-a-knot;\n"
               "tile: p[j mod L]; repeat_last: p[L-1]; random: initializer_range times normal element row*D + column\n"
               "(philox4x32-10, Box and Muller); sinusoidal: sines of j;\n"
               "hierarchical: p[j mod L] + (p[j div L] - p[0]) alpha / (1 - alpha)",
    .example = "table=[[0,1],[1,0],[0,-1],[-1,0]]&new_length=8&method=linear",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(learned_extend, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
