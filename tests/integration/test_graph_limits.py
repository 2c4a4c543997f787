"""Graphs that are too large, malformed, or as small as they come."""
import json
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from dense import close
from graphs import Batch, ask, body, path, query

# every encoding of a graph, with what it requires
ENCODINGS = {
    "laplacian": {}, "magnetic_laplacian": {}, "laplacian_matrix": {}, "lambda_max": {}, "random_walk": {"walk_length": 3},
    "personalized_pagerank": {}, "heat_kernel": {"kernel_times": [1]}, "electrostatic": {}, "degree": {}, "local_degree_profile": {},
    "shortest_path": {}, "anchor_distance": {}, "weisfeiler_lehman": {}, "double_radius_node_labeling": {"src": 0, "dst": 1}, "svd": {},
}


def refusal(server, encoding, batch, sent=None, **params):
    """The errors of a refused request; `sent` replaces the body."""
    r = urllib.request.Request(server.url + query(encoding, batch, **params), body(sent or batch), {"Content-Type": "application/vnd.safetensors"})
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(r)
    answer = json.loads(e.value.read())
    assert e.value.code == 400, answer
    return answer["errors"]


def test_every_encoding_is_here(server):
    listed = json.loads(server.get("/v1/encodings"))["encodings"]
    assert {e["name"] for e in listed if e.get("input") == "graph"} == set(ENCODINGS)


# ---- bad input ----

@pytest.mark.parametrize("encoding", ENCODINGS)
def test_malformed_graph(server, encoding):
    """The first offender is named by its place in the list, whatever the encoding."""
    p = ENCODINGS[encoding]
    edges = np.array([[0, 1, 7, 9], [1, 2, 3, 1]])
    first = refusal(server, encoding, Batch(edges, num_nodes=4), **p)[0]
    assert first["field"] == "graph.edge_index[0][2]" and first["value"] == "7" and first["allowed"] == "0 .. 3"
    edges = np.array([[0, 1, 2], [1, -2, 3]])
    assert refusal(server, encoding, Batch(edges, num_nodes=4), **p)[0]["field"] == "graph.edge_index[1][1]"
    for bad in (np.nan, np.inf, -np.inf):
        weighted = Batch(path(4).edges, num_nodes=4, weight=np.array([1, bad, 1]))
        assert refusal(server, encoding, weighted, **p)[0]["field"] == "graph.edge_weight[1]"
    batch = Batch(path(4).edges[:, :1], np.array([0, 3, 2, 4]))
    assert refusal(server, encoding, batch, **p)[0]["field"] == "graph.ptr[2]"
    for ptr in ([0, 2, 3], [0, 2, 5]):
        errors = refusal(server, encoding, path(4), sent=Batch(path(4).edges[:, :1], np.array(ptr)), **p)
        assert errors[0]["field"] == "graph.ptr[2]" and "4" in errors[0]["allowed"]
    assert refusal(server, encoding, path(4), sent=Batch(path(4).edges[:, :1], np.array([1, 4])), **p)[0]["field"] == "graph.ptr[0]"
    assert refusal(server, encoding, Batch(path(4).edges, np.array([0, 2, 4])), **p)[0]["field"] == "graph.edge_index[1][1]"


@pytest.mark.parametrize("encoding", [e for e in ENCODINGS if e != "magnetic_laplacian"])
def test_two_listings_that_disagree(server, encoding):
    edges = np.array([[0, 1, 1], [1, 0, 2]])
    batch = Batch(edges, num_nodes=3, weight=np.array([1.0, 2, 1]))
    p = dict(ENCODINGS[encoding])
    weighs = encoding not in ("weisfeiler_lehman", "double_radius_node_labeling", "local_degree_profile", "degree")
    if weighs:
        error = refusal(server, encoding, batch, **p)[0]
        assert error["reason"] == "NOT_SYMMETRIC" and error["field"] == "graph.edge_index[1][0]"
    for word, weight in (("max", 2), ("sum", 3), ("mean", 1.5)):
        got = ask(server, encoding, batch, symmetrize=word, **p)
        want = ask(server, encoding, Batch(np.array([[0, 1], [1, 2]]), num_nodes=3, weight=np.array([weight, 1.0])), **p)
        if weighs:
            for k in want:
                close(np.nan_to_num(got[k].astype(float)), np.nan_to_num(want[k].astype(float)), (word, k), 1e-12)


