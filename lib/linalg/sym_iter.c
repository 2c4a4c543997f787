#include "core/exact.h"
#include "core/memory.h"
#include "core/params.h"
#include "linalg.h"

#include "cg.h"
#include "chebyshev.h"
#include "krylov.h"
#include "ldl.h"
#include "relabel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DENSE_ROWS = 128,  /* up to here the dense solver is the faster one */
    MOST_AT_ONCE = 64, /* pairs that one run looks for; more come in several runs */
    BEYOND = 8,        /* the filter's edge is the estimate of this eigenvalue after the wanted ones */
    RESTARTS = 300,
    FALL_BACK = 4096, /* rows up to which auto turns to the dense solver when the others do not converge */
    COUNT_COST = 128  /* inertia is the proof while factoring takes fewer products per entry of L */
};

static const double SINGLE_ENOUGH = 3e-7;  /* tol from which products may be of float32 */
static const double TURNED_ENOUGH = 1e-11; /* and from which L^+ may be one by conjugate gradients */

/* One call of pe_component_pairs. */
typedef struct job {
    const pe_component *c;
    pe_relabelled copy; /* c, where copy.order: what the caller asked about in an order that is near in memory */
    pe_laplacian lap;
    int64_t want, total; /* pairs wanted; pairs there are */
    int64_t most;        /* pairs that may be returned */
    int64_t panels;      /* eight columns of the basis each */
    int64_t restarts;    /* left */
    double tolerance, relative;
    bool partial, dense_too; /* dense_too: the dense solver is tried where this does not converge */
    pe_pace pace;
    posenc_context *ctx;
    posenc_error *err;
} job;

/* ---- sizes --------------------------------------------------------------------------------------------------- */

static int64_t basis_panels(int64_t want)
{
    int64_t goal = want < MOST_AT_ONCE ? want : MOST_AT_ONCE;
    return 2 * ((goal + PE_WIDTH) / PE_WIDTH) + 6;
}

static bool is_dense(int64_t n, int64_t want)
{
    return n <= DENSE_ROWS || n - 1 < 2 * want + PE_WIDTH * (basis_panels(want) + 4);
}

static uint64_t laplacian_bytes(int64_t n, int64_t arcs) { return 24 * (uint64_t)n + 8 * (uint64_t)arcs; }

static uint64_t dense_bytes(int64_t n, int64_t arcs)
{
    return 16 * (uint64_t)n * (uint64_t)n + 256 * (uint64_t)n + laplacian_bytes(n, arcs);
}

/* The basis and the block behind it, the component in another order, the filter's panels and one of pairs that are
 * measured, its copy of L, the pairs found and a block on their way. The answer is made when the basis is gone. */
static uint64_t search_bytes(int64_t n, int64_t arcs, int64_t want, int64_t panels)
{
    const uint64_t m = (uint64_t)panels * PE_WIDTH, columns = m + 2 * PE_MOST_WIDTH + (uint64_t)want + 2 * PE_WIDTH;
    return 8 * (uint64_t)n * columns + 5 * 64 * (uint64_t)n + 4 * (uint64_t)arcs + 16 * m * m + laplacian_bytes(n, arcs) +
           pe_relabel_bytes(n, arcs);
}

uint64_t pe_component_bytes(int64_t n, int64_t arcs, int64_t want)
{
    return is_dense(n, want) ? dense_bytes(n, arcs) : search_bytes(n, arcs, want, basis_panels(want));
}

static posenc_status too_large(job *j, uint64_t bytes)
{
    return posenc_fail(j->err, PE_LIMIT, "LIMIT_EXCEEDED", "graph",
                       posenc_text("%llu bytes of work space", (unsigned long long)bytes).s,
                       "at most %llu bytes (setting memory)", (unsigned long long)j->ctx->memory_limit);
}

static bool fits(const job *j, uint64_t bytes)
{
    return !j->ctx || j->ctx->memory_limit == 0 || bytes <= j->ctx->memory_limit;
}

/* ---- the cut ------------------------------------------------------------------------------------------------- */

/* How many of the ascending values v (have) are returned: `want`, and the rest of the cluster of the last one.
 *   *capped   the cluster might go on, but most is reached */
static int64_t cut(const job *j, const double *v, int64_t have, bool *capped)
{
    int64_t count = j->want < have ? j->want : have;
    while (count < have && count < j->most && v[count] - v[count - 1] < pe_cluster_gap(v[count - 1]))
        count++;
    *capped = count == j->most && count < j->total;
    return count;
}

static posenc_status allocate(const job *j, int64_t count, pe_pairs *out)
{
    *out = (pe_pairs){ .n = j->c->n, .count = count, .next = INFINITY };
    const size_t some = count ? (size_t)count : 1;
    out->values = malloc(some * sizeof(double));
    out->residuals = malloc(some * sizeof(double));
    out->vectors = pe_work_memory(some * (size_t)j->c->n * sizeof(double));
    return out->values && out->residuals && out->vectors ? PE_OK : pe_no_memory("memory", j->err);
}

