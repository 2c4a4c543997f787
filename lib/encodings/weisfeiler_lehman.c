/* weisfeiler_lehman.c - colours of nodes by what their surroundings look like.
 *
 *     c[0](v) = the start colour            c[r + 1](v) = (c[r](v), multiset of (c[r](x), weight) over the edges v - x)
 *
 * Two nodes have one colour after r rounds where their unfoldings to depth r agree. A colour is named by a hash of the
 * unfolding, which depends on nothing else: equal in any graph, under any order of nodes and edges.
 *   message(x)  = SHA-256("edge", name(x), weight)           as four numbers of 64 bits
 *   name'(v)    = the first 16 bytes of SHA-256("node", name(v), sum of the messages over the edges of v)
 * Sums modulo 2^64 stand for multisets: order does not matter, parallel edges count as often as they are there, and equal
 * sums of different multisets are as unlikely as equal hashes.
 *   canonical   colors are ranks of names, hashes their first 8 bytes: comparable between graphs of equal rounds_done
 *   first_seen  colors are numbered as they appear, from node 0 on
 *
 * Graph-Bert's max_iter counts a last round that it throws away: max_iter = m is rounds = m - 1. Its ids are ranks of md5
 * strings among the nodes present, and leak from one graph to the next; as a partition they agree. networkx starts from
 * degrees, and takes the targets of arcs for neighbours (direction=out).
 *
 * Sources: Weisfeiler, Leman 1968; Shervashidze et al. 2011, Weisfeiler-Lehman graph kernels; Graph-Bert, arXiv:2001.05140,
 * MethodWLNodeColoring; networkx weisfeiler_lehman_subgraph_hashes. */
#include "core/digest.h"
#include "core/memory.h"
#include "graph/batch.h"
#include "graph/counts.h"
#include "linalg/sort.h"

#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_weisfeiler_lehman;

/* ---- rows ---- */

enum { UNIFORM, DEGREE, LABEL };
enum { CANONICAL, FIRST_SEEN };
enum { ANY, OUT, IN, BOTH };
#define MOST_ROUNDS 2147483647.0

static const char *const inits[] = { "uniform", "degree", "label", NULL };
static const char *const namings[] = { "canonical", "first_seen", NULL };
static const char *const directions[] = { "any", "out", "in", "both", NULL };

typedef struct weisfeiler_lehman {
    posenc_given given;
    int64_t rounds, max_iter;
    bool stop_when_stable, weighted;
    int init, naming, direction;
    posenc_tensor labels;
    pe_csr_options edges;
} weisfeiler_lehman;

static const posenc_param rows[] = {
    { PE_INT(weisfeiler_lehman, rounds), .flags = PE_DERIVED, .min = 0, .max = MOST_ROUNDS,
      .doc = "refinements; when absent 1, and with stop_when_stable as many as it takes" },
    { PE_INT(weisfeiler_lehman, max_iter), .flags = PE_OPTIONAL, .min = 1, .max = MOST_ROUNDS,
      .doc = "Graph-Bert's word: rounds = max_iter - 1; not together with rounds" },
    { PE_BOOL(weisfeiler_lehman, stop_when_stable),
      .doc = "stop when a round splits no colour, which changes none after it" },
    { PE_ENUM(weisfeiler_lehman, init), .flags = PE_SELECTOR, .names = inits, .def = UNIFORM,
      .doc = "start colours: one for all (Graph-Bert), numbers of edges (networkx), or labels" },
    { PE_TENSOR(weisfeiler_lehman, labels), .when = PE_ON(LABEL), .flags = PE_REQUIRED,
      .doc = "a whole number for each node, [num_nodes]: atom types" },
    { PE_ENUM(weisfeiler_lehman, naming), .names = namings, .def = CANONICAL,
      .doc = "by a hash of the unfolding, comparable between graphs, or in the order of appearance" },
    { PE_ENUM(weisfeiler_lehman, direction), .names = directions, .def = ANY,
      .doc =
          "neighbours in a directed graph: every arc is an edge (Graph-Bert), targets (networkx), sources, or both apart" },
    { PE_BOOL(weisfeiler_lehman, weighted), .doc = "edges of different weights differ; init=degree then counts neighbours" },
    PE_ARC_ROWS(weisfeiler_lehman, edges, PE_LOOPS_KEEP),
};

