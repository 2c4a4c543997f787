"""The REST door: containers, caching, ranges, errors, limits, clients that leave, running out of descriptors."""
import base64
import gzip
import hashlib
import http.client
import io
import json
import os
import re
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import requests

BAD = json.loads((Path(__file__).parent / "bad_requests.json").read_text())
Q = "embedding_dim=6&num_positions=5"
PATH = f"/v1/encodings/sinusoidal.npy?{Q}"
SIZED = ["npy", "npz", "safetensors", "bin"]
TEXT = ["json", "csv"]


def ask(server, method, target, body=None, headers=None, timeout=60):
    """One request on its own connection, the target exactly as given: status, headers, body."""
    c = http.client.HTTPConnection(server.http, timeout=timeout)
    try:
        c.putrequest(method, target, skip_accept_encoding=True)
        if body is not None:
            c.putheader("Content-Length", str(len(body)))
        for k, v in (headers or {}).items():
            c.putheader(k, v)
        c.endheaders(body)
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def get(server, target, **headers):
    return ask(server, "GET", target, headers={k.replace("_", "-"): v for k, v in headers.items()})


def post(server, target, doc, **headers):
    return ask(server, "POST", target, json.dumps(doc).encode(),
               {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}})


def safetensors(data):
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    kinds = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I32": "<i4", "I64": "<i8", "U8": "|u1", "I16": "<i2"}
    return {k: np.frombuffer(data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in head.items() if k != "__metadata__"}


def pack_safetensors(tensors):
    kinds = {"int64": "I64", "float32": "F32", "float64": "F64"}
    head, at = {}, 0
    for k, v in tensors.items():
        head[k] = {"dtype": kinds[str(v.dtype)], "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values())


def read(ext, headers, data, name="table"):
    """The tensor of any container as an array."""
    if ext == "npy":
        return np.load(io.BytesIO(data))
    if ext == "npz":
        return np.load(io.BytesIO(data))[name]
    if ext == "safetensors":
        return safetensors(data)[name]
    if ext == "bin":
        return np.frombuffer(data, headers["Posenc-Dtype"]).reshape([int(x) for x in headers["Posenc-Shape"].split(",")])
    if ext == "csv":
        return np.loadtxt(io.BytesIO(data), delimiter=",", dtype=np.float32, ndmin=2)
    t = json.loads(data)["tensors"][name]
    return np.array(t["data"], t["dtype"]).reshape(t["shape"])


def expected(dim=6, n=5):
    a = np.arange(n)[:, None] / 10000.0 ** (np.arange(0, dim, 2) / dim)
    out = np.empty((n, dim))
    out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
    return out.astype(np.float32)


def grid(rows, cols):
    """A graph whose spectrum takes a while to compute."""
    ids = np.arange(rows * cols).reshape(rows, cols)
    e = np.concatenate([np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()]), np.stack([ids[:-1].ravel(), ids[1:].ravel()])], 1)
    return {"num_nodes": rows * cols, "edge_index": e.tolist()}


def fresh(_n=[0]):
    """A number that no other request of this run used: its result is not cached."""
    _n[0] += 1
    return 100000 + _n[0]


# ---- containers ----

@pytest.mark.parametrize("ext", SIZED + TEXT)
def test_containers(server, ext):
    for tensor in ("", "/table"):
        status, headers, data = get(server, f"/v1/encodings/sinusoidal{tensor}.{ext}?{Q}")
        assert status == 200
        np.testing.assert_allclose(read(ext, headers, data), expected(), rtol=0, atol=1e-7)
        assert headers["Content-Length"] == str(len(data))
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Repr-Digest"] == "sha-256=:" + base64.b64encode(hashlib.sha256(data).digest()).decode() + ":"
        assert ("no-transform" in headers["Cache-Control"]) == (ext in SIZED)
        assert re.fullmatch(r"[0-9a-f]{64}", headers["Posenc-Digest"])


@pytest.mark.parametrize("ext", SIZED + TEXT)
def test_rows(server, ext):
    status, headers, data = get(server, f"/v1/encodings/sinusoidal.{ext}?{Q}&rows=1:3")
    assert status == 200
    np.testing.assert_allclose(read(ext, headers, data), expected()[1:3], rtol=0, atol=1e-7)
    whole = get(server, f"/v1/encodings/sinusoidal.{ext}?{Q}")[1]["ETag"]
    assert headers["ETag"] != whole


def test_json_forms(server):
    tags = set()
    for form in ("nested", "flat", "base64"):
        status, headers, data = get(server, f"/v1/encodings/sinusoidal.json?{Q}&data={form}")
        t = json.loads(data)["tensors"]["table"]["data"]
        tags.add(headers["ETag"])
        a = np.frombuffer(base64.b64decode(t), "<f4") if form == "base64" else np.array(t, np.float32).ravel()
        np.testing.assert_allclose(a, expected().ravel(), rtol=0, atol=1e-7)
    assert len(tags) == 3


