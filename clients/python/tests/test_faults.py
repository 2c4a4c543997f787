"""What the client does when the server or the network does not do its part."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Type

import numpy as np
import pytest

import posenc
from fault_server import FaultServer, cut, digest, drip_body, drip_head, hang_up, problem, reply, reset, stall, table
from posenc import retry


def call(client: posenc.Client, **params: Any) -> posenc.Result:
    return client.encode("sinusoidal", embedding_dim=4, num_positions=2, **params)


def test_good_answer(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(Posenc_Warning="one%20%25 and two"))
    r = call(client)
    assert r["table"].tolist() == [[0, 1, 2], [3, 4, 5]] and list(r) == ["table"] and len(r) == 1
    assert (r.encoding, r.revision, r.digest, r.params) == ("sinusoidal", 1, "ab" * 32, {"k": 1})
    assert r.warnings == ("one % and two",) and not r.from_cache and r.dtypes == {"table": "float32"}
    assert not r["table"].flags.writeable and r["table"].ctypes.data % 4 == 0
    seen = faults.seen[0]
    assert seen.method == "GET" and seen.headers["user-agent"].startswith("posenc-python/")
    assert 0 < float(seen.headers["request-timeout"]) <= 2
    assert seen.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("step", [reset, hang_up, reply(503, b"", Retry_After="0"), reply(502, b"<html>", Content_Type="text/html")])
def test_asks_again(faults: FaultServer, client: posenc.Client, step: Any) -> None:
    faults.play(step, reply())
    assert call(client)["table"].shape == (2, 3) and len(faults.seen) == 2


def test_three_attempts(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(problem(503, "UNAVAILABLE", "QUEUE_FULL"))
    with pytest.raises(posenc.Unavailable, match="what is wrong") as e:
        call(client)
    assert len(faults.seen) == 3 and e.value.status == 503 and e.value.code == "UNAVAILABLE" and e.value.request_id == "r-17"


def test_retry_after_wins(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(problem(503, "UNAVAILABLE", "QUEUE_FULL", Retry_After="1"), reply())
    begun = time.monotonic()
    call(client)
    assert 1 <= time.monotonic() - begun < 1.9


@pytest.mark.parametrize("wait", ["5", "120"])
def test_no_waiting_past_the_deadline(faults: FaultServer, client: posenc.Client, wait: str) -> None:
    faults.play(problem(503, "UNAVAILABLE", "QUEUE_FULL", Retry_After=wait))
    begun = time.monotonic()
    with pytest.raises(posenc.Unavailable) as e:
        call(client)
    assert e.value.retry_after == float(wait) and len(faults.seen) == 1 and time.monotonic() - begun < 1


@pytest.mark.parametrize(
    "status, code, reason, kind",
    [
        (400, "INVALID_ARGUMENT", "INVALID_PARAMETER", posenc.InvalidArgument),
        (400, "INVALID_ARGUMENT", "LIMIT_EXCEEDED", posenc.LimitExceeded),
        (413, "INVALID_ARGUMENT", "LIMIT_EXCEEDED", posenc.LimitExceeded),
        (415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", posenc.InvalidArgument),
        (401, "UNAUTHENTICATED", "UNAUTHENTICATED", posenc.Unauthenticated),
        (403, "PERMISSION_DENIED", "FORBIDDEN", posenc.PermissionDenied),
        (404, "NOT_FOUND", "UNKNOWN_ENCODING", posenc.NotFound),
        (409, "ALREADY_EXISTS", "EXISTS", posenc.FailedPrecondition),
        (412, "FAILED_PRECONDITION", "PRECONDITION", posenc.FailedPrecondition),
        (422, "FAILED_PRECONDITION", "NO_CONVERGENCE", posenc.NoConvergence),
        (429, "RESOURCE_EXHAUSTED", "RATE", posenc.RateLimited),
        (500, "DATA_LOSS", "DATA_LOSS", posenc.DataLoss),
        (500, "INTERNAL", "INTERNAL", posenc.InternalError),
        (504, "DEADLINE_EXCEEDED", "DEADLINE", posenc.DeadlineExceeded),
    ],
)
def test_refusals_are_final(
    faults: FaultServer, client: posenc.Client, status: int, code: str, reason: str, kind: Type[posenc.PosencError]
) -> None:
    faults.play(problem(status, code, reason, ("embedding_dim", "7", "an even number"), ("rows", "9", "0:4")))
    with pytest.raises(posenc.PosencError) as e:
        call(client)
    assert type(e.value) is kind and len(faults.seen) == 1
    assert (e.value.status, e.value.code, e.value.reason) == (status, code, reason)
    assert [str(v) for v in e.value.violations] == ["embedding_dim: got 7, allowed: an even number", "rows: got 9, allowed: 0:4"]
    assert "embedding_dim: got 7" in str(e.value)


def test_rate_limit_is_retried_only_with_a_hint(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(problem(429, "RESOURCE_EXHAUSTED", "RATE", Retry_After="0"), reply())
    call(client)
    assert len(faults.seen) == 2


def test_gateway_errors_are_not_retried_on_post(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(502, b"", Content_Type="text/html"))
    with pytest.raises(posenc.Unavailable):
        client.encode("sinusoidal", positions=np.arange(4))
    assert len(faults.seen) == 1


def test_post_is_retried_where_nothing_was_done(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reset, problem(503, "UNAVAILABLE", "DRAINING", Retry_After="0"), reply())
    client.encode("sinusoidal", positions=np.arange(4))
    assert len(faults.seen) == 3 and faults.seen[0].body == faults.seen[2].body != b""


def test_cut_in_the_body(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(cut)
    with pytest.raises(posenc.Unavailable, match="ended after"):
        call(client)
    assert len(faults.seen) == 1


@pytest.mark.parametrize("step", [stall, drip_head, drip_body])
def test_deadline_is_for_the_whole_call(faults: FaultServer, client: posenc.Client, step: Any) -> None:
    faults.play(step)
    begun = time.monotonic()
    with pytest.raises(posenc.DeadlineExceeded):
        call(client, timeout=0.5)
    assert time.monotonic() - begun < 1 and len(faults.seen) == 1


def test_flipped_bit(faults: FaultServer, client: posenc.Client) -> None:
    good = table()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    faults.play(reply(body=bad, Repr_Digest=digest(good)))
    with pytest.raises(posenc.IntegrityError, match="digest"):
        call(client)
    assert len(faults.seen) == 1


@pytest.mark.parametrize("length", [8, len(table()) - 4])
def test_content_length_too_small(faults: FaultServer, client: posenc.Client, length: int) -> None:
    faults.play(reply(Content_Length=length), reply())
    with pytest.raises(posenc.IntegrityError):
        call(client)
    assert call(client)["table"].shape == (2, 3)  # what was left over does not become the next answer


def test_content_length_too_large(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(Content_Length=len(table()) + 9, Connection="close"))
    with pytest.raises(posenc.Unavailable, match="ended after"):
        call(client)


@pytest.mark.parametrize("raw", [b"HTTP/1.1 banana\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"])
def test_not_the_protocol(faults: FaultServer, client: posenc.Client, raw: bytes) -> None:
    faults.play(lambda c, seen: bool(c.sendall(raw)))
    with pytest.raises(posenc.IntegrityError):
        call(client)
    assert len(faults.seen) == 1


def test_unreachable(faults: FaultServer) -> None:
    faults.close()
    time.sleep(0.05)
    with posenc.Client(faults.url, timeout=2) as client, pytest.raises(posenc.Unavailable):
        call(client)


def test_size_is_checked_before_memory_is_taken(faults: FaultServer) -> None:
    faults.play(reply(Content_Length=1 << 40))
    with posenc.Client(faults.url, max_bytes=1 << 20) as client, pytest.raises(posenc.LimitExceeded) as e:
        call(client)
    assert e.value.actual == f"{1 << 40} bytes" and str(1 << 20) in e.value.limit


def test_chunked_answers_are_bounded_too(faults: FaultServer) -> None:
    def endless(c: Any, seen: Any) -> bool:
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(64):
            c.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        return False

    faults.play(endless)
    with posenc.Client(faults.url, max_bytes=1 << 20) as client, pytest.raises(posenc.LimitExceeded):
        call(client)


def test_connections_are_kept(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply())
    for _ in range(5):
        call(client)
    assert faults.connections == 1 and len(faults.seen) == 5


def test_kept_connection_that_died(faults: FaultServer, client: posenc.Client) -> None:
    def last(c: Any, seen: Any) -> bool:
        reply()(c, seen)
        return False  # closed without a word

    faults.play(last, last, reply())
    for _ in range(3):
        call(client)
        time.sleep(0.05)
    assert faults.connections == 3 and len(faults.seen) == 3


def test_threads_share_a_client(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply())
    failed = []

    def work() -> None:
        try:
            for _ in range(20):
                call(client)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and len(faults.seen) == 160 and faults.connections <= 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply())
    call(client)
    pid = os.fork()
    if pid == 0:
        try:
            call(client)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    call(client)
    assert [s.connection for s in faults.seen] == [1, 2, 1]  # the child's own; the parent's goes on


def test_revalidation(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(ETag='"a"', Cache_Control="public, max-age=300"), reply(304, b"", ETag='"a"'), reply(ETag='"b"'))
    first, second, third = call(client), call(client), call(client)
    assert "if-none-match" not in faults.seen[0].headers and faults.seen[1].headers["if-none-match"] == '"a"'
    assert [r.from_cache for r in (first, second, third)] == [False, True, False]
    assert second["table"] is first["table"] and len(faults.seen) == 3


def test_immutable_answers_are_not_asked_again(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(ETag='"a"', Cache_Control="public, max-age=31536000, immutable"))
    for _ in range(3):
        r = call(client, rev=2)
    assert r.from_cache and len(faults.seen) == 1
    a = np.arange(3)
    for _ in range(3):
        client.encode("sinusoidal", positions=a, rev=2)
    assert len(faults.seen) == 2
    client.encode("sinusoidal", positions=a + 1, rev=2)  # another body is another request
    assert len(faults.seen) == 3


def test_posts_are_not_revalidated(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(ETag='"a"', Cache_Control="public, max-age=300"))
    for _ in range(2):
        assert not client.encode("sinusoidal", positions=np.arange(3)).from_cache
    assert len(faults.seen) == 2 and "if-none-match" not in faults.seen[1].headers


def test_cache_is_bounded(faults: FaultServer) -> None:
    faults.play(reply(ETag='"a"', Cache_Control="immutable"))
    with posenc.Client(faults.url, cache_bytes=3000) as client:
        for dim in (1, 2, 3, 3, 1):
            client.encode("sinusoidal", embedding_dim=dim)
    assert len(faults.seen) == 4  # room for two: 3 again was kept, 1 was not
    faults.seen.clear()
    with posenc.Client(faults.url, cache_bytes=0) as client:
        for _ in range(2):
            call(client)
    assert len(faults.seen) == 2


def test_retry_budget(faults: FaultServer) -> None:
    faults.play(problem(503, "UNAVAILABLE", "QUEUE_FULL", Retry_After="0"))
    with posenc.Client(faults.url) as client:
        for _ in range(50):
            with pytest.raises(posenc.Unavailable):
                call(client)
    assert 50 + 10 <= len(faults.seen) <= 50 + 10 + 50 * retry.Budget.RATIO


def test_retries_can_be_off(faults: FaultServer) -> None:
    faults.play(problem(503, "UNAVAILABLE", "QUEUE_FULL", Retry_After="0"))
    with posenc.Client(faults.url, retries=False) as client, pytest.raises(posenc.Unavailable):
        call(client)
    assert len(faults.seen) == 1


def test_key_and_environment(faults: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    faults.play(reply())
    monkeypatch.setenv("POSENC_ENDPOINT", faults.url + "/prefix/")
    monkeypatch.setenv("POSENC_TIMEOUT", "3")
    (tmp_path / "key").write_text("s3cret\n")
    monkeypatch.setenv("POSENC_API_KEY_FILE", str(tmp_path / "key"))
    with posenc.Client() as client:
        call(client)
    assert faults.seen[0].headers["authorization"] == "Bearer s3cret"
    assert faults.seen[0].target.startswith("/prefix/v1/encodings/sinusoidal.safetensors?")
    assert 2 < float(faults.seen[0].headers["request-timeout"]) <= 3


def test_version_skew(faults: FaultServer, client: posenc.Client) -> None:
    faults.play(reply(200, b'{"version": "9.9.0"}', Content_Type="application/json"))
    with pytest.warns(posenc.VersionSkewWarning, match="9.9.0"):
        client.capabilities()


def test_closed_client(faults: FaultServer) -> None:
    client = posenc.Client(faults.url)
    client.close()
    with pytest.raises(RuntimeError):
        call(client)


@pytest.mark.parametrize(
    "text, seconds", [("", None), ("3", 3), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("-1", None)]
)
def test_hint(text: str, seconds: Any) -> None:
    assert retry.hint(text) == seconds