static const posenc_output outputs[] = {
    { "colors", "[num_nodes]", "colour of each node, from 0 in each graph", "int32" },
    { "hashes", "[num_nodes]", "naming=canonical only: 64 bits of the hash of the unfolding", "int64" },
    { "num_colors", "[1] or [G]", "different colours", "int64" },
    { "rounds_done", "[1] or [G]", "refinements that the colours stand for", "int64" },
    PE_STATUS_OUTPUT,
};

/* ---- rules ---- */

/* max_iter is folded into rounds, so that both spellings are one request. */
static void cost(const posenc_request *r, posenc_cost *out);

static posenc_status check(posenc_request *r, posenc_error *err)
{
    weisfeiler_lehman *p = r->params;
    posenc_status st = PE_OK;
    if (pe_given(r, "max_iter")) {
        if (pe_given(r, "rounds"))
            st = pe_invalid(err, "max_iter", posenc_text("%lld", (long long)p->max_iter), "rounds or max_iter, not both");
        p->rounds = p->max_iter - 1;
        p->max_iter = 0;
        p->given &= ~(1ull << (posenc_row(&r->encoding->table, "max_iter") - rows));
    } else if (!pe_given(r, "rounds")) {
        p->rounds = p->stop_when_stable ? (int64_t)MOST_ROUNDS : 1;
    }
    if (p->init == LABEL && pe_tensor_shaped(&p->labels, 1, &r->graph->nodes,
                                             posenc_text("[num_nodes] = [%lld]", (long long)r->graph->nodes).s, err))
        pe_tensor_integers(&p->labels, -9007199254740992.0, 9007199254740992.0, "a whole number, at most 2^53 in magnitude",
                           err);
    if (!err->n) {
        posenc_cost c;
        cost(r, &c);
        st = pe_check_time(c.ns, "rounds", "fewer rounds; or stop_when_stable=true, which ends where no colour divides",
                           err);
    }
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const weisfeiler_lehman *p = r->params;
    const int64_t n = r->graph->nodes, g = r->graph->ngraphs;
    posenc_status st = pe_output(out, "colors", PE_int32, 1, &n, err);
    if (!st && p->naming == CANONICAL)
        st = pe_output(out, "hashes", PE_int64, 1, &n, err);
    if (!st)
        st = pe_output(out, "num_colors", PE_int64, 1, &g, err);
    if (!st)
        st = pe_output(out, "rounds_done", PE_int64, 1, &g, err);
    return st ? st : pe_status_output(r, out, err);
}

/* How long it takes until colours are stable nobody knows beforehand: mostly a few rounds. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const weisfeiler_lehman *p = r->params;
    const posenc_graph *g = r->graph;
    const double rounds = p->stop_when_stable && p->rounds > 8 ? 8 : (double)p->rounds;
    *out = (posenc_cost){ .ns = 500 };
    for (int64_t i = 0; i < g->ngraphs; i++) {
        const int64_t n = g->ptr[i + 1] - g->ptr[i], m = g->arc_ptr[i + 1] - g->arc_ptr[i];
        const uint64_t scratch = 2 * pe_count_bytes(n, m) + 120 * (uint64_t)n;
        out->ns += 3000 + 60 * (double)m + 700 * (double)n +
                   rounds * (600 * (double)n + (p->weighted ? 700 : 20) * (double)m) +
                   (p->stop_when_stable ? rounds * 200 * (double)n : 0);
        out->scratch = scratch > out->scratch ? scratch : out->scratch;
    }
}

/* ---- names ---- */

typedef struct name {
    uint64_t high, low;
} name;