void pe_pairs_fini(pe_pairs *p)
{
    free(p->vectors);
    if (!p->memory && !p->borrowed) {
        free(p->values);
        free(p->residuals);
    }
    free(p->memory);
    *p = (pe_pairs){ 0 };
}

posenc_status pe_pairs_rows(pe_pairs *p, posenc_error *err)
{
    if (p->vectors || !p->count)
        return PE_OK;
    p->vectors = malloc((size_t)(p->count * p->n) * sizeof *p->vectors);
    if (!p->vectors)
        return pe_no_memory("memory", err);
    for (int64_t j = 0; j < p->count; j++)
        for (int64_t i = 0; i < p->n; i++)
            p->vectors[j * p->n + i] = p->panels[(j / PE_WIDTH * p->n + i) * PE_WIDTH + j % PE_WIDTH];
    return PE_OK;
}

static posenc_status unconverged(job *j, double worst, int64_t iterations)
{
    return posenc_fail(j->err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "tol", posenc_text("%.3g", j->relative).s,
                       "more, or a larger max_iter: the largest residual is %.3g, allowed %.3g, after %lld iterations",
                       worst, j->tolerance, (long long)iterations);
}

/* Indices 0 .. n - 1 so that value[order[i]] ascends, equal ones in order of index. Bottom-up merge sort. */
static void sort(int64_t n, const double *value, int64_t *order, int64_t *scratch)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
            int64_t a = begin, b = middle;
            for (int64_t k = begin; k < end; k++)
                scratch[k] = b == end || (a < middle && value[order[a]] <= value[order[b]]) ? order[a++] : order[b++];
        }
        memcpy(order, scratch, (size_t)n * sizeof *order);
    }
}

static posenc_status set_laplacian(job *j)
{
    posenc_status st = pe_laplacian_init(&j->lap, j->c, &j->pace, j->err);
    j->tolerance = j->relative * j->lap.scale;
    return st;
}

/* ---- dense --------------------------------------------------------------------------------------------------- */

/* a (n, n) = L + above * kernel kernel^T: the kernel vector moves above the spectrum, so that a tiny second
 * eigenvalue never mixes with it. */
static posenc_status fill(job *j, double *a)
{
    const pe_component *c = j->c;
    double above = 1.25 * j->lap.bound;
    for (int64_t i = 0; i < c->n; i++) {
        double *row = a + i * c->n;
        for (int64_t k = 0; k < c->n; k++)
            row[k] = c->kernel ? above * (c->kernel[i] * c->kernel[k]) : 0;
        row[i] += j->lap.diagonal[i];
        for (int64_t p = c->ptr[i]; p < c->ptr[i + 1]; p++)
            row[c->col[p]] += j->lap.entry[p];
        posenc_status st = pe_pace_add(&j->pace, c->n);
        if (st)
            return st;
    }
    return PE_OK;
}

/* Projects the kernel out of the rows of a (count, n), which are eigenvectors, and measures them. */
static posenc_status refine(job *j, int64_t count, double *a, double *values, double *residuals)
{
    posenc_status st = PE_OK;
    const double *kernel = j->c->kernel;
    int64_t n = j->c->n;
    double *rows[PE_WIDTH];
    for (int64_t q = 0; q < count && !st; q++) {
        double *row = a + q * n, sum = 0, square = 0;
        for (int64_t i = 0; kernel && i < n; i++)
            sum += kernel[i] * row[i];
        for (int64_t i = 0; i < n; i++) {
            row[i] -= kernel ? sum * kernel[i] : 0;
            square += row[i] * row[i];
        }
        double length = sqrt(square);
        for (int64_t i = 0; i < n; i++)
            row[i] /= length;
        rows[q % PE_WIDTH] = row;
        const int64_t many = q % PE_WIDTH + 1, first = q + 1 - many;
        if (many == PE_WIDTH || q + 1 == count)
            st = pe_laplacian_measure(&j->lap, many, rows, values + first, residuals + first, &j->pace, j->err);
        st = st ? st : pe_pace_add(&j->pace, 8 * n);
    }
    return st;
}

