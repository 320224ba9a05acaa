"""Whose turn it is among the threads of this process: first come, first served, and never lost.

A turn belongs to a call, not to a thread. Signal handlers (a job queue's time limit, Ctrl-C) raise
exceptions between any two steps of the main thread, also just before a turn would have been given
back; and they may call in themselves, on top of a call that has the turn. So the queue remembers the
frame of the call it gave the turn to: a call that is over without having given it back has lost it,
and a call on top of another does not take the other's turn for its own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from types import FrameType
from typing import Final

from send_once.errors import StoreError

calling: Final = sys._getframe  # noqa: SLF001  # documented; inspect's way to the same frame costs a hundred times as much
"""`calling(1)` is the frame of the function that called this one."""

LOOK_SECONDS: Final = 0.25
"""How often a waiting thread looks whether the call it waits for is over."""


class TurnQueue:
    """A lock between threads that serves them in the order in which they asked; with `turns` above 1,
    as many of them at a time.

    `call` is the frame that has the turn for as long as it runs (the caller's, if not given), or any
    other object, which then has it until it is given back.
    """

    def __init__(self, turns: int = 1) -> None:
        self._guard = threading.RLock()  # a signal handler may call in while this very thread holds it
        self._turns = turns
        self._holders: list[object] = []
        self._waiting: deque[tuple[threading.Lock, object]] = deque()

    def acquire(self, timeout_seconds: float, call: object = None) -> bool:
        """Wait for the turn. StoreError for a call that would wait for itself."""
        call = call or calling(1)
        with self._guard:
            self._pass_over_ended_calls()
            if len(self._holders) < self._turns:
                self._holders.append(call)
                return True
            if self.is_below():
                raise StoreError(
                    "The store was called by what interrupted another call to it (a signal handler or finalizer). "
                    "Nothing was written. Set a flag there, and send from the program's own flow."
                )
            if timeout_seconds <= 0:
                return False
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((turn, call))
        try:
            taken = self._wait(turn, call, time.monotonic() + timeout_seconds)
        except BaseException:
            self._withdraw(turn)
            self.release(call)
            raise
        return taken

    def release(self, call: object = None) -> None:
        """Let the next one in. Does nothing for a call that has no turn, so that it can stand in a
        `finally` around taking it."""
        call = call or calling(1)
        with self._guard:
            if call in self._holders:
                self._hand_on(call)

    def has(self, call: object) -> bool:
        return call in self._holders

    def is_below(self) -> bool:
        """Whether a call further down this very thread's stack has a turn."""
        frame: FrameType | None = calling(1)
        while frame is not None and frame not in self._holders:
            frame = frame.f_back
        return frame is not None

    def _wait(self, turn: threading.Lock, call: object, deadline: float) -> bool:
        while True:
            left = deadline - time.monotonic()
            given = turn.acquire(timeout=max(0.0, min(left, LOOK_SECONDS)))
            with self._guard:
                if given or call in self._holders:
                    self._withdraw(turn)
                    return True
                self._pass_over_ended_calls()
                if call not in self._holders and left <= 0:
                    self._withdraw(turn)
                    return False

    def _pass_over_ended_calls(self) -> None:
        for holder in tuple(self._holders):
            if isinstance(holder, FrameType) and _has_ended(holder):
                self._hand_on(holder)

    def _hand_on(self, holder: object) -> None:
        # An exception may come between any two of these: whoever has a turn finds that out by looking.
        place = self._holders.index(holder)
        for turn, call in self._waiting:
            if call not in self._holders:
                self._holders[place] = call
                self._withdraw(turn)
                turn.release()
                return
        del self._holders[place]

    def _withdraw(self, turn: threading.Lock) -> None:
        with self._guard:
            for place in self._waiting:
                if place[0] is turn:
                    self._waiting.remove(place)
                    return


def _has_ended(call: FrameType) -> bool:
    try:
        call.clear()
    except RuntimeError:
        return False  # "cannot clear an executing frame"
    return True
