#include "ldl.h"
#include "core/memory.h"
#include "core/parallel.h"
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

/* The elimination tree: parent of each row, -1 at roots. `up` (n): scratch.
 * Source: Liu 1990, "The role of elimination trees in sparse factorization". */
static posenc_status plant(pe_ldl *f, int32_t *up, pe_pace *pace)
{
    const pe_component *c = f->lap->c;
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < f->n && !st; k++) {
        const int64_t v = f->order[k];
        int64_t steps = 4;
        f->parent[k] = up[k] = -1;
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++, steps++)
            for (int64_t i = f->place[c->col[r]], next; i >= 0 && i < k; i = next, steps++) {
                next = up[i];
                up[i] = (int32_t)k;
                if (next < 0)
                    f->parent[i] = (int32_t)k;
            }
        st = pe_pace_add(pace, 6 * steps);
    }
    return st;
}

/* post (n): the rows, kids before parents and the rows of each subtree together. head, next (n): scratch. */
static posenc_status walk(const pe_ldl *f, int32_t *post, int32_t *head, int32_t *next, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < f->n && !st; k++) {
        head[k] = -1;
        st = pe_pace_add(pace, 2);
    }
    for (int64_t k = f->n - 1; k >= 0 && !st; k--) {
        if (f->parent[k] >= 0) {
            next[k] = head[f->parent[k]];
            head[f->parent[k]] = (int32_t)k;
        }
        st = pe_pace_add(pace, 12);
    }
    int64_t made = 0;
    for (int64_t root = 0; root < f->n && !st; root++) {
        if (f->parent[root] >= 0)
            continue;
        for (int32_t k = (int32_t)root; k >= 0 && !st;) {
            const int32_t kid = head[k];
            if (kid >= 0) { /* down */
                head[k] = next[kid];
                k = kid;
                continue;
            }
            post[made++] = k;
            k = f->parent[k];
            st = pe_pace_add(pace, 24);
        }
    }
    return st;
}

/* ptr[k + 1] = entries below the diagonal in column k. A row's subtree is counted by its leaves and the places where the
 * paths from two of them meet; so time is that of reading the matrix.
 * Source: Gilbert, Ng, Peyton 1994, "An efficient algorithm to compute row and column counts for sparse Cholesky". */
static posenc_status count_columns(pe_ldl *f, const int32_t *post, int32_t *up, int32_t *first, int32_t *most, int32_t *leaf,
                                   pe_pace *pace)
{
    const pe_component *c = f->lap->c;
    int64_t *count = f->ptr + 1;
    posenc_status st = PE_OK;
    for (int64_t k = 0; k < f->n && !st; k++) {
        first[k] = most[k] = leaf[k] = -1;
        up[k] = (int32_t)k;
        st = pe_pace_add(pace, 8);
    }
    for (int64_t q = 0; q < f->n && !st; q++) {
        count[post[q]] = first[post[q]] < 0; /* of the diagonal too */
        for (int32_t k = post[q]; k >= 0 && first[k] < 0; k = f->parent[k])
            first[k] = (int32_t)q;
        st = pe_pace_add(pace, 8);
    }
    for (int64_t q = 0; q < f->n && !st; q++) {
        const int32_t k = post[q], v = f->order[k];
        int64_t steps = 8;
        if (f->parent[k] >= 0)
            count[f->parent[k]]--;
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++, steps += 2) {
            const int32_t i = f->place[c->col[r]], before = leaf[i];
            if (i <= k || first[k] <= most[i])
                continue;
            most[i] = first[k];
            leaf[i] = k;
            count[k]++;
            if (before < 0)
                continue;
            int32_t meet = before;
            while (up[meet] != meet)
                meet = up[meet];
            for (int32_t j = before, next; j != meet; j = next, steps += 2) {
                next = up[j];
                up[j] = meet;
            }
            count[meet]--;
        }
        if (f->parent[k] >= 0)
            up[k] = f->parent[k];
        st = pe_pace_add(pace, 3 * steps);
    }
    for (int64_t k = 0; k < f->n && !st; k++) {
        if (f->parent[k] >= 0)
            count[f->parent[k]] += count[k];
        count[k]--;
        st = pe_pace_add(pace, 4);
    }
    return st;
}

