"""A file ledger that is asked, or changed, at the moment that suits it least."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from send_once import Entry, FileStore, Ledger, RejectedSendError, Sent, StoreError, Unknown
from send_once.entry import attempt_number

CLAIMED = {"claimedAt": "2026-11-01T00:00:00.000Z", "updatedAt": "2026-11-01T00:00:00.000Z", "meta": None}


def line_of(key: str, status: str, attempts: object = 1) -> str:
    return json.dumps({"key": key, "status": status, "attempts": attempts, **CLAIMED}) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def on_signal() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Sets what SIGUSR1 does."""
    before = signal.getsignal(signal.SIGUSR1)

    def handle_by(work: Callable[[], None]) -> None:
        def handler(_number: int, _frame: FrameType | None) -> None:
            work()

        signal.signal(signal.SIGUSR1, handler)

    yield handle_by
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_that_interrupts_a_reading_does_not_take_sent_keys_for_new_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch, on_signal: Callable[[Callable[[], None]], None]
) -> None:
    path.write_text("".join(line_of(f"key{number}", "sent") for number in range(100)))
    ledger = Ledger(FileStore(path, lock_timeout_seconds=0.05))
    sent_again: list[str] = []
    refused: list[StoreError] = []

    def send_from_the_handler() -> None:
        try:
            ledger.once("key99", lambda: sent_again.append("key99"))
        except StoreError as error:
            refused.append(error)

    on_signal(send_from_the_handler)
    read = os.pread

    def read_interrupted(fd: int, length: int, offset: int) -> bytes:
        found = read(fd, length, offset)
        monkeypatch.setattr(os, "pread", read)
        signal.raise_signal(signal.SIGUSR1)
        return found

    monkeypatch.setattr(os, "pread", read_interrupted)
    assert ledger.get("key98") is not None
    assert sent_again == []
    assert "signal handler" in str(refused[0])
    assert ledger.once("key99", lambda: sent_again.append("key99")).outcome == "duplicate"
    assert len(ledger.entries()) == 100


def test_an_interrupted_reading_is_begun_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("".join(line_of(f"key{number}", "sent") for number in range(100)))
    ledger = Ledger(FileStore(path))
    read = os.pread

    def read_broken_off(_fd: int, _length: int, _offset: int) -> bytes:
        monkeypatch.setattr(os, "pread", read)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pread", read_broken_off)
    with pytest.raises(KeyboardInterrupt):
        ledger.get("key99")
    assert ledger.once("key99", lambda: "id").outcome == "duplicate"


class LookedUp(str):  # noqa: SLOT000  # it carries what to do
    """A key that does something the n-th time a table is searched for it."""

    at: int
    work: Callable[[], None]
    times = 0

    def __hash__(self) -> int:
        self.times += 1
        if self.times == self.at:
            self.work()
        return str.__hash__(self)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_strangers_claim_that_another_thread_has_read_already_still_comes_first(path: Path, at: int) -> None:
    """A peer that broke the lock writes after we have looked for the key, and before we append; a `get`
    elsewhere moves the index past its line. The stranger may send, so we may not."""
    store = FileStore(path)
    ledger = Ledger(store)
    ledger.once("other", lambda: "id")
    written: list[str] = []

    def stranger() -> None:
        written.append(line_of("key", "pending"))
        with path.open("a") as file:
            file.write(written[0])
        reader = threading.Thread(target=store.get, args=("other",))
        reader.start()
        reader.join(timeout=0.2)  # where the index is locked just now, the reader comes later

    key = LookedUp("key")
    key.at = at
    key.work = stranger
    calls: list[str] = []
    outcome: str
    try:
        outcome = ledger.once(key, lambda: calls.append("sent")).outcome
    except StoreError as error:
        outcome = error.code
    first = next(line for line in path.read_text().splitlines(keepends=True) if '"key"' in line and "other" not in line)
    if [first] == written:
        assert (outcome, calls) == ("unknown", [])
    else:
        assert (outcome, calls) in (("sent", ["sent"]), ("unsafe_store", []))


HUGE = "9" * 5_000


@pytest.mark.parametrize("attempts", ["1e400", "-1e400", HUGE, "9007199254740993", "9007199254740992", "-3", "1.5"])
def test_a_number_of_attempts_nobody_can_count_does_not_stop_the_ledger_or_hide_a_retry(
    path: Path, attempts: str
) -> None:
    path.write_text(line_of("key", "failed", "ATTEMPTS").replace('"ATTEMPTS"', attempts))
    ledger = Ledger(FileStore(path))
    assert isinstance(ledger.once("other", lambda: "id"), Sent)
    claimed = ledger.claim("key")
    assert claimed.outcome == "claimed"
    again = Ledger(FileStore(path)).claim("key")
    assert isinstance(again, Unknown)
    assert again.entry.attempts == 2
    assert Entry.from_text(path.read_text().splitlines()[0]) is not None


@pytest.mark.parametrize("value", [2**53 - 1, 12.0, 1])
def test_whole_numbers_are_attempts(value: float) -> None:
    assert attempt_number(value) == value


def test_a_fork_in_the_middle_of_closing_closes_nothing_of_somebody_elses(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child runs `after_fork` on what it inherits: by then the number may be another file's."""
    store = FileStore(path)
    Ledger(store).once("key", lambda: "id")
    close, closed = os.close, list[int]()

    def fork_after(fd: int) -> None:
        closed.append(fd)
        close(fd)
        store.after_fork()

    monkeypatch.setattr(os, "close", fork_after)
    store.close()
    monkeypatch.undo()
    assert len(closed) == len(set(closed))
    assert Ledger(store).once("key", lambda: "id").outcome == "duplicate"


LONGEST = "\u0001" * 10_000
"""Each character takes six bytes in JSON."""


def reject_at_length() -> None:
    raise RejectedSendError(LONGEST)


@pytest.mark.parametrize("bytes_max", [300, 262_144])
def test_however_small_the_cap_what_a_send_came_to_is_recorded(path: Path, bytes_max: int) -> None:
    ledger = Ledger(FileStore(path, entry_bytes_max=bytes_max))
    assert ledger.once("refused", reject_at_length).outcome == "failed"
    assert ledger.once("sent", lambda: LONGEST).outcome == "sent"
    assert ledger.resolve("refused", "sent", by="a" * 4_000, note="b" * 4_000, provider_id="c" * 1_000).status == "sent"
