/* test_tree.c - places in trees against a walk by hand: orders, codes, decays, forms, paths of edge types, deep trees,
 * refusals. */
#include "paths.h"

Suite *tree_suite(void);

#define NAME "tree"

/* ---- asking ---- */

static char *print_list(char *to, const char *name, int64_t n, const int64_t *v)
{
    to += sprintf(to, "&%s=[", name);
    for (int64_t i = 0; i < n; i++)
        to += sprintf(to, "%s%lld", i ? "," : "", (long long)v[i]);
    return to + sprintf(to, "]");
}

static posenc_answer plant(int64_t n, const int64_t *parent, const int64_t *order, const char *more)
{
    static char query[40000];
    char *end = print_list(query, "parent", n, parent);
    if (order)
        end = print_list(end, "child_order", n, order);
    sprintf(end, "%s%s", more[0] ? "&" : "", more);
    return ask(NAME, query + 1);
}

/* ---- by hand ---- */

enum { MOST = 300 };

typedef struct hand {
    int64_t n, parent[MOST], branch[MOST], depth[MOST], height[MOST], pre[MOST], post[MOST];
} hand;

/* The child of u with the least branch over `after`; -1: none. u = -1: roots, by id. */
static int64_t next_child(const hand *h, int64_t u, int64_t after)
{
    int64_t best = -1;
    for (int64_t v = 0; v < h->n; v++) {
        const int64_t key = u < 0 ? v : h->branch[v];
        if (h->parent[v] == u && key > after && (best < 0 || key < (u < 0 ? best : h->branch[best])))
            best = v;
    }
    return best;
}

static void visit(hand *h, int64_t v, int64_t depth, int64_t *before, int64_t *after)
{
    h->depth[v] = depth;
    h->height[v] = 0;
    h->pre[v] = (*before)++;
    for (int64_t c = next_child(h, v, -1); c >= 0; c = next_child(h, v, h->branch[c])) {
        visit(h, c, depth + 1, before, after);
        h->height[v] = h->height[c] >= h->height[v] ? h->height[c] + 1 : h->height[v];
    }
    h->post[v] = (*after)++;
}

/* Everything from parent and branch. */
static void number(hand *h)
{
    int64_t before = 0, after = 0;
    for (int64_t v = next_child(h, -1, -1); v >= 0; v = next_child(h, -1, v))
        visit(h, v, 0, &before, &after);
    ck_assert_int_eq(before, h->n);
}

/* A forest with mixed-up ids; `gaps`: branches given, 2 i + 1 of the i-th child. */
static void grow(hand *h, int64_t n, int64_t roots, bool gaps, uint64_t seed)
{
    uint64_t state = seed * 88172645463325252u + 1;
    int64_t name[MOST], count[MOST] = { 0 };
    h->n = n;
    for (int64_t i = 0; i < n; i++)
        name[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(net_random(&state) >> 11) % (i + 1), swap = name[i];
        name[i] = name[k];
        name[k] = swap;
    }
    for (int64_t i = 0; i < n; i++)
        h->parent[name[i]] = i < roots ? -1 : name[(int64_t)(net_random(&state) >> 11) % i];
    for (int64_t v = 0; v < n; v++) {
        h->branch[v] = 0;
        if (h->parent[v] >= 0)
            h->branch[v] = gaps ? 2 * count[h->parent[v]]++ + 1 : count[h->parent[v]]++;
    }
    number(h);
}

static void expect_numbers(const hand *h, const posenc_answer *a)
{
    static const char *const names[] = { "branch", "depth", "height", "preorder", "postorder" };
    const int64_t *const want[] = { h->branch, h->depth, h->height, h->pre, h->post };
    for (int k = 0; k < 5; k++) {
        ck_assert_int_eq(net_tensor(a, names[k])->dtype, PE_int32);
        ck_assert_int_eq(net_tensor(a, names[k])->shape[0], h->n);
        for (int64_t v = 0; v < h->n; v++)
            ck_assert_msg(net_value(a, names[k], v) == (double)want[k][v], "%s[%d] is %g, want %d", names[k], (int)v,
                          net_value(a, names[k], v), (int)want[k][v]);
    }
}

