"""Taking times side by side: every round runs each contender once, in turn, so that a busy moment falls on all."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

QUICK = "--quick" in sys.argv

Work = Callable[[], object]


def rounds(full: int) -> int:
    """How many rounds to run: few with --quick, which only shows that the benchmark runs."""
    return max(3, full // 50) if QUICK else full


def interleaved(contenders: Mapping[str, Work], count: int) -> dict[str, list[float]]:
    """Microseconds of each call, by contender; the first tenth of the rounds is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(count + count // 10):
        for name, work in contenders.items():
            started = time.perf_counter_ns()
            work()
            taken[name].append((time.perf_counter_ns() - started) / 1000)
    return {name: times[count // 10 :] for name, times in taken.items()}


def repeated(work: Work, count: int) -> list[float]:
    """Microseconds of each call when nothing else runs between: for what does not touch the disk."""
    return interleaved({"": work}, count)[""]


def median(times: list[float]) -> float:
    return statistics.median(times)


def p99(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.99))]


def table(taken: Mapping[str, list[float]], floor: str, target: str = "") -> None:
    """Print a Markdown table: medians, p99, and the ratio of each median to the floor's."""
    print("| what | median µs | p99 µs | ratio to the floor |")
    print("|---|---|---|---|")
    for name, times in taken.items():
        print(f"| {name} | {median(times):.0f} | {p99(times):.0f} | {median(times) / median(taken[floor]):.2f} |")
    if target:
        print(f"\n{target}")


def machine() -> str:
    """What the figures were taken on."""
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}"
    )


@contextmanager
def folder(base: str | None = None) -> Iterator[Path]:
    """A new folder on the disk under test: the working folder's by default."""
    with tempfile.TemporaryDirectory(prefix="send-once-bench-", dir=base or os.getcwd()) as name:
        yield Path(name)


RAM_DISK = "/dev/shm"  # a RAM disk is meant
