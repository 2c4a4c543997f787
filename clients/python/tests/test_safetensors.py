"""The reader takes whole files and nothing else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from posenc.safetensors import FormatError, load, save


def raw(header: Any, data: bytes = b"", text: bytes = b"") -> bytes:
    text = text or json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> Any:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_round_trip() -> None:
    tensors = {
        "u": np.arange(3, dtype=np.uint8),
        "s": np.array([-32768, 32767], np.int16),
        "d": np.array(2.5),
        "h": np.ones((2, 0, 3), np.float16),
        "i": np.arange(4, dtype=np.int64).reshape(2, 2),
    }
    data = save(tensors)
    back, words, metadata = load(data)
    assert metadata == {} and words == {"u": "U8", "s": "I16", "d": "F64", "h": "F16", "i": "I64"}
    for name, a in tensors.items():
        assert back[name].dtype == a.dtype and back[name].shape == a.shape and (back[name] == a).all()
        assert back[name].flags.aligned and not back[name].flags.writeable


def test_bfloat16_is_widened_exactly() -> None:
    bits = np.array([0x3F80, 0xC000, 0x7F80, 0x0001, 0x7FC0], "<u2")
    back = load(raw({"x": entry("BF16", [5], (0, 10))}, bits.tobytes()))[0]["x"]
    assert back.dtype == np.float32 and back.tolist()[:4] == [1.0, -2.0, np.inf, 2.0**-133] and np.isnan(back[4])


def test_no_tensors() -> None:
    assert load(raw({"__metadata__": {"a": "b"}})) == ({}, {}, {"a": "b"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\0\0\0\0\0\0",
        raw({})[:-1],
        (1 << 62).to_bytes(8, "little") + b"{}",
        raw(None, text=b"[]"),
        raw(None, text=b'{"x":'),
        raw(None, text=b"{\xff}"),
        raw(None, text=b'{"x":' + b"[" * 100000),
        raw({"x": entry()}, b"123"),
        raw({"x": entry()}, b"12345"),
        raw({"x": entry(offsets=(0, 8))}, b"12345678"),
        raw({"x": entry(offsets=(4, 8))}, b"12345678"),
        raw({"x": entry(), "y": entry(offsets=(2, 6))}, b"123456"),
        raw({"x": entry(), "y": entry(offsets=(8, 12))}, b"123456789012"),
        raw({"x": entry(shape=[-1])}, b"1234"),
        raw({"x": entry(shape=[1 << 62, 4])}, b"1234"),
        raw({"x": entry(shape=[True])}, b"1234"),
        raw({"x": entry(dtype="F8")}, b"1234"),
        raw({"x": {"dtype": "F32", "shape": [1]}}, b"1234"),
        raw({"x": {**entry(), "more": 1}}, b"1234"),
        raw({"x": 3}, b"1234"),
        raw({"__metadata__": {"a": 1}}),
        raw({"__metadata__": []}),
        raw(None, b"1234", text=b'{"x":%s,"x":%s}' % ((json.dumps(entry()).encode(),) * 2)),
    ],
)
def test_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        load(data)


def test_every_cut_is_refused() -> None:
    whole = save({"x": np.arange(5, dtype=np.float32)})
    for n in range(len(whole)):
        with pytest.raises(FormatError):
            load(whole[:n])
