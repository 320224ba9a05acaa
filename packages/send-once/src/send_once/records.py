"""Entries, histories and counts as text and JSON for the command line. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from send_once.audit import Look, Reading, age_of, claimed_line, entry_lines, process_line
from send_once.entry import Entry, Json, Status
from send_once.instants import parse_instant
from send_once.jsnumbers import js_number
from send_once.settings import age_ms
from send_once.terminal import Paint, harmless, wrapped

_DETAIL = "      "
_HOUR_MS = 3_600_000
_SPANS = {"hour": _HOUR_MS, "day": 24 * _HOUR_MS, "week": 168 * _HOUR_MS}
_ERRORS_SHOWN = 5
_OF_ONE_MESSAGE = re.compile(r"^Message-ID <[^>]*>: ")
"""How the error of an unknown mail begins; without it, errors of one kind are counted together."""


def entry_text(entry: Entry, *, now_ms: float, paint: Paint, look: Look) -> str:
    """Everything about one entry."""
    process = process_line(entry, look(entry)) if entry.status is Status.PENDING else None
    lines = [
        f"{harmless(entry.key)}  {status_word(entry.status, paint)}",
        paint.dim(_DETAIL + claimed_line(entry, now_ms)),
        *([] if process is None else map(paint.dim, wrapped(process, _DETAIL))),
        *entry_lines(entry),
        *(line for text in _endings(entry) for line in wrapped(text, _DETAIL)),
    ]
    return "\n".join(lines) + "\n"


def history_text(key: str, states: Sequence[Entry], paint: Paint) -> str:
    """One paragraph for each state, oldest first."""
    lines = [harmless(key)]
    for state in states:
        at = harmless(state.updated_at or state.claimed_at)
        word = status_word(state.status, paint, width=7)
        lines.append(f"  {at}  {word}  attempt {js_number(state.attempts)}")
        lines += [line for text in _learnt(state) for line in wrapped(text, _DETAIL)]
    return "\n".join(lines) + "\n"


def chosen(entries: Iterable[Entry], *, status: Status | None, older_than_ms: float, now_ms: float) -> Sequence[Entry]:
    """Entries of a status (or all) and of at least that age, by claim time as stored."""
    found = [
        entry
        for entry in entries
        if (status is None or entry.status is status) and age_ms(entry, now_ms) >= older_than_ms
    ]
    return sorted(found, key=lambda entry: entry.claimed_at)


def stats(reading: Reading, *, now_ms: float) -> dict[str, Json]:
    """Counts of a ledger, for JSON."""
    entries = reading.entries
    pending = [age for age in (age_of(one, now_ms) for one in _of(entries, Status.PENDING)) if age is not None]
    return {
        "ledger": reading.name,
        "entries": len(entries),
        **{status.value: reading.counts[status] for status in (Status.SENT, Status.FAILED, Status.PENDING)},
        "retried": sum(1 for entry in entries if entry.attempts > 1),
        "resolvedByHand": sum(1 for entry in entries if entry.resolution is not None),
        "oldestPendingAgeMs": max(pending, default=None),
        "claimedInTheLast": _claimed_lately(entries, now_ms),
        "errors": _common_errors(entries),
        "skippedLines": reading.skipped,
        "damagedLines": reading.damaged,
    }


_LINES = {"skippedLines": "lines were skipped", "damagedLines": "lines are damaged: see send-once doctor"}


def status_word(status: Status, paint: Paint, width: int = 0) -> str:
    colour = {Status.SENT: paint.green, Status.FAILED: paint.yellow, Status.PENDING: paint.red}[status]
    return colour(f"{status.value:<{width}}")


def _of(entries: Iterable[Entry], status: Status) -> Iterator[Entry]:
    return (entry for entry in entries if entry.status is status)


def _claimed_lately(entries: Iterable[Entry], now_ms: float) -> dict[str, Json]:
    ages = [now_ms - at for at in (parse_instant(entry.claimed_at) for entry in entries) if at is not None]
    return {span: sum(1 for age in ages if 0 <= age < span_ms) for span, span_ms in _SPANS.items()}


def _common_errors(entries: Iterable[Entry]) -> dict[str, Json]:
    texts = (entry.error for entry in entries if entry.error and entry.status is not Status.SENT)
    errors = Counter(_OF_ONE_MESSAGE.sub("", text) for text in texts)
    return {str(error): number for error, number in errors.most_common(_ERRORS_SHOWN)}


def _endings(entry: Entry) -> Iterator[str]:
    if entry.uncertain and entry.status is Status.PENDING:
        yield "its send ended without an answer; nobody knows whether it went out"
    yield from _learnt(entry, with_error=False)
    mark = entry.claim
    if mark is not None and mark.payload:
        yield f"payload sha256: {mark.payload}"
    for record in mark.before if mark is not None else ():
        if isinstance(record, dict):
            yield (
                f"earlier attempt {record.get('attempt')}: {record.get('status')}, claimed {record.get('claimedAt')}"
                + (f", {record['error']}" if record.get("error") else "")
            )


def _learnt(entry: Entry, *, with_error: bool = True) -> Iterator[str]:
    if with_error and entry.error:
        yield f"error: {entry.error}"
    if entry.sent_at or entry.provider_id:
        at, provider = entry.sent_at or "at an unknown time", entry.provider_id
        yield f"sent {at}" + (f", provider id {provider}" if provider else "")
    if entry.resolution is not None:
        resolution = entry.resolution
        note = f": {resolution['note']}" if resolution.get("note") else ""
        yield f"resolved as {resolution.get('status')} by {resolution.get('by')} at {resolution.get('at')}{note}"
