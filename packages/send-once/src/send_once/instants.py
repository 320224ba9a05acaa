"""Instants: milliseconds since the epoch, and the ISO text the ledger keeps of them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from send_once.errors import InvalidInputError
from send_once.jsnumbers import to_double

INSTANT_MS_MAX: Final = 8_640_000_000_000_000
"""The farthest instant from 1970 that the reference can name (ECMA-262, time values)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS: Final = timedelta(milliseconds=1)
_MS_PER_DAY: Final = 86_400_000
_YEAR_MAX: Final = 9_999
_YEARS_PER_ERA: Final = 400
_DAYS_PER_ERA: Final = 146_097
_SECONDS_PER_ERA: Final = _DAYS_PER_ERA * 86_400
_LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999."""
_LOCAL_FIRST_SECOND: Final = -62_135_510_400
_LOCAL_LAST_SECOND: Final = _LAST_SECOND - 7 * 86_400
"""From 2 January 0001 to the last days of 9999: there Python converts local times, whatever the zone."""
_SECONDS_TO_YEAR_10000: Final = 253_402_300_800

_ISO: Final = re.compile(
    r"(?P<year>[0-9]{4}|[+-][0-9]{6})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?"
    r"(?P<time>[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?\Z"
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RFC_1123: Final = re.compile(
    r"[A-Z][a-z]{2}, (?P<day>[0-9]{1,2}) (?P<month>[A-Z][a-z]{2}) (?P<year>[0-9]{4}) "
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}) GMT\Z"
)
_LOCAL_DATES: Final = (
    re.compile(r"(?P<month>[A-Z][a-z]{2}) (?P<day>[0-9]{1,2}) (?P<year>[0-9]{4})\Z"),
    re.compile(r"(?P<day>[0-9]{1,2}) (?P<month>[A-Z][a-z]{2}) (?P<year>[0-9]{4})\Z"),
    re.compile(r"(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})/(?P<year>[0-9]{4})\Z"),
    re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})\Z"),
)
"""Forms the reference's engine reads beside ISO 8601, as local time."""


def moment_ms(value: datetime | float) -> float:
    """An instant as milliseconds since the epoch: an aware datetime, or a finite number that is
    milliseconds already. Raises InvalidInputError for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(to_double(value)):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) / _ONE_MS
    hint = " A datetime needs a tzinfo." if isinstance(value, datetime) else ""
    raise InvalidInputError(f"A time must be a valid Date or a number of milliseconds.{hint}", field="now")


def iso_from_ms(ms: float) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ`, cut (not rounded) to whole milliseconds; `±YYYYYY` beyond year 9999."""
    if not -INSTANT_MS_MAX <= ms <= INSTANT_MS_MAX:
        raise InvalidInputError("Invalid time value", field="now")
    seconds, millis = divmod(int(ms), 1000)
    return f"{_iso_second(seconds)}.{millis:03d}Z"


def parse_instant(text: str) -> float | None:
    """`Date.parse(text)` in milliseconds; None where that is NaN. A date alone is UTC, a date with a
    time and no zone is local; days beyond a month's end roll over; fractions are cut to milliseconds."""
    found = _ISO.match(text)
    if found is not None:
        return _within_range(_from_iso(found))
    found = _RFC_1123.match(text)
    if found is not None:
        clock_ms = _clock_ms(found["hour"], found["minute"], found["second"], None)
        days = _days(int(found["year"]), _month(found["month"]), int(found["day"]))
        return None if days is None or clock_ms is None else days * _MS_PER_DAY + clock_ms
    return _engine_only(text)


