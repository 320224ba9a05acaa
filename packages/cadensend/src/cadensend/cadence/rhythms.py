"""On which days lessons may go. A rhythm yields dates for ever, each later than the one before.

As JSON: ``{"kind": "weekdays"}``, ``{"kind": "on", "weekdays": ["tue", "fri"]}``, ``{"kind": "every", "days": 3}``,
``{"kind": "monthly", "day": 31}``, ``{"kind": "monthly", "nth": 1, "weekday": "tue"}``.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import IntEnum
from typing import Any, Final

DAYS_MAX: Final = 366
_LAST: Final = -1
_ORDINALS: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", _LAST: "last"}


class RhythmError(ValueError):
    """Not a rhythm. `field` names the part that is wrong."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class Weekday(IntEnum):
    """As `date.weekday()` counts."""

    MON, TUE, WED, THU, FRI, SAT, SUN = range(7)

    @property
    def full(self) -> str:
        return calendar.day_name[self]


@dataclass(frozen=True, slots=True)
class Daily:
    """Every day."""

    def dates(self, start: date) -> Iterator[date]:
        return _every(start, 1)

    def describe(self) -> str:
        return "every day"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "daily"}


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Monday to Friday."""

    def dates(self, start: date) -> Iterator[date]:
        return (day for day in _every(start, 1) if day.weekday() <= Weekday.FRI)

    def describe(self) -> str:
        return "Monday to Friday"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "weekdays"}


@dataclass(frozen=True, slots=True)
class OnWeekdays:
    """Chosen days of the week, one or more; with one, weekly."""

    weekdays: frozenset[Weekday]

    def __post_init__(self) -> None:
        if not self.weekdays:
            raise RhythmError("Choose at least one day of the week.", field="weekdays")

    def dates(self, start: date) -> Iterator[date]:
        return (day for day in _every(start, 1) if day.weekday() in self.weekdays)

    def describe(self) -> str:
        names = [day.full for day in sorted(self.weekdays)]
        return f"every {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else f"every {names[0]}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "on", "weekdays": [day.name.lower() for day in sorted(self.weekdays)]}


@dataclass(frozen=True, slots=True)
class EveryDays:
    """The start, and every so many days after it."""

    days: int

    def __post_init__(self) -> None:
        if not 1 <= self.days <= DAYS_MAX:
            raise RhythmError(f"Every how many days? A whole number from 1 to {DAYS_MAX}.", field="days")

    def dates(self, start: date) -> Iterator[date]:
        return _every(start, self.days)

    def describe(self) -> str:
        return "every day" if self.days == 1 else f"every {self.days} days"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "every", "days": self.days}


@dataclass(frozen=True, slots=True)
class MonthlyByDate:
    """A day of the month; in a month that is shorter, its last day."""

    day: int

    def __post_init__(self) -> None:
        if not 1 <= self.day <= 31:  # noqa: PLR2004  # calendar
            raise RhythmError("Which day of the month? A whole number from 1 to 31.", field="day")

    def dates(self, start: date) -> Iterator[date]:
        return _monthly(start, lambda year, month: min(self.day, calendar.monthrange(year, month)[1]))

    def describe(self) -> str:
        shorter = ", or the last day of a shorter month" if self.day > 28 else ""  # noqa: PLR2004  # February
        return f"on day {self.day} of each month{shorter}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "monthly", "day": self.day}


@dataclass(frozen=True, slots=True)
class MonthlyByWeekday:
    """The first to fourth, or (-1) the last, of a weekday in each month."""

    nth: int
    weekday: Weekday

    def __post_init__(self) -> None:
        if self.nth not in _ORDINALS:
            raise RhythmError("Which one of the month? 1 to 4, or -1 for the last.", field="nth")

    def dates(self, start: date) -> Iterator[date]:
        return _monthly(start, self._day)

    def describe(self) -> str:
        return f"on the {_ORDINALS[self.nth]} {self.weekday.full} of each month"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "monthly", "nth": self.nth, "weekday": self.weekday.name.lower()}

    def _day(self, year: int, month: int) -> int:
        first, length = calendar.monthrange(year, month)
        earliest = 1 + (self.weekday - first) % 7
        days = range(earliest, length + 1, 7)
        return days[self.nth if self.nth == _LAST else self.nth - 1]


Rhythm = Daily | Weekdays | OnWeekdays | EveryDays | MonthlyByDate | MonthlyByWeekday


def rhythm_from_json(value: object) -> Rhythm:
    """Read a rhythm. RhythmError names the member that is missing, wrong or one too many."""
    if not isinstance(value, Mapping):
        raise RhythmError("A rhythm is an object with a kind.", field="kind")
    members = dict(value)
    kind = members.pop("kind", None)
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise RhythmError(f"{kind!r} is no kind of rhythm; choose {', '.join(_READERS)}.", field="kind")
    rhythm = read(members)
    if members:
        raise RhythmError(
            f"A rhythm of kind {kind} has no {', '.join(map(str, members))}.", field=str(next(iter(members)))
        )
    return rhythm


def _read_on(members: dict[Any, Any]) -> Rhythm:
    names = members.pop("weekdays", None)
    if not isinstance(names, list):
        raise RhythmError('weekdays must be a list, such as ["tue", "fri"].', field="weekdays")
    return OnWeekdays(frozenset(_weekday(name, field="weekdays") for name in names))


def _read_monthly(members: dict[Any, Any]) -> Rhythm:
    if "day" in members:
        return MonthlyByDate(_whole(members.pop("day"), field="day"))
    nth, weekday = members.pop("nth", None), members.pop("weekday", None)
    return MonthlyByWeekday(_whole(nth, field="nth"), _weekday(weekday, field="weekday"))


_READERS: Final[dict[str, Callable[[dict[Any, Any]], Rhythm]]] = {
    "daily": lambda _members: Daily(),
    "weekdays": lambda _members: Weekdays(),
    "on": _read_on,
    "every": lambda members: EveryDays(_whole(members.pop("days", None), field="days")),
    "monthly": _read_monthly,
}


def _weekday(name: object, *, field: str) -> Weekday:
    day = Weekday.__members__.get(name.upper()) if isinstance(name, str) else None
    if day is None:
        raise RhythmError(f"{name!r} is no day of the week; write mon, tue, wed, thu, fri, sat or sun.", field=field)
    return day


def _whole(value: object, *, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RhythmError(f"{field} must be a whole number, not {value!r}.", field=field)
    return value


def _every(start: date, days: int) -> Iterator[date]:
    day = start
    try:
        while True:
            yield day
            day += timedelta(days=days)
    except OverflowError:
        return  # the calendar ends in 9999


def _monthly(start: date, day_of: Callable[[int, int], int]) -> Iterator[date]:
    year, month = start.year, start.month
    while year <= date.max.year:
        day = date(year, month, day_of(year, month))
        if day >= start:
            yield day
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)  # noqa: PLR2004  # calendar
