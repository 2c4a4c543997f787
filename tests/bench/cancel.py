#!/usr/bin/env python3
"""cancel.py [ROUNDS]: how long after the last client leaves the kernel stops. Median and maximum over ROUNDS (20) a door:
a closed connection over HTTP, a cancelled call over gRPC; seen by polling /metrics, which adds about a millisecond."""
import http.client
import json
import re
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
import rpc  # noqa: E402
from bodies import grid, json_body  # noqa: E402
from conftest import Server  # noqa: E402

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
server = Server()
watch = http.client.HTTPConnection(server.http)
graph = grid(141, 142)


def counter(name):
    watch.request("GET", "/metrics")
    return sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", watch.getresponse().read().decode(), re.M))


def measure(begin, leave, i):
    computing = counter("posenc_computations_total")
    handle = begin({"k": 300, "sign": "random", "seed": i})
    while counter("posenc_computations_total") == computing:
        pass
    time.sleep(0.05 + 0.02 * (i % 20))      # at different places of the solver
    stopped = counter("posenc_cancelled_total")
    t = time.perf_counter()
    leave(handle)
    while counter("posenc_cancelled_total") == stopped:
        pass
    return (time.perf_counter() - t) * 1e3


def post(params):
    body = json.dumps(json_body(params, graph=graph)).encode()
    host, port = server.http.split(":")
    s = socket.create_connection((host, int(port)))
    s.sendall(b"POST /v1/encodings/laplacian.npz HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
              % len(body) + body)
    return s


client = rpc.Client(server.grpc)


def call(params):
    q = client.request("laplacian", params, graph=graph, tensors=["eigenvalues"])
    return client.method("posenc.v1.EncodingService.Encode").future(q, timeout=60)


print("| the last client leaves | median until the kernel stopped | maximum |\n| --- | --- | --- |")
for name, begin, leave, seed in (("HTTP connection closed", post, lambda s: s.close(), 0), ("gRPC call cancelled", call, lambda f: f.cancel(), 1000)):
    ms = [measure(begin, leave, seed + i) for i in range(rounds)]
    print(f"| {name} | {statistics.median(ms):.1f} ms | {max(ms):.1f} ms |")
client.close()
server.stop()