/* Codes of `depth` blocks of `width`, each step weighted by w[l]. */
static void expect_codes(const hand *h, const posenc_answer *a, int64_t depth, int64_t width, int64_t count, const double *w)
{
    ck_assert_int_eq(net_tensor(a, "encoding")->shape[1], depth * width * count);
    for (int64_t v = 0; v < h->n; v++) {
        double row[4000] = { 0 };
        for (int64_t l = 0, u = v; l < depth && h->parent[u] >= 0; l++, u = h->parent[u])
            for (int64_t q = 0; q < count; q++)
                row[(l * width + (h->branch[u] < width ? h->branch[u] : width - 1)) * count + q] = w ? w[l * count + q] : 1;
        for (int64_t i = 0; i < depth * width * count; i++) {
            const double got = net_value(a, "encoding", v * depth * width * count + i);
            ck_assert_msg(fabs(got - row[i]) <= 4e-16 * fabs(row[i]), "node %d, column %d: %.17g, want %.17g", (int)v,
                          (int)i, got, row[i]);
        }
    }
}

/* ---- values ---- */

static const struct {
    int64_t n, roots;
    bool gaps;
} trees[] = { { 1, 1, false }, { 2, 2, false },   { 7, 1, true },  { 60, 1, false },
              { 60, 5, true }, { 300, 3, false }, { 300, 1, true } };

START_TEST(numbers_and_codes)
{
    hand h;
    grow(&h, trees[_i].n, trees[_i].roots, trees[_i].gaps, (uint64_t)_i + 1);
    posenc_answer a = plant(h.n, h.parent, trees[_i].gaps ? h.branch : NULL, "tree_depth=7&tree_width=40&dtype=float64");
    ck_assert_int_eq(a.result.ntensors, 6);
    expect_numbers(&h, &a);
    expect_codes(&h, &a, 7, 40, 1, NULL);
    posenc_answer_fini(&a);
    a = plant(h.n, h.parent, trees[_i].gaps ? h.branch : NULL, "branch_overflow=clamp&tree_depth=3");
    expect_numbers(&h, &a); /* branch is told as it is */
    expect_codes(&h, &a, 3, 2, 1, NULL);
    posenc_answer_fini(&a);
    a = plant(h.n, h.parent, trees[_i].gaps ? h.branch : NULL, "return_encoding=false");
    ck_assert_ptr_null(net_tensor(&a, "encoding"));
    expect_numbers(&h, &a);
    posenc_answer_fini(&a);
}
END_TEST

START_TEST(empty_forest)
{
    posenc_answer a = plant(0, NULL, NULL, "tree_form=filled");
    ck_assert(net_tensor(&a, "encoding")->shape[0] == 0 && net_tensor(&a, "encoding")->shape[1] == 512);
    posenc_answer_fini(&a);
}
END_TEST

/* p^l sqrt((1 - p^2) d_model / 2), against long double. */
START_TEST(decays)
{
    static const double p[] = { 0.9, -0.5, 0, 0.999999, 1e-3 };
    hand h;
    grow(&h, 60, 1, false, 8);
    double w[6 * 5];
    for (int given = 0; given < 2; given++) {
        const double d_model = given ? 512 : 6 * 30 * 5;
        for (int q = 0; q < 5; q++) {
            long double v = sqrtl((1 - (long double)p[q]) * (1 + (long double)p[q]) * d_model / 2);
            for (int l = 0; l < 6; l++, v *= (long double)p[q])
                w[l * 5 + q] = (double)v;
        }
        posenc_answer a = plant(60, h.parent, NULL,
                                given ? "tree_depth=6&tree_width=30&decay=0.9,-0.5,0,0.999999,1e-3&dtype=float64&d_model=512"
                                      : "tree_depth=6&tree_width=30&decay=0.9,-0.5,0,0.999999,1e-3&dtype=float64");
        expect_codes(&h, &a, 6, 30, 5, w);
        posenc_answer_fini(&a);
    }
}
END_TEST

