/* spectrum.c - the components of one graph and their eigenpairs. */
#include "graph/spectrum.h"
#include "core/exact.h"
#include "core/memory.h"
#include "core/params.h"
#include "linalg/small.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pe_normalization_words[] = { "none", "sym", "rw", NULL };
const char *const pe_isolated_words[] = { "one", "zero", NULL };

void pe_spectrum_fini(pe_spectrum *s)
{
    for (int64_t c = 0; s->begin && s->pairs && c < s->csr.ncomponents; c++)
        if (s->begin[c + 1] - s->begin[c] > 1)
            pe_pairs_fini(&s->pairs[c]);
    free(s->memory);
    pe_csr_fini(&s->csr);
    *s = (pe_spectrum){ 0 };
}

static double weight(const pe_csr *c, int64_t arc) { return c->weight ? c->weight[arc] : 1; }

/* Very small and very large weights are brought near 1 by a power of two, which rounds nothing: widths of clusters and
 * bounds of residuals are meant for such, and degrees and their roots stay in range. sym and rw do not see it; the
 * eigenvalues and residuals of none are scaled back where they are written. */
posenc_status pe_csr_scale(pe_csr *a, int *exponent, pe_pace *pace)
{
    double max = 0;
    *exponent = 0;
    posenc_status st = PE_OK;
    for (int64_t j = 0; a->weight && j < a->arcs && !st; j++) {
        max = pe_max(max, fabs(a->weight[j]));
        st = pe_pace_add(pace, 2);
    }
    if (st || max == 0 || (max >= 0.5 && max < 0x1p64))
        return st;
    frexp(max, exponent);
    for (int64_t u = 0; u < a->n && !st; u++) {
        a->degree[u] = 0;
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++) {
            a->weight[j] = ldexp(a->weight[j], -*exponent);
            a->degree[u] += fabs(a->weight[j]);
        }
        st = pe_pace_add(pace, 8 * (a->ptr[u + 1] - a->ptr[u]) + 8);
    }
    return st;
}

posenc_status pe_csr_alike(const pe_csr *a, pe_pace *pace, posenc_error *err)
{
    posenc_status st = PE_OK;
    for (int64_t u = 0; u < a->n && !st; u++) {
        if (a->ptr[u + 1] > a->ptr[u] && !(a->degree[u] > 0x1p-900))
            return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "graph.edge_weight", "weights of very different size",
                               "sums of weights at nodes that differ by at most 2^900");
        st = pe_pace_add(pace, 2);
    }
    return st;
}

/* Gives the nodes of component c signs such that every edge joins s_u s_v = sign of its weight; *yes: there are such.
 * The signs are left in unit, 0 before. */
static posenc_status balance(pe_spectrum *s, int64_t c, int32_t *queue, bool *yes)
{
    const pe_csr *a = &s->csr;
    posenc_status st;
    int64_t head = 0, tail = 0;
    queue[tail++] = s->node[s->begin[c]];
    s->unit[s->begin[c]] = 1;
    while (head < tail) {
        int32_t u = queue[head++];
        for (int64_t i = a->ptr[u]; i < a->ptr[u + 1]; i++) {
            double *v = &s->unit[s->place[a->col[i]]],
                   want = copysign(s->unit[s->place[u]], weight(a, i) * s->unit[s->place[u]]);
            if (*v == 0) {
                *v = want;
                queue[tail++] = a->col[i];
            } else if (*v != want) {
                *yes = false;
                return PE_OK;
            }
            if ((st = pe_pace_add(&s->pace, 16)))
                return st;
        }
    }
    *yes = true;
    return PE_OK;
}

