"""Every graph encoding against its definition in numpy, over all graphs of the atlas, a thousand molecules, the same with
weights, and random digraphs: each as one batch. And what holds for all of them: a graph in a batch has the bytes it has alone;
the order of the edge list does not show; a relabelled graph has the same rows, permuted."""
from collections import deque
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph as csgraph
from conftest import data
from dense import close, diagonal, eigenpairs, eye, hops, laplacian, over, transition, union
from graphs import Batch, ask, batch_of, digraphs, same_bytes, weighted


@lru_cache
def sample(name):
    if name == "digraphs":
        return digraphs()
    kind, _, form = name.partition(" ")
    batch = batch_of(data({"atlas": "graph_atlas_1253.npz", "molecules": "mol_hiv_1k.npz"}[kind]))
    return weighted(batch) if form else batch


# ---- one checker an encoding: (answer, batch) ----

def random_walk(answer, batch):
    for _, rows, a in batch.stacks():
        p, power = transition(a), transition(a)
        for t in range(answer["encoding"].shape[1]):
            close(answer["encoding"][rows, t], diagonal(power), f"step {t + 1}")
            power = power @ p
    assert answer["encoding"].min(initial=0) >= 0 and answer["encoding"].max(initial=0) <= 1


def pagerank_of(normalization, alpha):
    def check(answer, batch):
        offsets = answer["offsets"]
        for graphs, rows, a in batch.stacks():
            if normalization == "sym":
                u = union(a)
                s = over(1, np.sqrt(u.sum(2)))
                t = s[:, :, None] * u * s[:, None]
            else:
                t = transition(a) if normalization == "row" else over(a, a.sum(1, keepdims=True))
            want = alpha * np.linalg.inv(eye(a) - (1 - alpha) * t)
            n = a.shape[1]
            got = answer["scores"][offsets[graphs][:, None] + np.arange(n * n)].reshape(a.shape)
            close(got, want, normalization)
    return check


def heat_of(times, normalization, exclude_zero):
    def check(answer, batch):
        for _, rows, a in batch.stacks(loops=False):
            a = union(a)
            lam, v = np.linalg.eigh(laplacian(a, normalization))
            for j, t in enumerate(times):
                f = np.exp(-t * np.maximum(lam, 0)) * ~(exclude_zero & (lam < 1e-9))
                close(answer["encoding"][rows, j], np.einsum("gij,gj->gi", v * v, f), t, 1e-10)
    return check


def electrostatic(answer, batch):
    for _, rows, a in batch.stacks(loops=False):
        a = union(a)
        n = a.shape[1]
        if not n:
            continue
        e = np.linalg.pinv(laplacian(a, "none"), rcond=1e-11, hermitian=True)
        scale = max(1, np.abs(e).max())
        e = e - diagonal(e)[:, None, :]
        m = transition(a) * e
        std = [e.std(i, ddof=1) if n > 1 else np.zeros(e.shape[:2]) for i in (1, 2)]
        want = [e.min(1), e.max(1), e.mean(1), std[0], e.min(2), e.max(2), e.mean(2), std[1], m.sum(1), m.sum(2)]
        close(answer["encoding"][rows], np.stack(want, 2), n, 1e-9 * scale)


def degree(answer, batch):
    for _, rows, a in batch.stacks():
        close(answer["degree"][rows], a.sum(2) + (a.sum(1) if batch.directed else 0), "weighted")


def counted(answer, batch):
    for _, rows, a in Batch(batch.edges, batch.ptr, directed=batch.directed).stacks():
        assert (answer["out_degree"][rows] == a.sum(2)).all() and (answer["in_degree"][rows] == a.sum(1)).all()
        assert (answer["degree"][rows] == a.sum(2) + (a.sum(1) if batch.directed else 0)).all()


def profile(answer, batch):
    for _, rows, a in Batch(batch.edges, batch.ptr, directed=batch.directed).stacks():
        d = a.sum(2)
        other, has = np.broadcast_to(d[:, None], a.shape), d > 0
        low, high = np.where(a > 0, other, np.inf).min(2, initial=np.inf), np.where(a > 0, other, -1).max(2, initial=-1)
        mean = over((a * other).sum(2), d)
        std = np.sqrt(over((a * (other - mean[:, :, None]) ** 2).sum(2), d))
        close(answer["encoding"][rows], np.stack([d, np.where(has, low, 0), np.where(has, high, 0), mean, std], 2), "profile")


