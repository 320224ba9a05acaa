"""An async store as a plain one, in an event loop of its own, so that the rules for stores hold for both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from send_once.entry import Entry, Status
from send_once.stores.base import AsyncStore, Pair


class Awaiting:
    """Each call is a task in the loop of the store; calls from several threads are concurrent tasks."""

    def __init__(self, make: Callable[[], Awaitable[AsyncStore]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._store: Any = self._run(make)
        self.__class__ = _with_what_it_can_do(self._store)

    def claim(self, entry: Entry) -> bool:
        answer: bool = self._run(self._store.claim, entry)
        return answer

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        answer: bool = self._run(self._store.transition, came_from, entry)
        return answer

    def get(self, key: str) -> Entry | None:
        entry: Entry | None = self._run(self._store.get, key)
        return entry

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        entries: Sequence[Entry] = self._run(self._store.list, status)
        return entries

    def stop(self) -> None:
        """Close the store in its loop, and end the loop."""
        if hasattr(self._store, "close"):
            self._run(self._store.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, call: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        async def awaited() -> Any:
            return await call(*arguments)

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


class _ClaimsMany(Awaiting):
    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        answers: Sequence[bool] = self._run(self._store.claim_many, entries)
        return answers


class _TransitionsMany(Awaiting):
    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        answers: Sequence[bool] = self._run(self._store.transition_many, pairs)
        return answers


class _Answers(Awaiting):
    def claim_or_get(self, entry: Entry) -> bool | Entry:
        answer: bool | Entry = self._run(self._store.claim_or_get, entry)
        return answer


class _History(Awaiting):
    def history(self, key: str) -> Sequence[Entry]:
        states: Sequence[Entry] = self._run(self._store.history, key)
        return states


_OPTIONAL = {
    "claim_many": _ClaimsMany,
    "transition_many": _TransitionsMany,
    "claim_or_get": _Answers,
    "history": _History,
}


def _with_what_it_can_do(store: object) -> type[Awaiting]:
    """The class, named like the store's, with those optional methods that it has: the rules ask for them by name."""
    able = tuple(kind for method, kind in _OPTIONAL.items() if hasattr(store, method))
    return type(type(store).__name__, (*able, Awaiting), {})
