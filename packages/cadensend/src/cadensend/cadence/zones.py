"""IANA zones, and what becomes of a wall time that a zone does not have, or has twice.

A gap keeps the offset from before it: where clocks jump from 02:00 to 03:00, 02:30 becomes 03:30. In a fold
the first pass counts. Both are what `zoneinfo` answers for `fold=0` (PEP 495).
"""

from __future__ import annotations

import difflib
import importlib.metadata
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

_NO_PLACES: Final = frozenset({"Factory", "localtime", "posixrules"})
_OTHER_COUNTS: Final = ("posix/", "right/")  # the same zones once more, the latter with leap seconds


class ZoneError(ValueError):
    """Not the name of a zone."""


class Shift(StrEnum):
    """Why a lesson does not go at the wall time that was asked for, or at which of two."""

    NONE = "none"
    GAP = "gap"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall time in a zone, settled. `at` is the instant in UTC, `wall` (naive) what clocks there show
    at that instant, `asked` (naive) what was wanted; they differ in a gap only."""

    at: datetime
    wall: datetime
    asked: datetime
    shift: Shift


def zone_of(name: str) -> ZoneInfo:
    """The zone called `name` in the IANA database. ZoneError for anything else, with names that look alike."""
    if not isinstance(name, str) or name not in _names():
        raise ZoneError(f"{name!r} is not an IANA time zone, such as Europe/Berlin.{_hint(name)}")
    return ZoneInfo(name)


def zone_names() -> list[str]:
    """Every name `zone_of` takes, sorted."""
    return sorted(_names())


def moment(asked: datetime, zone: ZoneInfo) -> Moment:
    """Settle the naive wall time `asked` in `zone`."""
    first, second = asked.replace(tzinfo=zone, fold=0), asked.replace(tzinfo=zone, fold=1)
    at = first.astimezone(UTC)
    wall = at.astimezone(zone).replace(tzinfo=None, fold=0)
    if wall != asked:
        return Moment(at, wall, asked, Shift.GAP)
    return Moment(at, wall, asked, Shift.NONE if first.utcoffset() == second.utcoffset() else Shift.FOLD)


def day_exists(day: date, zone: ZoneInfo) -> bool:
    """False for a day that a zone left out when it moved to the other side of the date line."""
    ends = (datetime.combine(day, time.min), datetime.combine(day, time.max))
    return any(moment(end, zone).wall.date() == day for end in ends)


def zone_data_version() -> str:
    """The IANA release that this process reads its zones from, such as "2026b"; "unknown" if it is the
    system's and does not say."""
    try:
        return _release_of(importlib.metadata.version("tzdata"))
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def local_date(instant: datetime, zone: ZoneInfo) -> date:
    return instant.astimezone(zone).date()


def days_after(day: date, count: int) -> date:
    return day + timedelta(days=count)


def _release_of(package_version: str) -> str:
    """The package calls the second release of 2026 "2026.2", and IANA "2026b"."""
    year, _, number = package_version.partition(".")
    return f"{year}{chr(ord('a') + int(number) - 1)}" if number.isdigit() and number != "0" else package_version


@cache
def _names() -> frozenset[str]:
    return frozenset(
        name for name in available_timezones() if name not in _NO_PLACES and not name.startswith(_OTHER_COUNTS)
    )


def _hint(name: object) -> str:
    if not isinstance(name, str):
        return ""
    by_fold = {known.casefold(): known for known in _names()}
    wanted = name.strip().replace(" ", "_").casefold()
    near = [by_fold[wanted]] if wanted in by_fold else [by_fold[one] for one in _alike(wanted, by_fold)]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _alike(wanted: str, known: dict[str, str]) -> list[str]:
    cities = [name for name in known if name.rpartition("/")[2] == wanted]
    return sorted(cities) or difflib.get_close_matches(wanted, known, n=2, cutoff=0.8)
