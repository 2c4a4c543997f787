/* test_weisfeiler_lehman.c - partitions against refinement by comparing all pairs, and names that mean the same anywhere. */
#include "walk_graphs.h"

Suite *weisfeiler_lehman_suite(void);

static const char name[] = "weisfeiler_lehman";

enum { MOST = 40 };

/* Colours after `rounds`: nodes agree where colours do and each colour is seen equally often, by arcs (twice: both ways). */
static void refine(const graph *g, int rounds, bool in, bool out, bool weighted, int64_t *colour)
{
    const int64_t n = g->e.num_nodes;
    for (int r = 0; r < rounds; r++) {
        static double seen[2][MOST][MOST][8]; /* by direction, node, colour and kind of weight: how often */
        int64_t next[MOST];
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < g->e.nedges; i++) {
            const int64_t u = g->s[i], v = g->t[i];
            const int kind = weighted ? (int)g->w[i] : 0;
            seen[0][u][colour[v]][kind] += out;
            if (in && (g->e.directed || u != v))
                seen[g->e.directed][v][colour[u]][kind]++;
        }
        for (int64_t v = 0; v < n; v++) {
            next[v] = v;
            for (int64_t u = 0; u < v; u++)
                if (colour[u] == colour[v] && !memcmp(seen[0][u], seen[0][v], sizeof seen[0][0]) &&
                    !memcmp(seen[1][u], seen[1][v], sizeof seen[1][0])) {
                    next[v] = next[u];
                    break;
                }
        }
        memcpy(colour, next, sizeof next);
    }
}

static void same_partition(posenc_answer *a, const int64_t *colour)
{
    for (int64_t u = 0; u < size_of(a, "colors", 0); u++)
        for (int64_t v = 0; v < u; v++)
            ck_assert_msg((get(a, "colors", u) == get(a, "colors", v)) == (colour[u] == colour[v]), "nodes %d and %d",
                          (int)u, (int)v);
}

START_TEST(partitions)
{
    static const char *const directions[] = { "out", "in", "both" };
    for (int k = 0; k < 120; k++) {
        graph *g = scatter(1 + any(MOST - 1), any(50), k & 1, k & 2);
        const int rounds = (int)any(5), direction = (int)any(3);
        int64_t colour[MOST] = { 0 };
        char q[120];
        for (int64_t i = 0; i < g->e.nedges; i++) /* kinds of edges, each pair once */
            g->w[i] = (double)((g->s[i] * 7 + g->t[i] * 13) % 3 + 1);
        snprintf(q, sizeof q, "rounds=%d&direction=%s&duplicate_edges=%s&weighted=%s", rounds, directions[direction],
                 k & 2 ? "max" : "sum", k & 2 ? "true" : "false");
        graph *h = new_graph(g->e.num_nodes); /* without repetitions, which max joins */
        h->e.directed = g->e.directed;
        for (int64_t i = 0; i < g->e.nedges; i++) {
            bool there = false;
            for (int64_t j = 0; j < h->e.nedges; j++)
                there = there || (h->s[j] == g->s[i] && h->t[j] == g->t[i]);
            if (!there || !(k & 2))
                add_weight(h, g->s[i], g->t[i], g->w[i]);
        }
        refine(h, rounds, !g->e.directed || direction != 0, !g->e.directed || direction != 1, k & 2, colour);
        posenc_answer a = ask(name, g, q);
        same_partition(&a, colour);
        ck_assert_double_eq(get(&a, "rounds_done", 0), rounds);
        posenc_answer_fini(&a);
        free(g);
        free(h);
    }
}
END_TEST