static posenc_status solve_dense(job *j, pe_pairs *out)
{
    posenc_status st = PE_OK;
    int64_t n = j->c->n;
    double *a = NULL, *values = NULL, *residuals = NULL, worst = 0;
    int64_t *order = NULL;

    if (!fits(j, dense_bytes(n, j->c->ptr[n])))
        return too_large(j, dense_bytes(n, j->c->ptr[n]));
    if ((st = set_laplacian(j)))
        return st;
    a = malloc((size_t)n * (size_t)n * sizeof(double));
    values = malloc((size_t)n * sizeof(double));
    residuals = malloc((size_t)n * sizeof(double));
    order = malloc((size_t)n * 2 * sizeof(int64_t));
    if (!a || !values || !residuals || !order) {
        st = pe_no_memory("memory", j->err);
        goto done;
    }
    if ((st = fill(j, a)))
        goto done;
    if ((st = pe_sym_dense(n, a, values, j->ctx, j->err)))
        goto done;
    bool capped;
    int64_t count = cut(j, values, j->total, &capped);
    double next = count < j->total ? values[count] : INFINITY;
    if ((st = refine(j, count, a, values, residuals)))
        goto done;
    if ((st = allocate(j, count, out)))
        goto done;
    sort(count, values, order, order + n);
    for (int64_t i = 0; i < count; i++) {
        out->values[i] = values[order[i]];
        out->residuals[i] = residuals[order[i]];
        worst = out->residuals[i] > worst ? out->residuals[i] : worst;
        memcpy(out->vectors + i * n, a + order[i] * n, (size_t)n * sizeof(double));
        if ((st = pe_pace_add(&j->pace, 4 * n)))
            goto done;
    }
    out->next = next > out->values[count - 1] ? next : out->values[count - 1];
    if (!(worst <= j->tolerance))
        st = unconverged(j, worst, n);
done:
    free(a);
    free(values);
    free(residuals);
    free(order);
    pe_laplacian_fini(&j->lap);
    return st;
}

/* ---- iterative ----------------------------------------------------------------------------------------------- */

static posenc_status invert(void *self, int64_t width, double *const *x, double *const *y, pe_pace *pace, posenc_error *err)
{
    (void)err;
    return pe_ldl_solve_columns(self, width, x, y, pace);
}

static double inverse_value(const void *self, double theta)
{
    const pe_ldl *f = self;
    return theta > 0.5 / f->lap->bound ? 1 / theta : INFINITY;
}

/* L^+ by conjugate gradients, whose steps hang on the spectrum of sym alone: where degrees are far apart that of none is a
 * thousand times wider, and a polynomial of L would have to reach across. */
typedef struct conjugate {
    pe_cg cg;
    double *panel;
    double tol;
} conjugate;

static posenc_status conjugate_apply(void *self, int64_t width, double *const *x, double *const *y, pe_pace *pace,
                                     posenc_error *err)
{
    enum { ROWS = 1 << 10, STEPS = 20000 };
    conjugate *c = self;
    posenc_status st = PE_OK;
    const int64_t n = c->cg.lap->c->n;
    for (int64_t at = 0; at < n && !st; at += ROWS) {
        for (int64_t i = at; i < n && i < at + ROWS; i++)
            for (int64_t k = 0; k < PE_WIDTH; k++)
                c->panel[i * PE_WIDTH + k] = k < width ? x[k][i] : 0;
        st = pe_pace_add(pace, 16 * ROWS);
    }
    if (!st)
        st = pe_cg_solve(&c->cg, c->panel, c->panel, c->tol, STEPS, pace, NULL);
    if (st == PE_NO_CONVERGENCE)
        return posenc_fail(err, st, "NO_CONVERGENCE", "solver", "auto",
                           "chebyshev; or normalization=sym: conjugate gradients do not come to %.3g within %d steps",
                           c->tol, STEPS);
    for (int64_t at = 0; at < n && !st; at += ROWS) {
        for (int64_t k = 0; k < width; k++)
            for (int64_t i = at; i < n && i < at + ROWS; i++)
                y[k][i] = c->panel[i * PE_WIDTH + k];
        st = pe_pace_add(pace, 16 * ROWS);
    }
    return st;
}

static double conjugate_value(const void *self, double theta)
{
    const conjugate *c = self;
    return theta > 0.5 / c->cg.lap->bound ? 1 / theta : INFINITY;
}

static posenc_status conjugate_init(conjugate *c, const job *j)
{
    c->tol = pe_max(1e-2 * j->relative, 1e-12);
    c->panel = pe_panel_new(j->c->n);
    return c->panel ? pe_cg_init(&c->cg, &j->lap, j->err) : pe_no_memory("memory", j->err);
}

static void conjugate_fini(conjugate *c)
{
    pe_cg_fini(&c->cg);
    free(c->panel);
}

/* Whether the spectrum is so wide that a polynomial of L that is to reach across it is a long one: some eigenvalue is about
 * the smallest degree at most (Fiedler 1973). And whether the kernel is constant, as pe_cg has it. */
static bool far_apart(const job *j)
{
    enum { FAR = 512 };
    const pe_component *c = j->c;
    bool constant = j->relative >= TURNED_ENOUGH && c->kernel && !c->normalized && !c->diagonal;
    double least = INFINITY;
    for (int64_t i = 0; i < c->n && constant; i++) {
        constant = c->kernel[i] == c->kernel[0];
        least = pe_min(least, c->degree[i]);
    }
    return constant && j->lap.bound > FAR * least;
}

/* Vectors a step. One needs the fewest products; two share the reading of a factor that is larger than the caches, and show
 * eigenvalues that symmetry makes double. */
static int64_t inverse_width(const pe_ldl *f) { return pe_ldl_fills_up(f) ? 2 : 1; }

static int64_t within(int64_t i, int64_t n) { return i < n ? i : n - 1; }