/* The null vector of component c:   s D^1/2 1 / ||D^1/2 1||, without D for none. */
static posenc_status null_vector(pe_spectrum *s, int64_t c, posenc_error *err)
{
    const pe_csr *a = &s->csr;
    posenc_status st = PE_OK;
    const int64_t begin = s->begin[c], end = s->begin[c + 1];
    const int32_t first = s->node[begin];
    double *unit = s->unit;
    if (end - begin == 1) {
        double loop = a->ptr[first + 1] > a->ptr[first] ? weight(a, a->ptr[first]) : 0, d = a->degree[first];
        s->single[c] = s->o.normalization == PE_LAPLACIAN_NONE ? d - loop
                       : d > 0                                 ? (d - loop) / d
                                                               : s->o.isolated == PE_ISOLATED_ONE;
        s->null[c] = s->single[c] == 0;
        unit[begin] = 1;
        return pe_pace_add(&s->pace, 24);
    }
    s->null[c] = true;
    if (s->negative) {
        int32_t *queue = malloc((size_t)(end - begin) * sizeof *queue);
        if (!queue)
            return pe_no_memory("memory", err);
        st = balance(s, c, queue, &s->null[c]);
        free(queue);
    }
    double sum = 0;
    for (int64_t i = begin; i < end && !st; i++) {
        double d = s->o.normalization == PE_LAPLACIAN_NONE ? 1 : a->degree[s->node[i]];
        unit[i] = s->negative ? copysign(sqrt(d), unit[i]) : sqrt(d);
        sum += d;
        st = pe_pace_add(&s->pace, 12);
    }
    double scale = sqrt(sum);
    for (int64_t i = begin; i < end && !st; i++) {
        unit[i] /= scale;
        st = pe_pace_add(&s->pace, 6);
    }
    return st;
}

/* b (components + 2) is 0; b[k + 1]: next free place of component k */
static posenc_status fill_places(const pe_csr *c, int64_t *b, int32_t *node, int32_t *place, pe_pace *pace)
{
    const size_t nc = (size_t)c->ncomponents + 1;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < c->n && !st; v++) {
        b[c->component[v] + 2]++;
        st = pe_pace_add(pace, 8);
    }
    for (size_t k = 0; k + 2 <= nc && !st; k++) {
        b[k + 2] += b[k + 1];
        st = pe_pace_add(pace, 4);
    }
    for (int64_t v = 0; v < c->n && !st; v++) {
        int64_t at = b[c->component[v] + 1]++;
        node[at] = (int32_t)v;
        place[v] = (int32_t)at;
        st = pe_pace_add(pace, 16);
    }
    return st;
}

posenc_status pe_places(const pe_csr *c, int64_t **begin, int32_t **node, int32_t **place, pe_pace *pace, posenc_error *err)
{
    const size_t n = (size_t)c->n + 1;
    *begin = calloc((size_t)c->ncomponents + 2, sizeof **begin);
    *node = pe_work_memory(n * sizeof **node);
    *place = pe_work_memory(n * sizeof **place);
    if (!*begin || !*node || !*place)
        return pe_no_memory("memory", err);
    return fill_places(c, *begin, *node, *place, pace);
}

static size_t spectrum_bytes(int64_t nodes, int64_t components)
{
    const pe_spectrum *s = NULL;
    const size_t n = (size_t)nodes + 1, nc = (size_t)components + 2;
    return nc * (sizeof *s->pairs + sizeof *s->begin + sizeof *s->single + sizeof *s->null) +
           n * (sizeof *s->unit + sizeof *s->scratch + sizeof *s->node + sizeof *s->place);
}

/* Bytes of a connected graph, a multiple of 64. */
static size_t room_of(const posenc_graph *graph, int64_t g)
{
    return (pe_csr_room(graph, g) + 8 + spectrum_bytes(graph->ptr[g + 1] - graph->ptr[g], 1) + 63) / 64 * 64;
}

