"""The doors: CPU time of the server for each request it answers, against other servers with the same payloads; what an idle
connection holds; how long a start takes. Performance.md's fifth section. The load (bench_load, grpc_peer) has its own CPU time,
which does not count. Peers: nginx (package nginx-light) with files, C++ on the same gRPC core (libgrpc++-dev,
protobuf-compiler-grpc)."""
import http.client
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

import measure

sys.path.insert(0, str(measure.ROOT / "tests/integration"))

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit; worker_rlimit_nofile 4096;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile {sendfile}; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600; etag on;
    open_file_cache max=100 inactive=600s; open_file_cache_valid 600s; output_buffers 2 128k;
    client_body_temp_path {folder}/t; proxy_temp_path {folder}/t; fastcgi_temp_path {folder}/t;
    uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
    server {{ listen 127.0.0.1:{port}; root {folder}; default_type application/octet-stream; }}
}}
"""
SIZES = {"1 KB": (64, 4), "64 KB": (64, 256), "1 MB": (1024, 256)}      # embedding_dim, num_positions: float32


def cpu(pid):
    """Seconds of CPU that a process has had, all its threads, ended ones too."""
    return time.clock_gettime((~pid << 3) | 2)      # the kernel's clock of another process: CPUCLOCK_SCHED


def resident(pid):
    return next(int(x.split()[1]) for x in open(f"/proc/{pid}/status") if x.startswith("VmRSS"))


class Posencd:
    """One daemon for all rows, on its defaults; `stop` ends it."""

    def __init__(self, *flags):
        from conftest import Server
        self.server = Server(*flags)
        self.pid = self.server.pid
        self.host, self.port = self.server.http.split(":")

    def target(self, size):
        d, n = SIZES[size]
        return f"/v1/encodings/sinusoidal.bin?embedding_dim={d}&num_positions={n}"

    def get(self, size):
        c = http.client.HTTPConnection(self.host, int(self.port))
        c.request("GET", self.target(size))
        r = c.getresponse()
        body = r.read()
        c.close()
        return body, r.headers["ETag"]

    def stop(self):
        self.server.stop()


class Nginx:
    """Files of the same bytes. One process; `sendfile` off: it reads them into its buffers."""

    def __init__(self, files, sendfile):
        if not shutil.which("nginx"):
            raise measure.Absent("nginx (apt-get install nginx-light)")
        folder = measure.inputs() / f"nginx-{sendfile}"
        folder.mkdir()
        for name, body in files.items():
            (folder / name.replace(" ", "")).write_bytes(body)
        with socket.socket() as s:      # a port that is free now
            s.bind(("127.0.0.1", 0))
            self.host, self.port = s.getsockname()
        (folder / "conf").write_text(NGINX.format(folder=folder, port=self.port, sendfile=sendfile))
        self.process = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "conf"], stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex((self.host, self.port)) == 0:
                    return
            time.sleep(0.05)
        self.stop()
        raise measure.Failed("nginx did not start")

    def target(self, size):
        return "/" + size.replace(" ", "")

    get = Posencd.get

    def stop(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()


class GrpcPeer:
    def __init__(self, mode):
        if not (measure.BUILD / "grpc_peer").exists():
            raise measure.Absent("grpc_peer (apt-get install g++ libgrpc++-dev protobuf-compiler-grpc, then make bench)")
        self.process = subprocess.Popen([measure.BUILD / "grpc_peer", mode], stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.address = f"127.0.0.1:{self.process.stdout.readline().strip()}"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Loaded:
    """A server under one load: CPU seconds of the server for each answer."""

    threads, limit = 1, None

    def __init__(self, server, command):
        self.server, self.command = server, [str(c) for c in command]

    def start(self):
        if isinstance(self.server, Exception):
            raise self.server
        self.load = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        return self

    def line(self):
        text = self.load.stdout.readline().split()
        if not text:
            raise measure.Failed(f"{self.command[0]} ended with status {self.load.wait()}")
        return int(text[0])

    def run(self, least):
        begin, t = cpu(self.server.pid), time.perf_counter()
        self.load.stdin.write(f"{max(least, 0.02)}\n")
        n = self.line()
        spent, wall = cpu(self.server.pid) - begin, time.perf_counter() - t
        return {"cpu": spent / n, "wall": wall / n, "prepare": 0.0, "n": n, "peak_kib": resident(self.server.pid)}

    def close(self):
        self.load.stdin.close()
        self.load.wait()
        self.load.stdout.close()


def begun(make, *arguments):
    """A server, or why there is none: its rows say so."""
    try:
        return make(*arguments)
    except measure.Absent as e:
        return e


def http_rows(ours):
    files = {size: ours.get(size)[0] for size in SIZES}
    servers = {"sendfile": begun(Nginx, files, "on"), "buffers": begun(Nginx, files, "off")}
    wanted = {"1 KB": 1.0, "64 KB": 0.9, "304": 0.95}

    def load(server, size):
        if isinstance(server, Exception):
            return Loaded(server, [])
        tag = [f"If-None-Match: {server.get('1 KB')[1]}"] if size == "304" else []
        return Loaded(server, [measure.BUILD / "bench_load", server.host, server.port, 16, server.target("1 KB" if tag else size), *tag])

    try:
        for size in (*SIZES, "304"):
            for how, server in servers.items():
                if size != "304" or how == "sendfile":
                    yield from measure.compare(f"HTTP, {size}, server CPU a request", load(ours, size), f"nginx, files by {how}",
                                               load(server, size), wanted.get(size), "16 connections")
    finally:
        for server in servers.values():
            if not isinstance(server, Exception):
                server.stop()


def grpc_rows(ours):
    servers = {"message": begun(GrpcPeer, "message"), "raw": begun(GrpcPeer, "raw")}
    names = {"message": "C++ async, protobuf messages", "raw": "C++ async, by hand, no copy"}
    wanted = {"message": {"1 KB": 1.15, "64 KB": 1.25, "1 MB": 1.7}, "raw": {"1 KB": 1.0, "64 KB": 1.0, "1 MB": 1.0}}
    try:
        import rpc
        client = rpc.Client(ours.server.grpc)
        for size, (d, n) in SIZES.items():
            path = measure.inputs() / f"request-{d}-{n}"
            path.write_bytes(client.request("sinusoidal", {"embedding_dim": d, "num_positions": n}).SerializeToString())
            command = [measure.BUILD / "grpc_peer", "load"]
            for mode, server in servers.items():
                there = not isinstance(server, Exception)
                loads = [Loaded(ours if there else server, [*command, ours.server.grpc, 16, path]),
                         Loaded(server, [*command, server.address if there else "", 16, path])]
                yield from measure.compare(f"gRPC, {size}, server CPU a request", loads[0], names[mode], loads[1], wanted[mode][size],
                                           "16 calls at once on one connection")
        client.close()
    finally:
        for server in servers.values():
            if not isinstance(server, Exception):
                server.stop()


# ---- what has a bound and no peer ----

def answered(s, least):
    """Reads until at least so many bytes have come."""
    got = b""
    while len(got) < least:
        got += s.recv(65536)
    return got


def idle(door):
    """KiB that a connection holds once it has been used and is idle."""
    ours = Posencd("--connections-per-address", "4096")
    host, port = (ours.server.http if door == "HTTP" else ours.server.grpc).split(":")
    n, held = 1000, []

    def connect():
        s = socket.create_connection((host, int(port)))
        held.append(s)
        if door == "HTTP":
            s.sendall(f"GET {ours.target('1 KB')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answered(s, 1024)
        else:       # the preface and empty SETTINGS, then an acknowledgement of the server's
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            answered(s, 9 + 9)
            s.sendall(bytes([0, 0, 0, 4, 1, 0, 0, 0, 0]))

    try:
        for _ in range(100):        # what is there once, whoever comes
            connect()
        time.sleep(0.3)
        before = resident(ours.pid)
        for _ in range(n):
            connect()
        time.sleep(0.5)
        return (resident(ours.pid) - before) / n
    finally:
        for s in held:
            s.close()
        ours.stop()


def start_to_ready():
    t = time.perf_counter()
    ours = Posencd()
    t = time.perf_counter() - t
    ours.stop()
    return t


class Hit(measure.Ours):
    """The same request, from memory, without a door."""

    def __init__(self, encoding, query):
        self.command, self.threads = [measure.BUILD / "bench_hit", encoding, query], 1


def rows():
    yield from measure.compare("a hit in memory, sinusoidal 16 x 64, without a door",
                               Hit("sinusoidal", "embedding_dim=64&num_positions=16"), "posenc, resolving and computing it",
                               measure.Ours("sinusoidal", {"embedding_dim": 64, "num_positions": 16}))
    ours = Posencd()
    try:
        yield from http_rows(ours)
        yield from grpc_rows(ours)
    finally:
        ours.stop()
    for door, most in (("HTTP", 12), ("gRPC", 20)):
        goal = f"{door}, an idle connection's memory"
        if measure.wanted(goal):
            measure.say(goal)
            yield measure.bounded(goal, idle(door), "KiB", most, "resident size, 1,000 connections")
    goal = "start to ready"
    if measure.wanted(goal):
        measure.say(goal)
        start_to_ready()
        took = [start_to_ready() for _ in range(measure.settings["pairs"])]
        yield measure.bounded(f"{goal}, nothing kept", statistics.median(took), "s", 0.2,
                              f"wall time, {min(took):.3f} - {max(took):.3f}, load {os.getloadavg()[0]:.1f}")
        yield measure.missing(f"{goal} with 10^4 kept entries; listening with 10^6", "absent: posencd keeps no entry over a restart")