/* The polynomial, or the line where the spectrum has no low end to speak of. */
static void set_filter(pe_filter *f, double first, double last, double low)
{
    if (low <= 0.6 * f->high) {
        pe_filter_set(f, first, last, low);
    } else {
        f->high = f->lap->bound;
        pe_filter_plain(f);
    }
}

/* The filter's edges from the Ritz values of the last run, which are upper bounds of the eigenvalues; at least one value is
 * sought, also by a run that asks whether there are more. */
static void move_filter(pe_search *s, pe_filter *f, const pe_operator *op, int64_t sought)
{
    sought = sought > 1 ? sought : 1;
    const double first = op->value(f, s->theta[0]), last = op->value(f, s->theta[within(sought - 1, s->ritz)]);
    const double beyond = op->value(f, s->theta[within(sought + BEYOND, s->ritz)]);
    set_filter(f, first, last, beyond == INFINITY ? 1.5 * f->low : beyond);
}

/* Plain block Lanczos shows both ends of the spectrum. The largest eigenvalue is no further from the largest Ritz value than
 * its residual, but by a coincidence that a run with such a filter would notice. */
static posenc_status place_filter(pe_search *s, pe_filter *f, const pe_wish *wish)
{
    pe_filter_plain(f);
    pe_operator op = pe_filter_operator(f);
    posenc_status st = pe_search_run(s, &op, wish, 0);
    if (st || s->converged)
        return st;
    const double highest = op.value(f, s->theta[s->ritz - 1]), off = 2 * f->high * s->spread, full = f->high;
    const double last = op.value(f, s->theta[within(wish->goal - 1, s->ritz)]);
    const double beyond = op.value(f, s->theta[within(wish->goal + BEYOND, s->ritz)]);
    const double first = op.value(f, s->theta[0]);
    f->high = pe_min(full, highest + off + 0.005 * full);
    set_filter(f, first, last, beyond);
    return st;
}

/* One run with the Chebyshev filter, whose edge moves down while the estimates do, and up where it hides what is
 * sought. */
static posenc_status filtered_run(job *j, pe_search *s, pe_filter *f, const pe_wish *wish)
{
    posenc_status st;
    /* float32 for products: their rounding is far below what is asked for */
    if ((st = pe_filter_single(f, j->relative >= SINGLE_ENOUGH, &j->pace, j->err)))
        return st;
    s->width = f->single ? PE_MOST_WIDTH : PE_WIDTH;
    if (wish->goal > 0) {
        if ((st = place_filter(s, f, wish)) || s->converged)
            return st;
    }
    for (int64_t restarts = 0;; restarts = restarts ? 2 * restarts : 1) {
        if (f->degree == PE_MOST_DEGREE)
            return posenc_fail(j->err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "solver", "chebyshev",
                               "shift_invert: eigenvalues near %.3g of at most %.3g need too large a polynomial", f->low,
                               f->high);
        pe_operator op = pe_filter_operator(f);
        /* a last run is one with restarts: only these say what was found and how far the rest is off */
        int64_t allowed = restarts < j->restarts && j->restarts > 1 ? restarts : j->restarts, before = s->restarts;
        if ((st = pe_search_run(s, &op, wish, allowed)))
            return st;
        if (s->converged && s->next == INFINITY && s->found == 0 && f->degree > 1 && s->nlock - s->skip < j->total)
            pe_filter_plain(f); /* the few that are left lie beyond the edge */
        else if (s->converged)
            return PE_OK;
        j->restarts -= s->restarts - before + 1;
        if (j->restarts <= 0)
            return PE_OK;
        if (s->strange) {
            if (f->high < f->lap->bound)
                f->high = f->lap->bound;
            else if ((st = pe_filter_single(f, false, &j->pace, j->err)))
                return st;
        }
        if (f->degree == 1 || s->converged)
            continue;
        move_filter(s, f, &op, s->seen > wish->goal ? s->seen : wish->goal);
    }
}

/* One of ldl, filter and cg is there. */
static posenc_status run(job *j, pe_search *s, pe_ldl *ldl, pe_filter *filter, conjugate *cg, const pe_wish *wish)
{
    posenc_status st;
    if (filter) {
        st = filtered_run(j, s, filter, wish);
    } else {
        pe_operator op = { .self = ldl, .apply = invert, .value = inverse_value, .products = 1 };
        int64_t before = s->restarts;
        s->width = wish->goal > 0 && ldl ? inverse_width(ldl) : 1; /* one vector is enough to ask whether there are more */
        if (cg) {
            op = (pe_operator){ .self = cg, .apply = conjugate_apply, .value = conjugate_value, .products = 1 };
            s->width = PE_WIDTH;
        }
        st = pe_search_run(s, &op, wish, j->restarts);
        j->restarts -= s->restarts - before;
    }
    if (!st && !s->converged)
        st = unconverged(j, s->worst, s->products);
    return st;
}

/* Sylvester: the pivots of L - sigma I count the eigenvalues below sigma, which lies between the last pair and the
 * next. *proven when they are those found. */
