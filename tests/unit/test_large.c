/* Laplacians of large graphs: closed forms, threads, answers that a deadline cuts short.
 * POSENC_TEST_SLOW=1: graphs of 100,000 nodes in place of 22,500. */
#include "pool.h"
#include "spectra.h"

#include <stdlib.h>

Suite *large_suite(void);

static bool slow(void) { return getenv("POSENC_TEST_SLOW") != NULL; }

typedef struct list {
    posenc_edges e;
    int64_t *s, *t, room;
} list;

static list new_list(int64_t n, int64_t room)
{
    list g = { .s = malloc((size_t)(room + 1) * sizeof(int64_t)),
               .t = malloc((size_t)(room + 1) * sizeof(int64_t)),
               .room = room };
    ck_assert(g.s && g.t);
    g.e = (posenc_edges){ .num_nodes = n, .source = g.s, .target = g.t };
    return g;
}

static void join(list *g, int64_t u, int64_t v)
{
    ck_assert_int_lt(g->e.nedges, g->room);
    g->s[g->e.nedges] = u;
    g->t[g->e.nedges++] = v;
}

static void free_list(list *g)
{
    free(g->s);
    free(g->t);
}

static list square_grid(int64_t side)
{
    list g = new_list(side * side, 2 * side * side);
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            if (j + 1 < side)
                join(&g, i * side + j, i * side + j + 1);
            if (i + 1 < side)
                join(&g, i * side + j, (i + 1) * side + j);
        }
    return g;
}

/* Barabasi, Albert: hubs, and a spectrum without a gap. */
static list preferential(int64_t n, int64_t each)
{
    list g = new_list(n, n * each);
    for (int64_t v = 1; v < n; v++)
        for (int64_t i = 0, had = g.e.nedges; i < each && i < v; i++) {
            const int64_t at = had ? any(2 * had) : 0;
            join(&g, v, !had ? 0 : at % 2 ? g.s[at / 2] : g.t[at / 2]);
        }
    return g;
}

static posenc_answer encode_by(const char *encoding, const posenc_edges *e, const char *query, posenc_context *ctx)
{
    posenc_answer a;
    posenc_error err = { 0 };
    char text[1000];
    ck_assert_msg(posenc_encode(encoding, query, e, &a, ctx, &err) == PE_OK, "%s %s: %s", encoding, query,
                  posenc_error_text(&err, text, sizeof text));
    return a;
}

static posenc_answer encode(const posenc_edges *e, const char *query, posenc_context *ctx)
{
    return encode_by("laplacian", e, query, ctx);
}

static void orthonormal(posenc_answer *a, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t v = 0; v < n; v++)
                sum += get(a, "eigenvectors", v * k + i) * get(a, "eigenvectors", v * k + j);
            ck_assert_double_le(fabs(sum - (i == j)), 1e-11);
        }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The eigenvalues of D - A of a square grid: 4 - 2 cos(pi i / n) - 2 cos(pi j / n); most are double. */
START_TEST(grid_values)
{
    const int64_t side = slow() ? 316 : 70, k = 16;
    list g = square_grid(side);
    double all[40 * 40];
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 40; j++) {
            const double x = sin(PI * i / (2 * (double)side)), y = sin(PI * j / (2 * (double)side));
            all[i * 40 + j] = 4 * x * x + 4 * y * y;
        }
    qsort(all, 1600, sizeof *all, by_size);
    static const char *const solvers[] = { "auto", "chebyshev" };
    for (size_t s = 0; s < (slow() ? 1 : LEN(solvers)); s++) {
        char query[200];
        snprintf(query, sizeof query, "k=16&normalization=none&dtype=float64&solver=%s", solvers[s]);
        posenc_answer a = encode(&g.e, query, NULL);
        for (int64_t j = 0; j < k; j++) {
            ck_assert_double_le(fabs(get(&a, "eigenvalues", j) - all[j + 1]), 1e-10);
            ck_assert_double_le(get(&a, "residuals", j), 1e-10 * 8);
        }
        orthonormal(&a, side * side, k);
        posenc_answer_fini(&a);
    }
    free_list(&g);
}
END_TEST

