"""Connections to Postgres for asyncio code; the same kinds and rules as in `postgrespools`.

What is of no more use is closed by libpq's own call, which waits for nothing, so that a cancelled
task can do it too.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import Any, Protocol

from send_once.stores import postgresql
from send_once.stores.postgrespools import (
    IdleConnections,
    cannot_connect,
    connection_settings,
    driver,
    forked_with_connection,
    no_connection_free,
    require_autocommit,
    require_open,
    seems_alive,
)
from send_once.stores.postgresql import Query, Table


class AsyncPool(Protocol):
    """Lends connections to one task each."""

    async def lend(self) -> Any: ...
    async def give_back(self, connection: Any) -> None: ...
    async def discard(self, connection: Any) -> None: ...
    async def close(self) -> None: ...
    def prepares(self, connection: Any) -> bool: ...


class AsyncOwnPool:
    """At most `size` connections of our own. Another event loop, or a forked child, gets its own: a
    connection belongs to the loop in which it was opened."""

    def __init__(self, conninfo: str, table: Table, *, size: int, timeout_seconds: float, create: bool) -> None:
        self._settings = connection_settings(conninfo, timeout_seconds)
        self._table, self._size, self._create = table, size, create
        self._timeout_seconds = timeout_seconds
        self._inherited: list[IdleConnections] = []
        self._prepares: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._loop: Any = None
        self._idle = IdleConnections()
        self._places = asyncio.Semaphore(size)

    async def lend(self) -> Any:
        if self._loop is not asyncio.get_running_loop() or self._idle.pid != os.getpid():
            self._start_anew()
        try:
            await asyncio.wait_for(self._places.acquire(), self._timeout_seconds)
        except TimeoutError:
            raise no_connection_free(self._size, self._timeout_seconds) from None
        try:
            return self._idle.take() or await self._open()
        except BaseException:
            self._places.release()
            raise

    async def give_back(self, connection: Any) -> None:
        self._idle.put(connection)
        self._places.release()

    async def discard(self, connection: Any) -> None:
        connection.pgconn.finish()
        self._places.release()

    async def close(self) -> None:
        """Close those that nobody is using. The pool opens new ones when it is used again."""
        self._idle.close()

    def prepares(self, connection: Any) -> bool:
        return self._prepares[connection]

    def _start_anew(self) -> None:
        self._idle.close()
        # Where they are a parent's, that left them open: to close them here would end its sessions.
        self._inherited.append(self._idle)
        self._loop = asyncio.get_running_loop()
        self._idle, self._places = IdleConnections(), asyncio.Semaphore(self._size)

    async def _open(self) -> Any:
        psycopg = driver()
        try:
            connection = await psycopg.AsyncConnection.connect(**self._settings, autocommit=True)
        except psycopg.OperationalError as error:
            raise cannot_connect(error) from error
        try:
            self._prepares[connection] = await verify(connection, self._table, create=self._create)
        except BaseException:
            connection.pgconn.finish()
            raise
        return connection


class AsyncGivenPool:
    """A pool of the caller's, with `getconn` and `putconn` as in psycopg_pool."""

    def __init__(self, pool: Any, table: Table, *, create: bool) -> None:
        self._pool, self._table, self._create = pool, table, create
        self._prepares: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    async def lend(self) -> Any:
        connection = await self._taken()
        try:
            while not seems_alive(connection):
                await self.discard(connection)
                connection = await self._taken()
            require_autocommit(connection)
            if connection not in self._prepares:
                self._prepares[connection] = await verify(connection, self._table, create=self._create)
        except BaseException:
            await self._pool.putconn(connection)
            raise
        return connection

    async def give_back(self, connection: Any) -> None:
        await self._pool.putconn(connection)

    async def discard(self, connection: Any) -> None:
        connection.pgconn.finish()
        await self._pool.putconn(connection)

    async def close(self) -> None:
        """It is the caller's."""

    def prepares(self, connection: Any) -> bool:
        return self._prepares[connection]

    async def _taken(self) -> Any:
        psycopg = driver()
        try:
            return await self._pool.getconn()
        except psycopg.OperationalError as error:
            raise cannot_connect(error) from error


class AsyncGivenConnection:
    """One connection of the caller's, for one task at a time. It is closed only when a call on it was
    cancelled: it must not be used any more then."""

    def __init__(self, connection: Any, table: Table, *, create: bool) -> None:
        self._connection, self._table, self._create = connection, table, create
        self._lock = asyncio.Lock()
        self._pid = os.getpid()
        self._prepares: bool | None = None

    async def lend(self) -> Any:
        if self._pid != os.getpid():
            raise forked_with_connection()
        await self._lock.acquire()
        try:
            require_open(self._connection)
            require_autocommit(self._connection)
            if self._prepares is None:
                self._prepares = await verify(self._connection, self._table, create=self._create)
        except BaseException:
            self._lock.release()
            raise
        return self._connection

    async def give_back(self, _connection: Any) -> None:
        self._lock.release()

    async def discard(self, connection: Any) -> None:
        connection.pgconn.finish()
        self._lock.release()

    async def close(self) -> None:
        """It is the caller's."""

    def prepares(self, _connection: Any) -> bool:
        return bool(self._prepares)


async def verify(connection: Any, table: Table, *, create: bool) -> bool:
    """As in `postgrespools`."""
    psycopg = driver()
    look, was_known = table.look(), table.is_known  # before the look: another connection may make it meanwhile
    try:
        (row,) = await execute(connection, look)
        postgresql.require_safe(row, table.name, create=create, was_known=was_known)
        if postgresql.is_missing(row):
            await _create(connection, table)
            (row,) = await execute(connection, look)
            postgresql.require_safe(row, table.name, create=False)
    except psycopg.Error as error:
        raise postgresql.failure(error, error.sqlstate, lost=bool(connection.closed), table=table.name) from error
    table.is_known = True
    return postgresql.may_prepare(row, connection)


async def execute(connection: Any, query: Query, *, prepare: bool = False) -> list[tuple[Any, ...]]:
    """As in `postgrespools`."""
    cursor = driver().AsyncCursor(connection, row_factory=driver().rows.tuple_row)
    await cursor.execute(query.sql, query.parameters, prepare=prepare)
    return await cursor.fetchall() if cursor.description else []


async def _create(connection: Any, table: Table) -> None:
    psycopg = driver()
    try:
        await execute(connection, Query(table.schema))
    except psycopg.Error as error:
        if not postgresql.made_by_another(error.sqlstate):
            raise