static posenc_status prove(job *j, pe_ldl *ldl, const double *v, int64_t count, double next, bool *proven)
{
    posenc_status st = PE_OK;
    double last = v[count - 1], kernel = j->c->kernel ? 1 : 0;
    *proven = false;
    if (!(next - last >= pe_cluster_gap(last)) || next == INFINITY)
        return PE_OK;
    double sigma = next - pe_max(5e-7 * fabs(next), 0.01 * (next - last));
    for (int attempt = 0; attempt < 2; attempt++) {
        int64_t below = -1;
        if (attempt > 0 || sigma < (last + next) / 2)
            sigma = (last + next) / 2;
        if ((st = pe_ldl_count_below(ldl, sigma, &below, &j->pace, j->err)))
            return st;
        *proven = below == count + (int64_t)kernel;
        if (below >= 0)
            break;
    }
    return st;
}

/* Whether one run shows all that there is: a vector that it missed would have to be orthogonal to each of the random vectors
 * of the block it began with. A block shows as many copies of an eigenvalue as it is wide. */
static bool wide_enough(const pe_search *s, const double *v, int64_t count)
{
    int64_t members = 1, most = 1;
    for (int64_t i = 1; i < count; i++) {
        members = v[i] - v[i - 1] < pe_cluster_gap(v[i - 1]) ? members + 1 : 1;
        most = members > most ? members : most;
    }
    return s->width >= PE_WIDTH && most < s->width;
}

/* Whether a run that failed leaves an answer: what is locked. */
static bool settle_for_less(job *j, pe_search *s, posenc_status st)
{
    if (!j->partial || (st != PE_DEADLINE && (st != PE_NO_CONVERGENCE || j->dense_too)))
        return false;
    if (j->err)
        *j->err = (posenc_error){ 0 };
    s->converged = false;
    return true;
}

/* A vector in the caller's order. */
static posenc_status restore(job *j, const double *x, double *to)
{
    enum { ROWS = 1 << 12 };
    posenc_status st = pe_pace_touch(&j->pace, to, (size_t)j->c->n * sizeof *to);
    for (int64_t at = 0; at < j->c->n && !st; at += ROWS) {
        const int64_t end = j->c->n - at < ROWS ? j->c->n : at + ROWS;
        for (int64_t i = at; i < end; i++)
            to[j->copy.order[i]] = x[i];
        st = pe_pace_add(&j->pace, 8 * ROWS);
    }
    return st;
}

/* The `count` smallest of the locked pairs. */
static posenc_status hand_over(job *j, pe_search *s, int64_t count, double next, pe_pairs *out)
{
    const int64_t n = j->c->n, have = s->nlock - s->skip;
    pe_search_rest(s);
    posenc_status st = allocate(j, count, out);
    int64_t *order = malloc(((size_t)have * 2 + 1) * sizeof *order);
    if (!st && !order)
        st = pe_no_memory("memory", j->err);
    if (!st)
        sort(have, s->value + s->skip, order, order + have);
    for (int64_t i = 0; i < count && !st; i++) {
        const int64_t k = s->skip + order[i];
        out->values[i] = s->value[k];
        out->residuals[i] = s->residual[k];
        st = restore(j, s->lock[k], out->vectors + i * n);
    }
    free(order);
    if (st) {
        pe_pairs_fini(out);
        return st;
    }
    out->next = count && !(next > out->values[count - 1]) ? out->values[count - 1] : next;
    out->iterations = s->products;
    return PE_OK;
}

/* Values are as exact as vectors in the operator's terms; looser ones say too little of where a pair stands among others. */
static double first_try(const job *j) { return pe_min(j->relative, 1e-4); }