/* A cycle with chords to the next but one: eigenvalues 4 - 2 cos t - 2 cos 2t, t = 2 pi j / n, each twice. */
START_TEST(circulant_values)
{
    const int64_t n = slow() ? 100000 : 3000;
    list g = new_list(n, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        join(&g, i, (i + 1) % n);
        join(&g, i, (i + 2) % n);
    }
    posenc_answer a = encode(&g.e, "k=8&normalization=none&dtype=float64", NULL);
    for (int j = 0; j < 8; j++) {
        const double t = PI * (1 + j / 2) / (double)n, want = 4 * pow(sin(t), 2) + 4 * pow(sin(2 * t), 2);
        ck_assert_double_le(fabs(get(&a, "eigenvalues", j) - want), 1e-5 * want);
    }
    orthonormal(&a, n, 8);
    posenc_answer_fini(&a);
    free_list(&g);
}
END_TEST

/* Copies of a graph: every eigenvalue as often as there are copies; and as many null vectors. */
START_TEST(copies)
{
    enum { COPIES = 3, SIDE = 40 };
    list one = square_grid(SIDE), g = new_list(COPIES * SIDE * SIDE, COPIES * 2 * SIDE * SIDE);
    for (int64_t c = 0; c < COPIES; c++)
        for (int64_t i = 0; i < one.e.nedges; i++)
            join(&g, c * SIDE * SIDE + one.s[i], c * SIDE * SIDE + one.t[i]);
    posenc_answer a = encode(&g.e, "k=12&skip=all_zero&dtype=float64", NULL), b = encode(&one.e, "k=4&dtype=float64", NULL);
    ck_assert_double_eq(get(&a, "num_zero", 0), COPIES);
    for (int j = 0; j < 12; j++) /* exactly: copies are solved alike */
        ck_assert_double_le(fabs(get(&a, "eigenvalues", j) - get(&b, "eigenvalues", j / COPIES)), 1e-15);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free_list(&one);
    free_list(&g);
}
END_TEST

/* Two cliques joined by an edge: one tiny eigenvalue, whose vector tells them apart. */
START_TEST(cliques_joined)
{
    enum { SIZE = 150 };
    list g = new_list(2 * SIZE, SIZE * SIZE);
    for (int64_t c = 0; c < 2; c++)
        for (int64_t i = 0; i < SIZE; i++)
            for (int64_t j = i + 1; j < SIZE; j++)
                join(&g, c * SIZE + i, c * SIZE + j);
    join(&g, 0, SIZE);
    posenc_answer a = encode(&g.e, "k=2&normalization=none&dtype=float64", NULL);
    ck_assert_double_lt(get(&a, "eigenvalues", 0), 2.0 / SIZE);
    ck_assert_double_gt(get(&a, "eigenvalues", 0), 1.9 / SIZE);
    for (int64_t v = 1; v < 2 * SIZE; v++)
        if (v != SIZE)
            ck_assert(signbit(get(&a, "eigenvectors", 2 * v)) ==
                      signbit(get(&a, "eigenvectors", v < SIZE ? 2 : 4 * SIZE - 2)));
    ck_assert(signbit(get(&a, "eigenvectors", 2)) != signbit(get(&a, "eigenvectors", 4 * SIZE - 2)));
    posenc_answer_fini(&a);
    free_list(&g);
}
END_TEST

static void share(void *pool, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(pool, n, task, arg);
}

