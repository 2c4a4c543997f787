#!/usr/bin/env python3
"""families.py [ROUNDS]: one row or more for each family of encodings, against the NumPy and torch code that users write today.

Alternated in one run, median of ROUNDS (5), one thread each; ratios: time of the peer by time of posenc, over 1 means posenc is
faster. Resolving checks the inputs, which no peer does; naming is what the daemon does besides, for its caches: the SHA-256 of
the inputs, which the library's posenc_request_check leaves out. posenc computes in float64 or better and rounds once; peers compute in float32, as they do in models. Rows say absent
where a peer is not installed (Debian: python3-numpy, python3-torch)."""
import base64
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[v] = "1"

import numpy as np  # noqa: E402

try:
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
except ImportError:
    torch = None

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("POSENC_BUILD", "build/release")
ROUNDS = int(sys.argv[1]) if __name__ == "__main__" and len(sys.argv) > 1 else 5
RNG = np.random.default_rng(1)


def tensor(a):
    a = np.ascontiguousarray(a)
    return {"dtype": str(a.dtype), "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


class Posenc:
    def __init__(self):
        self.p = subprocess.Popen([BUILD / "bench_requests"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.resolved = []      # seconds of the checks in each run
        self.named = []         # of the request's name: the SHA-256 of the inputs

    def seconds(self, encoding, body):
        self.p.stdin.write(f"{encoding}\t{json.dumps(body)}\n")
        self.p.stdin.flush()
        word = self.p.stdout.readline().strip()
        if not word or word.startswith("error"):
            sys.exit(f"{encoding}: {word}")
        total, resolved, named = map(float, word.split())
        self.resolved.append(resolved)
        self.named.append(named)
        return total


def spent(f):
    t = time.perf_counter()
    f()
    return time.perf_counter() - t


# ---- what users write ----

def sinusoid(xp, n, d):
    if xp is np:
        pos = np.arange(n, dtype=np.float32)[:, None]
        a = pos * np.exp(np.arange(0, d, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / d))
        out = np.zeros((n, d), np.float32)
        out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
        return out
    pos = torch.arange(n, dtype=torch.float32).unsqueeze(1)
    a = pos * torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    out = torch.zeros(n, d)
    out[:, 0::2], out[:, 1::2] = torch.sin(a), torch.cos(a)
    return out


def timestep(xp, t, d):
    if xp is np:
        a = t[:, None] * np.exp(-math.log(10000) * np.arange(d // 2, dtype=np.float32) / (d // 2))[None]
        return np.concatenate([np.cos(a), np.sin(a)], -1)
    a = torch.from_numpy(t)[:, None] * torch.exp(-math.log(10000) * torch.arange(d // 2, dtype=torch.float32) / (d // 2))[None]
    return torch.cat([torch.cos(a), torch.sin(a)], -1)


def rope(xp, n, d, theta):
    if xp is np:
        inv = (1.0 / theta ** (np.arange(0, d, 2, dtype=np.float32) / d)).astype(np.float32)
        a = np.outer(np.arange(n, dtype=np.float32), inv)
        e = np.concatenate([a, a], -1)
        return np.cos(e), np.sin(e)
    inv = 1.0 / theta ** (torch.arange(0, d, 2, dtype=torch.int64).float() / d)
    a = torch.outer(torch.arange(n).float(), inv)
    e = torch.cat([a, a], -1)
    return e.cos(), e.sin()


def rotate(xp, q, cos, sin):
    half = q.shape[-1] // 2
    if xp is np:
        return q * cos + np.concatenate([-q[..., half:], q[..., :half]], -1) * sin
    return q * cos + torch.cat([-q[..., half:], q[..., :half]], -1) * sin


def grid2d(n, d):
    ys, xs = np.meshgrid(np.arange(n, dtype=np.float64), np.arange(n, dtype=np.float64), indexing="ij")
    w = 1.0 / 10000 ** (np.arange(d // 4, dtype=np.float64) / (d / 4))
    out = [f(np.outer(c.reshape(-1), w)) for c in (xs, ys) for f in (np.sin, np.cos)]
    return np.concatenate(out, 1).astype(np.float32)


def alibi(xp, heads, n):
    slopes = np.array([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)], np.float32)
    if xp is np:
        i = np.arange(n, dtype=np.float32)
        return -slopes[:, None, None] * np.maximum(i[:, None] - i[None, :], 0)
    i = torch.arange(n, dtype=torch.float32)
    return -torch.from_numpy(slopes)[:, None, None] * (i[:, None] - i[None, :]).clamp(min=0)


def t5(xp, table, n):
    if xp is np:
        rel = np.arange(n)[None, :] - np.arange(n)[:, None]
        out = (rel > 0) * 16
        a = np.abs(rel)
        far = 8 + (np.log(np.maximum(a, 1) / 8) / math.log(128 / 8) * 8).astype(np.int64)   # 0 is near
        out = out + np.where(a < 8, a, np.minimum(far, 15))
        return table[out].transpose(2, 0, 1)
    rel = torch.arange(n)[None, :] - torch.arange(n)[:, None]
    out = (rel > 0).long() * 16
    a = rel.abs()
    far = (8 + (torch.log(a.float() / 8) / math.log(128 / 8) * 8).long()).clamp(max=15)
    return torch.from_numpy(table)[out + torch.where(a < 8, a, far)].permute(2, 0, 1)


def resize(table, side, new):
    t = torch.from_numpy(table)[1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    t = F.interpolate(t, size=(new, new), mode="bicubic", align_corners=False, antialias=True)
    return torch.cat([torch.from_numpy(table)[:1], t.permute(0, 2, 3, 1).reshape(new * new, -1)])


def fourier(xp, x, b):
    if xp is np:
        a = np.float32(2 * np.pi) * x @ b.T
        return np.concatenate([np.cos(a), np.sin(a)], -1)
    a = 2 * math.pi * torch.from_numpy(x) @ torch.from_numpy(b).T
    return torch.cat([torch.cos(a), torch.sin(a)], -1)


def kerple(xp, heads, n):
    p, a = np.full(heads, 1.5, np.float32), np.full(heads, 0.5, np.float32)
    i = np.arange(n, dtype=np.float32)
    d = np.maximum(i[:, None] - i[None, :], 0)
    if xp is np:
        return -p[:, None, None] * np.log(1 + a[:, None, None] * d)
    return -torch.from_numpy(p)[:, None, None] * torch.log(1 + torch.from_numpy(a)[:, None, None] * torch.from_numpy(d))


def swin(w):
    c = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij")).reshape(2, -1)
    r = (c[:, :, None] - c[:, None, :]).transpose(1, 2, 0) + (w - 1)
    return r[..., 0] * (2 * w - 1) + r[..., 1]


def molecules():
    """The batch of tests/data/mol_hiv_1k.npz as a request, and the same as dense Laplacians made and decomposed one by one."""
    d = np.load(Path(__file__).resolve().parents[1] / "data/mol_hiv_1k.npz")
    e, ptr = d["edge_index"], d["ptr"]
    owner = np.searchsorted(ptr, e[0], side="right") - 1
    each = [(int(ptr[g + 1] - ptr[g]), e[:, owner == g] - ptr[g]) for g in range(len(ptr) - 1)]
    graph = {"num_nodes": int(ptr[-1]), "edge_index": e.tolist(), "ptr": ptr.tolist()}

    def vectors():
        for n, (u, v) in each:
            a = np.zeros((n, n))
            a[u, v] = a[v, u] = 1
            r = 1 / np.sqrt(np.maximum(a.sum(1), 1))
            np.linalg.eigh(np.eye(n) - r[:, None] * a * r)

    def walks():
        for n, (u, v) in each:
            a = np.zeros((n, n))
            a[u, v] = a[v, u] = 1
            p, q = a / np.maximum(a.sum(1, keepdims=True), 1), np.eye(n)
            for _ in range(20):
                q = q @ p
                q.diagonal().copy()
    return graph, vectors, walks


def rows():
    """family, what, encoding, body, NumPy's function or None, torch's function or None"""
    t = RNG.uniform(0, 1000, 4096).astype(np.float32)
    q, k = (RNG.standard_normal((8, 1024, 128), dtype=np.float32) for _ in range(2))
    bias, table = RNG.standard_normal((32, 16), dtype=np.float32), RNG.standard_normal((197, 768), dtype=np.float32)
    old = RNG.standard_normal((512, 768), dtype=np.float32)
    x, b = RNG.uniform(0, 1, (4096, 2)).astype(np.float32), RNG.standard_normal((128, 2), dtype=np.float32)
    emb, enc = RNG.standard_normal((8, 512, 768), dtype=np.float32), RNG.standard_normal((512, 768), dtype=np.float32)
    far = RNG.integers(0, 10**6, 2048)
    ids = RNG.integers(0, 3, (64, 512))
    cos, sin = rope(np, 1024, 128, 10000.0)
    yield "absolute", "sinusoidal 2048 x 1024", "sinusoidal", {"embedding_dim": 1024, "num_positions": 2048}, lambda: sinusoid(np, 2048, 1024), lambda: sinusoid(torch, 2048, 1024)
    yield "absolute", "sinusoidal, 2,048 places to 10^6, 128 wide", "sinusoidal", {"embedding_dim": 128, "positions": far.tolist()}, lambda: sinusoid_at(np, far, 128), lambda: sinusoid_at(torch, far, 128)
    yield "absolute", "timestep 4096 x 256", "timestep", {"timesteps": t.tolist(), "embedding_dim": 256, "flip_sin_to_cos": True, "downscale_freq_shift": 0}, lambda: timestep(np, t, 256), lambda: timestep(torch, t, 256)
    yield "absolute", "learned_extend 512 to 1024 x 768, linear", "learned_extend", {"table": tensor(old), "new_length": 1024, "method": "linear"}, None, lambda: F.interpolate(torch.from_numpy(old).T[None], size=1024, mode="linear")
    yield "absolute", "random_fourier 4096 x 256", "random_fourier", {"coords": tensor(x), "matrix": tensor(b.T)}, lambda: fourier(np, x, b), lambda: fourier(torch, x, b)
    yield "absolute", "position_ids 64 x 512", "position_ids", {"input_ids": tensor(ids), "padding_idx": 1, "variant": "roberta"}, lambda: np.cumsum(ids != 1, 1) * (ids != 1) + 1, lambda: torch.cumsum(torch.from_numpy(ids) != 1, 1) * (torch.from_numpy(ids) != 1) + 1
    yield "grid", "sinusoidal_2d 64 x 64 x 768, MAE", "sinusoidal_2d", {"embed_dim": 768, "height": 64, "width": 64, "preset": "mae"}, lambda: grid2d(64, 768), None
    yield "grid", "vit_resize 14 x 14 to 24 x 24, 768 wide, bicubic antialias", "vit_resize", {"posemb": tensor(table), "new_size": [24, 24], "interpolation": "bicubic", "antialias": True}, None, lambda: resize(table, 14, 24)
    yield "rotary", "rope 8192 x 128, theta 500000", "rope", {"head_dim": 128, "rope_theta": 500000.0, "num_positions": 8192}, lambda: rope(np, 8192, 128, 500000.0), lambda: rope(torch, 8192, 128, 500000.0)
    yield "rotary", "rope_apply q, k 8 x 1024 x 128", "rope_apply", {"q": tensor(q), "k": tensor(k), "head_dim": 128, "num_positions": 1024}, lambda: (rotate(np, q, cos, sin), rotate(np, k, cos, sin)), lambda: [rotate(torch, torch.from_numpy(v), torch.from_numpy(cos), torch.from_numpy(sin)) for v in (q, k)]
    yield "relative", "alibi 16 x 1024 x 1024", "alibi", {"num_heads": 16, "query_length": 1024, "key_length": 1024, "form": "causal_relative"}, lambda: alibi(np, 16, 1024), lambda: alibi(torch, 16, 1024)
    yield "relative", "t5_bias 16 x 1024 x 1024", "t5_bias", {"table": tensor(bias), "query_length": 1024, "key_length": 1024, "num_buckets": 32, "max_distance": 128, "bidirectional": True}, lambda: t5(np, bias, 1024), lambda: t5(torch, bias, 1024)
    yield "relative", "kerple log 16 x 1024 x 1024", "kerple", {"variant": "log", "p": [1.5] * 16, "a": [0.5] * 16, "query_length": 1024, "key_length": 1024}, lambda: kerple(np, 16, 1024), lambda: kerple(torch, 16, 1024)
    yield "relative", "swin_relative_position_index 16 x 16", "swin_relative_position_index", {"window_size": [16, 16]}, lambda: swin(16), None
    graph, vectors, walks = molecules()
    yield "graph", "laplacian k=8, 1,000 molecules", "laplacian", {"k": 8, "graph": graph}, vectors, None
    yield "graph", "random_walk 20 steps, 1,000 molecules", "random_walk", {"walk_length": 20, "graph": graph}, walks, None
    yield "use", "combine add, match_rms, 8 x 512 x 768", "combine", {"embedding": tensor(emb), "encoding": tensor(enc), "match_rms": True}, lambda: emb + enc * (np.sqrt((emb * emb).mean()) / np.sqrt((enc * enc).mean())), lambda: torch.from_numpy(emb) + torch.from_numpy(enc) * (torch.from_numpy(emb).pow(2).mean().sqrt() / torch.from_numpy(enc).pow(2).mean().sqrt())


def sinusoid_at(xp, p, d):
    if xp is np:
        a = p.astype(np.float32)[:, None] * np.exp(np.arange(0, d, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / d))
        out = np.zeros((len(p), d), np.float32)
        out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
        return out
    a = torch.from_numpy(p).float()[:, None] * torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    out = torch.zeros(len(p), d)
    out[:, 0::2], out[:, 1::2] = torch.sin(a), torch.cos(a)
    return out


def main():
    engine = Posenc()
    print("| family | what | posenc ms | of it checks | naming, beside it | numpy / posenc | torch / posenc |\n| --- | --- | --- | --- | --- | --- | --- |")
    for family, what, encoding, body, by_numpy, by_torch in rows():
        runs = {"posenc": lambda: engine.seconds(encoding, body)}
        if by_numpy:
            runs["numpy"] = lambda: spent(by_numpy)
        if by_torch and torch:
            runs["torch"] = lambda: spent(by_torch)
        times = {name: [] for name in runs}
        engine.resolved.clear()
        engine.named.clear()
        for i in range(ROUNDS + 1):
            for name, run in runs.items():
                s = run()
                if i:       # the first round warms up
                    times[name].append(s)
        m = {name: statistics.median(t) for name, t in times.items()}
        ratio = lambda name, there: f"{m[name] / m['posenc']:.2f}" if name in m else "absent" if there else "-"     # noqa: E731
        print(f"| {family} | {what} | {m['posenc'] * 1e3:.3f} | {statistics.median(engine.resolved[1:]) * 1e3:.3f} | {statistics.median(engine.named[1:]) * 1e3:.3f} | {ratio('numpy', by_numpy)} | {ratio('torch', by_torch)} |", flush=True)


if __name__ == "__main__":
    main()
