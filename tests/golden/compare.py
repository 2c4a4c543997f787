"""How an answer is held against a golden case. Both doors use it; it knows nothing of transport.

    cases(folder)                      the cases of folder/manifest.json
    inputs(folder, case)               tensor-valued parameters, a tree's `parent` among them: {name: array}
    graph(folder, case)                {"num_nodes", "edge_index", "directed"[, "edge_weight"]} or None
    check(folder, case, answer)        raises Mismatch; answer: {output name: array}

Rules (`compare` of a case):
  allclose (the default)  |got - want| <= abs + rel |want| + angle_rel A, where A bounds the angle that a float32 peer
                          formed: position times frequency where the answer has inv_freq, otherwise the largest of the request.
                          A tolerance may stand under the output's name, or under cos_sin. NaN equals NaN, infinity itself.
  exact                   equal integers
  eigenvalues             a prefix of the true spectrum
  eigen                   `outputs` are true eigenpairs from index 0 to the end of the last cluster; the answer's columns start at
                          `truth_offset`. Eigenvalues agree; every column lies in its eigenspace; columns are orthonormal (rw: of
                          length 1 or more than nothing); columns that do not exist are padding.
  eigen_normalised        columns scaled by a peer's rule: equal up to sign where the eigenvalue is simple
  magnetic                as eigen, of a Hermitian matrix: the columns are complex, in two planes, and start at index 0
  partition               equal classes, whatever they are called
  svd                     halves U sqrt(S) and V sqrt(S) side by side, zeros at the far right: equal U S V^T
"""
import json
from pathlib import Path

import numpy as np

SINGLE = 2e-6       # what rounding an eigenvector or eigenvalue to float32 may add
CLUSTER = 1e-7      # true eigenvalues this near to each other share an eigenspace


class Mismatch(AssertionError):
    pass


def require(ok, message, *values):
    if not ok:
        raise Mismatch(message.format(*values))


def cases(folder):
    return json.loads((Path(folder) / "manifest.json").read_text())


def load(folder, what):
    return np.load(Path(folder) / (what["file"] if isinstance(what, dict) else what))


def inputs(folder, case):
    return {name: load(folder, f) for name, f in {**case.get("inputs", {}), **case.get("tree", {})}.items()}


def graph(folder, case):
    if "graph" not in case:
        return None
    g = case["graph"]
    out = {"num_nodes": g["num_nodes"], "edge_index": load(folder, g["edge_index"]), "directed": g["directed"]}
    if "edge_weight" in g:
        out["edge_weight"] = load(folder, g["edge_weight"])
    return out


# ---- tables ----

def angle_bound(params):
    """The largest angle that the request can form."""
    positions = next((np.ravel(params[k]) for k in ("positions", "timesteps", "timestamps") if params.get(k) is not None), None)
    if positions is not None and len(positions):
        reach = np.abs(np.asarray(positions, dtype=float)).max()
    else:
        reach = next((float(params[k]) for k in ("num_positions", "length", "key_length") if k in params), 1.0)
    reach += abs(float(params.get("offset") or 0))
    return reach * abs(float(params.get("scale") or 1)) * max(1.0, float(params.get("min_timescale") or 1))


def angles(case, answer, shape):
    """|angle| of every entry of a rotary table, from the answer's own frequencies; None where they do not say."""
    p = case["params"]
    if "inv_freq" not in answer or len(shape) != 2:
        return None
    positions = p["positions"] if "positions" in p else np.arange(p.get("num_positions", 0))
    a = np.abs(np.outer(positions, answer["inv_freq"].astype(float)))
    if 2 * a.shape[1] == shape[1]:
        a = np.repeat(a, 2, 1) if p.get("layout", "half") == "interleaved" else np.concatenate([a, a], 1)
    return a if a.shape == shape else None


def tolerance_of(case, name):
    t = case["tolerance"]
    return t.get(name) or t.get("cos_sin") or {} if "inv_freq" in t or "cos_sin" in t else t


def allclose(folder, case, answer):
    for name, what in case["outputs"].items():
        want, got, tolerance = load(folder, what), answer[name], tolerance_of(case, name)
        if what.get("rows"):
            got = got[slice(*what["rows"])]
        require(got.shape == want.shape, "{}: shape {}, want {}", name, got.shape, want.shape)
        w, g = want.astype(float), got.astype(float)
        allow = np.zeros(w.shape)
        if not tolerance.get("exact"):
            size = np.where(np.isfinite(w), np.abs(w), 0)
            allow = (tolerance.get("abs") or 0) + (tolerance.get("rel") or 0) * size
            own = angles(case, answer, want.shape) if name in ("cos", "sin") else None
            allow = allow + (tolerance.get("angle_rel") or 0) * (angle_bound(case["params"]) if own is None else own)
        with np.errstate(invalid="ignore"):
            off = np.abs(g - w)
            fine = (g == w) | (np.isnan(g) & np.isnan(w)) | (off <= allow)
        if not fine.all():
            worst = np.unravel_index(np.nanargmax(np.where(fine, -1, off)), off.shape) if off.ndim else ()
            require(False, "{}: {} of {} elements differ, worst at {}: got {!r}, want {!r}", name, int((~fine).sum()), fine.size,
                    tuple(int(i) for i in worst), float(g[worst]), float(w[worst]))


