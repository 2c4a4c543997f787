"""Storms, exhaustion and stops: what a busy day does to the daemon."""
import asyncio
import hashlib
import io
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest
import rpc
from bodies import grid, json_body, safetensors

SIDE = (141, 142)       # 20,022 nodes
PARAMS = {"k": 320}     # long enough to read a thousand requests meanwhile


async def post(host, port, head, body, go, cut=None):
    """One HTTP client: connects, sends all but the last byte, waits for the signal, finishes. `cut`: seconds until it hangs up."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(head + body[:-1])
    await writer.drain()
    await go.wait()
    writer.write(body[-1:])
    await writer.drain()
    if cut is not None:
        await asyncio.sleep(cut)
        writer.transport.abort()
        return None
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(next(x for x in answer.split(b"\r\n") if x.lower().startswith(b"content-length:")).split(b":")[1])
    data = await reader.readexactly(length)
    writer.close()
    return answer.split(b" ")[1], data


def head_of(body, *lines):
    target = f"/v1/encodings/laplacian/eigenvalues.bin?num_nodes={SIDE[0] * SIDE[1]}&k={PARAMS['k']}"
    return b"\r\n".join([b"POST %s HTTP/1.1" % target.encode(), b"Host: x", b"Content-Type: application/vnd.safetensors",
                         b"Content-Length: %d" % len(body), *lines, b"", b""])


def storm(server, clients, leader_leaves):
    """`clients` a door, released together. With leader_leaves the first HTTP client asks 50 ms before all others and its
    connection is cut at 0.3 s. Answers: of HTTP (status, body), of gRPC the SHA-256 of the tensor's bytes."""
    graph = grid(*SIDE)
    host, port = server.http.split(":")
    body = safetensors({"edge_index": graph["edge_index"]})
    first = rpc.Client(server.grpc)
    q = first.request("laplacian", PARAMS, graph=graph, tensors=["eigenvalues"])
    callers = [first.twin() for _ in range(clients)]
    for c in callers:
        grpc.channel_ready_future(c.channel).result(60)
    results = {}
    released = threading.Event()

    async def http():
        go = asyncio.Event()
        rest = clients - 1 if leader_leaves else clients
        tasks = [asyncio.create_task(post(host, int(port), head_of(body, b"Connection: close"), body, go)) for _ in range(rest)]
        await asyncio.sleep(3)          # everybody is connected and has sent all but the last byte
        if leader_leaves:
            at_once = asyncio.Event()
            at_once.set()
            tasks.append(asyncio.create_task(post(host, int(port), head_of(body), body, at_once, cut=0.3)))
            await asyncio.sleep(0.05)
        released.set()
        go.set()
        results["http"] = await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(http()))
    thread.start()
    released.wait()
    calls = [c.call("posenc.v1.EncodingService.EncodeStream", q, timeout=300) for c in callers]
    digests = []
    for call in calls:
        h = hashlib.sha256()
        for chunk in call:
            h.update(chunk.data)
        digests.append(h.hexdigest())
    thread.join()
    for c in [first, *callers]:
        c.close()
    return [a for a in results["http"] if a is not None], digests


@pytest.mark.parametrize("leader_leaves", [False, True], ids=["together", "leader cut at 0.3 s"])
def test_thousand_clients(start_server, leader_leaves):
    """1,000 clients, 500 a door, one computation; a leader that goes away fails nobody."""
    server = start_server("--connections-per-address", "1024", "--deadline-ms", "300000")
    answers, digests = storm(server, 500, leader_leaves)
    assert len(answers) + len(digests) == (999 if leader_leaves else 1000)
    assert {status for status, _ in answers} == {b"200"}
    assert len({hashlib.sha256(data).hexdigest() for _, data in answers} | set(digests)) == 1, "all bodies are equal"
    assert server.metric("posenc_computations_total", encoding="laplacian") == 1
    assert server.metric("posenc_cache_requests_total", result="collapsed") == 999
    assert server.metric("posenc_compute_seconds_sum", encoding="laplacian") > 1
    assert server.metric("posenc_cancelled_total") == 0


