"""Who may append to a ledger file now: one thread of one process, in order of asking.

Three locks, taken in this order and each for its own purpose:

1. a queue of this process's threads (`TurnQueue`), first come, first served;
2. the kernel's flock on the ledger file itself, so that any name of the file (symbolic link, hard
   link) leads to the same lock, and the kernel frees it when its holder dies, whatever container
   it ran in. Only this lock is trusted between Python processes;
3. the reference's lock file (`lockfile`), for Node.

POSIX only (needs `fcntl`). Network file systems on which flock does not reach the other hosts
(NFS with `nolock` or `local_lock`) cannot carry a ledger shared between hosts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import time
from collections import deque
from types import TracebackType
from typing import Final

from send_once.errors import LockTimeoutError, StoreError
from send_once.stores.damage import sync_directory
from send_once.stores.journal import NOWHERE, require_regular_file, unusable
from send_once.stores.lockfile import LockFile

_QUEUE_OFFSET: Final = 2**62
_OFD_SETLK: Final = getattr(fcntl, "F_OFD_SETLK", None)
_OFD_SETLKW: Final = getattr(fcntl, "F_OFD_SETLKW", None)
# struct flock (fcntl(2)): type, whence, start, length, pid; padded to its C size.
_QUEUE_TAKE: Final = struct.pack("@hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, _QUEUE_OFFSET, 1, 0)
_QUEUE_LEAVE: Final = struct.pack("@hhqqi0q", fcntl.F_UNLCK, os.SEEK_SET, _QUEUE_OFFSET, 1, 0)


class TurnQueue:
    """A lock between threads that serves them in the order in which they asked."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout_seconds: float) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            if turn.acquire(timeout=min(timeout_seconds, threading.TIMEOUT_MAX)):
                return True
        except BaseException:
            if not self._withdraw(turn):
                self.release()
            raise
        return not self._withdraw(turn)

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    def _withdraw(self, turn: threading.Lock) -> bool:
        """Leave the queue. False if the turn was handed over in the same moment: it is ours then."""
        with self._guard:
            try:
                self._waiting.remove(turn)
            except ValueError:
                return False
            return True


def try_flock(fd: int) -> bool:
    """Take the kernel's lock if nobody holds it and nobody waits for it."""
    if not _try_queue(fd):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        _leave_queue(fd)
    return True


class FlockWait:
    """Waits for the kernel's lock in a thread of its own, because flock(2) knows no timeout.

    `fd` must be a description of its own, not shared with anyone: if the wait is given up, the
    thread closes it, and with it the lock it may still get.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._done = threading.Lock()
        self._done.acquire()
        self._guard = threading.Lock()
        self._ended = False
        self._given_up = False
        self._error: OSError | None = None
        threading.Thread(target=self._wait, name="send-once-flock", daemon=True).start()

    def wait(self, timeout_seconds: float) -> bool:
        """True: locked, and the descriptor is the caller's. False: given up."""
        try:
            self._done.acquire(timeout=max(0.0, min(timeout_seconds, threading.TIMEOUT_MAX)))
        except BaseException:
            if self._give_up() and self._error is None:
                os.close(self._fd)
            raise
        ended = self._give_up()
        if self._error is not None:
            raise self._error
        return ended

    def _give_up(self) -> bool:
        """True if the wait had ended already; the descriptor is then the caller's, not the thread's."""
        with self._guard:
            self._given_up = not self._ended
            return self._ended

    def _wait(self) -> None:
        try:
            _enter_queue(self._fd)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            _leave_queue(self._fd)
        except OSError as error:
            self._error = error
        with self._guard:
            self._ended = True
            if self._given_up or self._error is not None:
                os.close(self._fd)
        self._done.release()


