"""Every point of every scenario of one store: play, break there, let a fresh process look, judge."""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from crash import syncorder
from crash.fulldisk import Disk
from crash.injection import REFUSABLE, SYNC_ORDER_CALLS, SYNCS, WRITES, Launcher, Point, count_calls
from crash.oracle import violations
from crash.scenarios import Place

WORKERS: Final = 2
SHORT_FORM_STEP: Final = 9
"""In the short form, every ninth point (a prime to most loops), and at least one of every call's name."""


@dataclass(frozen=True, slots=True)
class Broken:
    """One point at which the promise did not hold."""

    scenario: str
    point: str
    violations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.scenario}, {self.point}:\n    " + "\n    ".join(self.violations)


@dataclass(slots=True)
class Report:
    """What a sweep went through. `missed` are points the operation did not reach this time."""

    hit: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    broken: list[Broken] = field(default_factory=list)

    @property
    def points(self) -> int:
        return self.hit.total()

    def note(self, kind: str, broken: Broken) -> None:
        self.hit[kind] += 1
        if broken.violations:
            self.broken.append(broken)


class Sweep:
    """Plays scenarios on one store, each time at a new place. Use as a context manager."""

    def __init__(self, store: str, scratch: Path, address: str = "") -> None:
        self._store, self._scratch, self._address = store, scratch, address
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._idle = [Launcher(store, scratch) for _ in range(WORKERS)]
        self._pool = ThreadPoolExecutor(WORKERS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for launcher in self._idle:
            launcher.__exit__()

    def counted(self, scenario: str) -> Counter[str]:
        """How often the operation makes each system call, undisturbed."""
        with self._launcher() as launcher:
            place, _ = self._prepared(launcher, scenario)
            return count_calls(launcher, place, scenario)

    def run(self, scenario: str, points: Iterable[Point]) -> Report:
        """Break the scenario at each point."""
        report = Report()
        list(self._pool.map(lambda point: self._at(scenario, point, report), list(points)))
        return report

    def at_size_limits(self, scenario: str, limits: Iterable[int]) -> Report:
        """Let no file grow beyond each limit: the kernel writes what fits, then refuses (EFBIG)."""
        report = Report()
        list(self._pool.map(lambda limit: self._at_limit(scenario, limit, report), list(limits)))
        return report

    def on_full_disk(self, scenario: str, disk: Disk) -> list[str]:
        """Play on a disk that fills up after the ledger was prepared; look when there is room again."""
        place = Place(str(disk.path), self._store)
        with self._launcher() as launcher:
            before = launcher.prepare(place, scenario)
            disk.fill()
            ending = launcher.act(place, scenario)
            disk.make_room()
            return violations(before, launcher.look(place, scenario), ending.told)

    def _at(self, scenario: str, point: Point, report: Report) -> None:
        with self._launcher() as launcher:
            place, before = self._prepared(launcher, scenario)
            traced = point.call if point.fault == "kill" else f"{point.call},{SYNC_ORDER_CALLS}"
            ending = launcher.act(place, scenario, ["-e", f"trace={traced}", *point.options()])
            if not ending.was_hit:
                report.missed += 1
                return
            found = launcher.look(place, scenario)
        wrong = violations(before, found, ending.told, may_refuse="short=" in point.fault)
        if not ending.killed:
            wrong += syncorder.violations(ending.trace, place)
        with self._lock:
            report.note(point.kind, Broken(scenario, str(point), tuple(wrong)))
        _clear(place, keep=bool(wrong))

    def _at_limit(self, scenario: str, limit: int, report: Report) -> None:
        with self._launcher() as launcher:
            place, before = self._prepared(launcher, scenario)
            ending = launcher.act(place, scenario, file_bytes_max=limit)
            wrong = violations(before, launcher.look(place, scenario), ending.told)
        with self._lock:
            report.note("short write", Broken(scenario, f"no file beyond {limit} bytes", tuple(wrong)))
        _clear(place, keep=bool(wrong))

    @contextmanager
    def _launcher(self) -> Iterator[Launcher]:
        with self._lock:
            launcher = self._idle.pop() if self._idle else Launcher(self._store, self._scratch)
        try:
            yield launcher
        finally:
            with self._lock:
                self._idle.append(launcher)

    def _prepared(self, launcher: Launcher, scenario: str) -> tuple[Place, dict[str, Any]]:
        with self._lock:
            number = next(self._numbers)
        place = Place(str(self._scratch / f"{number:05}"), self._store, self._address, f"crash_{os.getpid()}_{number}")
        return place, launcher.prepare(place, scenario)


def _clear(place: Place, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(place.directory, ignore_errors=True)


def kill_points(counted: Counter[str]) -> list[Point]:
    """Before every single system call of the operation."""
    return [Point(call, n, "kill") for call in sorted(counted) for n in range(1, counted[call] + 1)]


def fault_points(counted: Counter[str], errors: Sequence[str] = ("ENOSPC", "EIO")) -> list[Point]:
    """Every call that a disk can refuse, refused: once, and from then on for good."""
    return [point for call in sorted(REFUSABLE & set(counted)) for point in _faults(call, counted[call], errors)]


def _faults(call: str, calls: int, errors: Sequence[str]) -> Iterator[Point]:
    for n in range(1, calls + 1):
        for error in errors:
            yield Point(call, n, error)
            yield Point(call, n, f"{error}+")
        if call in WRITES | SYNCS:
            yield Point(call, n, "EIO&undo")
        if call in WRITES:
            yield Point(call, n, "short=1")
            yield Point(call, n, "short=40")


def some_of(points: Sequence[Point], step: int = SHORT_FORM_STEP) -> list[Point]:
    """The short form: every `step`-th point, and the first of every call and fault."""
    firsts = {(point.call, point.fault): point for point in reversed(points)}
    chosen = {*points[::step], *firsts.values()} if step > 1 else set(points)
    return [point for point in points if point in chosen]
