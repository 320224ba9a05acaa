"""A rhythm at a wall time in a zone: the slots in which lessons are due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from cadensend.cadence.rhythms import Rhythm
from cadensend.cadence.zones import Moment, Shift, day_exists, local_date, moment, zone_of


@dataclass(frozen=True, slots=True)
class Slot:
    """When a lesson is due. `due_at` is an instant in UTC and decides; `wall` (naive), `zone` (an IANA
    name) and `rule` say how it came about."""

    due_at: datetime
    wall: datetime
    zone: str
    rule: str
    shift: Shift = Shift.NONE
    asked: datetime | None = None
    """The wall time (naive) that was wanted, where a gap swallowed it."""

    def remark(self) -> str | None:
        """What a person should know of this slot before it comes; None mostly."""
        wanted = self.asked or self.wall
        day = f"{wanted.day} {wanted:%B}"
        if self.shift is Shift.GAP and self.asked is not None:
            return f"{day} has no {self.asked:%H:%M} in {self.zone}; this lesson goes at {self.wall:%H:%M}."
        if self.shift is Shift.FOLD:
            return f"{day} has {self.wall:%H:%M} twice in {self.zone}; this lesson goes at the first."
        return None


@dataclass(frozen=True, slots=True)
class Timetable:
    """Days by `rhythm` from `start` on, without the `skipped` ones, each at the wall time `at` in `zone`."""

    rhythm: Rhythm
    at: time
    zone: str
    start: date
    skipped: frozenset[date] = frozenset()

    def __post_init__(self) -> None:
        zone_of(self.zone)
        if self.at.tzinfo is not None:
            raise ValueError("at: a wall time has no offset of its own; the zone gives it one.")

    def slots(self, after: datetime | None = None) -> Iterator[Slot]:
        """Slots in order, those due later than `after` (an aware datetime) where it is given. Their instants
        always grow, also where a zone leaves out a day."""
        zone, rule = zone_of(self.zone), f"{self.rhythm.describe()} at {self.at:%H:%M}"
        for day in self.rhythm.dates(self.start):
            if day in self.skipped or not day_exists(day, zone):
                continue
            slot = _slot(moment(datetime.combine(day, self.at), zone), self.zone, rule)
            if after is None or slot.due_at > after:
                yield slot


def for_reader(timetable: Timetable, *, enrolled_at: datetime, zone: str) -> Timetable:
    """The same rhythm counted from the day on which a reader enrolled, in the reader's zone; it begins on the
    next day where the wall time of that day had passed."""
    day = local_date(enrolled_at, zone_of(zone))
    today = moment(datetime.combine(day, timetable.at), zone_of(zone))
    start = day if today.at > enrolled_at.astimezone(UTC) else day + timedelta(days=1)
    return replace(timetable, start=start, zone=zone)


def _slot(settled: Moment, zone: str, rule: str) -> Slot:
    asked = settled.asked if settled.shift is Shift.GAP else None
    return Slot(settled.at, settled.wall, zone, rule, settled.shift, asked)
