/* test_graph.c - the normal form of graphs, its errors, and the adjacency matrix. */
#include "core/graph.h"
#include "core/params.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *graph_suite(void);

static posenc_arena *arena;
static posenc_error err;

static void setup(void)
{
    arena = posenc_arena_new(SIZE_MAX / 8);
    err = (posenc_error){ 0 };
}

static void teardown(void) { posenc_arena_free(arena); }

static const posenc_graph *build(posenc_edges e)
{
    const posenc_graph *g = NULL;
    posenc_error local = { 0 };
    char text[512];
    posenc_status st = posenc_graph_build(&e, arena, &g, &local);
    ck_assert_msg(!st, "%s", posenc_error_text(&local, text, sizeof text));
    return g;
}

#define LIST(...) ((const int64_t[]){ __VA_ARGS__ })
#define WEIGHTS(...) ((const double[]){ __VA_ARGS__ })
#define EDGES(n, ...) ((posenc_edges){ .num_nodes = (n), .nedges = __VA_ARGS__ })

static void same(posenc_edges a, posenc_edges b, bool want)
{
    const posenc_graph *x = build(a), *y = build(b);
    ck_assert_int_eq(!strcmp(posenc_graph_id(x), posenc_graph_id(y)), want);
}

/* ---- the normal form ---- */

START_TEST(listing_does_not_show)
{
    const posenc_edges once = EDGES(4, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3));
    same(once, EDGES(4, 3, .source = LIST(3, 0, 2), .target = LIST(2, 1, 1)), true);
    same(once, EDGES(4, 6, .source = LIST(0, 1, 1, 2, 2, 3), .target = LIST(1, 0, 2, 1, 3, 2)), true);
    same(once, EDGES(4, 4, .source = LIST(0, 1, 2, 1), .target = LIST(1, 2, 3, 0)), true); /* one edge in both */
    same(once, EDGES(4, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3), .weight = WEIGHTS(1, 1, 1)), true);
}
END_TEST

START_TEST(content_shows)
{
    const posenc_edges once = EDGES(4, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3));
    same(once, EDGES(5, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3)), false);
    same(once, EDGES(4, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3), .directed = true), false);
    same(once, EDGES(4, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3), .ptr = LIST(0, 4), .ngraphs = 1), false);
    same(once, EDGES(4, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 3), .weight = WEIGHTS(1, 2, 1)), false);
    same(once, EDGES(4, 4, .source = LIST(0, 1, 2, 0), .target = LIST(1, 2, 3, 1)), false); /* a parallel edge */
    same(EDGES(2, 1, .source = LIST(0), .target = LIST(0)), EDGES(2, 2, .source = LIST(0, 0), .target = LIST(0, 0)), false);
    same(EDGES(2, 1, .source = LIST(0), .target = LIST(1), .directed = true),
         EDGES(2, 1, .source = LIST(1), .target = LIST(0), .directed = true), false);
}
END_TEST

START_TEST(weights_and_zeros)
{
    same(EDGES(3, 2, .source = LIST(0, 1), .target = LIST(1, 2), .weight = WEIGHTS(0.0, 2)),
         EDGES(3, 2, .source = LIST(2, 1), .target = LIST(1, 0), .weight = WEIGHTS(2, -0.0)), true);
    const posenc_graph *g = build(EDGES(3, 4, .source = LIST(2, 0, 1, 1), .target = LIST(1, 1, 0, 0),
                                        .weight = WEIGHTS(5, 3, 2, 3), .directed = true));
    ck_assert_int_eq(posenc_graph_edges(g), 4);
    ck_assert_int_eq(g->source[1], 1);
    ck_assert_double_eq(g->weight[1], 2);
    ck_assert_double_eq(g->weight[2], 3);
    ck_assert_int_eq(g->listed[1], 2);
    ck_assert_int_eq(g->source[3], 2);
}
END_TEST