def exact(folder, case, answer):
    for name, what in case["outputs"].items():
        want, got = load(folder, what), answer[name]
        require(got.shape == want.shape, "{}: shape {}, want {}", name, got.shape, want.shape)
        differ = got.astype(np.int64) != want.astype(np.int64)
        require(not differ.any(), "{}: {} of {} elements differ", name, int(differ.sum()), differ.size)


def classes(x):
    """Each element's class, numbered by first appearance."""
    _, first, which = np.unique(x.ravel(), return_index=True, return_inverse=True)
    return first[which.ravel()]


def partition(folder, case, answer):
    for name, what in case["outputs"].items():
        want, got = load(folder, what), answer[name]
        require(got.shape == want.shape, "{}: shape {}, want {}", name, got.shape, want.shape)
        differ = classes(got) != classes(want)
        require(not differ.any(), "{}: another partition, first at element {}", name, int(differ.argmax()))


# ---- spectra ----

def svd(folder, case, answer):
    for name, what in case["outputs"].items():
        want, got = load(folder, what).astype(float), answer[name].astype(float)
        require(got.shape == want.shape, "{}: shape {}, want {}", name, got.shape, want.shape)
        nodes, width = want.shape
        k = min(width // 2, nodes)
        off = np.abs(got[:, :k] @ got[:, k:2 * k].T - want[:, :k] @ want[:, k:2 * k].T).max(initial=0)
        require(off <= 2e-5, "{}: U S V^T differs by {:.3g}", name, off)
        require(not got[:, 2 * k:].any(), "{}: padded columns are not 0", name)


def eigenvalues(folder, case, answer):
    for name, what in case["outputs"].items():
        want = load(folder, what).ravel()
        got = answer[name].astype(float).ravel()
        require(len(got) <= len(want), "{}: {} values, the graph has {}", name, len(got), len(want))
        off = np.abs(got - want[:len(got)])
        require(off.max(initial=0) <= 1e-5, "{}: off by {:.3g}", name, off.max(initial=0))


class Spectrum:
    """The asked columns beside the truth."""

    def __init__(self, folder, case, answer):
        self.case, self.params, self.tolerance = case, case["params"], case["tolerance"]
        self.true_values = load(folder, case["outputs"]["eigenvalues"]).astype(float)
        vectors = case["outputs"].get("eigenvectors")
        self.true_vectors = load(folder, vectors).astype(float) if vectors else None
        self.values, self.vectors = answer["eigenvalues"], answer["eigenvectors"]
        self.single = {a.dtype == np.float32 for a in (self.values, self.vectors)} != {False}
        self.values, self.vectors = self.values.astype(float).ravel(), self.vectors.astype(float)
        self.nodes = case["graph"]["num_nodes"]
        self.k = int(self.params.get("k", self.params.get("max_freqs", 0)))
        first = self.tolerance.get("truth_offset", 0)
        self.first = int(np.count_nonzero(self.true_values < 1e-9)) if first == "num_zero" else int(first)
        self.exist = max(0, min(self.k, self.nodes - self.first))       # columns that are no padding
        self.known = min(self.exist, len(self.true_values) - self.first)
        self.groups = np.split(np.arange(len(self.true_values)), np.flatnonzero(np.diff(self.true_values) > CLUSTER) + 1)

    def check_shapes(self):
        require(self.vectors.shape == (self.nodes, self.k), "eigenvectors: shape {}, want {}", self.vectors.shape, (self.nodes, self.k))
        require(self.values.shape == (self.k,), "eigenvalues: shape {}, want {}", self.values.shape, (self.k,))

    def check_values(self):
        want = self.true_values[self.first:self.first + self.known]
        allow = np.maximum(self.tolerance.get("eigval_abs", 1e-8), SINGLE if self.single else 0) * np.maximum(1, np.abs(want))
        off = np.abs(self.values[:self.known] - want)
        require((off <= allow).all(), "eigenvalues: {} for {}", self.values[:self.known], want)

    def check_padding(self):
        pad = float(self.params.get("pad_value", 0))
        columns = self.vectors[:, self.exist:]
        require(np.isnan(self.values[self.exist:]).all(), "eigenvalues of padding are {}, want NaN", self.values[self.exist:])
        require(np.array_equal(columns, np.full_like(columns, pad), equal_nan=True), "padded columns are not all {}", pad)

    def check_orthonormal(self):
        v = self.vectors[:, :self.known]
        lengths = np.linalg.norm(v, axis=0)
        if self.params.get("normalization", "sym") == "rw":     # right eigenvectors of a matrix that is not symmetric
            require((lengths > 1e-3).all(), "columns of lengths {}", lengths)
            return
        off = np.abs(v.T @ v - np.eye(self.known)).max(initial=0)
        require(off <= 1e-6 + (10 * SINGLE if self.single else 0), "columns are not orthonormal, by {:.3g}", off)

    def check_spaces(self):
        allow = self.tolerance.get("projector", 1e-6) + (10 * SINGLE if self.single else 0)
        for group in self.groups:
            group = group[group < self.true_vectors.shape[1]]
            columns = [j - self.first for j in group if 0 <= j - self.first < self.known]
            if not columns:
                continue
            basis, _ = np.linalg.qr(self.true_vectors[:, group])
            v = self.vectors[:, columns]
            v = v / np.linalg.norm(v, axis=0)
            outside = np.linalg.norm(v - basis @ (basis.T @ v), axis=0)
            require((outside <= allow).all(), "columns {} leave their eigenspace by {}", columns, outside)

    def check_scaled(self):
        wave = self.params["eigvec_norm"].startswith("wavelength")
        for group in self.groups:
            j = group[0] - self.first
            if len(group) > 1 or not 0 <= j < self.known:
                continue                    # the peer's basis of a repeated eigenvalue is arbitrary
            if wave and self.true_values[group[0]] < 1e-9:
                continue                    # the peer divides by the float32 root of a zero eigenvalue
            got, want = self.vectors[:, j], self.true_vectors[:, group[0]]
            off = min(np.abs(got - want).max(), np.abs(got + want).max())
            require(off <= 2e-4 * max(1, np.abs(want).max()), "column {} differs by {:.3g}, up to sign", j, off)


def eigen(folder, case, answer):
    s = Spectrum(folder, case, answer)
    s.check_shapes()
    s.check_values()
    s.check_padding()
    if s.true_vectors is not None:
        s.check_orthonormal()
        s.check_spaces()


def eigen_normalised(folder, case, answer):
    s = Spectrum(folder, case, answer)
    s.check_shapes()
    s.check_values()
    s.check_padding()
    s.check_scaled()


def magnetic(folder, case, answer):
    def columns(of):
        return of("eigenvectors_real").astype(float) + 1j * of("eigenvectors_imag").astype(float)

    nodes, k = case["graph"]["num_nodes"], int(case["params"]["k"])
    true_values = load(folder, case["outputs"]["eigenvalues"]).astype(float)
    true_vectors = columns(lambda name: load(folder, case["outputs"][name]))
    values, vectors = answer["eigenvalues"].astype(float), columns(lambda name: answer[name])
    require(vectors.shape == (nodes, k), "eigenvectors: shape {}, want {}", vectors.shape, (nodes, k))
    require(values.shape == (k,), "eigenvalues: shape {}, want {}", values.shape, (k,))
    off = np.abs(values - true_values[:k]).max(initial=0)
    require(off <= max(case["tolerance"]["abs"], SINGLE), "eigenvalues: off by {:.3g}", off)
    for group in np.split(np.arange(len(true_values)), np.flatnonzero(np.diff(true_values) > CLUSTER) + 1):
        group = group[group < true_vectors.shape[1]]
        if not (group < k).any():
            continue
        basis, _ = np.linalg.qr(true_vectors[:, group])
        v = vectors[:, group[group < k]]
        v = v / np.linalg.norm(v, axis=0)
        outside = np.linalg.norm(v - basis @ (basis.conj().T @ v), axis=0)
        require((outside <= 3e-5).all(), "columns {} leave their eigenspace by {}", group, outside)


RULES = {"allclose": allclose, "exact": exact, "eigenvalues": eigenvalues, "eigen": eigen, "eigen_normalised": eigen_normalised,
         "magnetic": magnetic, "partition": partition, "svd": svd}


def check(folder, case, answer):
    missing = sorted(set(case["outputs"]) - set(answer))
    require(not missing, "outputs {} are missing; there are {}", missing, sorted(answer))
    RULES[case.get("compare", "allclose")](folder, case, answer)
