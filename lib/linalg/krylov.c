#include "krylov.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

posenc_status pe_search_init(pe_search *s, const pe_laplacian *lap, int64_t panels, pe_pace *pace, posenc_error *err)
{
    size_t m = (size_t)panels * PE_WIDTH;
    *s = (pe_search){ .lap = lap, .pace = pace, .err = err, .n = lap->c->n, .panels = panels };
    s->v = calloc((size_t)panels + 1, sizeof *s->v);
    s->keep = calloc((size_t)panels + 1, sizeof *s->keep);
    s->h = malloc(m * m * sizeof(double));
    s->s = malloc(m * m * sizeof(double));
    s->theta = calloc(m, sizeof(double));
    if (!s->v || !s->keep || !s->h || !s->s || !s->theta)
        return pe_no_memory("memory", err);
    return PE_OK;
}

void pe_search_fini(pe_search *s)
{
    for (int64_t p = 0; s->lock && p * PE_WIDTH < s->room; p++)
        free(s->lock[p]);
    for (int64_t p = 0; p <= s->panels; p++) {
        if (s->v)
            free(s->v[p]);
        if (s->keep)
            free(s->keep[p]);
    }
    free(s->lock);
    free(s->value);
    free(s->residual);
    free(s->v);
    free(s->keep);
    free(s->h);
    free(s->s);
    free(s->theta);
    free(s->c);
    free(s->start);
    *s = (pe_search){ 0 };
}

/* Room for `more` locked columns; the scratch for coefficients grows along. */
static posenc_status reserve(pe_search *s, int64_t more)
{
    int64_t old = s->room, want = (s->nlock + more + PE_WIDTH - 1) / PE_WIDTH * PE_WIDTH;
    if (want > old) {
        int64_t grown = want > 2 * old ? want : 2 * old;
        void *p;
        if (!(p = realloc(s->value, (size_t)grown * sizeof(double))))
            return pe_no_memory("memory", s->err);
        s->value = p;
        if (!(p = realloc(s->residual, (size_t)grown * sizeof(double))))
            return pe_no_memory("memory", s->err);
        s->residual = p;
        if (!(p = realloc(s->lock, (size_t)(grown / PE_WIDTH) * sizeof *s->lock)))
            return pe_no_memory("memory", s->err);
        s->lock = p;
        memset(s->lock + old / PE_WIDTH, 0, (size_t)((grown - old) / PE_WIDTH) * sizeof *s->lock);
        s->room = grown;
    }
    int64_t rows = (s->room > s->panels * PE_WIDTH ? s->room : s->panels * PE_WIDTH) + PE_WIDTH;
    double *c = realloc(s->c, (size_t)rows * PE_WIDTH * 2 * sizeof(double));
    if (!c)
        return pe_no_memory("memory", s->err);
    s->c = c;
    return PE_OK;
}

/* A zeroed panel for locked column `at`, if there is none yet. */
static posenc_status lock_panel(pe_search *s, int64_t at)
{
    double **p = &s->lock[at / PE_WIDTH];
    if (*p)
        return PE_OK;
    if (!(*p = pe_panel_new(s->n)))
        return pe_no_memory("memory", s->err);
    return pe_panel_divide(s->n, *p, 0xff, 0, s->pace);
}

/* Appends column `from` of panel x. */
static posenc_status lock_column(pe_search *s, const double *x, int from, double value, double residual)
{
    posenc_status st = reserve(s, 1);
    if (st || (st = lock_panel(s, s->nlock)))
        return st;
    double *to = s->lock[s->nlock / PE_WIDTH] + s->nlock % PE_WIDTH;
    for (int64_t i = 0; i < s->n && !st; i++) {
        to[i * PE_WIDTH] = x[i * PE_WIDTH + from];
        st = pe_pace_add(s->pace, 8);
    }
    s->value[s->nlock] = value;
    s->residual[s->nlock++] = residual;
    return st;
}

