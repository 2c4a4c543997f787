"""The gRPC door as foreign clients see it. Message classes come from the server's own reflection."""
import concurrent.futures
import json
import os
import signal
import socket
import threading
import time

import grpc
import numpy as np
import pytest

import rpc
from conftest import Server

ENCODE = "posenc.v1.EncodingService.Encode"
SLOW = float(os.environ.get("POSENC_TEST_SANITIZED") is not None) * 10 + 1      # how much longer things may take
CODE = grpc.StatusCode


@pytest.fixture(scope="module")
def client(server):
    c = rpc.Client(server.grpc)
    yield c
    c.channel.close()


def long_request(client, seed=0, n=2500):
    """A dense eigenproblem of many seconds; each seed is a computation of its own."""
    edges = np.random.default_rng(seed).integers(0, n, (2, 4 * n))
    return client.request("laplacian", {"k": 8, "solver": "dense", "seed": seed, "sign": "random"},
                          graph={"num_nodes": n, "edge_index": edges, "directed": True})


def refused(client, request, path=ENCODE, **kw):
    with pytest.raises(grpc.RpcError) as e:
        client.call(path, request, **kw)
    return e.value


def eventually(ask, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ask():
            return True
        time.sleep(0.02)
    return False


def counted(server, before, **labels):
    """handled_total is counted after the client has its answer."""
    return eventually(lambda: server.metric("grpc_server_handled_total", **labels) > before)


# ---- answers ----

def test_stream_has_the_bytes_of_the_unary_answer(client):
    g = {"num_nodes": 400, "edge_index": np.random.default_rng(1).integers(0, 400, (2, 900)), "directed": True}
    for q in (client.request("sinusoidal", {"embedding_dim": 96, "num_positions": 1500}),
              client.request("laplacian", {"k": 5}, graph=g)):
        unary = client.call(ENCODE, q)
        header, data = client.stream(q)
        assert data == b"".join(t.data for t in unary.tensors)
        assert [(t.name, t.dtype, list(t.shape)) for t in header.tensors] == [(t.name, t.dtype, list(t.shape)) for t in unary.tensors]
        assert (header.encoding, header.revision, header.digest, header.params_json) == (
            unary.encoding, unary.revision, unary.digest, unary.params_json)


def test_a_large_answer_is_streamed_and_refused_as_one_message(client):
    q = client.request("sinusoidal", {"embedding_dim": 512, "num_positions": 16384})
    header, data = client.stream(q)
    assert len(data) == 512 * 16384 * 4 and list(header.tensors[0].shape) == [16384, 512]
    e = refused(client, q)
    status, details = client.details(e)
    assert e.code() == CODE.INVALID_ARGUMENT and details["ErrorInfo"].reason == "LIMIT_EXCEEDED"
    assert "EncodeStream" in e.details() and "max_grpc_unary" in e.details()
    part = client.call(ENCODE, client.request("sinusoidal", {"embedding_dim": 512, "num_positions": 16384},
                                              rows_begin=9000, rows_end=9100))
    assert part.tensors[0].data == data[9000 * 2048:9100 * 2048]


def test_default_clients_can_read_whatever_encode_sends(server, client):
    q = client.request("sinusoidal", {"embedding_dim": 512, "num_positions": 1790})     # 3.5 MiB less a little
    with grpc.insecure_channel(server.grpc, [("grpc.use_local_subchannel_pool", 1)]) as plain:
        assert len(plain.unary_unary("/posenc.v1.EncodingService/Encode")(q.SerializeToString(), timeout=30)) > 3.4 * 2**20


def test_chunks_are_of_the_published_size(client):
    limits = client.call("posenc.v1.EncodingService.GetCapabilities").limits
    q = client.request("sinusoidal", {"embedding_dim": 100, "num_positions": 5000})
    sizes = [len(c.data) for c in client.call("posenc.v1.EncodingService.EncodeStream", q)][1:]
    assert set(sizes[:-1]) == {limits.stream_chunk} and 0 < sizes[-1] <= limits.stream_chunk


def test_selection(client):
    g = {"num_nodes": 30, "edge_index": np.random.default_rng(2).integers(0, 30, (2, 80)), "directed": True}
    whole = client.call(ENCODE, client.request("laplacian", {"k": 4}, graph=g))
    some = client.call(ENCODE, client.request("laplacian", {"k": 4}, graph=g, tensors=["num_zero", "eigenvectors"]))
    assert [t.name for t in some.tensors] == ["eigenvectors", "num_zero"] and some.digest == whole.digest
    rows = client.request("laplacian", {"k": 4}, graph=g, tensors=["eigenvectors"], rows_begin=7, rows_end=20)
    cut = client.encode(rows)["eigenvectors"]
    assert cut.shape == (13, 4) and np.array_equal(cut, client.array(whole.tensors[0])[7:20])
    assert client.stream(rows)[1] == cut.tobytes()
    none = client.request("laplacian", {"k": 4}, graph=g, tensors=["eigenvectors"], rows_begin=30)
    assert client.encode(none)["eigenvectors"].shape == (0, 4)

    e = refused(client, client.request("laplacian", {"k": 4}, graph=g, tensors=["eigenvector"]))
    status, details = client.details(e)
    assert e.code() == CODE.NOT_FOUND and details["ResourceInfo"].resource_name == "eigenvector" and "eigenvectors" in e.details()
    assert details["ErrorInfo"].reason == "UNKNOWN_TENSOR" and details["ErrorInfo"].metadata["field"] == "tensors[0]"
    e = refused(client, client.request("laplacian", {"k": 4}, graph=g, tensors=["num_zero", "num_zero", "x", "y"]))
    status, details = client.details(e)      # all faults at once; what does not exist is the gravest
    assert e.code() == CODE.NOT_FOUND and details["ResourceInfo"].resource_name == "x"
    for bad in ({"tensors": ["num_zero", "num_zero"]}, {"rows_begin": 1}, {"tensors": ["eigenvectors"], "rows_end": 31},
                {"tensors": ["eigenvectors"], "rows_begin": -1}, {"tensors": ["eigenvectors"], "rows_begin": 5, "rows_end": 4}):
        assert refused(client, client.request("laplacian", {"k": 4}, graph=g, **bad)).code() == CODE.INVALID_ARGUMENT, bad


def test_empty_answers(client):
    q = client.request("sinusoidal", {"embedding_dim": 8, "num_positions": 0})
    assert client.encode(q)["table"].shape == (0, 8)
    assert client.stream(q)[1] == b""
    g = client.encode(client.request("laplacian", {"k": 3}, graph={"num_nodes": 0, "edge_index": []}))
    assert g["eigenvectors"].shape == (0, 3)


def test_dtypes(client):
    got = {d: client.encode(client.request("sinusoidal", {"embedding_dim": 8, "num_positions": 50, "dtype": d}))["table"]
           for d in ("float64", "float32", "float16", "bfloat16")}
    for d, allow in (("float32", 1e-7), ("float16", 1e-3), ("bfloat16", 1e-2)):
        assert np.abs(got[d].astype(float) - got["float64"]).max() < allow
    e = refused(client, client.request("sinusoidal", {"embedding_dim": 8, "num_positions": 50, "dtype": "int64"}))
    assert e.code() == CODE.INVALID_ARGUMENT and "dtype" in e.details() and "bfloat16" in e.details()


def test_trailing_metadata_says_where_it_came_from(client):
    q = client.request("sinusoidal", {"embedding_dim": 24, "num_positions": 777, "offset": 31})
    words = []
    for _ in range(2):
        answer, call = client.method(ENCODE).with_call(q, timeout=30)
        trailing = dict(call.trailing_metadata())
        assert trailing["posenc-digest"] == answer.digest
        words.append(trailing["posenc-cache"])
    assert words == ["miss", "hit"]


def test_explain_computes_nothing(server, client):
    before = server.metric("posenc_computations_total")
    q = client.request("sinusoidal", {"embedding_dim": 24, "num_positions": 123456}, explain=True)
    answer = client.call(ENCODE, q)
    story = json.loads(answer.explanation)
    assert not answer.tensors and story["digest"] == answer.digest and story["bytes"] == 24 * 123456 * 4 and story["cached"] == "no"
    assert client.stream(q)[0].explanation == answer.explanation
    assert server.metric("posenc_computations_total") == before


def test_list_encodings_and_capabilities(server, client):
    listed = client.call("posenc.v1.EncodingService.ListEncodings").encodings
    rest = {e["name"]: e for e in json.loads(server.get("/v1/encodings"))["encodings"]}
    assert [e.name for e in listed] == list(rest)
    for e in listed:
        assert (e.title, e.family, e.formula, e.revision, e.example) == tuple(rest[e.name][k] for k in ("title", "family", "formula", "revision", "example"))
        assert [p.name for p in e.parameters][:-2] == [p["name"] for p in rest[e.name]["parameters"]][:len(e.parameters) - 2]
        assert [o.name for o in e.outputs] == [o["name"] for o in rest[e.name]["outputs"]]
    c = client.call("posenc.v1.EncodingService.GetCapabilities")
    served = json.loads(server.get("/v1/capabilities"))
    assert {f.name: v for f, v in c.limits.ListFields()} == {f.name: served["limits"][f.name] for f in c.limits.DESCRIPTOR.fields}
    assert {e.name: e.revision for e in c.encodings} == served["encodings"] and list(c.formats) == served["formats"]


# ---- errors ----

def test_all_faults_at_once_with_details(client):
    r = client.request("sinusoidal", {"embedding_dim": 0, "num_positions": -5, "max_period": float("inf")})
    r.sinusoidal.positions.extend([1.0, float("nan")])
    e = refused(client, r)
    status, details = client.details(e)
    fields = [v.field for v in details["BadRequest"].field_violations]
    assert e.code() == CODE.INVALID_ARGUMENT and status.code == 3 and status.message == e.details()
    assert {"embedding_dim", "num_positions", "max_period", "positions[1]"} <= set(fields)
    assert details["ErrorInfo"].domain == "posenc" and details["ErrorInfo"].reason == "INVALID_PARAMETER"
    assert details["ErrorInfo"].metadata["field"] == fields[0]


@pytest.mark.parametrize("make, field", [
    (lambda c: c.EncodeRequest(), "encoding"),
    (lambda c: c.request("sinusoidal"), "embedding_dim"),
    (lambda c: c.request("laplacian", {"k": 2}), "graph"),
    (lambda c: c.request("sinusoidal", {"embedding_dim": 4, "num_positions": 1}, graph={"num_nodes": 1, "edge_index": []}), "graph"),
    (lambda c: c.request("laplacian", {"k": 2}, graph={"num_nodes": 3, "edge_index": [[0, 1], [1, 3]]}), "graph.edge_index"),
    (lambda c: c.request("laplacian", {"k": 2}, graph={"num_nodes": 3, "edge_index": [[0], [1]], "edge_weight": [1, 2]}),
     "graph.edge_weight"),
    (lambda c: c.request("laplacian", {"k": 2}, graph={"num_nodes": 3, "edge_index": [], "ptr": [0, 2]}), "graph.ptr"),
    (lambda c: c.request("sinusoidal", {"embedding_dim": 4}, {"input_ids": np.zeros((2,) * 9, int)}), "input_ids"),
])
def test_a_fault_names_its_field(client, make, field):
    e = refused(client, make(client))
    status, details = client.details(e)
    fields = [v.field for v in details["BadRequest"].field_violations]
    assert e.code() == CODE.INVALID_ARGUMENT and any(f.startswith(field) for f in fields), (e.details(), fields)


def test_odd_lists_and_tensors(client):
    r = client.request("laplacian", {"k": 2}, graph={"num_nodes": 3, "edge_index": []})
    r.graph.edge_index.append(1)
    assert "graph.edge_index" in refused(client, r).details()
    r = client.request("sinusoidal", {"embedding_dim": 4})
    r.sinusoidal.input_ids.inline.shape.extend([2, 3])
    r.sinusoidal.input_ids.inline.data = b"123"
    assert "input_ids.data" in refused(client, r).details()
    r.sinusoidal.input_ids.inline.shape[:] = [2**62, 2**62]
    assert "input_ids.shape" in refused(client, r).details()
    r.sinusoidal.input_ids.Clear()
    r.sinusoidal.input_ids.SetInParent()
    assert "input_ids" in refused(client, r).details()
    r.sinusoidal.input_ids.table = "nothing"
    e = refused(client, r)
    assert e.code() == CODE.NOT_FOUND and client.details(e)[1]["ResourceInfo"].resource_name == "nothing"


def raw(client, data, method="Encode", **kw):
    return client.channel.unary_unary(f"/posenc.v1.EncodingService/{method}")(data, timeout=30, **kw)


def raw_refused(client, data, **kw):
    with pytest.raises(grpc.RpcError) as e:
        raw(client, data, **kw)
    return e.value


def test_unknown_fields_and_enum_numbers_are_errors(client):
    good = client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 2}).SerializeToString()
    raw(client, good)
    e = raw_refused(client, good + rpc.varint(900 << 3) + b"\x01")
    assert e.code() == CODE.INVALID_ARGUMENT and "field 900" in e.details()
    inner = b"\x10\x04\x18\x02"                              # embedding_dim=4, num_positions=2
    assert raw(client, rpc.field(1, inner))
    assert "field 99" in raw_refused(client, rpc.field(1, inner + rpc.varint(99 << 3) + b"\x01")).details()
    e = raw_refused(client, rpc.field(1, inner + rpc.varint(14 << 3) + b"\x4d"))       # layout = 77
    assert "layout" in e.details() and "77" in e.details() and "interleaved, split" in e.details()
    graph = rpc.field(2, b"") + rpc.varint(1001 << 3 | 2) + b"\x04\x08\x03\x48\x01"     # graph {num_nodes: 3, field 9: 1}
    assert "graph.field 9" in raw_refused(client, graph).details()


