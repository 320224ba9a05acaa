"""A ledger in a SQLite database, which many processes of one machine may share.

One statement per step, each its own transaction, on the reference's table. A commit is on disk
before a call returns (write-ahead log, `synchronous` FULL, both verified when opening).
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, get_args

from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError, LockTimeoutError, StoreError
from send_once.stores import statements
from send_once.stores.base import Pair, require_encodable_key
from send_once.stores.sqliteconnection import Connection
from send_once.stores.sqlitefile import (
    DatabaseFile,
    Synchronous,
    explained,
    is_busy,
)
from send_once.stores.sqliteplace import require_path, require_place

T = TypeVar("T")

_LOOK_AGAIN_SECONDS: Final = 0.0001
_LOOK_AGAIN_SECONDS_MAX: Final = 0.002


class SQLiteStore:
    """Entries in the table `table` of the database file `path`, both made where missing unless
    `create` is False.

    Guarantees: a claim or transition is durable before it returns True, atomic, and seen by every
    later `get` of any process. Writers wait in order of asking, `timeout_seconds` at most, then
    LockTimeoutError, and nothing was written. Safe between threads. A store that was made before a
    fork works in the child; what was open is closed before the fork.

    Refused with UnsafeStoreError: a database in memory, read-only, on a network file system, with
    more than one hard link, or where the settings that make a commit durable do not stick.

    Beside the database lies `<path>-queue`, an empty file in which writers wait. Do not open the
    database file itself with `open()` in a process that uses it: closing it drops SQLite's locks.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "send_once",
        timeout_seconds: float = 30.0,
        synchronous: Synchronous = "FULL",
        create: bool = True,
    ) -> None:
        if synchronous not in get_args(Synchronous):
            raise InvalidInputError(
                f"SQLiteStore: synchronous must be FULL or EXTRA, not {synchronous!r}: with less, a power cut can "
                "undo a claim whose message has gone out.",
                field="synchronous",
            )
        if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float) or not timeout_seconds > 0:
            raise InvalidInputError("SQLiteStore: timeout_seconds must be a positive number.", field="timeout_seconds")
        self.path = require_path(path)
        self.table = statements.require_table(table, store_name="SQLiteStore", with_schema=False)
        self._timeout_seconds = timeout_seconds
        self._insert = statements.statement(statements.INSERT, table, "question").sql
        self._update = statements.statement(statements.UPDATE, table, "question").sql
        self._get = statements.statement(statements.GET, table, "question").sql
        require_place(self.path)
        self._database = DatabaseFile(self.path, table=table, synchronous=synchronous, create=create)
        self._read(lambda _connection: None)

    def claim(self, entry: Entry) -> bool:
        require_encodable_key(entry.key, store_name="SQLiteStore")
        row = statements.row_of(entry)
        return self._write(lambda connection: connection.execute(self._insert, row).rowcount == 1)

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        """`claim`; where it is refused, the entry in the way."""
        require_encodable_key(entry.key, store_name="SQLiteStore")
        row = statements.row_of(entry)

        def insert_or_look(connection: Connection) -> bool | Entry:
            if connection.execute(self._insert, row).rowcount == 1:
                return True
            return self._entry_of(connection, entry.key) or False

        return self._write(insert_or_look, lambda connection: self._entry_of(connection, entry.key))

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        values = statements.update_values(came_from, entry)
        return self._write(lambda connection: connection.execute(self._update, values).rowcount == 1)

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        """One transaction: all claims are durable together, or, when it raises, none was made."""
        for entry in entries:
            require_encodable_key(entry.key, store_name="SQLiteStore")
        rows = [statements.row_of(entry) for entry in entries]
        return self._write(lambda connection: _together(connection, self._insert, rows))

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        """One transaction, as `claim_many`."""
        values = [statements.update_values(came_from, entry) for came_from, entry in pairs]
        return self._write(lambda connection: _together(connection, self._update, values))

    def get(self, key: str) -> Entry | None:
        require_encodable_key(key, store_name="SQLiteStore")
        return self._read(lambda connection: self._entry_of(connection, key))

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        template = statements.LIST_ALL if status is None else statements.LIST_STATUS
        # rowid: the order of arrival, where claim times are equal.
        sql = statements.statement(template, self.table, "question").sql + ", rowid"
        parameters = () if status is None else (status.value,)
        rows = self._read(lambda connection: connection.execute(sql, parameters).fetchall())
        return [self._parsed(text) for (text,) in rows]

    def close(self) -> None:
        """Close the connections that nobody is using now. Using the store again opens new ones."""
        self._database.close()

    def _entry_of(self, connection: Connection, key: str) -> Entry | None:
        row = connection.execute(self._get, (key,)).fetchone()
        return None if row is None else self._parsed(row[0])

    def _parsed(self, text: object) -> Entry:
        entry = Entry.from_text(text) if isinstance(text, str) else None
        if entry is None:
            raise StoreError(
                f"A row of {self.table} in {self.path} holds no entry but {str(text)[:100]!r}. "
                "It was not written by a ledger; correct it by hand."
            )
        return entry

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._waited_for(lambda: self._look(work), time.monotonic() + self._timeout_seconds)

    def _write(self, work: Callable[[Connection], T], glance: Callable[[Connection], T | None] | None = None) -> T:
        """Do `work` in turn: at once where nobody else is writing or waiting, else from the queue.

        Where there is a wait, `glance` first: a key that is there already is seen without waiting.
        """
        queue = self._database.queue
        deadline = time.monotonic() + self._timeout_seconds
        seen: T | None = None
        try:
            if not queue.take_turn():
                seen = self._read(glance) if glance is not None else None
                if seen is not None:
                    return seen
                if not queue.take_turn(deadline):
                    raise self._timeout()
            if not queue.others_wait():
                try:
                    return self._change(work)
                except sqlite3.Error as error:
                    self._raise_unless_busy(error)
            seen = self._read(glance) if glance is not None else None
            if seen is not None:
                return seen
            if not queue.stand_in(deadline):
                raise self._timeout()
            return self._waited_for(lambda: self._change(work), deadline)
        finally:
            queue.leave()

    def _waited_for(self, attempt: Callable[[], T], deadline: float) -> T:
        """Look again until SQLite's own lock is free: the reference and other programs do not stand in
        our queue. Only the first of the queue comes here, so that looking often costs little."""
        pause = _LOOK_AGAIN_SECONDS
        while True:
            try:
                return attempt()
            except sqlite3.Error as error:
                self._raise_unless_busy(error)
                if time.monotonic() >= deadline:
                    raise self._timeout() from error
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # jitter is no secret
            pause = min(pause * 1.5, _LOOK_AGAIN_SECONDS_MAX)

    def _change(self, work: Callable[[Connection], T]) -> T:
        """A connection that saw an error or interrupt is closed: no transaction is ever left open. But
        busy means that none was begun."""
        connection = self._database.writer()
        try:
            return work(connection)
        except BaseException as error:
            if not is_busy(error) or connection.in_transaction:
                self._database.drop_writer()
            raise

    def _look(self, work: Callable[[Connection], T]) -> T:
        connection = self._database.lend()
        try:
            result = work(connection)
        except BaseException:
            self._database.discard(connection)
            raise
        self._database.give_back(connection)
        return result

    def _raise_unless_busy(self, error: sqlite3.Error) -> None:
        if not is_busy(error):
            raise explained(error, self.path) from error

    def _timeout(self) -> LockTimeoutError:
        return LockTimeoutError(
            f"Could not get at {self.path} within {self._timeout_seconds:g} s: another process holds the "
            "database's lock. Nothing was written; end the long transaction, or allow more time with timeout_seconds."
        )


def _together(connection: Connection, sql: str, parameters: Sequence[Sequence[str]]) -> list[bool]:
    """Every statement in one transaction. An error closes the connection, which rolls back."""
    connection.execute("BEGIN IMMEDIATE")
    applied = [connection.execute(sql, values).rowcount == 1 for values in parameters]
    connection.execute("COMMIT")
    return applied
