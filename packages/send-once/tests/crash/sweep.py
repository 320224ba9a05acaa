"""Every point of every scenario of one store: play, break there, let a fresh process look, judge."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import psycopg

from crash import syncorder
from crash.cutting import Cut, CuttingRelay, Direction
from crash.fulldisk import Disk
from crash.injection import REFUSABLE, SYNC_ORDER_CALLS, SYNCS, WRITES, Launcher, Point, count_calls
from crash.oracle import violations
from crash.scenarios import Place

WORKERS: Final = 2
SESSIONS_END_SECONDS_MAX: Final = 30.0


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
        self.store, self._scratch, self._address = store, scratch, address
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
        place = Place(str(disk.path), self.store)
        with self._launcher() as launcher:
            before = launcher.prepare(place, scenario)
            disk.fill()
            ending = launcher.act(place, scenario)
            disk.make_room()
            return violations(before, launcher.look(place, scenario), ending.told)

    def at_cuts(self, scenario: str, cuts: Iterable[Cut], server_port: int, event: Callable[[], None]) -> Report:
        """Break the connection to the database at each cut, one after the other, and run `event` there."""
        report = Report()
        for cut in cuts:
            with self._launcher() as launcher:
                place, before = self._prepared(launcher, scenario)
                with CuttingRelay(server_port, cut, event) as relay:
                    ending = launcher.act(_through(relay, place, server_port), scenario)
                if not relay.was_cut:
                    report.missed += 1
                    continue
                _wait_for_sessions_to_end(place)
                wrong = violations(before, launcher.look(place, scenario), ending.told)
            report.note("cut", Broken(scenario, str(cut), tuple(wrong)))
        return report

    def counted_messages(self, scenario: str, server_port: int) -> dict[Direction, int]:
        """How many messages the operation exchanges with its server, undisturbed."""
        with self._launcher() as launcher:
            place, _ = self._prepared(launcher, scenario)
            with CuttingRelay(server_port) as relay:
                launcher.act(_through(relay, place, server_port), scenario)
            return relay.counts

    def _at(self, scenario: str, point: Point, report: Report) -> None:
        with self._launcher() as launcher:
            place, before = self._prepared(launcher, scenario)
            traced = point.call if point.fault == "kill" else f"{point.call},{SYNC_ORDER_CALLS}"
            ending = launcher.act(place, scenario, ["-e", f"trace={traced}", *point.options()])
            if not ending.was_hit:
                report.missed += 1
                return
            _wait_for_sessions_to_end(place)
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
            launcher = self._idle.pop() if self._idle else Launcher(self.store, self._scratch)
        try:
            yield launcher
        finally:
            with self._lock:
                self._idle.append(launcher)

    def _prepared(self, launcher: Launcher, scenario: str) -> tuple[Place, dict[str, Any]]:
        with self._lock:
            number = next(self._numbers)
        table = f"crash_{os.getpid()}_{number}"
        address = f"{self._address}?application_name={table}" if self._address else ""
        place = Place(str(self._scratch / f"{number:05}"), self.store, address, table)
        return place, launcher.prepare(place, scenario)


def _through(relay: CuttingRelay, place: Place, server_port: int) -> Place:
    patience_seconds = 30.0  # a server that is killed there comes back
    return place._replace(
        patience_seconds=patience_seconds, address=place.address.replace(f":{server_port}/", f":{relay.port}/")
    )


def _wait_for_sessions_to_end(place: Place) -> None:
    """A statement a dead client had sent still runs in the server, and is judged when it has run, not half-way."""
    if not place.address:
        return
    until = time.monotonic() + SESSIONS_END_SECONDS_MAX
    with psycopg.connect(place.address.partition("?")[0], autocommit=True) as admin:
        while admin.execute("SELECT FROM pg_stat_activity WHERE application_name = %s", [place.table]).fetchone():
            assert time.monotonic() < until, f"a session of {place.table} outlives its client"
            time.sleep(0.01)


def _clear(place: Place, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(place.directory, ignore_errors=True)


def kill_points(counted: Counter[str]) -> list[Point]:
    """Before every single system call of the operation."""
    return [Point(call, n, "kill") for call in sorted(counted) for n in range(1, counted[call] + 1)]


def fault_points(counted: Counter[str], *, lies: bool = False) -> list[Point]:
    """Every call that a disk can refuse, refused: once, and from then on for good.

    With `lies`, also every write answered with a count of bytes of which none was written. The file
    store reads back what it wrote and so survives that; SQLite relies on the kernel's word, and is
    given real short counts instead (`at_size_limits`).
    """
    return [point for call in sorted(REFUSABLE & set(counted)) for point in _faults(call, counted[call], lies=lies)]


def _faults(call: str, calls: int, *, lies: bool) -> Iterator[Point]:
    for n in range(1, calls + 1):
        for error in ("ENOSPC", "EIO"):
            yield Point(call, n, error)
            yield Point(call, n, f"{error}+")
        if call in WRITES | SYNCS:
            yield Point(call, n, "EIO&undo")
        if call in WRITES and lies:
            yield Point(call, n, "short=1")
            yield Point(call, n, "short=40")


def network_points(counted: Counter[str]) -> list[Point]:
    """Every call by which a client learns that its connection is gone: once, and from then on for good.

    Not sendto: a failed one that is followed by a living connection happens on no network.
    """
    return [
        Point(call, n, fault)
        for call in ("connect", "recvfrom")
        for n in range(1, counted[call] + 1)
        for fault in ("ECONNRESET", "ECONNRESET+")
    ]


def some_of(points: Sequence[Point], step: int) -> list[Point]:
    """The short form: every `step`-th point, and the first of every call."""
    firsts = {point.call: point for point in reversed(points)}
    chosen = {*points[::step], *firsts.values()} if step > 1 else set(points)
    return [point for point in points if point in chosen]