def test_another_revision_is_gone(client):
    e = refused(client, client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 2}, rev=77))
    status, details = client.details(e)
    assert e.code() == CODE.NOT_FOUND and details["ErrorInfo"].reason == "REVISION_GONE" and details["ResourceInfo"].resource_type == "rev"


def test_garbage(client):
    for data in (b"\x0a\xff\xff", b"\xff" * 100, os.urandom(3000), b"\x0a\x05\x08"):
        e = raw_refused(client, data)
        assert e.code() == CODE.INVALID_ARGUMENT and client.details(e)[1]["ErrorInfo"].domain == "posenc"


def test_hostile_values_do_not_reach_the_details_raw(client):
    message = client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 2})
    data = message.SerializeToString() + rpc.varint(1004 << 3 | 2) + b"\x06\xff\xfe\n\r\x01\x80"       # a tensor's name
    status, details = client.details(raw_refused(client, data))
    assert status.code == 5 and details["ResourceInfo"].resource_name == "??????"


def test_details_stay_under_8_kib(client):
    r = client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 2}, tensors=["x" * 3000 + str(i) for i in range(50)])
    e = refused(client, r)
    assert len(dict(e.trailing_metadata())["grpc-status-details-bin"]) * 4 / 3 + len(e.details()) < 8000
    assert "more" in e.details()


