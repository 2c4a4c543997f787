#include "ldl.h"
#include "core/memory.h"
#include "core/params.h"
#include "minimum_fill.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static posenc_status allocate(pe_ldl *f, posenc_error *err)
{
    size_t n = (size_t)f->n;
    f->order = pe_work_memory(n * sizeof(int32_t));
    f->place = pe_work_memory(n * sizeof(int32_t));
    return f->order && f->place ? PE_OK : pe_no_memory("memory", err);
}

posenc_status pe_ldl_order(pe_ldl *f, const pe_component *c, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    int64_t ground = -1;

    *f = (pe_ldl){ .n = c->n };
    f->rows = c->kernel ? c->n - 1 : c->n;
    if ((st = allocate(f, err)))
        return st;
    if (c->kernel) {
        ground = 0;
        for (int64_t i = 1; i < c->n; i++) {
            int64_t a = c->ptr[i + 1] - c->ptr[i], b = c->ptr[ground + 1] - c->ptr[ground];
            if (a > b || (a == b && c->degree[i] > c->degree[ground]))
                ground = i;
            if ((st = pe_pace_add(pace, 4)))
                return st;
        }
    }
    if ((st = pe_minimum_fill(c, ground, f->order, &f->entries, &f->products, pace, err)))
        return st;
    for (int64_t i = 0; i < c->n && !st; i++) {
        f->place[f->order[i]] = (int32_t)i;
        st = pe_pace_add(pace, 30);
    }
    return st;
}

posenc_status pe_ldl_settle(pe_ldl *f, int32_t **order, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    *order = f->order;
    f->settled = true;
    if (!(f->order = pe_work_memory((size_t)f->n * sizeof *f->order)))
        return pe_no_memory("memory", err);
    for (int64_t i = 0; i < f->n && !st; i++) {
        f->order[i] = f->place[i] = (int32_t)i;
        st = pe_pace_add(pace, 2);
    }
    return st;
}

/* Elimination tree and column counts by walking each row's subtree: time is that of writing the factor's pattern.
 * Source: Davis, "Direct Methods for Sparse Linear Systems", chapter 4. */
static posenc_status analyze(pe_ldl *f, pe_pace *pace, posenc_error *err)
{
    const pe_component *c = f->lap->c;
    posenc_status st = PE_OK;
    size_t n = (size_t)f->n;
    int32_t *mark = pe_work_memory(n * sizeof(int32_t));
    f->parent = pe_work_memory(n * sizeof(int32_t));
    f->ptr = calloc(n + 1, sizeof(int64_t));
    f->end = pe_work_memory(n * sizeof(int64_t));
    if (!mark || !f->parent || !f->ptr || !f->end) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t k = 0; k < f->n && !st; k++) {
        int64_t v = f->order[k];
        f->parent[k] = -1;
        mark[k] = (int32_t)k;
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1] && !st; r++) {
            int64_t steps = 1;
            for (int64_t i = f->place[c->col[r]]; i < k && mark[i] != k; i = f->parent[i], steps++) {
                if (f->parent[i] < 0)
                    f->parent[i] = (int32_t)k;
                f->ptr[i + 1]++;
                mark[i] = (int32_t)k;
            }
            st = pe_pace_add(pace, 8 * steps);
        }
    }
    for (int64_t k = 0; k < f->n && !st; k++) {
        f->ptr[k + 1] += f->ptr[k];
        st = pe_pace_add(pace, 2);
    }
done:
    free(mark);
    return st;
}

/* Up-looking: row k of L solves a triangular system with the rows before it, along the tree.
 *   entry, pivot   of the factor of the first `rows` rows of L - shift I; f->end is set
 *   least          pivots are raised to least times the diagonal entry where rounding took their sign; 0: left alone
 * Source: Davis 2005, "Algorithm 849: a concise sparse Cholesky factorization package". */
