"""When to ask again, and how long to wait first."""

from __future__ import annotations

import email.utils
import random
import threading
import time
from typing import Optional

ATTEMPTS = 3
LONGEST_HINT_S = 60.0


def backoff(attempt: int) -> float:
    """Full jitter: clients that failed together do not come back together."""
    return random.uniform(0.0, min(5.0, 0.1 * 2**attempt))


def hint(retry_after: str) -> Optional[float]:
    """Seconds that a Retry-After header asks for; None without one that makes sense."""
    text = retry_after.strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


class Budget:
    """Retries are at most a fifth of all calls, after the first few: a fleet cannot stampede a server that is down."""

    RATIO, MOST = 0.2, 10.0

    def __init__(self) -> None:
        self._tokens = self.MOST
        self.reset_lock()

    def reset_lock(self) -> None:
        self._lock = threading.Lock()

    def call(self) -> None:
        with self._lock:
            self._tokens = min(self.MOST, self._tokens + self.RATIO)

    def retry(self) -> bool:
        with self._lock:
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True
