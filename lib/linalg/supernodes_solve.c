/* supernodes_solve.c - substitution with a factor of dense blocks, part by part. */
#include "core/parallel.h"
#include "supernodes.h"

#include <string.h>

typedef struct solving {
    const pe_supernodes *s;
    const double *entry, *pivot;
    const int32_t *order;
    int64_t rows;
    const pe_sides *sides;
    double *all; /* (s->rows, width) */
    posenc_context *ctx;
    int64_t tier; /* first part of the tier at work */
    bool down;
} solving;

/* Panels are short, and read four columns at a time: the machine does not see what comes next. */
static inline void prefetch(const double *panel, int64_t size)
{
    enum { MOST = 1 << 10, LINE = 8 };
    size = size < MOST ? size : MOST;
    for (int64_t i = 0; i < size; i += LINE)
        __builtin_prefetch(panel + i);
}

#define INLINE static inline __attribute__((always_inline))

typedef double pair __attribute__((vector_size(16), may_alias));
typedef double four __attribute__((vector_size(32), may_alias));

/* Panels of more than four columns, four columns at a time.
 * One or two right sides: a panel's rows are gathered in t, one right side after the other, each followed by eight that
 * nobody reads (forward) or that are 0 (backward), for loops go over eight rows at once. */
#define WIDE_BY_ROWS(name, row_type, sides, load, store)                                                           \
    INLINE void wide_forward_##name(int64_t w, int64_t h, const double *panel, row_type *x, row_type *all,         \
                                    const int32_t *spot, double *t)                                                \
    {                                                                                                              \
        double *u = t + (sides - 1) * (h + 8);                                                                     \
        for (int64_t i = 0; i < w; i++) {                                                                          \
            load(x[i], t[i], u[i]);                                                                                \
        }                                                                                                          \
        memset(t + w, 0, (size_t)(h - w) * sizeof *t);                                                             \
        if (sides > 1)                                                                                             \
            memset(u + w, 0, (size_t)(h - w) * sizeof *u);                                                         \
        for (int64_t k = 0; k < w; k += 4) {                                                                       \
            const int64_t many = w - k < 4 ? w - k : 4;                                                            \
            const double *a[4];                                                                                    \
            double y[4] = { 0 }, z[4] = { 0 };                                                                     \
            for (int64_t c = 0; c < 4; c++)                                                                        \
                a[c] = panel + (c < many ? k + c : k) * h;                                                         \
            for (int64_t c = 0; c < many; c++) {                                                                   \
                y[c] = t[k + c];                                                                                   \
                z[c] = u[k + c];                                                                                   \
                for (int64_t i = c + 1; i < many; i++) {                                                           \
                    t[k + i] -= a[c][k + i] * y[c];                                                                \
                    if (sides > 1)                                                                                 \
                        u[k + i] -= a[c][k + i] * z[c];                                                            \
                }                                                                                                  \
            }                                                                                                      \
            for (int64_t i = k + many; i < h; i += 8) {                                                            \
                const pe_lanes a0 = *(const pe_loose_lanes *)(a[0] + i), a1 = *(const pe_loose_lanes *)(a[1] + i); \
                const pe_lanes a2 = *(const pe_loose_lanes *)(a[2] + i), a3 = *(const pe_loose_lanes *)(a[3] + i); \
                *(pe_loose_lanes *)(t + i) -= (a0 * y[0] + a1 * y[1]) + (a2 * y[2] + a3 * y[3]);                   \
                if (sides > 1)                                                                                     \
                    *(pe_loose_lanes *)(u + i) -= (a0 * z[0] + a1 * z[1]) + (a2 * z[2] + a3 * z[3]);               \
            }                                                                                                      \
        }                                                                                                          \
        for (int64_t i = 0; i < w; i++)                                                                            \
            x[i] = store(t[i], u[i]);                                                                              \
        for (int64_t i = w; i < h; i++)                                                                            \
            all[spot[i - w]] += store(t[i], u[i]);                                                                 \
    }                                                                                                              \
    INLINE void wide_backward_##name(int64_t w, int64_t h, const double *panel, const double *pivot, row_type *x,  \
                                     const row_type *all, const int32_t *spot, double *t)                          \
    {                                                                                                              \
        double *u = t + (sides - 1) * (h + 8);                                                                     \
        for (int64_t i = 0; i < w; i++) {                                                                          \
            load(x[i] / pivot[i], t[i], u[i]);                                                                     \
        }                                                                                                          \
        for (int64_t i = w; i < h; i++) {                                                                          \
            load(all[spot[i - w]], t[i], u[i]);                                                                    \
        }                                                                                                          \
        memset(t + h, 0, 8 * sizeof *t);                                                                           \
        memset(u + h, 0, 8 * sizeof *u);                                                                           \
        for (int64_t k = (w - 1) / 4 * 4; k >= 0; k -= 4) {                                                        \
            const int64_t many = w - k < 4 ? w - k : 4;                                                            \
            const double *a[4];                                                                                    \
            pe_lanes y[4] = { 0 }, z[4] = { 0 };                                                                   \
            for (int64_t c = 0; c < 4; c++)                                                                        \
                a[c] = panel + (c < many ? k + c : k) * h;                                                         \
            for (int64_t i = k + many; i < h; i += 8) {                                                            \
                const pe_lanes r = *(const pe_loose_lanes *)(t + i), q = *(const pe_loose_lanes *)(u + i);         \
                const pe_lanes a0 = *(const pe_loose_lanes *)(a[0] + i), a1 = *(const pe_loose_lanes *)(a[1] + i); \
                const pe_lanes a2 = *(const pe_loose_lanes *)(a[2] + i), a3 = *(const pe_loose_lanes *)(a[3] + i); \
                y[0] += a0 * r;                                                                                    \
                y[1] += a1 * r;                                                                                    \
                y[2] += a2 * r;                                                                                    \
                y[3] += a3 * r;                                                                                    \
                if (sides > 1) {                                                                                   \
                    z[0] += a0 * q;                                                                                \
                    z[1] += a1 * q;                                                                                \
                    z[2] += a2 * q;                                                                                \
                    z[3] += a3 * q;                                                                                \
                }                                                                                                  \
            }                                                                                                      \
            for (int64_t c = many - 1; c >= 0; c--) {                                                              \
                double r = TREE(y[c]), q = TREE(z[c]);                                                             \
                for (int64_t i = c + 1; i < many; i++) {                                                           \
                    r += a[c][k + i] * t[k + i];                                                                   \
                    if (sides > 1)                                                                                 \
                        q += a[c][k + i] * u[k + i];                                                               \
                }                                                                                                  \
                t[k + c] -= r;                                                                                     \
                if (sides > 1)                                                                                     \
                    u[k + c] -= q;                                                                                 \
            }                                                                                                      \
        }                                                                                                          \
        for (int64_t i = 0; i < w; i++)                                                                            \
            x[i] = store(t[i], u[i]);                                                                              \
    }

