"""What a cancellation of an async send may and may not undo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from async_sending import Outbox, claimed_in, raising, run
from send_once import AsyncLedger, Entry, MemoryStore, RejectedSendError, Report, Status, approve, threaded
from send_once.testing import AsyncFaultyStore, Fault
from sending import entry_in


class PausedStore:
    """An async store whose next call of one method waits: `reached` is set there, and `go` lets it on."""

    def __init__(self, store: MemoryStore, method: str) -> None:
        self._inner, self._method = threaded(store), method
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def claim(self, entry: Entry) -> bool:
        await self._pause("claim")
        return await self._inner.claim(entry)

    async def transition(self, came_from: Entry, entry: Entry) -> bool:
        await self._pause("transition")
        return await self._inner.transition(came_from, entry)

    async def get(self, key: str) -> Entry | None:
        return await self._inner.get(key)

    async def list(self, status: Status | None = None) -> Sequence[Entry]:
        return await self._inner.list(status)

    async def _pause(self, method: str) -> None:
        if method == self._method:
            self.reached.set()
            await self.go.wait()


async def cancelled(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_send_that_is_cancelled_is_unknown_and_is_not_sent_again() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        began, outbox = asyncio.Event(), Outbox()

        async def send() -> None:
            began.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(ledger.once("k", send))
        await began.wait()
        task.cancel()
        await cancelled(task)
        assert entry_in(store).status is Status.PENDING
        assert (await ledger.once("k", outbox)).outcome == "unknown"
        assert outbox.sent == []

    run(body)


def test_a_time_limit_around_a_send_leaves_it_unknown() -> None:
    async def body(ledger: AsyncLedger, store: MemoryStore) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ledger.once("k", lambda: asyncio.sleep(60))
        assert entry_in(store).status is Status.PENDING

    run(body)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("how", ["once", "settle", "settle_many", "failed", "dispatch"])
def test_a_cancellation_while_the_outcome_is_recorded_waits_for_it(how: str, times: int) -> None:
    """The message is out: whoever cancels now must not make it unknown."""

    async def body() -> None:
        store = MemoryStore()
        paused = PausedStore(store, "transition")
        ledger, outbox = AsyncLedger(paused), Outbox()
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "once": lambda: ledger.once("k", outbox),
            "settle": lambda: ledger.settle(claimed, "m1"),
            "settle_many": lambda: ledger.settle_many([Report(claimed, "m1")]),
            "failed": lambda: ledger.once("k", raising(RejectedSendError("no"))),
            "dispatch": lambda: ledger.dispatch(
                approve(payload=1), key="k", payload=1, send=lambda _, context: outbox(context)
            ),
        }
        if how.startswith("settle"):
            claimed = await claimed_in(ledger)
        task = asyncio.create_task(calls[how]())
        await paused.reached.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        paused.go.set()
        await cancelled(task)
        assert entry_in(store).status is (Status.FAILED if how == "failed" else Status.SENT)

    asyncio.run(body())


def test_a_cancellation_while_the_claim_is_made_sends_nothing() -> None:
    async def body() -> None:
        store, outbox = MemoryStore(), Outbox()
        paused = PausedStore(store, "claim")
        task = asyncio.create_task(AsyncLedger(paused).once("k", outbox))
        await paused.reached.wait()
        task.cancel()
        await cancelled(task)
        paused.go.set()
        assert outbox.sent == []
        assert (await AsyncLedger(threaded(store)).once("k", outbox)).outcome in ("sent", "unknown")

    asyncio.run(body())


def test_a_store_error_while_cancelled_does_not_hide_the_cancellation() -> None:
    async def body() -> None:
        store = MemoryStore()
        paused = PausedStore(store, "transition")
        ledger = AsyncLedger(AsyncFaultyStore(paused, [Fault("transition", "after")]))
        task = asyncio.create_task(ledger.once("k", Outbox()))
        await paused.reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        paused.go.set()
        await cancelled(task)
        assert entry_in(store).status is Status.SENT

    asyncio.run(body())


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3)])
def test_being_told_to_stop_in_a_send_leaves_it_unknown(stop: BaseException) -> None:
    store = MemoryStore()

    async def body() -> None:
        await AsyncLedger(threaded(store)).once("k", raising(stop))

    with pytest.raises(type(stop)):
        asyncio.run(body())
    assert entry_in(store).status is Status.PENDING


def test_a_loop_that_ends_while_an_outcome_is_recorded_breaks_no_promise() -> None:
    """asyncio.run cancels what is left, the recording included: it is recorded, or unknown."""
    store = MemoryStore()

    async def body() -> None:
        paused = PausedStore(store, "transition")
        task = asyncio.create_task(AsyncLedger(paused).once("k", Outbox()))
        await paused.reached.wait()
        assert not task.done()

    asyncio.run(body())
    outbox = Outbox()
    assert asyncio.run(AsyncLedger(threaded(store)).once("k", outbox)).outcome in ("duplicate", "unknown")
    assert outbox.sent == []