def test_a_message_that_unpacks_to_much_more_is_refused(client):
    e = raw_refused(client, (rpc.varint(1004 << 3 | 2) + b"\x00") * 400000)      # tensors: "" 400,000 times
    assert e.code() == CODE.INVALID_ARGUMENT and client.details(e)[1]["ErrorInfo"].reason == "LIMIT_EXCEEDED"


@pytest.mark.parametrize("encoding", ["sinusoidal", "laplacian"])
def test_no_size_around_the_memory_of_a_request_is_too_much(start_server, encoding):
    """Wherever in its reading a request runs out of memory, it is refused and the server goes on."""
    server = start_server("--max-request-memory", "65536")
    c = rpc.Client(server.grpc)
    answers = set()
    for n in range(4, 9000, 40 if SLOW > 1 else 7):
        if encoding == "sinusoidal":
            q = c.request("sinusoidal", {"embedding_dim": 2, "positions": [0.0] * n})
        else:
            path = np.arange(n // 2)
            q = c.request("laplacian", {"k": 1}, graph={"num_nodes": n // 2 + 1, "edge_index": np.stack([path, path + 1])})
        try:
            c.call(ENCODE, q)
            answers.add("OK")
        except grpc.RpcError as e:
            assert c.details(e)[1]["ErrorInfo"].domain == "posenc", (n, e.details())
            answers.add(e.code())
    assert {"OK", CODE.UNAVAILABLE} <= answers <= {"OK", CODE.UNAVAILABLE, CODE.INVALID_ARGUMENT}
    c.close()


def test_oversize_request(client):
    """A graph of 10^6 nodes: the error says which setting takes it, up to what REST takes; gRPC itself refuses the rest."""
    e = raw_refused(client, b"x" * (5 << 20))
    assert e.code() == CODE.RESOURCE_EXHAUSTED and e.details().startswith("message: got 5242880 bytes, allowed: at most 4194304 bytes")
    assert "max_grpc_message" in e.details() and "67108864 (setting max_body)" in e.details()
    assert client.details(e)[1]["ErrorInfo"].reason == "LIMIT_EXCEEDED"
    assert raw_refused(client, b"x" * (65 << 20)).code() == CODE.RESOURCE_EXHAUSTED


def test_large_request(client):
    positions = np.random.default_rng(3).integers(0, 10**6, 200000).astype(float)
    got = client.stream(client.request("sinusoidal", {"embedding_dim": 4, "positions": positions.tolist()}))
    assert len(got[1]) == 200000 * 4 * 4


def test_compressed_requests_are_refused(client):
    q = client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 1000}).SerializeToString() * 40
    assert raw_refused(client, q, compression=grpc.Compression.Gzip).code() == CODE.UNIMPLEMENTED


def test_unimplemented(client):
    for path in ("/posenc.v1.EncodingService/Nope", "/nope.Nope/Nope", "/x"):
        with pytest.raises(grpc.RpcError) as e:
            client.channel.unary_unary(path)(b"", timeout=10)
        assert e.value.code() == CODE.UNIMPLEMENTED
        assert client.details(e.value)[1]["ErrorInfo"].reason == "UNIMPLEMENTED"


# ---- deadlines, cancellation ----

def test_deadline(server, client):
    def ended():        # the client's own reset may be faster than the server's clock
        return sum(server.metric("grpc_server_handled_total", grpc_method="Encode", grpc_code=c)
                   for c in ("DEADLINE_EXCEEDED", "CANCELLED"))

    before = ended()
    stopped = server.metric("posenc_cancelled_total")
    t0 = time.monotonic()
    e = refused(client, long_request(client, 1), timeout=0.4)
    assert e.code() == CODE.DEADLINE_EXCEEDED and time.monotonic() - t0 < 0.4 + 0.6 * SLOW
    assert eventually(lambda: ended() > before)
    assert eventually(lambda: server.metric("posenc_cancelled_total") > stopped)


@pytest.mark.parametrize("path", [ENCODE, "posenc.v1.EncodingService.EncodeStream"])
def test_cancel_stops_the_computation(server, client, path):
    name = path.rsplit(".", 1)[1]
    before = server.metric("grpc_server_handled_total", grpc_method=name, grpc_code="CANCELLED")
    stopped = server.metric("posenc_cancelled_total")
    q = long_request(client, 2 + len(name))
    started = server.metric("posenc_computations_total", encoding="laplacian")
    call = client.method(path).future(q) if path == ENCODE else client.method(path)(q)
    assert eventually(lambda: server.metric("posenc_computations_total", encoding="laplacian") > started)
    call.cancel()
    t0 = time.monotonic()
    assert eventually(lambda: server.metric("posenc_cancelled_total") > stopped)
    assert time.monotonic() - t0 < 0.5 * SLOW
    assert counted(server, before, grpc_method=name, grpc_code="CANCELLED")


def test_who_waits_beside_one_that_cancels_gets_the_answer(server, client):
    q = long_request(client, 7, 250)
    first = client.method(ENCODE).future(q, timeout=60)
    time.sleep(0.05)
    others = [client.method(ENCODE).future(q, timeout=60) for _ in range(3)]
    time.sleep(0.05)
    first.cancel()
    answers = {f.result().tensors[0].data for f in others}
    assert len(answers) == 1


def test_a_reader_that_stops_does_not_stop_others(client):
    q = client.request("sinusoidal", {"embedding_dim": 1024, "num_positions": 4096})
    stalled = [client.method("posenc.v1.EncodingService.EncodeStream")(q, timeout=60) for _ in range(4)]
    for s in stalled:
        next(iter(s))
    t0 = time.monotonic()
    for i in range(50):
        client.encode(client.request("sinusoidal", {"embedding_dim": 64, "num_positions": 10 + i}))
    assert time.monotonic() - t0 < 5 * SLOW
    for s in stalled:
        s.cancel()


def test_many_threads(client):
    q = client.request("sinusoidal", {"embedding_dim": 64, "num_positions": 256})
    want = client.encode(q)["table"].tobytes()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for f in [pool.submit(lambda: client.encode(q)["table"].tobytes()) for _ in range(600)]:
            assert f.result() == want


# ---- health, reflection ----

def health(client, method, service=None):
    m = client.message("grpc.health.v1.HealthCheckRequest")(service=service or "")
    return client.call(f"grpc.health.v1.Health.{method}", m, timeout=10)


def test_health(client):
    for service in ("", *rpc.services(client.channel)):
        assert health(client, "Check", service).status == 1
        watch = health(client, "Watch", service)
        assert next(watch).status == 1
        watch.cancel()
    with pytest.raises(grpc.RpcError) as e:
        health(client, "Check", "no.such")
    assert e.value.code() == CODE.NOT_FOUND
    watch = health(client, "Watch", "no.such")
    assert next(watch).status == 3
    watch.cancel()


def test_reflection(client):
    names = rpc.services(client.channel, "v1")
    assert names == rpc.services(client.channel, "v1alpha") and "posenc.v1.EncodingService" in names
    questions = [(rpc.BY_SYMBOL, s) for s in ("posenc.v1.EncodingService.Encode", "posenc.v1.Laplacian.Skip.Word", "posenc.v1.DType",
                                              "posenc.v1.Laplacian.k", "google.rpc.ErrorInfo.MetadataEntry", "grpc.health.v1.Health")]
    questions += [(rpc.BY_FILE, "posenc/v1/tensor.proto"), (rpc.BY_SYMBOL, "posenc.v1.Nope"), (rpc.BY_SYMBOL, "posenc"),
                  (rpc.BY_FILE, "nope.proto"), (6, "posenc.v1.Tensor"), (6, "nope"), (rpc.LIST, "*")]
    kinds = []
    for version in ("v1", "v1alpha"):
        answers = rpc.reflect(client.channel, version, questions)
        kinds.append([k for k, _ in answers])
        assert all(dict(rpc.fields(body))[1] == 5 for k, body in answers if k == rpc.ERROR)
    assert kinds[0] == kinds[1] == [rpc.FILES] * 7 + [rpc.ERROR] * 3 + [rpc.EXTENSIONS, rpc.ERROR, rpc.SERVICES]


def test_a_client_from_v1alpha_alone(server):
    c = rpc.Client(server.grpc, "v1alpha")
    assert c.encode(c.request("sinusoidal", {"embedding_dim": 4, "num_positions": 3}))["table"].shape == (3, 4)
    c.channel.close()


def test_reflection_survives_nonsense(client):
    call = client.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    answers = list(call(iter([b"\xff\xff", b"", rpc.field(4, b"x" * 20000), rpc.field(7, b"")]), timeout=10))
    assert [n for a in answers for n, _ in rpc.fields(a) if n > 2] == [rpc.ERROR] * 3 + [rpc.SERVICES]


# ---- metrics ----

def test_metrics(server, client):
    labels = {"grpc_method": "Encode", "grpc_service": "posenc.v1.EncodingService", "grpc_type": "unary"}
    started = server.metric("grpc_server_started_total", **labels)
    handled = server.metric("grpc_server_handled_total", grpc_code="OK", **labels)
    timed = server.metric("grpc_server_handling_seconds_count", **labels)
    client.encode(client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 3}))
    assert counted(server, handled, grpc_code="OK", **labels)
    assert server.metric("grpc_server_started_total", **labels) == started + 1
    assert server.metric("grpc_server_handling_seconds_count", **labels) == timed + 1


