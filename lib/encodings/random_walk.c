/* random_walk.c - the probabilities that a random walk is back where it began.
 *
 *     P[u, v] = w(u, v) / sum over x of w(u, x)            row u: a step from u along an arc; the row of a dead end is 0
 *     encoding[u, c] = (P^t)[u, u] t^(space_dim / 2)       t = ksteps[c]
 *
 * Exact, by walks that meet in the middle: (P^(a+b))[u, u] = sum over v of (P^a)[u, v] (P^b)[v, u], a - b = 0 or 1. The
 * first factor is a walk from u, the second one along reversed arcs. Of an undirected graph the second follows from
 * the first, (P^b)[v, u] = (P^b)[u, v] d(u) / d(v): half the steps, and sums of squares. All terms are 0 or more, so that
 * nothing cancels, and what cannot be reached is exactly 0. Sums run in order: the relative error (of what is over 2^-174)
 * is at most (t (d + 2) + m + 3) 2^-53, d the most arcs to or from a node, m the nodes within t / 2 steps; a few ulp but
 * around hubs. At a star of 20,000 leaves it is 3e-13. Memory is O(n + arcs).
 *   small   32 nodes at once over the whole graph (undirected, all weights 1)
 *   local   eight near nodes at once, over the nodes that their walks can have reached (roads, meshes, large rings); where
 *           the way back is another one, node by node
 *   panel   eight nodes at once over the whole graph (other small graphs, and those whose balls fill up at once)
 * The cheaper of the last two is taken, by the balls of a sample of nodes; where both would take too long the request is
 * refused.
 *
 * method=probe estimates instead: with z of independent random signs, x = (P^a z) and y = (P^T)^b z,
 * E[x_u y_u] = (P^(a+b))[u, u]; the mean over num_probes of them. For undirected graphs P stands for its symmetric form,
 * with the same diagonal: then x_u y_u = x_u^2 for even t, whose relative standard error is at most about
 * sqrt(2 / num_probes), however small the probability. Steps 1 and 2, and odd steps in bipartite components, are exact.
 *
 * Where peers differ: PyG puts 1, not w, into the numerator and takes degrees below 1 for 1; GraphGPS ignores weights in
 * the numerator; DGL is as here. gnn-lspe walks by in-degrees: the same numbers for undirected graphs.
 *
 * Sources: Dwivedi et al. 2022, arXiv:2110.07875, section 3.2 (walk_length); Rampasek et al. 2022, GraphGPS,
 * get_rw_landing_probs (ksteps, space_dim); Bekas et al. 2007, An estimator for the diagonal of a matrix. */
#include "core/elementary.h"
#include "core/parallel.h"
#include "core/random.h"
#include "graph/balls.h"
#include "graph/batch.h"
#include "graph/returns.h"
#include "graph/simple.h"
#include "graph/walk.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_random_walk;

/* ---- rows ---- */

enum { EXACT, PROBE };
enum { MOST_STEPS = 1024, MOST_COLUMNS = 4096 };

static const char *const methods[] = { "exact", "probe", NULL };

typedef struct random_walk {
    posenc_given given;
    int64_t walk_length, num_probes, seed;
    posenc_reals ksteps;
    double space_dim;
    int method;
    pe_csr_options edges;
} random_walk;

static const posenc_param rows[] = {
    { PE_INT(random_walk, walk_length), .flags = PE_OPTIONAL, .min = 1, .max = MOST_STEPS,
      .doc = "steps 1 .. walk_length, a column each (PyG, DGL); or ksteps" },
    { PE_REALS(random_walk, ksteps), .flags = PE_OPTIONAL, .min = 1, .max = MOST_STEPS,
      .doc = "numbers of steps, a column each, in any order (GraphGPS: times); or walk_length" },
    { PE_REAL(random_walk, space_dim), .def = 0, .min = 0, .max = 64,
      .doc = "multiplies the column of t steps by t^(space_dim / 2)" },
    { PE_ENUM(random_walk, method), .flags = PE_SELECTOR, .names = methods, .def = EXACT,
      .doc = "exact, or a named estimate with its standard error, for graphs that are too large" },
    { PE_INT(random_walk, num_probes), .when = PE_ON(PROBE), .def = 64, .min = 2, .max = 65536,
      .doc = "random vectors: the standard error falls with the root of their number" },
    { PE_INT(random_walk, seed), .when = PE_ON(PROBE), .def = 0, .max = 9007199254740991.0,
      .doc = "of the random signs, which depend on seed, probe and node alone" },
    PE_ARC_ROWS(random_walk, edges, PE_LOOPS_KEEP),
};