/* More rows than one part has, by each solver. */
START_TEST(threads_do_not_show)
{
    static const char *const queries[] = { "k=4&tol=1e-6", "k=4&tol=1e-6&solver=chebyshev",
                                           "k=3&tol=1e-8&solver=chebyshev" };
    pe_pool *pool = pe_pool_new(2, 16);
    ck_assert_ptr_nonnull(pool);
    posenc_context two = { .parallel = share, .user = pool, .threads = 2 };
    list g = _i == 0 ? square_grid(slow() ? 316 : 150) : preferential(slow() ? 100000 : 9000, 2);
    posenc_answer a = encode(&g.e, queries[_i], NULL), b = encode(&g.e, queries[_i], &two);
    same_bytes(&a, &b);
    for (int j = 0; j < 3; j++)
        ck_assert_double_le(get(&a, "residuals", j), 2e-6);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    pe_pool_free(pool);
    free_list(&g);
}
END_TEST

START_TEST(weights_of_many_sizes_with_a_loose_tol)
{
    enum { N = 600, STEP = 104729, DRAWN = 4099 };
    double weight[N];
    list g = new_list(N, N);
    for (int64_t i = 0; i + 1 < N; i++) {
        weight[i] = ldexp(1, (int)(i * STEP % DRAWN / 100) - 20);
        join(&g, i, i + 1);
    }
    g.e.weight = weight;
    posenc_answer a = encode(&g.e, "k=20&tol=0.01&solver=shift_invert&dtype=float64", NULL);
    ck_assert_double_eq(get(&a, "status", 0), 0);
    for (int64_t j = 0; j < 20; j++)
        ck_assert_double_le(get(&a, "residuals", j), 0.02);
    orthonormal(&a, N, 20);
    posenc_answer_fini(&a);
    free_list(&g);
}
END_TEST

typedef struct told {
    int calls;
    double last;
    char sentence[200];
} told;

static void tell(void *user, double fraction, const char *sentence)
{
    told *t = user;
    t->calls++;
    t->last = fraction;
    ck_assert(fraction >= 0 && fraction <= 1);
    snprintf(t->sentence, sizeof t->sentence, "%s", sentence);
}

START_TEST(progress_is_told)
{
    told t = { 0 };
    posenc_context ctx = { .progress = tell, .user = &t };
    list g = square_grid(100);
    posenc_answer a = encode(&g.e, "k=4&tol=1e-6", &ctx);
    ck_assert_int_gt(t.calls, 1);
    ck_assert_double_eq(t.last, 1);
    ck_assert_msg(strstr(t.sentence, "4 of 4 eigenvectors, largest relative residual"), "%s", t.sentence);
    posenc_answer_fini(&a);
    free_list(&g);
}
END_TEST

enum { LONG_PATH = 400 };

/* Warnings, each with a request beside it that does not give it. */
static const struct warning {
    const char *encoding, *query, *other, *words;
    int64_t nodes, edges; /* a path, a ring where there are as many edges as nodes; one edge in two of a path where half */
} warnings[] = {
    { "laplacian", "k=4&tol=1e-2", "k=4", "larger than a gap", LONG_PATH, LONG_PATH - 1 },
    { "laplacian", "k=1", "k=2", "divides a repeated eigenvalue", 5, 5 },
    { "laplacian", "k=2", "k=3", "only trivial vectors", 6, 3 },
    { "magnetic_laplacian", "k=4&q=0&tol=1e-2", "k=4&q=0", "larger than a gap", LONG_PATH, LONG_PATH - 1 },
    { "magnetic_laplacian", "k=1&q=0", "k=2&q=0", "divides a repeated eigenvalue", 5, 5 },
    { "magnetic_laplacian", "k=2", "k=3", "only trivial vectors", 6, 3 },
    { "svd", "k=4&tol=1e-2", "k=4", "larger than a gap", 2 * LONG_PATH, 2 * LONG_PATH },
    { "svd", "k=2", "k=3", "divides a repeated singular value", 5, 5 },
};

