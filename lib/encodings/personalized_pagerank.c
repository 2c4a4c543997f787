/* personalized_pagerank.c - how much of a walk that keeps returning to its source is spent at each node.
 *
 *     S = alpha (I - (1 - alpha) T)^-1 = alpha sum over k of (1 - alpha)^k T^k
 *     row  T = Dout^-1 A      col  T = A Din^-1      sym  T = D^-1/2 A D^-1/2, of a directed graph by the union of its arcs
 *
 * Row i of S has the source i. A node that T gives no way on (row: no arc out; col: no arc in; sym: isolated) is a dead end;
 * with m = the mass that a walk loses there, computed once per graph, and U = PageRank from everywhere:
 *   leak     it is lost: the row (col: the column) of a source sums to 1 - m            GDC
 *   source   it begins again at the source:    S / (1 - m)                               networkx
 *   uniform  it begins again anywhere:         S + m U
 *   self     it stays: a dead end has a loop    S / alpha at dead ends                   digraph_transformer
 *
 * Exact: the series, by squares of the matrix up to 64 nodes, otherwise eight sources at once, cut where (1 - alpha)^k <
 * 2^-60: all terms are 0 or more and nothing cancels. With eps: forward push (Andersen, Chung, Lang 2006). What a source has
 * not yet spread is kept as residues r with S[i, .] = p + sum over u of r[u] S[u, .]; node u is pushed while r[u] >= eps
 * d(u) (sym: eps sqrt(d(i) d(u)), col: eps), d counting in mean weights, so that no scale of the weights matters; a dead end
 * counts as d = 1. Undirected: 0 <= S - p <= eps d(v) at node v. error_bound is what can be said of all entries of the row.
 *
 * topk: the largest scores of a row but the source's own. Scores that agree in 24 bits are a tie and stand by ascending id,
 * so that rounding decides nothing; scores of 0 count like others. Graph-Bert: k = 5, in numpy's order.
 *
 * Peers: GDC (alpha as here; row i is the source i with row), Graph-Bert (c = 0.15, sym), networkx (its alpha is 1 - ours),
 * digraph_transformer (restart_p = 0.2).
 * Sources: Page et al. 1999; Klicpera et al. 2019, arXiv:1911.05485; Zhang et al. 2020, Graph-Bert, arXiv:2001.05140. */
#include "core/elementary.h"
#include "core/exact.h"
#include "core/memory.h"
#include "graph/batch.h"
#include "graph/walk.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_personalized_pagerank;

/* ---- rows ---- */

enum { SYM, ROW, COL };
enum { FULL, DIAG, TOPK, ROWS };
enum { LEAK, SOURCE, UNIFORM, SELF };
enum { MOST_K = 4096 };
enum { SQUARES = 64, BY_STEPS = 8 }; /* by squares: of so many nodes; terms that are summed one by one */

static const char *const normalizations[] = { "sym", "row", "col", NULL };
static const char *const output_words[] = { "full", "diag", "topk", "rows", NULL };
static const char *const danglings[] = { "leak", "source", "uniform", "self", NULL };

typedef struct pagerank {
    posenc_given given;
    double alpha, eps;
    int normalization, output, dangling;
    posenc_reals sources;
    int64_t k;
    pe_csr_options edges;
} pagerank;

static const posenc_param rows[] = {
    { PE_REAL(pagerank, alpha), .def = 0.15, .min = 1e-4, .max = 1,
      .doc = "probability of a return to the source before each step (networkx: 1 - alpha)" },
    { PE_ENUM(pagerank, normalization), .names = normalizations, .def = SYM,
      .doc = "D^-1/2 A D^-1/2 (Graph-Bert, GDC), steps by out-degrees, or its columns normalised" },
    { PE_ENUM(pagerank, output), .flags = PE_SELECTOR, .names = output_words, .def = FULL,
      .doc = "the matrix; its diagonal; the k largest scores of each row and whose they are; or the rows of sources" },
    { PE_REALS(pagerank, sources), .when = PE_ON(TOPK) | PE_ON(ROWS), .flags = PE_OPTIONAL, .min = 0, .max = 2147483647,
      .doc = "nodes whose rows are wanted, in any order, ids of the whole batch; topk without it: all nodes" },
    { PE_INT(pagerank, k), .when = PE_ON(TOPK), .def = 5, .min = 1, .max = MOST_K, .doc = "scores of a row" },
    { PE_ENUM(pagerank, dangling), .names = danglings, .def = LEAK,
      .doc =
          "what a walk does where there is no way on: it is lost (GDC), returns to its source (networkx), begins anywhere, "
          "or stays (digraph_transformer); sym: leak or self" },
    { PE_REAL(pagerank, eps), .flags = PE_OPTIONAL, .min = 1e-12, .max = 1,
      .doc = "approximate by push, off by at most eps times a degree, error_bound says how far (GDC: 1e-4); absent: exact" },
    PE_EDGE_ROWS(pagerank, edges, PE_LOOPS_KEEP),
};

