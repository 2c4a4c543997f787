"""One request, two doors, one cache: every encoding gives the same bytes and digest whichever way it is asked."""
import io
import json
import struct
import urllib.error
import urllib.parse
import urllib.request

import grpc
import numpy as np
import pytest
import rpc
from bodies import json_body, safetensors

ENCODE = "posenc.v1.EncodingService.Encode"


@pytest.fixture(scope="module")
def client(server):
    c = rpc.Client(server.grpc)
    yield c
    c.close()


def encodings(server):
    return json.loads(server.get("/v1/encodings"))["encodings"]


def post(server, path, body, media="application/json"):
    r = urllib.request.Request(server.url + path, body, {"Content-Type": media})
    return urllib.request.urlopen(r, timeout=60)


def typed(descriptor, query):
    """The example's query string as typed parameters."""
    kinds = {p["name"]: p["type"] for p in descriptor["parameters"]}
    read = {"int": int, "real": float, "bool": lambda v: v == "true", "enum": str, "text": str,
            "reals": lambda v: [float(x) for x in v.split(",")], "tensor": json.loads}
    return {name: read[kinds[name]](value) for name, value in urllib.parse.parse_qsl(query.replace(" ", "&"))}


def npz(data):
    return dict(np.load(io.BytesIO(data)))


def streamed(client, q):
    header, data = client.stream(q)
    at, out = 0, {}
    for t in header.tensors:
        size = int(np.prod(list(t.shape), dtype=np.int64)) * np.dtype(rpc.DTYPES[t.dtype]).itemsize
        out[t.name] = client.array(t, data[at:at + size])
        at += size
    assert at == len(data)
    return header.digest, out


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
        assert a[name].tobytes() == b[name].tobytes(), name


def test_sweep(server, client):
    """GET, POST as JSON, POST as safetensors, Encode and EncodeStream: one digest, one computation, the same bytes."""
    names = [e["name"] for e in encodings(server)]
    assert names == [e.name for e in client.call("posenc.v1.EncodingService.ListEncodings").encodings]
    for e in encodings(server):
        name, params = e["name"], typed(e, e["example"])
        graph = e.get("example_graph")
        path = f"/v1/encodings/{name}.npz"
        with post(server, path, json.dumps(json_body(params, graph=graph)).encode()) as r:
            by_json, digest = npz(r.read()), r.headers["Content-Location"].split("/")[3].split(".")[0]
        before = server.metric("posenc_computations_total")
        query = urllib.parse.urlencode(urllib.parse.parse_qsl(e["example"]))
        answers = [npz(server.get(f"/v1/results/{digest}.npz"))]
        if graph:
            tensors = {"edge_index": np.array(graph["edge_index"], np.int64)}
            with post(server, f"{path}?{query}&num_nodes={graph['num_nodes']}", safetensors(tensors), "application/vnd.safetensors") as r:
                answers.append(npz(r.read()))
        else:
            answers.append(npz(server.get(f"{path}?{query}")))
        q = client.request(name, params, graph=graph)
        answer, call = client.method(ENCODE).with_call(q)
        assert answer.digest == digest
        answers.append({t.name: client.array(t) for t in answer.tensors})
        trailers = dict(call.trailing_metadata())
        assert trailers["posenc-cache"] == "hit" and trailers["posenc-digest"] == digest
        stream_digest, tensors = streamed(client, q)
        assert stream_digest == digest
        answers.append(tensors)
        for a in answers:
            a.pop("__posenc__.json", None)
            same({k: v for k, v in by_json.items() if k != "__posenc__.json"}, a)
        assert server.metric("posenc_computations_total") == before, f"{name} was computed again"


BAD = [   # encoding, parameters, graph, field in the fault
    ("sinusoidal", {"num_positions": 4}, None, "embedding_dim"),
    ("sinusoidal", {"embedding_dim": 0, "num_positions": 4}, None, "embedding_dim"),
    ("sinusoidal", {"embedding_dim": 7, "num_positions": 4}, None, "embedding_dim"),
    ("sinusoidal", {"embedding_dim": 8}, None, "num_positions"),
    ("sinusoidal", {"embedding_dim": 1 << 20, "num_positions": 1 << 50}, None, None),
    ("laplacian", {"k": 2}, None, "graph"),
    ("laplacian", {"k": 0}, {"num_nodes": 2, "edge_index": [[0], [1]]}, "k"),
    ("laplacian", {"k": 2}, {"num_nodes": 2, "edge_index": [[0], [2]]}, "graph.edge_index[1][0]"),
    ("laplacian", {"k": 2}, {"num_nodes": 2, "edge_index": [[0, 1], [1, 0]], "edge_weight": [1.0, 2.0]}, "graph.edge_"),
    ("laplacian", {"k": 2}, {"num_nodes": 2, "edge_index": [[0], [1]], "edge_weight": [-1.0]}, "graph.edge_weight[0]"),
    ("laplacian", {"k": 2, "max_freqs": 2}, {"num_nodes": 2, "edge_index": [[0], [1]]}, "max_freqs"),
    ("sinusoidal", {"embedding_dim": 8, "num_positions": 4}, {"num_nodes": 2, "edge_index": [[0], [1]]}, "graph"),
]


