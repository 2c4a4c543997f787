/* tree.c - the place of each node of a rooted tree: depth, branch, orders of traversal, and codes of the path from the root.
 *
 *     code(root) = 0 ... 0        code(v) = onehot(branch(v)), code(parent(v))        [tree_depth blocks of tree_width]
 *
 * the most recent step first; steps beyond tree_depth, those nearest the root, are cut off. With decay p of a step
 *     block l of the code, l = 0 the most recent, times p^l sqrt((1 - p^2) d_model / 2)
 * for each p of the list: column (l tree_width + branch) P + q holds p[q] of P.
 *
 * The forms of the tree that is told:
 *   raw     as given
 *   lcrs    left child, right sibling: branch 0 leads to the first child, branch 1 to the next sibling
 *   filled  every node that has children gets placeholders for those missing to tree_width; they are rows after the others,
 *           by parent, then by branch
 *
 * Defined here, as users will ask:
 *   - The tree is given by parents, or by edges in either direction and its roots: then the edges lead away from the roots.
 *     There are as many nodes as edges and roots.
 *   - A batch by ptr is many trees or forests, each as if alone: orders are counted anew in each, children and roots too; a
 *     bad one has a status and voids no other. Ids, also those of the output parent, are rows of the whole batch.
 *   - Several roots are a forest: each tree has its own depths and codes, orders run through the trees by ascending root;
 *     roots are no siblings, also not in lcrs.
 *   - One-hot blocks are always tree_width wide. (icecaps makes them as wide as the parent has children, so that codes of
 *     different families agree only after `filled` or `lcrs`.) A branch that does not fit is refused, or clamped.
 *   - Children are ordered by id, or child_order says which branch each is, and then there may be gaps.
 *   - Given a tree of a million nodes in one chain this needs some 60 bytes a node and no stack: orders follow from the
 * sizes of subtrees.
 *
 * Source: Shiv and Quirk 2019, Novel positional encodings to enable tree-based transformers; the authors' icecaps,
 * util/trees.py: TreeNode. */
#include "core/exact.h"
#include "core/pace.h"
#include "core/params.h"
#include "graph/batch.h"
#include "graph/paths.h"
#include "linalg/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const posenc_encoding pe_tree;

/* ---- rows ---- */

enum { RAW, LCRS, FILLED };
enum { ERROR, CLAMP };
static const char *const forms[] = { "raw", "lcrs", "filled", NULL };
static const char *const overflows[] = { "error", "clamp", NULL };
enum { DEPTH = 256, WIDTH = 2, PATH = 16, MAX_COLUMNS = 1 << 22, MAX_NODES = INT32_MAX - 2, MAX_TREES = 1000000 };

typedef struct tree {
    posenc_given given;
    posenc_tensor parent, edge_index, ptr, child_order, edge_types, edge_embeddings;
    posenc_reals root;
    int tree_form, branch_overflow;
    int64_t tree_depth, tree_width, d_model, path_length;
    posenc_reals decay;
    bool return_encoding;
    int64_t n, total; /* nodes given; rows, with the placeholders of `filled`; no rows */
} tree;

static const posenc_param rows[] = {
    { PE_TENSOR(tree, parent), .flags = PE_OPTIONAL,
      .doc = "[n]: the parent of each node, -1 of a root; or edge_index and root" },
    { PE_TENSOR(tree, child_order), .flags = PE_OPTIONAL,
      .doc = "[n]: the branch of each node, 0 and up, different among siblings; of roots not looked at; when absent "
             "children are counted by id" },
    { PE_ENUM(tree, tree_form), .names = forms, .def = RAW,
      .doc = "as given; left child, right sibling; or filled with placeholders up to tree_width (icecaps)" },
    { PE_BOOL(tree, return_encoding), .def = 1, .doc = "false leaves the output encoding out" },
    { PE_INT(tree, tree_depth), .def = DEPTH, .min = 1, .max = 65536, .doc = "steps of a code, the most recent ones" },
    { PE_INT(tree, tree_width), .def = WIDTH, .min = 1, .max = 65536, .doc = "branches of a step" },
    { PE_ENUM(tree, branch_overflow), .names = overflows, .def = ERROR,
      .doc = "a branch of tree_width or more: refused, or told as the last one" },
    { PE_REALS(tree, decay), .flags = PE_OPTIONAL, .min = -1, .max = 1,
      .doc = "decays p, each between -1 and 1, tanh of the learned parameters: block l is weighted by p^l; without them "
             "codes are 0 and 1" },
    { PE_INT(tree, d_model), .flags = PE_DERIVED, .min = 1, .max = INT32_MAX,
      .doc = "of the factor sqrt((1 - p^2) d_model / 2) of decay; when absent the columns of encoding" },
    { PE_TENSOR(tree, edge_types), .flags = PE_OPTIONAL,
      .doc = "[n]: the type of the edge to each node's parent, 0 and up; of roots not looked at; with edge_index [edges]" },
    { PE_INT(tree, path_length), .def = PATH, .max = 65536,
      .doc = "types in a row of path, the most recent ones; 0 leaves the output out" },
    { PE_TENSOR(tree, edge_embeddings), .flags = PE_OPTIONAL,
      .doc = "[types, d]: path_sum adds the rows of the types on a path; unit rows count types" },
    { PE_TENSOR(tree, edge_index), .flags = PE_OPTIONAL,
      .doc = "[2, edges]: the edges in the place of parent, each from parent to child or from child to parent" },
    { PE_REALS(tree, root), .flags = PE_OPTIONAL, .max = 2147483647, .doc = "of edge_index: the roots, one of each tree" },
    { PE_TENSOR(tree, ptr), .flags = PE_OPTIONAL,
      .doc = "[G + 1]: a batch: tree g has the nodes ptr[g] .. ptr[g + 1] - 1; all ids are those of the batch" },
};

