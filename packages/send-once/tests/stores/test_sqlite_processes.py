"""SQLiteStore between processes and threads: real ones, really killed, really forked."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from send_once import Ledger
from send_once.errors import LockTimeoutError, StoreError, UnsafeStoreError
from send_once.stores import sqlitefile
from send_once.stores.sqlite import SQLiteStore
from send_once.testing import entry_of, settled

RACE = """
import os, sys
from send_once import Ledger
from send_once.stores.sqlite import SQLiteStore
path, log, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger(SQLiteStore(path, timeout_seconds=120))
print("ready", flush=True)
sys.stdin.readline()
fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for key in range(keys):
    ledger.once(str(key), lambda: os.write(fd, b"%d\\n" % key))
"""

HOLD = """
import sys, time
from send_once.stores.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
queue = store._database.queue
assert queue.take_turn()
assert queue.stand_in(time.monotonic() + 10)
if sys.argv[2] == "transaction":
    writer = store._database.writer()
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO send_once VALUES ('torn', 'sent', '', '', '')")
print("held", flush=True)
sys.stdin.read()
"""

WAIT_SECONDS_MAX = 120.0


def started(script: str, *args: object) -> subprocess.Popen[str]:
    """A process that has printed its first line, and waits on its standard input."""
    command = [sys.executable, "-c", script, *map(str, args)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(path)
    yield opened
    opened.close()


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a forked child that does `work`: 0 when it succeeded, 7 when it was refused."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except UnsafeStoreError:
            os._exit(7)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(("processes", "keys"), [(8, 1), (4, 40)])
def test_racing_processes_send_each_key_once_and_none_dies_of_a_locked_database(
    path: Path, tmp_path: Path, processes: int, keys: int
) -> None:
    log = tmp_path / "sent"
    racers = [started(RACE, path, log, keys) for _ in range(processes)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        racer.communicate(timeout=WAIT_SECONDS_MAX)
        assert racer.returncode == 0
    assert Counter(log.read_text().split()) == Counter(map(str, range(keys)))


@pytest.mark.parametrize("what", ["queue", "transaction"])
def test_a_killed_holder_delays_nobody(store: SQLiteStore, path: Path, what: str) -> None:
    holder = started(HOLD, path, what)
    holder.kill()
    holder.communicate()
    assert store.claim(entry_of("k"))
    assert store.get("torn") is None


def test_nobody_goes_ahead_of_a_process_that_waits_for_the_database(store: SQLiteStore, path: Path) -> None:
    """Whoever is first in the queue may still wait for a writer that does not queue: he is seen to."""
    queue = store._database.queue
    assert queue.take_turn()
    assert not queue.others_wait()
    holder = started(HOLD, path, "queue")
    assert queue.others_wait()
    holder.kill()
    holder.communicate()
    assert not queue.others_wait()
    queue.leave()


def test_whoever_waits_behind_a_stopped_process_is_told_so(path: Path) -> None:
    store = SQLiteStore(path, timeout_seconds=0.05)
    holder = started(HOLD, path, "transaction")
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(LockTimeoutError, match="Nothing was written"):
        store.claim(entry_of("k"))
    holder.kill()
    holder.communicate()
    assert store.claim(entry_of("k"))
    store.close()


def test_on_a_full_disk_nothing_is_sent_and_nothing_is_half_claimed(store: SQLiteStore, path: Path) -> None:
    """The child may write no further than its files are now; what it could not claim, it did not send."""
    assert store.claim(entry_of("before"))

    def fill_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
        ledger, sends = Ledger(store), 0
        for number in range(1000):
            try:
                outcome = ledger.once(f"k{number}", lambda: "id", {"filling": "x" * 2000})
            except StoreError:
                break
            assert outcome.outcome == "sent"
            sends += 1
        else:
            raise AssertionError("the disk never filled up")
        assert store.get("before") is not None
        assert Counter(entry.status.value for entry in store.list())["sent"] == sends

    assert in_child(fill_up) == 0
    assert store.claim(entry_of("after"))


def test_threads_share_a_store(store: SQLiteStore) -> None:
    ledger = Ledger(store)
    sends: list[str] = []
    barrier = threading.Barrier(12)

    def work() -> None:
        barrier.wait()
        for key in range(8):
            ledger.once(str(key), lambda key=key: sends.append(str(key)))

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
    assert Counter(sends) == Counter(map(str, range(8)))


def test_what_a_forked_child_commits_outlives_its_parents_connection(store: SQLiteStore, path: Path) -> None:
    """SQLite in a child believes in locks that only the parent holds. With a connection left open over the
    fork, the parent's close deletes the log under the child, and the child's claims are gone."""
    assert store.claim(entry_of("before"))
    assert store.get("before") is not None
    ready, go = os.pipe(), os.pipe()

    def work() -> None:
        assert store.claim(entry_of("child 1"))
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        assert store.claim(entry_of("child 2"))
        assert store.transition(entry_of("before"), settled(entry_of("before"), "sent"))

    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    os.read(ready[0], 1)
    assert store.claim(entry_of("parent"))
    store.close()
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fresh = SQLiteStore(path)
    assert sorted(entry.key for entry in fresh.list()) == ["before", "child 1", "child 2", "parent"]
    assert [entry.key for entry in fresh.list() if entry.status == "sent"] == ["before"]
    fresh.close()


def test_children_forked_from_a_busy_parent_race_on(store: SQLiteStore, tmp_path: Path) -> None:
    ledger = Ledger(store)
    log = os.open(tmp_path / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    stop = threading.Event()

    def keep_busy() -> None:
        number = 0
        while not stop.is_set():
            ledger.once(f"busy {number}", lambda: "id")
            ledger.get("busy 0")
            number += 1

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                for key in range(10):
                    ledger.once(str(key), lambda key=key: os.write(log, b"%d\n" % key))
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
    assert codes == [0, 0, 0, 0]
    assert Counter((tmp_path / "sent").read_text().split()) == Counter(map(str, range(10)))


def test_a_connection_of_somebody_else_that_was_open_at_the_fork_is_noticed(store: SQLiteStore, path: Path) -> None:
    """The same danger, from a connection that is none of ours: SQLite's record is per process."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT count(*) FROM send_once").fetchall()
        assert in_child(lambda: store.claim(entry_of("k"))) == 7
        assert store.claim(entry_of("k"))
    assert in_child(lambda: store.claim(entry_of("l"))) == 0


def test_a_child_forked_in_the_middle_of_a_statement_is_refused(store: SQLiteStore) -> None:
    """A fork cannot wait for a statement of its own thread (it forks in a signal handler, say)."""
    codes: list[int] = []
    connection = store._database.lend()
    connection.create_function("fork_now", 0, lambda: codes.append(in_child(lambda: store.get("k"))))
    connection.execute("SELECT fork_now()").fetchall()
    store._database.give_back(connection)
    assert codes == [7]
    assert store.claim(entry_of("k"))
    assert in_child(lambda: store.get("k")) == 0


def test_a_fork_does_not_wait_for_ever(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlitefile, "FORK_WAIT_SECONDS", 0.05)
    lent, done = threading.Event(), threading.Event()

    def read_at_length() -> None:
        connection = store._database.lend()
        lent.set()
        done.wait(WAIT_SECONDS_MAX)
        store._database.give_back(connection)

    reader = threading.Thread(target=read_at_length)
    reader.start()
    lent.wait(WAIT_SECONDS_MAX)
    assert in_child(lambda: store.get("k")) == 7
    done.set()
    reader.join(WAIT_SECONDS_MAX)
    assert in_child(lambda: store.get("k")) == 0
