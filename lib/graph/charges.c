/* charges.c - what electrostatic gathers, of eight small components at a time.
 *
 * With G, the inverse grounded at row 0, r its row means and m their mean, (L^+)_ij = (G_ij - r_i) - (r_j - m). */
#include "graph/charges.h"
#include "core/lanes.h"
#include "core/params.h"
#include "linalg/lane_inverse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LESS(x, y) ((pe_masks)((x) - (y)) >> 63)

static const double leak = 1e-10; /* of the unit current out of a charge */

/* One group. */
typedef struct group {
    int64_t n;
    int64_t rows[PE_LANES];
    double *z;                /* (n, n, 8) weights, then G */
    double *mean, *own;       /* (n, 8) r; G_jj - r_j */
    double *sum;              /* (n, 7, 8) the first seven numbers of each node's pe_charge */
    int32_t *start;           /* (n) */
    int32_t *place[PE_LANES]; /* (n) row of a node */
    int32_t *node[PE_LANES];  /* (n + 1) the inverse of place */
} group;

enum { SUMS = 7 };

static size_t lanes_of(int64_t rows) { return (size_t)(rows * (rows + 2 + SUMS)); }
static size_t ints_of(int64_t rows) { return (size_t)(rows + (2 * rows + 1) * PE_LANES); }

uint64_t pe_charges_bytes(int64_t rows, int64_t count)
{
    return lanes_of(rows) * sizeof(pe_lanes) + ints_of(rows) * sizeof(int32_t) + 64 + (uint64_t)count * sizeof(int32_t);
}

/* Rows breadth-first from the node of most edges, which is the ground: a narrow profile. */
static void arrange(const pe_component *c, int32_t *place, int32_t *node)
{
    int32_t first = 0, tail = 0;
    for (int32_t i = 0; i < c->n; i++) {
        place[i] = -1;
        first = c->ptr[i + 1] - c->ptr[i] > c->ptr[first + 1] - c->ptr[first] ? i : first;
    }
    node[tail] = first;
    place[first] = tail++;
    for (int32_t head = 0; head < tail; head++)
        for (int64_t p = c->ptr[node[head]]; p < c->ptr[node[head] + 1]; p++) {
            const int32_t v = c->col[p], at = place[v];
            node[tail] = v;
            place[v] = at < 0 ? tail : at;
            tail += at < 0;
        }
}

static void fill(group *g, int lane, const pe_component *c)
{
    const int32_t *place = g->place[lane];
    arrange(c, g->place[lane], g->node[lane]);
    g->rows[lane] = c->n;
    for (int64_t u = 0; u < c->n; u++)
        for (int64_t p = c->ptr[u]; p < c->ptr[u + 1]; p++) {
            const int32_t i = place[u], j = place[c->col[p]];
            if (j > i)
                continue;
            g->z[(i * g->n + j) * PE_LANES + lane] = c->weight ? c->weight[p] : 1;
            g->start[i] = j < g->start[i] ? j : g->start[i];
        }
}

/* From G to what it says of each row. */
PE_BODY void gather_body(group *g)
{
    const int64_t n = g->n;
    const pe_lanes *z = (const pe_lanes *)g->z, zero = { 0 };
    pe_lanes *mean = (pe_lanes *)g->mean, *own = (pe_lanes *)g->own, *out = (pe_lanes *)g->sum, all = zero;
    pe_masks rows;
    memcpy(&rows, g->rows, sizeof rows);
    const pe_lanes size = __builtin_convertvector(rows, pe_lanes);
    const pe_lanes by = PE_SELECT(-rows >> 63, 1 / size, zero);
    for (int64_t i = 0; i < n; i++) {
        pe_lanes sum = zero;
        for (int64_t j = 0; j < n; j++)
            sum += z[i * n + j];
        mean[i] = sum * by;
        own[i] = z[i * n + i] - mean[i];
        all += mean[i];
    }
    all *= by;
    for (int64_t i = 0; i < n; i++) {
        const pe_lanes r = mean[i];
        pe_lanes least = PE_SPLAT(INFINITY), most = -least, low = least, high = most, squares = zero, dot = zero;
        for (int64_t j = 0; j < n; j++) {
            const pe_masks in = (j - rows) >> 63;
            const pe_lanes y = z[i * n + j] - r, e = y - (mean[j] - all), v = y - own[j];
            const pe_lanes inner = (pe_lanes)((pe_masks)e & in);
            least = PE_SELECT(LESS(e, least) & in, e, least);
            most = PE_SELECT(LESS(most, e) & in, e, most);
            low = PE_SELECT(LESS(v, low) & in, v, low);
            high = PE_SELECT(LESS(high, v) & in, v, high);
            PE_FMA(squares, inner, inner, squares);
            PE_FMA(dot, inner, own[j] - (mean[j] - all), dot);
        }
        pe_lanes *to = out + i * SUMS;
        to[0] = own[i] - (r - all);
        to[1] = least;
        to[2] = most;
        to[3] = squares;
        to[4] = low;
        to[5] = high;
        to[6] = dot;
    }
}
PE_KERNEL(gather, gather_body, (group * g), (g))

