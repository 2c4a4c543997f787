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
    { 'p', "personalized_pagerank", "output=topk&eps=1e-4", 0.2 },
    { 'g', "personalized_pagerank", "output=topk&eps=1e-4", 0.7 },
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

/* Sizes that can never be computed with are refused from themselves, before anything is built. */
START_TEST(too_many_to_plan)
{
    static const struct {
        const char *encoding, *query;
        int64_t nodes;
        posenc_status want;
        const char *field;
    } asked[] = {
        { "svd", "k=1", 1 << 30, PE_LIMIT, "graph.num_nodes" },
        { "svd", "k=1", (1 << 30) - 1, PE_OK, "" },
        { "magnetic_laplacian", "k=1", 1 << 30, PE_LIMIT, "graph.num_nodes" },
        { "magnetic_laplacian", "k=1", (1 << 30) - 1, PE_OK, "" },
        { "laplacian", "k=4096", 2147483646, PE_OK, "" },
        { "random_walk", "walk_length=1024", 2147483646, PE_OK, "" },
        { "personalized_pagerank", "output=topk", 2147483646, PE_LIMIT, "eps" },
        { "weisfeiler_lehman", "rounds=1000", 2147483646, PE_LIMIT, "rounds" },
        { "shortest_path", "", 2147483646, PE_LIMIT, "graph.num_nodes" },
        { "laplacian_matrix", "nodes=0,1", 2147483646, PE_LIMIT, "graph.num_nodes" },
    };
    for (size_t i = 0; i < PE_LEN(asked); i++) {
        const int64_t s[] = { 0, 1 }, t[] = { 1, 2 };
        const posenc_edges e = { .num_nodes = asked[i].nodes, .nedges = 2, .source = s, .target = t, .directed = true };
        posenc_arena *a = posenc_arena_new(1 << 20);
        posenc_request r;
        posenc_error err = { 0 };
        ck_assert(!posenc_request_init(&r, asked[i].encoding, a, &err) && !posenc_request_parse(&r, asked[i].query, &err));
        ck_assert(!posenc_graph_build(&e, a, &r.graph, &err));
        const posenc_status st = posenc_resolve(&r, &err);
        ck_assert_msg(st == asked[i].want && !strcmp(err.fault[0].field, asked[i].field), "%s: %s %s", asked[i].encoding,
                      posenc_status_name(st), err.fault[0].field);
        posenc_arena_free(a);
    }
}
END_TEST

/* ---- memory ---- */

/* Shapes that encodings hold very different things of. */
static graph *shape(char kind)
{
    enum { NODES = 420 };
    graph *g = kind == 's' ? star(NODES) : kind == 'p' ? path(NODES) : kind == 'c' ? cycle(NODES) : new_graph(NODES);
    for (int64_t v = 0; v < NODES; v++) {
        if (kind == 'g' && v % 30)
            add(g, v - 1, v);
        if (kind == 'g' && v >= 30)
            add(g, v - 30, v);
        for (int i = 0; kind == 'r' && i < 2; i++)
            add(g, v, any(NODES));
        for (int i = 0; kind == 'b' && v && i < 8; i++) /* joined to the ends of edges that are there: hubs */
            add(g, v, g->e.nedges ? g->s[any(g->e.nedges)] / (1 + i % 2) : 0);
        if (kind == 'm' && v % 20)
            add(g, v, v - v % 20);
        if (kind == 'l' && v) /* a clique of a hundred with a tail */
            for (int64_t u = v < 100 ? 0 : v - 1; u < v; u++)
                add(g, u, v);
    }
    return g;
}

static const char *const asked[][2] = {
    { "laplacian", "k=8" },
    { "laplacian", "k=8&normalization=none" },
    { "magnetic_laplacian", "k=4" },
    { "svd", "k=4" },
    { "lambda_max", "" },
    { "lambda_max", "normalization=none" },
    { "random_walk", "walk_length=6" },
    { "random_walk", "walk_length=6&method=probe&num_probes=8" },
    { "personalized_pagerank", "output=topk&eps=1e-2" },
    { "personalized_pagerank", "output=rows&sources=0,1&normalization=row&dangling=uniform" },
    { "heat_kernel", "kernel_times=0.01&normalization=sym" },
    { "heat_kernel", "kernel_times=0.01&normalization=sym&method=probe&num_probes=8" },
    { "electrostatic", "method=probe&num_probes=16" },
    { "degree", "" },
    { "local_degree_profile", "" },
    { "shortest_path", "root=0&path_length=4&return_paths=true" },
    { "anchor_distance", "" },
    { "weisfeiler_lehman", "" },
    { "double_radius_node_labeling", "src=0&dst=1" },
    { "laplacian_matrix", "nodes=0,1" },
};