START_TEST(disagreement_is_kept)
{
    const posenc_graph *g = build(
        EDGES(3, 4, .source = LIST(0, 1, 2, 1), .target = LIST(1, 2, 1, 0), .weight = WEIGHTS(1, 4, 4, 2)));
    ck_assert_int_eq(posenc_graph_edges(g), 3); /* 0-1 both ways, 1-2 once */
    ck_assert_int_eq(g->conflict[0], 0);
    for (int64_t i = 1; i < g->arcs; i++)
        ck_assert(g->source[i - 1] < g->source[i] || (g->source[i - 1] == g->source[i] && g->target[i - 1] < g->target[i]));
    g = build(EDGES(2, 3, .source = LIST(0, 0, 1), .target = LIST(1, 1, 0)));
    ck_assert_int_eq(g->conflict[0], 1); /* twice one way, once the other */
    g = build(EDGES(2, 4, .source = LIST(0, 0, 1, 1), .target = LIST(1, 1, 0, 0), .weight = WEIGHTS(1, 2, 2, 1)));
    ck_assert_int_eq(g->conflict[0], -1);
    ck_assert_int_eq(posenc_graph_edges(g), 2);
}
END_TEST

/* Long lists take the radix sort, long runs of parallel edges the heap sort. */
START_TEST(large_lists)
{
    enum { M = 5000 };
    int64_t s[M], t[M], s2[2 * M], t2[2 * M];
    double w[M], w2[2 * M];
    uint64_t x = 1;
    for (int i = 0; i < M; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        s[i] = i % 7 ? (int64_t)(x >> 40) % 100000 : 5;
        t[i] = i % 7 ? (int64_t)(x >> 20) % 100000 : 90000;
        w[i] = (double)(x >> 60);
        s2[i] = s2[2 * M - 1 - i] = s[i];
        t2[i] = t2[2 * M - 1 - i] = t[i];
        w2[i] = w2[2 * M - 1 - i] = w[i];
    }
    for (int i = M; i < 2 * M; i++) { /* the second half in the other direction, backwards; loops stay single */
        int64_t swap = s2[i];
        s2[i] = t2[i];
        t2[i] = swap;
    }
    for (int i = 0; i < M; i++)
        ck_assert_int_ne(s[i], t[i]);
    const posenc_graph *a = build(EDGES(100000, M, .source = s, .target = t, .weight = w));
    same(EDGES(100000, M, .source = s, .target = t, .weight = w),
         EDGES(100000, 2 * M, .source = s2, .target = t2, .weight = w2), true);
    for (int64_t i = 1; i < a->arcs; i++) {
        bool up = a->source[i - 1] < a->source[i] ||
                  (a->source[i - 1] == a->source[i] &&
                   (a->target[i - 1] < a->target[i] ||
                    (a->target[i - 1] == a->target[i] && a->weight[i - 1] <= a->weight[i])));
        ck_assert(up);
    }
}
END_TEST

