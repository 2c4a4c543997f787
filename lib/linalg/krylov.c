#include "krylov.h"
#include "core/memory.h"
#include "core/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

posenc_status pe_search_init(pe_search *s, const pe_laplacian *lap, int64_t most, pe_pace *pace, posenc_error *err)
{
    size_t m = (size_t)most;
    *s = (pe_search){ .lap = lap, .pace = pace, .err = err, .n = lap->c->n, .most = most, .width = PE_WIDTH };
    s->v = calloc(m + 2 * PE_MOST_WIDTH, sizeof *s->v);
    s->slab = malloc((m + 2 * PE_MOST_WIDTH) * sizeof *s->slab);
    s->h = malloc(m * m * sizeof(double));
    s->s = malloc(m * m * sizeof(double));
    s->theta = calloc(m, sizeof(double));
    if (!s->v || !s->slab || !s->h || !s->s || !s->theta)
        return pe_no_memory("memory", err);
    return PE_OK;
}

void pe_search_rest(pe_search *s)
{
    for (int64_t p = 0; s->v && p < s->most + 2 * PE_MOST_WIDTH; p++)
        s->v[p] = NULL;
    while (s->nslabs > 0)
        free(s->slab[--s->nslabs]);
    s->left = s->warm = 0;
}

void pe_search_fini(pe_search *s)
{
    for (int64_t p = 0; s->lock && p < s->nlock; p++)
        free(s->lock[p]);
    pe_search_rest(s);
    free(s->lock);
    free(s->value);
    free(s->residual);
    free(s->v);
    free(s->slab);
    free(s->all);
    free(s->h);
    free(s->s);
    free(s->theta);
    free(s->c);
    free(s->part);
    *s = (pe_search){ 0 };
}

static posenc_status grow(void **p, size_t size, posenc_error *err)
{
    void *q = realloc(*p, size);
    if (!q)
        return pe_no_memory("memory", err);
    *p = q;
    return PE_OK;
}

/* Room for `more` locked columns; scratch grows along. */
static posenc_status reserve(pe_search *s, int64_t more)
{
    posenc_status st = PE_OK;
    const int64_t old = s->room, want = s->nlock + more;
    if (want <= old)
        return PE_OK;
    const size_t room = (size_t)(want > 2 * old ? want : 2 * old), all = room + (size_t)s->most + 2 * PE_MOST_WIDTH;
    if ((st = grow((void **)&s->value, room * sizeof *s->value, s->err)) ||
        (st = grow((void **)&s->residual, room * sizeof *s->residual, s->err)) ||
        (st = grow((void **)&s->lock, room * sizeof *s->lock, s->err)) ||
        (st = grow((void **)&s->all, all * sizeof *s->all, s->err)) ||
        (st = grow((void **)&s->c, all * PE_MOST_WIDTH * sizeof *s->c, s->err)) ||
        (st = grow((void **)&s->part, all * PE_MOST_WIDTH * sizeof *s->part, s->err)))
        return st;
    s->room = (int64_t)room;
    return PE_OK;
}

/* Hands a column over. */
static posenc_status lock_column(pe_search *s, double **x, double value, double residual)
{
    posenc_status st = reserve(s, 1);
    if (st)
        return st;
    s->lock[s->nlock] = *x;
    s->value[s->nlock] = value;
    s->residual[s->nlock++] = residual;
    *x = NULL;
    return PE_OK;
}

static posenc_status lock_kernel(pe_search *s)
{
    posenc_status st = reserve(s, 1);
    const double *kernel = s->lap->c->kernel;
    if (st || !kernel || s->nlock > 0)
        return st;
    double *x = pe_column_new(s->n);
    if (!x)
        return pe_no_memory("memory", s->err);
    if (!(st = pe_pace_copy(s->pace, x, kernel, (size_t)s->n * sizeof *x)) && !(st = lock_column(s, &x, 0, 0)))
        s->skip = 1;
    free(x);
    return st;
}