static posenc_status factor(pe_ldl *f, int64_t rows, double shift, double least, double *entry, double *pivot, pe_pace *pace,
                            posenc_error *err)
{
    const pe_component *c = f->lap->c;
    posenc_status st = PE_OK;
    size_t n = (size_t)f->n;
    double *y = calloc(n, sizeof(double));
    int32_t *mark = pe_work_memory(n * sizeof(int32_t)), *path = pe_work_memory(n * sizeof(int32_t));
    int32_t *pattern = pe_work_memory(n * sizeof(int32_t));
    if (!y || !mark || !path || !pattern) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = pe_pace_copy(pace, f->end, f->ptr, n * sizeof(int64_t))) ||
        (st = pe_pace_touch(pace, mark, n * sizeof *mark)) || (st = pe_pace_touch(pace, path, n * sizeof *path)) ||
        (st = pe_pace_touch(pace, pattern, n * sizeof *pattern)))
        goto done;
    for (int64_t k = 0; k < rows; k++) {
        int64_t v = f->order[k], top = rows;
        double d = f->lap->diagonal[v] - shift;
        mark[k] = (int32_t)k;
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++) {
            int64_t i = f->place[c->col[r]], length = 0;
            if ((st = pe_pace_add(pace, 8)))
                goto done;
            if (i >= k)
                continue;
            y[i] = f->lap->entry[r];
            for (; mark[i] != k; i = f->parent[i]) {
                path[length++] = (int32_t)i;
                mark[i] = (int32_t)k;
            }
            while (length > 0)
                pattern[--top] = path[--length];
        }
        for (; top < rows; top++) {
            int64_t i = pattern[top], end = f->end[i];
            double x = y[i];
            y[i] = 0;
            for (int64_t q = f->ptr[i]; q < end; q++)
                y[f->row[q]] -= entry[q] * x;
            double l = x / pivot[i];
            d -= l * x;
            f->row[end] = (int32_t)k;
            entry[end] = l;
            if ((st = pe_pace_add(pace, 2 * (end - f->ptr[i]) + 16)))
                goto done;
            f->end[i] = end + 1;
        }
        double floor = least * f->lap->diagonal[v];
        pivot[k] = least > 0 && !(d > floor) ? floor : d;
    }
done:
    free(y);
    free(mark);
    free(path);
    free(pattern);
    return st;
}

/* Dense blocks pay where columns are long: there are that many products for each entry. */
bool pe_ldl_fills_up(const pe_ldl *f) { return f->products > 24 * f->entries; }

posenc_status pe_ldl_factor(pe_ldl *f, const pe_laplacian *lap, pe_pace *pace, posenc_error *err)
{
    f->lap = lap;
    posenc_status st = analyze(f, pace, err);
    if (st)
        return st;
    size_t entries = (size_t)f->ptr[f->n] + 1;
    if (pe_ldl_fills_up(f)) {
        for (int64_t k = 0; k < f->n; k++)
            f->end[k] = f->ptr[k + 1] - f->ptr[k];
        if ((st = pe_supernodes_init(&f->blocks, f->lap->c, f->order, f->place, f->parent, f->end, pace, err)))
            return st;
        entries = (size_t)f->blocks.panel[f->blocks.count] + 16;
        free(f->ptr);
        free(f->end);
        f->ptr = f->end = NULL;
    } else {
        f->row = pe_work_memory(entries * sizeof(int32_t));
    }
    const uint64_t limit = pace->ctx ? pace->ctx->memory_limit : 0, need = 8 * (uint64_t)entries;
    if (limit && need > limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph",
                           posenc_text("%llu bytes of factor", (unsigned long long)need).s,
                           "at most %llu bytes (setting memory), or solver=chebyshev", (unsigned long long)limit);
    const size_t scratch = (size_t)(f->n + f->blocks.tallest + PE_WIDTH);
    f->held = entries;
    f->entry = pe_result_memory(entries * sizeof(double));
    f->pivot = pe_work_memory((size_t)f->n * sizeof(double));
    f->scratch = pe_panel_new((int64_t)scratch);
    if ((!f->row && !f->blocks.count) || !f->entry || !f->pivot || !f->scratch)
        return pe_no_memory("memory", err);
    if (f->blocks.count)
        return pe_supernodes_factor(&f->blocks, f->lap, f->order, f->place, 0, DBL_EPSILON, f->entry, f->pivot, pace, err);
    return factor(f, f->rows, 0, DBL_EPSILON, f->entry, f->pivot, pace, err);
}