/* Small graphs without weights go by rows of bits; the same with weights of 1 by radix; out of order as one list. */
START_TEST(ways_agree)
{
    enum { GRAPHS = 40, M = 6000 };
    int64_t ptr[GRAPHS + 1] = { 0 }, s[M], t[M], s2[M], t2[M], m = 0;
    double ones[M];
    uint64_t x = (uint64_t)_i + 1;
    const bool directed = _i % 2, both = _i & 2;
    for (int g = 0; g < GRAPHS; g++) {
        const int64_t n = g % 13 == 5 ? 0 : 1 + g * 5 % 66, edges = n ? (g % 7 ? n + n / 4 : 700) : 0;
        ptr[g + 1] = ptr[g] + n;
        for (int64_t i = 0; i < edges && m + 2 < M; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            s[m] = ptr[g] + (int64_t)(x >> 33) % n;
            t[m] = ptr[g] + (_i & 4 ? i % n : (int64_t)(x >> 13) % n);
            m++;
            if (both && s[m - 1] != t[m - 1] && x >> 62) { /* three of four edges */
                s[m] = t[m - 1];
                t[m] = s[m - 1];
                m++;
            }
        }
    }
    for (int64_t i = 0; i < m; i++) {
        ones[i] = 1;
        s2[i] = s[m - 1 - i];
        t2[i] = t[m - 1 - i];
    }
    posenc_edges e = EDGES(ptr[GRAPHS], m, .source = s, .target = t, .directed = directed, .ptr = ptr, .ngraphs = GRAPHS);
    const posenc_graph *a = build(e);
    e.weight = ones;
    const posenc_graph *b = build(e);
    e.source = s2;
    e.target = t2;
    const posenc_graph *c = build(e);
    ck_assert_str_eq(posenc_graph_id(a), posenc_graph_id(b));
    ck_assert_str_eq(posenc_graph_id(a), posenc_graph_id(c));
    ck_assert_int_eq(a->arcs, b->arcs);
    for (int64_t i = 0; i < a->arcs; i++) {
        ck_assert_int_eq(a->listed[i], b->listed[i]);
        const int64_t k = a->listed[i];
        ck_assert((a->source[i] == s[k] && a->target[i] == t[k]) ||
                  (!directed && a->source[i] == t[k] && a->target[i] == s[k]));
        ck_assert(!i || a->source[i] > a->source[i - 1] ||
                  (a->source[i] == a->source[i - 1] && a->target[i] >= a->target[i - 1]));
    }
    for (int g = 0; g <= GRAPHS; g++) {
        ck_assert_int_eq(a->arc_ptr[g], b->arc_ptr[g]);
        ck_assert_int_eq(a->arc_ptr[g], c->arc_ptr[g]);
        ck_assert(g == GRAPHS || a->conflict[g] == b->conflict[g]);
    }
}
END_TEST

typedef struct polls {
    int count, most;
} polls;

static posenc_status counted(void *user)
{
    polls *p = user;
    return ++p->count > p->most ? PE_CANCELLED : PE_OK;
}

/* Polls everywhere: stopped at some of them in turn, nothing leaks and the error says so. */
START_TEST(building_stops_when_told)
{
    enum { M = 140000 };
    int64_t *s = malloc(2 * M * sizeof *s), *t = s + M;
    polls p = { .most = 1 << 30 };
    posenc_context ctx = { .stop = counted, .user = &p };
    const posenc_graph *g = NULL;
    ck_assert(s);
    for (int64_t i = 0; i < M; i++) {
        s[i] = i * 7919 % 100003;
        t[i] = i * 104729 % 100003;
    }
    const posenc_edges e = EDGES(100003, M, .source = s, .target = t);
    ck_assert(!posenc_graph_build_watched(&e, arena, &g, &ctx, &err));
    const int all = p.count;
    ck_assert_int_gt(all, 10);
    for (int i = 0; i < all; i += 1 + i / 4) {
        p = (polls){ .most = i };
        err = (posenc_error){ 0 };
        ck_assert_int_eq(posenc_graph_build_watched(&e, arena, &g, &ctx, &err), PE_CANCELLED);
        ck_assert_uint_eq(err.n, 1);
    }
    p = (polls){ 0 };
    const char *id;
    ck_assert_int_eq(pe_graph_identify(g, &id, &ctx, &err), PE_CANCELLED);
    ck_assert(!pe_graph_identify(g, &id, NULL, &err));
    ck_assert_str_eq(id, posenc_graph_id(g));
    free(s);
}
END_TEST

