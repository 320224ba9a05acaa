"""A ledger in the reference's table, through a connection, pool or ORM that the caller brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from send_once.entry import Entry, Status
from send_once.errors import InvalidInputError, UnsafeStoreError
from send_once.stores import dbapi, driverresults, statements
from send_once.stores.base import require_encodable_key
from send_once.stores.statements import PLACEHOLDERS, Placeholder, Statement

QueryFunction = Callable[[str, Any], object]
"""`query(sql, parameters)`: run one statement, committed before it returns, and answer the driver's
result. Parameters are a list, or a dict where the placeholder is "named"."""

DEFAULT_TABLE: Final = "send_once"


class SQLStore:
    """Entries in the table `table`, which Node's store of the same name can share, for databases that
    know `INSERT … ON CONFLICT (key) DO NOTHING`: Postgres, SQLite, and what speaks as they do.

    `query(sql, parameters)` runs one statement and answers the driver's result (see `driverresults`
    for what can be read). `placeholder` is how that driver writes parameters: "dollar" `$1`,
    "question" `?`, "format" `%s`, or "named" `:key` with a dict.

    **Each statement must be committed, durably, before `query` returns.** Inside a transaction of
    yours that rolls back later the claim is undone after the message went out, and the next call
    sends it again. The store cannot see that through a function: give it `in_transaction`, a
    function that answers whether a transaction is open (`lambda: connection.in_transaction()` in
    SQLAlchemy, `lambda: connection.in_atomic_block` in Django), and it refuses with
    UnsafeStoreError. `SQLStore.for_connection(connection)` sees it for itself.

    Whether threads may share the store is for `query` to say.
    """

    def __init__(
        self,
        query: QueryFunction,
        placeholder: Placeholder | None = "dollar",
        table: str | None = DEFAULT_TABLE,
        *,
        in_transaction: Callable[[], bool] | None = None,
    ) -> None:
        if not callable(query):
            raise InvalidInputError("SQLStore needs a query(sql, parameters) function.", field="query")
        style = "dollar" if placeholder is None else placeholder
        if style not in PLACEHOLDERS:
            raise InvalidInputError(
                f"SQLStore: placeholder must be one of {', '.join(PLACEHOLDERS)}, got {placeholder}.",
                field="placeholder",
            )
        if in_transaction is not None and not callable(in_transaction):
            raise InvalidInputError("SQLStore: in_transaction must be a function.", field="in_transaction")
        name = statements.require_table(DEFAULT_TABLE if table is None else table, store_name="SQLStore")
        self.table = name
        self._query, self._in_transaction = query, in_transaction
        self._insert = statements.statement(statements.INSERT + statements.RETURNING, name, style)
        self._update = statements.statement(statements.UPDATE + statements.RETURNING, name, style)
        self._get = statements.statement(statements.GET, name, style)
        self._list_all = statements.statement(statements.LIST_ALL, name, style)
        self._list_status = statements.statement(statements.LIST_STATUS, name, style)

    @classmethod
    def for_connection(
        cls, connection: Any, placeholder: Placeholder | None = None, table: str = DEFAULT_TABLE
    ) -> SQLStore:
        """A store on one DB-API connection of `sqlite3`, psycopg (3 or 2) or another driver that shows
        its state. `placeholder` is the driver's own where None.

        Every statement is committed, by the connection's autocommit or else by us. Refused with
        UnsafeStoreError: a connection inside a transaction, or one that does not show whether it is;
        read-only ones and replicas; a database that does not sync every commit, or is in memory;
        and after a fork. One thread at a time uses the connection; the others wait.
        """
        return cls(dbapi.SafeConnection(connection, table).run, placeholder or dbapi.placeholder_of(connection), table)

    def claim(self, entry: Entry) -> bool:
        require_encodable_key(entry.key, store_name="SQLStore")
        return driverresults.wrote_a_row(self._run(self._insert, statements.row_of(entry)._asdict()))

    def transition(self, came_from: Entry, entry: Entry) -> bool:
        expected = {"from_status": came_from.status.value, "from_entry": came_from.text}
        values = {**statements.row_of(entry)._asdict(), **expected, "key": came_from.key}
        return driverresults.wrote_a_row(self._run(self._update, values))

    def get(self, key: str) -> Entry | None:
        require_encodable_key(key, store_name="SQLStore")
        found = driverresults.entries_in(self._run(self._get, {"key": key}))
        return found[0] if found else None

    def list(self, status: Status | None = None) -> Sequence[Entry]:
        if status is None:
            return driverresults.entries_in(self._run(self._list_all, {}))
        return driverresults.entries_in(self._run(self._list_status, {"status": status.value}))

    def schema(self) -> str:
        """The CREATE TABLE statement, the reference's own. Run it in a migration."""
        return statements.SCHEMA.format(table=self.table)

    def _run(self, statement: Statement, values: Mapping[str, str]) -> object:
        if self._in_transaction is not None and self._in_transaction():
            raise UnsafeStoreError(
                "The connection is inside a transaction. If that rolls back, the claim is undone and the message is "
                "sent again. Call the ledger outside of it, or give the store a connection of its own."
            )
        return self._query(statement.sql, statement.parameters(values))
