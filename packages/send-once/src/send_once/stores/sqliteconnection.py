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
from send_once.stores.files import NOWHERE, Identity
from send_once.stores.identities import identity_in_passing, identity_of


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
        self._log = (real + "-wal", identity_in_passing(real + "-wal"))
        self._index = (real + "-shm", identity_in_passing(real + "-shm"))
        _open.add(self)

    def require_files(self) -> None:
        """Refuse to go on where one of them was removed or replaced."""
        if identity_in_passing(self._log[0]) != self._log[1]:
            raise _taken_away(self._log[0])
        if identity_in_passing(self._index[0]) != self._index[1]:
            raise _taken_away(self._index[0])

    def uses(self, index: str) -> bool:
        """Whether `index` is the path of the index it was opened with. False once it is closed."""
        return self._index[0] == index and not self._is_closed

    def close(self) -> None:
        """Close in order; but leave it open until the process ends, as a killed one would, where closing
        would delete what other processes wrote."""
        if self.pid == os.getpid() and self._only_index_was_taken():
            _left_open.add(self._index[0])
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # never finalized: that would close it
            return
        self._is_closed = True
        super().close()

    def _only_index_was_taken(self) -> bool:
        (log, log_identity), (index, index_identity) = self._log, self._index
        if index_identity in (NOWHERE, identity_in_passing(index)):
            return False
        return identity_in_passing(log) == log_identity

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


def _taken_away(path: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"{path} was removed or replaced while it was in use. Programs that use the database no longer see, or no "
        "longer wait for, one another, and may send again what this one sent. End them all, in order, so that what "
        "they still hold is kept; then compare the ledger with the provider before you go on."
    )
