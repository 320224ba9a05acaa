"""Connections to Postgres for plain code: our own, a pool's, or a single one that the caller brings.

Each pool lends connections that are alive as far as can be seen without asking the server, idle,
in autocommit, and whose server was found fit for a ledger when the connection was first lent.
Nothing is opened before the first use, and no thread is started.
"""

from __future__ import annotations

import functools
import os
import select
import threading
import time
import weakref
from typing import Any, Final, Protocol

from send_once.errors import InvalidInputError, StoreError, UnsafeStoreError
from send_once.stores import postgresql
from send_once.stores.postgresql import IDLE, Query, Table
from send_once.stores.turns import TurnQueue, calling

IDLE_SECONDS_MAX: Final = 300.0
"""A connection idle for longer is replaced: what stands between may have forgotten it silently."""

_CONNECTION_DEFAULTS: Final[dict[str, str | int]] = {
    # Without these a server that vanished from the network is waited for as long as the system likes.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "fallback_application_name": "send-once",
}


class Pool(Protocol):
    """Lends connections to one call each: the one that gives it back, or that ends without doing so."""

    def lend(self) -> Any: ...
    def give_back(self, connection: Any) -> None: ...
    def discard(self, connection: Any) -> None: ...
    def close(self) -> None: ...
    def prepares(self, connection: Any) -> bool: ...


class IdleConnections:
    """Connections that nobody is using, the last used first. Only for the process that opened them; closed
    when their pool is garbage, or the process ends."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, float]] = []
        self.pid = os.getpid()
        weakref.finalize(self, _finish_all, self._kept, self.pid)

    def put(self, connection: Any) -> None:
        self._kept.append((connection, time.monotonic()))

    def take(self) -> Any:
        """One that is alive as far as can be seen, or None."""
        while True:
            try:
                connection, since = self._kept.pop()
            except IndexError:
                return None
            if time.monotonic() - since < IDLE_SECONDS_MAX and seems_alive(connection):
                return connection
            connection.pgconn.finish()

    def close(self) -> None:
        _finish_all(self._kept, self.pid)


class OwnPool:
    """At most `size` connections of our own. A forked child opens its own."""

    def __init__(self, conninfo: str, table: Table, *, size: int, timeout_seconds: float, create: bool) -> None:
        self._settings = connection_settings(conninfo, timeout_seconds)
        self._table, self._size, self._create = table, size, create
        self._timeout_seconds = timeout_seconds
        self._inherited: list[IdleConnections] = []
        self._prepares: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._start()
        _own_pools.add(self)

    def lend(self) -> Any:
        call = calling(1)
        if not self._places.acquire(self._timeout_seconds, call):
            raise no_connection_free(self._size, self._timeout_seconds)
        try:
            return self._idle.take() or self._open()
        except BaseException:
            self._places.release(call)
            raise

    def give_back(self, connection: Any) -> None:
        self._idle.put(connection)
        self._places.release(calling(1))

    def discard(self, connection: Any) -> None:
        connection.close()
        self._places.release(calling(1))

    def close(self) -> None:
        """Close those that nobody is using. The pool opens new ones when it is used again."""
        self._idle.close()

    def prepares(self, connection: Any) -> bool:
        return self._prepares[connection]

    def after_fork_in_child(self) -> None:
        """Begin anew, while the child has one thread only. The parent's sockets are kept, unused: to
        close them here would end its sessions."""
        self._inherited.append(self._idle)
        self._start()

    def _start(self) -> None:
        self._idle = IdleConnections()
        self._places = TurnQueue(self._size)

    def _open(self) -> Any:
        psycopg = driver()
        try:
            connection = psycopg.connect(**self._settings, autocommit=True)
        except psycopg.OperationalError as error:
            raise cannot_connect(error) from error
        try:
            self._prepares[connection] = verify(connection, self._table, create=self._create)
        except BaseException:
            connection.close()
            raise
        return connection


_own_pools: Final[weakref.WeakSet[OwnPool]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pool in list(_own_pools):
        pool.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


class GivenPool:
    """A pool of the caller's, with `getconn` and `putconn` as in psycopg_pool. Its forks are his affair."""

    def __init__(self, pool: Any, table: Table, *, create: bool) -> None:
        self._pool, self._table, self._create = pool, table, create
        self._prepares: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def lend(self) -> Any:
        connection = self._taken()
        try:
            while not seems_alive(connection):
                connection.close()
                self._pool.putconn(connection)
                connection = self._taken()
            require_autocommit(connection)
            if connection not in self._prepares:
                self._prepares[connection] = verify(connection, self._table, create=self._create)
        except BaseException:
            self._pool.putconn(connection)
            raise
        return connection

    def give_back(self, connection: Any) -> None:
        self._pool.putconn(connection)

    def discard(self, connection: Any) -> None:
        connection.close()
        self._pool.putconn(connection)

    def close(self) -> None:
        """It is the caller's."""

    def prepares(self, connection: Any) -> bool:
        return self._prepares[connection]

    def _taken(self) -> Any:
        psycopg = driver()
        try:
            return self._pool.getconn()
        except psycopg.OperationalError as error:
            raise cannot_connect(error) from error