/* What an edge says of its other end; a multiset of them is their sum. */
typedef struct message {
    uint64_t part[4];
} message;

/* What is hashed, without padding: 8 letters and numbers of 64 bits. */
typedef struct text {
    char kind[8];
    uint64_t number[10];
} text;

static bool hash(pe_hasher *h, const text *t, int numbers, message *out)
{
    pe_digest d;
    if (!pe_hash_next(h, t, sizeof t->kind + (size_t)numbers * sizeof *t->number, &d))
        return false;
    memcpy(out, &d, sizeof *out);
    return true;
}

typedef struct place {
    name name;
    int64_t node;
} place;

static int by_name(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->name.high != y->name.high)
        return x->name.high > y->name.high ? 1 : -1;
    if (x->name.low != y->name.low)
        return x->name.low > y->name.low ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

static bool same_name(name a, name b) { return a.high == b.high && a.low == b.low; }

/* ---- one graph ---- */

typedef struct colouring {
    const weisfeiler_lehman *p;
    const pe_csr *first, *second; /* neighbours; a second kind of them, or NULL */
    int64_t n;
    name *name, *before;  /* (n) before: of the round that may turn out to be the last (stop_when_stable) */
    message *message;     /* (n) */
    place *place, *other; /* (n) nodes by name, and scratch to sort them */
    int64_t colours;
    pe_hasher hasher;
    pe_pace *pace;
    posenc_error *err;
} colouring;

static posenc_status start(colouring *c, int64_t first)
{
    static const char kinds[][8] = { "uniform", "degree ", "label  " };
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < c->n && !st; v++) {
        text t = { .number = { 0 } };
        message m;
        memcpy(t.kind, kinds[c->p->init], sizeof t.kind);
        if (c->p->init == DEGREE) {
            const bool entries = c->p->weighted;
            t.number[0] = entries ? (uint64_t)(c->first->ptr[v + 1] - c->first->ptr[v]) : (uint64_t)c->first->degree[v];
            if (c->second)
                t.number[1] = entries ? (uint64_t)(c->second->ptr[v + 1] - c->second->ptr[v])
                                      : (uint64_t)c->second->degree[v];
        } else if (c->p->init == LABEL) {
            t.number[0] = (uint64_t)(int64_t)posenc_tensor_get(&c->p->labels, first + v);
        }
        if (!hash(&c->hasher, &t, 2, &m))
            return pe_no_memory("memory", c->err);
        c->name[v] = (name){ m.part[0], m.part[1] };
        st = pe_pace_add(c->pace, 800);
    }
    return st;
}

/* What an edge to a node of that name says. */
static bool say(pe_hasher *h, name of, double weight, message *out)
{
    text t = { .kind = "edge", .number = { of.high, of.low } };
    memcpy(&t.number[2], &weight, sizeof weight);
    return hash(h, &t, 3, out);
}

static posenc_status listen(colouring *c, const pe_csr *m, int64_t v, uint64_t *sum)
{
    posenc_status st = PE_OK;
    for (int64_t a = m->ptr[v]; a < m->ptr[v + 1] && !st; a++) {
        const double w = m->weight ? m->weight[a] : 1;
        const uint64_t times = c->p->weighted ? 1 : (uint64_t)w;
        message own;
        if (c->p->weighted && !say(&c->hasher, c->name[m->col[a]], w, &own))
            return pe_no_memory("memory", c->err);
        const message *x = c->p->weighted ? &own : &c->message[m->col[a]];
        for (int i = 0; i < 4; i++)
            sum[i] += times * x->part[i];
        st = pe_pace_add(c->pace, c->p->weighted ? 800 : 8);
    }
    return st;
}