static const posenc_output outputs[] = {
    { "scores",
      "full: [n, n], of a batch [sum of n^2]; diag: [num_nodes, 1]; topk: [rows, k]; rows: [sources, n], of a batch "
      "one after the other",
      "S; topk: in descending order, 0 where a graph has no more nodes", NULL },
    { "ids", "[rows, k]", "topk only: whose scores they are, counted from 0 in their graph; -1: no node", "int64" },
    { "offsets", "[G + 1] or [sources + 1]", "full and rows of a batch: where each graph, or row, begins in scores",
      "int64" },
    { "error_bound", "[rows]", "with eps: no entry of the row is off by more, 0 <= S - scores <= error_bound", "float64" },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

static bool by_sources(const pagerank *p) { return p->output >= TOPK && p->sources.n; }
static int64_t rows_of(const pagerank *p, int64_t nodes) { return by_sources(p) ? (int64_t)p->sources.n : nodes; }

static int64_t graph_of(const posenc_graph *g, double node)
{
    int64_t low = 0, high = g->ngraphs; /* ptr[low] <= node < ptr[high] */
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if ((double)g->ptr[mid] <= node)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static double nodes_in(const posenc_graph *g, int64_t i) { return (double)(g->ptr[i + 1] - g->ptr[i]); }

/* Elements of the n^2 kinds of scores. */
static double elements(const posenc_request *r)
{
    const pagerank *p = r->params;
    double sum = 0;
    for (int64_t i = 0; i < r->graph->ngraphs && p->output == FULL; i++)
        sum += nodes_in(r->graph, i) * nodes_in(r->graph, i);
    for (size_t i = 0; i < p->sources.n && p->output == ROWS; i++)
        sum += nodes_in(r->graph, graph_of(r->graph, p->sources.v[i]));
    return sum;
}

static posenc_status check_sources(const posenc_request *r, posenc_error *err)
{
    const pagerank *p = r->params;
    const int64_t n = r->graph->nodes;
    int faults = 0;
    if (p->output == ROWS && !p->sources.n)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "sources", "absent", "a list of nodes, with output=rows");
    for (size_t i = 0; i < p->sources.n && faults < PE_MAX_FAULTS; i++) {
        double v = p->sources.v[i];
        if (v == floor(v) && v < (double)n)
            continue;
        faults++;
        pe_invalid(err, posenc_text("sources[%zu]", i).s, posenc_text("%.17g", v), "%s",
                   n ? posenc_text("a node, 0 .. %lld", (long long)n - 1).s : "no source: num_nodes is 0");
    }
    return faults ? PE_INVALID : PE_OK;
}

/* Terms of the series. */
static int64_t terms(double alpha)
{
    int64_t k = 0;
    for (double left = 1; left >= 0x1p-60; k++)
        left *= 1 - alpha;
    return k;
}

static double series_ns(int64_t nterms, double nrows, double n, double arcs)
{
    return ceil(nrows / PE_WIDTH) * (double)nterms * pe_sparse_apply_ns(n, arcs);
}

static const char series_instead[] = "eps approximates with an error_bound; or fewer sources, or a larger alpha";

/* Where the nodes alone take too long nothing is built. A batch says it of each graph, in its status. */
static posenc_status check_series(const posenc_request *r, posenc_error *err)
{
    const pagerank *p = r->params;
    const int64_t n = r->graph->nodes;
    return r->graph->batched
               ? PE_OK
               : pe_check_time(series_ns(terms(p->alpha), (double)rows_of(p, n), (double)n, 0), "eps", series_instead, err);
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    const pagerank *p = r->params;
    posenc_status st = check_sources(r, err);
    const bool known = !st;
    if (p->normalization == SYM && (p->dangling == SOURCE || p->dangling == UNIFORM))
        st = pe_invalid(err, "dangling", posenc_text("%s", danglings[p->dangling]),
                        "leak or self with normalization=sym, whose rows are no probabilities");
    if (p->normalization != SYM && p->edges.on_directed != PE_DIRECTED_SYMMETRIZE)
        st = pe_not_applicable(err, "on_directed", "error", "normalization=sym; row and col take arcs as they are");
    else if (r->graph->directed && p->edges.on_directed == PE_DIRECTED_ERROR)
        st = posenc_fail(err, PE_INVALID, "DIRECTED_GRAPH", "graph.directed", "true",
                         "false; or on_directed=symmetrize; or normalization=row or col");
    const double bytes = known ? elements(r) * (double)posenc_dtype_size((posenc_dtype)r->common.dtype) : 0;
    if (bytes > 0x1p31)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", p->output == FULL ? "output" : "sources",
                         posenc_text("%s: %.0f bytes", output_words[p->output], bytes).s,
                         p->output == FULL ? "at most 2^31 bytes: output=topk, output=diag, or output=rows with sources"
                                           : "at most 2^31 bytes: fewer sources, or output=topk");
    if (!pe_given(r, "eps") && known) {
        const posenc_status slow = check_series(r, err);
        st = st ? st : slow;
    }
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const pagerank *p = r->params;
    const posenc_graph *g = r->graph;
    const int64_t n = rows_of(p, g->nodes), total = (int64_t)elements(r);
    const int64_t flat[] = { n, p->output == DIAG ? 1 : p->output == TOPK ? p->k : g->nodes };
    const bool lined_up = g->batched && (p->output == FULL || p->output == ROWS);
    posenc_status st = lined_up ? pe_output(out, "scores", (posenc_dtype)r->common.dtype, 1, &total, err)
                                : pe_output(out, "scores", (posenc_dtype)r->common.dtype, 2, flat, err);
    if (!st && p->output == TOPK)
        st = pe_output(out, "ids", PE_int64, 2, flat, err);
    if (!st && lined_up)
        st = pe_output(out, "offsets", PE_int64, 1, (int64_t[]){ (p->output == FULL ? g->ngraphs : n) + 1 }, err);
    if (!st && pe_given(r, "eps"))
        st = pe_output(out, "error_bound", PE_float64, 1, &n, err);
    return st ? st : pe_status_output(r, out, err);
}

/* ---- what it costs ---- */