class GivenConnection:
    """One connection of the caller's, for one thread at a time; never closed by us."""

    def __init__(self, connection: Any, table: Table, *, create: bool) -> None:
        self._connection, self._table, self._create = connection, table, create
        self._turns = TurnQueue()
        self._pid = os.getpid()
        self._prepares: bool | None = None

    def lend(self) -> Any:
        if self._pid != os.getpid():
            raise forked_with_connection()
        call = calling(1)
        self._turns.acquire(threading.TIMEOUT_MAX, call)
        try:
            require_open(self._connection)
            require_autocommit(self._connection)
            if self._prepares is None:
                self._prepares = verify(self._connection, self._table, create=self._create)
        except BaseException:
            self._turns.release(call)
            raise
        return self._connection

    def give_back(self, _connection: Any) -> None:
        self._turns.release(calling(1))

    def discard(self, _connection: Any) -> None:
        self._turns.release(calling(1))

    def close(self) -> None:
        """It is the caller's."""

    def prepares(self, _connection: Any) -> bool:
        return bool(self._prepares)


@functools.cache
def driver() -> Any:
    """psycopg, or an ImportError that says how to get it."""
    try:
        import psycopg
    except ImportError as error:
        raise ImportError("This store needs psycopg 3: pip install 'send-once[postgres]'.") from error
    return psycopg


def connection_settings(conninfo: str, timeout_seconds: float) -> dict[str, Any]:
    """The caller's settings, over defaults that notice a server which is gone."""
    psycopg = driver()
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise InvalidInputError(
            f"PostgresStore: not a connection string: {str(error).strip()}", field="conninfo"
        ) from error
    return {**_CONNECTION_DEFAULTS, "connect_timeout": max(2, round(timeout_seconds)), **given}


def seems_alive(connection: Any) -> bool:
    """Whether the server has not hung up, without asking it: an idle connection has nothing to read
    unless the server said goodbye."""
    if connection.closed:
        return False
    readable = select.poll()
    readable.register(connection.fileno(), select.POLLIN)
    return not readable.poll(0)


def require_open(connection: Any) -> None:
    if connection.closed:
        raise StoreError("The connection that was given to the store is closed. Make a new store with a new one.")


def require_autocommit(connection: Any) -> None:
    """Refuse a connection on which a claim would be part of somebody's transaction: rolled back, it
    would be undone after the message went out."""
    if connection.pgconn.transaction_status != IDLE:
        raise UnsafeStoreError(
            "This connection is inside a transaction. If that rolls back, the claim is undone and the message sent "
            "again. Give the store a connection of its own, in autocommit."
        )
    if not connection.autocommit:
        raise UnsafeStoreError(
            "This connection is not in autocommit, so that a claim would not be committed before the send. Make the "
            "pool with kwargs={'autocommit': True}, or set connection.autocommit = True."
        )


def verify(connection: Any, table: Table, *, create: bool) -> bool:
    """Look at the server, session and table; make the table where it is missing and `create` allows.
    Answers whether statements may be prepared in this session."""
    psycopg = driver()
    look, was_known = table.look(), table.is_known  # before the look: another connection may make it meanwhile
    try:
        (row,) = execute(connection, look)
        postgresql.require_safe(row, table.name, create=create, was_known=was_known)
        if postgresql.is_missing(row):
            _create(connection, table)
            (row,) = execute(connection, look)
            postgresql.require_safe(row, table.name, create=False)
    except psycopg.Error as error:
        raise postgresql.failure(error, error.sqlstate, lost=bool(connection.closed), table=table.name) from error
    table.is_known = True
    return postgresql.may_prepare(row, connection)


def execute(connection: Any, query: Query, *, prepare: bool = False) -> list[tuple[Any, ...]]:
    """One statement, with a cursor that does not depend on how the caller set up his connection."""
    cursor = driver().Cursor(connection, row_factory=driver().rows.tuple_row)
    cursor.execute(query.sql, query.parameters, prepare=prepare)
    return cursor.fetchall() if cursor.description else []


def _create(connection: Any, table: Table) -> None:
    psycopg = driver()
    try:
        execute(connection, Query(table.schema))
    except psycopg.Error as error:
        if not postgresql.made_by_another(error.sqlstate):
            raise


def cannot_connect(error: BaseException) -> StoreError:
    return StoreError(f"Could not connect to Postgres: {str(error).strip()} Nothing was written by this connection.")


def no_connection_free(size: int, timeout_seconds: float) -> StoreError:
    return StoreError(
        f"None of the {size} connections came free within {timeout_seconds:g} s. This statement was not tried; "
        "allow more with pool_size."
    )


def forked_with_connection() -> UnsafeStoreError:
    return UnsafeStoreError(
        "This connection was opened before the process forked; two processes on one connection mix up each other's "
        "answers. Give the store a connection string, or make it after the fork."
    )


def _finish_all(kept: list[tuple[Any, float]], pid: int) -> None:
    while kept and pid == os.getpid():
        connection, _ = kept.pop()
        connection.pgconn.finish()
