"""Reads and writes safetensors: as strict as the server, without copying.

bfloat16 has no numpy type: such tensors arrive as float32 holding exactly the bfloat16 values.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Tuple, Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_TYPES: Dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("|i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("|u1"),
    "BOOL": np.dtype("|b1"),
}
_WORDS = {dtype: word for word, dtype in _TYPES.items() if word != "BF16"}
_MAX_HEADER = 100_000_000


class FormatError(ValueError):
    """The bytes are not a whole safetensors file."""


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise FormatError("a name stands twice in the header")
    return members


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _entry(name: str, entry: Any) -> Tuple[int, int, str, Tuple[int, ...]]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{name}: not an object of dtype, shape and data_offsets")
    word, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(word, str) or word not in _TYPES:
        raise FormatError(f"{name}: unknown dtype {word!r}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise FormatError(f"{name}: bad shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise FormatError(f"{name}: bad data_offsets")
    size = _TYPES[word].itemsize
    for n in shape:
        size *= n
    if offsets[1] - offsets[0] != size:
        raise FormatError(f"{name}: {offsets[1] - offsets[0]} bytes, but shape and dtype say {size}")
    return offsets[0], offsets[1], word, tuple(shape)


def widen_bfloat16(bits: Array) -> Array:
    """Bit patterns (uint16) of bfloat16 as float32 of the same values."""
    wide: Array = bits.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def load(data: Union[bytes, bytearray, memoryview]) -> Tuple[Dict[str, Array], Dict[str, str], Dict[str, str]]:
    """Tensors (read-only views of data), their safetensors dtypes, and the metadata. Raises FormatError."""
    view = memoryview(data)
    if len(view) < 8:
        raise FormatError(f"{len(view)} bytes are too few")
    length = int.from_bytes(view[:8], "little")
    if length > min(_MAX_HEADER, len(view) - 8) or bytes(view[8:9]) != b"{":
        raise FormatError("the header is cut, too long, or no object")
    try:
        header = json.loads(bytes(view[8 : 8 + length]).decode("utf-8"), object_pairs_hook=_unique)
    except FormatError:
        raise
    except (ValueError, RecursionError) as e:
        raise FormatError("the header is not JSON") from e
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FormatError("the metadata is not a map of strings")
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    at = 0
    for name, (begin, end, _, _) in sorted(entries.items(), key=lambda item: item[1][:2]):
        if begin != at:
            raise FormatError(f"{name}: a hole or an overlap at {at}")
        at = end
    if at != len(view) - 8 - length:
        raise FormatError(f"{len(view) - 8 - length} bytes of data, but the tensors have {at}")
    tensors: Dict[str, Array] = {}
    for name, (begin, end, word, shape) in entries.items():
        flat: Array = np.frombuffer(view[8 + length + begin : 8 + length + end], dtype=_TYPES[word])
        array = (widen_bfloat16(flat) if word == "BF16" else flat).reshape(shape)
        array.flags.writeable = False
        tensors[name] = array
    return tensors, {name: entry[2] for name, entry in entries.items()}, metadata


def save(tensors: Mapping[str, Array]) -> bytes:
    """Wider elements first, header padded to 8 bytes: every tensor is aligned."""
    ready: List[Tuple[str, Array, str]] = []
    for name, array in tensors.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        word = _WORDS.get(little.dtype.newbyteorder("<"))
        if word is None:
            raise TypeError(f"{name}: arrays of {array.dtype} cannot be sent")
        ready.append((name, little, word))
    ready.sort(key=lambda item: -item[1].dtype.itemsize)
    header: Dict[str, Any] = {}
    at = 0
    for name, array, word in ready:
        header[name] = {"dtype": word, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(array.tobytes() for _, array, _ in ready)])