/*   room   of room_of(graph, g) bytes, which outlives s; NULL: none */
static posenc_status init_in(pe_spectrum *s, const pe_spectrum_options *o, const posenc_graph *graph, int64_t g, char *room,
                             posenc_context *ctx, posenc_error *err)
{
    s->o = *o;
    s->pace = (pe_pace){ .ctx = ctx, .left = PE_PACE_STEPS };
    posenc_status st = pe_csr_build_in(graph, g, &o->edges, room, &s->csr, ctx, err);
    if (st || (st = pe_csr_scale(&s->csr, &s->exponent, &s->pace)))
        return st;
    if (o->normalization != PE_LAPLACIAN_NONE && (st = pe_csr_alike(&s->csr, &s->pace, err)))
        return st;
    const pe_csr *a = &s->csr;
    const size_t n = (size_t)a->n + 1, nc = (size_t)a->ncomponents + 2;
    const size_t size = spectrum_bytes(a->n, a->ncomponents);
    if (room && a->ncomponents == 1)
        s->pairs = memset(room + (pe_csr_room(graph, g) + 7) / 8 * 8, 0, size);
    else if (!(s->memory = pe_work_memory(size)))
        return pe_no_memory("memory", err);
    else if ((st = pe_pace_zero(&s->pace, s->memory, size)))
        return st;
    else
        s->pairs = s->memory;
    s->begin = (int64_t *)(s->pairs + nc);
    s->single = (double *)(s->begin + nc);
    s->unit = s->single + nc;
    s->scratch = s->unit + n;
    s->node = (int32_t *)(s->scratch + n);
    s->place = s->node + n;
    s->null = (bool *)(s->place + n);
    if ((st = fill_places(a, s->begin, s->node, s->place, &s->pace)))
        return st;
    for (int64_t v = 0; v < a->n && !st; v++) {
        for (int64_t i = a->ptr[v]; i < a->ptr[v + 1] && (o->edges.self_loops == PE_LOOPS_KEEP || a->weight); i++) {
            s->loops = s->loops || a->col[i] == v;
            s->negative = s->negative || weight(a, i) < 0;
        }
        st = pe_pace_add(&s->pace, 4 * (a->ptr[v + 1] - a->ptr[v]) + 4);
    }
    for (int64_t c = 0; c < a->ncomponents && !st; c++)
        st = null_vector(s, c, err);
    return st;
}

posenc_status pe_spectrum_init(pe_spectrum *s, const pe_spectrum_options *o, const posenc_graph *graph, int64_t g,
                               posenc_context *ctx, posenc_error *err)
{
    return init_in(s, o, graph, g, NULL, ctx, err);
}

posenc_status pe_spectrum_part(pe_spectrum *s, int64_t c, pe_part *out, posenc_error *err)
{
    const pe_csr *a = &s->csr;
    const int64_t begin = s->begin[c], n = s->begin[c + 1] - begin;
    *out = (pe_part){ .m = { .n = n,
                             .ptr = a->ptr,
                             .col = a->col,
                             .weight = a->weight,
                             .degree = a->degree,
                             .normalized = s->o.normalization != PE_LAPLACIAN_NONE,
                             .kernel = s->null[c] ? s->unit + begin : NULL } };
    if (a->ncomponents == 1 && !s->loops) {
        out->m.order = a->order;
        return PE_OK;
    }

    posenc_status st = PE_OK;
    int64_t arcs = 0, listed = 0;
    for (int64_t i = 0; i < n; i++) {
        listed += a->ptr[s->node[begin + i] + 1] - a->ptr[s->node[begin + i]];
        if ((st = pe_pace_add(&s->pace, 8)))
            return st;
    }
    int64_t *ptr = pe_work_memory(((size_t)n + 1) * sizeof *ptr);
    int32_t *col = pe_work_memory((size_t)listed * sizeof *col);
    double *w = a->weight ? pe_work_memory((size_t)listed * sizeof *w) : NULL;
    double *degree = pe_work_memory((size_t)n * sizeof *degree);
    double *diagonal = s->loops ? pe_work_memory((size_t)n * sizeof *diagonal) : NULL;
    void *memory[] = { ptr, col, w, degree, diagonal };
    memcpy(out->memory, memory, sizeof memory);
    if (!ptr || !col || (a->weight && !w) || !degree || (s->loops && !diagonal)) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    ptr[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t v = s->node[begin + i];
        double loop = 0;
        for (int64_t j = a->ptr[v]; j < a->ptr[v + 1]; j++) {
            if (a->col[j] == v) {
                loop = weight(a, j);
                continue;
            }
            if (w)
                w[arcs] = a->weight[j];
            col[arcs++] = (int32_t)(s->place[a->col[j]] - begin);
        }
        if ((st = pe_pace_add(&s->pace, 12 * (a->ptr[v + 1] - a->ptr[v]) + 16)))
            goto done;
        ptr[i + 1] = arcs;
        degree[i] = a->degree[v];
        if (diagonal)
            diagonal[i] = out->m.normalized ? (degree[i] - loop) / degree[i] : degree[i] - loop;
    }
    out->m.ptr = ptr;
    out->m.col = col;
    out->m.weight = w;
    out->m.degree = degree;
    out->m.diagonal = diagonal;
done:
    if (st)
        pe_part_fini(out);
    return st;
}