@pytest.mark.parametrize("case", BAD, ids=range(len(BAD)))
def test_bad_requests_agree(server, client, case):
    """The same fault over both doors: field, status, reason."""
    encoding, params, graph, field = case
    with pytest.raises(urllib.error.HTTPError) as e:
        post(server, f"/v1/encodings/{encoding}.npz", json.dumps(json_body(params, graph=graph)).encode())
    problem = json.loads(e.value.read())
    assert e.value.code == problem["status"] == 400
    assert e.value.headers["Content-Type"] == "application/problem+json"
    if field:
        assert any(f["field"].startswith(field) for f in problem["errors"]), problem
    assert all(f["allowed"] and f["reason"] for f in problem["errors"])
    with pytest.raises(grpc.RpcError) as g:
        client.encode(client.request(encoding, params, graph=graph))
    assert g.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    _, d = client.details(g.value)
    assert d["ErrorInfo"].domain == "posenc" and d["ErrorInfo"].reason == problem["reason"]
    assert {v.field for v in d["BadRequest"].field_violations} == {f["field"] for f in problem["errors"]}


SELECTIONS = [   # tensors asked for; fields in the faults; reason of the first; status
    ("tabel", {"tensors[0]"}, "UNKNOWN_TENSOR", 404),
    ("table,tabel", {"tensors[1]"}, "UNKNOWN_TENSOR", 404),
    ("table,table", {"tensors[1]"}, "DUPLICATE_PARAMETER", 400),
    ("table,tabel,table", {"tensors[1]", "tensors[2]"}, "UNKNOWN_TENSOR", 404),
]


@pytest.mark.parametrize("case", SELECTIONS, ids=range(len(SELECTIONS)))
def test_bad_selections(client, case):
    """The same for the names of tensors: over gRPC,"""
    tensors, fields, reason, status = case
    with pytest.raises(grpc.RpcError) as g:
        client.encode(client.request("sinusoidal", {"embedding_dim": 8, "num_positions": 4}, tensors=tensors.split(",")))
    _, d = client.details(g.value)
    assert g.value.code() == {400: grpc.StatusCode.INVALID_ARGUMENT, 404: grpc.StatusCode.NOT_FOUND}[status]
    assert d["ErrorInfo"].reason == reason and d["ErrorInfo"].metadata["field"] == min(fields)
    if "BadRequest" in d:
        assert {v.field for v in d["BadRequest"].field_violations} == fields


@pytest.mark.parametrize("case", SELECTIONS, ids=range(len(SELECTIONS)))
def test_bad_selections_over_rest(server, case):
    """and over REST."""
    tensors, fields, reason, status = case
    with pytest.raises(urllib.error.HTTPError) as e:
        server.get(f"/v1/encodings/sinusoidal.npz?embedding_dim=8&num_positions=4&tensors={tensors}")
    problem = json.loads(e.value.read())
    assert e.value.code == status and problem["reason"] == reason
    assert {f["field"] for f in problem["errors"]} == fields


