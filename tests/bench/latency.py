#!/usr/bin/env python3
"""latency.py [SIDE]: what a long computation does to short ones. A grid of SIDE x SIDE nodes (1000) is one laplacian request
over each door; meanwhile small requests, each of new parameters, are asked one after another. Last, how long the kernel runs
on after the long one's client has left."""
import http.client
import re
import socket
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
import rpc  # noqa: E402
from bodies import safetensors  # noqa: E402
from conftest import Server  # noqa: E402

side = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
server = Server("--deadline-ms", "600000")
fresh = iter(range(1, 10**9))
connection = http.client.HTTPConnection(server.http)
number = np.arange(side * side, dtype=np.int32).reshape(side, side)
edges = np.concatenate([[number[:, :-1].ravel(), number[:, 1:].ravel()], [number[:-1].ravel(), number[1:].ravel()]], 1)


def small():
    """Milliseconds of 32,768 values that nobody asked for before: on the pool, not in place."""
    begun = time.perf_counter()
    connection.request("GET", f"/v1/encodings/sinusoidal/table.bin?embedding_dim=256&num_positions=128&offset={next(fresh)}")
    r = connection.getresponse()
    assert r.status == 200 and len(r.read()) == 4 * 256 * 128
    return (time.perf_counter() - begun) * 1e3


def counter(name):
    connection.request("GET", "/metrics")
    return sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", connection.getresponse().read().decode(), re.M))


def post():
    body = safetensors({"edge_index": edges})
    host, port = server.http.split(":")
    s = socket.create_connection((host, int(port)))
    s.sendall(b"POST /v1/encodings/laplacian/eigenvalues.npy?k=8&skip=all_zero&sign=random&seed=%d&num_nodes=%d HTTP/1.1\r\nHost: x\r\n"
              b"Content-Type: application/vnd.safetensors\r\nContent-Length: %d\r\n\r\n" % (next(fresh), side * side, len(body)) + body)
    return s


def call():
    client = rpc.Client(server.grpc)
    q = client.request("laplacian", {"k": 8, "skip": "all_zero", "sign": "random", "seed": next(fresh)},
                       graph={"num_nodes": side * side, "edge_index": edges}, tensors=["eigenvalues"])
    return client.method("posenc.v1.EncodingService.Encode").future(q, timeout=600)


def row(name, ms):
    print(f"| {name} | {len(ms)} | {statistics.median(ms):.2f} | {sorted(ms)[int(0.99 * (len(ms) - 1))]:.2f} | {max(ms):.2f} |", flush=True)


for _ in range(200):
    small()
print("| small requests | answers | median ms | 99 % ms | max ms |\n| --- | --- | --- | --- | --- |")
row("alone", [small() for _ in range(1000)])
for name, begin, leave in (("beside one over REST", post, lambda s: s.close()), ("beside one over gRPC", call, lambda f: f.cancel())):
    before = counter("posenc_computations_total")
    handle = begin()
    while counter("posenc_computations_total") == before:
        time.sleep(0.01)
    row(name, [small() for _ in range(1000)])
    stopped = counter("posenc_cancelled_total")
    t = time.perf_counter()
    leave(handle)
    while counter("posenc_cancelled_total") == stopped and time.perf_counter() - t < 60:
        pass
    print(f"| its client leaves: the kernel stops after | 1 | {(time.perf_counter() - t) * 1e3:.1f} | | |", flush=True)
server.stop()