/* A root with three children, of which the second has two; one more tree. */
START_TEST(left_child_right_sibling)
{
    static const int64_t parent[] = { -1, 0, 0, 0, 2, 2, -1, 6 };
    posenc_answer a = plant(8, parent, NULL, "tree_form=lcrs&tree_depth=4"),
                  raw = plant(8, parent, NULL, "return_encoding=false");
    net_values(&a, "parent", 8, (const double[]){ -1, 0, 1, 2, 2, 4, -1, 6 });
    net_values(&a, "branch", 8, (const double[]){ 0, 0, 1, 1, 0, 1, 0, 0 });
    net_values(&a, "depth", 8, (const double[]){ 0, 1, 2, 3, 3, 4, 0, 1 });
    net_values(&a, "height", 8, (const double[]){ 4, 3, 2, 0, 1, 0, 1, 0 });
    net_values(&a, "postorder", 8, (const double[]){ 5, 4, 3, 2, 1, 0, 7, 6 });
    for (int64_t v = 0; v < 8; v++) /* the transform keeps the order of first visits */
        ck_assert(net_value(&a, "preorder", v) == net_value(&raw, "preorder", v));
    static const double five[] = { 0, 1, 1, 0, 0, 1, 1, 0 }; /* sibling, child, sibling, child */
    for (int i = 0; i < 8; i++)
        ck_assert(net_value(&a, "encoding", 8 * 5 + i) == five[i]);
    posenc_answer_fini(&a);
    posenc_answer_fini(&raw);
}
END_TEST

START_TEST(filled)
{
    static const int64_t parent[] = { -1, 0, 0, 1, -1 }, order[] = { 0, 2, 0, 1, 0 };
    posenc_answer a = plant(5, parent, order, "tree_form=filled&tree_width=3&tree_depth=2");
    /* node 0 lacks branch 1; node 1 lacks 0 and 2; leaves get none */
    net_values(&a, "parent", 8, (const double[]){ -1, 0, 0, 1, -1, 0, 1, 1 });
    net_values(&a, "branch", 8, (const double[]){ 0, 2, 0, 1, 0, 1, 0, 2 });
    net_values(&a, "preorder", 8, (const double[]){ 0, 3, 1, 5, 7, 2, 4, 6 });
    static const double last[] = { 0, 0, 1, 0, 0, 1 };
    for (int i = 0; i < 6; i++)
        ck_assert(net_value(&a, "encoding", 6 * 7 + i) == last[i]);
    posenc_answer b = plant(5, parent, order, "tree_width=3&tree_depth=2"); /* the given nodes keep their codes */
    ck_assert_mem_eq(net_tensor(&a, "encoding")->data, net_tensor(&b, "encoding")->data, 5 * 6 * sizeof(float));
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
}
END_TEST

START_TEST(paths_of_edge_types)
{
    static const int64_t parent[] = { -1, 0, 1, 2, 0, -1 };
    posenc_answer a = plant(
        6, parent, NULL,
        "edge_types=[-1,7,8,9,7,3]&path_length=2&edge_embeddings=[[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],"
        "[1,0.1],[10,0.2],[100,0.3]]&dtype=float64&return_encoding=false");
    net_values(&a, "path", 12, (const double[]){ -1, -1, -1, 7, 7, 8, 8, 9, -1, 7, -1, -1 });
    net_values(&a, "path_sum", 12, (const double[]){ 0, 0, 1, 0.1, 11, 0.1 + 0.2, 111, 0.1 + 0.2 + 0.3, 1, 0.1, 0, 0 });
    posenc_answer_fini(&a);
    a = plant(6, parent, NULL, "edge_types=[0,0,1,0,1,0]&path_length=0&edge_embeddings=[[1,0],[0,1]]"); /* a bag of types */
    ck_assert_ptr_null(net_tensor(&a, "path"));
    net_values(&a, "path_sum", 12, (const double[]){ 0, 0, 1, 0, 1, 1, 2, 1, 0, 1, 0, 0 });
    posenc_answer_fini(&a);
}
END_TEST

