"""Fixtures: a scripted server for faults, a real posencd for the rest.

POSENC_TEST_URL points at a running server; otherwise one is started from POSENC_BUILD (build/release), and without
either the tests that need it are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import posenc  # noqa: E402
from fault_server import FaultServer  # noqa: E402


@pytest.fixture
def faults() -> Iterator[FaultServer]:
    server = FaultServer()
    yield server
    server.close()


@pytest.fixture
def client(faults: FaultServer) -> Iterator[posenc.Client]:
    with posenc.Client(faults.url, timeout=2) as c:
        yield c


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    if "POSENC_TEST_URL" in os.environ:
        yield os.environ["POSENC_TEST_URL"]
        return
    daemon = Path(os.environ.get("POSENC_BUILD", HERE.parents[2] / "build/release")) / "posencd"
    if not daemon.exists():
        pytest.skip("no POSENC_TEST_URL and no posencd in POSENC_BUILD")
    process = subprocess.Popen(
        [str(daemon), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    ready = re.match(r"ready http=(\S+)", process.stdout.readline())
    assert ready, "posencd did not start"
    yield f"http://{ready[1]}"
    process.terminate()
    assert process.wait(30) == 0


@pytest.fixture(scope="session")
def real(url: str) -> Iterator[posenc.Client]:
    with posenc.Client(url) as c:
        yield c
