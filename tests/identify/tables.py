"""Tables to identify, and what the library says of them (by ctypes, without a server).

    identify(table)                 the answer: {"answer", "matches", ...}
    encode(encoding, params)        {output: array} of a request
    golden()                        (name, table, encoding, params, output) of the public golden files
    draw(rng)                       the same of a request drawn from the descriptors, with what was done to the table
    nothing(rng)                    (kind, table) that no encoding gives
    right(...)                      whether an answer is the right one
"""
import ctypes
import json
import os
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
BUILD = ROOT / os.environ.get("POSENC_BUILD", "build/release")
GOLDEN = ROOT / "tests/golden/sequence"
DTYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int32": 4, "int64": 5}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("shape", ctypes.c_int64 * 8),
                ("data", ctypes.c_void_p)]


class Refused(Exception):
    pass


lib = ctypes.CDLL(str(BUILD / "libposenc.so.0"))
lib.posenc_arena_new.restype = lib.posenc_identification_json.restype = ctypes.c_void_p
lib.posenc_arena_new.argtypes = [ctypes.c_size_t]
lib.posenc_identify.argtypes = [ctypes.POINTER(Tensor), ctypes.c_double] + 4 * [ctypes.c_void_p]
lib.posenc_error_text.restype = ctypes.c_char_p
free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]


def failure(err):
    text = ctypes.create_string_buffer(4000)
    lib.posenc_error_text(err, text, 4000)
    return Refused(text.value.decode())


def tensor_of(table):
    table = np.ascontiguousarray(table)
    t = Tensor(b"table", DTYPES[str(table.dtype)], table.ndim, (ctypes.c_int64 * 8)(*table.shape), table.ctypes.data)
    return t, table


TENSORS = {"input_ids", "attention_mask", "positions_xy", "crops_coords"}


def words(value, key=None):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, np.ndarray)):
        value = np.asarray(value).tolist()
        return json.dumps(value, separators=(",", ":")) if value and (isinstance(value[0], list) or key in TENSORS) else ",".join(repr(v) for v in value)
    return str(value)


def query(params):
    return "&".join(f"{k}={words(v, k)}" for k, v in params.items() if v is not None)


def encode(encoding, params):
    answer, err = ctypes.create_string_buffer(16384), ctypes.create_string_buffer(4096)
    if lib.posenc_encode(encoding.encode(), query(params).encode(), None, answer, None, err):
        raise failure(err)
    try:
        out = {}
        for i in range(ctypes.c_int.from_buffer(answer).value):
            t = Tensor.from_buffer(answer, 8 + i * ctypes.sizeof(Tensor))
            dtype = {0: "<f4", 1: "<f8", 2: "<f2", 3: "<u2", 4: "<i4", 5: "<i8", 6: "u1", 7: "<i2"}[t.dtype]
            shape = tuple(t.shape[:t.rank])
            n = int(np.prod(shape)) * np.dtype(dtype).itemsize
            a = np.frombuffer(ctypes.string_at(t.data, n), dtype).reshape(shape)
            out[t.name.decode()] = (a.astype("<u4") << 16).view("<f4") if t.dtype == 3 else a.copy()
        return out
    finally:
        lib.posenc_answer_fini(answer)


def identify(table, tolerance=0.0):
    t, keep = tensor_of(table)
    out, err = ctypes.create_string_buffer(256), ctypes.create_string_buffer(4096)
    arena = lib.posenc_arena_new(1 << 30)
    try:
        if lib.posenc_identify(t, tolerance, arena, ctypes.addressof(out), None, ctypes.addressof(err)):
            raise failure(err)
        text = lib.posenc_identification_json(out)
        answer = json.loads(ctypes.string_at(text))
        free(text)
        return answer
    finally:
        lib.posenc_arena_free(ctypes.c_void_p(arena))


# ---- what is right ----