/* More than a strip of columns. */
START_TEST(wide_embeddings)
{
    char query[4000],
        *end = query + sprintf(query, "parent=[-1,0,1]&edge_types=[0,0,1]&return_encoding=false&edge_embeddings=[[");
    for (int k = 0; k < 37; k++)
        end += sprintf(end, "%s%d", k ? "," : "", k);
    end += sprintf(end, "],[");
    for (int k = 0; k < 37; k++)
        end += sprintf(end, "%s%d", k ? "," : "", 1000 + k);
    sprintf(end, "]]");
    posenc_answer a = ask(NAME, query);
    for (int k = 0; k < 37; k++) {
        ck_assert(net_value(&a, "path_sum", k) == 0 && net_value(&a, "path_sum", 37 + k) == k);
        ck_assert(net_value(&a, "path_sum", 74 + k) == 1000 + 2 * k);
    }
    posenc_answer_fini(&a);
}
END_TEST

/* ---- deep trees ---- */

/* A chain of 10^6 nodes, told from the far end: nothing recurses. */
START_TEST(long_chain)
{
    enum { N = 1000000 };
    static const char *const queries[] = { "tree_depth=6", "return_encoding=false&tree_form=lcrs",
                                           "tree_form=filled&return_encoding=false" };
    int32_t *parent = malloc(N * sizeof *parent);
    ck_assert_ptr_nonnull(parent);
    for (int32_t v = 0; v < N; v++)
        parent[v] = v + 1 < N ? v + 1 : -1;
    for (size_t q = 0; q < LEN(queries); q++) {
        posenc_arena *arena = posenc_arena_new((size_t)1 << 30);
        posenc_request r;
        posenc_result out;
        posenc_tensor t = { .dtype = PE_int32, .rank = 1, .shape = { N }, .data = parent };
        ck_assert_int_eq(posenc_request_init(&r, NAME, arena, NULL), PE_OK);
        ck_assert_int_eq(posenc_request_parse(&r, queries[q], NULL), PE_OK);
        ck_assert_int_eq(posenc_set_tensor(&r.encoding->table, posenc_row(&r.encoding->table, "parent"), r.params, &t, NULL),
                         PE_OK);
        ck_assert_int_eq(posenc_resolve(&r, NULL), PE_OK);
        ck_assert_uint_lt(r.cost.scratch, 400 << 20);
        out = r.shape;
        for (int i = 0; i < out.ntensors; i++)
            ck_assert_ptr_nonnull(out.tensor[i].data = posenc_alloc(arena, posenc_tensor_size(&out.tensor[i])));
        ck_assert_int_eq(posenc_compute(&r, &out, NULL, NULL), PE_OK);
        const int k = q == 0; /* encoding comes first */
        const int32_t *depth = out.tensor[k].data, *height = out.tensor[k + 2].data, *post = out.tensor[k + 4].data;
        ck_assert(depth[0] == N - 1 && depth[N - 1] == 0 && height[0] == 0 && height[N - 1] == N - 1);
        ck_assert_int_eq(out.tensor[k].shape[0], q == 2 ? 2 * N - 1 : N);
        ck_assert_int_eq(post[0], 0);
        posenc_arena_free(arena);
    }
    free(parent);
}
END_TEST

static posenc_status stop_at(void *user) { return --*(int *)user < 0 ? PE_CANCELLED : PE_OK; }