# ---- the log ----

@pytest.mark.parametrize("level", ["info", "debug"])
def test_what_clients_do_wrong_is_logged_at_debug_only(start_server, level):
    server = start_server("--log-level", level)
    c = rpc.Client(server.grpc)
    good = {"embedding_dim": 4, "num_positions": 2}
    assert refused(c, c.request("sinusoidal", {"embedding_dim": 0})).code() == CODE.INVALID_ARGUMENT
    assert refused(c, c.request("sinusoidal", good, tensors=["nope"])).code() == CODE.NOT_FOUND
    assert refused(c, long_request(c, 21), timeout=0.3).code() == CODE.DEADLINE_EXCEEDED
    assert eventually(lambda: any(server.metric("grpc_server_handled_total", grpc_method="Encode", grpc_code=x)
                                  for x in ("DEADLINE_EXCEEDED", "CANCELLED")))
    lines = [x for x in server.log.read_text().splitlines() if " event=grpc " in x and "grpc_code=OK" not in x]
    if level == "info":
        assert not lines
    else:
        assert {"INVALID_ARGUMENT", "NOT_FOUND"} <= {x.split("grpc_code=")[1].split()[0] for x in lines} and len(lines) == 3
        assert all("level=debug" in x for x in lines)
    c.close()


# ---- connections ----

