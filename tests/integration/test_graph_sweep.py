"""Every graph that we have, and made ones of 10^5 and 10^6 nodes, through the command: what it returns is measured again by scipy,
in float64, from the returned vectors. Prints a row of a table for each request, its beginning before it is asked: seconds of processor
time on one thread, MiB above what reading the graph takes and MiB announced, the largest residual and what is allowed, departure
from orthonormality, whether two threads gave the same bytes (asked of each graph and normalization once: k = 8).

`make slow ONLY=sweep` is this alone, `ONLY='sweep and 1e5'`, `ONLY='sweep and rmat and 1e6'` or `ONLY='sweep and not (1e5 or 1e6)'` a
part of it."""
import json
import os
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import data
from graphs import Batch, batch_of, listed
from scipy.sparse.csgraph import connected_components
from sparse import below, sparse_laplacian

pytestmark = pytest.mark.slow

# ---- graphs ----


def once(n, u, v):
    """Without loops, each edge once, ascending."""
    u, v = np.minimum(u, v).astype(np.int64), np.maximum(u, v).astype(np.int64)
    key = np.unique((u * n + v)[u != v])
    return Batch(np.stack([key // n, key % n]), num_nodes=n)


def ba(n, each, rng):
    """Barabasi and Albert: a new node's edges go to ends, drawn evenly, of the edges before it; a drawn end that is itself drawn
    is followed to the edge it was drawn for."""
    edge = np.arange((n - each) * each)
    step = edge // each
    slot = (rng.random(len(edge)) * 2 * each * step).astype(np.int64)
    source = np.where((step > 0) & (slot % 2 == 1), slot // 2, edge)
    while (source != source[source]).any():
        source = source[source]
    return once(n, each + step, np.where(step == 0, edge, each + slot // 2 // each)[source])


def rmat(n, each, rng):
    """Quadrant by quadrant with 0.57, 0.19, 0.19, 0.05, ids shuffled; n becomes a power of two."""
    levels = (n - 1).bit_length()
    u = v = np.zeros(each << levels, np.int64)
    for _ in range(levels):
        x = rng.random(len(u))
        u, v = 2 * u + (x >= 0.76), 2 * v + (((x >= 0.57) & (x < 0.76)) | (x >= 0.95))
    name = rng.permutation(1 << levels)
    return once(1 << levels, name[u], name[v])


def grid(n, _, rng):
    side = round(n ** 0.5)
    i = np.arange(side * side).reshape(side, side)
    return once(side * side, np.r_[i[:, :-1].ravel(), i[:-1].ravel()], np.r_[i[:, 1:].ravel(), i[1:].ravel()])


def er(n, degree, rng):
    return once(n, *rng.integers(0, n, (2, n * degree // 2)))


def tree(n, _, rng):
    i = np.arange(1, n)
    return once(n, i, (rng.random(n - 1) * i).astype(np.int64))


def ring(n, degree, rng):
    i = np.arange(n)
    steps = range(1, degree // 2 + 1)
    return once(n, np.concatenate([i for _ in steps]), np.concatenate([(i + s) % n for s in steps]))


MADE = {"grid": (grid, 4), "ring": (ring, 4), "tree": (tree, 2), "rmat": (rmat, 8), "er": (er, 10), "ba": (ba, 5)}
NARROW = ("grid", "ring", "tree")         # whose factors stay small: eigenvalues are counted
LISTED = {"karate": 34, "lesmis": 77, "football": 115, "power_bcspwr03": 118, "erdos971": 472, "mesh_dwt_992": 992, "email_eu_directed": 1005,
          "lanl_routes": 1358, "minnesota_road": 2642, "cora": 2708, "citeseer": 3327, "power_bcspwr10": 5300, "as20_internet": 6474,
          "mesh_4elt": 15606, "pubmed": 19717, "karate weights": 34, "lesmis weights": 77, "lanl_routes weights": 1358}
COLLECTIONS = ["graph_atlas_1253", "mol_esol_1k", "mol_tox21_8k", "mol_hiv_1k", "mol_hiv_41k", "proteins_1113", "python_ast_trees"]


@lru_cache(maxsize=1)
def graph(name):
    kind, _, more = name.partition(" ")
    if kind in MADE:
        make, parameter = MADE[kind]
        return make(int(float(more)), parameter, np.random.default_rng(1))
    if kind == "python_ast_trees":
        z = np.load(data(name + ".npz"))
        ptr, child = z["node_offset"].astype(np.int64), np.flatnonzero(z["parent"] >= 0)
        first = np.repeat(ptr[:-1], np.diff(ptr))[child]
        return Batch(np.stack([first + z["parent"][child], child]), ptr)
    if kind in COLLECTIONS:
        return batch_of(data(name + ".npz"))
    if more:
        weights = data(kind + ".weights.npy")       # of the list beside it
        return Batch(np.load(weights.with_name(kind + ".edges.npy")).astype(np.int64), num_nodes=LISTED[name], weight=np.load(weights))
    return listed(data(name + ".edges.npy"), LISTED[name], directed=name.endswith("directed"))


def asked():
    for name in [*LISTED, *COLLECTIONS]:
        for normalization in ("sym", "none"):
            yield name, normalization, 8, {"skip": "first" if name in COLLECTIONS else "all_zero"}
    for name in MADE:
        for k in (8, 32):
            yield f"{name} 1e5", "sym", k, {"skip": "all_zero"}
        for k in (8, 32) if name in NARROW else (8,):
            yield f"{name} 1e5", "none", k, {"skip": "all_zero", **({} if name in NARROW else {"tol": 1e-6})}
    for name in MADE:
        for normalization in ("sym", "none") if name in NARROW else ("sym",):
            yield f"{name} 1e6", normalization, 8, {"skip": "all_zero", "tol": 1e-6}


ASKED = list(asked())

# ---- the command ----

# Linux counts what the parent held before exec as the child's, so that a small process has to be the parent.
RUN = """import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
u = resource.getrusage(resource.RUSAGE_CHILDREN)
json.dump({"code": done.returncode, "out": done.stdout, "err": done.stderr, "seconds": u.ru_utime + u.ru_stime, "bytes": u.ru_maxrss << 10}, sys.stdout)"""


def command(build, *words):
    # what was freed goes back to the system: malloc keeps up to some MiB of it, which nobody holds
    told = json.loads(subprocess.run([sys.executable, "-S", "-c", RUN, str(build / "posenc"), *map(str, words)], capture_output=True, check=True,
                                     env={**os.environ, "MALLOC_TRIM_THRESHOLD_": "0"}).stdout)
    assert told["code"] == 0, told["err"]
    return told


def write(folder, name, batch):
    """The edges as the command reads them; only those of one graph are kept."""
    path = folder / f"{name.replace(' ', '-')}.npz"
    if not path.exists():
        for old in folder.glob("*"):
            old.unlink()
        np.savez(path, edge_index=batch.edges.astype(np.int32), **({} if batch.ptr is None else {"ptr": batch.ptr}),
                 **({} if batch.weight is None else {"edge_weight": batch.weight}))
    return ["--graph", path, "--num-nodes", batch.n, *(["--directed"] if batch.directed else [])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    print("\n| graph | normalization | k | seconds | MiB held | MiB announced | largest residual | orthonormal within | on two threads | "
          "columns | warnings |\n" + "| --- " * 11 + "|", end="", flush=True)
    return tmp_path_factory.mktemp("sweep")


# ---- measures ----

def measure(batch, a, normalization):
    """Of each graph and column: the residual; of each graph: departure from orthonormality, and what residuals are relative to.
    Columns that a graph does not have are 0 and count as nothing."""
    ptr, v = batch.bounds, a["eigenvectors"]
    of = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    m = sp.csr_matrix(sparse_laplacian(batch, normalization))
    lam = np.nan_to_num(a["eigenvalues"].reshape(len(ptr) - 1, -1))

    def over_graphs(x, add=np.add):
        return np.stack([add.reduceat(x[:, j], ptr[:-1]) if (np.diff(ptr) > 0).all() else np.array(
            [add.reduce(x[s:t, j], initial=0) for s, t in zip(ptr, ptr[1:])]) for j in range(x.shape[1])], 1)

    residual = np.sqrt(over_graphs((m @ v - v * lam[of]) ** 2))
    exists = ~np.isnan(a["eigenvalues"].reshape(len(ptr) - 1, -1))
    off = max(np.abs(over_graphs(v * v[:, [j]]) - np.where(exists & exists[:, [j]], np.arange(v.shape[1]) == j, 0)).max() for j in range(v.shape[1]))
    scale = np.ones(len(ptr) - 1) if normalization == "sym" else over_graphs(m.diagonal()[:, None], np.maximum)[:, 0]
    return residual, off, np.maximum(2 * scale, 1e-300)


@pytest.mark.parametrize("name,normalization,k,more", ASKED, ids=[f"{g}, {n} k={k}" for g, n, k, _ in ASKED])
def test_sweep(build, folder, name, normalization, k, more):
    batch = graph(name)
    where = write(folder, name, batch)
    params = [f"k={k}", f"normalization={normalization}", "dtype=float64", *(f"{p}={v}" for p, v in more.items())]
    print(f"\n| {name} | {normalization} | {k} | ", end="", flush=True)
    explained = command(build, "explain", "laplacian", *params, *where, "--format", "json")
    told = json.loads(explained["out"])
    threads = (1, 2) if k == 8 else (1,)
    runs = [command(build, "laplacian", *params, *where, "--threads", t, "-o", folder / f"{t}.out.npz") for t in threads]
    files = [folder / f"{t}.out.npz" for t in threads]
    same = len({file.read_bytes() for file in files}) == 1
    with np.load(files[0]) as z:
        a = {key: z[key] for key in z.files if not key.startswith("__")}
    residual, off, relative = measure(batch, a, normalization)
    share = (residual / (more.get("tol", 1e-10) * relative[:, None])).max()
    held, announced = runs[0]["bytes"] - explained["bytes"], told["cost"]["scratch_bytes"] + told["bytes"]
    warned = [line.split("warning: ")[1] for line in runs[0]["err"].splitlines() if "warning: " in line]
    print(f"{runs[0]['seconds']:.2f} s | {held / 2**20:.0f} MiB | {announced / 2**20:.0f} MiB | "
          f"{residual.max():.1e}, {share:.0%} of what is allowed | {off:.0e} | "
          f"{'-' if len(files) == 1 else 'same bytes' if same else 'OTHER BYTES'} | {a['determined'].sum()} of {a['determined'].size} determined | "
          f"{'; '.join(warned)[:100]} |", flush=True)
    assert same, "bytes on one thread and on two"
    assert not a["status"].any() and share <= 1 and off < 1e-10
    assert (np.abs(residual - np.nan_to_num(a["residuals"].reshape(residual.shape))) <= 1e-12 * relative[:, None]).all()
    assert held <= announced + 2**20, "bytes announced; a MiB for pages of code that explaining does not touch"
    edges = batch.edges if batch.weight is None else batch.edges[:, batch.weight != 0]
    zeros = connected_components(sp.coo_matrix((np.ones(edges.shape[1]), edges), (batch.n, batch.n)), False)[0]
    assert a["num_components"].sum() == zeros
    if name.split()[0] in NARROW and batch.n <= 10**5:
        last, m = a["eigenvalues"][-1], sparse_laplacian(batch, normalization)
        assert below(m, last * (1 - 1e-7)) == zeros + np.count_nonzero(a["eigenvalues"] < last * (1 - 1e-7)), "none is left out"
