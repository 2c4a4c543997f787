/* test_shortest_path.c - distances against Floyd and Warshall; caps, codes, dtypes, roots, predecessors, batches, refusals.
 */
#include "paths.h"

Suite *shortest_path_suite(void);

#define NAME "shortest_path"

/* ---- values ---- */

static const struct {
    int64_t n, m;
    bool directed, weighted;
} graphs[] = {
    { 0, 0, false, false },     { 1, 0, false, false },     { 2, 0, false, false },    { 2, 1, false, false },
    { 9, 7, false, false },     { 23, 30, false, false },   { 64, 70, false, false },  { 65, 66, true, false },
    { 130, 150, false, false }, { 130, 3000, true, false }, { 200, 260, false, true }, { 70, 200, true, true },
    { 40, 700, false, true },
};

START_TEST(as_floyd_and_warshall)
{
    net *g = net_er(graphs[_i].n, graphs[_i].m, graphs[_i].directed, graphs[_i].weighted, (uint64_t)_i + 1);
    const int64_t n = graphs[_i].n;
    double *d = net_floyd(g, graphs[_i].weighted);
    posenc_answer a = net_ask(NAME, g, "dtype=float64"), b = net_ask(NAME, g, "dtype=float64&transform=inverse");
    const posenc_tensor *t = net_tensor(&a, "distances");
    ck_assert_int_eq(t->dtype, graphs[_i].weighted ? PE_float64 : PE_int32);
    ck_assert(t->rank == 2 && t->shape[0] == n && t->shape[1] == n);
    ck_assert_int_eq(net_tensor(&b, "distances")->dtype, PE_float64);
    for (int64_t i = 0; i < n * n; i++) {
        const double got = posenc_tensor_get(t, i), inverse = net_value(&b, "distances", i);
        if (isinf(d[i])) {
            ck_assert(got == -1 && inverse == 0);
            continue;
        }
        ck_assert_msg(fabs(got - d[i]) <= 1e-13 * d[i], "%d, %d: %g, want %g", (int)(i / n), (int)(i % n), got, d[i]);
        ck_assert(inverse == 1 / (1 + got));
        if (!graphs[_i].directed) /* to the bit */
            ck_assert(got == posenc_tensor_get(t, i % n * n + i / n));
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(d);
    net_free(g);
}
END_TEST

START_TEST(steps_of_a_weighted_graph)
{
    net *g = net_er(30, 60, false, true, 5);
    double *d = net_floyd(g, false);
    g->w[3] = -2; /* not looked at */
    posenc_answer a = net_ask(NAME, g, "edge_weight=false");
    ck_assert_int_eq(net_tensor(&a, "distances")->dtype, PE_int32);
    for (int64_t i = 0; i < 900; i++)
        ck_assert(net_value(&a, "distances", i) == (isinf(d[i]) ? -1 : d[i]));
    posenc_answer_fini(&a);
    net_refused(NAME, g, "", PE_INVALID, "graph.edge_weight[3]");
    free(d);
    net_free(g);
}
END_TEST

/* From node 0 of 0 - 1 - 2 - 3   4. */
START_TEST(caps_and_codes)
{
    static const struct {
        const char *query;
        double want[5];
    } cases[] = {
        { "", { 0, 1, 2, 3, -1 } },
        { "unreachable=510&max_dist=510", { 0, 1, 2, 3, 510 } },
        { "max_dist=2&unreachable=3", { 0, 1, 2, 2, 3 } },
        { "max_dist=2&unreachable=9&drop_beyond=true", { 0, 1, 2, 9, 9 } },
        { "max_dist=3&drop_beyond=true", { 0, 1, 2, 3, -1 } },
        { "drop_beyond=true", { 0, 1, 2, 3, -1 } },
        { "distance_dtype=uint8", { 0, 1, 2, 3, 255 } },
        { "distance_dtype=int64&unreachable=9007199254740992", { 0, 1, 2, 3, 9007199254740992.0 } },
        { "transform=inverse", { 1, 0.5, (double)(1.0f / 3), 0.25, 0 } },
        { "transform=inverse&unreachable=-1", { 1, 0.5, (double)(1.0f / 3), 0.25, -1 } },
        { "transform=inverse&max_dist=1", { 1, 0.5, 0.5, 0.5, 0 } },
        { "transform=inverse&max_dist=1&drop_beyond=true", { 1, 0.5, 0, 0, 0 } },
    };
    net *g = net_path(4);
    char query[200];
    g->e.num_nodes = 5;
    for (size_t i = 0; i < LEN(cases); i++) {
        snprintf(query, sizeof query, "root=0%s%s", cases[i].query[0] ? "&" : "", cases[i].query);
        posenc_answer a = net_ask(NAME, g, query);
        net_values(&a, "distances", 5, cases[i].want);
        posenc_answer_fini(&a);
    }
    net_free(g);
}
END_TEST

/* Lengths near 2^-30 beside 10^30, and of one path only through an edge of 0.1. */
START_TEST(weights_of_all_sizes)
{
    net *g = net_new(5);
    net_add(g, 0, 1, 1e30);
    net_add(g, 1, 2, 1e-9);
    net_add(g, 2, 3, 1e-9);
    net_add(g, 3, 4, 0);
    posenc_answer a = net_ask(NAME, g, "dtype=float64&return_paths=true&max_predecessors=2");
    static const double want[] = { 0, 1e30, 1e30, 1e30, -1 }; /* weight 0: no edge */
    for (int i = 0; i < 5; i++) {
        ck_assert(net_value(&a, "distances", i) == want[i]);
        ck_assert(net_value(&a, "distances", 5 * i) == want[i]);
    }
    ck_assert(net_value(&a, "distances", 5 + 3) == 2e-9);
    /* 1, 2 and 3 are equally far from 0 after rounding, and still a path leads from each back to 0 */
    for (int v = 1; v < 4; v++)
        ck_assert(net_value(&a, "predecessors", 2 * v) == v - 1 && net_value(&a, "predecessors", 2 * v + 1) == -1);
    ck_assert(a.result.nwarnings == 1 && strstr(a.result.warning[0], "1 edge of weight 0"));
    posenc_answer_fini(&a);
    net_refused(NAME, g, "dtype=float16", PE_INVALID, "dtype");
    a = net_ask(NAME, g, "dtype=float16&max_dist=100");
    ck_assert(net_value(&a, "distances", 1) == 100);
    posenc_answer_fini(&a);
    a = net_ask(NAME, g, "dtype=float16&transform=inverse");
    ck_assert(net_value(&a, "distances", 1) == 0); /* 1e-30 */
    posenc_answer_fini(&a);
    net_free(g);

    g = net_path(3);
    g->w[0] = g->w[1] = 1.5e308;
    g->e.directed = true;
    net_refused(NAME, g, "dtype=float64", PE_INVALID, "graph.edge_weight");
    net_free(g);
}
END_TEST

/* A path of 257 nodes has the distance 256, which uint8 does not hold; it is never cut off. */
START_TEST(narrow_dtypes)
{
    net *g = net_path(257);
    net_refused(NAME, g, "distance_dtype=uint8", PE_INVALID, "distance_dtype");
    posenc_answer a = net_ask(NAME, g, "distance_dtype=uint8&max_dist=200"), b = net_ask(NAME, g, "distance_dtype=int16");
    ck_assert_int_eq(net_tensor(&a, "distances")->dtype, PE_uint8);
    ck_assert_int_eq(net_tensor(&b, "distances")->dtype, PE_int16);
    ck_assert(net_value(&a, "distances", 256) == 200 && net_value(&b, "distances", 256) == 256);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    g->e.nedges--;
    a = net_ask(NAME, g, "distance_dtype=uint8"); /* 255 from one end to the other, twice, and no path to the last node */
    ck_assert(net_value(&a, "distances", 255) == 255 && net_value(&a, "distances", 256) == 255);
    ck_assert(a.result.nwarnings == 1 && strstr(a.result.warning[0], "2 distances equal to unreachable = 255"));
    posenc_answer_fini(&a);
    net_free(g);

    g = net_path(40000);
    net_refused(NAME, g, "distance_dtype=int16&root=0", PE_INVALID, "distance_dtype");
    a = net_ask(NAME, g, "root=39999");
    ck_assert(net_value(&a, "distances", 0) == 39999);
    posenc_answer_fini(&a);
    net_free(g);
}
END_TEST

/* ---- roots ---- */

START_TEST(columns_of_roots)
{
    net *g = net_er(90, 130, true, false, 3);
    posenc_answer all = net_ask(NAME, g, ""), some = net_ask(NAME, g, "roots=7,0,89,7"), one = net_ask(NAME, g, "root=7");
    ck_assert_int_eq(net_tensor(&some, "distances")->shape[1], 4);
    ck_assert_int_eq(net_tensor(&one, "distances")->rank, 1);
    static const int64_t root[] = { 7, 0, 89, 7 };
    for (int64_t v = 0; v < 90; v++) {
        for (int64_t i = 0; i < 4; i++)
            ck_assert(net_value(&some, "distances", 4 * v + i) == net_value(&all, "distances", 90 * root[i] + v));
        ck_assert(net_value(&one, "distances", v) == net_value(&all, "distances", 90 * 7 + v));
    }
    posenc_answer_fini(&all);
    posenc_answer_fini(&some);
    posenc_answer_fini(&one);
    net_free(g);
}
END_TEST

/* More than 64 roots: more than one block; 10^5 nodes and 10^6 edges. */
START_TEST(many_roots_of_a_large_graph)
{
    net *g = net_new(100000);
    uint64_t state = 77;
    char query[1000] = "distance_dtype=uint8&roots=0";
    for (int64_t v = 1; v < 100000; v++)
        net_add(g, v, (int64_t)(net_random(&state) % (uint64_t)v), 1);
    while (g->e.nedges < 1000000)
        net_add(g, (int64_t)(net_random(&state) % 100000), (int64_t)(net_random(&state) % 100000), 1);
    for (int i = 1; i < 70; i++)
        snprintf(query + strlen(query), sizeof query - strlen(query), ",%d", 1400 * i);
    posenc_answer a = net_ask(NAME, g, query), b = net_ask(NAME, g, "distance_dtype=uint8&root=96600");
    for (int64_t v = 0; v < 100000; v++) {
        ck_assert(net_value(&a, "distances", 70 * v + 69) == net_value(&b, "distances", v));
        ck_assert(net_value(&b, "distances", v) < 20);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    net_refused(NAME, g, "", PE_LIMIT, "graph.num_nodes");
    net_free(g);
}
END_TEST

/* ---- predecessors ---- */

START_TEST(paths_are_read_backwards)
{
    const bool weighted = _i & 1, directed = _i & 2;
    net *g = net_er(60, directed ? 200 : 110, directed, weighted, 11);
    const int64_t n = 60, most = 30;
    double *arc = malloc((size_t)(n * n) * sizeof *arc);
    ck_assert_ptr_nonnull(arc);
    for (int64_t i = 0; i < n * n; i++)
        arc[i] = (double)INFINITY;
    for (int64_t a = 0; a < g->e.nedges; a++) {
        arc[g->s[a] * n + g->t[a]] = g->w[a];
        if (!directed)
            arc[g->t[a] * n + g->s[a]] = g->w[a];
    }
    posenc_answer a = net_ask(NAME, g, "dtype=float64&return_paths=true&max_predecessors=30"),
                  one = net_ask(NAME, g, "dtype=float64&return_paths=true");
    ck_assert(net_tensor(&a, "predecessors")->rank == 3 && net_tensor(&one, "predecessors")->shape[2] == 1);
    for (int64_t u = 0; u < n; u++)
        for (int64_t v = 0; v < n; v++) {
            const double d = net_value(&a, "distances", u * n + v);
            double length = 0;
            int64_t at = v, hops = 0, count = 0, want = 0;
            while (d >= 0 && at != u && hops++ < n) { /* one path, back from v */
                int64_t before = (int64_t)net_value(&one, "predecessors", u * n + at);
                ck_assert(before >= 0);
                length += arc[before * n + at];
                at = before;
            }
            if (d < 0 || u == v)
                ck_assert(net_value(&one, "predecessors", u * n + v) == -1);
            else
                ck_assert(at == u && fabs(length - d) <= 1e-13 * d);
            for (int64_t w = 0; w < n; w++) /* and all that come just before v */
                want += d > 0 && u != v && net_value(&a, "distances", u * n + w) >= 0 &&
                        fabs(net_value(&a, "distances", u * n + w) + arc[w * n + v] - d) < 1e-13;
            for (int64_t i = 0; i < most; i++) {
                const double w = net_value(&a, "predecessors", (u * n + v) * most + i);
                ck_assert(w == -1 || i == 0 || w > net_value(&a, "predecessors", (u * n + v) * most + i - 1));
                count += w >= 0;
            }
            ck_assert(weighted ? count <= want && (count > 0) == (want > 0) : count == want);
        }
    posenc_answer_fini(&a);
    posenc_answer_fini(&one);
    free(arc);
    net_free(g);
}
END_TEST

START_TEST(predecessors_of_roots_and_dropped_pairs)
{
    net *g = net_cycle(6);
    posenc_answer a = net_ask(NAME, g, "roots=0,3&return_paths=true&max_predecessors=2");
    static const double want[] = { -1, -1, 1, 5, 0, -1, 2, -1, 1, -1, 3, -1, 2, 4, -1, -1, 5, -1, 3, -1, 0, -1, 4, -1 };
    net_values(&a, "predecessors", 24, want);
    posenc_answer_fini(&a);
    a = net_ask(NAME, g, "root=0&return_paths=true&max_dist=1&drop_beyond=true");
    net_values(&a, "predecessors", 6, (const double[]){ -1, 0, -1, -1, -1, 0 });
    posenc_answer_fini(&a);
    a = net_ask(NAME, g, "root=0&return_paths=true&max_dist=1");
    net_values(&a, "predecessors", 6, (const double[]){ -1, 0, 1, 2, 5, 0 });
    posenc_answer_fini(&a);
    net_free(g);
}
END_TEST

/* ---- batches and order ---- */

START_TEST(alone_and_in_a_batch)
{
    static const char *const queries[] = { "", "root=1", "roots=1,0,1", "return_paths=true&max_predecessors=3",
                                           "roots=1,0&return_paths=true&max_predecessors=2" };
    static const char *const names[] = { "distances", "predecessors" };
    net *part[6];
    for (int i = 0; i < 6; i++)
        part[i] = net_er(2 + 15 * i, i ? 3 + 20 * i : 0, _i & 1, false, (uint64_t)i + 9);
    net *g = net_batch(part, 6);
    for (size_t q = 0; q < LEN(queries); q++) {
        posenc_answer all = net_ask(NAME, g, queries[q]);
        size_t at[2] = { 0, 0 };
        for (int i = 0; i < 6; i++) {
            posenc_answer one = net_ask(NAME, part[i], queries[q]);
            for (int k = 0; k < 2; k++) {
                const posenc_tensor *t = net_tensor(&one, names[k]);
                if (!t)
                    continue;
                ck_assert_mem_eq((char *)net_tensor(&all, names[k])->data + at[k], t->data, posenc_tensor_size(t));
                at[k] += posenc_tensor_size(t);
                if (!k && net_tensor(&all, "offsets"))
                    ck_assert(net_value(&all, "offsets", i + 1) == (double)at[0] / 4);
            }
            posenc_answer_fini(&one);
        }
        for (int k = 0; k < 2; k++)
            ck_assert(!at[k] || at[k] == posenc_tensor_size(net_tensor(&all, names[k])));
        ck_assert((net_tensor(&all, "offsets") != NULL) == (q == 0 || q == 3));
        posenc_answer_fini(&all);
    }
    for (int i = 0; i < 6; i++)
        net_free(part[i]);
    net_free(g);
}
END_TEST

START_TEST(one_graph_voids_no_other)
{
    net *part[] = { net_path(3), net_path(300), net_path(2), net_path(1) };
    net *g = net_batch(part, 4);
    posenc_answer a = net_ask(NAME, g, "distance_dtype=uint8&return_paths=true"), b = net_ask(NAME, g, "root=1");
    net_values(&a, "status", 4, (const double[]){ 0, 400, 0, 0 });
    net_values(&b, "status", 4, (const double[]){ 0, 0, 0, 400 });
    ck_assert(net_value(&a, "distances", 2) == 2 && net_value(&a, "distances", 9 + 90000 + 1) == 1);
    for (int i = 0; i < 90000; i++)
        ck_assert(net_value(&a, "distances", 9 + i) == 0 && net_value(&a, "predecessors", 9 + i) == -1);
    ck_assert(net_value(&b, "distances", 303) == 1 && net_value(&b, "distances", 305) == -1);
    ck_assert(strstr(a.result.warning[0], "graph 1: distance_dtype: a type that holds the distance"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    for (int i = 0; i < 4; i++)
        net_free(part[i]);
    net_free(g);
}
END_TEST

START_TEST(names_do_not_matter)
{
    const bool weighted = _i & 1;
    net *g = net_er(50, 80, _i & 2, weighted, 21);
    int64_t name[50], same[50];
    for (int64_t i = 0; i < 50; i++) {
        name[i] = (i * 17 + 5) % 50;
        same[i] = i;
    }
    net *h = net_renamed(g, name), *back = net_renamed(g, same);
    posenc_answer a = net_ask(NAME, g, "dtype=float64"), b = net_ask(NAME, h, "dtype=float64"),
                  c = net_ask(NAME, back, "dtype=float64");
    net_same(&a, &c);
    ck_assert_str_eq(a.request.digest, c.request.digest);
    for (int64_t i = 0; i < 2500; i++) {
        const double x = net_value(&a, "distances", i), y = net_value(&b, "distances", name[i / 50] * 50 + name[i % 50]);
        ck_assert(weighted ? fabs(x - y) <= 1e-13 * fabs(x) : x == y);
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    net_free(g);
    net_free(h);
    net_free(back);
}
END_TEST

START_TEST(loops_and_parallel_edges)
{
    net *g = net_path(3);
    net_add(g, 1, 1, 1);
    net_add(g, 0, 1, 1);
    posenc_answer a = net_ask(NAME, g, "self_loops=keep&return_paths=true&max_predecessors=2"), b = net_ask(NAME, g, "");
    net_values(&a, "distances", 9, (const double[]){ 0, 1, 2, 1, 0, 1, 2, 1, 0 });
    net_values(&b, "distances", 9, (const double[]){ 0, 1, 2, 1, 0, 1, 2, 1, 0 });
    net_values(&a, "predecessors", 18, (const double[]){ -1, -1, 0, -1, 1, -1, 1, -1, -1, -1, 1, -1, 1, -1, 2, -1, -1, -1 });
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    net_refused(NAME, g, "duplicate_edges=error", PE_INVALID, "graph.edge_index[1][3]");
    g->w[0] = 2; /* 0 - 1 twice: 2 and 1 */
    a = net_ask(NAME, g, "");
    b = net_ask(NAME, g, "duplicate_edges=max");
    ck_assert(net_value(&a, "distances", 1) == 3 && net_value(&b, "distances", 1) == 2);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    net_free(g);
}
END_TEST

/* ---- the whole answer ---- */

START_TEST(keys_are_requests)
{
    static const char *const queries[] = { "", "max_dist=5&unreachable=6", "roots=0,1&distance_dtype=uint8",
                                           "root=2&transform=inverse&drop_beyond=true&max_dist=2",
                                           "return_paths=true&max_predecessors=2" };
    net *g = net_cycle(5);
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
        { "max_dist=0", "max_dist" },
        { "max_dist=1.5", "max_dist" },
        { "max_dist=-1", "max_dist" },
        { "unreachable=-1&distance_dtype=uint8", "unreachable" },
        { "unreachable=256&distance_dtype=uint8", "unreachable" },
        { "unreachable=32768&distance_dtype=int16", "unreachable" },
        { "unreachable=-2147483649", "unreachable" },
        { "unreachable=70000&transform=inverse&dtype=float16", "unreachable" },
        { "unreachable=257&transform=inverse&dtype=bfloat16", "unreachable" },
        { "distance_dtype=uint8&transform=inverse", "distance_dtype" },
        { "distance_dtype=float32", "distance_dtype" },
        { "root=5", "root" },
        { "roots=0,5", "roots[1]" },
        { "roots=0.5", "roots[0]" },
        { "roots=-1", "roots[0]" },
        { "root=1&roots=2", "roots" },
        { "max_predecessors=2", "max_predecessors" },
        { "max_predecessors=0", "max_predecessors" },
        { "transform=square", "transform" },
        { "max_dist=0&root=9&distance_dtype=int16&transform=inverse", "max_dist root distance_dtype" },
        { "directed=true", "directed" },
    };
    net *g = net_path(5);
    for (size_t i = 0; i < LEN(cases); i++)
        net_refused(NAME, g, cases[i].query, PE_INVALID, cases[i].fields);
    net_add(g, 1, 0, 1);
    net_add(g, 1, 0, 1);
    net_refused(NAME, g, "", PE_INVALID, "graph.edge_index[1][5]");
    net_free(g);
    g = net_new(0);
    net_refused(NAME, g, "root=0", PE_INVALID, "root");
    net_free(g);
    g = net_new(2147483646);
    net_refused(NAME, g, "", PE_LIMIT, "graph.num_nodes");
    net_free(g);
}
END_TEST

/* Stops at the n-th look. */
static posenc_status stop_at(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops_when_asked)
{
    net *g = net_er(600, 1500, false, _i, 2);
    int looks = 0, asked = 0;
    posenc_context ctx = { .stop = stop_at, .user = &looks };
    posenc_status st = PE_CANCELLED;
    for (; st == PE_CANCELLED && asked < 10000; asked += 1 + asked / 8) {
        posenc_answer a;
        looks = asked;
        st = posenc_encode(NAME, "return_paths=true", &g->e, &a, &ctx, NULL);
        if (!st)
            posenc_answer_fini(&a);
    }
    ck_assert_int_eq(st, PE_OK);
    ck_assert_int_gt(asked, 4);
    net_free(g);
}
END_TEST

/* Of a batch with weights a graph whose own are all 1 is what it is alone: parallel edges make no edge longer. */
START_TEST(ones_in_a_batch)
{
    static const char *const encodings[] = { "shortest_path", "anchor_distance" };
    static const int64_t s[] = { 0, 0, 1, 3 }, t[] = { 1, 1, 2, 4 }, ptr[] = { 0, 3, 5 };
    static const double w[] = { 1, 1, 1, 2.5 };
    const posenc_edges
        both = { .num_nodes = 5, .nedges = 4, .source = s, .target = t, .weight = w, .ptr = ptr, .ngraphs = 2 },
        own = { .num_nodes = 3, .nedges = 3, .source = s, .target = t, .weight = w };
    for (int k = 0; k < 2; k++) {
        posenc_answer a, b;
        const char *query = k ? "anchors=0" : "root=0";
        ck_assert(!posenc_encode(encodings[k], query, &both, &a, NULL, NULL));
        ck_assert(!posenc_encode(encodings[k], query, &own, &b, NULL, NULL));
        for (int64_t v = 0; v < 3; v++)
            ck_assert_double_eq(posenc_tensor_get(&a.result.tensor[0], v), posenc_tensor_get(&b.result.tensor[0], v));
        ck_assert_double_eq(posenc_tensor_get(&a.result.tensor[0], 4), k ? (float)(1 / 3.5) : 2.5);
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
}
END_TEST

/* ---- edges along paths ---- */

/* The edges of a pair of local nodes lead from u to v, are as many as told or `length`, and weigh what the distance says. */
static void follow(const net *g, const posenc_answer *a, int64_t pair, int64_t base, int64_t u, int64_t v, int64_t length)
{
    const double d = net_value(a, "distances", pair);
    int64_t at = base + u, count = 0;
    double sum = 0;
    for (; count < length; count++) {
        const int64_t e = (int64_t)net_value(a, "path_edges", pair * length + count);
        if (e < 0)
            break;
        const int64_t from = (int64_t)net_value(a, "edges", 2 * e), to = (int64_t)net_value(a, "edges", 2 * e + 1);
        ck_assert_msg(at == from || (!g->e.directed && at == to), "%d -> %d: edge %d", (int)u, (int)v, (int)e);
        double w = INFINITY;
        for (int64_t i = 0; i < g->e.nedges; i++)
            if ((g->s[i] == from && g->t[i] == to) || (!g->e.directed && g->s[i] == to && g->t[i] == from))
                w = g->e.weight ? g->w[i] : 1;
        sum += w;
        at = at == from ? to : from;
    }
    for (int64_t rest = count; rest < length; rest++)
        ck_assert(net_value(a, "path_edges", pair * length + rest) == -1);
    if (d < 0 || u == v) {
        ck_assert_int_eq(count, 0);
    } else if (count < length) {
        ck_assert_int_eq(at, base + v);
        ck_assert_double_eq_tol(sum, d, 1e-9 * d);
    } else {
        ck_assert_double_le(sum, d * (1 + 1e-9));
    }
}

START_TEST(edges_along_paths)
{
    const bool directed = _i & 1, weighted = _i & 2;
    net *part[] = { net_er(14, 24, directed, weighted, (uint64_t)_i + 7),
                    net_er(9, 9, directed, weighted, (uint64_t)_i + 9) };
    net *both = net_batch(part, 2);
    for (int64_t length = 2; length < 20; length += 9) {
        char query[100];
        sprintf(query, "path_length=%d&dtype=float64", (int)length);
        posenc_answer a = net_ask(NAME, both, query), c;
        const int64_t sizes[] = { 14, 9 };
        for (int64_t g = 0, pair = 0, base = 0; g < 2; base += sizes[g++])
            for (int64_t u = 0; u < sizes[g]; u++)
                for (int64_t v = 0; v < sizes[g]; v++)
                    follow(both, &a, pair++, base, u, v, length);
        posenc_answer_fini(&a);
        sprintf(query, "path_length=%d&dtype=float64&roots=3,0", (int)length);
        a = net_ask(NAME, part[0], query);
        sprintf(query, "path_length=%d&dtype=float64&root=3", (int)length);
        c = net_ask(NAME, part[0], query);
        for (int64_t v = 0; v < 14; v++) {
            follow(part[0], &a, 2 * v, 0, 3, v, length);
            follow(part[0], &a, 2 * v + 1, 0, 0, v, length);
            for (int64_t k = 0; k < length; k++)
                ck_assert(net_value(&c, "path_edges", v * length + k) == net_value(&a, "path_edges", 2 * v * length + k));
        }
        posenc_answer_fini(&a);
        posenc_answer_fini(&c);
    }
    net_free(part[0]);
    net_free(part[1]);
    net_free(both);
}
END_TEST

/* Numbers do not depend on the order of the list; cut off beyond max_dist with drop_beyond; parallel edges and ones of
 * weight 0; refused where all pairs would not fit. */
START_TEST(numbers_of_edges)
{
    net *g = net_new(4);
    net_add(g, 3, 2, 1);
    net_add(g, 1, 0, 0);
    net_add(g, 2, 1, 2);
    net_add(g, 0, 1, 5);
    posenc_answer a = net_ask(NAME, g, "root=0&path_length=3&duplicate_edges=max&symmetrize=max&dtype=float64");
    net_values(&a, "edges", 8, (const double[]){ 0, 1, 1, 0, 1, 2, 2, 3 });
    net_values(&a, "path_edges", 12, (const double[]){ -1, -1, -1, 0, -1, -1, 0, 2, -1, 0, 2, 3 });
    posenc_answer_fini(&a);
    a = net_ask(NAME, g, "root=0&path_length=3&symmetrize=max&max_dist=6&drop_beyond=true&dtype=float64");
    net_values(&a, "path_edges", 12, (const double[]){ -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1 });
    posenc_answer_fini(&a);
    net_free(g);
    g = net_new(30000);
    net_refused(NAME, g, "path_length=5", PE_LIMIT, "graph.num_nodes");
    net_free(g);
}
END_TEST

Suite *shortest_path_suite(void)
{
    Suite *s = suite_create(NAME);
    TCase *t = tcase_create(NAME);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, as_floyd_and_warshall, 0, (int)LEN(graphs));
    tcase_add_test(t, steps_of_a_weighted_graph);
    tcase_add_test(t, ones_in_a_batch);
    tcase_add_test(t, caps_and_codes);
    tcase_add_test(t, weights_of_all_sizes);
    tcase_add_test(t, narrow_dtypes);
    tcase_add_test(t, columns_of_roots);
    tcase_add_test(t, many_roots_of_a_large_graph);
    tcase_add_loop_test(t, paths_are_read_backwards, 0, 4);
    tcase_add_test(t, predecessors_of_roots_and_dropped_pairs);
    tcase_add_loop_test(t, alone_and_in_a_batch, 0, 2);
    tcase_add_test(t, one_graph_voids_no_other);
    tcase_add_loop_test(t, names_do_not_matter, 0, 4);
    tcase_add_test(t, loops_and_parallel_edges);
    tcase_add_test(t, keys_are_requests);
    tcase_add_test(t, refusals);
    tcase_add_loop_test(t, stops_when_asked, 0, 2);
    tcase_add_loop_test(t, edges_along_paths, 0, 4);
    tcase_add_test(t, numbers_of_edges);
    suite_add_tcase(s, t);
    return s;
}
