"""What the tests of the async ledger share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from send_once import AsyncLedger, Claimed, MemoryStore, SendContext, threaded

Body = Callable[[AsyncLedger, MemoryStore], Coroutine[Any, Any, None]]


def run(body: Body) -> None:
    """Run `body` with an async ledger over a plain store, in an event loop of its own."""
    store = MemoryStore()
    asyncio.run(body(AsyncLedger(threaded(store)), store))


class Outbox:
    def __init__(self) -> None:
        self.sent: list[SendContext] = []

    async def __call__(self, context: SendContext) -> dict[str, str]:
        await asyncio.sleep(0)
        self.sent.append(context)
        return {"id": f"m{len(self.sent)}"}


def raising(error: BaseException) -> Callable[[], Awaitable[object]]:
    async def send() -> object:
        raise error

    return send


async def claimed_in(ledger: AsyncLedger, key: str = "k") -> Claimed:
    claimed = await ledger.claim(key)
    assert isinstance(claimed, Claimed)
    return claimed
