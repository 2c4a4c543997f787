"""Eigenvectors of many small graphs: performance.md's first section."""
import os
from pathlib import Path

import measure

PYG, EIGH = "PyG AddLaplacianEigenvectorPE", "numpy.linalg.eigh, matrix ready"
ONE = "posenc, one thread"
FOLDERS = [Path(__file__).resolve().parents[1] / "data", Path(os.environ.get("POSENC_TEST_DATA", "/nonexistent"))]


def find(name):
    """A collection of graphs in tests/data or POSENC_TEST_DATA; None: neither has it."""
    return next((str(f / name) for f in FOLDERS if (f / name).exists()), None)


def load(path, least, most, at_most=None):
    """(n, edges [2, m], each once) of the graphs with least <= n <= most, the first `at_most` of them."""
    import numpy as np
    d = np.load(path)
    if "edge_index" in d:           # one batch, as the API takes it
        ptr, (u, v) = d["ptr"], d["edge_index"].astype(np.int64)
        owner = np.searchsorted(ptr, u, side="right") - 1
        order, starts = np.argsort(owner, kind="stable"), ptr[:-1]
        u, v, cut = u[order] - starts[owner[order]], v[order] - starts[owner[order]], np.searchsorted(owner[order], np.arange(len(ptr)))
    else:                           # ids local to the graph
        ptr, cut, u, v = d["node_offset"], d["edge_offset"], d["edge_src"].astype(np.int64), d["edge_dst"].astype(np.int64)
    sizes = np.diff(ptr)
    picked = np.nonzero((sizes >= least) & (sizes <= most))[0][:at_most]
    return [(int(sizes[g]), np.stack([u[cut[g]:cut[g + 1]], v[cut[g]:cut[g + 1]]])) for g in picked]


def batch(graphs):
    """The same as the tensors of one request."""
    import numpy as np
    ptr = np.concatenate([[0], np.cumsum([n for n, _ in graphs])]).astype(np.int64)
    return {"edge_index": np.ascontiguousarray(np.concatenate([e + p for (_, e), p in zip(graphs, ptr)], 1)), "ptr": ptr}


# ---- peers ----

def pyg(path, least, most, at_most, k):
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE
    torch.set_num_threads(1)
    both = [(n, torch.from_numpy(e)) for n, e in load(path, least, most, at_most)]
    data = [Data(edge_index=torch.cat([e, e.flip(0)], 1), num_nodes=n) for n, e in both]
    transform = AddLaplacianEigenvectorPE(k=k, attr_name="pe", is_undirected=True)

    def once():
        for d in data:
            transform(d)
    return once


def numpy_eigh(path, least, most, at_most):
    """eigh alone: the matrices are there before the clock starts, and no vector is chosen, signed or checked."""
    import numpy as np
    matrices = []
    for n, (u, v) in load(path, least, most, at_most):
        a = np.zeros((n, n))
        a[u, v] = a[v, u] = 1
        np.fill_diagonal(a, 0)
        r = 1 / np.sqrt(np.maximum(a.sum(1), 1))
        matrices.append(np.eye(n) - r[:, None] * a * r)

    def once():
        for m in matrices:
            np.linalg.eigh(m)
    return once


# ---- rows ----

def rows():
    hiv = "mol_hiv_1k.npz" if measure.quick() else "mol_hiv_41k.npz"
    # name, file, least and largest n, how many, k, ratio to PyG, to numpy. PyG refuses graphs of k nodes and fewer.
    sets = [
        ("HIV", hiv, 9, 10**6, None, 8, 100, 20),
        ("HIV, n 100 to 250", "mol_hiv_41k.npz", 100, 250, None, 8, None, 30),
        ("PROTEINS, n 100 to 250", "proteins_1113.npz", 100, 250, None, 8, None, 30),
        ("HIV, 1,000 molecules", "mol_hiv_1k.npz", 17, 10**6, None, 16, None, None),
        ("HIV, 1,000 molecules", "mol_hiv_1k.npz", 1, 10**6, None, 0, None, None),
        ("ESOL", "mol_esol_1k.npz", 9, 10**6, None, 8, None, None),
        ("Tox21", "mol_tox21_8k.npz", 9, 10**6, 1000 if measure.quick() else None, 8, None, None),
        ("PROTEINS", "proteins_1113.npz", 9, 10**6, None, 8, None, None),
    ]
    for name, file, least, most, count, k, to_pyg, to_numpy in sets:
        goal = f"laplacian sym, {name}, k={k or 'n'}"
        two = f"two threads: {goal}"
        if not measure.wanted(goal, PYG, EIGH) and not measure.wanted(two, ONE):
            continue
        path = find(file)
        if not path:
            yield measure.missing(goal, f"absent: {file} (POSENC_TEST_DATA names its folder)", EIGH, to_numpy)
            continue
        graphs = load(path, least, most, count)
        tensors = batch(graphs)
        params = {"k": k} if k else {"k": max(n for n, _ in graphs), "skip": "none"}
        ours = measure.Ours("laplacian", params, tensors)
        note = f"{len(graphs)} graphs"
        if k:
            yield from measure.compare(goal, ours, PYG, measure.Peer("small", "pyg", path, least, most, count, k), to_pyg, note)
        yield from measure.compare(goal, ours, EIGH, measure.Peer("small", "numpy_eigh", path, least, most, count), to_numpy, note)
        if name in ("HIV", "PROTEINS"):
            yield from measure.compare(two, measure.Ours("laplacian", params, ours.tensors, threads=2), ONE, ours, 1.8, note, clock="wall")