def as_given(a, shape):
    """A computed output in the shape of a table that may be its transpose or have axes of one merged."""
    if a.shape == shape:
        return a
    a = a.reshape(-1, a.shape[-1]) if a.ndim else a.reshape(1, 1)
    rows = (int(np.prod(shape[:-1])), shape[-1])
    if a.shape == rows:
        return a.reshape(shape)
    if a.T.shape == rows:
        return a.T.reshape(shape)
    b = a.reshape(shape[0], -1) if a.size == np.prod(shape) and len(shape) > 2 else a
    return b.reshape(shape) if b.size == np.prod(shape) else b.T


def right(answer, table, encoding, params, output, undo=lambda a: a):
    """The first match is right when its table and the true one, both computed in float64, differ by no more than the table
    that was given differs from the true one (its noise and rounding), or by four roundings of its dtype (float64: 1e-12, for
    a base that nobody types is fitted). So two requests that give one table are one answer."""
    if not answer["matches"]:
        return False, "none"
    m = answer["matches"][0]
    exact = {k: v for k, v in params.items() if k != "dtype"}
    truth = undo(encode(encoding, {**exact, "dtype": "float64"})[output]).astype(float)
    got = encode(m["encoding"], {**m["params"], "dtype": "float64"})[m["output"]].astype(float)
    table = table.astype(float)
    got = as_given(got.T if m["transposed"] and got.ndim == 2 else got, table.shape)
    grain = {"float32": 2.0**-23, "float64": 2.0**-42, "float16": 2.0**-10, "bfloat16": 2.0**-7}[answer["dtype"]]
    allow = max(np.abs(table - truth).max(), 4 * grain * np.abs(truth).max())
    off = np.abs(got - truth).max()
    return bool(off <= allow), f"{m['encoding']} {query(m['params'])[:150]} off {off:.3g}, allowed {allow:.3g}"


# ---- golden files ----

TABLES = {"sinusoidal": ("table", "embedding"), "timestep": ("embedding",), "continuous_sinusoidal": ("embedding",),
          "rope": ("cos", "sin", "inv_freq"), "sinusoidal_2d": ("table",), "sinusoidal_3d": ("table",), "rope_2d": ("cos", "sin"),
          "relative_sinusoidal": ("table",), "alibi": ("bias",), "alibi_slopes": ("slopes",), "fourier_grid": ("sin", "cos"),
          "t5_bucket": ("bucket",), "deberta_relative": ("index",), "swin_relative_position_index": ("index",),
          "beit_relative_position_index": ("index",), "timm_relative_position_index": ("index",),
          "swinv2_relative_coords_table": ("table",), "timm_relative_log_coords": ("table",), "sandwich": ("bias",)}


def golden():
    """Tables with at least 8 rows (of one axis: 8 numbers) that follow from parameters alone. Not counted, for nothing in them
    says it: buckets of distances that are themselves an input, and frequencies that are all zero."""
    for case in json.loads((GOLDEN / "manifest.json").read_text()):
        if case["encoding"] not in TABLES or case["inputs"]:
            continue
        for output in TABLES[case["encoding"]]:
            what = case["outputs"].get(output)
            if not what:
                continue
            table = np.load(GOLDEN / what["file"])
            rows = table.size // table.shape[-1] if table.ndim > 1 else table.size
            if rows >= 8 and "relative_position" not in case["params"] and table.any():
                yield f"{case['id']}.{output}", table, case["encoding"], {k: v for k, v in case["params"].items() if v is not None}, output


# ---- drawn requests ----

def number(rng, low, high, digits):
    """Log-uniform, with so many significant digits."""
    v = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(f"{v:.{digits - 1}e}")


def base_of(rng):
    """A base that models have, a short one, or any."""
    kind = rng.integers(4)
    return float([10000, 500000, 1000000, 100][rng.integers(4)]) if kind < 2 else number(rng, 20, 5e6, 2 if kind == 2 else 6)


