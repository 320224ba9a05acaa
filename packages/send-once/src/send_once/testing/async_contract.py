"""The contract for async stores: the same rules, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from send_once.async_ledger import AsyncLedger
from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError
from send_once.outcomes import Claimed
from send_once.stores.base import AsyncStore
from send_once.testing.entries import ODD_KEYS, entry_of, settled
from send_once.testing.faults import AsyncFaultyStore, Fault, StoreFault

TASKS = 40


class AsyncStoreContract:
    """Subclass it, define `make_store`, run pytest. Each test runs in an event loop of its own; a
    store with a `close` is closed in it."""

    async def make_store(self) -> AsyncStore:
        raise NotImplementedError("AsyncStoreContract: define make_store() to return a new, empty store.")

    def test_a_claim_inserts_once(self) -> None:
        async def body(store: AsyncStore) -> None:
            first = entry_of("k")
            assert await store.get("k") is None
            assert await store.claim(first) is True
            assert await store.claim(entry_of("k", claim_id="c2")) is False
            assert await _stored(store, "k") == first

        self._run(body)

    def test_exactly_one_of_racing_tasks_claims(self) -> None:
        async def body(store: AsyncStore) -> None:
            answers = await asyncio.gather(*(store.claim(entry_of("k", claim_id=f"c{n}")) for n in range(TASKS)))
            assert answers.count(True) == 1
            assert (await _stored(store, "k")).claim_id == f"c{answers.index(True)}"

        self._run(body)

    def test_a_transition_replaces_exactly_what_it_names(self) -> None:
        async def body(store: AsyncStore) -> None:
            first, second = entry_of("k"), entry_of("k", attempts=2, claim_id="c2")
            await store.claim(first)
            assert await store.transition(first, settled(first, "failed")) is True
            assert await store.transition(first, settled(first, "sent")) is False
            assert await store.transition(await _stored(store, "k"), second) is True
            assert await store.transition(first, settled(first, "failed")) is False
            assert await _stored(store, "k") == second

        self._run(body)

    def test_exactly_one_of_racing_transitions_wins(self) -> None:
        async def body(store: AsyncStore) -> None:
            failed = entry_of("k", status="failed")
            await store.claim(failed)
            tries = (store.transition(failed, entry_of("k", attempts=2, claim_id=f"r{n}")) for n in range(TASKS))
            assert list(await asyncio.gather(*tries)).count(True) == 1

        self._run(body)

    def test_odd_keys_are_kept_apart_or_refused(self) -> None:
        async def body(store: AsyncStore) -> None:
            kept = []
            for key in ODD_KEYS:
                try:
                    assert await store.claim(entry_of(key)) is True
                except InvalidInputError:
                    continue
                kept.append(key)
            assert sorted(entry.key for entry in await store.list()) == sorted(kept)

        self._run(body)

    def test_list_is_by_claim_time_and_by_status(self) -> None:
        async def body(store: AsyncStore) -> None:
            await store.claim(entry_of("late", claimed_at="2026-09-27T13:00:00.000Z"))
            await store.claim(entry_of("early"))
            await store.claim(entry_of("failed", status="failed"))
            assert [entry.key for entry in await store.list(Status.PENDING)] == ["early", "late"]

        self._run(body)

    def test_a_claim_that_was_applied_and_not_answered_is_known_by_its_id(self) -> None:
        async def body(store: AsyncStore) -> None:
            faulty = AsyncFaultyStore(store, [Fault("claim", "after")])
            assert (await AsyncLedger(faulty).once("k", _sends)).outcome == "sent"

        self._run(body)

    def test_a_record_that_failed_leaves_the_send_unknown(self) -> None:
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

    def test_the_two_halves_of_a_send_settle_the_claim_they_made(self) -> None:
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
