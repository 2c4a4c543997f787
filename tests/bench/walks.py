"""Random walks, distances, PageRank and colours: performance.md's third section, and single graphs of 10^6 nodes."""
import measure
from small import batch, find, load

PYG, SCIPY, QUEUE = "PyG AddRandomWalkPE", "scipy shortest_path, matrix ready", "scipy breadth_first_order, matrix ready"
C_QUEUE = "queue in C (bench_queue.c), rows of neighbours ready"
INVERSE, POWER, NETWORKX = "numpy.linalg.inv, matrix ready", "scipy power iteration to the same error", "networkx"


# ---- graphs ----

def grid(side):
    """(n, edges): a lattice of side x side nodes."""
    import numpy as np
    i = np.arange(side * side).reshape(side, side)
    return side * side, np.stack([np.concatenate([i[:, :-1].ravel(), i[:-1].ravel()]), np.concatenate([i[:, 1:].ravel(), i[1:].ravel()])])


def web(n, degree):
    """(n, edges): every node is joined to `degree` earlier ones, an end of an earlier edge or any: heavy hubs, few steps."""
    import numpy as np
    draw = np.random.default_rng(7)
    v = np.repeat(np.arange(1, n), degree)
    u = (draw.random(len(v)) ** 3 * v).astype(np.int64)
    key = np.unique(u * n + v)
    return n, np.stack([key // n, key % n])


def roads(side):
    """(n, edges): a lattice that lacks a third of its edges, the others cut by a node; ids shuffled."""
    import numpy as np
    draw = np.random.default_rng(7)
    n, e = grid(side)
    e = e[:, draw.random(e.shape[1]) < 0.66]
    middle = n + np.arange(e.shape[1])
    n += e.shape[1]
    return n, draw.permutation(n)[np.concatenate([np.stack([e[0], middle]), np.stack([middle, e[1]])], 1)]


def made(kind, *sizes):
    return {"grid": grid, "web": web, "roads": roads}[kind](*sizes)


def sparse(n, e, dtype=float):
    import numpy as np
    from scipy.sparse import coo_matrix
    a = coo_matrix((np.ones(2 * e.shape[1], dtype), (np.concatenate([e[0], e[1]]), np.concatenate([e[1], e[0]]))), shape=(n, n)).tocsr()
    a.data[:] = 1
    return a


# ---- peers ----

def pyg(graphs, steps):
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddRandomWalkPE
    torch.set_num_threads(1)
    both = [(n, torch.from_numpy(e)) for n, e in graphs]
    data = [Data(edge_index=torch.cat([e, e.flip(0)], 1), num_nodes=n) for n, e in both]
    transform = AddRandomWalkPE(walk_length=steps, attr_name="pe")

    def once():
        for d in data:
            transform(d)
    return once


def pyg_molecules(path, count, steps):
    return pyg(load(path, 1, 10**6, count), steps)


def pyg_large(steps, *graph):
    return pyg([made(*graph)], steps)


def all_pairs(path, count, method):
    from scipy.sparse.csgraph import shortest_path
    matrices = [sparse(n, e) for n, e in load(path, 1, 10**6, count)]

    def once():
        for m in matrices:
            shortest_path(m, method=method, unweighted=True)
    return once


def queue(sources, *graph):
    """One search a source, in C: order and predecessors, without the distances."""
    from scipy.sparse.csgraph import breadth_first_order
    m = sparse(*made(*graph))

    def once():
        for s in sources:
            breadth_first_order(m, s)
    return once


class Queue:
    """The same in C, with the distances."""

    def __init__(self, sources, *graph):
        n, e = made(*graph)
        self.command = [measure.BUILD / "bench_queue", measure.write("edges.npz", {"edge_index": e}), n, *sources]

    def start(self):
        w = measure.Worker(self.command)
        w.line()
        return w


def inverse(path, count, alpha):
    import numpy as np
    matrices = []
    for n, e in load(path, 1, 10**6, count):
        a = sparse(n, e).toarray()
        r = 1 / np.sqrt(np.maximum(a.sum(1), 1))
        matrices.append(np.eye(n) - (1 - alpha) * r[:, None] * a * r)

    def once():
        for m in matrices:
            alpha * np.linalg.inv(m)
    return once


def power(sources, alpha, error, *graph):
    import math
    import numpy as np
    m = sparse(*made(*graph))
    t = m.T.multiply(1 / np.maximum(m.sum(1).A1, 1)[None, :]).tocsr()
    steps = math.ceil(math.log(error) / math.log(1 - alpha))

    def once():
        for s in sources:
            e = np.zeros(m.shape[0])
            e[s] = alpha
            x = e.copy()
            for _ in range(steps):
                x = (1 - alpha) * (t @ x) + e
    return once


def colours(path, count, rounds):
    import networkx as nx
    graphs = []
    for n, e in load(path, 1, 10**6, count):
        g = nx.empty_graph(n)
        g.add_edges_from(e.T.tolist())
        graphs.append(g)

    def once():
        for g in graphs:
            nx.weisfeiler_lehman_subgraph_hashes(g, iterations=rounds)
    return once


# ---- rows ----

def molecules():
    quick, name = measure.quick(), "mol_hiv_41k.npz"
    count, steps = (500 if quick else 4000), 20
    walk, pairs, rank, wl = ("random_walk, HIV, 20 steps", "shortest_path, HIV, all pairs, uint8", "personalized_pagerank, HIV, full",
                             "weisfeiler_lehman, HIV, 3 rounds")
    of = {walk: [PYG], pairs: [SCIPY, SCIPY + ", Floyd-Warshall"], rank: [INVERSE], wl: [NETWORKX]}
    if not any(measure.wanted(goal, *peers) for goal, peers in of.items()):
        return
    path = find(name)
    if not path:
        yield measure.missing("walks and distances of molecules", f"absent: {name} (POSENC_TEST_DATA names its folder)", PYG)
        return
    tensors, note = batch(load(path, 1, 10**6, count)), f"{count} graphs"
    peer = lambda *a: measure.Peer("walks", *a)
    ours = measure.Ours("random_walk", {"walk_length": steps}, tensors)
    yield from measure.compare(walk, ours, PYG, peer("pyg_molecules", path, count, steps), 60, note)
    ours = measure.Ours("shortest_path", {"distance_dtype": "uint8"}, ours.tensors)
    yield from measure.compare(pairs, ours, SCIPY, peer("all_pairs", path, count, "auto"), 300, note)
    yield from measure.compare(pairs, ours, SCIPY + ", Floyd-Warshall", peer("all_pairs", path, count, "FW"), None, note)
    ours = measure.Ours("personalized_pagerank", {"dtype": "float64"}, ours.tensors)
    yield from measure.compare(rank, ours, INVERSE, peer("inverse", path, count, 0.15), None, note)
    ours = measure.Ours("weisfeiler_lehman", {"rounds": 3, "init": "degree"}, ours.tensors)
    yield from measure.compare(wl, ours, NETWORKX, peer("colours", path, count, 3), None, note)


def request(encoding, params, graph):
    n, e = made(*graph)
    return measure.Ours(encoding, params, {"edge_index": e}, n)


def large():
    """One graph; each where --only wants it, as making it takes a while."""
    small = measure.quick()
    side, n = (100, 10**4) if small else (1000, 10**6)
    words = f"10^{4 if small else 6} nodes"
    tenth = max(side // 10 * 3, 100)
    sources = [(i * 7919) % n for i in range(64)]
    peer = lambda *a, **k: measure.Peer("walks", *a, **k)
    searches = {"web": ["web", n, 5], "grid": ["grid", side], "roads": ["roads", 66 if small else 660]}
    for kind, graph in searches.items():
        note = "all that reading the edges takes counts"
        goal_of = {1: None, 8: None, 64: 1}
        for count in goal_of:
            goal = f"shortest_path, {count} root{'s' if count > 1 else ''}, {kind} of {words}"
            if measure.wanted(goal, QUEUE, C_QUEUE):
                ours = request("shortest_path", {"roots": sources[:count]}, graph)
                yield from measure.compare(goal, ours, QUEUE, peer("queue", sources[:count], *graph), goal_of[count], note, pairs=3)
                yield from measure.compare(goal, ours, C_QUEUE, Queue(sources[:count], *graph), goal_of[count], note, pairs=3)
    goal = f"random_walk, exact, grid of {tenth} x {tenth}, 16 steps"
    if measure.wanted(goal, PYG):
        graph = ["grid", tenth]
        ours = request("random_walk", {"walk_length": 16}, graph)
        yield from measure.compare(goal, ours, PYG, peer("pyg_large", 16, *graph, limit=120), None, "", pairs=2)
    goal = f"personalized_pagerank, row, 8 sources, web of {words}, eps=1e-6"
    if measure.wanted(goal, POWER):
        ours = request("personalized_pagerank", {"output": "rows", "sources": sources[:8], "eps": 1e-6, "normalization": "row"}, searches["web"])
        yield from measure.compare(goal, ours, POWER, peer("power", sources[:8], 0.15, 1e-6, *searches["web"]), None,
                                   "error_bound says how far ours is", pairs=3)
    for encoding, params, kind in [("random_walk", {"walk_length": 16}, "grid"), ("random_walk", {"walk_length": 16}, "roads"),
                                   ("random_walk", {"walk_length": 16, "method": "probe"}, "web"), ("degree", {}, "web"),
                                   ("local_degree_profile", {}, "web"), ("weisfeiler_lehman", {"rounds": 2}, "web")]:
        goal = f"{encoding}{' probe' if 'method' in params else ''}, {kind} of {words}"
        if measure.wanted(goal):
            yield from alone(goal, request(encoding, params, searches[kind]))


def alone(goal, ours):
    """Seconds and peak memory where no peer does it."""
    w = ours.start()
    try:
        t = w.run(0)
        yield measure.bounded(goal, t["cpu"], "s", note=f"peak {t['peak_kib'] // 1024} MiB")
    except measure.Failed as e:
        yield measure.missing(goal, f"error: {e}")
    finally:
        w.close()


def rows():
    yield from molecules()
    yield from large()
