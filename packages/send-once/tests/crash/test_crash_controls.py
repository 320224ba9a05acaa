"""The sweep itself is put to the test: stores that break the promise must be caught by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crash.controls import CONTROLS
from crash.sweep import Report, Sweep, fault_points, kill_points

CAUGHT_BY = {
    "claims in memory": ("once with a new key", "does not know it"),
    "writes over anything": ("once for what was sent", "2 messages went out"),
    "never syncs": ("once with a new key", "was not synced"),
    "ignores failed syncs": ("once with a new key", "was not synced"),
    "forgets on failure": ("once with a new key", "does not know it"),
}
"""Each control: the scenario in which it lies, and what the judgement says."""


@pytest.mark.parametrize("control", CONTROLS)
def test_a_store_that_breaks_the_promise_is_caught(control: str, sweep_of: Callable[..., Sweep]) -> None:
    scenario, words = CAUGHT_BY[control]
    report = _swept(sweep_of(f"control:{control}"), scenario)
    said = "\n".join(map(str, report.broken))
    assert words in said, f"{control} was not caught at {report.points} points:\n{said}"


def _swept(sweep: Sweep, scenario: str) -> Report:
    counted = sweep.counted(scenario)
    kills = [point for point in kill_points(counted) if point.call in {"mkdir", "write", "fdatasync", "close"}]
    faults = [point for point in fault_points(counted) if point.call in {"write", "fdatasync", "fsync"}]
    return sweep.run(scenario, kills + faults)