/* Substitution with `width` right sides, rows of scratch. The bodies are the same but for what a row is. */
#define SUBSTITUTE(name, row_type)                                                                   \
    PE_CLONES static void forward_##name(const pe_ldl *f, double *rows, int64_t begin, int64_t end)  \
    {                                                                                                \
        row_type *s = (row_type *)rows;                                                              \
        for (int64_t k = begin; k < end; k++) {                                                      \
            row_type x = s[k];                                                                       \
            for (int64_t q = f->ptr[k]; q < f->end[k]; q++)                                          \
                s[f->row[q]] -= f->entry[q] * x;                                                     \
        }                                                                                            \
    }                                                                                                \
    PE_CLONES static void backward_##name(const pe_ldl *f, double *rows, int64_t begin, int64_t end) \
    {                                                                                                \
        row_type *s = (row_type *)rows;                                                              \
        for (int64_t k = end - 1; k >= begin; k--) {                                                 \
            row_type x = s[k] / f->pivot[k], y = ZERO_##name;                                        \
            int64_t q = f->ptr[k], last = f->end[k];                                                 \
            for (; q + 2 <= last; q += 2) {                                                          \
                x -= f->entry[q] * s[f->row[q]];                                                     \
                y += f->entry[q + 1] * s[f->row[q + 1]];                                             \
            }                                                                                        \
            if (q < last)                                                                            \
                x -= f->entry[q] * s[f->row[q]];                                                     \
            s[k] = x - y;                                                                            \
        }                                                                                            \
    }

typedef double pair __attribute__((vector_size(16), may_alias));
typedef double four __attribute__((vector_size(32), may_alias));
#define ZERO_1 0
#define ZERO_2 \
    {          \
        0      \
    }
#define ZERO_4 ZERO_2
#define ZERO_8 ZERO_2
SUBSTITUTE(1, double)
SUBSTITUTE(2, pair)
SUBSTITUTE(4, four)
SUBSTITUTE(8, pe_lanes)

/* x (rows, width), width 1, 2, 4 or 8 */
static posenc_status substitute(pe_ldl *f, int64_t width, double *x, pe_pace *pace)
{
    static const struct {
        void (*forward)(const pe_ldl *f, double *x, int64_t begin, int64_t end),
            (*backward)(const pe_ldl *f, double *x, int64_t begin, int64_t end);
    } by[] = { { forward_1, backward_1 }, { forward_2, backward_2 }, { forward_4, backward_4 }, { forward_8, backward_8 } };
    enum { STEP = 1 << 15 }; /* entries and rows between two looks at the pace */
    const int which = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
    posenc_status st = PE_OK;
    if (f->blocks.count)
        return pe_supernodes_solve(&f->blocks, f->entry, f->pivot, f->rows, width, x, f->scratch + f->n * PE_WIDTH, pace);
    for (int64_t k = 0, end = 0; k < f->rows && !st; k = end) {
        while (end < f->rows && f->ptr[end] - f->ptr[k] + end - k < STEP)
            end++;
        by[which].forward(f, x, k, end);
        st = pe_pace_add(pace, 5 * (f->ptr[end] - f->ptr[k] + end - k));
    }
    for (int64_t k = f->rows, end = k; end > 0 && !st; end = k) {
        while (k > 0 && f->ptr[end] - f->ptr[k] + end - k < STEP)
            k--;
        by[which].backward(f, x, k, end);
        st = pe_pace_add(pace, 5 * (f->ptr[end] - f->ptr[k] + end - k));
    }
    return st;
}