static posenc_status lock_kernel(pe_search *s)
{
    posenc_status st = reserve(s, 1);
    const double *kernel = s->lap->c->kernel;
    if (st || !kernel || s->nlock > 0 || (st = lock_panel(s, 0)))
        return st;
    for (int64_t i = 0; i < s->n && !st; i++) {
        s->lock[0][i * PE_WIDTH] = kernel[i];
        st = pe_pace_add(s->pace, 8);
    }
    s->value[0] = s->residual[0] = 0;
    s->nlock = s->skip = 1;
    return st;
}

/* w -= (its part in the locked space and in the first m panels); adds the coefficients in the basis to c (8 m, 8). */
static posenc_status project(pe_search *s, int64_t m, double *w, double *c)
{
    posenc_status st;
    int64_t nl = (s->nlock + PE_WIDTH - 1) / PE_WIDTH;
    double *part = s->c + (s->room > s->panels * PE_WIDTH ? s->room : s->panels * PE_WIDTH) * PE_WIDTH + 64;
    if (nl > 0) {
        if ((st = pe_panel_dots(s->n, s->lock, nl, w, part, s->pace)))
            return st;
        if ((st = pe_panel_subtract(s->n, s->lock, nl, part, w, s->pace)))
            return st;
    }
    if (m == 0)
        return PE_OK;
    if ((st = pe_panel_dots(s->n, s->v, m, w, part, s->pace)))
        return st;
    if (c)
        for (int64_t i = 0; i < m * 64; i++)
            c[i] += part[i];
    return pe_panel_subtract(s->n, s->v, m, part, w, s->pace);
}

static void multiply(const double *a, const double *b, double *out) /* (8, 8) each */
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            double sum = 0;
            for (int k = 0; k < 8; k++)
                sum += a[i * 8 + k] * b[k * 8 + j];
            out[i * 8 + j] = sum;
        }
}

/* Makes w orthonormal and orthogonal to the locked space and to the first m panels: w_in = w r + what was projected.
 * Columns of w that have nothing left (an invariant subspace) are replaced by fresh ones, with zero rows in r; where
 * the whole space is used up they stay zero. *alive: bit c when column c is not zero.
 *   floor   a column's norm below which it is rounding
 * Repeated until no column loses more than half of its length ("twice is enough", Parlett). */
static posenc_status orthonormalize(pe_search *s, int64_t m, double *w, double floor, double *r, uint64_t seed,
                                    unsigned *alive)
{
    posenc_status st;
    double floors[PE_WIDTH], step[64], product[64];
    unsigned gone = 0;
    for (int c = 0; c < PE_WIDTH; c++)
        floors[c] = floor;
    for (int i = 0; i < 64; i++)
        r[i] = i % 9 == 0;
    for (int pass = 0; pass < 8; pass++) {
        unsigned dead;
        bool again = false;
        if (pass > 0 && (st = project(s, m, w, NULL)))
            return st;
        if ((st = pe_panel_orthonormalize(s->n, w, floors, step, &dead, s->pace)))
            return st;
        multiply(step, r, product);
        memcpy(r, product, sizeof product);
        for (int c = 0; c < PE_WIDTH; c++) {
            if (gone >> c & 1)
                continue;
            if (dead >> c & 1) {
                again = true;
                if (pass > 0) { /* of unit length before: it lies in the space spanned */
                    gone |= 1u << c;
                    continue;
                }
                if ((st = pe_panel_random(s->n, w, 1u << c, seed + (uint64_t)c, s->pace)))
                    return st;
                if ((st = pe_panel_divide(s->n, w, 1u << c, sqrt((double)s->n / 3), s->pace)))
                    return st;
            } else if (pass == 0 || step[c * 9] < 0.5) {
                again = true;
            }
            floors[c] = 1e-8;
        }
        if (!again)
            break;
    }
    *alive = 0xffu & ~gone;
    return PE_OK;
}

/* Ritz pairs of the first m panels into s->s (rows ascending, as pe_sym_dense leaves them) and s->theta (dominant
 * first); b (8 m): ||r z|| for each, z the last eight components of its vector. */
