"""One row or more for each family of encodings, against the NumPy and torch code that users write today. No goals: what stands
in performance.md has rows of its own in the other modules.

posenc computes in float64 or better and rounds once; peers compute in float32, as they do in models. Ours includes checks and
the SHA-256 of the inputs, which no peer does."""
import base64
import math

import numpy as np

import measure

try:
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
except ImportError:
    torch = None

def tensor(a):
    a = np.ascontiguousarray(a)
    return {"dtype": str(a.dtype), "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


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


def cases():
    """family, what, encoding, body, NumPy's function or None, torch's function or None. The same in every process."""
    rng = np.random.default_rng(1)
    t = rng.uniform(0, 1000, 4096).astype(np.float32)
    q, k = (rng.standard_normal((8, 1024, 128), dtype=np.float32) for _ in range(2))
    bias, table = rng.standard_normal((32, 16), dtype=np.float32), rng.standard_normal((197, 768), dtype=np.float32)
    old = rng.standard_normal((512, 768), dtype=np.float32)
    x, b = rng.uniform(0, 1, (4096, 2)).astype(np.float32), rng.standard_normal((128, 2), dtype=np.float32)
    emb, enc = rng.standard_normal((8, 512, 768), dtype=np.float32), rng.standard_normal((512, 768), dtype=np.float32)
    far = rng.integers(0, 10**6, 2048)
    ids = rng.integers(0, 3, (64, 512))
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


def peer(what, library):
    """What measure.py times: one case by NumPy or torch."""
    if library == "torch" and not torch:
        raise ModuleNotFoundError("torch", name="torch")
    return next(c[4 if library == "numpy" else 5] for c in cases() if c[1] == what)


def rows():
    for family, what, encoding, body, by_numpy, by_torch in cases():
        if not measure.wanted(f"{family}: {what}", "numpy, as users write it", "torch, as users write it"):
            continue
        ours = measure.Ours(encoding, body)
        for library, there in (("numpy", by_numpy), ("torch", by_torch)):
            if there:
                yield from measure.compare(f"{family}: {what}", ours, f"{library}, as users write it",
                                           measure.Peer("families", "peer", what, library))