START_TEST(extremes)
{
    const posenc_graph *g = build(EDGES(0, 0));
    ck_assert_int_eq(posenc_graph_nodes(g), 0);
    ck_assert_int_eq(posenc_graph_count(g), 1);
    g = build(EDGES(2147483646, 1, .source = LIST(2147483645), .target = LIST(2147483644)));
    ck_assert_int_eq(g->source[0], 2147483644);
    ck_assert_int_eq(g->target[0], 2147483645);
    ck_assert_uint_lt(posenc_arena_used(arena), 1 << 20);
    g = build(EDGES(3, 1, .source = LIST(0), .target = LIST(1), .ptr = LIST(0, 0, 2, 3, 3), .ngraphs = 4));
    ck_assert(posenc_graph_batched(g));
    ck_assert_int_eq(posenc_graph_count(g), 4);
    ck_assert_int_eq(g->arc_ptr[1], 0);
    ck_assert_int_eq(g->arc_ptr[2], 1);
    ck_assert_int_eq(g->arc_ptr[4], 1);
    const posenc_edges *ring = posenc_example_edges();
    ck_assert_int_eq(ring->num_nodes, 7);
    build(*ring);
}
END_TEST

/* ---- errors ---- */

static const struct {
    posenc_edges e;
    posenc_status status;
    const char *field, *value, *allowed;
    unsigned n;
} faulty[] = {
    { { 5, 2, (const int64_t[]){ 0, 1 }, (const int64_t[]){ 1, 5 }, NULL, 0, NULL, 0 },
      PE_INVALID,
      "graph.edge_index[1][1]",
      "5",
      "0 .. 4",
      1 },
    { { 5, 2, (const int64_t[]){ 0, -1 }, (const int64_t[]){ 1, 2 }, NULL, 0, NULL, 0 },
      PE_INVALID,
      "graph.edge_index[0][1]",
      "-1",
      "0 .. 4",
      1 },
    { { 0, 1, (const int64_t[]){ 0 }, (const int64_t[]){ 0 }, NULL, 0, NULL, 0 },
      PE_INVALID,
      "graph.edge_index[0][0]",
      "0",
      "no edge: num_nodes is 0",
      2 },
    { { -1, 0, NULL, NULL, NULL, 0, NULL, 0 }, PE_INVALID, "graph.num_nodes", "-1", "0 .. 2147483646", 1 },
    { { 2147483647, 0, NULL, NULL, NULL, 0, NULL, 0 }, PE_LIMIT, "graph.num_nodes", "2147483647", "0 .. 2147483646", 1 },
    { { 2, 100000001, NULL, NULL, NULL, 0, NULL, 0 },
      PE_LIMIT,
      "graph.edge_index",
      "100000001 edges",
      "0 .. 100000000 edges",
      1 },
    { { 2, 1, (const int64_t[]){ 0 }, (const int64_t[]){ 1 }, (const double[]){ NAN }, 0, NULL, 0 },
      PE_INVALID,
      "graph.edge_weight[0]",
      "nan",
      "a finite number",
      1 },
    { { 2, 1, (const int64_t[]){ 0 }, (const int64_t[]){ 1 }, (const double[]){ -INFINITY }, 0, NULL, 0 },
      PE_INVALID,
      "graph.edge_weight[0]",
      "-inf",
      "a finite number",
      1 },
    { { 2, 0, NULL, NULL, NULL, 0, (const int64_t[]){ 1, 2 }, 1 }, PE_INVALID, "graph.ptr[0]", "1", "0", 1 },
    { { 2, 0, NULL, NULL, NULL, 0, (const int64_t[]){ 0, 1 }, 1 }, PE_INVALID, "graph.ptr[1]", "1", "num_nodes = 2", 1 },
    { { 5, 0, NULL, NULL, NULL, 0, (const int64_t[]){ 0, 3, 2, 5 }, 3 },
      PE_INVALID,
      "graph.ptr[2]",
      "2",
      "at least 3, the number before it",
      1 },
    { { 2, 0, NULL, NULL, NULL, 0, (const int64_t[]){ 0 }, 0 },
      PE_INVALID,
      "graph.ptr",
      "0 graphs",
      "1 .. 1000000 graphs: one number more than graphs",
      1 },
    { { 5, 2, (const int64_t[]){ 0, 4 }, (const int64_t[]){ 1, 2 }, NULL, 0, (const int64_t[]){ 0, 3, 5 }, 2 },
      PE_INVALID,
      "graph.edge_index[1][1]",
      "2",
      "3 .. 4, the graph of edge_index[0][1]",
      1 },
    { { 1, 20, (const int64_t[20]){ 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 }, (const int64_t[20]){ 0 }, NULL, 0, NULL, 0 },
      PE_INVALID,
      "graph.edge_index[0][0]",
      "9",
      "0 .. 0",
      8 },
};