def test_descriptors_run_out(start_server):
    """`ulimit -n 150` and 300 connections, all closed again: both doors serve the next request."""
    server = start_server(prefix=("sh", "-c", 'ulimit -n 150; exec "$@"', "sh"))
    for address in (server.http, server.grpc):
        host, port = address.split(":")
        held = []
        for _ in range(300):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((host, int(port)))
            held.append(s)
        time.sleep(1)
        for s in held:
            s.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            server.get("/v1/encodings/sinusoidal.npy?embedding_dim=8&num_positions=2", timeout=5)
            break
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < deadline, "HTTP does not come back"
            time.sleep(0.2)
    client = rpc.Client(server.grpc)
    assert client.encode(client.request("sinusoidal", {"embedding_dim": 8, "num_positions": 2}), timeout=20)["table"].shape == (2, 8)
    client.close()


def test_drain(start_server):
    """SIGTERM while a computation runs: the request is answered, readiness goes first, the exit is clean."""
    server = start_server()
    body = json.dumps(json_body({"k": 24}, graph=grid(*SIDE))).encode()
    answers = []

    def ask():
        r = urllib.request.Request(server.url + "/v1/encodings/laplacian/eigenvalues.npy", body, {"Content-Type": "application/json"})
        answers.append(urllib.request.urlopen(r, timeout=60).status)

    t = threading.Thread(target=ask)
    t.start()
    deadline = time.monotonic() + 20
    while server.metric("posenc_computations_total") < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    t.join()
    assert answers == [200]
    assert server.process.wait(30) == 0


def test_stop_while_many_wait(start_server):
    """SIGTERM with a short drain: suspended connections are answered or cut, nothing aborts, the exit is clean."""
    server = start_server("--drain-timeout-ms", "200")
    host, port = server.http.split(":")
    body = json.dumps(json_body({"k": 200, "tol": 1e-12}, graph=grid(200, 200))).encode()
    held = []
    for _ in range(20):
        s = socket.create_connection((host, int(port)))
        s.sendall(b"POST /v1/encodings/laplacian.npz HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                  % len(body) + body)
        held.append(s)
    client = rpc.Client(server.grpc)
    call = client.call("posenc.v1.EncodingService.EncodeStream", client.request("laplacian", {"k": 200, "tol": 1e-12}, graph=grid(200, 200)))
    time.sleep(0.5)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert time.monotonic() - began < 20
    with pytest.raises(grpc.RpcError):
        list(call)
    for s in held:
        s.close()
    client.close()


def test_input_counts_against_the_budget(start_server):
    """An archive that unfolds a hundredfold, a long list, large text: refused or served, within the memory budget."""
    server = start_server("--memory-budget", "128MiB")
    archive = io.BytesIO()
    np.savez_compressed(archive, edge_index=np.random.default_rng(1).integers(0, 2, (2, 5_000_000)))
    for body, media, path in (
            (archive.getvalue(), "application/x-npz", "/v1/encodings/laplacian.npz?num_nodes=10"),
            (json.dumps({"embedding_dim": 2, "positions": [0.5] * 2_000_000}).encode(), "application/json", "/v1/encodings/sinusoidal.npz"),
            (b'{"embedding_dim": 1024, "num_positions": 24000}', "application/json", "/v1/encodings/sinusoidal.csv"),
            (b'{"embedding_dim": 1024, "num_positions": 24000, "dtype": "bfloat16"}', "application/json", "/v1/encodings/sinusoidal.npy")):
        request = urllib.request.Request(server.url + path, body, {"Content-Type": media})
        try:
            with urllib.request.urlopen(request, timeout=120) as r:
                r.read()
        except urllib.error.HTTPError as e:
            assert e.code in (400, 503), e.read()
            assert json.loads(e.read())["errors"][0]["allowed"]
    if "POSENC_TEST_SANITIZED" not in os.environ:
        peak = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[1])
        assert peak < 2.5 * 128 * 1024, f"{peak} KiB"
    deadline = time.monotonic() + 10
    while server.metric("posenc_cache_reserved_bytes") + server.metric("posenc_cache_pinned_bytes") > 0:
        assert time.monotonic() < deadline, "memory is still accounted for"
        time.sleep(0.05)


def test_leaving_before_draining(start_server):
    """With drain_delay_ms SIGTERM first turns readiness false; new connections are still served meanwhile."""
    server = start_server("--drain-delay-ms", "3000")
    server.process.send_signal(signal.SIGTERM)
    end, phase = time.monotonic() + 10, b""
    while b"leaving" not in phase:
        assert time.monotonic() < end
        try:
            server.get("/readyz?verbose")
        except urllib.error.HTTPError as e:
            assert e.code == 503
            phase = e.read()
    assert len(server.get("/v1/encodings/sinusoidal/table.bin?embedding_dim=8&num_positions=2")) == 64
    assert server.process.wait(30) == 0
