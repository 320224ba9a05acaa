"""Many claims and many outcomes at once, on stores with and without a durable step for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from send_once import (
    Claimed,
    Duplicate,
    Failed,
    FileStore,
    InvalidInputError,
    KeyReusedError,
    Ledger,
    MemoryStore,
    RejectedSendError,
    Report,
    Sent,
    SQLiteStore,
    Status,
    Store,
    UncertainSendError,
    Unknown,
    claim_request,
)
from send_once.testing import Fault, FaultyStore, StoreFault
from sending import Outbox, claimed_in, entry_in, raising


def one_by_one(store: Store) -> Store:
    """The same store without its batches."""
    return SimpleNamespace(claim=store.claim, transition=store.transition, get=store.get, list=store.list)


KINDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _folder: MemoryStore(),
    "memory, one by one": lambda _folder: one_by_one(MemoryStore()),
    "file": lambda folder: FileStore(folder / "ledger.jsonl"),
    "sqlite": lambda folder: SQLiteStore(folder / "ledger.db"),
}


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(KINDS[request.param](tmp_path)) as opened:
        yield opened


def claimed_among(outcomes: Sequence[object]) -> list[Claimed]:
    return [outcome for outcome in outcomes if isinstance(outcome, Claimed)]


def test_a_batch_answers_in_the_order_of_its_keys(ledger: Ledger) -> None:
    ledger.once("sent", Outbox())
    ledger.once("failed", raising(RejectedSendError("no")))
    ledger.claim("pending")
    outcomes = ledger.claim_many(["new", "sent", "pending", "failed", "newer"])
    assert [type(outcome) for outcome in outcomes] == [Claimed, Duplicate, Unknown, Claimed, Claimed]
    assert [getattr(outcome, "key", None) for outcome in outcomes] == ["new", "sent", "pending", "failed", "newer"]
    assert [claimed.attempt for claimed in claimed_among(outcomes)] == [1, 2, 1]


def test_a_claim_of_a_batch_is_a_claim_for_everybody_else(ledger: Ledger) -> None:
    ledger.claim_many(["a", "b"])
    outbox = Outbox()
    assert ledger.once("a", outbox).outcome == "unknown"
    assert {outcome.outcome for outcome in ledger.claim_many(["a", "b"]) if isinstance(outcome, Unknown)} == {"unknown"}
    assert outbox.sent == []


def test_outcomes_are_recorded_in_the_order_of_their_reports(ledger: Ledger) -> None:
    a, b, c = claimed_among(ledger.claim_many(["a", "b", "c"]))
    error, timeout = RejectedSendError("no"), TimeoutError()
    outcomes = ledger.settle_many([Report(c, error=timeout), Report(a, {"id": "m1"}), Report(b, None, error)])
    assert [outcome.key for outcome in outcomes] == ["c", "a", "b"]
    unknown, sent, failed = outcomes
    assert isinstance(unknown, Unknown)
    assert unknown.error is timeout
    assert isinstance(sent, Sent)
    assert (sent.result, sent.entry.provider_id) == ({"id": "m1"}, "m1")
    assert isinstance(failed, Failed)
    assert failed.error is error
    assert [entry.status.value for entry in ledger.entries()] == ["sent", "failed", "pending"]


def test_empty_batches_do_nothing(ledger: Ledger) -> None:
    assert ledger.claim_many([]) == []
    assert ledger.settle_many([]) == []
    assert list(ledger.entries()) == []


def test_a_key_that_stands_in_a_batch_twice_is_refused_before_anything_is_claimed(ledger: Ledger) -> None:
    with pytest.raises(InvalidInputError, match="names b twice; nothing was done") as refused:
        ledger.claim_many(["a", "b", "c", "b"])
    assert refused.value.field == "key"
    assert list(ledger.entries()) == []
    claimed = claimed_in(ledger)
    with pytest.raises(InvalidInputError, match="twice"):
        ledger.settle_many([Report(claimed, "m1"), Report(claimed, error=TimeoutError())])
    assert ledger.get("k") == claimed.entry


@pytest.mark.parametrize("items", ["abc", b"abc", claim_request("a")])
def test_a_single_key_is_no_batch(items: Any) -> None:
    ledger = Ledger(MemoryStore())
    with pytest.raises(InvalidInputError, match="a list of keys") as refused:
        ledger.claim_many(items)
    assert refused.value.field == "items"
    assert list(ledger.entries()) == []


@pytest.mark.parametrize(
    "items", [["a", ""], ["a", 7], ["a", claim_request("b", meta={1, 2})], ["a", claim_request("b", meta=float("nan"))]]
)
def test_a_batch_with_a_bad_item_claims_nothing(items: Any) -> None:
    ledger = Ledger(MemoryStore())
    with pytest.raises(InvalidInputError):
        ledger.claim_many(items)
    assert list(ledger.entries()) == []


def test_a_key_reused_for_another_payload_is_an_item_and_stops_nobody(ledger: Ledger) -> None:
    ledger.once("taken", Outbox(), payload="one")
    before, reused, after = ledger.claim_many(
        [claim_request("a", payload="x"), claim_request("taken", payload="other"), claim_request("b")]
    )
    assert isinstance(reused, KeyReusedError)
    assert isinstance(before, Claimed)
    assert isinstance(after, Claimed)
    assert [outcome.outcome for outcome in ledger.settle_many([Report(before, "m1"), Report(after, "m2")])] == [
        "sent",
        "sent",
    ]


def test_meta_and_payload_of_each_item_are_its_own() -> None:
    store = MemoryStore()
    meta = {"n": 1}
    Ledger(store).claim_many([claim_request("a", meta), claim_request("b", {"n": 2}, payload="p"), "c"])
    meta["n"] = 9
    assert [entry_in(store, key).meta for key in "abc"] == [{"n": 1}, {"n": 2}, None]
    marks = [entry_in(store, key).claim for key in "abc"]
    assert [mark is not None and mark.payload is not None for mark in marks] == [False, True, False]
    assert len({mark.id for mark in marks if mark is not None}) == 3


@pytest.mark.parametrize(
    ("report", "field"),
    [
        (lambda claimed: Report(claimed), "result"),
        (lambda claimed: Report(claimed, "m1", TimeoutError()), "result"),
        (lambda claimed: Report(claimed, error=KeyboardInterrupt()), "error"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda claimed: Report("k", "m1"), "claimed"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda claimed: (claimed, "m1"), "reports"),
    ],
)
def test_a_report_that_says_nothing_or_two_things_records_nothing(report: Any, field: str) -> None:
    """Above all one without result and error, which must not count as sent."""
    ledger = Ledger(MemoryStore())
    good, bad = claimed_among(ledger.claim_many(["good", "bad"]))
    with pytest.raises(InvalidInputError) as refused:
        ledger.settle_many([Report(good, "m1"), report(bad)])
    assert refused.value.field == field
    assert {entry.status for entry in ledger.entries()} == {Status.PENDING}


def test_an_http_error_among_the_results_leaves_its_entry_unknown_and_the_others_recorded() -> None:
    ledger = Ledger(MemoryStore())
    a, b = claimed_among(ledger.claim_many(["a", "b"]))
    response = SimpleNamespace(status_code=500, headers={})
    unknown, sent = ledger.settle_many([Report(a, response), Report(b, "m2")])
    assert isinstance(unknown, Unknown)
    assert "status 500" in str(unknown.error)
    assert sent.outcome == "sent"


def test_a_batch_whose_outcome_is_late_keeps_the_truth(ledger: Ledger) -> None:
    """Both were written off meanwhile, and one was claimed again: what went out is sent, what failed stays."""
    a, b, c = claimed_among(ledger.claim_many(["a", "b", "c"]))
    for key in ("a", "b"):
        ledger.resolve(key, "failed", by="ana")
    again = claimed_in(ledger, "a")
    ledger.resolve("c", "sent")
    outcomes = ledger.settle_many([Report(a, "m1"), Report(b, error=RejectedSendError("no")), Report(c, "m3")])
    assert [outcome.outcome for outcome in outcomes] == ["sent", "failed", "sent"]
    assert [entry.status.value for entry in ledger.entries()].count("sent") == 2
    late = ledger.get("a")
    assert late is not None
    assert (late["lateAttempt"], late.claim_id) == (1, again.entry.claim_id)


# Stores that fail


@pytest.mark.parametrize("batched", [True, False])
def test_a_batch_that_was_applied_and_not_answered_is_ours(batched: bool) -> None:
    store = MemoryStore()
    faults = [Fault("claim_many", "after")] if batched else [Fault("claim", "after", nth=3)]
    faulty = FaultyStore(store if batched else one_by_one(store), faults)
    outcomes = Ledger(faulty).claim_many(["a", "b", "c"])
    assert len(claimed_among(outcomes)) == 3
    assert {entry.key for entry in store.list(Status.PENDING)} == {"a", "b", "c"}


def test_what_a_store_without_batches_had_not_reached_is_claimed_after_all() -> None:
    """The second of three claims failed: the first is known by its id, the others are claimed singly."""
    store = MemoryStore()
    outcomes = Ledger(FaultyStore(one_by_one(store), [Fault("claim", "before", nth=2)])).claim_many(["a", "b", "c"])
    assert len(claimed_among(outcomes)) == 3
    assert [len(store.history(key)) for key in "abc"] == [1, 1, 1]


def test_a_batch_that_was_not_applied_raises_and_claims_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(StoreFault):
        Ledger(FaultyStore(store, [Fault("claim_many", "before")])).claim_many(["a", "b"])
    assert list(store.list()) == []


def test_a_batch_of_outcomes_that_was_not_recorded_leaves_every_entry_pending() -> None:
    store = MemoryStore()
    a, b = claimed_among(Ledger(store).claim_many(["a", "b"]))
    with pytest.raises(StoreFault):
        Ledger(FaultyStore(store, [Fault("transition_many", "before")])).settle_many(
            [Report(a, "m1"), Report(b, error=UncertainSendError("?"))]
        )
    assert [entry.key for entry in Ledger(store).pending()] == ["a", "b"]
    settled = Ledger(store).settle_many([Report(a, "m1"), Report(b, error=UncertainSendError("?"))])
    assert [outcome.outcome for outcome in settled] == ["sent", "unknown"]
