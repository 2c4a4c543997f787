"""laplacian on real graphs, over REST, against numpy: residuals, orthonormality, spectra, relabelling, batches."""
import io
import json
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import rpc
from bodies import safetensors
from conftest import data

DATA = Path(__file__).parents[1] / "data"
GOLDEN = Path(__file__).parents[1] / "golden/graph/graphs"


def laplacian(server, edges, num_nodes, ptr=None, **query):
    """All tensors of the answer, float64."""
    tensors = {"edge_index": np.asarray(edges, np.int64)}
    if ptr is not None:
        tensors["ptr"] = np.asarray(ptr, np.int64)
    path = "/v1/encodings/laplacian.npz?" + "&".join(f"{k}={v}" for k, v in {"dtype": "float64", "num_nodes": num_nodes, **query}.items())
    r = urllib.request.Request(server.url + path, safetensors(tensors), {"Content-Type": "application/vnd.safetensors"})
    with urllib.request.urlopen(r, timeout=300) as answer:
        return dict(np.load(io.BytesIO(answer.read())))


def batch_of(npz):
    """All graphs of a data file as one batch: edges [2, m], ptr."""
    z = np.load(npz)
    if "ptr" in z:
        return z["edge_index"].astype(np.int64), z["ptr"]
    graph_of_edge = np.repeat(np.arange(len(z["edge_offset"]) - 1), np.diff(z["edge_offset"]))
    shift = z["node_offset"][graph_of_edge]
    return np.stack([z["edge_src"] + shift, z["edge_dst"] + shift]), z["node_offset"]


def dense(edges, n, normalization):
    a = np.zeros((n, n))
    np.add.at(a, (edges[0], edges[1]), 1)
    a = np.maximum(a, a.T)
    np.fill_diagonal(a, 0)
    d = a.sum(1)
    if normalization == "none":
        return np.diag(d) - a
    s = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0)
    return np.eye(n) - s[:, None] * a * s[None]


def check_batch(answer, edges, ptr, k, skip, normalization):
    """Every graph of the batch against its dense spectrum."""
    order = np.searchsorted(ptr, edges[0], side="right") - 1
    by_graph = np.argsort(order, kind="stable")
    bounds = np.searchsorted(order[by_graph], np.arange(len(ptr)))
    assert (answer["status"] == 0).all()
    worst = 0
    for g in range(len(ptr) - 1):
        n = int(ptr[g + 1] - ptr[g])
        e = edges[:, by_graph[bounds[g]:bounds[g + 1]]] - ptr[g]
        lap = dense(e, n, normalization)
        have = max(0, min(k, n - skip))
        v, lam = answer["eigenvectors"][ptr[g]:ptr[g + 1]], answer["eigenvalues"][g]
        assert np.isnan(lam[have:]).all() and (v[:, have:] == 0).all(), g
        v, lam = v[:, :have], lam[:have]
        if not have:
            continue
        w = np.linalg.eigvalsh(lap)[skip:skip + have]
        assert np.abs(lam - w).max() < 1e-9, g
        assert np.abs(v.T @ v - np.eye(have)).max() < 1e-10, g
        worst = max(worst, np.linalg.norm(lap @ v - v * lam, axis=0).max())
    assert worst < 1e-10
    return worst


@pytest.mark.parametrize("normalization", ["sym", "none"])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_atlas(server, k, normalization):
    """All 1,253 graphs of up to seven nodes."""
    edges, ptr = batch_of(DATA / "graph_atlas_1253.npz")
    answer = laplacian(server, edges, ptr[-1], ptr, k=k, normalization=normalization)
    check_batch(answer, edges, ptr, k, 1, normalization)


