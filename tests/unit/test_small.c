/* test_small.c - eight small matrices in lanes: the same bits on every path, in any company, at any place; graphs of much
 * symmetry. */
#include "linalg/lane_eigen.h"
#include "simd.h"
#include "spectra.h"

/* ---- matrices in lanes ---- */

enum { MOST = 40, CHAINS = 9, MATRICES = 12 };

/* A symmetric matrix with eigenvalues in 0 .. 4 / scale: a Laplacian of some weighted tree with chords, of odd numbers the
 * same twice on the diagonal, so that every eigenvalue is a double one. */
typedef struct matrix {
    int64_t n;
    double a[MOST][MOST];
} matrix;

static void fill_part(matrix *m, int64_t from, int64_t n, uint64_t seed)
{
    for (int64_t i = 1; i < n + 3; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t u = from + (i < n ? i : (int64_t)(seed >> 40) % n), v = from + (int64_t)(seed >> 33) % (i < n ? i : n);
        const double w = 0.25 * (double)(1 + (seed >> 60));
        if (u == v)
            continue;
        m->a[u][v] -= w;
        m->a[v][u] -= w;
        m->a[u][u] += w;
        m->a[v][v] += w;
    }
}

static matrix *make(int64_t n, bool twice, uint64_t seed)
{
    matrix *m = calloc(1, sizeof *m);
    ck_assert_ptr_nonnull(m);
    m->n = twice ? n / 2 * 2 : n;
    fill_part(m, 0, twice ? n / 2 : n, seed);
    if (twice)
        fill_part(m, n / 2, n / 2, seed);
    return m;
}

static matrix *some[MATRICES];

static void make_all(void)
{
    static const int64_t rows[MATRICES] = { 2, 3, 8, 9, 16, 17, 20, 24, 31, 33, 36, 40 };
    for (int i = 0; i < MATRICES; i++)
        some[i] = make(rows[i], rows[i] > 3 && i % 2, (uint64_t)(i + 1) * 77);
}

static void free_all(void)
{
    for (int i = 0; i < MATRICES; i++)
        free(some[i]);
}

typedef struct group {
    pe_group g;
    void *memory;
} group;

/* Solves up to eight matrices, NULL: an empty lane. */
static group solve(matrix *const *lane)
{
    group r;
    pe_pace pace = { 0 };
    int64_t n = 2;
    for (int l = 0; l < PE_GROUP; l++)
        n = lane[l] && lane[l]->n > n ? lane[l]->n : n;
    const size_t size = pe_group_bytes(MOST, CHAINS);
    r.memory = aligned_alloc(64, size);
    ck_assert_ptr_nonnull(r.memory);
    memset(r.memory, 0xa5, size); /* what lies there does not matter */
    pe_group_init(&r.g, MOST, CHAINS, r.memory);
    pe_group_clear(&r.g, n);
    r.g.chains = CHAINS;
    for (int l = 0; l < PE_GROUP; l++) {
        double most = 0;
        int exponent;
        r.g.rows[l] = lane[l] ? lane[l]->n : 0;
        for (int64_t i = 0; i < r.g.rows[l]; i++) {
            most = fmax(most, 2 * lane[l]->a[i][i]);
            for (int64_t j = 0; j <= i; j++) {
                *pe_group_entry(&r.g, i, j, l) = lane[l]->a[i][j];
                if (lane[l]->a[i][j] != 0 && j < r.g.start[i])
                    r.g.start[i] = (int32_t)j;
            }
        }
        frexp(most, &exponent);
        r.g.scale[l] = ldexp(1, 2 - exponent);
        r.g.first[l] = 0;
    }
    ck_assert_int_eq(pe_group_solve(&r.g, &pace), PE_OK);
    return r;
}

static void same_lane(const group *a, int la, const group *b, int lb, int64_t n)
{
    const int64_t pairs = n < CHAINS ? n : CHAINS;
    for (int64_t j = 0; j < pairs; j++) {
        const int64_t p = j * PE_GROUP + la, q = j * PE_GROUP + lb;
        ck_assert_mem_eq(&a->g.counted[p], &b->g.counted[q], sizeof(double));
        ck_assert_mem_eq(&a->g.value[p], &b->g.value[q], sizeof(double));
        ck_assert_mem_eq(&a->g.doubt[p], &b->g.doubt[q], sizeof(double));
        for (int64_t i = 0; i < n; i++) { /* -0 and 0 may stand for each other: both are stored as 0 */
            const double x = a->g.vector[(j * a->g.n + i) * PE_GROUP + la] + 0.0;
            const double y = b->g.vector[(j * b->g.n + i) * PE_GROUP + lb] + 0.0;
            ck_assert_msg(!memcmp(&x, &y, sizeof x), "%d rows, vector %d, row %d: %a, %a", (int)n, (int)j, (int)i, x, y);
        }
    }
}