/* The lane's sums, and those over neighbours; false where the currents say that digits are lost. */
static bool put(const group *g, int lane, const pe_component *c, pe_charge *at)
{
    const int32_t *place = g->place[lane];
    const double *z = g->z + lane, *mean = g->mean + lane, *own = g->own + lane;
    bool good = true; /* NaN is not */
    for (int64_t j = 0; j < c->n; j++) {
        const double *from = g->sum + place[j] * SUMS * PE_LANES + lane;
        at[j] = (pe_charge){ .diagonal = from[0],
                             .least = from[PE_LANES],
                             .most = from[2 * PE_LANES],
                             .squares = from[3 * PE_LANES],
                             .row_least = from[4 * PE_LANES],
                             .row_most = from[5 * PE_LANES],
                             .dot = from[6 * PE_LANES] };
    }
    for (int64_t j = 0; j < c->n; j++) {
        double current = 1 - 1 / (double)c->n; /* what is left after all that flows out */
        const double *column = z + place[j] * g->n * PE_LANES, charge = own[place[j] * PE_LANES];
        for (int64_t p = c->ptr[j]; p < c->ptr[j + 1]; p++) {
            const int64_t i = c->col[p], row = place[i] * PE_LANES;
            const double w = c->weight ? c->weight[p] : 1, v = column[row] - mean[row] - charge;
            const double share = w / c->degree[i];
            at[j].to += share * v;
            at[i].from += share * v;
            current += w * v;
        }
        good = good && fabs(current) <= leak;
    }
    return good;
}

static posenc_status solve(group *g, pe_charge_job *jobs, const int32_t *job, int count, pe_pace *pace)
{
    g->n = jobs[job[count - 1]].c.n; /* the largest */
    memset(g->z, 0, (size_t)(g->n * g->n) * sizeof(pe_lanes));
    memset(g->rows, 0, sizeof g->rows);
    for (int64_t i = 0; i < g->n; i++)
        g->start[i] = (int32_t)i;
    for (int l = 0; l < count; l++)
        fill(g, l, &jobs[job[l]].c);
    posenc_status st = pe_lane_inverse(g->n, g->z, g->start, pace);
    if (st)
        return st;
    gather_paths[pe_simd()](g);
    for (int l = 0; l < count; l++)
        jobs[job[l]].done = put(g, l, &jobs[job[l]].c, jobs[job[l]].at);
    return pe_pace_add(pace, 30 * g->n * g->n);
}

posenc_status pe_charges(pe_charge_job *jobs, int64_t count, pe_pace *pace, posenc_error *err)
{
    int64_t at[PE_CHARGE_ROWS + 2] = { 0 }, rows = 2;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < count; i++) {
        rows = jobs[i].c.n > rows ? jobs[i].c.n : rows;
        at[jobs[i].c.n + 1]++;
    }
    if (!count)
        return PE_OK;
    for (int i = 0; i <= PE_CHARGE_ROWS; i++)
        at[i + 1] += at[i];
    double *d = aligned_alloc(64, (pe_charges_bytes(rows, count) + 63) / 64 * 64);
    if (!d)
        return pe_no_memory("memory", err);
    group g = { .z = d, .mean = d + rows * rows * PE_LANES };
    g.own = g.mean + rows * PE_LANES;
    g.sum = g.own + rows * PE_LANES;
    g.start = (int32_t *)(g.sum + rows * SUMS * PE_LANES);
    int32_t *order = g.start + rows;
    for (int l = 0; l < PE_LANES; l++) {
        g.place[l] = order;
        g.node[l] = order + rows;
        order += 2 * rows + 1;
    }
    for (int64_t i = 0; i < count; i++) /* stably by rows */
        order[at[jobs[i].c.n]++] = (int32_t)i;
    for (int64_t i = 0; i < count && !st; i += PE_LANES)
        st = solve(&g, jobs, order + i, count - i < PE_LANES ? (int)(count - i) : PE_LANES, pace);
    free(d);
    return st;
}
