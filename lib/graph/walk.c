/* walk.c - transition matrices, and their product with eight vectors at once. */
#include "graph/walk.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- entries ---- */

/* w / sqrt(a b): by the larger root first, so that nothing overflows and the order of a and b does not show. */
static double between(double w, double a, double b)
{
    double p = sqrt(a), q = sqrt(b), large = p > q ? p : q, small = p > q ? q : p, t = w / large / small;
    return t < 1 ? t : 1;
}

/* The entries of the matrix whose rows are those of c: row x of c is a source (`rows`) or a target. */
static posenc_status fill(const pe_csr *c, pe_walk_form form, bool rows, const double *degree, double *value, pe_pace *pace)
{
    posenc_status st = PE_OK;
    const bool by_row = (form == PE_WALK_ROW) == rows;
    for (int64_t x = 0; x < c->n && !st; x++) {
        for (int64_t a = c->ptr[x]; a < c->ptr[x + 1] && !st; a++) {
            double w = c->weight ? c->weight[a] : 1;
            value[a] = form == PE_WALK_SYM ? between(w, degree[x], degree[c->col[a]]) : w / degree[by_row ? x : c->col[a]];
            st = pe_pace_add(pace, 8);
        }
        if (!st)
            st = pe_pace_add(pace, 4);
    }
    return st;
}

static posenc_status mean_weight(pe_walk *w, pe_pace *pace)
{
    posenc_status st = PE_OK;
    w->mean_weight = 1;
    if (!w->csr.weight)
        return st;
    double mean = 0;
    for (int64_t a = 0; a < w->arcs && !st; a++) {
        mean += w->csr.weight[a] / (double)w->arcs;
        st = pe_pace_add(pace, 4);
    }
    w->mean_weight = mean > 0 ? mean : 1;
    return st;
}

posenc_status pe_walk_build(const posenc_graph *graph, int64_t g, const pe_csr_options *o, pe_walk_form form, pe_walk *out,
                            pe_pace *pace, posenc_error *err)
{
    pe_walk w = { .symmetric = !(graph->directed && o->directed) };
    posenc_status st = pe_csr_build(graph, g, o, &w.csr, pace->ctx, err);
    if (!st && !w.symmetric)
        st = pe_csr_transpose(&w.csr, &w.turned, pace->ctx, err);
    if (st)
        goto done;
    const pe_csr *in = w.symmetric ? &w.csr : &w.turned;
    const size_t size = (size_t)(w.csr.arcs ? w.csr.arcs : 1) * sizeof(double);
    w.n = w.csr.n;
    w.arcs = w.csr.arcs;
    w.plain = !w.csr.weight;
    w.zero_edges = w.csr.zero_edges;
    w.out = (pe_sparse){ w.n, w.csr.ptr, w.csr.col, pe_work_memory(size) };
    w.in = (pe_sparse){ w.n, in->ptr, in->col, pe_work_memory(size) };
    w.degree = form == PE_WALK_COL ? in->degree : w.csr.degree;
    if (!w.out.value || !w.in.value) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = mean_weight(&w, pace)) || (st = fill(&w.csr, form, true, w.degree, w.out.value, pace)) ||
        (st = fill(in, form, false, w.degree, w.in.value, pace)))
        goto done;
    free(w.csr.weight);
    free(w.turned.weight);
    w.csr.weight = w.turned.weight = NULL;
    *out = w;
    return PE_OK;
done:
    pe_walk_fini(&w);
    return st;
}

void pe_walk_fini(pe_walk *w)
{
    pe_csr_fini(&w->csr);
    pe_csr_fini(&w->turned);
    free(w->out.value);
    free(w->in.value);
    *w = (pe_walk){ 0 };
}

uint64_t pe_walk_bytes(int64_t nodes, int64_t arcs, bool directed)
{
    uint64_t n = (uint64_t)nodes, m = (uint64_t)arcs;
    return directed ? 56 * n + 72 * m + 1024 : 56 * n + 96 * m + 1024; /* while it is built: lists of arcs, both layouts */
}

/* ---- products ---- */

enum { ARCS = 1 << 16 }; /* worked on between two looks at the pace */

static PE_CLONES void add_arcs(const pe_sparse *m, const double *x, double *y, int64_t begin, int64_t end)
{
    const pe_lanes *from = (const pe_lanes *)x;
    pe_lanes sum = *(pe_lanes *)y;
    for (int64_t a = begin; a < end; a++)
        sum += m->value[a] * from[m->col[a]];
    *(pe_lanes *)y = sum;
}

static PE_CLONES void apply_rows(const pe_sparse *m, const double *x, double *y, int64_t begin, int64_t end)
{
    const pe_lanes *from = (const pe_lanes *)x;
    for (int64_t v = begin; v < end; v++) {
        pe_lanes sum = { 0 };
        for (int64_t a = m->ptr[v]; a < m->ptr[v + 1]; a++)
            sum += m->value[a] * from[m->col[a]];
        ((pe_lanes *)y)[v] = sum;
    }
}

