"""Fixtures: a real posencd on free ports, one a session, or fresh ones with their own flags.

POSENC_BUILD names the build folder (build/release); POSENC_TEST_URL and POSENC_TEST_GRPC point at a server that you
hold in gdb instead.
"""
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("POSENC_BUILD", ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "tests"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not run against sanitized daemons")


class Server:
    """A running daemon: http and grpc are "HOST:PORT"."""

    def __init__(self, *flags, env=None, prefix=()):
        self.log = Path(os.environ.get("POSENC_TEST_LOGS", "/tmp")) / f"posencd-{os.getpid()}-{time.monotonic_ns()}.log"
        self.process = subprocess.Popen(
            [*prefix, str(BUILD / "posencd"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *flags],
            stdout=subprocess.PIPE, stderr=open(self.log, "wb"), env={**os.environ, **(env or {})}, text=True)
        line = self.process.stdout.readline()
        ready = re.match(r"ready http=(\S+) grpc=(\S+)", line)
        if not ready:
            raise RuntimeError(f"posencd did not start: {line!r}\n{self.log.read_text()[-2000:]}")
        self.http, self.grpc = ready.groups()
        self.url = f"http://{self.http}"
        self.pid = self.process.pid

    def get(self, path, timeout=60, **headers):
        """Body of a GET; raises on an error status."""
        return urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=timeout).read()

    def metric(self, name, **labels):
        """Sum of the series of a metric whose labels include these."""
        total = 0.0
        for line in self.get("/metrics").decode().splitlines():
            m = re.match(r"([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$", line)
            if m and m[1] == name and all(f'{k}="{v}"' in (m[2] or "") for k, v in labels.items()):
                total += float(m[3])
        return total

    def stop(self, timeout=60):
        """SIGTERM; the exit status, which is 0 after a clean drain."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()
        text = self.log.read_text(errors="replace")
        faults = [x for x in ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:") if x in text]
        assert not faults, f"{faults} in {self.log}:\n{text[-4000:]}"
        self.log.unlink()
        return code


class Given:
    """A server that somebody else runs."""

    def __init__(self, url, grpc):
        self.url, self.http, self.grpc, self.pid = url, url.split("//")[1], grpc, None

    get, metric = Server.get, Server.metric


@pytest.fixture(scope="session")
def server():
    if "POSENC_TEST_URL" in os.environ:
        yield Given(os.environ["POSENC_TEST_URL"], os.environ.get("POSENC_TEST_GRPC", "127.0.0.1:50051"))
        return
    s = Server()
    yield s
    assert s.stop() == 0


@pytest.fixture
def start_server():
    """start_server(*flags, env=..., prefix=...): daemons that end with the test."""
    servers = []

    def start(*flags, **kw):
        servers.append(Server(*flags, **kw))
        return servers[-1]

    yield start
    for s in servers:
        s.stop()


@pytest.fixture(scope="session")
def build():
    return BUILD


def data(name):
    """A file of tests/data, of the golden graphs or of POSENC_TEST_DATA, or skip."""
    for folder in (ROOT / "tests/data", ROOT / "tests/golden/graph/graphs", Path(os.environ.get("POSENC_TEST_DATA", "/nonexistent"))):
        if (folder / name).exists():
            return folder / name
    pytest.skip(f"POSENC_TEST_DATA has no {name}")