/* Columns of the basis, several to a slab where that is enough for huge pages: a fresh page costs more than what a step
 * writes to it. */
static posenc_status columns(pe_search *s, int64_t at, int64_t count)
{
    enum { SLAB = 1 << 19, SHORT = 1 << 14 };
    const int64_t stride = (s->n + PE_WIDTH - 1) / PE_WIDTH * PE_WIDTH;
    posenc_status st = PE_OK;
    for (int64_t i = at; i < at + count; i++) {
        if (s->v[i])
            continue;
        if (s->left == 0) {
            const int64_t many = s->n < SHORT ? 1 : 1 + SLAB / stride;
            double *slab = pe_result_memory((size_t)(many * stride) * sizeof *slab);
            if (!slab)
                return pe_no_memory("memory", s->err);
            s->slab[s->nslabs++] = s->fresh = slab;
            s->left = many;
        }
        s->v[i] = s->fresh;
        for (int64_t k = s->n; k < stride; k++)
            s->v[i][k] = 0;
        s->fresh += stride;
        s->left--;
        if (s->n >= SHORT && (st = pe_pace_touch(s->pace, s->v[i], (size_t)s->n * sizeof(double))))
            return st;
    }
    return st;
}

/* w -= (its part in `nl` locked columns from the first on and in v[from] .. v[m - 1]); what was taken in the basis is added
 * to c (m, width), and its largest sum of squares by column to *most unless NULL. */
static posenc_status project(pe_search *s, int64_t nl, int64_t from, int64_t m, double *const *w, double *c, double *taken)
{
    posenc_status st;
    const int64_t b = s->width, count = nl + m - from;
    if (!count)
        return PE_OK;
    memcpy(s->all, s->lock, (size_t)nl * sizeof *s->all);
    memcpy(s->all + nl, s->v + from, (size_t)(m - from) * sizeof *s->all);
    if ((st = pe_columns_dots(s->n, s->all, count, w, b, s->part, s->pace, s->err)))
        return st;
    for (int64_t i = 0; c && i < (m - from) * b; i++)
        c[from * b + i] += s->part[nl * b + i];
    for (int64_t j = 0; taken && j < b; j++) {
        taken[j] = 0;
        for (int64_t i = 0; i < count; i++)
            taken[j] += s->part[i * b + j] * s->part[i * b + j];
    }
    return pe_columns_subtract(s->n, s->all, count, s->part, w, b, s->pace, s->err);
}

static void multiply(int64_t b, const double *x, const double *y, double *out) /* (b, b) each */
{
    for (int64_t i = 0; i < b; i++)
        for (int64_t j = 0; j < b; j++) {
            double sum = 0;
            for (int64_t k = 0; k < b; k++)
                sum += x[i * b + k] * y[k * b + j];
            out[i * b + j] = sum;
        }
}

/* Makes w orthonormal and orthogonal to the locked space and to the first m columns: w_in = w r + what was projected.
 * Columns of w that have nothing left (an invariant subspace) are replaced by fresh ones, with zero rows in r; where
 * the whole space is used up they stay zero. *alive: bit c when column c is not zero.
 *   floor   a column's norm below which it is rounding
 *   taken   (width) squares of what the last projection took from each column
 * Repeated while a column has lost half of its length since it was last projected ("twice is enough", Parlett). */
