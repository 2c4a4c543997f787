#include "supernodes.h"
#include "core/params.h"

#include <stdlib.h>
#include <string.h>

enum { STRIP = 48 }; /* columns that are updated at once */

void pe_supernodes_fini(pe_supernodes *s)
{
    free(s->first);
    free(s->parent);
    free(s->of);
    free(s->below);
    free(s->row);
    free(s->panel);
    *s = (pe_supernodes){ 0 };
}

/* ---- structure ----------------------------------------------------------------------------------------------- */

/* Whether a supernode of `width` columns may hold `zeros` of its `all` entries for nothing: short loops cost more than
 * zeros. Measured on grids and triangulations. */
static bool tolerable(int64_t width, double zeros, double all)
{
    return zeros <= 8 || zeros < (width <= 4 ? 0.5 : width <= 16 ? 0.3 : width <= 48 ? 0.1 : 0.05) * all;
}

/* Runs of columns, each the parent of the one before, with the same rows; then runs are joined to the one that follows
 * and is their parent, where that costs few zeros. Into first, of and count. */
static posenc_status partition(pe_supernodes *s, int64_t n, const int32_t *parent, const int64_t *size, pe_pace *pace,
                               posenc_error *err)
{
    posenc_status st = PE_OK;
    double *zeros = calloc((size_t)n + 1, sizeof *zeros);
    int32_t *end = malloc(((size_t)n + 1) * sizeof *end); /* by first column: where the run ends; -1: not a first column */
    if (!zeros || !end) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t k = n - 1; k >= 0 && !st; k--) {
        end[k] = (int32_t)(k + 1);
        st = pe_pace_add(pace, 6);
        if (k + 1 == n || parent[k] < 0)
            continue;
        /* the run that starts at k + 1 takes column k in, if k's parent is one of its columns */
        const int64_t stop = end[k + 1], width = stop - k;
        if (parent[k] >= stop)
            continue;
        const int64_t height = width + size[stop - 1];
        const double all = (double)width * (double)height - (double)width * (double)(width - 1) / 2;
        const double more = zeros[k + 1] + (double)(height - 1 - size[k]);
        if (!tolerable(width, more, all))
            continue;
        zeros[k] = more;
        end[k] = (int32_t)stop;
        end[k + 1] = -1;
    }
    s->count = 0;
    for (int64_t k = 0; k < n && !st; k++) {
        if (end[k] >= 0)
            s->first[s->count++] = k;
        s->of[k] = (int32_t)(s->count - 1);
        st = pe_pace_add(pace, 4);
    }
    s->first[s->count] = n;
done:
    free(zeros);
    free(end);
    return st;
}

/* Row k appears in each supernode on the paths from its entries of A up to its own: so lists ascend. Counts, or with
 * `fill` writes. */
static posenc_status rows_below(pe_supernodes *s, const pe_component *c, const int32_t *order, const int32_t *place,
                                int32_t *mark, bool fill, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t j = 0; j < s->count; j++)
        mark[j] = -1;
    for (int64_t k = 0; k < c->n && !st; k++) {
        const int64_t v = order[k];
        const int32_t own = s->of[k];
        int64_t steps = 4;
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++) {
            const int64_t i = place[c->col[r]];
            if (i >= k)
                continue;
            for (int32_t j = s->of[i]; j != own && mark[j] != k; j = s->parent[j], steps++) {
                if (fill)
                    s->row[s->below[j]] = (int32_t)k;
                s->below[j]++;
                mark[j] = (int32_t)k;
            }
            steps++;
        }
        st = pe_pace_add(pace, 12 * steps);
    }
    return st;
}

