"""Seeing and settling what is unknown: pending, entries, history, resolve, reconcile."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import send_once
from send_once import (
    Absent,
    AlreadySentError,
    CannotTell,
    Duplicate,
    Entry,
    Evidence,
    FileStore,
    Found,
    InvalidInputError,
    Ledger,
    MemoryStore,
    NotFoundError,
    RejectedSendError,
    Sent,
    Settlement,
    SQLiteStore,
    Status,
    Store,
)
from send_once.testing import entry_of
from sending import Outbox, claimed_in, entry_in, raising

HOUR_MS = 3_600_000
NOW_MS = 1_790_510_400_000  # 2026-09-27T12:00:00Z


class Clock:
    def __init__(self) -> None:
        self.now_ms: float = NOW_MS

    def __call__(self) -> float:
        return self.now_ms


class Forgetful:
    """A store that keeps the current state only."""

    def __init__(self) -> None:
        kept = MemoryStore()
        self.claim, self.transition, self.get, self.list = kept.claim, kept.transition, kept.get, kept.list


# Looking


def test_pending_shows_what_is_older_than_asked_for_oldest_first() -> None:
    clock = Clock()
    ledger = Ledger(MemoryStore(), clock=clock)
    for key in ("first", "second", "third"):
        ledger.claim(key)
        clock.now_ms += HOUR_MS
    ledger.once("sent", Outbox())
    ledger.once("failed", raising(RejectedSendError("no")))
    assert [entry.key for entry in ledger.pending()] == ["first", "second", "third"]
    assert [entry.key for entry in ledger.pending("2h")] == ["first", "second"]
    assert [entry.key for entry in ledger.pending(3 * HOUR_MS)] == ["first"]
    assert ledger.pending("4h") == []


@pytest.mark.parametrize("bad", ["", "soon", -1, "-1h", None, True, float("nan")])
def test_an_age_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInputError):
        Ledger(MemoryStore()).pending(bad)


def test_a_pending_entry_is_never_hidden_by_its_time() -> None:
    """Neither by a time that cannot be read nor by one that a clock set back has put into the future."""
    clock, store = Clock(), MemoryStore()
    for key, claimed_at in (
        ("odd", "yesterday"),
        ("empty", ""),
        ("future", "2026-09-27T13:00:00.000Z"),
        ("far", "9999-12-31T23:59:59.999Z"),
        ("old", "2026-09-27T11:00:00.000Z"),
    ):
        store.claim(entry_of(key, claimed_at=claimed_at))
    ledger = Ledger(store, clock=clock)
    assert {entry.key for entry in ledger.pending()} == {"odd", "empty", "future", "far", "old"}
    assert {entry.key for entry in ledger.pending("10m")} == {"odd", "empty", "future", "far", "old"}
    assert {entry.key for entry in ledger.pending("10m")[:2]} == {"odd", "empty"}
    clock.now_ms += HOUR_MS
    assert "future" not in {entry.key for entry in ledger.pending("10m")}
    clock.now_ms += HOUR_MS
    assert "future" in {entry.key for entry in ledger.pending("10m")}


def test_entries_of_one_status_or_all() -> None:
    ledger = Ledger(MemoryStore())
    ledger.once("sent", Outbox())
    ledger.once("failed", raising(RejectedSendError("no")))
    ledger.claim("pending")
    assert [entry.key for entry in ledger.entries()] == ["sent", "failed", "pending"]
    for status in Status:
        assert [entry.key for entry in ledger.entries(status)] == [status.value]
        assert ledger.entries(status.value) == ledger.entries(status)
    for bad in ("unknown", "Sent", 1):
        with pytest.raises(InvalidInputError) as refused:
            ledger.entries(bad)  # type: ignore[arg-type]  # one of them is no text
        assert refused.value.field == "status"


def test_a_history_has_every_state_where_the_store_keeps_them() -> None:
    ledger = Ledger(MemoryStore())
    _fail_and_send(ledger)
    states = [(state.status.value, state.attempts) for state in ledger.history("k")]
    assert states == [("pending", 1), ("failed", 1), ("pending", 2), ("failed", 2), ("pending", 3), ("sent", 3)]
    assert list(ledger.history("other")) == []


def test_a_history_has_one_state_for_each_attempt_where_the_store_keeps_only_the_last() -> None:
    ledger = Ledger(Forgetful())
    _fail_and_send(ledger)
    states = ledger.history("k")
    assert [(state.status.value, state.attempts, state.error) for state in states] == [
        ("failed", 1, "first"),
        ("failed", 2, "second"),
        ("sent", 3, None),
    ]
    assert states[-1] == ledger.get("k")
    assert list(ledger.history("other")) == []


def test_a_history_tells_who_allowed_the_second_attempt_where_the_store_keeps_only_the_last() -> None:
    ledger = Ledger(Forgetful())
    ledger.once("k", raising(TimeoutError()))
    ledger.resolve("k", "failed", by="ana", note="not in the provider's log")
    ledger.once("k", Outbox())
    written_off = ledger.history("k")[0].resolution
    assert written_off is not None
    assert (written_off["by"], written_off["note"]) == ("ana", "not in the provider's log")


def _fail_and_send(ledger: Ledger) -> None:
    ledger.once("k", raising(RejectedSendError("first")))
    ledger.once("k", raising(RejectedSendError("second")))
    ledger.once("k", Outbox())


# Settling by hand


def test_what_was_settled_says_by_whom_and_why() -> None:
    ledger = Ledger(MemoryStore(), clock=Clock())
    ledger.once("k", raising(TimeoutError()))
    entry = ledger.resolve("k", "sent", by="ana", note="found in the log", provider_id="m1")
    assert entry.provider_id == "m1"
    assert entry.resolution == {
        "status": "sent",
        "from": "pending",
        "by": "ana",
        "note": "found in the log",
        "at": "2026-09-27T12:00:00.000Z",
    }
    assert isinstance(ledger.once("k", Outbox()), Duplicate)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"status": "pending"}, "status"),
        ({"status": "SENT"}, "status"),
        ({"status": None}, "status"),
        ({"status": "sent", "by": 7}, "by"),
        ({"status": "sent", "note": ["a"]}, "note"),
        ({"status": "sent", "note": "n" * 5_000}, "note"),
        ({"status": "sent", "provider_id": 7}, "provider_id"),
    ],
)
def test_a_settlement_that_makes_no_sense_changes_nothing(arguments: dict[str, Any], field: str) -> None:
    store = MemoryStore()
    claimed = claimed_in(Ledger(store))
    with pytest.raises(InvalidInputError) as refused:
        Ledger(store).resolve("k", **arguments)
    assert refused.value.field == field
    assert entry_in(store) == claimed.entry


def test_an_export_settles_each_and_names_what_it_could_not() -> None:
    store = MemoryStore()
    ledger = Ledger(store)
    for key in ("a", "b"):
        ledger.claim(key)
    ledger.once("gone out", Outbox())
    answers = dict(
        ledger.resolve_many(
            [
                Settlement("nobody", Status.SENT),
                Settlement("a", Status.SENT, note="in the export", provider_id="m1"),
                Settlement("gone out", Status.FAILED),
                Settlement("b", "failed"),  # type: ignore[arg-type]  # as text, as an export has it
                Settlement("gone out", Status.SENT),
            ],
            by="export.csv",
        )
    )
    assert isinstance(answers["nobody"], NotFoundError)
    assert entry_in(store, "a").provider_id == "m1"
    assert entry_in(store, "b").status is Status.FAILED
    assert answers["gone out"] == entry_in(store, "gone out")
    (refused,) = (answer for _, answer in ledger.resolve_many([Settlement("gone out", Status.FAILED)]))
    assert isinstance(refused, AlreadySentError)


@pytest.mark.parametrize("bad", [Settlement("b", "lost"), Settlement("", Status.SENT), ("b", "sent"), "b"])  # type: ignore[arg-type]  # wrong on purpose
def test_an_export_with_a_bad_row_settles_nothing(bad: Any) -> None:
    ledger = Ledger(MemoryStore())
    claimed = claimed_in(ledger)
    with pytest.raises(InvalidInputError):
        ledger.resolve_many([Settlement("k", Status.SENT), bad])
    assert ledger.get("k") == claimed.entry


# Settling by evidence

CLAIMER = """
import os, signal, sys
from send_once import FileStore, Ledger

