"""What goes, and when, to a reader whose lessons were not sent in time: after downtime, a pause, or a lesson
that was put in before where the reader stands. Shown to a person before it acts; the same rule each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cadensend.cadence.timetables import Slot


class CatchUp(StrEnum):
    """The policies, by the names a series keeps."""

    NEXT_ONLY = "next_only"
    """Send the next unsent lesson now, and re-space the rest. The default: nobody gets a week of lessons at once."""
    SEND_ALL = "send_all"
    SKIP_MISSED = "skip_missed"
    HOLD = "hold"


class Verdict(StrEnum):
    KEEP = "keep"
    NOW = "now"
    RESPACED = "respaced"
    SKIPPED = "skipped"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A lesson that has not been claimed for this reader, and when it is due."""

    issue: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Placement:
    """What becomes of one lesson. `due_at` is None where it is skipped or held; `slot` is the new one of a
    lesson that was re-spaced."""

    issue: str
    verdict: Verdict
    due_at: datetime | None
    slot: Slot | None = None


def catch_up(
    waiting: Sequence[Waiting], *, policy: CatchUp, window: timedelta, now: datetime, free: Iterator[Slot]
) -> list[Placement]:
    """Place the lessons of one reader, in the order of `waiting`, which is that of the course.

    A lesson is late when it was due more than `window` (the send window) ago; while none is, every lesson
    keeps its time. `free` yields the slots after `now`. The order of the course is kept: no policy lets a
    later lesson go before an earlier one that is still to go.
    """
    late = [one for one in waiting if now - one.due_at > window]
    if not late:
        return [_keep(one) for one in waiting]
    match policy:
        case CatchUp.SEND_ALL:
            last_late = waiting.index(late[-1])
            return [_now(one, now) if place <= last_late else _keep(one) for place, one in enumerate(waiting)]
        case CatchUp.SKIP_MISSED:
            return [Placement(one.issue, Verdict.SKIPPED, None) if one in late else _keep(one) for one in waiting]
        case CatchUp.HOLD:
            return [Placement(one.issue, Verdict.HELD, None) for one in waiting]
        case CatchUp.NEXT_ONLY:
            return [_now(waiting[0], now), *(_respaced(one, next(free)) for one in waiting[1:])]


def _keep(one: Waiting) -> Placement:
    return Placement(one.issue, Verdict.KEEP, one.due_at)


def _now(one: Waiting, now: datetime) -> Placement:
    return Placement(one.issue, Verdict.NOW, now)


def _respaced(one: Waiting, slot: Slot) -> Placement:
    if slot.due_at == one.due_at:
        return Placement(one.issue, Verdict.KEEP, one.due_at)
    return Placement(one.issue, Verdict.RESPACED, slot.due_at, slot)