static posenc_status orthonormalize(pe_search *s, int64_t m, double *const *w, double floor, const double *taken, double *r,
                                    uint64_t seed, unsigned *alive)
{
    posenc_status st;
    const int64_t b = s->width;
    double floors[PE_MOST_WIDTH], step[PE_MOST_WIDTH * PE_MOST_WIDTH], product[PE_MOST_WIDTH * PE_MOST_WIDTH];
    unsigned gone = 0;
    for (int64_t c = 0; c < b; c++)
        floors[c] = floor;
    for (int64_t i = 0; i < b * b; i++)
        r[i] = i % (b + 1) == 0;
    for (int pass = 0; pass < 8; pass++) {
        unsigned dead;
        bool again = false;
        if (pass > 0 && (st = project(s, s->nlock, 0, m, w, NULL, NULL)))
            return st;
        if ((st = pe_columns_orthonormalize(s->n, w, b, floors, step, &dead, s->pace, s->err)))
            return st;
        multiply(b, step, r, product);
        memcpy(r, product, (size_t)(b * b) * sizeof *r);
        for (int64_t c = 0; c < b; c++) {
            if (gone >> c & 1)
                continue;
            double length = pass ? 1 : taken[c]; /* of the column before */
            for (int64_t i = 0; i <= c && !pass; i++)
                length += step[i * b + c] * step[i * b + c];
            if (dead >> c & 1) {
                again = true;
                if (pass > 0) { /* of unit length before: it lies in the space spanned */
                    gone |= 1u << c;
                    continue;
                }
                if ((st = pe_column_random(s->n, w[c], seed + (uint64_t)c, s->pace, s->err)))
                    return st;
                if ((st = pe_column_divide(s->n, w[c], sqrt((double)s->n / 3), s->pace, s->err)))
                    return st;
            } else if (step[c * (b + 1)] < 0.5 * sqrt(length)) {
                again = true;
            }
            floors[c] = 1e-8;
        }
        if (!again)
            break;
    }
    *alive = ((1u << b) - 1) & ~gone;
    return PE_OK;
}

/* Ritz pairs of the first m columns into s->s (rows ascending, as pe_sym_dense leaves them) and s->theta (dominant
 * first); b (m): ||r z|| for each, z the last components of its vector. */
static posenc_status ritz(pe_search *s, int64_t m, const double *r, double *b)
{
    const int64_t width = s->width;
    for (int64_t i = 0; i < m; i++)
        memcpy(s->s + i * m, s->h + i * s->most, (size_t)m * sizeof(double));
    double *ascending = b; /* both are (m): theta is reversed before b is written */
    posenc_status st = pe_sym_dense(m, s->s, ascending, s->pace->ctx, s->err);
    if (st)
        return st;
    for (int64_t j = 0; j < m; j++)
        s->theta[j] = ascending[m - 1 - j];
    for (int64_t j = 0; j < m; j++) {
        const double *z = s->s + (m - 1 - j) * m + m - width;
        double square = 0;
        for (int64_t i = 0; i < width; i++) {
            double sum = 0;
            for (int64_t k = 0; k < width; k++)
                sum += r[i * width + k] * z[k];
            square += sum * sum;
        }
        b[j] = sqrt(square);
    }
    s->ritz = m;
    s->spread = b[m - 1];
    return pe_pace_add(s->pace, PE_PACE_STEPS); /* pe_sym_dense has polled at a pace of its own */
}

/* Decides whether all wanted pairs have converged, and the one after them well enough to be called the next.
 *   *found   wanted pairs as far as can be seen; *next the value after them; *yes the decision
 * The pair after the wanted ones must be as exact as they are when it could still belong to them.
 * A cluster of eight probably has more members than a Krylov space of blocks can show: what lies beyond
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
    const bool near = j < wish->limit && *next - edge < 2 * pe_cluster_gap(edge);
    /* far enough to be told apart, were it off by ten times its residual */
    *yes = b[j] <= (near ? relative : 1e-3) * s->theta[j] && (near || op->value(op->self, s->theta[j] + 10 * b[j]) > edge);
    return PE_OK;
}