START_TEST(right)
{
    matrix *lane[PE_GROUP] = { some[_i], NULL };
    const int64_t n = some[_i]->n, pairs = n < CHAINS ? n : CHAINS;
    group r = solve(lane);
    double *a = malloc((size_t)(2 * n * n + n) * sizeof *a), *vectors = a + n * n, *values = vectors + n * n;
    ck_assert_ptr_nonnull(a);
    for (int64_t i = 0; i < n * n; i++)
        a[i] = some[_i]->a[i / n][i % n];
    jacobi((int)n, a, values, vectors);
    for (int64_t j = 0; j < pairs; j++) {
        const double *v = r.g.vector + j * r.g.n * PE_GROUP;
        ck_assert(r.g.doubt[j * PE_GROUP] == 0);
        ck_assert_double_eq_tol(r.g.value[j * PE_GROUP], values[j], 1e-12);
        for (int64_t i = 0; i < n; i++) {
            double y = 0;
            for (int64_t k = 0; k < n; k++)
                y += some[_i]->a[i][k] * v[k * PE_GROUP];
            ck_assert_double_eq_tol(y, values[j] * v[i * PE_GROUP], 1e-12);
        }
        for (int64_t k = 0; k <= j; k++) {
            double dot = 0;
            for (int64_t i = 0; i < n; i++)
                dot += v[i * PE_GROUP] * r.g.vector[(k * r.g.n + i) * PE_GROUP];
            ck_assert_double_eq_tol(dot, j == k, 1e-12);
        }
    }
    free(a);
    free(r.memory);
}
END_TEST

START_TEST(by_every_path)
{
    simd_choose(PE_PATH_BASE);
    group base = solve(some + _i);
    for (pe_path path = PE_PATH_BASE + 1; path <= simd_widest(); path++) {
        simd_choose(path);
        group other = solve(some + _i);
        for (int l = 0; l < PE_GROUP; l++)
            same_lane(&base, l, &other, l, some[_i + l]->n);
        free(other.memory);
    }
    free(base.memory);
}
END_TEST

/* Alone in each lane; and with others, smaller and larger, in each lane. */
START_TEST(in_any_company)
{
    matrix *lane[PE_GROUP] = { some[_i], NULL };
    group alone = solve(lane);
    for (int place = 0; place < PE_GROUP; place++) {
        matrix *single[PE_GROUP] = { NULL }, *more[PE_GROUP];
        single[place] = some[_i];
        for (int l = 0; l < PE_GROUP; l++)
            more[l] = l == place ? some[_i] : some[(_i * 5 + l * (place + 1) + 3) % MATRICES];
        group a = solve(single), b = solve(more);
        same_lane(&alone, 0, &a, place, some[_i]->n);
        same_lane(&alone, 0, &b, place, some[_i]->n);
        free(a.memory);
        free(b.memory);
    }
    free(alone.memory);
}
END_TEST

/* ---- graphs ---- */

/* A graph's rows are the same bytes alone and among others, wherever it stands. */
static void as_alone(const char *encoding, const char *query)
{
    graph *part[] = { tangle(30, 4, false, false),
                      cycle(6),
                      tangle(12, 3, true, false),
                      path(25),
                      complete(5),
                      cycle(31),
                      new_graph(1),
                      tangle(33, 2, false, false),
                      path(2),
                      cycle(7) };
    enum { N = sizeof part / sizeof part[0] };
    posenc_answer alone[N];
    for (int i = 0; i < N; i++)
        alone[i] = ask(encoding, part[i], query);
    for (int turn = 0; turn < N; turn++) {
        graph *order[N];
        for (int i = 0; i < N; i++)
            order[i] = part[(i * 3 + turn) % N];
        const int count = turn % 2 ? N : 3 + turn / 2;
        graph *whole = batch(order, count);
        posenc_answer b = ask(encoding, whole, query);
        for (int i = 0; i < count; i++) {
            const posenc_tensor *x = &alone[(i * 3 + turn) % N].result.tensor[0], *y = &b.result.tensor[0];
            const size_t row = (size_t)x->shape[1] * posenc_dtype_size(x->dtype);
            ck_assert_msg(!memcmp(x->data, (char *)y->data + (size_t)whole->ptr[i] * row, posenc_tensor_size(x)),
                          "%s %s: graph %d of turn %d", encoding, query, i, turn);
        }
        posenc_answer_fini(&b);
        free(whole);
    }
    for (int i = 0; i < N; i++) {
        posenc_answer_fini(&alone[i]);
        free(part[i]);
    }
}

