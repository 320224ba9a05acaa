"""Async stores that let another task in between a check and its act, or do half of a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broken.plain import Plain
from send_once import Entry, Status
from send_once.stores.base import Pair


class Awaited:
    """The plain store, awaited."""

    def __init__(self) -> None:
        self.plain = Plain()

    async def claim(self, entry: Entry) -> bool:
        return self.plain.claim(entry)

    async def transition(self, came_from: Entry, entry: Entry) -> bool:
        return self.plain.transition(came_from, entry)

    async def get(self, key: str) -> Entry | None:
        return self.plain.get(key)

    async def list(self, status: Status | None = None) -> Sequence[Entry]:
        return self.plain.list(status)


class ClaimAwaitsBetween(Awaited):
    async def claim(self, entry: Entry) -> bool:
        if await self.get(entry.key) is not None:
            return False
        await asyncio.sleep(0)
        self.plain.texts[entry.key] = entry.text
        return True


class TransitionAwaitsBetween(Awaited):
    async def transition(self, came_from: Entry, entry: Entry) -> bool:
        if await self.get(entry.key) != came_from:
            return False
        await asyncio.sleep(0)
        self.plain.texts[entry.key] = entry.text
        return True


class BatchClaimsOnly(Awaited):
    async def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        return [await self.claim(entry) for entry in entries]


class BatchTransitionsOnly(Awaited):
    async def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        return [await self.transition(*pair) for pair in pairs]
