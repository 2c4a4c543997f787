#!/usr/bin/env python3
"""soak.py POSENCD MINUTES: mixed load over both doors against a small cache, with clients that leave in the middle, bad
requests and deadlines. Prints a line a minute; fails on a wrong byte, an unexpected error, or memory that keeps growing."""
import hashlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))
import grpc  # noqa: E402
import rpc  # noqa: E402
from bodies import grid, json_body  # noqa: E402


def main():
    daemon, minutes = sys.argv[1], float(sys.argv[2])
    server = subprocess.Popen([daemon, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--memory-budget", "64MiB", "--log-level", "error"],
                              stdout=subprocess.PIPE, text=True)
    http_at, grpc_at = re.match(r"ready http=(\S+) grpc=(\S+)", server.stdout.readline()).groups()
    end = time.monotonic() + 60 * minutes
    known, lock = {}, threading.Lock()
    counts = {"http": 0, "grpc": 0, "left": 0, "bad": 0, "late": 0, "busy": 0}
    faults = []

    def seen(key, data):
        digest = hashlib.sha256(data).digest()
        with lock:
            if known.setdefault(key, digest) != digest:
                faults.append(f"{key}: other bytes than before")

    def rss():
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[1])

    def over_http(rng):
        c = http.client.HTTPConnection(http_at, timeout=60)
        dim, n = 2 * rng.randint(1, 256), rng.randint(0, 512)
        kind = rng.random()
        if kind < 0.05:
            c.request("GET", f"/v1/encodings/sinusoidal.npy?embedding_dim={dim + 1}&num_positions={n}")
            counts["bad"] += c.getresponse().status == 400
        elif kind < 0.1:
            body = json.dumps(json_body({"k": rng.randint(30, 60)}, graph=grid(60, rng.randint(60, 90))))
            c.request("POST", "/v1/encodings/laplacian.npz", body, {"Content-Type": "application/json"})
            time.sleep(rng.random() * 0.05)
            counts["left"] += 1
        else:
            key = ("sinusoidal", dim, n)
            c.request("GET", f"/v1/encodings/sinusoidal/table.bin?embedding_dim={dim}&num_positions={n}")
            r = c.getresponse()
            data = r.read()
            if r.status == 503:
                counts["busy"] += 1
            elif r.status != 200:
                faults.append(f"{key}: {r.status} {data[:200]}")
            else:
                seen(key, data)
            counts["http"] += 1
        c.close()

    def over_grpc(rng, c):
        dim, n = 2 * rng.randint(1, 256), rng.randint(1, 512)
        try:
            if rng.random() < 0.1:
                c.encode(c.request("laplacian", {"k": 40}, graph=grid(80, rng.randint(60, 90)), tensors=["eigenvalues"]), timeout=0.03)
            else:
                answer = c.encode(c.request("sinusoidal", {"embedding_dim": dim, "num_positions": n}), timeout=60)
                seen(("sinusoidal", dim, n), answer["table"].tobytes())
                counts["grpc"] += 1
        except grpc.RpcError as e:
            if e.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                counts["late"] += 1
            elif e.code() == grpc.StatusCode.UNAVAILABLE:
                counts["busy"] += 1
            else:
                faults.append(str(e))

    def client(seed):
        rng, c = random.Random(seed), rpc.Client(grpc_at)
        while time.monotonic() < end and not faults:
            try:
                over_http(rng) if rng.random() < 0.5 else over_grpc(rng, c)
            except OSError as e:
                faults.append(f"{type(e).__name__}: {e}")
        c.close()

    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    sizes = []
    while any(t.is_alive() for t in threads):
        for t in threads:
            t.join(max(0.0, min(60.0, end - time.monotonic())) / len(threads) + 0.1)
        sizes.append(rss())
        print(f"{60 * minutes - max(0, end - time.monotonic()):6.0f} s  {counts}  rss {sizes[-1] / 1024:.1f} MiB  fds {len(os.listdir(f'/proc/{server.pid}/fd'))}", flush=True)
    server.terminate()
    code = server.wait(60)
    if code:
        faults.append(f"exit status {code}")
    half = len(sizes) // 2
    if half >= 3 and sizes[-1] > 1.1 * max(sizes[half - 1:half + 2]):
        faults.append(f"memory grew from {sizes[half]} to {sizes[-1]} KiB in the second half")
    print("\n".join(faults[:10]) or f"soak: {len(known)} different tables, no fault")
    sys.exit(bool(faults))


main()