def test_policies(server):
    """Loops and duplicates, by Laplacian matrices that say what was taken."""
    loop = Batch(np.array([[0, 0, 1], [0, 1, 2]]), num_nodes=3)
    dropped, kept = (ask(server, "laplacian_matrix", loop, normalization="none", self_loops=w)["matrix"] for w in ("drop", "keep"))
    close(dropped, np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]]), "drop")
    assert (dropped == ask(server, "laplacian_matrix", path(3), normalization="none")["matrix"]).all()
    close(kept, dropped, "D - A does not see a loop")
    close(ask(server, "random_walk", loop, walk_length=1)["encoding"][:, 0], np.array([0.5, 0, 0]), "keep")
    assert not ask(server, "random_walk", loop, walk_length=1, self_loops="drop")["encoding"].any()
    double = Batch(np.array([[0, 0, 1], [1, 1, 2]]), num_nodes=3, weight=np.array([1.0, 3, 1]))
    for word, weight in (("sum", 4.0), ("max", 3.0)):
        got = ask(server, "laplacian_matrix", double, normalization="none", duplicate_edges=word)["matrix"]
        close(got, np.array([[weight, -weight, 0], [-weight, weight + 1, -1], [0, -1, 1]]), word)
    for encoding, p in ENCODINGS.items():
        errors = refusal(server, encoding, double, duplicate_edges="error", **p)
        assert errors[0]["reason"] == "DUPLICATE_EDGE" and errors[0]["field"].startswith("graph.edge_index["), encoding


@pytest.mark.parametrize("parent,field", [([1, 2, 0], "parent[0]"), ([-1, 2, 1], "parent[1]"), ([-1, 0, 5], "parent[2]"), ([0], "parent[0]")])
def test_tree_that_is_none(server, parent, field):
    with pytest.raises(urllib.error.HTTPError) as e:
        server.get("/v1/encodings/tree.npz?parent=" + json.dumps(parent).replace(" ", ""))
    error = json.loads(e.value.read())["errors"][0]
    assert e.value.code == 400 and error["field"] == field
    assert ("node " + field[7:-1] in error["allowed"]) == (error["reason"] == "CYCLE")


# ---- small ----

@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_small(server, encoding, n):
    """No nodes, one, two without an edge; alone and thrice in a batch. Only a pair of nodes needs two of them."""
    none = np.zeros((2, 0), int)
    p = ENCODINGS[encoding]
    alone, batch = Batch(none, num_nodes=n), Batch(none, np.arange(4) * n)
    if encoding.startswith("double") and n < 2:
        assert refusal(server, encoding, alone, **p)[-1]["field"] == "dst"
        assert ask(server, encoding, batch, **p)["status"].tolist() == [400] * 3
        return
    one, three = ask(server, encoding, alone, **p), ask(server, encoding, batch, **p)
    assert one["status"].tolist() == [0] and three["status"].tolist() == [0, 0, 0]
    values = {"eigenvalues", "residuals", "singular_values"}         # which have NaN where there are no columns
    assert not any(np.isnan(v).any() for k, v in one.items() if k not in values)
    first = next(iter(one))
    assert one[first].shape[0] == n or encoding == "lambda_max"
    assert three[first].tobytes() == 3 * one[first].tobytes()


# ---- large ----

@pytest.mark.parametrize("encoding,params,words", [
    ("laplacian_matrix", {}, "nodes="), ("personalized_pagerank", {}, "output=topk, output=diag, or output=rows"),
    ("shortest_path", {}, "root, roots"), ("shortest_path", {"return_paths": "true", "max_predecessors": 64}, "anchor_distance")])
def test_square_answers(server, encoding, params, words):
    """129,165 nodes: refused before anything is allocated, with the bytes and what to ask instead."""
    n = 129165
    t = time.monotonic()
    error = refusal(server, encoding, Batch(np.array([[0], [1]]), num_nodes=n), **params, dtype="float64")[0]
    assert time.monotonic() - t < 2 and error["reason"] == "LIMIT_EXCEEDED"
    wide = 4 * (1 + 64) if "return_paths" in params else 4 if encoding == "shortest_path" else 8
    assert f"{n * n * wide} bytes" in error["value"] and words in error["allowed"]
    if server.pid:
        assert peak(server) < 1 << 30


def peak(server):
    """[bytes] the most memory that the daemon ever held."""
    text = open(f"/proc/{server.pid}/status").read()
    return int(text.split("VmHWM:")[1].split()[0]) << 10