void pe_part_fini(pe_part *p)
{
    for (size_t i = 0; i < PE_LEN(p->memory); i++)
        free(p->memory[i]);
    *p = (pe_part){ 0 };
}

int64_t pe_spectrum_extra(int64_t n)
{
    int64_t fits = (1 << 23) / (n ? n : 1);
    return n <= 1024 ? n : fits < 32 ? 32 : fits < 256 ? fits : 256;
}

bool pe_spectrum_small(const pe_spectrum *s, int64_t c)
{
    const int64_t n = s->begin[c + 1] - s->begin[c];
    return s->o.solver == PE_SOLVER_AUTO && n > 1 && n <= PE_SMALL_ROWS && !s->loops;
}

uint64_t pe_spectrum_extra_numbers(int64_t n)
{
    const uint64_t small = n < 2048 ? (uint64_t)n : 2048, each = n < 1024 ? (uint64_t)n : 1024;
    const uint64_t whole = (uint64_t)n * (uint64_t)pe_spectrum_extra(n);
    return small * each > whole ? small * each : whole;
}

posenc_status pe_spectrum_solve(pe_spectrum *s, int64_t c, int64_t want, posenc_context *ctx, posenc_error *err)
{
    pe_part part;
    if (s->pairs[c].count || s->pairs[c].partial) /* solved ahead, in company; or too late */
        return PE_OK;
    posenc_status st = pe_spectrum_part(s, c, &part, err);
    if (!st && pe_spectrum_small(s, c)) {
        pe_small one = { .c = part.m, .want = want, .tol = s->o.tol, .out = &s->pairs[c] };
        st = pe_small_solve(&one, 1, &s->pace, err);
    }
    if (!st && !s->pairs[c].count)
        st = pe_component_pairs(&part.m, want, pe_spectrum_extra(part.m.n), s->o.tol, s->o.max_iter, s->o.solver,
                                s->o.partial, &s->pairs[c], ctx, err);
    if (st == PE_DEADLINE && s->o.partial) { /* before the solver began */
        s->pairs[c].next = -INFINITY;
        s->pairs[c].partial = true;
        st = PE_OK;
    }
    pe_part_fini(&part);
    return st;
}

/* ---- a chunk of graphs ---- */

void pe_spectra_fini(pe_spectra *a)
{
    for (int64_t i = 0; i < a->count; i++)
        pe_spectrum_fini(&a->s[i]);
    free(a->s);
    free(a->room);
    free(a->answers);
    *a = (pe_spectra){ 0 };
}

