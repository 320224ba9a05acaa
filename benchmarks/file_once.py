"""The file store: `once` beside a lock and two synced appends, without and with the reference's lock file."""

from __future__ import annotations

import fcntl
import itertools
import os
from pathlib import Path

from timing import RAM_DISK, Work, folder, interleaved, repeated, rounds, table

from send_once import FileStore, Ledger

LINE = b"x" * 380 + b"\n"


def floor(path: Path, *, with_lock_file: bool) -> Work:
    """Twice: flock, append, fdatasync; the second floor also makes and removes a lock file, as Node does."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    lock = f"{path}.lock"

    def two_appends() -> None:
        for _ in range(2):
            fcntl.flock(fd, fcntl.LOCK_EX)
            if with_lock_file:
                held = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                os.write(held, b'{"pid":1234,"host":"vm","token":"0123456789abcdef","at":1790510400000}')
                os.close(held)
            os.write(fd, LINE)
            os.fdatasync(fd)
            if with_lock_file:
                os.unlink(lock)
            fcntl.flock(fd, fcntl.LOCK_UN)

    return two_appends


def run(base: str | None, what: str) -> None:
    with folder(base) as place:
        ledger, keys = Ledger(FileStore(place / "ledger.jsonl")), itertools.count()
        python_only = Ledger(FileStore(place / "python.jsonl", beside_node=False))
        ledger.once("sent", lambda: "id")
        plain = f"lock and two appends, {what}"
        taken = interleaved(
            {
                plain: floor(place / "floor.jsonl", with_lock_file=False),
                f"the same with the lock file for Node, {what}": floor(place / "floor2.jsonl", with_lock_file=True),
                f"`once`, {what}": lambda: ledger.once(f"{next(keys):064d}", lambda: "id"),
                f"`once` with beside_node=False, {what}": lambda: python_only.once(f"{next(keys):064d}", lambda: "id"),
            },
            rounds(1_500),
        )
        taken[f"a duplicate, {what}"] = repeated(lambda: ledger.once("sent", lambda: "id"), rounds(5_000))
        table(taken, plain)
        ledger.close()
        python_only.close()


def main() -> None:
    run(None, "disk")
    print("\nTargets: `once` at most 1.25 times the floor; a duplicate at most 20 µs.\n")
    if os.path.isdir(RAM_DISK):
        run(RAM_DISK, "RAM disk")


if __name__ == "__main__":
    main()
