"""Settling unknown sends by evidence: the decision for one entry, and its script."""

from __future__ import annotations

from typing import Final

from send_once import moves, protocol
from send_once.entry import Entry, Status
from send_once.instants import parse_instant
from send_once.outcomes import Absent, CannotTell, Evidence, Found
from send_once.owner import Liveness

BY: Final = "reconcile"


def decide(
    evidence: Evidence, still_there: Liveness, *, ended: bool = False, time_is_sound: bool = True
) -> Status | str:
    """The status the evidence settles, or the reason why it settles nothing.

    Absence settles nothing while the process that made the claim still runs and has not reported how
    the send `ended`: it may be just before the call, and a failed entry may be sent by the next caller.
    Nor where the claim's time cannot be read or lies ahead (`time_is_sound` is False: another host's
    clock): it may have been made a moment ago, and no look-up is known to cover the time since.
    """
    match evidence:
        case Found():
            return Status.SENT
        case Absent() if still_there == "running here" and not ended:
            return "The look-up does not find it, but the process that claimed it is still running."
        case Absent() if not time_is_sound:
            return "The look-up does not find it, but the time of its claim cannot be read or lies ahead of this clock."
        case Absent():
            return Status.FAILED
        case CannotTell(reason=reason):
            return reason


def settle_by_evidence(entry: Entry, evidence: Evidence, still_there: Liveness) -> protocol.Script[Entry | str]:
    """Settle exactly the entry that was looked up; the reason where it stays."""
    now_ms: float = yield protocol.Now()
    claimed_at_ms = parse_instant(entry.claimed_at)
    time_is_sound = claimed_at_ms is not None and claimed_at_ms <= now_ms
    decision = decide(evidence, still_there, ended=entry.uncertain, time_is_sound=time_is_sound)
    if not isinstance(decision, Status):
        return decision
    settled = yield from protocol.resolve_entry(
        entry, decision, by=BY, note=_note(evidence), provider_id=_provider_id(evidence)
    )
    return settled if settled is not None else "It changed while it was looked up; ask again."


def _note(evidence: Evidence) -> str | None:
    note = None if isinstance(evidence, CannotTell) else evidence.note
    return note and note[: moves.ERROR_TEXT_MAX_CHARS]


def _provider_id(evidence: Evidence) -> str | None:
    provider_id = evidence.provider_id if isinstance(evidence, Found) else None
    return provider_id and provider_id[: moves.PROVIDER_ID_MAX_CHARS]


def sort_answer(
    entry: Entry, answer: Entry | str, sent: list[Entry], failed: list[Entry], left: list[tuple[Entry, str]]
) -> None:
    """Put one answer where the report shows it."""
    if isinstance(answer, str):
        left.append((entry, answer))
    elif answer.status is Status.SENT:
        sent.append(answer)
    else:
        failed.append(answer)
