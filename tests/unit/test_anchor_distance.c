/* test_anchor_distance.c - closeness against Floyd and Warshall; which anchors each mode takes; batches and refusals. */
#include "paths.h"

Suite *anchor_distance_suite(void);

#define NAME "anchor_distance"

/* ---- given sets ---- */

static const int64_t anchors[] = { 3, 17, 3, 0, 29, 12, 11, 10, 5 }, begin[] = { 0, 2, 3, 9 };
#define SETS "anchors=3,17,3,0,29,12,11,10,5&anchor_ptr=0,2,3,9"

START_TEST(nearest_of_each_set)
{
    const bool weighted = _i & 1, directed = _i & 2;
    net *g = net_er(30, 45, directed, weighted, 4);
    double *d = net_floyd(g, weighted);
    posenc_answer a = net_ask(NAME, g, SETS "&dtype=float64"), b = net_ask(NAME, g, SETS "&dtype=float64&transform=dist");
    for (int64_t v = 0; v < 30; v++)
        for (int64_t j = 0; j < 3; j++) {
            double best = (double)INFINITY;
            int64_t who = -1;
            for (int64_t i = begin[j]; i < begin[j + 1]; i++) {
                const double to = d[v * 30 + anchors[i]];
                if (to < best - 1e-12 || (fabs(to - best) <= 1e-12 && anchors[i] < who)) {
                    best = to;
                    who = anchors[i];
                }
            }
            const double near = net_value(&a, "encoding", 3 * v + j), far = net_value(&b, "encoding", 3 * v + j);
            if (isinf(best))
                ck_assert(near == 0 && far == -1);
            else
                ck_assert(fabs(far - best) <= 1e-13 * best && near == 1 / (1 + far));
            const int64_t got = (int64_t)net_value(&a, "argmax", 3 * v + j);
            if (weighted && who >= 0) /* sums of tenths tie to the last bit or not */
                ck_assert(got >= 0 && fabs(d[v * 30 + got] - best) <= 1e-12);
            else
                ck_assert_msg(got == who, "node %d, set %d: %d, want %d", (int)v, (int)j, (int)got, (int)who);
        }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(d);
    net_free(g);
}
END_TEST

/* 0 - 1 - 2 - 3 - 4   5, anchors 0 and 5. */
START_TEST(caps_and_codes)
{
    static const struct {
        const char *query;
        double want[6], argmax[6];
    } cases[] = {
        { "", { 1, 0.5, (double)(1.0f / 3), 0.25, (double)0.2f, 0 }, { 0, 0, 0, 0, 0, -1 } },
        { "max_dist=2", { 1, 0.5, (double)(1.0f / 3), 0, 0, 0 }, { 0, 0, 0, -1, -1, -1 } },
        { "max_dist=1&drop_beyond=false", { 1, 0.5, 0.5, 0.5, 0.5, 0 }, { 0, 0, 0, 0, 0, -1 } },
        { "transform=dist", { 0, 1, 2, 3, 4, -1 }, { 0, 0, 0, 0, 0, -1 } },
        { "transform=dist&max_dist=3&unreachable=99", { 0, 1, 2, 3, 99, 99 }, { 0, 0, 0, 0, -1, -1 } },
    };
    net *g = net_path(5);
    char query[200];
    g->e.num_nodes = 6;
    for (size_t i = 0; i < LEN(cases); i++) {
        snprintf(query, sizeof query, "anchors=0%s%s", cases[i].query[0] ? "&" : "", cases[i].query);
        posenc_answer a = net_ask(NAME, g, query);
        net_values(&a, "encoding", 6, cases[i].want);
        net_values(&a, "argmax", 6, cases[i].argmax);
        posenc_answer_fini(&a);
    }
    posenc_answer a = net_ask(NAME, g, "anchors=5&anchor_mode=given"); /* a node in no edge is near to itself (P-GNN: 0) */
    net_values(&a, "encoding", 6, (const double[]){ 0, 0, 0, 0, 0, 1 });
    posenc_answer_fini(&a);
    net_free(g);
}
END_TEST

