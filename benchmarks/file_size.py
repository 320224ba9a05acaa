"""The file store as the ledger grows: `once` in an empty ledger beside one of a million entries, opening it, memory."""

from __future__ import annotations

import gc
import itertools
import json
import resource
import time
from pathlib import Path

from timing import QUICK, folder, interleaved, median, repeated, rounds, table

from send_once import FileStore, Ledger

ENTRIES = 20_000 if QUICK else 1_000_000


def grow(path: Path, entries: int) -> None:
    """Write a ledger of sent entries as the library writes it, without its cost."""
    claim = {"id": "0" * 32, "host": "vm", "pid": 1, "start": "818766f7.4026531836.704229"}
    at = "2026-09-27T12:00:00.000Z"
    with path.open("w", encoding="utf-8") as file:
        for number in range(entries):
            base = {"key": f"{number:064x}", "status": "pending", "attempts": 1, "claimedAt": at, "updatedAt": at}
            claimed = {**base, "meta": None, "claim": claim}
            sent = {**base, "status": "sent", "meta": None, "sentAt": at, "providerId": f"msg_{number}", "claim": claim}
            file.write(
                json.dumps(claimed, separators=(",", ":")) + "\n" + json.dumps(sent, separators=(",", ":")) + "\n"
            )


def resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    with folder() as place:
        grow(place / "large.jsonl", ENTRIES)
        gc.collect()
        before, started = resident_mib(), time.perf_counter()
        large = Ledger(FileStore(place / "large.jsonl"))
        assert large.get(f"{ENTRIES - 1:064x}") is not None
        seconds, used = time.perf_counter() - started, resident_mib() - before
        started = time.perf_counter()
        with (place / "large.jsonl").open("rb") as file:
            lines = sum(1 for line in file if json.loads(line))
        reading = time.perf_counter() - started
        print(
            f"Opening {ENTRIES:,} entries ({lines:,} lines): {seconds:.1f} s, "
            f"{seconds / reading:.2f} times the parsing of each line."
        )
        print(f"Memory: {used * 2**20 / ENTRIES:.0f} bytes an entry, its 64-character key included.\n")
        empty, keys = Ledger(FileStore(place / "empty.jsonl")), itertools.count()
        taken = interleaved(
            {
                "`once`, ledger empty at the start": lambda: empty.once(f"a{next(keys)}", lambda: "id"),
                f"`once`, ledger of {ENTRIES:,} entries": lambda: large.once(f"b{next(keys)}", lambda: "id"),
            },
            rounds(1_000),
        )
        taken[f"a duplicate, ledger of {ENTRIES:,} entries"] = repeated(
            lambda: large.once(f"{ENTRIES // 2:064x}", lambda: "id"), rounds(5_000)
        )
        table(taken, "`once`, ledger empty at the start")
        ratio = median(taken[f"`once`, ledger of {ENTRIES:,} entries"]) / median(
            taken["`once`, ledger empty at the start"]
        )
        print(f"\nFrom an empty ledger to {ENTRIES:,} entries: {ratio:.2f} times (target: at most 1.1).")


if __name__ == "__main__":
    main()
