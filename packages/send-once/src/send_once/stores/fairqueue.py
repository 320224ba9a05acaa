"""A queue in front of a database that serves its writers in no order: whoever writes stands in it first.

SQLite makes a second writer sleep and look again, ever longer; with several processes the unlucky
one starves, or gives up with "database is locked". Here threads wait in order of asking, and
processes as `filelock` describes, on a file of their own. The kernel frees the place of a holder
that dies. This is for fairness and speed only: what makes a write safe is the database's own lock,
so a writer that does not stand in the queue (another language, a shell) does no harm.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from typing import Final

from send_once.errors import StoreError
from send_once.stores.filelock import PLACES, places, wait_for_flock
from send_once.stores.turns import TurnQueue, calling

_NOT_OURS_TO_WRITE: Final = (errno.EACCES, errno.EPERM)
_OFD_SETLK: Final = getattr(fcntl, "F_OFD_SETLK", None)
_OFD_GETLK: Final = getattr(fcntl, "F_OFD_GETLK", None)
_TAKE_FRONT: Final = places(fcntl.F_WRLCK, PLACES, 1)
_LEAVE_FRONT: Final = places(fcntl.F_UNLCK, PLACES, 1)
_LOOK: Final = places(fcntl.F_WRLCK, 0, PLACES + 1)
_NOBODY: Final = struct.pack("@h", fcntl.F_UNLCK)


class FairQueue:
    """First a turn among the threads of this process, then, where others are waiting, a place among
    the processes. `path` is a file made for nothing else; it gets the permissions of `like`, so
    that everyone who may write the database may also wait for it."""

    def __init__(self, path: str, *, like: str) -> None:
        self._path, self._like = path, like
        self._turns = TurnQueue()
        self._standing = False
        self._fd = -1

    def take_turn(self, deadline: float | None = None, *, call: object = None) -> bool:
        """Wait for the other threads of this process until `deadline` (monotonic); without one, not at
        all. The turn is the calling function's, or that of `call`, whatever stands for it."""
        call = call or calling(1)
        taken = self._turns.acquire(0.0 if deadline is None else deadline - time.monotonic(), call)
        if taken and self._standing:
            self._step_out()  # left behind by a call that was broken off
        return taken

    def is_below(self) -> bool:
        """Whether a call that this one interrupts (a signal handler's does) has the turn."""
        return self._turns.is_below()

    def others_wait(self) -> bool:
        """Whether another process stands in the queue: then it is not our turn yet. False where the
        system cannot tell."""
        try:
            fd = self._file()
            return _OFD_GETLK is not None and fcntl.fcntl(fd, _OFD_GETLK, _LOOK)[:2] != _NOBODY
        except OSError as error:
            raise self._unusable(error) from error

    def stand_in(self, deadline: float) -> bool:
        """Wait for the other processes, in order, until `deadline`. Only while having the turn."""
        try:
            fd = self._file()
            self._standing = True
            if not wait_for_flock(fd, deadline):
                self._standing = False
            elif _OFD_SETLK is not None:
                # Who is first still waits for the database, and must be seen to: `others_wait`.
                fcntl.fcntl(fd, _OFD_SETLK, _TAKE_FRONT)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise self._unusable(error) from error
            raise
        return self._standing

    def leave(self, *, call: object = None) -> None:
        """Let the next one in. Does nothing for a call that has no turn, so that it can stand in a
        `finally` around taking it: an interrupt may come between having the turn and knowing it."""
        call = call or calling(1)
        if not self._turns.has(call):
            return
        try:
            if self._standing:
                self._step_out()
        finally:
            self._turns.release(call)

    def close(self) -> None:
        """Let go of the file. Only while having the turn."""
        self._close()

    def after_fork_in_child(self) -> None:
        """Forget the parent's place. Its lock stays the parent's, who shares the open file."""
        self._turns = TurnQueue()
        self._close()

    def _step_out(self) -> None:
        try:
            if _OFD_SETLK is not None:
                fcntl.fcntl(self._fd, _OFD_SETLK, _LEAVE_FRONT)
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._standing = False
        except OSError:
            self._close()  # closing frees the lock too

    def _file(self) -> int:
        if self._fd < 0:
            self._fd = self._open()
        return self._fd

    def _open(self) -> int:
        mode = os.stat(self._like).st_mode & 0o666
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in _NOT_OURS_TO_WRITE:
                raise
            # Another user's file: reading it suffices for flock, which then alone keeps the order.
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        if os.fstat(fd).st_uid == os.geteuid():
            os.fchmod(fd, mode)  # whatever the umask took away
        return fd

    def _close(self) -> None:
        fd, self._fd, self._standing = self._fd, -1, False
        if fd >= 0:
            os.close(fd)

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(f"Could not wait in {self._path}: {error}. Nothing was written.")