START_TEST(stops_when_asked)
{
    enum { N = 60000 };
    char *query = malloc(N * 8);
    ck_assert_ptr_nonnull(query);
    char *end = query + sprintf(query, "tree_depth=64&tree_form=filled&parent=[-1");
    for (int v = 1; v < N; v++)
        end += sprintf(end, ",%d", (v - 1) / 2);
    sprintf(end, "]");
    int looks = 0, asked = 0;
    posenc_context ctx = { .stop = stop_at, .user = &looks };
    posenc_status st = PE_CANCELLED;
    for (; st == PE_CANCELLED && asked < 1000; asked += 1 + asked / 8) {
        posenc_answer a;
        looks = asked;
        st = posenc_encode(NAME, query, NULL, &a, &ctx, NULL);
        if (!st)
            posenc_answer_fini(&a);
    }
    ck_assert_int_eq(st, PE_OK);
    ck_assert_int_gt(asked, 4);
    free(query);
}
END_TEST

/* ---- the whole answer ---- */

START_TEST(one_request_one_key)
{
    expect_same(NAME, "parent=[-1,0]",
                "parent=[-1,0]&tree_depth=256&tree_width=2&d_model=512&path_length=16&branch_overflow=error");
    expect_same(NAME, "parent=[-1,0]&decay=0.5&tree_depth=2", "parent=[-1,0]&decay=0.5&tree_depth=2&d_model=4");
}
END_TEST

START_TEST(refusals)
{
    static const refusal cases[] = {
        { "", "parent", 0 },
        { "parent=[[-1,0]]", "parent", 0 },
        { "parent=[-1,2]", "parent[1]", 0 },
        { "parent=[-2,0]", "parent[0]", 0 },
        { "parent=[-1,0.5]", "parent[1]", 0 },
        { "parent=[0]", "parent[0]", 0 },
        { "parent=[-1,3,0,4,5,3,5]", "parent[3]", 0 }, /* 1 and 6 lead into the cycle 3 -> 4 -> 5 -> 3 */
        { "parent=[2,0,1]", "parent[0]", 0 },
        { "parent=[-1,0,0,0]", "tree_width", 0 },
        { "parent=[-1,0,0,0]&tree_form=filled&return_encoding=false", "tree_width", 0 },
        { "parent=[-1,0,0]&tree_form=lcrs&tree_width=1", "tree_width", 0 },
        { "parent=[-1,0,0]&child_order=[0,1]", "child_order", 0 },
        { "parent=[-1,0,0]&child_order=[0,1,1]", "child_order[2]", 0 },
        { "parent=[-1,0,0]&child_order=[-1,1,-1]", "child_order[2]", 0 },
        { "parent=[-1,0,0]&child_order=[0,1.5,0]", "child_order[1]", 0 },
        { "parent=[-1,0]&tree_depth=0", "tree_depth", 0 },
        { "parent=[-1,0]&decay=1", "decay[0]", 0 },
        { "parent=[-1,0]&decay=0.5,-1", "decay[1]", 0 },
        { "parent=[-1,0]&decay=1.5", "decay[0]", 0 },
        { "parent=[-1,0]&d_model=64", "d_model", 0 },
        { "parent=[-1,0]&return_encoding=false&tree_depth=3", "tree_depth", 0 },
        { "parent=[-1,0]&return_encoding=false&tree_width=3&decay=0.5&branch_overflow=clamp",
          "tree_width branch_overflow decay", 0 },
        { "parent=[-1,0]&branch_overflow=clamp&tree_form=filled", "branch_overflow", 0 },
        { "parent=[-1,0]&path_length=3", "path_length", 0 },
        { "parent=[-1,0]&edge_embeddings=[[1]]", "edge_embeddings", 0 },
        { "parent=[-1,0]&edge_types=[0,0]&tree_form=lcrs", "edge_types", 0 },
        { "parent=[-1,0]&edge_types=[0]", "edge_types", 0 },
        { "parent=[-1,0]&edge_types=[0,-1]", "edge_types[1]", 0 },
        { "parent=[-1,0]&edge_types=[9,2]&edge_embeddings=[[1],[2]]", "edge_types[1]", 0 },
        { "parent=[-1,0]&edge_types=[0,0]&edge_embeddings=[1]", "edge_embeddings", 0 },
        { "parent=[-1,0,1]&edge_types=[0,0,0]&edge_embeddings=[[2e38]]", "edge_embeddings", 0 },
        { "parent=[-1,0,1]&edge_types=[0,0,0]&edge_embeddings=[[1.7e308]]&dtype=float64", "edge_embeddings", 0 },
        { "parent=[-1,0]&tree_depth=65536&tree_width=65536", "tree_depth", .status = PE_LIMIT },
    };
    for (size_t i = 0; i < LEN(cases); i++)
        refuses(NAME, &cases[i]);
}
END_TEST

