"""Four processes writing at once: throughput, and what the unlucky wait (p99), beside raw SQLite commits."""

from __future__ import annotations

import multiprocessing
import sqlite3
import sys
import time
from typing import Any

from timing import folder, median, p99, rounds

from send_once import FileStore, Ledger, SQLiteStore

PROCESSES = 4


def raw(path: str) -> Any:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (key TEXT PRIMARY KEY, entry TEXT)")

    def two_commits(key: str) -> None:
        connection.execute("INSERT INTO t VALUES (?, ?)", (key, "x" * 380))
        connection.execute("UPDATE t SET entry = ? WHERE key = ?", ("y" * 380, key))

    return two_commits


def guarded(kind: str, path: str) -> Any:
    ledger = Ledger(SQLiteStore(path) if kind == "sqlite" else FileStore(path))
    return lambda key: ledger.once(key, lambda: "id")


def worker(kind: str, path: str, name: str, count: int, barrier: Any, answers: Any) -> None:
    work = raw(path) if kind == "raw" else guarded(kind, path)
    work(f"{name}-warm")
    barrier.wait()
    taken = []
    for number in range(count):
        started = time.perf_counter_ns()
        work(f"{name}-{number}")
        taken.append((time.perf_counter_ns() - started) / 1000)
    answers.put(taken)


def main() -> None:
    context, count = multiprocessing.get_context("spawn"), rounds(800)
    print(f"| {PROCESSES} processes, {count} keys each | a second, all together | median ms | p99 ms | worst ms |")
    print("|---|---|---|---|---|")
    for kind, title in (("raw", "two raw SQLite commits"), ("sqlite", "`once`, SQLite"), ("file", "`once`, file")):
        with folder() as place:
            barrier, answers = context.Barrier(PROCESSES + 1), context.Queue()
            path = str(place / "ledger")
            workers = [
                context.Process(target=worker, args=(kind, path, f"p{n}", count, barrier, answers))
                for n in range(PROCESSES)
            ]
            for process in workers:
                process.start()
            barrier.wait()
            started = time.perf_counter()
            taken = [one for _ in workers for one in answers.get(timeout=600)]
            seconds = time.perf_counter() - started
            for process in workers:
                process.join()
                if process.exitcode:
                    sys.exit(f"{title}: a process ended with {process.exitcode}")
            print(
                f"| {title} | {len(taken) / seconds:.0f} | {median(taken) / 1000:.1f} | {p99(taken) / 1000:.1f} "
                f"| {max(taken) / 1000:.1f} |"
            )
    print("\nTarget: p99 of SQLite at most 10 ms.")


if __name__ == "__main__":
    main()