def shortest_path(answer, batch):
    for graphs, rows, a in batch.stacks(loops=False):
        n = a.shape[1]
        got = answer["distances"][answer["offsets"][graphs][:, None] + np.arange(n * n)].reshape(a.shape)
        if batch.weight is None:
            d = hops(a)
        else:
            d = np.stack([csgraph.shortest_path(scipy.sparse.csr_matrix(m), "D", directed=batch.directed) for m in a]) if n else a
        close(got.astype(float), np.where(np.isinf(d), -1, d), "distances")


def anchors(answer, batch):
    """anchor_mode=farthest, num_anchors=4: the definition followed step by step."""
    for graphs, rows, a in batch.stacks(loops=False):
        n = a.shape[1]
        if batch.weight is None:
            d = hops(a)
        else:
            d = np.stack([csgraph.shortest_path(scipy.sparse.csr_matrix(m), "D", directed=batch.directed) for m in a]) if n else a
        for i, g in enumerate(graphs):
            got, chosen = answer["encoding"][rows[i]], answer["argmax"][rows[i]]
            for j in range(4):
                names = set(chosen[:, j]) - {-1}
                assert len(names) <= 1, g
                want = over(1, 1 + d[i][:, names.pop()]) if names else np.zeros(n)
                close(got[:, j], np.where(np.isfinite(want), want, 0), g)


def colours(answer, batch):
    """Partitions after three refinements, and names that agree between graphs just where unfoldings do."""
    n = batch.n
    beside = [[] for _ in range(n)]
    for _, rows, a in Batch(batch.edges, batch.ptr, directed=batch.directed).stacks():
        g, u, v = np.nonzero(union(a))
        for x, y, times in zip(rows[g, u].tolist(), rows[g, v].tolist(), union(a)[g, u, v]):
            beside[x] += [y] * int(times)
    colour = [0] * n
    for _ in range(3):
        names = {}
        colour = [names.setdefault((colour[u], tuple(sorted(colour[v] for v in beside[u]))), len(names)) for u in range(n)]
    pairs = set(zip(colour, answer["hashes"].tolist()))
    assert len(pairs) == len(set(colour)) == len(set(answer["hashes"].tolist()))
    graph = np.searchsorted(batch.ptr, np.arange(n), side="right") - 1
    pairs = set(zip(graph.tolist(), colour, answer["colors"].tolist()))
    assert len(pairs) == len({p[:2] for p in pairs}) == len({(p[0], p[2]) for p in pairs})
    assert answer["num_colors"].tolist() == [len(set(np.array(colour)[batch.ptr[g]:batch.ptr[g + 1]])) for g in range(len(batch.ptr) - 1)]