/* Runs until `want` pairs are locked and nothing below the cut can be missing; then the answer. */
static posenc_status search(job *j, pe_search *s, pe_ldl *ldl, pe_filter *filter, conjugate *cg, pe_pairs *out)
{
    posenc_status st = PE_OK;
    int64_t *order = NULL, count = 0;
    double *v = NULL, next = INFINITY;
    int64_t runs = 0;
    bool counted = !ldl || ldl->products > COUNT_COST * (ldl->entries + (double)j->c->n);

    for (;;) {
        int64_t have = s->nlock - s->skip;
        pe_wish wish = { .tolerance = j->tolerance, .relative = first_try(j), .bound = -INFINITY };
        if (have < j->want) {
            int64_t left = j->want - have, all = s->most / PE_WIDTH / 2 * PE_WIDTH;
            wish.goal = left < MOST_AT_ONCE ? left : MOST_AT_ONCE;
            wish.goal = wish.goal < all ? wish.goal : all;
            wish.limit = j->most - have < all ? j->most - have : all;
            if ((st = run(j, s, ldl, filter, cg, &wish)))
                goto stopped;
            if (s->found == 0) {
                st = posenc_fail(j->err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "solver", "", "a matrix with %lld eigenpairs",
                                 (long long)j->want);
                goto done;
            }
            next = s->next;
            runs++;
            continue;
        }
        free(order);
        free(v);
        order = malloc((size_t)have * 2 * sizeof(int64_t));
        v = malloc((size_t)have * sizeof(double));
        if (!order || !v) {
            st = pe_no_memory("memory", j->err);
            goto done;
        }
        sort(have, s->value + s->skip, order, order + have);
        for (int64_t i = 0; i < have; i++)
            v[i] = s->value[s->skip + order[i]];
        bool capped, proven = false;
        count = cut(j, v, have, &capped);
        double after = count < have ? v[count] : INFINITY, last = v[count - 1];
        next = next < after ? next : after;
        if (have == j->total)
            break;
        if (!counted && !capped) {
            if ((st = prove(j, ldl, v, count, next, &proven)))
                goto stopped;
            counted = true;
        }
        if (proven || (!ldl && runs == 1 && !capped && next > last && wide_enough(s, v, count)))
            break;
        int64_t all = (s->most / PE_WIDTH - 3) * PE_WIDTH, room = j->most - count + PE_WIDTH;
        wish.bound = capped ? last - 2 * pe_cluster_gap(last) : last + pe_cluster_gap(last);
        wish.limit = capped || room > all ? all : room;
        if ((st = run(j, s, ldl, filter, cg, &wish)))
            goto stopped;
        next = s->next;
        if (s->found == 0) {
            next = next < after ? next : after;
            break;
        }
    }
    st = hand_over(j, s, count, next, out);
stopped:
    if (st && settle_for_less(j, s, st)) {
        const int64_t have = s->nlock - s->skip;
        st = hand_over(j, s, have < j->want ? have : j->want, -INFINITY, out);
        out->partial = true;
    }
done:
    free(order);
    free(v);
    return st;
}

/* ---- the choice ---------------------------------------------------------------------------------------------- */

/* Trees that hang from the rest, and all of a tree but a node: elimination takes them from their leaves without any fill.
 *   hangs     (n) out
 *   queue     (n) scratch */
static posenc_status find_trees(job *j, bool *hangs, int32_t *queue)
{
    const pe_component *c = j->c;
    posenc_status st = PE_OK;
    int64_t head = 0, tail = 0;
    int32_t *left = pe_work_memory((size_t)c->n * sizeof *left); /* neighbours that do not hang */
    if (!left)
        return pe_no_memory("memory", j->err);
    for (int64_t u = 0; u < c->n && !st; u++) {
        left[u] = (int32_t)(c->ptr[u + 1] - c->ptr[u]);
        if ((hangs[u] = left[u] == 1))
            queue[tail++] = (int32_t)u;
        st = pe_pace_add(&j->pace, 4);
    }
    while (head < tail && !st) {
        const int64_t u = queue[head++];
        for (int64_t p = c->ptr[u]; p < c->ptr[u + 1]; p++) {
            const int32_t v = c->col[p];
            if (!hangs[v] && --left[v] == 1) {
                hangs[v] = true;
                queue[tail++] = v;
            }
        }
        st = pe_pace_add(&j->pace, 8 * (c->ptr[u + 1] - c->ptr[u]) + 4);
    }
    free(left);
    return st;
}

/* Breadth-first search from `start`: nodes of the widest level, but for those that hang; the last node reached.
 *   seen, queue   (n) scratch */
static posenc_status widest_level(job *j, int64_t start, const bool *hangs, bool *seen, int32_t *queue, int64_t *widest,
                                  int64_t *last)
{
    const pe_component *c = j->c;
    posenc_status st = PE_OK;
    int64_t head = 0, tail = 0;
    *widest = 0;
    memset(seen, 0, (size_t)c->n * sizeof *seen);
    queue[tail++] = (int32_t)start;
    seen[start] = true;
    while (head < tail && !st) {
        const int64_t end = tail;
        int64_t width = 0;
        for (; head < end && !st; head++) {
            const int64_t u = queue[head];
            width += !hangs[u];
            for (int64_t p = c->ptr[u]; p < c->ptr[u + 1]; p++)
                if (!seen[c->col[p]]) {
                    seen[c->col[p]] = true;
                    queue[tail++] = c->col[p];
                }
            st = pe_pace_add(&j->pace, 4 * (c->ptr[u + 1] - c->ptr[u]) + 4);
        }
        *widest = width > *widest ? width : *widest;
    }
    *last = queue[tail - 1];
    return st;
}

/* Of a dense factor of what is left when a quarter of a level is. */
static double dense_products(int64_t level)
{
    const double dense = (double)level / 4;
    return dense * dense * dense / 3;
}

/* Ordering a large graph that has no narrow place takes long, and ends in a dense factor. Levels of a
 * breadth-first search cut a graph in two: where even the widest levels are narrow, so are good separators; a quarter of a
 * wide one is taken for what the best of them leaves. */