ledger = Ledger(FileStore(sys.argv[1]))
ledger.claim("k")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def left_by_a_dead_process(tmp_path: Path) -> Iterator[FileStore]:
    """A ledger whose one claim was made by a process that was killed before it sent."""
    path = tmp_path / "ledger.jsonl"
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CLAIMER), str(path)],
        env={"PYTHONPATH": str(Path(send_once.__file__).parent.parent)},
        check=False,
    )
    assert child.returncode == -9
    with FileStore(path) as store:
        yield store


def answering_with(evidence: Any) -> Callable[[Entry], Evidence]:
    return lambda _entry: evidence


def test_a_message_the_provider_knows_is_settled_as_sent(left_by_a_dead_process: FileStore) -> None:
    ledger, outbox = Ledger(left_by_a_dead_process), Outbox()
    report = ledger.reconcile(answering_with(Found("m1", note="by its key")), older_than=0)
    assert report.counts() == {"sent": 1, "failed": 0, "left": 0}
    (entry,) = report.sent
    assert entry.provider_id == "m1"
    assert entry.resolution is not None
    assert (entry.resolution["by"], entry.resolution["note"]) == ("reconcile", "by its key")
    assert ledger.once("k", outbox).outcome == "duplicate"
    assert outbox.sent == []


def test_a_message_the_provider_does_not_know_may_be_sent_again(left_by_a_dead_process: FileStore) -> None:
    ledger = Ledger(left_by_a_dead_process)
    report = ledger.reconcile(answering_with(Absent("not in the log of today")), older_than=0)
    assert report.counts() == {"sent": 0, "failed": 1, "left": 0}
    sent = ledger.once("k", Outbox())
    assert isinstance(sent, Sent)
    assert sent.entry.attempts == 2


