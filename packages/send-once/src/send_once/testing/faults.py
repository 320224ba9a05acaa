"""Stores that fail on purpose: before a call reaches the store, or after it was applied.

The second kind is the one that is rarely tested: the write is there, and the caller hears an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from send_once.entry import Entry, Status
from send_once.stores.base import AsyncStore, Pair, Store

Moment = Literal["before", "after"]


class StoreFault(Exception):  # noqa: N818  # a fault that was asked for, not an error of the store
    """What a faulty store raises."""


@dataclass(slots=True)
class Fault:
    """The `nth` call of `method` fails, `moment` it has been applied."""

    method: str
    moment: Moment
    nth: int = 1
    make_error: Callable[[], BaseException] = field(default=lambda: StoreFault("connection terminated"))


class _Plan:
    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        self.calls: list[str] = []

    def due(self, method: str) -> Fault | None:
        """Count a call; the fault planned for it, if any."""
        self.calls.append(method)
        nth = self.calls.count(method)
        return next((fault for fault in self.faults if fault.method == method and fault.nth == nth), None)


class FaultyStore:
    """Wraps a store. `calls` lists the names of the calls that were made, in order; a claim counts as
    `claim` also where the store answers it with the entry in the way."""

    def __init__(self, store: Store, faults: Iterable[Fault]) -> None:
        self._store, self._plan = store, _Plan(faults)

    @property
    def calls(self) -> list[str]:
        return self._plan.calls

    def claim(self, entry: Entry) -> bool:
        return bool(self._call("claim", entry))

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        answer: bool | Entry = self._call("claim", entry, through=_claiming(self._store))
        return answer

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        return bool(self._call("transition", came_from, entry))

    def get(self, key: str) -> Entry | None:
        found: Entry | None = self._call("get", key)
        return found

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        found: Sequence[Entry] = self._call("list", status)
        return found

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        if hasattr(self._store, "claim_many"):
            return [bool(answer) for answer in self._call("claim_many", entries)]
        return [self.claim(entry) for entry in entries]

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        if hasattr(self._store, "transition_many"):
            return [bool(answer) for answer in self._call("transition_many", pairs)]
        return [self.transition(*pair) for pair in pairs]

    def _call(self, method: str, *arguments: object, through: str | None = None) -> Any:
        fault = self._plan.due(method)
        if fault is not None and fault.moment == "before":
            raise fault.make_error()
        answer = getattr(self._store, through or method)(*arguments)
        if fault is not None:
            raise fault.make_error()
        return answer


class AsyncFaultyStore:
    """The same for an async store."""

    def __init__(self, store: AsyncStore, faults: Iterable[Fault]) -> None:
        self._store, self._plan = store, _Plan(faults)

    @property
    def calls(self) -> list[str]:
        return self._plan.calls

    async def claim(self, entry: Entry) -> bool:
        return bool(await self._call("claim", entry))

    async def claim_or_get(self, entry: Entry) -> bool | Entry:
        answer: bool | Entry = await self._call("claim", entry, through=_claiming(self._store))
        return answer

    async def transition(self, came_from: Entry, entry: Entry) -> bool:
        return bool(await self._call("transition", came_from, entry))

    async def get(self, key: str) -> Entry | None:
        found: Entry | None = await self._call("get", key)
        return found

    async def list(self, status: Status | None = None) -> Sequence[Entry]:
        found: Sequence[Entry] = await self._call("list", status)
        return found

    async def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        if hasattr(self._store, "claim_many"):
            return [bool(answer) for answer in await self._call("claim_many", entries)]
        return [await self.claim(entry) for entry in entries]

    async def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        if hasattr(self._store, "transition_many"):
            return [bool(answer) for answer in await self._call("transition_many", pairs)]
        return [await self.transition(*pair) for pair in pairs]

    async def _call(self, method: str, *arguments: object, through: str | None = None) -> Any:
        fault = self._plan.due(method)
        if fault is not None and fault.moment == "before":
            raise fault.make_error()
        answer = await getattr(self._store, through or method)(*arguments)
        if fault is not None:
            raise fault.make_error()
        return answer


def _claiming(store: object) -> str:
    return "claim_or_get" if hasattr(store, "claim_or_get") else "claim"