#define TREE(x) ((((x)[0] + (x)[1]) + ((x)[2] + (x)[3])) + (((x)[4] + (x)[5]) + ((x)[6] + (x)[7])))
#define LOAD_1(from, t, u) (t) = (from)
#define STORE_1(t, u) (t)
#define LOAD_2(from, t, u)     \
    const pair both_ = (from); \
    (t) = both_[0];            \
    (u) = both_[1]
#define STORE_2(t, u) ((pair){ (t), (u) })
WIDE_BY_ROWS(1, double, 1, LOAD_1, STORE_1)
WIDE_BY_ROWS(2, pair, 2, LOAD_2, STORE_2)

/* More right sides: a row of them is a vector. */
#define WIDE_BY_SIDES(name, row_type)                                                                             \
    INLINE void wide_forward_##name(int64_t w, int64_t h, const double *panel, row_type *x, row_type *all,        \
                                    const int32_t *spot, double *buffer)                                          \
    {                                                                                                             \
        row_type *t = (row_type *)buffer;                                                                         \
        memcpy(t, x, (size_t)w * sizeof *t);                                                                      \
        memset(t + w, 0, (size_t)(h - w) * sizeof *t);                                                            \
        for (int64_t k = 0; k < w; k += 4) {                                                                      \
            const int64_t many = w - k < 4 ? w - k : 4;                                                           \
            const double *a[4];                                                                                   \
            row_type y[4] = { 0 };                                                                                \
            for (int64_t c = 0; c < 4; c++)                                                                       \
                a[c] = panel + (c < many ? k + c : k) * h;                                                        \
            for (int64_t c = 0; c < many; c++) {                                                                  \
                y[c] = t[k + c];                                                                                  \
                for (int64_t i = c + 1; i < many; i++)                                                            \
                    t[k + i] -= a[c][k + i] * y[c];                                                               \
            }                                                                                                     \
            for (int64_t i = k + many; i < h; i++)                                                                \
                t[i] -= (a[0][i] * y[0] + a[1][i] * y[1]) + (a[2][i] * y[2] + a[3][i] * y[3]);                    \
        }                                                                                                         \
        memcpy(x, t, (size_t)w * sizeof *t);                                                                      \
        for (int64_t i = w; i < h; i++)                                                                           \
            all[spot[i - w]] += t[i];                                                                             \
    }                                                                                                             \
    INLINE void wide_backward_##name(int64_t w, int64_t h, const double *panel, const double *pivot, row_type *x, \
                                     const row_type *all, const int32_t *spot, double *buffer)                    \
    {                                                                                                             \
        row_type *t = (row_type *)buffer;                                                                         \
        for (int64_t i = 0; i < w; i++)                                                                           \
            t[i] = x[i] / pivot[i];                                                                               \
        for (int64_t i = w; i < h; i++)                                                                           \
            t[i] = all[spot[i - w]];                                                                              \
        for (int64_t k = (w - 1) / 4 * 4; k >= 0; k -= 4) {                                                       \
            const int64_t many = w - k < 4 ? w - k : 4;                                                           \
            const double *a[4];                                                                                   \
            row_type y[4] = { 0 };                                                                                \
            for (int64_t c = 0; c < 4; c++)                                                                       \
                a[c] = panel + (c < many ? k + c : k) * h;                                                        \
            for (int64_t i = k + many; i < h; i++) {                                                              \
                const row_type r = t[i];                                                                          \
                y[0] += a[0][i] * r;                                                                              \
                y[1] += a[1][i] * r;                                                                              \
                y[2] += a[2][i] * r;                                                                              \
                y[3] += a[3][i] * r;                                                                              \
            }                                                                                                     \
            for (int64_t c = many - 1; c >= 0; c--) {                                                             \
                for (int64_t i = c + 1; i < many; i++)                                                            \
                    y[c] += a[c][k + i] * t[k + i];                                                               \
                t[k + c] -= y[c];                                                                                 \
            }                                                                                                     \
        }                                                                                                         \
        memcpy(x, t, (size_t)w * sizeof *t);                                                                      \
    }