static const posenc_output outputs[] = {
    { "encoding", "[n, tree_depth * tree_width * decays]", "codes of the paths", NULL },
    { "depth", "[n]", "steps from the root", "int32" },
    { "branch", "[n]", "which child of its parent; 0 of a root", "int32" },
    { "height", "[n]", "steps to the deepest node below; 0 of a leaf", "int32" },
    { "preorder", "[n]", "place of the node when each comes before its children", "int32" },
    { "postorder", "[n]", "place of the node when each comes after its children", "int32" },
    { "parent", "[n], but for tree_form=raw", "the tree that is told", "int32" },
    { "path", "[n, path_length], with edge_types",
      "types from the root to the node, the most recent in the last column; -1 before the first", "int32" },
    { "path_sum", "[n, d], with edge_embeddings", "sum of the embeddings along the path, from the root on", NULL },
    { "offsets", "[G + 1], with ptr", "tree g has the rows offsets[g] .. offsets[g + 1] - 1: ptr, but for tree_form=filled",
      "int64" },
    { "status", "[G], with ptr", "0: ok; 400: no tree, its rows are NaN and -1", "int32" },
};

static bool given(const tree *p, const char *name)
{
    return posenc_was_given(&pe_tree.table, posenc_row(&pe_tree.table, name), p);
}

static int64_t decays(const tree *p) { return given(p, "decay") ? (int64_t)p->decay.n : 1; }
static int64_t columns(const tree *p) { return p->tree_depth * p->tree_width * decays(p); }

/* ---- a tree in order ---- */

typedef struct item {
    int32_t parent, ordinal, node; /* roots have the parent n */
} item;

typedef struct ordered {
    int64_t n;
    int32_t *parent, *branch; /* (n) -1 of a root */
    int32_t *begin, *child; /* (n + 2), (n) children of v: child[begin[v] .. begin[v + 1] - 1], by branch; of n: the roots */
    int32_t *order;         /* (n) level by level: parents before children */
} ordered;

static void ordered_fini(ordered *t)
{
    free(t->parent);
    free(t->branch);
    free(t->begin);
    free(t->child);
    free(t->order);
    *t = (ordered){ 0 };
}

static posenc_status ordered_init(ordered *t, int64_t n, posenc_error *err)
{
    const size_t size = (size_t)n + 1;
    *t = (ordered){ .n = n };
    t->parent = malloc(size * sizeof *t->parent);
    t->branch = malloc(size * sizeof *t->branch);
    t->begin = calloc(size + 1, sizeof *t->begin);
    t->child = malloc(size * sizeof *t->child);
    t->order = malloc(size * sizeof *t->order);
    return t->parent && t->branch && t->begin && t->child && t->order ? PE_OK : pe_no_memory("memory", err);
}

static int by_parent(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->ordinal != y->ordinal)
        return x->ordinal < y->ordinal ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Children and branches from `parent`; node 0 has the id `first`. ordinals: `branch` holds what child_order says, otherwise
 * children are counted. */
static posenc_status list_children(ordered *t, int64_t first, bool ordinals, pe_pace *pace, posenc_error *err)
{
    const int64_t n = t->n;
    posenc_status st = PE_OK;
    item *items = malloc((size_t)(2 * n + 1) * sizeof *items);
    if (!items)
        return pe_no_memory("memory", err);
    for (int64_t v = 0; v < n && !st; v++) {
        const bool root = t->parent[v] < 0;
        items[v] = (item){ .parent = root ? (int32_t)n : t->parent[v],
                           .ordinal = root || !ordinals ? 0 : t->branch[v],
                           .node = (int32_t)v };
        t->begin[items[v].parent + 1]++;
        st = pe_pace_add(pace, 6);
    }
    for (int64_t v = 0; v <= n && !st; v++) {
        t->begin[v + 1] += t->begin[v];
        st = pe_pace_add(pace, 1);
    }
    if (!st)
        st = pe_sort(n, sizeof *items, items, items + n, by_parent, pace);
    for (int64_t i = 0; i < n && !st; i++) {
        const item *it = &items[i];
        t->child[i] = it->node;
        if (ordinals && i && it->parent < n && it->parent == it[-1].parent && it->ordinal == it[-1].ordinal) {
            st = pe_invalid(err, posenc_text("child_order[%lld]", (long long)(first + it->node)).s,
                            posenc_text("%d", it->ordinal), "another branch than that of its sibling %lld",
                            (long long)(first + it[-1].node));
            break;
        }
        t->branch[it->node] = it->parent == n ? 0 : ordinals ? it->ordinal : (int32_t)i - t->begin[it->parent];
        st = pe_pace_add(pace, 8);
    }
    free(items);
    return st;
}

/* The lowest node of the cycle that the parents of v lead to. `seen` is scratch (n). */
static int32_t lowest_of_cycle(const ordered *t, int32_t v, int32_t *seen)
{
    for (int64_t i = 0; i < t->n; i++)
        seen[i] = 0;
    for (; !seen[v]; v = t->parent[v])
        seen[v] = 1;
    int32_t lowest = v;
    for (int32_t u = t->parent[v]; u != v; u = t->parent[u])
        lowest = u < lowest ? u : lowest;
    return lowest;
}

/* Level by level from the roots; a node that no root leads to has a cycle above it. */
static posenc_status list_levels(ordered *t, int64_t origin, pe_pace *pace, posenc_error *err)
{
    const int64_t n = t->n;
    int64_t tail = 0;
    posenc_status st = PE_OK;
    for (int64_t i = t->begin[n]; i < t->begin[n + 1] && !st; i++) {
        t->order[tail++] = t->child[i];
        st = pe_pace_add(pace, 2);
    }
    for (int64_t head = 0; head < tail && !st; head++) {
        const int32_t v = t->order[head];
        for (int64_t i = t->begin[v]; i < t->begin[v + 1]; i++)
            t->order[tail++] = t->child[i];
        st = pe_pace_add(pace, 6 + 2 * (t->begin[v + 1] - t->begin[v]));
    }
    if (st || tail == n)
        return st;
    char *reached = calloc((size_t)n, 1);
    if (!reached)
        return pe_no_memory("memory", err);
    for (int64_t i = 0; i < tail; i++)
        reached[t->order[i]] = 1;
    const int32_t first = (int32_t)((char *)memchr(reached, 0, (size_t)n) - reached);
    free(reached);
    const int32_t lowest = lowest_of_cycle(t, first, t->order);
    const long long v = origin + lowest, u = origin + t->parent[lowest];
    return posenc_fail(err, PE_INVALID, "CYCLE", posenc_text("parent[%lld]", v).s, posenc_text("%lld", u).s,
                       "a parent that leads to a root: node %lld is its own ancestor", v);
}

