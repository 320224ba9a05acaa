"""Killed, or refused by the disk, at every system call: what a fresh process finds keeps the promise."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.fulldisk import small_disk
from crash.scenarios import scenarios_for
from crash.sweep import Report, Sweep, fault_points, kill_points, some_of

EMBEDDED = [(store, scenario) for store in ("file", "sqlite") for scenario in scenarios_for(store)]
SIZE_LIMITS = {"file": (1100, 3000), "sqlite": (0, 70_000)}
"""Bytes between which the first refused byte lies, for a ledger that holds two keys."""

Holds = Callable[[str, Report], None]
SweepOf = Callable[..., Sweep]


@pytest.mark.parametrize(("store", "scenario"), EMBEDDED)
def test_a_crash_or_a_disk_error_at_any_system_call_breaks_no_promise(
    store: str, scenario: str, sweep_of: SweepOf, holds: Holds
) -> None:
    """Every 31st point, and the first of every call; all of them in the full form."""
    holds(store, _swept(sweep_of(store), scenario, step=31))


@pytest.mark.full
@pytest.mark.parametrize(("store", "scenario"), EMBEDDED)
def test_all_crashes_and_disk_errors_break_no_promise(
    store: str, scenario: str, sweep_of: SweepOf, holds: Holds
) -> None:
    holds(store, _swept(sweep_of(store), scenario, step=1))


@pytest.mark.parametrize("store", SIZE_LIMITS)
def test_a_write_cut_short_by_a_size_limit_leaves_no_claim_that_counts(
    store: str, sweep_of: SweepOf, holds: Holds
) -> None:
    """The kernel really writes what fits: a short count, then EFBIG."""
    first, last = SIZE_LIMITS[store]
    holds(store, sweep_of(store).at_size_limits("once after a failure", range(first, last, (last - first) // 20)))


@pytest.mark.full
@pytest.mark.parametrize("store", SIZE_LIMITS)
def test_a_write_cut_short_at_any_byte_leaves_no_claim_that_counts(store: str, sweep_of: SweepOf, holds: Holds) -> None:
    first, last = SIZE_LIMITS[store]
    for scenario in ("once after a failure", "once with a new key", "a batch"):
        holds(store, sweep_of(store).at_size_limits(scenario, range(first, last, 7 if store == "file" else 300)))


@pytest.mark.parametrize("free_pages", [0, 1, 2, 9])
@pytest.mark.parametrize("store", SIZE_LIMITS)
def test_a_disk_that_is_full_leaves_no_claim_that_counts(
    store: str, free_pages: int, sweep_of: SweepOf, tmp_path: Path
) -> None:
    """A real ENOSPC; with some pages left, in the middle of the operation."""
    try:
        with small_disk(tmp_path / "disk", free_pages=free_pages) as disk:
            assert sweep_of(store).on_full_disk("once with a new key", disk) == []
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this user may not mount a small disk ({error.stderr!r}); run as root to fill one")


def _swept(sweep: Sweep, scenario: str, *, step: int) -> Report:
    counted = sweep.counted(scenario)
    points = kill_points(counted) + fault_points(counted, lies=sweep.store == "file")
    return sweep.run(scenario, some_of(points, step))
