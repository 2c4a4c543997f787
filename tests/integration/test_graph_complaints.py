"""What users of other libraries complained about, each with its numbers."""
import json
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from conftest import data
from dense import close
from graphs import Batch, ask, listed, path, ring, same_bytes


def warnings_of(server, encoding, graph, **params):
    body = json.dumps({**params, "graph": graph}).encode()
    r = urllib.request.Request(f"{server.url}/v1/encodings/{encoding}.json", body, {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(r).read()).get("warnings", [])


def refused(server, encoding, batch, **params):
    with pytest.raises(urllib.error.HTTPError) as e:
        ask(server, encoding, batch, **params)
    answer = e.value.read().decode()
    assert e.value.code == 400, answer
    return answer


@pytest.mark.parametrize("directed", [False, True])
def test_random_walk_stays_a_probability(server, directed):
    """1,000 arcs with weights U(0, 1) among 100 nodes: PyG returns numbers up to thousands."""
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 100, (2, 1000))
    batch = Batch(np.stack([u, v]), num_nodes=100, weight=rng.random(1000), directed=directed)
    x = ask(server, "random_walk", batch, walk_length=32, **({} if directed else {"symmetrize": "sum"}))["encoding"]
    assert x.min() >= 0 and x.max() <= 1


def test_small_weights(server):
    """A path of four nodes, all weights 0.1: PyG returns 2 for a probability."""
    batch = Batch(path(4).edges, num_nodes=4, weight=np.full(3, 0.1))
    close(ask(server, "random_walk", batch, walk_length=2)["encoding"][:, 1], np.array([0.5, 0.75, 0.75, 0.5]), "step 2", 1e-15)


def test_duplicate_edge(server):
    """The edge 0-1 twice: the step from 1 to 0 has probability 2/3, whatever the size of the graph."""
    edges = np.array([[0, 0, 1, 2], [1, 1, 2, 3]])
    for n in (4, 3000):
        x = ask(server, "random_walk", Batch(edges, num_nodes=n), walk_length=3)["encoding"]
        close(x[0], np.array([0, 2 / 3, 0]), n, 1e-15)


def test_cora_has_78_zeros(server):
    batch = listed(data("cora.edges.npy"), 2708)
    answer = ask(server, "laplacian", batch, k=80, skip="none")
    assert answer["num_zero"] == 78 and (answer["eigenvalues"][:78] == 0).all() and answer["eigenvalues"][78] > 1e-3
    first = ask(server, "laplacian", batch, k=8, skip="all_zero")["eigenvalues"][0]
    assert round(float(first), 6) == 0.004784
    minnesota = ask(server, "laplacian", listed(data("minnesota_road.edges.npy"), 2642), k=4, skip="none")
    assert minnesota["num_zero"] == 2


def test_more_columns_than_nodes(server):
    """A pair of nodes, k = 3: padded, where PyG raises."""
    answer = ask(server, "laplacian", path(2), k=3)
    half = np.sqrt(0.5)
    close(np.abs(answer["eigenvectors"]), np.array([[half, 0, 0], [half, 0, 0]]), "pair", 1e-15)
    assert answer["eigenvectors"][0, 0] == -answer["eigenvectors"][1, 0]
    assert answer["eigenvalues"][0] == 2 and np.isnan(answer["eigenvalues"][1:]).all()
    assert "padding" in refused(server, "laplacian", path(2), k=3, padding="false")


def test_directed_path(server):
    """PyG and DGL return the vectors of the identity, or drop imaginary parts."""
    batch = Batch(path(5).edges, num_nodes=5, directed=True)
    answer = ask(server, "laplacian", batch, k=5, skip="none")
    close(answer["eigenvalues"], 1 - np.cos(np.pi * np.arange(5) / 4), "symmetrised", 1e-14)
    assert np.abs(answer["eigenvalues"] - [0, 0.2929, 1, 1.7071, 2]).max() < 5e-5
    assert "directed" in refused(server, "laplacian", batch, k=5, on_directed="error")


