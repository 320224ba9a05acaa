"""What is asked of a Postgres server, and what its answers mean; the same for plain and async code.

Scripts yield a :class:`Query` and are sent the :class:`Answer`. Every query is one statement in
autocommit and needs nothing of the session it runs in, so that a transaction pooler may stand
between: no SET, no advisory lock, no LISTEN, no temporary table. Statements are prepared on the
server only where nobody stands between.

A query may be repeated. When the connection is lost nobody can tell whether the statement was
applied, but a repetition answers it: a claim that stands there with our own text is ours, and so
is a transition after which the entry has the very text that was to be written.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from send_once.entry import Entry, Status
from send_once.errors import LockTimeoutError, NotALedgerError, SendOnceError, StoreError, UnsafeStoreError
from send_once.stores import statements
from send_once.stores.base import Pair

T = TypeVar("T")

TRIES_MAX: Final = 5
"""How often one statement is tried while Postgres says that it collided with another one."""

LOST_MAX: Final = 2
"""How many connections may be lost over one statement before it is reported."""

IDLE: Final = 0
"""libpq's PQTRANS_IDLE: no transaction is open."""

_ABSENT: Final = object()
_COLUMNS: Final = ("key", "status", "entry", "claimed_at", "updated_at")
_OTHER_KINDS: Final = {"v": "view", "m": "materialised view", "f": "foreign table"}
_TEXT_TYPES: Final = ("text", "character varying")
_COLLIDED: Final = ("40001", "40P01")
_MADE_BY_ANOTHER: Final = ("23505", "42P07", "42710")

CLAIM_OR_GET: Final = (
    f"WITH claimed AS ({statements.INSERT} RETURNING key) "  # noqa: S608  # put together from constants
    "SELECT NULL FROM claimed UNION ALL SELECT entry FROM {table} WHERE key = :key"
)
CLAIM_MANY: Final = (
    # In order of key: two batches that overlap then wait for each other instead of deadlocking.
    "INSERT INTO {table} (key, status, entry, claimed_at, updated_at) "
    "SELECT * FROM unnest(:key::text[], :status::text[], :entry::text[], :claimed_at::text[], :updated_at::text[]) "
    "AS new (key, status, entry, claimed_at, updated_at) ORDER BY key ON CONFLICT (key) DO NOTHING RETURNING key"
)
TRANSITION_MANY: Final = (
    "UPDATE {table} AS old SET status = new.status, entry = new.entry, claimed_at = new.claimed_at, "
    "updated_at = new.updated_at FROM unnest(:status::text[], :entry::text[], :claimed_at::text[], "
    ":updated_at::text[], :key::text[], :from_status::text[], :from_entry::text[]) "
    "AS new (status, entry, claimed_at, updated_at, key, from_status, from_entry) "
    "WHERE old.key = new.key AND old.status = new.from_status AND old.entry = new.from_entry RETURNING old.key"
)
GET_MANY: Final = "SELECT key, entry FROM {table} WHERE key = ANY(:key::text[])"
# By octets, as everywhere else, not by the rules of some language; ctid: as they came, as far as it can be known.
BY_CLAIM: Final = ' COLLATE "C", ctid'
LOOK: Final = """WITH RECURSIVE tree (oid) AS (SELECT to_regclass(%s)::oid
  UNION SELECT inhrelid FROM pg_inherits JOIN tree ON inhparent = tree.oid)
SELECT current_setting('transaction_read_only') AS read_only, pg_is_in_recovery() AS in_recovery,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
  (SELECT max(relpersistence::text) FROM pg_class JOIN tree USING (oid)) AS persistence,
  (SELECT json_object_agg(attname, format_type(atttypid, NULL)) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped) AS columns,
  pg_backend_pid() AS backend_pid,
  (SELECT string_agg(DISTINCT relkind::text, '') FROM pg_class JOIN tree USING (oid)) AS kinds"""
"""Of a partitioned table every partition is looked at; in `persistence` the least durable one decides."""


class ConnectionLostError(StoreError):
    """The connection died before the answer came."""


class Query(NamedTuple):
    sql: str
    parameters: Sequence[object] = ()


class Answer(NamedTuple):
    """`repeated`: an earlier try was lost on the way and may have been applied."""

    rows: Sequence[Sequence[Any]]
    repeated: bool = False


Script = Generator[Query, Answer, T]


