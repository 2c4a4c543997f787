/* small.c - groups of eight components: order, fill, solve, measure. */
#include "linalg/small.h"
#include "core/exact.h"
#include "core/lanes.h"
#include "core/params.h"
#include "linalg/lane_eigen.h"
#include "linalg/sparse_small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef double loose __attribute__((vector_size(64), aligned(8)));

static int64_t total(const pe_small *s) { return s->c.kernel ? s->c.n - 1 : s->c.n; }
static int64_t panels(int64_t count) { return (count + PE_LANES - 1) / PE_LANES; }

/* ---- one component as a lane ---- */

/* What is kept of a component while its group is solved. */
typedef struct prepared {
    double *gauge;       /* (n) 1 / sqrt(degree) of sym */
    double *entry;       /* (arcs) L's off-diagonal entries */
    int32_t *place;      /* (n) row of the lane's matrix */
    int32_t *queue;      /* (n + 1) */
    const int32_t *node; /* (n) the inverse of place */
} prepared;

/* Rows in breadth-first order: a narrow profile, which the reduction profits from. An end of the component would be no
 * better place to begin than row 0.
 *   queue   (n + 1) scratch
 * Returns the order. */
static const int32_t *arrange(const pe_component *c, int32_t *place, int32_t *queue)
{
    int64_t head = 0, tail = 0;
    if (c->order) {
        for (int32_t i = 0; i < c->n; i++)
            place[c->order[i]] = i;
        return c->order;
    }
    for (int64_t i = 0; i < c->n; i++)
        place[i] = -1;
    queue[tail] = 0;
    place[0] = (int32_t)tail++;
    while (head < tail) {
        const int32_t u = queue[head++];
        for (int64_t p = c->ptr[u]; p < c->ptr[u + 1]; p++) { /* without a branch that nobody can predict */
            const int32_t v = c->col[p], at = place[v];
            queue[tail] = v;
            place[v] = at < 0 ? (int32_t)tail : at;
            tail += at < 0;
        }
    }
    return queue;
}

/* The gauge, L's entries; a power of two that brings its spectrum into 0 .. 4. */
static double weigh(const pe_component *c, const prepared *q)
{
    double most = 0;
    for (int64_t i = 0; i < c->n; i++) {
        most = pe_max(most, pe_max(c->degree[i], c->diagonal ? c->diagonal[i] : 0));
        if (c->normalized)
            q->gauge[i] = 1 / sqrt(c->degree[i]);
    }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            const double w = c->weight ? c->weight[p] : 1;
            q->entry[p] = -(c->normalized ? w * (q->gauge[i] * q->gauge[c->col[p]]) : w);
        }
    int exponent;
    frexp(c->normalized ? 2 : 2 * most, &exponent); /* no eigenvalue is above this bound */
    return ldexp(1, 2 - exponent);
}

static void fill(pe_group *g, int lane, const pe_component *c, int64_t want, const prepared *q)
{
    g->scale[lane] = weigh(c, q);
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t r = q->place[i];
        *pe_group_entry(g, r, r, lane) = c->normalized ? 1 : c->diagonal ? c->diagonal[i] : c->degree[i];
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            const int64_t s = q->place[c->col[p]];
            if (s < r) {
                *pe_group_entry(g, r, s, lane) = q->entry[p];
                g->start[r] = s < g->start[r] ? (int32_t)s : g->start[r];
            }
        }
    }
    g->rows[lane] = c->n;
    g->first[lane] = c->kernel != NULL;
    g->want[lane] = want;
}

/* ---- measuring ---- */

/* The unit columns of x, less their share of the kernel vector, their Rayleigh quotients and residuals. The quotient is a
 * sum of squares over edges, so that even a tiny eigenvalue has small relative error, and what a diagonal of its own adds.
 */
