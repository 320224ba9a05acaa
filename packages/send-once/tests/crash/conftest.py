"""Sweeps for the crash tests, and the count of points they went through."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crash.sweep import Report, Sweep

PROPERTY = "crash_points"
STRACE_MISSING = (
    "strace is not installed, so no process can be killed at each of its system calls: apt-get install -y strace"
)


@pytest.fixture(scope="session")
def needs_strace() -> None:
    """Skips loudly without it; where CI is "true", fails."""
    if shutil.which("strace") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(STRACE_MISSING)


@pytest.fixture(scope="session")
def sweep_of(needs_strace: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Sweep]]:
    """`sweep_of(store)`: the sweep of that store, made once."""
    with ExitStack() as stack:
        made: dict[tuple[str, str], Sweep] = {}

        def get(store: str, address: str = "") -> Sweep:
            if (store, address) not in made:
                made[store, address] = stack.enter_context(Sweep(store, tmp_path_factory.mktemp("crash"), address))
            return made[store, address]

        yield get


@pytest.fixture
def holds(record_property: Callable[[str, object], None]) -> Callable[[str, Report], None]:
    """`holds(store, report)`: the promise held at every point; counts them for the summary."""

    def check(store: str, report: Report) -> None:
        record_property(PROPERTY, [store, dict(report.hit), report.missed])
        assert report.points, "no point was reached: nothing has been tested"
        assert report.missed <= report.points // 10, (
            f"{report.missed} points were not reached, only {report.points} were"
        )
        assert not report.broken, f"{len(report.broken)} of {report.points} points:\n" + "\n".join(
            map(str, report.broken)
        )

    return check


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the points per store, and keep them in build/crash_points.md."""
    totals = _totals(terminalreporter)
    if not totals:
        return
    lines = [f"{store}: {counter.total()} ({_listed(counter)})" for store, counter in sorted(totals.items())]
    terminalreporter.section("crash points, each judged by a fresh process")
    terminalreporter.write_line("\n".join(lines))
    directory = Path(str(terminalreporter.config.rootpath)) / "build"
    directory.mkdir(exist_ok=True)
    rows = [f"| {store} | {counter.total()} | {_listed(counter)} |" for store, counter in sorted(totals.items())]
    (directory / "crash_points.md").write_text("\n".join(["| store | points | kinds |", "|---|---|---|", *rows]) + "\n")


def _totals(terminalreporter: Any) -> dict[str, Counter[str]]:
    totals: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY and getattr(report, "when", "") == "call":
                    store, hit, _ = value
                    totals.setdefault(store, Counter()).update(hit)
    return totals


def _listed(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counter.most_common())