posenc_status pe_supernodes_init(pe_supernodes *s, const pe_component *c, const int32_t *order, const int32_t *place,
                                 const int32_t *parent, const int64_t *size, pe_pace *pace, posenc_error *err)
{
    const size_t n = (size_t)c->n;
    posenc_status st = PE_OK;
    int32_t *mark = NULL;
    *s = (pe_supernodes){ .first = malloc((n + 1) * sizeof *s->first), .of = malloc(n * sizeof *s->of) };
    if (!s->first || !s->of)
        return pe_no_memory("memory", err);
    if ((st = partition(s, c->n, parent, size, pace, err)))
        return st;
    const size_t count = (size_t)s->count;
    s->parent = malloc(count * sizeof *s->parent);
    s->below = calloc(count + 1, sizeof *s->below);
    s->panel = malloc((count + 1) * sizeof *s->panel);
    mark = malloc(count * sizeof *mark);
    if (!s->parent || !s->below || !s->panel || !mark) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t j = 0; j < s->count; j++) {
        const int32_t up = parent[s->first[j + 1] - 1];
        s->parent[j] = up < 0 ? -1 : s->of[up];
    }
    if ((st = rows_below(s, c, order, place, mark, false, pace)))
        goto done;
    int64_t total = 0, entries = 0;
    for (int64_t j = 0; j < s->count; j++) {
        const int64_t rows = s->below[j], width = s->first[j + 1] - s->first[j];
        s->below[j] = total;
        s->panel[j] = entries;
        total += rows;
        entries += width * (width + rows);
        s->tallest = width + rows > s->tallest ? width + rows : s->tallest;
    }
    s->below[s->count] = total;
    s->panel[s->count] = entries;
    s->row = malloc(((size_t)total + 1) * sizeof *s->row);
    if (!s->row) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = rows_below(s, c, order, place, mark, true, pace)))
        goto done;
    memmove(s->below + 1, s->below, count * sizeof *s->below); /* each stands at its end now */
    s->below[0] = 0;
done:
    free(mark);
    return st;
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

/* c (m, 4; columns `stride` apart) = a (m, depth; columns `height` apart) times b (depth, 4). m up to a multiple of 16 is
 * read and written. */
PE_CLONES static void product_4(int64_t m, int64_t depth, const double *a, int64_t height, const double *b, double *c,
                                int64_t stride)
{
    for (int64_t i = 0; i < m; i += 16) {
        pe_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 }, t0 = { 0 }, t1 = { 0 }, t2 = { 0 }, t3 = { 0 };
        const double *from = a + i, *k = b;
        for (int64_t d = 0; d < depth; d++, from += height, k += 4) {
            const pe_lanes x = *(const pe_loose_lanes *)from, y = *(const pe_loose_lanes *)(from + 8);
            s0 += k[0] * x;
            s1 += k[1] * x;
            s2 += k[2] * x;
            s3 += k[3] * x;
            t0 += k[0] * y;
            t1 += k[1] * y;
            t2 += k[2] * y;
            t3 += k[3] * y;
        }
        double *to = c + i;
        *(pe_loose_lanes *)to = s0;
        *(pe_loose_lanes *)(to + 8) = t0;
        to += stride;
        *(pe_loose_lanes *)to = s1;
        *(pe_loose_lanes *)(to + 8) = t1;
        to += stride;
        *(pe_loose_lanes *)to = s2;
        *(pe_loose_lanes *)(to + 8) = t2;
        to += stride;
        *(pe_loose_lanes *)to = s3;
        *(pe_loose_lanes *)(to + 8) = t3;
    }
}

typedef struct factoring {
    const pe_supernodes *s;
    double *entry, *pivot;
    double *scaled;   /* (4, most depth) */
    double *product;  /* (STRIP, tallest + 16) */
    int64_t stride;   /* of product */
    int32_t *at;      /* (n) where a row stands in the panel at work */
    int32_t *head;    /* (count) supernodes that next owe something to this one; -1: end */
    int32_t *next;    /* (count) */
    int64_t *reached; /* (count) rows below that are dealt with */
    pe_pace *pace;
} factoring;

/* product = what the columns 0 .. depth - 1 of a panel owe to `many` (at most STRIP) of its rows from `row` on:
 * entry (i, j) of L D L^T, i from `row` to `height` - 1, j among the many. a: the panel. */