static const posenc_output outputs[] = {
    { "encoding", "[num_nodes, steps]",
      "probability to be back after so many steps, of relative error at most (t (d + 2) + m + 3) 2^-53 in float64, d the "
      "most arcs of a node, m the nodes within t / 2 steps; method=probe: an estimate, brought into 0 .. 1",
      NULL },
    { "standard_error", "[num_nodes, steps]",
      "method=probe only: of the estimate, from the spread of the probes, at most 1; 0 where it is exact", NULL },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static int64_t columns(const random_walk *p) { return p->ksteps.n ? (int64_t)p->ksteps.n : p->walk_length; }
static int64_t step_of(const random_walk *p, int64_t c) { return p->ksteps.n ? (int64_t)p->ksteps.v[c] : c + 1; }

static int64_t last_step(const random_walk *p)
{
    int64_t last = 0;
    for (int64_t c = 0; c < columns(p); c++)
        last = step_of(p, c) > last ? step_of(p, c) : last;
    return last;
}

static double factor(const random_walk *p, int64_t t) { return p->space_dim > 0 ? pe_pow((double)t, p->space_dim / 2) : 1; }

static uint64_t bit(const posenc_request *r, const char *row)
{
    return 1ull << (posenc_row(&r->encoding->table, row) - r->encoding->table.rows);
}

/* ksteps 1 .. T is walk_length T: one request, whichever word it uses. */
static void fold(posenc_request *r, random_walk *p)
{
    for (size_t i = 0; i < p->ksteps.n; i++)
        if (p->ksteps.v[i] != (double)(i + 1))
            return;
    p->walk_length = (int64_t)p->ksteps.n;
    p->ksteps = (posenc_reals){ 0 };
    p->given = (p->given & ~bit(r, "ksteps")) | bit(r, "walk_length");
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    random_walk *p = r->params;
    const bool length = pe_given(r, "walk_length"), list = pe_given(r, "ksteps") && p->ksteps.n;
    posenc_status st = PE_OK;
    if (length && list)
        st = pe_invalid(err, "ksteps", posenc_text("%zu steps", p->ksteps.n), "walk_length or ksteps, not both");
    if (!length && !list)
        st = posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "walk_length", "absent", "1 .. %d, it is required; or ksteps",
                         MOST_STEPS);
    if (p->ksteps.n > MOST_COLUMNS)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "ksteps", posenc_text("%zu steps", p->ksteps.n).s,
                         "at most %d steps", MOST_COLUMNS);
    for (size_t i = 0, faults = 0; i < p->ksteps.n && faults < PE_MAX_FAULTS; i++)
        if (p->ksteps.v[i] != floor(p->ksteps.v[i])) {
            st = pe_invalid(err, posenc_text("ksteps[%zu]", i).s, posenc_text("%.17g", p->ksteps.v[i]),
                            "a whole number, 1 .. %d", MOST_STEPS);
            faults++;
        }
    if (st)
        return st;
    const double most = r->common.dtype == PE_float16 ? 65504 : r->common.dtype == PE_float64 ? DBL_MAX : 0x1.fep127;
    if (factor(p, last_step(p)) > most)
        return pe_invalid(err, "space_dim", posenc_text("%g", p->space_dim), "t^(space_dim / 2) at most %g, for %s", most,
                          posenc_dtype_name((posenc_dtype)r->common.dtype));
    if (list)
        fold(r, p);
    return PE_OK;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const random_walk *p = r->params;
    const int64_t size[] = { r->graph->nodes, columns(p) };
    posenc_status st = pe_output(out, "encoding", (posenc_dtype)r->common.dtype, 2, size, err);
    if (!st && p->method == PROBE)
        st = pe_output(out, "standard_error", (posenc_dtype)r->common.dtype, 2, size, err);
    return st ? st : pe_status_output(r, out, err);
}

/* ---- what it costs ---- */

static const double LOCAL_NS = 5, DOT_NS = 2, NEAR = 0.5; /* what a walk costs in the company of near nodes */
enum { SMALL = 512, SAMPLE = 64 };

/* Steps of walks until step t of the encoding: both ways, or one where the other follows. */
static int64_t advances(int64_t t, bool reversible) { return reversible ? (t + 1) / 2 : t; }

static double panels_ns(double n, double arcs, int64_t t, bool reversible)
{
    return ceil(n / PE_WIDTH) * ((double)advances(t, reversible) * pe_sparse_apply_ns(n, arcs) + (double)t * 3 * n);
}

/* Balls can only be guessed. */
static double guess_ns(const random_walk *p, int64_t t, const posenc_graph *g, int64_t i, double n, double arcs,
                       posenc_context *ctx)
{
    const bool reversible = !g->directed;
    if (p->method == PROBE)
        return ceil((double)p->num_probes / PE_WIDTH) *
                   ((double)advances(t, reversible) * pe_sparse_apply_ns(n, arcs) + (double)columns(p) * 60 * n) +
               20 * arcs + 60 * n * (double)p->num_probes;
    const double panels = panels_ns(n, arcs, t, reversible);
    if (n <= SMALL) /* abreast, or by panels */
        return reversible && !g->weighted ? (double)advances(t, true) * (arcs + 4 * n) * ceil(n / PE_WIDTH) : panels;
    const int64_t steps = advances(t, true);
    const pe_growth growth = pe_growth_of(g, i, g->directed, INFINITY, steps - 1, ctx);
    double local = 0;
    for (int64_t a = 0; a < steps && local < panels; a++)
        local += n * (LOCAL_NS * pe_growth_arcs(&growth, a) + 2 * DOT_NS * pe_growth_ball(&growth, a)) *
                 (reversible ? NEAR : 2);
    return local < panels ? local : panels;
}