@pytest.mark.parametrize("k", [8, 16])
def test_thousand_molecules(server, k):
    """One batch, a status each; the same bytes as each molecule alone."""
    edges, ptr = batch_of(DATA / "mol_hiv_1k.npz")
    answer = laplacian(server, edges, ptr[-1], ptr, k=k)
    assert answer["status"].shape == (1000,)
    check_batch(answer, edges, ptr, k, 1, "sym")
    for g in (0, 17, 500, 999):
        inside = (edges[0] >= ptr[g]) & (edges[0] < ptr[g + 1])
        alone = laplacian(server, edges[:, inside] - ptr[g], ptr[g + 1] - ptr[g], k=k)
        assert alone["eigenvectors"].tobytes() == answer["eigenvectors"][ptr[g]:ptr[g + 1]].tobytes()
        assert alone["eigenvalues"].tobytes() == answer["eigenvalues"][g].tobytes()


@pytest.mark.parametrize("name", ["cora", "molecules"])
def test_both_doors(server, name):
    """A real graph, and a thousand at once, posted over REST and then asked over gRPC: one digest, one computation, the
    same bytes of every tensor."""
    if name == "cora":
        edges, ptr, nodes, params = np.load(GOLDEN / "cora.edges.npy"), [], 2708, {"k": 8, "skip": "all_zero"}
    else:
        (edges, ptr), params = batch_of(DATA / "mol_hiv_1k.npz"), {"k": 8, "pad_value": 0.5}     # no other test's request
        nodes = int(ptr[-1])
    by_rest = laplacian(server, edges, nodes, ptr if len(ptr) else None, **params)
    digest = json.loads(bytes(by_rest.pop("__posenc__.json")))["digest"] if "__posenc__.json" in by_rest else None
    computed, hits = server.metric("posenc_computations_total"), server.metric("posenc_cache_requests_total", result="hit")
    client = rpc.Client(server.grpc)
    q = client.request("laplacian", {**params, "dtype": "float64"}, graph={"num_nodes": nodes, "edge_index": edges, "ptr": ptr})
    answer, call = client.method("posenc.v1.EncodingService.Encode").with_call(q, timeout=300)
    trailing = dict(call.trailing_metadata())
    assert trailing["posenc-cache"] == "hit" and trailing["posenc-digest"] == answer.digest
    assert digest in (None, answer.digest)
    assert server.metric("posenc_computations_total") == computed
    assert server.metric("posenc_cache_requests_total", result="hit") == hits + 1
    got = {t.name: client.array(t) for t in answer.tensors}
    client.close()
    assert got.keys() == by_rest.keys()
    for t in got:
        assert got[t].dtype == by_rest[t].dtype and got[t].shape == by_rest[t].shape and got[t].tobytes() == by_rest[t].tobytes(), t


