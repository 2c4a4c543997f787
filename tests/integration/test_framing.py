"""Hostile HTTP/1.1 framing: each vector is one write; one answer may come back, and where the framing is ambiguous
the connection must be closed, so that nothing after it can be taken for a second request."""
import json
import re
import socket
import time
from pathlib import Path

import pytest

VECTORS = json.loads((Path(__file__).parent / "framing.json").read_text())


def talk(address, pieces, pause=0.0, wait=1.5):
    """Statuses of all answers, and whether the server closed."""
    host, port = address.split(":")
    out, closed = b"", False
    with socket.create_connection((host, int(port)), timeout=5) as s:
        s.settimeout(wait)
        try:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(pause)
            while True:
                data = s.recv(65536)
                if not data:
                    closed = True
                    break
                out += data
        except socket.timeout:
            pass
        except (ConnectionResetError, BrokenPipeError):
            closed = True
    return [int(x) for x in re.findall(rb"HTTP/1\.[01] (\d{3})", out)], closed


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_vector(server, vector):
    raw = vector["raw"].encode("latin-1")
    for pieces in ([raw], [raw[i:i + 7] for i in range(0, len(raw), 7)]):
        statuses, closed = talk(server.http, pieces)
        assert len(statuses) == vector.get("answers", 1), statuses
        assert statuses[-1] in vector["status"]
        assert closed or not vector["close"]


def test_slow_headers_are_cut(start_server):
    """A header drip is cut at the deadline, although every byte is activity."""
    server = start_server("--header-ms", "1000")
    begin = time.monotonic()
    statuses, closed = talk(server.http, [b"GET /version HTTP/1.1\r\nHost: x\r\n"] + [b"X"] * 40, pause=0.1, wait=5)
    assert closed and time.monotonic() - begin < 4.5
    assert statuses in ([408], [])


def test_good_requests_still_work(server):
    statuses, _ = talk(server.http, [b"GET /version HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n"])
    assert statuses == [200, 200]
    chunked = (b"POST /v1/encodings/sinusoidal.json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"14\r\n{\"embedding_dim\": 4,\r\n14\r\n \"num_positions\": 2}\r\n0\r\n\r\n")
    assert talk(server.http, [chunked])[0] == [200]
