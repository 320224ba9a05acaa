"""One DB-API connection (PEP 249) of the caller's: what it shows of its state, and one statement on it
that is committed before its result is handed on."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from typing import Any, Final, Literal

from send_once.errors import InvalidInputError, StoreError, UnsafeStoreError
from send_once.stores import postgresql
from send_once.stores.statements import Placeholder
from send_once.stores.turns import TurnQueue

State = Literal["idle", "in transaction", "not shown"]

_POSTGRES_DRIVERS: Final = ("psycopg", "psycopg2")
_KNOWN_DRIVERS: Final = ("sqlite3", *_POSTGRES_DRIVERS)
_PLACEHOLDERS: Final[dict[str, Placeholder]] = {
    "qmark": "question",
    "format": "format",
    "pyformat": "format",
    "named": "named",
}
_SQLITE_FULL: Final = 2


class SafeConnection:
    """Runs statements on a connection, one thread at a time, none of them inside a transaction."""

    def __init__(self, connection: Any, table: str) -> None:
        if not callable(getattr(connection, "cursor", None)):
            raise InvalidInputError("SQLStore.for_connection needs a DB-API connection.", field="connection")
        self._connection, self._table = connection, table
        self._turns = TurnQueue()
        self._pid = os.getpid()
        self._verified = False

    def run(self, sql: str, parameters: Any) -> list[Any]:
        """Rows, or for a statement without rows one empty row for each that was written."""
        try:
            self._turns.acquire(threading.TIMEOUT_MAX)
            self._require_usable()
            return self._committed(sql, parameters)
        finally:
            self._turns.release()

    def _require_usable(self) -> None:
        if self._pid != os.getpid():
            raise UnsafeStoreError(
                "This connection was opened before the process forked; two processes on one connection mix up each "
                "other's answers. Open one after the fork."
            )
        state = state_of(self._connection)
        if state == "in transaction":
            raise UnsafeStoreError(
                "This connection is inside a transaction. If that rolls back, the claim is undone and the message is "
                "sent again. Commit first, or give the store a connection of its own."
            )
        if state == "not shown":
            raise UnsafeStoreError(
                f"A {type(self._connection).__module__} connection does not show whether it is inside a transaction. "
                "Use SQLStore(query, in_transaction=...) with a function that tells."
            )
        if not self._verified:
            self._verify()
            self._verified = True

    def _verify(self) -> None:
        driver = driver_name(self._connection)
        if driver == "sqlite3":
            _require_durable_sqlite(self._connection)
        elif driver in _POSTGRES_DRIVERS:
            row = self._committed(postgresql.LOOK, (self._table, self._table))[0]
            values = list(row.values()) if isinstance(row, dict) else list(row)
            postgresql.require_safe(values, self._table, create=False)

    def _committed(self, sql: str, parameters: Any) -> list[Any]:
        connection = self._connection
        try:
            cursor = connection.cursor()
            try:
                cursor.execute(sql, parameters)
                rows = list(cursor.fetchall()) if cursor.description else [()] * max(0, cursor.rowcount)
            finally:
                cursor.close()
            if state_of(connection) == "in transaction":
                connection.commit()
        except BaseException:
            # Nothing of ours may stay open on the caller's connection.
            if state_of(connection) == "in transaction":
                connection.rollback()
            raise
        if state_of(connection) == "in transaction":
            raise StoreError("The statement could not be committed: the connection still is inside a transaction.")
        return rows


def driver_name(connection: Any) -> str:
    """The package whose class the connection's is, or derives from: "sqlite3", "psycopg", …"""
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    return next((package for package in packages if package in _KNOWN_DRIVERS), packages[0])


def placeholder_of(connection: Any) -> Placeholder:
    """How this connection's driver writes parameters (PEP 249 `paramstyle`)."""
    module = sys.modules.get(driver_name(connection))
    style = _PLACEHOLDERS.get(getattr(module, "paramstyle", ""))
    if style is None:
        raise InvalidInputError(
            f"The parameter style of {driver_name(connection)} is not known; pass placeholder=.", field="placeholder"
        )
    return style


def state_of(connection: Any) -> State:
    """Whether a transaction is open, where the driver shows it."""
    in_transaction = getattr(connection, "in_transaction", None)
    if isinstance(in_transaction, bool):
        return "in transaction" if in_transaction else "idle"
    status = _libpq_status(connection)
    if status is not None:
        return "idle" if status == postgresql.IDLE else "in transaction"
    return "not shown"


def _libpq_status(connection: Any) -> int | None:
    """psycopg: `info.transaction_status`; psycopg2 has that, and `get_transaction_status()`."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return int(status) if isinstance(status, int) else None


def _require_durable_sqlite(connection: sqlite3.Connection) -> None:
    cursor = connection.cursor()
    cursor.row_factory = None
    files = [file for _, name, file in cursor.execute("PRAGMA database_list") if name == "main"]
    query_only = cursor.execute("PRAGMA query_only").fetchone()
    synchronous = cursor.execute("PRAGMA synchronous").fetchone()
    cursor.close()
    if not any(files):
        raise UnsafeStoreError("This SQLite database is in memory and gone with its process. Use MemoryStore.")
    if query_only == (1,):
        raise UnsafeStoreError("This SQLite connection is read-only (query_only): no claim can be kept.")
    if synchronous[0] < _SQLITE_FULL:
        raise UnsafeStoreError(
            "This SQLite connection does not sync every commit, so that a power cut can undo a claim whose message "
            "has gone out. Run PRAGMA synchronous = FULL on it first."
        )
