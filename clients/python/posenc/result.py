"""What an encode call answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterator, Mapping, Tuple

from .safetensors import Array

_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_NAMES.update({"I64": "int64", "I32": "int32", "I16": "int16", "U8": "uint8"})


@dataclass(frozen=True, eq=False)
class Result(Mapping[str, Array]):
    """Tensors by name, as read-only numpy arrays that may be shared with the client's cache; .copy() to write.

    dtypes: the server's dtype of each tensor; bfloat16 tensors are float32 arrays of the same values.
    params: all parameters of the encoding, defaults filled in.
    from_cache: the bytes are the client's own, never sent again.
    """

    tensors: Mapping[str, Array] = field(repr=False)
    dtypes: Mapping[str, str]
    encoding: str
    revision: int
    digest: str
    params: Mapping[str, Any]
    warnings: Tuple[str, ...] = ()
    from_cache: bool = False

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __eq__(self, other: object) -> bool:
        return self is other  # arrays have no truth of their own; compare them with numpy

    __hash__ = object.__hash__

    def cached(self) -> Result:
        return replace(self, from_cache=True)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.tensors.values())


def dtype_names(words: Mapping[str, str]) -> Dict[str, str]:
    return {name: _NAMES.get(word, word.lower()) for name, word in words.items()}