PE_BODY void settle_body(const pe_component *c, const double *gauge, const double *entry, double *panel, double *values,
                         double *residuals)
{
    const int64_t n = c->n;
    loose *x = (loose *)panel;
    const pe_lanes zero = { 0 };
    pe_lanes sum = zero, square = zero;
    for (int64_t i = 0; i < n && c->kernel; i++)
        PE_FMA(sum, c->kernel[i] + zero, x[i], sum);
    for (int64_t i = 0; i < n; i++) {
        pe_lanes v = x[i];
        if (c->kernel)
            PE_FMA(v, -sum, c->kernel[i] + zero, v);
        x[i] = v;
        PE_FMA(square, v, v, square);
    }
    double length[PE_LANES];
    memcpy(length, &square, sizeof length);
    for (int k = 0; k < PE_LANES; k++)
        length[k] = length[k] > 0 ? 1 / sqrt(length[k]) : 0; /* 0: no column */
    memcpy(&square, length, sizeof length);
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] * square;
    pe_lanes quotient = { 0 }, rest = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const pe_lanes own = (gauge ? gauge[i] : 1) * x[i];
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++) {
            const int64_t j = c->col[p];
            if (j <= i)
                continue;
            const double w = c->weight ? c->weight[p] : 1;
            const pe_lanes d = own - copysign(gauge ? gauge[j] : 1, w) * x[j];
            PE_FMA(quotient, fabs(w) * d, d, quotient);
        }
    }
    const double *diagonal = c->diagonal ? c->diagonal : c->degree;
    for (int64_t i = 0; i < n && c->diagonal; i++)
        PE_FMA(quotient, (c->diagonal[i] - c->degree[i]) * x[i], x[i], quotient);
    for (int64_t i = 0; i < n; i++) {
        pe_lanes y = ((gauge ? 1 : diagonal[i]) - quotient) * x[i];
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++)
            PE_FMA(y, entry[p] + zero, x[c->col[p]], y);
        PE_FMA(rest, y, y, rest);
    }
    memcpy(values, &quotient, sizeof quotient);
    memcpy(residuals, &rest, sizeof rest);
    for (int k = 0; k < PE_LANES; k++)
        residuals[k] = sqrt(residuals[k]);
}
PE_KERNEL(settle, settle_body,
          (const pe_component *c, const double *gauge, const double *entry, double *panel, double *values,
           double *residuals),
          (c, gauge, entry, panel, values, residuals))

PE_BODY void extent_body(int64_t n, const double *panel, double *most, double *least)
{
    const loose *x = (const loose *)panel;
    pe_lanes high = { 0 }, low = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const pe_lanes v = x[i];
        high = PE_SELECT((pe_masks)(high - v) >> 63, v, high);
        low = PE_SELECT((pe_masks)(v - low) >> 63, v, low);
    }
    memcpy(most, &high, sizeof high);
    memcpy(least, &low, sizeof low);
}
PE_KERNEL(extent, extent_body, (int64_t n, const double *panel, double *most, double *least), (n, panel, most, least))

void pe_panel_extent(int64_t n, const double *x, double most[8], double least[8])
{
    extent_paths[pe_simd()](n, x, most, least);
}

PE_BODY void scale_body(int64_t n, double *panel, const double *by)
{
    loose *x = (loose *)panel;
    pe_lanes f;
    memcpy(&f, by, sizeof f);
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] * f + 0.0;
}
PE_KERNEL(scale, scale_body, (int64_t n, double *panel, const double *by), (n, panel, by))

void pe_panel_scale(int64_t n, double *x, const double by[8]) { scale_paths[pe_simd()](n, x, by); }

/* dots[8 j + k]: column j of a by column k of b. */
PE_BODY void gram_body(int64_t n, const double *a, const double *b, double *dots)
{
    pe_lanes sum[PE_LANES] = { { 0 } };
    for (int64_t i = 0; i < n; i++) {
        const pe_lanes x = ((const loose *)b)[i];
        for (int j = 0; j < PE_LANES; j++)
            PE_FMA(sum[j], a[i * PE_LANES + j] + (pe_lanes){ 0 }, x, sum[j]);
    }
    memcpy(dots, sum, sizeof sum);
}
PE_KERNEL(gram, gram_body, (int64_t n, const double *a, const double *b, double *dots), (n, a, b, dots))

void pe_panel_dots(int64_t n, const double *a, const double *b, double dots[64]) { gram_paths[pe_simd()](n, a, b, dots); }