WIDE_BY_SIDES(4, four)
WIDE_BY_SIDES(8, pe_lanes)

/* Blocks begin .. end - 1 of a part. Most are of a few short columns: these are done in place. */
#define SUBSTITUTE(name, row_type)                                                                         \
    PE_CLONES static void forward_##name(const solving *v, int64_t begin, int64_t end, double *t)          \
    {                                                                                                      \
        row_type *all = (row_type *)v->all;                                                                \
        for (const pe_block *b = v->s->block + begin, *stop = v->s->block + end; b < stop; b++) {          \
            const int64_t w = b->width, r = b->rows, h = w + r;                                            \
            const double *a0 = v->entry + b->panel, *a1 = a0 + h, *a2 = a1 + h, *a3 = a2 + h;              \
            const int32_t *spot = v->s->spot + b->spot;                                                    \
            row_type *x = all + b->at;                                                                     \
            if (b + 1 < stop)                                                                              \
                prefetch(v->entry + b[1].panel, (int64_t)b[1].width * (b[1].width + b[1].rows));           \
            switch (w) {                                                                                   \
            case 1: {                                                                                      \
                const row_type x0 = x[0];                                                                  \
                for (int64_t i = 0; i < r; i++)                                                            \
                    all[spot[i]] -= a0[1 + i] * x0;                                                        \
                break;                                                                                     \
            }                                                                                              \
            case 2: {                                                                                      \
                const row_type x0 = x[0], x1 = x[1] -= a0[1] * x0;                                         \
                for (int64_t i = 0; i < r; i++)                                                            \
                    all[spot[i]] -= a0[2 + i] * x0 + a1[2 + i] * x1;                                       \
                break;                                                                                     \
            }                                                                                              \
            case 3: {                                                                                      \
                const row_type x0 = x[0], x1 = x[1] -= a0[1] * x0, x2 = x[2] -= a0[2] * x0 + a1[2] * x1;   \
                for (int64_t i = 0; i < r; i++)                                                            \
                    all[spot[i]] -= (a0[3 + i] * x0 + a1[3 + i] * x1) + a2[3 + i] * x2;                    \
                break;                                                                                     \
            }                                                                                              \
            case 4: {                                                                                      \
                const row_type x0 = x[0], x1 = x[1] -= a0[1] * x0, x2 = x[2] -= a0[2] * x0 + a1[2] * x1;   \
                const row_type x3 = x[3] -= (a0[3] * x0 + a1[3] * x1) + a2[3] * x2;                        \
                for (int64_t i = 0; i < r; i++)                                                            \
                    all[spot[i]] -= (a0[4 + i] * x0 + a1[4 + i] * x1) + (a2[4 + i] * x2 + a3[4 + i] * x3); \
                break;                                                                                     \
            }                                                                                              \
            default: wide_forward_##name(w, h, a0, x, all, spot, t);                                       \
            }                                                                                              \
        }                                                                                                  \
    }                                                                                                      \
    PE_CLONES static void backward_##name(const solving *v, int64_t begin, int64_t end, double *t)         \
    {                                                                                                      \
        row_type *all = (row_type *)v->all;                                                                \
        for (const pe_block *b = v->s->block + end - 1, *stop = v->s->block + begin; b >= stop; b--) {     \
            const int64_t w = b->width, r = b->rows, h = w + r;                                            \
            const double *a0 = v->entry + b->panel, *a1 = a0 + h, *a2 = a1 + h, *a3 = a2 + h;              \
            const double *pivot = v->pivot + b->first;                                                     \
            const int32_t *spot = v->s->spot + b->spot;                                                    \
            row_type *x = all + b->at, y0 = { 0 }, y1 = y0, y2 = y0, y3 = y0;                              \
            if (b > stop)                                                                                  \
                prefetch(v->entry + b[-1].panel, (int64_t)b[-1].width * (b[-1].width + b[-1].rows));       \
            switch (w) {                                                                                   \
            case 1:                                                                                        \
                for (int64_t i = 0; i < r; i++)                                                            \
                    y0 += a0[1 + i] * all[spot[i]];                                                        \
                x[0] = x[0] / pivot[0] - y0;                                                               \
                break;                                                                                     \
            case 2:                                                                                        \
                for (int64_t i = 0; i < r; i++) {                                                          \
                    const row_type z = all[spot[i]];                                                       \
                    y0 += a0[2 + i] * z;                                                                   \
                    y1 += a1[2 + i] * z;                                                                   \
                }                                                                                          \
                x[1] = x[1] / pivot[1] - y1;                                                               \
                x[0] = x[0] / pivot[0] - (y0 + a0[1] * x[1]);                                              \
                break;                                                                                     \
            case 3:                                                                                        \
                for (int64_t i = 0; i < r; i++) {                                                          \
                    const row_type z = all[spot[i]];                                                       \
                    y0 += a0[3 + i] * z;                                                                   \
                    y1 += a1[3 + i] * z;                                                                   \
                    y2 += a2[3 + i] * z;                                                                   \
                }                                                                                          \
                x[2] = x[2] / pivot[2] - y2;                                                               \
                x[1] = x[1] / pivot[1] - (y1 + a1[2] * x[2]);                                              \
                x[0] = x[0] / pivot[0] - ((y0 + a0[1] * x[1]) + a0[2] * x[2]);                             \
                break;                                                                                     \
            case 4:                                                                                        \
                for (int64_t i = 0; i < r; i++) {                                                          \
                    const row_type z = all[spot[i]];                                                       \
                    y0 += a0[4 + i] * z;                                                                   \
                    y1 += a1[4 + i] * z;                                                                   \
                    y2 += a2[4 + i] * z;                                                                   \
                    y3 += a3[4 + i] * z;                                                                   \
                }                                                                                          \
                x[3] = x[3] / pivot[3] - y3;                                                               \
                x[2] = x[2] / pivot[2] - (y2 + a2[3] * x[3]);                                              \
                x[1] = x[1] / pivot[1] - ((y1 + a1[2] * x[2]) + a1[3] * x[3]);                             \
                x[0] = x[0] / pivot[0] - (((y0 + a0[1] * x[1]) + a0[2] * x[2]) + a0[3] * x[3]);            \
                break;                                                                                     \
            default: wide_backward_##name(w, h, a0, pivot, x, all, spot, t);                               \
            }                                                                                              \
        }                                                                                                  \
    }