/* A row that is long by itself. */
static posenc_status apply_long(const pe_sparse *m, const double *x, double *y, int64_t v, pe_pace *pace)
{
    posenc_status st = PE_OK;
    memset(y + v * PE_WIDTH, 0, PE_WIDTH * sizeof *y);
    for (int64_t a = m->ptr[v]; a < m->ptr[v + 1] && !st; a += ARCS) {
        int64_t end = a + ARCS < m->ptr[v + 1] ? a + ARCS : m->ptr[v + 1];
        add_arcs(m, x, y + v * PE_WIDTH, a, end);
        st = pe_pace_add(pace, 4 * (end - a));
    }
    return st;
}

static posenc_status apply_range(const pe_sparse *m, const double *x, double *y, int64_t begin, int64_t last, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t v = begin, end; v < last && !st; v = end) {
        for (end = v; end < last && end - v < ARCS / 4 && m->ptr[end + 1] - m->ptr[v] <= ARCS; end++)
            ;
        if (end == v) {
            st = apply_long(m, x, y, v, pace);
            end = v + 1;
        } else {
            apply_rows(m, x, y, v, end);
            st = pe_pace_add(pace, 5 * (end - v) + 4 * (m->ptr[end] - m->ptr[v]));
        }
    }
    return st;
}

/* ---- rows on several threads ---- */

typedef struct row_range {
    pe_row_task *task;
    void *arg;
    posenc_context *ctx;
    int64_t n;
} row_range;

enum { ROWS = 1 << 15 };

static posenc_status one_range(void *arg, int64_t i, posenc_error *err)
{
    const row_range *r = arg;
    pe_pace pace = { .ctx = r->ctx, .left = PE_PACE_STEPS };
    const int64_t begin = i * ROWS;
    (void)err;
    return r->task(r->arg, begin, r->n - begin < ROWS ? r->n : begin + ROWS, &pace);
}

posenc_status pe_by_rows(int64_t n, pe_row_task *task, void *arg, pe_pace *pace)
{
    row_range r = { task, arg, pace->ctx, n };
    if (n < 2 * ROWS || !pace->ctx || !pace->ctx->parallel)
        return task(arg, 0, n, pace);
    return pe_parallel(pace->ctx, (n + ROWS - 1) / ROWS, 0, one_range, &r, NULL);
}

typedef struct product {
    const pe_sparse *m;
    const double *x;
    double *y;
} product;

static posenc_status apply_task(void *arg, int64_t begin, int64_t end, pe_pace *pace)
{
    const product *p = arg;
    return apply_range(p->m, p->x, p->y, begin, end, pace);
}

posenc_status pe_sparse_apply(const pe_sparse *m, const double *x, double *y, pe_pace *pace)
{
    product p = { m, x, y };
    return pe_by_rows(m->n, apply_task, &p, pace);
}

posenc_status pe_panel_zero(int64_t n, double *x, pe_pace *pace)
{
    enum { SOME = 4096 };
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < n && !st; v += SOME) {
        int64_t rows = n - v < SOME ? n - v : SOME;
        memset(x + v * PE_WIDTH, 0, (size_t)(rows * PE_WIDTH) * sizeof *x);
        st = pe_pace_add(pace, 4 * rows);
    }
    return st;
}

/* ---- balls ---- */

enum { BALLS = 8, MOST_SEEN = 4096, MOST_ARCS = 1 << 22, SMALL = 512 };

/* Who is next to whom, without weights. */
typedef struct pattern {
    int64_t n;
    int64_t *ptr;        /* (n + 2) */
    int32_t *col, *list; /* (arcs), (n) */
    uint8_t *seen;       /* (n) */
} pattern;

static void pattern_fini(pattern *p)
{
    free(p->ptr);
    free(p->col);
    free(p->list);
    free(p->seen);
}

static bool pattern_init(pattern *p, const posenc_graph *graph, int64_t g, bool one_way, pe_pace *pace)
{
    const int64_t first = graph->ptr[g], n = graph->ptr[g + 1] - first, begin = graph->arc_ptr[g],
                  end = graph->arc_ptr[g + 1];
    *p = (pattern){ .n = n,
                    .ptr = calloc((size_t)n + 2, sizeof *p->ptr),
                    .col = pe_work_memory((size_t)(2 * (end - begin) + 1) * sizeof *p->col),
                    .list = pe_work_memory((size_t)(n + 1) * sizeof *p->list),
                    .seen = calloc((size_t)n + 1, 1) };
    if (!p->ptr || !p->col || !p->list || !p->seen)
        return false;
    for (int64_t a = begin; a < end; a++) {
        p->ptr[graph->source[a] - first + 2]++;
        if (!one_way)
            p->ptr[graph->target[a] - first + 2]++;
        if (pe_pace_add(pace, 16))
            return false;
    }
    for (int64_t v = 0; v < n; v++) {
        p->ptr[v + 2] += p->ptr[v + 1];
        if (pe_pace_add(pace, 4))
            return false;
    }
    for (int64_t a = begin; a < end; a++) { /* ptr[v + 1]: next free place of row v */
        const int32_t u = (int32_t)(graph->source[a] - first), v = (int32_t)(graph->target[a] - first);
        p->col[p->ptr[u + 1]++] = v;
        if (!one_way)
            p->col[p->ptr[v + 1]++] = u;
        if (pe_pace_add(pace, 32))
            return false;
    }
    return true;
}