START_TEST(starts)
{
    graph *g = star(5);
    posenc_answer a = ask(name, g, "rounds=0"), b = ask(name, g, "rounds=0&init=degree"),
                  c = ask(name, g, "rounds=0&init=label&labels=[7,-3,7,0,0]&naming=first_seen"), d = ask(name, g, "");
    static const double labels[] = { 0, 1, 0, 2, 2 };
    ck_assert_double_eq(get(&a, "num_colors", 0), 1);
    ck_assert_double_eq(get(&b, "num_colors", 0), 2);
    ck_assert_double_eq(get(&d, "num_colors", 0), 2); /* one round of Graph-Bert's two */
    ck_assert_double_eq(get(&d, "rounds_done", 0), 1);
    for (int64_t i = 0; i < 5; i++)
        ck_assert_double_eq(get(&c, "colors", i), labels[i]);
    ck_assert_ptr_null(pe_tensor(&c.result, "hashes"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    a = ask(name, g, "max_iter=3");
    b = ask(name, g, "rounds=2");
    ck_assert_str_eq(a.request.digest, b.request.digest);
    same_bytes(&a, &b);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    free(g);
    a = ask_once(name, new_graph(0), "stop_when_stable=true");
    ck_assert_double_eq(get(&a, "num_colors", 0), 0);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(until_stable)
{
    posenc_answer a = ask_once(name, path(9), "stop_when_stable=true"), b = ask_once(name, path(9), "rounds=4"),
                  c = ask_once(name, cycle(9), "stop_when_stable=true"),
                  d = ask_once(name, path(9), "stop_when_stable=true&rounds=2");
    ck_assert_double_eq(get(&a, "rounds_done", 0), 4); /* ends apart after 1, middles after 4 */
    ck_assert_double_eq(get(&a, "num_colors", 0), 5);
    ck_assert_double_eq(get(&c, "rounds_done", 0), 0);
    ck_assert_double_eq(get(&d, "rounds_done", 0), 2);
    for (int64_t i = 0; i < 9; i++)
        ck_assert(!memcmp((int64_t *)pe_tensor(&a.result, "hashes")->data + i,
                          (int64_t *)pe_tensor(&b.result, "hashes")->data + i, 8));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
}
END_TEST

static int64_t hash_of(posenc_answer *a, int64_t v) { return ((const int64_t *)pe_tensor(&a->result, "hashes")->data)[v]; }

START_TEST(names_mean_the_same_anywhere)
{
    /* the middles of a long path and of a longer one, and a node of a ring, have one unfolding of depth 3 */
    posenc_answer a = ask_once(name, path(9), "rounds=3"), b = ask_once(name, path(14), "rounds=3"),
                  c = ask_once(name, cycle(5), "rounds=3"), d = ask_once(name, cycle(5), "rounds=2");
    ck_assert_int_eq(hash_of(&a, 4), hash_of(&b, 7));
    ck_assert_int_eq(hash_of(&a, 4), hash_of(&c, 2));
    ck_assert_int_eq(hash_of(&a, 0), hash_of(&b, 13));
    ck_assert_int_ne(hash_of(&a, 4), hash_of(&a, 0));
    ck_assert_int_ne(hash_of(&c, 2), hash_of(&d, 2));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
    posenc_answer_fini(&d);
    graph *g = scatter(40, 60, true, true);
    int64_t p[40];
    shuffle(p, 40);
    for (int k = 0; k < 4; k++) {
        static const char *const queries[] = { "rounds=3&direction=both&weighted=true", "rounds=2&direction=out&init=degree",
                                               "stop_when_stable=true", "rounds=2&direction=both" };
        a = ask(name, g, queries[k]);
        b = ask_once(name, relabelled(g, p), queries[k]);
        for (int64_t i = 0; i < 40; i++) {
            ck_assert_int_eq(hash_of(&a, i), hash_of(&b, p[i]));
            ck_assert_double_eq(get(&a, "colors", i), get(&b, "colors", p[i]));
        }
        posenc_answer_fini(&a);
        posenc_answer_fini(&b);
    }
    static const char *const names[] = { "colors", "hashes", NULL };
    graph *h = scatter(11, 20, true, true);
    as_if_alone(name, g, h, "rounds=3&init=degree", names);
    free(g);
    free(h);
}
END_TEST

START_TEST(what_it_cannot_tell_apart)
{
    graph *g = cycle(6), *h = cycle(3);
    h->e.num_nodes = 6;
    for (int64_t i = 0; i < 3; i++)
        add(h, 3 + i, 3 + (i + 1) % 3);
    posenc_answer a = ask_once(name, g, "rounds=5"), b = ask_once(name, h, "rounds=5");
    for (int64_t i = 0; i < 6; i++)
        ck_assert_int_eq(hash_of(&a, i), hash_of(&b, 5 - i));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *query, *fields;
    } bad[] = {
        { "rounds=-1", "rounds" },
        { "rounds=2&max_iter=3", "max_iter" },
        { "max_iter=0", "max_iter" },
        { "init=label", "labels" },
        { "labels=[1,2,3]", "labels" },
        { "init=label&labels=[1,2]", "labels" },
        { "init=label&labels=[1,2,0.5]", "labels[2]" },
        { "init=label&labels=[[1,2,0]]", "labels" },
        { "naming=md5", "naming" },
        { "duplicate_edges=error", "graph.edge_index[1][2]" },
    };
    graph *g = path(3);
    add(g, 0, 1);
    for (size_t i = 0; i < PE_LEN(bad); i++)
        fails(name, g, bad[i].query, PE_INVALID, bad[i].fields);
    fails(name, g, "rounds=2147483647", PE_LIMIT, "rounds"); /* hours */
    g->e.directed = true;
    posenc_answer a = ask(name, g, "rounds=1"), b = ask(name, g, "rounds=1&direction=both");
    ck_assert(warned(&a, "directed"));
    ck_assert(!warned(&b, "directed"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    graph *h = path(3), *two;
    h->e.directed = true;
    h->w[1] = -1;
    two = both(g, h);
    a = ask(name, two, "rounds=1&direction=in");
    ck_assert_double_eq(get(&a, "status", 1), 400);
    ck_assert_double_eq(get(&a, "colors", 5), -1);
    ck_assert_double_eq(get(&a, "hashes", 5), -1);
    ck_assert_double_eq(get(&a, "num_colors", 1), 0);
    ck_assert_double_eq(get(&a, "num_colors", 0), 3);
    posenc_answer_fini(&a);
    free(two);
    free(h);
    free(g);
}
END_TEST

START_TEST(no_memory_and_no_time)
{
    static const char *const queries[] = { "rounds=2&direction=both",
                                           "stop_when_stable=true&weighted=true&naming=first_seen" };
    graph *g = scatter(30, 60, true, true), *h = scatter(9, 15, true, true), *b = both(g, h);
    for (size_t i = 0; i < PE_LEN(queries); i++) {
        survives_without_memory(name, g, queries[i]);
        survives_without_memory(name, b, queries[i]);
        stops_anywhere(name, b, queries[i]);
    }
    free(g);
    free(h);
    free(b);
}
END_TEST

Suite *weisfeiler_lehman_suite(void)
{
    Suite *s = suite_create("weisfeiler_lehman");
    TCase *c = tcase_create("weisfeiler_lehman");
    tcase_add_test(c, partitions);
    tcase_add_test(c, starts);
    tcase_add_test(c, until_stable);
    tcase_add_test(c, names_mean_the_same_anywhere);
    tcase_add_test(c, what_it_cannot_tell_apart);
    tcase_add_test(c, refusals);
    tcase_add_test(c, no_memory_and_no_time);
    suite_add_tcase(s, c);
    return s;
}