def test_bfloat16(server):
    _, headers, data = get(server, PATH + "&dtype=bfloat16")
    assert headers["Posenc-Dtype"] == "bfloat16"
    a = np.load(io.BytesIO(data))
    assert a.dtype == np.float32 and np.abs(a - expected()).max() < 0.01
    _, headers, data = get(server, PATH.replace(".npy", ".bin") + "&dtype=bfloat16")
    assert headers["Posenc-Dtype"] == "bfloat16" and headers["Posenc-Shape"] == "5,6" and len(data) == 60


def test_spelling_is_one_result(server):
    """Order, spelling of numbers, and the door's method do not change the result."""
    n = fresh()
    a = get(server, f"/v1/encodings/sinusoidal.npy?embedding_dim=8&num_positions=4&offset={n}&max_period=10000")[1]
    b = get(server, f"/v1/encodings/sinusoidal.npy?max_period=1e4&offset={n}.0&num%5Fpositions=4&embedding_dim=8")[1]
    c = post(server, "/v1/encodings/sinusoidal.npy", {"embedding_dim": 8, "num_positions": 4.0, "offset": n, "max_period": 1e4})[1]
    assert a["ETag"] == b["ETag"] == c["ETag"]
    assert a["Cache-Status"] == "posenc; fwd=miss"
    assert b["Cache-Status"] == c["Cache-Status"] == "posenc; hit; detail=memory"


def test_repeated_list(server):
    a = get(server, "/v1/encodings/sinusoidal.npy?embedding_dim=4&positions=1,2&positions=3")
    b = get(server, "/v1/encodings/sinusoidal.npy?embedding_dim=4&positions=1,2,3")
    assert a[0] == b[0] == 200 and a[2] == b[2]


def test_long_numbers_are_read_whole(server):
    a = get(server, f"/v1/encodings/sinusoidal.npy?embedding_dim=4&positions=1{'0' * 70}e-68,-0.{'0' * 70}3e71")
    b = get(server, "/v1/encodings/sinusoidal.npy?embedding_dim=4&positions=100,-3")
    assert a[0] == b[0] == 200 and a[2] == b[2] and a[1]["ETag"] == b[1]["ETag"]


# ---- POST ----

