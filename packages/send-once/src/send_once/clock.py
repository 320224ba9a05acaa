"""The one place that reads the system's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from send_once.errors import InvalidInputError
from send_once.instants import moment_ms

Clock = Callable[[], datetime | float]
"""Answers an aware datetime, or milliseconds since the epoch."""


def system_clock_ms() -> float:
    """Whole milliseconds since the epoch, as the reference's clock counts."""
    return time.time_ns() // 1_000_000


def clock_reader(clock: Clock | None) -> Callable[[], float]:
    """A function that reads `clock` in milliseconds and refuses what is not an instant."""
    if clock is None:
        return system_clock_ms
    if not callable(clock):
        raise InvalidInputError("clock must be a function returning an aware datetime or milliseconds.", field="clock")
    given = clock
    return lambda: moment_ms(given())
