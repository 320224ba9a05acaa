"""One racing process, run as a script: `racer.py <json>`, with the import path in the environment.

Opens its store, says "ready", waits until the starting pipe is closed, and then calls `once` for every key
from every thread, each in an order of its own. Prints what its calls were told.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from races.opening import open_store
from send_once import Ledger


def main(spec: dict[str, Any]) -> None:
    ledger = Ledger(open_store(spec["store"], spec["address"]))
    if spec.get("forks"):
        told = race_in_children(ledger, spec)
    else:
        starting_line(spec)
        told = race(ledger, spec)
    print(json.dumps(told))


def starting_line(spec: dict[str, Any]) -> None:
    print("ready", flush=True)
    os.read(spec["start_fd"], 1)


def race(ledger: Ledger, spec: dict[str, Any]) -> dict[str, int]:
    """Every thread calls `once` for every key. Answers how often each outcome, or error, was told."""
    told: Counter[str] = Counter()
    guard = threading.Lock()
    effects = os.open(spec["effects"], os.O_WRONLY | os.O_APPEND)
    everyone = threading.Barrier(spec["threads"])

    def run(seed: int) -> None:
        mine: Counter[str] = Counter()
        keys = list(range(spec["keys"]))
        random.Random(seed).shuffle(keys)
        everyone.wait()
        for number in keys:
            mine[_once(ledger, number, effects)] += 1
        with guard:
            told.update(mine)

    threads = [threading.Thread(target=run, args=(os.getpid() * 1000 + n,)) for n in range(spec["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(told)


def race_in_children(ledger: Ledger, spec: dict[str, Any]) -> dict[str, int]:
    """Use the store, then fork while threads are using it, and race with it in parent and children."""
    ledger.once("before the fork", lambda: None)
    busy, stop = _keep_busy(ledger)
    starting_line(spec)
    children = [_fork(lambda: race(ledger, spec)) for _ in range(spec["forks"])]
    told = Counter(race(ledger, spec))
    stop()
    busy.join()
    for pid, read_fd in children:
        told.update(json.loads(_read_all(read_fd)))
        _, status = os.waitpid(pid, 0)
        told["child died"] += int(status != 0)
    return {word: count for word, count in told.items() if count}


def _once(ledger: Ledger, number: int, effects: int) -> str:
    def send() -> str:
        # One write of a fixed length to a file opened for appending: whole, whoever else writes.
        os.write(effects, b"%07d\n" % number)
        return f"msg_{number}"

    try:
        return ledger.once(f"key {number}", send).outcome
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _keep_busy(ledger: Ledger) -> tuple[threading.Thread, Callable[[], None]]:
    stopping = threading.Event()

    def work() -> None:
        number = 0
        while not stopping.is_set():
            ledger.once(f"busy {number % 50}", lambda: None)
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    return thread, stopping.set


def _fork(work: Callable[[], dict[str, int]]) -> tuple[int, int]:
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read_fd)
            os.write(write_fd, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write_fd)
    return pid, read_fd


def _read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as pipe:
        return pipe.read() or b"{}"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