static posenc_status owe(factoring *f, const double *a, int64_t height, int64_t depth, const double *pivot, int64_t row,
                         int64_t many)
{
    posenc_status st = PE_OK;
    for (int64_t j = 0; j < many && !st; j += 4) {
        for (int64_t d = 0; d < depth; d++)
            for (int64_t q = 0; q < 4; q++)
                f->scaled[4 * d + q] = j + q < many ? a[d * height + row + j + q] * pivot[d] : 0;
        product_4(height - row - j, depth, a + row + j, height, f->scaled, f->product + j * f->stride + j, f->stride);
        st = pe_pace_add(f->pace, (height - row - j + 16) * depth / 2 + 2 * depth + 16);
    }
    return st;
}

/* Takes from the panel of j what supernode k owes it. */
static posenc_status receive(factoring *f, int64_t j, int64_t k)
{
    const pe_supernodes *s = f->s;
    const int64_t width = s->first[k + 1] - s->first[k], rows = s->below[k + 1] - s->below[k], height = width + rows;
    const int64_t tall = s->first[j + 1] - s->first[j] + s->below[j + 1] - s->below[j], from = f->reached[k];
    const int32_t *row = s->row + s->below[k];
    double *panel = f->entry + s->panel[j];
    posenc_status st = PE_OK;
    int64_t to = from;
    while (to < rows && row[to] < s->first[j + 1])
        to++;
    for (int64_t begin = from; begin < to && !st; begin += STRIP) {
        const int64_t many = to - begin < STRIP ? to - begin : STRIP;
        if ((st = owe(f, f->entry + s->panel[k], height, width, f->pivot + s->first[k], width + begin, many)))
            break;
        for (int64_t c = 0; c < many; c++) {
            double *column = panel + f->at[row[begin + c]] * tall;
            const double *product = f->product + c * f->stride;
            for (int64_t i = c; i < rows - begin; i++)
                column[f->at[row[begin + i]]] -= product[i];
        }
        st = pe_pace_add(f->pace, 3 * many * (rows - begin) + 40);
    }
    f->reached[k] = to;
    if (to < rows) {
        const int32_t other = s->of[row[to]];
        f->next[k] = f->head[other];
        f->head[other] = (int32_t)k;
    }
    return st;
}

/* y -= x k over rows */
PE_CLONES static void subtract(int64_t rows, const double *x, double k, double *y)
{
    int64_t i = 0;
    for (; i + 8 <= rows; i += 8)
        *(pe_loose_lanes *)(y + i) -= *(const pe_loose_lanes *)(x + i) * k;
    for (; i < rows; i++)
        y[i] -= x[i] * k;
}

/* Factors a panel (height, width) whose debts are paid, STRIP columns at a time. */
static posenc_status eliminate(factoring *f, double *panel, int64_t height, int64_t width, double *pivot,
                               const double *floor)
{
    posenc_status st = PE_OK;
    for (int64_t begin = 0; begin < width && !st; begin += STRIP) {
        const int64_t end = begin + STRIP < width ? begin + STRIP : width;
        if (begin > 0) {
            if ((st = owe(f, panel, height, begin, pivot, begin, end - begin)))
                return st;
            for (int64_t c = begin; c < end; c++)
                subtract(height - c, f->product + (c - begin) * f->stride + (c - begin), 1, panel + c * height + c);
        }
        for (int64_t c = begin; c < end && !st; c++) {
            double *column = panel + c * height;
            for (int64_t k = begin; k < c; k++)
                subtract(height - c, panel + k * height + c, panel[k * height + c] * pivot[k], column + c);
            pivot[c] = column[c] > floor[c] || floor[c] == 0 ? column[c] : floor[c];
            column[c] = 1;
            for (int64_t i = c + 1; i < height; i++)
                column[i] /= pivot[c];
            st = pe_pace_add(f->pace, (height - c) * (c - begin + 4) / 2);
        }
    }
    return st;
}

