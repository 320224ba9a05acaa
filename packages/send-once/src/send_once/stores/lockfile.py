"""The reference's lock file, `<ledger>.lock`: how a Node and a Python process keep apart.

Between Python processes the kernel's lock does the work (`filelock`); every function here is called
while holding that. So whatever other *Python* process is named in a lock file, it is not between
taking and releasing: it has died there. Such a lock file is known by its token and removed at once.

One written by the reference is removed by the reference's own rule (30 s old, same host, no such
process), and only after a look, under its name, that it still is the file that was judged. Node
itself looks less carefully; what is left of that race is in `_remove_stale`.
"""

from __future__ import annotations

import errno
import os
import random
import time
import weakref
from typing import Final

from send_once.errors import LockTimeoutError, StoreError
from send_once.stores.files import remove_if_there, write_all
from send_once.stores.lockbody import is_abandoned, lock_body

FIRST_DELAY_SECONDS: Final = 0.002
DELAY_SECONDS_MAX: Final = 0.05

SPARE_TRIES: Final = 3

_DICE: Final = random.SystemRandom()

_LINK_UNSUPPORTED: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)
_SPARE_UNUSABLE: Final = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENXIO)


class _Spare:
    """The file that becomes the lock by getting its name. Shared by all Python processes of the
    ledger, and written only under the kernel's lock."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def write(self, body: bytes) -> tuple[int, int] | None:
        """Give it this body. Answers which file it is, or None where there cannot be one."""
        for _ in range(SPARE_TRIES):
            if self._fd < 0 and not self._open():
                return None
            found = os.fstat(self._fd)
            if found.st_nlink == 1:
                written = 0
                while written < len(body):
                    written += os.pwrite(self._fd, body[written:], written)
                if found.st_size > len(body):
                    os.ftruncate(self._fd, len(body))
                return found.st_dev, found.st_ino
            if found.st_nlink > 1:
                # It still is the lock of someone who died holding it: that text must stay as it is.
                remove_if_there(self.path)
            self.forget()
        return None

    def drop(self) -> None:
        if self._fd >= 0:
            self.forget()
            try:
                os.unlink(self.path)
            except OSError:
                pass  # gone, or not ours to remove: it holds nothing anyone needs

    def forget(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno in _SPARE_UNUSABLE:
                return False
            raise
        return True


class LockFile:
    """One lock file, named after one name of the ledger. Use only while holding the kernel's lock.

    To take it, a spare file that is there already (`<ledger>.lock.next`, removed on `close`) gets
    the body and then, by link(2), the lock's name: that is as exclusive as O_EXCL, cheaper than
    making a file each time, and a crash leaves no empty lock, which everyone would have to wait out.
    """

    def __init__(self, ledger_path: str, *, shown: str, stale_seconds: float) -> None:
        self._shown = shown
        self._path = ledger_path + ".lock"
        self._stale_seconds = stale_seconds
        self._inode: tuple[int, int] | None = None
        self._known_ours = False
        self._spare = _Spare(self._path + ".next")
        # Runs at exit too, so that the spare file does not stay behind a program that never closes its store.
        self._drop_spare = weakref.finalize(self, self._spare.drop)

    def take(self, started: float, timeout_seconds: float) -> None:
        """Create the file, waiting for a holder until `timeout_seconds` after `started` (monotonic)."""
        delay = FIRST_DELAY_SECONDS
        while not self._create():
            if self._remove_if_stale():
                continue
            if time.monotonic() - started >= timeout_seconds:
                raise LockTimeoutError(
                    f"Could not lock {self._shown} within {timeout_seconds * 1000:.0f}ms: {self._shown}.lock is held. "
                    "If no process using this ledger is running, delete the lock file."
                )
            time.sleep(delay + _DICE.uniform(0, delay))
            delay = min(2 * delay, DELAY_SECONDS_MAX)

    def is_ours(self) -> bool:
        """Whether the name still leads to the file we made: no peer has moved it away. `release`
        right after it does not look again."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        self._known_ours = (found.st_dev, found.st_ino) == self._inode
        return self._known_ours

    def release(self) -> None:
        """Remove the file if it still is ours. Never raises: the work under the lock is done."""
        try:
            if self._inode is not None and (self._known_ours or self.is_ours()):
                os.unlink(self._path)
        except OSError:
            pass  # left behind, it names us; the next Python process sees by its token that nobody holds it
        finally:
            self._inode, self._known_ours = None, False

    def close(self) -> None:
        """Remove the spare file. A later `take` makes it anew."""
        self._spare.drop()

    def forget(self) -> None:
        """Let go of the open file without touching any name (after a fork, in the child)."""
        self._inode = None
        self._spare.forget()

    def _create(self) -> bool:
        body = lock_body()
        for _ in range(SPARE_TRIES):
            self._inode = self._spare.write(body)
            if self._inode is None:
                break
            try:
                os.link(self._spare.path, self._path)
            except FileExistsError:
                self._inode = None
                return False
            except FileNotFoundError:
                self._spare.forget()  # its last user has just removed the name
            except OSError as error:
                if error.errno not in _LINK_UNSUPPORTED:
                    raise
                break
            else:
                return True
        return self._create_in_two_steps(body)

    def _create_in_two_steps(self, body: bytes) -> bool:
        """As the reference does it, where the file system has no hard links."""
        self._inode = None
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            return False
        try:
            write_all(fd, body)
            made = os.fstat(fd)
        except BaseException:
            os.unlink(self._path)
            raise
        finally:
            os.close(fd)
        self._inode = (made.st_dev, made.st_ino)
        return True

    def _remove_if_stale(self) -> bool:
        """True if the lock is gone, by us or by itself."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return not os.path.islink(self._path)
        try:
            text = _read_all(fd, self._path)
            found = os.fstat(fd)
            if not is_abandoned(text, mtime=found.st_mtime, now=time.time(), stale_seconds=self._stale_seconds):
                return False
            return self._remove_stale((found.st_dev, found.st_ino))
        finally:
            os.close(fd)

    def _remove_stale(self, judged: tuple[int, int]) -> bool:
        """Remove the lock if its name still leads to the inode that was judged (which the caller holds open).

        Other Python processes are kept out by the kernel's lock. A Node peer may take the lock over
        at the same moment; if that falls between our look and our rename, its live lock is put
        back at once. What remains: a third process that creates a lock in that instant (some ten
        microseconds, and only while a stale lock is being cleared).
        """
        if self._identity() != judged:
            return True
        aside = f"{self._path}.stale-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            os.rename(self._path, aside)
        except FileNotFoundError:
            return True
        moved = os.stat(aside, follow_symlinks=False)
        if (moved.st_dev, moved.st_ino) != judged:
            _put_back(aside, self._path)
        os.unlink(aside)
        return True

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino


def _read_all(fd: int, path: str) -> str:
    try:
        return os.read(fd, 65_536).decode("utf-8", "replace")
    except IsADirectoryError as error:
        raise StoreError(f"{path} is a directory; it should be the ledger's lock file. Remove or rename it.") from error


def _put_back(aside: str, path: str) -> None:
    try:
        os.link(aside, path)
    except OSError:
        pass  # someone made a new lock meanwhile; the reference, too, leaves it at that