/* Tree and counts by walking each row's subtree: time is that of writing the factor's pattern, less where it is small.
 * Source: Davis, "Direct Methods for Sparse Linear Systems", chapter 4. */
static posenc_status walk_rows(pe_ldl *f, int32_t *mark, pe_pace *pace)
{
    const pe_component *c = f->lap->c;
    posenc_status st = PE_OK;
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
    return st;
}

/* Into parent and ptr. */
static posenc_status analyze(pe_ldl *f, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    const size_t n = (size_t)f->n;
    int32_t *scratch = pe_work_memory(n * 5 * sizeof *scratch);
    f->parent = pe_work_memory(n * sizeof(int32_t));
    f->ptr = calloc(n + 1, sizeof(int64_t));
    if (!scratch || !f->parent || !f->ptr) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if (f->entries < 5 * (double)(f->n + f->lap->c->ptr[f->n])) /* about as fast then */
        st = walk_rows(f, scratch, pace);
    else if (!(st = plant(f, scratch, pace)) && !(st = walk(f, scratch, scratch + n, scratch + 2 * n, pace)))
        st = count_columns(f, scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, scratch + 4 * n, pace);
    for (int64_t k = 0; k < f->n && !st; k++) {
        f->ptr[k + 1] += f->ptr[k];
        st = pe_pace_add(pace, 2);
    }
done:
    free(scratch);
    return st;
}

/* ---- by columns ---------------------------------------------------------------------------------------------- */

/* Into cut and run: what is worked at as one task. */
static posenc_status divide(pe_ldl *f, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    int64_t *work = pe_work_memory((size_t)f->n * sizeof *work);
    if (!work)
        return pe_no_memory("memory", err);
    for (int64_t k = 0; k < f->n && !st; k++) {
        work[k] = f->ptr[k + 1] - f->ptr[k] + 8;
        st = pe_pace_add(pace, 4);
    }
    if (!st)
        st = pe_cut_init(&f->cut, f->n, f->parent, work, pace, err);
    free(work);
    if (st)
        return st;
    const int32_t *owner = f->cut.owner;
    const int64_t parts = f->cut.tier[PE_TIERS + 1];
    int64_t total = 0;
    for (int64_t k = 0; k < f->n && !st; k++) {
        f->cut.part[owner[k]].end += k == 0 || owner[k] != owner[k - 1];
        st = pe_pace_add(pace, 4);
    }
    for (int64_t p = 0; p < parts; p++) {
        pe_subtree *part = &f->cut.part[p];
        total += part->end;
        part->begin = part->end = total - part->end;
    }
    if (!(f->run = pe_work_memory((size_t)total * 2 * sizeof *f->run)))
        return pe_no_memory("memory", err);
    for (int64_t k = 0; k < f->n && !st; k++) {
        pe_subtree *part = &f->cut.part[owner[k]];
        if (k == 0 || owner[k] != owner[k - 1])
            f->run[2 * part->end++] = (int32_t)k;
        f->run[2 * part->end - 1] = (int32_t)(k + 1);
        st = pe_pace_add(pace, 8);
    }
    return st;
}

typedef struct factoring {
    pe_ldl *f;
    int64_t rows;
    double shift, least, *entry, *pivot;
    posenc_context *ctx;
    int64_t tier; /* first part of the tier at work */
} factoring;

static void subtract(const int32_t *row, const double *entry, int64_t n, double x, double *y, int64_t low)
{
    int64_t q = 0;
    for (; q + 4 <= n; q += 4) {
        y[row[q] - low] -= entry[q] * x;
        y[row[q + 1] - low] -= entry[q + 1] * x;
        y[row[q + 2] - low] -= entry[q + 2] * x;
        y[row[q + 3] - low] -= entry[q + 3] * x;
    }
    for (; q < n; q++)
        y[row[q] - low] -= entry[q] * x;
}