def offset_of(rng):
    return int(rng.choice([0, 0, 1, 2, int(rng.integers(3, 600)), int(rng.integers(600, 20000)), -int(rng.integers(1, 600))]))


def draw_sinusoidal(rng):
    d = int(rng.choice([8, 16, 32, 48, 64, 96, 128, 7, 21, 65]))
    p = {"embedding_dim": d, "num_positions": int(rng.integers(8, 400)), "layout": str(rng.choice(["interleaved", "split"])),
         "flip_sin_to_cos": bool(rng.integers(2)), "downscale_freq_shift": float(rng.choice([0, 0, 1, 1, 0.5])), "max_period": base_of(rng)}
    if d % 2:
        p["odd_dim"] = str(rng.choice(["zero_pad", "sin_extra", "round_up_truncate"]))
    if rng.random() < 0.3:
        p["scale"] = number(rng, 0.01, 2.5, 3)
    if rng.random() < 0.3:
        p["scale_output"] = number(rng, 0.01, 20, 3)
    if rng.random() < 0.7:
        p["offset"] = offset_of(rng)
    elif rng.random() < 0.5:
        p["padding_idx"] = int(rng.integers(0, 4))
    if rng.random() < 0.25:
        p["compute_dtype"], p["freq_form"] = "float32", str(rng.choice(["exp", "pow"]))
    return "sinusoidal", p, "table"


def draw_timestep(rng):
    n, kind = int(rng.integers(8, 60)), rng.integers(3)
    if kind == 0:
        steps = np.sort(rng.choice(1000, n, replace=False))[::-1]
    elif kind == 1:
        steps = np.arange(n) * int(rng.integers(1, 40)) + int(rng.integers(0, 5))
    else:
        steps = np.round(rng.uniform(0, 1000, n), 2)
    return "timestep", {"timesteps": steps.astype(float).tolist(), "embedding_dim": int(rng.choice([16, 32, 64, 128, 256])),
                        "flip_sin_to_cos": bool(rng.integers(2)), "downscale_freq_shift": float(rng.integers(2)),
                        "max_period": float(rng.choice([10000, 10000, 1000, 2500]))}, "embedding"