class LedgerLock:
    """All three locks of one ledger, held for the length of a `with` block by one thread.

    `fd` is open for appending and leads to the file that the path names, as of taking the lock.
    """

    def __init__(
        self, path: str, *, shown: str, create: bool, timeout_seconds: float, stale_seconds: float
    ) -> None:
        self.fd = -1
        self.identity = NOWHERE
        self._path, self._shown, self._create = path, shown, create
        self._timeout_seconds, self._stale_seconds = timeout_seconds, stale_seconds
        self._turns = TurnQueue()
        self._files: list[LockFile] = []
        self._synced = NOWHERE

    def __enter__(self) -> None:
        started = time.monotonic()
        if not self._turns.acquire(self._timeout_seconds):
            raise self._timeout("another thread of this process is")
        try:
            self._lock_kernel(started)
            for file in self._files:
                file.take(started, self._timeout_seconds)
        except BaseException as error:
            self._release()
            if isinstance(error, OSError):
                raise StoreError(f"Could not lock {self._shown}: {error}. Nothing was written.") from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def files_are_ours(self) -> bool:
        """Whether no peer has taken our lock files away meanwhile."""
        return all(file.is_ours() for file in self._files)

    def close(self) -> None:
        """Close the file. Waits for whoever holds the lock in this process."""
        self._turns.acquire(threading.TIMEOUT_MAX)
        try:
            self._close()
        finally:
            self._turns.release()

    def after_fork(self) -> None:
        """In the child: drop the parent's descriptors without unlocking what they share with it."""
        self._turns = TurnQueue()
        for file in self._files:
            file.forget()
        self._close()

    def _lock_kernel(self, started: float) -> None:
        while True:
            if self.fd < 0:
                self._open()
            if not try_flock(self.fd):
                self._wait_for_kernel(self._timeout_seconds - (time.monotonic() - started))
            if self._path_leads_here():
                return
            self._close()

    def _wait_for_kernel(self, seconds: float) -> None:
        fd = self._open_fd()
        try:
            waiting = FlockWait(fd)
        except RuntimeError:
            os.close(fd)
            raise
        if not waiting.wait(seconds):
            raise self._timeout("another process is")
        os.close(self.fd)
        self.fd = fd
        self._look_at_fd()

    def _path_leads_here(self) -> bool:
        """The file may have been replaced while we waited: then its old inode's lock is worth nothing."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == self.identity

    def _open(self) -> None:
        self.fd = self._open_fd()
        self._look_at_fd()
        if self.identity != self._synced:
            self._sync_directories()
            self._synced = self.identity

    def _open_fd(self) -> int:
        path, shown = self._path, self._shown
        require_regular_file(path)
        if os.path.islink(path) and not os.path.exists(path):
            raise unusable(shown, f"it is a link to {os.readlink(path)}, which does not exist (is a volume missing?)")
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if self._create else 0)
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError as error:
            directory = os.path.dirname(path)
            missing = not os.path.isdir(directory)
            reason = f"its directory {directory} does not exist; create it first" if missing else "there is no such file"
            raise unusable(shown, reason) from error
        except OSError as error:
            reason = "it is read-only for this user" if error.errno in _READ_ONLY else str(error.strerror)
            raise unusable(shown, reason) from error

    def _look_at_fd(self) -> None:
        found = os.fstat(self.fd)
        identity = (found.st_dev, found.st_ino)
        if identity != self.identity or not self._files:
            # Node names its lock after the path it was given: hold the one of the real path as well.
            names = dict.fromkeys((self._path, os.path.realpath(self._path)))
            shown = self._shown
            self._files = [
                LockFile(name, shown=shown if name == self._path else name, stale_seconds=self._stale_seconds)
                for name in names
            ]
        self.identity = identity

    def _sync_directories(self) -> None:
        """Once for each file: whoever created it may have died before its name was durable."""
        for directory in dict.fromkeys(os.path.dirname(p) for p in (self._path, os.path.realpath(self._path))):
            try:
                sync_directory(directory)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EACCES):
                    self._close()
                    raise

    def _release(self) -> None:
        try:
            for file in reversed(self._files):
                file.release()
            if self.fd >= 0:
                fcntl.flock(self.fd, fcntl.LOCK_UN)
        except OSError:
            self._close()  # closing frees the lock too
        finally:
            self._turns.release()

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.identity, self._files = -1, NOWHERE, []

    def _timeout(self, who: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"Could not lock {self._shown} within {self._timeout_seconds * 1000:.0f}ms: {who} writing to it. "
            "Nothing was written; try again, or allow more time with lock_timeout_seconds."
        )


_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


# Waiters queue up on a byte far behind the end of the file, and the first of them waits for the
# lock itself. Without it, a process that releases and asks again at once would go before all of them.
# It is for fairness only: where the system lacks such locks, safety does not change.


def _try_queue(fd: int) -> bool:
    if _OFD_SETLK is None:
        return True
    try:
        fcntl.fcntl(fd, _OFD_SETLK, _QUEUE_TAKE)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _enter_queue(fd: int) -> None:
    if _OFD_SETLKW is not None:
        try:
            fcntl.fcntl(fd, _OFD_SETLKW, _QUEUE_TAKE)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP):
                raise


def _leave_queue(fd: int) -> None:
    if _OFD_SETLK is not None:
        try:
            fcntl.fcntl(fd, _OFD_SETLK, _QUEUE_LEAVE)
        except OSError:
            pass  # closing the descriptor frees it as well
