"""SQLite: `once` beside two raw commits of the same rows, on a disk and on a RAM disk, and a duplicate."""

from __future__ import annotations

import itertools
import os
import sqlite3
from pathlib import Path

from timing import RAM_DISK, Work, folder, interleaved, median, repeated, rounds, table

from send_once import Ledger, SQLiteStore

ROW = "x" * 380


def floor(path: Path) -> Work:
    """Two commits in WAL with synchronous=FULL: insert a row, update it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE t (key TEXT PRIMARY KEY, status TEXT, entry TEXT, claimed_at TEXT, updated_at TEXT)"
    )
    keys = itertools.count()

    def two_commits() -> None:
        key = f"{next(keys):064d}"
        connection.execute("INSERT INTO t VALUES (?, 'pending', ?, 'a', 'a') ON CONFLICT DO NOTHING", (key, ROW))
        connection.execute("UPDATE t SET status = 'sent', entry = ? WHERE key = ? AND status = 'pending'", (ROW, key))

    return two_commits


def run(base: str | None, what: str) -> None:
    with folder(base) as place:
        ledger, keys = Ledger(SQLiteStore(place / "ledger.db")), itertools.count()
        ledger.once("sent", lambda: "id")
        taken = interleaved(
            {
                f"two raw commits, {what}": floor(place / "floor.db"),
                f"`once`, {what}": lambda: ledger.once(f"{next(keys):064d}", lambda: "id"),
            },
            rounds(1_500),
        )
        taken[f"a duplicate, {what}"] = repeated(lambda: ledger.once("sent", lambda: "id"), rounds(5_000))
        table(taken, f"two raw commits, {what}")
        over = median(taken[f"`once`, {what}"]) - median(taken[f"two raw commits, {what}"])
        print(f"\n`once` takes {over:.0f} µs more than the floor.\n")
        ledger.close()


def main() -> None:
    run(None, "disk")
    print("Target: at most 1.25 times the floor on a disk.\n")
    if os.path.isdir(RAM_DISK):
        run(RAM_DISK, "RAM disk")
        print("Target: at most 35 µs of our own on a RAM disk.")


if __name__ == "__main__":
    main()