class Table:
    """The statements for one table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_known = False
        """Whether it has been seen. It is not made a second time: an empty one would let everything go again."""
        self._insert = self._sql(statements.INSERT + statements.RETURNING)
        self._insert_or_look = self._sql(CLAIM_OR_GET)
        self._insert_many = self._sql(CLAIM_MANY)
        self._update = self._sql(statements.UPDATE + statements.RETURNING)
        self._update_many = self._sql(TRANSITION_MANY)
        self._get = self._sql(statements.GET)
        self._get_many = self._sql(GET_MANY)
        self._list_all = self._sql(statements.LIST_ALL) + BY_CLAIM
        self._list_status = self._sql(statements.LIST_STATUS) + BY_CLAIM
        self.schema = statements.SCHEMA.format(table=name)

    def claim(self, entry: Entry) -> Script[bool]:
        answer = yield Query(self._insert, statements.row_of(entry))
        if answer.rows or not answer.repeated:
            return bool(answer.rows)
        return (yield from self._stands_there(entry))

    def claim_or_get(self, entry: Entry) -> Script[bool | Entry]:
        """True, or the entry that was in the way when the statement began; False where the other claim
        was committed while it ran, and so is not in its snapshot."""
        answer = yield Query(self._insert_or_look, (*statements.row_of(entry), entry.key))
        texts = [row[0] for row in answer.rows]
        if None in texts:
            return True
        if not texts:
            return False
        return texts[0] == entry.text or self._parsed(texts[0])

    def claim_many(self, entries: Sequence[Entry]) -> Script[Sequence[bool]]:
        columns = _columns([statements.row_of(entry) for entry in entries])
        answer = yield Query(self._insert_many, columns)
        return (yield from self._which_stand(answer, entries))

    def transition(self, came_from: Entry, entry: Entry) -> Script[bool]:
        answer = yield Query(self._update, statements.update_values(came_from, entry))
        if answer.rows or not answer.repeated:
            return bool(answer.rows)
        return (yield from self._stands_there(entry))

    def transition_many(self, pairs: Sequence[Pair]) -> Script[Sequence[bool]]:
        columns = _columns([statements.update_values(came_from, entry) for came_from, entry in pairs])
        answer = yield Query(self._update_many, columns)
        return (yield from self._which_stand(answer, [entry for _, entry in pairs]))

    def get(self, key: str) -> Script[Entry | None]:
        answer = yield Query(self._get, (key,))
        return self._parsed(answer.rows[0][0]) if answer.rows else None

    def list(self, status: Status | None) -> Script[Sequence[Entry]]:
        query = Query(self._list_all) if status is None else Query(self._list_status, (status.value,))
        answer = yield query
        return [self._parsed(row[0]) for row in answer.rows]

    def create(self) -> Script[None]:
        yield Query(self.schema)

    def look(self) -> Query:
        """The settings and the table, as :func:`require_safe` judges them."""
        return Query(LOOK, (self.name, self.name))

    def _stands_there(self, entry: Entry) -> Script[bool]:
        answer = yield Query(self._get, (entry.key,))
        return bool(answer.rows) and answer.rows[0][0] == entry.text

    def _which_stand(self, answer: Answer, entries: Sequence[Entry]) -> Script[Sequence[bool]]:
        written = {row[0] for row in answer.rows}
        if not answer.repeated:
            return [entry.key in written for entry in entries]
        stored = yield Query(self._get_many, ([entry.key for entry in entries],))
        texts = {row[0]: row[1] for row in stored.rows}
        return [entry.key in written or texts.get(entry.key, _ABSENT) == entry.text for entry in entries]

    def _parsed(self, text: object) -> Entry:
        entry = Entry.from_text(text) if isinstance(text, str) else None
        if entry is None:
            raise StoreError(
                f"A row of {self.name} holds no entry but {str(text)[:100]!r}. "
                "It was not written by a ledger; correct it by hand."
            )
        return entry

    def _sql(self, template: str) -> str:
        return statements.statement(template, self.name, "format").sql


def is_missing(row: Sequence[Any]) -> bool:
    """Whether the answer to :meth:`Table.look` says that there is no such table."""
    return row[4] is None


def may_prepare(row: Sequence[Any], connection: Any) -> bool:
    """Whether statements may be prepared: only in a session that is ours alone, for there a name means
    what we prepared. A pooler tells its clients another process number than the server's own."""
    return bool(row[6] == connection.info.backend_pid and connection.prepare_threshold is not None)


