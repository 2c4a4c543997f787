"""A server that answers by script: each request takes the next step, the last step repeats."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from posenc import safetensors


class Seen:
    """One request as it came in."""

    def __init__(self, head: bytes, body: bytes, connection: int) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}
        self.body = body
        self.connection = connection


Step = Callable[[socket.socket, Seen], bool]  # True: the connection stays open


def table(name: str = "table") -> bytes:
    """A whole answer, with metadata as the server writes it."""
    data = safetensors.save({name: np.arange(6, dtype=np.float32).reshape(2, 3)})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = {"format": "pt", "encoding": "sinusoidal", "revision": "1", "digest": "ab" * 32, "params": '{"k":1}'}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def digest(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def head(status: int, headers: Dict[str, Any]) -> bytes:
    return f"HTTP/1.1 {status} Word\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in headers.items()) + b"\r\n"


def reply(status: int = 200, body: Optional[bytes] = None, **more: Any) -> Step:
    """Underscores in the names of headers are hyphens."""
    body = table() if body is None else body
    headers = {"Content-Type": "application/vnd.safetensors", "Content-Length": len(body), "Repr-Digest": digest(body)}
    headers.update({k.replace("_", "-"): v for k, v in more.items()})

    def step(c: socket.socket, seen: Seen) -> bool:
        c.sendall(head(status, headers) + (b"" if status == 304 else body))
        return headers.get("Connection") != "close"

    return step


def problem(status: int, code: str, reason: str, *faults: Tuple[str, str, str], **more: Any) -> Step:
    text = json.dumps(
        {
            "type": "urn:posenc:error:x",
            "title": "Word",
            "status": status,
            "detail": "what is wrong",
            "code": code,
            "reason": reason,
            "errors": [{"field": f, "value": v, "reason": reason, "allowed": a} for f, v, a in faults],
        }
    )
    return reply(status, text.encode(), Content_Type="application/problem+json", X_Request_Id="r-17", **more)


def reset(c: socket.socket, seen: Seen) -> bool:
    """No byte of an answer."""
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def hang_up(c: socket.socket, seen: Seen) -> bool:
    return False


def stall(c: socket.socket, seen: Seen) -> bool:
    time.sleep(3)
    return False


def cut(c: socket.socket, seen: Seen) -> bool:
    body = table()
    c.sendall(head(200, {"Content-Type": "application/vnd.safetensors", "Content-Length": len(body)}) + body[:-5])
    return False


def drip_head(c: socket.socket, seen: Seen) -> bool:
    return _drip(c, head(200, {"Content-Length": 5}) + b"hello")


def drip_body(c: socket.socket, seen: Seen) -> bool:
    c.sendall(head(200, {"Content-Type": "application/vnd.safetensors", "Content-Length": 1000}))
    return _drip(c, b"x" * 1000)


def _drip(c: socket.socket, data: bytes) -> bool:
    try:
        for b in data[:60]:
            c.sendall(bytes([b]))
            time.sleep(0.05)
    except OSError:
        pass
    return False


class FaultServer:
    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.script: List[Step] = []
        self.seen: List[Seen] = []
        self.connections = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def play(self, *steps: Step) -> None:
        self.script = list(steps)

    def close(self) -> None:
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        except OSError:
            pass
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                number = self.connections
            threading.Thread(target=self._serve, args=(c, number), daemon=True).start()

    def _next(self, seen: Seen) -> Step:
        with self._lock:
            self.seen.append(seen)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def _serve(self, c: socket.socket, number: int) -> None:
        with c, c.makefile("rb") as f:
            try:
                while True:
                    raw = b""
                    while not raw.endswith(b"\r\n\r\n"):
                        line = f.readline()
                        if not line:
                            return
                        raw += line
                    seen = Seen(raw, b"", number)
                    seen.body = f.read(int(seen.headers.get("content-length", "0")))
                    if not self._next(seen)(c, seen):
                        return
            except OSError:
                return
