"""The client killed at every system call, the connection cut at every message, the server killed at each."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from crash.cutting import Cut
from crash.scenarios import scenarios_for
from crash.sweep import Report, Sweep, kill_points, network_points, some_of
from servers.postgres import Postgres

SCENARIOS = scenarios_for("postgres")
Holds = Callable[[str, Report], None]


@pytest.fixture
def sweep(needs_strace: None, tmp_path: Path, postgres_url: str) -> Iterator[Sweep]:
    with Sweep("postgres", tmp_path, postgres_url) as made:
        yield made


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_that_dies_at_any_system_call_breaks_no_promise(scenario: str, sweep: Sweep, holds: Holds) -> None:
    """Every 41st point and the first of every call; all of them in the full form."""
    holds("postgres", _swept(sweep, scenario, step=41))


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_deaths_of_a_client_break_no_promise(scenario: str, sweep: Sweep, holds: Holds) -> None:
    holds("postgres", _swept(sweep, scenario, step=1))


def test_a_connection_lost_at_any_message_breaks_no_promise(sweep: Sweep, postgres: Postgres, holds: Holds) -> None:
    holds("postgres", _cut(sweep, "once with a new key", postgres, step=1))


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_connections_lost_in_all_operations_break_no_promise(
    scenario: str, sweep: Sweep, postgres: Postgres, holds: Holds
) -> None:
    holds("postgres", _cut(sweep, scenario, postgres, step=1))


@pytest.mark.parametrize("how", ["server", "backend"])
def test_a_server_killed_in_the_middle_breaks_no_promise(
    how: str, sweep: Sweep, postgres: Postgres, holds: Holds
) -> None:
    """Every ninth message; each of them, and each operation, in the full form."""
    holds("postgres", _cut(sweep, "once with a new key", postgres, step=9, event=_killer(how, postgres)))


@pytest.mark.full
@pytest.mark.parametrize("how", ["server", "backend"])
@pytest.mark.parametrize("scenario", ["once with a new key", "once after a failure", "a batch"])
def test_a_server_killed_at_any_message_breaks_no_promise(
    how: str, scenario: str, sweep: Sweep, postgres: Postgres, holds: Holds
) -> None:
    holds("postgres", _cut(sweep, scenario, postgres, step=1, event=_killer(how, postgres)))


def _swept(sweep: Sweep, scenario: str, *, step: int) -> Report:
    counted = sweep.counted(scenario)
    return sweep.run(scenario, some_of(kill_points(counted) + network_points(counted), step))


def _cut(
    sweep: Sweep, scenario: str, server: Postgres, *, step: int, event: Callable[[], None] = lambda: None
) -> Report:
    counts = sweep.counted_messages(scenario, server.port)
    cuts = [
        Cut(direction, n, passes_on)
        for direction, count in counts.items()
        for n in range(1, count + 1)
        for passes_on in (True, False)
    ]
    return sweep.at_cuts(scenario, cuts[::step], server.port, event)


def _killer(how: str, server: Postgres) -> Callable[[], None]:
    """Kill the whole server, or only the backends of clients, and wait until it has recovered."""
    if how == "server":
        return lambda: server.restart(signal.SIGQUIT)

    def kill_backends() -> None:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            pids = admin.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname <> 'postgres'"
            ).fetchall()
            for (pid,) in pids:
                os.kill(pid, signal.SIGKILL)
            if pids:
                # The server ends all other sessions when it notices, this one too, and recovers.
                with contextlib.suppress(psycopg.OperationalError):
                    admin.execute("SELECT pg_sleep(60)")
        server.start()

    return kill_backends