def require_safe(row: Sequence[Any], table: str, *, create: bool, was_known: bool = False) -> None:
    """Refuse a server, session or table on which a claim would be refused, lost or misread. `was_known`:
    the table has been seen before, and is not to be made anew."""
    read_only, in_recovery, synchronous_commit, fsync, persistence, columns, _, kinds = row
    if in_recovery:
        raise UnsafeStoreError(
            "This Postgres server is a replica (in recovery): it cannot take a claim, and what it shows may be old. "
            "Connect to the primary, for example with target_session_attrs=read-write."
        )
    if read_only == "on":
        raise UnsafeStoreError(
            "This Postgres session is read-only (transaction_read_only = on): no claim can be kept. Connect with a "
            "role or database whose default_transaction_read_only is off."
        )
    if synchronous_commit == "off":
        raise UnsafeStoreError(
            "synchronous_commit is off: a commit is answered before it is on disk, and a crash can undo a claim whose "
            "message has gone out. Set it to on for this role or database (ALTER ROLE … SET synchronous_commit = on)."
        )
    if fsync == "off":
        raise UnsafeStoreError("This Postgres server runs with fsync = off: a power cut can undo claims. Turn it on.")
    if persistence is None and was_known:
        raise UnsafeStoreError(
            f"The table {table} was dropped while it was in use. A new, empty one would allow every message to be sent "
            "again: bring it back, or restart this program if that is what you want."
        )
    if persistence is None and not create:
        raise NotALedgerError(f"There is no table {table}. Make it with create_table(), or use another table=.")
    if persistence in ("u", "t"):
        kind = "UNLOGGED" if persistence == "u" else "TEMPORARY"
        raise UnsafeStoreError(
            f"{table} is a {kind} table, or has a partition that is one: a crash empties it, and every message could "
            "be sent again."
        )
    for kind in kinds or "":
        if kind in _OTHER_KINDS:
            raise UnsafeStoreError(
                f"{table} is a {_OTHER_KINDS[kind]}: what keeps the entries behind it cannot be judged from here. "
                "Name the table itself with table=."
            )
    if columns is not None:
        _require_columns(columns, table)


def failure(error: BaseException, sqlstate: str | None, *, lost: bool, table: str) -> StoreError:
    """The driver's error, as one of ours that says what happened and what to do."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if lost:
        return ConnectionLostError(
            f"The connection to Postgres was lost ({text}). Whether the last statement was applied is not known; "
            "the entry tells."
        )
    if sqlstate is None:
        return StoreError(f"psycopg could not do this: {text} ({type(error).__name__}).")
    if sqlstate == "25006":
        return UnsafeStoreError(
            f"Postgres is read-only for this session ({text}). Connect to the primary. Nothing was written."
        )
    if sqlstate in ("42P01", "3F000"):
        return NotALedgerError(f"There is no table {table} ({text}). Make it with create_table(). Nothing was written.")
    if sqlstate == "42P10":
        return UnsafeStoreError(
            f"{table} has no PRIMARY KEY or UNIQUE constraint on key: the same key could be claimed twice."
        )
    if sqlstate == "55P03":
        return LockTimeoutError(f"Another session holds {table} locked ({text}). Nothing was written.")
    if sqlstate in ("26000", "42P05"):
        return StoreError(
            f"A prepared statement got lost or mixed up ({text}), as happens behind a transaction pooler. Nothing was "
            "written. Use connections with prepare_threshold=None."
        )
    if sqlstate == "42501":
        return StoreError(f"{text} (grant SELECT, INSERT and UPDATE on {table}). Nothing was written.")
    return StoreError(f"Postgres refused: {text} (SQLSTATE {sqlstate}). Nothing was written.")


class Tries:
    """What became of the tries of one statement so far, and whether there is to be another."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._collisions = 0
        self._losses = 0
        self.repeated = False
        """Whether a try may have been applied whose answer was lost."""

    def not_lent(self, error: SendOnceError) -> None:
        """No connection was to be had. Raises unless a new one was lost while it was being opened."""
        self._losses += 1
        if isinstance(error, ConnectionLostError) and self._losses <= LOST_MAX:
            return
        if self.repeated:
            # No later error can say that nothing was written.
            raise failure(error, None, lost=True, table=self._table) from error
        raise error

    def failed(self, error: Any, *, lost: bool) -> None:
        """The driver raised `error`. Raises unless the statement should be tried again: after a
        collision, which undid it, or on another connection."""
        if lost:
            self.repeated = True
            self._losses += 1
            again = self._losses <= LOST_MAX
        else:
            self._collisions += 1
            again = error.sqlstate in _COLLIDED and self._collisions < TRIES_MAX
        if not again:
            raise failure(error, error.sqlstate, lost=lost or self.repeated, table=self._table) from error


def is_lost(connection: Any) -> bool:
    """Whether a connection is of no more use: gone, or left in a state that we did not ask for."""
    return bool(connection.closed) or connection.pgconn.transaction_status != IDLE


def made_by_another(sqlstate: str | None) -> bool:
    """CREATE TABLE IF NOT EXISTS itself collides when two run at once; then the table is there."""
    return sqlstate in _MADE_BY_ANOTHER


def _columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _require_columns(columns: dict[str, str], table: str) -> None:
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise NotALedgerError(f"The table {table} lacks {', '.join(missing)}: it is not a ledger.")
    if columns["entry"] in ("json", "jsonb"):
        raise UnsafeStoreError(
            f"{table}.entry is of type {columns['entry']}, which does not keep the text of an entry as it was written, "
            "so that writes could not be compared with what they replace. Make it TEXT."
        )
    other = [f"{name} ({columns[name]})" for name in _COLUMNS if columns[name] not in _TEXT_TYPES]
    if other:
        raise UnsafeStoreError(f"In {table}, these columns must be of type TEXT: {', '.join(other)}.")
