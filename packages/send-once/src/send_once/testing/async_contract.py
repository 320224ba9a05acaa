"""The contract for async stores: the same rules, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from send_once.async_ledger import AsyncLedger
from send_once.entry import Entry
from send_once.outcomes import Claimed
from send_once.stores.base import AsyncStore, Store
from send_once.testing.awaiting import Awaiting
from send_once.testing.contract import StoreRules
from send_once.testing.entries import entry_of
from send_once.testing.faults import AsyncFaultyStore, Fault, StoreFault

TASKS = 40


class AsyncStoreContract(StoreRules):
    """Subclass it, define `make_store`, run pytest.

    `make_store()` gives a new, empty store; it is awaited in an event loop of its own, and a store with
    a `close` is closed in it. Every rule for plain stores is tried within one process, and the rules
    about tasks and cancellation besides.
    """

    async def make_store(self) -> AsyncStore:
        raise NotImplementedError("AsyncStoreContract: define make_store() to return a new, empty store.")

    def new_store(self) -> Store:
        made = Awaiting(self.make_store)
        self._made = [*getattr(self, "_made", ()), made]
        return made

    def teardown_method(self) -> None:
        """Ends the loops of the stores that a test made; pytest calls it after each."""
        while getattr(self, "_made", ()):
            self._made.pop().stop()

    def test_exactly_one_of_racing_tasks_claims(self) -> None:
        async def body(store: AsyncStore) -> None:
            answers = await asyncio.gather(*(store.claim(entry_of("k", claim_id=f"c{n}")) for n in range(TASKS)))
            assert answers.count(True) == 1
            assert (await _stored(store, "k")).claim_id == f"c{answers.index(True)}"

        self._run(body)

    def test_exactly_one_of_racing_tasks_replaces_an_entry(self) -> None:
        async def body(store: AsyncStore) -> None:
            failed = entry_of("k", status="failed")
            await store.claim(failed)
            tries = (store.transition(failed, entry_of("k", attempts=2, claim_id=f"r{n}")) for n in range(TASKS))
            assert list(await asyncio.gather(*tries)).count(True) == 1

        self._run(body)

    def test_an_awaited_claim_that_was_applied_and_not_answered_is_known_by_its_id(self) -> None:
        async def body(store: AsyncStore) -> None:
            faulty = AsyncFaultyStore(store, [Fault("claim", "after")])
            assert (await AsyncLedger(faulty).once("k", _sends)).outcome == "sent"

        self._run(body)

    def test_an_awaited_record_that_failed_leaves_the_send_unknown(self) -> None:
        async def body(store: AsyncStore) -> None:
            faulty = AsyncFaultyStore(store, [Fault("transition", "before")])
            try:
                await AsyncLedger(faulty).once("k", _sends)
            except StoreFault:
                assert (await AsyncLedger(store).once("k", _sends)).outcome == "unknown"
            else:
                raise AssertionError("the fault was not raised")

        self._run(body)

    def test_many_tasks_send_once(self) -> None:
        async def body(store: AsyncStore) -> None:
            ledger, sends = AsyncLedger(store), []

            async def send() -> None:
                sends.append(1)

            outcomes = await asyncio.gather(*(ledger.once("k", send) for _ in range(TASKS)))
            assert len(sends) == 1
            assert [outcome.outcome for outcome in outcomes].count("sent") == 1

        self._run(body)

    def test_a_cancelled_send_leaves_it_unknown_and_the_store_usable(self) -> None:
        async def body(store: AsyncStore) -> None:
            ledger, started = AsyncLedger(store), asyncio.Event()

            async def send() -> None:
                started.set()
                await asyncio.sleep(60)

            task = asyncio.create_task(ledger.once("k", send))
            await started.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert (await ledger.once("k", _sends)).outcome == "unknown"
            assert (await ledger.once("other", _sends)).outcome == "sent"

        self._run(body)

    def test_cancelling_at_any_point_never_lets_a_second_send_run(self) -> None:
        async def body(store: AsyncStore) -> None:
            ledger = AsyncLedger(store)
            for steps in range(12):
                sends: list[int] = []

                async def send(sends: list[int] = sends) -> None:
                    sends.append(1)

                task = asyncio.create_task(ledger.once(f"k{steps}", send))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                after = await ledger.once(f"k{steps}", send)
                assert len(sends) <= 1, f"cancelled after {steps} steps: {after.outcome}"

        self._run(body)

    def test_the_two_awaited_halves_of_a_send_settle_the_claim_they_made(self) -> None:
        async def body(store: AsyncStore) -> None:
            ledger = AsyncLedger(store)
            claimed = await ledger.claim("k")
            assert isinstance(claimed, Claimed)
            assert (await ledger.settle(claimed, "msg")).outcome == "sent"

        self._run(body)

    def _run(self, body: Callable[[AsyncStore], Awaitable[None]]) -> None:
        async def in_loop() -> None:
            store = await self.make_store()
            try:
                await body(store)
            finally:
                close: Any = getattr(store, "close", None)
                if callable(close):
                    await close()

        asyncio.run(in_loop())


async def _stored(store: AsyncStore, key: str) -> Entry:
    entry = await store.get(key)
    assert entry is not None, f"the store has no entry for {key!r}"
    return entry


async def _sends() -> str:
    return "msg"