/* The entries of A - shift I in the panel of j; floors of its pivots. */
static posenc_status assemble(factoring *f, int64_t j, const pe_laplacian *lap, const int32_t *order, const int32_t *place,
                              double shift, double least, double *floor)
{
    const pe_supernodes *s = f->s;
    const pe_component *c = lap->c;
    const int64_t first = s->first[j], width = s->first[j + 1] - first, rows = s->below[j + 1] - s->below[j];
    const int64_t height = width + rows;
    double *panel = f->entry + s->panel[j];
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < width; i++)
        f->at[first + i] = (int32_t)i;
    for (int64_t i = 0; i < rows; i++)
        f->at[s->row[s->below[j] + i]] = (int32_t)(width + i);
    for (int64_t i = 0; i < width && !st; i++) {
        const int64_t v = order[first + i];
        double *column = panel + i * height;
        memset(column, 0, (size_t)height * sizeof *column);
        column[i] = lap->diagonal[v] - shift;
        floor[i] = least * lap->diagonal[v];
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++)
            if (place[c->col[r]] > first + i)
                column[f->at[place[c->col[r]]]] = lap->entry[r];
        st = pe_pace_add(f->pace, 8 * (c->ptr[v + 1] - c->ptr[v]) + height + 16);
    }
    return st;
}

posenc_status pe_supernodes_factor(const pe_supernodes *s, const pe_laplacian *lap, const int32_t *order,
                                   const int32_t *place, double shift, double least, double *entry, double *pivot,
                                   pe_pace *pace, posenc_error *err)
{
    const size_t count = (size_t)s->count, n = (size_t)lap->c->n;
    posenc_status st = PE_OK;
    int64_t widest = 0;
    for (int64_t j = 0; j < s->count; j++)
        widest = s->first[j + 1] - s->first[j] > widest ? s->first[j + 1] - s->first[j] : widest;
    double *floor = malloc((size_t)widest * sizeof *floor);
    factoring f = { .s = s,
                    .entry = entry,
                    .pivot = pivot,
                    .stride = s->tallest + 16,
                    .scaled = malloc((size_t)widest * 4 * sizeof *f.scaled),
                    .product = malloc((size_t)(s->tallest + 16) * (STRIP + 4) * sizeof *f.product),
                    .at = malloc(n * sizeof *f.at),
                    .head = malloc(count * sizeof *f.head),
                    .next = malloc(count * sizeof *f.next),
                    .reached = calloc(count, sizeof *f.reached),
                    .pace = pace };
    if (!floor || !f.scaled || !f.product || !f.at || !f.head || !f.next || !f.reached) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t j = 0; j < s->count; j++)
        f.head[j] = -1;
    memset(entry + s->panel[s->count], 0, 16 * sizeof *entry);
    for (int64_t j = 0; j < s->count; j++) {
        const int64_t width = s->first[j + 1] - s->first[j], rows = s->below[j + 1] - s->below[j];
        if ((st = assemble(&f, j, lap, order, place, shift, least, floor)))
            goto done;
        for (int32_t k = f.head[j], after; k >= 0; k = after) {
            after = f.next[k];
            if ((st = receive(&f, j, k)))
                goto done;
        }
        if ((st = eliminate(&f, entry + s->panel[j], width + rows, width, pivot + s->first[j], floor)))
            goto done;
        if (rows > 0) {
            const int32_t other = s->of[s->row[s->below[j]]];
            f.next[j] = f.head[other];
            f.head[other] = (int32_t)j;
        }
    }
done:
    free(floor);
    free(f.scaled);
    free(f.product);
    free(f.at);
    free(f.head);
    free(f.next);
    free(f.reached);
    return st;
}

/* ---- substitution -------------------------------------------------------------------------------------------- */

typedef struct block { /* of one supernode */
    int64_t width, height;
    const double *a, *pivot;
    const int32_t *row;
    double *x, *all; /* its rows of the right side; the right side */
    double *t;       /* (height + 8, width) */
} block;

/* One right side: a supernode's rows are gathered in t, which is followed by eight that nobody reads (forward) or that are
 * 0 (backward), for loops go in steps of eight. Four columns at a time. */