posenc_status pe_ldl_solve(pe_ldl *f, const double *x, double *y, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < f->rows && !st; k++) {
        memcpy(f->scratch + k * PE_WIDTH, x + (int64_t)f->order[k] * PE_WIDTH, PE_WIDTH * sizeof(double));
        st = pe_pace_add(pace, 16);
    }
    if (!st)
        st = substitute(f, PE_WIDTH, f->scratch, pace);
    for (int64_t k = 0; k < f->rows && !st; k++) {
        memcpy(y + (int64_t)f->order[k] * PE_WIDTH, f->scratch + k * PE_WIDTH, PE_WIDTH * sizeof(double));
        st = pe_pace_add(pace, 16);
    }
    if (f->rows < f->n)
        memset(y + (int64_t)f->order[f->rows] * PE_WIDTH, 0, PE_WIDTH * sizeof(double));
    return st;
}

posenc_status pe_ldl_solve_columns(pe_ldl *f, int64_t width, double *const *x, double *const *y, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t at = 0, many; at < width && !st; at += many) {
        const int64_t left = width - at;
        many = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (many == 1 && f->settled) {
            if ((st = pe_pace_copy(pace, y[at], x[at], (size_t)f->rows * sizeof **y)))
                return st;
            if (f->rows < f->n)
                y[at][f->rows] = 0;
            st = substitute(f, 1, y[at], pace);
            continue;
        }
        for (int64_t k = 0; k < f->rows && !st; k++) {
            for (int64_t c = 0; c < many; c++)
                f->scratch[k * many + c] = x[at + c][f->order[k]];
            st = pe_pace_add(pace, 4 + 2 * many);
        }
        if (!st)
            st = substitute(f, many, f->scratch, pace);
        for (int64_t k = 0; k < f->rows && !st; k++) {
            for (int64_t c = 0; c < many; c++)
                y[at + c][f->order[k]] = f->scratch[k * many + c];
            st = pe_pace_add(pace, 4 + 2 * many);
        }
        for (int64_t c = 0; c < many && f->rows < f->n; c++)
            y[at + c][f->order[f->rows]] = 0;
    }
    return st;
}

posenc_status pe_ldl_count_below(pe_ldl *f, double sigma, int64_t *count, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    double *entry = pe_result_memory(f->held * sizeof(double)), *pivot = pe_work_memory((size_t)f->n * sizeof(double));
    int64_t *end = f->blocks.count ? NULL : pe_work_memory((size_t)f->n * sizeof(int64_t)), *held = f->end;
    if (!entry || !pivot || (!end && !f->blocks.count)) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if (f->blocks.count) {
        st = pe_supernodes_factor(&f->blocks, f->lap, f->order, f->place, sigma, 0, entry, pivot, pace, err);
    } else {
        /* the pattern is shared: the full factor writes the same rows, and those of the ground behind them */
        f->end = end;
        st = factor(f, f->n, sigma, 0, entry, pivot, pace, err);
        f->end = held;
    }
    if (st)
        goto done;
    *count = 0;
    for (int64_t k = 0; k < f->n && !st; k++) {
        st = pe_pace_add(pace, 8);
        if (!(fabs(pivot[k]) > 0x1p-36 * f->lap->diagonal[f->order[k]])) {
            *count = -1;
            break;
        }
        *count += pivot[k] < 0;
    }
done:
    free(entry);
    free(pivot);
    free(end);
    return st;
}

void pe_ldl_fini(pe_ldl *f)
{
    free(f->order);
    free(f->place);
    free(f->parent);
    free(f->ptr);
    free(f->end);
    free(f->row);
    free(f->entry);
    free(f->pivot);
    free(f->scratch);
    pe_supernodes_fini(&f->blocks);
    *f = (pe_ldl){ 0 };
}

uint64_t pe_ldl_bytes(int64_t n, int64_t arcs, double entries)
{
    double ordering = 8 * (1.7 * (double)arcs + 12 * (double)n);
    double held = 20 * entries + 140 * (double)n;
    return (uint64_t)((ordering > held ? ordering : held) + 8 * (double)n);
}
