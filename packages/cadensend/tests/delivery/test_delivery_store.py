"""The delivery table is a store of the library: it keeps the whole contract, on SQLite and on Postgres."""

from __future__ import annotations

import functools
import os
import sqlite3
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction

from cadensend.accounts.models import Workspace
from cadensend.delivery.models import Delivery, NeverDeletedError
from cadensend.ids import uuid7
from engine_databases import alias_of, delivery_store, new_workspace
from send_once import InvalidInputError, Ledger, Store
from send_once.errors import StoreError, UnsafeStoreError
from send_once.testing import StoreContract, entry_of
from send_once.testing.contract import OpenStore


class TestDeliveryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: str) -> None:
        self.address = database

    def make_store(self) -> Store:
        self.workspace = new_workspace(self.address)
        store: Store = delivery_store(self.address, self.workspace)
        return store

    def opener(self) -> OpenStore:
        return functools.partial(delivery_store, self.address, self.workspace)

    def test_a_forked_child_uses_the_store_it_inherited(self) -> None:
        """Not this one: it is refused there, before it touches its parent's connection."""
        store = self.make_store()
        child = os.fork()
        if child == 0:
            try:
                store.get("k")
            except UnsafeStoreError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.fixture
def workspace(database: str) -> str:
    return new_workspace(database)


@pytest.fixture
def store(database: str, workspace: str) -> Any:
    return delivery_store(database, workspace)


def about(**changes: Any) -> dict[str, Any]:
    return {"issue": str(uuid7()), "reader": str(uuid7()), "version": 1, **changes}


def test_the_columns_say_what_the_entry_says(database: str, store: Any) -> None:
    meta = about()
    Ledger(store).once("k", lambda: {"id": "queue-7"}, meta=meta)
    row = Delivery.objects.using(alias_of(database)).get(key="k")
    assert (row.status, row.attempts, row.provider_id, row.version) == ("sent", 1, "queue-7", 1)
    assert (str(row.issue), str(row.reader)) == (meta["issue"], meta["reader"])
    assert row.entry == store.get("k").text
    assert row.claim_id == store.get("k").claim_id


def test_workspaces_do_not_see_each_others_deliveries(database: str, store: Any) -> None:
    other = delivery_store(database, new_workspace(database))
    assert store.claim(entry_of("k"))
    assert other.get("k") is None
    assert list(other.list()) == []
    assert other.claim(entry_of("k", claim_id="c2"))


def test_one_version_has_one_delivery_to_a_reader_whatever_its_key(store: Any) -> None:
    meta = about()
    assert store.claim(entry_of("a", meta=meta))
    assert not store.claim(entry_of("b", meta=meta))
    assert store.claim(entry_of("c", meta={**meta, "version": 2}))


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({"issue": "12"}, "meta.issue"),
        ({"reader": 12}, "meta.reader"),
        ({"version": 0}, "meta.version"),
        ({"version": "1"}, "meta.version"),
        ({"version": True}, "meta.version"),
    ],
)
def test_what_a_delivery_is_about_is_checked_before_it_is_claimed(store: Any, meta: Any, field: str) -> None:
    sends: list[int] = []
    with pytest.raises(InvalidInputError) as refused:
        Ledger(store).once("k", lambda: sends.append(1), meta=meta)
    assert refused.value.field == field
    assert (sends, store.get("k")) == ([], None)


def test_a_claim_in_a_transaction_is_there_when_that_commits_and_not_before(database: str, store: Any) -> None:
    alias = alias_of(database)
    with transaction.atomic(using=alias):
        assert Ledger(store).claim("kept").outcome == "claimed"
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        assert Ledger(store).claim("undone").outcome == "claimed"
        raise ZeroDivisionError
    assert store.get("kept") is not None
    assert store.get("undone") is None


def test_a_delivery_is_never_deleted(database: str, store: Any, workspace: str) -> None:
    store.claim(entry_of("k"))
    deliveries = Delivery.objects.using(alias_of(database))
    with pytest.raises(NeverDeletedError):
        deliveries.get(key="k").delete()
    with pytest.raises(NeverDeletedError):
        deliveries.all().delete()
    with pytest.raises(Exception, match=r"protected|PROTECT|foreign"):
        Workspace.objects.using(alias_of(database)).get(id=workspace).delete()
    assert store.get("k") is not None


def test_the_database_syncs_every_commit(database: str) -> None:
    with connections[alias_of(database)].cursor() as cursor:
        if database.startswith("sqlite"):
            settings = [cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
            assert settings == ["wal", 2]
        else:
            cursor.execute("SELECT current_setting('synchronous_commit')")
            assert cursor.fetchone() == ("on",)


def test_a_database_that_fails_is_an_error_of_the_store(database: str, store: Any) -> None:
    with connections[alias_of(database)].cursor() as cursor:
        cursor.execute("ALTER TABLE cadensend_delivery RENAME TO elsewhere")
    with pytest.raises(StoreError, match="cadensend_delivery") as raised:
        store.claim(entry_of("k"))
    assert isinstance(raised.value.__cause__, DatabaseError)
    with connections[alias_of(database)].cursor() as cursor:
        cursor.execute("ALTER TABLE elsewhere RENAME TO cadensend_delivery")
    assert store.claim(entry_of("k"))


def test_a_batch_beyond_one_statement_is_claimed_whole(store: Any) -> None:
    entries = [entry_of(f"k{number}") for number in range(250)]
    store.claim(entries[120])
    answers = store.claim_many(entries)
    assert [number for number, won in enumerate(answers) if not won] == [120]


def test_rows_of_sqlite_are_what_django_reads(database: str, store: Any, workspace: str) -> None:
    """The statements are ours, the table Django's: both must write ids alike."""
    store.claim(entry_of("k", meta=about()))
    row = Delivery.objects.using(alias_of(database)).get(workspace_id=workspace, key="k")
    assert (row.workspace.name, row.id.version) == ("Kitchen", 7)
    if database.startswith("sqlite"):
        with sqlite3.connect(database.removeprefix("sqlite://")) as plain:
            assert plain.execute("SELECT length(id) FROM cadensend_delivery").fetchone() == (32,)
        plain.close()


def test_the_migrations_are_those_of_the_models() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
