/* test_small_kernels.c - kernels of small graphs by every instruction set; the matrix that takes no allocation; searches
 * from many sources, abreast and one after another; large graphs on several threads. */
#include "core/lanes.h"
#include "graph/paths.h"
#include "graph/returns.h"
#include "graph/simple.h"
#include "paths.h"
#include "pool.h"
#include "simd.h"

Suite *small_kernels_suite(void);

static const pe_csr_options plain_options = { .self_loops = PE_LOOPS_KEEP };

static const posenc_graph *built(const net *g, posenc_arena *a)
{
    const posenc_graph *out = NULL;
    posenc_error err = { 0 };
    ck_assert(!posenc_graph_build(&g->e, a, &out, &err));
    return out;
}

/* ---- the same bits ---- */

static const struct {
    int64_t n, m;
} sizes[] = { { 1, 0 }, { 2, 1 }, { 7, 9 }, { 31, 40 }, { 33, 60 }, { 64, 63 }, { 65, 300 }, { 126, 140 } };

START_TEST(returns_by_every_path)
{
    net *g = net_er(sizes[_i].n, sizes[_i].m, false, false, 40 + (uint64_t)_i);
    posenc_arena *arena = posenc_arena_new(1 << 24);
    const int64_t n = sizes[_i].n, last = 9;
    pe_simple *s = malloc(sizeof *s);
    pe_pace pace = { 0 };
    double *scratch = malloc(pe_returns_scratch(n) * sizeof *scratch), want[9 * PE_RETURNS], got[9 * PE_RETURNS];
    ck_assert(scratch && s && pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    for (int64_t u = 0; u < n; u += PE_RETURNS) {
        const int64_t count = n - u < PE_RETURNS ? n - u : PE_RETURNS, lanes = pe_returns_lanes(count);
        for (pe_path path = PE_PATH_BASE; path <= simd_widest(); path++) {
            simd_choose(path);
            ck_assert(!pe_returns(&s->csr, u, count, last, scratch, path == PE_PATH_BASE ? want : got, &pace));
            if (path == PE_PATH_BASE)
                continue;
            ck_assert_mem_eq(got, want, (size_t)(last * lanes) * sizeof *got);
        }
        for (int64_t i = 0; i < count; i++) { /* alone or in company */
            ck_assert(!pe_returns(&s->csr, u + i, 1, last, scratch, got, &pace));
            for (int64_t t = 0; t < last; t++)
                ck_assert(got[t * 8] == want[t * lanes + i]);
        }
    }
    free(scratch);
    free(s);
    posenc_arena_free(arena);
    net_free(g);
}
END_TEST

START_TEST(pairs_by_every_path)
{
    net *g = net_er(sizes[_i].n, sizes[_i].m, false, false, 60 + (uint64_t)_i);
    posenc_arena *arena = posenc_arena_new(1 << 24);
    const int64_t n = sizes[_i].n, width = pe_pairs_width(n);
    const posenc_graph *graph = built(g, arena);
    pe_lower *lower = malloc(sizeof *lower);
    pe_pace pace = { 0 };
    double *d = net_floyd(g, false);
    uint8_t *bytes = malloc((size_t)(n * width));
    uint16_t *words = malloc((size_t)(n * width) * sizeof *words);
    ck_assert(lower && bytes && words);
    pe_lower_list(lower, graph->source, graph->target, graph->arcs, 0, n);
    for (pe_path path = PE_PATH_BASE; path <= simd_widest(); path++) {
        simd_choose(path);
        pe_pairs(lower, n, bytes);
        ck_assert(!pe_wide_pairs(lower, n, words, &pace));
        for (int64_t i = 0; i < n * n; i++) {
            const int64_t at = i / n * width + i % n;
            ck_assert(bytes[at] == (isinf(d[i]) ? PE_PAIRS_NONE : d[i]));
            ck_assert(words[at] == (isinf(d[i]) ? PE_WIDE_PAIRS_NONE : d[i]));
        }
    }
    free(bytes);
    free(words);
    free(d);
    free(lower);
    posenc_arena_free(arena);
    net_free(g);
}
END_TEST

/* ---- the matrix ---- */

/* 0 - 1 - 2, a loop at 1; and what is not plain. */
START_TEST(matrix_of_a_plain_graph)
{
    posenc_arena *arena = posenc_arena_new(1 << 24);
    pe_simple *s = malloc(sizeof *s);
    net *g = net_er(40, 70, false, false, 5);
    net_add(g, 3, 3, 1);
    const posenc_graph *graph = built(g, arena);
    for (int loops = PE_LOOPS_DROP; loops <= PE_LOOPS_KEEP; loops++) {
        pe_csr_options o = plain_options;
        pe_csr c;
        posenc_error err = { 0 };
        o.self_loops = loops;
        ck_assert(pe_simple_build(graph, 0, loops, s) && !pe_csr_build(graph, 0, &o, &c, NULL, &err));
        ck_assert(c.arcs == s->csr.arcs && c.n == s->csr.n && !c.weight);
        ck_assert_mem_eq(c.ptr, s->csr.ptr, (size_t)(c.n + 1) * sizeof *c.ptr);
        ck_assert_mem_eq(c.col, s->csr.col, (size_t)c.arcs * sizeof *c.col);
        ck_assert_mem_eq(c.degree, s->csr.degree, (size_t)c.n * sizeof *c.degree);
        pe_csr_fini(&c);
    }
    net_add(g, g->s[0], g->t[0], 1); /* twice */
    net_add(g, g->s[0], g->t[0], 1);
    ck_assert(!pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    g->e.nedges -= 2;
    g->w[0] = 2;
    ck_assert(!pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    g->w[0] = 1;
    g->e.directed = true;
    ck_assert(!pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    g->e.directed = false;
    g->e.num_nodes = PE_SIMPLE_NODES + 1;
    ck_assert(!pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    g->e.num_nodes--;
    ck_assert(pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    net_free(g);
    g = net_er(PE_SIMPLE_NODES, PE_SIMPLE_ARCS / 2 + 1, false, false, 2);
    ck_assert(!pe_simple_build(built(g, arena), 0, PE_LOOPS_KEEP, s));
    net_free(g);
    free(s);
    posenc_arena_free(arena);
}
END_TEST

/* Weights of 1 in a weighted batch, edges that are joined to weights of 1: the bytes of the plain graph. */
START_TEST(plain_by_any_way)
{
    net *part[] = { net_er(40, 60, false, false, 8), net_er(30, 50, false, true, 9) };
    net *all = net_batch(part, 2), *twice = net_er(40, 60, false, false, 8);
    net_add(twice, twice->s[0], twice->t[0], 1);
    static const char *const of[][2] = { { "random_walk", "walk_length=9&dtype=float64&duplicate_edges=max" },
                                         { "shortest_path", "duplicate_edges=max&edge_weight=false&max_dist=3" } };
    for (int i = 0; i < 2; i++) {
        posenc_answer a = net_ask(of[i][0], part[0], of[i][1]), b = net_ask(of[i][0], all, of[i][1]),
                      c = net_ask(of[i][0], twice, of[i][1]);
        const posenc_tensor *t = &a.result.tensor[0];
        ck_assert_mem_eq(t->data, b.result.tensor[0].data, posenc_tensor_size(t));
        ck_assert_mem_eq(t->data, c.result.tensor[0].data, posenc_tensor_size(t));
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
        posenc_answer_fini(&c);
    }
    net_free(part[0]);
    net_free(part[1]);
    net_free(all);
    net_free(twice);
}
END_TEST

/* ---- searches ---- */

static void finds_all(const net *g, bool want_abreast, const int32_t *source, int64_t count)
{
    posenc_arena *arena = posenc_arena_new(1 << 26);
    pe_csr c;
    pe_wave w;
    pe_pace pace = { 0 };
    posenc_error err = { 0 };
    ck_assert(!pe_csr_build(built(g, arena), 0, &plain_options, &c, NULL, &err));
    int32_t *first = malloc((size_t)(c.n * count) * sizeof *first);
    uint16_t *told = malloc((size_t)(c.n * count) * sizeof *told), table[1000];
    ck_assert(first && told);
    for (int i = 0; i < 1000; i++)
        table[i] = (uint16_t)(3 * i + 1);
    for (int narrow = 1; narrow >= 0; narrow--) {
        pe_wave_init(&w, &c, narrow);
        int64_t some = count - 1;
        ck_assert(!pe_wave_run(&w, source + 1, &some, &pace, &err)); /* nothing is left of the run before */
        for (int64_t s = 0; s < count; s += some) {
            some = count - s;
            ck_assert(!pe_wave_run(&w, source + s, &some, &pace, &err));
            ck_assert(w.abreast == (!narrow && want_abreast));
            int32_t most = 0;
            for (int64_t i = 0; i < some; i++)
                for (int64_t v = 0; v < c.n; v++) {
                    const int32_t d = pe_wave_steps(&w, i, v);
                    if (narrow)
                        first[(s + i) * c.n + v] = d;
                    ck_assert_int_eq(first[(s + i) * c.n + v], d);
                    most = d > most ? d : most;
                }
            ck_assert_int_eq(w.deepest, most);
            ck_assert_int_eq(pe_wave_steps(&w, 0, source[s]), 0);
            ck_assert(!pe_wave_look_up(&w, some, table, sizeof *table, told, count, 1, &pace));
            ck_assert(told[5 * count + some - 1] == 3 * (pe_wave_steps(&w, some - 1, 5) + 1) + 1);
            ck_assert(!pe_wave_look_up(&w, some, table, sizeof *table, told, 1, c.n, &pace));
            ck_assert(told[(some - 1) * c.n + 5] == 3 * (pe_wave_steps(&w, some - 1, 5) + 1) + 1);
        }
        pe_wave_fini(&w);
    }
    free(first);
    free(told);
    pe_csr_fini(&c);
    posenc_arena_free(arena);
}

START_TEST(abreast_and_one_after_another)
{
    int32_t source[PE_WAVE];
    for (int i = 0; i < PE_WAVE; i++)
        source[i] = i * 13 % 800;
    net *web = net_er(800, 2400, false, false, 3), *road = net_cycle(800);
    web->e.num_nodes = 900; /* with nodes that nothing reaches, of which the first source is one */
    source[0] = 850;
    finds_all(web, true, source, PE_WAVE);
    source[0] = 5;
    finds_all(road, false, source, PE_WAVE);
    net_free(web);
    net_free(road);
}
END_TEST

/* Steps in bytes and in 16 bits: cut, without paths, narrow. */
static const int64_t widths[] = { 24, 32, 50, 126, 127, 300 };

START_TEST(pairs_as_told)
{
    const int64_t n = widths[_i];
    net *g = net_er(n, n + n / 4, false, false, 21);
    double *d = net_floyd(g, false);
    posenc_answer a = net_ask("shortest_path", g, ""), b = net_ask("shortest_path", g, "max_dist=6&drop_beyond=true"),
                  c = net_ask("shortest_path", g, "transform=inverse&max_dist=9&dtype=float64"),
                  e = net_ask("shortest_path", g, "distance_dtype=int16&unreachable=510&max_dist=4"),
                  f = net_ask("shortest_path", g, "distance_dtype=uint8&unreachable=3"),
                  h = net_ask("shortest_path", g, "distance_dtype=int64&max_dist=2000");
    int64_t same = 0;
    for (int64_t i = 0; i < n * n; i++) {
        const bool none = isinf(d[i]);
        ck_assert(net_value(&a, "distances", i) == (none ? -1 : d[i]));
        ck_assert(net_value(&b, "distances", i) == (none || d[i] > 6 ? -1 : d[i]));
        ck_assert(net_value(&c, "distances", i) == (none ? 0 : 1 / (1 + fmin(d[i], 9))));
        ck_assert(net_value(&e, "distances", i) == (none ? 510 : fmin(d[i], 4)));
        ck_assert(net_value(&f, "distances", i) == (none ? 3 : d[i]));
        ck_assert(net_value(&h, "distances", i) == (none ? -1 : d[i]));
        same += d[i] == 3;
    }
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&e);
    ck_assert_int_gt(same, 0);
    ck_assert_msg(f.result.nwarnings == 1 && atoll(f.result.warning[0]) == same, "%s", f.result.warning[0]);
    posenc_answer_fini(&f);
    posenc_answer_fini(&h);
    free(d);
    net_free(g);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 3 };

static void share(void *pool, int64_t n, void (*task)(void *arg, int64_t i), void *arg)
{
    pe_pool_parallel(pool, n, task, arg);
}

static const struct {
    const char *encoding, *query;
    int64_t wide, high; /* a grid: many groups and ranges of rows, searches one after another */
} large[] = {
    { "random_walk", "walk_length=8&dtype=float64", 100, 100 },
    { "random_walk", "walk_length=3&method=probe&num_probes=9", 3, 23000 },
    { "personalized_pagerank", "output=rows&sources=0,40000&alpha=0.9", 3, 23000 },
    { "anchor_distance", "anchor_mode=random&num_anchors=40", 100, 100 },
};

START_TEST(large_graphs_with_any_threads)
{
    const int64_t wide = large[_i].wide, n = wide * large[_i].high;
    net *g = net_new(n);
    pe_pool *pool = pe_pool_new(THREADS, 4);
    posenc_context many = { .parallel = share, .user = pool, .threads = THREADS };
    posenc_answer a = { 0 };
    posenc_error err = { 0 };
    for (int64_t v = 0; v < n; v++) {
        if (v % wide)
            net_add(g, v - 1, v, 1);
        if (v >= wide)
            net_add(g, v - wide, v, 1);
    }
    posenc_answer one = net_ask(large[_i].encoding, g, large[_i].query);
    ck_assert(!posenc_encode(large[_i].encoding, large[_i].query, &g->e, &a, &many, &err));
    for (int i = 0; i < one.result.ntensors; i++)
        ck_assert(!memcmp(one.result.tensor[i].data, a.result.tensor[i].data, posenc_tensor_size(&one.result.tensor[i])));
    posenc_answer_fini(&one);
    posenc_answer_fini(&a);
    pe_pool_free(pool);
    net_free(g);
}
END_TEST

Suite *small_kernels_suite(void)
{
    Suite *s = suite_create("small_kernels");
    TCase *t = tcase_create("small_kernels");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, returns_by_every_path, 0, LEN(sizes));
    tcase_add_loop_test(t, pairs_by_every_path, 0, LEN(sizes));
    tcase_add_test(t, matrix_of_a_plain_graph);
    tcase_add_test(t, plain_by_any_way);
    tcase_add_test(t, abreast_and_one_after_another);
    tcase_add_loop_test(t, pairs_as_told, 0, LEN(widths));
    tcase_add_loop_test(t, large_graphs_with_any_threads, 0, LEN(large));
    suite_add_tcase(s, t);
    return s;
}