/* ---- what is given ---- */

/* A tree of the batch, or all that is given: nodes first .. first + n - 1. */
typedef struct part {
    int64_t first, n;
} part;

static int64_t part_count(const tree *p) { return given(p, "ptr") ? p->ptr.shape[0] - 1 : 1; }

static part part_at(const tree *p, int64_t g)
{
    if (!given(p, "ptr"))
        return (part){ 0, p->n };
    const int64_t first = (int64_t)posenc_tensor_get(&p->ptr, g);
    return (part){ first, (int64_t)posenc_tensor_get(&p->ptr, g + 1) - first };
}

/* The edges by node, where parents are not given. */
typedef struct given_edges {
    int32_t *begin;       /* (n + 2) */
    int32_t *near, *edge; /* (2 edges) the other end; the number */
    uint8_t *root;        /* (n) */
} given_edges;

static void given_edges_fini(given_edges *e)
{
    free(e->begin);
    free(e->near);
    free(e->edge);
    free(e->root);
    *e = (given_edges){ 0 };
}

static posenc_status given_edges_init(given_edges *e, const tree *p, pe_pace *pace, posenc_error *err)
{
    *e = (given_edges){ 0 };
    if (!given(p, "edge_index"))
        return PE_OK;
    const int64_t m = p->edge_index.shape[1];
    posenc_status st = PE_OK;
    e->begin = calloc((size_t)p->n + 3, sizeof *e->begin);
    e->near = malloc((size_t)(2 * m + 1) * sizeof *e->near);
    e->edge = malloc((size_t)(2 * m + 1) * sizeof *e->edge);
    e->root = calloc((size_t)p->n + 1, 1);
    if (!e->begin || !e->near || !e->edge || !e->root)
        return pe_no_memory("memory", err);
    for (int64_t i = 0; i < 2 * m && !st; i++) {
        e->begin[(int64_t)posenc_tensor_get(&p->edge_index, i) + 2]++;
        st = pe_pace_add(pace, 8);
    }
    for (int64_t v = 0; v <= p->n && !st; v++) {
        e->begin[v + 2] += e->begin[v + 1];
        st = pe_pace_add(pace, 2);
    }
    for (int64_t i = 0; i < 2 * m && !st; i++) { /* begin[v + 1]: next free place of v */
        const int64_t at = e->begin[(int64_t)posenc_tensor_get(&p->edge_index, i) + 1]++;
        e->near[at] = (int32_t)posenc_tensor_get(&p->edge_index, i < m ? i + m : i - m);
        e->edge[at] = (int32_t)(i < m ? i : i - m);
        st = pe_pace_add(pace, 20);
    }
    for (size_t i = 0; i < p->root.n && !st; i++) {
        e->root[(int64_t)p->root.v[i]] = 1;
        st = pe_pace_add(pace, 4);
    }
    return st;
}

/* Parents from edges: a walk from the roots. edge (t->n): the edge to each node's parent; queue: scratch. */
static posenc_status walk_edges(const given_edges *e, int64_t first, ordered *t, int32_t *edge, int32_t *queue,
                                pe_pace *pace, posenc_error *err)
{
    enum { NOT_YET = -2 };
    int64_t tail = 0;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < t->n && !st; v++) {
        t->parent[v] = e->root[first + v] ? -1 : NOT_YET;
        edge[v] = -1;
        if (e->root[first + v])
            queue[tail++] = (int32_t)v;
        st = pe_pace_add(pace, 4);
    }
    for (int64_t head = 0; head < tail && !st; head++) {
        const int32_t u = queue[head];
        for (int64_t i = e->begin[first + u]; i < e->begin[first + u + 1]; i++) {
            const int32_t v = (int32_t)(e->near[i] - first);
            if (e->edge[i] == edge[u])
                continue;
            if (t->parent[v] != NOT_YET)
                return posenc_fail(err, PE_INVALID, "TWO_PARENTS", posenc_text("edge_index[0][%d]", e->edge[i]).s,
                                   posenc_text("%lld - %lld", (long long)(first + u), (long long)e->near[i]).s,
                                   "one way from the roots to each node: there are two to node %lld",
                                   (long long)(first + v));
            t->parent[v] = u;
            edge[v] = e->edge[i];
            queue[tail++] = v;
        }
        st = pe_pace_add(pace, 8 + 6 * (e->begin[first + u + 1] - e->begin[first + u]));
    }
    for (int64_t v = 0; v < t->n && !st; v++)
        if (t->parent[v] == NOT_YET)
            return posenc_fail(err, PE_INVALID, "UNREACHABLE", "root",
                               posenc_text("%lld of %lld nodes reached", (long long)tail, (long long)t->n).s,
                               "roots from which edges lead to every node: none leads to node %lld", (long long)(first + v));
    return st;
}

/* edge (s.n): see walk_edges; of parents the node. */
static posenc_status as_given(const tree *p, const given_edges *e, part s, ordered *t, int32_t *edge, pe_pace *pace,
                              posenc_error *err)
{
    const bool ordinals = given(p, "child_order");
    posenc_status st = ordered_init(t, s.n, err);
    if (!st && e->begin)
        st = walk_edges(e, s.first, t, edge, t->order, pace, err);
    for (int64_t v = 0; v < s.n && !st; v++) {
        if (!e->begin) {
            const int64_t u = (int64_t)posenc_tensor_get(&p->parent, s.first + v);
            t->parent[v] = (int32_t)(u < 0 ? -1 : u - s.first);
            edge[v] = (int32_t)(s.first + v);
        }
        if (ordinals)
            t->branch[v] = (int32_t)posenc_tensor_get(&p->child_order, s.first + v);
        if (ordinals && t->parent[v] >= 0 && t->branch[v] < 0)
            return pe_invalid(err, posenc_text("child_order[%lld]", (long long)(s.first + v)).s, posenc_text("-1"),
                              "a branch: 0 or more");
        st = pe_pace_add(pace, 8);
    }
    if (!st)
        st = list_children(t, s.first, ordinals, pace, err);
    return st ? st : list_levels(t, s.first, pace, err);
}

