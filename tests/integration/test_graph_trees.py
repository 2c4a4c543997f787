"""tree on the syntax trees of Python's own library, held against loops that follow the definition."""
import io
import urllib.request

import numpy as np
import pytest
from bodies import safetensors
from conftest import data


def ask(server, tensors, **params):
    r = urllib.request.Request(server.url + "/v1/encodings/tree.npz?" + "&".join(f"{k}={v}" for k, v in params.items()),
                               safetensors(tensors), {"Content-Type": "application/vnd.safetensors"})
    with urllib.request.urlopen(r, timeout=120) as answer:
        return dict(np.load(io.BytesIO(answer.read())))


def module(g):
    z = np.load(data("python_ast_trees.npz"))
    part = slice(z["node_offset"][g], z["node_offset"][g + 1])
    return {k: z[k][part].astype(np.int64) for k in ("parent", "child_index", "edge_type")}


def expected(parent, branch, types, depth, width, length):
    """ids are in preorder: parents come first."""
    n = len(parent)
    deep, height = np.zeros(n, int), np.zeros(n, int)
    code, way = np.zeros((n, depth, width)), np.full((n, length), -1)
    for v in range(n):
        u = parent[v]
        if u < 0:
            continue
        deep[v] = deep[u] + 1
        code[v, 0, min(branch[v], width - 1)] = 1
        code[v, 1:] = code[u, :-1]
        way[v, :-1] = way[u, 1:]
        way[v, -1] = types[v]
    for v in range(n - 1, -1, -1):
        if parent[v] >= 0:
            height[parent[v]] = max(height[parent[v]], height[v] + 1)
    return deep, height, code.reshape(n, -1), way


@pytest.mark.parametrize("g", range(0, 150, 15))
def test_syntax_tree(server, g):
    m = module(g)
    answer = ask(server, {"parent": m["parent"], "child_order": m["child_index"], "edge_types": m["edge_type"]},
                 tree_depth=6, tree_width=4, branch_overflow="clamp", path_length=5)
    deep, height, code, way = expected(m["parent"], m["child_index"], m["edge_type"], 6, 4, 5)
    assert (answer["depth"] == deep).all() and (answer["height"] == height).all() and (answer["encoding"] == code).all()
    assert (answer["path"] == way).all() and (answer["branch"] == np.where(m["parent"] < 0, 0, m["child_index"])).all()
    assert (answer["preorder"] == np.arange(len(deep))).all()
    post = answer["postorder"]
    inner = m["parent"] >= 0
    assert sorted(post) == list(range(len(deep))) and (post[inner] < post[m["parent"][inner]]).all()


@pytest.mark.parametrize("g", [20, 75])
def test_relabelled_tree(server, g):
    """Rows follow the nodes when the order of children is given."""
    m = module(g)
    n = len(m["parent"])
    p = np.random.default_rng(g).permutation(n)
    parent, order = np.empty(n, np.int64), np.empty(n, np.int64)
    parent[p] = np.where(m["parent"] < 0, -1, p[m["parent"]])
    order[p] = m["child_index"]
    a, b = (ask(server, {"parent": x, "child_order": y}, tree_depth=8, tree_width=3, branch_overflow="clamp")
            for x, y in ((m["parent"], m["child_index"]), (parent, order)))
    for name in ("encoding", "depth", "height", "branch", "preorder", "postorder"):
        assert (a[name] == b[name][p]).all(), name
