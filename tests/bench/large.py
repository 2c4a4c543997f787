#!/usr/bin/env python3
"""large.py [WORD ...]: Laplacian eigenvectors of one large graph, against scipy: CPU seconds from the edge list to the vectors.

posenc and scipy take turns, each in a process of its own, one thread (where a row says two threads: two of ours, and wall time);
the median of the rounds of each (5; 3 where scipy takes over ten seconds, 1 where over a minute) is compared. tol is 1e-6 for both;
the residuals of both are printed. scipy: eigsh with sigma just below 0 (shift-invert), or of the smallest algebraic. Words choose
rows by part of their name.
rows() yields the same as dicts for goals.py; a row whose peer or data is absent says so in its note."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import PYTHON, environment, wanted

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / os.environ.get("POSENC_BUILD", "build/release") / "bench_graph"
LIMIT = float(os.environ.get("POSENC_BENCH_LIMIT", "600"))     # [s] of wall time for one run of a peer

# name, graph, k, peer, goal; threads of ours, whose wall time is compared where there are several
CASES = [("cora k=8", "cora", 8, "si", 10), ("pubmed k=8", "pubmed", 8, "si", 4), ("pubmed k=32", "pubmed", 32, "si", 4),
         ("grid 10^5 k=8", "grid 316", 8, "si", 5), ("grid 10^5 k=32", "grid 316", 32, "si", 5),
         ("road 10^5 k=8", "road 100000", 8, "si", 5), ("road 10^5 k=32", "road 100000", 32, "si", 5),
         ("geometric 10^5 k=8", "geometric 100000", 8, "si", 5),
         ("preferential 10^5, 10^6 k=8", "preferential 100000", 8, "sa", 2),
         ("preferential 10^5, 10^6 k=32", "preferential 100000", 32, "sa", 4),
         ("preferential 10^5, 10^6 k=8, two threads", "preferential 100000", 8, "sa", 4, 2),
         ("preferential 10^5, 10^6 k=32, two threads", "preferential 100000", 32, "sa", 8, 2),
         ("grid 10^6 k=8", "grid 1000", 8, "si", 8), ("road 10^6 k=8", "road 1000000", 8, "si", 8)]


# ---- graphs: (n, edges (2, m)) ----

def grid(side):
    import numpy as np
    i = np.arange(side * side).reshape(side, side)
    return side * side, np.concatenate([[i[:, :-1].ravel(), i[:, 1:].ravel()], [i[:-1].ravel(), i[1:].ravel()]], 1)


def road(n):
    """The shortest spanning tree of random points' triangulation, and the shortest of its other edges: 1.35 n edges."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial import Delaunay
    p = np.random.default_rng(1).random((n, 2))
    t = np.sort(Delaunay(p).simplices, 1)
    e = np.unique(np.concatenate([t[:, [0, 1]], t[:, [1, 2]], t[:, [0, 2]]]), axis=0)
    length = np.linalg.norm(p[e[:, 0]] - p[e[:, 1]], axis=1)
    tree = minimum_spanning_tree(sp.csr_matrix((length, (e[:, 0], e[:, 1])), shape=(n, n))).tocoo()
    rest = ~np.isin(e[:, 0] * n + e[:, 1], np.minimum(tree.row, tree.col).astype(np.int64) * n + np.maximum(tree.row, tree.col))
    more = np.flatnonzero(rest)[np.argsort(length[rest], kind="stable")[:int(0.35 * n)]]
    return n, np.concatenate([[tree.row, tree.col], e[more].T], 1)


