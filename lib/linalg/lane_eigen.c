/* lane_eigen.c - some eigenpairs of eight small symmetric matrices at once. */
#include "linalg/lane_eigen.h"
#include "core/lanes.h"

#include <math.h>
#include <string.h>

/* Rows beyond a lane's own are zero. The reduction begins at the last row, so that such rows have no reflector and change
 * nothing, and the rows that are left are those that the matrix has alone. */

#define ABS(x) ((pe_lanes)((pe_masks)(x)&INT64_MAX))
#define SIGN(x) ((pe_masks)(x) >> 63) /* all bits where negative */
#define LESS(x, y) SIGN((x) - (y))
#define AT(p, i) (((pe_lanes *)(p))[i])
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

enum {
    CHAINS = 3, /* of bisection, interleaved to hide latency */
    PAIRS = 4,  /* of inverse iteration */
    STEPS = 22, /* of bisection, after the grid: to 2^-23 */
    ROUNDS = 4, /* of inverse iteration; two for most */
    RESCALE = 16
};

static const double tiny = 0x1p-106; /* of an interval of 4: what keeps Sturm's sequence from vanishing */

static int64_t triangle(int64_t n) { return n * (n + 1) / 2; }
static int64_t padded(int64_t chains) { return (chains + 12) / 12 * 12; } /* blocks of three and of four, and one more */

enum { VECTORS = 10 }; /* of n lanes in `work` */

static size_t lanes_of(int64_t rows, int64_t chains)
{
    const int64_t c = padded(chains);
    return (size_t)(triangle(rows) + 2 + 5 * c + c * rows + VECTORS * rows + 6 * PAIRS * rows + (c * rows + 7) / 8);
}

size_t pe_group_bytes(int64_t rows, int64_t chains)
{
    return lanes_of(rows, chains) * sizeof(pe_lanes) + ((size_t)rows * sizeof(int32_t) + 63) / 64 * 64;
}

