"""A store in this process's memory: for tests, and for sends that need not outlive the process."""

from __future__ import annotations

from collections.abc import Sequence

from send_once.entry import Entry, Status
from send_once.stores.base import Pair


class MemoryStore:
    """Entries in a dictionary. Safe between threads and in signal handlers; nothing survives the
    process, and a forked child has its own copy. Keeps every state of an entry, for `history`."""

    def __init__(self) -> None:
        # No lock: each state has a number, and `setdefault`, which nothing can interrupt, gives a number
        # away once. A lock would be held for ever in a child that was forked meanwhile.
        self._states: dict[str, dict[int, list[Entry]]] = {}

    def claim(self, entry: Entry) -> bool:
        mine = {0: [entry]}
        return self._states.setdefault(entry.key, mine) is mine

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        states = self._states.get(came_from.key)
        if states is None:
            return False
        number, mine = len(states), [entry]
        return states[number - 1][0] == came_from and states.setdefault(number, mine) is mine

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        return [self.claim(entry) for entry in entries]

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        return [self.transition(came_from, entry) for came_from, entry in pairs]

    def get(self, key: str) -> Entry | None:
        states = self._states.get(key)
        return None if states is None else states[len(states) - 1][0]

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        current = [states[len(states) - 1][0] for states in tuple(self._states.values())]
        wanted = [entry for entry in current if status is None or entry.status is status]
        return sorted(wanted, key=lambda entry: entry.claimed_at)

    def history(self, key: str) -> Sequence[Entry]:
        return tuple(state for (state,) in tuple(self._states.get(key, {}).values()))