/* Branch 0 to the first child, branch 1 to the next sibling. */
static posenc_status left_child_right_sibling(const ordered *t, ordered *out, pe_pace *pace, posenc_error *err)
{
    posenc_status st = ordered_init(out, t->n, err);
    for (int64_t u = 0; u <= t->n && !st; u++)
        for (int64_t i = t->begin[u]; i < t->begin[u + 1] && !st; i++) {
            const int32_t v = t->child[i];
            const bool root = u == t->n, first = i == t->begin[u];
            out->parent[v] = root ? -1 : first ? (int32_t)u : t->child[i - 1];
            out->branch[v] = !root && !first;
            st = pe_pace_add(pace, 8);
        }
    return st;
}

/* Placeholders, which stand after the n nodes. Every branch is below `width`. */
static posenc_status fill(const ordered *t, int64_t width, int64_t total, ordered *out, pe_pace *pace, posenc_error *err)
{
    int64_t next = t->n;
    posenc_status st = ordered_init(out, total, err);
    for (int64_t v = 0; v < t->n && !st; v++) {
        const int32_t end = t->begin[v + 1];
        out->parent[v] = t->parent[v];
        out->branch[v] = t->branch[v];
        st = pe_pace_add(pace, 8);
        for (int64_t b = 0, i = t->begin[v]; t->begin[v] < end && b < width && !st; b++) {
            st = pe_pace_add(pace, 4);
            if (i < end && t->branch[t->child[i]] == b) {
                i++;
                continue;
            }
            out->parent[next] = (int32_t)v;
            out->branch[next++] = (int32_t)b;
        }
    }
    return st;
}

/* Rows of a tree once it is filled. */
static int64_t filled_rows(const tree *p, const ordered *t)
{
    int64_t rows_filled = t->n;
    for (int64_t v = 0; v < t->n; v++)
        if (t->begin[v + 1] > t->begin[v])
            rows_filled += p->tree_width - (t->begin[v + 1] - t->begin[v]);
    return rows_filled;
}

/* The tree in one of its forms. */
static posenc_status arrange(const tree *p, const given_edges *e, part s, int form, ordered *out, int32_t *edge,
                             pe_pace *pace, posenc_error *err)
{
    ordered t = { 0 };
    posenc_status st = as_given(p, e, s, &t, edge, pace, err);
    if (st || form == RAW) {
        *out = t;
        return st;
    }
    st = form == LCRS ? left_child_right_sibling(&t, out, pace, err)
                      : fill(&t, p->tree_width, filled_rows(p, &t), out, pace, err);
    ordered_fini(&t);
    if (!st)
        st = list_children(out, s.first, true, pace, err);
    return st ? st : list_levels(out, s.first, pace, err);
}

/* ---- rules ---- */

static posenc_status check_types(const tree *p, posenc_error *err)
{
    const posenc_tensor *t = &p->edge_types, *e = &p->edge_embeddings;
    const bool embedded = given(p, "edge_embeddings");
    int64_t types = INT32_MAX;
    if (embedded && !pe_tensor_shaped(e, 2, (const int64_t[]){ -1, -1 }, "[types, d]", err))
        return PE_INVALID;
    if (embedded)
        types = e->shape[0];
    const bool edges = given(p, "edge_index");
    const int64_t count = edges ? p->edge_index.shape[1] : p->n;
    if (!pe_tensor_shaped(t, 1, &count, edges ? "[edges], as edge_index" : "[n], as parent", err) ||
        !pe_tensor_integers(t, -1, INT32_MAX - 1, "a type: 0 or more", err))
        return PE_INVALID;
    for (int64_t v = 0; v < count; v++) {
        const double type = posenc_tensor_get(t, v);
        if ((edges || posenc_tensor_get(&p->parent, v) >= 0) && (type < 0 || type >= (double)types))
            return pe_invalid(err, posenc_text("edge_types[%lld]", (long long)v).s, posenc_text("%.0f", type),
                              embedded ? "0 .. %lld, a row of edge_embeddings" : "0 .. %lld", (long long)types - 1);
    }
    return PE_OK;
}

/* What a branch of tree_width or more makes impossible. */
static posenc_status check_branches(const tree *p, int64_t first, const ordered *t, posenc_error *err)
{
    const bool matters = p->tree_form == FILLED || (p->return_encoding && p->branch_overflow == ERROR);
    for (int64_t v = 0; v < t->n && matters; v++)
        if (t->branch[v] >= p->tree_width)
            return pe_invalid(err, "tree_width", posenc_text("%lld", (long long)p->tree_width),
                              "over %d: node %lld is branch %d of node %lld%s", t->branch[v], (long long)(first + v),
                              t->branch[v], (long long)(first + t->parent[v]),
                              p->tree_form == FILLED ? "" : "; or branch_overflow=clamp");
    return PE_OK;
}

/* A tree as it will be told, in the form whose branches are checked; of `filled` the placeholders are not made. */
static posenc_status check_part(const tree *p, const given_edges *e, part s, int32_t *edge, int64_t *rows_told,
                                pe_pace *pace, posenc_error *err)
{
    ordered t = { 0 };
    posenc_status st = arrange(p, e, s, p->tree_form == LCRS ? LCRS : RAW, &t, edge, pace, err);
    if (!st)
        st = check_branches(p, s.first, &t, err);
    *rows_told = !st && p->tree_form == FILLED ? filled_rows(p, &t) : s.n;
    ordered_fini(&t);
    return st;
}

