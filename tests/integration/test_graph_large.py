"""laplacian on graphs of 10^5 nodes: closed forms, many components, repeated eigenvalues, a tiny gap, other names; ARPACK."""
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import data
from dense import close
from graphs import Batch, ask, listed, path, ring
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from sparse import sparse_check, sparse_laplacian

N = 10**5


def ways(j):
    """2 - 2 cos(2 pi j / N) for small j, without cancellation."""
    return 4 * np.sin(np.pi * np.asarray(j) / N) ** 2


TWICE = np.array([1, 1, 2, 2, 3, 3, 4, 4])
CLOSED = {
    "path none": (path(N), "none", ways(np.arange(1, 9) / 2)),
    "path sym": (path(N), "sym", ways(np.arange(1, 9) * N / (N - 1) / 2) / 2),
    "ring sym": (ring(N), "sym", ways(TWICE) / 2),
    "circulant none": (Batch(np.concatenate([np.stack([np.arange(N), (np.arange(N) + s) % N]) for s in (1, 2, 7)], 1), num_nodes=N), "none",
                       ways(TWICE) + ways(2 * TWICE) + ways(7 * TWICE)),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_form(server, name):
    batch, normalization, want = CLOSED[name]
    answer = ask(server, "laplacian", batch, k=8, normalization=normalization)
    close(answer["eigenvalues"] / want, np.ones(8), name, 1e-6)
    residual, orthogonality = sparse_check(answer["eigenvectors"], answer["eigenvalues"], batch, normalization=normalization)
    assert residual <= 2e-10 * (2 if normalization == "sym" else 6) and orthogonality < 1e-10


@pytest.mark.parametrize("normalization", ["sym", "none"])
def test_hundred_thousand_components(server, normalization):
    """Pairs, triangles, isolated nodes, and a path that has all the small eigenvalues: of its eight, every second has a vector that
    turning the path round leaves as it is."""
    pairs, triangles, alone, length = 49999, 25000, 25000, 1000
    a = 2 * np.arange(pairs)
    b = 2 * pairs + 3 * np.arange(triangles)
    first = 2 * pairs + 3 * triangles + alone
    edges = np.concatenate([[a, a + 1], [b, b + 1], [b + 1, b + 2], [b, b + 2], first + path(length).edges], 1)
    answer = ask(server, "laplacian", Batch(edges, num_nodes=first + length), k=8, skip="all_zero", normalization=normalization)
    assert answer["num_components"] == pairs + triangles + alone + 1 == 10**5
    assert answer["num_zero"] == 10**5 - (alone if normalization == "sym" else 0)       # isolated=one
    j = np.arange(1, 9)
    want = 2 * np.sin(np.pi * j / (2 * (length - 1))) ** 2 if normalization == "sym" else 4 * np.sin(np.pi * j / (2 * length)) ** 2
    close(answer["eigenvalues"], want, normalization, 1e-13)
    assert not answer["eigenvectors"][:first].any()
    close(answer["eigenvectors"].T @ answer["eigenvectors"], np.eye(8), "orthonormal", 1e-10)


@pytest.mark.parametrize("leaves,normalization", [(31000, "sym"), pytest.param(N, "sym", marks=pytest.mark.slow),
                                                  pytest.param(N, "none", marks=pytest.mark.slow)])
def test_star(server, leaves, normalization):
    """1 as often as there are leaves, but for one: more often than anything is computed whole, which is said."""
    star = Batch(np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)]), num_nodes=leaves + 1)
    answer = ask(server, "laplacian", star, k=4, normalization=normalization)
    close(answer["eigenvalues"], np.ones(4), leaves, 1e-12)
    residual, orthogonality = sparse_check(answer["eigenvectors"], answer["eigenvalues"], star, normalization=normalization)
    assert residual < 1e-10 * (1 if normalization == "sym" else leaves) and orthogonality < 1e-10
    assert not answer["determined"].any() and answer["multiplicity_cut"] == 1


@pytest.mark.parametrize("bridge", [1, 1e-4, 1e-9])
def test_two_cliques(server, bridge):
    """Joined by one edge, whose weight makes the gap as small as one likes: an eigenvalue of a matrix of two rows."""
    size = 200
    one = np.stack(np.triu_indices(size, 1))
    edges = np.concatenate([one, one + size, [[0], [size]]], 1)
    batch = Batch(edges, num_nodes=2 * size, weight=np.r_[np.ones(2 * one.shape[1]), bridge])
    answer = ask(server, "laplacian", batch, k=2, normalization="none")
    half = (size + 2 * bridge) / 2
    want = 2 * bridge / (half + np.sqrt(half ** 2 - 2 * bridge))
    assert abs(answer["eigenvalues"][0] / want - 1) < 1e-5 and answer["num_zero"] == 1
    v = answer["eigenvectors"][:, 0]
    assert (np.sign(v[1:size]) == np.sign(v[1])).all() and (np.sign(v[size + 1:]) == -np.sign(v[1])).all()


def test_relabelled_tree(server):
    """10^5 nodes under other names: the same values, and the same columns where they are determined."""
    i = np.arange(1, N)
    tree = Batch(np.stack([(np.random.default_rng(2).random(N - 1) * i).astype(int), i]), num_nodes=N)
    copy, p = tree.relabelled(3)
    a, b = ask(server, "laplacian", tree, k=8), ask(server, "laplacian", copy, k=8)
    both = (a["determined"] & b["determined"]) == 1
    assert both.sum() >= 6 and np.abs(a["eigenvalues"] - b["eigenvalues"]).max() < 1e-12
    assert np.abs(a["eigenvectors"] - b["eigenvectors"][p])[:, both].max() < 1e-6


@pytest.mark.parametrize("name,n", [("citeseer", 3327), ("as20_internet", 6474), ("pubmed", 19717)])
def test_arpack(server, name, n):
    """Where factors fill up, so that pivots are not counted: ARPACK's largest values of 2 I - L, of the largest component, for it
    does not find all copies of an eigenvalue."""
    batch = listed(data(f"{name}.edges.npy"), n)
    of = connected_components(sparse_laplacian(batch, "none"), False)[1]
    inside = of == np.bincount(of).argmax()
    mine = inside[batch.edges[0]]
    part = Batch((np.cumsum(inside) - 1)[batch.edges[:, mine]], num_nodes=int(inside.sum()))
    answer = ask(server, "laplacian", part, k=8)
    values = 2 - eigsh(2 * sp.eye(part.n) - sparse_laplacian(part), 9, which="LA", tol=1e-11, v0=np.ones(part.n))[0][::-1]
    close(np.r_[0, answer["eigenvalues"]], values, name, 1e-9)