def test_isolated_atom(server):
    """GraphGPS: one turns two columns of electrostatic into NaN, for every node."""
    edges = ring(6).edges
    whole, beside = ask(server, "electrostatic", ring(6)), ask(server, "electrostatic", Batch(edges, num_nodes=7))
    assert not np.isnan(beside["encoding"]).any() and not beside["encoding"][6, 8:].any()
    close(beside["encoding"][:6, 8:], whole["encoding"][:, 8:], "neighbours", 1e-14)
    for encoding, p in (("laplacian", {"k": 3}), ("random_walk", {"walk_length": 4}), ("heat_kernel", {"kernel_times": [1, 2]}),
                        ("personalized_pagerank", {"output": "diag"}), ("local_degree_profile", {})):
        x = next(iter(ask(server, encoding, Batch(edges, num_nodes=7), **p).values()))
        assert not np.isnan(x).any(), encoding


def test_trivial_vector_only(server):
    graph = {"num_nodes": 6, "edge_index": ring(6).edges.tolist()}
    assert any("trivial" in w for w in warnings_of(server, "laplacian", graph, max_freqs=1))
    assert not any("trivial" in w for w in warnings_of(server, "laplacian", graph, max_freqs=2))


REPEATED = [("laplacian", {"k": 8, "skip": "all_zero"}), ("random_walk", {"walk_length": 8}), ("random_walk", {"walk_length": 8, "method": "probe"}),
            ("magnetic_laplacian", {"k": 4}), ("svd", {"k": 6}), ("heat_kernel", {"kernel_times": [1]}), ("electrostatic", {}),
            ("personalized_pagerank", {"output": "topk"}), ("anchor_distance", {"seed": 3}), ("weisfeiler_lehman", {"rounds": 3})]


@pytest.mark.parametrize("encoding,params", REPEATED)
def test_same_bytes_again(server, start_server, encoding, params):
    """Computed by three daemons, of one thread and of several; by eight calls at once; from a shuffled list: one result."""
    batch = listed(data("erdos971.edges.npy"), 472)
    first = ask(server, encoding, batch, **params)
    for threads in ("1", "4"):
        other = start_server("--threads", threads)
        answers = []
        calls = [threading.Thread(target=lambda: answers.append(ask(other, encoding, batch, **params))) for _ in range(8)]
        for c in calls:
            c.start()
        for c in calls:
            c.join()
        assert len(answers) == 8 and not any(same_bytes(first, a) for a in answers)
        assert not same_bytes(first, ask(other, encoding, batch.shuffled(int(threads)), **params))


@pytest.mark.parametrize("n", [99, 100, 101])
def test_thresholds(server, n):
    """Rings of about the length where PyG changes its solver: all encodings follow their closed forms."""
    j = np.arange(n)
    close(ask(server, "laplacian", ring(n), k=4)["eigenvalues"], 1 - np.cos(2 * np.pi * np.array([1, 1, 2, 2]) / n), n, 1e-13)
    x = ask(server, "random_walk", ring(n), walk_length=20)["encoding"]
    cosine = np.cos(2 * np.pi * j / n)
    close(x, np.tile([(cosine ** t).mean() for t in range(1, 21)], (n, 1)), n, 1e-14)
    x = ask(server, "heat_kernel", ring(n), kernel_times=[1, 5], exclude_zero="false")["encoding"]
    close(x, np.tile([np.exp(-t * (2 - 2 * cosine)).mean() for t in (1, 5)], (n, 1)), n, 1e-12)
    x = ask(server, "personalized_pagerank", ring(n), output="diag", alpha=0.2)["scores"]
    close(x, np.full((n, 1), (0.2 / (1 - 0.8 * cosine)).mean()), n, 1e-14)
    x = ask(server, "electrostatic", ring(n))["encoding"]
    assert np.abs(x - x[0]).max() < 1e-9


@pytest.mark.parametrize("name", ["karate", "digraph16"])
def test_probes(server, name):
    """method=probe: within five of its own standard errors of the exact numbers, seven times in ten within one and a half."""
    directed = name == "digraph16"
    batch = listed(data(f"{name}.edges.npy"), 16 if directed else 34, directed)
    exact = ask(server, "random_walk", batch, walk_length=10)["encoding"]
    for seed in range(4):
        answer = ask(server, "random_walk", batch, walk_length=10, method="probe", num_probes=1024, seed=seed)
        off, error = np.abs(answer["encoding"] - exact), answer["standard_error"]
        assert (off <= 5 * error + 1e-12).all() and (off <= 1.5 * error + 1e-12).mean() > 0.7
