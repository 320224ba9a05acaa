"""SQLStore on real databases, through the connections callers have."""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from send_once import Ledger, Store
from send_once.entry import Entry
from send_once.errors import (
    BadQueryResultError,
    InvalidInputError,
    NotALedgerError,
    StoreError,
    StoreInconsistentError,
    UnsafeStoreError,
)
from send_once.stores.sql import SQLStore
from send_once.stores.sqlite import SQLiteStore
from send_once.stores.statements import SCHEMA
from send_once.testing import StoreContract, entry_of
from send_once.testing.contract import OpenStore
from sql_connections import open_on_postgres, open_on_sqlite, sqlite_connection


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite_connection(tmp_path / "ledger.db")
    yield connection
    connection.close()


@pytest.fixture
def postgres_connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(SCHEMA.format(table="send_once"))
        yield connection


class NotAcrossAFork(StoreContract):
    def test_a_forked_child_uses_the_store_it_inherited(self) -> None:
        """Not on a single connection: it is refused there."""
        store = self.make_store()
        child = os.fork()
        if child == 0:
            try:
                store.get("k")
            except UnsafeStoreError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class TestSQLStoreOnSQLite(NotAcrossAFork):
    @pytest.fixture(autouse=True)
    def _connection(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "ledger.db"
        self.connection = sqlite_connection(self.path)
        yield
        self.connection.close()

    def make_store(self) -> Store:
        return SQLStore.for_connection(self.connection)

    def opener(self) -> OpenStore:
        return functools.partial(open_on_sqlite, self.path)


# A handle that a rule opens is given no end by the contract: its connection is the caller's. The driver says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestSQLStoreOnPostgres(NotAcrossAFork):
    @pytest.fixture(autouse=True)
    def _connection(self, postgres_connection: psycopg.Connection[Any], postgres_url: str) -> None:
        self.connection, self.url = postgres_connection, postgres_url

    def make_store(self) -> Store:
        return SQLStore.for_connection(self.connection)

    def opener(self) -> OpenStore:
        return functools.partial(open_on_postgres, self.url)


def test_a_claim_inside_a_transaction_is_refused_before_anything_is_written(database: sqlite3.Connection) -> None:
    ledger = Ledger(SQLStore.for_connection(database))
    sends: list[int] = []
    database.execute("CREATE TABLE orders (n)")
    database.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(UnsafeStoreError, match="inside a transaction"):
        ledger.once("k", lambda: sends.append(1))
    database.rollback()
    assert sends == []
    assert ledger.get("k") is None


def test_a_transaction_that_only_the_caller_can_see_is_refused_by_his_word(database: sqlite3.Connection) -> None:
    def query(sql: str, parameters: list[str]) -> list[Any]:
        return database.execute(sql, parameters).fetchall()

    store = SQLStore(query, "question", in_transaction=lambda: database.in_transaction)
    database.execute("BEGIN")
    with pytest.raises(UnsafeStoreError, match="inside a transaction"):
        store.claim(entry_of("k"))


def test_a_claim_is_committed_though_the_connection_is_not_in_autocommit(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    store = SQLStore.for_connection(database)
    assert store.claim(entry_of("k"))
    assert not database.in_transaction
    database.rollback()
    assert SQLiteStore(tmp_path / "ledger.db").get("k") is not None


def test_a_psycopg_claim_is_committed_in_either_mode(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as manual, psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(SCHEMA.format(table="send_once"))
        store = SQLStore.for_connection(manual)
        assert store.claim(entry_of("k"))
        manual.rollback()
        assert SQLStore.for_connection(other).get("k") is not None


def test_a_psycopg_connection_inside_a_transaction_is_refused(postgres_connection: psycopg.Connection[Any]) -> None:
    store = SQLStore.for_connection(postgres_connection)
    with postgres_connection.transaction(), pytest.raises(UnsafeStoreError, match="inside a transaction"):
        store.claim(entry_of("k"))
    assert store.get("k") is None


def test_a_statement_that_fails_leaves_no_transaction_open(database: sqlite3.Connection) -> None:
    store = SQLStore.for_connection(database)
    assert store.claim(entry_of("k"))
    database.execute("CREATE TRIGGER refuse BEFORE INSERT ON send_once BEGIN SELECT RAISE(FAIL, 'no'); END")
    with pytest.raises(sqlite3.IntegrityError):
        store.claim(entry_of("other"))
    assert not database.in_transaction
    assert store.get("k") is not None


@pytest.mark.parametrize(
    ("setting", "problem"),
    [("synchronous = NORMAL", "does not sync every commit"), ("query_only = ON", "read-only")],
)
def test_a_sqlite_connection_that_may_lose_a_claim_is_refused(
    database: sqlite3.Connection, setting: str, problem: str
) -> None:
    database.execute(f"PRAGMA {setting}")
    with pytest.raises(UnsafeStoreError, match=problem):
        SQLStore.for_connection(database).claim(entry_of("k"))


def test_a_database_in_memory_is_refused() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(UnsafeStoreError, match="in memory"):
        SQLStore.for_connection(connection).get("k")
    connection.close()


@pytest.mark.parametrize(
    ("setting", "problem"),
    [("synchronous_commit = off", "synchronous_commit is off"), ("default_transaction_read_only = on", "read-only")],
)
def test_a_postgres_session_that_may_lose_a_claim_is_refused(
    postgres_connection: psycopg.Connection[Any], setting: str, problem: str
) -> None:
    postgres_connection.execute(f"SET {setting}")
    with pytest.raises(UnsafeStoreError, match=problem):
        SQLStore.for_connection(postgres_connection).claim(entry_of("k"))


def test_rows_may_be_dictionaries(postgres_connection: psycopg.Connection[Any], database: sqlite3.Connection) -> None:
    database.row_factory = sqlite3.Row
    postgres_connection.row_factory = dict_row
    for connection in (postgres_connection, database):
        store = SQLStore.for_connection(connection)
        assert store.claim(entry_of("k"))
        assert [entry.key for entry in store.list()] == ["k"]


def test_a_missing_table_is_said_to_be_missing(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection, pytest.raises(NotALedgerError, match="no table"):
        SQLStore.for_connection(connection).get("k")


def test_a_connection_that_does_not_show_its_state_is_refused() -> None:
    class Opaque:
        def cursor(self) -> None:
            raise AssertionError("not reached")

    with pytest.raises(UnsafeStoreError, match="does not show"):
        SQLStore.for_connection(Opaque(), "format").get("k")
    with pytest.raises(InvalidInputError, match="parameter style"):
        SQLStore.for_connection(Opaque())
    with pytest.raises(InvalidInputError, match="DB-API"):
        SQLStore.for_connection("postgresql://", "format")


def test_named_parameters_come_as_a_dictionary(database: sqlite3.Connection) -> None:
    def query(sql: str, parameters: dict[str, str]) -> sqlite3.Cursor:
        cursor = database.execute(sql, parameters)
        return cursor

    database.isolation_level = None
    ledger = Ledger(SQLStore(query, "named"))
    assert ledger.once("k", lambda: "id").outcome == "sent"
    assert ledger.once("k", lambda: "id").outcome == "duplicate"


def test_a_late_failure_does_not_overwrite_the_next_attempt(database: sqlite3.Connection) -> None:
    """Defect A1 of the reference: its update compares the status alone."""
    store = SQLStore.for_connection(database)
    first = entry_of("k")
    assert store.claim(first)
    failed = entry_of("k", status="failed", error="e")
    assert store.transition(first, failed)
    second = entry_of("k", attempts=2)
    assert store.transition(failed, second)
    assert not store.transition(first, failed)
    assert store.get("k") == second


def test_a_cursor_that_does_not_know_its_count_is_refused(database: sqlite3.Connection) -> None:
    class Unknown:
        description = None
        rowcount = -1

        def fetchall(self) -> list[Any]:
            raise AssertionError("there are no rows")

    with pytest.raises(BadQueryResultError, match="does not know how many"):
        SQLStore(lambda _sql, _parameters: Unknown()).claim(entry_of("k"))


def test_two_keys_that_a_collation_takes_for_one_are_told_apart(tmp_path: Path) -> None:
    """Else the second would be a duplicate of the first, and never sent."""
    with contextlib.closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as connection:
        connection.execute(SCHEMA.format(table="send_once").replace("key TEXT", "key TEXT COLLATE NOCASE"))
        connection.execute("PRAGMA synchronous = FULL")
        ledger = Ledger(SQLStore.for_connection(connection))
        assert ledger.once("welcome:ana", lambda: "m").outcome == "sent"
        for ask in (lambda: ledger.once("welcome:Ana", lambda: "m"), lambda: ledger.get("welcome:Ana")):
            with pytest.raises(StoreInconsistentError, match="takes two keys for one"):
                ask()


def test_a_row_that_holds_no_entry_is_an_error_not_an_absent_key(database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO send_once VALUES ('k', 'sent', '[]', '', '')")
    database.commit()
    with pytest.raises(StoreError, match="holds no entry"):
        SQLStore.for_connection(database).get("k")


def test_the_reference_and_we_read_each_others_rows(database: sqlite3.Connection) -> None:
    text = '{"key":"k","status":"failed","attempts":1,"claimedAt":"2026-09-27T11:00:00.000Z","updatedAt":"2026-09-27T11:00:00.000Z","meta":null,"error":"e"}'
    database.execute("INSERT INTO send_once VALUES ('k', 'failed', ?, ?, ?)", (text, "2026-09-27T11:00:00.000Z", "x"))
    database.commit()
    store = SQLStore.for_connection(database)
    assert Ledger(store).once("k", lambda: "id").outcome == "sent"
    found = database.execute("SELECT entry, updated_at FROM send_once").fetchone()
    entry = Entry.from_text(found[0])
    assert entry is not None
    assert (entry.status, entry.attempts, entry.updated_at) == ("sent", 2, found[1])
