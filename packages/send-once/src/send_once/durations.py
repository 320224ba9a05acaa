"""Durations as people write them ("12h") and as the ledger counts them (milliseconds)."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

from send_once.errors import InvalidInputError
from send_once.jsnumbers import js_number, to_double
from send_once.jstext import JS_SPACES

_MS_PER_UNIT: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_SPACE: Final = f"[{re.escape(JS_SPACES)}]*"
_DURATION: Final = re.compile(rf"{_SPACE}([0-9]+(?:\.[0-9]+)?){_SPACE}(ms|s|m|h|d){_SPACE}\Z")


def parse_duration(value: str | float | timedelta) -> float:
    """Milliseconds: from text ("500ms", "30s", "15m", "12h", "2d"), a number of milliseconds, or a timedelta.

    Raises InvalidInputError for anything else, and for a number that is negative or not finite. A text
    with more digits than a double can hold is infinite, as in the reference.
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, timedelta):
        return _zero_or_more(value / timedelta(milliseconds=1))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _zero_or_more(value)
    raise InvalidInputError('A duration must be a number of milliseconds or a string like "12h".', field="duration")


def format_duration(ms: float) -> str:
    """The two largest units, cut, with nothing finer than seconds: "35s", "15m", "4h 12m", "2d 3h"."""
    number = to_double(ms)
    if math.isnan(number):
        return "NaNs"
    seconds = _floor(max(0.0, number) / 1000)
    if seconds < _MINUTE:
        return f"{js_number(seconds)}s"
    if seconds < _HOUR:
        return f"{js_number(_floor(seconds / _MINUTE))}m"
    if seconds < _DAY:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    return _two(seconds, _DAY, "d", _HOUR, "h")


def _from_text(text: str) -> float:
    found = _DURATION.match(text)
    if found is None:
        raise InvalidInputError(
            f'Not a duration: "{text}". Use a number and a unit: 500ms, 30s, 15m, 12h, 2d.', field="duration"
        )
    return float(found[1]) * _MS_PER_UNIT[found[2]]


def _zero_or_more(ms: float) -> float:
    number = to_double(ms)
    if not (number >= 0 and math.isfinite(number)):
        raise InvalidInputError(
            f"A duration must be zero or more milliseconds, got {js_number(number)}.", field="duration"
        )
    return number


def _floor(value: float) -> float:
    return value if math.isinf(value) else float(math.floor(value))


def _two(seconds: float, large: float, large_unit: str, small: float, small_unit: str) -> str:
    rest = _floor(seconds % large / small) if math.isfinite(seconds) else 0.0
    return f"{js_number(_floor(seconds / large))}{large_unit}" + (f" {js_number(rest)}{small_unit}" if rest else "")
