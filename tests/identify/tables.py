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
    that was given differs from the true one (its noise and rounding), or by four roundings of its dtype. So two requests
    that give one table are one answer."""
    if not answer["matches"]:
        return False, "none"
    m = answer["matches"][0]
    exact = {k: v for k, v in params.items() if k != "dtype"}
    truth = undo(encode(encoding, {**exact, "dtype": "float64"})[output]).astype(float)
    got = encode(m["encoding"], {**m["params"], "dtype": "float64"})[m["output"]].astype(float)
    table = table.astype(float)
    got = as_given(got.T if m["transposed"] and got.ndim == 2 else got, table.shape)
    grain = {"float32": 2.0**-23, "float64": 2.0**-50, "float16": 2.0**-10, "bfloat16": 2.0**-7}[answer["dtype"]]
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
    """Tables with at least 8 rows (of one axis: 8 numbers) that follow from parameters alone."""
    for case in json.loads((GOLDEN / "manifest.json").read_text()):
        if case["encoding"] not in TABLES or case["inputs"]:
            continue
        for output in TABLES[case["encoding"]]:
            what = case["outputs"].get(output)
            if not what:
                continue
            table = np.load(GOLDEN / what["file"])
            rows = table.size // table.shape[-1] if table.ndim > 1 else table.size
            if rows >= 8:
                yield f"{case['id']}.{output}", table, case["encoding"], {k: v for k, v in case["params"].items() if v is not None}, output
