"""What `doctor` looks at in a PostgreSQL ledger: one connection, reading only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from send_once.commands.doctor_sqlite import rows_finding
from send_once.commands.findings import Finding
from send_once.errors import StoreError
from send_once.stores.postgrespools import driver
from send_once.stores.statements import require_table

SETTINGS: Final = """
SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
       current_setting('full_page_writes'), pg_is_in_recovery()::text, current_setting('default_transaction_read_only'),
       current_setting('synchronous_standby_names')"""
NAMES: Final = (
    "version", "synchronous_commit", "fsync", "full_page_writes", "in_recovery", "read_only", "standbys",
)  # fmt: skip
COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
KEY_INDEXES: Final = """
SELECT count(*) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indrelid = to_regclass(%s) AND indisunique AND indnkeyatts = 1 AND indpred IS NULL AND attname = 'key'"""
EXPECTED_COLUMNS: Final = ("key", "status", "entry", "claimed_at", "updated_at")


def examine(conninfo: str, table: str) -> Sequence[Finding]:
    """Findings about the table of the database. Raises StoreError where it cannot be asked."""
    require_table(table, store_name="PostgresStore")
    psycopg = driver()
    try:
        with psycopg.connect(conninfo, connect_timeout=10) as connection:
            connection.read_only = True
            settings = dict(zip(NAMES, connection.execute(SETTINGS).fetchone(), strict=True))
            return [*settings_findings(settings), *_table(connection, table)]
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL cannot be asked: {error}") from error


def settings_findings(settings: Mapping[str, str]) -> Iterator[Finding]:
    """What the server's settings mean for a claim that was acknowledged."""
    yield Finding("ok", "server", f"PostgreSQL {settings['version']}")
    for name, why in (
        ("synchronous_commit", "a claim could be lost with the power after its message went out"),
        ("fsync", "the server writes nothing safely to disk"),
        ("full_page_writes", "a power cut in the middle of a page may damage the table"),
    ):
        value = settings[name]
        yield Finding("bad", name, f"off: {why}") if value == "off" else Finding("ok", name, value)
    if settings["in_recovery"] == "true":
        yield Finding("bad", "role", "a replica: it cannot be written, and may lag behind")
    elif settings["read_only"] == "on":
        yield Finding("bad", "role", "transactions are read-only by default (default_transaction_read_only)")
    else:
        yield Finding("ok", "role", "a primary that takes writes")
    standbys = settings["standbys"]
    text = standbys or "no synchronous standby: a failover may lose the newest claims"
    yield Finding("ok" if standbys else "note", "standbys", text)


def _table(connection: Any, table: str) -> Iterator[Finding]:
    columns = dict(connection.execute(COLUMNS, (table,)).fetchall())
    if not columns:
        yield Finding("bad", "table", f"{table} does not exist here")
        return
    yield _columns_finding(columns, table)
    (unique,) = connection.execute(KEY_INDEXES, (table,)).fetchone()
    if unique:
        yield Finding("ok", "key", "unique")
    else:
        yield Finding("bad", "key", "not unique: two callers can claim one key. Add a primary key on it")
    if set(EXPECTED_COLUMNS) <= set(columns):
        rows = connection.execute(f"SELECT key, status, entry::text, claimed_at::text FROM {table}")  # noqa: S608  # a checked name
        yield rows_finding(rows)


def _columns_finding(columns: Mapping[str, str], table: str) -> Finding:
    missing = [name for name in EXPECTED_COLUMNS if name not in columns]
    if missing:
        return Finding("bad", "table", f"{table} has no column {', '.join(missing)}")
    other = [f"{name} is {columns[name]}" for name in EXPECTED_COLUMNS if columns[name] != "text"]
    if other:
        return Finding("bad", "table", f"{', '.join(other)}; all of them must be text, so that entries compare exactly")
    return Finding("ok", "table", f"{table}, its columns are text")