static uint64_t ball_bytes(int64_t n, int64_t m) { return 300 * (uint64_t)n + 48 * (uint64_t)m; }

static void cost(const posenc_request *r, posenc_cost *out)
{
    const random_walk *p = r->params;
    const posenc_graph *g = r->graph;
    const bool reversible = !g->directed;
    const uint64_t c = (uint64_t)columns(p), t = (uint64_t)last_step(p);
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t n = g->ptr[i + 1] - g->ptr[i], m = g->arc_ptr[i + 1] - g->arc_ptr[i];
        const double arcs = reversible ? 2 * (double)m : (double)m;
        uint64_t scratch = pe_walk_bytes(n, m, g->directed) + (uint64_t)n * (4 * 64 + 24) + (8 * t + 4 * c + 1) * 8;
        if (n <= SMALL && p->method == EXACT && reversible)
            scratch += (pe_returns_scratch(n) + (size_t)((t + c) * PE_RETURNS) + 8) * sizeof(double);
        if (p->method == PROBE)
            scratch += (uint64_t)n * (16 * c + 16 + 2 * 64);
        else if (n > SMALL) /* a ball, if it is the whole graph */
            scratch += ball_bytes(n, m);
        out->ns += 2000 + (n <= SMALL ? 20 : 80) * (double)m + (30 + (n <= SMALL ? 2 : 20) * (double)c) * (double)n +
                   guess_ns(p, (int64_t)t, g, i, (double)n, arcs, r->ctx);
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- one graph ---- */

typedef struct answer {
    posenc_dtype dtype;
    posenc_tensor *encoding, *error; /* error: NULL but for probes */
    double *factor;                  /* (columns) */
    double *row;                     /* (2 columns) scratch */
    int64_t last;                    /* step */
    int32_t *first, *next;           /* (last + 1), (columns) of each step its columns, as lists that end with -1 */
} answer;

typedef struct walker {
    const random_walk *p;
    const pe_walk *walk;
    answer *o;
    int64_t first, n, last;
    bool reversible; /* (P^b)[v, u] follows from (P^b)[u, v] */
    double *share;   /* (n) degree / least degree, where reversible */
    pe_pace *pace;
    posenc_error *err;
} walker;

static double probability(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static char *element(const posenc_tensor *t, int64_t i) { return (char *)t->data + (size_t)i * posenc_dtype_size(t->dtype); }

/* The row of node u: back[(t - 1) * stride] is the probability of t steps. */
static posenc_status put(const walker *w, int64_t u, const double *back, int64_t stride)
{
    const int64_t k = columns(w->p);
    for (int64_t c = 0; c < k; c++)
        w->o->row[c] = probability(back[(step_of(w->p, c) - 1) * stride]) * w->o->factor[c];
    posenc_convert(w->o->dtype, element(w->o->encoding, (w->first + u) * k), w->o->row, (size_t)k);
    return pe_pace_add(w->pace, 12 * k + 16);
}

/* Reversible unless degrees are so far apart that their quotients leave the range of float64. */
static posenc_status measure(walker *w)
{
    posenc_status st = PE_OK;
    double least = INFINITY, largest = 0;
    for (int64_t u = 0; u < w->n && !st; u++) {
        double d = w->walk->degree[u];
        least = d > 0 && d < least ? d : least;
        largest = d > largest ? d : largest;
        st = pe_pace_add(w->pace, 2);
    }
    w->reversible = w->walk->symmetric && (largest == 0 || largest / least < 0x1p900);
    if (st || !w->reversible)
        return st;
    w->share = malloc((size_t)(w->n ? w->n : 1) * sizeof *w->share);
    if (!w->share)
        return pe_no_memory("memory", w->err);
    for (int64_t u = 0; u < w->n && !st; u++) {
        double d = w->walk->degree[u];
        w->share[u] = d > 0 ? d / least : 1;
        st = pe_pace_add(w->pace, 4);
    }
    return st;
}

/* ---- node by node, where the way back is another one ---- */

/* A vector that is 0 outside a list of nodes. */
typedef struct ball {
    double *value; /* (n) */
    uint8_t *in;   /* (n) 1: listed */
    int32_t *list; /* (n) in the order of arrival */
    int64_t count;
} ball;

static bool ball_init(ball *b, int64_t n)
{
    const size_t size = (size_t)(n ? n : 1);
    b->value = calloc(size, sizeof *b->value);
    b->in = calloc(size, 1);
    b->list = malloc(size * sizeof *b->list);
    return b->value && b->in && b->list;
}

static void ball_fini(ball *b)
{
    free(b->value);
    free(b->in);
    free(b->list);
}

static posenc_status empty(ball *b, pe_pace *pace)
{
    for (int64_t i = 0; i < b->count; i++) {
        b->value[b->list[i]] = 0;
        b->in[b->list[i]] = 0;
    }
    posenc_status st = pe_pace_add(pace, b->count);
    b->count = 0;
    return st;
}

static void enter(ball *b, int32_t v)
{
    if (!b->in[v]) {
        b->in[v] = 1;
        b->list[b->count++] = v;
    }
}

/* to = from M, by the rows of M. */
static posenc_status spread(const pe_sparse *m, const ball *from, ball *to, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < from->count && !st; i++) {
        const int32_t u = from->list[i];
        const double x = from->value[u];
        for (int64_t a = m->ptr[u]; a < m->ptr[u + 1];) {
            int64_t end = a + 65536 < m->ptr[u + 1] ? a + 65536 : m->ptr[u + 1], arcs = end - a;
            for (; a < end; a++) {
                enter(to, m->col[a]);
                to->value[m->col[a]] += x * m->value[a];
            }
            if ((st = pe_pace_add(pace, 10 * arcs)))
                break;
        }
        if (!st)
            st = pe_pace_add(pace, 3);
    }
    return st;
}

/* sum over v of f[v] b[v], over the nodes of f. */
static double dot(const ball *f, const ball *b)
{
    double sum = 0;
    for (int64_t i = 0; i < f->count; i++)
        sum += f->value[f->list[i]] * b->value[f->list[i]];
    return sum;
}

static posenc_status walk_from(const walker *w, int64_t u, ball f[2], ball b[2], double *back)
{
    posenc_status st = PE_OK;
    int now = 0;
    enter(&f[0], (int32_t)u);
    enter(&b[0], (int32_t)u);
    f[0].value[u] = b[0].value[u] = 1;
    for (int64_t t = 1; t <= w->last && !st; t += 2, now ^= 1) {
        ball *here = &f[now], *next = &f[now ^ 1];
        if ((st = spread(&w->walk->out, here, next, w->pace)))
            break;
        back[t - 1] = dot(&b[now], next);
        if (t < w->last) {
            if ((st = spread(&w->walk->in, &b[now], &b[now ^ 1], w->pace)))
                break;
            back[t] = dot(next, &b[now ^ 1]);
            if ((st = empty(&b[now], w->pace)))
                break;
        }
        if (!(st = pe_pace_add(w->pace, 3 * (here->count + next->count))))
            st = empty(here, w->pace);
    }
    for (int i = 0; i < 2 && !st; i++)
        if (!(st = empty(&f[i], w->pace)))
            st = empty(&b[i], w->pace);
    return st;
}

static posenc_status walk_locally(const walker *w)
{
    posenc_status st = PE_OK;
    ball f[2] = { 0 }, b[2] = { 0 };
    double *back = malloc((size_t)w->last * sizeof *back);
    bool ok = back != NULL;
    for (int i = 0; i < 2; i++) {
        ok = ok && ball_init(&f[i], w->n) && ball_init(&b[i], w->n);
    }
    if (!ok)
        st = pe_no_memory("memory", w->err);
    for (int64_t u = 0; u < w->n && !st; u++)
        if (!(st = walk_from(w, u, f, b, back)))
            st = put(w, u, back, 1);
    for (int i = 0; i < 2; i++) {
        ball_fini(&f[i]);
        ball_fini(&b[i]);
    }
    free(back);
    return st;
}

/* ---- eight near nodes at once ---- */

typedef struct near_groups {
    const walker *w;
    pe_groups groups;
    int64_t each; /* groups of one task */
} near_groups;

static posenc_status walk_groups(void *arg, int64_t i, posenc_error *err)
{
    const near_groups *all = arg;
    const int64_t begin = i * all->each, left = all->groups.count - begin,
                  end = begin + (left < all->each ? left : all->each);
    const int64_t k = columns(all->w->p);
    pe_pace pace = { .ctx = all->w->pace->ctx, .left = PE_PACE_STEPS };
    answer o = *all->w->o;
    walker w = *all->w; /* with a row and a pace of its own */
    pe_ball around = { 0 };
    double *memory = malloc((size_t)(w.last * PE_WIDTH + k) * sizeof *memory);
    posenc_status st = memory ? pe_ball_init(&around, w.n, w.last, err) : pe_no_memory("memory", err);
    w.pace = &pace;
    w.err = err;
    w.o = &o;
    o.row = memory + w.last * PE_WIDTH;
    for (int64_t g = begin; g < end && !st; g++) {
        const int32_t *node = all->groups.node + all->groups.ptr[g];
        const int count = (int)(all->groups.ptr[g + 1] - all->groups.ptr[g]);
        st = pe_ball_walk(&around, &w.walk->out, w.share, node, count, w.last, memory, &pace, err);
        for (int c = 0; c < count && !st; c++)
            st = put(&w, node[c], memory + c, PE_WIDTH);
    }
    pe_ball_fini(&around);
    free(memory);
    return st;
}

static posenc_status walk_near(const walker *w)
{
    enum { GROUPS = 512, TASKS = 64 };
    near_groups all = { .w = w };
    posenc_status st = pe_groups_init(&all.groups, &w->walk->out, w->pace, w->err);
    all.each = all.groups.count / TASKS > GROUPS ? all.groups.count / TASKS : GROUPS;
    if (!st)
        st = pe_parallel(w->pace->ctx, (all.groups.count + all.each - 1) / all.each, ball_bytes(w->n, w->walk->arcs),
                         walk_groups, &all, w->err);
    pe_groups_fini(&all.groups);
    return st;
}

/* ---- eight nodes at once ---- */

enum { CHUNK = 4096 }; /* rows of a panel between two looks at the pace */

static PE_CLONES void add_products(const double *x, const double *y, const double *share, int64_t n, double *sum)
{
    const pe_lanes *f = (const pe_lanes *)x, *b = (const pe_lanes *)y;
    pe_lanes s = { 0 };
    for (int64_t v = 0; v < n; v++)
        s += share ? f[v] * b[v] * (1 / share[v]) : f[v] * b[v];
    *(pe_loose_lanes *)sum += s;
}

/* sum over v of f[v] b[v] by column; where reversible b[v] d(v) is given, and the sum still lacks d(u). */
static posenc_status panel_dot(const walker *w, const double *f, const double *b, double *sum)
{
    posenc_status st = PE_OK;
    memset(sum, 0, PE_WIDTH * sizeof *sum);
    for (int64_t v = 0; v < w->n && !st; v += CHUNK) {
        int64_t rows_here = w->n - v < CHUNK ? w->n - v : CHUNK;
        add_products(f + v * PE_WIDTH, b + v * PE_WIDTH, w->reversible ? w->share + v : NULL, rows_here, sum);
        st = pe_pace_add(w->pace, 8 * rows_here);
    }
    return st;
}

/* back (last, 8) of the nodes u .. u + count - 1 */
static posenc_status walk_panel(const walker *w, int64_t u, int64_t count, double *const f[2], double *const b[2],
                                double *back)
{
    posenc_status st = PE_OK;
    int now = 0;
    if ((st = pe_panel_zero(w->n, f[0], w->pace)) || (!w->reversible && (st = pe_panel_zero(w->n, b[0], w->pace))))
        return st;
    for (int64_t c = 0; c < count; c++) {
        f[0][(u + c) * PE_WIDTH + c] = 1;
        if (!w->reversible)
            b[0][(u + c) * PE_WIDTH + c] = 1;
    }
    for (int64_t t = 1; t <= w->last && !st; t += 2, now ^= 1) {
        double *here = f[now], *next = f[now ^ 1], *to = back + (t - 1) * PE_WIDTH;
        if ((st = pe_sparse_apply(&w->walk->in, here, next, w->pace)) ||
            (st = panel_dot(w, next, w->reversible ? here : b[now], to)))
            return st;
        if (t < w->last) {
            if (!w->reversible && (st = pe_sparse_apply(&w->walk->out, b[now], b[now ^ 1], w->pace)))
                return st;
            st = panel_dot(w, next, w->reversible ? next : b[now ^ 1], to + PE_WIDTH);
        }
    }
    for (int64_t t = 0; t < w->last && w->reversible; t++)
        for (int64_t c = 0; c < count; c++)
            back[t * PE_WIDTH + c] *= w->share[u + c];
    return st;
}

/* ---- small graphs without weights ---- */

static posenc_status walk_abreast(const walker *w, const pe_csr *csr)
{
    const int64_t k = columns(w->p), most = pe_returns_lanes(w->n < PE_RETURNS ? w->n : PE_RETURNS);
    const posenc_dtype dtype = w->o->dtype;
    double *scratch = aligned_alloc(64, (pe_returns_scratch(w->n) + (size_t)((w->last + k) * most) + 8) * sizeof *scratch);
    double *back = scratch + pe_returns_scratch(w->n), *told = back + w->last * most;
    posenc_status st = scratch ? PE_OK : pe_no_memory("memory", w->err);
    for (int64_t u = 0; u < w->n && !st; u += PE_RETURNS) {
        const int64_t count = w->n - u < PE_RETURNS ? w->n - u : PE_RETURNS, lanes = pe_returns_lanes(count);
        if ((st = pe_returns(csr, u, count, w->last, scratch, back, w->pace)))
            break;
        for (int64_t c = 0; c < k; c++) {
            const double *of = back + (step_of(w->p, c) - 1) * lanes, by = w->o->factor[c];
            for (int64_t i = 0; i < count; i++)
                told[i * k + c] = probability(of[i]) * by;
        }
        posenc_convert(dtype, element(w->o->encoding, (w->first + u) * k), told, (size_t)(count * k));
        st = pe_pace_add(w->pace, 6 * k * count);
    }
    free(scratch);
    return st;
}

/* ---- eight nodes at once: steps ---- */

static posenc_status walk_by_panels(const walker *w)
{
    posenc_status st = PE_OK;
    double *f[2] = { pe_panel_new(w->n), pe_panel_new(w->n) }, *b[2] = { NULL, NULL };
    double *back = malloc((size_t)(w->last * PE_WIDTH) * sizeof *back);
    if (!w->reversible) {
        b[0] = pe_panel_new(w->n);
        b[1] = pe_panel_new(w->n);
    }
    if (!f[0] || !f[1] || !back || (!w->reversible && (!b[0] || !b[1])))
        st = pe_no_memory("memory", w->err);
    for (int64_t u = 0; u < w->n && !st; u += PE_WIDTH) {
        int64_t count = w->n - u < PE_WIDTH ? w->n - u : PE_WIDTH;
        st = walk_panel(w, u, count, f, b, back);
        for (int64_t c = 0; c < count && !st; c++)
            st = put(w, u + c, back + c, PE_WIDTH);
    }
    for (int i = 0; i < 2; i++) {
        free(f[i]);
        free(b[i]);
    }
    free(back);
    return st;
}

/* ---- which of the two ---- */

/* What a walk of `steps` steps from u along the rows of m passes over [ns], as far as `most`. */
static posenc_status ball_ns(const pe_sparse *m, int64_t u, int64_t steps, double most, ball *seen, double *ns,
                             pe_pace *pace)
{
    posenc_status st = PE_OK;
    int64_t head = 0, arcs = 0;
    *ns = 0;
    enter(seen, (int32_t)u);
    for (int64_t a = 0; a < steps && *ns < most && !st; a++) {
        for (const int64_t end = seen->count; head < end && !st; head++) {
            const int32_t x = seen->list[head];
            arcs += m->ptr[x + 1] - m->ptr[x];
            for (int64_t i = m->ptr[x]; i < m->ptr[x + 1]; i++)
                enter(seen, m->col[i]);
            st = pe_pace_add(pace, 16 * (m->ptr[x + 1] - m->ptr[x]) + 4);
        }
        *ns += LOCAL_NS * (double)arcs + DOT_NS * 2 * (double)seen->count;
    }
    return st ? st : empty(seen, pace);
}

static posenc_status choose(const walker *w, bool *local)
{
    posenc_status st = PE_OK;
    const double panels = panels_ns((double)w->n, (double)w->walk->arcs, w->last, w->reversible);
    const double most = 4 * panels / (double)(w->n ? w->n : 1);
    const int64_t sample = w->n < SAMPLE ? w->n : SAMPLE, steps = advances(w->last, true);
    ball seen = { 0 };
    double sum = 0;
    *local = false;
    if (w->n <= SMALL)
        return PE_OK;
    if (!ball_init(&seen, w->n))
        st = pe_no_memory("memory", w->err);
    for (int64_t i = 0; i < sample && !st; i++) {
        double ns = 0, also = 0;
        const int64_t u = i * (w->n / sample) + w->n / sample / 2;
        st = ball_ns(&w->walk->out, u, steps, most, &seen, &ns, w->pace);
        if (!st && !w->reversible)
            st = ball_ns(&w->walk->in, u, steps, most, &seen, &also, w->pace);
        sum += ns + also;
    }
    ball_fini(&seen);
    const double near = sum * (double)w->n / (double)sample * (w->reversible ? NEAR : 1),
                 least = near < panels ? near : panels;
    *local = near < panels;
    if (!st)
        st = pe_check_time(least, "method", "method=probe estimates with a standard error; or fewer steps", w->err);
    return st;
}

/* ---- estimates ---- */

/* The mean of what the probes say, and the sum of squared distances from it: one column. */
typedef struct tally {
    double *mean, *square; /* (columns, n) */
    int64_t probes;
} tally;

/* `count` probes: x[v] y[v] in the lanes of row v. */
typedef struct probes {
    double *mean, *square; /* (n) */
    const double *x, *y;
    int64_t count, before;
} probes;

/* Adds them (Chan's rule for two sets). */
static posenc_status add_to_rows(void *arg, int64_t begin, int64_t end, pe_pace *pace)
{
    const probes *p = arg;
    const int64_t count = p->count;
    const double total = (double)(p->before + count), weight = (double)count / total,
                 cross = (double)p->before * (double)count / total;
    posenc_status st = PE_OK;
    for (int64_t v = begin; v < end && !st; v++) {
        double z[PE_WIDTH], sum = 0, squares = 0;
        for (int64_t i = 0; i < count; i++) {
            z[i] = p->x[v * PE_WIDTH + i] * p->y[v * PE_WIDTH + i];
            sum += z[i];
        }
        sum /= (double)count;
        for (int64_t i = 0; i < count; i++)
            squares += (z[i] - sum) * (z[i] - sum);
        const double off = sum - p->mean[v];
        p->mean[v] += off * weight;
        p->square[v] += squares + off * off * cross;
        st = pe_pace_add(pace, 40);
    }
    return st;
}

static posenc_status add_probes(const walker *w, tally *t, int64_t c, const double *x, const double *y, int64_t count)
{
    probes p = { t->mean + c * w->n, t->square + c * w->n, x, y, count, t->probes };
    return pe_by_rows(w->n, add_to_rows, &p, w->pace);
}

/* Random signs in the lanes of f; node v's depends on seed, probe and v. */
static posenc_status draw(const walker *w, int64_t probe, int64_t count, double *f)
{
    enum { BLOCK = 256 };
    posenc_status st = pe_panel_zero(w->n, f, w->pace);
    double u[BLOCK];
    for (int64_t i = 0; i < count && !st; i++)
        for (int64_t v = 0; v < w->n && !st; v += BLOCK) {
            int64_t m = w->n - v < BLOCK ? w->n - v : BLOCK;
            pe_random_uniform((uint64_t)w->p->seed, (uint64_t)(probe + i), (uint64_t)v, (size_t)m, u);
            for (int64_t j = 0; j < m; j++)
                f[(v + j) * PE_WIDTH + i] = u[j] < 0.5 ? -1 : 1;
            st = pe_pace_add(w->pace, 40 * m);
        }
    return st;
}

/* P^a z and (P^T)^b z as they grow; with T symmetric both are the same. */
static posenc_status probe_panel(const walker *w, tally *t, int64_t probe, int64_t count, double *const f[2],
                                 double *const b[2])
{
    const bool both = !w->walk->symmetric;
    posenc_status st = draw(w, probe, count, f[0]);
    int now = 0;
    if (!st && both)
        st = pe_pace_copy(w->pace, b[0], f[0], (size_t)(w->n * PE_WIDTH) * sizeof **b);
    for (int64_t s = 1; s <= w->last && !st; s += 2, now ^= 1) {
        const double *here = both ? b[now] : f[now], *next = f[now ^ 1], *after = both ? b[now ^ 1] : f[now ^ 1];
        if ((st = pe_sparse_apply(&w->walk->out, f[now], f[now ^ 1], w->pace)))
            break;
        for (int32_t c = w->o->first[s]; c >= 0 && !st; c = w->o->next[c])
            st = add_probes(w, t, c, next, here, count);
        if (st || s == w->last)
            break;
        if (both && (st = pe_sparse_apply(&w->walk->in, b[now], b[now ^ 1], w->pace)))
            break;
        for (int32_t c = w->o->first[s + 1]; c >= 0 && !st; c = w->o->next[c])
            st = add_probes(w, t, c, next, after, count);
    }
    return st;
}

/* (T^2)[u, u], and T[u, u] in *once: a walk over the arcs that have a way back. */
static posenc_status two_steps(const walker *w, int64_t u, double *once, double *twice)
{
    const pe_sparse *out = &w->walk->out, *in = &w->walk->in;
    int64_t a = out->ptr[u], b = in->ptr[u];
    const int64_t most = out->ptr[u + 1] - a + in->ptr[u + 1] - b;
    *once = *twice = 0;
    while (a < out->ptr[u + 1] && b < in->ptr[u + 1]) {
        if (out->col[a] == in->col[b]) {
            *once = out->col[a] == u ? out->value[a] : *once;
            *twice += out->value[a++] * in->value[b++];
        } else if (out->col[a] < in->col[b]) {
            a++;
        } else {
            b++;
        }
    }
    return pe_pace_add(w->pace, 4 * most + 8);
}

/* Marks the nodes of components that two colours suffice for: no walk of odd length ends where it began. */
static posenc_status find_bipartite(const walker *w, uint8_t *bipartite)
{
    const pe_sparse *m = &w->walk->out;
    posenc_status st = PE_OK;
    ball seen = { 0 };
    if (!ball_init(&seen, w->n)) {
        ball_fini(&seen);
        return pe_no_memory("memory", w->err);
    }
    for (int64_t root = 0; root < w->n && !st; root++) {
        int64_t head = seen.count;
        const int64_t begin = head;
        bool two = true;
        if ((st = pe_pace_add(w->pace, 2)) || seen.in[root])
            continue;
        enter(&seen, (int32_t)root);
        for (; head < seen.count && !st; head++) {
            const int32_t u = seen.list[head];
            for (int64_t a = m->ptr[u]; a < m->ptr[u + 1]; a++) {
                const int32_t v = m->col[a];
                if (!seen.in[v])
                    seen.value[v] = 1 - seen.value[u];
                enter(&seen, v);
                two = two && seen.value[v] != seen.value[u];
            }
            st = pe_pace_add(w->pace, 6 * (m->ptr[u + 1] - m->ptr[u]) + 4);
        }
        for (int64_t i = begin; i < seen.count && !st; i++) {
            bipartite[seen.list[i]] = two;
            st = pe_pace_add(w->pace, 2);
        }
    }
    ball_fini(&seen);
    return st;
}

static posenc_status put_estimates(const walker *w, const tally *t, const uint8_t *bipartite)
{
    const int64_t k = columns(w->p);
    const double n = (double)t->probes;
    posenc_status st = PE_OK;
    double *mean = w->o->row, *error = w->o->row + k;
    for (int64_t u = 0; u < w->n && !st; u++) {
        double once, twice;
        if ((st = two_steps(w, u, &once, &twice)))
            break;
        for (int64_t c = 0; c < k; c++) {
            const int64_t s = step_of(w->p, c);
            const bool never = bipartite[u] && s % 2, known = s <= 2 || never;
            const double x = s == 1 ? once : s == 2 ? twice : never ? 0 : t->mean[c * w->n + u];
            mean[c] = probability(x) * w->o->factor[c];
            error[c] = known ? 0 : probability(sqrt(t->square[c * w->n + u] / (n - 1) / n)) * w->o->factor[c];
        }
        posenc_convert(w->o->dtype, element(w->o->encoding, (w->first + u) * k), mean, (size_t)k);
        posenc_convert(w->o->dtype, element(w->o->error, (w->first + u) * k), error, (size_t)k);
        st = pe_pace_add(w->pace, 40 * k + 16);
    }
    return st;
}

static posenc_status estimate(const walker *w)
{
    posenc_status st = PE_OK;
    const bool both = !w->walk->symmetric;
    const size_t size = (size_t)(columns(w->p) * w->n) + 1;
    double *f[2] = { pe_panel_new(w->n), pe_panel_new(w->n) };
    double *b[2] = { both ? pe_panel_new(w->n) : NULL, both ? pe_panel_new(w->n) : NULL };
    tally t = { .mean = calloc(size, sizeof *t.mean), .square = calloc(size, sizeof *t.square) };
    uint8_t *bipartite = calloc((size_t)w->n + 1, 1);
    if (!f[0] || !f[1] || (both && (!b[0] || !b[1])) || !t.mean || !t.square || !bipartite)
        st = pe_no_memory("memory", w->err);
    if (!st && !both)
        st = find_bipartite(w, bipartite);
    for (int64_t probe = 0; probe < w->p->num_probes && !st; probe += PE_WIDTH) {
        int64_t left = w->p->num_probes - probe, count = left < PE_WIDTH ? left : PE_WIDTH;
        st = w->last > 2 ? probe_panel(w, &t, probe, count, f, b) : PE_OK;
        t.probes += count;
    }
    if (!st)
        st = put_estimates(w, &t, bipartite);
    for (int i = 0; i < 2; i++) {
        free(f[i]);
        free(b[i]);
    }
    free(t.mean);
    free(t.square);
    free(bipartite);
    return st;
}

/* ---- answers ---- */

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    const posenc_graph *graph = j->request->graph;
    const random_walk *p = j->request->params;
    const pe_walk_form form = p->method == PROBE && !graph->directed ? PE_WALK_SYM : PE_WALK_ROW;
    pe_csr_options options = p->edges;
    pe_walk walk = { 0 };
    bool local = false;
    options.directed = true;
    walker w = {
        .p = p, .walk = &walk, .o = o, .first = j->first, .n = j->n, .last = o->last, .pace = &j->pace, .err = err
    };
    pe_simple plain;
    if (p->method == EXACT && pe_simple_build(graph, j->graph, p->edges.self_loops, &plain))
        return walk_abreast(&w, &plain.csr);
    posenc_status st = pe_walk_build(graph, j->graph, &options, form, &walk, &j->pace, err);
    if (!st && p->method == PROBE && j->n)
        st = estimate(&w);
    else if (!st && p->method == EXACT && w.n <= SMALL && walk.symmetric && walk.plain)
        st = walk_abreast(&w, &walk.csr);
    else if (!st && p->method == EXACT && !(st = measure(&w)) && !(st = choose(&w, &local)))
        st = !local ? walk_by_panels(&w) : w.reversible ? walk_near(&w) : walk_locally(&w);
    j->zero_edges = walk.zero_edges;
    free(w.share);
    pe_walk_fini(&walk);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    answer *o = self;
    posenc_status st = pe_spoil(o->encoding, j->first, j->n, &j->pace);
    return st || !o->error ? st : pe_spoil(o->error, j->first, j->n, &j->pace);
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    answer *o = copy;
    o->row = malloc(2 * (size_t)columns(c->request->params) * sizeof *o->row);
    return o->row ? PE_OK : pe_no_memory("memory", err);
}

