"""How soon things happen: small requests beside a long one, the kernel's end after the last client has left, and how long a
computation leaves its context alone (posenc.h promises a poll every 10 ms)."""
import http.client
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import time

import numpy as np

import measure

sys.path.insert(0, str(measure.ROOT / "tests/integration"))
MOST_MS = 10


class Doors:
    """A daemon, and long requests over both its doors."""

    def __init__(self):
        import rpc
        from conftest import Server
        self.server = Server("--deadline-ms", "600000", "--max-grpc-message", "64MiB")
        self.client = rpc.Client(self.server.grpc)
        self.connection = http.client.HTTPConnection(self.server.http)
        self.fresh = iter(range(1, 10**9))

    def counter(self, name):
        self.connection.request("GET", "/metrics")
        text = self.connection.getresponse().read().decode()
        return sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def small(self):
        """Seconds of 32,768 values that nobody asked for before: on the pool, not in place."""
        t = time.perf_counter()
        self.connection.request("GET", "/v1/encodings/sinusoidal/table.bin?embedding_dim=256&num_positions=128"
                                f"&offset={next(self.fresh)}")
        r = self.connection.getresponse()
        assert r.status == 200 and len(r.read()) == 4 * 256 * 128
        return time.perf_counter() - t

    def begin(self, door, graph, params):
        """Asks for a laplacian, and returns how to leave when it computes."""
        from bodies import safetensors
        before = self.counter("posenc_computations_total")
        params = {**params, "sign": "random", "seed": next(self.fresh)}
        if door == "REST":
            body = safetensors({"edge_index": graph["edge_index"]})
            query = "&".join(f"{k}={v}" for k, v in {**params, "num_nodes": graph["num_nodes"]}.items())
            host, port = self.server.http.split(":")
            s = socket.create_connection((host, int(port)))
            s.sendall(f"POST /v1/encodings/laplacian/eigenvalues.npy?{query} HTTP/1.1\r\nHost: x\r\nContent-Type: "
                      f"application/vnd.safetensors\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            leave, ended = s.close, lambda: select.select([s], [], [], 0)[0]
        else:
            q = self.client.request("laplacian", params, graph=graph, tensors=["eigenvalues"])
            call = self.client.method("posenc.v1.EncodingService.Encode").future(q, timeout=600)
            leave, ended = call.cancel, call.done
        while self.counter("posenc_computations_total") == before:
            if ended():
                raise measure.Failed(f"the long request over {door} was answered at once")
        return leave

    def leave(self, leave):
        """Milliseconds from leaving until the kernel stopped, seen by polling /metrics, which adds about one."""
        before = self.counter("posenc_cancelled_total")
        t = time.perf_counter()
        leave()
        while self.counter("posenc_cancelled_total") == before:
            if time.perf_counter() - t > 60:
                raise measure.Failed("the kernel ran on for 60 s")
        return (time.perf_counter() - t) * 1e3

    def stop(self):
        self.client.close()
        self.server.stop()


def beside(doors, door, side):
    """Small requests beside one over a grid of side x side nodes, against the same alone."""
    from bodies import grid
    goal = f"a small request beside a laplacian of {side * side:,} nodes over {door}, wall time"
    if not measure.wanted(goal, "alone"):
        return
    measure.say(goal)
    graph, ratios, times = grid(side, side), [], {"alone": [], "beside": []}
    graph["edge_index"] = graph["edge_index"].astype(np.int64)
    for i in range(measure.settings["pairs"] + 1):
        alone = [doors.small() for _ in range(200)]
        leave = doors.begin(door, graph, {"k": 8, "skip": "all_zero"})
        with_it = [doors.small() for _ in range(200)]
        doors.leave(leave)
        if i:       # the first round warms up
            ratios.append(statistics.median(alone) / statistics.median(with_it))
            times["alone"] += alone
            times["beside"] += with_it
    far = {k: sorted(v)[int(0.99 * len(v))] * 1e3 for k, v in times.items()}
    yield {**measure.missing(goal, f"99 %: {far['beside']:.2f} ms, alone {far['alone']:.2f} ms", "alone"),
           "ours_s": statistics.median(times["beside"]), "peer_s": statistics.median(times["alone"]),
           "ratio": statistics.median(ratios), "spread": [min(ratios), max(ratios)], "pairs": len(ratios)}


def cancelled(doors, door):
    from bodies import grid
    goal = f"the last client over {door} leaves: the kernel stops after"
    if not measure.wanted(goal):
        return
    measure.say(goal)
    graph, took = grid(141, 142), []
    for i in range(5 if measure.quick() else 20):
        leave = doors.begin(door, graph, {"k": 300})
        time.sleep(0.05 + 0.02 * i)      # at different places of the solver
        took.append(doors.leave(leave))
    yield measure.bounded(goal, max(took), "ms", MOST_MS, f"the longest of {len(took)}, median {statistics.median(took):.1f} ms, "
                          f"wall time, load {os.getloadavg()[0]:.1f}")


def polls():
    command = [measure.BUILD / "bench_polls", "2" if measure.quick() else "20"]
    measure.say("polls")
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for text in p.stdout:
        graph, query, count, worst, spent, over = text.rstrip("\n").split("\t")
        goal = f"largest gap between polls: {graph}, {query}"
        if measure.wanted(goal):
            yield measure.bounded(goal, float(worst), "ms", MOST_MS,
                                  f"{count} polls in {spent} s{', then stopped' if over == '1' else ''}, CPU time")
    if p.wait():
        yield measure.missing("largest gap between polls", f"error: bench_polls ended with status {p.returncode}")


def rows():
    doors = Doors()
    try:
        for door in ("REST", "gRPC"):
            yield from cancelled(doors, door)
            yield from beside(doors, door, 300 if measure.quick() else 1000)
    finally:
        doors.stop()
    yield from polls()
