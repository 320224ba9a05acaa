"""Who may append to a ledger file now: one thread of one process, in order of asking.

Three locks, taken in this order and each for its own purpose:

1. a queue of this process's threads (`turns`), first come, first served;
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
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

from send_once.errors import LockTimeoutError, StoreError
from send_once.stores.files import NOWHERE, require_regular_file, sync_directory, unusable
from send_once.stores.lockfile import LockFile
from send_once.stores.turns import TurnQueue, calling

PLACES: Final = 8
DELAY_SECONDS: Final = 0.0001
DELAY_SECONDS_MAX: Final = 0.001

_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_QUEUE_OFFSET: Final = 2**62
_OFD_SETLK: Final = getattr(fcntl, "F_OFD_SETLK", None)


# Processes that wait stand in a row of places: bytes far behind the end of the file, each held by one
# process (open file description locks, fcntl(2), which the kernel frees with their holder). One joins
# at the last place, moves up as places come free, and only from the first tries the lock itself. So
# waiters are served in order, and nobody who comes later, or who releases and asks again at once, goes
# before them. Beyond eight waiting processes the order in which they join is left to chance. All this
# is for fairness only: where the system lacks such locks, safety does not change.


def try_flock(fd: int) -> bool:
    """Take the kernel's lock if nobody holds it and nobody waits for it."""
    if not _set_places(fd, _TAKE_ROW):
        return False
    try:
        return _flock_if_free(fd)
    finally:
        _set_places(fd, _LEAVE_ROW)


def wait_for_flock(fd: int, deadline: float) -> bool:
    """Take the kernel's lock, in turn, until `deadline` (monotonic). False if it was not to be had.

    flock(2) knows no timeout, so this looks again and again; the lock is held for about the time of
    one disk sync, and the looks of those that wait cost far less than that.
    """
    try:
        return all(_move_up(fd, place, deadline) for place in reversed(range(PLACES))) and _keep_trying(
            lambda: _flock_if_free(fd), deadline
        )
    finally:
        _set_places(fd, _LEAVE_ROW)


def _move_up(fd: int, place: int, deadline: float) -> bool:
    wanted = places(fcntl.F_WRLCK, place, 1)
    if not _keep_trying(lambda: _set_places(fd, wanted), deadline):
        return False
    if place + 1 < PLACES:
        _set_places(fd, places(fcntl.F_UNLCK, place + 1, 1))
    return True


def _keep_trying(attempt: Callable[[], bool], deadline: float) -> bool:
    delay = DELAY_SECONDS
    while not attempt():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(delay, left))
        delay = min(delay * 1.5, DELAY_SECONDS_MAX)
    return True


def _flock_if_free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _set_places(fd: int, wanted: bytes) -> bool:
    """Take or leave places of the row. True also where the system has no such locks."""
    if _OFD_SETLK is None:
        return True
    try:
        fcntl.fcntl(fd, _OFD_SETLK, wanted)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def places(kind: int, first: int, count: int) -> bytes:
    """struct flock (fcntl(2)): type, whence, start, length, pid; "0q" pads it to its C size."""
    return struct.pack("@hhqqi0q", kind, os.SEEK_SET, _QUEUE_OFFSET + first, count, 0)


_TAKE_ROW: Final = places(fcntl.F_WRLCK, 0, PLACES)
_LEAVE_ROW: Final = places(fcntl.F_UNLCK, 0, PLACES)