def test_one_bad_graph_voids_no_other(server):
    edges = np.array([[0, 1, 3, 4], [1, 2, 4, 5]])
    body = {"k": 1, "dtype": "float64", "graph": {"num_nodes": 6, "edge_index": edges.tolist(), "edge_weight": [1, 1, -1, 1], "ptr": [0, 3, 6]}}
    r = urllib.request.Request(server.url + "/v1/encodings/laplacian.npz", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = dict(np.load(io.BytesIO(urllib.request.urlopen(r).read())))
    assert answer["status"].tolist()[0] == 0 and answer["status"].tolist()[1] != 0
    assert answer["eigenvalues"][0, 0] == pytest.approx(1) and np.isnan(answer["eigenvalues"][1, 0])


def test_relabelled_molecules(server):
    """Determined columns of a relabelled copy are the same rows, permuted."""
    edges, ptr = batch_of(DATA / "mol_hiv_1k.npz")
    rng = np.random.default_rng(7)
    p = np.concatenate([rng.permutation(ptr[g + 1] - ptr[g]) + ptr[g] for g in range(len(ptr) - 1)])
    a, b = laplacian(server, edges, ptr[-1], ptr, k=8), laplacian(server, p[edges], ptr[-1], ptr, k=8)
    determined = (a["determined"] == 1) & (b["determined"] == 1)
    difference = np.abs(b["eigenvectors"][p] - a["eigenvectors"])
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    assert difference[determined[graph]].max() < 1e-6
    exists = ~np.isnan(a["eigenvalues"])
    assert determined[exists].mean() > 0.7


def test_edge_list_forms(server):
    """Shuffled, one-way and two-way listings of one graph: the same bytes."""
    edges = np.load(GOLDEN / "football.edges.npy")
    one_way = edges[:, edges[0] < edges[1]]
    rng = np.random.default_rng(1)
    two_way = np.concatenate([one_way, one_way[::-1]], 1)[:, rng.permutation(2 * one_way.shape[1])]
    answers = [laplacian(server, e, 115, k=6) for e in (one_way, one_way[:, ::-1], one_way[::-1], two_way)]
    for b in answers[1:]:
        for name in answers[0]:
            assert np.asarray(answers[0][name]).tobytes() == np.asarray(b[name]).tobytes(), name


def sparse_residual(answer, edges, n):
    """Largest residual and departure from orthonormality, by sparse products in numpy."""
    import scipy.sparse as sp
    e = edges[:, edges[0] != edges[1]]
    a = sp.coo_matrix((np.ones(e.shape[1]), (e[0], e[1])), (n, n)).tocsr()
    a = a.maximum(a.T)
    d = np.asarray(a.sum(1)).ravel()
    s = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0)
    v, lam = answer["eigenvectors"], answer["eigenvalues"]
    lv = v - s[:, None] * (a @ (s[:, None] * v))
    return np.linalg.norm(lv - v * lam, axis=0).max(), np.abs(v.T @ v - np.eye(v.shape[1])).max()


def test_cora(server):
    """78 zero eigenvalues; the first that is not is 0.004784."""
    edges = np.load(GOLDEN / "cora.edges.npy")
    answer = laplacian(server, edges, 2708, k=8, skip="all_zero")
    assert answer["num_zero"].tolist() == [78] and answer["num_components"].tolist() == [78]
    assert round(float(answer["eigenvalues"][0]), 6) == 0.004784
    residual, orthogonality = sparse_residual(answer, edges, 2708)
    assert residual < 1e-9 and answer["residuals"].max() < 1e-9 and orthogonality < 1e-10


@pytest.mark.parametrize("name,n", [("mesh_4elt", 15606), ("power_bcspwr10", 5300), ("as20_internet", 6474), ("pubmed", 19717), ("citeseer", 3327)])
def test_larger_graphs(server, name, n):
    edges = np.load(data(f"{name}.edges.npy"))
    answer = laplacian(server, edges, n, k=8, skip="all_zero")
    residual, orthogonality = sparse_residual(answer, edges, n)
    assert residual < 1e-9 and orthogonality < 1e-9


def test_minnesota_has_two_zeros(server):
    answer = laplacian(server, np.load(GOLDEN / "minnesota_road.edges.npy"), 2642, k=6, skip="none")
    assert answer["num_zero"].tolist() == [2] and np.abs(answer["eigenvalues"][:2]).max() == 0 and answer["eigenvalues"][2] > 1e-4


def test_all_molecules(server):
    """The whole HIV set in one request."""
    edges, ptr = batch_of(data("mol_hiv_41k.npz"))
    answer = laplacian(server, edges, ptr[-1], ptr, k=8)
    assert len(answer["status"]) == 41913 and (answer["status"] == 0).all()
    assert np.nanmax(answer["residuals"]) < 1e-10


@pytest.mark.parametrize("n", [99, 100, 101, 299, 300, 301])
def test_rings(server, n):
    """No jump at a solver's threshold."""
    i = np.arange(n)
    answer = laplacian(server, np.stack([i, (i + 1) % n]), n, k=4)
    want = [1 - np.cos(2 * np.pi * j / n) for j in (1, 1, 2, 2)]
    assert np.abs(answer["eigenvalues"] - want).max() < 1e-12
