"""One connection to a SQLite database, and the two files beside it that every connection shares: the
write-ahead log, and the index of that log, in which the locks lie.

SQLite goes on with files whose names were taken away, while other processes begin new ones. Without the
log they see nothing of what this one holds. Without its index both write at once; and who closes last
copies what it knows into the database and deletes the log, with all that the others wrote.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import weakref
from typing import Final

from send_once.errors import UnsafeStoreError
from send_once.stores.files import NOWHERE

Identity = tuple[int, int]


class Connection(sqlite3.Connection):
    """A connection that knows which database it leads to, and which files lay beside it when it was opened."""

    identity: Identity = NOWHERE
    pid = -1
    _is_closed = False
    _log: tuple[str, Identity] = ("", NOWHERE)
    _index: tuple[str, Identity] = ("", NOWHERE)

    def know_files(self, path: str) -> None:
        """Remember them, once a table has been read: that has opened them. They stay as long as any
        connection to the database is open."""
        real = os.path.realpath(path)
        self.identity = identity_of(path)
        self._log, self._index = ((real + suffix, identity_of(real + suffix)) for suffix in ("-wal", "-shm"))
        _open.add(self)

    def require_files(self) -> None:
        """Refuse to go on where one of them was removed or replaced."""
        for path, identity in (self._log, self._index):
            if identity_of(path) != identity:
                raise _taken_away(path)

    def uses(self, index: str) -> bool:
        """Whether `index` is the path of the index it was opened with. False once it is closed."""
        return self._index[0] == index and not self._is_closed

    def close(self) -> None:
        """Close in order; but leave it open until the process ends, as a killed one would, where closing
        would delete what other processes wrote."""
        if self.pid == os.getpid() and _was_taken(self._index) and not _was_taken(self._log):
            _left_open.add(self._index[0])
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # never finalized: that would close it
            return
        self._is_closed = True
        super().close()

    def __del__(self) -> None:
        if self.pid == os.getpid():
            self.close()


_open: Final[weakref.WeakSet[Connection]] = weakref.WeakSet()
_left_open: Final[set[str]] = set()
"""Indexes, by path, that this process still uses though others do not."""


def require_shared_files(path: str) -> None:
    """Refuse to open another connection where one of this process still uses files that were taken away:
    SQLite would give it the same."""
    index = os.path.realpath(path) + "-shm"
    if index in _left_open:
        raise _taken_away(index)
    here = identity_of(path)
    for connection in list(_open):
        # One to a database that was replaced shares nothing with the new one, which has its own refusal.
        if connection.pid == os.getpid() and connection.uses(index) and connection.identity == here:
            connection.require_files()


def identity_of(path: str) -> Identity:
    """Which file a path names; NOWHERE if none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return NOWHERE
    return found.st_dev, found.st_ino


def _was_taken(file: tuple[str, Identity]) -> bool:
    path, identity = file
    return identity != NOWHERE and identity_of(path) != identity


def _taken_away(path: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"{path} was removed or replaced while it was in use. Programs that use the database no longer see, or no "
        "longer wait for, one another, and may send again what this one sent. End them all, in order, so that what "
        "they still hold is kept; then compare the ledger with the provider before you go on."
    )
