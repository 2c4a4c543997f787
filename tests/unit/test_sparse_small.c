/* test_sparse_small.c - components of some hundred rows by their sparse factors: the definition, held to the dense solver;
 * what is proven is true; the same bytes on every path and in company. */
#include "linalg/small.h"
#include "linalg/sparse_small.h"
#include "simd.h"
#include "spectra.h"

/* ---- graphs ---- */

static graph *random_tree(int64_t n, bool weighted)
{
    graph *g = new_graph(n);
    for (int64_t v = 1; v < n; v++)
        add_weight(g, v, any(v), weighted ? ldexp(1 + (double)any(1000) / 1000, (int)any(80) - 40) : 1);
    return g;
}

/* Every inner node has `degree` neighbours. */
static graph *dendrimer(int64_t degree, int64_t n)
{
    graph *g = new_graph(n);
    for (int64_t v = 1; v < n; v++)
        add(g, v, v <= degree ? 0 : (v - degree - 1) / (degree - 1) + 1);
    return g;
}

static graph *grid_of(int64_t rows, int64_t columns)
{
    graph *g = new_graph(rows * columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        if ((i + 1) % columns)
            add(g, i, i + 1);
        if (i + columns < rows * columns)
            add(g, i, i + columns);
    }
    return g;
}

/* Six-membered rings in a row, each sharing an edge with the next. */
static graph *hexagons(int64_t rings)
{
    graph *g = new_graph(4 * rings + 2);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 2 * rings; j++)
            add(g, i * (2 * rings + 1) + j, i * (2 * rings + 1) + j + 1);
    for (int64_t j = 0; j <= rings; j++)
        add(g, 2 * j, 2 * rings + 1 + 2 * j);
    return g;
}

/* A star of rings: many eigenvectors that live on one or two arms, in leading blocks of the factor. */
static graph *flower(int64_t arms, int64_t ring)
{
    graph *g = new_graph(1 + arms * ring);
    for (int64_t a = 0; a < arms; a++)
        for (int64_t i = 0; i < ring; i++) {
            add(g, 1 + a * ring + i, 1 + a * ring + (i + 1) % ring);
            if (i < 2)
                add(g, 0, 1 + a * ring + i);
        }
    return g;
}

static graph *twice(graph *g)
{
    const int64_t n = g->e.num_nodes, m = g->e.nedges;
    for (int64_t j = 0; j < m; j++)
        add_weight(g, g->s[j] + n, g->t[j] + n, g->w[j]);
    g->e.num_nodes = 2 * n;
    return g;
}

enum { FAMILIES = 18 };

static graph *family(int i)
{
    switch (i) {
    case 0: return path(100);
    case 1: return path(256);
    case 2: return cycle(101);
    case 3: return cycle(128);
    case 4: return dendrimer(101, 102); /* a star */
    case 5: return dendrimer(3, 94);
    case 6: return dendrimer(4, 161);
    case 7: return grid_of(2, 60);
    case 8: return grid_of(10, 11);
    case 9: return hexagons(30);
    case 10: return random_tree(110, false);
    case 11: return random_tree(130, false);
    case 12: return random_tree(100, true);
    case 13: return tangle(120, 12, false, false);
    case 14: return tangle(120, 40, true, false);
    case 15: return flower(10, 10);
    case 16: return twice(hexagons(25));
    default: return twice(path(100));
    }
}

static void shuffle(int64_t *name, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        name[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = any(i + 1), swap = name[i];
        name[i] = name[j];
        name[j] = swap;
    }
}

/* Eigenvalues of L, ascending, by the dense solver. */
static double *dense_values(const graph *g, bool normalized)
{
    const int64_t n = g->e.num_nodes;
    posenc_error err = { 0 };
    double *l = malloc((size_t)(n * n + n) * sizeof *l);
    ck_assert_ptr_nonnull(l);
    plain_laplacian(g, normalized, l);
    ck_assert_int_eq(pe_sym_dense(n, l, l + n * n, NULL, &err), PE_OK);
    memmove(l, l + n * n, (size_t)n * sizeof *l);
    return l;
}