/* By squares: each of them, and what it is joined to, a product of small matrices. */
static double squares_ns(int64_t nterms, double n)
{
    double squares = 0;
    for (int64_t k = BY_STEPS; k < nterms; k *= 2)
        squares += 2;
    return 1.5 * squares * n * n * ceil(n / PE_WIDTH);
}

/* What pushes take, by measure: an arc passed over, and a node that is touched, which is far away in a large graph. */
static const double ARC_NS = 5;
static double touch_ns(double n) { return n > 300000 ? 90 : n > 20000 ? 35 : 12; }

/* Rings of the ball of a source are pushed while what is left of a walk, spread over them, is over their thresholds; beyond
 * that a share of them. A walk is not as far as it could be, half of that is measured. */
static double push_ns(const pagerank *p, double nrows, const pe_growth *g)
{
    const double most = 1 / (p->alpha * p->eps); /* what is spread comes in parts of alpha eps at least */
    double sum = 0, touched = 1, left = 1;
    for (int64_t k = 0; left >= p->eps && sum < most; k++, left *= 1 - p->alpha) {
        const double ball = pe_growth_ball(g, k), arcs = pe_growth_arcs(g, k);
        const double share = pe_min(left / (p->eps * pe_max(p->normalization == COL ? ball : arcs, 1)), 1);
        sum += 0.5 * share * share * pe_max(arcs, 1);
        touched += 0.5 * share * share * (pe_growth_ball(g, k + 1) - ball);
        if (share < 0x1p-10)
            break;
    }
    return nrows * (300 + ARC_NS * pe_min(sum, most) + touch_ns(g->nodes) * (10 + pe_min(touched, most)));
}

/* Whether the series is summed, for rows or for what dead ends lose. */
static bool by_panels(const pagerank *p, bool pushed) { return !pushed || p->dangling == SOURCE || p->dangling == UNIFORM; }

/* How many sources each graph has, (ngraphs); NULL: no memory, or it does not matter. */
static int32_t *count_sources(const posenc_request *r)
{
    const pagerank *p = r->params;
    int32_t *count = by_sources(p) ? calloc((size_t)r->graph->ngraphs, sizeof *count) : NULL;
    for (size_t i = 0; count && i < p->sources.n; i++)
        count[graph_of(r->graph, p->sources.v[i])]++;
    return count;
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const pagerank *p = r->params;
    const posenc_graph *g = r->graph;
    const bool one_way = g->directed && p->normalization != SYM, pushed = pe_given(r, "eps");
    const int64_t nterms = terms(p->alpha); /* takes a while: not for each graph of a batch */
    int32_t *sources = count_sources(r);
    *out = (posenc_cost){ .ns = 500 + 100 * (double)p->sources.n, .scratch = 48 * (uint64_t)p->sources.n };
    uint64_t most = 0;
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t n = g->ptr[i + 1] - g->ptr[i], m = g->arc_ptr[i + 1] - g->arc_ptr[i];
        const double arcs = one_way ? (double)m : 2 * (double)m, nrows = sources ? sources[i] : (double)n;
        const uint64_t scratch = pe_walk_bytes(n, m, one_way) + 64 * MOST_K + (1u << 18) +
                                 (uint64_t)n * (24u + (pushed ? 48u : 0u) + (by_panels(p, pushed) ? 128u : 0u));
        out->ns += 3000 + 100 * (double)m + 40 * (double)n;
        if (pushed && nrows > 0) {
            /* hubs that never have so much are not passed */
            const pe_growth growth = pe_growth_of(g, i, one_way, 1 / p->eps, PE_GROWTH_STEPS, r->ctx);
            out->ns += push_ns(p, nrows, &growth);
        } else {
            out->ns += n <= SQUARES ? squares_ns(nterms, (double)n) : series_ns(nterms, nrows, (double)n, arcs);
        }
        if (!pushed || p->output != TOPK)
            out->ns += nrows * (double)n * (p->output == DIAG ? 0.1 : 4);
        if (p->dangling == SOURCE || p->dangling == UNIFORM)
            out->ns += 2 * (double)nterms * pe_sparse_apply_ns((double)n, arcs);
        most = scratch > most ? scratch : most;
    }
    out->scratch += most;
    free(sources);
}

/* ---- the k largest ---- */

typedef struct scored {
    uint64_t key; /* the score in 24 bits: the bits of positive numbers are ordered as the numbers */
    double score;
    int64_t id;
} scored;

/* A heap whose first element is the worst that is kept. */
typedef struct best {
    scored *of; /* (k) */
    int64_t count, k;
} best;

static bool better(const scored *a, const scored *b) { return a->key != b->key ? a->key > b->key : a->id < b->id; }

/* Sinks x into the heap of the first n from its root. */
static void sink(scored *of, int64_t n, scored x)
{
    int64_t i = 0;
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        c += c + 1 < n && better(&of[c], &of[c + 1]);
        if (!better(&x, &of[c]))
            break;
        of[i] = of[c];
    }
    of[i] = x;
}

static void consider(best *b, int64_t id, double score)
{
    scored x = { .score = score, .id = id };
    memcpy(&x.key, &score, sizeof x.key);
    x.key = (x.key + (1u << 28)) >> 29;
    if (b->count == b->k) {
        if (better(&x, &b->of[0]))
            sink(b->of, b->k, x);
        return;
    }
    int64_t i = b->count++;
    for (; i && better(&b->of[(i - 1) / 2], &x); i = (i - 1) / 2)
        b->of[i] = b->of[(i - 1) / 2];
    b->of[i] = x;
}

/* Best first. */
static void put_in_order(best *b)
{
    for (int64_t n = b->count; n > 1; n--) {
        scored worst = b->of[0];
        sink(b->of, n - 1, b->of[n - 1]);
        b->of[n - 1] = worst;
    }
}