/* Pairs that have converged, of those sought in this run and found before, and how far the others are off. */
static void say_progress(const pe_search *s, const pe_wish *wish, const double *b)
{
    enum { LARGE = 1 << 13 }; /* rows: others are done before anybody reads it */
    const posenc_context *ctx = s->pace->ctx;
    if (!ctx || !ctx->progress || s->n < LARGE || wish->goal < 1)
        return;
    const int64_t before = s->nlock - s->skip, all = before + wish->goal;
    int64_t good = 0;
    double worst = 0;
    for (int64_t j = 0; j < wish->goal && j < s->ritz; j++) {
        const double off = b[j] / s->theta[j];
        good += off <= wish->relative;
        worst = off > worst ? off : worst;
    }
    char sentence[96];
    snprintf(sentence, sizeof sentence, "%lld of %lld eigenvectors, largest relative residual %.1g",
             (long long)(before + good), (long long)all, worst);
    ctx->progress(ctx->user, (double)(before + good) / (double)all, sentence);
}

/* Ritz vectors from .. from + count - 1 (dominant first) of m columns into x. */
static posenc_status ritz_vectors(pe_search *s, int64_t m, int64_t from, int64_t count, double *const *x)
{
    double *c = malloc((size_t)(m * count) * sizeof *c);
    if (!c)
        return pe_no_memory("memory", s->err);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < count; j++)
            c[i * count + j] = s->s[(m - 1 - from - j) * m + i];
    posenc_status st = pe_columns_combine(s->n, s->v, m, c, x, count, s->pace, s->err);
    free(c);
    return st;
}

/* Measures the `count` dominant Ritz pairs against L and locks those before the first that misses the tolerance.
 * Where theta spans many decades the last pairs carry the rounding of the first; with these locked, the next run
 * is free of it. *locked: how many; s->worst: the largest residual of all. */
static posenc_status take(pe_search *s, const pe_operator *op, int64_t m, int64_t count, double tolerance, int64_t *locked)
{
    posenc_status st = PE_OK;
    double values[PE_WIDTH], residuals[PE_WIDTH], *x[PE_WIDTH] = { NULL };
    bool good = true;
    s->worst = 0;
    *locked = 0;
    for (int64_t q = 0; q < count && !st; q += PE_WIDTH) {
        const int64_t many = count - q < PE_WIDTH ? count - q : PE_WIDTH;
        for (int64_t c = 0; c < many; c++)
            if (!x[c] && !(x[c] = pe_column_new(s->n)))
                st = pe_no_memory("memory", s->err);
        if (st || (st = ritz_vectors(s, m, q, many, x)))
            break;
        if ((st = pe_laplacian_measure(s->lap, many, x, values, residuals, s->pace, s->err)))
            break;
        for (int64_t c = 0; c < many && !st; c++) {
            s->worst = residuals[c] > s->worst ? residuals[c] : s->worst;
            const double lambda = op->value(op->self, s->theta[q + c]);
            s->strange = s->strange || !(fabs(values[c] - lambda) <= 1e-3 * fabs(lambda) + 1e-12 * s->lap->bound);
            good = good && residuals[c] <= tolerance && !s->strange;
            if (good && !(st = lock_column(s, &x[c], values[c], residuals[c])))
                ++*locked;
        }
    }
    for (int c = 0; c < PE_WIDTH; c++)
        free(x[c]);
    return st;
}

/* Keeps `kept` Ritz vectors, and the block that follows the basis behind them. */
static posenc_status restart(pe_search *s, int64_t m, int64_t kept)
{
    posenc_status st = ritz_vectors(s, m, 0, kept, s->v);
    if (st)
        return st;
    for (int64_t c = 0; c < s->width; c++) {
        double *following = s->v[m + c];
        s->v[m + c] = s->v[kept + c];
        s->v[kept + c] = following;
    }
    memset(s->h, 0, (size_t)(s->most * s->most) * sizeof(double));
    for (int64_t j = 0; j < kept; j++)
        s->h[j * s->most + j] = s->theta[j];
    s->restarts++;
    return st;
}