/* Up-looking: row k of L solves a triangular system with the rows before it, along the tree. The rows of one part, those of
 * the parts within it being done.
 * Source: Davis 2005, "Algorithm 849: a concise sparse Cholesky factorization package". */
static posenc_status factor_part(const factoring *g, const pe_subtree *part, pe_pace *pace, posenc_error *err)
{
    pe_ldl *f = g->f;
    const pe_component *c = f->lap->c;
    double *const entry = g->entry, *const pivot = g->pivot;
    const int64_t low = part->low, size = part->root + 1 - low;
    posenc_status st = PE_OK;
    double *y = calloc((size_t)size, sizeof *y); /* of rows from `low` on, as are mark, path and pattern */
    int32_t *mark = pe_work_memory((size_t)size * sizeof *mark), *path = pe_work_memory((size_t)size * sizeof *path);
    int32_t *pattern = pe_work_memory((size_t)size * sizeof *pattern);
    if (!y || !mark || !path || !pattern) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t i = 0; i < size && !st; i++) {
        mark[i] = -1;
        st = pe_pace_add(pace, 1);
    }
    for (int64_t run = part->begin; run < part->end && !st; run++) {
        const int64_t stop = f->run[2 * run + 1] < g->rows ? f->run[2 * run + 1] : g->rows;
        for (int64_t k = f->run[2 * run]; k < stop; k++) {
            int64_t v = f->order[k], top = size;
            double d = f->lap->diagonal[v] - g->shift;
            mark[k - low] = (int32_t)k;
            for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++) {
                int64_t i = f->place[c->col[r]], length = 0;
                if ((st = pe_pace_add(pace, 8)))
                    goto done;
                if (i >= k)
                    continue;
                y[i - low] = f->lap->entry[r];
                for (; mark[i - low] != k; i = f->parent[i]) {
                    path[length++] = (int32_t)i;
                    mark[i - low] = (int32_t)k;
                }
                while (length > 0)
                    pattern[--top] = path[--length];
            }
            for (; top < size; top++) {
                int64_t i = pattern[top], end = f->end[i];
                double x = y[i - low];
                y[i - low] = 0;
                subtract(f->row + f->ptr[i], entry + f->ptr[i], end - f->ptr[i], x, y, low);
                double l = x / pivot[i];
                d -= l * x;
                f->row[end] = (int32_t)k;
                entry[end] = l;
                if ((st = pe_pace_add(pace, 2 * (end - f->ptr[i]) + 16)))
                    goto done;
                f->end[i] = end + 1;
            }
            double floor = g->least * f->lap->diagonal[v];
            pivot[k] = g->least > 0 && !(d > floor) ? floor : d;
        }
    }
done:
    free(y);
    free(mark);
    free(path);
    free(pattern);
    return st;
}

static posenc_status factor_task(void *arg, int64_t i, posenc_error *err)
{
    const factoring *g = arg;
    pe_pace pace = { .ctx = g->ctx, .left = PE_PACE_STEPS };
    return factor_part(g, &g->f->cut.part[g->tier + i], &pace, err);
}

/* Of the first `rows` rows of L - shift I; f->end is set.
 *   least   pivots are raised to least times the diagonal entry where rounding took their sign; 0: left alone */
