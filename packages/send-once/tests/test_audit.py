"""The audit as a function: entries and a time in, a report out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from send_once.audit import Reading, as_json, as_text, audit, count_statuses
from send_once.entry import Entry
from send_once.instants import parse_instant
from send_once.metrics import as_metrics
from send_once.terminal import Paint

NOW_MS = 1_790_539_200_000.0
times = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["2026-09-27T16:00:00.000Z", "2026-09-27T20:00:00.001Z", "2999-01-01", "+275760-09-13", ""]),
)
entries = st.builds(
    lambda key, status, at, meta: Entry({"key": key, "status": status, "claimedAt": at, "meta": meta}),
    st.text(max_size=5),
    st.sampled_from(["pending", "sent", "failed"]),
    times,
    st.one_of(st.none(), st.text(max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)),
)
readings = st.lists(entries, max_size=6).map(lambda found: Reading("l.jsonl", tuple(found), count_statuses(found)))


@given(readings)
def test_every_pending_entry_is_reported_when_no_age_is_asked_for(reading: Reading) -> None:
    report = audit(reading, older_than_ms=0, now_ms=NOW_MS)
    pending = [entry for entry in reading.entries if entry.status == "pending"]
    assert sorted(one.entry.key for one in report.unknown) == sorted(entry.key for entry in pending)


@given(readings, st.floats(min_value=0, max_value=1e15))
def test_a_pending_entry_is_either_unknown_or_in_flight(reading: Reading, older_than_ms: float) -> None:
    report = audit(reading, older_than_ms=older_than_ms, now_ms=NOW_MS)
    assert report.in_flight >= 0
    assert report.total == len(reading.entries)
    assert len(report.unknown) + report.in_flight == sum(entry.status == "pending" for entry in reading.entries)


@given(readings)
def test_a_time_that_cannot_be_read_is_never_young(reading: Reading) -> None:
    report = audit(reading, older_than_ms=1e17, now_ms=NOW_MS)
    unreadable = [
        entry for entry in reading.entries if entry.status == "pending" and parse_instant(entry.claimed_at) is None
    ]
    assert [one.entry for one in report.unknown] == unreadable


@given(readings, st.booleans())
def test_every_report_can_be_printed_and_tells_the_same(reading: Reading, colour: bool) -> None:
    report = audit(reading, older_than_ms=0, now_ms=NOW_MS)
    text, metrics = as_text(report, Paint(colour)), as_metrics(report)
    read = json.loads(as_json(report))
    assert len(read["unknown"]) == len(report.unknown)
    assert (f"{len(report.unknown)} send" in text) is bool(report.unknown)
    assert f'send_once_unknown{{ledger="l.jsonl"}} {len(report.unknown)}\n' in metrics


def test_a_settled_entry_needs_nothing() -> None:
    entries_read = (Entry({"key": "k", "status": "sent", "claimedAt": ""}),)
    reading = Reading("l.jsonl", entries_read, count_statuses(entries_read))
    assert "Nothing unresolved in l.jsonl" in as_text(audit(reading, older_than_ms=0, now_ms=NOW_MS), Paint())