/* A start block for another run: the best Ritz vectors; where more are sought than a block has, sums of them. */
static posenc_status leave_start(pe_search *s, int64_t m, int64_t count)
{
    const int64_t b = s->width < PE_WIDTH ? PE_WIDTH : s->width;
    posenc_status st = columns(s, 0, b);
    double *c = calloc((size_t)(m * b), sizeof *c);
    if (!st && !c)
        st = pe_no_memory("memory", s->err);
    for (int64_t j = 0; j < (count > b ? count : b) && j < m && !st; j++)
        for (int64_t i = 0; i < m; i++)
            c[i * b + j % b] += s->s[(m - 1 - j) * m + i];
    if (!st)
        st = pe_columns_combine(s->n, s->v, m, c, s->v, b, s->pace, s->err);
    s->warm = st ? 0 : b;
    free(c);
    return st;
}

/* Locks the first Ritz pairs of m columns as far as they have converged; s->found says how many. `r` is of the last whole
 * step. Whoever says PE_DEADLINE says it once, so this is not stopped again. */
static posenc_status salvage(pe_search *s, const pe_operator *op, const pe_wish *wish, int64_t m, const double *r, double *b)
{
    int64_t good = 0;
    posenc_status st = ritz(s, m, r, b);
    while (!st && good < m && good < wish->limit && b[good] <= wish->relative * s->theta[good] &&
           op->value(op->self, s->theta[good]) < INFINITY)
        good++;
    return st ? st : take(s, op, m, good, wish->tolerance, &s->found);
}

static posenc_status first_block(pe_search *s, uint64_t seed, unsigned *alive)
{
    posenc_status st = columns(s, 0, s->width);
    double r[PE_MOST_WIDTH * PE_MOST_WIDTH], taken[PE_MOST_WIDTH] = { 0 };
    for (int64_t c = s->warm; c < s->width && !st; c++)
        st = pe_column_random(s->n, s->v[c], seed + (uint64_t)c, s->pace, s->err);
    s->warm = 0;
    for (int twice = 0; twice < 2 && !st; twice++)
        st = project(s, s->nlock, 0, 0, s->v, NULL, taken);
    return st ? st : orthonormalize(s, 0, s->v, 1e-8, taken, r, seed + PE_MOST_WIDTH, alive);
}

/* One step: the block behind the first m columns joins the basis, and a new one, orthonormal, stands behind it.
 * What the recurrence says is there is taken first, so that one projection on everything is left to do. */
static posenc_status step(pe_search *s, const pe_operator *op, int64_t m, int64_t near, double *r, uint64_t seed,
                          unsigned *alive)
{
    const int64_t b = s->width, size = m + b;
    posenc_status st = columns(s, size, b);
    double *const *w = s->v + size;
    double reach = 0, taken[PE_MOST_WIDTH];
    if (st || (st = op->apply(op->self, b, s->v + m, w, s->pace, s->err)))
        return st;
    s->products += op->products * b;
    memset(s->c, 0, (size_t)(size * b) * sizeof *s->c);
    if ((st = project(s, s->skip, near, size, w, s->c, NULL)) || (st = project(s, s->nlock, 0, size, w, s->c, taken)))
        return st;
    for (int64_t i = 0; i < size; i++)
        for (int64_t c = 0; c < b; c++) {
            double x = s->c[i * b + c];
            const int64_t j = m + c;
            if (i >= m) /* the diagonal block: symmetric up to rounding */
                x = 0.5 * (x + s->c[j * b + i - m]);
            s->h[i * s->most + j] = s->h[j * s->most + i] = x;
        }
    for (int64_t i = 0; i < size; i++)
        reach = fabs(s->h[i * s->most + i]) > reach ? fabs(s->h[i * s->most + i]) : reach;
    return orthonormalize(s, size, w, 1e-14 * reach, taken, r, seed, alive);
}

