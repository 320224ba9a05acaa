"""Running work in threads that start together, in spawned processes, and in a forked child."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from send_once.stores.base import Store

OpenStore = Callable[[], Store]
"""A picklable function that opens the same data in another process."""


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work` in threads that start together; its answers, in order. An error in one is raised."""
    barrier = threading.Barrier(count)
    answers: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(n: int) -> None:
        barrier.wait()
        try:
            answers[n] = work(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return answers


def in_processes(
    count: int, work: Callable[..., None], open_store: OpenStore, keys: Sequence[str]
) -> list[tuple[str, list[str]]]:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(count), context.Queue()
    processes = [context.Process(target=work, args=(open_store, keys, f"p{n}", barrier, answers)) for n in range(count)]
    for process in processes:
        process.start()
    collected = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return collected


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