/* ---- one graph ---- */

/* A source of the request: which place it has in the list. */
typedef struct wanted {
    int64_t node, place;
} wanted;

static int by_node(const void *a, const void *b)
{
    const wanted *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : (x->place > y->place) - (x->place < y->place);
}

typedef struct answer {
    posenc_dtype dtype;
    posenc_tensor *scores, *ids, *offsets, *bounds;
    wanted *wanted; /* (sources) by node */
    int64_t *begin; /* (sources + 1) rows: where each begins in scores */
    best best;
    bool pushed;
    int64_t terms;
} answer;

typedef struct solver {
    const pagerank *p;
    answer *o;
    pe_walk walk;           /* entries times 1 - alpha */
    int64_t first, n, full; /* the graph's first node, its nodes, where its matrix begins */
    int64_t from, nrows;    /* sources of this graph: o->wanted[from ..]; or all nodes */
    int64_t terms;
    bool dead_ends;
    double *lost, *everywhere; /* (n) mass lost by source; U */
    double *row;               /* (n) */
    double *x, *y;             /* panels */
    pe_pace *pace;
    posenc_error *err;
} solver;

static char *element(const posenc_tensor *t, int64_t i) { return (char *)t->data + (size_t)i * posenc_dtype_size(t->dtype); }

/* The node of row i of this graph, and its place among all rows. */
static int64_t node_of(const solver *s, int64_t i)
{
    return by_sources(s->p) ? s->o->wanted[s->from + i].node - s->first : i;
}
static int64_t place_of(const solver *s, int64_t i)
{
    return by_sources(s->p) ? s->o->wanted[s->from + i].place : s->first + i;
}

/* S[u, v] from what the series without returns from dead ends says. */
static double complete(const solver *s, int64_t u, int64_t v, double x)
{
    const pagerank *p = s->p;
    if (s->dead_ends && p->dangling != LEAK) {
        const int64_t walker = p->normalization == COL ? v : u, end = p->normalization == COL ? u : v;
        if (p->dangling == SOURCE)
            x /= 1 - s->lost[walker];
        else if (p->dangling == UNIFORM)
            x += s->lost[walker] * s->everywhere[end];
        else if (s->walk.degree[end] == 0)
            x /= p->alpha;
    }
    return x < 1 ? x : 1;
}

/* ---- rows out ---- */

static posenc_status write_row(solver *s, int64_t u, const double *x, int64_t stride, int64_t at)
{
    enum { BLOCK = 4096 };
    posenc_status st = PE_OK;
    double block[BLOCK];
    for (int64_t v = 0; v < s->n && !st; v += BLOCK) {
        int64_t count = s->n - v < BLOCK ? s->n - v : BLOCK;
        for (int64_t i = 0; i < count; i++)
            block[i] = complete(s, u, v + i, x[(v + i) * stride]);
        posenc_convert(s->o->dtype, element(s->o->scores, at + v), block, (size_t)count);
        st = pe_pace_add(s->pace, 6 * count);
    }
    return st;
}

static posenc_status write_best(solver *s, int64_t place)
{
    best *b = &s->o->best;
    put_in_order(b);
    int64_t *ids = (int64_t *)s->o->ids->data + place * b->k;
    for (int64_t i = 0; i < b->k; i++) {
        double score = i < b->count ? b->of[i].score : 0;
        ids[i] = i < b->count ? b->of[i].id : -1;
        posenc_convert(s->o->dtype, element(s->o->scores, place * b->k + i), &score, 1);
    }
    return pe_pace_add(s->pace, 60 * b->k + 20);
}

/* Row i, whose entries stand at x[v * stride]. */
static posenc_status put(solver *s, int64_t i, const double *x, int64_t stride)
{
    const int64_t u = node_of(s, i), place = place_of(s, i);
    posenc_status st = PE_OK;
    best *b = &s->o->best;
    switch (s->p->output) {
    case FULL: return write_row(s, u, x, stride, s->full + u * s->n);
    case ROWS: return write_row(s, u, x, stride, s->o->begin[place]);
    case DIAG: {
        double score = complete(s, u, u, x[u * stride]);
        posenc_convert(s->o->dtype, element(s->o->scores, place), &score, 1);
        return pe_pace_add(s->pace, 20);
    }
    default:
        b->count = 0;
        for (int64_t v = 0; v < s->n && !st; v++) {
            if (v != u)
                consider(b, v, complete(s, u, v, x[v * stride]));
            st = pe_pace_add(s->pace, 6);
        }
        return st ? st : write_best(s, place);
    }
}

/* ---- the series ---- */

/* x = alpha b + (1 - alpha) M x for one column b (n), which is overwritten by the answer. */
static posenc_status solve(solver *s, const pe_sparse *m, double *b)
{
    const double alpha = s->p->alpha;
    double *x = s->x, *y = s->y;
    posenc_status st = pe_panel_zero(s->n, x, s->pace);
    for (int64_t v = 0; v < s->n && !st; v++) {
        x[v * PE_WIDTH] = alpha * b[v];
        st = pe_pace_add(s->pace, 8);
    }
    for (int64_t k = 0; k < s->terms && !st; k++) {
        if ((st = pe_sparse_apply(m, x, y, s->pace)))
            break;
        for (int64_t v = 0; v < s->n && !st; v++) {
            y[v * PE_WIDTH] += alpha * b[v];
            st = pe_pace_add(s->pace, 4);
        }
        double *swap = x;
        x = y;
        y = swap;
    }
    for (int64_t v = 0; v < s->n && !st; v++) {
        b[v] = x[v * PE_WIDTH];
        st = pe_pace_add(s->pace, 4);
    }
    return st;
}