/* A list of numbers is a tensor of one axis, with brackets or without. */
START_TEST(a_list_without_brackets)
{
    expect_same(NAME, "parent=-1,0,0,1&tree_depth=2&tree_width=2", "parent=[-1,0,0,1]&tree_depth=2&tree_width=2");
}
END_TEST

/* ---- edges and roots; batches ---- */

static void same_rows(const posenc_answer *a, const posenc_answer *b, int64_t from)
{
    for (int i = 0; i < b->result.ntensors; i++) {
        const posenc_tensor *y = &b->result.tensor[i], *x = tensor_of(a, y->name);
        const int64_t width = y->rank == 2 ? y->shape[1] : 1, n = posenc_tensor_count(y);
        ck_assert_msg(x != NULL, "no %s", y->name);
        for (int64_t k = 0; k < n; k++)
            ck_assert_msg(posenc_tensor_get(x, from * width + k) == posenc_tensor_get(y, k), "%s[%d]", y->name, (int)k);
    }
}

/* Edges in either direction and in any order are the parents; types go with the edges. */
START_TEST(edges_and_roots)
{
    posenc_answer a = ask(NAME,
                          "edge_index=[[4,1,0,3,5],[1,0,2,1,6]]&root=0,5&edge_types=[9,8,7,6,5]&path_length=3&tree_depth=2"),
                  b = ask(NAME, "parent=[-1,0,0,1,1,-1,5]&edge_types=[0,8,7,6,9,0,5]&path_length=3&tree_depth=2"),
                  c = ask(NAME,
                          "edge_index=[[5,1,0,1,2],[6,3,1,4,0]]&root=5,0&edge_types=[5,6,8,9,7]&path_length=3&tree_depth=2");
    same_rows(&a, &b, 0);
    same_rows(&c, &b, 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&b);
    posenc_answer_fini(&c);
}
END_TEST

/* Each tree of a batch as if it were alone; one that is none voids no other; placeholders follow their own tree. */
START_TEST(batches)
{
    posenc_answer a = ask(NAME, "parent=[-1,0,0,4,3,-1,7,-1]&ptr=[0,3,5,5,8]&tree_depth=2&tree_form=filled&tree_width=3"),
                  first = ask(NAME, "parent=[-1,0,0]&tree_depth=2&tree_form=filled&tree_width=3"),
                  last = ask(NAME, "parent=[-1,2,-1]&tree_depth=2&tree_form=filled&tree_width=3");
    net_values(&a, "offsets", 5, (const double[]){ 0, 4, 6, 6, 11 });
    net_values(&a, "status", 4, (const double[]){ 0, 400, 0, 0 });
    net_values(&a, "parent", 11, (const double[]){ -1, 0, 0, 0, -1, -1, -1, 8, -1, 8, 8 });
    net_values(&a, "depth", 11, (const double[]){ 0, 1, 1, 1, -1, -1, 0, 1, 0, 1, 1 });
    for (int64_t i = 0; i < 4 * 6; i++)
        ck_assert(named(&a, "encoding", i) == named(&first, "encoding", i));
    for (int64_t i = 0; i < 5 * 6; i++)
        ck_assert(named(&a, "encoding", 6 * 6 + i) == named(&last, "encoding", i));
    ck_assert(isnan(named(&a, "encoding", 4 * 6)));
    ck_assert_int_eq(a.result.nwarnings, 2);
    ck_assert_ptr_nonnull(strstr(a.result.warning[0], "node 3 is its own ancestor"));
    posenc_answer_fini(&a);
    posenc_answer_fini(&first);
    posenc_answer_fini(&last);
    a = ask(NAME, "edge_index=[[1,0,3,4,5],[0,2,4,5,3]]&root=0,3&ptr=[0,3,6]&tree_depth=2");
    first = ask(NAME, "edge_index=[[1,0],[0,2]]&root=0&tree_depth=2");
    net_values(&a, "status", 2, (const double[]){ 0, 400 });
    same_rows(&a, &first, 0);
    posenc_answer_fini(&a);
    posenc_answer_fini(&first);
}
END_TEST