/* The start of inverse iteration: any vector that no eigenvector is orthogonal to. */
static double noise(int64_t j, int64_t i)
{
    uint64_t x = (uint64_t)(j * 1024 + i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    double v = (double)(x >> 12) * 0x1p-52 + 0.25;
    return x & 1 ? v : -v;
}

void pe_group_init(pe_group *g, int64_t rows, int64_t chains, void *memory)
{
    const int64_t c = padded(chains);
    double *p = memory;
    *g = (pe_group){ .n = rows, .chains = chains, .most = chains, .stride = rows };
    g->a = p;
    p += triangle(rows) * PE_LANES;
    g->scale = p;
    p += PE_LANES;
    g->first = p;
    p += PE_LANES;
    g->value = p;
    p += c * PE_LANES;
    g->counted = p;
    p += c * PE_LANES;
    g->low = p;
    p += c * PE_LANES;
    g->high = p;
    p += c * PE_LANES;
    g->doubt = p;
    p += c * PE_LANES;
    g->vector = p;
    p += c * rows * PE_LANES;
    g->work = p;
    p += (VECTORS + 6 * PAIRS) * rows * PE_LANES;
    g->noise = p;
    p += (c * rows + 7) / 8 * PE_LANES;
    g->start = (int32_t *)p;
    for (int64_t j = 0; j < c; j++)
        for (int64_t i = 0; i < rows; i++)
            g->noise[j * rows + i] = noise(j, i);
}

void pe_group_clear(pe_group *g, int64_t n)
{
    g->n = n;
    memset(g->a, 0, (size_t)triangle(n) * sizeof(pe_lanes));
    for (int64_t i = 0; i < n; i++)
        g->start[i] = (int32_t)i;
    for (int l = 0; l < PE_GROUP; l++) {
        g->rows[l] = g->want[l] = 0;
        g->scale[l] = 1;
        g->first[l] = 0;
    }
}

/* The tridiagonal matrices, and what made them. */
typedef struct reduced {
    pe_lanes *d, *e, *tau, *u, *w, *p, *v; /* (n) e[i] couples i - 1 and i; tau of the reflector of row i */
    pe_lanes *ds, *e2, *es;                /* scaled; squares */
} reduced;

static reduced parts(pe_group *g)
{
    pe_lanes *w = (pe_lanes *)g->work;
    const int64_t n = g->n;
    return (reduced){ w, w + n, w + 2 * n, w + 3 * n, w + 4 * n, w + 5 * n, w + 6 * n, w + 7 * n, w + 8 * n, w + 9 * n };
}

/* ---- reduction ---- */

PE_BODY void roots(pe_lanes *x)
{
    double v[PE_LANES];
    memcpy(v, x, sizeof v);
    for (int l = 0; l < PE_LANES; l++)
        v[l] = sqrt(v[l]);
    memcpy(x, v, sizeof v);
}

/* One row of the pending update and of the product with u. */
PE_BODY void pass_one(pe_lanes *row, int64_t r, int64_t from, const reduced *t)
{
    const pe_lanes vr = -t->v[r], wr = -t->w[r], ur = t->u[r];
    pe_lanes sum = { 0 }, x;
    for (int64_t j = from; j < r; j++) {
        PE_FMA(x, vr, t->w[j], row[j]);
        PE_FMA(x, wr, t->v[j], x);
        row[j] = x;
        PE_FMA(sum, x, t->u[j], sum);
        PE_FMA(t->p[j], x, ur, t->p[j]);
    }
    PE_FMA(x, vr, t->w[r], row[r]);
    PE_FMA(x, wr, t->v[r], x);
    row[r] = x;
    PE_FMA(sum, x, ur, sum);
    t->p[r] += sum;
}

/* Four rows r .. r + 3, the operations of each number in the same order. */
PE_BODY void pass_four(pe_lanes *a, int64_t r, int64_t from, const reduced *t)
{
    pe_lanes *row[4], v[4], w[4], u[4], s[4], x;
    UNROLL for (int k = 0; k < 4; k++)
    {
        row[k] = a + (r + k) * (r + k + 1) / 2;
        v[k] = -t->v[r + k];
        w[k] = -t->w[r + k];
        u[k] = t->u[r + k];
        s[k] = (pe_lanes){ 0 };
    }
    for (int64_t j = from; j < r; j++) {
        const pe_lanes vj = t->v[j], wj = t->w[j], uj = t->u[j];
        pe_lanes p = t->p[j];
        UNROLL for (int k = 0; k < 4; k++)
        {
            PE_FMA(x, v[k], wj, row[k][j]);
            PE_FMA(x, w[k], vj, x);
            row[k][j] = x;
            PE_FMA(s[k], x, uj, s[k]);
            PE_FMA(p, x, u[k], p);
        }
        t->p[j] = p;
    }
    /* the triangle on the diagonal */
    UNROLL for (int k = 0; k < 4; k++)
    {
        for (int i = 0; i <= k; i++) {
            PE_FMA(x, v[k], -w[i], row[k][r + i]);
            PE_FMA(x, w[k], -v[i], x);
            row[k][r + i] = x;
            PE_FMA(s[k], x, u[i], s[k]);
        }
        t->p[r + k] += s[k];
        for (int i = 0; i < k; i++)
            PE_FMA(t->p[r + i], row[k][r + i], u[k], t->p[r + i]);
    }
}

/* Householder, rows last .. end + 1 in this order, the rank-2 update of one step fused with the matrix-vector product of
 * the next. Entries left of start[i] are exact zeros in every lane and skipped: the profile grows as reflectors fill it. */
PE_BODY void reduce_body(pe_group *g, int64_t last, int64_t end)
{
    const int64_t n = g->n;
    const reduced t = parts(g);
    pe_lanes *a = (pe_lanes *)g->a;
    int32_t *start = g->start;
    const pe_lanes zero = { 0 }, one = PE_SPLAT(1);
    if (last == n - 1)
        memset(t.d, 0, (size_t)(7 * n) * sizeof(pe_lanes));
    for (int64_t i = last; i > end; i--) {
        pe_lanes *row = a + i * (i + 1) / 2;
        int64_t s = start[i] < i ? start[i] : i - 1;
        const pe_lanes vi = -t.v[i], wi = -t.w[i];
        pe_lanes square = zero, x;
        PE_FMA(x, vi, t.w[i], row[i]);
        PE_FMA(t.d[i], wi, t.v[i], x);
        for (int64_t j = s; j < i; j++) {
            PE_FMA(x, vi, t.w[j], row[j]);
            PE_FMA(x, wi, t.v[j], x);
            t.u[j] = x;
            if (j < i - 1)
                PE_FMA(square, x, x, square);
        }
        const pe_lanes x0 = t.u[i - 1];
        const pe_masks some = LESS(PE_SPLAT(0x1p-140), square); /* otherwise the row is as good as tridiagonal */
        pe_lanes norm;
        PE_FMA(norm, x0, x0, square);
        roots(&norm);
        const pe_lanes beta = (pe_lanes)((pe_masks)norm ^ (~SIGN(x0) & INT64_MIN));
        t.e[i] = PE_SELECT(some, beta, x0);
        const pe_lanes tau = PE_SELECT(some, (beta - x0) / beta, zero), by = PE_SELECT(some, one / (x0 - beta), zero);
        t.tau[i] = tau;
        for (int64_t j = s; j < i - 1; j++)
            row[j] = t.u[j] = t.u[j] * by;
        t.u[i - 1] = PE_SELECT(some, one, zero);

        int64_t q = s;
        for (int64_t r = s; r < i; r++)
            q = start[r] < q ? start[r] : q;
        for (int64_t j = q; j < i; j++)
            t.p[j] = zero;
        int64_t r = s;
        for (; r + 4 <= i; r += 4) {
            int64_t from = start[r];
            for (int k = 1; k < 4; k++)
                from = start[r + k] < from ? start[r + k] : from;
            pass_four(a, r, from < r ? from : r, &t);
        }
        for (; r < i; r++)
            pass_one(a + r * (r + 1) / 2, r, start[r], &t);
        pe_lanes sum = zero, rest = zero;
        int64_t j = i - 1; /* from the end, where the sums of any profile begin */
        for (; j > s; j -= 2) {
            PE_FMA(sum, t.p[j], t.u[j], sum);
            PE_FMA(rest, t.p[j - 1], t.u[j - 1], rest);
        }
        if (j == s)
            PE_FMA(sum, t.p[j], t.u[j], sum);
        const pe_lanes half = (sum + rest) * tau * tau * -0.5;
        for (j = q; j < i; j++) {
            PE_FMA(t.w[j], half, t.u[j], tau * t.p[j]);
            t.v[j] = t.u[j];
        }
        for (r = s; r < i; r++)
            start[r] = (int32_t)(q < start[r] ? q : start[r]);
    }
    if (!end)
        t.d[0] = (a[0] - t.v[0] * t.w[0]) - t.w[0] * t.v[0];
}
PE_KERNEL(reduce, reduce_body, (pe_group * g, int64_t last, int64_t end), (g, last, end))

/* ---- eigenvalues ---- */

/* How many eigenvalues lie below x, for CHAINS shifts at a time. Rows from `even` on are not there in some lane. */
PE_BODY void count_below(const reduced *t, int64_t n, int64_t even, const pe_masks *inside, const pe_lanes *x,
                         pe_masks *count)
{
    pe_lanes p0[CHAINS], p1[CHAINS];
    pe_masks c[CHAINS];
    UNROLL for (int b = 0; b < CHAINS; b++)
    {
        p0[b] = PE_SPLAT(1);
        p1[b] = t->ds[0] - x[b];
        c[b] = SIGN(p1[b]);
    }
    for (int64_t i = 1; i < n;) {
        int64_t stop = (i / RESCALE + 1) * RESCALE;
        stop = stop < n ? stop : n;
        for (; i < (stop < even ? stop : even); i++) {
            const pe_lanes d = t->ds[i], e = t->e2[i];
            UNROLL for (int b = 0; b < CHAINS; b++)
            {
                pe_lanes p2;
                PE_FMA(p2, d - x[b], p1[b], -(e * p0[b]));
                c[b] += SIGN((pe_masks)p2 ^ (pe_masks)p1[b]);
                p0[b] = p1[b];
                p1[b] = p2;
            }
        }
        for (; i < stop; i++) {
            const pe_lanes d = t->ds[i], e = t->e2[i];
            const pe_masks in = inside[i];
            UNROLL for (int b = 0; b < CHAINS; b++)
            {
                pe_lanes p2;
                PE_FMA(p2, d - x[b], p1[b], -(e * p0[b]));
                c[b] += SIGN((pe_masks)p2 ^ (pe_masks)p1[b]) & in;
                p0[b] = PE_SELECT(in, p1[b], p0[b]);
                p1[b] = PE_SELECT(in, p2, p1[b]);
            }
        }
        if (i == n)
            break;
        UNROLL for (int b = 0; b < CHAINS; b++)
        {
            const pe_masks a0 = (pe_masks)p0[b] & INT64_MAX, a1 = (pe_masks)p1[b] & INT64_MAX, less = (a0 - a1) >> 63;
            const pe_masks exponent = ((a1 & less) | (a0 & ~less)) & 0x7ff0000000000000;
            const pe_lanes by = (pe_lanes)(0x7fe0000000000000 - exponent);
            p0[b] *= by;
            p1[b] *= by;
        }
    }
    UNROLL for (int b = 0; b < CHAINS; b++) count[b] = -c[b];
}

enum { GRID = 9 };

static double rung(int k) { return 4.0 * (k + 1) / (GRID + 1); }

/* What all bisections begin with. */
PE_BODY void grid_body(pe_group *g, int64_t even, const pe_masks *inside, pe_masks *grid)
{
    const reduced t = parts(g);
    const pe_lanes scale = AT(g->scale, 0);
    for (int64_t i = 0; i < g->n; i++) {
        t.ds[i] = t.d[i] * scale;
        t.es[i] = t.e[i] * scale;
        t.e2[i] = t.es[i] * t.es[i] + tiny;
    }
    for (int k = 0; k < GRID; k += CHAINS) {
        pe_lanes x[CHAINS];
        UNROLL for (int b = 0; b < CHAINS; b++) x[b] = rung(k + b) + (pe_lanes){ 0 };
        count_below(&t, g->n, even, inside, x, grid + k);
    }
}
PE_KERNEL(grid, grid_body, (pe_group * g, int64_t even, const pe_masks *inside, pe_masks *grid), (g, even, inside, grid))

/* Bisection on 0 .. 4 for the chains j .. j + CHAINS - 1. */
PE_BODY void bisect_body(pe_group *g, int64_t even, const pe_masks *inside, const pe_masks *grid, int64_t j)
{
    const reduced t = parts(g);
    pe_lanes low[CHAINS], high[CHAINS], x[CHAINS];
    pe_masks target[CHAINS], count[CHAINS];
    UNROLL for (int b = 0; b < CHAINS; b++)
    {
        target[b] = __builtin_convertvector(AT(g->first, 0), pe_masks) + (j + b);
        low[b] = PE_SPLAT(-0.0078125);
        high[b] = PE_SPLAT(4.0078125);
        for (int k = 0; k < GRID; k++) {
            const pe_masks beyond = (target[b] - grid[GRID - 1 - k]) >> 63; /* count > target */
            high[b] = PE_SELECT(beyond, rung(GRID - 1 - k) + (pe_lanes){ 0 }, high[b]);
            low[b] = PE_SELECT((target[b] - grid[k]) >> 63, low[b], rung(k) + (pe_lanes){ 0 });
        }
    }
    for (int step = 0; step < STEPS; step++) {
        UNROLL for (int b = 0; b < CHAINS; b++) x[b] = (low[b] + high[b]) * 0.5;
        count_below(&t, g->n, even, inside, x, count);
        UNROLL for (int b = 0; b < CHAINS; b++)
        {
            const pe_masks beyond = (target[b] - count[b]) >> 63;
            high[b] = PE_SELECT(beyond, x[b], high[b]);
            low[b] = PE_SELECT(beyond, low[b], x[b]);
        }
    }
    UNROLL for (int b = 0; b < CHAINS; b++)
    {
        AT(g->counted, j + b) = (low[b] + high[b]) * 0.5;
        AT(g->low, j + b) = low[b];
        AT(g->high, j + b) = high[b];
    }
}
PE_KERNEL(bisect, bisect_body, (pe_group * g, int64_t even, const pe_masks *inside, const pe_masks *grid, int64_t j),
          (g, even, inside, grid, j))

/* ---- eigenvectors ---- */

/* z = (T - x)^-1 z for PAIRS shifts, by LU with partial pivoting: rows are exchanged lane by lane.
 *   f   4 PAIRS n lanes */
PE_BODY void solve_shifted(const reduced *t, int64_t n, int64_t even, const pe_masks *inside, const pe_lanes *x,
                           pe_lanes *const *z, pe_lanes *f)
{
    pe_lanes *inverse = f, *above = f + PAIRS * n, *second = above + PAIRS * n, *right = second + PAIRS * n;
    const pe_lanes small = PE_SPLAT(0x1p-52), zero = { 0 };
    pe_lanes p[PAIRS], q[PAIRS], y[PAIRS];
    UNROLL for (int b = 0; b < PAIRS; b++)
    {
        p[b] = t->ds[0] - x[b];
        q[b] = t->es[1];
        y[b] = z[b][0];
    }
    for (int64_t i = 0; i + 1 < n; i++) {
        const pe_lanes e = t->es[i + 1], next = i + 2 < n ? t->es[i + 2] : zero, d = t->ds[i + 1];
        const pe_masks in = i + 1 < even ? ~(pe_masks){ 0 } : inside[i + 1];
        UNROLL for (int b = 0; b < PAIRS; b++)
        {
            const pe_lanes diagonal = d - x[b], z1 = z[b][i + 1];
            const pe_masks swap = LESS(ABS(p[b]), ABS(e));
            pe_lanes pivot = PE_SELECT(swap, e, p[b]);
            const pe_lanes other = PE_SELECT(swap, p[b], e);
            pivot = PE_SELECT(LESS(ABS(pivot), small), small, pivot);
            const pe_lanes by = 1 / pivot, m = other * by, u1 = PE_SELECT(swap, diagonal, q[b]);
            const pe_lanes yi = PE_SELECT(swap, z1, y[b]), yo = PE_SELECT(swap, y[b], z1);
            inverse[PAIRS * i + b] = by;
            above[PAIRS * i + b] = (pe_lanes)((pe_masks)u1 & in);
            second[PAIRS * i + b] = (pe_lanes)((pe_masks)next & swap);
            right[PAIRS * i + b] = yi;
            /* a lane that ends here: its last pivot is kept, and solved for below */
            pe_lanes left, under;
            PE_FMA(left, -m, u1, PE_SELECT(swap, q[b], diagonal));
            PE_FMA(under, -m, yi, yo);
            p[b] = PE_SELECT(in, left, PE_SPLAT(1));
            q[b] = PE_SELECT(swap, -(m * next), next);
            y[b] = (pe_lanes)((pe_masks)under & in);
        }
    }
    pe_lanes x1[PAIRS], x2[PAIRS];
    UNROLL for (int b = 0; b < PAIRS; b++)
    {
        const pe_lanes last = PE_SELECT(LESS(ABS(p[b]), small), small, p[b]);
        x1[b] = y[b] * (1 / last);
        x2[b] = zero;
        z[b][n - 1] = x1[b];
    }
    for (int64_t i = n - 2; i >= 0; i--) {
        UNROLL for (int b = 0; b < PAIRS; b++)
        {
            const int64_t k = PAIRS * i + b;
            pe_lanes v;
            PE_FMA(v, -above[k], x1[b], right[k]);
            PE_FMA(v, -second[k], x2[b], v);
            v *= inverse[k];
            x2[b] = x1[b];
            x1[b] = v;
            z[b][i] = v;
        }
    }
}

PE_BODY int any(const pe_masks *m)
{
    int64_t v[PE_LANES], all = 0;
    memcpy(v, m, sizeof v);
    for (int l = 0; l < PE_LANES; l++)
        all |= v[l];
    return all != 0;
}

static const double near = 0x1p-7; /* of an interval of 4: eigenvalues that the iteration alone does not tell apart well */

/* Makes z orthogonal to the vectors before it whose eigenvalues are near.
 *   by         what scales it to a unit vector then
 *   quotient   the unit vector's Rayleigh quotient */
PE_BODY void project(pe_group *g, const reduced *t, int64_t j, pe_lanes *z, const pe_lanes *counted, pe_lanes *by,
                     pe_lanes *quotient)
{
    const int64_t n = g->n;
    const pe_lanes zero = { 0 };
    for (int64_t q = j - 1; q >= 0; q--) {
        const pe_masks close = LESS(counted[j] - counted[q], PE_SPLAT(near));
        if (!any(&close))
            break;
        const pe_lanes *y = &AT(g->vector, q * n);
        pe_lanes dot = zero;
        for (int64_t i = 0; i < n; i++)
            PE_FMA(dot, y[i], z[i], dot);
        dot = (pe_lanes)((pe_masks)dot & close);
        for (int64_t i = 0; i < n; i++) {
            pe_lanes v;
            PE_FMA(v, -dot, y[i], z[i]);
            z[i] = PE_SELECT(close, v, z[i]);
        }
    }
    pe_lanes square = zero, own = zero, cross = zero, last = zero;
    for (int64_t i = 0; i < n; i++) {
        const pe_lanes v = z[i];
        PE_FMA(square, v, v, square);
        PE_FMA(own, t->ds[i] * v, v, own);
        PE_FMA(cross, t->es[i] * last, v, cross);
        last = v;
    }
    roots(&square);
    *by = 1 / square;
    *quotient = (own + 2 * cross) * *by * *by;
}

/* z *= by; returns ||(T - x) z||^2. */
PE_BODY void finish(const reduced *t, int64_t n, pe_lanes *z, const pe_lanes *by, const pe_lanes *x, pe_lanes *out)
{
    pe_lanes sum = { 0 }, last = { 0 }, y = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const pe_lanes v = z[i] * *by, e = t->es[i];
        z[i] = v;
        PE_FMA(y, e, v, y);
        PE_FMA(sum, y, y, sum);
        PE_FMA(y, t->ds[i] - *x, v, e * last);
        last = v;
    }
    PE_FMA(sum, y, y, sum);
    *out = sum;
}

