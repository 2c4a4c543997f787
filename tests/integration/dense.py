"""Definitions in numpy, over stacks of adjacency matrices (g, n, n)."""
import numpy as np


def over(x, y):
    """x / y, 0 where y is 0."""
    x, y = np.broadcast_arrays(np.asarray(x, float), y)
    return np.divide(x, y, out=np.zeros(x.shape), where=y != 0)


def diagonal(m):
    return np.diagonal(m, axis1=1, axis2=2)


def eye(a):
    return np.eye(a.shape[-1])[None]


def transition(a):
    return over(a, a.sum(2, keepdims=True))


def laplacian(a, normalization, isolated=1.0):
    d = a.sum(2)
    if normalization == "none":
        return d[:, :, None] * eye(a) - a
    one = np.where(d > 0, 1.0, isolated)[:, :, None] * eye(a)
    if normalization == "rw":
        return one - transition(a)
    s = over(1, np.sqrt(d))
    return one - s[:, :, None] * a * s[:, None]


def hops(a):
    """Steps by growing balls; inf where there is no path."""
    link = (a > 0).astype(np.float32)
    dist = np.where(eye(a) > 0, 0, np.inf) + np.zeros(a.shape)
    here = np.broadcast_to(eye(a), a.shape).astype(np.float32)
    for t in range(1, a.shape[-1]):
        here = ((here @ link) > 0).astype(np.float32)
        new = (here > 0) & np.isinf(dist)
        if not new.any():
            break
        dist[new] = t
    return dist


def union(a):
    """on_directed=symmetrize."""
    return np.maximum(a, a.transpose(0, 2, 1))


def close(got, want, what, allow=1e-12):
    assert got.shape == want.shape, (what, got.shape, want.shape)
    off = np.abs(got - want)
    assert not np.isnan(got).any() and off.max(initial=0) <= allow, (what, off.max())


def eigenpairs(vectors, values, graphs, rows, m, skip, allow=1e-10):
    """Columns of the Hermitian matrices m against their dense spectra."""
    n, k = m.shape[1], values.shape[1]
    have = max(0, min(k, n - skip))
    v, lam = vectors[rows], values[graphs]
    assert np.isnan(lam[:, have:]).all() and not v[..., have:].any()
    if not have:
        return
    v, lam = v[..., :have], lam[:, :have]
    scale = max(1, np.abs(m).max())
    close(lam, np.linalg.eigvalsh(m)[:, skip:skip + have], "values", allow * scale)
    close(v.conj().transpose(0, 2, 1) @ v, np.broadcast_to(np.eye(have), (len(v), have, have)), "orthonormal", 1e-10)
    close(np.linalg.norm(m @ v - v * lam[:, None], axis=1), np.zeros(lam.shape), "residual", allow * scale)