/* Shapes and ranges of what says the tree. Fills in n. */
static posenc_status check_nodes(tree *p, posenc_error *err)
{
    const bool parents = given(p, "parent"), edges = given(p, "edge_index"), roots = given(p, "root");
    if (parents && (edges || roots))
        return pe_invalid(err, edges ? "edge_index" : "root", posenc_text("beside parent"),
                          "parent, or edge_index and root");
    if (!parents && !edges)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", roots ? "edge_index" : "parent", "absent",
                           roots ? "the edges between the nodes" : "the parent of each node; or edge_index and root");
    if (edges && !p->root.n)
        return posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "root", "absent", "the roots: edge_index has no direction");
    if (given(p, "ptr") && (!pe_tensor_shaped(&p->ptr, 1, (const int64_t[]){ -1 }, "[G + 1]", err) ||
                            !pe_tensor_integers(&p->ptr, 0, MAX_NODES, "a node, or their number", err)))
        return PE_INVALID;
    if (given(p, "ptr") && (p->ptr.shape[0] < 2 || p->ptr.shape[0] > MAX_TREES + 1))
        return pe_invalid(err, "ptr", posenc_text("%lld numbers", (long long)p->ptr.shape[0]),
                          "1 .. %d trees: one number more than trees", (int)MAX_TREES);
    if (parents ? !pe_tensor_shaped(&p->parent, 1, (const int64_t[]){ -1 }, "[n]", err)
                : !pe_tensor_shaped(&p->edge_index, 2, (const int64_t[]){ 2, -1 }, "[2, edges]", err))
        return PE_INVALID;
    p->n = parents           ? p->parent.shape[0]
           : given(p, "ptr") ? (int64_t)posenc_tensor_get(&p->ptr, p->ptr.shape[0] - 1)
                             : p->edge_index.shape[1] + (int64_t)p->root.n;
    if (p->n > MAX_NODES || (edges && p->edge_index.shape[1] > MAX_NODES / 2))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", parents ? "parent" : "edge_index",
                           posenc_text("%lld nodes", (long long)p->n).s, "at most %d nodes and half as many edges",
                           (int)MAX_NODES);
    if (parents)
        return pe_tensor_integers(&p->parent, -1, (double)p->n - 1, "a node, or -1 of a root", err) ? PE_OK : PE_INVALID;
    for (size_t i = 0; i < p->root.n; i++)
        if (p->root.v[i] != (double)(int64_t)p->root.v[i] || p->root.v[i] >= (double)p->n)
            return pe_invalid(err, posenc_text("root[%zu]", i).s, posenc_text("%.17g", p->root.v[i]),
                              "a node: 0 .. %lld, as many as edges and roots", (long long)p->n - 1);
    return pe_tensor_integers(&p->edge_index, 0, (double)p->n - 1, "a node: there are as many as edges and roots", err)
               ? PE_OK
               : PE_INVALID;
}

/* The batch: ptr ascends to n, and nothing leads from one tree to another. */
static posenc_status check_batch(const tree *p, posenc_error *err)
{
    if (!given(p, "ptr"))
        return PE_OK;
    const int64_t count = part_count(p);
    for (int64_t g = 0; g <= count; g++) {
        const long long now = (long long)posenc_tensor_get(&p->ptr, g);
        const long long least = g ? (long long)posenc_tensor_get(&p->ptr, g - 1) : 0;
        if (now < least || (!g && now))
            return pe_invalid(err, posenc_text("ptr[%lld]", (long long)g).s, posenc_text("%lld", now),
                              g ? "at least %lld" : "%lld", least);
    }
    if ((int64_t)posenc_tensor_get(&p->ptr, count) != p->n)
        return pe_invalid(err, posenc_text("ptr[%lld]", (long long)count).s,
                          posenc_text("%lld", (long long)posenc_tensor_get(&p->ptr, count)), "%lld, the nodes of parent",
                          (long long)p->n);
    const bool edges = given(p, "edge_index");
    const int64_t m = edges ? p->edge_index.shape[1] : 0;
    for (int64_t g = 0; g < count && !edges; g++) {
        const part s = part_at(p, g);
        for (int64_t v = s.first; v < s.first + s.n; v++) {
            const int64_t u = (int64_t)posenc_tensor_get(&p->parent, v);
            if (u >= 0 && (u < s.first || u >= s.first + s.n))
                return pe_invalid(err, posenc_text("parent[%lld]", (long long)v).s, posenc_text("%lld", (long long)u),
                                  "%lld .. %lld, the nodes of tree %lld, or -1", (long long)s.first,
                                  (long long)(s.first + s.n - 1), (long long)g);
        }
    }
    for (int64_t i = 0; i < m; i++) {
        const int64_t u = (int64_t)posenc_tensor_get(&p->edge_index, i),
                      v = (int64_t)posenc_tensor_get(&p->edge_index, m + i);
        int64_t low = 0, high = count; /* ptr[low] <= u < ptr[high] */
        while (high - low > 1) {
            const int64_t mid = low + (high - low) / 2;
            if ((int64_t)posenc_tensor_get(&p->ptr, mid) <= u)
                low = mid;
            else
                high = mid;
        }
        const part s = part_at(p, low);
        if (v < s.first || v >= s.first + s.n)
            return pe_invalid(err, posenc_text("edge_index[1][%lld]", (long long)i).s, posenc_text("%lld", (long long)v),
                              "%lld .. %lld, the nodes of tree %lld", (long long)s.first, (long long)(s.first + s.n - 1),
                              (long long)low);
    }
    return PE_OK;
}

/* Each tree, and the rows of all. In a batch one that is none has its nodes as rows. */
static posenc_status check_trees(tree *p, posenc_error *err)
{
    pe_pace pace = { .ctx = NULL, .left = PE_PACE_STEPS };
    given_edges e;
    int32_t *edge = malloc((size_t)(p->n + 1) * sizeof *edge);
    posenc_status st = edge ? given_edges_init(&e, p, &pace, err) : pe_no_memory("memory", err);
    p->total = 0;
    for (int64_t g = 0; g < part_count(p) && !st; g++) {
        posenc_error local = { 0 };
        int64_t more = 0;
        st = check_part(p, &e, part_at(p, g), edge, &more, &pace, given(p, "ptr") ? &local : err);
        if (st == PE_INVALID && given(p, "ptr"))
            st = PE_OK;
        p->total += more;
        if (!st && p->total > MAX_NODES)
            st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "tree_width",
                             posenc_text("%lld nodes filled", (long long)p->total).s, "at most %d nodes", (int)MAX_NODES);
    }
    if (edge)
        given_edges_fini(&e);
    free(edge);
    return st;
}