PE_CLONES static void forward_one(const block *b)
{
    const int64_t w = b->width, h = b->height;
    double *t = b->t;
    memcpy(t, b->x, (size_t)w * sizeof *t);
    memset(t + w, 0, (size_t)(h - w) * sizeof *t);
    for (int64_t k = 0; k < w; k += 4) {
        const int64_t many = w - k < 4 ? w - k : 4;
        const double *a[4];
        double x[4] = { 0 };
        for (int64_t c = 0; c < 4; c++)
            a[c] = b->a + (c < many ? k + c : k) * h;
        for (int64_t c = 0; c < many; c++) {
            x[c] = t[k + c];
            for (int64_t i = c + 1; i < many; i++)
                t[k + i] -= a[c][k + i] * x[c];
        }
        for (int64_t i = k + many; i < h; i += 8) {
            const pe_lanes f = *(const pe_loose_lanes *)(a[0] + i) * x[0] + *(const pe_loose_lanes *)(a[1] + i) * x[1];
            const pe_lanes g = *(const pe_loose_lanes *)(a[2] + i) * x[2] + *(const pe_loose_lanes *)(a[3] + i) * x[3];
            *(pe_loose_lanes *)(t + i) -= f + g;
        }
    }
    memcpy(b->x, t, (size_t)w * sizeof *t);
    for (int64_t i = w; i < h; i++)
        b->all[b->row[i - w]] += t[i];
}

PE_CLONES static void backward_one(const block *b)
{
    const int64_t w = b->width, h = b->height;
    double *t = b->t;
    for (int64_t i = 0; i < w; i++)
        t[i] = b->x[i] / b->pivot[i];
    for (int64_t i = w; i < h; i++)
        t[i] = b->all[b->row[i - w]];
    memset(t + h, 0, 8 * sizeof *t);
    for (int64_t k = (w - 1) / 4 * 4; k >= 0; k -= 4) {
        const int64_t many = w - k < 4 ? w - k : 4;
        const double *a[4];
        for (int64_t c = 0; c < 4; c++)
            a[c] = b->a + (c < many ? k + c : k) * h;
        pe_lanes s[4] = { 0 };
        for (int64_t i = k + many; i < h; i += 8) {
            const pe_lanes y = *(const pe_loose_lanes *)(t + i);
            s[0] += *(const pe_loose_lanes *)(a[0] + i) * y;
            s[1] += *(const pe_loose_lanes *)(a[1] + i) * y;
            s[2] += *(const pe_loose_lanes *)(a[2] + i) * y;
            s[3] += *(const pe_loose_lanes *)(a[3] + i) * y;
        }
        for (int64_t c = many - 1; c >= 0; c--) {
            double rest = 0;
            for (int64_t i = c + 1; i < many; i++)
                rest += a[c][k + i] * t[k + i];
            t[k + c] -= rest + (((s[c][0] + s[c][1]) + (s[c][2] + s[c][3])) + ((s[c][4] + s[c][5]) + (s[c][6] + s[c][7])));
        }
    }
    memcpy(b->x, t, (size_t)w * sizeof *t);
}