SUBSTITUTE(1, double)
SUBSTITUTE(2, pair)
SUBSTITUTE(4, four)
SUBSTITUTE(8, pe_lanes)

void pe_sides_load(const pe_sides *s, const int32_t *order, int64_t rows, int64_t begin, int64_t end, double *to)
{
    const int64_t width = s->width, stop = end < rows ? end : rows;
    const double *x = s->x[0], *y = s->x[width - 1];
    if (begin < stop && width == 1 && s->stride == 1 && !order)
        memcpy(to, x + begin, (size_t)(stop - begin) * sizeof *to);
    else if (width == 2 && s->stride == 1 && !order)
        for (int64_t k = begin; k < stop; k++) {
            to[2 * (k - begin)] = x[k];
            to[2 * (k - begin) + 1] = y[k];
        }
    else
        for (int64_t k = begin; k < stop; k++) {
            const int64_t from = (order ? order[k] : k) * s->stride;
            for (int64_t c = 0; c < width; c++)
                to[(k - begin) * width + c] = s->x[c][from];
        }
    for (int64_t i = ((stop > begin ? stop : begin) - begin) * width; i < (end - begin) * width; i++)
        to[i] = 0;
}

void pe_sides_store(const pe_sides *s, const int32_t *order, int64_t begin, int64_t end, const double *from)
{
    const int64_t width = s->width;
    double *x = s->y[0], *y = s->y[width - 1];
    if (width == 1 && s->stride == 1 && !order)
        memcpy(x + begin, from, (size_t)(end - begin) * sizeof *from);
    else if (width == 2 && s->stride == 1 && !order)
        for (int64_t k = begin; k < end; k++) {
            x[k] = from[2 * (k - begin)];
            y[k] = from[2 * (k - begin) + 1];
        }
    else
        for (int64_t k = begin; k < end; k++) {
            const int64_t to = (order ? order[k] : k) * s->stride;
            for (int64_t c = 0; c < width; c++)
                s->y[c][to] = from[(k - begin) * width + c];
        }
}