def test_one_nan(server, client, start_server):
    """NaN is NaN, whatever its bits: the digest and the bytes of REST's word, also where each computes for itself."""
    graph = {"num_nodes": 3, "edge_index": [[0, 1], [1, 2]]}
    odd = struct.unpack("<d", struct.pack("<Q", 0xfff8000000000001))[0]
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        q = client.request("laplacian", {"k": 5, "pad_value": odd, "dtype": dtype}, graph=graph)
        assert bytes.fromhex("010000000000f8ff") in q.SerializeToString()
        with post(server, "/v1/encodings/laplacian.npz", json.dumps(json_body({"k": 5, "pad_value": "nan", "dtype": dtype}, graph=graph)).encode()) as r:
            digest, by_rest = r.headers["Content-Location"].split("/")[3].split(".")[0], npz(r.read())
        other = start_server()
        alone = rpc.Client(other.grpc)
        assert dict(client.method(ENCODE).with_call(q)[1].trailing_metadata())["posenc-cache"] == "hit"
        answers = []
        for c, word in ((client, "hit"), (alone, "miss")):
            answer, call = c.method(ENCODE).with_call(q)
            assert answer.digest == digest and dict(call.trailing_metadata())["posenc-cache"] == word
            answers.append({t.name: t.data for t in answer.tensors})
        assert answers[0] == answers[1]
        assert np.isnan(client.array(answer.tensors[0])[:, 3:]).all()
        if dtype != "bfloat16":     # npz widens it
            assert answers[1] == {name: a.tobytes() for name, a in by_rest.items() if name != "__posenc__.json"}
        alone.close()


def test_not_found_suggests(server, client):
    with pytest.raises(urllib.error.HTTPError) as e:
        server.get("/v1/encodings/sinusiodal.npz?embedding_dim=8&num_positions=2")
    assert e.value.code == 404 and "sinusoidal" in e.value.read().decode()
    with pytest.raises(grpc.RpcError) as g:
        client.encode(client.request("sinusoidal", {"embedding_dim": 8, "num_positions": 2}, rev=99))
    assert g.value.code() == grpc.StatusCode.NOT_FOUND and client.details(g.value)[1]["ErrorInfo"].reason == "REVISION_GONE"


def test_dtypes(server, client):
    """The four element types round the same float64 once; bfloat16 travels as float32 in npz."""
    params = {"embedding_dim": 16, "num_positions": 50}
    exact = npz(server.get("/v1/encodings/sinusoidal.npz?embedding_dim=16&num_positions=50&dtype=float64"))["table"]
    for dtype in ("float32", "float64", "float16"):
        a = npz(server.get(f"/v1/encodings/sinusoidal.npz?embedding_dim=16&num_positions=50&dtype={dtype}"))["table"]
        assert a.dtype == dtype and np.array_equal(a, exact.astype(dtype))
    b = client.encode(client.request("sinusoidal", {**params, "dtype": "bfloat16"}))["table"]
    widened = npz(server.get("/v1/encodings/sinusoidal.npz?embedding_dim=16&num_positions=50&dtype=bfloat16"))["table"]
    assert np.array_equal(b, widened) and np.abs(widened - exact).max() < 2 ** -8


def test_rows_and_tensors(server, client):
    whole = npz(server.get("/v1/encodings/sinusoidal.npz?embedding_dim=16&num_positions=50"))["table"]
    part = np.load(io.BytesIO(server.get("/v1/encodings/sinusoidal/table.npy?embedding_dim=16&num_positions=50&rows=10:20")))
    assert np.array_equal(part, whole[10:20])
    q = client.request("sinusoidal", {"embedding_dim": 16, "num_positions": 50}, rows_begin=10, rows_end=20)
    assert np.array_equal(client.encode(q)["table"], part)


def test_explain_computes_nothing(server, client):
    before = server.metric("posenc_computations_total")
    e = json.loads(server.get("/v1/encodings/sinusoidal.npz?embedding_dim=1022&num_positions=1234&explain=true"))
    assert e["tensors"]["table"]["shape"] == [1234, 1022] and e["cached"] == "no" and e["key"].startswith("sinusoidal/3 ")
    q = client.request("sinusoidal", {"embedding_dim": 1022, "num_positions": 1234}, explain=True)
    assert json.loads(client.call(ENCODE, q).explanation)["digest"] == e["digest"]
    assert server.metric("posenc_computations_total") == before


def test_warnings_travel(server, client):
    """In json, in the Posenc-Warning header of other containers, in gRPC: the same sentence."""
    graph = {"num_nodes": 3, "edge_index": [[0, 1], [1, 2]]}
    body = json.dumps(json_body({"max_freqs": 1}, graph=graph)).encode()
    with post(server, "/v1/encodings/laplacian.json", body) as r:
        warnings = json.loads(r.read())["warnings"]
    assert len(warnings) == 1 and "trivial" in warnings[0]
    with post(server, "/v1/encodings/laplacian.npz", body) as r:
        assert r.headers.get_all("Posenc-Warning") == warnings
    assert list(client.call(ENCODE, client.request("laplacian", {"max_freqs": 1}, graph=graph)).warnings) == warnings
