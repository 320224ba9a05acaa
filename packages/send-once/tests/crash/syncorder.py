"""What SIGKILL cannot show, because the page cache outlives it: that a claim was synced before its send ran.

Reads the order of writes, syncs and sends off a trace (`strace -y`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from crash.injection import SYNCS, WRITES
from crash.scenarios import Place, file_path

_CALL: Final = re.compile(r"^\d+ +(\w+)\((?:\d+<([^>]*)>|\"([^\"]*)\")?.*?\) += (-?\d+)")


class Call(NamedTuple):
    name: str
    path: str
    answer: int


def violations(trace: str, place: Place) -> list[str]:
    """Each send that ran while bytes of the ledger were written and not synced."""
    return list(_unsynced_sends(calls_of(trace), place)) if place.store != "postgres" else []


def calls_of(trace: str) -> Iterator[Call]:
    for line in trace.splitlines():
        found = _CALL.match(line)
        if found:
            yield Call(found[1], found[2] or found[3] or "", int(found[4]))


def _unsynced_sends(calls: Iterator[Call], place: Place) -> Iterator[str]:
    ledger = file_path(place)
    logs = {ledger, f"{ledger}-wal"}
    unsynced: set[str] = set()
    synced_once = False
    for call in calls:
        path = call.path.removesuffix(" (deleted)")
        if call.name in WRITES and path in logs and call.answer > 0:
            unsynced.add(path)
        elif call.name in SYNCS and call.answer == 0 and path in logs:
            unsynced.discard(path)
            synced_once = True
        elif call.name == "mkdir" and os.path.dirname(path).endswith("effects") and call.answer == 0:
            if unsynced or not synced_once:
                yield f"a send ran while {sorted(unsynced) or ledger} was not synced"