/* Where partial answers are allowed so many at a time: what the deadline meets, and what comes behind it, is not found. */
static posenc_status solve_jobs(pe_small *job, int64_t n, bool partial, pe_grace *grace, pe_pace *pace, posenc_error *err)
{
    enum { SLICE = 1 << 11 };
    const int64_t step = partial ? SLICE : n;
    posenc_status st = PE_OK;
    int64_t done = 0;
    for (int64_t many; done < n && !st; done += st ? 0 : many) {
        many = n - done < step ? n - done : step;
        pe_grace_search(grace);
        st = pe_small_solve(job + done, many, pace, err);
        pe_grace_rest(grace);
    }
    if (st != PE_DEADLINE || !partial)
        return st;
    for (; done < n; done++) {
        pe_pairs_fini(job[done].out); /* some of the slice may have been solved */
        *job[done].out = (pe_pairs){ .next = -INFINITY, .partial = true };
    }
    return PE_OK;
}

/* Small components of all graphs that can be taken apart. */
static posenc_status solve_together(pe_spectra *a,
                                    int64_t (*want)(const void *arg, const pe_spectrum *s, int64_t c, int64_t zeros),
                                    const void *arg, posenc_context *ctx, pe_grace *grace, posenc_error *err)
{
    posenc_status st = PE_OK;
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    int64_t n = 0, most = 0; /* not of nodes alone, of which there may be many */
    for (int64_t i = 0; i < a->count && !st; i++)
        for (int64_t c = 0; a->s[i].pairs && c < a->s[i].csr.ncomponents && !st; c++) {
            most += pe_spectrum_small(&a->s[i], c);
            st = pe_pace_add(&pace, 4);
        }
    if (st)
        return st;
    pe_small *job = malloc((size_t)(most + 1) * sizeof *job);
    pe_part *part = malloc((size_t)(most + 1) * sizeof *part);
    if (!job || !part)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < a->count && !st; i++) {
        pe_spectrum *s = &a->s[i];
        int64_t zeros = 0;
        for (int64_t c = 0; s->pairs && c < s->csr.ncomponents && !st; c++) {
            zeros += s->null[c];
            st = pe_pace_add(&pace, 2);
        }
        for (int64_t c = 0; s->pairs && c < s->csr.ncomponents && !st; c++) {
            const int64_t pairs = pe_spectrum_small(s, c) ? want(arg, s, c, zeros) : 0;
            if ((st = pe_pace_add(&pace, 8)))
                break;
            if (pairs && !(st = pe_spectrum_part(s, c, &part[n], err))) {
                job[n] = (pe_small){ .c = part[n].m, .want = pairs, .tol = s->o.tol, .out = &s->pairs[c] };
                n++;
            }
        }
    }
    size_t size = 1;
    for (int64_t i = 0; i < n; i++)
        size += pe_small_room(job[i].c.n, job[i].want);
    double *room = a->answers = aligned_alloc(64, (size * sizeof *room + 63) / 64 * 64);
    if (!st && !room)
        st = pe_no_memory("memory", err);
    for (int64_t i = 0; i < n && room; i++) {
        job[i].room = room;
        room += pe_small_room(job[i].c.n, job[i].want);
    }
    if (!st)
        st = solve_jobs(job, n, a->o.partial, grace, &pace, err);
    for (int64_t i = 0; i < n; i++) {
        pe_part_fini(&part[i]);
        const posenc_status one = pe_pace_add(&pace, 500);
        st = st ? st : one;
    }
    free(part);
    free(job);
    return st;
}

/* Whether a graph is likely to be one small component. */
static bool shared(const posenc_graph *graph, int64_t g)
{
    const int64_t n = graph->ptr[g + 1] - graph->ptr[g], m = graph->arc_ptr[g + 1] - graph->arc_ptr[g];
    return n <= PE_SMALL_ROWS && m + 1 >= n && m < 4 * n;
}

