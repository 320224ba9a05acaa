"""PostgresStore behind a transaction pooler, and with answers that get lost on the way."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator

import pytest
from psycopg_pool import ConnectionPool

from send_once import AsyncLedger, AsyncStore, Ledger, Store
from send_once.entry import Entry
from send_once.errors import StoreError
from send_once.protocol import Request
from send_once.stores.postgres import AsyncPostgresStore, PostgresStore
from send_once.testing import AsyncStoreContract, StoreContract, entry_of, settled
from send_once.testing.contract import OpenStore
from servers.pooler import Pooler


@pytest.fixture
def pooler(postgres_url: str) -> Iterator[Pooler]:
    with Pooler(postgres_url) as running:
        yield running


@pytest.fixture
def store(pooler: Pooler) -> Iterator[PostgresStore]:
    opened = PostgresStore(pooler.url)
    opened.create_table()
    yield opened
    opened.close()


class TestPostgresStoreBehindAPooler(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, pooler: Pooler) -> None:
        self.url = pooler.url

    def make_store(self) -> Store:
        return PostgresStore(self.url)

    def opener(self) -> OpenStore | None:
        return functools.partial(PostgresStore, self.url)


class TestAsyncPostgresStoreBehindAPooler(AsyncStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, pooler: Pooler) -> None:
        self.url = pooler.url

    async def make_store(self) -> AsyncStore:
        return AsyncPostgresStore(self.url)


def test_a_send_takes_two_round_trips_and_a_duplicate_one(pooler: Pooler, store: PostgresStore) -> None:
    ledger = Ledger(store)
    start = pooler.round_trips
    assert ledger.once("k", lambda: "id").outcome == "sent"
    assert pooler.round_trips - start == 2
    assert ledger.once("k", lambda: "id").outcome == "duplicate"
    assert pooler.round_trips - start == 3


def test_a_batch_takes_one_round_trip_for_all_claims_and_one_for_all_outcomes(
    pooler: Pooler, store: PostgresStore
) -> None:
    ledger = Ledger(store)
    start = pooler.round_trips
    claims = ledger.claim_many([Request(str(number)) for number in range(100)])
    assert pooler.round_trips - start == 1
    assert {claim.outcome for claim in claims if hasattr(claim, "outcome")} == {"claimed"}


@pytest.mark.parametrize("lost", [1, 2])
def test_a_claim_whose_answer_was_lost_is_ours(pooler: Pooler, store: PostgresStore, lost: int) -> None:
    """The statement was applied, the connection died: the store asks again and knows its own text."""
    claims: list[Callable[[Entry], object]] = [
        store.claim,
        store.claim_or_get,
        lambda entry: store.claim_many([entry])[0],
    ]
    for number, claim in enumerate(claims):
        entry = entry_of(f"k{number}")
        pooler.lose_answers = lost
        assert claim(entry) is True
        assert store.get(entry.key) == entry


@pytest.mark.parametrize("lost", [1, 2])
def test_a_claim_of_another_whose_answer_was_lost_is_not_ours(pooler: Pooler, store: PostgresStore, lost: int) -> None:
    theirs, ours = entry_of("k", claim_id="theirs"), entry_of("k", claim_id="ours")
    assert store.claim(theirs)
    pooler.lose_answers = lost
    assert store.claim(ours) is False
    pooler.lose_answers = lost
    assert store.claim_or_get(ours) == theirs
    pooler.lose_answers = lost
    assert store.claim_many([ours]) == [False]
    pooler.lose_answers = lost
    assert store.transition(ours, settled(ours, "sent")) is False
    assert store.get("k") == theirs


@pytest.mark.parametrize("lost", [1, 2])
def test_an_outcome_whose_answer_was_lost_is_recorded(pooler: Pooler, store: PostgresStore, lost: int) -> None:
    first, second = entry_of("a"), entry_of("b")
    assert store.claim_many([first, second]) == [True, True]
    pooler.lose_answers = lost
    assert store.transition(first, settled(first, "sent"))
    pooler.lose_answers = lost
    assert store.transition_many([(second, settled(second, "sent"))]) == [True]
    assert [entry.status.value for entry in store.list()] == ["sent", "sent"]


def test_every_answer_of_a_send_may_be_lost_and_it_is_sent_once(pooler: Pooler, store: PostgresStore) -> None:
    for number in range(4):
        sends: list[int] = []

        def send(sends: list[int] = sends) -> str:
            pooler.lose_answers = 1
            sends.append(1)
            return "id"

        pooler.lose_answers = number % 3
        assert Ledger(store).once(f"k{number}", send).outcome == "sent"
        assert Ledger(store).once(f"k{number}", send).outcome == "duplicate"
        assert sends == [1]


def test_when_every_connection_dies_the_store_says_that_it_does_not_know(pooler: Pooler, store: PostgresStore) -> None:
    sends: list[int] = []
    assert store.get("warm") is None
    pooler.lose_answers = 100
    with pytest.raises(StoreError, match="not known"):
        Ledger(store).once("k", lambda: sends.append(1))
    pooler.lose_answers = 0
    assert sends == []
    assert Ledger(store).once("k", lambda: sends.append(1)).outcome == "unknown"
    assert sends == []


def test_async_answers_may_be_lost_as_well(pooler: Pooler) -> None:
    async def work() -> None:
        store = AsyncPostgresStore(pooler.url)
        await store.create_table()
        ledger = AsyncLedger(store)

        async def send() -> str:
            pooler.lose_answers = 2
            return "id"

        pooler.lose_answers = 2
        assert (await ledger.once("k", send)).outcome == "sent"
        pooler.lose_answers = 2
        assert (await ledger.once("k", send)).outcome == "duplicate"
        await store.close()

    asyncio.run(work())


def test_a_pool_that_would_prepare_statements_does_not_get_to(pooler: Pooler) -> None:
    """psycopg prepares a statement when it is used for the fifth time; behind a pooler that fails."""
    with ConnectionPool(pooler.url, min_size=1, kwargs={"autocommit": True}) as pool:
        ledger = Ledger(PostgresStore(pool))
        for number in range(12):
            assert ledger.once(str(number), lambda: "id").outcome == "sent"