class LedgerLock:
    """All three locks of one ledger, held for the length of a `with` block by one thread.

    `fd` is open for appending and leads to the file that the path names, as of taking the lock.
    """

    def __init__(
        self,
        path: str,
        *,
        shown: str,
        create: bool,
        timeout_seconds: float,
        stale_seconds: float,
        beside_node: bool,
    ) -> None:
        self.fd = -1
        self.identity = NOWHERE
        self._path, self._shown, self._create = path, shown, create
        self._timeout_seconds, self._stale_seconds = timeout_seconds, stale_seconds
        self._turns = TurnQueue()
        self._beside_node = beside_node
        self._files: list[LockFile] = []
        self._synced = NOWHERE

    def __enter__(self) -> None:
        started, call = time.monotonic(), calling(1)
        try:
            if not self._turns.acquire(self._timeout_seconds, call):
                raise self._timeout("another thread of this process is")
            self._lock_kernel(started)
            for file in self._files:
                file.take(started, self._timeout_seconds)
        except BaseException as error:
            self._release(call)
            if isinstance(error, OSError):
                raise StoreError(f"Could not lock {self._shown}: {error}. Nothing was written.") from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(calling(1))
        if isinstance(error, OSError):
            raise StoreError(f"Could not read or write {self._shown}: {error.strerror}.") from error

    def files_are_ours(self) -> bool:
        """Whether no peer has taken our lock files away meanwhile."""
        return all(file.is_ours() for file in self._files)

    def adopt(self, fd: int) -> None:
        """Go on with another file that was put in the ledger's place, and is locked already. Only while held."""
        os.close(self.fd)
        self.fd = fd
        self._look_at_fd()
        self._synced = self.identity

    def close(self) -> None:
        """Close the file. Waits for whoever holds the lock in this process."""
        self._turns.acquire(threading.TIMEOUT_MAX)
        try:
            for file in self._files:
                file.close()
            self._close()
        finally:
            self._turns.release()

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

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
            if not try_flock(self.fd) and not wait_for_flock(self.fd, started + self._timeout_seconds):
                raise self._timeout("another process is")
            if self._path_leads_here():
                return
            self._close()

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
            reason = (
                f"its directory {directory} does not exist; create it first" if missing else "there is no such file"
            )
            raise unusable(shown, reason) from error
        except OSError as error:
            reason = "it is read-only for this user" if error.errno in _READ_ONLY else str(error.strerror)
            raise unusable(shown, reason) from error

    def _look_at_fd(self) -> None:
        found = os.fstat(self.fd)
        self.identity = (found.st_dev, found.st_ino)
        if self._beside_node and not self._files:
            shown = self._shown
            self._files = [
                LockFile(name, shown=shown if name == self._path else name, stale_seconds=self._stale_seconds)
                for name in _names_to_lock(self._path)
            ]

    def _sync_directories(self) -> None:
        """Once for each file: whoever created it may have died before its name was durable."""
        for directory in dict.fromkeys(os.path.dirname(p) for p in (self._path, os.path.realpath(self._path))):
            try:
                sync_directory(directory)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EACCES):
                    self._close()
                    raise

    def _release(self, call: FrameType) -> None:
        """Each step also where an exception breaks off the one before it: what stays locked would stop
        every other process for as long as this one lives."""
        if not self._turns.has(call):
            return
        try:
            for file in reversed(self._files):
                file.release()
        finally:
            try:
                if self.fd >= 0:
                    fcntl.flock(self.fd, fcntl.LOCK_UN)
            except OSError:
                self._close()  # closing frees the lock too
            finally:
                self._turns.release(call)

    def _close(self) -> None:
        # Forgotten first: a child forked in between must not close what another file has by then.
        fd, self.fd, self.identity, self._files = self.fd, -1, NOWHERE, []
        if fd >= 0:
            os.close(fd)

    def _timeout(self, who: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"Could not lock {self._shown} within {self._timeout_seconds * 1000:.0f}ms: {who} writing to it. "
            "Nothing was written; try again, or allow more time with lock_timeout_seconds."
        )


def _names_to_lock(path: str) -> list[str]:
    """Node names its lock after the path it was given: the real path's is held as well. Where both are
    one name of one directory, spelt in two ways (`./ledger.jsonl`, a linked directory), there is one lock."""
    real = os.path.realpath(path)
    same_name = os.path.basename(path) == os.path.basename(real)
    if same_name and os.path.samefile(os.path.dirname(path), os.path.dirname(real)):
        return [path]
    return [path, real]
