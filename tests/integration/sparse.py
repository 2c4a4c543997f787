"""Definitions in scipy, for graphs too large for dense.py; none of it is posenc's."""
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu


def sparse_laplacian(batch, normalization="sym", q=None):
    other = batch.edges[0] != batch.edges[1]
    e, w = batch.edges[:, other], np.ones(other.sum()) if batch.weight is None else batch.weight[other]
    a = sp.coo_matrix((w, e), (batch.n, batch.n)).tocsr()
    if q is not None:
        s, turn = (a + a.T) / 2, (a - a.T).tocsr()
        c = s.tocoo().astype(complex)
        c.data = c.data * np.exp(2j * np.pi * q * np.asarray(turn[c.row, c.col]).ravel())
        h, d = c.tocsr(), np.asarray(s.sum(1)).ravel()
    else:
        h = a.maximum(a.T)
        d = np.asarray(h.sum(1)).ravel()
    if normalization == "none":
        return sp.diags(d) - h
    r = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1e-300)), 0)
    return sp.eye(batch.n) - sp.diags(r) @ h @ sp.diags(r)


def sparse_check(v, lam, batch, **kw):
    """Largest residual and departure from orthonormality."""
    m = sparse_laplacian(batch, **kw)
    return np.linalg.norm(m @ v - v * lam, axis=0).max(), np.abs(v.conj().T @ v - np.eye(v.shape[1])).max()


def below(m, x):
    """Eigenvalues below x, by Sylvester's law: the signs of the pivots of m - x I."""
    n = m.shape[0]
    lu = splu((m - x * sp.eye(n)).tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0, options={"SymmetricMode": True})
    assert (lu.perm_r == lu.perm_c).all()
    return int(np.count_nonzero(lu.U.diagonal() < 0))
