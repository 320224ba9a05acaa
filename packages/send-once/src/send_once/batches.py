"""Many claims, or many outcomes, in one durable step where the store can; scripts like `protocol`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from send_once import moves, protocol
from send_once.certainty import Classify
from send_once.entry import Entry
from send_once.errors import InvalidInputError, SendOnceError, StoreError
from send_once.outcomes import Claimed, ClaimOutcome, Failed, Outcome, Sent, Unknown
from send_once.protocol import NOT_APPLIED, Begin, Now, Request, Step
from send_once.results import refuse_result
from send_once.stores.base import Pair


class ClaimMany(NamedTuple):
    """Answer: for each entry, whether the store inserted it."""

    entries: Sequence[Entry]


class TransitionMany(NamedTuple):
    """Answer: for each pair, whether the store replaced it."""

    pairs: Sequence[Pair]


BatchStep = Step | ClaimMany | TransitionMany
BatchScript = Generator[BatchStep, Any, Any]
BatchClaimOutcome = ClaimOutcome | SendOnceError
"""What became of one claim of a batch. What went wrong with one key (another payload, a store that failed
while claiming it anew) is an item, not a raise: the claims beside it are made and must not be lost."""


NO_RESULT: Final[Any] = type("NoResult", (), {"__repr__": lambda _self: "NO_RESULT"})()
"""Stands for "no result was given"; None is a result."""


@dataclass(frozen=True, slots=True)
class Report:
    """How the send behind one claim ended: a result (None counts), or the error it raised."""

    claimed: Claimed
    result: object = NO_RESULT
    error: Exception | None = None


def claim_many(requests: Sequence[Request]) -> Generator[BatchStep, Any, list[BatchClaimOutcome]]:
    """Claim every key. Refused as a whole, before anything is claimed, if a key stands there twice. Raises
    the store's error only where no claim was made; else it is the outcome of each key still to be asked for."""
    _refuse_twice([request.key for request in requests])
    if not requests:
        return []
    entries = []
    for request in requests:
        mark, now_ms = yield Begin(request.payload_hash)
        entries.append(moves.claimed(request.key, meta=request.meta, mark=mark, now_ms=now_ms))
    applied = yield from _ask_many(entries)
    outcomes: list[BatchClaimOutcome] = []
    broken: StoreError | None = None
    for request, entry, ours in zip(requests, entries, applied, strict=True):
        if broken is not None and not ours:
            outcomes.append(broken)
            continue
        outcome = yield from _after_claim(request, entry, ours)
        broken = outcome if isinstance(outcome, StoreError) else broken
        outcomes.append(outcome)
    if broken is not None and not any(isinstance(outcome, Claimed) for outcome in outcomes):
        raise broken
    return outcomes


def settle_many(reports: Sequence[Report], classify: Classify) -> Generator[BatchStep, Any, list[Outcome[Any]]]:
    """Record every outcome. Those whose entry is no longer the claimed one go the single way; one that
    cannot be recorded raises its error when all others are."""
    _refuse_twice([report.claimed.key for report in reports])
    if not reports:
        return []
    reports = [_without_http_errors(report) for report in reports]
    now_ms = yield Now()
    pairs = [(report.claimed.entry, _ended(report, classify, now_ms)) for report in reports]
    applied = yield TransitionMany(pairs)
    outcomes: list[Outcome[Any]] = []
    failures: list[Exception] = []
    for report, (_, entry), landed in zip(reports, pairs, applied, strict=True):
        try:
            outcomes.append(_outcome(report, entry) if landed else (yield from _single(report, classify)))
        except Exception as error:  # noqa: BLE001  # raised below; what others sent must be recorded first
            failures.append(error)
    if failures:
        failures[0].add_note(f"{len(failures)} of {len(reports)} reports could not be recorded; the others are.")
        raise failures[0]
    return outcomes


def _ask_many(entries: Sequence[Entry]) -> Generator[BatchStep, Any, Sequence[bool | None]]:
    """For each entry: applied, not applied, or None where the store failed and it is not there."""
    try:
        return [bool(answer) for answer in (yield ClaimMany(entries))]
    except NOT_APPLIED:
        raise
    except Exception:
        stored = [False] * len(entries)
        for place, entry in enumerate(entries):
            stored[place] = yield from protocol.is_stored(entry)
        if not any(stored):
            raise
        return [ours or None for ours in stored]


def _after_claim(request: Request, entry: Entry, applied: bool | None) -> Generator[BatchStep, Any, BatchClaimOutcome]:
    try:
        if applied is None:
            return (yield from protocol.acquire(request))
        return (yield from protocol.after_claim(request, entry, applied=applied))
    except SendOnceError as error:
        return error
    except Exception as error:  # noqa: BLE001  # of a store or connection of the caller's
        failed = StoreError(f"Could not claim {request.key}: {error}")
        failed.__cause__ = error
        return failed


def _without_http_errors(report: Report) -> Report:
    """An HTTP error that was handed in as a result leaves its send unknown; the others are recorded."""
    refused = refuse_result(report.result) if report.error is None else None
    return report if refused is None else Report(report.claimed, error=refused)


def _ended(report: Report, classify: Classify, now_ms: float) -> Entry:
    entry, error = report.claimed.entry, report.error
    if error is None:
        return moves.sent(entry, provider_id=moves.provider_id_of(report.result), now_ms=now_ms)
    ended = moves.left_unknown if classify(error) == "unknown" else moves.failed
    return ended(entry, error=moves.error_text(error), now_ms=now_ms)


def _outcome(report: Report, entry: Entry) -> Outcome[Any]:
    if report.error is None:
        return Sent(entry.key, entry, report.result)
    if entry.uncertain:
        return Unknown(entry.key, entry, report.error)
    return Failed(entry.key, entry, report.error)


def _single(report: Report, classify: Classify) -> Generator[BatchStep, Any, Outcome[Any]]:
    if report.error is None:
        return (yield from protocol.settle_result(report.claimed.entry, report.result))
    return (yield from protocol.settle_error(report.claimed.entry, report.error, classify))


def _refuse_twice(keys: Sequence[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise InvalidInputError(f"The batch names {key} twice; nothing was done.", field="key")
        seen.add(key)