/* Two anchors equally far from the middle: the lower id, also where it is reached later in the search. */
START_TEST(ties_go_to_the_lowest_id)
{
    net *g = net_cycle(6);
    posenc_answer a = net_ask(NAME, g, "anchors=4,2&anchor_ptr=0,2");
    net_values(&a, "argmax", 6, (const double[]){ 2, 2, 2, 2, 4, 4 });
    posenc_answer_fini(&a);
    net_free(g);
    g = net_new(6); /* 5 - 1 - 3 - 4 and 0 - 2 - 3: node 4 is three steps from both 5 and 0 */
    net_add(g, 5, 1, 1);
    net_add(g, 1, 3, 1);
    net_add(g, 3, 4, 1);
    net_add(g, 0, 2, 1);
    net_add(g, 2, 3, 1);
    for (int i = 0; i < 2; i++) {
        a = net_ask(NAME, g, "anchors=5,0&anchor_ptr=0,2&transform=dist");
        net_values(&a, "argmax", 6, (const double[]){ 0, 5, 0, 0, 0, 5 });
        posenc_answer_fini(&a);
        for (int64_t k = 0; k < g->e.nedges; k++)
            g->w[k] = 0.1; /* the same by lengths */
    }
    net_free(g);
}
END_TEST

/* ---- choosing ---- */

/* How many nodes column j is at distance 0 from: the size of its set. */
static int64_t size_of_set(const posenc_answer *a, int64_t n, int64_t sets, int64_t j)
{
    int64_t count = 0;
    for (int64_t v = 0; v < n; v++) {
        const bool in = net_value(a, "encoding", v * sets + j) == 1;
        ck_assert(!in || net_value(a, "argmax", v * sets + j) == (double)v);
        count += in;
    }
    return count;
}

START_TEST(sizes_of_random_sets)
{
    static const struct {
        int64_t n;
        const char *query;
        int64_t m, copies;
    } cases[] = { { 0, "", 0, 0 },
                  { 1, "", 0, 0 },
                  { 2, "", 1, 0 },
                  { 4, "", 2, 1 },
                  { 37, "", 5, 2 },
                  { 64, "", 6, 3 },
                  { 63, "anchor_c=1", 5, 5 },
                  { 16, "anchor_c=0", 4, 0 },
                  { 1000, "seed=5", 9, 4 } };
    for (size_t i = 0; i < LEN(cases); i++) {
        net *g = net_path(cases[i].n);
        posenc_answer a = net_ask(NAME, g, cases[i].query);
        const int64_t sets = cases[i].m * cases[i].copies;
        ck_assert_int_eq(net_tensor(&a, "encoding")->shape[1], sets);
        for (int64_t j = 0; j < sets; j++)
            ck_assert_int_eq(size_of_set(&a, cases[i].n, sets, j), cases[i].n >> (j / cases[i].copies + 1));
        posenc_answer_fini(&a);
        net_free(g);
    }
}
END_TEST