def random_graph(n, m, hubs=False, seed=1):
    """n nodes and about m edges, each between two random nodes; with hubs, one end is drawn towards low ids."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, n, m)
    v = (n * rng.random(m) ** 3).astype(np.int64) if hubs else rng.integers(0, n, m)
    e = np.sort(np.stack([u, v]), 0)
    return Batch(np.unique(e[:, e[0] != e[1]], axis=1), num_nodes=n)


WIDE = [("laplacian", {"k": 8}), ("laplacian", {"k": 8, "normalization": "none"}), ("magnetic_laplacian", {"k": 8}), ("lambda_max", {}),
        ("svd", {"k": 8}), ("random_walk", {"walk_length": 16}), ("random_walk", {"walk_length": 16, "method": "probe"}),
        ("personalized_pagerank", {"output": "diag"}), ("personalized_pagerank", {"output": "topk"}),
        ("personalized_pagerank", {"output": "topk", "eps": 1e-4}), ("personalized_pagerank", {"output": "rows", "sources": [0, 7]}),
        ("heat_kernel", {"kernel_times": [1, 2]}), ("heat_kernel", {"kernel_times": [1, 2], "normalization": "sym"}),
        ("heat_kernel", {"kernel_times": [1, 2], "method": "probe"}), ("heat_kernel", {"kernel_times": [1, 2], "normalization": "sym", "method": "probe"}),
        ("electrostatic", {}), ("electrostatic", {"method": "probe"}), ("degree", {}), ("local_degree_profile", {}), ("laplacian_matrix", {"nodes": [0, 7]}),
        ("shortest_path", {"root": 0}), ("shortest_path", {"root": 0, "path_length": 8}), ("shortest_path", {"roots": [0, 7]}), ("anchor_distance", {}),
        ("anchor_distance", {"anchor_mode": "farthest"}), ("weisfeiler_lehman", {"stop_when_stable": "true"}),
        ("double_radius_node_labeling", {"src": 0, "dst": 1})]


# of those, what no exact way answers at that size
TOO_LONG = {("random_walk", ""): "method=probe", ("personalized_pagerank", "diag"): "eps", ("personalized_pagerank", "topk"): "eps",
            ("heat_kernel", ""): "method=probe", ("electrostatic", ""): "method=probe"}


def refused_as_too_long(encoding, params):
    return None if "eps" in params or params.get("method") else TOO_LONG.get((encoding, params.get("output", "")))


def processor(server):
    """[s] of processor time that the daemon has used: the machine may be busy with other things."""
    f = open(f"/proc/{server.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / 100


def check_wide(server, batch, encoding, params, instead):
    """Answered within the deadline; or refused at once, as a LIMIT that names the other way `instead`."""
    began = processor(server)
    try:
        answer = ask(server, encoding, batch, dtype="float32", timeout=1200, **params)
        assert next(iter(answer.values())).shape[0] in (batch.n, 1, 2) and not answer["status"].any()
        word = "answered"
        assert not instead
    except urllib.error.HTTPError as e:
        error = json.loads(e.read())["errors"][0]
        assert e.code == 400 and error["reason"] == "LIMIT_EXCEEDED" and instead and instead in error["allowed"], error
        word = f"{error['field']}: {error['value']}, allowed: {error['allowed']}"
    took = processor(server) - began
    asked = " ".join(f"{k}={','.join(map(str, v)) if isinstance(v, list) else v}" for k, v in params.items())
    print(f"\n| {encoding} {asked} | {took:.1f} | {peak(server) / 2**30:.2f} | {word} |", flush=True)
    assert peak(server) < 4 << 30


@pytest.mark.parametrize("encoding,params", [f for f in WIDE if not refused_as_too_long(*f)])
def test_ten_thousand_nodes(start_server, encoding, params):
    """10^4 nodes, 10^5 edges."""
    check_wide(start_server("--memory-budget", "1GiB", "--deadline-ms", "300000"), random_graph(10**4, 10**5), encoding, params, None)


@pytest.mark.parametrize("encoding,params", [f for f in WIDE if refused_as_too_long(*f)])
def test_what_would_take_too_long(start_server, encoding, params):
    """10^5 nodes, 10^6 edges: how long it would take, and what to ask instead."""
    server = start_server("--memory-budget", "4GiB")
    check_wide(server, random_graph(10**5, 10**6), encoding, params, refused_as_too_long(encoding, params))


def preferential(n, m, seed=1):
    """Barabasi and Albert: each new node has m edges to ends of edges that are there."""
    rng, ends = np.random.default_rng(seed), np.empty(2 * n * m, np.int64)
    e = np.empty((2, (n - m) * m), np.int64)
    for v in range(m, n):
        at = 2 * m * (v - m)
        to = np.arange(m) if not at else np.unique(ends[rng.integers(0, at, 2 * m)])
        to = rng.permutation(to)[:m] if len(to) >= m else rng.choice(v, m, replace=False)
        e[0, at // 2:at // 2 + m], e[1, at // 2:at // 2 + m] = v, to
        ends[at:at + m], ends[at + m:at + 2 * m] = v, to
    return Batch(e, num_nodes=n)


@pytest.fixture(scope="module", params=["random", "hubs", "preferential"])
def large(request):
    """10^5 nodes, 10^6 edges."""
    return preferential(10**5, 10) if request.param == "preferential" else random_graph(10**5, 10**6, request.param == "hubs")


@pytest.mark.slow
@pytest.mark.parametrize("encoding,params", WIDE)
def test_hundred_thousand_nodes(start_server, large, encoding, params):
    """Every encoding whose answer is not n^2 within 4 GiB: answered, or refused at once with the estimate to ask for, which is
    answered. Prints a row of a table: asked, seconds of a core, GiB at the most, what came of it."""
    server = start_server("--memory-budget", "4GiB", "--deadline-ms", "1200000")
    check_wide(server, large, encoding, params, refused_as_too_long(encoding, params))