/* Doubts vector j where it is not orthogonal to those before it whose eigenvalues are near. */
PE_BODY void check_cluster(pe_group *g, int64_t j, const pe_lanes *counted)
{
    const int64_t n = g->n;
    const pe_lanes *z = &AT(g->vector, j * n);
    for (int64_t q = j - 1; q >= 0; q--) {
        const pe_masks close = LESS(counted[j] - counted[q], PE_SPLAT(near));
        if (!any(&close))
            break;
        const pe_lanes *y = &AT(g->vector, q * n);
        pe_lanes dot = { 0 };
        for (int64_t i = 0; i < n; i++)
            PE_FMA(dot, y[i], z[i], dot);
        const pe_masks skew = close & LESS(PE_SPLAT(0x1p-42), ABS(dot));
        AT(g->doubt, j) = PE_SELECT(skew, PE_SPLAT(1), AT(g->doubt, j));
    }
}

/* A pair is done when its residual is at most `enough`; then it stays as it is, whatever others need. */
PE_BODY void iterate_body(pe_group *g, int64_t even, const pe_masks *inside, int64_t j)
{
    const int64_t n = g->n;
    const reduced t = parts(g);
    const pe_lanes enough = PE_SPLAT(0x1p-94), slack = PE_SPLAT(0x1p-44);
    /* no shift is the eigenvalue itself: of a repeated one, where the matrix falls apart, rounding would prefer one vector
     */
    const pe_lanes beside = PE_SPLAT(0x1p-44);
    const pe_masks index = __builtin_convertvector(AT(g->first, 0), pe_masks);
    pe_masks rows;
    memcpy(&rows, g->rows, sizeof rows);
    pe_lanes *f = t.es + n, *spare = f + 4 * PAIRS * n, *old = spare + PAIRS * n, *counted = (pe_lanes *)g->counted;
    const int count = g->chains - j < PAIRS ? (int)(g->chains - j) : PAIRS;
    pe_lanes x[PAIRS], *z[PAIRS];
    pe_masks done[PAIRS], open = { 0 };
    for (int b = 0; b < PAIRS; b++) {
        z[b] = b < count ? &AT(g->vector, (j + b) * n) : spare + b * n;
        x[b] = counted[b < count ? j + b : j];
        done[b] = (pe_masks){ 0 };
        for (int64_t i = 0; i < n; i++) {
            const double v = g->noise[(j + b) * g->stride + i];
            z[b][i] = i < even ? PE_SPLAT(v) : (pe_lanes)((pe_masks)PE_SPLAT(v) & inside[i]);
        }
    }
    for (int round = 0; round < ROUNDS && (round < 2 || any(&open)); round++) {
        for (int b = 0; b < count && round > 1; b++)
            memcpy(old + b * n, z[b], (size_t)n * sizeof *old);
        solve_shifted(&t, n, even, inside, x, z, f);
        open = (pe_masks){ 0 };
        for (int b = 0; b < count; b++) {
            const pe_lanes low = AT(g->low, j + b) - slack, high = AT(g->high, j + b) + slack;
            pe_lanes r, square, by;
            project(g, &t, j + b, z[b], counted, &by, &r);
            finish(&t, n, z[b], &by, &r, &square);
            const pe_masks out = LESS(r, low) | LESS(high, r);
            const pe_lanes value = r / AT(g->scale, 0), doubt = (pe_lanes)((pe_masks)PE_SPLAT(1) & out);
            x[b] = PE_SELECT(out, counted[j + b], r + beside);
            if (round < 2) {
                AT(g->value, j + b) = value;
                AT(g->doubt, j + b) = doubt;
            } else { /* what is done stays */
                AT(g->value, j + b) = PE_SELECT(done[b], AT(g->value, j + b), value);
                AT(g->doubt, j + b) = PE_SELECT(done[b], AT(g->doubt, j + b), doubt);
                for (int64_t i = 0; i < n; i++)
                    z[b][i] = PE_SELECT(done[b], old[b * n + i], z[b][i]);
            }
            if (!round)
                continue;
            done[b] |= ~LESS(enough, square) & ~out;
            done[b] |= ~((index + (j + b) - rows) >> 63); /* there is no such pair */
            if (b) /* what an earlier vector of the cluster still does changes this one too */
                done[b] &= done[b - 1] | ~LESS(counted[j + b] - counted[j + b - 1], PE_SPLAT(near));
            open |= ~done[b];
        }
    }
    for (int b = 0; b < count; b++)
        check_cluster(g, j + b, counted);
}
PE_KERNEL(iterate, iterate_body, (pe_group * g, int64_t even, const pe_masks *inside, int64_t j), (g, even, inside, j))