START_TEST(batches)
{
    static const char *const query[] = { "k=8&dtype=float64", "k=3&dtype=float64&normalization=none",
                                         "k=16&dtype=float64&normalization=rw", "k=40&dtype=float64" };
    as_alone("laplacian", query[_i]);
}
END_TEST

START_TEST(kernels_of_batches) { as_alone("heat_kernel", "kernel_times=0.5,2&dtype=float64"); }
END_TEST

/* Symmetric graphs, where eigenvalues are repeated many times. */
static graph *star(int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 1; i < n; i++)
        add(g, 0, i);
    return g;
}

static graph *bipartite(int64_t a, int64_t b)
{
    graph *g = new_graph(a + b);
    for (int64_t i = 0; i < a * b; i++)
        add(g, i / b, a + i % b);
    return g;
}

static graph *hypercube(int64_t d)
{
    graph *g = new_graph(1 << d);
    for (int64_t i = 0; i < 1 << d; i++)
        for (int64_t k = 0; k < d; k++)
            if (!(i >> k & 1))
                add(g, i, i | 1 << k);
    return g;
}

static graph *grid(int64_t rows, int64_t columns)
{
    graph *g = new_graph(rows * columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        if (i % columns + 1 < columns)
            add(g, i, i + 1);
        if (i + columns < rows * columns)
            add(g, i, i + columns);
    }
    return g;
}

/* Every node but the leaves has `arms` neighbours. */
static graph *dendrimer(int64_t arms, int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t i = 1; i < n; i++)
        add(g, i, i <= arms ? 0 : (i - arms - 1) / (arms - 1) + 1);
    return g;
}

static graph *pieces(int64_t count, int64_t size)
{
    graph *g = new_graph(count * size);
    for (int64_t i = 0; i < count * size; i++)
        if (size > 2 || i % size == 0)
            add(g, i, i / size * size + (i + 1) % size);
    return g;
}

static graph *symmetric(int i)
{
    switch (i) {
    case 0: return star(9);
    case 1: return star(34);
    case 2: return cycle(12);
    case 3: return cycle(33);
    case 4: return complete(9);
    case 5: return complete(24);
    case 6: return bipartite(3, 3);
    case 7: return bipartite(5, 17);
    case 8: return hypercube(3);
    case 9: return hypercube(5);
    case 10: return grid(5, 5);
    case 11: return grid(4, 9);
    case 12: return dendrimer(3, 22);
    case 13: return dendrimer(4, 37);
    case 14: return pieces(9, 2);
    case 15: return pieces(7, 3);
    case 16: return new_graph(10);
    default: { /* a clique with leaves: 1 three times, in pieces of the tridiagonal matrix that are numbers */
        graph *g = new_graph(7);
        for (int64_t u = 0; u < 4; u++)
            for (int64_t v = u + 1; v < 4; v++)
                add(g, u, v);
        for (int64_t leaf = 4; leaf < 7; leaf++)
            add(g, 0, leaf);
        return g;
    }
    }
}

enum { SYMMETRIC = 18, COPIES = 4 };

/* Values against Jacobi's, residuals by definition, orthonormality. rw: of sym's matrix, by the vectors D^1/2 v. */
static void judge_columns(const graph *g, posenc_answer *a, int64_t first, const char *normalization, const double *values)
{
    const int64_t n = g->e.num_nodes, k = size(a, "eigenvectors", 1), count = n - 1 < k ? n - 1 : k;
    const bool none = !strcmp(normalization, "none"), rw = !strcmp(normalization, "rw");
    double *l = calloc((size_t)(n * n + n + k * n), sizeof *l), *d = l + n * n, *v = d + n;
    ck_assert_ptr_nonnull(l);
    plain_laplacian(g, !none, l);
    for (int64_t j = 0; j < g->e.nedges; j++) {
        d[g->s[j]]++;
        d[g->t[j]]++;
    }
    for (int64_t j = 0; j < count; j++) {
        const double lambda = get(a, "eigenvalues", first / n * k + j);
        double length = 0;
        ck_assert_double_eq_tol(lambda, values[j + 1], 1e-11);
        for (int64_t i = 0; i < n; i++) {
            v[j * n + i] = get(a, "eigenvectors", (first + i) * k + j) * (rw && d[i] > 0 ? sqrt(d[i]) : 1);
            length += v[j * n + i] * v[j * n + i];
        }
        for (int64_t i = 0; i < n; i++)
            v[j * n + i] /= rw ? sqrt(length) : 1;
        double rest = 0;
        for (int64_t i = 0; i < n; i++) {
            double y = -lambda * v[j * n + i];
            for (int64_t c = 0; c < n; c++)
                y += l[i * n + c] * v[j * n + c];
            rest += y * y;
        }
        ck_assert_msg(sqrt(rest) <= 1e-10, "%s, %d nodes, column %d: residual %g", normalization, (int)n, (int)j,
                      sqrt(rest));
        for (int64_t c = 0; c <= j; c++) {
            double dot = 0;
            for (int64_t i = 0; i < n; i++)
                dot += v[j * n + i] * v[c * n + i];
            ck_assert_double_eq_tol(dot, c == j, 1e-11);
        }
    }
    free(l);
}