/* What is lost at dead ends by source, and where a walk is that begins anywhere, also after each of them. */
static posenc_status follow_dead_ends(solver *s)
{
    const pe_walk *w = &s->walk;
    const double alpha = s->p->alpha;
    const bool col = s->p->normalization == COL;
    posenc_status st = PE_OK;
    double sum = 0;
    for (int64_t v = 0; v < s->n && !st; v++) {
        s->lost[v] = w->degree[v] == 0;
        s->everywhere[v] = 1 / (double)s->n;
        s->dead_ends = s->dead_ends || w->degree[v] == 0;
        st = pe_pace_add(s->pace, 4);
    }
    if (st || !s->dead_ends || s->p->dangling == LEAK || s->p->dangling == SELF)
        return st;
    if ((st = pe_check_time(2 * (double)s->terms * pe_sparse_apply_ns((double)s->n, (double)w->arcs), "dangling",
                            "leak or self, or a larger alpha: what is lost at dead ends is a series over the whole graph",
                            s->err)))
        return st;
    if ((st = solve(s, col ? &w->in : &w->out, s->lost)) || (st = solve(s, col ? &w->out : &w->in, s->everywhere)))
        return st;
    for (int64_t v = 0; v < s->n && !st; v++) {
        s->lost[v] *= (1 - alpha) / alpha;
        sum += s->everywhere[v];
        st = pe_pace_add(s->pace, 4);
    }
    for (int64_t v = 0; v < s->n && !st; v++) {
        s->everywhere[v] /= sum;
        st = pe_pace_add(s->pace, 8);
    }
    return st;
}

static posenc_status by_series(solver *s)
{
    posenc_status st = pe_check_time(series_ns(s->terms, (double)s->nrows, (double)s->n, (double)s->walk.arcs), "eps",
                                     series_instead, s->err);
    for (int64_t i = 0; i < s->nrows && !st; i += PE_WIDTH) {
        const int64_t count = s->nrows - i < PE_WIDTH ? s->nrows - i : PE_WIDTH;
        double *x = s->x, *y = s->y;
        st = pe_panel_zero(s->n, x, s->pace);
        for (int64_t c = 0; c < count; c++)
            x[node_of(s, i + c) * PE_WIDTH + c] = s->p->alpha;
        for (int64_t k = 0; k < s->terms && !st; k++) {
            st = pe_sparse_apply(&s->walk.in, x, y, s->pace);
            for (int64_t c = 0; c < count; c++)
                y[node_of(s, i + c) * PE_WIDTH + c] += s->p->alpha;
            double *swap = x;
            x = y;
            y = swap;
        }
        for (int64_t c = 0; c < count && !st; c++)
            st = put(s, i + c, x + c, PE_WIDTH);
    }
    return st;
}

/* ---- the series by squares, of small graphs ---- */

/* y = M x (+ x where `more`); all (rows, 8 width), rows a multiple of four of which n count: a column a source. */
static PE_CLONES void multiply(int64_t n, int64_t width, const double *m, const double *x, double *y, bool more)
{
    const pe_lanes *from = (const pe_lanes *)x;
    pe_lanes *to = (pe_lanes *)y;
    const int64_t row = PE_WIDTH * width;
    for (int64_t v = 0; v < n; v += 4, m += 4 * row, to += 4 * width)
        for (int64_t b = 0; b < width; b++) {
            pe_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
            for (int64_t u = 0; u < n; u++) {
                const pe_lanes f = from[u * width + b];
                s0 += m[u] * f;
                s1 += m[row + u] * f;
                s2 += m[2 * row + u] * f;
                s3 += m[3 * row + u] * f;
            }
            const pe_lanes *own = from + v * width + b;
            to[b] = more ? s0 + own[0] : s0;
            to[width + b] = more ? s1 + own[width] : s1;
            to[2 * width + b] = more ? s2 + own[2 * width] : s2;
            to[3 * width + b] = more ? s3 + own[3 * width] : s3;
        }
}

static PE_CLONES void step(const pe_sparse *m, int64_t width, const double *x, double *y)
{
    const pe_lanes *from = (const pe_lanes *)x;
    for (int64_t v = 0; v < m->n; v++)
        for (int64_t b = 0; b < width; b++) {
            pe_lanes sum = { 0 };
            for (int64_t a = m->ptr[v]; a < m->ptr[v + 1]; a++)
                sum += m->value[a] * from[m->col[a] * width + b];
            ((pe_lanes *)y)[v * width + b] = sum;
        }
}

/* sum of M^k, k below 8 2^j, = (I + M^(4 2^j)) ... (I + M^16) (I + M^8) (sum of M^k, k below 8): all factors are 0 or
 * more, and no term is lost. All rows, however few are wanted, so that the numbers do not depend on that. */
