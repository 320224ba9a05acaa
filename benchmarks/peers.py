"""Beside two installable peers, all on SQLite on one disk, with how often each syncs between claim and effect.

agent-once 0.1.0 claims durably, as here. exactly-once 0.2.1 runs SQLite at synchronous=NORMAL: its claim is
not on the disk when the effect runs, which is why it is fast.
"""

from __future__ import annotations

import itertools
import os
import warnings
from pathlib import Path

from sqlite_once import floor
from timing import RAM_DISK, Work, folder, interleaved, rounds, table

from send_once import Ledger, SQLiteStore


def ours(path: Path) -> Work:
    ledger, keys = Ledger(SQLiteStore(path)), itertools.count()
    return lambda: ledger.once(f"{next(keys):064d}", lambda: "id")


def agent_once(path: Path) -> Work:
    import once

    guard, keys = once.Once(path), itertools.count()
    return lambda: guard.execute(lambda: "id", key=f"{next(keys):064d}")


def exactly_once(path: Path) -> Work:
    from exactly_once import once as guard
    from exactly_once.stores.sqlite import SQLiteStore as TheirStore

    keys = itertools.count()

    @guard(TheirStore(str(path)), key=lambda key: key)
    def guarded(key: str) -> str:
        return "id"

    return lambda: guarded(f"{next(keys):064d}")


def main() -> None:
    warnings.simplefilter("ignore")
    for base, what in ((None, "disk"), (RAM_DISK, "RAM disk")):
        if base is not None and not os.path.isdir(base):
            continue
        with folder(base) as place:
            floor_name = f"two raw commits, {what}"
            contenders = {
                floor_name: floor(place / "floor.db"),
                f"send-once, {what}": ours(place / "ours.db"),
                f"agent-once 0.1.0, {what}": agent_once(place / "agent.db"),
                f"exactly-once 0.2.1 (claim not synced), {what}": exactly_once(place / "exactly.db"),
            }
            table(interleaved(contenders, rounds(1_000)), floor_name)
            print()


if __name__ == "__main__":
    main()