/* Parameters that this request cannot use. */
static posenc_status check_use(const tree *p, posenc_error *err)
{
    posenc_status st = PE_OK;
    static const char with[] = "with return_encoding=true";
    if (p->tree_depth != DEPTH && !p->return_encoding)
        st = pe_not_applicable(err, "tree_depth", posenc_text("%lld", (long long)p->tree_depth).s, "%s", with);
    if (p->tree_width != WIDTH && !p->return_encoding && p->tree_form != FILLED)
        st = pe_not_applicable(err, "tree_width", posenc_text("%lld", (long long)p->tree_width).s, "%s or tree_form=filled",
                               with);
    if (p->branch_overflow != ERROR && (!p->return_encoding || p->tree_form == FILLED))
        st = pe_not_applicable(err, "branch_overflow", overflows[p->branch_overflow], "%s, but for tree_form=filled", with);
    if (given(p, "decay") && !p->return_encoding)
        st = pe_not_applicable(err, "decay", posenc_text("%zu numbers", p->decay.n).s, "%s", with);
    if (given(p, "edge_types") && p->tree_form != RAW)
        st = pe_not_applicable(err, "edge_types", "a tensor", "with tree_form=raw, whose edges they are");
    if (given(p, "edge_embeddings") && !given(p, "edge_types"))
        st = pe_not_applicable(err, "edge_embeddings", "a tensor", "with edge_types");
    if (p->path_length != PATH && !given(p, "edge_types"))
        st = pe_not_applicable(err, "path_length", posenc_text("%lld", (long long)p->path_length).s, "with edge_types");
    return st;
}

static posenc_status check_decay(tree *p, posenc_error *err)
{
    posenc_status st = PE_OK;
    const int64_t derived = columns(p);
    for (size_t q = 0; q < p->decay.n && !st; q++)
        if (fabs(p->decay.v[q]) >= 1)
            st = pe_invalid(err, posenc_text("decay[%zu]", q).s, posenc_text("%.17g", p->decay.v[q]),
                            "between -1 and 1, both excluded: at 1 the factor is 0");
    if (given(p, "d_model") && !given(p, "decay") && p->d_model != derived)
        st = pe_not_applicable(err, "d_model", posenc_text("%lld", (long long)p->d_model).s, "with decay");
    if (!given(p, "d_model"))
        p->d_model = derived > 0 ? derived : 1;
    return st;
}

static posenc_status check(posenc_request *r, posenc_error *err)
{
    tree *p = r->params;
    posenc_status st = check_use(p, err);
    if (!given(p, "decay") || p->decay.n)
        st = check_decay(p, err) ? PE_INVALID : st;
    else
        st = pe_invalid(err, "decay", posenc_text("an empty list"), "one decay or more");
    if (columns(p) > MAX_COLUMNS && p->return_encoding)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "tree_depth", posenc_text("%lld columns", (long long)columns(p)).s,
                         "at most %d columns: tree_depth, tree_width and decays multiplied", (int)MAX_COLUMNS);
    posenc_status nodes = check_nodes(p, err);
    if (!nodes)
        nodes = check_batch(p, err);
    if (nodes)
        return nodes;
    if (given(p, "child_order") && (!pe_tensor_shaped(&p->child_order, 1, &p->n, "[n], a branch of each node", err) ||
                                    !pe_tensor_integers(&p->child_order, -1, INT32_MAX - 1, "a branch: 0 or more", err)))
        st = PE_INVALID;
    if (given(p, "edge_types") && !st && check_types(p, err))
        st = PE_INVALID;
    if (st || (st = check_trees(p, err)))
        return st;
    const double bytes = (double)p->total * (double)columns(p) * (double)posenc_dtype_size((posenc_dtype)r->common.dtype);
    if (!st && p->return_encoding && bytes > 0x1p31)
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "tree_depth",
                         posenc_text("%lld nodes: %.3g bytes", (long long)p->total, bytes).s,
                         "at most 2147483648 bytes of encoding: a smaller tree_depth or tree_width, fewer decays, or "
                         "return_encoding=false");
    return st;
}

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    const tree *p = r->params;
    static const char *const ints[] = { "depth", "branch", "height", "preorder", "postorder" };
    const posenc_dtype real = (posenc_dtype)r->common.dtype;
    const int64_t n = p->total;
    posenc_status st = PE_OK;
    if (p->return_encoding)
        st = pe_output(out, "encoding", real, 2, (const int64_t[]){ n, columns(p) }, err);
    for (size_t i = 0; i < PE_LEN(ints) && !st; i++)
        st = pe_output(out, ints[i], PE_int32, 1, &n, err);
    if (!st && p->tree_form != RAW)
        st = pe_output(out, "parent", PE_int32, 1, &n, err);
    if (!st && given(p, "edge_types") && p->path_length)
        st = pe_output(out, "path", PE_int32, 2, (const int64_t[]){ n, p->path_length }, err);
    if (!st && given(p, "edge_embeddings"))
        st = pe_output(out, "path_sum", real, 2, (const int64_t[]){ n, p->edge_embeddings.shape[1] }, err);
    const int64_t trees = part_count(p), ends = trees + 1;
    if (!st && given(p, "ptr"))
        st = pe_output(out, "offsets", PE_int64, 1, &ends, err);
    if (!st && given(p, "ptr"))
        st = pe_output(out, "status", PE_int32, 1, &trees, err);
    return st;
}

/* Columns of path_sum at a time. */
enum { STRIP = 16 };

/* [ns] measured on chains, random trees and syntax trees. */
static void cost(const posenc_request *r, posenc_cost *out)
{
    const tree *p = r->params;
    const double n = (double)p->total, steps = n < (double)p->tree_depth ? n : (double)p->tree_depth;
    double ns = 1000 + (given(p, "edge_index") ? 300 : 200) * n + 500 * (double)part_count(p);
    if (p->return_encoding)
        ns += n * (0.3 * (double)columns(p) + (8 + 2 * (double)decays(p)) * steps) +
              60.0 * (double)(p->tree_depth * decays(p));
    if (given(p, "edge_types"))
        ns += n * 4 * (double)p->path_length;
    if (given(p, "edge_embeddings"))
        ns += n * 6 * (double)p->edge_embeddings.shape[1];
    *out = (posenc_cost){ .ns = ns,
                          .scratch = (uint64_t)p->total * (2 * 24 + 36 + (given(p, "edge_index") ? 28u : 0u) +
                                                           (given(p, "edge_embeddings") ? 8u * STRIP : 0u)) +
                                     (uint64_t)(p->tree_depth * decays(p)) * 16 + 4096 };
}

