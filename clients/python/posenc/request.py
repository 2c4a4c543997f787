"""From Python values to one HTTP request: a GET where the address can say it all, otherwise a POST."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from . import safetensors
from .safetensors import Array

Scalar = Union[None, bool, int, float, str, np.generic]
Param = Union[Scalar, Sequence[Any], Array]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")  # the server knows the names, and suggests the nearest
_LONGEST_QUERY = 4096  # servers take targets of 8 KiB, some proxies less
_LONGEST_JSON = 65536  # numbers; more travel as bytes


@dataclass(frozen=True, eq=False)
class Graph:
    """edge_index is [2, edges]; ptr [graphs + 1] makes it a batch: graph g has the nodes ptr[g] .. ptr[g+1]-1."""

    num_nodes: int
    edge_index: npt.ArrayLike
    edge_weight: Optional[npt.ArrayLike] = None
    directed: bool = False
    ptr: Optional[npt.ArrayLike] = None


GraphLike = Union[Graph, Mapping[str, Any], str]


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    body: Optional[bytes]
    media: Optional[str]


def check_name(what: str, name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"{what}: got {name!r}, allowed: a name such as sinusoidal")
    return name


def _plain(name: str, value: Any) -> Any:
    """numpy's scalars as Python's; refuses what no parameter can be."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # the words of the API; JSON has none of its own
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{name}: got {type(value).__name__}, allowed: a number, bool, str, list or numpy array")


def _number(value: Any) -> str:
    """Shortest text that reads back as the same number."""
    return ("true" if value else "false") if isinstance(value, bool) else value if isinstance(value, str) else repr(value)


def _is_flat(value: Sequence[Any]) -> bool:
    return not any(isinstance(v, (list, tuple, np.ndarray)) for v in value)


def _listed(name: str, value: Sequence[Any]) -> List[Any]:
    for i, v in enumerate(value):
        if isinstance(v, (float, np.floating)) and not math.isfinite(v):
            raise TypeError(f"{name}[{i}]: got {v}, allowed: a finite number")
    return [_listed(name, v) if isinstance(v, (list, tuple)) else _plain(name, v) for v in value]


def _graph_tensors(graph: Union[Graph, Mapping[str, Any]]) -> Tuple[Dict[str, Array], Dict[str, Any]]:
    if not isinstance(graph, Graph):
        names = ("num_nodes", "edge_index", "edge_weight", "directed", "ptr")
        for name in graph:
            if name not in names:
                raise TypeError(f"graph.{name}: unknown name, allowed: {', '.join(names)}")
        given = dict(graph)
        if "edge_index" not in given:
            raise TypeError("graph.edge_index: absent, allowed: [2, edges], sources and targets")
        if "num_nodes" not in given:  # the end of a batch says it, as for the server and the command
            if given.get("ptr") is None:
                raise TypeError("graph.num_nodes: absent, allowed: the number of nodes, isolated ones included; or ptr")
            given["num_nodes"] = int(np.asarray(given["ptr"])[-1])
        graph = Graph(**given)
    index = np.asarray(graph.edge_index)
    if index.size == 0 and index.dtype.kind == "f":  # [[], []] has no type of its own
        index = index.astype(np.int64).reshape(2, 0)
    tensors = {"edge_index": index}
    if graph.edge_weight is not None:
        weight = np.asarray(graph.edge_weight)
        tensors["edge_weight"] = weight if weight.dtype.kind == "f" else weight.astype(np.float64)
    if graph.ptr is not None:
        tensors["ptr"] = np.asarray(graph.ptr)
    for name in ("edge_index", "ptr"):
        if name in tensors and tensors[name].dtype.kind not in "iu":
            raise TypeError(f"graph.{name}: got {tensors[name].dtype}, allowed: integers")
    return tensors, {"num_nodes": graph.num_nodes, "directed": True if graph.directed else None}


def _sort(params: Mapping[str, Param]) -> Tuple[Dict[str, Any], Dict[str, List[Any]], Dict[str, Array]]:
    """Single values, lists, arrays. None is absent."""
    single: Dict[str, Any] = {}
    lists: Dict[str, List[Any]] = {}
    arrays: Dict[str, Array] = {}
    for name, value in params.items():
        check_name("parameter", name)
        if isinstance(value, np.ndarray) and value.ndim > 0:
            arrays[name] = value
        elif isinstance(value, (list, tuple, range)):
            lists[name] = _listed(name, list(value))
        else:
            plain = _plain(name, value.item() if isinstance(value, np.ndarray) else value)
            if plain is not None:
                single[name] = plain
    return single, lists, arrays


def _query(pairs: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return ",".join(map(_number, value)) if isinstance(value, list) else _number(value)

    said = [f"{name}={quote(text(value), safe=',:.-_')}" for name, value in pairs.items() if value is not None]
    return "?" + "&".join(said) if said else ""


def build(path: str, options: Mapping[str, Any], params: Mapping[str, Param], graph: Optional[GraphLike]) -> Request:
    """options: what the server reads from the query in every case (rows, tensors, explain).

    Lists of numbers stand in the address while it is short, then in a JSON body. Graphs and numpy arrays travel as
    safetensors, with the rest in the query.
    """
    single, lists, arrays = _sort(params)
    if isinstance(graph, str):
        single["graph"] = graph
    elif graph is not None:
        tensors, extra = _graph_tensors(graph)
        arrays.update(tensors)
        single.update(extra)
    flat = all(_is_flat(v) and v for v in lists.values())
    if not arrays and flat:
        target = path + _query({**single, **lists, **options})
        if len(target) <= _LONGEST_QUERY:
            return Request("GET", target, None, None)
    if not arrays and sum(np.size(v) for v in lists.values()) <= _LONGEST_JSON:
        text = json.dumps({**single, **lists}, separators=(",", ":"), allow_nan=False)
        return Request("POST", path + _query(options), text.encode(), "application/json")
    for name, value in lists.items():
        arrays[name] = np.asarray(value)
    return Request("POST", path + _query({**single, **options}), safetensors.save(arrays), "application/vnd.safetensors")