START_TEST(errors_name_the_place)
{
    const posenc_graph *g = NULL;
    ck_assert_int_eq(posenc_graph_build(&faulty[_i].e, arena, &g, &err), faulty[_i].status);
    ck_assert_uint_eq(err.n, faulty[_i].n);
    ck_assert_str_eq(err.fault[0].field, faulty[_i].field);
    ck_assert_str_eq(err.fault[0].value, faulty[_i].value);
    ck_assert_str_eq(err.fault[0].allowed, faulty[_i].allowed);
}
END_TEST

/* ---- the matrix ---- */

static posenc_status matrix(posenc_edges e, pe_csr_options o, pe_csr *c)
{
    err = (posenc_error){ 0 };
    return pe_csr_build(build(e), 0, &o, c, NULL, &err);
}

static double at(const pe_csr *c, int row, int col)
{
    for (int64_t a = c->ptr[row]; a < c->ptr[row + 1]; a++)
        if (c->col[a] == col)
            return c->weight ? c->weight[a] : 1;
    return 0;
}

START_TEST(matrix_is_symmetric)
{
    pe_csr c;
    ck_assert_int_eq(
        matrix(EDGES(6, 5, .source = LIST(3, 1, 4, 0, 5), .target = LIST(0, 3, 3, 1, 5), .weight = WEIGHTS(1, 2, 3, 4, 5)),
               (pe_csr_options){ 0 }, &c),
        PE_OK);
    ck_assert_int_eq(c.arcs, 8);
    ck_assert_double_eq(at(&c, 3, 4), 3);
    ck_assert_double_eq(at(&c, 4, 3), 3);
    ck_assert_double_eq(c.degree[3], 6);
    ck_assert_double_eq(c.degree[5], 0); /* the loop was dropped */
    ck_assert_int_eq(c.ncomponents, 3);
    ck_assert_int_eq(c.component[0], 0);
    ck_assert_int_eq(c.component[2], 1);
    ck_assert_int_eq(c.component[4], 0);
    ck_assert_int_eq(c.component[5], 2);
    for (int64_t a = c.ptr[3] + 1; a < c.ptr[4]; a++)
        ck_assert_int_lt(c.col[a - 1], c.col[a]);
    pe_csr_fini(&c);
    pe_csr_fini(&c);
}
END_TEST