static void load(const solving *v, int64_t begin, int64_t end, int64_t at)
{
    pe_sides_load(v->sides, v->order, v->rows, begin, end, v->all + at * v->sides->width);
}

static void store(const solving *v, int64_t begin, int64_t end, int64_t at)
{
    pe_sides_store(v->sides, v->order, begin, end, v->all + at * v->sides->width);
}

/* Of a part's own columns, which are a few runs. */
static void each_run(const solving *v, const pe_subtree *p,
                     void (*with)(const solving *v, int64_t begin, int64_t end, int64_t at))
{
    const pe_block *b = v->s->block + p->begin, *stop = v->s->block + p->end;
    while (b < stop) {
        const int64_t begin = b->first, at = b->at;
        int64_t end = begin;
        for (; b < stop && b->first == end; b++)
            end += b->width;
        with(v, begin, end, at);
    }
}

static posenc_status solve_part(const solving *v, int64_t part, pe_pace *pace)
{
    typedef void kernel(const solving *v, int64_t begin, int64_t end, double *t);
    static kernel *const forward[] = { forward_1, forward_2, forward_4, forward_8 };
    static kernel *const backward[] = { backward_1, backward_2, backward_4, backward_8 };
    enum { STEP = 1 << 16, BLOCKS = 1 << 10 }; /* at most, between two looks at the pace: entries; blocks */
    const pe_supernodes *s = v->s;
    const pe_subtree *p = &s->cut.part[part];
    const int64_t width = v->sides->width, n = s->first[s->count];
    const int which = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
    double *out = v->all + (p->at + p->own) * width, *t = out + p->out * width;
    posenc_status st = PE_OK;
    if (v->down) {
        each_run(v, p, load);
        memset(out, 0, (size_t)(p->out * width) * sizeof *out);
        for (int32_t kid = p->kid; kid >= 0; kid = s->cut.part[kid].next_kid) {
            const double *from = v->all + (s->cut.part[kid].at + s->cut.part[kid].own) * width;
            for (int64_t i = 0; i < s->cut.part[kid].out; i++)
                for (int64_t c = 0; c < width; c++)
                    v->all[s->cut.up[s->cut.part[kid].to + i] * width + c] += from[i * width + c];
        }
    } else {
        for (int64_t i = 0; i < p->out; i++)
            memcpy(out + i * width, v->all + s->cut.up[p->to + i] * width, (size_t)width * sizeof *out);
    }
    st = pe_pace_add(pace, (p->own + p->out) * (width + 2));
    for (int64_t done = 0, many, all = p->end - p->begin; done < all && !st; done += many) {
        int64_t begin, steps;
        for (many = all - done < BLOCKS ? all - done : BLOCKS;; many /= 2) {
            begin = v->down ? p->begin + done : p->end - done - many;
            const pe_block *first = &s->block[begin], *last = first + many - 1;
            steps = last->panel - first->panel + (int64_t)last->width * (last->width + last->rows) + 16 * many;
            if (steps <= STEP || many == 1)
                break;
        }
        (v->down ? forward : backward)[which](v, begin, begin + many, t);
        st = pe_pace_add(pace, steps * (width + 1) / 2);
    }
    if (!v->down)
        each_run(v, p, store);
    else if (part == s->cut.tier[PE_TIERS]) /* what was left out stays 0; it is the end of the last block */
        memset(v->all + (p->at + p->own - (n - v->rows)) * width, 0, (size_t)((n - v->rows) * width) * sizeof *out);
    return st;
}

