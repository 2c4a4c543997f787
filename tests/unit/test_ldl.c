/* Sparse factors: held by columns and by blocks, on any number of threads, in any order of tasks, stopped, and so large that
 * only the counting of their bytes is possible. */
#include "linalg/ldl.h"
#include "pool.h"

#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    pe_component c;
    pe_laplacian lap;
    int64_t *ptr;
    int32_t *col;
    double *diagonal, *entry;
} problem;

/* A grid of side x side vertices with every `keep`-th cross edge and all of its rows and first column: a tree for a large
 * keep, a whole grid for 1. L + 0.01 I, so that nothing needs grounding. */
static problem grid(int64_t side, int64_t keep, double shift)
{
    const int64_t n = side * side;
    problem p = { .ptr = calloc((size_t)n + 1, sizeof *p.ptr),
                  .col = malloc((size_t)n * 4 * sizeof *p.col),
                  .diagonal = calloc((size_t)n, sizeof *p.diagonal),
                  .entry = malloc((size_t)n * 4 * sizeof *p.entry) };
    ck_assert(p.ptr && p.col && p.diagonal && p.entry);
    int64_t m = 0;
    for (int64_t v = 0; v < n; v++) {
        const int64_t x = v % side, y = v / side;
        const bool above = y > 0 && (x == 0 || v % keep == 0), below = y + 1 < side && (x == 0 || (v + side) % keep == 0);
        if (above)
            p.col[m++] = (int32_t)(v - side);
        if (x > 0)
            p.col[m++] = (int32_t)(v - 1);
        if (x + 1 < side)
            p.col[m++] = (int32_t)(v + 1);
        if (below)
            p.col[m++] = (int32_t)(v + side);
        p.ptr[v + 1] = m;
        p.diagonal[v] = (double)(m - p.ptr[v]) + 0.01 + shift;
    }
    for (int64_t i = 0; i < m; i++)
        p.entry[i] = -1;
    p.c = (pe_component){ .n = n, .ptr = p.ptr, .col = p.col, .degree = p.diagonal };
    p.lap = (pe_laplacian){ .diagonal = p.diagonal, .entry = p.entry };
    return p;
}

static void free_problem(problem *p)
{
    free(p->ptr);
    free(p->col);
    free(p->diagonal);
    free(p->entry);
}

/* What a factor answers: a solution of each width, and how many eigenvalues are below 0.5. */
typedef struct outcome {
    posenc_status status;
    double *x, *y; /* (8, n) */
    int64_t below;
    int64_t parts;
} outcome;

static outcome work(problem *p, bool blocks, posenc_context *ctx)
{
    const int64_t n = p->c.n;
    outcome o = { .x = malloc((size_t)(8 * n) * sizeof *o.x), .y = calloc((size_t)(15 * n), sizeof *o.y) };
    ck_assert(o.x && o.y);
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    pe_ldl f;
    p->lap.c = &p->c;
    uint64_t seed = 1;
    double *x[8], *y[15];
    for (int64_t i = 0; i < 8 * n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        o.x[i] = (double)(seed >> 11) * 0x1p-53 - 0.5;
    }
    for (int64_t i = 0; i < 15; i++)
        y[i] = o.y + i * n;
    for (int64_t i = 0; i < 8; i++)
        x[i] = o.x + i * n;
    o.status = pe_ldl_order(&f, &p->c, &pace, NULL);
    f.products = blocks ? 1e6 * f.entries : 0;
    o.status = o.status ? o.status : pe_ldl_factor(&f, &p->lap, &pace, NULL);
    ck_assert(o.status || blocks == (f.blocks.count > 0));
    if (!o.status)
        o.parts = blocks ? f.blocks.cut.tier[PE_TIERS + 1] : f.cut.tier[PE_TIERS + 1];
    for (int64_t width = 1; width <= 8 && !o.status; width *= 2)
        o.status = pe_ldl_solve_columns(&f, width, x, y + width - 1, &pace);
    if (!o.status && !(o.status = pe_ldl_count_below(&f, 0.5, &o.below, &pace, NULL)))
        o.status = pe_ldl_solve_columns(&f, 1, x, y, &pace); /* the factor is as it was */
    pe_ldl_fini(&f);
    return o;
}

static void free_outcome(outcome *o)
{
    free(o->x);
    free(o->y);
}

static double residual(const problem *p, const double *x, const double *y)
{
    double worst = 0;
    for (int64_t v = 0; v < p->c.n; v++) {
        double s = p->diagonal[v] * y[v] - x[v];
        for (int64_t r = p->ptr[v]; r < p->ptr[v + 1]; r++)
            s += p->entry[r] * y[p->col[r]];
        worst = fabs(s) > worst ? fabs(s) : worst;
    }
    return worst;
}

static void check_solutions(const problem *p, const outcome *o)
{
    const int64_t n = p->c.n;
    for (int64_t width = 1; width <= 8; width *= 2)
        for (int64_t i = 0; i < width; i++)
            ck_assert_double_le(residual(p, o->x + i * n, o->y + (width - 1 + i) * n), 1e-11);
}

static bool same(const problem *p, const outcome *a, const outcome *b)
{
    return !a->status && !b->status && !memcmp(a->y, b->y, (size_t)(15 * p->c.n) * sizeof *a->y) && a->below == b->below;
}

static void share(void *pool, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(pool, n, task, arg);
}

/* One thread, the last task first. */
static void backwards(void *count, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    *(int64_t *)count += n;
    while (n-- > 0)
        task(arg, n);
}

enum { GRID, TREE, KINDS };

static problem make(int kind, double shift) { return kind == GRID ? grid(130, 1, shift) : grid(250, 40, shift); }