static posenc_status ritz(pe_search *s, int64_t m, const double *r, double *b)
{
    int64_t size = m * PE_WIDTH, stride = s->panels * PE_WIDTH;
    for (int64_t i = 0; i < size; i++)
        memcpy(s->s + i * size, s->h + i * stride, (size_t)size * sizeof(double));
    double *ascending = b; /* both are (8 m): theta is reversed before b is written */
    posenc_status st = pe_sym_dense(size, s->s, ascending, s->pace->ctx, s->err);
    if (st)
        return st;
    for (int64_t j = 0; j < size; j++)
        s->theta[j] = ascending[size - 1 - j];
    for (int64_t j = 0; j < size; j++) {
        const double *z = s->s + (size - 1 - j) * size + size - PE_WIDTH;
        double square = 0;
        for (int i = 0; i < PE_WIDTH; i++) {
            double sum = 0;
            for (int k = 0; k < PE_WIDTH; k++)
                sum += r[i * PE_WIDTH + k] * z[k];
            square += sum * sum;
        }
        b[j] = sqrt(square);
    }
    s->ritz = size;
    return pe_pace_add(s->pace, PE_PACE_STEPS); /* pe_sym_dense has polled at a pace of its own */
}

/* Decides whether all wanted pairs have converged, and the one after them well enough to be called the next.
 *   *found   wanted pairs as far as can be seen; *next the value after them; *yes the decision
 * The pair after the wanted ones must be as exact as they are when it could still belong to them.
 * A cluster as large as a block probably has more members than a Krylov space of blocks can show: what lies beyond
 * it is left to later runs, so that clusters fill up from below. */
static posenc_status settled(pe_search *s, const pe_operator *op, const pe_wish *wish, const double *b, double relative,
                             bool exhausted, int64_t *found, double *next, bool *yes)
{
    posenc_status st;
    double last = -INFINITY;
    int64_t j = 0, members = 0;
    bool good = true, full = false;
    for (; j < s->ritz && j < wish->limit; j++) {
        double lambda = op->value(op->self, s->theta[j]);
        if ((st = pe_pace_add(s->pace, 500 * op->products))) /* 50 bisections */
            return st;
        bool joined = j > 0 && lambda - last <= pe_cluster_gap(last);
        members = joined ? members + 1 : 1;
        if (lambda == INFINITY || (full && !joined))
            break;
        if (j >= wish->goal && lambda > wish->bound && !(joined && wish->goal > 0))
            break;
        full = members >= PE_WIDTH;
        good = good && b[j] <= relative * s->theta[j];
        last = lambda;
    }
    *found = j;
    *next = j < s->ritz ? op->value(op->self, s->theta[j]) : INFINITY;
    *yes = good;
    if (exhausted || !good)
        return PE_OK;
    *yes = false;
    if (*next == INFINITY || (j < wish->goal && !full))
        return PE_OK;
    double edge = j > 0 ? last : wish->bound;
    bool near = j < wish->limit && *next - edge < 1e-5 * fabs(*next) + 2 * pe_cluster_gap(edge);
    *yes = b[j] <= (near ? relative : 1e-7) * s->theta[j];
    return PE_OK;
}

/* Ritz vectors q * 8 .. q * 8 + 7 (dominant first) of m panels into x; columns at `count` and beyond are zero. */
static posenc_status ritz_panel(pe_search *s, int64_t m, int64_t q, int64_t count, double *x)
{
    int64_t size = m * PE_WIDTH;
    for (int64_t i = 0; i < size; i++)
        for (int64_t c = 0; c < PE_WIDTH; c++) {
            int64_t j = q * PE_WIDTH + c;
            s->c[i * PE_WIDTH + c] = j < count ? s->s[(size - 1 - j) * size + i] : 0;
        }
    return pe_panel_combine(s->n, s->v, m, s->c, x, s->pace);
}