def connect(server, data=b""):
    host, port = server.grpc.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=30)
    s.sendall(data)
    return s


def closed(s, seconds):
    """True when the peer closes within that time."""
    s.settimeout(seconds)
    try:
        while s.recv(4096):
            pass
        return True
    except socket.timeout:
        return False
    except ConnectionError:
        return True


HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)


def test_what_is_not_http2_is_closed_at_once(server):
    for data in (b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", b"\x16\x03\x01" + bytes(200), HELLO[:24] + bytes(50)):
        with connect(server, data) as s:
            assert closed(s, 2 * SLOW)


@pytest.mark.slow
def test_a_silent_connection_is_closed_in_ten_seconds(server):
    socks = [connect(server), connect(server, HELLO[:10]), connect(server, HELLO[:-1])]
    t0 = time.monotonic()
    assert all(closed(s, 15) for s in socks)
    assert 8 < time.monotonic() - t0 < 13


def test_caps_on_connections(start_server):
    server = start_server("--connections-per-address", "8")
    open_ones = [connect(server, HELLO) for _ in range(8)]
    time.sleep(0.2)
    with connect(server, HELLO) as s:
        assert closed(s, 2 * SLOW)
    assert not closed(open_ones[0], 0.2)
    for s in open_ones:
        s.close()
    assert eventually(lambda: works(server))


def works(server):
    try:
        c = rpc.Client(server.grpc)
        c.encode(c.request("sinusoidal", {"embedding_dim": 4, "num_positions": 3}), timeout=10)
        c.channel.close()
        return True
    except grpc.RpcError:
        return False


def test_running_out_of_descriptors_does_not_kill_the_listener(start_server):
    server = start_server(prefix=("prlimit", "--nofile=150:150"))
    for _ in range(2):
        socks = [connect(server, HELLO) for _ in range(300)]
        time.sleep(0.5)
        for s in socks:
            s.close()
        assert eventually(lambda: works(server))
    assert server.get("/livez")


# ---- the end ----

def test_stop_lets_calls_finish_and_ends_streams():
    server = Server()
    c = rpc.Client(server.grpc)
    watch = health(c, "Watch")
    assert next(watch).status == 1
    parked = c.method(ENCODE).future(long_request(c, 11, 250), timeout=60)
    time.sleep(0.1)
    heard = []

    def listen():
        try:
            heard.extend(m.status for m in watch)
        except grpc.RpcError as e:
            heard.append(e.code())

    t = threading.Thread(target=listen)
    t.start()
    assert server.stop() == 0
    t.join(10)
    assert heard == [2, CODE.UNAVAILABLE]
    assert parked.result().tensors[0].name == "eigenvectors"


def test_leaving_is_not_ready_and_still_serves():
    """After SIGTERM, for drain_delay_ms: watchers are told, Check says NOT_SERVING, calls on old and new connections are
    served."""
    server = Server("--drain-delay-ms", "3000" if SLOW == 1 else "6000")
    c = rpc.Client(server.grpc)
    watch = health(c, "Watch")
    assert next(watch).status == 1
    server.process.send_signal(signal.SIGTERM)
    assert next(watch).status == 2
    assert health(c, "Check").status == health(c, "Check", "posenc.v1.EncodingService").status == 2
    for n, client in enumerate((c, c.twin())):
        assert client.encode(client.request("sinusoidal", {"embedding_dim": 4, "num_positions": 40 + n}))["table"].shape == (40 + n, 4)
        assert len(client.call("posenc.v1.EncodingService.ListEncodings").encodings)
        late = health(client, "Watch")
        assert next(late).status == 2
        late.cancel()
        client is c or client.close()
    assert server.process.poll() is None
    with pytest.raises(grpc.RpcError) as e:
        next(watch)
    assert e.value.code() == CODE.UNAVAILABLE
    assert server.process.wait(30) == 0 and server.stop() == 0


def test_watches_that_begin_while_watchers_are_told(start_server):
    """What is told first is the status, never SERVICE_UNKNOWN: a Watch is listed before its service has been read."""
    server = start_server()
    c = rpc.Client(server.grpc)
    end = time.monotonic() + 1.5            # the door tells every half second
    while time.monotonic() < end:
        watches = [health(c, "Watch", "posenc.v1.EncodingService") for _ in range(20)]
        assert {next(w).status for w in watches} == {1}
        for w in watches:
            w.cancel()
    c.close()


def test_stop_cuts_what_takes_too_long():
    server = Server("--drain-timeout-ms", "300")
    c = rpc.Client(server.grpc)
    parked = c.method(ENCODE).future(long_request(c, 12), timeout=60)
    q = c.request("sinusoidal", {"embedding_dim": 1024, "num_positions": 4096})
    stalled = c.method("posenc.v1.EncodingService.EncodeStream")(q, timeout=60)
    next(iter(stalled))
    time.sleep(0.2)
    t0 = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - t0 < 3 * SLOW
    assert parked.exception(10).code() in (CODE.UNAVAILABLE, CODE.CANCELLED)
