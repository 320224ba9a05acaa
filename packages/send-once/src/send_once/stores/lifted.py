"""Any plain store, for asyncio: each call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from send_once.entry import Entry, Status
from send_once.stores.base import AnsweringStore, BatchStore, HistoryStore, Pair, Store, require_plain_store


class ThreadedStore:
    """An AsyncStore over a plain one. A cancelled call still runs to its end in its thread."""

    def __init__(self, store: Store) -> None:
        require_plain_store(store)
        self._store = store

    async def claim(self, entry: Entry) -> bool:
        return await asyncio.to_thread(self._store.claim, entry)

    async def claim_or_get(self, entry: Entry) -> bool | Entry:
        claim = self._store.claim_or_get if isinstance(self._store, AnsweringStore) else self._store.claim
        return await asyncio.to_thread(claim, entry)

    async def transition(self, came_from: Entry, entry: Entry) -> bool:
        return await asyncio.to_thread(self._store.transition, came_from, entry)

    async def get(self, key: str) -> Entry | None:
        return await asyncio.to_thread(self._store.get, key)

    async def list(self, status: Status | None = None) -> Sequence[Entry]:
        return await asyncio.to_thread(self._store.list, status)

    async def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        if isinstance(self._store, BatchStore):
            return await asyncio.to_thread(self._store.claim_many, entries)
        return [await self.claim(entry) for entry in entries]

    async def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        if isinstance(self._store, BatchStore):
            return await asyncio.to_thread(self._store.transition_many, pairs)
        return [await self.transition(came_from, entry) for came_from, entry in pairs]

    async def close(self) -> None:
        close = getattr(self._store, "close", None)
        if callable(close):
            await asyncio.to_thread(close)


class _ThreadedHistoryStore(ThreadedStore):
    """Offers `history` where the store keeps it; the ledger makes one from the entry where it does not."""

    _store: HistoryStore

    async def history(self, key: str) -> Sequence[Entry]:
        return await asyncio.to_thread(self._store.history, key)


def threaded(store: Store) -> ThreadedStore:
    """Lift a plain store into async: `AsyncLedger(threaded(FileStore("ledger.jsonl")))`."""
    return (_ThreadedHistoryStore if isinstance(store, HistoryStore) else ThreadedStore)(store)