def drnl(answer, batch):
    b, n = batch.bounds, batch.n
    beside = [[] for _ in range(n)]
    for u, v in batch.edges.T.tolist():
        beside[u].append(v)
        beside[v].append(u)

    def steps(source, closed):
        far, queue = {source: 0}, deque([source])
        while queue:
            u = queue.popleft()
            for v in beside[u]:
                if v != closed and v not in far:
                    far[v] = far[u] + 1
                    queue.append(v)
        return far

    for g in range(len(b) - 1):
        if b[g + 1] - b[g] < 2:
            assert answer["status"][g] == 400
            continue
        src, dst = int(b[g]), int(b[g]) + 1
        s, t = steps(src, dst), steps(dst, src)
        for v in range(b[g], b[g + 1]):
            want = 0
            if v in (src, dst):
                want = 1
            elif v in s and v in t:
                d = s[v] + t[v]
                want = 1 + min(s[v], t[v]) + (d // 2) * (d // 2 + d % 2 - 1)
            assert answer["labels"][v] == want, (g, v)


def svd(answer, batch):
    k = answer["singular_values"].shape[1]
    for graphs, rows, a in batch.stacks():
        n = a.shape[1]
        m = min(k, n)
        if not n:
            continue
        want = np.linalg.svd(a, compute_uv=False)
        s = answer["singular_values"][graphs]
        assert np.isnan(s[:, m:]).all()
        close(s[:, :m], want[:, :m], "values", 1e-9)
        u, v = answer["encoding"][rows][..., :m], answer["encoding"][rows][..., m:2 * m]
        assert not answer["encoding"][rows][..., 2 * m:].any()
        for x in (u, v):
            close(x.transpose(0, 2, 1) @ x, s[:, :m, None] * eye(s[:, :m, None] @ s[:, None, :m]), "orthogonal", 1e-8)
        rest = a - u @ v.transpose(0, 2, 1)
        close(np.linalg.norm(rest, axis=(1, 2)) ** 2, (want[:, m:] ** 2).sum(1), "reconstruction", 1e-7)


def largest_of(normalization):
    def check(answer, batch):
        for graphs, rows, a in batch.stacks(loops=False):
            a = union(a)
            if a.shape[1]:
                want = np.linalg.eigvalsh(laplacian(a, "sym" if normalization == "rw" else normalization, 0.0))[:, -1]
                close(answer["lambda_max"][graphs], np.maximum(want, 0), normalization, 1e-10 * max(1, want.max()))
    return check


def matrix_of(normalization):
    def check(answer, batch):
        for graphs, rows, a in batch.stacks(loops=False):
            n = a.shape[1]
            got = answer["matrix"][answer["matrix_ptr"][graphs][:, None] + np.arange(n * n)].reshape(a.shape)
            if normalization == "sym" and batch.directed:
                d = a.sum(2)
                s = over(1, np.sqrt(d))
                want = eye(a) - s[:, :, None] * a * s[:, None]
            else:
                want = laplacian(a, normalization)
            close(got, want, normalization)
    return check


def magnetic_of(q, mean, normalization):
    def check(answer, batch):
        for graphs, rows, a in batch.stacks(loops=False):
            s = (a + a.transpose(0, 2, 1)) / 2 if mean else union(a)
            h = laplacian(s, "none") * np.exp(2j * np.pi * q * (a - a.transpose(0, 2, 1)))
            if normalization == "sym":
                r = over(1, np.sqrt(s.sum(2)))
                h = r[:, :, None] * h * r[:, None] + np.where(s.sum(2) > 0, 0, 1)[:, :, None] * eye(a)
            eigenpairs(answer["eigenvectors_real"] + 1j * answer["eigenvectors_imag"], answer["eigenvalues"], graphs, rows, h, 1)
    return check


def laplacian_of(normalization):
    def check(answer, batch):
        vectors = answer["eigenvectors"]
        for graphs, rows, a in batch.stacks(loops=False):
            a = union(a)
            if normalization != "rw":
                eigenpairs(vectors, answer["eigenvalues"], graphs, rows, laplacian(a, normalization), 1)
                continue
            n, k = a.shape[1], answer["eigenvalues"].shape[1]
            have = max(0, min(k, n - 1))
            v, lam = vectors[rows][..., :have], answer["eigenvalues"][graphs][:, :have]
            if have:        # right eigenvectors: of length 1, and D-orthogonal
                d = np.where(a.sum(2) > 0, a.sum(2), 1)
                close(np.linalg.norm(v, axis=1), np.ones(lam.shape), "length", 1e-12)
                close(laplacian(a, "rw") @ v, v * lam[:, None], "residual", 1e-9)
                g = v.transpose(0, 2, 1) @ (d[:, :, None] * v)
                size = np.sqrt(diagonal(g))
                close(g / size[:, :, None] / size[:, None], np.broadcast_to(np.eye(have), g.shape), "D-orthogonal", 1e-9)
        assert np.nanmax(answer["residuals"], initial=0) <= 1e-10 * max(1, np.nanmax(answer["eigenvalues"], initial=0))
    return check


TIMES = (0.5, 1, 3)
UNDIRECTED, ALL = ("atlas", "molecules", "atlas weighted"), ("atlas", "molecules", "molecules weighted", "digraphs")
# name: encoding, parameters, samples, checker, outputs that a relabelled graph has permuted
FORMS = {
    **{f"laplacian {w}": ("laplacian", {"k": 8, "normalization": w}, ALL, laplacian_of(w), "eigenvectors") for w in ("none", "sym", "rw")},
    "magnetic mean": ("magnetic_laplacian", {"k": 5, "q": 0.1}, ALL, magnetic_of(0.1, True, "sym"), "magnetic"),
    "magnetic none": ("magnetic_laplacian", {"k": 5, "q": 0.25, "normalization": "none"}, ALL, magnetic_of(0.25, True, "none"), "magnetic"),
    "magnetic max": ("magnetic_laplacian", {"k": 5, "q": 0.2, "symmetrize": "max"}, ALL, magnetic_of(0.2, False, "sym"), "magnetic"),
    **{f"laplacian_matrix {w}": ("laplacian_matrix", {"normalization": w}, ALL, matrix_of(w), "matrix") for w in ("none", "sym", "rw")},
    **{f"lambda_max {w}": ("lambda_max", {"normalization": w}, ALL, largest_of(w), "lambda_max") for w in ("none", "sym", "rw")},
    "random_walk": ("random_walk", {"walk_length": 12}, ALL, random_walk, "encoding"),
    **{f"pagerank {w}": ("personalized_pagerank", {"normalization": w, "alpha": 0.2}, ALL, pagerank_of(w, 0.2), "scores") for w in ("sym", "row", "col")},
    "heat none": ("heat_kernel", {"kernel_times": TIMES}, ALL, heat_of(TIMES, "none", True), "encoding"),
    "heat sym": ("heat_kernel", {"kernel_times": TIMES, "normalization": "sym", "exclude_zero": "false"}, ALL, heat_of(TIMES, "sym", False), "encoding"),
    "electrostatic": ("electrostatic", {}, ALL, electrostatic, "encoding"),
    "degree": ("degree", {}, ALL, counted, "degree"),
    "degree weighted": ("degree", {"weighted": "true"}, ALL, degree, "degree"),
    "local_degree_profile": ("local_degree_profile", {}, ALL, profile, "encoding"),
    "shortest_path": ("shortest_path", {}, ALL, shortest_path, "distances"),
    "anchor_distance": ("anchor_distance", {"anchor_mode": "farthest", "num_anchors": 4}, ALL, anchors, None),
    "weisfeiler_lehman": ("weisfeiler_lehman", {"rounds": 3}, ("atlas", "molecules", "digraphs"), colours, "hashes"),
    "double_radius_node_labeling": ("double_radius_node_labeling", {"src": 0, "dst": 1}, ("atlas", "molecules", "digraphs"), drnl, None),
    "svd": ("svd", {"k": 7}, ALL, svd, "svd"),
}
CASES = [(form, name) for form, (_, _, samples, _, _) in FORMS.items() for name in samples]


@pytest.fixture(scope="module")
def answers(server):
    """One request a case, however many tests look at it."""
    @lru_cache(maxsize=None)
    def answer(form, name):
        encoding, params, _, _, _ = FORMS[form]
        return ask(server, encoding, sample(name), **params)
    return answer


@pytest.mark.parametrize("form,name", CASES)
def test_definition(answers, form, name):
    answer = answers(form, name)
    assert form.startswith("double") or not answer["status"].any()
    FORMS[form][3](answer, sample(name))


def cut(answer, batch, g):
    """What belongs to graph g, by output."""
    graphs, b = len(batch.ptr) - 1, batch.ptr
    for k, v in answer.items():
        if k in ("offsets", "matrix_ptr"):
            continue
        if k in ("matrix", "scores", "distances") and v.ndim == 1:
            at = answer["matrix_ptr" if k == "matrix" else "offsets"]
            yield k, v[at[g]:at[g + 1]]
        elif len(v) == batch.n and (v.ndim > 1 or k not in ("status",)) and len(v) != graphs:
            yield k, v[b[g]:b[g + 1]]
        else:
            yield k, v[g]


@pytest.mark.parametrize("form,name", CASES)
def test_batch_is_alone(server, answers, form, name):
    """Every 40th graph: the bytes of a request of its own."""
    encoding, params, _, _, _ = FORMS[form]
    batch, answer = sample(name), answers(form, name)
    for g in range(3, len(batch.ptr) - 1, 40):
        if answer["status"][g]:
            continue
        one = ask(server, encoding, batch.alone(g), **params)
        for k, v in cut(answer, batch, g):
            assert one[k].tobytes() == v.tobytes(), (g, k)


@pytest.mark.parametrize("form,name", CASES)
def test_listing(server, answers, form, name):
    """Edges shuffled, and undirected ones turned or listed in both directions: the same bytes."""
    encoding, params, _, _, _ = FORMS[form]
    batch = sample(name)
    for both in (False, True):
        assert not same_bytes(answers(form, name), ask(server, encoding, batch.shuffled(1, both), **params)), both


def shares(batch, flat, offsets):
    """The n x n matrices of a batch by size: (rows, matrices)."""
    for graphs, rows, a in batch.stacks():
        n = a.shape[1]
        yield rows, flat[offsets[graphs][:, None] + np.arange(n * n)].reshape(a.shape)


def permuted(a, b, batch, p, output):
    """The largest difference between rows of a and the rows of b that the same nodes have, where it must be small."""
    graph = np.repeat(np.arange(len(batch.ptr) - 1), np.diff(batch.ptr))
    if output in ("eigenvectors", "magnetic", "svd"):
        keys = {"eigenvectors": ["eigenvectors"], "magnetic": ["eigenvectors_real", "eigenvectors_imag"], "svd": ["encoding"]}[output]
        fixed = ((a["determined"] == 1) & (b["determined"] == 1))[graph]
        if output == "svd":     # U | V | 0: V begins where U ends, also where a graph has fewer columns than k
            m = np.minimum(fixed.shape[1], np.diff(batch.ptr))[graph][:, None]
            at = np.arange(2 * fixed.shape[1])[None] % np.maximum(m, 1)
            fixed = np.take_along_axis(fixed, at, 1) & (np.arange(2 * fixed.shape[1]) < 2 * m)
        return max(np.abs(a[k] - b[k][p])[fixed].max(initial=0) for k in keys)
    if output in ("matrix", "scores", "distances"):
        worst, offsets = 0, a["matrix_ptr" if output == "matrix" else "offsets"]
        for (rows, x), (_, y) in zip(shares(batch, a[output], offsets), shares(batch, b[output], offsets)):
            q = p[rows] - rows[:, :1] if rows.size else rows
            moved = np.take_along_axis(np.take_along_axis(y, q[:, :, None], 1), q[:, None], 2)
            worst = max(worst, np.abs(x - moved).max(initial=0))
        return worst
    x, y = a[output], b[output]
    return np.abs(x - (y if len(x) == len(batch.ptr) - 1 else y[p])).max(initial=0)


@pytest.mark.parametrize("form,name", [(f, s) for f, s in CASES if FORMS[f][4]])
def test_relabelled(server, answers, form, name):
    """Rows permuted to within 1e-6: where eigenvectors are concerned, in columns that both call determined. In all whose
    arithmetic has no choice, to within rounding."""
    encoding, params, _, _, output = FORMS[form]
    batch, a = sample(name), answers(form, name)
    copy, p = batch.relabelled(11)
    b = ask(server, encoding, copy, **params)
    size = max(1, np.abs(a[output]).max()) if output in a else 1
    assert permuted(a, b, batch, p, output) <= {"eigenvectors": 1e-6, "magnetic": 1e-6, "svd": 1e-6, "hashes": 0}.get(output, 1e-9) * size
    if "eigenvalues" in a:
        assert np.nanmax(np.abs(a["eigenvalues"] - b["eigenvalues"]), initial=0) < 1e-9


def test_given_pair_and_anchors(server):
    """What names nodes follows them: 40 molecules one by one, relabelled."""
    batch = sample("molecules").some(range(0, 1000, 25))
    rng = np.random.default_rng(2)
    for g in range(40):
        one = batch.alone(g)
        copy, p = one.relabelled(g)
        pair = rng.choice(one.n, 2, replace=False)
        a = ask(server, "double_radius_node_labeling", one, src=pair[0], dst=pair[1])["labels"]
        b = ask(server, "double_radius_node_labeling", copy, src=p[pair[1]], dst=p[pair[0]])["labels"]
        assert (a == b[p]).all()
        chosen = rng.integers(0, one.n, 5)
        a = ask(server, "anchor_distance", one, anchors=chosen.tolist(), anchor_ptr=[0, 1, 3, 5])
        b = ask(server, "anchor_distance", copy, anchors=p[chosen].tolist(), anchor_ptr=[0, 1, 3, 5])
        assert (a["encoding"] == b["encoding"][p]).all()
        _, rows, m = next(Batch(one.edges, np.array([0, one.n])).stacks(loops=False))
        d = hops(m)[0]
        want = np.stack([1 / (1 + d[:, chosen[x:y]].min(1)) for x, y in ((0, 1), (1, 3), (3, 5))], 1)
        close(a["encoding"], want, "closeness")


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_whole_hiv(answers, server, form):
    """The 41,913 molecules by definition, in batches of 6,000: slow."""
    whole = batch_of(data("mol_hiv_41k.npz"))
    encoding, params, _, check, _ = FORMS[form]
    for at in range(0, 41913, 6000):
        end = min(at + 6000, 41913)
        mine = (whole.edges[0] >= whole.ptr[at]) & (whole.edges[0] < whole.ptr[end])
        part = Batch(whole.edges[:, mine] - whole.ptr[at], whole.ptr[at:end + 1] - whole.ptr[at])
        check(ask(server, encoding, part, **params), part)