START_TEST(warnings_are_given)
{
    const struct warning *w = &warnings[_i];
    list g = new_list(w->nodes, w->nodes);
    for (int64_t i = 0; i < w->nodes && g.e.nedges < w->edges; i += 2 * w->edges == w->nodes ? 2 : 1)
        join(&g, i, (i + 1) % w->nodes);
    posenc_answer a = encode_by(w->encoding, &g.e, w->query, NULL), b = encode_by(w->encoding, &g.e, w->other, NULL);
    ck_assert_msg(warned(&a, w->words), "%s %s", w->encoding, w->query);
    ck_assert_msg(!warned(&b, w->words), "%s %s", w->encoding, w->other);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free_list(&g);
}
END_TEST

/* Two eigenvalues 3.6e-12 apart share a basis: whoever asks for less is told. */
START_TEST(residuals_over_tol)
{
    static const double weight[] = {
        0x1p-1, 0x1p8, 0x1p11, 0x1p11, 0x1p-12, 0x1p0, 0x1p-11, 0x1p-2, 0x1p-12, 0x1p-5, 0x1p4
    };
    list g = new_list(LEN(weight) + 1, LEN(weight));
    for (int64_t i = 0; i < (int64_t)LEN(weight); i++)
        join(&g, i, i + 1);
    g.e.weight = weight;
    static const char *const asked[][3] = {
        { "laplacian", "k=11&dtype=float64&tol=1e-13", "k=11&dtype=float64" },
        { "magnetic_laplacian", "k=11&dtype=float64&q=0&tol=1e-13", "k=11&dtype=float64&q=0" },
    };
    for (size_t i = 0; i < LEN(asked); i++) {
        posenc_answer a = encode_by(asked[i][0], &g.e, asked[i][1], NULL),
                      b = encode_by(asked[i][0], &g.e, asked[i][2], NULL);
        ck_assert(warned(&a, "pass tol = 1e-13") && get(&a, "status", 0) == 0);
        ck_assert(!warned(&b, "pass tol"));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    free_list(&g);
}
END_TEST

/* Singular values 1 + 2e-11 and 1 - 2e-11 share a basis, that of the nodes. */
START_TEST(singular_residuals_over_tol)
{
    static const double weight[] = { 1, 2e-11, 1 };
    list g = new_list(2, 3);
    join(&g, 0, 0);
    join(&g, 0, 1);
    join(&g, 1, 1);
    g.e.weight = weight;
    posenc_answer a = encode_by("svd", &g.e, "k=2&dtype=float64&tol=1e-13", NULL),
                  b = encode_by("svd", &g.e, "k=2&dtype=float64", NULL);
    ck_assert(warned(&a, "pass tol = 1e-13") && get(&a, "status", 0) == 0);
    ck_assert(!warned(&b, "pass tol"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free_list(&g);
}
END_TEST

/* ---- deadlines ---- */

static posenc_status late(void *user) { return --*(int *)user < 0 ? PE_DEADLINE : PE_OK; }

/* A deadline at any poll: an error, or what was found where that is welcome. */
START_TEST(partial_answers)
{
    list g = square_grid(45);
    const int64_t n = g.e.num_nodes, k = 6;
    int early = 0, some = 0;
    for (int polls = 0, whole = 0; !whole; polls += 1 + polls / 8) {
        int left = polls;
        posenc_context ctx = { .stop = late, .user = &left };
        posenc_answer a;
        posenc_error err = { 0 };
        posenc_status st = posenc_encode("laplacian", "k=6&dtype=float64&tol=1e-9", &g.e, &a, &ctx, &err);
        whole = st == PE_OK;
        ck_assert(st == PE_OK || st == PE_DEADLINE);
        if (whole)
            ck_assert(!a.result.partial && get(&a, "status", 0) == 0);
        posenc_answer_fini(&a);

        left = polls;
        err = (posenc_error){ 0 };
        st = posenc_encode("laplacian", "k=6&dtype=float64&tol=1e-9&allow_partial=true", &g.e, &a, &ctx, &err);
        if (st) { /* before anything had begun */
            ck_assert_int_eq(st, PE_DEADLINE);
            continue;
        }
        if (!a.result.partial) {
            ck_assert_double_eq(get(&a, "status", 0), 0);
            posenc_answer_fini(&a);
            continue;
        }
        early++;
        ck_assert_double_eq(get(&a, "status", 0), 504);
        ck_assert(warned(&a, "stopped early"));
        int64_t found = 0;
        while (found < k && !isnan(get(&a, "eigenvalues", found)))
            found++;
        some += found > 0;
        for (int64_t j = 0; j < k; j++) {
            ck_assert_double_eq(get(&a, "determined", j), 0);
            if (j < found)
                ck_assert_double_le(get(&a, "residuals", j), 2e-9);
            else
                ck_assert(isnan(get(&a, "residuals", j)));
            for (int64_t v = 0; v < n; v++)
                ck_assert(isnan(get(&a, "eigenvectors", v * k + j)) == (j >= found));
        }
        posenc_answer_fini(&a);
        ck_assert_int_lt(polls, 100000);
    }
    ck_assert_int_gt(early, 0);
    ck_assert_int_gt(some, 0);
    free_list(&g);
}
END_TEST

/* The encodings whose columns are `vectors` (with a second half in `other`, or in the same rows) of ascending `values`. */
static const struct solved {
    const char *encoding, *query, *vectors, *other, *values;
} solved[] = { { "magnetic_laplacian", "k=6&q=0.1&dtype=float64", "eigenvectors_real", "eigenvectors_imag", "eigenvalues" },
               { "svd", "k=6&dtype=float64", "encoding", NULL, "singular_values" } };

static void whole_or_absent(const struct solved *s, posenc_answer *a, int64_t n, int64_t *found)
{
    enum { K = 6 };
    *found = 0;
    while (*found < K && !isnan(get(a, s->values, *found)))
        ++*found;
    for (int64_t j = 0; j < K; j++) {
        ck_assert_double_eq(get(a, "determined", j), 0);
        ck_assert(isnan(get(a, "residuals", j)) == (j >= *found) && isnan(get(a, s->values, j)) == (j >= *found));
        if (j < *found)
            ck_assert_double_le(get(a, "residuals", j), 1e-8);
        for (int64_t v = 0; v < n; v++)
            for (int half = 0; half < 2; half++) {
                const char *name = half && s->other ? s->other : s->vectors;
                const int64_t at = s->other ? v * K + j : v * 2 * K + half * K + j;
                ck_assert(isnan(get(a, name, at)) == (j >= *found));
            }
    }
}

/* The same of the others, of a graph of two components: what was found of one of them is told. */
/* 6,000 paths of 2 to 7 nodes, which are solved in company: a deadline leaves those that were not reached. */
START_TEST(partial_answers_of_many_components)
{
    enum { PATHS = 6000 };
    int64_t *source = malloc(PATHS * 6 * sizeof *source), *target = malloc(PATHS * 6 * sizeof *target), nodes = 0, m = 0;
    int early = 0, whole = 0;
    for (int64_t p = 0; p < PATHS; p++, nodes++)
        for (int64_t i = 0; i < 1 + p % 6; i++, nodes++) {
            source[m] = nodes;
            target[m++] = nodes + 1;
        }
    const posenc_edges e = { .num_nodes = nodes, .source = source, .target = target, .nedges = m };
    for (int polls = 0; !whole; polls += 8 + polls / 4) {
        int left = polls;
        posenc_context ctx = { .stop = late, .user = &left };
        posenc_answer a;
        posenc_error err = { 0 };
        posenc_status st = posenc_encode("laplacian", "k=6&skip=all_zero&dtype=float64&allow_partial=true", &e, &a, &ctx,
                                         &err);
        ck_assert_int_lt(polls, 1000000);
        if (st) {
            ck_assert_int_eq(st, PE_DEADLINE);
            continue;
        }
        early += a.result.partial;
        whole = !a.result.partial;
        ck_assert_double_eq(get(&a, "num_zero", 0), PATHS);
        for (int64_t j = 0; j < 6; j++) {
            const double value = get(&a, "eigenvalues", j), residual = get(&a, "residuals", j);
            ck_assert(isnan(value) ? !whole : value > 0.01 && residual < 1e-9);
            ck_assert(whole || get(&a, "determined", j) == 0);
        }
        posenc_answer_fini(&a);
    }
    ck_assert_int_gt(early, 2);
    free(source);
    free(target);
}
END_TEST

START_TEST(partial_answers_of_others)
{
    const struct solved *s = &solved[_i];
    list one = square_grid(18), g = new_list(2 * one.e.num_nodes, 2 * one.e.nedges);
    for (int64_t i = 0; i < 2 * one.e.nedges; i++) {
        const int64_t j = i % one.e.nedges, at = i / one.e.nedges * one.e.num_nodes;
        const bool forth = (uint32_t)(i + 1) * 2654435761u >> 31; /* the same whatever ran before */
        const int64_t u = forth ? one.s[j] : one.t[j];
        join(&g, at + u, at + one.s[j] + one.t[j] - u);
    }
    g.e.directed = s->other != NULL; /* svd: the arcs of a forest are solved at once; edges join all nodes of a side */
    char query[200];
    snprintf(query, sizeof query, "%s&allow_partial=true", s->query);
    int early = 0, some = 0;
    for (int polls = 0, whole = 0; !whole; polls += 1 + polls / 24) {
        int left = polls;
        posenc_context ctx = { .stop = late, .user = &left };
        posenc_answer a;
        posenc_error err = { 0 };
        posenc_status st = posenc_encode(s->encoding, query, &g.e, &a, &ctx, &err);
        if (st) { /* before anything had begun */
            char text[500];
            ck_assert_msg(st == PE_DEADLINE, "%s", posenc_error_text(&err, text, sizeof text));
            continue;
        }
        whole = !a.result.partial;
        if (!whole) {
            int64_t found;
            early++;
            ck_assert_double_eq(get(&a, "status", 0), 504);
            ck_assert(warned(&a, "stopped early"));
            whole_or_absent(s, &a, g.e.num_nodes, &found);
            some += found > 0 && found < 6;
        } else { /* late, but nothing was left to be found */
            snprintf(query, sizeof query, "%s", s->query);
            posenc_answer b = encode_by(s->encoding, &g.e, query, NULL);
            same_bytes(&a, &b);
            posenc_answer_fini(&b);
        }
        posenc_answer_fini(&a);
    }
    ck_assert_int_gt(early, 0);
    ck_assert_int_gt(some, 0);
    free_list(&one);
    free_list(&g);
}
END_TEST

/* lambda_max: what the components that are done say, or NaN. */
START_TEST(partial_lambda_max)
{
    list one = preferential(2000, 4), two = new_list(one.e.num_nodes + 3, one.e.nedges + 3);
    for (int64_t i = 0; i < 3; i++) /* a triangle first, whose value is 1.5 */
        join(&two, i, (i + 1) % 3);
    for (int64_t i = 0; i < one.e.nedges; i++)
        join(&two, 3 + one.s[i], 3 + one.t[i]);
    posenc_answer whole = encode_by("lambda_max", &one.e, "dtype=float64", NULL);
    const double value = get(&whole, "lambda_max", 0);
    posenc_answer_fini(&whole);
    for (int with = 0; with < 2; with++) {
        int early = 0, some = 0;
        for (int polls = 0, done = 0; !done; polls += 1 + polls / 8) {
            int left = polls;
            posenc_context ctx = { .stop = late, .user = &left };
            posenc_answer a;
            posenc_error err = { 0 };
            posenc_status st = posenc_encode("lambda_max", "dtype=float64&allow_partial=true", with ? &two.e : &one.e, &a,
                                             &ctx, &err);
            if (st) {
                ck_assert_int_eq(st, PE_DEADLINE);
                continue;
            }
            const double said = get(&a, "lambda_max", 0);
            done = !a.result.partial;
            ck_assert_double_eq(get(&a, "status", 0), done ? 0 : 504);
            if (done) {
                ck_assert_double_eq(said, value);
            } else {
                early++;
                ck_assert(warned(&a, "stopped early"));
                ck_assert(isnan(said) == isnan(get(&a, "residuals", 0)) &&
                          (isnan(said) || (with && fabs(said - 1.5) < 1e-10)));
                some += !isnan(said);
            }
            posenc_answer_fini(&a);
        }
        ck_assert_int_gt(early, 0);
        ck_assert((some > 0) == with);
    }
    free_list(&one);
    free_list(&two);
}
END_TEST

START_TEST(a_batch_is_answered_whole)
{
    static const char *const encodings[] = { "laplacian", "magnetic_laplacian", "svd", "lambda_max" };
    static const int64_t zero[] = { 0 }, one[] = { 1 }, ptr[] = { 0, 2 };
    const posenc_edges e = { .num_nodes = 2, .nedges = 1, .source = zero, .target = one, .ptr = ptr, .ngraphs = 1 };
    for (size_t i = 0; i < LEN(encodings); i++) {
        posenc_answer a;
        posenc_error err = { 0 };
        ck_assert_int_eq(posenc_encode(encodings[i], "allow_partial=true", &e, &a, NULL, &err), PE_INVALID);
        ck_assert_str_eq(err.fault[0].field, "allow_partial");
        ck_assert_ptr_nonnull(strstr(err.fault[0].allowed, "one graph a request"));
    }
}
END_TEST

/* Restarts that do not suffice: the same. A client that has gone gets nothing. */
START_TEST(partial_of_few_restarts)
{
    list g = preferential(3000, 6);
    posenc_answer a;
    posenc_error err = { 0 };
    ck_assert_int_eq(posenc_encode("laplacian", "k=40&solver=chebyshev&max_iter=1", &g.e, &a, NULL, &err),
                     PE_NO_CONVERGENCE);
    ck_assert_str_eq(err.fault[0].field, "tol");
    double worst, allowed;
    ck_assert_int_eq(sscanf(err.fault[0].allowed, "more, or a larger max_iter: the largest residual is %lf, allowed %lf,",
                            &worst, &allowed),
                     2);
    ck_assert(worst > allowed && worst < 1);
    a = encode(&g.e, "k=40&solver=chebyshev&max_iter=1&allow_partial=true", NULL);
    ck_assert(a.result.partial);
    ck_assert_double_eq(get(&a, "status", 0), 504);
    posenc_answer_fini(&a);
    free_list(&g);
}
END_TEST

Suite *large_suite(void)
{
    Suite *s = suite_create("large");
    TCase *c = tcase_create("numbers");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, grid_values);
    tcase_add_test(c, circulant_values);
    tcase_add_test(c, copies);
    tcase_add_test(c, cliques_joined);
    tcase_add_loop_test(c, threads_do_not_show, 0, 3);
    tcase_add_test(c, weights_of_many_sizes_with_a_loose_tol);
    tcase_add_test(c, progress_is_told);
    tcase_add_loop_test(c, warnings_are_given, 0, LEN(warnings));
    tcase_add_test(c, residuals_over_tol);
    tcase_add_test(c, singular_residuals_over_tol);
    suite_add_tcase(s, c);
    c = tcase_create("deadlines");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, partial_answers);
    tcase_add_test(c, partial_answers_of_many_components);
    tcase_add_loop_test(c, partial_answers_of_others, 0, LEN(solved));
    tcase_add_test(c, partial_lambda_max);
    tcase_add_test(c, a_batch_is_answered_whole);
    tcase_add_test(c, partial_of_few_restarts);
    suite_add_tcase(s, c);
    return s;
}