/* What is held beside the result at any moment is no more than was told, and that no more than 64 times as much, but for
 * room for a cluster of all vectors. */
START_TEST(memory_as_told)
{
    static const char kinds[] = "spcgrbml";
    for (const char *kind = kinds; *kind; kind++) {
        if (strchr("l", *kind) && (!strcmp(asked[_i][0], "svd") || !strcmp(asked[_i][0], "magnetic_laplacian")))
            continue; /* ten seconds of the dense solver */
        graph *g = shape(*kind);
        posenc_arena *a = posenc_arena_new(1 << 28);
        posenc_request r;
        posenc_error err = { 0 };
        char text[500];
        ck_assert(!posenc_request_init(&r, asked[_i][0], a, &err) && !posenc_request_parse(&r, asked[_i][1], &err));
        ck_assert(!posenc_graph_build(&g->e, a, &r.graph, &err) && !posenc_resolve(&r, &err));
        posenc_result out = r.shape;
        for (int i = 0; i < out.ntensors; i++)
            out.tensor[i].data = posenc_alloc(a, posenc_tensor_size(&out.tensor[i]) + 1);
        alloc_count();
        const posenc_status st = posenc_compute(&r, &out, NULL, &err);
        const double held = (double)alloc_peak(), told = (double)r.cost.scratch;
        ck_assert_msg(!st, "%c %s %s: %s", *kind, asked[_i][0], asked[_i][1], posenc_error_text(&err, text, sizeof text));
        ck_assert_msg(held <= told && told < 64 * held + 6e7, "%c %s %s: %g bytes told, %g held", *kind, asked[_i][0],
                      asked[_i][1], told, held);
        posenc_arena_free(a);
        free(g);
    }
}
END_TEST

/* Batches of one chunk: molecules, which are solved from their factors; pairs of nodes; nodes alone; webs, larger than what
 * is solved in lanes. */
enum { BATCH_NODES = 16000 };

static void fill_batch(wide *g, char kind, int64_t *ptr)
{
    const int64_t size = kind == 'm' ? 40 : kind == 't' ? 18 : kind == 'w' ? 300 : 32;
    g->e = (posenc_edges){ .num_nodes = BATCH_NODES, .source = g->s, .target = g->t, .ptr = ptr };
    for (int64_t v = 0; v < BATCH_NODES; v++) {
        const int64_t i = v % size;
        if (i == 0 && v + size <= BATCH_NODES)
            ptr[++g->e.ngraphs] = v + size;
        if (kind == '2' ? i % 2 : i && kind != '1')
            join(g, kind == '2' || any(4) ? v - 1 : v - 1 - any(i), v);
        if (kind == 'm' && i % 9 == 6)
            join(g, v - 5, v);
        if (kind == 'w' && i)
            join(g, v - i, v);
    }
    ptr[g->e.ngraphs] = BATCH_NODES;
}

static const char *const asked_of_batches[][2] = {
    { "laplacian", "k=8" },
    { "laplacian", "k=8&normalization=none&skip=all_zero" },
    { "laplacian", "k=32&skip=none" },
    { "heat_kernel", "kernel_times=0.5" },
    { "svd", "k=20" },
};