def test_absence_settles_nothing_while_the_process_that_claimed_it_runs() -> None:
    """It may be one step before the call; then failed would be a lie, and a second send allowed."""
    ledger = Ledger(MemoryStore())
    claimed = claimed_in(ledger)
    report = ledger.reconcile(answering_with(Absent("not there")), older_than=0)
    ((entry, reason),) = report.left
    assert entry == claimed.entry
    assert "still running" in reason
    found = ledger.reconcile(answering_with(Found()), older_than=0)
    assert [entry.key for entry in found.sent] == ["k"]


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (CannotTell("no search by key"), "no search by key"),
        (None, "returned NoneType; it must return Found, Absent or CannotTell"),
        (True, "returned bool"),
        ("sent", "returned str"),
        (Found(provider_id=uuid.UUID(int=1)), "not text"),  # type: ignore[arg-type]  # wrong on purpose
        (Found(note=7), "not text"),  # type: ignore[arg-type]  # wrong on purpose
        (Absent(note=7), "not text"),  # type: ignore[arg-type]  # wrong on purpose
    ],
    ids=repr,
)
def test_what_is_no_evidence_settles_nothing(evidence: Any, reason: str, left_by_a_dead_process: FileStore) -> None:
    ledger = Ledger(left_by_a_dead_process)
    ((entry, why),) = ledger.reconcile(answering_with(evidence), older_than=0).left
    assert reason in why
    assert ledger.get("k") == entry
    assert entry.status is Status.PENDING


def test_long_evidence_is_cut_and_recorded(left_by_a_dead_process: FileStore) -> None:
    ledger = Ledger(left_by_a_dead_process)
    (entry,) = ledger.reconcile(answering_with(Found("m" * 10_000_000, "n" * 10_000_000)), older_than=0).sent
    assert len(entry.text) < 10_000


def test_one_look_up_that_raises_does_not_stop_the_others() -> None:
    ledger = Ledger(MemoryStore())
    for key in ("a", "b", "c"):
        ledger.claim(key)

    def lookup(entry: Entry) -> Evidence:
        if entry.key == "b":
            raise ConnectionResetError("the search is down")
        return Found(f"id of {entry.key}")

    report = ledger.reconcile(lookup, older_than=0)
    assert [entry.key for entry in report.sent] == ["a", "c"]
    assert [(entry.key, reason) for entry, reason in report.left] == [
        ("b", "The look-up failed: the search is down"),
    ]


def test_absence_settles_a_send_that_has_ended_though_its_worker_goes_on() -> None:
    ledger = Ledger(MemoryStore())
    ledger.once("k", raising(TimeoutError()))
    report = ledger.reconcile(answering_with(Absent("not in the log of today")), older_than=0)
    assert [entry.key for entry in report.failed] == ["k"]


def test_evidence_about_an_entry_that_changed_meanwhile_settles_nothing() -> None:
    """While the provider was asked, someone wrote the attempt off and another one claimed the key."""
    ledger = Ledger(MemoryStore())
    ledger.once("k", raising(TimeoutError()))

    def lookup(entry: Entry) -> Evidence:
        ledger.resolve("k", "failed")
        ledger.claim("k")
        return Absent("attempt 1 is not there")

    ((_, reason),) = ledger.reconcile(lookup, older_than=0).left
    assert reason == "It changed while it was looked up; ask again."
    entry = ledger.get("k")
    assert entry is not None
    assert (entry.status, entry.attempts) == (Status.PENDING, 2)


def test_only_entries_of_that_age_are_looked_up() -> None:
    clock = Clock()
    ledger = Ledger(MemoryStore(), clock=clock)
    ledger.claim("old")
    clock.now_ms += HOUR_MS
    ledger.claim("young")
    asked: list[str] = []

    def lookup(entry: Entry) -> Evidence:
        asked.append(entry.key)
        return CannotTell("not now")

    ledger.reconcile(lookup, older_than="30m")
    assert asked == ["old"]


def test_everything_here_works_on_stores_that_outlive_the_process(tmp_path: Path) -> None:
    stores: Sequence[Store] = (FileStore(tmp_path / "l.jsonl"), SQLiteStore(tmp_path / "l.db"))
    for store in stores:
        with Ledger(store) as ledger:
            _fail_and_send(ledger)
            ledger.once("unknown", raising(TimeoutError()))
            assert [entry.key for entry in ledger.pending()] == ["unknown"]
            assert [entry.key for entry in ledger.entries("sent")] == ["k"]
            assert [state.attempts for state in ledger.history("k")][-1] == 3
            assert ledger.reconcile(answering_with(Found("m1")), older_than=0).counts()["sent"] == 1
            assert ledger.pending() == []