static posenc_status factor(pe_ldl *f, int64_t rows, double shift, double least, double *entry, double *pivot, pe_pace *pace,
                            posenc_error *err)
{
    factoring g = { .f = f, .rows = rows, .shift = shift, .least = least, .entry = entry, .pivot = pivot, .ctx = pace->ctx };
    posenc_status st = pe_pace_copy(pace, f->end, f->ptr, (size_t)f->n * sizeof *f->end);
    for (int i = 0; i < PE_TIERS && !st; i++) {
        const int64_t tier = f->cut.tier[i], many = f->cut.tier[i + 1] - tier;
        int64_t most = 0;
        for (int64_t p = tier; p < tier + many; p++) {
            const pe_subtree *part = &f->cut.part[p];
            most = part->root + 1 - part->low > most ? part->root + 1 - part->low : most;
        }
        g.tier = tier;
        st = pe_parallel(g.ctx, many, (uint64_t)most * (sizeof(double) + 3 * sizeof(int32_t)), factor_task, &g, err);
    }
    return st ? st : factor_part(&g, &f->cut.part[f->cut.tier[PE_TIERS]], pace, err);
}

/* Rows above a part become its cells: n and more. */
static posenc_status name_cells(pe_ldl *f, pe_pace *pace, posenc_error *err)
{
    const int64_t parts = f->cut.tier[PE_TIERS + 1];
    const int32_t *owner = f->cut.owner;
    posenc_status st = PE_OK;
    int32_t *place = pe_work_memory((size_t)f->n * sizeof *place);
    f->cells = 0;
    for (int64_t p = 0; p + 1 < parts; p++) {
        pe_subtree *part = &f->cut.part[p];
        part->to = f->cells;
        part->out = f->end[part->root] - f->ptr[part->root];
        f->cells += part->out;
    }
    if (f->n + f->cells > INT32_MAX) {
        st = pe_too_many_rows(f->n + f->cells, err);
        goto done;
    }
    free(f->cut.up);
    f->cut.up = pe_work_memory(((size_t)f->cells + 1) * sizeof *f->cut.up);
    if (!place || !f->cut.up) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t p = 0; p + 1 < parts; p++)
        for (int64_t i = 0; i < f->cut.part[p].out; i++)
            f->cut.up[f->cut.part[p].to + i] = f->row[f->ptr[f->cut.part[p].root] + i];
    for (int64_t p = 0; p < parts && !st; p++) {
        const pe_subtree *part = &f->cut.part[p];
        for (int64_t i = 0; i < part->out; i++)
            place[f->cut.up[part->to + i]] = (int32_t)(f->n + part->to + i);
        for (int64_t run = part->begin; run < part->end && part->out > 0; run++)
            for (int64_t k = f->run[2 * run]; k < f->run[2 * run + 1] && !st; k++) {
                for (int64_t q = f->ptr[k]; q < f->end[k]; q++)
                    if (owner[f->row[q]] != p)
                        f->row[q] = place[f->row[q]];
                st = pe_pace_add(pace, 4 * (f->end[k] - f->ptr[k]) + 8);
            }
        for (int32_t kid = part->kid; kid >= 0; kid = f->cut.part[kid].next_kid)
            for (int64_t i = f->cut.part[kid].to; i < f->cut.part[kid].to + f->cut.part[kid].out; i++)
                if (owner[f->cut.up[i]] != p)
                    f->cut.up[i] = place[f->cut.up[i]];
    }
done:
    free(place);
    return st;
}

/* Dense blocks pay where columns are long: there are that many products for each entry. */
bool pe_ldl_fills_up(const pe_ldl *f) { return f->products > 12 * f->entries; }