static posenc_status hopeless(job *j, bool *yes)
{
    static const double MOST = 5e10;
    const pe_component *c = j->c;
    posenc_status st = PE_OK;
    int64_t start = 0, narrow = c->n;
    *yes = false;
    if (c->n <= 30000)
        return PE_OK;
    bool *seen = malloc((size_t)c->n * sizeof *seen), *hangs = malloc((size_t)c->n * sizeof *hangs);
    int32_t *queue = pe_work_memory((size_t)c->n * sizeof *queue);
    if (!seen || !hangs || !queue)
        st = pe_no_memory("memory", j->err);
    for (int64_t u = 0; u < c->n && !st; u++) {
        hangs[u] = false;
        st = pe_pace_add(&j->pace, 1);
    }
    for (int turn = 0; turn < 4 && !st && dense_products(narrow) > MOST; turn++) {
        int64_t widest;
        if (turn == 1 &&
            (st = find_trees(j, hangs, queue))) /* where whole levels are narrow, trees need not be told apart */
            break;
        st = widest_level(j, turn == 1 ? 0 : start, hangs, seen, queue, &widest, &start);
        narrow = widest < narrow ? widest : narrow;
    }
    free(seen);
    free(hangs);
    free(queue);
    *yes = dense_products(narrow) > MOST;
    return st;
}

/* Nanoseconds of a run, beside the orthogonalisation, which both solvers share. */
static double inversion_ns(const job *j, const pe_ldl *f)
{
    const double vectors = 24 + 2 * (double)j->want;
    return (pe_ldl_fills_up(f) ? 0.4 : 1.5) * f->products + vectors * (2.5 * f->entries + 10 * (double)j->c->n);
}

static double filter_ns(const job *j, double degree)
{
    const double blocks = 12 + (double)j->want / 4;
    return 2 * blocks * degree * (3 * (double)j->c->ptr[j->c->n] + 8 * (double)j->c->n);
}

/* The choice between a costly factor and the filter, whose cost hangs on the spectrum: the filter's edge is refined
 * as long as it looks cheaper. What is found on the way stays found. */
static posenc_status compare(job *j, pe_search *s, const pe_ldl *ldl, pe_filter *f, bool *inverting)
{
    int64_t goal = j->want < MOST_AT_ONCE ? j->want : MOST_AT_ONCE, all = s->most / PE_WIDTH / 2 * PE_WIDTH;
    goal = goal < all ? goal : all;
    pe_wish wish = { .goal = goal, .limit = goal, .bound = -INFINITY, .tolerance = j->tolerance, .relative = first_try(j) };
    posenc_status st = place_filter(s, f, &wish);
    while (!st && !s->converged && filter_ns(j, (double)f->degree) < inversion_ns(j, ldl)) {
        pe_operator op = pe_filter_operator(f);
        if ((st = pe_search_run(s, &op, &wish, 0)) || s->converged)
            break;
        const double before = f->low;
        move_filter(s, f, &op, goal);
        if (f->low > 0.7 * before)
            break;
    }
    *inverting = filter_ns(j, (double)f->degree) >= inversion_ns(j, ldl);
    return st;
}

/* What filling a basis once costs: looking at the spectrum must be cheap beside what it decides. */
static double probe_ns(const job *j)
{
    double panels = (double)j->panels, n = (double)j->c->n;
    return 20 * panels * panels * n + 3 * panels * (double)j->c->ptr[j->c->n];
}

/* Goes on with a copy of the component in the order that `order`, which it takes over, gives its vertices. */
static posenc_status reorder(job *j, int32_t *order)
{
    pe_relabelled next, before = j->copy;
    posenc_status st = pe_relabel(&next, j->c, order, &j->pace, j->err);
    for (int64_t i = 0; i < j->c->n && !st && before.order; i++) {
        next.order[i] = before.order[next.order[i]];
        st = pe_pace_add(&j->pace, 8);
    }
    pe_relabelled_fini(&before);
    j->copy = next;
    j->c = &j->copy.c;
    return st;
}

/* What takes long before the first pair is seen. */
static void say(const job *j, const char *sentence)
{
    enum { LARGE = 1 << 13 }; /* rows: others are done before anybody reads it */
    if (j->ctx && j->ctx->progress && j->c->n >= LARGE)
        j->ctx->progress(j->ctx->user, 0, sentence);
}

