"""Every store by name, at an address."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

import send_once
from send_once import Store

PATIENCE_SECONDS = 120
"""The races are about who sends. Beside other work two hundred threads on two cores may keep one waiting for longer
than the stores' own limits, which then say so and lose nothing."""


def open_store(kind: str, address: str) -> Store:
    match kind:
        case "file":
            return send_once.FileStore(address, lock_timeout_seconds=PATIENCE_SECONDS)
        case "sqlite":
            return send_once.SQLiteStore(address, timeout_seconds=PATIENCE_SECONDS)
        case "postgres":
            return send_once.PostgresStore(address, timeout_seconds=PATIENCE_SECONDS)
        case "sql":
            return send_once.SQLStore(SQLiteQuery(address), placeholder="question")
    raise LookupError(kind)


class SQLiteQuery:
    """A caller's own query function over sqlite3: one connection for each process and thread."""

    def __init__(self, path: str) -> None:
        self._path, self._mine = path, threading.local()

    def __call__(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        return self._connection().execute(sql, parameters)

    def _connection(self) -> sqlite3.Connection:
        if getattr(self._mine, "pid", None) != os.getpid():
            self._mine.connection = sqlite3.connect(self._path, timeout=PATIENCE_SECONDS, isolation_level=None)
            self._mine.connection.execute("PRAGMA synchronous = FULL")
            self._mine.pid = os.getpid()
        connection: sqlite3.Connection = self._mine.connection
        return connection
