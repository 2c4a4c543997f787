"""Answers that need not be sent again: least recently used, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, Optional, Tuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    etag: str
    immutable: bool
    value: T
    size: int


class Cache(Generic[T]):
    """Any thread. A budget of 0 keeps nothing."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._entries: OrderedDict[Tuple[str, ...], Entry[T]] = OrderedDict()
        self.reset_lock()

    def reset_lock(self) -> None:
        """After a fork the lock may be held by a thread that is no more."""
        self._lock = threading.Lock()

    def get(self, key: Tuple[str, ...]) -> Optional[Entry[T]]:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, key: Tuple[str, ...], entry: Entry[T]) -> None:
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._used -= old.size
            if entry.size > self._budget:
                return
            self._entries[key] = entry
            self._used += entry.size
            while self._used > self._budget:
                _, gone = self._entries.popitem(last=False)
                self._used -= gone.size

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._used = 0