posenc_status pe_spectra_init(pe_spectra *a, const pe_graph_chunk *chunk, const pe_spectrum_options *o,
                              int64_t (*want)(const void *arg, const pe_spectrum *s, int64_t c, int64_t zeros),
                              const void *arg, posenc_error *err)
{
    posenc_status st = PE_OK;
    *a = (pe_spectra){ .o = *o, .first = chunk->begin, .count = chunk->end - chunk->begin };
    const posenc_graph *graph = chunk->request->graph;
    size_t size = 64;
    for (int64_t g = chunk->begin; g < chunk->end; g++)
        size += shared(graph, g) ? room_of(graph, g) : 0;
    a->s = calloc((size_t)a->count + 1, sizeof *a->s);
    char *room = a->room = malloc(size);
    if (!a->s || !a->room) {
        free(a->s);
        free(a->room);
        *a = (pe_spectra){ 0 };
        return pe_no_memory("memory", err);
    }
    for (int64_t i = 0, g = chunk->begin; i < a->count && !st; i++, g++) {
        st = init_in(&a->s[i], o, graph, g, shared(graph, g) ? room : NULL, chunk->ctx, NULL);
        room += shared(graph, g) ? room_of(graph, g) : 0;
        if (st == PE_INVALID) { /* said in its turn */
            pe_spectrum_fini(&a->s[i]);
            st = PE_OK;
        } else if (st == PE_BUSY) {
            pe_no_memory("memory", err);
        }
    }
    if (!st)
        st = solve_together(a, want, arg, chunk->ctx, chunk->grace, err);
    if (st)
        pe_spectra_fini(a);
    return st;
}

posenc_status pe_spectra_take(pe_spectra *a, const posenc_graph *graph, int64_t g, pe_spectrum *out, posenc_context *ctx,
                              posenc_error *err)
{
    *out = a->s[g - a->first];
    a->s[g - a->first] = (pe_spectrum){ 0 };
    out->pace = (pe_pace){ .ctx = ctx, .left = PE_PACE_STEPS };
    return out->pairs ? PE_OK : pe_spectrum_init(out, &a->o, graph, g, ctx, err);
}

uint64_t pe_spectra_held(const posenc_graph *graph, int64_t g, int64_t want)
{
    const int64_t n = graph->ptr[g + 1] - graph->ptr[g], m = graph->arc_ptr[g + 1] - graph->arc_ptr[g];
    const int64_t side = n < PE_SMALL_ROWS ? n : PE_SMALL_ROWS, pairs = want < side ? want : side;
    /* spectrum and adjacency; components and their jobs, of two nodes at least but for empty ones; panels; parts */
    return (uint64_t)(sizeof(pe_spectrum) + 24 * 8) + (uint64_t)n * (64 + sizeof(pe_pairs)) + (uint64_t)m * 40 +
           (uint64_t)(n < 2 * m ? n : 2 * m) / 2 * (sizeof(pe_small) + sizeof(pe_part)) +
           (uint64_t)(n < 2 * m ? n : 2 * m) * (uint64_t)((pairs + 12) / 8 * 64 + 32);
}

uint64_t pe_spectra_bytes(const posenc_graph *graph, int64_t begin, int64_t end, int64_t want)
{
    int64_t rows = 2, arcs = 1;
    for (int64_t g = begin; g < end; g++) {
        const int64_t n = graph->ptr[g + 1] - graph->ptr[g], m = graph->arc_ptr[g + 1] - graph->arc_ptr[g];
        rows = n > rows ? n : rows;
        arcs = m > arcs ? m : arcs;
    }
    rows = rows < PE_SMALL_ROWS ? rows : PE_SMALL_ROWS;
    arcs = 2 * arcs < rows * rows ? 2 * arcs : rows * rows;
    return pe_small_bytes(rows, arcs, want, graph->ptr[end] - graph->ptr[begin]);
}

/* ---- pairs of several components ---- */