/* ---- back ---- */

/* The vectors of the tridiagonal matrices become those of the matrices. */
PE_BODY void restore_body(pe_group *g, int64_t j)
{
    const int64_t n = g->n;
    const reduced t = parts(g);
    const pe_lanes *a = (const pe_lanes *)g->a;
    const int32_t *start = g->start;
    pe_lanes *z[PAIRS];
    for (int b = 0; b < PAIRS; b++)
        z[b] = &AT(g->vector, (j + b) * n); /* beyond chains: memory that is not read */
    for (int64_t i = 2; i < n; i++) {
        const pe_lanes *u = a + i * (i + 1) / 2, tau = t.tau[i];
        pe_lanes s[PAIRS];
        UNROLL for (int b = 0; b < PAIRS; b++) s[b] = z[b][i - 1];
        for (int64_t k = i - 2; k >= start[i]; k--) {
            const pe_lanes uk = u[k];
            UNROLL for (int b = 0; b < PAIRS; b++) PE_FMA(s[b], uk, z[b][k], s[b]);
        }
        UNROLL for (int b = 0; b < PAIRS; b++)
        {
            s[b] *= tau;
            z[b][i - 1] -= s[b];
        }
        for (int64_t k = i - 2; k >= start[i]; k--) {
            const pe_lanes uk = -u[k];
            UNROLL for (int b = 0; b < PAIRS; b++) PE_FMA(z[b][k], uk, s[b], z[b][k]);
        }
    }
}
PE_KERNEL(restore, restore_body, (pe_group * g, int64_t j), (g, j))