START_TEST(stress)
{
    static const char *const norms[] = { "none", "sym", "rw" };
    for (int which = 0; which < 3; which++) {
        graph *part[COPIES];
        part[0] = symmetric(_i);
        const int64_t n = part[0]->e.num_nodes;
        for (int copy = 1; copy < COPIES; copy++) {
            int64_t name[64];
            for (int64_t i = 0; i < n; i++)
                name[i] = i;
            for (int64_t i = n - 1; i > 0; i--) {
                const int64_t j = any(i + 1), swap = name[i];
                name[i] = name[j];
                name[j] = swap;
            }
            part[copy] = relabelled(part[0], name);
        }
        graph *all = batch(part, COPIES);
        double *l = malloc((size_t)(2 * n * n + n) * sizeof *l), *values = l + 2 * n * n;
        ck_assert_ptr_nonnull(l);
        plain_laplacian(part[0], which > 0, l);
        jacobi((int)n, l, values, l + n * n);
        const int64_t ks[] = { 1, 8, 16, n };
        for (int j = 0; j < 4; j++) {
            posenc_answer a = ask("laplacian", all,
                                  posenc_text("dtype=float64&k=%d&normalization=%s", (int)ks[j], norms[which]).s);
            for (int copy = 0; copy < COPIES; copy++)
                judge_columns(part[copy], &a, all->ptr[copy], norms[which], values);
            posenc_answer_fini(&a);
        }
        free(l);
        free(all);
        for (int copy = 0; copy < COPIES; copy++)
            free(part[copy]);
    }
}
END_TEST

/* Parts that hang together by next to nothing: many eigenvalues near 0, of which residuals say nothing. Held to the dense
 * solver. */
START_TEST(weights_far_apart)
{
    enum { N = 12 };
    static const char *const norms[] = { "none", "sym" };
    for (int round = 0; round < 40; round++) {
        graph *g = new_graph(N);
        for (int64_t v = 1; v < N; v++)
            add_weight(g, v, any(v), ldexp(1 + (double)any(1000) / 1000, (int)any(80) - 40));
        for (int which = 0; which < 2; which++) {
            const char *query = posenc_text("dtype=float64&k=%d&skip=none&normalization=%s", N, norms[which]).s;
            posenc_answer a = ask("laplacian", g, query), b = ask("laplacian", g, posenc_text("%s&solver=dense", query).s);
            const double bound = get(&b, "eigenvalues", N - 1);
            for (int64_t j = 0; j < N; j++) {
                ck_assert_double_eq_tol(get(&a, "eigenvalues", j), get(&b, "eigenvalues", j), 1e-13 * bound);
                for (int64_t c = 0; c <= j; c++) {
                    double dot = 0;
                    for (int64_t i = 0; i < N; i++)
                        dot += get(&a, "eigenvectors", i * N + j) * get(&a, "eigenvectors", i * N + c);
                    ck_assert_double_eq_tol(dot, c == j, 1e-10);
                }
            }
            posenc_answer_fini(&a);
            posenc_answer_fini(&b);
        }
        free(g);
    }
}
END_TEST

Suite *small_suite(void);
Suite *small_suite(void)
{
    Suite *s = suite_create("small");
    TCase *t = tcase_create("lanes"), *u = tcase_create("graphs");
    tcase_add_checked_fixture(t, make_all, free_all);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, right, 0, MATRICES);
    tcase_add_loop_test(t, by_every_path, 0, MATRICES - PE_GROUP + 1);
    tcase_add_loop_test(t, in_any_company, 0, MATRICES);
    suite_add_tcase(s, t);
    tcase_set_timeout(u, 60);
    tcase_add_loop_test(u, batches, 0, 4);
    tcase_add_test(u, kernels_of_batches);
    tcase_add_loop_test(u, stress, 0, SYMMETRIC);
    tcase_add_test(u, weights_far_apart);
    suite_add_tcase(s, u);
    return s;
}