static posenc_status solve_task(void *arg, int64_t i, posenc_error *err)
{
    const solving *v = arg;
    pe_pace pace = { .ctx = v->ctx, .left = PE_PACE_STEPS };
    (void)err;
    return solve_part(v, v->tier + i, &pace);
}

posenc_status pe_supernodes_solve(const pe_supernodes *s, const double *entry, const double *pivot, const int32_t *order,
                                  int64_t rows, const pe_sides *sides, double *scratch, pe_pace *pace)
{
    solving v = { .s = s,
                  .entry = entry,
                  .pivot = pivot,
                  .order = order,
                  .rows = rows,
                  .sides = sides,
                  .all = scratch,
                  .ctx = pace->ctx,
                  .down = true };
    posenc_status st = PE_OK;
    for (int i = 0; i < PE_TIERS && !st; i++) {
        v.tier = s->cut.tier[i];
        st = pe_parallel(v.ctx, s->cut.tier[i + 1] - s->cut.tier[i], 0, solve_task, &v, NULL);
    }
    if (!st && !(st = solve_part(&v, s->cut.tier[PE_TIERS], pace))) {
        v.down = false;
        st = solve_part(&v, s->cut.tier[PE_TIERS], pace);
    }
    for (int i = PE_TIERS - 1; i >= 0 && !st; i--) {
        v.tier = s->cut.tier[i];
        st = pe_parallel(v.ctx, s->cut.tier[i + 1] - s->cut.tier[i], 0, solve_task, &v, NULL);
    }
    return st;
}