/* Over many seeds every node is as often an anchor as any other: 400 seeds, a half of 8 nodes and 3 of 8. */
START_TEST(every_node_has_its_turn)
{
    net *g = net_path(8);
    int sets[8] = { 0 }, single[8] = { 0 }, first[8] = { 0 };
    char query[100];
    for (int seed = 0; seed < 400; seed++) {
        snprintf(query, sizeof query, "seed=%d", seed);
        posenc_answer a = net_ask(NAME, g, query);
        snprintf(query, sizeof query, "seed=%d&anchor_mode=random&num_anchors=3", seed);
        posenc_answer b = net_ask(NAME, g, query);
        for (int v = 0; v < 8; v++) {
            sets[v] += net_value(&a, "encoding", 3 * v) == 1;
            for (int j = 0; j < 3; j++)
                single[v] += net_value(&b, "encoding", 3 * v + j) == 1;
            first[v] += net_value(&b, "encoding", 3 * v) == 1;
        }
        for (int j = 0; j < 3; j++)
            ck_assert_int_eq(size_of_set(&b, 8, 3, j), 1);
        ck_assert(net_value(&b, "argmax", 0) != net_value(&b, "argmax", 1)); /* without replacement */
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    for (int v = 0; v < 8; v++) { /* five standard deviations: 10, 9.7 and 6.6 */
        ck_assert_int_lt(abs(sets[v] - 200), 50);
        ck_assert_int_lt(abs(single[v] - 150), 49);
        ck_assert_int_lt(abs(first[v] - 50), 34);
    }
    net_free(g);
}
END_TEST

static void expect_anchors(const net *g, const char *query, int64_t count, const int64_t *want)
{
    posenc_answer a = net_ask(NAME, g, query);
    const int64_t sets = net_tensor(&a, "encoding")->shape[1];
    for (int64_t j = 0; j < sets; j++) {
        ck_assert_int_eq(size_of_set(&a, g->e.num_nodes, sets, j), j < count);
        if (j < count)
            ck_assert_msg(net_value(&a, "argmax", want[j] * sets + j) == (double)want[j], "%s: anchor %d is not %d", query,
                          (int)j, (int)want[j]);
    }
    posenc_answer_fini(&a);
}

START_TEST(anchors_by_structure)
{
    net *g = net_path(10);
    expect_anchors(g, "anchor_mode=degree&num_anchors=4", 4, (const int64_t[]){ 1, 2, 3, 4 });
    expect_anchors(g, "anchor_mode=farthest&num_anchors=5", 5, (const int64_t[]){ 1, 9, 5, 3, 7 });
    net_add(g, 7, 2, 1);
    net_add(g, 7, 5, 1);
    expect_anchors(g, "anchor_mode=degree&num_anchors=3", 3, (const int64_t[]){ 7, 2, 5 });
    g->e.num_nodes = 12; /* two nodes that are never reached come before all others */
    expect_anchors(g, "anchor_mode=farthest&num_anchors=4", 4, (const int64_t[]){ 7, 10, 11, 0 });
    net_free(g);

    g = net_new(4); /* arcs in and out count alike */
    g->e.directed = true;
    net_add(g, 0, 3, 1);
    net_add(g, 1, 3, 1);
    net_add(g, 2, 0, 1);
    expect_anchors(g, "anchor_mode=degree&num_anchors=2", 2, (const int64_t[]){ 0, 3 });
    net_free(g);

    g = net_path(3); /* more anchors than nodes */
    expect_anchors(g, "anchor_mode=farthest&num_anchors=5", 3, (const int64_t[]){ 1, 0, 2 });
    posenc_answer a = net_ask(NAME, g, "anchor_mode=degree&num_anchors=4&transform=dist&unreachable=7");
    net_values(&a, "encoding", 12, (const double[]){ 1, 0, 2, 7, 0, 1, 1, 7, 1, 2, 0, 7 });
    net_values(&a, "argmax", 12, (const double[]){ 1, 0, 2, -1, 1, 0, 2, -1, 1, 0, 2, -1 });
    posenc_answer_fini(&a);
    net_free(g);
}
END_TEST

/* ---- batches ---- */

START_TEST(alone_and_in_a_batch)
{
    static const char *const queries[] = { "seed=3", "anchor_mode=random&num_anchors=4", "anchor_mode=degree&num_anchors=4",
                                           "anchor_mode=farthest&num_anchors=4", "anchors=0,1&anchor_ptr=0,2" };
    net *part[] = { net_er(20, 30, false, false, 1), net_path(2), net_er(40, 50, false, false, 2), net_path(3) };
    net *g = net_batch(part, 4);
    for (size_t q = 0; q < LEN(queries); q++) {
        posenc_answer all = net_ask(NAME, g, queries[q]);
        const int64_t wide = net_tensor(&all, "encoding")->shape[1];
        for (int64_t i = 0; i < 4; i++) {
            posenc_answer one = net_ask(NAME, part[i], queries[q]);
            const int64_t own = net_tensor(&one, "encoding")->shape[1];
            ck_assert_int_le(own, wide);
            for (int64_t v = 0; v < part[i]->e.num_nodes; v++)
                for (int64_t j = 0; j < wide; j++) {
                    const int64_t at = (g->ptr[i] + v) * wide + j;
                    ck_assert(net_value(&all, "encoding", at) == (j < own ? net_value(&one, "encoding", v * own + j) : 0));
                    ck_assert(net_value(&all, "argmax", at) == (j < own ? net_value(&one, "argmax", v * own + j) : -1));
                }
            posenc_answer_fini(&one);
        }
        posenc_answer_fini(&all);
    }
    posenc_answer a = net_ask(NAME, g, "anchors=2");
    net_values(&a, "status", 4, (const double[]){ 0, 400, 0, 0 });
    ck_assert(isnan(net_value(&a, "encoding", 20)) && net_value(&a, "argmax", 21) == -1);
    ck_assert(net_value(&a, "encoding", 64) == 1);
    posenc_answer_fini(&a);
    for (int i = 0; i < 4; i++)
        net_free(part[i]);
    net_free(g);
}
END_TEST

START_TEST(large_graph)
{
    net *g = net_new(100000);
    uint64_t state = 9;
    while (g->e.nedges < 1000000)
        net_add(g, (int64_t)(net_random(&state) % 100000), (int64_t)(net_random(&state) % 99990), 1);
    posenc_answer a = net_ask(NAME, g, "dtype=float16");
    ck_assert_int_eq(net_tensor(&a, "encoding")->shape[1], 16 * 8);
    ck_assert_int_eq(size_of_set(&a, 100000, 128, 127), 100000 >> 16);
    posenc_answer_fini(&a);
    net_free(g);
}
END_TEST

/* ---- the whole answer ---- */

START_TEST(keys_are_requests)
{
    static const char *const queries[] = { "", "anchors=0,1,2&anchor_ptr=0,1,3&transform=dist&max_dist=2",
                                           "anchor_mode=farthest&num_anchors=2&unreachable=-1" };
    net *g = net_cycle(9);
    for (size_t i = 0; i < LEN(queries); i++) {
        posenc_answer a = net_ask(NAME, g, queries[i]);
        const char *key = strchr(a.request.key, ' ') + 1, *end = strstr(key, " graph=");
        char query[1000];
        ck_assert_ptr_nonnull(end);
        snprintf(query, sizeof query, "%.*s", (int)(end - key), key);
        posenc_answer b = net_ask(NAME, g, query);
        ck_assert_str_eq(a.request.digest, b.request.digest);
        net_same(&a, &b);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    net_free(g);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *query, *fields;
    } cases[] = {
        { "anchor_mode=given", "anchors" },
        { "anchors=0,5", "anchors[1]" },
        { "anchors=0.5", "anchors[0]" },
        { "anchors=0,1&anchor_ptr=1,2", "anchor_ptr[0]" },
        { "anchors=0,1&anchor_ptr=0,1", "anchor_ptr[1]" },
        { "anchors=0,1&anchor_ptr=0,0,2", "anchor_ptr[1]" },
        { "anchors=0,1&anchor_ptr=0,3", "anchor_ptr[1]" },
        { "anchors=0,1&anchor_ptr=0,0.5,2", "anchor_ptr[1]" },
        { "anchor_ptr=0,1", "anchor_ptr" },
        { "anchor_mode=degree&anchors=1", "anchors" },
        { "num_anchors=3", "num_anchors" },
        { "anchors=1&num_anchors=3", "num_anchors" },
        { "anchor_mode=degree&num_anchors=0", "num_anchors" },
        { "anchor_mode=random&anchor_c=1", "anchor_c" },
        { "anchor_mode=degree&seed=1", "seed" },
        { "max_dist=0", "max_dist" },
        { "max_dist=2.5", "max_dist" },
        { "anchors=9&max_dist=0&anchor_c=1", "max_dist anchor_c anchors[0]" },
    };
    net *g = net_path(5);
    for (size_t i = 0; i < LEN(cases); i++)
        net_refused(NAME, g, cases[i].query, PE_INVALID, cases[i].fields);
    g->w[0] = 1e6;
    net_refused(NAME, g, "anchors=0&transform=dist&dtype=float16", PE_INVALID, "dtype");
    g->w[0] = -1;
    net_refused(NAME, g, "anchors=0", PE_INVALID, "graph.edge_weight[0]");
    posenc_answer a = net_ask(NAME, g, "anchors=0&edge_weight=false&transform=dist");
    net_values(&a, "encoding", 5, (const double[]){ 0, 1, 2, 3, 4 });
    posenc_answer_fini(&a);
    net_free(g);
    g = net_new(0);
    net_refused(NAME, g, "anchors=0", PE_INVALID, "anchors[0]");
    net_free(g);
}
END_TEST

Suite *anchor_distance_suite(void)
{
    Suite *s = suite_create(NAME);
    TCase *t = tcase_create(NAME);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, nearest_of_each_set, 0, 4);
    tcase_add_test(t, caps_and_codes);
    tcase_add_test(t, ties_go_to_the_lowest_id);
    tcase_add_test(t, sizes_of_random_sets);
    tcase_add_test(t, every_node_has_its_turn);
    tcase_add_test(t, anchors_by_structure);
    tcase_add_test(t, alone_and_in_a_batch);
    tcase_add_test(t, large_graph);
    tcase_add_test(t, keys_are_requests);
    tcase_add_test(t, refusals);
    suite_add_tcase(s, t);
    return s;
}