/* One refinement, from name to before, which change places. */
static posenc_status refine(colouring *c)
{
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < c->n && !st && !c->p->weighted; v++) {
        if (!say(&c->hasher, c->name[v], 1, &c->message[v]))
            return pe_no_memory("memory", c->err);
        st = pe_pace_add(c->pace, 800);
    }
    for (int64_t v = 0; v < c->n && !st; v++) {
        text t = { .kind = "node", .number = { c->name[v].high, c->name[v].low } };
        message m;
        if ((st = listen(c, c->first, v, t.number + 2)) || (c->second && (st = listen(c, c->second, v, t.number + 6))))
            return st;
        if (!hash(&c->hasher, &t, c->second ? 10 : 6, &m))
            return pe_no_memory("memory", c->err);
        c->before[v] = (name){ m.part[0], m.part[1] };
        st = pe_pace_add(c->pace, 800);
    }
    name *swap = c->name;
    c->name = c->before;
    c->before = swap;
    return st;
}

/* Sorts the nodes by name and counts the colours. */
static posenc_status count(colouring *c, int64_t *colours)
{
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < c->n && !st; v++) {
        c->place[v] = (place){ c->name[v], v };
        st = pe_pace_add(c->pace, 4);
    }
    if (!st)
        st = pe_sort(c->n, sizeof *c->place, c->place, c->other, by_name, c->pace);
    *colours = 0;
    for (int64_t i = 0; i < c->n && !st; i++) {
        *colours += !i || !same_name(c->place[i].name, c->place[i - 1].name);
        st = pe_pace_add(c->pace, 4);
    }
    return st;
}

/* The rounds; colours only ever split, so that equal numbers are equal partitions. */
static posenc_status run(colouring *c, int64_t *done)
{
    const bool stop = c->p->stop_when_stable;
    posenc_status st = PE_OK;
    *done = c->n || stop ? 0 : c->p->rounds; /* without nodes a round is nothing, however many there are */
    if (stop && (st = count(c, &c->colours)))
        return st;
    while (*done < c->p->rounds && !(st = refine(c))) {
        int64_t colours;
        if (stop) {
            if ((st = count(c, &colours)))
                break;
            if (colours == c->colours) { /* the round before was the last */
                name *swap = c->name;
                c->name = c->before;
                c->before = swap;
                break;
            }
            c->colours = colours;
        }
        ++*done;
    }
    return st ? st : count(c, &c->colours);
}

typedef struct answer {
    posenc_tensor *colors, *hashes, *num_colors, *rounds_done;
} answer;

static posenc_status write(const pe_graph_job *j, const answer *o, const colouring *c, pe_pace *pace)
{
    posenc_status st = PE_OK;
    int32_t *colors = (int32_t *)o->colors->data + j->first, color = -1;
    for (int64_t i = 0; i < c->n && !st; i++) {
        color += !i || !same_name(c->place[i].name, c->place[i - 1].name);
        colors[c->place[i].node] = color;
        st = pe_pace_add(pace, 8);
    }
    for (int64_t v = 0; v < c->n && !st && o->hashes; v++) {
        memcpy((int64_t *)o->hashes->data + j->first + v, &c->name[v].high, 8);
        st = pe_pace_add(pace, 4);
    }
    if (c->p->naming == CANONICAL || st)
        return st;
    int32_t next = 0; /* places are used up: place[rank].node becomes the number of the colour of that rank */
    for (int64_t i = 0; i < c->n && !st; i++) {
        c->place[i].node = -1;
        st = pe_pace_add(pace, 2);
    }
    for (int64_t v = 0; v < c->n && !st; v++) {
        if (c->place[colors[v]].node < 0)
            c->place[colors[v]].node = next++;
        colors[v] = (int32_t)c->place[colors[v]].node;
        st = pe_pace_add(pace, 8);
    }
    return st;
}

