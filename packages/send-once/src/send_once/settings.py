"""What both ledgers are made of: a store, a clock, a table of certainty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from send_once import protocol
from send_once.batches import NO_RESULT, Report
from send_once.canonical import hash_payload
from send_once.certainty import Certainty, Classify, Verdict, classifier
from send_once.clock import Clock, clock_reader
from send_once.durations import parse_duration
from send_once.entry import Entry, Json, Status, require_key
from send_once.errors import InvalidInputError
from send_once.instants import parse_instant
from send_once.outcomes import Absent, CannotTell, Claimed, Evidence, Found

NO_PAYLOAD: Final[Any] = type("NoPayload", (), {"__repr__": lambda _self: "NO_PAYLOAD"})()
"""Stands for "no payload was given"; None is a payload."""

NOTE_MAX_CHARS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked arguments of a ledger."""

    now_ms: Callable[[], float]
    classify: Classify


def checked_settings(clock: Clock | None, unclassified: Certainty, certainty: Mapping[str, Verdict] | None) -> Settings:
    if unclassified not in ("failed", "unknown"):
        raise InvalidInputError(
            f"unclassified must be 'failed' or 'unknown', got {unclassified!r}.", field="unclassified"
        )
    return Settings(clock_reader(clock), classifier(certainty, unclassified=unclassified))


def checked_request(key: object, meta: Json, payload: object) -> protocol.Request:
    payload_hash = None if payload is NO_PAYLOAD else hash_payload(payload)
    return protocol.Request(require_key(key), meta, payload_hash)


def checked_requests(items: Iterable[protocol.Request | str]) -> list[protocol.Request]:
    if isinstance(items, str | bytes | protocol.Request):
        raise InvalidInputError("claim_many needs a list of keys or requests, not a single one.", field="items")
    return [item if isinstance(item, protocol.Request) else checked_request(item, None, NO_PAYLOAD) for item in items]


def claim_request(key: str, meta: Json = None, payload: object = NO_PAYLOAD) -> protocol.Request:
    """One item for `claim_many`: the arguments of `claim`."""
    return checked_request(key, meta, payload)


def checked_reports(reports: Iterable[Report]) -> list[Report]:
    """Every report, checked before any is recorded. A result of None beside an error is none."""
    checked = list(reports)
    for report in checked:
        if not isinstance(report, Report):
            raise InvalidInputError(
                f"settle_many: each item must be a Report, not {type(report).__name__}.", field="reports"
            )
        without = report.error is not None and report.result is None
        checked_report(report.claimed, NO_RESULT if without else report.result, report.error)
    return checked


def checked_report(claimed: object, result: object, error: object) -> Report:
    """The two halves of `settle`'s arguments; exactly one of result and error."""
    if not isinstance(claimed, Claimed):
        raise InvalidInputError("settle: the first argument must be a Claimed, as claim() returns it.", field="claimed")
    if (result is NO_RESULT) == (error is None):
        raise InvalidInputError(
            "settle: give either the result of the send (None counts) or error=, not both and not neither.",
            field="result",
        )
    if error is not None and not isinstance(error, Exception):
        raise InvalidInputError("settle: error must be the exception the send raised.", field="error")
    return Report(claimed, None if error is not None else result, error)


@dataclass(frozen=True, slots=True)
class Settlement:
    """One settled send, as a provider's export or a person names it."""

    key: str
    status: Status
    note: str | None = None
    provider_id: str | None = None


def checked_settlement(key: object, status: object, note: object, provider_id: object) -> Settlement:
    require_key(key)
    if status not in (Status.SENT, Status.FAILED):
        raise InvalidInputError(f"resolve: status must be 'sent' or 'failed', got {status}.", field="status")
    for field, value in (("note", note), ("provider_id", provider_id)):
        _check_text(field, value)
    return Settlement(str(key), Status(status), note, provider_id)  # type: ignore[arg-type]  # _check_text saw to it


def checked_settlements(settlements: Iterable[Settlement]) -> list[Settlement]:
    """Every settlement, checked before any is written."""
    return [_checked(one) for one in settlements]


def _checked(one: object) -> Settlement:
    if not isinstance(one, Settlement):
        raise InvalidInputError(
            f"resolve_many: each item must be a Settlement, not {type(one).__name__}.", field="settlements"
        )
    return checked_settlement(one.key, one.status, one.note, one.provider_id)


def checked_status(status: object) -> Status | None:
    if status is None or status in tuple(Status):
        return None if status is None else Status(str(status))
    raise InvalidInputError(f"status must be 'pending', 'sent' or 'failed', got {status!r}.", field="status")


def check_by(by: object) -> None:
    _check_text("by", by)


def age_ms(entry: Entry, now_ms: float) -> float:
    """How far the claim lies from now, whichever way; infinite where its time cannot be read. So a
    clock that jumped, or odd text, never makes an entry look younger than any limit for ever."""
    claimed_at_ms = parse_instant(entry.claimed_at)
    return float("inf") if claimed_at_ms is None else abs(now_ms - claimed_at_ms)


def unresolved(entries: Iterable[Entry], older_than: str | float | timedelta, now_ms: float) -> list[Entry]:
    """Pending entries of at least that age, oldest first, unreadable times before all others."""
    limit_ms = parse_duration(older_than)
    old = [entry for entry in entries if entry.status is Status.PENDING and age_ms(entry, now_ms) >= limit_ms]
    return sorted(old, key=_claim_order)


def evidence_or_reason(answer: object) -> Evidence:
    """What a look-up returned; anything that is not evidence cannot tell."""
    if isinstance(answer, CannotTell):
        return answer
    if isinstance(answer, Found | Absent):
        return answer if _is_text_or_none(answer.note) and _is_text_or_none(_id_in(answer)) else _NOT_TEXT
    return CannotTell(f"The look-up returned {type(answer).__name__}; it must return Found, Absent or CannotTell.")


_NOT_TEXT: Final = CannotTell("The look-up returned a note or provider_id that is not text.")


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _id_in(answer: Found | Absent) -> object:
    return answer.provider_id if isinstance(answer, Found) else None


def _claim_order(entry: Entry) -> float:
    claimed_at_ms = parse_instant(entry.claimed_at)
    return float("-inf") if claimed_at_ms is None else claimed_at_ms


def _check_text(field: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"resolve: {field} must be text.", field=field)
    if isinstance(value, str) and len(value) > NOTE_MAX_CHARS:
        raise InvalidInputError(f"resolve: {field} is longer than {NOTE_MAX_CHARS} characters.", field=field)