/* ---- the outputs ---- */

/* Depths, heights and both orders, from levels and sizes of subtrees. */
static posenc_status number_nodes(const ordered *t, posenc_result *out, pe_pace *pace, posenc_error *err)
{
    const int64_t n = t->n;
    int32_t *depth = pe_tensor(out, "depth")->data, *height = pe_tensor(out, "height")->data;
    int32_t *pre = pe_tensor(out, "preorder")->data, *post = pe_tensor(out, "postorder")->data;
    int32_t *size = malloc((size_t)(2 * n + 1) * sizeof *size),
            *first = size + n; /* first: place of a subtree in postorder */
    posenc_status st = PE_OK;
    if (!size)
        return pe_no_memory("memory", err);
    for (int64_t v = 0; v < n && !st; v++) {
        size[v] = 1;
        height[v] = 0;
        st = pe_pace_add(pace, 2);
    }
    for (int64_t i = n - 1; i >= 0 && !st; i--) { /* children before parents */
        const int32_t v = t->order[i], u = t->parent[v];
        st = pe_pace_add(pace, 12);
        if (u < 0)
            continue;
        size[u] += size[v];
        height[u] = height[v] >= height[u] ? height[v] + 1 : height[u];
    }
    int32_t before = 0;
    for (int64_t i = t->begin[n]; i < t->begin[n + 1] && !st; i++) {
        const int32_t root = t->child[i];
        depth[root] = 0;
        pre[root] = first[root] = before;
        before += size[root];
        st = pe_pace_add(pace, 6);
    }
    for (int64_t i = 0; i < n && !st; i++) { /* parents before children */
        const int32_t v = t->order[i];
        int32_t inside = 0; /* nodes in the subtrees of the siblings so far */
        for (int64_t c = t->begin[v]; c < t->begin[v + 1] && !st; c++) {
            const int32_t w = t->child[c];
            depth[w] = depth[v] + 1;
            pre[w] = pre[v] + 1 + inside;
            first[w] = first[v] + inside;
            inside += size[w];
            st = pe_pace_add(pace, 16);
        }
        post[v] = first[v] + size[v] - 1;
        st = st ? st : pe_pace_add(pace, 8);
    }
    free(size);
    return st;
}

/* x > 0, to 106 bits or so. */
static pe_dd root(pe_dd x)
{
    const double s = sqrt(x.hi);
    const pe_dd p = pe_two_prod(s, s);
    return pe_fast_two_sum(s, ((x.hi - p.hi) - p.lo + x.lo) / (2 * s));
}

/* What stands for a step of level l: 1, or the weight of each decay. (tree_depth, decays), in the dtype of the answer. */
static posenc_status weigh(const tree *p, posenc_dtype dtype, char *weights, pe_pace *pace)
{
    const int64_t count = decays(p), size = (int64_t)posenc_dtype_size(dtype);
    const bool decayed = given(p, "decay");
    posenc_status st = PE_OK;
    for (int64_t q = 0; q < count; q++) {
        const double d = decayed ? p->decay.v[q] : 1;
        pe_dd w = { 1, 0 };
        if (decayed) /* (1 - p) (1 + p) d_model / 2 */
            w = root(pe_dd_times(pe_dd_mul(pe_two_sum(1, -d), pe_two_sum(1, d)), 0.5 * (double)p->d_model));
        for (int64_t l = 0; l < p->tree_depth; l++) {
            posenc_convert(dtype, weights + (l * count + q) * size, &w.hi, 1);
            w = decayed ? pe_dd_times(w, d) : w;
            if ((st = pe_pace_add(pace, 30)))
                return st;
        }
    }
    return st;
}

static posenc_status write_codes(const tree *p, const ordered *t, posenc_tensor *out, pe_pace *pace, posenc_error *err)
{
    const size_t step = (size_t)decays(p) * posenc_dtype_size(out->dtype),
                 row = (size_t)columns(p) * posenc_dtype_size(out->dtype);
    char *weights = malloc((size_t)p->tree_depth * step);
    if (!weights)
        return pe_no_memory("memory", err);
    posenc_status st = weigh(p, out->dtype, weights, pace);
    for (int64_t v = 0; v < t->n && !st; v++) {
        char *to = (char *)out->data + (size_t)v * row;
        for (size_t i = 0; i < row && !st; i += 1 << 16) { /* 0 of every dtype is zero bits */
            const size_t some = row - i < 1 << 16 ? row - i : 1 << 16;
            memset(to + i, 0, some);
            st = pe_pace_add(pace, (int64_t)some / 4 + 4);
        }
        int32_t u = (int32_t)v;
        for (int64_t l = 0; l < p->tree_depth && t->parent[u] >= 0 && !st; l++, u = t->parent[u]) {
            const int64_t branch = t->branch[u] < p->tree_width ? t->branch[u] : p->tree_width - 1;
            memcpy(to + (size_t)(l * p->tree_width + branch) * step, weights + (size_t)l * step, step);
            st = pe_pace_add(pace, 6 + (int64_t)step / 8);
        }
    }
    free(weights);
    return st;
}

static posenc_status write_paths(const tree *p, const ordered *t, const int32_t *edge, int32_t *path, pe_pace *pace)
{
    const int64_t length = p->path_length;
    posenc_status st = PE_OK;
    for (int64_t v = 0; v < t->n && !st; v++) {
        int32_t u = (int32_t)v;
        for (int64_t i = length - 1; i >= 0 && !st; i--) {
            path[v * length + i] = -1;
            st = pe_pace_add(pace, 4);
            if (t->parent[u] < 0)
                continue;
            path[v * length + i] = (int32_t)posenc_tensor_get(&p->edge_types, edge[u]);
            u = t->parent[u];
        }
    }
    return st;
}

