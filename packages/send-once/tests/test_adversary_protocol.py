"""Batches that break in the middle, approvals that change while they are looked at, clocks that disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from send_once import (
    Absent,
    Claimed,
    ContendedError,
    Duplicate,
    Entry,
    Found,
    Ledger,
    LockTimeoutError,
    MemoryStore,
    PayloadChanged,
    RejectedSendError,
    Report,
    StaleFacts,
    StoreError,
    approve,
)

NOW_MS = 1_790_000_000_000.0
HOUR_MS = 3_600_000.0


def refuse() -> None:
    raise RejectedSendError("no such mailbox")


class FailsToRetry(MemoryStore):
    """A store whose database goes away between the batch and what follows it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.asked = 0

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        if entry.status == "pending" and entry.attempts > 1:
            self.asked += 1
            raise self.error
        return super().transition(came_from, entry)


@pytest.mark.parametrize("error", [LockTimeoutError("busy"), OSError(5, "gone"), ContendedError("it kept changing")])
def test_a_batch_that_breaks_at_one_key_hands_over_the_claims_it_made(error: Exception) -> None:
    ledger = Ledger(FailsToRetry(error))
    ledger.once("failed before", refuse)
    ledger.once("sent before", lambda: "id")
    outcomes = ledger.claim_many(["a", "failed before", "sent before", "b"])
    first, broken, _, last = outcomes
    assert isinstance(first, Claimed)
    assert isinstance(last, Claimed)
    assert broken is error or (isinstance(broken, StoreError) and broken.__cause__ is error)
    assert [o.outcome for o in ledger.settle_many([Report(first, 1), Report(last, 2)])] == ["sent", "sent"]


def test_a_batch_does_not_ask_a_broken_store_again_for_each_key() -> None:
    store = FailsToRetry(LockTimeoutError("busy"))
    ledger = Ledger(store)
    for key in ("x", "y", "z"):
        ledger.once(key, refuse)
    _, *broken = ledger.claim_many(["a", "x", "y", "z"])
    assert broken == [store.error] * 3
    assert store.asked == 1


def test_a_batch_in_which_nothing_was_claimed_raises() -> None:
    ledger = Ledger(FailsToRetry(LockTimeoutError("busy")))
    ledger.once("x", refuse)
    with pytest.raises(LockTimeoutError):
        ledger.claim_many(["x"])


class FailsToRecordLate(MemoryStore):
    def transition(self, came_from: Entry, entry: Entry) -> bool:
        if came_from.key == "first" and came_from.status == "failed":
            raise LockTimeoutError("busy")
        return super().transition(came_from, entry)


def test_one_report_that_cannot_be_recorded_does_not_keep_the_others_from_it() -> None:
    """Both were written off while their sends ran, so that both may be sent again unless that is recorded."""
    ledger = Ledger(FailsToRecordLate())
    claims = [claimed for claimed in ledger.claim_many(["first", "second"]) if isinstance(claimed, Claimed)]
    for claimed in claims:
        ledger.resolve(claimed.key, "failed", by="someone")
    with pytest.raises(LockTimeoutError) as raised:
        ledger.settle_many([Report(claimed, "id") for claimed in claims])
    assert "1 of 2 reports" in str(raised.value.__notes__)
    assert isinstance(ledger.once("second", refuse), Duplicate)


def test_facts_that_the_recheck_writes_into_the_approval_are_not_those_approved() -> None:
    ledger = Ledger(MemoryStore())
    approval = approve(payload="hello", facts={"price": 10})

    def recheck() -> Mapping[str, Any]:
        approval["facts"]["price"] = 99
        approval["approvedBy"] = "nobody"
        return dict(approval["facts"])

    outcome = ledger.dispatch(approval, key="key", payload="hello", send=lambda payload: payload, recheck=recheck)
    assert isinstance(outcome, StaleFacts)
    assert [(fact.before, fact.after) for fact in outcome.changed] == [(10, 99)]


def test_who_approved_is_who_stood_in_the_approval_when_it_was_handed_in() -> None:
    ledger = Ledger(MemoryStore())
    approval = approve(payload="hello", approved_by={"name": "Ana"})

    def recheck() -> Mapping[str, Any]:
        approval["approvedBy"]["name"] = "nobody"
        return {}

    ledger.dispatch(approval, key="key", payload="hello", send=lambda payload: payload, recheck=recheck)
    (entry,) = ledger.entries("sent")
    assert entry.meta["approvedBy"] == {"name": "Ana"}


class Flickering(dict[str, int]):
    """Shows other members each time it is looked through, as one that another thread changes does."""

    def __init__(self, *looks: int) -> None:
        super().__init__(amount=looks[0])
        self.looks = [*looks]

    def __iter__(self) -> Iterator[str]:
        self["amount"] = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return super().__iter__()

    def items(self) -> Any:
        self["amount"] = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return super().items()


@pytest.mark.parametrize("approved_at_look", range(6))
def test_what_is_sent_is_what_was_approved_whenever_the_payload_changes(approved_at_look: int) -> None:
    approval = approve(payload={"amount": 1})
    sent: list[object] = []
    looks = [999] * approved_at_look + [1]
    outcome = Ledger(MemoryStore()).dispatch(approval, key="key", payload=Flickering(*looks), send=sent.append)
    assert sent in ([], [{"amount": 1}])
    assert isinstance(outcome, PayloadChanged) == (sent == [])


def elsewhere(entry: Entry) -> Entry:
    """The same, claimed on another host."""
    members = entry.to_json()
    members["claim"]["host"] = "elsewhere"
    return Entry(members)


def claimed_by_a_clock(ahead_ms: float, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Ledger:
    theirs = MemoryStore()
    Ledger(theirs, clock=lambda: NOW_MS + ahead_ms).claim("key")
    (entry,) = theirs.list()
    members = elsewhere(entry).to_json()
    change(members)
    store = MemoryStore()
    store.claim(Entry(members))
    return Ledger(store, clock=lambda: NOW_MS)


def test_a_look_up_does_not_write_off_a_claim_that_a_clock_ahead_of_ours_has_just_made() -> None:
    """One hour from now is as far away as one hour ago, but the claim may be a second old."""
    ledger = claimed_by_a_clock(HOUR_MS)
    assert [entry.key for entry in ledger.pending("10m")] == ["key"]
    report = ledger.reconcile(lambda _: Absent("not in the log"), older_than="10m")
    ((_, reason),) = report.left
    assert "lies ahead of this clock" in reason
    assert ledger.once("key", refuse).outcome == "unknown"
    assert ledger.reconcile(lambda _: Found("msg_1"), older_than="10m").counts()["sent"] == 1


def test_a_look_up_does_not_write_off_a_claim_whose_time_nobody_can_read() -> None:
    ledger = claimed_by_a_clock(0, lambda members: members.update(claimedAt="yesterday"))
    assert ledger.reconcile(lambda _: Absent("not in the log"), older_than="10m").counts()["left"] == 1
    assert ledger.reconcile(lambda _: Found("msg_1"), older_than="10m").counts()["sent"] == 1


def test_a_look_up_writes_off_an_old_claim_of_a_process_elsewhere() -> None:
    ledger = claimed_by_a_clock(-HOUR_MS)
    assert ledger.reconcile(lambda _: Absent("not in the log"), older_than="10m").counts()["failed"] == 1