static posenc_status colour(pe_graph_job *j, const answer *o, const pe_csr *first, const pe_csr *second, posenc_error *err)
{
    const size_t n = (size_t)j->n + 1;
    colouring c = { .p = j->request->params,
                    .first = first,
                    .second = second,
                    .n = j->n,
                    .name = pe_work_memory(n * sizeof *c.name),
                    .before = pe_work_memory(n * sizeof *c.before),
                    .message = pe_work_memory(n * sizeof *c.message),
                    .place = pe_work_memory(n * sizeof *c.place),
                    .other = pe_work_memory(n * sizeof *c.other),
                    .pace = &j->pace,
                    .err = err };
    int64_t done = 0;
    posenc_status st = PE_OK;
    pe_hash_init(&c.hasher);
    if (!c.hasher.ctx || !c.name || !c.before || !c.message || !c.place || !c.other)
        st = pe_no_memory("memory", err);
    if (!st && !(st = start(&c, j->first)) && !(st = run(&c, &done)))
        st = write(j, o, &c, &j->pace);
    if (!st) {
        ((int64_t *)o->num_colors->data)[j->graph] = c.colours;
        ((int64_t *)o->rounds_done->data)[j->graph] = done;
    }
    pe_hash_end(&c.hasher);
    free(c.name);
    free(c.before);
    free(c.message);
    free(c.place);
    free(c.other);
    return st;
}

static posenc_status encode(pe_graph_job *j, void *self, posenc_error *err)
{
    answer *o = self;
    const posenc_graph *graph = j->request->graph;
    const weisfeiler_lehman *p = j->request->params;
    pe_csr_options options = p->edges;
    options.directed = p->direction != ANY;
    pe_csr out = { 0 }, in = { 0 };
    const bool one_way = graph->directed && options.directed, turned = one_way && p->direction != OUT;
    posenc_status st = p->weighted ? pe_csr_build(graph, j->graph, &options, &out, j->ctx, err)
                                   : pe_count_build(graph, j->graph, &options, &out, &j->pace, err);
    if (!st && turned)
        st = pe_csr_transpose(&out, &in, j->ctx, err);
    if (!st)
        st = colour(j, o, one_way && p->direction == IN ? &in : &out, one_way && p->direction == BOTH ? &in : NULL, err);
    j->zero_edges = out.zero_edges;
    pe_csr_fini(&out);
    pe_csr_fini(&in);
    return st;
}

static posenc_status spoil(pe_graph_job *j, void *self)
{
    answer *o = self;
    posenc_status st = pe_spoil(o->colors, j->first, j->n, &j->pace);
    if (!st && o->hashes)
        st = pe_spoil(o->hashes, j->first, j->n, &j->pace);
    ((int64_t *)o->num_colors->data)[j->graph] = ((int64_t *)o->rounds_done->data)[j->graph] = 0;
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const weisfeiler_lehman *p = r->params;
    answer o = { pe_tensor(out, "colors"), p->naming == CANONICAL ? pe_tensor(out, "hashes") : NULL,
                 pe_tensor(out, "num_colors"), pe_tensor(out, "rounds_done") };
    const pe_graph_task task = { .encode = encode, .spoil = spoil, .self = &o };
    posenc_status st = pe_each_graph(r, out, &task, ctx, err);
    if (st)
        return st;
    if (r->graph->directed && p->direction == ANY)
        pe_warn(out, "the graph is directed: every arc was taken as an edge; direction=out, in or both keeps them apart");
    return PE_OK;
}

/* ---- descriptor ---- */

const posenc_encoding pe_weisfeiler_lehman = {
    .name = "weisfeiler_lehman",
    .family = "graph",
    .title = "Colours of Weisfeiler-Lehman refinement",
    .source = "Weisfeiler, Leman 1968; Shervashidze et al. 2011; Graph-Bert, arXiv:2001.05140, MethodWLNodeColoring",
    .formula = "c[0] = init; c[r + 1](v) = (c[r](v), multiset of c[r](x) over the edges v - x), r below rounds\n"
               "canonical: colors are ranks of SHA-256 names of the unfoldings, hashes their first 64 bits",
    .example = "rounds=2",
    .revision = 1,
    .input = PE_GRAPH,
    PE_TABLE(weisfeiler_lehman, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