def geometric(n):
    """Random points, joined where near: eight neighbours on average; the largest component."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree
    e = cKDTree(np.random.default_rng(1).random((n, 2))).query_pairs((8 / np.pi / n) ** .5, output_type="ndarray").T
    of = connected_components(sp.coo_matrix((np.ones(e.shape[1]), (e[0], e[1])), shape=(n, n)), False)[1]
    inside = of == np.bincount(of).argmax()
    name = np.cumsum(inside) - 1
    e = e[:, inside[e[0]]]
    return int(inside.sum()), name[e]


def preferential(n, each=10):
    """Barabasi, Albert."""
    import numpy as np
    rng = np.random.default_rng(1)
    ends = np.empty(2 * n * each, np.int64)
    m = 0
    for v in range(1, n):
        many = min(each, v)
        to = np.unique(ends[rng.integers(0, 2 * m, many)]) if m else np.zeros(1, np.int64)
        ends[2 * m:2 * (m + len(to)):2], ends[2 * m + 1:2 * (m + len(to)):2] = v, to
        m += len(to)
    return n, ends[:2 * m].reshape(-1, 2).T


def make(word, folder):
    """The path of an edge list and its nodes; None where data are not there."""
    import numpy as np
    name, *size = word.split()
    if not size:
        path = Path(os.environ.get("POSENC_TEST_DATA", "")) / f"{name}.edges.npy"
        return (path, int(np.load(path).max()) + 1) if path.is_file() else None
    path = Path(folder) / f"{word.replace(' ', '-')}.npy"
    if not path.is_file():
        n, edges = {"grid": grid, "road": road, "geometric": geometric, "preferential": preferential}[name](int(size[0]))
        np.save(path, np.ascontiguousarray(edges, dtype=np.int32))
        path.with_suffix(".n").write_text(str(n))
    return path, int(path.with_suffix(".n").read_text())


# ---- runs ----

def peer(path, n, k, how):
    """In a process of its own: prints what bench_graph prints."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.linalg import eigsh

    def peak():
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

    edges = np.load(path)
    before = peak()
    begin, began = time.process_time(), time.perf_counter()
    u, v = edges[:, edges[0] != edges[1]].astype(np.int64)
    a = sp.coo_matrix((np.ones(2 * len(u)), (np.r_[u, v], np.r_[v, u])), shape=(n, n)).tocsr()
    d = np.asarray(a.sum(1)).ravel()
    r = sp.diags(np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1)), 0))
    lap = (sp.identity(n) - r @ a @ r).tocsr()
    start = np.random.default_rng(0).standard_normal(n)
    if how == "si":
        w, x = eigsh(lap.tocsc(), k, sigma=-1e-2 / n, which="LM", tol=1e-6, v0=start)
    else:
        w, x = eigsh(lap, k, which="SA", tol=1e-6, v0=start, maxiter=10 ** 6)
    seconds, wall = time.process_time() - begin, time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "wall": wall, "bytes": (peak() - before) * 1024, "residual": float(np.linalg.norm(lap @ x - x * w, axis=0).max())}))


def run(command):
    out = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT)
    told = json.loads(out.stdout.splitlines()[-1]) if out.stdout else {"error": out.stderr[-200:]}
    if "error" in told:
        raise RuntimeError(told["error"])
    return told


def components(path, n):
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components
    e = np.load(path)
    return connected_components(sp.coo_matrix((np.ones(e.shape[1]), (e[0], e[1])), shape=(n, n)), False)[0]


def measure(path, n, k, how, threads):
    """Seconds of both, and a note; CPU time, or with several threads wall time. scipy is asked for the null vectors too, which posenc knows."""
    ours, theirs = [], []
    mine = [str(BENCH), str(path), str(n), "laplacian", f"k={k}&skip=all_zero&tol=1e-6", str(threads)]
    yours = [PYTHON, __file__, "--peer", str(path), str(n), str(k + components(path, n)), how]
    rounds = 5
    while len(ours) < rounds:
        ours.append(run(mine))
        theirs.append(run(yours))
        slow = theirs[0]["seconds"]
        rounds = 1 if slow > 60 else 3 if slow > 10 else 5
    clock = "seconds" if threads == 1 else "wall"
    a, b = (statistics.median(r[clock] for r in runs) for runs in (ours, theirs))
    return a, b, (f"{rounds} rounds; residuals {ours[0]['residual']:.1e}, {theirs[0]['residual']:.1e}; "
                  f"MB {ours[0]['bytes'] / 1e6:.0f}, {theirs[0]['bytes'] / 1e6:.0f}")


def rows(words=()):
    peers = {"si": "scipy eigsh, shift-invert", "sa": "scipy eigsh SA"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.environ.get("POSENC_BENCH_GRAPHS", scratch)     # where made graphs are kept
        for name, word, k, how, target, *threads in CASES:
            if (words and not any(w in name for w in words)) or not wanted(f"laplacian, {name}", peers[how]):
                continue
            row = {"goal": f"laplacian, {name}", "peer": peers[how], "ours_s": None, "peer_s": None, "ratio": None, "target": target}
            try:
                import scipy  # noqa: F401
                graph = make(word, folder)
                if not graph:
                    yield {**row, "note": "absent: POSENC_TEST_DATA"}
                    continue
                a, b, note = measure(*graph, k, how, *(threads or [1]))
                yield {**row, "ours_s": a, "peer_s": b, "ratio": b / a, "note": note}
            except ImportError:
                yield {**row, "note": "absent: scipy"}
            except (subprocess.TimeoutExpired, RuntimeError) as e:
                yield {**row, "note": f"{type(e).__name__}: {str(e)[:120]}"}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        print("| goal | peer | posenc s | peer s | ratio | target | note |\n| --- | --- | --- | --- | --- | --- | --- |")
        for r in rows(sys.argv[1:]):
            cell = lambda v: "-" if v is None else f"{v:.3f}" if v < 10 else f"{v:.1f}"  # noqa: E731
            print(f"| {r['goal']} | {r['peer']} | {cell(r['ours_s'])} | {cell(r['peer_s'])} | {cell(r['ratio'])} | {r['target']} | {r['note']} |",
                  flush=True)