/* Measures the `count` dominant Ritz pairs against L and locks those before the first that misses the tolerance.
 * Where theta spans many decades the last pairs carry the rounding of the first; with these locked, the next run
 * is free of it. *locked: how many; s->worst: the largest residual of all. */
static posenc_status take(pe_search *s, int64_t m, int64_t count, double tolerance, int64_t *locked)
{
    posenc_status st = PE_OK;
    double values[PE_WIDTH], residuals[PE_WIDTH];
    double *x = pe_panel_new(s->n), *z = pe_panel_new(s->n);
    bool good = true;
    s->worst = 0;
    *locked = 0;
    if (!x || !z)
        st = pe_no_memory("memory", s->err);
    for (int64_t q = 0; q * PE_WIDTH < count && !st; q++) {
        if ((st = ritz_panel(s, m, q, count, x)))
            break;
        if ((st = pe_laplacian_measure(s->lap, x, z, values, residuals, s->pace)))
            break;
        for (int c = 0; c < PE_WIDTH && q * PE_WIDTH + c < count && !st; c++) {
            s->worst = residuals[c] > s->worst ? residuals[c] : s->worst;
            good = good && residuals[c] <= tolerance;
            if (good && !(st = lock_column(s, x, c, values[c], residuals[c])))
                ++*locked;
        }
    }
    free(x);
    free(z);
    return st;
}

/* Keeps `kept` panels of Ritz vectors, and the block that follows the basis behind them. */
static posenc_status restart(pe_search *s, int64_t m, int64_t kept)
{
    posenc_status st = PE_OK;
    int64_t stride = s->panels * PE_WIDTH;
    for (int64_t q = 0; q < kept && !st; q++) {
        if (!s->keep[q] && !(s->keep[q] = pe_panel_new(s->n)))
            return pe_no_memory("memory", s->err);
        st = ritz_panel(s, m, q, m * PE_WIDTH, s->keep[q]);
    }
    if (st)
        return st;
    for (int64_t q = 0; q < kept; q++) {
        double *t = s->v[q];
        s->v[q] = s->keep[q];
        s->keep[q] = t;
    }
    double *following = s->v[m];
    s->v[m] = s->v[kept];
    s->v[kept] = following;
    memset(s->h, 0, (size_t)(stride * stride) * sizeof(double));
    for (int64_t j = 0; j < kept * PE_WIDTH; j++)
        s->h[j * stride + j] = s->theta[j];
    s->restarts++;
    return st;
}

/* A start block for another run: the sum of the panels of the best Ritz vectors. */
static posenc_status leave_start(pe_search *s, int64_t m, int64_t count)
{
    posenc_status st = PE_OK;
    int64_t size = m * PE_WIDTH;
    if (!s->start && !(s->start = pe_panel_new(s->n)))
        return pe_no_memory("memory", s->err);
    memset(s->c, 0, (size_t)(size * PE_WIDTH) * sizeof(double));
    for (int64_t j = 0; j < count && j < size; j++)
        for (int64_t i = 0; i < size; i++)
            s->c[i * PE_WIDTH + j % PE_WIDTH] += s->s[(size - 1 - j) * size + i];
    st = pe_panel_combine(s->n, s->v, m, s->c, s->start, s->pace);
    return st;
}

static posenc_status first_block(pe_search *s, uint64_t seed, unsigned *alive)
{
    posenc_status st;
    double r[64];
    if (!s->v[0] && !(s->v[0] = pe_panel_new(s->n)))
        return pe_no_memory("memory", s->err);
    if (s->start) {
        free(s->v[0]);
        s->v[0] = s->start;
        s->start = NULL;
    } else if ((st = pe_panel_random(s->n, s->v[0], 0xff, seed, s->pace))) {
        return st;
    }
    for (int twice = 0; twice < 2; twice++)
        if ((st = project(s, 0, s->v[0], NULL)))
            return st;
    return orthonormalize(s, 0, s->v[0], 1e-8, r, seed + 8, alive);
}

