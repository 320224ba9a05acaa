"""FileStore between processes: real ones, really killed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from send_once.entry import Entry, Status
from send_once.errors import LockTimeoutError
from send_once.ledger import Ledger
from send_once.moves import claimed
from send_once.owner import new_mark
from send_once.stores.file import FileStore
from send_once.stores.filelock import LedgerLock, places, try_flock
from send_once.stores.lockbody import is_abandoned, lock_body
from send_once.stores.turns import TurnQueue

HOLD_LOCK = """
import sys
from send_once.stores.filelock import LedgerLock
lock = LedgerLock(
    sys.argv[1], shown=sys.argv[1], create=True, timeout_seconds=10, stale_seconds=30, beside_node=True
)
with lock:
    print("held", flush=True)
    sys.stdin.read()
"""

RACE = """
import os, sys
from send_once import Ledger
from send_once.stores.file import FileStore
path, log, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger(FileStore(path, lock_timeout_seconds=60))
print("ready", flush=True)
sys.stdin.readline()
for key in range(keys):
    def send():
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%d\\n" % key)
        os.close(fd)
    ledger.once(str(key), send)
"""
CLAIM = """
import sys
from send_once.moves import claimed
from send_once.owner import new_mark
from send_once.stores.file import FileStore
store = FileStore(sys.argv[1], lock_timeout_seconds=60)
print("ready", flush=True)
store.claim(claimed(sys.argv[2], meta=None, mark=new_mark(), now_ms=1_790_510_400_000))
"""

# A peer that keeps the reference's rules and nothing else: exclusive lock file, whole file read, one append.
REFERENCE_PEER = """
import json, os, random, sys, time
path, log, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
body = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "token": os.urandom(8).hex(),
                   "at": int(time.time() * 1000)}, separators=(",", ":"))