static int by_value(const void *a, const void *b)
{
    const pe_eigenpair *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

int pe_eigenpair_by_order(const void *a, const void *b)
{
    const pe_eigenpair *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

posenc_status pe_spectrum_list(pe_spectrum *s, int64_t c0, int64_t c1, pe_eigenpair **out, int64_t *n, posenc_error *err)
{
    int64_t total = 0, m = 0, zeros = 0;
    posenc_status st = PE_OK;
    for (int64_t c = c0; c < c1 && !st; c++) {
        total += 1 + s->pairs[c].count;
        st = pe_pace_add(&s->pace, 8);
    }
    if (st)
        return st;
    pe_eigenpair *e = malloc((size_t)(total + 1) * sizeof *e), *other = NULL;
    if (!e)
        return pe_no_memory("memory", err);
    for (int64_t c = c0; c < c1 && !st; c++) {
        if (s->null[c]) {
            e[m] = (pe_eigenpair){ 0, c, m, s->unit + s->begin[c], 0 };
            m++;
        }
        st = pe_pace_add(&s->pace, 16);
    }
    zeros = m;
    for (int64_t c = c0; c < c1 && !st; c++) {
        pe_pairs *q = &s->pairs[c];
        if ((st = pe_pairs_rows(q, err)))
            break;
        if (s->begin[c + 1] - s->begin[c] == 1 && !s->null[c]) {
            e[m] = (pe_eigenpair){ s->single[c], c, m, s->unit + s->begin[c], 0 };
            m++;
        }
        st = pe_pace_add(&s->pace, 16 + 16 * q->count);
        for (int64_t j = 0; j < q->count; j++, m++)
            e[m] = (pe_eigenpair){ pe_eigenvalue(q->values[j], s->o.normalization != PE_LAPLACIAN_NONE), c, m,
                                   q->vectors + j * q->n, q->residuals[j] };
    }
    if (!st && !(other = malloc((size_t)(m - zeros + 1) * sizeof *e)))
        st = pe_no_memory("memory", err);
    if (!st)
        st = pe_sort(m - zeros, sizeof *e, e + zeros, other, by_value, &s->pace);
    free(other);
    if (st) {
        free(e);
        return st;
    }
    *out = e;
    *n = m;
    return PE_OK;
}

double pe_eigenspace_blur(const pe_eigenpair *e, int64_t a, int64_t b, double gap)
{
    double most = 0;
    for (int64_t j = a; j < b; j++)
        most = e[j].residual > most ? e[j].residual : most;
    return most > 0 ? most / gap : 0;
}

posenc_status pe_spectrum_residual(pe_spectrum *s, const double *v, double lambda, int64_t n, int64_t origin, double *out)
{
    const pe_csr *a = &s->csr;
    posenc_status st = PE_OK;
    double *z = s->scratch;
    const bool normalized = s->o.normalization != PE_LAPLACIAN_NONE;
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        int32_t u = s->node[origin + i];
        double d = a->degree[u];
        z[u] = normalized && d > 0 ? v[i] / sqrt(d) : v[i];
        size += z[u] * z[u];
        st = pe_pace_add(&s->pace, 16);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        int32_t u = s->node[origin + i];
        double d = a->degree[u], y = 0;
        for (int64_t j = a->ptr[u]; j < a->ptr[u + 1]; j++)
            y += weight(a, j) * z[a->col[j]];
        if (!normalized)
            y = d * v[i] - y - lambda * v[i];
        else if (d > 0)
            y = v[i] - y / sqrt(d) - lambda * v[i];
        else
            y = (s->o.isolated == PE_ISOLATED_ONE) * v[i] - lambda * v[i];
        if (s->o.normalization == PE_LAPLACIAN_RW && d > 0)
            y /= sqrt(d);
        sum += y * y;
        st = pe_pace_add(&s->pace, 6 * (a->ptr[u + 1] - a->ptr[u]) + 16);
    }
    *out = s->o.normalization == PE_LAPLACIAN_RW ? sqrt(sum) / sqrt(size) : sqrt(sum);
    return st;
}

bool pe_column_flips(int64_t seed, int64_t column, int64_t n, int64_t arcs)
{
    uint64_t x = (uint64_t)seed, parts[] = { (uint64_t)column, (uint64_t)n, (uint64_t)arcs };
    for (size_t i = 0; i < PE_LEN(parts); i++) {
        x = (x + parts[i] + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 29) * 0x94d049bb133111ebu;
        x ^= x >> 32;
    }
    return x & 1;
}
