"""identify and compare through real sockets: REST, gRPC, the command and the Python client give one answer, and say what is
wrong with what they are given. Whether the answers are right: tests/identify."""
import io
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import rpc
from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "clients/python"))
import posenc.safetensors  # noqa: E402

NPY = "application/x-npy"


def npy(a):
    f = io.BytesIO()
    np.save(f, a)
    return f.getvalue()


def post(server, path, body, media, **headers):
    r = urllib.request.Request(server.url + path, body, {"Content-Type": media, **headers})
    with urllib.request.urlopen(r, timeout=60) as answer:
        return json.loads(answer.read()), answer.headers


def refused(server, path, body, media, **headers):
    with pytest.raises(urllib.error.HTTPError) as e:
        post(server, path, body, media, **headers)
    return e.value.code, json.loads(e.value.read())


@pytest.fixture(scope="module")
def table(server):
    return np.load(io.BytesIO(server.get("/v1/encodings/rope/cos.npy?preset=llama-3.1-8b&num_positions=128&offset=3")))


@pytest.fixture(scope="module")
def caller(server):
    c = rpc.Client(server.grpc)
    yield c
    c.close()


def command(*words, ok=True, **kw):
    run = subprocess.run([BUILD / "posenc", *map(str, words)], capture_output=True, text=True, timeout=60, **kw)
    assert (run.returncode == 0) == ok, run.stderr
    return run.stdout if ok else run.stderr


def ask(caller, method, **members):
    m = caller.message(f"posenc.v1.{method}Request")()
    own = getattr(m, method.lower())
    for name, value in members.items():
        if name == "of":
            m.of.CopyFrom(value)
        else:
            caller.set(own, name, value)
    return caller.call(f"posenc.v1.EncodingService.{method}", m)


def test_identify_one_answer(server, caller, table, tmp_path):
    """Of npy, safetensors, JSON, over gRPC, by the command here and there, by the client: the same text, once computed."""
    first, headers = post(server, "/v1/identify", npy(table), NPY)
    assert first["report"] == "identify" and first["answer"] == "rope" and first["digest"] == headers["Posenc-Digest"]
    best = first["matches"][0]
    assert best["largest"] == 0 and best["output"] == "cos" and not best["transposed"]
    assert best["params"] == {"head_dim": 128, "rope_theta": 500000, "rope_type": "llama3", "factor": 8,
                              "original_max_position_embeddings": 8192, "num_positions": 128, "offset": 3}
    again, headers = post(server, "/v1/identify", posenc.safetensors.save({"table": table}), "application/vnd.safetensors")
    assert again == first and "hit" in headers["Cache-Status"]
    by_rpc = ask(caller, "Identify", table=table)
    assert by_rpc.digest == first["digest"] and json.loads(by_rpc.answer_json) == first
    np.save(tmp_path / "t.npy", table)
    assert json.loads(command("identify", tmp_path / "t.npy", "--format", "json")) == first
    assert json.loads(command("identify", tmp_path / "t.npy", "--url", server.url)) == first
    with posenc.Client(server.url) as client:
        assert client.identify(table) == first
        assert client.identify(table.T)["matches"][0]["transposed"]
        small = client.identify([[0, 1], [1, 0], [2, 5]], tolerance=0.001)
        assert small["answer"] == "none" and small["matches"] == []
    parameters, _ = json.loads(server.get("/v1/identify")), None
    assert [p["name"] for p in parameters["parameters"]][:2] == ["table", "tolerance"]


def test_compare_one_answer(server, caller, table, tmp_path):
    query = "head_dim=128&num_positions=128&offset=2&rope_type=llama3&factor=8&original_max_position_embeddings=8192&rope_theta=500000"
    first, _ = post(server, f"/v1/compare?encoding=rope&tensor=cos&{query}", npy(table), NPY)
    assert first["report"] == "compare" and first["mistake"] == "off_by_one" and not first["equal"]
    assert len(first["by_row"]) == 128 and len(first["by_column"]) == 128 and first["first"] == [0, 0]
    assert first["largest_absolute"] == pytest.approx(max(first["by_row"]), rel=1e-5)
    params = dict(p.split("=") for p in query.split("&"))
    typed = {k: v if k == "rope_type" else float(v) if k in ("factor", "rope_theta") else int(v) for k, v in params.items()}
    by_rpc = ask(caller, "Compare", table=table, tensor="cos", of=caller.request("rope", typed))
    assert by_rpc.digest == first["digest"] and json.loads(by_rpc.answer_json) == first
    np.save(tmp_path / "t.npy", table)
    words = ["compare", tmp_path / "t.npy", "rope", "--tensor", "cos", *query.split("&")]
    assert json.loads(command(*words, "--format", "json")) == first
    assert json.loads(command(*words, "--url", server.url)) == first
    with posenc.Client(server.url) as client:
        assert client.compare(table, "rope", tensor="cos", **typed) == first
        right = client.compare(table, "rope", tensor="cos", **{**typed, "offset": 3})
        assert right["equal"] and right["mistake"] is None and right["largest_ulp"] == 0 and right["first"] is None
        other = client.compare(table, "sinusoidal", embedding_dim=128, num_positions=128)
        assert other["mistake"] is None and other["instead"]["encoding"] == "rope"
        half = client.compare(table.astype("f2"), "rope", tensor="cos", **{**typed, "offset": 3})
        assert half["equal"], "dtype is the table's when it is not given"
        half = client.compare(table.astype("f2"), "rope", tensor="cos", dtype="float32", **{**typed, "offset": 3})
        assert half["mistake"] == "rounded"