/* dots[k]: v by column k. */
PE_BODY void share_body(int64_t n, const double *v, const double *panel, double *dots)
{
    pe_lanes sum = { 0 };
    for (int64_t i = 0; i < n; i++)
        PE_FMA(sum, v[i] + (pe_lanes){ 0 }, ((const loose *)panel)[i], sum);
    memcpy(dots, &sum, sizeof sum);
}
PE_KERNEL(share, share_body, (int64_t n, const double *v, const double *panel, double *dots), (n, v, panel, dots))

/* What rounding leaves of a good vector is far below; what is above is done again the scalar way. Residuals alone say little
 * where eigenvalues are close to each other or to 0: vectors may be copies of each other, or of the kernel. */
static const double accepted = 5e-15, askew = 1e-11;

static bool orthonormal(const pe_pairs *o, const double *kernel)
{
    double dots[PE_LANES * PE_LANES];
    bool good = true; /* NaN is not */
    for (int64_t q = 0; q < panels(o->count); q++) {
        const double *b = o->panels + q * o->n * PE_LANES;
        const int64_t columns = o->count - q * PE_LANES < PE_LANES ? o->count - q * PE_LANES : PE_LANES;
        for (int64_t p = 0; p <= q; p++) {
            gram_paths[pe_simd()](o->n, o->panels + p * o->n * PE_LANES, b, dots);
            for (int64_t j = 0; j < (p < q ? PE_LANES : columns); j++)
                for (int64_t k = 0; k < columns; k++)
                    good = good && fabs(dots[j * PE_LANES + k] - (p == q && j == k)) <= askew;
        }
        if (kernel)
            share_paths[pe_simd()](o->n, kernel, b, dots);
        for (int64_t k = 0; kernel && k < columns; k++)
            good = good && fabs(dots[k]) <= askew;
    }
    return good;
}

/* Puts column `from` in front of column `to` <= from. */
static void move(pe_pairs *o, int64_t from, int64_t to)
{
    const double value = o->values[from], residual = o->residuals[from];
    for (int64_t k = from; k > to; k--) {
        o->values[k] = o->values[k - 1];
        o->residuals[k] = o->residuals[k - 1];
    }
    o->values[to] = value;
    o->residuals[to] = residual;
    for (int64_t i = 0; i < o->n; i++) {
        const double v = o->panels[(from / PE_LANES * o->n + i) * PE_LANES + from % PE_LANES];
        for (int64_t k = from; k > to; k--)
            o->panels[(k / PE_LANES * o->n + i) * PE_LANES + k % PE_LANES] =
                o->panels[((k - 1) / PE_LANES * o->n + i) * PE_LANES + (k - 1) % PE_LANES];
        o->panels[(to / PE_LANES * o->n + i) * PE_LANES + to % PE_LANES] = v;
    }
}

/* Rows i of eight columns of each lane, (8, 8) by column and lane, become rows of the lanes' panels.
 *   row   where each lane's row goes */