/* The ball around v is added to w, as far as it has MOST_SEEN nodes; the last step that is whole. */
static int look_around(pattern *p, int32_t v, double closed, int steps, pe_growth *w, pe_pace *pace)
{
    int64_t head = 0, tail = 1, arcs = 0, work = 0;
    posenc_status st = PE_OK;
    int step = 0;
    p->list[0] = v;
    p->seen[v] = 1;
    for (;; step++) {
        for (const int64_t end = tail; head < end && !st; head++) {
            const int32_t u = p->list[head];
            const int64_t d = p->ptr[u + 1] - p->ptr[u];
            arcs += (double)d < closed ? d : 0;
            for (int64_t a = p->ptr[u]; a < p->ptr[u + 1] && (double)d < closed; a++)
                if (!p->seen[p->col[a]]) {
                    p->seen[p->col[a]] = 1;
                    p->list[tail++] = p->col[a];
                }
            st = pe_pace_add(pace, 8 * d + 8);
        }
        w->ball[step] += (double)head;
        w->arcs[step] += (double)arcs;
        work += arcs;
        if (st || step == steps || (tail > MOST_SEEN && step >= 2) || work > 256 * MOST_SEEN)
            break;
    }
    for (int64_t i = 0; i < tail; i++)
        p->seen[p->list[i]] = 0;
    return step;
}

pe_growth pe_growth_of(const posenc_graph *graph, int64_t g, bool one_way, double closed, int64_t steps, posenc_context *ctx)
{
    const int64_t n = graph->ptr[g + 1] - graph->ptr[g], m = graph->arc_ptr[g + 1] - graph->arc_ptr[g];
    const double arcs = (double)m * (one_way ? 1 : 2);
    pe_growth w = { .nodes = (double)n, .degree = n ? arcs / (double)n : 0, .known = -1 };
    pattern p = { 0 };
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    const int most = steps < PE_GROWTH_STEPS ? (int)steps : PE_GROWTH_STEPS;
    if (n > SMALL && m <= MOST_ARCS && n <= 8 * m + 1024 && pattern_init(&p, graph, g, one_way, &pace)) {
        const int64_t balls = m < MOST_ARCS / 4 ? BALLS : BALLS / 4;
        int reached = most;
        for (int64_t i = 0; i < balls; i++) {
            pe_growth one = { .nodes = w.nodes };
            const int last = look_around(&p, (int32_t)(i * (n / balls) + n / balls / 2), closed, most, &one, &pace);
            reached = last < reached ? last : reached;
            for (int a = 0; a <= most; a++) {
                w.ball[a] += one.ball[a] / (double)balls;
                w.arcs[a] += one.arcs[a] / (double)balls;
            }
        }
        w.known = reached;
    }
    pattern_fini(&p);
    if (w.known < 0) {
        w.known = 1;
        w.ball[0] = 1;
        w.arcs[0] = w.degree;
        w.ball[1] = 1 + w.degree;
        w.arcs[1] = w.degree * w.ball[1];
    }
    return w;
}

/* Beyond what is known a ball goes on growing as its last step did, up to `all`. */
static double beyond(const double *of, int known, int64_t step, double all)
{
    if (step <= known)
        return of[step];
    const double last = known ? of[known] - of[known - 1] : 0, before = known > 1 ? of[known - 1] - of[known - 2] : last;
    const double ratio = before > 0 ? last / before : 1;
    double size = of[known], ring = last;
    for (int64_t a = known; a < step && size < all && ring > 1e-3; a++) {
        /* rings that grow like those of a plane grow by ever less */
        ring *= ratio > 1.5 ? ratio : 1 + (ratio - 1) * (double)(known + 1) / (double)(a + 1);
        size += ring;
    }
    return size < all ? size : all;
}

double pe_growth_ball(const pe_growth *w, int64_t steps) { return beyond(w->ball, w->known, steps, w->nodes); }
double pe_growth_arcs(const pe_growth *w, int64_t steps) { return beyond(w->arcs, w->known, steps, w->nodes * w->degree); }