def test_people_read_it(tmp_path, table):
    """On a terminal: a summary. Memory that nobody wrote holds no zeros, so that reading beyond an answer shows."""
    np.save(tmp_path / "t.npy", table)
    out = subprocess.run(["script", "-qec", f"{BUILD}/posenc identify {tmp_path}/t.npy; {BUILD}/posenc compare {tmp_path}/t.npy rope "
                          f"head_dim=128 num_positions=128 offset=3 --tensor cos; {BUILD}/posenc analyze sinusoidal embedding_dim=8 "
                          "num_positions=16 what=norms", "/dev/null"],
                         capture_output=True, text=True, timeout=60, env={**os.environ, "MALLOC_PERTURB_": "90"}).stdout
    assert "an answer in JSON" not in out and "norms" in out
    assert "posenc rope head_dim=128 rope_theta=500000 rope_type=llama3" in out and "largest_absolute" in out and "it is: posenc rope" in out


BAD = [("identify", np.array([[1, np.nan]] * 8, "f4"), "table[0][1]", "finite number"),
       ("identify", np.ones((1, 9), "f4"), "table", "at least 2 rows"),
       ("identify", np.ones((9, 0), "f4"), "table", "a table with elements"),
       ("compare?encoding=sinusoidal&embedding_dim=4&num_positions=4&tensor=tabel", np.ones((4, 4), "f4"), "tensor", "an output of sinusoidal"),
       ("compare", np.ones((4, 4), "f4"), "encoding", "the encoding that the table should be of"),
       ("compare?encoding=sinusoidal&embedding_dim=4", np.ones((4, 4), "f4"), "num_positions", ""),
       ("compare?encoding=sinusodal", np.ones((4, 4), "f4"), "encoding", "sinusoidal"),
       ("identify?tolerance=2", np.ones((4, 4), "f4"), "tolerance", "0 .. 0.1"),
       ("identify?encoding=rope", np.ones((4, 4), "f4"), "", ""),
       ("compare?encoding=learned", np.ones((4, 4), "f4"), "encoding", "an encoding that is computed"),
       ("compare?encoding=sinusoidal&embedding_dim=4&num_positions=300000", np.ones((300000, 4), "f4"), "table", "at most 262144 rows and columns"),
       ("identify?rows=0:1", np.ones((4, 4), "f4"), "rows", "")]


@pytest.mark.parametrize("path, body, field, allowed", BAD, ids=[f"{p}-{f}" for p, _, f, _ in BAD])
def test_refused(server, path, body, field, allowed):
    status, problem = refused(server, f"/v1/{path}", npy(body), NPY)
    assert status in (400, 404), problem
    assert any(field in e["field"] and allowed in e["allowed"] for e in problem["errors"]), problem


def test_encoding_is_in_the_query(server):
    body = json.dumps({"encoding": "sinusoidal", "embedding_dim": 4, "num_positions": 4, "table": [[0, 1], [1, 0]]}).encode()
    _, problem = refused(server, "/v1/compare", body, "application/json")
    assert any(e["field"] == "encoding" and "?encoding=NAME" in e["allowed"] for e in problem["errors"]), problem


@pytest.mark.parametrize("report", ["analyze", "identify", "compare"])
def test_examples_of_help_run(report, tmp_path):
    words = command(report, "--help")
    lines = [line.split() for line in words.split("\nexample\n")[1].split("\n\n")[0].splitlines()]
    assert lines
    for posenc_, *rest in lines:
        assert posenc_ == "posenc"
        out = command(*rest, cwd=tmp_path)
    assert json.loads(out)["report"] == {"analyze": "analysis"}.get(report, report)
    assert "element type of real outputs" not in words


def test_refused_over_grpc(caller):
    for method, members in (("Identify", {"table": np.array([[1, np.inf]] * 8)}), ("Identify", {}), ("Compare", {"table": np.ones((4, 4))})):
        with pytest.raises(grpc.RpcError) as e:
            ask(caller, method, **members)
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert caller.details(e.value)[1]["BadRequest"].field_violations


def test_deadline_and_budget(start_server, table):
    """A large table runs on the pool, ends at its deadline, and is refused where it is over the memory of a request."""
    server = start_server()
    large = np.cumsum(np.random.default_rng(1).normal(0, 1e-3, (200000, 64)), 0).astype("f4") + np.cos(
        np.arange(200000)[:, None] * np.linspace(0.1, 3, 64)).astype("f4")
    t0 = time.monotonic()
    status, problem = refused(server, "/v1/identify", npy(large), NPY, **{"Request-Timeout": "0.05"})
    assert status == 504 and problem["code"] == "DEADLINE_EXCEEDED" and time.monotonic() - t0 < 10
    assert server.get("/livez")
    small = start_server("--max-request-memory", "64MiB")
    status, problem = refused(small, "/v1/identify", npy(large), NPY)
    assert status == 400 and problem["reason"] == "LIMIT_EXCEEDED", problem
