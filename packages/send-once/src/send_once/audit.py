"""What a ledger holds and what of it is unknown, as a report: text, JSON and Prometheus metrics.

Pure: entries and `now_ms` in, text out. One reading of the ledger is the source of all counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from send_once import jsontext
from send_once.durations import format_duration
from send_once.entry import Entry, Json, Status
from send_once.instants import iso_from_ms, parse_instant
from send_once.jsnumbers import js_number
from send_once.owner import Liveness, liveness
from send_once.settings import unresolved
from send_once.terminal import Paint, harmless, harmless_json, wrapped

Look = Callable[[Entry], Liveness]
"""Whether the process that claimed an entry still runs."""

_DETAIL: Final = "      "
_NOTE: Final = "  "

PROCESS_WORDS: Final[Mapping[Liveness, str]] = {
    "running here": "still running here",
    "process gone": "gone",
    "another boot": "gone with a restart, or elsewhere",
    "another host": "on another host",
    "another container": "in another container",
    "not known": "not known from here",
}
"""How a report says where the process behind a claim is."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a whole ledger. `name` is how the user named it (never with a password);
    `counts` is the number of keys in each status, while `entries` may leave out what was not asked for.
    `lines`, `skipped` and `damaged` are about files and 0 elsewhere; `damaged` counts lines nobody has
    accepted."""

    name: str
    entries: Sequence[Entry]
    counts: Mapping[Status, int]
    lines: int = 0
    skipped: int = 0
    damaged: int = 0

    @property
    def is_no_ledger(self) -> bool:
        """A file with lines, none of which is an entry."""
        return self.lines > 0 and not any(self.counts.values())


def count_statuses(entries: Sequence[Entry]) -> Mapping[Status, int]:
    """How many entries are in each status."""
    statuses = [entry.status for entry in entries]
    return {status: statuses.count(status) for status in Status}


@dataclass(frozen=True, slots=True)
class UnknownSend:
    """One entry that is pending for longer than the limit. `age_ms` is negative for a claim in the
    future, None where its time cannot be read; `process` is None for an entry that names none."""

    entry: Entry
    age_ms: float | None
    process: Liveness | None


@dataclass(frozen=True, slots=True)
class Audit:
    """The report. `unknown` is oldest first; `in_flight` counts the younger pending entries."""

    name: str
    checked_at_ms: float
    older_than_ms: float
    counts: Mapping[Status, int]
    unknown: Sequence[UnknownSend]
    skipped: int
    damaged: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def in_flight(self) -> int:
        return self.counts[Status.PENDING] - len(self.unknown)


def audit(reading: Reading, *, older_than_ms: float, now_ms: float, look: Look | None = None) -> Audit:
    """The report on one reading, of which at least the pending entries must be there."""
    found = unresolved(reading.entries, older_than_ms, now_ms)
    return Audit(
        name=reading.name,
        checked_at_ms=now_ms,
        older_than_ms=older_than_ms,
        counts={status: reading.counts[status] for status in (Status.SENT, Status.FAILED, Status.PENDING)},
        unknown=tuple(_unknown_send(entry, now_ms, look or _look) for entry in found),
        skipped=reading.skipped,
        damaged=reading.damaged,
    )


def as_text(report: Audit, paint: Paint) -> str:
    """The report for people: the reference's, with who claimed where the entry says so."""
    blocks = [[_headline(report, paint)], list(_counts(report, paint))]
    blocks += [_unknown_lines(unknown, report.checked_at_ms, paint) for unknown in report.unknown]
    blocks += [_what_to_do(report.name)] if report.unknown else []
    blocks += [wrapped(note, _NOTE) for note in _notes(report)]
    return "\n" + "\n\n".join("\n".join(block) for block in blocks) + "\n\n"


def as_json(report: Audit) -> str:
    """The report for programs: the reference's members in its order, ours after them."""
    value: dict[str, Json] = {
        "ledger": report.name,
        "checkedAt": iso_from_ms(report.checked_at_ms),
        "olderThanMs": report.older_than_ms,
        "counts": {"total": report.total, **{status.value: count for status, count in report.counts.items()}},
        "unknown": [_unknown_json(unknown) for unknown in report.unknown],
        "inFlight": report.in_flight,
        "skippedLines": report.skipped,
    }
    if report.damaged:
        value["damagedLines"] = report.damaged
    return json_text(value)


def json_text(value: Json) -> str:
    """JSON for a terminal or a file: indented, harmless, ending in a newline."""
    return harmless_json(jsontext.stringify(value, 2, where="report", infinity_as_null=True)) + "\n"


def entry_lines(entry: Entry) -> Iterator[str]:
    """What was attached to an entry, and its last error: one wrapped paragraph each."""
    for name, value in meta_members(entry.meta):
        yield from wrapped(f"{name}: {value if isinstance(value, str) else _compact(value)}", _DETAIL)
    error = entry["error"] if entry.has("error") else None
    if error:
        yield from wrapped(f"last error: {error if isinstance(error, str) else _compact(error)}", _DETAIL)