/* Values, residuals by definition (vectors of eigenvalues within 1e-10 may be mixed), orthonormality. */
static void judge(const graph *g, posenc_answer *a, bool normalized, const double *values)
{
    const int64_t n = g->e.num_nodes, k = size(a, "eigenvectors", 1);
    double *l = malloc((size_t)(n * n + k * n) * sizeof *l), *v = l + n * n;
    ck_assert_ptr_nonnull(l);
    plain_laplacian(g, normalized, l);
    for (int64_t j = 0; j < k; j++) {
        const double lambda = get(a, "eigenvalues", j);
        double rest = 0;
        ck_assert_msg(fabs(lambda - values[j]) <= 1e-13 * values[n - 1], "%d rows, value %d: %g, dense %g", (int)n, (int)j,
                      lambda, values[j]);
        for (int64_t i = 0; i < n; i++)
            v[j * n + i] = get(a, "eigenvectors", i * k + j);
        for (int64_t i = 0; i < n; i++) {
            double y = -lambda * v[j * n + i];
            for (int64_t c = 0; c < n; c++)
                y += l[i * n + c] * v[j * n + c];
            rest += y * y;
        }
        ck_assert_msg(sqrt(rest) <= 1e-10 * values[n - 1], "%d rows, column %d: residual %g", (int)n, (int)j, sqrt(rest));
        for (int64_t c = 0; c <= j; c++) {
            double dot = 0;
            for (int64_t i = 0; i < n; i++)
                dot += v[j * n + i] * v[c * n + i];
            ck_assert_double_eq_tol(dot, c == j, 1e-10);
        }
    }
    free(l);
}

START_TEST(held_to_the_dense_solver)
{
    graph *g = family(_i);
    int64_t name[256];
    shuffle(name, g->e.num_nodes);
    graph *other = relabelled(g, name);
    const bool brief = getenv("POSENC_TEST_SANITIZED") != NULL; /* slow: every other family each way */
    for (int which = brief ? _i % 2 : 0; which < (brief ? _i % 2 + 1 : 2); which++) {
        double *values = dense_values(g, which);
        for (int k = 1; k <= 21; k += 20) {
            const char *query = posenc_text("dtype=float64&skip=none&k=%d&normalization=%s", k, which ? "sym" : "none").s;
            posenc_answer a = ask("laplacian", g, query), b = ask("laplacian", other, query);
            judge(g, &a, which, values);
            judge(other, &b, which, values);
            posenc_answer_fini(&a);
            posenc_answer_fini(&b);
        }
        free(values);
    }
    free(other);
    free(g);
}
END_TEST

/* ---- the module alone ---- */

typedef struct part {
    pe_component c;
    int64_t ptr[257];
    int32_t col[2 * 1024];
    double weight[2 * 1024], entry[2 * 1024], degree[256], kernel[256], scale;
} part;

/* A connected graph as D - A. */
static part *part_of(const graph *g)
{
    part *p = calloc(1, sizeof *p);
    ck_assert_ptr_nonnull(p);
    const int64_t n = g->e.num_nodes;
    double most = 0;
    int exponent;
    for (int64_t v = 0; v < n; v++) {
        int64_t at = p->ptr[v];
        for (int64_t u = 0; u < n; u++)
            for (int64_t j = 0; j < g->e.nedges; j++)
                if ((g->s[j] == v && g->t[j] == u) || (g->s[j] == u && g->t[j] == v)) {
                    p->col[at] = (int32_t)u;
                    p->weight[at] = g->w[j];
                    p->entry[at++] = -g->w[j];
                    p->degree[v] += g->w[j];
                }
        p->ptr[v + 1] = at;
        p->kernel[v] = 1 / sqrt((double)n);
        most = fmax(most, p->degree[v]);
    }
    frexp(2 * most, &exponent);
    p->scale = ldexp(1, 2 - exponent);
    p->c = (pe_component){
        .n = n, .ptr = p->ptr, .col = p->col, .weight = p->weight, .degree = p->degree, .kernel = p->kernel
    };
    return p;
}

/* What is proven is what the dense solver counts, wherever the question is asked; it is proven for most. */
START_TEST(proofs)
{
    static const int connected[] = { 0, 3, 5, 8, 9, 13, 15 };
    enum { WANT = 12 };
    pe_sparse_solver *s = pe_sparse_new();
    ck_assert_ptr_nonnull(s);
    int proven = 0;
    for (size_t i = 0; i < LEN(connected); i++) {
        graph *g = family(connected[i]);
        part *p = part_of(g);
        pe_pace pace = { .left = PE_PACE_STEPS };
        const int64_t n = p->c.n;
        double *values = dense_values(g, false), *panels = calloc((size_t)(2 * 8 * n), sizeof *panels);
        ck_assert(pe_sparse_analyse(s, &p->c, p->entry, p->scale));
        ck_assert_int_eq(pe_sparse_pairs(s, WANT, false, panels, &pace), PE_OK);
        for (int64_t want = 1; want <= WANT; want++) {
            int64_t count, below = 0;
            double next = 0;
            const double last = values[want]; /* values[0] is the kernel's */
            ck_assert_int_eq(pe_sparse_prove(s, want, last, &count, &next, &pace), PE_OK);
            while (below + 1 < n && values[below + 1] <= last + 1.25 * 0x1p-18 / p->scale)
                below++;
            if (count < 0)
                continue;
            proven++;
            ck_assert_msg(count == below, "family %d, %d values: %d counted, %d by the dense solver", connected[i],
                          (int)want, (int)count, (int)below);
            if (count == want) {
                const double gap = values[want + 1] - last;
                ck_assert_msg(next > last && next - last < 1.51 * gap && next - last > 0.49 * gap, "family %d: gap %g, %g",
                              connected[i], next - last, gap);
            }
        }
        free(panels);
        free(values);
        free(p);
        free(g);
    }
    free(s);
    ck_assert_int_ge(proven, (int)LEN(connected) * WANT * 3 / 4);
}
END_TEST