PE_BODY void transpose_body(const double *from, int64_t stride, double *const *row)
{
    pe_lanes a[8], b[8];
    for (int k = 0; k < 8; k++)
        a[k] = *(const loose *)(from + k * stride) + 0.0; /* no negative zeros */
    for (int k = 0; k < 8; k += 2) {
        b[k] = __builtin_shufflevector(a[k], a[k + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[k + 1] = __builtin_shufflevector(a[k], a[k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int k = 0; k < 8; k += 4)
        for (int i = k; i < k + 2; i++) {
            a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[i + 2] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        const pe_lanes low = __builtin_shufflevector(a[k], a[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        const pe_lanes high = __builtin_shufflevector(a[k], a[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        *(loose *)row[k] = low;
        *(loose *)row[k + 4] = high;
    }
}

/* Eight columns of each lane's matrix become a panel of its component's rows.
 *   to      panels by lane, NULL: none      spare   (8) */
PE_BODY void extract_body(const pe_group *g, int64_t first, double *const *to, const int32_t *const *node, double *spare)
{
    for (int64_t i = 0; i < g->n; i++) {
        double *row[PE_GROUP];
        for (int l = 0; l < PE_GROUP; l++)
            row[l] = to[l] && i < g->rows[l] ? to[l] + node[l][i] * PE_LANES : spare;
        transpose_body(g->vector + (first * g->n + i) * PE_GROUP, g->n * PE_GROUP, row);
    }
}
PE_KERNEL(extract, extract_body,
          (const pe_group *g, int64_t first, double *const *to, const int32_t *const *node, double *spare),
          (g, first, to, node, spare))

/* One column of one lane. */
static void extract_one(const pe_group *g, int64_t j, int lane, const int32_t *node, double *to)
{
    const double *from = g->vector + j * g->n * PE_GROUP + lane;
    for (int64_t i = 0; i < g->rows[lane]; i++)
        to[node[i] * PE_LANES] = from[i * PE_GROUP] + 0.0;
}

typedef enum verdict { SOLVED, INCOMPLETE, DOUBTFUL } verdict;

/* Memory for `want` pairs. */
static posenc_status allocate(const pe_small *s, int64_t want, posenc_error *err)
{
    const int64_t n = s->c.n, np = panels(want);
    const bool fits = s->room && np == panels(s->want);
    double *memory = fits ? s->room : malloc(pe_small_room(n, want) * sizeof *memory);
    if (!memory)
        return pe_no_memory("memory", err);
    *s->out = (pe_pairs){ .n = n,
                          .count = want,
                          .next = INFINITY,
                          .panels = memory,
                          .memory = fits ? NULL : memory,
                          .borrowed = fits,
                          .values = memory + n * np * PE_LANES,
                          .residuals = memory + (n + 1) * np * PE_LANES };
    return PE_OK;
}

/* Whether something speaks against a pair of the lane. */
static bool doubted(const pe_group *g, int lane, int64_t want)
{
    bool doubt = false;
    for (int64_t j = 0; j < want; j++)
        doubt = doubt || g->doubt[j * PE_GROUP + lane] != 0;
    return doubt;
}

/* Measures what was found, orders it, and says whether all is right.
 *   bound   of the spectrum */
static bool measured(const pe_small *s, const prepared *q, double bound)
{
    pe_pairs *o = s->out;
    const int64_t n = o->n, want = o->count;
    bool good = want > 0;
    for (int64_t p = 0; p < panels(want); p++) {
        double *panel = o->panels + p * n * PE_LANES;
        const int64_t used = want - p * PE_LANES; /* the columns of longer neighbours are none of this one's */
        for (int64_t i = 0; i < n && used < PE_LANES; i++)
            memset(panel + i * PE_LANES + used, 0, (size_t)(PE_LANES - used) * sizeof *panel);
        settle_paths[pe_simd()](&s->c, s->c.normalized ? q->gauge : NULL, q->entry, panel, o->values + p * PE_LANES,
                                o->residuals + p * PE_LANES);
    }
    for (int64_t j = 1; j < want; j++) {
        int64_t to = j;
        while (to && o->values[to - 1] > o->values[j])
            to--;
        if (to < j)
            move(o, j, to);
    }
    for (int64_t j = 0; j < want; j++)
        good = good && o->residuals[j] <= accepted * bound && o->residuals[j] <= s->tol * bound / 2;
    return good && orthonormal(o, s->c.kernel);
}

/* SOLVED when all is right and the cluster of the last pair whole; else s->out is emptied.
 *   next   the eigenvalue after the last pair */
static verdict judge(const pe_small *s, const prepared *q, double bound, double next)
{
    pe_pairs *o = s->out;
    const bool good = measured(s, q, bound);
    if (good && o->count < total(s))
        o->next = next;
    const bool whole = good && !(o->next - o->values[o->count - 1] < PE_GROUP_CLUSTER / 4 * bound);
    if (!whole)
        pe_pairs_fini(o);
    return !good ? DOUBTFUL : whole ? SOLVED : INCOMPLETE;
}

/* ---- many ---- */

enum { MORE = 4 }; /* pairs that a group finds beyond those sought, where that completes a cluster */

typedef struct round_state {
    pe_small *jobs;
    int32_t *order; /* (count) jobs, ascending by rows */
    int64_t *want;  /* (count) by job: pairs of this round; 0: done */
    pe_group g;
    prepared lane[PE_GROUP];
} round_state;

static posenc_status solve_group(round_state *r, const int32_t *job, int count, pe_pace *pace, posenc_error *err)
{
    int64_t n = 2, chains = 1;
    for (int l = 0; l < count; l++) {
        n = r->jobs[job[l]].c.n > n ? r->jobs[job[l]].c.n : n;
        chains = r->want[job[l]] > chains ? r->want[job[l]] : chains;
    }
    pe_group_clear(&r->g, n);
    r->g.chains = chains;
    for (int l = 0; l < count; l++) {
        const pe_component *c = &r->jobs[job[l]].c;
        r->lane[l].node = arrange(c, r->lane[l].place, r->lane[l].queue);
        fill(&r->g, l, c, r->want[job[l]], &r->lane[l]);
    }
    double *to[PE_GROUP] = { NULL }, spare[PE_LANES];
    const int32_t *node[PE_GROUP] = { NULL };
    posenc_status st = pe_group_solve(&r->g, pace);
    for (int l = 0; l < count && !st; l++) {
        if (!doubted(&r->g, l, r->g.want[l]))
            st = allocate(&r->jobs[job[l]], r->g.want[l], err);
        node[l] = r->lane[l].node;
    }
    for (int64_t first = 0; first < r->g.chains && !st; first += PE_LANES) {
        bool many = false;
        for (int l = 0; l < count; l++) {
            const pe_pairs *o = r->jobs[job[l]].out;
            const int64_t columns = o->count - first;
            to[l] = columns > 2 ? o->panels + first * o->n : NULL;
            many = many || columns > 2;
            for (int64_t k = 0; k < columns && columns <= 2; k++)
                extract_one(&r->g, first + k, l, node[l], o->panels + first * o->n + k);
        }
        if (many)
            extract_paths[pe_simd()](&r->g, first, to, node, spare);
        st = pe_pace_add(pace, 16 * n);
    }
    for (int l = 0; l < count && !st; l++) {
        const pe_small *s = &r->jobs[job[l]];
        const int64_t want = r->g.want[l], all = total(s), more = 2 * want;
        const double next = r->g.counted[want * PE_GROUP + l];
        const verdict v = judge(s, &r->lane[l], 4 / r->g.scale[l], next);
        r->want[job[l]] = v == INCOMPLETE ? (more < all ? more : all) : 0;
        st = pe_pace_add(pace, want * (s->c.ptr[s->c.n] + 4 * s->c.n));
    }
    return st;
}

/* One component by its sparse factors; what they do not suffice for is left to the lanes. */
static posenc_status solve_sparse(round_state *r, int64_t job, pe_sparse_solver *sparse, pe_pace *pace, posenc_error *err)
{
    const pe_small *s = &r->jobs[job];
    const prepared *q = &r->lane[0];
    const double scale = weigh(&s->c, q), bound = 4 / scale;
    pe_pairs *o = s->out;
    posenc_status st = PE_OK;
    int64_t want = s->want;
    if (!pe_sparse_analyse(sparse, &s->c, q->entry, scale))
        return PE_OK;
    for (bool careful = false; want <= PE_SPARSE_WANT && 3 * want <= s->c.n;) { /* more: all at once */
        int64_t count = want;
        if ((st = allocate(s, want, err)) || (st = pe_sparse_pairs(sparse, want, careful, o->panels, pace)))
            break;
        const bool good = measured(s, q, bound);
        if (good && want < total(s))
            st = pe_sparse_prove(sparse, want, o->values[want - 1], &count, &o->next, pace);
        if (st)
            break;
        if (good && count == want) {
            r->want[job] = 0;
            return PE_OK;
        }
        pe_pairs_fini(o);
        if (careful && !(good && count > want))
            return PE_OK;
        careful = !good || count < want;
        want = count > want ? count : want;
    }
    if (st)
        pe_pairs_fini(o);
    return st;
}

static int64_t largest_arcs(const pe_small *jobs, int64_t count)
{
    int64_t arcs = 1;
    for (int64_t i = 0; i < count; i++)
        arcs = jobs[i].c.ptr[jobs[i].c.n] > arcs ? jobs[i].c.ptr[jobs[i].c.n] : arcs;
    return arcs;
}

/* The jobs that are left, stably by rows. */
static int64_t list(const round_state *r, int64_t count)
{
    int64_t at[PE_SMALL_ROWS + 2] = { 0 };
    for (int64_t i = 0; i < count; i++)
        if (r->want[i])
            at[r->jobs[i].c.n + 1]++;
    for (int i = 0; i <= PE_SMALL_ROWS; i++)
        at[i + 1] += at[i];
    for (int64_t i = 0; i < count; i++)
        if (r->want[i])
            r->order[at[r->jobs[i].c.n]++] = (int32_t)i;
    return at[PE_SMALL_ROWS];
}

posenc_status pe_small_solve(pe_small *jobs, int64_t count, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    round_state r = { .jobs = jobs };
    const int64_t arcs = largest_arcs(jobs, count);
    int64_t rows = 2, left;
    void *lanes = NULL, *memory = NULL;
    pe_sparse_solver *sparse = NULL;
    size_t had = 0;
    if (!count)
        return PE_OK;
    for (int64_t i = 0; i < count; i++)
        rows = jobs[i].c.n > rows ? jobs[i].c.n : rows;
    const size_t doubles = (size_t)(rows + arcs) * PE_GROUP, ints = (size_t)(2 * rows + 1) * PE_GROUP + (size_t)count;
    memory = malloc((doubles + (size_t)count) * sizeof(double) + ints * sizeof(int32_t));
    if (!memory)
        return pe_no_memory("memory", err);
    double *d = memory;
    r.want = (int64_t *)(d + doubles);
    int32_t *i32 = (int32_t *)(r.want + count);
    for (int l = 0; l < PE_GROUP; l++) {
        r.lane[l] = (prepared){ d, d + rows, i32, i32 + rows, NULL };
        d += rows + arcs;
        i32 += 2 * rows + 1;
    }
    r.order = i32;
    for (int64_t i = 0; i < count; i++) {
        *jobs[i].out = (pe_pairs){ 0 };
        r.want[i] = jobs[i].want;
    }
    if (rows >= PE_SPARSE_LEAST && !(sparse = pe_sparse_new()))
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < count && !st; i++)
        if (jobs[i].c.n >= PE_SPARSE_LEAST)
            st = solve_sparse(&r, i, sparse, pace, err);
    free(sparse);
    while (!st && (left = list(&r, count))) {
        int64_t chains = 1;
        for (int64_t i = 0; i < count; i++)
            chains = r.want[i] > chains ? r.want[i] : chains;
        const size_t size = pe_group_bytes(rows, chains + MORE);
        if (size > had) {
            free(lanes);
            lanes = aligned_alloc(64, size);
            had = size;
        }
        if (!lanes) {
            st = pe_no_memory("memory", err);
            break;
        }
        pe_group_init(&r.g, rows, chains + MORE, lanes);
        for (int64_t i = 0; i < left && !st; i += PE_GROUP)
            st = solve_group(&r, r.order + i, left - i < PE_GROUP ? (int)(left - i) : PE_GROUP, pace, err);
    }
    free(lanes);
    free(memory);
    for (int64_t i = 0; i < count && st; i++)
        pe_pairs_fini(jobs[i].out);
    return st;
}

uint64_t pe_small_bytes(int64_t rows, int64_t arcs, int64_t want, int64_t count)
{
    const int64_t most = 2 * (want + MORE) +
                         MORE; /* clusters are completed in rounds; those of more are rare and no larger */
    return pe_group_bytes(rows, most < rows ? most : rows) + (uint64_t)(16 * rows + 8 * arcs) * PE_GROUP +
           (uint64_t)count * 12 + (rows < PE_SPARSE_LEAST ? 0 : pe_sparse_bytes());
}
