"""Ids made here and not by a database, so that one table can be spread over many (RFC 9562 section 5.7)."""

from __future__ import annotations

import os
import threading
import time
from typing import Final
from uuid import UUID

_RANDOM_BITS: Final = 62
_COUNTER_BITS: Final = 12
_COUNTER_MASK: Final = (1 << _COUNTER_BITS) - 1
_VERSION_7: Final = 7 << 76
_VARIANT: Final = 2 << 62

_guard = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """A version 7 UUID, later than every other that this process has made: milliseconds, then a counter."""
    tick = _next_tick((time.time_ns() // 1_000_000) << _COUNTER_BITS)
    random_bits = int.from_bytes(os.urandom(8)) >> (64 - _RANDOM_BITS)
    milliseconds, counter = tick >> _COUNTER_BITS, tick & _COUNTER_MASK
    return UUID(int=milliseconds << 80 | _VERSION_7 | counter << 64 | _VARIANT | random_bits)


def _next_tick(now: int) -> int:
    """Also while the clock stands still or goes back; a counter that overflows borrows from the next millisecond."""
    global _last  # noqa: PLW0603  # what the process has given out
    with _guard:
        _last = max(now, _last + 1)
        return _last