/* The same for rows of several right sides; t is (height) rows. */
#define SUBSTITUTE(name, row_type)                                                             \
    PE_CLONES static void forward_##name(const block *b)                                       \
    {                                                                                          \
        const int64_t w = b->width, h = b->height;                                             \
        row_type *x = (row_type *)b->x, *all = (row_type *)b->all, *t = (row_type *)b->t;      \
        memcpy(t, x, (size_t)w * sizeof *t);                                                   \
        memset(t + w, 0, (size_t)(h - w) * sizeof *t);                                         \
        for (int64_t k = 0; k < w; k += 4) {                                                   \
            const int64_t many = w - k < 4 ? w - k : 4;                                        \
            const double *a[4];                                                                \
            row_type y[4] = { 0 };                                                             \
            for (int64_t c = 0; c < 4; c++)                                                    \
                a[c] = b->a + (c < many ? k + c : k) * h;                                      \
            for (int64_t c = 0; c < many; c++) {                                               \
                y[c] = t[k + c];                                                               \
                for (int64_t i = c + 1; i < many; i++)                                         \
                    t[k + i] -= a[c][k + i] * y[c];                                            \
            }                                                                                  \
            for (int64_t i = k + many; i < h; i++)                                             \
                t[i] -= (a[0][i] * y[0] + a[1][i] * y[1]) + (a[2][i] * y[2] + a[3][i] * y[3]); \
        }                                                                                      \
        memcpy(x, t, (size_t)w * sizeof *t);                                                   \
        for (int64_t i = w; i < h; i++)                                                        \
            all[b->row[i - w]] += t[i];                                                        \
    }                                                                                          \
    PE_CLONES static void backward_##name(const block *b)                                      \
    {                                                                                          \
        const int64_t w = b->width, h = b->height;                                             \
        row_type *x = (row_type *)b->x, *all = (row_type *)b->all, *t = (row_type *)b->t;      \
        for (int64_t i = 0; i < w; i++)                                                        \
            t[i] = x[i] / b->pivot[i];                                                         \
        for (int64_t i = w; i < h; i++)                                                        \
            t[i] = all[b->row[i - w]];                                                         \
        for (int64_t k = (w - 1) / 4 * 4; k >= 0; k -= 4) {                                    \
            const int64_t many = w - k < 4 ? w - k : 4;                                        \
            const double *a[4];                                                                \
            row_type s[4] = { 0 };                                                             \
            for (int64_t c = 0; c < 4; c++)                                                    \
                a[c] = b->a + (c < many ? k + c : k) * h;                                      \
            for (int64_t i = k + many; i < h; i++) {                                           \
                const row_type y = t[i];                                                       \
                s[0] += a[0][i] * y;                                                           \
                s[1] += a[1][i] * y;                                                           \
                s[2] += a[2][i] * y;                                                           \
                s[3] += a[3][i] * y;                                                           \
            }                                                                                  \
            for (int64_t c = many - 1; c >= 0; c--) {                                          \
                for (int64_t i = c + 1; i < many; i++)                                         \
                    s[c] += a[c][k + i] * t[k + i];                                            \
                t[k + c] -= s[c];                                                              \
            }                                                                                  \
        }                                                                                      \
        memcpy(x, t, (size_t)w * sizeof *t);                                                   \
    }

typedef double pair __attribute__((vector_size(16), may_alias));
typedef double four __attribute__((vector_size(32), may_alias));
SUBSTITUTE(2, pair)
SUBSTITUTE(4, four)
SUBSTITUTE(8, pe_lanes)

/* Panels are short, and read four columns at a time: the machine does not see what comes next. */
static void prefetch(const double *panel, int64_t size)
{
    enum { MOST = 1 << 10, LINE = 8 };
    size = size < MOST ? size : MOST;
    for (int64_t i = 0; i < size; i += LINE)
        __builtin_prefetch(panel + i);
}

posenc_status pe_supernodes_solve(const pe_supernodes *s, const double *entry, const double *pivot, int64_t rows,
                                  int64_t width, double *x, double *scratch, pe_pace *pace)
{
    static void (*const forward[])(const block *b) = { forward_one, forward_2, forward_4, forward_8 };
    static void (*const backward[])(const block *b) = { backward_one, backward_2, backward_4, backward_8 };
    const int which = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
    const int64_t n = s->first[s->count];
    posenc_status st = PE_OK;
    for (int64_t i = rows; i < n; i++)
        memset(x + i * width, 0, (size_t)width * sizeof *x);
    for (int64_t q = 0; q < 2 * s->count && !st; q++) {
        const bool down = q < s->count;
        const int64_t j = down ? q : 2 * s->count - 1 - q, first = s->first[j], w = s->first[j + 1] - first;
        const block b = { .width = w,
                          .height = w + s->below[j + 1] - s->below[j],
                          .a = entry + s->panel[j],
                          .pivot = pivot + first,
                          .row = s->row + s->below[j],
                          .x = x + first * width,
                          .all = x,
                          .t = scratch };
        if (down ? q + 1 < s->count : j > 0)
            prefetch(entry + s->panel[down ? j + 1 : j - 1], s->panel[down ? j + 2 : j] - s->panel[down ? j + 1 : j - 1]);
        (down ? forward : backward)[which](&b);
        st = pe_pace_add(pace, 8 + b.width * b.height * (width + 1) / 2);
        if (q == s->count - 1) /* what was left out stays 0 */
            for (int64_t i = rows; i < n; i++)
                memset(x + i * width, 0, (size_t)width * sizeof *x);
    }
    return st;
}
