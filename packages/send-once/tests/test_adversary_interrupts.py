"""Exceptions raised by signal handlers between any two steps, and handlers that call in themselves.

A job queue's time limit and Ctrl-C are such exceptions. They must neither send twice, nor leave a lock
behind that stops this process, or every other one, for as long as this one lives.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

from send_once import FileStore, Ledger, MemoryStore, SQLiteStore, SQLStore, StoreError
from send_once.stores.postgres import PostgresStore
from send_once.stores.turns import TurnQueue

STORES: dict[str, Callable[[str], Any]] = {
    "memory": lambda _address: MemoryStore(),
    "file": lambda path: FileStore(path, lock_timeout_seconds=5),
    "sqlite": lambda path: SQLiteStore(path, timeout_seconds=5),
    "postgres": lambda url: PostgresStore(url, pool_size=1, timeout_seconds=5),
    "postgres connection": lambda url: PostgresStore(given(psycopg.connect(url, autocommit=True))),
    "sqlite3 connection": lambda path: SQLStore.for_connection(sqlite_connection(path)),
    "psycopg connection": lambda url: SQLStore.for_connection(psycopg_connection(url)),
}
ALONE = ("memory", "postgres connection", "sqlite3 connection", "psycopg connection")

OTHER_PROCESS = """
import sys
from send_once import FileStore, Ledger, SQLiteStore
from send_once.stores.postgres import PostgresStore
store = {"file": FileStore, "sqlite": SQLiteStore, "postgres": PostgresStore}[sys.argv[1]](sys.argv[2])
print(Ledger(store).once("from another process", lambda: "id").outcome)
"""
HANG_SECONDS = 20

# A connection that an interrupt took from the call that held it is closed by its driver, which says so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GIVEN: list[Any] = []


def given(connection: Any) -> Any:
    """Remembered, to be closed when the test is over."""
    GIVEN.append(connection)
    return connection


def sqlite_connection(path: str) -> Any:
    SQLiteStore(path).get("")  # makes the table
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return given(connection)


def psycopg_connection(url: str) -> Any:
    PostgresStore(url).create_table()
    return given(psycopg.connect(url))


class TimeLimit(BaseException):
    """As a worker's time limit is raised, wherever the job is."""


class Interrupting:
    """Raises in the n-th line that the code of the stores runs, as a signal handler might."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if "send_once" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise TimeLimit
        return self


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of the library `work` runs."""
    counting = Interrupting(-1)
    sys.settrace(counting)
    try:
        work()
    finally:
        sys.settrace(None)
    return -1 - counting.left


def interrupted(work: Callable[[], object], line: int) -> None:
    sys.settrace(Interrupting(line))
    try:
        work()
    except TimeLimit:
        pass
    finally:
        sys.settrace(None)


class CallingIn:
    """Calls `handler` in the n-th line that the library runs, as a signal handler might."""

    def __init__(self, line: int, handler: Callable[[], None]) -> None:
        self.left, self.handler = line, handler

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if "send_once" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.handler()
        return self


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the ledger of this kind lies: a file, or a database of its own."""
    url = request.getfixturevalue("postgres_url") if kind.startswith(("postgres", "psycopg")) else tmp_path / "ledger"
    yield str(url)
    while GIVEN:
        GIVEN.pop().close()
    gc.collect()


@pytest.fixture
def no_hang() -> Iterator[None]:
    """A call that waits for itself waits in the kernel, where only a signal gets it out."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError("the call hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def sweep(kind: str, address: str, every: int, first: int) -> None:
    ledger, runs = Ledger(STORES[kind](address)), Counter[str]()

    def once(key: str) -> str:
        return ledger.once(key, lambda: runs.update([key])).outcome

    once("opened")
    for line in range(first, lines_of(lambda: once("counted")) + 1, every):
        key = f"key {line}"
        interrupted(lambda key=key: once(key), line)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        assert once(key) in ("sent", "unknown", "duplicate"), line
        assert runs[key] <= 1
        before = runs[f"next {line}"]
        assert once(f"next {line}") == "sent", line
        assert runs[f"next {line}"] == before + 1
    if kind not in ALONE:
        interrupted(lambda: once("last"), first)
        assert from_another_process(kind, address) == "sent"