START_TEST(refused_edges_and_batches)
{
    static const refusal cases[] = {
        { "edge_index=[[0,1,2],[1,2,0]]&root=0", "edge_index[0][1]", "two to node 2" },
        { "edge_index=[[0,1,2],[1,2,0]]&root=3", "root", "node 0" },
        { "edge_index=[[0],[0]]&root=0", "edge_index[0][0]", "two to node 0" },
        { "edge_index=[[0],[1]]", "root", "no direction" },
        { "root=0", "edge_index", "edges" },
        { "parent=[-1]&root=0", "root", "edge_index and root" },
        { "parent=[-1]&edge_index=[[0],[1]]", "edge_index", "edge_index and root" },
        { "edge_index=[[0],[2]]&root=0", "edge_index[1][0]", "edges and roots" },
        { "edge_index=[[0],[1]]&root=2", "root[0]", "0 .. 1" },
        { "edge_index=[[0],[1]]&root=0.5", "root[0]", "0 .. 1" },
        { "edge_index=[[0,1]]&root=0", "edge_index", "[2, edges]" },
        { "edge_index=[[0],[1]]&root=0&edge_types=[1,2]", "edge_types", "[edges]" },
        { "edge_index=[[0],[1]]&root=0&edge_types=[-1]", "edge_types[0]", "0 .." },
        { "edge_index=[[0,1],[1,3]]&root=0,2&ptr=[0,2,4]", "edge_index[1][1]", "0 .. 1, the nodes of tree 0" },
        { "parent=[-1,0,1,-1]&ptr=[0,2,4]", "parent[2]", "2 .. 3, the nodes of tree 1" },
        { "parent=[-1,0]&ptr=[0,2,1]", "ptr[2]", "at least 2" },
        { "parent=[-1,0]&ptr=[1,2]", "ptr[0]", "0" },
        { "parent=[-1,0]&ptr=[0,1]", "ptr[1]", "2" },
        { "parent=[-1,0]&ptr=[0]", "ptr", "one number more" },
    };
    for (size_t i = 0; i < LEN(cases); i++)
        refuses(NAME, &cases[i]);
}
END_TEST

Suite *tree_suite(void)
{
    Suite *s = suite_create(NAME);
    TCase *t = tcase_create(NAME);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_list_without_brackets);
    tcase_add_loop_test(t, numbers_and_codes, 0, (int)LEN(trees));
    tcase_add_test(t, empty_forest);
    tcase_add_test(t, decays);
    tcase_add_test(t, left_child_right_sibling);
    tcase_add_test(t, filled);
    tcase_add_test(t, paths_of_edge_types);
    tcase_add_test(t, wide_embeddings);
    tcase_add_test(t, long_chain);
    tcase_add_test(t, stops_when_asked);
    tcase_add_test(t, one_request_one_key);
    tcase_add_test(t, refusals);
    tcase_add_test(t, edges_and_roots);
    tcase_add_test(t, batches);
    tcase_add_test(t, refused_edges_and_batches);
    suite_add_tcase(s, t);
    return s;
}