static posenc_status by_squares(solver *s)
{
    const pe_sparse *m = &s->walk.in;
    const int64_t n = s->n, width = (n + PE_WIDTH - 1) / PE_WIDTH, rows_there = (n + 3) / 4 * 4;
    const size_t size = (size_t)(rows_there * width * PE_WIDTH);
    double *memory = pe_panel_new(4 * rows_there * width);
    posenc_status st = memory ? PE_OK : pe_no_memory("memory", s->err);
    if (st)
        return st;
    double *x = memory, *y = x + size, *power = y + size, *other = power + size;
    memset(memory, 0, 4 * size * sizeof *memory);
    for (int64_t v = 0; v < n; v++) {
        x[v * width * PE_WIDTH + v] = s->p->alpha;
        power[v * width * PE_WIDTH + v] = 1;
    }
#define SWAP(a, b)     \
    do {               \
        double *c = a; \
        a = b;         \
        b = c;         \
    } while (0)
    for (int64_t k = 0; k < BY_STEPS && !st; k++) {
        step(m, width, power, other);
        SWAP(power, other);
        if (k + 1 == BY_STEPS)
            break;
        step(m, width, x, y);
        SWAP(x, y);
        for (int64_t v = 0; v < n; v++)
            x[v * width * PE_WIDTH + v] += s->p->alpha;
        st = pe_pace_add(s->pace, 2 * (m->ptr[n] + n) * width);
    }
    for (int64_t k = BY_STEPS; k < s->terms && !st; k *= 2) {
        multiply(n, width, power, x, y, true);
        SWAP(x, y);
        if (2 * k < s->terms) {
            multiply(n, width, power, power, other, false);
            SWAP(power, other);
        }
        st = pe_pace_add(s->pace, 2 * n * n * width);
    }
#undef SWAP
    for (int64_t i = 0; i < s->nrows && !st; i++)
        st = put(s, i, x + node_of(s, i), width * PE_WIDTH);
    free(memory);
    return st;
}

/* ---- push ---- */

/* A node, in one place: each arc leads to another one. */
typedef struct cell {
    double p, r;  /* spread already; not yet */
    double share; /* of the threshold: see threshold() */
    int state;    /* TOUCHED, QUEUED */
} cell;

typedef struct push {
    cell *of;                 /* (n) */
    int32_t *touched, *queue; /* (n) nodes with p or r; a ring of those to push */
    int64_t ntouched, head, waiting;
    double largest;     /* the largest degree, in mean weights, at least 1 */
    double ns, most_ns; /* what all this takes by estimate; where it stops */
} push;

enum { TOUCHED = 1, QUEUED = 2 };

static double weight_at(const solver *s, int64_t u)
{
    double d = s->walk.degree[u] / s->walk.mean_weight;
    return d > 0 ? d : 1;
}

/* What a node's threshold grows with: eps d(u); sym: eps sqrt(d(source)) sqrt(d(u)); col: eps. */
static double share_of(const solver *s, int64_t u)
{
    return s->p->normalization == COL ? 1 : s->p->normalization == ROW ? weight_at(s, u) : sqrt(weight_at(s, u));
}

/* By a node's share: a residue below it stays. */
static double threshold(const solver *s, const push *q, int64_t source)
{
    return s->p->normalization == SYM ? s->p->eps * q->of[source].share : s->p->eps;
}

static void add_residue(const solver *s, push *q, double least, int32_t v, double r)
{
    cell *c = &q->of[v];
    if (!(c->state & TOUCHED)) {
        c->state |= TOUCHED;
        q->touched[q->ntouched++] = v;
    }
    c->r += r;
    if (!(c->state & QUEUED) && c->r >= least * c->share) {
        c->state |= QUEUED;
        int64_t at = q->head + q->waiting++;
        q->queue[at < s->n ? at : at - s->n] = v;
    }
}

/* Where pushing stops, to say that it takes longer than it may. */
static const double FAR_TOO_LONG_NS = 1.02 * PE_TOO_LONG_NS;

/* Of the rows of `done` sources what all of them take [ns]; more than is allowed: LIMIT. */
static posenc_status check_pushes(const solver *s, const push *q, int64_t done)
{
    return pe_check_time(q->ns / (double)done * (double)s->nrows, "eps", "a larger eps, fewer sources, or a larger alpha",
                         s->err);
}

static posenc_status spread(const solver *s, push *q, int64_t source)
{
    const pe_sparse *m = &s->walk.out;
    const double least = threshold(s, q, source), touch = touch_ns((double)s->n);
    posenc_status st = PE_OK;
    add_residue(s, q, least, (int32_t)source, 1);
    while (q->waiting && q->ns < q->most_ns && !st) {
        const int32_t u = q->queue[q->head];
        q->head = q->head + 1 < s->n ? q->head + 1 : 0;
        q->waiting--;
        cell *c = &q->of[u];
        c->state &= ~QUEUED;
        const double r = c->r;
        const int64_t before = q->ntouched;
        c->r = 0;
        c->p += s->p->alpha * r;
        for (int64_t a = m->ptr[u]; a < m->ptr[u + 1] && !st; a++) {
            if (m->value[a] > 0)
                add_residue(s, q, least, m->col[a], m->value[a] * r);
            st = pe_pace_add(s->pace, 16);
        }
        q->ns += ARC_NS * (double)(1 + m->ptr[u + 1] - m->ptr[u]) + touch * (double)(q->ntouched - before);
        if (!st)
            st = pe_pace_add(s->pace, 10);
    }
    return st;
}

/* No entry of the row is off by more: see the head of the file. */
static posenc_status bound(const solver *s, const push *q, int64_t source, double *out)
{
    posenc_status st = PE_OK;
    double rest = 0, part = 0;
    const double least = threshold(s, q, source);
    for (int64_t i = 0; i < q->ntouched && !st; i++) {
        const cell *c = &q->of[q->touched[i]];
        const double share = c->r / (least * c->share);
        rest += c->r;
        part = share > part ? share : part;
        st = pe_pace_add(s->pace, 10);
    }
    double b = part * s->p->eps;
    if (s->p->normalization == SYM)
        b *= sqrt(weight_at(s, source)) * sqrt(q->largest);
    if (s->p->normalization == ROW)
        b = s->walk.symmetric && b * q->largest < rest ? b * q->largest : rest;
    if (s->dead_ends && (s->p->dangling == SOURCE || s->p->dangling == SELF))
        b /= s->p->dangling == SOURCE && s->p->normalization == ROW ? 1 - s->lost[source] : s->p->alpha;
    *out = b < 1 ? b : 1; /* entries lie in 0 .. 1 */
    return st;
}

