"""Killing a process between two calls of its store."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable

from send_once.stores.base import Store
from send_once.testing.faults import Fault, FaultyStore, Moment
from send_once.testing.races import OpenStore


def killed_between(
    open_store: OpenStore, work: Callable[[Store], object], method: str, moment: Moment, nth: int = 1
) -> None:
    """Run `work` on the store in another process, which SIGKILL ends before or after the `nth` call of `method`.

    `open_store` and `work` are pickled. Returns when the process is gone. AssertionError where it ended
    in any other way, as it does when the call never came.
    """
    arguments = (open_store, work, method, moment, nth)
    process = multiprocessing.get_context("spawn").Process(target=_run, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, f"not killed {moment} {method}: it ended with {process.exitcode}"


def _run(open_store: OpenStore, work: Callable[[Store], object], method: str, moment: Moment, nth: int) -> None:
    work(FaultyStore(open_store(), [Fault(method, moment, nth, make_error=_die)]))


def _die() -> BaseException:
    os.kill(os.getpid(), signal.SIGKILL)
    return AssertionError("SIGKILL did not end the process")