START_TEST(options)
{
    pe_csr c;
    const posenc_edges uneven = EDGES(2, 2, .source = LIST(0, 1), .target = LIST(1, 0), .weight = WEIGHTS(1, 4));
    ck_assert_int_eq(matrix(uneven, (pe_csr_options){ 0 }, &c), PE_INVALID);
    ck_assert_str_eq(err.fault[0].field, "graph.edge_index[1][0]");
    ck_assert_str_eq(err.fault[0].value, "edge 0 - 1, weight 1");
    static const double by_rule[] = { 0, 4, 5, 2.5 };
    for (int rule = PE_SYMMETRIZE_MAX; rule <= PE_SYMMETRIZE_MEAN; rule++) {
        ck_assert_int_eq(matrix(uneven, (pe_csr_options){ .symmetrize = rule }, &c), PE_OK);
        ck_assert_double_eq(at(&c, 0, 1), by_rule[rule]);
        ck_assert_double_eq(at(&c, 1, 0), by_rule[rule]);
        pe_csr_fini(&c);
    }
    posenc_edges arcs = uneven;
    arcs.directed = true;
    ck_assert_int_eq(matrix(arcs, (pe_csr_options){ .on_directed = PE_DIRECTED_ERROR }, &c), PE_INVALID);
    ck_assert_int_eq(matrix(arcs, (pe_csr_options){ 0 }, &c), PE_OK);
    ck_assert_double_eq(at(&c, 0, 1), 4);
    pe_csr_fini(&c);

    const posenc_edges twice = EDGES(3, 3, .source = LIST(0, 1, 1), .target = LIST(1, 0, 2));
    ck_assert_int_eq(matrix(twice, (pe_csr_options){ .duplicate_edges = PE_DUPLICATES_ERROR }, &c), PE_OK);
    pe_csr_fini(&c);
    const posenc_edges parallel = EDGES(3, 3, .source = LIST(0, 1, 0), .target = LIST(1, 2, 1), .weight = WEIGHTS(3, 1, 2));
    ck_assert_int_eq(matrix(parallel, (pe_csr_options){ .duplicate_edges = PE_DUPLICATES_ERROR }, &c), PE_INVALID);
    ck_assert_str_eq(err.fault[0].reason, "DUPLICATE_EDGE");
    ck_assert_int_eq(matrix(parallel, (pe_csr_options){ .duplicate_edges = PE_DUPLICATES_MAX }, &c), PE_OK);
    ck_assert_double_eq(at(&c, 1, 0), 3);
    pe_csr_fini(&c);
    ck_assert_int_eq(matrix(parallel, (pe_csr_options){ 0 }, &c), PE_OK);
    ck_assert_double_eq(at(&c, 1, 0), 5);
    pe_csr_fini(&c);

    const posenc_edges loop = EDGES(2, 2, .source = LIST(0, 0), .target = LIST(0, 1));
    ck_assert_int_eq(matrix(loop, (pe_csr_options){ .self_loops = PE_LOOPS_KEEP }, &c), PE_OK);
    ck_assert_ptr_null(c.weight);
    ck_assert_int_eq(c.arcs, 3);
    ck_assert_double_eq(c.degree[0], 2);
    pe_csr_fini(&c);

    const posenc_edges negative = EDGES(3, 3, .source = LIST(0, 1, 2), .target = LIST(1, 2, 0), .weight = WEIGHTS(1, -2, 0));
    ck_assert_int_eq(matrix(negative, (pe_csr_options){ 0 }, &c), PE_INVALID);
    ck_assert_str_eq(err.fault[0].field, "graph.edge_weight[1]");
    ck_assert_int_eq(matrix(negative, (pe_csr_options){ .allow_negative = true }, &c), PE_OK);
    ck_assert_double_eq(c.degree[1], 3);
    ck_assert_int_eq(c.zero_edges, 1);
    ck_assert_int_eq(c.arcs, 4);
    pe_csr_fini(&c);

    ck_assert_int_eq(matrix(EDGES(3, 2, .source = LIST(0, 1), .target = LIST(1, 2), .weight = WEIGHTS(1e308, 1e308)),
                            (pe_csr_options){ 0 }, &c),
                     PE_INVALID);
}
END_TEST

Suite *graph_suite(void)
{
    Suite *s = suite_create("graph");
    TCase *c = tcase_create("normal form");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, listing_does_not_show);
    tcase_add_test(c, content_shows);
    tcase_add_test(c, weights_and_zeros);
    tcase_add_test(c, disagreement_is_kept);
    tcase_add_test(c, large_lists);
    tcase_add_loop_test(c, ways_agree, 0, 8);
    tcase_add_test(c, building_stops_when_told);
    tcase_add_test(c, extremes);
    tcase_add_loop_test(c, errors_name_the_place, 0, (int)PE_LEN(faulty));
    suite_add_tcase(s, c);
    c = tcase_create("matrix");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, matrix_is_symmetric);
    tcase_add_test(c, options);
    suite_add_tcase(s, c);
    return s;
}