/* The best of a row that is 0 where nothing was touched. */
static posenc_status best_of_few(solver *s, const push *q, int64_t i)
{
    const int64_t u = node_of(s, i);
    posenc_status st = PE_OK;
    best *b = &s->o->best;
    b->count = 0;
    for (int64_t j = 0; j < q->ntouched && !st; j++) {
        const int32_t v = q->touched[j];
        if (v != u && q->of[v].p > 0)
            consider(b, v, complete(s, u, v, q->of[v].p));
        st = pe_pace_add(s->pace, 20);
    }
    for (int64_t v = 0; v < s->n && b->count < b->k && !st; v++) { /* then the zeros, by id */
        if (v != u && !(q->of[v].p > 0))
            consider(b, v, 0);
        st = pe_pace_add(s->pace, 20);
    }
    return st ? st : write_best(s, place_of(s, i));
}

static posenc_status forget(push *q, pe_pace *pace)
{
    for (int64_t i = 0; i < q->ntouched; i++) {
        cell *c = &q->of[q->touched[i]];
        c->p = c->r = 0;
        c->state = 0;
    }
    posenc_status st = pe_pace_add(pace, 4 * q->ntouched);
    q->ntouched = q->head = q->waiting = 0;
    return st;
}

/* Many rows are tried on a few of them first: where those say that all take too long, the others are not begun. */
static posenc_status try_a_few(solver *s, push *q)
{
    enum { SAMPLE = 64 };
    posenc_status st = PE_OK;
    if (s->nrows < 4 * SAMPLE)
        return PE_OK;
    q->most_ns = FAR_TOO_LONG_NS * SAMPLE / (double)s->nrows;
    for (int64_t i = 0; i < SAMPLE && !st; i++) {
        st = spread(s, q, node_of(s, i * (s->nrows / SAMPLE) + s->nrows / SAMPLE / 2));
        if (!st && !(st = forget(q, s->pace)) && q->ns >= q->most_ns)
            st = check_pushes(s, q, i + 1);
    }
    q->ns = 0;
    q->most_ns = FAR_TOO_LONG_NS;
    return st;
}

static posenc_status by_push(solver *s)
{
    const size_t n = (size_t)s->n + 1;
    posenc_status st = PE_OK;
    const bool everywhere = s->dead_ends && s->p->dangling == UNIFORM;
    push q = { .of = calloc(n, sizeof *q.of),
               .touched = pe_work_memory(n * sizeof *q.touched),
               .queue = pe_work_memory(n * sizeof *q.queue),

               .largest = 1,
               .most_ns = FAR_TOO_LONG_NS };
    if (!q.of || !q.touched || !q.queue)
        st = pe_no_memory("memory", s->err);
    for (int64_t v = 0; v < s->n && !st; v++) {
        q.of[v].share = share_of(s, v);
        q.largest = weight_at(s, v) > q.largest ? weight_at(s, v) : q.largest;
        st = pe_pace_add(s->pace, 12);
    }
    if (!st)
        st = try_a_few(s, &q);
    for (int64_t i = 0; i < s->nrows && !st; i++) {
        const int64_t u = node_of(s, i);
        double *b = (double *)s->o->bounds->data + place_of(s, i);
        if ((st = spread(s, &q, u)) || (q.ns >= q.most_ns && (st = check_pushes(s, &q, i + 1))) || (st = bound(s, &q, u, b)))
            break;
        st = s->p->output == TOPK && !everywhere ? best_of_few(s, &q, i)
                                                 : put(s, i, &q.of[0].p, sizeof(cell) / sizeof(double));
        if (!st)
            st = forget(&q, s->pace);
    }
    free(q.of);
    free(q.touched);
    free(q.queue);
    return st;
}

/* ---- answers ---- */

