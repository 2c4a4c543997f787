"""Graphs for tests: asking about them over REST, batches from data files, and dense stacks that numpy can check.

    ask(server, "laplacian", Batch(edges, ptr), k=8)      {output: array}; raises urllib.error.HTTPError
    batch.stacks()        for each size n: numbers of the graphs, their rows in outputs, adjacency matrices (g, n, n)
"""
import io
import urllib.request
from dataclasses import dataclass, replace

import numpy as np
from bodies import safetensors


@dataclass(frozen=True)
class Batch:
    """Edges as a client lists them; ptr [G + 1], or one graph of num_nodes."""

    edges: np.ndarray
    ptr: np.ndarray = None
    num_nodes: int = None
    weight: np.ndarray = None
    directed: bool = False

    @property
    def n(self):
        return int(self.num_nodes if self.ptr is None else self.ptr[-1])

    @property
    def bounds(self):
        return np.array([0, self.n]) if self.ptr is None else self.ptr

    def graph_of_edge(self):
        return np.searchsorted(self.bounds, self.edges[0], side="right") - 1

    def alone(self, g):
        """Graph g without the others."""
        mine = self.graph_of_edge() == g
        return Batch(self.edges[:, mine] - self.bounds[g], num_nodes=int(self.bounds[g + 1] - self.bounds[g]),
                     weight=None if self.weight is None else self.weight[mine], directed=self.directed)

    def some(self, graphs):
        """These graphs as a batch."""
        parts = [self.alone(g) for g in graphs]
        ptr = np.concatenate([[0], np.cumsum([p.n for p in parts])])
        return replace(self, edges=np.concatenate([p.edges + at for p, at in zip(parts, ptr)], 1), ptr=ptr,
                       weight=None if self.weight is None else np.concatenate([p.weight for p in parts]))

    def relabelled(self, seed):
        """A copy whose node u is called p[u], and p."""
        rng, b = np.random.default_rng(seed), self.bounds
        p = np.concatenate([rng.permutation(b[g + 1] - b[g]) + b[g] for g in range(len(b) - 1)] or [np.zeros(0, int)]).astype(int)
        return replace(self, edges=p[self.edges]), p

    def shuffled(self, seed, both=False):
        """The same graphs listed in another order; undirected edges turned at random, or in both directions."""
        rng, e, w = np.random.default_rng(seed), self.edges, self.weight
        if not self.directed:
            turn = rng.random(e.shape[1]) < 0.5
            e = np.where(turn, e[::-1], e)
            if both:
                e, w = np.concatenate([e, e[::-1]], 1), None if w is None else np.concatenate([w, w])
        order = rng.permutation(e.shape[1])
        return replace(self, edges=e[:, order], weight=None if w is None else w[order])

    def stacks(self, loops=True):
        """(graphs, rows (g, n), adjacency (g, n, n)) by size: parallel edges summed."""
        b, of = self.bounds, self.graph_of_edge()
        w = np.ones(self.edges.shape[1]) if self.weight is None else self.weight
        size = np.diff(b)
        where = np.zeros(len(size), int)
        for n in np.unique(size):
            graphs = np.flatnonzero(size == n)
            where[graphs] = np.arange(len(graphs))
            mine = size[of] == n
            u, v = (self.edges - b[of])[:, mine]
            a = np.zeros((len(graphs), n, n))
            np.add.at(a, (where[of[mine]], u, v), w[mine])
            if not self.directed:
                np.add.at(a, (where[of[mine]][u != v], v[u != v], u[u != v]), w[mine][u != v])
            if not loops:
                a[:, np.arange(n), np.arange(n)] = 0
            yield graphs, b[graphs][:, None] + np.arange(n), a


def query(name, batch, **params):
    q = {"num_nodes": batch.n, **({"directed": "true"} if batch.directed else {}), **params}
    words = (f"{k}={','.join(map(str, v)) if isinstance(v, (list, tuple)) else v}" for k, v in q.items())
    return f"/v1/encodings/{name}.npz?" + "&".join(words)


def body(batch):
    tensors = {"edge_index": np.asarray(batch.edges, np.int64).reshape(2, -1)}
    if batch.ptr is not None:
        tensors["ptr"] = np.asarray(batch.ptr, np.int64)
    if batch.weight is not None:
        tensors["edge_weight"] = np.asarray(batch.weight, np.float64)
    return safetensors(tensors)


def ask(server, name, batch, timeout=300, **params):
    """All tensors of the answer, float64 where they are real."""
    params = {k: str(v).lower() if isinstance(v, bool) else v for k, v in {"dtype": "float64", **params}.items()}
    r = urllib.request.Request(server.url + query(name, batch, **params), body(batch), {"Content-Type": "application/vnd.safetensors"})
    with urllib.request.urlopen(r, timeout=timeout) as answer:
        z = np.load(io.BytesIO(answer.read()))
        return {k: z[k] for k in z.files if not k.startswith("__")}


def same_bytes(a, b):
    """Outputs that differ in any bit."""
    assert a.keys() == b.keys()
    return [k for k in a if a[k].shape != b[k].shape or a[k].dtype != b[k].dtype or a[k].tobytes() != b[k].tobytes()]


def batch_of(npz):
    """All graphs of a data file."""
    z = np.load(npz)
    if "ptr" in z:
        return Batch(z["edge_index"].astype(np.int64), z["ptr"].astype(np.int64))
    shift = z["node_offset"][np.repeat(np.arange(len(z["edge_offset"]) - 1), np.diff(z["edge_offset"]))]
    return Batch(np.stack([z["edge_src"] + shift, z["edge_dst"] + shift]).astype(np.int64), z["node_offset"].astype(np.int64))


def listed(file, n, directed=False):
    """The graph of an edge list; undirected edges once, whichever way the file lists them."""
    e = np.load(file).astype(np.int64).reshape(2, -1)
    return Batch(e if directed else np.unique(np.sort(e, 0), axis=1), num_nodes=n, directed=directed)


def digraphs(graphs=200, most=12, seed=5):
    """Small random directed graphs with weights, loops, dead ends and parallel arcs."""
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(1, most + 1, graphs))])
    parts = [rng.integers(ptr[g], ptr[g + 1], (2, rng.integers(0, 3 * (ptr[g + 1] - ptr[g])))) for g in range(graphs)]
    edges = np.concatenate(parts, 1)
    return Batch(edges, ptr, weight=rng.random(edges.shape[1]) + 1e-3, directed=True)


def weighted(batch, seed=3):
    """The same edges with weights U(0, 1)."""
    return replace(batch, weight=np.random.default_rng(seed).random(batch.edges.shape[1]) + 1e-3)


def path(n):
    return Batch(np.stack([np.arange(n - 1), np.arange(1, n)]), num_nodes=n)


def ring(n, directed=False):
    return Batch(np.stack([np.arange(n), (np.arange(n) + 1) % n]), num_nodes=n, directed=directed)
