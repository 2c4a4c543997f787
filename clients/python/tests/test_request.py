"""Which HTTP request a call becomes, and what is refused before it."""

from __future__ import annotations

import json
import math
from typing import Any, Dict

import numpy as np
import pytest

import posenc
from posenc import safetensors
from posenc.request import build


def make(params: Dict[str, Any], graph: Any = None, **options: Any) -> Any:
    return build("/p", options, params, graph)


@pytest.mark.parametrize(
    "params, query",
    [
        ({"a": 1, "b": 2.5, "c": True, "d": "abs-max"}, "?a=1&b=2.5&c=true&d=abs-max"),
        ({"a": None}, ""),
        ({"a": np.int64(3), "b": np.float32(0.1), "c": np.bool_(False), "d": np.array(4)}, "?a=3&b=0.10000000149011612&c=false&d=4"),
        ({"a": 1e16, "b": 1e-10, "c": float("nan")}, "?a=1e%2B16&b=1e-10&c=nan"),
        ({"a": [1, 2.5, -3], "b": (np.int32(4),)}, "?a=1,2.5,-3&b=4"),
        ({"a": range(3)}, "?a=0,1,2"),
    ],
)
def test_get(params: Dict[str, Any], query: str) -> None:
    r = make(params)
    assert (r.method, r.target, r.body) == ("GET", "/p" + query, None)


def test_options() -> None:
    assert make({"a": 1}, rows="0:2", tensors=["x", "y"], explain=True).target == "/p?a=1&rows=0:2&tensors=x,y&explain=true"


@pytest.mark.parametrize("value", [list(range(3000)), [[1, 2], [3, 4]], []])
def test_json(value: Any) -> None:
    r = make({"a": value, "b": 2, "c": None}, rows="0:2")
    assert (r.method, r.target, r.media) == ("POST", "/p?rows=0:2", "application/json")
    assert json.loads(r.body) == {"a": value, "b": 2}


def test_long_lists_travel_as_bytes() -> None:
    r = make({"a": [0.5] * 70000, "b": 2})
    assert r.target == "/p?b=2" and r.media == "application/vnd.safetensors"
    assert safetensors.load(r.body)[0]["a"].tolist() == [0.5] * 70000


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "uint8", "bool", ">f4", ">i8"])
def test_arrays(dtype: str) -> None:
    a = np.arange(6).reshape(2, 3).astype(dtype)[:, ::-1]
    r = make({"a": a, "b": "x"})
    back = safetensors.load(r.body)[0]["a"]
    assert r.target == "/p?b=x" and back.dtype == np.dtype(dtype).newbyteorder("<") and back.tolist() == a.tolist()


@pytest.mark.parametrize("kind", [lambda **g: posenc.Graph(**g), lambda **g: g])
def test_graph(kind: Any) -> None:
    g = kind(num_nodes=3, edge_index=[[0, 1], [1, 2]], edge_weight=[1, 2], directed=True, ptr=[0, 3])
    r = make({"k": 2, "list": [1, 2]}, g)
    tensors = safetensors.load(r.body)[0]
    assert r.target == "/p?k=2&num_nodes=3&directed=true"
    assert tensors["edge_index"].tolist() == [[0, 1], [1, 2]] and tensors["edge_index"].dtype == np.int64
    assert tensors["edge_weight"].dtype == np.float64 and tensors["ptr"].tolist() == [0, 3] and tensors["list"].tolist() == [1, 2]


def test_graph_without_edges() -> None:
    tensors = safetensors.load(make({}, {"num_nodes": 3, "edge_index": [[], []]}).body)[0]
    assert tensors["edge_index"].shape == (2, 0) and tensors["edge_index"].dtype == np.int64


def test_the_end_of_a_batch_is_the_number_of_nodes() -> None:
    r = make({}, {"edge_index": [[0], [1]], "ptr": np.array([0, 2, 5])})
    assert r.target == "/p?num_nodes=5"


def test_stored_graph() -> None:
    assert make({"k": 1}, "sha256-ab").target == "/p?k=1&graph=sha256-ab"


@pytest.mark.parametrize(
    "params, graph",
    [
        ({"a": object()}, None),
        ({"a": {"b": 1}}, None),
        ({"a": [object()]}, None),
        ({"a": np.array(["x"])}, None),
        ({"a": np.array([1j])}, None),
        ({}, {"num_nodes": 3, "edges": []}),
        ({}, {"num_nodes": 3, "edge_index": [[0.5], [1]]}),
        ({}, {"num_nodes": 3}),
        ({}, {"edge_index": [[0], [1]]}),
        ({"a": [1.0, math.inf]}, None),
        ({"a": [[math.nan]]}, None),
    ],
)
def test_refused(params: Dict[str, Any], graph: Any) -> None:
    with pytest.raises(TypeError):
        make(params, graph)


@pytest.mark.parametrize("name", ["", "a/b", "a?b", "a.b", "../x", "a" * 65, "a\n"])
def test_bad_names(name: str) -> None:
    with posenc.Client("http://127.0.0.1:9") as client:
        for call in (client.encode, client.explain, client.describe):
            with pytest.raises(ValueError):
                call(name)
    with pytest.raises(ValueError):
        make({name: 1})


@pytest.mark.parametrize("endpoint", ["ftp://x", "http://", "http://x?y=1"])
def test_bad_endpoint(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        posenc.Client(endpoint)


def test_endpoint_without_scheme() -> None:
    posenc.Client("127.0.0.1:8080").close()