def scaling(rng, dim):
    kind = str(rng.choice(["default", "default", "linear", "dynamic", "yarn", "yarn", "llama3", "llama3", "longrope", "proportional", "ntk", "ntk_alpha"]))
    factor, original = float(rng.choice([2, 4, 8, 16, 32, 2.5])), int(rng.choice([2048, 4096, 8192, 32768]))
    p = {"rope_type": kind}
    if kind == "linear":
        p["factor"] = factor
    elif kind == "ntk":
        p["factor"] = factor
    elif kind == "ntk_alpha":
        p["alpha"] = float(rng.integers(2, 1000))
    elif kind == "dynamic":
        p.update(factor=factor, max_position_embeddings=original, seq_len=int(original * rng.integers(1, 9)))
    elif kind == "yarn":
        p.update(factor=factor, original_max_position_embeddings=original)
        if rng.random() < 0.3:
            p["truncate"] = False
        if rng.random() < 0.3:
            p.update(beta_fast=float(rng.integers(16, 64)), beta_slow=float(rng.integers(1, 3)))
        if rng.random() < 0.3:
            p["attention_factor"] = number(rng, 0.7, 1.6, 3)
    elif kind == "llama3":
        p.update(factor=factor, original_max_position_embeddings=original)
        if rng.random() < 0.3:
            p.update(low_freq_factor=1.0, high_freq_factor=float(rng.integers(2, 9)))
    elif kind == "longrope":
        f = np.round(1 + np.cumsum(rng.uniform(0, 0.8, dim // 2)), 2).tolist()
        p.update(short_factor=f, long_factor=f, factor=1.0, original_max_position_embeddings=original)
    elif kind == "proportional":
        p["partial_rotary_factor"] = float(rng.choice([0.25, 0.5, 0.75]))
    return p


def draw_rope(rng):
    dim, output = int(rng.choice([32, 64, 80, 96, 128])), str(rng.choice(["cos", "sin", "cos", "sin", "inv_freq"]))
    p = {"head_dim": dim, "rope_theta": base_of(rng), **scaling(rng, dim)}
    if p["rope_type"] == "longrope" and output == "inv_freq":       # any list is that of some divisors
        output = "cos"
    if output != "inv_freq":
        p.update(num_positions=int(rng.integers(16, 600)), layout=str(rng.choice(["half", "interleaved", "half_unduplicated"])))
        if rng.random() < 0.5:
            p["offset"] = abs(offset_of(rng))
    return "rope", p, output


def draw_grid(rng):
    h, w = (int(v) for v in rng.integers(3, 17, 2))
    if rng.random() < 0.4:
        return "rope_2d", {"head_dim": int(rng.choice([16, 32, 64])), "height": max(h, 4), "width": max(w, 4), "layout": str(rng.choice(["half", "interleaved"])),
                           "axis_order": str(rng.choice(["h_first", "w_first"])), "rope_theta": float(rng.choice([100, 10000, 1000]))}, str(rng.choice(["cos", "sin"]))
    if rng.random() < 0.15:
        return "sinusoidal_3d", {"sizes": [int(v) for v in rng.integers(3, 7, 3)], "embed_dim": int(rng.choice([24, 36, 48])),
                                 "layout": str(rng.choice(["split", "interleaved"])), "temperature": base_of(rng)}, "table"
    p = {"height": h, "width": w, "embed_dim": int(rng.choice([16, 32, 64, 96])), "layout": str(rng.choice(["split", "interleaved", "blocks"])),
         "flip_sin_to_cos": bool(rng.integers(2)), "axis_order": str(rng.choice(["h_first", "w_first"])), "temperature": base_of(rng)}
    if rng.random() < 0.3:
        p["cls_token"] = True
    if rng.random() < 0.3:
        p.update(base_size=int(rng.integers(4, 33)), interpolation_scale=float(rng.choice([1, 2, 0.5])))
    return "sinusoidal_2d", p, "table"


def draw_bias(rng):
    heads, kind = int(rng.integers(8, 65)), rng.integers(4)
    most = {} if rng.random() < 0.7 else {"alibi_bias_max": float(rng.integers(4, 17))}
    if kind == 0:
        return "alibi_slopes", {"num_heads": heads, **most}, "slopes"
    form = str(rng.choice(["key_position", "mpt", "causal_relative", "symmetric"]))
    return "alibi", {"num_heads": heads, "form": form, "key_length": int(rng.integers(8, 64)), **most}, "bias"


def draw_relative(rng):
    d, kind = 2 * int(rng.integers(4, 40)), str(rng.choice(["causal", "symmetric", "bi"]))
    p = {"embedding_dim": d, "attn_type": kind, "layout": str(rng.choice(["split", "interleaved"])), "max_period": base_of(rng)}
    p.update({"length": int(rng.integers(8, 90))} if kind == "symmetric" else {"key_length": int(rng.integers(8, 90))})
    if kind == "bi":
        p["query_length"] = int(rng.integers(4, p["key_length"]))
    return "relative_sinusoidal", p, "table"


DRAWS = [(draw_sinusoidal, 0.38), (draw_timestep, 0.1), (draw_rope, 0.28), (draw_grid, 0.12), (draw_bias, 0.07), (draw_relative, 0.05)]


def bfloat16(a):
    bits = np.asarray(a, "<f4").view("<u4").astype(np.uint64)
    return (((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) << 16).astype("<u4").view("<f4")


def draw(rng):
    """(words, table, encoding, params, output, undo): noise is normal or uniform, up to 1e-3 of the largest magnitude."""
    make = DRAWS[rng.choice(len(DRAWS), p=[w for _, w in DRAWS])][0]
    encoding, params, output = make(rng)
    table = encode(encoding, {**params, "dtype": "float64"})[output]
    dtype, noise, turned = str(rng.choice(["float32", "float32", "float32", "float64", "float16", "bfloat16"])), 0.0, False
    if rng.random() < 0.35:
        noise = float(rng.choice([1e-3, 1e-4, 1e-5]))
        size = noise * np.abs(table).max()
        table = table + (rng.uniform(-size, size, table.shape) if rng.random() < 0.5 else rng.normal(0, size / 3, table.shape))
    table = bfloat16(table) if dtype == "bfloat16" else table.astype(dtype)
    if table.ndim == 2 and rng.random() < 0.25:
        table, turned = table.T, True
    return (f"{encoding}.{output} {query(params)[:230]} dtype={dtype} noise={noise:g}{' transposed' if turned else ''}", table, encoding,
            params, output, (lambda a: a.T) if turned else (lambda a: a))


# ---- tables that are nothing ----

def nothing(rng):
    """Random and smooth tables; none of them is an encoding."""
    r, c = int(rng.integers(8, 300)), int(rng.choice([1, 2, 4, 8, 16, 32, 64, 128]))
    kinds = ["normal", "uniform", "walk", "sums", "sorted", "constant", "ramp", "learned", "decay", "polynomial", "vector", "steps", "integers", "one wave", "dct", "cosines"]
    kind = kinds[rng.integers(len(kinds))]
    t = np.arange(r)[:, None] / r
    if kind == "normal":
        a = rng.normal(0, rng.choice([0.02, 1.0]), (r, c))
    elif kind == "uniform":
        a = rng.uniform(-1, 1, (r, c))
    elif kind == "walk":
        a = np.cumsum(rng.normal(0, 0.1, (r, c)), 0)
    elif kind == "sums":        # three slow waves a column, no ladder
        a = sum(rng.normal(0, 1, c) * np.sin(2 * np.pi * (rng.uniform(0.2, 6, c) * t + rng.random(c))) for _ in range(3))
    elif kind == "sorted":
        a = np.sort(rng.normal(0, 1, (r, c)), 0)
    elif kind == "constant":
        a = np.broadcast_to(rng.normal(0, 1, c if rng.random() < 0.5 else 1), (r, c)).copy()
    elif kind == "ramp":
        a = rng.normal(0, 1, c) * t + rng.normal(0, 1, c)
    elif kind == "learned":     # neighbours alike, some directions strong
        a = np.cumsum(rng.normal(0, 0.02, (r, c)), 0) @ rng.normal(0, 1, (c, c)) / np.sqrt(c) + rng.normal(0, 0.02, (r, c))
    elif kind == "decay":
        a = np.exp(-t * rng.uniform(0.5, 8, c)) * rng.normal(0, 1, c)
    elif kind == "polynomial":
        a = rng.normal(0, 1, c) * t**2 + rng.normal(0, 1, c) * t**3
    elif kind == "vector":      # one axis
        a = rng.choice([np.sort(rng.random(r))[::-1], rng.normal(0, 1, r), np.linspace(1, 0, r), 1 / np.arange(1, r + 1), np.cumsum(rng.normal(0, 1, r))], axis=0)
    elif kind == "steps":
        a = (rng.random((r, c)) < 0.5).astype(float)
    elif kind == "integers":
        a = rng.integers(-100, 100, (r, c)).astype(float)
    elif kind == "dct":         # orthonormal: every row a cosine, at half steps
        a = np.sqrt(2 / r) * np.cos(np.pi * (np.arange(r) + 0.5) * np.arange(r)[:, None] / r)
        a[0] /= np.sqrt(2)
        a = a if rng.random() < 0.5 else a.T
    elif kind == "cosines":     # of position 0, 1 ... at any frequencies, which may stand twice
        w = rng.uniform(0, 3, c) if rng.random() < 0.5 else np.sort(rng.uniform(0, rng.uniform(0.5, 3), c))[::-1]
        a = (np.cos if rng.random() < 0.5 else np.sin)(np.arange(r)[:, None] * w)
        a = a if rng.random() < 0.5 else np.concatenate([a, a], 1)
    else:                       # pure waves whose frequencies are no ladder, of their own phases and sizes
        a = rng.uniform(0.5, 2, c) * np.sin(rng.uniform(0.05, 3, c) * np.arange(r)[:, None] + rng.uniform(0, 6, c))
    return kind, a.astype(rng.choice(["float32", "float64"]))


def compare(table, encoding, params, output=None):
    t, keep = tensor_of(table)
    r, out, err = (ctypes.create_string_buffer(n) for n in (16384, 512, 4096))
    arena = ctypes.c_void_p(lib.posenc_arena_new(1 << 30))
    try:
        if (lib.posenc_request_init(r, encoding.encode(), arena, err) or lib.posenc_request_parse(r, query(params).encode(), err)
                or lib.posenc_resolve(r, err)
                or lib.posenc_compare(ctypes.byref(t), r, output.encode() if output else None, arena, out, None, err)):
            raise failure(err)
        text = lib.posenc_comparison_json(out)
        answer = json.loads(ctypes.string_at(text))
        free(text)
        return answer
    finally:
        lib.posenc_arena_free(arena)


# ---- mistakes ----

def interleave(a):
    return np.stack([a[:, :a.shape[1] // 2], a[:, a.shape[1] // 2:]], 2).reshape(a.shape)


def mistakes(rng):
    """(names that are right, table, encoding, params, output): a right table with one mistake."""
    d, n = 2 * int(rng.integers(6, 40)), int(rng.integers(16, 200))
    sine = {"embedding_dim": d, "num_positions": n, "layout": str(rng.choice(["split", "interleaved"]))}
    head = {"head_dim": d, "num_positions": n, "layout": str(rng.choice(["half", "interleaved"]))}
    yarn = {**head, "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    full = lambda e, p, o: encode(e, {**p, "dtype": "float64"})[o]
    s, c, split = full("sinusoidal", sine, "table"), full("rope", head, "cos"), {**sine, "layout": "split"}
    woven, half = {**sine, "layout": "interleaved"}, {**head, "layout": "half"}
    a, w = full("sinusoidal", split, "table"), full("sinusoidal", woven, "table")
    y = full("rope", yarn, "cos")
    af = float(full("rope", yarn, "attention_factor")[0])
    odd = np.arange(d) % 2 == 1
    p32 = np.arange(n, dtype="f4")
    inv = full("rope", half, "inv_freq")
    halfp = p32.astype("f2")[:, None] * inv.astype("f2")
    far = {**sine, "offset": 100000}
    return [
        ({"halves_swapped", "sin_cos_exchanged", "layout"}, np.roll(a, d // 2, 1), "sinusoidal", split, "table"),
        ({"sin_cos_exchanged"}, w.reshape(n, -1, 2)[:, :, ::-1].reshape(n, d), "sinusoidal", woven, "table"),
        ({"layout", "interleaved_for_split"}, w, "sinusoidal", split, "table"),
        ({"layout", "split_for_interleaved"}, a, "sinusoidal", woven, "table"),
        ({"layout", "interleaved_for_split"}, full("rope", {**head, "layout": "interleaved"}, "cos"), "rope", half, "cos"),
        ({"exponent"}, full("sinusoidal", {**sine, "downscale_freq_shift": 1}, "table"), "sinusoidal", sine, "table"),
        ({"exponent"}, s, "sinusoidal", {**sine, "downscale_freq_shift": 1}, "table"),
        ({"scale_left_out"}, s, "sinusoidal", {**sine, "scale": 0.25}, "table"),
        ({"scale_left_out", "scaled"}, s, "sinusoidal", {**sine, "scale_output": 0.125}, "table"),
        ({"scale_twice", "scaled"}, s / 64, "sinusoidal", {**sine, "scale_output": 0.125}, "table"),
        ({"off_by_one"}, full("sinusoidal", {**sine, "offset": 1}, "table"), "sinusoidal", sine, "table"),
        ({"off_by_one"}, full("rope", {**head, "offset": 2}, "sin"), "rope", head, "sin"),
        ({"off_by_one"}, full("timestep", {"timesteps": [1, 5, 9, 200, 400, 600, 800, 900], "embedding_dim": d}, "embedding"), "timestep",
         {"timesteps": [0, 4, 8, 199, 399, 599, 799, 899], "embedding_dim": d}, "embedding"),
        ({"rounded"}, s.astype("f2"), "sinusoidal", sine, "table"),
        ({"rounded"}, bfloat16(s), "sinusoidal", sine, "table"),
        ({"rounded"}, c.astype("f2").astype("f4"), "rope", head, "cos"),
        ({"attention_factor_left_out", "scaled"}, y / af, "rope", yarn, "cos"),
        ({"attention_factor_twice", "scaled"}, y * af, "rope", yarn, "cos"),
        ({"rope_scaling_left_out", "rope_type"}, c, "rope", {**head, "rope_type": "linear", "factor": 4}, "cos"),
        ({"base"}, full("rope", {**head, "rope_theta": 500000}, "cos"), "rope", head, "cos"),
        ({"base"}, full("sinusoidal", {**sine, "max_period": 1000}, "table"), "sinusoidal", sine, "table"),
        ({"base"}, full("rope", {**head, "rope_theta": 73000}, "sin"), "rope", head, "sin"),
        ({"transposed"}, s.T, "sinusoidal", sine, "table"),
        ({"transposed"}, c.T, "rope", head, "cos"),
        ({"sign_flipped"}, -full("rope", head, "sin"), "rope", head, "sin"),
        ({"sign_flipped"}, np.where(odd, -w, w), "sinusoidal", woven, "table"),
        ({"sign_flipped"}, np.where(np.arange(d) < d // 2, -a, a), "sinusoidal", split, "table"),
        ({"columns_padded"}, np.pad(s, ((0, 0), (0, 8))), "sinusoidal", sine, "table"),
        ({"columns_cut"}, a[:, :-2], "sinusoidal", split, "table"),
        ({"other_output"}, full("rope", head, "sin"), "rope", head, "cos"),
        ({"rows_reversed"}, s[::-1], "sinusoidal", sine, "table"),
        ({"precision_of_angles"}, full("sinusoidal", {**far, "compute_dtype": "float32"}, "table"), "sinusoidal", far, "table"),
        ({"short_angles"}, np.cos(np.concatenate([halfp, halfp], 1).astype("f4")), "rope", half, "cos"),
        ({"short_angles"}, np.cos(bfloat16(np.arange(300, 300 + n))[:, None] * np.concatenate([inv, inv])), "rope", {**half, "offset": 300}, "cos"),
        ({"axis_order"}, full("sinusoidal_2d", {"height": 5, "width": 7, "embed_dim": 4 * (d // 4), "axis_order": "w_first"}, "table"), "sinusoidal_2d",
         {"height": 5, "width": 7, "embed_dim": 4 * (d // 4)}, "table"),
        ({"form"}, full("alibi", {"num_heads": 8, "key_length": 20, "form": "mpt"}, "bias"), "alibi", {"num_heads": 8, "key_length": 20}, "bias"),
        ({"sign_flipped"}, -full("alibi", {"num_heads": 8, "key_length": 20}, "bias"), "alibi", {"num_heads": 8, "key_length": 20}, "bias"),
        ({"direction"}, full("t5_bucket", {"query_length": 20, "key_length": 20, "bidirectional": False}, "bucket"), "t5_bucket",
         {"query_length": 20, "key_length": 20}, "bucket"),
    ]