/* Vectors that need nothing else: most components are done by the factors alone. */
START_TEST(done_by_the_factors)
{
    enum { WANT = 9 };
    pe_sparse_solver *s = pe_sparse_new();
    ck_assert_ptr_nonnull(s);
    for (int round = 0; round < 12; round++) {
        graph *g = round % 2 ? tangle(100 + 5 * round, round, false, false) : random_tree(100 + 5 * round, false);
        part *p = part_of(g);
        pe_pace pace = { .left = PE_PACE_STEPS };
        const int64_t n = p->c.n;
        double *panels = calloc((size_t)(2 * 8 * n), sizeof *panels);
        ck_assert(pe_sparse_analyse(s, &p->c, p->entry, p->scale));
        bool good = false;
        for (int careful = 0; careful < 2 && !good; careful++) {
            ck_assert_int_eq(pe_sparse_pairs(s, WANT, careful, panels, &pace), PE_OK);
            good = true;
            for (int j = 0; j < WANT; j++) {
                const double *v = panels + j / 8 * n * 8 + j % 8;
                double lambda = 0, rest = 0, y[256];
                for (int64_t i = 0; i < n; i++) {
                    y[i] = p->degree[i] * v[i * 8];
                    for (int64_t q = p->ptr[i]; q < p->ptr[i + 1]; q++)
                        y[i] += p->entry[q] * v[p->col[q] * 8];
                    lambda += y[i] * v[i * 8];
                }
                for (int64_t i = 0; i < n; i++)
                    rest += (y[i] - lambda * v[i * 8]) * (y[i] - lambda * v[i * 8]);
                good = good && sqrt(rest) < 1e-13 / p->scale;
            }
        }
        ck_assert_msg(good, "round %d", round);
        free(panels);
        free(p);
        free(g);
    }
    free(s);
}
END_TEST

/* A complete graph's factor is left alone. */
START_TEST(too_dense)
{
    graph *g = complete(40);
    part *p = part_of(g);
    pe_sparse_solver *s = pe_sparse_new();
    ck_assert_ptr_nonnull(s);
    ck_assert(pe_sparse_analyse(s, &p->c, p->entry, p->scale));
    graph *h = new_graph(100);
    for (int64_t i = 0; i < 100; i++)
        for (int64_t j = i + 1; j < i + 9; j++)
            add(h, i, (j * 7) % 100);
    free(p);
    p = part_of(h);
    ck_assert(!pe_sparse_analyse(s, &p->c, p->entry, p->scale));
    free(p);
    free(s);
    free(g);
    free(h);
}
END_TEST

START_TEST(by_every_path_and_in_company)
{
    graph *some[] = { hexagons(26), dendrimer(3, 94), random_tree(70, false), path(5), complete(9) };
    graph *all = batch(some, LEN(some));
    const char *query = "dtype=float64&k=9&normalization=sym";
    simd_choose(PE_PATH_BASE);
    posenc_answer base = ask("laplacian", all, query);
    for (pe_path path = PE_PATH_BASE + 1; path <= simd_widest(); path++) {
        simd_choose(path);
        posenc_answer other = ask("laplacian", all, query);
        same_bytes(&base, &other);
        posenc_answer_fini(&other);
    }
    for (size_t i = 0; i < LEN(some); i++) {
        posenc_answer alone = ask("laplacian", some[i], query);
        const posenc_tensor *x = pe_tensor(&alone.result, "eigenvectors"), *y = pe_tensor(&base.result, "eigenvectors");
        ck_assert_mem_eq(x->data, (char *)y->data + all->ptr[i] * 9 * 8, posenc_tensor_size(x));
        posenc_answer_fini(&alone);
        free(some[i]);
    }
    posenc_answer_fini(&base);
    free(all);
}
END_TEST

Suite *sparse_small_suite(void);
Suite *sparse_small_suite(void)
{
    Suite *s = suite_create("sparse_small");
    TCase *t = tcase_create("sparse_small");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, held_to_the_dense_solver, 0, FAMILIES);
    tcase_add_test(t, proofs);
    tcase_add_test(t, done_by_the_factors);
    tcase_add_test(t, too_dense);
    tcase_add_test(t, by_every_path_and_in_company);
    suite_add_tcase(s, t);
    return s;
}