posenc_status pe_search_run(pe_search *s, const pe_operator *op, const pe_wish *wish, int64_t restarts)
{
    posenc_status st = PE_OK;
    const int64_t width = s->width, most = s->most / width * width;
    int64_t m = 0, check, done = 0, found = 0, near = 0;
    double relative = wish->relative, *b = NULL, r[PE_MOST_WIDTH * PE_MOST_WIDTH], whole[PE_MOST_WIDTH * PE_MOST_WIDTH];
    unsigned alive = 0;
    uint64_t seed = (uint64_t)s->nlock * 65536 + 2 * PE_MOST_WIDTH;

    s->found = s->seen = s->ritz = 0;
    s->next = INFINITY;
    s->converged = s->strange = false;
    if ((st = lock_kernel(s)))
        goto done;
    b = malloc((size_t)s->most * sizeof(double));
    if (!b) {
        st = pe_no_memory("memory", s->err);
        goto done;
    }
    memset(s->h, 0, (size_t)(s->most * s->most) * sizeof(double));
    if ((st = first_block(s, seed, &alive)))
        goto done;
    if (!alive) { /* everything is locked */
        s->converged = true;
        goto done;
    }
    check = (wish->goal + 1) * (width > 1 ? 1 : 2);
    check = check > wish->goal + PE_WIDTH + 2 * width ? check : wish->goal + PE_WIDTH + 2 * width;
    for (;;) {
        seed += 2 * PE_MOST_WIDTH;
        if ((st = step(s, op, m, near, r, seed, &alive)))
            goto done;
        near = m; /* of the next step: this block and the new one */
        m += width;
        memcpy(whole, r, sizeof whole);
        if (m < check && m < most && alive)
            continue;
        if ((st = ritz(s, m, r, b)))
            goto done;
        bool good;
        if ((st = settled(s, op, wish, b, relative, !alive, &found, &s->next, &good)))
            goto done;
        s->seen = found;
        say_progress(s, wish, b);
        if (good) {
            int64_t locked = 0;
            if ((st = take(s, op, m, found, wish->tolerance, &locked)))
                goto done;
            if (locked > 0 || found == 0) {
                if (locked < found)
                    s->next = op->value(op->self, s->theta[locked]);
                s->found = locked;
                s->converged = true;
                break;
            }
            /* loose vectors have loose quotients, where eigenvalues span many decades */
            relative = relative > (s->strange ? 1e-9 : 1e-15) ? relative * 1e-2 : 0;
            s->strange = s->strange && relative == 0;
        }
        check = m + width + (10 * m * m < s->n ? 0 : m / 16); /* a look costs m^3, a step n m and an application */
        if (!alive || relative < 1e-16)
            break;
        if (m < most)
            continue;
        if (done++ >= restarts)
            break;
        const int64_t wanted = found > wish->goal ? found : wish->goal, limit = (most - 3 * width) / width * width;
        int64_t kept = (wanted + wanted / 2 + 2 * PE_WIDTH + width - 1) / width * width;
        kept = kept < limit ? kept : limit;
        const int64_t before = m;
        m = 0; /* the basis is being replaced */
        if ((st = restart(s, before, kept)))
            goto done;
        m = kept;
        near = 0;
        check = m + 2 * width;
    }
    if (!s->converged) {
        const int64_t wanted = wish->goal > 0 ? wish->goal : 1;
        int64_t none;
        if (s->salvage && restarts > 0 && m > 0 && (st = salvage(s, op, wish, m, r, b)))
            goto done;
        if (!s->salvage && restarts > 0 && (st = take(s, op, m, wanted < s->ritz ? wanted : s->ritz, -1, &none)))
            goto done;
        st = leave_start(s, m, wanted + PE_WIDTH);
    }
done:
    if (st == PE_DEADLINE && s->salvage && m > 0 && b) {
        const posenc_status other = salvage(s, op, wish, m, whole, b);
        st = other ? other : st;
    }
    free(b);
    return st;
}
