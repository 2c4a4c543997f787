#!/usr/bin/env python3
"""molecules.py [--graphs N] [--k K]: Laplacian eigenvectors of the same molecules by posenc and by the peers that are installed,
each held against the definition in float64. Prints a Markdown table; a peer that is absent is named as such.

usage: python3 tests/peers/molecules.py           with the interpreter that has the peers (pip: torch-geometric, networkx, dgl)

For each molecule the true spectrum (numpy.linalg.eigh of I - D^-1/2 A D^-1/2) is known. Columns as the peer returns them:
  crashed         an exception (posenc pads; so may a peer)
  wrong           a column that lies in no eigenspace: ||L v - (v'Lv) v|| over 1e-4 of a unit v
  skipped         columns are eigenvectors, but their eigenvalues are not the k smallest after the first
  not orthogonal  an inner product of two columns over 1e-3
  irreproducible  a second call with the same graph gives other numbers (over 1e-5, signs included)
A molecule counts once in each row that applies to it.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ROWS = ("crashed", "wrong", "skipped", "not orthogonal", "irreproducible")


def molecules(most):
    d = np.load(ROOT / "tests/data/mol_hiv_1k.npz")
    edges, ptr = d["edge_index"], d["ptr"]
    owner = np.searchsorted(ptr, edges[0], side="right") - 1
    for g in range(min(most, len(ptr) - 1)):
        e = edges[:, owner == g] - ptr[g]
        both = np.unique(np.concatenate([e, e[::-1]], 1), axis=1)
        yield int(ptr[g + 1] - ptr[g]), both


def normalised(n, edges):
    a = np.zeros((n, n))
    a[edges[0], edges[1]] = 1
    a[edges[1], edges[0]] = 1
    d = a.sum(1)
    s = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0)
    return np.eye(n) - s[:, None] * a * s[None]


def plain(n, edges):
    a = np.zeros((n, n))
    a[edges[0], edges[1]] = 1
    a[edges[1], edges[0]] = 1
    return np.diag(a.sum(1)) - a


# ---- who is asked: name -> function of (n, edges, k) that returns [n, k or fewer], and the matrix it means ----

def posenc():
    binary = ROOT / "build/release/posenc"
    if not binary.exists():
        return None, "not built (make)"

    def run(n, edges, k):
        with tempfile.TemporaryDirectory() as folder:
            graph, out = Path(folder) / "g.json", Path(folder) / "v.npy"
            graph.write_text(json.dumps({"num_nodes": n, "edge_index": edges.tolist()}))
            subprocess.run([binary, "laplacian", f"k={k}", "dtype=float64", "--graph", graph, "--tensor", "eigenvectors", "--output", out],
                           check=True, capture_output=True)
            return np.load(out)
    return run, json.loads(subprocess.run([binary, "describe", "laplacian"], capture_output=True, text=True, check=True).stdout)["revision"]


def pyg(undirected):
    try:
        import torch
        import torch_geometric
        from torch_geometric.data import Data
        from torch_geometric.transforms import AddLaplacianEigenvectorPE
    except ImportError as e:
        return None, str(e)

    def run(n, edges, k):
        data = Data(edge_index=torch.from_numpy(edges.astype(np.int64)), num_nodes=n)
        return AddLaplacianEigenvectorPE(k, attr_name="pe", is_undirected=undirected)(data).pe.numpy()
    return run, torch_geometric.__version__


def dgl():
    try:
        import dgl as library
    except (ImportError, OSError) as e:
        return None, str(e).splitlines()[0]

    def run(n, edges, k):
        return library.lap_pe(library.graph((edges[0], edges[1]), num_nodes=n), k, padding=True).numpy()
    return run, library.__version__


def networkx():
    try:
        import networkx as library
    except ImportError as e:
        return None, str(e)

    def run(n, edges, k):
        g = library.Graph()
        g.add_nodes_from(range(n))
        g.add_edges_from(edges.T.tolist())
        at = library.spectral_layout(g, dim=k)
        return np.array([at[v] for v in range(n)])
    return run, library.__version__


PEERS = [("posenc", posenc, normalised), ("PyG, as it is", lambda: pyg(False), normalised), ("PyG, is_undirected=True", lambda: pyg(True), normalised),
         ("DGL lap_pe", dgl, normalised), ("networkx spectral_layout", networkx, plain)]


def judge(run, matrix, n, edges, k):
    """The rows of the table that this molecule counts in."""
    try:
        first, second = run(n, edges, k), run(n, edges, k)
    except Exception:       # whatever a peer raises is its crash
        return {"crashed"}
    found = set()
    if not np.allclose(first, second, atol=1e-5, equal_nan=True):
        found.add("irreproducible")
    laplacian = matrix(n, edges)
    values = np.linalg.eigvalsh(laplacian)
    there = min(k, n - 1, first.shape[1])
    v = np.asarray(first, float)[:, :there]
    sizes = np.linalg.norm(v, axis=0)
    if not np.isfinite(v).all() or (sizes < 1e-6).any():
        return found | {"wrong"}
    v = v / sizes
    rayleigh = np.einsum("ij,ij->j", v, laplacian @ v)
    if (np.linalg.norm(laplacian @ v - v * rayleigh, axis=0) > 1e-4).any():
        found.add("wrong")
    elif np.abs(np.sort(rayleigh) - values[1:1 + there]).max(initial=0) > 1e-4:
        found.add("skipped")
    if np.abs(v.T @ v - np.eye(there)).max(initial=0) > 1e-3:
        found.add("not orthogonal")
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--graphs", type=int, default=1000)
    p.add_argument("--k", type=int, default=8)
    a = p.parse_args()
    print(f"| {a.graphs} HIV molecules, k = {a.k} | " + " | ".join(ROWS) + " |\n|" + " --- |" * (len(ROWS) + 1), flush=True)
    for name, make, matrix in PEERS:
        run, about = make()
        if run is None:
            print(f"| {name} | absent: {about} |" + " |" * (len(ROWS) - 1), flush=True)
            continue
        counts = dict.fromkeys(ROWS, 0)
        for n, edges in molecules(a.graphs):
            for row in judge(run, matrix, n, edges, a.k):
                counts[row] += 1
        print(f"| {name} {about} | " + " | ".join(str(counts[r]) for r in ROWS) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