GRAPH = {"num_nodes": 5, "edge_index": [[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]}


def test_post_bodies_agree(server):
    """JSON, safetensors and npz give the same bytes, and a Content-Location that GET finds."""
    e = np.array(GRAPH["edge_index"], np.int64)
    stored = io.BytesIO()
    np.savez(stored, edge_index=e)
    answers = [post(server, "/v1/encodings/laplacian/eigenvalues.npy", {"k": 2, "graph": GRAPH})]
    for media, body in (("application/vnd.safetensors", pack_safetensors({"edge_index": e})), ("application/x-npz", stored.getvalue())):
        answers.append(ask(server, "POST", "/v1/encodings/laplacian/eigenvalues.npy?k=2&num_nodes=5&directed=false", body, {"Content-Type": media}))
    assert [a[0] for a in answers] == [200] * 3
    assert answers[0][2] == answers[1][2] == answers[2][2]
    where = answers[0][1]["Content-Location"]
    assert where == f"/v1/results/{answers[0][1]['Posenc-Digest']}/eigenvalues.npy"
    status, headers, data = get(server, where)
    assert (status, data) == (200, answers[0][2])
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable, no-transform"
    assert headers["ETag"] == answers[0][1]["ETag"]
    whole = get(server, f"/v1/results/{answers[0][1]['Posenc-Digest']}.npz")
    assert "eigenvectors" in np.load(io.BytesIO(whole[2])).files


def test_content_location_keeps_the_selection(server):
    status, headers, data = post(server, "/v1/encodings/laplacian.json?tensors=eigenvectors&rows=1:3&data=flat", {"k": 2, "graph": GRAPH})
    assert status == 200 and list(json.loads(data)["tensors"]) == ["eigenvectors"]
    again = get(server, headers["Content-Location"])
    assert again[0] == 200 and again[2] == data and again[1]["ETag"] == headers["ETag"]


def test_large_body(server):
    """Larger than what is parsed on the door's own thread; sent whole and in chunks."""
    p = list(range(fresh(), fresh() + 40000))
    body = json.dumps({"embedding_dim": 4, "positions": p}).encode()
    assert len(body) > 200000
    want = ask(server, "POST", "/v1/encodings/sinusoidal.npy", body, {"Content-Type": "application/json"})
    assert want[0] == 200 and np.load(io.BytesIO(want[2])).shape == (len(p), 4)
    chunks = (body[i:i + 10007] for i in range(0, len(body), 10007))
    r = requests.post(server.url + "/v1/encodings/sinusoidal.npy", data=chunks, headers={"Content-Type": "application/json"}, timeout=60)
    assert r.status_code == 200 and r.content == want[2]


def test_refused_upload_is_drained(server):
    """A refusal known from the head comes after the body, on a connection that lives on."""
    with requests.Session() as s:
        for _ in range(2):
            r = s.post(server.url + "/v1/encodings/nope.npy", data=b"x" * 3000000, headers={"Content-Type": "application/json"}, timeout=60)
            assert r.status_code == 404 and "close" not in r.headers.get("Connection", "")


def test_expect_continue(server):
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as s:
        head = "POST /v1/encodings/{}.npy HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n"
        s.sendall(head.format("nope").encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 404 ")     # the body is never asked for
    with socket.create_connection((host, int(port)), timeout=10) as s:
        s.sendall(head.format("sinusoidal").encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 100 ")
        s.sendall(b'{"embedding_dim": 4, "num_positions": 3}')
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_body_over_the_limit(start_server):
    s = start_server("--max-body", "4096")
    body = json.dumps({"embedding_dim": 4, "positions": [1] * 3000}).encode()
    status, _, data = ask(s, "POST", "/v1/encodings/sinusoidal.npy", body, {"Content-Type": "application/json"})
    assert status == 413 and json.loads(data)["reason"] == "LIMIT_EXCEEDED"


# ---- HTTP caching ----

@pytest.mark.parametrize("ext", SIZED)
def test_head_and_304_have_the_length_of_200(server, ext):
    n = fresh()
    target = f"/v1/encodings/sinusoidal.{ext}?embedding_dim=4&num_positions=7&offset={n}"
    before = server.metric("posenc_computations_total")
    head = ask(server, "HEAD", target)
    assert head[0] == 200 and head[2] == b"" and "Repr-Digest" not in head[1] and "Cache-Status" not in head[1]
    not_modified = get(server, target, If_None_Match=head[1]["ETag"])
    assert not_modified[0] == 304 and not_modified[2] == b"" and "Cache-Status" not in not_modified[1]
    assert server.metric("posenc_computations_total") == before      # from the digest alone
    status, headers, data = get(server, target)
    assert status == 200 and headers["ETag"] == head[1]["ETag"]
    for r in (head, not_modified, ask(server, "HEAD", target), get(server, target, If_None_Match="*")):
        assert r[1]["Content-Length"] == str(len(data))
        for name in ("ETag", "Cache-Control", "Vary", "Posenc-Digest", "Content-Type", "Accept-Ranges"):
            assert r[1][name] == headers[name], name
    again = ask(server, "HEAD", target)[1]
    assert again["Repr-Digest"] == headers["Repr-Digest"] and again["Cache-Status"] == "posenc; hit; detail=memory"


@pytest.mark.parametrize("ext", TEXT)
def test_text_lengths_need_the_cache(server, ext):
    target = f"/v1/encodings/sinusoidal.{ext}?embedding_dim=4&num_positions=7&offset={fresh()}"
    status, headers, data = ask(server, "HEAD", target)
    assert status == 200 and "Content-Length" not in headers and headers["Connection"] == "close" and data == b""
    assert get(server, target, If_None_Match=headers["ETag"])[0] == 200
    status, headers, data = get(server, target)
    assert ask(server, "HEAD", target)[1]["Content-Length"] == str(len(data))
    r = get(server, target, If_None_Match=headers["ETag"])
    assert r[0] == 304 and r[1]["Content-Length"] == str(len(data)) and r[1]["Cache-Control"] == headers["Cache-Control"]


def test_keep_alive_survives_304_and_head(server):
    c = http.client.HTTPConnection(server.http, timeout=10)
    c.request("GET", PATH)
    r = c.getresponse()
    data, tag = r.read(), r.headers["ETag"]
    sock = c.sock
    for method, headers, status in (("GET", {"If-None-Match": tag}, 304), ("HEAD", {}, 200), ("GET", {}, 200), ("GET", {"Range": "bytes=1-2"}, 206),
                                    ("GET", {"Range": "bytes=999999-"}, 416), ("HEAD", {"If-None-Match": tag}, 304), ("GET", {}, 200)):
        c.request(method, PATH, headers=headers)
        r = c.getresponse()
        got = r.read()
        assert r.status == status
        assert got == (data if (method, status) == ("GET", 200) else data[1:3] if status == 206 else got)
    assert c.sock is sock                # one connection all along
    c.close()


@pytest.mark.parametrize("value,status", [("{tag}", 304), ("W/{tag}", 304), ('"x", {tag}', 304), ('W/"x",W/{tag}', 304), ("*", 304),
                                          ('"x"', 200), ("{tag}x", 304), ("garbage", 200)])
def test_if_none_match(server, value, status):
    tag = get(server, PATH)[1]["ETag"]
    if value == "{tag}x":                # in a field of its own
        c = http.client.HTTPConnection(server.http, timeout=10)
        c.putrequest("GET", PATH)
        c.putheader("If-None-Match", '"x"')
        c.putheader("If-None-Match", tag)
        c.endheaders()
        assert c.getresponse().status == 304
        c.close()
        return
    assert get(server, PATH, If_None_Match=value.replace("{tag}", tag))[0] == status


def test_if_match(server):
    tag = get(server, PATH)[1]["ETag"]
    assert get(server, PATH, If_Match=tag)[0] == 200
    status, _, data = get(server, PATH, If_Match='"x"')
    assert status == 412 and json.loads(data)["code"] == "FAILED_PRECONDITION"
    assert get(server, PATH, If_Match="W/" + tag)[0] == 412


def test_cache_control(server):
    assert get(server, PATH)[1]["Cache-Control"] == "public, max-age=300, stale-while-revalidate=86400, no-transform"
    assert get(server, PATH + "&rev=3")[1]["Cache-Control"] == "public, max-age=31536000, immutable, no-transform"
    assert get(server, "/v1/encodings")[1]["Cache-Control"] == "no-cache"
    assert get(server, "/nope")[1]["Cache-Control"] == "no-store"


def test_errors_come_before_preconditions(server):
    assert get(server, "/v1/encodings/sinusoidal.npy?embedding_dim=0", If_None_Match="*")[0] == 400
    assert get(server, f"/v1/results/{'0' * 64}.npy", If_None_Match="*")[0] == 404


def test_server_timing_and_status(server):
    n = fresh()
    target = f"/v1/encodings/sinusoidal.npy?embedding_dim=4&num_positions=7&offset={n}"
    timing = get(server, target)[1]["Server-Timing"]
    assert re.fullmatch(r"queue;dur=[\d.]+, compute;dur=[\d.]+, encode;dur=[\d.]+", timing)
    assert float(timing.split("compute;dur=")[1].split(",")[0]) > 0
    assert "compute;dur=0.000" in get(server, target)[1]["Server-Timing"]


def test_twenty_at_once_compute_once(server):
    doc = {"k": 3, "graph": grid(30, 31 + fresh() % 7)}
    body = json.dumps(doc).encode()
    before = server.metric("posenc_computations_total", encoding="laplacian")
    answers = []

    def one():
        answers.append(ask(server, "POST", "/v1/encodings/laplacian/eigenvectors.npy", body, {"Content-Type": "application/json"}))
    threads = [threading.Thread(target=one) for _ in range(20)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert {a[0] for a in answers} == {200} and len({a[2] for a in answers}) == 1
    assert server.metric("posenc_computations_total", encoding="laplacian") == before + 1
    words = [a[1]["Cache-Status"] for a in answers]
    assert words.count("posenc; fwd=miss") >= 1
    assert set(words) <= {"posenc; fwd=miss", "posenc; hit; detail=memory", "posenc; fwd=miss; collapsed"}


# ---- ranges ----

@pytest.mark.parametrize("ext", SIZED)
def test_ranges(server, ext):
    target = f"/v1/encodings/sinusoidal.{ext}?{Q}"
    _, headers, data = get(server, target)
    n = len(data)
    assert headers["Accept-Ranges"] == "bytes"
    for text, a, b in ((f"0-{n - 1}", 0, n), ("0-0", 0, 1), (f"{n - 1}-", n - 1, n), ("-5", n - 5, n), (f"-{n + 9}", 0, n), (f"7-{n + 9}", 7, n),
                       ("100-110", 100, 111)):
        status, h, part = get(server, target, Range=f"bytes={text}")
        assert status == 206 and part == data[a:b] and h["Content-Range"] == f"bytes {a}-{b - 1}/{n}", text
        assert h["ETag"] == headers["ETag"] and h["Repr-Digest"] == headers["Repr-Digest"]
    for text in (f"{n}-", "-0"):
        status, h, body = get(server, target, Range=f"bytes={text}")
        assert status == 416 and h["Content-Range"] == f"bytes */{n}" and json.loads(body)["reason"] == "RANGE_NOT_SATISFIABLE"
    for text in ("bytes=5-2", "bytes=0-1,4-5", "lines=1-2", "bytes=x-"):
        assert get(server, target, Range=text)[0] == 200
    assert get(server, target, Range="bytes=1-2", If_Range=headers["ETag"])[0] == 206
    assert get(server, target, Range="bytes=1-2", If_Range="W/" + headers["ETag"])[0] == 200
    assert get(server, target, Range="bytes=1-2", If_Range='"x"')[0] == 200
    assert get(server, target, Range="bytes=1-2", If_Range="Mon, 01 Jan 2024 00:00:00 GMT")[0] == 200
    assert ask(server, "HEAD", target, headers={"Range": "bytes=1-2"})[0] == 200
    every = b"".join(get(server, target, Range=f"bytes={i}-{i + 36}")[2] for i in range(0, n, 37))
    assert every == data                 # over every border between pieces


def test_range_of_rows_and_of_text(server):
    _, _, data = get(server, PATH + "&rows=1:3")
    assert get(server, PATH + "&rows=1:3", Range="bytes=120-140")[2] == data[120:141]
    assert get(server, PATH.replace(".npy", ".json"), Range="bytes=0-1")[0] == 200


# ---- compression ----

def test_gzip(server):
    for target in (f"/v1/encodings/sinusoidal.json?embedding_dim=64&num_positions=50&offset={fresh()}",
                   f"/v1/encodings/sinusoidal.csv?embedding_dim=64&num_positions=900&offset={fresh()}", "/v1/encodings"):
        plain = get(server, target)
        status, headers, data = get(server, target, Accept_Encoding="gzip")
        assert status == 200 and headers["Content-Encoding"] == "gzip" and gzip.decompress(data) == plain[2]
        assert headers["Vary"] == "Accept-Encoding" and headers["Content-Length"] == str(len(data)) and len(data) < len(plain[2])
        assert headers["ETag"] == "W/" + plain[1]["ETag"]
        r = get(server, target, Accept_Encoding="gzip", If_None_Match=headers["ETag"])
        assert r[0] == 304 and r[1]["Content-Length"] == str(len(data)) and r[1]["ETag"] == headers["ETag"]
        r = ask(server, "HEAD", target, headers={"Accept-Encoding": "gzip"})
        assert r[1]["Content-Length"] == str(len(data)) and r[1]["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in get(server, PATH, Accept_Encoding="gzip")[1]
    assert "Content-Encoding" not in get(server, "/v1/encodings", Accept_Encoding="gzip;q=0")[1]


# ---- the small routes ----

def test_pages(server):
    assert b"/v1/encodings/{name}.{ext}" in get(server, "/")[2]
    _, headers, data = get(server, "/v1/encodings")
    names = [e["name"] for e in json.loads(data)["encodings"]]
    assert "sinusoidal" in names
    assert get(server, "/v1/encodings", If_None_Match=headers["ETag"])[0] == 304
    for name in names:
        d = json.loads(get(server, f"/v1/encodings/{name}")[2])
        assert d["name"] == name and d["schema"]["type"] == "object"
    capabilities = json.loads(get(server, "/v1/capabilities")[2])
    assert capabilities["limits"]["max_json_elements"] == 65536 and capabilities["encodings"]["sinusoidal"] >= 1
    assert json.loads(get(server, "/version")[2])["name"] == "posencd"


def test_probes(server):
    assert get(server, "/livez")[:1] == (200,)
    assert get(server, "/startupz")[0] == 200
    assert get(server, "/readyz")[0] == 200
    assert b"phase: serving" in get(server, "/readyz?verbose")[2]
    for path in ("/livez", "/readyz", "/startupz", "/version", "/metrics", "/", "/v1/encodings", "/v1/capabilities"):
        r = ask(server, "HEAD", path)
        assert r[0] == 200 and r[2] == b"" and int(r[1]["Content-Length"]) > 0, path


def test_explain_computes_nothing(server):
    before = server.metric("posenc_computations_total")
    status, headers, data = get(server, f"/v1/encodings/sinusoidal.npy?embedding_dim=8&num_positions=4&offset={fresh()}&explain=true")
    d = json.loads(data)
    assert status == 200 and d["cached"] == "no" and d["tensors"]["table"]["shape"] == [4, 8] and d["key"].startswith("sinusoidal/")
    assert post(server, "/v1/encodings/laplacian.npz?explain=true", {"k": 2, "graph": GRAPH})[0] == 200
    assert server.metric("posenc_computations_total") == before


def test_metrics_count_templates(server):
    route = "/v1/encodings/{name}.{ext}"
    before = server.metric("posenc_http_requests_total", route=route, code="200", method="GET")
    lost = server.metric("posenc_http_requests_total", route="unmatched", code="404")
    get(server, PATH)
    get(server, "/some/client/path")
    assert server.metric("posenc_http_requests_total", route=route, code="200", method="GET") == before + 1
    assert server.metric("posenc_http_requests_total", route="unmatched", code="404") == lost + 1
    text = get(server, "/metrics")[2].decode()
    assert "/some/client" not in text and f'posenc_http_request_duration_seconds_count{{route="{route}"}}' in text
    assert "posenc_open_connections" in text and "posenc_http_in_flight" in text


def test_admin_listener(start_server):
    with socket.socket() as probe:       # a free port; the daemon does not print this one
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    s = start_server("--admin", f"127.0.0.1:{port}")
    assert get(s, "/metrics")[0] == 404 and get(s, "/livez")[0] == 200 and get(s, PATH)[0] == 200
    s.http = f"127.0.0.1:{port}"
    assert get(s, "/metrics")[0] == 200 and get(s, "/livez")[0] == 200 and get(s, PATH)[0] == 404


# ---- errors ----

@pytest.mark.parametrize("case", BAD, ids=[c["name"] for c in BAD])
def test_bad_requests(server, case):
    target = re.sub(r"\{(\d+)\}", lambda m: "x" * int(m[1]), case["target"])
    body = json.dumps(case["json"]).encode() if "json" in case else case["body"].encode() if "body" in case else None
    headers = dict(case.get("headers", {}))
    if "json" in case:
        headers["Content-Type"] = "application/json"
    raw = f"{case.get('method', 'GET')} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    raw += "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    raw += f"Content-Length: {len(body)}\r\n\r\n" if body is not None else "\r\n"
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(raw.encode() + (body or b""))
        r = http.client.HTTPResponse(s, method=case.get("method", "GET"))
        r.begin()
        data = r.read()
    assert r.status == case["status"], data
    assert r.headers["Cache-Control"] == "no-store"
    if case.get("method") == "HEAD":
        assert data == b"" and int(r.headers["Content-Length"]) > 0
        return
    assert r.headers["Content-Type"] == "application/problem+json"
    d = json.loads(data)
    assert set(d) >= {"type", "title", "status", "detail", "code", "reason", "errors"} and d["status"] == r.status
    if "reason" in case:
        assert d["reason"] == case["reason"]
        assert d["type"] == "urn:posenc:error:" + case["reason"].lower().replace("_", "-") or d["type"] == "about:blank"
    if "field" in case:
        assert case["field"] in [e["field"] for e in d["errors"]]
    if "allowed" in case:
        assert any(case["allowed"] in e["allowed"] for e in d["errors"])
    if "allow" in case:
        assert r.headers["Allow"] == case["allow"]


def test_all_faults_at_once(server):
    d = json.loads(get(server, "/v1/encodings/sinusoidal.npy?embedding_dim=0&num_positions=x&layuot=split&rows=7")[2])
    assert {e["field"] for e in d["errors"]} == {"embedding_dim", "num_positions", "layuot", "rows"}


def test_request_id(server):
    assert get(server, "/livez", X_Request_Id="abc.DEF-1_2")[1]["X-Request-Id"] == "abc.DEF-1_2"
    r = get(server, "/nope", X_Request_Id='a"b')
    assert re.fullmatch(r"[0-9a-f]{16}", r[1]["X-Request-Id"])
    assert json.loads(r[2])["instance"] == "urn:posenc:request:" + r[1]["X-Request-Id"]
    ids = {r[1]["X-Request-Id"]}
    for target in ("/livez%00", "/livez", "/livez%00"):          # the guard's answers and the door's: one sequence
        r = get(server, target)
        assert re.fullmatch(r"[0-9a-f]{16}", r[1]["X-Request-Id"])
        ids.add(r[1]["X-Request-Id"])
        assert r[0] == 200 or json.loads(r[2])["instance"] == "urn:posenc:request:" + r[1]["X-Request-Id"]
    assert len(ids) == 4


def test_too_many_headers(server):
    r = ask(server, "GET", "/livez", headers={f"X-{i}": "y" * 300 for i in range(60)})
    assert r[0] == 431 and json.loads(r[2])["reason"] == "LIMIT_EXCEEDED" and "(setting max_headers)" in json.loads(r[2])["errors"][0]["allowed"]
    r = ask(server, "GET", "/livez", headers={f"X-{i}": "y" for i in range(128)})    # and Host
    assert r[0] == 431 and json.loads(r[2])["errors"][0]["allowed"] == "at most 128 headers (fixed)"


def test_faults_name_settings_that_exist(start_server):
    """Every setting that an answer of the guard names is one of the daemon's."""
    s = start_server("--max-target", "256", "--max-headers", "1024", "--max-body", "1024", "--header-ms", "100", "--body-ms", "100")
    limits = json.loads(get(s, "/v1/capabilities")[2])["limits"]
    named = set()
    for raw in (b"GET /" + b"x" * 300, b"GET / HTTP/1.1\r\nX: " + b"y" * 1100, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"):
        with socket.create_connection(tuple(s.http.split(":")), timeout=10) as c:
            c.sendall(raw)
            r = http.client.HTTPResponse(c)
            r.begin()
            named.update(re.findall(r"\(setting (\w+)\)", json.loads(r.read())["errors"][0]["allowed"]))
    assert named == {"max_target", "max_headers", "max_body", "header_ms", "body_ms"} and named <= set(limits)


def test_client_errors_cost_no_log_line(start_server):
    s = start_server()
    with requests.Session() as c:
        for _ in range(350):
            assert c.get(s.url + "/v1/encodings/sinusoidal.npy?embedding_dim=x").status_code == 400
            c.get(s.url + "/livez")
    lines = [x for x in s.log.read_text().splitlines() if "event=request" in x]
    assert lines and not [x for x in lines if " status=4" in x]


def test_longest_request_is_served(server):
    """All limits reached at once, and none of libmicrohttpd's own."""
    target = "/v1/encodings/sinusoidal.npy?" + "&".join(f"x{i}=1" for i in range(255)) + "&" + "y" * 6000
    headers = {f"X-{i}": "z" * 110 for i in range(126)}
    status, h, data = ask(server, "GET", target, headers=headers)
    assert status == 400 and h["Content-Type"] == "application/problem+json" and len(json.loads(data)["errors"]) == 8


# ---- waiting ----

SLOW = {"k": 60, "tol": 1e-12}


def slow(n, side=200):
    return json.dumps({**SLOW, "graph": grid(side, side + n % 50)}).encode()


def end(s):
    """SIGTERM; the seconds until a clean exit."""
    t0 = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(60) == 0
    return time.monotonic() - t0


def raw_post(server, target, body, *lines):
    head = "\r\n".join([f"POST {target} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}", *lines, "", ""])
    host, port = server.http.split(":")
    s = socket.create_connection((host, int(port)), timeout=60)
    s.sendall(head.encode() + body)
    return s


def wait_for(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def on(connection, target):
    """The answer on this connection: status, headers, body."""
    connection.request("GET", target)
    r = connection.getresponse()
    return r.status, r.headers, r.read()


def refused(server):
    """No new connection is taken."""
    host, port = server.http.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=20).close()
        return False
    except ConnectionRefusedError:
        return True


def computing(server, before):
    return lambda: server.metric("posenc_computations_total", encoding="laplacian") > before


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
def test_leaving_cancels(server, how):
    cancelled = server.metric("posenc_cancelled_total")
    started = server.metric("posenc_computations_total", encoding="laplacian")
    s = raw_post(server, "/v1/encodings/laplacian.npz", slow(fresh()))
    wait_for(computing(server, started), 30)
    if how == "half-close":
        s.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    t0 = time.monotonic()
    wait_for(lambda: server.metric("posenc_cancelled_total") > cancelled)
    assert time.monotonic() - t0 < 3     # the kernel polls every 10 ms; the rest is for sanitizers
    s.close()
    assert get(server, "/livez")[0] == 200


def test_leader_leaves_follower_stays(server):
    body = slow(fresh(), 90)
    started = server.metric("posenc_computations_total", encoding="laplacian")
    leader = raw_post(server, "/v1/encodings/laplacian/eigenvalues.npy", body)
    wait_for(computing(server, started), 30)
    follower = raw_post(server, "/v1/encodings/laplacian/eigenvalues.npy", body)
    time.sleep(0.3)
    leader.close()
    r = http.client.HTTPResponse(follower, method="POST")
    r.begin()
    assert r.status == 200 and np.load(io.BytesIO(r.read())).shape == (60,)
    follower.close()


def test_deadline(server):
    t0 = time.monotonic()
    status, headers, data = ask(server, "POST", "/v1/encodings/laplacian.npz", slow(fresh()),
                                {"Content-Type": "application/json", "Request-Timeout": "0.2"})
    assert status == 504 and json.loads(data)["code"] == "DEADLINE_EXCEEDED" and time.monotonic() - t0 < 5


def test_pipelined_after_a_slow_one(server):
    """Answers come in the order of requests, also when the first one waits for a computation."""
    s = raw_post(server, "/v1/encodings/laplacian/eigenvalues.npy", json.dumps({"k": 4, "graph": grid(60, 61)}).encode())
    s.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    out = b""
    while data := s.recv(65536):
        out += data
    s.close()
    first, second = out.index(b"application/x-npy"), out.index(b'"posencd"')
    assert out.count(b"HTTP/1.1 200 OK") == 2 and first < second


def test_slow_reader_gets_all(server):
    n = 400000
    s = socket.create_connection(tuple(server.http.split(":")), timeout=60)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    s.sendall(f"GET /v1/encodings/sinusoidal.bin?embedding_dim=32&num_positions={n} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    h, size, head = hashlib.sha256(), 0, b""
    while b"\r\n\r\n" not in head:
        head += s.recv(4096)
    head, rest = head.split(b"\r\n\r\n", 1)
    h.update(rest)
    size += len(rest)
    while data := s.recv(1 << 20):
        h.update(data)
        size += len(data)
        if size % 7 == 0:
            time.sleep(0.001)
    s.close()
    assert size == n * 32 * 4
    assert b"Repr-Digest: sha-256=:" + base64.b64encode(h.digest()) + b":" in head


def test_unread_answers_hold_no_input(server):
    """While a client does not take its answer, what it has sent is given back."""
    n = fresh()
    s = raw_post(server, "/v1/encodings/sinusoidal.bin", json.dumps({"embedding_dim": 64, "positions": list(range(n, n + 200000))}).encode())
    assert s.recv(12) == b"HTTP/1.1 200"
    wait_for(lambda: server.metric("posenc_cache_reserved_bytes") == 0)
    assert server.metric("posenc_http_in_flight") >= 2       # it, and the one that asks
    s.close()


# ---- limits of connections ----

def test_descriptors_run_out(start_server):
    s = start_server(prefix=["prlimit", "--nofile=150:150"])
    host, port = s.http.split(":")
    held = []
    for _ in range(300):
        c = socket.socket()
        c.settimeout(5)
        c.connect((host, int(port)))
        held.append(c)
    time.sleep(0.5)
    held[0].sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")       # those that are in are served
    assert held[0].recv(100).startswith(b"HTTP/1.1 200")
    for c in held:
        c.close()
    wait_for(lambda: get(s, "/livez")[0] == 200)
    for _ in range(20):
        assert get(s, PATH)[0] == 200


def test_connections_of_one_address(start_server):
    s = start_server("--connections-per-address", "4")
    host, port = s.http.split(":")
    held = [socket.create_connection((host, int(port)), timeout=5) for _ in range(4)]
    time.sleep(0.3)
    extra = socket.create_connection((host, int(port)), timeout=5)
    try:
        assert extra.recv(1) == b""
    except ConnectionResetError:
        pass
    held[0].sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert held[0].recv(100).startswith(b"HTTP/1.1 200")
    for c in held + [extra]:
        c.close()
    wait_for(lambda: _serves(s))


def _serves(s):
    try:
        return get(s, "/livez")[0] == 200
    except OSError:
        return False


# ---- stopping ----

def test_stop_with_waiting_requests(start_server):
    """SIGTERM with parked requests, a half-sent body and idle connections: an answer for all that asked, a clean end."""
    s = start_server("--drain-timeout-ms", "300")
    waiting = [raw_post(s, "/v1/encodings/laplacian.npz", slow(fresh())) for _ in range(3)]
    idle = socket.create_connection(tuple(s.http.split(":")), timeout=5)
    half = raw_post(s, "/v1/encodings/sinusoidal.npy", b"", "X: y")
    wait_for(lambda: s.metric("posenc_http_in_flight") >= 4, 30)
    assert end(s) < 20
    for c in waiting:
        assert c.recv(100).startswith(b"HTTP/1.1 503")
        c.close()
    idle.close()
    half.close()


def test_stop_lets_running_requests_finish(start_server):
    s = start_server("--drain-timeout-ms", "60000")
    body = slow(fresh(), 70)
    c = raw_post(s, "/v1/encodings/laplacian/eigenvalues.npy", body)
    wait_for(lambda: s.metric("posenc_computations_total", encoding="laplacian") > 0, 30)
    end(s)
    r = http.client.HTTPResponse(c, method="POST")
    r.begin()
    assert r.status == 200 and r.headers["Connection"] == "close" and len(r.read()) > 128
    c.close()


def target_of(n):
    return f"/v1/encodings/sinusoidal.npy?embedding_dim=4&num_positions=7&offset={n}"


def test_leaving_is_not_ready_and_still_serves(start_server):
    """Leaving: not ready, everything is served, on old and new connections; a second signal ends it."""
    s = start_server("--drain-delay-ms", "60000")
    c = http.client.HTTPConnection(s.http, timeout=20)
    assert on(c, PATH)[0] == 200
    s.process.send_signal(signal.SIGTERM)
    wait_for(lambda: on(c, "/readyz")[0] == 503)
    for target in (PATH, target_of(fresh())):
        status, headers, _ = on(c, target)
        assert status == 200 and "Connection" not in headers
    assert get(s, "/livez")[0] == 200        # on a new connection
    assert "leaving" in on(c, "/readyz?verbose")[2].decode()
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(20) == 1


def test_draining_serves_what_is_cached(start_server):
    """Draining: who waits is answered, what is cached is still served, each answer ends its connection."""
    s = start_server("--drain-delay-ms", "0", "--drain-timeout-ms", "60000")
    c = [http.client.HTTPConnection(s.http, timeout=20) for _ in range(3)]
    for connection in c:
        assert on(connection, PATH)[0] == 200
    running = raw_post(s, "/v1/encodings/laplacian/eigenvalues.npy", slow(fresh(), 90 if "POSENC_TEST_SANITIZED" in os.environ else 230))
    wait_for(lambda: s.metric("posenc_computations_total", encoding="laplacian") > 0, 30)
    s.process.send_signal(signal.SIGTERM)
    wait_for(lambda: refused(s))
    assert "draining" in on(c[0], "/readyz?verbose")[2].decode()
    status, headers, data = on(c[1], PATH)
    assert status == 200 and headers["Connection"] == "close" and len(data) == 248
    status, headers, _ = on(c[2], target_of(fresh()))
    assert status == 503 and headers["Connection"] == "close" and headers["Retry-After"] == "1"
    r = http.client.HTTPResponse(running, method="POST")
    r.begin()
    assert r.status == 200 and r.headers["Connection"] == "close"
    running.close()
    assert s.process.wait(60) == 0


def test_backlog_is_served_at_the_end(start_server):
    """Who had connected before the door closed gets an answer, however many waited."""
    s = start_server("--drain-timeout-ms", "5000", "--drain-delay-ms", "0")
    target = tuple(s.http.split(":"))
    s.process.send_signal(signal.SIGSTOP)
    waiting = []
    for _ in range(200):
        c = socket.create_connection(target, timeout=20)
        c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        waiting.append(c)
    s.process.send_signal(signal.SIGTERM)
    s.process.send_signal(signal.SIGCONT)
    answers = []
    for c in waiting:
        try:
            answers.append(c.recv(12))
        except ConnectionResetError:
            answers.append(b"reset")
        c.close()
    assert set(answers) == {b"HTTP/1.1 200"}
    assert s.process.wait(30) == 0