posenc_status pe_ldl_factor(pe_ldl *f, const pe_laplacian *lap, pe_pace *pace, posenc_error *err)
{
    f->lap = lap;
    posenc_status st = analyze(f, pace, err);
    if (st)
        return st;
    const bool by_blocks = pe_ldl_fills_up(f);
    size_t entries = (size_t)f->ptr[f->n] + 1;
    if (!(f->end = pe_work_memory((size_t)f->n * sizeof *f->end)))
        return pe_no_memory("memory", err);
    if (by_blocks) {
        for (int64_t k = 0; k < f->n && !st; k++) {
            f->end[k] = f->ptr[k + 1] - f->ptr[k];
            st = pe_pace_add(pace, 4);
        }
        if (st || (st = pe_supernodes_init(&f->blocks, f->lap->c, f->order, f->place, f->parent, f->end, pace, err)))
            return st;
        entries = (size_t)f->blocks.panel[f->blocks.count] + 16;
        free(f->ptr);
        free(f->end);
        f->ptr = f->end = NULL;
    } else if ((st = divide(f, pace, err))) {
        return st;
    }
    const uint64_t limit = pace->ctx ? pace->ctx->memory_limit : 0;
    const uint64_t need = (sizeof(double) + (by_blocks ? 0 : sizeof(int32_t))) * (uint64_t)entries;
    if (limit && need > limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph",
                           posenc_text("%llu bytes of factor", (unsigned long long)need).s,
                           "at most %llu bytes (setting memory), or solver=chebyshev", (unsigned long long)limit);
    f->held = entries;
    f->entry = pe_result_memory(entries * sizeof(double));
    f->pivot = pe_work_memory((size_t)f->n * sizeof(double));
    f->row = by_blocks ? NULL : pe_work_memory(entries * sizeof(int32_t));
    if ((!by_blocks && !f->row) || !f->entry || !f->pivot)
        return pe_no_memory("memory", err);
    if (by_blocks)
        st = pe_supernodes_factor(&f->blocks, f->lap, f->order, f->place, 0, DBL_EPSILON, f->entry, f->pivot, pace, err);
    else if (!(st = factor(f, f->rows, 0, DBL_EPSILON, f->entry, f->pivot, pace, err)))
        st = name_cells(f, pace, err);
    if (!st && !(f->scratch = pe_panel_new(f->blocks.count ? f->blocks.rows : f->n + f->cells)))
        st = pe_no_memory("memory", err);
    return st;
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
            row_type x = s[k] / f->pivot[k], y = { 0 };                                              \
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
SUBSTITUTE(1, double)
SUBSTITUTE(2, pair)
SUBSTITUTE(4, four)
SUBSTITUTE(8, pe_lanes)

typedef struct solving {
    const pe_ldl *f;
    const pe_sides *sides;
    posenc_context *ctx;
    int64_t tier; /* first part of the tier at work */
    bool down;
} solving;

static posenc_status solve_part(const solving *v, const pe_subtree *part, pe_pace *pace)
{
    typedef void kernel(const pe_ldl *f, double *x, int64_t begin, int64_t end);
    static kernel *const forward[] = { forward_1, forward_2, forward_4, forward_8 };
    static kernel *const backward[] = { backward_1, backward_2, backward_4, backward_8 };
    enum { STEP = 1 << 15, COLUMNS = 1 << 13 }; /* at most, between two looks at the pace: entries and rows; rows */
    const pe_ldl *f = v->f;
    const pe_subtree *kids = f->cut.part;
    const int32_t *order = f->settled ? NULL : f->order;
    const int64_t width = v->sides->width;
    const int which = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
    double *x = f->scratch, *cells = x + f->n * width;
    posenc_status st = PE_OK;
    if (v->down) {
        memset(cells + part->to * width, 0, (size_t)(part->out * width) * sizeof *x);
        for (int64_t run = part->begin; run < part->end && !st; run++) {
            const int64_t begin = f->run[2 * run], end = f->run[2 * run + 1];
            pe_sides_load(v->sides, order, f->rows, begin, end, x + begin * width);
            st = pe_pace_add(pace, (end - begin) * (width + 2));
        }
        for (int32_t kid = part->kid; kid >= 0; kid = kids[kid].next_kid)
            for (int64_t i = kids[kid].to; i < kids[kid].to + kids[kid].out; i++)
                for (int64_t c = 0; c < width; c++)
                    x[f->cut.up[i] * width + c] += cells[i * width + c];
    } else {
        for (int64_t i = part->to; i < part->to + part->out; i++)
            memcpy(cells + i * width, x + f->cut.up[i] * width, (size_t)width * sizeof *x);
    }
    for (int64_t q = part->begin; q < part->end && !st; q++) {
        const int64_t run = v->down ? q : part->begin + part->end - 1 - q, begin = f->run[2 * run];
        const int64_t end = f->run[2 * run + 1] < f->rows ? f->run[2 * run + 1] : f->rows;
        for (int64_t done = 0, many; done < end - begin && !st; done += many) {
            int64_t from, steps;
            for (many = end - begin - done < COLUMNS ? end - begin - done : COLUMNS;; many /= 2) {
                from = v->down ? begin + done : end - done - many;
                steps = f->ptr[from + many] - f->ptr[from] + many;
                if (steps <= STEP || many == 1)
                    break;
            }
            (v->down ? forward : backward)[which](f, x, from, from + many);
            st = pe_pace_add(pace, 5 * steps);
        }
        if (!v->down && !st) {
            pe_sides_store(v->sides, order, begin, f->run[2 * run + 1], x + begin * width);
            st = pe_pace_add(pace, (end - begin) * (width + 2));
        }
    }
    return st;
}

static posenc_status solve_task(void *arg, int64_t i, posenc_error *err)
{
    const solving *v = arg;
    pe_pace pace = { .ctx = v->ctx, .left = PE_PACE_STEPS };
    (void)err;
    return solve_part(v, &v->f->cut.part[v->tier + i], &pace);
}

static posenc_status solve(pe_ldl *f, const pe_sides *sides, pe_pace *pace)
{
    if (f->blocks.count)
        return pe_supernodes_solve(&f->blocks, f->entry, f->pivot, f->settled ? NULL : f->order, f->rows, sides, f->scratch,
                                   pace);
    const int64_t *tier = f->cut.tier;
    const pe_subtree *last = &f->cut.part[tier[PE_TIERS]];
    solving v = { .f = f, .sides = sides, .ctx = pace->ctx, .down = true };
    posenc_status st = PE_OK;
    for (int i = 0; i < PE_TIERS && !st; i++) {
        v.tier = tier[i];
        st = pe_parallel(v.ctx, tier[i + 1] - tier[i], 0, solve_task, &v, NULL);
    }
    st = st ? st : solve_part(&v, last, pace);
    v.down = false;
    st = st ? st : solve_part(&v, last, pace);
    for (int i = PE_TIERS - 1; i >= 0 && !st; i--) {
        v.tier = tier[i];
        st = pe_parallel(v.ctx, tier[i + 1] - tier[i], 0, solve_task, &v, NULL);
    }
    return st;
}

posenc_status pe_ldl_solve(pe_ldl *f, const double *x, double *y, pe_pace *pace)
{
    double *from[PE_WIDTH], *to[PE_WIDTH];
    for (int64_t c = 0; c < PE_WIDTH; c++) {
        from[c] = (double *)x + c;
        to[c] = y + c;
    }
    const pe_sides sides = { .width = PE_WIDTH, .stride = PE_WIDTH, .x = from, .y = to };
    return solve(f, &sides, pace);
}

posenc_status pe_ldl_solve_columns(pe_ldl *f, int64_t width, double *const *x, double *const *y, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t at = 0; at < width && !st;) {
        const int64_t left = width - at;
        const pe_sides sides = { .width = left >= 8   ? 8
                                          : left >= 4 ? 4
                                          : left >= 2 ? 2
                                                      : 1,
                                 .stride = 1,
                                 .x = x + at,
                                 .y = y + at };
        st = solve(f, &sides, pace);
        at += sides.width;
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
        st = st ? st : name_cells(f, pace, err);
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
    free(f->run);
    pe_cut_fini(&f->cut);
    pe_supernodes_fini(&f->blocks);
    *f = (pe_ldl){ 0 };
}

uint64_t pe_ldl_bytes(int64_t n, int64_t arcs, double entries)
{
    double ordering = 8 * (1.7 * (double)arcs + 12 * (double)n);
    double held = 20 * entries + 160 * (double)n + 0x1p18; /* what one thread factors with */
    return (uint64_t)((ordering > held ? ordering : held) + 8 * (double)n);
}
