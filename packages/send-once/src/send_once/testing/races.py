"""Running work in threads that start together, in spawned processes, and in a forked child."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from send_once.stores.base import Store

OpenStore = Callable[[], Store]
"""A picklable function that opens the same data in another process."""


SWITCH_SECONDS: Final = 1e-6
"""How long a thread runs before another may: as short as it gets, so that what can come between two steps does."""
ROUNDS: Final = 50
CHILD_SECONDS_MAX: Final = 60
LOOK_SECONDS: Final = 0.5


def in_rounds(count: int, work: Callable[[int, int], Any], rounds: int = ROUNDS) -> list[list[Any]]:
    """Run `work(round, n)` in `count` threads that start each round together; the answers of each round
    in the order of the threads. An error in one is raised."""
    barrier = threading.Barrier(count)
    answers: list[list[Any]] = [[None] * count for _ in range(rounds)]
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            for number in range(rounds):
                barrier.wait()
                answers[number][n] = work(number, n)
        except threading.BrokenBarrierError:
            pass  # another thread's error, which is raised
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    with _switching_at_once():
        threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return answers


@contextlib.contextmanager
def _switching_at_once() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_processes(
    count: int, work: Callable[..., None], open_store: OpenStore, keys: Sequence[str]
) -> list[tuple[str, list[str]]]:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(count), context.Queue()
    processes = [context.Process(target=work, args=(open_store, keys, f"p{n}", barrier, answers)) for n in range(count)]
    for process in processes:
        process.start()
    collected = [_answer_of_one(processes, answers) for _ in processes]
    for process in processes:
        process.join()
    errors = [error for _, _, error in collected if error]
    assert not errors, f"in another process: {errors[0]}"
    return [(name, won) for name, won, _ in collected]


def _answer_of_one(processes: Sequence[Any], answers: Any) -> Any:
    deadline = time.monotonic() + CHILD_SECONDS_MAX
    while True:
        try:
            return answers.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            dead = [process.exitcode for process in processes if process.exitcode]
            assert not dead, f"a process that was to race ended with {dead[0]}; can what opener() gives be pickled?"
            assert time.monotonic() < deadline, f"a process did not answer within {CHILD_SECONDS_MAX} s"


def exit_code(work: Callable[..., None], open_store: OpenStore, key: str) -> int:
    process = multiprocessing.get_context("spawn").Process(target=work, args=(open_store, key))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def exit_forked(work: Callable[[], object]) -> None:
    try:
        ok = work()
    except BaseException:
        os._exit(2)
    os._exit(0 if ok else 1)
