"""HTTP over a small pool of kept connections, with one deadline for the whole call.

Fork-safe: connections belong to the process that opened them; a child starts with an empty pool.
"""

from __future__ import annotations

import http.client
import io
import os
import select
import socket
import ssl
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple, cast
from urllib.parse import urlsplit

from .errors import DeadlineExceeded, IntegrityError, LimitExceeded, Unavailable, Violation

IDLE_S = 30.0  # below the server's 75 s, so that the client closes first
_CHUNK = 1 << 18


class Broken(Exception):
    """The connection failed. clean: before the first byte of an answer, so the request may be sent again."""

    def __init__(self, words: str, clean: bool) -> None:
        super().__init__(words)
        self.clean = clean


class Deadline:
    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.error()
        return left

    def error(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no whole answer within {self.timeout:g} s", reason="DEADLINE")


class _Reader(io.RawIOBase):
    """A socket's bytes; every single read is bounded by what is left of the deadline."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        wire.readers += 1

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._wire.readers -= 1
            self._wire.close_if_done()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._wire.sock.settimeout(self._wire.deadline.left())
        n = self._wire.sock.recv_into(buffer)
        self._wire.received += n
        return n


class _Wire:
    """What http.client needs of a socket. Like a socket's, its close waits for its readers."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self.sock = sock
        self.deadline = deadline
        self.received = 0
        self.readers = 0
        self._closing = False

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self), 1 << 16)

    def sendall(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _CHUNK):
            self.sock.settimeout(self.deadline.left())
            self.sock.sendall(view[at : at + _CHUNK])

    def close(self) -> None:
        self._closing = True
        self.close_if_done()

    def close_if_done(self) -> None:
        if self._closing and not self.readers:
            self.sock.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: str, port: int, tls: Optional[ssl.SSLContext], connect_timeout: float) -> None:
        super().__init__(host, port)
        self.auto_open = 0
        self._tls = tls
        self._connect_timeout = connect_timeout
        self.wire: Optional[_Wire] = None
        self.used_at = 0.0

    def open(self, deadline: Deadline) -> None:
        timeout = min(self._connect_timeout, deadline.left())
        sock = socket.create_connection((self.host, self.port), timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise
        self.wire = _Wire(sock, deadline)
        self.sock = cast(socket.socket, self.wire)

    def is_quiet(self) -> bool:
        """Nothing was sent to us while idle: neither an end of file nor stray bytes."""
        if self.wire is None or time.monotonic() - self.used_at > IDLE_S:
            return False
        poll = select.poll()
        poll.register(self.wire.sock, select.POLLIN)
        return not poll.poll(0)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytearray

    def header(self, name: str) -> str:
        return self.headers.get(name) or ""


def _receive(response: http.client.HTTPResponse, max_bytes: int) -> bytearray:
    """The whole body, its size checked before memory is taken for it."""

    def too_large(size: str) -> LimitExceeded:
        words = Violation("max_bytes", size, "LIMIT_EXCEEDED", f"at most {max_bytes} bytes")
        return LimitExceeded(str(words), reason="LIMIT_EXCEEDED", violations=[words])

    expected = response.length
    if expected is not None and response.status != 304:
        if expected > max_bytes:
            raise too_large(f"{expected} bytes")
        body = bytearray(expected)
        view, at = memoryview(body), 0
        while at < expected:
            n = response.readinto(view[at : at + _CHUNK])
            if not n:
                raise Broken(f"the answer ended after {at} of {expected} bytes", clean=False)
            at += n
        return body
    body = bytearray()
    while True:
        piece = response.read(_CHUNK)
        if not piece:
            return body
        body += piece
        if len(body) > max_bytes:
            raise too_large(f"over {max_bytes} bytes")


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    def __init__(self, endpoint: str, *, size: int, connect_timeout: float, tls: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(endpoint if "://" in endpoint else "http://" + endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"endpoint: got {endpoint!r}, allowed: http://HOST:PORT or https://HOST:PORT")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.prefix = parts.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._connect_timeout = connect_timeout
        self._size = size
        self._closed = False
        self.reset()
        _pools.add(self)

    def reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: List[_Connection] = []

    def _take(self) -> Optional[_Connection]:
        """A kept connection that is fit for use, None: a new one is needed."""
        while True:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the client is closed")
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()

    def _give_back(self, connection: _Connection) -> None:
        connection.used_at = time.monotonic()
        with self._lock:
            if not self._closed and len(self._idle) < self._size:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: Optional[bytes], deadline: Deadline, max_bytes: int
    ) -> Answer:
        """One request, one answer. Raises Broken, DeadlineExceeded, LimitExceeded."""
        connection = self._take()
        if connection is not None:
            try:
                return self._on(connection, method, target, headers, body, deadline, max_bytes)
            except Broken as e:
                if not e.clean:
                    raise  # otherwise the server closed it just now: a new one, once
        connection = _Connection(self.host, self.port, self._tls, self._connect_timeout)
        try:
            connection.open(deadline)
        except ssl.SSLCertVerificationError as e:
            raise Unavailable(f"{self.host}:{self.port}: {e}", reason="TLS") from e
        except (OSError, ssl.SSLError) as e:
            deadline.left()
            raise Broken(f"{self.host}:{self.port}: {e}", clean=True) from e
        return self._on(connection, method, target, headers, body, deadline, max_bytes)

    def _on(
        self,
        connection: _Connection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        deadline: Deadline,
        max_bytes: int,
    ) -> Answer:
        wire = connection.wire
        assert wire is not None
        wire.deadline = deadline
        wire.received = 0
        done = False
        try:
            connection.request(method, self.prefix + target, body, dict(headers))
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, _receive(response, max_bytes))
            response.close()
            done = not response.will_close
            return answer
        except socket.timeout as e:
            raise deadline.error() from e
        except http.client.IncompleteRead as e:
            raise Broken(f"the answer ended early: {e}", clean=False) from e
        except http.client.RemoteDisconnected as e:
            raise Broken("the server closed the connection without an answer", clean=wire.received == 0) from e
        except http.client.HTTPException as e:
            raise IntegrityError(f"the answer is not HTTP: {e!r}", reason="PROTOCOL") from e
        except OSError as e:
            raise Broken(f"the connection broke: {e}", clean=wire.received == 0) from e
        finally:
            if done:
                self._give_back(connection)
            else:
                connection.close()


def _after_fork() -> None:
    for pool in list(_pools):
        for connection in pool._idle:
            if connection.wire is not None:
                os.close(connection.wire.sock.detach())  # the parent's connection lives on
        pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
__all__: Tuple[str, ...] = ("Answer", "Broken", "Deadline", "Pool")