def _from_iso(found: re.Match[str]) -> float | None:
    if found["year"] == "-000000":
        return None
    days = _days(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    if days is None:
        return None
    if found["time"] is None:
        return days * _MS_PER_DAY
    clock_ms = _clock_ms(found["hour"], found["minute"], found["second"] or "00", found["fraction"])
    if clock_ms is None:
        return None
    at_ms = days * _MS_PER_DAY + clock_ms
    if found["zone"] is None:
        return _local_to_utc_ms(at_ms)
    offset_ms = _offset_ms(found["zone"])
    return None if offset_ms is None else at_ms - offset_ms


def _engine_only(text: str) -> float | None:
    for form in _LOCAL_DATES:
        found = form.match(text)
        if found is not None:
            days = _days(int(found["year"]), _month(found["month"]), int(found["day"]))
            return None if days is None else _local_to_utc_ms(days * _MS_PER_DAY)
    return _bare_number(text)


def _bare_number(text: str) -> float | None:
    """One or two digits: 0 is the year 2000, 1 to 12 a month of 2001, 32 to 99 a year 2032 to 1999."""
    if not text.isascii() or not text.isdigit() or len(text) > 2:  # noqa: PLR2004  # two digits
        return None
    number = int(text)
    if number == 0:
        year, month = 2000, 1
    elif number <= 12:  # noqa: PLR2004  # months
        year, month = 2001, number
    elif number >= 32:  # noqa: PLR2004  # beyond the days of a month
        year, month = (2000 if number < 50 else 1900) + number, 1  # noqa: PLR2004  # the engine's pivot year
    else:
        return None
    days = _days(year, month, 1)
    return None if days is None else _local_to_utc_ms(days * _MS_PER_DAY)


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    return _MONTHS.index(text.lower()) + 1 if text.lower() in _MONTHS else 0


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, for any year. A day up to 31 that
    the month does not have counts on into the next."""
    if not 1 <= month <= 12 or not 1 <= day <= 31:  # noqa: PLR2004  # calendar
        return None
    # Years counted from March put the leap day last; an era is 400 years, 146,097 days.
    shifted = year - (month <= 2)  # noqa: PLR2004  # January and February belong to the year before
    era, year_of_era = divmod(shifted, _YEARS_PER_ERA)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * _DAYS_PER_ERA + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _clock_ms(hour: str, minute: str, second: str, fraction: str | None) -> int | None:
    millis = int((fraction or "0").ljust(3, "0")[:3])
    h, m, s = int(hour), int(minute), int(second)
    if m > 59 or s > 59 or h > 24 or (h == 24 and (m or s or millis)):  # noqa: PLR2004  # clock
        return None
    return ((h * 60 + m) * 60 + s) * 1000 + millis


def _offset_ms(zone: str) -> int | None:
    if zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:  # noqa: PLR2004  # clock
        return None
    return (-1 if zone[0] == "-" else 1) * (hours * 60 + minutes) * 60_000


def _local_to_utc_ms(wall_ms: int) -> float:
    """What a wall clock of this machine shows, as an instant."""
    seconds, millis = divmod(wall_ms, 1000)
    shift = _eras_to(seconds, _LOCAL_FIRST_SECOND, _LOCAL_LAST_SECOND) * _SECONDS_PER_ERA
    wall = datetime(1970, 1, 1) + timedelta(seconds=seconds + shift)  # noqa: DTZ001  # a wall time is meant
    return (int(wall.timestamp()) - shift) * 1000 + millis


def _eras_to(seconds: int, first: int, last: int) -> int:
    """How many eras (400 years, after which the calendar repeats to the weekday) bring a second between
    two others that are further apart than that."""
    if seconds < first:
        return -((seconds - first) // _SECONDS_PER_ERA)
    return -max(0, -((last - seconds) // _SECONDS_PER_ERA))


def _within_range(ms: float | None) -> float | None:
    return ms if ms is not None and abs(ms) <= INSTANT_MS_MAX else None


@lru_cache(maxsize=16)
def _iso_second(seconds: int) -> str:
    # The stamps of one send mostly fall into one second, and formatting is what costs.
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return _iso_second_any_year(seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


def _iso_second_any_year(seconds: int) -> str:
    """For years the datetime module does not know."""
    eras = _eras_to(seconds, 0, _LAST_SECOND)
    moment = _EPOCH + timedelta(seconds=seconds + eras * _SECONDS_PER_ERA)
    year = moment.year - eras * _YEARS_PER_ERA
    rest = moment.strftime("-%m-%dT%H:%M:%S")
    return f"{year:04d}{rest}" if 0 <= year <= _YEAR_MAX else f"{'+' if year > 0 else '-'}{abs(year):06d}{rest}"
