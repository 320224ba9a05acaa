"""Exceptions raised by signal handlers between any two steps, and handlers that call in themselves.

A job queue's time limit and Ctrl-C are such exceptions. They must neither send twice, nor leave a lock
behind that stops this process, or every other one, for as long as this one lives.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from send_once import FileStore, Ledger, SQLiteStore, StoreError
from send_once.stores.turns import TurnQueue

STORES: dict[str, Callable[[Path], Any]] = {
    "file": lambda path: FileStore(path, lock_timeout_seconds=5),
    "sqlite": lambda path: SQLiteStore(path, timeout_seconds=5),
}

OTHER_PROCESS = """
import sys
from send_once import FileStore, Ledger, SQLiteStore
store = FileStore(sys.argv[2]) if sys.argv[1] == "file" else SQLiteStore(sys.argv[2])
print(Ledger(store).once("from another process", lambda: "id").outcome)
"""


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


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sweep(kind: str, path: Path, every: int, first: int) -> None:
    ledger, runs = Ledger(STORES[kind](path)), Counter[str]()

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
    interrupted(lambda: once("last"), first)
    other = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, kind, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert other.stdout.strip() == "sent"


def test_a_send_that_is_broken_off_at_a_line_leaves_no_lock_and_is_not_repeated(kind: str, tmp_path: Path) -> None:
    sweep(kind, tmp_path / "ledger", every=5, first=3)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1, 6))
def test_a_send_that_is_broken_off_at_any_line_leaves_no_lock_and_is_not_repeated(
    kind: str, tmp_path: Path, first: int
) -> None:
    sweep(kind, tmp_path / "ledger", every=5, first=first)


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