def from_another_process(kind: str, address: str) -> str:
    command = [sys.executable, "-c", OTHER_PROCESS, kind, address]
    other = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return other.stdout.strip()


def test_a_send_that_is_broken_off_at_a_line_leaves_no_lock_and_is_not_repeated(kind: str, address: str) -> None:
    sweep(kind, address, every=5, first=3)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1, 6))
def test_a_send_that_is_broken_off_at_any_line_leaves_no_lock_and_is_not_repeated(
    kind: str, address: str, first: int
) -> None:
    sweep(kind, address, every=5, first=first)


def call_in_at_lines(kind: str, address: str, every: int, first: int) -> None:
    ledger, runs = Ledger(STORES[kind](address)), Counter[str]()

    def once(key: str) -> str:
        return ledger.once(key, lambda: runs.update([key])).outcome

    def from_a_handler(line: int) -> None:
        with contextlib.suppress(StoreError):
            once(f"handler {line}")
        with contextlib.suppress(StoreError):
            ledger.get(f"key {line}")

    once("opened")
    for line in range(first, lines_of(lambda: once("counted")) + 1, every):
        sys.settrace(CallingIn(line, functools.partial(from_a_handler, line)))
        try:
            outcome = once(f"key {line}")
        finally:
            sys.settrace(None)
        assert outcome == "sent", line
        assert once(f"key {line}") == "duplicate"
        assert once(f"handler {line}") in ("sent", "duplicate")
        assert (runs[f"key {line}"], runs[f"handler {line}"]) == (1, 1), line


@pytest.mark.usefixtures("no_hang")
def test_a_handler_that_calls_in_at_a_line_hangs_nothing_and_repeats_nothing(kind: str, address: str) -> None:
    call_in_at_lines(kind, address, every=7, first=2)


@pytest.mark.full
@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("first", range(1, 8))
def test_a_handler_that_calls_in_at_any_line_hangs_nothing_and_repeats_nothing(
    kind: str, address: str, first: int
) -> None:
    call_in_at_lines(kind, address, every=7, first=first)


@pytest.fixture
def on_signal() -> Iterator[Callable[[Callable[[], None]], None]]:
    before = signal.getsignal(signal.SIGUSR1)

    def set_handler(work: Callable[[], None]) -> None:
        signal.signal(signal.SIGUSR1, lambda _number, _frame: work())

    yield set_handler
    signal.signal(signal.SIGUSR1, before)


def test_a_handler_on_top_of_a_write_is_told_so_and_does_not_take_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_signal: Callable[[Callable[[], None]], None]
) -> None:
    ledger = Ledger(FileStore(tmp_path / "ledger"))
    refused: list[StoreError] = []
    calls: list[str] = []

    def send_from_the_handler() -> None:
        try:
            ledger.once("handler", lambda: calls.append("handler"))
        except StoreError as error:
            refused.append(error)

    on_signal(send_from_the_handler)
    sync = os.fdatasync

    def sync_interrupted(fd: int) -> None:
        sync(fd)
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(os, "fdatasync", sync_interrupted)
    assert ledger.once("main", lambda: calls.append("main")).outcome == "sent"
    monkeypatch.undo()
    assert calls == ["main"]
    assert refused
    assert all("signal handler" in str(error) for error in refused)
    assert ledger.once("handler", lambda: calls.append("handler")).outcome == "sent"


def test_a_turn_that_was_lost_while_others_wait_goes_to_the_first_of_them() -> None:
    turns, served = TurnQueue(), list[str]()
    lost = threading.Event()

    def lose_it() -> None:
        assert turns.acquire(0)
        waiter.start()
        while not turns._waiting:
            pass  # until the other one waits for it

    def wait_for_it() -> None:
        assert turns.acquire(60)
        served.append("waiter")
        turns.release()
        lost.set()

    waiter = threading.Thread(target=wait_for_it)
    lose_it()
    assert lost.wait(60)
    waiter.join()
    assert served == ["waiter"]
    assert turns.acquire(0)


def test_a_call_that_has_no_turn_gives_none_back() -> None:
    turns, holder = TurnQueue(), object()
    assert turns.acquire(0, holder)
    turns.release()
    assert not turns.acquire(0)
    turns.release(holder)
    assert turns.acquire(0)