/* One more pair for lanes whose last one is not yet apart from the next; returns whether any eigenvalue is to be counted for
 * it that is not: `known` are. */
static bool complete(pe_group *g, int64_t known)
{
    bool missing = false;
    for (int l = 0; l < PE_LANES; l++) {
        const int64_t all = g->rows[l] - (int64_t)g->first[l];
        int64_t *want = &g->want[l];
        while (*want && *want < all && *want < g->most && *want < known &&
               g->counted[*want * PE_LANES + l] - g->counted[(*want - 1) * PE_LANES + l] < PE_GROUP_CLUSTER)
            ++*want;
        missing = missing || (*want == known && *want < all);
        g->chains = *want > g->chains ? *want : g->chains;
    }
    return missing;
}

posenc_status pe_group_solve(pe_group *g, pe_pace *pace)
{
    const pe_path on = pe_simd();
    const int64_t n = g->n;
    posenc_status st = PE_OK;
    int64_t even = n; /* rows that every matrix has, or all but the empty ones */
    pe_masks inside[PE_LANE_ROWS], grid[GRID];
    for (int64_t i = 0; i < n; i++) {
        int64_t in[PE_LANES];
        for (int l = 0; l < PE_LANES; l++)
            in[l] = i < g->rows[l] ? -1 : 0;
        memcpy(&inside[i], in, sizeof in);
    }
    for (int l = 0; l < PE_LANES; l++)
        even = g->rows[l] < even ? g->rows[l] : even;
    even = even < 1 ? 1 : even;
    for (int64_t i = n - 1; i > 0 && !st; i -= 16) {
        reduce_paths[on](g, i, i > 16 ? i - 16 : 0);
        st = pe_pace_add(pace, 16 * i * i);
    }
    if (!st)
        grid_paths[on](g, even, inside, grid);
    bool more = true;
    for (int64_t j = 0; (j < g->chains + 1 || more) && !st; j += CHAINS) {
        bisect_paths[on](g, even, inside, grid, j);
        st = pe_pace_add(pace, 200 * n);
        more = j + CHAINS > g->chains && complete(g, j + CHAINS);
    }
    const int64_t extra = (PAIRS - g->chains % PAIRS) % PAIRS;
    memset(&AT(g->vector, g->chains * n), 0, (size_t)(extra * n) * sizeof(pe_lanes)); /* restored with the last ones */
    for (int64_t j = 0; j < g->chains && !st; j += PAIRS) {
        iterate_paths[on](g, even, inside, j);
        st = pe_pace_add(pace, 200 * n + 4 * j * n);
    }
    for (int64_t j = 0; j < g->chains && !st; j += PAIRS) {
        restore_paths[on](g, j);
        st = pe_pace_add(pace, 4 * n * n);
    }
    for (int64_t j = 0; j <= g->chains && !st; j++)
        for (int l = 0; l < PE_LANES; l++)
            g->counted[j * PE_LANES + l] /= g->scale[l];
    return st;
}
