"""Whoever races, with whatever lock left behind and under whatever name of the ledger: one send a key."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from races.opening import SQLiteQuery
from races.running import Race, race

STORES = ("file", "sqlite", "sql", "postgres")
FORKABLE = ("file", "sqlite", "postgres")
"""Not the SQL store: its connections are the caller's, and so is what a fork does to them."""
WORDS = {"sent", "duplicate", "unknown"}

Ledgers = Callable[[str], list[str]]


@pytest.fixture
def ledger_at(tmp_path: Path, request: pytest.FixtureRequest) -> Ledgers:
    """`ledger_at(store)`: the address of a new, empty ledger."""

    def make(store: str) -> list[str]:
        if store == "postgres":
            return [_postgres_table(request.getfixturevalue("postgres_url"))]
        address = str(tmp_path / ("ledger.jsonl" if store == "file" else "ledger.db"))
        if store == "sql":
            _sql_table(address)
        return [address]

    return make


@pytest.mark.parametrize("store", STORES)
def test_two_hundred_threads_in_eight_processes_send_one_key_once(
    store: str, ledger_at: Ledgers, tmp_path: Path
) -> None:
    _holds(race(store, ledger_at(store), tmp_path / "sent", processes=8, threads=25, keys=1), keys=1, calls=200)


@pytest.mark.parametrize("store", STORES)
def test_processes_racing_for_many_keys_send_each_once(store: str, ledger_at: Ledgers, tmp_path: Path) -> None:
    """The short form of the next."""
    _holds(race(store, ledger_at(store), tmp_path / "sent", processes=4, threads=3, keys=60), keys=60, calls=720)


@pytest.mark.full
@pytest.mark.parametrize("store", STORES)
def test_two_hundred_threads_racing_for_a_thousand_keys_send_each_once(
    store: str, ledger_at: Ledgers, tmp_path: Path
) -> None:
    raced = race(store, ledger_at(store), tmp_path / "sent", processes=8, threads=25, keys=1000)
    _holds(raced, keys=1000, calls=200_000)


@pytest.mark.parametrize("store", FORKABLE)
def test_a_store_made_before_a_fork_serves_parent_and_children(store: str, ledger_at: Ledgers, tmp_path: Path) -> None:
    """Forked while another thread is in the middle of using it."""
    raced = race(store, ledger_at(store), tmp_path / "sent", processes=1, threads=4, keys=40, forks=4)
    _holds(raced, keys=40, calls=5 * 4 * 40)


def _dead_pid_lock(path: Path) -> None:
    """As a process of the reference leaves it that was killed a minute ago."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    at_ms = int(time.time() * 1000) - 60_000
    path.write_text(json.dumps({"pid": gone.pid, "host": socket.gethostname(), "token": "0" * 16, "at": at_ms}))


def _empty_lock(path: Path) -> None:
    """As a process leaves it that was killed between creating and writing it."""
    path.touch()
    minute_ago = time.time() - 60
    os.utime(path, (minute_ago, minute_ago))


@pytest.mark.parametrize("leave_lock", [_dead_pid_lock, _empty_lock])
def test_a_stale_lock_lets_nobody_send_twice(leave_lock: Callable[[Path], None], tmp_path: Path) -> None:
    _stale_lock_trials(leave_lock, tmp_path, trials=3)


@pytest.mark.full
@pytest.mark.parametrize("leave_lock", [_dead_pid_lock, _empty_lock])
def test_a_stale_lock_lets_nobody_send_twice_in_many_trials(leave_lock: Callable[[Path], None], tmp_path: Path) -> None:
    _stale_lock_trials(leave_lock, tmp_path, trials=60)


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("stale", [False, True])
def test_two_names_of_one_ledger_are_one_ledger(
    link: Callable[[Path, Path], None], stale: bool, tmp_path: Path
) -> None:
    real, other = tmp_path / "ledger.jsonl", tmp_path / "elsewhere" / "other.jsonl"
    other.parent.mkdir()
    real.touch()
    link(real, other)
    if stale:
        _dead_pid_lock(tmp_path / "ledger.jsonl.lock")
        _dead_pid_lock(tmp_path / "elsewhere" / "other.jsonl.lock")
    raced = race("file", [str(real), str(other)], tmp_path / "sent", processes=6, threads=4, keys=20)
    _holds(raced, keys=20, calls=6 * 4 * 20)


def _stale_lock_trials(leave_lock: Callable[[Path], None], directory: Path, *, trials: int) -> None:
    for trial in range(trials):
        ledger = directory / f"{trial}.jsonl"
        leave_lock(directory / f"{trial}.jsonl.lock")
        raced = race("file", [str(ledger)], directory / f"sent{trial}", processes=8, threads=2, keys=3)
        _holds(raced, keys=3, calls=48)


def _holds(raced: Race, *, keys: int, calls: int) -> None:
    assert raced.sent_each_of(keys), {key: n for key, n in raced.sends.items() if n != 1} or raced.sends
    assert set(raced.told) <= WORDS, raced.told
    assert raced.told["sent"] == keys
    assert raced.told.total() == calls


def _sql_table(path: str) -> None:
    query = SQLiteQuery(path)
    query("PRAGMA journal_mode = WAL")
    query(
        "CREATE TABLE send_once (key TEXT PRIMARY KEY, status TEXT NOT NULL, entry TEXT NOT NULL, "
        "claimed_at TEXT NOT NULL, updated_at TEXT NOT NULL)"
    )


def _postgres_table(address: str) -> str:
    from send_once import PostgresStore

    store = PostgresStore(address)
    store.create_table()
    store.close()
    return address