static posenc_status solve_iterative(job *j, pe_solver solver, pe_pairs *out)
{
    const pe_component *whole = j->c;
    const int64_t n = whole->n, arcs = whole->ptr[n];
    posenc_status st = PE_OK;
    int32_t *order = NULL;
    pe_ldl ldl = { 0 };
    pe_filter filter = { 0 };
    pe_search s = { 0 };
    conjugate cg = { 0 };
    bool inverting = solver != PE_SOLVER_CHEBYSHEV, dense_factor = false;
    uint64_t bytes = 0;

    while (!fits(j, search_bytes(n, arcs, j->want, j->panels)) && j->panels > PE_LEAST_PANELS)
        j->panels--;
    bytes = search_bytes(n, arcs, j->want, j->panels);
    if (!fits(j, bytes)) {
        st = too_large(j, bytes);
        goto done;
    }
    if (!(order = pe_work_memory((size_t)n * sizeof *order))) {
        st = pe_no_memory("memory", j->err);
        goto done;
    }
    st = pe_breadth_first(j->c, order, &j->pace, j->err);
    if (st) {
        free(order);
        goto done;
    }
    if ((st = reorder(j, order)))
        goto done;
    if (solver == PE_SOLVER_AUTO && (st = hopeless(j, &dense_factor)))
        goto done;
    inverting = inverting && !dense_factor;
    if (inverting) {
        if (!fits(j, bytes + pe_ldl_bytes(n, arcs, 0))) {
            st = too_large(j, bytes + pe_ldl_bytes(n, arcs, 0));
            goto done;
        }
        say(j, posenc_text("ordering %lld rows", (long long)n).s);
        if ((st = pe_ldl_order(&ldl, j->c, &j->pace, j->err)))
            goto done;
        uint64_t more = pe_ldl_bytes(n, arcs, ldl.entries);
        if (!fits(j, bytes + more)) {
            if (solver == PE_SOLVER_SHIFT_INVERT) {
                st = too_large(j, bytes + more);
                goto done;
            }
            inverting = false;
        }
    }
    if (inverting) {
        if ((st = pe_ldl_settle(&ldl, &order, &j->pace, j->err))) {
            free(order);
            goto done;
        }
        if ((st = reorder(j, order)))
            goto done;
    }
    if ((st = set_laplacian(j)))
        goto done;
    if ((st = pe_search_init(&s, &j->lap, j->panels * PE_WIDTH, &j->pace, j->err)))
        goto done;
    const bool across = solver == PE_SOLVER_AUTO && far_apart(j);
    if ((!inverting && !across) ||
        (inverting && solver == PE_SOLVER_AUTO && inversion_ns(j, &ldl) > 2e8 + 4 * probe_ns(j) + filter_ns(j, 12))) {
        if ((st = pe_filter_init(&filter, &j->lap, j->err)))
            goto done;
    }
    if (inverting && filter.lap && (st = compare(j, &s, &ldl, &filter, &inverting)))
        goto done;
    if (inverting || across)
        pe_filter_fini(&filter);
    if (!inverting && across && (st = conjugate_init(&cg, j)))
        goto done;
    if (inverting) {
        say(j, posenc_text("factoring, %.3g entries", (double)ldl.entries).s);
        if ((st = pe_ldl_factor(&ldl, &j->lap, &j->pace, j->err)))
            goto done;
    } else {
        pe_ldl_fini(&ldl);
    }
    s.salvage = j->partial;
    st = search(j, &s, inverting ? &ldl : NULL, inverting || across ? NULL : &filter, across && !inverting ? &cg : NULL,
                out);
done:
    conjugate_fini(&cg);
    pe_search_fini(&s);
    pe_filter_fini(&filter);
    pe_ldl_fini(&ldl);
    pe_laplacian_fini(&j->lap);
    pe_relabelled_fini(&j->copy);
    j->c = whole;
    return st;
}

posenc_status pe_component_pairs(const pe_component *c, int64_t want, int64_t max_extra, double tol, int64_t max_iter,
                                 pe_solver solver, bool partial, pe_pairs *out, posenc_context *ctx, posenc_error *err)
{
    posenc_status st = PE_OK;
    job j = { .c = c, .ctx = ctx, .err = err, .pace = { .ctx = ctx, .left = PE_PACE_STEPS } };

    *out = (pe_pairs){ 0 };
    j.total = c->kernel ? c->n - 1 : c->n;
    j.want = want < 1 ? 1 : want < j.total ? want : j.total;
    j.most = max_extra < 0 ? j.want : j.total - j.want < max_extra ? j.total : j.want + max_extra;
    j.panels = basis_panels(j.want);
    j.restarts = max_iter > 0 ? max_iter : RESTARTS;
    if ((st = posenc_poll(ctx)))
        goto done;
    j.relative = tol;
    j.partial = partial;
    const bool dense_too = solver == PE_SOLVER_AUTO && c->n <= FALL_BACK && fits(&j, dense_bytes(c->n, c->ptr[c->n]));
    if (solver == PE_SOLVER_DENSE || is_dense(c->n, j.want)) {
        st = solve_dense(&j, out);
    } else {
        posenc_error first = { 0 };
        j.dense_too = dense_too;
        if (dense_too)
            j.err = &first;
        st = solve_iterative(&j, solver, out);
        j.err = err;
        if (st == PE_NO_CONVERGENCE && dense_too) { /* weights of very different sizes: the dense way minds them less */
            pe_pairs_fini(out);
            *out = (pe_pairs){ 0 };
            st = solve_dense(&j, out);
        } else if (st && dense_too && err) {
            *err = first;
        }
    }
done:
    if (st == PE_DEADLINE && partial) { /* before there was anything to find */
        pe_pairs_fini(out);
        if (!(st = allocate(&j, 0, out))) {
            out->next = -INFINITY;
            out->partial = true;
        }
    }
    if (st)
        pe_pairs_fini(out);
    return st;
}
