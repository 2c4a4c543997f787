"""Against a real server."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import posenc

RING = posenc.Graph(num_nodes=7, edge_index=[[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 5, 6]])


def test_sinusoidal(real: posenc.Client) -> None:
    r = real.sinusoidal(8, 16)
    assert list(r) == ["table"] and r["table"].shape == (16, 8) and r["table"].dtype == np.float32
    angle = np.arange(16)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    assert np.allclose(r["table"][:, 0::2], np.sin(angle), atol=1e-6) and np.allclose(r["table"][:, 1::2], np.cos(angle), atol=1e-6)
    assert r.encoding == "sinusoidal" and r.revision >= 1 and len(r.digest) == 64 and r.params["embedding_dim"] == 8
    assert not r.from_cache and real.sinusoidal(8, 16).from_cache


def test_spellings_of_a_list_are_one_request(real: posenc.Client) -> None:
    numbers = [0, 1.5, -2, 100]
    short = real.sinusoidal(4, positions=numbers)
    array = real.sinusoidal(4, positions=np.array(numbers))
    assert short.digest == array.digest and (short["table"] == array["table"]).all()
    long = list(range(5000))
    assert (real.sinusoidal(2, positions=long)["table"] == real.sinusoidal(2, 5000)["table"]).all()


@pytest.mark.parametrize("dtype, numpy", [("float64", "f8"), ("float32", "f4"), ("float16", "f2"), ("bfloat16", "f4")])
def test_dtypes(real: posenc.Client, dtype: str, numpy: str) -> None:
    r = real.sinusoidal(6, 5, dtype=dtype)
    assert r.dtypes["table"] == dtype and r["table"].dtype == np.dtype(numpy)
    assert np.allclose(r["table"], real.sinusoidal(6, 5)["table"], atol=4e-3)
    if dtype == "bfloat16":
        assert not (r["table"].view(np.uint32) & 0xFFFF).any()


def test_laplacian(real: posenc.Client) -> None:
    r = real.laplacian(RING.edge_index, 7, k=3, dtype="float64")
    v, w = r["eigenvectors"], r["eigenvalues"]
    a = np.zeros((7, 7))
    source, target = np.asarray(RING.edge_index)
    a[source, target] = a[target, source] = 1
    d = 1 / np.sqrt(a.sum(1))
    assert v.shape == (7, 3) and np.allclose((np.eye(7) - d[:, None] * a * d) @ v, v * w, atol=1e-9)
    batch = real.laplacian([[0, 1, 3], [1, 2, 4]], 5, k=1, ptr=[0, 3, 5])
    assert batch["eigenvectors"].shape == (5, 1) and batch["status"].tolist() == [0, 0]
    weighted = real.laplacian(RING.edge_index, 7, k=3, edge_weight=[2] * 7)
    assert np.allclose(weighted["eigenvalues"], w, atol=1e-6)


def test_resolve(real: posenc.Client) -> None:
    config = {"model_type": "gpt_neox", "hidden_size": 6144, "num_attention_heads": 64, "rotary_pct": 0.25, "rotary_emb_base": 10000}
    [request] = real.resolve(config)["requests"]
    inv_freq = real.encode(request["encoding"], **request["params"])["inv_freq"]
    assert np.allclose(inv_freq, 10000.0 ** -(np.arange(12) / 12), rtol=1e-6)
    with pytest.raises(posenc.InvalidArgument) as e:
        real.resolve('{"model_type": "llama", "rope_theta": 1, "rope_theta": 2}')
    assert e.value.violations[0].field == "rope_theta"


def test_selection(real: posenc.Client) -> None:
    assert list(real.encode("laplacian", graph=RING, k=2, tensors="eigenvalues")) == ["eigenvalues"]
    assert set(real.encode("laplacian", graph=RING, k=2, tensors=["eigenvalues", "status"])) == {"eigenvalues", "status"}
    whole = real.sinusoidal(4, 10)["table"]
    assert (real.encode("sinusoidal", embedding_dim=4, num_positions=10, rows=(3, 7))["table"] == whole[3:7]).all()


def test_words(real: posenc.Client) -> None:
    names = [e["name"] for e in real.list()]
    assert "sinusoidal" in names and "laplacian" in names
    assert real.describe("sinusoidal")["schema"]["type"] == "object"
    assert real.capabilities()["encodings"]["sinusoidal"] >= 1
    x = real.explain("laplacian", graph=RING, k=2)
    assert x["tensors"]["eigenvectors"]["shape"] == [7, 2] and x["digest"] == real.encode("laplacian", graph=RING, k=2).digest


def test_every_example(real: posenc.Client) -> None:
    for e in real.list():
        params = dict(pair.split("=", 1) for pair in e["example"].split("&"))
        r = real.encode(e["name"], graph=RING if e["input"] == "graph" else None, **params)
        assert len(r) >= 1 and r.encoding == e["name"] and r.revision == e["revision"]


def test_result_by_digest(real: posenc.Client) -> None:
    r = real.encode("laplacian", graph=RING, k=3)
    again = real.result(r.digest)
    assert again.digest == r.digest and (again["eigenvectors"] == r["eigenvectors"]).all()
    with pytest.raises(posenc.NotFound):
        real.result("0" * 64)


def test_errors(real: posenc.Client) -> None:
    with pytest.raises(posenc.NotFound, match="sinusoidal"):
        real.encode("sinusoidl")
    with pytest.raises(posenc.NotFound, match="did you mean rope"):
        real.encode("Rope", head_dim=4)
    with pytest.raises(posenc.InvalidArgument, match="did you mean head_dim"):
        real.encode("rope", HeadDim=4)
    with pytest.raises(posenc.InvalidArgument) as e:
        real.encode("sinusoidal", embeding_dim=4, num_positions=-1)
    assert {v.field for v in e.value.violations} >= {"embeding_dim", "num_positions"} and e.value.request_id
    with pytest.raises(posenc.InvalidArgument):
        real.encode("laplacian", k=3)
    with pytest.raises(posenc.NotFound) as gone:
        real.sinusoidal(4, 4, rev=999)
    assert gone.value.reason == "REVISION_GONE"
    with pytest.raises(posenc.LimitExceeded):
        real.sinusoidal(1 << 16, 1 << 40)


def test_pinned_requests_are_asked_once(real: posenc.Client) -> None:
    rev = real.describe("laplacian")["revision"]
    first = real.laplacian(RING.edge_index, 7, k=2, rev=rev)
    second = real.laplacian(RING.edge_index, 7, k=2, rev=rev)
    assert not first.from_cache and second.from_cache


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_types() -> None:
    package = Path(posenc.__file__).parent
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, str(package)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