def locked(work):
    while True:
        try:
            fd = os.open(path + ".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            break
        except FileExistsError:
            time.sleep(random.uniform(0.0005, 0.002))
    os.write(fd, body.encode())
    os.close(fd)
    try:
        return work()
    finally:
        if open(path + ".lock").read() == body:
            os.unlink(path + ".lock")
def entries():
    try:
        lines = open(path, encoding="utf-8").read().split(chr(10))
    except FileNotFoundError:
        return {}
    return {entry["key"]: entry for entry in map(json.loads, filter(None, lines))}
def put(key, status):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line = {"key": key, "status": status, "attempts": 1, "claimedAt": "2026-09-27T16:00:00.000Z",
            "updatedAt": "2026-09-27T16:00:00.000Z", "meta": None}
    os.write(fd, (json.dumps(line, separators=(",", ":")) + chr(10)).encode())
    os.fsync(fd)
    os.close(fd)
def claim(key):
    if key in entries():
        return False
    put(key, "pending")
    return True
print("ready", flush=True)
sys.stdin.readline()
for key in map(str, range(keys)):
    if locked(lambda: claim(key)):
        with open(log, "a") as file:
            file.write(key + chr(10))
        locked(lambda: put(key, "sent"))
"""


def claim_of(key: str) -> Entry:
    return claimed(key, meta=None, mark=new_mark(), now_ms=1_790_510_400_000)


def started(script: str, *args: object) -> subprocess.Popen[str]:
    """A process that has printed its first line, and waits on its standard input."""
    command = [sys.executable, "-c", script, *map(str, args)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def go_and_wait(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=120)
    assert process.returncode == 0


def race(racers: list[subprocess.Popen[str]]) -> None:
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        go_and_wait(racer)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def lock_of(path: Path, *, timeout_seconds: float = 10) -> LedgerLock:
    return LedgerLock(
        str(path), shown=path.name, create=True, timeout_seconds=timeout_seconds, stale_seconds=30, beside_node=True
    )


def test_a_killed_holder_delays_nobody_though_its_lock_file_is_fresh(path: Path) -> None:
    holder = started(HOLD_LOCK, path)
    lock_file = Path(f"{path}.lock")
    assert json.loads(lock_file.read_text())["pid"] == holder.pid
    kill(holder)
    assert lock_file.exists()
    store = FileStore(path, lock_timeout_seconds=5, stale_lock_seconds=3600)
    assert store.claim(claim_of("k"))
    assert not lock_file.exists()


def test_a_live_holder_is_waited_for_and_then_named(path: Path) -> None:
    holder = started(HOLD_LOCK, path)
    with pytest.raises(LockTimeoutError, match="within 50ms: another process is writing to it"):
        FileStore(path, lock_timeout_seconds=0.05).claim(claim_of("k"))
    with pytest.raises(LockTimeoutError):
        FileStore(path, lock_timeout_seconds=0).claim(claim_of("k"))
    go_and_wait(holder)
    assert FileStore(path).claim(claim_of("k"))


def test_a_wait_that_was_given_up_does_not_take_the_lock_later(path: Path) -> None:
    holder = started(HOLD_LOCK, path)
    store = FileStore(path, lock_timeout_seconds=0.05)
    for _ in range(3):
        with pytest.raises(LockTimeoutError):
            store.claim(claim_of("k"))
    go_and_wait(holder)
    assert FileStore(path, lock_timeout_seconds=60).claim(claim_of("k"))
    assert FileStore(path, lock_timeout_seconds=60).claim(claim_of("k2"))


@pytest.mark.parametrize("kind", ["symlink", "hard link"])
def test_two_names_of_one_file_share_one_lock(path: Path, kind: str) -> None:
    path.touch()
    other = path.with_name("other.jsonl")
    if kind == "symlink":
        other.symlink_to(path)
    else:
        other.hardlink_to(path)
    holder = started(HOLD_LOCK, path)
    with pytest.raises(LockTimeoutError):
        FileStore(other, lock_timeout_seconds=0.05).claim(claim_of("k"))
    go_and_wait(holder)
    assert FileStore(other).claim(claim_of("k"))
    assert not FileStore(path).claim(claim_of("k"))


def test_through_a_symlink_both_names_are_locked_for_node(path: Path) -> None:
    path.touch()
    link = path.with_name("link.jsonl")
    link.symlink_to(path)
    with lock_of(link):
        assert Path(f"{link}.lock").exists()
        assert Path(f"{path}.lock").exists()
    assert not Path(f"{link}.lock").exists()
    assert not Path(f"{path}.lock").exists()


def test_a_lock_file_of_a_live_node_process_is_respected_whatever_its_age(path: Path) -> None:
    body = {"pid": os.getppid(), "host": os.uname().nodename, "token": "0123456789abcdef", "at": 0}
    Path(f"{path}.lock").write_text(json.dumps(body))
    with pytest.raises(LockTimeoutError, match="ledger.jsonl.lock is held"):
        FileStore(path, lock_timeout_seconds=0.05).claim(claim_of("k"))
    assert json.loads(Path(f"{path}.lock").read_text()) == body


def test_a_lock_taken_from_us_is_left_alone_and_stops_the_send(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(path)
    stranger = Path(f"{path}.stranger")
    stranger.write_text("the lock of another program")
    sync = os.fdatasync

    def sync_while_robbed(fd: int) -> None:
        sync(fd)
        os.rename(stranger, f"{path}.lock")

    monkeypatch.setattr(os, "fdatasync", sync_while_robbed)
    calls: list[int] = []
    with pytest.raises(Exception, match="removed .*lock while it was held"):
        Ledger(store).once("k", lambda: calls.append(1))
    assert calls == []
    assert Path(f"{path}.lock").read_text() == "the lock of another program"


def test_our_own_lock_is_known_again_from_any_container_of_this_machine() -> None:
    body = lock_body().decode()
    elsewhere = {"mtime": 0.0, "now": json.loads(body)["at"] / 1000, "stale_seconds": 3600.0}
    assert is_abandoned(body, **elsewhere)
    other_pid = body.replace(f'"pid":{os.getpid()}', '"pid":1')
    assert not is_abandoned(other_pid, **elsewhere)  # the check digits belong to one process


@pytest.mark.parametrize("left_behind", [None, "dead lock", "empty lock"])
def test_racing_processes_send_each_key_once(
    path: Path, tmp_path: Path, left_behind: str | None, keys: int = 40
) -> None:
    lock_file, log = Path(f"{path}.lock"), tmp_path / "sent.log"
    if left_behind == "dead lock":
        holder = started(HOLD_LOCK, path)
        kill(holder)
    elif left_behind == "empty lock":
        lock_file.touch()
        os.utime(lock_file, (1, 1))
    race([started(RACE, path, log, keys) for _ in range(4)])
    assert Counter(log.read_text().split()) == {str(key): 1 for key in range(keys)}
    assert not lock_file.exists()


def test_beside_peers_with_the_references_lock_each_key_is_sent_once(path: Path, tmp_path: Path) -> None:
    log, keys = tmp_path / "sent.log", 40
    race([started(script, path, log, keys) for script in (RACE, REFERENCE_PEER, RACE, REFERENCE_PEER)])
    assert Counter(log.read_text().split()) == {str(key): 1 for key in range(keys)}
    snapshot = FileStore(path).snapshot()
    assert snapshot.skipped == 0
    assert {entry.status for entry in snapshot.entries} == {Status.SENT}


def test_a_forked_child_shares_the_ledger_and_not_the_parents_lock(path: Path) -> None:
    store = FileStore(path)
    store.claim(claim_of("before"))
    child = os.fork()
    if child == 0:
        right = (
            store.get("before") is not None and store.claim(claim_of("child")) and not store.claim(claim_of("before"))
        )
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not store.claim(claim_of("child"))
    assert store.claim(claim_of("after"))


def test_a_child_forked_while_a_thread_holds_the_lock_waits_for_it(path: Path) -> None:
    store = FileStore(path, lock_timeout_seconds=0.05)
    store.claim(claim_of("before"))
    with lock_of(path):
        child = os.fork()
        if child == 0:
            try:
                store.claim(claim_of("k"))
            except LockTimeoutError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_child_that_lives_on_does_not_keep_a_dead_parents_lock(path: Path) -> None:
    script = """
import os, sys
from send_once.stores.file import FileStore
store = FileStore(sys.argv[1])
with store._lock:
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
    print(child, flush=True)
    os.kill(os.getpid(), 9)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert process.wait() == -signal.SIGKILL
    os.kill(child, 0)
    assert FileStore(path, lock_timeout_seconds=5).claim(claim_of("k"))
    process.communicate(timeout=60)


def test_processes_are_served_in_the_order_in_which_they_asked(path: Path) -> None:
    path.touch()
    keys = ["first", "second", "third"]
    waiting = []
    fd = os.open(path, os.O_RDWR)
    with lock_of(path):
        for place, key in enumerate(keys):
            waiting.append(started(CLAIM, path, key))
            while not place_is_taken(fd, place):
                assert waiting[-1].poll() is None
    for process in waiting:
        go_and_wait(process)
    os.close(fd)
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == keys


def test_nobody_goes_before_a_process_that_waits_though_the_lock_is_free(path: Path) -> None:
    path.touch()
    waiter, newcomer = (os.open(path, os.O_RDWR) for _ in range(2))
    fcntl.fcntl(waiter, fcntl.F_OFD_SETLK, places(fcntl.F_WRLCK, 0, 1))
    assert not try_flock(newcomer)
    os.close(waiter)
    assert try_flock(newcomer)
    os.close(newcomer)


def place_is_taken(fd: int, place: int) -> bool:
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, places(fcntl.F_WRLCK, place, 1))
    return bytes(answer)[:2] != struct.pack("h", fcntl.F_UNLCK)


def test_threads_are_served_in_the_order_in_which_they_asked() -> None:
    turns, served = TurnQueue(), list[int]()
    holder = object()
    assert turns.acquire(0, holder)
    waiting = []

    def be_served(number: int) -> None:
        turns.acquire(60)
        served.append(number)
        turns.release()

    for number in range(6):
        thread = threading.Thread(target=be_served, args=(number,))
        thread.start()
        waiting.append(thread)
        while len(turns._waiting) <= number:
            pass  # until the thread stands in the queue
    assert not turns.acquire(0)
    turns.release(holder)
    for thread in waiting:
        thread.join()
    assert served == list(range(6))
    assert turns.acquire(0)