/* The first of the sources that is at least `node`. */
static int64_t first_source(const answer *o, int64_t count, int64_t node)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (o->wanted[mid].node < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static solver solver_of(pe_graph_job *j, answer *o, posenc_error *err)
{
    const pagerank *p = j->request->params;
    solver s = { .p = p, .o = o, .first = j->first, .n = j->n, .nrows = j->n, .pace = &j->pace, .err = err };
    if (p->output == FULL && o->offsets)
        s.full = ((const int64_t *)o->offsets->data)[j->graph];
    if (by_sources(p)) {
        s.from = first_source(o, (int64_t)p->sources.n, j->first);
        s.nrows = first_source(o, (int64_t)p->sources.n, j->first + j->n) - s.from;
    }
    return s;
}

static posenc_status dampen(double *value, int64_t n, double by, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        value[i] *= by;
        st = pe_pace_add(pace, 2);
    }
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    static const pe_walk_form forms[] = { PE_WALK_SYM, PE_WALK_ROW, PE_WALK_COL };
    answer *o = self;
    solver s = solver_of(j, o, err);
    pe_csr_options options = s.p->edges;
    options.directed = s.p->normalization != SYM;
    posenc_status st = pe_walk_build(j->request->graph, j->graph, &options, forms[s.p->normalization], &s.walk, s.pace, err);
    if (st)
        return st;
    double *memory = pe_work_memory((size_t)(2 * s.n + 1) * sizeof *memory);
    s.terms = o->terms;
    s.lost = memory;
    s.everywhere = memory + s.n;
    if (by_panels(s.p, o->pushed)) {
        s.x = pe_panel_new(s.n);
        s.y = pe_panel_new(s.n);
    }
    if (!memory || (by_panels(s.p, o->pushed) && (!s.x || !s.y)))
        st = pe_no_memory("memory", err);
    if (!st && !(st = dampen(s.walk.in.value, s.walk.arcs, 1 - s.p->alpha, s.pace)))
        st = dampen(s.walk.out.value, s.walk.arcs, 1 - s.p->alpha, s.pace);
    if (!st && !(st = follow_dead_ends(&s)))
        st = o->pushed ? by_push(&s) : s.n <= SQUARES ? by_squares(&s) : by_series(&s);
    j->zero_edges = s.walk.zero_edges;
    free(memory);
    free(s.x);
    free(s.y);
    pe_walk_fini(&s.walk);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    answer *o = self;
    const solver s = solver_of(j, o, NULL);
    posenc_status st = PE_OK;
    if (s.p->output == FULL)
        st = pe_spoil(o->scores, s.full, s.n * s.n, s.pace);
    for (int64_t i = 0; i < s.nrows && !st; i++) {
        const int64_t place = place_of(&s, i);
        if (s.p->output == ROWS)
            st = pe_spoil(o->scores, o->begin[place], s.n, s.pace);
        else if (s.p->output != FULL)
            st = pe_spoil(o->scores, place, 1, s.pace);
        if (!st && o->ids)
            st = pe_spoil(o->ids, place, 1, s.pace);
        if (!st && o->bounds)
            st = pe_spoil(o->bounds, place, 1, s.pace);
    }
    return st;
}

/* The sources by node, and where their rows begin. */
static posenc_status list_sources(const posenc_request *r, answer *o, posenc_context *ctx, posenc_error *err)
{
    const pagerank *p = r->params;
    const int64_t n = (int64_t)p->sources.n;
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    posenc_status st = PE_OK;
    wanted *scratch = pe_work_memory((size_t)(n + 1) * sizeof *scratch);
    o->wanted = pe_work_memory((size_t)(n + 1) * sizeof *o->wanted);
    o->begin = pe_work_memory((size_t)(n + 1) * sizeof *o->begin);
    if (!scratch || !o->wanted || !o->begin)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0, at = 0; i <= n && !st; i++) {
        o->begin[i] = at;
        if (i == n)
            break;
        o->wanted[i] = (wanted){ (int64_t)p->sources.v[i], i };
        at += (int64_t)nodes_in(r->graph, graph_of(r->graph, p->sources.v[i]));
        st = pe_pace_add(&pace, 60);
    }
    if (!st)
        st = pe_sort(n, sizeof *o->wanted, o->wanted, scratch, by_node, &pace);
    if (!st && o->offsets && p->output == ROWS)
        st = pe_pace_copy(&pace, o->offsets->data, o->begin, (size_t)(n + 1) * sizeof *o->begin);
    free(scratch);
    return st;
}

static posenc_status begin(void *copy, const pe_graph_chunk *c, posenc_error *err)
{
    (void)c;
    best *b = &((answer *)copy)->best;
    b->of = malloc((size_t)b->k * sizeof *b->of);
    return b->of ? PE_OK : pe_no_memory("memory", err);
}

static void end(void *copy, void *self)
{
    (void)self;
    free(((answer *)copy)->best.of);
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const pagerank *p = r->params;
    answer o = { .dtype = (posenc_dtype)r->common.dtype,
                 .scores = pe_tensor(out, "scores"),
                 .ids = p->output == TOPK ? pe_tensor(out, "ids") : NULL,
                 .offsets = r->graph->batched && (p->output == FULL || p->output == ROWS) ? pe_tensor(out, "offsets") : NULL,
                 .bounds = pe_given(r, "eps") ? pe_tensor(out, "error_bound") : NULL,
                 .best = { .k = p->k },
                 .pushed = pe_given(r, "eps"),
                 .terms = terms(p->alpha) };
    const pe_graph_task task = {
        .encode = encode, .spoil = spoil, .self = &o, .size = sizeof o, .begin = begin, .end = end
    };
    posenc_status st = list_sources(r, &o, ctx, err);
    if (o.offsets && p->output == FULL)
        pe_square_offsets(r->graph, o.offsets->data);
    if (!st)
        st = pe_each_graph(r, out, &task, ctx, err);
    free(o.wanted);
    free(o.begin);
    if (st)
        return st;
    if (r->graph->directed && p->normalization == SYM)
        pe_warn(out, "the graph is directed: every arc was taken as an edge, with the larger weight where both exist");
    return PE_OK;
}

/* ---- descriptor ---- */

const posenc_encoding pe_personalized_pagerank = {
    .name = "personalized_pagerank",
    .family = "graph",
    .title = "Personalised PageRank",
    .source =
        "Page et al. 1999; GDC, Klicpera et al. 2019, arXiv:1911.05485; Graph-Bert, arXiv:2001.05140; networkx pagerank",
    .formula = "S = alpha (I - (1 - alpha) T)^-1, T = D^-1/2 A D^-1/2 (sym), Dout^-1 A (row), A Din^-1 (col)\n"
               "full: S; diag: S[u, u]; rows: S[sources, .]; topk: the k largest of S[u, v], v not u, ties by id\n"
               "eps: forward push, undirected 0 <= S - scores <= eps d(v)",
    .example = "output=topk&k=3",
    .revision = 2,
    .input = PE_GRAPH,
    PE_TABLE(pagerank, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
