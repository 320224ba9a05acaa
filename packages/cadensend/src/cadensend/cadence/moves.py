"""Which lessons would move, before they do: after a change of rhythm, time or zone, and when zone data change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cadensend.cadence.timetables import Slot, Timetable
from cadensend.cadence.zones import moment, zone_of


@dataclass(frozen=True, slots=True)
class Move:
    """One lesson with its slot before and after."""

    issue: str
    before: Slot
    after: Slot


def place(issues: Sequence[str], timetable: Timetable, *, after: datetime) -> dict[str, Slot]:
    """Give each lesson, in order, the next slot later than `after`. Lessons that are claimed are not given here:
    what may have gone out has no new time."""
    return dict(zip(issues, timetable.slots(after), strict=False))


def moves(before: Mapping[str, Slot], after: Mapping[str, Slot]) -> list[Move]:
    """The lessons whose instant changes, in the order of their old slots."""
    changed = [
        Move(issue, slot, after[issue])
        for issue, slot in before.items()
        if issue in after and after[issue].due_at != slot.due_at
    ]
    return sorted(changed, key=lambda move: move.before.due_at)


def would_move(fixed: Iterable[tuple[str, Slot]]) -> list[tuple[str, Slot, datetime]]:
    """Lessons whose wall time is another instant by the zone data of today than when it was fixed, each with
    that instant. They are shown, never moved by themselves: someone may have been told the time."""
    computed = ((issue, slot, _instant_of(slot)) for issue, slot in fixed)
    return [(issue, slot, at) for issue, slot, at in computed if at != slot.due_at]


def _instant_of(slot: Slot) -> datetime:
    return moment(slot.asked or slot.wall, zone_of(slot.zone)).at