START_TEST(memory_of_a_batch)
{
    static const char kinds[] = "mt12w";
    for (const char *kind = kinds; *kind; kind++) {
        if (*kind == 'w' && !strcmp(asked_of_batches[_i][0], "svd"))
            continue; /* seconds of the dense solver */
        wide *g = calloc(1, sizeof *g);
        int64_t *ptr = calloc(BATCH_NODES, sizeof *ptr);
        posenc_arena *a = posenc_arena_new(1 << 28);
        posenc_request r;
        posenc_error err = { 0 };
        char text[500];
        ck_assert(g && ptr && a);
        fill_batch(g, *kind, ptr);
        ck_assert(!posenc_request_init(&r, asked_of_batches[_i][0], a, &err) &&
                  !posenc_request_parse(&r, asked_of_batches[_i][1], &err));
        ck_assert(!posenc_graph_build(&g->e, a, &r.graph, &err) && !posenc_resolve(&r, &err));
        posenc_result out = r.shape;
        for (int i = 0; i < out.ntensors; i++)
            out.tensor[i].data = posenc_alloc(a, posenc_tensor_size(&out.tensor[i]) + 1);
        alloc_count();
        const posenc_status st = posenc_compute(&r, &out, NULL, &err);
        const double held = (double)alloc_peak(), told = (double)r.cost.scratch;
        ck_assert_msg(!st, "%c %s: %s", *kind, asked_of_batches[_i][1], posenc_error_text(&err, text, sizeof text));
        ck_assert_msg(held <= told, "%c %s %s: %g bytes told, %g held", *kind, asked_of_batches[_i][0],
                      asked_of_batches[_i][1], told, held);
        posenc_arena_free(a);
        free(ptr);
        free(g);
    }
}
END_TEST

/* 400 molecules of 40 nodes: seconds measured on one core; what is said may be five times more or less. */
static const struct {
    const char *encoding, *query;
    double seconds;
} measured_batches[] = {
    { "laplacian", "k=8", 0.0067 },
    { "svd", "k=8", 0.031 },
    { "magnetic_laplacian", "q=0.1", 0.07 },
    { "random_walk", "walk_length=20", 0.004 },
    { "personalized_pagerank", "output=diag", 0.02 },
    { "electrostatic", "", 0.006 },
    { "heat_kernel", "kernel_times=1,5", 0.05 },
};

START_TEST(near_what_batches_took)
{
    wide *g = calloc(1, sizeof *g);
    int64_t *ptr = calloc(BATCH_NODES, sizeof *ptr);
    ck_assert(g && ptr);
    fill_batch(g, 'm', ptr);
    const double said = 1e-9 * cost_of(measured_batches[_i].encoding, measured_batches[_i].query, &g->e),
                 was = measured_batches[_i].seconds;
    ck_assert_msg(said < 5 * was && said > was / 5, "%s: %g s, measured %g s", measured_batches[_i].encoding, said, was);
    free(ptr);
    free(g);
}
END_TEST

/* A grid is as plain as a graph can be: a transpose, weights or repeated edges are reckoned with where they can be. */
START_TEST(memory_of_degree)
{
    wide *g = wide_graph('g');
    posenc_arena *a = posenc_arena_new(1 << 26);
    posenc_request r;
    posenc_error err = { 0 };
    ck_assert(!posenc_request_init(&r, "degree", a, &err) && !posenc_graph_build(&g->e, a, &r.graph, &err) &&
              !posenc_resolve(&r, &err));
    ck_assert_uint_lt(r.cost.scratch, 50 * N + 70 * (uint64_t)g->e.nedges);
    posenc_arena_free(a);
    free(g);
}
END_TEST

/* sym of a bipartite component is known: no solver is reckoned with; a triangle on the path changes that. */
START_TEST(colours_cost_nothing)
{
    graph *g = path(20000);
    ck_assert_double_lt(cost_of("lambda_max", "", &g->e), 5e6);
    ck_assert_double_gt(cost_of("lambda_max", "normalization=none", &g->e), 5e7);
    add(g, 0, 2);
    ck_assert_double_gt(cost_of("lambda_max", "", &g->e), 5e7);
    free(g);
    g = cycle(1000);
    ck_assert_double_lt(cost_of("lambda_max", "", &g->e), 1e6);
    free(g);
    g = cycle(1001);
    ck_assert_double_gt(cost_of("lambda_max", "", &g->e), 1e6);
    free(g);
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
    tcase_add_test(c, too_many_to_plan);
    tcase_add_loop_test(c, near_what_batches_took, 0, (int)PE_LEN(measured_batches));
    tcase_add_test(c, memory_of_a_star);
    tcase_add_test(c, memory_of_degree);
    tcase_add_loop_test(c, memory_as_told, 0, (int)PE_LEN(asked));
    tcase_add_loop_test(c, memory_of_a_batch, 0, (int)PE_LEN(asked_of_batches));
    tcase_add_test(c, colours_cost_nothing);
    suite_add_tcase(s, c);
    return s;
}
