"""A ledger in a Postgres table, for any number of processes and machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError, SendOnceError
from send_once.stores import statements
from send_once.stores.asyncpostgrespools import AsyncGivenConnection, AsyncGivenPool, AsyncOwnPool, AsyncPool
from send_once.stores.asyncpostgrespools import execute as async_execute
from send_once.stores.base import Pair, require_encodable_key
from send_once.stores.postgrespools import GivenConnection, GivenPool, OwnPool, Pool, driver, execute
from send_once.stores.postgresql import Answer, Query, Script, Table, Tries, is_lost

T = TypeVar("T")

POOL_SIZE: Final = 10


class PostgresStore:
    """Entries in the table `table` (`name` or `schema.name`), for :class:`send_once.Ledger`.

    `source` is a connection string, a psycopg_pool.ConnectionPool, or one psycopg connection; the
    latter two in autocommit, used by nobody else for transactions meanwhile, and not closed here.
    With a string the store keeps up to `pool_size` connections, opened when first needed. A missing
    table is made on first use unless `create` is False; an existing one is never changed.

    Guarantees: a claim or transition is committed (and so on disk) before it returns True; one
    statement, one round trip, one commit each. A connection that is lost meanwhile is replaced and
    the statement repeated, in a way that tells whether it had been applied. Right behind a transaction
    pooler: statements are prepared on the server only where the session is seen to be ours alone, and
    never on connections that were made with prepare_threshold=None. Safe between threads, and after a
    fork where `source` is a string.

    Refused with UnsafeStoreError on first use: a connection inside a transaction or not in
    autocommit, a read-only session, a replica, `synchronous_commit` or `fsync` off, a table that is
    unlogged or keeps entries as json. Raises StoreError where the server cannot be reached
    within `timeout_seconds`, or vanishes while it is asked (noticed within about a minute). A server that is
    there and does not answer, behind a lock or a stalled disk, is waited for: set `statement_timeout` for
    the role to bound that; a statement it ends was not applied.
    """

    def __init__(
        self,
        source: Any,
        *,
        table: str = "send_once",
        pool_size: int = POOL_SIZE,
        timeout_seconds: float = 30.0,
        create: bool = True,
    ) -> None:
        _check(pool_size, timeout_seconds, "PostgresStore")
        self._driver_error: type[Exception] = driver().Error
        self._table = Table(statements.require_table(table, store_name="PostgresStore"))
        self._pool: Pool
        if isinstance(source, str):
            self._pool = OwnPool(
                source,
                self._table,
                size=pool_size,
                timeout_seconds=timeout_seconds,
                create=create,
            )
        elif callable(getattr(source, "getconn", None)):
            self._pool = GivenPool(source, self._table, create=create)
        elif callable(getattr(source, "execute", None)) and hasattr(source, "pgconn"):
            self._pool = GivenConnection(source, self._table, create=create)
        else:
            raise _wrong_source("PostgresStore", "ConnectionPool")

    def claim(self, entry: Entry) -> bool:
        require_encodable_key(entry.key, store_name="PostgresStore")
        return self._run(self._table.claim(entry))

    def claim_or_get(self, entry: Entry) -> bool | Entry:
        """`claim`; where it is refused, the entry in the way, in the same round trip."""
        require_encodable_key(entry.key, store_name="PostgresStore")
        return self._run(self._table.claim_or_get(entry))

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        return self._run(self._table.transition(came_from, entry))

    def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        """One statement and one commit for all."""
        for entry in entries:
            require_encodable_key(entry.key, store_name="PostgresStore")
        return self._run(self._table.claim_many(entries)) if entries else []

    def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        """One statement and one commit for all."""
        return self._run(self._table.transition_many(pairs)) if pairs else []

    def get(self, key: str) -> Entry | None:
        require_encodable_key(key, store_name="PostgresStore")
        return self._run(self._table.get(key))

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        """Reads the whole table: there is no index on status, because it would slow down every write."""
        return self._run(self._table.list(status))

    def create_table(self) -> None:
        """Make the table where it is missing. The text of the statement is `schema()`."""
        self._table.is_known = False
        self._run(self._table.create())

    def schema(self) -> str:
        """The CREATE TABLE statement, for those who make tables in migrations."""
        return self._table.schema

    def close(self) -> None:
        """Close our own connections that are not in use; not what the caller brought."""
        self._pool.close()

    def _run(self, script: Script[T]) -> T:
        advance: Any = script.send
        answer: Any = None
        while True:
            try:
                query = advance(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._ask(query)

    def _ask(self, query: Query) -> Answer:
        tries = Tries(self._table.name)
        while True:
            try:
                connection = self._pool.lend()
            except SendOnceError as error:
                tries.not_lent(error)
                continue
            try:
                rows = execute(connection, query, prepare=self._pool.prepares(connection))
            except self._driver_error as error:
                lost = is_lost(connection)
                self._pool.discard(connection) if lost else self._pool.give_back(connection)
                tries.failed(error, lost=lost)
            except BaseException:
                self._pool.discard(connection)
                raise
            else:
                self._pool.give_back(connection)
                return Answer(rows, tries.repeated)


class AsyncPostgresStore:
    """:class:`PostgresStore` for :class:`send_once.AsyncLedger`: read there.

    `source` is a connection string, a psycopg_pool.AsyncConnectionPool or a psycopg AsyncConnection.
    A call that is cancelled may or may not have been applied; its connection is closed, never lent
    again. The store may be used from one event loop after another.
    """

    def __init__(
        self,
        source: Any,
        *,
        table: str = "send_once",
        pool_size: int = POOL_SIZE,
        timeout_seconds: float = 30.0,
        create: bool = True,
    ) -> None:
        _check(pool_size, timeout_seconds, "AsyncPostgresStore")
        self._driver_error: type[Exception] = driver().Error
        self._table = Table(statements.require_table(table, store_name="AsyncPostgresStore"))
        self._pool: AsyncPool
        if isinstance(source, str):
            self._pool = AsyncOwnPool(
                source,
                self._table,
                size=pool_size,
                timeout_seconds=timeout_seconds,
                create=create,
            )
        elif callable(getattr(source, "getconn", None)):
            self._pool = AsyncGivenPool(source, self._table, create=create)
        elif callable(getattr(source, "execute", None)) and hasattr(source, "pgconn"):
            self._pool = AsyncGivenConnection(source, self._table, create=create)
        else:
            raise _wrong_source("AsyncPostgresStore", "AsyncConnectionPool")

    async def claim(self, entry: Entry) -> bool:
        require_encodable_key(entry.key, store_name="AsyncPostgresStore")
        return await self._run(self._table.claim(entry))

    async def claim_or_get(self, entry: Entry) -> bool | Entry:
        """See :meth:`PostgresStore.claim_or_get`."""
        require_encodable_key(entry.key, store_name="AsyncPostgresStore")
        return await self._run(self._table.claim_or_get(entry))

    async def transition(self, came_from: Entry, entry: Entry) -> bool:
        return await self._run(self._table.transition(came_from, entry))

    async def claim_many(self, entries: Sequence[Entry]) -> Sequence[bool]:
        """One statement and one commit for all."""
        for entry in entries:
            require_encodable_key(entry.key, store_name="AsyncPostgresStore")
        return await self._run(self._table.claim_many(entries)) if entries else []

    async def transition_many(self, pairs: Sequence[Pair]) -> Sequence[bool]:
        """One statement and one commit for all."""
        return await self._run(self._table.transition_many(pairs)) if pairs else []

    async def get(self, key: str) -> Entry | None:
        require_encodable_key(key, store_name="AsyncPostgresStore")
        return await self._run(self._table.get(key))

    async def list(self, status: Status | None = None) -> Sequence[Entry]:
        """See :meth:`PostgresStore.list`."""
        return await self._run(self._table.list(status))

    async def create_table(self) -> None:
        """See :meth:`PostgresStore.create_table`."""
        self._table.is_known = False
        await self._run(self._table.create())

    def schema(self) -> str:
        """See :meth:`PostgresStore.schema`."""
        return self._table.schema

    async def close(self) -> None:
        """See :meth:`PostgresStore.close`."""
        await self._pool.close()

    async def _run(self, script: Script[T]) -> T:
        answer: Any = None
        while True:
            try:
                query = script.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._ask(query)

    async def _ask(self, query: Query) -> Answer:
        tries = Tries(self._table.name)
        while True:
            try:
                connection = await self._pool.lend()
            except SendOnceError as error:
                tries.not_lent(error)
                continue
            try:
                rows = await async_execute(connection, query, prepare=self._pool.prepares(connection))
            except self._driver_error as error:
                lost = is_lost(connection)
                await (self._pool.discard(connection) if lost else self._pool.give_back(connection))
                tries.failed(error, lost=lost)
            except BaseException:
                await self._pool.discard(connection)
                raise
            else:
                await self._pool.give_back(connection)
                return Answer(rows, tries.repeated)


def _check(pool_size: object, timeout_seconds: object, store_name: str) -> None:
    if isinstance(pool_size, bool) or not isinstance(pool_size, int) or pool_size < 1:
        raise InvalidInputError(f"{store_name}: pool_size must be a whole number of at least 1.", field="pool_size")
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float) or not timeout_seconds > 0:
        raise InvalidInputError(f"{store_name}: timeout_seconds must be a positive number.", field="timeout_seconds")


def _wrong_source(store_name: str, pool_name: str) -> SendOnceError:
    return InvalidInputError(
        f"{store_name} needs a connection string, a psycopg_pool.{pool_name} or a psycopg connection "
        f"{'(an AsyncConnection)' if pool_name.startswith('Async') else ''}.".replace(" .", "."),
        field="source",
    )