posenc_status pe_search_run(pe_search *s, const pe_operator *op, const pe_wish *wish, int64_t restarts)
{
    posenc_status st = PE_OK;
    int64_t stride = s->panels * PE_WIDTH, m = 0, check, done = 0, found = 0;
    double relative = wish->relative, *b = NULL, r[64];
    unsigned alive = 0;
    uint64_t seed = (uint64_t)s->nlock * 65536 + 16;

    s->found = s->seen = s->ritz = 0;
    s->next = INFINITY;
    s->converged = false;
    if ((st = lock_kernel(s)))
        goto done;
    b = malloc((size_t)stride * sizeof(double));
    if (!b) {
        st = pe_no_memory("memory", s->err);
        goto done;
    }
    memset(s->h, 0, (size_t)(stride * stride) * sizeof(double));
    if ((st = first_block(s, seed, &alive)))
        goto done;
    if (!alive) { /* everything is locked */
        s->converged = true;
        goto done;
    }
    check = (wish->goal + PE_WIDTH) / PE_WIDTH + 2;
    for (;;) {
        double *w = s->v[m + 1], reach = 0;
        if (!w && !(w = s->v[m + 1] = pe_panel_new(s->n))) {
            st = pe_no_memory("memory", s->err);
            goto done;
        }
        if ((st = op->apply(op->self, s->v[m], w, s->pace)))
            goto done;
        s->products += op->products * PE_WIDTH;
        memset(s->c, 0, (size_t)((m + 1) * 64) * sizeof(double));
        for (int twice = 0; twice < 2; twice++)
            if ((st = project(s, m + 1, w, s->c)))
                goto done;
        for (int64_t i = 0; i < (m + 1) * PE_WIDTH; i++)
            for (int64_t c = 0; c < PE_WIDTH; c++) {
                double x = s->c[i * PE_WIDTH + c];
                int64_t j = m * PE_WIDTH + c;
                if (i >= m * PE_WIDTH) /* the diagonal block: symmetric up to rounding */
                    x = 0.5 * (x + s->c[j * PE_WIDTH + i - m * PE_WIDTH]);
                s->h[i * stride + j] = s->h[j * stride + i] = x;
            }
        for (int64_t i = 0; i < (m + 1) * PE_WIDTH; i++)
            reach = fabs(s->h[i * stride + i]) > reach ? fabs(s->h[i * stride + i]) : reach;
        seed += 16;
        if ((st = orthonormalize(s, m + 1, w, 1e-14 * reach, r, seed, &alive)))
            goto done;
        m++;
        if (m < check && m < s->panels && alive)
            continue;
        if ((st = ritz(s, m, r, b)))
            goto done;
        bool good;
        if ((st = settled(s, op, wish, b, relative, !alive, &found, &s->next, &good)))
            goto done;
        s->seen = found;
        if (good) {
            int64_t locked = 0;
            if ((st = take(s, m, found, wish->tolerance, &locked)))
                goto done;
            if (locked > 0 || found == 0) {
                if (locked < found)
                    s->next = op->value(op->self, s->theta[locked]);
                s->found = locked;
                s->converged = true;
                break;
            }
            relative = relative > 1e-15 ? relative * 1e-2 : 0;
        }
        check = m + 1 + m / 8;
        if (!alive || relative < 1e-16)
            break;
        if (m < s->panels)
            continue;
        if (done++ >= restarts)
            break;
        int64_t wanted = found > wish->goal ? found : wish->goal;
        int64_t kept = (wanted + PE_WIDTH) / PE_WIDTH + 2, most = s->panels - 3;
        if ((st = restart(s, m, kept < most ? kept : most)))
            goto done;
        m = kept < most ? kept : most;
        check = m + 2;
    }
    if (!s->converged) {
        int64_t wanted = wish->goal > 0 ? wish->goal : 1;
        int64_t none;
        if ((st = leave_start(s, m, wanted + PE_WIDTH)))
            goto done;
        if (restarts > 0)
            st = take(s, m, wanted < s->ritz ? wanted : s->ritz, -1, &none);
    }
done:
    free(b);
    return st;
}
