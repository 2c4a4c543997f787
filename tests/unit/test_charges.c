/* test_charges.c - charges of small components, eight at a time: by a dense solver, by resistances of trees, alone and in
 * company, by every path. */
#include "graph/charges.h"
#include "simd.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Suite *charges_suite(void);

enum { MOST = 128 };

/* A component of its own memory. */
typedef struct net {
    pe_component c;
    double w[MOST * MOST];
    int64_t ptr[MOST + 1];
    int32_t col[MOST * MOST];
    double weight[MOST * MOST], degree[MOST];
} net;

static uint64_t state = 1;
static uint64_t any(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static const char *const kinds[] = { "star", "cycle", "complete", "bipartite", "hypercube", "grid", "dendrimer", "path" };
enum { KINDS = sizeof kinds / sizeof *kinds };
static bool is_tree(int kind) { return kind == 0 || kind == 6 || kind == 7; }

static bool joined(int kind, int64_t n, int64_t i, int64_t j) /* i > j */
{
    switch (kind) {
    case 0: return !j;
    case 1: return i == j + 1 || (!j && i == n - 1);
    case 2: return true;
    case 3: return (i + j) % 2;
    case 4: return !((i ^ j) & ((i ^ j) - 1));
    case 5: return i - j == 5 || (i - j == 1 && i % 5);
    case 6: return (i - 1) / 3 == j;
    default: return i == j + 1;
    }
}

/* Of about n nodes; weights 2^-range .. 2^range, of range -1 all 1. Relabelled by `seed`, 0: as is. */
static net *build(int kind, int64_t n, int range, uint64_t seed)
{
    net *g = calloc(1, sizeof *g);
    int64_t name[MOST], arcs = 0;
    ck_assert_ptr_nonnull(g);
    if (kind == 4)
        for (n = 2; 2 * n <= 32;)
            n *= 2;
    state = seed + 7;
    for (int64_t i = 0; i < n; i++)
        name[i] = i;
    for (int64_t i = n - 1; i > 0 && seed; i--) {
        const int64_t j = (int64_t)(any() % (uint64_t)(i + 1)), t = name[i];
        name[i] = name[j];
        name[j] = t;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            if (joined(kind, n, i, j)) {
                const double w =
                    range < 0 ? 1 : ldexp(1 + (double)(any() % 64) / 64, (int)(any() % (uint64_t)(2 * range + 1)) - range);
                g->w[name[i] * n + name[j]] = g->w[name[j] * n + name[i]] = w;
            }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            if (g->w[i * n + j] > 0) {
                g->col[arcs] = (int32_t)j;
                g->weight[arcs++] = g->w[i * n + j];
                g->degree[i] += g->w[i * n + j];
            }
        g->ptr[i + 1] = arcs;
    }
    g->c =
        (pe_component){ .n = n, .ptr = g->ptr, .col = g->col, .weight = range < 0 ? NULL : g->weight, .degree = g->degree };
    return g;
}

/* L^+ from all eigenpairs. */
static void by_pairs(const net *g, double *plus)
{
    const int64_t n = g->c.n;
    double *a = calloc((size_t)(n * n), sizeof *a), values[MOST];
    posenc_error err = { 0 };
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] = i == j ? g->degree[i] : -g->w[i * n + j];
    ck_assert(!pe_sym_dense(n, a, values, NULL, &err));
    memset(plus, 0, (size_t)(n * n) * sizeof *plus);
    for (int64_t k = 1; k < n; k++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                plus[i * n + j] += a[k * n + i] * a[k * n + j] / values[k];
    free(a);
}

/* L^+ of a tree from the resistances between its nodes, which are sums along paths. */
static void by_resistances(const net *g, double *plus)
{
    const int64_t n = g->c.n;
    long double *r = calloc((size_t)(n * n), sizeof *r), mean[MOST] = { 0 }, all = 0;
    for (int64_t s = 0; s < n; s++) {
        int64_t queue[MOST], from[MOST], tail = 0;
        queue[tail++] = s;
        from[s] = -1;
        for (int64_t head = 0; head < tail; head++)
            for (int64_t v = 0, u = queue[head]; v < n; v++)
                if (g->w[u * n + v] > 0 && v != from[u]) {
                    r[s * n + v] = r[s * n + u] + 1 / (long double)g->w[u * n + v];
                    from[v] = u;
                    queue[tail++] = v;
                }
        ck_assert_int_eq(tail, n);
        for (int64_t v = 0; v < n; v++)
            mean[s] += r[s * n + v] / (long double)n;
        all += mean[s] / (long double)n;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            plus[i * n + j] = (double)(-(r[i * n + j] - mean[i] - mean[j] + all) / 2);
    free(r);
}

static void check(const net *g, const pe_charge *got, const double *plus, double tolerance, const char *kind)
{
    const int64_t n = g->c.n;
    double size = 0;
    for (int64_t i = 0; i < n * n; i++)
        size = fmax(size, fabs(plus[i]));
    for (int64_t v = 0; v < n; v++) {
        pe_charge want = {
            .diagonal = plus[v * n + v], .least = INFINITY, .most = -INFINITY, .row_least = INFINITY, .row_most = -INFINITY
        };
        for (int64_t j = 0; j < n; j++) {
            const double e = plus[v * n + j], seen = e - plus[j * n + j], own = e - plus[v * n + v];
            want.least = fmin(want.least, e);
            want.most = fmax(want.most, e);
            want.squares += e * e;
            want.row_least = fmin(want.row_least, seen);
            want.row_most = fmax(want.row_most, seen);
            want.dot += e * plus[j * n + j];
            want.to += g->w[v * n + j] / g->degree[j] * own;
            want.from += g->w[v * n + j] / g->degree[v] * seen;
        }
        const double *a = (const double *)&want, *b = (const double *)(got + v);
        for (size_t k = 0; k < sizeof want / sizeof *a; k++) {
            const bool square = k == 3 || k == 6;
            ck_assert_msg(fabs(a[k] - b[k]) <= tolerance * (square ? size * size : size) * (double)n,
                          "%s of %d nodes, node %d, number %d: %.15g, want %.15g", kind, (int)n, (int)v, (int)k, b[k], a[k]);
        }
    }
}

/* All kinds and two sizes at once, each labelled four ways. */
static void all_kinds(int range, double tolerance, bool trees_only, int64_t least_done)
{
    enum { JOBS = KINDS * 2 * 4 };
    net *g[JOBS];
    int kind[JOBS], n = 0;
    pe_charge_job job[JOBS];
    pe_charge *first[JOBS];
    int64_t done = 0;
    pe_pace pace = { 0 };
    posenc_error err = { 0 };
    double *plus = malloc(MOST * MOST * sizeof *plus);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 8; i++) {
            if (trees_only && !is_tree(k))
                continue;
            kind[n] = k;
            g[n++] = build(k, i % 2 ? 20 : 45, range, (uint64_t)(i / 2));
        }
    for (pe_path path = PE_PATH_BASE; path <= simd_widest(); path++) {
        simd_choose(path);
        for (int i = 0; i < n; i++)
            job[i] = (pe_charge_job){ .c = g[i]->c, .at = calloc(MOST, sizeof(pe_charge)) };
        ck_assert(!pe_charges(job, n, &pace, &err));
        for (int i = 0; i < n; i++) {
            if (path == PE_PATH_BASE) {
                first[i] = job[i].at;
                done += job[i].done;
                if (is_tree(kind[i]))
                    by_resistances(g[i], plus);
                else
                    by_pairs(g[i], plus);
                if (job[i].done)
                    check(g[i], job[i].at, plus, tolerance, kinds[kind[i]]);
                continue;
            }
            ck_assert_mem_eq(job[i].at, first[i], (size_t)g[i]->c.n * sizeof(pe_charge));
            memset(job[i].at, 0, (size_t)g[i]->c.n * sizeof(pe_charge)); /* alone */
            ck_assert(!pe_charges(&job[i], 1, &pace, &err));
            ck_assert_mem_eq(job[i].at, first[i], (size_t)g[i]->c.n * sizeof(pe_charge));
            free(job[i].at);
        }
    }
    simd_choose(simd_widest());
    ck_assert_int_ge(done, least_done < 0 ? n : least_done);
    for (int i = 0; i < n; i++) {
        free(first[i]);
        free(g[i]);
    }
    free(plus);
}

START_TEST(unit_weights) { all_kinds(-1, 1e-13, false, -1); }
END_TEST

START_TEST(weights_alike) { all_kinds(4, 1e-11, false, -1); }
END_TEST

/* What is answered is right; and some is. */
START_TEST(weights_far_apart) { all_kinds(40, 1e-13, true, 1); }
END_TEST

/* Two triangles on a thread too thin for doubles: the currents say so. */
START_TEST(digits_lost)
{
    net *g = build(1, 6, -1, 0);
    static const double w[6][6] = { { 0, 1, 1, 1e-13 },       { 1, 0, 1 },          { 1, 1, 0 },
                                    { 1e-13, 0, 0, 0, 1, 1 }, { 0, 0, 0, 1, 0, 1 }, { 0, 0, 0, 1, 1 } };
    int64_t arcs = 0;
    for (int i = 0; i < 6; i++) {
        g->degree[i] = 0;
        for (int j = 0; j < 6; j++)
            if (w[i][j] > 0) {
                g->col[arcs] = j;
                g->weight[arcs++] = w[i][j];
                g->degree[i] += w[i][j];
            }
        g->ptr[i + 1] = arcs;
    }
    g->c.weight = g->weight;
    pe_charge at[6];
    pe_charge_job job = { .c = g->c, .at = at, .done = true };
    pe_pace pace = { 0 };
    posenc_error err = { 0 };
    ck_assert(!pe_charges(&job, 1, &pace, &err) && !job.done);
    ck_assert(!pe_charges(&job, 0, &pace, &err));
    free(g);
}
END_TEST

Suite *charges_suite(void)
{
    Suite *s = suite_create("charges");
    TCase *t = tcase_create("charges");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, unit_weights);
    tcase_add_test(t, weights_alike);
    tcase_add_test(t, weights_far_apart);
    tcase_add_test(t, digits_lost);
    suite_add_tcase(s, t);
    return s;
}
