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
import threading
import time
from typing import Final

from send_once.errors import StoreError
from send_once.stores.filelock import TurnQueue, try_flock, wait_for_flock

_NOT_OURS_TO_WRITE: Final = (errno.EACCES, errno.EPERM)


class FairQueue:
    """Held by one thread of one process at a time. `path` is a file made for nothing else; it gets
    the permissions of `like`, so that everyone who may write the database may also wait for it."""

    def __init__(self, path: str, *, like: str) -> None:
        self._path, self._like = path, like
        self._turns = TurnQueue()
        self._holder = 0
        self._fd = -1

    def enter_at_once(self) -> bool:
        """Enter if nobody is in and nobody waits."""
        return self._enter(0.0, None)

    def enter(self, deadline: float) -> bool:
        """Wait, in turn, until `deadline` (monotonic). False if it was not to be had."""
        return self._enter(max(0.0, deadline - time.monotonic()), deadline)

    def leave(self) -> None:
        """Let the next one in. Does nothing for a thread that is not in, so that it can stand in a
        `finally` around `enter`: an interrupt may come between being let in and knowing it."""
        if self._holder != threading.get_ident():
            return
        self._holder = 0
        try:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        except OSError:
            self._close()  # closing frees the lock too
        finally:
            self._turns.release()

    def close(self) -> None:
        """Let go of the file, unless somebody is in."""
        if self._turns.acquire(0.0):
            self._close()
            self._turns.release()

    def after_fork(self) -> None:
        """In the child: forget the parent's place. Its lock stays the parent's, who shares the file."""
        self._turns = TurnQueue()
        self._holder = 0
        self._close()

    def _enter(self, wait_seconds: float, deadline: float | None) -> bool:
        if not self._turns.acquire(wait_seconds):
            return False
        try:
            if self._fd < 0:
                self._fd = self._open()
            entered = try_flock(self._fd) or (deadline is not None and wait_for_flock(self._fd, deadline))
            self._holder = threading.get_ident() if entered else 0
        except BaseException as error:
            self._holder = 0
            self._close()
            self._turns.release()
            if isinstance(error, OSError):
                raise StoreError(f"Could not wait in {self._path}: {error}. Nothing was written.") from error
            raise
        if not entered:
            self._turns.release()
        return entered

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
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
