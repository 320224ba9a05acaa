"""An async ledger that is called like a plain one, so that recorded scenarios can be played on both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from send_once import AsyncLedger, SendContext, Store, threaded


class Awaited:
    """Each call runs in an event loop of its own, in a thread of its own: scenarios call the ledger from inside a send."""

    def __init__(self, store: Store, *, clock: Callable[[], Any]) -> None:
        self.ledger = AsyncLedger(threaded(store), clock=clock)

    def once(self, key: Any, send: Any, meta: Any = None) -> Any:
        async def awaited(context: SendContext) -> Any:
            await asyncio.sleep(0)
            return send(context)

        return self._call(self.ledger.once, key, awaited if callable(send) else send, meta)

    def dispatch(self, approval: Any, *, send: Any, recheck: Any = None, **named: Any) -> Any:
        async def awaited(payload: Any, context: SendContext) -> Any:
            await asyncio.sleep(0)
            return send(payload, context)

        async def awaited_recheck() -> Any:
            await asyncio.sleep(0)
            return recheck()

        named["send"] = awaited if callable(send) else send
        named["recheck"] = awaited_recheck if callable(recheck) else recheck
        return self._call(self.ledger.dispatch, approval, **named)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: self._call(getattr(self.ledger, name), *arguments, **named)

    @staticmethod
    def _call(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(method(*arguments, **named))).result()
