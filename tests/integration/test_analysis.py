"""Analysis: the same numbers over REST, gRPC, the command and the Python client; against numpy; pictures; what is refused."""
import io
import json
import subprocess
import sys
import urllib.error
import urllib.request
import xml.etree.ElementTree as xml
import zlib

import grpc
import numpy as np
import pytest

import rpc
from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "clients/python"))
import posenc  # noqa: E402

RNG = np.random.default_rng(7)
NOISE = RNG.normal(size=(60, 12))
LEARNED = np.cumsum(RNG.normal(size=(90, 10)), axis=0) / 10


@pytest.fixture(scope="module")
def client(server):
    with posenc.Client(server.url) as c:
        yield c


@pytest.fixture(scope="module")
def wire(server):
    c = rpc.Client(server.grpc)
    yield c
    c.close()


def ask(url, body=None, **headers):
    """(status, headers, body)"""
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def npy(array):
    b = io.BytesIO()
    np.save(b, array)
    return b.getvalue()


def sinusoid(n, d, base=10000.0):
    w = base ** (-2 * np.arange(d // 2) / d)
    angle = np.arange(n)[:, None] * w
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(n, d), w


# ---- against numpy ----

@pytest.mark.parametrize("table", [NOISE, LEARNED, LEARNED.astype("f4"), LEARNED.astype("f2"), LEARNED[:5], LEARNED[:, :1]],
                         ids=["noise", "walk", "float32", "float16", "wide", "one channel"])
def test_norms_similarity_subspace(client, table):
    a = client.analyze(table, ["norms", "similarity", "subspace"])["analysis"]
    t = table.astype("f8")
    norm = np.linalg.norm(t, axis=1)
    assert np.allclose(a["norms"]["row_norm"], norm, rtol=1e-13)
    assert np.allclose([a["norms"][k] for k in ("min", "mean", "max", "smallest_value", "largest_value", "rms")],
                       [norm.min(), norm.mean(), norm.max(), t.min(), t.max(), np.sqrt((t * t).mean())], rtol=1e-13)
    for i, k in enumerate(a["similarity"]["offset"]):
        dot = (t[:-k] * t[k:]).sum(1)
        cosine = dot / norm[:-k] / norm[k:]
        assert np.allclose([a["similarity"][f"dot_{w}"][i] for w in ("mean", "min", "max")], [dot.mean(), dot.min(), dot.max()],
                           rtol=1e-11, atol=1e-12)
        assert np.allclose([a["similarity"][f"cosine_{w}"][i] for w in ("mean", "min", "max")],
                           [cosine.mean(), cosine.min(), cosine.max()], rtol=1e-11, atol=1e-12)
    s = np.linalg.svd(t, compute_uv=False)
    assert np.allclose(a["subspace"]["singular_value"], s, rtol=1e-7, atol=1e-7 * s[0])
    energy = np.cumsum(s ** 2) / (s ** 2).sum()
    assert a["subspace"]["dims_90"] == int(np.searchsorted(energy, 0.9)) + 1
    assert a["subspace"]["dims_99"] == int(np.searchsorted(energy, 0.99)) + 1


def test_principal_angles(client):
    table, _ = sinusoid(80, 16)
    embeddings = RNG.normal(size=(5, 16))
    a = client.analyze(table, "subspace", embeddings=embeddings)["analysis"]["subspace"]
    v = np.linalg.svd(table, full_matrices=False)[2][:a["dims_99"]]
    s, e = np.linalg.svd(embeddings, full_matrices=False)[1:]
    e = e[:a["embeddings_dims_99"]]
    assert a["embeddings_dims_99"] == int(np.searchsorted(np.cumsum(s ** 2) / (s ** 2).sum(), 0.99)) + 1
    cosines = np.linalg.svd(v @ e.T, compute_uv=False)
    assert np.allclose(np.cos(a["principal_angle"]), np.clip(cosines, 0, 1), atol=1e-7)
    assert np.isclose(a["embeddings_inside"], (embeddings @ v.T).__pow__(2).sum() / (embeddings ** 2).sum(), rtol=1e-9)


def test_shift_is_least_squares(client):
    k, n = 3, len(LEARNED) - 3
    a = client.analyze(LEARNED, "shift", offsets=[k])["analysis"]["shift"]
    kept = (np.arange(n) * 8 // n) % 4 == 2
    x, y = LEARNED[:n], LEARNED[k:]
    m = np.linalg.lstsq(x[~kept], y[~kept], rcond=None)[0]
    left = ((y - x @ m) ** 2).sum(1)
    assert np.isclose(a["residual"][0], np.sqrt(left[kept].mean() / 10), rtol=1e-7)
    assert np.isclose(a["r2"][0], 1 - left[kept].sum() / ((y[kept] - y[kept].mean(0)) ** 2).sum(), rtol=1e-7)
    assert a["exact_error"] == [None]


def test_exact_shift_is_relative_shift(client):
    """The map that `shift` calls exact is the matrix of relative_shift."""
    d, k = 12, 5
    table, _ = sinusoid(50, d)
    m = client.encode("relative_shift", embedding_dim=d, k=k, dtype="float64")["matrix"]
    assert np.abs(table[:-k] @ m.T - table[k:]).max() < 1e-13
    a = client.analyze("sinusoidal", ["shift", "direction"], embedding_dim=d, num_positions=50, offsets=[k])["analysis"]
    back = client.encode("relative_shift", embedding_dim=d, k=-k, dtype="float64")["matrix"]
    assert a["shift"]["exact_error"][0] < 1e-12
    assert np.isclose(a["direction"]["map_difference"][0], np.linalg.norm(m - back) / np.sqrt(2) / np.linalg.norm(m), rtol=1e-9)


def test_uniqueness_and_resolution(client):
    t = RNG.integers(0, 3, size=(40, 3)).astype("f8") + 1e-4 * RNG.integers(0, 3, size=(40, 3))
    a = client.analyze(t, ["uniqueness", "resolution"])["analysis"]
    apart = np.linalg.norm(t[:, None] - t[None], axis=2) + np.where(np.eye(40, dtype=bool), np.inf, 0)
    assert np.allclose(a["uniqueness"]["nearest"], apart.min(1), atol=1e-12)
    assert a["uniqueness"]["equal"] == 40 - len(np.unique(t, axis=0))
    assert a["uniqueness"]["equal_float16"] == 40 - len(np.unique(t.astype("f2"), axis=0))
    assert np.allclose(a["resolution"]["distance"], np.abs(np.diff(t, axis=0)).T, atol=1e-12)


def test_decay_of_any_bias(client):
    bias = RNG.normal(size=(3, 9, 9))
    a = client.analyze(bias, "decay")["analysis"]["decay"]
    assert np.allclose(a["curve"], bias[:, -1, ::-1] - bias[:, -1, -1:], atol=1e-15)
    reach = [int(np.argmax(c <= -1)) if (c <= -1).any() else None for c in bias[:, -1, ::-1] - bias[:, -1, -1:]]
    assert a["reaches_minus_1"] == reach


def test_spectrum(client):
    edges = np.array([[0, 1, 2, 3, 5], [1, 2, 3, 0, 6]])
    a = client.analyze("laplacian", "spectrum", graph={"num_nodes": 7, "edge_index": edges}, k=4, skip="none")["analysis"]["spectrum"]
    assert a["components"] == 3 and a["zero_eigenvalues"] == 2  # that of the isolated node is 1
    r = client.encode("laplacian", graph={"num_nodes": 7, "edge_index": edges}, k=4, skip="none", dtype="float64")
    v = r["eigenvectors"]
    assert np.allclose(a["eigenvalue"], r["eigenvalues"])
    assert np.allclose(a["participation"], (v ** 2).sum(0) ** 2 / (v ** 4).sum(0) / 7)


# ---- doors ----

ASKS = [("sinusoidal", {"embedding_dim": 8, "num_positions": 40}, {"what": "norms,shift", "offsets": "1,2"}),
        ("rope", {"head_dim": 8, "num_positions": 40, "rope_type": "linear", "factor": 4}, {"what": "frequencies,decay"}),
        ("alibi", {"num_heads": 4, "seq_length": 12, "form": "symmetric"}, {})]


@pytest.mark.parametrize("name, params, own", ASKS, ids=[a[0] for a in ASKS])
def test_doors_agree(server, wire, name, params, own):
    query = "&".join(f"{k}={v}" for k, v in {**params, **own}.items())
    status, headers, body = ask(f"{server.url}/v1/encodings/{name}/analysis.json?{query}")
    assert status == 200, body
    before = server.metric("posenc_computations_total", encoding="analysis")
    posted = ask(f"{server.url}/v1/encodings/{name}/analysis.json", json.dumps(
        {**params, **{k: [float(x) for x in v.split(",")] if k == "offsets" else v.split(",") for k, v in own.items()}}).encode(),
        **{"Content-Type": "application/json"})
    assert posted[0] == 200 and posted[2] == body
    assert posted[1]["Content-Location"] == f"/v1/results/{json.loads(body)['digest']}.json"
    assert ask(server.url + posted[1]["Content-Location"])[2] == body
    request = wire.message("posenc.v1.AnalyzeRequest")()
    request.of.CopyFrom(wire.request(name, params))
    for k, v in own.items():
        field = request.analysis.DESCRIPTOR.fields_by_name[k]
        values = [float(x) if k == "offsets" else field.enum_type.values_by_name[x.upper()].number for x in v.split(",")]
        getattr(request.analysis, k).extend(values)
    answer = wire.call("posenc.v1.EncodingService.Analyze", request)
    assert answer.analysis_json.encode() == body and not answer.picture
    assert server.metric("posenc_computations_total", encoding="analysis") == before   # one request, computed once
    words = [f"{k}={v}" for k, v in {**params, **own}.items()]
    here = subprocess.run([BUILD / "posenc", "analyze", name, *words, "--format", "json"], capture_output=True, check=True)
    there = subprocess.run([BUILD / "posenc", "analyze", name, *words, "--format", "json", "--url", server.url], capture_output=True, check=True)
    assert here.stdout == there.stdout == body + b"\n"
    for picture in ("png", "svg"):
        drawn = ask(f"{server.url}/v1/encodings/{name}/analysis.{picture}?{query}")
        assert drawn[0] == 200 and drawn[1]["Content-Type"] == {"png": "image/png", "svg": "image/svg+xml"}[picture]
        request.picture = request.DESCRIPTOR.enum_types_by_name["Picture"].values_by_name[picture.upper()].number
        assert wire.call("posenc.v1.EncodingService.Analyze", request).picture == drawn[2]
        there = subprocess.run([BUILD / "posenc", "analyze", name, *words, "--format", picture], capture_output=True, check=True)
        assert there.stdout == drawn[2]


def test_caching(server):
    url = server.url + "/v1/encodings/sinusoidal/analysis.svg?embedding_dim=6&num_positions=31&what=norms"
    status, headers, body = ask(url)
    assert status == 200 and headers["Cache-Status"] == "posenc; fwd=miss"
    again = ask(url)
    assert again[1]["Cache-Status"] == "posenc; hit; detail=memory" and again[2] == body
    assert ask(url, **{"If-None-Match": headers["ETag"]})[0] == 304
    zipped = ask(url, **{"Accept-Encoding": "gzip"})
    assert zipped[1]["Content-Encoding"] == "gzip" and zlib.decompress(zipped[2], 31) == body
    head = urllib.request.urlopen(urllib.request.Request(url, method="HEAD"))
    assert int(head.headers["Content-Length"]) == len(body)
    explained = json.loads(ask(url.replace(".svg", ".json") + "&explain=true")[2])
    assert explained["encoding"] == "analysis" and explained["cached"] == "memory" and " of=sinusoidal/" in explained["key"]


def test_tables_of_every_kind(server, wire, client):
    t = LEARNED.astype("f4")
    status, headers, body = ask(server.url + "/v1/analysis.json?what=norms,uniqueness", npy(t), **{"Content-Type": "application/x-npy"})
    assert status == 200, body
    b = io.BytesIO()
    np.savez(b, table=t)
    assert ask(server.url + "/v1/analysis.json?what=norms,uniqueness", b.getvalue(), **{"Content-Type": "application/x-npz"})[2] == body
    request = wire.message("posenc.v1.AnalyzeRequest")()
    request.analysis.what.extend([0, 5])
    wire.tensor(request.analysis.table.inline, t)
    assert wire.call("posenc.v1.EncodingService.Analyze", request).analysis_json.encode() == body
    assert client.analyze(t, ["uniqueness", "norms"]) == json.loads(body)
    assert client.analyze(t, "norms", picture="png")[:4] == b"\x89PNG"
    fortran = np.asfortranarray(t)
    assert ask(server.url + "/v1/analysis.json?what=norms,uniqueness", npy(fortran), **{"Content-Type": "application/x-npy"})[2] == body


def test_table_of_a_learned_encoding(server, client):
    """`table` is the encoding's where it has one."""
    t = LEARNED[:20]
    a = client.analyze("learned_extend", "norms", table=t, new_length=20, method="linear")
    assert np.allclose(a["analysis"]["norms"]["row_norm"], np.linalg.norm(t, axis=1)) and a["params"]["of"]["encoding"] == "learned_extend"


def test_help(server):
    about = json.loads(ask(server.url + "/v1/analysis")[2])
    assert {w["name"] for w in about["what"]} >= {"norms", "attention_probe"}
    out = subprocess.run([BUILD / "posenc", "analyze", "--help"], capture_output=True, text=True, check=True).stdout
    for what in about["what"]:
        assert what["title"] in out and all(f["name"] in out for f in what["fields"])


# ---- pictures ----

def pixels(body):
    """(height, width, 3) of an 8-bit RGB png without filters."""
    assert body[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, size = 8, b"", None
    while at < len(body):
        n = int.from_bytes(body[at:at + 4], "big")
        name, chunk = body[at + 4:at + 8], body[at + 8:at + 8 + n]
        assert int.from_bytes(body[at + 8 + n:at + 12 + n], "big") == zlib.crc32(name + chunk)
        if name == b"IHDR":
            size = int.from_bytes(chunk[:4], "big"), int.from_bytes(chunk[4:8], "big")
            assert chunk[8:] == b"\x08\x02\0\0\0"
        data += chunk if name == b"IDAT" else b""
        at += 12 + n
    rows = np.frombuffer(zlib.decompress(data), "u1").reshape(size[1], 1 + 3 * size[0])
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(size[1], size[0], 3)


def test_heat_map(server):
    url = server.url + "/v1/encodings/sinusoidal/table"
    image = pixels(ask(url + ".png?embedding_dim=16&num_positions=24")[2])
    assert (image[0] == 255).all() and len(np.unique(image.reshape(-1, 3), axis=0)) > 50
    svg = ask(url + ".svg?embedding_dim=16&num_positions=24&rows=4:10")[2]
    root = xml.fromstring(svg)
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"sinusoidal: table", "column", "row", "6 x 16, float32"} <= set(texts)
    assert ask(url + ".svg?embedding_dim=16&num_positions=24&rows=4:10")[2] == svg


@pytest.mark.parametrize("query, status, field, says", [
    ("alibi/bias.png?num_heads=2&seq_length=4&form=symmetric", 400, "format", "one or two axes"),
    ("rope.png?head_dim=8&num_positions=4", 400, "tensor", "one of"),
    ("sinusoidal/table.png?embedding_dim=4096&num_positions=5000", 400, "format", "rows="),
    ("sinusoidal/analysis.npy?embedding_dim=8&num_positions=9", 400, "format", "json, png or svg"),
    ("sinusoidal/analysis.json?embedding_dim=8&num_positions=9&rows=0:2", 400, "rows", ""),
    ("sinusoidal/analysis.json?embedding_dim=8&num_positions=9&what=decay", 400, "what", "for rows"),
    ("sinusoidal/analysis.json?embedding_dim=8&num_positions=9&train_lenght=3", 400, "train_lenght", "train_length"),
    ("sinusodal/analysis.json", 404, "encoding", "sinusoidal"),
    ("sinusoidal/analysis.json?embedding_dim=8&num_positions=1", 400, "table", "at least 2 rows"),
    ("t5_bucket/analysis.json?query_length=4&key_length=4", 400, "encoding", "a table of reals"),
    ("laplacian/analysis.json?k=2", 400, "graph", "POST"),
    ("sinusoidal/analysis", 404, "path", ".json .png or .svg")])
def test_refusals(server, query, status, field, says):
    got = ask(f"{server.url}/v1/encodings/{query}")
    problem = json.loads(got[2])
    assert got[0] == status and problem["errors"][0]["field"] == field and says in problem["errors"][0]["allowed"], problem


def test_bodies_refused(server):
    nan = LEARNED.copy()
    nan[3, 2] = np.nan
    for body, media, field in ((npy(nan), "application/x-npy", "table[3][2]"), (npy(LEARNED[:1]), "application/x-npy", "table"),
                               (npy(LEARNED[:, :0]), "application/x-npy", "table"), (b"x", "application/x-npy", "body"),
                               (b"{}", "application/json", "table"), (b"", "text/plain", "Content-Type")):
        got = ask(server.url + "/v1/analysis.json", body, **{"Content-Type": media})
        assert got[0] in (400, 415) and json.loads(got[2])["errors"][0]["field"] == field, got
    got = ask(server.url + "/v1/encodings/sinusoidal.npy", npy(LEARNED), **{"Content-Type": "application/x-npy"})
    assert got[0] == 415   # only where a table is asked about


def test_grpc_refusals(wire):
    request = wire.message("posenc.v1.AnalyzeRequest")()
    request.of.CopyFrom(wire.request("sinusoidal", {"embedding_dim": 8, "num_positions": 9}))
    request.of.tensors.append("table")
    with pytest.raises(grpc.RpcError) as e:
        wire.call("posenc.v1.EncodingService.Analyze", request)
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "of.tensors" in e.value.details()
    with pytest.raises(grpc.RpcError) as e:
        wire.call("posenc.v1.EncodingService.Analyze", wire.message("posenc.v1.AnalyzeRequest")())
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "table" in e.value.details()


def test_deadline(server):
    got = ask(server.url + "/v1/encodings/sinusoidal/analysis.json?embedding_dim=512&num_positions=9000&what=uniqueness,subspace",
              **{"Request-Timeout": "0.2"})
    assert got[0] == 504 and json.loads(got[2])["reason"] == "DEADLINE_EXCEEDED"


def test_threads_change_no_byte():
    words = ["analyze", "sinusoidal", "embedding_dim=64", "num_positions=700", "what=similarity,uniqueness", "--format", "json"]
    one, three = (subprocess.run([BUILD / "posenc", *words, "--threads", n], capture_output=True, check=True).stdout for n in "13")
    assert one == three
