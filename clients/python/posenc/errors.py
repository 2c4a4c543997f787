"""What can go wrong. Everything raised on purpose is a PosencError."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple


@dataclass(frozen=True)
class Violation:
    """One field that the server refused: what was given, what would be right."""

    field: str
    value: str
    reason: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.field}: got {self.value}, allowed: {self.allowed}" if self.value else f"{self.field}: {self.allowed}"


class PosencError(Exception):
    """status: HTTP, 0 without an answer. code: gRPC's name. reason: UPPER_SNAKE. request_id: to quote to the operator."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        reason: str = "",
        violations: Sequence[Violation] = (),
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason
        self.violations: Tuple[Violation, ...] = tuple(violations)
        self.request_id = request_id
        self.retry_after = retry_after


class InvalidArgument(PosencError):
    """The request is wrong; `violations` names every field at once."""


class LimitExceeded(InvalidArgument):
    """Over a published limit, or over this client's max_bytes."""

    @property
    def limit(self) -> str:
        return self.violations[0].allowed if self.violations else ""

    @property
    def actual(self) -> str:
        return self.violations[0].value if self.violations else ""


class NotFound(PosencError):
    """No such encoding, tensor, revision or result."""


class FailedPrecondition(PosencError):
    """A conflict or a precondition that does not hold."""


class NoConvergence(FailedPrecondition):
    """The solver did not reach the tolerance."""


class Unauthenticated(PosencError):
    """No valid key."""


class PermissionDenied(PosencError):
    """The key does not allow this."""


class RateLimited(PosencError):
    """Rate or quota exceeded; `retry_after` seconds when the server says so."""


class Unavailable(PosencError):
    """No connection, a connection that broke, or a server that is busy, starting or draining."""


class DeadlineExceeded(PosencError):
    """The call's timeout passed, here or at the server."""


class DataLoss(PosencError):
    """The server found stored data damaged."""


class InternalError(PosencError):
    """A fault of the server, or an answer that is not the protocol."""


class IntegrityError(PosencError):
    """The bytes that arrived are not the bytes that were sent."""


class VersionSkewWarning(UserWarning):
    """Client and server have different minor versions."""


_BY_STATUS = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    409: FailedPrecondition,
    412: FailedPrecondition,
    422: NoConvergence,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: DeadlineExceeded,
}


def _violation(fault: Any) -> Violation:
    def text(name: str) -> str:
        value = fault.get(name, "")
        return value if isinstance(value, str) else json.dumps(value)

    return Violation(text("field"), text("value"), text("reason"), text("allowed"))


def is_problem(media: str) -> bool:
    return media.partition(";")[0].strip().lower() == "application/problem+json"


def from_answer(
    status: int, media: str, body: bytes, request_id: Optional[str], retry_after: Optional[float]
) -> PosencError:
    """The exception for an answer that is no success."""
    problem: Any = {}
    if is_problem(media):
        try:
            problem = json.loads(body)
        except ValueError:
            pass
    if not isinstance(problem, dict):
        problem = {}
    faults = problem.get("errors")
    violations = [_violation(f) for f in faults if isinstance(f, dict)] if isinstance(faults, list) else []
    reason = str(problem.get("reason", "")) or (violations[0].reason if violations else "")
    code = str(problem.get("code", ""))
    words = "; ".join(map(str, violations)) or str(problem.get("detail") or problem.get("title") or "")
    if reason == "LIMIT_EXCEEDED" and 400 <= status < 500:
        kind: type[PosencError] = LimitExceeded
    elif code == "DATA_LOSS":
        kind = DataLoss
    else:
        kind = _BY_STATUS.get(status, InvalidArgument if 400 <= status < 500 else InternalError)
    return kind(
        f"HTTP {status}: {words}" if words else f"HTTP {status}",
        status=status,
        code=code,
        reason=reason,
        violations=violations,
        request_id=str(problem.get("request_id") or "") or request_id,
        retry_after=retry_after,
    )
