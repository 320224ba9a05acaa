"""A store in this process's memory: for tests, and for sends that need not outlive the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from send_once.entry import Entry, Status
from send_once.stores.base import Pair


class MemoryStore:
    """Entries in a dictionary. Safe between threads; nothing survives the process, and a forked
    child has its own copy. Keeps every state of an entry, for `history`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, list[Entry]] = {}

    def claim(self, entry: Entry) -> bool:
        with self._lock:
            return self._claim(entry)

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        with self._lock:
            return self._transition(came_from, entry)

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        with self._lock:
            return [self._claim(entry) for entry in entries]

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        with self._lock:
            return [self._transition(came_from, entry) for came_from, entry in pairs]

    def get(self, key: str) -> Entry | None:
        states = self._states.get(key)
        return states[-1] if states else None

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        with self._lock:
            current = [states[-1] for states in self._states.values()]
        wanted = [entry for entry in current if status is None or entry.status is status]
        return sorted(wanted, key=lambda entry: entry.claimed_at)

    def history(self, key: str) -> Sequence[Entry]:
        with self._lock:
            return tuple(self._states.get(key, ()))

    def _claim(self, entry: Entry) -> bool:
        if entry.key in self._states:
            return False
        self._states[entry.key] = [entry]
        return True

    def _transition(self, came_from: Entry, entry: Entry) -> bool:
        states = self._states.get(came_from.key)
        if not states or states[-1] != came_from:
            return False
        states.append(entry)
        return True