static void end(void *copy, void *self)
{
    (void)self;
    free(((answer *)copy)->row);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const random_walk *p = r->params;
    const size_t k = (size_t)columns(p);
    const int64_t last = last_step(p);
    double *memory = malloc(k * sizeof *memory);
    int32_t *lists = malloc(((size_t)last + 1 + k) * sizeof *lists);
    answer o = { .dtype = (posenc_dtype)r->common.dtype,
                 .encoding = pe_tensor(out, "encoding"),
                 .error = p->method == PROBE ? pe_tensor(out, "standard_error") : NULL,
                 .factor = memory,
                 .last = last,
                 .first = lists,
                 .next = lists + last + 1 };
    const pe_graph_task task = {
        .encode = encode, .spoil = spoil, .self = &o, .size = sizeof o, .begin = begin, .end = end
    };
    if (!memory || !lists) {
        free(memory);
        free(lists);
        return pe_no_memory("memory", err);
    }
    for (int64_t s = 0; s <= last; s++)
        o.first[s] = -1;
    for (size_t c = 0; c < k; c++) {
        const int64_t s = step_of(p, (int64_t)c);
        o.factor[c] = factor(p, s);
        o.next[c] = o.first[s];
        o.first[s] = (int32_t)c;
    }
    posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    free(memory);
    free(lists);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_random_walk = {
    .name = "random_walk",
    .family = "graph",
    .title = "Return probabilities of random walks",
    .source = "Dwivedi et al. 2022, arXiv:2110.07875; PyG AddRandomWalkPE, DGL random_walk_pe, GraphGPS RWSE",
    .formula =
        "encoding[u, c] = (P^t)[u, u] t^(space_dim / 2), P = D^-1 A by out-degrees, t = ksteps[c] or c + 1\n"
        "method=probe: mean over random signs z of (P^a z)_u ((P^T)^b z)_u, a + b = t, P in symmetric form if undirected",
    .example = "walk_length=6",
    .revision = 2,
    .input = PE_GRAPH,
    PE_TABLE(random_walk, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