/* A strip of columns at a time, parents before children. */
static posenc_status write_sums(const tree *p, const ordered *t, const int32_t *edge, posenc_tensor *out, pe_pace *pace,
                                posenc_error *err)
{
    const int64_t n = t->n, d = out->shape[1];
    const size_t size = posenc_dtype_size(out->dtype);
    const double most = pe_distance_largest(out->dtype);
    posenc_status st = PE_OK;
    double *sum = malloc((size_t)(n * STRIP + 1) * sizeof *sum);
    if (!sum)
        return pe_no_memory("memory", err);
    for (int64_t at = 0; at < d && !st; at += STRIP) {
        const int64_t wide = d - at < STRIP ? d - at : STRIP;
        for (int64_t i = 0; i < n && !st; i++) {
            const int64_t v = t->order[i], u = t->parent[v];
            const int64_t type = u < 0 ? 0 : (int64_t)posenc_tensor_get(&p->edge_types, edge[v]);
            for (int64_t k = 0; k < wide; k++) {
                sum[v * STRIP + k] = u < 0 ? 0
                                           : sum[u * STRIP + k] + posenc_tensor_get(&p->edge_embeddings, type * d + at + k);
                if (!(fabs(sum[v * STRIP + k]) <= most)) {
                    st = pe_invalid(err, "edge_embeddings",
                                    posenc_text("a sum of %.3g at node %lld", sum[v * STRIP + k], (long long)v),
                                    "embeddings whose sums along paths %s holds", posenc_dtype_name(out->dtype));
                    goto done;
                }
            }
            posenc_convert(out->dtype, (char *)out->data + (size_t)(v * d + at) * size, sum + v * STRIP, (size_t)wide);
            st = pe_pace_add(pace, 10 + 8 * wide);
        }
    }
done:
    free(sum);
    return st;
}

/* The rows of one tree, into `out`, whose tensors begin there. */
static posenc_status write_tree(const tree *p, const ordered *t, const int32_t *edge, int64_t first_row, posenc_result *out,
                                pe_pace *pace, posenc_error *err)
{
    posenc_status st = number_nodes(t, out, pace, err);
    if (!st)
        st = pe_pace_copy(pace, pe_tensor(out, "branch")->data, t->branch, (size_t)t->n * sizeof *t->branch);
    int32_t *parent = p->tree_form != RAW ? pe_tensor(out, "parent")->data : NULL;
    for (int64_t v = 0; v < t->n && parent && !st; v++) {
        parent[v] = t->parent[v] < 0 ? -1 : (int32_t)(first_row + t->parent[v]);
        st = pe_pace_add(pace, 2);
    }
    if (!st && p->return_encoding)
        st = write_codes(p, t, pe_tensor(out, "encoding"), pace, err);
    if (!st && given(p, "edge_types") && p->path_length)
        st = write_paths(p, t, edge, pe_tensor(out, "path")->data, pace);
    if (!st && given(p, "edge_embeddings"))
        st = write_sums(p, t, edge, pe_tensor(out, "path_sum"), pace, err);
    return st;
}

/* The same tensors from a row on, but for those with a number a tree. */
static posenc_result rows_from(const posenc_result *all, int64_t row)
{
    posenc_result r = *all;
    for (int i = 0; i < r.ntensors; i++) {
        posenc_tensor *t = &r.tensor[i];
        if (!strcmp(t->name, "offsets") || !strcmp(t->name, "status"))
            continue;
        const int64_t width = t->rank == 2 ? t->shape[1] : 1;
        t->data = (char *)t->data + (size_t)(row * width) * posenc_dtype_size(t->dtype);
    }
    return r;
}

static posenc_status spoil(posenc_result *out, int64_t n, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int i = 0; i < out->ntensors && !st; i++)
        if (strcmp(out->tensor[i].name, "offsets") && strcmp(out->tensor[i].name, "status"))
            st = pe_spoil(&out->tensor[i], 0, n, pace);
    return st;
}

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    enum { NAMED = 2 };
    const tree *p = r->params;
    const bool batched = given(p, "ptr");
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    int64_t *offsets = batched ? pe_tensor(out, "offsets")->data : NULL, row = 0, failed = 0;
    int32_t *status = batched ? pe_tensor(out, "status")->data : NULL, *edge = malloc((size_t)(p->n + 1) * sizeof *edge);
    given_edges e;
    if (!edge)
        return pe_no_memory("memory", err);
    posenc_status st = given_edges_init(&e, p, &pace, err);
    for (int64_t g = 0; g < part_count(p) && !st; g++) {
        const part s = part_at(p, g);
        posenc_error local = { 0 };
        posenc_result mine = rows_from(out, row);
        ordered t = { 0 };
        if (batched)
            st = check_part(p, &e, s, edge, &(int64_t){ 0 }, &pace, &local);
        if (!st)
            st = arrange(p, &e, s, p->tree_form, &t, edge, &pace, batched ? &local : err);
        const int64_t count = st ? s.n : t.n;
        if (!st)
            st = write_tree(p, &t, edge, row, &mine, &pace, batched ? &local : err);
        ordered_fini(&t);
        if (offsets) {
            offsets[g] = row;
            status[g] = st ? posenc_status_http(st) : 0;
        }
        if (st == PE_INVALID && batched) {
            st = spoil(&mine, count, &pace);
            if (failed++ < NAMED)
                pe_warn(out, "tree %lld: %s", (long long)g, local.fault[0].allowed);
        } else if (st && batched && local.n) {
            posenc_fail(err, st, local.fault[0].reason, local.fault[0].field, local.fault[0].value, "%s",
                        local.fault[0].allowed);
        }
        row += count;
    }
    if (offsets)
        offsets[part_count(p)] = row;
    if (failed)
        pe_warn(out, "no numbers for %lld of %lld trees: see status", (long long)failed, (long long)part_count(p));
    given_edges_fini(&e);
    free(edge);
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_tree = {
    .name = "tree",
    .family = "graph",
    .title = "Places in a tree",
    .source =
        "Shiv and Quirk 2019, Novel positional encodings to enable tree-based transformers (NeurIPS); icecaps TreeNode",
    .formula = "code(v) = onehot(branch(v)), code(parent(v)); code(root) = 0; tree_depth blocks of tree_width\n"
               "with decay p: block l times p^l sqrt((1 - p^2) d_model / 2), l = 0 the most recent step",
    .example = "parent=[-1,0,0,1,1,4]&tree_depth=4",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(tree, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
