"""The connections to one SQLite database file: opened with settings that are then verified, lent to
one thread at a time, and never carried through a fork.

Why a fork needs care: SQLite keeps one list of open files and locks per process, and a child
inherits the list but not the locks (POSIX record locks belong to the process that took them). A
connection that the child opens *itself* then shares the parent's inherited record and takes no
lock at all; when the parent closes, it deletes the write-ahead log under the child, and what the
child commits afterwards is lost. So every connection is closed before the process forks.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
import weakref
from typing import Final, Literal

from send_once.errors import NotALedgerError, StoreError, UnsafeStoreError
from send_once.stores import statements
from send_once.stores.fairqueue import FairQueue
from send_once.stores.files import NOWHERE, sync_directory
from send_once.stores.identities import identity_of
from send_once.stores.sqliteconnection import Connection, require_shared_files
from send_once.stores.sqliteplace import read_text, require_place
from send_once.stores.turns import TurnQueue

Synchronous = Literal["FULL", "EXTRA"]

FORK_WAIT_SECONDS: Final = 5.0
"""How long a fork waits for other threads to finish their statement."""

_SYNCHRONOUS: Final[dict[Synchronous, int]] = {"FULL": 2, "EXTRA": 3}


class DatabaseFile:
    """The connections to the database at `path`, and the queue of those who write to it.

    Every connection leads to the file that the path named first, and to its log: a claim written into
    one that was replaced or removed would be seen by nobody, and what the next file does not know
    would be sent again. Where opening fails, sqlite3.Error is raised, also for a database that is busy.
    """

    def __init__(self, path: str, *, table: str, synchronous: Synchronous, create: bool) -> None:
        self.path = path
        real = os.path.realpath(path)
        self.queue = FairQueue(real + "-queue", like=real)
        self._table, self._synchronous, self._create = table, synchronous, create
        self._writer: Connection | None = None
        self._free: list[Connection] = []
        self._lent: dict[Connection, int] = {}
        self._gate = TurnQueue()
        self._known = NOWHERE
        self._still_for_fork = False
        self._forked_open = False
        self._inherited: list[Connection] = []
        _databases.add(self)

    def writer(self) -> Connection:
        """The connection for writing. Only while having the turn in the queue."""
        writer = self._writer
        # One that is in a transaction was left by a call that was broken off: what is done on it would not last.
        if writer is None or writer.in_transaction or writer.identity != identity_of(self.path):
            self.drop_writer()
            try:
                self._gate.acquire(threading.TIMEOUT_MAX)
                writer = self._writer = self._open()
            finally:
                self._gate.release()
        writer.require_files()
        return writer

    def drop_writer(self) -> None:
        """After an error: closing rolls back whatever may still be open."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def lend(self) -> Connection:
        """A connection for reading, for this thread alone, until it is given back or discarded."""
        try:
            self._gate.acquire(threading.TIMEOUT_MAX)
            connection = self._free.pop() if self._free else None
            if connection is None or connection.identity != identity_of(self.path):
                if connection is not None:
                    connection.close()
                connection = self._open()
            self._lent[connection] = threading.get_ident()
        finally:
            self._gate.release()
        try:
            connection.require_files()
        except BaseException:
            self.give_back(connection)
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """After a statement that ended as it should."""
        del self._lent[connection]
        self._free.append(connection)

    def discard(self, connection: Connection) -> None:
        """After anything else."""
        del self._lent[connection]
        connection.close()

    def close(self) -> None:
        """Close what nobody is using now."""
        if self.queue.take_turn():
            try:
                self.drop_writer()
                self.queue.close()
            finally:
                self.queue.leave()
        try:
            self._gate.acquire(threading.TIMEOUT_MAX)
            self._close_free()
        finally:
            self._gate.release()

    def _open(self) -> Connection:
        if self._forked_open:
            raise _forked_while_open(self.path)
        if not (os.path.exists(self.path) or (self._create and self._known == NOWHERE)):
            raise StoreError(self._missing())
        require_place(self.path)
        require_shared_files(self.path)
        connection = sqlite3.connect(
            self.path,
            timeout=0,  # who waits, and how long, is the store's affair
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.pid = os.getpid()
        try:
            self._verify(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _verify(self, connection: Connection) -> None:
        _set_up(connection, self.path, self._synchronous)
        _require_ledger(connection, self.path, self._table, create=self._create)
        connection.know_files(self.path)
        if connection.identity != self._known:
            self._refuse_another()
            # SQLite syncs the directory for its log; whoever created the database may have died before.
            sync_directory(os.path.dirname(os.path.realpath(self.path)))
            self._known = connection.identity
        _require_own_lock(self._known[1], self.path)

    def _refuse_another(self) -> None:
        if self._known != NOWHERE:
            raise UnsafeStoreError(
                f"The database {self.path} was replaced while it was in use: what was sent since the new one was made "
                "could be sent again. Compare the two, put back what is missing, and restart this program."
            )

    def _missing(self) -> str:
        if self._known == NOWHERE:
            return f"There is no database {self.path}."
        return (
            f"The database {self.path} was removed while it was in use. A new, empty one would allow every message "
            "to be sent again: move it back, or restart this program if that is what you want."
        )

    def _close_free(self) -> None:
        while self._free:
            self._free.pop().close()

    def before_fork(self) -> None:
        """Close every connection, once the other threads have ended their statements. New ones wait."""
        deadline = time.monotonic() + FORK_WAIT_SECONDS
        # A statement of this very thread cannot end before the fork does (it forks in a signal handler).
        if self.queue.is_below() or self._gate.is_below() or not self.queue.take_turn(deadline, call=self):
            self._still_for_fork = False
            return
        self._still_for_fork = self._gate.acquire(FORK_WAIT_SECONDS, self)
        if not self._still_for_fork:
            self.queue.leave(call=self)
            return
        while self._lent and threading.get_ident() not in self._lent.values() and time.monotonic() < deadline:
            time.sleep(0.001)
        self.drop_writer()
        self._close_free()

    def after_fork_in_parent(self) -> None:
        if self._still_for_fork:
            self._still_for_fork = False
            self._gate.release(self)
            self.queue.leave(call=self)

    def after_fork_in_child(self) -> None:
        # What could not be closed must never be touched here, not even to close it: closing would act
        # on locks that are the parent's. Kept, so that it is not finalized either.
        writer = [] if self._writer is None else [self._writer]
        self._inherited += [*writer, *self._free, *self._lent]
        self._forked_open = self._forked_open or bool(self._inherited) or not self._still_for_fork
        self._writer, self._free, self._lent = None, [], {}
        self._gate, self._still_for_fork = TurnQueue(), False
        self.queue.after_fork_in_child()


_databases: weakref.WeakSet[DatabaseFile] = weakref.WeakSet()
_forked = False


def _before_fork() -> None:
    for database in list(_databases):
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in list(_databases):
        database.after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _forked  # noqa: PLW0603  # a fact about this process, learned once
    _forked = True
    for database in list(_databases):
        database.after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def explained(error: sqlite3.Error, path: str) -> StoreError:
    """SQLite's error, as one of ours that says what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_READONLY:
        return UnsafeStoreError(f"The database {path} is read-only for this process: no claim can be kept ({error}).")
    if code == sqlite3.SQLITE_NOTADB:
        return NotALedgerError(f"{path} is not a SQLite database. Is it a ledger file (FileStore)?")
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"The disk of {path} is full. Nothing was written; make room and try again.")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"The database {path} cannot be opened: {error}. Check it and the rights on its directory.")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreError(f"The database {path} is damaged ({error}). Restore it; what it lost could be sent again.")
    return StoreError(f"SQLite could not do this in {path}: {error}.")


def is_busy(error: BaseException) -> bool:
    """Whether someone else held the database's lock: then nothing was written."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _set_up(connection: Connection, path: str, synchronous: Synchronous) -> None:
    """Write-ahead log, and a sync of it at every commit: set, then read back."""
    if _pragma(connection, "journal_mode") != "wal" and _pragma(connection, "journal_mode=WAL") != "wal":
        raise UnsafeStoreError(
            f"SQLite does not keep a write-ahead log for {path} (journal mode "
            f"{_pragma(connection, 'journal_mode')}). Keep the database on a local disk where it can."
        )
    if sys.platform == "darwin":
        # There fsync does not reach the disk; F_FULLFSYNC does.
        _pragma(connection, "fullfsync=ON")
        _pragma(connection, "checkpoint_fullfsync=ON")
    _pragma(connection, f"synchronous={synchronous}")
    kept = _pragma(connection, "synchronous")
    if kept != _SYNCHRONOUS[synchronous]:
        raise UnsafeStoreError(
            f"SQLite does not sync every commit of {path}: synchronous is {kept}, not {synchronous}. "
            "A claim could be lost with the power."
        )


def _pragma(connection: Connection, text: str) -> object:
    row = connection.execute(f"PRAGMA {text}").fetchone()
    return row[0] if row else None


def _require_ledger(connection: Connection, path: str, table: str, *, create: bool) -> None:
    """The table is there (or made), and is one on which a claim of a key that is taken fails."""
    columns = {row[1]: str(row[2]).upper() for row in connection.execute(f"PRAGMA table_info({table})")}
    if not columns and create:
        connection.execute(statements.SCHEMA.format(table=table))
        return
    if not columns:
        raise NotALedgerError(f"{path} has no table {table}. Is it a ledger, and is this its table?")
    missing = [name for name in statements.Row._fields if name not in columns]
    if missing:
        raise NotALedgerError(f"The table {table} of {path} lacks {', '.join(missing)}: it is not a ledger.")
    other = [name for name in statements.Row._fields if columns[name] != "TEXT"]
    if other:
        raise NotALedgerError(f"In the table {table} of {path}, {', '.join(other)} must be of type TEXT.")
    try:
        connection.execute("EXPLAIN " + statements.statement(statements.INSERT, table, "question").sql, [""] * 5)
    except sqlite3.OperationalError as error:
        if is_busy(error):
            raise
        raise UnsafeStoreError(
            f"The table {table} of {path} has no PRIMARY KEY or UNIQUE on key: the same key could be claimed twice."
        ) from error


def _require_own_lock(inode: int, path: str) -> None:
    """In a forked process: that SQLite really took its lock on the file, and does not rely on one
    of the parent's (someone else's connection that was open at the fork)."""
    if not _forked:
        return
    lines = [line.split() for line in read_text("/proc/locks").splitlines()]
    held = [line[4] for line in lines if len(line) > 5 and line[5].rpartition(":")[2] == str(inode)]  # noqa: PLR2004  # proc(5): id, kind, ADVISORY, READ, pid, device:inode
    if held and str(os.getpid()) not in held:
        raise _forked_while_open(path)


def _forked_while_open(path: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"This process was forked while a connection to {path} was open and in use. SQLite's locks do not pass to "
        "the child, and what it writes could be lost. Close such connections before forking, or use the spawn method."
    )
