/* test_graph_costs.c - what graph encodings say they cost: stars, roads and webs of one size; graphs without nodes. */
#include "walk_graphs.h"

#include <time.h>

Suite *graph_costs_suite(void);

enum { N = 40000 };

typedef struct wide { /* more edges than a `graph` has */
    posenc_edges e;
    int64_t s[2 * N], t[2 * N];
} wide;

static void join(wide *g, int64_t u, int64_t v)
{
    g->s[g->e.nedges] = u;
    g->t[g->e.nedges++] = v;
}

/* Of 40,000 nodes: a star, a path, a grid, a random graph of mean degree 4. */
static wide *wide_graph(char kind)
{
    wide *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    g->e = (posenc_edges){ .num_nodes = N, .source = g->s, .target = g->t };
    for (int64_t v = 0; v < N; v++) {
        if (kind == 's' && v < N - 1)
            join(g, v, N - 1);
        if (kind == 'p' && v)
            join(g, v - 1, v);
        if (kind == 'g' && v % 200)
            join(g, v - 1, v);
        if (kind == 'g' && v >= 200)
            join(g, v - 200, v);
        if (kind == 'r') {
            join(g, v, any(N));
            join(g, v, any(N));
        }
    }
    return g;
}

static double cost_of(const char *encoding, const char *query, const posenc_edges *e)
{
    posenc_arena *a = posenc_arena_new(1 << 26);
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert(!posenc_request_init(&r, encoding, a, &err) && !posenc_request_parse(&r, query, &err));
    ck_assert(!posenc_graph_build(e, a, &r.graph, &err) && !posenc_resolve(&r, &err));
    const double ns = r.cost.ns;
    posenc_arena_free(a);
    return ns;
}

/* Seconds measured on one core; what is said may be ten times more or less. */
static const struct {
    char kind;
    const char *encoding, *query;
    double seconds;
} measured[] = {
    { 's', "random_walk", "walk_length=8", 4.2 },
    { 'p', "random_walk", "walk_length=20", 0.02 },
    { 'g', "random_walk", "walk_length=16", 0.09 },
    { 'g', "random_walk", "walk_length=64", 4 },
    { 'r', "random_walk", "walk_length=4", 0.02 },
    { 'r', "random_walk", "walk_length=10", 1.5 },
    { 's', "personalized_pagerank", "output=topk&eps=1e-4", 0.01 },
    { 'p', "personalized_pagerank", "output=topk&eps=1e-6", 0.5 },
    { 'g', "personalized_pagerank", "output=topk&eps=1e-4", 0.9 },
    { 'r', "personalized_pagerank", "output=topk&eps=1e-4", 3.5 },
};

START_TEST(near_what_was_measured)
{
    wide *g = wide_graph(measured[_i].kind);
    const double said = 1e-9 * cost_of(measured[_i].encoding, measured[_i].query, &g->e), was = measured[_i].seconds;
    ck_assert_msg(said < 10 * was && said > was / 10, "%c %s %s: %g s, measured %g s", measured[_i].kind,
                  measured[_i].encoding, measured[_i].query, said, was);
    free(g);
}
END_TEST

/* What is asked for once is not done for each graph of a batch: 20,000 graphs without nodes. */
static const char *const extremes[][2] = {
    { "random_walk", "walk_length=1024" },
    { "random_walk", "walk_length=1024&method=probe&num_probes=65536" },
    { "personalized_pagerank", "alpha=0.0001&output=topk&k=4096" },
    { "personalized_pagerank", "alpha=0.0001&output=topk&eps=1e-12" },
    { "personalized_pagerank", "alpha=0.0001&output=diag&normalization=row&dangling=uniform" },
    { "weisfeiler_lehman", "rounds=2147483647" },
    { "anchor_distance", "anchor_mode=random_sets&anchor_c=64" },
    { "anchor_distance", "anchor_mode=farthest&num_anchors=1000000" },
    { "heat_kernel", "kernel_times=0,1000000000" },
    { "laplacian", "k=4096&skip=all_zero" },
    { "magnetic_laplacian", "k=4096" },
    { "svd", "k=4096" },
    { "shortest_path", "max_dist=5" },
};

START_TEST(no_nodes_no_work)
{
    enum { GRAPHS = 20000 };
    int64_t *ptr = calloc(GRAPHS + 1, sizeof *ptr);
    const posenc_edges e = { .ptr = ptr, .ngraphs = strstr(extremes[_i][1], "k=4096") ? 500 : GRAPHS };
    posenc_answer a;
    posenc_error err = { 0 };
    char text[500];
    const clock_t begin = clock();
    ck_assert_msg(!posenc_encode(extremes[_i][0], extremes[_i][1], &e, &a, NULL, &err), "%s: %s", extremes[_i][0],
                  posenc_error_text(&err, text, sizeof text));
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ck_assert_msg(seconds < 2, "%s %s: %g s", extremes[_i][0], extremes[_i][1], seconds);
    posenc_answer_fini(&a);
    free(ptr);
}
END_TEST

/* A hub makes the bound of the eigenvalues large, and all eigenpairs the cheaper way: their memory is told. */
START_TEST(memory_of_a_star)
{
    enum { LEAVES = 1000 };
    graph *g = star(LEAVES + 1);
    posenc_arena *a = posenc_arena_new(1 << 24);
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert(!posenc_request_init(&r, "heat_kernel", a, &err) && !posenc_request_parse(&r, "kernel_times=1", &err));
    ck_assert(!posenc_graph_build(&g->e, a, &r.graph, &err) && !posenc_resolve(&r, &err));
    ck_assert_uint_ge(r.cost.scratch, 16 * LEAVES * LEAVES);
    posenc_arena_free(a);
    free(g);
}
END_TEST

Suite *graph_costs_suite(void)
{
    Suite *s = suite_create("graph_costs");
    TCase *c = tcase_create("graph_costs");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, near_what_was_measured, 0, (int)PE_LEN(measured));
    tcase_add_loop_test(c, no_nodes_no_work, 0, (int)PE_LEN(extremes));
    tcase_add_test(c, memory_of_a_star);
    suite_add_tcase(s, c);
    return s;
}