START_TEST(threads_do_not_show)
{
    problem p = make(_i, 0), other = make(_i, 1e-9);
    outcome one = work(&p, _i == GRID, NULL), less = work(&other, _i == GRID, NULL);
    ck_assert_int_eq(one.status, PE_OK);
    ck_assert_int_gt(one.parts, 3);
    ck_assert_int_gt(one.below, 1);
    check_solutions(&p, &one);
    ck_assert(!same(&p, &one, &less)); /* the comparison sees the smallest change */
    int64_t tasks = 0;
    posenc_context reverse = { .parallel = backwards, .user = &tasks, .threads = 2 };
    outcome last = work(&p, _i == GRID, &reverse);
    ck_assert(same(&p, &one, &last));
    ck_assert_int_gt(tasks, 3 * one.parts); /* of two factors, and of substitutions down and up */
    free_outcome(&last);
    static const int threads[] = { 2, 3, 7 };
    for (int t = 0; t < 3; t++) {
        pe_pool *pool = pe_pool_new(threads[t], 16);
        ck_assert_ptr_nonnull(pool);
        posenc_context ctx = { .parallel = share, .user = pool, .threads = threads[t] };
        outcome many = work(&p, _i == GRID, &ctx);
        ck_assert(same(&p, &one, &many));
        free_outcome(&many);
        pe_pool_free(pool);
    }
    free_outcome(&one);
    free_outcome(&less);
    free_problem(&p);
    free_problem(&other);
}
END_TEST

typedef struct countdown {
    _Atomic int64_t left;
} countdown;

static posenc_status stop(void *user)
{
    countdown *c = ((void **)user)[0];
    return atomic_fetch_sub(&c->left, 1) > 0 ? PE_OK : PE_CANCELLED;
}

static void share_stopped(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(((void **)user)[1], n, task, arg);
}

/* Stopped anywhere, also within tasks. */
START_TEST(stopped)
{
    problem p = grid(100, _i == GRID ? 1 : 40, 0);
    pe_pool *pool = pe_pool_new(3, 16);
    ck_assert_ptr_nonnull(pool);
    int stops = 0;
    for (int64_t after = 0, done = 0; !done; after = 3 * after + 1) {
        countdown c = { after };
        void *user[] = { &c, pool };
        posenc_context ctx = { .stop = stop, .parallel = share_stopped, .user = user, .threads = 3 };
        outcome o = work(&p, _i == GRID, &ctx);
        ck_assert(o.status == PE_OK || o.status == PE_CANCELLED);
        done = o.status == PE_OK;
        stops += o.status == PE_CANCELLED;
        free_outcome(&o);
    }
    ck_assert_int_ge(stops, 3);
    pe_pool_free(pool);
    free_problem(&p);
}
END_TEST

/* A star whose hub comes first: all of the lower triangle fills up, 2.4e9 entries. Counted, and refused. */
START_TEST(more_entries_than_an_int)
{
    enum { N = 70000 };
    const int64_t pairs = (int64_t)N * (N - 1) / 2;
    int64_t *ptr = malloc((N + 1) * sizeof *ptr);
    int32_t *col = malloc(2 * (N - 1) * sizeof *col);
    double *diagonal = malloc(N * sizeof *diagonal), *entry = malloc(2 * (N - 1) * sizeof *entry);
    posenc_context ctx = { .memory_limit = (uint64_t)1 << 30 };
    pe_pace pace = { .ctx = &ctx, .left = PE_PACE_STEPS };
    posenc_error err = { 0 };
    pe_ldl f = { .n = N,
                 .rows = N,
                 .entries = (double)pairs,
                 .order = malloc(N * sizeof *f.order),
                 .place = malloc(N * sizeof *f.place) };
    ck_assert(ptr && col && diagonal && entry && f.order && f.place);
    for (int32_t i = 0; i < N; i++) {
        f.order[i] = f.place[i] = i;
        ptr[i + 1] = N - 1 + i;
        if (i > 0) {
            col[i - 1] = i;
            col[N - 2 + i] = 0;
        }
        diagonal[i] = N;
    }
    ptr[0] = 0;
    for (int64_t i = 0; i < 2 * (N - 1); i++)
        entry[i] = -1;
    const pe_component c = { .n = N, .ptr = ptr, .col = col, .degree = diagonal };
    const pe_laplacian lap = { .c = &c, .diagonal = diagonal, .entry = entry };
    if (_i)
        f.products = 1e6 * f.entries;
    /* by columns: a number and a row each, and one to spare; as a block: the square, and sixteen to spare */
    const uint64_t need = _i ? 8 * ((uint64_t)N * N + 16) : 12 * ((uint64_t)pairs + 1);
    ck_assert_uint_gt(need, (uint64_t)UINT32_MAX);
    ck_assert_int_eq(pe_ldl_factor(&f, &lap, &pace, &err), PE_LIMIT);
    char text[100];
    snprintf(text, sizeof text, "%llu bytes of factor", (unsigned long long)need);
    ck_assert_str_eq(err.fault[0].value, text);
    ck_assert_str_eq(err.fault[0].reason, "LIMIT_EXCEEDED");
    ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "1073741824"));
    ck_assert_ptr_null(f.entry);
    ck_assert_uint_gt(pe_ldl_bytes(N, 2 * (N - 1), f.entries), need);
    pe_ldl_fini(&f);
    free(ptr);
    free(col);
    free(diagonal);
    free(entry);
}
END_TEST

Suite *ldl_suite(void)
{
    Suite *s = suite_create("ldl");
    TCase *t = tcase_create("factors");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, threads_do_not_show, 0, KINDS);
    tcase_add_loop_test(t, stopped, 0, KINDS);
    tcase_add_loop_test(t, more_entries_than_an_int, 0, 2);
    suite_add_tcase(s, t);
    return s;
}
