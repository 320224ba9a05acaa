"""A database ledger that is only looked at: nothing in it is created, upgraded or written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from urllib.parse import quote

from send_once.entry import Entry, Status
from send_once.errors import NotALedgerError, StoreError
from send_once.stores import statements


class ReadOnlySQLite:
    """The table of an existing SQLite database, for reading. Each call opens the file, and sees what is
    committed by then."""

    def __init__(self, path: str, *, table: str = "send_once") -> None:
        self._path = path
        self._table = statements.require_table(table, store_name="SQLiteStore", with_schema=False)

    def claim(self, entry: Entry) -> bool:
        raise StoreError(f"{self._path} was opened for reading; {entry.key} cannot be claimed in it.")

    def transition(self, came_from: Entry, entry: Entry) -> bool:  # noqa: ARG002  # the signature is the store's
        raise StoreError(f"{self._path} was opened for reading; {entry.key} cannot be changed in it.")

    def get(self, key: str) -> Entry | None:
        found = self._entries(" WHERE key = ?", (key,))
        return found[0] if found else None

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        # rowid: the order of arrival, where claim times are equal.
        if status is None:
            return self._entries(" ORDER BY claimed_at, rowid", ())
        return self._entries(" WHERE status = ? ORDER BY claimed_at, rowid", (status.value,))

    def pragma(self, name: str) -> Sequence[str]:
        """The rows a pragma without an argument answers, each as text."""
        return [str(row[0]) for row in self.rows(f"PRAGMA {name}", ())]

    def rows(self, sql: str, parameters: tuple[str, ...]) -> Sequence[tuple[object, ...]]:
        """What a reading statement answers; StoreError with the remedy where it cannot be read."""
        # A connection that may not write leaves its log files behind, perhaps with an owner that keeps
        # the ledger's own processes out; one that may removes them when it closes.
        mode = "rw" if os.access(self._path, os.W_OK) else "ro"
        address = f"file:{quote(os.path.abspath(self._path))}?mode={mode}"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=10)) as connection:
                connection.execute("PRAGMA query_only=ON")
                return connection.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise _explained(self._path, self._table, error) from error

    def _entries(self, condition: str, parameters: tuple[str, ...]) -> Sequence[Entry]:
        columns = self.rows(f"SELECT entry FROM {self._table}{condition}", parameters)  # noqa: S608  # checked above
        entries = [Entry.from_text(str(text)) for (text,) in columns]
        if None in entries:
            raise NotALedgerError(
                f"{self._path}: the table {self._table} has {entries.count(None)} rows whose entry is none. Nothing is "
                "reported, because they could be sends. Look at the rows and mend or remove them."
            )
        return [entry for entry in entries if entry is not None]


def _explained(path: str, table: str, error: sqlite3.Error) -> StoreError:
    if "no such table" in str(error) or "no such column" in str(error):
        return NotALedgerError(f"{path} has no ledger table {table}. Name another one with sqlite:{path}?table=NAME.")
    if "not a database" in str(error):
        return NotALedgerError(f"{path} is not a SQLite database.")
    return StoreError(f"{path} cannot be read: {error}.")