def meta_members(meta: Json) -> Iterator[tuple[str, Json]]:
    """The members of an entry's `meta`, in the reference's order, null ones left out."""
    if isinstance(meta, dict):
        yield from ((name, meta[name]) for name in jsontext.runtime_order(meta) if meta[name] is not None)
    elif isinstance(meta, list | str):
        yield from ((str(place), value) for place, value in enumerate(meta) if value is not None)


def claimed_line(entry: Entry, now_ms: float) -> str:
    """When an entry was claimed, how long ago that is, and which attempt it was."""
    at, age_ms = harmless(entry.claimed_at), age_of(entry, now_ms)
    attempt = f"attempt {js_number(entry.attempts)}"
    if age_ms is None:
        return f"claimed at a time that cannot be read ({at}), {attempt}"
    return f"claimed {at}, {describe_age(age_ms)}, {attempt}"


def describe_age(age_ms: float) -> str:
    return f"{format_duration(age_ms)} ago" if age_ms >= 0 else f"{format_duration(-age_ms)} in the future"


def age_of(entry: Entry, now_ms: float) -> float | None:
    """Milliseconds since the claim; negative in the future; None where its time cannot be read."""
    claimed_at_ms = parse_instant(entry.claimed_at)
    return None if claimed_at_ms is None else now_ms - claimed_at_ms


def process_line(entry: Entry, where: Liveness | None) -> str | None:
    """Who claimed, and where that process is now; None for an entry that does not say."""
    mark = entry.claim
    if mark is None or where is None:
        return None
    on = f" on {mark.host}" if mark.host else ""
    return f"claimed by process {mark.pid}{on}: {PROCESS_WORDS[where]}"


def _look(entry: Entry) -> Liveness:
    return liveness(entry.claim)


def _unknown_send(entry: Entry, now_ms: float, look: Look) -> UnknownSend:
    return UnknownSend(entry, age_of(entry, now_ms), None if entry.claim is None else look(entry))


def _headline(report: Audit, paint: Paint) -> str:
    if not report.unknown:
        return f"{paint.green('OK')}  {paint.bold('Nothing unresolved in ' + harmless(report.name))}"
    number = len(report.unknown)
    sends = f"{number} {'send' if number == 1 else 'sends'} may or may not have gone out"
    return f"{paint.red('UNKNOWN')}  {paint.bold(sends)}"


def _counts(report: Audit, paint: Paint) -> Iterator[str]:
    yield f"{_DETAIL}{report.total:>6} in the ledger"
    yield f"{_DETAIL}{paint.green(f'{report.counts[Status.SENT]:>6}')} sent"
    yield f"{_DETAIL}{paint.yellow(f'{report.counts[Status.FAILED]:>6}')} failed, may be retried"
    yield f"{_DETAIL}{paint.red(f'{report.counts[Status.PENDING]:>6}')} pending"


def _unknown_lines(unknown: UnknownSend, now_ms: float, paint: Paint) -> list[str]:
    entry = unknown.entry
    claimed = claimed_line(entry, now_ms)
    process = process_line(entry, unknown.process)
    return [
        f"  {harmless(entry.key)}",
        paint.dim(_DETAIL + claimed),
        *([] if process is None else map(paint.dim, wrapped(process, _DETAIL))),
        *entry_lines(entry),
    ]


def _what_to_do(name: str) -> list[str]:
    where = harmless(shlex.quote(name))
    return [
        *wrapped(
            "Each of these was claimed and never confirmed. The send may have reached the provider or may not. "
            "send-once will not send them again on its own. Check each one with the provider, then record what "
            "happened:",
            _NOTE,
        ),
        f"    send-once resolve {where} <key> sent",
        f"    send-once resolve {where} <key> failed",
    ]


def _notes(report: Audit) -> Iterator[str]:
    if report.in_flight:
        entries = "entry was" if report.in_flight == 1 else "entries were"
        yield (
            f"{report.in_flight} more pending {entries} claimed less than {format_duration(report.older_than_ms)} ago "
            "and may still be sending."
        )
    if report.skipped:
        lines = "line was" if report.skipped == 1 else "lines were"
        yield (
            f"{report.skipped} {lines} not a ledger entry and skipped. A torn last line is left by a crash mid-write; "
            "it never counted."
        )
    if report.damaged:
        lines = "One line is" if report.damaged == 1 else f"{report.damaged} lines are"
        yield (
            f"{lines} damaged in a way that no crash explains, and may have been a claim. New claims are refused until "
            f"someone has looked: send-once doctor {shlex.quote(report.name)}"
        )


def _unknown_json(unknown: UnknownSend) -> dict[str, Json]:
    entry = unknown.entry
    value: dict[str, Json] = {"key": entry.key, "claimedAt": entry.claimed_at, "ageMs": unknown.age_ms}
    if entry.has("attempts"):
        value["attempts"] = entry["attempts"]
    value["meta"] = entry.meta
    value["error"] = entry["error"] if entry.has("error") else None
    mark = entry.claim
    if mark is not None and unknown.process is not None:
        value["process"] = {"host": mark.host, "pid": mark.pid, "state": unknown.process}
    return value


def _compact(value: Json) -> str:
    return jsontext.stringify(value, where="meta", infinity_as_null=True)
